//! What foreign keys ask of changes of definitions.
//!
//! A foreign key is kept with the table that refers. Whoever changes which tables are joined by
//! foreign keys, or the identity of one that is, raises the versions of the tables on their other
//! ends by the same command: a statement that was planned before meets a version it does not know,
//! and is planned anew.
//!
//! # Owns
//! The checks of both tables of a foreign key, and [`Linked`], what has to be changed together with
//! a table.
//! # Not here
//! What a foreign key is (`catalog::foreign_key`), checks of rows (`execute::reference`).

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{SchemaChange, Table, TableId};
use sql_expression::SqlError;

use crate::catalog::draft;
use crate::catalog::foreign_key::{generated_name, generated_ordinal, is_compatible, referred_key};
use crate::catalog::names::{self, TableName};
use crate::catalog::text::Parts;
use crate::catalog::view::is_view;
use crate::catalog::{
    ColumnDefinition, ForeignKeyDefinition, TableDefinition, column_named, error, kernel_form,
    same_name,
};
use crate::session::Session;

/// Tables that are changed together with another one.
#[derive(Debug, Default)]
pub(super) struct Linked {
    /// Names and what they have to stand for still.
    expected: BTreeMap<String, Option<(TableId, u32)>>,
    /// Tables that get another version, with their new descriptions.
    described: BTreeMap<TableId, SchemaChange>,
}

impl Linked {
    /// Whether nothing has to be changed or expected.
    pub(super) fn is_empty(&self) -> bool {
        self.expected.is_empty() && self.described.is_empty()
    }

    /// Whether foreign keys join the table with others.
    pub(super) fn joins_others(&self) -> bool {
        !self.described.is_empty() || self.expected.len() > 1
    }

    /// Has a name stand for what it stands for now.
    pub(super) fn expect(&mut self, session: &Session, full_name: &str) {
        let cluster = session.kernel.cluster();
        let known = cluster.table_named(full_name).map(|table| (table.id, table.version));
        self.expected.insert(full_name.to_owned(), known);
    }

    /// Raises the version of a table.
    pub(super) fn raise(&mut self, session: &Session, table: &Table) {
        self.expect(session, &table.name);
        self.described.entry(table.id).or_insert_with(|| SchemaChange::Describe {
            table: table.id,
            version: table.version,
            renamed: Vec::new(),
            description: table.description.clone(),
        });
    }

    /// Gives a table this definition, which has the same columns; `moved` when a change before this
    /// one has raised its version.
    pub(super) fn describe(&mut self, session: &Session, now: &TableDefinition, moved: bool) {
        self.expect(session, &now.table.name);
        let change = SchemaChange::Describe {
            table: now.table.id,
            version: now.table.version + u32::from(moved),
            renamed: Vec::new(),
            description: kernel_form::description(&now.name, now.parts()),
        };
        self.described.insert(now.table.id, change);
    }

    /// Leaves out a table that goes by the same command; its name stands for it still.
    pub(super) fn leave_out(&mut self, session: &Session, id: TableId) {
        self.described.remove(&id);
        if let Some(table) = session.kernel.cluster().tables.get(&id) {
            self.expect(session, &table.name);
        }
    }

    /// The change of a table, with those of the others.
    pub(super) fn with(self, change: SchemaChange) -> SchemaChange {
        if self.is_empty() { change } else { self.with_all([change].into_iter()) }
    }

    /// The changes of several tables, with those of the others.
    pub(super) fn with_all(self, changes: impl Iterator<Item = SchemaChange>) -> SchemaChange {
        let mut changes: Vec<SchemaChange> = changes.collect();
        changes.extend(self.described.into_values());
        SchemaChange::Together { expected: self.expected.into_iter().collect(), changes }
    }
}

/// A table as it will be.
pub(super) struct Planned<'a> {
    pub(super) name: &'a TableName,
    /// Its identity now; none of a new table.
    pub(super) id: Option<TableId>,
    pub(super) parts: Parts<'a>,
    /// The columns that get another name: before and after.
    pub(super) renamed: Vec<(String, String)>,
    /// It will be another table for the kernel.
    pub(super) is_replaced: bool,
}

