//! Mathematics: rounding, powers, logarithms, angles, random numbers, CRC32.

use sqltype::{Datum, Decimal, SqlType, TypeKind};

use super::signature::{
    Domain, decimal_digits, decimal_type, domain_of, double_type, fixed_digits, is_unsigned,
    number_of,
};
use super::{Evaluated, Frame, Function, Signature, Stop};
use crate::context::RandomSequence;
use crate::convert;
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("abs", 1, 1, abs_type, abs),
    Function::pure("sign", 1, 1, sign_type, sign),
    Function::pure("ceiling", 1, 1, whole_type, |f| whole(f, Decimal::ceiling, f64::ceil)),
    Function::pure("floor", 1, 1, whole_type, |f| whole(f, Decimal::floor, f64::floor)),
    Function::pure("round", 1, 2, |s| rounded_type(s, true), |f| rounded(f, true)),
    Function::pure("truncate", 2, 2, |s| rounded_type(s, false), |f| rounded(f, false)),
    Function::pure("sqrt", 1, 1, maybe, |f| defined(f, |x| (x >= 0.0).then(|| x.sqrt()))),
    Function::pure("exp", 1, 1, double, |f| finite(f, f64::exp)),
    Function::pure("ln", 1, 1, maybe, |f| logarithm(f, f64::ln)),
    Function::pure("log2", 1, 1, maybe, |f| logarithm(f, f64::log2)),
    Function::pure("log10", 1, 1, maybe, |f| logarithm(f, f64::log10)),
    Function::pure("log", 1, 2, maybe, log),
    Function::pure("pow", 2, 2, double, power),
    Function::pure("pi", 0, 0, pi_type, |_| Ok(Datum::Double(std::f64::consts::PI))),
    Function::pure("sin", 1, 1, double, |f| finite(f, f64::sin)),
    Function::pure("cos", 1, 1, double, |f| finite(f, f64::cos)),
    Function::pure("tan", 1, 1, double, |f| finite(f, f64::tan)),
    Function::pure("cot", 1, 1, double, |f| finite(f, |x| 1.0 / x.tan())),
    Function::pure("asin", 1, 1, maybe, |f| defined(f, |x| (x.abs() <= 1.0).then(|| x.asin()))),
    Function::pure("acos", 1, 1, maybe, |f| defined(f, |x| (x.abs() <= 1.0).then(|| x.acos()))),
    Function::pure("atan", 1, 2, double, arc_tangent),
    Function::pure("atan2", 1, 2, double, arc_tangent),
    Function::pure("degrees", 1, 1, double, |f| finite(f, f64::to_degrees)),
    Function::pure("radians", 1, 1, double, |f| finite(f, f64::to_radians)),
    Function::volatile("rand", 0, 1, |s| s.of(SqlType::double(), false), random),
    Function::pure("crc32", 1, 1, |s| s.unsigned(), crc32),
];

fn double(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.double()
}

fn maybe(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.maybe_double()
}

/// Six digits are shown of pi, as of any constant of so many decimals.
fn pi_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.of(SqlType { decimals: 6, length: 8, ..SqlType::double() }, false)
}

/// Hexadecimal literals become numbers.
fn first_is_number(s: &mut Signature<'_>) {
    let operand = std::mem::replace(&mut s.arguments[0], Expression::null());
    s.arguments[0] = number_of(operand);
}

/// The type of the operand as a number.
fn number_type(result: &ResultType) -> SqlType {
    match domain_of(result) {
        Domain::Double => double_type(fixed_digits(result)),
        Domain::Decimal => {
            let (whole, scale) = decimal_digits(result);
            decimal_type(whole, scale)
        }
        Domain::Integer => SqlType {
            unsigned: is_unsigned(result),
            ..SqlType::new(TypeKind::BigInt, decimal_digits(result).0.min(20))
        },
    }
}

fn abs_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    first_is_number(s);
    s.of(number_type(s.argument(0)), s.nullable())
}

fn abs(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(match f.result.sql_type.kind {
        TypeKind::Double => Datum::Double(f.double(0)?.abs()),
        TypeKind::Decimal => Datum::Decimal(f.decimal(0)?.abs()),
        _ if f.result.sql_type.unsigned => Datum::UInt(f.bits(0)?),
        _ => match f.integer(0)?.checked_abs() {
            Some(number) => Datum::Int(number),
            None => return Err(out_of_range(f, "BIGINT")),
        },
    })
}

fn sign_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    first_is_number(s);
    s.integer(2)
}

fn sign(f: &mut Frame<'_, '_>) -> Evaluated {
    let sign = match domain_of(&f.argument(0).result) {
        Domain::Double => {
            let number = f.double(0)?;
            if number == 0.0 { 0 } else { number.signum() as i64 }
        }
        Domain::Decimal => {
            let number = f.decimal(0)?;
            if number.is_zero() { 0 } else { 1 - 2 * i64::from(number.is_negative()) }
        }
        Domain::Integer => f.wide(0)?.signum() as i64,
    };
    Ok(Datum::Int(sign))
}

