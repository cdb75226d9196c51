//! Digests and consistency checks of a partition replica, for tests and the simulator.
//!
//! # Guarantees
//! Equal digests mean equal rows in equal slots with equal epochs; neither where images lie nor
//! which slots are reserved counts.

use model::key::local_hash;

use super::Partition;

impl Partition {
    /// A hash over row id, epoch and row of all slots in order. Slots that were never used do not
    /// count. Reads the whole replica.
    pub fn digest(&self) -> u64 {
        let mut digest = 0;
        let mut words = [0; 40];
        for (row_id, epoch, row) in self.heap.used_slots() {
            let content = row.map_or(0, local_hash);
            let parts = [digest, u64::from(row_id.0), epoch.0, u64::from(row.is_some()), content];
            for (word, part) in words.chunks_exact_mut(8).zip(parts) {
                word.copy_from_slice(&part.to_le_bytes());
            }
            digest = local_hash(&words);
        }
        digest
    }

    /// Panics when rows, primary-key index, ordered indexes, free slots and old images disagree.
    /// While rows are read back there are no indexes to look at. Reads the whole replica.
    pub fn check(&self) {
        self.heap.check();
        self.primary.check();
        if self.restoring.is_some() {
            assert!(self.indexes.iter().all(|index| index.tree.is_empty()), "{}", self.id);
            return;
        }
        assert_eq!(self.primary.len() as u64, self.row_count(), "{}: entries by key", self.id);
        for (row_id, epoch, row) in self.heap.used_slots() {
            let Some(row) = row else { continue };
            assert!(epoch.0 > 0, "{} {row_id}: a row without epoch", self.id);
            let key = self.table.key_of_row(&self.table.primary_key, row);
            let found = self.find(key.bytes(), key.local_hash());
            assert_eq!(found, Some(row_id), "{}: found by its key", self.id);
        }
        for index in &self.indexes {
            index.tree.check();
            let mut entries = 0;
            for (row_id, _, row) in self.heap.used_slots() {
                let Some(row) = row.filter(|_| index.covers(row_id)) else { continue };
                let key = self.table.key_of_row(&index.columns, row);
                let found = index.tree.contains(key.bytes(), row_id);
                assert!(found, "{} {row_id}: not in {}", self.id, index.id);
                entries += 1;
            }
            assert_eq!(index.tree.len(), entries, "{}: entries of {}", self.id, index.id);
        }
        let newest = |row_id| self.row(row_id);
        self.versions.check(&self.table, newest, |id| self.index_ready(id));
    }
}
