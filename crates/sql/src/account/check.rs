//! Whether a session may run a statement.
//!
//! # Owns
//! What each kind of statement needs, in one exhaustive match; the check of it against the
//! session's [`Rights`]; the errors of what is missing.
//! # Guarantees
//! No statement runs that was not allowed by the accounts of the worker's state. What was allowed
//! is remembered with a prepared statement as long as neither rights nor definitions change.
//! # Not here
//! Which rows and columns a statement uses (`needs`); giving privileges on (`grant`).

mod object;
mod rows;

use std::cell::RefCell;
use std::rc::Rc;

use model::ControlIndex;
use mysql_wire::auth::Account;
use sql_expression::SqlError;
use sql_parser::ast::{self, Show, Statement};

use super::attempts::Lockout;
use super::privilege::{Dynamic, Privileges as P};
use super::rights::{Active, Rights, RoleRules};
use super::usage::{CountedConnection, Limits};
use super::{AccountName, error};
use crate::admission::ClientHost;
use crate::audit::AuditedConnection;
use crate::prepared::Prepared;
use crate::session::Session;
use crate::traits::{Place, Traits, Writes};
use crate::variables;

use rows::Checking;

/// As whom a session has logged in.
#[derive(Debug, Default)]
pub(crate) struct Login {
    /// The account; none before the login.
    pub(crate) account: Option<AccountName>,
    /// Which roles it uses.
    pub(crate) active: Active,
    /// The password has expired: nothing may be done but to change it.
    pub(crate) is_expired: bool,
    /// It counts for the account as long as it has it.
    pub(crate) connection: Option<CountedConnection>,
    /// Its end is told to the audit log.
    pub(crate) audited: Option<AuditedConnection>,
    /// What it may do, with the change of accounts that this was made by.
    rights: RefCell<Option<(ControlIndex, Rc<Rights>)>>,
}

/// The account that a client is, if it proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: AccountName,
    /// What the client proves, and what holds beside it.
    pub(crate) account: Account,
    /// What failed logins lead to, if they are counted.
    pub(crate) lockout: Option<Lockout>,
    /// How much it may do.
    pub(crate) limits: Limits,
}

/// What a prepared statement was allowed by: the rights, the definitions, the default database.
pub(crate) type Allowed = (u64, ControlIndex, Option<String>);

impl Session {
    /// The session goes on as another account, with its default roles.
    pub(crate) fn become_account(&mut self, account: AccountName) {
        self.login = Login { account: Some(account), ..Login::default() };
        *self.facts.borrow_mut() = None;
    }

    /// The account that a client is, who calls itself `user` and comes from `from`: what logging in
    /// needs to know of it. By its name the session becomes it ([`Session::become_account`]).
    pub(crate) fn login_account(
        &self,
        user: &str,
        from: &ClientHost,
    ) -> Result<Option<Candidate>, SqlError> {
        let found = self.shared.accounts.book(&self.kernel).who(user, from)?;
        let lifetime = global(self, "default_password_lifetime").parse().unwrap_or_default();
        let now = self.statement_time / 1_000_000;
        Ok(found.map(|(name, record)| {
            let account = record.login(&name, now, lifetime);
            let limits = Limits::of(record.limits);
            Candidate { name, account, lockout: record.lockout(), limits }
        }))
    }

    /// Counts an attempt to log in to an account.
    ///
    /// # Errors
    /// 3955 while too many have failed, also when the password is right.
    pub(crate) fn count_attempt(
        &self,
        of: &Candidate,
        user: &str,
        host: &str,
        proven: bool,
    ) -> Result<(), SqlError> {
        let Some(lockout) = &of.lockout else { return Ok(()) };
        let now = self.statement_time / 1_000_000;
        let counted = self.shared.admission.attempts.count(&of.name, lockout, proven, now);
        counted.map_err(|blocked| error::blocked((user, host), lockout, &blocked))
    }

    /// Counts a login to an account, which has proven itself.
    ///
    /// # Errors
    /// 1203 and 1226 where the account may not be connected once more.
    pub(crate) fn count_connection(&self, of: &Candidate) -> Result<CountedConnection, SqlError> {
        let most = global(self, "max_user_connections").parse().unwrap_or_default();
        self.shared.admission.usage.connect(&of.name, &of.limits, most, self.statement_time)
    }

