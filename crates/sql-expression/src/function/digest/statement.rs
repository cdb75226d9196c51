//! STATEMENT_DIGEST and STATEMENT_DIGEST_TEXT.
//!
//! # Invariants
//! Statements have the same digest if they have the same text without values. It is SHA-256 of that
//! text; MySQL hashes the numbers of its own tokens, which change from version to version.
//! # Not here
//! What a statement is without its values (`sql-parser`).

use sha2::{Digest, Sha256};

use super::super::frame::string;
use super::super::{Evaluated, Frame, Signature, Stop};
use super::lower_hex;
use crate::error::SqlError;
use crate::expression::Node;
use crate::result_type::{Collating, ResultType};

pub(super) fn text_type(s: &mut Signature<'_>) -> Result<ResultType, SqlError> {
    Ok(ResultType::text(u32::MAX, Collating::literal(s.connection(), false), true))
}

pub(super) fn digest(f: &mut Frame<'_, '_>) -> Evaluated {
    lower_hex(&Sha256::digest(without_values(f)?))
}

pub(super) fn digest_text(f: &mut Frame<'_, '_>) -> Evaluated {
    let text = without_values(f)?;
    f.check_size(text.len() as u64)?;
    string(text)
}

/// The text of a statement without its values.
fn without_values(f: &mut Frame<'_, '_>) -> Result<String, Stop> {
    let sql = f.text(0)?;
    let mode = f.context.facts.sql_mode.of_parser();
    match sql_parser::parse(&sql, mode) {
        Ok(_) => Ok(sql_parser::digest(&sql, mode).text),
        // What an expression has made may be nobody's business.
        Err(error) => Err(match f.argument(0).node {
            Node::Constant(_) | Node::Parameter(_) => SqlError::of::<3676>(&[&error.message()]),
            _ => SqlError::of::<3677>(&[]),
        }
        .into()),
    }
}
