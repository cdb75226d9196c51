//! A long list in chunks: growing never moves an element, so it never pauses.
//!
//! # Guarantees
//! Adding an element at the end allocates at most one chunk and copies none but those of the first
//! chunk, which grows as a vector does: a short list costs what a vector costs. Taking the last
//! element out gives memory back chunk by chunk.

use std::ops::{Index, IndexMut};

/// Elements in chunks of `CHUNK`; see the module's head.
#[derive(Clone, Debug)]
pub struct Chunked<T, const CHUNK: usize> {
    first: Vec<T>,
    /// Full ones, but for the last.
    more: Vec<Vec<T>>,
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Self {
        Self { first: Vec::new(), more: Vec::new() }
    }
}

impl<T, const CHUNK: usize> Chunked<T, CHUNK> {
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self.more.last() {
            None => self.first.len(),
            Some(last) => self.more.len() * CHUNK + last.len(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Adds an element at the end.
    #[inline]
    pub fn push(&mut self, element: T) {
        if self.first.len() < CHUNK {
            return self.first.push(element);
        }
        match self.more.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(element),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(element);
                self.more.push(chunk);
            }
        }
    }

    /// Takes the last element out.
    pub fn pop(&mut self) -> Option<T> {
        let Some(last) = self.more.last_mut() else { return self.first.pop() };
        let element = last.pop();
        if last.is_empty() {
            self.more.pop();
        }
        element
    }

    /// The last element.
    pub fn last(&self) -> Option<&T> {
        self.more.last().unwrap_or(&self.first).last()
    }

    /// The element in a place, if there is one.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        if at < CHUNK { self.first.get(at) } else { self.more.get(at / CHUNK - 1)?.get(at % CHUNK) }
    }

    /// The element in a place, if there is one, to change it.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        if at < CHUNK {
            self.first.get_mut(at)
        } else {
            self.more.get_mut(at / CHUNK - 1)?.get_mut(at % CHUNK)
        }
    }

    /// Puts an element into a place; those from there on move by one, so that it takes time in
    /// proportion to them.
    ///
    /// # Panics
    /// When the place is behind the end.
    pub fn insert(&mut self, at: usize, element: T) {
        assert!(at <= self.len(), "{at} is behind the end");
        self.push(element);
        for to in (at + 1..self.len()).rev() {
            self.swap(to, to - 1);
        }
    }

    /// Takes the element in a place out; those behind it move by one, so that it takes time in
    /// proportion to them.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        for from in at + 1..self.len() {
            self.swap(from, from - 1);
        }
        if at < self.len() { self.pop() } else { None }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (low, high) = (a.min(b), a.max(b));
        if high < CHUNK {
            return self.first.swap(low, high);
        }
        let (chunk, at) = (high / CHUNK - 1, high % CHUNK);
        if low >= CHUNK && low / CHUNK - 1 == chunk {
            return self.more[chunk].swap(low % CHUNK, at);
        }
        let (before, after) = self.more.split_at_mut(chunk);
        let other = if low < CHUNK {
            &mut self.first[low]
        } else {
            &mut before[low / CHUNK - 1][low % CHUNK]
        };
        std::mem::swap(other, &mut after[0][at]);
    }

    /// The first place whose element does not fulfil what all before it fulfil.
    pub fn partition_point(&self, mut holds: impl FnMut(&T) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(&self[middle]) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    /// The elements in order, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.more.iter_mut().flatten())
    }

    /// The elements from a place on, in order.
    pub fn iter_from(&self, at: usize) -> impl Iterator<Item = &T> {
        let (first, chunk, within) = Self::split(at);
        let first = self.first.get(first..).unwrap_or_default();
        let more = self.more.get(chunk..).unwrap_or_default();
        first.iter().chain(more.iter().flatten().skip(within))
    }

    /// The elements from a place on, in order, to change them.
    pub fn iter_mut_from(&mut self, at: usize) -> impl Iterator<Item = &mut T> {
        let (first, chunk, within) = Self::split(at);
        let first = self.first.get_mut(first..).unwrap_or_default();
        let more = self.more.get_mut(chunk..).unwrap_or_default();
        first.iter_mut().chain(more.iter_mut().flatten().skip(within))
    }

    /// Where a place is: in the first chunk, or in which of the others.
    fn split(at: usize) -> (usize, usize, usize) {
        if at < CHUNK { (at, 0, 0) } else { (CHUNK, at / CHUNK - 1, at % CHUNK) }
    }

    /// Drops all elements, and keeps memory for so many at most.
    pub fn clear(&mut self, kept: usize) {
        self.more = Vec::new();
        self.first.clear();
        self.first.shrink_to(kept);
    }

    /// Elements that there is memory for.
    pub fn capacity(&self) -> usize {
        self.first.capacity() + self.more.len() * CHUNK
    }
}

impl<T, const CHUNK: usize> Index<usize> for Chunked<T, CHUNK> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("a place before the end")
    }
}

impl<T, const CHUNK: usize> IndexMut<usize> for Chunked<T, CHUNK> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        self.get_mut(at).expect("a place before the end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    #[test]
    fn it_is_a_vector() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut list, mut model) = (Chunked::<u64, 4>::default(), Vec::new());
            for n in 0..300 {
                let at = prng.below(model.len() as u64 + 1) as usize;
                match prng.below(8) {
                    0 => assert_eq!(list.pop(), model.pop()),
                    1 if at < model.len() => assert_eq!(list.remove(at), Some(model.remove(at))),
                    1 => assert_eq!(list.remove(at), None),
                    2 => {
                        list.insert(at, n);
                        model.insert(at, n);
                    }
                    3 => {
                        list.iter_mut_from(at).for_each(|v| *v += 1);
                        model.iter_mut().skip(at).for_each(|v| *v += 1);
                    }
                    _ => {
                        list.push(n);
                        model.push(n);
                    }
                }
                assert!(list.iter().eq(model.iter()) && list.iter().rev().eq(model.iter().rev()));
                assert!(list.iter_from(at).eq(model.iter().skip(at)));
                assert_eq!((list.len(), list.last()), (model.len(), model.last()));
                assert_eq!((list.get(at), list.is_empty()), (model.get(at), model.is_empty()));
                if let Some(v) = list.get_mut(at) {
                    (*v, model[at]) = (n, n);
                }
            }
            list.clear(2);
            assert!(list.is_empty() && list.capacity() <= 2);
        }
        let sorted: Chunked<u64, 4> = {
            let mut list = Chunked::default();
            (0..50).for_each(|v| list.push(v * 2));
            list
        };
        for v in 0..100 {
            assert_eq!(sorted.partition_point(|other| *other < v), v.div_ceil(2).min(50) as usize);
        }
    }
}
