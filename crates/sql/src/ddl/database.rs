//! CREATE, ALTER and DROP DATABASE.
//!
//! # Owns
//! Their effects, and what the client is told.

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{AlterDatabase, CreateDatabase, DropDatabase};

use super::foreign_key;
use super::step::{refused, request, warn};
use crate::catalog::{DatabaseOptions, error, names};
use crate::result::Outcome;
use crate::session::Session;

pub(super) async fn create(
    session: &mut Session,
    create: &CreateDatabase,
) -> Result<Outcome, SqlError> {
    let name = create.name.as_str();
    names::check_database_name(name)?;
    let of_server = session.variables.server_collation;
    let options = DatabaseOptions::of(of_server);
    let is_encrypted = session.shared.address.encrypted;
    let options = options.altered(&create.options, of_server, is_encrypted)?;
    let exists = error::database_exists(name);
    if !session.database_exists(name) {
        let description = options.description(name);
        let name = name.to_owned();
        let made = request(session, SchemaChange::CreateDatabase { name, description }).await;
        match made {
            Ok(_) => return Ok(Outcome::affected(1)),
            Err(failure) if refused(&failure, ErrorCode::DatabaseExists) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    if create.if_not_exists {
        warn(session, exists);
        Ok(Outcome::affected(1))
    } else {
        Err(exists)
    }
}

pub(super) async fn alter(
    session: &mut Session,
    alter: &AlterDatabase,
) -> Result<Outcome, SqlError> {
    let name = match &alter.name {
        Some(name) => name.as_str().to_owned(),
        None => session.current_database()?.to_owned(),
    };
    refuse_system(&name)?;
    session.check_database(&name)?;
    let of_server = session.variables.server_collation;
    let is_encrypted = session.shared.address.encrypted;
    let options = session.database_options(&name);
    let options = options.altered(&alter.options, of_server, is_encrypted)?;
    let description = options.description(&name);
    let altered =
        request(session, SchemaChange::AlterDatabase { name: name.clone(), description }).await;
    match altered {
        Ok(_) => Ok(Outcome::affected(1)),
        Err(failure) if refused(&failure, ErrorCode::UnknownDatabase) => {
            Err(error::unknown_database(&name))
        }
        Err(failure) => Err(failure.into()),
    }
}

pub(super) async fn drop(session: &mut Session, drop: &DropDatabase) -> Result<Outcome, SqlError> {
    let name = drop.name.as_str();
    refuse_system(name)?;
    let cluster = session.kernel.cluster();
    let tables = names::tables_of(&cluster, name).count() as u64;
    if cluster.databases.contains_key(name) {
        let all: Vec<TableId> = names::tables_of(&cluster, name).map(|(_, t)| t.id).collect();
        let linked = foreign_key::check_drop(session, &all)?;
        let drop = SchemaChange::DropDatabase { name: name.to_owned() };
        let dropped = request(session, linked.with(drop)).await;
        match dropped {
            Ok(_) => {
                if session.database.as_deref() == Some(name) {
                    session.database = None;
                    session.show_process(|process, _| process.database = None);
                }
                return Ok(Outcome::affected(tables));
            }
            Err(failure) if refused(&failure, ErrorCode::UnknownDatabase) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    let unknown = error::drop_unknown_database(name);
    if drop.if_exists {
        warn(session, unknown);
        Ok(Outcome::affected(0))
    } else {
        Err(unknown)
    }
}

/// System schemas are nobody's to change.
fn refuse_system(name: &str) -> Result<(), SqlError> {
    match crate::catalog::system::schema(name) {
        Some("information_schema") => Err(error::access_denied_to_database("information_schema")),
        Some(schema) => Err(error::system_schema_protected(schema)),
        None => Ok(()),
    }
}
