//! Memory that this process shares with others of its host: who offers, who accepts.
//!
//! Whoever connects by a Unix socket creates memory for the connection and hands it over with the
//! greeting. The answer says whether it is used. So both know before the first byte of a lane, and
//! a peer that does not know of memory, or does not get it, answers as if there were none.
//!
//! # Failure
//! Without memory the socket carries the lane. That is said once in a while, with the reason.

use std::io;

use model::NodeId;

use super::super::address::UNIX;
use super::super::pending::{Errand, Pending};
use super::super::ring::Rings;
use super::super::{LinkEvent, SameHost};
use super::Keeper;

impl Keeper {
    /// Says the greeting on a connection, and offers memory for it if there is to be any. False if
    /// the other end takes nothing.
    pub(super) fn say_greeting(&mut self, token: u64, errand: Errand, greeting: &[u8]) -> bool {
        let Some(pending) = self.pending.get_mut(&token) else { return false };
        if !wants_memory(self.setup.same_host, errand.attempt, pending) {
            return pending.say(greeting);
        }
        let offered =
            Rings::create().and_then(|(rings, file)| pending.say_and_offer(greeting, rings, file));
        match offered {
            Ok(whole) => whole,
            Err(error) => {
                let said = pending.say(greeting);
                self.do_without_memory(errand.node, &error);
                said
            }
        }
    }

    /// Accepts the memory that has come with a greeting, if it is wanted; whether it is used.
    pub(super) fn accept_memory(
        &mut self,
        node: NodeId,
        attempt: u64,
        pending: &mut Pending,
    ) -> bool {
        let Some(file) = pending.given.take() else { return false };
        if !wants_memory(self.setup.same_host, attempt, pending) {
            return false;
        }
        match Rings::accept(&file) {
            Ok(rings) => pending.rings = Some(rings),
            Err(error) => self.do_without_memory(node, &error),
        }
        pending.rings.is_some()
    }

    fn do_without_memory(&mut self, node: NodeId, error: &io::Error) {
        let why = error.to_string();
        if self.is_new_complaint(node, &why) {
            self.tell(LinkEvent::NotShared { node, why });
        }
    }
}

/// Whether a connection is to go through memory. One that only asks who is there is not.
fn wants_memory(same_host: SameHost, attempt: u64, pending: &Pending) -> bool {
    same_host == SameHost::Memory && attempt != 0 && pending.transport == UNIX
}
