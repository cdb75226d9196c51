//! Window functions of a query block as an operator.
//!
//! # Owns
//! Which windows share a sort, and what is computed of each row beforehand.
//! # Guarantees
//! Windows with the same PARTITION BY and ORDER BY share one sort, and so do those whose list is
//! the beginning of a longer one.

use sql_expression::{Expression, SortKey, WindowCall};

use crate::logical::formula::{Formula, SortBy};
use crate::plan::operator::{Operator, WindowStep, Windows};

/// The operator that computes these functions over the rows of `input`.
pub(crate) fn windows(input: Operator, width: usize, calls: Vec<WindowCall>) -> Operator {
    let results = calls.len();
    let mut computed: Vec<Expression> = Vec::new();
    let mut steps: Vec<WindowStep> = Vec::new();
    for (at, mut call) in calls.into_iter().enumerate() {
        for expression in call.expressions_mut() {
            become_column(expression, width + results, &mut computed);
        }
        let keys = sort_keys(&call);
        let partition = keys[..call.window.partition_by.len()].to_vec();
        let of_same = |step: &&mut WindowStep| {
            step.partition == partition && step.calls[0].1.window.order_by == call.window.order_by
        };
        match steps.iter_mut().find(of_same) {
            Some(step) => step.calls.push((width + at, call)),
            None => {
                let calls = vec![(width + at, call)];
                steps.push(WindowStep { sort: Some(keys), partition, calls });
            }
        }
    }
    let computed = computed.into_iter().map(Formula::new).collect();
    let steps = sharing(steps);
    Operator::Window(Box::new(Windows { input: input.into(), width, results, computed, steps }))
}

/// The longest lists first, each followed by those that are its beginning.
fn sharing(mut steps: Vec<WindowStep>) -> Vec<WindowStep> {
    let length = |step: &WindowStep| step.sort.as_ref().map_or(0, Vec::len);
    steps.sort_by_key(|step| std::cmp::Reverse(length(step)));
    let mut ordered: Vec<WindowStep> = Vec::with_capacity(steps.len());
    while !steps.is_empty() {
        let first = steps.remove(0);
        let keys = first.sort.clone().unwrap_or_default();
        ordered.push(first);
        let is_served =
            |step: &WindowStep| step.sort.as_ref().is_some_and(|others| keys.starts_with(others));
        let (served, rest): (Vec<_>, Vec<_>) = steps.into_iter().partition(is_served);
        ordered.extend(served.into_iter().map(|step| WindowStep { sort: None, ..step }));
        steps = rest;
    }
    ordered
}

fn sort_keys(call: &WindowCall) -> Vec<SortBy> {
    let by = |expression: &Expression, descending| SortBy {
        formula: Formula::new(expression.clone()),
        descending,
    };
    let partition = call.window.partition_by.iter().map(|expression| by(expression, false));
    let order = call.window.order_by.iter();
    let order = order.map(|SortKey { expression, descending }| by(expression, *descending));
    partition.chain(order).collect()
}

/// Makes an expression a column of the row, which is computed once for each row.
fn become_column(expression: &mut Expression, first: usize, computed: &mut Vec<Expression>) {
    if expression.as_column().is_some() {
        return;
    }
    let steady = !expression.is_volatile();
    let same = computed.iter().position(|other| other == expression).filter(|_| steady);
    let at = same.unwrap_or_else(|| {
        computed.push(expression.clone());
        computed.len() - 1
    });
    let result = expression.result.clone();
    *expression = Expression::column((first + at) as u32, Default::default(), result);
}
