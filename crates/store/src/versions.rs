//! Old row images of one partition replica, kept for snapshots.
//!
//! # Owns
//! Images that a retained epoch needs, each with the epochs `[from, to)` in which it was the
//! content of its slot. What indexes of the newest rows do not lead to any more: slots by the hash
//! of a key they had, and old entries of ordered indexes. So an update that changes no key keeps
//! an image and nothing else.
//! # Guarantees
//! Nothing is allocated and nothing looked at while no snapshot is open. Dropping takes bounded
//! steps. Images of a slot never overlap in time.
//! # Not here
//! Which epochs are retained (`datanode::epochs`), the newest images (`heap`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use model::key::local_hash;
use model::{ColumnId, Epoch, IndexId, KeyEncoder, RowId, Table};

use crate::ordered_index::OrderedIndex;

/// The old images of a partition; see the module's head.
#[derive(Debug, Default)]
pub struct Versions {
    /// By slot and the epoch that ended the image.
    images: BTreeMap<(RowId, Epoch), Image>,
    /// Slots with an image of a key they do not hold any more, by the key's hash.
    former_slots: BTreeSet<(u64, RowId)>,
    /// Entries of each ordered index that rows have lost, while an image has the key.
    former_entries: Vec<FormerEntries>,
    bytes: u64,
    sweep: Sweep,
    encoder: KeyEncoder,
}

#[derive(Debug)]
struct Image {
    from: Epoch,
    row: Box<[u8]>,
}

#[derive(Debug)]
struct FormerEntries {
    index: IndexId,
    columns: Vec<ColumnId>,
    /// Absent while there are none.
    tree: Option<OrderedIndex>,
}

/// Progress of looking through all images for some that are not needed any more.
#[derive(Debug, Default)]
struct Sweep {
    /// The epochs that the last pass was for, if the images kept since were kept for the same.
    retained: Option<Vec<Epoch>>,
    /// A pass must begin.
    due: bool,
    /// The last image looked at in the pass under way.
    at: Option<(RowId, Epoch)>,
}

/// Bytes an image takes besides the row.
const IMAGE_OVERHEAD: u64 = 80;
/// Bytes a former slot takes.
const FORMER_SLOT_SIZE: u64 = 32;

/// An image about to be replaced or deleted.
#[derive(Clone, Copy, Debug)]
pub struct OldImage<'a> {
    /// Its slot.
    pub row_id: RowId,
    /// The epoch that wrote it.
    pub from: Epoch,
    /// The epoch that ends it.
    pub to: Epoch,
    /// The encoded row.
    pub row: &'a [u8],
}

impl Versions {
    /// No images, and no indexes to keep entries of.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no image is kept.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// Images kept.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Bytes of images and former entries; a few bytes an image are estimated.
    pub fn memory_bytes(&self) -> u64 {
        let trees = self.former_entries.iter().filter_map(|entries| entries.tree.as_ref());
        self.bytes
            + self.former_slots.len() as u64 * FORMER_SLOT_SIZE
            + trees.map(|tree| tree.memory_bytes() as u64).sum::<u64>()
    }

    /// Takes former entries of this ordered index from now on; those of images that are here
    /// already are added by [`Versions::index_slot`].
    pub fn add_index(&mut self, index: IndexId, columns: &[ColumnId]) {
        self.former_entries.push(FormerEntries { index, columns: columns.to_vec(), tree: None });
    }

    /// Drops the former entries of an ordered index.
    pub fn remove_index(&mut self, index: IndexId) {
        self.former_entries.retain(|entries| entries.index != index);
    }

    /// Adds the entries of all images of a slot to an ordered index that is being built.
    pub fn index_slot(&mut self, table: &Table, index: IndexId, row_id: RowId) {
        let Self { images, former_entries, encoder, .. } = self;
        let entries = former_entries.iter_mut().find(|entries| entries.index == index);
        let entries = entries.expect("an index being built takes former entries");
        for (_, image) in images.range((row_id, Epoch(0))..=(row_id, Epoch(u64::MAX))) {
            encoder.clear();
            table.encode_row_key(&entries.columns, &image.row, encoder);
            entries.add(encoder.bytes(), row_id);
        }
    }

