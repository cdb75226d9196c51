//! Copying a table while it is written to.
//!
//! 1. The table gets a journal: from then on each change of a row leaves the row's primary key
//!    there, in the same transaction. A snapshot is the barrier: what was committed without an
//!    entry is in every row that is read after it.
//! 2. All rows are read and put into the new table. Of those that change meanwhile an older state
//!    may be copied, or none: they are in the journal.
//! 3. The journal is drained, again and again, until little is in it (`drain`).
//! 4. Writers are kept out. After another barrier the rest is drained, and the new table put in the
//!    old one's place. Where nodes have disks, most of it was saved before that.
//!
//! Rows keep their primary keys, so an entry names the row of either table.
//!
//! # Owns
//! When a table can be copied so, and the order of the steps.
//! # Guarantees
//! Writers wait as long as step 4 takes. Nobody else's change of the definition is lost: the last
//! commands name the version that they expect.
//! # Failure
//! A scan that is lost with a node begins anew; the claim is renewed. A restart of the cluster as a
//! whole, which may undo what was copied, ends the statement.
//! # Not here
//! What an entry does (`drain`), keeping the journal (`datanode::coordinator`).

use std::collections::BTreeSet;
use std::sync::Arc;

use client::{ClientOperation, OperationAnswer, ScanSpec};
use model::{ErrorCode, SchemaChange, Table, Value};
use sql_expression::SqlError;
use stdx::{Duration, Instant};
use wire::{Effect, WaitPolicy};

use super::super::altered::Altered;
use super::super::change::{is_computed_alike, is_value_kept, same_primary_key};
use super::super::foreign_key;
use super::super::step::request;
use super::drain::ROUND;
use super::rows::{Copy, Made};
use super::{
    Attempts, BATCH, BATCH_BYTES, CLAIMS, Life, PATIENCE, PAUSE, Stopped, barrier, copy_to, ended,
    hidden_name, outcome, put_in_place, reader_of,
};
use crate::access::Values;
use crate::catalog::names::TableName;
use crate::catalog::{KeyDefinition, KeyKind, kernel_form};
use crate::execute::reference::batch;
use crate::execute::run::Run;
use crate::kernel::{Failure, Kernel, Rejected};
use crate::large::size_of;
use crate::result::Outcome;
use crate::session::Session;

/// How often the claim is renewed.
const RENEWAL: Duration = Duration::from_secs(3);
/// A round of draining that found so few entries is followed by the last one.
const FEW: usize = 512;
/// As many rounds are made, whatever they find: writers may be faster.
const ROUNDS_MAX: u32 = 30;

/// Whether a table can be altered so: its rows keep their primary keys, and no foreign key joins it
/// to others.
pub(super) fn is_possible(session: &Session, name: &TableName, altered: &Altered) -> bool {
    let Altered { old, new, origins, .. } = altered;
    let primary = |key: &&KeyDefinition| key.kind == KeyKind::Primary;
    let kept = |key: &KeyDefinition| {
        key.columns.iter().all(|part| {
            let after = &new.columns[part.decides];
            let before = origins[part.decides].map(|at| &old.columns[at]);
            before.is_some_and(|before| {
                is_value_kept(before, after)
                    && is_computed_alike(before, after)
                    && !before.is_computed()
                    && before.nullable == after.nullable
            })
        })
    };
    let keeps_key = same_primary_key(altered)
        && old.keys.iter().filter(primary).all(is_plain)
        && new.keys.iter().filter(primary).all(|key| is_plain(key) && kept(key));
    let numbers = new.columns.iter().zip(origins).all(|(column, origin)| {
        !column.auto_increment || origin.is_some_and(|at| old.columns[at].auto_increment)
    });
    let joined = !old.foreign_keys.is_empty()
        || foreign_key::link(session, &altered.planned(name, true))
            .map_or(true, |linked| linked.joins_others());
    !old.is_temporary() && keeps_key && numbers && !joined
}

