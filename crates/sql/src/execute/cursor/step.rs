//! How each operator gets from the rows of its inputs to its own.
//!
//! # Owns
//! The way from a kind of operator to the file that executes the kind; filters, projections, LIMIT
//! and rows of other queries, which are executed here.
//! # Guarantees
//! What a client does not read is not computed far ahead: a batch is asked for when it is wanted.

use std::collections::VecDeque;
use std::sync::Arc;

use sql_expression::SqlError;
use sqltype::Datum;
use vector::Program;

use super::{Cursor, Narrow, Work, drain, evaluate, group, join, open, set, sort, work_on_rows};
use crate::execute::columns;
use crate::execute::columns::first::FirstRows;
use crate::execute::columns::shape::Stop;
use crate::execute::computed;
use crate::execute::json_table;
use crate::execute::kept::{Kept, kept, some_of};
use crate::execute::pushdown;
use crate::execute::recursion;
use crate::execute::run::Run;
use crate::execute::scan::{TableCursor, limits, look_up};
use crate::execute::spilled::buffer::Buffered;
use crate::execute::spilled::distinct::Distinct;
use crate::execute::window::windowed;
use crate::logical::formula::{Formula, SortBy};
use crate::plan::operator::{
    AccessPath, DerivedScan, Edge, Operator, PlanNode, TableScan, VirtualScan,
};
use crate::rows::{Row, memory_of, memory_of_row};

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
        let placed =
            placed(run, Kept { rows, held }, scan.offset, scan.width, &scan.conditions).await?;
        Ok(Some(placed.rows))
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
            Self::Spilled(spilled) => spilled.next(run).await,
            Self::Derived(narrow, scan) => Box::pin(narrow.next(run, scan)).await,
            Self::Table(table) => table.next(run).await,
            Self::Open(_) | Self::Columns { .. } => self.step_columns(run).await,
            Self::Lookup { input, operator, held } => {
                let Operator::Lookup { scan, join, .. } = &operator.operator else {
                    return Ok(None);
                };
                *held = None;
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let (found, of_found) = look_up(run, scan, &rows).await?;
                *held = of_found;
                join::matches(run, rows, found, &scan.conditions, join).await.map(Some)
            }
            Self::Lateral { input, operator, held } => {
                let Operator::Lateral { scan, join, .. } = &operator.operator else {
                    return Ok(None);
                };
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

/// Rows made of columns at a time.
const COLUMN_ROWS: usize = 1_024;

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

/// The rows of an operator that has to see all of its input first.
async fn collect<'p>(run: &mut Run<'_>, operator: &'p PlanNode) -> Result<Work<'p>, SqlError> {
    match &operator.operator {
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
        _ => {
            let Kept { rows, held } = Box::pin(collect_in_memory(run, operator)).await?;
            Ok(Work::Rows(rows.into(), held))
        }
    }
}

/// The rows of an operator in order, the first `most` of them.
async fn sort_of<'p>(
    run: &mut Run<'_>,
    input: &'p PlanNode,
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
                && let Some(Kept { rows, held }) = first.rows(run, keys, most).await?
            {
                return Ok(Work::Rows(rows.into(), held));
            }
            open(input)
        }
    };
    Ok(sort::sorted_rows(run, cursor, keys, most).await?.into())
}

/// The same for operators whose rows are in memory.
async fn collect_in_memory(run: &mut Run<'_>, operator: &PlanNode) -> Result<Kept, SqlError> {
    match &operator.operator {
        Operator::Nothing { width } => {
            let rows = vec![vec![Datum::Null; *width]];
            Ok(Kept { rows, held: run.hold("a row of nothing") })
        }
        Operator::Rows(rows) => {
            let mut held = run.hold("the rows of VALUES");
            let mut all = Vec::with_capacity(rows.len());
            for expressions in rows {
                let row = evaluate(run, expressions, &[]).await?;
                held.add(memory_of_row(&row))?;
                all.push(row);
            }
            Ok(Kept { rows: all, held })
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
        _ => drain(run, operator).await,
    }
}

async fn virtual_rows(run: &mut Run<'_>, scan: &VirtualScan) -> Result<Kept, SqlError> {
    let hints = computed::hints(run, scan).await?;
    let rows = scan.table.rows_like(run.session, &hints).await?;
    let rows = kept(run, rows, "the rows of a system table")?;
    placed(run, rows, scan.offset, scan.width, &scan.conditions).await
}

async fn derived_rows<'p>(run: &mut Run<'_>, scan: &'p DerivedScan) -> Result<Work<'p>, SqlError> {
    let Kept { rows, mut held } = match recursion::rows_of_derived(run, scan).await? {
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
    let Kept { rows, held } =
        placed(run, Kept { rows, held }, scan.offset, scan.width, &scan.conditions).await?;
    Ok(Work::Rows(rows.into(), held))
}

/// Puts rows at their place in the block's row, those for which the conditions hold.
async fn placed(
    run: &mut Run<'_>,
    Kept { rows, mut held }: Kept,
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
    Ok(Kept { rows: all, held })
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

/// Rows given at a time by operators that have collected them all.
const BATCH: usize = 256;

/// Bytes of values that are made for a batch of rows, about.
const BATCH_BYTES: usize = 1 << 20;