impl<'a> Planned<'a> {
    /// A table that is not there yet.
    pub(super) fn new(name: &'a TableName, parts: Parts<'a>) -> Self {
        Self { name, id: None, parts, renamed: Vec::new(), is_replaced: false }
    }
}

/// Checks the foreign keys of a table as it will be, and those that refer to it. What has to be
/// changed with it.
pub(super) fn link(session: &Session, table: &Planned<'_>) -> Result<Linked, SqlError> {
    let mut linked = Linked::default();
    if table.is_replaced {
        linked.expect(session, &table.name.full());
    }
    link_parents(session, table, &mut linked)?;
    link_children(session, table, &mut linked)?;
    Ok(linked)
}

/// As [`link`], for the table that is to take the other's place: from now on its rows refer to
/// their parents, by foreign keys that the other has not.
pub(super) fn link_copy(session: &Session, table: &Planned<'_>) -> Result<Linked, SqlError> {
    let mut linked = Linked::default();
    link_parents(session, table, &mut linked)?;
    Ok(linked)
}

/// Whether a foreign key is one that the table does not have yet.
fn is_new(session: &Session, table: &Planned<'_>, key: &ForeignKeyDefinition) -> bool {
    let cluster = session.kernel.cluster();
    let before = table.id.and_then(|id| cluster.tables.get(&id));
    let before = before.and_then(|before| session.shared.definitions.of(before).ok());
    before.is_none_or(|before| !before.foreign_keys.iter().any(|k| same_name(&k.name, &key.name)))
}

fn link_parents(
    session: &Session,
    table: &Planned<'_>,
    linked: &mut Linked,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    for key in table.parts.foreign_keys {
        let is_new = is_new(session, table, key);
        if is_new {
            check_name_free(session, table, key)?;
        }
        if key.parent == *table.name {
            check_pair(key, table.parts.columns, &table.parts, &key.parent.name)?;
            continue;
        }
        let Some(parent) = cluster.table_named(&key.parent.full()) else {
            if is_new {
                if session.variables.foreign_key_checks {
                    return Err(error::no_parent_table(&key.parent.name));
                }
                linked.expect(session, &key.parent.full());
            }
            continue;
        };
        let definition = session.shared.definitions.of(parent)?;
        check_pair(key, table.parts.columns, &definition.parts(), &definition.name)?;
        if is_new || table.is_replaced {
            linked.raise(session, parent);
        }
    }
    Ok(())
}

fn link_children(
    session: &Session,
    table: &Planned<'_>,
    linked: &mut Linked,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    let mut changed: BTreeMap<TableId, TableDefinition> = BTreeMap::new();
    for referrer in session.shared.definitions.referrers(&cluster, &table.name.full())? {
        let child = &referrer.child;
        // The copy that is to take its place refers to it too, when it refers to itself.
        let is_copy = table.id.is_some_and(|id| child.name == names::copy_name(id));
        if Some(child.table.id) == table.id || is_copy {
            continue;
        }
        let mut key = referrer.key().clone();
        let mut follows = false;
        for column in &mut key.parent_columns {
            if let Some((_, to)) = table.renamed.iter().find(|(from, _)| same_name(from, column)) {
                to.clone_into(column);
                follows = true;
            }
        }
        let gone = |name: &&String| column_named(table.parts.columns, name).is_none();
        if let Some(gone) = key.parent_columns.iter().find(gone).filter(|_| table.id.is_some()) {
            return Err(error::column_of_parent(gone, &key.name, &child.name));
        }
        match check_pair(&key, &child.columns, &table.parts, &table.name.name) {
            Err(error) if error.code() == 6125 && table.id.is_some() => {
                return Err(error::index_of_foreign_key(&key_before(
                    session,
                    table,
                    referrer.key(),
                )));
            }
            checked => checked?,
        }
        if follows {
            let now =
                changed.entry(child.table.id).or_insert_with(|| TableDefinition::clone(child));
            now.foreign_keys[referrer.at] = key;
        } else if table.is_replaced || table.id.is_none() {
            linked.raise(session, &child.table);
        }
    }
    for now in changed.values() {
        linked.describe(session, now, false);
    }
    Ok(())
}

