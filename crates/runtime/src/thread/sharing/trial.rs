//! Whether two threads get more done apart or as one: it is tried out.
//!
//! What decides it cannot be seen from inside: how much of the processors others want, the clients
//! above all, and what the wake-ups between two threads cost. What both get done can be: the turns
//! of their workers' actors are the same for a statement, wherever they are taken.
//!
//! # Owns
//! What both threads got done lately, apart and as one, and when that is measured again.
//! # Guarantees
//! What is tried in vain is tried less and less often, so that it costs next to nothing.
//! # Not here
//! How busy threads are and how a state moves (`sharing`).

use stdx::{Duration, Instant};

/// How two threads did as one, and how they did apart.
#[derive(Debug)]
pub(super) struct Trial {
    /// When the stretch that is being measured began, and the turns taken before.
    began: Option<(Instant, u64)>,
    /// Turns in a second, when they were apart last.
    apart: Option<u64>,
    /// When they became one.
    joined: Instant,
    /// When it was found that they should stay so.
    confirmed: Option<Instant>,
    /// How long they stay apart, and as one, before the other is tried.
    patience_apart: Duration,
    patience_joined: Duration,
}

/// Why two threads that are one should be two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They got more done.
    Apart,
    /// It is to be seen whether they get more done.
    Unknown,
}

impl Trial {
    pub(super) fn new() -> Self {
        Self {
            began: None,
            apart: None,
            joined: Instant::ZERO,
            confirmed: None,
            patience_apart: PATIENCE_MIN,
            patience_joined: PATIENCE_MIN,
        }
    }

    /// A window has passed in which they were apart; `turns` are all that both have taken.
    pub(super) fn apart(&mut self, now: Instant, turns: u64) {
        let Some((began, before)) = self.began else {
            self.began = Some((now, turns));
            return;
        };
        let span = now.since(began);
        if span >= STRETCH {
            self.apart = Some(rate(turns.saturating_sub(before), span));
        }
        if span >= STRETCH_MAX {
            self.began = Some((now, turns));
        }
    }

    /// They become one.
    pub(super) fn joins(&mut self, now: Instant) {
        (self.began, self.confirmed, self.joined) = (None, None, now);
    }

    /// A window has passed in which they were one, and whether that was busy throughout.
    pub(super) fn joined(&mut self, now: Instant, busy: bool, turns: u64) -> Option<Verdict> {
        if !busy {
            // All fits on one thread. How they would do apart under another load is not known.
            (self.began, self.apart, self.confirmed) = (None, None, None);
            return None;
        }
        let Some((began, before)) = self.began else {
            self.began = Some((now, turns));
            return None;
        };
        if now.since(began) < STRETCH {
            return None;
        }
        if let Some(apart) = self.apart.take() {
            let one = rate(turns.saturating_sub(before), now.since(began));
            if one.saturating_mul(100) < apart.saturating_mul(GAIN_PERCENT) {
                return Some(Verdict::Apart);
            }
            self.confirmed = Some(now);
            self.patience_joined = longer(self.patience_joined);
        }
        let since = self.confirmed.unwrap_or(self.joined);
        (now.since(since) >= self.patience_joined).then_some(Verdict::Unknown)
    }

    /// They are apart again, by a verdict or for another reason; from when on they may be one.
    pub(super) fn parts(&mut self, now: Instant, verdict: Option<Verdict>) -> Instant {
        self.began = None;
        self.patience_apart = match verdict {
            Some(Verdict::Apart) => longer(self.patience_apart),
            _ => PATIENCE_MIN,
        };
        if verdict == Some(Verdict::Apart) {
            self.patience_joined = PATIENCE_MIN;
        }
        now + self.patience_apart
    }
}

/// A rate in a second.
fn rate(turns: u64, span: Duration) -> u64 {
    turns.saturating_mul(1_000_000) / (span.as_nanos() / 1_000).max(1)
}

fn longer(patience: Duration) -> Duration {
    patience.times(2).min(PATIENCE_MAX)
}

