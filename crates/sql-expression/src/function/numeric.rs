//! Bits and number systems: `&`, `|`, `<<`, BIT_COUNT, CONV, BIN, OCT, HEX.

use sqltype::{Datum, TypeKind};

use super::frame::{string, text};
use super::signature::number_of;
use super::{Evaluated, Frame, Function, Signature, Stop};
use crate::error::SqlError;
use crate::expression::Expression;
use crate::result_type::{Coercibility, Collating, ResultType};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("&", 2, 2, bits_type, |f| bitwise(f, |a, b| a & b, |a, b| a & b)),
    Function::pure("|", 2, 2, bits_type, |f| bitwise(f, |a, b| a | b, |a, b| a | b)),
    Function::pure("^", 2, 2, bits_type, |f| bitwise(f, |a, b| a ^ b, |a, b| a ^ b)),
    Function::pure("~", 1, 1, bits_type, not),
    Function::pure("<<", 2, 2, shift_type, |f| shift(f, true)),
    Function::pure(">>", 2, 2, shift_type, |f| shift(f, false)),
    Function::pure("bit_count", 1, 1, bit_count_type, bit_count),
    Function::pure("conv", 3, 3, |s| s.maybe_ascii(65), conv),
    Function::pure("bin", 1, 1, numeric_text, |f| in_base(f, 2)),
    Function::pure("oct", 1, 1, numeric_text, |f| in_base(f, 8)),
    Function::pure(
        "hex",
        1,
        1,
        |s| s.ascii(u32::try_from(s.length(0) * 8).unwrap_or(u32::MAX)),
        hex,
    ),
    Function::pure("unhex", 1, 1, |s| s.maybe_binary((s.length(0) / 2) as u32 + 1), unhex),
];

fn numeric_text(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.maybe_ascii(64)
}

fn is_binary_string(argument: &Expression) -> bool {
    let result = &argument.result;
    result.is_text() && result.sql_type.collation == collation::CollationId::BINARY
}

/// Bits of binary strings are a binary string if one of them is no literal in digits; all else is a
/// number of 64 bits.
fn bits_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let all_binary = s.arguments.iter().all(is_binary_string);
    let has_value = s.arguments.iter().any(|argument| !argument.result.bits);
    if all_binary && has_value {
        let length = s.argument(0).text_length();
        let collating = Collating {
            collation: collation::CollationId::BINARY,
            coercibility: Coercibility::Implicit,
            ascii: false,
        };
        return Ok(ResultType::text(length, collating, s.nullable()));
    }
    numbers(s);
    s.unsigned()
}

fn numbers(s: &mut Signature<'_>) {
    for argument in s.arguments.iter_mut() {
        let operand = std::mem::replace(argument, Expression::null());
        *argument = number_of(operand);
    }
}

/// Only what is shifted decides; how far is a number.
fn shift_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let by = s.arguments.pop();
    let mut result = bits_type(s)?;
    if let Some(by) = by {
        result.nullable |= by.result.nullable;
        s.arguments.push(number_of(by));
    }
    Ok(result)
}

fn bitwise(
    f: &mut Frame<'_, '_>,
    of_numbers: fn(u64, u64) -> u64,
    of_bytes: fn(u8, u8) -> u8,
) -> Evaluated {
    if !f.result.is_text() {
        return Ok(Datum::UInt(of_numbers(f.bits(0)?, f.bits(1)?)));
    }
    let (a, b) = (f.text(0)?, f.text(1)?);
    if a.len() != b.len() {
        return Err(SqlError::of::<3513>(&[]).into());
    }
    let bytes: Vec<u8> = a.iter().zip(b.iter()).map(|(a, b)| of_bytes(*a, *b)).collect();
    text(bytes)
}

fn not(f: &mut Frame<'_, '_>) -> Evaluated {
    if !f.result.is_text() {
        return Ok(Datum::UInt(!f.bits(0)?));
    }
    let bytes: Vec<u8> = f.text(0)?.iter().map(|byte| !byte).collect();
    text(bytes)
}

fn shift(f: &mut Frame<'_, '_>, left: bool) -> Evaluated {
    let by = f.wide(1)?;
    // A negative distance is a very long one.
    let by = u64::try_from(by).unwrap_or(u64::MAX);
    if !f.result.is_text() {
        let bits = f.bits(0)?;
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        let shifted = if left { bits.checked_shl(by) } else { bits.checked_shr(by) };
        return Ok(Datum::UInt(shifted.unwrap_or(0)));
    }
    let bytes = f.text(0)?;
    text(shift_bytes(&bytes, by, left))
}

fn shift_bytes(bytes: &[u8], by: u64, left: bool) -> Vec<u8> {
    let size = bytes.len();
    let (whole, bits) = (usize::try_from(by / 8).unwrap_or(usize::MAX), (by % 8) as u32);
    let at = |index: Option<usize>| {
        u16::from(index.and_then(|index| bytes.get(index)).copied().unwrap_or(0))
    };
    let shifted = (0..size).map(|place| {
        if left {
            let from = place.checked_add(whole);
            let next = from.and_then(|from| from.checked_add(1));
            ((at(from) << 8 | at(next)) << bits >> 8) as u8
        } else {
            let from = place.checked_sub(whole);
            let before = from.and_then(|from| from.checked_sub(1));
            ((at(before) << 8 | at(from)) >> bits) as u8
        }
    });
    shifted.collect()
}

