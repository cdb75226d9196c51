//! Builds an ordered index from all its entries at once: sorts them in runs, merges the runs, and
//! fills nodes from left to right, each level as the one below fills.
//!
//! # Guarantees
//! Adding an entry sorts at most one run of 16,384 entries or 1 MiB of keys (some milliseconds);
//! a call of [`BulkBuild::merge`] handles as many entries as it is told. Nodes are filled to 90 %,
//! the last ones of each level less, so that the next inserts find room. Until the end an entry
//! takes 24 bytes, and its key besides if that has more than 15.
//! # Not here
//! Entries that come or go meanwhile: whoever changes the rows begins again.

use std::cmp::Ordering;

use model::RowId;

use super::layout::{Layout, common_prefix};
use super::node::{HEAD, INLINE_MAX, NONE, Node, PREFIX_MAX, Record, USABLE, record_cost};
use super::{Arena, KEY_SIZE_MAX, Nodes, OrderedIndex, separator};

/// An ordered index that is being built; see the module's head.
#[derive(Debug)]
pub struct BulkBuild {
    /// The run that entries are added to.
    open: Run,
    /// Sorted ones.
    runs: Vec<Run>,
    /// The run with the first entry of all that are left, and below it a heap of the others. Filled
    /// when merging begins.
    fronts: Vec<Front>,
    merging: bool,
    filling: Filling,
}

/// Entries that are sorted together.
#[derive(Debug, Default)]
struct Run {
    entries: Vec<Entry>,
    /// Keys that heads do not hold: the length in two bytes, and the key.
    keys: Vec<u8>,
    /// The first entry that is not in the index yet.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    head: Head,
    /// Where the key is, if it is longer than a head.
    start: u32,
    row: u32,
}

/// The first bytes of a key, and its length as far as they hold it: as numbers they order as the
/// keys do. Equal ones that hold less than the key leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head(u64, u64);

/// A run by the entry that comes next in it.
#[derive(Clone, Copy, Debug)]
struct Front {
    next: Entry,
    run: usize,
}

/// The index as far as it is there, and the nodes that are being filled.
#[derive(Debug)]
struct Filling {
    index: OrderedIndex,
    /// From the leaves up.
    levels: Vec<Level>,
    last_leaf: u32,
}

/// The node of a level that is being filled.
#[derive(Debug)]
struct Level {
    /// What lies before the node's first entry; none before the first node.
    separator: Option<Separator>,
    /// The child before all records, in inner nodes.
    first_child: u32,
    layout: Layout,
    /// The longest key that lies in the node.
    longest: usize,
    /// The bytes that are cut off each key.
    prefix: usize,
    /// The bytes that all records take.
    size: usize,
}

#[derive(Debug)]
struct Separator {
    key: Vec<u8>,
    row: u32,
    boxed: u32,
}

/// Most entries of a run.
const RUN_ENTRIES: usize = 16_384;
/// Bytes of keys that complete a run.
const RUN_BYTES: usize = 1 << 20;
/// Bytes of a key that a head holds.
const HEAD_KEY: usize = 15;
/// Bytes of a node that are filled.
const FILLED: usize = USABLE * 9 / 10;

// A record at least fits a node that holds nothing.
const _: () = assert!(record_cost(INLINE_MAX, NONE, false) <= FILLED);

impl Default for BulkBuild {
    fn default() -> Self {
        Self::new()
    }
}

impl BulkBuild {
    /// A build without entries.
    pub fn new() -> Self {
        let (nodes, boxes, layout) = (Nodes::new(), Arena::new(), Layout::default());
        let index =
            OrderedIndex { nodes, boxes, boxed_bytes: 0, root: NONE, last: NONE, len: 0, layout };
        Self {
            open: Run::default(),
            runs: Vec::new(),
            fronts: Vec::new(),
            merging: false,
            filling: Filling { index, levels: vec![Level::new(NONE)], last_leaf: NONE },
        }
    }

    /// Adds an entry that was not added before. `key` has at most [`KEY_SIZE_MAX`] bytes.
    pub fn add(&mut self, key: &[u8], row: RowId) {
        assert!(!self.merging, "an entry comes when entries are merged");
        assert!(key.len() <= KEY_SIZE_MAX, "key of {} bytes", key.len());
        self.open.add(key, row);
        if self.open.entries.len() == RUN_ENTRIES || self.open.keys.len() >= RUN_BYTES {
            self.end_run();
            // The next one is as long, as far as is known.
            self.open.entries.reserve_exact(RUN_ENTRIES);
        }
    }

    /// Entries that are not in the index yet.
    pub fn left(&self) -> usize {
        let left = |run: &Run| run.entries.len() - run.next;
        left(&self.open) + self.runs.iter().map(left).sum::<usize>()
    }

