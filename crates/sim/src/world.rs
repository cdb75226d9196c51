//! The simulated world: processes, network, time. One seed decides everything that happens.
//!
//! # Owns
//! Virtual time, and what happens in it. Nodes, their lives, and what the outside can do to them:
//! crash, freeze, cut, restart.
//! # Guarantees
//! It promises to the nodes what the transport promises, no more and no less: whole messages, in
//! order on a connection, or a lost connection that both ends are told of.
//! # Not here
//! Which faults strike when (`chaos`), what clients do (`workload`), what is right (`checkers`).

mod agenda;
mod clock;
mod disk;
mod faults;
mod hostile;
mod network;
mod process;
mod storage;
mod traffic;
mod transport;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use actor::{Actor, FlightRecorder, Halt, LeaseCell};
use model::{ClusterState, ControlIndex, Epoch, Incarnation, MemberStatus, NodeId, WorkerId};
use node::{Outgoing, Place, Worker};
use stdx::{Duration, FixedHasher, Instant, Prng};
use wire::{News, NewsKind};

use crate::checkers::{BrokenCycles, Restarts, Watch};
use crate::setup::Setup;
use agenda::{Agenda, Moment, Next};
use clock::Clock;
pub use disk::{Damage, DiskAction};
use disk::{Disk, LaneName};
use hostile::Hostility;
use network::{Network, Report};
use process::{Host, Process};
pub use process::{Kind, Status};
pub use traffic::{MATTERS, Matter, Sent, Traffic};
use transport::Flight;

/// What a task asked for last, and when.
pub type Doing = (Instant, &'static str);

/// What a client was told of commits.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// The epoch of a transaction that has committed, or up to which everything is on disk.
    pub epoch: Epoch,
    /// When the client was told.
    pub at: Instant,
    /// The client was told that it is on disk.
    pub durable: bool,
}

/// What applications and the world tell each other beside messages.
#[derive(Debug, Default)]
pub struct Ambient {
    /// True time, which nodes do not know.
    pub now: Cell<Instant>,
    /// What each session last asked for, and when; for reports.
    pub doing: RefCell<BTreeMap<(NodeId, usize), Doing>>,
    /// Nodes have disks.
    pub disks: Cell<bool>,
    /// What clients were told of deadlocks.
    pub deadlocks: RefCell<BrokenCycles>,
    /// Changes that clients were told to be committed since the last restart of the whole cluster.
    pub acknowledged: RefCell<Vec<Acknowledged>>,
}

/// What a client node's application is made from.
#[derive(Clone)]
pub struct ApplicationPlace {
    /// The client node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// Decides the application's draws.
    pub seed: u64,
    /// Beside messages.
    pub ambient: Rc<Ambient>,
}

/// Makes the application of a client node, at its start and at each restart.
pub type ApplicationFactory = Box<dyn Fn(ApplicationPlace) -> Box<dyn Actor>>;

/// Something that is going to happen.
enum Event {
    /// A message reaches a node.
    Arrive(Box<Flight>),
    /// An end of a connection learns that it is lost.
    Report(Box<Report>),
    /// Two nodes have new connections for a link that stands.
    Renewed { pair: (NodeId, NodeId), until: Instant },
    /// Messages have waited too long for a connection.
    SendTimeout { pair: (NodeId, NodeId), ticket: u64 },
    /// An operation of a disk is over.
    Disk { node: NodeId, incarnation: Incarnation, lane: LaneName },
    /// A supervisor starts a node that is not running.
    Restart { node: NodeId },
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Messages and timers handled.
    pub steps: u64,
    /// Messages delivered between workers.
    pub messages: u64,
    /// Probes hit, by name.
    pub probes: BTreeMap<&'static str, u64>,
    /// Fault points passed while faults were armed, by name.
    pub fault_points: BTreeMap<&'static str, u64>,
    /// Fault points that a node died at, by name.
    pub deaths: BTreeMap<&'static str, u64>,
    /// Why nodes stopped, with counts.
    pub halts: BTreeMap<String, u64>,
    /// What happened on disks, with counts.
    pub disks: BTreeMap<&'static str, u64>,
}

