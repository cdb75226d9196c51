//! The rows that a leg has touched, found by place and by key.
//!
//! # Owns
//! A record per row, in the order of first touch, with the images the leg has staged. A few rows
//! are looked through; more are found by hash maps.
//! # Invariants
//! 1. A record lasts until the leg ends: when all its images are undone, the claim stays, unless it
//!    was given to a later leg.
//! 2. A slot keeps its key.
//! # Not here
//! Locks, bytes, what is sent: the leg.

use model::{Key, OperationNumber, PartitionId, Row, RowId};
use stdx::HashMap;

/// A row's place.
pub(in crate::participant) type Place = (PartitionId, RowId);

/// The row after one operation; none when that deletes it.
pub(in crate::participant) type Image = (OperationNumber, Option<Row>);

/// What a leg has done to one row.
#[derive(Debug)]
pub(in crate::participant) struct TouchedRow {
    pub(in crate::participant) place: Place,
    /// Encoded primary key.
    pub(in crate::participant) key: Key,
    /// Its hash: the row's name in the lock table.
    pub(in crate::participant) hash: u64,
    /// The leg holds the slot's reservation.
    pub(in crate::participant) reserved: bool,
    /// The row did not exist before the transaction.
    pub(in crate::participant) fresh: bool,
    /// It has ended before the rest of its leg: slot and lock are a later leg's.
    pub(in crate::participant) given: bool,
    images: Images,
    /// The row before this one with the same hash, if it is indexed.
    same_hash: Option<u32>,
}

/// The images of a row by operation. All but the newest lie apart: most rows have one.
#[derive(Debug, Default)]
struct Images {
    earlier: Vec<Image>,
    newest: Option<Image>,
}

/// All rows a leg has touched.
#[derive(Debug, Default)]
pub(in crate::participant) struct TouchedRows {
    rows: Vec<TouchedRow>,
    index: Option<Box<Index>>,
    /// An empty index of an earlier leg.
    spare: Option<Box<Index>>,
    /// How often rows or images were taken away, so that others came to other places.
    arrangement: u32,
}

/// Finds rows among many.
#[derive(Debug, Default)]
struct Index {
    by_place: HashMap<Place, u32>,
    /// The last row with this hash; each names the one before it.
    by_hash: HashMap<(PartitionId, u64), u32>,
}

/// More rows than this are indexed.
const LOOKED_THROUGH: usize = 8;
/// Memory for this many rows is kept for the next leg.
const KEPT: usize = 64;

impl TouchedRow {
    /// A row without images.
    pub(in crate::participant) fn new(place: Place, key: Key, hash: u64, reserved: bool) -> Self {
        let images = Images::default();
        let (fresh, given) = (false, false);
        Self { place, key, hash, reserved, fresh, given, images, same_hash: None }
    }

    /// Whether a change of the row is staged.
    pub(in crate::participant) fn is_staged(&self) -> bool {
        self.images.newest.is_some()
    }

    /// The row as the transaction has left it: `None` when it is deleted. Something is staged.
    pub(in crate::participant) fn newest(&self) -> Option<&Row> {
        self.images.newest.as_ref().expect("a staged row has an image").1.as_ref()
    }

    /// The newest image of an operation up to `seen_to`: `None` when there is none (the committed
    /// row is seen), `Some(None)` when the row is deleted.
    pub(in crate::participant) fn seen(&self, seen_to: OperationNumber) -> Option<Option<&Row>> {
        let mut newest_first = self.images.newest.iter().chain(self.images.earlier.iter().rev());
        let image = newest_first.find(|(number, _)| *number <= seen_to)?;
        Some(image.1.as_ref())
    }

    /// Adds the image of an operation.
    pub(in crate::participant) fn stage(&mut self, image: Image) {
        let before = self.images.newest.replace(image);
        self.images.earlier.extend(before);
    }

    /// Drops the images of operations that go; returns their bytes.
    pub(in crate::participant) fn undo(&mut self, goes: impl Fn(OperationNumber) -> bool) -> u64 {
        let mut bytes = 0;
        let mut stays = |image: &Image| {
            let gone = goes(image.0);
            bytes += if gone { image_bytes(image) } else { 0 };
            !gone
        };
        self.images.earlier.retain(&mut stays);
        if !self.images.newest.as_ref().is_some_and(stays) {
            self.images.newest = self.images.earlier.pop();
        }
        bytes
    }

    /// Drops all images, as the newest is applied; returns their bytes.
    pub(in crate::participant) fn settle(&mut self) -> u64 {
        let bytes = self.bytes();
        self.images = Images::default();
        bytes
    }

    /// Whether an operation changed the row and a later one did too.
    pub(in crate::participant) fn changed_again(&self, number: OperationNumber) -> bool {
        self.images.earlier.iter().any(|(earlier, _)| *earlier == number)
    }

