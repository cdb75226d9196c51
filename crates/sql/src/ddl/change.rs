//! Altering a table in place: what needs no other rows than those that are there.
//!
//! New columns are added to the kernel's table, columns get wider types or go (`modify`), indexes
//! are built while it is used, and all else is a new description. Each step is a command; the
//! description that names the result comes after what it names, and what it does not name any more
//! goes last.
//!
//! # Owns
//! Which alterations can be done so, and their steps.
//! # Guarantees
//! Who alters the same table at the same time is refused, and runs again.
//! # Not here
//! Alterations that need the rows to be copied (`rebuild`).

use std::collections::BTreeSet;

use client::ScanSpec;
use model::{Column, ColumnId, ErrorCode, IndexId, SchemaChange, Table, TableId, Value};
use sql_expression::SqlError;
use sqltype::{DateTime, Datum, SqlType, TypeKind, storage};
use wire::Projection;

use super::altered::Altered;
use super::step::{refused, request};
use super::{foreign_key, modify};
use crate::catalog::default::implicit_default;
use crate::catalog::default::in_zone;
use crate::catalog::kernel_form::{self, IndexForm};
use crate::catalog::large;
use crate::catalog::names::TableName;
use crate::catalog::text::Parts;
use crate::catalog::{
    ColumnDefault, ColumnDefinition, KeyDefinition, KeyKind, TableDefinition, same_name,
};
use crate::execute::row::shown;
use crate::kernel::Failure;
use crate::result::Outcome;
use crate::session::Session;

/// The steps of an alteration in place.
pub(super) struct Plan {
    /// Positions of new columns, in the new definition.
    added: Vec<usize>,
    renamed: Vec<(ColumnId, String)>,
    /// The kernel's columns that get another definition, or become holes.
    modified: Vec<(ColumnId, Column)>,
    /// Indexes the kernel is to get.
    built: Vec<KernelIndex>,
    /// Indexes that go when nothing names them any more.
    dropped: Vec<IndexId>,
    /// Indexes that have to go before one of their name can be built, and whether a key of the old
    /// definition uses any of them.
    cleared: Vec<IndexId>,
    clears_keys: bool,
}

impl Plan {
    /// Whether all rows are looked at.
    pub(super) fn builds_indexes(&self) -> bool {
        !self.built.is_empty()
    }

    /// Whether all nodes know the commands; as long as one is older, rows are copied instead.
    pub(super) fn is_known(&self, session: &Session) -> bool {
        let last = self.last(TableId(0), 0, model::Description::default());
        session.kernel.all_know(last.since())
    }

    /// The command that names the result.
    fn last(&self, table: TableId, version: u32, description: model::Description) -> SchemaChange {
        let (renamed, columns) = (self.renamed.clone(), self.modified.clone());
        if columns.is_empty() {
            SchemaChange::Describe { table, version, renamed, description }
        } else {
            SchemaChange::ModifyColumns { table, version, columns, renamed, description }
        }
    }
}

/// An index as the kernel names its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KernelIndex {
    name: String,
    columns: Vec<ColumnId>,
    unique: bool,
}

