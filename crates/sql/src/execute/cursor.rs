//! Operators at work: each gives rows in batches until it has none.
//!
//! # Owns
//! A cursor per operator. Scans, lookups, filters and projections pass batches on as they come;
//! sorting, grouping and the right sides of joins collect first.
//! # Guarantees
//! What a client does not read is not computed far ahead: a batch is asked for when it is wanted.

pub(crate) mod group;
pub(crate) mod join;
pub(crate) mod set;
pub(crate) mod sort;

use std::collections::VecDeque;
use std::sync::Arc;

use sql_expression::{LARGE, SqlError};
use sqltype::{Datum, SqlType};
use vector::Program;

use crate::execute::columns::{self, ColumnBatch, ColumnCursor, FirstRows, Stop};
use crate::execute::computed;
use crate::execute::json_table;
use crate::execute::pushdown;
use crate::execute::recursion;
use crate::execute::run::{Boxed, Run};
use crate::execute::scan::{TableCursor, limits, look_up};
use crate::execute::spilled::Spilled;
use crate::execute::spilled::buffer::Buffered;
use crate::execute::spilled::distinct::Distinct;
use crate::execute::window::windowed;
use crate::memory::Held;
use crate::plan::operator::{
    AccessPath, DerivedScan, Edge, Formula, Operator, SetKind, SortBy, TableScan, VirtualScan,
};
use crate::rows::{Row, memory_of, memory_of_row};
use crate::spill::rows::RowReader;

/// Rows given at a time by operators that have collected them all.
const BATCH: usize = 256;
/// Rows of which conditions with subqueries are checked at first; twice as many each time after.
const CHECKED_ROWS: usize = 16;
/// Rows made of columns at a time.
const COLUMN_ROWS: usize = 1_024;
/// Bytes of values that are made for a batch of rows, about.
const BATCH_BYTES: usize = 1 << 20;

/// Rows that are kept, and what they take.
pub(crate) type Kept = (Vec<Row>, Held);

/// An operator at work.
pub(crate) struct Cursor<'p> {
    pub(crate) operator: &'p Operator,
    pub(crate) work: Work<'p>,
    begun: bool,
}

