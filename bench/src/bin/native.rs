//! What operations cost an application that uses the client library, without SQL and sockets: keys
//! in batches, and YCSB's core workloads, as a table or with `--json` as an array.
//!
//! All actors of two data nodes with two replicas and of the application run in one thread; a rate
//! counts all of them. `--rows N` sets the rows of sysbench's table (100,000; a tenth for YCSB),
//! `--operations N` how many of each kind are run (as many as rows).
#![expect(clippy::print_stdout, reason = "a bench answers on standard output")]

use bench::measure::Report;
use bench::native::{Native, Request};
use bench::storage;
use bench::ycsb::{self, Ycsb};
use client::{ClientOperation, ClientRead};
use mimalloc::MiMalloc;
use model::{ColumnId, Expression, Value};

/// The server's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A long column without an index.
const C: ColumnId = ColumnId(2);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let rows = number("--rows").unwrap_or(100_000);
    let operations = number("--operations").unwrap_or(rows);
    let mut report = Report::new("");
    keys(&mut report, rows, operations);
    mixes(&mut report, rows / 10, operations);
    let json = arguments.iter().any(|argument| argument == "--json");
    print!("{}", if json { report.json() } else { report.table() });
}

/// Operations by key, one by one and many together.
fn keys(report: &mut Report, rows: u64, operations: u64) {
    let mut native = Native::default();
    let table = native.create("sbtest1", storage::table().columns, "k").id;
    let row = |id: u64| {
        let (text, pad) = (Value::text(&"c".repeat(120)), Value::text(&"p".repeat(60)));
        vec![Value::Int(id as i64), Value::Int((id * 7919 % rows) as i64), text, pad]
    };
    report.rate("insert, 100 in a transaction", rows, || native.fill(table, (0..rows).map(row)));
    let key_of = move |at: u64| vec![Value::Int((at * 2_654_435_761 % rows) as i64)];
    for batch in [1, 100] {
        let batches = operations / batch;
        let all = move |at: u64| (at * batch..(at + 1) * batch).map(key_of);
        report.rate(&format!("read by key, {batch} at a time"), batches * batch, || {
            let read = |key| ClientRead::primary(table, key);
            let request = |at| Request::Read(all(at).map(read).collect());
            assert_eq!(native.run((0..batches).map(request)), batches * batch, "all are there");
        });
        report.rate(&format!("update by key, {batch} in a transaction"), batches * batch, || {
            let text = Expression::Constant(Value::text(&"d".repeat(120)));
            let update = |key| ClientOperation::update(table, key, vec![(C, text.clone())]);
            native.run((0..batches).map(|at| Request::Execute(all(at).map(update).collect())));
        });
    }
}

/// YCSB's core workloads, an operation after the other.
fn mixes(report: &mut Report, rows: u64, operations: u64) {
    let mut ycsb = Ycsb::new(rows);
    for mix in ycsb::MIXES {
        // Fifty rows each.
        let operations = if mix.name == 'E' { operations / 10 } else { operations };
        report.rate(&format!("YCSB {}", mix.name), operations, || {
            ycsb.run(mix, operations);
        });
    }
}
