//! Columns that change or go while the rows stay as they are.
//!
//! Each row names the layout that it was written in, so a wider column is a new layout for new
//! rows. A column that is dropped leaves a hole: rows that are there keep its value, which nobody
//! reads any more, until they are written again; new rows have NULL there. A copy has no holes.
//!
//! # Owns
//! Which changes of columns the kernel can make so, and what its columns become.
//! # Not here
//! The steps (`change`), the kernel's own conditions (`model::Table::can_modify`).

use model::schema::COLUMNS_MAX;
use model::{Column, ColumnId, Table};
use sqltype::storage::storage_type;
use sqltype::{SqlType, TypeKind};

use super::altered::Altered;
use super::change::{is_computed_alike, is_value_alike};
use crate::catalog::{ColumnDefinition, expression, large};

/// A row says in one byte which layout it has.
const LAYOUTS_MAX: usize = 255;

/// What the columns that are dropped become; none if one of them can only go by copying the rows:
/// one that a key has, or whose values may lie outside of the rows.
pub(super) fn holes(altered: &Altered) -> Option<Vec<(ColumnId, Column)>> {
    let Altered { old, origins, .. } = altered;
    // A hidden column that is not needed any more stays in the kernel, and is nobody's.
    let dropped = old.visible_columns().iter().enumerate();
    let dropped = dropped.filter(|(at, _)| !origins.contains(&Some(*at)));
    let hole = |(_, column): (usize, &ColumnDefinition)| {
        let hole = Column::hole(column.column);
        old.table.can_modify(column.column, &hole).then_some((column.column, hole))
    };
    dropped.map(hole).collect()
}

/// What the kernel's column becomes whose values are all values of the new definition; none if
/// they are not, or have to be stored in another way.
pub(super) fn widened(
    altered: &Altered,
    before: &ColumnDefinition,
    after: &ColumnDefinition,
) -> Option<Column> {
    let (from, to) = (&before.sql_type, &after.sql_type);
    let same_type = is_value_alike(from, to) && storage_type(from) == storage_type(to);
    let nullable = after.nullable || !before.nullable;
    if !nullable || !is_computed_alike(before, after) || !(same_type || is_widened(from, to)) {
        return None;
    }
    // What is computed of it would have to be computed again, if only to see that it is the same.
    let is_read = altered.new.columns.iter().any(|other| {
        let generated = other.generated.as_ref();
        generated.is_some_and(|g| expression::reads(&g.expression, &after.name))
    });
    if is_read && !same_type {
        return None;
    }
    let kernel = &altered.old.table.columns[usize::from(before.column.0)];
    let column_type = if storage_type(from) == storage_type(to) {
        // Of a large value a part may lie in the row: how much, the kernel knows alone.
        kernel.column_type
    } else {
        storage_type(to)
    };
    let (name, default) = (after.name.clone(), kernel.default.clone());
    let column = Column { name, column_type, nullable: after.nullable, default };
    altered.old.table.can_modify(before.column, &column).then_some(column)
}

/// Whether all values of a type are the same values of another, and the kernel reads them as such.
fn is_widened(before: &SqlType, after: &SqlType) -> bool {
    if before.collation != after.collation || before.unsigned != after.unsigned {
        return false;
    }
    if before.kind.is_integer() && after.kind.is_integer() {
        return integer_rank(&before.kind) <= integer_rank(&after.kind);
    }
    match (&before.kind, &after.kind) {
        (TypeKind::VarChar, TypeKind::VarChar) => before.length <= after.length,
        // BINARY is filled up to its length.
        (TypeKind::Char, TypeKind::Char) => {
            before.collation != collation::CollationId::BINARY && before.length <= after.length
        }
        (from, to) => match (text_rank(from), text_rank(to)) {
            (Some(from), Some(to)) => from <= to,
            _ => false,
        },
    }
}

fn integer_rank(kind: &TypeKind) -> u8 {
    match kind {
        TypeKind::TinyInt => 0,
        TypeKind::SmallInt => 1,
        TypeKind::MediumInt => 2,
        TypeKind::Int => 3,
        _ => 4,
    }
}

/// The texts that may lie outside of their rows, by their longest length.
fn text_rank(kind: &TypeKind) -> Option<u8> {
    match kind {
        TypeKind::Text => Some(0),
        TypeKind::MediumText => Some(1),
        TypeKind::LongText => Some(2),
        _ => None,
    }
}

/// Whether the table has room for so many more columns and layouts, holes being counted, and any
/// values fit a row afterwards. A copy makes room.
pub(super) fn has_room(
    table: &Table,
    modified: &[(ColumnId, Column)],
    added: usize,
    layouts: usize,
) -> bool {
    // One more for the references of large values.
    if table.columns.len() + added + usize::from(added > 0) > COLUMNS_MAX
        || table.layouts.len() + layouts > LAYOUTS_MAX
    {
        return false;
    }
    let mut columns = table.columns.clone();
    for (id, column) in modified {
        columns[usize::from(id.0)].clone_from(column);
    }
    let grows = modified.iter().any(|(_, column)| !column.is_hole());
    table.large.is_none() || !grows || large::fit(&columns)
}
