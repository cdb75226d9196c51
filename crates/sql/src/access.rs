//! Rows of one table by key or scan, in whichever way the transaction must read them.
//!
//! # Owns
//! [`Reader`]: where a read goes (a replica, a snapshot, the transaction's coordinator), batching
//! of keys, lookups by unique key with the recheck that locking needs.
//! # Guarantees
//! In a transaction that has changed the table its own changes are seen, in a snapshot too. A
//! locked row has the key it was looked up by at the moment of the lock.
//! # Not here
//! Which path is taken (`plan`), conditions the kernel cannot evaluate (`execute`).

use std::sync::Arc;

use actor::Mutation;
use client::{
    ClientOperation, ClientRead, OperationAction, OperationAnswer, ReadKey, ScanRange, ScanSpec,
};
use model::{
    ColumnId, Epoch, ErrorCode, Expression, IndexId, Refusal, Table, UniqueIndexDef, Value,
};
use vector::Program;
use wire::{LockMode, Projection, WaitPolicy};

use crate::kernel::{Failure, Kernel, Scan};

/// A row's projected columns.
pub(crate) type Values = Vec<Value>;

/// How rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// As committed now, from any replica; nothing is remembered.
    Committed,
    /// As of a snapshot the connection holds.
    Snapshot(Epoch),
    /// As committed, with the transaction's own changes.
    Own,
    /// As of a snapshot the connection holds, with the transaction's own changes laid over it.
    Overlay(Epoch),
    /// Locked until the transaction ends, with the transaction's own changes.
    Locking(LockMode, WaitPolicy),
    /// The same, and nobody else changes until then what the answer is: keys are locked whether
    /// there is a row or not, and ranges are guarded. Rows of ranges have the lock that is named.
    Guarded(LockMode),
}

/// How a row is read by its key in a transaction.
#[derive(Clone, Copy, Debug)]
struct OfKey {
    lock: LockMode,
    wait: WaitPolicy,
    snapshot: Option<Epoch>,
}

impl ReadMode {
    fn of_key(self) -> OfKey {
        let (lock, wait) = match self {
            ReadMode::Locking(lock, wait) => (lock, wait),
            ReadMode::Guarded(lock) => (lock.max(LockMode::Shared), WaitPolicy::Wait),
            _ => (LockMode::Committed, WaitPolicy::Wait),
        };
        let snapshot = match self {
            ReadMode::Overlay(at) => Some(at),
            _ => None,
        };
        OfKey { lock, wait, snapshot }
    }
}

/// Keys in one request, at most: well below `batch_max` of any configuration.
const KEYS_MAX: usize = 128;
/// How often a lookup by unique key starts anew because its row had changed.
const RECHECKS_MAX: u32 = 8;

/// What a scan looks through.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) range: ScanRange,
    /// Keys of the partitions that are asked; all of them, if there are none.
    pub(crate) partition_keys: Option<Vec<Values>>,
}

impl Asked {
    /// The whole table.
    pub(crate) fn heap() -> Self {
        Self { range: ScanRange::Heap, partition_keys: None }
    }
}

/// Reads one table in one way.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) kernel: Kernel,
    pub(crate) table: Arc<Table>,
    pub(crate) mode: ReadMode,
    pub(crate) projection: Projection,
}

impl Reader {
    /// The rows with these primary keys, one or none per key, in order. A locked row that is
    /// skipped counts as none.
    pub(crate) async fn by_primary_key(
        &self,
        keys: Vec<Values>,
    ) -> Result<Vec<Option<Values>>, Failure> {
        let read = |key| ClientRead {
            table: self.table.id,
            key: ReadKey::Primary(key),
            projection: self.projection.clone(),
        };
        match self.mode {
            ReadMode::Committed => self.read(keys.into_iter().map(read).collect(), None).await,
            ReadMode::Snapshot(at) => {
                self.read(keys.into_iter().map(read).collect(), Some(at)).await
            }
            ReadMode::Own | ReadMode::Overlay(_) | ReadMode::Locking(..) | ReadMode::Guarded(_) => {
                self.operate(self.table.id, keys, self.mode.of_key(), &self.projection).await
            }
        }
    }

    /// The rows with these values of a unique index, one or none per key, in order; none of the
    /// values is NULL.
    pub(crate) async fn by_unique_key(
        &self,
        index: IndexId,
        keys: Vec<Values>,
    ) -> Result<Vec<Option<Values>>, Failure> {
        let read = |key| ClientRead {
            table: self.table.id,
            key: ReadKey::Unique { index, key },
            projection: self.projection.clone(),
        };
        match self.mode {
            ReadMode::Committed => self.read(keys.into_iter().map(read).collect(), None).await,
            ReadMode::Snapshot(at) => {
                self.read(keys.into_iter().map(read).collect(), Some(at)).await
            }
            ReadMode::Own | ReadMode::Locking(..) | ReadMode::Guarded(_) => {
                self.by_entry(index, keys).await
            }
            ReadMode::Overlay(at) => self.by_entry_over(index, keys, at).await,
        }
    }

