//! Scans of the ordered index: key ranges, cuts between entries, and the walk over the leaves.
//!
//! # Guarantees
//! A range is turned into two places in the leaves; the walk between them compares no keys.
//! # Not here
//! Batches and waiting: a caller keeps the last entry and seeks again with `after`.

use std::ops::Bound;

use model::RowId;

use super::node::NONE;
use super::{Cut, OrderedIndex, Tie};

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From small keys to large ones; equal keys by ascending row id.
    Ascending,
    /// From large keys to small ones; equal keys by descending row id.
    Descending,
}

/// Bounds on key bytes. A bound may be the beginning of keys, such as the first columns of a
/// composite key: an included upper bound takes in all keys that start with it, an excluded lower
/// bound leaves them all out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// `Included(k)`: keys `>= k`. `Excluded(k)`: keys `> k` that do not start with `k`.
    pub lower: Bound<Vec<u8>>,
    /// `Included(k)`: keys `<= k` or starting with `k`. `Excluded(k)`: keys `< k`.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    pub const ALL: KeyRange = KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// All keys that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { lower: Bound::Included(prefix.to_vec()), upper: Bound::Included(prefix.to_vec()) }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.lower_cut().is_right_of(key, 0) && self.upper_cut().is_right_of(key, 0)
    }

    /// Bytes of the longer bound.
    pub fn longest_bound(&self) -> usize {
        let length = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        length(&self.lower).max(length(&self.upper))
    }

    fn lower_cut(&self) -> Cut<'_> {
        match &self.lower {
            Bound::Unbounded => Cut::before(&[], 0),
            Bound::Included(key) => Cut::before(key, 0),
            Bound::Excluded(key) => Cut { key, tie: Tie::Extensions },
        }
    }

    fn upper_cut(&self) -> Cut<'_> {
        match &self.upper {
            Bound::Unbounded => Cut { key: &[], tie: Tie::Extensions },
            Bound::Included(key) => Cut { key, tie: Tie::Extensions },
            Bound::Excluded(key) => Cut::before(key, 0),
        }
    }
}

/// How finely shares of an index are told apart.
const SHARE_BITS: u32 = 32;

/// A walk over the entries of a range; see [`OrderedIndex::scan`].
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    index: &'a OrderedIndex,
    direction: Direction,
    /// The place between entries where the walk stands.
    at: Place,
    /// Where it ends.
    end: Place,
    /// Position in the leaf `at` where the walk leaves the leaf, or ends.
    limit: usize,
    /// The leaf whose prefix `key` begins with.
    key_leaf: u32,
    key: Vec<u8>,
}

/// A place between entries: before the entry at `position`. At the end of a leaf only when there
/// is no next leaf, so equal places are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    leaf: u32,
    position: usize,
}

