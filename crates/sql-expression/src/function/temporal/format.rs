//! DATE_FORMAT, TIME_FORMAT, GET_FORMAT.

use std::fmt::Write;

use sqltype::temporal::{Date, Time};

use super::part::{name_of_day, name_of_month};
use crate::error::SqlError;
use crate::function::frame::string;
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::ResultType;

/// As long as the formatted text can be: each `%x` becomes at most so many characters.
pub(super) fn format_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let length = s.length(1).saturating_mul(10);
    s.maybe_ascii(u32::try_from(length).unwrap_or(u32::MAX))
}

pub(super) fn date_format(f: &mut Frame<'_, '_>) -> Evaluated {
    let moment = f.loose_date_time(0)?;
    let pattern = f.string(1)?;
    string(formatted(&pattern, Some(moment.date), moment.time()).ok_or(Stop::Null)?)
}

pub(super) fn time_format(f: &mut Frame<'_, '_>) -> Evaluated {
    let time = f.time(0)?;
    let pattern = f.string(1)?;
    let text = formatted(&pattern, None, time).ok_or(Stop::Null)?;
    let sign = if time.is_negative() { "-" } else { "" };
    string(format!("{sign}{text}"))
}

/// The text of a date and a time; `None` when it needs what is not there: a date, or the name of a
/// month or day that is zero.
pub(super) fn formatted(pattern: &str, date: Option<Date>, time: Time) -> Option<String> {
    let mut out = String::with_capacity(2 * pattern.len());
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some(letter) => push_part(&mut out, letter, date, time)?,
            None => out.push('%'),
        }
    }
    Some(out)
}

fn push_part(out: &mut String, letter: char, date: Option<Date>, time: Time) -> Option<()> {
    if "HhIiklprSsTf%".contains(letter) || !letter.is_ascii_alphabetic() {
        return push_time(out, letter, time);
    }
    push_date(out, letter, date?)
}

fn push_time(out: &mut String, letter: char, time: Time) -> Option<()> {
    let (hours, minutes, seconds, micros) = time.parts();
    let twelve = (hours % 24 + 11) % 12 + 1;
    let half = if hours % 24 < 12 { "AM" } else { "PM" };
    let written = match letter {
        'f' => write!(out, "{micros:06}"),
        'H' => write!(out, "{hours:02}"),
        'h' | 'I' => write!(out, "{twelve:02}"),
        'i' => write!(out, "{minutes:02}"),
        'k' => write!(out, "{hours}"),
        'l' => write!(out, "{twelve}"),
        'p' => out.write_str(half),
        'r' => write!(out, "{twelve:02}:{minutes:02}:{seconds:02} {half}"),
        'S' | 's' => write!(out, "{seconds:02}"),
        'T' => write!(out, "{hours:02}:{minutes:02}:{seconds:02}"),
        other => out.write_char(other),
    };
    written.ok()
}

fn push_date(out: &mut String, letter: char, date: Date) -> Option<()> {
    let day_name = || {
        let has_name = date.month > 0 || date.year > 0;
        has_name.then(|| name_of_day(date.weekday()))
    };
    let written = match letter {
        'a' => out.write_str(&day_name()?[..3]),
        'b' => out.write_str(&name_of_month(date.month)?[..3]),
        'c' => write!(out, "{}", date.month),
        'D' => write!(out, "{}{}", date.day, ordinal(date.day)),
        'd' => write!(out, "{:02}", date.day),
        'e' => write!(out, "{}", date.day),
        'j' => write!(out, "{:03}", date.day_of_year()),
        'M' => out.write_str(name_of_month(date.month)?),
        'm' => write!(out, "{:02}", date.month),
        'U' => write!(out, "{:02}", date.week(0).1),
        'u' => write!(out, "{:02}", date.week(1).1),
        'V' => write!(out, "{:02}", date.week(2).1),
        'v' => write!(out, "{:02}", date.week(3).1),
        'W' => out.write_str(day_name()?),
        'w' => {
            day_name()?;
            write!(out, "{}", (date.weekday() + 1) % 7)
        }
        'X' => write!(out, "{:04}", date.week(2).0),
        'x' => write!(out, "{:04}", date.week(3).0),
        'Y' => write!(out, "{:04}", date.year),
        'y' => write!(out, "{:02}", date.year % 100),
        other => out.write_char(other),
    };
    written.ok()
}

/// The ending of a number in a row.
fn ordinal(day: u8) -> &'static str {
    match (day / 10, day % 10) {
        (1, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

pub(super) fn get_format(f: &mut Frame<'_, '_>) -> Evaluated {
    let (kind, locale) = (f.string(0)?, f.string(1)?);
    let format = match (&*kind, locale.to_ascii_uppercase().as_str()) {
        ("date", "USA") => "%m.%d.%Y",
        ("date", "JIS" | "ISO") => "%Y-%m-%d",
        ("date", "EUR") => "%d.%m.%Y",
        ("date", "INTERNAL") => "%Y%m%d",
        ("datetime", "USA" | "EUR") => "%Y-%m-%d %H.%i.%s",
        ("datetime", "JIS" | "ISO") => "%Y-%m-%d %H:%i:%s",
        ("datetime", "INTERNAL") => "%Y%m%d%H%i%s",
        ("time", "USA") => "%h:%i:%s %p",
        ("time", "JIS" | "ISO") => "%H:%i:%s",
        ("time", "EUR") => "%H.%i.%s",
        ("time", "INTERNAL") => "%H%i%s",
        _ => return Err(Stop::Null),
    };
    string(format.to_owned())
}