/// The steps; none if the rows have to be copied.
pub(super) fn plan(altered: &Altered) -> Option<Plan> {
    let Altered { old, new, origins, .. } = altered;
    if !same_primary_key(altered) {
        return None;
    }
    let mut modified = modify::holes(altered)?;
    let mut added = Vec::new();
    let mut renamed = Vec::new();
    for (at, (column, origin)) in new.columns.iter().zip(origins).enumerate() {
        let Some(origin) = origin else {
            let taken = old.table.columns.iter().any(|c| same_name(&c.name, &column.name));
            if taken || !can_be_added(column) {
                return None;
            }
            added.push(at);
            continue;
        };
        let before = &old.columns[*origin];
        if !is_stored_alike(before, column) {
            modified.push((before.column, modify::widened(altered, before, column)?));
        }
        if before.name != column.name {
            // One that is nobody's may have the name.
            let taken = old.table.columns.iter().any(|other| other.name == column.name);
            if column.hidden.is_some() && taken {
                return None;
            }
            renamed.push((before.column, column.name.clone()));
        }
    }
    let layouts = usize::from(!added.is_empty()) + usize::from(!modified.is_empty());
    if !modify::has_room(&old.table, &modified, added.len(), layouts) {
        return None;
    }
    let new_columns: Vec<&ColumnDefinition> = added.iter().map(|at| &new.columns[*at]).collect();
    let as_kernel = |column: &&ColumnDefinition| kernel_form::column(column, Value::Null);
    large::extend(&old.table, &new_columns, &mut new_columns.iter().map(as_kernel).collect())?;
    let (built, stay) = wanted_indexes(altered);
    // An index is built by what the column is before.
    let is_modified = |column: &ColumnId| modified.iter().any(|(id, _)| id == column);
    if built.iter().any(|index| index.columns.iter().any(is_modified)) {
        return None;
    }
    let own = |index: &IndexId| !stay.contains(index);
    let all = kernel_indexes(&old.table);
    let dropped: Vec<IndexId> = all.iter().map(|(id, _)| *id).filter(own).collect();
    let in_the_way = |index: &KernelIndex| built.iter().any(|new| new.name == index.name);
    let cleared: Vec<IndexId> =
        all.iter().filter(|(id, index)| own(id) && in_the_way(index)).map(|(id, _)| *id).collect();
    let used = |id: &IndexId| {
        old.keys.iter().any(|key| key.ordered == Some(*id) || key.unique == Some(*id))
    };
    let clears_keys = cleared.iter().any(used);
    let may_fail = built.iter().any(|index| index.unique);
    // A duplicate is found after columns were added or keys were dropped, which cannot be undone.
    if may_fail && (!added.is_empty() || clears_keys) {
        return None;
    }
    Some(Plan { added, renamed, modified, built, dropped, cleared, clears_keys })
}

/// Whether the key that identifies rows stays as it is.
pub(super) fn same_primary_key(altered: &Altered) -> bool {
    let Altered { old, new, origins, .. } = altered;
    let of_old = old.primary_key();
    let of_new = new.keys.first().filter(|key| key.kind == KeyKind::Primary);
    match (of_old, of_new) {
        (None, None) => true,
        (Some(before), Some(after)) => {
            let before: Vec<Option<usize>> =
                before.columns.iter().map(|part| Some(part.decides)).collect();
            let after: Vec<Option<usize>> =
                after.columns.iter().map(|part| origins[part.decides]).collect();
            before == after
        }
        _ => false,
    }
}

/// Whether rows that are there can read as having the column.
fn can_be_added(column: &ColumnDefinition) -> bool {
    if column.is_computed() || column.auto_increment {
        return false;
    }
    match &column.default {
        ColumnDefault::Expression(_) => false,
        ColumnDefault::None if !column.nullable => {
            // A zero date is refused or accepted by the SQL mode, row by row.
            !matches!(
                column.sql_type.kind,
                TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp
            )
        }
        _ => true,
    }
}

/// Whether values of a column are stored in the same way under both definitions, and all values
/// under the one are values under the other.
fn is_stored_alike(before: &ColumnDefinition, after: &ColumnDefinition) -> bool {
    before.nullable == after.nullable
        && is_computed_alike(before, after)
        && is_value_kept(before, after)
}

/// Whether values come to a column in the same way under both definitions.
pub(super) fn is_computed_alike(before: &ColumnDefinition, after: &ColumnDefinition) -> bool {
    let same_generated = match (&before.generated, &after.generated) {
        (None, None) => true,
        (Some(before), Some(after)) => before.expression == after.expression,
        _ => false,
    };
    same_generated && (before.auto_increment || !after.auto_increment)
}

/// Whether a stored value of a column is the same value of the other, NULL aside.
pub(super) fn is_value_kept(before: &ColumnDefinition, after: &ColumnDefinition) -> bool {
    let storage = |column: &ColumnDefinition| storage::storage_type(&column.sql_type);
    storage(before) == storage(after) && is_value_alike(&before.sql_type, &after.sql_type)
}

