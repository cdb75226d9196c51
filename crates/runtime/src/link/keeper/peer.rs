//! How the link to each peer stands.

use std::collections::{BTreeMap, BTreeSet};

use model::Incarnation;
use stdx::{Duration, Instant};

use super::super::address::Way;
use super::super::connection::Connection;
use super::super::greeting::{Identity, LinkName};
use super::super::{Broken, Peer, sockets_between};
use crate::tls::Shown;

/// A peer and its link.
pub(super) struct PeerState {
    pub(super) peer: Peer,
    pub(super) ways: Vec<Way>,
    pub(super) resolving: bool,
    pub(super) resolve_at: Instant,
    pub(super) state: State,
    /// When to try to connect next, and how long to wait after that.
    pub(super) retry_at: Instant,
    pub(super) pause: Duration,
    /// Something waits to be sent.
    pub(super) wanted: bool,
    pub(super) newest_life: Incarnation,
    /// What was said of it, and when.
    pub(super) complaints: Vec<(String, Instant)>,
    /// What it has proved on the connections of the link.
    pub(super) shown: Vec<Shown>,
}

pub(super) enum State {
    Absent,
    Making(Making),
    Up(Standing),
    /// The link is broken; it is being found out whether the peer has ended.
    Breaking {
        link: Standing,
        why: Broken,
        /// It cannot go on even if the peer lives.
        lost: bool,
        /// The way in which the peer is being asked whether it lives.
        way: usize,
        doubt: Doubt,
    },
    /// Connections are being made anew for a link that stands.
    Renewing(Renewing),
    /// Threads have not told their workers yet.
    Telling {
        generation: u64,
        threads: BTreeSet<usize>,
    },
}

/// A link that was made.
#[derive(Clone, Copy)]
pub(super) struct Standing {
    pub(super) generation: u64,
    pub(super) incarnation: Incarnation,
    pub(super) name: LinkName,
    pub(super) transport: &'static str,
}

/// How far the renewal of a link is.
pub(super) struct Renewing {
    pub(super) link: Standing,
    /// Names it among all renewals.
    pub(super) round: u64,
    pub(super) why: Broken,
    pub(super) began: Instant,
    /// The peer's system has closed a connection as for a process that ends.
    pub(super) ended: bool,
    /// Threads that have not let go of their connections yet.
    pub(super) threads: BTreeSet<usize>,
    /// How far lanes have come, as far as threads have told.
    pub(super) received: BTreeMap<u8, u64>,
    pub(super) making: Option<Making>,
}

/// How it is being found out what became of a peer.
#[derive(Clone, Copy)]
pub(super) enum Doubt {
    /// Until then a connection that ended in good order may still prove that it is worth asking.
    Reset(Instant),
    /// It is being asked, until then at most.
    Asked(Instant),
    /// To be asked again at the first time, because it hung up: a process that ends may close its
    /// connections before it ceases to listen. Until the second time at most.
    AskAgain(Instant, Instant),
}

/// An attempt to make a link.
pub(super) struct Making {
    pub(super) attempt: u64,
    pub(super) began: Instant,
    /// This process has begun it, in this way.
    pub(super) way: Option<usize>,
    pub(super) refusals: usize,
    pub(super) peer: Option<Identity>,
    pub(super) protocol: u16,
    /// Connections, and up to which position of its lane the peer has what was sent.
    pub(super) sockets: Vec<Option<(Connection, u64)>>,
    /// What the peer has proved on them.
    pub(super) shown: Vec<Shown>,
    pub(super) transport: &'static str,
    pub(super) deadline: Instant,
}

impl Making {
    /// An attempt of this process that begins with the first way; `times` are its begin and end.
    pub(super) fn own(attempt: u64, transport: &'static str, times: (Instant, Instant)) -> Self {
        let (began, deadline) = times;
        let (way, sockets) = (Some(0), Vec::new());
        Self {
            attempt,
            began,
            way,
            refusals: 0,
            peer: None,
            protocol: 0,
            sockets,
            shown: Vec::new(),
            transport,
            deadline,
        }
    }

    /// An attempt of the peer, with its number and protocol, to a process with so many workers.
    pub(super) fn of_peer(
        peer: Identity,
        workers: u8,
        attempt: u64,
        protocol: u16,
        transport: &'static str,
        began: Instant,
        deadline: Instant,
    ) -> Self {
        let count = sockets_between(workers, peer.workers);
        let sockets = (0..count).map(|_| None).collect();
        Self {
            attempt,
            began,
            way: None,
            refusals: 0,
            peer: Some(peer),
            protocol,
            sockets,
            shown: Vec::new(),
            transport,
            deadline,
        }
    }

    /// Whether a connection of this number is part of it and missing.
    pub(super) fn has_room_for(&self, socket: u8) -> bool {
        self.sockets.get(usize::from(socket)).is_some_and(Option::is_none)
    }
}

impl PeerState {
    pub(super) fn new(peer: Peer, now: Instant) -> Self {
        Self {
            peer,
            ways: Vec::new(),
            resolving: false,
            resolve_at: now,
            state: State::Absent,
            retry_at: now,
            pause: RETRY_FIRST,
            wanted: false,
            newest_life: Incarnation(0),
            complaints: Vec::new(),
            shown: Vec::new(),
        }
    }

    /// The attempt that is under way: for a new link, or for new connections of one that stands.
    pub(super) fn making(&mut self) -> Option<&mut Making> {
        match &mut self.state {
            State::Making(making) => Some(making),
            State::Renewing(Renewing { making, .. }) => making.as_mut(),
            _ => None,
        }
    }

    /// The link that stands, or whose end has not been told.
    pub(super) fn link(&self) -> Option<Standing> {
        match &self.state {
            State::Up(link)
            | State::Breaking { link, .. }
            | State::Renewing(Renewing { link, .. }) => Some(*link),
            State::Absent | State::Making(_) | State::Telling { .. } => None,
        }
    }
}

/// How long after an attempt came to nothing the next is made.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(50);
