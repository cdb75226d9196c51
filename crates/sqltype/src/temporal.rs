//! Dates and times, MySQL's zero dates included.
//!
//! # Owns
//! The three kinds of temporal values: reading every form of text and number MySQL takes,
//! printing, rounding, day arithmetic on the proleptic Gregorian calendar, weeks in all eight
//! modes.
//! # Guarantees
//! No input panics; what is out of MySQL's range is `None`.
//! # Not here
//! Which SQL modes allow zero dates (`store`), formats (`sql-expression`), named time zones
//! (`zone`).

mod interval;
mod parse;

use std::fmt;

use stdx::calendar;

pub use interval::{
    Interval, IntervalUnit, add_period, make_date, months_of_period, period_of_months,
};
pub use parse::{
    Parsed, date_time_of_number, parse_date_time, parse_time, parse_time_clamped, time_of_number,
    time_of_number_clamped,
};

/// A day. Month and day may be zero where the SQL mode allows it; all zero is `0000-00-00`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// A day and a time of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micros: u32,
}

/// A span of time from -838:59:59 to 838:59:59, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Microseconds, negative before zero.
    pub micros: i64,
}

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a day.
pub const DAY: i64 = 86_400 * SECOND;
/// The day number of 1970-01-01, where 0000-01-01 is day 1.
pub(crate) const UNIX_DAY: i64 = 719_528;

/// Days of a month; 0 for no month.
pub fn days_of_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        1..=12 => 31,
        _ => 0,
    }
}

fn is_leap(year: u16) -> bool {
    year != 0 && year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

impl Date {
    /// A date of the calendar, or one with zero parts; `None` for others.
    pub fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let last = if month == 0 { 31 } else { days_of_month(year, month) };
        (year <= 9999 && month <= 12 && day <= last).then_some(Self { year, month, day })
    }

    /// Whether it is `0000-00-00`.
    pub fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Whether month or day is zero: no day of the calendar.
    pub fn has_zero_part(self) -> bool {
        self.month == 0 || self.day == 0
    }

    /// TO_DAYS: 0001-01-01 is day 366, 0000-01-01 day 1, as year 0 has no 29 February. A month or
    /// day of zero counts as one before the first.
    pub fn day_number(self) -> i64 {
        let (year, month, day) = (i64::from(self.year), i64::from(self.month), i64::from(self.day));
        let before_leap_day = i64::from(year == 0 && month <= 2);
        calendar::day_of(year, month, day) + UNIX_DAY + before_leap_day
    }

    /// FROM_DAYS: the day with this number; `None` outside the years 0 to 9999.
    pub fn from_day_number(number: i64) -> Option<Self> {
        if !(366..=3_652_424).contains(&number) {
            return None;
        }
        // From here the calendar is regular.
        let (year, month, day) = calendar::date_of(number - UNIX_DAY);
        Some(Self { year: u16::try_from(year).ok()?, month: month as u8, day: day as u8 })
    }

    /// WEEKDAY: 0 for Monday.
    pub fn weekday(self) -> u8 {
        (self.day_number() + 5).rem_euclid(7) as u8
    }

    /// DAYOFYEAR, from 1.
    pub fn day_of_year(self) -> u16 {
        let first = Self { month: 1, day: 1, ..self };
        (self.day_number() - first.day_number() + 1) as u16
    }

    /// WEEK in one of MySQL's modes 0 to 7, with the year the week belongs to. Bit 0: weeks begin
    /// on Monday. Bit 1: days before week 1 count to the year before, days after the last week to
    /// the next. Bit 2, inverted without bit 0: week 1 is the first that begins in the year,
    /// otherwise the first with four days in it.
    pub fn week(self, mode: u8) -> (u16, u8) {
        let monday_first = mode & 1 != 0;
        let begins_in_year = (mode & 4 != 0) == monday_first;
        let day = self.day_number();
        let start = |year: u16| first_week(year, monday_first, begins_in_year);
        let week = |year: u16| ((day - start(year)) / 7 + 1) as u8;
        if day < start(self.year) {
            return match self.year.checked_sub(1) {
                Some(before) if mode & 2 != 0 => (before, week(before)),
                _ => (self.year, 0),
            };
        }
        if mode & 2 != 0 && day >= start(self.year + 1) {
            return (self.year + 1, 1);
        }
        (self.year, week(self.year))
    }

    /// The last day of its month; `None` when it has no month.
    pub fn last_day(self) -> Option<Self> {
        let day = days_of_month(self.year, self.month);
        (day > 0).then_some(Self { day, ..self })
    }

    /// The date so many months later, on the last day of the month when that is shorter.
    pub fn add_months(self, months: i64) -> Option<Self> {
        let total = (i64::from(self.year) * 12 + i64::from(self.month) - 1).checked_add(months)?;
        let year = u16::try_from(total.div_euclid(12)).ok().filter(|year| *year <= 9999)?;
        let month = (total.rem_euclid(12) + 1) as u8;
        Some(Self { year, month, day: self.day.min(days_of_month(year, month)) })
    }

    /// The number `YYYYMMDD`.
    pub fn to_number(self) -> i64 {
        i64::from(self.year) * 10_000 + i64::from(self.month) * 100 + i64::from(self.day)
    }
}

/// The day number on which week 1 of a year begins.
fn first_week(year: u16, monday_first: bool, begins_in_year: bool) -> i64 {
    let new_year = Date { year, month: 1, day: 1 };
    let weekday = (i64::from(new_year.weekday()) + i64::from(!monday_first)) % 7;
    let back = if begins_in_year { weekday == 0 } else { weekday < 4 };
    new_year.day_number() - weekday + if back { 0 } else { 7 }
}

