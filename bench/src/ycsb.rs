//! The core workloads of YCSB without SQL: rows, keys and mixes as its own core draws them.
//!
//! Source: B. F. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010, and the
//! workload files of its release 0.17; keys by Zipf's law as in J. Gray et al., "Quickly Generating
//! Billion-Record Synthetic Databases", SIGMOD 1994.
//!
//! # Owns
//! The table, the mixes A to F, how keys are drawn.
//! # Guarantees
//! The same seed asks for the same.
//! # Not here
//! How requests are run (`native`), YCSB through SQL (`bench/compare/ycsb`).

use std::sync::Arc;

use client::{ClientOperation, ClientRead, IndexBound, ScanRange, ScanSpec};
use model::{Column, ColumnId, ColumnType, Expression, Table, Value};
use stdx::Prng;
use wire::ScanOrder;

use crate::native::{Native, Request};

/// Fields of a row, and bytes of each.
const FIELDS: u16 = 10;
const FIELD_BYTES: u16 = 100;
/// Most rows of a scan.
const SCAN_MAX: u64 = 100;
/// The exponent of Zipf's law.
const THETA: f64 = 0.99;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// A workload: its letter, and two kinds of operations with the share of the first in a hundred.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// As YCSB calls it.
    pub name: char,
    first: Kind,
    percent: u64,
    second: Kind,
    /// Keys that were inserted last are drawn most.
    latest: bool,
}

const fn mix(name: char, first: Kind, percent: u64, second: Kind) -> Mix {
    Mix { name, first, percent, second, latest: name == 'D' }
}

/// The core workloads.
pub const MIXES: [Mix; 6] = [
    mix('A', Kind::Read, 50, Kind::Update),
    mix('B', Kind::Read, 95, Kind::Update),
    mix('C', Kind::Read, 100, Kind::Read),
    mix('D', Kind::Read, 95, Kind::Insert),
    mix('E', Kind::Scan, 95, Kind::Insert),
    mix('F', Kind::Read, 50, Kind::ReadModifyWrite),
];

/// A cluster with YCSB's table.
pub struct Ycsb {
    native: Native,
    table: Arc<Table>,
    rows: u64,
    prng: Prng,
    ranks: Zipf,
}

impl Ycsb {
    /// Makes the table, and fills it.
    pub fn new(rows: u64) -> Self {
        let mut native = Native::default();
        let table = native.create("usertable", columns(), KEY);
        let mut prng = Prng::new(1);
        native.fill(table.id, (0..rows).map(|number| row(number, &mut prng)));
        Self { native, table, rows, prng, ranks: Zipf::new(rows) }
    }

    /// Runs operations, one after the other; how many rows were read.
    pub fn run(&mut self, mix: Mix, operations: u64) -> u64 {
        let mut requests = Vec::new();
        let mut rows = 0;
        for at in 1..=operations {
            self.operation(mix, &mut requests);
            // Rows to be inserted are values of their own: few at a time.
            if requests.len() >= 500 || at == operations {
                rows += self.native.run(requests.drain(..));
            }
        }
        rows
    }

    fn operation(&mut self, mix: Mix, requests: &mut Vec<Request>) {
        let is_first = self.prng.percent(mix.percent);
        let kind = if is_first { mix.first } else { mix.second };
        let table = self.table.id;
        if kind == Kind::Insert {
            let row = row(self.rows, &mut self.prng);
            self.rows += 1;
            requests.push(Request::Execute(vec![ClientOperation::insert(table, row)]));
            return;
        }
        let key = self.key(mix.latest);
        if kind == Kind::Scan {
            let order = Some(ScanOrder::Ascending);
            let lower = Some(IndexBound::including(vec![key]));
            let index = self.table.ordered_indexes[0].id;
            let range = ScanRange::Index { index, lower, upper: None, order };
            let limit = Some(1 + self.prng.below(SCAN_MAX));
            requests.push(Request::Scan(Box::new(ScanSpec {
                range,
                limit,
                ..ScanSpec::heap(table)
            })));
            return;
        }
        if kind != Kind::Update {
            requests.push(Request::Read(vec![ClientRead::primary(table, vec![key.clone()])]));
        }
        if kind != Kind::Read {
            let field = ColumnId(1 + self.prng.below(u64::from(FIELDS)) as u16);
            let value = Expression::Constant(value(&mut self.prng));
            let update = ClientOperation::update(table, vec![key], vec![(field, value)]);
            requests.push(Request::Execute(vec![update]));
        }
    }

