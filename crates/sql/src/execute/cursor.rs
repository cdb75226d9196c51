//! Operators at work: each gives rows in batches until it has none.
//!
//! # Owns
//! A cursor per operator. Scans, lookups, filters and projections pass batches on as they come;
//! sorting, grouping and the right sides of joins collect first.
//! # Guarantees
//! What a client does not read is not computed far ahead: a batch is asked for when it is wanted.

pub(crate) mod group;
pub(crate) mod join;
pub(crate) mod sort;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sql_expression::{SqlError, group_key};
use sqltype::{Datum, SqlType};
use vector::Program;

use crate::execute::columns::{self, ColumnCursor, Stop};
use crate::execute::json_table;
use crate::execute::pushdown;
use crate::execute::recursion;
use crate::execute::run::{Boxed, Row, Run, memory_of};
use crate::execute::scan::{TableCursor, limits, look_up};
use crate::execute::window::windowed;
use crate::plan::operator::{
    AccessPath, DerivedScan, Edge, Formula, Operator, SetKind, SortBy, TableScan, VirtualScan,
};

/// Rows given at a time by operators that have collected them all.
const BATCH: usize = 256;

/// An operator at work.
pub(crate) struct Cursor<'p> {
    pub(crate) operator: &'p Operator,
    pub(crate) work: Work<'p>,
    begun: bool,
}