/// All nodes, the network between them, and time.
pub struct World {
    setup: Setup,
    now: Instant,
    agenda: Agenda,
    processes: BTreeMap<NodeId, Process>,
    /// What outlives processes; empty when nodes keep everything in memory.
    disks: BTreeMap<NodeId, Disk>,
    network: Network,
    prng: Prng,
    incarnations: u64,
    ambient: Rc<Ambient>,
    application: ApplicationFactory,
    watch: Watch,
    restarts: Restarts,
    totals: Totals,
    hash: FixedHasher,
    /// Nodes that stop by themselves are started again after a while.
    supervised: bool,
    /// Beginnings and ends of lives, for reports.
    diary: Vec<String>,
    /// What nodes have told operators of themselves.
    news: Vec<(NodeId, News)>,
    hostility: Hostility,
    /// What is sent, if that is counted.
    traffic: Option<Traffic>,
    /// Memory for what a step sends.
    sent: Vec<Outgoing>,
}

impl World {
    /// A world in which every node is about to start.
    pub fn new(setup: Setup, application: ApplicationFactory) -> Self {
        let mut prng = Prng::new(setup.seed);
        let network = Network::new(setup.network, prng.fork());
        let mut world = Self {
            now: Instant::ZERO,
            agenda: Agenda::default(),
            processes: BTreeMap::new(),
            disks: BTreeMap::new(),
            network,
            prng,
            incarnations: 0,
            ambient: Rc::default(),
            application,
            watch: Watch::default(),
            restarts: Restarts::default(),
            totals: Totals::default(),
            hash: FixedHasher::default(),
            supervised: true,
            diary: Vec::new(),
            news: Vec::new(),
            hostility: Hostility::default(),
            traffic: None,
            sent: Vec::new(),
            setup,
        };
        let config = world.setup.config.clone();
        if config.disk {
            world.ambient.disks.set(true);
            let mut prng = Prng::new(world.setup.seed ^ 0xD15C);
            let spare = &config.spare_nodes;
            for node in config.data_nodes.iter().chain(&config.management_nodes).chain(spare) {
                world.disks.insert(*node, Disk::new(world.setup.disk, prng.fork()));
            }
        }
        let data = config.data_nodes.iter().chain(&config.spare_nodes);
        let data = data.map(|node| (*node, Kind::Data));
        let management = config.management_nodes.iter().map(|node| (*node, Kind::Management));
        let clients = world.setup.client_nodes().map(|node| (node, Kind::Client));
        for (node, kind) in data.chain(management).chain(clients) {
            world.start_life(node, kind);
        }
        world
    }

    /// True time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the world was built from.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Whether nodes that stop by themselves are started again; they are unless told otherwise.
    pub fn supervise(&mut self, supervised: bool) {
        self.supervised = supervised;
    }

