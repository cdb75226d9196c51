//! Row heap of one partition replica: a directory of slots with stable row ids, and the row images
//! in pages.
//!
//! NDB calls this DBTUP.
//!
//! # Owns
//! Per slot: what it holds and the epoch of its last change, which an empty slot keeps too. Slots
//! that are free are found again at once; a reserved slot is empty and not free.
//! # Guarantees
//! A row keeps its id while its image moves. An operation compacts at most one page of 64 KiB and
//! fills in at most one chunk of 4096 slots; growing copies no rows and no slots. A slot takes 16
//! bytes and an image 6 more than its length; pages of equal rows are filled to 90 % or more.
//! # Not here
//! What rows mean, indexes, old images, locks.

use model::schema::ROW_SIZE_MAX;
use model::{Epoch, RowId};

use crate::arena::Arena;

mod pages;
mod slots;

use pages::{IN_PAGE_MAX, Pages};
use slots::{Content, Slots};

/// Rows by row id; see the module's head.
#[doc(alias = "DBTUP")]
pub struct Heap {
    slots: Slots,
    pages: Pages,
    /// Images too long to share a page well.
    large: Arena<Box<[u8]>, 256>,
    large_bytes: u64,
}

/// Most slots a heap has; the last row id is left for index structures to mean "none".
pub const SLOTS_MAX: u32 = u32::MAX - 1;

