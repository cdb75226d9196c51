//! Keeps the hidden tables of unique indexes and journals: each change of a base row becomes
//! changes of theirs, in the same transaction.
//!
//! The entry of an index holds the indexed columns (its primary key) and the base row's primary
//! key. Rows with NULL in an indexed column have no entry. The entry of a journal holds the primary
//! key alone; it is written whether it is there or not.

use std::collections::BTreeSet;

use actor::{Ctx, Mutation, probe};
use model::cluster::TableChange;
use model::{
    Address, ClusterState, ColumnId, ErrorCode, IndexState, OperationNumber, PartitionId, Refusal,
    Row, Table, TableId, TransactionId, UniqueIndexDef, Value,
};
use wire::{LegId, Operation, OperationKind, PreparedOperation, UniqueImages};

use super::Coordinator;
use super::execute::{ROUTES_MAX, send_index_change};
use super::state::{IndexChange, Record, number};

impl Coordinator {
    /// Sends the changes of hidden tables that follow from a change of a base row.
    pub(super) fn maintain_hidden(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        client: OperationNumber,
        images: &UniqueImages,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(partition) = record.progress_mut(client).map(|known| known.partition) else {
            return;
        };
        let cluster = ctx.cluster().clone();
        let Some(table) = cluster.tables.get(&partition.table) else { return };
        let mut changes = Vec::new();
        for index in &table.unique_indexes {
            let Some(hidden) = cluster.tables.get(&index.table) else { continue };
            changes.extend(index_changes(ctx, table, index, hidden, images));
        }
        if let Some(journal) = table.journal.and_then(|journal| cluster.tables.get(&journal)) {
            changes.extend(journal_entries(ctx, table, journal, images));
        }
        for (nth, (change, mut operation)) in changes.into_iter().enumerate() {
            operation.number = number::of_index(client, nth as u64 + 1);
            let name = change.index_name.clone();
            if let Err(mut refusal) = send_index_change(ctx, record, client, change, operation) {
                refusal.detail = name;
                return self.abort_with(ctx, id, refusal, None);
            }
        }
    }

    /// Aborts undecided transactions that have changed a table before it got a unique index or a
    /// journal: their changes have no entries, and whoever builds or copies may have passed their
    /// rows. Likewise those that have changed a table whose writes are blocked: whoever copies its
    /// rows must not miss theirs.
    pub(super) fn indexes_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let under_writers = ctx.mutated(Mutation::JournalBeginsUnderWriters);
        let new_index = |change: &TableChange<'_>| {
            let Some((old, table)) = change.before.zip(change.after) else { return false };
            let new = |index: &UniqueIndexDef| old.unique_index(index.id).is_none();
            table.writes_blocked && !old.writes_blocked
                || table.journal.is_some() && table.journal != old.journal && !under_writers
                || table.unique_indexes.iter().any(new)
        };
        let cluster = ctx.cluster().clone();
        let changes = cluster.table_changes(before).filter(new_index);
        let changed: BTreeSet<TableId> = changes.map(|change| *change.key).collect();
        if changed.is_empty() {
            return;
        }
        let writes = |r: &Record| r.written.iter().any(|table| changed.contains(table));
        for id in self.records.ids(|r| r.phase.under_way() && writes(r)) {
            probe!(ctx, "coordinator: unique index created under a writing transaction");
            let refusal = Refusal::new(ErrorCode::SchemaChanged, "a table it wrote to was altered");
            self.abort_with(ctx, id, refusal, None);
        }
    }

    /// Takes the answer to an index change.
    pub(super) fn index_changed(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        id: TransactionId,
        leg: LegId,
        prepared: PreparedOperation,
    ) {
        let PreparedOperation { number: internal, result, returned, .. } = prepared;
        let client = number::client(internal);
        let Some(record) = self.records.get_mut(&id) else { return };
        let Some(state) = record.progress_mut(client) else { return };
        let Some(change) = state.index_pending.remove(&internal) else { return };
        let refusal = match result {
            Ok(_) => return state.index_done.push((internal, leg)),
            Err(refusal) => refusal,
        };
        match refusal.code {
            ErrorCode::RowNotFound if change.may_be_missing => {
                probe!(ctx, "coordinator: old entry missing in an index under construction");
            }
            ErrorCode::RowNotFound => {
                // An earlier operation of the batch was to make the entry, and was refused.
                let Some(refusal) = record.earlier_failure(client) else {
                    return ctx.refuse(from, "an index has the entries of all rows");
                };
                probe!(ctx, "coordinator: entry of a refused operation of the batch");
                let state = record.progress_mut(client).expect("looked up above");
                state.failure = Some(refusal);
            }
            ErrorCode::RowExists => {
                probe!(ctx, "coordinator: unique violation");
                let refusal = Refusal::new(ErrorCode::UniqueViolation, change.index_name);
                state.failure = Some(refusal);
            }
            ErrorCode::StaleRoute if change.sent < ROUTES_MAX && returned.is_some() => {
                let operation = *returned.expect("checked above");
                if let Err(refusal) = send_index_change(ctx, record, client, change, operation) {
                    self.abort_with(ctx, id, refusal, None);
                }
            }
            // The index was dropped in the meantime, or the journal has ended: nothing to maintain.
            ErrorCode::UnknownTable => {
                probe!(ctx, "coordinator: index dropped under a writer");
            }
            _ => state.failure = Some(refusal),
        }
    }
}

