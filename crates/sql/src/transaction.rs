//! Transactions as the user sees them: BEGIN, COMMIT, savepoints, autocommit, isolation.
//!
//! # Owns
//! When a kernel transaction ends, when it is on disk, and which snapshot reads use.
//! # Guarantees
//! A statement that fails leaves the transaction as it was before it; where the kernel has aborted
//! the transaction as a whole (deadlock, lost node), the session has none afterwards.
//! # Not here
//! What statements do in it (`execute`).

use actor::Mutation;
use client::Savepoint;
use model::{Epoch, TableId};
use sql_expression::SqlError;
use sql_parser::ast::Statement;
use sqltype::Datum;

use crate::kernel::Failure;
use crate::prepared::Prepared;
use crate::session::{Session, SessionTransaction};
use crate::traits::Place;
use crate::variables::choice::{Durability, Isolation};

/// Where a statement began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    savepoint: Savepoint,
    began: bool,
}

impl Mark {
    /// Whether the statement began inside a transaction that had done something.
    pub(crate) fn is_in_transaction(self) -> bool {
        self.began
    }
}

impl Session {
    /// Whether a statement is a transaction of its own.
    pub(crate) fn autocommits(&self) -> bool {
        self.variables.autocommit && !self.transaction.explicit
    }

    /// Whether the transaction may only read: as it was begun, or as one would begin now.
    pub(crate) fn is_read_only(&self) -> bool {
        let next = self.transaction.read_only_once.unwrap_or(self.variables.transaction_read_only);
        self.transaction.read_only || !self.transaction.explicit && next
    }

    /// Whether the user is in a transaction: SERVER_STATUS_IN_TRANS.
    pub(crate) fn in_transaction(&self) -> bool {
        self.transaction.explicit || self.kernel.transaction().is_some()
    }

    /// The isolation level of the running transaction.
    pub(crate) fn isolation(&self) -> Isolation {
        self.transaction.isolation_once.unwrap_or(self.variables.isolation)
    }

    /// START TRANSACTION, BEGIN: commits what is open first, as MySQL does.
    pub(crate) async fn begin(
        &mut self,
        read_only: bool,
        consistent_snapshot: bool,
    ) -> Result<(), SqlError> {
        let (level, access) = (self.transaction.isolation_once, self.transaction.read_only_once);
        self.commit().await?;
        self.transaction.isolation_once = level;
        self.transaction.explicit = true;
        self.transaction.read_only = access.unwrap_or(read_only);
        if consistent_snapshot && !self.guards_reads() {
            self.open_snapshot().await?;
        }
        Ok(())
    }

    /// Commits and ends the transaction.
    pub(crate) async fn commit(&mut self) -> Result<(), SqlError> {
        let result = self.kernel.commit().await;
        self.end_transaction();
        result.map(|_| ()).map_err(SqlError::from)
    }

    /// With `nines_durability` = `disk`, waits until all that the session has committed is on disk.
    /// Costs nothing when that is known already, as after a statement that only reads.
    pub(crate) async fn secure(&self) -> Result<(), SqlError> {
        let commits = self.kernel.commits();
        let settled = commits.durable.max(commits.given_up);
        if self.variables.durability == Durability::Memory || commits.newest <= settled {
            return Ok(());
        }
        let waited = self.kernel.await_durable(commits.newest, false).await;
        waited.map(|_| ()).map_err(|failure| {
            // It is said once: later statements answer for what they commit.
            self.kernel.give_up(commits.newest);
            let why = SqlError::from(failure);
            SqlError::new(
                1180,
                "HY000",
                format!(
                    "Got error {} '{}' during COMMIT: the transaction is committed in memory, and \
                     whether it is on disk is not known",
                    why.code(),
                    why.message()
                ),
            )
        })
    }

