//! One worker of a process: its actors, their inbox, and the rules of delivery.
//!
//! # Owns
//! Run-to-completion: [`Worker::step`] lets one actor handle one message or timer. Messages between
//! actors of the worker never leave it.
//! # Guarantees
//! 1. A message waits until the worker has reached the cluster state its sender had reached.
//! 2. A message of the data plane from a life that is not a member is dropped, clients' excepted.
//! 3. After the link to a life is down nothing more is handled that came over it, and nothing is
//!    sent over a new one by an actor that has not heard of it.
//! 4. Two data nodes whose link broke while both lived exchange nothing but control messages any
//!    more: something between them may be lost, so one of them has to go (`control`).
//! 5. Rows that a life has kept of the last one count only in the cluster they are of.
//! 6. After a message that breaks a rule nothing of that life is handled before its link is down.
//! # Not here
//! Order between workers and latency: the host's.

mod actors;
mod figures;
mod inbox;
mod sender;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actor::{
    Actor, ConnectionEvent, ConnectionId, Connections, Ctx, DiskQueue, DiskReply, DiskRequest,
    EpochView, FlightRecorder, Halt, LeaseCell, Mutation, Recorded, Shared, StepKind, Timer,
    TimerQueue,
};
use client::{IndexBuilder, Joiner};
use control::Control;
use datanode::coordinator::Coordinator;
use datanode::epochs::Epochs;
use datanode::participant::Participant;
use model::{ActorKind, ClusterId, ClusterState, Config, Incarnation, NodeId, NodeRole, WorkerId};
use stdx::{Duration, Instant, Prng};
use wire::{Class, Envelope, Leaving, Message, News};

use actors::Actors;
use inbox::{Inbox, Waiting};
use sender::may_come_from_client;
pub use sender::{Sender, broken_rule};

/// Where a worker runs and what the host gives it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The process.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The worker in it, from 0.
    pub worker: WorkerId,
    /// Workers of the process.
    pub workers: u8,
    /// Limits and intervals.
    pub config: Arc<Config>,
    /// Shared by the workers of the process.
    pub lease: LeaseCell,
    /// Whether the node keeps its state on a disk, which the host works for it.
    pub disk: bool,
    /// Decides the worker's random draws.
    pub seed: u64,
    /// Events the flight recorder keeps.
    pub recorder_size: usize,
}

/// A message that leaves the worker.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The message.
    pub envelope: Envelope,
    /// The life it is meant for; it must not reach another one. None when any life will do.
    pub life: Option<Incarnation>,
}

/// That a life of a node has sent what it may not send, or what cannot be: its host closes the
/// link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The name of the message.
    pub message: &'static str,
    /// The rule that it broke.
    pub rule: &'static str,
}

/// A worker with its actors.
pub struct Worker {
    shared: Shared,
    actors: Actors,
    /// Turns the actors have taken.
    turns: u64,
    /// What the last step was about.
    last: StepKind,
    inbox: Inbox,
    /// Answers of the disk, in order.
    disk_replies: VecDeque<DiskReply>,
    out: VecDeque<Outgoing>,
    /// Links reported down, not yet heard of by the actors: how many reports per peer's life.
    closing: BTreeMap<(NodeId, Incarnation), u32>,
    /// Data nodes' lives of which messages may have been lost.
    severed: BTreeSet<(NodeId, Incarnation)>,
    /// The sender, its life and the name of the message being handled.
    handled: (NodeId, Incarnation, &'static str),
    /// Lives that have broken a rule, and whose links are not down yet.
    refused: BTreeSet<(NodeId, Incarnation)>,
    violations: Vec<Violation>,
    /// The cluster whose rows the participant holds, if any.
    rows_of: ClusterId,
}

impl Worker {
    /// A worker of a data node. Worker 0 also hosts the control plane, the epoch driver and the
    /// index builder.
    pub fn data_node(place: Place) -> Self {
        let actors = Actors { participant: Some(Participant::new()), ..Actors::default() };
        let mut worker = Self::with(place, actors);
        worker.begin_life();
        worker
    }

