//! One session that copies tables which others are writing to, with the help of their journals.
//!
//! A copy is made as the SQL layer makes it: the journal begins, a snapshot is the barrier, all
//! rows are copied, and then entries are drained: their rows are locked, copied again, and the
//! entries deleted, in one transaction.
//!
//! Judged by: in every snapshot after all rows were copied, table and copy have the same row under
//! every key that is not in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, ScanSpec};
use model::{ErrorCode, Refusal, SchemaChange, Table, TableId, Value};
use wire::LockMode;

use super::{judged, passing, scan_snapshot};
use crate::lab::Lab;
use crate::session::{Ended, Session};

/// The tables that are copied, each by the name of the workload that writes it; their keys are
/// their first columns. The one that is written in most ways comes most often.
const COPIED: [&str; 4] = ["names", "names", "counters", "bank"];
/// Rows copied in one transaction.
const ROWS: usize = 8;
/// Entries drained in one transaction.
const ENTRIES: usize = 3;
/// How often a batch of rows is written that is refused for the moment.
const ATTEMPTS: u32 = 10;

/// A copy under way.
struct Copy {
    base: TableId,
    journal: TableId,
    copy: TableId,
    /// Restarts of the whole cluster before it began: a later one may have undone some of it.
    generation: usize,
}

/// One copy from its beginning to its end.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    session.pause(60).await;
    let name = COPIED[session.below(COPIED.len() as u64) as usize];
    let base = lab.table(name);
    let copy = format!("sim.copy_of_{name}");
    // What an earlier round, or life, has left.
    tidy_up(session, base, &copy).await?;
    let generation = session.generation();
    keep_journal(session, base, true).await?;
    let Some(definition) = session.definition(base) else { return Ok(()) };
    let Some(journal) = definition.journal else { return Ok(()) };
    let form = create(&copy, &definition);
    let made = session.schema(form).await?;
    let work = Copy { base, journal, copy: made, generation };
    let done = work.run(session).await;
    tidy_up(session, base, &copy).await?;
    done
}

fn create(name: &str, of: &Table) -> SchemaChange {
    testing::table(name).columns(of.columns.clone()).create()
}

/// Ends the journal of a table, and drops its copy.
async fn tidy_up(session: &Session, base: TableId, copy: &str) -> Result<(), Refusal> {
    if let Some(copy) = session.table(copy) {
        match session.schema(SchemaChange::DropTable { table: copy.id }).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == ErrorCode::UnknownTable => {}
            Err(refusal) => return passing(Some(refusal)),
        }
    }
    if session.definition(base).is_some_and(|table| table.journal.is_some()) {
        keep_journal(session, base, false).await
    } else {
        Ok(())
    }
}

/// Begins a journal or ends it, of the definition that the session knows: what an earlier life has
/// asked for may come after what this one asks for.
async fn keep_journal(session: &Session, base: TableId, kept: bool) -> Result<(), Refusal> {
    let Some(table) = session.definition(base) else { return Ok(()) };
    let expected = vec![(table.name.clone(), Some((table.id, table.version)))];
    let changes = vec![SchemaChange::KeepJournal { table: base, kept }];
    session.schema(SchemaChange::Together { expected, changes }).await.map(|_| ())
}

impl Copy {
    async fn run(&self, session: &Session) -> Result<(), Refusal> {
        // All that was committed without an entry is in every row that is read afterwards.
        let barrier = session.open_snapshot().await?;
        session.close_snapshot(barrier).await;
        let rows = session.scan(ScanSpec::heap(self.base)).await?;
        for rows in rows.chunks(ROWS) {
            let upsert = |row: &Vec<Value>| ClientOperation::upsert(self.copy, row.clone());
            self.write(session, rows.iter().map(upsert).collect()).await?;
        }
        for _ in 0..session.draw(|prng| prng.between(2, 5)) {
            session.pause(40).await;
            if session.percent(60) {
                self.drain(session).await?;
            }
            self.check(session).await?;
        }
        Ok(())
    }

    /// Writes rows that were read without a lock; when nobody can say whether they are there, they
    /// may still come after others.
    async fn write(
        &self,
        session: &Session,
        operations: Vec<ClientOperation>,
    ) -> Result<(), Refusal> {
        let mut attempt = 0;
        loop {
            match session.autocommit(operations.clone()).await {
                Ended::Committed(..) => return Ok(()),
                Ended::Unknown => return Err(ErrorCode::OutcomeUnknown.into()),
                Ended::Aborted(refusal) if attempt == ATTEMPTS => return passing(refusal),
                Ended::Aborted(_) => attempt += 1,
            }
            session.pause(20).await;
        }
    }

    /// Copies the rows of all entries again. Those that cannot be locked now stay for later.
    async fn drain(&self, session: &Session) -> Result<(), Refusal> {
        let entries = session.scan(ScanSpec::heap(self.journal)).await?;
        for keys in entries.chunks(ENTRIES) {
            match self.drained(session, keys).await {
                Ok(()) => {}
                Err(refusal) => drop(passing(Some(refusal))),
            }
        }
        Ok(())
    }

    async fn drained(&self, session: &Session, keys: &[Vec<Value>]) -> Result<(), Refusal> {
        let read = |key: &Vec<Value>| {
            ClientOperation::read_locked(self.base, key.clone(), LockMode::Shared)
        };
        let read = session.run(keys.iter().map(read).collect()).await?;
        let mut operations = Vec::new();
        for (key, answer) in keys.iter().zip(read) {
            operations.push(match answer {
                Ok(client::OperationAnswer::Row(row)) => ClientOperation::upsert(self.copy, row),
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {
                    ClientOperation::delete(self.copy, key.clone())
                }
                Ok(other) => panic!("a read was answered with {other:?}"),
                Err(refusal) => {
                    session.abort().await;
                    return Err(refusal);
                }
            });
            operations.push(ClientOperation::delete(self.journal, key.clone()));
        }
        for answer in session.run(operations).await? {
            match answer {
                Ok(_) => {}
                // It was never copied; or the entry is gone, by a transaction of unknown outcome.
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {}
                Err(refusal) => {
                    session.abort().await;
                    return Err(refusal);
                }
            }
        }
        // Whatever came of it, it came of all.
        judged(session.commit().await)
    }

    /// Compares table and copy in a snapshot.
    async fn check(&self, session: &Session) -> Result<(), Refusal> {
        let specs = [self.base, self.copy, self.journal].map(ScanSpec::heap);
        let (epoch, [base, copy, journal]) = scan_snapshot(session, specs).await?;
        if session.generation() != self.generation {
            return Ok(());
        }
        let entries: BTreeSet<String> = journal.iter().map(|row| row[0].to_string()).collect();
        let by_key = |rows: Vec<Vec<Value>>| -> BTreeMap<String, Vec<Value>> {
            rows.into_iter().map(|row| (row[0].to_string(), row)).collect()
        };
        let (base, copy) = (by_key(base), by_key(copy));
        for key in base.keys().chain(copy.keys()).filter(|key| !entries.contains(*key)) {
            assert_eq!(
                base.get(key),
                copy.get(key),
                "snapshot {epoch}: {key} was changed without an entry in the journal of {}",
                self.name(session)
            );
        }
        Ok(())
    }

    fn name(&self, session: &Session) -> String {
        let known: Option<Arc<Table>> = session.definition(self.base);
        known.map_or_else(|| self.base.to_string(), |table| table.name.clone())
    }
}
