//! Partitions against a naive model: maps of rows, one for each retained epoch.

mod history;
mod replicas;
mod restore;
mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnType, Epoch, IndexId, OrderedIndexDef, PartitionId, PartitionIndex,
    Row, RowId, RowLayout, Table, TableId, Value,
};
use stdx::Prng;

use super::*;

/// Rows by slot.
type Rows = BTreeMap<RowId, Row>;

/// Columns a, b (the key), k, s; ordered indexes on (k) and (b, k).
fn table() -> Table {
    testing::table("test.t")
        .column("a", testing::INT)
        .column("b", ColumnType::Variable(8))
        .nullable("k", ColumnType::Int(2))
        .nullable("s", ColumnType::Variable(60_000))
        .primary_key(["a", "b"])
        .distribution_key(["a"])
        .index("x10", ["k"])
        .with_index_id(IndexId(10))
        .index("x11", ["b", "k"])
        .with_index_id(IndexId(11))
        .build()
}

fn index(id: u32, columns: &[u16]) -> OrderedIndexDef {
    let columns = columns.iter().map(|column| ColumnId(*column)).collect();
    let (id, name, state) = (IndexId(id), format!("x{id}"), model::IndexState::Online);
    OrderedIndexDef { id, name, columns, state }
}

fn partition() -> Partition {
    let id = PartitionId { table: TableId(1), index: PartitionIndex(0) };
    Partition::new(id, Arc::new(table()))
}

/// A row with a key out of `keys`, in the table's newest layout.
fn random_row(prng: &mut Prng, table: &Table, keys: u64) -> Row {
    let key = prng.below(keys);
    let text = match prng.below(30) {
        0 => vec![b'x'; prng.between(4_000, 33_000) as usize],
        1..4 => vec![b'y'; prng.below(2_000) as usize],
        _ => vec![b'z'; prng.below(100) as usize],
    };
    let mut values = vec![
        Value::Int(key as i64 / 3),
        Value::Bytes([0, key as u8 % 3].into()),
        if prng.percent(10) { Value::Null } else { Value::Int(prng.below(40) as i64 - 20) },
        if prng.percent(10) { Value::Null } else { Value::Bytes(text.into()) },
    ];
    while values.len() < table.columns.len() {
        values.push(Value::UInt(prng.below(20)));
    }
    table.layout().encode_values(&values).expect("values fit")
}

fn key_of(table: &Table, row: &Row) -> model::Key {
    table.key_of_row(&table.primary_key, &row.0)
}

/// The slot a row with this key is in.
fn slot_of(rows: &Rows, table: &Table, row: &Row) -> Option<RowId> {
    let key = key_of(table, row);
    rows.iter().find(|(_, other)| key_of(table, other) == key).map(|(row_id, _)| *row_id)
}

fn random_range(prng: &mut Prng, table: &Table, columns: &[ColumnId], keys: u64) -> KeyRange {
    use std::ops::Bound;
    let mut bound = || {
        let row = random_row(prng, table, keys);
        let columns = &columns[..prng.between(1, columns.len() as u64) as usize];
        let key = table.key_of_row(columns, &row.0).0.into_vec();
        match prng.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        }
    };
    KeyRange { lower: bound(), upper: bound() }
}

/// What an index scan of `rows` gives.
fn expected_entries(
    rows: &Rows,
    table: &Table,
    columns: &[ColumnId],
    range: &KeyRange,
    direction: Direction,
) -> Vec<(Vec<u8>, RowId)> {
    let keys =
        rows.iter().map(|(row_id, row)| (table.key_of_row(columns, &row.0).0.into_vec(), *row_id));
    let mut entries: Vec<_> = keys.filter(|(key, _)| range.contains(key)).collect();
    entries.sort();
    if direction == Direction::Descending {
        entries.reverse();
    }
    entries
}

