//! Parents and children: foreign keys as the SQL layer keeps them (`sql::execute::reference`).
//!
//! A child's transaction locks its parent in shared mode, in the batch that writes the child, or
//! behind a look at the parent's unique code. A parent's transaction locks the parent exclusively
//! before its key or code goes, and then looks for children by a settled scan: it refuses, or they
//! go too, follow, or lose their parent. Parents come and go all the time.
//!
//! Judged by: no child without its parent, by either foreign key, in any snapshot and at the end.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, IndexBound, OperationAction, OperationAnswer, ScanRange, ScanSpec};
use model::{ColumnId, ErrorCode, Expression, IndexId, Refusal, Table, Value};
use testing::BIGINT;
use wire::{LockMode, Projection, ScanOrder, WaitPolicy};

use super::{insist, judged_unless, scan_snapshot};
use crate::lab::Lab;
use crate::session::{Ended, Session};

/// Few, so that sessions meet.
const PARENTS: u64 = 5;
const CHILDREN: u64 = 20;
const CODES: u64 = 8;
/// Of parents.
const CODE: ColumnId = ColumnId(1);
/// Of children: the columns that refer to a parent's key and to its code.
const PARENT: ColumnId = ColumnId(1);
const PARENT_CODE: ColumnId = ColumnId(2);
/// How often a parent is looked up again whose code has changed under the look.
const LOOKUPS_MAX: u32 = 4;

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let parents = testing::table("sim.parents").column("id", BIGINT).column("code", BIGINT);
    let parents = insist(session, parents.unique("by_code", ["code"]).create()).await;
    lab.set_table("parents", parents);
    let children = testing::table("sim.children")
        .column("id", BIGINT)
        .nullable("parent", BIGINT)
        .nullable("code", BIGINT)
        .index("by_parent", ["parent"])
        .index("by_code", ["code"]);
    let children = insist(session, children.create()).await;
    lab.set_table("children", children);
}

/// What becomes of the children of a parent that goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Restrict,
    Cascade,
    SetNull,
}

/// The tables as the session knows them.
struct Family {
    parents: Arc<Table>,
    children: Arc<Table>,
}

/// One change of a parent or of a child, or one look.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let known = |name| session.definition(lab.table(name));
    let (Some(parents), Some(children)) = (known("parents"), known("children")) else {
        return Ok(());
    };
    let family = Family { parents, children };
    let rule = |session: &Session| match session.below(3) {
        0 => Rule::Restrict,
        1 => Rule::Cascade,
        _ => Rule::SetNull,
    };
    match session.below(12) {
        0..2 => family.add_parent(session).await,
        2..5 => family.add_child(session).await,
        5..7 => family.add_child_by_code(session).await,
        7..9 => family.delete_parent(session, rule(session)).await,
        9 => family.change_code(session, rule(session)).await,
        10 => family.delete_child(session).await,
        _ => family.look(session).await,
    }
}

fn number(session: &Session, below: u64) -> Value {
    Value::Int(session.below(below) as i64)
}

/// The end of a transaction that may have met what is there, or is not.
fn judged(ended: Ended) -> Result<(), Refusal> {
    judged_unless(ended, explained)
}

fn explained(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RowExists | ErrorCode::RowNotFound | ErrorCode::UniqueViolation)
}

