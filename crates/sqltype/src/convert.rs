//! A value as a value of another kind, as expressions convert operands.
//!
//! # Owns
//! [`Converter`]: numbers, text, dates and times, truth, from each other, with MySQL's warnings.
//! # Guarantees
//! A conversion never fails: where MySQL finds nothing better it gives zero or NULL, and a warning.
//! # Not here
//! Storing into columns (`store`), where much of this is an error.

use std::borrow::Cow;

use collation::Charset;

use crate::datum::Datum;
use crate::decimal::Decimal;
use crate::format::{bit_bytes, push_text};
use crate::json::Json;
use crate::number::{Read, read_decimal, read_double, read_integer};
use crate::problem::{Problem, Problems};
use crate::sql_type::{SqlType, TypeKind};
use crate::storage::set_bits;
use crate::store::StoreMode;
use crate::temporal::{
    Date, DateTime, SECOND, Time, date_time_of_number, parse_date_time, parse_time_clamped,
    time_of_number_clamped,
};
use crate::zone::TimeZone;

/// Converts values under the settings of a session, collecting warnings.
#[derive(Debug)]
pub struct Converter<'a> {
    /// What the SQL mode says about dates and strictness.
    pub mode: StoreMode,
    /// The session's time zone: of TIMESTAMP values, of literals with an offset, of today.
    pub zone: &'a TimeZone,
    /// The statement's moment, in microseconds since 1970 UTC: a TIME becomes one of today.
    pub now: i64,
    /// Where warnings go.
    pub problems: &'a mut Problems,
}

/// A value as text, in the form of its type. `None` for NULL.
pub fn text<'d>(datum: &'d Datum, sql_type: &SqlType) -> Option<Cow<'d, [u8]>> {
    Some(match datum {
        Datum::Null => return None,
        Datum::Bytes(bytes) | Datum::Json(bytes) => Cow::Borrowed(bytes),
        Datum::UInt(bits) if sql_type.kind == TypeKind::Bit => {
            Cow::Owned(bit_bytes(*bits, sql_type.length).into())
        }
        _ => {
            let mut out = String::new();
            push_text(&mut out, datum, sql_type);
            Cow::Owned(out.into_bytes())
        }
    })
}

/// Bytes that are taken for text of a character set: where each of its characters has several
/// bytes, zeros are put before the first one that is not whole.
pub fn aligned(charset: Charset, bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit = match charset {
        Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le => 2,
        Charset::Utf32 => 4,
        _ => 1,
    };
    match bytes.len() % unit {
        0 => Cow::Borrowed(bytes),
        over => Cow::Owned([&[0; 4][..unit - over], bytes].concat()),
    }
}

/// The number that an ENUM or SET stands for where numbers are wanted; `None` for other types.
pub fn member_number(bytes: &[u8], sql_type: &SqlType) -> Option<u64> {
    match &sql_type.kind {
        TypeKind::Enum(members) => {
            let at = members.iter().position(|member| member.as_bytes() == bytes);
            Some(at.map_or(0, |at| at as u64 + 1))
        }
        TypeKind::Set(members) => Some(set_bits(members, bytes)),
        _ => None,
    }
}

/// Rounds a floating-point number to an integer as `rint` does, within the range of 64 bits with or
/// without sign.
pub fn round_double(value: f64) -> i128 {
    // The cast saturates, and NaN does not occur.
    (value.round_ties_even() as i128).clamp(i64::MIN.into(), u64::MAX.into())
}

impl<'a> Converter<'a> {
    /// As a floating-point number.
    pub fn double(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<f64> {
        Some(match datum {
            Datum::Null => return None,
            Datum::Int(v) => *v as f64,
            Datum::UInt(v) => *v as f64,
            Datum::Double(v) => *v,
            Datum::Decimal(v) => v.to_f64(),
            Datum::Bytes(bytes) => match member_number(bytes, sql_type) {
                Some(number) => number as f64,
                None => {
                    let read = read_double(bytes);
                    self.check_number("DOUBLE", bytes, &read)
                }
            },
            Datum::Json(text) => self.json_number("DOUBLE", text, Self::double)?,
            Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) => {
                temporal_decimal(datum)?.to_f64()
            }
        })
    }

    /// As an exact decimal.
    pub fn decimal(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<Decimal> {
        Some(match datum {
            Datum::Null => return None,
            Datum::Int(v) => Decimal::from(*v),
            Datum::UInt(v) => Decimal::from(*v),
            Datum::Double(v) => Decimal::from_f64(*v).unwrap_or_else(|_| largest(*v < 0.0)),
            Datum::Decimal(v) => *v,
            Datum::Bytes(bytes) => match member_number(bytes, sql_type) {
                Some(number) => Decimal::from(number),
                None => {
                    let read = read_decimal(bytes);
                    self.check_number("DECIMAL", bytes, &read)
                }
            },
            Datum::Json(text) => self.json_number("DECIMAL", text, Self::decimal)?,
            Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) => temporal_decimal(datum)?,
        })
    }

