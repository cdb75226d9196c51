//! Joins whose right side is kept in memory, and what all joins have in common.

use std::collections::BTreeMap;

use sql_expression::SqlError;
use sqltype::Datum;

use crate::execute::cursor::{Cursor, drain};
use crate::execute::run::{Row, Run};
use crate::plan::operator::{Formula, HashKey, JoinSpec, Operator};

/// Combinations checked between two looks at the clock.
const PAIRS: usize = 4_096;

/// A join under way.
pub(crate) struct JoinCursor<'p> {
    left: Cursor<'p>,
    operator: &'p Operator,
    right: Option<Kept>,
}

/// The right side, in memory.
struct Kept {
    rows: Vec<Row>,
    /// Positions of rows by the key of a hash join.
    by_key: Option<BTreeMap<Vec<u8>, Vec<usize>>>,
}

impl<'p> JoinCursor<'p> {
    pub(crate) fn new(left: Cursor<'p>, operator: &'p Operator) -> Self {
        Self { left, operator, right: None }
    }

    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let Some(rows) = self.left.next(run).await? else { return Ok(None) };
        let (right, keys, join) = match self.operator {
            Operator::HashJoin { right, keys, join, .. } => (right, keys.as_slice(), join),
            Operator::LoopJoin { right, join, .. } => (right, [].as_slice(), join),
            _ => return Ok(None),
        };
        if self.right.is_none() {
            self.right = Some(keep(run, right, keys).await?);
        }
        let kept = self.right.as_ref().ok_or_else(|| SqlError::internal("a join without rows"))?;
        let mut joined = Vec::new();
        for left in rows {
            let before = joined.len();
            let all;
            let candidates: &[usize] = match &kept.by_key {
                Some(by_key) => match key_of(run, keys, &left, true).await? {
                    Some(key) => by_key.get(&key).map_or(&[], Vec::as_slice),
                    None => &[],
                },
                None => {
                    all = (0..kept.rows.len()).collect::<Vec<_>>();
                    &all
                }
            };
            for chunk in candidates.chunks(PAIRS) {
                for at in chunk {
                    let row = merged(&left, &kept.rows[*at], join);
                    if run.all_hold(&join.conditions, &row).await? {
                        joined.push(row);
                    }
                }
                run.worked(chunk.len() / 8 + 1).await?;
            }
            if join.outer && joined.len() == before {
                joined.push(left);
            }
        }
        Ok(Some(joined))
    }
}

async fn keep(run: &mut Run<'_>, right: &Operator, keys: &[HashKey]) -> Result<Kept, SqlError> {
    let rows = drain(run, right).await?;
    if keys.is_empty() {
        return Ok(Kept { rows, by_key: None });
    }
    let mut by_key: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(key) = key_of(run, keys, row, false).await? {
            by_key.entry(key).or_default().push(at);
        }
    }
    run.worked(rows.len()).await?;
    Ok(Kept { rows, by_key: Some(by_key) })
}

/// The key of a row; none when a NULL in it keeps it from matching anything.
pub(crate) async fn key_of(
    run: &mut Run<'_>,
    keys: &[HashKey],
    row: &[Datum],
    of_left: bool,
) -> Result<Option<Vec<u8>>, SqlError> {
    let mut all = Vec::new();
    for key in keys {
        let formula = if of_left { &key.left } else { &key.right };
        let value = run.value(formula, row).await?;
        if value.is_null() {
            if !key.null_safe {
                return Ok(None);
            }
            all.push(0);
            continue;
        }
        all.push(1);
        let mut part = Vec::new();
        let of = formula.expression.sql_type();
        if !key.comparison.key_of(&value, of, &mut run.context, &mut part)? {
            // Nothing equals it.
            return Ok(None);
        }
        all.extend((part.len() as u32).to_le_bytes());
        all.append(&mut part);
    }
    Ok(Some(all))
}

/// A left row with the right side's part filled in.
fn merged(left: &Row, right: &Row, join: &JoinSpec) -> Row {
    let mut row = left.clone();
    for (from, to) in &join.right_places {
        row[*from..*to].clone_from_slice(&right[*from..*to]);
    }
    row
}

/// The rows that lookups have found, those for which the conditions hold; for an outer join also
/// the rows that have found nothing.
pub(crate) async fn matches(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    found: Vec<Vec<Row>>,
    of_scan: &[Formula],
    join: &JoinSpec,
) -> Result<Vec<Row>, SqlError> {
    let mut joined = Vec::with_capacity(rows.len());
    for (left, candidates) in rows.into_iter().zip(found) {
        let before = joined.len();
        for row in candidates {
            if run.all_hold(of_scan, &row).await? && run.all_hold(&join.conditions, &row).await? {
                joined.push(row);
            }
        }
        if join.outer && joined.len() == before {
            joined.push(left);
        }
    }
    run.worked(joined.len()).await?;
    Ok(joined)
}
