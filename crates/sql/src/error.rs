//! What the kernel and the parser refuse, in MySQL's words.
//!
//! # Owns
//! The mapping from [`Failure`], [`Refusal`] and [`ParseError`] to MySQL's error numbers, SQLSTATEs
//! and texts.
//! # Guarantees
//! Applications that retry on 1205 and 1213 retry exactly what may succeed when it is run again.
//! # Not here
//! Duplicate keys and rows that are not there: the executors know which value and which key.

use model::{ErrorClass, ErrorCode, Refusal};
use sql_expression::SqlError;
use sql_parser::ParseError;

use crate::kernel::{Failure, Interrupt};

/// Characters of a text that an error shows.
const NEAR_CHARACTERS: usize = 80;

/// The error a client sees for a refusal of the kernel.
pub(crate) fn of_refusal(refusal: &Refusal) -> SqlError {
    let (code, state, text) = match refusal.code {
        ErrorCode::Deadlock => {
            (1213, "40001", "Deadlock found when trying to get lock; try restarting transaction")
        }
        // Word for word, as some frameworks compare it. Who holds a lock is in `nines.locks`.
        ErrorCode::LockTimeout => return SqlError::of::<1205>(&[]),
        ErrorCode::LockUnavailable => (
            3572,
            "HY000",
            "Statement aborted because lock(s) could not be acquired immediately \
              and NOWAIT is set.",
        ),
        ErrorCode::TableExists => (1050, "42S01", "Table already exists"),
        ErrorCode::UnknownDatabase => (1049, "42000", "Unknown database"),
        ErrorCode::DatabaseExists => (1007, "HY000", "Can't create database; database exists"),
        ErrorCode::NotNull => (1048, "23000", "Column cannot be null"),
        ErrorCode::ValueOutOfRange => (1264, "22003", "Out of range value"),
        ErrorCode::RowTooLarge => (1118, "42000", "Row size too large"),
        ErrorCode::RowExists | ErrorCode::UniqueViolation => (1062, "23000", "Duplicate entry"),
        // Names are found before the kernel is asked: the table or index was there then.
        ErrorCode::SchemaChanged | ErrorCode::UnknownTable | ErrorCode::UnknownIndex => {
            (1412, "HY000", "Table definition has changed, please retry transaction")
        }
        ErrorCode::MemoryFull => (1114, "HY000", "The table is full: data memory is used up"),
        ErrorCode::TableLimit => (
            1296,
            "HY000",
            "The cluster has as many tables and unique indexes as it may have: 400,000; drop some \
              that are not needed",
        ),
        ErrorCode::DiskFull => {
            (1021, "HY000", "Disk full; waiting for someone to free some space on a node's disk")
        }
        ErrorCode::OperationLimit => (
            1197,
            "HY000",
            "The transaction has too many operations; commit more often, or raise \
              MaxDMLOperationsPerTransaction",
        ),
        ErrorCode::TransactionMemoryFull => (
            1197,
            "HY000",
            "Uncommitted changes take all the memory that they may have; commit more often, or \
              raise TransactionMemory",
        ),
        ErrorCode::ClusterStopped => (1296, "HY000", "The cluster has stopped"),
        ErrorCode::Internal => (1815, "HY000", "Internal error"),
        // What may succeed when the transaction is run again: the class every driver retries.
        _ if refusal.code.class() == ErrorClass::Temporary => {
            return detailed(1297, "HY000", "Got temporary error from NDBCLUSTER", refusal);
        }
        _ => return detailed(1296, "HY000", "Got error from NDBCLUSTER", refusal),
    };
    let message = match refusal.detail.as_str() {
        "" => text.to_owned(),
        detail => format!("{text} ({detail})"),
    };
    SqlError::new(code, state, message)
}

/// Codes without a counterpart are shown by number and text, as NDB's are.
fn detailed(code: u16, state: &'static str, text: &str, refusal: &Refusal) -> SqlError {
    let number = refusal.code as u16;
    let object = if refusal.detail.is_empty() { "" } else { ": " };
    let what = format!("{}{object}{}", refusal.code.text(), refusal.detail);
    SqlError::new(code, state, format!("{text} {number} '{what}'"))
}

impl From<Failure> for SqlError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Interrupted(Interrupt::Killed) => {
                SqlError::new(1317, "70100", "Query execution was interrupted")
            }
            Failure::Interrupted(Interrupt::TimedOut) => SqlError::new(
                3024,
                "HY000",
                "Query execution was interrupted, maximum statement execution time exceeded",
            ),
            Failure::Refused(refusal) | Failure::Aborted(refusal) => of_refusal(&refusal),
            Failure::OutcomeUnknown(transaction) => SqlError::new(
                1296,
                "HY000",
                format!(
                    "The connection to the coordinator was lost while transaction {transaction} \
                     committed; look whether its changes are there before repeating it"
                ),
            ),
        }
    }
}

/// A parser's error.
pub(crate) fn of_parser(error: &ParseError) -> SqlError {
    SqlError::new(error.code(), error.sqlstate(), error.message())
}

/// Error 1064 at this text.
pub(crate) fn unexpected(rest: &[u8]) -> SqlError {
    let rest = &rest[..rest.len().min(4 * NEAR_CHARACTERS)];
    let near: String = String::from_utf8_lossy(rest).chars().take(NEAR_CHARACTERS).collect();
    SqlError::of::<1064>(&[
        &"You have an error in your SQL syntax; check the manual that corresponds \
        to your MySQL server version for the right syntax to use",
        &near,
        &1,
    ])
}

/// Error 1235: what the grammar knows and the engine does not do yet.
pub(crate) fn unsupported(feature: &str) -> SqlError {
    SqlError::not_supported(feature)
}

/// The switch with which promises are taken that nothing keeps.
pub(crate) const IGNORE_UNSUPPORTED: &str = "nines_ignore_unsupported";

/// Error 1235, with what would be needed and how a dump is loaded that has it.
pub(crate) fn unkept_promise(what: &str, why: &str) -> SqlError {
    let text = format!(
        "This version of Nines doesn't yet support '{what}': {why}. To load a dump that has it, \
         without its effect: SET {IGNORE_UNSUPPORTED} = ON"
    );
    SqlError::new(1235, "42000", text)
}

/// Whether the same may succeed when it is tried again.
pub(crate) fn is_temporary(error: &SqlError) -> bool {
    matches!(error.code(), 1205 | 1213 | 1297 | 1412)
}
