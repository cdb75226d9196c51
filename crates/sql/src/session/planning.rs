//! What the planner may know of a session.
//!
//! # Owns
//! [`PlanningView`], through which statements are planned: names, definitions, sizes of tables and
//! the settings that decide about plans. It changes nothing of the session but the warnings about
//! hints, and sends nothing.
//! # Not here
//! What execution may do with a session (`execute::run`).

use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterState, Table, TableId};
use sql_expression::{Pauses, ResultType, SessionFacts, SqlError, UserVariable};
use sql_parser::ast::{ObjectName, SystemVariable};
use sqltype::{Datum, SqlType};

use crate::catalog::names::TableName;
use crate::catalog::rules::Rules;
use crate::catalog::view::ViewDefinition;
use crate::catalog::{Definitions, TableDefinition};
use crate::hint::StatementHints;
use crate::session::{Session, rules};
use crate::statistics::values::KnownValues;

/// A session as the planner sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanningView<'s> {
    session: &'s Session,
}

impl<'s> From<&'s Session> for PlanningView<'s> {
    fn from(session: &'s Session) -> Self {
        Self { session }
    }
}

/// Names and definitions.
impl<'s> PlanningView<'s> {
    /// The default database.
    pub(crate) fn database(self) -> Option<&'s String> {
        self.session.database.as_ref()
    }

    /// A table's name with its database.
    pub(crate) fn table_name(self, name: &ObjectName) -> Result<TableName, SqlError> {
        self.session.table_name(name)
    }

    /// The definition of a table, a temporary one before a permanent one.
    pub(crate) fn definition_named(
        self,
        name: &TableName,
    ) -> Result<Rc<TableDefinition>, SqlError> {
        self.session.definition_named(name)
    }

    /// The definition of a permanent table.
    pub(crate) fn permanent_named(self, name: &TableName) -> Result<Rc<TableDefinition>, SqlError> {
        self.session.permanent_named(name)
    }

    /// The view of this name, if it is one.
    pub(crate) fn view_named(
        self,
        name: &TableName,
    ) -> Result<Option<Rc<ViewDefinition>>, SqlError> {
        self.session.view_named(name)
    }

    /// Whether a name means a temporary table.
    pub(crate) fn has_temporary(self, name: &TableName) -> bool {
        self.session.temporary.has(name)
    }

    /// The kernel's table or view of a name.
    pub(crate) fn stored_table(self, name: &TableName) -> Option<Arc<Table>> {
        self.cluster().table_named(&name.full()).cloned()
    }

    /// The state of the cluster that the worker has reached.
    pub(crate) fn cluster(self) -> Arc<ClusterState> {
        self.session.kernel.cluster()
    }

    /// Definitions, decoded once per version.
    pub(crate) fn definitions(self) -> &'s Definitions {
        &self.session.shared.definitions
    }

    /// About how many rows a table has, if that is known.
    pub(crate) fn rows(self, table: TableId) -> Option<u64> {
        self.session.shared.statistics.rows(table)
    }

    /// What is known of a table's values, if anything is.
    pub(crate) fn values(self, table: TableId) -> Option<Rc<KnownValues>> {
        self.session.shared.statistics.values(table)
    }

    /// When that was found out: plans that were made before are not good any more.
    pub(crate) fn values_made_at(self, table: TableId) -> Option<u64> {
        self.session.shared.statistics.values_made_at(table)
    }
}

/// Settings of the session, and the statement.
impl<'s> PlanningView<'s> {
    /// The facts that expressions are bound by.
    pub(crate) fn facts(self) -> Arc<SessionFacts> {
        self.session.facts()
    }

    /// When the statement began: microseconds since 1970 UTC.
    pub(crate) fn statement_time(self) -> i64 {
        self.session.statement_time
    }

    /// Pauses in the middle of planning.
    pub(crate) fn pauses(self) -> &'s Pauses {
        &self.session.pauses
    }

    /// Whether each statement commits.
    pub(crate) fn autocommits(self) -> bool {
        self.session.autocommits()
    }

    /// `derived_merge` of `optimizer_switch`.
    pub(crate) fn merges_derived(self) -> bool {
        self.session.variables.derived_merge
    }

    /// `sql_safe_updates`.
    pub(crate) fn wants_safe_updates(self) -> bool {
        self.session.variables.sql_safe_updates
    }

    /// `foreign_key_checks`.
    pub(crate) fn checks_foreign_keys(self) -> bool {
        self.session.variables.foreign_key_checks
    }

    /// The version of the session's variables.
    pub(crate) fn variables_version(self) -> u64 {
        self.session.variables.version
    }

    /// The value of `@@name`.
    pub(crate) fn system_variable(
        self,
        variable: &SystemVariable,
    ) -> Result<(Datum, SqlType), SqlError> {
        self.session.system_variable(variable)
    }

    /// `@name`, if it has a value.
    pub(crate) fn user_variable(self, name: &str) -> Option<&'s UserVariable> {
        self.session.user_variables.get(name)
    }

    /// The type of a value that comes from outside.
    pub(crate) fn type_of(self, value: &Datum) -> ResultType {
        self.session.type_of(value)
    }

    /// By which rules columns are defined, of a table that the statement makes.
    pub(crate) fn definition_rules<'a>(self, table: &'a str) -> Rules<'a> {
        rules::of_statement(self.session, "", table)
    }

    /// The hints of the statement.
    pub(crate) fn hints(self) -> Option<Rc<StatementHints>> {
        self.session.hints.clone()
    }

    /// Keeps a warning about a hint for the end of the statement, once.
    pub(crate) fn warn_of_hint(self, warning: SqlError) {
        let mut warnings = self.session.hint_warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}
