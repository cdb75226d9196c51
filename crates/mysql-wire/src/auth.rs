//! Password checks of `mysql_native_password` and `caching_sha2_password`.
//!
//! A client of `caching_sha2_password` first sends a proof like that of the older plugin. A server
//! with nothing to check it against asks for the password itself ([`FULL_AUTHENTICATION`]), which
//! the client sends in clear where nobody reads along: over TLS or a Unix socket, with a zero byte
//! at its end. Elsewhere it asks for the server's public key with a packet of the single byte 2.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// MySQL's default plugin since 8.0.
pub const CACHING_SHA2: &str = "caching_sha2_password";
/// The plugin before, and MariaDB's default.
pub const NATIVE: &str = "mysql_native_password";
/// Asks a client of `caching_sha2_password` for the password itself, as a plugin's own data.
pub const FULL_AUTHENTICATION: u8 = 4;

/// Whether an answer says that there is no password. Old clients end even that with a zero byte.
pub fn is_without_password(answer: &[u8]) -> bool {
    matches!(answer, [] | [0])
}

/// Whether `answer` proves the password whose stored hash is `SHA1(SHA1(password))`.
pub fn native_matches(answer: &[u8], nonce: &[u8; 20], stored: &[u8; 20]) -> bool {
    let Ok(answer) = <&[u8; 20]>::try_from(answer) else { return false };
    let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
    let mut candidate = [0; 20];
    for (at, byte) in candidate.iter_mut().enumerate() {
        *byte = answer[at] ^ mask[at];
    }
    same(&Sha1::digest(candidate), stored)
}

/// What `mysql_native_password` stores of a password.
pub fn native_hash(password: &[u8]) -> [u8; 20] {
    Sha1::digest(Sha1::digest(password)).into()
}

/// Whether `answer` proves the password whose cached verifier is `SHA256(SHA256(password))`.
pub fn sha2_matches(answer: &[u8], nonce: &[u8; 20], verifier: &[u8; 32]) -> bool {
    let Ok(answer) = <&[u8; 32]>::try_from(answer) else { return false };
    let mask = Sha256::new().chain_update(verifier).chain_update(nonce).finalize();
    let mut candidate = [0; 32];
    for (at, byte) in candidate.iter_mut().enumerate() {
        *byte = answer[at] ^ mask[at];
    }
    same(&Sha256::digest(candidate), verifier)
}

/// What the server caches of a password for `caching_sha2_password`.
pub fn sha2_verifier(password: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(password)).into()
}

/// Compares in a time that does not depend on where the first difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
