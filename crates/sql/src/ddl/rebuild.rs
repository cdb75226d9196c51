//! Altering a table by copying its rows to another one that takes its place.
//!
//! The new table is hidden under a name made of the old one's identity, filled in short
//! transactions, and then put in its place by one command. Where nodes have disks, the rows are on
//! them before: a restart of the whole cluster must not find the new table without them. Readers go
//! on meanwhile; so do writers where the copy can be made up to what they change (`online`), and
//! are kept out otherwise.
//!
//! # Owns
//! Which of the two it is, the copy that keeps writers out, and the claim: a row in a kernel table
//! of ours, locked as long as the copy goes on.
//! # Guarantees
//! A copy that fails leaves the old table as it was. One whose process died holds no claim any
//! more: who next wants to write, or finds its journal (`leftovers`), undoes what it left.
//! # Not here
//! What rows become (`rows`), making values fit (`execute::row`).

mod drain;
pub(super) mod leftovers;
mod online;
mod rows;

use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, ScanSpec};
use model::{ErrorCode, SchemaChange, Table, TableId};
use sql_expression::SqlError;
use sql_parser::ast::AlterLock;
use stdx::{Duration, Instant};
use wire::{Projection, WaitPolicy};

use self::rows::{Copy, Made};
use super::altered::Altered;
use super::foreign_key;
use super::step::{refused, request};
use crate::access::{ReadMode, Reader, Values};
use crate::catalog::names::{TableName, copy_name, shown_name};
use crate::catalog::{TableDefinition, kernel_form};
use crate::claim::ALTERATIONS as CLAIMS;
use crate::error::is_temporary;
use crate::error::of_refusal;
use crate::execute::reference::batch::Batch;
use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::kernel::{Failure, Kernel};
use crate::large::size_of;
use crate::logical::binder::QueryBinder;
use crate::result::Outcome;
use crate::session::Session;
use crate::statistics::store;

/// Rows copied in one transaction.
const BATCH: usize = 256;
/// Bytes of large values after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;
/// How often something is tried at least that meets failing nodes, or locks.
const ATTEMPTS_MAX: u32 = 20;
/// For how long it is tried at least: longer than it takes to remove a node that is silent, and
/// than its transactions take to be settled.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a batch is tried again, and between two looks at a table that is being copied.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether writers may go on while the table is rebuilt as altered.
pub(super) fn is_online(session: &Session, name: &TableName, altered: &Altered) -> bool {
    keeps_journals(session) && online::is_possible(session, name, altered)
}

/// Whether all nodes know journals.
pub(super) fn keeps_journals(session: &Session) -> bool {
    session.kernel.all_know(SchemaChange::KeepJournal { table: TableId(0), kept: true }.since())
}

/// Rebuilds a table as altered. With a `lock` of SHARED or EXCLUSIVE writers are kept out.
pub(super) async fn run(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
    lock: Option<AlterLock>,
) -> Result<Outcome, SqlError> {
    let old = altered.old.table.id;
    // Others who alter the table hold what MySQL calls a metadata lock.
    let patience = Duration::from_secs(session.variables.lock_wait_timeout);
    session.kernel.limit_lock_waits(patience);
    CLAIMS.hold(&session.kernel, old.0.into(), WaitPolicy::Wait).await?;
    let locked = matches!(lock, Some(AlterLock::Shared | AlterLock::Exclusive));
    let result = match undo(&session.kernel, old, &name.database).await {
        Ok(()) if !locked && is_online(session, name, altered) => {
            online::run(session, name, altered).await
        }
        Ok(()) => keeping_writers_out(session, name, altered).await,
        Err(error) => Err(error),
    };
    // The transaction only held the claim.
    session.rollback().await;
    result
}

