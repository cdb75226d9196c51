//! Messages of the transaction protocol: client, coordinator, participants.
//!
//! A *leg* is the part of a transaction that lives in one write chain: the operations whose
//! partitions have the same replicas on the same workers. Prepare runs down the chain (primary to
//! last backup), commit runs up (last backup to primary), complete goes to all. What one leg
//! begins and commits with one message is committed on the way back up its chain.
//! Walk-through: `docs/internals/transactions.md`.

use codec::Codec;
use model::{
    Address, ControlIndex, Epoch, Incarnation, Key, NodeId, OperationNumber, PartitionId, Refusal,
    Row, RowId, SessionId, TransactionId,
};
use stdx::{Duration, Few};

use crate::chain::Chain;
use crate::deadlock::{Besides, DeadlockSearch};
use crate::encoding::{are_rows, is_key, is_row};
use crate::operation::{Operation, OperationOutcome, OperationResult, Projection};
use crate::scan::ScanRequest;

/// A leg's position in its transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct LegId(pub u16);

/// A coordinator in one of its lives: who must settle a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct CoordinatorRef {
    /// Where.
    pub address: Address,
    /// Which life of the node.
    pub incarnation: Incarnation,
}

/// What a client asks a coordinator.
#[derive(Clone, Debug, Codec)]
pub enum ClientRequest {
    /// Runs operations in the transaction, opening it if this is its first request.
    #[doc(alias = "TCKEYREQ")]
    Execute {
        /// The transaction.
        transaction: TransactionId,
        /// The session's request counter; the answer repeats it.
        request: u64,
        /// Operations with ascending numbers.
        operations: Vec<Operation>,
        /// Commit when every operation has succeeded; abort when one was refused.
        commit: bool,
        /// How long each operation waits for a lock; the cluster's lock time-out unless given.
        lock_wait: Option<Duration>,
    },
    /// Commits.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// Request counter.
        request: u64,
    },
    /// Aborts.
    Abort {
        /// The transaction.
        transaction: TransactionId,
        /// Request counter.
        request: u64,
    },
    /// Undoes all operations numbered above `after`; their locks stay.
    RollbackTo {
        /// The transaction.
        transaction: TransactionId,
        /// Request counter.
        request: u64,
        /// The savepoint.
        after: OperationNumber,
    },
    /// Opens a scan that locks rows or sees the transaction's own changes; opens the transaction
    /// if this is its first request. Batches come from the participant itself.
    Scan {
        /// The transaction.
        transaction: TransactionId,
        /// What to scan; `transaction` in it is filled in by the coordinator.
        scan: Box<ScanRequest>,
        /// Own changes up to this operation are seen, whichever have been made since: a scan opens
        /// its partitions one after the other.
        seen_to: OperationNumber,
    },
    /// Asks for a snapshot of all that is committed now, and holds it.
    OpenSnapshot {
        /// Who holds it.
        session: SessionId,
        /// Request counter.
        request: u64,
    },
    /// Lets go of a snapshot.
    CloseSnapshot {
        /// Who held it.
        session: SessionId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Asks to be told when everything committed up to an epoch is on the disks of all complete
    /// replicas.
    AwaitDurable {
        /// Who asks.
        session: SessionId,
        /// Request counter.
        request: u64,
        /// The epoch.
        epoch: Epoch,
        /// Answer at once how far it is, instead of waiting.
        peek: bool,
    },
    /// Asks how a transaction ended whose answer was lost. Any coordinator may be asked; after the
    /// answer the transaction cannot commit any more if it has not.
    Outcome {
        /// The transaction.
        transaction: TransactionId,
        /// Request counter.
        request: u64,
        /// The coordinator it ran on.
        coordinator: CoordinatorRef,
    },
}

/// How a transaction stands.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub enum TransactionState {
    /// Open; operations that were refused have left no effect.
    Open,
    /// Committed in this epoch (zero when it changed nothing).
    Committed(Epoch),
    /// Aborted, and why.
    Aborted(Refusal),
}

