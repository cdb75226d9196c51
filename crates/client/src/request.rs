//! What a client can be asked for, in terms of tables and values.

use std::sync::Arc;

use model::{ColumnId, Epoch, Expression, IndexId, TableId, Value};
use vector::{JoinPlan, Program};
use wire::{LockMode, Projection, ScanOrder, WaitPolicy};

/// One operation of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOperation {
    /// The table.
    pub table: TableId,
    /// The version of the table's definition it was made for, if only that will do: refused with
    /// `SchemaChanged` when there is another. Otherwise it runs under the newest one that it fits.
    pub version: Option<u32>,
    /// What to do.
    pub action: OperationAction,
}

/// What an operation does. Keys are the primary key's values in key order, rows one value per
/// column.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationAction {
    /// Reads a row as the transaction sees it; refused with `RowNotFound`.
    Read {
        /// Primary key.
        key: Vec<Value>,
        /// Lock to take and keep until the transaction ends.
        lock: LockMode,
        /// What if it is locked.
        wait: WaitPolicy,
        /// What to return.
        projection: Projection,
        /// Read as of this epoch, which the session holds, unless the transaction has changed the
        /// row; without a lock only.
        snapshot: Option<Epoch>,
    },
    /// Adds a row; refused with `RowExists` or `UniqueViolation`.
    Insert {
        /// All columns.
        row: Vec<Value>,
    },
    /// Adds the row or replaces the one with its primary key.
    Upsert {
        /// All columns.
        row: Vec<Value>,
    },
    /// Changes columns; refused with `RowNotFound`, `ConditionFalse` or `UniqueViolation`.
    Update {
        /// Primary key.
        key: Vec<Value>,
        /// Must be true of the row.
        condition: Option<Expression>,
        /// New values, computed from the row before the update.
        assignments: Vec<(ColumnId, Expression)>,
    },
    /// Removes a row; refused with `RowNotFound` or `ConditionFalse`.
    Delete {
        /// Primary key.
        key: Vec<Value>,
        /// Must be true of the row.
        condition: Option<Expression>,
    },
}

impl OperationAction {
    /// The primary key it names; none when it brings the row.
    pub(crate) fn key(&self) -> Option<&[Value]> {
        match self {
            Self::Read { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => {
                Some(key)
            }
            Self::Insert { .. } | Self::Upsert { .. } => None,
        }
    }
}

impl ClientOperation {
    /// Reads all columns without a lock: the committed row, or the transaction's own change.
    pub fn read(table: TableId, key: Vec<Value>) -> Self {
        Self::read_locked(table, key, LockMode::Committed)
    }

    /// Reads all columns and locks the row until the transaction ends.
    pub fn read_locked(table: TableId, key: Vec<Value>, lock: LockMode) -> Self {
        let (wait, projection, snapshot) = (WaitPolicy::Wait, Projection::All, None);
        let action = OperationAction::Read { key, lock, wait, projection, snapshot };
        Self { table, version: None, action }
    }

    /// Reads all columns without a lock: the row as of an epoch that the session holds, or the
    /// transaction's own change.
    pub fn read_at(table: TableId, key: Vec<Value>, snapshot: Epoch) -> Self {
        let (lock, wait, projection) = (LockMode::Committed, WaitPolicy::Wait, Projection::All);
        let snapshot = Some(snapshot);
        let action = OperationAction::Read { key, lock, wait, projection, snapshot };
        Self { table, version: None, action }
    }

    /// Adds a row.
    pub fn insert(table: TableId, row: Vec<Value>) -> Self {
        Self { table, version: None, action: OperationAction::Insert { row } }
    }

    /// Adds or replaces a row.
    pub fn upsert(table: TableId, row: Vec<Value>) -> Self {
        Self { table, version: None, action: OperationAction::Upsert { row } }
    }

    /// Changes columns of a row.
    pub fn update(
        table: TableId,
        key: Vec<Value>,
        assignments: Vec<(ColumnId, Expression)>,
    ) -> Self {
        Self {
            table,
            version: None,
            action: OperationAction::Update { key, condition: None, assignments },
        }
    }

    /// Changes columns of a row if `condition` is true of it.
    pub fn update_if(
        table: TableId,
        key: Vec<Value>,
        condition: Expression,
        assignments: Vec<(ColumnId, Expression)>,
    ) -> Self {
        let condition = Some(condition);
        Self {
            table,
            version: None,
            action: OperationAction::Update { key, condition, assignments },
        }
    }

    /// The same for this version of the table's definition only.
    #[must_use]
    pub fn of_version(self, version: u32) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Removes a row.
    pub fn delete(table: TableId, key: Vec<Value>) -> Self {
        Self { table, version: None, action: OperationAction::Delete { key, condition: None } }
    }
}

/// What a committed read looks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadKey {
    /// The primary key's values in key order.
    Primary(Vec<Value>),
    /// The values of a unique index that is online.
    ///
    /// In a snapshot older than the index, rows have no entry and are not found.
    Unique {
        /// The index.
        index: IndexId,
        /// Values of its columns, none NULL.
        key: Vec<Value>,
    },
}

