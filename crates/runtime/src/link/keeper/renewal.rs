//! New connections for a link that stands: what a short cut of the network costs.
//!
//! # Owns
//! A renewal: every thread lets go of its connections and says how far its lanes have come; either
//! side connects again, as for a new link, and says it to the other; the lanes go on from there.
//! # Guarantees
//! 1. A position is told only after nothing more can be read from the connection before, so what is
//!    sent from there on arrives once.
//! 2. Attempts follow each other quickly, at most [`RETRY_FIRST`] or one vain wait apart, and have
//!    no end of their own: the thread of the control plane's lane ends the link after its silence.
//! 3. Of two attempts at the same time that of the larger node id counts.
//! # Failure
//! A peer that has given the link up, or another life of it, says so, and the link ends at once.

use model::NodeId;
use stdx::{Duration, Instant};

use super::super::connection::Connection;
use super::super::greeting::{Greeting, Renewal, Verdict};
use super::super::pending::Errand;
use super::super::{Broken, LinkEvent, LinkNews};
use super::Keeper;
use super::peer::{Making, PeerState, RETRY_FIRST, Renewing, State};

impl Renewing {
    /// When to go on although nothing happens.
    pub(super) fn due(&self, peer: &PeerState) -> Option<Instant> {
        match &self.making {
            Some(making) => Some(making.deadline),
            None if !self.threads.is_empty() || peer.peer.address.is_none() => None,
            None if peer.ways.is_empty() => (!peer.resolving).then_some(peer.resolve_at),
            None => Some(peer.retry_at),
        }
    }

    /// What a greeting says that is to renew a lane.
    pub(super) fn of_lane(&self, lane: u8) -> Renewal {
        let received = self.received.get(&lane).copied().unwrap_or(0);
        Renewal { link: self.link.name, received }
    }
}

impl Keeper {
    /// The connections of a link are of no use any more. `ended`: one was closed as a system does
    /// it for a process that ends.
    pub(super) fn begin_renewal(&mut self, node: NodeId, why: Broken, ended: bool) {
        let now = self.clock.now();
        let threads = 0..self.exchange.len();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let (State::Up(link) | State::Breaking { link, .. }) = peer.state else { return };
        self.last_round += 1;
        let round = self.last_round;
        peer.state = State::Renewing(Renewing {
            link,
            round,
            why,
            began: now,
            ended,
            threads: threads.clone().collect(),
            received: Default::default(),
            making: None,
        });
        peer.retry_at = now;
        for thread in threads {
            let generation = link.generation;
            self.post(thread, LinkNews::Detach { node, generation, round });
        }
    }

    /// A thread has let go of its connections of a link.
    pub(super) fn note_detached(
        &mut self,
        thread: usize,
        node: NodeId,
        generation: u64,
        round: u64,
        received: Vec<(u8, u64)>,
    ) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let State::Renewing(renewing) = &mut peer.state
            && (renewing.link.generation, renewing.round) == (generation, round)
        {
            renewing.received.extend(received);
            renewing.threads.remove(&thread);
        }
    }

    /// Begins the next attempt if it is time to, or ends one that has taken too long.
    pub(super) fn try_renewal(&mut self, node: NodeId, now: Instant) {
        self.resolve(node, now);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let State::Renewing(renewing) = &mut peer.state else { return };
        match &renewing.making {
            Some(making) if making.deadline <= now => return self.abandon_until(node, now),
            Some(_) => return,
            None => {}
        }
        let reachable = peer.peer.address.is_some() && !peer.ways.is_empty();
        if !renewing.threads.is_empty() || !reachable || peer.retry_at > now {
            return;
        }
        self.last_attempt += 1;
        let (attempt, transport) = (self.last_attempt, peer.ways[0].transport());
        renewing.making = Some(Making::own(attempt, transport, (now, now + ATTEMPT_TIMEOUT)));
        self.dial(Errand { node, attempt, socket: 0 }, 0);
    }

    /// Prepares for a connection that a peer makes for a link that stands: up to which position the
    /// lane has arrived; or says why that cannot be.
    pub(super) fn admit_renewal(
        &mut self,
        greeting: &Greeting,
        renewal: Renewal,
        protocol: u16,
        transport: &'static str,
    ) -> Result<u64, (Verdict, &'static str)> {
        let Greeting { identity, attempt, socket, .. } = *greeting;
        let node = identity.node;
        let busy = |why| Err((Verdict::Busy, why));
        let now = self.clock.now();
        let peer = self.peers.get_mut(&node).expect("it has been judged");
        let link = peer.link();
        if link.is_none_or(|link| {
            (link.name, link.incarnation) != (renewal.link, identity.incarnation)
        }) {
            return Err((Verdict::Gone, "the link is no more"));
        }
        let State::Renewing(renewing) = &mut peer.state else {
            // The peer has noticed first, and lives.
            self.begin_renewal(node, Broken::Stalled, false);
            return busy("connections are in use");
        };
        if !renewing.threads.is_empty() {
            return busy("connections are in use");
        }
        let received = renewing.of_lane(socket).received;
        match &renewing.making {
            Some(making) if making.way.is_none() && making.attempt == attempt => {
                let free = making.has_room_for(socket);
                return if free { Ok(received) } else { busy("it has this connection already") };
            }
            Some(making) if making.way.is_some() && node < self.own.node => {
                return busy("an attempt of this node is under way");
            }
            _ if socket != 0 => return busy("the attempt is over"),
            _ => {}
        }
        self.abandon_until(node, now);
        let workers = self.own.workers;
        let deadline = now + ATTEMPT_TIMEOUT;
        let making =
            Making::of_peer(identity, workers, attempt, protocol, transport, now, deadline);
        if let Some(PeerState { state: State::Renewing(renewing), .. }) = self.peers.get_mut(&node)
        {
            renewing.making = Some(making);
        }
        Ok(received)
    }

    /// All connections stand: the link goes on.
    pub(super) fn end_renewal(
        &mut self,
        node: NodeId,
        sockets: Vec<(Connection, u64)>,
        transport: &'static str,
    ) {
        let shares = self.shares(sockets);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let State::Renewing(Renewing { link, why, began, .. }) = &mut peer.state else { return };
        link.transport = transport;
        let (link, why, began) = (*link, *why, *began);
        peer.state = State::Up(link);
        for (thread, sockets) in shares.into_iter().enumerate() {
            let generation = link.generation;
            self.post(thread, LinkNews::Renewed { node, generation, sockets });
        }
        let after = self.clock.now().since(began);
        let incarnation = link.incarnation;
        self.tell(LinkEvent::Renewed { node, incarnation, why, after });
    }

    /// Gives up an attempt to renew a link, if there is one.
    pub(super) fn abandon_renewal(&mut self, node: NodeId) {
        if matches!(self.peers.get(&node), Some(PeerState { state: State::Renewing(_), .. })) {
            self.abandon(node, RETRY_FIRST);
        }
    }
}

/// How long an attempt may take in all.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(400);
