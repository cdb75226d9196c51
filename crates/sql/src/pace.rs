//! When a long computation lets others have the worker.
//!
//! # Owns
//! [`Pace`], one for each worker: how long the task that runs has been running.
//! # Guarantees
//! A task that asks often enough keeps the worker for little more than [`SLICE`]. What a task
//! computes does not depend on it: only when it pauses does. Without a clock, under the simulation
//! and in tests, it pauses after so much work, which is the same every time.
//! # Not here
//! The pause itself (`kernel`), and who asks (`execute::run`).

use std::cell::Cell;

use stdx::Duration;

/// How long a task runs before others have a turn.
const SLICE: Duration = Duration::from_micros(50);
/// The same without a clock, in rows.
const SLICE_WORK: u64 = 2_000;

/// The time since some moment, from the host.
pub type Clock = fn() -> Duration;

/// How long the task that runs has been running.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    clock: Option<Clock>,
    /// When it was asked first in this slice.
    began: Cell<Option<Duration>>,
    /// Work since the slice began.
    work: Cell<u64>,
}

impl Pace {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// A task is given the worker.
    pub(crate) fn begin(&self) {
        self.began.set(None);
        self.work.set(0);
    }

    /// A task goes on that has paused, and is known to take long.
    pub(crate) fn resume(&self) {
        self.began.set(self.clock.map(|clock| clock()));
    }

    /// Whether the task has had the worker for long enough, having done so much since it asked
    /// last.
    pub(crate) fn is_over(&self, work: u64) -> bool {
        let Some(clock) = self.clock else {
            self.work.set(self.work.get() + work);
            return self.work.get() >= SLICE_WORK;
        };
        let now = clock();
        match self.began.get() {
            Some(began) => now >= began + SLICE,
            None => {
                self.began.set(Some(now));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_clock_work_is_counted() {
        let pace = Pace::new(None);
        for _ in 0..2 {
            pace.begin();
            assert!(!pace.is_over(SLICE_WORK - 1));
            assert!(pace.is_over(1));
        }
    }

    #[test]
    fn with_a_clock_time_is() {
        thread_local! {
            static NOW: Cell<u64> = const { Cell::new(0) };
        }
        let pace = Pace::new(Some(|| Duration::from_micros(NOW.get())));
        for resumed in [false, true] {
            pace.begin();
            if resumed {
                pace.resume();
            }
            assert!(!pace.is_over(u64::MAX));
            NOW.set(NOW.get() + 49);
            assert!(!pace.is_over(u64::MAX));
            NOW.set(NOW.get() + 1);
            assert!(pace.is_over(0));
        }
    }
}
