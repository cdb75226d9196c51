//! What copies have left whose processes died while writers went on.
//!
//! Nothing keeps writers of such a table waiting, so none of them finds what was left; but each of
//! their changes goes into a journal that nobody reads. So every worker looks now and then for
//! tables with a journal whose claim nobody holds.
//!
//! # Owns
//! When a worker looks, and which journals it suspects.
//! # Failure
//! A claim is lost with the data node that coordinates it, and renewed by whoever copies within a
//! few seconds (`online`). Only who finds a claim free for [`GRACE`] takes it for one of the dead.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use model::TableId;
use stdx::{Duration, Instant};
use wire::WaitPolicy;

use super::{CLAIMS, undo};
use crate::kernel::Kernel;
use crate::session::Session;
use crate::temporary::shown_name;

/// How often a worker looks, at most.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a claim has been free before its holder counts as dead.
const GRACE: Duration = Duration::from_secs(20);

/// What a worker knows of journals that nobody may read any more.
#[derive(Debug, Default)]
pub(crate) struct Abandoned {
    looked: Cell<Option<Instant>>,
    /// Journals of tables whose claims were found free, and since when.
    suspects: RefCell<BTreeMap<TableId, Instant>>,
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
    fn is_given_up(&self, journal: TableId, is_free: bool, now: Instant) -> bool {
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

impl Session {
    /// Undoes what copies have left whose processes are gone. Errors are for the next who looks.
    pub(crate) async fn sweep_copies(&self) {
        let abandoned = &self.shared.abandoned;
        let cluster = self.kernel.cluster();
        let journaled: BTreeMap<TableId, TableId> =
            cluster.tables.values().filter_map(|table| Some((table.journal?, table.id))).collect();
        abandoned.suspects.borrow_mut().retain(|journal, _| journaled.contains_key(journal));
        for (journal, table) in journaled {
            let beside = self.kernel.beside();
            self.look_at(&beside, journal, table).await;
            beside.abort().await;
        }
    }

    async fn look_at(&self, beside: &Kernel, journal: TableId, table: TableId) {
        let claimed = CLAIMS.hold(beside, table.0.into(), WaitPolicy::Refuse).await;
        let now = self.kernel.now();
        if !self.shared.abandoned.is_given_up(journal, claimed.is_ok(), now) {
            return;
        }
        let cluster = self.kernel.cluster();
        let known = cluster.tables.get(&table).filter(|table| table.journal == Some(journal));
        if let Some(known) = known {
            let (database, _) = shown_name(&known.name);
            let _ = undo(beside, table, &database).await;
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
