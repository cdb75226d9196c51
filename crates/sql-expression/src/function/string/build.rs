//! Strings made of others.

use sqltype::Datum;

use super::{count, size_of, sized};
use crate::error::SqlError;
use crate::function::frame::text;
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::ResultType;

/// Characters of a result whose length is not known before.
const UNKNOWN: u64 = 65_535;

fn total(s: &Signature<'_>, from: usize) -> u64 {
    (from..s.arguments.len()).map(|at| s.length(at)).sum()
}

pub(super) fn concat_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.text(total(s, 0))
}

pub(super) fn concat(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut out = f.text(0)?.into_owned();
    for at in 1..f.len() {
        let part = f.text(at)?;
        sized(f, (out.len() + part.len()) as u64)?;
        out.extend_from_slice(&part);
    }
    text(out)
}

pub(super) fn concat_ws_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let separators = s.length(0) * s.arguments.len().saturating_sub(2) as u64;
    let nullable = s.argument(0).nullable;
    Ok(ResultType { nullable, ..s.text(total(s, 1) + separators)? })
}

pub(super) fn concat_ws(f: &mut Frame<'_, '_>) -> Evaluated {
    let separator = f.text(0)?;
    let mut out = Vec::new();
    let mut is_first = true;
    for at in 1..f.len() {
        if f.is_null(at)? {
            continue;
        }
        let part = f.text(at)?;
        if !is_first {
            out.extend_from_slice(&separator);
        }
        is_first = false;
        sized(f, (out.len() + part.len()) as u64)?;
        out.extend_from_slice(&part);
    }
    text(out)
}

pub(super) fn repeat_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let times = s.constant_integer(1).map(|times| u64::try_from(times).unwrap_or(0));
    let length = times.map_or(UNKNOWN, |times| s.length(0).saturating_mul(times));
    s.maybe_text_of(&[0], length)
}

pub(super) fn repeat(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let times = u64::try_from(f.wide(1)?).unwrap_or(0).min(i32::MAX as u64);
    if whole.is_empty() {
        return text(*b"");
    }
    sized(f, whole.len() as u64 * times)?;
    text(whole.repeat(times as usize))
}

pub(super) fn space_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let length = s.constant_integer(0).unwrap_or(UNKNOWN as i64);
    s.maybe_ascii(u32::try_from(length).unwrap_or(0))
}

pub(super) fn space(f: &mut Frame<'_, '_>) -> Evaluated {
    let length = u64::try_from(f.wide(0)?).unwrap_or(0);
    let length = sized(f, length)?;
    text(vec![b' '; length])
}

pub(super) fn pad_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let length = s.constant_integer(1).and_then(|length| u64::try_from(length).ok());
    s.maybe_text_of(&[0, 2], length.unwrap_or(UNKNOWN))
}

/// LPAD and RPAD: exactly so many characters, cut or filled up.
pub(super) fn pad(f: &mut Frame<'_, '_>, before: bool) -> Evaluated {
    let whole = f.text(0)?;
    let wanted = f.wide(1)?;
    let pattern = f.text(2)?;
    let Ok(wanted) = u64::try_from(wanted) else { return Err(Stop::Null) };
    let is_binary = f.is_binary();
    let each = f.result.sql_type.collation.charset().max_len();
    sized(f, wanted.saturating_mul(each.into()))?;
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let length = if is_binary { whole.len() } else { collation::char_count(&whole) };
    if wanted <= length {
        return text(&whole[..size_of(is_binary, &whole, wanted)]);
    }
    if pattern.is_empty() {
        return text(*b"");
    }
    let missing = wanted - length;
    let each = if is_binary { pattern.len() } else { collation::char_count(&pattern) };
    let mut padding = pattern.repeat(missing / each);
    padding.extend_from_slice(&pattern[..size_of(is_binary, &pattern, missing % each)]);
    sized(f, (whole.len() + padding.len()) as u64)?;
    if before {
        padding.extend_from_slice(&whole);
        text(padding)
    } else {
        let mut out = whole.into_owned();
        out.extend_from_slice(&padding);
        text(out)
    }
}

pub(super) fn insert_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.text_of(&[0, 3], s.length(0) + s.length(3))
}

/// `INSERT(text, position, length, new)`: a part is replaced.
pub(super) fn insert(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    let (position, length) = (f.wide(1)?, f.wide(2)?);
    let new = f.text(3)?;
    let all = count(f, 0, &whole);
    let start = match usize::try_from(position - 1) {
        Ok(start) if start < all => start,
        _ => return text(whole.into_owned()),
    };
    let is_binary = f.is_binary();
    // A negative length is all of the rest.
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let from = size_of(is_binary, &whole, start);
    let until = from + size_of(is_binary, &whole[from..], length);
    sized(f, (whole.len() - (until - from) + new.len()) as u64)?;
    text([&whole[..from], &new, &whole[until..]].concat())
}

