//! What a session does with its temporary tables, and with those that others have left.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ErrorCode, SchemaChange, Table, TableId};
use sql_expression::SqlError;
use stdx::Instant;
use wire::WaitPolicy;

use super::{CLAIMS, GRACE, PREFIX, SWEEP_PAUSE, owner_of};
use crate::catalog::names::{POINT, TableName, copy_name, shown_name};
use crate::kernel::{Failure, Kernel};
use crate::session::{Session, Shared};

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
        CLAIMS.keep(&keeper, self.temporary.owner, WaitPolicy::Wait).await?;
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
