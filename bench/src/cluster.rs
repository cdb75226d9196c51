//! A whole cluster in one thread, without sockets, asked in MySQL's protocol or by an application:
//! what a statement costs from the bytes of its packet to the bytes of its answer.
//!
//! # Owns
//! Data nodes with their workers, a management node and an SQL node, the messages between them,
//! what they come to, time, and one connection.
//! # Guarantees
//! Nothing but the calls decides what happens: messages are carried in order and at once, draws
//! have fixed seeds, and time stands still but for [`Cluster::run_for`] and statements that wait.
//! # Not here
//! Sockets, encoding between nodes, wake-ups: the costs of the runtime.

use std::sync::Arc;

use actor::{Actor, ConnectionEvent, ConnectionId, ConnectionPeer, LeaseCell, Transport};
use codec::Writer;
use model::{Config, Incarnation, NodeId, WorkerId};
use node::{Place, Worker};
use sql::{Directory, Sequences, ServerAddress, SqlNode, SqlOptions};
use stdx::{Duration, Instant};
use wire::{Envelope, PROTOCOL_VERSION};

/// The only connection.
const CONNECTION: ConnectionId = ConnectionId(1);
/// 2026-01-01 in microseconds since 1970.
const CLOCK_BASE: i64 = 1_767_225_600_000_000;
/// How long a cluster may take to start, or a statement to be answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a cluster consists of, beside a management node and an SQL node of one worker each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data nodes: whole node groups.
    pub data_nodes: u16,
    /// Copies of each row.
    pub replicas: u8,
    /// Workers of each data node.
    pub workers: u8,
}

/// As `nines dev` begins.
pub const SMALLEST: Shape = Shape { data_nodes: 2, replicas: 2, workers: 1 };

/// What was sent, of all actors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages, those between actors of one worker included.
    pub messages: u64,
    /// Messages between workers of a node.
    pub between_workers: u64,
    /// Messages between nodes.
    pub between_nodes: u64,
    /// Bytes of these as they would travel, without frames.
    pub bytes: u64,
}

/// A cluster, and its SQL node.
pub struct Cluster {
    shape: Shape,
    /// Data nodes with their workers, the management node, the SQL node.
    workers: Vec<Worker>,
    now: Instant,
    /// What has left workers, if that is counted.
    counted: Option<Traffic>,
}

impl Cluster {
    /// Starts it, and waits until it takes statements. The connection is open; its greeting waits
    /// to be read.
    pub fn start(shape: Shape) -> Self {
        let mut cluster = Self::start_for(shape, Box::new(SqlNode::new(sql_options())));
        cluster.open();
        cluster
    }

    /// Starts it with this application in the place of the SQL node.
    pub fn start_for(shape: Shape, application: Box<dyn Actor>) -> Self {
        let data = (1..=shape.data_nodes).map(NodeId).collect();
        let management = NodeId(shape.data_nodes + 1);
        let mut config = Config::new(data, vec![management], shape.replicas);
        // As `nines dev`: nobody has to be watched closely.
        config.lease = Duration::from_secs(10);
        config.election_timeout = Duration::from_secs(1);
        let config = Arc::new(config);
        let of_node = |node: u16| {
            let lease = LeaseCell::default();
            let place = |at| place(NodeId(node), WorkerId(at), shape.workers, &lease, &config);
            (0..shape.workers).map(|at| Worker::data_node(place(at))).collect::<Vec<_>>()
        };
        let mut workers: Vec<Worker> = (1..=shape.data_nodes).flat_map(of_node).collect();
        let alone = |node| place(NodeId(node), WorkerId(0), 1, &LeaseCell::default(), &config);
        workers.push(Worker::management_node(alone(management.0), None));
        workers.push(Worker::client_node(alone(management.0 + 1), application));
        let now = Instant::from_nanos(1);
        let mut cluster = Self { shape, workers, now, counted: None };
        for at in 0..cluster.workers.len() {
            cluster.workers[at].start(cluster.now);
            cluster.carry(at);
        }
        let until = cluster.now + PATIENCE;
        while !cluster.serves() {
            assert!(cluster.now < until, "the cluster does not start");
            cluster.run_for(Duration::from_millis(100));
        }
        // The first epochs, and what follows a start.
        cluster.run_for(Duration::from_secs(1));
        cluster
    }

