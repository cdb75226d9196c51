//! Dates and times from other values, and other values from them.

use sqltype::temporal::{Date, DateTime, SECOND, Time};
use sqltype::{Datum, Decimal, SqlType, TimeZone, TypeKind};

use super::arithmetic::clamp;
use super::format;
use crate::convert;
use crate::error::SqlError;
use crate::function::frame::string;
use crate::function::signature::decimal_type;
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::ResultType;

/// The last second that UNIX_TIMESTAMP and FROM_UNIXTIME know: 3001-01-18 23:59:59 UTC.
const UNIX_MAX: i64 = 32_536_771_199;

pub(super) fn date(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = f.loose_date_time(0)?.date;
    if f.context.facts.store_mode().refuses(date) {
        let value = f.some(0)?;
        let text = convert::to_text(&value, f.type_of(0));
        let warning = convert::incorrect_temporal("datetime", &text);
        f.context.warn(warning)?;
        return Err(Stop::Null);
    }
    Ok(Datum::Date(date))
}

pub(super) fn time(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Time(f.time(0)?))
}

pub(super) fn timestamp_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let digits = (0..s.arguments.len()).map(|at| s.fraction(at)).max().unwrap_or(0);
    s.temporal(TypeKind::DateTime, digits)
}

pub(super) fn timestamp(f: &mut Frame<'_, '_>) -> Evaluated {
    let moment = f.date_time(0)?;
    if f.len() == 1 {
        return Ok(Datum::DateTime(moment));
    }
    let time = f.time(1)?;
    moment.add_micros(time.micros).map(Datum::DateTime).ok_or(Stop::Null)
}

pub(super) fn last_day(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = f.loose_date_time(0)?.date;
    date.last_day().map(Datum::Date).ok_or(Stop::Null)
}

/// A year of one or two digits is one of 1970 to 2069.
fn full_year(year: i128) -> i128 {
    match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    }
}

pub(super) fn make_date(f: &mut Frame<'_, '_>) -> Evaluated {
    let (year, day) = (f.wide(0)?, f.integer(1)?);
    let year = u16::try_from(full_year(year)).ok().filter(|year| *year <= 9999);
    let year = year.filter(|_| day > 0).ok_or(Stop::Null)?;
    let first = Date { year, month: 1, day: 1 }.day_number();
    let date = first.checked_add(day - 1).and_then(Date::from_day_number);
    date.map(Datum::Date).ok_or(Stop::Null)
}

pub(super) fn make_time_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    s.temporal(TypeKind::Time, s.fraction(2))
}

pub(super) fn make_time(f: &mut Frame<'_, '_>) -> Evaluated {
    let (hours, minutes) = (f.wide(0)?, f.wide(1)?);
    let seconds = f.decimal(2)?;
    let micros = seconds.multiply(Decimal::from(SECOND)).ok().and_then(Decimal::to_i128);
    let micros = micros.filter(|micros| (0..60 * i128::from(SECOND)).contains(micros));
    let micros = micros.filter(|_| (0..60).contains(&minutes)).ok_or(Stop::Null)?;
    let hour = 3600 * i128::from(SECOND);
    let rest = minutes * 60 * i128::from(SECOND) + micros;
    let total = hours.clamp(-100_000, 100_000).abs() * hour + rest;
    let total = if hours < 0 { -total } else { total };
    Ok(Datum::Time(clamp(f, total as i64)?))
}

pub(super) fn from_days(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = Date::from_day_number(f.integer(0)?);
    Ok(Datum::Date(date.unwrap_or_default()))
}

pub(super) fn from_unix_time_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    match s.arguments.len() {
        1 => s.temporal(TypeKind::DateTime, s.fraction(0)),
        _ => format::format_type(s),
    }
}

pub(super) fn from_unix_time(f: &mut Frame<'_, '_>) -> Evaluated {
    let seconds = f.decimal(0)?;
    let micros = seconds.multiply(Decimal::from(SECOND)).ok().and_then(Decimal::to_i128);
    let in_range =
        |micros: &i128| (0..(i128::from(UNIX_MAX) + 1) * i128::from(SECOND)).contains(micros);
    let micros = micros.filter(in_range).ok_or(Stop::Null)?;
    let moment = f.context.facts.time_zone.local(micros as i64);
    if f.len() == 1 {
        return Ok(Datum::DateTime(moment));
    }
    let pattern = f.string(1)?;
    string(format::formatted(&pattern, Some(moment.date), moment.time()).ok_or(Stop::Null)?)
}

