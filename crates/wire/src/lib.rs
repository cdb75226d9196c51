//! Every message between actors, and the envelope it travels in.
//!
//! # Owns
//! Closed, printable enums: what an actor can be told is on one screen. Suffixes say the kind:
//! a request is answered by a confirm or a refusal, a report expects nothing.
//! # Guarantees
//! Messages from one actor to another arrive in order and whole, or the link breaks and both sides
//! learn it ([`Message::LinkDown`]).
//! Every message that leaves a process has an encoding ([`encoding`]), and old and new versions of
//! it understand each other.
//! # Not here
//! Behaviour; connections, frames and checksums: see `runtime`.

pub mod chain;
pub mod control;
pub mod deadlock;
pub mod encoding;
pub mod epoch;
pub mod inspect;
pub mod operation;
pub mod relay;
pub mod scan;
pub mod stream;
pub mod transaction;

use std::fmt;
use std::sync::Arc;

use codec::Codec;
use model::{Address, ClusterState, ControlIndex, Incarnation, NodeId, StateChange};

pub use chain::{Chain, REPLICAS_MAX};
pub use control::{
    ControlMessage, EpochStep, KnownState, LeaseRequest, News, NewsKind, NodeLife,
    UnresponsiveWorker, WorkerDisk,
};
pub use deadlock::{Besides, DeadlockSearch, SCAN_WAITS_FROM, SearchOrigin, SearchedTransaction};
pub use encoding::{Link, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
pub use epoch::EpochMessage;
pub use inspect::{InspectMessage, Inspection};
pub use operation::{
    Effect, LockMode, Operation, OperationKind, OperationOutcome, OperationResult, Projection,
    WaitPolicy,
};
pub use relay::{Leaving, PeerQuestion, RelayMessage};
pub use scan::{
    ScanBatch, ScanId, ScanMessage, ScanOrder, ScanRequest, ScanRow, ScanRows, ScanSource,
    ScanStatus, ScanTransaction,
};
pub use stream::{
    EpochChanges, RowChange, StreamFetch, StreamMessage, StreamPiece, StreamPosition,
};
pub use transaction::{
    ClientReply, ClientRequest, CoordinatorMessage, CoordinatorRef, KeyRead, KnownOutcome, LegId,
    ParticipantMessage, PreparedOperation, ReadRequest, ReportedLeg, ReportedLegStatus,
    ReportedTransaction, RollbackScope, StagedWrite, TransactionState, UniqueImages,
};

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The sender.
    pub from: Address,
    /// The sender's life; a receiver that no longer has it as a member drops the message.
    pub incarnation: Incarnation,
    /// The receiver.
    pub to: Address,
    /// The control log index the sender had reached. A receiver that is behind keeps the message
    /// until it has caught up, so that what the sender knew is known.
    pub reached: ControlIndex,
    /// The content: apart, so that what queues and routes move is small.
    pub message: Box<Message>,
}

/// What kind of work a message is for its receiver: decides when a worker takes it among those
/// that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Membership, leases, epochs: small and urgent.
    Control,
    /// Operations on rows, and everything else that is short.
    Operation,
    /// Steps of scans, joins and large transactions.
    Query,
    /// Steps of copies, checkpoints, index builds and cleaning.
    Background,
}