/// How it works.
pub(crate) enum Work<'p> {
    /// Rows that are there, and what they take.
    Rows(VecDeque<Row>, Held),
    /// Rows that some work at the beginning gives.
    Collect(&'p Operator),
    /// Rows that are in temporary files.
    Spilled(Box<Spilled<'p>>),
    /// Rows of a query in FROM, which are put at their places when they are asked for.
    Derived(Narrow, &'p DerivedScan),
    Table(Box<TableCursor<'p>>),
    Lookup {
        input: Box<Cursor<'p>>,
        operator: &'p Operator,
        /// What the rows given last take.
        held: Option<Held>,
    },
    Lateral {
        input: Box<Cursor<'p>>,
        operator: &'p Operator,
        held: Option<Held>,
    },
    Join(Box<join::JoinCursor<'p>>),
    /// What may be done on columns: decided with the first rows.
    Open(&'p Operator),
    /// Rows of columns; the operator, as long as none has been given.
    Columns {
        cursor: Box<ColumnCursor<'p>>,
        untried: Option<&'p Operator>,
        /// The batch at hand, and how many of its rows have been given.
        rest: Option<(ColumnBatch, usize)>,
    },
    Filter {
        input: Box<Cursor<'p>>,
        conditions: &'p [Formula],
        /// Rows of the input that are not looked at yet, and how many of them are at a time.
        rest: VecDeque<Row>,
        step: usize,
        /// As many as are wanted.
        most: usize,
    },
    Project {
        input: Box<Cursor<'p>>,
        expressions: &'p [Formula],
        /// Columns that only move, if that is all.
        moved: Option<Vec<usize>>,
        /// Rows of the input that are not looked at yet.
        rest: VecDeque<Row>,
        /// As many as are wanted.
        most: usize,
    },
    Distinct {
        /// None once all of its rows have come.
        input: Option<Box<Cursor<'p>>>,
        distinct: Option<Box<Distinct<'p>>>,
        types: &'p [SqlType],
    },
    Limit {
        input: Box<Cursor<'p>>,
        operator: &'p Operator,
        left: Option<(u64, u64)>,
    },
    UnionAll {
        first: Option<Box<Cursor<'p>>>,
        rest: VecDeque<&'p Operator>,
    },
}

/// Rows that are narrower than the row of the block.
pub(crate) enum Narrow {
    Kept(VecDeque<Row>, Held),
    File(Box<RowReader>),
}

impl Narrow {
    /// The next rows, at their places in the row of the block; nothing at the end.
    async fn next(
        &mut self,
        run: &mut Run<'_>,
        scan: &DerivedScan,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let rows = match self {
            Self::Kept(rows, held) => some_of(rows, held, BATCH),
            Self::File(reader) => reader.next(run).await?,
        };
        let Some(rows) = rows else { return Ok(None) };
        let held = run.hold_in_passing("the rows of a subquery");
        let placed = placed(run, (rows, held), scan.offset, scan.width, &scan.conditions).await?;
        Ok(Some(placed.0))
    }
}

/// The first rows of those that are kept, at most so many, which are held no longer; nothing if
/// there are none.
pub(crate) fn some_of(rows: &mut VecDeque<Row>, held: &mut Held, most: usize) -> Option<Vec<Row>> {
    let count = rows.len().min(most);
    if count == 0 {
        return None;
    }
    held.give_up(count, rows.len());
    Some(rows.drain(..count).collect())
}

/// Begins an operator.
pub(crate) fn open(operator: &Operator) -> Cursor<'_> {
    Cursor { operator, work: work_of(operator), begun: false }
}

fn work_of(operator: &Operator) -> Work<'_> {
    match operator {
        // A condition that waits for a subquery may be checked on columns.
        Operator::Scan(scan) if !scan.conditions.iter().all(Formula::is_ready) => {
            Work::Open(operator)
        }
        Operator::Scan(_) => work_on_rows(operator),
        Operator::Lookup { .. } => Work::Open(operator),
        Operator::Lateral { input, .. } => {
            Work::Lateral { input: Box::new(open(input)), operator, held: None }
        }
        Operator::HashJoin { .. } | Operator::LoopJoin { .. } | Operator::Filter { .. } => {
            Work::Open(operator)
        }
        Operator::Project { input, expressions } => {
            let moved = columns_once(expressions.iter());
            let (rest, most) = (VecDeque::new(), usize::MAX);
            Work::Project { input: Box::new(open(input)), expressions, moved, rest, most }
        }
        Operator::Distinct { input, types } => {
            Work::Distinct { input: Some(Box::new(open(input))), distinct: None, types }
        }
        Operator::Limit { input, .. } => {
            // What gives its first rows soon is worth more here.
            let input = match &**input {
                Operator::LoopJoin { .. } | Operator::Filter { .. } => {
                    Cursor { operator: input, work: work_on_rows(input), begun: false }
                }
                _ => open(input),
            };
            Work::Limit { input: Box::new(input), operator, left: None }
        }
        Operator::Set { first, rest, .. }
            if rest.iter().all(|(kind, _)| *kind == SetKind::UnionAll) =>
        {
            let rest = rest.iter().map(|(_, operator)| operator).collect();
            Work::UnionAll { first: Some(Box::new(open(first))), rest }
        }
        Operator::Rows(_)
        | Operator::Nothing { .. }
        | Operator::Virtual(_)
        | Operator::JsonTable(_)
        | Operator::Derived(_)
        | Operator::Recursive(_)
        | Operator::WorkTable { .. }
        | Operator::Aggregate(_)
        | Operator::Window(_)
        | Operator::Edges { .. }
        | Operator::Sort { .. }
        | Operator::Set { .. } => Work::Collect(operator),
    }
}

/// A scan, a join or a filter, row by row.
pub(crate) fn work_on_rows(operator: &Operator) -> Work<'_> {
    match operator {
        Operator::Lookup { input, .. } => {
            Work::Lookup { input: Box::new(open(input)), operator, held: None }
        }
        Operator::Scan(scan) => Work::Table(Box::new(TableCursor::New(scan))),
        Operator::HashJoin { left, .. } | Operator::LoopJoin { left, .. } => {
            Work::Join(Box::new(join::JoinCursor::new(open(left), operator)))
        }
        Operator::Filter { input, conditions } => {
            // Who needs few rows has few checked with subqueries.
            let is_dear = conditions.iter().any(|condition| !condition.is_ready());
            let step = if is_dear { CHECKED_ROWS } else { usize::MAX };
            let (rest, most) = (VecDeque::new(), usize::MAX);
            Work::Filter { input: Box::new(open(input)), conditions, rest, step, most }
        }
        _ => work_of(operator),
    }
}

impl<'p> Cursor<'p> {
    /// The next rows, never none; nothing at the end, however often it is asked for.
    pub(crate) fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Boxed<'a, Option<Vec<Row>>> {
        Box::pin(async move {
            let entered = run.enter(self.operator, &mut self.begun);
            let batch = loop {
                match self.work.step(run).await {
                    Ok(Some(batch)) if batch.is_empty() => {}
                    batch => break batch,
                }
            };
            #[cfg(debug_assertions)]
            if matches!(batch, Ok(None)) && !std::mem::replace(&mut run.asks_again, true) {
                let again = self.work.step(run).await;
                run.asks_again = false;
                assert!(matches!(again, Ok(None)), "an operator goes on after its end: {again:?}");
            }
            let some = batch.as_ref().ok().and_then(Option::as_ref);
            run.leave(entered, some.map(Vec::len));
            batch
        })
    }
}

impl Work<'_> {
    /// Some rows, perhaps none; nothing at the end.
    pub(crate) async fn step(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        match self {
            Self::Rows(rows, held) => Ok(some_of(rows, held, BATCH)),
            Self::Collect(operator) => {
                *self = collect(run, operator).await?;
                Ok(Some(Vec::new()))
            }
            // What is rare has a place of its own: every operator's future is moved as a whole.
            Self::Spilled(spilled) => Box::pin(spilled.next(run)).await,
            Self::Derived(narrow, scan) => Box::pin(narrow.next(run, scan)).await,
            Self::Table(table) => table.next(run).await,
            Self::Open(_) | Self::Columns { .. } => self.step_columns(run).await,
            Self::Lookup { input, operator, held } => {
                let Operator::Lookup { scan, join, .. } = operator else { return Ok(None) };
                *held = None;
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let (found, of_found) = look_up(run, scan, &rows).await?;
                *held = of_found;
                join::matches(run, rows, found, &scan.conditions, join).await.map(Some)
            }
            Self::Lateral { input, operator, held } => {
                let Operator::Lateral { scan, join, .. } = operator else { return Ok(None) };
                *held = None;
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let (found, of_found) = recursion::lateral_rows(run, scan, &rows).await?;
                *held = Some(of_found);
                join::matches(run, rows, found, &scan.conditions, join).await.map(Some)
            }
            Self::Join(join) => join.next(run).await,
            Self::Filter { .. } => self.step_filter(run).await,
            Self::Project { input, expressions, moved, rest, most } => {
                if rest.is_empty() {
                    let Some(rows) = input.next(run).await? else { return Ok(None) };
                    if let Some(moved) = moved {
                        return projected(run, rows, moved).await.map(Some);
                    }
                    *rest = rows.into();
                }
                computed(run, rest, expressions, *most).await.map(Some)
            }
            Self::Distinct { input, distinct, types } => {
                let distinct = distinct.get_or_insert_with(|| Box::new(Distinct::new(run, types)));
                Box::pin(distinct.next(run, input)).await
            }
            Self::Limit { input, operator, left } => limited(run, input, operator, left).await,
            Self::UnionAll { first, rest } => {
                if let Some(cursor) = first {
                    if let Some(rows) = cursor.next(run).await? {
                        return Ok(Some(rows));
                    }
                    *first = None;
                }
                match rest.pop_front() {
                    Some(operator) => {
                        *first = Some(Box::new(open(operator)));
                        Ok(Some(Vec::new()))
                    }
                    None => Ok(None),
                }
            }
        }
    }
}