/// The name of the key that a foreign key has referred to so far.
fn key_before(session: &Session, table: &Planned<'_>, key: &ForeignKeyDefinition) -> String {
    let cluster = session.kernel.cluster();
    let before = table.id.and_then(|id| cluster.tables.get(&id));
    let before = before.and_then(|before| session.shared.definitions.of(before).ok());
    let referred = before.as_ref().and_then(|before: &Rc<TableDefinition>| {
        referred_key(&before.keys, &before.columns, &key.parent_columns)
    });
    referred.map_or_else(String::new, |key| key.name.clone())
}

/// Whether a foreign key's columns fit the key that they refer to.
fn check_pair(
    key: &ForeignKeyDefinition,
    columns: &[ColumnDefinition],
    of_parent: &Parts<'_>,
    parent: &str,
) -> Result<(), SqlError> {
    for (at, name) in key.columns.iter().zip(&key.parent_columns) {
        let found = column_named(of_parent.columns, name);
        let (_, referred) =
            found.ok_or_else(|| error::no_parent_column(name, &key.name, parent))?;
        if referred.generated.as_ref().is_some_and(|generated| !generated.stored) {
            return Err(error::foreign_key_virtual(&key.name, &referred.name));
        }
        if !is_compatible(&columns[*at], referred) {
            let (child, parent) = (&columns[*at].name, &referred.name);
            return Err(error::incompatible_columns(child, parent, &key.name));
        }
    }
    match referred_key(of_parent.keys, of_parent.columns, &key.parent_columns) {
        Some(_) => Ok(()),
        None => Err(error::no_parent_key(&key.name, parent)),
    }
}

/// Names of foreign keys are unique in a database.
fn check_name_free(
    session: &Session,
    table: &Planned<'_>,
    key: &ForeignKeyDefinition,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    for (_, other) in names::tables_of(&cluster, &table.name.database) {
        if Some(other.id) == table.id || is_view(other) {
            continue;
        }
        let other = session.shared.definitions.of(other)?;
        if other.foreign_keys.iter().any(|other| same_name(&other.name, &key.name)) {
            return Err(error::duplicate_foreign_key(&key.name));
        }
    }
    Ok(())
}

/// Refuses to drop tables that others refer to, `foreign_key_checks` permitting; what they have to
/// be still when they are dropped.
pub(super) fn check_drop(session: &Session, tables: &[TableId]) -> Result<Linked, SqlError> {
    let cluster = session.kernel.cluster();
    let mut linked = Linked::default();
    for table in tables.iter().filter_map(|id| cluster.tables.get(id)) {
        linked.expect(session, &table.name);
        if !session.variables.foreign_key_checks {
            continue;
        }
        for referrer in session.shared.definitions.referrers(&cluster, &table.name)? {
            let child = &referrer.child;
            if !tables.contains(&child.table.id) {
                let (key, name) = (&referrer.key().name, &referrer.key().parent.name);
                return Err(error::drop_of_parent(name, key, &child.name));
            }
        }
    }
    Ok(linked)
}

/// Refuses to truncate a table that others refer to, `foreign_key_checks` permitting.
pub(super) fn check_truncate(
    session: &Session,
    definition: &TableDefinition,
) -> Result<Linked, SqlError> {
    let cluster = session.kernel.cluster();
    let full = &definition.table.name;
    let referrers = session.shared.definitions.referrers(&cluster, full)?;
    let other = referrers.iter().find(|other| other.child.table.id != definition.table.id);
    if let Some(other) = other.filter(|_| session.variables.foreign_key_checks) {
        use crate::catalog::text::quoted;
        let (database, name) = (quoted(&other.child.database), quoted(&other.child.name));
        let constraint = format!("{database}.{name}, CONSTRAINT {}", quoted(&other.key().name));
        return Err(error::truncate_of_parent(&constraint));
    }
    let name = TableName { database: definition.database.clone(), name: definition.name.clone() };
    let table = Planned {
        name: &name,
        id: Some(definition.table.id),
        parts: definition.parts(),
        renamed: Vec::new(),
        is_replaced: true,
    };
    link(session, &table)
}

