//! Ranges of an index, of rows that are not read by that index.
//!
//! An index gives rows in the order of its keys, and each lies anywhere: where a range has a good
//! part of a table, it takes less to read all rows as they lie and to leave out the others.
//!
//! # Owns
//! Whether a row is in a range, and which ranges are that wide.
//! # Guarantees
//! A row is in it exactly if the index would have it in its range, also when there is no such index
//! any more.

use model::{ColumnId, IndexId, KeyEncoder, Table};
use store::ordered_index::KeyRange;
use store::partition::Partition;

use super::cursor::Range;
use super::keys::FETCH;

/// What it takes to read a row on and to find that it is in a range, in rows that are read on.
const CHECK: u64 = 2;

/// A range of keys over some columns.
#[derive(Debug, PartialEq)]
pub(in crate::participant) struct Within {
    columns: Vec<ColumnId>,
    range: KeyRange,
    /// Of a key that is at least as long no more is compared.
    longest: usize,
}

impl Within {
    /// The range of an index that the table has.
    pub(in crate::participant) fn new(table: &Table, index: IndexId, range: &KeyRange) -> Self {
        let index = table.ordered_index(index).expect("an index that is scanned");
        let (columns, range) = (index.columns.clone(), range.clone());
        let longest = range.longest_bound();
        Self { columns, range, longest }
    }

    /// Whether a row is in the range; `key` is memory for its key.
    pub(in crate::participant) fn has(
        &self,
        table: &Table,
        row: &[u8],
        key: &mut KeyEncoder,
    ) -> bool {
        key.clear();
        for column in &self.columns {
            table.encode_row_key(std::slice::from_ref(column), row, key);
            if key.bytes().len() >= self.longest {
                break;
            }
        }
        self.range.contains(key.bytes())
    }
}

/// The range of a scan by index, if it has so many rows that they are better read as they lie.
pub(super) fn wide(partition: &Partition, range: &Range) -> Option<Within> {
    let Range::Index { index, range, .. } = range else { return None };
    let found = partition.entries_about(*index, range);
    (found * FETCH > partition.row_count() * CHECK)
        .then(|| Within::new(partition.table(), *index, range))
}
