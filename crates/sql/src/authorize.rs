//! Whether a session may run a statement.
//!
//! # Owns
//! What each kind of statement needs, in one exhaustive match, and the check of it against the
//! session's rights.
//! # Guarantees
//! No statement runs that was not allowed by the accounts of the worker's state. What was allowed
//! is remembered with a prepared statement as long as neither rights nor definitions change.
//! # Not here
//! Accounts and their rights (`account`); giving privileges on (`account_change`).

pub(crate) mod needs;
mod object;
mod rows;

use sql_expression::SqlError;
use sql_parser::ast::{self, Show, Statement};

use crate::account::error;
use crate::account::privilege::{Dynamic, Privileges as P};
use crate::prepared::Prepared;
use crate::session::Session;
use crate::traits::Place;

use rows::Checking;

/// Refuses a statement that the session may not run.
///
/// # Errors
/// MySQL's: 1044, 1045, 1142, 1143, 1227, 1370, 1820 and their kin.
pub(crate) fn allow(session: &Session, prepared: &Prepared) -> Result<(), SqlError> {
    let traits = prepared.traits();
    let rights = session.rights()?;
    if session.login.is_expired && !traits.despite_expiry {
        return Err(error::must_change_password());
    }
    if rights.is_complete() {
        return Ok(());
    }
    let keeps = matches!(traits.place, Place::Planned) && session.temporary.is_empty();
    let definitions = session.kernel.definitions_index();
    if keeps && prepared.is_allowed(rights.stamp, definitions, session.database.as_deref()) {
        return Ok(());
    }
    allow_statement(&Checking::of_session(session, &rights), prepared.statement())?;
    if keeps {
        prepared.remember_allowed((rights.stamp, definitions, session.database.clone()));
    }
    Ok(())
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

/// What each statement needs.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of statement")]
fn allow_statement(check: &Checking<'_>, statement: &Statement) -> Result<(), SqlError> {
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
        Statement::DropTable(drop) => {
            if drop.temporary {
                Ok(())
            } else {
                drop.tables.iter().try_for_each(|name| check.table(name, P::DROP))
            }
        }
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
        Statement::ResetPersist(_) => check.variables(),
        Statement::PurgeBinaryLogs(_) => check.dynamic(Dynamic::BINLOG_ADMIN),
        Statement::SetTransaction(set) => match set.scope {
            Some(ast::VariableScope::Global) => check.variables(),
            _ => Ok(()),
        },
        Statement::LockTables(tables) => tables.iter().try_for_each(|lock| {
            check.lock_tables(&lock.table)?;
            check.table(&lock.table, P::SELECT)
        }),
        Statement::LockInstance | Statement::UnlockInstance => check.dynamic(Dynamic::BACKUP_ADMIN),
        Statement::Backup(backup) => check.backup(&backup.options, P::FILE),
        Statement::Restore(backup) => {
            check.backup(&backup.options, P::FILE | P::CREATE | P::INSERT)
        }
        Statement::CancelBackup(_) | Statement::StopArchive(_) => {
            check.dynamic(Dynamic::BACKUP_ADMIN)
        }
        Statement::StartArchive(archive) => check.backup(&archive.options, P::FILE),
        Statement::ChangeSource(_) | Statement::ChangeFilter(_) | Statement::Replica(_) => {
            check.dynamic(Dynamic::REPLICATION_SLAVE_ADMIN)
        }
        Statement::CreateChangefeed(create) => {
            check.dynamic(Dynamic::REPLICATION_SLAVE_ADMIN)?;
            if !create.target.eq_ignore_ascii_case(b"sql") {
                check.global(P::FILE)?;
            }
            create.tables.iter().try_for_each(|name| check.table(name, P::SELECT))
        }
        Statement::Changefeed(_) => check.dynamic(Dynamic::REPLICATION_SLAVE_ADMIN),
        Statement::StreamChangefeed(_) => check.global(P::REPLICATION_SLAVE),
        Statement::Set(items) => items.iter().try_for_each(|item| check.set(item)),
        Statement::Show(show) => allow_show(check, show),
        Statement::Describe(describe) => check.sees_table(&describe.table, "SELECT"),
        Statement::Explain(explain) => match &explain.target {
            ast::ExplainTarget::Statement(inner) => {
                allow_statement(check, inner)?;
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
        Show::BackupJobs | Show::Archives => check.dynamic(Dynamic::BACKUP_ADMIN),
        Show::Backups(_) => {
            check.dynamic(Dynamic::BACKUP_ADMIN)?;
            check.global(P::FILE)
        }
        Show::BinaryLogStatus | Show::BinaryLogs | Show::ReplicaStatus(_) | Show::Changefeeds => {
            check.global(P::REPLICATION_CLIENT)
        }
        Show::LogEvents { .. } | Show::Replicas => check.global(P::REPLICATION_SLAVE),
    }
}