    /// A key of a row that is there.
    fn key(&mut self, latest: bool) -> Value {
        let rank = self.ranks.draw(&mut self.prng);
        if latest {
            name(self.rows - 1 - rank)
        } else {
            // Which rows are asked for often has nothing to do with when they were inserted.
            name(scramble(rank) % self.rows)
        }
    }
}

/// The columns of the table: a key, ten fields.
/// The column of the key.
const KEY: &str = "ycsb_key";

fn columns() -> Vec<Column> {
    let field = |at| testing::column(&format!("field{at}"), ColumnType::Variable(FIELD_BYTES));
    let key = testing::column(KEY, ColumnType::Variable(64));
    std::iter::once(key).chain((0..FIELDS).map(field)).collect()
}

fn row(number: u64, prng: &mut Prng) -> Vec<Value> {
    std::iter::once(name(number)).chain((0..FIELDS).map(|_| value(prng))).collect()
}

fn value(prng: &mut Prng) -> Value {
    let byte = |_| b' ' + prng.below(95) as u8;
    Value::Bytes((0..FIELD_BYTES).map(byte).collect())
}

/// The key of a row by its number: rows that follow each other lie apart.
fn name(number: u64) -> Value {
    Value::text(&format!("user{}", scramble(number)))
}

/// FNV-1a of the bytes.
fn scramble(number: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    number.to_le_bytes().into_iter().fold(14_695_981_039_346_656_037, mix)
}

/// Draws ranks by Zipf's law: 0 most often.
struct Zipf {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    fn new(count: u64) -> Self {
        let zeta = |count: u64| (1..=count).map(|at| (at as f64).powf(-THETA)).sum::<f64>();
        let (all, alpha) = (zeta(count), 1.0 / (1.0 - THETA));
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / all);
        Self { count: count as f64, zeta: all, alpha, eta }
    }

    fn draw(&self, prng: &mut Prng) -> u64 {
        let uniform = prng.next_u64() as f64 / 2_f64.powi(64);
        let share = uniform * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let rank = self.count * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_reads_what_is_there() {
        let mut ycsb = Ycsb::new(200);
        for mix in MIXES {
            let before = ycsb.rows;
            let read = ycsb.run(mix, 300);
            let inserted = ycsb.rows - before;
            assert_eq!(inserted > 0, mix.second == Kind::Insert, "{mix:?}");
            match mix.name {
                'C' | 'F' => assert_eq!(read, 300, "{mix:?}"),
                'E' => assert!(read > 300, "{mix:?} read {read}"),
                _ => assert!((100..300).contains(&read), "{mix:?} read {read}"),
            }
        }
        let table = ycsb.table.id;
        let all = ycsb.native.run([Request::Scan(Box::new(ScanSpec::heap(table)))]);
        assert_eq!(all, ycsb.rows);
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let (ranks, mut prng) = (Zipf::new(1_000), Prng::new(3));
        let mut counts = vec![0_u32; 1_000];
        (0..100_000).for_each(|_| counts[ranks.draw(&mut prng) as usize] += 1);
        for rank in [0, 1, 9, 99] {
            let expected = 100_000.0 / ranks.zeta / f64::from(rank + 1).powf(THETA);
            let found = f64::from(counts[rank as usize]);
            // Ranks beyond the second come from a formula for their sums.
            assert!((found / expected - 1.0).abs() < 0.3, "rank {rank}: {found} of {expected}");
        }
    }
}