    /// NINES_COMMIT_RECEIPT(): what the session's last commit has reached by now, NULL if there was
    /// none.
    pub(crate) async fn commit_receipt(&self) -> Result<Datum, SqlError> {
        let Some(last) = self.kernel.commits().last else { return Ok(Datum::Null) };
        let mut durable = self.kernel.commits().durable;
        if self.kernel.has_disk() && durable < last {
            durable = self.kernel.await_durable(last, true).await?;
        }
        Ok(Datum::text(if last <= durable { "disk" } else { "memory" }))
    }

    /// Undoes and ends the transaction.
    pub(crate) async fn rollback(&mut self) {
        self.kernel.abort().await;
        self.end_transaction();
    }

    /// Forgets a transaction that is over.
    pub(crate) fn end_transaction(&mut self) {
        let ended = std::mem::take(&mut self.transaction);
        if self.kernel.mutated(Mutation::SqlSnapshotsKept) {
            self.transaction.snapshot = ended.snapshot;
            self.transaction.snapshot_before = ended.snapshot_before;
            return;
        }
        if let Some(epoch) = ended.snapshot {
            self.kernel.close_snapshot(epoch);
        }
    }

    /// Whether what the statement reads has to stay as it is until its transaction ends: at
    /// SERIALIZABLE, unless the transaction only reads, or the statement is one that only reads and
    /// a transaction of its own. Those read a snapshot.
    pub(crate) fn guards_reads(&self) -> bool {
        self.isolation() == Isolation::Serializable
            && (self.changes_rows || !self.autocommits() && !self.is_read_only())
    }

    /// Whether plain reads of the transaction are of one snapshot.
    fn reads_snapshot(&self) -> bool {
        match self.isolation() {
            Isolation::ReadUncommitted | Isolation::ReadCommitted => false,
            Isolation::RepeatableRead => true,
            Isolation::Serializable => self.is_read_only(),
        }
    }

    /// The snapshot that plain reads of `tables` use; none for the newest committed rows. The
    /// first read of a REPEATABLE READ transaction opens it. What a statement reads that changes
    /// rows is the newest.
    pub(crate) async fn read_snapshot(
        &mut self,
        tables: &[TableId],
    ) -> Result<Option<Epoch>, SqlError> {
        // A session's own table has no past, and nobody else changes it.
        if self.kernel.mutated(Mutation::SqlSnapshotsReadNewest) {
            return Ok(None);
        }
        if self.changes_rows || tables.iter().all(|table| self.is_temporary(*table)) {
            return Ok(None);
        }
        if self.transaction.snapshot.is_none() && self.reads_snapshot() && !self.autocommits() {
            self.open_snapshot().await?;
        }
        if self.transaction.snapshot.is_some()
            && tables.iter().any(|table| table.0 > self.transaction.snapshot_before)
        {
            // TRUNCATE and ALTERs that copy make tables anew, without their past.
            return Err(SqlError::of::<1412>(&[]));
        }
        Ok(self.transaction.snapshot)
    }

    pub(crate) async fn open_snapshot(&mut self) -> Result<(), Failure> {
        // Before it is opened: what is made meanwhile may be missing in it.
        self.transaction.snapshot_before = self.kernel.cluster().next_id;
        self.transaction.snapshot = Some(self.kernel.open_snapshot().await?);
        Ok(())
    }

    /// Remembers that the transaction has changed a table.
    pub(crate) fn wrote(&mut self, table: TableId) {
        if !self.transaction.written.contains(&table) {
            self.transaction.written.push(table);
        }
    }

    /// The place to come back to if the statement that begins now fails.
    pub(crate) fn mark(&self) -> Mark {
        let began = self.kernel.transaction().is_some();
        Mark { savepoint: self.kernel.savepoint(), began }
    }