/// The copy, by whoever holds the claim.
async fn keeping_writers_out(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, SqlError> {
    let old = altered.old.table.id;
    check_unchanged(session, altered, 0)?;
    request(session, SchemaChange::BlockWrites { table: old, blocked: true }).await?;
    let replaced = replaced(session, name, altered).await;
    ended(session, name, old, replaced).await
}

/// Clears away after a copy, however it came out.
async fn ended(
    session: &Session,
    name: &TableName,
    old: TableId,
    result: Result<Outcome, Stopped>,
) -> Result<Outcome, SqlError> {
    match result {
        Ok(outcome) => {
            let _ = session.shared.sequences.forget(&session.kernel, old).await;
            let _ = store::forget(&session.kernel, old).await;
            Ok(outcome)
        }
        Err(Stopped::NotOurs(error) | Stopped::Unknown(error)) => Err(error),
        Err(Stopped::Failed(error)) => {
            // If this fails too, others find what is left: the next who wants to write where
            // writers are kept out.
            let _ = undo(&session.kernel, old, &name.database).await;
            Err(error)
        }
    }
}

/// Puts the new table in the place of the old one.
async fn put_in_place(session: &mut Session, replace: SchemaChange) -> Result<(), Stopped> {
    match request(session, replace).await {
        Ok(_) => Ok(()),
        Err(failure) if refused(&failure, ErrorCode::OutcomeUnknown) => {
            Err(Stopped::Unknown(failure.into()))
        }
        Err(failure) => Err(failure.into()),
    }
}

/// The copy of a table that nobody writes to, in its place.
async fn replaced(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<Outcome, Stopped> {
    let life = Life::of(session);
    check_unchanged(session, altered, 1)?;
    let (new, outcome) = fill(session, name, altered).await?;
    if session.kernel.has_disk() {
        session.kernel.save_all().await?;
    }
    life.check(session)?;
    let replace = SchemaChange::ReplaceTable { old: altered.old.table.id, new };
    let linked = foreign_key::link(session, &altered.planned(name, true))?;
    put_in_place(session, linked.with(replace)).await?;
    Ok(outcome)
}

/// Why a copy did not come to its end.
enum Stopped {
    /// What was made is to be undone.
    Failed(SqlError),
    /// Somebody else holds the claim, or has changed the definition.
    NotOurs(SqlError),
    /// Whether the new table is in place nobody knows: what is left, if it is not, is found by its
    /// name.
    Unknown(SqlError),
}

impl<E: Into<SqlError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Which life of the cluster a copy began in. A restart of all of it may undo what was copied and
/// acknowledged.
#[derive(Clone, Copy)]
struct Life(usize);

impl Life {
    fn of(session: &Session) -> Self {
        Self(session.kernel.cluster().restarts.len())
    }

    /// Refuses when the cluster has another by now.
    fn check(self, session: &Session) -> Result<(), SqlError> {
        if Self::of(session).0 == self.0 {
            Ok(())
        } else {
            Err(Failure::Refused(ErrorCode::SchemaChanged.into()).into())
        }
    }
}

/// Refuses when the definition is not the one the alteration was made from, `commands` later.
fn check_unchanged(session: &Session, altered: &Altered, commands: u32) -> Result<(), SqlError> {
    let old = &altered.old.table;
    let cluster = session.kernel.cluster();
    let now = cluster.tables.get(&old.id).map(|table| table.version);
    if now.is_some_and(|now| now == old.version + commands) {
        Ok(())
    } else {
        Err(Failure::Refused(ErrorCode::SchemaChanged.into()).into())
    }
}

/// The full name of the table that is to take the place of another.
fn hidden_name(database: &str, old: TableId) -> String {
    format!("{database}.{}", copy_name(old))
}

/// Takes away what a copy has left: the block, the hidden table, and the journal. Nothing if there
/// is nothing.
///
/// The block goes first: from then on the hidden table cannot take the other's place any more,
/// should somebody still be at work on it, and may be dropped. The journal goes last: it tells
/// others that there is something left.
async fn undo(kernel: &Kernel, old: TableId, database: &str) -> Result<(), SqlError> {
    let cluster = kernel.cluster();
    if cluster.tables.get(&old).is_some_and(|table| table.writes_blocked) {
        kernel.change_schema(SchemaChange::BlockWrites { table: old, blocked: false }).await?;
    }
    let cluster = kernel.cluster();
    if let Some(hidden) = cluster.table_named(&hidden_name(database, old)) {
        match kernel.change_schema(SchemaChange::DropTable { table: hidden.id }).await {
            Ok(_) => {}
            Err(failure) if refused(&failure, ErrorCode::UnknownTable) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    if kernel.cluster().tables.get(&old).is_some_and(|table| table.journal.is_some()) {
        kernel.change_schema(SchemaChange::KeepJournal { table: old, kept: false }).await?;
    }
    Ok(())
}

/// When a snapshot is there, all that was committed before the last change of a definition is
/// complete everywhere.
async fn barrier(session: &Session) -> Result<(), Failure> {
    session.kernel.newest_complete().await.map(drop)
}

/// What makes the rows of the new table, of this identity. Messages name the table that is altered.
fn copy_to<'a>(
    session: &mut Session,
    name: &TableName,
    altered: &'a Altered,
    new: TableId,
) -> Result<Copy<'a>, SqlError> {
    let cluster = session.kernel.cluster();
    let gone = || SqlError::from(Failure::Refused(ErrorCode::UnknownTable.into()));
    let table = cluster.tables.get(&new).ok_or_else(gone)?;
    let definition = session.shared.definitions.of(table)?;
    let definition =
        Rc::new(TableDefinition { name: name.name.clone(), ..TableDefinition::clone(&definition) });
    let maker = RowMaker::new(&mut QueryBinder::new(session, &[]), &definition, false)?;
    Ok(Copy::new(altered, definition, maker))
}

/// What the client is told.
fn outcome(copy: &Copy<'_>, warnings: u64) -> Outcome {
    let records = copy.records;
    let info = format!("Records: {records}  Duplicates: 0  Warnings: {warnings}");
    Outcome::with_info(records, info)
}

/// How often something was tried that meets failing nodes, or locks, and since when.
#[derive(Default)]
struct Attempts {
    count: u32,
    began: Option<Instant>,
}

impl Attempts {
    /// Waits before it is tried again.
    ///
    /// # Errors
    /// With `error`, when that is for good, or it was tried [`ATTEMPTS_MAX`] times again and for
    /// [`PATIENCE`].
    async fn again(&mut self, kernel: &Kernel, error: SqlError) -> Result<(), SqlError> {
        let now = kernel.now();
        let began = *self.began.get_or_insert(now);
        if !is_temporary(&error) || self.count >= ATTEMPTS_MAX && now.since(began) >= PATIENCE {
            return Err(error);
        }
        self.count += 1;
        Ok(kernel.sleep(PAUSE).await?)
    }
}

/// What reads rows whole, as they are now.
fn reader_of(run: &Run<'_>, table: &Arc<Table>) -> Reader {
    Reader {
        kernel: run.session.kernel.clone(),
        table: table.clone(),
        mode: ReadMode::Committed,
        projection: Projection::All,
    }
}

/// Waits until the table that a statement was refused for may be written again, for
/// `lock_wait_timeout` at most. When the one who rebuilt it is gone, what was left of the work is
/// undone. Nothing happens when no table that the refusal names is being rebuilt.
pub(crate) async fn wait_for_writes(
    session: &mut Session,
    refusal: &SqlError,
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    let mut blocked = cluster.tables.values().filter(|table| table.writes_blocked);
    let Some(table) = blocked.find(|table| refusal.message().contains(&table.name)) else {
        return Ok(());
    };
    let patience = Duration::from_secs(session.variables.lock_wait_timeout);
    let began = session.kernel.now();
    while session.kernel.cluster().tables.get(&table.id).is_some_and(|t| t.writes_blocked) {
        let beside = session.kernel.beside();
        match CLAIMS.hold(&beside, table.id.0.into(), WaitPolicy::Refuse).await {
            Ok(()) => {
                let (database, _) = shown_name(&table.name);
                let undone = undo(&beside, table.id, &database).await;
                beside.abort().await;
                return undone;
            }
            Err(failure @ Failure::Interrupted(_)) => return Err(failure.into()),
            // It is being worked on; or nobody can tell now.
            Err(_) => beside.abort().await,
        }
        if session.kernel.now().since(began) >= patience {
            return Err(of_refusal(&ErrorCode::LockTimeout.into()));
        }
        session.kernel.sleep(PAUSE).await?;
    }
    Ok(())
}

/// Makes the new table and copies the rows.
async fn fill(
    session: &mut Session,
    name: &TableName,
    altered: &Altered,
) -> Result<(TableId, Outcome), SqlError> {
    let old = &altered.old;
    let hidden = hidden_name(&name.database, old.table.id);
    let linked = foreign_key::link_copy(session, &altered.planned(name, false))?;
    let create = kernel_form::create(&hidden, &name.name, &altered.new);
    let id = request(session, linked.with(create)).await?;
    barrier(session).await?;
    let mut copy = copy_to(session, name, altered, id)?;
    let mut run = Run::new(session, &[]);
    run.context.strict = run.context.facts.sql_mode.is_strict();
    let copied = copy.rows(&mut run).await;
    let warnings = run.context.warnings.count;
    run.finish();
    copied?;
    copy.carry_sequence(session).await?;
    Ok((id, outcome(&copy, warnings)))
}

/// A row of a table that nobody changes, with the values that lie outside of it.
async fn whole(reader: &Reader, row: Values) -> Result<Values, SqlError> {
    let completed = reader.complete(vec![row]).await?.into_iter().next();
    let gone = || SqlError::from(Failure::Refused(ErrorCode::SchemaChanged.into()));
    completed.and_then(|completed| completed.values).ok_or_else(gone)
}

impl Copy<'_> {
    async fn rows(&mut self, run: &mut Run<'_>) -> Result<(), SqlError> {
        let spec = ScanSpec::heap(self.altered.old.table.id);
        let mut scan = run.session.kernel.scan(spec);
        let reader = reader_of(run, &self.altered.old.table);
        let references = reader.references();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(rows) = scan.next().await? {
            for row in rows {
                bytes += references.map_or(0, |at| size_of(&row[at]));
                let row = whole(&reader, row).await?;
                self.records += 1;
                run.context.row_number = self.records;
                batch.push(self.made(run, row).await?);
                run.worked_to_write().await?;
                if batch.len() >= run.portion(BATCH) || bytes >= BATCH_BYTES {
                    self.insert(run, std::mem::take(&mut batch)).await?;
                    bytes = 0;
                }
            }
            run.worked(BATCH).await?;
        }
        self.insert(run, batch).await
    }

    /// Inserts rows in a transaction of their own.
    async fn insert(&self, run: &mut Run<'_>, batch: Vec<Made>) -> Result<(), SqlError> {
        if batch.is_empty() {
            return Ok(());
        }
        let table = &self.definition.table;
        let kernel = run.session.kernel.beside();
        let mut all = Batch::default();
        for made in batch {
            let insert = ClientOperation::insert(table.id, made.values.clone());
            all.push(insert.of_version(table.version), made.row);
            // What the table referred to before it refers to still: nobody changes it now.
            all.refer(&self.maker, &made.values, None, &self.known)?;
        }
        let mut attempts = Attempts::default();
        loop {
            let Err(error) = all.clone().send(&kernel, &self.maker, true).await else {
                return Ok(());
            };
            // Of what was found before it was refused, nothing is to stay locked.
            kernel.abort().await;
            attempts.again(&run.session.kernel, error).await?;
        }
    }
}
