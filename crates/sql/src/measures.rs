//! What a worker's statements took and how they failed, and how that and the registry is told.
//!
//! # Owns
//! [`Measures`], plain cells that the connections of a worker share.
//! # Guarantees
//! The number of error codes that are told apart is limited: no client makes a page grow.

use std::collections::BTreeMap;

use actor::{Figures, Latency, Metric};
use stdx::Duration;

use crate::directory::Registry;
use crate::memory::QueryMemory;

/// Error numbers that are told apart; the others are counted together.
const CODES_MAX: usize = 100;

/// What the statements of a worker took, and how they failed.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    times: Latency,
    /// By MySQL's number.
    errors: BTreeMap<u16, u64>,
    /// Those of further numbers.
    other_errors: u64,
}

impl Measures {
    /// Takes note of a statement that has ended.
    pub(crate) fn ended(&mut self, took: Duration, error: Option<u16>) {
        self.times.record(took);
        let Some(code) = error else { return };
        if self.errors.len() < CODES_MAX || self.errors.contains_key(&code) {
            *self.errors.entry(code).or_default() += 1;
        } else {
            self.other_errors += 1;
        }
    }

    /// Adds what was measured.
    pub(crate) fn tell(&self, figures: &mut Figures) {
        figures.add_latency(Metric::SqlStatementTime, &self.times);
        for (code, count) in &self.errors {
            figures.add(Metric::SqlErrors, &[&code.to_string()], *count);
        }
        if self.other_errors > 0 {
            figures.add(Metric::SqlErrors, &["other"], self.other_errors);
        }
    }
}

/// Adds what the workers of the process share.
pub(crate) fn tell_registry(registry: &Registry, figures: &mut Figures) {
    let counters = registry.counters();
    let (open, running) = registry.connection_counts();
    figures.add(Metric::SqlConnections, &["running"], running as u64);
    figures.add(Metric::SqlConnections, &["idle"], (open - running) as u64);
    figures.add(Metric::SqlConnectionsOpened, &[], counters.connections);
    figures.add(Metric::SqlConnectionsAborted, &["login"], counters.aborted_connects);
    figures.add(Metric::SqlConnectionsAborted, &["session"], counters.aborted_clients);
    figures.add(Metric::SqlReceived, &[], counters.bytes_received);
    figures.add(Metric::SqlSent, &[], counters.bytes_sent);
    figures.add(Metric::SqlDataReceived, &[], counters.traffic.bytes);
    figures.add(Metric::SqlDataRows, &["received"], counters.traffic.rows);
    figures.add(Metric::SqlDataRows, &["examined"], counters.traffic.examined);
    figures.add(Metric::SqlDataMessages, &[], counters.traffic.messages);
    for (kind, count) in counters.commands.by_name() {
        figures.add(Metric::SqlStatements, &[kind], count);
    }
}

/// Adds what statements keep in memory.
pub(crate) fn tell_memory(memory: &QueryMemory, figures: &mut Figures) {
    figures.add(Metric::SqlQueryMemoryUsed, &[], memory.used());
    figures.add(Metric::SqlQueryMemoryPeak, &[], memory.peak());
    figures.add(Metric::SqlQueryMemoryLimit, &[], memory.limit());
    figures.add(Metric::SqlQueryMemoryRefused, &[], memory.refused());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_error_codes_are_told_apart() {
        let mut measures = Measures::default();
        for code in (1_000..1_200).chain([1_005]) {
            measures.ended(Duration::from_millis(1), Some(code));
        }
        measures.ended(Duration::ZERO, None);
        let mut figures = Figures::default();
        measures.tell(&mut figures);
        let errors: Vec<_> =
            figures.list.iter().filter(|f| f.metric == Metric::SqlErrors).collect();
        assert_eq!(errors.len(), CODES_MAX + 1);
        assert_eq!((measures.errors[&1_005], measures.other_errors), (2, 100));
        assert_eq!(measures.times.count(), 202);
    }
}
