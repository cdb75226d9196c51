//! Statements that change definitions: databases, tables, indexes.
//!
//! A change is one command of the control log where the kernel has one for it, and a sequence of
//! commands otherwise, ordered so that whoever is interrupted leaves a table that works: what the
//! kernel has and no description names is not used, and is replaced by the next who needs its name.
//!
//! # Owns
//! Which commands a statement becomes, and their order; what the client is told.
//! # Guarantees
//! A statement that fails leaves the definitions as they were, but for statements about several
//! databases or tables, whose first ones may be done.
//! # Not here
//! Checks and texts of definitions (`catalog`); the implicit commit before (`dispatch`).

mod alter;
mod change;
mod create;
mod database;
mod drop;
mod foreign;
mod foreign_key;
mod index;
mod modify;
pub(crate) mod moves;
mod rebuild;
pub(crate) mod restore;
mod temporary;
pub(crate) mod view;

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{Statement, TableDefinition};
use sqltype::TimeZone;

use crate::binlog;
use crate::catalog::draft::Rules;
use crate::catalog::names::TableName;
use crate::catalog::view::is_view;
use crate::catalog::{CheckDefinition, error, names, same_name};
use crate::definition_log::LoggedStatement;
use crate::kernel::Failure;
use crate::result::Outcome;
use crate::session::{Level, Session};

pub(crate) use rebuild::leftovers::sweep_copies;
pub(crate) use rebuild::wait_for_writes;

/// One in so many statements looks for records of others that nobody needs any more.
const PRUNED_ONE_IN: u64 = 32;

/// Runs a statement that changes definitions.
pub(crate) async fn run(session: &mut Session, statement: &Statement) -> Result<Outcome, SqlError> {
    if session.kernel.keeps_binlog() {
        session.definition_log.begin(logged(session, statement));
    }
    let result = change_definitions(session, statement).await;
    // What became of it is known all the same.
    let _ = session.definition_log.end(&session.kernel).await;
    if session.kernel.keeps_binlog() && session.kernel.draw().is_multiple_of(PRUNED_ONE_IN) {
        let _ = Box::pin(binlog::prune(session)).await;
    }
    result
}

/// A statement as the binary log has it.
fn logged(session: &Session, statement: &Statement) -> LoggedStatement {
    let fills = match statement {
        Statement::CreateTable(create) => match &create.definition {
            TableDefinition::Columns(body) => body.query.is_some(),
            TableDefinition::Like(_) => false,
        },
        _ => false,
    };
    let at = session.variables.timestamp.unwrap_or(session.statement_time);
    // Names of zones are not known everywhere.
    let minutes = session.variables.time_zone.offset_at(at.div_euclid(1_000_000)) / 60;
    let time_zone = TimeZone::of_offset(minutes).map(|zone| zone.to_string()).unwrap_or_default();
    LoggedStatement {
        database: session.database.clone().unwrap_or_default(),
        text: statement.to_string(),
        ignores_foreign_keys: !session.variables.foreign_key_checks,
        time_zone,
        at,
        origin: session.change_origin,
        fills,
    }
}

async fn change_definitions(
    session: &mut Session,
    statement: &Statement,
) -> Result<Outcome, SqlError> {
    match statement {
        Statement::CreateDatabase(create) => database::create(session, create).await,
        Statement::AlterDatabase(alter) => database::alter(session, alter).await,
        Statement::DropDatabase(drop) => database::drop(session, drop).await,
        Statement::CreateTable(create) => create::run(session, create).await,
        Statement::AlterTable(alter) => alter::run(session, alter).await,
        Statement::DropTable(drop) => drop::tables(session, drop).await,
        Statement::RenameTable(names) => drop::rename(session, names).await,
        Statement::Truncate(name) => drop::truncate(session, name).await,
        Statement::CreateIndex(create) => index::create(session, create).await,
        Statement::DropIndex(drop) => index::drop(session, drop).await,
        Statement::CreateView(create) => view::create(session, create).await,
        Statement::DropView(drop) => view::drop(session, drop).await,
        _ => Err(error::unsupported("this statement")),
    }
}

/// Asks the kernel for a change.
async fn change(session: &Session, change: SchemaChange) -> Result<TableId, Failure> {
    session.definition_log.change(&session.kernel, change).await
}

/// Whether the kernel refused with this code.
fn refused(failure: &Failure, code: ErrorCode) -> bool {
    matches!(failure, Failure::Refused(refusal) if refusal.code == code)
}

/// Keeps what the checks have noted for SHOW WARNINGS.
fn keep_notes(session: &mut Session, rules: Rules<'_>) {
    for note in rules.notes {
        warn(session, note);
    }
}

/// Adds a warning, or a note where MySQL calls it one.
fn warn(session: &mut Session, warning: SqlError) {
    if matches!(warning.code(), 1007 | 1008 | 1050 | 1051 | 1091 | 1246 | 1831 | 3502) {
        return session.note(warning);
    }
    let kept = session.variables.max_error_count as usize;
    session.diagnostics.push(Level::Warning, warning, kept);
}

/// The name of a user's table in a statement that changes it: system schemas are refused, and
/// databases that are not there.
fn user_table(session: &Session, name: TableName) -> Result<TableName, SqlError> {
    if name.is_system() {
        return Err(error::access_denied_to_database(&name.database));
    }
    session.check_database(&name.database)?;
    Ok(name)
}

/// Names of CHECK constraints are unique in a database: 3822 for one that another table has.
fn check_names_free(
    session: &Session,
    database: &str,
    own: Option<TableId>,
    checks: &[CheckDefinition],
) -> Result<(), SqlError> {
    if checks.is_empty() {
        return Ok(());
    }
    let cluster = session.kernel.cluster();
    for (_, table) in names::tables_of(&cluster, database) {
        if Some(table.id) == own || is_view(table) {
            continue;
        }
        let definition = session.shared.definitions.of(table)?;
        for check in checks {
            if definition.checks.iter().any(|other| same_name(&other.name, &check.name)) {
                return Err(error::duplicate_check(&check.name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
