//! Why a value was not encoded or decoded.

use std::fmt;

/// Why a value cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The receiver's version does not know it.
    Newer {
        /// The type and variant.
        what: &'static str,
        /// The version that brought it.
        since: u16,
    },
    /// It is meant for this process only.
    Local {
        /// The type and variant.
        what: &'static str,
    },
    /// Types that contain themselves, nested deeper than [`crate::DEPTH_MAX`].
    Depth,
    /// It has no form in bytes: a number that JSON does not have.
    Unspeakable {
        /// The type.
        what: &'static str,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Newer { what, since } => {
                write!(f, "{what} is not known before protocol version {since}")
            }
            EncodeError::Local { what } => write!(f, "{what} stays in its process"),
            EncodeError::Depth => f.write_str("nested too deep"),
            EncodeError::Unspeakable { what } => write!(f, "{what} cannot be said in bytes"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// Why bytes are no value: what was read, where, and what is wrong with it. Never the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    problem: Problem,
    /// The innermost type with a name.
    what: &'static str,
    at: usize,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The input ends within the value.
    Truncated,
    /// A length is larger than what is left.
    Length,
    /// A number does not fit its type.
    Range,
    /// No variant of the agreed version has this tag.
    Tag(u8),
    /// Text that is not UTF-8.
    Text,
    /// Types that contain themselves, nested deeper than [`crate::DEPTH_MAX`].
    Depth,
    /// A variant that never leaves a process.
    Local,
    /// The value breaks a rule of its type.
    Invalid,
    /// Something follows the value.
    Trailing,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(problem: Problem, what: &'static str, at: usize) -> Self {
        Self(Box::new(Details { problem, what, at }))
    }

    /// Names what was being read more exactly than the reader does.
    #[cold]
    #[must_use]
    pub fn within(mut self, what: &'static str) -> Self {
        self.0.what = what;
        self
    }

    /// What is wrong.
    pub fn problem(&self) -> Problem {
        self.0.problem
    }

    /// Where: bytes from the start of the input.
    pub fn offset(&self) -> usize {
        self.0.at
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.0.what, self.0.at)?;
        match self.0.problem {
            Problem::Truncated => f.write_str("the input ends"),
            Problem::Length => f.write_str("longer than the input"),
            Problem::Range => f.write_str("the number does not fit"),
            Problem::Tag(tag) => write!(f, "no variant has tag {tag}"),
            Problem::Text => f.write_str("not UTF-8"),
            Problem::Depth => f.write_str("nested too deep"),
            Problem::Local => f.write_str("never sent between processes"),
            Problem::Invalid => f.write_str("breaks a rule of its type"),
            Problem::Trailing => f.write_str("something follows"),
        }
    }
}

impl std::error::Error for DecodeError {}
