//! Scans that end early: the order of an index, LIMIT, conditions that are dear.
//!
//! # Owns
//! What a LIMIT over the rows of one table means for its scan.
//! # Not here
//! LIMIT over other rows, and sorts that keep the first (`execute::cursor`).

use sql_expression::Expression;

use crate::logical::formula::{Bounds, Formula};
use crate::plan::operator::{AccessPath, IndexRange, Operator};

/// Lets a single table's index give the order, where it does so for nothing or a LIMIT makes it
/// worth it. What remains to be sorted by.
pub(super) fn ordered_by_index(
    root: &mut Operator,
    order_by: Vec<(Expression, Option<usize>, bool)>,
    bounds: Option<&Bounds>,
) -> Vec<(Expression, Option<usize>, bool)> {
    let Operator::Scan(scan) = root else { return order_by };
    let Some((_, _, descending)) = order_by.first() else { return order_by };
    let descending = *descending;
    let mut wanted = Vec::new();
    for (expression, _, down) in &order_by {
        let place = expression.as_column().map(|place| place as usize);
        match place.and_then(|place| place.checked_sub(scan.offset)) {
            Some(at) if *down == descending => wanted.push(at),
            _ => return order_by,
        }
    }
    let order = if descending { wire::ScanOrder::Descending } else { wire::ScanOrder::Ascending };
    match &scan.path {
        AccessPath::Primary { keys } | AccessPath::Unique { keys, .. } if keys.len() == 1 => {
            Vec::new()
        }
        AccessPath::Ranges { columns, ranges, .. } if ranges.len() == 1 => {
            let equal = ranges[0].equal.len();
            // Columns that are equal in all rows do not count.
            let fixed = &columns[..equal];
            let mut rest: Vec<usize> =
                wanted.iter().copied().filter(|at| !fixed.contains(at)).collect();
            rest.dedup();
            if columns[equal..].starts_with(&rest) {
                scan.ordered = Some(order);
                return Vec::new();
            }
            order_by
        }
        AccessPath::Full if bounds.is_some() => {
            let definition = scan.definition.clone();
            let key = definition.keys.iter().find(|key| {
                let columns: Vec<usize> = key.columns.iter().map(|part| part.column).collect();
                !key.invisible && key.ordered.is_some() && columns.starts_with(&wanted)
            });
            let Some((key, index)) = key.and_then(|key| Some((key, key.ordered?))) else {
                return order_by;
            };
            scan.path = AccessPath::Ranges {
                index,
                name: key.name.clone(),
                columns: key.columns.iter().map(|part| part.column).collect(),
                ranges: vec![IndexRange::default()],
            };
            scan.ordered = Some(order);
            Vec::new()
        }
        _ => order_by,
    }
}

/// A limit that nothing between it and the scan takes rows away from.
pub(super) fn limit_scan(root: &mut Operator, bounds: Option<&Bounds>) {
    if let (Operator::Scan(scan), Some(bounds)) = (root, bounds) {
        scan.limit = Some(bounds.clone());
    }
}

/// Takes conditions with subqueries out of a scan that a LIMIT may end: a filter checks a few rows
/// at a time, a scan all that have come.
pub(super) fn check_late(root: Operator, bounds: Option<&Bounds>) -> Operator {
    let Operator::Scan(mut scan) = root else { return root };
    let waits = |formula: &Formula| formula.needs.subqueries || formula.needs.correlated_subqueries;
    if bounds.is_none() || scan.lock.is_some() || !scan.conditions.iter().any(waits) {
        return Operator::Scan(scan);
    }
    let (waiting, ready) = std::mem::take(&mut scan.conditions).into_iter().partition(waits);
    (scan.conditions, scan.limit) = (ready, None);
    Operator::Filter { input: Operator::Scan(scan).into(), conditions: waiting }
}
