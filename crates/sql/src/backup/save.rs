//! BACKUP: rows of one snapshot, table by table, to the files of the host.
//!
//! # Guarantees
//! All rows are of one epoch, and the definitions are those of that epoch: a change of a definition
//! that comes in between has the backup begin anew. No row is locked. A backup that fails leaves
//! nothing behind.
//! # Failure
//! A node that dies under a scan has the table read again, one that held the snapshot all of it.

mod mutation;

use std::sync::Arc;

use model::{Epoch, Table, Value};
use sql_expression::SqlError;
use sql_parser::ast::{self, BackupSubject};
use sqltype::{Datum, SqlType};
use stdx::Duration;
use wire::Projection;

use super::begun::Begun;
use super::options::Options;
use super::rows::encode;
use super::throttle::Throttle;
use super::time::now;
use crate::access::{Asked, ReadMode, Reader};
use crate::backup_jobs::OwnJob;
use crate::backup_jobs::host::{
    BackupFiles, BackupKey, BackupReply, BackupRequest, Contents, SavedDatabase, SavedTable,
    SavedView, answered, ask, done, failed,
};
use crate::catalog::error;
use crate::catalog::names::{TableName, tables_of};
use crate::catalog::view::is_view;
use crate::error::is_temporary;
use crate::kernel::Kernel;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;
use crate::statistics::Sizes;

/// Bytes of rows that are handed over at once, about.
const PORTION: usize = 1 << 20;
/// Portions that are on their way to the files at a time.
const UNDER_WAY: usize = 4;
/// How often a table is read, and how often everything.
const ATTEMPTS: u32 = 5;
/// The pause before something is read again.
const PAUSE: Duration = Duration::from_millis(500);

/// What jobs of backups are called.
pub(super) const KIND: &str = "BACKUP";

/// Runs BACKUP.
pub(super) async fn run(
    session: &mut Session,
    backup: &ast::Backup,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let options = Options::read(&backup.options, false)?;
    check_key(session, &options)?;
    let begun = Begun::new(session, KIND, backup, options)?;
    if begun.options.detached {
        return begun.detach(session, backup, out).await;
    }
    let (number, place) = (begun.job.number, begun.place.clone());
    let (contents, size) = perform(session, backup, begun).await?;
    let unsigned = SqlType::unsigned_big_int;
    out.columns(&[
        ResultColumn::new("Job", unsigned()),
        ResultColumn::new("Directory", SqlType::text(512)),
        ResultColumn::new("Epoch", unsigned()),
        ResultColumn::new("Tables", unsigned()),
        ResultColumn::new("Rows", unsigned()),
        ResultColumn::new("Bytes", unsigned()),
    ]);
    let rows = contents.tables.iter().map(|table| table.rows).sum();
    out.row(&[
        Datum::UInt(number),
        Datum::text(&place),
        Datum::UInt(contents.epoch),
        Datum::UInt(contents.tables.len() as u64),
        Datum::UInt(rows),
        Datum::UInt(size),
    ]);
    out.drain().await;
    Ok(Outcome::Rows)
}

/// Refuses a backup without a key where it has to have one.
pub(super) fn check_key(session: &Session, options: &Options) -> Result<(), SqlError> {
    let policy = session.shared.directory.backups().policy();
    let why = match (session.shared.address.encrypted, policy.requires_key) {
        _ if options.key != BackupKey::None => return Ok(()),
        (true, _) => "the cluster is encrypted, and so are its backups",
        (false, true) => "RequireEncryptedBackup=1 is set",
        (false, false) => return Ok(()),
    };
    Err(failed(&format!("{why}: say WITH key_file = '…' or WITH passphrase = '…'")))
}

