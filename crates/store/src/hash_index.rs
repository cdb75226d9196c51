//! Primary-key hash index of one partition replica: from a 64-bit key hash to row ids.
//!
//! NDB calls this DBACC. Extendible hashing (Fagin, Nievergelt, Pippenger and Strong, "Extendible
//! hashing: a fast access method for dynamic files", 1979) over segments that are ordered
//! open-addressing tables (Amble and Knuth, "Ordered hash tables", 1974).
//!
//! # Owns
//! Entries of 8 bytes: a 32-bit tag made from the hash, and the row id. Keys are not stored; the
//! caller compares the row it is led to.
//! # Layout
//! The top bits of the tag choose a directory slot, which names a segment; the bits below choose
//! the home slot inside the segment. Entries of a segment lie in ascending order, each at its home
//! slot or the first free slot after its predecessor. So probing ends at the first larger entry,
//! a split cuts the segment in two without the original hashes, and equal contents have equal
//! layouts.
//! # Work per operation
//! A segment of n entries is rebuilt (a linear copy) when it is 85 % full or under 50 %, to 75 %,
//! but a small one is not made smaller;
//! at 1536 entries it is split instead, and buddies with 640 or fewer together are merged. An
//! operation does at most one such step, at most one directory doubling or halving, and no loop
//! over the index: under 2,000 entry moves (a few microseconds) and a directory copy of 4 bytes
//! per 1,000 rows. At 10 million rows the directory has 16,384 slots (64 KiB) and the segment
//! table 512 KiB at most, so no operation comes near 200 µs. Many equal tags, which only
//! equal hashes or chance give, lie in one segment that grows instead of splitting: then an
//! operation costs time in proportion to that segment.
//! A roomy index trades memory for fewer rebuilds: its segments get twice the room they need now,
//! up to that of a split, and are made smaller when they are under 25 % full. It suits entries that
//! stay for a transaction.
//! # Not here
//! Keys, rows, locks.

use model::RowId;

mod segment;

use segment::Segment;

/// Maps key hashes to row ids; see the module's head.
#[doc(alias = "DBACC")]
#[derive(Clone, Debug)]
pub struct HashIndex {
    /// `2^depth` names of segments; segments with fewer own bits are named several times in a row.
    directory: Vec<u32>,
    segments: Vec<Segment>,
    free_segments: Vec<u32>,
    depth: u32,
    /// Living segments of each depth: the directory is halved when none needs its last bit.
    segments_of_depth: [u32; DEPTH_MAX as usize + 1],
    len: usize,
    slot_count: usize,
    /// It is made for entries that come and go, rather than for little memory.
    roomy: bool,
}

/// A segment with this many entries is split rather than enlarged.
const SPLIT_LEN: u32 = 1536;
/// Buddies with this many entries together become one segment.
const MERGE_LEN: u32 = 640;
/// Most entries that are expected in a segment of an index that is made for a number of rows:
/// chance brings no segment from there to a split.
const SIZED_LEN: u64 = 1_100;
/// Most tag bits the directory uses; ten bits or more remain for the home slot.
const DEPTH_MAX: u32 = 22;
/// Directory slots per segment beyond which a lopsided segment grows instead of splitting.
const DIRECTORY_SPARSITY_MAX: usize = 8;

const _: () = assert!(MERGE_LEN * 2 < SPLIT_LEN, "a merge is far from the next split");

impl Default for HashIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl HashIndex {
    /// An empty index; allocates a few words.
    pub fn new() -> Self {
        let mut segments_of_depth = [0; DEPTH_MAX as usize + 1];
        segments_of_depth[0] = 1;
        let first = Segment::empty();
        let slot_count = first.slots().len();
        Self {
            directory: vec![0],
            segments: vec![first],
            free_segments: Vec::new(),
            depth: 0,
            segments_of_depth,
            len: 0,
            slot_count,
            roomy: false,
        }
    }

    /// An empty index that takes more memory for its entries and less time; see the module's head.
    pub fn roomy() -> Self {
        Self { roomy: true, ..Self::new() }
    }

    /// An empty index with room for about `rows` rows, so that they come without rebuilding it.
    /// Takes time in proportion to them.
    pub fn sized_for(rows: u64) -> Self {
        let mut depth = 0;
        while depth < DEPTH_MAX && rows >> depth > SIZED_LEN {
            depth += 1;
        }
        let mut index = Self::new();
        if rows == 0 {
            return index;
        }
        let count = 1 << depth;
        let len = (rows >> depth) as u32;
        index.directory = (0..count).collect();
        index.segments = (0..count).map(|_| Segment::sized(len, depth)).collect();
        index.depth = depth;
        index.segments_of_depth[0] = 0;
        index.segments_of_depth[depth as usize] = count;
        index.slot_count = index.segments.iter().map(|segment| segment.slots().len()).sum();
        index
    }

    /// Gives the memory of so many segments back; how many are left of that number when there are
    /// no more. The index is of no use any more.
    pub(crate) fn shed(&mut self, mut count: u32) -> u32 {
        while count > 0 && self.segments.pop().is_some() {
            count -= 1;
        }
        count
    }