pub(super) fn replace_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.compare(&[0, 1, 2])?;
    let longer = s.length(2).saturating_sub(s.length(1));
    let length = s.length(0).saturating_mul(1 + longer).min(u32::MAX.into());
    s.text_of(&[0, 1, 2], length)
}

/// REPLACE: every occurrence; case counts.
pub(super) fn replace(f: &mut Frame<'_, '_>) -> Evaluated {
    let (whole, old) = (f.text(0)?, f.text(1)?);
    // The third is not looked at, and may be NULL. Nor is it where texts compare byte by byte and
    // there is nothing to replace.
    let collation = f.collation();
    let by_bytes = collation.name().ends_with("bin") || collation.charset().max_len() == 1;
    if old.is_empty() || by_bytes && position(&whole, &old).is_none() {
        return text(whole.into_owned());
    }
    let new = f.text(2)?;
    let mut out = Vec::with_capacity(whole.len());
    let mut rest = &whole[..];
    while let Some(at) = position(rest, &old) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&new);
        rest = &rest[at + old.len()..];
        sized(f, (out.len() + rest.len()) as u64)?;
    }
    out.extend_from_slice(rest);
    text(out)
}

/// Where bytes begin within others. UTF-8 begins no character within another.
fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    let (first, rest) = part.split_first()?;
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| byte == first) {
        let start = from + at;
        if text[start + 1..].starts_with(rest) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

pub(super) fn elt_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let which: Vec<usize> = (1..s.arguments.len()).collect();
    let length = which.iter().map(|at| s.length(*at)).max().unwrap_or(0);
    s.maybe_text_of(&which, length)
}

pub(super) fn elt(f: &mut Frame<'_, '_>) -> Evaluated {
    let at = usize::try_from(f.wide(0)?).ok().filter(|at| (1..f.len()).contains(at));
    let at = at.ok_or(Stop::Null)?;
    text(f.text(at)?.into_owned())
}

pub(super) fn make_set_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let which: Vec<usize> = (1..s.arguments.len()).collect();
    let nullable = s.argument(0).nullable;
    Ok(ResultType { nullable, ..s.text_of(&which, total(s, 1) + which.len() as u64)? })
}

pub(super) fn make_set(f: &mut Frame<'_, '_>) -> Evaluated {
    let bits = f.bits(0)?;
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for at in 1..f.len().min(65) {
        if bits >> (at - 1) & 1 == 1 && !f.is_null(at)? {
            parts.push(f.text(at)?.into_owned());
        }
    }
    text(parts.join(&b','))
}

pub(super) fn export_set_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let which: Vec<usize> = (1..s.arguments.len().min(4)).collect();
    let separator = if s.arguments.len() > 3 { s.length(3) } else { 1 };
    s.text_of(&which, 64 * s.length(1).max(s.length(2)) + 63 * separator)
}

pub(super) fn export_set(f: &mut Frame<'_, '_>) -> Evaluated {
    let bits = f.bits(0)?;
    let (on, off) = (f.text(1)?, f.text(2)?);
    let separator = if f.len() > 3 { f.text(3)?.into_owned() } else { b",".to_vec() };
    let count = match f.len() {
        5 => usize::try_from(f.wide(4)?).unwrap_or(64).min(64),
        _ => 64,
    };
    let parts: Vec<&[u8]> =
        (0..count).map(|bit| if bits >> bit & 1 == 1 { &*on } else { &*off }).collect();
    text(parts.join(&separator[..]))
}

pub(super) fn reverse(f: &mut Frame<'_, '_>) -> Evaluated {
    let whole = f.text(0)?;
    if f.is_binary() {
        let bytes: Vec<u8> = whole.iter().rev().copied().collect();
        return text(bytes);
    }
    let mut out = Vec::with_capacity(whole.len());
    let mut end = whole.len();
    while end > 0 {
        let mut start = end - 1;
        while start > 0 && end - start < 4 && whole[start] & 0xC0 == 0x80 {
            start -= 1;
        }
        if collation::char_size(&whole[start..end]) != end - start {
            start = end - 1;
        }
        out.extend_from_slice(&whole[start..end]);
        end = start;
    }
    Ok(Datum::Bytes(out.into()))
}
