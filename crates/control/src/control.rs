//! Keeps the node in the cluster: consensus, membership, leases, the cluster state of its workers.
//!
//! NDB spreads this over QMGR, DBDIH and DBDICT. Walk-through: `docs/internals/membership.md`.
//!
//! # Owns
//! The newest cluster state of the node, its lease, and, while it leads, the decisions who belongs.
//! # Speaks
//! in:  `ControlMessage` (other nodes' control actors, clients, actors of this node), `LinkDown`
//! out: `ControlMessage`; `State` to every worker of the node and to the clients that follow it.
//! A worker is addressed by its participant; the host hands the state to all its actors.
//! # Invariants
//! 1. The state is what the committed commands build, in log order.
//! 2. A life that has been removed holds no lease. (Checked across nodes by the simulation.)
//! # Failure
//! Its own end is the end of the node. Without a disk nothing is kept over a restart; with one, the
//! next life goes on as the same voter, and the cluster can be restarted as a whole (`restart`).
//! # Not here
//! The log (`consensus`), the effect of commands (`state_machine`).

mod distrust;
mod draft;
mod durable;
mod followers;
mod forming;
mod growing;
mod leadership;
mod lease;
mod links;
mod loss;
mod news;
mod primaries;
mod publish;
mod quiesce;
mod restart;
mod silent;
mod versions;
mod watermark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actor::{Actor, Ctx, DiskAnswer, DiskError, Halt, Shared, Timer, probe};
use model::cluster::StateAssembly;
use model::{
    ActorKind, Address, ClusterState, Command, Config, ControlIndex, Incarnation, Member, NodeId,
    NodeRole, SessionId, WorkerId,
};
use stdx::{Duration, Instant};
use wire::{ControlMessage, Message};

use crate::consensus::{Consensus, Output, node_of, voter_of, voters};
use durable::Durable;
use followers::Followers;
use forming::{HeardLife, HelloAnswer};
use leadership::Leadership;
use links::BrokenLink;
use loss::Loss;
use news::Bulletin;
use publish::SchemaWait;
use quiesce::{Asked, Quieting};
use restart::Restore;
use versions::Versions;
use watermark::Witness;

/// The control actor: one on worker 0 of each data and management node.
#[doc(alias = "QMGR")]
#[doc(alias = "DBDIH")]
#[doc(alias = "DBDICT")]
pub struct Control {
    config: Arc<Config>,
    node: NodeId,
    incarnation: Incarnation,
    role: NodeRole,
    workers: u8,
    consensus: Consensus,
    /// The life that the consensus knows this node by.
    voter: Incarnation,
    /// The log's file; none on a node without a disk.
    durable: Option<Durable>,
    /// The disk has been looked at, and the search for the cluster has begun.
    begun: bool,
    /// The log is that of an earlier life.
    resumed: bool,
    /// What the node's workers have on their disks, and how far they have read it back.
    restore: Restore,
    /// What it knows to be durable, apart from all logs.
    witness: Witness,
    /// What a restart would lose, and who has accepted that.
    loss: Loss,
    /// What operators are told.
    bulletin: Bulletin,
    /// The newest state; the workers hear of it by message.
    state: Arc<ClusterState>,
    /// What configured nodes answered to `Hello`, while this node belongs to no cluster.
    answers: BTreeMap<NodeId, HelloAnswer>,
    /// The newest life heard of, by node; older ones are not listened to.
    lives: BTreeMap<NodeId, HeardLife>,
    /// What members' programs understand.
    versions: Versions,
    /// Set while this node leads.
    leadership: Option<Leadership>,
    /// Links that broke, by peer.
    broken: BTreeMap<NodeId, BrokenLink>,
    /// Commands that actors of this node want logged, until the state shows them.
    proposals: Vec<Arc<Command>>,
    /// Clients that wait for the answer to a schema change.
    schema_waits: BTreeMap<SessionId, SchemaWait>,
    /// Clients that are told of each state.
    followers: Followers,
    /// A state that the leader sends in pieces.
    assembly: StateAssembly,
    /// Workers whose rows have been received, with the state they judged by.
    synced: BTreeMap<WorkerId, ControlIndex>,
    /// The state in which this node entered its write chains.
    syncing_since: Option<ControlIndex>,
    /// What its coordinators were asked for before a change of write chains.
    quieting: Quieting,
    /// Workers that did not answer the driver of epochs, as far as operators were told.
    silent: BTreeSet<(NodeId, Incarnation, WorkerId)>,
    /// The node wishes to leave.
    leave_wanted: bool,
    /// The node has given up its lease for good.
    gave_up: bool,
    /// When a leader was last heard.
    leader_heard_at: Instant,
    /// Since when the node, as a member of a started cluster, may expect a lease.
    lease_expected_since: Instant,
    ticked_at: Instant,
    halted: Option<Halt>,
}

