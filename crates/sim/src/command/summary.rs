//! What many runs have reached, as tables.

use std::collections::BTreeMap;
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
    probes: BTreeMap<&'static str, Reached>,
    fault_points: BTreeMap<&'static str, Reached>,
    deaths: BTreeMap<&'static str, Reached>,
    halts: BTreeMap<String, u64>,
    disks: BTreeMap<&'static str, u64>,
    rounds: BTreeMap<&'static str, u64>,
}

/// How often something was reached.
#[derive(Debug, Default)]
struct Reached {
    times: u64,
    seeds: u64,
}

impl Reached {
    fn add(&mut self, times: u64) {
        self.times += times;
        self.seeds += u64::from(times > 0);
    }
}

impl Summary {
    /// Adds a run.
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.steps += outcome.totals.steps;
        self.messages += outcome.totals.messages;
        self.virtual_millis += outcome.span.as_millis();
        for (name, count) in &outcome.totals.probes {
            self.probes.entry(name).or_default().add(*count);
        }
        for (name, count) in &outcome.totals.fault_points {
            self.fault_points.entry(name).or_default().add(*count);
        }
        for (name, count) in &outcome.totals.deaths {
            self.deaths.entry(name).or_default().add(*count);
        }
        for (why, count) in &outcome.totals.halts {
            *self.halts.entry(why.clone()).or_default() += count;
        }
        for (what, count) in &outcome.totals.disks {
            *self.disks.entry(what).or_default() += count;
        }
        for (what, count) in &outcome.rounds {
            *self.rounds.entry(what).or_default() += count;
        }
    }

    /// Runs added.
    pub(crate) fn seeds(&self) -> u64 {
        self.seeds
    }

    /// What the registry calls important and no run has reached.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        let tables = [("fault points", &self.fault_points), ("probes", &self.probes)];
        let missed = tables.into_iter().flat_map(|(table, counts)| {
            registered(table).filter(|row| row.important && !counts.contains_key(row.name))
        });
        missed.map(|row| row.name).collect()
    }
}

/// A row of the registry.
struct Registered {
    name: &'static str,
    /// Many seeds must reach it.
    important: bool,
}

/// The rows in one table of the registry, `| name | file | what it means |`.
fn registered(table: &str) -> impl Iterator<Item = Registered> {
    let begin =
        format!("<!-- table: {table} -->\n| name | file | what it means |\n|---|---|---|\n");
    let at = REGISTRY.find(&begin).expect("the registry has this table") + begin.len();
    let rows = REGISTRY[at..].lines().take_while(|line| line.starts_with("| "));
    rows.map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (name, meaning) = (cells.next(), cells.nth(1));
        let important = meaning.is_some_and(|meaning| meaning.starts_with("**important:**"));
        Registered { name: name.expect("a row has cells"), important }
    })
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [("probes", &self.probes), ("fault points", &self.fault_points)];
        for (name, counts) in tables {
            writeln!(f, "{name}, times and seeds:")?;
            for (name, Reached { times, seeds }) in counts {
                writeln!(f, "{times:>10} {seeds:>6}  {name}")?;
            }
            for row in registered(name).filter(|row| !counts.contains_key(row.name)) {
                let important = if row.important { ", important" } else { "" };
                writeln!(f, "     never         {}{important}", row.name)?;
            }
        }
        writeln!(f, "deaths at fault points, times and seeds:")?;
        for (name, Reached { times, seeds }) in &self.deaths {
            writeln!(f, "{times:>10} {seeds:>6}  {name}")?;
        }
        writeln!(f, "halts:")?;
        for (why, count) in &self.halts {
            writeln!(f, "{count:>10}  {why}")?;
        }
        writeln!(f, "disks:")?;
        for (what, count) in &self.disks {
            writeln!(f, "{count:>10}  {what}")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_read_to_its_end() {
        let names = |table| registered(table).map(|row| row.name).collect::<Vec<_>>();
        let (points, probes) = (names("fault points"), names("probes"));
        assert!(points.contains(&"coordinator: at the commit point"));
        assert!(points.iter().all(|name| !probes.contains(name)), "each table by itself");
        assert!(probes.contains(&"takeover: undecided transaction"));
        let marks = REGISTRY.matches("| **important:** ").count();
        let important = |table| registered(table).filter(|row| row.important).count();
        assert_eq!(important("fault points") + important("probes"), marks);
        assert!(marks > 20, "what matters is marked");
    }

    #[test]
    fn what_was_reached_is_not_missed() {
        let mut summary = Summary::default();
        let name = "takeover: committing transaction";
        assert!(summary.missed().contains(&name));
        assert!(summary.to_string().contains(&format!("never         {name}, important")));
        summary.probes.entry(name).or_default().add(2);
        assert!(!summary.missed().contains(&name));
    }
}
