//! Terminals that run transactions at once, for a time: `tpcc run`.
//!
//! # Owns
//! The threads of terminals, retries, what is counted between the end of the warm-up and the end of
//! the measurement, and whether all acknowledged orders are there afterwards.
//! # Not here
//! What a transaction does: `transaction`. How it is told: `report`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::database::{Database, Failure};
use crate::draws::{Draws, Phase};
use crate::processor;
use crate::schema::Scale;
use crate::transaction::{Deck, Input, Kind, Outcome, Terminal};

/// What is to be run.
pub(crate) struct Options {
    pub(crate) socket: PathBuf,
    pub(crate) database: String,
    pub(crate) clients: u64,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    pub(crate) seed: u64,
    /// The server's processes, whose CPU time is told.
    pub(crate) pids: Vec<u32>,
}

/// What one terminal, or all of them, have seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Response times of what was measured, retries included.
    pub(crate) times: BTreeMap<Kind, Vec<Duration>>,
    /// New-Orders that ended with an unknown item, of those measured.
    pub(crate) rolled_back: u64,
    /// Districts without an order to deliver.
    pub(crate) skipped: u64,
    /// Errors after which a transaction was tried again, by number.
    pub(crate) retries: BTreeMap<u16, u64>,
    /// Transactions that were given up, by kind and reason.
    pub(crate) failed: BTreeMap<(Kind, String), u64>,
    /// New-Orders that were acknowledged, measured or not.
    pub(crate) acknowledged: u64,
    /// New-Orders of which nobody knows whether they were committed.
    pub(crate) unknown: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        for (kind, times) in other.times {
            self.times.entry(kind).or_default().extend(times);
        }
        for (code, count) in other.retries {
            *self.retries.entry(code).or_default() += count;
        }
        for (reason, count) in other.failed {
            *self.failed.entry(reason).or_default() += count;
        }
        self.rolled_back += other.rolled_back;
        self.skipped += other.skipped;
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
    }

    /// New-Orders that were measured and committed.
    pub(crate) fn new_orders(&self) -> u64 {
        let all = self.times.get(&Kind::NewOrder).map_or(0, Vec::len) as u64;
        all - self.rolled_back
    }
}

/// What a run has given.
pub(crate) struct Results {
    pub(crate) tally: Tally,
    pub(crate) measured: Duration,
    /// Seconds of CPU time of the server while it was measured, if its processes are known.
    pub(crate) cpu: Option<f64>,
    /// By how much the numbers of orders have grown.
    pub(crate) orders_found: u64,
}

/// A transaction that so many times in a row met a deadlock or the like is given up.
const ATTEMPTS_MAX: u32 = 30;

/// Pauses before a retry are random below a limit that doubles, from this to that.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// How long a terminal tries to connect again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the terminals and waits for them.
pub(crate) fn run(options: &Options) -> Result<Results, Failure> {
    let mut database = Database::open(&options.socket, &options.database)?;
    let (scale, warehouses) = size(&mut database)?;
    let before = orders(&mut database)?;
    let begin = Instant::now() + options.warm_up;
    let span = (begin, begin + options.measured);
    let (tally, cpu) = thread::scope(|scope| {
        let terminals: Vec<_> = (0..options.clients)
            .map(|number| {
                let draws = Draws::new(options.seed ^ (number + 1) << 32, scale, Phase::Run);
                let place = Terminal::new(number, warehouses);
                let options = &options;
                scope.spawn(move || Client { options, place, draws, span }.run())
            })
            .collect();
        thread::sleep(span.0.saturating_duration_since(Instant::now()));
        let first = processor::seconds(&options.pids);
        thread::sleep(span.1.saturating_duration_since(Instant::now()));
        let last = processor::seconds(&options.pids);
        let cpu = first.zip(last).filter(|_| !options.pids.is_empty());
        let mut tally = Tally::default();
        for terminal in terminals {
            tally.add(terminal.join().expect("a terminal does not panic")?);
        }
        Ok::<_, Failure>((tally, cpu.map(|(first, last)| last - first)))
    })?;
    let orders_found = orders(&mut database)? - before;
    Ok(Results { tally, measured: options.measured, cpu, orders_found })
}

