//! The walk of a scan over one partition: committed rows merged with the transaction's own.
//!
//! A walk lives for one step of a scan and holds no state between steps but its position, so rows
//! may come, go and move between steps: an index walk seeks again by key and row id. Where the
//! transaction's own rows are is kept (`own`).

use std::cmp::Ordering;
use std::iter::from_fn;
use std::ops::Bound;
use std::sync::Arc;

use model::{Epoch, IndexId, OperationNumber, RowId, Table};
use store::ordered_index::{Direction, KeyRange};
use store::partition::{IndexScan, Partition, SnapshotIndexScan};
use wire::{ScanOrder, ScanSource};

use super::keys::{KeyWalk, Lookups};
use super::own::{OwnPlaces, OwnRows};
use crate::participant::leg::{Leg, LegHandle, Legs, Place};
use crate::participant::replica::Replica;

/// Where a walk stands: the last row it has passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    /// Its index key; empty in heap scans.
    pub(super) key: Vec<u8>,
    /// Its place; none before the first row.
    pub(super) row_id: Option<RowId>,
    /// Of keys that are looked up: how many have been passed.
    pub(super) passed: usize,
    /// Not yet passed is the transaction's own row in the same place: the row of the snapshot that
    /// was there has another primary key.
    pub(super) own_left: bool,
}

/// What a scan runs over, ready for seeking.
#[derive(Debug)]
pub(super) enum Range {
    Heap,
    Index {
        index: IndexId,
        range: KeyRange,
        direction: Direction,
    },
    /// Keys that a program is told; of committed rows, which all of them go through the program.
    Keys(Arc<Lookups>),
}

impl Range {
    /// From a checked request.
    pub(super) fn new(source: &ScanSource) -> Self {
        let ScanSource::Index { index, lower, upper, order } = source else { return Range::Heap };
        let bound = |bound: &Option<(Box<[u8]>, bool)>| match bound {
            None => Bound::Unbounded,
            Some((key, true)) => Bound::Included(key.to_vec()),
            Some((key, false)) => Bound::Excluded(key.to_vec()),
        };
        let direction = match order {
            ScanOrder::Ascending => Direction::Ascending,
            ScanOrder::Descending => Direction::Descending,
        };
        let range = KeyRange { lower: bound(lower), upper: bound(upper) };
        Range::Index { index: *index, range, direction }
    }

    /// The index it is read by.
    pub(super) fn index(&self) -> Option<IndexId> {
        match self {
            Range::Heap => None,
            Range::Index { index, .. } => Some(*index),
            Range::Keys(lookups) => Some(lookups.index),
        }
    }
}

/// Whose changes a walk sees.
#[derive(Clone, Copy)]
pub(super) enum View<'a> {
    /// The newest committed rows.
    Committed,
    /// Those, or the rows as of a retained epoch, with a leg's own changes laid over them.
    Own(Own<'a>),
    /// The rows as of a retained epoch.
    Snapshot(Epoch),
}

/// A leg's own changes, and over what they are laid.
#[derive(Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) leg: &'a Leg,
    /// Up to this operation.
    pub(super) seen_to: OperationNumber,
    pub(super) places: &'a OwnPlaces,
    /// Over the rows as of this epoch; over the newest committed ones otherwise.
    pub(super) as_of: Option<Epoch>,
}

impl View<'_> {
    /// The epoch of the rows that others have changed.
    fn as_of(self) -> Option<Epoch> {
        match self {
            View::Committed => None,
            View::Own(own) => own.as_of,
            View::Snapshot(epoch) => Some(epoch),
        }
    }
}