/// What an allocation of its own takes besides the image.
const LARGE_OVERHEAD: u64 = 16 + size_of::<Box<[u8]>>() as u64;

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Heap {
    /// An empty heap; allocates nothing.
    pub fn new() -> Self {
        Self { slots: Slots::new(), pages: Pages::new(), large: Arena::new(), large_bytes: 0 }
    }

    /// Gives the memory of so many pages, long images and chunks of slots back; how many are left
    /// of that number when there are no more. The heap is of no use any more.
    pub(crate) fn shed(&mut self, count: u32) -> u32 {
        match self.pages.shed(count) {
            0 => 0,
            left => match self.large.shed(left) {
                0 => 0,
                left => self.slots.shed(left),
            },
        }
    }

    /// Slots, used or not: all row ids are below.
    pub fn slot_count(&self) -> u32 {
        self.slots.count()
    }

    /// Slots that hold a row.
    pub fn row_count(&self) -> u64 {
        self.slots.rows()
    }

    /// The row in the slot; none when it is empty or does not exist.
    #[inline]
    pub fn row(&self, id: RowId) -> Option<&[u8]> {
        self.image(self.slots.get(id.0).content())
    }

    #[inline]
    fn image(&self, content: Content) -> Option<&[u8]> {
        match content {
            Content::Paged { page, offset, len } => Some(self.pages.row(page, offset, len)),
            Content::Large(large) => Some(&self.large[large]),
            Content::Empty => None,
        }
    }

    /// Epoch of the slot's last change; zero when it was never used or does not exist.
    #[inline]
    pub fn epoch(&self, id: RowId) -> Epoch {
        self.slots.get(id.0).epoch()
    }

    /// Whether the slot is set aside for a row to come.
    pub fn is_reserved(&self, id: RowId) -> bool {
        self.slots.get(id.0).is_reserved()
    }

    /// Reserves a free slot, the one freed last or else a new one. Panics at [`SLOTS_MAX`] slots.
    pub fn allocate(&mut self) -> RowId {
        RowId(self.slots.allocate())
    }

    /// Reserves a slot that is free, adding slots up to it. One that holds a row stays as it is;
    /// so does one that is reserved.
    pub fn reserve(&mut self, id: RowId) {
        self.slots.extend_to(id.0);
        let slot = self.slots.get(id.0);
        if slot.is_empty() {
            self.slots.set_empty(id.0, slot.epoch(), true);
        }
    }

    /// Gives a reserved slot back; one that holds a row keeps the row.
    pub fn release(&mut self, id: RowId) {
        let slot = self.slots.get(id.0);
        assert!(slot.is_reserved() || !slot.is_empty(), "{id} is free already");
        if slot.is_empty() {
            self.slots.set_empty(id.0, slot.epoch(), false);
        } else {
            self.slots.set_reserved(id.0, false);
        }
    }

    /// Puts `row` into the slot, whatever it held, adding slots up to it. `reserved` says whether
    /// the slot stays set aside when the row goes. `row` has 1 to [`ROW_SIZE_MAX`] bytes.
    pub fn write(&mut self, id: RowId, row: &[u8], epoch: Epoch, reserved: bool) {
        assert!(!row.is_empty() && row.len() <= ROW_SIZE_MAX, "{id}: row of {} bytes", row.len());
        self.slots.extend_to(id.0);
        let content = match self.slots.get(id.0).content() {
            Content::Paged { page, offset, .. }
                if row.len() <= IN_PAGE_MAX && self.pages.rewrite(page, offset, row) =>
            {
                Content::Paged { page, offset, len: row.len() as u16 }
            }
            before => {
                self.free_image(before);
                self.place_image(id, row)
            }
        };
        self.slots.set_row(id.0, content, epoch, reserved);
    }

    /// Empties the slot, adding slots up to it. `reserved` says whether it is free from now on.
    pub fn erase(&mut self, id: RowId, epoch: Epoch, reserved: bool) {
        self.slots.extend_to(id.0);
        self.free_image(self.slots.get(id.0).content());
        self.slots.set_empty(id.0, epoch, reserved);
    }

    /// The first slot after `after`, or at all, that holds a row. Skips empty chunks of slots.
    #[inline]
    pub fn next_row(&self, after: Option<RowId>) -> Option<RowId> {
        self.slots.next_row(after.map_or(0, |id| id.0 + 1)).map(RowId)
    }

    /// Adds the rows of the slots after `after`, or from the first, and before `before`, that were
    /// written in an epoch up to `newest`: so many at most. The last of these slots.
    pub fn next_rows<'a>(
        &'a self,
        after: Option<RowId>,
        before: Option<RowId>,
        newest: Epoch,
        most: usize,
        out: &mut Vec<&'a [u8]>,
    ) -> Option<RowId> {
        let range = after.map_or(0, |id| id.0 + 1)..before.map_or(u32::MAX, |id| id.0);
        let mut last = None;
        self.slots.next_rows(range, newest, most, |id, slot| {
            last = Some(RowId(id));
            out.extend(self.image(slot.content()));
        });
        last
    }

    /// All slots that hold a row or did once, in order, with the epoch of their last change.
    pub fn used_slots(&self) -> impl Iterator<Item = (RowId, Epoch, Option<&[u8]>)> + '_ {
        self.used_slots_from(RowId(0))
    }

    /// The same, from a slot on.
    pub fn used_slots_from(
        &self,
        first: RowId,
    ) -> impl Iterator<Item = (RowId, Epoch, Option<&[u8]>)> + '_ {
        let slots = self.slots.iter_from(first.0);
        slots.filter(|(_, slot)| slot.epoch() > Epoch(0) || !slot.is_empty()).map(|(id, slot)| {
            let id = RowId(id);
            (id, slot.epoch(), self.row(id))
        })
    }

    /// Drops free slots at the end until `count` are left or the last one is not free.
    pub fn truncate(&mut self, count: u32) {
        self.slots.truncate(count);
    }

    /// Bytes allocated: slots, pages (as a whole) and long rows.
    pub fn memory_bytes(&self) -> u64 {
        let large = self.large.len() as u64 * LARGE_OVERHEAD + self.large_bytes;
        size_of::<Self>() as u64 + self.slots.memory_bytes() + self.pages.memory_bytes() + large
    }

    /// Panics when slots, free slots, pages and images disagree. Reads the whole heap.
    pub fn check(&self) {
        self.slots.check();
        let (mut paged, mut large, mut large_bytes) = (0, 0, 0);
        for (id, slot) in self.slots.iter() {
            match slot.content() {
                Content::Paged { page, offset, .. } => {
                    paged += 1;
                    assert_eq!(self.pages.slot_at(page, offset), id, "slot of the image");
                }
                Content::Large(at) => {
                    large += 1;
                    large_bytes += self.large[at].len() as u64;
                }
                Content::Empty => {}
            }
        }
        assert_eq!((large, large_bytes), (self.large.len(), self.large_bytes), "long rows");
        assert_eq!(self.pages.check(), paged, "images in pages");
    }

    fn free_image(&mut self, content: Content) {
        match content {
            Content::Empty => {}
            Content::Paged { page, offset, .. } => self.pages.free(page, offset),
            Content::Large(at) => {
                let row = std::mem::take(&mut self.large[at]);
                self.large_bytes -= row.len() as u64;
                self.large.release(at);
            }
        }
    }

    fn place_image(&mut self, id: RowId, row: &[u8]) -> Content {
        if row.len() > IN_PAGE_MAX {
            self.large_bytes += row.len() as u64;
            return Content::Large(self.large.add(row.into()));
        }
        let (page, offset) = self.pages.place(&mut self.slots, id.0, row);
        Content::Paged { page, offset, len: row.len() as u16 }
    }
}

#[cfg(test)]
mod tests;