/// All that an actor can be told.
#[derive(Clone, Debug, Codec)]
pub enum Message {
    /// The node has reached a newer cluster state. From its control actor to all actors of the
    /// node, and to clients that follow it.
    State(#[codec(with = encoding::json::cluster_state)] Arc<ClusterState>),
    /// The link to a life of a node is gone; nothing more comes from it.
    #[codec(local)]
    LinkDown {
        /// The peer.
        node: NodeId,
        /// The life that was connected.
        incarnation: Incarnation,
        /// The peer's host closed the connection: its process has ended. Otherwise silence.
        closed: bool,
    },
    /// An actor's note to itself: go on with work that was cut into steps.
    #[codec(local)]
    #[doc(alias = "CONTINUEB")]
    Continue(Continue),
    /// Membership, leases, control log.
    Control(Box<ControlMessage>),
    /// Epoch switches and snapshots.
    Epoch(EpochMessage),
    /// From a client to a coordinator.
    Request(ClientRequest),
    /// From a data node to a client.
    Reply(ClientReply),
    /// To a participant, from a coordinator or another replica.
    Participant(ParticipantMessage),
    /// To a coordinator, from a participant or another coordinator.
    Coordinator(CoordinatorMessage),
    /// Scans, both ways.
    Scan(ScanMessage),
    /// What goes on in a worker, both ways.
    Inspect(Box<InspectMessage>),
    /// From an SQL worker to another one of its node: KILL.
    #[codec(local)]
    Kill {
        /// The connection, which the receiver hosts.
        connection: u32,
        /// Only the statement it is running.
        query_only: bool,
    },
    /// The node has reached a newer cluster state: what makes it of the one that the receiver was
    /// told last. From its control actor to clients that follow it and know one of its states.
    #[codec(since = 14)]
    StateChange(#[codec(with = encoding::json::state_change)] Arc<StateChange>),
    /// Change streams, both ways.
    #[codec(since = 16)]
    Stream(Box<StreamMessage>),
    /// A question of one SQL node to another, or its answer.
    #[codec(since = 16)]
    Relay(Box<RelayMessage>),
}

/// Long work, which an actor does in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Continue {
    /// Participant: advance the scans that have credit.
    Scans,
    /// Participant: apply, give back or roll back the next rows of large transactions.
    Applies,
    /// Participant: send the next rows of replica copies.
    Copies,
    /// Participant: build new ordered indexes, drop old versions.
    Upkeep,
    /// Participant: go on with the checkpoint.
    Checkpoint,
    /// Joiner: go on with the joins that have had their turn.
    Joins,
}

impl Continue {
    /// The class of the work.
    pub fn class(self) -> Class {
        match self {
            Continue::Scans | Continue::Joins | Continue::Applies => Class::Query,
            Continue::Copies | Continue::Upkeep | Continue::Checkpoint => Class::Background,
        }
    }

    /// Short name for traces and counts.
    pub fn name(self) -> &'static str {
        match self {
            Continue::Scans => "Continue scans",
            Continue::Applies => "Continue applies",
            Continue::Copies => "Continue copies",
            Continue::Upkeep => "Continue upkeep",
            Continue::Checkpoint => "Continue checkpoint",
            Continue::Joins => "Continue joins",
        }
    }
}

impl Message {
    /// The message's class: a property of its kind, so that order per kind is kept.
    pub fn class(&self) -> Class {
        match self {
            Message::State(_)
            | Message::StateChange(_)
            | Message::LinkDown { .. }
            | Message::Control(_)
            | Message::Epoch(_) => Class::Control,
            Message::Continue(work) => work.class(),
            _ => Class::Operation,
        }
    }

    /// Whether it asks for something with single rows as they are now, for which somebody waits:
    /// not with all that a scan finds, nor what a query looks up that reads a snapshot.
    pub fn is_key_operation(&self) -> bool {
        match self {
            Message::Request(request) => matches!(request, ClientRequest::Execute { .. }),
            Message::Participant(ParticipantMessage::Read(read)) => read.snapshot.is_none(),
            Message::Participant(message) => matches!(
                message,
                ParticipantMessage::Prepare { .. } | ParticipantMessage::Replicate { .. }
            ),
            _ => false,
        }
    }

    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Message::State(_) => "State",
            Message::StateChange(_) => "StateChange",
            Message::LinkDown { .. } => "LinkDown",
            Message::Continue(work) => work.name(),
            Message::Control(message) => message.name(),
            Message::Epoch(message) => message.name(),
            Message::Request(message) => message.name(),
            Message::Reply(message) => message.name(),
            Message::Participant(message) => message.name(),
            Message::Coordinator(message) => message.name(),
            Message::Scan(message) => message.name(),
            Message::Inspect(message) => message.name(),
            Message::Stream(message) => message.name(),
            Message::Relay(message) => message.name(),
            Message::Kill { .. } => "Kill",
        }
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} {} {}", self.from, self.to, self.reached, self.message.name())
    }
}
