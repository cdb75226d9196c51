//! As what two values are compared, and the comparison.
//!
//! # Owns
//! [`Comparison`]: chosen when an operator is bound, from the types of both operands.
//! # Invariants
//! Constants have been converted to the kind they are compared as when the operator is bound, where
//! MySQL does so: `date_column = '2024-01-01'` compares dates.
//! # Not here
//! The order of a sort, where both values are of one type (`key`).

use std::cmp::Ordering;

use collation::CollationId;
use sqltype::number::{read_double, read_integer};
use sqltype::temporal::{date_time_of_number, parse_date_time, time_of_number};
use sqltype::{DateTime, Datum, Decimal, SqlType, Time, TypeKind};

use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::expression::{Call, Constancy, Expression, Node};
use crate::function::Function;
use crate::function::signature::{Domain, check_constants, domain_of, number_of};
use crate::key;
use crate::result_type::{Collating, ResultType, merge_collations};

/// As what two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Whole numbers, with or without sign.
    Int,
    /// Decimals.
    Decimal,
    /// Floating-point numbers.
    Double,
    /// Text under a collation; bytes under `binary`.
    Text(CollationId),
    /// Dates with time.
    DateTime,
    /// Spans of time.
    Time,
    /// JSON values.
    Json,
}

/// What kind of value an operand is, as far as comparing it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Number(Domain),
    Text,
    /// An ENUM or SET: a number beside numbers.
    Member,
    Date,
    Time,
    Json,
}

impl Comparison {
    /// As what two operands of an operator are compared. Constants among them become values of that
    /// kind.
    pub(crate) fn derive(
        operation: &str,
        left: &mut Expression,
        right: &mut Expression,
        connection: CollationId,
        context: &mut EvalContext,
    ) -> Result<Self, SqlError> {
        let (a, b) = (kind_of(&left.result), kind_of(&right.result));
        let text = |left: &Expression, right: &Expression| {
            let collatings: [Collating; 2] =
                [left.result.collating(connection), right.result.collating(connection)];
            let merged = merge_collations(operation, &collatings, true)?;
            check_constants(operation, &[left, right], &collatings, merged)?;
            Ok::<Self, SqlError>(Self::Text(merged.collation))
        };
        Ok(match (a, b) {
            (Kind::Null, Kind::Null) => Self::Text(CollationId::BINARY),
            (Kind::Null, other) => Self::alone(other, &right.result),
            (other, Kind::Null) => Self::alone(other, &left.result),
            (Kind::Json, _) => {
                json_truth(right);
                Self::Json
            }
            (_, Kind::Json) => {
                json_truth(left);
                Self::Json
            }
            (Kind::Number(a), Kind::Number(b)) => Self::numbers(operation, a.max(b), left, right),
            (Kind::Date, Kind::Date | Kind::Time) | (Kind::Time, Kind::Date) => Self::DateTime,
            (Kind::Time, Kind::Time) => Self::Time,
            (Kind::Date, Kind::Text) => date_with_text(left, right, context)?,
            (Kind::Text, Kind::Date) => date_with_text(right, left, context)?,
            (Kind::Time, Kind::Text) if time_constant(right) => Self::Time,
            (Kind::Text, Kind::Time) if time_constant(left) => Self::Time,
            (Kind::Date, Kind::Number(_)) if date_constant(left, right) => Self::DateTime,
            (Kind::Number(_), Kind::Date) if date_constant(right, left) => Self::DateTime,
            (Kind::Time, Kind::Number(_)) if time_constant(right) => Self::Time,
            (Kind::Number(_), Kind::Time) if time_constant(left) => Self::Time,
            (Kind::Number(domain), other) | (other, Kind::Number(domain)) => {
                let other_domain = match other {
                    Kind::Member => Domain::Integer,
                    Kind::Date => {
                        domain_of(if b == Kind::Date { &right.result } else { &left.result })
                    }
                    Kind::Time => {
                        domain_of(if b == Kind::Time { &right.result } else { &left.result })
                    }
                    _ => Domain::Double,
                };
                if domain == Domain::Integer && other == Kind::Text && integer_text(left, right) {
                    return Ok(Self::numbers(operation, Domain::Integer, left, right));
                }
                if domain == Domain::Decimal && other == Kind::Text && decimal_text(left, right) {
                    return Ok(Self::numbers(operation, Domain::Decimal, left, right));
                }
                Self::numbers(operation, domain.max(other_domain), left, right)
            }
            _ => text(left, right)?,
        })
    }

