//! Names: columns, and what the select list calls its values.

use std::sync::Arc;

use sql_parser::ast::{ColumnRef, Expr, Literal};
use sqltype::Datum;

use super::Binder;
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::scope::{Clause, same_name, written};

/// An element of the select list.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its alias, or its name.
    pub name: Arc<str>,
    /// Its value.
    pub expression: Expression,
}

/// An element of ORDER BY or GROUP BY.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderBy {
    /// The element of the select list with this number, from 0.
    Output(usize),
    /// An expression of its own.
    Expression(Expression),
}

impl Binder<'_, '_> {
    /// A column's name, or in HAVING and ORDER BY one of the select list.
    pub(super) fn name(&mut self, name: &ColumnRef) -> Result<Expression, SqlError> {
        let select_first = self.clause == Clause::Having && !self.in_aggregate;
        if select_first {
            return self.name_in_having(name);
        }
        if let Some(found) = self.scope.find(name, self.clause)? {
            let here = found.depth == 0;
            let column = found.expression();
            // A column of the query itself hides the select list; one further out does not.
            if here || self.clause != Clause::OrderBy {
                return Ok(column);
            }
            return match self.output_named(name)? {
                Some(at) => self.output_value(at, name),
                None => Ok(column),
            };
        }
        if matches!(self.clause, Clause::OrderBy | Clause::GroupBy)
            && let Some(at) = self.output_named(name)?
        {
            return self.output_value(at, name);
        }
        match self.scope.find_listed(name) {
            Some(value) => Ok(value),
            None => Err(SqlError::unknown_column(written(name), self.clause)),
        }
    }

    /// HAVING sees the select list and the GROUP BY list, not the other columns of FROM.
    fn name_in_having(&mut self, name: &ColumnRef) -> Result<Expression, SqlError> {
        if let Some((index, column)) = self.scope.find_here(name, self.clause)? {
            let grouped = self.group_by.iter().find(|part| part.as_column() == Some(index));
            if let Some(part) = grouped {
                return Ok(part.clone());
            }
            let listed =
                self.outputs.iter().any(|output| output.expression.as_column() == Some(index));
            if listed {
                let result = column.result.clone();
                return Ok(Expression::column(index, column.name.clone(), result));
            }
        }
        if let Some(at) = self.output_named(name)? {
            return self.output_value(at, name);
        }
        match self.scope.find(name, self.clause)? {
            Some(found) if found.depth > 0 => Ok(found.expression()),
            _ => Err(SqlError::unknown_column(written(name), self.clause)),
        }
    }

    /// The element of the select list that a name means: by alias, or by the column it is.
    fn output_named(&self, name: &ColumnRef) -> Result<Option<usize>, SqlError> {
        let mut found: Option<usize> = None;
        for (at, output) in self.outputs.iter().enumerate() {
            let fits = match &name.table {
                None => same_name(&output.name, name.column.as_str()),
                Some(_) => {
                    let column = self.scope.find_here(name, self.clause)?;
                    column.is_some_and(|(index, _)| output.expression.as_column() == Some(index))
                }
            };
            if !fits {
                continue;
            }
            match found {
                Some(first) if self.outputs[first].expression != output.expression => {
                    return Err(SqlError::of::<1052>(&[&written(name), &self.clause]));
                }
                Some(_) => {}
                None => found = Some(at),
            }
        }
        Ok(found)
    }

    fn output_value(&mut self, at: usize, name: &ColumnRef) -> Result<Expression, SqlError> {
        let value = self.outputs[at].expression.clone();
        let has_window = value.any(&mut |part| matches!(part.node, Node::Window(_)));
        if has_window && (self.in_aggregate || self.clause != Clause::OrderBy) {
            return Err(SqlError::of::<3594>(&[&written(name)]));
        }
        let has_aggregate = value.any(&mut |part| self.is_of_groups(part));
        if has_aggregate && (self.in_aggregate || self.clause == Clause::GroupBy) {
            let what = "reference to group function";
            return Err(SqlError::of::<1247>(&[&written(name), &what]));
        }
        Ok(value)
    }

    /// Binds an element of ORDER BY: a position, a name of the select list, or an expression.
    pub fn bind_order_by(&mut self, expr: &Expr) -> Result<OrderBy, SqlError> {
        self.bind_listed(expr, Clause::OrderBy)
    }