/// Compares everything that can be read of the newest rows.
fn compare_newest(partition: &Partition, rows: &Rows, prng: &mut Prng, keys: u64) {
    let table = partition.table();
    assert_eq!(partition.row_count(), rows.len() as u64);
    let mut after = None;
    for (row_id, row) in rows {
        after = partition.next_row(after);
        assert_eq!(after, Some(*row_id));
        assert_eq!(partition.row(*row_id), Some(&*row.0));
        let key = key_of(table, row);
        assert_eq!(partition.find(key.bytes(), key.local_hash()), Some(*row_id));
    }
    assert_eq!(partition.next_row(after), None);
    for definition in table.ordered_indexes.iter().filter(|i| partition.index_ready(i.id)) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let columns = &definition.columns;
            let range = random_range(prng, table, columns, keys);
            let expected = expected_entries(rows, table, columns, &range, direction);
            let mut found = Vec::new();
            // In batches, each seeking again.
            loop {
                let after: Option<(Vec<u8>, RowId)> = found.last().cloned();
                let after = after.as_ref().map(|(key, row_id)| (&key[..], *row_id));
                let mut scan = partition.scan_index(definition.id, &range, direction, after);
                let before = found.len();
                for _ in 0..prng.between(1, 30) {
                    found.extend(scan.next().map(|(key, row_id)| (key.to_vec(), row_id)));
                }
                if found.len() == before {
                    break;
                }
            }
            assert_eq!(found, expected, "{} {direction:?}", definition.id);
        }
    }
}

/// Compares everything that can be read as of `snapshot`.
fn compare_at(partition: &Partition, snapshot: Epoch, rows: &Rows, prng: &mut Prng, keys: u64) {
    let table = partition.table();
    let mut after = None;
    for (row_id, row) in rows {
        let (at, found) = partition.next_slot_at(after, snapshot).expect("the row was there");
        assert_eq!((at, found), (*row_id, &*row.0), "as of {snapshot}");
        assert_eq!(partition.row_at(*row_id, snapshot), Some(&*row.0));
        after = Some(at);
    }
    assert_eq!(partition.next_slot_at(after, snapshot), None);
    // The same rows, some at a time.
    let (mut after, mut some) = (None, Vec::new());
    loop {
        let (before, most) = (some.len(), 1 + prng.below(5) as usize);
        let Some(last) = partition.next_rows_at(after, snapshot, most, &mut some) else { break };
        assert!((1..=most).contains(&(some.len() - before)));
        after = Some(last);
    }
    assert!(some.into_iter().eq(rows.values().map(|row| &row.0[..])));
    for _ in 0..20 {
        let row = random_row(prng, table, keys);
        let key = key_of(table, &row);
        let expected = slot_of(rows, table, &row).map(|row_id| &*rows[&row_id].0);
        let found = partition.read_at(key.bytes(), key.local_hash(), snapshot);
        assert_eq!(found, Ok(expected), "as of {snapshot}");
    }
    for definition in table.ordered_indexes.iter().filter(|i| partition.index_ready(i.id)) {
        for direction in [Direction::Ascending, Direction::Descending] {
            let columns = &definition.columns;
            let range = random_range(prng, table, columns, keys);
            let mut expected = expected_entries(rows, table, columns, &range, direction);
            let mut after = None;
            if !expected.is_empty() && prng.percent(50) {
                let rest = expected.split_off(prng.index(expected.len()));
                after = expected.last().cloned();
                expected = rest;
            }
            let after = after.as_ref().map(|(key, row_id)| (&key[..], *row_id));
            let mut scan =
                partition.scan_index_at(definition.id, &range, direction, after, snapshot);
            for (key, row_id) in &expected {
                let (found_key, found_id, row) = scan.next().expect("the entry was there");
                assert_eq!((found_key, found_id), (&key[..], *row_id), "as of {snapshot}");
                assert_eq!(row, &*rows[row_id].0);
            }
            assert!(scan.next().is_none(), "an entry too many as of {snapshot}");
            // The same rows, some at a time, and one alone in between.
            let mut scan =
                partition.scan_index_at(definition.id, &range, direction, after, snapshot);
            let mut left = &expected[..];
            while !left.is_empty() {
                let (most, mut some) = (1 + prng.below(150) as usize, Vec::new());
                let last = scan.next_rows(most, &mut some);
                let (these, others) = left.split_at(most.min(left.len()));
                assert!(some.into_iter().eq(these.iter().map(|(_, row_id)| &*rows[row_id].0)));
                assert_eq!(last, these.last().map(|(_, row_id)| *row_id));
                left = others;
                if let Some(((key, row_id), others)) = left.split_first() {
                    let found = scan.next().map(|(key, row_id, _)| (key.to_vec(), row_id));
                    assert_eq!(found, Some((key.clone(), *row_id)));
                    left = others;
                }
            }
            assert_eq!(scan.next_rows(3, &mut Vec::new()), None);
        }
    }
}
