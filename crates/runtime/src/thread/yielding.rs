//! When a thread lets others have its CPU although it has something to do.
//!
//! # Owns
//! The decision, from how long the CPU was away the last times ([`Yielding`]).
//! # Guarantees
//! 1. Beside threads that only wait for others (clients, the next worker) the thread offers its CPU
//!    each time it is asked.
//! 2. Beside threads that keep a CPU for as long as the system lets them, it is without it by its
//!    own will for at most one part in [`HOLD_FACTOR`] of the time.
//! # Why
//! Who wakes up on a CPU that computes waits there until the system's scheduler takes it away, and
//! that happens at its tick, up to 4 ms later with 250 Hz. A long query would have its clients
//! wait so long now and then.

use stdx::{Duration, Instant};

/// Offers of the CPU to others, of one thread.
#[derive(Debug)]
pub(crate) struct Yielding {
    /// Until when the CPU is kept.
    held_until: Instant,
}

impl Yielding {
    pub(crate) const fn new() -> Yielding {
        Yielding { held_until: Instant::ZERO }
    }

    /// Whether to offer the CPU now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.held_until
    }

    /// Takes in that the CPU was offered and when it was back.
    pub(crate) fn note(&mut self, offered: Instant, back: Instant) {
        let away = back.since(offered);
        if away > SHORT {
            self.held_until = back + away.times(HOLD_FACTOR);
        }
    }
}

/// What a client or another worker uses at a time; who is away for longer has met somebody who
/// computes.
const SHORT: Duration = Duration::from_micros(300);

/// How many times as long as it was away the CPU is kept after that.
const HOLD_FACTOR: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_clients_each_offer_is_made() {
        let mut yielding = Yielding::new();
        let mut now = Instant::ZERO;
        for micros in [1, 20, 300, 5] {
            assert!(yielding.is_due(now));
            let back = now + Duration::from_micros(micros);
            yielding.note(now, back);
            now = back;
        }
        assert!(yielding.is_due(now));
    }

    #[test]
    fn beside_a_thread_that_computes_it_is_rarely_away() {
        let mut yielding = Yielding::new();
        let (mut now, mut away) = (Instant::ZERO, Duration::ZERO);
        let slice = Duration::from_millis(4);
        let end = now + Duration::from_secs(10);
        while now < end {
            if yielding.is_due(now) {
                yielding.note(now, now + slice);
                away = away + slice;
                now = now + slice;
            }
            now = now + Duration::from_micros(50);
        }
        let kept = away.times(HOLD_FACTOR);
        assert!(kept <= Duration::from_secs(10) + slice.times(HOLD_FACTOR), "{away}");
        assert!(kept > Duration::from_secs(9), "it goes on offering: {away}");
    }
}