    /// Lets time pass, and what it brings happen.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while self.pass_time(end) {
            self.settle();
        }
        self.now = end;
    }

    /// Sends packets of a client and appends all that is answered to `answer`. Time passes only
    /// when the answer needs it.
    pub fn exchange(&mut self, packets: &[u8], answer: &mut Vec<u8>) {
        let before = answer.len();
        let until = self.now + PATIENCE;
        self.tell(ConnectionEvent::Received(packets));
        self.settle();
        self.take_output(answer);
        while answer.len() == before {
            assert!(self.pass_time(until), "no answer");
            self.settle();
            self.take_output(answer);
        }
    }

    /// Takes packets that are not answered yet.
    pub fn feed(&mut self, packets: &[u8]) {
        self.tell(ConnectionEvent::Received(packets));
        self.settle();
    }

    /// As [`Cluster::feed`], under a name that the profiler counts too.
    #[inline(never)]
    pub fn counted_feed(&mut self, packets: &[u8]) {
        self.feed(packets);
    }

    /// As [`Cluster::exchange`], under a name by which a profiler counts what happens inside it,
    /// and nothing else.
    #[inline(never)]
    pub fn counted_exchange(&mut self, packets: &[u8], answer: &mut Vec<u8>) {
        self.exchange(packets, answer);
    }

    /// Counts what is sent from now on.
    pub fn count_traffic(&mut self) {
        self.counted = Some(Traffic { messages: self.sent(), ..Traffic::default() });
    }

    /// What has been sent since that.
    pub fn traffic(&self) -> Traffic {
        let counted = self.counted.unwrap_or_default();
        Traffic { messages: self.sent() - counted.messages, ..counted }
    }

    /// Messages that actors have sent so far.
    fn sent(&self) -> u64 {
        let of_worker = |worker: &Worker| -> u64 {
            worker.shared().messages.by_name().iter().map(|count| count.sent).sum()
        };
        self.workers.iter().map(of_worker).sum()
    }

    /// Which worker is the SQL node's.
    fn sql(&self) -> usize {
        self.workers.len() - 1
    }

    fn open(&mut self) {
        let sql = self.sql();
        self.workers[sql].connections().open(CONNECTION);
        let transport = Transport::Unix { user: None };
        let peer = ConnectionPeer { transport, tls_offered: false, encryption: None };
        self.tell(ConnectionEvent::Opened(peer));
        self.settle();
    }

    fn tell(&mut self, event: ConnectionEvent<'_>) {
        let sql = self.sql();
        self.workers[sql].connection(self.now, CONNECTION, event);
        self.carry(sql);
    }

    fn take_output(&mut self, answer: &mut Vec<u8>) {
        let sql = self.sql();
        let connections = self.workers[sql].connections();
        let mut touched = Vec::new();
        connections.drain_touched(&mut touched);
        let outlet = connections.get_mut(CONNECTION).expect("the connection is open");
        assert!(outlet.closing().is_none(), "the server closes the connection");
        let output = outlet.output();
        answer.extend_from_slice(output);
        let count = output.len();
        outlet.advance(count);
    }

    fn serves(&self) -> bool {
        let cluster = &self.workers[self.sql()].shared().cluster;
        cluster.started && !cluster.stopped
    }

    /// Lets the workers handle what there is to handle now.
    pub fn settle(&mut self) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for at in 0..self.workers.len() {
                while self.workers[at].step(self.now) {
                    quiet = false;
                    self.carry(at);
                }
            }
        }
        for worker in &self.workers {
            assert!(worker.halted().is_none(), "a node stops: {:?}", worker.halted());
        }
    }

    /// Goes to the next timer that is due by `end`; false if there is none.
    fn pass_time(&mut self, end: Instant) -> bool {
        let next = self.workers.iter().filter_map(Worker::next_timer).min();
        let next = next.filter(|next| *next <= end);
        self.now = next.map_or(self.now, |next| next.max(self.now));
        next.is_some()
    }

    /// Takes to their workers what one has sent.
    fn carry(&mut self, from: usize) {
        while let Some(outgoing) = self.workers[from].pop_outgoing() {
            let envelope = outgoing.envelope;
            if let Some(counted) = &mut self.counted {
                counted.add(&envelope);
            }
            let (node, worker) = (usize::from(envelope.to.node.0), envelope.to.worker.0);
            let (data_nodes, each) =
                (usize::from(self.shape.data_nodes), usize::from(self.shape.workers));
            let to = if node <= data_nodes {
                (node - 1) * each + usize::from(worker)
            } else {
                data_nodes * each + node - data_nodes - 1
            };
            self.workers[to].deliver(envelope);
        }
    }
}

impl Traffic {
    /// Counts a message that leaves its worker.
    fn add(&mut self, envelope: &Envelope) {
        if envelope.from.node == envelope.to.node {
            self.between_workers += 1;
            return;
        }
        self.between_nodes += 1;
        let mut bytes = Writer::new(PROTOCOL_VERSION);
        envelope.encode(&mut bytes).expect("what nodes send each other has an encoding");
        self.bytes += bytes.bytes().len() as u64;
    }
}

/// The place of a worker in a node that has so many.
fn place(
    node: NodeId,
    worker: WorkerId,
    workers: u8,
    lease: &LeaseCell,
    config: &Arc<Config>,
) -> Place {
    Place {
        node,
        incarnation: Incarnation(1),
        worker,
        workers,
        config: Arc::clone(config),
        lease: lease.clone(),
        disk: false,
        seed: u64::from(node.0) << 8 | u64::from(worker.0),
        recorder_size: 4_096,
    }
}

fn sql_options() -> SqlOptions {
    SqlOptions {
        directory: Directory::default(),
        sequences: Sequences::default(),
        clock_base: CLOCK_BASE,
        host_offset: 0,
        admission: Default::default(),
        address: ServerAddress::default(),
        clock: None,
        stack: None,
    }
}
