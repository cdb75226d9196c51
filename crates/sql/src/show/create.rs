//! SHOW CREATE.
//!
//! # Owns
//! The layouts, and what is said of objects that are not of the kind asked for.
//! # Not here
//! The text of a definition (`catalog::text`).

use sql_expression::{SqlError, SqlMode};
use sql_parser::ast::{CreatedObject, ObjectName};
use sqltype::Datum;

use super::{Listing, long_text, table, text};
use crate::catalog::text::{Style, create_table};
use crate::catalog::view::ViewDefinition;
use crate::catalog::{TableDefinition, error};
use crate::information::{self, Sequences};
use crate::session::Session;

/// SHOW CREATE DATABASE.
pub(super) fn database(
    session: &Session,
    name: &str,
    if_not_exists: bool,
) -> Result<Listing, SqlError> {
    let name = session.database_name(name);
    session.check_database(&name)?;
    let statement = session.database_options(&name).create_statement(&name, if_not_exists);
    let mut listing = Listing::new([("Database", text(64)), ("Create Database", text(1024))]);
    listing.push(vec![Datum::text(&name), Datum::text(&statement)]);
    Ok(listing)
}

/// SHOW CREATE of the other kinds.
pub(super) async fn object(
    session: &Session,
    kind: CreatedObject,
    name: &ObjectName,
) -> Result<Listing, SqlError> {
    let plain = name.name.as_str();
    match kind {
        CreatedObject::Table => of_table(session, name).await,
        CreatedObject::View => {
            let table = session.table_name(name)?;
            if let Some(view) = session.view_named(&table)? {
                return Ok(of_view(session, &view));
            }
            if !table.is_system() {
                session.definition_named(&table)?;
            }
            Err(SqlError::of::<1347>(&[&table.database, &table.name, &"VIEW"]))
        }
        CreatedObject::Procedure => Err(no_routine("PROCEDURE", plain)),
        CreatedObject::Function => Err(no_routine("FUNCTION", plain)),
        CreatedObject::Trigger => Err(SqlError::new(1360, "HY000", "Trigger does not exist")),
        CreatedObject::Event => {
            Err(SqlError::new(1539, "HY000", format!("Unknown event '{plain}'")))
        }
    }
}

fn no_routine(kind: &str, name: &str) -> SqlError {
    SqlError::new(1305, "42000", format!("{kind} {name} does not exist"))
}

async fn of_table(session: &Session, name: &ObjectName) -> Result<Listing, SqlError> {
    let mut listing = Listing::new([("Table", text(64)), ("Create Table", long_text())]);
    let table = session.table_name(name)?;
    if let Some(view) = session.view_named(&table)? {
        return Ok(of_view(session, &view));
    }
    let statement = if table.is_system() {
        let found = information::table(&table.database, &table.name);
        let found = found.ok_or_else(|| error::no_such_table(&table.database, &table.name))?;
        table::create_system_table(found)
    } else {
        let definition = session.definition_named(&table)?;
        let sequences = match definition.auto_increment() {
            Some(_) => {
                let tables = [definition.table.clone()];
                Sequences::of(session, Some(&tables)).await?
            }
            None => Sequences::default(),
        };
        statement(session, &definition, &sequences)
    };
    listing.push(vec![Datum::text(&table.name), Datum::text(&statement)]);
    Ok(listing)
}

/// SHOW CREATE VIEW, and SHOW CREATE TABLE of a view.
fn of_view(session: &Session, view: &ViewDefinition) -> Listing {
    let mut listing = Listing::new([
        ("View", text(64)),
        ("Create View", long_text()),
        ("character_set_client", text(64)),
        ("collation_connection", text(64)),
    ]);
    listing.push(vec![
        Datum::text(&view.name),
        Datum::text(&view.create_statement()),
        Datum::text("utf8mb4"),
        Datum::text(session.facts().collation.name()),
    ]);
    listing
}

/// The statement in the session's style.
fn statement(session: &Session, definition: &TableDefinition, sequences: &Sequences) -> String {
    let variables = &session.variables;
    let style = Style {
        quote_all: variables.sql_quote_show_create,
        ansi_quotes: variables.sql_mode.contains(SqlMode::ANSI_QUOTES),
        zone: variables.time_zone.clone(),
        auto_increment: sequences.next(definition),
        database: Some(definition.database.clone()),
    };
    let text = create_table(&definition.name, definition.parts(), &style);
    if definition.is_temporary() {
        text.replacen("CREATE TABLE", "CREATE TEMPORARY TABLE", 1)
    } else {
        text
    }
}
