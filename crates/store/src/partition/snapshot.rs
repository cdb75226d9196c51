//! Reads as of a retained epoch: the newest image where it is old enough, else a kept one.
//!
//! # Guarantees
//! What is read is the partition as all commits up to the snapshot's epoch left it, while the epoch
//! is retained and not below the floor. Reads as of other epochs give no useful answer.
//! # Not here
//! Whether an epoch is complete and retained (`datanode::epochs`).

use std::cmp::Ordering;

use model::{Epoch, IndexId, RowId};

use super::{Index, Partition};
use crate::ordered_index::{Direction, KeyRange, Scan};

/// Entries whose rows are looked up together.
const BATCH: usize = 64;

/// The replica does not have the images of a snapshot this old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotTooOld;

/// A scan of an ordered index as of a snapshot; see [`Partition::scan_index_at`].
pub struct SnapshotIndexScan<'a> {
    partition: &'a Partition,
    index: &'a Index,
    snapshot: Epoch,
    direction: Direction,
    newest: Source<'a>,
    /// Entries that rows have lost since; absent when there are none.
    former: Option<Source<'a>>,
    /// The key of the entry given last.
    key: Vec<u8>,
}

/// One of the two merged scans, with its next visible entry.
struct Source<'a> {
    scan: Scan<'a>,
    head: Option<(RowId, &'a [u8])>,
    key: Vec<u8>,
}

impl Partition {
    /// The oldest epoch that snapshot reads are answered for.
    pub fn snapshot_floor(&self) -> Epoch {
        self.snapshot_floor
    }

    /// Refuses snapshot reads below `floor`: older images may be missing.
    pub fn set_snapshot_floor(&mut self, floor: Epoch) {
        self.snapshot_floor = floor;
    }

    /// The row that had this primary key as of `snapshot`. `hash` is that of [`Partition::find`].
    pub fn read_at(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: Epoch,
    ) -> Result<Option<&[u8]>, SnapshotTooOld> {
        if snapshot < self.snapshot_floor {
            return Err(SnapshotTooOld);
        }
        let slots = self.find(key, hash).into_iter().chain(self.versions.former_slots(hash));
        let mut rows = slots.filter_map(|row_id| self.row_at(row_id, snapshot));
        Ok(rows.find(|row| self.table.row_has_key(&self.table.primary_key, row, key)))
    }

    /// The row that was in the slot as of `snapshot`, which is not below the floor.
    #[inline]
    pub fn row_at(&self, row_id: RowId, snapshot: Epoch) -> Option<&[u8]> {
        if self.heap.epoch(row_id) <= snapshot {
            return self.heap.row(row_id);
        }
        self.versions.row_at(row_id, snapshot)
    }

    /// The first slot after `after`, or at all, that held a row as of `snapshot`, which is not
    /// below the floor. Passes over rows inserted since, however many there are.
    pub fn next_slot_at(&self, after: Option<RowId>, snapshot: Epoch) -> Option<(RowId, &[u8])> {
        let (mut newest, mut old) = (self.heap.next_row(after), self.versions.next_slot(after));
        loop {
            let row_id = match (newest, old) {
                (None, None) => return None,
                (Some(newest), None) => newest,
                (None, Some(old)) => old,
                (Some(newest), Some(old)) => newest.min(old),
            };
            if let Some(row) = self.row_at(row_id, snapshot) {
                return Some((row_id, row));
            }
            if newest == Some(row_id) {
                newest = self.heap.next_row(newest);
            }
            if old == Some(row_id) {
                old = self.versions.next_slot(old);
            }
        }
    }

    /// [`Partition::next_rows`] as of `snapshot`, which is not below the floor.
    pub fn next_rows_at<'a>(
        &'a self,
        after: Option<RowId>,
        snapshot: Epoch,
        most: usize,
        out: &mut Vec<&'a [u8]>,
    ) -> Option<RowId> {
        let (mut after, mut last, mut left) = (after, None, most);
        while left > 0 {
            // Between slots with old images the rows are those of the heap that were there then.
            let before = out.len();
            let old = self.versions.next_slot(after);
            last = self.heap.next_rows(after, old, snapshot, left, out).or(last);
            left -= out.len() - before;
            let Some(old) = old.filter(|_| left > 0) else { break };
            if let Some(row) = self.row_at(old, snapshot) {
                out.push(row);
                (last, left) = (Some(old), left - 1);
            }
            after = Some(old);
        }
        last
    }

    /// Begins a scan of an ordered index, which must be ready, as of `snapshot`, which is not below
    /// the floor. With `after`, only entries strictly after it in the scan's direction.
    pub fn scan_index_at(
        &self,
        index: IndexId,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
        snapshot: Epoch,
    ) -> SnapshotIndexScan<'_> {
        let index = self.ready_index(index);
        let newest = Source::new(index.tree.scan(range, direction, after));
        let former = self.versions.former_entries(index.id);
        let former = former.map(|tree| Source::new(tree.scan(range, direction, after)));
        let (partition, key) = (self, Vec::new());
        let mut scan =
            SnapshotIndexScan { partition, index, snapshot, direction, newest, former, key };
        scan.advance(true, true);
        scan
    }
}

