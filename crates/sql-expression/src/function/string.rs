//! Strings: putting together, cutting, searching.
//!
//! Positions count characters, or bytes in binary strings. What depends on bytes (LENGTH, HEX, MD5)
//! sees them in the character set of its argument.

mod build;
mod encode;
mod number;

use std::borrow::Cow;

use collation::{Charset, char_count, chars_size};
use sqltype::Datum;

use super::frame::text;
use super::{Evaluated, Frame, Function, MANY, Signature, Stop};
use crate::error::SqlError;
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("concat", 1, MANY, build::concat_type, build::concat),
    Function::pure("concat_ws", 2, MANY, build::concat_ws_type, build::concat_ws),
    Function::pure("repeat", 2, 2, build::repeat_type, build::repeat),
    Function::pure("space", 1, 1, build::space_type, build::space),
    Function::pure("lpad", 3, 3, build::pad_type, |f| build::pad(f, true)),
    Function::pure("rpad", 3, 3, build::pad_type, |f| build::pad(f, false)),
    Function::pure("insert", 4, 4, build::insert_type, build::insert),
    Function::pure("replace", 3, 3, build::replace_type, build::replace),
    Function::pure("elt", 2, MANY, build::elt_type, build::elt),
    Function::pure("make_set", 2, MANY, build::make_set_type, build::make_set),
    Function::pure("export_set", 3, 5, build::export_set_type, build::export_set),
    Function::pure("reverse", 1, 1, same, build::reverse),
    Function::pure("lower", 1, 1, same, |f| letter_case(f, collation::lower)),
    Function::pure("upper", 1, 1, same, |f| letter_case(f, collation::upper)),
    Function::pure("left", 2, 2, part_type, left),
    Function::pure("right", 2, 2, part_type, right),
    Function::pure("substring", 2, 3, part_type, substring),
    Function::pure("substring_index", 3, 3, index_type, substring_index),
    Function::pure("trim", 1, 2, trim_type, |f| trim(f, true, true)),
    Function::pure("trim leading", 1, 2, trim_type, |f| trim(f, true, false)),
    Function::pure("trim trailing", 1, 2, trim_type, |f| trim(f, false, true)),
    Function::pure("ltrim", 1, 1, trim_type, |f| trim(f, true, false)),
    Function::pure("rtrim", 1, 1, trim_type, |f| trim(f, false, true)),
    Function::pure("locate", 2, 3, |s| found_type(s, 0, 1), |f| locate(f, 0, 1)),
    Function::pure("instr", 2, 2, |s| found_type(s, 1, 0), |f| locate(f, 1, 0)),
    Function::pure("find_in_set", 2, 2, |s| found_type(s, 0, 1), find_in_set),
    Function::pure("length", 1, 1, |s| s.integer(10), |f| Ok(Datum::Int(f.bytes(0)?.len() as i64))),
    Function::pure(
        "bit_length",
        1,
        1,
        |s| s.integer(11),
        |f| Ok(Datum::Int(8 * f.bytes(0)?.len() as i64)),
    ),
    Function::pure(
        "char_length",
        1,
        1,
        |s| s.integer(10),
        |f| {
            let text = f.text(0)?;
            Ok(Datum::Int(count(f, 0, &text) as i64))
        },
    ),
    Function::pure(
        "ascii",
        1,
        1,
        |s| s.integer(3),
        |f| Ok(Datum::Int(f.bytes(0)?.first().copied().unwrap_or(0).into())),
    ),
    Function::pure("ord", 1, 1, |s| s.integer(10), ord),
    Function::pure("char", 1, MANY, encode::char_type, encode::char),
    Function::pure("quote", 1, 1, encode::quote_type, encode::quote),
    Function::pure("soundex", 1, 1, encode::soundex_type, encode::soundex),
    Function::pure("to_base64", 1, 1, encode::to_base64_type, encode::to_base64),
    Function::pure("from_base64", 1, 1, encode::from_base64_type, encode::from_base64),
    Function::pure("weight_string", 1, 3, |s| s.maybe_binary(1 << 16), encode::weight_string),
    Function::pure("charset", 1, 1, |s| s.certain_name(), encode::charset),
    Function::pure("collation", 1, 1, |s| s.certain_name(), encode::collation_name),
    Function::pure("coercibility", 1, 1, |s| s.certain_integer(1), encode::coercibility),
    Function::pure("format", 2, 3, number::format_type, number::format),
    Function::pure("format_bytes", 1, 1, |s| s.ascii(11), number::format_bytes),
    Function::pure("format_pico_time", 1, 1, |s| s.ascii(11), number::format_pico_time),
];

