//! Expressions without a query around them: constants, conditions on rows at hand.
//!
//! # Owns
//! [`Constants`], an environment for binding in which there are no subqueries and no variables.
//! # Not here
//! The planner's environment (`plan`).

use sql_expression::{
    BindSettings, Binder, BoundSubquery, Clause, ComparedParameter, Environment, EvalContext,
    Expression, ResultType, Scope, SqlError,
};
use sql_parser::ast::{Expr, Query, SystemVariable};
use sqltype::{Datum, SqlType};

use super::error;

/// An environment of settings only.
pub(crate) struct Constants {
    settings: BindSettings,
    numbers: u32,
}

impl Constants {
    /// With the settings of a statement.
    pub(crate) fn of(context: &EvalContext) -> Self {
        let settings = BindSettings::new(context.facts.clone(), context.now);
        Self { settings, numbers: 0 }
    }

    /// The value of an expression that reads nothing, with its type.
    pub(crate) fn value(
        expr: &Expr,
        context: &mut EvalContext,
    ) -> Result<(Datum, SqlType), SqlError> {
        let scope = Scope::new(None);
        let mut constants = Self::of(context);
        let bound = Binder::new(&scope, &mut constants).bind(expr, Clause::Definition)?;
        let value = bound.eval(&[], context)?;
        Ok((value, bound.sql_type().clone()))
    }
}

impl Environment for Constants {
    fn settings(&self) -> &BindSettings {
        &self.settings
    }

    fn system_variable(&mut self, variable: &SystemVariable) -> Result<Expression, SqlError> {
        Err(error::unsupported(&format!("@@{} here", variable.name)))
    }

    fn user_variable(&mut self, _: &str) -> Option<ResultType> {
        None
    }

    fn parameter(&mut self, _: u32) -> Option<ResultType> {
        None
    }

    fn compared_parameter(&mut self, _: u32, _: &SqlType) -> ComparedParameter {
        ComparedParameter::AsTheOther
    }

    fn subquery(&mut self, _: &Query, _: &Scope<'_>, _: bool) -> Result<BoundSubquery, SqlError> {
        Err(error::unsupported("a subquery here"))
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}
