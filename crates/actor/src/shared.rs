//! What the actors of one worker have in common, and the context a handler works in.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use model::{
    ActorKind, Address, ClusterId, ClusterState, Config, Epoch, Incarnation, NodeId, WorkerId,
};
use stdx::{Duration, Instant, Prng};
use wire::{Continue, Envelope, Leaving, Message, News, UnresponsiveWorker};

use crate::connection::Connections;
use crate::disk::{DiskOperation, DiskQueue, DiskRequest};
use crate::figures::{Tallies, Tally};
use crate::message_counts::MessageCounts;
use crate::probe::{FaultPlan, Probes};
use crate::recorder::{FlightRecorder, Recorded};
use crate::schedule::{Schedule, WHOLE};
use crate::timer::{Timer, TimerQueue};

/// Why a node stops. The host ends the process; it may start again as a new incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The cluster goes on without this life of the node.
    Removed,
    /// No majority, or a node group without survivor: going on would not be safe.
    ClusterStopped(&'static str),
    /// The node left in good order.
    Left,
    /// What it has on its disk, or knows of the cluster it uses, is of another cluster than the
    /// one its configuration leads to.
    OtherCluster {
        /// The cluster of the disk, or the one known so far.
        own: ClusterId,
        /// The cluster that serves.
        cluster: ClusterId,
    },
    /// Its disk has failed: what was promised to be on it may not be.
    DiskFailed(String),
    /// A worker of this node does not answer its driver of epochs.
    Unresponsive(UnresponsiveWorker),
    /// A fault point fired (simulation only).
    Fault(&'static str),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Removed => f.write_str("the cluster has gone on without this node"),
            Halt::ClusterStopped(why) => write!(f, "the cluster has stopped: {why}"),
            Halt::Left => f.write_str("the node has left the cluster"),
            Halt::OtherCluster { own, cluster } => write!(
                f,
                "what it has is of {own:?}, but the other nodes belong to {cluster:?}: a node with \
                 a data directory needs an empty one"
            ),
            Halt::DiskFailed(what) => write!(f, "the disk has failed: {what}"),
            Halt::Unresponsive(worker) => write!(f, "{worker}"),
            Halt::Fault(name) => write!(f, "fault point {name}"),
        }
    }
}

/// Until when the node may serve, and in which version of the messages: written by its control
/// actor, read by every worker. Who sees a lease sees what was said before it was lent.
#[derive(Clone, Debug, Default)]
pub struct LeaseCell(Arc<LeaseState>);

#[derive(Debug, Default)]
struct LeaseState {
    until: AtomicU64,
    protocol: AtomicU16,
}

impl LeaseCell {
    /// The end of the lease; `Instant::ZERO` for none.
    pub fn until(&self) -> Instant {
        Instant::from_nanos(self.0.until.load(Ordering::Acquire))
    }

    /// Prolongs, or ends, the lease.
    pub fn set(&self, until: Instant) {
        self.0.until.store(until.as_nanos(), Ordering::Release);
    }

    /// The newest protocol version that all members speak, as far as the leader of the cluster
    /// knows; zero before it was heard.
    pub fn protocol(&self) -> u16 {
        self.0.protocol.load(Ordering::Relaxed)
    }

    /// Notes what all members speak.
    pub fn set_protocol(&self, protocol: u16) {
        self.0.protocol.store(protocol, Ordering::Relaxed);
    }
}

/// What a worker knows of the epochs: kept by its coordinator, read by its participant.
#[derive(Clone, Debug, Default)]
pub struct EpochView {
    /// The epoch commits get now; zero before the first switch.
    pub current: Epoch,
    /// The newest epoch that this worker was prepared for: nobody commits in a later one yet.
    pub announced: Epoch,
    /// The newest complete epoch heard of, and when.
    pub completed: Epoch,
    /// See `completed`.
    pub completed_at: Instant,
    /// Epochs whose versions must be kept, ascending.
    pub retained: Vec<Epoch>,
    /// When the newest complete epochs ended, by the clock of their driver: microseconds since 1970
    /// in UTC, ascending like the epochs.
    pub ended: VecDeque<(Epoch, u64)>,
}