impl Signature<'_> {
    /// A name that is never NULL.
    fn certain_name(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType { nullable: false, ..self.ascii(64)? })
    }
}

/// A text like the first argument.
fn same(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.text_of(&[0], s.length(0))
}

/// Characters, or bytes of a binary string.
fn count(f: &Frame<'_, '_>, at: usize, text: &[u8]) -> usize {
    match f.charset(at) {
        Charset::Binary => text.len(),
        _ => char_count(text),
    }
}

/// The size in bytes of the first so many characters, or bytes of a binary string.
fn size_of(is_binary: bool, text: &[u8], characters: usize) -> usize {
    if is_binary { text.len().min(characters) } else { chars_size(text, characters) }
}

/// A part of an argument, without a copy where there was none yet.
fn part(whole: Cow<'_, [u8]>, from: usize, until: usize) -> Evaluated {
    match whole {
        Cow::Borrowed(whole) => text(&whole[from..until]),
        Cow::Owned(mut whole) => {
            whole.truncate(until);
            whole.drain(..from);
            text(whole)
        }
    }
}

fn letter_case(
    f: &mut Frame<'_, '_>,
    convert: fn(collation::CollationId, &[u8]) -> Vec<u8>,
) -> Evaluated {
    let whole = f.text(0)?;
    if f.is_binary() {
        return text(whole.into_owned());
    }
    if whole.len() <= PIECE {
        return text(convert(f.result.sql_type.collation, &whole));
    }
    let mut converted = Vec::with_capacity(whole.len());
    for piece in pieces(&whole) {
        converted.extend(convert(f.result.sql_type.collation, piece));
        f.context.step_bytes(piece.len())?;
    }
    text(converted)
}

/// Bytes of a text that are worked on between two looks.
const PIECE: usize = 256 << 10;

/// A text in pieces, none of which ends within a character.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(PIECE);
        while end < rest.len() && end > 1 && rest[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        let piece;
        (piece, rest) = rest.split_at(end);
        (!piece.is_empty()).then_some(piece)
    })
}

/// A part of the first argument of at most as many characters as a constant says.
fn part_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let last = s.arguments.len() - 1;
    let is_length = s.name != "substring" || last == 2;
    let wanted = s.constant_integer(last).filter(|_| is_length);
    let length = match wanted {
        Some(length) => s.length(0).min(u64::try_from(length).unwrap_or(0)),
        None => s.length(0),
    };
    s.text_of(&[0], length)
}

fn left(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let length = usize::try_from(f.wide(1)?).unwrap_or(0);
    let until = size_of(f.is_binary(), &whole, length);
    part(whole, 0, until)
}

fn right(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let length = usize::try_from(f.wide(1)?).unwrap_or(0);
    let all = count(f, 0, &whole);
    let from = size_of(f.is_binary(), &whole, all.saturating_sub(length));
    let until = whole.len();
    part(whole, from, until)
}

fn substring(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let position = f.wide(1)?;
    let length = match f.len() {
        3 => f.wide(2)?,
        _ => i128::from(u32::MAX),
    };
    if length <= 0 || position == 0 {
        return text(*b"");
    }
    let start = match usize::try_from(position) {
        Ok(position) => position - 1,
        Err(_) if position > 0 => return text(*b""),
        Err(_) => {
            let back = usize::try_from(-position).unwrap_or(usize::MAX);
            match count(f, 0, &whole).checked_sub(back) {
                Some(start) => start,
                None => return text(*b""),
            }
        }
    };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let from = size_of(f.is_binary(), &whole, start);
    let until = from + size_of(f.is_binary(), &whole[from..], length);
    part(whole, from, until)
}

fn index_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1])?;
    s.text_of(&[0, 1], s.length(0))
}