impl OrderedIndex {
    /// Begins a scan of `range`. With `after`, only entries strictly after it in the scan's
    /// direction: a scan in batches hands in the last entry of the previous batch, which need not
    /// exist any more.
    pub fn scan(
        &self,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
    ) -> Scan<'_> {
        let (mut low, mut high) = (range.lower_cut(), range.upper_cut());
        if let Some((key, row)) = after {
            match direction {
                Direction::Ascending if !low.is_right_of(key, row.0) => {
                    low = Cut::after(key, row.0);
                }
                Direction::Descending if high.is_right_of(key, row.0) => {
                    high = Cut::before(key, row.0);
                }
                _ => {}
            }
        }
        let start = self.place(&low);
        let end = self.end_place(start, &high);
        let (at, end) = match direction {
            Direction::Ascending => (start, end),
            Direction::Descending => (end, start),
        };
        let key = Vec::new();
        let mut scan = Scan { index: self, direction, at, end, limit: 0, key_leaf: NONE, key };
        scan.enter_leaf();
        scan
    }

    /// About how many entries lie in the range, from the places of its ends in two paths of the
    /// tree: exact within one leaf, else as far as nodes of a level are equally full.
    pub fn entries_about(&self, range: &KeyRange) -> u64 {
        let (start, before_start) = self.place_and_share(&range.lower_cut());
        let (end, before_end) = self.place_and_share(&range.upper_cut());
        if start.leaf == end.leaf {
            return end.position.saturating_sub(start.position) as u64;
        }
        (self.len as u64 * before_end.saturating_sub(before_start)) >> SHARE_BITS
    }

    /// Where a cut lies in its leaf, and about which share of all entries lies before it, of 2 to
    /// the power of [`SHARE_BITS`].
    fn place_and_share(&self, cut: &Cut<'_>) -> (Place, u64) {
        let (mut id, mut before, mut width) = (self.root, 0, 1_u64 << SHARE_BITS);
        loop {
            let node = &self.nodes[id];
            let position = node.position(cut, &self.boxes);
            let parts = node.count() + usize::from(!node.is_leaf());
            before += width * position as u64 / parts.max(1) as u64;
            if node.is_leaf() {
                return (Place { leaf: id, position }, before);
            }
            width /= parts as u64;
            id = node.child(position);
        }
    }

    fn place(&self, cut: &Cut<'_>) -> Place {
        let mut id = self.root;
        while !self.nodes[id].is_leaf() {
            let node = &self.nodes[id];
            id = node.child(node.position(cut, &self.boxes));
        }
        let leaf = &self.nodes[id];
        let position = leaf.position(cut, &self.boxes);
        if position == leaf.count() && leaf.next != NONE {
            return Place { leaf: leaf.next, position: 0 };
        }
        Place { leaf: id, position }
    }

    /// The place of `cut`, or `start` when no entry lies between the two.
    fn end_place(&self, start: Place, cut: &Cut<'_>) -> Place {
        let leaf = &self.nodes[start.leaf];
        let position = leaf.position(cut, &self.boxes);
        if position <= start.position {
            return start;
        }
        if position < leaf.count() {
            return Place { leaf: start.leaf, position };
        }
        self.place(cut)
    }
}

impl Scan<'_> {
    /// The next entry: its whole key, which is valid until the next call, and its row.
    #[expect(clippy::should_implement_trait, reason = "the key is lent by the scan")]
    #[inline]
    pub fn next(&mut self) -> Option<(&[u8], RowId)> {
        let (leaf, position) = self.step()?;
        let node = &self.index.nodes[leaf];
        let row = RowId(node.row(position));
        let boxed = node.boxed(position);
        if boxed != NONE {
            return Some((&self.index.boxes[boxed], row));
        }
        if self.key_leaf != leaf {
            self.key.clear();
            self.key.extend_from_slice(node.prefix());
            self.key_leaf = leaf;
        }
        self.key.truncate(node.prefix().len());
        node.append_tail(position, &self.index.boxes, &mut self.key);
        Some((&self.key, row))
    }

    /// The next entry's row alone: no key is put together.
    #[inline]
    pub fn next_row(&mut self) -> Option<RowId> {
        let (leaf, position) = self.step()?;
        Some(RowId(self.index.nodes[leaf].row(position)))
    }

    /// Moves over one entry and says where it lies.
    #[inline]
    fn step(&mut self) -> Option<(u32, usize)> {
        while self.at.position == self.limit {
            if self.at.leaf == self.end.leaf {
                return None;
            }
            let leaf = &self.index.nodes[self.at.leaf];
            self.at.leaf = match self.direction {
                Direction::Ascending => leaf.next,
                Direction::Descending => leaf.prev,
            };
            assert!(self.at.leaf != NONE, "a scan ends inside the index");
            self.at.position = match self.direction {
                Direction::Ascending => 0,
                Direction::Descending => self.index.nodes[self.at.leaf].count(),
            };
            self.enter_leaf();
        }
        let position = match self.direction {
            Direction::Ascending => self.at.position,
            Direction::Descending => self.at.position - 1,
        };
        self.at.position = match self.direction {
            Direction::Ascending => self.at.position + 1,
            Direction::Descending => position,
        };
        Some((self.at.leaf, position))
    }

    /// Finds where in the leaf `at` the walk leaves it.
    fn enter_leaf(&mut self) {
        self.limit = if self.at.leaf == self.end.leaf {
            self.end.position
        } else {
            match self.direction {
                Direction::Ascending => self.index.nodes[self.at.leaf].count(),
                Direction::Descending => 0,
            }
        };
    }
}