/// Epochs of which a worker knows when they ended.
const ENDED_MAX: usize = 8_192;

impl EpochView {
    /// Notes when an epoch ended. What does not ascend is left out.
    pub fn note_end(&mut self, epoch: Epoch, at: u64) {
        if self.ended.back().is_some_and(|last| last.0 >= epoch || last.1 >= at) {
            return;
        }
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((epoch, at));
    }

    /// When epochs from one on have ended, as far as it is known, at most so many.
    pub fn ended_from(&self, epoch: Epoch, most: usize) -> Vec<(Epoch, u64)> {
        let first = self.ended.partition_point(|ended| ended.0 < epoch);
        self.ended.range(first..).take(most).copied().collect()
    }
}

/// A rule broken on purpose, to prove that the simulation notices. Never set outside tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// All rules hold.
    #[default]
    None,
    /// A backup applies when it is told to commit, not when it is told to complete.
    BackupAppliesAtCommit,
    /// The driver switches epochs without preparing the coordinators first.
    OneStepEpochSwitch,
    /// A takeover aborts what only some replicas know to be committed.
    TakeoverForgetsCommits,
    /// A backup answers with the row as it was, though it was told to commit.
    ReadsPassNotedCommits,
    /// A replica answers with the row as it was, though it has staged a change with its commit.
    ReadsPassStagedCommits,
    /// The commit is acknowledged when the first primary has applied, before the others have.
    AcknowledgeAtFirstPrimary,
    /// Locks are released when the transaction is prepared.
    ReleaseLocksAtPrepare,
    /// A replica copy sends rows that a transaction of an older chain is changing.
    CopyIgnoresLocks,
    /// A copied row replaces what a transaction has changed since at the new replica.
    CopiesUndoChanges,
    /// A node serves reads without a lease.
    ServeWithoutLease,
    /// A member is removed without waiting for its lease to run out.
    RemoveBeforeLeaseEnds,
    /// Old row images are dropped although a snapshot needs them.
    DropVersionsEarly,
    /// Unique index entries of an updated row's old value stay.
    KeepOldUniqueEntries,
    /// The journal of a table has no entries of rows that were deleted.
    JournalForgetsDeletes,
    /// A journal begins while transactions are open that have written the table.
    JournalBeginsUnderWriters,
    /// A settled scan does not wait for rows that others have staged.
    ScansPassStagedRows,
    /// Changes do not wait for those who guard a range that their rows are in.
    ChangesPassGuards,
    /// Of a table that it has changed, a transaction scans the newest rows and not its snapshot.
    OwnRowsHideSnapshot,
    /// Rollback to a savepoint is not passed on to backups.
    RollbackOnPrimaryOnly,
    /// Primaries move while transactions are open in their group.
    PrimariesMoveAtOnce,
    /// An epoch is called saved before it is synced.
    SavedBeforeSync,
    /// Votes and entries of the control log are written and not synced.
    VotesNotSynced,
    /// A restart takes what is on the disks, whatever watermarks say.
    WatermarksIgnored,
    /// A life begins its log without a fence against what was not restored.
    NoFence,
    /// A restart takes the newest epoch that any node group has.
    RestartTakesNewest,
    /// Checkpoints leave out rows that were deleted.
    CheckpointsForgetDeletes,
    /// A restart takes a colocated table for one that has workers of its own.
    RestoreIgnoresColocation,
    /// A search for deadlocks aborts the transaction that it began with.
    VictimBySearch,
    /// What is looked up for the rows of a snapshot is read as it is now.
    LookupsReadNewest,
    /// The driver of epochs waits for workers that do not answer, and names none.
    DriverNamesNobody,
    /// Of a transaction that is applied in several steps, the locks of all rows go with the first.
    LargeCommitsUnlockEarly,
    /// A row of a large transaction that a later one needs on a backup goes to that unapplied.
    LargeCommitsGiveWayUnapplied,
    /// A scan that opens its partitions one after the other sees in the later ones what its
    /// transaction has changed since it began.
    ScansSeeLaterChanges,
    /// A replica calls a rollback in several steps done after the first.
    LargeRollbacksEndEarly,
    /// A link that goes on over new connections brings a message again that has arrived.
    RenewalRepeats,
    /// A link that goes on over new connections leaves out a message that was on its way.
    RenewalLeavesOut,
    /// A follower takes the index of a state's change and loses what it says about tables.
    StateChangesLost,
    /// A change of accounts counts as made from those that are there when it is proposed.
    AccountsChangedUnseen,
    /// Between the changes that a copied replica fetches for change streams and those that it notes
    /// itself some epochs are left out.
    StreamsLeaveGaps,
    /// A copied replica fetches changes for change streams of epochs that it notes itself.
    StreamsOverlap,
    /// A copied replica takes the older changes of change streams to be there.
    StreamsLackOlder,
    /// The changes of an epoch are given as all before it is complete.
    StreamsEndEpochsEarly,
    /// What is acknowledged of a change stream takes later epochs with it.
    StreamsForgetEarly,
    /// SQL: the parent of a row is looked for, and not locked.
    SqlParentsUnlocked,
    /// SQL: rows that refer to a row that goes keep what they say.
    SqlSetNullLeftOut,
    /// SQL: the last part of a value is not written.
    SqlPartsLeftOut,
    /// SQL: of a range of AUTO_INCREMENT numbers that is taken, one is reserved.
    SqlNumbersUnreserved,
    /// SQL: what a statement has done that fails in a transaction stays.
    SqlFailedStatementsStay,
    /// SQL: reads of a transaction with a snapshot are of the newest rows.
    SqlSnapshotsReadNewest,
    /// SQL: ROLLBACK TO SAVEPOINT does nothing.
    SqlSavepointsForgotten,
    /// SQL: of each table a backup has the rows of one partition as an older snapshot shows them.
    SqlBackupsMissChanges,
    /// SQL: an archive leaves the changes of some epochs out.
    SqlArchivesMissEpochs,
    /// SQL: a session goes on with the snapshot of a transaction that has ended.
    SqlSnapshotsKept,
    /// SQL: scans at SERIALIZABLE guard nothing.
    SqlRangesUnguarded,
    /// SQL: plain reads of a transaction do not see what it has changed.
    SqlOwnChangesUnseen,
    /// SQL: reads FOR UPDATE and FOR SHARE lock nothing.
    SqlReadsUnlocked,
    /// SQL: LOAD DATA commits what it has stored with each part of the file.
    SqlLoadsInParts,
    /// SQL: the old owner of a table that is about to move takes writes of those who do not know.
    SqlMovedTablesWritten,
}