pub(super) fn unix_timestamp_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let digits = if s.arguments.is_empty() { 0 } else { s.fraction(0) };
    match digits {
        0 => s.of(SqlType::new(TypeKind::BigInt, 11), s.nullable()),
        digits => s.of(decimal_type(11, digits.into()), s.nullable()),
    }
}

pub(super) fn unix_timestamp(f: &mut Frame<'_, '_>) -> Evaluated {
    if f.len() == 0 {
        return Ok(Datum::Int(f.context.now.div_euclid(SECOND)));
    }
    f.some(0)?;
    let moment = match f.loose_date_time(0) {
        Ok(moment) => Some(moment),
        // What is no date is the beginning of time, like dates out of range.
        Err(Stop::Null) => None,
        Err(error) => return Err(error),
    };
    let micros = moment.and_then(|moment| f.context.facts.time_zone.moment(moment));
    let in_range = |micros: &i64| (0..(UNIX_MAX + 1) * SECOND).contains(micros);
    let micros = micros.filter(in_range).unwrap_or(0);
    Ok(match f.result.sql_type.kind {
        TypeKind::Decimal => {
            let digits = f.result.sql_type.decimals;
            let seconds = Decimal::from(micros).divide(Decimal::from(SECOND), 6);
            let seconds = seconds.and_then(Result::ok).unwrap_or(Decimal::ZERO);
            Datum::Decimal(seconds.truncate(digits))
        }
        _ => Datum::Int(micros / SECOND),
    })
}

pub(super) fn sec_to_time(f: &mut Frame<'_, '_>) -> Evaluated {
    let seconds = f.decimal(0)?;
    let micros = seconds.multiply(Decimal::from(SECOND)).ok().and_then(Decimal::to_i128);
    let micros = micros.unwrap_or(if seconds.is_negative() { i128::MIN } else { i128::MAX });
    let bound = i128::from(Time::MAX.micros);
    if !(-bound..=bound).contains(&micros) {
        let text = seconds.to_string();
        f.context.warn(SqlError::truncated_value("time", text))?;
    }
    Ok(Datum::Time(Time::clamped(micros.clamp(-bound, bound) as i64)))
}

pub(super) fn time_to_sec(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Int(f.time(0)?.micros / SECOND))
}

/// Months since year 0 of a period `YYMM` or `YYYYMM`.
fn period_months(f: &mut Frame<'_, '_>, at: usize) -> Result<i64, Stop> {
    let period = f.integer(at)?;
    let month = period % 100;
    if period <= 0 || !(1..=12).contains(&month) {
        return Err(SqlError::wrong_arguments(f.call.function.name).into());
    }
    let year = full_year((period / 100).into()) as i64;
    // Nobody counts so far; the product must not overflow.
    Ok(year.min(i64::MAX / 24) * 12 + month - 1)
}

pub(super) fn period_add(f: &mut Frame<'_, '_>) -> Evaluated {
    let months = period_months(f, 0)?.checked_add(f.integer(1)?).filter(|months| *months >= 0);
    let period =
        months.and_then(|months| (months / 12).checked_mul(100)?.checked_add(months % 12 + 1));
    match period {
        Some(period) => Ok(Datum::Int(period)),
        None => Err(SqlError::wrong_arguments(f.call.function.name).into()),
    }
}

pub(super) fn period_diff(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Int(period_months(f, 0)? - period_months(f, 1)?))
}

pub(super) fn convert_tz(f: &mut Frame<'_, '_>) -> Evaluated {
    let moment = f.date_time(0)?;
    let (from, to) = (f.string(1)?, f.string(2)?);
    let zone = |name: &str| {
        if name.eq_ignore_ascii_case("SYSTEM") {
            Some(TimeZone::SYSTEM)
        } else {
            TimeZone::parse(name)
        }
    };
    let (from, to) = (zone(&from).ok_or(Stop::Null)?, zone(&to).ok_or(Stop::Null)?);
    let micros = from.moment(moment).ok_or(Stop::Null)?;
    // Outside of the range of timestamps nothing is converted.
    let converted: DateTime = match micros {
        SECOND..=i64::MAX if micros / SECOND <= UNIX_MAX => to.local(micros),
        _ => moment,
    };
    Ok(Datum::DateTime(converted))
}
