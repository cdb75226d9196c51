//! What FIELDS and LINES say of a file, for LOAD DATA and INTO OUTFILE alike.
//!
//! # Guarantees
//! The same words mean the same to both: what one writes, the other reads.

use sql_parser::ast::FileFormat;

/// Bytes around the values of a file; where nothing is said, those of MySQL.
#[derive(Debug)]
pub(super) struct Separators {
    /// Behind a field that is not the last one of its line.
    pub(super) fields_end: Vec<u8>,
    /// Around a field.
    pub(super) enclosed: Option<u8>,
    /// Before a byte that would mean something else.
    pub(super) escaped: Option<u8>,
    /// Before a line.
    pub(super) lines_start: Vec<u8>,
    /// Behind a line.
    pub(super) lines_end: Vec<u8>,
}

impl Separators {
    pub(super) fn of(format: &FileFormat) -> Self {
        let bytes = |given: &Option<Box<[u8]>>, default: &[u8]| {
            given.as_ref().map_or_else(|| default.to_vec(), |given| given.to_vec())
        };
        Self {
            fields_end: bytes(&format.fields_terminated, b"\t"),
            enclosed: bytes(&format.fields_enclosed, b"").first().copied(),
            escaped: bytes(&format.fields_escaped, b"\\").first().copied(),
            lines_start: bytes(&format.lines_starting, b""),
            lines_end: bytes(&format.lines_terminated, b"\n"),
        }
    }
}
