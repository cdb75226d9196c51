//! Intervals: reading `INTERVAL … unit`, adding them, counting units between moments.

use super::{DAY, Date, DateTime, SECOND, Time};
use crate::decimal::Decimal;

/// A unit of `INTERVAL`, `EXTRACT` and `TIMESTAMPDIFF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum IntervalUnit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

/// A span of months, or of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months, which have no fixed length.
    pub months: i64,
    /// Microseconds; days are 24 hours.
    pub micros: i64,
}

const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl IntervalUnit {
    /// Whether it is made of whole days, so that a DATE stays a DATE.
    pub fn is_date_only(self) -> bool {
        matches!(
            self,
            IntervalUnit::Day
                | IntervalUnit::Week
                | IntervalUnit::Month
                | IntervalUnit::Quarter
                | IntervalUnit::Year
                | IntervalUnit::YearMonth
        )
    }

    /// The sizes of the fields that its text is made of, in microseconds or months, those of
    /// microseconds last. One field for simple units.
    fn fields(self) -> &'static [i64] {
        match self {
            IntervalUnit::Microsecond => &[1],
            IntervalUnit::Second => &[SECOND],
            IntervalUnit::Minute => &[MINUTE],
            IntervalUnit::Hour => &[HOUR],
            IntervalUnit::Day => &[DAY],
            IntervalUnit::Week => &[7 * DAY],
            IntervalUnit::Month => &[1],
            IntervalUnit::Quarter => &[3],
            IntervalUnit::Year => &[12],
            IntervalUnit::SecondMicrosecond => &[SECOND, 1],
            IntervalUnit::MinuteMicrosecond => &[MINUTE, SECOND, 1],
            IntervalUnit::MinuteSecond => &[MINUTE, SECOND],
            IntervalUnit::HourMicrosecond => &[HOUR, MINUTE, SECOND, 1],
            IntervalUnit::HourSecond => &[HOUR, MINUTE, SECOND],
            IntervalUnit::HourMinute => &[HOUR, MINUTE],
            IntervalUnit::DayMicrosecond => &[DAY, HOUR, MINUTE, SECOND, 1],
            IntervalUnit::DaySecond => &[DAY, HOUR, MINUTE, SECOND],
            IntervalUnit::DayMinute => &[DAY, HOUR, MINUTE],
            IntervalUnit::DayHour => &[DAY, HOUR],
            IntervalUnit::YearMonth => &[12, 1],
        }
    }

    fn counts_months(self) -> bool {
        matches!(
            self,
            IntervalUnit::Month
                | IntervalUnit::Quarter
                | IntervalUnit::Year
                | IntervalUnit::YearMonth
        )
    }

    /// Whether its text has several fields, as `DAY_HOUR` has.
    pub fn is_compound(self) -> bool {
        self.fields().len() > 1
    }

    fn has_microseconds(self) -> bool {
        self.is_compound() && self.fields().last() == Some(&1) && !self.counts_months()
    }
}

impl Interval {
    /// So many of a simple unit; `None` when that is beyond any date.
    pub fn of(count: i64, unit: IntervalUnit) -> Option<Interval> {
        let size = *unit.fields().first()?;
        Interval::of_total(count.checked_mul(size)?, unit)
    }

    /// So many seconds, with a fraction.
    pub fn of_seconds(seconds: &Decimal) -> Option<Interval> {
        let micros = seconds.round(6).multiply(Decimal::from(SECOND)).ok()?.to_i128()?;
        Some(Interval { months: 0, micros: i64::try_from(micros).ok()? })
    }

    fn of_total(total: i64, unit: IntervalUnit) -> Option<Interval> {
        Some(if unit.counts_months() {
            Interval { months: total, micros: 0 }
        } else {
            Interval { months: 0, micros: total }
        })
    }

