//! What a function sees while it is evaluated.

use std::borrow::Cow;

use collation::{Charset, CollationId};
use sqltype::temporal::{Date, DateTime, Time};
use sqltype::{Datum, Decimal, SqlType};

use super::signature::bytes_in;
use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::expression::{Call, Expression};
use crate::result_type::ResultType;

/// Why a function ends without a value of its own.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Its result is NULL.
    Null,
    /// It fails.
    Error(SqlError),
}

/// The value of a function.
pub(crate) type Evaluated = Result<Datum, Stop>;

/// A call with the row and the context it is evaluated for.
pub(crate) struct Frame<'a, 'c> {
    pub(crate) call: &'a Call,
    pub(crate) result: &'a ResultType,
    pub(crate) row: &'a [Datum],
    pub(crate) context: &'c mut EvalContext,
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl<'a> Frame<'a, '_> {
    /// How many arguments there are.
    pub(crate) fn len(&self) -> usize {
        self.call.arguments.len()
    }

    pub(crate) fn argument(&self, at: usize) -> &'a Expression {
        &self.call.arguments[at]
    }

    pub(crate) fn type_of(&self, at: usize) -> &'a SqlType {
        &self.call.arguments[at].result.sql_type
    }

    /// An argument as it is, NULL included.
    pub(crate) fn value(&mut self, at: usize) -> Result<Cow<'a, Datum>, Stop> {
        Ok(self.argument(at).operand(self.row, self.context)?)
    }

    /// An argument that is not NULL.
    pub(crate) fn some(&mut self, at: usize) -> Result<Cow<'a, Datum>, Stop> {
        let value = self.value(at)?;
        if value.is_null() { Err(Stop::Null) } else { Ok(value) }
    }

    /// An argument as the type of the result, if that takes the types of all.
    pub(crate) fn chosen(&mut self, at: usize) -> Result<Cow<'a, Datum>, Stop> {
        let (row, result) = (self.row, self.result);
        Ok(self.argument(at).chosen_as(&result.sql_type, row, self.context)?)
    }

    /// Whether an argument is NULL.
    pub(crate) fn is_null(&mut self, at: usize) -> Result<bool, Stop> {
        Ok(self.value(at)?.is_null())
    }

    /// An argument as a whole number of any size.
    pub(crate) fn wide(&mut self, at: usize) -> Result<i128, Stop> {
        if let Some(quotient) = self.quotient(at)? {
            let number = Datum::Decimal(quotient);
            return Ok(convert::to_integer(&number, self.type_of(at), self.context)?);
        }
        let value = self.some(at)?;
        Ok(convert::to_integer(&value, self.type_of(at), self.context)?)
    }

    /// An argument as a whole number; what is larger becomes the largest.
    pub(crate) fn integer(&mut self, at: usize) -> Result<i64, Stop> {
        Ok(self.wide(at)?.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// An argument as 64 bits.
    pub(crate) fn bits(&mut self, at: usize) -> Result<u64, Stop> {
        let value = self.wide(at)?;
        Ok(u64::try_from(value).unwrap_or_else(|_| convert::clamp_i64(value) as u64))
    }

    /// An argument as a floating-point number.
    pub(crate) fn double(&mut self, at: usize) -> Result<f64, Stop> {
        if let Some(quotient) = self.quotient(at)? {
            return Ok(quotient.to_f64());
        }
        let value = self.some(at)?;
        Ok(convert::to_double(&value, self.type_of(at), self.context)?)
    }

    /// An argument that is a quotient, with all its digits.
    fn quotient(&mut self, at: usize) -> Result<Option<Decimal>, Stop> {
        let argument = &self.call.arguments[at];
        if argument.holds_quotient() {
            Ok(Some(argument.exact_decimal(self.row, self.context)?.ok_or(Stop::Null)?))
        } else {
            Ok(None)
        }
    }

    /// An argument as a decimal.
    pub(crate) fn decimal(&mut self, at: usize) -> Result<Decimal, Stop> {
        if let Some(quotient) = self.quotient(at)? {
            return Ok(quotient);
        }
        let value = self.some(at)?;
        Ok(convert::to_decimal(&value, self.type_of(at), self.context)?)
    }

    /// An argument as text in UTF-8, or bytes if it is binary.
    pub(crate) fn text(&mut self, at: usize) -> Result<Cow<'a, [u8]>, Stop> {
        let value = self.some(at)?;
        let sql_type = self.type_of(at);
        let text = match value {
            Cow::Borrowed(value) => convert::to_text(value, sql_type),
            Cow::Owned(Datum::Bytes(bytes)) => Cow::Owned(bytes.into_vec()),
            Cow::Owned(value) => Cow::Owned(convert::to_text(&value, sql_type).into_owned()),
        };
        self.context.work += text.len() as u64;
        Ok(text)
    }

    /// An argument as the bytes its character set has for it.
    pub(crate) fn bytes(&mut self, at: usize) -> Result<Cow<'a, [u8]>, Stop> {
        let charset = self.charset(at);
        Ok(match self.text(at)? {
            Cow::Borrowed(text) => bytes_in(charset, text),
            Cow::Owned(text) => Cow::Owned(bytes_in(charset, &text).into_owned()),
        })
    }

    /// The character set of an argument as text.
    pub(crate) fn charset(&self, at: usize) -> Charset {
        self.collation_of(at).charset()
    }

    pub(crate) fn collation_of(&self, at: usize) -> CollationId {
        self.argument(at).result.collating(self.context.facts.collation).collation
    }

    /// An argument as UTF-8; bytes that are not become question marks.
    pub(crate) fn string(&mut self, at: usize) -> Result<Cow<'a, str>, Stop> {
        Ok(match self.text(at)? {
            Cow::Borrowed(text) => String::from_utf8_lossy(text),
            Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(&text).into_owned()),
        })
    }

    /// An argument as a date and time that may have zero parts; NULL with a warning if it is none.
    pub(crate) fn loose_date_time(&mut self, at: usize) -> Result<DateTime, Stop> {
        let value = self.some(at)?;
        convert::to_date_time(&value, self.type_of(at), self.context)?.ok_or(Stop::Null)
    }

    /// An argument as a date and time of the calendar; NULL with a warning if it is none.
    pub(crate) fn date_time(&mut self, at: usize) -> Result<DateTime, Stop> {
        let value = self.some(at)?;
        let sql_type = self.type_of(at);
        let moment = convert::to_date_time(&value, sql_type, self.context)?.ok_or(Stop::Null)?;
        if moment.date.has_zero_part() {
            let text = convert::to_text(&value, sql_type);
            let warning = convert::incorrect_temporal("datetime", &text);
            self.context.warn(warning)?;
            return Err(Stop::Null);
        }
        Ok(moment)
    }

    /// An argument as a day of the calendar.
    pub(crate) fn date(&mut self, at: usize) -> Result<Date, Stop> {
        Ok(self.date_time(at)?.date)
    }

    /// An argument as a span of time; NULL with a warning if it is none.
    pub(crate) fn time(&mut self, at: usize) -> Result<Time, Stop> {
        let value = self.some(at)?;
        convert::to_time(&value, self.type_of(at), self.context)?.ok_or(Stop::Null)
    }

    /// The statement's time in the session's time zone.
    pub(crate) fn now(&self) -> DateTime {
        self.context.facts.time_zone.local(self.context.now)
    }

    /// A result of this many bytes is refused with a warning if it is larger than a packet.
    pub(crate) fn check_size(&mut self, size: u64) -> Result<(), Stop> {
        let limit = self.context.facts.max_allowed_packet;
        if size <= limit {
            return Ok(self.context.check_large(size)?);
        }
        let warning = SqlError::of::<1301>(&[&self.call.function.name, &limit]);
        self.context.warn(warning)?;
        Err(Stop::Null)
    }

    /// The collation in which the call compares.
    pub(crate) fn collation(&self) -> CollationId {
        self.call.collation
    }

    /// Whether the result is bytes and not text.
    pub(crate) fn is_binary(&self) -> bool {
        self.result.sql_type.collation == CollationId::BINARY
    }
}

/// A text as a value.
pub(crate) fn text(text: impl Into<Box<[u8]>>) -> Evaluated {
    Ok(Datum::Bytes(text.into()))
}

/// A string as a value.
pub(crate) fn string(text: String) -> Evaluated {
    Ok(Datum::Bytes(text.into_bytes().into()))
}