pub(super) fn is_value_alike(before: &SqlType, after: &SqlType) -> bool {
    let same_kind = std::mem::discriminant(&before.kind) == std::mem::discriminant(&after.kind);
    if !same_kind || before.collation != after.collation || before.unsigned != after.unsigned {
        return false;
    }
    match (&before.kind, &after.kind) {
        // Members may be added at the end: those that are there keep their numbers.
        (TypeKind::Enum(before), TypeKind::Enum(after))
        | (TypeKind::Set(before), TypeKind::Set(after)) => after.starts_with(before),
        (kind, _) if kind.is_integer() => true,
        (TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp, _) => {
            before.decimals == after.decimals
        }
        (TypeKind::Bit, _) => before.length <= after.length,
        (TypeKind::Float | TypeKind::Double | TypeKind::Decimal, _) => before == after,
        _ => before.length <= after.length,
    }
}

/// The kernel's indexes of a table.
fn kernel_indexes(table: &Table) -> Vec<(IndexId, KernelIndex)> {
    let ordered = table.ordered_indexes.iter().map(|index| {
        let (name, columns) = (index.name.clone(), index.columns.clone());
        (index.id, KernelIndex { name, columns, unique: false })
    });
    let unique = table.unique_indexes.iter().map(|index| {
        let (name, columns) = (index.name.clone(), index.columns.clone());
        (index.id, KernelIndex { name, columns, unique: true })
    });
    ordered.chain(unique).collect()
}

/// The indexes that the new keys need and the kernel has not, and those it has that stay.
fn wanted_indexes(altered: &Altered) -> (Vec<KernelIndex>, Vec<IndexId>) {
    let Altered { old, new, origins, .. } = altered;
    // New columns come behind those of the kernel, in their order.
    let mut ids = Vec::with_capacity(new.columns.len());
    let mut next = old.table.columns.len();
    for origin in origins {
        ids.push(match origin {
            Some(origin) => old.columns[*origin].column,
            None => {
                next += 1;
                ColumnId((next - 1) as u16)
            }
        });
    }
    let have = kernel_indexes(&old.table);
    let (mut built, mut stay) = (Vec::new(), Vec::new());
    let named = |name: &str| old.keys.iter().find(|key| same_name(&key.name, name));
    for key in &new.keys {
        for IndexForm { name, columns, unique } in kernel_form::indexes_of(key) {
            let columns = columns.iter().map(|at| ids[*at]).collect();
            let index = KernelIndex { name, columns, unique };
            // One that no key names may be half built.
            let known = named(&key.name).is_some_and(|before| is_complete(before, &index));
            match have.iter().find(|(_, other)| *other == index).filter(|_| known) {
                Some((id, _)) => stay.push(*id),
                None => built.push(index),
            }
        }
    }
    (built, stay)
}

/// Whether the kernel's index of this kind is in use for a key.
fn is_complete(key: &KeyDefinition, index: &KernelIndex) -> bool {
    if index.unique { key.unique.is_some() } else { key.ordered.is_some() }
}

