//! The slot directory of a heap: what each slot holds, in chunks, with the free ones linked.
//!
//! # Guarantees
//! Finding, reserving and releasing a slot takes constant time. Slots between the old end and a
//! far new one are not filled in before they are needed, so growing far is cheap too.
//! # Not here
//! Row images: `pages`.

use std::collections::BTreeSet;
use std::ops::Range;

use model::Epoch;

use super::SLOTS_MAX;

/// One slot in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Flags in the top bits, the epoch of the last change below.
    word: u64,
    /// Occupied: the page, or the place of a large row. Free: the next free slot.
    first: u32,
    /// Occupied: offset and length in the page. Free: the previous free slot.
    second: u32,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Empty,
    /// An image in a page.
    Paged {
        page: u32,
        offset: u16,
        len: u16,
    },
    /// An image with an allocation of its own.
    Large(u32),
}

/// The directory; see the module's head.
#[derive(Debug)]
pub(super) struct Slots {
    chunks: Vec<Chunk>,
    /// Chunks of never used slots that are not filled in.
    absent: BTreeSet<u32>,
    count: u32,
    /// First slot of the list of free ones.
    free: u32,
    rows: u64,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Chunk {
    slots: Vec<Slot>,
    rows: u32,
}

const OCCUPIED: u64 = 1 << 63;
const RESERVED: u64 = 1 << 62;
const LARGE: u64 = 1 << 61;
const EPOCH: u64 = LARGE - 1;
/// Slots per chunk.
const CHUNK: u32 = 4096;
/// Ends the list of free slots.
const NONE: u32 = u32::MAX;
/// A slot never used, not linked.
const UNUSED: Slot = Slot { word: 0, first: NONE, second: NONE };

const _: () = assert!(size_of::<Slot>() == 16, "a slot is 16 bytes");

impl Slot {
    #[inline]
    pub(super) fn epoch(self) -> Epoch {
        Epoch(self.word & EPOCH)
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.word & OCCUPIED == 0
    }

    pub(super) fn is_reserved(self) -> bool {
        self.word & RESERVED != 0
    }

    #[inline]
    pub(super) fn content(self) -> Content {
        match self.word & (OCCUPIED | LARGE) {
            OCCUPIED => Content::Paged {
                page: self.first,
                offset: (self.second >> 16) as u16,
                len: self.second as u16,
            },
            0 => Content::Empty,
            _ => Content::Large(self.first),
        }
    }

    fn is_free(self) -> bool {
        self.word & (OCCUPIED | RESERVED) == 0
    }
}

impl Slots {
    /// Gives so many chunks back; how many are left of that number when there are no more.
    pub(super) fn shed(&mut self, mut count: u32) -> u32 {
        while count > 0 && self.chunks.pop().is_some() {
            count -= 1;
        }
        count
    }

    pub(super) fn new() -> Self {
        let (chunks, absent) = (Vec::new(), BTreeSet::new());
        Self { chunks, absent, count: 0, free: NONE, rows: 0, bytes: 0 }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes + (self.chunks.capacity() * size_of::<Chunk>()) as u64
    }

    /// The slot; one that does not exist looks never used.
    #[inline]
    pub(super) fn get(&self, id: u32) -> Slot {
        let chunk = self.chunks.get((id / CHUNK) as usize);
        let slot = chunk.and_then(|chunk| chunk.slots.get((id % CHUNK) as usize));
        slot.copied().unwrap_or(UNUSED)
    }

    /// Reserves a free slot or a new one.
    pub(super) fn allocate(&mut self) -> u32 {
        if self.free == NONE
            && let Some(chunk) = self.absent.first()
        {
            self.fill_in(*chunk);
        }
        if self.free == NONE {
            self.extend_to(self.count);
        }
        let id = self.free;
        self.set_empty(id, self.get(id).epoch(), true);
        id
    }

    /// Makes the slot exist, and all before it.
    pub(super) fn extend_to(&mut self, id: u32) {
        if id < self.count {
            if self.absent.contains(&(id / CHUNK)) {
                self.fill_in(id / CHUNK);
            }
            return;
        }
        assert!(id < SLOTS_MAX, "more than {SLOTS_MAX} slots");
        while self.count <= id {
            let (chunk, from) = (self.count / CHUNK, self.count % CHUNK);
            if from == 0 {
                self.chunks.push(Chunk::default());
            }
            if from == 0 && chunk < id / CHUNK {
                self.absent.insert(chunk);
                self.count += CHUNK;
                continue;
            }
            let to = if chunk < id / CHUNK { CHUNK } else { id % CHUNK + 1 };
            self.add_slots(chunk, to);
            self.count = chunk * CHUNK + to;
        }
    }

