//! What the kernel refuses, in MySQL's words.
//!
//! # Owns
//! The mapping from [`Failure`] and [`Refusal`] to MySQL's error numbers, SQLSTATEs and texts.
//! # Guarantees
//! Applications that retry on 1205 and 1213 retry exactly what may succeed when it is run again.
//! # Not here
//! Duplicate keys and rows that are not there: the executors know which value and which key.

use model::{ErrorClass, ErrorCode, Refusal};
use sql_expression::SqlError;

use crate::kernel::{Failure, Interrupt};

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
