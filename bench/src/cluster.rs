//! A whole cluster in one thread, asked in MySQL's protocol, without sockets: what a statement
//! costs from the bytes of its packet to the bytes of its answer.
//!
//! # Owns
//! Two data nodes, a management node and an SQL node, each with its one worker, the messages
//! between them, time, and one connection.
//! # Guarantees
//! Nothing but the calls decides what happens: messages are carried in order and at once, draws
//! have fixed seeds, and time stands still but for [`Cluster::run_for`] and statements that wait.
//! # Not here
//! Sockets, encoding between nodes, wake-ups: the costs of the runtime.

use std::sync::Arc;

use actor::{ConnectionEvent, ConnectionId, ConnectionPeer, LeaseCell, Transport};
use model::{Config, Incarnation, NodeId, WorkerId};
use node::{Place, Worker};
use sql::{Directory, Sequences, ServerAddress, SqlNode, SqlOptions};
use stdx::{Duration, Instant};

/// Data nodes 1 and 2, the management node, the SQL node: the worker of node N is at N - 1.
const NODES: u16 = 4;
const MANAGEMENT: NodeId = NodeId(3);
const SQL: usize = 3;
/// The only connection.
const CONNECTION: ConnectionId = ConnectionId(1);
/// 2026-01-01 in microseconds since 1970.
const CLOCK_BASE: i64 = 1_767_225_600_000_000;
/// How long a cluster may take to start, or a statement to be answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster of two replicas, and its SQL node.
pub struct Cluster {
    workers: Vec<Worker>,
    now: Instant,
}

impl Cluster {
    /// Starts it, and waits until it takes statements. The connection is open; its greeting waits
    /// to be read.
    pub fn start() -> Self {
        let data = vec![NodeId(1), NodeId(2)];
        let mut config = Config::new(data, vec![MANAGEMENT], 2);
        // As `nines dev`: nobody has to be watched closely.
        config.lease = Duration::from_secs(10);
        config.election_timeout = Duration::from_secs(1);
        let config = Arc::new(config);
        let workers = (1..=NODES).map(|node| worker(NodeId(node), &config)).collect();
        let mut cluster = Self { workers, now: Instant::from_nanos(1) };
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
        cluster.open();
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

    /// As [`Cluster::exchange`], under a name by which a profiler counts what happens inside it,
    /// and nothing else.
    #[inline(never)]
    pub fn counted_exchange(&mut self, packets: &[u8], answer: &mut Vec<u8>) {
        self.exchange(packets, answer);
    }

    fn open(&mut self) {
        self.workers[SQL].connections().open(CONNECTION);
        let peer = ConnectionPeer { transport: Transport::Unix, tls_offered: false };
        self.tell(ConnectionEvent::Opened(peer));
        self.settle();
    }

    fn tell(&mut self, event: ConnectionEvent<'_>) {
        self.workers[SQL].connection(self.now, CONNECTION, event);
        self.carry(SQL);
    }

    fn take_output(&mut self, answer: &mut Vec<u8>) {
        let connections = self.workers[SQL].connections();
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
        let cluster = &self.workers[SQL].shared().cluster;
        cluster.started && !cluster.stopped
    }

    /// Lets the workers handle what there is to handle now.
    fn settle(&mut self) {
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
            let to = usize::from(outgoing.envelope.to.node.0) - 1;
            self.workers[to].deliver(outgoing.envelope);
        }
    }
}

fn worker(node: NodeId, config: &Arc<Config>) -> Worker {
    let place = Place {
        node,
        incarnation: Incarnation(1),
        worker: WorkerId(0),
        workers: 1,
        config: Arc::clone(config),
        lease: LeaseCell::default(),
        disk: false,
        seed: u64::from(node.0),
        recorder_size: 4_096,
    };
    if config.data_nodes.contains(&node) {
        return Worker::data_node(place);
    }
    if node == MANAGEMENT {
        return Worker::management_node(place, None);
    }
    let options = SqlOptions {
        directory: Directory::default(),
        sequences: Sequences::default(),
        clock_base: CLOCK_BASE,
        host_offset: 0,
        tls_offered: false,
        address: ServerAddress::default(),
    };
    Worker::client_node(place, Box::new(SqlNode::new(options)))
}
