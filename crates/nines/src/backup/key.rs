//! Keys of backups: of a passphrase by Argon2id, or of a file.
//!
//! # Guarantees
//! Each backup has a key of its own, random, which is stored encrypted. What was derived is wiped
//! by nobody: the passphrase was in the statement, and the key file is on the host.

use std::io::Read;
use std::path::Path;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use runtime::{hex, unhex};
use sql::BackupKey;

use super::format::{DataKey, Encryption};
use super::place::open_plain;

const CIPHER: &str = "AES-256-GCM";
const OF_PASSPHRASE: &str = "argon2id";
const OF_FILE: &str = "key file";
/// Argon2id: memory in KiB, passes, lanes. RFC 9106 names these for where memory is short.
const MEMORY: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 4;
/// The least and most bytes of a key file.
const FILE_MIN: usize = 32;
const FILE_MAX: u64 = 4_096;

/// A new key for a backup, and how it is stored; none if it is not encrypted.
pub(super) fn make(given: &BackupKey) -> Result<Option<(DataKey, Encryption)>, String> {
    let derivation = match given {
        BackupKey::None => return Ok(None),
        BackupKey::Passphrase(_) => OF_PASSPHRASE,
        BackupKey::File(_) => OF_FILE,
    };
    wrap(&random()?, derivation, given).map(Some)
}

/// The key of a backup, stored under another one.
///
/// # Errors
/// When the old key is wrong, or there is no new one.
pub(super) fn rewrap(
    old: &BackupKey,
    stored: &Encryption,
    new: &BackupKey,
) -> Result<(DataKey, Encryption), String> {
    let derivation = match new {
        BackupKey::None => return Err("there is no new key".to_owned()),
        BackupKey::Passphrase(_) => OF_PASSPHRASE,
        BackupKey::File(_) => OF_FILE,
    };
    wrap(&unwrap(old, stored)?, derivation, new)
}

fn wrap(
    bytes: &[u8; 32],
    derivation: &str,
    given: &BackupKey,
) -> Result<(DataKey, Encryption), String> {
    let salt: [u8; 16] = random()?;
    let nonce: [u8; NONCE_LEN] = random()?;
    let wrapping = wrapping_key(given, &salt)?;
    let mut wrapped = bytes.to_vec();
    let sealed = wrapping.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(derivation.as_bytes()),
        &mut wrapped,
    );
    sealed.map_err(|_| "the key of the backup cannot be encrypted".to_owned())?;
    let wrapped_key = hex(&[&nonce[..], &wrapped].concat());
    let (cipher, derivation, salt) = (CIPHER.to_owned(), derivation.to_owned(), hex(&salt));
    Ok((DataKey::new(bytes)?, Encryption { cipher, derivation, salt, wrapped_key }))
}

/// The key of a backup; none if it is not encrypted.
///
/// # Errors
/// For a wrong key, one that is missing, one of a backup that has none.
pub(super) fn find(
    given: &BackupKey,
    stored: Option<&Encryption>,
) -> Result<Option<DataKey>, String> {
    let Some(stored) = stored else {
        return match given {
            BackupKey::None => Ok(None),
            // Who expects an encrypted one may have been given another.
            _ => Err("the backup is not encrypted: leave the key out if that is right".to_owned()),
        };
    };
    DataKey::new(&unwrap(given, stored)?).map(Some)
}

/// The bytes of the key of a backup.
fn unwrap(given: &BackupKey, stored: &Encryption) -> Result<[u8; 32], String> {
    if stored.cipher != CIPHER {
        return Err(format!("its cipher {} is not known to this version", stored.cipher));
    }
    match (given, stored.derivation.as_str()) {
        (BackupKey::Passphrase(_), OF_PASSPHRASE) | (BackupKey::File(_), OF_FILE) => {}
        (_, OF_PASSPHRASE) => return Err("it is encrypted: give its passphrase".to_owned()),
        (_, OF_FILE) => return Err("it is encrypted: give its key file".to_owned()),
        (_, other) => return Err(format!("keys by {other} are not known to this version")),
    }
    let unreadable = || "the manifest has no key that can be read".to_owned();
    let salt = unhex(&stored.salt).ok_or_else(unreadable)?;
    let wrapped = unhex(&stored.wrapped_key).ok_or_else(unreadable)?;
    let (nonce, wrapped) = wrapped.split_first_chunk::<NONCE_LEN>().ok_or_else(unreadable)?;
    let mut wrapped = wrapped.to_vec();
    let opened = wrapping_key(given, &salt)?.open_in_place(
        Nonce::assume_unique_for_key(*nonce),
        Aad::from(stored.derivation.as_bytes()),
        &mut wrapped,
    );
    let opened = opened.map_err(|_| match given {
        BackupKey::Passphrase(_) => "the passphrase is wrong".to_owned(),
        _ => "the key file is the wrong one".to_owned(),
    })?;
    <[u8; 32]>::try_from(&*opened).map_err(|_| unreadable())
}

/// The key that encrypts the key of a backup.
fn wrapping_key(given: &BackupKey, salt: &[u8]) -> Result<LessSafeKey, String> {
    let mut bytes = [0; 32];
    match given {
        BackupKey::Passphrase(passphrase) => {
            let parameters = Params::new(MEMORY, PASSES, LANES, Some(bytes.len()));
            let parameters = parameters.map_err(|why| format!("Argon2id: {why}"))?;
            let mut memory = vec![Block::default(); parameters.block_count()];
            let function = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
            let made =
                function.hash_password_into_with_memory(passphrase, salt, &mut bytes, &mut memory);
            made.map_err(|why| format!("Argon2id: {why}"))?;
        }
        BackupKey::File(path) => {
            let mut text = Vec::new();
            let opened = open_plain(Path::new(path));
            let (file, _) = opened.map_err(|why| format!("key file {path}: {why}"))?;
            let read = file.take(FILE_MAX + 1).read_to_end(&mut text);
            read.map_err(|why| format!("key file {path}: {why}"))?;
            let text = text.trim_ascii();
            if text.len() < FILE_MIN || text.len() as u64 > FILE_MAX {
                return Err(format!(
                    "key file {path}: a key has {FILE_MIN} to {FILE_MAX} bytes; make one by \
                     `openssl rand -hex 32`"
                ));
            }
            // What is in the file has the entropy: one pass is enough.
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), text);
            bytes.copy_from_slice(tag.as_ref());
        }
        BackupKey::None => return Err("it is encrypted, and there is no key".to_owned()),
    }
    let key = UnboundKey::new(&AES_256_GCM, &bytes);
    key.map(LessSafeKey::new).map_err(|_| "AES-256-GCM takes no such key".to_owned())
}

/// Random bytes of the system.
pub(super) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    runtime::random(&mut bytes)
        .map_err(|why| format!("the system gives no random bytes: {why}"))?;
    Ok(bytes)
}