impl Control {
    /// The control actor of a new life: it has no log and belongs to no cluster yet.
    ///
    /// `incarnation` must be larger than that of every earlier life of the node. [`Control::start`]
    /// sets it going.
    pub fn new(
        config: Arc<Config>,
        node: NodeId,
        incarnation: Incarnation,
        role: NodeRole,
        workers: u8,
    ) -> Self {
        assert!(workers > 0, "a node without workers");
        let consensus = Consensus::new(voter_of(node, incarnation), config.election_timeout);
        Self {
            config,
            node,
            incarnation,
            role,
            workers,
            consensus,
            voter: incarnation,
            durable: None,
            begun: false,
            resumed: false,
            restore: Restore::default(),
            witness: Witness::default(),
            loss: Loss::default(),
            bulletin: Bulletin::default(),
            state: Arc::default(),
            answers: BTreeMap::new(),
            lives: BTreeMap::new(),
            versions: Versions::default(),
            leadership: None,
            broken: BTreeMap::new(),
            proposals: Vec::new(),
            schema_waits: BTreeMap::new(),
            followers: Followers::default(),
            assembly: StateAssembly::default(),
            synced: BTreeMap::new(),
            syncing_since: None,
            quieting: Quieting::default(),
            silent: BTreeSet::new(),
            leave_wanted: false,
            gave_up: false,
            leader_heard_at: Instant::ZERO,
            lease_expected_since: Instant::ZERO,
            ticked_at: Instant::ZERO,
            halted: None,
        }
    }

    /// Starts the node's search for a cluster. To be called once, before anything else.
    pub fn start(&mut self, ctx: &mut Ctx<'_>) {
        // A life begins without a lease, whatever an earlier one of the process held.
        ctx.shared().lease.set(Instant::ZERO);
        if ctx.has_disk() {
            let me = voter_of(self.node, self.voter);
            self.consensus = Consensus::new_on_disk(me, self.config.election_timeout);
            self.durable = Some(Durable::default());
            return self.look_at_disk(ctx);
        }
        self.begin(ctx);
    }

    /// Begins the search for the cluster, when all that the disk has is known.
    fn begin(&mut self, ctx: &mut Ctx<'_>) {
        if self.begun || !self.disk_is_known() {
            return;
        }
        self.begun = true;
        self.report_damage(ctx);
        self.ticked_at = ctx.now();
        self.leader_heard_at = ctx.now();
        self.seek(ctx);
        self.settle(ctx);
        ctx.set_timer(Timer::ControlTick, self.config.heartbeat_interval);
    }

