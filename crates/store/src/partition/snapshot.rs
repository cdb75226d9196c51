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
    /// Entries of kept images; absent when there are none.
    old: Option<Source<'a>>,
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
        if let Some(row_id) = self.find(key, hash)
            && self.heap.epoch(row_id) <= snapshot
        {
            return Ok(self.heap.row(row_id));
        }
        Ok(self.versions.read_at(&self.table, key, hash, snapshot))
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
        let old = self.versions.entries(index.id);
        let old = old.map(|tree| Source::new(tree.scan(range, direction, after)));
        let partition = self;
        let key = Vec::new();
        let mut scan =
            SnapshotIndexScan { partition, index, snapshot, direction, newest, old, key };
        scan.advance_newest();
        scan.advance_old();
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
        let old_head = self.old.as_ref().and_then(|old| old.head.map(|head| (&old.key, head)));
        let take_old = match (self.newest.head, old_head) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some((row_id, _)), Some((old_key, (old_row_id, _)))) => {
                let order = (old_key, old_row_id).cmp(&(&self.newest.key, row_id));
                match self.direction {
                    Direction::Ascending => order == Ordering::Less,
                    Direction::Descending => order == Ordering::Greater,
                }
            }
        };
        let source = if take_old { self.old.as_mut() } else { Some(&mut self.newest) };
        let source = source.expect("an entry was chosen");
        std::mem::swap(&mut self.key, &mut source.key);
        let (row_id, row) = source.head.expect("an entry was chosen");
        if take_old {
            self.advance_old();
        } else {
            self.advance_newest();
        }
        Some((&self.key, row_id, row))
    }

    fn advance_newest(&mut self) {
        let (partition, snapshot) = (self.partition, self.snapshot);
        self.newest.advance(|_, row_id| {
            let is_visible = partition.heap.epoch(row_id) <= snapshot;
            is_visible.then(|| partition.heap.row(row_id).expect("an indexed row is there"))
        });
    }

    /// Entries of kept images count only when the image valid at the snapshot has the key. Its slot
    /// has been changed since, so the newest entries do not show the row.
    fn advance_old(&mut self) {
        let (partition, snapshot, index) = (self.partition, self.snapshot, self.index);
        let Some(old) = &mut self.old else { return };
        old.advance(|key, row_id| {
            let row = partition.versions.row_at(row_id, snapshot)?;
            partition.table.row_has_key(&index.columns, row, key).then_some(row)
        });
    }
}
