//! Bringing a copy up to what the journal of its table names.
//!
//! An entry says that its row has changed since it was copied, not how. So the row is locked and
//! read, its state put into the copy, and the entry deleted, in one transaction: whoever changes
//! the row next writes the entry anew. Rows are locked before their entries, as writers do.
//!
//! # Owns
//! The transactions that drain, and what they do about rows that are locked and values that are
//! taken.
//! # Guarantees
//! As long as writers go on, they are not waited for: a row that is locked keeps its entry. After
//! [`Online::drain_all`] the copy has what the table has.
//! # Not here
//! When draining is over (`online`).

use client::{ClientOperation, OperationAction, OperationAnswer, ScanSpec};
use model::{ErrorCode, Refusal, Value};
use sql_expression::SqlError;
use wire::{LockMode, Projection, WaitPolicy};

use super::online::{Online, give_up, is_violation};
use super::rows::Made;
use super::{Attempts, PATIENCE, PAUSE, Stopped};
use crate::error::is_temporary;
use crate::execute::reference::batch;
use crate::execute::run::Run;
use crate::kernel::{Failure, Kernel, Scan};
use crate::large::read::complete_locked;

/// Entries drained in one transaction.
const ENTRIES: usize = 64;
/// Entries drained in one round, about.
pub(super) const ROUND: usize = 1 << 16;

type Key = Vec<Value>;

/// What is done about the entries of a table that nobody writes to.
#[derive(Clone, Copy)]
enum Pass {
    /// The rows of the new table are deleted.
    Delete,
    /// They are inserted as they are now, and the entries deleted.
    Insert,
}

