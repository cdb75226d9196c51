//! One replica of one partition: committed rows with their indexes and old images.
//!
//! # Owns
//! The heap, the primary-key hash index, the ordered indexes and the old images, and keeps them
//! consistent with each other: every change of a row goes through `put`, `delete` or `apply_copy`.
//! A replica that is read back (`restore`) has rows first and indexes afterwards.
//! # Guarantees
//! Replicas that were given the same changes have the same digest, in whichever order changes of
//! different rows came. Each operation does a bounded amount of work (see `heap`, `hash_index`,
//! `ordered_index`), except where said otherwise.
//! # Not here
//! Locks, open transactions, staged changes (`datanode::participant`); checks of what clients send:
//! rows handed in are well formed.

use std::fmt;
use std::sync::Arc;

use model::key::local_hash;
use model::{ColumnId, Epoch, IndexId, KeyEncoder, PartitionId, RowId, Table};

use crate::hash_index::HashIndex;
use crate::heap::Heap;
use crate::ordered_index::{BulkBuild, Direction, KeyRange, OrderedIndex, Scan};
use crate::remains::Remains;
use crate::versions::{OldImage, Versions};

mod check;
mod copy;
mod restore;
mod snapshot;

pub use snapshot::{SnapshotIndexScan, SnapshotTooOld};

/// A partition replica; see the module's head.
#[doc(alias = "fragment replica")]
pub struct Partition {
    id: PartitionId,
    table: Arc<Table>,
    heap: Heap,
    primary: HashIndex,
    /// Rows are being read back: the first slot whose row was not given to the indexes.
    restoring: Option<u32>,
    indexes: Vec<Index>,
    versions: Versions,
    snapshot_floor: Epoch,
    /// Memory for encoding keys, used again.
    key: KeyEncoder,
    other_key: KeyEncoder,
}

/// A scan of an ordered index: `next()` gives the key and the row id of each entry.
pub type IndexScan<'a> = Scan<'a>;

/// An ordered index of the partition.
struct Index {
    id: IndexId,
    columns: Vec<ColumnId>,
    tree: OrderedIndex,
    /// None when it is complete.
    building: Option<Building>,
}

/// How far the build of an index has come.
enum Building {
    /// Entry by entry, while rows change: the rows of all slots below have theirs.
    Entries(u32),
    /// At once, of rows that are read back; nothing is gathered before the first of them comes.
    Bulk(Option<Box<BulkBuild>>),
}

/// Images that a put or a delete looks at when a sweep is under way.
const SWEEP_PER_CHANGE: usize = 8;
/// Images that one call of `drop_versions` looks at.
const SWEEP_PER_CALL: usize = 1024;

impl Index {
    fn new(id: IndexId, columns: &[ColumnId], building: Option<Building>) -> Self {
        Self { id, columns: columns.to_vec(), tree: OrderedIndex::new(), building }
    }

    /// Whether the rows of this slot have their entry.
    fn covers(&self, row_id: RowId) -> bool {
        match self.building {
            None => true,
            Some(Building::Entries(next)) => row_id.0 < next,
            Some(Building::Bulk(_)) => false,
        }
    }

    /// The row of this slot changes: says whether its entry is to follow. What was gathered of rows
    /// that were read back is not true any more, so the build begins again, entry by entry.
    #[inline]
    fn follows(&mut self, row_id: RowId) -> bool {
        if matches!(self.building, Some(Building::Bulk(_))) {
            self.building = Some(Building::Entries(0));
        }
        self.covers(row_id)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({}, {} rows)", self.id, self.row_count())
    }
}

impl Partition {
    /// An empty replica; its ordered indexes are ready.
    pub fn new(id: PartitionId, table: Arc<Table>) -> Self {
        assert_eq!(id.table, table.id, "{id} of another table");
        let mut partition = Self {
            id,
            table: table.clone(),
            heap: Heap::new(),
            primary: HashIndex::new(),
            restoring: None,
            indexes: Vec::new(),
            versions: Versions::new(),
            snapshot_floor: Epoch(0),
            key: KeyEncoder::new(),
            other_key: KeyEncoder::new(),
        };
        for index in &table.ordered_indexes {
            partition.indexes.push(Index::new(index.id, &index.columns, None));
            partition.versions.add_index(index.id, &index.columns);
        }
        partition
    }

