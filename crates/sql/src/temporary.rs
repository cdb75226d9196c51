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
//! The names of temporary tables, the claim, taking away what is left.
//! # Guarantees
//! A name that a session gave to a temporary table means that table, whatever there is beside it.
//! # Failure
//! A claim is lost with the data node that coordinates it, and renewed by the session's next
//! statement, or within [`RENEWAL`] while it is idle. Only who finds a claim free for [`GRACE`]
//! takes it for one of the dead.
//! # Not here
//! CREATE and DROP (`ddl`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ControlIndex, ErrorCode, SchemaChange, Table, TableId};
use sql_expression::SqlError;
use stdx::{Duration, Instant};
use wire::WaitPolicy;

use crate::catalog::names::{POINT, TEMPORARY_PREFIX as PREFIX, TableName, copy_name, shown_name};
use crate::claim::Claims;
use crate::kernel::{Failure, Kernel};
use crate::session::{Session, Shared};

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

impl Session {
    /// The temporary table of this name.
    pub(crate) fn temporary_table(&self, name: &TableName) -> Option<Arc<Table>> {
        if self.temporary.is_empty() {
            return None;
        }
        let kernel_name = self.temporary.kernel_name(name)?;
        self.kernel.cluster().table_named(kernel_name).cloned()
    }

    /// Whether a table is a session's own.
    pub(crate) fn is_temporary(&self, table: TableId) -> bool {
        let cluster = self.kernel.cluster();
        cluster.tables.get(&table).is_some_and(|table| table.name.starts_with(PREFIX))
    }

    /// A name of the kernel for a new temporary table.
    pub(crate) fn new_temporary_name(&self, name: &TableName) -> String {
        let number = self.shared.leftovers.numbers.get() + 1;
        self.shared.leftovers.numbers.set(number);
        let TableName { database, name } = name;
        let name = name.replace('.', POINT);
        format!("{PREFIX}{:016x}/{number}/{database}/{name}", self.temporary.owner)
    }

    /// Gets the session's claim, or makes sure that it is held still.
    pub(crate) async fn claim_temporaries(&mut self) -> Result<(), SqlError> {
        let index = self.kernel.cluster().index;
        let keeper = self.kernel.keeper();
        if CLAIMS.hold(&keeper, self.temporary.owner, WaitPolicy::Wait).await.is_err() {
            // The transaction that held it is gone, and this was told of it.
            keeper.abort().await;
            CLAIMS.hold(&keeper, self.temporary.owner, WaitPolicy::Wait).await?;
        }
        self.temporary.claimed = Some(index);
        Ok(())
    }

    /// Whether the session has something that is its own by its claim.
    pub(crate) fn needs_claim(&self) -> bool {
        !self.temporary.is_empty() || !self.named_locks.is_empty()
    }

    /// Whether it has got its claim in the present state of the cluster.
    pub(crate) fn holds_claim(&self) -> bool {
        self.temporary.claimed == Some(self.kernel.cluster().index)
    }

    /// Renews the claim if the cluster has changed since: a node that has gone may have held it.
    pub(crate) async fn renew_claim(&mut self) {
        if self.needs_claim() && !self.holds_claim() {
            // Who cannot renew it now does it next time.
            if self.claim_temporaries().await.is_ok() {
                self.check_locks().await;
            }
        }
    }

    /// Drops a temporary table; in a transaction that may have used it, when that has ended.
    pub(crate) async fn drop_temporary(&mut self, name: &TableName) -> Result<(), SqlError> {
        let table = self.temporary_table(name).map(|table| table.id);
        self.temporary.remove(name);
        self.temporary.going.extend(table);
        self.drop_going().await
    }

    /// Drops what was waiting for the end of a transaction, if that has ended.
    pub(crate) async fn drop_going(&mut self) -> Result<(), SqlError> {
        if self.kernel.transaction().is_some() {
            return Ok(());
        }
        while let Some(table) = self.temporary.going.last().copied() {
            drop_table(&self.shared, &self.kernel, table).await?;
            self.temporary.going.pop();
        }
        Ok(())
    }