/// What a data node answers a client.
#[derive(Clone, Debug, Codec)]
pub enum ClientReply {
    /// To `Execute`, `Commit`, `Abort`, `RollbackTo`.
    Transaction {
        /// The transaction.
        transaction: TransactionId,
        /// The request answered; zero when the coordinator aborts unasked.
        request: u64,
        /// One result per operation of the request, in order. Empty when the transaction was
        /// aborted before all were known.
        results: Vec<OperationResult>,
        /// Where the transaction stands now.
        state: TransactionState,
    },
    /// To `AwaitDurable`.
    Durable {
        /// Who asked.
        session: SessionId,
        /// The request answered.
        request: u64,
        /// Everything up to this epoch is on the disks; refused where nodes have none.
        result: Result<Epoch, Refusal>,
    },
    /// To `OpenSnapshot`.
    Snapshot {
        /// Who.
        session: SessionId,
        /// Request counter.
        request: u64,
        /// The snapshot's epoch, held until closed.
        result: Result<Epoch, Refusal>,
    },
    /// To `Outcome`.
    Outcome {
        /// The transaction.
        transaction: TransactionId,
        /// Request counter.
        request: u64,
        /// Its end. A refusal means: not known yet, or not known any more.
        result: Result<TransactionState, Refusal>,
    },
    /// To `ReadRequest`.
    Read {
        /// Who.
        session: SessionId,
        /// Request counter.
        request: u64,
        /// One row or none per key, in order; a refusal answers the whole request.
        result: Result<Vec<Option<Row>>, Refusal>,
    },
}

/// A committed read by primary key.
#[derive(Clone, Debug, Codec)]
pub struct KeyRead {
    /// Where.
    pub partition: PartitionId,
    /// Encoded primary key.
    pub key: Key,
    /// What to return.
    pub projection: Projection,
}

/// Committed reads sent straight from a client to a replica; all partitions have one there.
#[derive(Clone, Debug, Codec)]
pub struct ReadRequest {
    /// Who asks.
    pub session: SessionId,
    /// Request counter.
    pub request: u64,
    /// Read as of this complete epoch; the newest committed rows otherwise.
    pub snapshot: Option<Epoch>,
    /// The keys.
    pub reads: Vec<KeyRead>,
}

/// Which operations of a leg to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum RollbackScope {
    /// Those numbered above.
    After(OperationNumber),
    /// This one; refused with `Internal` if a later operation changed the same row.
    Only(OperationNumber),
}

/// A change a primary has computed, on its way down the chain.
#[derive(Clone, Debug, Codec)]
pub struct StagedWrite {
    /// The operation.
    pub number: OperationNumber,
    /// The partition.
    pub partition: PartitionId,
    /// The row's place, chosen by the primary.
    pub row_id: RowId,
    /// Encoded primary key.
    #[codec(check = is_key)]
    pub key: Key,
    /// The whole row after the operation; none when it deletes.
    #[codec(check = is_row)]
    pub after: Option<Row>,
    /// The row did not exist before the transaction. If it does not after it either, the slot
    /// stays as it was on every replica.
    pub fresh: bool,
}

/// The row before and after an operation: what unique indexes and journals are maintained from.
#[derive(Clone, Debug, Codec)]
pub struct UniqueImages {
    /// Before, if it existed.
    #[codec(check = is_row)]
    pub before: Option<Row>,
    /// After, if it exists.
    #[codec(check = is_row)]
    pub after: Option<Row>,
}

/// The answer to one operation inside the cluster.
#[derive(Clone, Debug, Codec)]
pub struct PreparedOperation {
    /// Which.
    pub number: OperationNumber,
    /// How it went; a refused one has left no effect on any replica.
    pub result: Result<OperationOutcome, Refusal>,
    /// For changes of tables that have unique indexes or a journal.
    pub images: Option<Box<UniqueImages>>,
    /// The operation itself, given back with a refusal as `StaleRoute`, to be sent elsewhere.
    pub returned: Option<Box<Operation>>,
}

impl PreparedOperation {
    /// An operation that has succeeded.
    pub fn done(number: OperationNumber, outcome: OperationOutcome) -> Self {
        Self { number, result: Ok(outcome), images: None, returned: None }
    }

    /// An operation that was refused.
    pub fn refused(number: OperationNumber, refusal: Refusal) -> Self {
        Self { number, result: Err(refusal), images: None, returned: None }
    }
}

