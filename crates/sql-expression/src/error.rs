//! Errors and warnings as MySQL clients see them: number, SQLSTATE, text.
//!
//! # Owns
//! [`SqlError`] and the table of MySQL's errors that an OLTP engine gives.
//! # Guarantees
//! Numbers, states and texts are those of MySQL 8.0, so that drivers and programs that look at them
//! do what they do with MySQL.
//! # Not here
//! What the kernel refuses is translated by `sql`.

mod table;

use std::fmt::{self, Display, Write};

pub use table::{ERRORS, ErrorText};

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    code: u16,
    state: [u8; 5],
    message: Box<str>,
}

impl SqlError {
    /// An error with a text of its own. `state` has five characters.
    pub fn new(code: u16, state: &str, message: impl Into<String>) -> Self {
        let bytes = state.as_bytes().try_into().expect("an SQLSTATE has five characters");
        Self { code, state: bytes, message: message.into().into() }
    }

    /// The error of this number in the [table](ERRORS); arguments fill the text's `%` in order.
    ///
    /// A number that is not in the table is an error of the build:
    ///
    /// ```compile_fail,E0080
    /// let _ = sql_expression::SqlError::of::<999>(&[]);
    /// ```
    pub fn of<const CODE: u16>(arguments: &[&dyn Display]) -> Self {
        Self::saying(ErrorText::numbered::<CODE>(), arguments)
    }

    /// The error of an entry of the table; arguments fill the text's `%` in order.
    pub fn saying(entry: &ErrorText, arguments: &[&dyn Display]) -> Self {
        let message = fill(entry.text, arguments).into();
        Self { code: entry.code, state: *entry.state, message }
    }

    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The SQLSTATE: five characters.
    pub fn state(&self) -> &str {
        std::str::from_utf8(&self.state).expect("an SQLSTATE is ASCII")
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// 1235: the grammar knows it, the engine does not do it yet.
    pub fn not_supported(feature: impl Display) -> Self {
        Self::of::<1235>(&[&feature])
    }

    /// 1815: a state that should be impossible, met where it must not stop the node.
    pub fn internal(what: impl Display) -> Self {
        Self::of::<1815>(&[&what])
    }

    /// 1054: no such column; `clause` as in `'field list'`.
    pub fn unknown_column(name: impl Display, clause: impl Display) -> Self {
        Self::of::<1054>(&[&name, &clause])
    }

    /// 1690: a result beyond its type; `expression` is the operation as MySQL prints it.
    pub fn out_of_range(kind: &str, expression: impl Display) -> Self {
        Self::of::<1690>(&[&kind, &expression])
    }

    /// 1292: a text that is no such value, or one only in part.
    pub fn truncated_value(kind: &str, value: impl Display) -> Self {
        Self::of::<1292>(&[&kind, &value])
    }

    /// 1411: a text that a function cannot read.
    pub fn incorrect_for_function(kind: &str, value: impl Display, function: &str) -> Self {
        Self::of::<1411>(&[&kind, &value, &function])
    }

    /// 1210: arguments that a function or statement cannot take.
    pub fn wrong_arguments(function: impl Display) -> Self {
        Self::of::<1210>(&[&function])
    }

    /// 1241: a row where a value is wanted, or of the wrong width.
    pub fn operand_columns(columns: usize) -> Self {
        Self::of::<1241>(&[&columns])
    }
}

impl Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code, self.state(), self.message)
    }
}

impl std::error::Error for SqlError {}

impl ErrorText {
    /// The table's entry with this number, if there is one.
    pub fn of(code: u16) -> Option<&'static ErrorText> {
        ErrorText::position(code).map(|at| &ERRORS[at])
    }

    /// The table's entry with this number: the compiler refuses one that is not there.
    pub const fn numbered<const CODE: u16>() -> &'static ErrorText {
        const { &ERRORS[ErrorText::position(CODE).expect("a number of the table of errors")] }
    }

    const fn position(code: u16) -> Option<usize> {
        let (mut from, mut to) = (0, ERRORS.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if ERRORS[middle].code < code {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        if from < ERRORS.len() && ERRORS[from].code == code { Some(from) } else { None }
    }
}

/// Puts arguments where `%s`, `%d`, `%u` or `%ld` stand.
fn fill(text: &str, arguments: &[&dyn Display]) -> String {
    let mut out = String::with_capacity(text.len() + 32);
    let mut arguments = arguments.iter();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let length = after.find(['s', 'd', 'u']).map_or(after.len(), |end| end + 1);
        match arguments.next() {
            Some(argument) => write!(out, "{argument}").expect("a String takes everything"),
            None => out.push_str(&after[..length]),
        }
        rest = &after[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_complete() {
        assert!(ERRORS.windows(2).all(|pair| pair[0].code < pair[1].code));
        assert!(ERRORS.iter().all(|entry| entry.state.iter().all(u8::is_ascii_alphanumeric)));
        assert!(ERRORS.len() > 200);
    }

    #[test]
    fn entries_are_found_by_number() {
        assert!(ERRORS.iter().all(|entry| ErrorText::of(entry.code) == Some(entry)));
        assert_eq!(ErrorText::numbered::<1005>(), &ERRORS[0]);
        assert_eq!([0, 1004, 1009, u16::MAX].map(ErrorText::of), [None; 4]);
    }

    #[test]
    fn arguments_fill_the_text() {
        let error = SqlError::of::<1062>(&[&"1", &"t.PRIMARY"]);
        assert_eq!(error.message(), "Duplicate entry '1' for key 't.PRIMARY'");
        assert_eq!((error.code(), error.state()), (1062, "23000"));
        let error = SqlError::of::<1136>(&[&2]);
        assert_eq!(error.message(), "Column count doesn't match value count at row 2");
        let error = SqlError::unknown_column("a%s", "field list");
        assert_eq!(error.to_string(), "ERROR 1054 (42S22): Unknown column 'a%s' in 'field list'");
    }
}
