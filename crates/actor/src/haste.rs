//! Whether key operations come in between: then pieces of long work are shorter.
//!
//! # Owns
//! [`Haste`], one for each worker: until when it is taken for shared with key operations.
//! # Why
//! Who reads a row waits until the piece that runs has ended, at each worker on its way. A short
//! piece costs more for each row, as vectors are made and places looked up for fewer: a third and
//! more for the cheapest filters. So pieces are short while somebody is there who gains by it.
//! # Not here
//! What a piece of each kind of work is: see those who ask [`crate::Ctx::in_haste`] and
//! [`crate::Ctx::step_rows`].

use stdx::{Duration, Instant};

/// Until when a worker makes haste.
#[derive(Clone, Copy, Debug, Default)]
pub struct Haste {
    until: Instant,
}

impl Haste {
    /// A key operation has come, or what tells of some.
    pub fn note(&mut self, now: Instant) {
        self.until = now + HASTE_TIME;
    }

    /// Whether one has come lately.
    pub fn is_on(&self, now: Instant) -> bool {
        now < self.until
    }
}

/// How long one operation lets others be expected: a client that waits for each answer asks again
/// within a fraction of that.
const HASTE_TIME: Duration = Duration::from_millis(10);

/// What is done at a time in haste is one in so many of what is done otherwise.
pub const HASTE_PARTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn haste_lasts_a_moment_after_the_last_operation() {
        let mut haste = Haste::default();
        assert!(!haste.is_on(Instant::ZERO));
        let now = Instant::ZERO + Duration::from_secs(5);
        haste.note(now);
        assert!(haste.is_on(now));
        let later = now + HASTE_TIME;
        assert!(!haste.is_on(later));
        haste.note(later);
        assert!(haste.is_on(later + Duration::from_micros(9_999)));
    }
}
