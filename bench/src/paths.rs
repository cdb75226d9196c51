//! The paths whose instructions are counted: what each prepares, and what it repeats.
//!
//! # Owns
//! Names of paths, their tables, statements and keys, how often each is run.
//! # Guarantees
//! Two runs of a path are the same to the last instruction, as far as it is up to this program:
//! keys follow from a counter, nothing is drawn, no clock is read.
//! # Not here
//! Who counts: a profiler that looks for functions with `counted_` in their names
//! (`cargo xtask bench instructions`).

use std::fmt::Write as _;
use std::sync::Arc;

use model::{ColumnId, Expression, Row, Table, Value};

use crate::client::{Client, Command, Expected, Parameter, Statement};
use crate::cluster::{Cluster, SMALLEST, Shape};
use crate::replicas::Replicas;
use crate::storage;

/// A path.
#[derive(Clone, Copy)]
pub struct Path {
    /// In the record of counts.
    pub name: &'static str,
    /// How many operations are counted.
    pub operations: u32,
    run: fn(u32),
}

/// All paths, by name. Statements are those of sysbench's scripts.
pub const PATHS: [Path; 19] = [
    Path { name: "insert_bulk_text", operations: 16, run: insert_bulk_text },
    Path { name: "insert_large_prepared", operations: 200, run: insert_large_prepared },
    Path { name: "insert_prepared", operations: 400, run: insert_prepared },
    Path { name: "insert_rows_text", operations: 20, run: insert_rows_text },
    Path { name: "load_rows", operations: 4, run: load_rows },
    Path { name: "lock_update_transaction", operations: 200, run: lock_update_transaction },
    Path { name: "native_read", operations: 2_000, run: native_read },
    Path { name: "native_update", operations: 1_000, run: native_update },
    Path { name: "range_distinct", operations: 100, run: range_distinct },
    Path { name: "range_order", operations: 100, run: range_order },
    Path { name: "range_rows", operations: 100, run: range_rows },
    Path { name: "range_sum", operations: 100, run: range_sum },
    Path { name: "read_write_transaction", operations: 40, run: read_write_transaction },
    Path { name: "select_prepared", operations: 1_000, run: select_prepared },
    Path { name: "select_text", operations: 1_000, run: select_text },
    Path { name: "update_decimal_text", operations: 400, run: update_decimal_text },
    Path { name: "update_index_prepared", operations: 400, run: update_index_prepared },
    Path { name: "update_prepared", operations: 400, run: update_prepared },
    Path { name: "update_text", operations: 400, run: update_text },
];

impl Path {
    /// Runs the path: what it prepares, some operations to get warm, and those that are counted.
    pub fn run(&self) {
        (self.run)(self.operations);
    }
}

/// Rows of the table.
pub(crate) const ROWS: u32 = 1_000;
/// Rows that one statement inserts when the table is filled.
const BATCH: u32 = 50;
/// Sysbench's table.
const TABLE: &str = "CREATE TABLE sbtest1 (id INTEGER NOT NULL AUTO_INCREMENT, \
     k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
     pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))";
/// Rows of a statement that fills a table, how many of these come before those that are counted,
/// and rows of a file.
const BULK_ROWS: u32 = 1_000;
const BULK_WARM_UP: u32 = 4;
const LOADED_ROWS: u32 = 8_000;
/// How a count of rows above 250 begins in an answer.
const TWO_BYTES: u8 = 252;
/// Operations before those that are counted: caches of plans fill, buffers take their size.
const WARM_UP: u32 = 50;
/// Rows of a range.
const RANGE: u32 = 100;

/// A key that differs from one operation to the next, from 1 to `keys`.
pub(crate) fn key_of(operation: u32, keys: u32) -> i32 {
    (u64::from(operation) * 2_654_435_761 % u64::from(keys)) as i32 + 1
}

/// A text of 119 characters, as sysbench makes them: groups of digits.
pub(crate) fn long_text(of: u32) -> String {
    let mut text = String::new();
    for group in 0..10_u32 {
        let digits = u64::from(of) * 7_919 + u64::from(group) * 104_729;
        write!(text, "{}{digits:011}", if group > 0 { "-" } else { "" })
            .expect("a string takes all");
    }
    text
}

/// A text of 59 characters.
fn pad_text(of: u32) -> String {
    long_text(of)[..59].to_string()
}

/// A client of a cluster that holds sysbench's table.
fn client() -> Client {
    let mut client = Client::new(Cluster::start(SMALLEST));
    fill(&mut client);
    client
}