    /// Scans a range of an index, or the heap, in some partitions or in all. With a program there
    /// is no limit and no lock.
    pub(crate) fn scan(
        &self,
        asked: Asked,
        filter: Option<Expression>,
        limit: Option<u64>,
        program: Option<Arc<Program>>,
    ) -> Scan {
        let none = LockMode::Committed;
        let (lock, wait, in_transaction, snapshot) = match self.mode {
            ReadMode::Committed => (none, WaitPolicy::Wait, false, None),
            ReadMode::Snapshot(at) => (none, WaitPolicy::Wait, false, Some(at)),
            ReadMode::Own => (none, WaitPolicy::Wait, true, None),
            ReadMode::Overlay(at) => (none, WaitPolicy::Wait, true, Some(at)),
            ReadMode::Locking(lock, wait) => (lock, wait, true, None),
            ReadMode::Guarded(lock) => (lock, WaitPolicy::Wait, true, None),
        };
        let Asked { range, partition_keys } = asked;
        self.kernel.scan(ScanSpec {
            table: self.table.id,
            range,
            filter,
            projection: self.projection.clone(),
            limit,
            lock,
            wait,
            partition_keys,
            snapshot,
            in_transaction,
            program,
            join: None,
            settled: false,
            guarded: matches!(self.mode, ReadMode::Guarded(_))
                && !self.kernel.mutated(Mutation::SqlRangesUnguarded),
        })
    }

    async fn read(
        &self,
        mut reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    ) -> Result<Vec<Option<Values>>, Failure> {
        if reads.len() <= KEYS_MAX {
            return self.kernel.read(reads, snapshot).await;
        }
        let mut rows = Vec::with_capacity(reads.len());
        while !reads.is_empty() {
            let rest = reads.split_off(reads.len().min(KEYS_MAX));
            rows.append(&mut self.kernel.read(reads, snapshot).await?);
            reads = rest;
        }
        Ok(rows)
    }

    /// Reads by primary key in the transaction.
    async fn operate(
        &self,
        table: model::TableId,
        keys: Vec<Values>,
        OfKey { lock, wait, snapshot }: OfKey,
        projection: &Projection,
    ) -> Result<Vec<Option<Values>>, Failure> {
        let mut rows = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter().peekable();
        while keys.peek().is_some() {
            let operation = |key| {
                let projection = projection.clone();
                let action = OperationAction::Read { key, lock, wait, projection, snapshot };
                ClientOperation { table, version: None, action }
            };
            let batch = keys.by_ref().take(KEYS_MAX).map(operation).collect();
            for answer in self.kernel.execute(batch).await? {
                rows.push(match answer {
                    Ok(OperationAnswer::Row(row)) => Some(row),
                    Err(refusal) if absent(&refusal, wait) => None,
                    Err(refusal) => return Err(Failure::Refused(refusal)),
                    Ok(OperationAnswer::Written(_)) => {
                        return Err(Failure::Refused(ErrorCode::Internal.into()));
                    }
                });
            }
        }
        Ok(rows)
    }

    /// Reads by unique key as of a snapshot, with the transaction's own changes. A row that others
    /// have changed since, and then the transaction, has its entry among the newest ones only; one
    /// that the transaction has not changed has its entry in the snapshot.
    async fn by_entry_over(
        &self,
        index: IndexId,
        keys: Vec<Values>,
        at: Epoch,
    ) -> Result<Vec<Option<Values>>, Failure> {
        let unknown = || Failure::Refused(Refusal::from(ErrorCode::UnknownIndex));
        let index = self.table.unique_index(index).ok_or_else(unknown)?;
        let mut found: Vec<Option<Values>> = vec![None; keys.len()];
        for entries in [ReadMode::Own, ReadMode::Overlay(at)] {
            let wanted: Vec<usize> = (0..keys.len()).filter(|at| found[*at].is_none()).collect();
            let of_round = wanted.iter().map(|at| keys[*at].clone()).collect();
            let all = Projection::All;
            let entries = self.operate(index.table, of_round, entries.of_key(), &all).await?;
            let named = wanted
                .into_iter()
                .zip(entries)
                .filter_map(|(at, entry)| Some((at, primary_key_of(&self.table, index, &entry?))));
            let (places, primary_keys): (Vec<usize>, Vec<Values>) = named.unzip();
            let rows = self.operate(self.table.id, primary_keys, self.mode.of_key(), &all).await?;
            for (at, row) in places.into_iter().zip(rows) {
                let row = row.filter(|row| self.has_key(index, row, &keys[at]));
                found[at] = row.map(|row| self.project(&row));
            }
        }
        Ok(found)
    }

