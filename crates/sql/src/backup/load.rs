//! RESTORE: definitions and rows of a backup, under names that are free.
//!
//! # Guarantees
//! Nothing is changed before every byte of the backup was checked. Tables are filled where nobody
//! sees them, and shown by one command when all rows are there and on the disks. A restore that
//! fails removes what it has made; of one whose process died any SQL node removes it after a while,
//! and the next restore at once.
//! # Not here
//! Changes of definitions (`ddl::restore`).

mod fill;
mod placing;
mod replay;
mod source;
mod until;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use model::{ErrorCode, SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{self, BackupSubject};
use wire::WaitPolicy;

use super::begun::Begun;
use super::options::Options;
use super::rows::Rows;
use super::throttle::Throttle;
use crate::backup_jobs::OwnJob;
use crate::backup_jobs::host::{
    BackupFiles, BackupReply, BackupRequest, Contents, SavedTable, answered, ask, done, failed,
};
use crate::catalog::Complete;
use crate::catalog::names::{RESTORE_PREFIX, TableName, restored_by};
use crate::catalog::{ForeignKeyDefinition, TableDefinition, error};
use crate::claim::Claims;
use crate::ddl::restore;
use crate::execute::row::RowMaker;
use crate::kernel::{Failure, Kernel};
use crate::logical::binder::QueryBinder;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;
use fill::{Destination, Filler};
use placing::Placing;
use replay::Replay;
use source::{At, Source};
use until::{Archive, Moment};

/// The claims on restores: who holds one is at work on the tables of its number.
const CLAIMS: Claims = Claims { table: "#restores", column: "restore_id", width: 8 };
/// How often accounts are looked at again because others have changed them.
const ACCOUNT_ATTEMPTS: u32 = 20;

/// What jobs of restores are called.
pub(super) const KIND: &str = "RESTORE";

/// Runs RESTORE.
pub(super) async fn run(
    session: &mut Session,
    restore: &ast::Backup,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let options = Options::read(&restore.options, true)?;
    let begun = Begun::new(session, KIND, restore, options)?;
    if begun.options.detached {
        return begun.detach(session, restore, out).await;
    }
    let rows = perform(session, restore, begun).await?;
    Ok(Outcome::with_info(rows, format!("Records: {rows}")))
}

/// Does a restore that has begun; how many rows there were.
pub(super) async fn perform(
    session: &mut Session,
    restore: &ast::Backup,
    begun: Begun,
) -> Result<u64, SqlError> {
    let Begun { options, place, files, job } = begun;
    let policy = session.shared.directory.backups().policy();
    let number = session.kernel.draw() >> 1;
    let log = match restore.until {
        // The changes are read beside the full backup.
        Some(_) => session.shared.directory.backups().host()?.begin(),
        None => None,
    };
    let beside = session.kernel.beside();
    let archive = log.as_deref().map(|files| Archive { kernel: beside.clone(), files });
    let at = At { place: &place, key: &options.key };
    let opened = match (&archive, &restore.until) {
        (Some(archive), Some(until)) => match Moment::of(until, &session.variables.time_zone) {
            Ok(moment) => source::of_moment(archive, &*files, at, moment).await,
            Err(error) => Err(error),
        },
        (None, Some(_)) => Err(failed("the system has no more threads")),
        _ => source::of_backup(&beside, &*files, at).await,
    };
    let result = match opened {
        Ok(source) => {
            let claimed = CLAIMS.hold(&session.kernel, number, WaitPolicy::Refuse).await;
            match claimed {
                Ok(()) => {
                    let mut work = Work {
                        contents: &source.contents,
                        source: &source,
                        archive: archive.as_ref(),
                        targets: BTreeMap::new(),
                        options: &options,
                        files: &*files,
                        job: &job,
                        number,
                        made: Vec::new(),
                        replaced: Vec::new(),
                        databases: Vec::new(),
                        rows: 0,
                        throttle: Throttle::new(options.max_rate.or(policy.rate)),
                    };
                    let result = Box::pin(work.all(session, &restore.subject)).await;
                    if result.is_err() {
                        work.undo(session).await;
                    }
                    // The transaction only held the claim.
                    session.rollback().await;
                    result.map(|()| work.rows)
                }
                Err(failure) => Err(failure.into()),
            }
        }
        Err(error) => Err(error),
    };
    job.end(&result.as_ref().map(|_| ()).map_err(Clone::clone));
    result
}

/// A restore under way.
struct Work<'a> {
    contents: &'a Contents,
    /// Where its rows come from.
    source: &'a Source,
    archive: Option<&'a Archive<'a>>,
    /// Tables that changes are applied to, by the identities that they had.
    targets: BTreeMap<TableId, replay::Target>,
    options: &'a Options,
    files: &'a dyn BackupFiles,
    job: &'a OwnJob,
    number: u64,
    /// Tables and views that were made aside, with the names they will have.
    made: Vec<(TableId, TableName)>,
    /// Tables and views that go when those are shown.
    replaced: Vec<TableId>,
    /// Databases that were made.
    databases: Vec<String>,
    rows: u64,
    throttle: Throttle,
}

