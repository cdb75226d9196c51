//! Rows in the order of the primary key, though nobody has asked for it, where that costs next to
//! nothing: people and the tests of applications expect it.
//!
//! # Owns
//! The choice, and the order of keys that are looked up.
//! # Guarantees
//! Nothing is promised and nothing is sorted: a large table is read as it lies, unless a LIMIT ends
//! the scan with its first rows. Sizes are those that were counted last, so a table that has just
//! grown is read in order for some seconds. As many rows are locked as without an order.
//! # Not here
//! ORDER BY (`plan::limit`, `cursor::sort`).

use client::ScanRange;
use model::IndexId;

use super::pushed_filter;
use crate::access::Values;
use crate::execute::run::Run;
use crate::plan::operator::{AccessPath, TableScan};

/// Rows of a table that is read in order.
const ROWS_MAX: u64 = 1_000;
/// The same where the SQL node checks conditions, which then gets all rows.
const FEW_ROWS_MAX: u64 = 100;

/// The ordered index of the table's primary key; none for a key by hash alone, or a hidden one.
pub(super) fn primary_index(scan: &TableScan) -> Option<IndexId> {
    scan.definition.primary_key()?.ordered
}

/// Whether a scan of these ranges may as well read all rows in the order of the primary key.
/// `enough`: how many rows are wanted.
pub(super) async fn is_cheap(
    run: &Run<'_>,
    scan: &TableScan,
    ranges: &[ScanRange],
    enough: Option<u64>,
) -> bool {
    let is_whole = matches!(ranges, [ScanRange::Heap]);
    if !is_whole || primary_index(scan).is_none() {
        return false;
    }
    if scan.conditions.is_empty() && enough.is_some_and(|rows| rows <= ROWS_MAX) {
        return true;
    }
    let table = scan.definition.table.id;
    run.session.learn_sizes([table]).await;
    let Some(rows) = run.session.shared.statistics.rows(table) else { return false };
    rows <= FEW_ROWS_MAX || rows <= ROWS_MAX && pushed_filter(run, scan).1
}

/// Keys in their order.
pub(super) fn sorted(scan: &TableScan, mut keys: Vec<Values>) -> Vec<Values> {
    if keys.len() < 2 {
        return keys;
    }
    let table = &scan.definition.table;
    let columns = match &scan.path {
        AccessPath::Unique { index, .. } => match table.unique_index(*index) {
            Some(index) => &index.columns,
            None => return keys,
        },
        _ => &table.primary_key,
    };
    let bytes = |key: &Values| table.key_of_values(columns, key).map(|key| key.0.to_vec());
    keys.sort_by_cached_key(bytes);
    keys
}
