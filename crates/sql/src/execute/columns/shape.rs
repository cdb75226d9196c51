//! What stands in columns, and where the values of an operator's columns come from.
//!
//! # Owns
//! [`Shape`]; [`Stop`], why rows do not come in columns; the scan that a set of keys narrows.

use std::collections::{BTreeMap, BTreeSet};

use model::ColumnId;
use sql_expression::{Node, ProgramColumn, SqlError};
use sqltype::SqlType;
use vector::KeySet;

use crate::execute::run::Run;
use crate::logical::formula::Formula;
use crate::plan::operator::{Operator, TableScan, places_of};
use crate::plan::operator_id::OperatorId;

/// Rows that are collected before what is joined to them is asked for.
pub(super) const COLLECTED_MAX: usize = 200_000;

/// Pairs of rows that are looked at at a time.
pub(super) const PAIRS_MAX: usize = 1_024;

/// Rows that are entered into the table of a join, or keys into a set, between two looks at the
/// clock.
pub(super) const ENTERED_MAX: usize = 1_024;

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

/// Columns of these types at their places, as far as they are wanted.
pub(super) fn result_shape<'t>(
    types: impl Iterator<Item = &'t SqlType>,
    wanted: &BTreeSet<usize>,
) -> Shape {
    let column = |(place, sql_type): (usize, &SqlType)| {
        let column = ProgramColumn { column: ColumnId(0), sql_type: sql_type.clone() };
        wanted.contains(&place).then_some(column)
    };
    types.enumerate().map(column).collect()
}

/// Has a scan below an operator look only for rows whose value is in a set, if it is sure that the
/// others leave no trace in a row with such a value at this place. Holds for its next execution;
/// gives the scan.
pub(super) fn narrow(
    run: &mut Run<'_>,
    operator: &Operator,
    place: usize,
    set: KeySet,
) -> Option<OperatorId> {
    let (scan, input) = narrowed_scan(operator, place)?;
    run.narrowed.or_default(scan.id()).push(set.for_input(input));
    run.count_key_set(scan);
    Some(scan.id())
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
            if join.right_places.iter().any(is_right) {
                if !join.outer { narrowed_scan(right, place) } else { None }
            } else {
                narrowed_scan(left, place)
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

/// Whether a condition has to wait for a subquery.
pub(super) fn has_subquery(condition: &Formula) -> bool {
    !condition.is_ready()
        && condition.expression.any(&mut |part| matches!(part.node, Node::Subquery(_)))
}

/// The places that conditions use; all of a width if it cannot be told.
pub(super) fn places_of_conditions<'f>(
    conditions: impl IntoIterator<Item = &'f Formula>,
    width: usize,
) -> BTreeSet<usize> {
    let expressions = conditions.into_iter().map(|condition| &condition.expression);
    places_of(expressions).unwrap_or_else(|| (0..width).collect())
}

/// What stands at the places of an operator's rows.
pub(crate) fn shape_of(operator: &Operator) -> Option<BTreeMap<usize, SqlType>> {
    Some(match operator {
        Operator::Nothing { .. } => BTreeMap::new(),
        Operator::Scan(scan) => {
            let columns = &scan.definition.columns;
            let of = |at: &usize| (scan.offset + at, columns[*at].sql_type.clone());
            scan.wanted.iter().map(of).collect()
        }
        Operator::Lookup { input, scan, .. } => {
            let mut shape = shape_of(input)?;
            let columns = &scan.definition.columns;
            let of = |at: &usize| (scan.offset + at, columns[*at].sql_type.clone());
            shape.extend(scan.wanted.iter().map(of));
            shape
        }
        Operator::Derived(scan) => {
            let types = scan.plan.results.iter().map(|result| result.sql_type.clone());
            (scan.offset..).zip(types).collect()
        }
        Operator::HashJoin { left, right, .. } | Operator::LoopJoin { left, right, .. } => {
            let mut shape = shape_of(left)?;
            shape.extend(shape_of(right)?);
            shape
        }
        Operator::Filter { input, .. } => shape_of(input)?,
        Operator::Aggregate(aggregate) if !aggregate.rollup => {
            let mut shape = shape_of(&aggregate.input)?;
            shape.retain(|place, _| aggregate.shown.contains(place));
            let calls = aggregate.calls.iter().map(|call| call.result.sql_type.clone());
            shape.extend((aggregate.width..).zip(calls));
            shape
        }
        Operator::Project { expressions, .. } => {
            let types = expressions.iter().map(|formula| formula.expression.sql_type().clone());
            types.enumerate().collect()
        }
        _ => return None,
    })
}

/// How wide the row of an operator's block is, if it is one over tables.
pub(crate) fn width_of(operator: &Operator) -> Option<usize> {
    match operator {
        Operator::Nothing { width } => Some(*width),
        Operator::Scan(scan) | Operator::Lookup { scan, .. } => Some(scan.width),
        Operator::Virtual(scan) => Some(scan.width),
        Operator::Derived(scan) => Some(scan.width),
        Operator::HashJoin { left, .. } | Operator::LoopJoin { left, .. } => width_of(left),
        Operator::Aggregate(aggregate) => Some(aggregate.width + aggregate.calls.len()),
        Operator::Project { expressions, .. } => Some(expressions.len()),
        Operator::Filter { input, .. } => width_of(input),
        _ => None,
    }
}