    /// Counts a statement for the account, where that may run so many. It is an outer one unless
    /// another statement runs it.
    ///
    /// # Errors
    /// 1226 if there were as many.
    pub(crate) fn count_use(&self, traits: &Traits, is_outer: bool) -> Result<(), SqlError> {
        // Whoever has no account is refused for that.
        let Ok(rights) = self.rights() else { return Ok(()) };
        let limits = rights.limits;
        if !limits.concern_statements() {
            return Ok(());
        }
        let kind = (is_outer, traits.writes != Writes::Nothing);
        self.shared.admission.usage.execute(&rights.account, &limits, kind, self.statement_time)
    }

    /// The session uses other roles from now on.
    pub(crate) fn activate_roles(&mut self, active: Active) {
        self.login.active = active;
        *self.login.rights.borrow_mut() = None;
        *self.facts.borrow_mut() = None;
    }

    /// The account the session has.
    ///
    /// # Errors
    /// 1045 before the login.
    pub(crate) fn account(&self) -> Result<&AccountName, SqlError> {
        let nobody = || SqlError::of::<1045>(&[&"", &"", &"NO"]);
        self.login.account.as_ref().ok_or_else(nobody)
    }

    /// What the session may do, by the accounts of the state that the worker has reached.
    ///
    /// # Errors
    /// 1045 if the account is gone.
    pub(crate) fn rights(&self) -> Result<Rc<Rights>, SqlError> {
        let changed = self.kernel.accounts_changed();
        let mut kept = self.login.rights.borrow_mut();
        if let Some((of, rights)) = kept.as_ref()
            && *of == changed
        {
            return Ok(rights.clone());
        }
        let account = self.account()?;
        let book = self.shared.accounts.book(&self.kernel);
        let rights = Rights::of(&book, account, &self.login.active, &role_rules(self))?;
        let rights = Rc::new(rights.ok_or_else(|| error::denied(account))?);
        *kept = Some((changed, rights.clone()));
        // CURRENT_ROLE() may say something else from now on.
        *self.facts.borrow_mut() = None;
        Ok(rights)
    }

    /// Refuses a statement that the session may not run.
    ///
    /// # Errors
    /// MySQL's: 1044, 1045, 1142, 1143, 1227, 1370, 1820 and their kin.
    pub(crate) fn allow(&self, prepared: &Prepared) -> Result<(), SqlError> {
        let traits = prepared.traits();
        let rights = self.rights()?;
        if self.login.is_expired && !traits.despite_expiry {
            return Err(error::must_change_password());
        }
        if rights.is_complete() {
            return Ok(());
        }
        let keeps = matches!(traits.place, Place::Planned) && self.temporary.is_empty();
        let definitions = self.kernel.definitions_index();
        if keeps && prepared.is_allowed(rights.stamp, definitions, self.database.as_deref()) {
            return Ok(());
        }
        allow(&Checking::of_session(self, &rights), prepared.statement())?;
        if keeps {
            prepared.remember_allowed((rights.stamp, definitions, self.database.clone()));
        }
        Ok(())
    }
}

/// What the session may see.
impl Session {
    /// Whether a database shows.
    pub(crate) fn sees_database(&self, name: &str) -> bool {
        let is_public = matches!(name, "information_schema" | "performance_schema");
        is_public || self.rights().is_ok_and(|rights| rights.sees_database(name))
    }

    /// Whether a table shows.
    pub(crate) fn sees_table(&self, database: &str, table: &str) -> bool {
        let is_public = database == "information_schema";
        is_public || self.rights().is_ok_and(|rights| rights.sees_table(database, table))
    }

    /// Whether the query of a view shows.
    pub(crate) fn may_show_view(&self, database: &str, view: &str) -> bool {
        self.rights().is_ok_and(|rights| rights.of_table(database, view).has(P::SHOW_VIEW))
    }

