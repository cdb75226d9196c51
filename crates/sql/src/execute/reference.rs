//! Foreign keys at work: rows that refer to others, and rows that are referred to.
//!
//! A row that refers locks its parent in shared mode until its transaction ends ([`batch`]). A
//! parent is locked exclusively before its key goes, and then its children are looked for, those
//! that other transactions have not committed among them ([`children`]). Why no child is left
//! without a parent, whichever of the two comes first:
//!
//! - The child first: its row is staged and its parent's lock is held when it reaches the commit
//!   point. The parent's transaction gets the lock after that, and scans after that. The scan waits
//!   for rows that are staged, so it sees the child, committed or undone.
//! - The parent first: its lock is part of a change, so it is held until the change is shown. The
//!   child's transaction gets the lock after that, and finds no parent, or one with another key.
//!
//! A parent that is found by a unique key is locked by its primary key all the same, and has its
//! key compared again under the lock. A statement that was planned before a foreign key was made
//! names versions of tables that are not the newest any more, and is refused.
//!
//! # Owns
//! [`Links`], what a statement has to know of foreign keys to change rows of a table.
//! # Not here
//! What can be declared (`catalog::foreign_key`).

pub(crate) mod batch;
pub(crate) mod children;

use std::rc::Rc;

use collation::CollationId;
use model::{ClusterState, IndexId, Value};
use sql_expression::SqlError;
use sqltype::{SqlType, TypeKind, storage};

use crate::catalog::foreign_key::ParentKey;
use crate::catalog::names::{self, ALTER_PREFIX};
use crate::catalog::referrers::Referrer;
use crate::catalog::{ForeignKeyDefinition, Rule};
use crate::catalog::{TableDefinition, text};
use crate::logical::binder::QueryBinder;
use crate::session::Session;
use crate::session::planning::PlanningView;

/// The foreign keys of a table, and those that refer to it. There are none with
/// `foreign_key_checks` off.
#[derive(Debug, Default)]
pub(crate) struct Links {
    parents: Vec<Parent>,
    children: Vec<Child>,
}

/// A foreign key of the table.
#[derive(Debug)]
struct Parent {
    /// Which one.
    at: usize,
    /// The table referred to and how its rows are found; none when it is not there.
    found: Option<(Rc<TableDefinition>, ParentKey)>,
}

/// A foreign key that refers to the table.
#[derive(Debug)]
struct Child {
    referrer: Referrer,
    /// The ordered index by which the rows that refer are found.
    index: IndexId,
    /// Places in the kernel's row of the columns that are referred to.
    columns: Vec<usize>,
    /// It is being filled by an ALTER TABLE, and nobody may change it.
    is_copy: bool,
}

impl Links {
    /// The links of a table as the session knows it, with the tables that they depend on.
    pub(crate) fn of(session: &Session, definition: &TableDefinition) -> Result<Self, SqlError> {
        Self::in_planning(session.into(), definition)
    }

    fn in_planning(
        session: PlanningView<'_>,
        definition: &TableDefinition,
    ) -> Result<Self, SqlError> {
        let mut links = Self::default();
        if !session.checks_foreign_keys() {
            return Ok(links);
        }
        let cluster = session.cluster();
        let definitions = session.definitions();
        for (at, key) in definition.foreign_keys.iter().enumerate() {
            let parent = match cluster.table_named(&key.parent.full()) {
                Some(table) => Some(definitions.of(table)?),
                None => None,
            };
            let found = parent.and_then(|parent| {
                let by = parent.parent_key(&key.parent_columns)?;
                Some((parent, by))
            });
            links.parents.push(Parent { at, found });
        }
        for referrer in definitions.referrers(&cluster, &definition.table.name)? {
            let key = referrer.key();
            let index = referrer.child.referring_index(key);
            let missing = || SqlError::internal(format!("no key supports '{}'", key.name));
            let place = |name: &String| {
                let column = definition.column(name).map(|(_, column)| column.column);
                column.map(|column| usize::from(column.0))
            };
            let columns: Option<Vec<usize>> = key.parent_columns.iter().map(place).collect();
            // A foreign key that does not fit what has got its parent's name holds nothing.
            let Some(columns) = columns else { continue };
            let is_copy = referrer.child.name.starts_with(ALTER_PREFIX);
            if is_copy && !is_being_filled(&cluster, &referrer.child) {
                continue;
            }
            let index = index.ok_or_else(missing)?;
            links.children.push(Child { referrer, index, columns, is_copy });
        }
        Ok(links)
    }

