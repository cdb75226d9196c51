//! Values too long for their rows: TEXT, BLOB and JSON up to 1 GB.
//!
//! A table with such columns has a hidden table of parts, which lies in the same partitions. A
//! value up to the room of its column lies in the row, and costs nothing; a longer one is cut into
//! parts, and the row has a reference to it: its number, drawn anew for each value, and its size.
//! Rows and parts change in one transaction, under the lock of the row.
//!
//! # Owns
//! References and the keys of parts; writing (`write`), reading (`read`) and checking (`check`)
//! them. Everything above sees whole values: the calls of [`Kernel`](crate::kernel::Kernel) that
//! change rows take them, and [`Reader::complete`](crate::access::Reader::complete) puts them into
//! rows that were read.
//! # Guarantees
//! A value is read whole or not at all: its parts are never those of another, and who finds one
//! missing reads the row again. No part outlives the row that refers to it.
//! # Not here
//! Which columns are large and how much of them lies in the row (`catalog::large`), when rows
//! of a scan are completed (`execute::large`).

pub(crate) mod check;
pub(crate) mod read;
pub(crate) mod write;

use model::schema::PART_SIZE_MAX;
use model::{ClusterState, ColumnId, ErrorCode, Refusal, SchemaChange, Table, Value};

use crate::kernel::Failure;

/// The column of the references. It ends with a space, which no name of a user's column does.
pub(crate) const REFERENCES: &str = "#large ";

/// A value that lies outside of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The column it belongs to.
    column: ColumnId,
    /// Names the value among those of its distribution key; never given to another.
    value: u64,
    /// Its bytes.
    size: u32,
}

/// The first byte of references, should their form ever change.
const FORM: u8 = 1;
/// The bytes of one reference.
const REFERENCE_SIZE: usize = 14;

/// The bytes that the references to so many values take.
pub(crate) fn references_size(values: usize) -> usize {
    1 + REFERENCE_SIZE * values
}

/// The change that makes the same, with tables of parts that are colocated with their base tables.
/// None if it makes no such table.
pub(crate) fn colocating(cluster: &ClusterState, change: &SchemaChange) -> Option<SchemaChange> {
    let makes_parts = match change {
        SchemaChange::CreateTable { large, .. } | SchemaChange::AddColumns { large, .. } => {
            large.is_some()
        }
        SchemaChange::TruncateTable { table } => {
            cluster.tables.get(table).is_some_and(|table| table.large.is_some())
        }
        SchemaChange::Together { expected, changes } => {
            let own = |change: &SchemaChange| colocating(cluster, change);
            if !changes.iter().any(|change| own(change).is_some()) {
                return None;
            }
            let changes = changes.iter().map(|one| own(one).unwrap_or_else(|| one.clone()));
            let (expected, changes) = (expected.clone(), changes.collect());
            return Some(SchemaChange::Together { expected, changes });
        }
        _ => false,
    };
    makes_parts.then(|| SchemaChange::ColocateParts { change: change.clone().into() })
}

impl Reference {
    /// How many parts it has.
    fn parts(self) -> u32 {
        self.size.div_ceil(PART_SIZE_MAX.into())
    }

    /// The key of a part of it, of a row with this distribution key.
    fn key(self, distribution: &[Value], part: u32) -> Vec<Value> {
        let mut key = Vec::with_capacity(distribution.len() + 2);
        key.extend_from_slice(distribution);
        key.extend([Value::UInt(self.value), Value::UInt(part.into())]);
        key
    }
}

/// References as they are stored in a row.
fn encode(references: &[Reference]) -> Value {
    if references.is_empty() {
        return Value::Null;
    }
    let mut bytes = Vec::with_capacity(references_size(references.len()));
    bytes.push(FORM);
    for reference in references {
        bytes.extend(reference.column.0.to_le_bytes());
        bytes.extend(reference.value.to_le_bytes());
        bytes.extend(reference.size.to_le_bytes());
    }
    Value::Bytes(bytes.into())
}

