//! Messages and bytes per operation, for clusters of several shapes, as a Markdown table: what
//! `docs/scaling.md` is checked against. Nothing of it depends on the machine.
#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]

use bench::cluster::Shape;
use bench::scaling::{OPERATIONS, counted};
use mimalloc::MiMalloc;

/// The server's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Data nodes, replicas, workers.
const SHAPES: [(u16, u8, u8); 8] =
    [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (4, 2, 1), (4, 2, 2), (8, 2, 1), (8, 2, 2)];

fn main() {
    println!(
        "| operation | data nodes | replicas | workers | messages | between workers | \
         between nodes | bytes between nodes |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for operation in OPERATIONS {
        for (data_nodes, replicas, workers) in SHAPES {
            let shape = Shape { data_nodes, replicas, workers };
            let each = counted(operation, shape);
            println!(
                "| {} | {data_nodes} | {replicas} | {workers} | {:.1} | {:.1} | {:.1} | {:.0} |",
                operation.name(),
                each.messages,
                each.between_workers,
                each.between_nodes,
                each.bytes
            );
        }
    }
}
