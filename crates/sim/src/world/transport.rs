//! How messages travel in the world: sending, arriving, losing connections, making new ones.

use std::hash::Hash;

use actor::Mutation;
use model::{Incarnation, NodeId, WorkerId};
use node::{Outgoing, Violation, broken_rule};
use stdx::{Duration, Instant};
use wire::{Envelope, Message};

use super::network::{Network, Report};
use super::process::Status;
use super::{Event, World};

/// A message on the wire.
pub(super) struct Flight {
    pub(super) outgoing: Outgoing,
    /// The connection it was sent on; zero inside a process.
    pub(super) generation: u64,
    /// The life that it is sent to: a connection does not outlive either of its ends.
    pub(super) receiver: Incarnation,
}

impl World {
    /// Takes a message from a worker.
    pub(super) fn send(&mut self, outgoing: Outgoing, departure: Instant) {
        let (from, to) = (outgoing.envelope.from, outgoing.envelope.to);
        if !self.processes.contains_key(&to.node) {
            return;
        }
        if let Some(traffic) = &mut self.traffic {
            traffic.add(&outgoing.envelope);
        }
        let incarnation = outgoing.envelope.incarnation;
        if from.node == to.node {
            let at = self.network.arrival(from, to, departure);
            let flight = Flight { outgoing, generation: 0, receiver: incarnation };
            return self.plan(at, Event::Arrive(Box::new(flight)));
        }
        if let Some(rule) = broken_rule(self.sender(from.node), &outgoing.envelope) {
            let message = outgoing.envelope.message.name();
            let violation = Violation { node: from.node, incarnation, message, rule };
            return self.refused(to.node, violation);
        }
        self.hostility.sent(&outgoing.envelope);
        let (key, side) = Network::key(from.node, to.node);
        let target = self.process(to.node);
        let (status, life) = (target.status.clone(), target.incarnation);
        let cut = self.network.is_cut(from.node, to.node);
        let pair = self.network.pair(key);
        let lost = pair.unseen_life[side];
        if pair.unseen[side] > 0 && outgoing.life.is_none_or(|life| life <= lost) {
            return; // It goes into a connection that is lost already.
        }
        if pair.established {
            let generation = pair.generation;
            let at = self.network.arrival(from, to, departure);
            let flight = Flight { outgoing, generation, receiver: life };
            return self.plan(at, Event::Arrive(Box::new(flight)));
        }
        match status {
            Status::Dead | Status::Halted(_) if !cut => {
                self.refuse(&outgoing, life);
            }
            _ => {
                pair.parked[side].push_back(outgoing);
                self.await_connection(key);
                self.connect(key);
            }
        }
    }

    /// The peer's host says that nobody listens.
    fn refuse(&mut self, outgoing: &Outgoing, last: Incarnation) {
        let Some(life) = outgoing.life else { return };
        let (from, to) = (outgoing.envelope.from.node, outgoing.envelope.to.node);
        let (key, side) = Network::key(from, to);
        let pair = self.network.pair(key);
        if pair.refusal_pending[side] {
            return;
        }
        pair.refusal_pending[side] = true;
        let counted = !pair.established;
        let delay = Duration::from_micros(self.network.prng.between(200, 5_000));
        let report = Report {
            to: (from, outgoing.envelope.incarnation),
            peer: (to, life.min(last)),
            closed: true,
            counted,
        };
        self.plan_report(report, delay);
    }

    pub(super) fn plan_report(&mut self, report: Report, delay: Duration) {
        let (key, side) = Network::key(report.to.0, report.peer.0);
        let pair = self.network.pair(key);
        pair.unseen[side] += u32::from(report.counted);
        if report.counted {
            pair.unseen_life[side] = pair.unseen_life[side].max(report.peer.1);
        }
        self.plan(self.now + delay, Event::Report(Box::new(report)));
    }

