//! Open records whose writers are dead.
//!
//! # Owns
//! Which open records nobody holds and since when, for all readers of a worker.
//! # Guarantees
//! Readers wait for all open records together, and a reader that begins later goes on with what the
//! readers before it have found. So the death of an SQL node holds readers up for [`GRACE`] once,
//! however many records it has left and however many readers come.
//!
//! How long a record has been free decides only when it is settled. How it is settled follows from
//! its mark, behind a fence that keeps its change out from then on.
//! # Not here
//! Records, marks and fences (`definition_log`); when readers look (`binlog::history`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use client::{ClientOperation, OperationAction};
use model::{ErrorCode, Value};
use stdx::Instant;
use wire::{LockMode, Projection, WaitPolicy};

use super::{Entry, Fate, GRACE, OUTCOME, records, resolve};
use crate::kernel::{Failure, Kernel};

/// Records that are asked for at a time.
const ASKED_MAX: usize = 64;

/// The open records that nobody holds, and since when.
#[derive(Debug, Default)]
pub(crate) struct Orphans(RefCell<BTreeMap<u64, Instant>>);

impl Orphans {
    /// Takes note of whether a record is free; whether it has been for so long that its writer is
    /// taken to be dead.
    fn see(&self, id: u64, is_free: bool, now: Instant) -> bool {
        let mut free = self.0.borrow_mut();
        if is_free {
            now.since(*free.entry(id).or_insert(now)) >= GRACE
        } else {
            free.remove(&id);
            false
        }
    }

    /// Forgets records that are settled.
    fn keep(&self, is_open: impl Fn(u64) -> bool) {
        self.0.borrow_mut().retain(|id, _| is_open(*id));
    }
}

/// Looks at the open ones of all records, and settles those whose writers are dead.
pub(crate) async fn look(kernel: &Kernel, entries: &[Entry]) -> Result<(), Failure> {
    let open: Vec<&Entry> =
        entries.iter().filter(|entry| matches!(entry.fate, Fate::Open(_))).collect();
    let orphans = kernel.orphans();
    orphans.keep(|id| open.iter().any(|entry| entry.id == id));
    let mut dead = Vec::new();
    for asked in open.chunks(ASKED_MAX) {
        let held = held(kernel, asked).await?;
        let cluster = kernel.cluster();
        for (entry, is_held) in asked.iter().zip(held) {
            // What is not known changes nothing of what is.
            let Some(is_held) = is_held else { continue };
            let is_free = !is_held && !entry.record.is_under_way_in(&cluster);
            if orphans.see(entry.id, is_free, kernel.now()) {
                dead.push(*entry);
            }
        }
    }
    resolve(kernel, &dead).await
}

/// Whether the writers of records hold them, where that is known. Readers that ask at the same time
/// do not take one another for writers: they lock what others may lock as they do.
async fn held(kernel: &Kernel, asked: &[&Entry]) -> Result<Vec<Option<bool>>, Failure> {
    let table = records(kernel).await?;
    let question = |entry: &&Entry| {
        let action = OperationAction::Read {
            key: vec![Value::UInt(entry.id), Value::UInt(OUTCOME)],
            lock: LockMode::Shared,
            wait: WaitPolicy::Refuse,
            projection: Projection::Nothing,
            snapshot: None,
        };
        ClientOperation { table, version: None, action }
    };
    let beside = kernel.beside();
    let answers = beside.execute(asked.iter().map(question).collect()).await;
    beside.abort().await;
    let said = |answer: &Result<_, model::Refusal>| match answer {
        Ok(_) => Some(false),
        // Who has forgotten the record does not hold it.
        Err(refusal) if refusal.code == ErrorCode::RowNotFound => Some(false),
        Err(refusal) if refusal.code == ErrorCode::LockUnavailable => Some(true),
        Err(_) => None,
    };
    Ok(answers?.iter().map(said).collect())
}

#[cfg(test)]
mod tests {
    use model::{Epoch, SchemaChange};
    use stdx::Duration;

