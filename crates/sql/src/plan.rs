//! From syntax to operators.
//!
//! # Owns
//! [`Planner`], which plans the queries of one statement: names to tables, expressions bound, joins
//! ordered, access paths chosen; [`Plan`], what is kept between executions.
//! # Guarantees
//! A plan depends on the definitions it was made from, on the statement's text and on the kinds of
//! its parameters, not on their values: those may differ from one execution to the next.
//! # Not here
//! Running it (`execute`).

pub(crate) mod block;
pub(crate) mod common_table;
mod condition;
mod dependence;
mod derived;
mod derived_condition;
mod distinct;
pub(crate) mod edge;
pub(crate) mod estimate;
pub(crate) mod explain;
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
pub(crate) mod view;
pub(crate) mod window;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use model::TableId;
use sql_expression::{
    BindSettings, BoundSubquery, ComparedParameter, Environment, Expression, ResultType, Scope,
    SqlError, SubqueryId,
};
use sql_parser::{Literals, RowLiteral, ast};
use sqltype::{Datum, SqlType};
use stdx::HashMap;

use crate::catalog::TableDefinition;
use crate::catalog::names::TableName;
use crate::execute::insert::{self, InsertPlan};
use crate::execute::point::PointSelect;
use crate::execute::point::change::{PointDelete, PointUpdate};
use crate::hint::StatementHints;
use crate::plan::common_table::CommonTables;
use crate::plan::operator::{QueryPlan, Subplan};
use crate::plan::parameter::{Compared, ParameterKind};
use crate::plan::view::Views;
use crate::prepared::Prepared;
use crate::session::Session;
use crate::statistics;
use crate::temporary::shown_name;
use crate::traits::{Place, StatementTraits};

/// A planned statement, good while the tables it was made from are the same.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) kind: PlanKind,
    tables: Vec<(TableId, u32)>,
    /// How many rows the tables of a join had.
    sizes: Vec<Option<u64>>,
    /// The default database when it was made.
    database: Option<String>,
    /// The version of the session's variables.
    variables: u64,
    /// The parameters it was made for.
    parameters: Vec<ParameterKind>,
    /// What it was made for, if that matters.
    autocommits: Option<bool>,
}

/// What was planned.
#[derive(Debug)]
pub(crate) enum PlanKind {
    /// A query.
    Query(Rc<QueryPlan>),
    /// A query for one row by primary key, columns as they are stored.
    Point(Box<PointSelect>),
    /// UPDATE of one row by primary key.
    Update(Box<PointUpdate>),
    /// DELETE of one row by primary key.
    Delete(Box<PointDelete>),
    /// INSERT or REPLACE.
    Insert(Box<InsertPlan>),
    /// A change that is planned anew each time.
    General,
}

/// Statements that came as text, prepared, by the key of the text without its literals.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    entries: RefCell<HashMap<u128, Prepared>>,
    /// Taken out by whoever uses them.
    literals: RefCell<Option<Box<Literals>>>,
    /// Bytes of the texts kept.
    size: Cell<usize>,
}

/// Most texts kept; beyond it all are forgotten.
const TEXTS_MAX: usize = 4_096;
/// Most bytes of the texts kept, likewise. What they are parsed to is many times as large.
const TEXTS_SIZE_MAX: usize = 4 << 20;

impl PlanCache {
    /// The statement that a text is but for its literals, with these as parameters. A text seen for
    /// the first time is parsed in this form, if it has one.
    pub(crate) fn find(session: &Session, text: &[u8]) -> Option<(Prepared, Vec<Datum>)> {
        let cache = &session.shared.plans;
        // Others may come while this is in the middle of a long text.
        let mut literals = cache.literals.take().unwrap_or_default();
        let found = cache.find_with(session, text, &mut literals);
        cache.literals.replace(Some(literals));
        found
    }

    fn find_with(
        &self,
        session: &Session,
        text: &[u8],
        literals: &mut Literals,
    ) -> Option<(Prepared, Vec<Datum>)> {
        let (cache, mode) = (self, session.variables.parser_mode());
        let look = || session.pauses.look().is_ok();
        let key = sql_parser::parameterise(text, mode, literals, &look)?;
        let known = cache.entries.borrow().get(&key).cloned();
        let prepared = match known {
            Some(prepared) => prepared,
            None => {
                let parsed = sql_parser::parse_parameterised(text, mode, literals, &look);
                let statement = parsed.ok()??;
                // Others gain nothing: they are planned anew each time.
                if statement.traits().place != Place::Planned {
                    return None;
                }
                let own = literals.text_without_rows(text);
                let shown = String::from_utf8_lossy(&own);
                let prepared = Prepared::new(statement, shown.trim(), literals.len());
                let mut entries = cache.entries.borrow_mut();
                let size = cache.size.get() + own.len();
                if entries.len() >= TEXTS_MAX || size > TEXTS_SIZE_MAX {
                    entries.clear();
                    cache.size.set(0);
                }
                entries.insert(key, prepared.clone());
                cache.size.set(cache.size.get() + own.len());
                prepared
            }
        };
        let parameters = literals.values(text, mode).map(datum_of_literal).collect();
        let prepared = match literals.take_rows(text, mode) {
            Some(rows) => prepared.with_rows(rows),
            None => prepared,
        };
        Some((prepared, parameters))
    }
}