    /// As an integer within -2^63 to 2^64 - 1. Text counts up to the first character that is no
    /// digit; other numbers are rounded.
    pub fn integer(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<i128> {
        Some(match datum {
            Datum::Null => return None,
            Datum::Int(v) => i128::from(*v),
            Datum::UInt(v) => i128::from(*v),
            Datum::Double(v) => round_double(*v),
            Datum::Decimal(v) => whole(v),
            Datum::Bytes(bytes) => match member_number(bytes, sql_type) {
                Some(number) => i128::from(number),
                None => {
                    let read = read_integer(bytes);
                    self.check_number("INTEGER", bytes, &read)
                }
            },
            Datum::Json(text) => self.json_number("INTEGER", text, Self::integer)?,
            Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) => {
                i128::from(rounded_number(datum)?)
            }
        })
    }

    /// As a date with time; NULL, with a warning, for what is none or what the mode forbids.
    pub fn date_time(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<DateTime> {
        let at = self.fuzzy_date_time(datum, sql_type)?;
        if self.mode.refuses(at.date) {
            self.problems.add(Problem::incorrect_temporal("datetime", &shown(datum, sql_type)));
            return None;
        }
        Some(at)
    }

    /// As a date with time, whatever the mode says about zeros in dates: for functions that look at
    /// parts only.
    pub fn fuzzy_date_time(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<DateTime> {
        let number = match datum {
            Datum::Null => return None,
            Datum::DateTime(at) => return Some(*at),
            Datum::Date(date) => return Some(DateTime::midnight(*date)),
            Datum::Time(time) => {
                let today = DateTime::midnight(self.today());
                return today.add_micros(time.micros);
            }
            Datum::Bytes(bytes) => return self.text_to_date_time(bytes),
            Datum::Json(text) => {
                return match Json::decode(text) {
                    Some(Json::String(text)) => self.text_to_date_time(text.as_bytes()),
                    _ => None,
                };
            }
            Datum::Int(_) | Datum::UInt(_) | Datum::Double(_) | Datum::Decimal(_) => {
                self.decimal(datum, sql_type)?
            }
        };
        let found = number_to_date_time(&number);
        if found.is_none() {
            self.problems.add(Problem::incorrect_temporal("datetime", &shown(datum, sql_type)));
        }
        found
    }

    fn text_to_date_time(&mut self, text: &[u8]) -> Option<DateTime> {
        let Some(parsed) = parse_date_time(text) else {
            self.problems.add(Problem::incorrect_temporal("datetime", text));
            return None;
        };
        if parsed.garbage {
            self.problems.add(Problem::truncated_incorrect("datetime", text));
        }
        match parsed.offset {
            None => Some(parsed.value),
            Some(minutes) => {
                let moment = TimeZone::of_offset(minutes)?.moment(parsed.value)?;
                Some(self.zone.local(moment))
            }
        }
    }

    /// As a span of time.
    pub fn time(&mut self, datum: &Datum, sql_type: &SqlType) -> Option<Time> {
        let (found, is_whole) = match datum {
            Datum::Null => return None,
            Datum::Time(time) => return Some(*time),
            Datum::DateTime(at) => return Some(at.time()),
            Datum::Date(_) => return Some(Time::default()),
            Datum::Bytes(bytes) => {
                let parsed = parse_time_clamped(bytes);
                let is_whole = parsed.is_some_and(|(parsed, is_cut)| !parsed.garbage && !is_cut);
                (parsed.map(|(parsed, _)| parsed.value), is_whole)
            }
            Datum::Json(text) => match Json::decode(text) {
                Some(Json::String(text)) => {
                    let parsed = parse_time_clamped(text.as_bytes());
                    (parsed.map(|(parsed, _)| parsed.value), true)
                }
                _ => (None, false),
            },
            Datum::Int(_) | Datum::UInt(_) | Datum::Double(_) | Datum::Decimal(_) => {
                let number = self.decimal(datum, sql_type)?;
                match number_to_time(&number) {
                    Some((time, clamped)) => (Some(time), !clamped),
                    None => (None, false),
                }
            }
        };
        if !is_whole {
            self.problems.add(Problem::truncated_incorrect("time", &shown(datum, sql_type)));
        }
        found
    }

    /// The day of the statement's moment in the session's zone.
    pub fn today(&self) -> Date {
        self.zone.local(self.now).date
    }

    fn check_number<T: Copy>(&mut self, kind: &str, text: &[u8], read: &Read<T>) -> T {
        if !read.is_whole || read.is_out_of_range {
            self.problems.add(Problem::truncated_incorrect(kind, text));
        }
        read.value
    }

    /// The number in a JSON value: of numbers, truth values and texts; zero for all others.
    fn json_number<T>(
        &mut self,
        kind: &str,
        text: &[u8],
        convert: fn(&mut Self, &Datum, &SqlType) -> Option<T>,
    ) -> Option<T> {
        let (datum, is_number) = match Json::decode(text) {
            Some(Json::Bool(value)) => (Datum::truth(value), true),
            Some(Json::Int(value)) => (Datum::Int(value), true),
            Some(Json::UInt(value)) => (Datum::UInt(value), true),
            Some(Json::Double(value)) => (Datum::Double(value), true),
            Some(Json::Decimal(value)) => (Datum::Decimal(value), true),
            Some(Json::String(text)) => (Datum::text(&text), true),
            _ => (Datum::Int(0), false),
        };
        if !is_number {
            let message =
                format!("Invalid JSON value for CAST to {kind} from column json at row 1");
            self.problems.add(Problem::new(3156, message));
        }
        convert(self, &datum, &SqlType::binary(0))
    }
}

/// A value as messages show it.
pub(crate) fn shown<'d>(datum: &'d Datum, sql_type: &SqlType) -> Cow<'d, [u8]> {
    text(datum, sql_type).unwrap_or_default()
}

