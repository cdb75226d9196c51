//! What the worker's disk is at, for those who ask.

use model::Epoch;
use stdx::{Duration, Instant};

use super::{Disk, Stage};

/// How far reading is.
#[derive(Clone, Copy, Debug)]
pub(in crate::participant) struct Progress {
    /// Bytes that were read, and all that are to be.
    pub(in crate::participant) done: u64,
    pub(in crate::participant) total: u64,
    /// How long the rest takes, if it goes on as it went.
    pub(in crate::participant) left: Option<Duration>,
}

/// The open log.
#[derive(Clone, Copy, Debug)]
pub(in crate::participant) struct LogState {
    /// The newest epoch on this disk.
    pub(in crate::participant) saved: Epoch,
    /// The newest epoch that this worker knows to be on all disks.
    pub(in crate::participant) durable: Epoch,
    /// Bytes that wait to be written.
    pub(in crate::participant) unwritten: u64,
    /// Segments on the disk.
    pub(in crate::participant) segments: u64,
}

impl Progress {
    pub(super) fn new(began: Instant, now: Instant, left: u64, total: u64) -> Self {
        let done = total.saturating_sub(left);
        let nanos = u128::from(now.since(began).as_nanos()) * u128::from(left);
        let left = nanos.checked_div(done.into()).and_then(|nanos| u64::try_from(nanos).ok());
        Self { done, total, left: left.map(Duration::from_nanos) }
    }
}

impl Disk {
    /// What it does, in a word.
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

    /// How far reading is; none when nothing is read.
    pub(in crate::participant) fn progress(&self, now: Instant) -> Option<Progress> {
        match &self.stage {
            Stage::Surveying(surveying) => Some(surveying.progress(now)),
            Stage::Restoring(restoring) | Stage::Indexing(restoring) => {
                Some(restoring.progress(now))
            }
            _ => None,
        }
    }

    /// The log, when it is open.
    pub(in crate::participant) fn log_state(&self) -> Option<LogState> {
        self.log.as_ref().map(|log| LogState {
            saved: log.saved(),
            durable: log.durable(),
            unwritten: log.waiting(),
            segments: log.segment_count(),
        })
    }

    /// Files that were found damaged when this life began.
    pub(in crate::participant) fn damaged_files(&self) -> u64 {
        self.damaged_files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done_in_proportion() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let progress = Progress::new(at(10), at(14), 300, 500);
        assert_eq!((progress.done, progress.total), (200, 500));
        assert_eq!(progress.left, Some(Duration::from_secs(6)));
        assert_eq!(Progress::new(at(10), at(14), 500, 500).left, None, "nothing to go by");
        assert_eq!(Progress::new(at(10), at(14), 0, 0).left, None);
        assert_eq!(Progress::new(at(10), at(14), 0, 5).left, Some(Duration::ZERO));
    }
}
