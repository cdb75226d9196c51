//! What backups take from outside: files of the host, written and read by a thread of their own.
//!
//! # Owns
//! The requests, their answers, and [`Contents`], which tells what is in a backup.
//! # Guarantees
//! A request is answered once, when it is done. A task that waits looks for the answer now and
//! then: it knows no threads.
//! # Not here
//! The form of the files, compression and encryption (the host).

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use stdx::Duration;

use super::chain::{Chain, ChainStart, Segment, SegmentHead};
use crate::kernel::{Failure, Kernel};
use sql_expression::SqlError;

/// How often a task looks for an answer.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Where an answer appears: an error is a text for the user.
pub type BackupAnswer = Arc<OnceLock<Result<BackupReply, String>>>;

/// The files of backups of a host.
pub trait BackupHost: fmt::Debug + Send + Sync {
    /// A thread that writes or reads one backup; none if the system has no more.
    fn begin(&self) -> Option<Box<dyn BackupFiles>>;

    /// Tells whoever runs the cluster what an archive has met.
    fn warn(&self, text: &str);
}

/// The thread of one backup. It ends when this is dropped; what it has written and not finished is
/// removed.
pub trait BackupFiles: fmt::Debug {
    /// Asks for something. The request comes back if there is no room for it now.
    fn ask(&self, request: BackupRequest) -> Result<BackupAnswer, BackupRequest>;
}

/// By what a backup is encrypted.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum BackupKey {
    /// It is not.
    #[default]
    None,
    /// A key made from this text.
    Passphrase(Box<[u8]>),
    /// The key in this file of the host.
    File(String),
}

impl fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Passphrase(_) => "Passphrase(…)",
            Self::File(_) => "File(…)",
        })
    }
}

/// What a thread is asked for.
#[derive(Debug)]
pub enum BackupRequest {
    /// A new backup in a directory, which is not there or empty.
    Create {
        /// The directory.
        place: String,
        /// What it is encrypted by.
        key: BackupKey,
    },
    /// The rows of a table follow; what was written of it before counts no more.
    Table(usize),
    /// Rows of the table, as `rows` encodes them.
    Rows(Vec<u8>),
    /// All rows are written: the backup is complete when this is done.
    Finish(Box<Contents>),
    /// Removes what was written.
    Discard,
    /// Reads a backup and checks every byte of it.
    Open {
        /// The directory.
        place: String,
        /// What it is encrypted by.
        key: BackupKey,
    },
    /// The rows of a table are to be read, from the first.
    Rewind(usize),
    /// The next rows of the table.
    Next,
    /// The backups in a directory.
    List(String),
    /// Sees to a place for archives: makes the directory if it is not there, and tries the key.
    PrepareArchive {
        /// The directory.
        place: String,
        /// What the archive is encrypted by.
        key: BackupKey,
    },
    /// A new chain in a place for archives; its segments follow.
    BeginChain {
        /// The place for archives.
        place: String,
        /// What it is encrypted by.
        key: BackupKey,
        /// What it begins with.
        start: ChainStart,
    },
    /// A chain that is there; segments behind its last one follow.
    ResumeChain {
        /// The place of the chain.
        place: String,
        /// What it is encrypted by.
        key: BackupKey,
    },
    /// A segment behind all others.
    Append(Segment),
    /// The chains in a place for archives, to be read.
    OpenArchive {
        /// The place for archives, or of one chain.
        place: String,
        /// What it is encrypted by.
        key: BackupKey,
    },
    /// The changes of some segments of one of these chains are to be read.
    Replay {
        /// Its place in the list.
        chain: usize,
        /// The numbers of the segments, first and last.
        segments: (u64, u64),
    },
    /// The next portion of the changes.
    NextChanges,
}

/// What a thread answers.
#[derive(Debug)]
pub enum BackupReply {
    /// It is done.
    Done,
    /// It is done; the backup has so many bytes.
    Finished(u64),
    /// The backup is whole; this is in it.
    Contents(Box<Contents>),
    /// Rows; none after the last.
    Rows(Option<Vec<u8>>),
    /// What is in a directory.
    Listing(Vec<ListedBackup>),
    /// The chain that segments are added to.
    Chain(Box<Chain>),
    /// Chains, by the times when they began.
    Chains(Vec<Chain>),
    /// Records of a segment, which was checked before; none after the last.
    Changes(Option<(SegmentHead, Vec<u8>)>),
}