/// CEILING and FLOOR of a decimal are BIGINT as long as that surely holds them.
fn whole_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    first_is_number(s);
    let argument = s.argument(0);
    let sql_type = match domain_of(argument) {
        Domain::Double => double_type(0),
        Domain::Integer => number_type(argument),
        Domain::Decimal => match decimal_digits(argument).0 {
            digits @ 0..=17 => SqlType::new(TypeKind::BigInt, digits + 1),
            digits => decimal_type(digits + 1, 0),
        },
    };
    s.of(sql_type, s.nullable())
}

fn whole(
    f: &mut Frame<'_, '_>,
    of_decimal: fn(Decimal) -> Decimal,
    of_double: fn(f64) -> f64,
) -> Evaluated {
    Ok(match (domain_of(&f.argument(0).result), &f.result.sql_type.kind) {
        (Domain::Double, _) => Datum::Double(of_double(f.double(0)?)),
        (Domain::Decimal, TypeKind::Decimal) => Datum::Decimal(of_decimal(f.decimal(0)?)),
        (Domain::Decimal, _) => {
            let number = of_decimal(f.decimal(0)?).to_i128();
            match number.and_then(|number| i64::try_from(number).ok()) {
                Some(number) => Datum::Int(number),
                None => return Err(out_of_range(f, "BIGINT")),
            }
        }
        (Domain::Integer, _) if f.result.sql_type.unsigned => Datum::UInt(f.bits(0)?),
        (Domain::Integer, _) => Datum::Int(f.integer(0)?),
    })
}

/// ROUND and TRUNCATE keep the kind of number. With a constant number of digits a decimal has that
/// many.
fn rounded_type(s: &mut Signature<'_>, rounds: bool) -> Result<ResultType, SqlError> {
    first_is_number(s);
    let argument = s.argument(0);
    let digits = match s.arguments.get(1) {
        None => Some(0),
        Some(_) => s.constant_integer(1),
    };
    let sql_type = match domain_of(argument) {
        Domain::Double => match digits {
            Some(digits) => double_type(digits.clamp(0, 31) as u8),
            None => SqlType::double(),
        },
        Domain::Integer => SqlType { length: 20, ..number_type(argument) },
        Domain::Decimal => {
            let (whole, scale) = decimal_digits(argument);
            let kept = match digits {
                Some(digits) => digits.clamp(0, Decimal::SCALE_MAX.into()) as u32,
                None => scale,
            };
            let carry = u32::from(rounds && kept < scale);
            decimal_type(whole + carry, kept)
        }
    };
    s.of(sql_type, s.nullable())
}

fn rounded(f: &mut Frame<'_, '_>, rounds: bool) -> Evaluated {
    let digits = match f.len() {
        1 => 0,
        _ => {
            let digits = f.wide(1)?;
            digits.clamp(-400, 400) as i32
        }
    };
    Ok(match f.result.sql_type.kind {
        TypeKind::Double => Datum::Double(round_double(f.double(0)?, digits, rounds)),
        TypeKind::Decimal => {
            let number = f.decimal(0)?;
            let places = digits.unsigned_abs();
            let scale = digits.clamp(0, Decimal::SCALE_MAX.into()) as u8;
            let kept = match (digits < 0, rounds) {
                (false, true) => number.round(scale),
                (false, false) => number.truncate(scale),
                (true, true) => number.round_before_point(places),
                (true, false) => number.truncate_before_point(places),
            };
            Datum::Decimal(kept.round(f.result.sql_type.decimals))
        }
        _ => {
            let number = f.wide(0)?;
            let kept = round_integer(number, digits, rounds);
            if f.result.sql_type.unsigned {
                match u64::try_from(kept) {
                    Ok(number) => Datum::UInt(number),
                    Err(_) => return Err(out_of_range(f, "BIGINT UNSIGNED")),
                }
            } else {
                match i64::try_from(kept) {
                    Ok(number) => Datum::Int(number),
                    Err(_) => return Err(out_of_range(f, "BIGINT")),
                }
            }
        }
    })
}

/// Rounds before the point, half away from zero.
fn round_integer(number: i128, digits: i32, rounds: bool) -> i128 {
    if digits >= 0 {
        return number;
    }
    if digits < -20 {
        return 0;
    }
    let unit = 10i128.pow(digits.unsigned_abs());
    let half = if rounds { unit / 2 } else { 0 };
    (number.abs() + half) / unit * unit * number.signum()
}

