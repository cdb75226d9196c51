//! Rows whose versions only grow, changed in all ways and read in all ways: a history of registers.
//!
//! Judged by: every row is linearizable. A read finds at least the version that anyone was told
//! before it was asked for, by a read or by a commit, wherever both were made; and none that nobody
//! had begun to make when it was answered. For versions that only grow this is all that there is to
//! check: changes and reads can then be put in one order that keeps to the times of all of them.
//! What is in doubt counts as made for the second bound and not for the first.
//!
//! Rows that are there count the additions of everybody. Rows that come and go have one owner: odd
//! versions are there, even ones are not.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::{ClientOperation, ClientRead, OperationAnswer, ScanSpec};
use model::{ColumnId, ErrorCode, Expression, IndexId, Refusal, TableId, Value};
use testing::BIGINT;
use wire::{LockMode, ScanOrder};

use super::{fill, insist, int, judged, passing};
use crate::lab::Lab;
use crate::session::{Ended, Session};

const TABLE: &str = "sim.registers";
const COUNT: ColumnId = ColumnId(1);
/// Rows that everybody adds to: few, so that sessions meet.
pub(crate) const SHARED: i64 = 4;
/// The number of the first row that comes and goes.
pub(crate) const PASSING: i64 = 1_000;
/// Rows that come and go of which reads by key choose one: the newest.
pub(crate) const PASSING_READ: usize = 6;

/// What is known of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// The newest version that anybody was told of.
    told: i64,
    /// Additions that were told as committed.
    committed: i64,
    /// The newest version that may be made.
    begun: i64,
}

/// What is known of all rows.
#[derive(Debug, Default)]
pub struct RegisterBook {
    rows: BTreeMap<i64, Register>,
    /// Restarts of the whole cluster that are heard of. What was known before may be undone.
    generation: usize,
}

impl RegisterBook {
    /// Whether something that was asked for in a generation, and is told now, counts.
    pub(crate) fn counts(&mut self, now: usize, asked: usize) -> bool {
        if now > self.generation {
            self.generation = now;
            // Additions in doubt may have been kept: what may be there is as before.
            self.rows.retain(|id, _| *id < PASSING);
            for row in self.rows.values_mut() {
                (row.told, row.committed) = (0, 0);
            }
        }
        asked == now && now == self.generation
    }

    /// The rows as they are known now, for what a session asks for that knows of so many restarts.
    pub(crate) fn asked(&mut self, now: usize) -> BTreeMap<i64, i64> {
        self.counts(now, now);
        self.known()
    }

    /// Rows that are there from the beginning.
    pub(crate) fn prepare(&mut self) {
        self.rows.extend((0..SHARED).map(|id| (id, Register::default())));
    }

    fn known(&self) -> BTreeMap<i64, i64> {
        self.rows.iter().map(|(id, row)| (*id, row.told.max(row.committed))).collect()
    }

    /// Judges what was found in a row by somebody who asked when `known` was known.
    pub(crate) fn found(
        &mut self,
        how: &str,
        id: i64,
        found: Option<i64>,
        known: &BTreeMap<i64, i64>,
    ) {
        // A row that came up since may be found or not.
        let Some(least) = known.get(&id).copied() else { return };
        let Some(row) = self.rows.get_mut(&id) else { return };
        let version = match found {
            Some(version) => version,
            None if id < PASSING => panic!("{how}: {id} is not there"),
            None => least + least % 2,
        };
        assert!(
            version >= least,
            "{how}: {id} goes back, {found:?} after version {least} was told"
        );
        assert!(
            version <= row.begun,
            "{how}: {id} has {found:?}, and nobody has begun more than {}",
            row.begun
        );
        row.told = row.told.max(version);
    }

    /// Judges a scan.
    pub(crate) fn scanned(&mut self, how: &str, rows: &[(i64, i64)], known: &BTreeMap<i64, i64>) {
        let found: BTreeMap<i64, i64> = rows.iter().copied().collect();
        // Who has read a row that goes and comes back may meet it again in its new place.
        let stay = |row: &&(i64, i64)| row.0 < PASSING;
        let (told, distinct) = (rows.iter().filter(stay).count(), found.range(..PASSING).count());
        assert_eq!(told, distinct, "{how}: a row twice");
        let ids: Vec<i64> = self.rows.keys().copied().collect();
        for id in ids {
            self.found(how, id, found.get(&id).copied(), known);
        }
    }

