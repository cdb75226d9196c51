//! Tables that are made of their own rows, and tables that are made for each row: WITH RECURSIVE,
//! LATERAL.
//!
//! # Limits
//! `cte_max_recursion_depth` rounds, then error 3636. All rows are in memory; too many are error
//! 3170.

use std::rc::Rc;

use sql_expression::{SqlError, group_key};
use sqltype::{Converter, Datum, Place, Problems, SqlType, StoreMode};

use crate::execute::cursor::drain;
use crate::execute::kept::Kept;
use crate::execute::row::of_problem;
use crate::execute::run::{Run, Seen};
use crate::execute::scan::limits;
use crate::execute::spilled::buffer::Buffered;
use crate::memory::Held;
use crate::plan::operator::{DerivedScan, Recursion};
use crate::rows::{Row, memory_of};

/// What errors say that too much of is kept.
const ROWS: &str = "the rows of a recursive table";

/// The rows of a recursive table.
pub(crate) async fn recursive_rows(
    run: &mut Run<'_>,
    recursion: &Recursion,
) -> Result<Kept, SqlError> {
    let most = run.session.variables.cte_max_recursion_depth;
    let (count, offset) = match &recursion.bounds {
        Some(bounds) => limits(run, bounds).await?,
        None => (None, 0),
    };
    let enough = count.map_or(usize::MAX, |count| {
        usize::try_from(count.saturating_add(offset)).unwrap_or(usize::MAX)
    });
    let types: Vec<&SqlType> = recursion.columns.iter().map(|(_, sql_type)| sql_type).collect();
    let mut seen = Seen::default();
    let mut of_seen = run.hold(ROWS);
    let mut fresh = |row: &Row| -> Result<bool, SqlError> {
        if !recursion.distinct {
            return Ok(true);
        }
        seen.is_new(group_key(row, types.iter().copied()), &mut of_seen)
    };
    let Kept { rows: first, mut held } = drain(run, &recursion.first).await?;
    let mut all = only(first, &mut fresh)?;
    held.set(memory_of(&all))?;
    let mut newest = all.clone();
    let mut of_newest = run.hold(ROWS);
    of_newest.set(memory_of(&newest))?;
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
        let Kept { rows: next, held: of_next } = next?;
        (newest, of_newest) = (only(next, &mut fresh)?, of_next);
        run.worked(newest.len() + 1).await?;
        held.add(memory_of(&newest))?;
        all.extend_from_slice(&newest);
    }
    drop(of_newest);
    all.truncate(enough);
    all.drain(..usize::try_from(offset).unwrap_or(usize::MAX).min(all.len()));
    Ok(Kept { rows: all, held })
}

/// The rows that are wanted.
fn only(
    rows: Vec<Row>,
    mut wanted: impl FnMut(&Row) -> Result<bool, SqlError>,
) -> Result<Vec<Row>, SqlError> {
    let mut kept = Vec::with_capacity(rows.len());
    for row in rows {
        if wanted(&row)? {
            kept.push(row);
        }
    }
    Ok(kept)
}

/// What the parts make of the newest rows.
async fn next_round(run: &mut Run<'_>, recursion: &Recursion) -> Result<Kept, SqlError> {
    let (mut rows, mut held) = (Vec::new(), run.hold(ROWS));
    for (part, types) in &recursion.parts {
        let Kept { rows: of_part, held: taken } = drain(run, part).await?;
        held.take_over(taken);
        for mut row in of_part {
            run.worked(1).await?;
            for ((value, of), (name, to)) in row.iter_mut().zip(types).zip(&recursion.columns) {
                let given = std::mem::replace(value, Datum::Null);
                *value = stored(run, given, of, name, to)?;
            }
            rows.push(row);
        }
    }
    Ok(Kept { rows, held })
}

/// A value as one of the column, whose type the first part has fixed: what does not fit is an error
/// in a strict SQL mode, and cut off in others.
fn stored(
    run: &mut Run<'_>,
    value: Datum,
    of: &SqlType,
    name: &str,
    to: &SqlType,
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
) -> Result<(Vec<Vec<Row>>, Held), SqlError> {
    let mut held = run.hold("the rows of a LATERAL table");
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        run.context.push_outer(row.clone());
        let found = run.rows_of(&scan.plan, None).await;
        run.context.pop_outer();
        let found = found?.rows;
        run.worked(found.len() + 1).await?;
        let placed = |values: Row| {
            let mut joined = row.clone();
            for (place, value) in joined[scan.offset..].iter_mut().zip(values) {
                *place = value;
            }
            joined
        };
        let found: Vec<Row> = found.into_iter().map(placed).collect();
        held.add(memory_of(&found))?;
        all.push(found);
    }
    Ok((all, held))
}

/// The rows of a query in FROM. One that was defined further out sees the rows of the blocks there.
pub(crate) async fn rows_of_derived(
    run: &mut Run<'_>,
    scan: &DerivedScan,
) -> Result<Buffered, SqlError> {
    let kept = run.context.outer.len().saturating_sub(scan.out);
    let inner = run.context.outer.split_off(kept);
    let rows = run.buffered(&scan.plan).await;
    run.context.outer.extend(inner);
    rows
}
