//! Dates and times: now, parts of them, arithmetic, formats, conversions.

mod arithmetic;
mod change;
mod format;
mod interval;
mod parse;
mod part;

use sql_parser::ast::IntervalUnit;
use sqltype::temporal::{Date, DateTime, Time};
use sqltype::{Datum, SqlType, TypeKind};

use super::{Evaluated, Frame, Function, Signature, Stop};
use crate::comparison;
use crate::error::SqlError;
use crate::result_type::ResultType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::pure("year of digits", 1, 1, |s| Ok(s.argument(0).clone()), year_of_digits),
    Function::of_statement(
        "now",
        0,
        1,
        |s| moment_type(s, TypeKind::DateTime),
        |f| Ok(Datum::DateTime(f.now().truncate(f.result.sql_type.decimals))),
    ),
    Function::volatile(
        "sysdate",
        0,
        1,
        |s| moment_type(s, TypeKind::DateTime),
        |f| {
            let now = f.context.facts.time_zone.local(f.context.sysdate);
            Ok(Datum::DateTime(now.truncate(f.result.sql_type.decimals)))
        },
    ),
    Function::of_statement(
        "curdate",
        0,
        0,
        |s| moment_type(s, TypeKind::Date),
        |f| Ok(Datum::Date(f.now().date)),
    ),
    Function::of_statement(
        "curtime",
        0,
        1,
        |s| moment_type(s, TypeKind::Time),
        |f| Ok(Datum::Time(f.now().time().truncate(f.result.sql_type.decimals))),
    ),
    Function::of_statement(
        "utc_date",
        0,
        0,
        |s| moment_type(s, TypeKind::Date),
        |f| Ok(Datum::Date(DateTime::from_unix_micros(f.context.now).date)),
    ),
    Function::of_statement(
        "utc_time",
        0,
        1,
        |s| moment_type(s, TypeKind::Time),
        |f| {
            let now = DateTime::from_unix_micros(f.context.now);
            Ok(Datum::Time(now.time().truncate(f.result.sql_type.decimals)))
        },
    ),
    Function::of_statement(
        "utc_timestamp",
        0,
        1,
        |s| moment_type(s, TypeKind::DateTime),
        |f| {
            let now = DateTime::from_unix_micros(f.context.now);
            Ok(Datum::DateTime(now.truncate(f.result.sql_type.decimals)))
        },
    ),
    Function::pure("date", 1, 1, |s| s.temporal(TypeKind::Date, 0), change::date),
    Function::pure("time", 1, 1, |s| s.temporal(TypeKind::Time, s.fraction(0)), change::time),
    Function::pure("timestamp", 1, 2, change::timestamp_type, change::timestamp),
    Function::pure("date_add", 3, 3, arithmetic::add_type, |f| arithmetic::add(f, false)),
    Function::pure("date_sub", 3, 3, arithmetic::add_type, |f| arithmetic::add(f, true)),
    Function::pure("addtime", 2, 2, arithmetic::add_time_type, |f| arithmetic::add_time(f, false)),
    Function::pure("subtime", 2, 2, arithmetic::add_time_type, |f| arithmetic::add_time(f, true)),
    Function::pure("datediff", 2, 2, |s| s.maybe_integer(7), arithmetic::date_diff),
    Function::pure("timediff", 2, 2, arithmetic::time_diff_type, arithmetic::time_diff),
    Function::pure("timestampdiff", 3, 3, |s| s.maybe_integer(20), arithmetic::timestamp_diff),
    Function::pure("extract", 2, 2, |s| s.maybe_integer(16), part::extract),
    Function::pure("year", 1, 1, |s| s.maybe_integer(4), |f| part::of_date(f, |d| d.year.into())),
    Function::pure(
        "quarter",
        1,
        1,
        |s| s.maybe_integer(1),
        |f| part::of_date(f, |d| (i64::from(d.month) + 2) / 3),
    ),
    Function::pure("month", 1, 1, |s| s.maybe_integer(2), |f| part::of_date(f, |d| d.month.into())),
    Function::pure("day", 1, 1, |s| s.maybe_integer(2), |f| part::of_date(f, |d| d.day.into())),
    Function::pure(
        "hour",
        1,
        1,
        |s| s.maybe_integer(3),
        |f| part::of_time(f, |t| t.parts().0.into()),
    ),
    Function::pure(
        "minute",
        1,
        1,
        |s| s.maybe_integer(2),
        |f| part::of_time(f, |t| t.parts().1.into()),
    ),
    Function::pure(
        "second",
        1,
        1,
        |s| s.maybe_integer(2),
        |f| part::of_time(f, |t| t.parts().2.into()),
    ),
    Function::pure(
        "microsecond",
        1,
        1,
        |s| s.maybe_integer(6),
        |f| part::of_time(f, |t| t.parts().3.into()),
    ),
    Function::pure("dayname", 1, 1, |s| s.maybe_ascii(9), part::day_name),
    Function::pure("monthname", 1, 1, |s| s.maybe_ascii(9), part::month_name),
    Function::pure(
        "dayofweek",
        1,
        1,
        |s| s.maybe_integer(1),
        |f| part::of_day(f, |d| (i64::from(d.weekday()) + 1) % 7 + 1),
    ),
    Function::pure(
        "weekday",
        1,
        1,
        |s| s.maybe_integer(1),
        |f| part::of_day(f, |d| d.weekday().into()),
    ),
    Function::pure(
        "dayofyear",
        1,
        1,
        |s| s.maybe_integer(3),
        |f| part::of_day(f, |d| d.day_of_year().into()),
    ),
    Function::pure("week", 1, 2, |s| s.maybe_integer(2), part::week),
    Function::pure(
        "weekofyear",
        1,
        1,
        |s| s.maybe_integer(2),
        |f| part::of_day(f, |d| d.week(3).1.into()),
    ),
    Function::pure("yearweek", 1, 2, |s| s.maybe_integer(6), part::year_week),
    Function::pure("to_days", 1, 1, |s| s.maybe_integer(6), |f| part::of_day(f, Date::day_number)),
    Function::pure("to_seconds", 1, 1, |s| s.maybe_integer(12), part::to_seconds),
    Function::pure("last_day", 1, 1, |s| s.temporal(TypeKind::Date, 0), change::last_day),
    Function::pure("makedate", 2, 2, |s| s.temporal(TypeKind::Date, 0), change::make_date),
    Function::pure("maketime", 3, 3, change::make_time_type, change::make_time),
    Function::pure("from_days", 1, 1, |s| s.temporal(TypeKind::Date, 0), change::from_days),
    Function::of_statement(
        "from_unixtime",
        1,
        2,
        change::from_unix_time_type,
        change::from_unix_time,
    ),
    Function::of_statement(
        "unix_timestamp",
        0,
        1,
        change::unix_timestamp_type,
        change::unix_timestamp,
    ),
    Function::pure(
        "sec_to_time",
        1,
        1,
        |s| s.temporal(TypeKind::Time, s.fraction(0)),
        change::sec_to_time,
    ),
    Function::pure("time_to_sec", 1, 1, |s| s.maybe_integer(10), change::time_to_sec),
    Function::pure("period_add", 2, 2, |s| s.integer(6), change::period_add),
    Function::pure("period_diff", 2, 2, |s| s.integer(6), change::period_diff),
    Function::pure(
        "convert_tz",
        3,
        3,
        |s| s.temporal(TypeKind::DateTime, s.fraction(0)),
        change::convert_tz,
    ),
    Function::pure("get_format", 2, 2, |s| s.maybe_ascii(17), format::get_format),
    Function::pure("date_format", 2, 2, format::format_type, format::date_format),
    Function::pure("time_format", 2, 2, format::format_type, format::time_format),
    Function::pure("str_to_date", 2, 2, parse::str_to_date_type, parse::str_to_date),
];

