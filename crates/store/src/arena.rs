//! Elements in chunks, named by `u32`: growing never moves an element, so it never pauses.
//!
//! # Guarantees
//! Adding an element allocates at most one chunk; a small arena is one small vector.
//! # Not here
//! Generations: the data structure that owns the arena knows who points where.

use std::ops::{Index, IndexMut};

/// A growable sequence in chunks of `CHUNK` elements, a power of two.
#[derive(Clone, Debug)]
struct Chunks<T, const CHUNK: usize> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T, const CHUNK: usize> Chunks<T, CHUNK> {
    fn new() -> Self {
        const { assert!(CHUNK.is_power_of_two()) };
        Self { chunks: Vec::new(), len: 0 }
    }

    fn push(&mut self, element: T) {
        let chunk = self.len / CHUNK;
        if chunk == self.chunks.len() {
            let capacity = if chunk == 0 { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let elements = &mut self.chunks[chunk];
        if elements.len() == elements.capacity() {
            // The first chunk grows by doubling, from one element on: most tables are small.
            elements.reserve_exact(elements.len().max(1));
        }
        elements.push(element);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.chunks[last / CHUNK].pop()
    }

    /// Gives the last elements back, so many at most; how many are left of that number when no
    /// element is.
    fn shed(&mut self, mut count: u32) -> u32 {
        while count > 0 {
            let Some(chunk) = self.chunks.last_mut() else { break };
            if chunk.pop().is_none() {
                self.chunks.pop();
            }
            count -= 1;
        }
        self.len = 0;
        count
    }

    /// Bytes allocated; takes constant time, as every chunk but the first is made in full size.
    fn memory_bytes(&self) -> usize {
        let first = self.chunks.first().map_or(0, Vec::capacity);
        let elements = first + self.chunks.len().saturating_sub(1) * CHUNK;
        elements * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

/// Elements named by the `u32` that [`Arena::add`] returned; released names are used again.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T, const CHUNK: usize> {
    elements: Chunks<T, CHUNK>,
    free: Chunks<u32, 4096>,
}

impl<T, const CHUNK: usize> Arena<T, CHUNK> {
    /// An arena that holds nothing and has allocated nothing.
    pub(crate) fn new() -> Self {
        Self { elements: Chunks::new(), free: Chunks::new() }
    }

    /// Stores `element` and names it. At most `u32::MAX` elements fit.
    pub(crate) fn add(&mut self, element: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self[id] = element;
            return id;
        }
        let id = u32::try_from(self.elements.len).expect("an arena holds fewer than 2^32 elements");
        assert!(id < u32::MAX, "the last name is reserved for none");
        self.elements.push(element);
        id
    }

    /// Gives the name back; the element stays in its place until the name is used again.
    pub(crate) fn release(&mut self, id: u32) {
        assert!((id as usize) < self.elements.len, "element {id} was never added");
        self.free.push(id);
    }

    /// Gives the memory of so many elements back, whatever names them; how many are left of that
    /// number when there are no more. The arena is of no use any more.
    pub(crate) fn shed(&mut self, count: u32) -> u32 {
        self.elements.shed(count)
    }

    /// Whether no element was ever added.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.elements.len == 0
    }

    /// Elements added and not released.
    pub(crate) fn len(&self) -> usize {
        self.elements.len - self.free.len
    }

    /// Bytes allocated, without what the elements own themselves.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.elements.memory_bytes() + self.free.memory_bytes()
    }
}

impl<T, const CHUNK: usize> Index<u32> for Arena<T, CHUNK> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.elements.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl<T, const CHUNK: usize> IndexMut<u32> for Arena<T, CHUNK> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.elements.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_some_elements_at_a_time() {
        let counted = std::rc::Rc::new(());
        let mut arena: Arena<std::rc::Rc<()>, 4> = Arena::new();
        (0..10).for_each(|_| _ = arena.add(counted.clone()));
        let mut rounds = 0;
        while arena.shed(3) == 0 {
            rounds += 1;
            let left = std::rc::Rc::strong_count(&counted) - 1;
            assert!(left + 3 * rounds >= 10, "no more than three at a time");
        }
        assert_eq!(std::rc::Rc::strong_count(&counted), 1);
        assert_eq!(arena.shed(7), 7);
    }

    #[test]
    fn names_are_used_again() {
        let mut arena: Arena<u32, 4> = Arena::new();
        let ids: Vec<u32> = (0..10).map(|v| arena.add(v * 100)).collect();
        assert!(ids.iter().all(|id| arena[*id] == id * 100));
        arena.release(3);
        arena.release(7);
        assert_eq!(arena.len(), 8);
        assert_eq!(arena.add(1), 7);
        assert_eq!(arena.add(2), 3);
        assert_eq!(arena.add(3), 10);
        assert_eq!((arena[7], arena[3], arena[10]), (1, 2, 3));
        let elements: usize = arena.elements.chunks.iter().map(Vec::capacity).sum();
        let lists = arena.elements.chunks.capacity() * size_of::<Vec<u32>>();
        assert_eq!(arena.elements.memory_bytes(), elements * size_of::<u32>() + lists);
    }
}