    /// Bytes of all images.
    pub(in crate::participant) fn bytes(&self) -> u64 {
        self.images.earlier.iter().chain(&self.images.newest).map(image_bytes).sum()
    }
}

impl TouchedRows {
    /// Whether no row is touched.
    pub(in crate::participant) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows touched.
    pub(in crate::participant) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All rows touched, in the order of first touch.
    pub(in crate::participant) fn iter(&self) -> impl Iterator<Item = &TouchedRow> {
        self.rows.iter()
    }

    /// All rows touched, to take away of what is staged.
    pub(in crate::participant) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TouchedRow> {
        self.arrangement = self.arrangement.wrapping_add(1);
        self.rows.iter_mut()
    }

    /// Another number after rows or images were taken away. As long as it is the same, rows that
    /// are added come behind the others.
    pub(in crate::participant) fn arrangement(&self) -> u32 {
        self.arrangement
    }

    /// The rows from one on, in the order of first touch.
    pub(in crate::participant) fn rest(&self, at: usize) -> &[TouchedRow] {
        self.rows.get(at..).unwrap_or_default()
    }

    /// The row in a place.
    pub(in crate::participant) fn at(&self, place: Place) -> Option<&TouchedRow> {
        self.position(place).map(|at| &self.rows[at])
    }

    /// The row in a place, to change it.
    pub(in crate::participant) fn at_mut(&mut self, place: Place) -> Option<&mut TouchedRow> {
        self.position(place).map(|at| &mut self.rows[at])
    }

    /// The staged row with this key.
    pub(in crate::participant) fn staged(
        &self,
        partition: PartitionId,
        hash: u64,
        key: &[u8],
    ) -> Option<&TouchedRow> {
        let is_it = |row: &&TouchedRow| {
            row.hash == hash && row.place.0 == partition && row.is_staged() && *row.key.0 == *key
        };
        let Some(index) = &self.index else { return self.rows.iter().find(is_it) };
        let of_hash = |at: u32| &self.rows[at as usize];
        let last = index.by_hash.get(&(partition, hash)).copied().map(of_hash);
        std::iter::successors(last, |row| row.same_hash.map(of_hash)).find(is_it)
    }

    /// The rows that share a lock, to change them.
    pub(in crate::participant) fn of_lock_mut(
        &mut self,
        partition: PartitionId,
        hash: u64,
        mut change: impl FnMut(&mut TouchedRow),
    ) {
        let Some(index) = &self.index else {
            let of_lock = |row: &&mut TouchedRow| (row.place.0, row.hash) == (partition, hash);
            return self.rows.iter_mut().filter(of_lock).for_each(change);
        };
        let mut next = index.by_hash.get(&(partition, hash)).copied();
        while let Some(at) = next {
            let row = &mut self.rows[at as usize];
            next = row.same_hash;
            change(row);
        }
    }

    /// Adds a row in a place that is not touched yet.
    pub(in crate::participant) fn add(&mut self, row: TouchedRow) -> &mut TouchedRow {
        self.rows.push(row);
        let last = self.rows.len() - 1;
        if self.rows.len() > LOOKED_THROUGH {
            let from = if self.index.is_some() { last } else { 0 };
            let index = self.index.get_or_insert_with(|| self.spare.take().unwrap_or_default());
            for (at, row) in self.rows.iter_mut().enumerate().skip(from) {
                index.add(at as u32, row);
            }
        }
        &mut self.rows[last]
    }

    /// The rows from one on, in the order of first touch, to apply them.
    pub(in crate::participant) fn rest_mut(&mut self, at: usize) -> &mut [TouchedRow] {
        self.rows.get_mut(at..).unwrap_or_default()
    }

    /// Takes the last row out, and says whether one with the same lock is left.
    pub(in crate::participant) fn pop(&mut self) -> Option<(TouchedRow, bool)> {
        let row = self.rows.pop()?;
        let name = (row.place.0, row.hash);
        let shares = match &mut self.index {
            None => self.rows.iter().any(|other| (other.place.0, other.hash) == name),
            Some(index) => {
                index.by_place.remove(&row.place);
                match row.same_hash {
                    Some(earlier) => index.by_hash.insert(name, earlier),
                    None => index.by_hash.remove(&name),
                };
                row.same_hash.is_some()
            }
        };
        Some((row, shares))
    }

    /// Forgets the rows that are to go.
    pub(in crate::participant) fn retain(&mut self, stays: impl Fn(&TouchedRow) -> bool) {
        let arrangement = self.arrangement.wrapping_add(1);
        for row in std::mem::take(self).rows {
            if stays(&row) {
                self.add(row);
            }
        }
        self.arrangement = arrangement;
    }

    /// Forgets all rows and keeps the memory for some.
    pub(in crate::participant) fn clear(&mut self) {
        if let Some(mut index) = self.index.take().filter(|_| self.rows.len() <= KEPT) {
            index.by_place.clear();
            index.by_hash.clear();
            self.spare = Some(index);
        }
        self.rows.clear();
        self.rows.shrink_to(KEPT);
    }