    /// All entries were added: takes up to `entries` of them into the index, in order. False when
    /// some are left.
    pub fn merge(&mut self, entries: u32) -> bool {
        if !self.merging {
            self.begin_merge();
        }
        for _ in 0..entries {
            let Some(Front { next, run: at }) = self.fronts.first().copied() else { return true };
            let run = &mut self.runs[at];
            match next.head.key() {
                Some((key, len)) => self.filling.push(&key[..len], next.row),
                None => self.filling.push(run.key(&next), next.row),
            }
            run.next += 1;
            match run.entries.get(run.next) {
                Some(next) => self.fronts[0].next = *next,
                None => {
                    self.runs[at] = Run::default();
                    self.fronts.swap_remove(0);
                }
            }
            self.sift_down(0);
        }
        self.fronts.is_empty()
    }

    /// All entries were merged: the index.
    pub fn finish(self) -> OrderedIndex {
        assert!(self.merging && self.fronts.is_empty(), "entries are left");
        self.filling.finish()
    }

    fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.open);
        run.sort();
        self.runs.push(run);
    }

    fn begin_merge(&mut self) {
        self.merging = true;
        if !self.open.entries.is_empty() {
            self.end_run();
        }
        let front = |(run, of): (usize, &Run)| Front { next: of.entries[0], run };
        self.fronts = self.runs.iter().enumerate().map(front).collect();
        for at in (0..self.fronts.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Restores the order of the heap below a place whose entry may be too large for it.
    ///
    /// An entry that takes the place of the first one mostly belongs near the bottom: it goes
    /// there by the smaller child each time, which is no branch to predict, and up again as far as
    /// needed.
    fn sift_down(&mut self, place: usize) {
        let Some(moved) = self.fronts.get(place).copied() else { return };
        let (mut at, count) = (place, self.fronts.len());
        while 2 * at + 2 < count {
            let (left, right) = (self.fronts[2 * at + 1], self.fronts[2 * at + 2]);
            let child = 2 * at + 1 + usize::from(self.comes_before(right, left));
            self.fronts[at] = self.fronts[child];
            at = child;
        }
        if 2 * at + 1 < count {
            self.fronts[at] = self.fronts[2 * at + 1];
            at = 2 * at + 1;
        }
        while at > place && self.comes_before(moved, self.fronts[(at - 1) / 2]) {
            self.fronts[at] = self.fronts[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        self.fronts[at] = moved;
    }

    #[inline]
    fn comes_before(&self, a: Front, b: Front) -> bool {
        let long = || self.runs[a.run].key(&a.next).cmp(self.runs[b.run].key(&b.next));
        compare(&a.next, &b.next, long).is_lt()
    }
}

impl Run {
    fn add(&mut self, key: &[u8], row: RowId) {
        let start = u32::try_from(self.keys.len()).expect("a run has some MiB at most");
        let head = Head::of(key);
        if head.key().is_none() {
            self.keys.extend_from_slice(&(key.len() as u16).to_le_bytes());
            self.keys.extend_from_slice(key);
        }
        self.entries.push(Entry { head, start, row: row.0 });
    }

    fn sort(&mut self) {
        let keys = &self.keys;
        self.entries.sort_unstable_by(|a, b| {
            compare(a, b, || key_at(keys, a.start).cmp(key_at(keys, b.start)))
        });
    }

    /// The key, if it is longer than a head.
    fn key(&self, entry: &Entry) -> &[u8] {
        key_at(&self.keys, entry.start)
    }
}

/// Compares entries; `long` compares their keys if both are longer than a head.
#[inline]
fn compare(a: &Entry, b: &Entry, long: impl FnOnce() -> Ordering) -> Ordering {
    let by_key =
        a.head.cmp(&b.head).then_with(|| if a.head.holds_key() { Ordering::Equal } else { long() });
    by_key.then(a.row.cmp(&b.row))
}

impl Head {
    fn of(key: &[u8]) -> Self {
        let mut bytes = [0; HEAD_KEY + 1];
        let held = key.len().min(HEAD_KEY);
        bytes[..held].copy_from_slice(&key[..held]);
        // Of keys that zeros alone set apart the shorter one comes first.
        bytes[HEAD_KEY] = key.len().min(HEAD_KEY + 1) as u8;
        let number = u128::from_be_bytes(bytes);
        Self((number >> 64) as u64, number as u64)
    }

    fn len(self) -> usize {
        (self.1 & 0xFF) as usize
    }

    /// Whether it holds all of the key.
    fn holds_key(self) -> bool {
        self.len() <= HEAD_KEY
    }

    /// The key and its length, if it is here.
    fn key(self) -> Option<([u8; HEAD_KEY + 1], usize)> {
        let number = u128::from(self.0) << 64 | u128::from(self.1);
        self.holds_key().then(|| (number.to_be_bytes(), self.len()))
    }
}

fn key_at(keys: &[u8], start: u32) -> &[u8] {
    let (len, rest) = keys[start as usize..].split_at(2);
    &rest[..usize::from(u16::from_le_bytes([len[0], len[1]]))]
}

impl Filling {
    /// Adds the entry behind all others.
    fn push(&mut self, key: &[u8], row: u32) {
        let boxed = self.index.box_key(key);
        let record = Record { key, boxed, row, child: NONE };
        let leaf = &mut self.levels[0];
        if let Some(last) = leaf.last(&self.index) {
            assert!((last.key, last.row) < (key, row), "row {row} is added twice");
        }
        if !leaf.takes(&record, &self.index) {
            let last = leaf.last(&self.index).expect("an empty node takes any record");
            let (key, row) = separator(last.key, record.key, record.row);
            let boxed = self.index.box_key(&key);
            self.end_node(0, Some(Separator { key, row, boxed }));
            let taken = self.levels[0].takes(&record, &self.index);
            assert!(taken, "an empty node takes any record");
        }
        self.index.len += 1;
    }

    /// Adds the child behind all others of its level, with what lies before it.
    fn push_child(&mut self, level: usize, before: Option<Separator>, child: u32) {
        if level == self.levels.len() {
            assert!(before.is_none(), "a level begins with the first node below");
            self.levels.push(Level::new(child));
            return;
        }
        let before = before.expect("only the first node of a level has nothing before it");
        let Separator { ref key, row, boxed } = before;
        if self.levels[level].takes(&Record { key, boxed, row, child }, &self.index) {
            return;
        }
        // The separator moves up.
        self.end_node(level, Some(before));
        self.levels[level].first_child = child;
    }

    /// Makes a node of what was gathered; the next one of the level begins behind `separator`.
    fn end_node(&mut self, level: usize, separator: Option<Separator>) {
        let of = &mut self.levels[level];
        let number = u16::try_from(level).expect("there are few levels");
        let mut node = Node::new(number);
        of.layout.store(0, of.layout.len(), &mut node, &self.index.boxes);
        let before = std::mem::replace(&mut of.separator, separator);
        of.clear();
        if !node.is_leaf() {
            node.next = of.first_child;
            let id = self.index.nodes.add(node);
            return self.push_child(level + 1, before, id);
        }
        node.prev = self.last_leaf;
        let id = self.index.nodes.add(node);
        if self.last_leaf != NONE {
            self.index.nodes[self.last_leaf].next = id;
        }
        self.last_leaf = id;
        self.push_child(1, before, id);
    }

    fn finish(mut self) -> OrderedIndex {
        let mut level = 0;
        loop {
            let top = &self.levels[level];
            if level > 0 && level + 1 == self.levels.len() && top.layout.len() == 0 {
                self.index.root = top.first_child;
                return self.index;
            }
            self.end_node(level, None);
            level += 1;
        }
    }
}

impl Level {
    fn new(first_child: u32) -> Self {
        let layout = Layout::default();
        Self { separator: None, first_child, layout, longest: 0, prefix: 0, size: 0 }
    }

    fn clear(&mut self) {
        self.layout.clear();
        (self.longest, self.prefix, self.size) = (0, 0, 0);
    }

    fn last<'a>(&'a self, index: &'a OrderedIndex) -> Option<Record<'a>> {
        let last = self.layout.len().checked_sub(1)?;
        Some(self.layout.record(last, &index.boxes))
    }

    /// Takes the record in behind the others; false when the node would be too full.
    fn takes(&mut self, record: &Record<'_>, index: &OrderedIndex) -> bool {
        let (count, is_leaf) = (self.layout.len(), self.first_child == NONE);
        let len = if record.boxed == NONE { record.key.len() } else { 0 };
        let longest = self.longest.max(len);
        // Keys ascend, so what the first and the last begin with all between them do.
        let common = match count {
            0 => record.key.len(),
            _ => common_prefix(self.layout.record(0, &index.boxes).key, record.key),
        };
        let prefix = common.min(PREFIX_MAX).min(longest.saturating_sub(HEAD));
        let size = if prefix == self.prefix {
            self.size
        } else {
            self.layout.size_with(prefix, 0, count, is_leaf)
        };
        let size = size + record_cost(len.saturating_sub(prefix), record.boxed, is_leaf);
        if size > FILLED && count > 0 {
            return false;
        }
        self.layout.insert(count, record);
        (self.longest, self.prefix, self.size) = (longest, prefix, size);
        true
    }
}