    /// Lets the slot hold a row.
    pub(super) fn set_row(&mut self, id: u32, content: Content, epoch: Epoch, reserved: bool) {
        assert!(epoch.0 <= EPOCH, "epoch {epoch} has too many bits");
        let before = self.get(id);
        if before.is_free() {
            self.unlink(id);
        }
        if before.is_empty() {
            self.rows += 1;
            self.chunks[(id / CHUNK) as usize].rows += 1;
        }
        let flags = OCCUPIED | if reserved { RESERVED } else { 0 };
        *self.slot_mut(id) = match content {
            Content::Paged { page, offset, len } => Slot {
                word: flags | epoch.0,
                first: page,
                second: u32::from(offset) << 16 | u32::from(len),
            },
            Content::Large(at) => Slot { word: flags | LARGE | epoch.0, first: at, second: 0 },
            Content::Empty => panic!("a row has an image"),
        };
    }

    /// Lets the slot be empty: reserved or free.
    pub(super) fn set_empty(&mut self, id: u32, epoch: Epoch, reserved: bool) {
        assert!(epoch.0 <= EPOCH, "epoch {epoch} has too many bits");
        let before = self.get(id);
        if !before.is_empty() {
            self.rows -= 1;
            self.chunks[(id / CHUNK) as usize].rows -= 1;
        }
        if before.is_free() && reserved {
            self.unlink(id);
        }
        let slot = self.slot_mut(id);
        slot.word = epoch.0 | if reserved { RESERVED } else { 0 };
        if !before.is_free() && !reserved {
            self.link(id);
        }
    }

    /// Changes only whether a slot with a row stays reserved when the row goes.
    pub(super) fn set_reserved(&mut self, id: u32, reserved: bool) {
        let slot = self.slot_mut(id);
        assert!(!slot.is_empty(), "slot {id} is empty");
        slot.word = slot.word & !RESERVED | if reserved { RESERVED } else { 0 };
    }

    /// The length of the image the slot holds in a page.
    pub(super) fn len_in_page(&self, id: u32) -> u16 {
        match self.get(id).content() {
            Content::Paged { len, .. } => len,
            other => panic!("slot {id} has no image in a page but {other:?}"),
        }
    }

    /// The slot's image has moved inside its page.
    pub(super) fn moved(&mut self, id: u32, offset: u16) {
        let slot = self.slot_mut(id);
        slot.second = u32::from(offset) << 16 | slot.second & 0xFFFF;
    }

    /// The first slot from `from` on that holds a row.
    #[inline]
    pub(super) fn next_row(&self, from: u32) -> Option<u32> {
        let mut at = from;
        while at < self.count {
            let chunk = &self.chunks[(at / CHUNK) as usize];
            if chunk.rows > 0 {
                let rest = chunk.slots.get((at % CHUNK) as usize..).unwrap_or(&[]);
                if let Some(step) = rest.iter().position(|slot| !slot.is_empty()) {
                    return Some(at + step as u32);
                }
            }
            at = (at / CHUNK + 1).checked_mul(CHUNK)?;
        }
        None
    }

    /// Calls `each` with the slots of a range that hold a row of an epoch up to `newest`, so many
    /// at most.
    pub(super) fn next_rows(
        &self,
        range: Range<u32>,
        newest: Epoch,
        most: usize,
        mut each: impl FnMut(u32, Slot),
    ) {
        let (mut at, end, mut left) = (range.start, range.end.min(self.count), most);
        while at < end && left > 0 {
            let first = at / CHUNK * CHUNK;
            let chunk = &self.chunks[(at / CHUNK) as usize];
            let rest = chunk.slots.get((at - first) as usize..).unwrap_or(&[]);
            let rest = if chunk.rows > 0 { rest } else { &[] };
            let wanted = |slot: &Slot| !slot.is_empty() && slot.epoch() <= newest;
            for (slot, id) in rest.iter().zip(at..end).filter(|(slot, _)| wanted(slot)).take(left) {
                each(id, *slot);
                left -= 1;
            }
            let Some(next) = first.checked_add(CHUNK) else { return };
            at = next;
        }
    }

    /// Slots of chunks that are filled in, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, Slot)> + '_ {
        self.iter_from(0)
    }

