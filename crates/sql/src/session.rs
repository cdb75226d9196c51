//! What a connection remembers between statements.
//!
//! # Owns
//! [`Session`]: the user's place in the cluster (database, variables, transaction) and the traces
//! of the last statement (warnings, counts, generated keys).
//! # Guarantees
//! Everything a statement may change of a session is here, so that resetting the connection is
//! building it anew.
//! # Not here
//! Prepared statements and the protocol (`connection`), how transactions end (`transaction`).

pub(crate) mod abandoned;
pub(crate) mod detached;
pub(crate) mod evaluation;
mod lock_counts;
mod locks;
mod names;
pub(crate) mod options;
pub(crate) mod planning;
mod process;
mod protocol;
pub(crate) mod rules;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use actor::Encryption;
use client::Savepoint;
use model::{Epoch, TableId};
use sql_expression::{Pauses, SessionFacts, SqlError, UserVariable};
use sql_parser::{ParseError, Parsed};
use sqltype::Datum;
use stdx::{Instant, Prng};
use wire::{Inspection, Leaving};

use crate::account::book::Records;
use crate::account::login::Login;
use crate::admission::Admission;
use crate::audit::Auditor;
use crate::catalog::Definitions;
use crate::claim::Way;
use crate::definition_log::orphans::Orphans;
use crate::definition_log::{ChangeOrigin, DefinitionLog};
use crate::directory::{Counters, Directory, OwnLedger};
use crate::hint::StatementHints;
use crate::kernel::Kernel;
use crate::measures::Measures;
use crate::memory::Account;
use crate::pace::Pace;
use crate::prepared::Prepared;
use crate::prepared::cache::StatementCache;
use crate::sequences::Sequences;
use crate::statistics::Statistics;
use crate::temporary::{Leftovers, Temporaries};
use crate::variables::SessionVariables;
use crate::variables::choice::Isolation;

use abandoned::Abandoned;
use detached::Detached;
use lock_counts::{NamedLocks, Suspects};
use options::{ServerAddress, SqlOptions};

/// What the connections of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// KILLs asked for and not sent on yet: the connection, and whether only its statement.
    pub(crate) kills: RefCell<Vec<(u32, bool)>>,
    /// The process is to end, or to start again.
    pub(crate) leaving: Cell<Option<Leaving>>,
    /// What the SQL workers of the process share: connections, global variables, counters.
    pub directory: Directory,
    /// What of it this worker writes.
    pub(crate) ledger: OwnLedger,
    /// SQL definitions of tables, decoded once per version.
    pub definitions: Definitions,
    /// Accounts, read once per version.
    pub(crate) accounts: Records,
    /// When data nodes were asked last what one of them has answered.
    pub(crate) heard: Rc<Cell<Instant>>,
    /// Open records of changes of definitions that nobody holds.
    pub(crate) orphans: Rc<Orphans>,
    /// Ranges of AUTO_INCREMENT values at hand.
    pub sequences: Sequences,
    /// What logging in takes from outside.
    pub(crate) admission: Admission,
    /// The audit log, if there is one.
    pub(crate) audit: Option<Auditor>,
    /// Where the server listens.
    pub address: ServerAddress,
    /// Statements seen before, by digest.
    pub(crate) statements: StatementCache,
    /// Sizes of tables.
    pub(crate) statistics: Statistics,
    /// When a data node refused to join that is of an older version.
    pub(crate) met_older: Cell<Option<Instant>>,
    /// When long computations pause.
    pub(crate) pace: Pace,
    /// Temporary tables that nobody may own any more.
    pub(crate) leftovers: Leftovers,
    /// Tables of claims that are to be moved.
    pub(crate) way: Way,
    /// Holders of named locks that nobody knew.
    pub(crate) suspects: Suspects,
    /// Journals of copies whose processes may be gone.
    pub(crate) abandoned: Abandoned,
    /// Backups and restores that tasks of their own are to do.
    pub(crate) detached: RefCell<Vec<Detached>>,
    /// What statements took, and how they failed.
    pub(crate) measures: RefCell<Measures>,
}

/// Facts for expressions, with the version of variables and the database they are of.
type KeptFacts = (u64, Option<String>, Arc<SessionFacts>);

/// What a session is given at its birth, that no other has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// CONNECTION_ID().
    pub(crate) number: u32,
    /// For RAND() and UUID().
    pub(crate) seed: u64,
    /// Microseconds since 1970 when the worker's clock stood at zero.
    pub(crate) clock_base: i64,
}

