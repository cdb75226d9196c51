//! A world of control actors under one virtual clock: links with order and delay, crashes,
//! partitions, clocks that run at different rates. After every event the rules that hold between
//! nodes are checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use actor::{
    Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, DiskQueue, DiskReply, DiskRequest,
    FaultPlan, Mutation, Shared,
};
use model::{ClusterId, Epoch};
use stdx::Prng;
use wire::{CoordinatorMessage, Envelope, News, ParticipantMessage, WorkerDisk};

use super::*;

/// The client's node in all tests.
pub(super) const CLIENT: NodeId = NodeId(200);
/// Time from a crash to the peers' noticing, and from a cut to the links' giving up.
const CLOSED_AFTER: Duration = Duration::from_millis(3);
const SILENT_AFTER: Duration = Duration::from_millis(150);

pub(super) struct Host {
    pub(super) control: Control,
    pub(super) shared: Shared,
    /// Set while nothing is processed.
    frozen_until: Instant,
    offset: u64,
    /// Clock rate in thousandths.
    rate: u64,
}

impl Host {
    fn local(&self, now: Instant) -> Instant {
        Instant::from_nanos(self.offset + now.as_nanos() / 1_000 * self.rate)
    }

    fn global(&self, local: Instant) -> Instant {
        let elapsed = local.as_nanos().saturating_sub(self.offset);
        Instant::from_nanos(elapsed.div_ceil(self.rate) * 1_000)
    }
}

enum Event {
    Deliver(Envelope, Incarnation),
    LinkDown {
        at: NodeId,
        node: NodeId,
        incarnation: Incarnation,
        closed: bool,
    },
    Restart(NodeId),
    /// A life's first request to the disk has been carried out.
    Disk(NodeId, Incarnation),
}

/// The files of a node. What a life had under way when it ended may have been carried out in part.
#[derive(Default)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    under_way: VecDeque<DiskRequest>,
    /// Writes find no space.
    pub(super) full: bool,
    /// Bytes of the longest write.
    pub(super) longest: usize,
}

pub(super) struct World {
    pub(super) config: Arc<Config>,
    pub(super) now: Instant,
    pub(super) hosts: BTreeMap<NodeId, Host>,
    pub(super) prng: Prng,
    events: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    /// Newest arrival on each link, which keeps order.
    arrivals: BTreeMap<(NodeId, NodeId), Instant>,
    /// Directed links that carry nothing.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// What the line of a host adds to the time of each message.
    slow: BTreeMap<NodeId, Duration>,
    lives: BTreeMap<NodeId, u64>,
    pub(super) disks: BTreeMap<NodeId, Disk>,
    /// What the workers of a node say that they have, and how far they were told to read it back.
    pub(super) rows: BTreeMap<NodeId, (ClusterId, Epoch)>,
    pub(super) restored: BTreeMap<NodeId, Epoch>,
    /// What their watermarks say.
    pub(super) watermarks: BTreeMap<NodeId, (ClusterId, Epoch)>,
    /// What operators were told, by whom, and of which node.
    pub(super) news: Vec<(NodeId, NodeId, News)>,
    /// Ended nodes come back as a new life after this time.
    pub(super) restart_after: Option<Duration>,
    pub(super) halts: Vec<(NodeId, Halt)>,
    pub(super) mutation: Mutation,
    /// States by cluster and index, as first reached anywhere.
    states: BTreeMap<(ClusterId, ControlIndex), Arc<ClusterState>>,
    /// Messages to the client.
    pub(super) inbox: VecDeque<Message>,
    /// Coordinators always have transactions open.
    pub(super) busy: bool,
    /// Nodes whose next lives are of an older version.
    pub(super) older: BTreeSet<NodeId>,
    /// A life with a lease was removed somewhere.
    pub(super) fence_broken: bool,
    pub(super) probes: BTreeSet<&'static str>,
    chance: u64,
}

impl World {
    /// A world whose configured nodes all start at once.
    pub(super) fn new(seed: u64, data: u16, management: u16, replicas: u8) -> Self {
        let nodes = |from: u16, count: u16| (from..from + count).map(NodeId).collect();
        let mut config = Config::new(nodes(1, data), nodes(90, management), replicas);
        config.heartbeat_interval = Duration::from_millis(40);
        config.lease = Duration::from_millis(400);
        config.election_timeout = Duration::from_millis(150);
        config.lock_timeout = Duration::from_millis(200);
        config.quiesce_time = Duration::from_millis(60);
        Self::with_config(seed, config, 0)
    }

