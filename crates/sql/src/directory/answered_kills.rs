//! The answers to the newest KILLs that other SQL nodes have sent.
//!
//! Each data node passes the same KILL on. What the first copy has ended is not there any more for
//! the second one, whose answer may be back earlier: so the second one is answered like the first.

use std::collections::VecDeque;

use model::{Address, SessionId};

/// KILLs that are remembered; copies of one come within moments.
const KILLS_MAX: usize = 64;

/// Names a question of another SQL node: its client, its session, its counter.
pub(crate) type Asked = (Address, SessionId, u64);

/// What was answered, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AnsweredKills(VecDeque<(Asked, u64)>);

impl AnsweredKills {
    /// What a question was answered before.
    pub(crate) fn said(&self, asked: Asked) -> Option<u64> {
        self.0.iter().find(|(before, _)| *before == asked).map(|(_, said)| *said)
    }

    /// Remembers an answer.
    pub(crate) fn note(&mut self, asked: Asked, said: u64) {
        if self.0.len() == KILLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((asked, said));
    }
}
