//! Values too long for their rows: the hidden table of their parts.
//!
//! # Owns
//! Which columns of a table are large, and the definition of the table behind them.
//! # Guarantees
//! A table with large columns has its parts' table as long as it exists; parts lie in the
//! partitions of their rows, as both tables are distributed by the same columns over as many
//! partitions. Where the change that made them says so, the two are colocated: a row and its parts
//! lie with the same worker.
//! # Not here
//! What is in references and parts: the SQL layer writes and reads them.

use model::schema::{KEY_SIZE_MAX, PART_SIZE_MAX};
use model::{
    ClusterState, Column, ColumnId, ColumnType, ErrorCode, LargeColumns, LargeForm, Table, TableId,
    Value,
};

use super::{hidden_table, publish, take_id};

/// Which workers hold the partitions of a table of parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Its own, as of any other table.
    Own,
    /// Those of its base table.
    Colocated,
}

/// The identity of a new table of parts.
fn parts_id(state: &mut ClusterState, base: TableId, place: Place) -> TableId {
    match place {
        Place::Own => TableId(take_id(state)),
        Place::Colocated => base.colocated(),
    }
}

/// Whether columns of a table can be made large. Those from `first` on are new: no row has a value
/// in them that was stored otherwise.
pub(super) fn check(table: &Table, form: &LargeForm, first: usize) -> Result<(), ErrorCode> {
    let column = |position: u16| table.columns.get(usize::from(position));
    let may_be_large = |(at, position): (usize, &u16)| {
        let varies = column(*position).is_some_and(|c| c.column_type.variable_max().is_some());
        let in_key = table.primary_key.contains(&ColumnId(*position));
        let repeated = form.columns[..at].contains(position) || *position == form.references;
        varies && !in_key && !repeated && usize::from(*position) >= first
    };
    let references = match &table.large {
        Some(large) => large.references == ColumnId(form.references),
        None => {
            let fits = |c: &Column| matches!(c.column_type, ColumnType::Variable(_)) && c.nullable;
            usize::from(form.references) >= first
                && column(form.references).is_some_and(fits)
                && parts_key_size(table) <= KEY_SIZE_MAX
        }
    };
    let good = references && !form.columns.is_empty();
    if good && form.columns.iter().enumerate().all(may_be_large) {
        Ok(())
    } else {
        Err(ErrorCode::BadDefinition)
    }
}

/// Makes columns of a table large, of which [`check`] has nothing to say.
pub(super) fn add(state: &mut ClusterState, table: &mut Table, form: &LargeForm, place: Place) {
    let columns = form.columns.iter().map(|position| ColumnId(*position));
    if let Some(large) = &mut table.large {
        large.columns.extend(columns);
        return;
    }
    let columns = columns.collect();
    let parts = parts_table(parts_id(state, table.id, place), table);
    let references = ColumnId(form.references);
    table.large = Some(LargeColumns { columns, references, parts: parts.id });
    publish(state, parts);
}

/// The most bytes of a key of the table of parts: the distribution key, two numbers.
fn parts_key_size(base: &Table) -> usize {
    let of_base =
        |column: &ColumnId| base.columns[usize::from(column.0)].column_type.key_size_max();
    base.distribution_key.iter().map(of_base).sum::<usize>() + 8 + 4
}

/// The table of the parts of a table's values.
fn parts_table(id: TableId, base: &Table) -> Table {
    let of_base = |column: &ColumnId| base.columns[usize::from(column.0)].clone();
    let mut columns: Vec<Column> = base.distribution_key.iter().map(of_base).collect();
    let distributed = columns.len() as u16;
    let column = |name: &str, column_type| Column {
        name: name.to_owned(),
        column_type,
        nullable: false,
        default: Value::Null,
    };
    // No name of a user's column ends with a space.
    columns.push(column("#value ", ColumnType::UInt(8)));
    columns.push(column("#part ", ColumnType::UInt(4)));
    columns.push(column("#bytes ", ColumnType::Variable(PART_SIZE_MAX)));
    let key = distributed + 2;
    hidden_table(id, base, "#parts", columns, [key, distributed])
}

/// Gives a table that is a new identity of another, which has large columns, a parts' table of its
/// own.
pub(super) fn renew(state: &mut ClusterState, table: &mut Table, place: Place) {
    let Some(large) = &mut table.large else { return };
    let parts = state.tables.get(&large.parts).expect("large columns have their parts' table");
    let mut parts = parts.as_ref().clone();
    parts.id = parts_id(state, table.id, place);
    parts.hidden_behind = Some(table.id);
    large.parts = parts.id;
    publish(state, parts);
}
