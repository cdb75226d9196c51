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
mod altered;
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
mod step;
mod temporary;
pub(crate) mod view;

use sql_expression::SqlError;
use sql_parser::ast::{Statement, TableDefinition};
use sqltype::TimeZone;

use crate::binlog;
use crate::catalog::error;
use crate::definition_log::LoggedStatement;
use crate::result::Outcome;
use crate::session::Session;

pub(crate) use rebuild::leftovers::sweep_copies;
pub(crate) use rebuild::wait_for_writes;

/// One in so many statements looks for records of others that nobody needs any more.
const PRUNED_ONE_IN: u64 = 32;

/// Runs a statement that changes definitions.
pub(crate) async fn run(session: &mut Session, statement: &Statement) -> Result<Outcome, SqlError> {
    if session.kernel.records_definitions() {
        session.definition_log.begin(logged(session, statement));
    }
    let result = change_definitions(session, statement).await;
    // What became of it is known all the same.
    let _ = session.definition_log.end(&session.kernel).await;
    if session.kernel.records_definitions() && session.kernel.draw().is_multiple_of(PRUNED_ONE_IN) {
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

#[cfg(test)]
mod tests;
