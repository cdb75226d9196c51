//! The SQL node: MySQL's protocol and dialect on top of the client library.
//!
//! A connection is one task, an `async fn` that reads commands and answers them; it awaits only the
//! kernel's answers, its own connection and pauses, and is polled by the actor [`SqlNode`] when one
//! of these has come. So SQL runs to completion between awaits like everything else in a worker,
//! needs no runtime, and behaves the same under the simulation.
//!
//! # Owns
//! Connections and sessions, the SQL view of the catalog, planning, execution, variables,
//! information tables.
//! # Guarantees
//! A statement takes effect completely or not at all, and leaves its transaction as it was when it
//! fails. No input closes more than the connection it came by.
//! # Not here
//! Bytes of packets (`mysql-wire`), grammar (`sql-parser`), values and functions (`sqltype`,
//! `sql-expression`), retries and routing (`client`), sockets (`runtime`).

mod access;
mod account;
mod account_change;
mod administration;
mod admission;
mod audit;
mod authorize;
mod backup;
mod backup_jobs;
mod binlog;
mod catalog;
mod changefeed;
mod claim;
mod connection;
mod ddl;
mod definition_log;
mod directory;
mod dispatch;
mod error;
mod execute;
mod explain;
mod files;
mod hint;
mod information;
mod insert_id;
mod kernel;
mod large;
mod link;
mod logical;
mod measures;
mod memory;
mod mover;
mod node;
mod own_table;
mod pace;
mod peers;
mod plan;
mod prepared;
mod replica;
mod replication;
mod result;
mod rows;
mod sequences;
mod session;
mod show;
mod source;
pub mod spill;
mod stacks;
mod statistics;
mod temporary;
mod traits;
mod transaction;
mod variables;

pub use account::attempts::Attempts;
pub use account::own_password::{OwnPassword, PasswordFile};
pub use account::usage::Usage;
pub use admission::{
    Admission, ClientHost, EncryptionFacts, EncryptionSettings, HostEncryption, KeyAnswer,
    PasswordKey, Verifiers,
};
pub use audit::{AuditFigures, AuditLimits, AuditLog, CLASSES as AUDIT_CLASSES, Kept};
pub use backup::time::shown_time;
pub use backup_jobs::chain::{Chain, ChainBase, ChainStart, Segment, SegmentHead};
pub use backup_jobs::host::{
    BackupAnswer, BackupFiles, BackupHost, BackupKey, BackupReply, BackupRequest, Contents,
    ListedBackup, RawColumn, RawTable, SavedDatabase, SavedTable, SavedView,
};
pub use backup_jobs::{BackupPolicy, Backups};
pub use directory::{Counters, Directory, Process, Registry};
pub use files::{FileError, FileErrorKind, FilePart, FileParts, NewFile, Renaming, ServerFiles};
pub use kernel::Marks;
pub use memory::QueryMemory;
pub use node::SqlNode;
pub use pace::Clock;
pub use sequences::Sequences;
pub use session::options::{ServerAddress, SqlOptions};
pub use source::{
    Source, SourceEncryption, SourceFacts, SourceHost, SourceLog, SourceNews, SourceStart, Sources,
};
pub use stacks::{MakeStack, Stack};
pub use variables::VERSION;