/// How large the database is that was loaded.
fn size(database: &mut Database) -> Result<(Scale, u64), Failure> {
    let items = database.row("SELECT COUNT(*) FROM item")?.number(0)?;
    let query = "SELECT COUNT(*) FROM customer WHERE c_w_id = 1 AND c_d_id = 1";
    let customers = database.row(query)?.number(0)?;
    let warehouses = database.row("SELECT COUNT(*) FROM warehouse")?.number(0)?;
    if items == 0 || customers == 0 || warehouses == 0 {
        return Err(Failure::Data("the database is not loaded: `tpcc load`".to_owned()));
    }
    Ok((Scale { items, customers }, warehouses))
}

/// Orders that have been given numbers so far, and one for each district.
fn orders(database: &mut Database) -> Result<u64, Failure> {
    database.row("SELECT SUM(d_next_o_id) FROM district")?.number(0)
}

/// A terminal at work.
struct Client<'a> {
    options: &'a Options,
    place: Terminal,
    draws: Draws,
    /// When measuring begins, and when it ends.
    span: (Instant, Instant),
}

impl Client<'_> {
    fn run(mut self) -> Result<Tally, Failure> {
        let mut database = self.connect()?;
        let (mut tally, mut deck) = (Tally::default(), Deck::default());
        while Instant::now() < self.span.1 {
            let kind = deck.next(&mut self.draws);
            let input = Input::draw(kind, self.place, &mut self.draws);
            let began = Instant::now();
            let outcome = self.transact(&mut database, &input, &mut tally);
            let ended = Instant::now();
            let measured = began >= self.span.0 && ended <= self.span.1;
            match outcome {
                Ok(outcome) => tally.count(kind, outcome, measured.then_some(ended - began)),
                Err(failure) => {
                    *tally.failed.entry((kind, failure.to_string())).or_default() += 1;
                    let ordered = kind == Kind::NewOrder;
                    tally.unknown += u64::from(ordered && failure.unknown());
                    if failure.lost() {
                        database = self.connect()?;
                    }
                }
            }
        }
        Ok(tally)
    }

    /// Runs a transaction, again and again while it meets a deadlock or the like.
    fn transact(
        &mut self,
        database: &mut Database,
        input: &Input,
        tally: &mut Tally,
    ) -> Result<Outcome, Failure> {
        let mut pause = PAUSE.0;
        for attempt in 1.. {
            let failure = match input.run(database) {
                Ok(outcome) => return Ok(outcome),
                Err(failure) if failure.lost() => return Err(failure),
                Err(failure) => failure,
            };
            // Some errors end the transaction, others only the statement.
            database.run("ROLLBACK")?;
            match failure.retried() {
                Some(code) if attempt < ATTEMPTS_MAX => {
                    *tally.retries.entry(code).or_default() += 1;
                }
                _ => return Err(failure),
            }
            thread::sleep(Duration::from_micros(self.draws.between(0, pause.as_micros() as u64)));
            pause = PAUSE.1.min(pause * 2);
        }
        unreachable!("the last attempt returns");
    }

    fn connect(&self) -> Result<Database, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Database::open(&self.options.socket, &self.options.database) {
                Err(_) if Instant::now() < until => thread::sleep(PAUSE.1),
                result => return result,
            }
        }
    }
}

impl Tally {
    fn count(&mut self, kind: Kind, outcome: Outcome, time: Option<Duration>) {
        let ordered = kind == Kind::NewOrder && outcome != Outcome::RolledBack;
        self.acknowledged += u64::from(ordered);
        if let Outcome::Skipped(districts) = outcome {
            self.skipped += districts;
        }
        if let Some(time) = time {
            self.rolled_back += u64::from(outcome == Outcome::RolledBack);
            self.times.entry(kind).or_default().push(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_measured_and_committed_new_orders_count() {
        let mut tally = Tally::default();
        let time = Some(Duration::from_millis(1));
        tally.count(Kind::NewOrder, Outcome::Committed, time);
        tally.count(Kind::NewOrder, Outcome::Committed, None);
        tally.count(Kind::NewOrder, Outcome::RolledBack, time);
        tally.count(Kind::Delivery, Outcome::Skipped(3), time);
        let mut all = Tally::default();
        all.add(tally);
        assert_eq!(
            (all.new_orders(), all.acknowledged, all.rolled_back, all.skipped),
            (1, 2, 1, 3)
        );
    }
}
