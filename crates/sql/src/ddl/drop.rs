//! DROP TABLE, RENAME TABLE, TRUNCATE.
//!
//! # Owns
//! Their effects, and what the client is told of tables that are not there.

use std::collections::BTreeMap;

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{DropTable, ObjectName};

use super::{change, refused, user_table, warn};
use crate::catalog::draft::generated_ordinal;
use crate::catalog::kernel_form;
use crate::catalog::names::{TableName, check_table_name};
use crate::catalog::view::is_view;
use crate::catalog::{CheckDefinition, TableDefinition, error};
use crate::result::Outcome;
use crate::session::Session;

/// DROP TABLE: all of the tables are there, or none is dropped.
pub(super) async fn tables(session: &mut Session, drop: &DropTable) -> Result<Outcome, SqlError> {
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in &drop.tables {
        let name = session.table_name(name)?;
        if name.is_system() {
            return Err(error::access_denied_to_database(&name.database));
        }
        let cluster = session.kernel.cluster();
        match cluster.table_named(&name.full()) {
            // There are no temporary tables.
            Some(table) if !drop.temporary && !is_view(table) => found.push(table.id),
            _ => missing.push(name),
        }
    }
    let mut seen = Vec::new();
    for id in &found {
        if seen.contains(id) {
            return Err(SqlError::new(1066, "42000", "Not unique table/alias"));
        }
        seen.push(*id);
    }
    if !missing.is_empty() && !drop.if_exists {
        let names: Vec<String> = missing.iter().map(TableName::full).collect();
        return Err(error::unknown_table(&names.join(",")));
    }
    for name in missing {
        warn(session, error::unknown_table(&name.full()));
    }
    for id in found {
        match change(session, SchemaChange::DropTable { table: id }).await {
            Ok(_) => {}
            // Somebody else was faster: it is gone all the same.
            Err(failure) if refused(&failure, ErrorCode::UnknownTable) => continue,
            Err(failure) => return Err(failure.into()),
        }
        // What remains of the sequence is a row nobody looks at.
        let _ = session.shared.sequences.forget(&session.kernel, id).await;
    }
    Ok(Outcome::default())
}

/// RENAME TABLE: all pairs or none.
pub(super) async fn rename(
    session: &mut Session,
    pairs: &[(ObjectName, ObjectName)],
) -> Result<Outcome, SqlError> {
    let cluster = session.kernel.cluster();
    // Which table a name will stand for, where the pairs before have changed it.
    let mut moved: BTreeMap<String, Option<TableId>> = BTreeMap::new();
    let mut names = Vec::with_capacity(pairs.len());
    for (from, to) in pairs {
        let from = user_table(session, session.table_name(from)?)?;
        let to = user_table(session, session.table_name(to)?)?;
        check_table_name(&to.name)?;
        let stands_for = |name: &TableName| match moved.get(&name.full()) {
            Some(id) => *id,
            None => cluster.table_named(&name.full()).map(|table| table.id),
        };
        let unknown = || error::no_such_table(&from.database, &from.name);
        let id = stands_for(&from).ok_or_else(unknown)?;
        if stands_for(&to).is_some() {
            return Err(error::table_exists(&to.name));
        }
        moved.insert(from.full(), None);
        moved.insert(to.full(), Some(id));
        names.push((id, to.full()));
    }
    match change(session, SchemaChange::RenameTables { names: names.clone() }).await {
        Ok(_) => {}
        Err(failure) if refused(&failure, ErrorCode::TableExists) => {
            let (_, to) = &pairs[pairs.len() - 1];
            return Err(error::table_exists(to.name.as_str()));
        }
        Err(failure) => return Err(failure.into()),
    }
    for (id, _) in names {
        let before = cluster.tables.get(&id);
        let Some(before) = before.and_then(|t| session.shared.definitions.of(t).ok()) else {
            continue;
        };
        rename_checks(session, &before).await?;
    }
    Ok(Outcome::default())
}

/// Names of CHECK constraints that were made from the table's name follow it.
pub(super) async fn rename_checks(
    session: &Session,
    before: &TableDefinition,
) -> Result<(), SqlError> {
    let generated = |check: &CheckDefinition| generated_ordinal(&check.name, &before.name);
    if before.checks.iter().all(|check| generated(check).is_none()) {
        return Ok(());
    }
    let cluster = session.kernel.cluster();
    let Some(table) = cluster.tables.get(&before.table.id) else { return Ok(()) };
    let mut after = TableDefinition::clone(&*session.shared.definitions.of(table)?);
    for check in &mut after.checks {
        if let Some(ordinal) = generated_ordinal(&check.name, &before.name) {
            check.name = crate::catalog::draft::generated_check_name(&after.name, ordinal);
        }
    }
    let description = kernel_form::description(&after.name, after.parts());
    let version = table.version;
    let (table, renamed) = (table.id, Vec::new());
    change(session, SchemaChange::Describe { table, version, renamed, description }).await?;
    Ok(())
}

/// TRUNCATE: a new identity, and a new sequence with it.
pub(super) async fn truncate(
    session: &mut Session,
    name: &ObjectName,
) -> Result<Outcome, SqlError> {
    let name = user_table(session, session.table_name(name)?)?;
    let definition = session.definition_named(&name)?;
    let table = definition.table.id;
    match change(session, SchemaChange::TruncateTable { table }).await {
        Ok(_) => {
            let _ = session.shared.sequences.forget(&session.kernel, table).await;
            Ok(Outcome::default())
        }
        Err(failure) if refused(&failure, ErrorCode::UnknownTable) => {
            Err(error::no_such_table(&name.database, &name.name))
        }
        Err(failure) => Err(failure.into()),
    }
}