/// Makes a backup that has begun; what is in it, and its size.
pub(super) async fn perform(
    session: &mut Session,
    backup: &ast::Backup,
    begun: Begun,
) -> Result<(Contents, u64), SqlError> {
    let Begun { options, place, files, job } = begun;
    let policy = session.shared.directory.backups().policy();
    let mut throttle = Throttle::new(options.max_rate.or(policy.rate));
    let kernel = session.kernel.beside();
    let mut attempt = 1;
    let result = loop {
        let create = BackupRequest::Create { place: place.clone(), key: options.key.clone() };
        let result = match done(&kernel, &*files, create).await {
            Ok(_) => {
                let (files, throttle) = (&*files, &mut throttle);
                let writing = Writing { files, job: &job, throttle, older: None, is_raw: false };
                Box::pin(whole(session, backup, &options, writing)).await
            }
            Err(error) => Err(error),
        };
        match result {
            Err(error) if is_temporary(&error) && attempt < ATTEMPTS => attempt += 1,
            result => break result,
        }
        if let Err(error) = anew(&kernel, &*files).await {
            break Err(error);
        }
    };
    if result.is_err() {
        // Whoever is told that it failed is to find nothing, however often it is interrupted.
        loop {
            session.kernel.clear_interrupt();
            let discarded = done(&kernel, &*files, BackupRequest::Discard).await;
            if discarded.is_ok() || session.kernel.interrupted().is_none() {
                break;
            }
        }
    }
    job.end(&result.as_ref().map(|_| ()).map_err(Clone::clone));
    result
}

/// Removes what was written, and waits before it is written again.
async fn anew(kernel: &Kernel, files: &dyn BackupFiles) -> Result<(), SqlError> {
    done(kernel, files, BackupRequest::Discard).await?;
    Ok(kernel.sleep(PAUSE).await?)
}

/// A snapshot beside the user's transaction; given back when dropped.
pub(super) struct Snapshot<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) epoch: Epoch,
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.kernel.close_snapshot(self.epoch);
    }
}

/// What a statement names, as it is defined now.
#[derive(Default, PartialEq)]
struct Chosen {
    databases: Vec<SavedDatabase>,
    tables: Vec<(TableName, Arc<Table>)>,
    views: Vec<SavedView>,
}

/// Where rows go, and how fast.
pub(super) struct Writing<'a> {
    pub(super) files: &'a dyn BackupFiles,
    pub(super) job: &'a OwnJob,
    pub(super) throttle: &'a mut Throttle,
    /// Of a mutation alone: what some rows are read in.
    pub(super) older: Option<Epoch>,
    /// Rows are written as the kernel has them.
    pub(super) is_raw: bool,
}

/// Writes all of it once; what is in it, and its size.
async fn whole(
    session: &mut Session,
    backup: &ast::Backup,
    options: &Options,
    mut writing: Writing<'_>,
) -> Result<(Contents, u64), SqlError> {
    let (files, job) = (writing.files, writing.job);
    let kernel = session.kernel.beside();
    let older = mutation::older(&kernel).await?;
    writing.older = older.as_ref().map(|snapshot| snapshot.epoch);
    let (snapshot, chosen) = opened(session, backup, &kernel).await?;
    let mut contents = Contents {
        version: crate::VERSION.to_owned(),
        epoch: snapshot.epoch.0,
        began: now(session),
        subject: subject(&backup.subject),
        cluster: format!("{:?}", kernel.cluster().id),
        databases: chosen.databases,
        views: chosen.views,
        ..Contents::default()
    };
    if options.accounts {
        let cluster = kernel.cluster();
        for (name, kept) in cluster.accounts.iter() {
            contents.accounts.push((name.to_string(), text(kept)?));
        }
    }
    let tables: Vec<Arc<Table>> = chosen.tables.iter().map(|(_, table)| table.clone()).collect();
    let sizes = Sizes::of(&session.kernel, Some(&tables)).await;
    let sizes = tables.iter().map(|table| sizes.table(table).map(|size| size.rows));
    let work = sizes.sum::<Option<u64>>().map(|rows| (kernel.now(), rows));
    job.tell(|job| {
        (job.tables, job.rows, job.bytes) = ((0, tables.len()), 0, 0);
        job.work = work.filter(|_| !options.structure_only);
    })?;
    for (at, (name, table)) in chosen.tables.iter().enumerate() {
        let columns = kept_columns(table);
        let named = columns.iter().map(|at| table.columns[*at].name.clone()).collect();
        let mut saved = SavedTable {
            database: name.database.clone(),
            name: name.name.clone(),
            text: text(&table.description)?,
            columns: named,
            rows: 0,
            next: None,
            raw: None,
        };
        if !options.structure_only {
            let reader = Reader {
                kernel: kernel.clone(),
                table: table.clone(),
                mode: ReadMode::Snapshot(snapshot.epoch),
                projection: Projection::All,
            };
            saved.rows = rows_of(at, &reader, &columns, &mut writing).await?;
            // Read after the rows: what they have was given out before.
            saved.next = session.shared.sequences.kept(&kernel, table.id).await?;
        }
        contents.tables.push(saved);
        job.tell(|job| job.tables.0 = at + 1)?;
    }
    drop((snapshot, older));
    contents.ended = now(session);
    let finish = BackupRequest::Finish(Box::new(contents.clone()));
    match done(&kernel, files, finish).await? {
        BackupReply::Finished(size) => Ok((contents, size)),
        _ => Err(failed("the host gives no size of the backup")),
    }
}