    /// The newest state; the node's workers may be a message behind.
    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.consensus.leader().map(node_of)
    }

    /// Whether this node leads.
    pub fn is_leader(&self) -> bool {
        self.consensus.is_leader()
    }

    /// The consensus term.
    pub fn term(&self) -> u64 {
        self.consensus.term().get()
    }

    /// Whether this node's vote counts, in the configuration it knows.
    pub fn is_voter(&self) -> bool {
        self.consensus.is_voter()
    }

    /// Whose vote counts, now or after the change under way, in the configuration it knows.
    pub fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        voters(self.consensus.config()).map(node_of)
    }

    /// Why this actor has stopped the node, if it has.
    pub fn halted(&self) -> Option<&Halt> {
        self.halted.as_ref()
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let gap = ctx.now().since(self.ticked_at);
        self.ticked_at = ctx.now();
        if gap > self.config.lease.divided_by(2) {
            // What looks like everyone's silence may be this node's own: listen first.
            probe!(ctx, "control: own pause noticed");
            self.lease_expected_since = ctx.now();
            self.leader_heard_at = ctx.now();
            if let Some(leadership) = &mut self.leadership {
                leadership.listening_since = ctx.now();
            }
        }
        self.write_again(ctx);
        if self.durable.is_some() {
            self.write_watermark(ctx);
            self.report_repair(ctx);
        }
        self.spread_news(ctx);
        let stranger = self.own_member().is_none();
        if stranger && (self.resumed || self.state.index == ControlIndex(0)) {
            self.seek(ctx);
        } else if self.consensus.is_leader() && !self.state.started {
            self.say_hello(ctx);
        }
        self.lead(ctx);
        self.report_links(ctx);
        self.repeat_proposals(ctx);
        self.watch_patience(ctx);
    }

    /// Sends what the consensus wants sent, applies what it has committed, and takes up or lays
    /// down the leader's duties, until nothing is left to do.
    fn settle(&mut self, ctx: &mut Ctx<'_>) {
        loop {
            self.follow_role(ctx);
            self.perform(ctx);
            if self.consensus.stand_again_if_deserted() {
                probe!(ctx, "control: sole voter without followers elected anew");
                continue;
            }
            if self.consensus.has_news() {
                // Followers need not wait for the next heartbeat to learn what is committed.
                self.consensus.heartbeat();
                self.perform(ctx);
            }
            let applied = self.apply_committed(ctx);
            if self.halted.is_some() {
                return;
            }
            if applied {
                self.duties(ctx);
            } else if !self.consensus.has_news() && !self.role_changed() {
                break;
            }
        }
        self.perform(ctx);
    }

    fn carry_out(&mut self, ctx: &mut Ctx<'_>, output: Output) {
        match output {
            Output::Send(voter, message) => self.tell(ctx, node_of(voter), message),
            Output::Arm => {
                if !self.consensus.is_leader() {
                    let delay = self.draw_election(ctx);
                    ctx.set_timer(Timer::Election, delay);
                }
            }
            Output::Install(voter) => self.send_snapshot(ctx, voter),
        }
    }

    fn draw_election(&mut self, ctx: &mut Ctx<'_>) -> Duration {
        let (low, high) = if self.consensus.leader_lost() {
            // Nobody is deposed by haste: those who hear a leader do not back anybody. The spread
            // is many times what a message takes, so that two seldom stand at once.
            let interval = self.config.heartbeat_interval.as_nanos();
            (interval / 16, interval / 4)
        } else {
            let timeout = self.config.election_timeout.as_nanos();
            (timeout, 2 * timeout)
        };
        Duration::from_nanos(ctx.prng().between(low, high))
    }

    /// Sends to the control actor of a node.
    fn tell(&self, ctx: &mut Ctx<'_>, node: NodeId, message: ControlMessage) {
        ctx.send(control_of(node), Message::Control(Box::new(message)));
    }

    /// Sends to the leader, if one is known; this node itself included.
    fn tell_leader(&self, ctx: &mut Ctx<'_>, message: ControlMessage) {
        if let Some(leader) = self.leader() {
            self.tell(ctx, leader, message);
        }
    }

    /// Sends to an actor of all workers of this node.
    fn tell_workers(&self, ctx: &mut Ctx<'_>, actor: ActorKind, message: &Message) {
        for worker in 0..self.workers {
            let to = Address { node: self.node, worker: WorkerId(worker), actor };
            ctx.send(to, message.clone());
        }
    }

    /// Whether the sender is on this node, and the worker one of its own.
    fn is_own_worker(&self, from: Address, worker: WorkerId) -> bool {
        from.node == self.node && worker.0 < self.workers
    }

    fn own_member(&self) -> Option<&Member> {
        self.state.member(self.node, self.incarnation)
    }

    fn halt(&mut self, ctx: &mut Ctx<'_>, why: Halt) {
        ctx.shared().lease.set(Instant::ZERO);
        if self.halted.is_none() {
            self.halted = Some(why.clone());
        }
        ctx.halt(why);
    }

    /// Whether a life has ended for this cluster: it was removed, or a newer one was heard.
    fn is_over(&self, node: NodeId, incarnation: Incarnation) -> bool {
        self.was_removed(node, incarnation)
            || self.lives.get(&node).is_some_and(|newest| incarnation < newest.life.incarnation)
    }

    fn was_removed(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let admitted = self.state.incarnations.get(&node).is_some_and(|last| incarnation <= *last);
        admitted && self.state.member(node, incarnation).is_none()
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each message")]
    fn receive(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ControlMessage) {
        if !self.begun && !matches!(message, ControlMessage::WorkerStored { .. }) {
            return; // What it could answer is not known yet; whoever asks does so again.
        }
        if from.node != self.node
            && let Some(rule) = self.broken_rule(from, &message)
        {
            return ctx.refuse(from, rule);
        }
        self.mend_link(from.node);
        match message {
            ControlMessage::WorkerStored { worker, found } => {
                self.receive_worker_stored(ctx, from, worker, *found);
            }
            ControlMessage::WorkerDurable { epoch } => {
                if from.node == self.node {
                    self.receive_worker_durable(epoch);
                }
            }
            ControlMessage::News { incarnation, number, news } => {
                self.receive_news(ctx, from, incarnation, number, news);
            }
            ControlMessage::NewsHeard { incarnation, number } => {
                self.receive_news_heard(from, incarnation, number);
            }
            ControlMessage::AcceptLoss { restarts, epoch } => {
                self.receive_accept_loss(ctx, from, restarts, epoch);
            }
            ControlMessage::WorkerRestored { worker } => {
                self.receive_worker_restored(from, worker);
            }
            ControlMessage::Raft { .. }
            | ControlMessage::Snapshot { .. }
            | ControlMessage::SnapshotPiece { .. }
            | ControlMessage::SnapshotInstalled { .. }
            | ControlMessage::PreVote { .. }
            | ControlMessage::PreVoteReply { .. }
            | ControlMessage::Succeed { .. }
            | ControlMessage::Resigned { .. } => self.receive_consensus(ctx, from, message),
            ControlMessage::Heartbeat { term, sequence, protocol, durable } => {
                self.receive_heartbeat(ctx, from, term, sequence, protocol, durable);
            }
            ControlMessage::LeaseRequest(request) => {
                self.receive_lease_request(ctx, from, request);
            }
            ControlMessage::LeaseGrant { incarnation, sent_at, span } => {
                self.receive_grant(ctx, incarnation, sent_at, span);
            }
            ControlMessage::Hello { .. }
            | ControlMessage::HelloReply { .. }
            | ControlMessage::Join { .. } => self.receive_forming(ctx, from, message),
            ControlMessage::Suspect { node, incarnation, closed } => {
                self.receive_suspect(ctx, from, node, incarnation, closed);
            }
            ControlMessage::StopServing { incarnation } => {
                self.receive_stop_serving(ctx, from, incarnation);
            }
            ControlMessage::Stopped { incarnation } => {
                self.receive_stopped(ctx, from, incarnation);
            }
            ControlMessage::Removed { incarnation } => self.receive_removed(ctx, incarnation),
            ControlMessage::Propose(command) => self.receive_propose(ctx, from, command),
            ControlMessage::WorkerSynced { worker, reached } => {
                self.receive_worker_synced(ctx, from, worker, reached);
            }
            ControlMessage::Follow { known, answers_peers } => {
                self.receive_follow(ctx, from, known, answers_peers);
            }
            ControlMessage::NextPiece { of, number } if from.actor == ActorKind::Client => {
                self.followers.go_on(ctx, from, of, number);
            }
            ControlMessage::NextPiece { of, number } => {
                self.continue_snapshot(ctx, from.node, of, number);
            }
            ControlMessage::StatePiece(_) => {}
            ControlMessage::Schema { session, number, change } => {
                self.receive_schema(ctx, from, session, number, change);
            }
            ControlMessage::SchemaReply { .. } | ControlMessage::Speaks { .. } => {}
            ControlMessage::LeaveRequest => {
                self.leave_wanted = true;
                self.hand_over_to_leave(ctx);
                self.repeat_proposals(ctx);
            }
            ControlMessage::Unresponsive(silent) => self.receive_unresponsive(ctx, from, silent),
            ControlMessage::QuiesceHeld { term, attempt, since } => {
                let asked = Asked { leader: from.node, term, attempt };
                self.receive_quiesce_held(ctx, asked, since);
            }
            ControlMessage::Quiesce { term, attempt, node, incarnation, span } => {
                let asked = Asked { leader: from.node, term, attempt };
                self.receive_quiesce(ctx, asked, node, incarnation, span);
            }
            ControlMessage::Quiet { term, attempt, incarnation } => {
                self.receive_quiet(ctx, from, term, attempt, incarnation);
            }
            ControlMessage::WorkerQuiet { worker, number } => {
                self.receive_worker_quiet(ctx, from, worker, number);
            }
        }
    }

    fn receive_forming(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ControlMessage) {
        match message {
            ControlMessage::Hello { life } => self.receive_hello(ctx, from, life),
            ControlMessage::HelloReply { life, cluster, leader, serves } => {
                let answer = HelloAnswer { life, cluster, leader, serves, at: ctx.now() };
                self.receive_hello_reply(ctx, from, answer);
            }
            ControlMessage::Join { life } => self.receive_join(ctx, from, life),
            _ => unreachable!("the caller has picked the messages of a starting node"),
        }
    }

    fn receive_consensus(&mut self, ctx: &mut Ctx<'_>, from: Address, message: ControlMessage) {
        match message {
            ControlMessage::Raft { cluster, message, commands } => {
                if self.listens_to(ctx, message.from()) {
                    let append = matches!(message, raftbare::Message::AppendEntriesCall { .. });
                    self.consensus.receive(ctx.now(), cluster, message, &commands);
                    if append && self.leader() == Some(from.node) {
                        self.leader_heard_at = ctx.now();
                    }
                }
            }
            ControlMessage::Snapshot { term, last, config, state } => {
                self.receive_snapshot(ctx, from, term, last, config, state);
            }
            ControlMessage::SnapshotPiece { term, last, config, piece } => {
                self.receive_snapshot_piece(ctx, from, term, last, config, *piece);
            }
            ControlMessage::SnapshotInstalled { .. } => {
                self.end_snapshot(from.node);
                self.consensus.heartbeat();
            }
            ControlMessage::PreVote { term, last } => {
                // Only voters ask, so the asker is in the configuration or behind by a life.
                if let Some(voter) = self.voter_at(ctx, from.node) {
                    self.consensus.receive_pre_vote(ctx.now(), voter, term, last);
                }
            }
            ControlMessage::PreVoteReply { asked, term, granted } => {
                if let Some(voter) = self.voter_at(ctx, from.node) {
                    self.consensus.receive_pre_vote_reply(voter, asked, term, granted);
                }
            }
            ControlMessage::Resigned { term } => {
                if term == self.consensus.term() && self.leader() == Some(from.node) {
                    probe!(ctx, "control: leader resigned");
                    self.consensus.lose_leader();
                }
            }
            ControlMessage::Succeed { term } => {
                // It has said that it resigns before.
                let led = self.consensus.led_by().map(node_of) == Some(from.node);
                if term == self.consensus.term() && led {
                    probe!(ctx, "control: leader has named its successor");
                    self.consensus.lose_leader();
                    self.consensus.succeed();
                }
            }
            _ => unreachable!("the caller has picked the messages of the consensus"),
        }
    }

    /// Whether the consensus takes messages of this voter. A removed life is told that it is one.
    fn listens_to(&mut self, ctx: &mut Ctx<'_>, voter: raftbare::NodeId) -> bool {
        let node = node_of(voter);
        let member = self.state.members.get(&node).map(|m| voter_of(node, m.voter));
        let admitted = self.state.incarnations.get(&node).map(|i| voter_of(node, *i));
        let newest = self.lives.get(&node).map(|heard| voter_of(node, heard.life.voter));
        // On disk a voter outlives its life: it votes until the consensus goes on without it.
        let counts = self.durable.is_some() && self.consensus.config().contains(voter);
        let removed =
            admitted.is_some_and(|last| voter <= last) && member != Some(voter) && !counts;
        if removed {
            let incarnation = Incarnation(voter.get() - voter_of(node, Incarnation(0)).get());
            self.tell(ctx, node, ControlMessage::Removed { incarnation });
        }
        !removed && newest.is_none_or(|newest| voter >= newest)
    }

    /// The life of `node` that votes, in the configuration this node knows.
    fn voter_at(&mut self, ctx: &mut Ctx<'_>, node: NodeId) -> Option<raftbare::NodeId> {
        let config = self.consensus.config();
        let voter = config.unique_nodes().filter(|voter| node_of(*voter) == node).max()?;
        self.listens_to(ctx, voter).then_some(voter)
    }
}

