//! ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR TABLE.
//!
//! # Guarantees
//! CHECK compares all replicas of a table row by row, and its rows with the parts of large values;
//! CHECKSUM sums up the values of its rows. Both do so as of one snapshot, and neither disturbs
//! changes, nor is disturbed by them. ANALYZE is in `analyze`. The other statements have nothing to
//! do, and say so as MySQL does.

mod analyze;

use std::sync::Arc;

use model::{Epoch, NodeId, PartitionId, PartitionIndex, RowId, Table, Value};
use sql_expression::SqlError;
use sql_parser::ast::{MaintenanceOperation, TableMaintenance};
use sqltype::{Datum, SqlType};
use wire::Inspection;

use crate::kernel::{Failure, Kernel};
use crate::large::check;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;

/// Runs the statement.
pub(super) async fn run(
    session: &mut Session,
    statement: &TableMaintenance,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let operation = match statement.operation {
        MaintenanceOperation::Analyze => return analyze::run(session, statement, out).await,
        MaintenanceOperation::Check => "check",
        MaintenanceOperation::Optimize => "optimize",
        MaintenanceOperation::Repair => "repair",
        MaintenanceOperation::Checksum => return checksum(session, statement, out).await,
    };
    out.columns(
        &["Table", "Op", "Msg_type", "Msg_text"]
            .map(|name| ResultColumn::new(name, SqlType::text(512))),
    );
    for name in &statement.tables {
        let full = session.full_name(name)?;
        let (kind, text) = match session.definition(name) {
            Ok(definition) if statement.operation == MaintenanceOperation::Check => {
                match compare(session, &definition.table).await {
                    Ok(None) => ("status", "OK".to_owned()),
                    Ok(Some(difference)) => ("error", difference),
                    Err(failure) => ("Error", SqlError::from(failure).message().to_owned()),
                }
            }
            Ok(_) => ("status", "OK".to_owned()),
            Err(error) => ("Error", error.message().to_owned()),
        };
        out.row(&[full.as_str(), operation, kind, &text].map(Datum::text));
        out.drain().await;
    }
    Ok(Outcome::Rows)
}

/// CHECKSUM TABLE: NULL for what is no table.
async fn checksum(
    session: &mut Session,
    statement: &TableMaintenance,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    out.columns(&[
        ResultColumn::new("Table", SqlType::text(512)),
        ResultColumn::new("Checksum", SqlType::unsigned_big_int()),
    ]);
    for name in &statement.tables {
        let full = session.full_name(name)?;
        let sum = match session.definition(name) {
            Ok(definition) => {
                let snapshot = Snapshot::open(session).await?;
                let columns = definition.visible_columns().iter().map(|column| column.column);
                let columns: Vec<_> = columns.collect();
                let (kernel, epoch) = (&snapshot.kernel, snapshot.epoch);
                let sum = check::sum(kernel, &definition.table, &columns, epoch).await?;
                Datum::UInt(sum)
            }
            Err(error) => {
                session.note_warning(error);
                Datum::Null
            }
        };
        out.row(&[Datum::text(&full), sum]);
        out.drain().await;
    }
    Ok(Outcome::Rows)
}

/// Compares the replicas of a table; how they differ, if they do.
async fn compare(session: &Session, table: &Arc<Table>) -> Result<Option<String>, Failure> {
    let snapshot = Snapshot::open(session).await?;
    let parts = check::parts_table(&snapshot.kernel, table)?;
    for table in [Some(table), parts.as_ref()].into_iter().flatten() {
        if let Some(difference) = compare_replicas(session, &snapshot, table).await? {
            return Ok(Some(difference));
        }
    }
    check::check(&snapshot.kernel, table, snapshot.epoch).await
}

async fn compare_replicas(
    session: &Session,
    snapshot: &Snapshot,
    table: &Arc<Table>,
) -> Result<Option<String>, Failure> {
    for partition in partitions(table) {
        let cluster = session.kernel.cluster();
        let replicas = &cluster.slot_of(partition).replicas;
        let complete: Vec<NodeId> =
            replicas.iter().filter(|replica| !replica.syncing).map(|r| r.node).collect();
        let mut first = None;
        for node in complete {
            let Some(digest) = snapshot.digest(partition, node).await? else { continue };
            match first {
                None => first = Some((node, digest)),
                Some((_, other)) if other == digest => {}
                Some((other, of_other)) => {
                    return Ok(Some(format!(
                        "partition p{}: {} rows on node {}, {} on node {}; they differ",
                        partition.index.0, of_other.rows, other.0, digest.rows, node.0
                    )));
                }
            }
        }
    }
    Ok(None)
}

fn partitions(table: &Arc<Table>) -> impl Iterator<Item = PartitionId> + use<> {
    let (table, count) = (table.id, table.partition_count);
    (0..count).map(move |at| PartitionId { table, index: PartitionIndex(at) })
}

/// What the rows of a replica come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest {
    rows: u64,
    sum: u64,
}

/// A snapshot beside the user's transaction; given back when dropped.
struct Snapshot {
    kernel: Kernel,
    epoch: Epoch,
}

impl Snapshot {
    async fn open(session: &Session) -> Result<Self, Failure> {
        let kernel = session.kernel.beside();
        let epoch = kernel.open_snapshot().await?;
        Ok(Self { kernel, epoch })
    }

    /// Adds up the rows of a replica; nothing when it cannot tell.
    async fn digest(
        &self,
        partition: PartitionId,
        node: NodeId,
    ) -> Result<Option<Digest>, Failure> {
        let (epoch, mut digest, mut after) = (self.epoch, Digest::default(), None);
        loop {
            let what = Inspection::Digest { partition, epoch, after };
            let mut told = self.kernel.inspect(what, Some(node)).await?;
            let row = told.pop().and_then(|mut told| told.rows.pop());
            let Some([next, Value::UInt(rows), Value::UInt(sum)]) = row.as_deref() else {
                return Ok(None);
            };
            digest.rows += rows;
            digest.sum = digest.sum.wrapping_add(*sum);
            match next {
                Value::UInt(slot) => after = u32::try_from(*slot).ok().map(RowId),
                _ => return Ok(Some(digest)),
            }
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.kernel.close_snapshot(self.epoch);
    }
}
