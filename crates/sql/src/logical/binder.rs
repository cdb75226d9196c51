//! What is known of one statement while its queries are bound.
//!
//! # Owns
//! [`QueryBinder`]: the settings, the subqueries, common tables and views met so far, and the
//! tables that a plan of the statement depends on.
//! # Not here
//! Binding a query: `query`, which the binder of expressions reaches through `Environment`
//! (`logical`). Planning what is bound: `plan`.

use std::rc::Rc;
use std::sync::Arc;

use model::TableId;
use sql_expression::{BindSettings, EvalContext, ResultType, SqlError};
use sql_parser::ast;
use sqltype::Datum;

use crate::catalog::TableDefinition;
use crate::hint::StatementHints;
use crate::logical::bound::{BoundQuery, Numbers, Subquery};
use crate::logical::common_table::CommonTables;
use crate::logical::known::Constants;
use crate::logical::parameter;
use crate::session::Session;
use crate::session::planning::PlanningView;

/// Most levels of queries in each other: subqueries, tables of FROM and of WITH, views. Planning,
/// running and freeing call themselves for each.
const LEVELS_MAX: usize = 64;

/// Error 1473: there are more.
fn too_high() -> SqlError {
    SqlError::of::<1473>(&[])
}

/// Binds the queries of one statement.
pub(crate) struct QueryBinder<'s> {
    pub(crate) session: PlanningView<'s>,
    pub(super) settings: BindSettings,
    /// The values of parameters, if they are known.
    pub(super) values: Vec<Datum>,
    /// Their types.
    pub(super) parameters: Vec<ResultType>,
    pub(crate) numbers: Numbers,
    /// Subqueries of the query that is being bound.
    pub(super) subqueries: Vec<Subquery>,
    /// Tables looked up, with their versions.
    pub(crate) tables: Vec<(TableId, u32)>,
    /// Common tables in sight.
    pub(super) common: CommonTables,
    /// The views that are being bound.
    pub(super) views: Views,
    /// How deep in queries we are.
    pub(super) depth: usize,
    /// Levels of the highest query in the one that is being bound.
    pub(super) below: usize,
    /// Values of variables or parameters were bound: the plan is for this execution only.
    pub(crate) once: bool,
    /// Whether statements commit, if locks were planned: they are for transactions alone.
    pub(crate) autocommits: Option<bool>,
    /// The hints of the statement.
    pub(super) hints: Option<Rc<StatementHints>>,
    /// The subquery that is bound next is only tested for existence.
    pub(super) exists: bool,
    /// For estimates, if there is something to be estimated by values.
    pub(super) constants: Option<Rc<Constants>>,
}

impl<'s> QueryBinder<'s> {
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
            numbers: Numbers::default(),
            subqueries: Vec::new(),
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

    /// Binds something as a query of its own: with its subqueries, and with common tables that
    /// nobody else sees.
    pub(super) fn enclosed(
        &mut self,
        bind: impl FnOnce(&mut Self) -> Result<BoundQuery, SqlError>,
    ) -> Result<BoundQuery, SqlError> {
        if self.depth >= LEVELS_MAX {
            return Err(too_high());
        }
        let outer = std::mem::take(&mut self.subqueries);
        let beside = std::mem::take(&mut self.below);
        let commons = self.common.mark();
        self.depth += 1;
        let bound = bind(self);
        self.depth -= 1;
        self.common.forget(commons);
        let own = std::mem::replace(&mut self.subqueries, outer);
        let levels = self.below + 1;
        self.below = beside.max(levels);
        let bound = bound?;
        if levels > LEVELS_MAX {
            return Err(too_high());
        }
        Ok(BoundQuery { levels, subqueries: own, ..bound })
    }

    /// Notes that what is being bound has this query in it.
    pub(super) fn contains(&mut self, query: &BoundQuery) {
        self.below = self.below.max(query.levels);
    }

    /// A query for FROM, with its number.
    pub(super) fn numbered(&mut self, query: BoundQuery) -> Rc<BoundQuery> {
        Rc::new(BoundQuery { number: Some(self.numbers.next()), ..query })
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

    /// Whether the block that is bound now is only tested for existence.
    pub(crate) fn take_exists(&mut self) -> bool {
        std::mem::take(&mut self.exists)
    }

    /// Takes the subqueries that were bound since the last time: those of a statement that is no
    /// query.
    pub(crate) fn take_subqueries(&mut self) -> Vec<Subquery> {
        std::mem::take(&mut self.subqueries)
    }

    /// A mark for [`QueryBinder::forget`].
    pub(crate) fn mark(&self) -> usize {
        self.common.mark()
    }

    /// Forgets the common tables that were defined since the mark.
    pub(crate) fn forget(&mut self, mark: usize) {
        self.common.forget(mark);
    }

    pub(crate) fn facts(&self) -> &Arc<sql_expression::SessionFacts> {
        &self.settings.facts
    }
}

/// What is known of the views that are being bound.
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
    /// Whether no view is being bound.
    pub(crate) fn are_empty(&self) -> bool {
        self.inside.is_empty()
    }

    /// How many views are being bound, one inside the other.
    pub(crate) fn depth(&self) -> usize {
        self.inside.len()
    }

    /// Notes that a view is being bound, until [`Views::leave`].
    pub(crate) fn enter(&mut self, full: String) {
        self.inside.push(full);
    }

    /// The innermost view is bound.
    pub(crate) fn leave(&mut self) {
        self.inside.pop();
    }

    /// Whether a view of this full name is being bound: then it refers to itself.
    pub(crate) fn are_inside(&self, full: &str) -> bool {
        self.inside.iter().any(|name| name == full)
    }
}
