//! Statements that a session prepares, for its client or out of texts that come again.

use sql_expression::SqlError;
use sqltype::Datum;

use super::Prepared;
use crate::error::of_parser;
use crate::hint::StatementHints;
use crate::session::Session;
use crate::traits::StatementTraits;
use crate::variables;

/// About what a prepared statement takes in memory, with its plan: for itself, and for each byte of
/// its text.
const STATEMENT_BYTES: usize = 4 << 10;
const TEXT_BYTES: usize = 16;

/// Parses one statement for a client, who keeps it: it counts, and so does its memory.
///
/// # Errors
/// 1461 and 3170 if there are too many.
pub(crate) fn parse(session: &Session, text: &str) -> Result<Prepared, SqlError> {
    let most = variables::registry::find("max_prepared_stmt_count");
    let most = most.and_then(|variable| variables::session::shown_text(session, variable, true));
    let most = most.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let counted = session.shared.directory.count_prepared(most);
    let Some(counted) = counted else { return Err(SqlError::of::<1461>(&[&most])) };
    let mut held = session.memory.hold("prepared statements");
    held.add(STATEMENT_BYTES + TEXT_BYTES * text.len())?;
    let parsed = session.parse_at(text.as_bytes(), 0);
    let parsed = parsed.map_err(|error| of_parser(&error))?;
    if !parsed.statement.traits().is_preparable || parsed.next.is_some() {
        let message = "This command is not supported in the prepared statement protocol yet";
        return Err(SqlError::new(1295, "HY000", message));
    }
    let hints = StatementHints::of(&parsed.hints, &parsed.statement);
    let count = parsed.parameter_count as usize;
    Ok(Prepared::with_hints(parsed.statement, text, count, hints, Some((counted, held))))
}

/// The statement that a text is but for its literals, with these as parameters
/// (`StatementCache::find`).
pub(crate) fn find(session: &Session, text: &[u8]) -> Option<(Prepared, Vec<Datum>)> {
    let look = || session.pauses.look().is_ok();
    session.shared.statements.find(text, session.variables.parser_mode(), &look)
}
