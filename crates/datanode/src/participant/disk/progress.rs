//! How far the restart of a worker has come, for those who wait for it.

use super::Stage;
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
}

impl Participant {
    /// How far the restart has come; none when it is over, or nothing is known of it yet.
    pub fn restore_progress(&self) -> Option<RestoreProgress> {
        let mut progress = RestoreProgress::default();
        match &self.disk.as_ref()?.stage {
            Stage::Settling(_) | Stage::Opening | Stage::Open => return None,
            Stage::Surveying(surveying) => progress.check = surveying.progress(),
            Stage::Surveyed(survey) => progress.check = StepProgress::all(survey.bytes()),
            Stage::Restoring(restoring) => {
                progress.check = StepProgress::all(restoring.surveyed());
                progress.read = restoring.progress();
            }
            Stage::Indexing(restoring) => {
                progress.check = StepProgress::all(restoring.surveyed());
                progress.read = restoring.progress();
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