    /// Lets the world run for a span of time.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.agenda.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.advance(end);
    }

    /// Lets the world run until `done` is true of it, at most for `limit`; whether it became true.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.now + limit;
        while !done(self) {
            let slice = end.min(self.now + Duration::from_millis(1));
            if slice <= self.now {
                return false;
            }
            self.run_for(slice.since(self.now));
        }
        true
    }

    fn advance(&mut self, to: Instant) {
        assert!(to >= self.now, "time runs forward");
        self.now = to;
        self.ambient.now.set(to);
    }

    /// Lets the next event happen.
    fn step(&mut self) {
        let Some((at, next)) = self.agenda.pop() else { return };
        self.advance(at);
        let event = match next {
            Next::Event(event) => event,
            Next::Turn(node, worker, moment) => return self.turn(node, worker, moment),
        };
        match event {
            Event::Arrive(flight) => self.arrive(*flight),
            Event::Report(report) => self.report(*report),
            Event::Renewed { pair, until } => self.renewed(pair, until),
            Event::SendTimeout { pair, ticket } => self.send_timeout(pair, ticket),
            Event::Disk { node, incarnation, lane } => self.disk_step(node, incarnation, lane),
            Event::Restart { node } => self.restart_halted(node),
        }
    }

    fn plan(&mut self, at: Instant, event: Event) {
        self.agenda.add(at, event);
    }

    fn next_incarnation(&mut self) -> Incarnation {
        self.incarnations += 1;
        Incarnation(self.incarnations)
    }

    /// What happened to nodes, newest last.
    pub fn diary(&self) -> &[String] {
        &self.diary
    }

    /// What nodes have told operators of themselves.
    pub fn news(&self) -> &[(NodeId, News)] {
        &self.news
    }

    /// The epoch to which a restart is refused to go back, by what was told after the first `told`
    /// news.
    pub fn refusal(&self, told: usize) -> Option<Epoch> {
        let refused = |(_, news): &&(NodeId, News)| news.kind == NewsKind::LossRefused;
        self.news[told..].iter().rev().find(refused).map(|(_, news)| news.epoch)
    }

    /// Keeps what a node tells of itself; management nodes repeat what others have told.
    fn take_news(&mut self, node: NodeId, news: Vec<(NodeId, News)>) {
        for (about, news) in news {
            if about == node {
                self.note(format!("{node} tells: {}", news.text));
                self.news.push((node, news));
            }
        }
    }

    fn note(&mut self, what: String) {
        self.diary.push(format!("{} {what}", self.now));
    }

    /// Starts a process with nothing in memory, and with the disk it had.
    fn start_life(&mut self, node: NodeId, kind: Kind) {
        let incarnation = self.next_incarnation();
        let disk = self.disks.contains_key(&node);
        let with = if disk { "its disk" } else { "nothing" };
        self.note(format!("{node}{incarnation} starts with {with}"));
        let lease = LeaseCell::default();
        let workers = if kind == Kind::Data { self.setup.workers } else { 1 };
        let mut hosts = Vec::new();
        for worker in 0..workers {
            let place = Place {
                node,
                incarnation,
                worker: WorkerId(worker),
                workers,
                config: self.setup.config.clone(),
                lease: lease.clone(),
                disk,
                seed: self.prng.next_u64(),
                recorder_size: RECORDER_SIZE,
            };
            let mut worker = match kind {
                Kind::Data => Worker::data_node(place),
                Kind::Management => Worker::management_node(place, None),
                Kind::Client => {
                    let seed = self.prng.next_u64();
                    let ambient = self.ambient.clone();
                    let place_of = ApplicationPlace { node, incarnation, seed, ambient };
                    Worker::client_node(place, (self.application)(place_of))
                }
            };
            worker.shared_mut().mutation = self.setup.mutation;
            hosts.push(Host::new(worker));
        }
        let origin = Instant::from_nanos(self.prng.between(1_000_000_000, 500_000_000_000));
        // Clocks of hosts differ by seconds, and each life of a node may find another time.
        let skew = Prng::new(self.setup.seed ^ origin.as_nanos()).below(10_000_000_000);
        for host in &mut hosts {
            host.worker.shared_mut().day_origin = RUN_BEGINS + skew - origin.as_nanos();
        }
        let drift = self.setup.clock_drift_ppm;
        let gain = self.prng.between(0, 2 * drift) as i64 - drift as i64;
        let mut process = Process {
            id: node,
            kind,
            incarnation,
            status: Status::Running,
            hosts,
            lease,
            clock: Clock::new(origin, gain),
            slowness: 1,
            frozen_until: Instant::ZERO,
            down_since: Instant::ZERO,
            last_words: Vec::new(),
        };
        if let Some(last) = self.processes.remove(&node) {
            process.last_words = last.last_words;
            process.clock = last.clock;
        }
        self.processes.insert(node, process);
        self.begin(node);
    }

    /// Starts a halted process again with the rows it holds.
    fn rejoin_life(&mut self, node: NodeId) {
        let incarnation = self.next_incarnation();
        self.note(format!("{node}{incarnation} starts with its rows"));
        let process = self.process_mut(node);
        process.incarnation = incarnation;
        process.status = Status::Running;
        process.lease.set(Instant::ZERO);
        for host in &mut process.hosts {
            host.worker.rejoin(incarnation);
            host.planned = None;
        }
        self.begin(node);
    }

    /// The first turn of a life.
    fn begin(&mut self, node: NodeId) {
        self.connect_life(node);
        let now = self.now;
        let process = self.process_mut(node);
        let local = process.clock.local(now);
        let mut sent = Vec::new();
        for host in &mut process.hosts {
            host.busy_until = now;
            host.worker.start(local);
            sent.extend(host.worker.take_outgoing());
        }
        let workers = process.hosts.len() as u8;
        for outgoing in sent {
            self.send(outgoing, now);
        }
        for worker in (0..workers).map(WorkerId) {
            self.ask_disk(node, worker, now);
            self.plan_turn(node, worker);
        }
    }

    /// Plans the next turn of a worker, unless an earlier or equal one is planned.
    fn plan_turn(&mut self, node: NodeId, worker: WorkerId) {
        let now = self.now;
        let process = self.processes.get_mut(&node).expect("nodes are fixed by the setup");
        let Some(at) = process.next_turn(worker, now) else { return };
        let host = &mut process.hosts[usize::from(worker.0)];
        if host.planned.is_some_and(|planned| planned.at <= at) {
            return;
        }
        host.planned = Some(self.agenda.add_turn(at, node, worker, host.planned));
    }

    /// A worker handles one message or timer.
    fn turn(&mut self, node: NodeId, worker: WorkerId, moment: Moment) {
        let (now, base) = (self.now, self.setup.service_time);
        let process = self.process_mut(node);
        let frozen = process.is_frozen(now);
        let local = process.clock.local(now);
        let cost = process.service_time(worker, base);
        let runs = process.is_running();
        let host = &mut process.hosts[usize::from(worker.0)];
        if !runs || host.planned != Some(moment) {
            return; // It was for an earlier life.
        }
        host.planned = None;
        if frozen || host.hung_until > now {
            return self.plan_turn(node, worker);
        }
        let before = host.worker.shared().cluster.index;
        if host.worker.step(local) {
            host.worker.took(cost);
            host.busy_until = now + cost;
            host.unchecked += 1;
            self.totals.steps += 1;
            (now.as_nanos(), node, worker).hash(&mut self.hash);
            self.after_step(node, worker, before, now + cost);
        }
        if self.process(node).is_running() {
            self.plan_turn(node, worker);
        }
    }

    /// Sends what a step has produced, and looks at what it has done.
    fn after_step(
        &mut self,
        node: NodeId,
        worker: WorkerId,
        before: ControlIndex,
        departure: Instant,
    ) {
        let check_every = self.setup.check_every;
        let process = self.processes.get_mut(&node).expect("nodes are fixed by the setup");
        let host = &mut process.hosts[usize::from(worker.0)];
        let mut sent = std::mem::take(&mut self.sent);
        sent.extend(std::iter::from_fn(|| host.worker.pop_outgoing()));
        let news = host.worker.take_news();
        let halted = host.worker.halted().cloned();
        let violations = host.worker.take_violations();
        if host.is_check_due(check_every) {
            host.unchecked = 0;
            host.worker.check_invariants();
        }
        let reached = host.worker.shared().cluster.clone();
        self.take_news(node, news);
        for violation in violations {
            self.refused(node, violation);
        }
        for outgoing in sent.drain(..) {
            self.send(outgoing, departure);
        }
        self.sent = sent;
        self.ask_disk(node, worker, departure);
        if reached.index != before && !self.hostility.is_inside() {
            self.watch.now = self.now;
            self.watch.state_reached(node, &reached);
            self.check_restarts(&reached);
        }
        if let Some(why) = halted {
            return self.stop(node, why);
        }
        if self.hostility.is_inside() {
            return;
        }
        if self.totals.steps.is_multiple_of(LEASE_CHECK_EVERY) {
            self.check_leases();
        }
        if self.totals.steps.is_multiple_of(REPLICA_CHECK_EVERY) {
            self.check_replica_order();
        }
    }

    /// A node has stopped by itself.
    fn stop(&mut self, node: NodeId, why: Halt) {
        let name = match &why {
            Halt::Unresponsive(_) => "a worker does not answer the driver of epochs".into(),
            other => other.to_string(),
        };
        *self.totals.halts.entry(name).or_default() += 1;
        let fault = matches!(why, Halt::Fault(_));
        self.end_life(node, if fault { Status::Dead } else { Status::Halted(why) }, true);
        if self.supervised {
            let wait = if fault { 3_000 } else { 800 };
            let delay = Duration::from_millis(self.prng.between(20, wait));
            self.plan(self.now + delay, Event::Restart { node });
        }
    }

    fn restart_halted(&mut self, node: NodeId) {
        if matches!(self.status(node), Status::Halted(_)) && self.prng.percent(50) {
            self.rejoin(node);
        } else if !self.is_running(node) && self.may_be_supervised(node) {
            self.restart(node);
        }
    }

    /// Ends a life. With `told` the peers learn of it; otherwise its host just falls silent.
    fn end_life(&mut self, node: NodeId, status: Status, told: bool) {
        let now = self.now;
        self.note(format!("{node} ends: {status:?}"));
        self.collect(node);
        let process = self.process_mut(node);
        process.status = status;
        process.down_since = now;
        process.frozen_until = Instant::ZERO;
        process.slowness = 1;
        for host in &mut process.hosts {
            (host.hung_until, host.slowness) = (Instant::ZERO, 1);
        }
        process.last_words.clear();
        for host in &mut process.hosts {
            let recorder = &mut host.worker.shared_mut().recorder;
            process.last_words.push(std::mem::replace(recorder, FlightRecorder::new(1)));
        }
        if let Some(disk) = self.disks.get_mut(&node) {
            disk.process_ends();
        }
        if told {
            self.close_connections(node);
        }
    }

    /// Adds a life's counts to the totals.
    fn collect(&mut self, node: NodeId) {
        if let Some(disk) = self.disks.get_mut(&node) {
            for (what, count) in disk.take_counts() {
                *self.totals.disks.entry(what).or_default() += count;
            }
        }
        let process = self.processes.get_mut(&node).expect("nodes are fixed by the setup");
        for host in &mut process.hosts {
            let shared = host.worker.shared_mut();
            for (name, count) in std::mem::take(&mut shared.probes).counts() {
                *self.totals.probes.entry(name).or_default() += count;
            }
            let faults = std::mem::replace(&mut shared.faults, actor::FaultPlan::none());
            for (name, count) in faults.passed() {
                *self.totals.fault_points.entry(name).or_default() += count;
            }
            for (name, count) in faults.fired() {
                *self.totals.deaths.entry(name).or_default() += count;
            }
        }
    }

    /// What was counted so far; ends the counting of the present lives.
    pub fn totals(&mut self) -> &Totals {
        let nodes: Vec<NodeId> = self.processes.keys().copied().collect();
        for node in nodes {
            self.collect(node);
        }
        &self.totals
    }

    /// How often a probe was hit so far.
    pub fn probed(&self, name: &str) -> u64 {
        let lives = self.processes.values().flat_map(|process| &process.hosts);
        let counts = lives.flat_map(|host| host.worker.shared().probes.counts());
        let present: u64 = counts.filter(|(probe, _)| *probe == name).map(|(_, n)| n).sum();
        present + self.totals.probes.get(name).copied().unwrap_or_default()
    }

    /// A number that is the same in every run of the same seed.
    pub fn state_hash(&self) -> u64 {
        let mut hash = self.hash;
        for process in self.processes.values() {
            (process.id, process.incarnation, process.is_running()).hash(&mut hash);
            for host in &process.hosts {
                if let Some(participant) = host.worker.participant() {
                    for partition in participant.partitions() {
                        (partition.id(), partition.digest()).hash(&mut hash);
                    }
                }
            }
        }
        hash.finish()
    }

    /// The last recorded events of each worker that runs, and of each node's last life.
    pub fn recorders(&self, lines: usize) -> String {
        let mut text = String::new();
        for process in self.processes.values() {
            let workers = process.hosts.iter().map(|host| &host.worker.shared().recorder);
            let present = if process.is_running() { "runs" } else { "is down" };
            for (at, recorder) in workers.enumerate() {
                let name = format!("{}{}w{at}, {present}", process.id, process.incarnation);
                text += &tail(&name, recorder, lines);
            }
            for (at, recorder) in process.last_words.iter().enumerate() {
                text += &tail(&format!("{}w{at}, life before", process.id), recorder, lines);
            }
        }
        text
    }

    pub(crate) fn restarts(&self) -> &Restarts {
        &self.restarts
    }

    pub(crate) fn restarts_mut(&mut self) -> &mut Restarts {
        &mut self.restarts
    }

    pub(crate) fn ambient(&self) -> &Ambient {
        &self.ambient
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(crate) fn watch_mut(&mut self) -> &mut Watch {
        &mut self.watch
    }

    fn process(&self, node: NodeId) -> &Process {
        &self.processes[&node]
    }

    fn process_mut(&mut self, node: NodeId) -> &mut Process {
        self.processes.get_mut(&node).expect("nodes are fixed by the setup")
    }

    /// All nodes of a kind, in order.
    pub fn nodes(&self, kind: Kind) -> Vec<NodeId> {
        self.processes.values().filter(|p| p.kind == kind).map(|p| p.id).collect()
    }

    /// Whether and how the node runs.
    pub fn status(&self, node: NodeId) -> &Status {
        &self.process(node).status
    }

    /// Whether the node runs.
    pub fn is_running(&self, node: NodeId) -> bool {
        self.process(node).is_running()
    }

    /// Whether the node runs and holds a lease.
    pub fn holds_lease(&self, node: NodeId) -> bool {
        let process = self.process(node);
        process.is_running() && process.holds_lease(self.now)
    }

    /// Transactions that the node coordinates and that have not ended.
    pub fn open_transactions(&self, node: NodeId) -> usize {
        let coordinators = self.workers(node).filter_map(Worker::coordinator);
        coordinators.map(|coordinator| coordinator.open_transactions()).sum()
    }

    /// The node's life.
    pub fn incarnation(&self, node: NodeId) -> Incarnation {
        self.process(node).incarnation
    }

    /// The cluster state that worker 0 of a node has reached.
    pub fn cluster_of(&self, node: NodeId) -> &Arc<ClusterState> {
        self.process(node).cluster()
    }

    /// A worker of a node.
    pub fn worker(&self, node: NodeId, worker: WorkerId) -> &Worker {
        &self.process(node).hosts[usize::from(worker.0)].worker
    }

    /// The workers of a node.
    pub fn workers(&self, node: NodeId) -> impl Iterator<Item = &Worker> {
        self.process(node).hosts.iter().map(|host| &host.worker)
    }

    /// The newest started cluster state that any running data node or management node has reached.
    pub fn newest_state(&self) -> Arc<ClusterState> {
        self.processes
            .values()
            .filter(|process| process.is_running() && process.kind != Kind::Client)
            .map(Process::cluster)
            .max_by_key(|state| (state.started, state.index))
            .cloned()
            .unwrap_or_default()
    }

    /// The newest epoch that some worker assigns.
    pub fn newest_epoch(&self) -> Epoch {
        let hosts = self.processes.values().flat_map(|process| &process.hosts);
        let epochs = hosts.map(|host| host.worker.shared().epochs.current);
        epochs.max().unwrap_or(Epoch(0))
    }

    /// The node that leads with a lease, or else the one that leads in the newest term.
    pub fn leader(&self) -> Option<NodeId> {
        self.processes
            .values()
            .filter(|process| process.is_running())
            .filter_map(|process| Some((process, process.hosts[0].worker.control()?)))
            .filter(|(_, control)| control.is_leader())
            .max_by_key(|(_, control)| control.term())
            .map(|(process, _)| process.id)
    }

    /// The running nodes that vote by what they know themselves, and whoever votes by what the
    /// leader knows: a change of the voters binds it before anybody else has heard of it.
    pub fn voters(&self) -> BTreeSet<NodeId> {
        let running = self.processes.values().filter(|process| process.is_running());
        let votes = |process: &&Process| {
            process.hosts[0].worker.control().is_some_and(control::Control::is_voter)
        };
        let mut voters: BTreeSet<NodeId> =
            running.filter(votes).map(|process| process.id).collect();
        if let Some(leader) = self.leader() {
            let control = self.process(leader).hosts[0].worker.control();
            voters.extend(control.expect("a leader has one").voters());
        }
        voters
    }

    /// How long ago the set of data nodes that are members changed.
    pub fn since_members_changed(&self) -> Duration {
        self.now.since(self.watch.last_change())
    }

    /// One line per node and per open transaction.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for process in self.processes.values() {
            let state = process.cluster();
            let member = state.members.get(&process.id).map(|m| (m.status, m.incarnation));
            lines.push(format!(
                "{}{} {:?} reached {} as {member:?}, lease {}, leads {}",
                process.id,
                process.incarnation,
                process.status,
                state.index,
                process.holds_lease(self.now),
                process.hosts[0].worker.control().is_some_and(control::Control::is_leader),
            ));
            if let Some(control) = process.hosts[0].worker.control() {
                let voters: Vec<String> = control.voters().map(|node| node.to_string()).collect();
                lines.push(format!(
                    "  control: index {}, term {}, votes {}, voters {}, leader {:?}",
                    control.state().index,
                    control.term(),
                    control.is_voter(),
                    voters.join(" "),
                    control.leader(),
                ));
            }
            for host in process.hosts.iter().filter(|_| process.is_running()) {
                let worker = host.worker.shared().worker;
                lines.push(format!(
                    "  {worker}: {} messages, planned {:?}, could run at {:?}, last ran {}",
                    host.worker.message_count(),
                    host.planned.map(|planned| planned.at),
                    process.next_turn(worker, self.now),
                    host.worker.shared().now,
                ));
                let coordinator = host.worker.coordinator().map(|c| c.describe());
                let participant = host.worker.participant().map(|p| p.describe());
                lines.extend(coordinator.into_iter().chain(participant).flatten());
            }
            lines.extend(self.disks.get(&process.id).map(Disk::describe).into_iter().flatten());
        }
        for ((node, task), (since, what)) in self.ambient.doing.borrow().iter() {
            lines.push(format!("{node} session {task}: {what} since {since}"));
        }
        let newest = self.newest_state();
        lines.push(format!("takeovers {:?}, slots {:?}", newest.takeovers, newest.slots));
        lines.join("\n")
    }

    /// Whether every configured node is a member, complete and running, no takeover is pending and
    /// everyone knows it.
    pub fn all_active(&self) -> bool {
        let newest = self.newest_state();
        let complete = |node: &NodeId| {
            let process = self.process(*node);
            let member = newest.member(*node, process.incarnation);
            let fit = member.is_some_and(|member| member.status == MemberStatus::Active);
            process.is_running() && fit && process.cluster().index == newest.index
        };
        let config = &self.setup.config;
        // Who is in no group waits.
        let grouped = |node: &&NodeId| newest.groups.iter().any(|group| group.contains(node));
        let data = || config.data_nodes.iter().chain(&config.spare_nodes);
        newest.started
            && newest.takeovers.is_empty()
            && newest.departing.is_empty()
            && data().all(|node| newest.member(*node, self.process(*node).incarnation).is_some())
            && data().filter(grouped).all(complete)
            && config.management_nodes.iter().all(complete)
    }

    /// Whether no primary is to move: each is on the node that it belongs to.
    pub fn has_spread_primaries(&self) -> bool {
        let newest = self.newest_state();
        newest.held.is_none() && newest.group_to_spread().is_none()
    }
}

fn tail(name: &str, recorder: &FlightRecorder, lines: usize) -> String {
    let text = recorder.to_string();
    let all: Vec<&str> = text.lines().collect();
    let from = all.len().saturating_sub(lines);
    format!("--- {name}\n{}\n", all[from..].join("\n"))
}

/// Events a worker's flight recorder keeps.
const RECORDER_SIZE: usize = 512;
/// The time of day when a run begins: nanoseconds since 1970.
const RUN_BEGINS: u64 = 1_795_000_000_000_000_000;
/// Steps between two looks at who holds leases.
const LEASE_CHECK_EVERY: u64 = 64;
/// Steps between two comparisons of replicas that are in use.
const REPLICA_CHECK_EVERY: u64 = 512;
