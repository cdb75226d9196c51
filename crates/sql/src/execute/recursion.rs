//! Tables that are made of their own rows, and tables that are made for each row: WITH RECURSIVE,
//! LATERAL.
//!
//! # Limits
//! `cte_max_recursion_depth` rounds, then error 3636. All rows are in memory.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{SqlError, group_key};
use sqltype::{Converter, Datum, Place, Problems, SqlType, StoreMode};

use crate::execute::cursor::drain;
use crate::execute::row::of_problem;
use crate::execute::run::{Row, Run};
use crate::execute::scan::limits;
use crate::plan::common_table::Recursion;
use crate::plan::operator::DerivedScan;

/// The rows of a recursive table.
pub(crate) async fn recursive_rows(
    run: &mut Run<'_>,
    recursion: &Recursion,
) -> Result<Vec<Row>, SqlError> {
    let most = run.session.variables.cte_max_recursion_depth;
    let (count, offset) = match &recursion.bounds {
        Some(bounds) => limits(run, bounds).await?,
        None => (None, 0),
    };
    let enough = count.map_or(usize::MAX, |count| {
        usize::try_from(count.saturating_add(offset)).unwrap_or(usize::MAX)
    });
    let types: Vec<&SqlType> = recursion.columns.iter().map(|(_, sql_type)| sql_type).collect();
    let mut seen = BTreeSet::new();
    let mut fresh =
        |row: &Row| !recursion.distinct || seen.insert(group_key(row, types.iter().copied()));
    let mut all = drain(run, &recursion.first).await?;
    all.retain(&mut fresh);
    let mut newest = all.clone();
    let mut round = 0;
    while !newest.is_empty() && all.len() < enough {
        round += 1;
        if round > most {
            return Err(SqlError::of::<3636>(&[&round]));
        }
        let before = run.work_tables.insert(recursion.number, Rc::new(newest));
        let next = next_round(run, recursion).await;
        match before {
            Some(before) => run.work_tables.insert(recursion.number, before),
            None => run.work_tables.remove(&recursion.number),
        };
        newest = next?;
        newest.retain(&mut fresh);
        run.worked(newest.len() + 1).await?;
        all.extend_from_slice(&newest);
    }
    all.truncate(enough);
    all.drain(..usize::try_from(offset).unwrap_or(usize::MAX).min(all.len()));
    Ok(all)
}

/// What the parts make of the newest rows.
async fn next_round(run: &mut Run<'_>, recursion: &Recursion) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    for (part, types) in &recursion.parts {
        for mut row in drain(run, part).await? {
            for ((value, of), (name, to)) in row.iter_mut().zip(types).zip(&recursion.columns) {
                let given = std::mem::replace(value, Datum::Null);
                *value = stored(run, given, of, (name, to))?;
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A value as one of the column, whose type the first part has fixed: what does not fit is an error
/// in a strict SQL mode, and cut off in others.
fn stored(
    run: &mut Run<'_>,
    value: Datum,
    of: &SqlType,
    (name, to): (&str, &SqlType),
) -> Result<Datum, SqlError> {
    if value.is_null() {
        return Ok(value);
    }
    let facts = run.context.facts.clone();
    let mode = StoreMode {
        strict: facts.sql_mode.is_strict(),
        no_zero_date: false,
        no_zero_in_date: false,
        truncate_fractions: false,
    };
    let mut problems = Problems::new();
    let (zone, now) = (&facts.time_zone, run.context.now);
    let mut converter = Converter { mode, zone, now, problems: &mut problems };
    let place = Place { table: "", column: name, row: 1 };
    let stored = converter.store(value, of, to, place);
    for problem in problems.list() {
        run.context.note(sql_expression::Level::Warning, of_problem(problem));
    }
    stored.map_err(|problem| of_problem(&problem))
}

/// The rows of a LATERAL table for each of these rows, at their places.
pub(crate) async fn lateral_rows(
    run: &mut Run<'_>,
    scan: &DerivedScan,
    rows: &[Row],
) -> Result<Vec<Vec<Row>>, SqlError> {
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        run.context.push_outer(row.clone());
        let found = run.rows_of(&scan.plan, None).await;
        run.context.pop_outer();
        let found = found?;
        run.worked(found.len() + 1).await?;
        let placed = |values: Row| {
            let mut joined = row.clone();
            for (place, value) in joined[scan.offset..].iter_mut().zip(values) {
                *place = value;
            }
            joined
        };
        all.push(found.into_iter().map(placed).collect());
    }
    Ok(all)
}

/// The rows of a query in FROM. One that was defined further out sees the rows of the blocks there.
pub(crate) async fn rows_of_derived(
    run: &mut Run<'_>,
    scan: &DerivedScan,
) -> Result<Vec<Row>, SqlError> {
    let kept = run.context.outer.len().saturating_sub(scan.out);
    let inner = run.context.outer.split_off(kept);
    let rows = run.rows_of(&scan.plan, None).await;
    run.context.outer.extend(inner);
    rows
}
