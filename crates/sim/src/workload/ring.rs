//! Rows that point at each other in one ring; transactions change the order of three of them.
//!
//! Any lost, half-done or wrongly ordered change breaks the ring into pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, OperationAnswer, ScanSpec};
use model::{ColumnId, ColumnType, Epoch, Expression, Refusal, Value};
use vector::{
    Aggregate, AggregateFunction, Block, Input, JoinPlan, KeyPart, Kind, Lookup, Matching, Node,
    Program, ScalarRef, Top, TopKey, Yield,
};
use wire::{LockMode, Projection};

use super::bank::BINARY;
use super::{Load, column, create_table, fill, insist, int, judged};
use crate::lab::Lab;
use crate::session::Session;

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
    judged(ended)
}

async fn look(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let epoch = session.open_snapshot().await?;
    if session.percent(50) {
        let joined = look_ahead(session, lab, load, epoch).await;
        session.close_snapshot(epoch).await;
        return joined;
    }
    let spec = ScanSpec { snapshot: Some(epoch), ..ScanSpec::heap(lab.table("ring")) };
    let rows = session.scan(spec).await;
    session.close_snapshot(epoch).await;
    check(&format!("snapshot {epoch}"), load, &rows?);
    Ok(())
}

/// Has the data nodes look up for each row its next one, that one's next, and so on: the values
/// seen on the way are those of the ring at that time.
async fn look_ahead(
    session: &Session,
    lab: &Rc<Lab>,
    load: &Load,
    epoch: Epoch,
) -> Result<(), Refusal> {
    let table = lab.table("ring");
    let Some(version) = session.definition(table).map(|table| table.version) else {
        return Ok(());
    };
    let steps = 1 + session.below(3) as u16;
    let counts = session.percent(30);
    let first = (!counts && session.percent(30)).then(|| 1 + session.below(5) as u32);
    let input = |column| Input { column: ColumnId(column), kind: Kind::Int };
    let program = |inputs: Vec<Input>, yields| {
        let nodes = (0..inputs.len() as u16).map(Node::Input).collect();
        let (filter, members) = (vec![], vec![]);
        Program { inputs, references: None, nodes, filter, yields, members, top: None }
    };
    let lookup = |step| Lookup {
        table,
        version,
        index: None,
        key: vec![KeyPart::Place(step + 1)],
        columns: vec![input(NEXT.0)],
        conditions: program(vec![], Yield::Rows(vec![])),
        matching: Matching::Inner,
    };
    let count = Aggregate { function: AggregateFunction::Count, node: None, collation: BINARY };
    let yields = match counts {
        true => Yield::Groups { keys: vec![], aggregates: vec![count] },
        false => Yield::Rows((0..steps + 2).collect()),
    };
    let mut result = program((0..steps + 2).map(input).collect(), yields);
    let by_number = TopKey { node: 0, descending: false, collation: BINARY };
    result.top = first.map(|rows| Top { keys: vec![by_number], rows });
    let plan = JoinPlan { lookups: (0..steps).map(lookup).collect(), result };
    let scanned = program(vec![input(0), input(NEXT.0)], Yield::Rows(vec![0, 1]));
    let spec = ScanSpec {
        projection: Projection::Columns(vec![ColumnId(0), NEXT]),
        snapshot: Some(epoch),
        program: Some(Arc::new(scanned)),
        join: Some(Arc::new(plan)),
        ..ScanSpec::heap(table)
    };
    let (blocks, rows) = session.compute(spec).await?;
    assert!(rows.is_empty(), "numbers can be computed with");
    check_joined(load, epoch, &blocks, (steps, counts, first));
    Ok(())
}

/// What comes of a join of rows with those so many steps further in the ring: their number, or the
/// first so many of them at least, or all.
fn check_joined(
    load: &Load,
    epoch: Epoch,
    blocks: &[Block],
    (steps, counts, first): (u16, bool, Option<u32>),
) {
    let number = |block: &Block, column: usize, at| match block.columns()[column].get(at) {
        ScalarRef::Int(number) => number,
        other => panic!("{other:?} is no number"),
    };
    if counts {
        let sum: i64 = blocks.iter().flat_map(|b| (0..b.rows()).map(|at| number(b, 0, at))).sum();
        assert_eq!(sum as u64, load.ring, "snapshot {epoch}: rows that were joined");
        return;
    }
    let row = |block: &Block, at| -> Vec<i64> {
        (0..usize::from(steps) + 2).map(|column| number(block, column, at)).collect()
    };
    let joined: Vec<Vec<i64>> =
        blocks.iter().flat_map(|b| (0..b.rows()).map(|at| row(b, at))).collect();
    if let Some(first) = first {
        let numbers: BTreeSet<i64> = joined.iter().map(|row| row[0]).collect();
        for number in 0..i64::from(first).min(load.ring as i64) {
            assert!(numbers.contains(&number), "snapshot {epoch}: {number} is one of the first");
        }
        return;
    }
    let pairs: Vec<Vec<Value>> =
        joined.iter().map(|row| row[..2].iter().map(|v| Value::Int(*v)).collect()).collect();
    check(&format!("joined in snapshot {epoch}"), load, &pairs);
    let next: BTreeMap<i64, i64> = joined.iter().map(|row| (row[0], row[1])).collect();
    for row in &joined {
        for pair in row.windows(2) {
            assert_eq!(next[&pair[0]], pair[1], "snapshot {epoch}: {row:?} is no part of the ring");
        }
    }
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
