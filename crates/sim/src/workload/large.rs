//! Values that lie in parts beside their rows, as the SQL layer keeps them (`sql::large`).
//!
//! A row refers to values by numbers that are drawn anew for each; the parts of a value are rows of
//! the hidden table, in the partition of the same number. Rows go first, then their parts, in
//! portions, all in one transaction. Readers may come between a row and its parts, which are
//! another worker's where they are not colocated: who finds one missing looks again, and reads the
//! row again if it is not locked.
//!
//! What is in a part follows from the value's number, so a part of another value shows.
//!
//! Judged by: no part of another value anywhere; values that are whole in every snapshot and at the
//! end, and no part there without a row; under locks and in committed reads whole after a while,
//! and under locks at once if a row and its parts are one leg of the transaction.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use client::{ClientOperation, ClientRead, OperationAction, OperationAnswer, ScanSpec};
use model::{
    ColumnId, ColumnType, ErrorCode, Expression, Refusal, SchemaChange, Table, TableId, Value,
};
use stdx::Duration;
use testing::BIGINT;
use wire::{LockMode, Projection, WaitPolicy};

use super::{insist, judged, scan_snapshot, uint};
use crate::lab::Lab;
use crate::session::Session;

/// Few, so that sessions meet.
const KEYS: u64 = 8;
/// How often parts lie with the workers of their rows, and not where chance has them.
const COLOCATED_PERCENT: u64 = 75;
const BODY: ColumnId = ColumnId(1);
const REFERENCES: ColumnId = ColumnId(2);
/// Most values outside of a row, and most parts of one.
const VALUES_MAX: u64 = 2;
const PARTS_MAX: u64 = 6;
/// Parts written in one request.
const PORTION: usize = 4;
/// How long a part is looked for that a row refers to, as in the SQL layer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause before it is looked for again.
const PAUSE: Duration = Duration::from_millis(2);

/// A value outside of its row: its number, and how many parts it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reference {
    value: u64,
    parts: u64,
}

pub(super) async fn prepare(session: &Session, lab: &Rc<Lab>) {
    let table = testing::table("sim.large")
        .column("id", BIGINT)
        .nullable("body", ColumnType::Variable(100))
        .nullable("#references", ColumnType::Variable(100));
    let mut change = table.large(&[BODY], REFERENCES).create();
    if session.percent(COLOCATED_PERCENT) {
        change = SchemaChange::ColocateParts { change: change.into() };
    }
    let table = insist(session, change).await;
    lab.set_table("large", table);
}

fn encode(references: &[Reference]) -> Value {
    if references.is_empty() {
        return Value::Null;
    }
    let mut bytes = Vec::new();
    for Reference { value, parts } in references {
        bytes.extend(value.to_le_bytes());
        bytes.push(*parts as u8);
    }
    Value::Bytes(bytes.into())
}

fn decode(value: &Value) -> Vec<Reference> {
    let Value::Bytes(bytes) = value else { return Vec::new() };
    let reference = |bytes: &[u8]| {
        let (value, parts) = bytes.split_first_chunk().expect("a number");
        Reference { value: u64::from_le_bytes(*value), parts: u64::from(parts[0]) }
    };
    bytes.chunks(9).map(reference).collect()
}

/// What is in a part of a value.
fn bytes_of(value: u64, part: u64) -> Value {
    Value::text(&format!("{value:x}:{part}"))
}

fn part_key(id: &Value, value: u64, part: u64) -> Vec<Value> {
    vec![id.clone(), Value::UInt(value), Value::UInt(part)]
}

impl Reference {
    fn keys(self, id: &Value) -> impl Iterator<Item = Vec<Value>> {
        let id = id.clone();
        (0..self.parts).map(move |part| part_key(&id, self.value, part))
    }
}

/// The table as the session knows it.
struct Store {
    table: Arc<Table>,
    parts: TableId,
}

/// One statement or two in a transaction, or one look.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    let Some(table) = session.definition(lab.table("large")) else { return Ok(()) };
    let parts = table.large.as_ref().expect("made so").parts;
    let store = Store { table, parts };
    match session.below(10) {
        0..6 => store.change(session).await,
        6..8 => store.read(session).await,
        8 => store.read_locked(session).await,
        _ => store.look(session).await,
    }
}

