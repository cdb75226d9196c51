//! What a run has given, as Markdown.
//!
//! # Owns
//! Percentiles, the table, and whether the run is to be called a failure.

use std::fmt;
use std::time::Duration;

use crate::run::Results;
use crate::transaction::Kind;

impl Results {
    /// What must not be: transactions given up, orders lost or made twice.
    pub(crate) fn faults(&self) -> Vec<String> {
        let tally = &self.tally;
        let given_up = tally.failed.iter();
        let mut faults: Vec<String> = given_up
            .map(|((kind, reason), count)| format!("{count} × {} given up: {reason}", kind.name()))
            .collect();
        let known = tally.acknowledged;
        if !(known..=known + tally.unknown).contains(&self.orders_found) {
            let (found, unknown) = (self.orders_found, tally.unknown);
            faults.push(format!("{known} orders acknowledged, {unknown} unknown, {found} found"));
        }
        faults
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tally, seconds) = (&self.tally, self.measured.as_secs_f64());
        let new_orders = tally.new_orders();
        writeln!(f, "{new_orders} new-orders in {seconds:.0} s, {:.0} a minute", per_minute(self))?;
        match self.cpu {
            Some(cpu) if new_orders > 0 => {
                let each = cpu / new_orders as f64 * 1e6;
                writeln!(
                    f,
                    "{each:.0} µs of the server's CPU time for a new-order and what goes with it"
                )?;
            }
            _ => writeln!(f, "CPU time of the server: unknown (--pid or --process)")?,
        }
        writeln!(f, "\n| transaction | count | share | p50 ms | p95 ms | p99 ms | slowest ms |")?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        let all: usize = tally.times.values().map(Vec::len).sum();
        for (kind, _) in Kind::MIX {
            let mut times = tally.times.get(&kind).cloned().unwrap_or_default();
            times.sort_unstable();
            let share = 100.0 * times.len() as f64 / all.max(1) as f64;
            write!(f, "| {} | {} | {share:.1} % |", kind.name(), times.len())?;
            for percent in [50, 95, 99, 100] {
                match percentile(&times, percent) {
                    Some(time) => write!(f, " {:.2} |", time.as_secs_f64() * 1e3)?,
                    None => write!(f, " – |")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "\nrolled back as intended: {}", tally.rolled_back)?;
        writeln!(f, "districts without an order to deliver: {}", tally.skipped)?;
        let retries: Vec<String> =
            tally.retries.iter().map(|(code, count)| format!("{count} × error {code}")).collect();
        let retries = if retries.is_empty() { "none".to_owned() } else { retries.join(", ") };
        writeln!(f, "retries: {retries}")?;
        for fault in self.faults() {
            writeln!(f, "FAULT: {fault}")?;
        }
        Ok(())
    }
}

fn per_minute(results: &Results) -> f64 {
    results.tally.new_orders() as f64 * 60.0 / results.measured.as_secs_f64()
}

/// The time that so many in a hundred of the sorted times do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Tally;

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let at = |percent| percentile(&times, percent).unwrap().as_millis();
        assert_eq!((at(50), at(95), at(99), at(100)), (100, 190, 198, 200));
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&times[..1], 1), Some(times[0]));
    }

    #[test]
    fn lost_and_doubled_orders_are_faults() {
        let results = |acknowledged, unknown, orders_found| Results {
            tally: Tally { acknowledged, unknown, ..Tally::default() },
            measured: Duration::from_secs(1),
            cpu: None,
            orders_found,
        };
        assert!(results(10, 0, 10).faults().is_empty());
        assert!(results(10, 2, 11).faults().is_empty());
        assert_eq!(results(10, 2, 9).faults().len(), 1);
        assert_eq!(results(10, 2, 13).faults().len(), 1);
        let mut given_up = results(1, 0, 1);
        given_up.tally.failed.insert((Kind::Payment, "error 1".into()), 2);
        assert!(given_up.to_string().contains("FAULT: 2 × Payment given up: error 1"));
    }
}
