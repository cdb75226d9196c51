//! Reading temporal values from text and numbers, in every form MySQL takes.

use super::{Date, DateTime, SECOND, Time};

/// What a text was read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The value.
    pub value: T,
    /// Digits of a second that were written; more than six have been rounded.
    pub digits: u8,
    /// A date only: no time was written.
    pub date_only: bool,
    /// Minutes east of UTC, when written.
    pub offset: Option<i32>,
    /// Something that belongs to no temporal value follows.
    pub garbage: bool,
}

/// Reads digits and punctuation one after the other.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_spaces(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > start
    }

    /// At most `most` digits, as a number with their count; none when there is no digit.
    fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let (mut value, start) = (0u32, self.at);
        while self.at - start < most && self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            value = value.checked_mul(10)?.checked_add(u32::from(self.text[self.at] - b'0'))?;
            self.at += 1;
        }
        (self.at > start).then_some((value, self.at - start))
    }

    /// One or more characters of punctuation.
    fn punctuation(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_punctuation()) {
            self.at += 1;
        }
        self.at > start
    }

    fn byte(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// What follows a point: microseconds, rounded from all digits, and how many there were. The
    /// microseconds may be a whole second.
    fn fraction(&mut self) -> (u32, u8) {
        let (mut micros, mut count, mut up) = (0, 0u32, false);
        while let Some(byte) = self.peek().filter(u8::is_ascii_digit) {
            match count {
                0..6 => micros = micros * 10 + u32::from(byte - b'0'),
                6 => up = byte >= b'5',
                _ => {}
            }
            count = (count + 1).min(100);
            self.at += 1;
        }
        let micros = micros * 10u32.pow(6 - count.min(6)) + u32::from(up);
        (micros, count.min(6) as u8)
    }

    /// `+hh:mm` or `-hh:mm`.
    fn offset(&mut self) -> Option<i32> {
        let sign = match self.peek()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let start = self.at;
        self.at += 1;
        let minutes = (|| {
            let (hours, 1..=2) = self.digits(2)? else { return None };
            let (minutes, 2) = self.byte(b':').then(|| self.digits(2))?? else { return None };
            let total = hours * 60 + minutes;
            (minutes < 60 && total <= 14 * 60).then_some(sign * total as i32)
        })();
        if minutes.is_none() {
            self.at = start;
        }
        minutes
    }
}

/// Years of exactly two digits are in 1970 to 2069.
fn full_year(year: u32, digits: usize) -> u32 {
    match year {
        _ if digits != 2 => year,
        0..70 => 2000 + year,
        _ => 1900 + year,
    }
}

/// Reads a date with or without time. `None` when no valid one stands at the beginning.
pub fn parse_date_time(text: &[u8]) -> Option<Parsed<DateTime>> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_spaces();
    let run = text[reader.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let delimited = run <= 4 && text.get(reader.at + run).is_some_and(u8::is_ascii_punctuation);
    if delimited { delimited_date_time(reader) } else { compact_date_time(reader, run) }
}

/// `2024-05-06 07:08:09.123+02:00` and all its relatives.
fn delimited_date_time(mut reader: Reader<'_>) -> Option<Parsed<DateTime>> {
    let (year, year_digits) = reader.digits(4)?;
    reader.punctuation();
    let (month, _) = reader.digits(2)?;
    let mut parsed = Parsed {
        value: DateTime::default(),
        digits: 0,
        date_only: true,
        offset: None,
        garbage: false,
    };
    if !reader.punctuation() {
        return None;
    }
    let (day, _) = reader.digits(2)?;
    // All zero is the zero date, however short the year.
    let is_zero = year == 0 && month == 0 && day == 0;
    let year = if is_zero { 0 } else { full_year(year, year_digits) };
    parsed.value.date = date(year, month, day)?;
    let before_time = reader.at;
    let separated = reader.byte(b'T') || reader.skip_spaces() | reader.punctuation();
    let hour = if separated { reader.digits(2) } else { None };
    let Some((hour, _)) = hour else {
        reader.at = before_time;
        return Some(ended(reader, parsed));
    };
    let (mut minute, mut second, mut micros) = (0, 0, 0);
    if reader.punctuation() {
        (minute, _) = reader.digits(2)?;
        if reader.peek() != Some(b'+') && reader.peek() != Some(b'-') && reader.punctuation() {
            (second, _) = reader.digits(2)?;
            if reader.byte(b'.') {
                (micros, parsed.digits) = reader.fraction();
            }
        }
    }
    parsed.date_only = false;
    parsed.value = with_time(parsed.value.date, hour, minute, second, micros)?;
    parsed.offset = reader.offset();
    Some(ended(reader, parsed))
}

