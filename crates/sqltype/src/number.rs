//! Text as numbers: the longest number that a text begins with.
//!
//! # Not here
//! Printing (`format`), conversions between all kinds of values (`convert`).

use crate::datum::Datum;
use crate::decimal::Decimal;

/// What a text was read as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Read<T> {
    /// The value; zero when there was no number.
    pub value: T,
    /// Bytes of white space and number; zero when there was no number.
    pub length: usize,
    /// Nothing but white space follows, and there was a number.
    pub is_whole: bool,
    /// The number was beyond the type's range: `value` is the nearest.
    pub is_out_of_range: bool,
}

/// A value as a floating-point number when nobody is to be warned: text up to where it is no
/// number, zero for what is none.
pub fn to_double(datum: &Datum) -> f64 {
    match datum {
        Datum::Int(v) => *v as f64,
        Datum::UInt(v) => *v as f64,
        Datum::Double(v) => *v,
        Datum::Decimal(v) => v.to_f64(),
        Datum::Bytes(text) | Datum::Json(text) => read_double(text).value,
        Datum::Date(v) => v.to_number() as f64,
        Datum::DateTime(v) => v.to_number() as f64,
        Datum::Time(v) => v.to_number() as f64,
        Datum::Null => 0.0,
    }
}

/// The extent of the number at the beginning of a text: where it starts and ends.
fn extent(text: &[u8]) -> Option<(usize, usize)> {
    let start = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let mut at = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(at);
    at += whole;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if whole + fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    } else if whole == 0 {
        return None;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'-' | b'+')));
        if let exponent @ 1.. = digits((at + 1 + sign).min(text.len())) {
            at += 1 + sign + exponent;
        }
    }
    Some((start, at))
}

fn only_spaces(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_whitespace)
}

/// Reads a floating-point number.
pub fn read_double(text: &[u8]) -> Read<f64> {
    let Some((start, end)) = extent(text) else {
        return Read { value: 0.0, length: 0, is_whole: false, is_out_of_range: false };
    };
    let number = std::str::from_utf8(&text[start..end]).expect("a number is ASCII");
    let value: f64 = number.parse().expect("what the extent covers is a number");
    let is_out_of_range = value.is_infinite();
    Read {
        value: if is_out_of_range { f64::MAX.copysign(value) } else { value },
        length: end,
        is_whole: only_spaces(&text[end..]),
        is_out_of_range,
    }
}

/// Reads a decimal. Beyond its range the value is the largest of 65 digits.
pub fn read_decimal(text: &[u8]) -> Read<Decimal> {
    let Some((number, length)) = Decimal::parse_prefix(text) else {
        return Read { value: Decimal::ZERO, length: 0, is_whole: false, is_out_of_range: false };
    };
    let is_negative = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'-');
    let largest = Decimal::largest(Decimal::PRECISION_MAX, 0);
    let bound = if is_negative { largest.negate() } else { largest };
    Read {
        value: number.unwrap_or(bound),
        length,
        is_whole: only_spaces(&text[length..]),
        is_out_of_range: number.is_err(),
    }
}

/// Reads the digits that a text begins with; a point or an exponent ends the number.
pub fn read_integer(text: &[u8]) -> Read<i128> {
    let start = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let is_negative = text.get(start) == Some(&b'-');
    let from = start + usize::from(matches!(text.get(start), Some(b'-' | b'+')));
    let count = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = &text[from..from + count];
    // Forty digits are beyond any integer type; more would overflow the accumulator.
    let value = digits.iter().fold(0i128, |value, digit| {
        value.saturating_mul(10).saturating_add(i128::from(digit - b'0'))
    });
    let value = if is_negative { -value } else { value };
    let clamped = value.clamp(i64::MIN.into(), u64::MAX.into());
    Read {
        value: clamped,
        length: if count == 0 { 0 } else { from + count },
        is_whole: count > 0 && only_spaces(&text[from + count..]),
        is_out_of_range: clamped != value,
    }
}

/// Reads an integer from a text that may have a fraction or an exponent: rounded half away from
/// zero, as a column of integers takes it.
pub fn read_rounded(text: &[u8]) -> Read<i128> {
    let read = read_integer(text);
    let goes_on = matches!(text.get(read.length), Some(b'.' | b'e' | b'E'));
    if read.is_whole || (read.length > 0 && !goes_on) {
        return read;
    }
    let decimal = read_decimal(text);
    let rounded = decimal.value.to_i128();
    let bound = if decimal.value.is_negative() { i128::MIN } else { i128::MAX };
    let value = rounded.unwrap_or(bound);
    let clamped = value.clamp(i64::MIN.into(), u64::MAX.into());
    Read {
        value: clamped,
        length: decimal.length,
        is_whole: decimal.is_whole,
        is_out_of_range: clamped != value || decimal.is_out_of_range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_begins_with_a_number() {
        let cases: [(&str, f64, usize, bool); 14] = [
            ("12", 12.0, 2, true),
            (" 12 ", 12.0, 3, true),
            ("-1.5e2x", -150.0, 6, false),
            ("1e", 1.0, 1, false),
            ("1e+", 1.0, 1, false),
            (".5", 0.5, 2, true),
            ("5.", 5.0, 2, true),
            (".", 0.0, 0, false),
            ("", 0.0, 0, false),
            ("abc", 0.0, 0, false),
            ("+3", 3.0, 2, true),
            ("0x1F", 0.0, 1, false),
            ("1e400", f64::MAX, 5, true),
            ("inf", 0.0, 0, false),
        ];
        for (text, value, length, is_whole) in cases {
            let read = read_double(text.as_bytes());
            assert_eq!(
                (read.value, read.length, read.is_whole),
                (value, length, is_whole),
                "{text}"
            );
        }
        assert!(read_double(b"1e400").is_out_of_range);
    }

    #[test]
    fn integers_cut_or_round() {
        assert_eq!(read_integer(b"1.9").value, 1);
        assert!(!read_integer(b"1.9").is_whole);
        assert_eq!(read_rounded(b"1.5").value, 2);
        assert_eq!(read_rounded(b"-1.5").value, -2);
        assert_eq!(read_rounded(b"1e3").value, 1000);
        assert!(read_rounded(b"1e3").is_whole && !read_rounded(b"12ab").is_whole);
        assert_eq!(read_rounded(b"12ab").value, 12);
        assert_eq!(read_rounded(b"x").length, 0);
        let large = read_integer(b"99999999999999999999999999999999999999999999");
        assert_eq!((large.value, large.is_out_of_range), (u64::MAX.into(), true));
        let low = read_rounded(b"-9223372036854775809");
        assert_eq!((low.value, low.is_out_of_range), (i64::MIN.into(), true));
        assert!(read_rounded(b"1e99").is_out_of_range);
    }
}
