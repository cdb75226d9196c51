//! Cost of the data node's operations in one thread: `cargo bench -p bench --bench kernel`.
//!
//! Prints a table, or with `--json` an array. `--rows N` sets the number of rows (a million),
//! `--storage` leaves out the actors.
#![expect(clippy::print_stdout, reason = "a bench answers on standard output")]

use std::sync::Arc;

use bench::measure::Report;
use bench::replicas::Replicas;
use bench::storage;
use model::{ColumnId, Table, Value};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let rows = arguments.iter().position(|argument| argument == "--rows");
    let rows = rows.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(1_000_000);
    let mut report = Report::new();
    storage::measure(&mut report, rows);
    storage::measure_hash_index_pauses(&mut report, u32::try_from(rows * 10).expect("fewer rows"));
    if !has("--storage") {
        measure_replicas(&mut report, rows as i64);
    }
    print!("{}", if has("--json") { report.json() } else { report.table() });
}

/// Whole transactions through coordinators and participants of two replicas.
fn measure_replicas(report: &mut Report, rows: i64) {
    let mut table: Table = storage::table();
    table.partition_count = 2;
    let mut replicas = Replicas::new(Arc::new(table));
    let (c, pad) = (Value::text(&"c".repeat(120)), Value::text(&"p".repeat(60)));
    let count = rows as u64;
    report.rate("two replicas: insert", count, || {
        for id in 0..rows {
            let k = Value::Int(id * 7919 % rows);
            replicas.insert(&[Value::Int(id), k, c.clone(), pad.clone()]);
        }
    });
    let id_of = |i: u64| (i * 2_654_435_761 % count) as i64;
    report.rate("two replicas: read by key", count, || {
        for i in 0..count {
            replicas.read(id_of(i)).expect("the row is there");
        }
    });
    report.rate("two replicas: update of k by key", count, || {
        for i in 0..count {
            replicas.update(id_of(i), ColumnId(1));
        }
    });
}
