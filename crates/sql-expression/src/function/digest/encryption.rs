//! AES_ENCRYPT and AES_DECRYPT: what the session and the arguments say about mode, key and vector.
//!
//! # Not here
//! The modes (`aes`), the derivation of keys (`key`).

use super::super::frame::text;
use super::super::{Evaluated, Frame, Signature, Stop};
use super::aes::{BLOCK, BlockEncryption};
use super::key::Derivation;
use crate::error::SqlError;
use crate::result_type::ResultType;

/// An option of a key derivation is shorter than this; so is the number of iterations as a text.
const OPTION_SIZE: usize = 256;
const ITERATIONS_SIZE: usize = 6;
/// How often PBKDF2 may hash, and how often it does if nobody says.
const ITERATIONS: std::ops::RangeInclusive<u32> = 1_000..=65_535;

/// What AES_ENCRYPT and AES_DECRYPT have in common.
struct Task {
    encryption: BlockEncryption,
    key: Vec<u8>,
    vector: [u8; BLOCK],
}

pub(super) fn encrypt_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    // Padding adds a byte at least. Another mode, set for a plan that is kept, adds nothing.
    let blocks = s.byte_length(0) / BLOCK as u64 + 1;
    s.maybe_binary(u32::try_from(blocks * BLOCK as u64).unwrap_or(u32::MAX))
}

pub(super) fn decrypt_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.maybe_binary(u32::try_from(s.byte_length(0)).unwrap_or(u32::MAX))
}

pub(super) fn encrypt(f: &mut Frame<'_, '_>) -> Evaluated {
    let (task, bytes) = Task::of(f)?;
    f.check_size((bytes.len() + BLOCK) as u64)?;
    text(task.encryption.encrypt(&task.key, task.vector, &bytes))
}

pub(super) fn decrypt(f: &mut Frame<'_, '_>) -> Evaluated {
    let (task, bytes) = Task::of(f)?;
    f.check_size(bytes.len() as u64)?;
    text(task.encryption.decrypt(&task.key, task.vector, &bytes).ok_or(Stop::Null)?)
}

impl Task {
    /// The task of a call, and the text that it is done with.
    fn of(f: &mut Frame<'_, '_>) -> Result<(Self, Vec<u8>), Stop> {
        let encryption = f.context.facts.block_encryption;
        let bytes = match f.bytes(0) {
            Ok(bytes) => Some(bytes.into_owned()),
            Err(Stop::Null) => None,
            Err(stop) => return Err(stop),
        };
        let secret = f.bytes(1)?;
        let size = encryption.key_size();
        // MySQL says so of a text that is NULL too.
        if secret.len() > size && f.len() < 4 {
            f.context.warn(SqlError::of::<3237>(&[&size]))?;
        }
        let bytes = bytes.ok_or(Stop::Null)?;
        let vector = vector(f, encryption)?;
        let derivation = derivation(f)?;
        f.context.work += derivation.effort() + encryption.effort() * bytes.len() as u64;
        let key = derivation.key(&secret, size);
        Ok((Self { encryption, key, vector }, bytes))
    }
}

/// The initialization vector, where the mode takes one.
fn vector(f: &mut Frame<'_, '_>, encryption: BlockEncryption) -> Result<[u8; BLOCK], Stop> {
    if !encryption.needs_vector() {
        // Where options of a key follow, something has to stand there.
        if f.len() == 3 {
            f.context.warn(SqlError::of::<1618>(&[&"IV"]))?;
        }
        return Ok([0; BLOCK]);
    }
    let name = f.call.function.name;
    if f.len() < 3 {
        return Err(SqlError::of::<1582>(&[&name]).into());
    }
    let given = option_bytes(f, 2)?;
    match given.as_deref().and_then(<[u8]>::first_chunk) {
        Some(vector) => Ok(*vector),
        None => Err(SqlError::of::<1882>(&[&name, &BLOCK]).into()),
    }
}

/// How the key is made, by the arguments from the fourth.
fn derivation(f: &mut Frame<'_, '_>) -> Result<Derivation, Stop> {
    if f.len() < 4 {
        return Ok(Derivation::Fold);
    }
    let name = option(f, 3, OPTION_SIZE)?;
    let is_hkdf = name == b"hkdf";
    if !is_hkdf && name != b"pbkdf2_hmac" {
        return Err(SqlError::of::<3235>(&[]).into());
    }
    let salt = if f.len() > 4 { option(f, 4, OPTION_SIZE)? } else { Vec::new() };
    if is_hkdf {
        let info = if f.len() > 5 { option(f, 5, OPTION_SIZE)? } else { Vec::new() };
        return Ok(Derivation::Hkdf { salt, info });
    }
    let iterations = if f.len() > 5 {
        iterations(&option(f, 5, ITERATIONS_SIZE)?)
    } else {
        Some(*ITERATIONS.start())
    };
    let iterations = iterations.filter(|iterations| ITERATIONS.contains(iterations));
    let iterations = iterations.ok_or_else(|| SqlError::of::<3236>(&[]))?;
    Ok(Derivation::Pbkdf2 { salt, iterations })
}

/// An option of a key derivation. As in MySQL it ends with a zero byte, and so does what it hands
/// to the derivation: other servers have to come to the same key.
fn option(f: &mut Frame<'_, '_>, at: usize, size: usize) -> Result<Vec<u8>, Stop> {
    let bytes = option_bytes(f, at)?.filter(|bytes| bytes.len() < size);
    let mut bytes = bytes.ok_or_else(|| SqlError::of::<3238>(&[&size]))?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    Ok(bytes)
}

/// The bytes of an argument that is refused rather than answered by NULL.
fn option_bytes(f: &mut Frame<'_, '_>, at: usize) -> Result<Option<Vec<u8>>, Stop> {
    match f.bytes(at) {
        Ok(bytes) => Ok(Some(bytes.into_owned())),
        Err(Stop::Null) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// The number that a text begins with, as C reads it.
fn iterations(option: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(option).ok()?.trim_start();
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}
