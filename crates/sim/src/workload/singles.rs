//! Changes of one row, each a transaction by itself: what is sent with its commit.
//!
//! Judged by: additions that are told as committed are seen by every read that begins afterwards
//! and are there at the end, and so is what anyone has ever seen; of two additions by one session,
//! no snapshot has the second without the first; a row that was inserted is found until it is
//! deleted.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, ClientRead, ScanSpec};
use model::{ClusterState, ColumnId, Expression, Refusal, TableId, Value};
use testing::BIGINT;

use super::counters::CounterBook;
use super::{fill, insist, int, judged, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.singles";
const COUNT: ColumnId = ColumnId(1);
/// Rows that everybody adds to: few, so that sessions meet.
const SHARED: i64 = 6;
/// The number of the first row of a session's pair.
const PAIRS: i64 = 1_000;
/// The number of the first row that comes and goes.
const PASSING: i64 = 1_000_000_000;

/// What is known of the rows.
#[derive(Debug, Default)]
pub struct SingleBook {
    sums: CounterBook,
    /// The most that anyone has seen in the newest generation heard of.
    generation: usize,
    seen: BTreeMap<i64, i64>,
}

impl SingleBook {
    /// What counts in a generation; what another one knew may be gone.
    fn enter(&mut self, generation: usize) -> bool {
        if generation > self.generation {
            self.generation = generation;
            self.seen.clear();
        }
        generation == self.generation
    }

    /// Compares the rows at the end with all of it.
    pub(crate) fn check(&self, cluster: &ClusterState, rows: &[Vec<Value>]) {
        let counts: BTreeMap<i64, i64> = counts(rows);
        let shared: BTreeMap<i64, i64> = counts.range(..SHARED).map(|(id, n)| (*id, *n)).collect();
        assert_eq!(shared.len() as i64, SHARED, "rows that everybody adds to");
        if cluster.restarts.len() == self.generation {
            for (id, seen) in &self.seen {
                assert!(counts[id] >= *seen, "{id}: {seen} was seen, {} is left", counts[id]);
            }
        }
        self.sums.check_sums(cluster, shared);
        check_pairs("at the end", &counts);
    }
}

/// One session: the pair of rows that only it adds to.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The first of them, once both are there.
    pair: Option<i64>,
    /// Additions to the first that the second has not followed.
    ahead: u32,
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE).column("id", BIGINT).column("n", BIGINT);
    let table = insist(session, table.create()).await;
    let rows: Vec<_> = (0..SHARED).map(|id| vec![Value::Int(id), Value::Int(0)]).collect();
    fill(session, table, &rows).await;
    lab.set_table("singles", table);
}

impl Owner {
    /// One change, or one look.
    pub(super) async fn round(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        match session.below(20) {
            0..9 => add(session, lab).await,
            9..14 => self.follow(session, lab).await,
            14..17 => look(session, lab).await,
            17 => snapshot(session, lab).await,
            _ => come_and_go(session, lab).await,
        }
    }

    /// Adds to the first row of the pair, then to the second.
    async fn follow(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        let table = lab.table("singles");
        let Some(first) = self.pair else {
            let first = PAIRS + 2 * i64::from(lab.number());
            for id in [first, first + 1] {
                let row = vec![Value::Int(id), Value::Int(0)];
                let ended = session.autocommit(vec![ClientOperation::insert(table, row)]).await;
                if !matches!(ended, Ended::Committed(..)) {
                    return judged(ended); // Another pair, another time.
                }
            }
            self.pair = Some(first);
            return Ok(());
        };
        let generation = session.generation();
        let ended = session.autocommit(vec![addition(table, first, 1)]).await;
        if !matches!(ended, Ended::Committed(..)) {
            return self.judged(session, generation, ended);
        }
        self.ahead += 1;
        if session.percent(30) {
            return Ok(());
        }
        self.ahead -= 1;
        let ended = session.autocommit(vec![addition(table, first + 1, 1)]).await;
        self.judged(session, generation, ended)
    }