    /// Reads the text of a compound unit: numbers with anything between them. When there are fewer
    /// than the unit has fields they are the last ones: `'1:10' DAY_SECOND` is 70 seconds.
    pub fn parse(text: &[u8], unit: IntervalUnit) -> Option<Interval> {
        let text = text.trim_ascii_start();
        let is_negative = text.first() == Some(&b'-');
        let fields = unit.fields();
        let mut numbers: Vec<(i64, usize)> = Vec::with_capacity(fields.len());
        let mut rest = text;
        while numbers.len() < fields.len() {
            let start = rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len());
            rest = &rest[start..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                break;
            }
            let number = rest[..digits].iter().try_fold(0i64, |number, digit| {
                number.checked_mul(10)?.checked_add(i64::from(digit - b'0'))
            });
            numbers.push((number?, digits));
            rest = &rest[digits..];
        }
        if unit.has_microseconds()
            && let Some((number, digits @ 1..6)) = numbers.last_mut()
        {
            // What follows the seconds is their fraction.
            *number *= 10i64.pow(6 - *digits as u32);
        }
        let mut total = 0i64;
        for ((number, _), size) in numbers.iter().rev().zip(fields.iter().rev()) {
            total = total.checked_add(number.checked_mul(*size)?)?;
        }
        Interval::of_total(if is_negative { -total } else { total }, unit)
    }

    /// The same in the other direction.
    pub fn negate(self) -> Interval {
        Interval { months: self.months.saturating_neg(), micros: self.micros.saturating_neg() }
    }
}

impl DateTime {
    /// The moment an interval later; `None` outside the years 0 to 9999, and for dates with zeros
    /// unless only months are added.
    pub fn add_interval(self, interval: Interval) -> Option<DateTime> {
        if interval.months != 0 || interval.micros == 0 {
            let moved = Date::add_months(self.date, interval.months)?;
            return (self.date.month > 0).then_some(DateTime { date: moved, ..self });
        }
        if self.date.has_zero_part() {
            return None;
        }
        self.add_micros(interval.micros)
    }

    /// TIMESTAMPDIFF: how many whole units lie between `self` and a later moment; negative for an
    /// earlier one. Only for simple units.
    pub fn units_until(self, until: DateTime, unit: IntervalUnit) -> i64 {
        let micros = until.total_micros() - self.total_micros();
        let Some(size) = unit.fields().first() else { return 0 };
        if !unit.counts_months() {
            return micros / size;
        }
        let (early, late) = if micros < 0 { (until, self) } else { (self, until) };
        let month = |at: DateTime| i64::from(at.date.year) * 12 + i64::from(at.date.month);
        let within_month = |at: DateTime| (at.date.day, at.time());
        let begun = i64::from(within_month(late) < within_month(early));
        let months = month(late) - month(early) - begun;
        (if micros < 0 { -months } else { months }) / size
    }

    /// EXTRACT: the parts that a unit names, as one number.
    pub fn extract(self, unit: IntervalUnit) -> i64 {
        let (hour, minute, second) =
            (i64::from(self.hour), i64::from(self.minute), i64::from(self.second));
        let (day, micros) = (i64::from(self.date.day), i64::from(self.micros));
        let of_day = hour * 10_000 + minute * 100 + second;
        match unit {
            IntervalUnit::Microsecond => micros,
            IntervalUnit::Second => second,
            IntervalUnit::Minute => minute,
            IntervalUnit::Hour => hour,
            IntervalUnit::Day => day,
            IntervalUnit::Week => i64::from(self.date.week(0).1),
            IntervalUnit::Month => i64::from(self.date.month),
            IntervalUnit::Quarter => (i64::from(self.date.month) + 2) / 3,
            IntervalUnit::Year => i64::from(self.date.year),
            IntervalUnit::SecondMicrosecond => second * SECOND + micros,
            IntervalUnit::MinuteMicrosecond => (minute * 100 + second) * SECOND + micros,
            IntervalUnit::MinuteSecond => minute * 100 + second,
            IntervalUnit::HourMicrosecond => of_day * SECOND + micros,
            IntervalUnit::HourSecond => of_day,
            IntervalUnit::HourMinute => hour * 100 + minute,
            IntervalUnit::DayMicrosecond => (day * 1_000_000 + of_day) * SECOND + micros,
            IntervalUnit::DaySecond => day * 1_000_000 + of_day,
            IntervalUnit::DayMinute => day * 10_000 + hour * 100 + minute,
            IntervalUnit::DayHour => day * 100 + hour,
            IntervalUnit::YearMonth => i64::from(self.date.year) * 100 + i64::from(self.date.month),
        }
    }
}

