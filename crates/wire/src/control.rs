//! Messages of the control plane: consensus, leases, joining, schema changes.

use std::fmt;
use std::sync::Arc;

use codec::Codec;
use model::cluster::StatePiece;
use model::{
    ClusterId, ClusterState, Command, ControlIndex, Epoch, ErrorCode, Incarnation, NodeId,
    NodeRole, SchemaChange, SessionId, TableId,
};
use stdx::Instant;

use crate::encoding::{json, raft};

/// Which cluster state somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct KnownState {
    /// The cluster.
    pub cluster: ClusterId,
    /// The last entry of its log that the state contains; 0 of a client that has none.
    pub index: ControlIndex,
}

/// What a node says of itself when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct NodeLife {
    /// Its life.
    pub incarnation: Incarnation,
    /// The life that the consensus knows it by: an older one when its log has outlived that.
    pub voter: Incarnation,
    /// Its role.
    pub role: NodeRole,
    /// Its worker threads.
    pub workers: u8,
    /// Whose rows it has on its disk, and up to which epoch all of them.
    pub rows: Option<(ClusterId, Epoch)>,
    /// The newest protocol version that its program speaks; 0 of one that does not say so.
    #[codec(since = 10)]
    pub protocol: u16,
    /// The oldest epoch to which it can still go back: checkpoints hold no older images.
    #[codec(since = 14)]
    pub oldest: Epoch,
    /// The newest epoch that its disk says was durable, and in which cluster.
    #[codec(since = 14)]
    pub durable: Option<(ClusterId, Epoch)>,
}

/// A member's answer to a heartbeat: it asks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct LeaseRequest {
    /// The term the member follows.
    #[codec(with = raft::term)]
    pub term: raftbare::Term,
    /// Of the heartbeat it answers.
    pub sequence: u64,
    /// The member's clock when it sent this; repeated in the answer.
    pub sent_at: Instant,
    /// The life that asks.
    pub incarnation: Incarnation,
    /// The life that the consensus knows it by.
    pub voter: Incarnation,
    /// The log index the member has reached.
    pub reached: ControlIndex,
    /// It has read back all that counts of its disk.
    pub restored: bool,
    /// The newest protocol version that its program speaks; 0 of one that does not say so.
    #[codec(since = 10)]
    pub protocol: u16,
    /// The newest epoch that it knows to be durable.
    #[codec(since = 14)]
    pub durable: Epoch,
}

/// What a node tells operators: its host prints it, and management nodes keep it.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct News {
    /// What has happened, for programs.
    pub kind: NewsKind,
    /// Of a loss: the epoch that the cluster would go back to, or goes back to.
    pub epoch: Epoch,
    /// What has happened, for people.
    pub text: String,
}

/// What has happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Codec)]
pub enum NewsKind {
    /// A file is damaged, and rows are missing on this node.
    Damaged,
    /// A file is damaged, and nothing is missing.
    Harmless,
    /// What was damaged has been replaced by what other nodes have.
    Repaired,
    /// The cluster does not restart, because that would lose durable epochs.
    LossRefused,
    /// An operator has ordered to go on without durable epochs.
    LossAccepted,
    /// A worker does not answer the driver of epochs.
    WorkerSilent,
}

/// What the driver of epochs waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum EpochStep {
    /// The worker is to say how far it is, as the driver is a new one.
    State,
    /// The worker is to hold commits back for the next epoch.
    Prepare,
}

/// A worker that does not answer the driver of epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct UnresponsiveWorker {
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The worker.
    pub worker: model::WorkerId,
    /// What the driver waits for.
    pub step: EpochStep,
    /// For how long, without the pauses of the driver itself.
    pub waited: stdx::Duration,
}

impl fmt::Display for UnresponsiveWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            EpochStep::State => "does not say how far it is to the new driver of epochs",
            EpochStep::Prepare => "does not prepare for the next epoch",
        };
        let (worker, millis) = (self.worker.0, self.waited.as_millis());
        write!(f, "worker-{worker} {step}, and has not for {millis} ms")
    }
}

