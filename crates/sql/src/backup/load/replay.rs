//! The changes of an archive, applied to tables that were filled from a full backup.
//!
//! # Guarantees
//! Changes up to the moment are applied, and none later. Some epochs at a time, whole ones, become
//! one change of each row: first rows go, then others come, so that no unique key is met twice on
//! the way. A change that does not find the row as it was before ends the restore.
//! # Failure
//! What a failing node has kept from happening is tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use client::{ClientOperation, OperationAction};
use model::{ErrorCode, Table, TableId, Value};
use sql_expression::SqlError;
use stdx::Duration;

use super::placing::Placing;
use super::until::{Archive, Chosen};
use crate::backup::archive::log::{Layout, Reader, Record};
use crate::backup::rows::encode;
use crate::backup::throttle::Throttle;
use crate::backup_jobs::OwnJob;
use crate::backup_jobs::host::{SavedTable, failed};
use crate::catalog::names::TableName;
use crate::error::is_temporary;
use crate::kernel::{Failure, Kernel};

/// Bytes of changes that are applied together.
const TOGETHER: usize = 16 << 20;
/// Operations of a transaction, and bytes of their rows.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 256 << 10;
/// How often a transaction is tried, and the pause before the next time.
const ATTEMPTS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(250);

/// A table that is filled.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    /// As it was defined at the moment.
    pub(super) defined: SavedTable,
    pub(super) name: TableName,
    /// It has the parts of large values.
    pub(super) is_parts: bool,
}

impl Target {
    /// Where the values of rows with these columns stand.
    pub(super) fn placing(&self, columns: &[u16]) -> Result<Placing, SqlError> {
        if self.is_parts {
            Placing::of_parts(&self.table, columns, &self.name)
        } else {
            Placing::by_number(&self.table, columns, &self.defined, &self.name)
        }
    }
}

/// What becomes of a row.
struct Net {
    /// There is one now.
    existed: bool,
    /// Its key in the table.
    key: Vec<Value>,
    after: Option<Vec<Value>>,
}

/// Changes that wait to be applied, by the identities that tables had.
#[derive(Default)]
struct Waiting {
    rows: BTreeMap<TableId, BTreeMap<Vec<u8>, Net>>,
    bytes: usize,
}

/// Applies changes.
pub(super) struct Replay<'a> {
    pub(super) archive: &'a Archive<'a>,
    pub(super) chosen: &'a Chosen,
    pub(super) targets: BTreeMap<TableId, Target>,
    /// The table with the next values of AUTO_INCREMENT.
    pub(super) sequences: Option<TableId>,
    /// Those values, by table.
    pub(super) next: BTreeMap<TableId, u64>,
    pub(super) job: &'a OwnJob,
    pub(super) throttle: &'a mut Throttle,
}

impl Replay<'_> {
    /// Applies all changes up to the moment; how many there were.
    pub(super) async fn all(
        &mut self,
        kernel: &Kernel,
        mut holds: impl AsyncFnMut() -> Result<(), SqlError>,
    ) -> Result<u64, SqlError> {
        let Some((first, last)) = self.chosen.segments else { return Ok(0) };
        let (mut waiting, mut count) = (Waiting::default(), 0);
        let mut epoch = 0;
        let mut records = self.archive.replay(self.chosen.chain, first, last).await?;
        while let Some((_, portion)) = records.next().await? {
            holds().await?;
            let mut layouts: BTreeMap<TableId, (Layout, Option<Placing>)> = BTreeMap::new();
            let mut reader = Reader::new(&portion);
            while let Some(record) = reader.next()? {
                match record {
                    Record::Epoch(next) => {
                        // Only whole epochs are sure to meet no key twice.
                        if next != epoch && waiting.bytes >= TOGETHER {
                            self.apply(kernel, &mut waiting).await?;
                        }
                        epoch = next;
                    }
                    Record::Layout(table, layout) => {
                        let target = self.targets.get(&table);
                        let placing = target.map(|target| target.placing(&layout.columns));
                        layouts.insert(table, (layout, placing.transpose()?));
                    }
                    Record::Change { table, before, after }
                        if epoch > self.chosen.base.epoch && epoch <= self.chosen.epoch =>
                    {
                        if Some(table) == self.sequences {
                            self.note_next(after.as_deref());
                        } else if let Some((layout, Some(placing))) = layouts.get(&table) {
                            count += 1;
                            let target = &self.targets[&table];
                            note(&mut waiting, target, table, layout, placing, before, after)?;
                        }
                    }
                    _ => {}
                }
            }
            let bytes = portion.len() as u64;
            self.job.tell(|job| job.bytes += bytes)?;
            self.throttle.pace(kernel, self.job, bytes).await?;
        }
        self.apply(kernel, &mut waiting).await?;
        Ok(count)
    }

    fn note_next(&mut self, after: Option<&[Value]>) {
        if let Some([Value::UInt(table), Value::UInt(next)]) = after
            && let Ok(table) = u32::try_from(*table)
        {
            self.next.insert(TableId(table), *next);
        }
    }

    async fn apply(&mut self, kernel: &Kernel, waiting: &mut Waiting) -> Result<(), SqlError> {
        for (id, rows) in std::mem::take(waiting).rows {
            let target = &self.targets[&id];
            let (table, version) = (target.table.id, target.table.version);
            let is_unique = !target.table.unique_indexes.is_empty();
            let delete = |net: &Net| ClientOperation::delete(table, net.key.clone());
            let goes = |net: &&Net| net.existed && (is_unique || net.after.is_none());
            let deletes: Vec<ClientOperation> = rows.values().filter(goes).map(delete).collect();
            let put = |net: Net| {
                let stays = net.existed && !is_unique;
                let row = net.after?;
                Some(if stays {
                    ClientOperation::upsert(table, row)
                } else {
                    ClientOperation::insert(table, row)
                })
            };
            let puts: Vec<ClientOperation> = rows.into_values().filter_map(put).collect();
            for mut operations in [deletes, puts] {
                // Those of a partition commit in one phase.
                operations.sort_by_key(|operation| partition(&target.table, operation));
                while !operations.is_empty() {
                    let mut bytes = 0;
                    let fits = |operation: &&ClientOperation| {
                        bytes += size(operation);
                        bytes <= BATCH_BYTES
                    };
                    let count = operations.iter().take(BATCH).take_while(fits).count();
                    let rest = operations.split_off(count.clamp(1, operations.len()));
                    let batch = std::mem::replace(&mut operations, rest);
                    let of_version = |operation: ClientOperation| operation.of_version(version);
                    let batch = batch.into_iter().map(of_version).collect();
                    send(kernel, target, batch).await?;
                }
            }
            self.job.tell(|_| ())?;
            kernel.breathe().await?;
        }
        Ok(())
    }
}

