//! Counters that everybody adds to, in transactions that take some of their additions back.
//!
//! What is rolled back to a savepoint must not count, on no replica, also when the transaction
//! goes on and commits; additions are made where the row is (`n = n + 1`), so none may be lost.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::ClientOperation;
use model::{ClusterState, ColumnId, Epoch, Expression, Refusal, Value};
use testing::BIGINT;

use super::doubt::{Addition, explains};
use super::{fill, insist, int, is_kept, judged};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.counters";
const COUNT: ColumnId = ColumnId(1);
/// Few, so that sessions meet.
const COUNTERS: i64 = 5;

/// What was added, as far as it is known.
#[derive(Debug, Default)]
pub struct CounterBook {
    /// What committed, and in which epoch.
    added: Vec<(Epoch, Addition)>,
    /// Of transactions whose end is not known, by number.
    doubtful: BTreeMap<u32, Addition>,
}

impl CounterBook {
    /// A transaction is about to end that adds so much.
    pub(super) fn begin(&mut self, number: u32, added: Addition) {
        self.doubtful.insert(number, added);
    }

    pub(super) fn end(&mut self, number: u32, ended: &Ended) {
        if matches!(ended, Ended::Unknown) {
            return;
        }
        let added = self.doubtful.remove(&number).expect("begun before");
        if let Ended::Committed(epoch, _) = ended {
            self.added.push((*epoch, added));
        }
    }

    /// How many transactions were told as committed.
    pub(super) fn told(&self) -> usize {
        self.added.len()
    }

    /// What the first `told` of them added, without those that a restart of the whole cluster has
    /// lost.
    pub(super) fn sums_of(&self, cluster: &ClusterState, told: usize) -> BTreeMap<i64, i64> {
        let mut sums = BTreeMap::new();
        let remain = self.added[..told].iter().filter(|(epoch, _)| is_kept(cluster, *epoch));
        for (counter, amount) in remain.flat_map(|(_, added)| added) {
            *sums.entry(*counter).or_default() += amount;
        }
        sums
    }

    /// Compares the counters at the end with what committed and was not lost in a restart of the
    /// whole cluster.
    pub(crate) fn check(&self, cluster: &ClusterState, rows: &[Vec<Value>]) {
        assert_eq!(rows.len() as i64, COUNTERS, "all counters are there");
        self.check_sums(cluster, rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect());
    }

    /// Compares sums, by name, with what committed.
    pub(super) fn check_sums(&self, cluster: &ClusterState, mut deviations: BTreeMap<i64, i64>) {
        for (counter, amount) in self.sums_of(cluster, self.added.len()) {
            *deviations.entry(counter).or_default() -= amount;
        }
        let doubtful: Vec<&Addition> = self.doubtful.values().collect();
        assert!(
            explains(&deviations, &doubtful),
            "additions lost or doubled: {deviations:?}, in doubt {doubtful:?}"
        );
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE).column("id", BIGINT).column("n", BIGINT);
    let table = insist(session, table.create()).await;
    let rows: Vec<_> = (0..COUNTERS).map(|id| vec![Value::Int(id), Value::Int(0)]).collect();
    fill(session, table, &rows).await;
    lab.set_table("counters", table);
}

/// Additions, some of them taken back, and the end.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("counters");
    let mut added: Vec<(i64, i64)> = Vec::new();
    for _ in 0..1 + session.below(3) {
        added.extend(add(session, table).await?);
        if session.percent(40) {
            let savepoint = session.savepoint().await;
            for _ in 0..1 + session.below(2) {
                add(session, table).await?;
            }
            session.rollback_to(savepoint).await?;
        }
    }
    if session.percent(10) {
        session.abort().await;
        return Ok(());
    }
    let number = lab.number();
    lab.counters.borrow_mut().begin(number, added);
    let ended = session.commit().await;
    lab.counters.borrow_mut().end(number, &ended);
    judged(ended)
}

/// Adds to one or two counters in one batch; what was added. Sorted, so that sessions wait for each
/// other rather than in a circle.
async fn add(session: &Session, table: model::TableId) -> Result<Vec<(i64, i64)>, Refusal> {
    let mut counters: Vec<i64> =
        (0..1 + session.below(2)).map(|_| session.below(COUNTERS as u64) as i64).collect();
    counters.sort_unstable();
    counters.dedup();
    let amount = session.below(9) as i64 + 1;
    let operation = |counter: &i64| {
        let assignments = vec![(COUNT, Expression::add(COUNT, amount))];
        ClientOperation::update(table, vec![Value::Int(*counter)], assignments)
    };
    session.run_all(counters.iter().map(operation).collect()).await?;
    Ok(counters.into_iter().map(|counter| (counter, amount)).collect())
}