impl Online<'_> {
    /// Drains entries that are there now, [`ROUND`] about at most, and as far as it can; how many
    /// it found. A scan that is lost ends the round.
    pub(super) async fn drain(&mut self, run: &mut Run<'_>) -> Result<usize, Stopped> {
        let mut entries = self.entries(run);
        let mut found = 0;
        while found < ROUND {
            let keys = match next(run, &mut entries).await? {
                Next::Keys(keys) => keys,
                Next::End => break,
                Next::Lost => return Ok(ROUND),
            };
            found += keys.len();
            for keys in keys.chunks(ENTRIES) {
                self.drain_some(run, keys, false).await?;
                run.worked(ENTRIES).await?;
                self.stay(run).await?;
            }
        }
        Ok(found)
    }

    /// Drains all entries of a table that nobody writes to.
    ///
    /// # Errors
    /// 1062 when the rows do not fit the unique indexes of the new table; a temporary one when
    /// nodes come and go for longer than [`PATIENCE`].
    pub(super) async fn drain_all(&mut self, run: &mut Run<'_>) -> Result<(), Stopped> {
        let began = run.session.kernel.now();
        loop {
            // First all go that may be in the way of others.
            if self.each_entry(run, Pass::Delete).await? {
                self.each_entry(run, Pass::Insert).await?;
                if self.is_drained(run).await? {
                    return Ok(());
                }
            }
            // Entries in doubt come back; a node that is gone takes a while to be removed.
            if run.session.kernel.now().since(began) >= PATIENCE {
                break;
            }
            run.session.kernel.sleep(PAUSE).await?;
        }
        let detail = format!(
            "the journal of {} could not be read to its end in {} s, for nodes that come and go: \
             try again",
            self.base.name,
            PATIENCE.as_millis() / 1_000
        );
        Err(Failure::Refused(Refusal::new(ErrorCode::ScanAborted, detail)).into())
    }

    /// Goes through all entries; false when that has to be done again, as a scan was lost.
    async fn each_entry(&mut self, run: &mut Run<'_>, pass: Pass) -> Result<bool, Stopped> {
        let mut entries = self.entries(run);
        loop {
            let keys = match next(run, &mut entries).await? {
                Next::Keys(keys) => keys,
                Next::End => return Ok(true),
                Next::Lost => return Ok(false),
            };
            for keys in keys.chunks(ENTRIES) {
                match pass {
                    Pass::Delete => self.delete_some(run, keys).await?,
                    Pass::Insert => self.drain_some(run, keys, true).await?,
                }
                self.stay(run).await?;
            }
        }
    }

    /// Whether no entry is left.
    async fn is_drained(&self, run: &Run<'_>) -> Result<bool, SqlError> {
        let first = ScanSpec { limit: Some(1), ..ScanSpec::heap(self.journal.id) };
        match run.session.kernel.scan(first).collect().await.map_err(SqlError::from) {
            Ok(entries) => Ok(entries.is_empty()),
            Err(error) if is_temporary(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn entries(&self, run: &Run<'_>) -> Scan {
        run.session.kernel.scan(ScanSpec::heap(self.journal.id))
    }

    async fn drain_some(
        &mut self,
        run: &mut Run<'_>,
        keys: &[Key],
        is_last: bool,
    ) -> Result<(), SqlError> {
        let kernel = run.session.kernel.beside();
        let mut attempts = Attempts::default();
        loop {
            let failure = match self.transaction(run, &kernel, keys, is_last).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            let error = match failure {
                Failed::Kernel(failure) => {
                    give_up(&kernel, &failure).await;
                    // Whatever came of it, it came of all; entries that are left are found again.
                    if matches!(failure, Failure::OutcomeUnknown(_)) || is_missing(&failure) {
                        return Ok(());
                    }
                    failure.into()
                }
                Failed::Row(error) => {
                    kernel.abort().await;
                    error
                }
            };
            attempts.again(&run.session.kernel, error).await?;
        }
    }

    /// Locks rows, puts them as they are into the new table, and deletes their entries.
    async fn transaction(
        &mut self,
        run: &mut Run<'_>,
        kernel: &Kernel,
        keys: &[Key],
        is_last: bool,
    ) -> Result<(), Failed> {
        let (mut known, mut rows) = (Vec::new(), Vec::new());
        for (key, row) in self.locked(kernel, keys, is_last).await? {
            if let Some(row) = row {
                run.context.row_number = self.copy.records + 1;
                rows.push((known.len(), self.copy.made(run, row).await.map_err(Failed::Row)?));
            }
            known.push(key);
        }
        if known.is_empty() {
            kernel.abort().await;
            return Ok(());
        }
        let removed = self.remove(kernel, &known).await?;
        let taken = self.insert(kernel, &rows, is_last).await?;
        let inserted = rows.len() - taken.len();
        let drained = known.into_iter().enumerate().filter(|(at, _)| !taken.contains(at));
        let entry = |(_, key): (usize, Key)| ClientOperation::delete(self.journal.id, key);
        match drained.map(entry).collect::<Vec<_>>() {
            none if none.is_empty() => kernel.commit().await.map(|_| ())?,
            deletes => kernel.execute_and_commit(deletes).await.map(|_| ())?,
        }
        self.copy.records = (self.copy.records + inserted as u64).saturating_sub(removed);
        Ok(())
    }

    /// The rows under these keys, locked; none where there is none. Those that are locked by others
    /// are left out, unless this is the last look.
    async fn locked(
        &self,
        kernel: &Kernel,
        keys: &[Key],
        is_last: bool,
    ) -> Result<Vec<(Key, Option<Vec<Value>>)>, Failed> {
        let (lock, projection) = (LockMode::Shared, Projection::All);
        let wait = if is_last { WaitPolicy::Wait } else { WaitPolicy::Refuse };
        let read = |key: &Key| {
            let (key, projection) = (key.clone(), projection.clone());
            let action = OperationAction::Read { key, lock, wait, projection, snapshot: None };
            ClientOperation { table: self.base.id, version: None, action }
        };
        let answers = kernel.execute(keys.iter().map(read).collect()).await?;
        let mut found = Vec::with_capacity(keys.len());
        for (key, answer) in keys.iter().zip(answers) {
            match answer {
                Ok(OperationAnswer::Row(row)) => {
                    let row = complete_locked(kernel, &self.base, row).await?;
                    found.push((key.clone(), Some(row)));
                }
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {
                    found.push((key.clone(), None));
                }
                Err(refusal) if refusal.code == ErrorCode::LockUnavailable => {}
                Err(refusal) => return Err(Failure::Refused(refusal).into()),
                Ok(OperationAnswer::Written(_)) => {
                    return Err(Failure::Refused(ErrorCode::Internal.into()).into());
                }
            }
        }
        Ok(found)
    }

    /// Deletes the rows of the new table that are there under these keys; how many were.
    async fn remove(&self, kernel: &Kernel, keys: &[Key]) -> Result<u64, Failure> {
        let new = self.copy.definition.table.id;
        let delete = |key: &Key| ClientOperation::delete(new, key.clone());
        let mut removed = 0;
        for answer in kernel.execute(keys.iter().map(delete).collect()).await? {
            match answer {
                Ok(_) => removed += 1,
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {}
                Err(refusal) => return Err(Failure::Refused(refusal)),
            }
        }
        Ok(removed)
    }

    /// Inserts rows into the new table, each with the place of its key; the places of those whose
    /// unique values others have, which wait until these have gone. None at the last look.
    async fn insert(
        &self,
        kernel: &Kernel,
        rows: &[(usize, Made)],
        is_last: bool,
    ) -> Result<Vec<usize>, Failed> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let table = &self.copy.definition.table;
        let insert = |(_, made): &(usize, Made)| {
            ClientOperation::insert(table.id, made.values.clone()).of_version(table.version)
        };
        let mut taken = Vec::new();
        let answers = kernel.execute(rows.iter().map(insert).collect()).await?;
        for ((at, made), answer) in rows.iter().zip(answers) {
            let Err(refusal) = answer else { continue };
            let failure = Failure::Refused(refusal.clone());
            if !is_violation(&failure) {
                return Err(failure.into());
            }
            if is_last {
                let error = batch::refused(&self.copy.maker, &refusal, &made.row);
                return Err(Failed::Row(error));
            }
            taken.push(*at);
        }
        Ok(taken)
    }

    /// Deletes the rows of the new table under these keys, in a transaction of its own.
    async fn delete_some(&mut self, run: &Run<'_>, keys: &[Key]) -> Result<(), SqlError> {
        let kernel = run.session.kernel.beside();
        let mut attempts = Attempts::default();
        loop {
            let removed = self.remove(&kernel, keys).await;
            let done = match removed {
                Ok(removed) => kernel.commit().await.map(|_| removed),
                Err(failure) => Err(failure),
            };
            let failure = match done {
                Ok(removed) => {
                    self.copy.records = self.copy.records.saturating_sub(removed);
                    return Ok(());
                }
                Err(failure) => failure,
            };
            give_up(&kernel, &failure).await;
            attempts.again(&kernel, failure.into()).await?;
        }
    }
}

/// What comes of a scan of the journal.
enum Next {
    /// Entries.
    Keys(Vec<Key>),
    /// That was all.
    End,
    /// It went with a node; another may be begun now.
    Lost,
}

async fn next(run: &Run<'_>, entries: &mut Scan) -> Result<Next, SqlError> {
    match entries.next().await.map_err(SqlError::from) {
        Ok(Some(keys)) => Ok(Next::Keys(keys)),
        Ok(None) => Ok(Next::End),
        Err(error) if is_temporary(&error) => {
            run.session.kernel.sleep(PAUSE).await?;
            Ok(Next::Lost)
        }
        Err(error) => Err(error),
    }
}

/// Why a transaction was not committed.
enum Failed {
    /// The kernel refused, or was told to end.
    Kernel(Failure),
    /// A row cannot be one of the new table.
    Row(SqlError),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Kernel(failure)
    }
}

/// Whether an entry was not there any more: a transaction of unknown outcome has committed.
fn is_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::Aborted(refusal) if refusal.code == ErrorCode::RowNotFound)
}
