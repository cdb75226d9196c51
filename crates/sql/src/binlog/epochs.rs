//! Reads epochs of a change stream, with what their tables were: what the binary log and change
//! feeds are made of.
//!
//! # Owns
//! A subscription, and the history of definitions by which its changes are read.
//! # Guarantees
//! What is given is on disk, where the cluster has disks: it does not vanish with a restart of the
//! whole cluster. Rows of tables that are gone by a change of definitions come before it.
//! # Limits
//! All epochs of a few answers of data nodes are in memory, at least one epoch.
//! # Not here
//! What becomes of the changes (`binlog::reader`, `changefeed::reader`).

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{Delivery, Subscription};
use model::{Epoch, StreamId, Table, TableId};
use sql_expression::SqlError;
use stdx::Duration;
use wire::RowChange;

use super::history::{History, Known};
use super::origin::Origins;
use super::table::{Parts, Unreadable};
use crate::definition_log::{self, LoggedStatement};
use crate::kernel::{Failure, Kernel};

/// The pause before it is looked whether there is more.
const PAUSE: Duration = Duration::from_millis(20);
/// Epochs that are asked for at a time.
const EPOCHS_PER_ANSWER: u64 = 1_000;

/// Why a stream cannot be read on.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The next epoch is not kept any more; this one is the first that may be.
    Purged(Epoch),
    /// A file is longer than four gigabytes.
    TooLong,
    /// A change cannot be read.
    Unreadable(String),
    /// Something else.
    Failed(SqlError),
}

impl From<Unreadable> for ReadError {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable.0)
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

/// A table, and what was changed in it.
pub(crate) type Changed<'c> = (Arc<Table>, Vec<&'c RowChange>);

/// Epochs that were delivered together.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// The newest one.
    pub(crate) through: Epoch,
    /// When it ended: microseconds since 1970 UTC; 0 if nobody knows.
    pub(crate) ended: u64,
    /// Those that have changes, ascending.
    pub(crate) epochs: Vec<OneEpoch>,
}

/// An epoch that has changes.
#[derive(Debug)]
pub(crate) struct OneEpoch {
    pub(crate) epoch: Epoch,
    /// When it ended: microseconds since 1970 UTC; 0 if nobody knows.
    pub(crate) ended: u64,
    pub(crate) changes: Vec<RowChange>,
}

/// What is in an epoch, in order.
#[derive(Debug)]
pub(crate) struct Contents<'c> {
    /// Parts of large values.
    pub(crate) parts: Parts,
    /// Who has made which transaction.
    pub(crate) origins: Origins,
    pub(crate) steps: Vec<Step<'c>>,
}

/// A step of an epoch.
#[derive(Debug)]
pub(crate) enum Step<'c> {
    /// Changes of rows.
    Rows(Vec<Changed<'c>>),
    /// A change of definitions.
    Definitions {
        statement: Option<LoggedStatement>,
        /// Rows have come in another way than by changes of rows.
        is_lossy: bool,
        /// Tables that are no more since.
        gone: Vec<Arc<Table>>,
    },
}

/// Reads a stream.
#[derive(Debug)]
pub(crate) struct EpochReader {
    kernel: Kernel,
    subscription: Subscription,
    history: History,
}

impl EpochReader {
    /// A reader of a stream behind an epoch. Nothing is asked for yet.
    pub(crate) fn new(kernel: &Kernel, stream: StreamId, delivered: Epoch) -> Self {
        let subscription = Subscription::new(stream, delivered);
        Self { kernel: kernel.beside(), subscription, history: History::default() }
    }

    /// All up to this epoch has been read.
    pub(crate) fn through(&self) -> Epoch {
        self.subscription.delivered()
    }

    /// Reads on; nothing where there was nothing: then it has waited a little.
    pub(crate) async fn read(&mut self) -> Result<Option<Delivered>, ReadError> {
        let mut fetches = self.subscription.fetches(&self.kernel.cluster());
        for (_, fetch) in &mut fetches {
            // Not more epochs than an answer says the ends of.
            fetch.through = Epoch(self.subscription.delivered().0 + EPOCHS_PER_ANSWER);
        }
        if fetches.is_empty() {
            self.kernel.sleep(PAUSE).await?;
            return Ok(None);
        }
        let answers = self.kernel.fetch_stream(fetches.clone()).await?;
        match self.subscription.take(&fetches, answers) {
            Delivery::Nothing => {
                self.kernel.sleep(PAUSE).await?;
                Ok(None)
            }
            Delivery::Broken { from } => Err(ReadError::Purged(from)),
            Delivery::Epochs { through, changes, ended } => {
                if self.kernel.has_disk() {
                    self.kernel.await_durable(through, false).await?;
                }
                self.note_records(&changes);
                self.history.refresh(&self.kernel).await?;
                let ended: BTreeMap<Epoch, u64> = ended.into_iter().collect();
                let ended_at = |epoch: Epoch| ended.get(&epoch).copied().unwrap_or(0);
                let one = |(epoch, changes)| OneEpoch { epoch, ended: ended_at(epoch), changes };
                let epochs = changes.into_iter().map(one).collect();
                Ok(Some(Delivered { through, ended: ended_at(through), epochs }))
            }
        }
    }

    /// Looks for records of changes of definitions.
    fn note_records(&mut self, changes: &[(Epoch, Vec<RowChange>)]) {
        let cluster = self.kernel.cluster();
        let Some(table) = cluster.table_named(definition_log::TABLE) else { return };
        let mut all = changes.iter().flat_map(|(_, changes)| changes);
        if all.any(|change| change.partition.table == table.id && change.before.is_none()) {
            self.history.note();
        }
    }

    /// What is in an epoch that was delivered last.
    pub(crate) async fn contents<'c>(
        &mut self,
        one: &'c OneEpoch,
    ) -> Result<Contents<'c>, ReadError> {
        let mut by_table: BTreeMap<TableId, Vec<&RowChange>> = BTreeMap::new();
        for change in &one.changes {
            by_table.entry(change.partition.table).or_default().push(change);
        }
        let mut parts = Parts::default();
        // Rows by the change of definitions that they come before.
        let mut groups: BTreeMap<Option<u64>, Vec<Changed<'_>>> = BTreeMap::new();
        for (id, changes) in by_table {
            let (known, gone_by) = self.history.table(&self.kernel, id, one.epoch).await?;
            match known {
                Known::Rows(table) => groups.entry(gone_by).or_default().push((table, changes)),
                Known::Parts(table) => {
                    changes.iter().try_for_each(|one| parts.add(&table, one))?;
                }
                Known::Nothing => {}
            }
        }
        let mut steps = Vec::new();
        for entry in self.history.changes_in(one.epoch) {
            steps.extend(groups.remove(&Some(entry.id)).map(Step::Rows));
            steps.push(Step::Definitions {
                statement: entry.record.statement.clone(),
                is_lossy: entry.record.is_lossy,
                gone: self.history.gone_by(entry),
            });
        }
        steps.extend(groups.into_values().map(Step::Rows));
        let origins = Origins::of(&self.kernel.cluster(), &one.changes);
        Ok(Contents { parts, origins, steps })
    }
}
