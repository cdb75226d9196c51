//! JSON values: reading, printing, order, and what MySQL's functions do with them.
//!
//! # Owns
//! [`Json`]; MySQL's printed form (`", "` and `": "`, members by length and then bytes of their
//! names), which is also how values are stored; path expressions; searching and changing.
//! # Guarantees
//! A value has at most [`DEPTH_MAX`] levels, so recursion over it is safe.
//! # Limits
//! A decimal, a date or a binary string that became JSON reads back from its printed form as a
//! double or a string.

mod modify;
mod parse;
mod path;
mod search;

use std::cmp::Ordering;
use std::fmt::Write;

pub use modify::Change;
pub use parse::{JsonError, Look};
pub use path::{JsonPath, Leg, Place};

use crate::decimal::Decimal;
use crate::format::push_double;

/// Most levels of arrays and objects.
pub const DEPTH_MAX: usize = 100;

/// Values, and bytes of their text, that are printed between two looks.
const LOOK_PARTS: usize = 512;
const LOOK_BYTES: usize = 64 << 10;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond the range of `Int`.
    UInt(u64),
    /// Any other number.
    Double(f64),
    /// An exact number; only values made from decimals have one.
    Decimal(Decimal),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: members in the order of [`key_order`], each name once.
    Object(Vec<(String, Json)>),
}

/// The order of member names: shorter ones first.
pub fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

impl Json {
    /// Reads JSON text.
    pub fn parse(text: &[u8]) -> Result<Json, JsonError> {
        parse::parse(text, &|| true)
    }

    /// The same; calls `look` now and then, and ends with some error when that is false.
    pub fn parse_looking(text: &[u8], look: Look<'_>) -> Result<Json, JsonError> {
        parse::parse(text, look)
    }

    /// Reads what [`Json::encode`] has written; `None` for other bytes.
    pub fn decode(stored: &[u8]) -> Option<Json> {
        parse::parse(stored, &|| true).ok()
    }

    /// The stored and printed form.
    pub fn encode(&self) -> Box<[u8]> {
        self.to_text().into_bytes().into()
    }

    /// An object of these members; of two with one name the last counts.
    pub fn object(members: impl IntoIterator<Item = (String, Json)>) -> Json {
        parse::sorted(members.into_iter().collect())
    }