    /// A world in which handlers die at fault points with this chance in a million.
    pub(super) fn with_config(seed: u64, config: Config, chance: u64) -> Self {
        let mut world = Self {
            config: Arc::new(config),
            now: Instant::from_nanos(1_000_000),
            hosts: BTreeMap::new(),
            prng: Prng::new(seed),
            events: BTreeMap::new(),
            sequence: 0,
            arrivals: BTreeMap::new(),
            cut: BTreeSet::new(),
            slow: BTreeMap::new(),
            lives: BTreeMap::new(),
            disks: BTreeMap::new(),
            rows: BTreeMap::new(),
            watermarks: BTreeMap::new(),
            news: Vec::new(),
            restored: BTreeMap::new(),
            restart_after: None,
            halts: Vec::new(),
            mutation: Mutation::None,
            states: BTreeMap::new(),
            inbox: VecDeque::new(),
            busy: false,
            older: BTreeSet::new(),
            fence_broken: false,
            probes: BTreeSet::new(),
            chance,
        };
        for node in world.nodes() {
            world.boot(node);
        }
        world
    }

    /// No more deaths at fault points.
    pub(super) fn calm(&mut self) {
        self.chance = 0;
        for host in self.hosts.values_mut() {
            host.shared.faults.set_chance(0);
        }
    }

    /// A started cluster.
    pub(super) fn started(seed: u64, data: u16, management: u16, replicas: u8) -> Self {
        let mut world = Self::new(seed, data, management, replicas);
        world.await_active();
        world
    }

    pub(super) fn nodes(&self) -> Vec<NodeId> {
        self.config.data_nodes.iter().chain(&self.config.management_nodes).copied().collect()
    }

    pub(super) fn boot(&mut self, node: NodeId) {
        if self.hosts.contains_key(&node) {
            return;
        }
        let life = self.lives.entry(node).or_insert(0);
        *life += 1;
        let incarnation = Incarnation(*life);
        let data = self.config.data_nodes.contains(&node);
        let role = if data { NodeRole::Data } else { NodeRole::Management };
        let workers = if data { 2 } else { 1 };
        let faults = FaultPlan::random(self.prng.next_u64(), self.chance);
        let shared = Shared {
            disk: self.config.disk.then(DiskQueue::new),
            prng: self.prng.fork(),
            faults,
            mutation: self.mutation,
            ..Shared::new(node, incarnation, WorkerId(0), workers, self.config.clone())
        };
        let mut control = Control::new(self.config.clone(), node, incarnation, role, workers);
        if self.older.contains(&node) {
            control.versions.own = 9;
        }
        let (offset, rate) = (self.prng.below(1 << 40), self.prng.between(965, 1_035));
        let host = Host { control, shared, frozen_until: Instant::ZERO, offset, rate };
        self.hosts.insert(node, host);
        self.turn(node, |control, ctx| control.start(ctx));
        if data && self.config.disk {
            let rows = self.rows.get(&node).copied();
            let durable = self.watermarks.get(&node).copied();
            for worker in [WorkerId(0), WorkerId(1)] {
                let found = WorkerDisk { rows, durable, ..WorkerDisk::default() };
                let found = Box::new(found);
                self.local(node, worker, ControlMessage::WorkerStored { worker, found });
            }
        }
    }