    /// Whether two operands that are not NULL may still have no order: a text or number among them
    /// may be no date.
    pub(crate) fn may_be_unknown(self, a: &ResultType, b: &ResultType) -> bool {
        let is_temporal = |result| matches!(kind_of(result), Kind::Date | Kind::Time);
        matches!(self, Self::DateTime | Self::Time) && !(is_temporal(a) && is_temporal(b))
    }

    /// Whether operands have more digits for it than as values: quotients among floating-point
    /// numbers.
    pub fn sees_more_digits(self, left: &Expression, right: &Expression) -> bool {
        self == Self::Double && (left.holds_quotient() || right.holds_quotient())
    }

    /// Whether the operand is compared as text beside other texts.
    pub(crate) fn is_of_text(result: &ResultType) -> bool {
        matches!(kind_of(result), Kind::Text | Kind::Member | Kind::Null)
    }

    /// The comparison of an operand with NULL, which is never made.
    fn alone(kind: Kind, result: &ResultType) -> Self {
        match kind {
            Kind::Number(Domain::Integer) => Self::Int,
            Kind::Number(Domain::Decimal) => Self::Decimal,
            Kind::Number(Domain::Double) => Self::Double,
            Kind::Date => Self::DateTime,
            Kind::Time => Self::Time,
            Kind::Json => Self::Json,
            Kind::Text | Kind::Member | Kind::Null => Self::Text(result.sql_type.collation),
        }
    }

    fn numbers(
        operation: &str,
        domain: Domain,
        left: &mut Expression,
        right: &mut Expression,
    ) -> Self {
        for side in [&mut *left, &mut *right] {
            if side.result.bits {
                let operand = std::mem::replace(side, Expression::null());
                *side = number_of(operand);
            }
        }
        // Of BETWEEN and IN only what is looked for is read as a year's digits; of CASE nothing is.
        if operation != "case" {
            year_constant(left, right);
        }
        if !matches!(operation, "case" | "between" | "in") {
            year_constant(right, left);
        }
        match domain {
            Domain::Integer => Self::Int,
            Domain::Decimal => Self::Decimal,
            Domain::Double => Self::Double,
        }
    }

    /// The comparisons of BETWEEN: of different kinds of numbers and text the widest counts for
    /// both bounds.
    pub(crate) fn of_three(first: Self, second: Self) -> [Self; 2] {
        let rank = |comparison: Self| match comparison {
            Self::Int => Some(0),
            Self::Decimal => Some(1),
            Self::Double => Some(2),
            _ => None,
        };
        match (rank(first), rank(second)) {
            (Some(a), Some(b)) => [if a < b { second } else { first }; 2],
            _ => [first, second],
        }
    }

    /// The comparison of two columns or results of these types: of hash joins and of sets.
    pub fn of_types(
        a: &ResultType,
        b: &ResultType,
        connection: CollationId,
    ) -> Result<Self, SqlError> {
        let side = |result: &ResultType| Expression {
            node: Node::Parameter(u32::MAX),
            result: result.clone(),
        };
        let mut context = EvalContext::new(Default::default(), 0, 0);
        Self::derive("=", &mut side(a), &mut side(b), connection, &mut context)
    }

