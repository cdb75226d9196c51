//! Scans that know the keys they look for: where an index has these, they are looked up in it.
//!
//! # Owns
//! Whether the keys that a program is told (`Program::members`) are looked up instead of reading
//! on; the walk over the rows that have them.
//! # Guarantees
//! The walk gives every row of the scan's range that has one of the keys, once, and no other.
//! # Limits
//! Keys are of the first column of an ordered index. What the two ways cost is judged by a few of
//! the keys, so it may be judged wrongly where some keys have far more rows than others.

use std::sync::Arc;

use model::{ColumnId, Epoch, IndexId, KeyEncoder, RowId, Table};
use store::ordered_index::{Direction, KeyRange};
use store::partition::{IndexScan, Partition, SnapshotIndexScan};
use vector::{KeySet, Program};

use super::cursor::{Position, Range};
use super::within::Within;

/// What it takes to find the place of a key in an index, in rows that are read on.
const SEEK: u64 = 16;
/// The same of a row that is found by an index: it lies anywhere.
pub(super) const FETCH: u64 = 5;
/// Keys whose rows are counted.
const SAMPLE: usize = 16;
/// Most rows of a key that are counted.
const COUNTED_MAX: usize = 256;

/// Keys that are looked up, in place of a scan's range.
#[derive(Debug)]
pub(super) struct Lookups {
    pub(super) index: IndexId,
    /// What the keys of its rows begin with, in ascending order.
    prefixes: Vec<Vec<u8>>,
    /// The range of the scan, in which the rows have to be too.
    within: Option<Within>,
}

impl Lookups {
    /// The rows of an index whose keys begin so; in ascending order, none begins with another.
    pub(super) fn of(index: IndexId, prefixes: &[Box<[u8]>]) -> Arc<Self> {
        let prefixes = prefixes.iter().map(|prefix| prefix.to_vec()).collect();
        Arc::new(Self { index, prefixes, within: None })
    }

    /// Whether a row has one of the keys.
    pub(super) fn has(&self, table: &Table, row: &[u8]) -> bool {
        // Without its index the scan is refused.
        let Some(index) = table.ordered_index(self.index) else { return true };
        let key = table.key_of_row(&index.columns, row);
        // None begins with another, so only the last that is not above it can be its beginning.
        let at = self.prefixes.partition_point(|prefix| prefix[..] <= key.0[..]);
        at.checked_sub(1).is_some_and(|at| key.0.starts_with(&self.prefixes[at]))
    }
}

/// The lookups that find the rows of a scan with a program, if they take less than its range.
pub(super) fn lookups(
    partition: &Partition,
    program: &Program,
    range: &Range,
) -> Option<Arc<Lookups>> {
    let rows = partition.row_count();
    let least = program.members.iter().flat_map(|set| {
        let column = program.inputs.get(usize::from(set.input)).map(|input| input.column);
        let indexes = partition.table().ordered_indexes.iter();
        let begins = move |columns: &[ColumnId]| columns.first() == column.as_ref();
        let usable = indexes.filter(move |index| begins(&index.columns));
        usable.filter(|index| partition.index_ready(index.id)).map(move |index| (set, index.id))
    });
    let priced = least.filter_map(|(set, index)| {
        let prefixes = prefixes(partition.table(), program, set, rows / SEEK)?;
        let cost = cost(partition, index, &prefixes);
        Some((cost, index, prefixes))
    });
    let (cost, index, prefixes) = priced.min_by_key(|(cost, ..)| *cost)?;
    let within = match range {
        Range::Heap if cost < rows => None,
        Range::Index { index: of_range, range, .. }
            if cost < partition.entries_about(*of_range, range) * FETCH =>
        {
            Some(Within::new(partition.table(), *of_range, range))
        }
        Range::Heap | Range::Index { .. } | Range::Keys(_) => return None,
    };
    Some(Arc::new(Lookups { index, prefixes, within }))
}

/// What index keys with the numbers of a set begin with; none if they are more than so many.
fn prefixes(table: &Table, program: &Program, set: &KeySet, most: u64) -> Option<Vec<Vec<u8>>> {
    let input = program.inputs.get(usize::from(set.input))?;
    let column = table.columns.get(usize::from(input.column.0))?;
    let values = set.values(input.kind, usize::try_from(most).unwrap_or(usize::MAX))?;
    let mut encoder = KeyEncoder::new();
    let prefixes = values.iter().filter_map(|value| {
        encoder.clear();
        // No row has a value that its column cannot hold.
        encoder.push(column.column_type, column.nullable, value.as_ref())?;
        Some(encoder.bytes().to_vec())
    });
    Some(prefixes.collect())
}