    /// Lets the control actor of a node do something, then carries out what it wants.
    pub(super) fn turn(&mut self, node: NodeId, work: impl FnOnce(&mut Control, &mut Ctx<'_>)) {
        let now = self.now;
        let host = self.hosts.get_mut(&node).unwrap();
        host.shared.now = host.local(now);
        work(&mut host.control, &mut Ctx::new(&mut host.shared, ActorKind::Control));
        self.flush(node);
        self.check();
    }

    fn flush(&mut self, node: NodeId) {
        loop {
            let host = self.hosts.get_mut(&node).unwrap();
            let Some(envelope) = host.shared.outbox.pop_front() else {
                break;
            };
            if let (Message::State(state), true) = (&*envelope.message, envelope.to.node == node) {
                let state = state.clone();
                self.take_state(node, envelope.to.worker, state);
            } else if let Message::Participant(ParticipantMessage::Restore { through }) =
                *envelope.message
            {
                let worker = envelope.to.worker;
                self.restored.insert(node, through);
                let id = self.hosts[&node].control.state().id;
                let rows = self.rows.entry(node).or_insert((id, through));
                if rows.0 != id {
                    *rows = (id, through);
                }
                self.local(node, worker, ControlMessage::WorkerRestored { worker });
            } else if let Message::Coordinator(CoordinatorMessage::Quiesce {
                number, span, ..
            }) = *envelope.message
            {
                let worker = envelope.to.worker;
                if span > Duration::ZERO && !self.busy {
                    self.local(node, worker, ControlMessage::WorkerQuiet { worker, number });
                }
            } else if let Message::Coordinator(CoordinatorMessage::QuiesceHeld { number, .. }) =
                *envelope.message
            {
                let worker = envelope.to.worker;
                if !self.busy {
                    self.local(node, worker, ControlMessage::WorkerQuiet { worker, number });
                }
            } else {
                let life = host.shared.incarnation;
                self.post(envelope, life);
            }
        }
        self.take_disk_requests(node);
        let news = std::mem::take(&mut self.hosts.get_mut(&node).unwrap().shared.news);
        self.news.extend(news.into_iter().map(|(about, news)| (node, about, news)));
        let host = &self.hosts[&node];
        if let Some(halt) = host.shared.halt.clone() {
            self.halts.push((node, halt));
            self.end(node, true);
        } else {
            host.control.check_invariants(&host.shared);
        }
    }

    fn take_disk_requests(&mut self, node: NodeId) {
        let Some(queue) = &mut self.hosts.get_mut(&node).unwrap().shared.disk else { return };
        let requests = std::mem::take(queue);
        let disk = self.disks.entry(node).or_default();
        let idle = disk.under_way.is_empty();
        disk.under_way.extend(requests);
        if idle {
            self.plan_disk(node);
        }
    }

    fn plan_disk(&mut self, node: NodeId) {
        if !self.disks[&node].under_way.is_empty() {
            let life = self.hosts[&node].shared.incarnation;
            let delay = Duration::from_micros(self.prng.between(20, 8_000));
            self.schedule(self.now + delay, Event::Disk(node, life));
        }
    }

    /// A life has ended: some of what it had under way was carried out, a write perhaps in part.
    fn end_disk(&mut self, node: NodeId) {
        let Some(disk) = self.disks.get_mut(&node) else { return };
        if let Some(request) = disk.under_way.pop_front() {
            let whole = self.prng.below(request.operations.len() as u64 + 1) as usize;
            for (at, operation) in request.operations.into_iter().enumerate() {
                match operation {
                    DiskOperation::Write { path, offset, mut bytes } if at == whole => {
                        bytes.truncate(self.prng.below(bytes.len() as u64 + 1) as usize);
                        disk.perform(DiskOperation::Write { path, offset, bytes });
                    }
                    operation if at < whole => drop(disk.perform(operation)),
                    _ => {}
                }
            }
        }
        disk.under_way.clear();
    }

    /// Plays the other actors of a worker: rows arrive at once, takeovers are quick.
    fn take_state(&mut self, node: NodeId, worker: WorkerId, state: Arc<ClusterState>) {
        let name = (state.id, state.index);
        let known = self.states.entry(name).or_insert_with(|| state.clone());
        assert_eq!(*known, state, "two states of {} with index {}", state.id, state.index);
        let host = self.hosts.get_mut(&node).unwrap();
        if worker == WorkerId(0) {
            assert!(state.index > host.shared.cluster.index);
            host.shared.cluster = state.clone();
        }
        let incarnation = host.shared.incarnation;
        let syncing = state
            .member(node, incarnation)
            .is_some_and(|member| member.status == MemberStatus::Syncing);
        if syncing && host.control.role == NodeRole::Data {
            let reached = state.index;
            self.local(node, worker, ControlMessage::WorkerSynced { worker, reached });
        }
        if worker == WorkerId(0) && state.driver() == Some(node) {
            for takeover in &state.takeovers {
                let (node_, incarnation) = (takeover.node, takeover.incarnation);
                let done = Command::TakeoverDone { node: node_, incarnation };
                self.local(node, worker, ControlMessage::Propose(Arc::new(done)));
            }
        }
    }

    fn local(&mut self, node: NodeId, worker: WorkerId, message: ControlMessage) {
        let from = Address { node, worker, actor: ActorKind::Coordinator };
        self.send(from, node, message);
    }

    pub(super) fn send(&mut self, from: Address, to: NodeId, message: ControlMessage) {
        let incarnation = Incarnation(self.lives.get(&from.node).copied().unwrap_or(1));
        let envelope = Envelope {
            from,
            incarnation,
            to: control_of(to),
            reached: ControlIndex(0),
            message: Box::new(Message::Control(Box::new(message))),
        };
        self.post(envelope, incarnation);
    }

    fn post(&mut self, envelope: Envelope, life: Incarnation) {
        let (from, to) = (envelope.from.node, envelope.to.node);
        if self.cut.contains(&(from, to)) {
            return;
        }
        let line = |node| self.slow.get(node).copied().unwrap_or(Duration::ZERO);
        let lines = if from == to { Duration::ZERO } else { line(&from) + line(&to) };
        let delay = lines + Duration::from_micros(self.prng.between(50, 4_000));
        let last = self.arrivals.entry((from, to)).or_insert(Instant::ZERO);
        let at = (self.now + delay).max(*last);
        *last = at;
        self.schedule(at, Event::Deliver(envelope, life));
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// The probes that some life has hit.
    pub(super) fn probes_hit(&self) -> BTreeSet<&'static str> {
        let living = self.hosts.values().flat_map(|host| host.shared.probes.counts());
        living.map(|(probe, _)| probe).chain(self.probes.iter().copied()).collect()
    }

    /// Ends a process; `noticed` when its host closes the connections.
    fn end(&mut self, node: NodeId, noticed: bool) {
        let host = self.hosts.remove(&node).unwrap();
        self.end_disk(node);
        self.probes.extend(host.shared.probes.counts().map(|(probe, _)| probe));
        let incarnation = host.shared.incarnation;
        for peer in self.hosts.keys().copied().collect::<Vec<_>>() {
            let cut = self.cut.contains(&(node, peer));
            let closed = noticed && !cut;
            let after = if closed { CLOSED_AFTER } else { SILENT_AFTER };
            let at = (self.now + after)
                .max(self.arrivals.get(&(node, peer)).copied().unwrap_or(Instant::ZERO));
            self.schedule(at, Event::LinkDown { at: peer, node, incarnation, closed });
        }
        if let Some(after) = self.restart_after {
            self.schedule(self.now + after, Event::Restart(node));
        }
    }

    /// Kills a process; its host closes the connections.
    pub(super) fn crash(&mut self, node: u16) {
        if self.hosts.contains_key(&NodeId(node)) {
            self.end(NodeId(node), true);
        }
    }

    /// A host vanishes without a word.
    pub(super) fn vanish(&mut self, node: u16) {
        if self.hosts.contains_key(&NodeId(node)) {
            self.end(NodeId(node), false);
        }
    }

    /// Cuts one direction; both ends notice after a while.
    pub(super) fn cut_one_way(&mut self, from: NodeId, to: NodeId) {
        if !self.cut.insert((from, to)) {
            return;
        }
        self.events.retain(|_, event| {
            !matches!(event, Event::Deliver(e, _) if e.from.node == from && e.to.node == to)
        });
        self.lose_messages(from, to);
    }

    /// Both ends notice that messages between them were lost.
    fn lose_messages(&mut self, a: NodeId, b: NodeId) {
        for (at, node) in [(a, b), (b, a)] {
            if let Some(host) = self.hosts.get(&node) {
                let incarnation = host.shared.incarnation;
                let event = Event::LinkDown { at, node, incarnation, closed: false };
                self.schedule(self.now + SILENT_AFTER, event);
            }
        }
    }

    /// The line of a host has become slow, and its link to another one has lost messages.
    pub(super) fn slow_line(&mut self, node: u16, delay: Duration, lossy: u16) {
        self.slow.insert(NodeId(node), delay);
        self.lose_messages(NodeId(node), NodeId(lossy));
    }

    pub(super) fn cut_link(&mut self, a: u16, b: u16) {
        self.cut_one_way(NodeId(a), NodeId(b));
        self.cut_one_way(NodeId(b), NodeId(a));
    }

    /// Cuts the nodes of `side` from all others.
    pub(super) fn partition(&mut self, side: &[u16]) {
        for other in self.nodes() {
            for node in side {
                if !side.contains(&other.0) {
                    self.cut_link(*node, other.0);
                }
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(super) fn freeze(&mut self, node: u16, span: Duration) {
        let until = self.now + span;
        if let Some(host) = self.hosts.get_mut(&NodeId(node)) {
            host.frozen_until = until;
        }
    }

    fn next_timer(&self) -> Option<(Instant, NodeId)> {
        self.hosts
            .iter()
            .filter_map(|(node, host)| {
                let at = host.global(host.shared.timers.next()?);
                Some((at.max(host.frozen_until), *node))
            })
            .min()
    }

    /// Handles the next event, if there is one before `until`.
    pub(super) fn step(&mut self, until: Instant) -> bool {
        let event = self.events.keys().next().copied();
        let timer = self.next_timer();
        let event_at = event.map_or(Instant::FAR_FUTURE, |(at, _)| at);
        let timer_at = timer.map_or(Instant::FAR_FUTURE, |(at, _)| at);
        let next = event_at.min(timer_at);
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        if event_at <= timer_at {
            let (_, event) = self.events.pop_first().unwrap();
            self.handle(event);
        } else if let Some((_, node)) = timer {
            let now = self.now;
            let host = self.hosts.get_mut(&node).unwrap();
            let local = host.local(now);
            if let Some((_, timer)) = host.shared.timers.pop_due(local.max(
                // The conversion between clocks rounds.
                host.shared.timers.next().unwrap(),
            )) {
                self.turn(node, |control, ctx| control.timeout(ctx, timer));
            }
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Restart(node) => self.boot(node),
            Event::Disk(node, life) => {
                let alive = self.hosts.get(&node).map(|host| host.shared.incarnation);
                if alive == Some(life) {
                    let reply = self.disks.get_mut(&node).unwrap().carry_out();
                    self.plan_disk(node);
                    let DiskReply { token, result, .. } = reply;
                    self.turn(node, |control, ctx| control.disk(ctx, token, result));
                }
            }
            Event::Deliver(envelope, life) if envelope.to.node == CLIENT => {
                let alive = self.hosts.get(&envelope.from.node);
                if alive.is_some_and(|host| host.shared.incarnation == life) {
                    self.inbox.push_back(*envelope.message);
                }
            }
            Event::Deliver(envelope, life) => {
                let node = envelope.to.node;
                if self.delay_if_frozen(node) {
                    let until = self.hosts[&node].frozen_until;
                    self.schedule(until, Event::Deliver(envelope, life));
                } else if self.hosts.contains_key(&node) {
                    let (from, message) = (envelope.from, *envelope.message);
                    self.turn(node, |control, ctx| control.handle(ctx, from, message));
                }
            }
            Event::LinkDown { at, node, incarnation, closed } => {
                if self.delay_if_frozen(at) {
                    let until = self.hosts[&at].frozen_until;
                    self.schedule(until, Event::LinkDown { at, node, incarnation, closed });
                } else if self.hosts.contains_key(&at) {
                    let message = Message::LinkDown { node, incarnation, closed };
                    self.turn(at, |control, ctx| control.handle(ctx, control_of(node), message));
                }
            }
        }
    }

    fn delay_if_frozen(&self, node: NodeId) -> bool {
        self.hosts.get(&node).is_some_and(|host| host.frozen_until > self.now)
    }

    pub(super) fn run(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        while self.step(until) {}
    }

    /// Runs until `done`; panics when that takes longer than `millis`.
    pub(super) fn run_until(&mut self, millis: u64, what: &str, done: impl Fn(&World) -> bool) {
        let until = self.now + Duration::from_millis(millis);
        while !done(self) {
            assert!(self.step(until), "not within {millis} ms: {what}\n{}", self.describe());
        }
    }

    pub(super) fn await_active(&mut self) {
        self.run_until(60_000, "all nodes active", |world| {
            world.nodes().iter().all(|node| world.status(node.0) == Some(MemberStatus::Active))
                && world.nodes().iter().all(|node| world.has_lease(node.0))
        });
    }

    pub(super) fn has_lease(&self, node: u16) -> bool {
        self.hosts.get(&NodeId(node)).is_some_and(|host| {
            host.shared.halt.is_none() && host.local(self.now) < host.shared.lease.until()
        })
    }

    pub(super) fn leader(&self) -> Option<u16> {
        let leads = |(_, host): &(&NodeId, &Host)| host.control.is_leader();
        let newest = self.hosts.iter().filter(leads).max_by_key(|(_, host)| host.control.term());
        newest.map(|(node, _)| node.0)
    }

    /// The newest state of any node.
    pub(super) fn state(&self) -> Arc<ClusterState> {
        let states = self.hosts.values().map(|host| host.control.state());
        states.max_by_key(|state| state.index).cloned().unwrap_or_default()
    }

    /// The status of a node's living life in the newest state.
    pub(super) fn status(&self, node: u16) -> Option<MemberStatus> {
        let life = self.hosts.get(&NodeId(node))?.shared.incarnation;
        self.state().member(NodeId(node), life).map(|member| member.status)
    }

    pub(super) fn is_member(&self, node: u16) -> bool {
        self.state().members.contains_key(&NodeId(node))
    }

    /// Voters as the leader sees them, by node.
    pub(super) fn voters(&self) -> Vec<u16> {
        let Some(leader) = self.leader() else {
            return vec![];
        };
        let config = self.hosts[&NodeId(leader)].control.consensus.config();
        assert!(!config.is_joint_consensus() || !config.voters.is_empty());
        config.voters.iter().map(|voter| node_of(*voter).0).collect()
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("{} halts {:?}\n", self.now, self.halts);
        for (node, host) in &self.hosts {
            text += &format!(
                "{node} {} leader {:?} term {} voter {} lease {} {:?}\n",
                host.shared.incarnation,
                host.control.leader(),
                host.control.term(),
                host.control.is_voter(),
                self.has_lease(node.0),
                host.control.consensus.config(),
            );
        }
        text + &format!("{:#?}\n", self.state())
    }

    /// What must hold across nodes at every moment.
    fn check(&mut self) {
        let mut leaders = BTreeSet::new();
        let oldest = self.oldest_member();
        for (node, host) in &self.hosts {
            if host.control.is_leader() {
                assert!(leaders.insert(host.control.term()), "two leaders in one term");
            }
            if !self.has_lease(node.0) {
                continue;
            }
            let known = host.shared.lease.protocol();
            let held = known <= oldest || self.mutation != Mutation::None;
            assert!(held, "{node} speaks {known}, a member {oldest}");
            // Whoever has seen the removal may take over: from then on nobody of that life serves.
            let life = host.shared.incarnation;
            let removed = |other: &Host| other.control.was_removed(*node, life);
            if self.hosts.values().any(removed) {
                assert!(self.mutation != Mutation::None, "{node} serves after its removal");
                self.fence_broken = true;
            }
        }
    }

    /// The newest version that every member speaks that is running.
    fn oldest_member(&self) -> u16 {
        let running = |(node, member): (&NodeId, &Member)| {
            let host = self.hosts.get(node)?;
            (host.shared.incarnation == member.incarnation).then_some(host.control.versions.own)
        };
        self.state().members.iter().filter_map(running).min().unwrap_or(u16::MAX)
    }
}

impl Disk {
    fn carry_out(&mut self) -> DiskReply {
        let DiskRequest { actor, token, operations, .. } = self.under_way.pop_front().unwrap();
        let mut answers = Vec::new();
        for (at, operation) in operations.into_iter().enumerate() {
            if self.full && matches!(operation, DiskOperation::Write { .. }) {
                let (kind, text) = (DiskErrorKind::Full, "no space".to_string());
                return DiskReply { actor, token, result: Err(DiskError { at, kind, text }) };
            }
            answers.push(self.perform(operation));
        }
        DiskReply { actor, token, result: Ok(answers) }
    }

    fn perform(&mut self, operation: DiskOperation) -> DiskAnswer {
        match operation {
            DiskOperation::Write { path, offset, bytes } => {
                self.longest = self.longest.max(bytes.len());
                let file = self.files.entry(path).or_default();
                let (offset, end) = (offset as usize, offset as usize + bytes.len());
                file.resize(file.len().max(end), 0);
                file[offset..end].copy_from_slice(&bytes);
            }
            DiskOperation::Rename { from, to } => {
                let file = self.files.remove(&from).unwrap();
                self.files.insert(to, file);
            }
            DiskOperation::Remove { path } => drop(self.files.remove(&path)),
            DiskOperation::Read { path, .. } => {
                return DiskAnswer::Bytes(self.files[&path].clone());
            }
            DiskOperation::List { path } => {
                let name = |file: &str| file.strip_prefix(&format!("{path}/")).map(str::to_owned);
                let files = self.files.iter();
                let files =
                    files.filter_map(|(file, bytes)| Some((name(file)?, bytes.len() as u64)));
                return DiskAnswer::Files(files.collect());
            }
            DiskOperation::CreateDirectory { .. }
            | DiskOperation::Reserve { .. }
            | DiskOperation::Sync { .. }
            | DiskOperation::SyncDirectory { .. } => {}
        }
        DiskAnswer::Done
    }
}
