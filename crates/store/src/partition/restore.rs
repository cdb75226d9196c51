//! Reading a replica back from a disk, and what a checkpoint writes of it.
//!
//! # Guarantees
//! A slot never goes back to an older epoch, whatever the order in which its images come. Rows come
//! without any index; the indexes are made when all rows are there and it is known how many: the
//! primary-key index in its final size, ordered indexes from sorted entries. That goes in steps;
//! what is not bounded is the allocation of the primary-key index (11 bytes a row). Until an
//! ordered index is there an entry of it takes 24 bytes, and its key besides if that has more than
//! 15.
//! # Not here
//! Files and what they must contain (`datanode::participant`).

use std::hint::black_box;
use std::ops::Range;

use model::key::local_hash;
use model::{Epoch, RowId};

use super::{Building, Partition, encode, same_key};
use crate::hash_index::HashIndex;

/// Slots whose rows are given to the indexes together.
const BATCH: u32 = 32;

impl Partition {
    /// Begins to read rows back into an empty replica; [`Partition::build_indexes`] ends it.
    pub fn begin_restore(&mut self) {
        assert_eq!(self.slot_count(), 0, "{}: rows come back to others", self.id);
        assert!(self.versions.is_empty(), "{}: old images are in the indexes", self.id);
        self.restoring = Some(0);
        for index in &mut self.indexes {
            index.building = Some(Building::Bulk(None));
        }
    }

    /// Takes in a slot as a checkpoint or the log has it. Returns false, and changes nothing, when
    /// the slot has a newer epoch.
    pub fn restore(&mut self, row_id: RowId, epoch: Epoch, row: Option<&[u8]>) -> bool {
        assert_eq!(self.restoring, Some(0), "{} {row_id}: not while rows come back", self.id);
        if self.heap.epoch(row_id) > epoch {
            return false;
        }
        match row {
            Some(row) => {
                assert!(epoch > Epoch(0), "{} {row_id}: a row without epoch", self.id);
                self.heap.write(row_id, row, epoch, false);
            }
            None => self.heap.erase(row_id, epoch, false),
        }
        true
    }

    /// All slots from `first` on that hold a row or did once, in order, with the epoch of their
    /// last change.
    pub fn slots_from(
        &self,
        first: RowId,
    ) -> impl Iterator<Item = (RowId, Epoch, Option<&[u8]>)> + '_ {
        self.heap.used_slots_from(first)
    }

    /// Goes on giving the rows that were read back to the indexes: one look at each row. False when
    /// some are left.
    pub(super) fn index_restored(&mut self, left: &mut u32) -> bool {
        let Some(mut next) = self.restoring else { return true };
        if next == 0 {
            self.primary = HashIndex::sized_for(self.heap.row_count());
        }
        while next < self.heap.slot_count() {
            if *left == 0 {
                self.restoring = Some(next);
                return false;
            }
            let slots = BATCH.min(*left).min(self.heap.slot_count() - next);
            self.index_slots(next..next + slots);
            *left -= slots;
            next += slots;
        }
        self.restoring = None;
        true
    }

    /// Gives the rows of a few slots to the indexes.
    ///
    /// Rows and places of the index are not in a cache. All of them are asked for before the first
    /// is needed, so that the processor waits once for a batch and not at each row.
    fn index_slots(&mut self, slots: Range<u32>) {
        let Self { table, heap, primary, indexes, key, .. } = self;
        let rows = slots.filter_map(|slot| Some((RowId(slot), heap.row(RowId(slot))?)));
        black_box(rows.clone().fold(0, |sum, (_, row)| sum ^ row[0]));
        let mut hashes = [(0, RowId(0)); BATCH as usize];
        let mut count = 0;
        for (row_id, row) in rows {
            encode(table, &table.primary_key, row, key);
            hashes[count] = (local_hash(key.bytes()), row_id);
            count += 1;
            for index in &mut *indexes {
                if let Some(Building::Bulk(bulk)) = &mut index.building {
                    encode(table, &index.columns, row, key);
                    bulk.get_or_insert_default().add(key.bytes(), row_id);
                }
            }
        }
        let hashes = &hashes[..count];
        black_box(hashes.iter().fold(0, |sum, (hash, _)| sum ^ primary.peek(*hash)));
        for (hash, row_id) in hashes {
            self.index_by_key(*hash, *row_id);
        }
    }

    fn index_by_key(&mut self, hash: u64, row_id: RowId) {
        let Self { table, heap, primary, .. } = self;
        let other = primary.find(hash, |other| {
            let row_of = |row_id| heap.row(row_id).expect("an indexed row is there");
            same_key(table, &table.primary_key, row_of(other), row_of(row_id))
        });
        match other {
            None => primary.insert(hash, row_id),
            Some(other) => self.drop_older(hash, other, row_id),
        }
    }

    /// No two slots have the same key as of the end of an epoch. If two do all the same, the one
    /// that was changed later keeps it. Entries of both may be gathered, so the ordered indexes are
    /// built anew.
    #[cold]
    fn drop_older(&mut self, hash: u64, indexed: RowId, row_id: RowId) {
        for index in &mut self.indexes {
            index.building = Some(Building::Entries(0));
        }
        let (before, epoch) = (self.heap.epoch(indexed), self.heap.epoch(row_id));
        if before > epoch {
            return self.heap.erase(row_id, epoch, false);
        }
        assert!(self.primary.remove(hash, indexed), "{indexed} was found there");
        self.primary.insert(hash, row_id);
        self.heap.erase(indexed, before, false);
    }

    /// Makes an ordered index of the entries that were gathered.
    pub(super) fn build_in_bulk(&mut self, at: usize, left: &mut u32) -> bool {
        let index = &mut self.indexes[at];
        let Some(Building::Bulk(bulk)) = &mut index.building else { return true };
        assert!(self.versions.is_empty(), "{}: old images without a change", self.id);
        if let Some(bulk) = bulk {
            if !bulk.merge(std::mem::take(left)) {
                return false;
            }
            index.tree = std::mem::take(&mut **bulk).finish();
        }
        index.building = None;
        true
    }
}
