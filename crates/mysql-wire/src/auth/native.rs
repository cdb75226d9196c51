//! `mysql_native_password`: SHA-1 of SHA-1, for clients from before 8.0 and for MariaDB's.
//!
//! # Not here
//! Whether the plugin is switched on.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{hex, same};

/// What accounts keep of a password: `SHA1(SHA1(password))`.
pub fn hash(password: &[u8]) -> [u8; 20] {
    Sha1::digest(Sha1::digest(password)).into()
}

/// The same as `mysql.user` has it: `*` and 40 hexadecimal digits; empty without a password.
pub fn stored(password: &[u8]) -> String {
    if password.is_empty() { String::new() } else { format!("*{}", hex(&hash(password))) }
}

/// Reads what `mysql.user` has; none if it is no hash of this plugin.
pub fn parse(stored: &str) -> Option<[u8; 20]> {
    let digits = stored.strip_prefix('*')?.as_bytes();
    let mut hash = [0; 20];
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        *byte = (value(pair[0])? << 4 | value(pair[1])?) as u8;
    }
    Some(hash)
}

/// Whether `answer` proves the password whose hash is `stored`.
pub fn matches(answer: &[u8], nonce: &[u8; 20], stored: &[u8; 20]) -> bool {
    let Ok(answer) = <&[u8; 20]>::try_from(answer) else { return false };
    let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
    let mut candidate = [0; 20];
    for (at, byte) in candidate.iter_mut().enumerate() {
        *byte = answer[at] ^ mask[at];
    }
    same(&Sha1::digest(candidate), stored)
}

/// What MariaDB's clients (11.4 and later) expect as the text of the OK packet that ends a login
/// when they cannot verify the server's certificate by an authority: the server proves with it
/// that it knows the hash of the password, and that the certificate is the one that the client was
/// shown. `fingerprint` is the SHA-256 of that certificate.
pub fn certificate_proof(stored: &[u8; 20], nonce: &[u8; 20], fingerprint: &[u8; 32]) -> String {
    let proof = Sha256::new().chain_update(stored).chain_update(nonce).chain_update(fingerprint);
    format!("\u{1}{}", hex(&proof.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_mysql() {
        // SELECT PASSWORD('mypass') of MySQL 5.7 and MariaDB.
        let text = "*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4";
        assert_eq!(stored(b"mypass"), text);
        assert_eq!(parse(text), Some(hash(b"mypass")));
        assert_eq!(parse(&text.to_lowercase()), Some(hash(b"mypass")));
        assert_eq!(stored(b""), "");
        for wrong in ["", "*", &text[1..], &text[..40], &format!("{text}0"), "*é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse(&text.replace('6', "G")), None);
    }

    #[test]
    fn a_proof_of_the_certificate_depends_on_all_of_it() {
        let of = |password: &[u8], nonce, print| {
            certificate_proof(&hash(password), &[nonce; 20], &[print; 32])
        };
        let proof = of(b"secret", 7, 9);
        assert!(proof.starts_with('\u{1}') && proof.len() == 65, "{proof}");
        assert_eq!(proof, proof.to_uppercase());
        for other in [of(b"Secret", 7, 9), of(b"secret", 8, 9), of(b"secret", 7, 8)] {
            assert_ne!(proof, other);
        }
    }
}
