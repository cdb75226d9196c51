//! BACKUP, RESTORE and what is shown of them (docs/decisions/0069-backups-of-snapshots.md).
//!
//! # Owns
//! What is in a backup ([`Contents`]), the order in which it is written and read, and the jobs of
//! the process ([`Backups`]).
//! # Guarantees
//! A backup is the state of one epoch. It is one when it is complete, and nothing before. A restore
//! shows all of its tables at once, or none.
//! # Not here
//! Files (`host`, and behind it the process), changes of definitions (`ddl::restore`).

pub(crate) mod archive;
mod begun;
mod load;
mod options;
mod place;
mod rows;
mod save;
mod throttle;
pub(crate) mod time;

use sql_expression::SqlError;
use sql_parser::ast::Statement;
use sqltype::{Datum, SqlType};

use crate::backup_jobs::host::{self, BackupReply, BackupRequest, ListedBackup};
use crate::backup_jobs::{self as jobs};
use crate::error::unsupported;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;

pub(crate) use load::sweep_restores;
use place::place;
use time::shown_time;

/// Runs BACKUP, RESTORE, CANCEL BACKUP JOB, START or STOP ARCHIVE.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Statement,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    match statement {
        Statement::Backup(backup) => save::run(session, backup, out).await,
        Statement::Restore(restore) => load::run(session, restore, out).await,
        Statement::CancelBackup(number) => {
            if session.shared.directory.backups().cancel(*number) {
                Ok(Outcome::default())
            } else {
                Err(host::failed(&format!("no backup job {number} runs here")))
            }
        }
        Statement::StartArchive(start) => archive::start(session, start, out).await,
        Statement::StopArchive(number) => archive::stop(session, *number).await,
        _ => Err(unsupported("this statement")),
    }
}

/// The columns of SHOW BACKUP JOBS.
pub(crate) fn job_columns() -> [(&'static str, SqlType); 11] {
    let (text, number) = (SqlType::text(512), SqlType::unsigned_big_int);
    [
        ("Job", number()),
        ("Kind", SqlType::text(16)),
        ("Directory", text.clone()),
        ("User", text.clone()),
        ("Started", SqlType::text(32)),
        ("Tables_done", number()),
        ("Tables", number()),
        ("Rows", number()),
        ("Bytes", number()),
        ("State", text),
        ("Seconds_left", number()),
    ]
}

/// The rows of SHOW BACKUP JOBS: those of this SQL node.
pub(crate) fn jobs(session: &Session) -> Vec<Vec<Datum>> {
    let now = session.kernel.now();
    let row = |(number, job): (u64, jobs::Job)| {
        vec![
            Datum::UInt(number),
            Datum::text(job.kind),
            Datum::text(&job.place),
            Datum::text(&job.user),
            Datum::text(&shown_time(job.began)),
            Datum::UInt(job.tables.0 as u64),
            Datum::UInt(job.tables.1 as u64),
            Datum::UInt(job.rows),
            Datum::UInt(job.bytes),
            Datum::text(&job.state),
            job.seconds_left(now).map_or(Datum::Null, Datum::UInt),
        ]
    };
    session.shared.directory.backups().all().into_iter().map(row).collect()
}

/// The columns of SHOW BACKUPS.
pub(crate) fn backup_columns() -> [(&'static str, SqlType); 6] {
    let (text, number) = (SqlType::text(512), SqlType::unsigned_big_int);
    [
        ("Directory", text.clone()),
        ("Started", SqlType::text(32)),
        ("Epoch", number()),
        ("Bytes", number()),
        ("Encrypted", SqlType::text(3)),
        ("State", text),
    ]
}

/// The rows of SHOW BACKUPS: those in a directory of this host.
pub(crate) async fn backups(session: &Session, at: &[u8]) -> Result<Vec<Vec<Datum>>, SqlError> {
    let backups = session.shared.directory.backups().clone();
    let place = place(at, &backups)?;
    let files = backups.files()?;
    let request = BackupRequest::List(place);
    let BackupReply::Listing(found) = host::done(&session.kernel, &*files, request).await? else {
        return Err(host::failed("the host gives no list"));
    };
    let row = |backup: ListedBackup| {
        vec![
            Datum::text(&backup.place),
            Datum::text(&shown_time(backup.began)),
            Datum::UInt(backup.epoch),
            Datum::UInt(backup.bytes),
            Datum::text(if backup.is_encrypted { "YES" } else { "NO" }),
            Datum::text(&backup.state),
        ]
    };
    Ok(found.into_iter().map(row).collect())
}