    /// Gives up what the kernel has of the transaction: a statement of it was interrupted while it
    /// waited for the kernel. False when more has gone than the statement since `mark`: otherwise a
    /// transaction that was begun goes on as it was begun.
    pub(crate) fn abandon(&mut self, mark: Mark) -> bool {
        self.kernel.abandon();
        let ended = std::mem::take(&mut self.transaction);
        // The snapshot went with the kernel's session.
        if mark.began || ended.explicit && ended.snapshot.is_some() {
            return false;
        }
        if ended.explicit {
            let (savepoint, mut savepoints) = (self.kernel.savepoint(), ended.savepoints);
            savepoints.iter_mut().for_each(|(_, at)| *at = savepoint);
            let (snapshot, written) = (None, Vec::new());
            self.transaction = SessionTransaction { snapshot, written, savepoints, ..ended };
        }
        true
    }

    /// Undoes what the statement since `mark` has done. False when more has gone: the kernel has
    /// aborted the transaction that the statement was a part of, as for a node that has failed.
    pub(crate) async fn undo(&mut self, mark: Mark) -> bool {
        if self.kernel.transaction().is_none() {
            // The kernel has aborted all of it, or nothing was done.
            if mark.began {
                self.end_transaction();
            }
            return !mark.began;
        }
        let is_alone = self.autocommits();
        if self.kernel.mutated(Mutation::SqlFailedStatementsStay) && !is_alone {
            return true;
        }
        if !is_alone && self.kernel.rollback_to(mark.savepoint).await.is_ok() {
            return true;
        }
        self.rollback().await;
        !mark.began
    }

    /// The transaction has gone as a whole, and the error of the statement that ends now says no
    /// more than that the statement failed.
    pub(crate) fn lose_transaction(&mut self) {
        self.has_lost_transaction = true;
    }

    /// Tells the next statement that acts in a transaction that the one before it is gone, once:
    /// whoever goes on after an error would commit the rest of a transaction without its beginning.
    ///
    /// # Errors
    /// 1297, which says that the transaction is to be repeated as a whole.
    pub(crate) fn tell_lost_transaction(&mut self, prepared: &Prepared) -> Result<(), SqlError> {
        if !self.has_lost_transaction {
            return Ok(());
        }
        let traits = prepared.traits();
        let is_beside = traits.is_diagnostic
            || matches!(traits.place, Place::Show | Place::Variables | Place::Administration);
        if is_beside {
            return Ok(());
        }
        self.has_lost_transaction = false;
        if matches!(prepared.statement(), Statement::Rollback(_)) {
            return Ok(());
        }
        Err(SqlError::new(
            1297,
            "HY000",
            "The transaction was rolled back as a whole when a statement of it failed, because the \
             statement was interrupted or a node has failed; repeat the transaction from its \
             beginning",
        ))
    }

    /// SAVEPOINT: an older one of the same name goes.
    pub(crate) fn set_savepoint(&mut self, name: &str) {
        if self.autocommits() {
            return;
        }
        let name = name.to_lowercase();
        let savepoint = self.kernel.savepoint();
        let savepoints = &mut self.transaction.savepoints;
        savepoints.retain(|(other, _)| *other != name);
        savepoints.push((name, savepoint));
    }

    /// ROLLBACK TO SAVEPOINT: later savepoints go, this one stays.
    pub(crate) async fn rollback_to_savepoint(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.savepoint_position(name)?;
        let savepoint = self.transaction.savepoints[at].1;
        if !self.kernel.mutated(Mutation::SqlSavepointsForgotten) {
            self.kernel.rollback_to(savepoint).await?;
        }
        self.transaction.savepoints.truncate(at + 1);
        Ok(())
    }

    /// RELEASE SAVEPOINT: this one and later ones go.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> Result<(), SqlError> {
        let at = self.savepoint_position(name)?;
        self.transaction.savepoints.truncate(at);
        Ok(())
    }

    fn savepoint_position(&self, name: &str) -> Result<usize, SqlError> {
        let lower = name.to_lowercase();
        let position = self.transaction.savepoints.iter().position(|(other, _)| *other == lower);
        position
            .ok_or_else(|| SqlError::new(1305, "42000", format!("SAVEPOINT {name} does not exist")))
    }
}

#[cfg(test)]
mod tests;
