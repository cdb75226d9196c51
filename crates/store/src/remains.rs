//! What is left of replicas and indexes that were dropped, until their memory is given back.
//!
//! # Owns
//! [`Remains`]: the pages, slots, segments and nodes that nobody can reach any more.
//! # Why
//! Memory is given back page by page and node by node: of a replica with millions of rows that
//! takes tens of milliseconds, in which its worker would do nothing else.
//! # Not here
//! Who drops what, and when: the participant.

use crate::hash_index::HashIndex;
use crate::heap::Heap;
use crate::ordered_index::OrderedIndex;

/// Memory to be given back, some at a time.
#[derive(Default)]
pub struct Remains {
    heap: Option<Heap>,
    primary: Option<HashIndex>,
    trees: Vec<OrderedIndex>,
}

impl Remains {
    /// What is left of a replica.
    pub(crate) fn of(heap: Heap, primary: HashIndex, trees: Vec<OrderedIndex>) -> Self {
        Self { heap: Some(heap), primary: Some(primary), trees }
    }

    /// What is left of an index.
    pub(crate) fn add_tree(&mut self, tree: OrderedIndex) {
        self.trees.push(tree);
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.heap.is_none() && self.primary.is_none() && self.trees.is_empty()
    }

    /// Gives so many pieces back: pages of 64 KiB, large rows, segments or nodes. Returns how many
    /// of these are left of the number.
    pub fn free(&mut self, mut pieces: u32) -> u32 {
        while pieces > 0 {
            if let Some(tree) = self.trees.last_mut() {
                pieces = tree.shed(pieces);
                if pieces > 0 {
                    self.trees.pop();
                }
            } else if let Some(heap) = &mut self.heap {
                pieces = heap.shed(pieces);
                if pieces > 0 {
                    self.heap = None;
                }
            } else if let Some(primary) = &mut self.primary {
                pieces = primary.shed(pieces);
                if pieces > 0 {
                    self.primary = None;
                }
            } else {
                break;
            }
        }
        pieces
    }
}

impl std::fmt::Debug for Remains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remains({}, {} trees)", self.heap.is_some(), self.trees.len())
    }
}