    /// Drops all temporary tables, and gives the claim up: the session ends.
    pub(crate) async fn drop_temporaries(&mut self) {
        if self.temporary.claimed.is_none() {
            return;
        }
        let cluster = self.kernel.cluster();
        let names = std::mem::take(&mut self.temporary.tables).into_values();
        let known = |name: String| cluster.table_named(&name).map(|table| table.id);
        self.temporary.going.extend(names.filter_map(known));
        if self.drop_going().await.is_ok() {
            let keeper = self.kernel.keeper();
            let owner = self.temporary.owner;
            // A row that stays is one of a claim that nobody holds.
            let _ = CLAIMS.forget(&keeper, owner).await;
            self.temporary.claimed = None;
        }
    }

    /// Drops what sessions have left whose processes are gone. Errors are for the next who looks.
    pub(crate) async fn sweep_temporaries(&self) {
        let left = owners(self, self.temporary.owner);
        let leftovers = &self.shared.leftovers;
        leftovers.suspects.borrow_mut().retain(|owner, _| left.contains_key(owner));
        let now = self.kernel.now();
        let recent = |swept: Instant| now.since(swept) < SWEEP_PAUSE;
        if left.is_empty() || leftovers.swept.get().is_some_and(recent) {
            return;
        }
        leftovers.swept.set(Some(now));
        let beside = self.kernel.beside();
        for (owner, tables) in left {
            let is_free = CLAIMS.hold(&beside, owner, WaitPolicy::Refuse).await.is_ok();
            let since = leftovers.seen(owner, is_free, now);
            if is_free && since.is_some_and(|since| now.since(since) >= GRACE) {
                let mut all_gone = true;
                for table in tables {
                    all_gone &= drop_table(&self.shared, &self.kernel, table).await.is_ok();
                }
                if all_gone {
                    let _ = CLAIMS.forget(&beside, owner).await;
                }
            }
            beside.abort().await;
        }
    }
}

impl Leftovers {
    /// Takes note of whether an owner's claim is free; since when it is known to be.
    fn seen(&self, owner: u64, is_free: bool, now: Instant) -> Option<Instant> {
        let mut suspects = self.suspects.borrow_mut();
        match is_free {
            true => Some(*suspects.entry(owner).or_insert(now)),
            false => {
                suspects.remove(&owner);
                None
            }
        }
    }
}

/// The temporary tables of all sessions but one.
fn owners(session: &Session, but: u64) -> BTreeMap<u64, Vec<TableId>> {
    let cluster = session.kernel.cluster();
    let mut owners: BTreeMap<u64, Vec<TableId>> = BTreeMap::new();
    let names = cluster.table_names.iter_from(PREFIX);
    for (name, table) in names.take_while(|(name, _)| name.starts_with(PREFIX)) {
        if let Some(owner) = owner_of(name).filter(|owner| *owner != but) {
            owners.entry(owner).or_default().push(*table);
        }
    }
    owners
}

/// Drops a temporary table and a copy that an ALTER TABLE may have left.
async fn drop_table(shared: &Shared, kernel: &Kernel, table: TableId) -> Result<(), Failure> {
    let cluster = kernel.cluster();
    let Some(name) = cluster.tables.get(&table).map(|table| shown_name(&table.name)) else {
        return Ok(());
    };
    let beside = kernel.beside();
    let copy = format!("{}.{}", name.0, copy_name(table));
    let copy = cluster.table_named(&copy).map(|copy| copy.id);
    for id in copy.into_iter().chain([table]) {
        match beside.change_schema(SchemaChange::DropTable { table: id }).await {
            Ok(_) => {}
            Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::UnknownTable => {}
            Err(failure) => return Err(failure),
        }
        // What remains of the sequence is a row nobody looks at.
        let _ = shared.sequences.forget(kernel, id).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
