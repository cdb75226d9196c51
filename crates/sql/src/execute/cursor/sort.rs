//! Rows in order, and each once where an order is asked for anyway.
//!
//! # Guarantees
//! Equal rows stay in the order they came; of those that are the same the first is kept.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use sql_expression::{SqlError, compare_values, group_key, sort_prefix};
use sqltype::{Datum, SqlType, TypeKind};

use crate::execute::cursor::{columns_once, open};
use crate::execute::run::{Row, Run, memory_of};
use crate::plan::operator::{Operator, SortBy};

/// Rows up to which doubles are found by sorting; keys of more are remembered, as many of them may
/// be the same.
pub(crate) const SORTED_WITH_DOUBLES: usize = 4_096;

/// Rows in order, equal ones in the order they came; the first `most` of them.
pub(crate) async fn sorted(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    keys: &[SortBy],
    most: Option<usize>,
) -> Result<Vec<Row>, SqlError> {
    run.worked(rows.len()).await?;
    let most = most.unwrap_or(usize::MAX);
    if let Some(places) = columns_once(keys.iter().map(|key| &key.formula)) {
        let mut rows = by_columns(rows, &places, keys);
        rows.truncate(most);
        return Ok(rows);
    }
    let mut keyed = Vec::with_capacity(rows.len());
    for row in rows {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(run.value(&key.formula, &row).await?);
        }
        keyed.push((values, row));
    }
    keyed.sort_by(|(a, _), (b, _)| compare_keys(a.iter().zip(b), keys));
    keyed.truncate(most);
    Ok(keyed.into_iter().map(|(_, row)| row).collect())
}

/// Rows in the order of some of their columns.
fn by_columns(rows: Vec<Row>, places: &[usize], keys: &[SortBy]) -> Vec<Row> {
    let (Some(place), Some(key)) = (places.first(), keys.first()) else { return rows };
    let sql_type = key.formula.expression.sql_type();
    let prefix = |row: &Row| {
        let prefix = sort_prefix(&row[*place], sql_type)?;
        Some(if key.descending { !prefix } else { prefix })
    };
    // All of them, or none: a value without one may be less or greater than any other.
    let prefixes: Option<Vec<u64>> = rows.iter().map(prefix).collect();
    let prefixes = prefixes.unwrap_or_else(|| vec![0; rows.len()]);
    let mut keyed: Vec<(u64, Row)> = prefixes.into_iter().zip(rows).collect();
    keyed.sort_by(|(a_prefix, a), (b_prefix, b)| {
        a_prefix
            .cmp(b_prefix)
            .then_with(|| compare_keys(places.iter().map(|place| (&a[*place], &b[*place])), keys))
    });
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// The order of two rows by the values of their keys.
fn compare_keys<'v>(
    values: impl Iterator<Item = (&'v Datum, &'v Datum)>,
    keys: &[SortBy],
) -> Ordering {
    for ((a, b), key) in values.zip(keys) {
        let order = compare_values(a, b, key.formula.expression.sql_type());
        let order = if key.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The input of a DISTINCT and the types of its columns, if the keys are all of these: then rows
/// that are the same are neighbours.
pub(crate) fn distinct<'p>(
    operator: &'p Operator,
    keys: &[SortBy],
) -> Option<(&'p Operator, &'p [SqlType])> {
    let Operator::Distinct { input, types } = operator else { return None };
    let places = columns_once(keys.iter().map(|key| &key.formula))?;
    let all = places.len() == types.len() && places.iter().all(|place| *place < types.len());
    // Values of others may be in one place of the order, and differ.
    let plain = |sql_type: &SqlType| {
        !matches!(sql_type.kind, TypeKind::Json | TypeKind::Enum(_) | TypeKind::Set(_))
    };
    (all && types.iter().all(plain)).then_some((input, types))
}

/// The rows of an operator in the order of all of their columns, each once; the first `most`.
pub(crate) async fn sorted_once(
    run: &mut Run<'_>,
    input: &Operator,
    types: &[SqlType],
    keys: &[SortBy],
    most: Option<usize>,
) -> Result<Vec<Row>, SqlError> {
    let mut cursor = open(input);
    let mut once = Once::new(types);
    while let Some(rows) = cursor.next(run).await? {
        once.add(run, rows)?;
    }
    once.finish(run, keys, most).await
}

/// Collects rows that are to be sorted by all of their columns, and given once.
pub(crate) struct Once<'p> {
    types: &'p [SqlType],
    rows: Vec<Row>,
    bytes: usize,
    /// The keys of all rows, once there are many.
    seen: Option<BTreeSet<Vec<u8>>>,
}

impl<'p> Once<'p> {
    pub(crate) fn new(types: &'p [SqlType]) -> Self {
        Self { types, rows: Vec::new(), bytes: 0, seen: None }
    }

    /// Takes rows.
    pub(crate) fn add(&mut self, run: &Run<'_>, mut rows: Vec<Row>) -> Result<(), SqlError> {
        let types = self.types;
        if let Some(seen) = &mut self.seen {
            rows.retain(|row| seen.insert(group_key(row, types)));
        }
        self.bytes += memory_of(&rows);
        self.rows.append(&mut rows);
        if self.seen.is_none() && self.rows.len() > SORTED_WITH_DOUBLES {
            let mut keys = BTreeSet::new();
            self.rows.retain(|row| keys.insert(group_key(row, types)));
            self.bytes = memory_of(&self.rows);
            self.seen = Some(keys);
        }
        run.check_memory(self.bytes, "the rows of an operator")
    }

    /// The rows in the order of keys, which are all of their columns; the first `most`.
    pub(crate) async fn finish(
        self,
        run: &mut Run<'_>,
        keys: &[SortBy],
        most: Option<usize>,
    ) -> Result<Vec<Row>, SqlError> {
        let mut rows = sorted(run, self.rows, keys, None).await?;
        if self.seen.is_none() {
            let places = columns_once(keys.iter().map(|key| &key.formula)).unwrap_or_default();
            rows.dedup_by(|a, b| {
                compare_keys(places.iter().map(|place| (&a[*place], &b[*place])), keys).is_eq()
            });
        }
        rows.truncate(most.unwrap_or(usize::MAX));
        Ok(rows)
    }
}