    /// The only worker of a management node, with an application that looks at the cluster for
    /// operators if it is to have one.
    pub fn management_node(place: Place, application: Option<Box<dyn Actor>>) -> Self {
        assert_eq!(place.workers, 1, "a management node has one worker");
        let control = Some(control_of(&place, NodeRole::Management));
        let actors = Actors { control, client: application, ..Actors::default() };
        Self::with(place, actors)
    }

    /// A worker of a client node: hosts an application. [`Worker::start`] wakes it with the timer
    /// `Application(0)`.
    pub fn client_node(place: Place, application: Box<dyn Actor>) -> Self {
        let actors = Actors { client: Some(application), ..Actors::default() };
        Self::with(place, actors)
    }

    fn with(place: Place, actors: Actors) -> Self {
        let shared = Shared {
            lease: place.lease,
            disk: place.disk.then(DiskQueue::new),
            prng: Prng::new(place.seed),
            recorder: FlightRecorder::new(place.recorder_size),
            ..Shared::new(place.node, place.incarnation, place.worker, place.workers, place.config)
        };
        Self {
            shared,
            actors,
            turns: 0,
            last: StepKind::Short("start"),
            inbox: Inbox::default(),
            disk_replies: VecDeque::new(),
            out: VecDeque::new(),
            closing: BTreeMap::new(),
            severed: BTreeSet::new(),
            handled: (place.node, place.incarnation, "start"),
            refused: BTreeSet::new(),
            violations: Vec::new(),
            rows_of: ClusterId::default(),
        }
    }

    /// Gives a data node's worker the actors that do not outlive a life.
    fn begin_life(&mut self) {
        self.actors.coordinator = Some(Coordinator::new());
        self.actors.joiner = Some(Joiner::new());
        if self.shared.worker == WorkerId(0) {
            let Shared { node, incarnation, workers, ref config, .. } = self.shared;
            let control = Control::new(config.clone(), node, incarnation, NodeRole::Data, workers);
            self.actors.control = Some(control);
            self.actors.epochs = Some(Epochs::new());
            self.actors.builder = Some(IndexBuilder::new());
        }
    }

    /// Sets the actors going. To be called once in a life, before anything is delivered.
    pub fn start(&mut self, now: Instant) {
        self.shared.now = now;
        if let Some(participant) = &mut self.actors.participant {
            participant.start(&mut Ctx::new(&mut self.shared, ActorKind::Participant));
        }
        if let Some(control) = &mut self.actors.control {
            control.start(&mut Ctx::new(&mut self.shared, ActorKind::Control));
        }
        if self.actors.client.is_some() {
            self.shared.timers.set(ActorKind::Client, Timer::Application(0), now);
        }
        self.route();
    }

    /// Begins a new life of a data node's worker with the rows of the last one, after that has
    /// halted. They are dropped if the new life is admitted to another cluster, or are read from
    /// the disk if there is one. Requests to the disk that the host has not taken are forgotten.
    /// The host resets the process's lease; then [`Worker::start`].
    pub fn rejoin(&mut self, incarnation: Incarnation) {
        assert!(incarnation > self.shared.incarnation, "a new life is a larger incarnation");
        let participant = self.actors.participant.as_mut().expect("only data nodes rejoin");
        participant.rejoin();
        self.shared.incarnation = incarnation;
        self.shared.cluster = Arc::default();
        self.shared.epochs = EpochView::default();
        self.shared.outbox.clear();
        self.shared.timers = TimerQueue::default();
        self.shared.halt = None;
        self.inbox = Inbox::default();
        self.disk_replies.clear();
        if let Some(requests) = &mut self.shared.disk {
            requests.clear();
        }
        self.out.clear();
        self.closing.clear();
        self.severed.clear();
        self.handled = (self.shared.node, incarnation, "start");
        self.refused.clear();
        self.violations.clear();
        self.shared.violations.clear();
        self.begin_life();
    }

