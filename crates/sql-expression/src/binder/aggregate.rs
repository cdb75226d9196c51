//! Aggregates: where they may stand, to which block they belong, their places in its list.

use std::sync::Arc;

use sql_parser::ast::{self, AggregateFunction};

use super::Binder;
use crate::aggregate::{AggregateCall, SortKey};
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::result_type::ResultType;
use crate::scope::{Clause, Hosting, NO_COLUMN};

impl Binder<'_, '_> {
    /// An aggregate of this query block or of one around it.
    pub(super) fn aggregate(&mut self, call: &ast::AggregateCall) -> Result<Expression, SqlError> {
        let scope = self.scope;
        if scope.outwards().skip(1).all(|around| around.hosting() == Hosting::Never)
            && self.hosting() != Hosting::Allowed
        {
            return Err(SqlError::of::<1111>(&[]));
        }
        let (bound, found) = scope.measured(|| self.aggregate_call(call));
        let bound = bound?;
        let nearest = bound.arguments().map(|argument| self.nearest(argument)).min();
        let nearest = nearest.map_or(found, |nearest| nearest.min(found));
        match self.owner(nearest)? {
            0 => Ok(self.own_aggregate(bound)),
            depth => self.outer_aggregate(bound, depth),
        }
    }

    /// GROUPING: a value of the group as aggregates are.
    pub(super) fn grouping(&mut self, arguments: &[ast::Expr]) -> Result<Expression, SqlError> {
        if self.hosting() != Hosting::Allowed {
            return Err(SqlError::of::<1111>(&[]));
        }
        let before = std::mem::replace(&mut self.in_aggregate, true);
        let values = self.values(arguments);
        self.in_aggregate = before;
        Ok(self.own_aggregate(AggregateCall::grouping(values?)))
    }

    /// Whether aggregates can be this block's, where we are.
    pub(super) fn hosting(&self) -> Hosting {
        if self.is_block && (self.clause.allows_aggregates() || self.in_window) {
            if self.in_aggregate { Hosting::Nested } else { Hosting::Allowed }
        } else {
            Hosting::Never
        }
    }

    /// How many blocks further out the nearest column is that an argument uses, those of the select
    /// list that it names included.
    fn nearest(&self, argument: &Expression) -> u16 {
        let mut nearest = NO_COLUMN;
        argument.visit(&mut |part| match part.node {
            Node::Column { .. } => nearest = 0,
            // The result of an aggregate further out is no column.
            Node::Outer { depth, .. } if !self.is_aggregate(part) => nearest = nearest.min(depth),
            _ => {}
        });
        nearest
    }

    /// Whether it is made of aggregates of this block: one, or a subquery that uses some.
    pub(super) fn is_of_groups(&self, part: &Expression) -> bool {
        match &part.node {
            Node::Aggregate(_) => true,
            Node::Subquery(subquery) => self.scope.is_of_groups(subquery.id),
            _ => false,
        }
    }

    /// Whether it is the result of an aggregate, of this block or of one further out.
    pub(super) fn is_aggregate(&self, part: &Expression) -> bool {
        match part.node {
            Node::Aggregate(_) => true,
            Node::Outer { depth, index, .. } => index >= self.width_at(depth),
            _ => false,
        }
    }

    /// How many columns of tables a row of the block has that is so many further out.
    fn width_at(&self, depth: u16) -> u32 {
        self.scope.outwards().nth(depth.into()).map_or(0, |scope| scope.width())
    }

    /// How many blocks further out the block is that an aggregate belongs to: that of its nearest
    /// columns. If none can be there, the nearest around this one where they can, else this one.
    fn owner(&self, nearest: u16) -> Result<u16, SqlError> {
        let own = Some((0, self.hosting())).filter(|(_, hosting)| *hosting != Hosting::Never);
        let mut found = own.filter(|_| nearest == 0 || nearest == NO_COLUMN);
        if nearest > 0 && found.is_none() {
            let around = (0..).zip(self.scope.outwards()).skip(1);
            for (depth, scope) in around.take_while(|(depth, _)| *depth <= nearest) {
                let hosting = scope.hosting();
                if hosting != Hosting::Never && (found.is_none() || depth == nearest) {
                    found = Some((depth, hosting));
                }
            }
        }
        match found.or(own) {
            Some((depth, Hosting::Allowed)) => Ok(depth),
            _ => Err(SqlError::of::<1111>(&[])),
        }
    }

    fn own_aggregate(&mut self, bound: AggregateCall) -> Expression {
        let result = bound.result.clone();
        Expression { node: Node::Aggregate(self.scope.aggregate_slot(bound)), result }
    }

    /// An aggregate of a block further out: its result stands in that block's row, behind the
    /// columns.
    fn outer_aggregate(
        &mut self,
        mut bound: AggregateCall,
        depth: u16,
    ) -> Result<Expression, SqlError> {
        let width = self.width_at(depth);
        let mut refused = None;
        for argument in bound.arguments_mut() {
            argument.visit_mut(&mut |part| match &part.node {
                // An aggregate of an aggregate of the same block, or of one inside it.
                Node::Outer { depth: of, .. } if *of <= depth && self.is_aggregate(part) => {
                    refused = Some(SqlError::of::<1111>(&[]));
                }
                Node::Outer { depth: of, index, name } => {
                    let (index, name) = (*index, name.clone());
                    part.node = match of - depth {
                        0 => Node::Column { index, name },
                        depth => Node::Outer { depth, index, name },
                    };
                }
                // It is planned for where it stands.
                Node::Subquery(_) => {
                    let what = "subqueries in aggregates that belong to an enclosing query";
                    refused = Some(SqlError::not_supported(what));
                }
                _ => {}
            });
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        let result = bound.result.clone();
        let owner = self.scope.outwards().nth(depth.into()).ok_or_else(missing_block)?;
        let index = width + owner.aggregate_for_subquery(bound);
        self.scope.remember(depth, index);
        Ok(Expression { node: Node::Outer { depth, index, name: Arc::default() }, result })
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

fn missing_block() -> SqlError {
    SqlError::internal("no block that far out")
}
