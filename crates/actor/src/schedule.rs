//! The scheduler of a worker: who goes next, and how long a step of long work is.
//!
//! # Owns
//! [`Schedule`], one for each worker: the shares of the classes of work, the cost of a step of each
//! kind of long work, and the steps that took too long. [`Recent`]: whether something has happened
//! in the last moments.
//! # Classes
//! Control goes first. Operations on rows come next. Queries and background work get what is left
//! of the worker's time, and have a least share of it beside operations: 2 and 1 to 4. Among the
//! two, queries get twice the time of background work. This is stride scheduling (Waldspurger and
//! Weihl, 1995) of two classes, with a debt of a third one to them.
//! # Steps
//! A step of long work is cut by work, not by time, as no actor sees a clock. The host measures
//! steps, and tells. From the cost of earlier steps of its kind follows which part of the usual
//! work a step is: as much as takes [`LONE`], or [`SHARED`] while operations come in.
//! # Rests
//! A worker that has a CPU for itself loses nothing by long work that fills its time. On a machine
//! with more to do than CPUs, that time is taken from whoever serves the same clients: the SQL node
//! and the other workers. The host tells how long its thread waits for a CPU; long work rests the
//! more then, and keeps a fifth of the time at least.
//! # Not here
//! The queues (`node`), the clock (`runtime`), what a step of each kind does.

use std::collections::BTreeMap;

use stdx::{Duration, Instant};
use wire::{Class, Continue};

/// What a step of long work takes while nobody waits for single rows.
pub const LONE: Duration = Duration::from_micros(150);
/// What it takes while operations on single rows come in: they wait for the step that runs.
pub const SHARED: Duration = Duration::from_micros(25);
/// A step of any kind that took longer is counted.
pub const SLOW: Duration = Duration::from_micros(200);
/// The whole of a step's usual work, of which [`Schedule::part`] is a part.
pub const WHOLE: u32 = 1_024;

/// The part of a step whose cost is not known yet, while operations come in.
const SHARED_UNKNOWN: u32 = WHOLE / 4;
/// The least part: a step has some cost of its own.
const LEAST: u32 = WHOLE / 32;
/// Time of operations, queries and background work when all of them wait.
const WEIGHTS: [u64; 3] = [4, 2, 1];
/// The share of time, in percent, for which a thread may wait for a CPU before long work rests, and
/// from which on it rests most.
const CROWDED: [u64; 2] = [5, 45];
/// The longest rest, in percent of the time worked before.
const REST_MAX: u64 = 400;
/// What operations may owe to long work before that goes first.
const DEBT: Duration = Duration::from_micros(100);
/// What operations owe at most.
const DEBT_MAX: Duration = Duration::from_millis(1);
/// How long an event counts as recent: a client that waits for each answer asks again within a
/// fraction of that.
const RECENT: Duration = Duration::from_millis(10);

/// Whether something has happened in the last ten milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    until: Instant,
}

impl Recent {
    /// It has happened.
    pub fn note(&mut self, now: Instant) {
        self.until = now + RECENT;
    }

    /// Whether it has lately.
    pub fn is_on(&self, now: Instant) -> bool {
        now < self.until
    }
}

/// What a worker has done in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Something short: the name of a message, a timer, an answer of the disk.
    Short(&'static str),
    /// A step of long work.
    Long(Continue),
}

impl StepKind {
    fn name(self) -> &'static str {
        match self {
            Self::Short(name) => name,
            Self::Long(work) => work.name(),
        }
    }
}

/// Steps of one kind that took longer than [`SLOW`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowSteps {
    /// How many.
    pub count: u64,
    /// What they took together.
    pub total: Duration,
    /// What the longest of them took.
    pub longest: Duration,
}

/// The scheduler of one worker; see the module's head.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Operations on single rows.
    operations: Recent,
    /// What the usual work of a step costs, by kind of long work; zero when not known.
    costs: BTreeMap<Continue, Duration>,
    /// The part that was asked for last, of the step that runs.
    part: Option<u32>,
    /// Time that queries and background work have had, divided by their weights.
    passes: [u64; 2],
    /// What operations owe to long work that waits.
    debt: Duration,
    /// The share of time, in percent, for which the thread has waited for a CPU lately.
    crowd: u64,
    slow: BTreeMap<&'static str, SlowSteps>,
}

impl Schedule {
    /// An operation on a single row has come, for which a client waits.
    pub fn operation(&mut self, now: Instant) {
        self.operations.note(now);
    }

