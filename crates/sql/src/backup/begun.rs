//! A backup or a restore that has begun, for the connection that asked for it or for nobody.
//!
//! # Owns
//! [`Begun`]; the work of one that nobody waits for.
//! # Guarantees
//! Its job is known before anybody is answered. Nobody's end ends what is detached but its own
//! process's, and CANCEL BACKUP JOB.
//! # Not here
//! What is done (`save`, `load`), who runs the task (`node`).

use std::rc::Rc;

use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::{Datum, SqlType, TimeZone};
use stdx::Instant;

use super::options::Options;
use super::place::place;
use super::time::now;
use super::{load, save};
use crate::backup_jobs::host::BackupFiles;
use crate::backup_jobs::{Job, OwnJob};
use crate::kernel::Kernel;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::detached::Detached;
use crate::session::{Origin, Session, Shared};

/// A backup or a restore that has begun.
pub(super) struct Begun {
    pub(super) options: Options,
    pub(super) place: String,
    pub(super) files: Box<dyn BackupFiles>,
    pub(super) job: OwnJob,
}

impl Begun {
    /// Begins a job: `BACKUP` or `RESTORE`.
    pub(super) fn new(
        session: &Session,
        kind: &'static str,
        statement: &ast::Backup,
        options: Options,
    ) -> Result<Self, SqlError> {
        let backups = session.shared.directory.backups().clone();
        let place = place(&statement.place, &backups)?;
        let files = backups.files()?;
        let (user, began) = (session.user.clone(), now(session));
        let job = Job { kind, place: place.clone(), user, began, ..Job::default() };
        Ok(Self { options, place, files, job: backups.begin(job) })
    }

    /// Has a task of its own do the rest, and tells the number of the job.
    pub(super) async fn detach(
        self,
        session: &Session,
        statement: &ast::Backup,
        out: &mut ResultWriter,
    ) -> Result<Outcome, SqlError> {
        let (number, place) = (self.job.number, self.place.clone());
        let work = Work {
            begun: self,
            statement: statement.clone(),
            user: session.user.clone(),
            database: session.database.clone(),
            foreign_key_checks: session.variables.foreign_key_checks,
            time_zone: session.variables.time_zone.clone(),
            time: (session.statement_time, session.statement_began),
            seed: session.kernel.draw(),
        };
        let begin = Detached(Box::new(|kernel, shared| Box::pin(work.run(kernel, shared))));
        session.shared.detached.borrow_mut().push(begin);
        out.columns(&[
            ResultColumn::new("Job", SqlType::unsigned_big_int()),
            ResultColumn::new("Directory", SqlType::text(512)),
        ]);
        out.row(&[Datum::UInt(number), Datum::text(&place)]);
        out.drain().await;
        Ok(Outcome::Rows)
    }
}

/// A backup or a restore that a task of its own does.
struct Work {
    begun: Begun,
    statement: ast::Backup,
    /// Of the session that asked for it.
    user: String,
    database: Option<String>,
    foreign_key_checks: bool,
    time_zone: TimeZone,
    /// When its statement began, in microseconds since 1970 UTC and on the clock of the worker.
    time: (i64, Instant),
    seed: u64,
}

impl Work {
    /// Does what is to be done. What comes of it its job tells.
    async fn run(self, kernel: Kernel, shared: Rc<Shared>) {
        let origin = Origin { number: 0, seed: self.seed, clock_base: self.time.0 };
        let mut session = Session::new(kernel, shared, origin);
        (session.user, session.database) = (self.user, self.database);
        session.variables.foreign_key_checks = self.foreign_key_checks;
        session.variables.time_zone = self.time_zone;
        (session.statement_time, session.statement_began) = self.time;
        // It rests beside those who wait for an answer.
        session.kernel.begin_statement(None);
        let _ = match self.begun.job.kind() {
            load::KIND => load::perform(&mut session, &self.statement, self.begun).await.map(drop),
            _ => save::perform(&mut session, &self.statement, self.begun).await.map(drop),
        };
    }
}
