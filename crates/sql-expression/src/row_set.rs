//! The rows of a subquery, kept for comparisons with them.
//!
//! # Owns
//! [`RowSet`]: rows, and for `IN` an index over them that is built when it is first worth it.
//! # Not here
//! How rows compare (`comparison`), what is made of them (`eval`).

use std::cell::OnceCell;
use std::collections::BTreeSet;

use sqltype::Datum;

use crate::comparison::Comparison;
use crate::context::EvalContext;
use crate::error::SqlError;

/// The rows of a subquery.
#[derive(Clone, Debug, Default)]
pub struct RowSet {
    rows: Vec<Vec<Datum>>,
    index: OnceCell<Option<Index>>,
}

/// Keys of the rows whose first column is not NULL, and whether there is another.
#[derive(Clone, Debug)]
struct Index {
    comparison: Comparison,
    keys: BTreeSet<Vec<u8>>,
    has_null: bool,
}

/// Fewer rows than this are looked through.
const INDEX_MIN: usize = 8;
/// Small parts of expressions that take as long as the key of a row.
const ROW_STEPS: u64 = 8;

impl RowSet {
    /// These rows.
    pub fn new(rows: Vec<Vec<Datum>>) -> Self {
        Self { rows, index: OnceCell::new() }
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<Datum>] {
        &self.rows
    }

    /// Whether `value IN (these rows)`, found by an index: `Some(None)` is unknown. `None` when
    /// there is no index: few rows, or a comparison without keys.
    ///
    /// # Errors
    /// The statement is to end.
    pub(crate) fn contains(
        &self,
        value: &Datum,
        comparison: &Comparison,
        context: &mut EvalContext,
    ) -> Result<Option<Option<bool>>, SqlError> {
        if self.rows.len() < INDEX_MIN {
            return Ok(None);
        }
        if self.index.get().is_none() {
            // Others may do the same meanwhile: what they make is equal.
            let built = self.build(comparison, context)?;
            let _ = self.index.set(built);
        }
        let Some(index) = self.index.get().and_then(Option::as_ref) else { return Ok(None) };
        let mut key = Vec::new();
        if index.comparison != *comparison || !comparison.key(value, &mut key) {
            return Ok(None);
        }
        Ok(Some(if index.keys.contains(&key) {
            Some(true)
        } else if index.has_null {
            None
        } else {
            Some(false)
        }))
    }

    fn build(
        &self,
        comparison: &Comparison,
        context: &mut EvalContext,
    ) -> Result<Option<Index>, SqlError> {
        let mut keys = BTreeSet::new();
        let mut has_null = false;
        for row in &self.rows {
            context.step(ROW_STEPS)?;
            let Some(value) = row.first() else { return Ok(None) };
            if value.is_null() {
                has_null = true;
                continue;
            }
            let mut key = Vec::new();
            if !comparison.key(value, &mut key) {
                return Ok(None);
            }
            keys.insert(key);
        }
        Ok(Some(Index { comparison: *comparison, keys, has_null }))
    }
}
