//! Statements that change all rows of a table in one transaction, while the scan that finds them
//! goes on; some are undone as a whole, some in part.
//!
//! A table of many partitions, which a scan opens one after the other. All rows are of one
//! generation, and a sweep has all of them become of the next one: whoever sees two generations
//! sees a sweep that was done in part. A scan must not meet what its own transaction does after it
//! was opened, so no sweep meets a row twice, and no copy of a row that it has made itself.

use std::rc::Rc;

use client::{ClientOperation, ScanRange, ScanSpec};
use model::{ColumnId, Expression, Refusal, TableId, Value};
use testing::BIGINT;
use wire::{LockMode, ScanOrder};

use super::{fill, insist, int, judged};
use crate::lab::Lab;
use crate::session::Session;

const TABLE: &str = "sim.sweeps";
const GENERATION: ColumnId = ColumnId(1);
/// More than a scan reads at a time.
const PARTITIONS: u16 = 40;
const ROWS: i64 = 80;
/// Scans that a worker has to let be open, so that several sweeps go on at a time.
pub(super) const SCANS_MIN: u32 = 256;
/// Copies of rows have numbers from here.
const COPIES: i64 = 1_000;

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE)
        .column("id", BIGINT)
        .column("generation", BIGINT)
        .index("by_generation", ["generation"])
        .partitions(PARTITIONS);
    let table = insist(session, table.create()).await;
    let rows: Vec<_> = (0..ROWS).map(|id| vec![Value::Int(id), Value::Int(0)]).collect();
    fill(session, table, &rows).await;
    lab.set_table("sweeps", table);
}

/// One statement or two, and their end; or a look.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("sweeps");
    if session.percent(30) {
        let epoch = session.open_snapshot().await?;
        let rows = session.scan(ScanSpec { snapshot: Some(epoch), ..ScanSpec::heap(table) }).await;
        session.close_snapshot(epoch).await;
        check(&format!("snapshot {epoch}"), &rows?);
        return Ok(());
    }
    let swept = sweeps(session, table).await;
    if swept.is_err() || session.percent(20) {
        // Nothing happens when it is over already.
        session.abort().await;
        return swept;
    }
    judged(session.commit().await)
}

async fn sweeps(session: &Session, table: TableId) -> Result<(), Refusal> {
    sweep(session, table).await?;
    if session.percent(50) {
        return Ok(());
    }
    let savepoint = session.savepoint().await;
    if session.percent(50) {
        sweep(session, table).await?
    } else {
        copy(session, table).await?
    }
    session.rollback_to(savepoint).await?;
    if session.percent(50) {
        let own = ScanSpec { in_transaction: true, ..ScanSpec::heap(table) };
        check("after a rollback", &session.scan(own).await?);
    }
    Ok(())
}

/// Has all rows become of the next generation, as they are found.
async fn sweep(session: &Session, table: TableId) -> Result<(), Refusal> {
    let index = session.definition(table).and_then(|t| Some(t.ordered_indexes.first()?.id));
    let range = match index {
        // The rows move up in the index that they are found by.
        Some(index) if session.percent(50) => {
            let order = session.percent(50).then_some(ScanOrder::Ascending);
            ScanRange::Index { index, lower: None, upper: None, order }
        }
        _ => ScanRange::Heap,
    };
    let (lock, in_transaction) = (LockMode::Exclusive, true);
    let spec = ScanSpec { range, lock, in_transaction, ..ScanSpec::heap(table) };
    let (mut found, mut more) = session.scan_begin(spec).await?;
    let mut all = Vec::new();
    loop {
        let next = |row: &Vec<Value>| {
            let assignments = vec![(GENERATION, Expression::add(GENERATION, 1))];
            ClientOperation::update(table, vec![row[0].clone()], assignments)
        };
        if !found.is_empty() {
            session.run_all(found.iter().map(next).collect()).await?;
        }
        all.append(&mut found);
        if !more {
            break;
        }
        (found, more) = session.scan_more().await?;
    }
    check("a sweep", &all);
    Ok(())
}

/// Has a copy of each row made, as they are found: to be undone.
async fn copy(session: &Session, table: TableId) -> Result<(), Refusal> {
    let own = ScanSpec { in_transaction: true, ..ScanSpec::heap(table) };
    let (mut found, mut more) = session.scan_begin(own).await?;
    let mut all = Vec::new();
    loop {
        let copied = |row: &Vec<Value>| {
            let id = Value::Int(int(&row[0]) + COPIES);
            ClientOperation::insert(table, vec![id, row[1].clone()])
        };
        if !found.is_empty() {
            session.run_all(found.iter().map(copied).collect()).await?;
        }
        all.append(&mut found);
        if !more {
            break;
        }
        (found, more) = session.scan_more().await?;
    }
    check("a copy", &all);
    Ok(())
}

/// All rows are there once, and of one generation.
pub(super) fn check(what: &str, rows: &[Vec<Value>]) {
    let mut ids: Vec<i64> = rows.iter().map(|row| int(&row[0])).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..ROWS), "{what} finds other rows of a sweep: {ids:?}");
    let generation = rows.first().map(|row| int(&row[1]));
    let odd: Vec<i64> =
        rows.iter().map(|row| int(&row[1])).filter(|other| Some(*other) != generation).collect();
    assert!(odd.is_empty(), "{what} finds a sweep done in part: {generation:?} and {odd:?}");
}
