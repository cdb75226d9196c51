//! Some columns of rows, as rows of their own.

use super::{Field, Row, RowError, RowLayout, bytes};
use crate::ids::ColumnId;
use crate::schema::Table;
use crate::value::ValueRef;

/// Makes rows of some columns; made once, used for many rows of a table.
#[derive(Clone, Debug)]
pub struct RowProjection {
    columns: Vec<ColumnId>,
    to: RowLayout,
    /// Rows of this layout are copied as they lie; values of others are looked at.
    copied: Option<u8>,
}

impl RowProjection {
    /// For columns of the table, in this order. Projected rows have the layout
    /// `RowLayout::new(0, …)` of their definitions.
    ///
    /// # Panics
    /// When the table has no such column, or one row does not hold so many.
    pub fn new(table: &Table, columns: &[ColumnId]) -> Self {
        let to = RowLayout::of(0, columns.iter().map(|c| &table.columns[usize::from(c.0)]));
        let from = table.layout();
        let is_same = |(column, to): (&ColumnId, &Field)| {
            let from = from.fields.get(usize::from(column.0));
            from.is_some_and(|from| {
                let nullable = from.null_bit.is_some() == to.null_bit.is_some();
                from.column_type == to.column_type && nullable
            })
        };
        let same = columns.iter().zip(&to.fields).all(is_same);
        Self { columns: columns.to_vec(), to, copied: same.then_some(from.version) }
    }

    /// Appends the columns of a row of any of the table's layouts. After an error something may
    /// have been appended.
    ///
    /// # Errors
    /// When a value of an older layout does not fit what its column is now.
    #[inline]
    pub fn append(&self, table: &Table, row: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
        if self.copied != Some(RowLayout::version_of(row)) {
            return self.append_values(table, row, out);
        }
        // The table may have newer layouts by now.
        let (from, to) = (table.layout_of(row), &self.to);
        let start = out.len();
        let behind = start + to.fixed_size();
        out.resize(behind, 0);
        out[start] = to.version;
        for (column, field) in self.columns.iter().zip(&to.fields) {
            let source = &from.fields[usize::from(column.0)];
            let is_null = |bit: u16| row[1 + usize::from(bit / 8)] >> (bit % 8) & 1 == 1;
            let null_bit = field.null_bit.filter(|_| source.null_bit.is_some_and(is_null));
            if let Some(bit) = null_bit {
                out[start + 1 + usize::from(bit / 8)] |= 1 << (bit % 8);
            }
            let (at, source_at) = (start + usize::from(field.at), usize::from(source.at));
            match field.column_type.fixed_size() {
                Some(_) if null_bit.is_some() => {}
                // The common sizes apart: a copy of a size that is known is one instruction.
                Some(8) => out[at..at + 8].copy_from_slice(&bytes::<8>(row, source_at)),
                Some(4) => out[at..at + 4].copy_from_slice(&bytes::<4>(row, source_at)),
                Some(size) => {
                    out[at..at + size].copy_from_slice(&row[source_at..source_at + size]);
                }
                None => {
                    if null_bit.is_none() {
                        let (from, to) = from.variable_range(row, source_at);
                        out.extend_from_slice(&row[from..to]);
                    }
                    let end = u16::try_from(out.len() - behind).map_err(|_| RowError::TooLarge)?;
                    let at = start + usize::from(to.offsets_at) + 2 * usize::from(field.at);
                    out[at..at + 2].copy_from_slice(&end.to_le_bytes());
                }
            }
        }
        Ok(())
    }

    /// The columns of a row, alone; as [`RowProjection::append`].
    ///
    /// # Errors
    /// As [`RowProjection::append`].
    pub fn project(&self, table: &Table, row: &[u8]) -> Result<Row, RowError> {
        if self.copied != Some(RowLayout::version_of(row)) {
            let mut out = Vec::new();
            self.append_values(table, row, &mut out)?;
            return Ok(Row(out.into_boxed_slice()));
        }
        // At its full size from the beginning: it is never moved while it grows.
        let from = table.layout_of(row);
        let size = |(column, field): (&ColumnId, &Field)| {
            let at = usize::from(from.fields[usize::from(column.0)].at);
            field.column_type.variable_max().map_or(0, |_| {
                let (from, to) = from.variable_range(row, at);
                to - from
            })
        };
        let sizes: usize = self.columns.iter().zip(&self.to.fields).map(size).sum();
        let mut out = Vec::with_capacity(self.to.fixed_size() + sizes);
        self.append(table, row, &mut out)?;
        Ok(Row(out.into_boxed_slice()))
    }

    #[cold]
    fn append_values(&self, table: &Table, row: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
        let value = |column: &ColumnId| table.value(row, *column);
        let values: Vec<ValueRef<'_>> = self.columns.iter().map(value).collect();
        out.extend_from_slice(&self.to.encode(&values)?.0);
        Ok(())
    }
}
