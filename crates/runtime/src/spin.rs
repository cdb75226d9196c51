//! How long a worker looks for work before it sleeps.
//!
//! # Owns
//! The methods by which that is decided ([`SpinMethod`]), and the decision itself: a pure function
//! of how long the worker has had to wait lately. A thread asks for [`Spinner::time`] before it
//! sleeps, and reports each wait.
//! # Guarantees
//! 1. A method that adapts spends no more processor time than it may for the waiting that it saves,
//!    and none while the worker has little to do.
//! 2. It does not spin where the process has fewer CPUs than workers, and stops while threads of
//!    the machine wait for a CPU.
//! # Not here
//! Reading clocks and sockets (`thread`), what waking costs (`wake`), whether the machine is
//! crowded (`crowd`).

pub(crate) mod crowd;
pub(crate) mod wake;

use std::fmt;

use stdx::{Duration, Instant};

/// How it is decided how long a worker looks for messages before it sleeps. The names are NDB's,
/// as are what they allow: the longest time, and the processor time for each unit of waiting that
/// is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpinMethod {
    /// Always so long, whatever comes of it.
    Static(Duration),
    /// Up to 100 µs, for at most twice the time that is saved.
    #[default]
    CostBased,
    /// Up to 200 µs, for at most ten times the time that is saved.
    LatencyOptimised,
    /// Up to 500 µs, for at most a hundred times the time that is saved; other threads that wait
    /// for a CPU do not matter.
    DatabaseMachine,
}

/// What a method that adapts may do.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Longest time to look for work.
    time_max: Duration,
    /// Processor time in percent of the waiting that is saved.
    overhead_max: u64,
    /// Share of time, in percent, in which threads of the machine may wait for a CPU.
    crowd_max: u64,
}

impl SpinMethod {
    /// NDB's name.
    pub const fn name(self) -> &'static str {
        match self {
            SpinMethod::Static(_) => "StaticSpinning",
            SpinMethod::CostBased => "CostBasedSpinning",
            SpinMethod::LatencyOptimised => "LatencyOptimisedSpinning",
            SpinMethod::DatabaseMachine => "DatabaseMachineSpinning",
        }
    }

    const fn allowance(self) -> Option<Allowance> {
        let (micros, overhead_max, crowd_max) = match self {
            SpinMethod::Static(_) => return None,
            SpinMethod::CostBased => (100, 200, 10),
            SpinMethod::LatencyOptimised => (200, 1_000, 25),
            SpinMethod::DatabaseMachine => (500, 10_000, 100),
        };
        Some(Allowance { time_max: Duration::from_micros(micros), overhead_max, crowd_max })
    }

    /// Whether the time follows what is measured.
    pub(crate) const fn adapts(self) -> bool {
        self.allowance().is_some()
    }
}

impl fmt::Display for SpinMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_nanos() / 1_000;
        match (self, self.allowance()) {
            (SpinMethod::Static(time), _) => write!(f, "{}, {} µs", self.name(), micros(*time)),
            (_, Some(allowance)) => {
                write!(f, "{}, up to {} µs", self.name(), micros(allowance.time_max))
            }
            (_, None) => f.write_str(self.name()),
        }
    }
}

/// One worker's decision.
#[derive(Debug)]
pub(crate) struct Spinner {
    /// None where the time never changes.
    allowance: Option<Allowance>,
    /// What a wake-up costs: so much waiting is saved when spinning finds something.
    wake_cost: Duration,
    time: Duration,
    waits: Waits,
    /// Waits since the last decision, and when that was.
    count: u64,
    decided_at: Instant,
    /// Not to spin until then, because the machine was crowded.
    held_until: Instant,
}

impl Spinner {
    /// A worker of this method that does not spin yet. `wake_cost` is what waking it takes.
    pub(crate) fn new(method: SpinMethod, wake_cost: Duration) -> Self {
        let time = if let SpinMethod::Static(time) = method { time } else { Duration::ZERO };
        Self {
            allowance: method.allowance(),
            wake_cost,
            time,
            waits: Waits::default(),
            count: 0,
            decided_at: Instant::ZERO,
            held_until: Instant::ZERO,
        }
    }