    pub(crate) fn begin(&mut self, changes: &[Change]) {
        for change in changes {
            let row = self.rows.entry(change.id()).or_default();
            match change {
                Change::Add(_) => row.begun += 1,
                Change::Make(_, version) => row.begun = *version,
            }
        }
    }

    /// A change of this generation was told as committed, or as aborted for ever.
    pub(crate) fn end(&mut self, changes: &[Change], committed: bool) {
        for change in changes {
            let Some(row) = self.rows.get_mut(&change.id()) else { continue };
            match (change, committed) {
                (Change::Add(_), true) => row.committed += 1,
                (Change::Add(_), false) => row.begun -= 1,
                (Change::Make(_, version), true) => row.told = row.told.max(*version),
                (Change::Make(_, version), false) => row.begun = version - 1,
            }
        }
    }
}

/// A change of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Adds one.
    Add(i64),
    /// Makes this version of a row that comes and goes.
    Make(i64, i64),
}

impl Change {
    pub(crate) fn id(self) -> i64 {
        match self {
            Change::Add(id) | Change::Make(id, _) => id,
        }
    }

    fn operation(self, table: TableId) -> ClientOperation {
        let key = vec![Value::Int(self.id())];
        match self {
            Change::Add(_) => {
                ClientOperation::update(table, key, vec![(COUNT, Expression::add(COUNT, 1))])
            }
            Change::Make(id, version) if version % 2 == 1 => {
                ClientOperation::insert(table, row(id, version))
            }
            Change::Make(..) => ClientOperation::delete(table, key),
        }
    }
}

fn row(id: i64, version: i64) -> Vec<Value> {
    vec![Value::Int(id), Value::Int(version), Value::Int(0)]
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table(TABLE)
        .column("id", BIGINT)
        .column("n", BIGINT)
        .column("kind", BIGINT)
        .index("by_kind", ["kind"]);
    let table = insist(session, table.create()).await;
    let rows: Vec<_> = (0..SHARED).map(|id| row(id, 0)).collect();
    fill(session, table, &rows).await;
    lab.registers.borrow_mut().prepare();
    lab.set_table("registers", table);
}

/// One session: the row that only it makes and removes.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The row with its last version, and the generation that it belongs to.
    own: Option<(i64, i64, usize)>,
}

impl Owner {
    /// One change or one look.
    pub(super) async fn round(&mut self, session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
        match session.below(20) {
            0..5 => self.change(session, lab, vec![Change::Add(shared(session))]).await,
            5..8 => {
                let mut changes = vec![Change::Add(shared(session)), Change::Add(shared(session))];
                changes.sort_unstable_by_key(|change| change.id());
                changes.dedup_by_key(|change| change.id());
                self.change(session, lab, changes).await
            }
            8..11 => {
                let own = self.next(session, lab);
                self.change(session, lab, vec![own]).await
            }
            11..13 => lock(session, lab).await,
            13..17 => read(session, lab, "read").await,
            17..19 => scan(session, lab).await,
            _ => inside(session, lab).await,
        }
    }

    /// The next version of the session's own row.
    fn next(&mut self, session: &Session, lab: &Rc<Lab>) -> Change {
        let generation = session.generation();
        let own = self.own.filter(|(_, _, of)| *of == generation);
        let (id, version, _) =
            own.unwrap_or_else(|| (PASSING + i64::from(lab.number()), 0, generation));
        self.own = Some((id, version + 1, generation));
        Change::Make(id, version + 1)
    }

