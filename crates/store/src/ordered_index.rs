//! Ordered index of one partition replica: an in-memory B+ tree on memory-comparable keys.
//!
//! NDB calls this DBTUX. The tree is that of Comer, "The ubiquitous B-tree" (1979); prefix and
//! separator truncation are those of Bayer and Unterauer, "Prefix B-trees" (1977).
//!
//! # Owns
//! Entries (key bytes, row id), ordered by key and then row id, each at most once. Keys are up to
//! [`KEY_SIZE_MAX`] bytes; those over 180 bytes lie outside the nodes.
//! # Guarantees
//! An operation touches one path from root to leaf, splits or merges at most one node per level,
//! and allocates at most a chunk of nodes: no pauses. A node under 40 % full is merged with a
//! neighbour once both fit into 85 % of a node; an emptied node is freed at once.
//! # Not here
//! What keys mean (`model::key`), visibility of rows, locks.

use model::RowId;
use model::schema::KEY_SIZE_MAX;

use crate::arena::Arena;

mod build;
mod check;
mod layout;
mod node;
mod nodes;
mod scan;

pub use build::BulkBuild;
pub use scan::{Direction, KeyRange, Scan};

use layout::{Layout, common_prefix};
use node::{HEAD, INLINE_MAX, KeyBoxes, NONE, Node, PREFIX_MAX, Record, Tail, USABLE, record_cost};
use nodes::Nodes;

/// A B+ tree of (key, row id) entries; see the module's head.
#[doc(alias = "DBTUX")]
#[derive(Clone, Debug)]
pub struct OrderedIndex {
    nodes: Nodes,
    boxes: KeyBoxes,
    boxed_bytes: usize,
    root: u32,
    /// The last leaf, if it is known: ascending keys come there.
    last: u32,
    len: usize,
    /// Memory for splits and merges.
    layout: Layout,
}

/// A node that uses fewer bytes looks for a neighbour to merge with.
const UNDERFULL: usize = USABLE * 2 / 5;
/// Most bytes that a merged node uses.
const MERGED_MAX: usize = USABLE * 17 / 20;
/// Levels above the leaves; 2^32 entries need fewer.
const HEIGHT_MAX: usize = 40;

impl Default for OrderedIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl OrderedIndex {
    /// An empty index: allocates nothing.
    pub fn new() -> Self {
        let (nodes, boxes, layout) = (Nodes::new(), Arena::new(), Layout::default());
        Self { nodes, boxes, boxed_bytes: 0, root: nodes::FIRST, last: NONE, len: 0, layout }
    }

    /// Gives the memory of so many nodes and long keys back; how many are left of that number when
    /// there are no more. The index is of no use any more.
    pub(crate) fn shed(&mut self, count: u32) -> u32 {
        match self.boxes.shed(count) {
            0 => 0,
            left => self.nodes.shed(left),
        }
    }

    /// Adds the entry; false when it is there already. `key` has at most [`KEY_SIZE_MAX`] bytes.
    pub fn insert(&mut self, key: &[u8], row: RowId) -> bool {
        assert!(key.len() <= KEY_SIZE_MAX, "key of {} bytes", key.len());
        if self.append(key, row) {
            return true;
        }
        let mut path = Path::new();
        let (leaf, position) = self.descend(key, row, &mut path);
        if position > 0 && self.is_entry(leaf, position - 1, key, row) {
            return false;
        }
        if self.nodes[leaf].next == NONE {
            self.last = leaf;
        }
        let boxed = self.box_key(key);
        let record = Record { key, boxed, row: row.0, child: NONE };
        if !self.nodes[leaf].insert(position, &record) {
            self.insert_slow(&mut path, leaf, position, &record);
        }
        self.len += 1;
        true
    }