/// `20240506070809`, `240506`, `20240506T070809`, and with a fraction behind.
fn compact_date_time(mut reader: Reader<'_>, run: usize) -> Option<Parsed<DateTime>> {
    let year_digits = match run {
        8 | 14.. => 4,
        5.. => 2,
        _ => return None,
    };
    let (year, _) = reader.digits(year_digits)?;
    let mut next = || reader.digits(2).map_or(0, |(value, _)| value);
    // What is missing at the end is zero.
    let (month, day) = (next(), next());
    reader.byte(b'T');
    let mut next = || reader.digits(2);
    let (hour, minute, second) = (next(), next(), next());
    let mut parsed = Parsed {
        value: DateTime::default(),
        digits: 0,
        date_only: hour.is_none(),
        offset: None,
        garbage: false,
    };
    let mut micros = 0;
    if second.is_some() && reader.byte(b'.') {
        (micros, parsed.digits) = reader.fraction();
    }
    let part = |found: Option<(u32, usize)>| found.map_or(0, |(value, _)| value);
    let day = date(full_year(year, year_digits), month, day)?;
    parsed.value = with_time(day, part(hour), part(minute), part(second), micros)?;
    // Digits beyond the seconds are dropped; anything else makes it no number at all.
    reader.digits(usize::MAX);
    Some(ended(reader, parsed)).filter(|parsed| !parsed.garbage)
}

fn ended<T>(mut reader: Reader<'_>, mut parsed: Parsed<T>) -> Parsed<T> {
    reader.skip_spaces();
    parsed.garbage = reader.at < reader.text.len();
    parsed
}

fn date(year: u32, month: u32, day: u32) -> Option<Date> {
    Date::new(u16::try_from(year).ok()?, u8::try_from(month).ok()?, u8::try_from(day).ok()?)
}

/// A time of day behind a date; microseconds of a whole second carry over.
fn with_time(date: Date, hour: u32, minute: u32, second: u32, micros: u32) -> Option<DateTime> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (hour, minute, second) = (hour as u8, minute as u8, second as u8);
    let at = DateTime { date, hour, minute, second, micros: 0 };
    if i64::from(micros) < SECOND {
        return Some(DateTime { micros, ..at });
    }
    if date.has_zero_part() { None } else { at.add_micros(micros.into()) }
}

/// Reads a span of time: `-1 10:11:12.5`, `10:11`, `101112`, or the time of a date with time.
/// Spans out of range are not cut: `None`.
pub fn parse_time(text: &[u8]) -> Option<Parsed<Time>> {
    parse_time_clamped(text).and_then(|(parsed, is_cut)| (!is_cut).then_some(parsed))
}