    /// Whether operations on single rows have come in the last moments.
    pub fn is_shared(&self, now: Instant) -> bool {
        self.operations.is_on(now)
    }

    /// Host: for how much of its time, in percent, the thread has waited for a CPU lately.
    pub fn crowd(&mut self, share: u64) {
        self.crowd = share;
    }

    /// How long work rests that has gone on for so long, beside others who ask for something.
    pub fn rest(&self, worked: Duration) -> Duration {
        let [from, to] = CROWDED;
        let over = self.crowd.clamp(from, to) - from;
        Duration::from_nanos(worked.as_nanos() * REST_MAX * over / (to - from) / 100)
    }

    /// How much of its usual work, as a part of [`WHOLE`], a step of this kind is to do now.
    pub fn part(&mut self, work: Continue, now: Instant) -> u32 {
        let shared = self.is_shared(now);
        let part = match self.costs.get(&work) {
            None if shared => SHARED_UNKNOWN,
            None => WHOLE,
            Some(cost) => {
                let time = if shared { SHARED } else { LONE };
                let part = time.as_nanos() * u64::from(WHOLE) / cost.as_nanos().max(1);
                part.clamp(LEAST.into(), WHOLE.into()) as u32
            }
        };
        self.part = Some(part);
        part
    }

    /// Whether long work that waits has to go before further operations.
    pub fn is_due(&self) -> bool {
        self.debt >= DEBT
    }

    /// Which class of long work goes next, if both wait.
    pub fn next_class(&self) -> Class {
        let [queries, background] = self.passes;
        if background < queries { Class::Background } else { Class::Query }
    }

    /// A class of long work begins to wait: it has no claim to the time in which it did not.
    pub fn begins_to_wait(&mut self, class: Class) {
        let Some(at) = index_of(class) else { return };
        self.passes[at] = self.passes[at].max(self.passes[1 - at]);
    }

    /// Host: a step has taken so long; `waiting` says whether queries and background work wait.
    pub fn took(&mut self, step: StepKind, time: Duration, waiting: [bool; 2]) {
        let part = self.part.take();
        match step {
            StepKind::Short(_) => {
                let weights = WEIGHTS[1..].iter().zip(waiting);
                let weight: u64 = weights.map(|(weight, waits)| weight * u64::from(waits)).sum();
                let owed = Duration::from_nanos(time.as_nanos() * weight / WEIGHTS[0]);
                self.debt = if weight == 0 { Duration::ZERO } else { self.debt + owed };
                self.debt = self.debt.min(DEBT_MAX);
            }
            StepKind::Long(work) => {
                self.debt =
                    Duration::from_nanos(self.debt.as_nanos().saturating_sub(time.as_nanos()));
                if let Some(at) = index_of(work.class()) {
                    self.passes[at] += time.as_nanos() / WEIGHTS[1 + at];
                }
                self.learn(work, part.unwrap_or(WHOLE), time);
            }
        }
        if time > SLOW {
            self.host_took(step.name(), time);
        }
    }

    /// Host: something that is no step has taken longer than [`SLOW`].
    pub fn host_took(&mut self, what: &'static str, time: Duration) {
        let slow = self.slow.entry(what).or_default();
        slow.count += 1;
        slow.total = slow.total + time;
        slow.longest = slow.longest.max(time);
    }

    /// Notes what a part of a step's usual work has cost. One sample among many: a thread that had
    /// to wait for its CPU makes a short step a long one.
    fn learn(&mut self, work: Continue, part: u32, time: Duration) {
        let sample = time.as_nanos() * u64::from(WHOLE) / u64::from(part.max(1));
        let cost = self.costs.entry(work).or_insert(Duration::from_nanos(sample));
        let known = cost.as_nanos();
        let sample = sample.min(known.saturating_mul(2).max(1_000));
        *cost = Duration::from_nanos((known * 3 + sample) / 4);
    }

    /// Steps that took too long, by name.
    pub fn slow_steps(&self) -> impl Iterator<Item = (&'static str, SlowSteps)> {
        self.slow.iter().map(|(name, slow)| (*name, *slow))
    }
}

