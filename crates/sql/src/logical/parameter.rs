//! The kinds of parameters: what of their values a plan depends on.
//!
//! # Owns
//! Which values are of one kind, their type while a statement is planned, and as what they are
//! compared.
//! # Guarantees
//! A plan that was made for values of some kinds answers for others of the same kinds as one made
//! for them.

use std::mem::{Discriminant, discriminant};

use sql_expression::{Expression, Node, ResultType};
use sqltype::number::read_integer;
use sqltype::temporal::{parse_date_time, parse_time};
use sqltype::{Datum, SqlType, TypeKind};

use crate::session::planning::PlanningView;

/// Shorter texts have one type.
const TEXT_LENGTH: u32 = 16_383;
/// In changes decimals of fewer digits have the type of those with as many: what is computed with
/// them is the same, and there is no result to be described.
const DIGITS: u32 = 18;

/// What of a parameter's value a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterKind {
    kind: Discriminant<Datum>,
    form: Form,
}

/// What besides its kind a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// Nothing.
    Any,
    /// Digits, fractions, or the form of a text.
    Own(u32),
    /// That it is a decimal of so many digits behind the point, and not of too many in all.
    Scale(u8),
}

/// The forms of texts that mean the same as a number or a moment.
mod form {
    pub(super) const ANY: u32 = 0;
    pub(super) const INTEGER: u32 = 1;
    pub(super) const DATE: u32 = 2;
    pub(super) const DATE_TIME: u32 = 3;
    /// From here on the length of a long text.
    pub(super) const LONG: u32 = 4;
}

/// As what a value is compared with something of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    AsItIs,
    AsTheOther,
    ByValue,
}

/// The kinds of these parameters.
pub(crate) fn kinds(parameters: &[Datum]) -> Vec<ParameterKind> {
    let kind =
        |value: &Datum| ParameterKind { kind: discriminant(value), form: Form::Own(form(value)) };
    parameters.iter().map(kind).collect()
}

/// The kinds of the parameters of a change.
pub(crate) fn kinds_of_change(parameters: &[Datum]) -> Vec<ParameterKind> {
    let mut kinds = kinds(parameters);
    for (kind, value) in kinds.iter_mut().zip(parameters) {
        if let Some(scale) = scale_of_common(value) {
            kind.form = Form::Scale(scale);
        }
    }
    kinds
}

/// The digits behind the point of a decimal that has not too many in all.
fn scale_of_common(value: &Datum) -> Option<u8> {
    match value {
        Datum::Decimal(number) if number.precision() <= DIGITS => Some(number.scale()),
        _ => None,
    }
}

/// Whether parameters are of these kinds.
pub(crate) fn fit(kinds: &[ParameterKind], parameters: &[Datum]) -> bool {
    let fits = |(kind, value): (&ParameterKind, &Datum)| {
        kind.kind == discriminant(value)
            && match kind.form {
                Form::Any => true,
                Form::Own(own) => own == form(value),
                Form::Scale(scale) => scale_of_common(value) == Some(scale),
            }
    };
    kinds.len() == parameters.len() && kinds.iter().zip(parameters).all(fits)
}

/// Lets parameters have any form that are an expression by themselves: they are stored as they are.
pub(crate) fn loosen<'e>(
    kinds: &mut [ParameterKind],
    expressions: Option<impl Iterator<Item = &'e Expression>>,
) {
    for expression in expressions.into_iter().flatten() {
        if let Node::Parameter(number) = expression.node
            && let Some(kind) = kinds.get_mut(number as usize)
        {
            kind.form = Form::Any;
        }
    }
}

fn form(value: &Datum) -> u32 {
    match value {
        Datum::Bytes(text) => form_of_text(text),
        Datum::Decimal(number) => number.precision() << 8 | u32::from(number.scale()),
        Datum::DateTime(moment) => u32::from(moment.micros != 0),
        _ => form::ANY,
    }
}

fn form_of_text(text: &[u8]) -> u32 {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        // Eighteen digits are in every range that matters here.
        [b'0'..=b'9', ..] if digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit) => {
            form::INTEGER
        }
        [b'0'..=b'9', ..] if text.len() == 10 && is_moment(text) => form::DATE,
        [b'0'..=b'9', ..] if text.len() == 19 && is_moment(text) => form::DATE_TIME,
        _ if text.len() > TEXT_LENGTH as usize => form::LONG + text.len() as u32,
        _ => form::ANY,
    }
}

/// Whether a text is a whole date as it is printed, or a date with a time.
fn is_moment(text: &[u8]) -> bool {
    let is_separated = text[4] == b'-' && text[7] == b'-';
    let parsed = parse_date_time(text);
    is_separated && parsed.is_some_and(|parsed| !parsed.garbage && parsed.offset.is_none())
}

/// The type of a parameter while its statement is planned.
pub(crate) fn type_of(session: PlanningView<'_>, value: &Datum) -> ResultType {
    let mut result = session.type_of(value);
    if let Datum::Bytes(text) = value
        && text.len() <= TEXT_LENGTH as usize
    {
        let collation = result.sql_type.collation;
        result.sql_type = SqlType { collation, ..SqlType::text(TEXT_LENGTH) };
    }
    result
}

/// The type of a parameter while a change is planned.
pub(crate) fn type_in_change(session: PlanningView<'_>, value: &Datum) -> ResultType {
    let mut result = type_of(session, value);
    if let Some(scale) = scale_of_common(value) {
        result.sql_type = SqlType::decimal(DIGITS, scale);
    }
    result
}

/// Whether a value is a text that says a whole number or a time, beside a column of such.
pub(crate) fn says(value: &Datum, other: &SqlType) -> bool {
    let Datum::Bytes(text) = value else { return false };
    if other.kind.is_integer() {
        let read = read_integer(text);
        return read.is_whole && !read.is_out_of_range;
    }
    other.kind == TypeKind::Time && parse_time(text).is_some_and(|parsed| !parsed.garbage)
}

/// As what a value is compared with something of this type: a text that is a number or a moment
/// is one, so that it can be looked up; any other text depends on what it says.
pub(crate) fn compared(value: &Datum, other: &SqlType) -> Compared {
    let Datum::Bytes(text) = value else {
        // Digits that are a moment or a year are one, others are a number.
        let is_number = !matches!(
            value,
            Datum::Null | Datum::Date(_) | Datum::DateTime(_) | Datum::Time(_) | Datum::Json(_)
        );
        let is_read = other.kind.is_temporal() || other.kind == TypeKind::Year;
        return if is_number && is_read { Compared::ByValue } else { Compared::AsItIs };
    };
    match (&other.kind, form_of_text(text)) {
        (kind, form::INTEGER) if kind.is_integer() => Compared::AsTheOther,
        (TypeKind::Date, form::DATE)
        | (TypeKind::DateTime | TypeKind::Timestamp, form::DATE | form::DATE_TIME) => {
            Compared::AsTheOther
        }
        (kind, _) if kind.is_string() => Compared::AsItIs,
        _ => Compared::ByValue,
    }
}
