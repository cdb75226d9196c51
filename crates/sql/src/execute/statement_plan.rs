//! The plan of a whole statement, kept with it from one execution to the next.
//!
//! # Owns
//! [`StatementPlan`]: which kind of plan a statement has, and what that was made from.
//! # Guarantees
//! A plan is used only while every table that it was made for has the same version, and the session
//! has the same default database and variables; otherwise the statement is planned anew.
//! # Not here
//! Plans of queries (`plan`); running them (`execute`).

use std::rc::Rc;

use model::TableId;
use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::Datum;

use crate::catalog::names::{TableName, shown_name};
use crate::execute::insert::{self, InsertPlan};
use crate::execute::point::PointSelect;
use crate::execute::point::change::{PointDelete, PointUpdate};
use crate::logical::parameter::{self, ParameterKind};
use crate::plan::operator::QueryPlan;
use crate::plan::planner::Planner;
use crate::session::Session;
use crate::statistics;

/// A planned statement, good while the tables it was made from are the same.
#[derive(Debug)]
pub(crate) struct StatementPlan {
    pub(crate) kind: PlanKind,
    tables: Vec<(TableId, u32)>,
    /// How many rows the tables of a join had, and when their values were found out.
    sizes: Vec<(Option<u64>, Option<u64>)>,
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

impl StatementPlan {
    /// A plan that depends on what the planner has looked up, for parameters of these kinds.
    pub(crate) fn new(
        planner: Planner<'_>,
        kind: PlanKind,
        parameters: Vec<ParameterKind>,
    ) -> Self {
        let session = planner.binding.session;
        let rows =
            |(table, _): &(TableId, u32)| (session.rows(*table), session.values_made_at(*table));
        let sizes = match planner.binding.tables.len() {
            0 | 1 => Vec::new(),
            _ => planner.binding.tables.iter().map(rows).collect(),
        };
        Self {
            kind,
            sizes,
            tables: planner.binding.tables,
            database: session.database().cloned(),
            variables: session.variables_version(),
            parameters,
            autocommits: planner.binding.autocommits,
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
            ast::Statement::Update(update) => {
                match PointUpdate::plan(&mut planner.binding, update)? {
                    Some(plan) => {
                        parameter::loosen(&mut kinds, plan.expressions());
                        PlanKind::Update(Box::new(plan))
                    }
                    None => PlanKind::General,
                }
            }
            ast::Statement::Delete(delete) => {
                match PointDelete::plan(&mut planner.binding, delete)? {
                    Some(plan) => PlanKind::Delete(Box::new(plan)),
                    None => PlanKind::General,
                }
            }
            ast::Statement::Insert(insert) => {
                let plan = insert::plan(&mut planner, insert)?;
                parameter::loosen(&mut kinds, plan.expressions());
                PlanKind::Insert(Box::new(plan))
            }
            _ => PlanKind::General,
        };
        let lasting = !planner.binding.once;
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
        let alike = |((size, made_at), (table, _)): (&(Option<u64>, _), &(TableId, u32))| {
            statistics::alike(*size, statistics.rows(*table))
                && *made_at == statistics.values_made_at(*table)
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
