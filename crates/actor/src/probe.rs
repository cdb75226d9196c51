//! Probes count how often rare situations were reached; fault plans decide where a node dies.
//!
//! Both are keyed by the static name written in the code and registered in
//! `docs/reference/fault-points.md`.

use std::collections::BTreeMap;

use stdx::Prng;

/// Counts of the probes hit on one worker.
#[derive(Debug, Default)]
pub struct Probes {
    counts: BTreeMap<&'static str, u64>,
}

impl Probes {
    /// Counts one hit.
    pub fn hit(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Name and count of each probe hit so far, by name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }
}

/// Which fault points fire, and how likely. Empty outside the simulation.
#[derive(Debug)]
pub struct FaultPlan {
    prng: Prng,
    /// Chance in a million that a passed fault point fires.
    per_million: u64,
    /// The only point that fires, if one is chosen.
    only: Option<&'static str>,
    passed: BTreeMap<&'static str, u64>,
    fired: BTreeMap<&'static str, u64>,
}

impl FaultPlan {
    /// No fault ever.
    pub fn none() -> Self {
        Self::random(0, 0)
    }

    /// Every passed fault point fires with this chance in a million.
    pub fn random(seed: u64, per_million: u64) -> Self {
        let (passed, fired) = (BTreeMap::new(), BTreeMap::new());
        Self { prng: Prng::new(seed), per_million, only: None, passed, fired }
    }

    /// The point `name` fires when it is passed, and no other.
    pub fn at(name: &'static str) -> Self {
        Self { only: Some(name), ..Self::random(0, 1_000_000) }
    }

    /// Changes the chance, in a million.
    pub fn set_chance(&mut self, per_million: u64) {
        self.per_million = per_million;
    }

    /// Whether the fault point fires now.
    pub fn fires(&mut self, name: &'static str) -> bool {
        if self.per_million == 0 {
            return false;
        }
        let fires = self.only.is_none_or(|only| only == name)
            && self.prng.below(1_000_000) < self.per_million;
        *self.passed.entry(name).or_default() += 1;
        if fires {
            *self.fired.entry(name).or_default() += 1;
        }
        fires
    }

    /// Name and count of each fault point passed while faults were on.
    pub fn passed(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.passed.iter().map(|(name, count)| (*name, *count))
    }

    /// Name and count of each fault point that has fired.
    pub fn fired(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.fired.iter().map(|(name, count)| (*name, *count))
    }
}
