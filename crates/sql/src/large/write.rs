//! Changes of rows whose values may lie outside of them.
//!
//! # Owns
//! What becomes of a batch of operations: which values go out of their rows, which parts are added
//! and removed.
//! # Guarantees
//! Rows are locked, and refused, before any part of theirs is written. A batch without large
//! values, new or old, is one request, or two if it is not known what the rows refer to. No
//! request carries more than [`MESSAGE_BYTES`] of parts.
//! # Not here
//! Undoing a batch that fails in the middle: it is part of a statement, which is undone as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use actor::Mutation;
use client::{ClientOperation, OperationAction, OperationAnswer};
use model::schema::{LargeColumns, PART_SIZE_MAX};
use model::{ClusterState, ErrorCode, Expression, Refusal, Table, TableId, Value};
use sqltype::storage::LARGE_SIZE_MAX;
use wire::{Effect, LockMode, Projection, WaitPolicy};

use super::{Reference, decode, distribution, encode};
use crate::kernel::{Answers, Failure, Kernel, Rejected};

/// Bytes of parts in one request, at most.
pub(super) const MESSAGE_BYTES: usize = 1 << 20;
/// Operations on parts in one request, at most.
const MESSAGE_PARTS: usize = 256;
/// How often a row is looked for that others add and remove meanwhile.
const ATTEMPTS_MAX: u32 = 8;

/// Whether operations have to go through [`execute`].
pub(crate) fn concerns(cluster: &ClusterState, operations: &[ClientOperation]) -> bool {
    operations.iter().any(|operation| {
        let table = cluster.tables.get(&operation.table);
        table.is_some_and(|table| {
            table.large.as_ref().is_some_and(|large| is_concerned(table, large, &operation.action))
        })
    })
}

fn is_concerned(table: &Table, large: &LargeColumns, action: &OperationAction) -> bool {
    match action {
        OperationAction::Read { .. } => false,
        OperationAction::Insert { row } => {
            let references = row.get(usize::from(large.references.0));
            let too_long = |c: &model::ColumnId| {
                row.get(usize::from(c.0)).is_some_and(|value| is_too_long(table, *c, value))
            };
            references.is_some_and(|r| *r != Value::Null) || large.columns.iter().any(too_long)
        }
        OperationAction::Update { assignments, .. } => assignments
            .iter()
            .any(|(column, _)| large.columns.contains(column) || *column == large.references),
        OperationAction::Upsert { .. } | OperationAction::Delete { .. } => true,
    }
}

/// Whether a value does not fit its row.
fn is_too_long(table: &Table, column: model::ColumnId, value: &Value) -> bool {
    let room = table.columns[usize::from(column.0)].column_type.variable_max();
    matches!((value, room), (Value::Bytes(bytes), Some(room)) if bytes.len() > room.into())
}

/// Runs operations with whole values; with `commit`, commits when all have succeeded, and aborts
/// when one has not. There are no answers if they were lost and the end, a commit, had to be asked
/// for.
pub(crate) async fn execute(
    kernel: &Kernel,
    operations: Vec<ClientOperation>,
    commit: bool,
) -> Result<Answers, Failure> {
    let result = in_groups(kernel, operations, commit).await;
    let failed = result.as_ref().map_or(true, |answers| answers.iter().any(Result::is_err));
    if !commit || !failed {
        return result;
    }
    // Nothing happens when it is over already.
    kernel.abort().await;
    match result {
        Err(Failure::Refused(refusal)) => Err(Failure::Aborted(refusal)),
        other => other,
    }
}

/// Runs operations in groups in which each row is changed once.
async fn in_groups(
    kernel: &Kernel,
    operations: Vec<ClientOperation>,
    commit: bool,
) -> Result<Answers, Failure> {
    let cluster = kernel.cluster();
    let mut answers: Answers = Vec::with_capacity(operations.len());
    let mut rest = operations.into_iter().peekable();
    while rest.peek().is_some() {
        let (mut group, mut seen) = (Vec::new(), BTreeSet::new());
        while let Some(next) = rest.next_if(|next| {
            let row = row_of(&cluster, next);
            row.is_none_or(|row| seen.insert(row))
        }) {
            group.push(next);
        }
        let commit = commit && rest.peek().is_none() && answers.iter().all(Result::is_ok);
        let of_group = group_of(kernel, &cluster, group, commit).await?;
        if commit && of_group.is_empty() {
            return Ok(of_group);
        }
        answers.extend(of_group);
    }
    Ok(answers)
}

