//! Alterations of the catalog: checks a definition against every limit, then publishes it.
//!
//! # Owns
//! The effect of each `SchemaChange`; the definitions of the hidden tables behind unique indexes,
//! large values and journals.
//! # Guarantees
//! A refused change leaves the state as it was. A published definition can be used without further
//! checks: names resolve, keys and rows fit their limits.
//! # Not here
//! Building indexes, dropping rows: `datanode` and the index builder follow the published state.

mod accounts;
mod journal;
mod large;
mod modify;
mod names;
mod streams;

use std::sync::Arc;

use model::schema::{BUCKET_COUNT, COLUMNS_MAX, INDEXES_MAX, KEY_SIZE_MAX, ROW_SIZE_MAX};
use model::{
    ClusterState, Column, ColumnId, ColumnType, Description, Epoch, ErrorCode, IndexId, IndexState,
    KeyEncoder, LargeForm, OrderedIndexDef, RowLayout, SchemaChange, SettingChange, Table, TableId,
    UniqueIndexDef,
};

use large::Place;

/// Longest name of a table, column or index, in bytes.
const NAME_SIZE_MAX: usize = 512;
/// Longest description of a table or a database, in bytes.
const DESCRIPTION_SIZE_MAX: usize = 4 << 20;
/// Most tables, hidden ones included.
const TABLES_MAX: usize = 400_000;
/// Most row layouts of a table: the row carries the number in one byte.
const LAYOUTS_MAX: usize = 255;
/// Names no table.
const NO_TABLE: TableId = TableId(0);

/// Carries out `change`; the answer is the table concerned.
pub(super) fn change(
    state: &mut ClusterState,
    change: &SchemaChange,
) -> Result<TableId, ErrorCode> {
    match change {
        SchemaChange::CreateTable { .. } => create_table(state, change, Place::Own),
        SchemaChange::AddColumns { table, columns, large, description } => {
            let (large, description) = (large.as_deref(), description.as_ref());
            add_columns(state, *table, columns, large, description, Place::Own)
        }
        SchemaChange::Describe { table, version, renamed, description } => {
            describe(state, *table, *version, renamed, description)
        }
        SchemaChange::ModifyColumns { .. } => modify::modify_columns(state, change),
        SchemaChange::BlockWrites { table, blocked } => block_writes(state, *table, *blocked),
        SchemaChange::KeepJournal { table, kept } => journal::keep(state, *table, *kept),
        SchemaChange::DropTable { table } => drop_table(state, *table),
        SchemaChange::RenameTables { names } => names::rename_tables(state, names),
        SchemaChange::ReplaceTable { old, new } => names::replace_table(state, *old, *new),
        SchemaChange::TruncateTable { table } => names::truncate_table(state, *table, Place::Own),
        SchemaChange::CreateDatabase { name, description } => {
            names::create_database(state, name, description)
        }
        SchemaChange::AlterDatabase { name, description } => {
            names::alter_database(state, name, description)
        }
        SchemaChange::DropDatabase { name } => names::drop_database(state, name),
        SchemaChange::ChangeAccounts { seen, changes } => accounts::change(state, *seen, changes),
        SchemaChange::KeepStream { name, tables } => streams::keep(state, name, tables),
        SchemaChange::DropStream { name } => streams::end(state, name),
        SchemaChange::ChangeSettings { changes } => change_settings(state, changes),
        SchemaChange::CreateOrderedIndex { table, name, columns } => {
            create_ordered_index(state, *table, name, columns)
        }
        SchemaChange::CreateUniqueIndex { table, name, columns } => {
            create_unique_index(state, *table, name, columns)
        }
        SchemaChange::SetIndexOnline { table, index, complete } => {
            set_index_online(state, *table, *index, *complete)
        }
        SchemaChange::DropIndex { table, index } => drop_index(state, *table, *index),
        SchemaChange::ColocateParts { change } => colocating(state, change),
        SchemaChange::Together { expected, changes } => together(state, expected, changes),
    }
}

/// Gives variables of SQL nodes values, if there is room for them.
fn change_settings(
    state: &mut ClusterState,
    changes: &[(String, SettingChange)],
) -> Result<TableId, ErrorCode> {
    changes.iter().try_for_each(|(name, _)| check_name(name))?;
    let restarts = u32::try_from(state.restarts.len()).unwrap_or(u32::MAX);
    let changed = state.settings.changed(changes, restarts).ok_or(ErrorCode::BadDefinition)?;
    state.settings = Arc::new(changed);
    Ok(NO_TABLE)
}

