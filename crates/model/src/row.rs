//! Rows as bytes: the layout of a table version, reading columns in place, building rows.
//!
//! Layout: `version (1 byte) | NULL bits | fixed-size columns | end offset (u16, little-endian) of
//! each variable column | variable bytes`. Offsets count from the start of the variable bytes.
//! NULL bits exist for nullable columns only, in column order; a NULL fixed column still takes its
//! bytes (zero), a NULL variable column has length zero.

mod projection;

use std::fmt;

use codec::Codec;
use serde::{Deserialize, Serialize};

use crate::ids::ColumnId;
use crate::schema::{Column, ColumnType, ROW_SIZE_MAX};
use crate::value::{Value, ValueRef};

pub use projection::RowProjection;

/// An encoded row, owned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct Row(pub Box<[u8]>);

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(layout) => write!(f, "Row(layout {layout}, {} bytes)", self.0.len()),
            None => f.write_str("Row(empty)"),
        }
    }
}

impl Row {
    /// Whether a replica may keep the row: it names a layout, and is not too long.
    pub fn is_storable(&self) -> bool {
        (1..=ROW_SIZE_MAX).contains(&self.0.len())
    }
}

/// Why values do not make a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The number of values differs from the number of columns.
    ColumnCount,
    /// NULL for a column that does not allow it.
    NotNull(ColumnId),
    /// The value's kind, range or length does not fit the column.
    OutOfRange(ColumnId),
    /// The row would be longer than `ROW_SIZE_MAX`.
    TooLarge,
}

/// Where one column lies in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Field {
    column_type: ColumnType,
    /// Bit in the NULL bits, when nullable.
    null_bit: Option<u16>,
    /// Offset of a fixed column from the start of the row; ordinal of a variable one.
    at: u16,
}

/// The byte layout of the rows of one table version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowLayout {
    version: u8,
    fields: Vec<Field>,
    null_bits_size: u16,
    /// Where the end offsets of variable columns begin.
    offsets_at: u16,
    variable_count: u16,
}

impl RowLayout {
    /// The layout of rows with `columns`, numbered `version` among the table's layouts.
    pub fn new(version: u8, columns: &[Column]) -> Self {
        Self::of(version, columns.iter())
    }