/// The row that an operation changes, of a table with large columns.
fn row_of(cluster: &ClusterState, operation: &ClientOperation) -> Option<(TableId, Box<[u8]>)> {
    let table = cluster.tables.get(&operation.table).filter(|table| table.large.is_some())?;
    let key = match &operation.action {
        OperationAction::Read { .. } => return None,
        OperationAction::Insert { row } | OperationAction::Upsert { row } => {
            table.primary_key_of(&key_of(table, row))?
        }
        OperationAction::Update { key, .. } | OperationAction::Delete { key, .. } => {
            table.primary_key_of(key)?
        }
    };
    Some((table.id, key.0))
}

/// The primary key of a row of the kernel.
fn key_of(table: &Table, row: &[Value]) -> Vec<Value> {
    let value = |column: &model::ColumnId| row.get(usize::from(column.0)).cloned();
    table.primary_key.iter().filter_map(value).collect()
}

/// What an operation does to the parts of its row's values.
struct Change {
    table: Arc<Table>,
    parts: TableId,
    distribution: Vec<Value>,
    added: Vec<(Reference, Box<[u8]>)>,
    removed: Vec<Reference>,
    /// The row of an upsert that found none, in case there is one when it comes to it.
    upserted: Option<(Vec<Value>, Vec<Value>)>,
}

/// What an operation of a group has become.
enum Step {
    /// It is sent, and may change parts.
    Sent(Option<Box<Change>>),
    /// Its row was not found or not locked.
    Refused(Refusal),
}

/// Runs operations that change each row once.
async fn group_of(
    kernel: &Kernel,
    cluster: &ClusterState,
    group: Vec<ClientOperation>,
    commit: bool,
) -> Result<Answers, Failure> {
    let found = referred(kernel, cluster, &group).await?;
    let (mut steps, mut sent) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    for (operation, found) in group.into_iter().zip(found) {
        let table = cluster.tables.get(&operation.table).filter(|table| table.large.is_some());
        steps.push(match (table, found) {
            (_, Found::Refused(refusal)) => Step::Refused(refusal),
            (Some(table), found) => {
                let (operation, change) = rewritten(kernel, table, operation, found)?;
                sent.push(operation);
                Step::Sent(change.map(Box::new))
            }
            (None, _) => {
                sent.push(operation);
                Step::Sent(None)
            }
        });
    }
    let refused = steps.iter().any(|step| matches!(step, Step::Refused(_)));
    let changes = |step: &Step| match step {
        Step::Sent(Some(change)) => {
            !change.added.is_empty() || !change.removed.is_empty() || change.upserted.is_some()
        }
        _ => false,
    };
    let alone = !refused && !steps.iter().any(changes);
    let mut of_sent = send(kernel, sent, commit && alone).await?.into_iter();
    let mut answers: Answers = Vec::with_capacity(steps.len());
    let mut parts = Vec::new();
    for step in steps {
        let mut change = match step {
            Step::Refused(refusal) => {
                answers.push(Err(refusal));
                continue;
            }
            Step::Sent(change) => change,
        };
        let mut answer = match of_sent.next() {
            Some(answer) => answer,
            // The one that was refused has ended the transaction: nothing came of the rest.
            None if answers.iter().any(Result::is_err) => return Ok(answers),
            // The answer was lost, and asking has found that they are committed.
            None if commit && alone => return Ok(Vec::new()),
            None => return Err(Failure::Refused(ErrorCode::Internal.into())),
        };
        if let Some(change) = &mut change
            && change.upserted.is_some()
            && matches!(&answer, Err(refusal) if refusal.code == ErrorCode::RowExists)
        {
            answer = upsert_again(kernel, change).await?;
        }
        if answer.is_ok() {
            parts.extend(change.map(|change| *change));
        }
        answers.push(answer);
    }
    if alone || commit && answers.iter().any(Result::is_err) {
        return Ok(answers);
    }
    write_parts(kernel, parts, commit).await?;
    Ok(answers)
}