/// The units by the numbers that calls carry.
const UNITS: [IntervalUnit; 20] = [
    IntervalUnit::Microsecond,
    IntervalUnit::Second,
    IntervalUnit::Minute,
    IntervalUnit::Hour,
    IntervalUnit::Day,
    IntervalUnit::Week,
    IntervalUnit::Month,
    IntervalUnit::Quarter,
    IntervalUnit::Year,
    IntervalUnit::SecondMicrosecond,
    IntervalUnit::MinuteMicrosecond,
    IntervalUnit::MinuteSecond,
    IntervalUnit::HourMicrosecond,
    IntervalUnit::HourSecond,
    IntervalUnit::HourMinute,
    IntervalUnit::DayMicrosecond,
    IntervalUnit::DaySecond,
    IntervalUnit::DayMinute,
    IntervalUnit::DayHour,
    IntervalUnit::YearMonth,
];

/// The number by which a call carries a unit.
pub(crate) fn unit_number(unit: IntervalUnit) -> i64 {
    UNITS.iter().position(|known| *known == unit).map_or(0, |at| at as i64)
}

/// The unit of a number as a call has it; DAY if there is none.
pub(crate) fn unit_of(number: Option<i64>) -> IntervalUnit {
    let at = number.and_then(|number| usize::try_from(number).ok());
    at.and_then(|at| UNITS.get(at)).copied().unwrap_or(IntervalUnit::Day)
}