    /// A message reaches its node, if its connection still stands.
    pub(super) fn arrive(&mut self, flight: Flight) {
        let Envelope { from, to, .. } = flight.outgoing.envelope;
        if from.node == to.node {
            if self.process(to.node).incarnation == flight.receiver {
                self.hand_over(flight.outgoing);
            }
            return;
        }
        let (key, side) = Network::key(from.node, to.node);
        let cut = self.network.is_cut(from.node, to.node);
        let vanished = self.process(to.node).status == Status::Vanished;
        let same_life = self.process(to.node).incarnation == flight.receiver;
        let now = self.now;
        let pair = self.network.pair(key);
        if flight.generation != pair.generation {
            let last_words = pair.dying.is_some_and(|(generation, dying, until)| {
                generation == flight.generation && dying == side && now < until
            });
            if last_words && same_life && !cut {
                self.hand_over(flight.outgoing);
            }
            return;
        }
        let renews = pair.renewing.is_some_and(|(renewed, _)| renewed == pair.generation);
        if cut || vanished || renews || !pair.parked[side].is_empty() {
            pair.parked[side].push_back(flight.outgoing);
            return self.await_connection(key);
        }
        self.hand_over(flight.outgoing);
    }

    /// Puts a message into its worker's inbox.
    pub(super) fn hand_over(&mut self, outgoing: Outgoing) {
        let Outgoing { envelope, life } = outgoing;
        let (now, to, from) = (self.now, envelope.to, envelope.from);
        let process = self.process_mut(to.node);
        if !process.is_running() {
            return;
        }
        if life.is_some_and(|life| life != process.incarnation) {
            let current = process.incarnation;
            let wrong = Outgoing { envelope, life };
            return self.refuse(&wrong, current);
        }
        let Some(host) = process.hosts.get_mut(usize::from(to.worker.0)) else { return };
        let name = envelope.message.name();
        host.worker.deliver(envelope);
        self.totals.messages += 1;
        (now.as_nanos(), from, to, name).hash(&mut self.hash);
        self.plan_turn(to.node, to.worker);
    }

    /// Gives parked messages a time-out.
    fn await_connection(&mut self, key: (NodeId, NodeId)) {
        let timeout = self.network.setup.send_timeout;
        let pair = self.network.pair(key);
        if pair.parked[0].len() + pair.parked[1].len() != 1 {
            return; // The first parked message has set it going.
        }
        pair.park_ticket += 1;
        let ticket = pair.park_ticket;
        self.plan(self.now + timeout, Event::SendTimeout { pair: key, ticket });
    }

    /// Messages have waited too long: the connection, or the attempt to make one, has failed.
    pub(super) fn send_timeout(&mut self, key: (NodeId, NodeId), ticket: u64) {
        let pair = self.network.pair(key);
        let waiting = [!pair.parked[0].is_empty(), !pair.parked[1].is_empty()];
        if pair.park_ticket != ticket || waiting == [false, false] {
            return;
        }
        let stood = std::mem::replace(&mut pair.established, false);
        pair.generation += u64::from(stood);
        pair.parked = Default::default();
        let ends = [key.0, key.1];
        for side in 0..2 {
            let (to, peer) = (self.process(ends[side]), self.process(ends[1 - side]));
            if (stood || waiting[side]) && to.is_running() {
                let report = Report {
                    to: (to.id, to.incarnation),
                    peer: (peer.id, peer.incarnation),
                    closed: false,
                    counted: true,
                };
                let delay = Duration::from_micros(self.network.prng.between(10, 20_000));
                self.plan_report(report, delay);
            }
        }
    }

    /// An end learns that its connection is lost.
    pub(super) fn report(&mut self, report: Report) {
        let Report { to, peer, closed, counted } = report;
        if self.process(to.0).incarnation != to.1 || !self.is_running(to.0) {
            return; // Its counts were reset when the new life began.
        }
        let (key, side) = Network::key(to.0, peer.0);
        let pair = self.network.pair(key);
        pair.unseen[side] -= u32::from(counted);
        pair.refusal_pending[side] = false;
        let message = Message::LinkDown { node: peer.0, incarnation: peer.1, closed };
        self.tell_workers(to.0, peer, &message);
        self.connect(key);
    }

    fn tell_workers(&mut self, node: NodeId, peer: (NodeId, Incarnation), message: &Message) {
        let process = self.process_mut(node);
        if !process.is_running() {
            return;
        }
        let workers = process.hosts.len() as u8;
        for worker in (0..workers).map(WorkerId) {
            let host = &mut self.process_mut(node).hosts[usize::from(worker.0)];
            let reached = host.worker.shared().cluster.index;
            let address = |node| model::Address { node, worker, actor: model::ActorKind::Control };
            host.worker.deliver(Envelope {
                from: address(peer.0),
                incarnation: peer.1,
                to: address(node),
                reached,
                message: Box::new(message.clone()),
            });
            (self.now.as_nanos(), node, peer, "LinkDown").hash(&mut self.hash);
            self.plan_turn(node, worker);
        }
    }

