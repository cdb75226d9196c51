//! Transfers between accounts: money is neither made nor lost.
//!
//! Judged by sums over snapshots and over locked rows while it runs, and by each balance at the
//! end: what it was plus every transfer that committed and was not lost in a restart of the whole
//! cluster.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, ClientRead, OperationAnswer, ScanSpec};
use model::{
    ClusterState, ColumnId, ColumnType, Comparison, Epoch, ErrorCode, Expression, Refusal, Value,
};
use stdx::Duration;
use testing::BIGINT;
use vector::{
    Aggregate, AggregateFunction, GroupKey, Input, Kind, Node, Program, Scalar, ScalarRef, Yield,
};
use wire::{LockMode, Projection};

use super::doubt::{Addition, explains};
use super::{Load, fill, insist, int, is_kept, judged, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.bank";
const BALANCE: ColumnId = ColumnId(1);
/// The collation that numbers have.
pub(super) const BINARY: u16 = 63;
/// What each account begins with.
pub(crate) const OPENING_BALANCE: i64 = 1_000;

/// Transfers whose end is known, and those in doubt.
#[derive(Debug, Default)]
pub struct BankBook {
    /// What committed, and in which epoch.
    transfers: Vec<(Epoch, Addition)>,
    /// Transfers under way, by number, and those whose end nobody knows.
    open: BTreeMap<u32, Addition>,
}

impl BankBook {
    fn begin(&mut self, number: u32, deltas: &[(i64, i64)]) {
        self.open.insert(number, deltas.to_vec());
    }

    fn end(&mut self, number: u32, ended: &Ended) {
        if matches!(ended, Ended::Unknown) {
            return;
        }
        let deltas = self.open.remove(&number).expect("begun before");
        if let Ended::Committed(epoch, _) = ended {
            self.transfers.push((*epoch, deltas));
        }
    }

    /// Compares the balances at the end with what committed and was not lost in a restart of the
    /// whole cluster.
    pub(crate) fn check(&self, cluster: &ClusterState, balances: &BTreeMap<i64, i64>) {
        let opened =
            balances.iter().map(|(account, balance)| (*account, balance - OPENING_BALANCE));
        let mut deviations: BTreeMap<i64, i64> = opened.collect();
        let remain = self.transfers.iter().filter(|(epoch, _)| is_kept(cluster, *epoch));
        for (account, delta) in remain.flat_map(|(_, deltas)| deltas) {
            *deviations.entry(*account).or_default() -= delta;
        }
        let doubtful: Vec<&Addition> = self.open.values().collect();
        assert!(
            explains(&deviations, &doubtful),
            "accounts: transfers lost or doubled: {deviations:?}, in doubt {doubtful:?}"
        );
    }
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>, load: &Load) {
    let table = testing::table(TABLE)
        .column("id", BIGINT)
        .column("balance", BIGINT)
        .nullable("note", ColumnType::Variable(60));
    let table = insist(session, table.create()).await;
    let account = |id| vec![Value::Int(id), Value::Int(OPENING_BALANCE), Value::Null];
    let rows: Vec<_> = (0..load.accounts as i64).map(account).collect();
    fill(session, table, &rows).await;
    lab.set_table("bank", table);
}

/// One transfer or one look at the sum.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    match session.below(10) {
        0..4 => simple_transfer(session, lab, load).await,
        4..7 => locked_transfer(session, lab, load).await,
        7 => sum_of_snapshot(session, lab, load).await,
        8 => sum_of_snapshot_by_keys(session, lab, load).await,
        _ => sum_of_locked_rows(session, lab, load).await,
    }
}

fn two_accounts(session: &Session, load: &Load) -> (i64, i64) {
    let from = session.below(load.accounts);
    let to = (from + 1 + session.below(load.accounts - 1)) % load.accounts;
    (from as i64, to as i64)
}

