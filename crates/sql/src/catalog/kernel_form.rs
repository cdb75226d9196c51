//! Definitions and the kernel's tables: which columns and indexes stand behind which columns and
//! keys.
//!
//! | SQL | kernel |
//! |---|---|
//! | column | column of the same name |
//! | PRIMARY KEY | primary key, and unless `USING HASH` an ordered index `PRIMARY` |
//! | no PRIMARY KEY | a column that nobody sees, filled from a sequence |
//! | UNIQUE KEY `u` | unique index `u`, and unless `USING HASH` an ordered index `u#o` |
//! | KEY `k` | ordered index `k` |
//! | TEXT, BLOB, JSON | columns whose values may lie outside of their rows, see `large` |
//!
//! # Owns
//! The request that makes a table, and the way back from a kernel table and its description.
//! # Guarantees
//! Names tell what belongs together, so the description need not know the kernel's numbers. What
//! the kernel has beyond the description is left over from an interrupted change: it is not used.
//! # Not here
//! The text itself (`text`), its checks (`draft`).

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnType, Description, IndexId, IndexState, SchemaChange, Table, Value,
};
use sql_expression::{SqlError, same_name};
use sql_parser::ast::{self, Statement};
use sqltype::storage::{storage_type, to_value};

use crate::catalog::names::shown_name;

use super::Complete;
use super::draft::Draft;
use super::key::PRIMARY;
use super::large;
use super::rules::Rules;
use super::text::{self, Parts, Style};
use super::{
    ColumnDefault, ColumnDefinition, KeyDefinition, KeyKind, KeyMethod, KeyPart, TableDefinition,
    hidden,
};

/// The column that is the key of tables without PRIMARY KEY. It ends with a space, which no name of
/// a user's column does.
pub(crate) const HIDDEN_KEY: &str = "#key ";
/// What the name of the ordered index of a unique key has more than that of the key.
const ORDERED_SUFFIX: &str = "#o";

/// A kernel's index to be made or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexForm {
    pub(crate) name: String,
    /// Positions of SQL columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
}

/// The indexes the kernel keeps for a key.
pub(crate) fn indexes_of(key: &KeyDefinition) -> Vec<IndexForm> {
    let form = |name: String, unique| {
        let of = |part: &KeyPart| if unique { part.decides } else { part.column };
        IndexForm { name, columns: key.columns.iter().map(of).collect(), unique }
    };
    let ordered = key.method != Some(KeyMethod::Hash);
    match key.kind {
        KeyKind::Primary if ordered => vec![form(PRIMARY.to_owned(), false)],
        KeyKind::Primary => vec![],
        KeyKind::Unique => {
            let mut forms = vec![form(key.name.clone(), true)];
            if ordered {
                forms.push(form(format!("{}{ORDERED_SUFFIX}", key.name), false));
            }
            forms
        }
        KeyKind::Ordinary => vec![form(key.name.clone(), false)],
    }
}

/// The kernel's form of a column, with what older rows of the table read as.
pub(crate) fn column(column: &ColumnDefinition, older: Value) -> Column {
    Column {
        name: column.name.clone(),
        column_type: storage_type(&column.sql_type),
        nullable: column.nullable,
        default: older,
    }
}

/// The constant default as the kernel stores it; NULL where there is none.
pub(crate) fn stored_default(column: &ColumnDefinition) -> Value {
    match &column.default {
        ColumnDefault::Value(value) => to_value(value, &column.sql_type),
        _ => Value::Null,
    }
}

/// The text the catalog keeps.
pub(crate) fn description(name: &str, parts: Parts<'_>) -> Description {
    let style = Style::catalog(parts.options);
    text::create_table(name, parts, &style).into_bytes().into()
}

/// The request that makes a table of this full name.
pub(crate) fn create(full_name: &str, name: &str, table: &Complete) -> SchemaChange {
    let mut columns: Vec<Column> =
        table.columns.iter().map(|c| column(c, stored_default(c))).collect();
    let position = |at: usize| at as u16;
    let primary = table.keys.first().filter(|key| key.kind == KeyKind::Primary);
    let primary_key: Vec<u16> = match primary {
        Some(key) => key.columns.iter().map(|part| position(part.decides)).collect(),
        None => {
            columns.push(hidden_key());
            vec![position(table.columns.len())]
        }
    };
    let partitioning = table.options.partitioning.clone().unwrap_or_default();
    let place = |name: &String| {
        let at = table.columns.iter().position(|column| same_name(&column.name, name));
        position(at.expect("a complete definition partitions by its columns"))
    };
    let distribution_key: Vec<u16> = partitioning.columns.iter().map(place).collect();
    let large = large::define(&table.columns, &mut columns);
    let (mut ordered_indexes, mut unique_indexes) = (Vec::new(), Vec::new());
    for form in table.keys.iter().flat_map(indexes_of) {
        let columns = form.columns.iter().map(|at| position(*at)).collect();
        let list = if form.unique { &mut unique_indexes } else { &mut ordered_indexes };
        list.push((form.name, columns));
    }
    SchemaChange::CreateTable {
        name: full_name.to_owned(),
        columns,
        primary_key,
        distribution_key,
        partition_count: partitioning.count.unwrap_or(0),
        ordered_indexes,
        unique_indexes,
        large,
        description: description(name, table.parts()),
    }
}

