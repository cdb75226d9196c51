//! Deadlocks: each is broken, soon, and by one victim.
//!
//! # Owns
//! What clients were told of broken cycles; who waits for whom in the whole cluster at a moment,
//! which no node knows.

use std::collections::{BTreeMap, BTreeSet};

use model::TransactionId;
use stdx::Instant;

use crate::world::{Kind, World};

/// Cycles that were broken, by their members in order, with the victim.
#[derive(Debug, Default)]
pub struct BrokenCycles {
    victims: BTreeMap<Vec<String>, String>,
}

/// Members that a victim is told at most: a longer cycle is not told apart from others.
const TOLD_MAX: usize = 16;

impl BrokenCycles {
    /// A client was told that its transaction was aborted to break a cycle. The transactions of a
    /// cycle never meet again, as one of them has ended: a second victim was aborted for nothing.
    pub(crate) fn broken(&mut self, detail: &str) {
        let members =
            detail.strip_prefix("cycle: ").unwrap_or_else(|| panic!("no cycle: {detail}"));
        let mut members: Vec<String> = members.split(" waits for ").map(str::to_owned).collect();
        assert!(members.len() > 1, "a cycle of one: {detail}");
        if members.len() >= TOLD_MAX {
            return;
        }
        let victim = members[0].clone();
        members.sort_unstable();
        let distinct: BTreeSet<&String> = members.iter().collect();
        assert_eq!(distinct.len(), members.len(), "a transaction twice in a cycle: {detail}");
        if let Some(earlier) = self.victims.insert(members, victim) {
            panic!("two victims of one deadlock, {earlier} and the first of {detail}");
        }
    }

    /// How many cycles were broken.
    pub fn count(&self) -> usize {
        self.victims.len()
    }
}

/// Cycles of transactions that were seen to wait for each other, and since when.
#[derive(Debug, Default)]
pub struct Waits {
    since: BTreeMap<BTreeSet<TransactionId>, Instant>,
}

impl Waits {
    /// Looks at who waits for whom now. The longest time that a cycle has been seen at every look
    /// up to this one, and its members.
    pub fn look(&mut self, world: &World) -> Option<(stdx::Duration, BTreeSet<TransactionId>)> {
        let cycles = cycles(&world.waits_for());
        let now = world.now();
        self.since.retain(|cycle, _| cycles.contains(cycle));
        for cycle in cycles {
            self.since.entry(cycle).or_insert(now);
        }
        let oldest = self.since.iter().min_by_key(|(_, since)| **since)?;
        Some((now.since(*oldest.1), oldest.0.clone()))
    }
}

/// Who waits for whom.
type Graph = BTreeMap<TransactionId, BTreeSet<TransactionId>>;

/// The largest sets of transactions each of which waits for all others of its set, at least by way
/// of others.
fn cycles(graph: &Graph) -> BTreeSet<BTreeSet<TransactionId>> {
    let reached: Graph = graph.keys().map(|from| (*from, reached_from(graph, *from))).collect();
    let in_cycle = reached.iter().filter(|(from, reached)| reached.contains(from));
    let mutual = |(from, others): (&TransactionId, &BTreeSet<TransactionId>)| {
        let back = |other: &&TransactionId| reached.get(other).is_some_and(|r| r.contains(from));
        others.iter().filter(back).copied().collect()
    };
    in_cycle.map(mutual).collect()
}

fn reached_from(graph: &Graph, from: TransactionId) -> BTreeSet<TransactionId> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for blocker in graph.get(&next).into_iter().flatten() {
            if reached.insert(*blocker) {
                open.push(*blocker);
            }
        }
    }
    reached
}

impl World {
    /// Who waits for whom in the participants that run.
    fn waits_for(&self) -> Graph {
        let mut graph = Graph::new();
        for node in self.nodes(Kind::Data).into_iter().filter(|node| self.is_running(*node)) {
            for participant in self.workers(node).filter_map(node::Worker::participant) {
                for (waiter, blocker) in participant.waits_for() {
                    graph.entry(waiter).or_default().insert(blocker);
                }
            }
        }
        graph
    }

    /// How many deadlocks clients were told of.
    pub fn deadlocks(&self) -> usize {
        self.ambient().deadlocks.borrow().count()
    }
}

#[cfg(test)]
mod tests {
    use model::{Incarnation, NodeId, SessionId};

    use super::*;

    fn graph(edges: &[(u64, u64)]) -> Graph {
        let session = SessionId { node: NodeId(9), incarnation: Incarnation(1), number: 1 };
        let name = |number| TransactionId { session, number };
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(name(*from)).or_default().insert(name(*to));
        }
        graph
    }

    #[test]
    fn cycles_are_found_and_chains_are_not() {
        assert!(cycles(&graph(&[(1, 2), (2, 3), (4, 3)])).is_empty());
        let found = cycles(&graph(&[(1, 2), (2, 1), (3, 1), (4, 5), (5, 6), (6, 4), (6, 1)]));
        let numbers: Vec<Vec<u64>> =
            found.iter().map(|cycle| cycle.iter().map(|id| id.number).collect()).collect();
        assert_eq!(numbers, [vec![1, 2], vec![4, 5, 6]]);
    }

    #[test]
    fn a_second_victim_of_a_cycle_is_noticed() {
        let mut broken = BrokenCycles::default();
        broken.broken("cycle: a waits for b");
        broken.broken("cycle: b waits for c waits for a");
        let again = std::panic::catch_unwind(move || broken.broken("cycle: b waits for a"));
        assert!(again.is_err());
    }
}