    /// As [`RowLayout::new`], of columns that lie elsewhere.
    pub fn of<'c>(version: u8, columns: impl ExactSizeIterator<Item = &'c Column> + Clone) -> Self {
        let nullable = columns.clone().filter(|c| c.nullable).count();
        let null_bits_size = nullable.div_ceil(8) as u16;
        let mut fields = Vec::with_capacity(columns.len());
        let (mut at, mut bit, mut variable_count) = (1 + null_bits_size, 0u16, 0u16);
        for column in columns {
            let null_bit = column.nullable.then(|| {
                bit += 1;
                bit - 1
            });
            if let ColumnType::Int(width) | ColumnType::UInt(width) = column.column_type {
                assert!(matches!(width, 1 | 2 | 4 | 8), "integer of {width} bytes");
            }
            let size = column.column_type.fixed_size().unwrap_or(0) as u16;
            let variable = column.column_type.variable_max().is_some();
            let place = if variable { variable_count } else { at };
            fields.push(Field { column_type: column.column_type, null_bit, at: place });
            variable_count += u16::from(variable);
            at = at.checked_add(size).expect("fixed columns fit the row limit");
        }
        Self { version, fields, null_bits_size, offsets_at: at, variable_count }
    }

    /// The layout number an encoded row carries.
    pub fn version_of(row: &[u8]) -> u8 {
        row[0]
    }

    /// Bytes every row of this layout takes before its variable columns.
    pub fn fixed_size(&self) -> usize {
        usize::from(self.offsets_at) + 2 * usize::from(self.variable_count)
    }

    /// The number of columns.
    pub fn column_count(&self) -> usize {
        self.fields.len()
    }

    /// The type of a column; `None` when this layout does not have the column yet.
    pub fn column_type(&self, column: ColumnId) -> Option<ColumnType> {
        self.fields.get(usize::from(column.0)).map(|field| field.column_type)
    }

    /// The value of a column; `None` when this layout does not have the column yet.
    pub fn get<'a>(&self, row: &'a [u8], column: ColumnId) -> Option<ValueRef<'a>> {
        let field = self.fields.get(usize::from(column.0))?;
        if let Some(bit) = field.null_bit
            && row[1 + usize::from(bit / 8)] >> (bit % 8) & 1 == 1
        {
            return Some(ValueRef::Null);
        }
        let at = usize::from(field.at);
        Some(match field.column_type {
            ColumnType::Int(1) => ValueRef::Int(i64::from(row[at] as i8)),
            ColumnType::Int(2) => ValueRef::Int(i64::from(i16::from_le_bytes(bytes(row, at)))),
            ColumnType::Int(4) => ValueRef::Int(i64::from(i32::from_le_bytes(bytes(row, at)))),
            ColumnType::Int(_) => ValueRef::Int(i64::from_le_bytes(bytes(row, at))),
            ColumnType::UInt(1) => ValueRef::UInt(u64::from(row[at])),
            ColumnType::UInt(2) => ValueRef::UInt(u64::from(u16::from_le_bytes(bytes(row, at)))),
            ColumnType::UInt(4) => ValueRef::UInt(u64::from(u32::from_le_bytes(bytes(row, at)))),
            ColumnType::UInt(_) => ValueRef::UInt(u64::from_le_bytes(bytes(row, at))),
            ColumnType::Float => ValueRef::Float(f64::from_le_bytes(bytes(row, at))),
            ColumnType::Fixed(size) => ValueRef::Bytes(&row[at..at + usize::from(size)]),
            ColumnType::Variable(_) | ColumnType::Text { .. } => {
                let (from, to) = self.variable_range(row, at);
                ValueRef::Bytes(&row[from..to])
            }
        })
    }

    #[inline]
    fn variable_range(&self, row: &[u8], ordinal: usize) -> (usize, usize) {
        let offsets = usize::from(self.offsets_at);
        let base = offsets + 2 * usize::from(self.variable_count);
        let end_of = |i: usize| usize::from(u16::from_le_bytes(bytes(row, offsets + 2 * i)));
        let from = if ordinal == 0 { 0 } else { end_of(ordinal - 1) };
        (base + from, base + end_of(ordinal))
    }

    /// Reads a column of many rows; `None` when this layout does not have the column yet.
    pub fn reader(&self, column: ColumnId) -> Option<ColumnReader<'_>> {
        let field = *self.fields.get(usize::from(column.0))?;
        Some(ColumnReader { layout: self, field })
    }

    /// Encodes one value per column. An empty row of a failed call is never returned.
    pub fn encode(&self, values: &[ValueRef<'_>]) -> Result<Row, RowError> {
        if values.len() != self.fields.len() {
            return Err(RowError::ColumnCount);
        }
        // At its full size from the beginning: a row is never moved while it grows.
        let size = |(field, value): (&Field, &ValueRef<'_>)| match value {
            ValueRef::Bytes(bytes) if field.column_type.variable_max().is_some() => bytes.len(),
            _ => 0,
        };
        let variable: usize = self.fields.iter().zip(values).map(size).sum();
        let mut row = Vec::with_capacity(self.fixed_size() + variable);
        row.resize(self.fixed_size(), 0u8);
        row[0] = self.version;
        for (index, (field, value)) in self.fields.iter().zip(values).enumerate() {
            let column = ColumnId(index as u16);
            if value.is_null() {
                let bit = field.null_bit.ok_or(RowError::NotNull(column))?;
                row[1 + usize::from(bit / 8)] |= 1 << (bit % 8);
            } else {
                self.put(&mut row, field, *value).ok_or(RowError::OutOfRange(column))?;
            }
            if field.column_type.variable_max().is_some() {
                let end = row.len() - self.fixed_size();
                let end = u16::try_from(end).map_err(|_| RowError::TooLarge)?;
                let at = usize::from(self.offsets_at) + 2 * usize::from(field.at);
                row[at..at + 2].copy_from_slice(&end.to_le_bytes());
            }
        }
        if row.len() > ROW_SIZE_MAX {
            return Err(RowError::TooLarge);
        }
        Ok(Row(row.into_boxed_slice()))
    }

    /// Encodes owned values.
    pub fn encode_values(&self, values: &[Value]) -> Result<Row, RowError> {
        let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        self.encode(&values)
    }

    fn put(&self, row: &mut Vec<u8>, field: &Field, value: ValueRef<'_>) -> Option<()> {
        let at = usize::from(field.at);
        match (field.column_type, value) {
            (ColumnType::Int(width), _) => {
                let v = signed_in_range(width, value)?;
                row[at..at + usize::from(width)]
                    .copy_from_slice(&v.to_le_bytes()[..usize::from(width)]);
            }
            (ColumnType::UInt(width), _) => {
                let v = unsigned_in_range(width, value)?;
                row[at..at + usize::from(width)]
                    .copy_from_slice(&v.to_le_bytes()[..usize::from(width)]);
            }
            (ColumnType::Float, _) => {
                row[at..at + 8].copy_from_slice(&float_in_range(value)?.to_le_bytes());
            }
            (ColumnType::Fixed(size), ValueRef::Bytes(v)) if v.len() == usize::from(size) => {
                row[at..at + v.len()].copy_from_slice(v);
            }
            (
                ColumnType::Variable(max) | ColumnType::Text { max_bytes: max, .. },
                ValueRef::Bytes(v),
            ) if v.len() <= usize::from(max) => {
                row.extend_from_slice(v);
            }
            _ => return None,
        }
        Some(())
    }

    /// Checks that `row` is a well-formed row of this layout: for bytes from a client or a file.
    pub fn check(&self, row: &[u8]) -> bool {
        if row.len() < self.fixed_size() || row.len() > ROW_SIZE_MAX || row[0] != self.version {
            return false;
        }
        let room = row.len() - self.fixed_size();
        let mut last = 0;
        for ordinal in 0..usize::from(self.variable_count) {
            let at = usize::from(self.offsets_at) + 2 * ordinal;
            let end = usize::from(u16::from_le_bytes(bytes(row, at)));
            if end < last || end > room {
                return false;
            }
            last = end;
        }
        let within = |field: &Field| match field.column_type {
            ColumnType::Variable(max) | ColumnType::Text { max_bytes: max, .. } => {
                let (from, to) = self.variable_range(row, usize::from(field.at));
                to - from <= usize::from(max)
            }
            ColumnType::Float => !f64::from_le_bytes(bytes(row, usize::from(field.at))).is_nan(),
            _ => true,
        };
        last == room && self.fields.iter().all(within)
    }
}

