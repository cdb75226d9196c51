//! The nodes of one process: started, watched, stopped.
//!
//! # Owns
//! [`Setup`], what a process is to host; [`Cluster`], its running threads; what the process is told
//! of them ([`Event`]).
//! # Guarantees
//! Every node of the process has a worker on every thread, the management node only on the first:
//! a worker's number is its thread's.
//! # Not here
//! What happens on a thread (`thread`).

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use actor::{Actor, DiskReply, Halt, LeaseCell};
use model::{Config, Incarnation, NodeId, WorkerId};
use node::RestoreProgress;
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use stdx::Duration;
use wire::{Leaving, News};

use crate::clock::{Clock, since_1970};
use crate::crash::CrashSite;
use crate::data_directory::{DataDirectory, DirectoryError};
use crate::deadly;
use crate::disk::{Disk, DiskEngine, NodeDirectory};
use crate::exchange::{Exchange, Mail};
use crate::link::{
    KeeperHandle, LinkEvent, LinkLimits, LinkSetup, Peer, SendBuffers, start_keeper,
};
use crate::listener::Listeners;
use crate::observer::Observer;
use crate::scheduling::{Scheduling, ThreadPlace, allowed_cpus};
use crate::spin::wake;
use crate::thread::Thread;
use crate::thread::sharing::Seat;
use crate::tls::ServerTls;
use crate::watchdog::{DiskRequests, Hung, Pulse, Watchdog, Watching};

/// What a process is to host: all nodes of a cluster, or one that is linked to the others.
pub struct Setup {
    /// Nodes, limits and intervals.
    pub config: Arc<Config>,
    /// Worker threads. A management node uses the first.
    pub threads: u8,
    /// Where threads run, and how workers wait for work.
    pub scheduling: Scheduling,
    /// The nodes of this process, at most one management node and one client node among them.
    pub nodes: Vec<(NodeId, Role)>,
    /// The other nodes and how they are reached; only for a process with one node.
    pub links: Option<LinkSetup>,
    /// Makes the application of each worker of the client node, on its thread.
    pub application: Option<ApplicationFactory>,
    /// Makes the actor that looks at the cluster for operators, on the management node's thread;
    /// none if nobody is to look.
    pub operator: Option<ApplicationFactory>,
    /// Where clients of the application connect.
    pub listeners: Listeners,
    /// Encrypts connections whose client wants it.
    pub tls: Option<ServerTls>,
    /// Where nodes keep their state; none for a cluster in memory.
    pub disk: Option<DiskSetup>,
    /// Where to write what the last moments of a node were when it stops unexpectedly.
    pub trace_directory: PathBuf,
    /// How the threads of workers are watched; none if nobody goes on when this process ends.
    pub watching: Option<Watching>,
    /// Is told what happens; called on the threads, so it must not wait for anything.
    pub report: Report,
}

/// The disks of a process.
#[derive(Debug)]
pub struct DiskSetup {
    /// How they are worked.
    pub engine: DiskEngine,
    /// The data directory of each data and management node.
    pub directories: BTreeMap<NodeId, DataDirectory>,
}

/// Where an application's actor runs.
#[derive(Clone, Copy, Debug)]
pub struct ApplicationPlace {
    /// The client or management node.
    pub node: NodeId,
    /// The worker, and its number among `workers`.
    pub worker: WorkerId,
    /// Workers of the node.
    pub workers: u8,
    /// Nanoseconds between 1970 and the origin of the actors' clock.
    pub clock_origin: u64,
}

/// Makes the actor of a worker of the client or management node.
pub type ApplicationFactory = Arc<dyn Fn(ApplicationPlace) -> Box<dyn Actor> + Send + Sync>;

/// Takes what happens in a cluster.
pub type Report = Box<dyn Fn(Event) + Send + Sync>;