/// Between control actors, and from clients and other actors to them.
#[derive(Clone, Debug, Codec)]
pub enum ControlMessage {
    /// One message of the consensus library, with the commands of the log entries it carries.
    Raft {
        /// Whose log it is about; other clusters' members do not listen.
        cluster: ClusterId,
        /// The library's message.
        #[codec(with = raft::message)]
        message: raftbare::Message,
        /// One command per command entry in the message, in order.
        #[codec(with = json::commands)]
        commands: Vec<Arc<Command>>,
    },
    /// A state that replaces a log prefix the receiver lacks.
    Snapshot {
        /// Term of the leader that sends it.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// The last log entry it covers.
        #[codec(with = raft::position)]
        last: raftbare::LogPosition,
        /// The consensus members at that point.
        #[codec(with = raft::config)]
        config: raftbare::ClusterConfig,
        /// The state.
        #[codec(with = json::cluster_state)]
        state: Arc<ClusterState>,
    },
    /// A snapshot was taken over.
    SnapshotInstalled {
        /// The position it covered.
        #[codec(with = raft::position)]
        last: raftbare::LogPosition,
    },
    /// A voter without a leader asks the others whether they would vote for it. Nobody's term
    /// changes, so that a node that was cut off does not depose a leader others still hear.
    PreVote {
        /// The asker's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// The end of its log.
        #[codec(with = raft::position)]
        last: raftbare::LogPosition,
    },
    /// Answer to `PreVote`.
    PreVoteReply {
        /// The asker's term, repeated.
        #[codec(with = raft::term)]
        asked: raftbare::Term,
        /// The answerer's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// It hears no leader and its log is not newer.
        granted: bool,
    },
    /// A leader that is no voter any more tells everyone to elect another one at once.
    Resigned {
        /// The term it led.
        #[codec(with = raft::term)]
        term: raftbare::Term,
    },
    /// Leader to every member: I lead; answer with `LeaseRequest`.
    Heartbeat {
        /// The leader's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// Counts the leader's heartbeats.
        sequence: u64,
        /// The newest protocol version that all members speak, as far as the leader knows.
        #[codec(since = 10)]
        protocol: u16,
        /// The newest epoch that the leader knows to be durable.
        #[codec(since = 14)]
        durable: Epoch,
    },
    /// Member to leader: I am here; lend me time.
    LeaseRequest(LeaseRequest),
    /// Leader to member: serve until `sent_at + span` of your clock.
    LeaseGrant {
        /// The life that asked: `sent_at` means nothing to another one.
        incarnation: Incarnation,
        /// Of the request.
        sent_at: Instant,
        /// How long from then on.
        span: stdx::Duration,
    },
    /// A starting node asks everyone in the configuration: is there a cluster?
    #[doc(alias = "CM_REGREQ")]
    Hello {
        /// The asker.
        life: NodeLife,
    },
    /// Answer to `Hello`.
    HelloReply {
        /// The answerer.
        life: NodeLife,
        /// The cluster whose log it has; none when it belongs to none.
        cluster: Option<ClusterId>,
        /// Who leads, if known.
        leader: Option<NodeId>,
        /// It is a member, in this life, of a cluster that serves.
        serves: bool,
    },
    /// To the leader: a node asks to be admitted.
    Join {
        /// The node.
        life: NodeLife,
    },
    /// To the leader: the link to this life is gone.
    Suspect {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// Its host closed the connection.
        closed: bool,
    },
    /// Leader to a member it is going to remove: give up your lease for good and confirm.
    StopServing {
        /// The life that is meant.
        incarnation: Incarnation,
    },
    /// Member to leader: this life holds no lease and takes none; remove it whenever you like.
    Stopped {
        /// The life that stopped.
        incarnation: Incarnation,
    },
    /// Leader to a node: your life is over in this cluster; stop, or join as a new one.
    Removed {
        /// The life that was removed.
        incarnation: Incarnation,
    },
    /// From other actors of the node, or forwarded to the leader: please log this command.
    Propose(#[codec(with = json::command)] Arc<Command>),
    /// A participant has looked at what its worker has on the disk.
    #[codec(local)]
    WorkerStored {
        /// The worker.
        worker: model::WorkerId,
        /// What was found.
        found: Box<WorkerDisk>,
    },
    /// A participant has noted on its disk that an epoch is durable.
    #[codec(local)]
    WorkerDurable {
        /// The epoch.
        epoch: Epoch,
    },
    /// A participant has read the rows back that its worker has on the disk, as far as they count
    /// in the cluster the node has joined; or there are none.
    #[codec(local)]
    WorkerRestored {
        /// The worker.
        worker: model::WorkerId,
    },
    /// A participant's worker has received all rows of the partitions it was to be given.
    #[codec(local)]
    WorkerSynced {
        /// The worker.
        worker: model::WorkerId,
        /// The state it judged by.
        reached: ControlIndex,
    },
    /// A client wants to follow the cluster's state; answered with `Message::State`,
    /// `Message::StateChange` or `StatePiece`, now and at each change.
    Follow {
        /// The state that the client has; none of a client that can only be told whole states.
        #[codec(since = 14)]
        known: Option<KnownState>,
        /// Whether it answers questions of other clients ([`crate::RelayMessage`]).
        #[codec(since = 16)]
        answers_peers: bool,
    },
    /// A client asks for a catalog change.
    Schema {
        /// Who.
        session: SessionId,
        /// The session's count of schema changes; a repeat is recognised by it.
        number: u64,
        /// What.
        #[codec(with = json::schema_change)]
        change: SchemaChange,
    },
    /// Answer to `Schema`, once applied on the answering node.
    SchemaReply {
        /// Who.
        session: SessionId,
        /// Which.
        number: u64,
        /// The table concerned, or why not.
        result: Result<TableId, ErrorCode>,
    },
    /// An operator or the node itself asks to leave in good order.
    LeaveRequest,
    /// Leader to every data member: the write chains of this life's node group are about to
    /// change. Have your coordinators begin nothing there for a moment, and say when nothing is
    /// open. A newer one takes the place of an older one.
    #[codec(since = 2)]
    Quiesce {
        /// The leader's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// Counts the leader's attempts.
        attempt: u64,
        /// The node that joins or leaves the chains.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// How long coordinators wait at most; zero ends the attempt.
        span: stdx::Duration,
    },
    /// Member to leader: no transaction of its coordinators is open there.
    #[codec(since = 2)]
    Quiet {
        /// The leader's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// Of the `Quiesce`.
        attempt: u64,
        /// The member's life.
        incarnation: Incarnation,
    },
    /// The coordinator of a worker of this node has nothing open there.
    #[codec(local)]
    WorkerQuiet {
        /// The worker.
        worker: model::WorkerId,
        /// Of `CoordinatorMessage::Quiesce`.
        number: u64,
    },
    /// Leader to members: the group that the state holds since this entry is to have its primaries
    /// moved. Say when nothing is open there, decided or not. A newer one takes the place of an
    /// older one; answered with `Quiet`.
    #[codec(since = 18)]
    QuiesceHeld {
        /// The leader's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// Counts the leader's attempts.
        attempt: u64,
        /// The entry.
        since: ControlIndex,
    },
    /// From the driver of epochs, by way of its node's control actor, to the leader and the
    /// management nodes: a worker does not answer, and all commits wait for its node. Repeated
    /// until the worker answers or its node is removed.
    #[codec(since = 14)]
    Unresponsive(UnresponsiveWorker),
    /// Leader to a voter: I resign; stand for election at once.
    #[codec(since = 14)]
    Succeed {
        /// The leader's term.
        #[codec(with = raft::term)]
        term: raftbare::Term,
    },
    /// To a client that follows, before a state: the newest protocol version that all members
    /// speak. Who is not told follows a node that does not say so.
    #[codec(since = 10)]
    Speaks {
        /// The version.
        protocol: u16,
    },
    /// A node to the management nodes: what has happened to it. Repeated until it is heard.
    #[codec(since = 14)]
    News {
        /// The life that tells it.
        incarnation: Incarnation,
        /// Counts the news of that life from 1 on.
        number: u64,
        /// The news.
        news: News,
    },
    /// Answer to `News`.
    #[codec(since = 14)]
    NewsHeard {
        /// The life that told it.
        incarnation: Incarnation,
        /// The newest number that was heard.
        number: u64,
    },
    /// An operator's order, passed on to the leader: the cluster may restart without the durable
    /// epochs after this one. Repeated until a restart is logged.
    #[codec(since = 14)]
    AcceptLoss {
        /// Restarts of the cluster when the order was given: it holds for the next one alone.
        restarts: u32,
        /// The epoch to go back to.
        epoch: Epoch,
    },
    /// A piece of the state of a `Snapshot` that is large; the next one is asked for with
    /// `NextPiece`.
    #[codec(since = 14)]
    SnapshotPiece {
        /// Term of the leader that sends it.
        #[codec(with = raft::term)]
        term: raftbare::Term,
        /// The last log entry that the state covers.
        #[codec(with = raft::position)]
        last: raftbare::LogPosition,
        /// The consensus members at that point.
        #[codec(with = raft::config)]
        config: raftbare::ClusterConfig,
        /// The piece.
        #[codec(with = json::state_piece)]
        piece: Box<StatePiece>,
    },
    /// A piece of the state that a client follows, when it lacks a large one; the next one is asked
    /// for with `NextPiece`.
    #[codec(since = 14)]
    StatePiece(#[codec(with = json::state_piece)] Box<StatePiece>),
    /// All pieces of a state before this one have come.
    #[codec(since = 14)]
    NextPiece {
        /// The state.
        of: KnownState,
        /// The number of the piece; behind the last one when the state is whole.
        number: u32,
    },
}

/// What a worker has found on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerDisk {
    /// The cluster whose rows it has, and the epoch up to which they are complete.
    pub rows: Option<(ClusterId, Epoch)>,
    /// The oldest epoch to which it can go back.
    pub oldest: Epoch,
    /// The newest epoch that the disk says was durable, and in which cluster.
    pub durable: Option<(ClusterId, Epoch)>,
    /// What is wrong, file by file.
    pub damages: Vec<String>,
    /// Rows are missing that the worker had on its disk.
    pub missing: bool,
}

impl ControlMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            ControlMessage::Raft { message, .. } => match message {
                raftbare::Message::RequestVoteCall { .. } => "RequestVote",
                raftbare::Message::RequestVoteReply { .. } => "RequestVoteReply",
                raftbare::Message::AppendEntriesCall { .. } => "AppendEntries",
                raftbare::Message::AppendEntriesReply { .. } => "AppendEntriesReply",
            },
            ControlMessage::Snapshot { .. } => "ControlSnapshot",
            ControlMessage::SnapshotPiece { .. } => "ControlSnapshotPiece",
            ControlMessage::StatePiece(_) => "StatePiece",
            ControlMessage::NextPiece { .. } => "NextPiece",
            ControlMessage::SnapshotInstalled { .. } => "ControlSnapshotInstalled",
            ControlMessage::PreVote { .. } => "PreVote",
            ControlMessage::PreVoteReply { .. } => "PreVoteReply",
            ControlMessage::Resigned { .. } => "Resigned",
            ControlMessage::Heartbeat { .. } => "Heartbeat",
            ControlMessage::LeaseRequest(_) => "LeaseRequest",
            ControlMessage::LeaseGrant { .. } => "LeaseGrant",
            ControlMessage::Hello { .. } => "Hello",
            ControlMessage::HelloReply { .. } => "HelloReply",
            ControlMessage::Join { .. } => "Join",
            ControlMessage::Suspect { .. } => "Suspect",
            ControlMessage::StopServing { .. } => "StopServing",
            ControlMessage::Stopped { .. } => "Stopped",
            ControlMessage::Removed { .. } => "Removed",
            ControlMessage::Propose(_) => "Propose",
            ControlMessage::WorkerStored { .. } => "WorkerStored",
            ControlMessage::WorkerRestored { .. } => "WorkerRestored",
            ControlMessage::WorkerSynced { .. } => "WorkerSynced",
            ControlMessage::Follow { .. } => "Follow",
            ControlMessage::Schema { .. } => "Schema",
            ControlMessage::SchemaReply { .. } => "SchemaReply",
            ControlMessage::LeaveRequest => "LeaveRequest",
            ControlMessage::Quiesce { .. } => "Quiesce",
            ControlMessage::QuiesceHeld { .. } => "QuiesceHeld",
            ControlMessage::Quiet { .. } => "Quiet",
            ControlMessage::WorkerQuiet { .. } => "WorkerQuiet",
            ControlMessage::Unresponsive(_) => "Unresponsive",
            ControlMessage::Succeed { .. } => "Succeed",
            ControlMessage::Speaks { .. } => "Speaks",
            ControlMessage::WorkerDurable { .. } => "WorkerDurable",
            ControlMessage::News { .. } => "News",
            ControlMessage::NewsHeard { .. } => "NewsHeard",
            ControlMessage::AcceptLoss { .. } => "AcceptLoss",
        }
    }
}