/// The place of a class of long work.
fn index_of(class: Class) -> Option<usize> {
    match class {
        Class::Control | Class::Operation => None,
        Class::Query => Some(0),
        Class::Background => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn an_event_is_recent_for_a_moment() {
        let mut recent = Recent::default();
        assert!(!recent.is_on(Instant::ZERO));
        recent.note(NOW);
        assert!(recent.is_on(NOW) && !recent.is_on(NOW + RECENT));
        recent.note(NOW + RECENT);
        assert!(recent.is_on(NOW + RECENT + micros(9_999)));
    }

    #[test]
    fn a_step_is_as_much_as_its_time_allows() {
        let mut schedule = Schedule::default();
        let work = Continue::Upkeep;
        assert_eq!(schedule.part(work, NOW), WHOLE);
        for _ in 0..50 {
            // A unit of the whole takes a microsecond.
            let part = schedule.part(work, NOW);
            schedule.took(StepKind::Long(work), micros(part.into()), [false, true]);
        }
        assert!(schedule.part(work, NOW).abs_diff(150) < 5);
        schedule.operation(NOW);
        assert_eq!(schedule.part(work, NOW), LEAST, "25 units would be less than the least part");
        assert_eq!(schedule.part(Continue::Scans, NOW), SHARED_UNKNOWN);
    }

    #[test]
    fn one_step_that_had_no_cpu_changes_little() {
        let mut schedule = Schedule::default();
        let work = Continue::Scans;
        schedule.part(work, NOW);
        schedule.took(StepKind::Long(work), micros(200), [true, false]);
        assert_eq!(schedule.part(work, NOW), WHOLE * 150 / 200);
        schedule.took(StepKind::Long(work), Duration::from_millis(50), [true, false]);
        assert_eq!(schedule.part(work, NOW), WHOLE * 150 / 250, "its sample counts twice at most");
    }

    #[test]
    fn queries_get_twice_the_time_of_background_work() {
        let mut schedule = Schedule::default();
        let mut times = [0, 0];
        for _ in 0..300 {
            let work = match schedule.next_class() {
                Class::Query => Continue::Scans,
                _ => Continue::Copies,
            };
            times[usize::from(work == Continue::Copies)] += 1;
            schedule.took(StepKind::Long(work), micros(20), [true, true]);
        }
        assert_eq!(times, [200, 100]);
        // Who comes back after a while has no claim to what it did not want.
        schedule.begins_to_wait(Class::Background);
        schedule.took(StepKind::Long(Continue::Scans), micros(100_000), [true, false]);
        schedule.begins_to_wait(Class::Background);
        let mut row = 0;
        while schedule.next_class() == Class::Background {
            schedule.took(StepKind::Long(Continue::Copies), micros(20), [true, true]);
            row += 1;
        }
        assert!(row <= 1, "{row} steps in a row");
    }

    #[test]
    fn long_work_has_a_least_share_beside_operations() {
        let mut schedule = Schedule::default();
        let (mut short, mut long) = (0, 0);
        for _ in 0..1_000 {
            if schedule.is_due() {
                schedule.took(StepKind::Long(Continue::Copies), micros(25), [false, true]);
                long += 25;
            } else {
                schedule.took(StepKind::Short("Read"), micros(10), [false, true]);
                short += 10;
            }
        }
        assert!((3..=5).contains(&(short / long)), "{short} to {long}");
        schedule.took(StepKind::Short("Read"), micros(1_000_000), [true, true]);
        assert!(schedule.is_due());
        schedule.took(StepKind::Short("Read"), micros(1), [false, false]);
        assert!(!schedule.is_due(), "nothing waits, so nothing is owed");
    }

    #[test]
    fn long_work_rests_the_more_the_less_cpu_there_is() {
        let mut schedule = Schedule::default();
        let rest = |schedule: &Schedule| schedule.rest(micros(200));
        assert_eq!(rest(&schedule), Duration::ZERO, "nothing is known");
        for (share, rests) in [(4, 0), (5, 0), (15, 200), (25, 400), (45, 800), (100, 800)] {
            schedule.crowd(share);
            assert_eq!(rest(&schedule), micros(rests), "{share} %");
        }
    }

    #[test]
    fn slow_steps_are_counted_by_kind() {
        let mut schedule = Schedule::default();
        for micros_taken in [10, 200, 201, 500] {
            schedule.took(StepKind::Short("Commit"), micros(micros_taken), [false, false]);
        }
        schedule.took(StepKind::Long(Continue::Joins), micros(900), [false, false]);
        let slow: Vec<_> = schedule.slow_steps().collect();
        let commit = SlowSteps { count: 2, total: micros(701), longest: micros(500) };
        assert_eq!(slow[0], ("Commit", commit));
        assert_eq!((slow[1].0, slow[1].1.count, slow.len()), ("Continue joins", 1, 2));
    }
}
