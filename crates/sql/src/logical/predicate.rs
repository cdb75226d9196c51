//! Conditions taken apart, made and asked about.
//!
//! # Owns
//! What binding, rewriting and planning ask of an expression again and again: whether it uses the
//! row, enclosing rows or subqueries, and whether it may be evaluated at any time.

use sql_expression::{BinaryOp, Compare, Comparison, Expression, Node, ResultType};

/// The parts of a conjunction.
pub(crate) fn split(expression: Expression, into: &mut Vec<Expression>) {
    match expression.node {
        Node::And(parts) => parts.into_iter().for_each(|part| split(part, into)),
        _ => into.push(expression),
    }
}

/// That two values are equal, compared as is told.
pub(crate) fn equality(left: Expression, right: Expression, comparison: Comparison) -> Expression {
    let nullable = left.result.nullable || right.result.nullable;
    let compare = Compare { op: BinaryOp::Equal, comparison, left, right };
    Expression { node: Node::Compare(Box::new(compare)), result: ResultType::truth(nullable) }
}

pub(crate) fn uses_outer(expression: &Expression) -> bool {
    expression.any(&mut |part| matches!(part.node, Node::Outer { .. }))
}

pub(crate) fn uses_row(expression: &Expression) -> bool {
    expression.any(&mut |part| matches!(part.node, Node::Column { .. }))
}

pub(crate) fn has_subquery(expression: &Expression) -> bool {
    expression.any(&mut |part| matches!(part.node, Node::Subquery(_)))
}

/// Whether it does not matter when and how often it is evaluated.
pub(crate) fn is_steady(expression: &Expression) -> bool {
    let is_correlated =
        |part: &Expression| matches!(&part.node, Node::Subquery(subquery) if subquery.correlated);
    !expression.is_volatile() && !expression.any(&mut |part| is_correlated(part))
}