/// One connection's state.
#[derive(Debug)]
pub(crate) struct Session {
    /// The way to the cluster.
    pub kernel: Kernel,
    /// Shared with the other connections of the worker.
    pub shared: Rc<Shared>,
    /// CONNECTION_ID().
    pub id: u32,
    /// USER(), as `user@host`.
    pub user: String,
    /// The account it has, and what that may do.
    pub(crate) login: Login,
    /// The default database.
    pub database: Option<String>,
    /// Pauses in the middle of calls, which expressions and the planner make.
    pub(crate) pauses: Pauses,
    /// System variables with this session's values.
    pub variables: SessionVariables,
    /// `@name` variables, by lower-case name.
    pub user_variables: BTreeMap<String, UserVariable>,
    /// The transaction as the user sees it.
    pub transaction: SessionTransaction,
    /// The transaction is gone, and its client has not been told so.
    pub(crate) has_lost_transaction: bool,
    /// What it keeps in memory.
    pub(crate) memory: Account,
    /// Warnings and errors of the last statement.
    pub diagnostics: Diagnostics,
    /// LAST_INSERT_ID(): the first value generated by the last statement that generated one.
    pub last_insert_id: u64,
    /// ROW_COUNT() of the last statement.
    pub row_count: i64,
    /// FOUND_ROWS() of the last SELECT.
    pub found_rows: u64,
    /// The statement under way changes rows.
    pub(crate) changes_rows: bool,
    /// Its temporary tables.
    pub(crate) temporary: Temporaries,
    /// What the binary log is to know of the statement under way.
    pub(crate) definition_log: DefinitionLog,
    /// Where its changes come from, if it is an applier's.
    pub(crate) change_origin: Option<ChangeOrigin>,
    /// `gtid_executed` and `gtid_purged`, for a statement that may ask for them.
    pub(crate) gtids: Option<(String, String)>,
    /// Its named locks.
    pub(crate) named_locks: NamedLocks,
    /// RELEASE was said: the connection ends after this answer.
    pub released: bool,
    /// CLIENT_FOUND_ROWS: UPDATE counts rows that matched, not rows that changed.
    pub count_matched: bool,
    /// The client said that it is a person: `interactive_timeout` counts.
    pub interactive: bool,
    /// Statements of PREPARE, by lower-case name.
    pub(crate) prepared: BTreeMap<String, Prepared>,
    /// What encrypts the connection, if it is encrypted.
    pub tls: Option<Rc<Encryption>>,
    /// The connection is compressed.
    pub is_compressed: bool,
    /// The client can do without descriptions of columns.
    pub knows_no_metadata: bool,
    /// Attributes the client gave of itself.
    pub attributes: Arc<[(String, String)]>,
    /// What the session has done, for SHOW SESSION STATUS.
    pub(crate) counters: Counters,
    /// Attributes the client gave of the command.
    pub(crate) query_attributes: Option<Rc<[(String, Datum)]>>,
    /// Random draws of the session.
    pub(crate) prng: Prng,
    /// The default database the client knows of.
    pub(crate) told_database: Option<String>,
    /// Facts for expressions, with the version of variables and the database they are of.
    pub(crate) facts: RefCell<Option<KeptFacts>>,
    /// The hints of the statement.
    pub(crate) hints: Option<Rc<StatementHints>>,
    /// What is wrong with them.
    pub(crate) hint_warnings: RefCell<Vec<SqlError>>,
    /// When the statement began: microseconds since 1970 UTC. NOW() of the whole statement.
    pub statement_time: i64,
    /// The same on the clock of the worker.
    pub(crate) statement_began: Instant,
}

/// The transaction as the user sees it; the kernel's begins with its first request.
#[derive(Debug, Default)]
pub(crate) struct SessionTransaction {
    /// Between BEGIN (or the first statement with autocommit off) and its end.
    pub explicit: bool,
    /// START TRANSACTION READ ONLY.
    pub read_only: bool,
    /// The snapshot that plain reads use: REPEATABLE READ, SERIALIZABLE of transactions that only
    /// read, and WITH CONSISTENT SNAPSHOT.
    pub snapshot: Option<Epoch>,
    /// The last identity that was given before the snapshot: tables above it were made after it.
    pub snapshot_before: u32,
    /// The isolation level of this transaction only, set by SET TRANSACTION before it.
    pub isolation_once: Option<Isolation>,
    /// READ ONLY or READ WRITE of the next transaction only, likewise.
    pub read_only_once: Option<bool>,
    /// Tables changed so far: reads of them see the transaction's own rows.
    pub written: Vec<TableId>,
    /// SAVEPOINTs by lower-case name, oldest first.
    pub savepoints: Vec<(String, Savepoint)>,
}

/// How serious an entry of SHOW WARNINGS is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// For information.
    Note,
    /// The statement went on.
    Warning,
    /// The statement failed.
    Error,
}

/// Warnings and errors of the last statement.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    /// The first `max_error_count` entries.
    pub entries: Vec<(Level, SqlError)>,
    /// All warnings, also those not kept.
    pub warning_count: u64,
    /// All errors.
    pub error_count: u64,
}

