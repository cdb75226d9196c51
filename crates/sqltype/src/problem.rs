//! What goes wrong with a value: warnings, and errors in strict mode. MySQL's numbers and texts.

use std::fmt;

/// A warning or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// MySQL's number.
    pub code: u16,
    /// The text, as a client sees it.
    pub message: String,
    /// A note: of no consequence in any mode.
    pub is_note: bool,
}

impl Problem {
    /// A problem that is an error where strictness asks for one.
    pub fn new(code: u16, message: String) -> Self {
        Self { code, message, is_note: false }
    }

    /// A problem that is never more than a note.
    pub fn note(code: u16, message: String) -> Self {
        Self { code, message, is_note: true }
    }

    /// 1292: text or a number that is only in part, or not at all, what it is taken for.
    pub fn truncated_incorrect(kind: &str, value: &[u8]) -> Self {
        Self::new(1292, format!("Truncated incorrect {kind} value: '{}'", printable(value)))
    }

    /// 1292: text that is no temporal value.
    pub fn incorrect_temporal(kind: &str, value: &[u8]) -> Self {
        Self::new(1292, format!("Incorrect {kind} value: '{}'", printable(value)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// Warnings of a statement in the making. All are counted, the first are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    list: Vec<Problem>,
    count: u64,
}

impl Problems {
    /// How many are kept: `@@max_error_count`.
    pub const KEPT_MAX: usize = 1024;

    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn add(&mut self, problem: Problem) {
        self.count += 1;
        if self.list.len() < Self::KEPT_MAX {
            self.list.push(problem);
        }
    }

    /// Those that were kept.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes out those that were kept, and starts over.
    pub fn take(&mut self) -> Vec<Problem> {
        self.count = 0;
        std::mem::take(&mut self.list)
    }
}

/// A value in a message: at most 128 bytes; what is not UTF-8 or not printable as `\xHH`.
pub fn printable(value: &[u8]) -> String {
    const SHOWN: usize = 128;
    let mut text = String::new();
    let mut shown = 0;
    for chunk in value.utf8_chunks() {
        for char in chunk.valid().chars() {
            shown += char.len_utf8();
            if shown > SHOWN {
                return text;
            }
            match char {
                '\0'..' ' | '\x7F' => text.push_str(&format!("\\x{:02X}", u32::from(char))),
                _ => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            shown += 1;
            if shown > SHOWN {
                return text;
            }
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

/// The beginning of a string that a character set does not have: six bytes, those beyond ASCII as
/// `\xHH`, and dots when there are more.
pub fn printable_start(value: &[u8]) -> String {
    let mut text = String::new();
    for byte in value.iter().take(6) {
        match byte {
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02X}")),
        }
    }
    if value.len() > 6 {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_messages() {
        assert_eq!(
            Problem::truncated_incorrect("DOUBLE", b"12x").message,
            "Truncated incorrect DOUBLE value: '12x'"
        );
        assert_eq!(printable("é\n\u{FF}".as_bytes()), "é\\x0Aÿ");
        assert_eq!(printable(b"a\xFF"), "a\\xFF");
        assert_eq!(printable(&[b'x'; 500]).len(), 128);
        assert_eq!(printable_start("a😀bcd".as_bytes()), "a\\xF0\\x9F\\x98\\x80b...");
        assert_eq!(printable_start(b"\xFF"), "\\xFF");
    }

    #[test]
    fn all_are_counted_some_are_kept() {
        let mut problems = Problems::new();
        for _ in 0..2000 {
            problems.add(Problem::note(1265, String::new()));
        }
        assert_eq!((problems.count(), problems.list().len()), (2000, Problems::KEPT_MAX));
        assert_eq!(problems.take().len(), Problems::KEPT_MAX);
        assert_eq!(problems.count(), 0);
    }
}