/// The value of a literal of a row that was taken out of an INSERT, as the binder has it.
pub(crate) fn datum_of_row_literal(literal: RowLiteral) -> Datum {
    match (datum_of_literal(literal.literal), literal.negative) {
        (Datum::Int(number), true) => Datum::Int(-number),
        (Datum::Decimal(number), true) => Datum::Decimal(number.negate()),
        (Datum::Double(number), true) => Datum::Double(-number),
        // A number of more digits than a DECIMAL has.
        (Datum::Bytes(digits), true) => Datum::Bytes([b"-", &*digits].concat().into()),
        (value, _) => value,
    }
}

/// A literal's value, as the binder has it.
fn datum_of_literal(literal: ast::Literal) -> Datum {
    match literal {
        ast::Literal::Integer(number) => match i64::try_from(number) {
            Ok(number) => Datum::Int(number),
            Err(_) => Datum::UInt(number),
        },
        ast::Literal::Decimal(text) => match sqltype::Decimal::parse(text.as_bytes()) {
            Some(number) => Datum::Decimal(number),
            None => Datum::text(&text),
        },
        ast::Literal::Float(text) => Datum::Double(text.parse().unwrap_or(0.0)),
        ast::Literal::String(bytes) => Datum::Bytes(bytes),
        _ => Datum::Null,
    }
}

impl Plan {
    /// A plan that depends on what the planner has looked up, for parameters of these kinds.
    pub(crate) fn new(
        planner: Planner<'_>,
        kind: PlanKind,
        parameters: Vec<ParameterKind>,
    ) -> Self {
        let session = planner.session;
        let rows = |(table, _): &(TableId, u32)| session.shared.statistics.rows(*table);
        let sizes = match planner.tables.len() {
            0 | 1 => Vec::new(),
            _ => planner.tables.iter().map(rows).collect(),
        };
        Self {
            kind,
            sizes,
            tables: planner.tables,
            database: session.database.clone(),
            variables: session.variables.version,
            parameters,
            autocommits: planner.autocommits,
        }
    }

    /// The plan of a change, made for these parameters; whether it may be used again.
    pub(crate) fn of_change(
        session: &Session,
        statement: &ast::Statement,
        parameters: &[Datum],
    ) -> Result<(Self, bool), SqlError> {
        let mut planner = Planner::of_change(session, parameters);
        let mut kinds = parameter::kinds_of_change(parameters);
        let kind = match statement {
            ast::Statement::Update(update) => match PointUpdate::plan(&mut planner, update)? {
                Some(plan) => {
                    parameter::loosen(&mut kinds, plan.expressions());
                    PlanKind::Update(Box::new(plan))
                }
                None => PlanKind::General,
            },
            ast::Statement::Delete(delete) => match PointDelete::plan(&mut planner, delete)? {
                Some(plan) => PlanKind::Delete(Box::new(plan)),
                None => PlanKind::General,
            },
            ast::Statement::Insert(insert) => {
                let plan = insert::plan(&mut planner, insert)?;
                parameter::loosen(&mut kinds, plan.expressions());
                PlanKind::Insert(Box::new(plan))
            }
            _ => PlanKind::General,
        };
        let lasting = !planner.once;
        Ok((Self::new(planner, kind, kinds), lasting))
    }

    /// Whether everything it depends on is as it was.
    pub(crate) fn is_current(&self, session: &Session, parameters: &[Datum]) -> bool {
        if !parameter::fit(&self.parameters, parameters) {
            return false;
        }
        let cluster = session.kernel.cluster();
        let same = |(id, version): &(TableId, u32)| {
            cluster.tables.get(id).is_some_and(|table| table.version == *version)
        };
        let statistics = &session.shared.statistics;
        let alike = |(size, (table, _)): (&Option<u64>, &(TableId, u32))| {
            statistics::alike(*size, statistics.rows(*table))
        };
        let hidden = !session.temporary.is_empty()
            && self.tables.iter().any(|(id, _)| {
                let table = cluster.tables.get(id).map(|table| shown_name(&table.name));
                table.is_some_and(|(database, name)| {
                    session.temporary.has(&TableName { database, name })
                })
            });
        !hidden
            && self.autocommits.is_none_or(|autocommits| autocommits == session.autocommits())
            && self.variables == session.variables.version
            && self.sizes.iter().zip(&self.tables).all(alike)
            && self.database == session.database
            && self.tables.iter().all(same)
    }
}

/// Most levels of queries in each other: subqueries, tables of FROM and of WITH, views. Planning,
/// running and freeing call themselves for each.
const LEVELS_MAX: usize = 64;

/// Error 1473: there are more.
fn too_high() -> SqlError {
    SqlError::of::<1473>(&[])
}

/// Plans the queries of one statement.
pub(crate) struct Planner<'s> {
    pub(crate) session: &'s Session,
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
    autocommits: Option<bool>,
    /// The hints of the statement.
    hints: Option<Rc<StatementHints>>,
    /// Of the subquery that is planned next all that counts is whether it has a row.
    exists: bool,
}

impl<'s> Planner<'s> {
    pub(crate) fn new(session: &'s Session, parameters: &[Datum]) -> Self {
        let facts = session.facts();
        let types = parameters.iter().map(|value| parameter::type_of(session, value)).collect();
        let pauses = session.pauses.clone();
        Self {
            session,
            settings: BindSettings { pauses, ..BindSettings::new(facts, session.statement_time) },
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
            hints: session.hints.clone(),
            exists: false,
        }
    }

    /// For a change.
    fn of_change(session: &'s Session, parameters: &[Datum]) -> Self {
        let type_of = |value| parameter::type_in_change(session, value);
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
                Err(error) if error.code() == 1146 && self.session.temporary.has(&name) => {
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
        let variable = self.session.user_variables.get(name)?;
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
