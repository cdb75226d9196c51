//! Columns that get another definition while the rows stay.
//!
//! # Owns
//! Which changes of columns rows and keys that are there can bear; the layout that new rows get.
//! # Guarantees
//! Every row of every layout reads as values of the new definition, and has the keys it had.
//! # Not here
//! Whether the values mean the same in SQL: that is for who asks.

use std::sync::Arc;

use model::{ClusterState, ErrorCode, RowLayout, SchemaChange, TableId};

use super::{LAYOUTS_MAX, base_table, check_columns, check_description, check_key, publish};

/// Wider types, NULL where it was not allowed, and holes where columns were.
pub(super) fn modify_columns(
    state: &mut ClusterState,
    change: &SchemaChange,
) -> Result<TableId, ErrorCode> {
    let SchemaChange::ModifyColumns { table: id, version, columns, renamed, description } = change
    else {
        unreachable!("the caller has matched the kind of change");
    };
    let mut table = base_table(state, *id)?;
    if table.version != *version {
        return Err(ErrorCode::SchemaChanged);
    }
    if columns.is_empty() || table.layouts.len() >= LAYOUTS_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    for (at, (column, definition)) in columns.iter().enumerate() {
        let again = columns[..at].iter().any(|(other, _)| other == column);
        // Judged by what the table was: the changes of one command do not depend on each other.
        if again || !table.can_modify(*column, definition) {
            return Err(ErrorCode::BadDefinition);
        }
    }
    for (column, definition) in columns {
        table.columns[usize::from(column.0)] = definition.clone();
    }
    for (column, name) in renamed {
        let column = table.columns.get_mut(usize::from(column.0));
        column.ok_or(ErrorCode::BadDefinition)?.name.clone_from(name);
    }
    check_columns(&table.columns)?;
    for index in &table.ordered_indexes {
        let key: Vec<u16> = index.columns.iter().map(|column| column.0).collect();
        check_key(&table.columns, &key, true)?;
    }
    check_description(description)?;
    let layout = RowLayout::new(table.layouts.len() as u8, &table.columns);
    table.layouts.push(Arc::new(layout));
    table.description = description.clone();
    table.version += 1;
    Ok(publish(state, table))
}
