//! What an execution keeps of a subquery from one row of the enclosing block to the next.

use std::collections::BTreeMap;

use crate::memory::Held;
use crate::rows::Row;

/// Rows by their key.
pub(crate) type RowsByKey = BTreeMap<Vec<u8>, Vec<Row>>;

/// The rows of a correlated subquery, as far as they are known for all rows at once.
#[derive(Debug, Default)]
pub(crate) struct ByKey {
    /// How often it was run row by row.
    pub(crate) runs: u32,
    pub(crate) rows: Option<RowsByKey>,
    /// What these rows take.
    pub(crate) held: Option<Held>,
    pub(crate) of_nothing: Option<Vec<Row>>,
}

/// How often a subquery of IN has been asked for single values.
#[derive(Debug)]
pub(crate) struct Searched {
    pub(crate) runs: u32,
    /// As often as costs what its rows do.
    pub(crate) most: u32,
    /// Its rows with a NULL for a value, once they are known.
    pub(crate) nulls: Option<Vec<Row>>,
}
