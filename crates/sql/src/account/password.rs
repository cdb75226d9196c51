//! Passwords: what accounts keep of them, whether one is the same as one before, random ones.
//!
//! # Owns
//! From a password to the text of `authentication_string`, and back to whether they fit.
//! # Not here
//! Which passwords are good enough (`policy`); what clients prove (`mysql_wire::auth`).

use mysql_wire::auth::sha2::{ROUNDS, SALT_LEN, Stored};
use mysql_wire::auth::{self, Crypt, Plugin, native};
use stdx::Prng;

/// Characters of random passwords, without those that look like others.
const CHARACTERS: &[u8] =
    b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789-_+*.,:;!?%#=<>()[]";

/// What an account keeps of a password; empty for an empty one.
pub(crate) fn stored(plugin: Plugin, password: &[u8], prng: &mut Prng) -> String {
    let mut random = [0; SALT_LEN];
    random.iter_mut().for_each(|byte| *byte = prng.next_u64() as u8);
    auth::store(plugin, password, random, ROUNDS)
}

/// Whether a text is what the plugin keeps of some password.
pub(crate) fn is_stored(plugin: Plugin, text: &str) -> bool {
    match plugin {
        Plugin::Native => text.is_empty() || native::parse(text).is_some(),
        Plugin::CachingSha2 => text.is_empty() || Stored::parse(text).is_some(),
        // The name of a user of the system.
        Plugin::Socket => true,
    }
}

/// Whether a text is what is kept of this password, by either plugin.
pub(crate) fn fits(text: &str, password: &[u8]) -> bool {
    if let Some(hash) = native::parse(text) {
        return native::hash(password) == hash;
    }
    match Stored::parse(text) {
        Some(stored) => Crypt::of(password, &stored.salt, stored.rounds) == stored.digest,
        None => text.is_empty() && password.is_empty(),
    }
}

/// A password of so many characters, with some of each kind that a policy may ask for.
pub(crate) fn random(length: usize, prng: &mut Prng) -> String {
    loop {
        let character = |_| CHARACTERS[prng.below(CHARACTERS.len() as u64) as usize];
        let password: Vec<u8> = (0..length).map(character).collect();
        let has = |kind: fn(&u8) -> bool| password.iter().any(kind);
        let is_mixed = has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_punctuation);
        if is_mixed || length < 8 {
            return String::from_utf8(password).expect("the characters are ASCII");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_fits_the_password_and_no_other() {
        let mut prng = Prng::new(1);
        for plugin in [Plugin::Native, Plugin::CachingSha2] {
            let text = stored(plugin, b"secret", &mut prng);
            assert!(is_stored(plugin, &text), "{text}");
            assert!(fits(&text, b"secret") && !fits(&text, b"Secret"), "{text}");
            assert_eq!(stored(plugin, b"", &mut prng), "");
        }
        assert!(fits("", b"") && !fits("", b"x"));
        assert_ne!(random(20, &mut prng), random(20, &mut prng));
        assert_eq!(random(20, &mut prng).len(), 20);
    }
}
