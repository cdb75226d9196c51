//! Which named locks a session has, and which holders of others a worker takes for dead.
//!
//! # Not here
//! Getting and giving up locks (`locks`).

use std::cell::RefCell;
use std::collections::BTreeMap;

use stdx::Instant;

/// The named locks of a session: how often it has got each.
#[derive(Debug, Default)]
pub(crate) struct NamedLocks(pub(super) BTreeMap<String, u32>);

/// Holders that nobody knew, with the time since when: by claim.
#[derive(Debug, Default)]
pub(crate) struct Suspects(RefCell<BTreeMap<u64, Instant>>);

impl NamedLocks {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Suspects {
    /// Takes note of whether a holder was found dead; since when it is known to be.
    pub(super) fn see(&self, claim: u64, is_dead: bool, now: Instant) -> Option<Instant> {
        let mut suspects = self.0.borrow_mut();
        if is_dead {
            Some(*suspects.entry(claim).or_insert(now))
        } else {
            suspects.remove(&claim);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use stdx::Duration;

    use super::*;

    #[test]
    fn a_holder_is_suspected_since_it_was_first_found_dead() {
        let suspects = Suspects::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        assert_eq!(suspects.see(7, true, at(1)), Some(at(1)));
        assert_eq!(suspects.see(7, true, at(4)), Some(at(1)));
        assert_eq!(suspects.see(7, false, at(5)), None);
        assert_eq!(suspects.see(7, true, at(6)), Some(at(6)));
    }
}