    /// Makes a new connection if both ends know that the last one is lost, and sends what waits.
    pub(super) fn connect(&mut self, key: (NodeId, NodeId)) {
        let both_run = self.process(key.0).is_running() && self.process(key.1).is_running();
        let passes = self.network.connects(key.0, key.1);
        let pair = self.network.pair(key);
        if pair.established || !both_run || !passes || pair.unseen != [0, 0] {
            return;
        }
        pair.established = true;
        pair.generation += 1;
        self.flush(key);
    }

    /// Delivers what had to wait, in order.
    fn flush(&mut self, key: (NodeId, NodeId)) {
        let parked = std::mem::take(&mut self.network.pair(key).parked);
        for outgoing in parked.into_iter().flatten() {
            self.hand_over(outgoing);
        }
    }

    /// The connections of two nodes are reset wherever they are, and stand again after a while:
    /// what was on its way is sent again then.
    pub(super) fn renew(&mut self, key: (NodeId, NodeId), span: Duration) {
        let until = self.now + span;
        let pair = self.network.pair(key);
        if pair.established && pair.renewing.is_none() {
            pair.renewing = Some((pair.generation, until));
            self.plan(until, Event::Renewed { pair: key, until });
        }
    }

    /// Connections have been made anew.
    pub(super) fn renewed(&mut self, key: (NodeId, NodeId), until: Instant) {
        let mutation = self.setup.mutation;
        let passes = self.network.connects(key.0, key.1);
        let pair = self.network.pair(key);
        let renewed = pair.renewing.take_if(|(_, at)| *at == until);
        if renewed.is_none_or(|(generation, _)| generation != pair.generation) || !pair.established
        {
            return;
        }
        for parked in &mut pair.parked {
            match (mutation, parked.front().cloned()) {
                (Mutation::RenewalRepeats, Some(first)) => parked.push_front(first),
                (Mutation::RenewalLeavesOut, Some(_)) => drop(parked.pop_front()),
                _ => {}
            }
        }
        if passes {
            self.flush(key);
        }
    }

    /// Directions are open again: what waited for that passes.
    pub(super) fn reopen(&mut self, key: (NodeId, NodeId)) {
        let alive = |status: &Status| *status != Status::Vanished;
        let reachable = alive(self.status(key.0)) && alive(self.status(key.1));
        if reachable && self.network.pair(key).established {
            self.flush(key);
        }
        self.connect(key);
    }

    /// A process has ended: its connections are closed, each after some of what it had sent.
    pub(super) fn close_connections(&mut self, node: NodeId) {
        let life = self.process(node).incarnation;
        let peers: Vec<NodeId> = self.processes.keys().copied().filter(|n| *n != node).collect();
        for peer in peers {
            let (key, side) = Network::key(node, peer);
            let until = self.now + Duration::from_micros(self.network.prng.between(0, 2_000));
            let pair = self.network.pair(key);
            let stood = std::mem::replace(&mut pair.established, false);
            if stood {
                pair.dying = Some((pair.generation, side, until));
                pair.generation += 1;
            }
            pair.parked = Default::default();
            pair.unseen[side] = 0;
            pair.refusal_pending[side] = false;
            let to = self.process(peer);
            if stood && to.is_running() {
                // A cut also keeps the end of the process from being known.
                let to = (peer, to.incarnation);
                let closed = !self.network.is_cut(node, peer);
                let report = Report { to, peer: (node, life), closed, counted: true };
                let late = Duration::from_micros(self.network.prng.between(1, 3_000));
                let silence = if closed { Duration::ZERO } else { self.network.setup.send_timeout };
                self.plan_report(report, until.since(self.now) + late + silence);
            }
        }
    }

    /// A life begins: peers that still know the last one learn that it has ended.
    pub(super) fn connect_life(&mut self, node: NodeId) {
        let peers: Vec<NodeId> = self.processes.keys().copied().filter(|n| *n != node).collect();
        for peer in peers {
            let (key, side) = Network::key(node, peer);
            let pair = self.network.pair(key);
            pair.unseen[side] = 0;
            pair.refusal_pending[side] = false;
            self.connect(key);
        }
    }
}
