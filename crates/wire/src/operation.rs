//! Operations of a transaction on single rows.

use codec::Codec;
use model::{ColumnId, Epoch, Expression, Key, OperationNumber, PartitionId, Refusal, Row};

/// A lock on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub enum LockMode {
    /// None: the committed row, or the transaction's own change of it.
    Committed,
    /// Others may read-lock it too.
    Shared,
    /// Nobody else may lock it.
    Exclusive,
}

/// What to do when a row is locked by another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum WaitPolicy {
    /// Wait, as long as the request says.
    Wait,
    /// Refuse at once with `LockUnavailable` (NOWAIT).
    Refuse,
    /// Scans: leave the row out (SKIP LOCKED). Key operations treat it as `Refuse`.
    Skip,
}

/// Which columns of a row to return.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub enum Projection {
    /// The row as stored.
    All,
    /// Only whether it is there; the returned row is empty.
    Nothing,
    /// These columns in this order, encoded in a layout of their own
    /// (`RowLayout::new(0, columns)`).
    Columns(Vec<ColumnId>),
}

impl Projection {
    /// These columns, of which there may be none.
    pub fn of(columns: Vec<ColumnId>) -> Self {
        if columns.is_empty() { Self::Nothing } else { Self::Columns(columns) }
    }
}

/// One operation.
#[derive(Clone, Debug, Codec)]
pub struct Operation {
    /// Ascending in the transaction; also the name of a savepoint after it.
    pub number: OperationNumber,
    /// Where the row lives, computed by the client from the key.
    pub partition: PartitionId,
    /// The version of the table's definition the operation was made for.
    pub table_version: u32,
    /// What to do.
    pub kind: OperationKind,
}

/// What an operation does. Updates see the row as the transaction has left it so far.
#[derive(Clone, Debug, Codec)]
pub enum OperationKind {
    /// Reads a row by primary key.
    Read {
        /// Encoded primary key.
        key: Key,
        /// Lock to take and keep until the transaction ends.
        lock: LockMode,
        /// What if it is locked.
        wait: WaitPolicy,
        /// What to return.
        projection: Projection,
        /// The row as of this complete epoch, unless the transaction has changed it; without a lock
        /// only. The newest committed row otherwise.
        snapshot: Option<Epoch>,
    },
    /// Adds a row; refused with `RowExists` when its key is there.
    Insert {
        /// In the table's newest layout.
        row: Row,
    },
    /// Changes columns of a row; refused with `RowNotFound` or `ConditionFalse`.
    Update {
        /// Encoded primary key.
        key: Key,
        /// Must be true of the row.
        condition: Option<Expression>,
        /// New column values, all computed from the row before the update.
        assignments: Vec<(ColumnId, Expression)>,
    },
    /// Adds the row or replaces the one with its key.
    Upsert {
        /// In the table's newest layout.
        row: Row,
    },
    /// Removes a row; refused with `RowNotFound` or `ConditionFalse`.
    Delete {
        /// Encoded primary key.
        key: Key,
        /// Must be true of the row.
        condition: Option<Expression>,
    },
}

impl OperationKind {
    /// The encoded primary key the operation names; none when it brings the row.
    pub fn key(&self) -> Option<&Key> {
        match self {
            OperationKind::Read { key, .. }
            | OperationKind::Update { key, .. }
            | OperationKind::Delete { key, .. } => Some(key),
            OperationKind::Insert { .. } | OperationKind::Upsert { .. } => None,
        }
    }

    /// Whether the operation may change the row.
    pub fn is_write(&self) -> bool {
        !matches!(self, OperationKind::Read { .. })
    }
}

/// What a successful operation answers.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub enum OperationOutcome {
    /// The row that was read, projected.
    Row(Row),
    /// The change is staged on every replica.
    Written(Effect),
}

/// What a change has made of the row with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Effect {
    /// There was none before.
    Created,
    /// The row is what it was before, byte for byte.
    Unchanged,
    /// Another one, or none, is in its place.
    Changed,
}

impl Effect {
    /// Whether a row with the key was there before.
    pub fn existed(self) -> bool {
        self != Self::Created
    }
}

/// The answer to one operation.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct OperationResult {
    /// Which.
    pub number: OperationNumber,
    /// A refused operation has left no effect.
    pub result: Result<OperationOutcome, Refusal>,
}
