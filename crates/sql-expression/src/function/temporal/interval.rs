//! Intervals: how much `INTERVAL amount unit` is.

use sql_parser::ast::IntervalUnit as U;
use sqltype::temporal::{DAY, DateTime, SECOND};
use sqltype::{Datum, Decimal};

use crate::convert;
use crate::function::{Frame, Stop};

/// An amount of time, part of it in months.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) months: i64,
    pub(super) micros: i128,
}

/// Whether the unit counts days or more, and leaves the time of day as it is.
pub(super) fn is_date_unit(unit: U) -> bool {
    matches!(unit, U::Year | U::Quarter | U::Month | U::Week | U::Day | U::YearMonth)
}

/// Whether amounts of the unit have fractions of a second.
pub(super) fn has_micros(unit: U) -> bool {
    matches!(
        unit,
        U::Microsecond
            | U::SecondMicrosecond
            | U::MinuteMicrosecond
            | U::HourMicrosecond
            | U::DayMicrosecond
    )
}

const HOUR: i128 = 3600 * SECOND as i128;
const MINUTE: i128 = 60 * SECOND as i128;

/// The sizes of the numbers that a compound unit has, the largest first: months, or microseconds.
fn parts(unit: U) -> &'static [i128] {
    const MICROS: [i128; 5] = [DAY as i128, HOUR, MINUTE, SECOND as i128, 1];
    match unit {
        U::DayMicrosecond => &MICROS,
        U::DaySecond => &MICROS[..4],
        U::DayMinute => &MICROS[..3],
        U::DayHour => &MICROS[..2],
        U::HourMicrosecond => &MICROS[1..],
        U::HourSecond => &MICROS[1..4],
        U::HourMinute => &MICROS[1..3],
        U::MinuteMicrosecond => &MICROS[2..],
        U::MinuteSecond => &MICROS[2..4],
        U::SecondMicrosecond => &MICROS[3..],
        _ => &[12, 1],
    }
}

/// The amount in an argument. `None` for what is too large for any date.
pub(super) fn amount(f: &mut Frame<'_, '_>, at: usize, unit: U) -> Result<Option<Interval>, Stop> {
    let months = |count: i128, each: i128| {
        let months = i64::try_from(count.checked_mul(each)?).ok()?;
        Some(Interval { months, micros: 0 })
    };
    let micros =
        |count: i128, each: i128| Some(Interval { months: 0, micros: count.checked_mul(each)? });
    Ok(match unit {
        U::Year => months(f.wide(at)?, 12),
        U::Quarter => months(f.wide(at)?, 3),
        U::Month => months(f.wide(at)?, 1),
        U::Week => micros(f.wide(at)?, 7 * i128::from(DAY)),
        U::Day => micros(f.wide(at)?, DAY.into()),
        U::Hour => micros(f.wide(at)?, HOUR),
        U::Minute => micros(f.wide(at)?, MINUTE),
        U::Microsecond => micros(f.wide(at)?, 1),
        U::Second => {
            // Seconds have a fraction.
            let value = f.some(at)?;
            match &*value {
                Datum::Int(count) => micros((*count).into(), SECOND.into()),
                _ => {
                    let count = f.decimal(at)?;
                    let scaled = count.multiply(Decimal::from(SECOND)).ok();
                    scaled.and_then(Decimal::to_i128).and_then(|count| micros(count, 1))
                }
            }
        }
        _ => compound(f, at, unit)?,
    })
}

/// `'1 10:20:30.5' DAY_MICROSECOND`: numbers with anything between them, assigned from the right.
fn compound(f: &mut Frame<'_, '_>, at: usize, unit: U) -> Result<Option<Interval>, Stop> {
    let value = f.some(at)?;
    let text = convert::to_text(&value, f.type_of(at)).into_owned();
    let is_negative = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'-');
    let sizes = parts(unit);
    let mut numbers: Vec<(i128, usize)> = Vec::new();
    let mut rest = &text[..];
    while numbers.len() < sizes.len() {
        let start = rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len());
        let digits = rest[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            break;
        }
        let number = rest[start..start + digits].iter().try_fold(0i128, |number, digit| {
            number.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
        });
        let Some(number) = number else { return Ok(None) };
        numbers.push((number, digits));
        rest = &rest[start + digits..];
    }
    let mut total = Some(0i128);
    let skipped = sizes.len() - numbers.len();
    for (place, (number, digits)) in numbers.iter().enumerate() {
        let mut number = *number;
        let is_fraction = has_micros(unit) && skipped + place + 1 == sizes.len();
        if is_fraction && *digits < 6 {
            number *= 10i128.pow(6 - *digits as u32);
        }
        let size = sizes[skipped + place];
        total = total.and_then(|total| total.checked_add(number.checked_mul(size)?));
    }
    let total = total.map(|total| if is_negative { -total } else { total });
    Ok(total.and_then(|total| match unit {
        U::YearMonth => Some(Interval { months: i64::try_from(total).ok()?, micros: 0 }),
        _ => Some(Interval { months: 0, micros: total }),
    }))
}

impl Interval {
    pub(super) fn negate(self) -> Self {
        Self { months: self.months.saturating_neg(), micros: self.micros.saturating_neg() }
    }

    /// The moment that lies this interval later; `None` outside of the calendar.
    pub(super) fn after(self, moment: DateTime) -> Option<DateTime> {
        let date = match self.months {
            0 => moment.date,
            months => moment.date.add_months(months)?,
        };
        let moved = DateTime { date, ..moment };
        match self.micros {
            0 => Some(moved),
            micros => moved.add_micros(i64::try_from(micros).ok()?),
        }
    }
}