/// A step of an open transaction that may meet the same: then it is over, and that is all.
fn explained_end<T>(result: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(refusal) if explained(refusal.code) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

impl Family {
    async fn add_parent(&self, session: &Session) -> Result<(), Refusal> {
        let row = vec![number(session, PARENTS), number(session, CODES)];
        judged(session.autocommit(vec![ClientOperation::insert(self.parents.id, row)]).await)
    }

    async fn delete_child(&self, session: &Session) -> Result<(), Refusal> {
        let key = vec![number(session, CHILDREN)];
        judged(session.autocommit(vec![ClientOperation::delete(self.children.id, key)]).await)
    }

    /// The search for a parent by its primary key, which locks it.
    fn lock_parent(&self, key: Value) -> ClientOperation {
        let (lock, wait, projection) = (LockMode::Shared, WaitPolicy::Wait, Projection::Nothing);
        let action =
            OperationAction::Read { key: vec![key], lock, wait, projection, snapshot: None };
        ClientOperation { table: self.parents.id, version: None, action }
    }

    /// A change of a child that is to refer to these, some of which may be NULL.
    fn write_child(&self, session: &Session, parent: Value, code: Value) -> ClientOperation {
        let (id, table) = (number(session, CHILDREN), self.children.id);
        let set = |column, value| (column, Expression::Constant(value));
        match session.below(3) {
            0 => ClientOperation::insert(table, vec![id, parent, code]),
            1 => ClientOperation::upsert(table, vec![id, parent, code]),
            _ => {
                let assignments = vec![set(PARENT, parent), set(PARENT_CODE, code)];
                ClientOperation::update(table, vec![id], assignments)
            }
        }
    }

    /// The child and the search for its parent are one request; sometimes all of a transaction.
    async fn add_child(&self, session: &Session) -> Result<(), Refusal> {
        let parent = number(session, PARENTS);
        let child = self.write_child(session, parent.clone(), Value::Null);
        let batch = vec![child, self.lock_parent(parent)];
        if session.percent(60) {
            return judged(session.autocommit(batch).await);
        }
        if explained_end(session.run_all(batch).await)?.is_none() {
            return Ok(());
        }
        session.pause(15).await;
        if session.percent(10) {
            session.abort().await;
            return Ok(());
        }
        judged(session.commit().await)
    }

    /// The parent is found by its code: by the entry of the index, then under its lock.
    async fn add_child_by_code(&self, session: &Session) -> Result<(), Refusal> {
        let code = number(session, CODES);
        let entries = self.parents.unique_indexes[0].table;
        for _ in 0..LOOKUPS_MAX {
            let look = ClientOperation::read(entries, vec![code.clone()]);
            let Some(entry) = explained_end(session.run_all(vec![look]).await)? else {
                return Ok(());
            };
            let key = vec![row_of(&entry[0])[1].clone()];
            let lock = ClientOperation::read_locked(self.parents.id, key, LockMode::Shared);
            match session.run(vec![lock]).await?.remove(0) {
                Ok(answer) if row_of(&answer)[1] == code => {
                    let child = self.write_child(session, Value::Null, code);
                    return judged(session.autocommit(vec![child]).await);
                }
                Ok(_) => {}
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {}
                Err(refusal) => {
                    session.abort().await;
                    return Err(refusal);
                }
            }
        }
        session.abort().await;
        Ok(())
    }

    /// Locks a parent whose key or code is to go; its row, if it is there.
    async fn lock_row(&self, session: &Session) -> Result<Option<Vec<Value>>, Refusal> {
        let key = vec![number(session, PARENTS)];
        let read = ClientOperation::read_locked(self.parents.id, key, LockMode::Exclusive);
        let answers = explained_end(session.run_all(vec![read]).await)?;
        Ok(answers.map(|answers| row_of(&answers[0]).to_vec()))
    }

    /// The children that refer to a value, locked as the rule needs it; with transactions that are
    /// about to commit some of them.
    async fn referring(
        &self,
        session: &Session,
        at: ColumnId,
        value: Value,
        rule: Rule,
    ) -> Result<Vec<Value>, Refusal> {
        let bound = Some(IndexBound::including(vec![value.clone()]));
        let index = self.index(at);
        let range = ScanRange::Index { index, lower: bound.clone(), upper: bound, order: None };
        let one = rule == Rule::Restrict;
        let spec = ScanSpec {
            range,
            limit: one.then_some(1),
            lock: if one { LockMode::Shared } else { LockMode::Exclusive },
            in_transaction: true,
            settled: true,
            ..ScanSpec::heap(self.children.id)
        };
        match session.scan(spec).await {
            Ok(rows) => Ok(rows.into_iter().map(|mut row| row.swap_remove(0)).collect()),
            Err(refusal) => {
                session.abort().await;
                Err(refusal)
            }
        }
    }

    fn index(&self, at: ColumnId) -> IndexId {
        let leads = |index: &&model::OrderedIndexDef| index.columns[0] == at;
        self.children.ordered_indexes.iter().find(leads).expect("made with its table").id
    }

    /// Does what the rule says to the children that refer to a parent by its key or code. False
    /// when it refuses, and the transaction is over.
    async fn release(
        &self,
        session: &Session,
        at: ColumnId,
        value: Value,
        rule: Rule,
        follow: Option<&Value>,
    ) -> Result<bool, Refusal> {
        let found = self.referring(session, at, value, rule).await?;
        if found.is_empty() {
            return Ok(true);
        }
        let table = self.children.id;
        let change = |key: Value| {
            let set = |to| vec![(at, Expression::Constant(to))];
            match (rule, follow) {
                (Rule::Cascade, None) => ClientOperation::delete(table, vec![key]),
                (Rule::Cascade, Some(new)) => {
                    ClientOperation::update(table, vec![key], set(new.clone()))
                }
                _ => ClientOperation::update(table, vec![key], set(Value::Null)),
            }
        };
        if rule == Rule::Restrict {
            session.abort().await;
            return Ok(false);
        }
        session.run_all(found.into_iter().map(change).collect()).await?;
        Ok(true)
    }

    async fn delete_parent(&self, session: &Session, rule: Rule) -> Result<(), Refusal> {
        let Some(row) = self.lock_row(session).await? else { return Ok(()) };
        for (at, value) in [(PARENT, row[0].clone()), (PARENT_CODE, row[1].clone())] {
            if !self.release(session, at, value, rule, None).await? {
                return Ok(());
            }
        }
        let delete = ClientOperation::delete(self.parents.id, vec![row[0].clone()]);
        judged(session.autocommit(vec![delete]).await)
    }

    /// A parent gets another code; its children follow, if they do not lose it.
    async fn change_code(&self, session: &Session, rule: Rule) -> Result<(), Refusal> {
        let Some(row) = self.lock_row(session).await? else { return Ok(()) };
        let code = number(session, CODES);
        if code == row[1] {
            session.abort().await;
            return Ok(());
        }
        let value = row[1].clone();
        if !self.release(session, PARENT_CODE, value, rule, Some(&code)).await? {
            return Ok(());
        }
        let assignments = vec![(CODE, Expression::Constant(code))];
        let update = ClientOperation::update(self.parents.id, vec![row[0].clone()], assignments);
        judged(session.autocommit(vec![update]).await)
    }

    /// Reads both tables as of a snapshot.
    async fn look(&self, session: &Session) -> Result<(), Refusal> {
        let children = if session.percent(50) {
            ScanSpec::heap(self.children.id)
        } else {
            ScanSpec::index(self.children.id, self.index(PARENT), ScanOrder::Ascending)
        };
        let specs = [ScanSpec::heap(self.parents.id), children];
        let (epoch, [parents, children]) = scan_snapshot(session, specs).await?;
        check(&format!("snapshot {epoch}"), &parents, &children);
        Ok(())
    }
}

fn row_of(answer: &OperationAnswer) -> &[Value] {
    match answer {
        OperationAnswer::Row(row) => row,
        other => panic!("a row, not {other:?}"),
    }
}

/// Every child has its parent.
pub(super) fn check(when: &str, parents: &[Vec<Value>], children: &[Vec<Value>]) {
    let values =
        |at: usize| -> BTreeSet<i64> { parents.iter().map(|row| super::int(&row[at])).collect() };
    for (at, there) in [(1, values(0)), (2, values(1))] {
        for child in children.iter().filter(|child| child[at] != Value::Null) {
            assert!(
                there.contains(&super::int(&child[at])),
                "{when}: the child {child:?} has no parent"
            );
        }
    }
}