    use super::super::{Record, all, with_mark, write};
    use super::*;
    use crate::catalog::harness::Harness;

    /// A record whose change is made, or not, and whose writer says nothing more.
    fn leave(harness: &mut Harness, name: &str, is_made: bool) -> u64 {
        let record = Record { names: vec![name.to_owned()], is_marked: true, ..Record::default() };
        let name = name.to_owned();
        harness.wait(async move |session| {
            let kernel = &session.kernel;
            let log = records(kernel).await.unwrap();
            let table = kernel.cluster().tables[&log].clone();
            let id = write(kernel, &record).await.unwrap().id;
            if is_made {
                let change = SchemaChange::CreateDatabase { name, description: Default::default() };
                kernel.change_schema(with_mark(change, &table, id)).await.unwrap();
            }
            id
        })
    }

    fn look_at(harness: &mut Harness, seconds: u64) -> Vec<(u64, Fate)> {
        let now = Instant::ZERO + Duration::from_secs(seconds);
        harness.world.exchange.borrow_mut().now = now;
        harness.wait(async |session| {
            let entries = all(&session.kernel).await.unwrap();
            look(&session.kernel, &entries).await.unwrap();
            let entries = all(&session.kernel).await.unwrap();
            entries.iter().map(|entry| (entry.id, entry.fate)).collect()
        })
    }

    fn fate(fates: &[(u64, Fate)], id: u64) -> Fate {
        fates.iter().find(|(of, _)| *of == id).expect("it is there").1
    }

    fn fences(harness: &Harness) -> usize {
        let is_fence = |change: &&SchemaChange| matches!(change, SchemaChange::Describe { .. });
        harness.world.changes.iter().filter(is_fence).count()
    }

    #[test]
    fn all_records_of_the_dead_are_waited_for_together_and_once() {
        let mut harness = Harness::new();
        let left: Vec<(u64, bool)> = (0..70)
            .map(|at| (leave(&mut harness, &format!("left_{at}"), at % 3 == 0), at % 3 == 0))
            .collect();
        let open = |fates: &[(u64, Fate)]| {
            fates.iter().filter(|(_, fate)| matches!(fate, Fate::Open(_))).count()
        };
        assert_eq!(open(&look_at(&mut harness, 100)), left.len());
        // The reader that has looked first may be gone by now: this one knows what it has found.
        assert_eq!(open(&look_at(&mut harness, 109)), left.len());
        let fates = look_at(&mut harness, 110);
        for (id, is_made) in left {
            match fate(&fates, id) {
                Fate::Made(place, _) => assert!(is_made && place == Epoch(1), "{id}: {place:?}"),
                other => assert_eq!((other, is_made), (Fate::Failed, false), "{id}"),
            }
        }
        assert_eq!(fences(&harness), 1, "one fence stands for all");
        look_at(&mut harness, 111);
        assert_eq!(fences(&harness), 1, "nothing is left to be settled");
    }

    #[test]
    fn a_record_that_is_held_is_left_alone_and_its_time_begins_when_it_is_free() {
        let mut harness = Harness::new();
        let [free, held] = ["free", "held"].map(|name| leave(&mut harness, name, false));
        let log = harness.table(super::super::TABLE).id;
        let lock = (log, vec![Value::UInt(held), Value::UInt(OUTCOME)]);
        look_at(&mut harness, 10);
        harness.world.locked.push(lock);
        look_at(&mut harness, 15);
        let fates = look_at(&mut harness, 20);
        assert_eq!(fate(&fates, free), Fate::Failed);
        assert!(matches!(fate(&fates, held), Fate::Open(_)));
        harness.world.locked.clear();
        assert!(matches!(fate(&look_at(&mut harness, 21), held), Fate::Open(_)));
        assert!(matches!(fate(&look_at(&mut harness, 30), held), Fate::Open(_)));
        assert_eq!(fate(&look_at(&mut harness, 31), held), Fate::Failed);
    }
}
