//! Few rows that everybody locks in any order: one deadlock after the other.
//!
//! Judged by the sum of the rows, which no transaction changes, and by what clients are told of
//! deadlocks (`checkers::deadlocks`).

use std::rc::Rc;

use client::{ClientOperation, ScanSpec};
use model::{ColumnId, Expression, Refusal, TableId, Value};
use testing::BIGINT;
use wire::LockMode;

use super::{fill, insist, int, judged};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.storm";
const COUNT: ColumnId = ColumnId(1);
/// Few, so that sessions meet.
const ROWS: u64 = 4;

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE).column("id", BIGINT).column("n", BIGINT);
    let table = insist(session, table.create()).await;
    let rows: Vec<_> = (0..ROWS as i64).map(|id| vec![Value::Int(id), Value::Int(0)]).collect();
    fill(session, table, &rows).await;
    lab.set_table("storm", table);
}

fn add(table: TableId, row: i64, amount: i64) -> ClientOperation {
    let assignments = vec![(COUNT, Expression::add(COUNT, amount))];
    ClientOperation::update(table, vec![Value::Int(row)], assignments)
}

/// Moves an amount along some rows in any order: one after the other, all at once, or by locks that
/// are shared first; sometimes looks at all rows under locks.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("storm");
    let mut left: Vec<i64> = (0..ROWS as i64).collect();
    let count = 2 + session.below(ROWS - 1) as usize;
    let rows: Vec<i64> =
        (0..count).map(|_| left.remove(session.below(left.len() as u64) as usize)).collect();
    let seen = if session.percent(10) { Some(look(session, table).await?) } else { None };
    let amount = 1 + session.below(9) as i64;
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    let by = |row: i64| match row {
        _ if row == first => amount,
        _ if row == last => -amount,
        _ => 0,
    };
    if seen.is_none() && session.percent(25) {
        let all = rows.iter().map(|row| add(table, *row, by(*row))).collect();
        return judged(session.autocommit(all).await);
    }
    for row in rows {
        if session.percent(30) {
            let key = vec![Value::Int(row)];
            let read = ClientOperation::read_locked(table, key, LockMode::Shared);
            session.run_all(vec![read]).await?;
        }
        session.run_all(vec![add(table, row, by(row))]).await?;
    }
    let ended = session.commit().await;
    if let (Some(seen), Ended::Committed(..)) = (seen, &ended) {
        check("under locks", &seen);
    }
    judged(ended)
}

/// All rows, which are locked then.
async fn look(session: &Session, table: TableId) -> Result<Vec<Vec<Value>>, Refusal> {
    let lock = if session.percent(50) { LockMode::Shared } else { LockMode::Exclusive };
    let spec = ScanSpec { lock, in_transaction: true, ..ScanSpec::heap(table) };
    let rows = session.scan(spec).await;
    if rows.is_err() {
        session.abort().await;
    }
    rows
}

/// Everybody adds to the same row, and holds nothing else.
pub(super) async fn queue(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    judged(session.autocommit(vec![add(lab.table("storm"), 0, 0)]).await)
}

/// All rows are there, and their sum is what it was.
pub(super) fn check(when: &str, rows: &[Vec<Value>]) {
    let sum: i64 = rows.iter().map(|row| int(&row[1])).sum();
    assert_eq!((rows.len() as u64, sum), (ROWS, 0), "storm {when}: rows and their sum");
}