/// What stands before the n-th delimiter, or behind the n-th from the end. Case counts.
fn substring_index(f: &mut Frame<'_, '_>) -> Evaluated {
    let (whole, delimiter) = (f.text(0)?, f.text(1)?);
    let wanted = f.integer(2)?;
    if whole.is_empty() || delimiter.is_empty() || wanted == 0 {
        return text(*b"");
    }
    let matches = |from: usize| whole[from..].starts_with(&delimiter);
    let (mut left, size) = (wanted.unsigned_abs(), whole.len());
    if wanted > 0 {
        let mut at = 0;
        while at < size {
            if matches(at) {
                left -= 1;
                if left == 0 {
                    return part(whole, 0, at);
                }
                at += delimiter.len();
            } else {
                at += step(&whole[at..]);
            }
        }
        return part(whole, 0, size);
    }
    let mut end = size;
    while let Some(at) = end.checked_sub(delimiter.len()) {
        if matches(at) {
            left -= 1;
            if left == 0 {
                return part(whole, at + delimiter.len(), size);
            }
            end = at;
        } else {
            end -= 1;
        }
    }
    part(whole, 0, size)
}

/// The size of the character at the beginning.
fn step(text: &[u8]) -> usize {
    collation::char_size(text).max(1)
}

fn trim_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let all: Vec<usize> = (0..s.arguments.len()).collect();
    if all.len() > 1 {
        s.compare(&all)?;
    }
    s.text_of(&all, s.length(0))
}

fn trim(f: &mut Frame<'_, '_>, leading: bool, trailing: bool) -> Evaluated {
    let whole = f.text(0)?;
    let pattern = match f.len() {
        1 => Cow::Borrowed(&b" "[..]),
        _ => f.text(1)?,
    };
    if pattern.is_empty() {
        return text(whole.into_owned());
    }
    let (mut from, mut until) = (0, whole.len());
    while leading && whole[from..until].starts_with(&pattern) {
        from += pattern.len();
    }
    while trailing && whole[from..until].ends_with(&pattern) {
        until -= pattern.len();
    }
    part(whole, from, until)
}

fn found_type(s: &mut Signature<'_>, needle: usize, whole: usize) -> Result<ResultType, SqlError> {
    s.compare(&[whole, needle])?;
    s.integer(11)
}

/// LOCATE and INSTR: the position of a part, from 1.
fn locate(f: &mut Frame<'_, '_>, needle_at: usize, whole_at: usize) -> Evaluated {
    let (needle, whole) = (f.text(needle_at)?, f.text(whole_at)?);
    let is_binary = f.collation().charset() == Charset::Binary;
    let from = match f.len() {
        3 => match usize::try_from(f.wide(2)? - 1) {
            Ok(from) => from,
            Err(_) => return Ok(Datum::Int(0)),
        },
        _ => 0,
    };
    let characters = if is_binary { whole.len() } else { char_count(&whole) };
    // MySQL compares a place that is given with the bytes first.
    if from > characters || f.len() == 3 && from >= whole.len() {
        return Ok(Datum::Int(0));
    }
    if needle.is_empty() {
        return Ok(Datum::Int(from as i64 + 1));
    }
    let start = size_of(is_binary, &whole, from);
    let Some(found) = collation::find(f.collation(), &whole, &needle, start) else {
        return Ok(Datum::Int(0));
    };
    let before = if is_binary { found } else { char_count(&whole[..found]) };
    Ok(Datum::Int(before as i64 + 1))
}

/// The place of a text in a list with commas.
fn find_in_set(f: &mut Frame<'_, '_>) -> Evaluated {
    let (wanted, list) = (f.text(0)?, f.text(1)?);
    // A list of fewer bytes has it not, though a collation may take them for equal.
    let charset = f.collation().charset();
    let size = |text: &[u8]| super::signature::bytes_in(charset, text).len();
    if list.is_empty() || size(&list) < size(&wanted) {
        return Ok(Datum::Int(0));
    }
    // Spaces at the end count here, whatever the collation says of them.
    let spaces = |text: &[u8]| text.iter().rev().take_while(|byte| **byte == b' ').count();
    let same = |part: &[u8]| {
        spaces(part) == spaces(&wanted) && collation::equal(f.collation(), part, &wanted)
    };
    let found = list.split(|byte| *byte == b',').position(same);
    Ok(Datum::Int(found.map_or(0, |at| at as i64 + 1)))
}

/// The number that the bytes of the first character make.
fn ord(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let size = match f.charset(0) {
        Charset::Binary => whole.len().min(1),
        _ => step(&whole).min(whole.len()),
    };
    let first = super::signature::bytes_in(f.charset(0), &whole[..size]);
    let number = first.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    Ok(Datum::Int(number as i64))
}

/// NULL for a result that is longer than a packet.
fn sized(f: &mut Frame<'_, '_>, size: u64) -> Result<usize, Stop> {
    f.check_size(size)?;
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}
