//! The transaction records of a coordinator, found by the transaction's name.
//!
//! # Guarantees
//! Whatever goes over all records does so in the order of their names, which is the same in every
//! run. One message asks for the same record many times: that is cheap.

use model::TransactionId;
use stdx::HashMap;

use super::state::Record;

/// All records; see the module's head.
#[derive(Debug, Default)]
pub(super) struct Records {
    slots: Vec<Option<Record>>,
    free: Vec<u32>,
    by_id: HashMap<TransactionId, u32>,
    /// The record asked for last, and its slot.
    last: Option<(TransactionId, u32)>,
}

impl Records {
    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no record.
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The transaction's record, if there is one.
    pub(super) fn get(&self, id: &TransactionId) -> Option<&Record> {
        let slot = self.slot(id)?;
        self.slots[slot as usize].as_ref()
    }

    /// The transaction's record, if there is one, to change it.
    pub(super) fn get_mut(&mut self, id: &TransactionId) -> Option<&mut Record> {
        let slot = self.slot(id)?;
        self.last = Some((*id, slot));
        self.slots[slot as usize].as_mut()
    }

    /// Files the record of a transaction that has none.
    pub(super) fn insert(&mut self, record: Record) -> &mut Record {
        let id = record.id;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let earlier = self.by_id.insert(id, slot);
        assert!(earlier.is_none(), "{id} has two coordinators");
        self.last = Some((id, slot));
        self.slots[slot as usize].insert(record)
    }

    /// Takes the transaction's record out, if there is one.
    pub(super) fn remove(&mut self, id: &TransactionId) -> Option<Record> {
        let slot = self.by_id.remove(id)?;
        self.last = None;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    /// All records, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Record> {
        let mut records: Vec<&Record> = self.slots.iter().flatten().collect();
        records.sort_unstable_by_key(|record| record.id);
        records.into_iter()
    }

    /// All records, in no order: for questions to which it does not matter.
    pub(super) fn unordered(&self) -> impl Iterator<Item = &Record> {
        self.slots.iter().flatten()
    }

    /// The names of the records that `is_wanted` accepts, in order.
    pub(super) fn ids(&self, is_wanted: impl Fn(&Record) -> bool) -> Vec<TransactionId> {
        self.iter().filter(|record| is_wanted(record)).map(|record| record.id).collect()
    }

    /// Panics when a record is not found by its name.
    pub(super) fn check(&self) {
        assert_eq!(self.iter().count(), self.by_id.len(), "records by name");
        assert_eq!(self.slots.len(), self.by_id.len() + self.free.len(), "free records");
        for record in self.iter() {
            let found = self.get(&record.id).map(|found| found.id);
            assert_eq!(found, Some(record.id), "record filed under its own name");
        }
    }

    fn slot(&self, id: &TransactionId) -> Option<u32> {
        match self.last {
            Some((last, slot)) if last == *id => Some(slot),
            _ => self.by_id.get(id).copied(),
        }
    }
}
