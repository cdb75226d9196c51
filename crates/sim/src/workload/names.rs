//! Sessions that fight for the same few unique values.
//!
//! Judged by: no value twice in any snapshot; the index and the table agree in every snapshot and
//! at the end.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, ClientRead, ScanSpec};
use model::{ColumnId, ColumnType, ErrorCode, Expression, IndexState, Refusal, Value};
use testing::BIGINT;

use super::{insist, judged_unless};
use crate::lab::Lab;
use crate::session::Session;

const TABLE: &str = "sim.names";
const NAME: ColumnId = ColumnId(1);
const COUNT: ColumnId = ColumnId(2);
const KEYS: u64 = 24;
const NAMES: u64 = 8;

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE)
        .column("id", BIGINT)
        .nullable("name", ColumnType::Variable(30))
        .column("count", BIGINT);
    let table = insist(session, table.unique("by_name", ["name"]).create()).await;
    lab.set_table("names", table);
}

fn name_of(number: u64) -> Value {
    Value::text(&format!("name {number}"))
}

/// One change of one or two rows, or one look.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let table = lab.table("names");
    let key = || vec![Value::Int(session.below(KEYS) as i64)];
    let name = || if session.percent(10) { Value::Null } else { name_of(session.below(NAMES)) };
    let row = || vec![key().remove(0), name(), Value::Int(1)];
    let rename = || {
        let count = (COUNT, Expression::add(COUNT, 1));
        ClientOperation::update(table, key(), vec![(NAME, Expression::Constant(name())), count])
    };
    let batch = match session.below(9) {
        0..2 => vec![ClientOperation::insert(table, row())],
        2 => vec![ClientOperation::upsert(table, row())],
        3..5 => vec![rename()],
        5 => vec![ClientOperation::delete(table, key())],
        6 => vec![ClientOperation::delete(table, key()), ClientOperation::insert(table, row())],
        7 => return lookup(session, lab).await,
        _ => return look(session, lab).await,
    };
    judged_unless(session.autocommit(batch).await, explained)
}

fn explained(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RowExists | ErrorCode::RowNotFound | ErrorCode::UniqueViolation)
}

/// A row found by its name bears it.
async fn lookup(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let Some(table) = session.definition(lab.table("names")) else { return Ok(()) };
    let index = &table.unique_indexes[0];
    assert_eq!(index.state, IndexState::Online, "made with its table");
    let name = name_of(session.below(NAMES));
    let read = ClientRead::unique(table.id, index.id, vec![name.clone()]);
    for row in session.read(vec![read], None).await?.into_iter().flatten() {
        assert_eq!(row[1], name, "found by another name");
    }
    Ok(())
}

/// In a snapshot no name is borne twice, and each bearer is found by its name.
async fn look(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let Some(table) = session.definition(lab.table("names")) else { return Ok(()) };
    let epoch = session.open_snapshot().await?;
    let spec = ScanSpec { snapshot: Some(epoch), ..ScanSpec::heap(table.id) };
    let rows = session.scan(spec).await;
    let reads = (0..NAMES).map(|number| {
        ClientRead::unique(table.id, table.unique_indexes[0].id, vec![name_of(number)])
    });
    let found = match rows {
        Ok(_) => session.read(reads.collect(), Some(epoch)).await,
        Err(_) => Ok(vec![]),
    };
    session.close_snapshot(epoch).await;
    let (rows, found) = (rows?, found?);
    let mut bearers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row[1] != Value::Null) {
        let twin = bearers.insert(row[1].to_string(), row.clone());
        assert!(twin.is_none(), "snapshot {epoch}: {row:?} and {twin:?}");
    }
    for (number, row) in found.into_iter().enumerate() {
        let bearer = bearers.get(&name_of(number as u64).to_string());
        assert_eq!(row.as_ref(), bearer, "snapshot {epoch}: by index and in the table");
    }
    Ok(())
}