    /// Which partition this is a replica of.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// The table's definition that the replica follows.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What is left of the replica that is dropped.
    pub fn into_remains(self) -> Remains {
        let trees = self.indexes.into_iter().map(|index| index.tree).collect();
        Remains::of(self.heap, self.primary, trees)
    }

    /// Follows a newer definition: drops ordered indexes it does not have any more, which are
    /// returned, and adds new ones, which are not ready. Rows stay as they are.
    #[must_use = "freeing the indexes that are dropped takes time"]
    pub fn set_table(&mut self, table: Arc<Table>) -> Remains {
        assert_eq!(self.id.table, table.id, "{}: definition of another table", self.id);
        assert_eq!(self.table.primary_key, table.primary_key, "{}: another key", self.id);
        let Self { indexes, versions, .. } = self;
        let mut remains = Remains::default();
        let is_dropped = |index: &mut Index| table.ordered_index(index.id).is_none();
        for index in indexes.extract_if(.., is_dropped) {
            versions.remove_index(index.id);
            remains.add_tree(index.tree);
        }
        for index in &table.ordered_indexes {
            if indexes.iter().all(|known| known.id != index.id) {
                // Nothing to build in a partition that was never used.
                let building = match self.restoring {
                    Some(0) => Some(Building::Bulk(None)),
                    _ => (self.heap.slot_count() > 0).then_some(Building::Entries(0)),
                };
                indexes.push(Index::new(index.id, &index.columns, building));
                versions.add_index(index.id, &index.columns);
            }
        }
        self.table = table;
        remains
    }

    /// Goes on building indexes that are not ready, over `rows` slots or entries at most. Returns
    /// true when all are ready. Rows may change between calls, unless they are being read back.
    pub fn build_indexes(&mut self, rows: u32) -> bool {
        let mut left = rows;
        if !self.index_restored(&mut left) {
            return false;
        }
        for at in 0..self.indexes.len() {
            let built = match self.indexes[at].building {
                None => true,
                Some(Building::Entries(_)) => self.build_by_entries(at, &mut left),
                Some(Building::Bulk(_)) => self.build_in_bulk(at, &mut left),
            };
            if !built {
                return false;
            }
        }
        true
    }

    /// Whether an index is not ready.
    pub fn needs_indexes(&self) -> bool {
        self.restoring.is_some() || self.indexes.iter().any(|index| index.building.is_some())
    }

    /// How many slots and entries the builds of all indexes take, once rows are read back, and how
    /// many of these are left.
    pub fn index_work(&self) -> (u64, u64) {
        let slots = u64::from(self.heap.slot_count());
        let total = slots * (1 + self.indexes.len() as u64);
        if let Some(next) = self.restoring {
            return (total, total - u64::from(next));
        }
        let left = self.indexes.iter().map(|index| match &index.building {
            None => 0,
            Some(Building::Entries(next)) => slots.saturating_sub(u64::from(*next)),
            Some(Building::Bulk(bulk)) => bulk.as_ref().map_or(0, |bulk| bulk.left() as u64),
        });
        (total, left.sum())
    }

    /// The ordered indexes that are not ready, with the slots of the replica and how many of those
    /// are not in the index yet. All slots are left while rows are read back.
    pub fn index_builds(&self) -> impl Iterator<Item = (IndexId, u64, u64)> {
        let slots = u64::from(self.heap.slot_count());
        self.indexes.iter().filter_map(move |index| {
            let left = match index.building.as_ref()? {
                Building::Entries(next) => slots.saturating_sub(u64::from(*next)),
                Building::Bulk(_) => slots,
            };
            Some((index.id, slots, left))
        })
    }

