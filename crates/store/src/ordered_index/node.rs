//! One node of the ordered index: a slotted page of 1 KiB with its keys' common prefix cut off.
//!
//! # Layout of the buffer
//! Slots (2-byte offset of the record, 4-byte head of the key), in key order, grow up from 0;
//! records grow down from the prefix, which lies at the end. What follows the prefix in a key is
//! its tail. The head is the tail's first four bytes, zero-padded: a search seldom looks further
//! than the slots, which lie together. A record is: length of the tail (1 byte, or `BOXED`), row
//! id (4), in inner nodes the child (4), then the rest of the tail after the head, or the name (4)
//! of the whole key outside the node. A removed record begins with the offset of the next removed
//! one (2) and its own size (2): a record of that size takes its place.
//! # Guarantees
//! Every key starts with the node's prefix. Records ascend by (key, row id). A node of records of
//! one size is never laid out anew because of removals.
//! # Not here
//! Which node points where: the tree.

use std::cmp::Ordering;

use super::layout::common_prefix;
use super::{Arena, Cut, Tie};

/// Keys that are too long to lie in nodes, by the name that a record holds.
pub(super) type KeyBoxes = Arena<Box<[u8]>, 1024>;

/// Names no node and no boxed key.
pub(super) const NONE: u32 = u32::MAX;
/// Longest key that lies in a node.
pub(super) const INLINE_MAX: usize = 180;
/// Longest prefix that a node cuts off.
pub(super) const PREFIX_MAX: usize = 128;
/// Bytes of a node that slots, records and prefix share.
pub(super) const USABLE: usize = 1004;

/// Bytes of a key after the prefix that lie in its slot.
pub(super) const HEAD: usize = 4;
const SLOT: usize = 2 + HEAD;
/// Ends the list of removed records.
const NO_RECORD: u16 = u16::MAX;
/// Records with one head that are looked at before a search halves them.
const STEPS: usize = 4;
/// Stands for a tail length: the record names a boxed key.
const BOXED: u8 = u8::MAX;

const _: () = assert!(size_of::<Node>() == 1024, "a node is sixteen cache lines");
const _: () = assert!(INLINE_MAX < BOXED as usize && PREFIX_MAX < INLINE_MAX);
// A node that overflows has at least five records, so each half of a split gets one or more.
const _: () = assert!(5 * (INLINE_MAX + record_header(false) + SLOT) < USABLE);

#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Node {
    /// The next leaf; in an inner node the first child, which has no record.
    pub(super) next: u32,
    /// The previous leaf; unused in an inner node.
    pub(super) prev: u32,
    /// Distance from the leaves.
    pub(super) level: u16,
    count: u16,
    prefix_len: u16,
    /// Offset of the lowest record.
    heap: u16,
    /// Bytes of removed records above `heap`.
    garbage: u16,
    /// The record removed last, if its bytes lie above `heap`.
    removed: u16,
    buffer: [u8; USABLE],
}

/// A record on its way into a node, with its whole key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    /// The boxed key's name, or `NONE` when the key lies in the node.
    pub(super) boxed: u32,
    pub(super) row: u32,
    /// In inner nodes the child that begins at (key, row).
    pub(super) child: u32,
}

impl Node {
    /// A node without records at `level`.
    pub(super) const fn new(level: u16) -> Self {
        Self {
            next: NONE,
            prev: NONE,
            level,
            count: 0,
            prefix_len: 0,
            heap: USABLE as u16,
            garbage: 0,
            removed: NO_RECORD,
            buffer: [0; USABLE],
        }
    }

    #[inline]
    pub(super) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(super) fn prefix(&self) -> &[u8] {
        &self.buffer[USABLE - self.prefix_len as usize..USABLE]
    }

    /// Bytes taken by slots, living records and the prefix.
    pub(super) fn used(&self) -> usize {
        let records = USABLE - self.heap as usize - self.garbage as usize;
        self.count() * SLOT + records
    }

