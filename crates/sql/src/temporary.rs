//! Temporary tables: tables of one session.
//!
//! They are tables of the cluster under names that no other session looks for. So they have all
//! that tables have: keys, transactions, savepoints, every access path; and they share the
//! cluster's memory.
//!
//! A session that has any holds a claim: a row in a kernel table of ours, locked in a transaction
//! of its own. When the session ends it drops its tables. What a session left whose process died,
//! is dropped by others who find that nobody holds its claim.
//!
//! # Owns
//! The names of temporary tables, and what a worker knows of those that are left; what a session
//! does with them, its claim and taking away what is left (`session`).
//! # Guarantees
//! A name that a session gave to a temporary table means that table, whatever there is beside it.
//! # Failure
//! A claim is lost with the data node that coordinates it, and renewed by the session's next
//! statement, or within [`RENEWAL`] while it is idle. Only who finds a claim free for [`GRACE`]
//! takes it for one of the dead.
//! # Not here
//! CREATE and DROP (`ddl`).

mod session;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use model::{ControlIndex, TableId};
use stdx::{Duration, Instant};

use crate::catalog::names::{TEMPORARY_PREFIX as PREFIX, TableName};
use crate::claim::Claims;

/// The claims of sessions.
pub(crate) const CLAIMS: Claims = Claims { table: "#sessions", column: "session", width: 8 };
/// How often an idle session that has temporary tables renews its claim.
pub(crate) const RENEWAL: Duration = Duration::from_secs(30);
/// How often a worker looks for what is left, at most.
const SWEEP_PAUSE: Duration = Duration::from_secs(60);
/// How long a claim has been free before its owner counts as dead.
const GRACE: Duration = Duration::from_secs(150);

/// The temporary tables of a session.
#[derive(Debug)]
pub(crate) struct Temporaries {
    /// The session's number among all that ever were.
    owner: u64,
    /// The kernel's names by the user's, with database.
    tables: BTreeMap<String, String>,
    /// Tables that were dropped in a transaction that may have used them: they go after it.
    going: Vec<TableId>,
    /// The state of the cluster in which the claim was got last.
    claimed: Option<ControlIndex>,
}

/// What a worker knows of temporary tables that nobody may own any more.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    numbers: Cell<u64>,
    swept: Cell<Option<Instant>>,
    /// Owners whose claims were found free, and since when.
    suspects: RefCell<BTreeMap<u64, Instant>>,
}

impl Temporaries {
    /// Of a session with this number.
    pub(crate) fn new(owner: u64) -> Self {
        Self { owner, tables: BTreeMap::new(), going: Vec::new(), claimed: None }
    }

    /// The number of its session's claim.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether a name means a temporary table.
    pub(crate) fn has(&self, name: &TableName) -> bool {
        self.tables.contains_key(&name.full())
    }

    /// The kernel's name.
    pub(crate) fn kernel_name(&self, name: &TableName) -> Option<&String> {
        self.tables.get(&name.full())
    }

    /// Has a name mean the table of this name of the kernel.
    pub(crate) fn add(&mut self, name: &TableName, kernel_name: String) {
        self.tables.insert(name.full(), kernel_name);
    }

    /// Forgets a name.
    pub(crate) fn remove(&mut self, name: &TableName) -> Option<String> {
        self.tables.remove(&name.full())
    }
}

fn owner_of(kernel_name: &str) -> Option<u64> {
    let (owner, _) = kernel_name.strip_prefix(PREFIX)?.split_once('/')?;
    u64::from_str_radix(owner, 16).ok()
}

impl Leftovers {
    /// Takes note of whether an owner's claim is free; since when it is known to be.
    fn seen(&self, owner: u64, is_free: bool, now: Instant) -> Option<Instant> {
        let mut suspects = self.suspects.borrow_mut();
        if is_free {
            Some(*suspects.entry(owner).or_insert(now))
        } else {
            suspects.remove(&owner);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::names::{POINT, shown_name};

    #[test]
    fn names_are_the_users() {
        let kernel_name = format!("{PREFIX}{:016x}/7/d/a{POINT}b/c", 0xAB);
        assert_eq!(shown_name(&kernel_name), ("d".to_owned(), "a.b/c".to_owned()));
        assert_eq!(owner_of(&kernel_name), Some(0xAB));
        assert_eq!(shown_name("d.t.u"), ("d".to_owned(), "t.u".to_owned()));
        assert_eq!(owner_of("d.t"), None);
    }

    #[test]
    fn a_claim_counts_as_free_since_it_was_first_found_so() {
        let leftovers = Leftovers::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(leftovers.seen(1, true, at(5)), Some(at(5)));
        assert_eq!(leftovers.seen(1, true, at(90)), Some(at(5)));
        assert_eq!(leftovers.seen(1, false, at(100)), None);
        assert_eq!(leftovers.seen(1, true, at(110)), Some(at(110)));
        assert_eq!(leftovers.seen(2, true, at(111)), Some(at(111)));
    }
}