impl Work<'_> {
    /// Checks the conditions of some rows.
    async fn step_filter(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let Self::Filter { input, conditions, rest, step, most } = self else { return Ok(None) };
        if rest.is_empty() {
            let Some(rows) = input.next(run).await? else { return Ok(None) };
            *rest = rows.into();
        }
        let count = rest.len().min(*step);
        *step = step.saturating_mul(2);
        filtered(run, rest, count, conditions, *most).await.map(Some)
    }

    /// Says how many more rows are wanted: what others would have is not computed, so that it
    /// cannot fail.
    fn want(&mut self, rows: usize) {
        match self {
            Self::Project { input, most, .. } => {
                *most = rows;
                input.work.want(rows);
            }
            Self::Filter { most, .. } => *most = rows,
            _ => {}
        }
    }

    /// A step of what is done on columns, or may be.
    async fn step_columns(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let (cursor, untried, rest) = match self {
            Self::Open(operator) => {
                let operator = *operator;
                *self = match columns::begin(run, operator, None) {
                    Some(cursor) => {
                        let (cursor, untried) = (Box::new(cursor), Some(operator));
                        Self::Columns { cursor, untried, rest: None }
                    }
                    None => work_on_rows(operator),
                };
                return Ok(Some(Vec::new()));
            }
            Self::Columns { cursor, untried, rest } => (cursor, untried, rest),
            _ => return Ok(None),
        };
        if let Some((batch, given)) = rest.take() {
            // What has been rows before is one batch, however many there are.
            let end = batch.rows().min(given + COLUMN_ROWS);
            let mut rows = Vec::with_capacity(end - given);
            for at in given..end {
                rows.push(batch.row(at, cursor.shape(), run));
                run.worked(1).await?;
            }
            if end < batch.rows() {
                *rest = Some((batch, end));
            }
            return Ok(Some(rows));
        }
        match (cursor.next(run).await, *untried) {
            (Ok(batch), _) => {
                *untried = None;
                *rest = batch.map(|batch| (batch, 0));
                Ok(rest.is_some().then(Vec::new))
            }
            (Err(Stop::Unsuitable), Some(operator)) => {
                *self = work_on_rows(operator);
                Ok(Some(Vec::new()))
            }
            (Err(stop), _) => Err(stop.into()),
        }
    }
}

