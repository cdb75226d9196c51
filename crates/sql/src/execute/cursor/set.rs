//! UNION, EXCEPT, INTERSECT.

use std::collections::BTreeMap;

use sql_expression::{SqlError, group_key};
use sqltype::SqlType;

use super::{Kept, drain};
use crate::execute::run::{KEY_BYTES, Row, Run, Seen, memory_of};
use crate::memory::Held;
use crate::plan::operator::{Operator, SetKind};

/// How often rows come, by their values.
type Counts = BTreeMap<Vec<u8>, usize>;

/// The rows of some operators put together.
pub(super) async fn combined(
    run: &mut Run<'_>,
    first: &Operator,
    rest: &[(SetKind, Operator)],
    types: &[SqlType],
) -> Result<Kept, SqlError> {
    let (mut rows, mut held) = drain(run, first).await?;
    for (kind, operator) in rest {
        let (mut other, mut of_other) = drain(run, operator).await?;
        rows = match kind {
            SetKind::UnionAll => {
                rows.append(&mut other);
                rows
            }
            SetKind::Union => {
                rows.append(&mut other);
                once(run, rows, types, &mut of_other).await?
            }
            SetKind::Except | SetKind::ExceptAll => {
                let all = *kind == SetKind::ExceptAll;
                let mut counts = counted(run, &other, types, &mut of_other).await?;
                let kept = |key: Vec<u8>| match counts.get_mut(&key) {
                    Some(count) if all && *count > 0 => {
                        *count -= 1;
                        Ok(false)
                    }
                    Some(_) => Ok(all),
                    None => Ok(true),
                };
                let kept = filtered(run, rows, types, kept).await?;
                if all { kept } else { once(run, kept, types, &mut of_other).await? }
            }
            SetKind::Intersect | SetKind::IntersectAll => {
                let all = *kind == SetKind::IntersectAll;
                let mut counts = counted(run, &other, types, &mut of_other).await?;
                let kept = |key: Vec<u8>| match counts.get_mut(&key) {
                    Some(count) if *count > 0 => {
                        *count -= usize::from(all);
                        Ok(true)
                    }
                    _ => Ok(false),
                };
                let kept = filtered(run, rows, types, kept).await?;
                if all { kept } else { once(run, kept, types, &mut of_other).await? }
            }
        };
        drop(of_other);
        held.set(memory_of(&rows))?;
    }
    Ok((rows, held))
}

/// How often the rows come; the keys are held beside the rows.
async fn counted(
    run: &mut Run<'_>,
    rows: &[Row],
    types: &[SqlType],
    held: &mut Held,
) -> Result<Counts, SqlError> {
    let mut counts = Counts::new();
    for row in rows {
        let key = group_key(row, types);
        let bytes = KEY_BYTES + key.len();
        let count = counts.entry(key).or_insert(0);
        if *count == 0 {
            held.add(bytes)?;
        }
        *count += 1;
        run.worked(1).await?;
    }
    Ok(counts)
}

/// The rows whose keys are wanted.
async fn filtered(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    types: &[SqlType],
    mut wanted: impl FnMut(Vec<u8>) -> Result<bool, SqlError>,
) -> Result<Vec<Row>, SqlError> {
    let mut kept = Vec::new();
    for row in rows {
        if wanted(group_key(&row, types))? {
            kept.push(row);
        }
        run.worked(1).await?;
    }
    Ok(kept)
}

/// Each row once; the keys are held beside the rows.
async fn once(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    types: &[SqlType],
    held: &mut Held,
) -> Result<Vec<Row>, SqlError> {
    let mut seen = Seen::default();
    filtered(run, rows, types, |key| seen.is_new(key, held)).await
}