    /// Adds `row` under `hash`. Several rows may share a hash; the same pair must not be added
    /// twice, and `RowId(u32::MAX)` is not a row.
    pub fn insert(&mut self, hash: u64, row: RowId) {
        assert!(row.0 != u32::MAX, "the largest row id is reserved");
        let tag = tag_of(hash);
        let mut id = self.segment_of(tag);
        if self.segments[id as usize].is_full() {
            self.make_room(tag);
            id = self.segment_of(tag);
        }
        let entry = entry_of(tag, row);
        if !self.segments[id as usize].insert(entry) {
            // Displaced entries reached the last slot: the rebuilt segment has a longer tail.
            self.rebuild(id);
            let inserted = self.segments[id as usize].insert(entry);
            assert!(inserted, "a rebuilt segment has a free tail");
        }
        self.len += 1;
    }

    /// The first row under `hash` that `is_match` accepts. Rows whose hash shares the 32-bit tag
    /// are offered too, so `is_match` compares keys.
    #[inline]
    pub fn find(&self, hash: u64, mut is_match: impl FnMut(RowId) -> bool) -> Option<RowId> {
        let tag = tag_of(hash);
        let low = u64::from(tag) << 32;
        for entry in self.segments[self.segment_of(tag) as usize].probe(tag) {
            if *entry < low {
                continue;
            }
            if (*entry >> 32) as u32 != tag || *entry == EMPTY {
                return None;
            }
            if is_match(row_of(*entry)) {
                return Some(row_of(*entry));
            }
        }
        unreachable!("the last slot of a segment is empty")
    }

    /// What is at the place where a row under `hash` would be: of no use but to have the place in
    /// the processor's cache.
    #[inline]
    pub fn peek(&self, hash: u64) -> u64 {
        let tag = tag_of(hash);
        self.segments[self.segment_of(tag) as usize].probe(tag)[0]
    }

    /// Removes the pair; false when it is not there.
    pub fn remove(&mut self, hash: u64, row: RowId) -> bool {
        let tag = tag_of(hash);
        let id = self.segment_of(tag);
        if row.0 == u32::MAX || !self.segments[id as usize].remove(entry_of(tag, row)) {
            return false;
        }
        self.len -= 1;
        if self.len == 0 && self.segments.len() > 1 {
            *self = Self { roomy: self.roomy, ..Self::new() };
            return true;
        }
        if !self.merge(tag) && self.segments[id as usize].is_sparse(self.roomy) {
            self.rebuild(id);
        }
        self.halve_directory();
        true
    }

    /// Forgets all rows; keeps the memory of a small index.
    pub fn clear(&mut self) {
        match self.segments.as_mut_slice() {
            [only] => only.clear(),
            _ => *self = Self { roomy: self.roomy, ..Self::new() },
        }
        self.len = 0;
    }