/// Those of the next `count` rows of which conditions are true, until there are as many as wanted.
async fn filtered(
    run: &mut Run<'_>,
    rest: &mut VecDeque<Row>,
    count: usize,
    conditions: &[Formula],
    most: usize,
) -> Result<Vec<Row>, SqlError> {
    let mut kept = Vec::with_capacity(count.min(most));
    for _ in 0..count {
        if kept.len() >= most {
            break;
        }
        let Some(row) = rest.pop_front() else { break };
        if run.all_hold(conditions, &row).await? {
            kept.push(row);
        }
        run.worked_a_row().await?;
    }
    Ok(kept)
}

/// Rows in another shape, of whose columns some only move.
async fn projected(
    run: &mut Run<'_>,
    mut rows: Vec<Row>,
    places: &[usize],
) -> Result<Vec<Row>, SqlError> {
    let mut moving = Vec::new();
    for row in &mut rows {
        let take = |place: &usize| std::mem::replace(&mut row[*place], Datum::Null);
        moving.extend(places.iter().map(take));
        row.clear();
        row.append(&mut moving);
    }
    run.worked(rows.len()).await?;
    Ok(rows)
}

/// The next of some rows in another shape: as many as are wanted, or as large values allow.
pub(crate) async fn computed(
    run: &mut Run<'_>,
    rest: &mut VecDeque<Row>,
    expressions: &[Formula],
    most: usize,
) -> Result<Vec<Row>, SqlError> {
    let before = run.large_bytes;
    let most = most.min(rest.len());
    let mut rows = Vec::with_capacity(most);
    while rows.len() < most
        && let Some(mut row) = rest.pop_front()
    {
        row = evaluate(run, expressions, &row).await?;
        rows.push(row);
        run.worked_a_row().await?;
        if run.large_bytes - before > BATCH_BYTES {
            break;
        }
    }
    Ok(rows)
}

/// The places of columns, if the expressions are nothing else and no two are one.
pub(crate) fn columns_once<'f>(
    expressions: impl Iterator<Item = &'f Formula>,
) -> Option<Vec<usize>> {
    let place = |formula: &Formula| formula.expression.as_column().map(|place| place as usize);
    let places: Vec<usize> = expressions.map(place).collect::<Option<_>>()?;
    let once = places.iter().enumerate().all(|(at, place)| !places[..at].contains(place));
    once.then_some(places)
}

/// One value for each expression.
pub(crate) async fn evaluate(
    run: &mut Run<'_>,
    expressions: &[Formula],
    row: &[Datum],
) -> Result<Row, SqlError> {
    let mut values = Vec::with_capacity(expressions.len());
    // A row alone may be too much.
    let mut held: Option<Held> = None;
    for formula in expressions {
        let value = run.value(formula, row).await?;
        if let Datum::Bytes(bytes) | Datum::Json(bytes) = &value
            && bytes.len() >= LARGE
        {
            run.large_bytes = run.large_bytes.wrapping_add(bytes.len());
            held.get_or_insert_with(|| run.hold("the values of a row")).add(bytes.len())?;
        }
        values.push(value);
    }
    Ok(values)
}

