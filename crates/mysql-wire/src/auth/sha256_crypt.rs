//! The hash that `caching_sha2_password` stores: SHA-256 crypt, as `crypt(3)` has it under `$5$`,
//! with a salt of 20 bytes.
//!
//! # Owns
//! [`Crypt`], a computation that is done in pieces: 5,000 rounds are most of a millisecond, and
//! whoever logs in must not keep others waiting for so long.
//!
//! Source: Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512".

use sha2::{Digest, Sha256};

/// Characters of a digest.
pub(super) const DIGEST_LEN: usize = 43;
/// The 64 characters in which `crypt` writes.
pub(super) const ALPHABET: &[u8; 64] =
    b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A hash that is being computed.
#[derive(Clone)]
pub struct Crypt {
    /// The password, made long by its hash.
    password: Vec<u8>,
    /// The same of the salt.
    salt: Vec<u8>,
    digest: [u8; 32],
    done: u32,
    rounds: u32,
}

impl std::fmt::Debug for Crypt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crypt {{ {} of {} rounds }}", self.done, self.rounds)
    }
}

impl Crypt {
    /// Begins. The password should be no longer than [`super::sha2::PASSWORD_MAX`]: the time that
    /// this takes grows with its square.
    pub fn new(password: &[u8], salt: &[u8], rounds: u32) -> Self {
        let inner = Sha256::new().chain_update(password).chain_update(salt);
        let inner: [u8; 32] = inner.chain_update(password).finalize().into();
        let mut outer = Sha256::new().chain_update(password).chain_update(salt);
        outer.update(stretched(&inner, password.len()));
        let mut bits = password.len();
        while bits > 0 {
            outer.update(if bits & 1 == 1 { &inner[..] } else { password });
            bits >>= 1;
        }
        let digest: [u8; 32] = outer.finalize().into();
        let mut of_password = Sha256::new();
        (0..password.len()).for_each(|_| of_password.update(password));
        let mut of_salt = Sha256::new();
        (0..16 + usize::from(digest[0])).for_each(|_| of_salt.update(salt));
        Self {
            password: stretched(&of_password.finalize(), password.len()),
            salt: stretched(&of_salt.finalize(), salt.len()),
            digest,
            done: 0,
            rounds,
        }
    }

    /// Does so many further rounds; whether that were all.
    pub fn step(&mut self, rounds: u32) -> bool {
        let until = self.done.saturating_add(rounds).min(self.rounds);
        for round in self.done..until {
            let is_odd = round & 1 == 1;
            let (first, last) = if is_odd {
                (&self.password[..], &self.digest[..])
            } else {
                (&self.digest[..], &self.password[..])
            };
            let mut hash = Sha256::new().chain_update(first);
            if !round.is_multiple_of(3) {
                hash.update(&self.salt);
            }
            if !round.is_multiple_of(7) {
                hash.update(&self.password);
            }
            hash.update(last);
            self.digest = hash.finalize().into();
        }
        self.done = until;
        until == self.rounds
    }

    /// What has come out, once all rounds are done.
    pub fn digest(&self) -> [u8; DIGEST_LEN] {
        let bytes = &self.digest;
        let mut text = [0; DIGEST_LEN];
        let (mut a, mut b, mut c) = (0, 10, 20);
        for out in text[..40].chunks_mut(4) {
            write_triple(out, [bytes[a], bytes[b], bytes[c]]);
            (a, b, c) = (c + 1, a + 1, b + 1);
        }
        write_triple(&mut text[40..], [0, bytes[31], bytes[30]]);
        text
    }

    /// All of it at once.
    pub fn of(password: &[u8], salt: &[u8], rounds: u32) -> [u8; DIGEST_LEN] {
        let mut crypt = Self::new(password, salt, rounds);
        crypt.step(rounds);
        crypt.digest()
    }
}

/// So many bytes of a digest that is repeated.
fn stretched(digest: &[u8], len: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(len).collect()
}

/// Writes 24 bits, the lowest six first.
fn write_triple(out: &mut [u8], [high, middle, low]: [u8; 3]) {
    let mut bits = u32::from_be_bytes([0, high, middle, low]);
    for character in out {
        *character = ALPHABET[(bits & 63) as usize];
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(digest: [u8; DIGEST_LEN]) -> String {
        String::from_utf8(digest.to_vec()).unwrap()
    }

    #[test]
    fn the_vectors_of_crypt() {
        // Of the specification of SHA-crypt, and of glibc's `crypt`; their salts have at most 16
        // bytes.
        let cases: [(&[u8], &[u8], u32, &str); 3] = [
            (b"Hello world!", b"saltstring", 5_000, "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (
                b"Hello world!",
                b"saltstringsaltst",
                10_000,
                "3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
            ),
            (
                b"we have a short salt string but not a short password",
                b"short",
                77_777,
                "JiO1O3ZpDAxGJeaDIuqCoEFysAe1mZNJRs3pw0KQRd/",
            ),
        ];
        for (password, salt, rounds, expected) in cases {
            assert_eq!(text(Crypt::of(password, salt, rounds)), expected);
        }
    }

    #[test]
    fn the_hash_of_a_mysql_server() {
        // From a server, with a salt of 20 bytes: published as an example by those who test
        // passwords (hashcat, mode 7401). The password is `hashcat`.
        let salt = [
            0xF9, 0xCC, 0x98, 0xCE, 0x08, 0x89, 0x29, 0x24, 0xF5, 0x0A, 0x21, 0x3B, 0x6B, 0xC5,
            0x71, 0xA2, 0xC1, 0x17, 0x78, 0xC5,
        ];
        let expected = "bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/";
        assert_eq!(text(Crypt::of(b"hashcat", &salt, 5_000)), expected);
    }

    #[test]
    fn pieces_come_to_the_same() {
        let whole = Crypt::of(b"secret", &[7; 20], 5_000);
        let mut crypt = Crypt::new(b"secret", &[7; 20], 5_000);
        let mut steps = 1;
        while !crypt.step(64) {
            steps += 1;
        }
        assert_eq!((crypt.digest(), steps), (whole, 79));
        assert_eq!(format!("{crypt:?}"), "Crypt { 5000 of 5000 rounds }");
    }
}
