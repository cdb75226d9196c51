//! Rows of scans as the application gets them: in the buffers they came in, and read in place.
//!
//! # Owns
//! [`ScannedRows`] and [`ScannedRow`].
//! # Guarantees
//! A row is as wide as its projection, whatever the layout it is stored in.

use std::fmt;
use std::sync::Arc;

use model::{ClusterState, Refusal, Table, Value, ValueRef};
use wire::ScanRows;

use super::encode::RowDecoder;

/// Rows that a scan has brought, in scan order.
#[derive(Clone)]
pub struct ScannedRows(Rows);

#[derive(Clone)]
enum Rows {
    Values(Vec<Vec<Value>>),
    Stored {
        decoder: Arc<RowDecoder>,
        /// What whole rows are read by.
        table: Option<Arc<Table>>,
        taken: Taken,
    },
}

/// Rows in the batches they came in, which others may share.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub(super) batches: Vec<Arc<ScanRows>>,
    /// Which rows they are, in order; all rows of one batch after the other if that is not said.
    pub(super) places: Option<Vec<Place>>,
}

/// Where a row is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of the batch.
    pub(super) batch: usize,
    /// Number of the row in it.
    pub(super) at: usize,
}

impl Taken {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        match &self.places {
            Some(places) => places.len(),
            None => self.batches.iter().map(|batch| batch.len()).sum(),
        }
    }

    /// The row behind `next`, which goes on to the one after it; without places.
    #[inline]
    fn following(&self, next: &mut Place) -> Option<&[u8]> {
        let mut batch = self.batches.get(next.batch)?;
        while next.at == batch.len() {
            *next = Place { batch: next.batch + 1, at: 0 };
            batch = self.batches.get(next.batch)?;
        }
        next.at += 1;
        Some(batch.row(next.at - 1))
    }

    /// The row that `next` stands for, which goes on to the one after it.
    #[inline]
    fn next(&self, next: &mut Place) -> Option<&[u8]> {
        let Some(places) = &self.places else { return self.following(next) };
        let Place { batch, at } = *places.get(next.at)?;
        next.at += 1;
        Some(self.batches[batch].row(at))
    }

    /// The rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let mut next = Place { batch: 0, at: 0 };
        std::iter::from_fn(move || self.next(&mut next))
    }
}

/// Rows, one after the other.
struct Iter<'a> {
    rows: &'a Rows,
    next: Place,
}

/// A row that a scan has brought.
#[derive(Clone, Copy)]
pub struct ScannedRow<'a>(Row<'a>);

#[derive(Clone, Copy)]
enum Row<'a> {
    Values(&'a [Value]),
    Stored { decoder: &'a RowDecoder, table: Option<&'a Table>, bytes: &'a [u8] },
}

impl ScannedRows {
    /// Rows as they came from participants.
    pub(super) fn stored(
        decoder: &Arc<RowDecoder>,
        cluster: &ClusterState,
        taken: Taken,
    ) -> Result<Self, Refusal> {
        let table = decoder.table_of(cluster, taken.rows())?;
        Ok(Self(Rows::Stored { decoder: decoder.clone(), table, taken }))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.0 {
            Rows::Values(rows) => rows.len(),
            Rows::Stored { taken, .. } => taken.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all values, about.
    pub fn size(&self) -> usize {
        let of_row = |row: &Vec<Value>| row.iter().map(size_of_value).sum::<usize>();
        match &self.0 {
            Rows::Values(rows) => rows.iter().map(of_row).sum(),
            Rows::Stored { taken, .. } => match &taken.places {
                Some(_) => taken.rows().map(<[u8]>::len).sum(),
                None => taken.batches.iter().map(|batch| batch.size()).sum(),
            },
        }
    }

    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = ScannedRow<'_>> {
        Iter { rows: &self.0, next: Place { batch: 0, at: 0 } }
    }

    /// The values of all rows.
    pub fn into_values(self) -> Vec<Vec<Value>> {
        match self.0 {
            Rows::Values(rows) => rows,
            Rows::Stored { .. } => self.iter().map(|row| row.to_values()).collect(),
        }
    }
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bytes(bytes) => bytes.len(),
        _ => 8,
    }
}

impl Default for ScannedRows {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<Vec<Value>>> for ScannedRows {
    fn from(rows: Vec<Vec<Value>>) -> Self {
        Self(Rows::Values(rows))
    }
}

impl PartialEq for ScannedRows {
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(|row| row.to_values()).eq(other.iter().map(|row| row.to_values()))
    }
}

impl fmt::Debug for ScannedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for ScannedRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_values().fmt(f)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = ScannedRow<'a>;

    #[inline]
    fn next(&mut self) -> Option<ScannedRow<'a>> {
        let row = match self.rows {
            Rows::Values(rows) => {
                let row = rows.get(self.next.at)?;
                self.next.at += 1;
                Row::Values(row)
            }
            Rows::Stored { decoder, table, taken } => {
                let bytes = taken.next(&mut self.next)?;
                Row::Stored { decoder, table: table.as_deref(), bytes }
            }
        };
        Some(ScannedRow(row))
    }
}

impl<'a> ScannedRow<'a> {
    /// The number of columns.
    pub fn width(&self) -> usize {
        match self.0 {
            Row::Values(values) => values.len(),
            Row::Stored { decoder, .. } => decoder.width(),
        }
    }

    /// The value of a projected column.
    ///
    /// # Panics
    /// When there are no more columns than `at`.
    #[inline]
    pub fn get(&self, at: usize) -> ValueRef<'a> {
        match self.0 {
            Row::Values(values) => values[at].as_ref(),
            Row::Stored { decoder, table, bytes } => decoder.value(table, bytes, at),
        }
    }

    /// All values.
    pub fn to_values(&self) -> Vec<Value> {
        (0..self.width()).map(|at| self.get(at).to_value()).collect()
    }
}