    /// Compares two values with their types; `None` when one is NULL or cannot be compared.
    pub fn compare(
        &self,
        a: &Datum,
        a_type: &SqlType,
        b: &Datum,
        b_type: &SqlType,
        context: &mut EvalContext,
    ) -> Result<Option<Ordering>, SqlError> {
        Ok(Some(match (self, a, b) {
            (_, Datum::Null, _) | (_, _, Datum::Null) => return Ok(None),
            (Self::Int, Datum::Int(a), Datum::Int(b)) => a.cmp(b),
            (Self::Text(id), Datum::Bytes(a), Datum::Bytes(b)) => collation::compare(*id, a, b),
            (Self::Int, ..) => {
                let a = convert::to_integer(a, a_type, context)?;
                a.cmp(&convert::to_integer(b, b_type, context)?)
            }
            (Self::Decimal, ..) => {
                let a = convert::to_decimal(a, a_type, context)?;
                a.compare(&convert::to_decimal(b, b_type, context)?)
            }
            (Self::Double, ..) => {
                let a = convert::to_double(a, a_type, context)?;
                let b = convert::to_double(b, b_type, context)?;
                a.partial_cmp(&b).unwrap_or(Ordering::Equal)
            }
            (Self::Text(id), ..) => {
                let (a, b) = (convert::to_text(a, a_type), convert::to_text(b, b_type));
                collation::compare(*id, &a, &b)
            }
            (Self::DateTime, ..) => {
                let Some(a) = convert::to_date_time(a, a_type, context)? else { return Ok(None) };
                let Some(b) = convert::to_date_time(b, b_type, context)? else { return Ok(None) };
                a.cmp(&b)
            }
            (Self::Time, ..) => {
                let Some(a) = convert::to_time(a, a_type, context)? else { return Ok(None) };
                let Some(b) = convert::to_time(b, b_type, context)? else { return Ok(None) };
                a.cmp(&b)
            }
            (Self::Json, ..) => crate::function::compare_json(a, a_type, b, b_type)?,
        }))
    }

    /// Appends bytes that are the same for values that compare as equal. Nothing is promised about
    /// their order. False, and nothing appended, for a value that has to be converted first.
    pub fn key(&self, value: &Datum, out: &mut Vec<u8>) -> bool {
        match (self, value) {
            (Self::Int, Datum::Int(number)) => out.extend(i128::from(*number).to_be_bytes()),
            (Self::Int, Datum::UInt(number)) => out.extend(i128::from(*number).to_be_bytes()),
            (Self::Double, Datum::Double(number)) => {
                // Both zeros are equal.
                out.extend((number + 0.0).to_bits().to_be_bytes());
            }
            (Self::Double, Datum::Int(number)) => {
                out.extend((*number as f64).to_bits().to_be_bytes())
            }
            (Self::Decimal, Datum::Decimal(_) | Datum::Int(_) | Datum::UInt(_)) => {
                key::push_decimal(value, out);
            }
            (Self::Text(id), Datum::Bytes(text)) => collation::sort_key(*id, text, out),
            (Self::DateTime, Datum::DateTime(moment)) => key::push_date_time(*moment, out),
            (Self::DateTime, Datum::Date(date)) => {
                key::push_date_time(DateTime::midnight(*date), out);
            }
            (Self::Time, Datum::Time(time)) => out.extend(time.micros.to_be_bytes()),
            _ => return false,
        }
        true
    }

    /// As [`Comparison::key`], converting the value if needed; false for NULL and for values that
    /// nothing equals.
    pub fn key_of(
        &self,
        value: &Datum,
        sql_type: &SqlType,
        context: &mut EvalContext,
        out: &mut Vec<u8>,
    ) -> Result<bool, SqlError> {
        if value.is_null() {
            return Ok(false);
        }
        if self.key(value, out) {
            return Ok(true);
        }
        let converted = match self {
            Self::Int => {
                let number = convert::to_integer(value, sql_type, context)?;
                out.extend(number.to_be_bytes());
                return Ok(true);
            }
            Self::Decimal => Datum::Decimal(convert::to_decimal(value, sql_type, context)?),
            Self::Double => Datum::Double(convert::to_double(value, sql_type, context)?),
            Self::Text(_) => Datum::Bytes(convert::to_text(value, sql_type).into_owned().into()),
            Self::DateTime => match convert::to_date_time(value, sql_type, context)? {
                Some(moment) => Datum::DateTime(moment),
                None => return Ok(false),
            },
            Self::Time => match convert::to_time(value, sql_type, context)? {
                Some(time) => Datum::Time(time),
                None => return Ok(false),
            },
            Self::Json => {
                key::push_json(value, sql_type, out);
                return Ok(true);
            }
        };
        Ok(self.key(&converted, out))
    }
}