/// What is known of the row of an operation.
enum Found {
    /// Nothing, and nothing has to be.
    Unasked,
    /// It is locked, and refers to these values.
    Row(Vec<Reference>),
    /// There is none, for an upsert.
    Nothing,
    /// The operation cannot be done.
    Refused(Refusal),
}

/// Locks the rows that are changed where they may refer to values; what they refer to.
async fn referred(
    kernel: &Kernel,
    cluster: &ClusterState,
    group: &[ClientOperation],
) -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = group.iter().map(|_| Found::Unasked).collect();
    let (mut reads, mut asked) = (Vec::new(), Vec::new());
    for (at, operation) in group.iter().enumerate() {
        let Some(table) = cluster.tables.get(&operation.table) else { continue };
        let Some(large) = &table.large else { continue };
        let key = match &operation.action {
            OperationAction::Upsert { row } => key_of(table, row),
            OperationAction::Delete { key, .. } => key.clone(),
            OperationAction::Update { key, .. }
                if is_concerned(table, large, &operation.action) =>
            {
                key.clone()
            }
            _ => continue,
        };
        reads.push(locking_read(table, large, key, operation.version));
        asked.push((at, table, matches!(operation.action, OperationAction::Upsert { .. })));
    }
    if reads.is_empty() {
        return Ok(found);
    }
    let answers = kernel.execute_plain(reads).await?;
    for ((at, table, upserts), answer) in asked.into_iter().zip(answers) {
        found[at] = match answer {
            Ok(OperationAnswer::Row(row)) => {
                Found::Row(decode(table, row.first().unwrap_or(&Value::Null))?)
            }
            Err(refusal) if refusal.code == ErrorCode::RowNotFound && upserts => Found::Nothing,
            Err(refusal) => Found::Refused(refusal),
            Ok(OperationAnswer::Written(_)) => {
                return Err(Failure::Refused(ErrorCode::Internal.into()));
            }
        };
    }
    Ok(found)
}

/// Locks a row and reads its references.
fn locking_read(
    table: &Table,
    large: &LargeColumns,
    key: Vec<Value>,
    version: Option<u32>,
) -> ClientOperation {
    let (lock, wait) = (LockMode::Exclusive, WaitPolicy::Wait);
    let projection = Projection::Columns(vec![large.references]);
    let action = OperationAction::Read { key, lock, wait, projection, snapshot: None };
    ClientOperation { table: table.id, version, action }
}

/// An operation without the values that go out of its row, and what becomes of them.
fn rewritten(
    kernel: &Kernel,
    table: &Arc<Table>,
    operation: ClientOperation,
    found: Found,
) -> Result<(ClientOperation, Option<Change>), Failure> {
    let Some(large) = &table.large else { return Ok((operation, None)) };
    let ClientOperation { table: id, version, action } = operation;
    let (is_new, old) = match found {
        Found::Row(references) => (false, references),
        _ => (true, Vec::new()),
    };
    let mut change = Change {
        table: table.clone(),
        parts: large.parts,
        distribution: Vec::new(),
        added: Vec::new(),
        removed: Vec::new(),
        upserted: None,
    };
    let action = match action {
        OperationAction::Insert { mut row } => {
            take_out(kernel, table, large, &mut row, &mut change.added)?;
            change.distribution = distribution(table, &key_of(table, &row));
            OperationAction::Insert { row }
        }
        OperationAction::Upsert { mut row } => {
            take_out(kernel, table, large, &mut row, &mut change.added)?;
            let key = key_of(table, &row);
            change.distribution = distribution(table, &key);
            change.removed = old;
            if is_new {
                // An upsert would replace a row that somebody has added by then, and leave its
                // parts behind.

                change.upserted = Some((key, row.clone()));
                OperationAction::Insert { row }
            } else {
                OperationAction::Upsert { row }
            }
        }
        OperationAction::Update { key, condition, mut assignments } => {
            change.distribution = distribution(table, &key);
            if !is_new {
                assign(kernel, table, large, &mut assignments, old, &mut change)?;
            }
            OperationAction::Update { key, condition, assignments }
        }
        OperationAction::Delete { key, condition } => {
            change.distribution = distribution(table, &key);
            change.removed = old;
            OperationAction::Delete { key, condition }
        }
        read @ OperationAction::Read { .. } => read,
    };
    Ok((ClientOperation { table: id, version, action }, Some(change)))
}