    /// How long to look for work before sleeping.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// The worker has waited so long, asleep or not. `found` if something came, rather than that
    /// a timer ran out, which no looking can bring about.
    pub(crate) fn note(&mut self, waited: Duration, slept: bool, found: bool) {
        if self.allowance.is_some() {
            // Being woken is not part of what has to be waited for.
            let overlong = if slept { self.wake_cost } else { Duration::ZERO };
            let waited = waited.as_nanos().saturating_sub(overlong.as_nanos());
            self.waits.note(waited, found);
            self.count += 1;
        }
    }

    /// Decides anew if it is time to. `crowd` tells the share of time, in percent, in which some
    /// thread of the machine waited for a CPU lately, or nothing if that is not known yet; it is
    /// asked only if spinning would be worth it.
    pub(crate) fn decide(&mut self, now: Instant, crowd: impl FnOnce() -> Option<u64>) {
        let Some(allowance) = self.allowance else { return };
        let passed = now.since(self.decided_at);
        if passed < DECISION_INTERVAL {
            return;
        }
        let busy = self.count.saturating_mul(1_000) / passed.as_millis().max(1) >= WAITS_MIN;
        (self.decided_at, self.count) = (now, 0);
        let wanted = self.waits.best(self.wake_cost, allowance);
        self.waits.fade();
        if !busy || wanted == Duration::ZERO || now < self.held_until {
            self.time = Duration::ZERO;
            return;
        }
        self.time = match crowd() {
            Some(share) if share <= allowance.crowd_max => wanted,
            Some(_) => {
                self.held_until = now + HOLD;
                Duration::ZERO
            }
            None => Duration::ZERO,
        };
    }
}

/// How long a worker has had to wait, by length.
#[derive(Debug, Default)]
struct Waits {
    buckets: [Bucket; LIMITS_US.len() + 1],
}

/// Waits of about the same length.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    count: u64,
    /// Those that ended because something came.
    found: u64,
    nanos: u64,
}

impl Waits {
    fn note(&mut self, nanos: u64, found: bool) {
        let at = LIMITS_US.partition_point(|limit| limit * 1_000 < nanos);
        let bucket = &mut self.buckets[at];
        bucket.count += 1;
        bucket.found += u64::from(found);
        // A long wait counts by its number only, and must not make the sum overflow.
        bucket.nanos = bucket.nanos.saturating_add(nanos.min(1_000_000_000));
    }

    /// Older waits count half.
    fn fade(&mut self) {
        for bucket in &mut self.buckets {
            bucket.count /= 2;
            bucket.found /= 2;
            bucket.nanos /= 2;
        }
    }

    /// The time to spin for which what is saved, at the price that may be paid for it, exceeds what
    /// is spent by most. Spinning for `s` saves the wake-up of every wait up to `s`, and spends
    /// the length of those and `s` for each longer one.
    fn best(&self, wake_cost: Duration, allowance: Allowance) -> Duration {
        let total: u64 = self.buckets.iter().map(|bucket| bucket.count).sum();
        let (mut covered, mut found, mut nanos) = (0, 0, 0);
        let (mut best, mut best_worth) = (Duration::ZERO, 0);
        for (limit, bucket) in LIMITS_US.iter().zip(&self.buckets) {
            let time = Duration::from_micros(*limit);
            if time > allowance.time_max {
                break;
            }
            covered += bucket.count;
            found += bucket.found;
            nanos += bucket.nanos;
            let saved = u128::from(found) * u128::from(wake_cost.as_nanos());
            let worth = saved * u128::from(allowance.overhead_max) / 100;
            let spent = u128::from(nanos) + u128::from((total - covered) * time.as_nanos());
            let worth = worth.saturating_sub(spent);
            if worth > best_worth {
                (best, best_worth) = (time, worth);
            }
        }
        best
    }
}

/// Lengths between which waits are told apart, in microseconds: the times that may be chosen.
const LIMITS_US: [u64; 16] = [1, 2, 3, 5, 7, 10, 15, 22, 33, 50, 70, 100, 150, 200, 300, 500];
/// How often it is decided anew.
const DECISION_INTERVAL: Duration = Duration::from_millis(50);
/// Waits in a second below which a worker has too little to do for its waiting to matter: what an
/// empty cluster's timers and signs of life amount to, and some more.
const WAITS_MIN: u64 = 500;
/// How long a crowded machine is left alone before it is tried again.
const HOLD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
