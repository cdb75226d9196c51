//! Storing numbers, bits and years.

use super::Storing;
use crate::convert::member_number;
use crate::datum::Datum;
use crate::decimal::Decimal;
use crate::number::{read_decimal, read_double, read_rounded};
use crate::problem::Problem;
use crate::sql_type::{SqlType, TypeKind};

impl Storing<'_, '_, '_> {
    /// The integer that a value is rounded to; beyond 64 bits if it is, so that it fits no column.
    fn rounded(&mut self, datum: &Datum, from: &SqlType) -> Result<i128, Problem> {
        Ok(match datum {
            Datum::Int(v) => i128::from(*v),
            Datum::UInt(v) => i128::from(*v),
            // The cast saturates, and NaN does not occur.
            Datum::Double(v) => v.round_ties_even() as i128,
            Datum::Decimal(v) => {
                let bound = if v.is_negative() { i128::MIN } else { i128::MAX };
                v.to_i128().unwrap_or(bound)
            }
            Datum::Bytes(bytes) => {
                if let Some(number) = member_number(bytes, from) {
                    return Ok(i128::from(number));
                }
                let read = read_rounded(bytes);
                if read.length == 0 {
                    let shown = self.shown(datum, from);
                    self.fail(self.place.incorrect("integer", &shown))?;
                } else if !read.is_whole {
                    self.fail(self.place.truncated())?;
                } else if read.is_out_of_range {
                    self.fail(self.place.out_of_range())?;
                }
                read.value
            }
            _ => self.converter.integer(datum, from).unwrap_or(0),
        })
    }

    pub(super) fn integer(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let (low, high) = self.to.integer_range();
        let value = match datum {
            // Too small before it is rounded to zero.
            Datum::Decimal(v) if self.to.unsigned && v.is_negative() => -1,
            _ => self.rounded(datum, from)?,
        };
        let nearest = value.clamp(low, high);
        if nearest != value {
            self.fail(self.place.out_of_range())?;
        }
        Ok(if self.to.unsigned { Datum::UInt(nearest as u64) } else { Datum::Int(nearest as i64) })
    }

    pub(super) fn float(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let value = match datum {
            Datum::Bytes(bytes) if member_number(bytes, from).is_none() => {
                let read = read_double(bytes);
                if !read.is_whole {
                    self.fail(self.place.truncated())?;
                } else if read.is_out_of_range {
                    self.fail(self.place.out_of_range())?;
                }
                read.value
            }
            _ => self.converter.double(datum, from).unwrap_or(0.0),
        };
        let (low, high) = self.to.float_range();
        let rounded = self.round_float(value);
        let nearest = rounded.clamp(low, high);
        if nearest != rounded {
            self.fail(self.place.out_of_range())?;
        }
        // Zero has no sign.
        Ok(Datum::Double(nearest + 0.0))
    }

    /// FLOAT(m, d) and DOUBLE(m, d) round to d digits; a FLOAT has 32 bits, whatever it is kept in.
    fn round_float(&self, value: f64) -> f64 {
        let rounded = match self.to.decimals {
            SqlType::NOT_FIXED.. => value,
            digits => format!("{value:.*}", usize::from(digits)).parse().unwrap_or(value),
        };
        match self.to.kind {
            TypeKind::Float => f64::from(rounded as f32),
            _ => rounded,
        }
    }

    pub(super) fn decimal(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let value = match datum {
            Datum::Bytes(bytes) if member_number(bytes, from).is_none() => {
                let read = read_decimal(bytes);
                if read.length == 0 {
                    let shown = self.shown(datum, from);
                    self.fail(self.place.incorrect("decimal", &shown))?;
                } else if !read.is_whole {
                    self.fail(self.place.truncated())?;
                } else if read.is_out_of_range {
                    self.fail(self.place.out_of_range())?;
                }
                read.value
            }
            _ => self.converter.decimal(datum, from).unwrap_or(Decimal::ZERO),
        };
        if self.to.unsigned && value.is_negative() {
            self.fail(self.place.out_of_range())?;
            return Ok(Datum::Decimal(Decimal::ZERO.round(self.to.decimals)));
        }
        let rounded = value.round(self.to.decimals);
        let fits = rounded.scale() == self.to.decimals
            && rounded.whole_digits() + u32::from(self.to.decimals) <= self.to.length;
        if !fits {
            self.fail(self.place.out_of_range())?;
            let largest = Decimal::largest(self.to.length, self.to.decimals);
            let nearest = if value.is_negative() { largest.negate() } else { largest };
            return Ok(Datum::Decimal(nearest));
        }
        // Digits that a double has by its nature are not worth a note.
        if !matches!(datum, Datum::Double(_)) && rounded.compare(&value).is_ne() {
            self.fail(self.place.truncated_note())?;
        }
        Ok(Datum::Decimal(rounded))
    }

    pub(super) fn bits(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let width = self.to.length.clamp(1, 64);
        let all = u64::MAX >> (64 - width);
        let bits = match datum {
            Datum::Bytes(bytes) if member_number(bytes, from).is_none() => {
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                let significant = &bytes[zeros..];
                let fold = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
                (significant.len() <= 8).then(|| significant.iter().fold(0, fold))
            }
            _ => {
                let value = self.rounded(datum, from)?;
                // A negative number is taken as its 64 bits.
                u64::try_from(value).ok().or_else(|| i64::try_from(value).ok().map(|v| v as u64))
            }
        };
        match bits.filter(|bits| *bits <= all) {
            Some(bits) => Ok(Datum::UInt(bits)),
            None => {
                let is_strict = self.converter.mode.strict;
                let place = self.place;
                self.fail(if is_strict { place.too_long() } else { place.out_of_range() })?;
                Ok(Datum::UInt(all))
            }
        }
    }

    pub(super) fn year(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let number = match datum {
            Datum::Date(date) => i128::from(date.year),
            Datum::DateTime(at) => i128::from(at.date.year),
            Datum::Time(_) => i128::from(self.converter.today().year),
            _ => self.rounded(datum, from)?,
        };
        // The text `0` is a year of two digits, the number and the text `0000` are no year.
        let is_short_text = match datum {
            Datum::Bytes(bytes) => bytes.trim_ascii().len() < 4 && read_rounded(bytes).length > 0,
            _ => false,
        };
        let year = match number {
            0 if !is_short_text => 0,
            0..=69 => number + 2000,
            70..=99 => number + 1900,
            1901..=2155 => number,
            _ => {
                self.fail(self.place.out_of_range())?;
                0
            }
        };
        Ok(Datum::Int(year as i64))
    }
}
