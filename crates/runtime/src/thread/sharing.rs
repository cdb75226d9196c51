//! Two threads' work on one of them, as long as there is little.
//!
//! A message to a worker on another thread wakes that thread, and the answer wakes this one: where
//! few clients ask, that is most of what a statement costs. So of each two threads the second lends
//! its whole state to the first when both have little to do, sleeps, and gets it back when the
//! first has much to do or long work is to be done: decision 33.
//!
//! # Owns
//! Handing a thread's state over and back, how busy threads are, and when which of it happens:
//! where there is neither little nor much to do, what was found by trial (`trial`) decides.
//! # Guarantees
//! One thread at a time runs what belongs to a state. A state is never lost: if the thread that has
//! borrowed it ends, it goes back first, and after a panic its workers leave their recorders.
//! # Not here
//! A turn of the loop for both states (`thread`).
#![expect(unsafe_code, reason = "a thread's state moves to another as a whole; see `Moved`")]

mod trial;

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use stdx::{Duration, Instant};

use self::trial::{Trial, Verdict};
use super::Thread;
use super::figures::thread_cpu;
use crate::cluster::Common;
use crate::exchange::Mail;

/// Where a thread's state waits for whoever runs it next.
#[derive(Default)]
pub(crate) struct Seat {
    places: Mutex<Places>,
    changed: Condvar,
    /// What the thread used of a processor: when that was found, in milliseconds, and its share in
    /// thousands.
    load: AtomicU64,
    /// Turns that its workers' actors have taken.
    turns: AtomicU64,
}

#[derive(Default)]
struct Places {
    /// For the thread before.
    lent: Option<Moved>,
    /// For its own thread.
    returned: Option<Moved>,
    /// The thread before has ended.
    closed: bool,
}

/// A thread's state on its way to another.
struct Moved(Box<Thread>);

// SAFETY: all that a state refers to without being shareable (reference counts of its workers, its
// sockets) is reachable from this state alone: workers are made for one state and hand out nothing
// of themselves but messages, which may be sent. Nothing of it is bound to the thread that made it:
// no variable of a thread is used below it, and the poller, files and memory belong to the process.
// Stacks of fibers belong to the process too, and go on on any thread.
// It moves through a mutex, while no reference to it is held.
unsafe impl Send for Moved {}

impl Seat {
    fn places(&self) -> MutexGuard<'_, Places> {
        // A thread that panicked ends the process soon; what is here is whole.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a thread that waits look whether the process has crashed.
    pub(crate) fn wake(&self) {
        drop(self.places());
        self.changed.notify_all();
    }

    fn note(&self, now: Instant, used: u64) {
        self.load.store(((now.as_nanos() / 1_000_000) << 10) | used, Ordering::Relaxed);
    }

    /// What the thread used lately, in thousands. One that has said nothing for a while sleeps.
    fn used(&self, now: Instant) -> u64 {
        let load = self.load.load(Ordering::Relaxed);
        let age = (now.as_nanos() / 1_000_000).saturating_sub(load >> 10);
        if age > FRESH_MILLIS { 0 } else { load & 0x3ff }
    }
}

/// How busy a thread is, window after window, and what it does about that.
#[derive(Debug)]
pub(super) struct Sharing {
    /// The thread may lend its state to the one before.
    lends: bool,
    /// When the window began, and what the thread had used of a processor then.
    began: Option<(Instant, Duration)>,
    /// Time in it that the thread had nothing to do.
    idle: Duration,
    /// Not before that again.
    not_before: Instant,
    /// What both threads get done, apart and as one.
    trial: Trial,
    /// Since when there has been long work, turn after turn.
    long_since: Option<Instant>,
    /// When the state was lent, and what its own thread had used of a processor.
    lent: Option<(Instant, Duration)>,
}

/// What a thread did in a window, in thousands of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    /// It had something to do.
    busy: u64,
    /// It had a processor.
    used: u64,
}

/// Why a state goes back to its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Two threads get more done, or that is to be seen.
    Busy(Verdict),
    /// Somebody wants something long, which others should not wait for.
    LongWork,
    /// The process stops.
    Stopping,
}

impl Sharing {
    pub(super) fn new(common: &Common, index: usize) -> Self {
        let anywhere = |thread| common.scheduling.is_anywhere(thread);
        // Whoever gives workers their places wants them there.
        Self::of(index % 2 == 1 && anywhere(index) && anywhere(index - 1))
    }