    /// Takes in a message from another worker, or the report that a link is down. It is handled by
    /// a later [`Worker::step`].
    pub fn deliver(&mut self, envelope: Envelope) {
        if let Message::LinkDown { node, incarnation, closed } = *envelope.message {
            *self.closing.entry((node, incarnation)).or_default() += 1;
            self.refused.remove(&(node, incarnation));
            self.inbox.drop_from(node, incarnation);
            // Nothing was exchanged with a life that this worker does not know as a member yet.
            let both_hold_rows = self.actors.participant.is_some()
                && self.shared.config.is_data_node(node)
                && self.shared.cluster.member(node, incarnation).is_some();
            if both_hold_rows && !closed {
                self.severed.insert((node, incarnation));
            }
        } else {
            let life = (envelope.from.node, envelope.incarnation);
            let control = matches!(*envelope.message, Message::Control(_));
            if self.refused.contains(&life) || !control && self.severed.contains(&life) {
                return;
            }
        }
        self.put(envelope);
    }

    /// Puts a message among those that wait.
    fn put(&mut self, envelope: Envelope) {
        if let Some(class) = self.inbox.push(envelope) {
            self.shared.schedule.begins_to_wait(class);
        }
    }

    /// Takes the next request to the node's disk, for the host to carry out.
    pub fn pop_disk_request(&mut self) -> Option<DiskRequest> {
        self.shared.disk.as_mut()?.pop_front()
    }

    /// Takes in the answer to a request to the disk. It is handled by a later [`Worker::step`].
    pub fn deliver_disk_reply(&mut self, reply: DiskReply) {
        self.disk_replies.push_back(reply);
    }

    /// Whether a message or an answer of the disk waits to be handled.
    pub fn has_messages(&self) -> bool {
        self.inbox.has_messages() || !self.disk_replies.is_empty()
    }

    /// Whether something waits that is not long work.
    pub fn has_urgent(&self) -> bool {
        self.inbox.has_urgent() || !self.disk_replies.is_empty()
    }

    /// Whether a step of long work waits.
    pub fn has_long_work(&self) -> bool {
        self.inbox.has_long()
    }

    /// Whether key operations come in between: then steps of long work are short, and the host
    /// lets a worker do fewer of them before it sees who else wants something.
    pub fn is_shared(&self, now: Instant) -> bool {
        self.shared.schedule.is_shared(now)
    }

    /// Host: for how much of its time, in percent, the thread has waited for a CPU lately.
    pub fn crowd(&mut self, share: u64) {
        self.shared.schedule.crowd(share);
    }

    /// How long the host lets long work rest that has gone on for so long: not at all while nobody
    /// asks for single rows.
    pub fn rest(&self, now: Instant, worked: Duration) -> Duration {
        if self.is_shared(now) { self.shared.schedule.rest(worked) } else { Duration::ZERO }
    }

    /// Host: the last step has taken so long.
    #[inline]
    pub fn took(&mut self, time: Duration) {
        let waiting = self.inbox.waiting_long();
        self.shared.schedule.took(self.last, time, waiting);
        if time > actor::SLOW {
            self.shared.recorder.record(self.shared.now, Recorded::Mark("a slow step"));
        }
    }

    /// Host: work of its own beside all steps has taken so long, which is more than it should.
    pub fn host_took(&mut self, what: &'static str, time: Duration) {
        self.shared.schedule.host_took(what, time);
        self.shared.recorder.record(self.shared.now, Recorded::Mark("a slow step"));
    }

    /// Messages that wait to be handled, held ones included.
    pub fn message_count(&self) -> usize {
        self.inbox.len()
    }

    /// When the earliest timer is due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.shared.timers.next()
    }

    /// Lets one actor handle one timer that is due, or else one answer of the disk, or else one
    /// message. False when there was nothing to handle. What it sends is then in
    /// [`Worker::take_outgoing`].
    pub fn step(&mut self, now: Instant) -> bool {
        self.step_urgent(now) || self.inbox.has_long() && self.step_long(now)
    }

    /// As [`Worker::step`], but nothing when only steps of long work wait, or have to go first now:
    /// then the host may see who else wants something.
    pub fn step_urgent(&mut self, now: Instant) -> bool {
        if !self.advance(now) {
            return false;
        }
        if let Some((to, timer)) = self.shared.timers.pop_due(now) {
            self.shared.recorder.record(now, Recorded::Timer { to, timer });
            self.last = StepKind::Short(timer.name());
            self.turn(to, |actor, ctx| actor.timeout(ctx, timer));
            self.route();
            return true;
        }
        if let Some(DiskReply { actor, token, result }) = self.disk_replies.pop_front() {
            self.shared.recorder.record(now, Recorded::Disk { to: actor, token });
            self.last = StepKind::Short("answer of the disk");
            self.turn(actor, |actor, ctx| actor.disk(ctx, token, result));
            self.route();
            return true;
        }
        let is_due = self.shared.schedule.is_due();
        while let Some(waiting) = self.inbox.pop_urgent(is_due) {
            if self.take(waiting) {
                return true;
            }
        }
        false
    }

