//! Record pools: a stated limit, typed handles that never reach a record of another life.
//!
//! # Guarantees
//! Memory grows with the most records ever held at once, up to the limit. A slot whose generations
//! are used up is never used again, so a handle stays unique for ever.
//! # Not here
//! Sharing and borrowing: whoever owns the pool reaches every record through it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Names one record of a [`Pool`], for the record's life only.
pub struct Handle<T> {
    index: u32,
    generation: u32,
    record: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// The record's slot: unique among the living records of the pool.
    pub fn index(self) -> u32 {
        self.index
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}

impl<T> Eq for Handle<T> {}

impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.index, self.generation).cmp(&(other.index, other.generation))
    }
}

impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.index, self.generation).hash(state);
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

impl<T> fmt::Display for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The pool's limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull {
    /// Records the pool may hold.
    pub limit: u32,
}

impl fmt::Display for PoolFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pool's limit of {} records is reached", self.limit)
    }
}

impl std::error::Error for PoolFull {}

/// Records in slots that are used again; grows on demand up to its limit.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    /// Slots that have had their last generation.
    retired: usize,
    limit: u32,
}

impl<T> Pool<T> {
    /// An empty pool of at most `limit` records.
    pub fn with_limit(limit: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), retired: 0, limit }
    }

    /// Adds a record, or says that the limit is reached.
    pub fn insert(&mut self, record: T) -> Result<Handle<T>, PoolFull> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            assert!(slot.1.is_none(), "a free slot is empty");
            slot.1 = Some(record);
            return Ok(Handle { index, generation: slot.0, record: PhantomData });
        }
        if self.len() >= self.limit as usize {
            return Err(PoolFull { limit: self.limit });
        }
        let index = u32::try_from(self.slots.len()).expect("a pool has fewer than 2^32 slots");
        self.slots.push((0, Some(record)));
        Ok(Handle { index, generation: 0, record: PhantomData })
    }

    /// The record, if it still lives.
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        let (generation, record) = self.slots.get(handle.index as usize)?;
        record.as_ref().filter(|_| *generation == handle.generation)
    }

    /// The record, if it still lives.
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        let (generation, record) = self.slots.get_mut(handle.index as usize)?;
        record.as_mut().filter(|_| *generation == handle.generation)
    }

    /// Removes and returns the record, if it still lives. Its handles are dead from now on.
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.0 != handle.generation {
            return None;
        }
        let record = slot.1.take()?;
        match slot.0.checked_add(1) {
            Some(generation) => {
                slot.0 = generation;
                self.free.push(handle.index);
            }
            None => self.retired += 1,
        }
        Some(record)
    }

    /// Records held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.retired
    }

    /// Whether no record is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Most records it may hold.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Records that still fit.
    pub fn free(&self) -> u32 {
        self.limit - self.len() as u32
    }

    /// All records with their handles, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<T>, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, (generation, record))| {
            let handle =
                Handle { index: index as u32, generation: *generation, record: PhantomData };
            record.as_ref().map(|record| (handle, record))
        })
    }

    /// Handles of all records, in slot order.
    pub fn handles(&self) -> impl Iterator<Item = Handle<T>> + '_ {
        self.iter().map(|(handle, _)| handle)
    }
}

impl<T> Index<Handle<T>> for Pool<T> {
    type Output = T;

    fn index(&self, handle: Handle<T>) -> &T {
        self.get(handle).unwrap_or_else(|| panic!("stale handle {handle}"))
    }
}

impl<T> IndexMut<Handle<T>> for Pool<T> {
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        self.get_mut(handle).unwrap_or_else(|| panic!("stale handle {handle}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_never_reaches_a_newer_record() {
        let mut pool = Pool::with_limit(2);
        let first = pool.insert("a").expect("room");
        pool.insert("b").expect("room");
        assert_eq!(pool.insert("c"), Err(PoolFull { limit: 2 }));
        assert_eq!(pool.remove(first), Some("a"));
        let second = pool.insert("d").expect("room again");
        assert_eq!(first.index(), second.index());
        assert_eq!(pool.get(first), None);
        assert_eq!(pool.remove(first), None);
        assert_eq!(pool[second], "d");
        assert_eq!(pool.len(), 2);
    }
    #[test]
    fn a_slot_retires_after_its_last_generation() {
        let mut pool = Pool::with_limit(1);
        let first = pool.insert(1).expect("room");
        pool.slots[0].0 = u32::MAX;
        let last = Handle { generation: u32::MAX, ..first };
        assert_eq!(pool.remove(last), Some(1));
        assert!(pool.is_empty());
        let next = pool.insert(2).expect("the limit counts records");
        assert_eq!((next.index(), pool.get(last)), (1, None));
        assert_eq!(pool.insert(3), Err(PoolFull { limit: 1 }));
        assert_eq!(pool.free(), 0);
    }

    #[test]
    fn records_are_listed_in_slot_order() {
        let mut pool = Pool::with_limit(10);
        let handles: Vec<_> = (0..5).map(|v| pool.insert(v).expect("room")).collect();
        pool.remove(handles[2]);
        assert_eq!(pool.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [0, 1, 3, 4]);
        assert_eq!(pool.handles().count(), pool.len());
        assert!(handles[0] < handles[1]);
        assert_eq!(handles[3].to_string(), "3.0");
        pool[handles[3]] = 30;
        assert_eq!(pool[handles[3]], 30);
        assert_eq!((pool.free(), pool.limit()), (6, 10));
        let full = PoolFull { limit: 10 }.to_string();
        assert_eq!(full, "the pool's limit of 10 records is reached");
    }

    #[test]
    #[should_panic(expected = "stale handle 0.0")]
    fn a_stale_handle_does_not_index() {
        let mut pool = Pool::with_limit(1);
        let handle = pool.insert(1).expect("room");
        pool.remove(handle);
        let _ = pool[handle];
    }
}