impl Store {
    /// Statements of one transaction; one that meets what is there is undone alone.
    async fn change(&self, session: &Session) -> Result<(), Refusal> {
        let mut count = 1 + session.below(2);
        while count > 0 {
            count -= 1;
            let before = session.savepoint().await;
            let undo = match self.statement(session).await? {
                Some(portions) => {
                    let mut portions = portions.chunks(PORTION).peekable();
                    while let Some(portion) = portions.next() {
                        // The last portion of the last statement brings the end along.
                        if count == 0 && portions.peek().is_none() && session.percent(40) {
                            return judged(session.autocommit(portion.to_vec()).await);
                        }
                        session.run_all(portion.to_vec()).await?;
                    }
                    session.percent(15)
                }
                None => true,
            };
            if undo {
                session.rollback_to(before).await?;
            }
        }
        if session.percent(10) {
            session.abort().await;
            return Ok(());
        }
        judged(session.commit().await)
    }

    /// Changes a row; what is to be done to the parts of its values, none if it was refused.
    async fn statement(&self, session: &Session) -> Result<Option<Vec<ClientOperation>>, Refusal> {
        let (id, table) = (Value::Int(session.below(KEYS) as i64), self.table.id);
        let draw = || Reference {
            value: session.draw(stdx::Prng::next_u64),
            parts: 1 + session.below(PARTS_MAX),
        };
        let new: Vec<Reference> = (0..session.below(VALUES_MAX + 1)).map(|_| draw()).collect();
        let row = vec![id.clone(), Value::text(""), encode(&new)];
        if session.percent(30) {
            let inserted = self.step(session, ClientOperation::insert(table, row)).await?;
            return Ok(inserted.map(|_| self.portions(&id, &new, &[])));
        }
        // What a row refers to is known under its lock alone.
        let (lock, wait) = (LockMode::Exclusive, WaitPolicy::Wait);
        let (key, projection) = (vec![id.clone()], Projection::Columns(vec![REFERENCES]));
        let action =
            OperationAction::Read { key: key.clone(), lock, wait, projection, snapshot: None };
        let read = ClientOperation { table, version: Some(self.table.version), action };
        let found = self.step(session, read).await?;
        let Some(OperationAnswer::Row(found)) = found else {
            // An upsert of a row that is not there is an insert: others may have added one.
            let inserted = self.step(session, ClientOperation::insert(table, row)).await?;
            return Ok(inserted.map(|_| self.portions(&id, &new, &[])));
        };
        let old = decode(&found[0]);
        let (write, added) = match session.below(3) {
            0 => (ClientOperation::delete(table, key), Vec::new()),
            1 => (ClientOperation::upsert(table, row), new),
            _ => {
                let set = |value: &Value| Expression::Constant(value.clone());
                let assignments = vec![(BODY, set(&row[1])), (REFERENCES, set(&row[2]))];
                (ClientOperation::update(table, key, assignments), new)
            }
        };
        Ok(self.step(session, write).await?.map(|_| self.portions(&id, &added, &old)))
    }

    /// One operation; none if it met what is there, or is not.
    async fn step(
        &self,
        session: &Session,
        operation: ClientOperation,
    ) -> Result<Option<OperationAnswer>, Refusal> {
        match session.run(vec![operation]).await?.remove(0) {
            Ok(answer) => Ok(Some(answer)),
            Err(refusal)
                if matches!(refusal.code, ErrorCode::RowExists | ErrorCode::RowNotFound) =>
            {
                Ok(None)
            }
            Err(refusal) => {
                session.abort().await;
                Err(refusal)
            }
        }
    }

    fn portions(&self, id: &Value, new: &[Reference], old: &[Reference]) -> Vec<ClientOperation> {
        let mut operations = Vec::new();
        for reference in new {
            for (part, mut row) in (0..).zip(reference.keys(id)) {
                row.push(bytes_of(reference.value, part));
                operations.push(ClientOperation::insert(self.parts, row));
            }
        }
        let removed = old.iter().flat_map(|reference| reference.keys(id));
        operations.extend(removed.map(|key| ClientOperation::delete(self.parts, key)));
        operations
    }

