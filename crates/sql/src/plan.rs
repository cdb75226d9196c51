//! From syntax to operators.
//!
//! # Owns
//! [`Planner`], which plans the queries of one statement: names to tables, expressions bound, joins
//! ordered, access paths chosen.
//! # Guarantees
//! A plan depends on the definitions it was made from, on the statement's text and on the kinds of
//! its parameters, not on their values: those may differ from one execution to the next.
//! # Not here
//! Running it (`execute`).

pub(crate) mod block;
pub(crate) mod common_table;
mod condition;
pub(crate) mod cost;
mod dependence;
mod derived;
mod derived_condition;
mod distinct;
pub(crate) mod edge;
pub(crate) mod estimate;
pub(crate) mod from;
mod grouping;
mod hint;
pub(crate) mod join;
pub(crate) mod json_table;
pub(crate) mod keyed;
mod limit;
pub(crate) mod member;
pub(crate) mod merge;
pub(crate) mod operator;
pub(crate) mod order;
pub(crate) mod outer;
pub(crate) mod parameter;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod selectivity;
pub(crate) mod shape;
pub(crate) mod view;
pub(crate) mod window;

use std::rc::Rc;
use std::sync::Arc;

use model::TableId;
use sql_expression::{
    BindSettings, BoundSubquery, ComparedParameter, Environment, EvalContext, Expression,
    ResultType, Scope, SqlError, SubqueryId,
};
use sql_parser::ast;
use sqltype::{Datum, SqlType};

use crate::catalog::TableDefinition;
use crate::hint::StatementHints;
use crate::plan::common_table::CommonTables;
use crate::plan::operator::{QueryPlan, Subplan};
use crate::plan::parameter::Compared;
use crate::plan::selectivity::Constants;
use crate::plan::view::Views;
use crate::session::Session;
use crate::session::planning::PlanningView;

/// Most levels of queries in each other: subqueries, tables of FROM and of WITH, views. Planning,
/// running and freeing call themselves for each.
const LEVELS_MAX: usize = 64;

/// Error 1473: there are more.
fn too_high() -> SqlError {
    SqlError::of::<1473>(&[])
}

/// Plans the queries of one statement.
pub(crate) struct Planner<'s> {
    pub(crate) session: PlanningView<'s>,
    settings: BindSettings,
    /// The values of parameters, if they are known.
    values: Vec<Datum>,
    /// Their types.
    parameters: Vec<ResultType>,
    numbers: u32,
    /// Subqueries of the query that is being planned.
    subplans: Vec<Subplan>,
    /// Tables looked up, with their versions.
    pub(crate) tables: Vec<(TableId, u32)>,
    /// Common tables in sight.
    common: CommonTables,
    /// The views that are being planned.
    views: Views,
    /// How deep in queries we are.
    depth: usize,
    /// Levels of the highest query in the one that is being planned.
    below: usize,
    /// Values of variables or parameters were bound: the plan is for this execution only.
    pub(crate) once: bool,
    /// Whether statements commit, if locks were planned: they are for transactions alone.
    pub(crate) autocommits: Option<bool>,
    /// The hints of the statement.
    hints: Option<Rc<StatementHints>>,
    /// Of the subquery that is planned next all that counts is whether it has a row.
    exists: bool,
    /// For estimates, if there is something to be estimated by values.
    constants: Option<Rc<Constants>>,
}

impl<'s> Planner<'s> {
    /// Values of constants and parameters, for estimates.
    pub(crate) fn constants(&mut self) -> Rc<Constants> {
        let made = || {
            let session = self.session;
            let mut context = EvalContext::new(session.facts(), session.statement_time(), 0);
            context.parameters.clone_from(&self.values);
            Rc::new(Constants::new(context))
        };
        self.constants.get_or_insert_with(made).clone()
    }

    pub(crate) fn new(session: &'s Session, parameters: &[Datum]) -> Self {
        let session = PlanningView::from(session);
        let facts = session.facts();
        let types = parameters.iter().map(|value| parameter::type_of(session, value)).collect();
        let pauses = session.pauses().clone();
        Self {
            session,
            settings: BindSettings { pauses, ..BindSettings::new(facts, session.statement_time()) },
            values: parameters.to_vec(),
            parameters: types,
            numbers: 0,
            subplans: Vec::new(),
            tables: Vec::new(),
            common: CommonTables::default(),
            views: Views::default(),
            depth: 0,
            below: 0,
            once: false,
            autocommits: None,
            hints: session.hints(),
            exists: false,
            constants: None,
        }
    }