/// About what it takes to look keys up, in rows that are read on.
fn cost(partition: &Partition, index: IndexId, prefixes: &[Vec<u8>]) -> u64 {
    let every = prefixes.len().div_ceil(SAMPLE).max(1);
    let (mut counted, mut found) = (0_u64, 0_u64);
    for prefix in prefixes.iter().step_by(every) {
        let mut scan =
            partition.scan_index(index, &KeyRange::prefix(prefix), Direction::Ascending, None);
        found += (0..COUNTED_MAX).take_while(|_| scan.next_row().is_some()).count() as u64;
        counted += 1;
    }
    let keys = prefixes.len() as u64;
    keys * SEEK + found * keys / counted.max(1) * FETCH
}

/// The entries of the index under one key, as they are or as of an epoch.
enum Entries<'a> {
    Newest(IndexScan<'a>),
    At(Box<SnapshotIndexScan<'a>>),
}

/// A walk over the rows that have the keys.
pub(super) struct KeyWalk<'a> {
    lookups: Arc<Lookups>,
    epoch: Option<Epoch>,
    /// Keys whose rows have all been passed.
    passed: usize,
    /// Where the walk is under the next key.
    entries: Option<Entries<'a>>,
    /// Memory for a key in the range of the scan.
    key: KeyEncoder,
}

impl<'a> KeyWalk<'a> {
    /// A walk that goes on after `position`; over the newest rows unless there is an epoch.
    pub(super) fn new(
        partition: &'a Partition,
        lookups: &Arc<Lookups>,
        epoch: Option<Epoch>,
        position: &Position,
    ) -> Self {
        let (lookups, passed) = (lookups.clone(), position.passed);
        let mut walk = Self { lookups, epoch, passed, entries: None, key: KeyEncoder::new() };
        let after = position.row_id.map(|row_id| (&position.key[..], row_id));
        let under = |key: &[u8]| {
            walk.lookups.prefixes.get(passed).is_some_and(|prefix| key.starts_with(prefix))
        };
        walk.enter(partition, after.filter(|(key, _)| under(key)));
        walk
    }

    /// How many keys have been passed.
    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    /// Begins with the entries of the next key; not if there is none.
    fn enter(&mut self, partition: &'a Partition, after: Option<(&[u8], RowId)>) {
        let Lookups { index, prefixes, .. } = &*self.lookups;
        self.entries = prefixes.get(self.passed).map(|prefix| {
            let (range, direction) = (KeyRange::prefix(prefix), Direction::Ascending);
            match self.epoch {
                None => Entries::Newest(partition.scan_index(*index, &range, direction, after)),
                Some(epoch) => {
                    let scan = partition.scan_index_at(*index, &range, direction, after, epoch);
                    Entries::At(Box::new(scan))
                }
            }
        });
    }

    /// Adds the next rows, as many as can be found with the work of reading so many on. The last
    /// row that was looked at, if any was, and whether there may be more.
    pub(super) fn take(
        &mut self,
        partition: &'a Partition,
        most: usize,
        rows: &mut Vec<&'a [u8]>,
    ) -> (Option<(RowId, &'a [u8])>, bool) {
        let (mut left, mut last) = (most as u64, None);
        while left > 0 {
            let Some(entries) = &mut self.entries else { return (last, false) };
            let next = match entries {
                Entries::Newest(scan) => scan
                    .next_row()
                    .map(|row_id| (row_id, partition.row(row_id).expect("a scanned row is there"))),
                Entries::At(scan) => scan.next().map(|(_, row_id, row)| (row_id, row)),
            };
            if let Some((row_id, row)) = next {
                if self.is_within(partition.table(), row) {
                    rows.push(row);
                }
                last = Some((row_id, row));
                left -= 1;
            } else {
                self.passed += 1;
                self.enter(partition, None);
                left = left.saturating_sub(SEEK);
            }
        }
        (last, true)
    }

    /// Whether a row is in the range of the scan.
    fn is_within(&mut self, table: &Table, row: &[u8]) -> bool {
        let within = &self.lookups.within;
        within.as_ref().is_none_or(|within| within.has(table, row, &mut self.key))
    }
}
