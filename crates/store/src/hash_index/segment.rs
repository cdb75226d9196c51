//! One segment of the hash index: an ordered open-addressing table without wrap-around.
//!
//! # Guarantees
//! Entries ascend; each lies at the larger of its home slot and its predecessor's slot plus one;
//! the last slot is empty. The slots past the last home slot are the tail that takes displaced
//! entries.

use super::EMPTY;

/// Entries that share their top `depth` tag bits.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    slots: Box<[u64]>,
    /// Home slots; the tail comes on top.
    size: u32,
    /// Entries held.
    pub(super) len: u32,
    /// Tag bits that all its entries share.
    pub(super) depth: u32,
}

/// What remains to be known of a segment that is being split.
pub(super) struct SegmentHeader {
    pub(super) len: u32,
    pub(super) depth: u32,
}

/// Slots after the last home slot in a new segment.
const TAIL: usize = 32;
/// A segment of no more home slots stays as it is when it empties: a table of locks, say, is full
/// and empty again with each transaction.
const SMALL: u32 = 128;
/// Free slots that a new segment has at least after its last entry.
const TAIL_FREE_MIN: usize = 8;

impl Segment {
    /// A segment of `len` ascending `entries`, three quarters full with as many as `room` says.
    pub(super) fn build(
        entries: impl Iterator<Item = u64>,
        len: u32,
        room: u32,
        depth: u32,
    ) -> Self {
        let mut segment = Self::sized(room, depth);
        segment.len = len;
        let size = segment.size;
        let mut slots = std::mem::take(&mut segment.slots).into_vec();
        let mut free = 0;
        for entry in entries {
            let at = free.max(segment.home((entry >> 32) as u32));
            if at >= slots.len() {
                slots.resize(at + at / 8 + TAIL, EMPTY);
            }
            slots[at] = entry;
            free = at + 1;
        }
        if free + TAIL_FREE_MIN > slots.len() {
            let displaced = free - size as usize;
            slots.resize(free + TAIL_FREE_MIN + displaced / 8, EMPTY);
        }
        segment.slots = slots.into_boxed_slice();
        segment
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.len = 0;
    }

    /// A segment that holds nothing, and would be three quarters full with `len` entries.
    pub(super) fn sized(len: u32, depth: u32) -> Self {
        let size = (len + len / 3 + 1).next_multiple_of(8);
        let slots = vec![EMPTY; size as usize + if size > 64 { TAIL } else { TAIL_FREE_MIN }];
        Self { slots: slots.into_boxed_slice(), size, len: 0, depth }
    }

    /// A segment of no bits that holds nothing and has no home slots.
    pub(super) fn empty() -> Self {
        Self { slots: Box::new([EMPTY]), size: 0, len: 0, depth: 0 }
    }

    /// The place of a segment that was merged away.
    pub(super) fn vacant() -> Self {
        Self { slots: Box::default(), size: 0, len: 0, depth: 0 }
    }

    pub(super) fn clone_header(&self) -> SegmentHeader {
        SegmentHeader { len: self.len, depth: self.depth }
    }

    /// Whether another entry needs a larger segment first.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        u64::from(self.len + 1) * 20 > u64::from(self.size) * 17
    }

    /// Whether a smaller segment would do.
    pub(super) fn is_sparse(&self, roomy: bool) -> bool {
        self.size > SMALL && self.len < self.size / if roomy { 4 } else { 2 }
    }

    /// Whether a split of some depth could separate the entries.
    pub(super) fn has_two_tags(&self) -> bool {
        let first = self.slots.iter().find(|entry| **entry != EMPTY);
        let last = self.slots.iter().rev().find(|entry| **entry != EMPTY);
        first.map(|entry| entry >> 32) != last.map(|entry| entry >> 32)
    }

    /// Slots from the home of `tag` on.
    #[inline]
    pub(super) fn probe(&self, tag: u32) -> &[u64] {
        &self.slots[self.home(tag)..]
    }

    /// Entries in ascending order.
    pub(super) fn entries(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|entry| *entry != EMPTY)
    }

    pub(super) fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// Adds `entry`; false when displaced entries would fill the last slot.
    pub(super) fn insert(&mut self, entry: u64) -> bool {
        let start = self.position(entry);
        assert!(self.slots[start] != entry, "a row is indexed once under its hash");
        let displaced = self.slots[start..].iter().position(|slot| *slot == EMPTY);
        let end = start + displaced.expect("the last slot is empty");
        if end + 1 == self.slots.len() {
            return false;
        }
        self.slots.copy_within(start..end, start + 1);
        self.slots[start] = entry;
        self.len += 1;
        true
    }

    /// Removes `entry` and moves displaced ones back; false when it is not there.
    pub(super) fn remove(&mut self, entry: u64) -> bool {
        let start = self.position(entry);
        if self.slots[start] != entry {
            return false;
        }
        let mut end = start + 1;
        while self.slots[end] != EMPTY && self.home((self.slots[end] >> 32) as u32) < end {
            end += 1;
        }
        self.slots.copy_within(start + 1..end, start);
        self.slots[end - 1] = EMPTY;
        self.len -= 1;
        true
    }

    pub(super) fn check(&self) {
        assert_eq!(self.slots.last(), Some(&EMPTY), "the last slot is empty");
        let (mut len, mut free, mut previous) = (0, 0, 0);
        for (at, entry) in self.slots.iter().enumerate().filter(|(_, entry)| **entry != EMPTY) {
            assert_eq!(at, free.max(self.home((entry >> 32) as u32)), "entry out of place");
            assert!(len == 0 || previous < *entry, "entries ascend");
            (len, free, previous) = (len + 1, at + 1, *entry);
        }
        assert_eq!(len, self.len, "segment length");
    }

    /// The slot of `entry`, or the one it belongs in.
    #[inline]
    fn position(&self, entry: u64) -> usize {
        let home = self.home((entry >> 32) as u32);
        let step = self.slots[home..].iter().position(|slot| *slot >= entry);
        home + step.expect("the last slot is empty")
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag << self.depth) * u64::from(self.size)) >> 32) as usize
    }
}