/// How it works.
pub(crate) enum Work<'p> {
    /// Rows that are there.
    Rows(VecDeque<Row>),
    /// Rows that some work at the beginning gives.
    Collect(&'p Operator),
    Table(Box<TableCursor<'p>>),
    Lookup {
        input: Box<Cursor<'p>>,
        operator: &'p Operator,
    },
    Lateral {
        input: Box<Cursor<'p>>,
        operator: &'p Operator,
    },
    Join(Box<join::JoinCursor<'p>>),
    /// What may be done on columns: decided with the first rows.
    Open(&'p Operator),
    /// Rows of columns; the operator, as long as none has been given.
    Columns {
        cursor: Box<ColumnCursor<'p>>,
        untried: Option<&'p Operator>,
    },
    Filter {
        input: Box<Cursor<'p>>,
        conditions: &'p [Formula],
    },
    Project {
        input: Box<Cursor<'p>>,
        expressions: &'p [Formula],
        /// Columns that only move, if that is all.
        moved: Option<Vec<usize>>,
    },
    Distinct {
        input: Box<Cursor<'p>>,
        seen: BTreeSet<Vec<u8>>,
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
        Operator::Lateral { input, .. } => Work::Lateral { input: Box::new(open(input)), operator },
        Operator::HashJoin { .. } | Operator::LoopJoin { .. } | Operator::Filter { .. } => {
            Work::Open(operator)
        }
        Operator::Project { input, expressions } => {
            let moved = columns_once(expressions.iter());
            Work::Project { input: Box::new(open(input)), expressions, moved }
        }
        Operator::Distinct { input, types } => {
            let input = Box::new(open(input));
            Work::Distinct { input, seen: BTreeSet::new(), types }
        }
        Operator::Limit { input, .. } => {
            // What gives its first rows soon is worth more here.
            let input = match &**input {
                Operator::HashJoin { .. } | Operator::LoopJoin { .. } | Operator::Filter { .. } => {
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
        Operator::Lookup { input, .. } => Work::Lookup { input: Box::new(open(input)), operator },
        Operator::Scan(scan) => Work::Table(Box::new(TableCursor::New(scan))),
        Operator::HashJoin { left, .. } | Operator::LoopJoin { left, .. } => {
            Work::Join(Box::new(join::JoinCursor::new(open(left), operator)))
        }
        Operator::Filter { input, conditions } => {
            Work::Filter { input: Box::new(open(input)), conditions }
        }
        _ => work_of(operator),
    }
}

impl<'p> Cursor<'p> {
    /// The next rows, never none; nothing at the end.
    pub(crate) fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Boxed<'a, Option<Vec<Row>>> {
        Box::pin(async move {
            let entered = run.enter(self.operator, &mut self.begun);
            let batch = loop {
                match self.work.step(run).await {
                    Ok(Some(batch)) if batch.is_empty() => {}
                    batch => break batch,
                }
            };
            let some = batch.as_ref().ok().and_then(Option::as_ref);
            run.leave(entered, some.map(Vec::len));
            batch
        })
    }
}

impl Work<'_> {
    /// Some rows, perhaps none; nothing at the end.
    async fn step(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        match self {
            Self::Rows(rows) => {
                if rows.is_empty() {
                    return Ok(None);
                }
                Ok(Some(rows.drain(..rows.len().min(BATCH)).collect()))
            }
            Self::Collect(operator) => {
                let rows = collect(run, operator).await?;
                *self = Self::Rows(rows.into());
                Ok(Some(Vec::new()))
            }
            Self::Table(table) => table.next(run).await,
            Self::Open(_) | Self::Columns { .. } => self.step_columns(run).await,
            Self::Lookup { input, operator } => {
                let Operator::Lookup { scan, join, .. } = operator else { return Ok(None) };
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let found = look_up(run, scan, &rows).await?;
                join::matches(run, rows, found, &scan.conditions, join).await.map(Some)
            }
            Self::Lateral { input, operator } => {
                let Operator::Lateral { scan, join, .. } = operator else { return Ok(None) };
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let found = recursion::lateral_rows(run, scan, &rows).await?;
                join::matches(run, rows, found, &scan.conditions, join).await.map(Some)
            }
            Self::Join(join) => join.next(run).await,
            Self::Filter { input, conditions } => {
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let mut kept = Vec::with_capacity(rows.len());
                for row in rows {
                    if run.all_hold(conditions, &row).await? {
                        kept.push(row);
                    }
                }
                Ok(Some(kept))
            }
            Self::Project { input, expressions, moved } => {
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                projected(run, rows, expressions, moved.as_deref()).await.map(Some)
            }
            Self::Distinct { input, seen, types } => {
                let Some(rows) = input.next(run).await? else { return Ok(None) };
                let width = types.len();
                let key = |row: &Row| group_key(&row[..width.min(row.len())], types.iter());
                let fresh = |row: &Row| seen.insert(key(row));
                Ok(Some(rows.into_iter().filter(fresh).collect()))
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
    /// A step of what is done on columns, or may be.
    async fn step_columns(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let (cursor, untried) = match self {
            Self::Open(operator) => {
                let operator = *operator;
                *self = match columns::begin(run, operator, None) {
                    Some(cursor) => {
                        Self::Columns { cursor: Box::new(cursor), untried: Some(operator) }
                    }
                    None => work_on_rows(operator),
                };
                return Ok(Some(Vec::new()));
            }
            Self::Columns { cursor, untried } => (cursor, untried),
            _ => return Ok(None),
        };
        match (cursor.next(run).await, *untried) {
            (Ok(batch), _) => {
                *untried = None;
                Ok(batch.map(|batch| batch.into_rows(cursor.shape(), run)))
            }
            (Err(Stop::Unsuitable), Some(operator)) => {
                *self = work_on_rows(operator);
                Ok(Some(Vec::new()))
            }
            (Err(stop), _) => Err(stop.into()),
        }
    }
}

/// Rows in another shape. Columns that only move, if that is all, need no evaluation.
pub(crate) async fn projected(
    run: &mut Run<'_>,
    mut rows: Vec<Row>,
    expressions: &[Formula],
    moved: Option<&[usize]>,
) -> Result<Vec<Row>, SqlError> {
    let mut moving = Vec::new();
    for row in &mut rows {
        match moved {
            Some(places) => {
                let take = |place: &usize| std::mem::replace(&mut row[*place], Datum::Null);
                moving.extend(places.iter().map(take));
                row.clear();
                row.append(&mut moving);
            }
            None => *row = evaluate(run, expressions, row).await?,
        }
    }
    run.worked(rows.len()).await?;
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
    for formula in expressions {
        values.push(run.value(formula, row).await?);
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

/// All rows of an operator.
pub(crate) async fn drain(run: &mut Run<'_>, operator: &Operator) -> Result<Vec<Row>, SqlError> {
    drain_cursor(run, open(operator)).await
}

async fn drain_cursor(run: &mut Run<'_>, mut cursor: Cursor<'_>) -> Result<Vec<Row>, SqlError> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    while let Some(mut rows) = cursor.next(run).await? {
        bytes += memory_of(&rows);
        run.check_memory(bytes, "the rows of an operator")?;
        all.append(&mut rows);
    }
    Ok(all)
}

/// The rows of an operator that has to see all of its input first.
async fn collect(run: &mut Run<'_>, operator: &Operator) -> Result<Vec<Row>, SqlError> {
    match operator {
        Operator::Nothing { width } => Ok(vec![vec![Datum::Null; *width]]),
        Operator::Rows(rows) => {
            let mut all = Vec::with_capacity(rows.len());
            for expressions in rows {
                all.push(evaluate(run, expressions, &[]).await?);
            }
            Ok(all)
        }
        Operator::Virtual(scan) => virtual_rows(run, scan).await,
        Operator::JsonTable(table) => json_table::rows(run, table).await,
        Operator::Derived(scan) => derived_rows(run, scan).await,
        Operator::Recursive(recursion) => recursion::recursive_rows(run, recursion).await,
        Operator::WorkTable { number } => {
            Ok(run.work_tables.get(number).map_or_else(Vec::new, |rows| rows.to_vec()))
        }
        Operator::Aggregate(aggregate) => group::grouped(run, aggregate).await,
        Operator::Window(windows) => windowed(run, windows).await,
        Operator::Edges { width, edges } => {
            let mut row = vec![Datum::Null; *width];
            for Edge { scan, place } in edges {
                let first = TableCursor::New(scan).next(run).await?;
                let first = first.and_then(|rows| rows.into_iter().next());
                row.push(first.map_or(Datum::Null, |mut first| first.swap_remove(*place)));
            }
            Ok(vec![row])
        }
        Operator::Sort { input, keys, limit } => {
            let most = match limit {
                Some(bounds) => {
                    let (count, offset) = limits(run, bounds).await?;
                    count.and_then(|count| usize::try_from(count.saturating_add(offset)).ok())
                }
                None => None,
            };
            let rows = match first_rows(run, input, keys, most) {
                Some((scan, program)) => {
                    let cursor = TableCursor::with_program(run, scan, program).await?;
                    let work = Work::Table(Box::new(cursor));
                    drain_cursor(run, Cursor { operator: input, work, begun: false }).await?
                }
                None => match sort::distinct(input, keys) {
                    Some((distinct, types)) => {
                        return sort::sorted_once(run, distinct, types, keys, most).await;
                    }
                    None => drain(run, input).await?,
                },
            };
            sort::sorted(run, rows, keys, most).await
        }
        Operator::Set { first, rest, types } => combined(run, first, rest, types).await,
        other => drain(run, other).await,
    }
}

async fn virtual_rows(run: &mut Run<'_>, scan: &VirtualScan) -> Result<Vec<Row>, SqlError> {
    let rows = scan.table.rows(run.session).await?;
    placed(run, rows, scan.offset, scan.width, &scan.conditions).await
}

async fn derived_rows(run: &mut Run<'_>, scan: &DerivedScan) -> Result<Vec<Row>, SqlError> {
    let rows = recursion::rows_of_derived(run, scan).await?;
    placed(run, rows, scan.offset, scan.width, &scan.conditions).await
}

/// Puts rows at their place in the block's row, those for which the conditions hold.
async fn placed(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    offset: usize,
    width: usize,
    conditions: &[Formula],
) -> Result<Vec<Row>, SqlError> {
    let mut all = Vec::with_capacity(rows.len());
    for values in rows {
        let mut row = vec![Datum::Null; width];
        for (place, value) in row[offset..].iter_mut().zip(values) {
            *place = value;
        }
        if run.all_hold(conditions, &row).await? {
            all.push(row);
        }
    }
    run.worked(all.len()).await?;
    Ok(all)
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

async fn combined(
    run: &mut Run<'_>,
    first: &Operator,
    rest: &[(SetKind, Operator)],
    types: &[SqlType],
) -> Result<Vec<Row>, SqlError> {
    let mut rows = drain(run, first).await?;
    for (kind, operator) in rest {
        let other = drain(run, operator).await?;
        rows = match kind {
            SetKind::UnionAll => rows.into_iter().chain(other).collect(),
            SetKind::Union => once(rows.into_iter().chain(other), types),
            SetKind::Except | SetKind::ExceptAll => {
                let mut counts = counted(&other, types);
                let all = *kind == SetKind::ExceptAll;
                let kept =
                    rows.into_iter().filter(|row| match counts.get_mut(&group_key(row, types)) {
                        Some(count) if all && *count > 0 => {
                            *count -= 1;
                            false
                        }
                        Some(_) => all,
                        None => true,
                    });
                let kept: Vec<Row> = kept.collect();
                if all { kept } else { once(kept.into_iter(), types) }
            }
            SetKind::Intersect | SetKind::IntersectAll => {
                let mut counts = counted(&other, types);
                let all = *kind == SetKind::IntersectAll;
                let kept =
                    rows.into_iter().filter(|row| match counts.get_mut(&group_key(row, types)) {
                        Some(count) if *count > 0 => {
                            *count -= usize::from(all);
                            true
                        }
                        _ => false,
                    });
                let kept: Vec<Row> = kept.collect();
                if all { kept } else { once(kept.into_iter(), types) }
            }
        };
        run.worked(rows.len()).await?;
    }
    Ok(rows)
}

fn counted(rows: &[Row], types: &[SqlType]) -> BTreeMap<Vec<u8>, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(group_key(row, types)).or_insert(0) += 1;
    }
    counts
}

fn once(rows: impl Iterator<Item = Row>, types: &[SqlType]) -> Vec<Row> {
    let mut seen = BTreeSet::new();
    rows.filter(|row| seen.insert(group_key(row, types))).collect()
}