    /// Changes as a whole transaction.
    async fn change(
        &mut self,
        session: &Session,
        lab: &Rc<Lab>,
        changes: Vec<Change>,
    ) -> Result<(), Refusal> {
        let (table, asked) = (lab.table("registers"), session.generation());
        lab.registers.borrow_mut().begin(&changes);
        let operations = changes.iter().map(|change| change.operation(table)).collect();
        let ended = session.autocommit(operations).await;
        end(session, lab, asked, &changes, &ended);
        let makes = changes.iter().any(|change| matches!(change, Change::Make(..)));
        if makes && !matches!(ended, Ended::Committed(..)) {
            self.own = None;
        }
        match ended {
            // After a restart of the whole cluster it may be there no more, or again.
            Ended::Aborted(Some(refusal))
                if makes && session.generation() > 0 && is_of_rows(refusal.code) =>
            {
                Ok(())
            }
            other => judged(other),
        }
    }
}

fn is_of_rows(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RowNotFound | ErrorCode::RowExists)
}

fn shared(session: &Session) -> i64 {
    session.below(SHARED as u64) as i64
}

/// Notes the end of a transaction.
fn end(session: &Session, lab: &Rc<Lab>, asked: usize, changes: &[Change], ended: &Ended) {
    let mut book = lab.registers.borrow_mut();
    let counts = book.counts(session.generation(), asked);
    match ended {
        Ended::Committed(..) if counts => book.end(changes, true),
        Ended::Aborted(_) if counts => book.end(changes, false),
        // Begun for ever.
        _ => {}
    }
}

/// Reads some rows by key, each of them wherever the client likes.
async fn read(session: &Session, lab: &Rc<Lab>, how: &str) -> Result<(), Refusal> {
    let (table, asked) = (lab.table("registers"), session.generation());
    let known = lab.registers.borrow_mut().asked(session.generation());
    let passing = known.keys().rev().take(PASSING_READ).copied().filter(|id| *id >= PASSING);
    let all: Vec<i64> = passing.chain(0..SHARED).collect();
    let ids: Vec<i64> =
        (0..1 + session.below(3)).map(|_| session.draw(|p| *p.pick(&all))).collect();
    let reads = ids.iter().map(|id| ClientRead::primary(table, vec![Value::Int(*id)]));
    let rows = session.read(reads.collect(), None).await?;
    let mut book = lab.registers.borrow_mut();
    if book.counts(session.generation(), asked) {
        for (id, row) in ids.iter().zip(rows) {
            book.found(how, *id, row.map(|row| int(&row[1])), &known);
        }
    }
    Ok(())
}

/// Reads all rows.
async fn scan(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let (table, asked) = (lab.table("registers"), session.generation());
    let known = lab.registers.borrow_mut().asked(session.generation());
    let index = session.definition(table).map(|table| table.ordered_indexes[0].id);
    let (how, spec) = match index.filter(|_| session.percent(50)) {
        Some(index) => ("scan by index", by_index(table, index)),
        None => ("scan", ScanSpec::heap(table)),
    };
    let rows = session.scan(spec).await?;
    let mut book = lab.registers.borrow_mut();
    if book.counts(session.generation(), asked) {
        let rows: Vec<_> = rows.iter().map(|row| (int(&row[0]), int(&row[1]))).collect();
        book.scanned(how, &rows, &known);
    }
    Ok(())
}

fn by_index(table: TableId, index: IndexId) -> ScanSpec {
    ScanSpec::index(table, index, ScanOrder::Ascending)
}

/// Locks a row, lets it go again, with a change or without, and reads it as everybody does.
async fn lock(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let (table, asked, id) = (lab.table("registers"), session.generation(), shared(session));
    let known = lab.registers.borrow_mut().asked(session.generation());
    let mode = if session.percent(50) { LockMode::Exclusive } else { LockMode::Shared };
    let read_locked = ClientOperation::read_locked(table, vec![Value::Int(id)], mode);
    let answers = session.run_all(vec![read_locked]).await?;
    let counted = {
        let mut book = lab.registers.borrow_mut();
        let counts = book.counts(session.generation(), asked);
        if counts {
            book.found("locking read", id, version(&answers[0]), &known);
        }
        counts
    };
    let changes = if mode == LockMode::Exclusive && session.percent(50) {
        vec![Change::Add(id)]
    } else {
        vec![]
    };
    let operations: Vec<_> = changes.iter().map(|change| change.operation(table)).collect();
    lab.registers.borrow_mut().begin(&changes);
    let ended = session.execute(operations, true).await;
    let ended = session.settle(ended).await;
    end(session, lab, asked, &changes, &ended);
    judged(ended)?;
    if counted { read(session, lab, "read after a lock").await } else { Ok(()) }
}