/// Something the process should know.
#[derive(Debug)]
pub enum Event {
    /// Every node of the process serves: a client node sees a cluster that does, and lets clients
    /// in; a data node has all its rows; a management node follows the others.
    Ready,
    /// Something has happened to a link.
    Link(LinkEvent),
    /// A node of this process tells operators something; a management node tells what has happened
    /// to others too.
    News {
        /// The node of this process that tells it.
        node: NodeId,
        /// The node that it has happened to.
        about: NodeId,
        /// What has happened.
        news: News,
    },
    /// An operator asks the process to end or to start again: by SQL, or by a management node.
    LeaveAsked(Leaving),
    /// A node has stopped by its own decision, and its peers have been told.
    Halted {
        /// The node.
        node: NodeId,
        /// Why.
        why: Halt,
        /// What its last moments were.
        trace: io::Result<PathBuf>,
    },
    /// A rule was broken: all threads have stopped, because what they hold cannot be relied on.
    Crashed {
        /// What the last moments of each node were.
        traces: io::Result<Vec<PathBuf>>,
    },
    /// A worker, or the disk, hangs: the process is to end at once, so that others go on.
    Hung {
        /// What hangs.
        hung: Hung,
        /// What the other workers were doing; none if that is not wanted.
        traces: Option<io::Result<Vec<PathBuf>>>,
    },
    /// A thread cannot go on: the system refuses what it needs, for a worker or for the disks.
    Failed(io::Error),
}

/// A node of the process, as all threads see it.
pub(crate) struct Life {
    pub(crate) node: NodeId,
    pub(crate) role: Role,
    pub(crate) incarnation: Incarnation,
    pub(crate) lease: LeaseCell,
    /// It has ended: none of its workers takes another step.
    ended: AtomicBool,
}

/// What kind of node it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds rows.
    Data,
    /// Holds the configuration and breaks ties.
    Management,
    /// Hosts an application that uses the cluster, as an SQL node.
    Client,
}

/// The links of a process, as all threads see them.
pub(crate) struct Links {
    pub(crate) own: NodeId,
    /// What each is, and how much may wait on a connection to it.
    pub(crate) peers: BTreeMap<NodeId, (Role, usize)>,
    pub(crate) limits: LinkLimits,
    pub(crate) send_buffers: Arc<SendBuffers>,
    pub(crate) keeper: Arc<KeeperHandle>,
}

/// What the threads of a process share.
pub(crate) struct Common {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) clock_origin: u64,
    pub(crate) exchange: Arc<Exchange>,
    /// Where the state of each thread is when another is to run it.
    pub(crate) seats: Vec<Seat>,
    /// What each thread leaves at each turn.
    pub(crate) pulses: Vec<Pulse>,
    /// What the disk has been asked and has not answered.
    pub(crate) disk_requests: Arc<DiskRequests>,
    pub(crate) scheduling: Scheduling,
    /// What waking a thread takes; measured where that matters.
    pub(crate) wake_cost: Duration,
    pub(crate) disk: Option<Disk>,
    /// Locked as long as threads may ask the disk.
    pub(crate) directories: BTreeMap<NodeId, DataDirectory>,
    pub(crate) lives: BTreeMap<NodeId, Life>,
    pub(crate) application: Option<ApplicationFactory>,
    pub(crate) operator: Option<ApplicationFactory>,
    pub(crate) links: Option<Links>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) crash: CrashSite,
    pub(crate) report: Arc<dyn Fn(Event) + Send + Sync>,
    /// Threads on which the cluster is seen to serve.
    pub(crate) ready: AtomicUsize,
    /// How far the nodes are with reading their disks back, by thread.
    pub(crate) restores: Mutex<Vec<RestoreProgress>>,
    /// The process is to stop: clients are told.
    pub(crate) stopping: AtomicBool,
    /// Clients are let go: nobody is accepted any more.
    pub(crate) draining: AtomicBool,
    /// Clients of each thread, while they are let go.
    pub(crate) clients: Vec<AtomicUsize>,
    /// Number of the last connection of a client.
    pub(crate) connections: Arc<AtomicU64>,
    /// Threads that have no client any more.
    pub(crate) drained: AtomicUsize,
}

