//! Whether rows of tables may be read and changed.
//!
//! # Owns
//! [`Checking`], whose rights are asked, and the check of [`Uses`]; views, whose tables are used
//! with the rights of their definers.

use std::rc::Rc;

use sql_expression::SqlError;
use sql_parser::ast::{Expr, Statement};

use super::needs::{Columns, TableUse, Uses, Walk, columns_of};
use crate::account::privilege::Privileges as P;
use crate::account::rights::{Active, Rights};
use crate::account::session::role_rules;
use crate::account::{AccountName, error};
use crate::catalog::names::TableName;
use crate::catalog::view::ViewDefinition;
use crate::session::Session;

/// How deep views may stand in views.
const VIEWS_MAX: u32 = 64;
/// Tables that everybody may read: values of variables and counters of the server.
const OF_EVERYBODY: [&str; 4] =
    ["session_variables", "global_variables", "session_status", "global_status"];

/// Whose rights are asked for what a session does.
pub(crate) struct Checking<'s> {
    pub(super) session: &'s Session,
    pub(super) rights: Rc<Rights>,
    /// The database of names without one, in a view; none for the session's.
    database: Option<String>,
    /// Views around.
    depth: u32,
}

impl<'s> Checking<'s> {
    /// The session's own.
    pub(crate) fn of_session(session: &'s Session, rights: &Rc<Rights>) -> Self {
        Self { session, rights: rights.clone(), database: None, depth: 0 }
    }

    pub(super) fn who(&self) -> &AccountName {
        &self.rights.account
    }

    /// Checks what a walk finds.
    pub(super) fn rows(
        &self,
        walk_over: impl FnOnce(&mut Walk<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut walk = Walk::new(self.session, self.database.as_deref());
        walk_over(&mut walk)?;
        allow_uses(self, &walk.uses)
    }

    /// Checks the subqueries of expressions.
    pub(super) fn exprs(&self, exprs: &[Expr]) -> Result<(), SqlError> {
        self.rows(|walk| exprs.iter().try_for_each(|expr| walk.expr(expr)))
    }

    /// Views in a statement that is explained: their definitions would show.
    pub(super) fn explained_views(&self, statement: &Statement) -> Result<(), SqlError> {
        let mut walk = Walk::new(self.session, None);
        match statement {
            Statement::Query(query) => walk.query(query)?,
            Statement::Insert(insert) => walk.insert(insert)?,
            Statement::Update(update) => walk.update(update)?,
            Statement::Delete(delete) => walk.delete(delete)?,
            _ => return Ok(()),
        }
        for used in &walk.uses.tables {
            let TableName { database, name } = &used.name;
            let is_view = self.session.view_named(&used.name)?.is_some();
            if is_view && !self.rights.of_table(database, name).has(P::SHOW_VIEW) {
                let text =
                    "EXPLAIN/SHOW can not be issued; lacking privileges for underlying table";
                return Err(SqlError::new(1345, "HY000", text));
            }
        }
        Ok(())
    }

    fn table_use(&self, used: &TableUse) -> Result<(), SqlError> {
        let TableName { database, name } = &used.name;
        if self.depth == 0 && self.session.temporary.has(&used.name) {
            return Ok(());
        }
        let is_public = database == "information_schema"
            || database == "performance_schema" && OF_EVERYBODY.contains(&name.as_str());
        if is_public && P::SELECT.has(used.needed) {
            return Ok(());
        }
        let whole = self.rights.of_table(database, name);
        let of_columns = self.rights.of_columns(database, name);
        let lacking = used.needed - whole - of_columns;
        if !lacking.is_empty() {
            return Err(error::table_denied(lacking, self.who(), name));
        }
        for (privilege, columns) in [
            (P::SELECT, &used.read),
            (P::INSERT, &used.inserted),
            (P::UPDATE, &used.updated),
            (P::REFERENCES, &used.referred),
        ] {
            if !whole.has(privilege) {
                self.columns(used, privilege, columns)?;
            }
        }
        match self.session.view_named(&used.name)? {
            Some(view) => self.inside(&view, used),
            None => Ok(()),
        }
    }

    /// Columns of a table for which as a whole there is no such privilege.
    fn columns(&self, used: &TableUse, privilege: P, columns: &Columns) -> Result<(), SqlError> {
        let TableName { database, name } = &used.name;
        let allowed = |column: &str| self.rights.of_column(database, name, column).has(privilege);
        if columns.all {
            let all = columns_of(self.session, &used.name).unwrap_or_default();
            if all.is_empty() || !all.iter().all(|column| allowed(column)) {
                return Err(error::table_denied(privilege, self.who(), name));
            }
        }
        match columns.names.iter().find(|column| !allowed(column)) {
            Some(column) => Err(error::column_denied(privilege, self.who(), column, name)),
            None => Ok(()),
        }
    }

    /// What a view does with its tables.
    fn inside(&self, view: &ViewDefinition, used: &TableUse) -> Result<(), SqlError> {
        if self.depth >= VIEWS_MAX {
            return Ok(());
        }
        let statement = &view.statement;
        let is_invokers = statement.invoker == Some(true);
        let rights = match (is_invokers, statement.definer.as_ref().and_then(AccountName::stated)) {
            (true, _) | (false, None) => self.rights.clone(),
            (false, Some(definer)) => {
                let session = self.session;
                let book = session.shared.accounts.book(&session.kernel);
                let rules = role_rules(session);
                let rights = Rights::of(&book, &definer, &Active::Default, &rules)?;
                Rc::new(rights.ok_or_else(|| error::no_definer(&definer))?)
            }
        };
        if rights.is_complete() {
            return Ok(());
        }
        let (session, depth) = (self.session, self.depth + 1);
        let database = Some(view.database.clone());
        let inner = Checking { session, rights, database, depth };
        let changes = used.needed & (P::INSERT | P::UPDATE | P::DELETE);
        let result = inner.rows(|walk| {
            walk.query(&statement.query)?;
            for table in &mut walk.uses.tables {
                table.needed |= changes;
            }
            Ok(())
        });
        let TableName { database, name } = &used.name;
        result.map_err(|_| SqlError::of::<1356>(&[database, name]))
    }
}

/// Checks what a statement does with tables.
pub(crate) fn allow_uses(check: &Checking<'_>, uses: &Uses) -> Result<(), SqlError> {
    for used in &uses.tables {
        check.table_use(used)?;
    }
    for table in &uses.locked {
        let TableName { database, name } = table;
        let rights = &check.rights;
        let all = rights.of_table(database, name) | rights.of_columns(database, name);
        let is_own = check.session.temporary.has(table);
        if !is_own && !all.meets(P::UPDATE | P::DELETE | P::LOCK_TABLES) {
            let what = "SELECT with locking clause";
            return Err(error::table_denied(what, check.who(), name));
        }
    }
    if uses.files && !check.rights.global.has(P::FILE) {
        Err(error::denied(check.who()))
    } else {
        Ok(())
    }
}