/// One row to read as committed, outside any transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRead {
    /// The table.
    pub table: TableId,
    /// Which row.
    pub key: ReadKey,
    /// What to return.
    pub projection: Projection,
}

impl ClientRead {
    /// All columns of the row with this primary key.
    pub fn primary(table: TableId, key: Vec<Value>) -> Self {
        Self { table, key: ReadKey::Primary(key), projection: Projection::All }
    }

    /// All columns of the row with this unique key.
    pub fn unique(table: TableId, index: IndexId, key: Vec<Value>) -> Self {
        Self { table, key: ReadKey::Unique { index, key }, projection: Projection::All }
    }
}

/// What a scan runs over.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanRange {
    /// All rows.
    Heap,
    /// A range of an ordered index.
    Index {
        /// The index.
        index: IndexId,
        /// Lower bound; none for the start.
        lower: Option<IndexBound>,
        /// Upper bound; none for the end.
        upper: Option<IndexBound>,
        /// Order over all partitions; none when any order will do.
        order: Option<ScanOrder>,
    },
    /// Rows of an ordered index that begin with some keys, in any order; only with a program. Data
    /// nodes that do not know of it give more rows.
    Keys {
        /// The index.
        index: IndexId,
        /// Values of as many of its first columns, each time.
        keys: Vec<Vec<Value>>,
    },
}

/// An end of a range of an ordered index: how the rows begin that it is at.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexBound {
    /// Values of the index's leading columns.
    pub values: Vec<Value>,
    /// What the text in the column behind them begins with, in characters that the column's
    /// collation takes for equal.
    pub prefix: Option<Box<[u8]>>,
    /// Whether rows that begin so are included.
    pub inclusive: bool,
}

impl IndexBound {
    /// Rows that begin with these values are included.
    pub fn including(values: Vec<Value>) -> Self {
        Self { values, prefix: None, inclusive: true }
    }
}

/// A scan of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanSpec {
    /// The table.
    pub table: TableId,
    /// Over what.
    pub range: ScanRange,
    /// Only rows of which this is true.
    pub filter: Option<Expression>,
    /// What to return of each row.
    pub projection: Projection,
    /// Most rows to return.
    pub limit: Option<u64>,
    /// Lock each returned row until the transaction ends; other than `Committed` only with
    /// `in_transaction`.
    pub lock: LockMode,
    /// What if a row is locked.
    pub wait: WaitPolicy,
    /// Values of the distribution key, in its order: only their partitions are scanned. All
    /// partitions if there are none of it; refused if they do not fit the key.
    pub partition_keys: Option<Vec<Vec<Value>>>,
    /// Read as of this epoch, which the session holds; with `in_transaction` the session's own
    /// changes are laid over it. Not with locks.
    pub snapshot: Option<Epoch>,
    /// See the session's own changes, and lock in its transaction; begins one if none is open.
    pub in_transaction: bool,
    /// What the data nodes are to make of the rows. They then bring blocks of its result, and rows
    /// only where they cannot: those are as without a program, and nothing of it is done to them.
    /// Not with locks, an order or a limit.
    pub program: Option<Arc<Program>>,
    /// What to look up for the rows that the program yields, and what to make of the joined rows:
    /// all that comes then are blocks of its result. Refused with `NotPushed` where data nodes
    /// cannot compute it, and with `OlderNode` by those that do not know of joins; not in the
    /// transaction.
    pub join: Option<Arc<JoinPlan>>,
    /// Wait first for the rows that other transactions have put into the range and have not
    /// committed; only with a lock, and `WaitPolicy::Wait`.
    pub settled: bool,
    /// Until the transaction ends nobody else changes which rows are in the range and pass the
    /// filter, nor these rows. Only with `in_transaction` and `WaitPolicy::Wait`, and not with a
    /// snapshot.
    pub guarded: bool,
}

impl ScanSpec {
    /// All committed rows of a table, in no order.
    pub fn heap(table: TableId) -> Self {
        Self {
            table,
            range: ScanRange::Heap,
            filter: None,
            projection: Projection::All,
            limit: None,
            lock: LockMode::Committed,
            wait: WaitPolicy::Wait,
            partition_keys: None,
            snapshot: None,
            in_transaction: false,
            program: None,
            join: None,
            settled: false,
            guarded: false,
        }
    }

    /// All committed rows of a table in the order of an index.
    pub fn index(table: TableId, index: IndexId, order: ScanOrder) -> Self {
        let range = ScanRange::Index { index, lower: None, upper: None, order: Some(order) };
        Self { range, ..Self::heap(table) }
    }
}
