//! What many runs have reached, as tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use sim::Outcome;

/// The registry of fault points and probes, as the documentation has it.
const REGISTRY: &str = include_str!("../../../../docs/reference/fault-points.md");

/// Sums over runs.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    seeds: u64,
    steps: u64,
    messages: u64,
    virtual_millis: u64,
    probes: BTreeMap<String, u64>,
    fault_points: BTreeMap<String, u64>,
    halts: BTreeMap<String, u64>,
    rounds: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// Adds a run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.steps += outcome.totals.steps;
        self.messages += outcome.totals.messages;
        self.virtual_millis += outcome.span.as_millis();
        for (name, count) in &outcome.totals.probes {
            *self.probes.entry((*name).into()).or_default() += count;
        }
        for (name, count) in &outcome.totals.fault_points {
            *self.fault_points.entry((*name).into()).or_default() += count;
        }
        for (why, count) in &outcome.totals.halts {
            *self.halts.entry(why.clone()).or_default() += count;
        }
        for (what, count) in &outcome.rounds {
            *self.rounds.entry(what).or_default() += count;
        }
    }

    /// Runs added.
    pub(crate) fn seeds(&self) -> u64 {
        self.seeds
    }
}

/// The names in one table of the registry.
fn registered(table: &str) -> BTreeSet<&'static str> {
    let begin = format!("<!-- table: {table} -->");
    let Some(at) = REGISTRY.find(&begin) else { return BTreeSet::new() };
    let rows = REGISTRY[at..].lines().take_while(|line| !line.starts_with("<!-- end"));
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [("probes", &self.probes), ("fault points", &self.fault_points)];
        for (name, counts) in tables {
            writeln!(f, "{name}:")?;
            for (name, count) in counts {
                writeln!(f, "{count:>10}  {name}")?;
            }
            let known = registered(name);
            for missing in known.iter().filter(|name| !counts.contains_key(**name)) {
                writeln!(f, "     never  {missing}")?;
            }
        }
        writeln!(f, "halts:")?;
        for (why, count) in &self.halts {
            writeln!(f, "{count:>10}  {why}")?;
        }
        writeln!(f, "rounds of work:")?;
        for (what, count) in &self.rounds {
            writeln!(f, "{count:>10}  {what}")?;
        }
        writeln!(
            f,
            "{} seeds, {} steps, {} messages, {} s of virtual time",
            self.seeds,
            self.steps,
            self.messages,
            self.virtual_millis / 1_000
        )
    }
}
