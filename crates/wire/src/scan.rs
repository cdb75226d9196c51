//! Scans: one stream of row batches per partition, from the participant straight to the client.
//!
//! The participant sends a batch only when asked (`Open`, `Next`), so a slow client costs no
//! memory at the data node. A scan that meets a locked row after it has rows to send, sends them
//! first: it never sleeps on a lock while it sits on results.

mod rows;

use std::sync::Arc;

use codec::Codec;
use model::{
    Address, Epoch, Expression, IndexId, OperationNumber, PartitionId, Refusal, Row, ScanNumber,
    SessionId, TransactionId,
};

use stdx::Duration;
use vector::{Block, JoinPlan, Program};

use crate::chain::Chain;
use crate::operation::{LockMode, Projection, WaitPolicy};
use crate::transaction::{CoordinatorRef, LegId};

pub use rows::ScanRows;

/// Names one scan of one session over all its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct ScanId {
    /// The session.
    pub session: SessionId,
    /// Counts the session's scans.
    pub number: ScanNumber,
}

/// Direction of an ordered scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum ScanOrder {
    /// Ascending keys.
    Ascending,
    /// Descending keys.
    Descending,
}

/// What a scan runs over. Bounds are encoded key prefixes (`model::key`): a bound that holds fewer
/// columns than the index stands for all keys beginning with it.
#[derive(Clone, Debug, Codec)]
pub enum ScanSource {
    /// All rows, in row id order.
    Heap,
    /// A range of an ordered index.
    Index {
        /// The index.
        index: IndexId,
        /// Lower bound: `(key, inclusive)`; none for the start.
        lower: Option<(Box<[u8]>, bool)>,
        /// Upper bound: `(key, inclusive)`; none for the end.
        upper: Option<(Box<[u8]>, bool)>,
        /// Direction.
        order: ScanOrder,
    },
}

/// The transaction a scan runs in.
#[derive(Clone, Copy, Debug, Codec)]
pub struct ScanTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its coordinator.
    pub coordinator: CoordinatorRef,
    /// The leg that owns the locks taken.
    pub leg: LegId,
    /// Own changes up to this operation are seen, later ones are not (Halloween protection).
    pub seen_to: OperationNumber,
}

/// Opens a scan of one partition.
#[derive(Clone, Debug, Codec)]
pub struct ScanRequest {
    /// Name of the scan.
    pub scan: ScanId,
    /// The partition.
    pub partition: PartitionId,
    /// Version of the table's definition the scan was made for.
    pub table_version: u32,
    /// Where batches go.
    pub reply_to: Address,
    /// The transaction, when rows are locked or own changes matter.
    pub transaction: Option<ScanTransaction>,
    /// Read as of this complete epoch, with the transaction's own changes laid over it if there is
    /// one; excludes locks.
    pub snapshot: Option<Epoch>,
    /// What to scan.
    pub source: ScanSource,
    /// Only rows of which this is true.
    pub filter: Option<Expression>,
    /// What to return of each row.
    pub projection: Projection,
    /// Return the index key of each row too, to merge the streams of partitions by.
    pub keys: bool,
    /// Lock each returned row and keep the lock until the transaction ends.
    pub lock: LockMode,
    /// What if a row is locked.
    pub wait: WaitPolicy,
    /// How long it waits for a row's lock; the cluster's lock time-out unless given.
    pub lock_wait: Option<Duration>,
    /// Wait first for the rows that other transactions have put into the range and not committed.
    pub settled: bool,
    /// Until the transaction ends nobody else puts a row into the range, changes one in it or takes
    /// one out of it. Rows that others have staged there are waited for first.
    pub guarded: bool,
    /// Stop after this many rows of the partition.
    pub limit: Option<u64>,
    /// The chain the client routed a locking scan by; empty for others.
    pub chain: Chain,
    /// What to make of the rows, instead of `filter` and `projection`. A participant that does not
    /// know of programs goes by those, so they are given too.
    #[codec(since = 3)]
    pub program: Option<Arc<Program>>,
    /// What to look up for the rows that the program yields. A participant hands such a request to
    /// the joiner of its worker, whose batches bring the result; batches of a participant itself
    /// come of one that does not know of joins.
    #[codec(since = 7)]
    pub join: Option<Arc<JoinPlan>>,
    /// Rows of a batch, at most, when fewer are wanted than the participant would send: of many
    /// partitions that are merged to some rows each brings a part of them.
    #[codec(since = 8)]
    pub batch_rows: Option<u32>,
    /// Of a range of an index only the rows whose keys begin with one of these, in ascending order,
    /// none of which begins with another. Only with a program. A participant that does not know of
    /// them gives the whole range.
    #[codec(since = 13)]
    pub prefixes: Option<Arc<Vec<Box<[u8]>>>>,
}

/// One row of a scan; [`ScanRows`] are many.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct ScanRow {
    /// The index key, for merging ordered streams, if the request asked for it.
    pub key: Box<[u8]>,
    /// The row, projected.
    pub row: Row,
}

/// How a scan of a partition goes on.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub enum ScanStatus {
    /// Ask for the next batch.
    More,
    /// That was all; the participant has forgotten the scan.
    Finished,
    /// It cannot go on; the participant has forgotten the scan.
    Failed(Refusal),
}

/// Some rows of a scan of one partition.
#[derive(Clone, Debug, Codec)]
pub struct ScanBatch {
    /// Which scan.
    pub scan: ScanId,
    /// Which partition.
    pub partition: PartitionId,
    /// Rows in scan order; possibly none. Of a scan with a program: rows of its inputs of which
    /// something cannot be computed, or all that pass `filter` if the participant knows no
    /// programs.
    pub rows: ScanRows,
    /// What comes after.
    pub status: ScanStatus,
    /// What the program has made of the other rows.
    #[codec(since = 3)]
    pub blocks: Vec<Block>,
    /// Rows that were looked at for it, whether they passed or not.
    #[codec(since = 6)]
    pub examined: u64,
}

/// Between clients and participants, with a joiner between them where there is something to join.
#[derive(Clone, Debug, Codec)]
pub enum ScanMessage {
    /// Client (or coordinator, in a transaction): open, and send the first batch.
    #[doc(alias = "SCAN_FRAGREQ")]
    Open(Box<ScanRequest>),
    /// Client: send the next batch.
    Next {
        /// Which scan.
        scan: ScanId,
        /// Which partition.
        partition: PartitionId,
    },
    /// Client: forget the scan. No answer.
    Close {
        /// Which scan.
        scan: ScanId,
        /// Which partition.
        partition: PartitionId,
    },
    /// Participant: rows.
    Batch(Box<ScanBatch>),
}

impl ScanMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            ScanMessage::Open(_) => "ScanOpen",
            ScanMessage::Next { .. } => "ScanNext",
            ScanMessage::Close { .. } => "ScanClose",
            ScanMessage::Batch(_) => "ScanBatch",
        }
    }
}