async fn limited(
    run: &mut Run<'_>,
    input: &mut Cursor<'_>,
    operator: &Operator,
    left: &mut Option<(u64, u64)>,
) -> Result<Option<Vec<Row>>, SqlError> {
    let Operator::Limit { bounds, .. } = operator else { return Ok(None) };
    let (mut count, mut offset) = match *left {
        Some(left) => left,
        None => {
            let (count, offset) = limits(run, bounds).await?;
            (count.unwrap_or(u64::MAX), offset)
        }
    };
    *left = Some((count, offset));
    if count == 0 && run.unlimited_rows.is_none() {
        return Ok(None);
    }
    if run.unlimited_rows.is_none() {
        let wanted = count.saturating_add(offset);
        input.work.want(usize::try_from(wanted).unwrap_or(usize::MAX));
    }
    let Some(mut rows) = input.next(run).await? else { return Ok(None) };
    if let Some(all) = &mut run.unlimited_rows {
        *all += rows.len() as u64;
    }
    let skipped = offset.min(rows.len() as u64);
    rows.drain(..skipped as usize);
    offset -= skipped;
    rows.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    count -= rows.len() as u64;
    *left = Some((count, offset));
    Ok(Some(rows))
}

/// All rows of an operator, and what they take.
pub(crate) async fn drain(run: &mut Run<'_>, operator: &Operator) -> Result<Kept, SqlError> {
    drain_cursor(run, open(operator)).await
}

async fn drain_cursor(run: &mut Run<'_>, mut cursor: Cursor<'_>) -> Result<Kept, SqlError> {
    let (mut all, mut held) = (Vec::new(), run.hold("the rows of an operator"));
    while let Some(mut rows) = cursor.next(run).await? {
        held.add(memory_of(&rows))?;
        all.append(&mut rows);
    }
    Ok((all, held))
}

/// Holds rows that are there already, for something that errors name so.
fn kept(run: &Run<'_>, rows: Vec<Row>, what: &'static str) -> Result<Kept, SqlError> {
    let mut held = run.hold(what);
    held.set(memory_of(&rows))?;
    Ok((rows, held))
}

/// The rows of an operator that has to see all of its input first.
async fn collect<'p>(run: &mut Run<'_>, operator: &'p Operator) -> Result<Work<'p>, SqlError> {
    match operator {
        Operator::Derived(scan) => Box::pin(derived_rows(run, scan)).await,
        Operator::Aggregate(aggregate) => Box::pin(group::grouped(run, aggregate)).await,
        Operator::Window(windows) => Box::pin(windowed(run, windows)).await,
        Operator::Set { first, rest, types } => {
            Box::pin(set::combined(run, first, rest, types)).await
        }
        Operator::Sort { input, keys, limit } => {
            let most = match limit {
                Some(bounds) => {
                    let (count, offset) = limits(run, bounds).await?;
                    count.and_then(|count| usize::try_from(count.saturating_add(offset)).ok())
                }
                None => None,
            };
            Box::pin(sort_of(run, input, keys, most)).await
        }
        other => {
            let (rows, held) = Box::pin(collect_in_memory(run, other)).await?;
            Ok(Work::Rows(rows.into(), held))
        }
    }
}

/// The rows of an operator in order, the first `most` of them.
async fn sort_of<'p>(
    run: &mut Run<'_>,
    input: &'p Operator,
    keys: &'p [SortBy],
    most: Option<usize>,
) -> Result<Work<'p>, SqlError> {
    let cursor = match first_rows(run, input, keys, most) {
        Some((scan, program)) => {
            let cursor = TableCursor::with_program(run, scan, program).await?;
            let work = Work::Table(Box::new(cursor));
            Cursor { operator: input, work, begun: false }
        }
        None => {
            if let Some((distinct, types)) = sort::distinct(input, keys) {
                return Ok(sort::sorted_once(run, distinct, types, keys, most).await?.into());
            }
            if let Some(first) = FirstRows::new(run, input, keys, most)
                && let Some((rows, held)) = first.rows(run, keys, most).await?
            {
                return Ok(Work::Rows(rows.into(), held));
            }
            open(input)
        }
    };
    Ok(sort::sorted_rows(run, cursor, keys, most).await?.into())
}