/// Carries out a change; a table of parts that it makes is colocated with its base table.
fn colocating(state: &mut ClusterState, change: &SchemaChange) -> Result<TableId, ErrorCode> {
    match change {
        SchemaChange::CreateTable { .. } => create_table(state, change, Place::Colocated),
        SchemaChange::AddColumns { table, columns, large, description } => {
            let (large, description) = (large.as_deref(), description.as_ref());
            add_columns(state, *table, columns, large, description, Place::Colocated)
        }
        SchemaChange::TruncateTable { table } => {
            names::truncate_table(state, *table, Place::Colocated)
        }
        _ => Err(ErrorCode::BadDefinition),
    }
}

/// Carries out several changes on a copy, which takes the place of the state when all are done.
fn together(
    state: &mut ClusterState,
    expected: &[(String, Option<(TableId, u32)>)],
    changes: &[SchemaChange],
) -> Result<TableId, ErrorCode> {
    for (name, expected) in expected {
        let known = state.table_named(name).map(|table| (table.id, table.version));
        if known != *expected {
            return Err(ErrorCode::SchemaChanged);
        }
    }
    if changes.iter().any(|change| matches!(change, SchemaChange::Together { .. })) {
        return Err(ErrorCode::BadDefinition);
    }
    let mut changed = state.clone();
    let mut answer = None;
    for one in changes {
        let done = change(&mut changed, one)?;
        answer.get_or_insert(done);
    }
    let answer = answer.ok_or(ErrorCode::BadDefinition)?;
    *state = changed;
    Ok(answer)
}

fn create_table(
    state: &mut ClusterState,
    change: &SchemaChange,
    parts: Place,
) -> Result<TableId, ErrorCode> {
    let SchemaChange::CreateTable {
        name,
        columns,
        primary_key,
        distribution_key,
        partition_count,
        ordered_indexes,
        unique_indexes,
        large,
        description,
    } = change
    else {
        unreachable!("the caller has matched the kind of change");
    };
    names::check_new_table_name(state, name)?;
    check_columns(columns)?;
    let primary_key = check_key(columns, primary_key, false)?;
    let distribution_key = match distribution_key.as_slice() {
        [] => primary_key.clone(),
        part => check_key(columns, part, false)?,
    };
    if !distribution_key.iter().all(|c| primary_key.contains(c)) {
        return Err(ErrorCode::BadDefinition);
    }
    check_indexes(columns, ordered_indexes, unique_indexes)?;
    check_table_count(state, 1 + unique_indexes.len() + usize::from(large.is_some()))?;
    check_description(description)?;
    let partition_count = partition_count_of(state, *partition_count)?;
    let mut table = Table {
        // Taken when nothing can be refused any more.
        id: NO_TABLE,
        name: name.clone(),
        version: 1,
        hidden_behind: None,
        columns: columns.clone(),
        primary_key,
        distribution_key,
        partition_count,
        layouts: vec![Arc::new(RowLayout::new(0, columns))],
        ordered_indexes: Vec::new(),
        unique_indexes: Vec::new(),
        large: None,
        writes_blocked: false,
        journal: None,
        alike: None,
        description: description.clone(),
    };
    if let Some(form) = large {
        large::check(&table, form, 0)?;
    }
    table.id = TableId(take_id(state));
    for (name, key) in ordered_indexes {
        let id = IndexId(take_id(state));
        let columns = key.iter().map(|c| ColumnId(*c)).collect();
        let (name, online) = (name.clone(), IndexState::Online);
        table.ordered_indexes.push(OrderedIndexDef { id, name, columns, state: online });
    }
    for (name, key) in unique_indexes {
        push_unique_index(state, &mut table, name, key, IndexState::Online);
    }
    if let Some(form) = large {
        large::add(state, &mut table, form, parts);
    }
    state.table_names.insert(name.as_str().into(), table.id);
    Ok(publish(state, table))
}