/// The rows of the table at a place, read again when a node has failed; how many there are.
pub(super) async fn rows_of(
    at: usize,
    reader: &Reader,
    columns: &[usize],
    writing: &mut Writing<'_>,
) -> Result<u64, SqlError> {
    let (files, job) = (writing.files, writing.job);
    let before = job_figures(job);
    let mut attempt = 1;
    loop {
        job.tell(|job| (job.rows, job.bytes) = before.get())?;
        done(&reader.kernel, files, BackupRequest::Table(at)).await?;
        match rows(reader, columns, writing).await {
            Err(error) if is_temporary(&error) && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
        reader.kernel.sleep(PAUSE).await?;
    }
}

/// Rows and bytes of a job before a table.
fn job_figures(job: &OwnJob) -> std::cell::Cell<(u64, u64)> {
    let figures = std::cell::Cell::new((0, 0));
    // An end that was asked for is met by the next who looks.
    let _ = job.tell(|job| figures.set((job.rows, job.bytes)));
    figures
}

/// Opens a snapshot, and what is to be read in it, whose definitions are of the same moment.
async fn opened<'a>(
    session: &mut Session,
    backup: &ast::Backup,
    kernel: &'a Kernel,
) -> Result<(Snapshot<'a>, Chosen), SqlError> {
    for _ in 0..ATTEMPTS {
        session.catch_up().await;
        let before = chosen(session, &backup.subject)?;
        let snapshot = Snapshot { kernel, epoch: kernel.open_snapshot().await? };
        session.catch_up().await;
        if before == chosen(session, &backup.subject)? {
            return Ok((snapshot, before));
        }
    }
    Err(failed("definitions change all the time: none of them holds for the time of a snapshot"))
}

/// The rows of a table, to the files; how many there are.
async fn rows(
    reader: &Reader,
    columns: &[usize],
    writing: &mut Writing<'_>,
) -> Result<u64, SqlError> {
    let (files, job) = (writing.files, writing.job);
    let mut scan = reader.scan(Asked::heap(), None, None, None);
    let is_large = !writing.is_raw && reader.references().is_some();
    let mut buffer = Vec::with_capacity(PORTION + PORTION / 4);
    let mut waiting = std::collections::VecDeque::new();
    let mut count = 0;
    while let Some(mut rows) = scan.next().await? {
        if let Some(older) = writing.older {
            rows = mutation::outdated(reader, older, rows).await?;
        }
        let found = rows.len() as u64;
        for row in rows {
            let row = if is_large { completed(reader, row).await? } else { row };
            columns.iter().for_each(|at| encode(&row[*at], &mut buffer));
            if buffer.len() >= PORTION {
                let next = Vec::with_capacity(PORTION + PORTION / 4);
                let full = std::mem::replace(&mut buffer, next);
                let bytes = full.len() as u64;
                waiting.push_back(ask(&reader.kernel, files, BackupRequest::Rows(full)).await?);
                if waiting.len() > UNDER_WAY
                    && let Some(first) = waiting.pop_front()
                {
                    answered(&reader.kernel, first).await?;
                }
                job.tell(|job| job.bytes += bytes)?;
                writing.throttle.pace(&reader.kernel, job, bytes).await?;
            }
        }
        count += found;
        job.tell(|job| job.rows += found)?;
        reader.kernel.breathe().await?;
    }
    let bytes = buffer.len() as u64;
    if bytes > 0 {
        waiting.push_back(ask(&reader.kernel, files, BackupRequest::Rows(buffer)).await?);
    }
    for answer in waiting {
        answered(&reader.kernel, answer).await?;
    }
    job.tell(|job| job.bytes += bytes)?;
    writing.throttle.pace(&reader.kernel, job, bytes).await?;
    Ok(count)
}

