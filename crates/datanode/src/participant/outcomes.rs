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
    /// When it was written, as a count of writings.
    written: u64,
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
    /// How often something was written.
    written: u64,
}

/// How far somebody has been told of the outcomes, by the order in which they were written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    written: u64,
    /// Where the last one was that was told.
    at: u32,
}

/// No entry.
const NONE: u32 = u32::MAX;

impl Default for Outcomes {
    fn default() -> Self {
        let (entries, by_session) = (Vec::new(), HashMap::default());
        let (oldest, newest) = (NONE, NONE);
        Self { entries, by_session, oldest, newest, forgotten: false, written: 0 }
    }
}

impl Outcomes {
    /// Notes a commit; older ones of the session are dropped, at most `limit` sessions are kept.
    /// True when another session's entry had to go.
    pub(super) fn record(&mut self, transaction: TransactionId, epoch: Epoch, limit: u32) -> bool {
        let TransactionId { session, number } = transaction;
        self.written += 1;
        let written = self.written;
        if let Some(at) = self.by_session.get(&session).copied() {
            let known = &mut self.entries[at as usize];
            if known.number > number {
                return false;
            }
            if known.number == number {
                assert_eq!(known.epoch, epoch, "{transaction}: one commit epoch");
            }
            (known.number, known.epoch, known.written) = (number, epoch, written);
            if at != self.newest {
                self.unlink(at);
                self.link_newest(at);
            }
            return false;
        }
        let full = self.entries.len() >= (limit as usize).max(1);
        let entry = Outcome { session, number, epoch, written, older: NONE, newer: NONE };
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

    /// The next entries to tell somebody, those written longest ago first, at most so many.
    pub(super) fn next_to_tell(&self, told: &mut Told, most: usize) -> Vec<(TransactionId, Epoch)> {
        let entry = |at: u32| self.entries.get(at as usize);
        let mut next = match entry(told.at).filter(|last| last.written == told.written) {
            Some(last) => last.newer,
            None if told.written == 0 => self.oldest,
            None => self.first_after(told.written),
        };
        let mut outcomes = Vec::new();
        while outcomes.len() < most
            && let Some(known) = entry(next)
        {
            let transaction = TransactionId { session: known.session, number: known.number };
            outcomes.push((transaction, known.epoch));
            *told = Told { written: known.written, at: next };
            next = known.newer;
        }
        outcomes
    }

    /// The first entry that was written later, where the one before it was written again.
    fn first_after(&self, written: u64) -> u32 {
        let (mut first, mut at) = (NONE, self.newest);
        while let Some(known) = self.entries.get(at as usize).filter(|k| k.written > written) {
            (first, at) = (at, known.older);
        }
        first
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
            let before = self.entries.get(older as usize).map_or(0, |older| older.written);
            assert!(before < known.written, "outcomes in the order of writing");
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Incarnation, NodeId};

    fn write(outcomes: &mut Outcomes, session: u32, number: u64) {
        let session = SessionId { node: NodeId(1), incarnation: Incarnation(1), number: session };
        outcomes.record(TransactionId { session, number }, Epoch(number), 8);
        outcomes.check();
    }

    fn tell(outcomes: &Outcomes, told: &mut Told, most: usize) -> Vec<(u32, u64)> {
        let next = outcomes.next_to_tell(told, most).into_iter();
        next.map(|(transaction, _)| (transaction.session.number, transaction.number)).collect()
    }

    #[test]
    fn each_outcome_is_told_once_unless_it_is_written_again() {
        let (mut outcomes, mut told) = (Outcomes::default(), Told::default());
        assert_eq!(tell(&outcomes, &mut told, 9), []);
        (1..=5).for_each(|session| write(&mut outcomes, session, 1));
        assert_eq!(tell(&outcomes, &mut told, 2), [(1, 1), (2, 1)]);
        // The last that was told, and one that is still to be.
        write(&mut outcomes, 2, 2);
        write(&mut outcomes, 4, 2);
        assert_eq!(tell(&outcomes, &mut told, 2), [(3, 1), (5, 1)]);
        assert_eq!(tell(&outcomes, &mut told, 2), [(2, 2), (4, 2)]);
        assert_eq!(tell(&outcomes, &mut told, 2), []);
        // Older ones go for want of room, among them the last that was told.
        (6..=12).for_each(|session| write(&mut outcomes, session, 3));
        let all: Vec<(u32, u64)> = (6..=12).map(|session| (session, 3)).collect();
        assert_eq!(tell(&outcomes, &mut told, 9), all);
        assert_eq!(tell(&outcomes, &mut told, 9), []);
    }
}
