//! The node's disk as actors see it: requests, answers, failures.
//!
//! # Owns
//! What can be asked of a disk, and the queue of requests that the host takes.
//! # Guarantees
//! Requests of one lane are carried out one after the other, in the order in which they were made;
//! those of different lanes in any order. The operations of a request are carried out in order, up
//! to the first that fails. Each request is answered once, unless the life ends before.
//! # Not here
//! Descriptors, threads, `io_uring`: the host's. What is in the files: `ondisk`.

use std::collections::VecDeque;
use std::fmt;

use model::ActorKind;

/// One step of a request. Paths are relative to the node's data directory; their parts are
/// separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// Makes a directory, unless it is there.
    CreateDirectory {
        /// The directory.
        path: String,
    },
    /// Writes at an offset. A file that is not there is made. But for watermarks, files are written
    /// once: from their beginning to their end without a gap, and the same bytes if once more.
    /// Whoever begins a file that may be left from before removes that first. Durable only after
    /// `Sync`, its name only after `SyncDirectory`.
    Write {
        /// The file.
        path: String,
        /// Bytes from its beginning.
        offset: u64,
        /// What to write.
        bytes: Vec<u8>,
    },
    /// Sets space aside for a file of that length, without changing what it holds or its length.
    Reserve {
        /// The file, which is made if it is not there.
        path: String,
        /// Bytes.
        length: u64,
    },
    /// Makes the contents of a file durable.
    Sync {
        /// The file.
        path: String,
    },
    /// Makes the names in a directory durable: of files made, renamed and removed in it.
    SyncDirectory {
        /// The directory.
        path: String,
    },
    /// Gives a file another name in the same directory, at once; what had that name is gone.
    Rename {
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Removes a file; one that is not there is no error.
    Remove {
        /// The file.
        path: String,
    },
    /// Reads from an offset; answered with fewer bytes at the end of the file.
    Read {
        /// The file.
        path: String,
        /// Bytes from its beginning.
        offset: u64,
        /// Most bytes to read.
        length: u64,
    },
    /// Lists the files of a directory; one that is not there has none.
    List {
        /// The directory.
        path: String,
    },
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskAnswer {
    /// It was carried out.
    Done,
    /// What was read.
    Bytes(Vec<u8>),
    /// Files of a directory with their lengths, in the order of their names.
    Files(Vec<(String, u64)>),
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// There is no space left. Nothing of the operation may count as written.
    Full,
    /// There is no such file.
    Missing,
    /// Anything else. After a failed `Sync` nothing is known of what the file holds.
    Failed,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// Position of the operation that failed; those before it were carried out.
    pub at: usize,
    /// Why, as far as it matters to a program.
    pub kind: DiskErrorKind,
    /// The operation, the path and the system's words.
    pub text: String,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What an actor asks of the disk.
#[derive(Clone, Debug)]
pub struct DiskRequest {
    /// Who asks.
    pub actor: ActorKind,
    /// The actor's lane.
    pub lane: u8,
    /// The actor's name for the request.
    pub token: u64,
    /// What to do, in order.
    pub operations: Vec<DiskOperation>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct DiskReply {
    /// Who asked.
    pub actor: ActorKind,
    /// The actor's name for the request.
    pub token: u64,
    /// One answer for each operation, or the failure of one.
    pub result: Result<Vec<DiskAnswer>, DiskError>,
}

/// Requests that the host has not taken yet.
pub type DiskQueue = VecDeque<DiskRequest>;
