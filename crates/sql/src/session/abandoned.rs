//! What copies and restores have made whose processes may be gone.
//!
//! # Owns
//! When a worker looks for it, and what it suspects.
//! # Not here
//! Taking it away (`ddl`, `backup`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use model::TableId;
use stdx::{Duration, Instant};

/// How often a worker looks, at most.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a claim has been free before its holder counts as dead.
const GRACE: Duration = Duration::from_secs(20);

/// What a worker knows of journals that nobody may read any more, and of tables of restores.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    looked: Cell<Option<Instant>>,
    /// Journals of tables whose claims were found free, and since when.
    suspects: RefCell<Suspects<TableId>>,
    /// The same of restores, by their numbers.
    restores: RefCell<Suspects<u64>>,
}

/// What nobody has claimed, and since when.
#[derive(Debug)]
struct Suspects<K>(BTreeMap<K, Instant>);

impl<K> Default for Suspects<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Suspects<K> {
    /// Takes note of whether a claim is free; whether it has been for so long that nobody will come
    /// back to it.
    fn is_given_up(&mut self, of: K, is_free: bool, now: Instant) -> bool {
        if is_free {
            now.since(*self.0.entry(of).or_insert(now)) >= GRACE
        } else {
            self.0.remove(&of);
            false
        }
    }
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
        self.suspects.borrow_mut().is_given_up(journal, is_free, now)
    }

    /// Forgets journals that are no more.
    pub(crate) fn forget_journals(&self, is_there: impl Fn(TableId) -> bool) {
        self.suspects.borrow_mut().0.retain(|journal, _| is_there(*journal));
    }

    /// The same of the claim on a restore.
    pub(crate) fn is_restore_given_up(&self, number: u64, is_free: bool, now: Instant) -> bool {
        self.restores.borrow_mut().is_given_up(number, is_free, now)
    }

    /// Forgets restores of which nothing is left.
    pub(crate) fn forget_restores(&self, is_left: impl Fn(u64) -> bool) {
        self.restores.borrow_mut().0.retain(|number, _| is_left(*number));
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
        assert!(!abandoned.is_restore_given_up(9, true, at(55)), "a restore is no journal");
        abandoned.forget_restores(|_| false);
        assert!(!abandoned.is_restore_given_up(9, true, at(90)), "it begins anew");
        assert!(abandoned.is_restore_given_up(9, true, at(110)));
    }
}