    /// The member of an object.
    pub fn member(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => find_key(members, key).ok().map(|at| &members[at].1),
            _ => None,
        }
    }

    /// The printed form.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.print(&mut out);
        out
    }

    /// Appends the printed form.
    pub fn print(&self, out: &mut String) {
        self.print_looking(out, &mut |_| true);
    }

    /// The stored and printed form; calls `look` now and then, and is none when that is false.
    pub fn encode_looking(&self, look: Look<'_>) -> Option<Box<[u8]>> {
        let (mut out, mut parts, mut looked) = (String::new(), 0, 0);
        let printed = self.print_looking(&mut out, &mut |size| {
            parts += 1;
            if parts < LOOK_PARTS && size < looked + LOOK_BYTES {
                return true;
            }
            (parts, looked) = (0, size);
            look()
        });
        printed.then(|| out.into_bytes().into())
    }

    /// Appends the printed form; tells `see` after each scalar how long the text is by now, and
    /// ends when that is false.
    fn print_looking(&self, out: &mut String, see: &mut dyn FnMut(usize) -> bool) -> bool {
        match self {
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    if !item.print_looking(out, see) {
                        return false;
                    }
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    push_quoted(out, key);
                    out.push_str(": ");
                    if !value.print_looking(out, see) {
                        return false;
                    }
                }
                out.push('}');
            }
            _ => self.print_scalar(out),
        }
        see(out.len())
    }

    fn print_scalar(&self, out: &mut String) {
        match self {
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Int(value) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{value}");
            }
            Json::UInt(value) => {
                let _ = write!(out, "{value}");
            }
            Json::Double(value) => {
                let start = out.len();
                push_double(out, *value);
                // What reads back must be a double again.
                if !out[start..].contains(['.', 'e']) {
                    out.push_str(".0");
                }
            }
            Json::Decimal(value) => {
                let _ = write!(out, "{value}");
            }
            Json::String(text) => push_quoted(out, text),
            Json::Null | Json::Array(_) | Json::Object(_) => out.push_str("null"),
        }
    }

    /// JSON_PRETTY: one element per line, two blanks per level.
    pub fn to_pretty(&self) -> String {
        let mut out = String::new();
        self.print_pretty(&mut out, 0);
        out
    }

    fn print_pretty(&self, out: &mut String, level: usize) {
        let new_line = |out: &mut String, level: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", level));
        };
        match self {
            Json::Array(items) if !items.is_empty() => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    new_line(out, level + 1);
                    item.print_pretty(out, level + 1);
                }
                new_line(out, level);
                out.push(']');
            }
            Json::Object(members) if !members.is_empty() => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    new_line(out, level + 1);
                    push_quoted(out, key);
                    out.push_str(": ");
                    value.print_pretty(out, level + 1);
                }
                new_line(out, level);
                out.push('}');
            }
            _ => self.print(out),
        }
    }

    /// JSON_UNQUOTE: the text of a string, the printed form of everything else.
    pub fn unquoted(&self) -> String {
        match self {
            Json::String(text) => text.clone(),
            _ => self.to_text(),
        }
    }

    /// JSON_TYPE.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "NULL",
            Json::Bool(_) => "BOOLEAN",
            Json::Int(_) => "INTEGER",
            Json::UInt(_) => "UNSIGNED INTEGER",
            Json::Double(_) => "DOUBLE",
            Json::Decimal(_) => "DECIMAL",
            Json::String(_) => "STRING",
            Json::Array(_) => "ARRAY",
            Json::Object(_) => "OBJECT",
        }
    }

    /// JSON_LENGTH: elements or members; one for a scalar.
    pub fn length(&self) -> usize {
        match self {
            Json::Array(items) => items.len(),
            Json::Object(members) => members.len(),
            _ => 1,
        }
    }

    /// JSON_DEPTH: one for a scalar and for what is empty.
    pub fn depth(&self) -> usize {
        let deepest = match self {
            Json::Array(items) => items.iter().map(Json::depth).max(),
            Json::Object(members) => members.iter().map(|(_, value)| value.depth()).max(),
            _ => None,
        };
        deepest.map_or(1, |deepest| deepest + 1)
    }

    /// JSON_KEYS of an object.
    pub fn keys(&self) -> Option<Json> {
        match self {
            Json::Object(members) => {
                let keys = members.iter().map(|(key, _)| Json::String(key.clone()));
                Some(Json::Array(keys.collect()))
            }
            _ => None,
        }
    }

    /// The rank of its kind in comparisons; kinds that compare by value share one.
    fn rank(&self) -> u8 {
        match self {
            Json::Null => 0,
            Json::Int(_) | Json::UInt(_) | Json::Double(_) | Json::Decimal(_) => 1,
            Json::String(_) => 2,
            Json::Object(_) => 3,
            Json::Array(_) => 4,
            Json::Bool(_) => 5,
        }
    }

    /// MySQL's order: by kind, then by value; arrays element by element. The order of different
    /// objects is ours.
    pub fn compare(&self, other: &Json) -> Ordering {
        match (self, other) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::String(a), Json::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Json::Array(a), Json::Array(b)) => {
                let pairs = a.iter().zip(b).map(|(a, b)| a.compare(b));
                pairs.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (Json::Object(a), Json::Object(b)) => {
                let pair = |((a, x), (b, y)): (&(String, Json), &(String, Json))| {
                    key_order(a, b).then_with(|| x.compare(y))
                };
                let pairs = a.iter().zip(b).map(pair);
                a.len().cmp(&b.len()).then(pairs.fold(Ordering::Equal, Ordering::then))
            }
            _ => self.compare_numbers(other).unwrap_or_else(|| self.rank().cmp(&other.rank())),
        }
    }

    /// Compares two numbers; `None` when one is none.
    fn compare_numbers(&self, other: &Json) -> Option<Ordering> {
        let whole = |json: &Json| match json {
            Json::Int(value) => Some(i128::from(*value)),
            Json::UInt(value) => Some(i128::from(*value)),
            _ => None,
        };
        if let (Some(a), Some(b)) = (whole(self), whole(other)) {
            return Some(a.cmp(&b));
        }
        let double = |json: &Json| match json {
            Json::Double(value) => Some(*value),
            _ => None,
        };
        let decimal = |json: &Json| match json {
            Json::Decimal(value) => Some(*value),
            _ => whole(json).map(Decimal::from),
        };
        if let (Some(a), Some(b)) = (decimal(self), decimal(other)) {
            return Some(a.compare(&b));
        }
        match (double(self), double(other)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            (Some(a), None) => Some(compare_double(a, decimal(other)?)),
            (None, Some(b)) => Some(compare_double(b, decimal(self)?).reverse()),
            (None, None) => None,
        }
    }
}

/// Compares exactly, as far as the double fits a decimal.
fn compare_double(double: f64, decimal: Decimal) -> Ordering {
    match Decimal::from_f64(double) {
        Ok(exact) => exact.compare(&decimal),
        Err(_) => double.partial_cmp(&0.0).unwrap_or(Ordering::Equal),
    }
}

/// Where the member of this name is, or belongs.
fn find_key(members: &[(String, Json)], key: &str) -> Result<usize, usize> {
    members.binary_search_by(|(known, _)| key_order(known, key))
}

/// Appends a string in quotes: JSON_QUOTE.
pub fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            _ => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