/// What participants are told.
#[derive(Clone, Debug, Codec)]
pub enum ParticipantMessage {
    /// Client: committed reads.
    Read(Box<ReadRequest>),
    /// Coordinator to primary: execute operations, then pass changes down the chain.
    #[doc(alias = "LQHKEYREQ")]
    Prepare {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// The whole chain, primary (the receiver) first. Refused with `StaleRoute` when the
        /// receiver's newest state has another one.
        chain: Chain,
        /// Operations of this leg, numbers ascending.
        operations: Few<Operation>,
        /// How long each waits for a lock; the cluster's lock time-out unless given.
        lock_wait: Option<Duration>,
        /// What else the transaction holds and does.
        besides: Besides,
    },
    /// Replica to the next one: stage these changes.
    Replicate {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Who coordinates.
        coordinator: CoordinatorRef,
        /// The whole chain; the receiver finds itself in it.
        chain: Chain,
        /// The changes.
        writes: Few<StagedWrite>,
        /// Answers for the coordinator; the last replica delivers them.
        results: Few<PreparedOperation>,
    },
    /// Up the chain: the transaction commits. Backups note it and pass it on; the primary (the
    /// last receiver) applies it, releases the locks and tells the coordinator.
    Commit {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// The commit epoch.
        epoch: Epoch,
        /// Who is still to be told, next one last; the receiver is not in it.
        up: Chain,
        /// The primary keeps its record until `Complete`: the transaction has other legs.
        keep: bool,
        /// Where to answer.
        coordinator: Address,
        /// Repeated in the answer; tells a repeated round from an earlier one.
        attempt: u32,
    },
    /// All primaries have applied: apply too, forget the leg.
    Complete {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Repeated in the answer.
        attempt: u32,
    },
    /// Down the chain: undo everything of the leg, release its locks, forget it.
    Abort {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Who is still to be told after the receiver, next one first.
        down: Chain,
        /// Where each replica answers.
        coordinator: Address,
        /// Repeated in the answer.
        attempt: u32,
    },
    /// Down the chain: undo some operations of the leg; locks stay.
    Rollback {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Which operations.
        scope: RollbackScope,
        /// Who is still to be told after the receiver, next one first.
        down: Chain,
        /// Repeated in the answer, which the last replica gives.
        attempt: u32,
    },
    /// A new coordinator asks for all transactions of a dead one. Answered once the receiver has
    /// itself applied the removal of that life.
    #[doc(alias = "LQH_TRANSREQ")]
    TakeoverQuery {
        /// The dead node.
        node: NodeId,
        /// The dead life.
        incarnation: Incarnation,
        /// Repeated in the answer.
        attempt: u32,
    },
    /// Did this transaction commit here?
    OutcomeProbe {
        /// The transaction.
        transaction: TransactionId,
        /// Repeated in the answer.
        probe: u64,
    },
    /// A syncing replica asks the primary for a partition's rows.
    #[doc(alias = "COPY_FRAGREQ")]
    CopyRequest {
        /// The partition.
        partition: PartitionId,
        /// The receiver already has everything up to this epoch; zero for nothing.
        from: Epoch,
        /// Chosen by the asker; answers to an older copy are ignored.
        copy: u64,
    },
    /// Rows and empty slots of a partition, in slot order, read under a shared lock each.
    CopyRows {
        /// The partition.
        partition: PartitionId,
        /// Which copy.
        copy: u64,
        /// Slot, epoch of its last change, content if any.
        #[codec(check = are_rows)]
        rows: Vec<(RowId, Epoch, Option<Row>)>,
        /// The copy is complete: the source has this many slots.
        finished: Option<u32>,
    },
    /// The source's outcomes of sessions, sent before a copy is finished: whoever has the rows can
    /// also say which transactions put them there.
    CopyOutcomes {
        /// The partition.
        partition: PartitionId,
        /// Which copy.
        copy: u64,
        /// Last commit of a session, and its epoch.
        outcomes: Vec<(TransactionId, Epoch)>,
        /// The source has had to drop entries of other sessions.
        forgotten: bool,
    },
    /// The node's control actor: read back what the worker has on its disk, as far as it counts in
    /// the cluster the node has joined. Answered with `ControlMessage::WorkerRestored`.
    #[codec(local)]
    Restore {
        /// Everything up to this epoch counts; zero when nothing does.
        through: Epoch,
    },
    /// Driver: write everything up to this epoch, which is complete, to the disk. Answered with
    /// `EpochMessage::Saved`.
    #[doc(alias = "GCP_SAVEREQ")]
    Save {
        /// The epoch.
        epoch: Epoch,
    },
    /// Driver: everything up to this epoch is on the disks of all complete replicas, so that no
    /// restart goes back behind it.
    Durable {
        /// The epoch.
        epoch: Epoch,
        /// No later epoch is called durable before this participant has it on its disk.
        waited: bool,
    },
    /// Coordinator: passes a search on to those who hold what the leg waits for here.
    DeadlockProbe {
        /// The search so far.
        search: Box<DeadlockSearch>,
        /// Who may wait here.
        transaction: TransactionId,
        /// Its leg here.
        leg: LegId,
    },
    /// Coordinator to the participant of its worker: someone is to be told that everything up to
    /// this epoch is durable. Answered with `EpochMessage::Noted` when the disk says so.
    #[codec(local)]
    Note {
        /// The epoch.
        epoch: Epoch,
    },
    /// Takes `CopyRows` into account; the source may send one more.
    CopyAck {
        /// The partition.
        partition: PartitionId,
        /// Which copy.
        copy: u64,
    },
    /// Coordinator to primary: as `Prepare`, and commit in this epoch if all operations succeed at
    /// once. Otherwise `Prepared` says that it has become a `Prepare`.
    #[codec(since = 12)]
    PrepareAndCommit {
        /// The transaction; it has no other leg.
        transaction: TransactionId,
        /// The leg; nothing was sent to it before.
        leg: LegId,
        /// The whole chain, primary (the receiver) first.
        chain: Chain,
        /// Operations, numbers ascending.
        operations: Few<Operation>,
        /// How long each waits for a lock if it must wait; the cluster's lock time-out unless
        /// given.
        lock_wait: Option<Duration>,
        /// The commit epoch.
        epoch: Epoch,
    },
    /// Replica to the next one: stage these changes; who is the last of the chain commits.
    #[codec(since = 12)]
    ReplicateAndCommit {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Who coordinates.
        coordinator: CoordinatorRef,
        /// The whole chain; the receiver finds itself in it.
        chain: Chain,
        /// The changes.
        writes: Few<StagedWrite>,
        /// The commit epoch.
        epoch: Epoch,
    },
    /// Up the chain: all replicas have the changes of the transaction, which is committed thereby.
    /// The receiver applies them and passes it on; the primary tells the coordinator.
    #[codec(since = 12)]
    CommitStaged {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// The commit epoch.
        epoch: Epoch,
        /// Who is still to be told, next one last; the receiver is not in it.
        up: Chain,
        /// Where to answer.
        coordinator: Address,
        /// Repeated in the answer.
        attempt: u32,
    },
    /// Down what is left of a chain: have all of you the changes that were sent with their commit?
    /// The last one that has commits; the first one that has not says `NotStaged`.
    #[codec(since = 12)]
    CommitIfStaged {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Who has them, the primary first; the receiver is not in it.
        up: Chain,
        /// Who is still to be asked after the receiver, next one first.
        down: Chain,
        /// Where to answer.
        coordinator: Address,
        /// Repeated in the answer.
        attempt: u32,
    },
}