fn add_columns(
    state: &mut ClusterState,
    id: TableId,
    added: &[Column],
    large: Option<&LargeForm>,
    description: Option<&Description>,
    parts: Place,
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    // Rows that exist read as the default, so there must be one they may have.
    let readable = added.iter().all(|c| c.nullable || c.default != model::Value::Null);
    if added.is_empty() || !readable || table.layouts.len() >= LAYOUTS_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    let before = table.columns.len();
    table.columns.extend_from_slice(added);
    check_columns(&table.columns)?;
    let layout = RowLayout::new(table.layouts.len() as u8, &table.columns);
    table.layouts.push(Arc::new(layout));
    if let Some(description) = description {
        check_description(description)?;
        table.description = description.clone();
    }
    if let Some(form) = large {
        check_table_count(state, 1)?;
        large::check(&table, form, before)?;
        large::add(state, &mut table, form, parts);
    }
    table.version += 1;
    Ok(publish(state, table))
}

fn describe(
    state: &mut ClusterState,
    id: TableId,
    version: u32,
    renamed: &[(ColumnId, String)],
    description: &Description,
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    if table.version != version {
        return Err(ErrorCode::SchemaChanged);
    }
    for (column, name) in renamed {
        let column = table.columns.get_mut(usize::from(column.0));
        column.ok_or(ErrorCode::BadDefinition)?.name.clone_from(name);
    }
    check_columns(&table.columns)?;
    check_description(description)?;
    table.description = description.clone();
    table.version += 1;
    Ok(publish(state, table))
}

fn block_writes(
    state: &mut ClusterState,
    id: TableId,
    blocked: bool,
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    if table.writes_blocked == blocked {
        // Two who copy the same table would replace each other's result.
        return if blocked { Err(ErrorCode::SchemaChanged) } else { Ok(id) };
    }
    table.writes_blocked = blocked;
    table.version += 1;
    Ok(publish(state, table))
}

fn drop_table(state: &mut ClusterState, id: TableId) -> Result<TableId, ErrorCode> {
    let table = base_table(state, id)?;
    state.table_names.remove(table.name.as_str());
    remove(state, &table);
    Ok(id)
}

/// Takes a table and the hidden ones behind it out of the catalog; its name is the caller's.
fn remove(state: &mut ClusterState, table: &Table) {
    for index in &table.unique_indexes {
        state.tables.remove(&index.table);
    }
    if let Some(large) = &table.large {
        state.tables.remove(&large.parts);
    }
    if let Some(journal) = table.journal {
        state.tables.remove(&journal);
    }
    state.tables.remove(&table.id);
}

fn create_ordered_index(
    state: &mut ClusterState,
    id: TableId,
    name: &str,
    key: &[u16],
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    let columns = check_new_index(&table, name, key)?;
    let id = IndexId(take_id(state));
    let (name, building) = (name.to_owned(), IndexState::Building);
    table.ordered_indexes.push(OrderedIndexDef { id, name, columns, state: building });
    table.next_version_alike();
    Ok(publish(state, table))
}

fn create_unique_index(
    state: &mut ClusterState,
    id: TableId,
    name: &str,
    key: &[u16],
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    check_new_index(&table, name, key)?;
    check_table_count(state, 1)?;
    push_unique_index(state, &mut table, name, key, IndexState::Building);
    // Whoever writes must know of the entries.
    table.version += 1;
    Ok(publish(state, table))
}

fn set_index_online(
    state: &mut ClusterState,
    id: TableId,
    index: IndexId,
    complete: Epoch,
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    let unique = table.unique_indexes.iter_mut().find(|x| x.id == index);
    let ordered = table.ordered_indexes.iter_mut().find(|x| x.id == index);
    let index_state = match (unique, ordered) {
        (Some(unique), _) if unique.state == IndexState::Building => {
            unique.complete = complete;
            &mut unique.state
        }
        (None, Some(ordered)) if ordered.state == IndexState::Building => &mut ordered.state,
        (None, None) => return Err(ErrorCode::UnknownIndex),
        (Some(_), _) | (None, Some(_)) => return Ok(id),
    };
    *index_state = IndexState::Online;
    table.next_version_alike();
    Ok(publish(state, table))
}

/// After a restart of the whole cluster that goes back to `epoch`: unique indexes that were
/// complete only later are built anew.
pub(super) fn rebuild_indexes(state: &mut ClusterState, epoch: Epoch) {
    let lacks = |index: &UniqueIndexDef| index.complete > epoch;
    let lacking = state.tables.values().filter(|table| table.unique_indexes.iter().any(lacks));
    for mut table in lacking.map(|table| (**table).clone()).collect::<Vec<_>>() {
        for index in table.unique_indexes.iter_mut().filter(|index| lacks(index)) {
            (index.state, index.complete) = (IndexState::Building, Epoch(0));
        }
        table.next_version_alike();
        publish(state, table);
    }
}

