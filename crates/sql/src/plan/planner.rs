//! What the planner of one statement knows while it goes through the statement's queries.
//!
//! # Owns
//! [`Planner`]: the settings, the subqueries, common tables and views met so far, and the tables
//! that the plan depends on.
//! # Not here
//! Planning a query: `query`, which the binder reaches through `Environment` (`plan`).

use std::rc::Rc;
use std::sync::Arc;

use model::TableId;
use sql_expression::{BindSettings, EvalContext, ResultType, SqlError};
use sql_parser::ast;
use sqltype::Datum;

use crate::catalog::TableDefinition;
use crate::hint::StatementHints;
use crate::plan::common_table::CommonTables;
use crate::plan::operator::{PlanNode, QueryPlan, Subplan};
use crate::plan::operator_id::{OperatorIds, SeeSlot};
use crate::plan::parameter;
use crate::plan::selectivity::Constants;
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
    pub(super) settings: BindSettings,
    /// The values of parameters, if they are known.
    pub(super) values: Vec<Datum>,
    /// Their types.
    pub(super) parameters: Vec<ResultType>,
    pub(super) numbers: u32,
    /// Subqueries of the query that is being planned.
    pub(super) subplans: Vec<Subplan>,
    /// Tables looked up, with their versions.
    pub(crate) tables: Vec<(TableId, u32)>,
    /// Common tables in sight.
    pub(super) common: CommonTables,
    /// The views that are being planned.
    pub(super) views: Views,
    /// How deep in queries we are.
    pub(super) depth: usize,
    /// Levels of the highest query in the one that is being planned.
    pub(super) below: usize,
    /// Values of variables or parameters were bound: the plan is for this execution only.
    pub(crate) once: bool,
    /// Whether statements commit, if locks were planned: they are for transactions alone.
    pub(crate) autocommits: Option<bool>,
    /// The hints of the statement.
    pub(super) hints: Option<Rc<StatementHints>>,
    /// Of the subquery that is planned next all that counts is whether it has a row.
    pub(super) exists: bool,
    /// For estimates, if there is something to be estimated by values.
    pub(super) constants: Option<Rc<Constants>>,
    /// The ids that operators of finished plans have.
    ids: OperatorIds,
}

impl<'s> Planner<'s> {
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
            ids: OperatorIds::default(),
        }
    }

    /// For a change.
    pub(crate) fn of_change(session: &'s Session, parameters: &[Datum]) -> Self {
        let type_of = |value| parameter::type_in_change(session.into(), value);
        let types = parameters.iter().map(type_of).collect();
        Self { parameters: types, ..Self::new(session, parameters) }
    }

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

    /// Whether statements commit, which the plan then depends on.
    pub(super) fn autocommits(&mut self) -> bool {
        *self.autocommits.insert(self.session.autocommits())
    }

    /// Plans something as a query of its own: with its subqueries, and with common tables that
    /// nobody else sees.
    pub(super) fn enclosed(
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

    /// The definition of a table, remembered as one that the plan depends on.
    pub(crate) fn definition(
        &mut self,
        name: &ast::ObjectName,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        let name = self.session.table_name(name)?;
        // A view means what it meant when it was made, when there was no such table.
        let definition = if self.views.are_empty() {
            self.session.definition_named(&name)?
        } else {
            match self.session.permanent_named(&name) {
                Err(error) if error.code() == 1146 && self.session.has_temporary(&name) => {
                    let text = format!("View's SELECT refers to a temporary table '{}'", name.name);
                    return Err(SqlError::new(1352, "HY000", text));
                }
                found => found?,
            }
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

    /// Takes the subqueries met since the last time: those of a statement that is no query. Their
    /// plans are finished.
    pub(crate) fn take_subplans(&mut self) -> Vec<Subplan> {
        let subplans = std::mem::take(&mut self.subplans);
        self.give_ids(&|see| subplans.iter().for_each(|subplan| subplan.for_each_slot(see)));
        subplans
    }

    /// Gives the operators of a finished plan, and of all plans in it, their ids.
    pub(crate) fn identify(&mut self, plan: &QueryPlan) {
        self.give_ids(&|see| plan.for_each_slot(see));
    }

    /// The same for an operator that is no part of a query.
    pub(crate) fn identify_operator(&mut self, operator: &PlanNode) {
        self.give_ids(&|see| {
            operator.for_each_slot(see);
        });
    }

    fn give_ids(&mut self, for_each: &dyn Fn(&mut SeeSlot<'_>)) {
        for_each(&mut |slot| self.ids.give(slot));
        self.ids.check(for_each);
    }

    pub(crate) fn facts(&self) -> &Arc<sql_expression::SessionFacts> {
        &self.settings.facts
    }
}

/// What a planner knows of the views it is in.
#[derive(Default)]
pub(crate) struct Views {
    /// Full names, the innermost last.
    pub(super) inside: Vec<String>,
    /// The database that names without one mean; the session's default one if none.
    pub(crate) database: Option<String>,
    /// A name without database was looked up in the session's default one.
    pub(crate) used_default: bool,
    /// A variable was met.
    pub(crate) met_variable: bool,
}

impl Views {
    /// Whether no view is being planned.
    pub(crate) fn are_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// How many views are being planned, one inside the other.
    pub(crate) fn depth(&self) -> usize {
        self.inside.len()
    }

    /// Notes that a view is being planned, until [`Views::leave`].
    pub(crate) fn enter(&mut self, full: String) {
        self.inside.push(full);
    }

    /// The innermost view is planned.
    pub(crate) fn leave(&mut self) {
        self.inside.pop();
    }

    /// Whether a view of this full name is being planned: then it refers to itself.
    pub(crate) fn are_inside(&self, full: &str) -> bool {
        self.inside.iter().any(|name| name == full)
    }
}
