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

pub use digest::BlockEncryption;
pub(crate) use frame::{Evaluated, Frame, Stop};
pub(crate) use json::{
    cast_json, checked_json, compare_json, json_key, json_text, json_truth, to_json,
};
pub(crate) use signature::Signature;
pub(crate) use temporal::{unit_number, unit_of};

use crate::error::SqlError;
use crate::expression::DeferredFunction;
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
        let mut all = FAMILIES.iter().flat_map(|(_, family)| family.iter());
        all.find(|function| function.name == name)
    }

    /// A function that is there.
    pub(crate) fn known(name: &'static str) -> &'static Function {
        Self::by_name(name).expect("a function of the tables")
    }
}

/// The function that a name means, where it is the name of no function itself.
pub(crate) fn synonym(name: &str) -> &str {
    SYNONYMS.iter().find(|(known, _)| *known == name).map_or(name, |(_, function)| function)
}

/// Names that mean a function with another name.
const SYNONYMS: [(&str, &str); 21] = [
    ("ceil", "ceiling"),
    ("character_length", "char_length"),
    ("current_date", "curdate"),
    ("current_time", "curtime"),
    ("current_timestamp", "now"),
    ("dayofmonth", "day"),
    ("json_merge", "json_merge_preserve"),
    ("lcase", "lower"),
    ("localtime", "now"),
    ("localtimestamp", "now"),
    ("mid", "substring"),
    ("octet_length", "length"),
    ("position", "locate"),
    ("power", "pow"),
    ("rlike", "regexp_like"),
    ("schema", "database"),
    ("session_user", "user"),
    ("sha", "sha1"),
    ("substr", "substring"),
    ("system_user", "user"),
    ("ucase", "upper"),
];

/// Calls that the binder makes other expressions of: family, name, fewest and most arguments.
const REWRITTEN: [(&str, &str, u8, u8); 5] = [
    ("Control and comparison", "if", 3, 3),
    ("Control and comparison", "nullif", 2, 2),
    ("Control and comparison", "isnull", 1, 1),
    ("Control and comparison", "grouping", 1, 64),
    ("Mathematics", "mod", 2, 2),
];

/// A function as the reference shows it.
pub struct Described {
    /// What it is about.
    pub family: &'static str,
    /// The name, lower case.
    pub name: &'static str,
    /// Other names of it.
    pub synonyms: Vec<&'static str>,
    /// Fewest and most arguments; no most where there may be as many as one likes.
    pub arguments: (u8, Option<u8>),
    /// How often its value can change.
    pub volatility: Volatility,
}

/// All scalar functions that are called by a name, by family.
pub fn described() -> impl Iterator<Item = Described> {
    let of_tables =
        FAMILIES.iter().flat_map(|(family, functions)| {
            let of_table = functions.iter().map(|function| {
                let Function { name, arity: (min, max), volatility, .. } = *function;
                (*family, name, (min, Some(max).filter(|max| *max != MANY)), volatility)
            });
            let rewritten = REWRITTEN.iter().filter(move |(of, ..)| of == family);
            of_table.chain(rewritten.map(|(family, name, min, max)| {
                (*family, *name, (*min, Some(*max)), Volatility::Pure)
            }))
        });
    let deferred = DeferredFunction::ALL.iter().map(|(name, _, count)| {
        ("Waiting and locks", *name, (*count, Some(*count)), Volatility::Row)
    });
    // Names with spaces and symbols belong to the grammar, as does this one.
    let is_called = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word && name != "xor"
    };
    let all = of_tables.chain(deferred).filter(move |(_, name, ..)| is_called(name));
    all.map(|(family, name, arguments, volatility)| {
        let synonyms = SYNONYMS.iter().filter(|(_, function)| *function == name);
        let synonyms = synonyms.map(|(synonym, _)| *synonym).collect();
        Described { family, name, synonyms, arguments, volatility }
    })
}

/// The names of all scalar functions, in no order.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|(_, family)| family.iter()).map(|function| function.name)
}

static FAMILIES: [(&str, &[Function]); 11] = [
    ("Control and comparison", flow::FUNCTIONS),
    ("Mathematics", math::FUNCTIONS),
    ("Numbers as text and bits", numeric::FUNCTIONS),
    ("Text", string::FUNCTIONS),
    ("Regular expressions", regexp::FUNCTIONS),
    ("Dates and times", temporal::FUNCTIONS),
    ("JSON", json::FUNCTIONS),
    ("Digests, encryption and compression", digest::FUNCTIONS),
    ("Network addresses", network::FUNCTIONS),
    ("UUIDs", uuid::FUNCTIONS),
    ("Session and server", information::FUNCTIONS),
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