/// Rounds half to even, as the processor does; so does MySQL.
pub(super) fn round_double(value: f64, digits: i32, rounds: bool) -> f64 {
    let round = |value: f64| if rounds { value.round_ties_even() } else { value.trunc() };
    if digits < 0 {
        let unit = 10f64.powi(-digits);
        return if unit.is_infinite() { 0.0 } else { round(value / unit) * unit };
    }
    let unit = 10f64.powi(digits);
    let scaled = value * unit;
    if !scaled.is_finite() || unit.is_infinite() { value } else { round(scaled) / unit }
}

fn out_of_range(f: &Frame<'_, '_>, kind: &str) -> Stop {
    let call = Expression { node: Node::Call(Box::new(f.call.clone())), result: f.result.clone() };
    f.context.out_of_range(kind, &call).into()
}

fn checked(f: &Frame<'_, '_>, value: f64) -> Evaluated {
    if value.is_finite() { Ok(Datum::Double(value)) } else { Err(out_of_range(f, "DOUBLE")) }
}

/// A function that is defined everywhere; an infinite result is an error.
fn finite(f: &mut Frame<'_, '_>, compute: fn(f64) -> f64) -> Evaluated {
    let value = compute(f.double(0)?);
    checked(f, value)
}

/// A function that is NULL where it is not defined.
fn defined(f: &mut Frame<'_, '_>, compute: fn(f64) -> Option<f64>) -> Evaluated {
    compute(f.double(0)?).map(Datum::Double).ok_or(Stop::Null)
}

/// The argument of a logarithm, which is above zero.
fn positive(f: &mut Frame<'_, '_>, at: usize) -> Result<f64, Stop> {
    let value = f.double(at)?;
    if value > 0.0 {
        return Ok(value);
    }
    let warning = SqlError::new(3020, "2201E", "Invalid argument for logarithm");
    f.context.warn(warning)?;
    Err(Stop::Null)
}

fn logarithm(f: &mut Frame<'_, '_>, compute: fn(f64) -> f64) -> Evaluated {
    Ok(Datum::Double(compute(positive(f, 0)?)))
}

fn log(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.len() == 1 {
        return logarithm(f, f64::ln);
    }
    let (base, value) = (positive(f, 0)?, positive(f, 1)?);
    if base == 1.0 {
        let warning = SqlError::new(3020, "2201E", "Invalid argument for logarithm");
        f.context.warn(warning)?;
        return Err(Stop::Null);
    }
    Ok(Datum::Double(value.ln() / base.ln()))
}

fn power(f: &mut Frame<'_, '_>) -> Evaluated {
    let value = f.double(0)?.powf(f.double(1)?);
    checked(f, value)
}

fn arc_tangent(f: &mut Frame<'_, '_>) -> Evaluated {
    let value = match f.len() {
        1 => f.double(0)?.atan(),
        _ => f.double(0)?.atan2(f.double(1)?),
    };
    Ok(Datum::Double(value))
}

impl RandomSequence {
    const MAX: u64 = 0x3FFF_FFFF;

    /// The sequence that MySQL has for this number.
    fn new(seed: i64) -> Self {
        let seed = u64::from(seed as u32);
        let first = (seed.wrapping_mul(0x1_0001).wrapping_add(55_555_555)) as u32;
        let second = seed.wrapping_mul(0x1000_0001) as u32;
        Self {
            first: (u64::from(first) % Self::MAX) as u32,
            second: (u64::from(second) % Self::MAX) as u32,
        }
    }

    fn next(&mut self) -> f64 {
        let (first, second) = (u64::from(self.first), u64::from(self.second));
        let first = (first * 3 + second) % Self::MAX;
        self.first = first as u32;
        self.second = ((first + second + 33) % Self::MAX) as u32;
        first as f64 / Self::MAX as f64
    }
}

fn random(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.len() == 0 {
        return Ok(Datum::Double(f.context.random()));
    }
    let value = f.value(0)?;
    let seed = convert::clamp_i64(convert::to_integer(&value, f.type_of(0), f.context)?);
    // A constant begins a sequence that goes on with each row; any other number begins anew.
    let is_constant = f.argument(0).constancy() != crate::expression::Constancy::Row;
    if !is_constant {
        return Ok(Datum::Double(RandomSequence::new(seed).next()));
    }
    let sequence = f.context.sequences.entry(f.call.state);
    let sequence = sequence.or_insert_with(|| RandomSequence::new(seed));
    Ok(Datum::Double(sequence.next()))
}

fn crc32(f: &mut Frame<'_, '_>) -> Evaluated {
    let bytes = f.bytes(0)?;
    let crc = bytes.iter().fold(!0u32, |crc, byte| {
        let at = (crc ^ u32::from(*byte)) & 0xFF;
        CRC_TABLE[at as usize] ^ crc >> 8
    });
    Ok(Datum::UInt((!crc).into()))
}

/// Remainders of each byte under the polynomial of IEEE 802.3, bits reversed.
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xEDB8_8320 ^ crc >> 1 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