impl<'a> Source<'a> {
    fn new(scan: Scan<'a>) -> Self {
        Self { scan, head: None, key: Vec::new() }
    }

    /// Moves to the next entry that `visible` gives a row for.
    fn advance(&mut self, visible: impl Fn(&[u8], RowId) -> Option<&'a [u8]>) {
        self.head = None;
        while let Some((key, row_id)) = self.scan.next() {
            if let Some(row) = visible(key, row_id) {
                self.key.clear();
                self.key.extend_from_slice(key);
                self.head = Some((row_id, row));
                return;
            }
        }
    }
}

impl<'a> SnapshotIndexScan<'a> {
    /// The next entry: its key, which is valid until the next call, its row id and its row as of
    /// the snapshot.
    #[expect(clippy::should_implement_trait, reason = "the key is lent by the scan")]
    pub fn next(&mut self) -> Option<(&[u8], RowId, &'a [u8])> {
        let order = match (&self.newest.head, self.former.as_ref().map(|source| &source.head)) {
            (None, None | Some(None)) => return None,
            (Some(_), None | Some(None)) => Ordering::Less,
            (None, Some(Some(_))) => Ordering::Greater,
            (Some((row_id, _)), Some(Some((former_id, _)))) => {
                let former_key = self.former.as_ref().map_or(&[][..], |source| &source.key);
                let order = (&self.newest.key[..], row_id).cmp(&(former_key, former_id));
                if self.direction == Direction::Ascending { order } else { order.reverse() }
            }
        };
        let source = match order {
            Ordering::Less | Ordering::Equal => &mut self.newest,
            Ordering::Greater => self.former.as_mut().expect("it has the next entry"),
        };
        std::mem::swap(&mut self.key, &mut source.key);
        let (row_id, row) = source.head.expect("it has the next entry");
        // A row that got a former entry back has it in both.
        self.advance(order.is_le(), order.is_ge());
        Some((&self.key, row_id, row))
    }

    /// Adds the rows of the next entries, so many at most. The last one's row id.
    pub fn next_rows(&mut self, most: usize, out: &mut Vec<&'a [u8]>) -> Option<RowId> {
        let (end, mut last) = (out.len() + most, None);
        while out.len() < end {
            let batch = (end - out.len()).min(BATCH);
            if let Some(row_id) = self.next_unchanged(batch, out) {
                last = Some(row_id);
                continue;
            }
            for _ in 0..batch {
                let Some((_, row_id, row)) = self.next() else { return last };
                out.push(row);
                last = Some(row_id);
            }
        }
        last
    }

    /// The same where no row has changed since the snapshot; nothing is added if one of them has.
    ///
    /// The places of all are found before the first of them is read: each lies anywhere in memory,
    /// and a processor waits for many of them at once if nothing else is between.
    fn next_unchanged(&mut self, most: usize, out: &mut Vec<&'a [u8]>) -> Option<RowId> {
        let (row_id, row) = self.newest.head.filter(|_| self.former.is_none())?;
        let (partition, snapshot) = (self.partition, self.snapshot);
        let before = self.newest.scan.clone();
        let rest = std::iter::from_fn(|| self.newest.scan.next_row()).take(most - 1);
        let rest: Vec<RowId> = rest.collect();
        if rest.iter().any(|row_id| partition.heap.epoch(*row_id) > snapshot) {
            self.newest.scan = before;
            return None;
        }
        out.push(row);
        out.extend(rest.iter().filter_map(|row_id| partition.heap.row(*row_id)));
        self.advance(true, false);
        Some(rest.last().copied().unwrap_or(row_id))
    }

    /// Moves on in one of the merged scans or both.
    fn advance(&mut self, newest: bool, former: bool) {
        let Self { partition, index, snapshot, .. } = *self;
        let with_key = |key: &[u8], row_id| {
            let row = partition.row_at(row_id, snapshot)?;
            partition.table.row_has_key(&index.columns, row, key).then_some(row)
        };
        if newest {
            self.newest.advance(|key, row_id| {
                if partition.heap.epoch(row_id) <= snapshot {
                    // Its newest row is what the entry was made from.
                    return partition.heap.row(row_id);
                }
                with_key(key, row_id)
            });
        }
        if former && let Some(source) = &mut self.former {
            source.advance(with_key);
        }
    }
}
