//! The host's clocks: the machine's monotonic clock as the actors' [`Instant`], and the time of
//! day.

use std::time;

use stdx::{Duration, Instant};

/// A clock that all threads of a process share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: time::Instant,
}

impl Clock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        Self { origin: time::Instant::now() }
    }

    /// The time.
    pub(crate) fn now(&self) -> Instant {
        let nanos = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        BEGINNING + Duration::from_nanos(nanos)
    }
}

/// The time of day, since 1970 in UTC; nothing where the system's clock is before that.
pub fn since_1970() -> time::Duration {
    time::SystemTime::now().duration_since(time::UNIX_EPOCH).unwrap_or_default()
}

/// The clock's first reading. Not the origin, which actors take for "never".
pub(crate) const BEGINNING: Instant = Instant::from_nanos(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_forward_from_after_never() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first >= BEGINNING && clock.now() >= first);
    }
}