/// The entries to remove and to add, removals first. Operation numbers are still to be given.
fn index_changes(
    ctx: &Ctx<'_>,
    table: &Table,
    index: &UniqueIndexDef,
    hidden: &Table,
    images: &UniqueImages,
) -> Vec<(IndexChange, Operation)> {
    let key_of =
        |row: &Option<Row>| row.as_ref().and_then(|row| table.unique_key_of_row(index, &row.0));
    let (old, new) = (key_of(&images.before), key_of(&images.after));
    let mut changes = Vec::new();
    if old == new {
        return changes;
    }
    let mut push = |row: &Row, insert: bool| {
        let entry = entry_row(table, table.entry_columns(index), hidden, row);
        let key = hidden.key_of_row(&hidden.primary_key, &entry.0);
        let partition = PartitionId { table: hidden.id, index: hidden.partition_of_row(&entry.0) };
        let kind = if insert {
            OperationKind::Insert { row: entry }
        } else {
            OperationKind::Delete { key, condition: None }
        };
        let number = OperationNumber(0);
        let operation = Operation { number, partition, table_version: hidden.version, kind };
        let change = IndexChange {
            leg: LegId(0),
            may_be_missing: !insert && index.state == IndexState::Building,
            index_name: format!("{}.{}", table.name, index.name),
            sent: 0,
        };
        changes.push((change, operation));
    };
    if let (Some(_), Some(before)) = (&old, &images.before)
        && !ctx.mutated(Mutation::KeepOldUniqueEntries)
    {
        push(before, false);
    }
    if let (Some(_), Some(after)) = (&new, &images.after) {
        push(after, true);
    }
    changes
}

/// The entries of the journal of a table that a change of a row leaves: one, or two when the change
/// has made another row of it.
fn journal_entries(
    ctx: &mut Ctx<'_>,
    table: &Table,
    journal: &Table,
    images: &UniqueImages,
) -> Vec<(IndexChange, Operation)> {
    if images.after.is_none() && ctx.mutated(Mutation::JournalForgetsDeletes) {
        return Vec::new();
    }
    let key_of = |row: &Row| table.key_of_row(&table.primary_key, &row.0);
    let before = images.before.as_ref();
    let after = images.after.as_ref().filter(|after| {
        before.is_none_or(|before| before.0 != after.0 && key_of(before) != key_of(after))
    });
    probe!(ctx, "coordinator: change recorded in a journal");
    let entry = |row: &Row| {
        let entry = entry_row(table, table.primary_key.iter().copied(), journal, row);
        let index = journal.partition_of_row(&entry.0);
        let operation = Operation {
            number: OperationNumber(0),
            partition: PartitionId { table: journal.id, index },
            table_version: journal.version,
            kind: OperationKind::Upsert { row: entry },
        };
        let index_name = format!("journal of {}", table.name);
        let change = IndexChange { leg: LegId(0), may_be_missing: false, index_name, sent: 0 };
        (change, operation)
    };
    before.into_iter().chain(after).map(entry).collect()
}

/// The hidden table's row for a base row: the values of these columns.
fn entry_row(
    table: &Table,
    columns: impl Iterator<Item = ColumnId>,
    hidden: &Table,
    row: &Row,
) -> Row {
    let values: Vec<Value> = columns.map(|column| table.value(&row.0, column).to_value()).collect();
    hidden.layout().encode_values(&values).expect("hidden columns hold what base columns hold")
}