/// What follows the new names of tables: names that were made from the old ones, and the foreign
/// keys that refer to them.
pub(super) fn link_renamed(
    session: &Session,
    names: &[(TableId, String)],
) -> Result<Linked, SqlError> {
    let cluster = session.kernel.cluster();
    let definitions = &session.shared.definitions;
    let mut after: BTreeMap<TableId, TableDefinition> = BTreeMap::new();
    // The last name of a table counts.
    for (id, full) in names {
        // Nothing refers to a view.
        let table = cluster.tables.get(id).filter(|table| !is_view(table));
        let Some(table) = table else { continue };
        let before = definitions.of(table)?;
        after.insert(*id, renamed(&before, full));
    }
    let mut linked = Linked::default();
    let moved: BTreeMap<String, TableName> = after
        .values()
        .map(|now| {
            let name = TableName { database: now.database.clone(), name: now.name.clone() };
            (now.table.name.clone(), name)
        })
        .collect();
    let moved_ids: Vec<TableId> = after.keys().copied().collect();
    for (old_name, name) in &moved {
        for referrer in definitions.referrers(&cluster, old_name)? {
            let child = after
                .entry(referrer.child.table.id)
                .or_insert_with(|| TableDefinition::clone(&referrer.child));
            let key = &referrer.key().name;
            let ordinal = generated_ordinal(key, &referrer.child.name);
            let key = ordinal.map_or_else(|| key.clone(), |o| generated_name(&child.name, o));
            let keys = &mut child.foreign_keys;
            if let Some(key) = keys.iter_mut().find(|other| same_name(&other.name, &key)) {
                key.parent = name.clone();
            }
        }
    }
    for (id, now) in &after {
        // A foreign key that is added meanwhile would keep the old name.
        linked.expect(session, &now.table.name);
        let before = definitions.of(&now.table)?;
        if now.foreign_keys != before.foreign_keys || now.checks != before.checks {
            linked.describe(session, now, moved_ids.contains(id));
        }
    }
    adopt(session, &after, &moved, &mut linked)?;
    Ok(linked)
}

/// Foreign keys that refer to a name which no table had so far, and one gets now.
fn adopt(
    session: &Session,
    after: &BTreeMap<TableId, TableDefinition>,
    moved: &BTreeMap<String, TableName>,
    linked: &mut Linked,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    for now in moved.values().filter(|now| !moved.contains_key(&now.full())) {
        let table =
            after.values().find(|table| table.database == now.database && table.name == now.name);
        let Some(table) = table else { continue };
        for referrer in session.shared.definitions.referrers(&cluster, &now.full())? {
            let columns = &referrer.child.columns;
            check_pair(referrer.key(), columns, &table.parts(), &now.name)?;
            if !after.contains_key(&referrer.child.table.id) {
                linked.raise(session, &referrer.child.table);
            }
        }
    }
    Ok(())
}

/// A table under another name: names of checks and foreign keys that were made from the old one
/// follow.
fn renamed(before: &TableDefinition, full: &str) -> TableDefinition {
    let (database, name) = full.split_once('.').unwrap_or(("", full));
    let mut after =
        TableDefinition { database: database.to_owned(), name: name.to_owned(), ..before.clone() };
    for check in &mut after.checks {
        if let Some(ordinal) = draft::generated_ordinal(&check.name, &before.name) {
            check.name = draft::generated_check_name(name, ordinal);
        }
    }
    for key in &mut after.foreign_keys {
        if let Some(ordinal) = generated_ordinal(&key.name, &before.name) {
            key.name = generated_name(name, ordinal);
        }
    }
    after
}

#[cfg(test)]
mod tests;
