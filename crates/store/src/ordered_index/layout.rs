//! The records of a node laid open, to be laid out anew in one node or two.
//!
//! # Guarantees
//! A chosen split leaves both sides within a node's size.
//! # Not here
//! The common cases, insert and remove within a node's layout: `node`.

use super::node::{HEAD, KeyBoxes, NONE, Node, PREFIX_MAX, Record, USABLE, record_cost};

/// Records with whole keys, in order. Kept by the tree to use its memory again.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    start: usize,
    len: usize,
    boxed: u32,
    row: u32,
    child: u32,
}

impl Layout {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * size_of::<Item>()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Appends the records of `node`.
    pub(super) fn load(&mut self, node: &Node, boxes: &KeyBoxes) {
        for at in 0..node.count() {
            let start = self.bytes.len();
            let boxed = node.boxed(at);
            if boxed == NONE {
                node.append_key(at, boxes, &mut self.bytes);
            }
            let child = if node.is_leaf() { NONE } else { node.child(at + 1) };
            let len = self.bytes.len() - start;
            self.items.push(Item { start, len, boxed, row: node.row(at), child });
        }
    }

    /// The records of `node` alone, and `record` at position `at`.
    pub(super) fn take(&mut self, node: &Node, at: usize, record: &Record<'_>, boxes: &KeyBoxes) {
        self.clear();
        self.load(node, boxes);
        self.insert(at, record);
    }

    /// Puts `record` at position `at`.
    pub(super) fn insert(&mut self, at: usize, record: &Record<'_>) {
        let start = self.bytes.len();
        if record.boxed == NONE {
            self.bytes.extend_from_slice(record.key);
        }
        let len = self.bytes.len() - start;
        let Record { boxed, row, child, .. } = *record;
        self.items.insert(at, Item { start, len, boxed, row, child });
    }

    pub(super) fn record<'a>(&'a self, at: usize, boxes: &'a KeyBoxes) -> Record<'a> {
        let item = self.items[at];
        let key = match item.boxed {
            NONE => &self.bytes[item.start..item.start + item.len],
            boxed => &boxes[boxed],
        };
        Record { key, boxed: item.boxed, row: item.row, child: item.child }
    }

    /// Bytes that records `from..to` take in a node.
    pub(super) fn size(&self, from: usize, to: usize, leaf: bool, boxes: &KeyBoxes) -> usize {
        self.size_with(self.prefix(from, to, leaf, boxes).len(), from, to, leaf)
    }

    /// The same, if `prefix` bytes are cut off each key.
    pub(super) fn size_with(&self, prefix: usize, from: usize, to: usize, leaf: bool) -> usize {
        let cost = |item: &Item| record_cost(item.len.saturating_sub(prefix), item.boxed, leaf);
        prefix + self.items[from..to].iter().map(cost).sum::<usize>()
    }

    /// Writes records `from..to` into `node`, which fits them.
    pub(super) fn store(&self, from: usize, to: usize, node: &mut Node, boxes: &KeyBoxes) {
        node.reset(self.prefix(from, to, node.is_leaf(), boxes));
        for at in from..to {
            let fits = node.insert(at - from, &self.record(at, boxes));
            assert!(fits, "records {from}..{to} fit a node");
        }
    }

    /// Where to split: records before the position stay, those from it on go right. In an inner
    /// node the record at the position moves up instead. Both sides fit, about equally full unless
    /// a long prefix that only one side shares forbids it.
    pub(super) fn split_position(&self, leaf: bool, boxes: &KeyBoxes) -> usize {
        let moved_up = usize::from(!leaf);
        let sides = |at: usize| {
            let left = self.size(0, at, leaf, boxes);
            (left, self.size(at + moved_up, self.len(), leaf, boxes))
        };
        let fits = |at: &usize| {
            let (left, right) = sides(*at);
            left <= USABLE && right <= USABLE
        };
        let (mut low, mut high) = (1, self.len() - 1 - moved_up);
        while low < high {
            let middle = (low + high) / 2;
            let (left, right) = sides(middle);
            if left < right {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let any = || (1..self.len() - moved_up).find(fits);
        let position = Some(low).filter(fits).or_else(any);
        position.expect("a record fits a node, and its neighbours fitted one before")
    }

    /// The prefix to cut off from records `from..to`, which all of them start with.
    ///
    /// A longer one than leaves four bytes of each key saves nothing and takes room itself, so it
    /// is cut off for the sake of boxed keys only, whose heads it makes tell more, and if there is
    /// room. So records that fitted a node together fit one in any smaller number.
    fn prefix<'a>(&'a self, from: usize, to: usize, leaf: bool, boxes: &'a KeyBoxes) -> &'a [u8] {
        if from == to {
            return &[];
        }
        let first = self.record(from, boxes).key;
        let last = self.record(to - 1, boxes).key;
        let common = common_prefix(first, last).min(PREFIX_MAX);
        let (mut longest, mut boxed) = (0, false);
        for item in &self.items[from..to] {
            longest = longest.max(item.len);
            boxed |= item.boxed != NONE;
        }
        let useful = common.min(longest.saturating_sub(HEAD));
        let all = boxed && self.size_with(common, from, to, leaf) <= USABLE;
        &first[..if all { common } else { useful }]
    }
}

/// Length of what both keys start with.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
