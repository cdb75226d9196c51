//! RESTORE: definitions and rows of a backup, under names that are free.
//!
//! # Guarantees
//! Nothing is changed before every byte of the backup was checked. Tables are filled where nobody
//! sees them, and shown by one command when all rows are there and on the disks. A restore that
//! fails removes what it has made; of one whose process died the next one removes it.
//! # Not here
//! Changes of definitions (`ddl::restore`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use client::ClientOperation;
use model::{ErrorCode, SchemaChange, TableId, Value};
use sql_expression::SqlError;
use sql_parser::ast::{self, BackupSubject};
use sqltype::Datum;
use stdx::Duration;
use wire::WaitPolicy;

use super::options::Options;
use super::rows::Rows;
use super::throttle::Throttle;
use super::{is_temporary, now};
use crate::backup_jobs::host::{
    BackupFiles, BackupReply, BackupRequest, Contents, answered, ask, done, failed,
};
use crate::backup_jobs::{Job, OwnJob};
use crate::catalog::draft::Complete;
use crate::catalog::names::{RESTORE_PREFIX, TableName, restored_by};
use crate::catalog::{ForeignKeyDefinition, TableDefinition, error};
use crate::claim::Claims;
use crate::ddl::restore;
use crate::execute::reference::batch::Batch;
use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::execute::scan::datum_of;
use crate::kernel::{Failure, Kernel};
use crate::plan::Planner;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;

/// The claims on restores: who holds one is at work on the tables of its number.
const CLAIMS: Claims = Claims { table: "#restores", column: "restore_id", width: 8 };
/// Rows inserted in one transaction.
const BATCH: usize = 512;
/// Bytes of rows after which a batch ends.
const BATCH_BYTES: usize = 1 << 20;
/// How often a batch is tried that meets a failing node.
const ATTEMPTS: u32 = 60;
/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// The error of a commit that nobody knows whether it took place.
const OUTCOME_UNKNOWN: u16 = 1296;
/// How often accounts are looked at again because others have changed them.
const ACCOUNT_ATTEMPTS: u32 = 20;