/// What the actors of a worker share: the outbox, timers, state of the cluster, recorder.
#[derive(Debug)]
pub struct Shared {
    /// This node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// This worker.
    pub worker: WorkerId,
    /// Worker threads of this process.
    pub workers: u8,
    /// The clock of this turn.
    pub now: Instant,
    /// The time of day when that clock showed nothing: nanoseconds since 1970 in UTC. The host sets
    /// it, again now and then.
    pub day_origin: u64,
    /// The newest cluster state this worker has reached.
    pub cluster: Arc<ClusterState>,
    /// Limits and intervals.
    pub config: Arc<Config>,
    /// Until when the node may serve.
    pub lease: LeaseCell,
    /// Epochs as this worker knows them.
    pub epochs: EpochView,
    /// Messages to send, in order.
    pub outbox: VecDeque<Envelope>,
    /// Client connections: what is to be done with them.
    pub connections: Connections,
    /// Requests to the node's disk; none where there is no disk.
    pub disk: Option<DiskQueue>,
    /// Pending timers.
    pub timers: TimerQueue,
    /// Who goes next, and how long a step of long work is.
    pub schedule: Schedule,
    /// Random draws of this worker.
    pub prng: Prng,
    /// What happened lately.
    pub recorder: FlightRecorder,
    /// Messages sent and handled.
    pub messages: MessageCounts,
    /// What else is counted.
    pub tallies: Tallies,
    /// Rare situations reached.
    pub probes: Probes,
    /// Where to die (simulation only).
    pub faults: FaultPlan,
    /// Which rule is broken on purpose (tests only).
    pub mutation: Mutation,
    /// What operators are to be told, and of which node.
    pub news: Vec<(NodeId, News)>,
    /// The process is asked to end, or to start again.
    pub leaving: Option<Leaving>,
    /// Nodes that have sent what they may not, or what cannot be, and which rule they broke.
    pub violations: Vec<(NodeId, &'static str)>,
    /// Set when the node must stop; nothing is sent from then on.
    pub halt: Option<Halt>,
}

impl Shared {
    /// A worker at the beginning of a life: it knows of no cluster, has no lease and no disk, and
    /// breaks no rule. Its draws and the length of its memory are for its host to set.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        worker: WorkerId,
        workers: u8,
        config: Arc<Config>,
    ) -> Self {
        Self {
            node,
            incarnation,
            worker,
            workers,
            now: Instant::ZERO,
            day_origin: 0,
            cluster: Arc::default(),
            config,
            lease: LeaseCell::default(),
            epochs: EpochView::default(),
            outbox: VecDeque::new(),
            connections: Connections::default(),
            disk: None,
            timers: TimerQueue::default(),
            schedule: Schedule::default(),
            prng: Prng::new(1),
            recorder: FlightRecorder::new(16),
            messages: MessageCounts::default(),
            tallies: Tallies::default(),
            probes: Probes::default(),
            faults: FaultPlan::none(),
            mutation: Mutation::None,
            news: Vec::new(),
            leaving: None,
            violations: Vec::new(),
            halt: None,
        }
    }