    fn of(lends: bool) -> Self {
        Self {
            lends,
            began: None,
            idle: Duration::ZERO,
            not_before: Instant::ZERO,
            trial: Trial::new(),
            long_since: None,
            lent: None,
        }
    }

    /// The thread had nothing to do for a while.
    pub(super) fn rested(&mut self, span: Duration) {
        self.idle = self.idle + span;
    }

    /// What the thread did, each time a window has passed. `cpu` is what it has used of a
    /// processor.
    fn window(&mut self, now: Instant, cpu: impl FnOnce() -> Duration) -> Option<Load> {
        if self.began.is_some_and(|(began, _)| now.since(began) < WINDOW) {
            return None;
        }
        let cpu = cpu();
        let (began, before) = self.began.replace((now, cpu))?;
        let (span, idle) = (now.since(began).as_nanos(), mem::take(&mut self.idle).as_nanos());
        let share = |nanos: u64| nanos.min(span) * 1_000 / span;
        let used = cpu.as_nanos().saturating_sub(before.as_nanos());
        Some(Load { busy: 1_000 - share(idle), used: share(used) })
    }

    /// The state is on its own thread again; may set when it may be lent next.
    fn is_back(&mut self, now: Instant, why: Why) {
        self.lent = None;
        let verdict = match why {
            Why::Busy(verdict) => Some(verdict),
            Why::LongWork | Why::Stopping => None,
        };
        self.not_before = self.trial.parts(now, verdict);
        (self.began, self.idle) = (None, Duration::ZERO);
    }

    /// For how long the state has been lent now.
    pub(super) fn lent_for(&self, now: Instant) -> Duration {
        self.lent.map_or(Duration::ZERO, |(since, _)| now.since(since))
    }

    /// What its own thread had used of a processor when it lent the state, if it has.
    pub(super) fn cpu_when_lent(&self) -> Option<Duration> {
        self.lent.map(|(_, cpu)| cpu)
    }
}

impl Load {
    /// Whether the thread had something to do all the time.
    fn is_full(self) -> bool {
        self.busy >= BUSY
    }

    /// What two threads may use at most to be tried as one. Where others want the processors too,
    /// one thread may get as much done as two; where there are enough of them, a full thread is
    /// nothing but slower.
    fn most(self) -> u64 {
        if self.used * 10 < self.busy * 9 { MUCH } else { LITTLE }
    }
}

impl Thread {
    /// Notes how busy the thread is, and decides: true if its state is to be lent now. A guest goes
    /// back when there is reason to.
    pub(super) fn share(&mut self) -> bool {
        let now = self.now;
        let long = |thread: &Thread| thread.hosted.iter().any(|at| at.worker.has_long_work());
        let is_long = long(self) || self.guest.as_deref().is_some_and(long);
        let since = self.sharing.long_since.take().unwrap_or(now);
        self.sharing.long_since = is_long.then_some(since);
        if is_long && now.since(since) >= LONG {
            self.give_back(Why::LongWork);
        }
        if self.stopping.is_some() {
            self.give_back(Why::Stopping);
        }
        let turns = self.turns_taken();
        self.common.seats[self.index].turns.store(turns, Ordering::Relaxed);
        let Some(load) = self.sharing.window(now, thread_cpu) else { return false };
        let common = self.common.clone();
        common.seats[self.index].note(now, load.used);
        if let Some(guest) = &mut self.guest {
            let both = turns + guest.turns_taken();
            if let Some(verdict) = guest.sharing.trial.joined(now, load.is_full(), both) {
                self.give_back(Why::Busy(verdict));
            }
        }
        if !self.sharing.lends {
            return false;
        }
        let before = &common.seats[self.index - 1];
        self.sharing.trial.apart(now, turns + before.turns.load(Ordering::Relaxed));
        self.serves
            && self.stopping.is_none()
            && now >= self.sharing.not_before
            && !is_long
            && load.used + before.used(now) < load.most()
    }

    /// Turns that actors have taken on this thread, or for it.
    fn turns_taken(&self) -> u64 {
        self.hosted.iter().map(|hosted| hosted.worker.turns()).sum()
    }

