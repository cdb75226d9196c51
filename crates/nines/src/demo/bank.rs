//! Accounts, and threads that move money between them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, Session};

/// All money there is.
pub(super) const MONEY: i64 = ACCOUNTS * BALANCE;
const ACCOUNTS: i64 = 100;
const BALANCE: i64 = 1_000;
const CLERKS: u64 = 8;

/// What has been done.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) committed: u64,
    pub(super) repeated: u64,
    pub(super) unknown: u64,
    pub(super) longest_gap: Duration,
    last: Option<Instant>,
    pub(super) errors: Vec<String>,
}

/// The bank at work.
pub(super) struct Bank {
    totals: Arc<Mutex<Totals>>,
    closed: Arc<AtomicBool>,
    clerks: Vec<JoinHandle<()>>,
}

impl Bank {
    /// Makes the accounts, and begins.
    pub(super) fn open(socket: &Path) -> Result<Bank, String> {
        let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
        let mut session = connect(socket)?;
        for statement in [
            "CREATE DATABASE bank",
            "CREATE TABLE bank.accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
            &format!("INSERT INTO bank.accounts VALUES {}", rows.join(",")),
        ] {
            session.query(statement).map_err(|error| format!("{statement}: {error}"))?;
        }
        let (totals, closed) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let clerk = |number| {
            let clerk = Clerk {
                totals: Arc::clone(&totals),
                closed: Arc::clone(&closed),
                socket: socket.to_path_buf(),
                random: number * 0x9E37_79B9 + 1,
            };
            std::thread::spawn(move || clerk.work())
        };
        let clerks = (0..CLERKS).map(clerk).collect();
        Ok(Bank { totals, closed, clerks })
    }

    pub(super) fn totals(&self) -> Totals {
        lock(&self.totals).clone()
    }

    /// Ends the work; what was done.
    pub(super) fn close(self) -> Totals {
        self.closed.store(true, Ordering::SeqCst);
        for clerk in self.clerks {
            // One that panicked has said so.
            let _ = clerk.join();
        }
        lock(&self.totals).clone()
    }
}

fn lock(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves money.
struct Clerk {
    totals: Arc<Mutex<Totals>>,
    closed: Arc<AtomicBool>,
    socket: PathBuf,
    random: u64,
}

impl Clerk {
    fn work(mut self) {
        let mut session = None;
        while !self.closed.load(Ordering::SeqCst) {
            let Some(open) = &mut session else {
                session = Session::connect(&self.socket).ok();
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            let transfer = self.transfer();
            let outcome = transfer.iter().try_for_each(|(statement, last)| {
                open.query(statement).map(drop).map_err(|error| (error, *last))
            });
            let mut totals = lock(&self.totals);
            match outcome {
                Ok(()) => {
                    let now = Instant::now();
                    let gap = totals.last.map(|last| now.duration_since(last));
                    totals.longest_gap = totals.longest_gap.max(gap.unwrap_or_default());
                    totals.last = Some(now);
                    totals.committed += 1;
                    continue;
                }
                // A deadlock, a lock that was not granted, a node that was lost or came back.
                Err((QueryError::Refused(1205 | 1213 | 1297, _), _)) => totals.repeated += 1,
                Err((QueryError::Refused(1296, _), true)) => totals.unknown += 1,
                Err((error, _)) => totals.errors.push(error.to_string()),
            }
            drop(totals);
            if open.query("ROLLBACK").is_err() {
                session = None;
            }
        }
    }

    /// The statements of a transfer, and whether each is the last.
    fn transfer(&mut self) -> Vec<(String, bool)> {
        let accounts = ACCOUNTS as u64;
        let from = self.draw() % accounts;
        let to = (from + 1 + self.draw() % (accounts - 1)) % accounts;
        let amount = 1 + self.draw() % 10;
        let change = |id: u64, sign: char| {
            format!("UPDATE bank.accounts SET balance = balance {sign} {amount} WHERE id = {id}")
        };
        // Always the smaller id first: nobody waits for each other.
        let mut both = [(from, '-'), (to, '+')];
        both.sort_unstable();
        let [first, second] = both.map(|(id, sign)| change(id, sign));
        let statements = ["BEGIN".to_string(), first, second, "COMMIT".to_string()];
        statements.into_iter().zip([false, false, false, true]).collect()
    }

    fn draw(&mut self) -> u64 {
        // xorshift: which accounts are drawn matters to nobody.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// The money that is there.
pub(super) fn sum(socket: &Path) -> Result<i64, String> {
    let statement = "SELECT SUM(balance) FROM bank.accounts";
    connect(socket)?.number(statement).map_err(|error| format!("{statement}: {error}"))
}

/// Whether both data nodes have all rows.
pub(super) fn is_complete(socket: &Path) -> Result<bool, String> {
    let statement = "SELECT COUNT(*) FROM nines.nodes WHERE role = 'data' AND status = 'active'";
    // While a node is on its way this may fail, and is asked again.
    Ok(connect(socket)?.number(statement).is_ok_and(|count| count == 2))
}

fn connect(socket: &Path) -> Result<Session, String> {
    Session::connect(socket).map_err(|error| format!("cannot connect: {error}"))
}
