//! Aggregates: where they may stand, and their places in the list.

use sql_parser::ast::{self, AggregateFunction};

use super::Binder;
use crate::aggregate::{AggregateCall, SortKey};
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::result_type::ResultType;
use crate::scope::Clause;

/// An aggregate whose columns are all of a query around this one belongs to that query.
fn refuse_outer(arguments: &[Expression]) -> Result<(), SqlError> {
    let has =
        |is: &mut dyn FnMut(&Expression) -> bool| arguments.iter().any(|argument| argument.any(is));
    let outer = has(&mut |part| matches!(part.node, Node::Outer { .. }));
    let own = has(&mut |part| matches!(part.node, Node::Column { .. } | Node::Subquery(_)));
    match outer && !own {
        true => Err(SqlError::not_supported("aggregates of columns of an enclosing query")),
        false => Ok(()),
    }
}

impl Binder<'_, '_> {
    /// An aggregate of this query block: the same one twice is computed once.
    pub(super) fn aggregate(&mut self, call: &ast::AggregateCall) -> Result<Expression, SqlError> {
        if self.in_aggregate || !(self.clause.allows_aggregates() || self.in_window) {
            return Err(SqlError::of::<1111>(&[]));
        }
        let bound = self.aggregate_call(call)?;
        Ok(self.aggregate_slot(bound))
    }

    /// GROUPING: a value of the group as aggregates are.
    pub(super) fn grouping(&mut self, arguments: &[ast::Expr]) -> Result<Expression, SqlError> {
        if self.in_aggregate || !(self.clause.allows_aggregates() || self.in_window) {
            return Err(SqlError::of::<1111>(&[]));
        }
        let before = std::mem::replace(&mut self.in_aggregate, true);
        let values = self.values(arguments);
        self.in_aggregate = before;
        Ok(self.aggregate_slot(AggregateCall::grouping(values?)))
    }

    fn aggregate_slot(&mut self, bound: AggregateCall) -> Expression {
        let result = bound.result.clone();
        let slot = match self.aggregates.iter().position(|known| *known == bound) {
            Some(slot) => slot,
            None => {
                self.aggregates.push(bound);
                self.aggregates.len() - 1
            }
        };
        Expression { node: Node::Aggregate(slot as u32), result }
    }

    /// The aggregate's arguments and type.
    pub(super) fn aggregate_call(
        &mut self,
        call: &ast::AggregateCall,
    ) -> Result<AggregateCall, SqlError> {
        if call.function == AggregateFunction::StCollect {
            return Err(SqlError::not_supported("spatial functions"));
        }
        let before = std::mem::replace(&mut self.in_aggregate, true);
        let bound = self.aggregate_parts(call);
        self.in_aggregate = before;
        let (arguments, order_by) = bound?;
        refuse_outer(&arguments)?;
        AggregateCall::derive(
            call.function,
            call.distinct,
            arguments,
            order_by,
            call.separator.clone(),
            &self.settings.facts,
        )
    }

    fn aggregate_parts(
        &mut self,
        call: &ast::AggregateCall,
    ) -> Result<(Vec<Expression>, Vec<SortKey>), SqlError> {
        let arguments = self.values(&call.arguments)?;
        let windowed = |part: &Expression| part.any(&mut |p| matches!(p.node, Node::Window(_)));
        if let Some(found) = arguments.iter().find(|part| windowed(part)) {
            let slot = match found.node {
                Node::Window(slot) => slot as usize,
                _ => 0,
            };
            let name = self.windows.get(slot).map_or("", |call| call.kind.name());
            return Err(SqlError::of::<3593>(&[&name]));
        }
        let mut order_by = Vec::with_capacity(call.order_by.len());
        for item in &call.order_by {
            let expression = match &item.expr {
                ast::Expr::Literal(ast::Literal::Integer(position)) => {
                    let at = usize::try_from(*position).ok().and_then(|at| at.checked_sub(1));
                    let found = at.and_then(|at| arguments.get(at)).cloned();
                    found.ok_or_else(|| SqlError::unknown_column(position, Clause::OrderBy))?
                }
                expr => self.value(expr)?,
            };
            order_by.push(SortKey { expression, descending: item.descending });
        }
        Ok((arguments, order_by))
    }

    /// The type of a result that may be NULL for want of rows.
    pub(super) fn nullable(result: ResultType) -> ResultType {
        ResultType { nullable: true, ..result }
    }
}
