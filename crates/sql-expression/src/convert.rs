//! Values as other kinds of values, with MySQL's warnings.
//!
//! # Owns
//! What an operand becomes where a number, a text, a time or a JSON value is wanted; CAST.
//! # Guarantees
//! Every value becomes every other kind; what is lost is warned about as MySQL does.
//! # Not here
//! Values stored into columns (`sqltype`).

use std::borrow::Cow;

use collation::{Charset, CollationId};
use sqltype::format::push_text;
use sqltype::number::read_integer;
use sqltype::temporal::{Date, DateTime, Time};
use sqltype::{
    Converter, Datum, Decimal, Problem, Problems, SqlType, TypeKind, member_number, printable,
    round_double,
};

use crate::context::{EvalContext, Level};
use crate::error::{ErrorText, SqlError};
use crate::function::signature::Domain;

/// Converts with the settings of the context; what is lost becomes warnings there.
fn converted<T>(
    context: &mut EvalContext,
    convert: impl FnOnce(&mut Converter<'_>) -> Option<T>,
) -> Result<Option<T>, SqlError> {
    let mut problems = Problems::new();
    let value = convert(&mut Converter {
        mode: context.facts.store_mode(),
        zone: &context.facts.time_zone,
        now: context.now,
        problems: &mut problems,
    });
    if problems.count() > 0 {
        report(problems.take(), context)?;
    }
    Ok(value)
}

/// Makes warnings of what a conversion has lost, or an error where strictness asks for one.
fn report(problems: Vec<Problem>, context: &mut EvalContext) -> Result<(), SqlError> {
    for problem in problems {
        let is_note = problem.is_note;
        let error = SqlError::from(problem);
        if is_note { context.note(Level::Note, error) } else { context.warn(error)? }
    }
    Ok(())
}

impl From<Problem> for SqlError {
    fn from(problem: Problem) -> Self {
        let state = ErrorText::of(problem.code).map_or(b"HY000", |entry| entry.state);
        let state = std::str::from_utf8(state).expect("an SQLSTATE is ASCII");
        SqlError::new(problem.code, state, problem.message)
    }
}

/// 1292, for a text that is no such value at all.
pub(crate) fn incorrect_temporal(kind: &str, text: &[u8]) -> SqlError {
    Problem::incorrect_temporal(kind, text).into()
}

fn truncated(kind: &str, text: &[u8]) -> SqlError {
    Problem::truncated_incorrect(kind, text).into()
}

/// The nearest number of 64 bits with sign.
pub(crate) fn clamp_i64(value: i128) -> i64 {
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// A whole number, rounded; text up to the first character that is no digit. NULL is zero.
pub(crate) fn to_integer(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<i128, SqlError> {
    match value {
        Datum::Int(value) => Ok((*value).into()),
        Datum::UInt(value) => Ok((*value).into()),
        _ => {
            let number = converted(context, |converter| converter.integer(value, sql_type))?;
            Ok(number.unwrap_or(0))
        }
    }
}

/// A floating-point number. NULL is zero.
pub(crate) fn to_double(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<f64, SqlError> {
    match value {
        Datum::Int(value) => Ok(*value as f64),
        Datum::Double(value) => Ok(*value),
        _ => {
            let number = converted(context, |converter| converter.double(value, sql_type))?;
            Ok(number.unwrap_or(0.0))
        }
    }
}

/// A decimal; the nearest for a number that none can hold. NULL is zero.
pub(crate) fn to_decimal(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<Decimal, SqlError> {
    match value {
        Datum::Int(value) => Ok(Decimal::from(*value)),
        Datum::Decimal(value) => Ok(*value),
        _ => {
            let number = converted(context, |converter| converter.decimal(value, sql_type))?;
            Ok(number.unwrap_or(Decimal::ZERO))
        }
    }
}

/// The nearest decimal; beyond 65 digits the largest.
pub(crate) fn double_to_decimal(value: f64) -> Decimal {
    Decimal::from_f64(value).unwrap_or_else(|_| {
        let largest = Decimal::largest(Decimal::PRECISION_MAX, 0);
        if value < 0.0 { largest.negate() } else { largest }
    })
}

/// A text in UTF-8; bytes as they are. NULL is empty.
pub(crate) fn to_text<'v>(value: &'v Datum, sql_type: &SqlType) -> Cow<'v, [u8]> {
    sqltype::text(value, sql_type).unwrap_or_default()
}

/// A value as text for a message.
pub(crate) fn shown(value: &Datum, sql_type: &SqlType) -> String {
    printable(&to_text(value, sql_type))
}

/// A date and time, which may have zero parts; `None` with a warning for what is none.
pub(crate) fn to_date_time(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<Option<DateTime>, SqlError> {
    match value {
        Datum::Date(date) => Ok(Some(DateTime::midnight(*date))),
        Datum::DateTime(moment) => Ok(Some(*moment)),
        _ => converted(context, |converter| converter.fuzzy_date_time(value, sql_type)),
    }
}

/// A span of time; `None` with a warning for what is none.
pub(crate) fn to_time(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<Option<Time>, SqlError> {
    match value {
        Datum::Time(time) => Ok(Some(*time)),
        _ => converted(context, |converter| converter.time(value, sql_type)),
    }
}

/// A condition: anything but zero is true.
pub(crate) fn to_truth(
    value: &Datum,
    sql_type: &SqlType,
    context: &mut EvalContext,
) -> Result<Option<bool>, SqlError> {
    match value {
        Datum::Null => Ok(None),
        Datum::Int(value) => Ok(Some(*value != 0)),
        Datum::UInt(value) => Ok(Some(*value != 0)),
        Datum::Decimal(value) => Ok(Some(!value.is_zero())),
        Datum::Json(_) => Ok(Some(crate::function::json_truth(value))),
        _ => Ok(Some(to_double(value, sql_type, context)? != 0.0)),
    }
}

/// A value of one of several types as one of the type that takes them all: of CASE and its kin.
pub(crate) fn conform<'v>(
    value: Cow<'v, Datum>,
    from: &SqlType,
    to: &SqlType,
    context: &mut EvalContext,
) -> Result<Cow<'v, Datum>, SqlError> {
    let digits = to.decimals;
    Ok(Cow::Owned(match (&*value, &to.kind) {
        (Datum::Null, _) => return Ok(value),
        (Datum::Decimal(number), TypeKind::Decimal) if number.scale() == digits => {
            return Ok(value);
        }
        (_, TypeKind::Decimal) => Datum::Decimal(to_decimal(&value, from, context)?.round(digits)),
        (Datum::Double(_), TypeKind::Float | TypeKind::Double) => return Ok(value),
        (_, TypeKind::Float | TypeKind::Double) => Datum::Double(to_double(&value, from, context)?),
        (Datum::DateTime(_), TypeKind::DateTime | TypeKind::Timestamp)
        | (Datum::Date(_), TypeKind::Date)
        | (Datum::Time(_), TypeKind::Time)
        | (Datum::Json(_), TypeKind::Json) => return Ok(value),
        (_, TypeKind::DateTime | TypeKind::Timestamp) => {
            let moment = to_date_time(&value, from, context)?;
            moment.map_or(Datum::Null, Datum::DateTime)
        }
        (_, TypeKind::Json) => cast_json(&value, from, context)?,
        (Datum::Int(_) | Datum::UInt(_), _) if integer_domain(to) => return Ok(value),
        (Datum::Bytes(_), _) => return Ok(value),
        _ if to.kind.is_string() => Datum::Bytes(to_text(&value, from).into_owned().into()),
        _ => return Ok(value),
    }))
}

fn integer_domain(sql_type: &SqlType) -> bool {
    let result = crate::result_type::ResultType::of(sql_type.clone(), true);
    crate::function::signature::domain_of(&result) == Domain::Integer
}

fn cast_json(value: &Datum, from: &SqlType, context: &mut EvalContext) -> Result<Datum, SqlError> {
    crate::function::cast_json(value, from, context)
}

/// CAST and CONVERT: the value as one of the type `to`.
pub(crate) fn cast(
    value: &Datum,
    from: &SqlType,
    to: &SqlType,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    if value.is_null() {
        return Ok(Datum::Null);
    }
    match &to.kind {
        TypeKind::Null => Ok(Datum::Null),
        TypeKind::Bit => cast_integer(value, from, to, context),
        kind if kind.is_integer() => cast_integer(value, from, to, context),
        TypeKind::Decimal => cast_decimal(value, from, to, context),
        TypeKind::Float => {
            let number = to_double(value, from, context)? as f32;
            if number.is_infinite() {
                return Err(SqlError::out_of_range("FLOAT", shown(value, from)));
            }
            Ok(Datum::Double(number.into()))
        }
        TypeKind::Double => Ok(Datum::Double(to_double(value, from, context)?)),
        TypeKind::Year => cast_year(value, from, context),
        TypeKind::Date => Ok(match to_date_time(value, from, context)? {
            Some(moment) if is_allowed_date(moment.date, value, from, context)? => {
                Datum::Date(moment.date)
            }
            _ => Datum::Null,
        }),
        TypeKind::DateTime | TypeKind::Timestamp => {
            let digits = to.decimals.min(6);
            let truncates = context.facts.store_mode().truncate_fractions;
            Ok(match to_date_time(value, from, context)? {
                Some(moment) if is_allowed_date(moment.date, value, from, context)? => {
                    let rounded = if truncates {
                        Some(moment.truncate(digits))
                    } else {
                        moment.round(digits)
                    };
                    rounded.map_or(Datum::Null, Datum::DateTime)
                }
                _ => Datum::Null,
            })
        }
        TypeKind::Time => {
            let truncates = context.facts.store_mode().truncate_fractions;
            Ok(match to_time(value, from, context)? {
                Some(time) if truncates => Datum::Time(time.truncate(to.decimals.min(6))),
                Some(time) => Datum::Time(time.round(to.decimals.min(6))),
                None => Datum::Null,
            })
        }
        TypeKind::Json => cast_json(value, from, context),
        _ => cast_text(value, from, to, context),
    }
}

/// Whether the SQL mode allows a date with its zero parts.
fn is_allowed_date(
    date: Date,
    value: &Datum,
    from: &SqlType,
    context: &mut EvalContext,
) -> Result<bool, SqlError> {
    let refused = context.facts.store_mode().refuses(date);
    if refused {
        context.warn(incorrect_temporal("datetime", &to_text(value, from)))?;
    }
    Ok(!refused)
}

fn cast_integer(
    value: &Datum,
    from: &SqlType,
    to: &SqlType,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    if to.unsigned || to.kind == TypeKind::Bit {
        return Ok(Datum::UInt(match value {
            // A negative number keeps its bits.
            Datum::Int(value) => *value as u64,
            Datum::Double(value) => double_to_unsigned(*value),
            Datum::Bytes(text) if member_number(text, from).is_none() => {
                let read = read_integer(text);
                if !read.is_whole || read.is_out_of_range {
                    context.warn(truncated("INTEGER", text))?;
                }
                if read.value < 0 {
                    let message = "Cast to unsigned converted negative integer to its positive \
                                   complement";
                    context.warn(SqlError::new(1105, "HY000", message))?;
                }
                unsigned_bits(read.value)
            }
            Datum::Decimal(number) => {
                let rounded = number.round(0).to_i128().unwrap_or(i128::MAX);
                let clamped = rounded.clamp(0, u64::MAX.into());
                if clamped != rounded {
                    context.warn(truncated("DECIMAL", number.to_string().as_bytes()))?;
                }
                clamped as u64
            }
            _ => unsigned_bits(to_integer(value, from, context)?),
        }));
    }
    Ok(Datum::Int(match value {
        Datum::UInt(value) => *value as i64,
        Datum::Double(value) => {
            let rounded = value.round_ties_even();
            if !(-9.3e18..9.223_372_036_854_775e18).contains(&rounded) {
                let mut text = String::new();
                push_text(&mut text, &Datum::Double(*value), from);
                context.warn(truncated("INTEGER", text.as_bytes()))?;
            }
            rounded as i64
        }
        Datum::Bytes(text) if member_number(text, from).is_none() => {
            let read = read_integer(text);
            if !read.is_whole || read.is_out_of_range {
                context.warn(truncated("INTEGER", text))?;
            } else if read.value > i64::MAX.into() {
                let message = "Cast to signed converted positive out-of-range integer to its \
                               negative complement";
                context.warn(SqlError::new(1105, "HY000", message))?;
            }
            if read.value > i64::MAX.into() { read.value as u64 as i64 } else { read.value as i64 }
        }
        Datum::Decimal(number) => {
            let rounded = number.round(0).to_i128().unwrap_or(i128::MAX);
            let clamped = clamp_i64(rounded);
            if i128::from(clamped) != rounded {
                context.warn(truncated("DECIMAL", number.to_string().as_bytes()))?;
            }
            clamped
        }
        _ => clamp_i64(to_integer(value, from, context)?),
    }))
}

fn unsigned_bits(value: i128) -> u64 {
    u64::try_from(value).unwrap_or_else(|_| clamp_i64(value) as u64)
}

fn double_to_unsigned(value: f64) -> u64 {
    unsigned_bits(round_double(value))
}

fn cast_decimal(
    value: &Datum,
    from: &SqlType,
    to: &SqlType,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let number = to_decimal(value, from, context)?.round(to.decimals);
    let largest = Decimal::largest(to.length, to.decimals);
    if number.abs().compare(&largest).is_gt() {
        context.warn(SqlError::of::<1264>(&[&"", &context_row(context)]))?;
        let bound = if number.is_negative() { largest.negate() } else { largest };
        return Ok(Datum::Decimal(bound));
    }
    Ok(Datum::Decimal(number))
}

fn context_row(context: &EvalContext) -> u64 {
    context.row_number
}

fn cast_year(value: &Datum, from: &SqlType, context: &mut EvalContext) -> Result<Datum, SqlError> {
    let year: i128 = match value {
        Datum::Date(date) => date.year.into(),
        Datum::DateTime(moment) => moment.date.year.into(),
        Datum::Time(_) => context.facts.time_zone.local(context.now).date.year.into(),
        _ => to_integer(value, from, context)?,
    };
    let is_text = matches!(value, Datum::Bytes(_));
    let year = match year {
        0 if is_text => 2000,
        0 => 0,
        1..=69 => year + 2000,
        70..=99 => year + 1900,
        1901..=2155 => year,
        _ => {
            context.warn(truncated("YEAR", &to_text(value, from)))?;
            return Ok(Datum::Null);
        }
    };
    Ok(Datum::Int(year as i64))
}

/// CHAR and BINARY: converted to the character set, cut to the length, BINARY filled up.
fn cast_text(
    value: &Datum,
    from: &SqlType,
    to: &SqlType,
    context: &mut EvalContext,
) -> Result<Datum, SqlError> {
    let text = to_text(value, from);
    let is_bytes =
        |sql_type: &SqlType| sql_type.kind.is_string() && sql_type.collation == CollationId::BINARY;
    let to_bytes = to.collation.charset() == Charset::Binary;
    let mut text: Vec<u8> = match (is_bytes(from), to_bytes) {
        (true, false) => {
            let charset = to.collation.charset();
            let text = sqltype::aligned(charset, &text);
            let converted = collation::to_utf8(charset, &text);
            if converted.first_bad.is_some() {
                let from = collation::invalid_utf8_at(&text).unwrap_or(0);
                let shown: String =
                    text[from..].iter().take(6).map(|byte| format!("{byte:02X}")).collect();
                context.warn(SqlError::of::<1300>(&[&charset.name(), &shown]))?;
                return Ok(Datum::Null);
            }
            converted.bytes.into_owned()
        }
        (false, true) => {
            let charset =
                if from.kind.is_string() { from.collation.charset() } else { Charset::Utf8mb4 };
            crate::function::signature::bytes_in(charset, &text).into_owned()
        }
        (false, false) => match collation::unrepresentable_at(to.collation.charset(), &text) {
            // What the character set does not have is a question mark there.
            Some(_) => {
                let charset = to.collation.charset();
                let there = collation::from_utf8(charset, &text).bytes.into_owned();
                collation::to_utf8(charset, &there).bytes.into_owned()
            }
            None => text.into_owned(),
        },
        (true, true) => text.into_owned(),
    };
    if to.length != u32::MAX {
        let keep = if to_bytes {
            text.len().min(to.length as usize)
        } else {
            collation::chars_size(&text, to.length as usize)
        };
        if keep < text.len() {
            let kind = if to_bytes { "BINARY" } else { "CHAR" };
            let name = format!("{kind}({})", to.length);
            context.warn(truncated(&name, &text))?;
            text.truncate(keep);
        }
        if to_bytes && to.kind == TypeKind::Char && text.len() < to.length as usize {
            text.resize(to.length as usize, 0);
        }
    }
    Ok(Datum::Bytes(text.into()))
}
