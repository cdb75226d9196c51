//! A sample of a table's rows, and what it says of their values.
//!
//! # Owns
//! [`analyze`]: which rows are asked for and in what steps.
//! # Guarantees
//! However large a table is, about [`ROWS`] of its rows are read, a few hundred of one partition at
//! a time and none while another question is under way: a worker of a data node has some ten
//! microseconds of work in one step. With `careful` the asker rests in between. Rows are those of
//! the moment, as committed; a sample is no snapshot.
//! # Limits
//! Every so many slots of a partition are read, from one that the table and the partition decide:
//! two samples of unchanged rows are the same. Nothing is said of JSON, and of columns whose values
//! may lie outside of their rows.

use std::sync::Arc;

use model::{
    ColumnId, ErrorCode, PartitionId, PartitionIndex, Refusal, RowId, RowLayout, Table, Value, key,
};
use sqltype::TypeKind;
use stdx::{Duration, HashMap};
use wire::Inspection;

use super::Sizes;
use super::values::{ColumnValues, TableValues, cut, distinct_of_all, of_sample};
use crate::catalog::TableDefinition;
use crate::kernel::{Failure, Kernel};

/// Rows that are wanted of a table.
const ROWS: u64 = 10_000;
/// Most bytes of their values that are kept: of a table with wide rows there are fewer rows.
const BYTES_MAX: usize = 16 << 20;
/// The first protocol version that knows of samples.
pub(crate) const SINCE: u16 = 16;
/// The rest between two questions of somebody who is careful.
const REST: Duration = Duration::from_millis(2);

/// Finds out how the values of a table are distributed. `asked` tells how many buckets a user wants
/// of a column; `now` is in microseconds since 1970.
pub(crate) async fn analyze(
    kernel: &Kernel,
    definition: &TableDefinition,
    asked: &dyn Fn(ColumnId) -> Option<u16>,
    (now, careful): (u64, bool),
) -> Result<TableValues, Failure> {
    let table = &definition.table;
    if kernel.protocol() < SINCE {
        let detail = "all data nodes must have a version that knows of samples";
        return Err(Failure::Refused(Refusal::new(ErrorCode::OlderNode, detail)));
    }
    let sizes = Sizes::of(kernel, Some(std::slice::from_ref(table))).await;
    let rows = sizes.table(table).map_or(0, |size| size.rows);
    let columns: Vec<ColumnId> = described(definition).collect();
    let sample = take(kernel, table, &columns, rows, careful).await?;
    let sampled = sample.first().map_or(0, Vec::len) as u64;
    // What has been deleted since the sizes were told is still counted there.
    let all = rows.max(sampled) as f64;
    let mut prefixes: Vec<(Vec<ColumnId>, f64)> = Vec::new();
    for of_key in prefixes_of_keys(definition) {
        let places: Option<Vec<usize>> =
            of_key.iter().map(|column| columns.iter().position(|of| of == column)).collect();
        let Some(places) = places else { continue };
        if prefixes.iter().all(|(known, _)| *known != of_key) {
            prefixes.push((of_key.clone(), combinations(table, &of_key, &sample, &places, all)));
            kernel.breathe().await?;
        }
    }
    let mut found: Vec<ColumnValues> = Vec::with_capacity(columns.len());
    for (column, values) in columns.into_iter().zip(sample) {
        found.extend(of_sample(table, column, values, all, asked(column)));
        kernel.breathe().await?;
    }
    Ok(TableValues { made_at: now, rows, sampled, columns: found, prefixes })
}

/// The columns of a table of whose values something can be said.
pub(crate) fn described(definition: &TableDefinition) -> impl Iterator<Item = ColumnId> {
    let large = definition.table.large.as_ref().map_or(&[][..], |large| &large.columns[..]);
    let all = definition.columns.iter().filter(|column| column.hidden.is_none());
    let known = all.filter(move |column| {
        column.sql_type.kind != TypeKind::Json && !large.contains(&column.column)
    });
    known.map(|column| column.column)
}

/// Several columns that a key begins with.
fn prefixes_of_keys(definition: &TableDefinition) -> impl Iterator<Item = Vec<ColumnId>> {
    let of_key = |key: &crate::catalog::KeyDefinition| -> Vec<ColumnId> {
        key.columns.iter().map(|part| definition.columns[part.declared].column).collect()
    };
    definition.keys.iter().map(of_key).flat_map(|columns: Vec<ColumnId>| {
        (2..=columns.len()).map(move |count| columns[..count].to_vec())
    })
}

/// About how many combinations of values some columns have.
fn combinations(
    table: &Table,
    columns: &[ColumnId],
    sample: &[Vec<Value>],
    places: &[usize],
    rows: f64,
) -> f64 {
    let sampled = sample.first().map_or(0, Vec::len);
    let mut counts: HashMap<u64, u64> = HashMap::default();
    let value_of = |at: usize| move |place: &usize| sample[*place][at].clone();
    for values in (0..sampled).map(|at| places.iter().map(value_of(at)).collect::<Vec<Value>>()) {
        if let Some(key) = table.key_of_values(columns, &values) {
            *counts.entry(key::local_hash(key.bytes())).or_default() += 1;
        }
    }
    let once = counts.values().filter(|count| **count == 1).count() as u64;
    distinct_of_all(counts.len() as u64, once, sampled as u64, rows)
}

/// The values of some columns in some rows, by column.
async fn take(
    kernel: &Kernel,
    table: &Arc<Table>,
    columns: &[ColumnId],
    rows: u64,
    careful: bool,
) -> Result<Vec<Vec<Value>>, Failure> {
    let mut sample: Vec<Vec<Value>> = vec![Vec::new(); columns.len()];
    let step = u32::try_from(rows.div_ceil(ROWS)).unwrap_or(u32::MAX).max(1);
    let mut bytes = 0;
    for index in 0..table.partition_count {
        let partition = PartitionId { table: table.id, index: PartitionIndex(index) };
        // Partitions begin at different slots: few rows in many partitions are sampled too.
        let mut from = Some(RowId(u32::from(index) % step));
        while let Some(first) = from.take() {
            kernel.check_interrupt()?;
            let Some(primary) = kernel.cluster().primary(partition) else { break };
            let what = Inspection::Sample { partition, from: first, step };
            let told = kernel.inspect(what, Some(primary.node)).await?;
            let mut told = told.into_iter().flat_map(|told| told.rows);
            if let Some([Value::UInt(next)]) = told.next().as_deref() {
                from = u32::try_from(*next).ok().map(RowId);
            }
            for row in told {
                let [Value::Bytes(row)] = row.as_slice() else { continue };
                // A row that is newer than the definition says nothing that is understood.
                if usize::from(RowLayout::version_of(row)) >= table.layouts.len() {
                    continue;
                }
                for (values, column) in sample.iter_mut().zip(columns) {
                    let definition = &table.columns[usize::from(column.0)];
                    let value = cut(table.value_now(row, *column).to_value(), definition);
                    bytes +=
                        size_of::<Value>() + if let Value::Bytes(b) = &value { b.len() } else { 0 };
                    values.push(value);
                }
            }
            if careful {
                kernel.sleep(REST).await?
            } else {
                kernel.breathe().await?
            }
            if bytes > BYTES_MAX {
                return Ok(sample);
            }
        }
    }
    Ok(sample)
}
