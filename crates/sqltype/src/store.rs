//! Storing: a value as a column takes it, as INSERT and UPDATE do.
//!
//! # Owns
//! [`StoreMode`], and [`Converter::store`]: which values fit a column, what becomes of those that
//! do not, and what is said about it.
//! # Guarantees
//! A stored value is of the column's type in every respect: width, scale, length, character set,
//! members. Where strictness asks for it, what does not fit is an error and not a changed value.
//! # Not here
//! NULL in columns that have none (1048, `sql`), bytes of the kernel (`storage`).

mod number;
mod temporal;
mod text;

use crate::convert::{Converter, shown};
use crate::datum::Datum;
use crate::json::Json;
use crate::problem::{Problem, printable};
use crate::sql_type::{SqlType, TypeKind};
use crate::temporal::Date;

/// What the SQL mode says about values that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreMode {
    /// STRICT_TRANS_TABLES or STRICT_ALL_TABLES, and no IGNORE.
    pub strict: bool,
    /// NO_ZERO_DATE.
    pub no_zero_date: bool,
    /// NO_ZERO_IN_DATE.
    pub no_zero_in_date: bool,
    /// TIME_TRUNCATE_FRACTIONAL: fractions of seconds are cut, not rounded.
    pub truncate_fractions: bool,
}

impl StoreMode {
    /// Whether a date is refused for its zeros.
    pub fn refuses(self, date: Date) -> bool {
        if date.is_zero() {
            self.no_zero_date
        } else {
            self.no_zero_in_date && date.has_zero_part()
        }
    }
}

impl Default for StoreMode {
    fn default() -> Self {
        let truncate_fractions = false;
        Self { strict: true, no_zero_date: true, no_zero_in_date: true, truncate_fractions }
    }
}

/// Where a value is stored, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The table.
    pub table: &'a str,
    /// The column.
    pub column: &'a str,
    /// The number of the row in the statement, from 1.
    pub row: u64,
}

impl Place<'_> {
    /// 1264: a number beyond the column's range.
    pub fn out_of_range(&self) -> Problem {
        let Place { column, row, .. } = self;
        Problem::new(1264, format!("Out of range value for column '{column}' at row {row}"))
    }

    /// 1265: only a part of the value is stored.
    pub fn truncated(&self) -> Problem {
        let Place { column, row, .. } = self;
        Problem::new(1265, format!("Data truncated for column '{column}' at row {row}"))
    }

    /// 1265 as a note.
    fn truncated_note(&self) -> Problem {
        Problem { is_note: true, ..self.truncated() }
    }

    /// 1406: text with more characters, or bytes, than the column has room for.
    pub fn too_long(&self) -> Problem {
        let Place { column, row, .. } = self;
        Problem::new(1406, format!("Data too long for column '{column}' at row {row}"))
    }

    /// 1366: no number, or text with characters that the column's character set lacks.
    fn incorrect(&self, kind: &str, value: &str) -> Problem {
        let Place { column, row, .. } = self;
        let text = format!("Incorrect {kind} value: '{value}' for column '{column}' at row {row}");
        Problem::new(1366, text)
    }

    /// 1292: no date or time.
    fn incorrect_temporal(&self, kind: &str, value: &[u8]) -> Problem {
        let Problem { message, is_note, .. } = self.incorrect(kind, &printable(value));
        Problem { code: 1292, message, is_note }
    }

    /// 3140: no JSON.
    fn invalid_json(&self, message: &str, position: usize) -> Problem {
        let Place { table, column, .. } = self;
        let dot = if table.is_empty() { "" } else { "." };
        let place = format!("position {position} in value for column '{table}{dot}{column}'");
        Problem::new(3140, format!("Invalid JSON text: \"{message}\" at {place}."))
    }
}

/// One value on its way into one column.
struct Storing<'c, 'a, 's> {
    converter: &'c mut Converter<'a>,
    /// The column's type.
    to: &'s SqlType,
    place: Place<'s>,
}

impl Converter<'_> {
    /// The value that a column of the type `to` stores for `datum`, which is of the type `from`.
    ///
    /// What does not fit is an error under strictness. Otherwise it becomes the nearest value that
    /// does, and the problem a warning. TIMESTAMP values are in the session's time zone. NULL
    /// stays.
    pub fn store(
        &mut self,
        datum: Datum,
        from: &SqlType,
        to: &SqlType,
        place: Place<'_>,
    ) -> Result<Datum, Problem> {
        if datum.is_null() {
            return Ok(datum);
        }
        let mut storing = Storing { converter: self, to, place };
        match &to.kind {
            TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::MediumInt
            | TypeKind::Int
            | TypeKind::BigInt => storing.integer(&datum, from),
            TypeKind::Float | TypeKind::Double => storing.float(&datum, from),
            TypeKind::Decimal => storing.decimal(&datum, from),
            TypeKind::Bit => storing.bits(&datum, from),
            TypeKind::Year => storing.year(&datum, from),
            TypeKind::Date => storing.date(&datum, from),
            TypeKind::DateTime | TypeKind::Timestamp => storing.date_time(&datum, from),
            TypeKind::Time => storing.time(&datum, from),
            TypeKind::Enum(members) => storing.member(&datum, from, members),
            TypeKind::Set(members) => storing.members(&datum, from, members),
            TypeKind::Json => storing.json(datum, from),
            TypeKind::Null => Ok(Datum::Null),
            TypeKind::Char
            | TypeKind::VarChar
            | TypeKind::TinyText
            | TypeKind::Text
            | TypeKind::MediumText
            | TypeKind::LongText => storing.text(datum, from),
        }
    }
}

impl Storing<'_, '_, '_> {
    /// An error under strictness, a warning otherwise.
    fn fail(&mut self, problem: Problem) -> Result<(), Problem> {
        if self.converter.mode.strict && !problem.is_note {
            return Err(problem);
        }
        self.converter.problems.add(problem);
        Ok(())
    }

    fn json(&mut self, datum: Datum, from: &SqlType) -> Result<Datum, Problem> {
        let bytes = match datum {
            Datum::Json(text) => return Ok(Datum::Json(text)),
            Datum::Bytes(bytes) => bytes,
            _ => {
                let message = "not a JSON text, may need CAST";
                return Err(self.place.invalid_json(message, 0));
            }
        };
        let is_binary = from.collation == collation::CollationId::BINARY
            && !matches!(from.kind, TypeKind::Enum(_) | TypeKind::Set(_));
        if is_binary {
            let message = "Cannot create a JSON value from a string with CHARACTER SET 'binary'.";
            return Err(Problem::new(3144, message.to_owned()));
        }
        match Json::parse(&bytes) {
            Ok(json) => Ok(Datum::Json(json.encode())),
            Err(error) if error.is_too_deep => {
                Err(Problem::new(3157, "The JSON document exceeds the maximum depth.".to_owned()))
            }
            Err(error) => Err(self.place.invalid_json(error.message, error.position)),
        }
    }

    /// The value as messages show it.
    fn shown(&self, datum: &Datum, from: &SqlType) -> String {
        printable(&shown(datum, from))
    }
}

#[cfg(test)]
mod tests;
