//! Whether a thread has been slow, or had no CPU.
//!
//! # Owns
//! [`Starvation`]: the thread's account of processor time, looked at now and then.
//! # Why
//! A step that was interrupted for a scheduler's tick or two is not longer than others. The clock
//! does not tell the two apart; the account of processor time does, but asking for it is a system
//! call. So the thread asks about once in a millisecond, and when a step seems to have been slow.

use stdx::{Duration, Instant};

use super::figures::thread_cpu;

/// How often the account is looked at while nothing is slow.
const INTERVAL: Duration = Duration::from_millis(1);

/// A thread's account of processor time at some moment.
#[derive(Debug, Default)]
pub(super) struct Starvation {
    at: Instant,
    /// Processor time used, and time asleep, since the thread began.
    cpu: Duration,
    asleep: Duration,
}

impl Starvation {
    /// Looks at the account, if the last look was not just now.
    pub(super) fn look(&mut self, now: Instant, asleep: Duration) {
        if now.since(self.at) > INTERVAL {
            *self = Self { at: now, cpu: thread_cpu(), asleep };
        }
    }

    /// Looks at the account; how long the thread had no CPU since the last look, although it was
    /// not asleep.
    pub(super) fn look_again(&mut self, now: Instant, asleep: Duration) -> Duration {
        let cpu = thread_cpu();
        let without = without_cpu(now.since(self.at), asleep - self.asleep, cpu - self.cpu);
        *self = Self { at: now, cpu, asleep };
        without
    }
}

/// What is left of a span of time in which a thread has slept and worked for so long.
fn without_cpu(span: Duration, asleep: Duration, worked: Duration) -> Duration {
    span - asleep - worked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_cpu_is_neither_sleep_nor_work() {
        let micros = Duration::from_micros;
        assert_eq!(without_cpu(micros(900), micros(300), micros(250)), micros(350));
        assert_eq!(without_cpu(micros(900), micros(300), micros(650)), micros(0), "clocks differ");
    }
}
