//! What tables were at an epoch.
//!
//! # Owns
//! The catalog and the records of its changes as they were read last, and the judgement of both.
//! # Guarantees
//! What is read includes the outcome of every change whose record is in the epochs that are judged
//! by it, and the catalog is not older than those changes.
//! # Not here
//! Records (`definition_log`).

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{ClusterState, ControlIndex, Epoch, Table, TableId};
use stdx::Duration;

use crate::definition_log::{self, Entry, Fate, catch_up, orphans};
use crate::kernel::{Failure, Kernel};

/// The pauses before records are read again of which one is open: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(160));
/// How often it is looked whether the writers of open records hold them.
const LOOK: Duration = Duration::from_millis(500);

/// What a table of changes was.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A table of users.
    Rows(Arc<Table>),
    /// Parts of large values.
    Parts(Arc<Table>),
    /// Nothing that the log has.
    Nothing,
}

/// What tables were.
#[derive(Debug, Default)]
pub(super) struct History {
    cluster: Arc<ClusterState>,
    entries: Vec<Entry>,
    read: Option<ControlIndex>,
    /// Tables that are no more, and were never users'.
    ignored: BTreeSet<TableId>,
}

impl History {
    /// A record was found: all are to be read again.
    pub(super) fn note(&mut self) {
        self.read = None;
    }

    /// Reads what there is, if it is not known already.
    pub(super) async fn refresh(&mut self, kernel: &Kernel) -> Result<(), Failure> {
        let (mut looked, mut pause) = (kernel.now(), PAUSES.0);
        loop {
            let cluster = kernel.cluster();
            if self.read == Some(cluster.index) {
                return Ok(());
            }
            let entries = definition_log::all(kernel).await?;
            let is_open = entries.iter().any(|entry| matches!(entry.fate, Fate::Open(_)));
            let newest = entries.iter().filter_map(|entry| match entry.fate {
                Fate::Made(_, index) => Some(index),
                _ => None,
            });
            if !is_open && newest.max().is_none_or(|index| index <= cluster.index.0) {
                self.read = Some(cluster.index);
                (self.cluster, self.entries) = (cluster, entries);
                return Ok(());
            }
            if kernel.now().since(looked) >= LOOK {
                looked = kernel.now();
                orphans::look(kernel, &entries).await?;
            }
            kernel.sleep(pause).await?;
            pause = (pause + pause).min(PAUSES.1);
        }
    }

    /// The changes that have their place in an epoch, in their order.
    pub(super) fn changes_in(&self, epoch: Epoch) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| place(entry) == Some(epoch)).collect()
    }

    /// What a table was at the end of an epoch, or before the last of its changes if it has gone
    /// in it: with the number of that change.
    pub(super) async fn table(
        &mut self,
        kernel: &Kernel,
        id: TableId,
        epoch: Epoch,
    ) -> Result<(Known, Option<u64>), Failure> {
        if self.ignored.contains(&id) {
            return Ok((Known::Nothing, None));
        }
        if let Some(known) = self.find(id, epoch) {
            return Ok(known);
        }
        // The catalog may be older than the rows.
        catch_up(kernel).await?;
        self.read = None;
        self.refresh(kernel).await?;
        let known = self.find(id, epoch);
        if known.is_none() {
            self.ignored.insert(id);
        }
        Ok(known.unwrap_or((Known::Nothing, None)))
    }

    /// The tables of before a change that are no more since.
    pub(super) fn gone_by(&self, by: &Entry) -> Vec<Arc<Table>> {
        let is_later = |entry: &&Entry| (place(entry), entry.id) > (place(by), by.id);
        let later = || self.entries.iter().filter(is_later).filter(|one| place(one).is_some());
        let is_there = |id: TableId| {
            let is_of = |entry: &Entry| entry.record.before.iter().any(|table| table.id == id);
            self.cluster.tables.get(&id).is_some() || later().any(is_of)
        };
        by.record.before.iter().filter(|table| !is_there(table.id)).cloned().collect()
    }

    fn find(&self, id: TableId, epoch: Epoch) -> Option<(Known, Option<u64>)> {
        let later = || self.entries.iter().filter(|entry| place(entry).is_some_and(|p| p > epoch));
        if later().any(|entry| entry.record.made.contains(&id)) {
            return Some((Known::Nothing, None));
        }
        let before = |entry: &Entry| entry.record.before.iter().find(|t| t.id == id).cloned();
        let changed_later = later()
            .filter(|entry| !entry.record.continues && before(entry).is_some())
            .min_by_key(|entry| (place(entry), entry.id));
        let table =
            changed_later.and_then(before).or_else(|| self.cluster.tables.get(&id).cloned());
        if let Some(table) = table {
            return Some((self.judge(table), None));
        }
        let gone = self.entries.iter().rev().find_map(|entry| {
            let place = place(entry).filter(|place| *place <= epoch)?;
            Some((before(entry)?, place, entry.id))
        });
        gone.map(|(table, place, number)| {
            if place == epoch {
                (self.judge(table), Some(number))
            } else {
                // Who wrote it did not know yet that the table has gone.
                (Known::Nothing, None)
            }
        })
    }

    fn judge(&self, table: Arc<Table>) -> Known {
        if let Some(base) = table.hidden_behind {
            let is_of = |base: &Table| base.large.as_ref().is_some_and(|l| l.parts == table.id);
            let mut known = self.entries.iter().flat_map(|entry| &entry.record.before);
            let in_catalog = self.cluster.tables.get(&base).is_some_and(|base| is_of(base));
            let is_parts = in_catalog || known.any(|one| one.id == base && is_of(one));
            return if is_parts { Known::Parts(table) } else { Known::Nothing };
        }
        if definition_log::is_seen(&table.name) { Known::Rows(table) } else { Known::Nothing }
    }
}

fn place(entry: &Entry) -> Option<Epoch> {
    match entry.fate {
        Fate::Made(place, _) => Some(place),
        _ => None,
    }
}
