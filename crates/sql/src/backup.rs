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
mod rows;
mod save;
mod throttle;

use sql_expression::SqlError;
use sql_parser::ast::Statement;
use sqltype::{Datum, SqlType};

use crate::backup_jobs::host::{self, BackupReply, BackupRequest, ListedBackup};
use crate::backup_jobs::{self as jobs, Backups};
use crate::error::unsupported;
use crate::result::{Outcome, ResultWriter};
use crate::session::Session;

pub(crate) use load::sweep_restores;

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
            match session.shared.directory.backups().cancel(*number) {
                true => Ok(Outcome::default()),
                false => Err(host::failed(&format!("no backup job {number} runs here"))),
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

/// A place that a statement names: a directory, or `s3://bucket/path`; a name without a `/` at its
/// beginning is in the place of backups that is configured.
///
/// # Errors
/// For what is no absolute path without `..`, for other addresses, and for addresses with more in
/// them than a path, which may be a key and is not repeated.
fn place(given: &[u8], backups: &Backups) -> Result<String, SqlError> {
    let place = String::from_utf8_lossy(given).into_owned();
    let base = backups.policy().directory;
    if let Some(base) = base.filter(|_| !place.starts_with('/') && !place.contains("://")) {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if !place.split('/').all(is_plain) || place.contains(['\0', '@', '?', '#', '&']) {
            let why = format!("'{place}' is no plain name of a backup in {base}");
            return Err(host::failed(&why));
        }
        return Ok(format!("{}/{place}", base.trim_end_matches('/')));
    }
    if let Some((scheme, path)) = place.split_once("://") {
        if path.contains(['@', '?', '#', '&']) {
            let why = "an address is s3://BUCKET/PATH: keys do not belong into statements, but \
                       into the environment of the SQL node or the file of \
                       BackupS3CredentialsFile";
            return Err(host::failed(why));
        }
        if scheme != "s3" {
            let why = "backups are in directories of the SQL node's host or in object stores: \
                       s3://BUCKET/PATH";
            return Err(host::failed(why));
        }
        return Ok(place);
    }
    let has_dots = place.split('/').any(|part| part == "..");
    if !place.starts_with('/') || has_dots || place.contains('\0') {
        let why = format!("'{place}' is no absolute path of a directory without '..'");
        return Err(host::failed(&why));
    }
    Ok(place)
}

/// Whether the same may succeed when it is tried again.
fn is_temporary(error: &SqlError) -> bool {
    matches!(error.code(), 1205 | 1213 | 1297 | 1412)
}

/// The time now: microseconds since 1970 UTC.
fn now(session: &Session) -> i64 {
    let since = session.kernel.now().since(session.statement_began);
    let micros = i64::try_from(since.as_nanos() / 1_000).unwrap_or(i64::MAX);
    session.statement_time.saturating_add(micros)
}

/// A time, in microseconds since 1970 UTC, as lists show it: UTC, to the second.
pub fn shown_time(micros: i64) -> String {
    let (day, second) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = stdx::calendar::date_of(day);
    let second = second / 1_000_000;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
