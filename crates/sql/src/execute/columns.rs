//! Operators over columns: joins and groups of many rows at a time.
//!
//! # Owns
//! Which operators work on columns: scans, joins by equality and filters whose expressions have a
//! translation into programs, over any other operator as a source of rows; which parts of a plan
//! are worth it.
//! # Guarantees
//! The rows are those that the cursors of rows give, in another order perhaps. What a program
//! cannot compute exactly is computed row by row.
//! # Not here
//! Groups (`cursor::group`), the kernels themselves (`vector`).

mod apply;
pub(crate) mod batch;
pub(crate) mod cursor;
mod filter;
pub(crate) mod first;
mod group;
mod join;
mod joined;
pub(crate) mod keys;
mod project;
mod scan;
pub(crate) mod shape;
pub(crate) mod source;

use std::collections::BTreeSet;

use sql_expression::{Expression, Node};

use crate::execute::columns::apply::ApplyCursor;
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::filter::FilterCursor;
use crate::execute::columns::group::GroupCursor;
use crate::execute::columns::join::JoinCursor;
use crate::execute::columns::joined::JoinedCursor;
use crate::execute::columns::project::ProjectCursor;
use crate::execute::columns::scan::ScanCursor;
use crate::execute::columns::shape::{has_subquery, places_of_conditions};
pub(crate) use crate::execute::columns::shape::{shape_of, width_of};
use crate::execute::columns::source::SourceCursor;

use crate::execute::run::Run;
use crate::execute::{joined as in_data_nodes, pushdown};
use crate::logical::formula::Formula;
use crate::plan::operator::{AccessPath, Operator, PlanNode, TableScan};

/// Rows of a table from which on subqueries over large tables are told them at once.
const ASKING_ROWS: u64 = 32;

/// Begins an operator on columns, if it is worth it and possible: a join or a scan of large tables.
/// Of the block's row these places are wanted; all that there are, unless told.
pub(crate) fn begin<'p>(
    run: &Run<'_>,
    operator: &'p PlanNode,
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
    // Rows that are put into columns to be rows again are none.
    ColumnCursor::new(run, operator, wanted).filter(|cursor| !cursor.is_source())
}

/// Begins a join that data nodes make, which send only so many rows that come first in an order.
fn begin_first<'p>(
    run: &Run<'_>,
    operator: &'p PlanNode,
    order: &[(&Expression, bool)],
    rows: u32,
) -> Option<ColumnCursor<'p>> {
    if !run.session.variables.pushdown {
        return None;
    }
    let wanted = shape_of(operator)?.keys().copied().collect();
    ColumnCursor::watched(run, operator, || {
        let mut cursor = JoinedCursor::any(run, operator, &wanted)?;
        let is_pushed = cursor.want_first(run, order, rows);
        is_pushed.then(|| ColumnCursor::of(cursor))
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
        operator: &'p PlanNode,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        Self::watched(run, operator, || Self::unwatched(run, operator, wanted))
    }

    /// What is made for an operator, with whoever looks on.
    fn watched(
        run: &Run<'_>,
        operator: &'p PlanNode,
        make: impl FnOnce() -> Option<Self>,
    ) -> Option<Self> {
        let Some(observer) = &run.observer else { return make() };
        let mark = observer.borrow().mark();
        let cursor = make();
        let on_columns = cursor.as_ref().map(|cursor| !cursor.is_source());
        observer.borrow_mut().created(mark, operator, on_columns);
        let cursor = cursor?;
        Some(if cursor.is_source() { cursor } else { cursor.watched_as(operator) })
    }

    fn unwatched(run: &Run<'_>, operator: &'p PlanNode, wanted: &BTreeSet<usize>) -> Option<Self> {
        let conditions = match &operator.operator {
            Operator::Scan(scan) if reads_blocks(operator) => scan.conditions.as_slice(),
            Operator::Filter { conditions, .. } => conditions.as_slice(),
            _ => &[],
        };
        let waiting: Vec<&Formula> = conditions.iter().filter(|c| has_subquery(c)).collect();
        if waiting.is_empty() {
            return Self::simple(run, operator, wanted);
        }
        if let Some(cursor) = JoinedCursor::new(run, operator, wanted) {
            return Some(Self::of(cursor));
        }
        let width = width_of(operator)?;
        let mut places = places_of_conditions(waiting.iter().copied(), width);
        places.extend(wanted);
        let input = Self::simple(run, operator, &places)?;
        if input.is_source() {
            return Some(input);
        }
        Some(Self::of(ApplyCursor::new(input, operator, waiting)))
    }

    /// Without what waits for subqueries.
    fn simple(run: &Run<'_>, operator: &'p PlanNode, wanted: &BTreeSet<usize>) -> Option<Self> {
        if let Some(cursor) = JoinedCursor::new(run, operator, wanted) {
            return Some(Self::of(cursor));
        }
        let cursor = match &operator.operator {
            Operator::Scan(scan) if reads_blocks(operator) => {
                ScanCursor::new(run, scan, wanted).map(Self::of)
            }
            Operator::HashJoin { left, right, keys, join } => {
                JoinCursor::new(run, left, right, keys, join, wanted).map(Self::of)
            }
            Operator::LoopJoin { left, right, join } => {
                JoinCursor::new(run, left, right, &[], join, wanted).map(Self::of)
            }
            Operator::Filter { input, conditions } => {
                FilterCursor::new(run, input, conditions, wanted).map(Self::of)
            }
            Operator::Project { input, expressions } => {
                ProjectCursor::new(run, input, expressions, wanted).map(Self::of)
            }
            Operator::Aggregate(_) => GroupCursor::new(operator, wanted).map(Self::of),
            _ => None,
        };
        cursor.or_else(|| SourceCursor::new(operator, wanted).map(Self::of_source))
    }
}

/// Whether a subquery can be run on columns for all rows of its enclosing block.
pub(crate) fn can_begin(run: &Run<'_>, operator: &PlanNode, width: usize) -> bool {
    let cursor = ColumnCursor::new(run, operator, &(0..width).collect());
    cursor.is_some_and(|cursor| !cursor.is_source())
}
