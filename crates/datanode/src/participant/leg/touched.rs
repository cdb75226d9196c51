//! The rows that a leg has touched, found by place and by key.
//!
//! # Owns
//! A record per row, in the order of first touch, with the images the leg has staged. A few rows
//! are looked through; more are found by indexes. Rows and indexes lie in chunks: a transaction may
//! be of any size, and no step of it takes longer because of that.
//! # Invariants
//! 1. A record lasts until the leg ends: when all its images are undone, the claim stays, unless it
//!    was given to a later leg.
//! 2. A slot keeps its key.
//! # Not here
//! Locks, bytes, what is sent: the leg.

use model::{Key, OperationNumber, PartitionId, Row, RowId};
use stdx::{Chunked, Few};
use store::hash_index::HashIndex;

/// A row's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::participant) struct Place {
    pub(in crate::participant) partition: PartitionId,
    pub(in crate::participant) row_id: RowId,
}

/// A row after one operation.
#[derive(Debug, Default)]
pub(in crate::participant) struct Image {
    pub(in crate::participant) number: OperationNumber,
    /// None when the operation deletes it.
    pub(in crate::participant) row: Option<Row>,
}

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
    /// What is known of its lock.
    lock: RowLock,
    /// A change of it is staged.
    staged: bool,
    /// The newest image, if any is staged, and its operation.
    number: OperationNumber,
    row: Option<Row>,
    /// The images before the newest lie apart: most rows have none.
    earlier: Option<Box<Earlier>>,
}

/// What is known of the lock of a touched row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowLock {
    /// The leg did not hold it before it touched the row: no row that was touched earlier has it.
    First,
    /// The leg held it before: it may be that of an earlier row.
    Held,
    /// The row has ended before the rest of its leg: slot and lock are a later leg's.
    Given,
}

const _: () = assert!(size_of::<TouchedRow>() == 72, "a transaction may touch millions of rows");

#[derive(Debug, Default)]
struct Earlier(Vec<Image>);

/// All rows a leg has touched.
#[derive(Debug, Default)]
pub(in crate::participant) struct TouchedRows {
    rows: Chunked<TouchedRow, ROWS_OF_CHUNK>,
    index: Option<Box<Index>>,
    /// An empty index of an earlier leg.
    spare: Option<Box<Index>>,
    /// How often rows or images were taken away, so that others came to other places.
    arrangement: u32,
}

/// Finds rows among many.
#[derive(Debug)]
struct Index {
    by_place: HashIndex,
    by_hash: HashIndex,
    /// Rows have been taken out that are still found here.
    is_stale: bool,
    /// The rows of all images, by operation: what is undone is found from the end. Images that are
    /// applied stay here.
    by_number: Chunked<Numbered, NUMBERS_OF_CHUNK>,
}

impl Default for Index {
    fn default() -> Self {
        let (by_place, by_hash) = (HashIndex::roomy(), HashIndex::roomy());
        Self { by_place, by_hash, is_stale: false, by_number: Chunked::default() }
    }
}

/// The row of an operation's image, in 12 bytes.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: [u32; 2],
    at: u32,
}

impl Numbered {
    fn new(OperationNumber(number): OperationNumber, at: u32) -> Self {
        Self { number: [(number >> 32) as u32, number as u32], at }
    }

    fn number(self) -> OperationNumber {
        OperationNumber(u64::from(self.number[0]) << 32 | u64::from(self.number[1]))
    }
}

/// Rows, and numbers, that lie together.
const ROWS_OF_CHUNK: usize = 1_024;
const NUMBERS_OF_CHUNK: usize = 4_096;
/// More rows than this are indexed, and rows of which one has more images than this.
const LOOKED_THROUGH: usize = 8;
const IMAGES_LOOKED_THROUGH: usize = 64;
/// Memory for this many rows is kept for the next leg.
const KEPT: usize = 64;
/// What undoing an image counts for, and how many bytes of it count as one: less than applying it.
const UNDO_WEIGHT: u64 = 32;
const UNDO_BYTES: u64 = 8;

