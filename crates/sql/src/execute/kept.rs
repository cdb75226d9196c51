//! Rows that are kept in memory, and what they take.

use std::collections::VecDeque;

use sql_expression::SqlError;

use crate::execute::run::Run;
use crate::memory::Held;
use crate::rows::{Row, memory_of};

/// Rows that are kept in memory.
pub(crate) struct Kept {
    pub(crate) rows: Vec<Row>,
    /// What the rows take.
    pub(crate) held: Held,
}

/// The first rows of those that are kept, at most so many, which are held no longer; nothing if
/// there are none.
pub(crate) fn some_of(rows: &mut VecDeque<Row>, held: &mut Held, most: usize) -> Option<Vec<Row>> {
    let count = rows.len().min(most);
    if count == 0 {
        return None;
    }
    held.give_up(count, rows.len());
    Some(rows.drain(..count).collect())
}

/// Holds rows that are there already, for something that errors name so.
pub(crate) fn kept(run: &Run<'_>, rows: Vec<Row>, what: &'static str) -> Result<Kept, SqlError> {
    let mut held = run.hold(what);
    held.set(memory_of(&rows))?;
    Ok(Kept { rows, held })
}
