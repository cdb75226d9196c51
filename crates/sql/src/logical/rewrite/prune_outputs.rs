//! Columns of queries in FROM that nobody uses are not computed.
//!
//! `SELECT d.a FROM (SELECT a, 1 DIV b AS c FROM t LIMIT 9) d` asks for no quotient.
//!
//! # Guarantees
//! What is evaluated is the same or less; a column keeps its place, and becomes NULL.

use std::rc::Rc;

use sql_expression::{Expression, Node, ResultType};
use sqltype::Datum;

use crate::logical::bound::{Block, Relation};
use crate::logical::from_table::{FromTable, Source};

/// Takes out of queries in FROM what nothing uses of their rows, so that it cannot fail. What no
/// expression of the block uses now, none will use: rewrites of blocks around it only move what
/// there is. A query that other places use too stays as it is.
pub(super) fn prune(tables: &mut [FromTable]) {
    for table in tables {
        let Source::Derived(query) = &mut table.source else { continue };
        let relation = Rc::get_mut(query).map(|query| &mut query.relation);
        let Some(Relation::Block(block)) = relation else { continue };
        let Block { bound, shape, .. } = &mut **block;
        // What rows are told apart by, or sorted by, is used.
        let mut sorts = bound.order_by.iter().map(|(expression, _, _)| expression);
        if shape.distinct || sorts.any(Expression::is_volatile) {
            continue;
        }
        for (at, output) in bound.outputs.iter_mut().enumerate() {
            let of = &mut output.expression;
            let is_plain = matches!(
                of.node,
                Node::Column { .. } | Node::Aggregate(_) | Node::Window(_) | Node::Constant(_)
            ) || of.is_volatile();
            if !is_plain && !table.used.contains(&at) {
                let result = ResultType { nullable: true, ..of.result.clone() };
                *of = Expression::constant(Datum::Null, result);
            }
        }
    }
}