/// A table of the backup that is restored.
struct Target {
    /// Its place in the backup.
    saved: usize,
    name: TableName,
    definition: Complete,
    /// The table that has this name now, and goes.
    replaces: Option<TableId>,
    /// The foreign keys whose parents are in the same backup, and restored with it.
    known: Vec<String>,
}

/// What is restored, and under which names.
#[derive(Default)]
struct Plan {
    tables: Vec<Target>,
    views: Vec<(usize, TableName, Option<TableId>)>,
    /// Databases with their texts.
    databases: Vec<(String, String)>,
}

impl Plan {
    fn replaced(&self) -> Vec<TableId> {
        let views = self.views.iter().map(|(_, _, replaces)| *replaces);
        self.tables.iter().map(|target| target.replaces).chain(views).flatten().collect()
    }
}

impl Work<'_> {
    async fn all(
        &mut self,
        session: &mut Session,
        subject: &BackupSubject,
    ) -> Result<(), SqlError> {
        session.catch_up().await;
        sweep(session).await?;
        let plan = self.plan(session, subject)?;
        self.replaced = plan.replaced();
        let lives = session.kernel.cluster().restarts.len();
        let count = plan.tables.len();
        let rows = if self.options.structure_only {
            0
        } else {
            plan.tables.iter().map(|of| self.contents.tables[of.saved].rows).sum()
        };
        let now = session.kernel.now();
        self.job.tell(|job| {
            job.tables = (0, count);
            job.work = Some((now, rows));
        })?;
        for (name, text) in &plan.databases {
            if restore::make_database(session, name, text).await? {
                self.databases.push(name.clone());
            }
        }
        for target in &plan.tables {
            self.table(session, target).await?;
            self.job.tell(|job| job.tables.0 += 1)?;
        }
        self.replay(session, &plan).await?;
        for (at, name, _) in &plan.views {
            let aside = self.aside();
            let text = &self.contents.views[*at].text;
            let id = restore::stage_view(session, name, &aside, text).await?;
            self.made.push((id, name.clone()));
        }
        if session.kernel.has_disk() {
            session.kernel.beside().save_all().await?;
        }
        // A restart of all nodes may have undone what was acknowledged.
        if session.kernel.cluster().restarts.len() != lives {
            return Err(failed("the cluster has been restarted meanwhile"));
        }
        self.job.tell(|_| ())?;
        if !self.made.is_empty() {
            restore::show(session, &self.made, &self.replaced).await?;
            for id in &self.replaced {
                // What remains of the sequence is a row nobody looks at.
                let _ = session.shared.sequences.forget(&session.kernel.beside(), *id).await;
            }
        }
        if self.options.accounts {
            self.accounts(session).await?;
        }
        Ok(())
    }

    fn aside(&self) -> String {
        format!("{RESTORE_PREFIX}{}-{}", self.number, self.made.len())
    }

    /// Removes what was made. What cannot be removed now the next restore removes.
    async fn undo(&self, session: &Session) {
        session.kernel.clear_interrupt();
        let made: Vec<TableId> = self.made.iter().map(|(id, _)| *id).collect();
        let _ = restore::remove(session, &made).await;
        for name in &self.databases {
            let _ = restore::remove_database(session, name).await;
        }
    }

    /// What a statement names, under the names it gets.
    ///
    /// # Errors
    /// For what is not in the backup, and for what is there already.
    fn plan(&self, session: &Session, subject: &BackupSubject) -> Result<Plan, SqlError> {
        let mut plan = Plan::default();
        match subject {
            BackupSubject::All => {
                for database in &self.contents.databases {
                    self.add_database(session, &database.name, &database.name, &mut plan)?;
                }
            }
            BackupSubject::Databases(names) => {
                for (name, renamed) in names {
                    let into = renamed.as_ref().unwrap_or(name).as_str();
                    self.add_database(session, name.as_str(), into, &mut plan)?;
                }
            }
            BackupSubject::Tables(names) => {
                for (name, renamed) in names {
                    let from = session.table_name(name)?;
                    let into = match renamed {
                        Some(renamed) => session.table_name(renamed)?,
                        None => from.clone(),
                    };
                    self.add_table(session, &from, into, &mut plan)?;
                }
            }
        }
        self.find_parents(&mut plan);
        check_parents(session, &plan)?;
        self.check_raw(session, &plan)?;
        Ok(plan)
    }

    fn add_database(
        &self,
        session: &Session,
        from: &str,
        into: &str,
        plan: &mut Plan,
    ) -> Result<(), SqlError> {
        let found = self.contents.databases.iter().find(|database| database.name == from);
        let found =
            found.ok_or_else(|| failed(&format!("database {from} is not in the backup")))?;
        plan.databases.push((into.to_owned(), found.text.clone()));
        for (at, table) in self.contents.tables.iter().enumerate() {
            if table.database == from && is_shown(table) {
                let name = TableName { database: into.to_owned(), name: table.name.clone() };
                plan.tables.push(self.target(session, at, name)?);
            }
        }
        for (at, view) in self.contents.views.iter().enumerate() {
            if view.database == from {
                let name = TableName { database: into.to_owned(), name: view.name.clone() };
                let replaces = self.check_free(session, &name)?;
                plan.views.push((at, name, replaces));
            }
        }
        Ok(())
    }

    fn add_table(
        &self,
        session: &Session,
        from: &TableName,
        into: TableName,
        plan: &mut Plan,
    ) -> Result<(), SqlError> {
        let is_it = |database: &str, name: &str| database == from.database && name == from.name;
        let mut databases = self.contents.databases.iter();
        if let Some(database) = databases.find(|database| database.name == into.database)
            && !session.database_exists(&into.database)
            && plan.databases.iter().all(|(name, _)| *name != into.database)
        {
            plan.databases.push((into.database.clone(), database.text.clone()));
        } else if plan.databases.iter().all(|(name, _)| *name != into.database) {
            session.check_database(&into.database)?;
        }
        let mut tables = self.contents.tables.iter();
        let found = |table: &SavedTable| is_it(&table.database, &table.name) && is_shown(table);
        if let Some(at) = tables.position(found) {
            plan.tables.push(self.target(session, at, into)?);
            return Ok(());
        }
        let mut views = self.contents.views.iter();
        let at = views.position(|view| is_it(&view.database, &view.name));
        let at = at.ok_or_else(|| failed(&format!("{} is not in the backup", from.full())))?;
        let replaces = self.check_free(session, &into)?;
        plan.views.push((at, into, replaces));
        Ok(())
    }

    fn target(&self, session: &Session, at: usize, name: TableName) -> Result<Target, SqlError> {
        let replaces = self.check_free(session, &name)?;
        let definition = match replaces.filter(|_| self.options.data_only) {
            Some(id) => {
                let cluster = session.kernel.cluster();
                let table = cluster.tables.get(&id);
                let text = table.map(|table| String::from_utf8_lossy(&table.description));
                restore::definition(&name, &name, &text.unwrap_or_default())?
            }
            None if self.options.data_only => {
                return Err(error::no_such_table(&name.database, &name.name));
            }
            None => restore::definition(&self.saved(at), &name, &self.contents.tables[at].text)?,
        };
        Ok(Target { saved: at, name, definition, replaces, known: Vec::new() })
    }

    /// Refuses a name that is taken, unless what has it is to go: then tells what that is.
    fn check_free(&self, session: &Session, name: &TableName) -> Result<Option<TableId>, SqlError> {
        let taken = session.kernel.cluster().table_named(&name.full()).map(|table| table.id);
        match taken {
            Some(_) if !self.options.overwrite => Err(failed(&format!(
                "{} is there already: drop it, restore under another name with AS, or say WITH \
                 overwrite",
                name.full()
            ))),
            taken => Ok(taken),
        }
    }

    /// The name that a table has in the backup.
    fn saved(&self, at: usize) -> TableName {
        let table = &self.contents.tables[at];
        TableName { database: table.database.clone(), name: table.name.clone() }
    }

    /// Has foreign keys refer to the new names of parents that are restored too, and to the
    /// database that a table comes into where they referred to the one that it comes from.
    fn find_parents(&self, plan: &mut Plan) {
        let from = |other: &Target| {
            if self.options.data_only {
                // The definitions are those that are there, and so are the names in them.
                other.name.clone()
            } else {
                self.saved(other.saved)
            }
        };
        let names: Vec<(TableName, TableName)> =
            plan.tables.iter().map(|other| (from(other), other.name.clone())).collect();
        for target in &mut plan.tables {
            let own =
                if self.options.data_only { target.name.clone() } else { self.saved(target.saved) };
            for key in &mut target.definition.foreign_keys {
                let found = if key.parent == own {
                    Some(&target.name)
                } else {
                    names.iter().find(|(from, _)| *from == key.parent).map(|(_, to)| to)
                };
                if let Some(parent) = found {
                    key.parent = parent.clone();
                    // Another definition may have other foreign keys than the rows were held to.
                    if !self.options.data_only {
                        target.known.push(key.name.clone());
                    }
                } else if key.parent.database == own.database {
                    key.parent.database.clone_from(&target.name.database);
                }
            }
        }
    }

    /// Makes a table aside, with its rows.
    async fn table(&mut self, session: &mut Session, target: &Target) -> Result<(), SqlError> {
        let saved = &self.contents.tables[target.saved];
        let aside = self.aside();
        let id = restore::stage(session, &target.name, target.replaces, &aside, &target.definition)
            .await?;
        self.made.push((id, target.name.clone()));
        if self.options.structure_only {
            return Ok(());
        }
        let table = session.kernel.cluster().tables.get(&id).cloned();
        let gone = || SqlError::from(Failure::Refused(ErrorCode::UnknownTable.into()));
        let table = table.ok_or_else(gone)?;
        let definition = session.shared.definitions.of(&table)?;
        let definition = Rc::new(TableDefinition {
            name: target.name.name.clone(),
            ..TableDefinition::clone(&definition)
        });
        if self.source.is_raw() {
            return self.fill_raw(session, target, &table, definition).await;
        }
        let placing = Placing::by_name(&table, &saved.columns, &target.name)?;
        // Rows whose parents are in the same backup have them.
        let keys = definition.foreign_keys.iter().enumerate();
        let is_known = |key: &ForeignKeyDefinition| target.known.contains(&key.name);
        let known: Vec<usize> = keys.filter(|(_, key)| is_known(key)).map(|key| key.0).collect();
        let is_checked =
            session.variables.foreign_key_checks && known.len() < definition.foreign_keys.len();
        let maker = if is_checked {
            Some(RowMaker::new(&mut QueryBinder::new(session, &[]), &definition, false)?)
        } else {
            None
        };
        let is_raw = false;
        let definition = definition.clone();
        let into = Destination { table, definition, placing, is_raw, maker, known };
        let count = self.fill(session, target.saved, &into).await?;
        if count != saved.rows {
            let (name, rows) = (target.name.full(), saved.rows);
            return Err(failed(&format!("{name} has {count} rows in the backup, and not {rows}")));
        }
        self.rows += count;
        raise(session, &into.table, saved.next).await
    }

    /// Fills a table, and the one with the parts of its large values, with the rows of the kernel.
    async fn fill_raw(
        &mut self,
        session: &mut Session,
        target: &Target,
        table: &Arc<model::Table>,
        definition: Rc<TableDefinition>,
    ) -> Result<(), SqlError> {
        let defined = &self.contents.tables[target.saved];
        let raw = defined.raw.as_ref().ok_or_else(|| failed("the archive lacks a definition"))?;
        let parts = raw.parts.and_then(|id| self.source.at(TableId(id)));
        let large = table.large.as_ref();
        let own =
            large.and_then(|large| session.kernel.cluster().tables.get(&large.parts).cloned());
        let mut fills = vec![(target.saved, table.clone(), false)];
        fills.extend(parts.zip(own).map(|(at, table)| (at, table, true)));
        for (at, table, is_parts) in fills {
            let defined = self.contents.tables[at].clone();
            let Some(raw) = &defined.raw else { continue };
            let (id, name) = (TableId(raw.id), target.name.clone());
            if self.source.lost.contains(&id) {
                let name = target.name.full();
                return Err(failed(&format!(
                    "changes of {name} before that moment are not in the archive: it was dropped \
                     while no SQL node drove the archive; name an earlier moment"
                )));
            }
            let of = replay::Target { table: table.clone(), defined, name, is_parts };
            if let Some((base, saved)) = self.source.base(at) {
                let columns: Vec<u16> =
                    saved.raw.iter().flat_map(|raw| &raw.columns).map(|column| column.id).collect();
                let into = Destination {
                    placing: of.placing(&columns)?,
                    table,
                    definition: definition.clone(),
                    is_raw: true,
                    maker: None,
                    known: Vec::new(),
                };
                let count = self.fill(session, base, &into).await?;
                if count != saved.rows {
                    let (name, rows) = (target.name.full(), saved.rows);
                    let why = format!("{name} has {count} rows in the backup, and not {rows}");
                    return Err(failed(&why));
                }
                self.rows += if is_parts { 0 } else { count };
            }
            self.targets.insert(id, of);
        }
        Ok(())
    }

    /// Applies the changes up to the moment that is restored.
    async fn replay(&mut self, session: &mut Session, plan: &Plan) -> Result<(), SqlError> {
        if !self.source.is_raw() || self.options.structure_only {
            return Ok(());
        }
        let mut next = BTreeMap::new();
        if let (Some(archive), Some(chosen)) = (self.archive, &self.source.chosen) {
            let sequences =
                self.contents.tables.iter().find(|table| {
                    table.database.is_empty() && table.name == crate::sequences::TABLE
                });
            let sequences = sequences.and_then(|table| Some(TableId(table.raw.as_ref()?.id)));
            let mut replay = Replay {
                archive,
                chosen,
                targets: std::mem::take(&mut self.targets),
                sequences,
                next,
                job: self.job,
                throttle: &mut self.throttle,
            };
            let (kernel, claims, number) =
                (session.kernel.clone(), session.kernel.beside(), self.number);
            // Held still: who is taken for dead has its tables removed.
            let holds = async || -> Result<(), SqlError> {
                Ok(CLAIMS.hold(&kernel, number, WaitPolicy::Refuse).await?)
            };
            replay.all(&claims, holds).await?;
            next = replay.next;
        }
        for (target, (id, _)) in plan.tables.iter().zip(&self.made) {
            let saved = &self.contents.tables[target.saved];
            let of_base = self.source.base(target.saved).and_then(|(_, saved)| saved.next);
            let of_log = saved.raw.as_ref().and_then(|raw| next.get(&TableId(raw.id)).copied());
            if let Some(table) = session.kernel.cluster().tables.get(id).cloned() {
                raise(session, &table, of_base.max(of_log)).await?;
            }
        }
        Ok(())
    }

    /// Refuses what cannot be done with the rows of an archive.
    fn check_raw(&self, session: &Session, plan: &Plan) -> Result<(), SqlError> {
        if !self.source.is_raw() {
            return Ok(());
        }
        if self.options.data_only {
            return Err(failed("data_only is for backups, not for archives"));
        }
        let is_open = |target: &&Target| {
            target.definition.foreign_keys.iter().any(|key| !target.known.contains(&key.name))
        };
        match plan.tables.iter().find(is_open).filter(|_| session.variables.foreign_key_checks) {
            Some(target) => Err(failed(&format!(
                "{} refers to tables that are not restored with it: restore them together, or say \
                 SET foreign_key_checks = 0",
                target.name.full()
            ))),
            None => Ok(()),
        }
    }

    /// Inserts the rows of a table; how many there were.
    async fn fill(
        &mut self,
        session: &mut Session,
        saved: usize,
        into: &Destination,
    ) -> Result<u64, SqlError> {
        let stop = Cell::new(false);
        let mut filler = Filler::new(&session.kernel, into, self.job, &stop);
        match self.pass_rows(session, saved, into.placing.width(), &mut filler).await {
            Ok(()) => filler.finish(session).await,
            Err(error) => {
                filler.stop().await;
                Err(error)
            }
        }
    }

    /// Passes the rows of a table on.
    async fn pass_rows(
        &mut self,
        session: &mut Session,
        saved: usize,
        width: usize,
        filler: &mut Filler<'_>,
    ) -> Result<(), SqlError> {
        let kernel = session.kernel.beside();
        done(&kernel, self.files, BackupRequest::Rewind(saved)).await?;
        // The next portion is read while this one is inserted.
        let mut next = ask(&kernel, self.files, BackupRequest::Next).await?;
        loop {
            let BackupReply::Rows(Some(bytes)) = answered(&kernel, next).await? else {
                return Ok(());
            };
            next = ask(&kernel, self.files, BackupRequest::Next).await?;
            // Held still: who is taken for dead has its tables removed.
            CLAIMS.hold(&session.kernel, self.number, WaitPolicy::Refuse).await?;
            let mut rows = Rows(&bytes);
            let mut left = bytes.len();
            while let Some(row) = rows.next(width)? {
                let size = left - rows.0.len();
                left = rows.0.len();
                filler.add(session, row, size).await?;
            }
            let bytes = bytes.len() as u64;
            self.job.tell(|job| job.bytes += bytes)?;
            self.throttle.pace(&kernel, self.job, bytes).await?;
        }
    }

    /// Adds the accounts of the backup that are not there.
    async fn accounts(&self, session: &mut Session) -> Result<(), SqlError> {
        for _ in 0..ACCOUNT_ATTEMPTS {
            let cluster = session.kernel.cluster();
            let is_new = |name: &str| !cluster.accounts.contains_key(name);
            let mut changes: BTreeMap<String, Option<model::Description>> = BTreeMap::new();
            for (name, text) in &self.contents.accounts {
                // The first account is there also before any was changed.
                let is_root = *name == crate::account::AccountName::root().key();
                if is_new(name) && !is_root {
                    changes.insert(name.clone(), Some(text.as_bytes().into()));
                }
            }
            if changes.is_empty() {
                return Ok(());
            }
            let command = session.shared.accounts.book(&session.kernel).adding(changes)?;
            match session.kernel.beside().change_schema(command).await {
                Ok(_) => return Ok(()),
                Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::SchemaChanged => {
                    session.catch_up().await;
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(failed("accounts change all the time: those of the backup were not added"))
    }
}

/// Whether users see a table of a backup.
fn is_shown(table: &SavedTable) -> bool {
    table.raw.as_ref().is_none_or(|raw| raw.is_shown)
}

/// Has AUTO_INCREMENT of a table begin at a value.
async fn raise(
    session: &Session,
    table: &Arc<model::Table>,
    next: Option<u64>,
) -> Result<(), SqlError> {
    if let Some(next) = next.filter(|next| *next > 1) {
        let start = session.shared.definitions.of(table)?.sequence_start();
        let sequences = session.shared.sequences.clone();
        sequences.raise(&session.kernel.beside(), table.id, next - 1, start).await?;
    }
    Ok(())
}

/// Refuses names that are given twice, tables whose parents are nowhere, `foreign_key_checks`
/// permitting, and those whose parents are others than in the backup.
fn check_parents(session: &Session, plan: &Plan) -> Result<(), SqlError> {
    let mut names = std::collections::BTreeSet::new();
    let views = plan.views.iter().map(|(_, name, _)| name);
    for name in plan.tables.iter().map(|target| &target.name).chain(views) {
        if !names.insert(name.full()) {
            return Err(error::table_exists(&name.name));
        }
    }
    for target in &plan.tables {
        let keys = target.definition.foreign_keys.iter();
        for key in keys.filter(|key| !target.known.contains(&key.name)) {
            let parent = key.parent.full();
            if names.contains(&parent) {
                return Err(failed(&format!(
                    "{} refers to {parent}, which is to be another table than in the backup: \
                     restore them one after the other",
                    target.name.full()
                )));
            }
            let is_there = session.kernel.cluster().table_named(&parent).is_some();
            if !is_there && session.variables.foreign_key_checks {
                return Err(SqlError::of::<1824>(&[&key.parent.name]));
            }
        }
    }
    Ok(())
}

/// What restores have made aside, by their numbers.
fn made_aside(session: &Session) -> BTreeMap<u64, Vec<TableId>> {
    let mut made: BTreeMap<u64, Vec<TableId>> = BTreeMap::new();
    for table in session.kernel.cluster().tables.values() {
        // What belongs to a table keeps the name it was made under, and goes with it.
        let own = Some(&table.name).filter(|_| table.hidden_behind.is_none());
        if let Some(number) = own.and_then(|name| restored_by(name)) {
            made.entry(number).or_default().push(table.id);
        }
    }
    made
}

/// Removes what restores have made aside whose processes are gone.
async fn sweep(session: &Session) -> Result<(), SqlError> {
    let beside = session.kernel.beside();
    for (number, tables) in made_aside(session) {
        let claimed = CLAIMS.hold(&beside, number, WaitPolicy::Refuse).await;
        let dropped = match claimed {
            Ok(()) => drop_all(&beside, tables).await,
            Err(_) => Ok(()),
        };
        beside.abort().await;
        dropped?;
    }
    Ok(())
}

async fn drop_all(kernel: &Kernel, tables: Vec<TableId>) -> Result<(), Failure> {
    for table in tables {
        kernel.change_schema(SchemaChange::DropTable { table }).await?;
    }
    Ok(())
}

/// Removes what restores have made aside whose processes have been gone for a while. Errors are for
/// the next who looks.
pub(crate) async fn sweep_restores(session: &Session) {
    let (made, abandoned) = (made_aside(session), &session.shared.abandoned);
    abandoned.forget_restores(|number| made.contains_key(&number));
    for (number, tables) in made {
        let beside = session.kernel.beside();
        let claimed = CLAIMS.hold(&beside, number, WaitPolicy::Refuse).await;
        let now = session.kernel.now();
        if abandoned.is_restore_given_up(number, claimed.is_ok(), now) {
            let _ = drop_all(&beside, tables).await;
        }
        beside.abort().await;
    }
}
