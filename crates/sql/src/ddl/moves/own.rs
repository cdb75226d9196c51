//! Moving the tables that the SQL layer keeps for itself.
//!
//! They are small, and whoever uses one looks again where it is when it was refused
//! (`own_table::steadily`). So writers are kept out while the rows are copied.
//!
//! # Guarantees
//! A claim is not lost by a move: a table of claims moves only when nobody has one.
//! # Failure
//! A move that fails, or whose process dies, leaves the table as it was: writers wait until the
//! mover, or one of them, lets them write again.

use model::{ErrorCode, SchemaChange, Table, TableId, Value};
use wire::WaitPolicy;

use crate::claim;
use crate::kernel::{Failure, Kernel};
use crate::own_table::{copy_name, undo_move};

/// Rows copied in one transaction.
const BATCH: usize = 256;

/// Moves a table. `claim` is the transaction with the claim of whoever moves tables.
pub(super) async fn move_table(
    kernel: &Kernel,
    claim: &Kernel,
    id: TableId,
) -> Result<(), Failure> {
    let Some(table) = kernel.cluster().tables.get(&id).cloned() else { return Ok(()) };
    undo_move(kernel, &table).await?;
    if is_of_claims(&table) {
        // Before anybody is kept out: some are held for long.
        claim_all(kernel, claim, id).await?;
    }
    kernel.change_schema(SchemaChange::BlockWrites { table: id, blocked: true }).await?;
    // Whoever described the table before writers were kept out has its description moved too.
    let Some(blocked) = kernel.cluster().tables.get(&id).cloned() else { return Ok(()) };
    let replaced = replace(kernel, claim, &blocked).await;
    if replaced.is_err() {
        let _ = undo_move(kernel, &table).await;
    }
    replaced
}

async fn replace(kernel: &Kernel, claim: &Kernel, old: &Table) -> Result<(), Failure> {
    let life = kernel.cluster().restarts.len();
    // From here on all that was committed before writers were kept out is complete everywhere.
    kernel.newest_complete().await?;
    let new = kernel.change_schema(copy_of(old)).await?;
    kernel.newest_complete().await?;
    if is_of_claims(old) {
        claim_all(kernel, claim, old.id).await?;
    } else {
        let mut rows = kernel.scan(client::ScanSpec::heap(old.id)).collect().await?.into_iter();
        loop {
            let batch: Vec<Vec<Value>> = rows.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let inserts = batch.into_iter().map(|row| client::ClientOperation::insert(new, row));
            kernel.execute_and_commit(inserts.collect()).await?;
        }
    }
    if kernel.has_disk() {
        kernel.save_all().await?;
    }
    if kernel.cluster().restarts.len() != life {
        // The restart may have undone what was copied.
        return Err(Failure::Refused(ErrorCode::SchemaChanged.into()));
    }
    kernel.change_schema(SchemaChange::ReplaceTable { old: old.id, new }).await.map(drop)
}

/// Whether the rows of a table say nothing: what counts is who has locked them.
fn is_of_claims(table: &Table) -> bool {
    table.columns.len() == table.primary_key.len()
}

/// Gets all claims of a table, in the transaction of the mover's.
///
/// # Errors
/// Somebody has one.
async fn claim_all(kernel: &Kernel, claim: &Kernel, table: TableId) -> Result<(), Failure> {
    for row in kernel.scan(client::ScanSpec::heap(table)).collect().await? {
        let Some(Value::UInt(number)) = row.first() else { continue };
        match claim::lock(claim, table, *number, WaitPolicy::Refuse).await {
            // It was given up for ever.
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::RowNotFound => {}
            other => other?,
        }
    }
    Ok(())
}

/// What makes a table like another one, where new tables are.
fn copy_of(table: &Table) -> SchemaChange {
    let numbers = |columns: &[model::ColumnId]| columns.iter().map(|column| column.0).collect();
    let indexes = table.ordered_indexes.iter();
    SchemaChange::CreateTable {
        name: copy_name(table.id),
        columns: table.columns.clone(),
        primary_key: numbers(&table.primary_key),
        distribution_key: numbers(&table.distribution_key),
        partition_count: 0,
        ordered_indexes: indexes
            .map(|index| (index.name.clone(), numbers(&index.columns)))
            .collect(),
        unique_indexes: vec![],
        large: None,
        description: table.description.clone(),
    }
}