    /// Adds an entry that comes behind all others, where there is room for it; whether that was so.
    fn append(&mut self, key: &[u8], row: RowId) -> bool {
        if self.last == NONE || key.len() > INLINE_MAX {
            return false;
        }
        let node = &self.nodes[self.last];
        let count = node.count();
        // One that was split has a neighbour.
        if node.next != NONE || !node.may_end_before(key) {
            return false;
        }
        let position = node.position(&Cut::after(key, row.0), &self.boxes);
        if position < count || self.is_entry(self.last, count - 1, key, row) {
            return false;
        }
        let record = Record { key, boxed: NONE, row: row.0, child: NONE };
        let added = self.nodes[self.last].insert(count, &record);
        self.len += usize::from(added);
        added
    }

    /// Gives a node back.
    fn release(&mut self, node: u32) {
        self.last = NONE;
        self.nodes.release(node);
    }

    /// Removes the entry; false when it is not there.
    pub fn remove(&mut self, key: &[u8], row: RowId) -> bool {
        let mut path = Path::new();
        let (leaf, position) = self.descend(key, row, &mut path);
        if position == 0 || !self.is_entry(leaf, position - 1, key, row) {
            return false;
        }
        self.remove_record(leaf, position - 1);
        self.len -= 1;
        if self.nodes[leaf].used() < UNDERFULL {
            self.shrink(&mut path, leaf);
        }
        true
    }

    /// Moves the row's entry from `old` to `new`: `remove` and `insert` in one step where both lie
    /// in the same node. Panics when the old entry is not there, or the new one is.
    pub fn replace(&mut self, old: &[u8], new: &[u8], row: RowId) {
        let mut path = Path::new();
        let (leaf, position) = self.descend(old, row, &mut path);
        let found = position > 0 && self.is_entry(leaf, position - 1, old, row);
        assert!(found, "{row}: the entry to replace is not there");
        let node = &self.nodes[leaf];
        let to = node.position(&Cut::after(new, row.0), &self.boxes);
        // Between two entries of the leaf nothing but the leaf's own entries can be.
        let inside = to > 0 && to < node.count();
        if !inside || old.len().max(new.len()) > INLINE_MAX {
            assert!(self.remove(old, row), "{row}: the entry was found above");
            assert!(self.insert(new, row), "{row}: the new entry is there already");
            return;
        }
        assert!(!self.is_entry(leaf, to - 1, new, row), "{row}: the new entry is there already");
        let record = Record { key: new, boxed: NONE, row: row.0, child: NONE };
        let node = &mut self.nodes[leaf];
        node.remove(position - 1);
        let to = if to >= position { to - 1 } else { to };
        if !node.insert(to, &record) {
            self.insert_slow(&mut path, leaf, to, &record);
        } else if self.nodes[leaf].used() < UNDERFULL {
            self.shrink(&mut path, leaf);
        }
    }

    /// Whether the entry is there.
    pub fn contains(&self, key: &[u8], row: RowId) -> bool {
        let (leaf, position) = self.descend(key, row, &mut Path::new());
        position > 0 && self.is_entry(leaf, position - 1, key, row)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated, including the index itself.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.nodes.memory_bytes()
            + self.boxes.memory_bytes()
            + self.boxed_bytes
            + self.layout.memory_bytes()
    }

    /// The leaf of the entry, and how many of the leaf's entries are not after it.
    fn descend(&self, key: &[u8], row: RowId, path: &mut Path) -> (u32, usize) {
        let cut = Cut::after(key, row.0);
        let mut id = self.root;
        loop {
            let node = &self.nodes[id];
            let position = node.position(&cut, &self.boxes);
            if node.is_leaf() {
                return (id, position);
            }
            path.push(id, position);
            id = node.child(position);
        }
    }

    fn is_entry(&self, leaf: u32, at: usize, key: &[u8], row: RowId) -> bool {
        let node = &self.nodes[leaf];
        let tail = key.strip_prefix(node.prefix()).map(Tail::of);
        node.row(at) == row.0 && tail == Some(node.tail(at, &self.boxes))
    }