    /// For a change.
    pub(crate) fn of_change(session: &'s Session, parameters: &[Datum]) -> Self {
        let type_of = |value| parameter::type_in_change(session.into(), value);
        let types = parameters.iter().map(type_of).collect();
        Self { parameters: types, ..Self::new(session, parameters) }
    }

    /// Whether statements commit, which the plan then depends on.
    fn autocommits(&mut self) -> bool {
        *self.autocommits.insert(self.session.autocommits())
    }

    /// Plans a query that stands for itself.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<QueryPlan, SqlError> {
        self.plan_query(query, None)
    }

    /// Plans a query inside a block with this scope.
    pub(crate) fn plan_query(
        &mut self,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
    ) -> Result<QueryPlan, SqlError> {
        self.enclosed(|planner| {
            if let Some(with) = &query.with {
                common_table::define(planner, with, parent)?;
            }
            query::query_body(planner, query, parent)
        })
    }

    /// Plans something as a query of its own: with its subqueries, and with common tables that
    /// nobody else sees.
    fn enclosed(
        &mut self,
        plan: impl FnOnce(&mut Self) -> Result<QueryPlan, SqlError>,
    ) -> Result<QueryPlan, SqlError> {
        if self.depth >= LEVELS_MAX {
            return Err(too_high());
        }
        let outer = std::mem::take(&mut self.subplans);
        let beside = std::mem::take(&mut self.below);
        let commons = self.common.mark();
        self.depth += 1;
        let planned = plan(self);
        self.depth -= 1;
        self.common.forget(commons);
        let own = std::mem::replace(&mut self.subplans, outer);
        let levels = self.below + 1;
        self.below = beside.max(levels);
        let mut plan = planned?;
        if levels > LEVELS_MAX {
            return Err(too_high());
        }
        plan.levels = levels;
        if let Some(keyed) = &mut plan.keyed {
            keyed.plan.subqueries.clone_from(&own);
        }
        plan.subqueries = own;
        Ok(plan)
    }

    /// Notes that what is being planned has this plan in it.
    pub(crate) fn contains(&mut self, plan: &QueryPlan) {
        self.below = self.below.max(plan.levels);
    }

    /// Plans something in sight of the common tables of WITH.
    pub(crate) fn with_common_tables<T>(
        &mut self,
        with: Option<&ast::With>,
        plan: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let commons = self.common.mark();
        let defined = match with {
            Some(with) => common_table::define(self, with, None),
            None => Ok(()),
        };
        let planned = defined.and_then(|()| plan(self));
        self.common.forget(commons);
        planned
    }

    /// The definition of a table, remembered as one that the plan depends on.
    pub(crate) fn definition(
        &mut self,
        name: &ast::ObjectName,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        let name = self.session.table_name(name)?;
        // A view means what it meant when it was made, when there was no such table.
        let definition = match self.views.are_empty() {
            true => self.session.definition_named(&name)?,
            false => match self.session.permanent_named(&name) {
                Err(error) if error.code() == 1146 && self.session.has_temporary(&name) => {
                    let text = format!("View's SELECT refers to a temporary table '{}'", name.name);
                    return Err(SqlError::new(1352, "HY000", text));
                }
                found => found?,
            },
        };
        // Other sessions of the worker share what is kept.
        self.once |= definition.is_temporary();
        let id = definition.table.id;
        if !self.tables.iter().any(|(known, _)| *known == id) {
            self.tables.push((id, definition.table.version));
        }
        Ok(definition)
    }

    /// Whether all that counts of the block that is planned now is whether it has a row.
    pub(crate) fn take_exists(&mut self) -> bool {
        std::mem::take(&mut self.exists)
    }

    /// Takes the subqueries met since the last time: those of a statement that is no query.
    pub(crate) fn take_subplans(&mut self) -> Vec<Subplan> {
        std::mem::take(&mut self.subplans)
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

    pub(crate) fn facts(&self) -> &Arc<sql_expression::SessionFacts> {
        &self.settings.facts
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