/// The references of a row.
fn decode(table: &Table, stored: &Value) -> Result<Vec<Reference>, Failure> {
    let bytes = match stored {
        Value::Null => return Ok(Vec::new()),
        Value::Bytes(bytes) if bytes.first() == Some(&FORM) => &bytes[1..],
        _ => return Err(unreadable(table)),
    };
    let (entries, rest) = bytes.as_chunks::<REFERENCE_SIZE>();
    if !rest.is_empty() {
        return Err(unreadable(table));
    }
    let of_entry = |entry: &[u8; REFERENCE_SIZE]| {
        let [c0, c1, value @ .., s0, s1, s2, s3] = *entry;
        Reference {
            column: ColumnId(u16::from_le_bytes([c0, c1])),
            value: u64::from_le_bytes(value),
            size: u32::from_le_bytes([s0, s1, s2, s3]),
        }
    };
    Ok(entries.iter().map(of_entry).collect())
}

/// A value that lies outside of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    /// The column that it is of.
    pub(crate) column: ColumnId,
    /// Its name in the table of parts.
    pub(crate) value: u64,
    /// Its bytes.
    pub(crate) size: usize,
}

/// The values of an encoded row that lie outside of it.
pub(crate) fn outside_of(table: &Table, row: &[u8]) -> Result<Vec<Outside>, Failure> {
    let Some(large) = &table.large else { return Ok(Vec::new()) };
    let references = decode(table, &table.value(row, large.references).to_value())?;
    let outside = |reference: Reference| {
        let Reference { column, value, size } = reference;
        Outside { column, value, size: size as usize }
    };
    Ok(references.into_iter().map(outside).collect())
}

/// The bytes of a row's values that lie outside of it.
pub(crate) fn size_of(stored: &Value) -> usize {
    let Value::Bytes(bytes) = stored else { return 0 };
    let (entries, _) = bytes.get(1..).unwrap_or_default().as_chunks::<REFERENCE_SIZE>();
    let size = |entry: &[u8; REFERENCE_SIZE]| {
        let [.., s0, s1, s2, s3] = *entry;
        u32::from_le_bytes([s0, s1, s2, s3]) as usize
    };
    entries.iter().map(size).sum()
}

/// References of a row whose columns have other numbers now; one of a column that has none goes.
pub(crate) fn renumbered(stored: Value, column: impl Fn(u16) -> Option<u16>) -> Value {
    let Value::Bytes(bytes) = &stored else { return stored };
    let (entries, rest) = bytes.get(1..).unwrap_or_default().as_chunks::<REFERENCE_SIZE>();
    if bytes.first() != Some(&FORM) || !rest.is_empty() {
        return stored;
    }
    let mut all = vec![FORM];
    for entry in entries {
        let [c0, c1, others @ ..] = entry;
        let Some(own) = column(u16::from_le_bytes([*c0, *c1])) else { continue };
        all.extend(own.to_le_bytes());
        all.extend(others);
    }
    match all.len() {
        1 => Value::Null,
        _ => Value::Bytes(all.into()),
    }
}

fn unreadable(table: &Table) -> Failure {
    let detail = format!("references of a row of {} cannot be read", table.name);
    Failure::Refused(Refusal::new(ErrorCode::Internal, detail))
}

/// The distribution key of the row with this primary key.
fn distribution(table: &Table, key: &[Value]) -> Vec<Value> {
    let place = |column: &ColumnId| table.primary_key.iter().position(|c| c == column);
    let of_key = |column| place(column).and_then(|at| key.get(at)).cloned();
    table.distribution_key.iter().filter_map(of_key).collect()
}

/// Adds to columns that are to be read what is needed to complete them: the references and the
/// primary key. Nothing if none of them is large.
pub(crate) fn add_needed(table: &Table, columns: &mut Vec<ColumnId>) {
    let Some(large) = &table.large else { return };
    if !columns.iter().any(|column| large.columns.contains(column)) {
        return;
    }
    for column in table.primary_key.iter().chain([&large.references]) {
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
}

#[cfg(test)]
mod tests;