/// The same for operators whose rows are in memory.
async fn collect_in_memory(run: &mut Run<'_>, operator: &Operator) -> Result<Kept, SqlError> {
    match operator {
        Operator::Nothing { width } => {
            Ok((vec![vec![Datum::Null; *width]], run.hold("a row of nothing")))
        }
        Operator::Rows(rows) => {
            let mut held = run.hold("the rows of VALUES");
            let mut all = Vec::with_capacity(rows.len());
            for expressions in rows {
                let row = evaluate(run, expressions, &[]).await?;
                held.add(memory_of_row(&row))?;
                all.push(row);
            }
            Ok((all, held))
        }
        Operator::Virtual(scan) => virtual_rows(run, scan).await,
        Operator::JsonTable(table) => json_table::rows(run, table).await,
        Operator::Recursive(recursion) => recursion::recursive_rows(run, recursion).await,
        Operator::WorkTable { number } => {
            let rows = run.work_tables.get(number).map_or_else(Vec::new, |rows| rows.to_vec());
            kept(run, rows, "the rows of a recursive table")
        }
        Operator::Edges { width, edges } => {
            let mut row = vec![Datum::Null; *width];
            for Edge { scan, place } in edges {
                let first = TableCursor::New(scan).next(run).await?;
                let first = first.and_then(|rows| rows.into_iter().next());
                row.push(first.map_or(Datum::Null, |mut first| first.swap_remove(*place)));
            }
            kept(run, vec![row], "the ends of indexes")
        }
        other => drain(run, other).await,
    }
}

async fn virtual_rows(run: &mut Run<'_>, scan: &VirtualScan) -> Result<Kept, SqlError> {
    let hints = computed::hints(run, scan).await?;
    let rows = scan.table.rows_like(run.session, &hints).await?;
    let rows = kept(run, rows, "the rows of a system table")?;
    placed(run, rows, scan.offset, scan.width, &scan.conditions).await
}

async fn derived_rows<'p>(run: &mut Run<'_>, scan: &'p DerivedScan) -> Result<Work<'p>, SqlError> {
    let (rows, mut held) = match recursion::rows_of_derived(run, scan).await? {
        Buffered::Kept(kept) => kept,
        Buffered::File(rows) => {
            return Ok(Work::Derived(Narrow::File(Box::new(rows.read())), scan));
        }
    };
    // Rows of the block are wider.
    let more = rows.len() * scan.width * size_of::<Datum>();
    if !held.fits(more)? {
        return Ok(Work::Derived(Narrow::Kept(rows.into(), held), scan));
    }
    held.give_back(more);
    let (rows, held) = placed(run, (rows, held), scan.offset, scan.width, &scan.conditions).await?;
    Ok(Work::Rows(rows.into(), held))
}

/// Puts rows at their place in the block's row, those for which the conditions hold.
async fn placed(
    run: &mut Run<'_>,
    (rows, mut held): Kept,
    offset: usize,
    width: usize,
    conditions: &[Formula],
) -> Result<Kept, SqlError> {
    held.add(rows.len() * width * size_of::<Datum>())?;
    let mut all = Vec::with_capacity(rows.len());
    for values in rows {
        run.worked_a_row().await?;
        let mut row = vec![Datum::Null; width];
        for (place, value) in row[offset..].iter_mut().zip(values) {
            *place = value;
        }
        if run.all_hold(conditions, &row).await? {
            all.push(row);
        }
    }
    held.set(memory_of(&all))?;
    Ok((all, held))
}

/// The scan of which data nodes need not send all rows, as few come first, and its program.
pub(crate) fn first_rows<'p>(
    run: &Run<'_>,
    input: &'p Operator,
    keys: &[SortBy],
    most: Option<usize>,
) -> Option<(&'p TableScan, Arc<Program>)> {
    let (Operator::Scan(scan), Some(most)) = (input, most) else { return None };
    let pushes = run.session.variables.pushdown
        && matches!(scan.path, AccessPath::Full | AccessPath::Ranges { .. });
    let program = pushes.then(|| pushdown::first_rows(&run.context, scan, keys, most));
    Some((scan, program.flatten()?))
}
