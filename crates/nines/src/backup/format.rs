//! The form of a backup's files.
//!
//! ```text
//! manifest.json    what there is: version, time, epoch; name, size and SHA-256 of each other file
//! manifest.check   the SHA-256 of manifest.json; with a key, an HMAC-SHA256 of it too
//! definitions      the contents, but for the rows, as JSON in portions
//! 000001.rows      the rows of a table, in portions
//! ```
//!
//! A portion is its length as it is stored and its length, four bytes each, little-endian; then
//! its bytes, compressed by LZ4, and with a key encrypted by AES-256-GCM behind that. The nonce is
//! the number of the file, which is never used twice with a key, and that of the portion.
//!
//! # Guarantees
//! Whoever changes, cuts or swaps a byte is found out by the checksums; without the key, nobody can
//! make others that fit.

use std::collections::BTreeMap;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use runtime::{hex, sha256_hex};
use serde::{Deserialize, Serialize};

/// The version of the form that is written and read.
pub(super) const FORM: u32 = 1;
/// That of full backups of archives, whose rows are those of the kernel.
pub(super) const FORM_OF_CHAINS: u32 = 2;
/// The largest portion: a row of the largest size, with room.
const PORTION_MAX: usize = 3 << 30;
/// Bytes that LZ4 makes of one at most.
const EXPANSION_MAX: usize = 255;
/// Files.
pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const CHECK: &str = "manifest.check";
pub(super) const DEFINITIONS: &str = "definitions";
/// The number of the file of definitions.
pub(super) const DEFINITIONS_NUMBER: u32 = 0;

/// What there is in a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// [`FORM`].
    pub(super) form: u32,
    /// The version of the program that wrote it.
    pub(super) program: String,
    /// The epoch whose state it is.
    pub(super) epoch: u64,
    /// Microseconds since 1970 UTC.
    pub(super) began: i64,
    /// See `began`.
    pub(super) ended: i64,
    /// Random: no two backups have the same.
    pub(super) id: String,
    /// Equal for backups that stand for each other; empty if that is not known.
    #[serde(default)]
    pub(super) set: String,
    /// How it is encrypted, if it is.
    pub(super) encryption: Option<Encryption>,
    /// All files but this one and its check, by name.
    pub(super) files: BTreeMap<String, FileEntry>,
}

/// How a backup is encrypted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Encryption {
    /// `AES-256-GCM`.
    pub(super) cipher: String,
    /// `argon2id` of a passphrase, or `key file`.
    pub(super) derivation: String,
    /// Hexadecimal.
    pub(super) salt: String,
    /// The key of this backup, encrypted by the one that was derived: hexadecimal.
    pub(super) wrapped_key: String,
}

/// A file of a backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FileEntry {
    /// Its number: a part of nonces.
    pub(super) number: u32,
    /// Its size.
    pub(super) bytes: u64,
    /// Hexadecimal.
    pub(super) sha256: String,
    /// The place of its table among those of the definitions; none of other files.
    pub(super) table: Option<usize>,
}

/// The key of one backup.
pub(super) struct DataKey {
    cipher: LessSafeKey,
    manifest: hmac::Key,
    /// What keys of segments are made by.
    segments: hmac::Key,
}

impl DataKey {
    /// By 32 random bytes.
    pub(super) fn new(bytes: &[u8; 32]) -> Result<Self, String> {
        let unbound = UnboundKey::new(&AES_256_GCM, bytes);
        let unbound = unbound.map_err(|_| "AES-256-GCM takes no such key".to_owned())?;
        let root = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let own = hmac::sign(&root, b"nines backup manifest");
        let manifest = hmac::Key::new(hmac::HMAC_SHA256, own.as_ref());
        let own = hmac::sign(&root, b"nines archive segments");
        let segments = hmac::Key::new(hmac::HMAC_SHA256, own.as_ref());
        Ok(Self { cipher: LessSafeKey::new(unbound), manifest, segments })
    }

    /// The key of a segment with these random bytes, and the one of its checksums.
    pub(super) fn of_segment(&self, salt: &[u8]) -> Result<(Self, hmac::Key), String> {
        let made = |what: &[u8]| hmac::sign(&self.segments, &[what, salt].concat());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(made(b"rows").as_ref());
        let sums = hmac::Key::new(hmac::HMAC_SHA256, made(b"sums").as_ref());
        Ok((Self::new(&bytes)?, sums))
    }
}

/// The text of `manifest.check`.
pub(super) fn check_of(manifest: &[u8], key: Option<&DataKey>) -> String {
    let mut text = format!("sha256 {}\n", sha256_hex(manifest));
    if let Some(key) = key {
        let tag = hmac::sign(&key.manifest, manifest);
        text += &format!("hmac-sha256 {}\n", hex(tag.as_ref()));
    }
    text
}

/// Which portion of which file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) file: u32,
    pub(super) portion: u64,
}

impl Position {
    fn nonce(self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.file.to_le_bytes());
        bytes[4..].copy_from_slice(&self.portion.to_le_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

/// The lengths before a portion.
pub(super) const HEAD: usize = 8;

/// A portion as it is stored, with its head.
pub(super) fn seal(raw: &[u8], place: Position, key: Option<&DataKey>) -> Result<Vec<u8>, String> {
    let mut stored = vec![0; get_maximum_output_size(raw.len())];
    let packed = compress_into(raw, &mut stored);
    stored.truncate(packed.map_err(|why| format!("rows cannot be packed: {why}"))?);
    let tag_size = key.map_or(0, |_| AES_256_GCM.tag_len());
    let length = |length: usize| {
        let length = u32::try_from(length);
        length.map_err(|_| "a portion of rows is too large for a backup".to_owned())
    };
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length(stored.len() + tag_size)?.to_le_bytes());
    head[4..].copy_from_slice(&length(raw.len())?.to_le_bytes());
    if let Some(key) = key {
        let sealed =
            key.cipher.seal_in_place_append_tag(place.nonce(), Aad::from(head), &mut stored);
        sealed.map_err(|_| "a portion cannot be encrypted".to_owned())?;
    }
    let mut portion = Vec::with_capacity(HEAD + stored.len());
    portion.extend_from_slice(&head);
    portion.append(&mut stored);
    Ok(portion)
}

/// How long a stored portion is, by its head.
pub(super) fn stored_length(head: [u8; HEAD]) -> usize {
    let [a, b, c, d, ..] = head;
    u32::from_le_bytes([a, b, c, d]) as usize
}

/// What a stored portion holds.
pub(super) fn open(
    head: [u8; HEAD],
    mut stored: Vec<u8>,
    place: Position,
    key: Option<&DataKey>,
) -> Result<Vec<u8>, String> {
    let [.., a, b, c, d] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let packed = match key {
        None => &stored[..],
        Some(key) => {
            let opened = key.cipher.open_in_place(place.nonce(), Aad::from(head), &mut stored);
            opened.map_err(|_| "it was changed, or is of another key".to_owned())?
        }
    };
    // Nobody is made to reserve memory for what cannot be there.
    if length > PORTION_MAX || length > packed.len().saturating_mul(EXPANSION_MAX) {
        return Err("a portion says that it is larger than it can be".to_owned());
    }
    let mut raw = vec![0; length];
    if decompress_into(packed, &mut raw).is_ok_and(|unpacked| unpacked == length) {
        Ok(raw)
    } else {
        Err("a portion cannot be unpacked".to_owned())
    }
}