    /// Reads by unique key in the transaction: entries of the index's hidden table, then the rows
    /// they name. A row that has another key by then has been changed by somebody: it is looked up
    /// anew.
    async fn by_entry(
        &self,
        index: IndexId,
        keys: Vec<Values>,
    ) -> Result<Vec<Option<Values>>, Failure> {
        let unknown = || Failure::Refused(Refusal::from(ErrorCode::UnknownIndex));
        let index = self.table.unique_index(index).ok_or_else(unknown)?;
        let of_row = self.mode.of_key();
        // The lock of an entry that is not there keeps others from making it.
        let of_entry = match self.mode {
            ReadMode::Guarded(_) => ReadMode::Guarded(LockMode::Shared).of_key(),
            _ => ReadMode::Own.of_key(),
        };
        let mut found: Vec<Option<Values>> = vec![None; keys.len()];
        let mut wanted: Vec<usize> = (0..keys.len()).collect();
        for _ in 0..RECHECKS_MAX {
            let of_round = wanted.iter().map(|at| keys[*at].clone()).collect();
            let all = Projection::All;
            let entries = self.operate(index.table, of_round, of_entry, &all).await?;
            let named: Vec<(usize, Values)> = wanted
                .iter()
                .zip(entries)
                .filter_map(|(at, entry)| Some((*at, primary_key_of(&self.table, index, &entry?))))
                .collect();
            let primary_keys = named.iter().map(|(_, key)| key.clone()).collect();
            let rows = self.operate(self.table.id, primary_keys, of_row, &all).await?;
            wanted.clear();
            for ((at, _), row) in named.into_iter().zip(rows) {
                match row {
                    Some(row) if self.has_key(index, &row, &keys[at]) => {
                        found[at] = Some(self.project(&row));
                    }
                    // Skipped, or gone and perhaps made anew.
                    _ if of_row.wait == WaitPolicy::Skip => {}
                    _ => wanted.push(at),
                }
            }
            if wanted.is_empty() {
                return Ok(found);
            }
        }
        Err(Failure::Refused(Refusal::new(ErrorCode::LockTimeout, index.name.clone())))
    }

    fn has_key(&self, index: &UniqueIndexDef, row: &[Value], key: &[Value]) -> bool {
        let of_row: Option<Values> =
            index.columns.iter().map(|c| row.get(usize::from(c.0)).cloned()).collect();
        let Some(of_row) = of_row else { return false };
        if of_row.contains(&Value::Null) {
            return false;
        }
        let encoded = |values: &[Value]| self.table.key_of_values(&index.columns, values);
        encoded(&of_row) == encoded(key)
    }

    fn project(&self, row: &[Value]) -> Values {
        match &self.projection {
            Projection::All => row.to_vec(),
            Projection::Nothing => Vec::new(),
            Projection::Columns(columns) => {
                columns.iter().map(|c| row[usize::from(c.0)].clone()).collect()
            }
        }
    }
}

/// Whether a refused read means that there is no such row for the statement.
fn absent(refusal: &Refusal, wait: WaitPolicy) -> bool {
    refusal.code == ErrorCode::RowNotFound
        || refusal.code == ErrorCode::LockUnavailable && wait == WaitPolicy::Skip
}

/// The primary key that an entry of a unique index names: the entry holds the indexed columns, then
/// those columns of the primary key that are not among them.
fn primary_key_of(table: &Table, index: &UniqueIndexDef, entry: &[Value]) -> Values {
    let rest: Vec<ColumnId> =
        table.primary_key.iter().copied().filter(|c| !index.columns.contains(c)).collect();
    let place = |column: &ColumnId| {
        let indexed = index.columns.iter().position(|c| c == column);
        let after = || rest.iter().position(|c| c == column).map(|at| index.columns.len() + at);
        indexed.or_else(after).expect("a key column is indexed or among the rest")
    };
    table.primary_key.iter().map(|column| entry[place(column)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_its_primary_key_in_key_order() {
        let columns = ["a", "b", "c", "d"].map(|name| testing::column(name, testing::BIGINT));
        let table = testing::table("t")
            .columns(columns)
            .primary_key(["d", "b", "a"])
            .distribution_key(["d"])
            .unique("u", ["c", "b"])
            .build();
        let index = &table.unique_indexes[0];
        // c, b, then d and a in the order of the primary key.
        let entry = [2, 1, 3, 0].map(Value::Int);
        let key = primary_key_of(&table, index, &entry);
        assert_eq!(key, [3, 1, 0].map(Value::Int));
    }
}