pub(crate) fn hidden_key() -> Column {
    Column {
        name: HIDDEN_KEY.to_owned(),
        column_type: ColumnType::UInt(8),
        nullable: false,
        default: Value::Null,
    }
}

/// The definition that a kernel table and its description make.
pub(crate) fn read(table: &Arc<Table>) -> Result<TableDefinition, SqlError> {
    let (database, name) = &shown_name(&table.name);
    let parsed = sql_parser::parse(&table.description, sql_parser::SqlMode::default());
    let Ok(Statement::CreateTable(create)) = parsed else { return Err(unreadable(table)) };
    let ast::TableDefinition::Columns(body) = &create.definition else {
        return Err(unreadable(table));
    };
    let mut rules = Rules::of_catalog(database, name);
    let of_database = collation::CollationId::UTF8MB4_0900_AI_CI;
    let draft = Draft::read(body, of_database, &mut rules);
    let complete = draft.and_then(|draft| draft.complete(&mut rules)).map_err(|error| {
        SqlError::internal(format!("definition of {}: {}", table.name, error.message()))
    })?;
    bind(complete, table, database, name)
}

fn unreadable(table: &Table) -> SqlError {
    SqlError::internal(format!("table {} has no definition in SQL", table.name))
}

/// Finds the kernel's columns and indexes by their names.
fn bind(
    complete: Complete,
    table: &Arc<Table>,
    database: &str,
    name: &str,
) -> Result<TableDefinition, SqlError> {
    let Complete { mut columns, mut keys, checks, foreign_keys, options } = complete;
    let kernel_column = |name: &str| {
        let at = table.columns.iter().position(|column| column.name == name);
        at.map(|at| ColumnId(at as u16))
    };
    forget_missing(&mut columns, &mut keys, |name| kernel_column(name).is_some());
    for column in &mut columns {
        column.column = kernel_column(&column.name).ok_or_else(|| {
            SqlError::internal(format!("table {} lacks column {}", table.name, column.name))
        })?;
    }
    for key in &mut keys {
        key.ordered = ordered_index(table, key);
        key.unique = unique_index(table, key);
    }
    let hidden_key = kernel_column(HIDDEN_KEY);
    let (database, name) = (database.to_owned(), name.to_owned());
    let table = table.clone();
    let mut definition = TableDefinition {
        table,
        database,
        name,
        columns,
        hidden_key,
        keys,
        checks,
        foreign_keys,
        options,
        computed: Vec::new(),
    };
    definition.computed = hidden::computed(&definition);
    Ok(definition)
}

/// Takes hidden columns away that a table of an earlier version has not. The keys over them have
/// no indexes either: they are only remembered.
fn forget_missing(
    columns: &mut Vec<ColumnDefinition>,
    keys: &mut [KeyDefinition],
    is_there: impl Fn(&str) -> bool,
) {
    let missing = |column: &ColumnDefinition| column.hidden.is_some() && !is_there(&column.name);
    let Some(first) = columns.iter().position(missing) else { return };
    columns.truncate(first);
    for part in keys.iter_mut().flat_map(|key| &mut key.columns) {
        if part.column >= first {
            part.column = part.declared;
        }
        if part.decides >= first {
            part.decides = part.declared;
        }
    }
}

fn ordered_index(table: &Table, key: &KeyDefinition) -> Option<IndexId> {
    let name = match key.kind {
        KeyKind::Unique => format!("{}{ORDERED_SUFFIX}", key.name),
        KeyKind::Primary | KeyKind::Ordinary => key.name.clone(),
    };
    let of_key =
        |index: &&model::OrderedIndexDef| index.name == name && index.state == IndexState::Online;
    table.ordered_indexes.iter().find(of_key).map(|index| index.id)
}

fn unique_index(table: &Table, key: &KeyDefinition) -> Option<IndexId> {
    let of_key = |index: &&model::UniqueIndexDef| {
        index.name == key.name && index.state == IndexState::Online
    };
    (key.kind == KeyKind::Unique)
        .then(|| table.unique_indexes.iter().find(of_key))
        .flatten()
        .map(|index| index.id)
}
