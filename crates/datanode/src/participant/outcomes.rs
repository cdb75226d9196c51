//! How the last transaction of each session ended here: what clients with a lost answer ask for.
//!
//! One entry per session is enough, as a session has one transaction at a time. When the table is
//! full the entry that was written longest ago goes, and from then on a session without an entry
//! may have had one.

use model::{Epoch, SessionId, TransactionId};
use stdx::HashMap;
use wire::KnownOutcome;

/// The last commit of one session.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    session: SessionId,
    number: u64,
    epoch: Epoch,
    /// Neighbours in the list by age.
    older: u32,
    newer: u32,
}

/// The table of outcomes.
#[derive(Debug)]
pub(super) struct Outcomes {
    entries: Vec<Outcome>,
    by_session: HashMap<SessionId, u32>,
    /// Ends of the list by age, `NONE` when it is empty.
    oldest: u32,
    newest: u32,
    forgotten: bool,
}

/// No entry.
const NONE: u32 = u32::MAX;

impl Default for Outcomes {
    fn default() -> Self {
        let (entries, by_session) = (Vec::new(), HashMap::default());
        Self { entries, by_session, oldest: NONE, newest: NONE, forgotten: false }
    }
}

impl Outcomes {
    /// Notes a commit; older ones of the session are dropped, at most `limit` sessions are kept.
    /// True when another session's entry had to go.
    pub(super) fn record(&mut self, transaction: TransactionId, epoch: Epoch, limit: u32) -> bool {
        let TransactionId { session, number } = transaction;
        if let Some(at) = self.by_session.get(&session).copied() {
            let known = &mut self.entries[at as usize];
            if known.number > number {
                return false;
            }
            if known.number == number {
                assert_eq!(known.epoch, epoch, "{transaction}: one commit epoch");
            }
            (known.number, known.epoch) = (number, epoch);
            if at != self.newest {
                self.unlink(at);
                self.link_newest(at);
            }
            return false;
        }
        let full = self.entries.len() >= (limit as usize).max(1);
        let entry = Outcome { session, number, epoch, older: NONE, newer: NONE };
        let at = if full {
            let at = self.oldest;
            self.unlink(at);
            let gone = std::mem::replace(&mut self.entries[at as usize], entry);
            self.by_session.remove(&gone.session);
            self.forgotten = true;
            at
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.by_session.insert(session, at);
        self.link_newest(at);
        full
    }

    /// What is known of a transaction's end.
    pub(super) fn of(&self, transaction: TransactionId) -> KnownOutcome {
        let known = self.by_session.get(&transaction.session);
        match known.map(|at| &self.entries[*at as usize]) {
            Some(known) if known.number == transaction.number => {
                KnownOutcome::Committed(known.epoch)
            }
            Some(known) if known.number > transaction.number => KnownOutcome::Superseded,
            Some(_) => KnownOutcome::Unknown,
            None if self.forgotten => KnownOutcome::Superseded,
            None => KnownOutcome::Unknown,
        }
    }

    /// All entries, those written longest ago first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TransactionId, Epoch)> {
        let entry = |at: u32| self.entries.get(at as usize);
        std::iter::successors(entry(self.oldest), move |known| entry(known.newer)).map(|known| {
            (TransactionId { session: known.session, number: known.number }, known.epoch)
        })
    }

    /// Whether entries were dropped for want of room.
    pub(super) fn forgotten(&self) -> bool {
        self.forgotten
    }

    /// The source this table was copied from had dropped entries.
    pub(super) fn inherit_forgotten(&mut self, forgotten: bool) {
        self.forgotten |= forgotten;
    }

    /// What holds between messages.
    pub(super) fn check(&self) {
        assert_eq!(self.by_session.len(), self.entries.len(), "outcomes by session");
        let (mut count, mut at, mut older) = (0, self.oldest, NONE);
        while at != NONE {
            let known = &self.entries[at as usize];
            assert_eq!(self.by_session.get(&known.session), Some(&at), "outcome by its session");
            assert_eq!(known.older, older, "list of outcomes by age");
            (count, older, at) = (count + 1, at, known.newer);
        }
        assert_eq!((count, older), (self.entries.len(), self.newest), "outcomes by age");
    }

    fn unlink(&mut self, at: u32) {
        let Outcome { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        (self.entries[at as usize].older, self.entries[at as usize].newer) = (older, NONE);
        match older {
            NONE => self.oldest = at,
            older => self.entries[older as usize].newer = at,
        }
    }
}