/// How far a reported leg is at one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum ReportedLegStatus {
    /// Staged or still executing; no decision seen.
    Open,
    /// Told to commit, not applied.
    Committed(Epoch),
    /// Applied, kept for the other legs.
    Applied(Epoch),
    /// Staged, with the order to commit in this epoch once all replicas have staged it.
    #[codec(since = 12)]
    StagedToCommit {
        /// The commit epoch.
        epoch: Epoch,
        /// The cluster state in which it was staged: whoever joined later is not of the chain.
        began: ControlIndex,
    },
}

/// One leg as one replica knows it.
#[derive(Clone, Debug, Codec)]
pub struct ReportedLeg {
    /// The leg.
    pub leg: LegId,
    /// Its chain as the dead coordinator made it.
    pub chain: Chain,
    /// Its state here.
    pub status: ReportedLegStatus,
}

/// A transaction of a dead coordinator as one participant knows it.
#[derive(Clone, Debug, Codec)]
pub struct ReportedTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its legs here.
    pub legs: Vec<ReportedLeg>,
}

/// What coordinators are told.
#[derive(Clone, Debug, Codec)]
pub enum CoordinatorMessage {
    /// Answers to operations: from the primary for reads and refusals, from the last replica of
    /// the chain for changes.
    #[doc(alias = "LQHKEYCONF")]
    Prepared {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Some of the operations sent.
        results: Few<PreparedOperation>,
    },
    /// A backup cannot stage a change (memory): the whole transaction must be aborted.
    PrepareRefused {
        /// The transaction.
        transaction: TransactionId,
        /// Why.
        refusal: Refusal,
    },
    /// The primary has applied the leg.
    Committed {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Of the commit.
        attempt: u32,
        /// Of operations that came with their commit; none if who knew them has died.
        #[codec(since = 12)]
        results: Few<PreparedOperation>,
    },
    /// This replica has applied and forgotten the leg.
    Completed {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Of the complete.
        attempt: u32,
    },
    /// This replica has undone and forgotten the leg.
    Aborted {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Of the abort.
        attempt: u32,
    },
    /// The last replica of the chain has undone the operations.
    RolledBack {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// A later change of the same row stands in the way.
        refused: bool,
        /// Of the rollback.
        attempt: u32,
    },
    /// An operation or scan of the transaction has waited for locks for a while. Sent again while
    /// it waits.
    Waiting {
        /// Who waits.
        transaction: TransactionId,
        /// Its wait at that participant: an operation's number, or a scan's above 2^32.
        wait: u64,
    },
    /// The wait is over, granted or not.
    WaitOver {
        /// Who waited.
        transaction: TransactionId,
        /// Which wait.
        wait: u64,
    },
    /// A lock that others wait for was granted to the transaction while other operations of it are
    /// under way, or a cycle that it was in is broken: whom it waits for is to be searched.
    SearchDeadlock {
        /// The transaction.
        transaction: TransactionId,
    },
    /// Edge-chasing deadlock probe (Chandy, Misra, Haas 1983): the last transaction of the search
    /// waits for each of the blockers.
    DeadlockProbe {
        /// The search so far.
        search: Box<DeadlockSearch>,
        /// Those of its blockers that the receiver coordinates.
        blockers: Vec<TransactionId>,
    },
    /// The probe has come full circle, and this transaction of the circle is to be aborted.
    /// Answered with `SearchDeadlock`: who began the search may be in another circle too, which
    /// shares some of its way with this one and was not followed therefore.
    DeadlockVictim {
        /// To be aborted, if it has not gone on.
        transaction: TransactionId,
        /// How often it had gone on when the probe passed.
        step: u32,
        /// The circle, from the victim on; not all of a long one.
        cycle: Vec<TransactionId>,
        /// Who began the search; the sender coordinates it.
        initiator: TransactionId,
    },
    /// Answer to `TakeoverQuery`.
    TakeoverReport {
        /// The dead node.
        node: NodeId,
        /// The dead life.
        incarnation: Incarnation,
        /// Of the query.
        attempt: u32,
        /// What is open here.
        transactions: Vec<ReportedTransaction>,
    },
    /// Asks the coordinator of a transaction how it ended, and forbids it to begin.
    OutcomeQuery {
        /// The transaction.
        transaction: TransactionId,
        /// Repeated in the answer.
        probe: u64,
    },
    /// Answer of a coordinator or participant that was asked.
    OutcomeReport {
        /// The transaction.
        transaction: TransactionId,
        /// Of the question.
        probe: u64,
        /// What is known there.
        outcome: KnownOutcome,
    },
    /// From the node's control actor: the write chains of a node's group are about to change.
    /// Nothing is to be begun there until they have, for `span` at most; answered with
    /// `WorkerQuiet` when nothing is open there.
    #[codec(local)]
    Quiesce {
        /// Repeated in the answer. A newer one takes the place of an older one.
        number: u64,
        /// The node that joins or leaves the chains.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// How long, at most; zero ends it.
        span: Duration,
    },
    /// The group that the state holds since this entry is to have its primaries moved. Answered
    /// with `WorkerQuiet` when nothing of any transaction is left there.
    #[codec(local)]
    QuiesceHeld {
        /// Repeated in the answer. A newer one takes the place of an older one.
        number: u64,
        /// The entry.
        since: ControlIndex,
    },
    /// A replica has not staged the changes that were sent with their commit, and never will.
    #[codec(since = 12)]
    NotStaged {
        /// The transaction.
        transaction: TransactionId,
        /// The leg.
        leg: LegId,
        /// Of the question.
        attempt: u32,
    },
}

