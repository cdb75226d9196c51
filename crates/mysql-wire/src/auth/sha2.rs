//! `caching_sha2_password`: SHA-256, many times over for what is stored, and twice for what is
//! cached.
//!
//! A client first sends a proof like that of the older plugin, which can be checked against what
//! was cached when the same password was seen before. Without that, the server asks for the
//! password itself ([`FULL`]), which the client sends in clear where nobody reads along: over TLS
//! or a Unix socket, with a zero byte at its end. Elsewhere it is sealed with the server's public
//! key, which the client asks for with [`WANTS_KEY`].

use sha2::{Digest, Sha256};

use super::same;
use super::sha256_crypt::{ALPHABET, DIGEST_LEN};

/// To the client: the proof was right, and OK follows.
pub const PROVEN: u8 = 3;
/// To the client: the password itself is needed.
pub const FULL: u8 = 4;
/// From the client, as a packet of its own: it asks for the server's public key.
pub const WANTS_KEY: u8 = 2;
/// The longest password.
pub const PASSWORD_MAX: usize = 256;
/// Bytes of a salt.
pub const SALT_LEN: usize = 20;
/// Rounds unless `caching_sha2_password_digest_rounds` says more.
pub const ROUNDS: u32 = 5_000;

/// What an account keeps of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How often the hash is repeated: a multiple of 1,000.
    pub rounds: u32,
    /// What keeps two accounts with one password apart; no zero bytes and no `$`.
    pub salt: [u8; SALT_LEN],
    /// The hash in the alphabet of `crypt`.
    pub digest: [u8; DIGEST_LEN],
}

impl Stored {
    /// Reads what `mysql.user` has: `$A$005$`, the salt and the digest; none if it is something
    /// else.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("$A$")?.as_bytes();
        let (thousands, rest) = rest.split_at_checked(3)?;
        let thousands = u32::from_str_radix(std::str::from_utf8(thousands).ok()?, 16).ok()?;
        let (salt, digest) = rest.strip_prefix(b"$")?.split_at_checked(SALT_LEN)?;
        let digest: [u8; DIGEST_LEN] = digest.try_into().ok()?;
        let rounds = thousands.checked_mul(1_000).filter(|rounds| *rounds >= ROUNDS)?;
        if !digest.iter().all(|byte| ALPHABET.contains(byte)) {
            return None;
        }
        Some(Self { rounds, salt: salt.try_into().ok()?, digest })
    }

    /// As `mysql.user` has it. The salt is text as long as its bytes are ASCII, which those of
    /// [`salt`] are.
    pub fn text(&self) -> String {
        let salt: String = self.salt.iter().copied().map(char::from).collect();
        let digest: String = self.digest.iter().copied().map(char::from).collect();
        format!("$A${:03X}${salt}{digest}", self.rounds / 1_000)
    }
}

/// A salt of random bytes: seven bits of each, without those that a salt must not have.
pub fn salt(random: [u8; SALT_LEN]) -> [u8; SALT_LEN] {
    random.map(|byte| match byte & 0x7F {
        0 | b'$' => (byte & 0x7F) + 1,
        byte => byte,
    })
}

/// What the server caches of a password: `SHA256(SHA256(password))`.
pub fn verifier(password: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(password)).into()
}

/// Whether `answer` proves the password whose verifier is cached.
pub fn matches(answer: &[u8], nonce: &[u8; 20], verifier: &[u8; 32]) -> bool {
    let Ok(answer) = <&[u8; 32]>::try_from(answer) else { return false };
    let mask = Sha256::new().chain_update(verifier).chain_update(nonce).finalize();
    let mut candidate = [0; 32];
    for (at, byte) in candidate.iter_mut().enumerate() {
        *byte = answer[at] ^ mask[at];
    }
    same(&Sha256::digest(candidate), verifier)
}

/// The password that a client sent: in clear, or as it was before the public key sealed it, then
/// mixed with the nonce. None if it is not ended as it must be, empty, or too long.
pub fn password(sent: &[u8], mixed_with: Option<&[u8; 20]>) -> Option<Vec<u8>> {
    let mut clear = sent.to_vec();
    if let Some(nonce) = mixed_with {
        clear.iter_mut().zip(nonce.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    }
    let password = clear.strip_suffix(&[0])?;
    (1..=PASSWORD_MAX).contains(&password.len()).then(|| password.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::Crypt;
    use super::*;

    #[test]
    fn what_is_stored_is_read_again() {
        let salt = salt([0; 20].map(|_: u8| b'$'));
        let digest = Crypt::of(b"secret", &salt, ROUNDS);
        let stored = Stored { rounds: ROUNDS, salt, digest };
        let text = stored.text();
        assert!(text.starts_with("$A$005$%%%%") && text.len() == 70, "{text}");
        assert_eq!(Stored::parse(&text), Some(stored));
        let short = &text[..69];
        let (few, none) = (text.replace("$005$", "$001$"), text.replace("$005$", "$00Z$"));
        for wrong in ["", "$A$", "$A$005$", short, &few, &none, &format!("{short}!"), "$A$é"] {
            assert_eq!(Stored::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn salts_are_ascii_without_zero_and_dollar() {
        for byte in 0..=255 {
            let salt = salt([byte; SALT_LEN])[0];
            assert!(salt.is_ascii() && salt != 0 && salt != b'$', "{byte}");
        }
    }

    #[test]
    fn passwords_end_with_a_zero_byte() {
        assert_eq!(password(b"secret\0", None), Some(b"secret".to_vec()));
        let nonce = *b"abcdefghijklmnopqrst";
        let mixed: Vec<u8> = b"a password that is longer than the nonce\0".to_vec();
        let mixed: Vec<u8> = mixed.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
        let clear = b"a password that is longer than the nonce".to_vec();
        assert_eq!(password(&mixed, Some(&nonce)), Some(clear));
        assert_eq!(password(b"secret", None), None);
        assert_eq!(password(b"\0", None), None);
        assert_eq!(password(b"", None), None);
        assert_eq!(
            password(&[[1; 256].as_slice(), &[0]].concat(), None).map(|p| p.len()),
            Some(256)
        );
        assert_eq!(password(&[[1; 257].as_slice(), &[0]].concat(), None), None);
    }
}
