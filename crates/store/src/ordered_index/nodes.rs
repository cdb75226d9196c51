//! The nodes of an ordered index by their names.
//!
//! # Guarantees
//! An index that never had an entry takes no memory for nodes: it reads as one empty leaf. A
//! catalog may have a hundred thousand of such indexes.
//! # Not here
//! What is in a node (`node`), which node is the root.

use std::ops::{Index, IndexMut};

use super::node::Node;
use crate::arena::Arena;

/// The name of the first node, which is the root as long as there is no other.
pub(super) const FIRST: u32 = 0;

/// What an index reads whose first node was not made.
static EMPTY: Node = Node::new(0);

/// Nodes by name; the first one is made when it is changed.
#[derive(Clone, Debug)]
pub(super) struct Nodes(Arena<Node, 64>);

impl Nodes {
    /// No nodes; allocates nothing.
    pub(super) fn new() -> Self {
        Self(Arena::new())
    }

    /// Stores a node and names it.
    pub(super) fn add(&mut self, node: Node) -> u32 {
        self.0.add(node)
    }

    /// Gives a name back.
    pub(super) fn release(&mut self, id: u32) {
        self.0.release(id);
    }

    /// Gives the memory of so many nodes back; how many are left of that number when there are no
    /// more.
    pub(super) fn shed(&mut self, count: u32) -> u32 {
        self.0.shed(count)
    }

    /// Whether no node was made yet.
    pub(super) fn is_unused(&self) -> bool {
        self.0.is_unused()
    }

    /// Nodes in use.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

impl Index<u32> for Nodes {
    type Output = Node;

    #[inline]
    fn index(&self, id: u32) -> &Node {
        if id == FIRST && self.0.is_unused() {
            return &EMPTY;
        }
        &self.0[id]
    }
}

impl IndexMut<u32> for Nodes {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Node {
        if id == FIRST && self.0.is_unused() {
            self.0.add(Node::new(0));
        }
        &mut self.0[id]
    }
}
