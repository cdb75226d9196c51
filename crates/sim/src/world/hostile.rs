//! Nodes that lie: messages that no program of ours would send.
//!
//! # Owns
//! Samples of what travels between nodes, to make lies from; what was refused.
//! # Guarantees
//! A lie that breaks a rule closes the link, as with a real host. Where nobody is expected to lie,
//! a message that is refused is a failure of the run.
//! # Not here
//! Which lies are told (`tests/hostile.rs`).

use std::collections::{BTreeMap, VecDeque};

use model::NodeId;
use node::{Outgoing, Sender, Violation, broken_rule};
use stdx::Duration;
use wire::Envelope;

use super::World;
use super::network::{Network, Report};
use super::process::Kind;

/// Samples that are kept of each kind of message.
const SAMPLES: usize = 12;

/// Who may lie, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Hostility {
    /// Somebody is expected to lie.
    lies: bool,
    /// Data nodes or management nodes are expected to: then replicas may differ.
    inside: bool,
    samples: BTreeMap<&'static str, VecDeque<Envelope>>,
    refused: BTreeMap<(&'static str, &'static str), u64>,
}

impl Hostility {
    /// Whether a node of the cluster lies, so that rules of the whole cluster mean nothing.
    pub(super) fn is_inside(&self) -> bool {
        self.inside
    }

    /// Keeps a message that is sent to another node as a sample.
    pub(super) fn sent(&mut self, envelope: &Envelope) {
        if self.lies {
            let samples = self.samples.entry(envelope.message.name()).or_default();
            if samples.len() == SAMPLES {
                samples.pop_front();
            }
            samples.push_back(envelope.clone());
        }
    }
}

impl World {
    /// Somebody is going to lie. With `inside` that may be a node of the cluster: nothing is
    /// promised then but that nobody panics.
    pub fn expect_lies(&mut self, inside: bool) {
        (self.hostility.lies, self.hostility.inside) = (true, inside);
    }

    /// Some messages that nodes have sent each other since lies are expected, by their names.
    pub fn samples(&self) -> &BTreeMap<&'static str, VecDeque<Envelope>> {
        &self.hostility.samples
    }

    /// What was refused: the messages and the rules that they broke, with counts.
    pub fn refused_lies(&self) -> &BTreeMap<(&'static str, &'static str), u64> {
        &self.hostility.refused
    }

    /// A node sends what its program would not. Whether there was a link.
    pub fn lie(&mut self, mut envelope: Envelope) -> bool {
        let (from, to) = (envelope.from.node, envelope.to.node);
        assert!(self.hostility.lies && from != to, "who lies to whom");
        let (key, _) = Network::key(from, to);
        let up = self.network.pair(key).established;
        if !up || !self.is_running(from) || !self.is_running(to) {
            return false;
        }
        envelope.incarnation = self.incarnation(from);
        match broken_rule(self.sender(from), &envelope) {
            Some(rule) => {
                let (incarnation, message) = (envelope.incarnation, envelope.message.name());
                self.refused(to, Violation { node: from, incarnation, message, rule });
            }
            None => self.hand_over(Outgoing { envelope, life: None }),
        }
        true
    }

    /// What the process of a node is to its peers.
    pub(super) fn sender(&self, node: NodeId) -> Sender {
        match self.process(node).kind {
            Kind::Data => Sender::Data,
            Kind::Management => Sender::Management,
            Kind::Client => Sender::Client,
        }
    }

    /// A node has refused what a life of another one has sent: the link between them is lost.
    pub(super) fn refused(&mut self, node: NodeId, violation: Violation) {
        let Violation { node: from, incarnation, message, rule } = violation;
        assert!(self.hostility.lies, "{node} refuses {message} of {from}: {rule}");
        self.note(format!("{node} refuses {message} of {from}: {rule}"));
        *self.hostility.refused.entry((message, rule)).or_default() += 1;
        if self.process(from).incarnation == incarnation {
            self.break_link(Network::key(node, from).0);
        }
    }

    /// The link between two nodes is lost; both ends are told.
    fn break_link(&mut self, key: (NodeId, NodeId)) {
        let pair = self.network.pair(key);
        if !std::mem::replace(&mut pair.established, false) {
            return;
        }
        pair.generation += 1;
        pair.parked = Default::default();
        for (to, peer) in [key, (key.1, key.0)] {
            let (to, peer) = (self.process(to), self.process(peer));
            if to.is_running() {
                let (to, peer) = ((to.id, to.incarnation), (peer.id, peer.incarnation));
                let report = Report { to, peer, closed: false, counted: true };
                let delay = Duration::from_micros(self.network.prng.between(10, 2_000));
                self.plan_report(report, delay);
            }
        }
    }
}
