//! What the worker's disk is at, and how far its restart has come, for those who wait for it.

use model::Epoch;
use stdx::{Duration, Instant};

use super::{Disk, Stage};
use crate::participant::Participant;

/// What a worker has done of its restart, step by step. The extent of a step is known when it
/// begins, and is zero before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    /// Bytes of the files that are checked.
    pub check: StepProgress,
    /// Bytes that rows are read back from.
    pub read: StepProgress,
    /// Slots and entries of indexes.
    pub index: StepProgress,
    /// Rows that are back.
    pub rows: u64,
}

/// How much of a step is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepProgress {
    /// So much.
    pub done: u64,
    /// Of this.
    pub total: u64,
}

/// The open log.
#[derive(Clone, Copy, Debug)]
pub(in crate::participant) struct LogState {
    /// The newest epoch on this disk.
    pub(in crate::participant) saved: Epoch,
    /// The newest epoch that this worker knows to be on all disks.
    pub(in crate::participant) durable: Epoch,
    /// Since when there are changes that are not known to be on all disks.
    pub(in crate::participant) exposed_since: Option<Instant>,
    /// Bytes logged by this life, and replayed at its beginning.
    pub(in crate::participant) logged: u64,
    /// Bytes that wait to be written.
    pub(in crate::participant) unwritten: u64,
    /// Segments on the disk.
    pub(in crate::participant) segments: u64,
}

impl RestoreProgress {
    /// Adds another worker's.
    pub fn add(&mut self, other: &RestoreProgress) {
        for (own, other) in [
            (&mut self.check, other.check),
            (&mut self.read, other.read),
            (&mut self.index, other.index),
        ] {
            own.done += other.done;
            own.total += other.total;
        }
        self.rows += other.rows;
    }

    /// The restart is over.
    pub fn complete(&mut self) {
        for step in [&mut self.check, &mut self.read, &mut self.index] {
            step.done = step.total;
        }
    }
}

impl StepProgress {
    fn all(total: u64) -> Self {
        Self { done: total, total }
    }

    /// How long the rest takes, if it goes on as it went for `elapsed`.
    pub(in crate::participant) fn left(&self, elapsed: Duration) -> Option<Duration> {
        let left = u128::from(self.total.saturating_sub(self.done));
        let nanos = (u128::from(elapsed.as_nanos()) * left).checked_div(self.done.into())?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }
}

impl Disk {
    /// What it does, in a word or two.
    pub(in crate::participant) fn stage_name(&self) -> &'static str {
        match &self.stage {
            Stage::Settling(_) => "settling",
            Stage::Surveying(_) => "checking files",
            Stage::Surveyed(_) => "waiting",
            Stage::Restoring(_) => "restoring",
            Stage::Indexing(_) => "indexing",
            Stage::Opening => "opening",
            Stage::Open if self.is_full() => "full",
            Stage::Open => "open",
        }
    }

    /// The bytes that are being read, and since when; none when nothing is.
    pub(in crate::participant) fn reading(&self) -> Option<(StepProgress, Instant)> {
        let reading = match &self.stage {
            Stage::Surveying(surveying) => surveying.reading(),
            Stage::Restoring(restoring) => restoring.reading(),
            _ => return None,
        };
        Some((reading.progress(), reading.began()))
    }

    /// The log, when it is open.
    pub(in crate::participant) fn log_state(&self) -> Option<LogState> {
        self.log.as_ref().map(|log| LogState {
            saved: log.saved(),
            durable: log.durable(),
            exposed_since: log.exposed_since(),
            logged: log.logged(),
            unwritten: log.waiting(),
            segments: log.segment_count(),
        })
    }

    /// Files that were found damaged when this life began.
    pub(in crate::participant) fn damaged_files(&self) -> u64 {
        self.damaged_files
    }
}

impl Participant {
    /// How far the restart has come; none when it is over, or nothing is known of it yet.
    pub fn restore_progress(&self) -> Option<RestoreProgress> {
        let mut progress = RestoreProgress::default();
        match &self.disk.as_ref()?.stage {
            Stage::Settling(_) | Stage::Opening | Stage::Open => return None,
            Stage::Surveying(surveying) => progress.check = surveying.reading().progress(),
            Stage::Surveyed(survey) => progress.check = StepProgress::all(survey.bytes()),
            Stage::Restoring(restoring) => {
                progress.check = StepProgress::all(restoring.surveyed());
                progress.read = restoring.reading().progress();
            }
            Stage::Indexing(restoring) => {
                progress.check = StepProgress::all(restoring.surveyed());
                progress.read = restoring.reading().progress();
                for replica in self.replicas.values() {
                    let (total, left) = replica.partition.index_work();
                    progress.index.total += total;
                    progress.index.done += total - left.min(total);
                }
            }
        }
        progress.rows = self.replicas.values().map(|r| r.partition.row_count()).sum();
        Some(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done_in_proportion() {
        let left = |done, total| StepProgress { done, total }.left(Duration::from_secs(4));
        assert_eq!(left(200, 500), Some(Duration::from_secs(6)));
        assert_eq!(left(5, 5), Some(Duration::ZERO));
        assert_eq!(left(0, 500), None, "nothing to go by");
        assert_eq!(left(0, 0), None);
    }
}