/// What one actor knows of a transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum KnownOutcome {
    /// It committed in this epoch.
    Committed(Epoch),
    /// It is under way here.
    Open,
    /// Nothing of it here.
    Unknown,
    /// A later transaction of the session committed: this one's end is no longer kept.
    Superseded,
}

impl ClientRequest {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            ClientRequest::Execute { .. } => "Execute",
            ClientRequest::Commit { .. } => "CommitRequest",
            ClientRequest::Abort { .. } => "AbortRequest",
            ClientRequest::RollbackTo { .. } => "RollbackTo",
            ClientRequest::Scan { .. } => "TransactionScan",
            ClientRequest::OpenSnapshot { .. } => "OpenSnapshot",
            ClientRequest::CloseSnapshot { .. } => "CloseSnapshot",
            ClientRequest::AwaitDurable { .. } => "AwaitDurable",
            ClientRequest::Outcome { .. } => "OutcomeRequest",
        }
    }
}

impl ClientReply {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            ClientReply::Transaction { .. } => "TransactionReply",
            ClientReply::Durable { .. } => "DurableReply",
            ClientReply::Snapshot { .. } => "SnapshotReply",
            ClientReply::Outcome { .. } => "OutcomeReply",
            ClientReply::Read { .. } => "ReadReply",
        }
    }
}

