//! Which queries in autocommit read one consistent state of the cluster.
//!
//! # Owns
//! The choice, and the snapshot's time: that of the query.
//! # Guarantees
//! A query that reads a large table whole sees each transaction completely or not at all, in all of
//! its tables, and everything acknowledged before it began. So does every query at SERIALIZABLE but
//! one for a row by its primary key, which is consistent anyway.
//! # Not here
//! Snapshots of transactions (`transaction`).

use std::cell::RefCell;
use std::collections::BTreeSet;

use model::TableId;
use sql_expression::SqlError;

use crate::plan::operator::{AccessPath, Operator, QueryPlan, TableScan};
use crate::plan::operator_id::OperatorId;
use crate::session::Session;
use crate::variables::choice::Isolation;

/// Opens a snapshot for an autocommit query if it reads a large table whole; whether it did. It is
/// to be released when the query has ended.
pub(crate) async fn hold(session: &mut Session, plan: &QueryPlan) -> Result<bool, SqlError> {
    if !plan.subqueries.is_empty() {
        // By the sizes of tables it is judged how subqueries are run.
        session.learn_sizes(tables_of(plan, &|_| true)).await;
    }
    let variables = &session.variables;
    if !session.autocommits() || session.transaction.snapshot.is_some() {
        return Ok(false);
    }
    if session.isolation() == Isolation::Serializable {
        let lasts = |scan: &TableScan| !session.is_temporary(scan.definition.table.id);
        if any_scan(plan, &lasts) {
            session.open_snapshot().await?;
            return Ok(true);
        }
    }
    if !variables.analytic_snapshot || !any_scan(plan, &is_whole) {
        return Ok(false);
    }
    session.learn_sizes(tables_of(plan, &is_whole)).await;
    let is_large = |scan: &TableScan| {
        let table = scan.definition.table.id;
        let rows = session.shared.statistics.rows(table).unwrap_or(0);
        is_whole(scan) && rows >= session.variables.column_rows && !session.is_temporary(table)
    };
    if !any_scan(plan, &is_large) {
        return Ok(false);
    }
    session.open_snapshot().await?;
    Ok(true)
}

/// Gives back what [`hold`] has opened.
pub(crate) fn release(session: &mut Session, held: bool) {
    if held && let Some(epoch) = session.transaction.snapshot.take() {
        session.kernel.close_snapshot(epoch);
    }
}

/// Whether a scan reads all rows of a table that lies on several nodes or workers.
fn is_whole(scan: &TableScan) -> bool {
    let all = matches!(scan.path, AccessPath::Full) && scan.limit.is_none();
    all && scan.lock.is_none() && scan.definition.table.partition_count > 1
}

/// Whether a query or a query in it has such a scan.
fn any_scan(plan: &QueryPlan, is: &dyn Fn(&TableScan) -> bool) -> bool {
    any_scan_but(&mut BTreeSet::new(), plan, is)
}

/// As [`any_scan`], without the queries whose roots have been seen. A query may be used in many
/// places.
fn any_scan_but(
    seen: &mut BTreeSet<OperatorId>,
    plan: &QueryPlan,
    is: &dyn Fn(&TableScan) -> bool,
) -> bool {
    let mut found = in_operator(&plan.root, is);
    plan.root.for_each_plan(&mut |plan, _| {
        found = found || seen.insert(plan.root.id()) && any_scan_but(seen, plan, is);
    });
    found || plan.subqueries.iter().any(|subplan| any_scan_but(seen, &subplan.plan, is))
}

/// The tables of such scans.
fn tables_of(plan: &QueryPlan, is: &dyn Fn(&TableScan) -> bool) -> BTreeSet<TableId> {
    let tables = RefCell::new(BTreeSet::new());
    any_scan(plan, &|scan| {
        if is(scan) {
            tables.borrow_mut().insert(scan.definition.table.id);
        }
        false
    });
    tables.into_inner()
}

fn in_operator(operator: &Operator, is: &dyn Fn(&TableScan) -> bool) -> bool {
    match operator {
        Operator::Scan(scan) => is(scan),
        _ => operator.inputs().into_iter().any(|input| in_operator(input, is)),
    }
}
