//! Optimizer hints: what stands in `/*+ … */` behind the first word of a query block or a change.
//!
//! # Owns
//! The hints of a comment, and the numbers of query blocks that hints name.
//! # Guarantees
//! All hints of MySQL's grammar have a form here, also those that nothing follows.
//! # Not here
//! What hints mean, and which of them contradict each other.

use super::Ident;
use crate::error::ParseError;

/// The hints of one comment, up to the first that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// The hints, in order.
    pub list: Vec<Hint>,
    /// What was wrong with the comment.
    pub complaints: Complaints,
}

/// A hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Its name, in upper case: `NO_INDEX`.
    pub name: &'static str,
    /// The query block it is for, if one stands first in its parentheses: `(@name …)`.
    pub block: Option<Ident>,
    /// What else stands there.
    pub argument: HintArgument,
}

/// What stands in the parentheses of a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintArgument {
    /// Tables, or none for all.
    Tables(Vec<HintTable>),
    /// A table and some of its indexes, or none for all.
    Indexes(HintTable, Vec<Ident>),
    /// Strategies, in upper case.
    Strategies(Vec<&'static str>),
    /// The name of the query block, or of a resource group.
    Name(Ident),
    /// Milliseconds.
    Time(u32),
    /// A variable and its value.
    Assignment(Ident, HintValue),
}

/// A table in a hint, by its alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintTable {
    /// The table.
    pub name: Ident,
    /// The query block that it stands in, if named: `t@name`.
    pub block: Option<Ident>,
}

/// The value of a variable in a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintValue {
    /// A number as written, with `K`, `M` or `G` behind it, perhaps.
    Number(Box<str>),
    /// A word.
    Name(Ident),
    /// A string.
    Text(Box<str>),
}

/// What was wrong with hints. Compares equal to all others: what was not understood is no part of
/// what a statement means.
#[derive(Clone, Debug, Default)]
pub struct Complaints(pub Vec<ParseError>);

impl PartialEq for Complaints {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Complaints {}

/// The hints of a query block, with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintedBlock {
    /// Which query block.
    pub block: u32,
    /// They stand behind SELECT, not behind the first word of a change.
    pub is_select: bool,
    /// Its hints.
    pub hints: Hints,
}

/// Which query block of a statement something is, counted from 1 by where its SELECT stands; the
/// tables of WITH count behind the query they are for. Zero for what is no part of a text. Compares
/// equal to all others.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockNumber(pub u32);

impl PartialEq for BlockNumber {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for BlockNumber {}