fn drop_index(state: &mut ClusterState, id: TableId, index: IndexId) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    let hidden = table.unique_index(index).map(|x| x.table);
    if hidden.is_none() && table.ordered_index(index).is_none() {
        return Err(ErrorCode::UnknownIndex);
    }
    table.ordered_indexes.retain(|x| x.id != index);
    table.unique_indexes.retain(|x| x.id != index);
    match hidden {
        Some(hidden) => {
            table.version += 1;
            state.tables.remove(&hidden);
        }
        None => table.next_version_alike(),
    }
    Ok(publish(state, table))
}

/// A copy of the definition to alter. Hidden tables are altered through their base table only.
fn base_table(state: &ClusterState, id: TableId) -> Result<Table, ErrorCode> {
    let table = state.tables.get(&id).filter(|t| t.hidden_behind.is_none());
    table.map(|t| t.as_ref().clone()).ok_or(ErrorCode::UnknownTable)
}

fn publish(state: &mut ClusterState, table: Table) -> TableId {
    let id = table.id;
    state.tables.insert(id, Arc::new(table));
    id
}

fn take_id(state: &mut ClusterState) -> u32 {
    assert!(state.next_id < TableId::LAST.0, "as many definitions as there can ever be");
    state.next_id += 1;
    state.next_id
}

/// Adds a unique index with its hidden table, whose primary key are the indexed columns.
fn push_unique_index(
    state: &mut ClusterState,
    table: &mut Table,
    name: &str,
    key: &[u16],
    index_state: IndexState,
) {
    let columns: Vec<ColumnId> = key.iter().map(|c| ColumnId(*c)).collect();
    let id = IndexId(take_id(state));
    let hidden = entries_table(TableId(take_id(state)), table, name, &columns);
    table.unique_indexes.push(UniqueIndexDef {
        id,
        name: name.to_owned(),
        columns,
        table: hidden.id,
        state: index_state,
        complete: Epoch(0),
    });
    publish(state, hidden);
}

/// The table of a unique index: the indexed columns, which are never NULL in an entry, then the
/// columns of the base table's primary key that are not among them.
fn entries_table(id: TableId, base: &Table, name: &str, indexed: &[ColumnId]) -> Table {
    let rest = base.primary_key.iter().filter(|c| !indexed.contains(c));
    let columns = indexed
        .iter()
        .chain(rest)
        .map(|c| Column { nullable: false, ..base.columns[usize::from(c.0)].clone() })
        .collect();
    let key = indexed.len() as u16;
    hidden_table(id, base, name, columns, [key, key])
}

/// A table that belongs to another and is spread like it. As many columns as `sizes` says, from the
/// first on, are its primary key and its distribution key.
fn hidden_table(
    id: TableId,
    base: &Table,
    name: &str,
    columns: Vec<Column>,
    sizes: [u16; 2],
) -> Table {
    let [primary_key, distribution_key] = sizes.map(|size| (0..size).map(ColumnId).collect());
    Table {
        id,
        name: format!("{}/{name}", base.name),
        version: 1,
        hidden_behind: Some(base.id),
        layouts: vec![Arc::new(RowLayout::new(0, &columns))],
        columns,
        primary_key,
        distribution_key,
        partition_count: base.partition_count,
        ordered_indexes: Vec::new(),
        unique_indexes: Vec::new(),
        large: None,
        writes_blocked: false,
        journal: None,
        alike: None,
        description: Arc::from([]),
    }
}

fn partition_count_of(state: &ClusterState, asked: u16) -> Result<u16, ErrorCode> {
    if asked > 0 {
        return if asked <= BUCKET_COUNT { Ok(asked) } else { Err(ErrorCode::BadDefinition) };
    }
    // One partition per slot and worker keeps every worker of every node busy.
    let workers = state.data_members().map(|(_, m)| usize::from(m.workers)).max().unwrap_or(1);
    let count = (state.newest_slots().len() * workers).clamp(1, usize::from(BUCKET_COUNT));
    Ok(count as u16)
}

