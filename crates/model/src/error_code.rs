//! The registry of refusals: stable number, class, text and advice of everything the kernel says no
//! with. `docs/reference/error-codes.md` is generated from the table below.
//!
//! The class alone answers a client's two questions: may I retry, and did it commit?

use std::fmt;

use codec::{
    Codec, Decode, DecodeError, Definition, Describe, Encode, Format, Problem, Reader, Shape,
    Writer,
};
use serde::{Deserialize, Serialize};

/// What a refusal means to the one who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// Nothing was committed; the same transaction may succeed when run again.
    Temporary,
    /// Nothing was committed; running it again gives the same answer.
    Permanent,
    /// Whether the transaction committed is not known here; ask for its outcome.
    OutcomeUnknown,
    /// Nothing was committed; a limit is reached; retry later or raise the limit.
    Overload,
    /// The statement is at fault: data or definition.
    UserError,
    /// A bug; please report.
    Internal,
}

macro_rules! error_codes {
    ($(($number:literal, $name:ident, $class:ident, $text:literal, $advice:literal),)*) => {
        /// Why something was refused. Numbers are stable.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum ErrorCode {
            $(
                #[doc = $text]
                $name = $number,
            )*
        }

        impl ErrorCode {
            /// Every code, in number order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];

            /// Its name in the source.
            fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => stringify!($name),)* }
            }

            /// The class, which decides about retries.
            pub fn class(self) -> ErrorClass {
                match self { $(ErrorCode::$name => ErrorClass::$class,)* }
            }

            /// One line, lower case.
            pub fn text(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// What the reader can do.
            pub fn advice(self) -> &'static str {
                match self { $(ErrorCode::$name => $advice,)* }
            }
        }
    };
}

error_codes! {
    (1001, RowNotFound, UserError, "no row has this key", "check the key"),
    (1002, RowExists, UserError, "a row with this primary key exists", "use upsert, or another key"),
    (1003, UniqueViolation, UserError, "a row with this unique key exists", "use another value"),
    (1004, ConditionFalse, UserError, "the row does not satisfy the condition", "read the row and decide again"),
    (1005, ValueOutOfRange, UserError, "a value does not fit its column", "check the column's type and the arithmetic"),
    (1006, NotNull, UserError, "NULL in a column that does not allow it", "give a value"),
    (1007, RowTooLarge, UserError, "the row is longer than 65,535 bytes of values, or 76,000 with what is stored beside them", "shorten its values, or keep long ones in TEXT or BLOB columns"),
    (1008, UnknownTable, UserError, "no such table", "check the name; it may have been dropped"),
    (1009, UnknownIndex, UserError, "no such index, or it is not online yet", "check the name; wait for its build"),
    (1010, TableExists, UserError, "a table or index with this name exists", "use another name"),
    (1011, BadRequest, UserError, "the request does not fit the table's definition", "read the definition again"),
    (1012, BadDefinition, UserError, "the definition breaks a limit or names an unknown column", "see the limits in the manual"),
    (1013, PrimaryKeyChange, UserError, "an update may not change the primary key", "delete and insert"),
    (1014, UnknownDatabase, UserError, "no such database", "check the name; it may have been dropped"),
    (1015, DatabaseExists, UserError, "a database with this name exists", "use another name"),
    (1016, NotPushed, UserError, "data nodes do not compute a part of the query", "write it otherwise, or SET nines_require_pushdown = OFF"),
    (2001, Deadlock, Temporary, "this transaction was chosen to break a deadlock", "run the transaction again"),
    (2002, LockTimeout, Temporary, "a lock was not granted in time", "run the transaction again"),
    (2003, LockUnavailable, Temporary, "the row is locked and the request would not wait", "try later"),
    (2004, NodeFailed, Temporary, "a node this transaction used has failed", "run the transaction again"),
    (2005, NotServing, Temporary, "this node is not serving now", "use another node, or retry"),
    (2006, StaleRoute, Temporary, "the partition has moved", "retry with the new placement"),
    (2007, SnapshotTooOld, Temporary, "the snapshot's versions are no longer kept", "open a new snapshot"),
    (2008, UnknownTransaction, Temporary, "the transaction is not open here", "run the transaction again"),
    (2009, ScanAborted, Temporary, "the scan lost a node it was reading from", "open the scan again"),
    (2010, SchemaChanged, Temporary, "the table's definition has changed", "retry with the new definition"),
    (2011, MembershipChanged, Temporary, "a replica joined while the transaction was open", "run the transaction again"),
    (2012, ShuttingDown, Temporary, "the node is leaving the cluster", "use another node"),
    (2013, OlderNode, Temporary, "a node of an older version does not know the request", "run it again; update the nodes of which `nines ctl version` shows an older one"),
    (3001, MemoryFull, Overload, "the data memory of a node is full", "delete rows, or raise DataMemory"),
    (3002, TransactionLimit, Overload, "too many open transactions on the coordinator", "retry later, or raise MaxNoOfConcurrentTransactions"),
    (3003, OperationLimit, Overload, "too many operations in one transaction", "commit more often, or raise MaxDMLOperationsPerTransaction"),
    (3004, ScanLimit, Overload, "too many open scans on the node", "retry later"),
    (3005, BatchLimit, Overload, "too many operations in one batch", "send smaller batches"),
    (3006, DiskFull, Overload, "the disk of a node is full", "free space on the node's disk; it goes on by itself"),
    (3007, NoDisk, UserError, "the cluster keeps nothing on disk", "start it with a data directory"),
    (3008, TableLimit, Overload, "the cluster has as many tables and unique indexes as it may have: 400,000", "drop tables or unique indexes that are not needed"),
    (3009, TransactionMemoryFull, Overload, "uncommitted changes take all the memory that they may have on a node", "commit more often, or raise TransactionMemory"),
    (4001, OutcomeUnknown, OutcomeUnknown, "the connection was lost while the transaction committed", "look whether its changes are there before repeating it"),
    (5001, ClusterStopped, Permanent, "the cluster has stopped: a node group has no survivor or no majority remains", "restart the cluster"),
    (9001, Internal, Internal, "an internal error", "please report it with the node's trace"),
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", *self as u16, self.text())
    }
}

impl Encode for ErrorCode {
    fn encode(&self, out: &mut Writer) {
        (*self as u16).encode(out);
    }
}

impl Decode for ErrorCode {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = input.position();
        let number = u16::decode(input)?;
        let found = Self::ALL.binary_search_by_key(&number, |code| *code as u16);
        let fail = |_| input.fail_at(Problem::Range, at).within("ErrorCode");
        found.map(|found| Self::ALL[found]).map_err(fail)
    }
}

impl Describe for ErrorCode {
    fn describe(format: &mut Format) -> Shape {
        format.define("ErrorCode", module_path!(), |_| {
            let code = |code: &ErrorCode| (u64::from(*code as u16), code.name());
            Definition::Numbers(Self::ALL.iter().map(code).collect())
        })
    }
}

/// A refusal with the object it is about.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct Refusal {
    /// The code.
    pub code: ErrorCode,
    /// Table, index, node or limit in question; who held the lock; the cycle of a deadlock.
    pub detail: String,
}

impl Refusal {
    /// A refusal with `code` about `detail`.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Self {
        Self { code, detail: String::new() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
