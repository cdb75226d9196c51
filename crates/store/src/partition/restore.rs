//! Reading a replica back from a disk, and what a checkpoint writes of it.
//!
//! # Guarantees
//! A slot never goes back to an older epoch, whatever the order in which its images come. Ordered
//! indexes are built when all rows are there, which takes fewer steps than keeping them up.
//! # Not here
//! Files and what they must contain (`datanode::participant`).

use model::{Epoch, RowId};

use super::Partition;
use crate::ordered_index::OrderedIndex;

impl Partition {
    /// Takes the rows out of the ordered indexes; [`Partition::build_indexes`] puts them back. For
    /// a replica that many rows come to.
    pub fn postpone_indexes(&mut self) {
        assert!(self.versions.is_empty(), "{}: old images are in the indexes", self.id);
        for index in &mut self.indexes {
            index.tree = OrderedIndex::new();
            index.building = Some(0);
        }
    }

    /// Takes in a slot as a checkpoint or the log has it. Returns false, and changes nothing, when
    /// the slot has a newer epoch. Another key in the slot, or the key in another slot, is removed:
    /// what was there at the end comes later.
    pub fn restore(&mut self, row_id: RowId, epoch: Epoch, row: Option<&[u8]>) -> bool {
        self.apply_copy(row_id, epoch, row, false)
    }

    /// All slots from `first` on that hold a row or did once, in order, with the epoch of their
    /// last change.
    pub fn slots_from(
        &self,
        first: RowId,
    ) -> impl Iterator<Item = (RowId, Epoch, Option<&[u8]>)> + '_ {
        self.heap.used_slots_from(first)
    }
}
