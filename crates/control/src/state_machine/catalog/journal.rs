//! Journals: the hidden tables in which changed rows leave their primary keys.
//!
//! # Owns
//! When a table has a journal, and how that is defined.
//! # Guarantees
//! An entry lies in the partition of the same number as its row, as both tables are distributed by
//! the same columns over as many partitions. A journal goes with its table.
//! # Not here
//! Entries (`datanode::coordinator`); what journals are for (the SQL layer copies tables with
//! them).

use model::{ClusterState, Column, ColumnId, ErrorCode, Table, TableId};

use super::{base_table, check_table_count, hidden_table, publish, take_id};

/// Begins a journal, or ends it. Of two who would keep one of the same table the second is refused.
pub(super) fn keep(
    state: &mut ClusterState,
    id: TableId,
    kept: bool,
) -> Result<TableId, ErrorCode> {
    let mut table = base_table(state, id)?;
    match (table.journal, kept) {
        (None, true) => {
            check_table_count(state, 1)?;
            let journal = journal_of(TableId(take_id(state)), &table);
            table.journal = Some(journal.id);
            publish(state, journal);
        }
        (Some(_), true) => return Err(ErrorCode::SchemaChanged),
        (Some(journal), false) => {
            state.tables.remove(&journal);
            table.journal = None;
        }
        (None, false) => return Ok(id),
    }
    table.version += 1;
    Ok(publish(state, table))
}

/// The journal of a table: its primary key.
fn journal_of(id: TableId, base: &Table) -> Table {
    let of_base = |column: &ColumnId| base.columns[usize::from(column.0)].clone();
    let columns: Vec<Column> = base.primary_key.iter().map(of_base).collect();
    let size = columns.len() as u16;
    let place = |column: &ColumnId| base.primary_key.iter().position(|own| own == column);
    let distribution = base.distribution_key.iter().map(|column| {
        let at = place(column).expect("the distribution key is part of the primary key");
        ColumnId(at as u16)
    });
    let distribution_key = distribution.collect();
    let journal = hidden_table(id, base, "#journal", columns, [size, size]);
    Table { distribution_key, ..journal }
}