/// Whether a key is over whole columns.
fn is_plain(key: &KeyDefinition) -> bool {
    key.columns.iter().all(|part| part.prefix_length.is_none() && part.decides == part.declared)
}

/// Copies the table and puts the copy in its place, by whoever holds the claim.
pub(super) async fn run(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, SqlError> {
    let result = steps(session, name, altered).await;
    ended(session, name, altered.old.table.id, result).await
}

async fn steps(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, Stopped> {
    let (old, known) = (&altered.old.table, altered.old.table.version);
    let life = Life::of(session);
    let keep = SchemaChange::KeepJournal { table: old.id, kept: true };
    if let Err(failure) = request(session, expecting(old, known, keep)).await {
        return Err(Stopped::NotOurs(failure.into()));
    }
    let hidden = hidden_name(&name.database, old.id);
    let create = kernel_form::create(&hidden, &name.name, &altered.new);
    let new = request(session, create).await?;
    barrier(session).await?;
    let copy = copy_to(session, name, altered, new)?;
    let mut run = Run::new(session, &[]);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    let mut work = Online::new(&run, copy)?;
    let copied = work.copy_all(&mut run, life).await;
    let warnings = run.context.warnings.count;
    run.finish();
    copied?;
    let replace = SchemaChange::ReplaceTable { old: old.id, new };
    put_in_place(session, expecting(old, known + 2, replace)).await?;
    Ok(outcome(&work.copy, warnings))
}

/// A change that is made if the table has this version.
fn expecting(table: &Table, version: u32, change: SchemaChange) -> SchemaChange {
    let expected = vec![(table.name.clone(), Some((table.id, version)))];
    SchemaChange::Together { expected, changes: vec![change] }
}

/// A copy under way, of a table that is written to.
pub(super) struct Online<'a> {
    pub(super) copy: Copy<'a>,
    /// The old table, with its journal.
    pub(super) base: Arc<Table>,
    pub(super) journal: Arc<Table>,
    renewed: Instant,
    /// Keys of rows that could not be put into the new table, encoded.
    aside: BTreeSet<Vec<u8>>,
}

impl<'a> Online<'a> {
    fn new(run: &Run<'_>, mut copy: Copy<'a>) -> Result<Self, SqlError> {
        let cluster = run.session.kernel.cluster();
        let base = cluster.tables.get(&copy.altered.old.table.id).cloned();
        let journal = base.as_ref().and_then(|base| cluster.tables.get(&base.journal?)).cloned();
        let (Some(base), Some(journal)) = (base, journal) else { return Err(changed()) };
        copy.keeps_keys = true;
        let renewed = run.session.kernel.now();
        Ok(Self { copy, base, journal, renewed, aside: BTreeSet::new() })
    }

    /// Everything between the first barrier and the last command.
    async fn copy_all(&mut self, run: &mut Run<'_>, life: Life) -> Result<(), Stopped> {
        self.fill(run).await?;
        let saves = run.session.kernel.has_disk();
        self.catch_up(run).await?;
        if saves {
            run.session.kernel.save_all().await?;
            self.drain(run).await?;
        }
        self.stay(run).await?;
        let block = SchemaChange::BlockWrites { table: self.base.id, blocked: true };
        request(run.session, expecting(&self.base, self.base.version, block)).await?;
        barrier(run.session).await?;
        self.drain_all(run).await?;
        self.copy.carry_sequence(run.session).await?;
        if saves {
            run.session.kernel.save_all().await?;
        }
        Ok(life.check(run.session)?)
    }

    /// Drains the journal until little is found in it, or writers are faster.
    async fn catch_up(&mut self, run: &mut Run<'_>) -> Result<(), Stopped> {
        let (mut rounds, mut drained) = (0, 0);
        loop {
            let found = self.drain(run).await?;
            drained += found as u64;
            // One that did not come to the end says nothing of how much is there.
            rounds += u32::from(found < ROUND);
            let most = ROUND as u64 + self.copy.records.saturating_mul(4);
            if found <= FEW || rounds >= ROUNDS_MAX || drained >= most {
                return Ok(());
            }
        }
    }

    /// Makes sure now and then that the claim is held still, and that nobody has changed anything.
    pub(super) async fn stay(&mut self, run: &Run<'_>) -> Result<(), Stopped> {
        let kernel = &run.session.kernel;
        let now = kernel.now();
        if now.since(self.renewed) < RENEWAL {
            return Ok(());
        }
        let table = u64::from(self.base.id.0);
        while let Err(failure) = CLAIMS.hold(kernel, table, WaitPolicy::Refuse).await {
            if let Failure::Interrupted(_) = failure {
                return Err(failure.into());
            }
            // The transaction that held it is gone, and this was told of it; or somebody looks
            // whether it is free; or a node that is silent holds it still.
            kernel.abort().await;
            if kernel.now().since(now) >= PATIENCE {
                return Err(Stopped::NotOurs(failure.into()));
            }
            kernel.sleep(PAUSE).await?;
        }
        self.renewed = kernel.now();
        let cluster = kernel.cluster();
        let same = |table: &Arc<Table>| {
            cluster.tables.get(&table.id).is_some_and(|known| known.version == table.version)
        };
        if same(&self.base) && same(&self.copy.definition.table) {
            Ok(())
        } else {
            Err(changed().into())
        }
    }

    /// Puts all rows into the new table. A scan that is lost begins anew.
    async fn fill(&mut self, run: &mut Run<'_>) -> Result<(), Stopped> {
        let (mut attempts, mut is_first) = (Attempts::default(), true);
        loop {
            match self.scan(run, is_first).await {
                Err(Stopped::Failed(error)) => attempts.again(&run.session.kernel, error).await?,
                result => return result,
            }
            // Entries tell no more which rows were put aside.
            self.aside.clear();
            is_first = false;
        }
    }

    async fn scan(&mut self, run: &mut Run<'_>, is_first: bool) -> Result<(), Stopped> {
        let mut scan = run.session.kernel.scan(ScanSpec::heap(self.base.id));
        let reader = reader_of(run, &self.base);
        let references = reader.references();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(rows) = scan.next().await? {
            for row in rows {
                bytes += references.map_or(0, |at| size_of(&row[at]));
                // One that has gone meanwhile, or cannot be read whole, has left an entry.
                let completed = reader.complete(vec![row]).await?.into_iter().next();
                let Some(row) = completed.and_then(|row| row.values) else { continue };
                run.context.row_number = self.copy.records + batch.len() as u64 + 1;
                batch.push(self.copy.made(run, row).await?);
                run.worked_to_write().await?;
                if batch.len() >= run.portion(BATCH) || bytes >= BATCH_BYTES {
                    self.put(run, std::mem::take(&mut batch), is_first).await?;
                    bytes = 0;
                }
            }
            run.worked(BATCH).await?;
            self.stay(run).await?;
        }
        self.put(run, batch, is_first).await.map_err(Stopped::from)
    }

    /// Puts rows into the new table; those whose places are taken are put aside.
    async fn put(
        &mut self,
        run: &mut Run<'_>,
        mut batch: Vec<Made>,
        mut is_first: bool,
    ) -> Result<(), SqlError> {
        let mut attempts = Attempts::default();
        while !batch.is_empty() {
            match self.write(run, &batch, is_first).await {
                Ok(()) => return Ok(()),
                Err(Rejected { at: Some(at), failure }) if is_violation(&failure) => {
                    let made = batch.remove(at);
                    self.put_aside(run, &made, failure).await?;
                }
                // It was deleted behind the scan and inserted anew before it: what is there now is
                // in the journal.
                Err(Rejected { at: Some(at), failure }) if is_there(&failure) => {
                    batch.remove(at);
                }
                Err(Rejected { failure, .. }) => {
                    attempts.again(&run.session.kernel, failure.into()).await?;
                    // Some of them may be there.
                    is_first = false;
                }
            }
        }
        Ok(())
    }

    /// One transaction, which is over afterwards.
    async fn write(
        &mut self,
        run: &Run<'_>,
        batch: &[Made],
        is_first: bool,
    ) -> Result<(), Rejected> {
        let kernel = run.session.kernel.beside();
        let table = &self.copy.definition.table;
        let write = |made: &Made| {
            if is_first {
                ClientOperation::insert(table.id, made.values.clone())
            } else {
                ClientOperation::upsert(table.id, made.values.clone())
            }
        };
        let operations = batch.iter().map(|made| write(made).of_version(table.version)).collect();
        match kernel.execute_all(operations, true).await {
            Ok(answers) => {
                let new = |answer: &&OperationAnswer| {
                    matches!(answer, OperationAnswer::Written(Effect::Created))
                };
                self.copy.records += answers.iter().filter(new).count() as u64;
                Ok(())
            }
            Err(rejected) => {
                give_up(&kernel, &rejected.failure).await;
                Err(rejected)
            }
        }
    }

    /// A unique index of the new table has an entry of another row already. That row has changed
    /// since it was copied, if any row has: then the one at hand waits in the journal for its turn.
    ///
    /// # Errors
    /// 1062 when no row has changed: these two are as they were read.
    async fn put_aside(
        &mut self,
        run: &mut Run<'_>,
        made: &Made,
        failure: Failure,
    ) -> Result<(), SqlError> {
        let kernel = run.session.kernel.beside();
        let (Failure::Refused(refusal) | Failure::Aborted(refusal)) = &failure else {
            return Err(failure.into());
        };
        if !self.has_others(&kernel).await? {
            // Where a replica has the row already, another may still be about to have its entry.
            barrier(run.session).await?;
            if !self.has_others(&kernel).await? {
                return Err(batch::refused(&self.copy.maker, refusal, &made.row));
            }
        }
        let key = self.copy.maker.primary_key(&made.values);
        self.aside.extend(self.encoded(&key));
        let entry = ClientOperation::upsert(self.journal.id, key);
        let mut attempts = Attempts::default();
        while let Err(failure) = kernel.execute_and_commit(vec![entry.clone()]).await {
            attempts.again(&kernel, failure.into()).await?;
        }
        Ok(())
    }

    /// Whether the journal names rows besides those that were put aside.
    async fn has_others(&self, kernel: &Kernel) -> Result<bool, Failure> {
        let limit = Some(self.aside.len() as u64 + 1);
        let entries = ScanSpec { limit, ..ScanSpec::heap(self.journal.id) };
        let entries = kernel.scan(entries).collect().await?;
        let other = |key: &Values| self.encoded(key).is_none_or(|key| !self.aside.contains(&key));
        Ok(entries.iter().any(other))
    }

    fn encoded(&self, key: &[Value]) -> Option<Vec<u8>> {
        self.journal.primary_key_of(key).map(|key| key.0.to_vec())
    }
}

/// Ends a transaction that was refused. One that was interrupted may have a request under way.
pub(super) async fn give_up(kernel: &Kernel, failure: &Failure) {
    match failure {
        Failure::Interrupted(_) => kernel.abandon(),
        _ => kernel.abort().await,
    }
}

/// Whether an operation was refused by a unique index, or a row of its key.
pub(super) fn is_violation(failure: &Failure) -> bool {
    let (Failure::Refused(refusal) | Failure::Aborted(refusal)) = failure else { return false };
    refusal.code == ErrorCode::UniqueViolation
}

/// Whether an operation was refused because its row is there.
fn is_there(failure: &Failure) -> bool {
    let (Failure::Refused(refusal) | Failure::Aborted(refusal)) = failure else { return false };
    refusal.code == ErrorCode::RowExists
}

fn changed() -> SqlError {
    Failure::Refused(ErrorCode::SchemaChanged.into()).into()
}
