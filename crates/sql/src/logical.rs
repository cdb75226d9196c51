//! From syntax to the bound tree: what a query asks for, and nothing of how that is found.
//!
//! # Owns
//! Names to tables and columns, expressions with types; the bound tree (`bound`), and the rules
//! that rewrite it (`rewrite`). The binder of expressions reaches the queries inside them by
//! [`Environment`], which [`QueryBinder`] implements.
//! # Guarantees
//! No plan is made here: no layer of plans is known.
//! # Not here
//! Plans (`plan`). Expressions (crate `sql-expression`).

pub(crate) mod binder;
pub(crate) mod block;
pub(crate) mod bound;
pub(crate) mod common_table;
mod dependence;
pub(crate) mod formula;
pub(crate) mod from;
pub(crate) mod from_table;
mod grouping;
mod hint;
pub(crate) mod json_levels;
pub(crate) mod json_table;
pub(crate) mod known;
pub(crate) mod limit;
pub(crate) mod merge;
pub(crate) mod parameter;
pub(crate) mod predicate;
mod query;
pub(crate) mod rewrite;
pub(crate) mod shape;
pub(crate) mod view;
mod with;

use std::rc::Rc;

use sql_expression::{
    BindSettings, BoundSubquery, ComparedParameter, Environment, Expression, ResultType, Scope,
    SqlError, SubqueryId,
};
use sql_parser::ast;
use sqltype::SqlType;

use crate::logical::binder::QueryBinder;
use crate::logical::bound::{BoundQuery, Subquery};
use crate::logical::parameter::Compared;

impl QueryBinder<'_> {
    /// Binds a query inside a block with this scope.
    ///
    /// # Errors
    /// What is wrong with the query's names and types; 1473 if too many queries are in each other.
    pub(crate) fn bind_query(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
    ) -> Result<BoundQuery, SqlError> {
        self.enclosed(|binding| {
            if let Some(with) = &query.with {
                with::define(binding, with, parent)?;
            }
            query::query_body(binding, query, parent)
        })
    }

    /// Brings the common tables of WITH into sight.
    pub(crate) fn define(&mut self, with: Option<&ast::With>) -> Result<(), SqlError> {
        with.map_or(Ok(()), |with| with::define(self, with, None))
    }
}

impl Environment for QueryBinder<'_> {
    fn settings(&self) -> &BindSettings {
        &self.settings
    }

    fn system_variable(&mut self, variable: &ast::SystemVariable) -> Result<Expression, SqlError> {
        (self.once, self.views.met_variable) = (true, true);
        let (value, sql_type) = self.session.system_variable(variable)?;
        Ok(Expression::constant(value, ResultType::column(sql_type, true)))
    }

    fn user_variable(&mut self, name: &str) -> Option<ResultType> {
        (self.once, self.views.met_variable) = (true, true);
        let variable = self.session.user_variable(name)?;
        Some(self.session.type_of(&variable.value))
    }

    fn is_variable_as(&mut self, name: &str, other: &SqlType) -> bool {
        let variable = self.session.user_variable(name);
        variable.is_some_and(|variable| parameter::says(&variable.value, other))
    }

    fn parameter(&mut self, number: u32) -> Option<ResultType> {
        self.parameters.get(number as usize).cloned()
    }

    fn compared_parameter(&mut self, number: u32, other: &SqlType) -> ComparedParameter {
        let Some(value) = self.values.get(number as usize) else {
            return ComparedParameter::AsTheOther;
        };
        match parameter::compared(value, other) {
            Compared::AsItIs => ComparedParameter::AsItIs,
            Compared::AsTheOther => ComparedParameter::AsTheOther,
            Compared::ByValue => {
                self.once = true;
                let result = self.parameters[number as usize].clone();
                ComparedParameter::Constant(Expression::constant(value.clone(), result))
            }
        }
    }

    fn fixed_parameter(&mut self, number: u32) -> Option<Expression> {
        let value = self.values.get(number as usize)?.clone();
        self.once = true;
        Some(Expression::constant(value, self.parameters[number as usize].clone()))
    }

    fn subquery(
        &mut self,
        query: &ast::Query,
        scope: &Scope<'_>,
        exists: bool,
    ) -> Result<BoundSubquery, SqlError> {
        // Only of a plain block: what others show decides how many rows they have.
        let is_block = query.with.is_none() && matches!(query.body, ast::QueryBody::Select(_));
        self.exists = exists && is_block;
        let query = Rc::new(self.bind_query(query, Some(scope))?);
        let id = SubqueryId(self.next_number());
        let (columns, correlated) = (query.results.clone(), query.correlated);
        self.subqueries.push(Subquery { id, query, exists });
        Ok(BoundSubquery { id, columns, correlated })
    }

    fn next_number(&mut self) -> u32 {
        self.numbers.next()
    }
}