    #[inline]
    pub(super) fn row(&self, at: usize) -> u32 {
        self.load_u32(self.offset(at) + 1)
    }

    /// Child `at` of an inner node, from 0 to `count` inclusive.
    #[inline]
    pub(super) fn child(&self, at: usize) -> u32 {
        match at.checked_sub(1) {
            None => self.next,
            Some(record) => self.load_u32(self.offset(record) + 5),
        }
    }

    /// The boxed key's name of record `at`, or `NONE`.
    pub(super) fn boxed(&self, at: usize) -> u32 {
        let offset = self.offset(at);
        match self.buffer[offset] {
            BOXED => self.load_u32(offset + record_header(self.is_leaf())),
            _ => NONE,
        }
    }

    /// The key of record `at` without the prefix.
    #[inline]
    pub(super) fn tail<'a>(&'a self, at: usize, boxes: &'a KeyBoxes) -> Tail<'a> {
        let slot: &[u8; SLOT] = self.slot(at);
        let offset = u16::from_le_bytes([slot[0], slot[1]]) as usize;
        let start = offset + record_header(self.is_leaf());
        match self.buffer[offset] {
            BOXED => Tail::of(&boxes[self.load_u32(start)][self.prefix_len as usize..]),
            len => {
                let len = len as usize;
                let head = &slot[2..2 + len.min(HEAD)];
                Tail { head, rest: &self.buffer[start..start + len.saturating_sub(HEAD)] }
            }
        }
    }

    /// Appends the whole key of record `at` to `key`.
    pub(super) fn append_key(&self, at: usize, boxes: &KeyBoxes, key: &mut Vec<u8>) {
        key.extend_from_slice(self.prefix());
        self.append_tail(at, boxes, key);
    }

    /// Appends the key of record `at` without the prefix to `key`.
    #[inline]
    pub(super) fn append_tail(&self, at: usize, boxes: &KeyBoxes, key: &mut Vec<u8>) {
        let tail = self.tail(at, boxes);
        key.extend_from_slice(tail.head);
        key.extend_from_slice(tail.rest);
    }

    /// Whether a key may come behind all keys here, as far as prefix and heads tell. Not if there
    /// is none, or the key has another prefix.
    #[inline]
    pub(super) fn may_end_before(&self, key: &[u8]) -> bool {
        let Some(tail) = key.strip_prefix(self.prefix()) else { return false };
        self.count > 0 && self.head(self.count() - 1) <= head_of(&tail[..tail.len().min(HEAD)])
    }

