//! From syntax to operators.
//!
//! # Owns
//! How [`Planner`] gets from a query to its plan, also for the subqueries that the binder meets:
//! names to tables, expressions bound, joins ordered, access paths chosen.
//! # Guarantees
//! A plan depends on the definitions it was made from, on the statement's text and on the kinds of
//! its parameters, not on their values: those may differ from one execution to the next.
//! # Not here
//! Running it (`execute`).

mod assemble;
pub(crate) mod block;
pub(crate) mod bound;
pub(crate) mod common_table;
mod condition;
pub(crate) mod cost;
mod dependence;
mod derived;
mod derived_condition;
mod distinct;
pub(crate) mod edge;
mod equivalence;
pub(crate) mod estimate;
pub(crate) mod from;
pub(crate) mod from_table;
mod grouping;
mod hint;
pub(crate) mod join;
pub(crate) mod json_table;
pub(crate) mod keyed;
pub(crate) mod limit;
pub(crate) mod member;
pub(crate) mod merge;
pub(crate) mod operator;
pub(crate) mod operator_id;
pub(crate) mod order;
pub(crate) mod outer;
pub(crate) mod parameter;
pub(crate) mod path;
pub(crate) mod planner;
pub(crate) mod predicate;
pub(crate) mod query;
pub(crate) mod selectivity;
pub(crate) mod set_operation;
pub(crate) mod shape;
pub(crate) mod view;
pub(crate) mod window;
mod with;

use std::rc::Rc;

use sql_expression::{
    BindSettings, BoundSubquery, ComparedParameter, Environment, Expression, ResultType, Scope,
    SqlError, SubqueryId,
};
use sql_parser::ast;
use sqltype::SqlType;

use crate::plan::operator::{QueryPlan, Subplan};
use crate::plan::parameter::Compared;
use crate::plan::planner::Planner;

impl Planner<'_> {
    /// Plans a query that stands for itself.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<QueryPlan, SqlError> {
        let plan = self.plan_query(query, None)?;
        self.identify(&plan);
        Ok(plan)
    }

    /// Plans a query inside a block with this scope.
    pub(crate) fn plan_query(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
    ) -> Result<QueryPlan, SqlError> {
        self.enclosed(|planner| {
            if let Some(with) = &query.with {
                with::define(planner, with, parent)?;
            }
            query::query_body(planner, query, parent)
        })
    }

    /// Plans something in sight of the common tables of WITH.
    pub(crate) fn with_common_tables<T>(
        &mut self,
        with: Option<&ast::With>,
        plan: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let commons = self.common.mark();
        let defined = match with {
            Some(with) => with::define(self, with, None),
            None => Ok(()),
        };
        let planned = defined.and_then(|()| plan(self));
        self.common.forget(commons);
        planned
    }

    /// Has the subqueries of conditions be asked for single values, where that is possible.
    pub(crate) fn add_searches(&mut self, conditions: &[Expression]) -> Result<(), SqlError> {
        let numbers = &mut self.numbers;
        let mut next_number = || {
            *numbers += 1;
            *numbers
        };
        member::add_searches(&mut self.subplans, conditions, &mut next_number)
    }
}

impl Environment for Planner<'_> {
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
        let mut plan = self.plan_query(query, Some(scope))?;
        let id = SubqueryId(self.next_number());
        let columns = plan.types();
        let correlated = plan.correlated;
        let keyed = plan.keyed.take().map(Rc::from);
        let ingredients = plan.ingredients.take().map(Rc::from);
        self.subplans.push(Subplan {
            id,
            plan: Rc::new(plan),
            enough: exists.then_some(1),
            keyed,
            ingredients,
            search: None,
            whole: None,
        });
        Ok(BoundSubquery { id, columns, correlated })
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}

#[cfg(test)]
mod tests;
