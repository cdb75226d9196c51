//! Cost of the data node's operations in one thread: `cargo bench -p bench --bench kernel`.
//!
//! Prints a table, or with `--json` an array. `--rows N` sets the number of rows (a million),
//! `--operations N` that of reads and updates through the actors (as many as rows). `--storage`,
//! `--replicas`, `--disk` and `--codec` measure one part alone, `--only TEXT` the rates whose names
//! contain the text.
#![expect(clippy::print_stdout, reason = "a bench answers on standard output")]

use std::sync::Arc;

use bench::codec;
use bench::disk;
use bench::measure::Report;
use bench::replicas::Replicas;
use bench::storage;
use mimalloc::MiMalloc;
use model::{ColumnId, Expression, Table, Value};

/// The server's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let number = |name: &str| after(name).and_then(|text| text.parse::<u64>().ok());
    let rows = number("--rows").unwrap_or(1_000_000);
    let mut report = Report::new(after("--only").unwrap_or(""));
    let parts = ["--storage", "--replicas", "--disk", "--codec"];
    let wants = |part: &str| has(part) || !parts.iter().any(|other| has(other));
    if wants("--storage") {
        storage::measure(&mut report, rows);
        let entries = u32::try_from(rows * 10).expect("fewer rows");
        storage::measure_hash_index_pauses(&mut report, entries);
    }
    if wants("--codec") {
        codec::measure(&mut report);
    }
    if wants("--disk") {
        disk::measure(&mut report, rows);
    }
    if wants("--replicas") {
        measure_replicas(&mut report, rows, number("--operations").unwrap_or(rows));
    }
    print!("{}", if has("--json") { report.json() } else { report.table() });
}

/// Whole transactions through coordinators and participants of two replicas.
fn measure_replicas(report: &mut Report, rows: u64, operations: u64) {
    let mut table: Table = storage::table();
    table.partition_count = 2;
    let mut replicas = Replicas::new(Arc::new(table));
    let (text, pad) = (Value::text(&"c".repeat(120)), Value::text(&"p".repeat(60)));
    report.rate_of_setup("two replicas: insert", rows, || {
        for id in 0..rows as i64 {
            let k = Value::Int(id * 7919 % rows as i64);
            replicas.insert(&[Value::Int(id), k, text.clone(), pad.clone()]);
        }
    });
    let id_of = |i: u64| (i * 2_654_435_761 % rows) as i64;
    report.rate("two replicas: read by key", operations, || {
        for i in 0..operations {
            replicas.read(id_of(i)).expect("the row is there");
        }
    });
    let c_is = |i: u64| Expression::Constant(Value::text(&format!("{i:0120}")));
    let texts: Vec<Expression> = (0..100).map(c_is).collect();
    report.rate("two replicas: update of c by key", operations, || {
        for i in 0..operations {
            replicas.update(&[id_of(i)], C, &texts[i as usize % texts.len()]);
        }
    });
    let k_plus_one = Expression::add(K, 1);
    report.rate("two replicas: update of k by key", operations, || {
        for i in 0..operations {
            replicas.update(&[id_of(i)], K, &k_plus_one);
        }
    });
    report.rate("two replicas: update of k, ten in a transaction", operations / 10 * 10, || {
        for i in 0..operations / 10 {
            let ids: Vec<i64> = (0..10).map(|at| id_of(i * 10 + at)).collect();
            replicas.update(&ids, K, &k_plus_one);
        }
    });
}

/// The column with an ordered index, and a long one without.
const K: ColumnId = ColumnId(1);
const C: ColumnId = ColumnId(2);
