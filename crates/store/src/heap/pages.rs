//! The pages of a heap: row images in 64 KiB, found by page and offset.
//!
//! # Layout
//! A page is a sequence of records: slot (4 bytes), capacity (2), image. A record that was freed
//! names no slot, and its image begins with the offset of the next free record of the page.
//! # Guarantees
//! A page with 2 KiB or more free is found again at once, and compacted at most once for each
//! 2 KiB placed in it. Its first free records are tried before that, so equal rows move nothing.
//! # Not here
//! Rows over `IN_PAGE_MAX` bytes: they would fill pages badly, and have allocations of their own.

use super::slots::Slots;
use crate::arena::Arena;

/// All pages of a heap; see the module's head.
#[derive(Debug)]
pub(super) struct Pages {
    pages: Arena<Page, 256>,
    /// The page that new images go to.
    fill: u32,
    /// Other pages by free bytes: heads of their lists. Nothing is placed in pages of bin 0.
    bins: [u32; BIN_COUNT],
    /// Which bins hold a page.
    bins_used: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Page {
    data: Vec<u8>,
    /// Bytes of records that hold an image.
    live: u32,
    /// First free record, or `NO_RECORD`.
    dead: u16,
    /// The bin whose list the page is in, unless it is the page to fill.
    bin: u8,
    next: u32,
    previous: u32,
}

/// Longest image in a page: rows just over it would leave a tenth of each page empty.
pub(super) const IN_PAGE_MAX: usize = 6_000;
/// Bytes of a page.
const PAGE: usize = 1 << 16;
/// Bytes before an image.
const HEADER: usize = 6;
/// Bytes of the smallest record: a free one holds a link.
const RECORD_MIN: usize = HEADER + 2;
/// A longer record is cut in two if at least this much is left over.
const SPLIT_MIN: usize = 32;
/// Free records tried before the page is compacted.
const TRIES: usize = 4;
/// Free bytes that set bins apart.
const BIN_STEP: usize = 2048;
const BIN_COUNT: usize = PAGE / BIN_STEP + 1;
/// No page.
const NONE: u32 = u32::MAX;
/// Stands for the slot in a free record.
const DEAD: u32 = u32::MAX;
/// Ends the list of free records; no record fits there.
const NO_RECORD: u16 = u16::MAX;

const _: () = assert!(BIN_COUNT <= 64, "a word has a bit for each bin");
const _: () = assert!((IN_PAGE_MAX + HEADER) * 10 < PAGE, "pages can be filled to 90 %");

impl Pages {
    pub(super) fn new() -> Self {
        let bins = [NONE; BIN_COUNT];
        Self { pages: Arena::new(), fill: NONE, bins, bins_used: 0, bytes: 0 }
    }

