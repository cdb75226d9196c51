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
pub(crate) mod step;

use std::collections::VecDeque;

use sql_expression::{LARGE, SqlError};
use sqltype::{Datum, SqlType};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::kept::Kept;
use crate::execute::run::{Boxed, Run};
use crate::execute::scan::TableCursor;
use crate::execute::spilled::distinct::Distinct;
use crate::logical::formula::{Formula, SetKind};
use crate::memory::Held;
use crate::plan::operator::{DerivedScan, Operator, PlanNode};
use crate::rows::{Row, memory_of};
use crate::spill::rows::RowReader;

/// Rows of which conditions with subqueries are checked at first; twice as many each time after.
const CHECKED_ROWS: usize = 16;

/// An operator at work.
pub(crate) struct Cursor<'p> {
    pub(crate) operator: &'p PlanNode,
    pub(crate) work: Work<'p>,
    begun: bool,
}

/// How it works.
pub(crate) enum Work<'p> {
    /// Rows that are there, and what they take.
    Rows(VecDeque<Row>, Held),
    /// Rows that some work at the beginning gives.
    Collect(&'p PlanNode),
    /// Rows that are in temporary files.
    Spilled(Box<dyn FileRows + 'p>),
    /// Rows of a query in FROM, which are put at their places when they are asked for.
    Derived(Narrow, &'p DerivedScan),
    Table(Box<TableCursor<'p>>),
    Lookup {
        input: Box<Cursor<'p>>,
        operator: &'p PlanNode,
        /// What the rows given last take.
        held: Option<Held>,
    },
    Lateral {
        input: Box<Cursor<'p>>,
        operator: &'p PlanNode,
        held: Option<Held>,
    },
    Join(Box<join::JoinCursor<'p>>),
    /// What may be done on columns: decided with the first rows.
    Open(&'p PlanNode),
    /// Rows of columns; the operator, as long as none has been given.
    Columns {
        cursor: Box<ColumnCursor<'p>>,
        untried: Option<&'p PlanNode>,
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
        operator: &'p PlanNode,
        left: Option<(u64, u64)>,
    },
    UnionAll {
        first: Option<Box<Cursor<'p>>>,
        rest: VecDeque<&'p PlanNode>,
    },
}

/// Rows that come from temporary files.
pub(crate) trait FileRows {
    /// The next rows, perhaps none; nothing at the end.
    fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Boxed<'a, Option<Vec<Row>>>;
}

/// Rows that are narrower than the row of the block.
pub(crate) enum Narrow {
    Kept(VecDeque<Row>, Held),
    File(Box<RowReader>),
}

/// Begins an operator.
pub(crate) fn open(operator: &PlanNode) -> Cursor<'_> {
    Cursor { operator, work: work_of(operator), begun: false }
}

fn work_of(operator: &PlanNode) -> Work<'_> {
    match &operator.operator {
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
            let input = match &input.operator {
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
pub(crate) fn work_on_rows(operator: &PlanNode) -> Work<'_> {
    match &operator.operator {
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

/// All rows of an operator, and what they take.
pub(crate) async fn drain(run: &mut Run<'_>, operator: &PlanNode) -> Result<Kept, SqlError> {
    drain_cursor(run, open(operator)).await
}

async fn drain_cursor(run: &mut Run<'_>, mut cursor: Cursor<'_>) -> Result<Kept, SqlError> {
    let (mut all, mut held) = (Vec::new(), run.hold("the rows of an operator"));
    while let Some(mut rows) = cursor.next(run).await? {
        held.add(memory_of(&rows))?;
        all.append(&mut rows);
    }
    Ok(Kept { rows: all, held })
}
