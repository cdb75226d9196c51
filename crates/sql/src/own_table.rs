//! Tables of the kernel that the SQL layer keeps for itself.
//!
//! # Owns
//! Finding such a table, and making it: the first who needs it does. Its name has no database, so
//! that no user sees it. Working on it while it is moved to other nodes ([`steadily`]), and undoing
//! a move that did not come to its end.
//! # Not here
//! What is in the tables: claims, AUTO_INCREMENT, statistics, named locks. Moving them
//! (`ddl::moves`).

use model::{Column, ColumnType, ErrorCode, SchemaChange, Table, TableId, Value};
use stdx::Duration;

use crate::claim::{ALTERATIONS, MOVER};
use crate::kernel::{Failure, Kernel};

/// The pause before work on a table that is being moved is tried again.
const PAUSE: Duration = Duration::from_millis(20);
/// How often it is tried: for 30 seconds.
const ATTEMPTS_MAX: u32 = 1_500;
/// So many attempts later somebody looks whether who moved the table is dead.
const LOOK_EVERY: u32 = 50;

/// Works on a table of ours, again while the table is being moved: writes are refused then, and it
/// has another identity afterwards. The work looks the table up each time, and leaves no
/// transaction behind that would have to be undone.
pub(crate) async fn steadily<T>(
    kernel: &Kernel,
    mut work: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    for attempt in 1.. {
        match work().await {
            Err(failure) if is_elsewhere(&failure) && attempt < ATTEMPTS_MAX => {
                kernel.sleep(PAUSE).await?;
                if attempt % LOOK_EVERY == 0 {
                    recover(kernel).await?;
                }
            }
            other => return other,
        }
    }
    Err(Failure::Refused(ErrorCode::SchemaChanged.into()))
}

/// Whether a table was not where the work looked for it, or cannot be written now.
pub(crate) fn is_elsewhere(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(refusal) | Failure::Aborted(refusal) => {
            matches!(refusal.code, ErrorCode::SchemaChanged | ErrorCode::UnknownTable)
        }
        Failure::Interrupted(_) | Failure::OutcomeUnknown(_) => false,
    }
}

/// Lets writers go on whose table was being moved by somebody who is dead.
async fn recover(kernel: &Kernel) -> Result<(), Failure> {
    let beside = kernel.beside();
    if ALTERATIONS.is_free(&beside, MOVER).await {
        let cluster = kernel.cluster();
        let blocked =
            cluster.table_names.iter_from("#").take_while(|(name, _)| name.starts_with('#'));
        for (_, id) in blocked {
            if let Some(table) = cluster.tables.get(id).filter(|table| table.writes_blocked) {
                undo_move(kernel, table).await?;
            }
        }
    }
    beside.abort().await;
    Ok(())
}

/// Takes away what a move has left: first the block, so that the copy cannot take the table's place
/// any more.
pub(crate) async fn undo_move(kernel: &Kernel, old: &Table) -> Result<(), Failure> {
    let cluster = kernel.cluster();
    if cluster.tables.get(&old.id).is_some_and(|table| table.writes_blocked) {
        kernel.change_schema(SchemaChange::BlockWrites { table: old.id, blocked: false }).await?;
    }
    if let Some(copy) = kernel.cluster().table_named(&copy_name(old.id)) {
        match kernel.change_schema(SchemaChange::DropTable { table: copy.id }).await {
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::UnknownTable => {}
            other => return other.map(drop),
        }
    }
    Ok(())
}

/// The name of the table that is to take another one's place: no other kind of table is named so.
pub(crate) fn copy_name(old: TableId) -> String {
    format!("#moved/{}", old.0)
}

/// A table of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTable<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Names and types of its columns; none may be NULL.
    pub(crate) columns: &'a [(&'a str, ColumnType)],
    /// So many of them are the primary key.
    pub(crate) key_columns: u16,
    /// Its rows are distributed by the first column, and are in order of the primary key in a part.
    pub(crate) ordered: bool,
}

impl OwnTable<'_> {
    /// The table; it is made if it is not there.
    pub(crate) async fn get(&self, kernel: &Kernel) -> Result<TableId, Failure> {
        let known = || kernel.cluster().table_named(self.name).map(|table| table.id);
        if let Some(id) = known() {
            return Ok(id);
        }
        match kernel.beside().change_schema(self.definition()).await {
            Ok(id) => Ok(id),
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::TableExists => {
                known().ok_or(Failure::Refused(refusal))
            }
            Err(failure) => Err(failure),
        }
    }

    fn definition(&self) -> SchemaChange {
        let column = |(name, column_type): &(&str, ColumnType)| Column {
            name: (*name).to_owned(),
            column_type: *column_type,
            nullable: false,
            default: Value::Null,
        };
        let primary_key: Vec<u16> = (0..self.key_columns).collect();
        let ordered_index = self.ordered.then(|| ("PRIMARY".to_owned(), primary_key.clone()));
        SchemaChange::CreateTable {
            name: self.name.to_owned(),
            columns: self.columns.iter().map(column).collect(),
            primary_key,
            distribution_key: if self.ordered { vec![0] } else { vec![] },
            partition_count: 0,
            ordered_indexes: ordered_index.into_iter().collect(),
            unique_indexes: vec![],
            large: None,
            description: Default::default(),
        }
    }
}