    /// Host: what is drawn from here on cannot be told from earlier draws without `entropy`. The
    /// simulation does without it, so that its seed decides all.
    pub fn stir(&mut self, entropy: u64) {
        self.prng = Prng::new(self.prng.next_u64() ^ entropy);
    }
}

/// What a handler may do. Lives for one turn of one actor.
pub struct Ctx<'a> {
    shared: &'a mut Shared,
    actor: ActorKind,
}

impl<'a> Ctx<'a> {
    /// The context of a turn of `actor`.
    pub fn new(shared: &'a mut Shared, actor: ActorKind) -> Self {
        Self { shared, actor }
    }

    /// The time of day: microseconds since 1970 in UTC. It may jump, and go back.
    pub fn time_of_day(&self) -> u64 {
        self.shared.day_origin.saturating_add(self.shared.now.as_nanos()) / 1_000
    }

    /// The time of this turn; the same throughout it.
    pub fn now(&self) -> Instant {
        self.shared.now
    }

    /// The address of the acting actor.
    pub fn me(&self) -> Address {
        Address { node: self.shared.node, worker: self.shared.worker, actor: self.actor }
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.shared.node
    }

    /// This node's life.
    pub fn incarnation(&self) -> Incarnation {
        self.shared.incarnation
    }

    /// The newest cluster state this worker has reached.
    pub fn cluster(&self) -> &Arc<ClusterState> {
        &self.shared.cluster
    }

    /// Limits and intervals.
    pub fn config(&self) -> &Arc<Config> {
        &self.shared.config
    }

    /// Whether operations on single rows come in, so that steps of long work are to be short.
    pub fn is_shared(&self) -> bool {
        self.shared.schedule.is_shared(self.shared.now)
    }

    /// How long work rests that has gone on for so long, beside others who ask for something.
    pub fn rest(&self, worked: Duration) -> Duration {
        self.shared.schedule.rest(worked)
    }

    /// How many of `most` units of work, one at least, a step of long work of this kind does before
    /// it lets others run: as many as fit into its time, as far as earlier steps tell.
    pub fn step_units(&mut self, work: Continue, most: u32) -> u32 {
        let part = self.shared.schedule.part(work, self.shared.now);
        let units = u64::from(most) * u64::from(part) / u64::from(WHOLE);
        (units as u32).max(1)
    }

    /// The same in rows, of `Config::scan_step_rows`.
    pub fn step_rows(&mut self, work: Continue) -> u32 {
        self.step_units(work, self.shared.config.scan_step_rows)
    }

