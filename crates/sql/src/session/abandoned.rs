//! Journals of copies whose processes may be gone.
//!
//! # Owns
//! When a worker looks for them, and which it suspects.
//! # Not here
//! Taking them away (`ddl`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use model::TableId;
use stdx::{Duration, Instant};

/// How often a worker looks, at most.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a claim has been free before its holder counts as dead.
const GRACE: Duration = Duration::from_secs(20);

/// What a worker knows of journals that nobody may read any more.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    looked: Cell<Option<Instant>>,
    /// Journals of tables whose claims were found free, and since when.
    pub(crate) suspects: RefCell<BTreeMap<TableId, Instant>>,
}

impl Abandoned {
    /// Whether it is time to look again; takes note of it then.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let recent = |looked: Instant| now.since(looked) < PAUSE;
        if self.looked.get().is_some_and(recent) {
            return false;
        }
        self.looked.set(Some(now));
        true
    }

    /// Takes note of whether the claim on a journal's table is free; whether it has been for so
    /// long that nobody will come back to it.
    pub(crate) fn is_given_up(&self, journal: TableId, is_free: bool, now: Instant) -> bool {
        let mut suspects = self.suspects.borrow_mut();
        match is_free {
            true => now.since(*suspects.entry(journal).or_insert(now)) >= GRACE,
            false => {
                suspects.remove(&journal);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_given_up_that_nobody_has_claimed_for_long() {
        let abandoned = Abandoned::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert!(abandoned.is_due(at(1)));
        assert!(!abandoned.is_due(at(5)));
        assert!(abandoned.is_due(at(6)));
        let journal = TableId(9);
        assert!(!abandoned.is_given_up(journal, true, at(10)));
        assert!(!abandoned.is_given_up(journal, true, at(29)));
        assert!(!abandoned.is_given_up(journal, false, at(29)), "whoever copies is there");
        assert!(!abandoned.is_given_up(journal, true, at(35)));
        assert!(abandoned.is_given_up(journal, true, at(55)));
        assert!(!abandoned.is_given_up(TableId(10), true, at(55)), "another one");
    }
}