/// Carries the steps out.
pub(super) async fn run(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
    plan: Plan,
) -> Result<Outcome, SqlError> {
    let Altered { old, new, .. } = altered;
    let id = old.table.id;
    let mut version = old.table.version;
    let final_description = kernel_form::description(&name.name, new.parts());
    let linked = foreign_key::link(session, &altered.planned(name, false))?;
    if !plan.cleared.is_empty() {
        if plan.clears_keys {
            let description = without_keys(name, old, &plan.cleared);
            describe(session, id, version, Vec::new(), description).await?;
            version += 1;
        }
        for index in &plan.cleared {
            request(session, SchemaChange::DropIndex { table: id, index: *index }).await?;
            version += 1;
        }
    }
    if !plan.added.is_empty() {
        check_version(session, id, version)?;
        let definitions: Vec<&ColumnDefinition> =
            plan.added.iter().map(|at| &new.columns[*at]).collect();
        let mut columns = definitions.iter().map(|column| added(session, column)).collect();
        let large = large::extend(&old.table, &definitions, &mut columns).flatten();
        let last = plan.built.is_empty()
            && plan.renamed.is_empty()
            && plan.modified.is_empty()
            && linked.is_empty();
        let description = if last {
            final_description.clone()
        } else {
            with_columns(name, old, new, &plan.added)
        };
        let description = Some(description);
        request(session, SchemaChange::AddColumns { table: id, columns, large, description })
            .await?;
        version += 1;
    }
    let built = build(session, name, old, &plan.built).await?;
    version += built.commands;
    let described = session.kernel.cluster().tables.get(&id).map(|t| t.description.clone());
    let differs = described.as_ref() != Some(&final_description);
    let names_differ = !plan.renamed.is_empty() || !plan.modified.is_empty();
    if differs || names_differ || !linked.is_empty() {
        let last = plan.last(id, version, final_description);
        if let Err(failure) = request(session, linked.with(last)).await {
            let error = SqlError::from(failure);
            undo_build(session, id, &built.names).await;
            return Err(error);
        }
    }
    for index in plan.dropped.iter().filter(|index| !plan.cleared.contains(index)) {
        match request(session, SchemaChange::DropIndex { table: id, index: *index }).await {
            Ok(_) => {}
            Err(failure) if refused(&failure, ErrorCode::UnknownIndex) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    if let Some(first) = altered.auto_increment {
        let sequences = session.shared.sequences.clone();
        let start = old.sequence_start();
        sequences.raise(&session.kernel, id, first.saturating_sub(1), start).await?;
    }
    let info = "Records: 0  Duplicates: 0  Warnings: 0".to_owned();
    Ok(Outcome::with_info(0, info))
}

/// Refuses when somebody else has altered the table meanwhile: the statement is run again.
fn check_version(session: &Session, id: TableId, version: u32) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    if cluster.tables.get(&id).is_some_and(|table| table.version == version) {
        Ok(())
    } else {
        Err(Failure::Refused(ErrorCode::SchemaChanged.into()).into())
    }
}

async fn describe(
    session: &Session,
    table: TableId,
    version: u32,
    renamed: Vec<(ColumnId, String)>,
    description: model::Description,
) -> Result<(), SqlError> {
    request(session, SchemaChange::Describe { table, version, renamed, description }).await?;
    Ok(())
}

/// The old definition without the keys that use these indexes.
fn without_keys(
    name: &TableName,
    old: &TableDefinition,
    cleared: &[IndexId],
) -> model::Description {
    let used = |id: Option<IndexId>| id.is_some_and(|id| cleared.contains(&id));
    let keys: Vec<KeyDefinition> =
        old.keys.iter().filter(|key| !used(key.ordered) && !used(key.unique)).cloned().collect();
    kernel_form::description(&name.name, Parts { keys: &keys, ..old.parts() })
}

/// The old definition with the new columns, at the end.
fn with_columns(
    name: &TableName,
    old: &TableDefinition,
    new: &crate::catalog::Complete,
    added: &[usize],
) -> model::Description {
    let mut columns = old.visible_columns().to_vec();
    columns.extend(added.iter().map(|at| new.columns[*at].clone()));
    columns.extend_from_slice(&old.columns[old.visible_columns().len()..]);
    kernel_form::description(&name.name, Parts { columns: &columns, ..old.parts() })
}

/// A new column of the kernel: rows that are there read as having its default.
fn added(session: &Session, column: &ColumnDefinition) -> Column {
    let older = match &column.default {
        ColumnDefault::Now(digits) => {
            let context = session.plain_context();
            let utc = DateTime::from_unix_micros(context.now).truncate(*digits);
            let now = match column.sql_type.kind {
                TypeKind::Timestamp => utc,
                _ => context.facts.time_zone.local(context.now).truncate(*digits),
            };
            storage::to_value(&Datum::DateTime(now), &column.sql_type)
        }
        ColumnDefault::None if !column.nullable => {
            storage::to_value(&implicit_default(&column.sql_type), &column.sql_type)
        }
        _ => kernel_form::stored_default(column),
    };
    assert!(column.nullable || older != Value::Null, "rows read as {older} in {}", column.name);
    kernel_form::column(column, older)
}

/// What building has done.
struct Built {
    names: Vec<String>,
    /// By how much the table's version has grown.
    commands: u32,
}

/// Builds indexes one after the other; when one cannot be built, those before go again.
async fn build(
    session: &Session,
    name: &TableName,
    old: &TableDefinition,
    indexes: &[KernelIndex],
) -> Result<Built, SqlError> {
    let table = old.table.id;
    let mut built = Built { names: Vec::new(), commands: 0 };
    for index in indexes {
        let columns = index.columns.iter().map(|column| column.0).collect();
        let name_of_index = index.name.clone();
        let made = if index.unique {
            SchemaChange::CreateUniqueIndex { table, name: name_of_index, columns }
        } else {
            SchemaChange::CreateOrderedIndex { table, name: name_of_index, columns }
        };
        if let Err(failure) = request(session, made).await {
            undo_build(session, table, &built.names).await;
            return Err(if refused(&failure, ErrorCode::UniqueViolation) {
                duplicate(session, name, old, index).await
            } else {
                failure.into()
            });
        }
        built.names.push(index.name.clone());
        // An index is made first, and online when it is filled.
        built.commands += 2;
    }
    Ok(built)
}

/// Drops indexes that were built for nothing.
async fn undo_build(session: &Session, table: TableId, names: &[String]) {
    let cluster = session.kernel.cluster();
    let Some(current) = cluster.tables.get(&table) else { return };
    for (index, form) in kernel_indexes(current) {
        if names.contains(&form.name) {
            // What stays is named by no description, and is replaced by the next of its name.
            let _ = request(session, SchemaChange::DropIndex { table, index }).await;
        }
    }
}

/// Error 1062 for a key that cannot be built, with the values of the first rows that are alike. The
/// kernel does not say which they are: they are looked for, among so many rows as are worth it.
async fn duplicate(
    session: &Session,
    name: &TableName,
    old: &TableDefinition,
    index: &KernelIndex,
) -> SqlError {
    let found = duplicate_entry(session, old, index).await;
    // They may be gone by now.
    let entry = found.ok().flatten().unwrap_or_else(|| "?".to_owned());
    let message = format!("Duplicate entry '{entry}' for key '{}.{}'", name.name, index.name);
    SqlError::new(1062, "23000", message)
}

/// Most rows that are looked at for the text of an error.
const SEARCHED_MAX: usize = 1 << 20;

async fn duplicate_entry(
    session: &Session,
    old: &TableDefinition,
    index: &KernelIndex,
) -> Result<Option<String>, Failure> {
    let table = &old.table;
    let projection = Projection::Columns(index.columns.clone());
    let spec = ScanSpec { projection, ..ScanSpec::heap(table.id) };
    let mut scan = session.kernel.scan(spec);
    let mut seen = BTreeSet::new();
    while let Some(rows) = scan.next().await? {
        for values in rows.into_iter().filter(|values| !values.contains(&Value::Null)) {
            let Some(key) = table.key_of_values(&index.columns, &values) else { continue };
            if !seen.insert(key) {
                return Ok(Some(entry(session, old, index, values)));
            }
        }
        if seen.len() > SEARCHED_MAX {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The values of a key as error 1062 shows them.
fn entry(
    session: &Session,
    old: &TableDefinition,
    index: &KernelIndex,
    values: Vec<Value>,
) -> String {
    let texts = index.columns.iter().zip(values).map(|(id, value)| {
        let column = old.columns.iter().find(|column| column.column == *id);
        let Some(column) = column else { return value.to_string() };
        let datum = storage::from_owned(value, &column.sql_type);
        let zone = &session.variables.time_zone;
        shown(&in_zone(&datum, &column.sql_type, zone), &column.sql_type)
    });
    texts.collect::<Vec<String>>().join("-")
}
