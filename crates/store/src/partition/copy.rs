//! Copying a replica: slots that arrive from the primary.
//!
//! # Guarantees
//! A slot never goes back to an older epoch. Copied rows replace without leaving old images: the
//! snapshot floor keeps readers away from what is older than the copy.
//! # Not here
//! Which slots are sent and when (`datanode::participant`).

use model::{Epoch, RowId};

use super::Partition;

impl Partition {
    /// Takes over a slot of the primary: its row, or that it is empty, as of `epoch`. `staged` says
    /// that an open transaction has a change for the slot, so that it is not free when empty.
    ///
    /// Returns false, and changes nothing, when the slot has a newer epoch. Leftovers are removed:
    /// another key in the slot, or the key in another slot.
    pub fn apply_copy(
        &mut self,
        row_id: RowId,
        epoch: Epoch,
        row: Option<&[u8]>,
        staged: bool,
    ) -> bool {
        if self.heap.epoch(row_id) > epoch {
            return false;
        }
        match row {
            Some(row) => {
                let reserved = staged && self.heap.is_reserved(row_id);
                self.store(row_id, row, epoch, &[], reserved);
            }
            None => self.empty(row_id, epoch, staged),
        }
        true
    }

    /// Ends a copy from a replica with `slots` slots: rows beyond are leftovers and removed, except
    /// those of slots that `stays` names, and free slots at the end are dropped. Takes time in
    /// proportion to what lies beyond.
    pub fn truncate(&mut self, slots: u32, stays: impl Fn(RowId) -> bool) {
        let mut after = slots.checked_sub(1).map(RowId);
        while let Some(row_id) = self.heap.next_row(after) {
            if stays(row_id) {
                // Newer than the copy.
            } else if self.restoring.is_some() {
                self.heap.erase(row_id, self.heap.epoch(row_id), false);
            } else {
                self.remove_leftover(row_id);
            }
            after = Some(row_id);
        }
        self.heap.truncate(slots);
    }
}