/// Takes the values out of a row that do not fit it, and puts references to them in their place.
fn take_out(
    kernel: &Kernel,
    table: &Table,
    large: &LargeColumns,
    row: &mut [Value],
    added: &mut Vec<(Reference, Box<[u8]>)>,
) -> Result<(), Failure> {
    let at = usize::from(large.references.0);
    if row.get(at).is_none_or(|references| *references != Value::Null) {
        return Err(incomplete(table));
    }
    for column in &large.columns {
        let value = &mut row[usize::from(column.0)];
        if is_too_long(table, *column, value) {
            added.push(outside(kernel, table, *column, value)?);
        }
    }
    let references: Vec<Reference> = added.iter().map(|(reference, _)| *reference).collect();
    row[at] = encode(&references);
    Ok(())
}

/// The same for the values that an update assigns to a row with these references.
fn assign(
    kernel: &Kernel,
    table: &Table,
    large: &LargeColumns,
    assignments: &mut Vec<(model::ColumnId, Expression)>,
    old: Vec<Reference>,
    change: &mut Change,
) -> Result<(), Failure> {
    if assignments.iter().any(|(column, _)| *column == large.references) {
        return Err(incomplete(table));
    }
    let is_assigned =
        |reference: &Reference| assignments.iter().any(|(column, _)| *column == reference.column);
    let (removed, mut references): (Vec<_>, Vec<_>) = old.into_iter().partition(is_assigned);
    for (column, value) in assignments.iter_mut() {
        let Expression::Constant(value) = value else { continue };
        if large.columns.contains(column) && is_too_long(table, *column, value) {
            let (reference, bytes) = outside(kernel, table, *column, value)?;
            references.push(reference);
            change.added.push((reference, bytes));
        }
    }
    if !removed.is_empty() || !change.added.is_empty() {
        assignments.push((large.references, Expression::Constant(encode(&references))));
    }
    change.removed = removed;
    Ok(())
}

/// Takes a value out of its place, where an empty one stays.
fn outside(
    kernel: &Kernel,
    table: &Table,
    column: model::ColumnId,
    value: &mut Value,
) -> Result<(Reference, Box<[u8]>), Failure> {
    let empty = Value::Bytes(Box::default());
    let Value::Bytes(bytes) = std::mem::replace(value, empty) else {
        return Err(Failure::Refused(ErrorCode::Internal.into()));
    };
    if bytes.len() > LARGE_SIZE_MAX {
        let name = &table.columns[usize::from(column.0)].name;
        let detail = format!("{}.{name}", table.name);
        return Err(Failure::Refused(Refusal::new(ErrorCode::ValueOutOfRange, detail)));
    }
    let size = u32::try_from(bytes.len()).expect("below the limit of 1 GB");
    Ok((Reference { column, value: kernel.draw(), size }, bytes))
}

/// A row that was read and not completed must not be written: its references would be another's.
fn incomplete(table: &Table) -> Failure {
    let detail = format!("a row of {} is written without its large values", table.name);
    Failure::Refused(Refusal::new(ErrorCode::Internal, detail))
}

/// Replaces a row that was not there when it was looked for.
async fn upsert_again(
    kernel: &Kernel,
    change: &mut Change,
) -> Result<Result<OperationAnswer, Refusal>, Failure> {
    let Some((key, row)) = change.upserted.take() else {
        return Err(Failure::Refused(ErrorCode::Internal.into()));
    };
    let Some(large) = &change.table.large else {
        return Err(Failure::Refused(ErrorCode::Internal.into()));
    };
    let (table, version) = (change.table.id, Some(change.table.version));
    let mut last = Refusal::new(ErrorCode::LockTimeout, change.table.name.clone());
    for _ in 0..ATTEMPTS_MAX {
        let read = locking_read(&change.table, large, key.clone(), version);
        let action = match kernel.execute_plain(vec![read]).await?.into_iter().next() {
            Some(Ok(OperationAnswer::Row(found))) => {
                change.removed = decode(&change.table, found.first().unwrap_or(&Value::Null))?;
                OperationAction::Upsert { row: row.clone() }
            }
            Some(Err(refusal)) if refusal.code == ErrorCode::RowNotFound => {
                change.removed.clear();
                OperationAction::Insert { row: row.clone() }
            }
            Some(Err(refusal)) => return Ok(Err(refusal)),
            _ => return Err(Failure::Refused(ErrorCode::Internal.into())),
        };
        let write = ClientOperation { table, version, action };
        match kernel.execute_plain(vec![write]).await?.into_iter().next() {
            Some(Err(refusal)) if refusal.code == ErrorCode::RowExists => last = refusal,
            Some(answer) => return Ok(answer),
            None => return Err(Failure::Refused(ErrorCode::Internal.into())),
        }
    }
    Ok(Err(last))
}

