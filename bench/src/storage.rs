//! Measures of one partition replica without actors: `store::partition` alone.
//!
//! Rows are like sysbench's: id INT key, k INT with an ordered index, c CHAR(120), pad CHAR(60).

use std::hint::black_box;
use std::sync::Arc;

use model::{
    ColumnId, ColumnType, Comparison, Epoch, Expression, IndexId, KeyEncoder, PartitionId,
    PartitionIndex, RowId, RowView, Table, TableId, Value, ValueRef,
};
use stdx::Prng;
use store::hash_index::HashIndex;
use store::ordered_index::{Direction, KeyRange};
use store::partition::Partition;
use testing::INT;

use crate::measure::{Pauses, Report, cpu_nanos_of};

/// Rows encoded at a time: enough for processor time to be exact.
const BATCH: u64 = 200_000;
/// Runs of which the best time of each operation counts.
const RUNS: usize = 3;
/// Rows of a range scan.
const RANGE: u64 = 100;
const K: ColumnId = ColumnId(1);

/// A loaded partition and what is needed to address it.
struct Loaded {
    partition: Partition,
    table: Arc<Table>,
    rows: u64,
    prng: Prng,
    encoder: KeyEncoder,
}

/// Measures a partition of `rows` rows.
pub fn measure(report: &mut Report, rows: u64) {
    let mut loaded = load(report, rows);
    measure_memory(report, &loaded);
    measure_reads(report, &mut loaded);
    measure_scans(report, &mut loaded);
    measure_changes(report, &mut loaded);
    if report.wants("pauses of a partition") {
        measure_partition_pauses(report, &loaded.table, rows);
    }
}

/// Measures the slowest single change of a hash index that grows to `rows` and shrinks to nothing.
pub fn measure_hash_index_pauses(report: &mut Report, rows: u32) {
    if !report.wants("pauses of a hash index") {
        return;
    }
    let bound = "a segment of 1,536 entries is moved at most, and 4 bytes per 1,000 rows";
    let hash = |row: u32| Prng::new(u64::from(row)).next_u64();
    let (mut inserts, mut removes) = (Pauses::new(rows), Pauses::new(rows));
    for _ in 0..RUNS {
        let mut index = HashIndex::new();
        for row in 0..rows {
            let hash = hash(row);
            inserts.time(row, || index.insert(hash, RowId(row)));
        }
        for row in 0..rows {
            let hash = hash(row);
            removes.time(row, || assert!(index.remove(hash, RowId(row)), "it was inserted"));
        }
    }
    let size = format!("{:.1} M", f64::from(rows) / 1e6);
    report.pauses(&format!("pauses of a hash index of {size}: insert"), inserts, bound);
    report.pauses(&format!("pauses of a hash index of {size}: remove"), removes, bound);
}

/// The benched table, with one partition.
pub fn table() -> Table {
    testing::table("sbtest.sbtest1")
        .column("id", INT)
        .column("k", INT)
        .column("c", ColumnType::Fixed(120))
        .column("pad", ColumnType::Fixed(60))
        .index("k_1", ["k"])
        .with_index_id(IndexId(2))
        .build()
}

fn row_of(table: &Table, id: u64, k: u64) -> model::Row {
    let (c, pad) = ([b'c'; 120], [b'p'; 60]);
    let values = [
        ValueRef::Int(id as i64),
        ValueRef::Int(k as i64),
        ValueRef::Bytes(&c),
        ValueRef::Bytes(&pad),
    ];
    table.layout().encode(&values).expect("the values fit")
}

fn load(report: &mut Report, rows: u64) -> Loaded {
    let table = Arc::new(table());
    let id = PartitionId { table: TableId(1), index: PartitionIndex(0) };
    let mut partition = Partition::new(id, table.clone());
    let mut prng = Prng::new(1);
    // Encoding rows is the client's work.
    let mut batch = Vec::new();
    let mut nanos = 0;
    for first in (0..rows).step_by(BATCH as usize) {
        let ids = first..(first + BATCH).min(rows);
        batch.clear();
        batch.extend(ids.map(|id| row_of(&table, id, prng.below(rows))));
        let mut insert = || {
            for row in &batch {
                let row_id = partition.allocate();
                partition.put(row_id, &row.0, Epoch(1), &[]);
            }
        };
        if report.wants("insert") {
            nanos += cpu_nanos_of(insert);
        } else {
            insert();
        }
    }
    if report.wants("insert") {
        report.rate_of("insert", rows, nanos);
    }
    Loaded { partition, table, rows, prng, encoder: KeyEncoder::new() }
}

fn measure_memory(report: &mut Report, loaded: &Loaded) {
    let partition = &loaded.partition;
    let mut add = |name: &str, bytes: u64| {
        let value = bytes as f64 / partition.row_count() as f64;
        report.add(name, value, "B/row", "");
    };
    add("memory: heap", partition.heap_bytes());
    add("memory: hash index", partition.hash_index_bytes());
    add("memory: ordered index", partition.ordered_index_bytes());
    add("memory: all", partition.memory_bytes());
}

impl Loaded {
    /// A random row's id, found by its primary key.
    fn find_random(&mut self) -> RowId {
        let id = ValueRef::Int(self.prng.below(self.rows) as i64);
        self.encoder.clear();
        self.encoder.push(ColumnType::Int(4), false, id).expect("the value fits");
        let key = self.encoder.bytes();
        self.partition.find(key, model::key::local_hash(key)).expect("the row is there")
    }
}