    /// Lets one actor do a step of long work, behind which others may have gone first; false if
    /// there is none.
    pub fn step_long(&mut self, now: Instant) -> bool {
        if !self.advance(now) {
            return false;
        }
        while let Some(waiting) = self.inbox.pop_long(self.shared.schedule.next_class()) {
            if self.take(waiting) {
                return true;
            }
        }
        false
    }

    /// Brings the worker to a point in time; false if it has halted.
    fn advance(&mut self, now: Instant) -> bool {
        if self.shared.halt.is_some() {
            return false;
        }
        assert!(now >= self.shared.now, "time runs forward");
        self.shared.now = now;
        true
    }

    /// Handles a message, unless it has to wait or is not welcome.
    #[inline]
    fn take(&mut self, waiting: Waiting) -> bool {
        if self.must_wait(&waiting.envelope) {
            let Envelope { from, incarnation, ref message, .. } = waiting.envelope;
            if from.actor == ActorKind::Client && self.inbox.holds_many() {
                let rule = "more of its messages wait for a later cluster state than may";
                self.refuse(from.node, incarnation, message.name(), rule);
            } else {
                self.inbox.hold(waiting);
            }
            return false;
        }
        if !self.is_welcome(&waiting.envelope) {
            return false;
        }
        if !self.has_worker(&waiting.envelope) {
            let Envelope { from, incarnation, ref message, .. } = waiting.envelope;
            self.refuse(from.node, incarnation, message.name(), "no such worker sends it");
            return false;
        }
        self.handle(waiting.envelope);
        self.route();
        true
    }

    /// Tells the application what has happened to one of its connections, which the host has
    /// registered in [`Worker::connections`]. What it sends is then in [`Worker::take_outgoing`].
    pub fn connection(&mut self, now: Instant, id: ConnectionId, event: ConnectionEvent<'_>) {
        assert!(now >= self.shared.now, "time runs forward");
        self.shared.now = now;
        self.last = StepKind::Short("event of a connection");
        self.turn(ActorKind::Client, |actor, ctx| actor.connection(ctx, id, event));
        self.route();
    }

    /// How many turns its actors have taken: for messages, timers and events of connections. The
    /// same work takes as many, however it is spread over time.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// What the application wants done with its connections.
    pub fn connections(&mut self) -> &mut Connections {
        &mut self.shared.connections
    }

