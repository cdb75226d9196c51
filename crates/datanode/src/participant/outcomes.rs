//! How the last transaction of each session ended here: what clients with a lost answer ask for.
//!
//! One entry per session is enough, as a session has one transaction at a time. When the table is
//! full the entry that was written longest ago goes, and from then on a session without an entry
//! may have had one.

use std::collections::BTreeMap;

use model::{Epoch, SessionId, TransactionId};
use stdx::HashMap;
use wire::KnownOutcome;

/// The last commit of one session.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    number: u64,
    epoch: Epoch,
    written: u64,
}

/// The table of outcomes.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    by_session: HashMap<SessionId, Outcome>,
    by_age: BTreeMap<u64, SessionId>,
    writes: u64,
    forgotten: bool,
}

impl Outcomes {
    /// Notes a commit; older ones of the session are dropped, at most `limit` sessions are kept.
    /// True when another session's entry had to go.
    pub(super) fn record(&mut self, transaction: TransactionId, epoch: Epoch, limit: u32) -> bool {
        let TransactionId { session, number } = transaction;
        if let Some(known) = self.by_session.get(&session) {
            if known.number > number {
                return false;
            }
            if known.number == number {
                assert_eq!(known.epoch, epoch, "{transaction}: one commit epoch");
            }
            self.by_age.remove(&known.written);
        }
        self.writes += 1;
        let written = self.writes;
        self.by_session.insert(session, Outcome { number, epoch, written });
        self.by_age.insert(written, session);
        let mut evicted = false;
        while self.by_age.len() > (limit as usize).max(1) {
            let (_, oldest) = self.by_age.pop_first().expect("the table is over its limit");
            self.by_session.remove(&oldest);
            self.forgotten = true;
            evicted = true;
        }
        evicted
    }

    /// What is known of a transaction's end.
    pub(super) fn of(&self, transaction: TransactionId) -> KnownOutcome {
        match self.by_session.get(&transaction.session) {
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
        self.by_age.values().map(|session| {
            let known = self.by_session[session];
            (TransactionId { session: *session, number: known.number }, known.epoch)
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
        assert_eq!(self.by_session.len(), self.by_age.len(), "outcomes by session and by age");
    }
}