    /// Gives a long key a place of its own.
    fn box_key(&mut self, key: &[u8]) -> u32 {
        if key.len() <= INLINE_MAX {
            return NONE;
        }
        self.boxed_bytes += key.len();
        self.boxes.add(key.into())
    }

    /// Removes a record and its boxed key.
    fn remove_record(&mut self, id: u32, at: usize) {
        let boxed = self.nodes[id].boxed(at);
        if boxed != NONE {
            let key = std::mem::take(&mut self.boxes[boxed]);
            self.boxed_bytes -= key.len();
            self.boxes.release(boxed);
        }
        self.nodes[id].remove(at);
    }

    /// Inserts where the node has no room, or another prefix: lays it out anew, or splits it.
    fn insert_slow(&mut self, path: &mut Path, id: u32, position: usize, record: &Record<'_>) {
        let mut layout = std::mem::take(&mut self.layout);
        let (mut id, mut position, mut record) = (id, position, *record);
        let mut separator: Vec<u8>;
        while !self.nodes[id].insert(position, &record) {
            let (right, row, boxed);
            if let Some(halved) = self.halve(id, position, &record, &mut layout) {
                (right, separator, row) = halved;
                boxed = self.box_key(&separator);
            } else {
                layout.take(&self.nodes[id], position, &record, &self.boxes);
                if self.lay_out(id, &layout) {
                    break;
                }
                (right, separator, row, boxed) = self.split(id, position, &layout);
            }
            let (parent, child_position) = path.pop().unwrap_or_else(|| (self.grow_root(id), 0));
            (id, position) = (parent, child_position);
            record = Record { key: &separator, boxed, row, child: right };
        }
        self.layout = layout;
    }

    /// Stores `layout` in the node if it fits; says whether it did.
    fn lay_out(&mut self, id: u32, layout: &Layout) -> bool {
        let leaf = self.nodes[id].is_leaf();
        let fits = layout.size(0, layout.len(), leaf, &self.boxes) <= USABLE;
        if fits {
            layout.store(0, layout.len(), &mut self.nodes[id], &self.boxes);
        }
        fits
    }

    /// Splits a full leaf, and inserts: as [`Self::split`], but records are copied as they lie.
    /// Nothing where that does not do: keys outside of the node, or another prefix by which all of
    /// its records may fit.
    fn halve(
        &mut self,
        id: u32,
        position: usize,
        record: &Record<'_>,
        layout: &mut Layout,
    ) -> Option<(u32, Vec<u8>, u32)> {
        let (node, boxes) = (&self.nodes[id], &self.boxes);
        let tail = record.key.strip_prefix(node.prefix()).filter(|_| record.boxed == NONE)?;
        let full = node.used() + record_cost(tail.len(), NONE, true) > USABLE;
        let simple = node.is_leaf() && full && !node.has_boxes();
        if !simple || node.useful_extra(0, node.count(), boxes) > 0 {
            return None;
        }
        let (count, next) = (node.count(), node.next);
        // Ascending keys leave full nodes behind.
        let at = if next == NONE && position == count { count } else { node.middle() };
        let mut right = node.part(at, count, node.useful_extra(at, count, boxes), boxes);
        let (mut last, mut first) = (Vec::new(), (Vec::new(), 0));
        if at == count {
            right.reset(&record.key[..record.key.len().saturating_sub(HEAD).min(PREFIX_MAX)]);
            assert!(right.insert(0, record), "a record fits a node");
            node.append_key(count - 1, boxes, &mut last);
            first = (record.key.to_vec(), record.row);
        } else {
            let mut left = node.part(0, at, node.useful_extra(0, at, boxes), boxes);
            (left.prev, left.next) = (node.prev, next);
            node.append_key(at, boxes, &mut first.0);
            first.1 = node.row(at);
            if position == at {
                last.extend_from_slice(record.key)
            } else {
                node.append_key(at - 1, boxes, &mut last)
            }
            self.nodes[id] = left;
        }
        (right.prev, right.next) = (id, next);
        let right = self.nodes.add(right);
        self.nodes[id].next = right;
        if next != NONE {
            self.nodes[next].prev = right;
        }
        if at < count {
            let half = if position <= at { (id, position) } else { (right, position - at) };
            if !self.nodes[half.0].insert(half.1, record) {
                // It does not begin as the others there do.
                layout.take(&self.nodes[half.0], half.1, record, &self.boxes);
                assert!(self.lay_out(half.0, layout), "half of a node and a record fit a node");
            }
        }
        let (key, row) = separator(&last, &first.0, first.1);
        Some((right, key, row))
    }