fn kind_of(result: &ResultType) -> Kind {
    match &result.sql_type.kind {
        TypeKind::Null => Kind::Null,
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => Kind::Date,
        TypeKind::Time => Kind::Time,
        TypeKind::Json => Kind::Json,
        TypeKind::Enum(_) | TypeKind::Set(_) => Kind::Member,
        _ if result.is_text() => Kind::Text,
        _ => Kind::Number(domain_of(result)),
    }
}

/// A date beside a text: compared as dates. A constant that is no date is an error.
fn date_with_text(
    date: &Expression,
    text: &mut Expression,
    context: &mut EvalContext,
) -> Result<Comparison, SqlError> {
    let Some(Datum::Bytes(bytes)) = text.as_constant() else { return Ok(Comparison::DateTime) };
    let kind = match date.result.sql_type.kind {
        TypeKind::Date => "DATE",
        TypeKind::Timestamp => "TIMESTAMP",
        _ => "DATETIME",
    };
    let wrong = || SqlError::of::<1525>(&[&kind, &sqltype::printable(bytes)]);
    let parsed = parse_date_time(bytes).ok_or_else(wrong)?;
    let value = Datum::Bytes(bytes.clone());
    let moment = convert::to_date_time(&value, &SqlType::text(0), context)?.unwrap_or_default();
    let digits = parsed.digits;
    replace_date(date, text, moment, digits);
    Ok(Comparison::DateTime)
}

/// TRUE and FALSE beside JSON are its truth values, and not the numbers 1 and 0.
fn json_truth(constant: &mut Expression) {
    let Some(value) = constant.as_constant().filter(|_| constant.result.boolean) else { return };
    let text: &[u8] = match value {
        Datum::Null => return,
        Datum::Int(0) | Datum::UInt(0) => b"false",
        _ => b"true",
    };
    let result = ResultType::of(SqlType::new(TypeKind::Json, 0), false);
    *constant = Expression::constant(Datum::Json(text.into()), result);
}

/// Makes a constant a date, or a date with time if it has one.
fn replace_date(date: &Expression, constant: &mut Expression, moment: DateTime, digits: u8) {
    let is_day = date.result.sql_type.kind == TypeKind::Date && moment.time() == Time::default();
    let (value, kind) = if is_day {
        (Datum::Date(moment.date), TypeKind::Date)
    } else {
        (Datum::DateTime(moment), TypeKind::DateTime)
    };
    let sql_type = SqlType { decimals: digits.min(6), ..SqlType::new(kind, 0) };
    *constant = Expression::constant(value, ResultType::of(sql_type, false));
}

/// Makes a constant number that is a date one; whether it was.
fn date_constant(date: &Expression, number: &mut Expression) -> bool {
    let moment = match number.as_constant() {
        Some(Datum::Int(number)) => date_time_of_number(*number),
        _ => None,
    };
    match moment {
        Some((moment, _)) => {
            replace_date(date, number, moment, 0);
            true
        }
        None => false,
    }
}

/// Makes a constant text or number that is a span of time one; whether it was.
fn time_constant(constant: &mut Expression) -> bool {
    let (time, digits) = match constant.as_constant() {
        Some(Datum::Bytes(text)) => match sqltype::temporal::parse_time(text) {
            Some(parsed) if !parsed.garbage => (parsed.value, parsed.digits),
            _ => return false,
        },
        Some(Datum::Int(number)) => match time_of_number(*number) {
            Some(time) => (time, 0),
            None => return false,
        },
        _ => return false,
    };
    let sql_type = SqlType { decimals: digits.min(6), ..SqlType::new(TypeKind::Time, 0) };
    *constant = Expression::constant(Datum::Time(time), ResultType::of(sql_type, false));
    true
}

/// A column and a constant text.
fn column_and_text<'e>(
    left: &'e mut Expression,
    right: &'e mut Expression,
) -> Option<(&'e Expression, &'e mut Expression)> {
    let (column, text) = match left.as_constant() {
        Some(_) => (&*right, left),
        None => (&*left, right),
    };
    let is_column = matches!(column.node, Node::Column { .. } | Node::Outer { .. });
    let is_text = matches!(text.as_constant(), Some(Datum::Bytes(_)));
    (is_column && is_text).then_some((column, text))
}

