//! Columns whose values may lie outside of their rows, as the kernel has them.
//!
//! # Owns
//! Which types are large, and how many bytes of their values lie in the row. TEXT, BLOB and JSON
//! share what the other columns leave of a row, up to [`ROOM_MAX`] each, so that any values fit:
//! what is longer lies outside. Which changes of the catalog make tables of parts.
//! # Not here
//! References and parts (`crate::large`).

use model::schema::ROW_SIZE_MAX;
use model::{Column, ColumnId, ColumnType, LargeForm, RowLayout, Table, Value};
use sqltype::{SqlType, TypeKind};

use super::ColumnDefinition;
use crate::large::{REFERENCES, references_size};

/// Most bytes of a large value that lie in its row. A longer one costs a reader one more request,
/// and a change of another column nothing.
const ROOM_MAX: usize = 8_000;
/// A column is not added to a table in place with less room than that.
const ROOM_MIN: usize = 256;
/// How many large values a row has room for references to, at least: columns may be added.
const REFERENCES_MIN: usize = 16;
/// Most bytes of all values of a row that differ in length: ends are kept in two bytes.
const VARIABLE_MAX: usize = u16::MAX as usize;

/// Whether values of this type may lie outside of their rows.
pub(crate) fn is_large(sql_type: &SqlType) -> bool {
    matches!(
        sql_type.kind,
        TypeKind::Text | TypeKind::MediumText | TypeKind::LongText | TypeKind::Json
    )
}

/// Makes the large ones among the columns of a new table so, and adds the one of the references.
/// None if there is none.
pub(crate) fn define(
    definitions: &[ColumnDefinition],
    columns: &mut Vec<Column>,
) -> Option<Box<LargeForm>> {
    let positions: Vec<u16> = (0..)
        .zip(definitions)
        .filter(|(_, definition)| is_large(&definition.sql_type))
        .map(|(position, _)| position)
        .collect();
    if positions.is_empty() {
        return None;
    }
    let references = columns.len();
    columns.push(references_column(positions.len().max(REFERENCES_MIN)));
    for position in &positions {
        set_room(&mut columns[usize::from(*position)], 0);
    }
    if room(columns) == 0 {
        columns[references] = references_column(positions.len());
    }
    let room = ROOM_MAX.min(room(columns) / positions.len());
    for position in &positions {
        set_room(&mut columns[usize::from(*position)], room);
    }
    Some(LargeForm { columns: positions, references: references as u16 }.into())
}

/// The same for columns that are added to a table in place. None if rows have to be copied for it.
pub(crate) fn extend(
    table: &Table,
    definitions: &[&ColumnDefinition],
    columns: &mut Vec<Column>,
) -> Option<Option<Box<LargeForm>>> {
    let before = table.columns.len();
    let added: Vec<usize> =
        (0..definitions.len()).filter(|at| is_large(&definitions[*at].sql_type)).collect();
    if added.is_empty() {
        return Some(None);
    }
    let references = match &table.large {
        Some(large) => {
            let room = table.columns[usize::from(large.references.0)].column_type.variable_max();
            let needed = references_size(large.columns.len() + added.len());
            if needed > room.map_or(0, usize::from) {
                return None;
            }
            large.references
        }
        None => {
            columns.push(references_column(added.len().max(REFERENCES_MIN)));
            ColumnId((before + columns.len() - 1) as u16)
        }
    };
    for at in &added {
        set_room(&mut columns[*at], 0);
    }
    let all: Vec<Column> = table.columns.iter().chain(columns.iter()).cloned().collect();
    let room = ROOM_MAX.min(room(&all) / added.len());
    if room < ROOM_MIN {
        return None;
    }
    for at in &added {
        set_room(&mut columns[*at], room);
    }
    let columns = added.iter().map(|at| (before + at) as u16).collect();
    Some(Some(LargeForm { columns, references: references.0 }.into()))
}

fn references_column(values: usize) -> Column {
    Column {
        name: REFERENCES.to_owned(),
        column_type: ColumnType::Variable(references_size(values) as u16),
        nullable: true,
        default: Value::Null,
    }
}

fn set_room(column: &mut Column, room: usize) {
    let room = room as u16;
    column.column_type = match column.column_type {
        ColumnType::Text { collation, .. } => ColumnType::Text { max_bytes: room, collation },
        _ => ColumnType::Variable(room),
    };
}

/// Whether a row of these columns holds any values that they may have.
pub(crate) fn fit(columns: &[Column]) -> bool {
    let longest = |column: &Column| column.column_type.variable_max().map_or(0, usize::from);
    let variable: usize = columns.iter().map(longest).sum();
    let fixed = RowLayout::new(0, columns).fixed_size();
    variable <= VARIABLE_MAX && variable + fixed <= ROW_SIZE_MAX
}

/// The bytes that a row of these columns has left when all of its values are as long as they can
/// be.
fn room(columns: &[Column]) -> usize {
    let longest = |column: &Column| column.column_type.variable_max().map_or(0, usize::from);
    let variable: usize = columns.iter().map(longest).sum();
    let fixed = RowLayout::new(0, columns).fixed_size();
    VARIABLE_MAX.min(ROW_SIZE_MAX.saturating_sub(fixed)).saturating_sub(variable)
}

#[cfg(test)]
mod tests;
