//! How far many seeds have come, told while they run.
//!
//! # Owns
//! One line on the terminal that is written anew, or else a line from time to time, on standard
//! error: what a command prints on standard output is the same however long it takes.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Seeds under way.
pub(super) struct Progress {
    what: String,
    total: u64,
    done: u64,
    failed: u64,
    began: Instant,
    told: Instant,
    /// Standard error is a terminal.
    live: bool,
}

impl Progress {
    /// Nothing has been done yet. `what` begins each line.
    pub(super) fn new(what: impl Into<String>, total: u64) -> Self {
        let now = Instant::now();
        let live = std::io::stderr().is_terminal();
        Self { what: what.into(), total, done: 0, failed: 0, began: now, told: now, live }
    }

    /// A seed has been run. One that failed is named at once, unless a mutation is to make one
    /// fail.
    pub(super) fn add(&mut self, seed: u64, failure: Option<&str>) {
        self.done += 1;
        self.failed += u64::from(failure.is_some());
        if let Some(why) = failure.filter(|_| self.what.is_empty()) {
            let (begin, end) = if self.live { ("\r", "\x1b[K") } else { ("", "") };
            let first = why.lines().next().unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "{begin}seed {seed} failed: {first}{end}");
        }
        let every = if self.live { EVERY_ON_TERMINAL } else { EVERY };
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let line = self.line(self.began.elapsed());
        let mut out = std::io::stderr().lock();
        // That nobody reads it is no reason to end.
        let _ = if self.live {
            write!(out, "\r{line}\x1b[K").and_then(|()| out.flush())
        } else {
            writeln!(out, "{line}")
        };
    }

    /// Leaves the line that is written anew.
    pub(super) fn end(&self) {
        if self.live {
            let mut out = std::io::stderr().lock();
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }

    /// How far it is after so long.
    fn line(&self, elapsed: Duration) -> String {
        let Self { what, total, done, failed, .. } = self;
        let failures = if *failed == 1 { "failure" } else { "failures" };
        let left =
            elapsed.as_secs_f64() / (*done).max(1) as f64 * (total.saturating_sub(*done)) as f64;
        let (elapsed, left) = (span(elapsed.as_secs_f64()), span(left));
        format!("{what}{done} of {total} seeds, {failed} {failures}, {elapsed}; about {left} left")
    }
}

/// A time as people say it.
fn span(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// How often a line is written anew.
const EVERY_ON_TERMINAL: Duration = Duration::from_millis(200);
/// How often there is another line.
const EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done() {
        let mut progress = Progress::new("", 300);
        progress.add(1, None);
        progress.add(2, Some("lost"));
        let line = progress.line(Duration::from_secs(4));
        assert_eq!(line, "2 of 300 seeds, 1 failure, 4 s; about 10 min left");
        let mut progress = Progress::new("NoFence: ", 2);
        assert_eq!(
            progress.line(Duration::ZERO),
            "NoFence: 0 of 2 seeds, 0 failures, 0 s; about 0 s left"
        );
        progress.add(1, None);
        progress.add(1, None);
        let line = progress.line(Duration::from_secs(7_300));
        assert_eq!(line, "NoFence: 2 of 2 seeds, 0 failures, 2 h 1 min; about 0 s left");
    }
}
