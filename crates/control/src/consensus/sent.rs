//! What a leader has sent to its followers, so that entries under way are not sent to them again.
//!
//! # Owns
//! For each follower: its last entry by its newest answer, and the last entry that was sent to it
//! without a gap. All of it belongs to one term.
//! # Guarantees
//! 1. As long as a follower gets further, each entry is sent to it once, and once more at most
//!    where it had to ask.
//! 2. A message with more than one entry has at most [`ENTRIES_PER_MESSAGE`].
//! 3. What was lost is sent again once the follower has not got further for the patience.
//! # Not here
//! What a follower lacks: the library says so at each of its answers, and names all of it. A
//! message that is held back here is to the library one that was lost.

use std::collections::BTreeMap;

use raftbare::{LogEntries, LogPosition, NodeId as Voter, Term};
use stdx::{Duration, Instant};

/// Entries that one message brings to a follower that lacks more. It asks for the rest.
pub(super) const ENTRIES_PER_MESSAGE: usize = 64;

/// What a leader has sent in its term.
#[derive(Debug)]
pub(super) struct Sent {
    /// How long entries count as under way to a follower that does not get further.
    patience: Duration,
    term: Term,
    followers: BTreeMap<Voter, Progress>,
}

/// How far a follower has got.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Its last entry, by its newest answer.
    last: u64,
    /// The last entry of those that were sent to it without a gap behind that one.
    through: u64,
    /// When it last got further, or was sent what it lacked.
    at: Instant,
}

impl Sent {
    /// Nothing has been sent.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, term: Term::ZERO, followers: BTreeMap::new() }
    }

    /// A follower has said which entry is its last one.
    pub(super) fn note_answer(
        &mut self,
        now: Instant,
        term: Term,
        follower: Voter,
        last: LogPosition,
    ) {
        self.enter(term);
        let last = last.index.get();
        let fresh = Progress { last, through: last, at: now };
        let progress = self.followers.entry(follower).or_insert(fresh);
        if last < progress.last {
            // It has given entries up that were not the leader's: what was sent behind is lost.
            *progress = fresh;
        } else if last > progress.last {
            *progress = Progress { last, through: progress.through.max(last), at: now };
        }
    }

    /// New entries are sent to a follower whatever it has.
    pub(super) fn note_broadcast(
        &mut self,
        now: Instant,
        term: Term,
        follower: Voter,
        entries: &LogEntries,
    ) {
        self.enter(term);
        if let Some(progress) = self.followers.get_mut(&follower)
            && progress.through == entries.prev_position().index.get()
        {
            if progress.last == progress.through {
                // It had all there was, and could get no further.
                progress.at = now;
            }
            progress.through = entries.last_position().index.get();
        }
    }

    /// Which of the entries that a follower lacks are sent to it now; none if all are under way.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        term: Term,
        follower: Voter,
        lacking: &LogEntries,
    ) -> Option<LogEntries> {
        self.enter(term);
        let first = lacking.prev_position();
        let last = first.index.get();
        if let Some(progress) = self.followers.get(&follower)
            && last < progress.through
            && now.since(progress.at) < self.patience
        {
            return None;
        }
        let some = LogEntries::from_iter(first, lacking.iter().take(ENTRIES_PER_MESSAGE));
        let through = some.last_position().index.get();
        self.followers.insert(follower, Progress { last, through, at: now });
        Some(some)
    }

    /// Forgets all but the followers that there are.
    pub(super) fn retain(&mut self, followers: &[Voter]) {
        if self.followers.len() > followers.len() {
            self.followers.retain(|follower, _| followers.contains(follower));
        }
    }

    /// What was sent in an earlier term may be other entries.
    fn enter(&mut self, term: Term) {
        if self.term != term {
            self.term = term;
            self.followers.clear();
        }
    }
}