    /// See [`Arena::shed`].
    pub(super) fn shed(&mut self, count: u32) -> u32 {
        self.pages.shed(count)
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(super) fn row(&self, page: u32, offset: u16, len: u16) -> &[u8] {
        let start = offset as usize + HEADER;
        &self.pages[page].data[start..start + len as usize]
    }

    /// The slot the record belongs to.
    pub(super) fn slot_at(&self, page: u32, offset: u16) -> u32 {
        self.pages[page].header(offset as usize).0
    }

    /// Puts the image of a slot somewhere. `slots` hears of images that move.
    pub(super) fn place(&mut self, slots: &mut Slots, id: u32, row: &[u8]) -> (u32, u16) {
        let size = (HEADER + row.len()).max(RECORD_MIN);
        if self.fill != NONE
            && let Some(offset) = self.place_in_fill(size, id, row)
        {
            return (self.fill, offset);
        }
        let emptier = self.bins_used & (u64::MAX << size.div_ceil(BIN_STEP));
        let chosen = if emptier == 0 {
            self.add_page()
        } else {
            let page = self.bins[emptier.trailing_zeros() as usize];
            self.take_from_bin(page);
            page
        };
        let before = std::mem::replace(&mut self.fill, chosen);
        if before != NONE {
            self.put_into_bin(before);
        }
        let offset = self.place_in_fill(size, id, row).unwrap_or_else(|| {
            self.pages[chosen].compact(slots);
            self.place_in_fill(size, id, row).expect("the page has this much free")
        });
        (chosen, offset)
    }

    /// Replaces an image where it lies; false when its record is too small.
    pub(super) fn rewrite(&mut self, page: u32, offset: u16, row: &[u8]) -> bool {
        let content = &mut self.pages[page];
        let (id, capacity) = content.header(offset as usize);
        if row.len() > capacity as usize {
            return false;
        }
        let size = (HEADER + row.len()).max(RECORD_MIN);
        let cut = content.cut(offset as usize, size);
        content.write(offset as usize, id, row);
        if cut {
            self.room_changed(page);
        }
        true
    }

    /// Frees an image's record, and the page if it was the last one.
    pub(super) fn free(&mut self, page: u32, offset: u16) {
        let content = &mut self.pages[page];
        content.free(offset as usize);
        if content.live > 0 || page == self.fill {
            return self.room_changed(page);
        }
        self.take_from_bin(page);
        let content = &mut self.pages[page];
        self.bytes -= content.data.capacity() as u64 + size_of::<Page>() as u64;
        content.data = Vec::new();
        self.pages.release(page);
    }

    /// Panics when a page is inconsistent; returns the number of images.
    pub(super) fn check(&self) -> usize {
        let (mut images, mut pages, mut bytes, mut used) = (0, 0, 0, 0);
        let mut check_page = |page: u32| {
            images += self.pages[page].check();
            pages += 1;
            bytes += self.pages[page].data.capacity() as u64 + size_of::<Page>() as u64;
        };
        if self.fill != NONE {
            check_page(self.fill);
        }
        for (bin, first) in self.bins.iter().enumerate() {
            let (mut at, mut previous) = (*first, NONE);
            while at != NONE {
                let page = &self.pages[at];
                assert_eq!((page.bin as usize, page.previous), (bin, previous), "list of pages");
                assert_eq!(page.room() / BIN_STEP, bin, "bin of page {at}");
                used |= 1 << bin;
                check_page(at);
                (previous, at) = (at, page.next);
            }
        }
        assert_eq!(used, self.bins_used, "bins in use");
        assert_eq!((pages, bytes), (self.pages.len(), self.bytes), "pages and their bytes");
        images
    }

    fn place_in_fill(&mut self, size: usize, id: u32, row: &[u8]) -> Option<u16> {
        let page = &mut self.pages[self.fill];
        if let Some(offset) = page.take_free_record(size) {
            page.write(offset, id, row);
            return Some(offset as u16);
        }
        let offset = page.data.len();
        if offset + size > PAGE {
            return None;
        }
        let capacity = page.data.capacity();
        if offset + size > capacity {
            // Only the first page of a small heap grows.
            let wanted = (offset + size).next_power_of_two().max(1024);
            page.data.reserve_exact(wanted - offset);
            self.bytes += (page.data.capacity() - capacity) as u64;
        }
        page.data.extend_from_slice(&id.to_le_bytes());
        page.data.extend_from_slice(&((size - HEADER) as u16).to_le_bytes());
        page.data.extend_from_slice(row);
        page.data.resize(offset + size, 0);
        page.live += size as u32;
        Some(offset as u16)
    }

    fn add_page(&mut self) -> u32 {
        let capacity = if self.pages.len() == 0 { 0 } else { PAGE };
        let data = Vec::with_capacity(capacity);
        self.bytes += data.capacity() as u64 + size_of::<Page>() as u64;
        let (next, previous) = (NONE, NONE);
        self.pages.add(Page { data, live: 0, dead: NO_RECORD, bin: 0, next, previous })
    }

    /// Moves a page to the bin of its free bytes.
    fn room_changed(&mut self, page: u32) {
        let content = &self.pages[page];
        if page != self.fill && content.room() / BIN_STEP != content.bin as usize {
            self.take_from_bin(page);
            self.put_into_bin(page);
        }
    }

    fn put_into_bin(&mut self, page: u32) {
        let bin = self.pages[page].room() / BIN_STEP;
        let next = std::mem::replace(&mut self.bins[bin], page);
        let content = &mut self.pages[page];
        (content.bin, content.next, content.previous) = (bin as u8, next, NONE);
        if next != NONE {
            self.pages[next].previous = page;
        }
        self.bins_used |= 1 << bin;
    }

    fn take_from_bin(&mut self, page: u32) {
        let content = &mut self.pages[page];
        let (bin, next, previous) = (content.bin as usize, content.next, content.previous);
        content.bin = 0;
        if next != NONE {
            self.pages[next].previous = previous;
        }
        if previous != NONE {
            self.pages[previous].next = next;
            return;
        }
        self.bins[bin] = next;
        if next == NONE {
            self.bins_used &= !(1 << bin);
        }
    }
}

impl Page {
    /// Bytes that images could take after compaction.
    fn room(&self) -> usize {
        PAGE - self.live as usize
    }