/// The unit that is a call's last argument.
fn unit(f: &Frame<'_, '_>) -> IntervalUnit {
    match f.argument(f.len() - 1).as_constant() {
        Some(Datum::Int(number)) => unit_of(Some(*number)),
        _ => IntervalUnit::Day,
    }
}

/// The time of the statement with the digits of a second that a constant says.
fn moment_type(s: &mut Signature<'_>, kind: TypeKind) -> Result<ResultType, SqlError> {
    let digits = if s.arguments.is_empty() {
        0
    } else {
        s.constant_integer(0).ok_or_else(|| SqlError::wrong_arguments(s.name))?
    };
    let digits = u8::try_from(digits).ok().filter(|digits| *digits <= 6);
    let wrong = || SqlError::of::<1426>(&[&s.constant_integer(0).unwrap_or(7), &s.name, &6]);
    let sql_type = SqlType { decimals: digits.ok_or_else(wrong)?, ..SqlType::new(kind, 0) };
    s.of(sql_type, false)
}

/// A temporal value as the type of a result has it: of a text the printed form.
fn result(f: &Frame<'_, '_>, moment: DateTime, date_only: bool) -> Evaluated {
    let sql_type = &f.result.sql_type;
    Ok(match sql_type.kind {
        TypeKind::Date => Datum::Date(moment.date),
        TypeKind::Time => Datum::Time(moment.time()),
        TypeKind::DateTime | TypeKind::Timestamp => Datum::DateTime(moment),
        _ if date_only => Datum::text(&moment.date.to_string()),
        _ => {
            let digits = if moment.micros > 0 { 6 } else { 0 };
            Datum::text(&moment.to_text(digits))
        }
    })
}

/// A span as the type of a result has it.
fn time_result(f: &Frame<'_, '_>, time: Time) -> Evaluated {
    if f.result.sql_type.kind == TypeKind::Time {
        return Ok(Datum::Time(time));
    }
    let digits = if time.micros % 1_000_000 != 0 { 6 } else { 0 };
    Ok(Datum::text(&time.to_text(digits)))
}

/// A constant beside a YEAR, where it was not known when the comparison was bound.
fn year_of_digits(f: &mut Frame<'_, '_>) -> Evaluated {
    let value = f.some(0)?.into_owned();
    Ok(match value {
        Datum::Int(number) => Datum::Int(comparison::year_of_digits(number).unwrap_or(number)),
        Datum::UInt(number) => {
            let year = i64::try_from(number).ok().and_then(comparison::year_of_digits);
            Datum::UInt(year.map_or(number, i64::unsigned_abs))
        }
        other => other,
    })
}

/// NULL with a warning, for a result beyond what there is.
fn overflow(f: &mut Frame<'_, '_>, kind: &str) -> Stop {
    match f.context.warn(SqlError::of::<1441>(&[&kind])) {
        Ok(()) => Stop::Null,
        Err(error) => Stop::Error(error),
    }
}