enum Committed<'a> {
    Heap { after: Option<RowId> },
    Index(IndexScan<'a>),
    SnapshotHeap { after: Option<RowId>, epoch: Epoch },
    SnapshotIndex(Box<SnapshotIndexScan<'a>>),
    Keys(Box<KeyWalk<'a>>),
}

/// A walk in progress.
pub(super) struct Walk<'a> {
    partition: &'a Partition,
    view: View<'a>,
    direction: Direction,
    committed: Committed<'a>,
    /// The next committed row; its key is in `ahead_key`.
    ahead: Option<(RowId, &'a [u8])>,
    ahead_key: Vec<u8>,
    looked_ahead: bool,
    /// The transaction's own rows, in scan order.
    own: OwnRows<'a>,
    /// The row given last, and the one before it.
    at: Position,
    before: Position,
    /// Nobody wants to know the keys of rows, nor the row before the last: where the walk stands is
    /// found out from its last row.
    is_plain: bool,
    last: Option<&'a [u8]>,
    index: Option<IndexId>,
}

impl<'a> Walk<'a> {
    /// A walk that goes on after `position`.
    pub(super) fn new(
        partition: &'a Partition,
        range: &Range,
        view: View<'a>,
        position: &Position,
    ) -> Self {
        let after = position.row_id.map(|row_id| (&position.key[..], row_id));
        let (direction, committed) = match (range, view.as_of()) {
            (Range::Heap, Some(epoch)) => {
                let after = position.row_id;
                (Direction::Ascending, Committed::SnapshotHeap { after, epoch })
            }
            (Range::Heap, None) => {
                (Direction::Ascending, Committed::Heap { after: position.row_id })
            }
            (Range::Index { index, range, direction }, Some(epoch)) => {
                let scan = partition.scan_index_at(*index, range, *direction, after, epoch);
                (*direction, Committed::SnapshotIndex(Box::new(scan)))
            }
            (Range::Index { index, range, direction }, None) => {
                let scan = partition.scan_index(*index, range, *direction, after);
                (*direction, Committed::Index(scan))
            }
            (Range::Keys(lookups), epoch) => {
                let walk = KeyWalk::new(partition, lookups, epoch, position);
                (Direction::Ascending, Committed::Keys(Box::new(walk)))
            }
        };
        let index = range.index();
        let own = match view {
            View::Own(Own { leg, seen_to, places, .. }) => {
                OwnRows::after(leg, seen_to, partition.id(), places, position)
            }
            View::Committed | View::Snapshot(_) => OwnRows::none(),
        };
        Self {
            partition,
            view,
            direction,
            committed,
            ahead: None,
            ahead_key: Vec::new(),
            looked_ahead: false,
            own,
            at: position.clone(),
            before: position.clone(),
            is_plain: false,
            last: None,
            index,
        }
    }

    /// Of rows that the transaction itself cannot have changed: without keys, and without the way
    /// back to before the last row.
    pub(super) fn plain(mut self) -> Self {
        self.is_plain = !matches!(self.view, View::Own(..));
        self
    }

    /// The next row and its place; [`Walk::key`] is its index key.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(RowId, &'a [u8])> {
        if self.is_plain {
            let (row_id, row) = self.next_plain()?;
            self.at.row_id = Some(row_id);
            self.last = Some(row);
            return Some((row_id, row));
        }
        self.next_of_own()
    }

    #[inline]
    fn next_plain(&mut self) -> Option<(RowId, &'a [u8])> {
        let partition = self.partition;
        match &mut self.committed {
            Committed::Index(scan) => {
                let row_id = scan.next_row()?;
                Some((row_id, partition.row(row_id).expect("a scanned row is there")))
            }
            Committed::SnapshotIndex(scan) => {
                let (_, row_id, row) = scan.next()?;
                Some((row_id, row))
            }
            Committed::Heap { .. } | Committed::SnapshotHeap { .. } | Committed::Keys(_) => {
                self.next_committed()
            }
        }
    }

    /// The next row with its key, or the next one that the transaction has made itself.
    fn next_of_own(&mut self) -> Option<(RowId, &'a [u8])> {
        loop {
            if !self.looked_ahead {
                self.looked_ahead = true;
                self.ahead_key.clear();
                self.ahead = self.next_committed();
            }
            let order = match (&self.ahead, self.own.peek()) {
                (None, None) => return None,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some((row_id, _)), Some(own)) => {
                    let order = (&own.key[..], own.row_id).cmp(&(&self.ahead_key[..], *row_id));
                    match self.direction {
                        Direction::Ascending => order,
                        Direction::Descending => order.reverse(),
                    }
                }
            };
            if order == Ordering::Less {
                let own = self.own.next().expect("peeked");
                std::mem::swap(&mut self.at, &mut self.before);
                self.at.key.clear();
                self.at.key.extend_from_slice(&own.key);
                self.at.row_id = Some(own.row_id);
                self.at.own_left = false;
                return Some((own.row_id, own.row));
            }
            let (row_id, row) = self.ahead.take().expect("there is a committed row");
            self.looked_ahead = false;
            // Passed over here and not ahead of the own rows before it: a step would look at all
            // that the transaction has changed.
            if self.changed_by_self(row_id, row) {
                continue;
            }
            std::mem::swap(&mut self.at, &mut self.before);
            std::mem::swap(&mut self.at.key, &mut self.ahead_key);
            self.at.row_id = Some(row_id);
            self.at.own_left = order == Ordering::Equal;
            return Some((row_id, row));
        }
    }

    /// Adds the next rows, so many at most. Whether there may be more.
    pub(super) fn take(&mut self, most: usize, rows: &mut Vec<&'a [u8]>) -> bool {
        if let Committed::Keys(walk) = &mut self.committed {
            let (last, may_be_more) = walk.take(self.partition, most, rows);
            if let Some((row_id, row)) = last {
                (self.at.row_id, self.last) = (Some(row_id), Some(row));
            }
            return may_be_more;
        }
        if self.is_plain
            && let Some(may_be_more) = self.take_indexed(most, rows)
        {
            return may_be_more;
        }
        // Where no row of the transaction's own can come between, they come as they lie.
        if self.own.peek().is_none() && !self.looked_ahead && !matches!(self.view, View::Own(..)) {
            let before = rows.len();
            let last = match &mut self.committed {
                Committed::Heap { after } => {
                    Some((self.partition.next_rows(*after, most, rows), after))
                }
                Committed::SnapshotHeap { after, epoch } => {
                    Some((self.partition.next_rows_at(*after, *epoch, most, rows), after))
                }
                Committed::Index(_) | Committed::SnapshotIndex(_) | Committed::Keys(_) => None,
            };
            if let Some((last, after)) = last {
                *after = last.or(*after);
                self.at.row_id = *after;
                return rows.len() - before == most;
            }
        }
        for _ in 0..most {
            let Some((_, row)) = self.next() else { return false };
            rows.push(row);
        }
        true
    }

    /// Adds the next rows of a plain walk over an index: [`Walk::take`]. Nothing of another walk.
    fn take_indexed(&mut self, most: usize, rows: &mut Vec<&'a [u8]>) -> Option<bool> {
        let (partition, before) = (self.partition, rows.len());
        let last = match &mut self.committed {
            Committed::Index(scan) => {
                // Their places first: a processor waits for many rows at once then.
                let places: Vec<RowId> = from_fn(|| scan.next_row()).take(most).collect();
                let row_of =
                    |row_id: &RowId| partition.row(*row_id).expect("a scanned row is there");
                rows.extend(places.iter().map(row_of));
                places.last().copied()
            }
            Committed::SnapshotIndex(scan) => scan.next_rows(most, rows),
            Committed::Heap { .. } | Committed::SnapshotHeap { .. } | Committed::Keys(_) => {
                return None;
            }
        };
        self.at.row_id = last.or(self.at.row_id);
        self.last = rows[before..].last().copied().or(self.last);
        Some(rows.len() - before == most)
    }

    /// Index key of the row given last; empty in heap scans, and in plain walks.
    pub(super) fn key(&self) -> &[u8] {
        &self.at.key
    }

    /// Where a later walk goes on after the row given last.
    pub(super) fn after_last(mut self) -> Position {
        if let (Some(row), Some(index)) = (self.last, self.index) {
            let table = self.partition.table();
            let index = table.ordered_index(index).expect("an index that is scanned");
            self.at.key = table.key_of_row(&index.columns, row).0.into_vec();
        }
        if let Committed::Keys(walk) = &self.committed {
            self.at.passed = walk.passed();
        }
        self.at
    }

    /// Where a later walk meets the row given last again.
    pub(super) fn before_last(self) -> Position {
        self.before
    }

    fn next_committed(&mut self) -> Option<(RowId, &'a [u8])> {
        let partition = self.partition;
        let row_of = |row_id| partition.row(row_id).expect("a scanned row is there");
        match &mut self.committed {
            Committed::Heap { after } => {
                let row_id = partition.next_row(*after)?;
                *after = Some(row_id);
                Some((row_id, row_of(row_id)))
            }
            Committed::SnapshotHeap { after, epoch } => {
                let (row_id, row) = partition.next_slot_at(*after, *epoch)?;
                *after = Some(row_id);
                Some((row_id, row))
            }
            Committed::Index(scan) => {
                let (key, row_id) = scan.next()?;
                self.ahead_key.extend_from_slice(key);
                Some((row_id, row_of(row_id)))
            }
            Committed::SnapshotIndex(scan) => {
                let (key, row_id, row) = scan.next()?;
                self.ahead_key.extend_from_slice(key);
                Some((row_id, row))
            }
            Committed::Keys(_) => unreachable!("rows of keys are taken many at a time"),
        }
    }

    /// Whether the transaction has changed the row itself. A slot may have had another row when the
    /// snapshot was taken, and a row another slot: in a snapshot the primary key counts.
    fn changed_by_self(&self, row_id: RowId, row: &[u8]) -> bool {
        let View::Own(Own { leg, seen_to, as_of, .. }) = self.view else { return false };
        let id = self.partition.id();
        let touched = match as_of {
            None => leg.rows.at(Place { partition: id, row_id }),
            Some(_) if leg.rows.is_empty() => None,
            Some(_) => {
                let table = self.partition.table();
                let key = table.key_of_row(&table.primary_key, row);
                leg.rows.staged(id, key.local_hash(), &key.0)
            }
        };
        touched.is_some_and(|row| row.seen(seen_to).is_some())
    }
}