/// Reads without a lock in a transaction that has written, at the primary.
async fn inside(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let (table, asked) = (lab.table("registers"), session.generation());
    let changes = [Change::Add(shared(session))];
    lab.registers.borrow_mut().begin(&changes);
    let undone = |refusal: Refusal| {
        end(session, lab, asked, &changes, &Ended::Aborted(None));
        refusal
    };
    session.run_all(vec![changes[0].operation(table)]).await.map_err(undone)?;
    let known = lab.registers.borrow_mut().asked(session.generation());
    let scans = session.percent(30);
    let others: Vec<i64> = (0..SHARED).filter(|id| *id != changes[0].id()).collect();
    let found: Vec<(i64, Option<i64>)> = if scans {
        let rows = session.scan(ScanSpec { in_transaction: true, ..ScanSpec::heap(table) }).await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(refusal) => {
                session.abort().await;
                return Err(undone(refusal));
            }
        };
        let of = |id: &i64| rows.iter().find(|row| int(&row[0]) == *id).map(|row| int(&row[1]));
        others.iter().map(|id| (*id, of(id))).collect()
    } else {
        let reads = others.iter().map(|id| ClientOperation::read(table, vec![Value::Int(*id)]));
        let answers = session.run_all(reads.collect()).await.map_err(undone)?;
        others.iter().copied().zip(answers.iter().map(version)).collect()
    };
    {
        let mut book = lab.registers.borrow_mut();
        if book.counts(session.generation(), asked) {
            for (id, found) in found {
                book.found("read in a transaction", id, found, &known);
            }
        }
    }
    let ended = session.commit().await;
    end(session, lab, asked, &changes, &ended);
    match ended {
        Ended::Aborted(refusal) => passing(refusal),
        _ => Ok(()),
    }
}

fn version(answer: &OperationAnswer) -> Option<i64> {
    match answer {
        OperationAnswer::Row(row) => Some(int(&row[1])),
        OperationAnswer::Written(_) => panic!("a read is answered with a row"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> RegisterBook {
        let rows = [(1, Register::default()), (PASSING, Register::default())];
        RegisterBook { rows: rows.into(), generation: 0 }
    }

    #[test]
    fn what_is_found_counts_for_those_who_ask_later() {
        let mut book = book();
        book.begin(&[Change::Add(1), Change::Make(PASSING, 1)]);
        let before = book.known();
        book.found("read", 1, Some(1), &before);
        book.found("read", 1, Some(0), &before);
        book.found("read", PASSING, None, &before);
        book.found("read", PASSING, Some(1), &before);
        book.begin(&[Change::Make(PASSING, 2)]);
        let after = book.known();
        book.found("read", PASSING, None, &after);
        assert_eq!(book.known(), [(1, 1), (PASSING, 2)].into());
    }

    #[test]
    #[should_panic(expected = "goes back")]
    fn an_older_version_is_noticed() {
        let mut book = book();
        book.begin(&[Change::Add(1)]);
        book.found("read", 1, Some(1), &book.known());
        book.found("read", 1, Some(0), &book.known());
    }

    #[test]
    #[should_panic(expected = "goes back")]
    fn a_commit_that_is_not_seen_is_noticed() {
        let mut book = book();
        book.begin(&[Change::Add(1)]);
        book.end(&[Change::Add(1)], true);
        book.found("read", 1, Some(0), &book.known());
    }

    #[test]
    #[should_panic(expected = "nobody has begun")]
    fn a_row_that_vanishes_before_it_is_deleted_is_noticed() {
        let mut book = book();
        book.begin(&[Change::Make(PASSING, 1)]);
        book.end(&[Change::Make(PASSING, 1)], true);
        book.found("read", PASSING, None, &book.known());
    }

    #[test]
    #[should_panic(expected = "nobody has begun")]
    fn what_was_aborted_is_noticed() {
        let mut book = book();
        book.begin(&[Change::Add(1)]);
        book.end(&[Change::Add(1)], false);
        book.found("read", 1, Some(1), &book.known());
    }
}