    /// Rows in the index.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated, including the index itself.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.slot_count * size_of::<u64>()
            + self.directory.capacity() * size_of::<u32>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.free_segments.capacity() * size_of::<u32>()
    }

    /// All rows, in no useful order.
    pub fn iter_rows(&self) -> impl Iterator<Item = RowId> + '_ {
        self.segments.iter().flat_map(Segment::entries).map(row_of)
    }

    /// Panics when an invariant of the structure does not hold. Reads the whole index.
    pub fn check(&self) {
        assert_eq!(self.directory.len(), 1 << self.depth, "directory size");
        let mut of_depth = [0; DEPTH_MAX as usize + 1];
        let (mut len, mut at) = (0, 0);
        while at < self.directory.len() {
            let id = self.directory[at];
            let segment = &self.segments[id as usize];
            segment.check();
            let span = 1 << (self.depth - segment.depth);
            assert_eq!(at % span, 0, "segment {id} starts at a multiple of its span");
            assert!(self.directory[at..at + span].iter().all(|other| *other == id));
            for entry in segment.entries() {
                let slot = self.directory_slot((entry >> 32) as u32);
                assert!((at..at + span).contains(&slot), "entry in the wrong segment {id}");
            }
            of_depth[segment.depth as usize] += 1;
            len += segment.len as usize;
            at += span;
        }
        assert_eq!(of_depth, self.segments_of_depth, "segments of each depth");
        assert_eq!(len, self.len, "length");
        let living = of_depth.iter().sum::<u32>() as usize;
        assert_eq!(living, self.segments.len() - self.free_segments.len(), "living segments");
        let slots: usize = self.segments.iter().map(|segment| segment.slots().len()).sum();
        assert_eq!(slots, self.slot_count, "slots");
    }

    #[inline]
    fn directory_slot(&self, tag: u32) -> usize {
        (u64::from(tag) >> (32 - self.depth)) as usize
    }

    #[inline]
    fn segment_of(&self, tag: u32) -> u32 {
        self.directory[self.directory_slot(tag)]
    }

    /// Directory slots that name the segment of `tag`, as first and count.
    fn span_of(&self, tag: u32) -> (usize, usize) {
        let segment = &self.segments[self.segment_of(tag) as usize];
        let bits = self.depth - segment.depth;
        ((self.directory_slot(tag) >> bits) << bits, 1 << bits)
    }

    /// Splits or enlarges the full segment of `tag`.
    fn make_room(&mut self, tag: u32) {
        let id = self.segment_of(tag);
        let segment = &self.segments[id as usize];
        let in_directory = segment.depth < self.depth;
        let living = self.segments.len() - self.free_segments.len();
        let can_double = self.directory.len() < living * DIRECTORY_SPARSITY_MAX;
        let can_split = segment.depth < DEPTH_MAX && (in_directory || can_double);
        if segment.len >= SPLIT_LEN && can_split && segment.has_two_tags() {
            self.split(tag);
        } else {
            self.rebuild(id);
        }
    }

    fn split(&mut self, tag: u32) {
        let id = self.segment_of(tag);
        let old = self.segments[id as usize].clone_header();
        if old.depth == self.depth {
            self.directory = self.directory.iter().flat_map(|name| [*name, *name]).collect();
            self.depth += 1;
        }
        let (first, span) = self.span_of(tag);
        let upper = (((first as u64) + span as u64 / 2) << (32 - self.depth)) as u32;
        let source = &self.segments[id as usize];
        let low_len = source.entries().take_while(|entry| ((entry >> 32) as u32) < upper).count();
        let low_len = low_len as u32;
        let (depth, high_len) = (old.depth + 1, old.len - low_len);
        let low = source.entries().take(low_len as usize);
        let low = Segment::build(low, low_len, self.room_for(low_len), depth);
        let high = source.entries().skip(low_len as usize);
        let high = Segment::build(high, high_len, self.room_for(high_len), depth);
        self.slot_count += high.slots().len();
        self.replace(id, low);
        let high_id = self.name_segment(high);
        self.directory[first + span / 2..first + span].fill(high_id);
        self.segments_of_depth[old.depth as usize] -= 1;
        self.segments_of_depth[old.depth as usize + 1] += 2;
    }

    /// Merges the segment of `tag` with its buddy when both are small; says whether it did.
    fn merge(&mut self, tag: u32) -> bool {
        let segment = &self.segments[self.segment_of(tag) as usize];
        if segment.depth == 0 || segment.len > MERGE_LEN {
            return false;
        }
        let depth = segment.depth;
        let (first, span) = self.span_of(tag);
        let low_first = first & !span;
        let (low_id, high_id) = (self.directory[low_first], self.directory[low_first | span]);
        let (low, high) = (&self.segments[low_id as usize], &self.segments[high_id as usize]);
        let len = low.len + high.len;
        if low.depth != high.depth || len > MERGE_LEN {
            return false;
        }
        assert!(low_id != high_id, "buddies differ");
        let entries = low.entries().chain(high.entries());
        let merged = Segment::build(entries, len, self.room_for(len), depth - 1);
        self.slot_count -= high.slots().len();
        self.segments[high_id as usize] = Segment::vacant();
        self.free_segments.push(high_id);
        self.replace(low_id, merged);
        self.directory[low_first..low_first + 2 * span].fill(low_id);
        self.segments_of_depth[depth as usize] -= 2;
        self.segments_of_depth[depth as usize - 1] += 1;
        true
    }

    /// Drops the directory's last bit when no segment needs it.
    fn halve_directory(&mut self) {
        if self.depth == 0 || self.segments_of_depth[self.depth as usize] > 0 {
            return;
        }
        self.directory = self.directory.iter().step_by(2).copied().collect();
        self.depth -= 1;
    }

    /// Lays the segment out anew in the size that suits its entries.
    fn rebuild(&mut self, id: u32) {
        let old = &self.segments[id as usize];
        let new = Segment::build(old.entries(), old.len, self.room_for(old.len), old.depth);
        self.replace(id, new);
    }

    /// For how many entries a segment is made that has `len` now.
    fn room_for(&self, len: u32) -> u32 {
        if self.roomy { (2 * len).min(SPLIT_LEN).max(len) } else { len }
    }

    fn replace(&mut self, id: u32, segment: Segment) {
        let old = &mut self.segments[id as usize];
        self.slot_count = self.slot_count + segment.slots().len() - old.slots().len();
        *old = segment;
    }

    fn name_segment(&mut self, segment: Segment) -> u32 {
        if let Some(id) = self.free_segments.pop() {
            self.segments[id as usize] = segment;
            return id;
        }
        self.segments.push(segment);
        self.segments.len() as u32 - 1
    }
}

/// Marks a free slot; larger than every entry, so probing stops at it without asking.
const EMPTY: u64 = u64::MAX;

/// The 32 bits that stand for a hash. All its bits take part: rows of one partition may share
/// whichever bits the partition was chosen by.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[inline]
fn entry_of(tag: u32, row: RowId) -> u64 {
    u64::from(tag) << 32 | u64::from(row.0)
}

#[inline]
fn row_of(entry: u64) -> RowId {
    RowId(entry as u32)
}

#[cfg(test)]
mod tests;
