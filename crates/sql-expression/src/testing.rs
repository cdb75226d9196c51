//! A small world for tests: the table `d.t (a INT, b INT, s VARCHAR(20), k INT PRIMARY KEY)`.

use std::sync::Arc;

use sql_parser::ast;
use sqltype::{Datum, SqlType, TypeKind};

use crate::binder::{BindSettings, BoundSubquery, ComparedParameter, Environment};
use crate::context::{EvalContext, SessionFacts};
use crate::error::SqlError;
use crate::expression::{ColumnName, Expression, SubqueryId};
use crate::result_type::ResultType;
use crate::scope::{Scope, ScopeColumn, ScopeTable};

pub(crate) struct World {
    pub(crate) settings: BindSettings,
    /// What each subquery met from here on has as columns; their numbers count up.
    pub(crate) subquery_columns: Vec<ResultType>,
    pub(crate) parameters: Vec<Option<ResultType>>,
    numbers: u32,
    subqueries: u32,
}

impl World {
    pub(crate) fn new() -> Self {
        let facts = SessionFacts { database: Some("d".into()), ..SessionFacts::new() };
        Self {
            settings: BindSettings::new(Arc::new(facts), 0),
            subquery_columns: vec![integer()],
            parameters: Vec::new(),
            numbers: 0,
            subqueries: 0,
        }
    }

    pub(crate) fn context(&self) -> EvalContext {
        EvalContext::new(self.settings.facts.clone(), 0, 1)
    }
}

impl Environment for World {
    fn settings(&self) -> &BindSettings {
        &self.settings
    }

    fn system_variable(&mut self, _: &ast::SystemVariable) -> Result<Expression, SqlError> {
        Ok(Expression::constant(Datum::Int(1), integer()))
    }

    fn user_variable(&mut self, _: &str) -> Option<ResultType> {
        None
    }

    fn parameter(&mut self, number: u32) -> Option<ResultType> {
        self.parameters.get(number as usize).cloned().flatten()
    }

    fn compared_parameter(&mut self, number: u32, _: &SqlType) -> ComparedParameter {
        match self.parameter(number) {
            Some(_) => ComparedParameter::AsItIs,
            None => ComparedParameter::AsTheOther,
        }
    }

    fn subquery(
        &mut self,
        _: &ast::Query,
        _: &Scope<'_>,
        _: bool,
    ) -> Result<BoundSubquery, SqlError> {
        self.subqueries += 1;
        let id = SubqueryId(self.subqueries);
        Ok(BoundSubquery { id, columns: self.subquery_columns.clone(), correlated: false })
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}

pub(crate) fn integer() -> ResultType {
    ResultType::column(SqlType::new(TypeKind::Int, 11), true)
}

/// A scope with the table.
pub(crate) fn scope() -> Scope<'static> {
    let column = |name: &str, result: ResultType| {
        let name = ColumnName { schema: "d".into(), table: "t".into(), column: name.into() };
        ScopeColumn::new(Arc::new(name), result)
    };
    let columns = vec![
        column("a", integer()),
        column("b", integer()),
        column("s", ResultType::column(SqlType::text(20), true)),
        column("k", ResultType::column(SqlType::new(TypeKind::Int, 11), false)),
    ];
    let mut scope = Scope::new(None);
    scope.add(ScopeTable { schema: Some("d".into()), name: "t".into(), columns, offset: 0 });
    scope
}

pub(crate) fn parse(sql: &str) -> ast::Expr {
    sql_parser::parse_expression(sql.as_bytes(), sql_parser::SqlMode::default()).unwrap()
}
