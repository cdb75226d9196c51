//! What a start that reads a disk tells meanwhile: the step, how far it is, how long it may take.

use std::fmt;
use std::time::Duration;

use runtime::{RestoreProgress, StepProgress};

/// A start as it was when it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct StartProgress {
    step: Option<Step>,
    /// When the present step was first seen, and what was done of it then.
    began: Duration,
    done: u64,
    /// How often in a row nothing could be said.
    silent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Check,
    Read,
    Index,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Check => "checks what is on disk (1 of 3)",
            Step::Read => "reads rows back (2 of 3)",
            Step::Index => "builds indexes (3 of 3)",
        })
    }
}

impl StartProgress {
    /// A line about a start that is `elapsed` old. None when it waits for an answer; so it says now
    /// and then that it does.
    pub(crate) fn line(&mut self, seen: &RestoreProgress, elapsed: Duration) -> Option<String> {
        let steps = [(Step::Check, seen.check), (Step::Read, seen.read), (Step::Index, seen.index)];
        // A step is over for all workers before its successor counts.
        let open = steps.into_iter().find(|(_, progress)| progress.done < progress.total);
        let Some((step, StepProgress { done, total })) = open else {
            self.silent = (self.silent + 1) % SILENT_MAX;
            let line = "waits for the nodes of the cluster".to_string();
            return (self.silent == 0).then_some(line);
        };
        self.silent = 0;
        if self.step != Some(step) {
            *self = Self { step: Some(step), began: elapsed, done, silent: 0 };
        }
        let percent = done.saturating_mul(100) / total;
        let mut line = match step {
            Step::Check => format!("{step}: {percent} % of {} MB", total / 1_000_000),
            Step::Read => {
                let rows = seen.rows;
                format!("{step}: {percent} % of {} MB, {rows} rows", total / 1_000_000)
            }
            Step::Index => format!("{step}: {percent} % of {} rows", seen.rows),
        };
        if let Some(left) = self.left(done, total, elapsed) {
            line += &format!(", about {left} s left");
        }
        Some(line)
    }

    /// Seconds that the step takes at the speed it has had.
    fn left(&self, done: u64, total: u64, elapsed: Duration) -> Option<u64> {
        let since = done.saturating_sub(self.done);
        let took = elapsed.saturating_sub(self.began).as_millis();
        let left = took.checked_mul(u128::from(total - done))?.checked_div(u128::from(since))?;
        u64::try_from(left.div_ceil(1_000)).ok()
    }
}

/// How often in a row a start says nothing before it says that it waits.
const SILENT_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(check: (u64, u64), read: (u64, u64), index: (u64, u64)) -> RestoreProgress {
        let [check, read, index] =
            [check, read, index].map(|(done, total)| StepProgress { done, total });
        RestoreProgress { check, read, index, rows: 1_000 }
    }

    #[test]
    fn a_start_tells_its_step_and_how_long_that_takes() {
        let mut progress = StartProgress::default();
        let mut at = |seconds, seen| progress.line(&seen, Duration::from_secs(seconds));
        assert_eq!(at(0, seen((0, 0), (0, 0), (0, 0))), None, "nothing is known yet");
        let line = at(1, seen((1 << 20, 40_000_000), (0, 0), (0, 0))).expect("it has begun");
        assert_eq!(line, "checks what is on disk (1 of 3): 2 % of 40 MB");
        assert_eq!(at(2, seen((40, 40), (0, 0), (0, 0))), None, "waits for other nodes");
        let read = |done| seen((40, 40), (done, 90_000_000), (0, 0));
        let line = at(3, read(15_000_000)).expect("it reads");
        assert_eq!(line, "reads rows back (2 of 3): 16 % of 90 MB, 1000 rows");
        let line = at(5, read(45_000_000)).expect("it reads");
        assert_eq!(line, "reads rows back (2 of 3): 50 % of 90 MB, 1000 rows, about 3 s left");
        let line = at(6, read(45_000_000)).expect("it reads");
        assert!(line.ends_with("about 5 s left"), "it got slower: {line}");
        let line = at(7, seen((40, 40), (90, 90), (500, 2_000))).expect("it builds");
        assert_eq!(line, "builds indexes (3 of 3): 25 % of 1000 rows");
        let line = at(8, seen((40, 40), (90, 90), (1_500, 2_000))).expect("it builds");
        assert_eq!(line, "builds indexes (3 of 3): 75 % of 1000 rows, about 1 s left");
        for seconds in 9..68 {
            assert_eq!(at(seconds, seen((40, 40), (90, 90), (2_000, 2_000))), None);
        }
        let line = at(68, seen((40, 40), (90, 90), (2_000, 2_000))).expect("it has taken long");
        assert_eq!(line, "waits for the nodes of the cluster");
    }
}
