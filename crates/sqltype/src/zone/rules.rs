//! One zone of the IANA database: past transitions, and the rule for the years after them.
//!
//! The compiled form is RFC 8536: a header with counts, 64-bit transition times, the kind of local
//! time after each, and at the end a rule as the POSIX variable `TZ` has it.

use crate::temporal::{Date, UNIX_DAY, days_of_month};

/// A named zone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rules {
    name: &'static str,
    /// Seconds east of UTC before the first transition.
    first: i32,
    /// Moments in order, and the offset from each on.
    transitions: Vec<(i64, i32)>,
    /// What holds after the last transition.
    after: Option<Yearly>,
}

/// A rule for every year: standard time, and perhaps summer time between two days.
#[derive(Debug, PartialEq, Eq)]
struct Yearly {
    standard: i32,
    summer: Option<Summer>,
}

#[derive(Debug, PartialEq, Eq)]
struct Summer {
    offset: i32,
    begins: Change,
    ends: Change,
}

/// A day of the year and the local time of it, in seconds, at which clocks change.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    day: Day,
    seconds: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum Day {
    /// From 1; 29 February is not counted.
    Counted(u16),
    /// From 0; 29 February is counted.
    FromZero(u16),
    /// Month, week of it (5 is the last), day of the week from Sunday.
    Weekday(u8, u8, u8),
}

const DAY_SECONDS: i64 = 86_400;

/// Reads big-endian numbers from the front of bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes) as usize)
    }
}

/// The counts of a header.
struct Header {
    utc_marks: usize,
    standard_marks: usize,
    leap_seconds: usize,
    times: usize,
    kinds: usize,
    names: usize,
}

impl Header {
    fn read(bytes: &mut Bytes<'_>) -> Option<Header> {
        if bytes.take(4)? != b"TZif" {
            return None;
        }
        bytes.take(16)?;
        Some(Header {
            utc_marks: bytes.u32()?,
            standard_marks: bytes.u32()?,
            leap_seconds: bytes.u32()?,
            times: bytes.u32()?,
            kinds: bytes.u32()?,
            names: bytes.u32()?,
        })
    }

    /// The size of what follows the header, with times of so many bytes.
    fn size(&self, time: usize) -> usize {
        let leap_seconds = self.leap_seconds * (time + 4);
        self.times * (time + 1) + self.kinds * 6 + self.names + leap_seconds + self.marks()
    }

    fn marks(&self) -> usize {
        self.standard_marks + self.utc_marks
    }
}

impl Rules {
    /// Reads a zone; `None` when the bytes are not one of version 2 or later.
    pub(super) fn read(name: &'static str, data: &[u8]) -> Option<Rules> {
        let mut bytes = Bytes(data);
        let header = Header::read(&mut bytes)?;
        bytes.take(header.size(4))?;
        let header = Header::read(&mut bytes)?;
        let times = bytes.take(8 * header.times)?;
        let kinds_of_times = bytes.take(header.times)?;
        let kinds = bytes.take(6 * header.kinds)?;
        bytes.take(header.names + header.leap_seconds * 12 + header.marks())?;
        let offset = |kind: usize| {
            let bytes = kinds.get(6 * kind..6 * kind + 4)?;
            Some(i32::from_be_bytes(bytes.try_into().ok()?))
        };
        let mut transitions = Vec::with_capacity(header.times);
        for (time, kind) in times.chunks_exact(8).zip(kinds_of_times) {
            let time = i64::from_be_bytes(time.try_into().ok()?);
            transitions.push((time, offset(usize::from(*kind))?));
        }
        let footer = bytes.0.strip_prefix(b"\n")?.strip_suffix(b"\n")?;
        let after = Yearly::read(std::str::from_utf8(footer).ok()?);
        Some(Rules { name, first: offset(0)?, transitions, after })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Seconds east of UTC at a moment.
    pub(super) fn offset_at(&self, seconds: i64) -> i32 {
        let next = self.transitions.partition_point(|(time, _)| *time <= seconds);
        match (&self.after, next.checked_sub(1)) {
            (Some(rule), _) if next == self.transitions.len() => rule.offset_at(seconds),
            (_, Some(last)) => self.transitions[last].1,
            (_, None) => self.first,
        }
    }

    /// The moment of a local time, both in seconds. An error is the moment at which clocks skip it.
    pub(super) fn moment(&self, local: i64) -> Result<i64, i64> {
        // Offsets are less than a day, and clocks change less than once in two days.
        let (early, late) = (local - DAY_SECONDS, local + DAY_SECONDS);
        let before = i64::from(self.offset_at(early));
        let after = i64::from(self.offset_at(late));
        for offset in [before.max(after), before.min(after)] {
            if i64::from(self.offset_at(local - offset)) == offset {
                return Ok(local - offset);
            }
        }
        // Skipped: find where the offset changes.
        let (mut low, mut high) = (early, late);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if i64::from(self.offset_at(middle)) == before { low = middle } else { high = middle }
        }
        Err(high)
    }
}