    /// Whether memory is held that can be used again.
    pub(in crate::participant) fn has_memory(&self) -> bool {
        self.rows.capacity() > 0
    }

    fn position(&self, place: Place) -> Option<usize> {
        match &self.index {
            None => self.rows.iter().position(|row| row.place == place),
            Some(index) => index.by_place.get(&place).map(|at| *at as usize),
        }
    }
}

impl Index {
    fn add(&mut self, at: u32, row: &mut TouchedRow) {
        let earlier = self.by_place.insert(row.place, at);
        assert!(earlier.is_none(), "{} {}: touched twice", row.place.0, row.place.1);
        row.same_hash = self.by_hash.insert((row.place.0, row.hash), at);
    }
}

/// Bytes of the row in an image.
pub(in crate::participant) fn image_bytes(image: &Image) -> u64 {
    image.1.as_ref().map_or(0, |row| row.0.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{PartitionIndex, TableId};

    fn place(n: u32) -> Place {
        let partition = PartitionId { table: TableId(1), index: PartitionIndex((n % 3) as u16) };
        (partition, RowId(n))
    }

    fn key(n: u32) -> Key {
        Key(n.to_be_bytes().into())
    }

    /// Few hashes, so that many keys share one.
    fn touched(count: u32) -> TouchedRows {
        let mut rows = TouchedRows::default();
        for n in 0..count {
            let row = TouchedRow::new(place(n), key(n), u64::from(n % 7), n % 2 == 0);
            rows.add(row).stage((OperationNumber(n), Some(Row(vec![0; n as usize].into()))));
        }
        rows
    }

    #[test]
    fn few_and_many_rows_are_found_alike() {
        for count in [1, 8, 9, 100] {
            let mut rows = touched(count);
            for n in 0..count {
                let found = rows.staged(place(n).0, u64::from(n % 7), &key(n).0);
                assert_eq!(found.map(|row| row.place), Some(place(n)));
                assert_eq!(rows.at(place(n)).map(|row| &row.key), Some(&key(n)));
                assert!(rows.staged(place(n + 1).0, u64::from(n % 7), &key(n).0).is_none());
            }
            assert!(rows.at(place(count)).is_none());
            rows.retain(|row| row.place.0 == place(0).0);
            assert_eq!(rows.len(), count.div_ceil(3) as usize);
            assert_eq!(rows.at(place(count)).map(|row| row.place), None);
            assert_eq!(rows.at(place(0)).map(|row| row.place), Some(place(0)));
            rows.clear();
            assert!(rows.is_empty() && rows.at(place(0)).is_none());
        }
    }

    #[test]
    fn rows_are_taken_out_from_the_last_and_the_others_are_found() {
        for count in [1, 8, 9, 60] {
            let mut rows = touched(count);
            for n in (0..count).rev() {
                let (row, shares) = rows.pop().unwrap();
                assert_eq!(row.place, place(n));
                let name = |n: u32| (place(n).0, n % 7);
                assert_eq!(shares, (0..n).any(|other| name(other) == name(n)), "{n} of {count}");
                assert!(rows.at(place(n)).is_none());
                for left in 0..n {
                    let found = rows.staged(place(left).0, u64::from(left % 7), &key(left).0);
                    assert_eq!(found.map(|row| row.place), Some(place(left)));
                }
            }
            assert!(rows.pop().is_none());
        }
    }

    #[test]
    fn images_of_a_row_come_and_go() {
        let mut row = TouchedRow::new(place(1), key(1), 1, false);
        assert!(!row.is_staged());
        let image = |n: u32, size: usize| (OperationNumber(n), Some(Row(vec![0; size].into())));
        row.stage(image(1, 10));
        row.stage((OperationNumber(2), None));
        row.stage(image(4, 30));
        assert_eq!((row.bytes(), row.newest().map(|r| r.0.len())), (40, Some(30)));
        assert!(row.changed_again(OperationNumber(2)) && !row.changed_again(OperationNumber(4)));
        let seen = |row: &TouchedRow, n| row.seen(OperationNumber(n)).map(|r| r.map(|r| r.0.len()));
        assert_eq!(seen(&row, 0), None);
        assert_eq!(seen(&row, 1), Some(Some(10)));
        assert_eq!(seen(&row, 3), Some(None));
        assert_eq!(seen(&row, 9), Some(Some(30)));
        assert_eq!(row.undo(|n| n == OperationNumber(4)), 30);
        assert_eq!((row.bytes(), row.newest()), (10, None), "deleted again");
        assert_eq!(row.undo(|n| n == OperationNumber(1)), 10);
        assert!(row.is_staged());
        assert_eq!(row.undo(|_| true), 0);
        assert!(!row.is_staged());
    }
}
