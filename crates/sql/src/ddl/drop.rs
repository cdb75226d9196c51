//! DROP TABLE, RENAME TABLE, TRUNCATE.
//!
//! # Owns
//! Their effects, and what the client is told of tables that are not there.

use std::collections::BTreeMap;

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{DropTable, ObjectName};

use super::create::{dropping, qualified};
use super::foreign_key;
use super::step::{refused, request, user_table, warn};
use crate::catalog::error;
use crate::catalog::names::{TableName, check_table_name};
use crate::catalog::view::is_view;
use crate::result::Outcome;
use crate::session::Session;
use crate::statistics::store;

/// DROP TABLE: all of the tables are there, or none is dropped.
pub(super) async fn tables(session: &mut Session, drop: &DropTable) -> Result<Outcome, SqlError> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    let (mut missing, mut temporary) = (Vec::new(), Vec::new());
    for name in &drop.tables {
        let name = session.table_name(name)?;
        if name.is_system() {
            return Err(error::access_denied_to_database(&name.database));
        }
        if session.temporary.has(&name) {
            if temporary.contains(&name) {
                return Err(SqlError::new(1066, "42000", "Not unique table/alias"));
            }
            temporary.push(name);
            continue;
        }
        let cluster = session.kernel.cluster();
        match cluster.table_named(&name.full()) {
            Some(table) if !drop.temporary && !is_view(table) => {
                found.push(table.id);
                names.push(name);
            }
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
        let missing: Vec<String> = missing.iter().map(TableName::full).collect();
        return Err(error::unknown_table(&missing.join(",")));
    }
    for name in missing {
        warn(session, error::unknown_table(&name.full()));
    }
    if !temporary.is_empty() && !found.is_empty() {
        // Readers of the binary log have no temporary tables.
        session.definition_log.restate(dropping(names.iter().map(qualified).collect()));
    }
    for name in temporary {
        session.drop_temporary(&name).await?;
    }
    drop_all(session, found).await?;
    Ok(Outcome::default())
}

/// Drops tables, all at once.
async fn drop_all(session: &mut Session, mut tables: Vec<TableId>) -> Result<(), SqlError> {
    loop {
        let cluster = session.kernel.cluster();
        // Somebody else may have been faster: they are gone all the same.
        tables.retain(|id| cluster.tables.contains_key(id));
        if tables.is_empty() {
            return Ok(());
        }
        let linked = foreign_key::check_drop(session, &tables)?;
        let drops = tables.iter().map(|table| SchemaChange::DropTable { table: *table });
        match request(session, linked.with_all(drops)).await {
            Ok(_) => break,
            Err(failure) if refused(&failure, ErrorCode::SchemaChanged) => {
                let now = session.kernel.cluster();
                if tables.iter().all(|id| now.tables.contains_key(id)) {
                    return Err(failure.into());
                }
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    for id in tables {
        // What remains of the sequence is a row nobody looks at.
        let _ = session.shared.sequences.forget(&session.kernel, id).await;
        let _ = store::forget(&session.kernel, id).await;
    }
    Ok(())
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
    let linked = foreign_key::link_renamed(session, &names)?;
    match request(session, linked.with(SchemaChange::RenameTables { names })).await {
        Ok(_) => Ok(Outcome::default()),
        Err(failure) if refused(&failure, ErrorCode::TableExists) => {
            let (_, to) = &pairs[pairs.len() - 1];
            Err(error::table_exists(to.name.as_str()))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// TRUNCATE: a new identity, and a new sequence with it.
pub(super) async fn truncate(
    session: &mut Session,
    name: &ObjectName,
) -> Result<Outcome, SqlError> {
    let name = user_table(session, session.table_name(name)?)?;
    let definition = session.definition_named(&name)?;
    let table = definition.table.id;
    let linked = if definition.is_temporary() {
        foreign_key::Linked::default()
    } else {
        foreign_key::check_truncate(session, &definition)?
    };
    match request(session, linked.with(SchemaChange::TruncateTable { table })).await {
        Ok(_) => {
            let _ = session.shared.sequences.forget(&session.kernel, table).await;
            let _ = store::forget(&session.kernel, table).await;
            Ok(Outcome::default())
        }
        Err(failure) if refused(&failure, ErrorCode::UnknownTable) => {
            Err(error::no_such_table(&name.database, &name.name))
        }
        Err(failure) => Err(failure.into()),
    }
}