    /// Distributes `layout` over the node and a new right neighbour. Returns the neighbour and
    /// the separator: its key, row id and boxed key.
    fn split(&mut self, id: u32, position: usize, layout: &Layout) -> (u32, Vec<u8>, u32, u32) {
        let node = &self.nodes[id];
        let (leaf, last, next) = (node.is_leaf(), layout.len() - 1, node.next);
        let mut right_node = Node::new(node.level);
        // Ascending keys leave full nodes behind.
        let at = if leaf && next == NONE && position == last {
            last
        } else {
            layout.split_position(leaf, &self.boxes)
        };
        if leaf {
            layout.store(at, layout.len(), &mut right_node, &self.boxes);
            (right_node.prev, right_node.next) = (id, next);
        } else {
            layout.store(at + 1, layout.len(), &mut right_node, &self.boxes);
            right_node.next = layout.record(at, &self.boxes).child;
        }
        let right = self.nodes.add(right_node);
        layout.store(0, at, &mut self.nodes[id], &self.boxes);
        let first = layout.record(at, &self.boxes);
        if !leaf {
            return (right, first.key.to_vec(), first.row, first.boxed);
        }
        self.nodes[id].next = right;
        if next != NONE {
            self.nodes[next].prev = right;
        }
        let last = layout.record(at - 1, &self.boxes);
        let (key, row) = separator(last.key, first.key, first.row);
        let boxed = self.box_key(&key);
        (right, key, row, boxed)
    }

    /// Puts a new root above `id`, the old one.
    fn grow_root(&mut self, id: u32) -> u32 {
        let mut root = Node::new(self.nodes[id].level + 1);
        root.next = id;
        self.root = self.nodes.add(root);
        self.root
    }

    /// Merges or frees `id` if it has become small, then its parents as far as needed.
    fn shrink(&mut self, path: &mut Path, id: u32) {
        let mut id = id;
        while let Some((parent, position)) = path.pop() {
            let node = &self.nodes[id];
            if node.is_leaf() && node.count() == 0 {
                id = self.remove_leaf(path, id, parent, position);
                continue;
            }
            if node.used() >= UNDERFULL || !self.merge(parent, position) {
                return;
            }
            id = parent;
        }
        assert_eq!(id, self.root, "the path ends at the root");
        while !self.nodes[id].is_leaf() && self.nodes[id].count() == 0 {
            self.root = self.nodes[id].next;
            self.release(id);
            id = self.root;
        }
    }

    /// Frees an empty leaf, and parents that lose their only child. Returns the node that lost
    /// a child and has others.
    fn remove_leaf(&mut self, path: &mut Path, leaf: u32, parent: u32, position: usize) -> u32 {
        let (prev, next) = (self.nodes[leaf].prev, self.nodes[leaf].next);
        if prev != NONE {
            self.nodes[prev].next = next;
        }
        if next != NONE {
            self.nodes[next].prev = prev;
        }
        self.release(leaf);
        let (mut parent, mut position) = (parent, position);
        while self.nodes[parent].count() == 0 {
            self.release(parent);
            (parent, position) = path.pop().expect("an inner root has two children");
        }
        if position == 0 {
            self.nodes[parent].next = self.nodes[parent].child(1);
        }
        self.remove_record(parent, position.saturating_sub(1));
        parent
    }

