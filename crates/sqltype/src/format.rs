//! Values as text, as MySQL prints them.

use std::fmt::Write;

use crate::datum::Datum;
use crate::sql_type::{SqlType, TypeKind};

/// Appends a DOUBLE: the shortest text that reads back as the same number; with an exponent below
/// 1e-15 and from 1e15 on.
pub fn push_double(out: &mut String, value: f64) {
    push_digits(out, &format!("{value:e}"));
}

/// Appends a FLOAT: as [`push_double`], with six digits at most.
pub fn push_float(out: &mut String, value: f64) {
    push_digits(out, &format!("{value:.5e}"));
}

/// Lays out `d.ddde±n` as MySQL does.
fn push_digits(out: &mut String, scientific: &str) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let mut digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    digits.truncate(digits.trim_end_matches('0').len());
    if digits.is_empty() {
        out.push('0');
        return;
    }
    out.push_str(sign);
    if !(-15..15).contains(&exponent) {
        out.push_str(&digits[..1]);
        if digits.len() > 1 {
            out.push('.');
            out.push_str(&digits[1..]);
        }
        let _ = write!(out, "e{exponent}");
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.push_str(&digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len()));
        } else {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
}

/// Appends a value that is neither NULL nor bytes as text of its type. BIT is bytes: see
/// [`bit_bytes`].
pub fn push_text(out: &mut String, datum: &Datum, sql_type: &SqlType) {
    // Writing to a String cannot fail.
    let _ = match datum {
        Datum::Null | Datum::Bytes(_) | Datum::Json(_) => Ok(()),
        Datum::Int(v) if sql_type.kind == TypeKind::Year => write!(out, "{v:04}"),
        Datum::Int(v) => write!(out, "{v}"),
        Datum::UInt(v) if sql_type.zerofill => {
            write!(out, "{v:0width$}", width = sql_type.length as usize)
        }
        Datum::UInt(v) => write!(out, "{v}"),
        Datum::Double(v) => {
            match (&sql_type.kind, sql_type.decimals) {
                (TypeKind::Float | TypeKind::Double, digits @ 0..=30) if sql_type.length > 0 => {
                    push_fixed(out, *v, digits);
                }
                (TypeKind::Float, _) => push_float(out, *v),
                _ => push_double(out, *v),
            }
            Ok(())
        }
        Datum::Decimal(v) => write!(out, "{v}"),
        Datum::Date(v) => write!(out, "{v}"),
        Datum::DateTime(v) => write!(out, "{}", v.to_text(sql_type.decimals.min(6))),
        Datum::Time(v) => write!(out, "{}", v.to_text(sql_type.decimals.min(6))),
    };
}

/// Appends a DOUBLE with so many digits behind the point: those of the shortest number that reads
/// back as the same value, then zeros. Digits beyond are cut by rounding.
pub fn push_fixed(out: &mut String, value: f64, digits: u8) {
    let digits = usize::from(digits);
    let from = out.len();
    // Writing to a String cannot fail.
    let _ = write!(out, "{value}");
    let written = out[from..].split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if written > digits {
        out.truncate(from);
        let _ = write!(out, "{value:.digits$}");
        return;
    }
    if written == 0 && digits > 0 {
        out.push('.');
    }
    out.extend(std::iter::repeat_n('0', digits - written));
}

/// The bytes of a BIT value of `length` bits, most significant first.
pub fn bit_bytes(value: u64, length: u32) -> Box<[u8]> {
    let size = (length.clamp(1, 64) as usize).div_ceil(8);
    value.to_be_bytes()[8 - size..].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_behind_the_point_are_those_of_the_shortest_number() {
        let print = |value: f64, digits: u8| {
            let mut text = String::new();
            push_fixed(&mut text, value, digits);
            text
        };
        assert_eq!(print(0.1, 20), "0.10000000000000000000");
        assert_eq!(print(0.3, 17), "0.30000000000000000");
        assert_eq!(print(12_345_678_901_234_567_890.0, 0), "12345678901234567000");
        assert_eq!(print(-12_345_678_901_234_567_890.0, 1), "-12345678901234567000.0");
        assert_eq!(print(2.5, 0), "2");
        assert_eq!(print(-0.125, 2), "-0.12");
        assert_eq!(print(7.0, 2), "7.00");
    }

    #[test]
    fn doubles_print_as_mysql_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.5, "1.5"),
            (-2.0, "-2"),
            (0.1, "0.1"),
            (0.00001, "0.00001"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (1.25e20, "1.25e20"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (123_456_789.012_345_69, "123456789.01234569"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e308"),
        ] {
            let mut text = String::new();
            push_double(&mut text, value);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn floats_have_six_digits() {
        for (value, expected) in [
            (1.1f32, "1.1"),
            (5.123_456_7, "5.12346"),
            (16_777_216.0, "16777200"),
            (1e10, "10000000000"),
            (-1e20, "-1e20"),
            (0.0, "0"),
        ] {
            let mut text = String::new();
            push_float(&mut text, f64::from(value));
            assert_eq!(text, expected);
        }
    }
}
