//! Statements about the session and the server: USE, SET, KILL, LOCK TABLES, FLUSH,
//! maintenance.
//!
//! # Owns
//! Their effects, and the refusal by name of what is not there yet.
//! # Not here
//! SHOW (`show`), accounts (`account_change`), PREPARE and EXECUTE (`dispatch`).

pub(crate) mod encryption;
mod maintenance;
pub(crate) mod set;

use model::NodeId;
use sql_expression::SqlError;
use sql_parser::ast::{self, Statement};
use sqltype::temporal::parse_date_time;
use sqltype::{DateTime, Datum, SqlType};
use wire::Leaving;

use crate::account::privilege::{Dynamic, Privileges};
use crate::binlog::{self, Purge};
use crate::error::unsupported;
use crate::peers::{self, Killed};
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;
use crate::{authorize, backup, changefeed, execute, replication};

/// Runs one of these statements.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Statement,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    match statement {
        Statement::Use(database) => use_database(session, database.as_str()).await?,
        Statement::Kill(kill) => kill_connection(session, kill, parameters).await?,
        Statement::LockTables(_) => {
            // Row locks make them unnecessary; tools that dump ask for them all the same.
            let note = "LOCK TABLES has no effect: use transactions and locking reads";
            session.note(SqlError::new(1235, "42000", note));
        }
        Statement::UnlockTables
        | Statement::LockInstance
        | Statement::UnlockInstance
        | Statement::Empty => {}
        Statement::Flush(flush) => forget(session, &flush.what),
        Statement::ReloadTls(keeps_nothing) => encryption::reload(session, *keeps_nothing)?,
        Statement::TableMaintenance(statement) => {
            return Box::pin(maintenance::run(session, statement, out)).await;
        }
        Statement::Backup(_)
        | Statement::Restore(_)
        | Statement::CancelBackup(_)
        | Statement::StartArchive(_)
        | Statement::StopArchive(_) => {
            return Box::pin(backup::run(session, statement, out)).await;
        }
        Statement::ChangeSource(_) | Statement::ChangeFilter(_) | Statement::Replica(_) => {
            return Box::pin(replication::run(session, statement)).await;
        }
        Statement::CreateChangefeed(_) | Statement::Changefeed(_) => {
            return Box::pin(changefeed::run(session, statement)).await;
        }
        Statement::StreamChangefeed(stream) => {
            return Box::pin(changefeed::stream::run(session, stream, out)).await;
        }
        Statement::PurgeBinaryLogs(purge) => {
            let purge = match purge {
                ast::PurgeBinaryLogs::To(file) => Purge::To(file.to_string()),
                ast::PurgeBinaryLogs::Before(time) => {
                    let time = execute::value(session, time, parameters).await?;
                    Purge::Before(seconds_of(session, &time)?)
                }
            };
            Box::pin(binlog::purge(session, &purge)).await?;
        }
        Statement::Help(_) => return Ok(no_help(out)),
        Statement::Shutdown => session.shared.leaving.set(Some(Leaving::End)),
        Statement::Restart => {
            if !session.shared.address.alone {
                let why = "the process hosts a whole cluster; end it, and start it again";
                return Err(SqlError::of::<3707>(&[&why]));
            }
            session.shared.leaving.set(Some(Leaving::StartAgain));
        }
        Statement::Unsupported { feature } => return Err(unsupported(feature)),
        other => return Err(unsupported(feature_of(other))),
    }
    Ok(Outcome::default())
}

/// FLUSH PRIVILEGES: passwords are to be sent once more, and failed logins are forgiven. FLUSH
/// USER_RESOURCES: what accounts have done in this hour is forgotten. The rest of what FLUSH names
/// is not kept, or always written.
fn forget(session: &Session, what: &ast::FlushTarget) {
    let ast::FlushTarget::Options(options) = what else { return };
    if options.iter().any(|option| &**option == "USER_RESOURCES") {
        session.shared.admission.usage.forget();
    }
    if options.iter().any(|option| &**option == "PRIVILEGES") {
        session.shared.admission.verifiers().clear();
        session.shared.admission.attempts.clear();
    }
}