/// A row with the layout that reads it.
#[derive(Clone, Copy)]
pub struct RowView<'a> {
    /// The table the row belongs to; finds the row's own layout and defaults.
    pub table: &'a crate::schema::Table,
    /// The encoded row.
    pub bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// The value of a column.
    pub fn get(&self, column: ColumnId) -> ValueRef<'a> {
        self.table.value(self.bytes, column)
    }
}

/// Reads one column of many encoded rows, all of one layout: where it lies is found out once.
///
/// The value of a NULL is zero, or empty.
#[derive(Clone, Copy, Debug)]
pub struct ColumnReader<'a> {
    layout: &'a RowLayout,
    field: Field,
}

impl ColumnReader<'_> {
    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.field.column_type
    }

    /// Whether the column of a row is NULL.
    #[inline]
    pub fn is_null(&self, row: &[u8]) -> bool {
        let bit = self.field.null_bit;
        bit.is_some_and(|bit| row[1 + usize::from(bit / 8)] >> (bit % 8) & 1 == 1)
    }

    /// Whether the column may be NULL in rows of this layout.
    pub fn may_be_null(&self) -> bool {
        self.field.null_bit.is_some()
    }

    /// Adds the values of a column of signed integers.
    ///
    /// # Panics
    /// For another type of column.
    pub fn ints(&self, rows: &[&[u8]], out: &mut Vec<i64>) {
        match self.field.column_type {
            ColumnType::Int(1) => self.numbers(rows, |b: [u8; 1]| i8::from_le_bytes(b).into(), out),
            ColumnType::Int(2) => self.numbers(rows, |b| i16::from_le_bytes(b).into(), out),
            ColumnType::Int(4) => self.numbers(rows, |b| i32::from_le_bytes(b).into(), out),
            ColumnType::Int(8) => self.numbers(rows, i64::from_le_bytes, out),
            other => panic!("a column of {other:?} is read as signed integers"),
        }
    }

    /// Adds the values of a column of unsigned integers.
    ///
    /// # Panics
    /// For another type of column.
    pub fn uints(&self, rows: &[&[u8]], out: &mut Vec<u64>) {
        match self.field.column_type {
            ColumnType::UInt(1) => self.numbers(rows, |b: [u8; 1]| b[0].into(), out),
            ColumnType::UInt(2) => self.numbers(rows, |b| u16::from_le_bytes(b).into(), out),
            ColumnType::UInt(4) => self.numbers(rows, |b| u32::from_le_bytes(b).into(), out),
            ColumnType::UInt(8) => self.numbers(rows, u64::from_le_bytes, out),
            other => panic!("a column of {other:?} is read as unsigned integers"),
        }
    }

    /// Adds the values of a column of floats.
    pub fn floats(&self, rows: &[&[u8]], out: &mut Vec<f64>) {
        self.numbers(rows, f64::from_le_bytes, out);
    }

    /// Adds what is made of the first `N` bytes of a column of fixed size, which has as many.
    #[inline]
    pub fn numbers<const N: usize, T>(
        &self,
        rows: &[&[u8]],
        number: impl Fn([u8; N]) -> T,
        out: &mut Vec<T>,
    ) {
        let at = usize::from(self.field.at);
        out.extend(rows.iter().map(|row| number(bytes(row, at))));
    }

    /// The bytes of a text, or of a column of fixed size, in one row.
    #[inline]
    pub fn bytes<'r>(&self, row: &'r [u8]) -> &'r [u8] {
        let at = usize::from(self.field.at);
        match self.field.column_type {
            ColumnType::Fixed(size) => &row[at..at + usize::from(size)],
            ColumnType::Variable(_) | ColumnType::Text { .. } => {
                let (from, to) = self.layout.variable_range(row, at);
                &row[from..to]
            }
            other => panic!("a column of {other:?} is read as bytes"),
        }
    }
}

