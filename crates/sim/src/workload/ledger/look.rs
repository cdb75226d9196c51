//! Reads of an owner's rows in every way there is, compared with what the owner knows.

use client::{ClientOperation, ClientRead, IndexBound, ScanRange, ScanSpec};
use model::{ColumnId, Comparison, Epoch, Expression, Refusal, Table, Value};
use wire::{LockMode, ScanOrder};

use super::expect::Draft;
use super::{CATEGORY, COLUMNS, KEYS, key};
use crate::session::{Session, is_passing};

/// One way of reading committed rows.
pub(super) async fn round(session: &Session, table: &Table, draft: &Draft) -> Result<(), Refusal> {
    match session.below(6) {
        0 | 1 => by_key(session, table, draft, None).await,
        2 => by_tag(session, table, draft, None).await,
        3 => ordered(session, table, draft, None, false).await,
        4 => heap(session, table, draft, None).await,
        _ => {
            let epoch = session.open_snapshot().await?;
            let looked = match session.below(4) {
                0 => by_key(session, table, draft, Some(epoch)).await,
                1 => by_tag(session, table, draft, Some(epoch)).await,
                2 => ordered(session, table, draft, Some(epoch), false).await,
                _ => heap(session, table, draft, Some(epoch)).await,
            };
            session.close_snapshot(epoch).await;
            looked
        }
    }
}

/// Reads inside the open transaction, which sees its own changes. An error means that the
/// transaction is over.
pub(super) async fn own_changes(
    session: &Session,
    table: &Table,
    draft: &Draft,
) -> Result<(), Refusal> {
    if session.percent(60) {
        let looked = ordered(session, table, draft, None, true).await;
        if looked.is_err() {
            session.abort().await;
        }
        return looked;
    }
    let id = session.below(KEYS) as i64;
    let read = ClientOperation::read(table.id, key(draft.owner, id));
    let answer = session.run(vec![read]).await?.remove(0);
    if draft.is_outdated(session) {
        session.abort().await;
        return Err(model::ErrorCode::NodeFailed.into());
    }
    match (answer, draft.rows.get(&id)) {
        (Ok(client::OperationAnswer::Row(row)), Some(known)) => {
            assert_eq!(&row[..COLUMNS], known, "own change read by key");
        }
        (Err(refusal), None) if refusal.code == model::ErrorCode::RowNotFound => {}
        (Err(refusal), _) if is_passing(&refusal) => {
            session.abort().await;
            return Err(refusal);
        }
        (answer, known) => panic!("own change {id}: {answer:?} instead of {known:?}"),
    }
    Ok(())
}

fn known(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.into_iter().map(|row| row[..COLUMNS].to_vec()).collect()
}

async fn by_key(
    session: &Session,
    table: &Table,
    draft: &Draft,
    snapshot: Option<Epoch>,
) -> Result<(), Refusal> {
    let ids: Vec<i64> = (0..1 + session.below(6)).map(|_| session.below(KEYS) as i64).collect();
    let reads = ids.iter().map(|id| ClientRead::primary(table.id, key(draft.owner, *id)));
    let rows = session.read(reads.collect(), snapshot).await?;
    if draft.is_outdated(session) {
        return Ok(());
    }
    for (id, row) in ids.into_iter().zip(rows) {
        let row = row.map(|row| row[..COLUMNS].to_vec());
        let expected = draft.rows.get(&id);
        assert_eq!(row.as_ref(), expected, "owner {} row {id} at {snapshot:?}", draft.owner);
    }
    Ok(())
}