impl Time {
    /// EXTRACT from a span of time, with its sign: hours may be more than a day's, and there is no
    /// date. `None` for units of dates.
    pub fn extract(self, unit: IntervalUnit) -> Option<i64> {
        if unit.is_date_only() {
            return None;
        }
        let (hours, minute, second, micros) = self.parts();
        let at = DateTime { date: Date::default(), hour: 0, minute, second, micros };
        let hours = i64::from(hours);
        let above = match unit {
            IntervalUnit::Hour => hours,
            IntervalUnit::HourMinute | IntervalUnit::DayMinute => hours * 100,
            IntervalUnit::HourSecond | IntervalUnit::DaySecond => hours * 10_000,
            IntervalUnit::HourMicrosecond | IntervalUnit::DayMicrosecond => hours * 10_000 * SECOND,
            IntervalUnit::DayHour => hours,
            _ => 0,
        };
        let total = at.extract(unit) + above;
        Some(if self.is_negative() { -total } else { total })
    }
}

/// MAKEDATE: a day of a year, counted from 1; years below 100 are of this time.
pub fn make_date(year: i64, day: i64) -> Option<Date> {
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    };
    let year = u16::try_from(year).ok().filter(|year| *year <= 9999)?;
    if day < 1 {
        return None;
    }
    let first = Date { year, month: 1, day: 1 }.day_number();
    Date::from_day_number(first.checked_add(day - 1)?)
}

/// The months since year 0 of a period `YYMM` or `YYYYMM`; `None` when its month is none.
pub fn months_of_period(period: i64) -> Option<i64> {
    let (year, month) = (period / 100, period % 100);
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    };
    (period > 0 && (1..=12).contains(&month)).then(|| year * 12 + month - 1)
}

/// The period `YYYYMM` of so many months since year 0.
pub fn period_of_months(months: i64) -> i64 {
    months.div_euclid(12) * 100 + months.rem_euclid(12) + 1
}

/// PERIOD_ADD.
pub fn add_period(period: i64, months: i64) -> Option<i64> {
    months_of_period(period)?.checked_add(months).map(period_of_months)
}

#[cfg(test)]
mod tests {
    use super::super::parse_date_time;
    use super::*;

    fn at(text: &str) -> DateTime {
        parse_date_time(text.as_bytes()).unwrap_or_else(|| panic!("{text}")).value
    }

    #[test]
    fn adding() {
        use IntervalUnit as Unit;
        for (start, interval, expected) in [
            ("2024-01-31", Interval::of(1, Unit::Month), Some("2024-02-29 00:00:00")),
            ("2024-02-29", Interval::of(1, Unit::Year), Some("2025-02-28 00:00:00")),
            ("2024-03-31", Interval::of(-1, Unit::Quarter), Some("2023-12-31 00:00:00")),
            ("2024-12-31 23:59:59", Interval::of(1, Unit::Second), Some("2025-01-01 00:00:00")),
            ("2025-01-01", Interval::of(-1, Unit::Second), Some("2024-12-31 23:59:59")),
            (
                "2100-12-31 23:59:59",
                Interval::parse(b"1:1", Unit::MinuteSecond),
                Some("2101-01-01 00:01:00"),
            ),
            ("2025-01-01", Interval::parse(b"-1 10", Unit::DayHour), Some("2024-12-30 14:00:00")),
            ("2024-01-01", Interval::of(2, Unit::Week), Some("2024-01-15 00:00:00")),
            ("2024-01-01", Interval::parse(b"1-2", Unit::YearMonth), Some("2025-03-01 00:00:00")),
            ("9999-12-31", Interval::of(1, Unit::Day), None),
            ("0001-01-01", Interval::of(-2, Unit::Year), None),
            ("2024-00-10", Interval::of(1, Unit::Day), None),
            ("2024-01-01", Interval::of(i64::MAX, Unit::Microsecond), None),
        ] {
            let found = at(start).add_interval(interval.unwrap()).map(|at| at.to_text(0));
            assert_eq!(found.as_deref(), expected, "{start} {interval:?}");
        }
        assert_eq!(Interval::of(i64::MAX, Unit::Day), None);
    }

