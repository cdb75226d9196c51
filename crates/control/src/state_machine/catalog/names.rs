//! Databases, and changes of which table a name stands for.
//!
//! # Owns
//! The effect of the schema changes that rename, replace or empty tables, and of those on
//! databases.
//! # Guarantees
//! A name stands for one table at any index of the log. A table with a dot in its name belongs to
//! a database that exists. A table that takes another one's place is a new identity: operations
//! made for the old one are refused, never applied to the new one.
//! # Not here
//! Copying rows into a replacement: the SQL layer does it while writes are blocked.

use std::collections::BTreeMap;

use model::{ClusterState, Description, ErrorCode, IndexId, Table, TableId};

use super::large::Place;
use super::{
    NO_TABLE, base_table, check_description, check_name, check_table_count, large, publish, remove,
    take_id,
};

/// Most databases.
const DATABASES_MAX: usize = 10_000;

/// Checks that a table can be called `name`.
pub(super) fn check_new_table_name(state: &ClusterState, name: &str) -> Result<(), ErrorCode> {
    check_name(name)?;
    if state.table_names.contains_key(name) {
        return Err(ErrorCode::TableExists);
    }
    match name.split_once('.') {
        Some((database, _)) if !state.databases.contains_key(database) => {
            Err(ErrorCode::UnknownDatabase)
        }
        _ => Ok(()),
    }
}

pub(super) fn rename_tables(
    state: &mut ClusterState,
    names: &[(TableId, String)],
) -> Result<TableId, ErrorCode> {
    let last = names.last().ok_or(ErrorCode::BadDefinition)?.0;
    let before = state.table_names.clone();
    let mut renamed: BTreeMap<TableId, Table> = BTreeMap::new();
    for (id, name) in names {
        let table = match renamed.remove(id) {
            Some(table) => Ok(table),
            None => base_table(state, *id),
        };
        let result = table.and_then(|mut table| {
            check_new_table_name(state, name)?;
            state.table_names.remove(table.name.as_str());
            state.table_names.insert(name.as_str().into(), *id);
            table.name = name.clone();
            renamed.insert(*id, table);
            Ok(())
        });
        if let Err(code) = result {
            state.table_names = before;
            return Err(code);
        }
    }
    for (_, mut table) in renamed {
        table.version += 1;
        publish(state, table);
    }
    Ok(last)
}

pub(super) fn replace_table(
    state: &mut ClusterState,
    old: TableId,
    new: TableId,
) -> Result<TableId, ErrorCode> {
    let goes = base_table(state, old)?;
    let mut stays = base_table(state, new)?;
    if old == new || stays.journal.is_some() {
        return Err(ErrorCode::BadDefinition);
    }
    if !goes.writes_blocked {
        // Somebody has given the copy up: rows may have changed since they were copied.
        return Err(ErrorCode::SchemaChanged);
    }
    state.table_names.remove(stays.name.as_str());
    remove(state, &goes);
    state.table_names.insert(goes.name.as_str().into(), new);
    stays.name = goes.name;
    stays.version += 1;
    // A stream that names the table goes on with the one in its place.
    for stream in state.streams.values_mut() {
        if let Ok(at) = stream.tables.binary_search(&old) {
            stream.tables[at] = new;
            stream.tables.sort_unstable();
        }
    }
    Ok(publish(state, stays))
}

pub(super) fn truncate_table(
    state: &mut ClusterState,
    id: TableId,
    parts: Place,
) -> Result<TableId, ErrorCode> {
    let old = base_table(state, id)?;
    check_table_count(state, 0)?;
    let mut new = old.clone();
    new.id = TableId(take_id(state));
    // Versions go on: whoever compares the two sees a change.
    new.version += 1;
    new.writes_blocked = false;
    // Whoever keeps it works on rows that are gone.
    new.journal = None;
    for index in &mut new.ordered_indexes {
        index.id = IndexId(take_id(state));
        index.state = model::IndexState::Online;
    }
    for index in &mut new.unique_indexes {
        let hidden = state.tables.get(&index.table).expect("an index has its hidden table");
        let mut hidden = hidden.as_ref().clone();
        index.id = IndexId(take_id(state));
        hidden.id = TableId(take_id(state));
        hidden.hidden_behind = Some(new.id);
        index.table = hidden.id;
        // There is nothing to build over no rows.
        index.state = model::IndexState::Online;
        publish(state, hidden);
    }
    large::renew(state, &mut new, parts);
    remove(state, &old);
    state.table_names.insert(new.name.as_str().into(), new.id);
    Ok(publish(state, new))
}

pub(super) fn create_database(
    state: &mut ClusterState,
    name: &str,
    description: &Description,
) -> Result<TableId, ErrorCode> {
    check_name(name)?;
    check_description(description)?;
    if name.contains('.') || state.databases.len() >= DATABASES_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    if state.databases.contains_key(name) {
        return Err(ErrorCode::DatabaseExists);
    }
    state.databases.insert(name.into(), description.clone());
    Ok(NO_TABLE)
}

pub(super) fn alter_database(
    state: &mut ClusterState,
    name: &str,
    description: &Description,
) -> Result<TableId, ErrorCode> {
    check_description(description)?;
    let kept = state.databases.get_mut(name).ok_or(ErrorCode::UnknownDatabase)?;
    *kept = description.clone();
    Ok(NO_TABLE)
}

pub(super) fn drop_database(state: &mut ClusterState, name: &str) -> Result<TableId, ErrorCode> {
    if state.databases.remove(name).is_none() {
        return Err(ErrorCode::UnknownDatabase);
    }
    let prefix = format!("{name}.");
    let tables: Vec<TableId> = state
        .table_names
        .iter_from(prefix.as_str())
        .take_while(|(full, _)| full.starts_with(&prefix))
        .map(|(_, id)| *id)
        .collect();
    for id in tables {
        let table = base_table(state, id).expect("named tables are base tables");
        state.table_names.remove(table.name.as_str());
        remove(state, &table);
    }
    Ok(NO_TABLE)
}
