//! Changes of rows that travel together with the search for their parents.
//!
//! # Owns
//! [`Batch`]: operations and the rows they belong to; each parent is asked for once, in the same
//! request, right behind the row that refers to it. So the parents of many rows cost no request of
//! their own, an autocommit statement stays one request, and rows of one batch may be each other's
//! parents in the order in which they are given.
//! # Guarantees
//! A batch that succeeds has its parents locked until the transaction ends.
//! # Not here
//! Children of rows that go (`children`).

use std::collections::BTreeSet;
use std::rc::Rc;

use actor::Mutation;
use client::{ClientOperation, OperationAction, OperationAnswer};
use model::{ErrorCode, IndexId, Refusal, Value};
use sql_expression::SqlError;
use wire::{Effect, LockMode, Projection, WaitPolicy};

use super::{no_parent, referring, translated};
use crate::access::{ReadMode, Reader, Values};
use crate::catalog::TableDefinition;
use crate::catalog::foreign_key::ParentKey;
use crate::error::of_refusal;
use crate::execute::row::RowMaker;
use crate::kernel::{Failure, Kernel, Rejected};
use crate::rows::Row;

/// How often a parent that is looked up by a unique key is looked up again.
const LOOKUPS_MAX: u32 = 8;

/// Operations to be sent at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    operations: Vec<ClientOperation>,
    sources: Vec<Source>,
    rows: Vec<Row>,
    /// Parents that are asked for already: the foreign key and the encoded key.
    asked: BTreeSet<(usize, Vec<u8>)>,
    /// Parents that are found by a unique key, with the foreign key.
    apart: Vec<(usize, Values)>,
}

/// Where an operation comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The change of this row.
    Row(usize),
    /// The search for the parent by this foreign key.
    Parent(usize),
}

impl Batch {
    /// Rows in it.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds an operation with the row that messages show.
    pub(crate) fn push(&mut self, operation: ClientOperation, row: Row) {
        self.operations.push(operation);
        self.sources.push(Source::Row(self.rows.len()));
        self.rows.push(row);
    }

    /// Has the parents found that a row as the kernel has it refers to: all of them, or those whose
    /// columns are not what they were `before`, but for the foreign keys of which it is `known`.
    ///
    /// # Errors
    /// 1452 when a parent cannot be there.
    pub(crate) fn refer(
        &mut self,
        maker: &RowMaker,
        row: &[Value],
        before: Option<&[Value]>,
        known: &[usize],
    ) -> Result<(), SqlError> {
        let definition = &maker.definition;
        for parent in maker.links.parents.iter().filter(|parent| !known.contains(&parent.at)) {
            let key = &definition.foreign_keys[parent.at];
            let place = |at: &usize| usize::from(definition.columns[*at].column.0);
            let same =
                |before: &[Value]| key.columns.iter().all(|at| row[place(at)] == before[place(at)]);
            if before.is_some_and(same) {
                continue;
            }
            let Some(values) = referring(definition, key, row) else { continue };
            let none = || no_parent(definition, key);
            let (table, by) = parent.found.as_ref().ok_or_else(none)?;
            let columns = key.parent_columns.iter().filter_map(|name| table.column(name));
            let values = translated(values, columns.map(|(_, column)| &column.sql_type));
            let values = values.ok_or_else(none)?;
            let of_key: Vec<model::ColumnId> = key
                .parent_columns
                .iter()
                .filter_map(|name| table.column(name).map(|(_, column)| column.column))
                .collect();
            let encoded = table.table.key_of_values(&of_key, &values).ok_or_else(none)?;
            if !self.asked.insert((parent.at, encoded.0.to_vec())) {
                continue;
            }
            match by {
                ParentKey::Primary => {
                    self.sources.push(Source::Parent(parent.at));
                    self.operations.push(lock(table, values));
                }
                ParentKey::Unique(_) => self.apart.push((parent.at, values)),
            }
        }
        Ok(())
    }

    /// Sends it, and with `commit` commits; the answers of its rows. It is empty afterwards.
    ///
    /// # Errors
    /// 1452 for a row without a parent, 1062 for a duplicate, and what else the kernel refuses.
    pub(crate) async fn send(
        &mut self,
        kernel: &Kernel,
        maker: &RowMaker,
        commit: bool,
    ) -> Result<Vec<OperationAnswer>, SqlError> {
        let Batch { mut operations, sources, rows, apart, .. } = std::mem::take(self);
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        // Rows of the batch may be parents that others of it find by a unique key.
        let own = |at: &usize| {
            let parent = maker.links.parents.iter().find(|parent| parent.at == *at);
            let found = parent.and_then(|parent| parent.found.as_ref());
            found.is_some_and(|(table, _)| table.table.id == maker.definition.table.id)
        };
        let (after, before): (Vec<_>, Vec<_>) = apart.into_iter().partition(|(at, _)| own(at));
        find_apart(kernel, maker, before).await?;
        if kernel.mutated(Mutation::SqlParentsUnlocked) {
            operations.iter_mut().for_each(unlock);
        }
        let commit = commit && after.is_empty();
        let answers = kernel.execute_all(operations, commit).await;
        let answers = answers.map_err(|rejected| error_of(maker, &sources, &rows, rejected))?;
        find_apart(kernel, maker, after).await?;
        if commit && answers.is_empty() {
            // They were lost, and the end was asked for: all rows are there. Whether others were
            // replaced is not known.
            let rows = sources.iter().filter(|source| matches!(source, Source::Row(_)));
            return Ok(rows.map(|_| OperationAnswer::Written(Effect::Created)).collect());
        }
        let of_rows = answers.into_iter().zip(&sources);
        let of_rows = of_rows.filter(|(_, source)| matches!(source, Source::Row(_)));
        Ok(of_rows.map(|(answer, _)| answer).collect())
    }
}