    /// Keeps the image if one of the `retained` epochs needs it.
    #[inline]
    pub fn keep(&mut self, old: OldImage<'_>, retained: &[Epoch]) {
        if !needed(old.from, old.to, retained) {
            return;
        }
        let image = Image { from: old.from, row: old.row.into() };
        let before = self.images.insert((old.row_id, old.to), image);
        assert!(before.is_none(), "{}: two images end with {}", old.row_id, old.to);
        self.bytes += old.row.len() as u64 + IMAGE_OVERHEAD;
        if self.sweep.retained.as_deref() != Some(retained) {
            self.sweep.retained = None;
        }
    }

    /// The slot loses the row with this primary key; `hash` is the key's.
    #[inline]
    pub fn lose_row(&mut self, table: &Table, key: &[u8], hash: u64, row_id: RowId) {
        if !self.images.is_empty() && self.has_key(table, &table.primary_key, key, row_id) {
            self.former_slots.insert((hash, row_id));
        }
    }

    /// The row in the slot loses this entry of an ordered index.
    #[inline]
    pub fn lose_entry(&mut self, table: &Table, index: IndexId, key: &[u8], row_id: RowId) {
        if self.images.is_empty() {
            return;
        }
        let at = self.former_entries.iter().position(|entries| entries.index == index);
        let at = at.expect("the partition has the index");
        if self.has_key(table, &self.former_entries[at].columns, key, row_id) {
            self.former_entries[at].add(key, row_id);
        }
    }

    /// Whether an image of the slot has this key.
    fn has_key(&self, table: &Table, columns: &[ColumnId], key: &[u8], row_id: RowId) -> bool {
        let mut images = self.images.range((row_id, Epoch(0))..=(row_id, Epoch(u64::MAX)));
        images.any(|(_, image)| table.row_has_key(columns, &image.row, key))
    }

    /// The image the slot had at `snapshot`, if its newest one is newer and it had one.
    pub fn row_at(&self, row_id: RowId, snapshot: Epoch) -> Option<&[u8]> {
        let from = Bound::Excluded((row_id, snapshot));
        let to = Bound::Included((row_id, Epoch(u64::MAX)));
        let (_, image) = self.images.range((from, to)).next()?;
        (image.from <= snapshot).then_some(&*image.row)
    }