impl Life {
    /// Its workers, in a process with so many threads.
    pub(crate) fn workers(&self, threads: usize) -> u8 {
        workers_of(self.role, u8::try_from(threads).expect("they were counted by one"))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Ends the node for all threads; false if it had ended before. Whoever learns it later than
    /// the node's peers must not have served in between, so the lease goes first.
    pub(crate) fn end(&self) -> bool {
        self.lease.set(stdx::Instant::ZERO);
        !self.ended.swap(true, Ordering::SeqCst)
    }
}

impl Common {
    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.exchange.len()
    }
}

/// The running nodes of a process.
pub struct Cluster {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    /// Ends with the value.
    watchdog: Option<Watchdog>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts the threads. [`Event::Ready`] follows when clients are served.
    #[expect(clippy::too_many_lines, reason = "one field after the other of what threads share")]
    pub fn start(setup: Setup) -> io::Result<Cluster> {
        let Setup {
            config,
            threads,
            application,
            operator,
            listeners,
            tls,
            disk,
            nodes,
            links,
            ..
        } = setup;
        assert!(threads > 0, "a process has at least one thread");
        assert!(links.is_none() || nodes.len() == 1, "a linked process is one node");
        let client = nodes.iter().any(|(_, role)| *role == Role::Client);
        assert!(!client || application.is_some(), "a client node has an application");
        let stateful = nodes.iter().any(|(_, role)| *role != Role::Client);
        assert_eq!(config.disk && stateful, disk.is_some(), "all nodes have a disk, or none");
        raise_descriptor_limit();
        let clock = Clock::start();
        let scheduling = apart(setup.scheduling)?;
        let wake_cost = wake_cost(&scheduling, usize::from(threads), clock)?;
        let since_1970 = u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX);
        let report: Arc<dyn Fn(Event) + Send + Sync> = Arc::from(setup.report);
        let exchange = Arc::new(Exchange::new(usize::from(threads))?);
        let mut directories = BTreeMap::new();
        let mut incarnation = Incarnation(since_1970);
        let mut started = None;
        let disk_requests: Arc<DiskRequests> = Arc::default();
        if let Some(disk) = disk {
            directories = disk.directories;
            incarnation = begin_lives(&mut directories, incarnation, threads, &config)?;
            let roots = directories.iter().map(|(node, directory)| {
                let keys = directory.keys().cloned();
                (*node, NodeDirectory::new(directory.path().to_path_buf(), keys))
            });
            let place = scheduling.disk.clone();
            started = Some(start_disk(
                disk.engine,
                roots.collect(),
                place,
                &exchange,
                &report,
                &disk_requests,
            )?);
        }
        let life = |(node, role)| {
            let (lease, ended) = (LeaseCell::default(), AtomicBool::new(false));
            (node, Life { node, role, incarnation, lease, ended })
        };
        let (mut linked, mut keeper) = (None, None);
        if let Some(setup) = links {
            let (own, role) = nodes[0];
            let workers = workers_of(role, threads);
            let (limits, peers) = (setup.limits, peers_of(&setup));
            let send_buffers = Arc::new(SendBuffers::new(limits.send_buffers));
            let own_life = (own, role, incarnation, workers);
            let place = scheduling.links.clone();
            let (exchange, report) = (exchange.clone(), report.clone());
            let started = start_keeper(setup, own_life, place, clock, exchange, report)?;
            linked = Some(Links { own, peers, limits, send_buffers, keeper: started.0 });
            keeper = Some(started.1);
        }
        let common = Arc::new(Common {
            config: config.clone(),
            clock,
            clock_origin: since_1970.saturating_sub(clock.now().as_nanos()),
            exchange,
            seats: (0..threads).map(|_| Seat::default()).collect(),
            pulses: (0..threads).map(|_| Pulse::default()).collect(),
            disk_requests,
            scheduling,
            wake_cost,
            disk: started,
            directories,
            lives: nodes.into_iter().map(life).collect(),
            application,
            operator,
            links: linked,
            tls,
            crash: CrashSite::new(setup.trace_directory, usize::from(threads)),
            report,
            ready: AtomicUsize::new(0),
            restores: Mutex::new(vec![RestoreProgress::default(); usize::from(threads)]),
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            clients: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            connections: Arc::default(),
            drained: AtomicUsize::new(0),
        });
        deadly::watch(&common);
        let cluster = Cluster { common, threads: Vec::new(), keeper, watchdog: None };
        cluster.start_workers(threads, listeners, setup.watching)
    }

    fn start_workers(
        mut self,
        threads: u8,
        listeners: Listeners,
        watching: Option<Watching>,
    ) -> io::Result<Cluster> {
        let mut listeners = Some(listeners);
        for index in 0..threads {
            let thread = Thread::spawn(index, self.common.clone(), listeners.take());
            match thread {
                Ok(handle) => self.threads.push(handle),
                Err(error) => {
                    self.stop();
                    return Err(error);
                }
            }
        }
        self.watchdog =
            watching.map(|watching| Watchdog::start(self.common.clone(), watching)).transpose()?;
        Ok(self)
    }

    /// The life of a node of this process.
    pub fn incarnation(&self, node: NodeId) -> Incarnation {
        self.common.lives[&node].incarnation
    }

    /// Looks at the running nodes from any thread; it keeps nothing of them alive.
    pub fn observer(&self) -> Observer {
        Observer::new(&self.common)
    }

    /// How the disks are worked: `io_uring` or `threads`; none for a cluster in memory.
    pub fn disk_engine(&self) -> Option<&'static str> {
        self.common.disk.as_ref().map(Disk::engine_name)
    }

    /// How workers wait for work, and what waking one takes, in words.
    pub fn spinning(&self) -> String {
        let (common, threads) = (&self.common, self.common.threads());
        let scheduling = &common.scheduling;
        let micros = common.wake_cost.as_nanos().div_ceil(1_000);
        match scheduling.spin {
            method if method.adapts() && threads > scheduling.cpus => {
                format!("no spinning, as there are fewer CPUs ({}) than workers", scheduling.cpus)
            }
            method if method.adapts() => format!("{method}, as waking takes {micros} µs"),
            method => method.to_string(),
        }
    }

    /// How far all nodes are with reading their disks back, as of a moment ago. Not followed any
    /// more when the cluster serves.
    pub fn restore_progress(&self) -> RestoreProgress {
        let mut sum = RestoreProgress::default();
        let threads = self.common.restores.lock().expect("nobody panics while holding it");
        threads.iter().for_each(|thread| sum.add(thread));
        sum
    }

    /// Ends a node as if its process had died: it does nothing more, and its peers are told.
    pub fn kill(&self, node: NodeId) {
        let life = self.common.lives.get(&node).expect("a node of this process");
        if life.end() {
            for thread in 0..self.common.threads() {
                self.common.exchange.post_from_outside(thread, Mail::NodeDown(node));
            }
        }
    }

    /// Asks the data and management nodes of this process to leave the cluster in good order: each
    /// halts with [`Halt::Left`] when the others go on without it. A node that has the only
    /// complete copy of something stays.
    pub fn leave(&self) {
        self.common.exchange.post_from_outside(0, Mail::Leave);
    }

    /// Lets clients go: no more are accepted, and each connection ends as soon as its client has
    /// left nothing unfinished. [`Cluster::clients`] says how many are left.
    pub fn drain(&self) {
        for clients in &self.common.clients {
            // Nobody counts as gone before its thread has looked.
            clients.store(UNCOUNTED, Ordering::SeqCst);
        }
        self.common.draining.store(true, Ordering::SeqCst);
        self.common.exchange.wake_all();
    }

    /// The clients that are left of those that [`Cluster::drain`] lets go; none while they have not
    /// been counted.
    pub fn clients(&self) -> Option<usize> {
        let counts = self.common.clients.iter().map(|clients| clients.load(Ordering::SeqCst));
        counts.map(|count| Some(count).filter(|count| *count != UNCOUNTED)).sum()
    }

    /// Ends everything. Clients are told, and have a moment to hear it.
    pub fn stop(self) {
        // Nobody who looks whether the process lives shall be let in while it ends.
        if let (Some(links), Some(keeper)) = (&self.common.links, self.keeper) {
            links.keeper.stop();
            let _ = keeper.join();
        }
        self.common.stopping.store(true, Ordering::SeqCst);
        self.common.exchange.wake_all();
        // Threads end, each in its time, and answer no more.
        drop(self.watchdog);
        for thread in self.threads {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

/// The number of clients of a thread that has not counted them.
const UNCOUNTED: usize = usize::MAX;

/// What waking a thread takes, if some worker's way of waiting depends on it.
fn wake_cost(scheduling: &Scheduling, threads: usize, clock: Clock) -> io::Result<Duration> {
    let adapts = (0..threads).any(|worker| scheduling.spin_of(worker, threads).adapts());
    if adapts { wake::measure(clock) } else { Ok(Duration::ZERO) }
}

/// What each peer is, and how much may wait on a connection to it.
fn peers_of(setup: &LinkSetup) -> BTreeMap<NodeId, (Role, usize)> {
    let limit = |peer: &Peer| peer.send_buffer.unwrap_or(setup.limits.send_buffer);
    setup.peers.iter().map(|(node, peer)| (*node, (peer.role, limit(peer)))).collect()
}

/// Gives the other threads the CPUs of the process by name if any is bound: a thread inherits those
/// of the one that happens to start it.
fn apart(mut scheduling: Scheduling) -> io::Result<Scheduling> {
    let all = allowed_cpus()?;
    let workers = scheduling.workers.iter_mut().map(|worker| &mut worker.place);
    let mut places: Vec<&mut ThreadPlace> =
        workers.chain([&mut scheduling.links, &mut scheduling.disk]).collect();
    if places.iter().any(|place| !place.cpus.is_empty()) {
        for place in places.iter_mut().filter(|place| place.cpus.is_empty()) {
            place.cpus.clone_from(&all);
        }
    }
    Ok(scheduling)
}

/// Workers of a node in a process with so many threads.
fn workers_of(role: Role, threads: u8) -> u8 {
    if role == Role::Management { 1 } else { threads }
}

/// Writes into the data directories that a new life of their nodes begins; which. It is larger than
/// all before, also when the clock has been set back.
fn begin_lives(
    directories: &mut BTreeMap<NodeId, DataDirectory>,
    now: Incarnation,
    threads: u8,
    config: &Config,
) -> io::Result<Incarnation> {
    let last = directories.values().filter_map(DataDirectory::last_life).max();
    let incarnation = last.map_or(now, |last| now.max(Incarnation(last.0 + 1)));
    for (node, directory) in directories {
        let workers = if config.management_nodes.contains(node) { 1 } else { threads };
        let begun = directory.begin_life(incarnation, workers);
        begun.map_err(|error: DirectoryError| io::Error::other(error))?;
    }
    Ok(incarnation)
}

/// Begins to work the disks. What they answer goes to the threads of workers as mail.
fn start_disk(
    engine: DiskEngine,
    directories: BTreeMap<NodeId, NodeDirectory>,
    place: ThreadPlace,
    exchange: &Arc<Exchange>,
    report: &Arc<dyn Fn(Event) + Send + Sync>,
    requests: &Arc<DiskRequests>,
) -> io::Result<Disk> {
    let (exchange, report, requests) = (exchange.clone(), report.clone(), requests.clone());
    let deliver = move |worker: WorkerId, replies: Vec<(NodeId, DiskReply)>| {
        replies.iter().for_each(|(node, reply)| requests.end(*node, worker, reply));
        let mail = replies.into_iter().map(|(node, reply)| Mail::Disk(node, reply));
        exchange.post(exchange.len(), usize::from(worker.0), &mut mail.collect());
    };
    let failed = move |error| report(Event::Failed(error));
    Disk::start(engine, directories, place, Arc::new(deliver), Arc::new(failed))
}

/// A number nobody can guess.
pub(crate) fn entropy() -> io::Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Fills `bytes` with what nobody can guess.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(())
}

/// Lets the process have as many sockets as the system allows it. The lower limit that usually
/// applies is there for programs that use `select`.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Without it there are fewer connections, which is no reason not to start.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