/// The row's key in the scanned index, if that lies in the range; empty for heap scans.
pub(super) fn index_key(table: &Table, range: &Range, row: &[u8]) -> Option<Vec<u8>> {
    let (index, range) = match range {
        Range::Heap => return Some(Vec::new()),
        Range::Index { index, range, .. } => (index, range),
        Range::Keys(_) => return None,
    };
    let definition = table.ordered_index(*index)?;
    let key = table.key_of_row(&definition.columns, row).0.into_vec();
    range.contains(&key).then_some(key)
}

/// Whether a leg has staged a row that is in a range, or was before; of a leg with many rows it is
/// taken for granted.
pub(super) fn is_touched(leg: &Leg, partition: &Partition, range: &Range) -> bool {
    // What a leg has staged in a partition it has locked there.
    if !leg.locked().any(|locked| locked == partition.id()) {
        return false;
    }
    if leg.rows.len() > LOOKED_THROUGH {
        return true;
    }
    let table = partition.table();
    let has = |row: &[u8]| match range {
        Range::Heap => true,
        Range::Index { .. } => index_key(table, range, row).is_some(),
        Range::Keys(lookups) => lookups.has(table, row),
    };
    let staged =
        leg.rows.iter().filter(|row| row.place.partition == partition.id() && row.is_staged());
    staged.into_iter().any(|row| {
        row.newest().is_some_and(|row| has(&row.0))
            || partition.row(row.place.row_id).is_some_and(has)
    })
}

/// Most rows of a leg that are compared with a range.
const LOOKED_THROUGH: usize = 64;

/// A row that a leg other than `own` has staged with a key in the range: its key's hash. Of several
/// the one in the first slot.
pub(super) fn staged_by_others(
    legs: &Legs,
    replica: &Replica,
    range: &Range,
    own: LegHandle,
) -> Option<u64> {
    let partition = &replica.partition;
    let staged = replica.claims_of_others(legs, own).filter_map(|(row_id, handle)| {
        let touched = legs.get(handle)?.rows.at(Place { partition: partition.id(), row_id })?;
        let row = touched.is_staged().then(|| touched.newest()).flatten()?;
        index_key(partition.table(), range, &row.0)?;
        Some((row_id, touched.hash))
    });
    staged.min_by_key(|(row_id, _)| *row_id).map(|(_, hash)| hash)
}