/// A conditional update and an update in one batch.
async fn simple_transfer(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let table = lab.table("bank");
    let (from, to) = two_accounts(session, load);
    let amount = session.below(400) as i64 + 1;
    let enough = Expression::compare(BALANCE, Comparison::GreaterOrEqual, Value::Int(amount));
    let take = vec![(BALANCE, Expression::add(BALANCE, -amount))];
    let give = vec![(BALANCE, Expression::add(BALANCE, amount))];
    let batch = vec![
        ClientOperation::update_if(table, vec![Value::Int(from)], enough, take),
        ClientOperation::update(table, vec![Value::Int(to)], give),
    ];
    let number = lab.number();
    lab.bank.borrow_mut().begin(number, &[(from, -amount), (to, amount)]);
    let ended = session.autocommit(batch).await;
    lab.bank.borrow_mut().end(number, &ended);
    match ended {
        Ended::Committed(..) => Ok(()),
        Ended::Aborted(Some(refusal)) if refusal.code == ErrorCode::ConditionFalse => Ok(()),
        Ended::Aborted(refusal) => passing(refusal),
        Ended::Unknown => Ok(()),
    }
}

/// Reads under locks, computes at the client, writes what it has computed; sometimes after a
/// detour that is rolled back to a savepoint.
async fn locked_transfer(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let table = lab.table("bank");
    let (from, to) = two_accounts(session, load);
    let read = |id| ClientOperation::read_locked(table, vec![Value::Int(id)], LockMode::Exclusive);
    let balances = if session.percent(50) {
        session.run_all(vec![read(from), read(to)]).await?
    } else {
        let mut first = session.run_all(vec![read(from)]).await?;
        first.extend(session.run_all(vec![read(to)]).await?);
        first
    };
    let balance = |at: usize| match &balances[at] {
        OperationAnswer::Row(row) => int(&row[1]),
        other => panic!("a row, not {other:?}"),
    };
    let amount = session.below(300) as i64 - 50;
    let set = |id: i64, value: i64| {
        let assignments = vec![(BALANCE, Expression::Constant(Value::Int(value)))];
        ClientOperation::update(table, vec![Value::Int(id)], assignments)
    };
    if session.percent(40) {
        let savepoint = session.savepoint().await;
        session.run_all(vec![set(from, -1), set(to, -2)]).await?;
        session.rollback_to(savepoint).await?;
    }
    session.run_all(vec![set(from, balance(0) - amount)]).await?;
    if load.idle > Duration::ZERO && session.below(200) == 0 {
        session.sleep(load.idle).await;
    } else if session.percent(20) {
        session.pause(15).await;
    }
    session.run_all(vec![set(to, balance(1) + amount)]).await?;
    if session.percent(10) {
        session.abort().await;
        return Ok(());
    }
    let number = lab.number();
    lab.bank.borrow_mut().begin(number, &[(from, -amount), (to, amount)]);
    let ended = session.commit().await;
    lab.bank.borrow_mut().end(number, &ended);
    judged(ended)
}

fn check_sum(what: &str, load: &Load, balances: impl Iterator<Item = i64>) {
    let balances: Vec<i64> = balances.collect();
    assert_eq!(balances.len() as u64, load.accounts, "{what}: {} accounts", balances.len());
    let sum: i64 = balances.iter().sum();
    let expected = OPENING_BALANCE * load.accounts as i64;
    assert_eq!(sum, expected, "{what}: the sum of all balances");
}

async fn sum_of_snapshot(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let epoch = session.open_snapshot().await?;
    let times = 1 + session.below(2);
    for _ in 0..times {
        let spec = ScanSpec { snapshot: Some(epoch), ..ScanSpec::heap(lab.table("bank")) };
        if session.percent(40) {
            if let Err(refusal) = computed_sum(session, spec, load).await {
                session.close_snapshot(epoch).await;
                return Err(refusal);
            }
            continue;
        }
        match session.scan(spec).await {
            Ok(rows) => {
                check_sum(&format!("snapshot {epoch}"), load, rows.iter().map(|row| int(&row[1])));
            }
            Err(refusal) => {
                session.close_snapshot(epoch).await;
                return Err(refusal);
            }
        }
        session.pause(30).await;
    }
    session.close_snapshot(epoch).await;
    Ok(())
}

