//! COMPRESS, UNCOMPRESS, UNCOMPRESSED_LENGTH.
//!
//! # Invariants
//! What COMPRESS makes is four bytes with the length of the text, the lowest first, and a zlib
//! stream (RFC 1950). A stream that ends with a space is followed by a point, which keeps
//! columns from cutting the space off. Nothing makes nothing.
//! # Not here
//! The compression itself (the crate `miniz_oxide`): other libraries find other streams for the
//! same text, and all of them read any.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use sqltype::Datum;

use super::super::frame::text;
use super::super::{Evaluated, Frame, Signature, Stop};
use crate::error::SqlError;
use crate::result_type::ResultType;

/// Bytes before the stream.
const HEAD: usize = 4;
/// What counts of them.
const LENGTH_MASK: u32 = 0x3FFF_FFFF;
/// How hard zlib tries unless it is told otherwise.
const LEVEL: u8 = 6;
/// Bytes that come out of a stream between two looks.
const INFLATED: usize = 1 << 20;
/// Bytes of a text between two looks.
const PIECE: usize = 32 << 10;
/// To compress takes so many times as long as to look at bytes.
const COMPRESSION_COST: usize = 8;

pub(super) fn compress_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let length = s.byte_length(0) * 120 / 100 + 12;
    s.maybe_binary(u32::try_from(length).unwrap_or(u32::MAX))
}

pub(super) fn compress(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    if bytes.is_empty() {
        return text([]);
    }
    // Values are shorter than 4 GiB.
    let length = (bytes.len() as u32 & LENGTH_MASK).to_le_bytes();
    let mut compressed = length.to_vec();
    // As `compress_to_vec_zlib`, piece by piece.
    let flags = create_comp_flags_from_zip_params(LEVEL.into(), 1, 0);
    let mut compressor = Box::new(CompressorOxide::new(flags));
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(mut piece) = pieces.next() {
        let size = piece.len();
        let flush = if pieces.peek().is_some() { TDEFLFlush::None } else { TDEFLFlush::Finish };
        loop {
            let put = |output: &[u8]| {
                compressed.extend_from_slice(output);
                true
            };
            let (status, taken) = compress_to_output(&mut compressor, piece, flush, put);
            piece = &piece[taken..];
            match status {
                TDEFLStatus::Done => break,
                TDEFLStatus::Okay if piece.is_empty() && flush == TDEFLFlush::None => break,
                TDEFLStatus::Okay => {}
                _ => return Err(SqlError::internal("a text that cannot be compressed").into()),
            }
        }
        f.context.step_bytes(size * COMPRESSION_COST)?;
    }
    if compressed.last() == Some(&b' ') {
        compressed.push(b'.');
    }
    f.check_size(compressed.len() as u64)?;
    text(compressed)
}

pub(super) fn uncompress(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    if bytes.is_empty() {
        return text([]);
    }
    let (length, stream) = parts(f, &bytes)?;
    let limit = f.context.facts.max_allowed_packet;
    if u64::from(length) > limit {
        return refuse(f, SqlError::of::<1256>(&[&limit]));
    }
    f.context.check_large(length.into())?;
    let mut output = vec![0; length as usize];
    let mut inflator = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (mut stream, mut size) = (stream, 0);
    let status = loop {
        // The text so far is what the stream refers to.
        let end = output.len().min(size + INFLATED);
        let (status, taken, made) =
            decompress(&mut inflator, stream, &mut output[..end], size, flags);
        stream = &stream[taken..];
        size += made;
        if status != TINFLStatus::HasMoreOutput || end == output.len() {
            break status;
        }
        f.context.step_bytes(made)?;
    };
    // What zlib says is too small: also a buffer that was full when the stream ended too early, but
    // never one of no bytes.
    let is_full = length > 0 && size == output.len();
    match status {
        TINFLStatus::Done => {
            output.truncate(size);
            text(output)
        }
        TINFLStatus::HasMoreOutput
        | TINFLStatus::FailedCannotMakeProgress
        | TINFLStatus::NeedsMoreInput
            if is_full =>
        {
            refuse(f, SqlError::of::<1258>(&[]))
        }
        _ => refuse(f, SqlError::of::<1259>(&[])),
    }
}

pub(super) fn uncompressed_length(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    if bytes.is_empty() {
        return Ok(Datum::Int(0));
    }
    let (length, _) = parts(f, &bytes)?;
    Ok(Datum::Int(length.into()))
}

/// The length of the text, and the stream.
fn parts<'b>(f: &mut Frame<'_, '_>, bytes: &'b [u8]) -> Result<(u32, &'b [u8]), Stop> {
    match bytes.split_first_chunk::<HEAD>() {
        Some((length, stream)) if !stream.is_empty() => {
            Ok((u32::from_le_bytes(*length) & LENGTH_MASK, stream))
        }
        _ => refuse(f, SqlError::of::<1259>(&[])),
    }
}

/// NULL with a warning.
fn refuse<T>(f: &mut Frame<'_, '_>, warning: SqlError) -> Result<T, Stop> {
    f.context.warn(warning)?;
    Err(Stop::Null)
}