    /// Binds an element of GROUP BY, likewise; names mean columns of FROM first.
    pub fn bind_group_by(&mut self, expr: &Expr) -> Result<OrderBy, SqlError> {
        let bound = self.bind_listed(expr, Clause::GroupBy)?;
        let value = match &bound {
            OrderBy::Output(at) => &self.outputs[*at].expression,
            OrderBy::Expression(expression) => expression,
        };
        if value.any(&mut |part| matches!(part.node, Node::Window(_))) {
            let name = match (&bound, expr) {
                (OrderBy::Output(at), _) => self.outputs[*at].name.to_string(),
                _ => String::new(),
            };
            return Err(SqlError::of::<3594>(&[&name]));
        }
        if value.any(&mut |part| self.is_of_groups(part) || self.is_aggregate(part)) {
            let name = match (&bound, expr) {
                (OrderBy::Output(at), _) => self.outputs[*at].name.to_string(),
                (_, Expr::Column(name)) => written(name),
                _ => return Err(SqlError::of::<1111>(&[])),
            };
            return Err(SqlError::of::<1056>(&[&name]));
        }
        Ok(bound)
    }

    fn bind_listed(&mut self, expr: &Expr, clause: Clause) -> Result<OrderBy, SqlError> {
        match expr {
            Expr::Literal(Literal::Integer(position)) => {
                let at = usize::try_from(*position).ok().and_then(|at| at.checked_sub(1));
                let at = at.filter(|at| *at < self.outputs.len());
                at.map(OrderBy::Output).ok_or_else(|| SqlError::unknown_column(position, clause))
            }
            Expr::Column(name) => {
                let before = std::mem::replace(&mut self.clause, clause);
                let listed = self.listed_name(name);
                self.clause = before;
                match listed? {
                    Some(at) => Ok(OrderBy::Output(at)),
                    None => self.bind(expr, clause).map(OrderBy::Expression),
                }
            }
            _ => {
                let bound = self.bind(expr, clause)?;
                let same = |output: &Output| output.expression == bound;
                Ok(match self.outputs.iter().position(same) {
                    Some(at) if !is_volatile(&bound) => OrderBy::Output(at),
                    _ => OrderBy::Expression(bound),
                })
            }
        }
    }

    /// A name that is all of an element: ORDER BY prefers the select list, GROUP BY the columns.
    fn listed_name(&self, name: &ColumnRef) -> Result<Option<usize>, SqlError> {
        let column = self.scope.find_here(name, self.clause);
        if self.clause == Clause::GroupBy
            && let Some((index, _)) = column?
        {
            let same = |output: &Output| output.expression.as_column() == Some(index);
            return Ok(self.outputs.iter().position(same));
        }
        self.output_named(name)
    }

    /// `DEFAULT(column)`.
    pub(super) fn default_of(&mut self, name: &ColumnRef) -> Result<Expression, SqlError> {
        let Some(found) = self.scope.find(name, self.clause)? else {
            return Err(SqlError::unknown_column(written(name), self.clause));
        };
        match &found.column.default {
            Some(Datum::Null) if !found.column.result.nullable => {
                Err(SqlError::of::<1364>(&[&found.column.name.column]))
            }
            Some(value) => Ok(Expression::constant(value.clone(), found.column.result.clone())),
            None if found.column.result.nullable => {
                Ok(Expression::constant(Datum::Null, found.column.result.clone()))
            }
            None => Err(SqlError::of::<1364>(&[&found.column.name.column])),
        }
    }

    /// `VALUES(column)`: NULL outside of ON DUPLICATE KEY UPDATE.
    pub(super) fn values_of(&mut self, name: &ColumnRef) -> Result<Expression, SqlError> {
        // The row to be inserted is one of the first table, whatever stands behind it in sight.
        let found = match self.scope.tables.first().filter(|_| self.updating_duplicates) {
            Some(table) => table.column(name.column.as_str()),
            None => self.scope.find_here(name, self.clause)?,
        };
        let Some((index, column)) = found else {
            return Err(SqlError::unknown_column(written(name), self.clause));
        };
        let mut result = column.result.clone();
        result.nullable = true;
        if !self.updating_duplicates {
            return Ok(Expression::constant(Datum::Null, result));
        }
        Ok(Expression { node: Node::Inserted { index, name: column.name.clone() }, result })
    }
}

pub(super) fn is_volatile(expression: &Expression) -> bool {
    expression.any(&mut |part| match &part.node {
        Node::Call(call) => call.function.volatility == crate::function::Volatility::Row,
        Node::Assign { .. } | Node::Deferred(_) => true,
        _ => false,
    })
}