/// As [`parse_time`], but a span out of range is cut to it; says whether it was.
pub fn parse_time_clamped(text: &[u8]) -> Option<(Parsed<Time>, bool)> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_spaces();
    let negative = reader.byte(b'-');
    // Text of a date with time gives its time; when the date is none, nothing.
    if !negative && text.len() >= 12 && looks_like_date(&text[reader.at..]) {
        let at = parse_date_time(&text[reader.at..])?;
        if !at.date_only {
            let (digits, offset, garbage) = (at.digits, at.offset, at.garbage);
            let value = at.value.time();
            return Some((Parsed { value, digits, date_only: false, offset, garbage }, false));
        }
    }
    let (first, _) = reader.digits(10)?;
    let mut parsed = Parsed {
        value: Time::default(),
        digits: 0,
        date_only: false,
        offset: None,
        garbage: false,
    };
    let start = reader.at;
    let (hours, minutes, seconds);
    if reader.byte(b':') {
        (hours, minutes) = (first, reader.digits(2)?.0);
        seconds = if reader.byte(b':') { reader.digits(2)?.0 } else { 0 };
    } else if reader.skip_spaces()
        && reader.peek().is_some_and(|byte| byte.is_ascii_digit())
        && reader.at + 1 < text.len()
    {
        let (of_day, _) = reader.digits(2)?;
        hours = first.checked_mul(24)?.checked_add(of_day)?;
        minutes = if reader.byte(b':') { reader.digits(2)?.0 } else { 0 };
        seconds = if reader.byte(b':') { reader.digits(2)?.0 } else { 0 };
    } else {
        reader.at = start;
        (hours, minutes, seconds) = (first / 10_000, first / 100 % 100, first % 100);
    }
    let mut micros = 0;
    if reader.byte(b'.') {
        (micros, parsed.digits) = reader.fraction();
    }
    if has_exponent(&text[reader.at..]) {
        return None;
    }
    let is_cut;
    (parsed.value, is_cut) = span(negative, hours, minutes, seconds, micros)?;
    Some((ended(reader, parsed), is_cut))
}

/// Whether an exponent follows: a number in that form is no span of time.
fn has_exponent(text: &[u8]) -> bool {
    match text {
        [b'e' | b'E', b'-' | b'+', digit, ..] | [b'e' | b'E', digit, ..] => digit.is_ascii_digit(),
        _ => false,
    }
}

/// A run of twelve or fourteen digits, a day and a `T`, or a delimiter after a year.
fn looks_like_date(text: &[u8]) -> bool {
    let run = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_day = run == 8 && text.get(8) == Some(&b'T');
    matches!(run, 12 | 14) || is_day || text.get(run).is_some_and(|byte| b"-/".contains(byte))
}

/// The span of these parts, cut to the range, and whether that was necessary.
fn span(
    negative: bool,
    hours: u32,
    minutes: u32,
    seconds: u32,
    micros: u32,
) -> Option<(Time, bool)> {
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let whole = i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
    let total = (whole * SECOND + i64::from(micros)) * if negative { -1 } else { 1 };
    let cut = Time::clamped(total);
    Some((cut, cut.micros != total))
}

/// The date that a number stands for: `YYMMDD`, `YYYYMMDD`, `YYMMDDhhmmss`, `YYYYMMDDhhmmss`;
/// whether it has no time. Zero is the zero date.
pub fn date_time_of_number(number: i64) -> Option<(DateTime, bool)> {
    if number == 0 {
        return Some((DateTime::default(), true));
    }
    let date_of = |number: i64| {
        let year = match number / 10_000 {
            year @ 0..70 => 2000 + year,
            year @ 70..100 => 1900 + year,
            year => year,
        };
        date(u32::try_from(year).ok()?, (number / 100 % 100) as u32, (number % 100) as u32)
    };
    match number {
        101..=691_231 | 700_101..=991_231 | 10_000_101..=99_991_231 => {
            Some((DateTime::midnight(date_of(number)?), true))
        }
        101_000_000..=99_991_231_235_959 => {
            let (day, time) = (number / 1_000_000, number % 1_000_000);
            let (hour, minute, second) = (time / 10_000, time / 100 % 100, time % 100);
            let at = with_time(date_of(day)?, hour as u32, minute as u32, second as u32, 0)?;
            Some((at, false))
        }
        _ => None,
    }
}

/// The span that a number stands for: `hhmmss`, or a date with time. `None` when it is out of
/// range.
pub fn time_of_number(number: i64) -> Option<Time> {
    time_of_number_clamped(number).and_then(|(time, is_cut)| (!is_cut).then_some(time))
}

/// As [`time_of_number`], but a span out of range is cut to it; says whether it was.
pub fn time_of_number_clamped(number: i64) -> Option<(Time, bool)> {
    if number >= 10_000_000_000 {
        return date_time_of_number(number).map(|(at, _)| (at.time(), false));
    }
    let digits = u32::try_from(number.unsigned_abs()).unwrap_or(u32::MAX);
    span(number < 0, digits / 10_000, digits / 100 % 100, digits % 100, 0)
}
