//! Whose changes an epoch has: those of clients, and those that an applier has made as another
//! server has them.
//!
//! # Owns
//! The origin of each transaction of an epoch, and which changes make one transaction of the log.
//! # Guarantees
//! An applier writes the place that it has reached in the log of its source in the transaction that
//! makes the changes, and the server that they come from in the same row. That row is a change of
//! the same epoch and the same transaction, so the origin of a change is known wherever the change
//! is: whoever dies, and whichever replica gives it.
//!
//! A transaction of the log has the changes of one origin. The changes of a row keep their order;
//! a change that takes a unique value comes behind that which gives it up.
//! # Limits
//! Changes of several origins that pass unique values on in a circle, in one epoch, are in no
//! order that works: their readers meet a duplicate.
//! # Not here
//! Rows (`binlog::table`), bytes (`binlog::reader`).

use std::collections::BTreeMap;

use model::{ClusterState, IndexId, Key, TransactionId};
use wire::RowChange;

use super::order::Step;
use super::table::can_read;
use crate::definition_log::ChangeOrigin;
use crate::replication::row;

/// How often an order is made better before it is taken as it is.
const PASSES: usize = 64;
/// How tables end that appliers write conflicts to. What they write there is for this cluster.
const EXCEPTIONS: &str = "$ex";

/// The origins of the transactions of an epoch that appliers have made.
#[derive(Debug, Default)]
pub(crate) struct Origins(BTreeMap<TransactionId, ChangeOrigin>);

impl Origins {
    /// Finds them among the changes of an epoch.
    pub(super) fn of(cluster: &ClusterState, changes: &[RowChange]) -> Self {
        let Some(places) = cluster.table_named(row::TABLE) else { return Self::default() };
        // A replica of an older version says nothing of transactions.
        let unknown = TransactionId::default();
        let is_place = |change: &&RowChange| {
            change.partition.table == places.id && change.transaction != unknown
        };
        let origin = |change: &RowChange| {
            let row = change.after.as_ref()?;
            let origin =
                can_read(places, row).then(|| row::origin_of(&places.values(&row.0)))??;
            Some((change.transaction, origin))
        };
        Self(changes.iter().filter(is_place).filter_map(origin).collect())
    }

    /// Whether all changes are those of clients.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server that a change of a table comes from, 0 for this cluster; none for a change that
    /// is not logged.
    pub(super) fn server(&self, change: &RowChange, table: &str) -> Option<u32> {
        match self.0.get(&change.transaction) {
            None => Some(0),
            Some(origin) => {
                let is_logged = origin.is_logged && !table.to_lowercase().ends_with(EXCEPTIONS);
                is_logged.then_some(origin.server)
            }
        }
    }
}

/// Changes of a row that follow one another and have one origin.
#[derive(Debug)]
pub(super) struct Run {
    /// Tells the row, among all of the epoch. Runs of a row follow one another.
    pub(super) row: usize,
    /// The server.
    pub(super) origin: u32,
    /// What they do to unique values.
    pub(super) step: Step,
}

/// The transactions of the log that changes belong to: a round, and the origin. Those of a smaller
/// one come first.
pub(super) fn transactions(runs: &[Run]) -> Vec<(u32, u32)> {
    let mut givers: BTreeMap<&(IndexId, Key), Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        run.step.gives.iter().for_each(|value| givers.entry(value).or_default().push(at));
    }
    let mut places: Vec<(u32, u32)> = runs.iter().map(|run| (0, run.origin)).collect();
    for _ in 0..PASSES {
        let mut is_better = false;
        for (at, run) in runs.iter().enumerate() {
            let own = places[at];
            // The first place of this origin that is not before another one.
            let behind =
                |(round, origin): (u32, u32)| (round + u32::from(origin > run.origin), run.origin);
            let before = at.checked_sub(1).filter(|before| runs[*before].row == run.row);
            let of_row = before.map(|before| behind(places[before]));
            let given = run.step.takes.iter().filter_map(|value| givers.get(value)).flatten();
            let given = given.filter(|giver| **giver != at).map(|giver| behind(places[*giver]));
            let place = given.chain(of_row).fold(own, std::cmp::max);
            is_better |= place > own;
            places[at] = place;
        }
        if !is_better {
            break;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(row: usize, origin: u32) -> Run {
        Run { row, origin, step: Step::default() }
    }

    fn value(byte: u8) -> (IndexId, Key) {
        (IndexId(1), Key([byte].into()))
    }

    #[test]
    fn an_origin_is_a_transaction() {
        let runs = [run(0, 0), run(1, 7), run(2, 0), run(3, 9)];
        assert_eq!(transactions(&runs), [(0, 0), (0, 7), (0, 0), (0, 9)]);
    }

    #[test]
    fn the_changes_of_a_row_keep_their_order() {
        let runs = [run(0, 0), run(0, 7), run(0, 0), run(1, 7), run(1, 0)];
        assert_eq!(transactions(&runs), [(0, 0), (0, 7), (1, 0), (0, 7), (1, 0)]);
    }

    #[test]
    fn a_unique_value_is_taken_behind_the_change_that_gives_it_up() {
        let mut runs = [run(0, 7), run(1, 0), run(1, 7), run(2, 0)];
        runs[0].step.gives.push(value(1));
        runs[1].step.takes.push(value(1));
        // What the row gives up later is taken later.
        runs[2].step.gives.push(value(2));
        runs[3].step.takes.push(value(2));
        assert_eq!(transactions(&runs), [(0, 7), (1, 0), (1, 7), (2, 0)]);
    }

    #[test]
    fn a_circle_ends() {
        let mut runs = [run(0, 7), run(1, 0)];
        for (at, run) in runs.iter_mut().enumerate() {
            run.step.gives.push(value(at as u8));
            run.step.takes.push(value(1 - at as u8));
        }
        assert_eq!(transactions(&runs).len(), 2);
    }
}