/// Has the data nodes add up: all balances together, in groups, or as rows that pass a filter.
async fn computed_sum(session: &Session, spec: ScanSpec, load: &Load) -> Result<(), Refusal> {
    let input = |column| Input { column: ColumnId(column), kind: Kind::Int };
    let nodes = vec![
        Node::Input(0),
        Node::Input(1),
        Node::Constant(Scalar::Int(i64::MIN)),
        Node::Compare { order: Comparison::Greater, left: 1, right: 2, collation: BINARY },
    ];
    let of = |function, node| Aggregate { function, node, collation: BINARY };
    let aggregates =
        vec![of(AggregateFunction::Count, Some(1)), of(AggregateFunction::Sum, Some(1))];
    // Accounts as groups are many, balances few that are equal.
    let keys = match session.below(4) {
        0 => vec![],
        at => vec![GroupKey { node: (at % 2) as u16, collation: BINARY }],
    };
    let width = keys.len();
    let as_rows = session.percent(30);
    let yields = if as_rows { Yield::Rows(vec![1]) } else { Yield::Groups { keys, aggregates } };
    let program = Program {
        inputs: vec![input(0), input(1)],
        references: None,
        nodes,
        filter: vec![3],
        yields,
        members: vec![],
        top: None,
    };
    let projection = Projection::Columns(vec![ColumnId(0), ColumnId(1)]);
    let spec = ScanSpec { projection, program: Some(Arc::new(program)), ..spec };
    let (blocks, rows) = session.compute(spec).await?;
    assert!(rows.is_empty(), "balances can be added up");
    let (mut count, mut sum) = (0, 0);
    for block in &blocks {
        for at in 0..block.rows() {
            let value = |column: usize| match block.columns()[column].get(at) {
                ScalarRef::Int(number) => i128::from(number),
                ScalarRef::Decimal(number) => number,
                other => panic!("{other:?} is no number"),
            };
            if as_rows {
                (count, sum) = (count + 1, sum + value(0))
            } else {
                (count, sum) = (count + value(width), sum + value(width + 1))
            }
        }
    }
    assert_eq!(count, i128::from(load.accounts), "accounts that were added up");
    let expected = i128::from(OPENING_BALANCE) * i128::from(load.accounts);
    assert_eq!(sum, expected, "the sum that data nodes have come to");
    Ok(())
}

async fn sum_of_snapshot_by_keys(
    session: &Session,
    lab: &Rc<Lab>,
    load: &Load,
) -> Result<(), Refusal> {
    let table = lab.table("bank");
    let epoch = session.open_snapshot().await?;
    let keys = (0..load.accounts as i64).map(|id| ClientRead::primary(table, vec![Value::Int(id)]));
    let rows = session.read(keys.collect(), Some(epoch)).await;
    session.close_snapshot(epoch).await;
    let rows = rows?;
    let found = rows.iter().flatten().map(|row| int(&row[1]));
    check_sum(&format!("keys at {epoch}"), load, found);
    Ok(())
}

async fn sum_of_locked_rows(session: &Session, lab: &Rc<Lab>, load: &Load) -> Result<(), Refusal> {
    let spec = ScanSpec {
        lock: LockMode::Shared,
        in_transaction: true,
        ..ScanSpec::heap(lab.table("bank"))
    };
    let rows = session.scan(spec).await;
    let ended = match &rows {
        Ok(_) => session.commit().await,
        Err(_) => {
            session.abort().await;
            Ended::Aborted(None)
        }
    };
    let rows = rows?;
    if let Ended::Committed(..) = ended {
        check_sum("locked rows", load, rows.iter().map(|row| int(&row[1])));
    }
    Ok(())
}
