//! Window functions at work.
//!
//! # Owns
//! The order of steps: rows are collected, sorted once for each order that is asked for, cut into
//! partitions, and given their results.
//! # Limits
//! The rows of a partition are in memory; all of them, as long as they fit.

use sql_expression::{Level, SqlError, WindowEvaluation, compare_values, peers};
use sqltype::Datum;

use crate::execute::cursor::sort::{Sorter, sorted};
use crate::execute::cursor::{Cursor, Work, open};
use crate::execute::kept::Kept;
use crate::execute::run::Run;
use crate::execute::spilled::Spilled;
use crate::execute::spilled::buffer::{Buffered, RowBuffer};
use crate::logical::formula::SortBy;
use crate::memory::Held;
use crate::plan::operator::{WindowStep, Windows};
use crate::rows::{Row, memory_of, memory_of_row};

/// Rows computed between two looks at the clock.
const ROWS: usize = 1_024;

/// What errors say that too much of is kept.
const WINDOWED: &str = "the rows of window functions";
/// The same where the others are in files.
const PARTITION: &str = "the rows of a partition of window functions";
/// About what a row takes while it is sorted and computed with, beside its values.
const WORK_BYTES: usize = 128;

/// The rows of the input with the results of all functions.
pub(crate) async fn windowed<'p>(
    run: &mut Run<'_>,
    windows: &'p Windows,
) -> Result<Work<'p>, SqlError> {
    note_ignored_frames(run, windows);
    let (mut rows, mut held) = (Vec::new(), run.hold(WINDOWED));
    let more = if run.may_spill() { WORK_BYTES } else { 0 };
    let mut cursor = open(&windows.input);
    while let Some(batch) = cursor.next(run).await? {
        let mut batch = batch.into_iter();
        while let Some(row) = batch.next() {
            let row = computed(run, windows, row).await?;
            let fits = held.fits(memory_of_row(&row) + more)?;
            rows.push(row);
            if !fits {
                for row in batch {
                    rows.push(computed(run, windows, row).await?);
                }
                return Box::pin(spilled(run, windows, Kept { rows, held }, cursor)).await;
            }
            run.worked_a_row().await?;
        }
    }
    held.give_back(more * rows.len());
    // Little more than is held for it, where others spill.
    held.be_lenient(run.may_spill());
    for step in &windows.steps {
        if let Some(keys) = step.sort.as_ref().filter(|keys| !keys.is_empty()) {
            Kept { rows, held } = sorted(run, Kept { rows, held }, keys, None).await?;
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
    held.be_lenient(false);
    Ok(Work::Rows(rows.into(), held))
}

/// A row with places for results, and what is computed of it.
async fn computed(run: &mut Run<'_>, windows: &Windows, mut row: Row) -> Result<Row, SqlError> {
    row.truncate(windows.width);
    row.resize(windows.width + windows.results, Datum::Null);
    for formula in &windows.computed {
        let value = run.value(formula, &row).await?;
        row.push(value);
    }
    Ok(row)
}

/// Rows on their way to a step, or to whoever reads the results.
enum Stage<'p> {
    Sort(Sorter<'p>),
    AsTheyCome(RowBuffer),
}

impl<'p> Stage<'p> {
    /// Before a step; none is the end.
    fn before(run: &Run<'_>, step: Option<&'p WindowStep>) -> Self {
        let keys = step.and_then(|step| step.sort.as_ref()).filter(|keys| !keys.is_empty());
        match keys {
            Some(keys) => Self::Sort(Sorter::new(run, keys, None)),
            None => Self::AsTheyCome(RowBuffer::new(run, WINDOWED)),
        }
    }

    async fn add(&mut self, run: &mut Run<'_>, rows: Vec<Row>) -> Result<(), SqlError> {
        match self {
            Self::Sort(sorter) => sorter.add(run, rows).await,
            Self::AsTheyCome(buffer) => buffer.add(run, rows).await,
        }
    }

    async fn finish(self, run: &mut Run<'_>) -> Result<Work<'p>, SqlError> {
        Ok(match self {
            Self::Sort(sorter) => sorter.finish(run).await?.into(),
            Self::AsTheyCome(buffer) => match buffer.finish()? {
                Buffered::Kept(Kept { rows, held }) => Work::Rows(rows.into(), held),
                Buffered::File(rows) => Spilled::Rows(rows.read()).into(),
            },
        })
    }
}

/// The same of more rows than fit memory: each step reads them in its order, and has one partition
/// at a time in memory.
async fn spilled<'p>(
    run: &mut Run<'_>,
    windows: &'p Windows,
    Kept { rows, held }: Kept,
    mut cursor: Cursor<'_>,
) -> Result<Work<'p>, SqlError> {
    let mut stage = Stage::before(run, windows.steps.first());
    drop(held);
    stage.add(run, rows).await?;
    while let Some(batch) = cursor.next(run).await? {
        let mut rows = Vec::with_capacity(batch.len());
        for row in batch {
            rows.push(computed(run, windows, row).await?);
            run.worked_a_row().await?;
        }
        stage.add(run, rows).await?;
    }
    drop(cursor);
    for (at, step) in windows.steps.iter().enumerate() {
        let mut input = stage.finish(run).await?;
        let next = windows.steps.get(at + 1);
        stage = Stage::before(run, next);
        let (mut one, mut held): (Vec<Row>, Held) = (Vec::new(), run.hold(PARTITION));
        loop {
            let rows = input.step(run).await?;
            let is_end = rows.is_none();
            for row in rows.into_iter().flatten() {
                if one.first().is_some_and(|first| !is_same(first, &row, &step.partition)) {
                    give(run, windows, step, next.is_none(), &mut one, &mut stage).await?;
                    held.set(0)?;
                }
                let bytes = memory_of_row(&row) + size_of::<usize>() + size_of::<Datum>();
                if !held.fits(bytes)? {
                    held.add(bytes)?;
                }
                one.push(row);
            }
            if is_end {
                give(run, windows, step, next.is_none(), &mut one, &mut stage).await?;
                break;
            }
        }
    }
    stage.finish(run).await
}

/// Gives the rows of a partition with the results of a step to the next one.
async fn give(
    run: &mut Run<'_>,
    windows: &Windows,
    step: &WindowStep,
    is_last: bool,
    rows: &mut Vec<Row>,
    to: &mut Stage<'_>,
) -> Result<(), SqlError> {
    let mut rows = std::mem::take(rows);
    partition_results(run, step, &mut rows).await?;
    if is_last {
        rows.iter_mut().for_each(|row| row.truncate(windows.width + windows.results));
    }
    to.add(run, rows).await
}

/// How many rows the first partition has.
fn partition(rows: &[Row], keys: &[SortBy]) -> usize {
    let Some(first) = rows.first() else { return 0 };
    rows.iter().position(|row| !is_same(first, row, keys)).unwrap_or(rows.len())
}

/// Whether two rows are in one partition.
fn is_same(first: &Row, row: &Row, keys: &[SortBy]) -> bool {
    keys.iter().all(|key| match key.formula.expression.as_column() {
        Some(place) => {
            let place = place as usize;
            let sql_type = key.formula.expression.sql_type();
            compare_values(&first[place], &row[place], sql_type).is_eq()
        }
        None => true,
    })
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
