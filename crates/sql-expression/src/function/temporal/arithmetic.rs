//! Sums and differences of dates and times.

use sql_parser::ast::IntervalUnit as U;
use sqltype::temporal::{DateTime, SECOND, Time, parse_date_time};
use sqltype::{Datum, TypeKind};

use super::interval::{Interval, amount, has_micros, is_date_unit};
use super::{overflow, result, time_result, unit, unit_of};
use crate::error::SqlError;
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::ResultType;

/// A date stays one as long as its time of day cannot change; text stays text.
pub(super) fn add_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let unit = unit_of(s.constant_integer(2));
    let amount_digits = match unit {
        U::Second => s.fraction(1),
        unit if has_micros(unit) => 6,
        _ => 0,
    };
    let digits = s.argument(0).sql_type.decimals.min(6).max(amount_digits);
    match s.argument(0).sql_type.kind {
        TypeKind::Date if is_date_unit(unit) => s.temporal(TypeKind::Date, 0),
        TypeKind::Date => s.temporal(TypeKind::DateTime, amount_digits),
        TypeKind::Time if matches!(unit, U::Year | U::Quarter | U::Month | U::YearMonth) => {
            s.temporal(TypeKind::DateTime, digits)
        }
        TypeKind::Time => s.temporal(TypeKind::Time, digits),
        TypeKind::DateTime | TypeKind::Timestamp => s.temporal(TypeKind::DateTime, digits),
        _ => s.maybe_ascii(29),
    }
}

pub(super) fn add(f: &mut Frame<'_, '_>, subtract: bool) -> Evaluated {
    let unit = unit(f);
    let value = f.some(0)?;
    if f.result.sql_type.kind == TypeKind::Time {
        let time = f.time(0)?;
        let Some(interval) = signed(f, unit, subtract)? else { return Err(overflow(f, "time")) };
        let sum = i128::from(time.micros) + interval.micros;
        let range = -Time::MAX.micros..=Time::MAX.micros;
        let sum = i64::try_from(sum).ok().filter(|sum| range.contains(sum));
        return match sum {
            Some(micros) => Ok(Datum::Time(Time { micros })),
            None => Err(overflow(f, "time")),
        };
    }
    let moment = f.date_time(0)?;
    let date_only = is_date_unit(unit)
        && match &*value {
            Datum::Bytes(text) => parse_date_time(text).is_some_and(|parsed| parsed.date_only),
            Datum::Int(number) => {
                sqltype::temporal::date_time_of_number(*number).is_some_and(|(_, day)| day)
            }
            _ => true,
        };
    let sum = signed(f, unit, subtract)?.and_then(|interval| interval.after(moment));
    match sum {
        Some(sum) => result(f, sum, date_only),
        None => Err(overflow(f, "datetime")),
    }
}

fn signed(f: &mut Frame<'_, '_>, unit: U, subtract: bool) -> Result<Option<Interval>, Stop> {
    let interval = amount(f, 1, unit)?;
    Ok(interval.map(|interval| if subtract { interval.negate() } else { interval }))
}

pub(super) fn add_time_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let digits = s.fraction(0).max(s.fraction(1));
    match s.argument(0).sql_type.kind {
        TypeKind::DateTime | TypeKind::Timestamp => s.temporal(TypeKind::DateTime, digits),
        TypeKind::Date => s.temporal(TypeKind::DateTime, digits),
        TypeKind::Time => s.temporal(TypeKind::Time, digits),
        _ => s.maybe_ascii(29),
    }
}

/// A date with time, or a span, whichever an argument is.
enum Operand {
    Moment(DateTime),
    Span(Time),
}

fn operand(f: &mut Frame<'_, '_>, at: usize) -> Result<Operand, Stop> {
    let value = f.some(at)?;
    Ok(match &*value {
        Datum::Date(_) | Datum::DateTime(_) => Operand::Moment(f.date_time(at)?),
        Datum::Bytes(text) => {
            // What has both a date and a time, or is too long for a time.
            let dashes = text.iter().filter(|byte| **byte == b'-').count();
            match parse_date_time(text) {
                Some(parsed) if !parsed.date_only || dashes >= 2 => {
                    let is_moment = text.len() >= 10 && dashes >= 2 || text.len() >= 14;
                    if is_moment {
                        Operand::Moment(f.date_time(at)?)
                    } else {
                        Operand::Span(f.time(at)?)
                    }
                }
                _ => Operand::Span(f.time(at)?),
            }
        }
        _ => Operand::Span(f.time(at)?),
    })
}

pub(super) fn add_time(f: &mut Frame<'_, '_>, subtract: bool) -> Evaluated {
    let first = operand(f, 0)?;
    // A date cannot be added.
    let Operand::Span(second) = operand(f, 1)? else { return Err(Stop::Null) };
    let micros = if subtract { -second.micros } else { second.micros };
    match first {
        Operand::Moment(moment) => match moment.add_micros(micros) {
            Some(sum) => result(f, sum, false),
            None => Err(overflow(f, "datetime")),
        },
        Operand::Span(time) => {
            let sum = time.micros + micros;
            let clamped = clamp(f, sum)?;
            time_result(f, clamped)
        }
    }
}

/// The nearest span, with a warning if it is another.
pub(super) fn clamp(f: &mut Frame<'_, '_>, micros: i64) -> Result<Time, Stop> {
    let clamped = Time::clamped(micros);
    if clamped.micros != micros {
        let text = Time { micros }.to_text(0);
        f.context.warn(SqlError::truncated_value("time", text))?;
    }
    Ok(clamped)
}

pub(super) fn date_diff(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Int(f.date(0)?.day_number() - f.date(1)?.day_number()))
}

pub(super) fn time_diff_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.temporal(TypeKind::Time, s.fraction(0).max(s.fraction(1)))
}

/// TIMEDIFF of two of a kind; NULL for others.
pub(super) fn time_diff(f: &mut Frame<'_, '_>) -> Evaluated {
    let micros = match (operand(f, 0)?, operand(f, 1)?) {
        (Operand::Moment(a), Operand::Moment(b)) => a.total_micros() - b.total_micros(),
        (Operand::Span(a), Operand::Span(b)) => a.micros - b.micros,
        _ => return Err(Stop::Null),
    };
    Ok(Datum::Time(clamp(f, micros)?))
}

pub(super) fn timestamp_diff(f: &mut Frame<'_, '_>) -> Evaluated {
    let unit = unit(f);
    let (from, to) = (f.date_time(0)?, f.date_time(1)?);
    let micros = to.total_micros() - from.total_micros();
    let each = match unit {
        U::Microsecond => 1,
        U::Second => SECOND,
        U::Minute => 60 * SECOND,
        U::Hour => 3600 * SECOND,
        U::Day => 86_400 * SECOND,
        U::Week => 7 * 86_400 * SECOND,
        _ => {
            let per = match unit {
                U::Year => 12,
                U::Quarter => 3,
                _ => 1,
            };
            return Ok(Datum::Int(whole_months(from, to) / per));
        }
    };
    Ok(Datum::Int(micros / each))
}

/// Whole months between two moments.
fn whole_months(from: DateTime, to: DateTime) -> i64 {
    let (first, last, sign) = if from <= to { (from, to, 1) } else { (to, from, -1) };
    let index = |moment: DateTime| i64::from(moment.date.year) * 12 + i64::from(moment.date.month);
    let rest = |moment: DateTime| (moment.date.day, moment.time());
    let incomplete = rest(last) < rest(first);
    sign * (index(last) - index(first) - i64::from(incomplete))
}
