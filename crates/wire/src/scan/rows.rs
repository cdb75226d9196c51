//! Rows of a batch in one buffer: a row costs a copy, and no allocation.
//!
//! # Owns
//! [`ScanRows`], and that its encoding is the one of a list of [`ScanRow`].
//! # Not here
//! What is in a row: its layout is that of the projection it was asked for by.

use std::fmt;

use codec::{Decode, DecodeError, Describe, Encode, Format, Problem, Reader, Shape, Writer};
use model::Row;

use super::ScanRow;

/// Rows in scan order, each behind its index key if the request asked for keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ScanRows {
    bytes: Vec<u8>,
    ends: Vec<Ends>,
}

/// Where the key of a row ends, and the row. The key begins where the row before has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    key: u32,
    row: u32,
}

/// More bytes than any batch has.
const TOO_LONG: &str = "rows of a batch are shorter than 4 GiB";

impl ScanRows {
    /// Makes room for so many rows, and so many bytes of keys and rows.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.ends.reserve(rows);
        self.bytes.reserve(bytes);
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys and rows.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When all rows together reach 4 GiB.
    pub fn push(&mut self, key: &[u8], row: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.end_row(key);
    }

    /// Adds a row that `write` appends to what it is given.
    ///
    /// # Errors
    /// As `write` says; nothing is added then.
    ///
    /// # Panics
    /// As [`ScanRows::push`].
    #[inline]
    pub fn push_with<E>(
        &mut self,
        key: &[u8],
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        if !key.is_empty() {
            self.bytes.extend_from_slice(key);
        }
        let key = self.bytes.len();
        if let Err(error) = write(&mut self.bytes) {
            self.bytes.truncate(start);
            return Err(error);
        }
        self.end_row(key);
        Ok(())
    }

    #[inline]
    fn end_row(&mut self, key: usize) {
        let row = u32::try_from(self.bytes.len()).expect(TOO_LONG);
        // No greater than the row's.
        self.ends.push(Ends { key: key as u32, row });
    }

    /// The key and the row at a place below [`ScanRows::len`].
    #[inline]
    pub fn get(&self, at: usize) -> (&[u8], &[u8]) {
        let start = self.start(at);
        let Ends { key, row } = self.ends[at];
        let (key, row) = (key as usize, row as usize);
        (&self.bytes[start..key], &self.bytes[key..row])
    }

    /// The row at a place below [`ScanRows::len`].
    #[inline]
    pub fn row(&self, at: usize) -> &[u8] {
        let Ends { key, row } = self.ends[at];
        &self.bytes[key as usize..row as usize]
    }

    /// Where the key at a place begins.
    #[inline]
    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before].row as usize)
    }

    /// Keys and rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// A copy of the rows of some places.
    ///
    /// # Panics
    /// When `from` is behind `to`, or there are fewer rows than `to`.
    pub fn part(&self, from: usize, to: usize) -> ScanRows {
        let start = if from == to { 0 } else { self.start(from) };
        let end = if from == to { 0 } else { self.ends[to - 1].row as usize };
        // Not beyond what all of them have, so it fits.
        let moved =
            |ends: &Ends| Ends { key: ends.key - start as u32, row: ends.row - start as u32 };
        ScanRows {
            bytes: self.bytes[start..end].to_vec(),
            ends: self.ends[from..to].iter().map(moved).collect(),
        }
    }
}

impl FromIterator<ScanRow> for ScanRows {
    fn from_iter<I: IntoIterator<Item = ScanRow>>(rows: I) -> Self {
        let mut all = ScanRows::default();
        rows.into_iter().for_each(|ScanRow { key, row: Row(row) }| all.push(&key, &row));
        all
    }
}

impl fmt::Debug for ScanRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |(key, row): (&[u8], &[u8])| ScanRow { key: key.into(), row: Row(row.into()) };
        f.debug_list().entries(self.iter().map(row)).finish()
    }
}

impl Encode for ScanRows {
    fn encode(&self, out: &mut Writer) {
        out.put_length(self.len());
        for (key, row) in self.iter() {
            out.put_length(key.len());
            out.put_bytes(key);
            out.put_length(row.len());
            out.put_bytes(row);
        }
    }
}

impl Decode for ScanRows {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = input.length()?;
        let mut rows = ScanRows::default();
        if count > 0 {
            // A row has two lengths, of a byte at least.
            let left = input.remaining();
            rows.reserve(count.min(left / 2), left.saturating_sub(2 * count));
        }
        let outer = input.enter("ScanRow");
        for _ in 0..count {
            let size = input.length()?;
            rows.bytes.extend_from_slice(input.bytes(size)?);
            let key = rows.bytes.len();
            let size = input.length()?;
            rows.bytes.extend_from_slice(input.bytes(size)?);
            if u32::try_from(rows.bytes.len()).is_err() {
                return Err(input.fail(Problem::Length));
            }
            rows.end_row(key);
        }
        input.leave(outer);
        Ok(rows)
    }
}

impl Describe for ScanRows {
    fn describe(format: &mut Format) -> Shape {
        Vec::<ScanRow>::describe(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(&str, &str)]) -> ScanRows {
        let row = |(key, row): &(&str, &str)| ScanRow {
            key: key.as_bytes().into(),
            row: Row(row.as_bytes().into()),
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn rows_are_where_they_were_put() {
        let all = rows(&[("k", "row"), ("", ""), ("key", "r")]);
        let found: Vec<_> = all.iter().collect();
        assert_eq!(found, [(&b"k"[..], &b"row"[..]), (b"", b""), (b"key", b"r")]);
        assert_eq!((all.len(), all.size(), all.is_empty()), (3, 8, false));
        assert_eq!(all.rows().last(), Some(&b"r"[..]));
        assert_eq!(all.part(0, 3), all);
        assert_eq!(all.part(1, 3), rows(&[("", ""), ("key", "r")]));
        assert_eq!(all.part(2, 2), ScanRows::default());
        assert_eq!(all.part(3, 3), ScanRows::default());
    }

    #[test]
    fn a_row_that_cannot_be_written_leaves_nothing() {
        let mut all = rows(&[("k", "row")]);
        let failed = all.push_with(b"x", |out| {
            out.push(1);
            Err("why")
        });
        assert_eq!((failed, &all), (Err("why"), &rows(&[("k", "row")])));
        let written = all.push_with(b"x", |out| {
            out.push(b'y');
            Ok::<(), ()>(())
        });
        assert_eq!((written, all), (Ok(()), rows(&[("k", "row"), ("x", "y")])));
    }

    #[test]
    fn they_are_encoded_as_a_list() {
        let list = [("k", "row"), ("", ""), ("key", "r")];
        let row = |(key, row): &(&str, &str)| ScanRow {
            key: key.as_bytes().into(),
            row: Row(row.as_bytes().into()),
        };
        let one_by_one: Vec<ScanRow> = list.iter().map(row).collect();
        let (mut a, mut b) = (Writer::new(1), Writer::new(1));
        one_by_one.encode(&mut a);
        rows(&list).encode(&mut b);
        assert_eq!(a.bytes(), b.bytes());
        let mut input = Reader::new(1, a.bytes());
        assert_eq!(ScanRows::decode(&mut input).expect("rows"), rows(&list));
        input.finish().expect("all was read");
        for end in 0..a.bytes().len() {
            assert!(ScanRows::decode(&mut Reader::new(1, &a.bytes()[..end])).is_err(), "{end}");
        }
    }
}