/// A constant text that is a decimal with no more digits behind the point than the column beside it
/// has: becomes the number.
fn decimal_text(left: &mut Expression, right: &mut Expression) -> bool {
    let Some((column, text)) = column_and_text(left, right) else { return false };
    let Some(Datum::Bytes(bytes)) = text.as_constant() else { return false };
    let of = &column.result.sql_type;
    let fits = |number: &Decimal| {
        number.round(of.decimals).compare(number).is_eq()
            && number.encode(of.length, of.decimals).is_some()
    };
    let Some(number) = Decimal::parse(bytes).filter(fits) else { return false };
    let sql_type = SqlType::decimal(number.precision(), number.scale());
    *text = Expression::constant(Datum::Decimal(number), ResultType::of(sql_type, false));
    true
}

/// A constant text that is a whole number, beside a column of such: becomes the number.
fn integer_text(left: &mut Expression, right: &mut Expression) -> bool {
    let Some((_, text)) = column_and_text(left, right) else { return false };
    let Some(Datum::Bytes(bytes)) = text.as_constant() else { return false };
    let read = read_integer(bytes);
    // Only what the floating-point comparison could not tell apart anyway is compared so.
    let exact = read.is_whole && !read.is_out_of_range;
    if !exact || read_double(bytes).is_out_of_range {
        return false;
    }
    let (value, unsigned) = match i64::try_from(read.value) {
        Ok(value) => (Datum::Int(value), false),
        Err(_) => (Datum::UInt(read.value as u64), true),
    };
    let sql_type = SqlType { unsigned, ..SqlType::big_int() };
    *text = Expression::constant(value, ResultType::of(sql_type, false));
    true
}

/// A constant of one or two digits beside a YEAR column means a year. What is computed only while
/// the statement runs, as it depends on the day or warns, is made one then.
fn year_constant(column: &Expression, constant: &mut Expression) {
    let is_year = |side: &Expression| side.result.sql_type.kind == TypeKind::Year;
    if !is_year(column) || is_year(constant) || column.as_constant().is_some() {
        return;
    }
    if let Some(value) = constant.as_constant() {
        let year = whole(value).and_then(year_of_digits);
        if let Some(year) = year {
            let result = ResultType::of(SqlType::big_int(), false);
            *constant = Expression::constant(Datum::Int(year), result);
        }
        return;
    }
    let mut is_open = |part: &Expression| {
        matches!(part.node, Node::Outer { .. } | Node::Subquery(_) | Node::Parameter(_))
    };
    let is_number = constant.result.sql_type.kind.is_integer();
    if !is_number || constant.constancy() == Constancy::Row || constant.any(&mut is_open) {
        return;
    }
    let digits = std::mem::replace(constant, Expression::null());
    let result = digits.result.clone();
    let call = Call {
        function: Function::known("year of digits"),
        arguments: Box::new([digits]),
        collation: CollationId::BINARY,
        state: 0,
    };
    *constant = Expression { node: Node::Call(Box::new(call)), result };
}

/// The year that a number of one or two digits means.
pub(crate) fn year_of_digits(number: i64) -> Option<i64> {
    match number {
        1..=69 => Some(number + 2000),
        70..=99 => Some(number + 1900),
        _ => None,
    }
}

/// A number without a fraction, as far as it may be a year.
fn whole(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int(number) => Some(*number),
        Datum::UInt(number) => i64::try_from(*number).ok(),
        Datum::Decimal(number) if number.compare(&number.floor()).is_eq() => {
            i64::try_from(number.to_i128()?).ok()
        }
        Datum::Double(number) if number.fract() == 0.0 && number.abs() < 100.0 => {
            Some(*number as i64)
        }
        _ => None,
    }
}

/// Whether an ordering is what an operator asks for.
pub(crate) fn holds(op: crate::expression::BinaryOp, order: Ordering) -> bool {
    use crate::expression::BinaryOp as Op;
    match op {
        Op::Equal | Op::NullSafeEqual => order.is_eq(),
        Op::NotEqual => order.is_ne(),
        Op::Less => order.is_lt(),
        Op::LessOrEqual => order.is_le(),
        Op::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}