impl DateTime {
    /// Midnight of a day.
    pub fn midnight(date: Date) -> Self {
        Self { date, ..Self::default() }
    }

    /// Its time of day.
    pub fn time(self) -> Time {
        Time { micros: self.micros_of_day() }
    }

    fn micros_of_day(self) -> i64 {
        let seconds =
            i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        seconds * SECOND + i64::from(self.micros)
    }

    /// Microseconds since the beginning of day number 0.
    pub fn total_micros(self) -> i64 {
        self.date.day_number() * DAY + self.micros_of_day()
    }

    /// The reverse of [`DateTime::total_micros`]; `None` outside the years 0 to 9999.
    pub fn from_total_micros(total: i64) -> Option<Self> {
        let date = Date::from_day_number(total.div_euclid(DAY))?;
        let rest = total.rem_euclid(DAY);
        let seconds = rest / SECOND;
        Some(Self {
            date,
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            micros: (rest % SECOND) as u32,
        })
    }

    /// The moment so many microseconds later.
    pub fn add_micros(self, micros: i64) -> Option<Self> {
        Self::from_total_micros(self.total_micros().checked_add(micros)?)
    }

    /// Microseconds since 1970, taken as UTC; `None` for dates that are none.
    pub fn unix_micros(self) -> Option<i64> {
        let real = !self.date.has_zero_part();
        real.then(|| self.total_micros() - UNIX_DAY * DAY)
    }

    /// The moment so many microseconds after 1970, in UTC; the nearest within the years 0 to 9999.
    pub fn from_unix_micros(micros: i64) -> Self {
        let total = micros.saturating_add(UNIX_DAY * DAY);
        let (first, last) = (366 * DAY, 3_652_425 * DAY - 1);
        Self::from_total_micros(total.clamp(first, last)).unwrap_or_default()
    }

    /// Rounds half up to `digits` of a second; `None` when that leaves the calendar.
    pub fn round(self, digits: u8) -> Option<Self> {
        let step = step_of(digits);
        let rounded = (i64::from(self.micros) + step / 2) / step * step;
        if rounded < SECOND {
            return Some(Self { micros: rounded as u32, ..self });
        }
        if self.date.has_zero_part() {
            return None;
        }
        Self { micros: 0, ..self }.add_micros(SECOND)
    }

    /// Cuts to `digits` of a second.
    pub fn truncate(self, digits: u8) -> Self {
        let step = step_of(digits) as u32;
        Self { micros: self.micros / step * step, ..self }
    }

    /// The number `YYYYMMDDhhmmss`.
    pub fn to_number(self) -> i64 {
        let time =
            i64::from(self.hour) * 10_000 + i64::from(self.minute) * 100 + i64::from(self.second);
        self.date.to_number() * 1_000_000 + time
    }

    /// Text with `digits` of a second.
    pub fn to_text(self, digits: u8) -> String {
        let Self { date, hour, minute, second, micros } = self;
        let mut text = format!("{date} {hour:02}:{minute:02}:{second:02}");
        push_fraction(&mut text, micros, digits);
        text
    }
}

/// Microseconds of the last of `digits` digits of a second.
fn step_of(digits: u8) -> i64 {
    10i64.pow(6 - u32::from(digits.min(6)))
}

fn push_fraction(text: &mut String, micros: u32, digits: u8) {
    if digits > 0 {
        let all = format!("{micros:06}");
        text.push('.');
        text.push_str(&all[..usize::from(digits.min(6))]);
    }
}

impl Time {
    /// 838:59:59, the largest.
    pub const MAX: Self = Self { micros: (838 * 3600 + 59 * 60 + 59) * SECOND };

    /// A span of these parts; `None` when it is out of range.
    pub fn new(negative: bool, hours: u32, minutes: u8, seconds: u8, micros: u32) -> Option<Self> {
        let whole = i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
        let micros = whole * SECOND + i64::from(micros);
        let time = Self { micros: if negative { -micros } else { micros } };
        (time.micros.abs() <= Self::MAX.micros).then_some(time)
    }

    /// The nearest span within the range.
    pub fn clamped(micros: i64) -> Self {
        Self { micros: micros.clamp(-Self::MAX.micros, Self::MAX.micros) }
    }

    /// Whether it is before zero.
    pub fn is_negative(self) -> bool {
        self.micros < 0
    }

    /// Hours, minutes, seconds and microseconds without sign.
    pub fn parts(self) -> (u32, u8, u8, u32) {
        let micros = self.micros.unsigned_abs();
        let seconds = micros / SECOND as u64;
        let (hours, minutes) = ((seconds / 3600) as u32, (seconds / 60 % 60) as u8);
        (hours, minutes, (seconds % 60) as u8, (micros % SECOND as u64) as u32)
    }

    /// Rounds half away from zero to `digits` of a second, within the range.
    pub fn round(self, digits: u8) -> Self {
        let step = step_of(digits);
        let rounded = (self.micros.abs() + step / 2) / step * step;
        Self::clamped(rounded * self.micros.signum())
    }

    /// Cuts to `digits` of a second.
    pub fn truncate(self, digits: u8) -> Self {
        let step = step_of(digits);
        Self { micros: self.micros / step * step }
    }

    /// The number `hhmmss`, with sign.
    pub fn to_number(self) -> i64 {
        let (hours, minutes, seconds, _) = self.parts();
        let number = i64::from(hours) * 10_000 + i64::from(minutes) * 100 + i64::from(seconds);
        if self.is_negative() { -number } else { number }
    }

    /// Text with `digits` of a second.
    pub fn to_text(self, digits: u8) -> String {
        let (hours, minutes, seconds, micros) = self.parts();
        let sign = if self.is_negative() { "-" } else { "" };
        let mut text = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
        push_fraction(&mut text, micros, digits);
        text
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests;
