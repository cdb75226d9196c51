//! What a client tells the actor that embeds it.

use model::{
    Address, Epoch, NodeId, OperationNumber, Refusal, TableId, TransactionId, Value, WorkerId,
};
use vector::Block;
use wire::{CoordinatorRef, Effect, StreamPiece, TransactionState};

use crate::client::ScannedRows;

/// Names an open session of one [`Client`](crate::Client).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u32);

/// Names one request of a client; its events carry it. Never used again in the client's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Something has come of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    /// The session that asked.
    pub session: SessionNumber,
    /// The request.
    pub token: Token,
    /// What became of it.
    pub result: ClientResult,
}

/// A transaction whose end was not learnt in time, as needed to ask for it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsettledTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// The coordinator it was left with.
    pub coordinator: CoordinatorRef,
}

/// The answer to one operation of a batch: the row that was read (its projected values), or
/// what a change has made of the row with its key.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationAnswer {
    /// A read found the row; the projected columns.
    Row(Vec<Value>),
    /// A change is done.
    Written(Effect),
}

/// What has come from data nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Rows and groups, and those whose values were read by key.
    pub rows: u64,
    /// Bytes of their values, about: messages have some dozens of bytes more.
    pub bytes: u64,
    /// Rows that data nodes looked at in scans for it.
    pub examined: u64,
    /// Messages that brought something or said that there is nothing more.
    pub messages: u64,
}

impl Traffic {
    /// Adds what came later.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.examined += other.examined;
        self.messages += other.messages;
    }

    /// What has come since it was as much as in `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            rows: self.rows - before.rows,
            bytes: self.bytes - before.bytes,
            examined: self.examined - before.examined,
            messages: self.messages - before.messages,
        }
    }
}

/// What became of a request. All but [`ClientResult::ScanRows`] with `finished` unset are final.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientResult {
    /// The batch has run, and its transaction stays open. One answer per operation, in order; a
    /// refused operation has left no effect.
    Executed(Vec<Result<OperationAnswer, Refusal>>),
    /// The transaction is committed on every replica.
    Committed {
        /// Its name, which the cluster remembers for a while; none if it had not begun.
        transaction: Option<TransactionId>,
        /// Its epoch; zero when it changed nothing.
        epoch: Epoch,
        /// Answers of the batch that committed. All operations succeeded; only a row that was
        /// read and whose table has changed meanwhile may be missing. Empty for a plain commit,
        /// and when the answer was lost and the end had to be asked for.
        answers: Vec<Result<OperationAnswer, Refusal>>,
    },
    /// The transaction is undone, and the session has none.
    Aborted {
        /// Its name; none if it had not begun.
        transaction: Option<TransactionId>,
        /// Why; nothing when the request was to abort.
        refusal: Option<Refusal>,
        /// Answers of the batch, if all were known when it was aborted.
        answers: Vec<Result<OperationAnswer, Refusal>>,
    },
    /// Whether the transaction committed could not be learnt in time. The session has none.
    OutcomeUnknown(UnsettledTransaction),
    /// The operations after the savepoint are undone; the transaction stays open.
    RolledBack,
    /// One row or none per key read, in order.
    Read(Vec<Option<Vec<Value>>>),
    /// Rows of a scan; never empty unless finished.
    ScanRows {
        /// Projected columns of each row, in scan order.
        rows: ScannedRows,
        /// What the scan's program has made of other rows.
        blocks: Vec<Block>,
        /// What has come of the scan since the last of these events.
        traffic: Traffic,
        /// That was all. Otherwise ask with `scan_next` or end with `scan_close`.
        finished: bool,
    },
    /// The snapshot is held by the session until closed.
    SnapshotOpened(Epoch),
    /// Everything committed up to this epoch is on the disks of all complete replicas.
    Durable(Epoch),
    /// The definition is changed everywhere; the table concerned.
    SchemaChanged(TableId),
    /// How the transaction ended.
    Outcome(TransactionState),
    /// What the workers that were asked have told, by node and worker. Who could not be reached is
    /// missing.
    Inspected(Vec<Inspected>),
    /// What other SQL nodes have answered, and whether an answer may be missing.
    PeersAnswered(PeerAnswers),
    /// What participants have given of a change stream, by address. Who could not be reached in
    /// time is missing.
    Streamed(Vec<(Address, StreamPiece)>),
    /// The request was refused. A transaction that was open stays as it was.
    Failed(Refusal),
}

/// What came of a question to other SQL nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerAnswers {
    /// The answers that came in time, by node.
    pub answers: Vec<Inspected>,
    /// Whether some node was asked, or may have been, whose answer did not come in time.
    pub incomplete: bool,
}

/// What one worker has told.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// Its node.
    pub node: NodeId,
    /// Which of the node's workers.
    pub worker: WorkerId,
    /// Rows as the question describes them (`wire::Inspection`).
    pub rows: Vec<Vec<Value>>,
}

/// A place in a transaction to roll back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(pub(crate) OperationNumber);
