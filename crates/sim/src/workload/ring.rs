//! Rows that point at each other in one ring; transactions change the order of three of them.
//!
//! Any lost, half-done or wrongly ordered change breaks the ring into pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, OperationAnswer, ScanSpec};
use model::{ColumnId, Epoch, Expression, IndexId, Refusal, TableId, Value};
use testing::BIGINT;
use vector::{
    Aggregate, AggregateFunction, Block, GIVEN_ROWS_MAX, Given, GivenKey, Input, JoinPlan, KeyPart,
    Kind, Lookup, Matching, NO_TABLE, Node, Program, Range, ScalarRef, Top, TopKey, Vector, Yield,
};
use wire::{LockMode, Projection};

use super::bank::BINARY;
use super::{Load, fill, insist, int, judged};
use crate::lab::Lab;
use crate::session::Session;

const TABLE: &str = "sim.ring";
const NEXT: ColumnId = ColumnId(1);

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>, load: &Load) {
    let table = testing::table(TABLE).column("id", BIGINT).column("next", BIGINT);
    let table = insist(session, table.index("by_next", ["next"]).create()).await;
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

/// What is looked up for each row of the ring, by data nodes.
struct Look {
    steps: u16,
    /// The ones before, which are found by an index; the ones behind otherwise, by their keys.
    back: bool,
    /// Whether it is asked at last if there is one before: rows for which there is, or is not.
    asks: Option<Matching>,
    counts: bool,
    /// So many rows with the smallest numbers.
    first: Option<u32>,
    /// Beside all numbers of the ring, so many, which come with the plan.
    given: Option<u64>,
}

impl Look {
    fn any(session: &Session, load: &Load) -> Self {
        let steps = 1 + session.below(3) as u16;
        let counts = session.percent(30);
        let first = (!counts && session.percent(30)).then(|| 1 + session.below(5) as u32);
        let back = session.percent(50);
        let asks = session
            .percent(40)
            .then(|| if session.percent(50) { Matching::Inner } else { Matching::Anti });
        let most = GIVEN_ROWS_MAX as u64;
        let given = Some(load.ring).filter(|numbers| *numbers <= most && session.percent(30));
        Self { steps, back, asks, counts, first, given }
    }

    /// The plan over rows of number and next number, or of next number and number.
    fn plan(&self, table: TableId, version: u32, index: IndexId) -> JoinPlan {
        let input = |column| Input { column: ColumnId(column), kind: Kind::Int };
        let found = || Range {
            program: program(vec![input(0), input(NEXT.0)], Yield::Rows(vec![0, 1])),
            key: vec![1],
            any: false,
        };
        let by = |place, column, matching| Lookup {
            table,
            version,
            index: None,
            key: vec![KeyPart::Place(place)],
            columns: vec![input(column)],
            conditions: program(vec![], Yield::Rows(vec![])),
            matching,
            range: None,
            given: None,
        };
        let before = |place| {
            let lookup = by(place, 0, Matching::Inner);
            Lookup { index: Some(index), range: Some(found()), ..lookup }
        };
        let step = |step: u16| {
            if self.back { before(step + 1) } else { by(step + 1, NEXT.0, Matching::Inner) }
        };
        let mut lookups: Vec<Lookup> = (0..self.steps).map(step).collect();
        if let Some(matching) = self.asks {
            let range = Some(Range { any: true, ..found() });
            lookups.push(Lookup { matching, range, ..before(0) });
        }
        if let Some(numbers) = self.given {
            let mut column = Vector::new(Kind::Int);
            (0..numbers as i64).for_each(|number| column.push(ScalarRef::Int(number)));
            let key = vec![GivenKey { column: 0, collation: BINARY }];
            let given = Some(Given { rows: Block::new(column.len(), vec![column]), key });
            let (table, version, columns) = (NO_TABLE, 0, vec![]);
            let first = by(0, 0, Matching::Inner);
            lookups.insert(0, Lookup { table, version, columns, given, ..first });
        }
        let count = Aggregate { function: AggregateFunction::Count, node: None, collation: BINARY };
        let yields = if self.counts {
            Yield::Groups { keys: vec![], aggregates: vec![count] }
        } else {
            Yield::Rows((0..self.steps + 2).collect())
        };
        let mut result = program((0..self.steps + 2).map(input).collect(), yields);
        let node = u16::from(self.back);
        let by_number = TopKey { node, descending: false, collation: BINARY };
        result.top = self.first.map(|rows| Top { keys: vec![by_number], rows });
        JoinPlan { lookups, result }
    }
}

fn program(inputs: Vec<Input>, yields: Yield) -> Program {
    let nodes = (0..inputs.len() as u16).map(Node::Input).collect();
    let (filter, members) = (vec![], vec![]);
    Program { inputs, references: None, nodes, filter, yields, members, top: None }
}

/// Has the data nodes look up for each row its next one, that one's next, and so on, or those
/// before it: the values seen on the way are those of the ring at that time.
async fn look_ahead(
    session: &Session,
    lab: &Rc<Lab>,
    load: &Load,
    epoch: Epoch,
) -> Result<(), Refusal> {
    let table = lab.table("ring");
    let Some(definition) = session.definition(table) else { return Ok(()) };
    let look = Look::any(session, load);
    let input = |column| Input { column: ColumnId(column), kind: Kind::Int };
    let plan = look.plan(table, definition.version, definition.ordered_indexes[0].id);
    let order = if look.back { vec![1, 0] } else { vec![0, 1] };
    let scanned = program(vec![input(0), input(NEXT.0)], Yield::Rows(order));
    let spec = ScanSpec {
        projection: Projection::Columns(vec![ColumnId(0), NEXT]),
        snapshot: Some(epoch),
        program: Some(Arc::new(scanned)),
        join: Some(Arc::new(plan)),
        ..ScanSpec::heap(table)
    };
    let (blocks, rows) = session.compute(spec).await?;
    assert!(rows.is_empty(), "numbers can be computed with");
    check_joined(load, epoch, &blocks, &look);
    Ok(())
}

/// What comes of a join of rows with those so many steps further in the ring: their number, or the
/// first so many of them at least, or all.
fn check_joined(load: &Load, epoch: Epoch, blocks: &[Block], look: &Look) {
    let Look { steps, back, asks, counts, first, .. } = *look;
    // Every number is the next of one.
    let size = if asks == Some(Matching::Anti) { 0 } else { load.ring };
    let number = |block: &Block, column: usize, at| match block.columns()[column].get(at) {
        ScalarRef::Int(number) => number,
        other => panic!("{other:?} is no number"),
    };
    if counts {
        let sum: i64 = blocks.iter().flat_map(|b| (0..b.rows()).map(|at| number(b, 0, at))).sum();
        assert_eq!(sum as u64, size, "snapshot {epoch}: rows that were joined");
        return;
    }
    let row = |block: &Block, at| -> Vec<i64> {
        let mut row: Vec<i64> =
            (0..usize::from(steps) + 2).map(|column| number(block, column, at)).collect();
        if back {
            row.reverse();
        }
        row
    };
    let joined: Vec<Vec<i64>> =
        blocks.iter().flat_map(|b| (0..b.rows()).map(|at| row(b, at))).collect();
    if size == 0 {
        return assert!(joined.is_empty(), "snapshot {epoch}: {joined:?} have none before them");
    }
    // Where a row has its own number, and the next one behind it.
    let own = if back { usize::from(steps) } else { 0 };
    if let Some(first) = first {
        let numbers: BTreeSet<i64> = joined.iter().map(|row| row[own]).collect();
        for number in 0..i64::from(first).min(load.ring as i64) {
            assert!(numbers.contains(&number), "snapshot {epoch}: {number} is one of the first");
        }
        return;
    }
    let pairs: Vec<Vec<Value>> = joined
        .iter()
        .map(|row| row[own..own + 2].iter().map(|v| Value::Int(*v)).collect())
        .collect();
    check(&format!("joined in snapshot {epoch}"), load, &pairs);
    let next: BTreeMap<i64, i64> = joined.iter().map(|row| (row[own], row[own + 1])).collect();
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
