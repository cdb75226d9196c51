//! Operators whose rows are in temporary files, as they do not fit memory.
//!
//! # Owns
//! [`Spilled`], the rows that an operator gives from files; the way of each kind of operator
//! through them: rows that are kept (`buffer`, `batches`), sorts (`merge`), DISTINCT (`distinct`).
//! # Guarantees
//! The rows are those that the operator would give from memory. Sorts give them in the same order,
//! equal ones as they came; the others perhaps in another one.
//! # Invariants
//! Nothing is written before memory is refused; from then on an operator needs little memory, so
//! that others of the statement have what is left.
//! # Not here
//! Files, their format and their budget (`spill`).

pub(crate) mod batches;
pub(crate) mod buffer;
pub(crate) mod distinct;
pub(crate) mod merge;

use crate::execute::cursor::group::GroupRows;
use crate::execute::cursor::set::SpilledSet;
use crate::execute::cursor::{FileRows, Work};
use crate::execute::run::{Boxed, Run};
use crate::rows::Row;
use crate::spill::rows::RowReader;
use merge::Merge;

/// Rows that come from temporary files.
pub(crate) enum Spilled<'p> {
    /// As they were written.
    Rows(RowReader),
    /// Of sorted runs.
    Merge(Box<Merge<'p>>),
    /// Of groups.
    Groups(Box<GroupRows<'p>>),
    /// Of set operations.
    Set(Box<SpilledSet<'p>>),
}

impl FileRows for Spilled<'_> {
    fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Boxed<'a, Option<Vec<Row>>> {
        Box::pin(async move {
            let rows = match self {
                Self::Rows(reader) => reader.next(run).await?,
                Self::Merge(merge) => merge.next(run).await?,
                Self::Groups(groups) => groups.next(run).await?,
                Self::Set(set) => set.next(run).await?,
            };
            run.worked(rows.as_ref().map_or(0, Vec::len)).await?;
            Ok(rows)
        })
    }
}

impl<'p> From<Spilled<'p>> for Work<'p> {
    fn from(spilled: Spilled<'p>) -> Self {
        Self::Spilled(Box::new(spilled))
    }
}
