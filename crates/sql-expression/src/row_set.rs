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
    pub(crate) fn contains(&self, value: &Datum, comparison: &Comparison) -> Option<Option<bool>> {
        if self.rows.len() < INDEX_MIN {
            return None;
        }
        let index = self.index.get_or_init(|| self.build(comparison)).as_ref()?;
        if index.comparison != *comparison {
            return None;
        }
        let mut key = Vec::new();
        if !comparison.key(value, &mut key) {
            return None;
        }
        Some(match index.keys.contains(&key) {
            true => Some(true),
            false if index.has_null => None,
            false => Some(false),
        })
    }

    fn build(&self, comparison: &Comparison) -> Option<Index> {
        let mut keys = BTreeSet::new();
        let mut has_null = false;
        for row in &self.rows {
            let value = row.first()?;
            if value.is_null() {
                has_null = true;
                continue;
            }
            let mut key = Vec::new();
            if !comparison.key(value, &mut key) {
                return None;
            }
            keys.insert(key);
        }
        Some(Index { comparison: *comparison, keys, has_null })
    }
}