    /// Merges child `position` of `parent` with a neighbour if both fit; says whether it did.
    fn merge(&mut self, parent: u32, position: usize) -> bool {
        let count = self.nodes[parent].count();
        (position > 0 && self.merge_pair(parent, position - 1))
            || (position < count && self.merge_pair(parent, position))
    }

    /// Merges children `at` and `at + 1` of `parent` if both fit.
    fn merge_pair(&mut self, parent: u32, at: usize) -> bool {
        let left = self.nodes[parent].child(at);
        let right = self.nodes[parent].child(at + 1);
        // Their common prefix may be shorter, but not longer than either's: a cheap first look.
        let prefix = self.nodes[left].prefix().len().min(self.nodes[right].prefix().len());
        if self.nodes[left].used() + self.nodes[right].used() > MERGED_MAX + prefix {
            return false;
        }
        let mut layout = std::mem::take(&mut self.layout);
        let leaf = self.nodes[left].is_leaf();
        layout.clear();
        layout.load(&self.nodes[left], &self.boxes);
        if !leaf {
            let node = &self.nodes[parent];
            let mut key = Vec::new();
            node.append_key(at, &self.boxes, &mut key);
            let child = self.nodes[right].next;
            let record = Record { key: &key, boxed: node.boxed(at), row: node.row(at), child };
            layout.insert(layout.len(), &record);
        }
        layout.load(&self.nodes[right], &self.boxes);
        let fits = layout.size(0, layout.len(), leaf, &self.boxes) <= MERGED_MAX;
        if fits {
            layout.store(0, layout.len(), &mut self.nodes[left], &self.boxes);
            if leaf {
                let next = self.nodes[right].next;
                self.nodes[left].next = next;
                if next != NONE {
                    self.nodes[next].prev = left;
                }
                self.remove_record(parent, at);
            } else {
                // The separator moved down, with its boxed key.
                self.nodes[parent].remove(at);
            }
            self.release(right);
        }
        self.layout = layout;
        fits
    }
}

/// What separates two leaves: the shortest key that is after the left one's last entry and not
/// after the right one's first, with a row id.
fn separator(last: &[u8], first: &[u8], row: u32) -> (Vec<u8>, u32) {
    if last == first {
        return (first.to_vec(), row);
    }
    (first[..common_prefix(last, first) + 1].to_vec(), 0)
}

/// A place in the order of all possible entries.
#[derive(Clone, Copy, Debug)]
struct Cut<'a> {
    key: &'a [u8],
    tie: Tie,
}

/// Which entries of the cut's key lie left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tie {
    /// Those with a row id below this.
    Rows(u64),
    /// All, and all entries whose keys start with the cut's key.
    Extensions,
}

impl<'a> Cut<'a> {
    /// The place just before the entry.
    fn before(key: &'a [u8], row: u32) -> Self {
        Self { key, tie: Tie::Rows(u64::from(row)) }
    }

    /// The place just after the entry.
    fn after(key: &'a [u8], row: u32) -> Self {
        Self { key, tie: Tie::Rows(u64::from(row) + 1) }
    }

    /// Whether the entry lies left of this place.
    #[inline]
    fn is_right_of(&self, key: &[u8], row: u32) -> bool {
        match self.tie {
            Tie::Extensions => key[..key.len().min(self.key.len())] <= *self.key,
            Tie::Rows(limit) => match key.cmp(self.key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Greater => false,
                std::cmp::Ordering::Equal => u64::from(row) < limit,
            },
        }
    }
}

/// The inner nodes from the root down, each with the child that was taken.
struct Path {
    steps: [(u32, u16); HEIGHT_MAX],
    len: usize,
}

impl Path {
    fn new() -> Self {
        Self { steps: [(NONE, 0); HEIGHT_MAX], len: 0 }
    }

    fn push(&mut self, node: u32, position: usize) {
        self.steps[self.len] = (node, position as u16);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<(u32, usize)> {
        self.len = self.len.checked_sub(1)?;
        let (node, position) = self.steps[self.len];
        Some((node, position as usize))
    }
}

#[cfg(test)]
mod tests;
