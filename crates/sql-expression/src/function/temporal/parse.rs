//! STR_TO_DATE: text read by a format.

use sqltype::temporal::{Date, DateTime, Time, days_of_month};
use sqltype::{Datum, TypeKind};

use super::part::{names, read_name};
use crate::error::SqlError;
use crate::function::{Evaluated, Frame, Signature, Stop};
use crate::result_type::ResultType;

/// A constant format tells whether there is a date, a time, or both.
pub(super) fn str_to_date_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    let Some(Datum::Bytes(pattern)) = s.arguments[1].as_constant() else {
        return s.temporal(TypeKind::DateTime, 6);
    };
    let letters: Vec<u8> =
        pattern.windows(2).filter(|pair| pair[0] == b'%').map(|pair| pair[1]).collect();
    let has = |known: &[u8]| letters.iter().any(|letter| known.contains(letter));
    let digits = if has(b"f") { 6 } else { 0 };
    match (has(b"aAbcDdejMmUuVvWwXxYy"), has(b"fHhIiklprSsT")) {
        (true, false) => s.temporal(TypeKind::Date, 0),
        (false, true) => s.temporal(TypeKind::Time, digits),
        _ => s.temporal(TypeKind::DateTime, digits),
    }
}

pub(super) fn str_to_date(f: &mut Frame<'_, '_>) -> Evaluated {
    let (text, pattern) = (f.text(0)?, f.text(1)?);
    let read = Reader::new(&text).read(&pattern);
    let Some(read) = read else {
        let shown = sqltype::printable(&text);
        let warning = SqlError::incorrect_for_function("datetime", shown, "str_to_date");
        f.context.warn(warning)?;
        return Err(Stop::Null);
    };
    let date = Date { year: read.year, month: read.month, day: read.day };
    if read.garbage {
        let kind = match f.result.sql_type.kind {
            TypeKind::Date => "date",
            TypeKind::Time => "time",
            _ => "datetime",
        };
        let warning = SqlError::truncated_value(kind, sqltype::printable(&text));
        f.context.warn(warning)?;
    }
    let is_time = f.result.sql_type.kind == TypeKind::Time;
    if !is_time && f.context.facts.store_mode().refuses(date) {
        let shown = sqltype::printable(&text);
        let warning = SqlError::incorrect_for_function("datetime", shown, "str_to_date");
        f.context.warn(warning)?;
        return Err(Stop::Null);
    }
    let moment = DateTime {
        date,
        hour: read.hour.min(255) as u8,
        minute: read.minute,
        second: read.second,
        micros: read.micros,
    };
    Ok(match f.result.sql_type.kind {
        TypeKind::Date => Datum::Date(date),
        TypeKind::Time => {
            let time = Time::new(false, read.hour, read.minute, read.second, read.micros);
            Datum::Time(time.ok_or(Stop::Null)?)
        }
        _ => Datum::DateTime(moment),
    })
}

