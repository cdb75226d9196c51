//! What ALTER TABLE does to the foreign keys of the table itself.
//!
//! # Owns
//! Names that follow columns, and the refusals of what a foreign key needs: keys, columns, types.
//! # Not here
//! The other tables (`foreign_key`).

use sql_expression::SqlError;

use super::altered::Altered;
use crate::catalog::draft::Draft;
use crate::catalog::foreign_key::ForeignKeyDraft;
use crate::catalog::key::KeyDraft;
use crate::catalog::{ColumnDefinition, KeyKind, TableDefinition, error, same_name};
use crate::session::Session;

/// The position of the foreign key of this name.
pub(super) fn position(draft: &Draft, name: &str) -> Option<usize> {
    let named = |key: &ForeignKeyDraft| key.name.as_deref().is_some_and(|own| same_name(own, name));
    draft.foreign_keys.iter().position(named)
}

/// A column gets another name, in the table's own foreign keys too.
pub(super) fn rename_column(draft: &mut Draft, old: &TableDefinition, from: &str, to: &str) {
    for key in &mut draft.foreign_keys {
        let is_own = key.parent.database == old.database && key.parent.name == old.name;
        let of_parent = key.parent_columns.iter_mut().filter(|_| is_own);
        for column in key.columns.iter_mut().chain(of_parent).filter(|c| same_name(c, from)) {
            to.clone_into(column);
        }
    }
}

/// Drops the keys that were made for foreign keys, where another key is added that supports them.
/// Which were so made is told by their names: the foreign key's own.
pub(super) fn give_way(draft: &mut Draft) {
    let Draft { keys, foreign_keys, .. } = draft;
    for foreign in foreign_keys.iter().filter(|foreign| foreign.exists) {
        let is_made = |key: &KeyDraft| {
            key.exists
                && key.kind == KeyKind::Ordinary
                && key.name == foreign.name
                && key.parts.len() == foreign.columns.len()
                && foreign.is_supported_by(key)
        };
        if keys.iter().any(|key| !key.exists && foreign.is_supported_by(key)) {
            keys.retain(|key| !is_made(key));
        }
    }
}

/// Refuses to take columns and keys away that foreign keys need.
pub(super) fn check(
    session: &Session,
    old: &TableDefinition,
    draft: &Draft,
) -> Result<(), SqlError> {
    for key in draft.foreign_keys.iter().filter(|key| key.exists) {
        let name = key.name.as_deref().unwrap_or_default();
        if let Some(gone) = key.columns.iter().find(|column| draft.position(column).is_none()) {
            return Err(error::column_of_foreign_key(gone, name));
        }
        if !draft.keys.iter().any(|other| key.is_supported_by(other)) {
            let before = ForeignKeyDraft {
                columns: own_names(old, name).unwrap_or_else(|| key.columns.clone()),
                ..key.clone()
            };
            let of_old = |other: &&crate::catalog::KeyDefinition| {
                before.is_supported_by(&KeyDraft::of(other, &old.columns))
            };
            let index = old.keys.iter().find(of_old).map_or("", |key| key.name.as_str());
            return Err(error::index_of_foreign_key(index));
        }
    }
    // Of columns that others refer to it is told before their key is missed.
    let cluster = session.kernel.cluster();
    for referrer in session.shared.definitions.referrers(&cluster, &old.table.name)? {
        let is_own = referrer.child.table.id == old.table.id;
        for name in referrer.key().parent_columns.iter().filter(|_| !is_own) {
            let renamed = || draft.columns.iter().any(|column| is_column(old, column, name));
            if draft.position(name).is_none() && !renamed() {
                let (key, child) = (&referrer.key().name, &referrer.child.name);
                return Err(error::column_of_parent(name, key, child));
            }
        }
    }
    Ok(())
}

/// Whether a column of a draft is the one of this name, under another one by now.
fn is_column(old: &TableDefinition, column: &ColumnDefinition, name: &str) -> bool {
    old.column(name).is_some_and(|(_, before)| before.column == column.column)
        && old.column(&column.name).is_none()
}

/// The columns of a foreign key, as they have been called so far.
fn own_names(old: &TableDefinition, name: &str) -> Option<Vec<String>> {
    let key = old.foreign_keys.iter().find(|key| same_name(&key.name, name))?;
    Some(key.columns.iter().map(|at| old.columns[*at].name.clone()).collect())
}

/// Refuses other types for columns of foreign keys that stay, on both of their ends: values that
/// were equal need not be so any more.
pub(super) fn check_types(session: &Session, altered: &Altered) -> Result<(), SqlError> {
    if !session.variables.foreign_key_checks {
        return Ok(());
    }
    let Altered { old, new, origins, .. } = altered;
    let after = |before: usize| {
        let at = origins.iter().position(|origin| *origin == Some(before))?;
        Some(&new.columns[at])
    };
    let changes = |at: usize| after(at).is_some_and(|after| changes_type(&old.columns[at], after));
    for key in &old.foreign_keys {
        let stays = new.foreign_keys.iter().any(|other| same_name(&other.name, &key.name));
        if let Some(at) = key.columns.iter().find(|at| stays && changes(**at)) {
            return Err(error::change_of_foreign_key(&old.columns[*at].name, &key.name));
        }
    }
    let cluster = session.kernel.cluster();
    for referrer in session.shared.definitions.referrers(&cluster, &old.table.name)? {
        let key = referrer.key();
        for (at, column) in key.parent_columns.iter().filter_map(|name| old.column(name)) {
            if referrer.child.table.id != old.table.id && changes(at) {
                let child = format!("{}.{}", referrer.child.database, referrer.child.name);
                return Err(error::change_of_parent(&column.name, &key.name, &child));
            }
        }
    }
    Ok(())
}

/// Whether a column has another type, a longer text aside.
fn changes_type(before: &ColumnDefinition, after: &ColumnDefinition) -> bool {
    let (before, after) = (&before.sql_type, &after.sql_type);
    let longer = sqltype::SqlType { length: before.length, ..after.clone() };
    let is_text = before.kind == sqltype::TypeKind::VarChar && after.length >= before.length;
    before != after && !(is_text && *before == longer)
}
