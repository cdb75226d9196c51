//! Keys of a cipher from what a user calls a key.
//!
//! # Owns
//! MySQL's folding; HKDF (RFC 5869) and PBKDF2 (RFC 8018), both with HMAC-SHA-512 (RFC 2104).
//! # Not here
//! The hash (the crate `sha2`).

use sha2::{Digest, Sha512};

/// Bytes of a block of SHA-512, and of its digest.
const BLOCK: usize = 128;
const DIGEST: usize = 64;

/// How a key is made of a secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Derivation {
    /// A secret of any length is folded: what is too long is mixed in from the start again, what is
    /// missing is zero.
    Fold,
    /// HKDF.
    Hkdf { salt: Vec<u8>, info: Vec<u8> },
    /// PBKDF2.
    Pbkdf2 { salt: Vec<u8>, iterations: u32 },
}

impl Derivation {
    /// A key of this many bytes, which are no more than a digest has.
    pub(super) fn key(&self, secret: &[u8], size: usize) -> Vec<u8> {
        assert!(size <= DIGEST, "a key of {size} bytes is longer than one digest");
        let digest = match self {
            Self::Fold => {
                let mut key = vec![0; size];
                for part in secret.chunks(size) {
                    key.iter_mut().zip(part).for_each(|(place, byte)| *place ^= byte);
                }
                return key;
            }
            Self::Hkdf { salt, info } => {
                let extracted = Hmac::new(salt).of(&[secret]);
                Hmac::new(&extracted).of(&[info, &[1]])
            }
            Self::Pbkdf2 { salt, iterations } => {
                let hmac = Hmac::new(secret);
                let mut last = hmac.of(&[salt, &1u32.to_be_bytes()]);
                let mut sum = last;
                for _ in 1..*iterations {
                    last = hmac.of(&[&last]);
                    sum.iter_mut().zip(last).for_each(|(place, byte)| *place ^= byte);
                }
                sum
            }
        };
        digest[..size].to_vec()
    }

    /// About how many bytes are hashed for it.
    pub(super) fn effort(&self) -> u64 {
        match self {
            Self::Pbkdf2 { iterations, .. } => u64::from(*iterations) * 2 * BLOCK as u64,
            _ => 0,
        }
    }
}

/// HMAC-SHA-512 with its key.
struct Hmac {
    inner: Sha512,
    outer: Sha512,
}

impl Hmac {
    fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        match key.len() {
            0..=BLOCK => block[..key.len()].copy_from_slice(key),
            _ => block[..DIGEST].copy_from_slice(&Sha512::digest(key)),
        }
        let keyed = |mask: u8| Sha512::new_with_prefix(block.map(|byte| byte ^ mask));
        Self { inner: keyed(0x36), outer: keyed(0x5C) }
    }

    fn of(&self, parts: &[&[u8]]) -> [u8; DIGEST] {
        let mut inner = self.inner.clone();
        parts.iter().for_each(|part| inner.update(part));
        self.outer.clone().chain_update(inner.finalize()).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_secret_is_folded_into_the_key() {
        assert_eq!(Derivation::Fold.key(b"abc", 2), b"\x02b");
        assert_eq!(Derivation::Fold.key(b"ab", 4), b"ab\0\0");
        assert_eq!(Derivation::Fold.key(b"", 3), [0; 3]);
    }

    /// RFC 4231, cases 2 and 6: a short key, and one that is longer than a block.
    #[test]
    fn hmac_gives_the_vectors_of_its_standard() {
        let short = Hmac::new(b"Jefe").of(&[b"what do ya want ", b"for nothing?"]);
        assert_eq!(
            hex(&short),
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        );
        let long = Hmac::new(&[0xAA; 131])
            .of(&[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(
            hex(&long),
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
             6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
        );
    }

    /// What `openssl kdf` gives.
    #[test]
    fn keys_are_derived() {
        let hkdf = Derivation::Hkdf { salt: b"salt".to_vec(), info: b"info".to_vec() };
        assert_eq!(
            hex(&hkdf.key(b"key", 32)),
            "24156e2c35525baaf3d0fbb92b734c8032a110a3f12e2596e441e1924870d84c"
        );
        let pbkdf2 = Derivation::Pbkdf2 { salt: b"salt".to_vec(), iterations: 2000 };
        assert_eq!(
            hex(&pbkdf2.key(b"key", 24)),
            "3bdd69226e7ff69518055cb880d8b409f4d11811602c266b"
        );
    }
}