fn measure_reads(report: &mut Report, loaded: &mut Loaded) {
    let count = 2_000_000;
    report.rate("read by key", count, || {
        for _ in 0..count {
            let row_id = loaded.find_random();
            let row = loaded.partition.row(row_id).expect("the row is there");
            black_box(loaded.table.value(row, K));
        }
    });
}

fn measure_scans(report: &mut Report, loaded: &mut Loaded) {
    let Loaded { partition, table, rows, prng, .. } = loaded;
    let filter = Expression::compare(K, Comparison::Less, Value::Int(*rows as i64 / 100));
    let passes = 5;
    report.rate("heap scan, filter k < constant, rows", passes * *rows, || {
        for _ in 0..passes {
            let (mut at, mut passed) = (None, 0u64);
            while let Some(row_id) = partition.next_row(at) {
                let bytes = partition.row(row_id).expect("the row is there");
                let view = RowView { table, bytes };
                passed += u64::from(filter.passes(view).expect("comparable"));
                at = Some(row_id);
            }
            black_box(passed);
        }
    });
    let scans = 10_000;
    let low = |from: u64| {
        let value = Value::Int(from as i64);
        let key = table.key_of_values(&[K], &[value]).expect("the value fits");
        std::ops::Bound::Included(key.0.into_vec())
    };
    report.rate("index range scan of 100 with rows, rows", scans * RANGE, || {
        for _ in 0..scans {
            let lower = low(prng.below(*rows - 2 * RANGE));
            let range = KeyRange { lower, upper: std::ops::Bound::Unbounded };
            let mut scan = partition.scan_index(IndexId(2), &range, Direction::Ascending, None);
            for _ in 0..RANGE {
                let Some((key, row_id)) = scan.next() else { break };
                black_box((key, partition.row(row_id)));
            }
        }
    });
    report.rate("index scan of all, entries alone", *rows, || {
        let range = KeyRange::ALL;
        let mut scan = partition.scan_index(IndexId(2), &range, Direction::Ascending, None);
        while let Some(entry) = scan.next() {
            black_box(entry);
        }
    });
}

fn measure_changes(report: &mut Report, loaded: &mut Loaded) {
    let count = 1_000_000;
    let mut row = Vec::new();
    let mut epoch = Epoch(2);
    let mut update = |loaded: &mut Loaded, at: usize, retained: &[Epoch]| {
        let row_id = loaded.find_random();
        row.clear();
        row.extend_from_slice(loaded.partition.row(row_id).expect("the row is there"));
        row[at] = loaded.prng.below(100) as u8;
        loaded.partition.put(row_id, &row, epoch, retained);
    };
    let (k_at, c_at) = (5, 20);
    report.rate("update of c by key", count, || {
        (0..count).for_each(|_| update(loaded, c_at, &[]));
    });
    report.rate("update of k by key, moving its index entry", count, || {
        (0..count).for_each(|_| update(loaded, k_at, &[]));
    });
    let snapshot = [epoch];
    epoch = epoch.next();
    let count = count / 5;
    let update = |loaded: &mut Loaded| {
        let row_id = loaded.find_random();
        let bytes = loaded.partition.row(row_id).expect("the row is there").to_vec();
        loaded.partition.put(row_id, &bytes, epoch, &snapshot);
    };
    report.rate_of_setup("update of c by key, keeping old images", count, || {
        (0..count).for_each(|_| update(loaded));
    });
    report.rate("dropping old images", count, || while !loaded.partition.drop_versions(&[]) {});
    let count = loaded.rows / 2;
    report.rate_of_setup("delete by row id", count, || {
        for id in 0..count {
            loaded.partition.delete(RowId(id as u32 * 2), Epoch(4), &[]);
        }
    });
    let table = loaded.table.clone();
    report.rate("insert into freed slots, with encoding", count, || {
        for id in 0..count {
            let row = row_of(&table, id * 2, id);
            let row_id = loaded.partition.allocate();
            loaded.partition.put(row_id, &row.0, Epoch(5), &[]);
        }
    });
}

fn measure_partition_pauses(report: &mut Report, table: &Arc<Table>, rows: u64) {
    let count = u32::try_from(rows).expect("fewer rows");
    let (mut inserts, mut deletes) = (Pauses::new(count), Pauses::new(count));
    for _ in 0..RUNS {
        let id = PartitionId { table: TableId(1), index: PartitionIndex(0) };
        let mut partition = Partition::new(id, table.clone());
        let mut prng = Prng::new(2);
        for at in 0..count {
            let row = row_of(table, u64::from(at), prng.below(rows));
            inserts.time(at, || {
                let row_id = partition.allocate();
                partition.put(row_id, &row.0, Epoch(1), &[]);
            });
        }
        for at in 0..count {
            let row_id = RowId(prng.below(rows) as u32);
            deletes.time(at, || partition.delete(row_id, Epoch(2), &[]));
        }
    }
    let bound = "one page of 64 KiB or one chunk of 4,096 slots, and the indexes";
    report.pauses("pauses of a partition: insert", inserts, bound);
    report.pauses("pauses of a partition: delete", deletes, bound);
}