/// What has been read so far.
#[derive(Default)]
struct Parts {
    year: u16,
    month: u8,
    day: u8,
    hour: u32,
    minute: u8,
    second: u8,
    micros: u32,
    afternoon: Option<bool>,
    weekday: Option<u8>,
    day_of_year: Option<u32>,
    /// Week number, whether weeks begin on Sunday, whether counted by the year of the week.
    week: Option<(u32, bool, bool)>,
    week_year: Option<u32>,
    /// Something follows the last part.
    garbage: bool,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    parts: Parts,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, parts: Parts::default() }
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// A number of at most so many digits.
    fn number(&mut self, most: usize) -> Option<u32> {
        let count = self.rest().iter().take(most).take_while(|b| b.is_ascii_digit()).count();
        let digits = std::str::from_utf8(&self.rest()[..count]).ok()?;
        self.at += count;
        digits.parse().ok()
    }

    fn read(mut self, pattern: &[u8]) -> Option<Parts> {
        let mut pattern = pattern.iter().copied();
        while let Some(byte) = pattern.next() {
            // White space in the text is skipped wherever something else is wanted.
            if byte != b' ' {
                self.skip_spaces();
            }
            if byte == b'%' {
                let letter = pattern.next()?;
                if self.rest().is_empty() {
                    break;
                }
                self.part(letter)?;
            } else if byte.is_ascii_whitespace() {
                self.skip_spaces();
            } else {
                match self.rest().first() {
                    Some(found) if *found == byte => self.at += 1,
                    Some(_) => return None,
                    None => break,
                }
            }
        }
        self.skip_spaces();
        self.parts.garbage = !self.rest().is_empty();
        self.finish()
    }

    fn part(&mut self, letter: u8) -> Option<()> {
        let (months, days) = names();
        match letter {
            b'Y' => {
                let before = self.at;
                let year = self.number(4)?;
                self.parts.year = match self.at - before {
                    1..=2 => full_year(year),
                    _ => year as u16,
                };
            }
            b'y' => self.parts.year = full_year(self.number(2)?),
            b'm' | b'c' => self.parts.month = self.number(2)? as u8,
            b'M' => self.parts.month = self.name(months, false)? as u8 + 1,
            b'b' => self.parts.month = self.name(months, true)? as u8 + 1,
            b'd' | b'e' => self.parts.day = self.number(2)? as u8,
            b'D' => {
                self.parts.day = self.number(2)? as u8;
                self.at += self.rest().len().min(2);
            }
            b'W' => self.parts.weekday = Some(self.name(days, false)? as u8),
            b'a' => self.parts.weekday = Some(self.name(days, true)? as u8),
            b'w' => {
                let number = self.number(1).filter(|number| *number < 7)?;
                self.parts.weekday = Some(((number + 6) % 7) as u8);
            }
            b'j' => self.parts.day_of_year = Some(self.number(3)?),
            b'U' | b'u' | b'V' | b'v' => {
                let number = self.number(2).filter(|number| *number <= 53)?;
                let by_week_year = letter.eq_ignore_ascii_case(&b'v');
                self.parts.week = Some((number, letter.is_ascii_uppercase(), by_week_year));
            }
            b'X' | b'x' => self.parts.week_year = Some(self.number(4)?),
            b'%' => {
                (self.rest().first() == Some(&b'%')).then_some(())?;
                self.at += 1;
            }
            b'.' => self.skip(|byte| byte.is_ascii_punctuation()),
            b'@' => self.skip(|byte| byte.is_ascii_alphabetic()),
            b'#' => self.skip(|byte| byte.is_ascii_digit()),
            _ => return self.time_part(letter),
        }
        Some(())
    }

    fn time_part(&mut self, letter: u8) -> Option<()> {
        match letter {
            b'H' | b'k' => self.parts.hour = self.number(2)?,
            b'h' | b'I' | b'l' => {
                self.parts.hour = self.number(2)?;
                self.parts.afternoon.get_or_insert(false);
                if !(1..=12).contains(&self.parts.hour) {
                    return None;
                }
            }
            b'i' => self.parts.minute = self.number(2)? as u8,
            b's' | b'S' => self.parts.second = self.number(2)? as u8,
            b'f' => {
                let before = self.at;
                let number = self.number(6)?;
                self.parts.micros = number * 10u32.pow(6 - (self.at - before) as u32);
            }
            b'p' => {
                let word = self.rest().get(..2)?;
                self.parts.afternoon = Some(match word.to_ascii_uppercase().as_slice() {
                    b"AM" => false,
                    b"PM" => true,
                    _ => return None,
                });
                self.at += 2;
            }
            b'T' => {
                for letter in *b"H:i:s" {
                    self.compound(letter)?;
                }
            }
            b'r' => {
                for letter in *b"h:i:s p" {
                    self.compound(letter)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// A letter of a part, or the mark between two.
    fn compound(&mut self, letter: u8) -> Option<()> {
        self.skip_spaces();
        match letter {
            b':' => {
                (self.rest().first() == Some(&b':')).then_some(())?;
                self.at += 1;
                Some(())
            }
            b' ' => Some(()),
            letter => self.part(letter),
        }
    }

    fn skip(&mut self, kind: fn(&u8) -> bool) {
        self.at += self.rest().iter().take_while(|byte| kind(byte)).count();
    }

    fn name(&mut self, names: &[&str], short: bool) -> Option<usize> {
        let (at, size) = read_name(names, self.rest(), short)?;
        self.at += size;
        Some(at)
    }

    fn finish(self) -> Option<Parts> {
        let mut parts = self.parts;
        if let Some(afternoon) = parts.afternoon {
            if parts.hour > 12 {
                return None;
            }
            parts.hour = parts.hour % 12 + if afternoon { 12 } else { 0 };
        }
        if let Some(day) = parts.day_of_year {
            let first = Date { year: parts.year, month: 1, day: 1 };
            let date = Date::from_day_number(first.day_number() + i64::from(day) - 1)?;
            (parts.year, parts.month, parts.day) = (date.year, date.month, date.day);
        }
        if let (Some(week), Some(weekday)) = (parts.week, parts.weekday) {
            let date = date_of_week(&parts, week, weekday)?;
            (parts.year, parts.month, parts.day) = (date.year, date.month, date.day);
        }
        let last = if parts.month == 0 { 31 } else { days_of_month(parts.year, parts.month) };
        let valid = parts.month <= 12
            && parts.day <= last
            && parts.hour < 24
            && parts.minute < 60
            && parts.second < 60;
        valid.then_some(parts)
    }
}

/// The day that a week of a year and a day of that week are.
fn date_of_week(parts: &Parts, week: (u32, bool, bool), weekday: u8) -> Option<Date> {
    let (number, sunday_first, by_week_year) = week;
    let year = if by_week_year {
        u16::try_from(parts.week_year?).ok().filter(|year| *year <= 9999)?
    } else {
        parts.year
    };
    let new_year = Date { year, month: 1, day: 1 };
    let first = i64::from(new_year.weekday());
    let first = if sunday_first { (first + 1) % 7 } else { first };
    let within = if sunday_first { i64::from((weekday + 1) % 7) } else { i64::from(weekday) };
    let start = new_year.day_number();
    // Weeks that begin on Sunday: week 1 has the first Sunday; on Monday: four days of the year.
    let shift = if sunday_first {
        (if first == 0 { 0 } else { 7 }) - first
    } else {
        (if first <= 3 { 0 } else { 7 }) - first
    };
    Date::from_day_number(start + shift + (i64::from(number) - 1) * 7 + within)
}

fn full_year(year: u32) -> u16 {
    (if year < 70 { year + 2000 } else { year + 1900 }) as u16
}