fn largest(is_negative: bool) -> Decimal {
    let largest = Decimal::largest(Decimal::PRECISION_MAX, 0);
    if is_negative { largest.negate() } else { largest }
}

/// A decimal rounded to an integer, within the range of 64 bits with or without sign.
pub(crate) fn whole(value: &Decimal) -> i128 {
    let bound = if value.is_negative() { i64::MIN.into() } else { u64::MAX.into() };
    value.to_i128().map_or(bound, |whole| whole.clamp(i64::MIN.into(), u64::MAX.into()))
}

/// `YYYYMMDD`, `YYYYMMDDhhmmss.ffffff` or `hhmmss.ffffff`.
fn temporal_decimal(datum: &Datum) -> Option<Decimal> {
    let (number, micros) = match datum {
        Datum::Date(date) => return Some(Decimal::from(date.to_number())),
        Datum::DateTime(at) => (at.to_number(), i64::from(at.micros)),
        Datum::Time(time) => (time.to_number(), time.micros % SECOND),
        _ => return None,
    };
    if micros == 0 {
        return Some(Decimal::from(number));
    }
    let all = i128::from(number) * i128::from(SECOND) + i128::from(micros);
    Decimal::from_unscaled(all, 6)
}

/// The number of a temporal value whose fraction has been rounded to seconds.
fn rounded_number(datum: &Datum) -> Option<i64> {
    Some(match datum {
        Datum::Date(date) => date.to_number(),
        Datum::DateTime(at) => at.round(0).unwrap_or(*at).to_number(),
        Datum::Time(time) => time.round(0).to_number(),
        _ => return None,
    })
}

/// Whole part and microseconds of a number.
fn split_number(number: &Decimal) -> Option<(i64, i64)> {
    let whole = i64::try_from(number.truncate(0).to_i128()?).ok()?;
    let fraction = number.subtract(number.truncate(0)).ok()?;
    let micros = fraction.round(6).multiply(Decimal::from(SECOND)).ok()?.to_i128()?;
    Some((whole, micros as i64))
}

/// The date with time that a number with a fraction stands for.
pub(crate) fn number_to_date_time(number: &Decimal) -> Option<DateTime> {
    let (whole, micros) = split_number(number)?;
    let (at, is_date_only) = date_time_of_number(whole)?;
    match micros {
        0 => Some(at),
        _ if micros < 0 => None,
        _ if is_date_only => Some(at),
        _ if at.date.has_zero_part() => None,
        _ => at.add_micros(micros),
    }
}

/// The span of time that a number with a fraction stands for, and whether it had to be cut to the
/// range.
pub(crate) fn number_to_time(number: &Decimal) -> Option<(Time, bool)> {
    let (whole, micros) = split_number(number)?;
    let (time, clamped) = time_of_number_clamped(whole)?;
    let total = time.micros + micros;
    let cut = Time::clamped(total);
    Some((cut, clamped || cut.micros != total))
}

#[cfg(test)]
mod tests;
