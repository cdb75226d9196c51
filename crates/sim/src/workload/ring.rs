//! Rows that point at each other in one ring; transactions change the order of three of them.
//!
//! Any lost, half-done or wrongly ordered change breaks the ring into pieces.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, OperationAnswer, ScanSpec};
use model::{ColumnId, ColumnType, Expression, Refusal, Value};
use wire::LockMode;

use super::{Load, column, create_table, fill, insist, int, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.ring";
const NEXT: ColumnId = ColumnId(1);

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>, load: &Load) {
    let columns = vec![column("id", ColumnType::Int(8)), column("next", ColumnType::Int(8))];
    let table = insist(session, create_table(TABLE, columns, 1)).await;
    let size = load.ring as i64;
    let rows: Vec<_> =
        (0..size).map(|id| vec![Value::Int(id), Value::Int((id + 1) % size)]).collect();
    fill(session, table, &rows).await;
    lab.set_table("ring", table);
}

/// One change of order, or one look at the ring.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    if session.percent(25) {
        look(session, lab, load).await
    } else {
        turn(session, lab, load).await
    }
}

async fn next_of(session: &Session, lab: &Rc<Lab>, id: i64) -> Result<i64, Refusal> {
    let key = vec![Value::Int(id)];
    let read = ClientOperation::read_locked(lab.table("ring"), key, LockMode::Exclusive);
    let answers = session.run_all(vec![read]).await?;
    match &answers[0] {
        OperationAnswer::Row(row) => Ok(int(&row[1])),
        other => panic!("a row, not {other:?}"),
    }
}

/// `a > b > c > d` becomes `a > c > b > d`.
async fn turn(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let table = lab.table("ring");
    let a = session.below(load.ring) as i64;
    let b = next_of(session, lab, a).await?;
    let c = next_of(session, lab, b).await?;
    let d = next_of(session, lab, c).await?;
    let point = |from: i64, to: i64| {
        let assignments = vec![(NEXT, Expression::Constant(Value::Int(to)))];
        ClientOperation::update(table, vec![Value::Int(from)], assignments)
    };
    let changes = vec![point(a, c), point(c, b), point(b, d)];
    let ended = if session.percent(50) {
        session.autocommit(changes).await
    } else {
        session.run_all(changes).await?;
        session.commit().await
    };
    match ended {
        Ended::Committed(..) | Ended::Unknown => Ok(()),
        Ended::Aborted(refusal) => passing(refusal),
    }
}

async fn look(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let epoch = session.open_snapshot().await?;
    let spec = ScanSpec { snapshot: Some(epoch), ..ScanSpec::heap(lab.table("ring")) };
    let rows = session.scan(spec).await;
    session.close_snapshot(epoch).await;
    check(&format!("snapshot {epoch}"), load, &rows?);
    Ok(())
}

/// All rows are one ring.
pub(super) fn check(what: &str, load: &Load, rows: &[Vec<Value>]) {
    let next: BTreeMap<i64, i64> = rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect();
    assert_eq!(next.len() as u64, load.ring, "{what}: rows of the ring");
    let (mut at, mut steps) = (0, 0);
    loop {
        at = next[&at];
        steps += 1;
        if at == 0 || steps > load.ring {
            break;
        }
    }
    assert_eq!(steps, load.ring, "{what}: the ring is in pieces: {next:?}");
}
