//! Scalar functions: what there is, which type each gives, how each is called.
//!
//! # Owns
//! [`Function`], the tables of all functions by family, what a function sees when its type is
//! derived ([`Signature`]) and when it is evaluated ([`Frame`]).
//! # Invariants
//! A function asks its frame for its arguments as the types it wants. One that is NULL ends it with
//! NULL, unless it asks for the argument as it is.
//! # Not here
//! Operators and what the grammar treats like them (`eval`).

mod digest;
mod flow;
pub(crate) mod frame;
mod information;
pub(crate) mod json;
mod math;
mod network;
mod numeric;
pub(crate) mod regexp;
pub(crate) mod signature;
mod string;
mod temporal;
mod uuid;

use std::fmt;

pub(crate) use frame::{Evaluated, Frame, Stop};
pub(crate) use json::{
    cast_json, checked_json, compare_json, json_key, json_text, json_truth, to_json,
};
pub(crate) use signature::Signature;
pub(crate) use temporal::unit_number;

use crate::error::SqlError;
use crate::result_type::ResultType;

/// How often the value of a function can change while its arguments stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// Never.
    Pure,
    /// It depends on the session or the time of the statement.
    Statement,
    /// It may be another each time.
    Row,
}

/// A scalar function.
pub struct Function {
    /// The name, lower case.
    pub name: &'static str,
    /// How often its value can change.
    pub volatility: Volatility,
    /// Fewest and most arguments.
    pub(crate) arity: (u8, u8),
    pub(crate) derive: Derive,
    pub(crate) evaluate: Evaluate,
}

/// Gives the type of a call, and may replace arguments by what they are converted to.
pub(crate) type Derive = fn(&mut Signature<'_>) -> Result<ResultType, SqlError>;
/// Gives the value of a call.
pub(crate) type Evaluate = fn(&mut Frame<'_, '_>) -> Evaluated;

/// As many arguments as one likes.
pub(crate) const MANY: u8 = u8::MAX;

impl Function {
    /// A function of its arguments alone.
    pub(crate) const fn pure(
        name: &'static str,
        min: u8,
        max: u8,
        derive: Derive,
        evaluate: Evaluate,
    ) -> Self {
        Self { name, volatility: Volatility::Pure, arity: (min, max), derive, evaluate }
    }

    /// A function whose value depends on the session or the time of the statement.
    pub(crate) const fn of_statement(
        name: &'static str,
        min: u8,
        max: u8,
        derive: Derive,
        evaluate: Evaluate,
    ) -> Self {
        Self { name, volatility: Volatility::Statement, arity: (min, max), derive, evaluate }
    }

    /// A function whose value may be another for each call.
    pub(crate) const fn volatile(
        name: &'static str,
        min: u8,
        max: u8,
        derive: Derive,
        evaluate: Evaluate,
    ) -> Self {
        Self { name, volatility: Volatility::Row, arity: (min, max), derive, evaluate }
    }

    /// The function of this name in lower case.
    pub(crate) fn by_name(name: &str) -> Option<&'static Function> {
        FAMILIES.iter().flat_map(|family| family.iter()).find(|function| function.name == name)
    }

    /// A function that is there.
    pub(crate) fn known(name: &'static str) -> &'static Function {
        Self::by_name(name).expect("a function of the tables")
    }
}

/// Names that mean a function with another name.
pub(crate) fn synonym(name: &str) -> &str {
    match name {
        "ceil" => "ceiling",
        "character_length" => "char_length",
        "octet_length" => "length",
        "lcase" => "lower",
        "ucase" => "upper",
        "substr" | "mid" => "substring",
        "power" => "pow",
        "sha" => "sha1",
        "dayofmonth" => "day",
        "json_merge" => "json_merge_preserve",
        "rlike" => "regexp_like",
        "session_user" | "system_user" => "user",
        "schema" => "database",
        "position" => "locate",
        "current_timestamp" | "localtime" | "localtimestamp" => "now",
        "current_date" => "curdate",
        "current_time" => "curtime",
        other => other,
    }
}

/// The names of all scalar functions, in no order.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|family| family.iter()).map(|function| function.name)
}

static FAMILIES: [&[Function]; 11] = [
    flow::FUNCTIONS,
    math::FUNCTIONS,
    numeric::FUNCTIONS,
    string::FUNCTIONS,
    regexp::FUNCTIONS,
    temporal::FUNCTIONS,
    json::FUNCTIONS,
    digest::FUNCTIONS,
    network::FUNCTIONS,
    uuid::FUNCTIONS,
    information::FUNCTIONS,
];

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
