//! The operators of a bound block.
//!
//! # Owns
//! Which operators stand above the joins, and in which order: groups, HAVING, windows, ORDER BY,
//! the select list, DISTINCT, LIMIT.
//! # Not here
//! The joins (`join`).

use std::rc::Rc;
use std::sync::Arc;

use sql_expression::{AggregateCall, Expression, Node, ResultType, SqlError};

use crate::logical::bound::{Block, Bound, Shape};
use crate::logical::formula::{Bounds, Formula, SortBy};
use crate::logical::from_table::FromTable;
use crate::plan::distinct;
use crate::plan::edge;
use crate::plan::join::JoinPlanner;
use crate::plan::limit::{check_late, limit_scan, ordered_by_index};
use crate::plan::operator::{Aggregate, Operator, QueryPlan, shown};
use crate::plan::window;

/// The operators of a block; the plans of the queries in its FROM, by the number of the table.
///
/// # Errors
/// Those of planning joins.
pub(super) fn operators(
    block: Block,
    plans: &[Option<Rc<QueryPlan>>],
) -> Result<Operator, SqlError> {
    let Block { tables, tree, bound, width, shape, .. } = block;
    let tables = &tables[..];
    let Shape { grouped, distinct, rollup, counts } = shape;
    let Bound {
        outputs,
        conditions,
        group_by,
        mut having,
        mut order_by,
        bounds,
        aggregates,
        mut windows,
        pauses,
        ..
    } = bound;
    let planner = JoinPlanner { tables, plans, width, pauses: &pauses };
    let mut root = match tree {
        Some(tree) => planner.plan(tree, conditions)?,
        None => one_row(width, conditions),
    };
    pauses.look()?;
    let mut values: Vec<Expression> = outputs.into_iter().map(|output| output.expression).collect();
    // Results of aggregates stand behind the columns of the row, those of windows behind them. With
    // ROLLUP what is grouped by stands between: in the rows of totals it is NULL, also what is
    // computed of columns.
    let mut before_windows = width + aggregates.len();
    if rollup {
        let first = before_windows as u32;
        let above = values.iter_mut().chain(&mut having);
        let above = above.chain(order_by.iter_mut().map(|(expression, _, _)| expression));
        let above = above.chain(windows.iter_mut().flat_map(|call| call.expressions_mut()));
        above.for_each(|expression| totalled(expression, &group_by, first));
        before_windows += group_by.len();
    }
    let place = |part: &mut Expression| part.place(width as u32, before_windows as u32);
    values.iter_mut().for_each(place);
    having.iter_mut().for_each(place);
    order_by.iter_mut().for_each(|(expression, _, _)| place(expression));
    windows.iter_mut().for_each(|call| call.expressions_mut().for_each(place));
    pauses.look()?;
    if grouped {
        let sorts = order_by.iter().map(|(expression, _, _)| expression);
        let sorts = sorts.chain(windows.iter().flat_map(|call| call.expressions()));
        let above: Vec<&Expression> = values.iter().chain(&having).chain(sorts).collect();
        root = groups(tables, root, group_by, aggregates, &above, width, rollup);
    }
    if !having.is_empty() {
        let conditions = having.into_iter().map(Formula::new).collect();
        root = Operator::Filter { input: root.into(), conditions };
    }
    let has_windows = !windows.is_empty();
    if has_windows {
        root = window::windows(root, before_windows, windows);
    }
    if !grouped && !has_windows && !distinct && !counts {
        order_by = ordered_by_index(&mut root, order_by, bounds.as_ref());
        if order_by.is_empty() {
            limit_scan(&mut root, bounds.as_ref());
            root = check_late(root, bounds.as_ref());
        }
    }
    Ok(finished(root, values, order_by, bounds, distinct, counts))
}