fn bit_count_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    if !is_binary_string(&s.arguments[0]) || s.argument(0).bits {
        numbers(s);
    }
    s.integer(2)
}

fn bit_count(f: &mut Frame<'_, '_>) -> Evaluated {
    let count = if is_binary_string(f.argument(0)) {
        f.text(0)?.iter().map(|byte| i64::from(byte.count_ones())).sum()
    } else {
        f.bits(0)?.count_ones().into()
    };
    Ok(Datum::Int(count))
}

/// The digits of a number in a base.
fn digits(mut value: u64, base: u32) -> String {
    let mut reversed = Vec::new();
    loop {
        let digit = (value % u64::from(base)) as u32;
        let char = char::from_digit(digit, base).unwrap_or('0');
        reversed.push(char.to_ascii_uppercase());
        value /= u64::from(base);
        if value == 0 {
            return reversed.into_iter().rev().collect();
        }
    }
}

/// A number in an argument, as bits: text is read in base ten up to its last digit.
fn number_bits(f: &mut Frame<'_, '_>, at: usize) -> Result<u64, Stop> {
    let value = f.some(at)?;
    match &*value {
        Datum::Bytes(text) if f.type_of(at).kind != TypeKind::Bit => {
            let (bits, _) = read_in_base(text, 10);
            Ok(bits)
        }
        _ => f.bits(at),
    }
}

fn in_base(f: &mut Frame<'_, '_>, base: u32) -> Evaluated {
    string(digits(number_bits(f, 0)?, base))
}

/// The number that a text begins with, as 64 bits, and whether it was negative; beyond the range
/// the largest.
fn read_in_base(text: &[u8], base: u32) -> (u64, bool) {
    let start = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let is_negative = text.get(start) == Some(&b'-');
    let from = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let mut value = 0u64;
    for byte in &text[from..] {
        let Some(digit) = char::from(*byte).to_digit(base) else { break };
        let next = value.checked_mul(u64::from(base));
        match next.and_then(|next| next.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => return (u64::MAX, is_negative),
        }
    }
    (if is_negative { value.wrapping_neg() } else { value }, is_negative)
}

fn conv(f: &mut Frame<'_, '_>) -> Evaluated {
    let (from, to) = (f.integer(1)?, f.integer(2)?);
    let base = |base: i64| {
        let size = u32::try_from(base.unsigned_abs()).ok();
        size.filter(|size| (2..=36).contains(size)).ok_or(Stop::Null)
    };
    let (from_base, to_base) = (base(from)?, base(to)?);
    let value = f.some(0)?;
    let source = match &*value {
        // Of a BIT the bits count, not the bytes.
        Datum::UInt(bits) if f.type_of(0).kind == TypeKind::Bit => bits.to_string().into_bytes(),
        _ => f.text(0)?.into_owned(),
    };
    if source.is_empty() {
        return Err(Stop::Null);
    }
    let bits = if from < 0 {
        let (bits, is_negative) = read_in_base(&source, from_base);
        let too_large = !is_negative && bits > i64::MAX as u64;
        if too_large { i64::MAX as u64 } else { bits }
    } else {
        read_in_base(&source, from_base).0
    };
    let signed = bits as i64;
    string(if to < 0 && signed < 0 {
        format!("-{}", digits(signed.unsigned_abs(), to_base))
    } else {
        digits(bits, to_base)
    })
}

fn hex(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.argument(0).result.is_text() {
        return string(hex_of(&f.bytes(0)?));
    }
    let value = f.some(0)?;
    match &*value {
        Datum::Int(number) => string(format!("{number:X}")),
        Datum::UInt(number) => string(format!("{number:X}")),
        Datum::Double(_) | Datum::Decimal(_) => {
            // As MySQL has it, by way of a DOUBLE, rounded half away from zero.
            let number = f.double(0)?;
            let inside = number > i64::MIN as f64 && number < u64::MAX as f64;
            let whole = (number + 0.5_f64.copysign(number)).trunc();
            let bits = if whole < 0.0 { whole as i64 as u64 } else { whole as u64 };
            string(format!("{:X}", if inside { bits } else { u64::MAX }))
        }
        _ => string(hex_of(&f.bytes(0)?)),
    }
}

/// Bytes in hexadecimal digits.
pub(super) fn hex_of(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn bytes_of_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let (first, rest) = digits.split_at(digits.len() % 2);
    let mut bytes = Vec::with_capacity(digits.len().div_ceil(2));
    for digit in first {
        bytes.push(value(digit)?);
    }
    for pair in rest.chunks_exact(2) {
        bytes.push(value(&pair[0])? << 4 | value(&pair[1])?);
    }
    Some(bytes)
}

fn unhex(f: &mut Frame<'_, '_>) -> Evaluated {
    let digits = f.text(0)?;
    match bytes_of_hex(&digits) {
        Some(bytes) => text(bytes),
        None => {
            let shown = sqltype::printable(&digits);
            f.context.warn(SqlError::incorrect_for_function("string", shown, "unhex"))?;
            Err(Stop::Null)
        }
    }
}