    /// What of a column is allowed, as information_schema lists it; none if it does not show.
    pub(crate) fn column_privileges(
        &self,
        database: &str,
        table: &str,
        column: &str,
    ) -> Option<String> {
        let rights = self.rights().ok()?;
        let of_column = rights.of_column(database, table, column);
        let allowed = (rights.of_table(database, table) | of_column) & P::OF_COLUMN;
        let names: Vec<String> =
            allowed.each().map(|known| known.name.to_ascii_lowercase()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

/// Whether the session may have a database as its default one.
///
/// # Errors
/// 1044.
pub(crate) fn enters(session: &Session, name: &str) -> Result<(), SqlError> {
    let rights = session.rights()?;
    if rights.is_complete() {
        return Ok(());
    }
    Checking::of_session(session, &rights).enters(name)
}

/// The server's rules about roles now.
pub(crate) fn role_rules(session: &Session) -> RoleRules {
    let is_on = |name: &str| global(session, name).eq_ignore_ascii_case("ON");
    RoleRules {
        mandatory: role_list(&global(session, "mandatory_roles")),
        all_on_login: is_on("activate_all_roles_on_login"),
        partial_revokes: is_on("partial_revokes"),
    }
}

/// The server's value of a variable, as text.
pub(crate) fn global(session: &Session, name: &str) -> String {
    let variable = variables::registry::find(name);
    variable.and_then(|one| variables::shown_text(session, one, true)).unwrap_or_default()
}

/// The roles of `mandatory_roles`: names separated by commas, in quotes or not.
fn role_list(text: &str) -> Vec<AccountName> {
    let parsed =
        sql_parser::parse(format!("DROP ROLE {text}").as_bytes(), sql_parser::SqlMode::default());
    let Ok(Statement::DropRole(drop)) = parsed else { return Vec::new() };
    drop.accounts.iter().filter_map(AccountName::stated).collect()
}

/// What each statement needs.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of statement")]
fn allow(check: &Checking<'_>, statement: &Statement) -> Result<(), SqlError> {
    match statement {
        Statement::Query(query) => check.rows(|walk| walk.query(query)),
        Statement::Insert(insert) => check.rows(|walk| walk.insert(insert)),
        Statement::Update(update) => check.rows(|walk| walk.update(update)),
        Statement::Delete(delete) => check.rows(|walk| walk.delete(delete)),
        Statement::LoadData(load) => check.rows(|walk| walk.load(load)),
        Statement::Truncate(name) => check.table(name, P::DROP),
        Statement::Call(call) => {
            check.exprs(&call.arguments)?;
            check.routine(&call.name, P::EXECUTE, "execute")
        }
        Statement::Do(exprs) => check.exprs(exprs),

        Statement::CreateTable(create) => check.create_table(create),
        Statement::AlterTable(alter) => check.alter_table(alter),
        Statement::DropTable(drop) => match drop.temporary {
            true => Ok(()),
            false => drop.tables.iter().try_for_each(|name| check.table(name, P::DROP)),
        },
        Statement::RenameTable(names) => names.iter().try_for_each(|(old, new)| {
            check.table(old, P::ALTER | P::DROP)?;
            check.table(new, P::CREATE | P::INSERT)
        }),
        Statement::CreateIndex(create) => check.table(&create.table, P::INDEX),
        Statement::DropIndex(drop) => check.table(&drop.table, P::INDEX),
        Statement::CreateDatabase(create) => check.database(create.name.as_str(), P::CREATE),
        Statement::AlterDatabase(alter) => check.database_or_current(alter.name.as_ref(), P::ALTER),
        Statement::DropDatabase(drop) => check.database(drop.name.as_str(), P::DROP),
        Statement::CreateView(create) => check.create_view(create),
        Statement::DropView(drop) => {
            drop.views.iter().try_for_each(|name| check.table(name, P::DROP))
        }
        Statement::CreateTrigger(create) => {
            check.definer(create.definer.as_ref())?;
            check.table(&create.table, P::TRIGGER)
        }
        // Of which table it is nobody knows: there are no triggers.
        Statement::DropTrigger(drop) => check.database_of(&drop.name, P::TRIGGER),
        Statement::CreateRoutine(create) => {
            check.definer(create.definer.as_ref())?;
            check.database_of(&create.name, P::CREATE_ROUTINE)
        }
        Statement::DropRoutine(drop) => {
            check.routine(&drop.name, P::ALTER_ROUTINE, "alter routine")
        }
        Statement::CreateEvent(create) => {
            check.definer(create.definer.as_ref())?;
            check.database_of(&create.name, P::EVENT)
        }
        Statement::DropEvent(drop) => check.database_of(&drop.name, P::EVENT),

        Statement::CreateUser(_) => check.accounts(P::INSERT),
        Statement::RenameUser(_) => check.accounts(P::UPDATE),
        Statement::DropUser(_) => check.accounts(P::DELETE),
        Statement::CreateRole(_) => check.one_of(P::CREATE_ROLE, "CREATE ROLE or CREATE USER"),
        Statement::DropRole(_) => check.one_of(P::DROP_ROLE, "DROP ROLE or CREATE USER"),
        // Those depend on whom they concern, and what is given: `account` asks.
        Statement::AlterUser(_)
        | Statement::Grant(_)
        | Statement::Revoke(_)
        | Statement::SetPassword(_)
        | Statement::SetRole(_)
        | Statement::SetDefaultRole(_) => Ok(()),

        Statement::StartTransaction(_)
        | Statement::Commit(_)
        | Statement::Rollback(_)
        | Statement::Savepoint(_)
        | Statement::RollbackToSavepoint(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::UnlockTables
        | Statement::Deallocate(_)
        | Statement::Execute(_)
        | Statement::Prepare(_)
        | Statement::Help(_)
        | Statement::Empty
        | Statement::Unsupported { .. } => Ok(()),
        Statement::SetTransaction(set) => match set.scope {
            Some(ast::VariableScope::Global) => check.variables(),
            _ => Ok(()),
        },
        Statement::LockTables(tables) => tables.iter().try_for_each(|lock| {
            check.lock_tables(&lock.table)?;
            check.table(&lock.table, P::SELECT)
        }),
        Statement::LockInstance | Statement::UnlockInstance => check.dynamic(Dynamic::BACKUP_ADMIN),
        Statement::Backup(backup) => check.backup(backup, P::FILE),
        Statement::Restore(backup) => check.backup(backup, P::FILE | P::CREATE | P::INSERT),
        Statement::CancelBackup(_) => check.dynamic(Dynamic::BACKUP_ADMIN),
        Statement::Set(items) => items.iter().try_for_each(|item| check.set(item)),
        Statement::Show(show) => allow_show(check, show),
        Statement::Describe(describe) => check.sees_table(&describe.table, "SELECT"),
        Statement::Explain(explain) => match &explain.target {
            ast::ExplainTarget::Statement(inner) => {
                allow(check, inner)?;
                check.explained_views(inner)
            }
            ast::ExplainTarget::Connection(_) => check.global(P::PROCESS),
        },
        Statement::Use(name) => check.enters(name.as_str()),
        // Whose thread it is is found when it is run.
        Statement::Kill(kill) => check.exprs(std::slice::from_ref(&kill.id)),
        Statement::Flush(flush) => check.flush(&flush.what),
        Statement::ReloadTls(_) => check.dynamic(Dynamic::CONNECTION_ADMIN),
        Statement::TableMaintenance(work) => check.maintenance(work),
        Statement::Shutdown | Statement::Restart => check.global(P::SHUTDOWN),
    }
}

/// What each SHOW needs. Those that leave out what may not be seen need nothing.
fn allow_show(check: &Checking<'_>, show: &Show) -> Result<(), SqlError> {
    match show {
        Show::Databases(filter)
        | Show::Variables(_, filter)
        | Show::Status(_, filter)
        | Show::CharacterSets(filter)
        | Show::Collations(filter)
        | Show::FunctionStatus(filter)
        | Show::ProcedureStatus(filter) => check.filter(filter),
        Show::Tables { schema, filter, .. }
        | Show::TableStatus { schema, filter }
        | Show::OpenTables { schema, filter }
        | Show::Triggers { schema, filter, .. }
        | Show::Events { schema, filter } => {
            check.filter(filter)?;
            match schema {
                Some(schema) => check.enters(schema.as_str()),
                None => Ok(()),
            }
        }
        Show::Columns { table, filter, .. } => {
            check.filter(filter)?;
            check.sees_table(table, "SELECT")
        }
        Show::Indexes { table, filter, .. } => {
            check.exprs(filter.as_slice())?;
            check.sees_table(table, "SELECT")
        }
        Show::CreateDatabase { name, .. } => check.enters(name.as_str()),
        Show::Create(kind, name) => match kind {
            ast::CreatedObject::Table => check.shows_create_table(name),
            ast::CreatedObject::View => check.table(name, P::SELECT | P::SHOW_VIEW),
            ast::CreatedObject::Trigger => check.database_of(name, P::TRIGGER),
            ast::CreatedObject::Event => check.database_of(name, P::EVENT),
            ast::CreatedObject::Procedure | ast::CreatedObject::Function => Ok(()),
        },
        // One's own account may be shown; `show` asks.
        Show::CreateUser(_) | Show::Grants { .. } => Ok(()),
        Show::Warnings(_)
        | Show::Errors(_)
        | Show::WarningCount
        | Show::ErrorCount
        | Show::Engines
        | Show::Plugins
        | Show::ProcessList(_)
        | Show::Privileges
        | Show::RoutineCode(_, _)
        | Show::Profiles
        | Show::Profile { .. } => Ok(()),
        Show::Engine { .. } => check.global(P::PROCESS),
        Show::BackupJobs => check.dynamic(Dynamic::BACKUP_ADMIN),
        Show::Backups(_) => {
            check.dynamic(Dynamic::BACKUP_ADMIN)?;
            check.global(P::FILE)
        }
        Show::BinaryLogStatus | Show::BinaryLogs | Show::ReplicaStatus(_) => {
            check.global(P::REPLICATION_CLIENT)
        }
        Show::LogEvents { .. } | Show::Replicas => check.global(P::REPLICATION_SLAVE),
    }
}
