//! Operators over columns: joins and groups of many rows at a time.
//!
//! # Owns
//! [`ColumnCursor`]: scans, joins by equality and filters whose expressions have a translation into
//! programs, over any other operator as a source of rows; which parts of a plan are worth it.
//! # Guarantees
//! The rows are those that the cursors of rows give, in another order perhaps. What a program
//! cannot compute exactly is computed row by row.
//! # Not here
//! Groups (`cursor::group`), the kernels themselves (`vector`).

mod apply;
mod batch;
mod filter;
mod first;
mod group;
mod join;
mod joined;
mod keys;
mod project;
mod scan;
mod source;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use model::ColumnId;
use sql_expression::{Expression, Node, ProgramColumn, SqlError};
use sqltype::SqlType;
use vector::KeySet;

use apply::ApplyCursor;
pub(crate) use batch::ColumnBatch;
use filter::FilterCursor;
pub(crate) use first::FirstRows;
use group::GroupCursor;
use join::JoinCursor;
use joined::JoinedCursor;
use project::ProjectCursor;
use scan::ScanCursor;
use source::SourceCursor;
pub(crate) use source::{shape_of, width_of};

use crate::execute::run::{Run, with_parameters};
use crate::execute::{joined as in_data_nodes, pushdown};
use crate::plan::operator::places_of;
use crate::plan::operator::{AccessPath, Formula, HashKey, Operator, TableScan};

/// Rows that are collected before what is joined to them is asked for.
const COLLECTED_MAX: usize = 200_000;
/// Rows of a table from which on subqueries over large tables are told them at once.
const ASKING_ROWS: u64 = 32;
/// Pairs of rows that are looked at at a time.
const PAIRS_MAX: usize = 1_024;

/// Rows that are entered into the table of a join, or keys into a set, between two looks at the
/// clock.
const ENTERED_MAX: usize = 1_024;

/// What stands at the places of a block's row: none where nothing does that is needed.
pub(crate) type Shape = Vec<Option<ProgramColumn>>;

/// Why rows do not come in columns.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A source has values that do not fit the columns of their types. Known before the first rows
    /// are given: the operator may be begun anew, row by row.
    Unsuitable,
    Failed(SqlError),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Failed(error)
    }
}

impl From<Stop> for SqlError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Unsuitable => SqlError::internal("values of other types than their columns"),
            Stop::Failed(error) => error,
        }
    }
}

/// The next rows, in a recursion.
type Next<'a> = Pin<Box<dyn Future<Output = Result<Option<ColumnBatch>, Stop>> + 'a>>;