async fn by_tag(
    session: &Session,
    table: &Table,
    draft: &Draft,
    snapshot: Option<Epoch>,
) -> Result<(), Refusal> {
    let tag = Draft::tag(draft.owner, session.below(5));
    let index = table.unique_indexes.iter().find(|index| index.name == "by_tag");
    let index = index.expect("made with its table").id;
    let read = ClientRead::unique(table.id, index, vec![tag.clone()]);
    let row = session.read(vec![read], snapshot).await?.remove(0);
    let row = row.map(|row| row[..COLUMNS].to_vec());
    if draft.is_outdated(session) {
        return Ok(());
    }
    assert_eq!(row.as_ref(), draft.bearer(&tag), "by tag {tag} at {snapshot:?}");
    Ok(())
}

/// The owner's rows in the order of the index on category.
async fn ordered(
    session: &Session,
    table: &Table,
    draft: &Draft,
    snapshot: Option<Epoch>,
    in_transaction: bool,
) -> Result<(), Refusal> {
    let index = table.ordered_indexes.iter().find(|index| index.name == "by_category");
    let index = index.expect("made with its table").id;
    let low = session.below(4) as i64;
    let (mut lower, mut upper) = (vec![Value::Int(draft.owner)], vec![Value::Int(draft.owner)]);
    let bounded = session.percent(40);
    if bounded {
        lower.push(Value::Int(low));
        upper.push(Value::Int(low + 1));
    }
    let ascending = session.percent(50);
    let order = if ascending { ScanOrder::Ascending } else { ScanOrder::Descending };
    let lock =
        if in_transaction && session.percent(30) { LockMode::Shared } else { LockMode::Committed };
    let spec = ScanSpec {
        range: ScanRange::Index {
            index,
            lower: Some(IndexBound::including(lower)),
            upper: Some(IndexBound::including(upper)),
            order: Some(order),
        },
        snapshot,
        in_transaction,
        lock,
        ..ScanSpec::heap(table.id)
    };
    let rows = known(session.scan(spec).await?);
    if draft.is_outdated(session) {
        return Err(model::ErrorCode::NodeFailed.into());
    }
    let category = usize::from(CATEGORY.0);
    let within = |row: &&Vec<Value>| {
        !bounded || row[category] == Value::Int(low) || row[category] == Value::Int(low + 1)
    };
    let mut expected: Vec<Vec<Value>> = draft.rows.values().filter(within).cloned().collect();
    compare_sets("by category", draft.owner, &rows, &mut expected);
    let categories: Vec<Option<i64>> = rows
        .iter()
        .map(|row| match &row[category] {
            Value::Null => None,
            value => Some(super::super::int(value)),
        })
        .collect();
    let sorted =
        if ascending { categories.is_sorted() } else { categories.iter().rev().is_sorted() };
    assert!(sorted, "{categories:?} is not {order:?}");
    Ok(())
}

/// The owner's rows with a positive amount, by a scan of all rows.
async fn heap(
    session: &Session,
    table: &Table,
    draft: &Draft,
    snapshot: Option<Epoch>,
) -> Result<(), Refusal> {
    let own = Expression::compare(ColumnId(0), Comparison::Equal, Value::Int(draft.owner));
    let positive = Expression::compare(super::AMOUNT, Comparison::Greater, Value::Int(0));
    let filter = Some(Expression::And(vec![own, positive]));
    let spec = ScanSpec { filter, snapshot, ..ScanSpec::heap(table.id) };
    let rows = known(session.scan(spec).await?);
    if draft.is_outdated(session) {
        return Ok(());
    }
    let amount = usize::from(super::AMOUNT.0);
    let mut expected: Vec<Vec<Value>> =
        draft.rows.values().filter(|row| super::super::int(&row[amount]) > 0).cloned().collect();
    compare_sets("heap scan", draft.owner, &rows, &mut expected);
    Ok(())
}

fn compare_sets(what: &str, owner: i64, rows: &[Vec<Value>], expected: &mut [Vec<Value>]) {
    let name = |row: &Vec<Value>| super::super::int(&row[1]);
    let mut rows = rows.to_vec();
    rows.sort_by_key(name);
    expected.sort_by_key(name);
    assert_eq!(rows, expected, "{what} of owner {owner}");
}
