//! The backups and restores of a process: what runs, how far it is, what came of the last ones.
//!
//! # Owns
//! [`Backups`], shared by the SQL workers of a process.
//! # Not here
//! Jobs of other SQL nodes: each knows its own.

pub(crate) mod chain;
pub(crate) mod host;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sql_expression::SqlError;
use stdx::Instant;

use self::host::{BackupFiles, BackupHost, failed};

/// Jobs that have ended and are shown.
const ENDED_MAX: usize = 50;

/// The backups and restores of a process.
#[derive(Clone, Debug, Default)]
pub struct Backups(Arc<Inner>);

/// What the configuration says of backups.
#[derive(Clone, Debug, Default)]
pub struct BackupPolicy {
    /// Bytes of rows that a backup or a restore handles in a second; none for no limit.
    pub rate: Option<u64>,
    /// A backup has a key.
    pub requires_key: bool,
    /// Where backups are made that are given a name and no place.
    pub directory: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    host: OnceLock<Arc<dyn BackupHost>>,
    policy: OnceLock<BackupPolicy>,
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Jobs {
    last: u64,
    by_number: BTreeMap<u64, Job>,
}

/// A backup or a restore.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// `BACKUP` or `RESTORE`.
    pub(crate) kind: &'static str,
    /// The directory.
    pub(crate) place: String,
    /// Who asked, as `user@host`.
    pub(crate) user: String,
    /// When it began: microseconds since 1970 UTC.
    pub(crate) began: i64,
    /// Tables that are done, and all.
    pub(crate) tables: (usize, usize),
    /// Rows so far.
    pub(crate) rows: u64,
    /// Bytes of rows so far, before they are compressed.
    pub(crate) bytes: u64,
    /// Since when rows are handled, and how many there are about, where that is known.
    pub(crate) work: Option<(Instant, u64)>,
    /// `running`, `succeeded`, or why it failed.
    pub(crate) state: String,
    /// It is to end.
    pub(crate) is_cancelled: bool,
}

impl Job {
    /// How long it will take still, if it goes on as it has.
    pub(crate) fn seconds_left(&self, now: Instant) -> Option<u64> {
        let (began, all) = self.work.filter(|_| self.state == RUNNING && self.rows > 0)?;
        let taken = u128::from(now.since(began).as_nanos());
        let left = u128::from(all.saturating_sub(self.rows));
        u64::try_from((taken * left / u128::from(self.rows)).div_ceil(1_000_000_000)).ok()
    }
}

impl Backups {
    /// Has files written and read by this host. The first one counts.
    pub fn serve_by(&self, host: Arc<dyn BackupHost>) {
        // A second one has nothing to say.
        let _ = self.0.host.set(host);
    }

    /// Has backups follow what the configuration says. The first time counts.
    pub fn configure(&self, policy: BackupPolicy) {
        // A second one has nothing to say.
        let _ = self.0.policy.set(policy);
    }

    pub(crate) fn policy(&self) -> BackupPolicy {
        self.0.policy.get().cloned().unwrap_or_default()
    }

    pub(crate) fn host(&self) -> Result<Arc<dyn BackupHost>, SqlError> {
        let host = self.0.host.get().cloned();
        host.ok_or_else(|| failed("this SQL node has no files for backups"))
    }

    /// A thread of the host that writes or reads one backup.
    pub(crate) fn files(&self) -> Result<Box<dyn BackupFiles>, SqlError> {
        self.host()?.begin().ok_or_else(|| failed("the system has no more threads"))
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        // Whoever panicked left plain values.
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job begins.
    pub(crate) fn begin(&self, job: Job) -> OwnJob {
        let mut jobs = self.lock();
        jobs.last += 1;
        let number = jobs.last;
        let state = RUNNING.to_owned();
        jobs.by_number.insert(number, Job { state, ..job });
        let ended: Vec<u64> = jobs
            .by_number
            .iter()
            .filter(|(_, job)| job.state != RUNNING)
            .map(|(number, _)| *number)
            .collect();
        for number in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
            jobs.by_number.remove(number);
        }
        OwnJob { backups: self.clone(), number }
    }

    /// All that are known, by number.
    pub(crate) fn all(&self) -> Vec<(u64, Job)> {
        self.lock().by_number.iter().map(|(number, job)| (*number, job.clone())).collect()
    }

    /// Has a job end; false if none of this number runs.
    pub(crate) fn cancel(&self, number: u64) -> bool {
        let mut jobs = self.lock();
        let job = jobs.by_number.get_mut(&number).filter(|job| job.state == RUNNING);
        job.map(|job| job.is_cancelled = true).is_some()
    }
}

const RUNNING: &str = "running";

/// A job, for whoever does it. Dropped before its end it has failed.
#[derive(Debug)]
pub(crate) struct OwnJob {
    backups: Backups,
    pub(crate) number: u64,
}

impl OwnJob {
    /// Says how far it is.
    ///
    /// # Errors
    /// 1317 when it is to end.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Job)) -> Result<(), SqlError> {
        let mut jobs = self.backups.lock();
        let Some(job) = jobs.by_number.get_mut(&self.number) else { return Ok(()) };
        change(job);
        if job.is_cancelled {
            let text = format!("Job {} was cancelled", self.number);
            Err(SqlError::new(1317, "70100", text))
        } else {
            Ok(())
        }
    }

    /// `BACKUP` or `RESTORE`.
    pub(crate) fn kind(&self) -> &'static str {
        self.backups.lock().by_number.get(&self.number).map_or("", |job| job.kind)
    }

    /// It has ended.
    pub(crate) fn end(self, result: &Result<(), SqlError>) {
        let state = match result {
            Ok(()) => "succeeded".to_owned(),
            Err(error) => format!("failed: {}", error.message()),
        };
        self.set(&state);
    }

    fn set(&self, state: &str) {
        let mut jobs = self.backups.lock();
        let job = jobs.by_number.get_mut(&self.number).filter(|job| job.state == RUNNING);
        if let Some(job) = job {
            state.clone_into(&mut job.state);
        }
    }
}

impl Drop for OwnJob {
    fn drop(&mut self) {
        self.set("failed: its connection has ended");
    }
}

#[cfg(test)]
mod tests {
    use stdx::Duration;

    use super::*;

    #[test]
    fn a_job_is_known_to_its_end_and_cancelled_once() {
        let backups = Backups::default();
        assert!(backups.host().is_err() && !backups.cancel(1));
        let first = backups.begin(Job { kind: "BACKUP", ..Job::default() });
        let second = backups.begin(Job::default());
        let began = Instant::ZERO + Duration::from_secs(100);
        assert_eq!(backups.all()[0].1.seconds_left(began), None);
        assert!(first.tell(|job| (job.rows, job.work) = (5, Some((began, 25)))).is_ok());
        let (_, job) = &backups.all()[0];
        assert_eq!(job.seconds_left(began + Duration::from_secs(10)), Some(40));
        assert!(backups.cancel(first.number));
        assert_eq!(first.tell(|_| ()).unwrap_err().code(), 1317);
        let cancelled = first.tell(|_| ());
        first.end(&cancelled);
        drop(second);
        let states: Vec<String> = backups.all().into_iter().map(|(_, job)| job.state).collect();
        assert_eq!(states, ["failed: Job 1 was cancelled", "failed: its connection has ended"]);
        assert!(!backups.cancel(1), "it has ended");
        for _ in 0..2 * ENDED_MAX {
            backups.begin(Job::default()).end(&Ok(()));
        }
        assert_eq!(backups.all().len(), ENDED_MAX + 1);
    }
}
