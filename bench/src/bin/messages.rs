//! Messages and bytes per operation, for clusters of several shapes, as a Markdown table: what
//! `docs/scaling.md` is checked against. Nothing of it depends on the machine.
#![expect(clippy::print_stdout, reason = "a command-line tool answers on standard output")]

use bench::cluster::Shape;
use bench::scaling::{Each, OPERATIONS, counted, idle};
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
    let shapes =
        SHAPES.map(|(data_nodes, replicas, workers)| Shape { data_nodes, replicas, workers });
    for operation in OPERATIONS {
        for shape in shapes {
            line(operation.name(), shape, &counted(operation, shape));
        }
    }
    for shape in shapes {
        line("a second without work", shape, &idle(shape));
    }
}

fn line(name: &str, shape: Shape, each: &Each) {
    let Shape { data_nodes, replicas, workers } = shape;
    println!(
        "| {name} | {data_nodes} | {replicas} | {workers} | {:.1} | {:.1} | {:.1} | {:.0} |",
        each.messages, each.between_workers, each.between_nodes, each.bytes
    );
}
