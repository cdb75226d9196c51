//! What the SQL workers of a process share: who is connected, global variables, counters.
//!
//! # Owns
//! [`Directory`], a handle to one registry per process, and the records in it; [`Ledger`], a
//! worker's part of it, which every statement writes to.
//! # Guarantees
//! Locked for a moment at a time and never across an await. Nothing here decides what a statement
//! does, but for the global values of variables that new sessions start with. A statement locks its
//! own worker's ledger and no other: workers meet only when somebody reads the sums.
//! # Not here
//! Connections themselves: each belongs to one worker (`node`); to end one on another worker is a
//! message to it.

mod answered_kills;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ControlIndex;
use stdx::{HashMap, Instant};

use self::answered_kills::AnsweredKills;
pub(crate) use self::answered_kills::Asked;
use crate::backup_jobs::Backups;
use crate::memory::QueryMemory;
use crate::source::Sources;

/// A connection as SHOW PROCESSLIST lists it.
#[derive(Clone, Debug, Default)]
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
    /// The text of the statement it runs; empty if there is none.
    pub info: String,
    /// What the client has said of itself when it logged in: names and values.
    pub attributes: Arc<[(String, String)]>,
    /// It is a replica: its `server_id`, `report_host` and `report_port`.
    pub replica: Option<(u32, String, u16)>,
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
    /// What has come from data nodes for commands that are answered.
    pub traffic: client::Traffic,
    /// Statements that ran longer than `long_query_time`.
    pub slow_queries: u64,
    /// Connections that were to be encrypted.
    pub tls_accepts: u64,
    /// Connections that were encrypted.
    pub tls_accepted: u64,
    /// Of these, those that went on with the secrets of an earlier one.
    pub tls_resumed: u64,
}

impl Counters {
    /// Adds another worker's.
    fn add(&mut self, other: &Self) {
        let Counters {
            commands,
            questions,
            connections,
            aborted_clients,
            aborted_connects,
            bytes_received,
            bytes_sent,
            traffic,
            slow_queries,
            tls_accepts,
            tls_accepted,
            tls_resumed,
        } = other;
        commands.0.iter().for_each(|(name, count)| self.commands.add(name, *count));
        self.questions += questions;
        self.connections += connections;
        self.aborted_clients += aborted_clients;
        self.aborted_connects += aborted_connects;
        self.bytes_received += bytes_received;
        self.bytes_sent += bytes_sent;
        self.traffic.add(*traffic);
        self.slow_queries += slow_queries;
        self.tls_accepts += tls_accepts;
        self.tls_accepted += tls_accepted;
        self.tls_resumed += tls_resumed;
    }
}