    /// Slot and capacity of the record at `at`.
    fn header(&self, at: usize) -> (u32, u16) {
        (u32::from_le_bytes(self.array(at)), u16::from_le_bytes(self.array(at + 4)))
    }

    fn link_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at + HEADER))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.data[at..at + N].try_into().expect("the slice has the array's length")
    }

    /// Fills a record whose capacity is set.
    fn write(&mut self, at: usize, id: u32, row: &[u8]) {
        self.data[at..at + 4].copy_from_slice(&id.to_le_bytes());
        let start = at + HEADER;
        self.data[start..start + row.len()].copy_from_slice(row);
    }

    fn set_capacity(&mut self, at: usize, size: usize) {
        self.data[at + 4..at + HEADER].copy_from_slice(&((size - HEADER) as u16).to_le_bytes());
    }

    /// Takes one of the first free records if it has `size` bytes.
    fn take_free_record(&mut self, size: usize) -> Option<usize> {
        let (mut at, mut before) = (self.dead, NO_RECORD);
        for _ in 0..TRIES {
            if at == NO_RECORD {
                return None;
            }
            let (place, next) = (at as usize, self.link_at(at as usize));
            let own_size = HEADER + self.header(place).1 as usize;
            if own_size >= size {
                if before == NO_RECORD {
                    self.dead = next;
                } else {
                    let link = before as usize + HEADER;
                    self.data[link..link + 2].copy_from_slice(&next.to_le_bytes());
                }
                self.live += own_size as u32;
                self.cut(place, size);
                return Some(place);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Shortens a record to `size` bytes and frees the rest, if that is worth it.
    fn cut(&mut self, at: usize, size: usize) -> bool {
        let own_size = HEADER + self.header(at).1 as usize;
        if own_size < size + SPLIT_MIN {
            return false;
        }
        self.set_capacity(at, size);
        self.set_capacity(at + size, own_size - size);
        self.free(at + size);
        true
    }

    /// Frees a record.
    fn free(&mut self, at: usize) {
        let size = HEADER + self.header(at).1 as usize;
        self.live -= size as u32;
        if self.live == 0 {
            self.data.clear();
            self.dead = NO_RECORD;
        } else if at + size == self.data.len() {
            self.data.truncate(at);
        } else {
            let next = self.dead;
            self.write(at, DEAD, &next.to_le_bytes());
            self.dead = at as u16;
        }
    }

    /// Moves all images to the front, without slack.
    fn compact(&mut self, slots: &mut Slots) {
        let (mut from, mut to) = (0, 0);
        while from < self.data.len() {
            let (id, capacity) = self.header(from);
            if id != DEAD {
                let len = slots.len_in_page(id) as usize;
                let size = (HEADER + len).max(RECORD_MIN);
                if from != to {
                    self.data.copy_within(from..from + HEADER + len, to);
                    slots.moved(id, to as u16);
                }
                self.set_capacity(to, size);
                to += size;
            }
            from += HEADER + capacity as usize;
        }
        self.data.truncate(to);
        self.live = to as u32;
        self.dead = NO_RECORD;
    }

    fn check(&self) -> usize {
        let (mut at, mut live, mut images, mut dead) = (0, 0, 0, 0);
        while at < self.data.len() {
            let (id, capacity) = self.header(at);
            if id == DEAD {
                dead += 1;
            } else {
                images += 1;
                live += HEADER + capacity as usize;
            }
            at += HEADER + capacity as usize;
        }
        assert_eq!((at, live), (self.data.len(), self.live as usize), "records fill the page");
        let mut record = self.dead;
        while record != NO_RECORD {
            assert_eq!(self.header(record as usize).0, DEAD, "list of free records");
            dead -= 1;
            record = self.link_at(record as usize);
        }
        assert_eq!(dead, 0, "free records are listed");
        images
    }
}
