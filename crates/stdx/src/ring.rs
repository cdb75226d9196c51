//! A ring that keeps the newest elements.

use std::collections::VecDeque;

/// Holds the last `capacity` elements pushed; older ones are overwritten.
#[derive(Clone, Debug)]
pub struct RingBuffer<T> {
    elements: VecDeque<T>,
    capacity: usize,
    pushed: u64,
}

impl<T> RingBuffer<T> {
    /// An empty ring for `capacity` elements, at least one.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a ring holds at least one element");
        Self { elements: VecDeque::new(), capacity, pushed: 0 }
    }

    /// Adds an element; overwrites the oldest when full.
    pub fn push(&mut self, element: T) {
        if self.elements.len() == self.capacity {
            self.elements.pop_front();
        }
        self.elements.push_back(element);
        self.pushed += 1;
    }

    /// The elements, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.elements.iter()
    }

    /// Elements held now.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether nothing was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Most elements it holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Elements pushed since the beginning.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest() {
        let mut ring = RingBuffer::new(3);
        assert!(ring.is_empty());
        (1..=5).for_each(|v| ring.push(v));
        assert_eq!(ring.iter().copied().collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!((ring.len(), ring.capacity(), ring.pushed()), (3, 3, 5));
    }
}