/// Makes sysbench's table.
pub(crate) fn fill(client: &mut Client) {
    client.run("CREATE DATABASE sbtest");
    client.run("USE sbtest");
    client.run(TABLE);
    for first in (1..=ROWS).step_by(BATCH as usize) {
        let rows = rows(first, BATCH);
        client.run(&format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES {rows}"));
    }
    client.run("CREATE INDEX k_1 ON sbtest1 (k)");
}

/// Makes a table whose values lie outside of its rows.
pub(crate) fn fill_large(client: &mut Client) {
    client.run(
        "CREATE TABLE large1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT, b TEXT, KEY (k))",
    );
}

/// A text of 10,000 characters.
pub(crate) fn large_text(of: u32) -> String {
    long_text(of).repeat(85)[..10_000].to_string()
}

/// Rows for VALUES, with keys from `first` on.
fn rows(first: u32, count: u32) -> String {
    let row = |id| format!("({id}, {}, '{}', '{}')", id % 500 + 1, long_text(id), pad_text(id));
    (first..first + count).map(row).collect::<Vec<_>>().join(", ")
}

/// Asks what `command` makes of the numbers of operations: first without counting, then counted.
fn count(client: &mut Client, operations: u32, command: impl Fn(u32) -> Command) {
    for operation in 0..WARM_UP {
        client.ask(&command(operation));
    }
    for operation in WARM_UP..WARM_UP + operations {
        client.ask_counted(&command(operation));
    }
}

fn select_text(operations: u32) {
    count(&mut client(), operations, |operation| {
        let id = key_of(operation, ROWS);
        Command::text(&format!("SELECT c FROM sbtest1 WHERE id={id}"), Expected::Rows(1))
    });
}

fn select_prepared(operations: u32) {
    let mut client = client();
    let select = client.prepare("SELECT c FROM sbtest1 WHERE id=?");
    count(&mut client, operations, |operation| {
        let id = key_of(operation, ROWS);
        Command::execute(select, &[Parameter::Int(id)], Expected::Rows(1))
    });
}

fn update_text(operations: u32) {
    count(&mut client(), operations, |operation| {
        let (id, c) = (key_of(operation, ROWS), long_text(ROWS + operation));
        let text = format!("UPDATE sbtest1 SET c='{c}' WHERE id={id}");
        Command::text(&text, Expected::Changed(1))
    });
}

fn update_prepared(operations: u32) {
    let mut client = client();
    let update = client.prepare("UPDATE sbtest1 SET c=? WHERE id=?");
    count(&mut client, operations, |operation| {
        let (id, c) = (key_of(operation, ROWS), long_text(ROWS + operation));
        let parameters = [Parameter::Text(&c), Parameter::Int(id)];
        Command::execute(update, &parameters, Expected::Changed(1))
    });
}

/// As TPC-C's Payment changes a balance: the SQL node computes with decimals.
fn update_decimal_text(operations: u32) {
    let mut client = client();
    client
        .run("CREATE TABLE account (id INT NOT NULL PRIMARY KEY, balance DECIMAL(12,2) NOT NULL)");
    let rows: Vec<String> = (1..=ROWS).map(|id| format!("({id}, 10.5)")).collect();
    client.run(&format!("INSERT INTO account VALUES {}", rows.join(", ")));
    count(&mut client, operations, |operation| {
        let (id, cents) = (key_of(operation, ROWS), operation % 90 + 10);
        let text = format!("UPDATE account SET balance = balance - 7.{cents} WHERE id={id}");
        Command::text(&text, Expected::Changed(1))
    });
}

fn update_index_prepared(operations: u32) {
    let mut client = client();
    let update = client.prepare("UPDATE sbtest1 SET k=k+1 WHERE id=?");
    count(&mut client, operations, |operation| {
        let id = key_of(operation, ROWS);
        Command::execute(update, &[Parameter::Int(id)], Expected::Changed(1))
    });
}

fn insert_prepared(operations: u32) {
    let mut client = client();
    let insert = client.prepare("INSERT INTO sbtest1 (k, c, pad) VALUES (?, ?, ?)");
    count(&mut client, operations, |operation| {
        let (k, c, pad) = (key_of(operation, 500), long_text(operation), pad_text(operation));
        let parameters = [Parameter::Int(k), Parameter::Text(&c), Parameter::Text(&pad)];
        Command::execute(insert, &parameters, Expected::Changed(1))
    });
}

/// With two workers, of which one has to do with a row and the parts of its value.
fn insert_large_prepared(operations: u32) {
    let mut client = Client::new(Cluster::start(Shape { workers: 2, ..SMALLEST }));
    fill(&mut client);
    fill_large(&mut client);
    let insert = client.prepare("INSERT INTO large1 (b) VALUES (?)");
    count(&mut client, operations, |operation| {
        let value = large_text(operation);
        Command::execute(insert, &[Parameter::Text(&value)], Expected::Changed(1))
    });
}

/// As sysbench and dumps fill a table: one statement inserts many rows, each with its key.
fn insert_rows_text(operations: u32) {
    count(&mut client(), operations, |operation| {
        let first = ROWS + 1 + operation * RANGE;
        let text = format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES {}", rows(first, RANGE));
        Command::text(&text, Expected::Changed(RANGE as u8))
    });
}

/// A client with sysbench's table as it is while it is filled: empty, and without the index of `k`.
fn client_that_fills() -> Client {
    let mut client = Client::new(Cluster::start(SMALLEST));
    client.run("CREATE DATABASE sbtest");
    client.run("USE sbtest");
    client.run(TABLE);
    client
}

/// As sysbench fills its tables: many rows in a statement.
fn insert_bulk_text(operations: u32) {
    let mut client = client_that_fills();
    for operation in 0..BULK_WARM_UP + operations {
        let first = 1 + operation * BULK_ROWS;
        let text = format!("INSERT INTO sbtest1 (id, k, c, pad) VALUES {}", rows(first, BULK_ROWS));
        let command = Command::text(&text, Expected::Changed(TWO_BYTES));
        if operation < BULK_WARM_UP { client.ask(&command) } else { client.ask_counted(&command) }
    }
}

/// LOAD DATA LOCAL; an operation is a file, and a transaction.
fn load_rows(operations: u32) {
    let mut client = client_that_fills();
    client.run("SET GLOBAL local_infile = 1");
    for operation in 0..1 + operations {
        let first = 1 + operation * LOADED_ROWS;
        let line = |id| format!("{id}\t{}\t{}\t{}\n", id % 500 + 1, long_text(id), pad_text(id));
        let file: String = (first..first + LOADED_ROWS).map(line).collect();
        client.load(
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE sbtest1",
            file.as_bytes(),
            operation > 0,
        );
    }
}

/// What oltp_read_write asks of a range of the primary key, and how many rows that gives.
const RANGES: [(&str, &str, usize); 4] = [
    ("c", "", RANGE as usize),
    ("SUM(k)", "", 1),
    ("c", " ORDER BY c", RANGE as usize),
    ("DISTINCT c", " ORDER BY c", RANGE as usize),
];

/// A statement that asks for a range.
#[derive(Clone, Copy)]
struct RangeStatement {
    statement: Statement,
    /// How many rows answer it.
    rows: usize,
}

fn prepare_range(client: &mut Client, of: &str, order: &str, rows: usize) -> RangeStatement {
    let text = format!("SELECT {of} FROM sbtest1 WHERE id BETWEEN ? AND ?{order}");
    RangeStatement { statement: client.prepare(&text), rows }
}

/// Asks for the range that `draw` stands for.
fn ask_range(range: RangeStatement, draw: u32) -> Command {
    let first = key_of(draw, ROWS - RANGE + 1);
    let parameters = [Parameter::Int(first), Parameter::Int(first + RANGE as i32 - 1)];
    Command::execute(range.statement, &parameters, Expected::Rows(range.rows))
}

fn count_range(operations: u32, which: usize) {
    let mut client = client();
    let (of, order, rows) = RANGES[which];
    let range = prepare_range(&mut client, of, order, rows);
    count(&mut client, operations, |operation| ask_range(range, operation));
}

fn range_rows(operations: u32) {
    count_range(operations, 0);
}

fn range_sum(operations: u32) {
    count_range(operations, 1);
}

fn range_order(operations: u32) {
    count_range(operations, 2);
}

fn range_distinct(operations: u32) {
    count_range(operations, 3);
}

/// The statements of sysbench's oltp_read_write.
struct ReadWrite {
    point: Statement,
    ranges: [RangeStatement; 4],
    update_index: Statement,
    update: Statement,
    delete: Statement,
    insert: Statement,
}

impl ReadWrite {
    fn new(client: &mut Client) -> Self {
        let ranges = RANGES.map(|(of, order, rows)| prepare_range(client, of, order, rows));
        Self {
            point: client.prepare("SELECT c FROM sbtest1 WHERE id=?"),
            ranges,
            update_index: client.prepare("UPDATE sbtest1 SET k=k+1 WHERE id=?"),
            update: client.prepare("UPDATE sbtest1 SET c=? WHERE id=?"),
            delete: client.prepare("DELETE FROM sbtest1 WHERE id=?"),
            insert: client.prepare("INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)"),
        }
    }

    /// The commands of one transaction, BEGIN and COMMIT included.
    fn commands(&self, number: u32) -> Vec<Command> {
        let id = |at| Parameter::Int(key_of(number * 20 + at, ROWS));
        let c = long_text(ROWS + number);
        let changed = Expected::Changed(1);
        let mut commands = vec![Command::text("BEGIN", Expected::Changed(0))];
        for at in 0..10 {
            commands.push(Command::execute(self.point, &[id(at)], Expected::Rows(1)));
        }
        for (at, range) in self.ranges.iter().enumerate() {
            commands.push(ask_range(*range, number * 20 + 10 + at as u32));
        }
        commands.push(Command::execute(self.update_index, &[id(14)], changed));
        commands.push(Command::execute(self.update, &[Parameter::Text(&c), id(15)], changed));
        commands.push(Command::execute(self.delete, &[id(16)], changed));
        let (k, pad) = (Parameter::Int(key_of(number, 500)), pad_text(number));
        let row = [id(16), k, Parameter::Text(&c), Parameter::Text(&pad)];
        commands.push(Command::execute(self.insert, &row, changed));
        commands.push(Command::text("COMMIT", Expected::Changed(0)));
        commands
    }
}

fn read_write_transaction(operations: u32) {
    let mut client = client();
    let statements = ReadWrite::new(&mut client);
    for number in 0..5 {
        statements.commands(number).iter().for_each(|command| client.ask(command));
    }
    for number in 5..5 + operations {
        statements.commands(number).iter().for_each(|command| client.ask_counted(command));
    }
}

/// What an application does that reads a row to change it: four statements.
fn lock_update_transaction(operations: u32) {
    let mut client = client();
    let select = client.prepare("SELECT c, pad FROM sbtest1 WHERE id=? FOR UPDATE");
    let update = client.prepare("UPDATE sbtest1 SET pad=? WHERE id=?");
    for number in 0..WARM_UP + operations {
        let (id, pad) = (Parameter::Int(key_of(number, ROWS)), pad_text(ROWS + number));
        let commands = [
            Command::text("BEGIN", Expected::Changed(0)),
            Command::execute(select, &[id], Expected::Rows(1)),
            Command::execute(update, &[Parameter::Text(&pad), id], Expected::Changed(1)),
            Command::text("COMMIT", Expected::Changed(0)),
        ];
        for command in &commands {
            if number < WARM_UP { client.ask(command) } else { client.ask_counted(command) }
        }
    }
}

/// Two replicas without SQL, with sysbench's rows.
fn replicas() -> Replicas {
    let mut table: Table = storage::table();
    table.partition_count = 2;
    let mut replicas = Replicas::new(Arc::new(table));
    for id in 1..=ROWS {
        let pad = Value::text(&format!("{:60}", pad_text(id)));
        let k = Value::Int(i64::from(id % 500));
        replicas.insert(&[Value::Int(i64::from(id)), k, native_text(id), pad]);
    }
    replicas
}

/// The long text of a column that is as wide as its text.
fn native_text(of: u32) -> Value {
    Value::text(&format!("{:120}", long_text(of)))
}

#[inline(never)]
fn counted_read(replicas: &mut Replicas, id: i64) -> Option<Row> {
    replicas.read(id)
}

#[inline(never)]
fn counted_update(replicas: &mut Replicas, id: i64, column: ColumnId, value: &Expression) {
    replicas.update(&[id], column, value);
}

fn native_read(operations: u32) {
    let mut replicas = replicas();
    for operation in 0..WARM_UP {
        replicas.read(i64::from(key_of(operation, ROWS)));
    }
    for operation in WARM_UP..WARM_UP + operations {
        let row = counted_read(&mut replicas, i64::from(key_of(operation, ROWS)));
        assert!(row.is_some(), "the row is there");
    }
}

fn native_update(operations: u32) {
    /// The long column without an index.
    const C: ColumnId = ColumnId(2);
    let mut replicas = replicas();
    for operation in 0..WARM_UP + operations {
        let id = i64::from(key_of(operation, ROWS));
        let value = Expression::Constant(native_text(ROWS + operation));
        if operation < WARM_UP {
            replicas.update(&[id], C, &value)
        } else {
            counted_update(&mut replicas, id, C, &value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_runs() {
        for path in PATHS {
            (path.run)(3);
        }
    }

    #[test]
    fn names_are_sorted() {
        assert!(PATHS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn texts_have_their_lengths() {
        assert_eq!((long_text(7).len(), pad_text(7).len()), (119, 59));
        assert_eq!(large_text(7).len(), 10_000);
        assert_ne!(long_text(7), long_text(8));
    }
}
