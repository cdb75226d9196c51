//! What the SQL workers of a process share: who is connected, global variables, counters.
//!
//! # Owns
//! [`Directory`], a handle to one registry per process, and the records in it.
//! # Guarantees
//! Locked for a moment at a time and never across an await. Nothing here decides what a statement
//! does, but for the global values of variables that new sessions start with.
//! # Not here
//! Connections themselves: each belongs to one worker (`node`); to end one on another worker is a
//! message to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stdx::Instant;

use crate::memory::QueryMemory;

/// A connection as SHOW PROCESSLIST lists it.
#[derive(Clone, Debug)]
pub struct Process {
    /// CONNECTION_ID().
    pub id: u32,
    /// Account name.
    pub user: String,
    /// Where from: `host:port`, or `localhost`.
    pub host: String,
    /// Default database.
    pub database: Option<String>,
    /// `Sleep`, `Query`, `Execute`, …
    pub command: &'static str,
    /// Since when it is in this command.
    pub since: Instant,
    /// What it is doing: `executing`, empty when idle.
    pub state: &'static str,
    /// The statement.
    pub info: Option<String>,
}

/// Counters of SHOW GLOBAL STATUS, over all connections since the start.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Statements executed, by command name as in `Com_select`.
    pub commands: Commands,
    /// Statements and protocol commands.
    pub questions: u64,
    /// Connection attempts.
    pub connections: u64,
    /// Connections that ended without COM_QUIT.
    pub aborted_clients: u64,
    /// Attempts to connect that failed.
    pub aborted_connects: u64,
    /// Bytes from clients.
    pub bytes_received: u64,
    /// Bytes to clients.
    pub bytes_sent: u64,
    /// What has come from data nodes, but for the last statements of those who are connected.
    pub traffic: client::Traffic,
    /// Most connections at a time.
    pub connections_peak: u32,
    /// Statements that ran longer than `long_query_time`.
    pub slow_queries: u64,
}

/// Counts by names of commands, which are few.
#[derive(Clone, Debug, Default)]
pub struct Commands(Vec<(&'static str, u64)>);

impl Commands {
    /// One more of these.
    pub fn count(&mut self, name: &'static str) {
        // The same name most often lies at the same place: no text is compared then.
        let same = |of: &&'static str| std::ptr::eq(*of, name);
        let at = self.0.iter().position(|(of, _)| same(of));
        let at = at.or_else(|| self.0.iter().position(|(of, _)| *of == name));
        match at {
            Some(at) => self.0[at].1 += 1,
            None => self.0.push((name, 1)),
        }
    }

    /// How many there were of a name.
    pub fn of(&self, name: &str) -> u64 {
        self.0.iter().find(|(of, _)| *of == name).map_or(0, |(_, count)| *count)
    }

    /// All counts, by name.
    pub fn by_name(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.0.clone();
        all.sort_unstable();
        all
    }
}

/// What the registry holds.
#[derive(Debug, Default)]
pub struct Registry {
    /// Connections by identifier.
    pub processes: BTreeMap<u32, Process>,
    /// Totals.
    pub counters: Counters,
    /// Values given by SET GLOBAL, by lower-case name, as text.
    pub globals: BTreeMap<String, String>,
    /// Counts changes of `globals`.
    pub globals_version: u64,
    /// Named locks: the connection that holds each, and how often.
    pub locks: BTreeMap<String, (u32, u32)>,
    /// When the process began to serve.
    pub started: Instant,
}

/// A handle to the registry of the process, and to the memory of its statements.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    registry: Arc<Mutex<Registry>>,
    memory: QueryMemory,
}

impl Directory {
    /// The memory that all statements may keep.
    pub fn memory(&self) -> &QueryMemory {
        &self.memory
    }

    /// The registry, locked. Not to be held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Registry> {
        // A worker that panicked takes the process down; what it left is counts and texts.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