impl TouchedRow {
    /// A row without images. `lock_is_new` says that the leg had not its lock before.
    pub(in crate::participant) fn new(
        place: Place,
        key: Key,
        hash: u64,
        reserved: bool,
        lock_is_new: bool,
    ) -> Self {
        let lock = if lock_is_new { RowLock::First } else { RowLock::Held };
        let (fresh, staged) = (false, false);
        let (number, row, earlier) = (OperationNumber(0), None, None);
        Self { place, key, hash, reserved, fresh, lock, staged, number, row, earlier }
    }

    /// Whether no row that the leg touched earlier has its lock, as far as that is known.
    pub(in crate::participant) fn has_first_of_lock(&self) -> bool {
        self.lock == RowLock::First
    }

    /// Whether it has ended before the rest of its leg.
    pub(in crate::participant) fn is_given(&self) -> bool {
        self.lock == RowLock::Given
    }

    /// It has ended before the rest of its leg: slot and lock are a later leg's.
    pub(in crate::participant) fn give(&mut self) {
        self.lock = RowLock::Given;
    }

    /// Whether a change of the row is staged.
    pub(in crate::participant) fn is_staged(&self) -> bool {
        self.staged
    }

    /// The row as the transaction has left it: `None` when it is deleted. Something is staged.
    pub(in crate::participant) fn newest(&self) -> Option<&Row> {
        assert!(self.staged, "a staged row has an image");
        self.row.as_ref()
    }

    /// The newest image of an operation up to `seen_to`: `None` when there is none (the committed
    /// row is seen), `Some(None)` when the row is deleted.
    pub(in crate::participant) fn seen(&self, seen_to: OperationNumber) -> Option<Option<&Row>> {
        if self.staged && self.number <= seen_to {
            return Some(self.row.as_ref());
        }
        let image = self.earlier().iter().rev().find(|image| image.number <= seen_to)?;
        Some(image.row.as_ref())
    }

    /// Adds the image of an operation.
    fn stage(&mut self, image: Image) {
        let Image { number, row } = image;
        let before = Image { number: self.number, row: std::mem::replace(&mut self.row, row) };
        if self.staged {
            self.earlier.get_or_insert_default().0.push(before);
        }
        (self.staged, self.number) = (true, number);
    }

    /// Drops the image of an operation, if there is one; returns its bytes. Entries of indexes may
    /// have been staged in another order than that of their numbers.
    fn undo(&mut self, number: OperationNumber) -> u64 {
        if self.is_newest(number) {
            let bytes = row_bytes(self.row.as_ref());
            let before = self.earlier.as_mut().and_then(|earlier| earlier.0.pop());
            self.staged = before.is_some();
            Image { number: self.number, row: self.row } = before.unwrap_or_default();
            return bytes;
        }
        let Some(Earlier(earlier)) = self.earlier.as_deref_mut() else { return 0 };
        let at = earlier.iter().rposition(|image| image.number == number);
        at.map_or(0, |at| image_bytes(&earlier.remove(at)))
    }

    /// The images before the newest, oldest first.
    fn earlier(&self) -> &[Image] {
        self.earlier.as_ref().map_or(&[], |earlier| &earlier.0)
    }

    /// Whether the image of an operation is the newest.
    fn is_newest(&self, number: OperationNumber) -> bool {
        self.staged && self.number == number
    }

    /// The operations of all images.
    fn numbers(&self) -> impl Iterator<Item = OperationNumber> {
        let newest = self.staged.then_some(self.number);
        self.earlier().iter().map(|image| image.number).chain(newest)
    }

    /// Drops all images, as the newest is applied; returns their bytes.
    pub(in crate::participant) fn settle(&mut self) -> u64 {
        let bytes = self.bytes();
        (self.staged, self.row, self.earlier) = (false, None, None);
        bytes
    }

