//! A node's clock: its own origin and its own rate.

use stdx::Instant;

/// Converts between true time and a node's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    origin: u64,
    /// Nanoseconds the clock gains per million of true time.
    gain_ppm: i64,
}

impl Clock {
    /// A clock that shows `origin` at true time zero.
    pub(super) fn new(origin: Instant, gain_ppm: i64) -> Self {
        assert!(gain_ppm.abs() < 500_000, "a clock that still resembles one");
        Self { origin: origin.as_nanos(), gain_ppm }
    }

    /// What the clock shows at a true time.
    pub(super) fn local(&self, at: Instant) -> Instant {
        let nanos = i128::from(at.as_nanos());
        let gained = share(nanos, self.gain_ppm, 1_000_000);
        let shown = i128::from(self.origin) + nanos + gained;
        Instant::from_nanos(u64::try_from(shown).expect("clocks start late enough to gain or lose"))
    }

    /// The first true time at which the clock shows `local` or more.
    pub(super) fn time_of(&self, local: Instant) -> Instant {
        if local == Instant::FAR_FUTURE {
            return local;
        }
        let passed = i128::from(local.as_nanos().saturating_sub(self.origin));
        let nanos = share(passed, 1_000_000, 1_000_000 + self.gain_ppm);
        let mut at = Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        while self.local(at) < local {
            at = Instant::from_nanos(at.as_nanos() + 1);
        }
        at
    }
}

/// `part` of each `whole` of a number.
fn share(number: i128, part: i64, whole: i64) -> i128 {
    // Few times are so long that they need the division of 128 bits, which takes its time.
    let product = i64::try_from(number).ok().and_then(|number| number.checked_mul(part));
    match product {
        Some(product) => i128::from(product / whole),
        None => number * i128::from(part) / i128::from(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_never_early() {
        for gain in [-20_000, -7, 0, 3, 20_000] {
            let clock = Clock::new(Instant::from_nanos(5_000_000_000), gain);
            for local in [5_000_000_001, 5_000_000_333, 77_000_000_019, u64::MAX / 4] {
                let at = clock.time_of(Instant::from_nanos(local));
                assert!(clock.local(at).as_nanos() >= local);
                assert!(clock.local(at).as_nanos() <= local + 2);
            }
        }
    }
}
