//! Old row images of one partition replica, kept for snapshots.
//!
//! # Owns
//! Images that a retained epoch needs, each with the epochs `[from, to)` in which it was the
//! content of its slot; found by row id, by key hash (a key may have moved to another slot since),
//! and by the entries of ordered indexes that were theirs.
//! # Guarantees
//! Nothing is allocated and nothing looked at while no snapshot is open. Dropping takes bounded
//! steps. Images of a slot never overlap in time.
//! # Not here
//! Which epochs are retained (`datanode::epochs`), the newest images (`heap`).

use std::collections::BTreeMap;
use std::ops::Bound;

use model::key::local_hash;
use model::{ColumnId, Epoch, IndexId, KeyEncoder, RowId, Table};

use crate::ordered_index::OrderedIndex;

/// The old images of a partition; see the module's head.
#[derive(Debug, Default)]
pub struct Versions {
    /// By slot and the epoch that ended the image.
    images: BTreeMap<(RowId, Epoch), Image>,
    /// The same by key hash, end and slot.
    keys: BTreeMap<(u64, Epoch, RowId), ()>,
    /// Old entries of each ordered index: some image of the row has that key.
    entries: Vec<OldEntries>,
    bytes: u64,
    sweep: Sweep,
    encoder: KeyEncoder,
}

#[derive(Debug)]
struct Image {
    from: Epoch,
    hash: u64,
    row: Box<[u8]>,
}

#[derive(Debug)]
struct OldEntries {
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

/// Bytes an image takes besides the row: its places in both maps.
const IMAGE_OVERHEAD: u64 = 128;

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

    /// Bytes of images and their entries; a few bytes an image are estimated.
    pub fn memory_bytes(&self) -> u64 {
        let trees = self.entries.iter().filter_map(|entries| entries.tree.as_ref());
        self.bytes + trees.map(|tree| tree.memory_bytes() as u64).sum::<u64>()
    }

    /// Keeps entries for this ordered index from now on; those of images that are here already
    /// are added by [`Versions::index_slot`].
    pub fn add_index(&mut self, index: IndexId, columns: &[ColumnId]) {
        self.entries.push(OldEntries { index, columns: columns.to_vec(), tree: None });
    }

    /// Drops the entries of an ordered index.
    pub fn remove_index(&mut self, index: IndexId) {
        self.entries.retain(|entries| entries.index != index);
    }

    /// Adds the entries of a slot's images to an ordered index that is being built.
    pub fn index_slot(&mut self, table: &Table, index: IndexId, row_id: RowId) {
        let Self { images, entries, encoder, .. } = self;
        let entries = entries.iter_mut().find(|entries| entries.index == index);
        let entries = entries.expect("an index being built keeps old entries");
        for (_, image) in images.range((row_id, Epoch(0))..=(row_id, Epoch(u64::MAX))) {
            entries.add(table, row_id, &image.row, encoder);
        }
    }

    /// Keeps the image if one of the `retained` epochs needs it.
    #[inline]
    pub fn keep(&mut self, table: &Table, old: OldImage<'_>, retained: &[Epoch]) {
        if needed(old.from, old.to, retained) {
            self.add(table, old);
            if self.sweep.retained.as_deref() != Some(retained) {
                self.sweep.retained = None;
            }
        }
    }

    fn add(&mut self, table: &Table, old: OldImage<'_>) {
        self.encoder.clear();
        table.encode_row_key(&table.primary_key, old.row, &mut self.encoder);
        let hash = local_hash(self.encoder.bytes());
        for entries in &mut self.entries {
            entries.add(table, old.row_id, old.row, &mut self.encoder);
        }
        let image = Image { from: old.from, hash, row: old.row.into() };
        let before = self.images.insert((old.row_id, old.to), image);
        assert!(before.is_none(), "{}: two images end with {}", old.row_id, old.to);
        self.keys.insert((hash, old.to, old.row_id), ());
        self.bytes += old.row.len() as u64 + IMAGE_OVERHEAD;
    }

    /// The image the slot had at `snapshot`, if its newest one is newer and it had one.
    pub fn row_at(&self, row_id: RowId, snapshot: Epoch) -> Option<&[u8]> {
        let from = Bound::Excluded((row_id, snapshot));
        let to = Bound::Included((row_id, Epoch(u64::MAX)));
        let (_, image) = self.images.range((from, to)).next()?;
        (image.from <= snapshot).then_some(&*image.row)
    }