    /// Bytes of all images.
    pub(in crate::participant) fn bytes(&self) -> u64 {
        self.earlier().iter().map(image_bytes).sum::<u64>() + row_bytes(self.row.as_ref())
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

    /// All rows touched, to apply them.
    pub(in crate::participant) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TouchedRow> {
        self.rows.iter_mut()
    }

    /// Another number after rows or images were taken away. As long as it is the same, rows that
    /// are added come behind the others.
    pub(in crate::participant) fn arrangement(&self) -> u32 {
        self.arrangement
    }

    /// The rows from one on, in the order of first touch.
    pub(in crate::participant) fn rest(&self, at: usize) -> impl Iterator<Item = &TouchedRow> {
        self.rows.iter_from(at)
    }

    /// The row that was touched after so many others.
    pub(in crate::participant) fn nth(&self, at: usize) -> &TouchedRow {
        &self.rows[at]
    }

    /// The row in a place.
    pub(in crate::participant) fn at(&self, place: Place) -> Option<&TouchedRow> {
        self.position(place).map(|at| &self.rows[at])
    }

    /// The row in a place, to change what the leg holds of it.
    pub(in crate::participant) fn at_mut(&mut self, place: Place) -> Option<&mut TouchedRow> {
        self.position(place).map(|at| &mut self.rows[at])
    }

    /// Adds the image of an operation to a row that is touched; `new` counts for the first image
    /// of the row: it did not exist before. Returns whether the row is new.
    pub(in crate::participant) fn stage(&mut self, at: usize, new: bool, image: Image) -> bool {
        if let Some(index) = &mut self.index {
            index.note(image.number, at as u32);
        }
        let row = &mut self.rows[at];
        if !row.is_staged() {
            row.fresh = new;
        }
        row.stage(image);
        let (fresh, images) = (row.fresh, row.earlier().len());
        if images > IMAGES_LOOKED_THROUGH && self.index.is_none() {
            self.index_from(0);
        }
        fresh
    }

    /// Undoes a single operation; returns the bytes of its image. None, and nothing is undone,
    /// when a later one changed the same row.
    pub(in crate::participant) fn undo_only(&mut self, number: OperationNumber) -> Option<u64> {
        let at = match &self.index {
            None => self.rows.iter().position(|row| row.numbers().any(|other| other == number)),
            Some(index) => index.place_of(number).map(|place| index.by_number[place].at as usize),
        };
        // An operation that was refused has no image.
        let Some(at) = at else { return Some(0) };
        let row = &mut self.rows[at];
        if !row.is_newest(number) {
            return None;
        }
        self.arrangement = self.arrangement.wrapping_add(1);
        let bytes = row.undo(number);
        if let Some(index) = &mut self.index
            && let Some(place) = index.place_of(number)
        {
            index.by_number.remove(place);
        }
        Some(bytes)
    }

    /// Undoes operations after a savepoint, the newest first, until what that takes is about
    /// `budget`, one at least; returns the bytes of their images, and whether none is left.
    pub(in crate::participant) fn undo_after(
        &mut self,
        savepoint: OperationNumber,
        budget: u64,
    ) -> (u64, bool) {
        self.arrangement = self.arrangement.wrapping_add(1);
        let (mut bytes, mut spent) = (0, 0);
        while spent < budget.max(1) {
            let Some((number, at)) = self.last_after(savepoint) else { return (bytes, true) };
            let image = self.rows[at].undo(number);
            bytes += image;
            spent += UNDO_WEIGHT + image / UNDO_BYTES;
            if let Some(index) = &mut self.index {
                index.by_number.pop();
            }
        }
        (bytes, self.last_after(savepoint).is_none())
    }

    /// The last operation that has an image, if it is after a savepoint, and the row.
    fn last_after(&self, savepoint: OperationNumber) -> Option<(OperationNumber, usize)> {
        let last = match &self.index {
            Some(index) => index.by_number.last().map(|last| (last.number(), last.at as usize)),
            None => {
                let rows = self.rows.iter().enumerate();
                rows.flat_map(|(at, row)| row.numbers().map(move |number| (number, at))).max()
            }
        };
        last.filter(|(number, _)| *number > savepoint)
    }

    /// The staged row with this key.
    pub(in crate::participant) fn staged(
        &self,
        partition: PartitionId,
        hash: u64,
        key: &[u8],
    ) -> Option<&TouchedRow> {
        let is_it = |row: &&TouchedRow| {
            row.hash == hash
                && row.place.partition == partition
                && row.is_staged()
                && *row.key.0 == *key
        };
        let Some(index) = &self.index else { return self.rows.iter().find(is_it) };
        let found = |RowId(at): RowId| self.rows.get(at as usize).is_some_and(|row| is_it(&row));
        let at = index.by_hash.find(hash, found)?;
        Some(&self.rows[at.0 as usize])
    }

    /// The rows that share a lock, to change them.
    pub(in crate::participant) fn of_lock_mut(
        &mut self,
        partition: PartitionId,
        hash: u64,
        mut change: impl FnMut(&mut TouchedRow),
    ) {
        let Some(index) = &self.index else {
            let of_lock =
                |row: &&mut TouchedRow| (row.place.partition, row.hash) == (partition, hash);
            return self.rows.iter_mut().filter(of_lock).for_each(change);
        };
        let mut found: Few<u32> = Few::new();
        index.by_hash.find(hash, |RowId(at)| {
            let row = self.rows.get(at as usize);
            if row.is_some_and(|row| (row.place.partition, row.hash) == (partition, hash)) {
                found.push(at);
            }
            false
        });
        found.iter().for_each(|at| change(&mut self.rows[*at as usize]));
    }

    /// Adds a row in a place that is not touched yet; where it is.
    pub(in crate::participant) fn add(&mut self, row: TouchedRow) -> usize {
        if self.index.as_ref().is_some_and(|index| index.is_stale) {
            self.index = None;
            if self.rows.len() > LOOKED_THROUGH {
                self.index_from(0);
            }
        }
        self.rows.push(row);
        let last = self.rows.len() - 1;
        if self.index.is_some() {
            self.index_from(last);
        } else if self.rows.len() > LOOKED_THROUGH {
            self.index_from(0);
        }
        last
    }

    /// Indexes the rows from one on.
    fn index_from(&mut self, from: usize) {
        let index = self.index.get_or_insert_with(|| self.spare.take().unwrap_or_default());
        for (at, row) in (from..).zip(self.rows.iter_from(from)) {
            index.add(at as u32, row);
        }
    }

    /// The rows from one on, in the order of first touch, to apply them.
    pub(in crate::participant) fn rest_mut(
        &mut self,
        at: usize,
    ) -> impl Iterator<Item = &mut TouchedRow> {
        self.rows.iter_mut_from(at)
    }

    /// Takes the last row out, and says whether one with the same lock is left. Indexes keep it:
    /// rows are taken out when all of them are, and who takes out millions has no need to tidy up
    /// behind each.
    pub(in crate::participant) fn pop(&mut self) -> Option<(TouchedRow, bool)> {
        let row = self.rows.pop()?;
        let name = (row.place.partition, row.hash);
        let shares = match &mut self.index {
            // Rows that were touched later are gone.
            index if row.lock == RowLock::First => {
                index.iter_mut().for_each(|index| index.is_stale = true);
                false
            }
            None => self.rows.iter().any(|other| (other.place.partition, other.hash) == name),
            Some(index) => {
                index.is_stale = true;
                let is_other = |RowId(other): RowId| {
                    let other = self.rows.get(other as usize);
                    other.is_some_and(|other| (other.place.partition, other.hash) == name)
                };
                index.by_hash.find(row.hash, is_other).is_some()
            }
        };
        Some((row, shares))
    }

    /// Forgets the rows that are to go.
    pub(in crate::participant) fn retain(&mut self, stays: impl Fn(&TouchedRow) -> bool) {
        let arrangement = self.arrangement.wrapping_add(1);
        let mut all = std::mem::take(self).rows;
        let mut staying = Vec::new();
        while let Some(row) = all.pop() {
            if stays(&row) {
                staying.push(row);
            }
        }
        staying.into_iter().rev().for_each(|row| _ = self.add(row));
        self.arrangement = arrangement;
    }

    /// Forgets all rows and keeps the memory for some.
    pub(in crate::participant) fn clear(&mut self) {
        if let Some(mut index) = self.index.take().filter(|index| index.by_place.len() <= KEPT) {
            index.by_place.clear();
            index.by_hash.clear();
            index.is_stale = false;
            index.by_number.clear(KEPT);
            self.spare = Some(index);
        }
        self.rows.clear(KEPT);
    }

    /// Whether memory is held that can be used again.
    pub(in crate::participant) fn has_memory(&self) -> bool {
        self.rows.capacity() > 0
    }

    /// Where the row in a place is.
    pub(in crate::participant) fn position(&self, place: Place) -> Option<usize> {
        match &self.index {
            None => self.rows.iter().position(|row| row.place == place),
            Some(index) => {
                let is_it = |RowId(at): RowId| {
                    self.rows.get(at as usize).is_some_and(|row| row.place == place)
                };
                index.by_place.find(place_hash(place), is_it).map(|at| at.0 as usize)
            }
        }
    }
}

impl Index {
    fn add(&mut self, at: u32, row: &TouchedRow) {
        self.by_place.insert(place_hash(row.place), RowId(at));
        self.by_hash.insert(row.hash, RowId(at));
        for number in row.numbers() {
            self.note(number, at);
        }
    }

