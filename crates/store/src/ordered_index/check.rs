//! Verifies the ordered index: for tests and the simulator.

use std::collections::BTreeSet;

use super::node::NONE;
use super::{Cut, OrderedIndex};

/// What the walk over the tree has seen so far.
#[derive(Default)]
struct Seen {
    nodes: usize,
    entries: usize,
    boxes: BTreeSet<u32>,
    last_leaf: Option<u32>,
    /// The last entry or separator.
    last: Option<(Vec<u8>, u32)>,
}

impl OrderedIndex {
    /// Panics when an invariant of the tree does not hold: order, separators, levels, links of the
    /// leaves, bytes of each node, and that every node and boxed key is reachable exactly once.
    pub fn check(&self) {
        let mut seen = Seen::default();
        let root = &self.nodes[self.root];
        assert!(root.is_leaf() || root.count() > 0, "an inner root has two children");
        self.check_node(self.root, root.level, &mut seen);
        assert_eq!(seen.entries, self.len, "entries");
        let reachable = if self.nodes.is_unused() { 0 } else { seen.nodes };
        assert_eq!(reachable, self.nodes.len(), "nodes in use are reachable");
        assert_eq!(seen.boxes.len(), self.boxes.len(), "boxed keys in use are reachable");
        let boxed_bytes: usize = seen.boxes.iter().map(|id| self.boxes[*id].len()).sum();
        assert_eq!(boxed_bytes, self.boxed_bytes, "bytes of boxed keys");
        let last = seen.last_leaf.expect("a tree has a leaf");
        assert_eq!(self.nodes[last].next, NONE, "the last leaf has no next");
        let known = self.last != NONE && self.nodes[self.last].next == NONE;
        assert!(!known || self.last == last, "what is known as the last leaf is another");
    }

    fn check_node(&self, id: u32, level: u16, seen: &mut Seen) {
        let node = &self.nodes[id];
        assert_eq!(node.level, level, "level of node {id}");
        node.check(&self.boxes);
        seen.nodes += 1;
        if node.is_leaf() {
            assert!(node.count() > 0 || id == self.root, "leaf {id} is empty");
            assert_eq!(node.prev, seen.last_leaf.unwrap_or(NONE), "links of leaf {id}");
            if let Some(last) = seen.last_leaf {
                assert_eq!(self.nodes[last].next, id, "links of leaf {last}");
            }
            seen.last_leaf = Some(id);
            seen.entries += node.count();
        } else {
            self.check_node(node.child(0), level - 1, seen);
        }
        for at in 0..node.count() {
            let mut key = Vec::new();
            node.append_key(at, &self.boxes, &mut key);
            let row = node.row(at);
            if let Some((last, last_row)) = &seen.last {
                // An entry may equal the separator before it, nothing else is equal.
                let cut = Cut::after(&key, row);
                assert!(cut.is_right_of(last, *last_row), "order in node {id} at {at}");
                let cut = Cut::before(&key, row);
                let first_of_child = node.is_leaf() && at == 0;
                assert!(first_of_child || cut.is_right_of(last, *last_row), "twice in node {id}");
            }
            seen.last = Some((key, row));
            if node.boxed(at) != NONE {
                assert!(seen.boxes.insert(node.boxed(at)), "boxed key of node {id} is shared");
            }
            if !node.is_leaf() {
                self.check_node(node.child(at + 1), level - 1, seen);
            }
        }
    }
}