impl Yearly {
    /// Reads `CET-1CEST,M3.5.0,M10.5.0/3`.
    fn read(text: &str) -> Option<Yearly> {
        let text = skip_name(text)?;
        let (standard, text) = read_time(text)?;
        let standard = -(standard as i32);
        if text.is_empty() {
            return Some(Yearly { standard, summer: None });
        }
        let text = skip_name(text)?;
        let (offset, text) = if text.starts_with(',') {
            (standard + 3600, text)
        } else {
            read_time(text).map(|(offset, text)| (-(offset as i32), text))?
        };
        let (begins, ends) = text.strip_prefix(',')?.split_once(',')?;
        let (begins, ends) = (Change::read(begins)?, Change::read(ends)?);
        Some(Yearly { standard, summer: Some(Summer { offset, begins, ends }) })
    }

    fn offset_at(&self, seconds: i64) -> i32 {
        let Some(summer) = &self.summer else { return self.standard };
        let local = seconds + i64::from(self.standard);
        let Some(date) = Date::from_day_number(local.div_euclid(DAY_SECONDS) + UNIX_DAY) else {
            return self.standard;
        };
        // The summer of this year, or where it spans the turn of the year, the winter.
        let begins = summer.begins.local_seconds(date.year) - i64::from(self.standard);
        let ends = summer.ends.local_seconds(date.year) - i64::from(summer.offset);
        let is_summer = if begins < ends {
            (begins..ends).contains(&seconds)
        } else {
            !(ends..begins).contains(&seconds)
        };
        if is_summer { summer.offset } else { self.standard }
    }
}

impl Change {
    /// Reads `M3.5.0/2`, `J60` or `59`.
    fn read(text: &str) -> Option<Change> {
        let (day, time) = match text.split_once('/') {
            Some((day, time)) => (day, read_time(time).filter(|(_, rest)| rest.is_empty())?.0),
            None => (text, 2 * 3600),
        };
        let day = if let Some(rule) = day.strip_prefix('M') {
            let mut parts = rule.split('.').map(|part| part.parse::<u8>().ok());
            let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
            let valid = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
            valid.then_some(Day::Weekday(month, week, weekday))?
        } else if let Some(number) = day.strip_prefix('J') {
            Day::Counted(number.parse().ok()?)
        } else {
            Day::FromZero(day.parse().ok()?)
        };
        Some(Change { day, seconds: time })
    }

    /// The local time of the change in a year, in seconds since 1970.
    fn local_seconds(&self, year: u16) -> i64 {
        let new_year = Date { year, month: 1, day: 1 }.day_number();
        let day = match self.day {
            Day::FromZero(day) => new_year + i64::from(day),
            Day::Counted(day) => {
                let skipped = day >= 60 && days_of_month(year, 2) == 29;
                new_year + i64::from(day) - 1 + i64::from(skipped)
            }
            Day::Weekday(month, week, weekday) => {
                let first = Date { year, month, day: 1 };
                // Weekdays count from Monday there, from Sunday here.
                let first_weekday = (i64::from(first.weekday()) + 1) % 7;
                let to_first = (i64::from(weekday) - first_weekday).rem_euclid(7);
                let mut day = to_first + 7 * (i64::from(week) - 1);
                while day >= i64::from(days_of_month(year, month)) {
                    day -= 7;
                }
                first.day_number() + day
            }
        };
        (day - UNIX_DAY) * DAY_SECONDS + self.seconds
    }
}

/// What follows a name of letters, or of anything in angle brackets.
fn skip_name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(_, rest)| rest);
    }
    let rest = text.trim_start_matches(|char: char| char.is_ascii_alphabetic());
    (rest.len() < text.len()).then_some(rest)
}

/// Reads `[+-]hh[:mm[:ss]]` as seconds, with what follows.
fn read_time(text: &str) -> Option<(i64, &str)> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mut seconds, mut unit) = (0, 3600);
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        seconds += rest[..digits].parse::<i64>().ok()? * unit;
        rest = &rest[digits..];
        match rest.strip_prefix(':') {
            Some(next) if unit > 1 => (rest, unit) = (next, unit / 60),
            _ => return Some((sign * seconds, rest)),
        }
    }
}