    /// Inserts the entries of rows into the tree, slot by slot.
    fn build_by_entries(&mut self, at: usize, left: &mut u32) -> bool {
        let Self { table, heap, indexes, versions, key, .. } = self;
        let index = &mut indexes[at];
        let Some(Building::Entries(next)) = &mut index.building else { return true };
        while *next < heap.slot_count() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let row_id = RowId(*next);
            if let Some(row) = heap.row(row_id) {
                encode(table, &index.columns, row, key);
                let added = index.tree.insert(key.bytes(), row_id);
                assert!(added, "{row_id} is in {} before its turn", index.id);
            }
            if !versions.is_empty() {
                versions.index_slot(table, index.id, row_id);
            }
            *next += 1;
        }
        index.building = None;
        true
    }

    /// Whether scans may use the ordered index; false when there is none of this identity.
    pub fn index_ready(&self, index: IndexId) -> bool {
        self.indexes.iter().any(|known| known.id == index && known.building.is_none())
    }

    /// The committed row with this primary key. `hash` is `model::key::local_hash` of the key.
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64) -> Option<RowId> {
        self.primary.find(hash, |row_id| {
            let row = self.heap.row(row_id).expect("an indexed row is there");
            self.table.row_has_key(&self.table.primary_key, row, key)
        })
    }

    /// The committed row in the slot; none when it is empty or does not exist.
    #[inline]
    pub fn row(&self, row_id: RowId) -> Option<&[u8]> {
        self.heap.row(row_id)
    }

    /// Epoch of the slot's last change, kept by an empty slot too; zero when it was never used.
    pub fn slot_epoch(&self, row_id: RowId) -> Epoch {
        self.heap.epoch(row_id)
    }

    /// Slots, used or not: all row ids are below.
    pub fn slot_count(&self) -> u32 {
        self.heap.slot_count()
    }

    /// Committed rows.
    pub fn row_count(&self) -> u64 {
        self.heap.row_count()
    }

    /// Picks a free slot for a row to come and reserves it. For primaries.
    pub fn allocate(&mut self) -> RowId {
        self.heap.allocate()
    }

    /// Reserves the slot that the primary has picked. One that holds a row, which the row to come
    /// is going to replace, stays as it is; so does one that is reserved.
    pub fn reserve(&mut self, row_id: RowId) {
        self.heap.reserve(row_id);
    }

    /// Gives back a slot that `allocate` or `reserve` set aside for a row that did not come.
    /// Panics when the slot is free already.
    pub fn release(&mut self, row_id: RowId) {
        self.heap.release(row_id);
    }

    /// Applies a committed insert or update: the slot holds `row` from `epoch` on, reserved or not.
    /// The image it replaces is kept if one of the `retained` epochs needs it.
    ///
    /// A replica that is being copied may meet leftovers, which are removed: another key in the
    /// slot, or the key in another slot.
    pub fn put(&mut self, row_id: RowId, row: &[u8], epoch: Epoch, retained: &[Epoch]) {
        let before = self.heap.epoch(row_id);
        assert!(before <= epoch, "{} {row_id}: {epoch} after {before}", self.id);
        self.store(row_id, row, epoch, retained, false);
        self.versions.continue_sweep(&self.table, retained, SWEEP_PER_CHANGE);
    }

    /// Applies a committed delete: the slot is free, and remembers the epoch. A slot without a row
    /// is freed too.
    pub fn delete(&mut self, row_id: RowId, epoch: Epoch, retained: &[Epoch]) {
        let before = self.heap.epoch(row_id);
        assert!(before <= epoch, "{} {row_id}: {epoch} after {before}", self.id);
        self.keep_version(row_id, epoch, retained);
        self.empty(row_id, epoch, false);
        self.versions.continue_sweep(&self.table, retained, SWEEP_PER_CHANGE);
    }

    /// The first slot after `after`, or at all, that holds a committed row.
    #[inline]
    pub fn next_row(&self, after: Option<RowId>) -> Option<RowId> {
        self.heap.next_row(after)
    }

    /// Adds so many rows at most after `after`, or from the first, in the order of row ids. The
    /// place of the last; none when there are no more.
    pub fn next_rows<'a>(
        &'a self,
        after: Option<RowId>,
        most: usize,
        out: &mut Vec<&'a [u8]>,
    ) -> Option<RowId> {
        self.heap.next_rows(after, None, Epoch(u64::MAX), most, out)
    }

    /// About how many entries of an ordered index, which must be ready, lie in a range. Takes two
    /// walks from the root.
    pub fn entries_about(&self, index: IndexId, range: &KeyRange) -> u64 {
        self.ready_index(index).tree.entries_about(range)
    }

    /// Begins a scan of an ordered index, which must be ready. With `after`, only entries strictly
    /// after it in the scan's direction.
    pub fn scan_index(
        &self,
        index: IndexId,
        range: &KeyRange,
        direction: Direction,
        after: Option<(&[u8], RowId)>,
    ) -> IndexScan<'_> {
        self.ready_index(index).tree.scan(range, direction, after)
    }

    /// Drops old images that none of the `retained` epochs needs, looking at a bounded number of
    /// them. Returns false when some were not looked at: the next calls go on, and so does every
    /// change of a row.
    pub fn drop_versions(&mut self, retained: &[Epoch]) -> bool {
        self.versions.drop_unneeded(&self.table, retained, SWEEP_PER_CALL)
    }

    /// Bytes allocated for rows and indexes, without old images.
    pub fn memory_bytes(&self) -> u64 {
        self.heap_bytes() + self.hash_index_bytes() + self.ordered_index_bytes()
    }

    /// Bytes of the heap: slots and pages.
    pub fn heap_bytes(&self) -> u64 {
        self.heap.memory_bytes()
    }

    /// Bytes of the primary-key hash index.
    pub fn hash_index_bytes(&self) -> u64 {
        self.primary.memory_bytes() as u64
    }

    /// Bytes of all ordered indexes.
    pub fn ordered_index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.tree.memory_bytes() as u64).sum()
    }

    /// Bytes of old images and their index entries.
    pub fn version_bytes(&self) -> u64 {
        self.versions.memory_bytes()
    }

    /// Whether any old image is kept.
    pub fn has_versions(&self) -> bool {
        !self.versions.is_empty()
    }

    /// Forgets all rows, old images and reservations. Ordered indexes are ready.
    pub fn clear(&mut self) {
        self.heap = Heap::new();
        self.primary = HashIndex::new();
        self.restoring = None;
        self.versions.clear();
        for index in &mut self.indexes {
            index.tree = OrderedIndex::new();
            index.building = None;
        }
    }

    fn ready_index(&self, id: IndexId) -> &Index {
        let index = self.indexes.iter().find(|index| index.id == id);
        let index = index.expect("a scanned index is in the table's definition");
        assert!(index.building.is_none(), "{} {id}: scanned while it is built", self.id);
        index
    }

    /// Puts `row` into the slot and the indexes. `reserved` says whether the slot stays reserved
    /// when the row goes.
    fn store(
        &mut self,
        row_id: RowId,
        row: &[u8],
        epoch: Epoch,
        retained: &[Epoch],
        reserved: bool,
    ) {
        assert!(epoch > Epoch(0), "{} {row_id}: a row without epoch", self.id);
        assert!(self.restoring.is_none(), "{} {row_id}: changed while rows come back", self.id);
        if let Some(before) = self.heap.row(row_id) {
            if same_key(&self.table, &self.table.primary_key, before, row) {
                self.keep_version(row_id, epoch, retained);
                self.update_indexes(row_id, row);
                self.heap.write(row_id, row, epoch, reserved);
                return;
            }
            self.remove_leftover(row_id);
        }
        encode(&self.table, &self.table.primary_key, row, &mut self.key);
        let hash = local_hash(self.key.bytes());
        if let Some(other) = self.find(self.key.bytes(), hash) {
            self.remove_leftover(other);
            // Its keys have been there meanwhile.
            encode(&self.table, &self.table.primary_key, row, &mut self.key);
        }
        self.heap.write(row_id, row, epoch, reserved);
        self.primary.insert(hash, row_id);
        let Self { table, indexes, key, other_key, .. } = self;
        for index in indexes {
            if !index.follows(row_id) {
                continue;
            }
            let key = if index.columns == table.primary_key {
                &*key
            } else {
                encode(table, &index.columns, row, other_key);
                &*other_key
            };
            let added = index.tree.insert(key.bytes(), row_id);
            assert!(added, "{row_id} is in {} already", index.id);
        }
    }

    /// Moves the entries of a row in the ordered indexes from its present image to `row`.
    fn update_indexes(&mut self, row_id: RowId, row: &[u8]) {
        let Self { table, heap, indexes, versions, key, other_key, .. } = self;
        let before = heap.row(row_id).expect("an updated row is there");
        for index in indexes {
            if !index.follows(row_id) || same_values(table, &index.columns, before, row) {
                continue;
            }
            encode(table, &index.columns, before, key);
            encode(table, &index.columns, row, other_key);
            if key.bytes() == other_key.bytes() {
                continue;
            }
            index.tree.replace(key.bytes(), other_key.bytes(), row_id);
            versions.lose_entry(table, index.id, key.bytes(), row_id);
        }
    }

    /// Keeps the slot's image, which ends with `epoch`, if a retained epoch needs it.
    #[inline]
    fn keep_version(&mut self, row_id: RowId, epoch: Epoch, retained: &[Epoch]) {
        if retained.is_empty() {
            return;
        }
        let Some(row) = self.heap.row(row_id) else { return };
        let old = OldImage { row_id, from: self.heap.epoch(row_id), to: epoch, row };
        self.versions.keep(old, retained);
    }

    /// Takes the slot's row, if any, out of heap and indexes.
    fn empty(&mut self, row_id: RowId, epoch: Epoch, reserved: bool) {
        assert!(self.restoring.is_none(), "{} {row_id}: emptied while rows come back", self.id);
        let Self { table, heap, primary, indexes, versions, other_key, .. } = self;
        if let Some(row) = heap.row(row_id) {
            encode(table, &table.primary_key, row, other_key);
            let hash = local_hash(other_key.bytes());
            assert!(primary.remove(hash, row_id), "{row_id} is not in the primary-key index");
            versions.lose_row(table, other_key.bytes(), hash, row_id);
            for index in indexes {
                if !index.follows(row_id) {
                    continue;
                }
                encode(table, &index.columns, row, other_key);
                let removed = index.tree.remove(other_key.bytes(), row_id);
                assert!(removed, "{row_id} is not in {}", index.id);
                versions.lose_entry(table, index.id, other_key.bytes(), row_id);
            }
        }
        heap.erase(row_id, epoch, reserved);
    }

    /// Removes what an earlier life of this replica has left in a slot. The slot keeps its epoch
    /// until its own copy comes, and its reservation.
    fn remove_leftover(&mut self, row_id: RowId) {
        let (epoch, reserved) = (self.heap.epoch(row_id), self.heap.is_reserved(row_id));
        self.empty(row_id, epoch, reserved);
    }
}

/// Whether two rows have the same values in `columns`.
#[inline]
fn same_values(table: &Table, columns: &[ColumnId], a: &[u8], b: &[u8]) -> bool {
    columns.iter().all(|column| table.value(a, *column) == table.value(b, *column))
}

/// Whether two rows have the same key over `columns`. Equal values make equal keys.
fn same_key(table: &Table, columns: &[ColumnId], a: &[u8], b: &[u8]) -> bool {
    same_values(table, columns, a, b)
        || table.row_has_key(columns, a, table.key_of_row(columns, b).bytes())
}

fn encode(table: &Table, columns: &[ColumnId], row: &[u8], encoder: &mut KeyEncoder) {
    encoder.clear();
    table.encode_row_key(columns, row, encoder);
}

#[cfg(test)]
mod tests;