fn check_description(description: &Description) -> Result<(), ErrorCode> {
    let fits = description.len() <= DESCRIPTION_SIZE_MAX;
    if fits { Ok(()) } else { Err(ErrorCode::BadDefinition) }
}

fn check_name(name: &str) -> Result<(), ErrorCode> {
    let fits = !name.is_empty() && name.len() <= NAME_SIZE_MAX;
    if fits { Ok(()) } else { Err(ErrorCode::BadDefinition) }
}

fn check_table_count(state: &ClusterState, added: usize) -> Result<(), ErrorCode> {
    let fits = state.tables.len() + added <= TABLES_MAX;
    if fits { Ok(()) } else { Err(ErrorCode::TableLimit) }
}

fn check_index_count(count: usize) -> Result<(), ErrorCode> {
    if count <= INDEXES_MAX { Ok(()) } else { Err(ErrorCode::BadDefinition) }
}

/// Checks the indexes that a table is made with.
fn check_indexes(
    columns: &[Column],
    ordered: &[(String, Vec<u16>)],
    unique: &[(String, Vec<u16>)],
) -> Result<(), ErrorCode> {
    check_index_count(ordered.len() + unique.len())?;
    let mut names: Vec<&str> = Vec::new();
    for (name, key) in ordered.iter().chain(unique) {
        check_name(name)?;
        check_key(columns, key, true)?;
        if names.contains(&name.as_str()) {
            return Err(ErrorCode::TableExists);
        }
        names.push(name);
    }
    Ok(())
}

fn check_new_index(table: &Table, name: &str, key: &[u16]) -> Result<Vec<ColumnId>, ErrorCode> {
    check_name(name)?;
    let ordered = table.ordered_indexes.iter().map(|x| x.name.as_str());
    if ordered.chain(table.unique_indexes.iter().map(|x| x.name.as_str())).any(|n| n == name) {
        return Err(ErrorCode::TableExists);
    }
    check_index_count(table.ordered_indexes.len() + table.unique_indexes.len() + 1)?;
    check_key(&table.columns, key, true)
}

/// Checks names, types, defaults, and that the part every row has fits a row.
fn check_columns(columns: &[Column]) -> Result<(), ErrorCode> {
    if columns.is_empty() || columns.len() > COLUMNS_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    let mut names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() != columns.len() {
        return Err(ErrorCode::BadDefinition);
    }
    let nullable = columns.iter().filter(|c| c.nullable).count();
    // Layout number and NULL bits, then what each column takes at least.
    let mut size = 1 + nullable.div_ceil(8);
    let mut variable = 0;
    for column in columns {
        check_name(&column.name)?;
        match column.column_type {
            ColumnType::Int(1 | 2 | 4 | 8) | ColumnType::UInt(1 | 2 | 4 | 8) => {}
            ColumnType::Int(_) | ColumnType::UInt(_) | ColumnType::Fixed(0) => {
                return Err(ErrorCode::BadDefinition);
            }
            ColumnType::Float | ColumnType::Fixed(_) => {}
            ColumnType::Variable(_) | ColumnType::Text { .. } => variable += 1,
        }
        size += column.column_type.size_in_fixed_part();
        // The key encoder knows which values a type takes; NULL stands for "no default".
        let default = column.default.as_ref();
        if KeyEncoder::new().push(column.column_type, true, default).is_none() {
            return Err(ErrorCode::BadDefinition);
        }
    }
    // A layout has the places of fixed columns in two bytes.
    let fits = size <= ROW_SIZE_MAX && size - 2 * variable <= usize::from(u16::MAX);
    if fits { Ok(()) } else { Err(ErrorCode::BadDefinition) }
}

/// Checks the columns of a key: known, each once, NULL only where allowed, not too long.
fn check_key(
    columns: &[Column],
    key: &[u16],
    nullable_allowed: bool,
) -> Result<Vec<ColumnId>, ErrorCode> {
    let mut size = 0;
    for (at, position) in key.iter().enumerate() {
        let column = columns.get(usize::from(*position)).ok_or(ErrorCode::BadDefinition)?;
        if key[..at].contains(position) || (column.nullable && !nullable_allowed) {
            return Err(ErrorCode::BadDefinition);
        }
        size += column.column_type.key_size_max() + usize::from(column.nullable);
    }
    if key.is_empty() || size > KEY_SIZE_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    Ok(key.iter().map(|c| ColumnId(*c)).collect())
}

#[cfg(test)]
mod tests;
