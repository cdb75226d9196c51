//! How the link to each peer stands.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use model::Incarnation;
use stdx::{Duration, Instant};

use super::super::address::Way;
use super::super::greeting::Identity;
use super::super::{Broken, Peer};

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
    /// The last complaint, and when it was made.
    pub(super) complaint: Option<(String, Instant)>,
}

pub(super) enum State {
    Absent,
    Making(Making),
    Up {
        generation: u64,
        incarnation: Incarnation,
        transport: &'static str,
    },
    /// The link is broken; it is being found out whether the peer has ended.
    Breaking {
        generation: u64,
        incarnation: Incarnation,
        why: Broken,
        /// The way in which the peer is being asked whether it lives.
        way: usize,
        doubt: Doubt,
    },
    /// Threads have not told their workers yet.
    Telling {
        generation: u64,
        threads: BTreeSet<usize>,
    },
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
    /// This process has begun it, in this way.
    pub(super) way: Option<usize>,
    pub(super) refusals: usize,
    pub(super) peer: Option<Identity>,
    pub(super) protocol: u16,
    pub(super) sockets: Vec<Option<OwnedFd>>,
    pub(super) transport: &'static str,
    pub(super) deadline: Instant,
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
            complaint: None,
        }
    }
}

/// How long after an attempt came to nothing the next is made.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(50);