/// An operator at work on columns.
pub(crate) enum ColumnCursor<'p> {
    Scan(Box<ScanCursor<'p>>),
    Source(Box<SourceCursor<'p>>),
    Join(Box<JoinCursor<'p>>),
    Joined(Box<JoinedCursor<'p>>),
    Filter(Box<FilterCursor<'p>>),
    Apply(Box<ApplyCursor<'p>>),
    Project(Box<ProjectCursor<'p>>),
    Group(Box<GroupCursor<'p>>),
    /// One that somebody looks at.
    Watched(Box<Watched<'p>>),
}

/// An operator on columns that somebody looks at.
pub(crate) struct Watched<'p> {
    cursor: ColumnCursor<'p>,
    operator: &'p Operator,
    begun: bool,
}

/// Begins an operator on columns, if it is worth it and possible: a join or a scan of large tables.
/// Of the block's row these places are wanted; all that there are, unless told.
pub(crate) fn begin<'p>(
    run: &Run<'_>,
    operator: &'p Operator,
    wanted: Option<&BTreeSet<usize>>,
) -> Option<ColumnCursor<'p>> {
    if !run.session.variables.pushdown || !is_worth(run, operator) {
        return None;
    }
    let all;
    let wanted = match wanted {
        Some(wanted) => wanted,
        None => {
            all = shape_of(operator)?.keys().copied().collect();
            &all
        }
    };
    match ColumnCursor::new(run, operator, wanted)? {
        // Rows that are put into columns to be rows again.
        ColumnCursor::Source(_) => None,
        cursor => Some(cursor),
    }
}

/// Begins a join that data nodes make, which send only so many rows that come first in an order.
fn begin_first<'p>(
    run: &Run<'_>,
    operator: &'p Operator,
    (order, rows): (&[(&Expression, bool)], u32),
) -> Option<ColumnCursor<'p>> {
    if !run.session.variables.pushdown {
        return None;
    }
    let wanted = shape_of(operator)?.keys().copied().collect();
    ColumnCursor::watched(run, operator, || {
        let mut cursor = JoinedCursor::any(run, operator, &wanted)?;
        let is_pushed = cursor.want_first(run, order, rows);
        is_pushed.then(|| ColumnCursor::Joined(Box::new(cursor)))
    })
}

/// Whether many rows are read where columns can have them.
fn is_worth(run: &Run<'_>, operator: &Operator) -> bool {
    match operator {
        _ if in_data_nodes::is_chain(run, operator) => true,
        Operator::Scan(scan) => {
            let worth = run.session.variables.column_rows;
            let rows = run.rows_of_table(scan);
            reads_blocks(operator)
                && (rows >= worth || rows >= ASKING_ROWS.min(worth) && asks_much(run, scan))
        }
        Operator::Lookup { input, .. }
        | Operator::Filter { input, .. }
        | Operator::Project { input, .. } => is_worth(run, input),
        Operator::Aggregate(aggregate) => is_worth(run, &aggregate.input),
        Operator::HashJoin { left, right, .. } | Operator::LoopJoin { left, right, .. } => {
            is_worth(run, left) || is_worth(run, right)
        }
        _ => false,
    }
}

/// Whether conditions ask subqueries over large tables, which can be told all values at once.
fn asks_much(run: &Run<'_>, scan: &TableScan) -> bool {
    let worth = run.session.variables.column_rows;
    let mut asks = false;
    for condition in scan.conditions.iter().filter(|condition| has_subquery(condition)) {
        condition.expression.visit(&mut |part| {
            if let Node::Subquery(subquery) = &part.node
                && let Some(subplan) = run.subplan(subquery.id)
                && (subplan.search.is_some() || subplan.keyed.is_some())
            {
                let mut scans = apply::scanned(&subplan.plan.root);
                asks = asks || scans.any(|scan| run.rows_of_table(scan) >= worth);
            }
        });
    }
    asks
}

/// Whether an operator is a scan whose rows can come in blocks.
fn reads_blocks(operator: &Operator) -> bool {
    match operator {
        Operator::Scan(scan) => {
            let path = matches!(scan.path, AccessPath::Full | AccessPath::Ranges { .. });
            path && pushdown::is_free(scan)
        }
        _ => false,
    }
}

impl<'p> ColumnCursor<'p> {
    /// For an operator; rows of others are put into columns. Of the block's row these places are
    /// wanted.
    pub(crate) fn new(
        run: &Run<'_>,
        operator: &'p Operator,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        Self::watched(run, operator, || Self::unwatched(run, operator, wanted))
    }

    /// What is made for an operator, with whoever looks on.
    fn watched(
        run: &Run<'_>,
        operator: &'p Operator,
        make: impl FnOnce() -> Option<Self>,
    ) -> Option<Self> {
        let Some(observer) = &run.observer else { return make() };
        let mark = observer.borrow().mark();
        let cursor = make();
        let on_columns = cursor.as_ref().map(|cursor| !matches!(cursor, Self::Source(_)));
        observer.borrow_mut().made(mark, operator, on_columns);
        match (cursor?, on_columns) {
            (cursor, Some(true)) => {
                Some(Self::Watched(Box::new(Watched { cursor, operator, begun: false })))
            }
            (source, _) => Some(source),
        }
    }

    fn unwatched(run: &Run<'_>, operator: &'p Operator, wanted: &BTreeSet<usize>) -> Option<Self> {
        let conditions = match operator {
            Operator::Scan(scan) if reads_blocks(operator) => scan.conditions.as_slice(),
            Operator::Filter { conditions, .. } => conditions.as_slice(),
            _ => &[],
        };
        let waiting: Vec<&Formula> = conditions.iter().filter(|c| has_subquery(c)).collect();
        if waiting.is_empty() {
            return Self::simple(run, operator, wanted);
        }
        if let Some(cursor) = JoinedCursor::new(run, operator, wanted) {
            return Some(Self::Joined(Box::new(cursor)));
        }
        let width = width_of(operator)?;
        let mut places = places_of_conditions(waiting.iter().copied(), width);
        places.extend(wanted);
        let input = Self::simple(run, operator, &places)?;
        if matches!(input, Self::Source(_)) {
            return Some(input);
        }
        Some(Self::Apply(Box::new(ApplyCursor::new(input, operator, waiting))))
    }

    /// Without what waits for subqueries.
    fn simple(run: &Run<'_>, operator: &'p Operator, wanted: &BTreeSet<usize>) -> Option<Self> {
        if let Some(cursor) = JoinedCursor::new(run, operator, wanted) {
            return Some(Self::Joined(Box::new(cursor)));
        }
        let cursor = match operator {
            Operator::Scan(scan) if reads_blocks(operator) => {
                ScanCursor::new(run, scan, wanted).map(|cursor| Self::Scan(Box::new(cursor)))
            }
            Operator::HashJoin { left, right, keys, join } => {
                let cursor = JoinCursor::new(run, (left, right), keys, join, wanted);
                cursor.map(|cursor| Self::Join(Box::new(cursor)))
            }
            Operator::LoopJoin { left, right, join } => {
                let cursor = JoinCursor::new(run, (left, right), &[], join, wanted);
                cursor.map(|cursor| Self::Join(Box::new(cursor)))
            }
            Operator::Filter { input, conditions } => {
                let cursor = FilterCursor::new(run, input, conditions, wanted);
                cursor.map(|cursor| Self::Filter(Box::new(cursor)))
            }
            Operator::Project { input, expressions } => {
                let cursor = ProjectCursor::new(run, input, expressions, wanted);
                cursor.map(|cursor| Self::Project(Box::new(cursor)))
            }
            Operator::Aggregate(_) => {
                GroupCursor::new(operator, wanted).map(|cursor| Self::Group(Box::new(cursor)))
            }
            _ => None,
        };
        cursor.or_else(|| Self::source(operator, wanted))
    }

    fn source(operator: &'p Operator, wanted: &BTreeSet<usize>) -> Option<Self> {
        SourceCursor::new(operator, wanted).map(|cursor| Self::Source(Box::new(cursor)))
    }

    /// What the batches have.
    pub(crate) fn shape(&self) -> &Shape {
        match self {
            Self::Scan(cursor) => &cursor.shape,
            Self::Source(cursor) => &cursor.shape,
            Self::Join(cursor) => &cursor.shape,
            Self::Joined(cursor) => &cursor.shape,
            Self::Filter(cursor) => cursor.shape(),
            Self::Apply(cursor) => cursor.shape(),
            Self::Project(cursor) => &cursor.shape,
            Self::Group(cursor) => cursor.shape(),
            Self::Watched(watched) => watched.cursor.shape(),
        }
    }

    /// The next rows, never none; nothing at the end, however often it is asked for.
    pub(crate) fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(async move {
            if let Self::Watched(watched) = self {
                let entered = run.enter(watched.operator, &mut watched.begun);
                let batch = watched.cursor.next(run).await;
                let some = batch.as_ref().ok().and_then(Option::as_ref);
                run.leave(entered, some.map(ColumnBatch::rows));
                return batch;
            }
            loop {
                let Some(batch) = self.step(run).await? else {
                    #[cfg(debug_assertions)]
                    if !std::mem::replace(&mut run.asks_again, true) {
                        let again = self.step(run).await?;
                        run.asks_again = false;
                        assert!(again.is_none(), "an operator goes on after its end");
                    }
                    return Ok(None);
                };
                run.worked(batch.rows() / 8 + 1).await?;
                if batch.rows() > 0 {
                    return Ok(Some(batch));
                }
            }
        })
    }

    /// Some rows, perhaps none; nothing at the end.
    async fn step(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        match self {
            Self::Scan(cursor) => cursor.next(run).await,
            Self::Source(cursor) => cursor.next(run).await,
            Self::Join(cursor) => cursor.next(run).await,
            Self::Joined(cursor) => cursor.next(run).await,
            Self::Filter(cursor) => cursor.next(run).await,
            Self::Apply(cursor) => cursor.next(run).await,
            Self::Project(cursor) => cursor.next(run).await,
            Self::Group(cursor) => cursor.next(run).await,
            Self::Watched(watched) => watched.cursor.next(run).await,
        }
    }
}

/// Columns of these types at their places, as far as they are wanted.
fn result_shape<'t>(types: impl Iterator<Item = &'t SqlType>, wanted: &BTreeSet<usize>) -> Shape {
    let column = |(place, sql_type): (usize, &SqlType)| {
        let column = ProgramColumn { column: ColumnId(0), sql_type: sql_type.clone() };
        wanted.contains(&place).then_some(column)
    };
    types.enumerate().map(column).collect()
}

/// Has a scan below an operator look only for rows whose value is in a set, if it is sure that the
/// others leave no trace in a row with such a value at this place. Holds for its next execution.
fn narrow(run: &mut Run<'_>, operator: &Operator, place: usize, set: KeySet) {
    if let Some((scan, input)) = narrowed_scan(operator, place) {
        let address: *const TableScan = scan;
        run.narrowed.entry(address).or_default().push(set.for_input(input));
        run.told(scan);
    }
}

/// The scan that looks only for rows whose value is in a set when rows of an operator are wanted
/// with such a value at this place, and which of its columns that is.
pub(crate) fn narrowed_scan(operator: &Operator, place: usize) -> Option<(&TableScan, u16)> {
    match operator {
        Operator::Scan(scan) => {
            let input = scan.wanted.iter().position(|at| scan.offset + at == place)?;
            Some((scan, u16::try_from(input).ok()?))
        }
        Operator::Filter { input, .. }
        | Operator::Distinct { input, .. }
        | Operator::Lookup { input, .. } => narrowed_scan(input, place),
        Operator::HashJoin { left, right, join, .. } | Operator::LoopJoin { left, right, join } => {
            let is_right = |(from, to): &(usize, usize)| (*from..*to).contains(&place);
            match join.right_places.iter().any(is_right) {
                false => narrowed_scan(left, place),
                true if !join.outer => narrowed_scan(right, place),
                true => None,
            }
        }
        Operator::Project { input, expressions } => {
            let place = expressions.get(place)?.expression.as_column()?;
            narrowed_scan(input, place as usize)
        }
        Operator::Aggregate(aggregate) if !aggregate.rollup && place < aggregate.width => {
            let is_key = |key: &Formula| key.expression.as_column() == u32::try_from(place).ok();
            let grouped = aggregate.group.iter().any(is_key);
            grouped.then(|| narrowed_scan(&aggregate.input, place)).flatten()
        }
        Operator::Derived(scan) => narrowed_scan(&scan.plan.root, place.checked_sub(scan.offset)?),
        _ => None,
    }
}

/// The places of the right side of a join whose values are told to who reads it.
pub(crate) fn told_places<'k>(
    run: &Run<'_>,
    keys: &'k [HashKey],
) -> impl Iterator<Item = usize> + use<'k> {
    let context = run.context.clone();
    keys.iter().filter_map(move |key| {
        let left = with_parameters(&context, &key.left.expression);
        keys::place_as_it_is(&left, &key.right.expression)
    })
}

/// Whether a subquery can be run on columns for all rows of its enclosing block.
pub(crate) fn can_begin(run: &Run<'_>, operator: &Operator, width: usize) -> bool {
    let cursor = ColumnCursor::new(run, operator, &(0..width).collect());
    cursor.is_some_and(|cursor| !matches!(cursor, ColumnCursor::Source(_)))
}

/// Whether a condition has to wait for a subquery.
fn has_subquery(condition: &Formula) -> bool {
    !condition.is_ready()
        && condition.expression.any(&mut |part| matches!(part.node, Node::Subquery(_)))
}

/// The places that conditions use; all of a width if it cannot be told.
fn places_of_conditions<'f>(
    conditions: impl IntoIterator<Item = &'f Formula>,
    width: usize,
) -> BTreeSet<usize> {
    let expressions = conditions.into_iter().map(|condition| &condition.expression);
    places_of(expressions).unwrap_or_else(|| (0..width).collect())
}