    /// Rows of a pair may be gone after a restart of the whole cluster.
    fn judged(
        &mut self,
        session: &Session,
        generation: usize,
        ended: Ended,
    ) -> Result<(), Refusal> {
        let gone = matches!(&ended, Ended::Aborted(Some(refusal)) if refusal.code == NOT_FOUND);
        if gone {
            assert!(session.generation() > 0 || generation > 0, "a row of a pair is lost");
            *self = Self::default();
            return Ok(());
        }
        judged(ended)
    }
}

const NOT_FOUND: model::ErrorCode = model::ErrorCode::RowNotFound;

fn addition(table: TableId, id: i64, amount: i64) -> ClientOperation {
    let assignments = vec![(COUNT, Expression::add(COUNT, amount))];
    ClientOperation::update(table, vec![Value::Int(id)], assignments)
}

async fn add(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let (id, amount) = (session.below(SHARED as u64) as i64, session.below(9) as i64 + 1);
    let number = lab.number();
    lab.singles.borrow_mut().sums.begin(number, vec![(id, amount)]);
    let ended = session.autocommit(vec![addition(lab.table("singles"), id, amount)]).await;
    lab.singles.borrow_mut().sums.end(number, &ended);
    judged(ended)
}

/// What is read has at least what was told before, wherever it is read.
async fn look(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let generation = session.generation();
    let told = lab.singles.borrow().sums.told();
    let ids: Vec<i64> = (0..SHARED).collect();
    let table = lab.table("singles");
    let reads = ids.iter().map(|id| ClientRead::primary(table, vec![Value::Int(*id)]));
    let rows = session.read(reads.collect(), None).await?;
    let mut book = lab.singles.borrow_mut();
    if session.generation() != generation || !book.enter(generation) {
        return Ok(());
    }
    let told = book.sums.sums_of(&session.cluster(), told);
    for (id, row) in ids.iter().zip(rows) {
        let found = int(&row.unwrap_or_else(|| panic!("{id} is lost"))[1]);
        let least = told.get(id).copied().unwrap_or_default();
        assert!(found >= least, "{id}: {least} was told, {found} is read");
        let seen = book.seen.entry(*id).or_default();
        *seen = (*seen).max(found);
    }
    Ok(())
}

async fn snapshot(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let spec = ScanSpec::heap(lab.table("singles"));
    let (epoch, [rows]) = super::scan_snapshot(session, [spec]).await?;
    check_pairs(&format!("snapshot {epoch}"), &counts(&rows));
    Ok(())
}

/// Inserts a row, finds it, deletes it, and finds it no more.
async fn come_and_go(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("singles");
    let id = PASSING + i64::from(lab.number());
    let key = || vec![Value::Int(id)];
    let generation = session.generation();
    let insert = ClientOperation::insert(table, vec![Value::Int(id), Value::Int(0)]);
    let delete = ClientOperation::delete(table, key());
    for (change, there) in [(insert, true), (delete, false)] {
        match session.autocommit(vec![change]).await {
            Ended::Committed(..) => {}
            _ if session.generation() != generation => return Ok(()),
            Ended::Aborted(refusal) => return passing(refusal),
            Ended::Unknown => return Ok(()),
        }
        let row = session.read(vec![ClientRead::primary(table, key())], None).await?.remove(0);
        if session.generation() != generation {
            return Ok(());
        }
        assert_eq!(row.is_some(), there, "{id} after its change was told as committed");
    }
    Ok(())
}

fn counts(rows: &[Vec<Value>]) -> BTreeMap<i64, i64> {
    rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect()
}

/// No second row of a pair is ahead of the first.
fn check_pairs(what: &str, counts: &BTreeMap<i64, i64>) {
    for (id, second) in counts.range(PAIRS..PASSING).filter(|(id, _)| **id % 2 == 1) {
        let first = counts.get(&(id - 1));
        assert!(
            first.is_some_and(|first| first >= second),
            "{what}: {id} is {second} of {first:?}"
        );
    }
}