    /// The same, from a slot on.
    pub(super) fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, Slot)> + '_ {
        let chunks = self.chunks.iter().enumerate().skip((from / CHUNK) as usize);
        chunks.flat_map(move |(chunk, content)| {
            let first = chunk as u32 * CHUNK;
            let skipped = from.saturating_sub(first).min(content.slots.len() as u32);
            let slots = &content.slots[skipped as usize..];
            slots.iter().zip(first + skipped..).map(|(slot, id)| (id, *slot))
        })
    }

    /// Drops free slots at the end until `count` are left or the last is not free.
    pub(super) fn truncate(&mut self, count: u32) {
        while self.count > count {
            let chunk = (self.count - 1) / CHUNK;
            if self.absent.contains(&chunk) {
                if chunk * CHUNK < count {
                    self.fill_in(chunk);
                    continue;
                }
                self.absent.remove(&chunk);
                self.chunks.pop();
                self.count = chunk * CHUNK;
                continue;
            }
            let last = self.count - 1;
            if !self.get(last).is_free() {
                return;
            }
            self.unlink(last);
            let slots = &mut self.chunks[chunk as usize].slots;
            slots.pop();
            self.count = last;
            if slots.is_empty() {
                self.bytes -= (slots.capacity() * size_of::<Slot>()) as u64;
                self.chunks.pop();
            }
        }
    }

    /// Panics when counts or the list of free slots are wrong.
    pub(super) fn check(&self) {
        let (mut free, mut rows, mut bytes) = (0, 0, 0);
        for (at, chunk) in self.chunks.iter().enumerate() {
            let absent = self.absent.contains(&(at as u32));
            let size = CHUNK.min(self.count - at as u32 * CHUNK) as usize;
            assert_eq!(chunk.slots.len(), if absent { 0 } else { size }, "slots of chunk {at}");
            let occupied = chunk.slots.iter().filter(|slot| !slot.is_empty()).count();
            assert_eq!(occupied, chunk.rows as usize, "rows of chunk {at}");
            free += chunk.slots.iter().filter(|slot| slot.is_free()).count();
            rows += occupied as u64;
            bytes += (chunk.slots.capacity() * size_of::<Slot>()) as u64;
        }
        assert_eq!((rows, bytes), (self.rows, self.bytes), "rows and bytes");
        assert_eq!(self.chunks.len() as u32, self.count.div_ceil(CHUNK), "chunks");
        let (mut at, mut previous) = (self.free, NONE);
        while at != NONE {
            let slot = self.get(at);
            assert!(slot.is_free() && slot.second == previous, "list of free slots at {at}");
            (previous, at) = (at, slot.first);
            free = free.checked_sub(1).expect("each free slot is listed once");
        }
        assert_eq!(free, 0, "free slots not listed");
    }

    fn slot_mut(&mut self, id: u32) -> &mut Slot {
        assert!(id < self.count, "slot {id} of {}", self.count);
        &mut self.chunks[(id / CHUNK) as usize].slots[(id % CHUNK) as usize]
    }

    /// Fills in a chunk that was left out.
    fn fill_in(&mut self, chunk: u32) {
        assert!(self.absent.remove(&chunk), "chunk {chunk} is there");
        self.add_slots(chunk, CHUNK);
    }

    /// Makes the chunk `to` slots long; the new ones are free, the lowest to be taken first.
    fn add_slots(&mut self, chunk: u32, to: u32) {
        let slots = &mut self.chunks[chunk as usize].slots;
        let before = (slots.len(), slots.capacity());
        if chunk > 0 {
            slots.reserve_exact(CHUNK as usize - before.0);
        }
        slots.resize(to as usize, UNUSED);
        self.bytes += ((slots.capacity() - before.1) * size_of::<Slot>()) as u64;
        let first = chunk * CHUNK;
        self.count = self.count.max(first + to);
        for at in (before.0 as u32..to).rev() {
            self.link(first + at);
        }
    }

    fn link(&mut self, id: u32) {
        let next = self.free;
        let slot = self.slot_mut(id);
        (slot.first, slot.second) = (next, NONE);
        if next != NONE {
            self.slot_mut(next).second = id;
        }
        self.free = id;
    }

    fn unlink(&mut self, id: u32) {
        let Slot { first: next, second: previous, .. } = self.get(id);
        if next != NONE {
            self.slot_mut(next).second = previous;
        }
        if previous != NONE {
            self.slot_mut(previous).first = next;
        } else {
            self.free = next;
        }
    }
}