    /// Reads a row and its parts as committed, from any replica, again until none is missing.
    async fn read(&self, session: &Session) -> Result<(), Refusal> {
        let id = Value::Int(session.below(KEYS) as i64);
        let (began, mut last) = (session.now(), None);
        loop {
            let read = ClientRead::primary(self.table.id, vec![id.clone()]);
            let Some(row) = session.read(vec![read], None).await?.remove(0) else { return Ok(()) };
            let references = decode(&row[2]);
            let keys: Vec<_> = references.iter().flat_map(|one| one.keys(&id)).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let reads = keys.iter().map(|key| ClientRead::primary(self.parts, key.clone()));
            let parts = session.read(reads.collect(), None).await?;
            if whole(&keys, parts) {
                return Ok(());
            }
            let late = session.now().since(began) >= PATIENCE;
            // One that changes all the time is not looked for for ever.
            assert!(!late || last != Some(references.clone()), "a part of {row:?} is missing");
            if late {
                return Ok(());
            }
            if last.replace(references.clone()) == Some(references) {
                session.sleep(PAUSE).await;
            }
        }
    }

    /// Whoever has locked the row finds its values whole. At once if they are colocated, as one leg
    /// shows both and then gives up the locks; another worker may show its parts later.
    async fn read_locked(&self, session: &Session) -> Result<(), Refusal> {
        let id = Value::Int(session.below(KEYS) as i64);
        let lock = if session.percent(50) { LockMode::Shared } else { LockMode::Exclusive };
        let read = ClientOperation::read_locked(self.table.id, vec![id.clone()], lock);
        if let Some(OperationAnswer::Row(row)) = self.step(session, read).await? {
            let keys: Vec<_> = decode(&row[2]).iter().flat_map(|one| one.keys(&id)).collect();
            let began = session.now();
            while !whole(&keys, self.own_parts(session, &keys).await?) {
                let late = session.now().since(began) >= PATIENCE;
                assert!(!late && !self.is_colocated(), "a part of the locked {row:?} is missing");
                session.sleep(PAUSE).await;
            }
        }
        judged(session.commit().await)
    }

    fn is_colocated(&self) -> bool {
        self.parts == self.table.id.colocated()
    }

    /// Reads parts in the transaction, without locks.
    async fn own_parts(
        &self,
        session: &Session,
        keys: &[Vec<Value>],
    ) -> Result<Vec<Option<Vec<Value>>>, Refusal> {
        let read = |key: &Vec<Value>| ClientOperation::read(self.parts, key.clone());
        let mut parts = Vec::new();
        for answer in session.run(keys.iter().map(read).collect()).await? {
            parts.push(match answer {
                Ok(OperationAnswer::Row(part)) => Some(part),
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => None,
                Ok(other) => panic!("a read was answered with {other:?}"),
                Err(refusal) => {
                    session.abort().await;
                    return Err(refusal);
                }
            });
        }
        Ok(parts)
    }

    /// Compares rows and parts as of a snapshot.
    async fn look(&self, session: &Session) -> Result<(), Refusal> {
        let specs = [self.table.id, self.parts].map(ScanSpec::heap);
        let (epoch, [rows, parts]) = scan_snapshot(session, specs).await?;
        check(&format!("snapshot {epoch}"), &rows, &parts);
        Ok(())
    }
}

/// Whether all of these parts were found; each that was is one of its value.
fn whole(keys: &[Vec<Value>], parts: Vec<Option<Vec<Value>>>) -> bool {
    let mut all = true;
    for (key, part) in keys.iter().zip(parts) {
        match part {
            Some(part) => check_part(&part, key),
            None => all = false,
        }
    }
    all
}

fn check_part(part: &[Value], key: &[Value]) {
    assert_eq!(part[..3], *key, "a part was found by another key");
    let expected = bytes_of(uint(&part[1]), uint(&part[2]));
    assert_eq!(part[3], expected, "what is in the part {key:?}");
}

/// Every value has all of its parts, and every part its value.
pub(super) fn check(when: &str, rows: &[Vec<Value>], parts: &[Vec<Value>]) {
    let encoded = |key: &[Value]| format!("{} {} {}", key[0], key[1], key[2]);
    let mut wanted = BTreeSet::new();
    for row in rows {
        for reference in decode(&row[2]) {
            wanted.extend(reference.keys(&row[0]).map(|key| encoded(&key)));
        }
    }
    let mut found = BTreeSet::new();
    for part in parts {
        check_part(part, &part[..3]);
        found.insert(encoded(part));
    }
    let missing: Vec<_> = wanted.difference(&found).collect();
    let left: Vec<_> = found.difference(&wanted).collect();
    assert!(missing.is_empty(), "{when}: parts of values are missing: {missing:?}");
    assert!(left.is_empty(), "{when}: parts without a row: {left:?}");
}