/// The groups of a block, with what expressions above them use of its rows.
fn groups(
    tables: &[FromTable],
    input: Operator,
    group_by: Vec<Expression>,
    calls: Vec<AggregateCall>,
    above: &[&Expression],
    width: usize,
    rollup: bool,
) -> Operator {
    let whole = group_by.is_empty();
    let group = group_by.into_iter().map(Formula::new).collect();
    let uses_rows = |expression: &Expression| {
        expression.any(&mut |part| match &part.node {
            Node::Column { index, .. } => (*index as usize) < width,
            Node::Subquery(subquery) => subquery.correlated,
            _ => false,
        })
    };
    let alone = whole && !above.iter().any(|expression| uses_rows(expression));
    let shown = shown(above, width);
    match edge::edges(tables, &input, &calls).filter(|_| alone) {
        Some(edges) => Operator::Edges { width, edges },
        None => {
            let aggregate =
                Aggregate { input: input.into(), group, calls, width, shown, rollup, whole };
            Operator::Aggregate(Box::new(distinct::split(aggregate)))
        }
    }
}

/// Takes what is grouped by from its place behind the aggregates, the first of which is given.
fn totalled(expression: &mut Expression, group_by: &[Expression], first: u32) {
    let place = |part: &Expression| group_by.iter().position(|key| key == part);
    let column = |at: usize, part: &Expression| {
        let result = ResultType { nullable: true, ..part.result.clone() };
        Expression::column(first + at as u32, Arc::default(), result)
    };
    match place(expression) {
        Some(at) => *expression = column(at, expression),
        // A constant means a key of groups only where it stands alone.
        None => expression.for_each_part_mut(&mut |part| match part.as_constant() {
            Some(_) => {}
            None => totalled(part, group_by, first),
        }),
    }
}

/// What a block without tables has, if the conditions hold.
fn one_row(width: usize, conditions: Vec<Expression>) -> Operator {
    let input = Operator::Nothing { width };
    if conditions.is_empty() {
        return input;
    }
    let conditions = conditions.into_iter().map(Formula::new).collect();
    Operator::Filter { input: input.into(), conditions }
}

/// ORDER BY, LIMIT, the select list, DISTINCT, in the order that evaluates least.
fn finished(
    mut root: Operator,
    values: Vec<Expression>,
    order_by: Vec<(Expression, Option<usize>, bool)>,
    bounds: Option<Bounds>,
    distinct: bool,
    counts: bool,
) -> Operator {
    let width = values.len();
    // Values that may be others the next time are computed once, before they are sorted by. Where
    // they are not sorted by, rows that LIMIT leaves out have none.
    let early = distinct || order_by.iter().any(|(expression, _, _)| expression.is_volatile());
    let sort = |root: Operator, keys: Vec<SortBy>, bounds: &Option<Bounds>| {
        if keys.is_empty() {
            root
        } else {
            // Where all rows are counted, none is left out by the sort.

            let limit = bounds.clone().filter(|_| !counts);
            Operator::Sort { input: root.into(), keys, limit }
        }
    };
    let limit = |root: Operator, bounds: Option<Bounds>| match bounds {
        Some(bounds) => Operator::Limit { input: root.into(), bounds },
        None => root,
    };
    if !early {
        let keys = order_by
            .into_iter()
            .map(|(expression, _, descending)| SortBy {
                formula: Formula::new(expression),
                descending,
            })
            .collect();
        root = limit(sort(root, keys, &bounds), bounds);
        let expressions = values.into_iter().map(Formula::new).collect();
        return Operator::Project { input: root.into(), expressions };
    }
    let types: Vec<ResultType> = values.iter().map(|value| value.result.clone()).collect();
    let mut expressions = values;
    let mut keys = Vec::new();
    for (expression, output, descending) in order_by {
        let at = output.unwrap_or(expressions.len());
        let result = expression.result.clone();
        if output.is_none() {
            expressions.push(expression);
        }
        let column = Expression::column(at as u32, Arc::default(), result);
        keys.push(SortBy { formula: Formula::new(column), descending });
    }
    let wider = expressions.len() > width;
    let expressions = expressions.into_iter().map(Formula::new).collect();
    root = Operator::Project { input: root.into(), expressions };
    if distinct {
        let types = types.iter().map(|result| result.sql_type.clone()).collect();
        root = Operator::Distinct { input: root.into(), types };
    }
    root = limit(sort(root, keys, &bounds), bounds);
    if wider {
        let column = |(at, result): (usize, ResultType)| {
            Formula::new(Expression::column(at as u32, Arc::default(), result))
        };
        let expressions = types.into_iter().enumerate().map(column).collect();
        root = Operator::Project { input: root.into(), expressions };
    }
    root
}
