//! UNION, EXCEPT, INTERSECT.

mod spilled;

use std::collections::BTreeMap;

use sql_expression::{SqlError, group_key};
use sqltype::SqlType;

use super::{Work, open};
use crate::execute::kept::Kept;
use crate::execute::run::{KEY_BYTES, Run, Seen};
use crate::execute::spilled::Spilled;
use crate::execute::spilled::buffer::{Buffered, RowBuffer};
use crate::logical::formula::SetKind;
use crate::memory::Held;
use crate::plan::operator::PlanNode;
use crate::rows::{Row, memory_of};

pub(crate) use spilled::SpilledSet;

/// How often rows come, by their values.
type Counts = BTreeMap<Vec<u8>, usize>;

/// The rows of some operators put together.
pub(super) async fn combined<'p>(
    run: &mut Run<'_>,
    first: &'p PlanNode,
    rest: &'p [(SetKind, PlanNode)],
    types: &'p [SqlType],
) -> Result<Work<'p>, SqlError> {
    let mut all = buffered(run, first).await?;
    for (at, (kind, operator)) in rest.iter().enumerate() {
        let other = buffered(run, operator).await?;
        let (mut kept, mut others) = match (all, other) {
            (Buffered::Kept(kept), Buffered::Kept(others)) => (kept, others),
            (all, other) => {
                let spilled = SpilledSet::new(run, all, other, &rest[at..], types).await?;
                return Ok(Spilled::Set(Box::new(spilled)).into());
            }
        };
        if run.may_spill() {
            // The keys of either, which are about as long as the rows.
            let count = kept.rows.len() + others.rows.len();
            let of_keys = KEY_BYTES * count + kept.held.bytes() + others.held.bytes();
            if !others.held.fits(of_keys)? {
                let (all, other) = (Buffered::Kept(kept), Buffered::Kept(others));
                let spilled = SpilledSet::new(run, all, other, &rest[at..], types).await?;
                return Ok(Spilled::Set(Box::new(spilled)).into());
            }
            others.held.give_back(of_keys);
            others.held.be_lenient(true);
            kept.held.be_lenient(true);
        }
        let Kept { rows, mut held } = kept;
        let rows = step(run, *kind, rows, others, types).await?;
        held.set(memory_of(&rows))?;
        held.be_lenient(false);
        all = Buffered::Kept(Kept { rows, held });
    }
    match all {
        Buffered::Kept(Kept { rows, held }) => Ok(Work::Rows(rows.into(), held)),
        Buffered::File(rows) => Ok(Spilled::Rows(rows.read()).into()),
    }
}

async fn buffered(run: &mut Run<'_>, operator: &PlanNode) -> Result<Buffered, SqlError> {
    RowBuffer::new(run, "the rows of an operator").drain(run, open(operator)).await
}

/// The rows of one operation, in memory.
pub(super) async fn step(
    run: &mut Run<'_>,
    kind: SetKind,
    mut rows: Vec<Row>,
    Kept { rows: mut other, held: mut of_other }: Kept,
    types: &[SqlType],
) -> Result<Vec<Row>, SqlError> {
    Ok(match kind {
        SetKind::UnionAll => {
            rows.append(&mut other);
            rows
        }
        SetKind::Union => {
            rows.append(&mut other);
            once(run, rows, types, &mut of_other).await?
        }
        SetKind::Except | SetKind::ExceptAll => {
            let all = kind == SetKind::ExceptAll;
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
            let all = kind == SetKind::IntersectAll;
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
    })
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