    /// Slots that may have held the row with this key hash at some time.
    pub fn former_slots(&self, hash: u64) -> impl Iterator<Item = RowId> + '_ {
        let slots = (hash, RowId(0))..=(hash, RowId(u32::MAX));
        self.former_slots.range(slots).map(|(_, row_id)| *row_id)
    }

    /// The first slot after `after`, or at all, of which an image is kept.
    pub fn next_slot(&self, after: Option<RowId>) -> Option<RowId> {
        let from = match after {
            None => Bound::Unbounded,
            Some(row_id) => Bound::Excluded((row_id, Epoch(u64::MAX))),
        };
        self.images.range((from, Bound::Unbounded)).next().map(|((row_id, _), _)| *row_id)
    }

    /// Former entries of an ordered index: some image of the row has that key, not necessarily the
    /// one of the snapshot that is read. None while there are no entries.
    pub fn former_entries(&self, index: IndexId) -> Option<&OrderedIndex> {
        self.former_entries.iter().find(|entries| entries.index == index)?.tree.as_ref()
    }

    /// Looks through up to `limit` images and drops those that no retained epoch needs. Returns
    /// true when all have been looked at for these epochs, or later ones.
    pub fn drop_unneeded(&mut self, table: &Table, retained: &[Epoch], limit: usize) -> bool {
        if self.sweep.retained.as_deref() != Some(retained) {
            self.sweep.retained = Some(retained.to_vec());
            self.sweep.due = true;
        }
        self.continue_sweep(table, retained, limit)
    }

    /// Goes on with a sweep under way, if any.
    #[inline]
    pub fn continue_sweep(&mut self, table: &Table, retained: &[Epoch], limit: usize) -> bool {
        if self.sweep.at.is_none() && !self.sweep.due {
            return true;
        }
        self.sweep_step(table, retained, limit)
    }

    fn sweep_step(&mut self, table: &Table, retained: &[Epoch], limit: usize) -> bool {
        let from = match self.sweep.at {
            None => {
                self.sweep.due = false;
                Bound::Unbounded
            }
            Some(at) => Bound::Excluded(at),
        };
        let mut unneeded = Vec::new();
        let (mut seen, mut last) = (0, None);
        for (place, image) in self.images.range((from, Bound::Unbounded)).take(limit) {
            (seen, last) = (seen + 1, Some(*place));
            if !needed(image.from, place.1, retained) {
                unneeded.push(*place);
            }
        }
        self.sweep.at = if seen == limit { last } else { None };
        for place in unneeded {
            self.remove(table, place);
        }
        self.sweep.at.is_none() && !self.sweep.due
    }

    /// Removes an image, and the ways to it that lead to no other.
    fn remove(&mut self, table: &Table, place: (RowId, Epoch)) {
        let row_id = place.0;
        let image = self.images.remove(&place).expect("the image was listed");
        self.bytes -= image.row.len() as u64 + IMAGE_OVERHEAD;
        let mut encoder = std::mem::take(&mut self.encoder);
        if !self.former_slots.is_empty() {
            encoder.clear();
            table.encode_row_key(&table.primary_key, &image.row, &mut encoder);
            if !self.has_key(table, &table.primary_key, encoder.bytes(), row_id) {
                self.former_slots.remove(&(local_hash(encoder.bytes()), row_id));
            }
        }
        for at in 0..self.former_entries.len() {
            let FormerEntries { columns, tree: Some(_), .. } = &self.former_entries[at] else {
                continue;
            };
            encoder.clear();
            table.encode_row_key(columns, &image.row, &mut encoder);
            if !self.has_key(table, columns, encoder.bytes(), row_id) {
                self.former_entries[at].remove(encoder.bytes(), row_id);
            }
        }
        self.encoder = encoder;
    }

    /// Forgets all images.
    pub fn clear(&mut self) {
        self.images.clear();
        self.former_slots.clear();
        self.former_entries.iter_mut().for_each(|entries| entries.tree = None);
        self.bytes = 0;
        self.sweep = Sweep::default();
    }

    /// Panics when images, ways to them and bytes disagree. `newest` gives the row in a slot now;
    /// `is_built` says whether an index leads to all images.
    pub fn check<'a>(
        &self,
        table: &Table,
        newest: impl Fn(RowId) -> Option<&'a [u8]>,
        is_built: impl Fn(IndexId) -> bool,
    ) {
        let mut bytes = 0;
        let mut last: Option<(RowId, Epoch)> = None;
        for ((row_id, to), image) in &self.images {
            assert!(image.from < *to, "{row_id}: image from {} to {to}", image.from);
            if let Some((before, ended)) = last {
                assert!(before != *row_id || ended <= image.from, "{row_id}: images overlap");
            }
            last = Some((*row_id, *to));
            bytes += image.row.len() as u64 + IMAGE_OVERHEAD;
            let holds = |columns: &[ColumnId], key: &[u8]| {
                newest(*row_id).is_some_and(|row| table.row_has_key(columns, row, key))
            };
            let key = table.key_of_row(&table.primary_key, &image.row);
            let found = self.former_slots.contains(&(key.local_hash(), *row_id));
            assert!(found || holds(&table.primary_key, key.bytes()), "{row_id}: way by key");
            for entries in self.former_entries.iter().filter(|entries| is_built(entries.index)) {
                let key = table.key_of_row(&entries.columns, &image.row);
                let tree = entries.tree.as_ref();
                let found = tree.is_some_and(|tree| tree.contains(key.bytes(), *row_id));
                let found = found || holds(&entries.columns, key.bytes());
                assert!(found, "{row_id}: way by {}", entries.index);
            }
        }
        assert_eq!(bytes, self.bytes, "bytes of images");
        assert!(self.former_slots.len() <= self.images.len(), "former slots");
        for entries in &self.former_entries {
            let Some(tree) = &entries.tree else { continue };
            tree.check();
            assert!(!tree.is_empty() && tree.len() <= self.images.len(), "former entries");
        }
    }
}

impl FormerEntries {
    fn add(&mut self, key: &[u8], row_id: RowId) {
        self.tree.get_or_insert_default().insert(key, row_id);
    }

    /// Removes the entry if it is there.
    fn remove(&mut self, key: &[u8], row_id: RowId) {
        if let Some(tree) = &mut self.tree {
            tree.remove(key, row_id);
            if tree.is_empty() {
                self.tree = None;
            }
        }
    }
}

/// Whether one of the `retained` epochs lies in `[from, to)`.
#[inline]
fn needed(from: Epoch, to: Epoch, retained: &[Epoch]) -> bool {
    retained.iter().any(|epoch| from <= *epoch && *epoch < to)
}