/// Runs RESTORE.
pub(super) async fn run(
    session: &mut Session,
    restore: &ast::Backup,
    _: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let options = Options::read(&restore.options, true)?;
    let backups = session.shared.directory.backups().clone();
    let place = super::place(&restore.place, &backups)?;
    let files = backups.host()?.begin().ok_or_else(|| failed("the system has no more threads"))?;
    let (kind, user) = ("RESTORE", session.user.clone());
    let began = now(session);
    let job = backups.begin(Job { kind, place: place.clone(), user, began, ..Job::default() });
    let number = session.kernel.draw() >> 1;
    let open = BackupRequest::Open { place, key: options.key.clone() };
    let result = match done(&session.kernel.beside(), &*files, open).await {
        Ok(BackupReply::Contents(contents)) => {
            let claimed = CLAIMS.hold(&session.kernel, number, WaitPolicy::Refuse).await;
            match claimed {
                Ok(()) => {
                    let mut work = Work {
                        contents: &contents,
                        options: &options,
                        files: &*files,
                        job: &job,
                        number,
                        made: Vec::new(),
                        replaced: Vec::new(),
                        databases: Vec::new(),
                        rows: 0,
                        throttle: Throttle::new(options.max_rate.or(backups.policy().rate)),
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
        Ok(_) => Err(failed("the host does not say what is in the backup")),
        Err(error) => Err(error),
    };
    job.end(&result.as_ref().map(|_| ()).map_err(Clone::clone));
    let rows = result?;
    Ok(Outcome::with_info(rows, format!("Records: {rows}")))
}

/// A restore under way.
struct Work<'a> {
    contents: &'a Contents,
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
        let rows = match self.options.structure_only {
            true => 0,
            false => plan.tables.iter().map(|of| self.contents.tables[of.saved].rows).sum(),
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
            if table.database == from {
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
        if let Some(at) = tables.position(|table| is_it(&table.database, &table.name)) {
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
        let from = |other: &Target| match self.options.data_only {
            // The definitions are those that are there, and so are the names in them.
            true => other.name.clone(),
            false => self.saved(other.saved),
        };
        let names: Vec<(TableName, TableName)> =
            plan.tables.iter().map(|other| (from(other), other.name.clone())).collect();
        for target in &mut plan.tables {
            let own = match self.options.data_only {
                true => target.name.clone(),
                false => self.saved(target.saved),
            };
            for key in &mut target.definition.foreign_keys {
                let found = match key.parent == own {
                    true => Some(&target.name),
                    false => names.iter().find(|(from, _)| *from == key.parent).map(|(_, to)| to),
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
        let places = places(&table, &saved.columns, &target.name)?;
        let definition = session.shared.definitions.of(&table)?;
        let definition = Rc::new(TableDefinition {
            name: target.name.name.clone(),
            ..TableDefinition::clone(&definition)
        });
        // Rows whose parents are in the same backup have them.
        let keys = definition.foreign_keys.iter().enumerate();
        let is_known = |key: &ForeignKeyDefinition| target.known.contains(&key.name);
        let known: Vec<usize> = keys.filter(|(_, key)| is_known(key)).map(|key| key.0).collect();
        let is_checked =
            session.variables.foreign_key_checks && known.len() < definition.foreign_keys.len();
        let maker = match is_checked {
            true => Some(RowMaker::new(&mut Planner::new(session, &[]), &definition, false)?),
            false => None,
        };
        let into = Destination { table, definition: definition.clone(), places, maker, known };
        let count = self.fill(session, target.saved, &into).await?;
        if count != saved.rows {
            let (name, rows) = (target.name.full(), saved.rows);
            return Err(failed(&format!("{name} has {count} rows in the backup, and not {rows}")));
        }
        self.rows += count;
        if let Some(next) = saved.next.filter(|next| *next > 1) {
            let sequences = session.shared.sequences.clone();
            let start = definition.sequence_start();
            sequences.raise(&session.kernel.beside(), into.table.id, next - 1, start).await?;
        }
        Ok(())
    }

    /// Inserts the rows of a table; how many there were.
    async fn fill(
        &mut self,
        session: &mut Session,
        saved: usize,
        into: &Destination,
    ) -> Result<u64, SqlError> {
        let kernel = session.kernel.beside();
        done(&kernel, self.files, BackupRequest::Rewind(saved)).await?;
        let width = self.contents.tables[saved].columns.len();
        let mut count = 0;
        // The next portion is read while this one is inserted.
        let mut next = ask(&kernel, self.files, BackupRequest::Next).await?;
        loop {
            let BackupReply::Rows(Some(bytes)) = answered(&kernel, next).await? else {
                return Ok(count);
            };
            next = ask(&kernel, self.files, BackupRequest::Next).await?;
            // Held still: who is taken for dead has its tables removed.
            CLAIMS.hold(&session.kernel, self.number, WaitPolicy::Refuse).await?;
            let mut rows = Rows(&bytes);
            let mut batch: Vec<Vec<Value>> = Vec::with_capacity(BATCH);
            let mut left = bytes.len();
            while let Some(row) = rows.next(width)? {
                batch.push(into.placed(row));
                if batch.len() == BATCH || left - rows.0.len() >= BATCH_BYTES {
                    left = rows.0.len();
                    count += self.insert(session, &kernel, into, &mut batch).await?;
                }
            }
            count += self.insert(session, &kernel, into, &mut batch).await?;
            let bytes = bytes.len() as u64;
            self.job.tell(|job| job.bytes += bytes)?;
            self.throttle.pace(&kernel, self.job, bytes).await?;
        }
    }

    /// Inserts rows in a transaction of their own; how many.
    async fn insert(
        &self,
        session: &mut Session,
        kernel: &Kernel,
        into: &Destination,
        batch: &mut Vec<Vec<Value>>,
    ) -> Result<u64, SqlError> {
        let rows = std::mem::take(batch);
        if rows.is_empty() {
            return Ok(0);
        }
        let count = rows.len() as u64;
        let mut is_known = true;
        for attempt in 1.. {
            let result = match &into.maker {
                None => into.send(kernel, &rows, is_known).await,
                Some(maker) => into.send_checked(session, kernel, maker, &rows, is_known).await,
            };
            let Err((error, known)) = result else { break };
            is_known &= known;
            kernel.abort().await;
            if known && !is_temporary(&error) || attempt == ATTEMPTS {
                return Err(error);
            }
            kernel.sleep(PAUSE).await?;
        }
        self.job.tell(|job| job.rows += count)?;
        kernel.breathe().await?;
        Ok(count)
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

/// Where the values of a saved row stand in a row of the table.
fn places(
    table: &model::Table,
    saved: &[String],
    name: &TableName,
) -> Result<Vec<usize>, SqlError> {
    let place = |column: &String| table.columns.iter().position(|own| own.name == *column);
    let places: Option<Vec<usize>> = saved.iter().map(place).collect();
    let references = table.large.as_ref().map(|large| usize::from(large.references.0));
    let is_filled = |places: &Vec<usize>| {
        let filled = |at: usize| Some(at) == references || places.contains(&at);
        (0..table.columns.len()).all(filled)
    };
    places.filter(is_filled).ok_or_else(|| {
        failed(&format!(
            "the rows of {} in the backup are not those of its definition",
            name.full()
        ))
    })
}

/// A table that is filled.
struct Destination {
    table: Arc<model::Table>,
    definition: Rc<TableDefinition>,
    /// Where the values of a saved row stand.
    places: Vec<usize>,
    /// Of a table that refers to others which are there already.
    maker: Option<RowMaker>,
    /// The foreign keys whose parents are known to be there.
    known: Vec<usize>,
}

/// Why rows were not inserted, and whether that is known for sure.
type NotInserted = (SqlError, bool);

impl Destination {
    fn placed(&self, row: Vec<Value>) -> Vec<Value> {
        let mut values = vec![Value::Null; self.table.columns.len()];
        for (at, value) in self.places.iter().zip(row) {
            values[*at] = value;
        }
        values
    }

    /// A row, which is perhaps there already when an attempt before has ended in the unknown.
    fn operation(&self, row: &[Value], is_known: bool) -> ClientOperation {
        let (id, row) = (self.table.id, row.to_vec());
        let operation = match is_known {
            true => ClientOperation::insert(id, row),
            false => ClientOperation::upsert(id, row),
        };
        operation.of_version(self.table.version)
    }

    async fn send(
        &self,
        kernel: &Kernel,
        rows: &[Vec<Value>],
        is_known: bool,
    ) -> Result<(), NotInserted> {
        let operations = rows.iter().map(|row| self.operation(row, is_known)).collect();
        let sent = kernel.execute_all(operations, true).await;
        sent.map(|_| ()).map_err(|rejected| {
            let known = !matches!(rejected.failure, Failure::OutcomeUnknown(_));
            (rejected.failure.into(), known)
        })
    }

    /// The same, with a search for the parents of the rows.
    async fn send_checked(
        &self,
        session: &mut Session,
        kernel: &Kernel,
        maker: &RowMaker,
        rows: &[Vec<Value>],
        is_known: bool,
    ) -> Result<(), NotInserted> {
        let mut batch = Batch::default();
        let run = Run::new(session, &[]);
        for row in rows {
            let value = |column: &crate::catalog::ColumnDefinition| {
                datum_of(row[usize::from(column.column.0)].clone(), &column.sql_type, &run)
            };
            let shown: Vec<Datum> = self.definition.columns.iter().map(value).collect();
            batch.push(self.operation(row, is_known), shown);
            batch.refer(maker, row, None, &self.known).map_err(|error| (error, true))?;
        }
        run.finish();
        let sent = batch.send(kernel, maker, true).await;
        // Whether it was committed the error does not say.
        sent.map(|_| ()).map_err(|error| {
            let known = !is_temporary(&error) && error.code() != OUTCOME_UNKNOWN;
            (error, known)
        })
    }
}

/// Removes what restores have made aside whose processes are gone.
async fn sweep(session: &Session) -> Result<(), SqlError> {
    let mut left: BTreeMap<u64, Vec<TableId>> = BTreeMap::new();
    for table in session.kernel.cluster().tables.values() {
        // What belongs to a table keeps the name it was made under, and goes with it.
        let own = Some(&table.name).filter(|_| table.hidden_behind.is_none());
        if let Some(number) = own.and_then(|name| restored_by(name)) {
            left.entry(number).or_default().push(table.id);
        }
    }
    let beside = session.kernel.beside();
    for (number, tables) in left {
        let claimed = CLAIMS.hold(&beside, number, WaitPolicy::Refuse).await;
        if claimed.is_ok() {
            for table in tables {
                beside.change_schema(SchemaChange::DropTable { table }).await?;
            }
        }
        beside.abort().await;
    }
    Ok(())
}
