//! What is wrong with a statement, in MySQL's words.

use std::fmt;

/// Why a statement was not parsed: what a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    code: u16,
    sqlstate: &'static str,
    message: String,
}

impl ParseError {
    /// MySQL's error number.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The SQLSTATE that belongs to the number.
    pub fn sqlstate(&self) -> &'static str {
        self.sqlstate
    }

    /// The text, complete.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The text is not SQL from `at` on.
    pub(crate) fn syntax(sql: &[u8], at: usize) -> Self {
        let complaint = "You have an error in your SQL syntax; check the manual that corresponds \
                         to your MySQL server version for the right syntax to use";
        Self::near(complaint, sql, at)
    }

    /// The text nests deeper than the parser goes.
    pub(crate) fn too_deep(sql: &[u8], at: usize) -> Self {
        Self::near("memory exhausted", sql, at)
    }

    /// A complaint about the text from `at` on.
    pub(crate) fn near(complaint: &str, sql: &[u8], at: usize) -> Self {
        let at = at.min(sql.len());
        // MySQL cuts at 80 bytes; a character that would be cut in two is left out.
        let mut rest = &sql[at..sql.len().min(at + NEAR_SIZE_MAX)];
        if at + NEAR_SIZE_MAX < sql.len() {
            while rest.len() > NEAR_SIZE_MAX - 4 && sql[at + rest.len()] & 0xC0 == 0x80 {
                rest = &rest[..rest.len() - 1];
            }
        }
        let line = 1 + sql[..at].iter().filter(|byte| **byte == b'\n').count();
        let rest = String::from_utf8_lossy(rest);
        Self {
            code: 1064,
            sqlstate: "42000",
            message: format!("{complaint} near '{rest}' at line {line}"),
        }
    }

    /// There is nothing but white space and comments.
    pub(crate) fn empty() -> Self {
        Self { code: 1065, sqlstate: "42000", message: "Query was empty".to_string() }
    }

    /// The work was ended from outside.
    pub(crate) fn interrupted() -> Self {
        let message = "Query execution was interrupted".to_string();
        Self { code: 1317, sqlstate: "70100", message }
    }

    /// A name is not text.
    pub(crate) fn invalid_name(bytes: &[u8]) -> Self {
        let valid = std::str::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
        let mut shown = String::new();
        for byte in bytes[valid..].iter().take(6) {
            shown.push_str(&format!("\\x{byte:02X}"));
        }
        let message = format!("Invalid utf8mb4 character string: '{shown}'");
        Self { code: 1300, sqlstate: "HY000", message }
    }

    /// A subquery in FROM has no name.
    pub(crate) fn derived_without_alias() -> Self {
        let message = "Every derived table must have its own alias".to_string();
        Self { code: 1248, sqlstate: "42000", message }
    }

    /// JSON_TABLE without alias.
    pub(crate) fn table_function_without_alias() -> Self {
        let message = "Every table function must have an alias.".to_string();
        Self { code: 3667, sqlstate: "42000", message }
    }

    /// EXPLAIN has no such FORMAT.
    pub(crate) fn unknown_explain_format(name: &str) -> Self {
        let message = format!("Unknown EXPLAIN format name: '{name}'");
        Self { code: 1791, sqlstate: "HY000", message }
    }

    /// Two clauses do not go together.
    pub(crate) fn incorrect_usage(one: &str, other: &str) -> Self {
        let message = format!("Incorrect usage of {one} and {other}");
        Self { code: 1221, sqlstate: "HY000", message }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code, self.sqlstate, self.message)
    }
}

impl std::error::Error for ParseError {}

const NEAR_SIZE_MAX: usize = 80;