impl Actor for Control {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if self.halted.is_some() {
            return;
        }
        self.consensus.begin_turn(ctx.now());
        match message {
            Message::LinkDown { node, incarnation, closed } => {
                self.link_down(ctx, node, incarnation, closed);
            }
            Message::Control(message) => self.receive(ctx, from, *message),
            Message::Relay(relayed) => self.relay(ctx, from, *relayed),
            // The state comes back to this actor like to all of the node; the rest is not for it.
            _ => {}
        }
        if self.halted.is_none() && self.begun {
            self.settle(ctx);
        }
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        if self.halted.is_some() {
            return;
        }
        self.consensus.begin_turn(ctx.now());
        match timer {
            Timer::ControlTick => {
                ctx.set_timer(Timer::ControlTick, self.config.heartbeat_interval);
                self.tick(ctx);
            }
            Timer::Election => self.consensus.timeout(),
            _ => unreachable!("not a timer of the control actor: {timer:?}"),
        }
        if self.halted.is_none() {
            self.settle(ctx);
        }
    }

    fn cluster_changed(&mut self, _ctx: &mut Ctx<'_>, _before: &ClusterState) {}

    fn disk(&mut self, ctx: &mut Ctx<'_>, token: u64, result: Result<Vec<DiskAnswer>, DiskError>) {
        if self.halted.is_some() {
            return;
        }
        self.consensus.begin_turn(ctx.now());
        self.disk_answered(ctx, token, result);
        if self.halted.is_none() && self.begun {
            self.settle(ctx);
        }
    }

    fn check_invariants(&self, shared: &Shared) {
        self.state.check();
        self.consensus.check();
        assert!(self.state.index.0 <= self.consensus.applied(), "a state ahead of the log");
        let leads = self.leadership.is_some();
        assert!(!leads || self.consensus.is_leader(), "leader's duties without leading");
        if self.gave_up {
            assert!(shared.lease.until() == Instant::ZERO, "a lease after giving it up");
        }
    }
}

/// The address of a node's control actor.
fn control_of(node: NodeId) -> Address {
    Address { node, worker: WorkerId(0), actor: ActorKind::Control }
}

#[cfg(test)]
mod tests;
