//! Literals, parameters and variables.

use std::sync::Arc;

use collation::{Charset, CollationId, to_utf8};
use sql_parser::ast::{Expr, Ident, Literal, TemporalKind};
use sqltype::temporal::{parse_date_time, parse_time};
use sqltype::{Datum, Decimal, SqlType, TimeZone, TypeKind, aligned};

use super::Binder;
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::result_type::{Collating, ResultType};

impl Binder<'_, '_> {
    pub(super) fn literal(&mut self, literal: &Literal) -> Result<Expression, SqlError> {
        let bytes = match literal {
            Literal::String(bytes)
            | Literal::National(bytes)
            | Literal::Hex(bytes)
            | Literal::Bit(bytes) => bytes.len(),
            Literal::Introduced(introduced) => introduced.value.len(),
            _ => 0,
        };
        let bound = self.literal_value(literal)?;
        self.step_bytes(bytes)?;
        Ok(bound)
    }

    fn literal_value(&mut self, literal: &Literal) -> Result<Expression, SqlError> {
        Ok(match literal {
            Literal::Null => Expression::null(),
            Literal::Bool(value) => {
                Expression::constant(Datum::truth(*value), ResultType::truth(false))
            }
            Literal::Integer(number) => integer(*number),
            Literal::Decimal(digits) => decimal(digits),
            Literal::Float(digits) => {
                let value: f64 = digits.parse().unwrap_or(0.0);
                if !value.is_finite() {
                    return Err(SqlError::of::<1367>(&[&"double", digits]));
                }
                Expression::constant(Datum::Double(value), ResultType::of(SqlType::double(), false))
            }
            Literal::String(bytes) => self.string(self.connection(), bytes),
            Literal::National(bytes) => self.string(CollationId::UTF8MB3_GENERAL_CI, bytes),
            Literal::Introduced(introduced) => {
                introduced_literal(introduced.charset.as_str(), &introduced.value)?
            }
            Literal::Hex(bytes) | Literal::Bit(bytes) => bits(bytes),
            Literal::Temporal(kind, text) => self.temporal(*kind, text)?,
        })
    }

    fn string(&self, collation: CollationId, bytes: &[u8]) -> Expression {
        let length = match collation.charset() {
            Charset::Binary => bytes.len(),
            _ => collation::char_count(bytes),
        };
        let collating = Collating::literal(collation, bytes.is_ascii());
        let result = ResultType::text(length as u32, collating, false);
        Expression::constant(Datum::Bytes(bytes.into()), result)
    }

    /// `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`: a text that is no such value is an error.
    fn temporal(&self, kind: TemporalKind, text: &str) -> Result<Expression, SqlError> {
        let wrong = |name: &str| SqlError::of::<1525>(&[&name, &text]);
        let (value, kind, digits) = match kind {
            TemporalKind::Date => {
                let parsed = parse_date_time(text.as_bytes());
                let parsed = parsed.filter(|parsed| parsed.date_only && !parsed.garbage);
                let date = parsed.ok_or_else(|| wrong("DATE"))?.value.date;
                if date.has_zero_part() && !date.is_zero() {
                    return Err(wrong("DATE"));
                }
                (Datum::Date(date), TypeKind::Date, 0)
            }
            TemporalKind::Time => {
                let parsed = parse_time(text.as_bytes()).filter(|parsed| !parsed.garbage);
                let parsed = parsed.ok_or_else(|| wrong("TIME"))?;
                (Datum::Time(parsed.value), TypeKind::Time, parsed.digits)
            }
            TemporalKind::Timestamp => {
                let parsed = parse_date_time(text.as_bytes()).filter(|parsed| !parsed.garbage);
                let parsed = parsed.ok_or_else(|| wrong("DATETIME"))?;
                let mut moment = parsed.value;
                if let Some(minutes) = parsed.offset {
                    // What the session's clocks show at that moment.
                    let zone = TimeZone::of_offset(minutes).ok_or_else(|| wrong("DATETIME"))?;
                    let micros = zone.moment(moment).ok_or_else(|| wrong("DATETIME"))?;
                    moment = self.settings.facts.time_zone.local(micros);
                }
                (Datum::DateTime(moment), TypeKind::DateTime, parsed.digits)
            }
        };
        let sql_type = SqlType { decimals: digits.min(6), ..SqlType::new(kind, 0) };
        Ok(Expression::constant(value, ResultType::of(sql_type, false)))
    }

