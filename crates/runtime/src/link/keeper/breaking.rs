//! Connections that are of no use any more: what became of the peer, and so of the link.
//!
//! # Owns
//! The question whether a peer's process has ended, and the end of a link.
//! # Guarantees
//! 1. "Closed" is said of a link only with the proof that the keeper's head describes.
//! 2. A link whose peer may live goes on (`renewal`), unless it was silent for too long, took too
//!    little, or sent what cannot be right.
//! # Not here
//! How that is noticed (`ends`).

use model::NodeId;
use stdx::{Duration, Instant};

use super::super::address::is_within_host;
use super::super::pending::Errand;
use super::super::{Broken, LinkEvent, LinkNews};
use super::peer::{Doubt, Renewing, Standing, State};
use super::{ASK_TIMEOUT, Keeper};

impl Keeper {
    /// A connection of a link does not work any more: finds out whether the peer has ended.
    pub(super) fn begin_break(&mut self, node: NodeId, generation: u64, why: Broken) {
        let now = self.clock.now();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(link) = peer.link().filter(|link| link.generation == generation) else { return };
        let for_good = matches!(
            why,
            Broken::Silent | Broken::Corrupt | Broken::Overfull | Broken::Violation { .. }
        );
        // A system resets the connections of a process that ends without having read all. Nobody
        // comes between processes of one host; on a network, another connection may prove more.
        let same_host = is_within_host(link.transport);
        let proof = why == Broken::Ended || why == Broken::Reset && same_host;
        let breaking = |doubt| State::Breaking { link, why, lost: false, way: 0, doubt };
        match &mut peer.state {
            State::Up(_) | State::Renewing(_) if for_good => {
                return self.end_link_as(node, false, why);
            }
            State::Breaking { lost, .. } if for_good => {
                *lost = true;
                return;
            }
            // Nothing between processes of one host can be at fault.
            State::Up(_) if why == Broken::Stalled && same_host => return,
            State::Up(_) if why == Broken::Stalled => return self.begin_renewal(node, why, false),
            State::Up(_) => {
                peer.state = breaking(Doubt::Reset(now + RESET_GRACE));
                if !proof {
                    return;
                }
            }
            State::Breaking { doubt: Doubt::Reset(_), .. } if why == Broken::Ended => {
                peer.state = breaking(Doubt::Reset(now));
            }
            State::Renewing(renewing) if proof => {
                renewing.ended = true;
                return;
            }
            _ => return,
        }
        if peer.peer.address.is_none() {
            // It only ever connects itself, and nobody relies on its lease.
            self.end_break(node, true);
        } else if peer.ways.is_empty() {
            self.end_break(node, false);
        } else {
            self.ask_whether_alive(node, now + ASK_TIMEOUT);
        }
    }

    /// Asks at the address of a peer whether it is there.
    pub(super) fn ask_whether_alive(&mut self, node: NodeId, until: Instant) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let State::Breaking { way, doubt, .. } = &mut peer.state {
            *way = 0;
            *doubt = Doubt::Asked(until);
            self.dial(Errand { node, attempt: 0, socket: 0 }, 0);
        }
    }

    /// It is known that the peer has ended, or that cannot be known: the link ends or goes on.
    pub(super) fn end_break(&mut self, node: NodeId, closed: bool) {
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        let State::Breaking { why, lost, doubt, .. } = peer.state else { return };
        if closed || lost {
            self.end_link_as(node, closed, why);
        } else {
            self.begin_renewal(node, why, !matches!(doubt, Doubt::Reset(_)));
        }
    }

    /// Nothing more comes over a link, for the reason for which it is being renewed.
    pub(super) fn end_link(&mut self, node: NodeId, closed: bool) {
        if let Some(State::Renewing(Renewing { why, .. })) = self.peers.get(&node).map(|p| &p.state)
        {
            self.end_link_as(node, closed, *why);
        }
    }

    /// Nothing more comes over a link: the workers are told.
    pub(super) fn end_link_as(&mut self, node: NodeId, closed: bool, why: Broken) {
        self.abandon_renewal(node);
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        let Some(Standing { generation, incarnation, .. }) = peer.link() else { return };
        peer.state = State::Telling { generation, threads: (0..self.exchange.len()).collect() };
        for thread in 0..self.exchange.len() {
            self.post(thread, LinkNews::Down { node, incarnation, generation, closed });
        }
        self.tell(LinkEvent::Down { node, incarnation, closed, why });
        self.note_standing();
    }
}

/// How long after a reset another connection may prove that the peer's process has ended.
const RESET_GRACE: Duration = Duration::from_millis(20);