/// USE, COM_INIT_DB, the database of a handshake.
pub(crate) async fn use_database(session: &mut Session, name: &str) -> Result<(), SqlError> {
    if let Err(denied) = authorize::enters(session, name) {
        // Another SQL node may have allowed it a moment ago.
        if !session.catch_up().await {
            return Err(denied);
        }
        authorize::enters(session, name)?;
    }
    let mut known = session.database_exists(name);
    if !known && session.catch_up().await {
        known = session.database_exists(name);
    }
    if !known {
        return Err(SqlError::new(1049, "42000", format!("Unknown database '{name}'")));
    }
    session.database = Some(session.database_name(name));
    session.show_process(|process, session| process.database.clone_from(&session.database));
    Ok(())
}

async fn kill_connection(
    session: &mut Session,
    kill: &ast::Kill,
    parameters: &[Datum],
) -> Result<(), SqlError> {
    let id = execute::value(session, &kill.id, parameters).await?;
    let number = match &id {
        Datum::Int(id) => u32::try_from(*id).ok(),
        Datum::UInt(id) => u32::try_from(*id).ok(),
        Datum::Bytes(text) => String::from_utf8_lossy(text).trim().parse().ok(),
        _ => None,
    };
    // Whoever may not see others is not told of them.
    let rights = session.rights()?;
    let (sees, ends) =
        (rights.global.has(Privileges::PROCESS), rights.administers(Dynamic::CONNECTION_ADMIN));
    let own = |user: &str| user == session.own_name();
    let unknown = || {
        let shown = execute::row::shown(&id, &SqlType::big_int());
        SqlError::new(1094, "HY000", format!("Unknown thread id: {shown}"))
    };
    let number = number.ok_or_else(unknown)?;
    let here = session.shared.directory.lock().owner(number);
    let refused = |killed| match killed {
        Killed::Silent(node) => silent(number, node),
        Killed::Foreign => SqlError::of::<1095>(&[&number]),
        Killed::Unknown | Killed::Told => unknown(),
    };
    let owner = match &here {
        Some(owner) => owner.clone(),
        None => peers::owner(session, number).await?.map_err(refused)?,
    };
    let owner = Some(owner).filter(|user| own(user) || sees || ends).ok_or_else(unknown)?;
    if !own(&owner) && !ends {
        return Err(SqlError::of::<1095>(&[&number]));
    }
    if here.is_some() {
        session.shared.kills.borrow_mut().push((number, kill.query));
        return Ok(());
    }
    // Another connection may have got the number since.
    let account = (!ends).then_some(owner);
    match peers::kill(session, number, kill.query, account).await? {
        Killed::Told => Ok(()),
        other => Err(refused(other)),
    }
}

/// The SQL node of a connection did not answer in time.
fn silent(connection: u32, node: NodeId) -> SqlError {
    let text = format!(
        "SQL node {node}, which serves connection {connection}, does not answer: KILL may \
         have been carried out; look at SHOW PROCESSLIST and repeat KILL",
        node = node.0
    );
    SqlError::new(1815, "HY000", text)
}

/// The seconds since 1970 of a time in the session's time zone.
fn seconds_of(session: &Session, time: &Datum) -> Result<u32, SqlError> {
    let time = match time {
        Datum::DateTime(time) => Some(*time),
        Datum::Date(date) => Some(DateTime::midnight(*date)),
        Datum::Bytes(text) => parse_date_time(text).map(|parsed| parsed.value),
        _ => None,
    };
    let wrong = || SqlError::new(1210, "HY000", "Incorrect arguments to PURGE LOGS BEFORE");
    let time = time.ok_or_else(wrong)?;
    let micros = session.variables.time_zone.moment(time).ok_or_else(wrong)?;
    u32::try_from(micros.div_euclid(1_000_000)).map_err(|_| wrong())
}

fn no_help(out: &mut ResultWriter) -> Outcome {
    let columns = ["name", "is_it_category"];
    out.columns(&columns.map(|name| ResultColumn::new(name, SqlType::text(64))));
    Outcome::Rows
}

fn feature_of(statement: &Statement) -> &'static str {
    match statement {
        Statement::Call(_) => "CALL",
        Statement::CreateTrigger(_) | Statement::DropTrigger(_) => "TRIGGER",
        Statement::CreateRoutine(_) | Statement::DropRoutine(_) => "stored routines",
        Statement::CreateEvent(_) | Statement::DropEvent(_) => "EVENT",
        _ => "this statement",
    }
}
