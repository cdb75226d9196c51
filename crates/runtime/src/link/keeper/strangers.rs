//! Those that connect to this process, before they have said who they are.
//!
//! # Guarantees
//! Whoever connects and says nothing, or begins handshakes that it does not end, keeps nobody out:
//! 1. In a turn, what this process has begun itself goes first, and a few of the others after it.
//! 2. Where there are too many the oldest goes, not the newest: an honest peer is done in a moment.

use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, sockopt};
use std::net::{IpAddr, SocketAddr};

use super::super::address::{UNIX, set_up_tcp};
use super::super::pending::{Pending, Stage};
use super::{Keeper, Listener, READ, TOKEN_LISTENERS, TOKEN_WAKE};
use crate::poller::Ready;

impl Keeper {
    /// What is to be looked at in this turn, in this order. The rest is told again.
    pub(super) fn in_order(&self, ready: Vec<Ready>) -> Vec<u64> {
        let mut tokens: Vec<u64> = ready.into_iter().map(|ready| ready.token).collect();
        let rank = |token: &u64| match *token {
            TOKEN_WAKE => 0,
            TOKEN_LISTENERS.. => 3,
            token if self.is_stranger(token) => 2,
            _ => 1,
        };
        tokens.sort_by_key(|token| (rank(token), *token));
        let mut strangers = 0;
        tokens.retain(|token| {
            strangers += usize::from(rank(token) == 2);
            rank(token) != 2 || strangers <= STRANGERS_PER_TURN
        });
        tokens
    }

    fn is_stranger(&self, token: u64) -> bool {
        self.pending.get(&token).is_some_and(|pending| pending.errand().is_none())
    }

    /// Lets go of the oldest stranger if there are as many as there may be.
    fn make_way(&mut self) {
        if self.pending.len() < STRANGERS_MAX {
            return;
        }
        let strangers = self.pending.iter().filter(|(_, pending)| pending.errand().is_none());
        let (count, oldest) = strangers
            .fold((0, None), |(count, oldest), (token, _)| (count + 1, oldest.or(Some(*token))));
        if let Some(oldest) = oldest.filter(|_| count >= STRANGERS_MAX) {
            self.pending.remove(&oldest);
        }
    }

    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTED_PER_TURN {
            let Some(Listener { socket, unix }) = self.listeners.get(listener) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let (accepted, from) = match acceptfrom_with(socket, flags) {
                Ok(accepted) => accepted,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // A listener that is ready and cannot be served would keep the thread busy.
                    return std::thread::sleep(EXHAUSTED_PAUSE);
                }
                Err(_) => return,
            };
            let (fine, transport) = if *unix {
                let me = rustix::process::geteuid();
                let is_own = sockopt::socket_peercred(&accepted).is_ok_and(|peer| peer.uid == me);
                (is_own, UNIX)
            } else {
                (set_up_tcp(&accepted, self.setup.limits.stall).is_ok(), "TCP")
            };
            if !fine {
                continue;
            }
            self.make_way();
            let deadline = self.clock.now() + self.setup.limits.silence;
            let mut pending = Pending::new(accepted, Stage::AwaitingGreeting, deadline, transport);
            let from = from.and_then(|from| SocketAddr::try_from(from).ok());
            pending.address = from.map(|from| from.ip().to_canonical());
            self.add(pending, READ);
        }
    }
}

/// Who a stranger is, as far as that is known.
pub(super) fn place(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "this host".to_owned(), |address| address.to_string())
}

const ACCEPTED_PER_TURN: usize = 64;
/// Connections that others have made and on which no greeting has been exchanged.
const STRANGERS_MAX: usize = 1_024;
/// Of how many of them a step is done in a turn; one of a handshake takes a fraction of a
/// millisecond.
const STRANGERS_PER_TURN: usize = 16;
/// How long to wait when the system has no descriptor left.
const EXHAUSTED_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);
