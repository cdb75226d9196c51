//! Time as plain numbers: printable, comparable, the same in the simulation and on a real host.
//!
//! Both types count nanoseconds in a `u64`: 584 years. Arithmetic that would overflow saturates.

use std::fmt;
use std::ops::{Add, Sub};

/// A point on the host's monotonic clock, in nanoseconds since an origin of the host's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);
    /// Later than every instant a host reaches.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The span in whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// This span, `factor` times.
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// This span divided by `divisor`, which must not be zero.
    pub const fn divided_by(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}ns", self.0),
            1_000..1_000_000 => write!(f, "{}us", self.0 / 1_000),
            1_000_000..10_000_000_000 => write!(f, "{}ms", self.0 / 1_000_000),
            _ => write!(f, "{}s", self.0 / 1_000_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let late = Instant::FAR_FUTURE + Duration::from_secs(1);
        assert_eq!(late, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Duration::from_nanos(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::from_nanos(5)), Duration::ZERO);
        assert_eq!(Duration::ZERO - Duration::from_millis(1), Duration::ZERO);
        assert_eq!(Duration::from_secs(u64::MAX).as_nanos(), u64::MAX);
    }

    #[test]
    fn units_agree() {
        let span = Duration::from_millis(1_500);
        assert_eq!(span.as_micros(), 1_500_000);
        assert_eq!(span.times(2), Duration::from_secs(3));
        assert_eq!(span.divided_by(3).as_millis(), 500);
        let start = Instant::from_nanos(7);
        assert_eq!((start + span).since(start), span);
        assert_eq!((start + span) - span, start);
    }

    #[test]
    fn times_are_printed_in_their_unit() {
        assert_eq!(Instant::from_nanos(1_000_002_003).to_string(), "1.000002s");
        assert_eq!(Duration::from_nanos(999).to_string(), "999ns");
        assert_eq!(Duration::from_micros(10).to_string(), "10us");
        assert_eq!(Duration::from_millis(9_999).to_string(), "9999ms");
        assert_eq!(Duration::from_secs(10).to_string(), "10s");
    }
}
