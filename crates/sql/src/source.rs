//! What replication takes from outside: connections to sources, held by threads of the host.
//!
//! # Owns
//! The interface of a host that connects to servers whose binary logs are followed.
//! # Guarantees
//! News of a connection come in the order in which they happened. A task that waits looks for them
//! now and then: it knows no threads.
//! # Not here
//! Sockets, logins and encryption (the host), what events mean (`replica`).

use std::fmt;
use std::sync::{Arc, OnceLock};

/// Connects to sources.
pub trait SourceHost: fmt::Debug + Send + Sync {
    /// Begins to connect, and then to read the binary log. None if the system has no more threads.
    fn follow(&self, source: Source) -> Option<Box<dyn SourceLog>>;

    /// Tells whoever runs the cluster what a channel has met.
    fn warn(&self, text: &str);
}

/// A binary log that is read. The connection ends when this is dropped.
pub trait SourceLog: fmt::Debug {
    /// What has come since this was asked last. The reader waits for the source, and for this when
    /// it has much at hand.
    fn take(&self) -> Vec<SourceNews>;
}

/// A server that is followed.
#[derive(Clone, Default)]
pub struct Source {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The account that reads.
    pub user: String,
    /// Its password.
    pub password: String,
    /// How the connection is encrypted.
    pub encryption: SourceEncryption,
    /// The `server_id` that the reader has.
    pub server_id: u32,
    /// The uuid that the reader has, as text.
    pub uuid: String,
    /// Seconds between heartbeats of a source that has nothing to tell.
    pub heartbeat_millis: u64,
    /// Seconds without a word after which the connection is given up.
    pub silence_millis: u64,
    /// Where to begin.
    pub from: SourceStart,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("host", &self.host).finish_non_exhaustive()
    }
}

/// How a connection to a source is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceEncryption {
    /// It is.
    pub is_wanted: bool,
    /// The name in the certificate has to be that of the host.
    pub verifies_name: bool,
    /// Without encryption the password may be sent encrypted by a key that the source tells.
    pub asks_key: bool,
    /// The file of authorities, one of which has signed the certificate of the source.
    pub authorities: Option<String>,
}

/// Where reading begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceStart {
    /// The beginning of the oldest file.
    #[default]
    Oldest,
    /// A file, and a position in it.
    Position(String, u64),
    /// Behind these transactions: the text of a set of MySQL's, and its encoded form.
    Gtids(String, Vec<u8>),
    /// Behind these transactions of MariaDB, as `domain-server-number`.
    MariadbGtids(String),
    /// By GTIDs, of which there are none yet: the whole log, of whichever kind.
    FirstGtid,
}

/// What happens on a connection to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceNews {
    /// The account has logged in.
    Connected(SourceFacts),
    /// An event, with its checksum if there are some.
    Event(Vec<u8>),
    /// The connection is over.
    Ended {
        /// MySQL's number of the error.
        code: u16,
        /// Why.
        why: String,
        /// Another attempt would end the same way.
        is_final: bool,
    },
}

/// What a source says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFacts {
    /// `version`.
    pub version: String,
    /// `server_id`.
    pub server_id: u32,
    /// `server_uuid`; empty where there is none.
    pub uuid: String,
    /// Events have checksums.
    pub has_checksums: bool,
}

/// The host of a process that connects to sources, if it has one.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<OnceLock<Arc<dyn SourceHost>>>);

impl Sources {
    /// Has connections made by this host. The first one counts.
    pub fn serve_by(&self, host: Arc<dyn SourceHost>) {
        // A second one has nothing to say.
        let _ = self.0.set(host);
    }

    pub(crate) fn host(&self) -> Option<Arc<dyn SourceHost>> {
        self.0.get().cloned()
    }
}
