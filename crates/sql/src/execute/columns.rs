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

mod batch;
mod filter;
mod join;
mod scan;
mod source;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use sql_expression::{Expression, Node, ProgramColumn, SqlError};
use vector::KeySet;

pub(crate) use batch::ColumnBatch;
use filter::FilterCursor;
use join::JoinCursor;
use scan::ScanCursor;
use source::SourceCursor;

use crate::execute::pushdown;
use crate::execute::run::Run;
use crate::plan::operator::{AccessPath, Formula, Operator};

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
    Filter(Box<FilterCursor<'p>>),
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
            all = source::shape_of(operator)?.keys().copied().collect();
            &all
        }
    };
    match ColumnCursor::new(run, operator, wanted)? {
        // Rows that are put into columns to be rows again.
        ColumnCursor::Source(_) => None,
        cursor => Some(cursor),
    }
}

/// Whether many rows are read where columns can have them.
fn is_worth(run: &Run<'_>, operator: &Operator) -> bool {
    match operator {
        Operator::Scan(scan) => {
            let rows = run.session.shared.statistics.rows(scan.definition.table.id);
            let worth = run.session.variables.column_rows;
            rows.unwrap_or(0) >= worth && reads_blocks(operator)
        }
        Operator::Filter { input, .. } | Operator::Lookup { input, .. } => is_worth(run, input),
        Operator::HashJoin { left, right, .. } | Operator::LoopJoin { left, right, .. } => {
            is_worth(run, left) || is_worth(run, right)
        }
        _ => false,
    }
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
    fn new(run: &Run<'_>, operator: &'p Operator, wanted: &BTreeSet<usize>) -> Option<Self> {
        Some(match operator {
            Operator::Scan(scan) if reads_blocks(operator) => {
                match ScanCursor::new(run, scan, wanted) {
                    Some(cursor) => Self::Scan(Box::new(cursor)),
                    None => Self::source(operator, wanted)?,
                }
            }
            Operator::HashJoin { left, right, keys, join } => {
                match JoinCursor::new(run, (left, right), keys, join, wanted) {
                    Some(cursor) => Self::Join(Box::new(cursor)),
                    None => Self::source(operator, wanted)?,
                }
            }
            Operator::LoopJoin { left, right, join } => {
                match JoinCursor::new(run, (left, right), &[], join, wanted) {
                    Some(cursor) => Self::Join(Box::new(cursor)),
                    None => Self::source(operator, wanted)?,
                }
            }
            Operator::Filter { input, conditions } => {
                let cursor = FilterCursor::new(run, input, conditions, wanted)?;
                Self::Filter(Box::new(cursor))
            }
            _ => Self::source(operator, wanted)?,
        })
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
            Self::Filter(cursor) => cursor.shape(),
        }
    }

    /// The next rows, never none; nothing at the end.
    pub(crate) fn next<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(async move {
            loop {
                let batch = match self {
                    Self::Scan(cursor) => cursor.next(run).await?,
                    Self::Source(cursor) => cursor.next(run).await?,
                    Self::Join(cursor) => cursor.next(run).await?,
                    Self::Filter(cursor) => cursor.next(run).await?,
                };
                let Some(batch) = batch else { return Ok(None) };
                run.worked(batch.rows() / 8 + 1).await?;
                if batch.rows() > 0 {
                    return Ok(Some(batch));
                }
            }
        })
    }

    /// Rows are needed only whose column at a place has a value of this set. Before the first rows
    /// are asked for.
    fn narrow(&mut self, place: usize, set: &KeySet) {
        match self {
            Self::Scan(cursor) => cursor.narrow(place, set),
            Self::Source(_) => {}
            Self::Join(cursor) => cursor.narrow(place, set),
            Self::Filter(cursor) => cursor.narrow(place, set),
        }
    }
}

/// The places of the row that expressions use; none if it cannot be told.
pub(crate) fn places_of<'e>(
    expressions: impl IntoIterator<Item = &'e Expression>,
) -> Option<BTreeSet<usize>> {
    let mut places = BTreeSet::new();
    let mut is_known = true;
    for expression in expressions {
        expression.visit(&mut |part| match &part.node {
            Node::Column { index, .. } => {
                places.insert(*index as usize);
            }
            Node::Subquery(subquery) if subquery.correlated => is_known = false,
            _ => {}
        });
    }
    is_known.then_some(places)
}

/// The places that conditions use; all of a width if it cannot be told.
fn places_of_conditions<'f>(
    conditions: impl IntoIterator<Item = &'f Formula>,
    width: usize,
) -> BTreeSet<usize> {
    let expressions = conditions.into_iter().map(|condition| &condition.expression);
    places_of(expressions).unwrap_or_else(|| (0..width).collect())
}
