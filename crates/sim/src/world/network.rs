//! The simulated network: connections between lives of nodes, latency, cuts.
//!
//! # Owns
//! For each pair of nodes whether a connection stands, what waits for one, and which directions are
//! cut. It decides what becomes of a message; the world keeps the queue of events.
//! # Guarantees
//! 1. Between two workers messages arrive in order. Different pairs of workers are not ordered.
//! 2. What a connection loses is a suffix; both ends are told, and nothing is sent again until
//!    each end that lives has been. A cut that ends before messages have waited for too long, or
//!    connections that are reset and made anew, cost time and nothing else.
//! 3. A message meant for one life of a node does not reach another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{Address, Incarnation, NodeId, WorkerId};
use node::Outgoing;
use stdx::{Duration, HashMap, Instant, Prng};

use crate::setup::NetworkSetup;

/// An end of a pair: 0 for the node with the smaller id.
type Side = usize;

/// Two nodes and the connection between their lives.
#[derive(Debug, Default)]
pub(super) struct Pair {
    /// Counts connections; what was sent on an earlier one is lost.
    pub(super) generation: u64,
    /// Messages pass, cuts aside.
    pub(super) established: bool,
    /// Reports of a lost connection that are still on their way to each end.
    pub(super) unseen: [u32; 2],
    /// The newest life of the peer that such reports to each end were about.
    pub(super) unseen_life: [Incarnation; 2],
    /// What each end has sent and could not be delivered yet.
    pub(super) parked: [VecDeque<Outgoing>; 2],
    /// Names the pending time-out of parked messages.
    pub(super) park_ticket: u64,
    /// A refusal is on its way to this end.
    pub(super) refusal_pending: [bool; 2],
    /// The connection that is being carried over to new sockets, and until when: what is on its way
    /// arrives after that.
    pub(super) renewing: Option<(u64, Instant)>,
    /// The last connection: its number, the end that died, until when its messages still arrive.
    pub(super) dying: Option<(u64, Side, Instant)>,
}

/// A worker of a node.
type Place = (NodeId, WorkerId);

/// All connections and cuts.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) setup: NetworkSetup,
    pub(super) prng: Prng,
    pairs: BTreeMap<(NodeId, NodeId), Pair>,
    /// When the last message of a link arrives.
    last_arrival: HashMap<(Place, Place), Instant>,
    /// Directions in which nothing passes: from, to.
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// What messages take longer than usual in a direction: from, to.
    pub(super) delays: BTreeMap<(NodeId, NodeId), Duration>,
}

impl Network {
    pub(super) fn new(setup: NetworkSetup, prng: Prng) -> Self {
        Self {
            setup,
            prng,
            pairs: BTreeMap::new(),
            last_arrival: HashMap::default(),
            cuts: BTreeSet::new(),
            delays: BTreeMap::new(),
        }
    }

    /// The pair's key, and which side `from` is.
    pub(super) fn key(from: NodeId, to: NodeId) -> ((NodeId, NodeId), Side) {
        if from < to { ((from, to), 0) } else { ((to, from), 1) }
    }

    pub(super) fn pair(&mut self, key: (NodeId, NodeId)) -> &mut Pair {
        self.pairs.entry(key).or_insert_with(|| Pair { established: true, ..Pair::default() })
    }

    /// When a message sent at `departure` arrives: after everything sent before on its link.
    pub(super) fn arrival(&mut self, from: Address, to: Address, departure: Instant) -> Instant {
        let latency = if from.node == to.node {
            Duration::from_nanos(self.prng.between(500, 4_000))
        } else if self.prng.below(1_000) < self.setup.spike_per_mille {
            let spike = self.setup.spike_max.as_nanos();
            Duration::from_nanos(self.prng.between(spike / 4, spike))
        } else {
            let (low, high) = (self.setup.latency_min, self.setup.latency_max);
            Duration::from_nanos(self.prng.between(low.as_nanos(), high.as_nanos()))
        };
        let latency = latency + self.delays.get(&(from.node, to.node)).copied().unwrap_or_default();
        let link = ((from.node, from.worker), (to.node, to.worker));
        let last = self.last_arrival.entry(link).or_insert(Instant::ZERO);
        // One nanosecond apart, so that the queue of events keeps the order.
        *last = (departure + latency).max(*last + Duration::from_nanos(1));
        *last
    }

    /// Whether a cut keeps messages from passing.
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Whether a new connection can be made: both directions are needed.
    pub(super) fn connects(&self, a: NodeId, b: NodeId) -> bool {
        !self.is_cut(a, b) && !self.is_cut(b, a)
    }

    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cuts.insert((from, to));
    }

    /// What goes this way takes so much longer; nothing for as usual.
    pub(super) fn delay(&mut self, from: NodeId, to: NodeId, span: Duration) {
        if span == Duration::ZERO {
            self.delays.remove(&(from, to));
        } else {
            self.delays.insert((from, to), span);
        }
    }

    /// Whether any direction is cut.
    pub(super) fn has_cuts(&self) -> bool {
        !self.cuts.is_empty()
    }

    /// Whether the node is at either end of a cut.
    pub(super) fn touches_cut(&self, node: NodeId) -> bool {
        self.cuts.iter().any(|(from, to)| *from == node || *to == node)
    }

    /// Ends all cuts; returns the pairs concerned.
    pub(super) fn heal(&mut self) -> Vec<(NodeId, NodeId)> {
        let cuts = std::mem::take(&mut self.cuts);
        let pairs: BTreeSet<_> = cuts.into_iter().map(|(a, b)| Self::key(a, b).0).collect();
        pairs.into_iter().collect()
    }
}

/// What a lost connection is reported as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Who is told, and which life of it.
    pub(super) to: (NodeId, Incarnation),
    /// Whose connection was lost.
    pub(super) peer: (NodeId, Incarnation),
    /// The peer's process has ended.
    pub(super) closed: bool,
    /// Nothing can be sent until it has arrived. Otherwise it is about a life that was over when
    /// the present connection was made.
    pub(super) counted: bool,
}