/// The integer in `value` if a signed column of `width` bytes can hold it.
pub(crate) fn signed_in_range(width: u8, value: ValueRef<'_>) -> Option<i64> {
    let v = match value {
        ValueRef::Int(v) => v,
        ValueRef::UInt(v) => i64::try_from(v).ok()?,
        _ => return None,
    };
    let bits = 8 * u32::from(width);
    let fits = bits == 64 || (v >= -(1 << (bits - 1)) && v < 1 << (bits - 1));
    fits.then_some(v)
}

/// The integer in `value` if an unsigned column of `width` bytes can hold it.
pub(crate) fn unsigned_in_range(width: u8, value: ValueRef<'_>) -> Option<u64> {
    let v = match value {
        ValueRef::Int(v) => u64::try_from(v).ok()?,
        ValueRef::UInt(v) => v,
        _ => return None,
    };
    let bits = 8 * u32::from(width);
    (bits == 64 || v < 1 << bits).then_some(v)
}

/// The number in `value` as a float, unless it is none or not a number.
pub(crate) fn float_in_range(value: ValueRef<'_>) -> Option<f64> {
    let v = match value {
        ValueRef::Int(v) => v as f64,
        ValueRef::UInt(v) => v as f64,
        ValueRef::Float(v) => v,
        _ => return None,
    };
    // One zero only, so that equal keys are equal bytes.
    (!v.is_nan()).then_some(if v == 0.0 { 0.0 } else { v })
}

#[inline]
fn bytes<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    row[at..at + N].try_into().expect("the slice has the array's length")
}

#[cfg(test)]
mod tests;