    /// Lends the state to the thread before, and sleeps until it is back; none if the process has
    /// crashed: whoever had it has left its recorders.
    pub(super) fn lend(mut self: Box<Self>) -> Option<Box<Self>> {
        let (common, index) = (self.common.clone(), self.index);
        let seat = &common.seats[index];
        let mut places = seat.places();
        if places.closed {
            self.sharing.lends = false;
            return Some(self);
        }
        self.sharing.lent = Some((self.now, thread_cpu()));
        self.sharing.trial.joins(self.now);
        places.lent = Some(Moved(self));
        drop(places);
        common.exchange.post_from_outside(index - 1, Mail::Guest);
        let wait = |places: &mut Places| places.returned.is_none() && !common.crash.has_crashed();
        let places = seat.changed.wait_while(seat.places(), wait);
        let mut places = places.unwrap_or_else(PoisonError::into_inner);
        // One that nobody has taken is still here.
        let state = places.returned.take().or_else(|| places.lent.take());
        state.map(|Moved(state)| state)
    }

    /// Takes in the state that the next thread lends.
    pub(super) fn take_guest(&mut self) {
        let common = self.common.clone();
        let Some(seat) = common.seats.get(self.index + 1) else { return };
        let Some(Moved(mut guest)) = seat.places().lent.take() else { return };
        if self.poller.add_poller(&guest.poller, super::TOKEN_GUEST).is_ok() {
            guest.now = guest.now.max(self.now);
            common.pulses[guest.index].take();
            self.guest = Some(guest);
        } else {
            guest.sharing.lends = false;
            hand_over(seat, guest);
        }
    }

    /// Gives a guest back to its own thread.
    fn give_back(&mut self, why: Why) {
        let Some(mut guest) = self.guest.take() else { return };
        let common = self.common.clone();
        // Nothing else is there that it could be confused with: it goes with the guest's poller.
        let _ = self.poller.remove_poller(&guest.poller);
        if let Some((since, _)) = guest.sharing.lent {
            guest.turns.lent(self.now.since(since));
        }
        guest.sharing.is_back(self.now, why);
        hand_over(&common.seats[guest.index], guest);
    }

    /// The thread ends: nobody is left with it.
    pub(super) fn close_seat(&mut self) {
        self.give_back(Why::Stopping);
        let Some(seat) = self.common.seats.get(self.index + 1) else { return };
        let mut places = seat.places();
        places.closed = true;
        places.returned = places.returned.take().or(places.lent.take());
        drop(places);
        seat.changed.notify_all();
    }
}

/// Puts a state where its own thread finds it.
fn hand_over(seat: &Seat, guest: Box<Thread>) {
    seat.places().returned = Some(Moved(guest));
    seat.changed.notify_all();
}

/// How long it is watched how busy a thread is.
const WINDOW: Duration = Duration::from_millis(10);
/// How old the word of a thread may be that is not asleep, in milliseconds.
const FRESH_MILLIS: u64 = 50;
/// Two threads that use less of the processors, in thousands of one, are tried as one.
const LITTLE: u64 = 1_100;
/// The same where threads wait for processors: with more they would have to do the same with two
/// thirds of it.
const MUCH: u64 = 1_600;
/// A thread that is busy for less keeps its guest.
const BUSY: u64 = 950;
/// Work that goes on for so long is long.
const LONG: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_say_how_busy_a_thread_is() {
        let (mut sharing, mut now, mut cpu) = (Sharing::of(true), Instant::ZERO, Duration::ZERO);
        assert_eq!(sharing.window(now, || cpu), None, "it begins");
        for (rest, work, busy, used) in
            [(10, 0, 0, 0), (4, 5, 600, 500), (0, 10, 1_000, 1_000), (25, 15, 0, 1_000)]
        {
            sharing.rested(Duration::from_millis(rest));
            cpu = cpu + Duration::from_millis(work);
            assert_eq!(sharing.window(now, || panic!("too early")), None);
            now = now + WINDOW;
            assert_eq!(sharing.window(now, || cpu), Some(Load { busy, used }));
        }
    }

    #[test]
    fn more_is_tried_where_threads_wait_for_processors() {
        for (busy, used, most) in
            [(1_000, 950, LITTLE), (1_000, 850, MUCH), (500, 480, LITTLE), (500, 400, MUCH)]
        {
            assert_eq!(Load { busy, used }.most(), most, "{busy} {used}");
        }
    }

    #[test]
    fn a_thread_that_has_said_nothing_for_long_sleeps() {
        let (seat, then) = (Seat::default(), Instant::ZERO + Duration::from_secs(7));
        seat.note(then, 1_000);
        assert_eq!(seat.used(then + Duration::from_millis(FRESH_MILLIS)), 1_000);
        assert_eq!(seat.used(then + Duration::from_millis(FRESH_MILLIS + 1)), 0);
    }
}