impl Shared {
    /// What the connections of a worker share at its beginning.
    pub(crate) fn new(options: &SqlOptions) -> Self {
        Self {
            kills: Default::default(),
            leaving: Cell::default(),
            directory: options.directory.clone(),
            ledger: options.directory.enlist(),
            definitions: Default::default(),
            accounts: Records::new(options.admission.own_password.is_some()),
            heard: Default::default(),
            orphans: Default::default(),
            sequences: options.sequences.clone(),
            admission: options.admission.clone(),
            audit: options.admission.audit.clone().map(Auditor::new),
            address: options.address.clone(),
            statements: Default::default(),
            statistics: Default::default(),
            pace: Pace::new(options.clock),
            leftovers: Default::default(),
            way: Default::default(),
            suspects: Default::default(),
            abandoned: Default::default(),
            detached: Default::default(),
            met_older: Default::default(),
            measures: Default::default(),
        }
    }
}

/// What a slice of a session's work counts as without a clock, where it pauses in calls.
const LOOK_WORK: u64 = 64;

/// Pauses of a session in the middle of calls, at which its statement is told to end.
fn pauses(kernel: &Kernel, shared: &Rc<Shared>) -> Pauses {
    let (kernel, shared) = (kernel.clone(), shared.clone());
    Pauses::new(Rc::new(move || {
        // Short statements run to their end although their client waits for no answer.
        if shared.pace.look(LOOK_WORK) {
            kernel.check_interrupt()?
        } else {
            kernel.check_kill()?
        }
        Ok(())
    }))
}

impl Session {
    /// A session as a new connection has it.
    pub(crate) fn new(kernel: Kernel, shared: Rc<Shared>, origin: Origin) -> Self {
        let Origin { number: id, seed, clock_base } = origin;
        kernel.forget_past();
        kernel.seed(seed);
        kernel.share_heard(&shared.heard);
        kernel.share_orphans(&shared.orphans);
        let variables = SessionVariables::new(&shared.directory.lock().globals);
        let memory = Account::new(shared.directory.memory());
        let pauses = pauses(&kernel, &shared);
        Self {
            kernel,
            pauses,
            shared,
            id,
            user: String::new(),
            login: Login::default(),
            database: None,
            variables,
            user_variables: BTreeMap::new(),
            transaction: SessionTransaction::default(),
            has_lost_transaction: false,
            memory,
            diagnostics: Diagnostics::default(),
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            changes_rows: false,
            temporary: Temporaries::new(seed),
            definition_log: DefinitionLog::default(),
            change_origin: None,
            gtids: None,
            named_locks: Default::default(),
            released: false,
            count_matched: false,
            statement_time: clock_base,
            statement_began: Default::default(),
            interactive: false,
            prepared: BTreeMap::new(),
            tls: None,
            is_compressed: false,
            knows_no_metadata: false,
            attributes: Arc::default(),
            prng: Prng::new(seed),
            told_database: None,
            facts: Default::default(),
            hints: None,
            hint_warnings: Default::default(),
            query_attributes: None,
            counters: Counters::default(),
        }
    }

    /// Adds a note for SHOW WARNINGS.
    pub(crate) fn note(&mut self, error: SqlError) {
        let kept = self.variables.max_error_count as usize;
        if self.variables.sql_notes {
            self.diagnostics.push(Level::Note, error, kept);
        }
    }

    /// Adds a warning for SHOW WARNINGS.
    pub(crate) fn note_warning(&mut self, error: SqlError) {
        let kept = self.variables.max_error_count as usize;
        self.diagnostics.push(Level::Warning, error, kept);
    }

    /// Parses the statement at a place of a text.
    pub(crate) fn parse_at(&self, text: &[u8], at: usize) -> Result<Parsed, ParseError> {
        let look = || self.pauses.look().is_ok();
        sql_parser::parse_at_looking(text, at, self.variables.parser_mode(), &look)
    }

    /// Learns what the cluster has agreed on by now; whether that was news. Answers of data nodes
    /// are heard only when this worker has reached what they had reached, and one of them has told
    /// another SQL node that its change of definitions is done.
    pub(crate) async fn catch_up(&mut self) -> bool {
        let before = self.kernel.cluster().index;
        // Whatever is asked: a node that does not answer cannot have told anybody.
        let _ = self.kernel.inspect(Inspection::Copies, None).await;
        self.kernel.cluster().index > before
    }
}

impl Diagnostics {
    /// Adds an entry; at most `kept_max` are kept.
    pub(crate) fn push(&mut self, level: Level, error: SqlError, kept_max: usize) {
        match level {
            Level::Error => self.error_count += 1,
            Level::Warning | Level::Note => self.warning_count += 1,
        }
        if self.entries.len() < kept_max {
            self.entries.push((level, error));
        }
    }

    /// Adds warnings before all there are.
    pub(crate) fn put_first(&mut self, warnings: Vec<SqlError>, kept_max: usize) {
        if warnings.is_empty() {
            return;
        }
        self.warning_count += warnings.len() as u64;
        let warnings = warnings.into_iter().map(|warning| (Level::Warning, warning));
        self.entries.splice(0..0, warnings);
        self.entries.truncate(kept_max);
    }

    /// Forgets everything: a new statement that is not a diagnostic one begins.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
