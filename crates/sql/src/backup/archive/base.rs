//! Full backups that chains are restored from: all tables of one epoch, as the kernel has them.
//!
//! # Guarantees
//! As of any backup (`save`): rows and definitions are of one epoch, and what is not finished is
//! none. All tables that the log of the chain has changes of are in it, also those that nobody sees
//! yet: they may get a name later.
//! # Failure
//! One that fails is begun anew by the driver of the archive.

use std::cell::RefCell;
use std::rc::Rc;

use model::{Epoch, TableId};
use sql_expression::SqlError;
use stdx::Duration;
use wire::Projection;

use super::definitions::definitions;
use super::log::Definitions;
use crate::access::{ReadMode, Reader};
use crate::backup::save::{Snapshot, Writing, rows_of};
use crate::backup::throttle::Throttle;
use crate::backup::time::{now, time};
use crate::backup_jobs::chain::ChainBase;
use crate::backup_jobs::host::{
    BackupFiles, BackupKey, BackupReply, BackupRequest, Contents, done, failed,
};
use crate::backup_jobs::{Job, OwnJob};
use crate::kernel::Kernel;
use crate::session::detached::Detached;
use crate::session::{Origin, Session};

/// What jobs of such backups are called.
const KIND: &str = "ARCHIVE";
/// How often it is begun anew because definitions change meanwhile, and the pause before.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A full backup under way.
#[derive(Debug)]
pub(super) struct Base {
    result: Rc<RefCell<Option<Result<ChainBase, SqlError>>>>,
    /// Of its job.
    number: u64,
}

impl Base {
    /// How it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Result<ChainBase, SqlError>> {
        self.result.borrow_mut().take()
    }

    /// Has it end: its chain is no more.
    pub(super) fn cancel(&self, session: &Session) {
        session.shared.directory.backups().cancel(self.number);
    }
}

/// What is to be done.
pub(super) struct Task {
    /// The place of the backup.
    pub(super) place: String,
    pub(super) key: BackupKey,
    /// The chain that it belongs to.
    pub(super) chain: String,
    /// The first epoch of the chain's log: the backup is of the one before, or of a later one.
    pub(super) first: u64,
    pub(super) accounts: bool,
    pub(super) max_rate: Option<u64>,
    pub(super) user: String,
}

impl Task {
    /// Has a task of its own make the backup.
    pub(super) fn begin(self, session: &Session, clock_base: i64) -> Result<Base, SqlError> {
        let backups = session.shared.directory.backups().clone();
        let files = backups.files()?;
        let (place, user) = (self.place.clone(), self.user.clone());
        let began = time(&session.kernel, clock_base);
        let job = backups.begin(Job { kind: KIND, place, user, began, ..Job::default() });
        let result = Rc::new(RefCell::new(None));
        let base = Base { result: result.clone(), number: job.number };
        let seed = session.kernel.draw();
        let work = move |kernel: Kernel, shared| async move {
            let mut session = Session::new(kernel, shared, Origin { number: 0, seed, clock_base });
            session.statement_time = time(&session.kernel, clock_base);
            session.statement_began = session.kernel.now();
            // It rests beside those who wait for an answer.
            session.kernel.begin_statement(None);
            let ended = self.whole(&mut session, &*files, &job).await;
            job.end(&ended.as_ref().map(|_| ()).map_err(Clone::clone));
            *result.borrow_mut() = Some(ended);
        };
        let begin = Detached(Box::new(|kernel, shared| Box::pin(work(kernel, shared))));
        session.shared.detached.borrow_mut().push(begin);
        Ok(base)
    }

    async fn whole(
        &self,
        session: &mut Session,
        files: &dyn BackupFiles,
        job: &OwnJob,
    ) -> Result<ChainBase, SqlError> {
        let kernel = session.kernel.beside();
        let create = BackupRequest::Create { place: self.place.clone(), key: self.key.clone() };
        done(&kernel, files, create).await?;
        let rate = self.max_rate.or(session.shared.directory.backups().policy().rate);
        let mut throttle = Throttle::new(rate);
        let (snapshot, defined) = self.opened(session, &kernel).await?;
        let cluster = kernel.cluster();
        let began = now(session);
        let mut contents = Contents {
            version: crate::VERSION.to_owned(),
            epoch: snapshot.epoch.0,
            began,
            subject: "ALL".to_owned(),
            cluster: format!("{:?}", cluster.id),
            databases: defined.databases,
            tables: defined.tables,
            views: defined.views,
            accounts: defined.accounts,
            chain: Some(self.chain.clone()),
            ..Contents::default()
        };
        let count = contents.tables.len();
        job.tell(|job| job.tables = (0, count))?;
        for (at, saved) in contents.tables.iter_mut().enumerate() {
            let Some(raw) = &saved.raw else { continue };
            let table = cluster.tables.get(&TableId(raw.id)).cloned();
            let Some(table) = table.filter(|table| table.name != crate::sequences::TABLE) else {
                continue;
            };
            let is_base = table.hidden_behind.is_none();
            let columns: Vec<usize> = raw.columns.iter().map(|of| usize::from(of.id)).collect();
            let mode = ReadMode::Snapshot(snapshot.epoch);
            let (kernel, projection) = (kernel.clone(), Projection::All);
            let reader = Reader { kernel, table: table.clone(), mode, projection };
            let throttle = &mut throttle;
            let mut writing = Writing { files, job, throttle, older: None, is_raw: true };
            saved.rows = rows_of(at, &reader, &columns, &mut writing).await?;
            if is_base {
                // Read after the rows: what they have was given out before.
                saved.next = session.shared.sequences.kept(&reader.kernel, table.id).await?;
            }
            job.tell(|job| job.tables.0 = at + 1)?;
        }
        drop(snapshot);
        contents.ended = now(session);
        let finish = BackupRequest::Finish(Box::new(contents.clone()));
        match done(&kernel, files, finish).await? {
            BackupReply::Finished(_) => {
                Ok(ChainBase { place: self.place.clone(), epoch: contents.epoch, began })
            }
            _ => Err(failed("the host gives no size of the backup")),
        }
    }

    /// Opens a snapshot whose definitions are of the same moment.
    async fn opened<'a>(
        &self,
        session: &mut Session,
        kernel: &'a Kernel,
    ) -> Result<(Snapshot<'a>, Definitions), SqlError> {
        for _ in 0..ATTEMPTS {
            session.catch_up().await;
            let before = definitions(&kernel.cluster(), self.accounts)?;
            let snapshot = Snapshot { kernel, epoch: kernel.open_snapshot().await? };
            session.catch_up().await;
            let is_late = snapshot.epoch.next() >= Epoch(self.first);
            if is_late && before == definitions(&kernel.cluster(), self.accounts)? {
                return Ok((snapshot, before));
            }
            drop(snapshot);
            kernel.sleep(PAUSE).await?;
        }
        Err(failed(
            "definitions change all the time: none of them holds for the time of a snapshot",
        ))
    }
}
