//! Aggregates of distinct values as groups of groups.
//!
//! `COUNT(DISTINCT x) … GROUP BY k` is `COUNT(x) … GROUP BY k` over the groups by `k` and `x`.
//! Those below are plain groups, which data nodes make of their rows, and columns are made for.
//!
//! # Owns
//! Which aggregates are split so.
//! # Not here
//! Aggregates of distinct values beside others: these keep the values they have seen.

use sql_expression::{AggregateCall, Expression};
use sql_parser::ast::AggregateFunction;
use sqltype::TypeKind;

use crate::logical::formula::Formula;
use crate::plan::operator::places_of;
use crate::plan::operator::{Aggregate, Operator};

/// The groups, above others that have each distinct value once if there are such values.
pub(crate) fn split(mut aggregate: Aggregate) -> Aggregate {
    let Some(value) = only_value(&aggregate) else { return aggregate };
    let mut group = aggregate.group.clone();
    group.push(Formula::new(value));
    let Some(mut shown) = places_of(group.iter().map(|formula| &formula.expression)) else {
        return aggregate;
    };
    shown.extend(&aggregate.shown);
    let below = Aggregate {
        input: aggregate.input,
        group,
        calls: Vec::new(),
        width: aggregate.width,
        shown: shown.into_iter().collect(),
        rollup: false,
        whole: false,
    };
    for call in &mut aggregate.calls {
        call.distinct = false;
        // A value that is kept to be told from others is kept as it is shown.
        call.exact = false;
    }
    Aggregate { input: Operator::Aggregate(Box::new(below)).into(), ..aggregate }
}

/// The value that all aggregates are of, each distinct one counting once. None where something is
/// evaluated twice that must not be, where groups differ from what is counted, and for floats,
/// whose sum depends on their order.
fn only_value(aggregate: &Aggregate) -> Option<Expression> {
    let value = aggregate.calls.first()?.values.first()?;
    let counts_once = |call: &AggregateCall| match call.function {
        AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Avg => call.distinct,
        AggregateFunction::Min | AggregateFunction::Max => true,
        _ => false,
    };
    let is_of_value = |call: &AggregateCall| {
        counts_once(call) && matches!(&call.values[..], [of] if of == value) && !call.grouping
    };
    let is_some_distinct = aggregate.calls.iter().any(|call| call.distinct);
    if aggregate.rollup || !is_some_distinct || !aggregate.calls.iter().all(is_of_value) {
        return None;
    }
    let is_plain = |expression: &Expression| {
        let kind = &expression.sql_type().kind;
        !expression.is_volatile()
            && expression.needs() == Default::default()
            && !matches!(kind, TypeKind::Json | TypeKind::Float | TypeKind::Double)
    };
    let keys = aggregate.group.iter().map(|formula| &formula.expression);
    keys.chain([value]).all(is_plain).then(|| value.clone())
}