/// A row with its large values. In a snapshot nothing of it is newer.
async fn completed(reader: &Reader, row: Vec<Value>) -> Result<Vec<Value>, SqlError> {
    let completed = reader.complete(vec![row]).await?.into_iter().next();
    let values = completed.and_then(|completed| completed.values);
    values.ok_or_else(|| SqlError::internal("a row of a snapshot has gone"))
}

/// The places of the columns that are saved: not those of the references to large values, which
/// are made anew, nor those that were dropped.
fn kept_columns(table: &Table) -> Vec<usize> {
    let references = table.large.as_ref().map(|large| usize::from(large.references.0));
    let is_kept = |at: &usize| Some(*at) != references && !table.columns[*at].is_hole();
    (0..table.columns.len()).filter(is_kept).collect()
}

/// What the catalog keeps of something.
pub(super) fn text(kept: &[u8]) -> Result<String, SqlError> {
    let text = String::from_utf8(kept.to_vec());
    text.map_err(|_| SqlError::internal("a definition in the catalog is no text"))
}

/// The subject of a statement, as lists show it.
fn subject(subject: &BackupSubject) -> String {
    match subject {
        BackupSubject::All => "ALL".to_owned(),
        BackupSubject::Databases(names) => {
            let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
            format!("DATABASE {}", names.join(", "))
        }
        BackupSubject::Tables(names) => {
            let names: Vec<String> = names.iter().map(|(name, _)| name.to_string()).collect();
            format!("TABLE {}", names.join(", "))
        }
    }
}

/// What a statement names, as this worker knows it.
fn chosen(session: &Session, subject: &BackupSubject) -> Result<Chosen, SqlError> {
    let cluster = session.kernel.cluster();
    let mut chosen = Chosen::default();
    match subject {
        BackupSubject::All => {
            for name in cluster.databases.keys() {
                add_database(session, name, &mut chosen)?;
            }
        }
        BackupSubject::Databases(names) => {
            for (name, _) in names {
                let name = session.database_name(name.as_str());
                refuse_system(&name)?;
                session.check_database(&name)?;
                add_database(session, &name, &mut chosen)?;
            }
        }
        BackupSubject::Tables(names) => {
            for (name, _) in names {
                let name = session.table_name(name)?;
                refuse_system(&name.database)?;
                let table = cluster.table_named(&name.full());
                let missing = || error::no_such_table(&name.database, &name.name);
                add(&name.database, &name.name, table.ok_or_else(missing)?, &mut chosen)?;
                let is_there = |saved: &SavedDatabase| saved.name == name.database;
                if !chosen.databases.iter().any(is_there) {
                    chosen.databases.push(saved_database(session, &name.database)?);
                }
            }
        }
    }
    Ok(chosen)
}

fn refuse_system(database: &str) -> Result<(), SqlError> {
    match crate::catalog::system::schema(database) {
        Some(_) => Err(error::access_denied_to_database(database)),
        None => Ok(()),
    }
}

fn saved_database(session: &Session, name: &str) -> Result<SavedDatabase, SqlError> {
    let cluster = session.kernel.cluster();
    let kept = cluster.databases.get(name).ok_or_else(|| error::unknown_database(name))?;
    Ok(SavedDatabase { name: name.to_owned(), text: text(kept)? })
}

fn add_database(session: &Session, name: &str, chosen: &mut Chosen) -> Result<(), SqlError> {
    chosen.databases.push(saved_database(session, name)?);
    let cluster = session.kernel.cluster();
    tables_of(&cluster, name).try_for_each(|(table, kept)| add(name, table, kept, chosen))
}

fn add(
    database: &str,
    name: &str,
    table: &Arc<Table>,
    chosen: &mut Chosen,
) -> Result<(), SqlError> {
    let (database, name) = (database.to_owned(), name.to_owned());
    if is_view(table) {
        chosen.views.push(SavedView { database, name, text: text(&table.description)? })
    } else {
        chosen.tables.push((TableName { database, name }, table.clone()))
    }
    Ok(())
}