/// Counts by names of commands, which are few.
#[derive(Clone, Debug, Default)]
pub struct Commands(Vec<(&'static str, u64)>);

impl Commands {
    /// One more of these.
    pub fn count(&mut self, name: &'static str) {
        self.add(name, 1);
    }

    fn add(&mut self, name: &'static str, more: u64) {
        // The same name most often lies at the same place: no text is compared then.
        let same = |of: &&'static str| std::ptr::eq(*of, name);
        let at = self.0.iter().position(|(of, _)| same(of));
        let at = at.or_else(|| self.0.iter().position(|(of, _)| *of == name));
        match at {
            Some(at) => self.0[at].1 += more,
            None => self.0.push((name, more)),
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

/// A worker's part: its connections, and what they have done.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Connections by identifier.
    pub processes: HashMap<u32, Process>,
    /// Of all connections that the worker has had.
    pub counters: Counters,
}

/// What the registry holds.
#[derive(Debug, Default)]
pub struct Registry {
    /// Of each worker that serves clients.
    ledgers: Vec<Arc<Mutex<Ledger>>>,
    /// The most connections at a time.
    pub connections_peak: usize,
    /// Values of the server's variables, by lower-case name, as text: those that the process was
    /// started with, and over them those that all SQL nodes share.
    pub globals: BTreeMap<String, String>,
    /// Those that the process was started with, once shared ones lie over them.
    configured: Option<BTreeMap<String, String>>,
    /// The cluster state whose shared values these are.
    adopted: ControlIndex,
    /// Counts changes of `globals`.
    pub globals_version: u64,
    /// When the process began to serve.
    pub started: Instant,
    /// KILLs of other SQL nodes, and what they were answered.
    pub(crate) answered_kills: AnsweredKills,
}

impl Registry {
    /// Lays values that all SQL nodes share over those that the process was started with; none is
    /// NULL. False if a later state's are there, or nothing is different.
    pub(crate) fn adopt<'a>(
        &mut self,
        at: ControlIndex,
        values: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> bool {
        if at < self.adopted {
            return false;
        }
        self.adopted = at;
        let mut globals = self.configured.get_or_insert_with(|| self.globals.clone()).clone();
        for (name, value) in values {
            match value {
                Some(value) => globals.insert(name.to_owned(), value.to_owned()),
                None => globals.remove(name),
            };
        }
        let differs = globals != self.globals;
        self.globals = globals;
        self.globals_version += u64::from(differs);
        differs
    }

    /// Gives a variable a value that is this process's own, as if it had been started with it.
    pub(crate) fn configure(&mut self, name: &str, value: Option<String>) {
        for values in self.configured.iter_mut().chain([&mut self.globals]) {
            match &value {
                Some(value) => values.insert(name.to_owned(), value.clone()),
                None => values.remove(name),
            };
        }
        self.globals_version += 1;
    }

    /// The sums of all workers' counters.
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        self.ledgers.iter().for_each(|ledger| all.add(&locked(ledger).counters));
        all
    }

    /// All connections, in the order of their identifiers.
    pub fn processes(&self) -> Vec<Process> {
        let mut all = Vec::new();
        for ledger in &self.ledgers {
            let ledger = locked(ledger);
            all.extend(ledger.processes.values().cloned());
        }
        all.sort_unstable_by_key(|process| process.id);
        all
    }

    /// How many connections are open, and how many of them run a statement.
    pub fn connection_counts(&self) -> (usize, usize) {
        let (mut open, mut running) = (0, 0);
        for ledger in &self.ledgers {
            let ledger = locked(ledger);
            open += ledger.processes.len();
            running += ledger.processes.values().filter(|process| process.is_running()).count();
        }
        (open, running)
    }

    /// Whose the connection of this number is; none if there is no such connection.
    pub fn owner(&self, id: u32) -> Option<String> {
        let of_worker = |ledger: &Arc<Mutex<Ledger>>| {
            locked(ledger).processes.get(&id).map(|process| process.user.clone())
        };
        self.ledgers.iter().find_map(of_worker)
    }
}

impl Process {
    /// The statement it runs.
    pub fn statement(&self) -> Option<&String> {
        Some(&self.info).filter(|text| !text.is_empty())
    }

    /// Whether it has a command to answer.
    pub fn is_running(&self) -> bool {
        self.command != SLEEP
    }
}

/// The command of a connection that has none.
pub(crate) const SLEEP: &str = "Sleep";

/// A worker that panicked takes the process down; what it left is counts and texts.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker's handle to its ledger.
#[derive(Clone, Debug)]
pub struct OwnLedger(Arc<Mutex<Ledger>>);

impl OwnLedger {
    /// The ledger, locked. Not to be held across an await, nor while the registry is locked by the
    /// same worker, who may be adding ledgers up.
    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        locked(&self.0)
    }
}

/// A handle to the registry of the process, and to the memory of its statements.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    registry: Arc<Mutex<Registry>>,
    memory: QueryMemory,
    /// Backups and restores.
    backups: Backups,
    /// Who connects to the sources of replication.
    sources: Sources,
    /// Statements that clients have prepared.
    prepared: Arc<AtomicU64>,
    /// Changes from elsewhere that a conflict function has refused, by function.
    conflicts: Arc<[AtomicU64; CONFLICT_FUNCTIONS]>,
}

/// Conflict functions.
pub(crate) const CONFLICT_FUNCTIONS: usize = 5;

/// A prepared statement that counts for `max_prepared_stmt_count` until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedStatement(Arc<AtomicU64>);

impl Drop for CountedStatement {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Directory {
    /// The memory that all statements may keep.
    pub fn memory(&self) -> &QueryMemory {
        &self.memory
    }

    /// The backups and restores of the process.
    pub fn backups(&self) -> &Backups {
        &self.backups
    }

    /// Who connects to the sources of replication.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Changes from elsewhere that conflict functions have refused, since the process began.
    pub(crate) fn conflicts(&self) -> [u64; CONFLICT_FUNCTIONS] {
        self.conflicts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts more of them.
    pub(crate) fn count_conflicts(&self, more: [u64; CONFLICT_FUNCTIONS]) {
        for (count, more) in self.conflicts.iter().zip(more) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Statements that clients have prepared.
    pub(crate) fn prepared(&self) -> u64 {
        self.prepared.load(Ordering::Relaxed)
    }

    /// Counts one more, unless there are as many as may be.
    pub(crate) fn count_prepared(&self, most: u64) -> Option<CountedStatement> {
        let more = |count: u64| (count < most).then_some(count + 1);
        let counted = self.prepared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.ok().map(|_| CountedStatement(Arc::clone(&self.prepared)))
    }

    /// The registry, locked. Not to be held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Registry> {
        locked(&self.registry)
    }

    /// A new ledger, of a worker that begins to serve clients.
    pub fn enlist(&self) -> OwnLedger {
        let ledger = Arc::new(Mutex::default());
        self.lock().ledgers.push(Arc::clone(&ledger));
        OwnLedger(ledger)
    }
}
