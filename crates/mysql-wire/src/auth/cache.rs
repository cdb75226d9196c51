//! Verifiers of passwords that were seen, by which `caching_sha2_password` logs in quickly.
//!
//! # Invariants
//! A verifier is found by the very text that an account stores, salt and all. An account whose
//! password is changed stores another text, so that no verifier outlives its password.

use std::collections::BTreeMap;

/// Verifiers of at most so many passwords; there is one of each account that has logged in.
const KEPT_MAX: usize = 16_384;

/// What `SHA256(SHA256(password))` is for stored passwords.
#[derive(Default)]
pub struct VerifierCache {
    verifiers: BTreeMap<String, [u8; 32]>,
}

impl std::fmt::Debug for VerifierCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifierCache {{ {} passwords }}", self.verifiers.len())
    }
}

impl VerifierCache {
    /// The verifier of a stored password, if it has been seen.
    pub fn get(&self, stored: &str) -> Option<[u8; 32]> {
        self.verifiers.get(stored).copied()
    }

    /// Keeps what has been verified. When there is no room another one is forgotten: its owner
    /// sends the password once more.
    pub fn insert(&mut self, stored: &str, verifier: [u8; 32]) {
        if self.verifiers.len() >= KEPT_MAX && !self.verifiers.contains_key(stored) {
            self.verifiers.pop_first();
        }
        self.verifiers.insert(stored.to_owned(), verifier);
    }

    /// Forgets all: FLUSH PRIVILEGES.
    pub fn clear(&mut self) {
        self.verifiers.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_tells_nothing() {
        let mut cache = VerifierCache::default();
        for number in 0..KEPT_MAX + 10 {
            cache.insert(&format!("{number:09}"), [1; 32]);
        }
        assert_eq!(format!("{cache:?}"), format!("VerifierCache {{ {KEPT_MAX} passwords }}"));
        assert_eq!((cache.get("000000009"), cache.get("000000010")), (None, Some([1; 32])));
        // What is known already takes nobody's place.
        cache.insert("000000011", [2; 32]);
        assert_eq!(
            (cache.get("000000010"), cache.get("000000011")),
            (Some([1; 32]), Some([2; 32]))
        );
        cache.clear();
        assert_eq!(cache.get("000000011"), None);
    }
}
