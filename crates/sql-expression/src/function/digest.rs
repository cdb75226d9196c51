//! Hashes (MD5, SHA1, SHA2, of statements), random bytes, encryption, compression.

mod aes;
mod compression;
mod encryption;
mod key;
mod md5;
mod statement;

pub use aes::BlockEncryption;

use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::frame::{string, text};
use super::{Evaluated, Frame, Function, Signature, Stop};
use crate::error::SqlError;
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("md5", 1, 1, |s| s.ascii(32), md5),
    Function::pure("sha1", 1, 1, |s| s.ascii(40), sha1),
    Function::pure("sha2", 2, 2, |s| s.maybe_ascii(128), sha2),
    Function::volatile("random_bytes", 1, 1, random_type, random_bytes),
    // How a statement is read depends on the SQL mode.
    Function::of_statement("statement_digest", 1, 1, |s| s.maybe_ascii(64), statement::digest),
    Function::of_statement(
        "statement_digest_text",
        1,
        1,
        statement::text_type,
        statement::digest_text,
    ),
    // The mode is the session's.
    Function::of_statement("aes_encrypt", 2, 6, encryption::encrypt_type, encryption::encrypt),
    Function::of_statement("aes_decrypt", 2, 6, encryption::decrypt_type, encryption::decrypt),
    // How much is too much depends on the session.
    Function::pure("compress", 1, 1, compression::compress_type, compression::compress),
    Function::pure("uncompress", 1, 1, |s| s.maybe_binary(u32::MAX), compression::uncompress),
    Function::pure(
        "uncompressed_length",
        1,
        1,
        |s| s.maybe_integer(10),
        compression::uncompressed_length,
    ),
];

fn lower_hex(bytes: &[u8]) -> Evaluated {
    string(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Bytes that are worked on between two looks.
const PIECE: usize = 128 << 10;

fn md5(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    let digest = md5::digest(&bytes, PIECE, &mut |bytes| f.context.step_bytes(bytes))?;
    lower_hex(&digest)
}

fn sha1(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    hashed::<Sha1>(f, &bytes)
}

fn hashed<D: Digest>(f: &mut Frame<'_, '_>, bytes: &[u8]) -> Evaluated {
    let mut hash = D::new();
    for piece in bytes.chunks(PIECE) {
        hash.update(piece);
        f.context.step_bytes(piece.len())?;
    }
    lower_hex(&hash.finalize())
}

fn sha2(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    match f.wide(1)? {
        224 => hashed::<Sha224>(f, &bytes),
        0 | 256 => hashed::<Sha256>(f, &bytes),
        384 => hashed::<Sha384>(f, &bytes),
        512 => hashed::<Sha512>(f, &bytes),
        _ => {
            f.context.warn(SqlError::of::<1583>(&[&"sha2"]))?;
            Err(Stop::Null)
        }
    }
}

fn random_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.maybe_binary(1024)
}

fn random_bytes(f: &mut Frame<'_, '_>) -> Evaluated {
    let size = f.wide(0)?;
    let Some(size) = usize::try_from(size).ok().filter(|size| (1..=1024).contains(size)) else {
        return Err(SqlError::of::<1690>(&[&"length", &"random_bytes"]).into());
    };
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend_from_slice(&f.context.prng.next_u64().to_le_bytes());
    }
    bytes.truncate(size);
    text(bytes)
}
