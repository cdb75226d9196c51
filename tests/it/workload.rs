//! A bank and lists that grow, changed by sessions with and without durability, and the books that
//! say what must be there after a restart.
//!
//! Each transaction appends an entry to one of the lists, under a lock on the list, and moves money
//! between two accounts. So the commits to a list have an order that can be seen afterwards: what
//! a restart loses must be the end of it.

#![expect(clippy::print_stdout, reason = "whoever repeats a run needs its seed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tests::{QueryError, Session};

const LISTS: i64 = 4;
const ACCOUNTS: i64 = 50;
const BALANCE: i64 = 1_000;
/// Sessions of each level.
const WRITERS: i64 = 4;
/// What a restart may lose of commits in memory that were acknowledged before: the interval between
/// two saves, and two saves on a slow and busy machine.
const LOSS_MAX: Duration = Duration::from_secs(5);
/// How long the end of a process may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Random choices that can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn new() -> Random {
        let given = std::env::var("NINES_SEED").ok().and_then(|text| text.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_nanos());
        let seed = given.unwrap_or(now as u64);
        println!("NINES_SEED={seed}");
        Random(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Makes the tables.
pub(crate) fn setup(session: &mut Session) {
    let lists: Vec<String> = (0..LISTS).map(|list| format!("({list}, 0)")).collect();
    let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
    for statement in [
        "SET nines_durability = disk".to_string(),
        "CREATE DATABASE bank".to_string(),
        "CREATE TABLE bank.lists (id INT PRIMARY KEY, length BIGINT)".to_string(),
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance BIGINT)".to_string(),
        "CREATE TABLE bank.entries (list INT, position BIGINT, tag BIGINT, \
         PRIMARY KEY (list, position), UNIQUE KEY (tag))"
            .to_string(),
        format!("INSERT INTO bank.lists VALUES {}", lists.join(",")),
        format!("INSERT INTO bank.accounts VALUES {}", accounts.join(",")),
    ] {
        session.query(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Names a transaction for ever: round, writer and number.
pub(crate) fn tag(round: u32, writer: i64, number: i64) -> i64 {
    i64::from(round) << 32 | writer << 24 | number
}

/// An acknowledged commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    list: i64,
    position: i64,
    tag: i64,
    durable: bool,
    begun: Instant,
    acknowledged: Instant,
}

/// The sessions of a round.
pub(crate) struct Run {
    writers: Vec<JoinHandle<Vec<Commit>>>,
    killed: Arc<AtomicBool>,
}

impl Run {
    pub(crate) fn start(socket: &Path, round: u32) -> Run {
        let killed = Arc::new(AtomicBool::new(false));
        let write = |writer| {
            let killed = killed.clone();
            let socket = socket.to_path_buf();
            thread::spawn(move || Writer { socket, round, writer, killed }.work())
        };
        let writers = (0..2 * WRITERS).map(write).collect();
        Run { writers, killed }
    }

    /// The server has been killed: what had been acknowledged until then.
    pub(crate) fn end(self) -> Vec<Commit> {
        self.killed.store(true, Ordering::SeqCst);
        let join = |writer: JoinHandle<Vec<Commit>>| writer.join().expect("no writer fails");
        self.writers.into_iter().flat_map(join).collect()
    }
}

struct Writer {
    socket: PathBuf,
    round: u32,
    writer: i64,
    killed: Arc<AtomicBool>,
}

impl Writer {
    fn work(&self) -> Vec<Commit> {
        let mut random = Random(tag(self.round, self.writer, 0) as u64);
        let mut commits = Vec::new();
        let durable = self.writer < WRITERS;
        let mut work = || -> Result<(), QueryError> {
            let mut session = Session::connect(&self.socket)?;
            let level = if durable { "disk" } else { "memory" };
            session.query(&format!("SET nines_durability = {level}"))?;
            for number in 1.. {
                let tag = tag(self.round, self.writer, number);
                let begun = Instant::now();
                match append(&mut session, &mut random, tag).map_err(AppendError::query) {
                    Ok((list, position)) => {
                        let acknowledged = Instant::now();
                        commits.push(Commit { list, position, tag, durable, begun, acknowledged });
                    }
                    // A deadlock, or a lock that was not granted in time: nothing was done.
                    Err(QueryError::Refused(1205 | 1213 | 1297, _)) => {
                        session.query("ROLLBACK")?;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let error = work().expect_err("it goes on until the server is killed");
        assert!(matches!(error, QueryError::Lost(_)), "{error}");
        let began = Instant::now();
        while !self.killed.load(Ordering::SeqCst) {
            // A process that is killed while the disk is busy takes its time to be gone.
            assert!(began.elapsed() < PATIENCE, "a connection broke before the kill");
            thread::sleep(Duration::from_millis(1));
        }
        commits
    }
}

/// Where a transaction has failed.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// Before its commit was asked for.
    Before(QueryError),
    /// At its commit.
    AtCommit(QueryError),
}

impl AppendError {
    pub(crate) fn query(self) -> QueryError {
        match self {
            AppendError::Before(error) | AppendError::AtCommit(error) => error,
        }
    }
}

impl From<QueryError> for AppendError {
    fn from(error: QueryError) -> Self {
        AppendError::Before(error)
    }
}

/// A transaction; the place of its entry.
pub(crate) fn append(
    session: &mut Session,
    random: &mut Random,
    tag: i64,
) -> Result<(i64, i64), AppendError> {
    let list = random.below(LISTS as u64) as i64;
    let from = random.below(ACCOUNTS as u64) as i64;
    let to = random.below(ACCOUNTS as u64) as i64;
    let amount = random.below(20) as i64;
    let (first, second) = (from.min(to), from.max(to));
    let change = |id| if id == from { -amount } else { amount };
    session.query("BEGIN")?;
    let length =
        session.number(&format!("SELECT length FROM bank.lists WHERE id = {list} FOR UPDATE"))?;
    let position = length + 1;
    session.query(&format!("UPDATE bank.lists SET length = {position} WHERE id = {list}"))?;
    session.query(&format!("INSERT INTO bank.entries VALUES ({list}, {position}, {tag})"))?;
    if first != second {
        for id in [first, second] {
            session.query(&format!(
                "UPDATE bank.accounts SET balance = balance + {} WHERE id = {id}",
                change(id)
            ))?;
        }
    }
    session.query("COMMIT").map_err(AppendError::AtCommit)?;
    Ok((list, position))
}

/// What is known of the lists from restart to restart.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Entries that were there after the last restart, by list and position: they stay for ever.
    kept: BTreeMap<(i64, i64), i64>,
    /// Transactions that a restart has undone: they never come back.
    lost: BTreeSet<i64>,
}

/// What a round has come to.
pub(crate) struct Report {
    durable: usize,
    memory: usize,
    lost: usize,
    oldest: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { durable, memory, lost, oldest } = self;
        write!(
            f,
            "{durable} durable commits, {memory} in memory, {lost} of these lost, the oldest {} ms \
             before the kill",
            oldest.as_millis()
        )
    }
}

impl Books {
    /// Compares what is there with what was acknowledged.
    pub(crate) fn check(&mut self, session: &mut Session, acknowledged: Vec<Commit>) -> Report {
        let found = read(session);
        for (place, tag) in &self.kept {
            assert_eq!(found.get(place), Some(tag), "{place:?} has changed");
        }
        for (place, tag) in &found {
            assert!(!self.lost.contains(tag), "{place:?}: {tag:x} was lost, and is back");
        }
        let last = acknowledged.iter().map(|commit| commit.acknowledged).max();
        let is_there = |commit: &&Commit| {
            let at = found.get(&(commit.list, commit.position));
            at.is_some_and(|tag| *tag == commit.tag)
        };
        let (there, gone): (Vec<&Commit>, Vec<&Commit>) =
            acknowledged.iter().partition(|commit| is_there(commit));
        for commit in &gone {
            assert!(!commit.durable, "a durable commit is lost: {commit:?}");
            self.lost.insert(commit.tag);
        }
        // Whoever was acknowledged before a durable commit began is as durable as that.
        let durable = there.iter().filter(|commit| commit.durable);
        if let Some(newest) = durable.clone().map(|commit| commit.begun).max() {
            let older = gone.iter().find(|commit| commit.acknowledged < newest);
            assert!(older.is_none(), "lost, and a later one is not: {older:?}");
        }
        let oldest = gone.iter().filter_map(|commit| Some(last? - commit.acknowledged)).max();
        let oldest = oldest.unwrap_or_default();
        assert!(oldest < LOSS_MAX, "a commit was in memory only for {oldest:?}");
        let durable = durable.count();
        let report =
            Report { durable, memory: acknowledged.len() - durable, lost: gone.len(), oldest };
        self.kept = found;
        report
    }
}

/// All entries, when the tables fit together.
pub(crate) fn read(session: &mut Session) -> BTreeMap<(i64, i64), i64> {
    let mut rows = |statement: &str| -> Vec<Vec<i64>> {
        let rows = session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let row = |row: Vec<Option<String>>| row.into_iter().filter_map(number).collect();
        rows.into_iter().map(row).collect()
    };
    let sum = rows("SELECT SUM(balance), COUNT(*) FROM bank.accounts");
    assert_eq!(sum, [[ACCOUNTS * BALANCE, ACCOUNTS]], "money was made or lost");
    let entries = rows("SELECT list, position, tag FROM bank.entries");
    let found: BTreeMap<(i64, i64), i64> =
        entries.iter().map(|row| ((row[0], row[1]), row[2])).collect();
    for row in rows("SELECT id, length FROM bank.lists") {
        let (list, length) = (row[0], row[1]);
        let of_list = found.range((list, i64::MIN)..(list + 1, i64::MIN));
        let positions = of_list.map(|((_, position), _)| *position);
        assert!(positions.eq(1..=length), "list {list} of {length} entries has holes");
    }
    // The unique index has the same rows.
    if let Some(((list, position), tag)) = found.last_key_value() {
        let same = rows(&format!("SELECT list, position FROM bank.entries WHERE tag = {tag}"));
        assert_eq!(same, [[*list, *position]], "the unique index disagrees");
    }
    found
}
