//! Parts of dates and times: YEAR, HOUR, WEEK, EXTRACT.

use sql_parser::ast::IntervalUnit as U;
use sqltype::temporal::{Date, DateTime, Time, parse_date_time};
use sqltype::{Datum, TypeKind};

use super::unit;
use crate::function::frame::string;
use crate::function::{Evaluated, Frame, Stop};

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The English name of a day of the week, 0 for Monday.
pub(super) fn name_of_day(weekday: u8) -> &'static str {
    DAYS[usize::from(weekday) % 7]
}

/// The English name of a month, 1 for January.
pub(super) fn name_of_month(month: u8) -> Option<&'static str> {
    MONTHS.get(usize::from(month).checked_sub(1)?).copied()
}

/// The month or day, from 0, that a text begins with by name or its first three letters; and how
/// long that is.
pub(super) fn read_name(names: &[&str], text: &[u8], short: bool) -> Option<(usize, usize)> {
    let size = |name: &str| if short { 3 } else { name.len() };
    let begins = |name: &&str| {
        let size = size(name);
        text.len() >= size && text[..size].eq_ignore_ascii_case(&name.as_bytes()[..size])
    };
    let at = names.iter().position(begins)?;
    Some((at, size(names[at])))
}

/// The names of months and days.
pub(super) fn names() -> (&'static [&'static str], &'static [&'static str]) {
    (&MONTHS, &DAYS)
}

/// A part of a date that may have zero parts.
pub(super) fn of_date(f: &mut Frame<'_, '_>, part: fn(Date) -> i64) -> Evaluated {
    Ok(Datum::Int(part(f.loose_date_time(0)?.date)))
}

/// Something about a day of the calendar.
pub(super) fn of_day(f: &mut Frame<'_, '_>, part: fn(Date) -> i64) -> Evaluated {
    Ok(Datum::Int(part(f.date(0)?)))
}

/// A part of a time, without its sign.
pub(super) fn of_time(f: &mut Frame<'_, '_>, part: fn(Time) -> i64) -> Evaluated {
    Ok(Datum::Int(part(f.time(0)?)))
}

pub(super) fn day_name(f: &mut Frame<'_, '_>) -> Evaluated {
    string(name_of_day(f.date(0)?.weekday()).to_owned())
}

pub(super) fn month_name(f: &mut Frame<'_, '_>) -> Evaluated {
    let month = f.loose_date_time(0)?.date.month;
    string(name_of_month(month).ok_or(Stop::Null)?.to_owned())
}

pub(super) fn week(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = f.date(0)?;
    let mode = match f.len() {
        1 => f.context.facts.default_week_format,
        _ => week_mode(f)?,
    };
    Ok(Datum::Int(date.week(mode).1.into()))
}

/// The mode that is the second argument: the last bits of a whole number; a decimal is the nearest
/// signed one. NULL counts as 0.
fn week_mode(f: &mut Frame<'_, '_>) -> Result<u8, Stop> {
    if f.is_null(1)? {
        return Ok(0);
    }
    let bits = match f.type_of(1).kind {
        TypeKind::Decimal => f.integer(1)? as u64,
        _ => f.bits(1)?,
    };
    Ok((bits & 7) as u8)
}

pub(super) fn year_week(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = f.date(0)?;
    let mode = match f.len() {
        1 => 0,
        _ => week_mode(f)?,
    };
    // The year is always that of the week.
    let (year, week) = date.week(mode | 2);
    Ok(Datum::Int(i64::from(year) * 100 + i64::from(week)))
}

pub(super) fn to_seconds(f: &mut Frame<'_, '_>) -> Evaluated {
    let moment = f.date_time(0)?;
    let seconds = moment.time().micros / 1_000_000;
    Ok(Datum::Int(moment.date.day_number() * 86_400 + seconds))
}

/// A value that has a day, or only a time.
fn day_and_time(f: &mut Frame<'_, '_>) -> Result<(i64, Time), Stop> {
    let value = f.some(0)?;
    let moment: Option<DateTime> = match &*value {
        Datum::DateTime(moment) => Some(*moment),
        Datum::Date(date) => Some(DateTime::midnight(*date)),
        // A text of fewer characters is a time.
        Datum::Bytes(text) if text.len() >= 12 => {
            parse_date_time(text).filter(|parsed| !parsed.date_only).map(|parsed| parsed.value)
        }
        _ => None,
    };
    match moment {
        Some(moment) => Ok((moment.date.day.into(), moment.time())),
        None => Ok((0, f.time(0)?)),
    }
}

pub(super) fn extract(f: &mut Frame<'_, '_>) -> Evaluated {
    let unit = unit(f);
    let date_part: Option<fn(Date) -> i64> = match unit {
        U::Year => Some(|d| d.year.into()),
        U::YearMonth => Some(|d| i64::from(d.year) * 100 + i64::from(d.month)),
        U::Quarter => Some(|d| (i64::from(d.month) + 2) / 3),
        U::Month => Some(|d| d.month.into()),
        U::Day => Some(|d| d.day.into()),
        _ => None,
    };
    if let Some(part) = date_part {
        return of_date(f, part);
    }
    if unit == U::Week {
        return week_of(f);
    }
    let (day, time) = day_and_time(f)?;
    let (hours, minutes, seconds, micros) = time.parts();
    let (hour, minute, second) = (i64::from(hours), i64::from(minutes), i64::from(seconds));
    let micros = i64::from(micros);
    let seconds = |before: i64| before * 100 + second;
    let value = match unit {
        U::Hour => hour,
        U::Minute => minute,
        U::Second => second,
        U::Microsecond => micros,
        U::DayHour => day * 100 + hour,
        U::DayMinute => day * 10_000 + hour * 100 + minute,
        U::DaySecond => seconds(day * 10_000 + hour * 100 + minute),
        U::DayMicrosecond => seconds(day * 10_000 + hour * 100 + minute) * 1_000_000 + micros,
        U::HourMinute => hour * 100 + minute,
        U::HourSecond => seconds(hour * 100 + minute),
        U::HourMicrosecond => seconds(hour * 100 + minute) * 1_000_000 + micros,
        U::MinuteSecond => seconds(minute),
        U::MinuteMicrosecond => seconds(minute) * 1_000_000 + micros,
        _ => second * 1_000_000 + micros,
    };
    Ok(Datum::Int(if time.is_negative() { -value } else { value }))
}

fn week_of(f: &mut Frame<'_, '_>) -> Evaluated {
    let date = f.date(0)?;
    Ok(Datum::Int(date.week(f.context.facts.default_week_format).1.into()))
}