    /// Everything the worker's actors share.
    pub fn shared(&mut self) -> &mut Shared {
        self.shared
    }

    /// Everything the worker's actors share, to read.
    pub fn view(&self) -> &Shared {
        self.shared
    }

    /// The rule broken on purpose, if any.
    pub fn mutated(&self, mutation: Mutation) -> bool {
        self.shared.mutation == mutation
    }

    /// Sends a message. Nothing is sent any more once the node is stopping.
    pub fn send(&mut self, to: Address, message: Message) {
        if self.shared.halt.is_some() {
            return;
        }
        let envelope = Envelope {
            from: self.me(),
            incarnation: self.shared.incarnation,
            to,
            reached: self.shared.cluster.index,
            message: Box::new(message),
        };
        self.shared.messages.sent(envelope.message.name());
        self.shared.outbox.push_back(envelope);
    }

    /// Wakes this actor after `delay`; replaces the same timer if it is pending.
    pub fn set_timer(&mut self, timer: Timer, delay: Duration) {
        let at = self.shared.now + delay;
        self.shared.timers.set(self.actor, timer, at);
    }

    /// Stops a timer of this actor.
    pub fn stop_timer(&mut self, timer: Timer) {
        self.shared.timers.stop(self.actor, timer);
    }

    /// Whether the node keeps its state on a disk.
    pub fn has_disk(&self) -> bool {
        self.shared.disk.is_some()
    }

    /// Asks the disk for something; [`crate::Actor::disk`] brings the answer, under this token.
    /// Requests of a lane are carried out in order.
    pub fn disk(&mut self, lane: u8, token: u64, operations: Vec<DiskOperation>) {
        if self.shared.halt.is_some() {
            return;
        }
        let queue = self.shared.disk.as_mut().expect("only a node with a disk asks it");
        queue.push_back(DiskRequest { actor: self.actor, lane, token, operations });
    }

    /// The worker's random draws.
    pub fn prng(&mut self) -> &mut Prng {
        &mut self.shared.prng
    }

    /// Whether the node may serve clients: it holds a lease of the current cluster.
    pub fn may_serve(&self) -> bool {
        self.shared.now < self.shared.lease.until()
            || self.shared.mutation == Mutation::ServeWithoutLease
    }

    /// The newest protocol version that all members speak. While the node may serve, no member
    /// speaks less.
    pub fn protocol(&self) -> u16 {
        self.shared.lease.protocol()
    }

    /// Has the host tell operators what has happened to a node.
    pub fn announce(&mut self, about: NodeId, news: News) {
        self.shared.news.push((about, news));
    }

    /// Asks the host to end the process of the node, or to start it again. Clients are let go
    /// before.
    pub fn ask_to_leave(&mut self, leaving: Leaving) {
        self.shared.leaving = Some(leaving);
    }

    /// Refuses what another node has sent: it broke a rule of the protocol. The host closes the
    /// link to that life and says which rule it was; nothing more of that life is handled before.
    /// The caller has changed nothing for that message, and returns.
    ///
    /// # Panics
    /// When the message is of this node: its own actors keep the rules, or it must stop.
    pub fn refuse(&mut self, from: Address, rule: &'static str) {
        let of = (self.shared.node, self.shared.worker);
        assert!(from.node != self.shared.node, "{of:?}: {from} has broken a rule: {rule}");
        self.mark(rule);
        self.shared.violations.push((from.node, rule));
    }

    /// Stops the node after this handler.
    pub fn halt(&mut self, why: Halt) {
        if self.shared.halt.is_none() {
            self.shared.halt = Some(why);
        }
    }

    /// Counts one more of something.
    #[inline]
    pub fn count(&mut self, what: Tally) {
        self.shared.tallies.count(what);
    }

    /// Leaves a mark in the flight recorder.
    pub fn mark(&mut self, name: &'static str) {
        let now = self.shared.now;
        self.shared.recorder.record(now, Recorded::Mark(name));
    }

    /// See [`crate::fault_point!`].
    pub fn fault_point(&mut self, name: &'static str) {
        if self.shared.faults.fires(name) {
            self.halt(Halt::Fault(name));
        }
    }
}