/// How long is measured at least, and at most before it is measured anew.
const STRETCH: Duration = Duration::from_millis(30);
const STRETCH_MAX: Duration = Duration::from_millis(200);
/// What one thread has to get done of what two did, in percent: two have the shorter queues.
const GAIN_PERCENT: u64 = 102;
/// How long the other is not tried, at first and at most.
const PATIENCE_MIN: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(10);

    /// Two threads under a steady load, by the clock.
    struct Pair {
        trial: Trial,
        now: Instant,
        turns: u64,
        /// Turns in a window, apart and as one.
        apart: u64,
        joined: u64,
    }

    impl Pair {
        fn new(apart: u64, joined: u64) -> Self {
            let mut pair =
                Self { trial: Trial::new(), now: Instant::ZERO, turns: 0, apart, joined };
            pair.now = pair.now + Duration::from_secs(9);
            pair
        }

        /// Apart until they may be one.
        fn stay_apart(&mut self, until: Instant) {
            while self.now < until {
                self.now = self.now + WINDOW;
                self.turns += self.apart;
                self.trial.apart(self.now, self.turns);
            }
        }

        /// Apart until they may be one, then as one until it is time to part: the verdict, how
        /// long that took, and when they may be one again.
        fn round(&mut self, until: Instant) -> (Verdict, Duration, Instant) {
            self.stay_apart(until);
            let (verdict, span) = self.stay_joined();
            (verdict, span, self.trial.parts(self.now, Some(verdict)))
        }

        /// As one, until it is time to part; the verdict, and how long that took.
        fn stay_joined(&mut self) -> (Verdict, Duration) {
            let began = self.now;
            self.trial.joins(began);
            loop {
                self.now = self.now + WINDOW;
                self.turns += self.joined;
                if let Some(verdict) = self.trial.joined(self.now, true, self.turns) {
                    return (verdict, self.now.since(began));
                }
            }
        }
    }

    #[test]
    fn what_gets_less_done_as_one_is_tried_less_and_less_often() {
        let mut pair = Pair::new(1_000, 1_010);
        let mut until = pair.now + PATIENCE_MIN;
        for patience in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let (verdict, span, next) = pair.round(until);
            assert_eq!((verdict, span), (Verdict::Apart, Duration::from_millis(40)));
            until = next;
            assert_eq!(until.since(pair.now), Duration::from_millis(patience));
        }
    }

    #[test]
    fn what_gets_more_done_as_one_stays_so_for_longer_and_longer() {
        let mut pair = Pair::new(1_000, 1_100);
        let mut until = pair.now + PATIENCE_MIN;
        for patience in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let (verdict, span, next) = pair.round(until);
            let tried = Duration::from_millis(40 + patience);
            assert_eq!((verdict, span), (Verdict::Unknown, tried));
            until = next;
            assert_eq!(until.since(pair.now), PATIENCE_MIN, "soon measured");
        }
    }

    #[test]
    fn a_load_that_has_changed_is_measured_anew() {
        let mut pair = Pair::new(1_000, 900);
        let mut until = pair.now + PATIENCE_MIN;
        for _ in 0..5 {
            (_, _, until) = pair.round(until);
        }
        pair.joined = 1_100;
        pair.stay_apart(until);
        assert_eq!(pair.stay_joined().0, Verdict::Unknown);
    }

    #[test]
    fn as_long_as_one_thread_is_enough_nothing_is_tried() {
        let mut pair = Pair::new(10, 10);
        pair.stay_apart(pair.now + PATIENCE_MIN);
        pair.trial.joins(pair.now);
        for _ in 0..1_000 {
            pair.now = pair.now + WINDOW;
            pair.turns += 10;
            assert_eq!(pair.trial.joined(pair.now, false, pair.turns), None);
        }
        // Now there is more to do, and what they did apart was another load.
        let verdicts = (0..10).find_map(|_| {
            pair.now = pair.now + WINDOW;
            pair.turns += 1_000;
            pair.trial.joined(pair.now, true, pair.turns)
        });
        assert_eq!(verdicts, Some(Verdict::Unknown));
    }

    #[test]
    fn long_work_is_no_verdict() {
        let mut pair = Pair::new(1_000, 900);
        for verdict in [Some(Verdict::Apart), None] {
            pair.stay_apart(pair.now + PATIENCE_MAX);
            pair.trial.joins(pair.now);
            let until = pair.trial.parts(pair.now, verdict);
            let apart = if verdict.is_some() { PATIENCE_MIN.times(2) } else { PATIENCE_MIN };
            assert_eq!(until.since(pair.now), apart);
        }
    }
}
