//! When a long computation lets others have the worker.
//!
//! # Owns
//! [`Pace`], one for each worker: how long the task that runs has been running, and the pause in
//! the middle of a call; and [`Askers`]: whether other connections want something meanwhile.
//! # Guarantees
//! A task that asks often enough keeps the worker for little more than [`SLICE`], or
//! [`SLICE_SHARED`] beside others. What a task computes does not depend on it: only when it
//! pauses does. Without a clock, under the simulation and in tests, it pauses after so much work,
//! which is the same every time.
//! # Not here
//! The pause of a task that awaits it (`kernel`), and who asks (`execute::run`, `session`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use actor::{ConnectionId, Recent};
use stdx::{Duration, Instant};

/// How long a task runs before others have a turn.
const SLICE: Duration = Duration::from_micros(50);
/// The same, from its second slice on, while other connections ask for something now and then:
/// what is done within the first one, as many statements are, has no reason to wait for others.
const SLICE_SHARED: Duration = Duration::from_micros(10);
/// Rows of a long computation between two looks at the clock.
const LOOK: u64 = 64;
/// The same beside others.
const LOOK_SHARED: u64 = LOOK / SHARED_PARTS as u64;
/// What is done between two looks beside others is one in so many of what is done otherwise.
const SHARED_PARTS: usize = 4;
/// The same without a clock, in rows.
const SLICE_WORK: u64 = 2_000;

/// The time since some moment, from the host.
pub type Clock = fn() -> Duration;

/// How long the task that runs has been running.
#[derive(Default)]
pub(crate) struct Pace {
    clock: Option<Clock>,
    /// When it was asked first in this slice.
    began: Cell<Option<Duration>>,
    /// Work since the slice began.
    work: Cell<u64>,
    /// Others have asked for something lately.
    is_shared: Cell<bool>,
    /// Stops the task that runs in the middle of a call, if it can be.
    suspend: RefCell<Option<Rc<dyn Fn()>>>,
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace").field("began", &self.began).finish_non_exhaustive()
    }
}

impl Pace {
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// A task is given the worker; it may be known to take long, beside others who have asked for
    /// something lately.
    pub(crate) fn begin(&self, is_shared: bool) {
        self.began.set(None);
        self.work.set(0);
        self.is_shared.set(is_shared);
    }

    /// A task goes on that has paused, and is known to take long.
    pub(crate) fn resume(&self) {
        self.began.set(self.clock.map(|clock| clock()));
    }

    /// What stops the task that runs from now on in the middle of a call; none if nothing can.
    pub(crate) fn may_suspend(&self, suspend: Option<Rc<dyn Fn()>>) {
        self.suspend.replace(suspend);
    }

    /// Lets others have the worker in the middle of a call that has done so much since the last
    /// look, if the task has had it for long enough; whether they had. Nothing that others need may
    /// be borrowed.
    pub(crate) fn look(&self, work: u64) -> bool {
        // Without a way to pause, work is not counted twice: where the task awaits it is.
        let suspend = self.suspend.borrow().clone();
        let Some(suspend) = suspend.filter(|_| self.is_over(work)) else { return false };
        suspend();
        self.resume();
        true
    }

    /// How many of so many rows are for one look, or are written at once.
    pub(crate) fn portion(&self, rows: usize) -> usize {
        if self.is_shared.get() { rows.div_ceil(SHARED_PARTS) } else { rows }
    }

    /// Whether so much work has been done since the last look at the clock that another is due.
    pub(crate) fn is_look_due(&self, work: u64) -> bool {
        work >= LOOK_SHARED && (work >= LOOK || self.is_shared.get())
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
            Some(began) => now >= began + if self.is_shared.get() { SLICE_SHARED } else { SLICE },
            None => {
                self.began.set(Some(now));
                false
            }
        }
    }
}

/// The connections of a worker that have asked for something last.
#[derive(Debug, Default)]
pub(crate) struct Askers {
    last: Option<ConnectionId>,
    /// Whether it has asked lately, and whether another has.
    of_last: Recent,
    of_others: Recent,
}

impl Askers {
    /// A connection asks for something.
    pub(crate) fn note(&mut self, id: ConnectionId, now: Instant) {
        if self.last.replace(id) != Some(id) {
            self.of_others = self.of_last;
        }
        self.of_last.note(now);
    }

    /// Whether another connection than this one has asked for something lately.
    pub(crate) fn are_beside(&self, id: ConnectionId, now: Instant) -> bool {
        let of_others = if self.last == Some(id) { self.of_others } else { self.of_last };
        of_others.is_on(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_clock_work_is_counted() {
        let pace = Pace::new(None);
        for _ in 0..2 {
            pace.begin(true);
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
        for (resumed, is_shared, slice) in [(false, false, 50), (true, false, 50), (true, true, 10)]
        {
            pace.begin(is_shared);
            assert_eq!(pace.portion(1_024), if is_shared { 256 } else { 1_024 });
            assert!(pace.is_look_due(LOOK) && pace.is_look_due(LOOK_SHARED) == is_shared);
            if resumed {
                pace.resume();
            }
            assert!(!pace.is_over(u64::MAX));
            NOW.set(NOW.get() + slice - 1);
            assert!(!pace.is_over(u64::MAX));
            NOW.set(NOW.get() + 1);
            assert!(pace.is_over(0));
        }
    }

    #[test]
    fn a_connection_is_not_beside_itself() {
        let [a, b] = [1, 2].map(ConnectionId);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut askers = Askers::default();
        assert!(!askers.are_beside(a, at(0)));
        askers.note(a, at(0));
        askers.note(a, at(1));
        assert!(!askers.are_beside(a, at(1)) && askers.are_beside(b, at(10)));
        assert!(!askers.are_beside(b, at(11)));
        askers.note(b, at(20));
        askers.note(a, at(25));
        askers.note(a, at(28));
        assert!(askers.are_beside(a, at(29)) && !askers.are_beside(a, at(30)));
        assert!(askers.are_beside(b, at(37)));
    }
}
