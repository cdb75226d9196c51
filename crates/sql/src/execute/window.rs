//! Window functions at work.
//!
//! # Owns
//! The order of steps: rows are collected, sorted once for each order that is asked for, cut into
//! partitions, and given their results.
//! # Limits
//! All rows are in memory, as those of a sort.

use sql_expression::{Level, SqlError, WindowEvaluation, compare_values, peers};
use sqltype::Datum;

use crate::execute::cursor::sort::sorted;
use crate::execute::cursor::{Kept, open};
use crate::execute::run::{Row, Run, memory_of, memory_of_row};
use crate::plan::operator::SortBy;
use crate::plan::window::{WindowStep, Windows};

/// Rows computed between two looks at the clock.
const ROWS: usize = 1_024;

/// The rows of the input with the results of all functions.
pub(crate) async fn windowed(run: &mut Run<'_>, windows: &Windows) -> Result<Kept, SqlError> {
    note_ignored_frames(run, windows);
    let (mut rows, mut held) = (Vec::new(), run.hold("the rows of window functions"));
    let mut cursor = open(&windows.input);
    while let Some(batch) = cursor.next(run).await? {
        for mut row in batch {
            row.truncate(windows.width);
            row.resize(windows.width + windows.results, Datum::Null);
            for formula in &windows.computed {
                let value = run.value(formula, &row).await?;
                row.push(value);
            }
            held.add(memory_of_row(&row))?;
            rows.push(row);
            run.worked_a_row().await?;
        }
    }
    for step in &windows.steps {
        if let Some(keys) = step.sort.as_ref().filter(|keys| !keys.is_empty()) {
            (rows, held) = sorted(run, (rows, held), keys, None).await?;
        }
        // Of each row where its peers begin, and a result.
        let before = held.bytes();
        held.add(rows.len() * (size_of::<usize>() + size_of::<Datum>()))?;
        let mut rest = rows.as_mut_slice();
        while !rest.is_empty() {
            let size = partition(rest, &step.partition);
            let (one, others) = rest.split_at_mut(size);
            partition_results(run, step, one).await?;
            rest = others;
        }
        held.set(before)?;
    }
    for row in &mut rows {
        row.truncate(windows.width + windows.results);
    }
    held.set(memory_of(&rows))?;
    Ok((rows, held))
}

/// How many rows the first partition has.
fn partition(rows: &[Row], keys: &[SortBy]) -> usize {
    let Some(first) = rows.first() else { return 0 };
    let same = |row: &Row| {
        keys.iter().all(|key| match key.formula.expression.as_column() {
            Some(place) => {
                let place = place as usize;
                let sql_type = key.formula.expression.sql_type();
                compare_values(&first[place], &row[place], sql_type).is_eq()
            }
            None => true,
        })
    };
    rows.iter().position(|row| !same(row)).unwrap_or(rows.len())
}

async fn partition_results(
    run: &mut Run<'_>,
    step: &WindowStep,
    rows: &mut [Row],
) -> Result<(), SqlError> {
    let Some((_, first)) = step.calls.first() else { return Ok(()) };
    let peers = peers(&first.window.order_by, rows);
    for (place, call) in &step.calls {
        let mut values = Vec::with_capacity(rows.len());
        let mut work = WindowEvaluation::new(call, rows, &peers, &mut run.context)?;
        for at in 0..rows.len() {
            values.push(work.value(at, &mut run.context)?);
            if at % ROWS == ROWS - 1 {
                run.worked(ROWS).await?;
            }
        }
        for (row, value) in rows.iter_mut().zip(values) {
            row[*place] = value;
        }
    }
    run.worked(rows.len() % ROWS).await
}

/// A frame that was written for a function that does not look at it is worth a note.
fn note_ignored_frames(run: &mut Run<'_>, windows: &Windows) {
    for (_, call) in windows.steps.iter().flat_map(|step| &step.calls) {
        if call.window.frame.given && call.ignores_frame() {
            let note = SqlError::of::<3599>(&[&call.kind.name(), &call.window.name]);
            run.context.note(Level::Note, note);
        }
    }
}