    /// Records left of `cut`.
    pub(super) fn position(&self, cut: &Cut<'_>, boxes: &KeyBoxes) -> usize {
        let prefix = self.prefix();
        let shared = prefix.len().min(cut.key.len());
        match cut.key[..shared].cmp(&prefix[..shared]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.count(),
            Ordering::Equal if shared < prefix.len() => {
                // All keys here extend the cut's key.
                return if cut.tie == Tie::Extensions { self.count() } else { 0 };
            }
            Ordering::Equal => {}
        }
        let key = Tail::of(&cut.key[shared..]);
        // Heads below `head` are left of the cut, those above `head_max` are right of it.
        let head = head_of(key.head);
        let head_max = match cut.tie {
            Tie::Extensions => head | u32::MAX.unbounded_shr(8 * key.head.len() as u32),
            Tie::Rows(_) => head,
        };
        let low = self.count_below(head);
        if low == self.count() || self.head(low) > head_max {
            return low;
        }
        let (mut low, mut high) = (low, self.end_of_heads(low, head_max));
        while low < high {
            let middle = (low + high) / 2;
            let tail = self.tail(middle, boxes);
            let is_left = match (tail.cmp(&key), cut.tie) {
                (Ordering::Less, _) => true,
                (Ordering::Greater, Tie::Rows(_)) => false,
                (Ordering::Equal, Tie::Rows(limit)) => u64::from(self.row(middle)) < limit,
                (_, Tie::Extensions) => tail.starts_with(&key),
            };
            if is_left {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Adds `record` at position `at`; false when it needs another layout or another node.
    pub(super) fn insert(&mut self, at: usize, record: &Record<'_>) -> bool {
        assert!(at <= self.count(), "position {at} of {}", self.count);
        if !record.key.starts_with(self.prefix()) {
            return false;
        }
        let leaf = self.is_leaf();
        let size = record_size(record.key.len() - self.prefix_len as usize, record.boxed, leaf);
        let slots_end = self.count() * SLOT;
        let needed = if self.fits_removed(size) { SLOT } else { SLOT + size };
        if slots_end + needed > self.heap as usize {
            return false;
        }
        let offset = self.take_removed(size).unwrap_or_else(|| {
            self.heap -= size as u16;
            self.heap
        });
        self.buffer.copy_within(at * SLOT..slots_end, (at + 1) * SLOT);
        let head = head_of(&record.key[self.prefix_len as usize..]);
        self.buffer[at * SLOT..at * SLOT + 2].copy_from_slice(&offset.to_le_bytes());
        self.buffer[at * SLOT + 2..(at + 1) * SLOT].copy_from_slice(&head.to_be_bytes());
        self.count += 1;
        self.write(offset as usize, record);
        true
    }

    /// Removes record `at`. Its boxed key, if any, is the caller's from now on.
    pub(super) fn remove(&mut self, at: usize) {
        let offset = self.offset(at);
        let tail_len = self.buffer[offset] as usize;
        let boxed = self.boxed(at);
        let size = record_size(tail_len, boxed, self.is_leaf());
        let slots_end = self.count() * SLOT;
        self.buffer.copy_within((at + 1) * SLOT..slots_end, at * SLOT);
        self.count -= 1;
        if offset == self.heap as usize {
            self.heap += size as u16;
        } else {
            self.garbage += size as u16;
            self.store_u16(offset, self.removed);
            self.store_u16(offset + 2, size as u16);
            self.removed = offset as u16;
        }
    }

    /// Empties the node and gives it the prefix of the records to come.
    pub(super) fn reset(&mut self, prefix: &[u8]) {
        assert!(prefix.len() <= PREFIX_MAX, "prefix of {} bytes", prefix.len());
        (self.count, self.garbage, self.removed) = (0, 0, NO_RECORD);
        self.prefix_len = prefix.len() as u16;
        self.heap = USABLE as u16 - self.prefix_len;
        self.buffer[self.heap as usize..USABLE].copy_from_slice(prefix);
    }

    /// Records before this one stay when the node is cut into two of about the same size.
    pub(super) fn middle(&self) -> usize {
        let (mut left, half) = (0, (self.used() - self.prefix_len as usize) / 2);
        let mut at = 0;
        while left < half {
            let tail_len = self.buffer[self.offset(at)] as usize;
            left += record_cost(tail_len, self.boxed(at), self.is_leaf());
            at += 1;
        }
        at.min(self.count() - 1)
    }

    /// Whether some keys lie outside of the node.
    pub(super) fn has_boxes(&self) -> bool {
        (0..self.count()).any(|at| self.buffer[self.offset(at)] == BOXED)
    }

    /// How many bytes more than now are worth cutting off from records `from..to`, none of them
    /// boxed: what all of them begin with, as long as four bytes are left of the longest.
    pub(super) fn useful_extra(&self, from: usize, to: usize, boxes: &KeyBoxes) -> usize {
        if from == to {
            return 0;
        }
        let longest = (from..to).map(|at| self.buffer[self.offset(at)] as usize).max();
        let most = longest.map_or(0, |longest| longest.saturating_sub(HEAD));
        let most = most.min(PREFIX_MAX - self.prefix_len as usize);
        match most {
            0 => 0,
            most => self.tail(from, boxes).common(&self.tail(to - 1, boxes)).min(most),
        }
    }

    /// A node with records `from..to` of this one, none of them boxed, and `extra` bytes more cut
    /// off their keys, which begin alike. Its neighbours are not set.
    pub(super) fn part(&self, from: usize, to: usize, extra: usize, boxes: &KeyBoxes) -> Self {
        let mut part = Self::new(self.level);
        let mut key = Vec::new();
        if from < to {
            self.append_key(from, boxes, &mut key);
        } else {
            key.extend_from_slice(self.prefix());
        }
        part.reset(&key[..self.prefix_len as usize + extra]);
        for at in from..to {
            if extra == 0 {
                part.append_copy(self, at);
                continue;
            }
            key.truncate(self.prefix_len as usize);
            self.append_tail(at, boxes, &mut key);
            let child = if self.is_leaf() { NONE } else { self.child(at + 1) };
            let record = Record { key: &key, boxed: NONE, row: self.row(at), child };
            assert!(part.insert(at - from, &record), "part of a node fits a node");
        }
        part
    }

    /// Takes record `at` of a node with the same prefix as its last, as it lies there.
    #[inline]
    fn append_copy(&mut self, of: &Self, at: usize) {
        let from = of.offset(at);
        let size = record_size(of.buffer[from] as usize, NONE, of.is_leaf());
        let to = self.heap as usize - size;
        self.buffer[to..to + size].copy_from_slice(&of.buffer[from..from + size]);
        let slot = self.count() * SLOT;
        self.buffer[slot..slot + 2].copy_from_slice(&(to as u16).to_le_bytes());
        self.buffer[slot + 2..slot + SLOT]
            .copy_from_slice(&of.buffer[at * SLOT + 2..(at + 1) * SLOT]);
        self.heap = to as u16;
        self.count += 1;
    }

    pub(super) fn check(&self, boxes: &KeyBoxes) {
        let mut records = 0;
        for at in 0..self.count() {
            let tail_len = self.buffer[self.offset(at)] as usize;
            records += record_size(tail_len, self.boxed(at), self.is_leaf());
            if self.boxed(at) != NONE {
                assert!(boxes[self.boxed(at)].starts_with(self.prefix()), "prefix of a boxed key");
            }
            assert_eq!(self.head(at), head_of(self.tail(at, boxes).head), "head of record {at}");
        }
        let heap = USABLE - self.prefix_len as usize - self.heap as usize;
        assert_eq!(records + self.garbage as usize, heap, "bytes of records");
        let (mut removed, mut at) = (0, self.removed);
        while at != NO_RECORD {
            assert!(at >= self.heap, "a removed record lies among the records");
            removed += self.load_u16(at as usize + 2);
            at = self.load_u16(at as usize);
        }
        assert_eq!(removed, self.garbage, "bytes of removed records");
        assert!(self.count() * SLOT <= self.heap as usize, "slots and records overlap");
    }

    /// Whether the record removed last leaves `size` bytes.
    fn fits_removed(&self, size: usize) -> bool {
        self.removed != NO_RECORD && self.load_u16(self.removed as usize + 2) as usize == size
    }

    /// The place of the record removed last, if it has `size` bytes.
    fn take_removed(&mut self, size: usize) -> Option<u16> {
        if !self.fits_removed(size) {
            return None;
        }
        let offset = self.removed;
        self.removed = self.load_u16(offset as usize);
        self.garbage -= size as u16;
        Some(offset)
    }

    fn write(&mut self, offset: usize, record: &Record<'_>) {
        self.buffer[offset + 1..offset + 5].copy_from_slice(&record.row.to_le_bytes());
        if !self.is_leaf() {
            self.buffer[offset + 5..offset + 9].copy_from_slice(&record.child.to_le_bytes());
        }
        let start = offset + record_header(self.is_leaf());
        if record.boxed == NONE {
            let tail = &record.key[self.prefix_len as usize..];
            self.buffer[offset] = tail.len() as u8;
            let rest = Tail::of(tail).rest;
            self.buffer[start..start + rest.len()].copy_from_slice(rest);
        } else {
            self.buffer[offset] = BOXED;
            self.buffer[start..start + 4].copy_from_slice(&record.boxed.to_le_bytes());
        }
    }

    /// Records whose head is below `head`. Written so that no step is a branch to predict.
    #[inline]
    fn count_below(&self, head: u32) -> usize {
        let (slots, _) = self.buffer[..self.count() * SLOT].as_chunks::<SLOT>();
        let (mut base, mut size) = (0, slots.len());
        while size > 0 {
            let half = size / 2;
            let slot = &slots[base + half];
            let is_below = u32::from_be_bytes([slot[2], slot[3], slot[4], slot[5]]) < head;
            base = std::hint::select_unpredictable(is_below, base + half + 1, base);
            size = std::hint::select_unpredictable(is_below, size - half - 1, half);
        }
        base
    }

    /// The first record after `from`, whose head is at most `head_max`, with a larger head.
    #[inline]
    fn end_of_heads(&self, from: usize, head_max: u32) -> usize {
        // Heads seldom are equal, so a step or two finds the end.
        let near = (from + 1..self.count()).take(STEPS).find(|at| self.head(*at) > head_max);
        near.unwrap_or_else(|| {
            head_max.checked_add(1).map_or(self.count(), |above| self.count_below(above))
        })
    }

    #[inline]
    fn head(&self, at: usize) -> u32 {
        let slot = self.slot(at);
        u32::from_be_bytes([slot[2], slot[3], slot[4], slot[5]])
    }

    #[inline]
    fn slot(&self, at: usize) -> &[u8; SLOT] {
        assert!(at < self.count as usize, "record {at} of {}", self.count);
        self.buffer[at * SLOT..(at + 1) * SLOT].try_into().expect("a slot's bytes")
    }

    #[inline]
    fn offset(&self, at: usize) -> usize {
        let slot = self.slot(at);
        u16::from_le_bytes([slot[0], slot[1]]) as usize
    }

    #[inline]
    fn load_u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.buffer[offset..offset + 2].try_into().expect("two bytes"))
    }

    fn store_u16(&mut self, offset: usize, value: u16) {
        self.buffer[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn load_u32(&self, offset: usize) -> u32 {
        let bytes = self.buffer[offset..offset + 4].try_into().expect("four bytes");
        u32::from_le_bytes(bytes)
    }
}

/// A key without its node's prefix, in two pieces: up to four bytes, and what follows four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tail<'a> {
    head: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Tail<'a> {
    /// The tail with these bytes. Tails order as their bytes do: the rest is empty unless the head
    /// is full.
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD));
        Self { head, rest }
    }

    /// Length of what both begin with.
    fn common(&self, other: &Tail<'_>) -> usize {
        match common_prefix(self.head, other.head) {
            HEAD => HEAD + common_prefix(self.rest, other.rest),
            less => less,
        }
    }

    /// Whether the bytes begin with those of `other`.
    fn starts_with(&self, other: &Tail<'_>) -> bool {
        self.head.starts_with(other.head) && self.rest.starts_with(other.rest)
    }
}

/// A head as a number, zero-padded. Heads that differ order their keys.
#[inline]
fn head_of(tail: &[u8]) -> u32 {
    match tail {
        [a, b, c, d, ..] => u32::from_be_bytes([*a, *b, *c, *d]),
        _ => {
            let mut bytes = [0; HEAD];
            bytes[..tail.len()].copy_from_slice(tail);
            u32::from_be_bytes(bytes)
        }
    }
}

/// Bytes of a record before its tail.
#[inline]
const fn record_header(leaf: bool) -> usize {
    if leaf { 5 } else { 9 }
}

/// Bytes of a record without its slot.
const fn record_size(tail_len: usize, boxed: u32, leaf: bool) -> usize {
    record_header(leaf) + if boxed == NONE { tail_len.saturating_sub(HEAD) } else { 4 }
}

/// Bytes that a record takes in a node: its slot, and the record with a tail of `tail_len`.
#[inline]
pub(super) const fn record_cost(tail_len: usize, boxed: u32, leaf: bool) -> usize {
    SLOT + record_size(tail_len, boxed, leaf)
}