fn size(operation: &ClientOperation) -> usize {
    let of_value = |value: &Value| match value {
        Value::Bytes(bytes) => bytes.len(),
        _ => 8,
    };
    match &operation.action {
        OperationAction::Insert { row } | OperationAction::Upsert { row } => {
            row.iter().map(of_value).sum()
        }
        _ => 64,
    }
}

fn partition(table: &Table, operation: &ClientOperation) -> u16 {
    let key: Vec<Value> = match &operation.action {
        OperationAction::Insert { row } | OperationAction::Upsert { row } => key_of(table, row),
        OperationAction::Delete { key, .. } => key.clone(),
        _ => Vec::new(),
    };
    table.partition_of_key(&key).map_or(0, |partition| partition.0)
}

fn key_of(table: &Table, row: &[Value]) -> Vec<Value> {
    table.primary_key.iter().map(|at| row[usize::from(at.0)].clone()).collect()
}

/// Notes what becomes of a row.
fn note(
    waiting: &mut Waiting,
    target: &Target,
    id: TableId,
    layout: &Layout,
    placing: &Placing,
    before: Option<Vec<Value>>,
    after: Option<Vec<Value>>,
) -> Result<(), SqlError> {
    let rows = waiting.rows.entry(id).or_default();
    let named = |key: &[Value]| {
        let mut bytes = Vec::new();
        key.iter().for_each(|value| encode(value, &mut bytes));
        bytes
    };
    let does_not_fit = || failed(&format!("changes of {} do not fit its key", target.name.full()));
    if let Some(before) = before {
        // The key alone, placed as in a row.
        let mut row = vec![Value::Null; layout.columns.len()];
        for (column, value) in layout.key.iter().zip(before) {
            let at = layout.columns.iter().position(|of| of == column).ok_or_else(does_not_fit)?;
            row[at] = value;
        }
        let key = key_of(&target.table, &placing.placed(row));
        let name = named(&key);
        waiting.bytes += name.len() + 64;
        let net = rows.entry(name).or_insert_with(|| Net { existed: true, key, after: None });
        net.after = None;
    }
    if let Some(after) = after {
        let row = placing.placed(after);
        let key = key_of(&target.table, &row);
        waiting.bytes += size(&ClientOperation::insert(id, row.clone())) + 64;
        let name = named(&key);
        let net = rows.entry(name).or_insert_with(|| Net { existed: false, key, after: None });
        if net.after.is_some() {
            return Err(unfit(target));
        }
        net.after = Some(row);
    }
    Ok(())
}

fn unfit(target: &Target) -> SqlError {
    let name = target.name.full();
    failed(&format!("the changes of {name} in the archive do not fit its full backup"))
}

/// Sends operations in a transaction, until it is known that they are done.
async fn send(
    kernel: &Kernel,
    target: &Target,
    mut operations: Vec<ClientOperation>,
) -> Result<(), SqlError> {
    // One before has perhaps been committed.
    let mut is_unsure = false;
    let mut attempts = 0;
    let mut done: BTreeSet<usize> = BTreeSet::new();
    loop {
        let left: Vec<(usize, ClientOperation)> = operations
            .iter()
            .enumerate()
            .filter(|(at, _)| !done.contains(at))
            .map(|(at, operation)| (at, operation.clone()))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        let (places, batch): (Vec<usize>, Vec<ClientOperation>) = left.into_iter().unzip();
        let Err(rejected) = kernel.execute_all_plain(batch, true).await else { return Ok(()) };
        kernel.abort().await;
        match &rejected.failure {
            Failure::Refused(refusal) | Failure::Aborted(refusal)
                if matches!(refusal.code, ErrorCode::RowNotFound | ErrorCode::RowExists) =>
            {
                let at = rejected.at.and_then(|at| places.get(at));
                match at.filter(|_| is_unsure && refusal.code == ErrorCode::RowNotFound) {
                    Some(at) => {
                        done.insert(*at);
                        continue;
                    }
                    None => return Err(unfit(target)),
                }
            }
            Failure::OutcomeUnknown(_) => {
                is_unsure = true;
                for operation in &mut operations {
                    if let OperationAction::Insert { row } = &mut operation.action {
                        let row = std::mem::take(row);
                        operation.action = OperationAction::Upsert { row };
                    }
                }
            }
            _ => {}
        }
        let error = SqlError::from(rejected.failure);
        attempts += 1;
        if !is_unsure && !is_temporary(&error) || attempts == ATTEMPTS {
            return Err(error);
        }
        kernel.sleep(PAUSE).await?;
    }
}