/// A backup, as a list of backups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBackup {
    /// Its directory.
    pub place: String,
    /// When it was begun: microseconds since 1970 UTC.
    pub began: i64,
    /// The epoch that it shows.
    pub epoch: u64,
    /// Its size.
    pub bytes: u64,
    /// It is encrypted.
    pub is_encrypted: bool,
    /// `complete`, or why it is none.
    pub state: String,
}

/// What is in a backup, but for its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The version of the program that wrote it.
    pub version: String,
    /// The epoch whose state it is.
    pub epoch: u64,
    /// When it was begun and ended: microseconds since 1970 UTC.
    pub began: i64,
    /// See `began`.
    pub ended: i64,
    /// What was asked for: `ALL`, or names.
    pub subject: String,
    /// What tells its cluster from others; empty if that is not known.
    #[serde(default)]
    pub cluster: String,
    /// Databases.
    pub databases: Vec<SavedDatabase>,
    /// Tables; their rows are numbered by their places in this list.
    pub tables: Vec<SavedTable>,
    /// Views.
    pub views: Vec<SavedView>,
    /// Accounts, as the catalog keeps them: names and texts.
    pub accounts: Vec<(String, String)>,
    /// The chain of an archive that it belongs to: then its rows are those of the kernel, and all
    /// tables are in it, also those that nobody sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
}

/// A database of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedDatabase {
    /// Its name.
    pub name: String,
    /// What the catalog keeps of it.
    pub text: String,
}

/// A table of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTable {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// What the catalog keeps of it: CREATE TABLE.
    pub text: String,
    /// The columns whose values each row has, by name.
    pub columns: Vec<String>,
    /// Rows.
    pub rows: u64,
    /// No value of AUTO_INCREMENT from this one on has been given out.
    pub next: Option<u64>,
    /// Of a backup that belongs to an archive: the table as the kernel knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawTable>,
}

/// A table of the kernel, as archives keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawTable {
    /// Its identity.
    pub id: u32,
    /// Its columns, without holes, in the order of the names of the saved table.
    pub columns: Vec<RawColumn>,
    /// The columns of its primary key.
    pub key: Vec<u16>,
    /// The column of the references to large values, if it has some.
    pub references: Option<u16>,
    /// The table of the parts of its large values, if it has one.
    pub parts: Option<u32>,
    /// Users see it.
    pub is_shown: bool,
}

/// A column of the kernel, as archives keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawColumn {
    /// Its number.
    pub id: u16,
    /// The value of rows that are older than the column, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fill: String,
}

/// A view of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedView {
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// What the catalog keeps of it: CREATE VIEW.
    pub text: String,
}

/// Error 1105 with what the host says: a backup cannot be written or read.
pub(crate) fn failed(why: &str) -> SqlError {
    SqlError::new(1105, "HY000", why)
}

/// Asks, and waits for room.
pub(crate) async fn ask(
    kernel: &Kernel,
    files: &dyn BackupFiles,
    mut request: BackupRequest,
) -> Result<BackupAnswer, Failure> {
    loop {
        match files.ask(request) {
            Ok(answer) => return Ok(answer),
            Err(back) => request = back,
        }
        kernel.sleep(LOOK_AGAIN).await?;
    }
}

/// Waits for an answer.
pub(crate) async fn answered(
    kernel: &Kernel,
    mut answer: BackupAnswer,
) -> Result<BackupReply, SqlError> {
    loop {
        match given(answer) {
            Ok(reply) => return reply,
            Err(later) => answer = later,
        }
        kernel.sleep(LOOK_AGAIN).await?;
    }
}

/// An answer, or the promise of it while a thread of the host is at work.
pub(crate) fn given(answer: BackupAnswer) -> Result<Result<BackupReply, SqlError>, BackupAnswer> {
    // The thread holds it no more.
    let slot = Arc::try_unwrap(answer)?;
    let reply = slot.into_inner();
    let reply = reply.unwrap_or_else(|| Err("the thread of the backup is gone".into()));
    Ok(reply.map_err(|why| failed(&why)))
}

/// Asks, and waits until it is done.
pub(crate) async fn done(
    kernel: &Kernel,
    files: &dyn BackupFiles,
    request: BackupRequest,
) -> Result<BackupReply, SqlError> {
    let answer = ask(kernel, files, request).await?;
    answered(kernel, answer).await
}
