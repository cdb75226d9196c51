//! What is defined at a moment, as archives keep it.

use model::{ClusterState, Table, Value};
use sql_expression::SqlError;

use super::log::{Definitions, Layout};
use crate::backup::rows::{Rows, encode};
use crate::backup::save::text;
use crate::backup_jobs::host::{RawColumn, RawTable, SavedDatabase, SavedTable, SavedView, failed};
use crate::catalog::names::is_hidden;
use crate::catalog::view::is_view;
use crate::sequences;

/// Whether the changes of a table are archived: of tables with a database, also those that nobody
/// sees yet, of the parts of their large values, and of the next values of AUTO_INCREMENT.
pub(crate) fn is_archived(cluster: &ClusterState, table: &Table) -> bool {
    match table.hidden_behind.map(|base| cluster.tables.get(&base)) {
        None => table.name == sequences::TABLE || is_of_user(table),
        Some(Some(base)) => {
            base.large.as_ref().is_some_and(|large| large.parts == table.id) && is_of_user(base)
        }
        Some(None) => false,
    }
}

fn is_of_user(table: &Table) -> bool {
    table.name.contains('.') && !table.name.starts_with('#') && !is_view(table)
}

/// What is defined, with `accounts` these too.
pub(crate) fn definitions(cluster: &ClusterState, accounts: bool) -> Result<Definitions, SqlError> {
    let mut all = Definitions::default();
    for (name, kept) in cluster.databases.iter() {
        all.databases.push(SavedDatabase { name: name.to_string(), text: text(kept)? });
    }
    for table in cluster.tables.values() {
        if table.hidden_behind.is_none() && is_view(table) {
            let (database, name) = table.name.split_once('.').unwrap_or(("", &table.name));
            if !is_hidden(name) {
                let (database, name) = (database.to_owned(), name.to_owned());
                let text = text(&table.description)?;
                all.views.push(SavedView { database, name, text });
            }
        } else if is_archived(cluster, table) {
            all.tables.push(saved(table)?);
        }
    }
    if accounts {
        for (name, kept) in cluster.accounts.iter() {
            all.accounts.push((name.to_string(), text(kept)?));
        }
    }
    Ok(all)
}

/// A table as archives keep it, without rows.
fn saved(table: &Table) -> Result<SavedTable, SqlError> {
    let is_base = table.hidden_behind.is_none() && table.name.contains('.');
    let (database, name) = match table.name.split_once('.') {
        Some((database, name)) if is_base => (database, name),
        _ => ("", table.name.as_str()),
    };
    let layout = Layout::of(table);
    let column = |id: &u16| {
        let value = &table.columns[usize::from(*id)].default;
        let mut bytes = Vec::new();
        if *value != Value::Null {
            encode(value, &mut bytes);
        }
        RawColumn { id: *id, fill: bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
    };
    let raw = RawTable {
        id: table.id.0,
        columns: layout.columns.iter().map(column).collect(),
        key: layout.key,
        references: table.large.as_ref().map(|large| large.references.0),
        parts: table.large.as_ref().map(|large| large.parts.0),
        is_shown: is_base && !is_hidden(name),
    };
    let named = |id: &u16| table.columns[usize::from(*id)].name.clone();
    Ok(SavedTable {
        database: database.to_owned(),
        name: name.to_owned(),
        text: if is_base { text(&table.description)? } else { String::new() },
        columns: layout.columns.iter().map(named).collect(),
        rows: 0,
        next: None,
        raw: Some(raw),
    })
}

/// The value of rows that are older than a column.
pub(crate) fn fill(column: &RawColumn) -> Result<Value, SqlError> {
    if column.fill.is_empty() {
        return Ok(Value::Null);
    }
    let digits = column.fill.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(byte).collect();
    let bytes = bytes.unwrap_or_default();
    let value = Rows(&bytes).next(1)?.and_then(|values| values.into_iter().next());
    value.ok_or_else(|| failed("a column of the archive has a value that cannot be read"))
}