    /// The image that had the primary key at `snapshot`.
    pub fn read_at(&self, table: &Table, key: &[u8], hash: u64, snapshot: Epoch) -> Option<&[u8]> {
        let from = (hash, snapshot.next(), RowId(0));
        let to = (hash, Epoch(u64::MAX), RowId(u32::MAX));
        for (_, ended, row_id) in self.keys.range(from..=to).map(|(place, ())| place) {
            let image = &self.images[&(*row_id, *ended)];
            if image.from <= snapshot && table.row_has_key(&table.primary_key, &image.row, key) {
                return Some(&image.row);
            }
        }
        None
    }

    /// The first slot after `after`, or at all, of which an image is kept.
    pub fn next_slot(&self, after: Option<RowId>) -> Option<RowId> {
        let from = match after {
            None => Bound::Unbounded,
            Some(row_id) => Bound::Excluded((row_id, Epoch(u64::MAX))),
        };
        self.images.range((from, Bound::Unbounded)).next().map(|((row_id, _), _)| *row_id)
    }

    /// Old entries of an ordered index: some image of the row has that key, not necessarily the
    /// one of the snapshot that is read. None while there are no entries.
    pub fn entries(&self, index: IndexId) -> Option<&OrderedIndex> {
        self.entries.iter().find(|entries| entries.index == index)?.tree.as_ref()
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

    fn remove(&mut self, table: &Table, place: (RowId, Epoch)) {
        let image = self.images.remove(&place).expect("the image was listed");
        self.keys.remove(&(image.hash, place.1, place.0));
        self.bytes -= image.row.len() as u64 + IMAGE_OVERHEAD;
        let Self { images, entries, encoder, .. } = self;
        let slot = (place.0, Epoch(0))..=(place.0, Epoch(u64::MAX));
        for entries in entries {
            let Some(tree) = &mut entries.tree else { continue };
            encoder.clear();
            table.encode_row_key(&entries.columns, &image.row, encoder);
            let key = encoder.bytes();
            let has_key = |other: &Image| table.row_has_key(&entries.columns, &other.row, key);
            if images.range(slot.clone()).any(|(_, other)| has_key(other)) {
                continue;
            }
            // An index that is being built does not have all entries yet.
            tree.remove(key, place.0);
            if tree.is_empty() {
                entries.tree = None;
            }
        }
    }

    /// Forgets all images.
    pub fn clear(&mut self) {
        self.images.clear();
        self.keys.clear();
        self.entries.iter_mut().for_each(|entries| entries.tree = None);
        self.bytes = 0;
        self.sweep = Sweep::default();
    }

    /// Panics when maps, entries and bytes disagree. `is_built` says whether an index has the
    /// entries of all images.
    pub fn check(&self, table: &Table, is_built: impl Fn(IndexId) -> bool) {
        let mut bytes = 0;
        let mut last: Option<(RowId, Epoch)> = None;
        for ((row_id, to), image) in &self.images {
            assert!(image.from < *to, "{row_id}: image from {} to {to}", image.from);
            if let Some((before, ended)) = last {
                assert!(before != *row_id || ended <= image.from, "{row_id}: images overlap");
            }
            last = Some((*row_id, *to));
            bytes += image.row.len() as u64 + IMAGE_OVERHEAD;
            assert!(self.keys.contains_key(&(image.hash, *to, *row_id)), "{row_id}: by key");
            for entries in self.entries.iter().filter(|entries| is_built(entries.index)) {
                let key = table.key_of_row(&entries.columns, &image.row);
                let tree = entries.tree.as_ref();
                let found = tree.is_some_and(|tree| tree.contains(key.bytes(), *row_id));
                assert!(found, "{row_id}: old entry of {}", entries.index);
            }
        }
        assert_eq!(self.keys.len(), self.images.len(), "images by key");
        assert_eq!(bytes, self.bytes, "bytes of images");
        for entries in &self.entries {
            let Some(tree) = &entries.tree else { continue };
            tree.check();
            assert!(!tree.is_empty() && tree.len() <= self.images.len(), "old entries");
        }
    }
}

impl OldEntries {
    fn add(&mut self, table: &Table, row_id: RowId, row: &[u8], encoder: &mut KeyEncoder) {
        encoder.clear();
        table.encode_row_key(&self.columns, row, encoder);
        self.tree.get_or_insert_default().insert(encoder.bytes(), row_id);
    }
}

/// Whether one of the `retained` epochs lies in `[from, to)`.
#[inline]
fn needed(from: Epoch, to: Epoch, retained: &[Epoch]) -> bool {
    retained.iter().any(|epoch| from <= *epoch && *epoch < to)
}
