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
    /// How rows of one layout are copied as they lie; values of others are looked at.
    copied: Option<Copied>,
}

/// How rows of a layout are copied, column by column.
#[derive(Clone, Debug)]
struct Copied {
    version: u8,
    /// Where variable bytes begin.
    variable_at: usize,
    columns: Vec<Step>,
}

/// How a column is copied. Places count from the start of the row.
#[derive(Clone, Copy, Debug)]
struct Step {
    null: Option<NullBits>,
    place: Place,
}

/// The bits that say whether a column is NULL, each with its byte.
#[derive(Clone, Copy, Debug)]
struct NullBits {
    from: (usize, u8),
    to: (usize, u8),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Fixed {
        size: usize,
        from: usize,
        to: usize,
    },
    /// Where the end offsets are.
    Variable {
        /// That of the variable column before, if there is one.
        before: Option<usize>,
        from: usize,
        to: usize,
    },
}

impl Copied {
    /// None if a column lies otherwise in these rows than in those.
    fn new(from: &RowLayout, columns: &[ColumnId], to: &RowLayout) -> Option<Self> {
        let bit = |bit: u16| (1 + usize::from(bit / 8), 1 << (bit % 8));
        let step = |(column, to_field): (&ColumnId, &Field)| {
            let field = from.fields.get(usize::from(column.0))?;
            if field.column_type != to_field.column_type {
                return None;
            }
            let null = match (field.null_bit, to_field.null_bit) {
                (Some(from), Some(to)) => Some(NullBits { from: bit(from), to: bit(to) }),
                (None, None) => None,
                _ => return None,
            };
            let end = |layout: &RowLayout, ordinal: u16| {
                usize::from(layout.offsets_at) + 2 * usize::from(ordinal)
            };
            let place = match field.column_type.fixed_size() {
                Some(size) => Place::Fixed { size, from: field.at.into(), to: to_field.at.into() },
                None => Place::Variable {
                    before: field.at.checked_sub(1).map(|ordinal| end(from, ordinal)),
                    from: end(from, field.at),
                    to: end(to, to_field.at),
                },
            };
            Some(Step { null, place })
        };
        let columns: Option<Vec<Step>> = columns.iter().zip(&to.fields).map(step).collect();
        Some(Self { version: from.version, variable_at: from.fixed_size(), columns: columns? })
    }

    /// The variable bytes whose end offset is at a place, behind those of another.
    #[inline]
    fn variable<'r>(&self, row: &'r [u8], before: Option<usize>, end: usize) -> &'r [u8] {
        let offset = |at: usize| usize::from(u16::from_le_bytes(bytes(row, at)));
        let from = before.map_or(0, offset);
        &row[self.variable_at + from..self.variable_at + offset(end)]
    }
}

impl RowProjection {
    /// For columns of the table, in this order. Projected rows have the layout
    /// `RowLayout::new(0, …)` of their definitions.
    ///
    /// # Panics
    /// When the table has no such column, or one row does not hold so many.
    pub fn new(table: &Table, columns: &[ColumnId]) -> Self {
        let to = RowLayout::of(0, columns.iter().map(|c| &table.columns[usize::from(c.0)]));
        let copied = Copied::new(table.layout(), columns, &to);
        Self { columns: columns.to_vec(), to, copied }
    }

    /// How rows of a layout are copied, if they are.
    #[inline]
    fn copied(&self, version: u8) -> Option<&Copied> {
        self.copied.as_ref().filter(|copied| copied.version == version)
    }

    /// Appends the columns of a row of any of the table's layouts. After an error something may
    /// have been appended.
    ///
    /// # Errors
    /// When a value of an older layout does not fit what its column is now.
    #[inline]
    pub fn append(&self, table: &Table, row: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
        let Some(copied) = self.copied(RowLayout::version_of(row)) else {
            return self.append_values(table, row, out);
        };
        let start = out.len();
        let behind = start + self.to.fixed_size();
        out.resize(behind, 0);
        out[start] = self.to.version;
        for Step { null, place } in &copied.columns {
            let null = null.filter(|null| row[null.from.0] & null.from.1 != 0);
            if let Some(null) = null {
                out[start + null.to.0] |= null.to.1;
            }
            match *place {
                Place::Fixed { .. } if null.is_some() => {}
                // The common sizes apart: a copy of a size that is known is one instruction.
                Place::Fixed { size: 8, from, to } => {
                    out[start + to..start + to + 8].copy_from_slice(&bytes::<8>(row, from));
                }
                Place::Fixed { size: 4, from, to } => {
                    out[start + to..start + to + 4].copy_from_slice(&bytes::<4>(row, from));
                }
                Place::Fixed { size, from, to } => {
                    out[start + to..start + to + size].copy_from_slice(&row[from..from + size]);
                }
                Place::Variable { before, from, to } => {
                    if null.is_none() {
                        out.extend_from_slice(copied.variable(row, before, from));
                    }
                    let end = u16::try_from(out.len() - behind).map_err(|_| RowError::TooLarge)?;
                    out[start + to..start + to + 2].copy_from_slice(&end.to_le_bytes());
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
        let Some(copied) = self.copied(RowLayout::version_of(row)) else {
            let mut out = Vec::new();
            self.append_values(table, row, &mut out)?;
            return Ok(Row(out.into_boxed_slice()));
        };
        // At its full size from the beginning: it is never moved while it grows.
        let size = |step: &Step| match step.place {
            Place::Fixed { .. } => 0,
            Place::Variable { before, from, .. } => copied.variable(row, before, from).len(),
        };
        let sizes: usize = copied.columns.iter().map(size).sum();
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