    /// Takes the next message that the actors have sent to other workers, in order.
    pub fn pop_outgoing(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// Takes all that the actors have sent to other workers, in order.
    pub fn take_outgoing(&mut self) -> VecDeque<Outgoing> {
        std::mem::take(&mut self.out)
    }

    /// Takes what was refused: the host closes the links to those lives.
    pub fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// Takes what the actors tell operators, and of which nodes.
    pub fn take_news(&mut self) -> Vec<(NodeId, News)> {
        std::mem::take(&mut self.shared.news)
    }

    /// Takes the wish of an actor that the process leaves.
    pub fn take_leaving(&mut self) -> Option<Leaving> {
        self.shared.leaving.take()
    }

    /// Why the node must stop, if an actor of this worker says so.
    pub fn halted(&self) -> Option<&Halt> {
        self.shared.halt.as_ref()
    }

    /// What the worker's actors share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What the worker's actors share, for hosts that set up faults and mutations.
    pub fn shared_mut(&mut self) -> &mut Shared {
        &mut self.shared
    }

    /// The control actor: on worker 0 of data and management nodes.
    pub fn control(&self) -> Option<&Control> {
        self.actors.control.as_ref()
    }

    /// The epoch driver: on worker 0 of data nodes.
    pub fn epochs(&self) -> Option<&Epochs> {
        self.actors.epochs.as_ref()
    }

    /// The coordinator: on data nodes.
    pub fn coordinator(&self) -> Option<&Coordinator> {
        self.actors.coordinator.as_ref()
    }

    /// The participant: on data nodes.
    pub fn participant(&self) -> Option<&Participant> {
        self.actors.participant.as_ref()
    }

    /// Panics when a rule that holds between messages is broken in an actor.
    pub fn check_invariants(&self) {
        for (_, actor) in self.actors.iter() {
            actor.check_invariants(&self.shared);
        }
    }

    /// Held until the worker has reached what the sender had reached. A client that follows no
    /// state yet has nothing to wait for.
    fn must_wait(&self, envelope: &Envelope) -> bool {
        let free = matches!(
            *envelope.message,
            Message::Control(_)
                | Message::State(_)
                | Message::StateChange(_)
                | Message::LinkDown { .. }
        );
        let follows = self.actors.client.is_none() || self.shared.cluster.index.0 > 0;
        !free && follows && envelope.reached > self.shared.cluster.index
    }

    /// Whether the message is for this worker's actors and its sender may send it.
    fn is_welcome(&self, envelope: &Envelope) -> bool {
        let Envelope { from, incarnation, to, message, .. } = envelope;
        match &**message {
            Message::State(_) | Message::StateChange(_) | Message::LinkDown { .. } => return true,
            Message::Control(_) => return inbox::fits(to.actor, message),
            _ => {}
        }
        let own = from.node == self.shared.node;
        let belongs = own
            || self.shared.cluster.index.0 == 0 && self.actors.client.is_some()
            || self.shared.cluster.member(from.node, *incarnation).is_some()
            || may_come_from_client(envelope);
        belongs && inbox::fits(to.actor, message)
    }

    /// Whether the sender's node has a worker of its number, as far as is known.
    fn has_worker(&self, envelope: &Envelope) -> bool {
        let Envelope { from, incarnation, ref message, .. } = *envelope;
        // The host of this node says so, in the peer's name.
        let reported = matches!(**message, Message::LinkDown { .. });
        let member = self.shared.cluster.member(from.node, incarnation).filter(|_| !reported);
        member.is_none_or(|member| from.worker.0 < member.workers)
    }

    fn handle(&mut self, envelope: Envelope) {
        let Envelope { from, incarnation, to, message, .. } = envelope;
        let message = *message;
        let name = message.name();
        self.handled = (from.node, incarnation, name);
        let record = Recorded::Message { from, to: to.actor, name };
        self.shared.recorder.record(self.shared.now, record);
        self.shared.messages.handled(name);
        if from.actor != ActorKind::Joiner && message.is_key_operation() {
            self.shared.schedule.operation(self.shared.now);
        }
        self.last = match message {
            Message::Continue(work) if work.class() >= Class::Query => StepKind::Long(work),
            _ => StepKind::Short(name),
        };
        match message {
            Message::State(state) => {
                self.reach(state.clone());
                if from.node != self.shared.node || from.actor == ActorKind::Client {
                    // Who follows a node hears that it answers, also if that is nothing new.
                    let message = Message::State(state);
                    self.turn(ActorKind::Client, |actor, ctx| actor.handle(ctx, from, message));
                }
            }
            Message::StateChange(change) => {
                let change = match self.shared.mutation {
                    Mutation::StateChangesLost => Arc::new(change.without_tables()),
                    _ => change,
                };
                if let Some(state) = change.apply(&self.shared.cluster) {
                    self.reach(Arc::new(state));
                }
                let message = Message::StateChange(change);
                self.turn(ActorKind::Client, |actor, ctx| actor.handle(ctx, from, message));
            }
            Message::LinkDown { node, incarnation, .. } => {
                let peer = (node, incarnation);
                let pending = self.closing.get_mut(&peer).expect("counted when it came in");
                *pending -= 1;
                if *pending == 0 {
                    self.closing.remove(&peer);
                }
                for kind in ORDER {
                    let message = message.clone();
                    self.turn(kind, |actor, ctx| actor.handle(ctx, from, message));
                }
            }
            message => self.turn(to.actor, |actor, ctx| actor.handle(ctx, from, message)),
        }
    }

    /// Takes over a newer cluster state: tells all actors, lets go of what was held for it.
    fn reach(&mut self, state: Arc<ClusterState>) {
        let (own, cluster) = (self.shared.cluster.id, state.id);
        let follows_only = self.actors.control.is_none() && self.actors.participant.is_none();
        if follows_only && own != ClusterId::default() && cluster != own {
            // What this worker knows of tables and rows is of a cluster that is gone.
            self.shared.halt = Some(Halt::OtherCluster { own, cluster });
            return;
        }
        if state.index <= self.shared.cluster.index {
            return;
        }
        // A new life is told the log from before its admission, where an older life of the node
        // may be a member with duties and replicas: none of that is for this life.
        let data_node = self.actors.participant.is_some();
        if data_node && state.member(self.shared.node, self.shared.incarnation).is_none() {
            return;
        }
        if data_node && self.rows_of != state.id {
            // A participant with a disk is told what counts of it.
            if self.rows_of != ClusterId::default() && self.shared.disk.is_none() {
                // Nothing but their names makes these rows resemble those of the new cluster.
                self.actors.participant = Some(Participant::new());
            }
            self.rows_of = state.id;
        }
        let before = std::mem::replace(&mut self.shared.cluster, state);
        let members = &self.shared.cluster;
        self.severed.retain(|(node, life)| {
            let admitted = members.incarnations.get(node).is_some_and(|last| last >= life);
            !admitted || members.member(*node, *life).is_some()
        });
        for kind in ORDER {
            self.turn(kind, |actor, ctx| actor.cluster_changed(ctx, &before));
        }
        self.inbox.release(self.shared.cluster.index);
    }

    fn turn(&mut self, kind: ActorKind, run: impl FnOnce(&mut dyn Actor, &mut Ctx<'_>)) {
        if self.shared.halt.is_some() {
            return;
        }
        if let Some(actor) = self.actors.get_mut(kind) {
            self.turns += 1;
            run(actor, &mut Ctx::new(&mut self.shared, kind));
        }
    }

    /// Notes that a life has broken a rule: nothing more of it counts until its link is down.
    fn refuse(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        message: &'static str,
        rule: &'static str,
    ) {
        if self.refused.insert((node, incarnation)) {
            self.violations.push(Violation { node, incarnation, message, rule });
        }
        self.inbox.forget(node, incarnation);
    }

    /// Notes what the actors have refused in this turn: the message that was handled, or one that
    /// had waited at the actor.
    #[cold]
    fn note_refused(&mut self) {
        for (node, rule) in std::mem::take(&mut self.shared.violations) {
            let (from, incarnation, name) = self.handled;
            let member = self.shared.cluster.members.get(&node).map(|member| member.incarnation);
            match member {
                _ if from == node => self.refuse(node, incarnation, name, rule),
                Some(incarnation) => self.refuse(node, incarnation, "an earlier message", rule),
                None => {}
            }
        }
    }

    /// Sorts what was sent: back into the inbox, or out.
    fn route(&mut self) {
        if !self.shared.violations.is_empty() {
            self.note_refused();
        }
        while let Some(envelope) = self.shared.outbox.pop_front() {
            let to = envelope.to;
            if to.node == self.shared.node && to.worker == self.shared.worker {
                self.put(envelope);
                continue;
            }
            let control = matches!(*envelope.message, Message::Control(_));
            let member = self.shared.cluster.members.get(&to.node);
            let life = member.filter(|_| !control).map(|member| member.incarnation);
            let gone = |peer: &(NodeId, Incarnation)| {
                peer.0 == to.node && life.is_none_or(|life| life == peer.1)
            };
            if !control && self.closing.keys().any(gone) {
                continue; // The sender does not know yet that its link is gone.
            }
            self.out.push_back(Outgoing { envelope, life });
        }
    }
}

fn control_of(place: &Place, role: NodeRole) -> Control {
    Control::new(place.config.clone(), place.node, place.incarnation, role, place.workers)
}

/// The order in which actors hear what concerns all of them: replicas before those who use them.
const ORDER: [ActorKind; 7] = [
    ActorKind::Participant,
    ActorKind::Coordinator,
    ActorKind::Epochs,
    ActorKind::Control,
    ActorKind::IndexBuilder,
    ActorKind::Joiner,
    ActorKind::Client,
];

#[cfg(test)]
mod tests;