    /// Notes the row of an image. Most operations run in the order of their numbers, but for those
    /// of one batch that have waited.
    fn note(&mut self, number: OperationNumber, at: u32) {
        let numbered = Numbered::new(number, at);
        match self.by_number.last() {
            Some(last) if last.number() > number => {
                let place = self.by_number.partition_point(|other| other.number() < number);
                self.by_number.insert(place, numbered);
            }
            _ => self.by_number.push(numbered),
        }
    }

    /// Where an operation stands among those with images.
    fn place_of(&self, number: OperationNumber) -> Option<usize> {
        let place = self.by_number.partition_point(|other| other.number() < number);
        self.by_number.get(place).filter(|found| found.number() == number).map(|_| place)
    }
}

/// Names a place in an index.
fn place_hash(place: Place) -> u64 {
    let Place { partition, row_id } = place;
    let partition = u64::from(partition.table.0) << 16 | u64::from(partition.index.0);
    partition << 32 ^ u64::from(row_id.0)
}

/// Bytes of the row in an image.
pub(in crate::participant) fn image_bytes(image: &Image) -> u64 {
    row_bytes(image.row.as_ref())
}

fn row_bytes(row: Option<&Row>) -> u64 {
    row.map_or(0, |row| row.0.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{PartitionIndex, TableId};

    fn place(n: u32) -> Place {
        let partition = PartitionId { table: TableId(1), index: PartitionIndex((n % 3) as u16) };
        Place { partition, row_id: RowId(n) }
    }

    fn key(n: u32) -> Key {
        Key(n.to_be_bytes().into())
    }

    fn image(number: u64, size: usize) -> Image {
        Image { number: OperationNumber(number), row: Some(Row(vec![0; size].into())) }
    }

    /// Few hashes, so that many keys share one.
    fn touched(count: u32) -> TouchedRows {
        let mut rows = TouchedRows::default();
        for n in 0..count {
            let row = TouchedRow::new(place(n), key(n), u64::from(n % 7), n % 2 == 0, n < 7);
            let at = rows.add(row);
            rows.stage(at, false, image(n.into(), n as usize));
        }
        rows
    }

    #[test]
    fn few_and_many_rows_are_found_alike() {
        for count in [1, 8, 9, 100] {
            let mut rows = touched(count);
            for n in 0..count {
                let found = rows.staged(place(n).partition, u64::from(n % 7), &key(n).0);
                assert_eq!(found.map(|row| row.place), Some(place(n)));
                assert_eq!(rows.at(place(n)).map(|row| &row.key), Some(&key(n)));
                assert!(rows.staged(place(n + 1).partition, u64::from(n % 7), &key(n).0).is_none());
            }
            assert!(rows.at(place(count)).is_none());
            rows.retain(|row| row.place.partition == place(0).partition);
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
                let name = |n: u32| (place(n).partition, n % 7);
                assert_eq!(shares, (0..n).any(|other| name(other) == name(n)), "{n} of {count}");
                assert!(rows.at(place(n)).is_none());
                for left in 0..n {
                    let found =
                        rows.staged(place(left).partition, u64::from(left % 7), &key(left).0);
                    assert_eq!(found.map(|row| row.place), Some(place(left)));
                }
            }
            assert!(rows.pop().is_none());
        }
    }

    #[test]
    fn rows_are_added_where_others_were_taken_out() {
        let mut rows = touched(60);
        for left in [50, 9, 8, 0] {
            while rows.len() > left {
                rows.pop();
            }
            for n in 100..120 {
                rows.add(TouchedRow::new(place(n), key(n), u64::from(n % 7), false, false));
            }
            for n in 0..120 {
                let is_there = n < left as u32 || n >= 100;
                let found = rows.at(place(n)).map(|row| row.place);
                assert_eq!(found, is_there.then(|| place(n)), "{n}, {left} left");
            }
            for _ in 0..20 {
                rows.pop();
            }
        }
        rows.clear();
        assert!(rows.at(place(1)).is_none());
    }

    #[test]
    fn images_of_a_row_come_and_go() {
        let mut row = TouchedRow::new(place(1), key(1), 1, false, true);
        assert!(!row.is_staged());
        row.stage(image(1, 10));
        row.stage(Image { number: OperationNumber(2), row: None });
        row.stage(image(4, 30));
        assert_eq!((row.bytes(), row.newest().map(|r| r.0.len())), (40, Some(30)));
        let seen = |row: &TouchedRow, n| row.seen(OperationNumber(n)).map(|r| r.map(|r| r.0.len()));
        assert_eq!(seen(&row, 0), None);
        assert_eq!(seen(&row, 1), Some(Some(10)));
        assert_eq!(seen(&row, 3), Some(None));
        assert_eq!(seen(&row, 9), Some(Some(30)));
        assert_eq!(row.undo(OperationNumber(4)), 30);
        assert_eq!((row.bytes(), row.newest()), (10, None), "deleted again");
        assert_eq!(row.undo(OperationNumber(1)), 10, "below the newest");
        assert_eq!((row.undo(OperationNumber(9)), row.is_staged()), (0, true));
        assert_eq!(row.undo(OperationNumber(2)), 0);
        assert!(!row.is_staged());
    }

    /// Rows whose image number `n` is of row `row_of(n)`, with as many bytes as its number.
    fn staged(numbers: &[u32], row_of: impl Fn(u32) -> u32) -> TouchedRows {
        let mut rows = TouchedRows::default();
        for n in numbers {
            let row = row_of(*n);
            let at = rows.position(place(row)).unwrap_or_else(|| {
                rows.add(TouchedRow::new(place(row), key(row), u64::from(row), false, true))
            });
            rows.stage(at, false, image((*n).into(), *n as usize));
        }
        rows
    }

    fn numbers(rows: &TouchedRows) -> Vec<u32> {
        let mut numbers: Vec<u32> =
            rows.iter().flat_map(|row| row.numbers().map(|number| number.0 as u32)).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn what_came_after_a_savepoint_is_undone_in_pieces() {
        let mut order: Vec<u32> = (1..=200).collect();
        // Some have waited for a lock.
        order.swap(20, 30);
        order.swap(150, 190);
        for divisor in [1, 3, 50, 1_000] {
            for savepoint in [0, 15, 25, 170, 200] {
                let mut rows = staged(&order, |n| n / divisor);
                let (mut pieces, mut bytes) = (0, 0);
                loop {
                    let left = numbers(&rows).len();
                    let (undone, is_over) = rows.undo_after(OperationNumber(savepoint.into()), 100);
                    (pieces, bytes) = (pieces + 1, bytes + undone);
                    assert!(numbers(&rows).len() + 4 >= left, "a piece is short");
                    if is_over {
                        break;
                    }
                }
                assert_eq!(numbers(&rows), (1..=savepoint).collect::<Vec<_>>());
                assert_eq!(bytes, (savepoint + 1..=200).map(u64::from).sum::<u64>());
                assert!(pieces >= (200 - savepoint).div_ceil(4));
            }
        }
    }

    #[test]
    fn a_single_operation_is_found_among_many() {
        for count in [6, 60] {
            let order: Vec<u32> = (1..=count).collect();
            let mut rows = staged(&order, |n| if n < 4 { 1 } else { n });
            assert_eq!(rows.undo_only(OperationNumber(2)), None, "3 has changed the row too");
            assert_eq!(rows.undo_only(OperationNumber(5)), Some(5));
            assert_eq!(rows.undo_only(OperationNumber(5)), Some(0), "it is gone");
            assert_eq!(rows.undo_only(OperationNumber(3)), Some(3));
            assert_eq!(rows.undo_only(OperationNumber(2)), Some(2));
            let left: Vec<u32> = (1..=count).filter(|n| ![2, 3, 5].contains(n)).collect();
            assert_eq!(numbers(&rows), left);
            assert!(rows.undo_after(OperationNumber(1), u64::MAX).1);
            assert_eq!(numbers(&rows), [1]);
        }
    }
}