    #[test]
    fn compound_texts() {
        use IntervalUnit as Unit;
        for (text, unit, micros) in [
            ("1 1:1:1", Unit::DaySecond, DAY + HOUR + MINUTE + SECOND),
            ("1:10", Unit::DaySecond, 70 * SECOND),
            ("-1.5", Unit::SecondMicrosecond, -1_500_000),
            ("1.000001", Unit::SecondMicrosecond, 1_000_001),
            ("1:2.25", Unit::MinuteMicrosecond, 62_250_000),
            ("  10 ", Unit::HourMinute, 10 * MINUTE),
            ("a1b2", Unit::HourMinute, HOUR + 2 * MINUTE),
            ("", Unit::HourMinute, 0),
            ("1 2 3 4 5", Unit::DayHour, DAY + 2 * HOUR),
        ] {
            let found = Interval::parse(text.as_bytes(), unit).unwrap();
            assert_eq!(found, Interval { months: 0, micros }, "{text}");
        }
        assert_eq!(Interval::parse(b"99999999999999999999", Unit::DayHour), None);
        let seconds = Decimal::parse(b"-1.25").unwrap();
        assert_eq!(Interval::of_seconds(&seconds).unwrap().micros, -1_250_000);
    }

    #[test]
    fn differences() {
        use IntervalUnit as Unit;
        for (from, until, unit, expected) in [
            ("2003-02-01", "2003-05-01", Unit::Month, 3),
            ("2002-05-01", "2001-01-01", Unit::Year, -1),
            ("2003-02-01", "2003-05-01 12:05:55", Unit::Minute, 128_885),
            ("2024-01-31", "2024-02-29", Unit::Month, 0),
            ("2024-01-31", "2024-03-31", Unit::Month, 2),
            ("2024-01-31 00:00:01", "2024-03-31", Unit::Month, 1),
            ("2024-01-01", "2024-12-31", Unit::Quarter, 3),
            ("2024-01-10", "2024-01-01", Unit::Week, -1),
            ("2024-01-01", "2024-01-01 00:00:00.5", Unit::Microsecond, 500_000),
        ] {
            assert_eq!(at(from).units_until(at(until), unit), expected, "{from} {until} {unit:?}");
        }
    }

    #[test]
    fn extracting() {
        use IntervalUnit as Unit;
        let moment = at("2019-07-02 01:02:03.000123");
        for (unit, expected) in [
            (Unit::Year, 2019),
            (Unit::YearMonth, 201_907),
            (Unit::DayMinute, 20_102),
            (Unit::Microsecond, 123),
            (Unit::Quarter, 3),
            (Unit::DayMicrosecond, 2_010_203_000_123),
            (Unit::HourMinute, 102),
        ] {
            assert_eq!(moment.extract(unit), expected, "{unit:?}");
        }
        let span = Time::new(true, 100, 2, 3, 0).unwrap();
        assert_eq!(span.extract(Unit::Hour), Some(-100));
        assert_eq!(span.extract(Unit::HourSecond), Some(-1_000_203));
        assert_eq!(span.extract(Unit::Day), None);
    }

    #[test]
    fn periods_and_days_of_years() {
        assert_eq!(add_period(200_801, 2), Some(200_803));
        assert_eq!(add_period(9901, -1), Some(199_812));
        assert_eq!(add_period(200_813, 1), None);
        assert_eq!(
            months_of_period(200_802).zip(months_of_period(200_703)).map(|(a, b)| a - b),
            Some(11)
        );
        assert_eq!(make_date(2011, 31).map(|date| date.to_string()).as_deref(), Some("2011-01-31"));
        assert_eq!(
            make_date(2011, 366).map(|date| date.to_string()).as_deref(),
            Some("2012-01-01")
        );
        assert_eq!((make_date(2011, 0), make_date(9999, 366)), (None, None));
    }
}
