//! Strings in other forms: CHAR, QUOTE, SOUNDEX, base 64, WEIGHT_STRING; what is known about them.

use collation::{Charset, CollationId};
use sqltype::{Datum, TypeKind};

use crate::error::SqlError;
use crate::function::frame::{string, text};
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::{Collating, ResultType};

/// The first argument is the number of the result's collation.
pub(super) fn char_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let id = s.constant_integer(0).and_then(|id| u16::try_from(id).ok());
    let collation = id.map_or(CollationId::BINARY, CollationId);
    let length = 4 * (s.arguments.len() as u32 - 1);
    Ok(ResultType::text(length, Collating::literal(collation, false), true))
}

/// The bytes of the arguments, most significant first, zero bytes before them left out.
pub(super) fn char(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut bytes = Vec::new();
    for at in 1..f.len() {
        if f.is_null(at)? {
            continue;
        }
        let number = f.wide(at)? as u32;
        let all = number.to_be_bytes();
        let skipped = (number.leading_zeros() / 8).min(3) as usize;
        bytes.extend_from_slice(&all[skipped..]);
    }
    let charset = f.result.sql_type.collation.charset();
    if charset == Charset::Binary {
        return text(bytes);
    }
    let bytes = sqltype::aligned(charset, &bytes);
    let converted = collation::to_utf8(charset, &bytes);
    if converted.first_bad.is_some() {
        let from = collation::invalid_utf8_at(&bytes).unwrap_or(0);
        let shown: String =
            bytes[from..].iter().take(6).map(|byte| format!("{byte:02X}")).collect();
        f.context.warn(SqlError::of::<1300>(&[&charset.name(), &shown]))?;
        return Err(Stop::Null);
    }
    text(converted.bytes.into_owned())
}

pub(super) fn quote_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let length = 2 * s.length(0) + 2;
    Ok(ResultType { nullable: false, ..s.text_of(&[0], length)? })
}

pub(super) fn quote(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.is_null(0)? {
        return text(*b"NULL");
    }
    let whole = f.text(0)?;
    let mut out = vec![b'\''];
    for byte in whole.iter() {
        match byte {
            0 => out.extend_from_slice(b"\\0"),
            0x1A => out.extend_from_slice(b"\\Z"),
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            _ => out.push(*byte),
        }
    }
    out.push(b'\'');
    text(out)
}

pub(super) fn soundex_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.text_of(&[0], s.length(0).max(4))
}

/// MySQL's SOUNDEX: of any length, at least four; vowels go first, then repeated codes. All that is
/// not ASCII is a letter from À on, and has no case.
pub(super) fn soundex(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.string(0)?;
    let code = |letter: char| match letter.to_ascii_uppercase() {
        'B' | 'F' | 'P' | 'V' => '1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
        'D' | 'T' => '3',
        'L' => '4',
        'M' | 'N' => '5',
        'R' => '6',
        _ => '0',
    };
    let mut letters = whole.chars().filter(|char| char.is_ascii_alphabetic() || *char >= '\u{c0}');
    let Some(first) = letters.next() else { return text(*b"") };
    let mut out = String::new();
    out.push(first.to_ascii_uppercase());
    let mut last = code(first);
    let mut length = 1;
    for sound in letters.map(code) {
        if sound != '0' && sound != last {
            out.push(sound);
            length += 1;
            last = sound;
        }
    }
    for _ in length..4 {
        out.push('0');
    }
    string(out)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn to_base64_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let digits = s.length(0).saturating_mul(4).div_ceil(3) * 4;
    s.maybe_ascii(u32::try_from(digits + digits / 76).unwrap_or(u32::MAX))
}

/// Lines of 76 digits.
pub(super) fn to_base64(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    f.check_size(bytes.len() as u64 * 4 / 3)?;
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 4);
    for (at, group) in bytes.chunks(3).enumerate() {
        if at > 0 && at % 19 == 0 {
            out.push(b'\n');
        }
        let mut padded = [0; 3];
        padded[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for place in 0..4 {
            let digit = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { digit } else { b'=' });
        }
    }
    text(out)
}

pub(super) fn from_base64_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.maybe_binary(u32::try_from(s.length(0).div_ceil(4) * 3).unwrap_or(u32::MAX))
}

pub(super) fn from_base64(f: &mut Frame<'_, '_>) -> Evaluated {
    let digits = f.text(0)?;
    text(decode_base64(&digits).ok_or(Stop::Null)?)
}

fn decode_base64(digits: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let groups = digits.len() / 4;
    let mut out = Vec::with_capacity(groups * 3);
    for (at, group) in digits.chunks_exact(4).enumerate() {
        let padding = group.iter().rev().take_while(|digit| **digit == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 < groups) {
            return None;
        }
        let mut bits = 0u32;
        for digit in &group[..4 - padding] {
            bits = bits << 6 | u32::from(value(*digit)?);
        }
        bits <<= 6 * padding;
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

/// The weights by which a text compares; with AS CHAR(n) or AS BINARY(n) of so many characters.
pub(super) fn weight_string(f: &mut Frame<'_, '_>) -> Evaluated {
    let argument = &f.argument(0).result;
    if !argument.is_text() {
        return Err(Stop::Null);
    }
    let mut whole = f.text(0)?.into_owned();
    let mut collation = f.collation_of(0);
    if f.len() == 3 {
        let wanted = usize::try_from(f.wide(1)?).unwrap_or(0);
        f.check_size(wanted as u64)?;
        if f.wide(2)? != 0 {
            collation = CollationId::BINARY;
            whole.resize(wanted, 0);
        } else {
            whole.truncate(collation::chars_size(&whole, wanted));
            let missing = wanted.saturating_sub(collation::char_count(&whole));
            whole.extend(std::iter::repeat_n(b' ', missing));
        }
    }
    text(collation::weight_string(collation, &whole))
}

/// The collation that clients see: numbers and times have none.
fn shown_collation(f: &Frame<'_, '_>) -> CollationId {
    let result = &f.argument(0).result;
    if result.is_text() || result.sql_type.kind == TypeKind::Json {
        f.collation_of(0)
    } else {
        CollationId::BINARY
    }
}

pub(super) fn charset(f: &mut Frame<'_, '_>) -> Evaluated {
    string(shown_collation(f).charset().name().to_owned())
}

pub(super) fn collation_name(f: &mut Frame<'_, '_>) -> Evaluated {
    string(shown_collation(f).name().to_owned())
}

pub(super) fn coercibility(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Int(f.argument(0).result.coercibility as i64))
}
