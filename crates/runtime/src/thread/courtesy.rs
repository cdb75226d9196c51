//! How a thread keeps its long work from taking CPUs that others need.
//!
//! # Owns
//! [`Courtesy`]: how long the thread has waited for a CPU lately, and until when its long work
//! rests.
//! # Not here
//! How long a rest is (`actor::Schedule`), when to spin (`spin`), when to offer the CPU
//! (`yielding`).

use stdx::{Duration, Instant};

use crate::spin::crowd::Crowd;

/// How often the account is read: a look is a system call.
const INTERVAL: Duration = Duration::from_millis(5);

/// A thread's manners. To be made on the thread.
#[derive(Debug)]
pub(super) struct Courtesy {
    crowd: Crowd,
    looked: Instant,
    share: u64,
    /// Long work since the last rest.
    worked: Duration,
    rests_until: Instant,
}

impl Courtesy {
    pub(super) fn new() -> Self {
        let (looked, rests_until) = (Instant::ZERO, Instant::ZERO);
        Self { crowd: Crowd::of_thread(), looked, share: 0, worked: Duration::ZERO, rests_until }
    }

    /// Looks at the account, if the last look was not just now: the share of time, in percent, for
    /// which the thread has waited for a CPU in the last moments.
    pub(super) fn look(&mut self, now: Instant) -> Option<u64> {
        if now.since(self.looked) < INTERVAL {
            return None;
        }
        self.looked = now;
        let share = self.crowd.share(now).unwrap_or(0);
        self.share = smooth(self.share, share);
        Some(self.share)
    }

    /// Long work has gone on for so long once more. It rests when that is worth it: a thread that
    /// sleeps is woken some tens of microseconds late.
    pub(super) fn worked(
        &mut self,
        now: Instant,
        time: Duration,
        rest: impl Fn(Duration) -> Duration,
    ) {
        self.worked = self.worked + time;
        if self.worked >= WORKED_MIN {
            self.rests_until = now + rest(std::mem::take(&mut self.worked));
        }
    }

    /// Until when long work rests, if it does.
    pub(super) fn rests(&self, now: Instant) -> Option<Instant> {
        (now < self.rests_until).then_some(self.rests_until)
    }
}

/// How long long work goes on before it rests.
const WORKED_MIN: Duration = Duration::from_micros(250);

/// A mean that a sample moves by a quarter: threads wait for a CPU for some milliseconds at a time.
fn smooth(mean: u64, sample: u64) -> u64 {
    (mean * 3 + sample.min(100)).div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_ends() {
        let mut courtesy = Courtesy::new();
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        assert_eq!(courtesy.rests(at(1)), None);
        let micros = Duration::from_micros;
        let half = |worked: Duration| Duration::from_nanos(worked.as_nanos() / 2);
        courtesy.worked(at(200), micros(200), half);
        assert_eq!(courtesy.rests(at(200)), None, "it is not worth it");
        courtesy.worked(at(300), micros(100), half);
        assert_eq!(courtesy.rests(at(449)), Some(at(450)));
        assert_eq!(courtesy.rests(at(450)), None);
        courtesy.worked(at(600), micros(200), half);
        assert_eq!(courtesy.rests(at(600)), None, "what was rested for is over");
    }

    #[test]
    fn looks_are_rare_and_their_mean_follows() {
        let mut courtesy = Courtesy::new();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        assert_eq!(courtesy.look(at(10)), Some(0), "the first look has no before");
        assert_eq!(courtesy.look(at(14)), None);
        assert!(courtesy.look(at(15)).is_some());
        let mut mean = 0;
        for _ in 0..20 {
            mean = smooth(mean, 100);
        }
        assert_eq!(mean, 100);
        for _ in 0..40 {
            mean = smooth(mean, 0);
        }
        assert!(mean <= 3, "{mean}");
    }
}