    /// As [`Links::of`], for a plan: it depends on the tables on the other ends.
    pub(crate) fn planned(
        binding: &mut QueryBinder<'_>,
        definition: &TableDefinition,
    ) -> Result<Rc<Self>, SqlError> {
        let links = Self::in_planning(binding.session, definition)?;
        let parents = links.parents.iter().filter_map(|parent| parent.found.as_ref());
        let parents = parents.map(|(table, _)| &table.table);
        let children = links.children.iter().map(|child| &child.referrer.child.table);
        for table in parents.chain(children) {
            if !binding.tables.iter().any(|(known, _)| *known == table.id) {
                binding.tables.push((table.id, table.version));
            }
        }
        // Nobody tells this table's versions that its parent has come.
        binding.once |= links.parents.iter().any(|parent| parent.found.is_none());
        Ok(Rc::new(links))
    }

    /// Whether rows are written as if there were no foreign keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.children.is_empty()
    }

    /// Whether the table refers to others.
    pub(crate) fn has_parents(&self) -> bool {
        !self.parents.is_empty()
    }

    /// Whether others refer to the table.
    pub(crate) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Whether the table refers to itself: then rows are changed one after the other.
    pub(crate) fn has_own(&self, definition: &TableDefinition) -> bool {
        self.children.iter().any(|child| child.referrer.child.table.id == definition.table.id)
    }

    /// Whether a change of this column has to be looked at: it refers, or is referred to.
    pub(crate) fn concern(&self, definition: &TableDefinition, at: usize) -> bool {
        let column = usize::from(definition.columns[at].column.0);
        self.parents.iter().any(|p| definition.foreign_keys[p.at].columns.contains(&at))
            || self.children.iter().any(|child| child.columns.contains(&column))
    }

    /// Whether some child refers to a key that is another in the new row.
    pub(crate) fn key_changes(&self, old: &[Value], new: &[Value]) -> bool {
        self.children.iter().any(|child| child.columns.iter().any(|at| old[*at] != new[*at]))
    }
}

impl Child {
    fn key(&self) -> &ForeignKeyDefinition {
        self.referrer.key()
    }

    /// What a row is referred to by; none when that has a NULL, which nothing refers to.
    fn referred(&self, row: &[Value]) -> Option<Vec<Value>> {
        let values: Vec<Value> = self.columns.iter().map(|at| row[*at].clone()).collect();
        (!values.contains(&Value::Null)).then_some(values)
    }
}

/// Whether a table may still take the place of the one it is a copy of: nobody writes that one
/// then. What a process has left behind that died refers to nothing.
fn is_being_filled(cluster: &ClusterState, copy: &TableDefinition) -> bool {
    names::copied_by(cluster, &copy.name).is_some_and(|of| of.writes_blocked)
}

/// The values of a foreign key in a row as the kernel has it; none when one is NULL.
fn referring(
    definition: &TableDefinition,
    key: &ForeignKeyDefinition,
    row: &[Value],
) -> Option<Vec<Value>> {
    let place = |at: &usize| usize::from(definition.columns[*at].column.0);
    let values: Vec<Value> = key.columns.iter().map(|at| row[place(at)].clone()).collect();
    (!values.contains(&Value::Null)).then_some(values)
}

/// A key's values as those of columns of the other table; none when no value there can be equal.
fn translated<'a>(
    values: Vec<Value>,
    into: impl Iterator<Item = &'a SqlType>,
) -> Option<Vec<Value>> {
    values.into_iter().zip(into).map(|(value, sql_type)| fitted(value, sql_type)).collect()
}

/// A text may be longer than any of the other column: with spaces that do not count, if at all.
fn fitted(value: Value, sql_type: &SqlType) -> Option<Value> {
    let Value::Bytes(bytes) = &value else { return Some(value) };
    let most = match storage::storage_type(sql_type).variable_max() {
        Some(most) if bytes.len() > usize::from(most) => usize::from(most),
        _ => return Some(value),
    };
    let is_text = matches!(sql_type.kind, TypeKind::Char | TypeKind::VarChar)
        && sql_type.collation != CollationId::BINARY;
    let trimmed = bytes.trim_ascii_end();
    let only_spaces = bytes[trimmed.len()..].iter().all(|byte| *byte == b' ');
    let fits = is_text && sql_type.collation.pads() && only_spaces && trimmed.len() <= most;
    fits.then(|| Value::Bytes(trimmed.into()))
}

/// Error 1452.
pub(crate) fn no_parent(definition: &TableDefinition, key: &ForeignKeyDefinition) -> SqlError {
    SqlError::of::<1452>(&[&text::failed_foreign_key(definition, key)])
}

/// Error 1451.
fn is_referenced(child: &TableDefinition, key: &ForeignKeyDefinition) -> SqlError {
    SqlError::of::<1451>(&[&text::failed_foreign_key(child, key)])
}

/// Whether IGNORE leaves a row out for this error.
pub(crate) fn leaves_out(error: &SqlError) -> bool {
    matches!(error.code(), 1451 | 1452)
}

/// Whether a rule changes nothing.
fn refuses(rule: Rule) -> bool {
    matches!(rule, Rule::NoAction | Rule::Restrict)
}