/// The operation that finds and locks a parent by its primary key.
fn lock(table: &TableDefinition, key: Values) -> ClientOperation {
    let (lock, wait, projection) = (LockMode::Shared, WaitPolicy::Wait, Projection::Nothing);
    let action = OperationAction::Read { key, lock, wait, projection, snapshot: None };
    ClientOperation { table: table.table.id, version: None, action }
}

/// Has a parent read as it is, whoever changes it.
fn unlock(operation: &mut ClientOperation) {
    if let OperationAction::Read { lock, .. } = &mut operation.action {
        *lock = LockMode::Committed;
    }
}

/// What a batch was refused for.
fn error_of(maker: &RowMaker, sources: &[Source], rows: &[Row], rejected: Rejected) -> SqlError {
    let source = rejected.at.and_then(|at| sources.get(at)).copied();
    match (&rejected.failure, source) {
        (Failure::Refused(refusal) | Failure::Aborted(refusal), Some(source)) => match source {
            Source::Row(at) => refused(maker, refusal, &rows[at]),
            Source::Parent(at) if refusal.code == ErrorCode::RowNotFound => {
                no_parent(&maker.definition, &maker.definition.foreign_keys[at])
            }
            Source::Parent(_) => of_refusal(refusal),
        },
        _ => rejected.failure.into(),
    }
}

/// The error for a row that the kernel refused.
pub(crate) fn refused(maker: &RowMaker, refusal: &Refusal, row: &Row) -> SqlError {
    match refusal.code {
        ErrorCode::RowExists => maker.duplicate(None, row),
        ErrorCode::UniqueViolation => maker.duplicate(Some(&refusal.detail), row),
        _ => of_refusal(refusal),
    }
}

/// Finds and locks parents by unique keys; error 1452 when one is not there.
async fn find_apart(
    kernel: &Kernel,
    maker: &RowMaker,
    wanted: Vec<(usize, Values)>,
) -> Result<(), SqlError> {
    for parent in &maker.links.parents {
        let Some((table, ParentKey::Unique(index))) = &parent.found else { continue };
        let keys: Vec<Values> = wanted
            .iter()
            .filter(|(at, _)| *at == parent.at)
            .map(|(_, values)| values.clone())
            .collect();
        if !keys.is_empty() && !all_there(kernel, table, *index, keys).await? {
            return Err(no_parent(&maker.definition, &maker.definition.foreign_keys[parent.at]));
        }
    }
    Ok(())
}

/// Whether there is a row for each of these keys; they are locked then. An entry that is not there
/// may be on its way: who is about to make it has it locked, and is waited for.
async fn all_there(
    kernel: &Kernel,
    table: &Rc<TableDefinition>,
    index: IndexId,
    mut keys: Vec<Values>,
) -> Result<bool, SqlError> {
    let locking = |table: &std::sync::Arc<model::Table>| Reader {
        kernel: kernel.clone(),
        table: table.clone(),
        mode: ReadMode::Locking(LockMode::Shared, WaitPolicy::Wait),
        projection: Projection::Nothing,
    };
    let rows = locking(&table.table);
    let changed = || SqlError::from(Failure::Refused(ErrorCode::SchemaChanged.into()));
    let entries = table.table.unique_index(index).map(|index| index.table);
    let cluster = kernel.cluster();
    let entries = entries.and_then(|id| cluster.tables.get(&id)).ok_or_else(changed)?;
    let entries = locking(entries);
    for _ in 0..LOOKUPS_MAX {
        let found = rows.by_unique_key(index, keys.clone()).await?;
        let missing: Vec<Values> = keys
            .into_iter()
            .zip(found)
            .filter_map(|(key, row)| row.is_none().then_some(key))
            .collect();
        if missing.is_empty() {
            return Ok(true);
        }
        if entries.by_primary_key(missing.clone()).await?.iter().any(Option::is_none) {
            return Ok(false);
        }
        keys = missing;
    }
    Err(of_refusal(&ErrorCode::LockTimeout.into()))
}