/// Sends operations; with `commit` a refusal is the only answer.
async fn send(
    kernel: &Kernel,
    operations: Vec<ClientOperation>,
    commit: bool,
) -> Result<Answers, Failure> {
    match (operations.is_empty(), commit) {
        (true, false) => Ok(Vec::new()),
        (_, false) => kernel.execute_plain(operations).await,
        (_, true) => match kernel.execute_all_plain(operations, true).await {
            Ok(answers) => Ok(answers.into_iter().map(Ok).collect()),
            Err(Rejected { at: Some(at), failure: Failure::Aborted(refusal) }) => {
                let before = OperationAnswer::Written(Effect::Created);
                let mut answers: Answers = vec![Ok(before); at];
                answers.push(Err(refusal));
                Ok(answers)
            }
            Err(rejected) => Err(rejected.failure),
        },
    }
}

/// Writes the parts of new values and removes those of old ones, a bounded number of bytes at a
/// time; with `commit`, the transaction is over then.
async fn write_parts(kernel: &Kernel, changes: Vec<Change>, commit: bool) -> Result<(), Failure> {
    let mut message = Message::default();
    for change in changes {
        for (reference, bytes) in &change.added {
            for (number, part) in (0..).zip(bytes.chunks(PART_SIZE_MAX.into())) {
                if message.bytes + part.len() > MESSAGE_BYTES {
                    message.send(kernel).await?;
                }
                let mut row = reference.key(&change.distribution, number);
                row.push(Value::Bytes(part.into()));
                message.bytes += part.len();
                if kernel.mutated(Mutation::SqlPartsLeftOut) && number + 1 == reference.parts() {
                    continue;
                }
                message.push(kernel, ClientOperation::insert(change.parts, row)).await?;
            }
        }
        for reference in &change.removed {
            for part in 0..reference.parts() {
                let key = reference.key(&change.distribution, part);
                message.push(kernel, ClientOperation::delete(change.parts, key)).await?;
            }
        }
    }
    if !commit {
        return message.send(kernel).await;
    }
    if message.removes || message.operations.is_empty() {
        message.send(kernel).await?;
        return kernel.commit().await.map(|_| ());
    }
    let written = kernel.execute_all_plain(message.operations, true).await;
    written.map(|_| ()).map_err(|rejected| rejected.failure)
}

/// Operations on parts that are to be sent together.
#[derive(Default)]
struct Message {
    operations: Vec<ClientOperation>,
    bytes: usize,
    removes: bool,
}

impl Message {
    async fn push(&mut self, kernel: &Kernel, operation: ClientOperation) -> Result<(), Failure> {
        self.removes |= matches!(operation.action, OperationAction::Delete { .. });
        self.operations.push(operation);
        if self.operations.len() >= MESSAGE_PARTS { self.send(kernel).await } else { Ok(()) }
    }

    async fn send(&mut self, kernel: &Kernel) -> Result<(), Failure> {
        let Self { operations, removes, .. } = std::mem::take(self);
        if operations.is_empty() {
            return Ok(());
        }
        for answer in kernel.execute_plain(operations).await? {
            match answer {
                Ok(_) => {}
                // A part that is to go and is not there harms nobody.
                Err(refusal) if removes && refusal.code == ErrorCode::RowNotFound => {}
                Err(refusal) => return Err(Failure::Refused(refusal)),
            }
        }
        Ok(())
    }
}
