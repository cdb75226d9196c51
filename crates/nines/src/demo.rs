//! `nines demo`: a cluster of separate processes on this machine, with money moving in it, whose
//! data nodes are killed and started again in turn.
//!
//! # Owns
//! The script: what is killed when, the line that tells how it goes, and the account at the end.
//! # Failure
//! Money that was made or lost is an error, and so is a transfer that failed for another reason
//! than those a client is told to repeat.

mod bank;
mod cluster;

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bank::{Bank, Totals};
use cluster::Processes;

use crate::process::{Happening, watch_signals};
use crate::tell;

/// The options of `nines demo`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) seconds: u64,
}

/// Runs the demonstration.
pub(crate) fn run(options: &DemoOptions) -> Result<(), String> {
    let (send, signals) = channel();
    watch_signals(send)?;
    tell("starts a management node, two data nodes with a copy of each row, and an SQL node");
    let mut cluster = Processes::start()?;
    tell(&format!("each is a process of its own; look at it with  {}", cluster.how_to_connect()));
    let bank = Bank::open(&cluster.socket())?;
    let outcome = perform(options, &mut cluster, View::new(&bank, signals));
    let totals = bank.close();
    outcome?;
    account(&totals, &cluster.socket())
}

/// Lets data nodes die and come back until the time is over.
fn perform(
    options: &DemoOptions,
    cluster: &mut Processes,
    mut view: View<'_>,
) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    view.follow(PAUSE, &mut || Ok(false))?;
    for node in [1, 2].into_iter().cycle() {
        if Instant::now() + PAUSE.saturating_mul(2) > until {
            break;
        }
        view.says(&format!("kill -9 of data node {node}"));
        cluster.kill(node);
        view.follow(PAUSE, &mut || Ok(false))?;
        view.says(&format!("data node {node} is started again"));
        cluster.launch(node)?;
        let socket = cluster.socket();
        view.follow(PATIENCE, &mut || bank::is_complete(&socket))?;
        view.says(&format!("data node {node} has all rows again"));
        view.follow(PAUSE, &mut || Ok(false))?;
    }
    let left = until.saturating_duration_since(Instant::now());
    view.follow(left, &mut || Ok(false))?;
    view.end();
    Ok(())
}

/// What became of it.
fn account(totals: &Totals, socket: &std::path::Path) -> Result<(), String> {
    let sum = bank::sum(socket)?;
    tell(&format!("{:>12} transfers committed", totals.committed));
    tell(&format!("{:>12} begun again because a node was lost or came back", totals.repeated));
    tell(&format!("{:>12} of unknown outcome", totals.unknown));
    tell(&format!("{:>12} other errors", totals.errors.len()));
    let gap = totals.longest_gap.as_millis();
    tell(&format!("{gap:>12} ms, the longest time without any commit"));
    tell(&format!("{sum:>12} in all accounts, {} at the beginning", bank::MONEY));
    totals.errors.iter().for_each(|error| tell(&format!("             {error}")));
    if sum != bank::MONEY {
        return Err("money was made or lost".into());
    }
    if let Some(error) = totals.errors.first() {
        return Err(format!("a transfer has failed: {error}"));
    }
    tell("nothing was lost");
    Ok(())
}

/// The line on a terminal that tells how it goes; a line a second elsewhere.
struct View<'a> {
    bank: &'a Bank,
    signals: Receiver<Happening>,
    began: Instant,
    live: bool,
    last: (Instant, u64),
    told: Instant,
}

impl<'a> View<'a> {
    fn new(bank: &'a Bank, signals: Receiver<Happening>) -> Self {
        let now = Instant::now();
        let live = std::io::stdout().is_terminal();
        Self { bank, signals, began: now, live, last: (now, 0), told: now }
    }

    /// Shows how it goes until `done` says so, or for so long.
    fn follow(
        &mut self,
        span: Duration,
        done: &mut dyn FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        let until = Instant::now() + span;
        while Instant::now() < until {
            std::thread::sleep(STEP);
            self.show();
            if self.signals.try_recv().is_ok() {
                self.end();
                return Err("interrupted".into());
            }
            if done()? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn show(&mut self) {
        let now = Instant::now();
        let every = if self.live { STEP } else { Duration::from_secs(1) };
        if now.duration_since(self.told) < every {
            return;
        }
        self.told = now;
        let totals = self.bank.totals();
        let (then, before) = self.last;
        let span = now.duration_since(then).as_secs_f64().max(0.001);
        let rate = (totals.committed - before) as f64 / span;
        if span >= 1.0 || !self.live {
            self.last = (now, totals.committed);
        }
        let line = format!(
            "{:>5.1} s  {rate:>7.0} transfers/s  {:>8} in all  longest gap {:>4} ms",
            self.began.elapsed().as_secs_f64(),
            totals.committed,
            totals.longest_gap.as_millis()
        );
        if self.live {
            let mut output = std::io::stdout().lock();
            // That nobody reads it is no reason to end.
            let _ = write!(output, "\r{line}\x1b[K").and_then(|()| output.flush());
        } else {
            tell(&line);
        }
    }

    /// Tells what happens.
    fn says(&mut self, what: &str) {
        self.end();
        tell(&format!("{:>5.1} s  {what}", self.began.elapsed().as_secs_f64()));
    }

    /// Leaves the line that is being rewritten.
    fn end(&mut self) {
        if self.live {
            let mut output = std::io::stdout().lock();
            let _ = write!(output, "\r\x1b[K").and_then(|()| output.flush());
        }
    }
}

/// Between one thing that happens and the next.
const PAUSE: Duration = Duration::from_secs(3);
/// How long a node may take to have all rows again.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(200);