impl ParticipantMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            ParticipantMessage::Read(_) => "Read",
            ParticipantMessage::Prepare { .. } => "Prepare",
            ParticipantMessage::Replicate { .. } => "Replicate",
            ParticipantMessage::Commit { .. } => "Commit",
            ParticipantMessage::Complete { .. } => "Complete",
            ParticipantMessage::Abort { .. } => "Abort",
            ParticipantMessage::Rollback { .. } => "Rollback",
            ParticipantMessage::TakeoverQuery { .. } => "TakeoverQuery",
            ParticipantMessage::OutcomeProbe { .. } => "OutcomeProbe",
            ParticipantMessage::CopyRequest { .. } => "CopyRequest",
            ParticipantMessage::CopyRows { .. } => "CopyRows",
            ParticipantMessage::CopyOutcomes { .. } => "CopyOutcomes",
            ParticipantMessage::CopyAck { .. } => "CopyAck",
            ParticipantMessage::DeadlockProbe { .. } => "HolderProbe",
            ParticipantMessage::Restore { .. } => "Restore",
            ParticipantMessage::Save { .. } => "Save",
            ParticipantMessage::Durable { .. } => "Durable",
            ParticipantMessage::Note { .. } => "Note",
            ParticipantMessage::PrepareAndCommit { .. } => "PrepareAndCommit",
            ParticipantMessage::ReplicateAndCommit { .. } => "ReplicateAndCommit",
            ParticipantMessage::CommitStaged { .. } => "CommitStaged",
            ParticipantMessage::CommitIfStaged { .. } => "CommitIfStaged",
        }
    }
}

impl CoordinatorMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            CoordinatorMessage::Prepared { .. } => "Prepared",
            CoordinatorMessage::PrepareRefused { .. } => "PrepareRefused",
            CoordinatorMessage::Committed { .. } => "Committed",
            CoordinatorMessage::Completed { .. } => "Completed",
            CoordinatorMessage::Aborted { .. } => "Aborted",
            CoordinatorMessage::RolledBack { .. } => "RolledBack",
            CoordinatorMessage::Waiting { .. } => "Waiting",
            CoordinatorMessage::WaitOver { .. } => "WaitOver",
            CoordinatorMessage::SearchDeadlock { .. } => "SearchDeadlock",
            CoordinatorMessage::DeadlockProbe { .. } => "DeadlockProbe",
            CoordinatorMessage::DeadlockVictim { .. } => "DeadlockVictim",
            CoordinatorMessage::TakeoverReport { .. } => "TakeoverReport",
            CoordinatorMessage::OutcomeQuery { .. } => "OutcomeQuery",
            CoordinatorMessage::OutcomeReport { .. } => "OutcomeReport",
            CoordinatorMessage::NotStaged { .. } => "NotStaged",
            CoordinatorMessage::Quiesce { .. } => "CoordinatorQuiesce",
            CoordinatorMessage::QuiesceHeld { .. } => "CoordinatorQuiesceHeld",
        }
    }
}