    pub(super) fn parameter(&mut self, number: u32) -> Expression {
        let result = self.environment.parameter(number).unwrap_or_else(|| {
            // Nobody knows yet what it will hold: a text takes every value.
            let collating = Collating::literal(self.connection(), false);
            ResultType::text(65_535, collating, true)
        });
        Expression { node: Node::Parameter(number), result }
    }

    pub(super) fn user_variable(&mut self, name: &Ident) -> Expression {
        self.bound_to_session = true;
        let name = name.as_str().to_lowercase();
        let result = self.environment.user_variable(&name).unwrap_or_else(|| {
            let text = SqlType { collation: self.connection(), ..SqlType::text(65_535) };
            ResultType::column(text, true)
        });
        Expression { node: Node::UserVariable(name.into()), result }
    }

    pub(super) fn assign(&mut self, name: &Ident, value: &Expr) -> Result<Expression, SqlError> {
        let value = self.value(value)?;
        let result = value.result.clone();
        let name: Arc<str> = name.as_str().to_lowercase().into();
        Ok(Expression { node: Node::Assign { name, value: Box::new(value) }, result })
    }
}

fn integer(number: u64) -> Expression {
    let digits = number.checked_ilog10().map_or(1, |log| log + 1);
    let sql_type = SqlType::new(TypeKind::BigInt, digits);
    match i64::try_from(number) {
        Ok(signed) => Expression::constant(Datum::Int(signed), whole_number(sql_type)),
        Err(_) => {
            let sql_type = SqlType { unsigned: true, ..sql_type };
            Expression::constant(Datum::UInt(number), whole_number(sql_type))
        }
    }
}

/// The type of a whole number as it is written, whose length is that of its text.
pub(super) fn whole_number(sql_type: SqlType) -> ResultType {
    ResultType { literal: true, ..ResultType::of(sql_type, false) }
}

fn decimal(digits: &str) -> Expression {
    // More digits than a DECIMAL holds: the largest there is, as MySQL clips it.
    let largest = Decimal::largest(Decimal::PRECISION_MAX, 0);
    let value = Decimal::parse(digits.as_bytes()).unwrap_or(largest);
    let sql_type = SqlType::decimal(value.precision(), value.scale());
    Expression::constant(Datum::Decimal(value), ResultType::of(sql_type, false))
}

/// `x'4D'` and `b'01'`: bytes, and a number where one is wanted.
fn bits(bytes: &[u8]) -> Expression {
    let collating = Collating::literal(CollationId::BINARY, bytes.is_ascii());
    let result =
        ResultType { bits: true, ..ResultType::text(bytes.len() as u32, collating, false) };
    Expression::constant(Datum::Bytes(bytes.into()), result)
}

/// `_charset'…'`: the bytes are in that character set.
fn introduced_literal(charset: &str, bytes: &[u8]) -> Result<Expression, SqlError> {
    let set = Charset::by_name(charset).ok_or_else(|| SqlError::of::<1115>(&[&charset]))?;
    let collation = set.default_collation();
    let text = match set {
        Charset::Binary => bytes.into(),
        _ => {
            let bytes = &aligned(set, bytes);
            let converted = to_utf8(set, bytes);
            if converted.first_bad.is_some() {
                return Err(invalid_text(set, bytes));
            }
            converted.bytes.into_owned()
        }
    };
    let length = if set == Charset::Binary { text.len() } else { collation::char_count(&text) };
    let collating = Collating::literal(collation, text.is_ascii());
    let result = ResultType::text(length as u32, collating, false);
    Ok(Expression::constant(Datum::Bytes(text.into()), result))
}

/// 1300, with the first bytes in hexadecimal as MySQL shows them.
fn invalid_text(set: Charset, bytes: &[u8]) -> SqlError {
    let from = collation::invalid_utf8_at(bytes).unwrap_or(0);
    let shown: String = bytes[from..].iter().take(6).map(|byte| format!("{byte:02X}")).collect();
    SqlError::of::<1300>(&[&set.name(), &shown])
}
