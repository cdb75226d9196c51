//! Where the cluster keeps what is known of values: a kernel table, which all SQL nodes read.
//!
//! # Owns
//! The kernel table `#statistics`: of each table some parts, each beginning with when it was made.
//! # Guarantees
//! What is read was written as a whole, or nothing is. It survives restarts as other rows do. A
//! reader that does not understand what a newer version has written knows nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{ClientOperation, IndexBound, ScanRange, ScanSpec};
use codec::{Decode, Encode, Reader, Writer};
use model::{ColumnType, ErrorCode, IndexId, Refusal, Table, TableId, Value};

use super::values::TableValues;
use crate::kernel::{Failure, Kernel, Scan};
use crate::own_table::{OwnTable, steadily};

/// Name of the kernel table; without a database, so no user sees it.
pub(crate) const TABLE: &str = "#statistics";
/// The version of what is kept.
const FORMAT: u16 = 1;
/// Bytes of a part.
const PART_BYTES: usize = 8_000;
/// What each part begins with: the version, when it was made, the bytes of all parts together.
const HEAD_BYTES: usize = 2 + 8 + 4;
/// Bytes of what is kept of a table, at most.
const BYTES_MAX: usize = 1 << 20;

/// Keeps what was found out about a table, in the place of what was known before.
pub(crate) async fn put(kernel: &Kernel, of: TableId, values: &TableValues) -> Result<(), Failure> {
    let mut writer = Writer::new(FORMAT);
    let written = writer.attempt(|writer| values.encode(writer));
    let bytes = writer.bytes();
    if written.is_err() || bytes.len() > BYTES_MAX {
        let detail = format!("statistics of {of} take more than {BYTES_MAX} bytes");
        return Err(Failure::Refused(Refusal::new(ErrorCode::RowTooLarge, detail)));
    }
    let mut head = FORMAT.to_be_bytes().to_vec();
    head.extend(values.made_at.to_be_bytes());
    head.extend((bytes.len() as u32).to_be_bytes());
    let part = |(at, bytes): (usize, &[u8])| {
        let data: Vec<u8> = head.iter().chain(bytes).copied().collect();
        vec![number(of), Value::UInt(at as u64), Value::Bytes(data.into())]
    };
    let parts: Vec<Vec<Value>> = bytes.chunks(PART_BYTES).enumerate().map(part).collect();
    steadily(kernel, async || {
        let table = table(kernel).await?;
        let parts = parts.iter().map(|row| ClientOperation::upsert(table, row.clone()));
        kernel.beside().execute_and_commit(parts.collect()).await.map(|_| ())
    })
    .await
}

/// Forgets a table.
pub(crate) async fn forget(kernel: &Kernel, of: TableId) -> Result<(), Failure> {
    steadily(kernel, async || {
        let Some((table, index)) = known(kernel) else { return Ok(()) };
        let rows = scan(kernel, table, index, of).collect().await?;
        let delete = |row: &Vec<Value>| {
            let key = row.iter().take(2).cloned().collect();
            ClientOperation::delete(table, key)
        };
        let deletes: Vec<ClientOperation> = rows.iter().map(delete).collect();
        if deletes.is_empty() {
            return Ok(());
        }
        match kernel.beside().execute_and_commit(deletes).await {
            Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowNotFound => Ok(()),
            other => other.map(|_| ()),
        }
    })
    .await
}

/// What is known of some tables, in their order.
pub(crate) async fn read(
    kernel: &Kernel,
    tables: &[TableId],
) -> Result<Vec<Option<TableValues>>, Failure> {
    steadily(kernel, async || {
        let Some((table, index)) = known(kernel) else { return Ok(vec![None; tables.len()]) };
        let mut found = Vec::with_capacity(tables.len());
        for tables in tables.chunks(SCANS) {
            let scans: Vec<Scan> =
                tables.iter().map(|of| scan(kernel, table, index, *of)).collect();
            for scan in scans {
                found.push(of_parts(scan.collect().await?));
            }
        }
        Ok(found)
    })
    .await
}

/// What is known of the values of several tables.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<TableId, TableValues>);

impl Known {
    /// Of these tables, or of all.
    pub(crate) async fn of(
        kernel: &Kernel,
        tables: Option<&[Arc<Table>]>,
    ) -> Result<Self, Failure> {
        let wanted: Vec<TableId> = match tables {
            Some(tables) => tables.iter().map(|table| table.id).collect(),
            None => kernel.cluster().tables.keys().copied().collect(),
        };
        let found = read(kernel, &wanted).await?;
        let known = wanted.into_iter().zip(found).filter_map(|(of, known)| Some((of, known?)));
        Ok(Self(known.collect()))
    }

    /// What is known of a table.
    pub(crate) fn values(&self, table: TableId) -> Option<&TableValues> {
        self.0.get(&table)
    }
}

/// Scans that are under way together.
const SCANS: usize = 16;

/// The parts of a table, in order.
fn scan(kernel: &Kernel, table: TableId, index: IndexId, of: TableId) -> Scan {
    let bound = Some(IndexBound::including(vec![number(of)]));
    let order = Some(wire::ScanOrder::Ascending);
    kernel.beside().scan(ScanSpec {
        range: ScanRange::Index { index, lower: bound.clone(), upper: bound, order },
        partition_keys: Some(vec![vec![number(of)]]),
        ..ScanSpec::heap(table)
    })
}

/// What parts make together; nothing if they are not of one piece. Later parts may be left of an
/// earlier time.
fn of_parts(rows: Vec<Vec<Value>>) -> Option<TableValues> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut head: Option<Vec<u8>> = None;
    for (at, row) in rows.iter().enumerate() {
        let [_, Value::UInt(number), Value::Bytes(data)] = row.as_slice() else { return None };
        let (of_part, data) = data.split_at_checked(HEAD_BYTES)?;
        if *number != at as u64 || head.get_or_insert_with(|| of_part.to_vec()) != of_part {
            break;
        }
        bytes.extend_from_slice(data);
    }
    let head = head?;
    let (format, length) = (head.first_chunk()?, head.last_chunk()?);
    let whole = u32::from_be_bytes(*length) as usize == bytes.len();
    let format = u16::from_be_bytes(*format);
    if !whole || format > FORMAT {
        return None;
    }
    let mut reader = Reader::new(format, &bytes);
    let values = TableValues::decode(&mut reader).ok()?;
    reader.finish().is_ok().then_some(values)
}

fn number(table: TableId) -> Value {
    Value::UInt(table.0.into())
}

/// The kernel table and its index, if somebody has made it.
fn known(kernel: &Kernel) -> Option<(TableId, IndexId)> {
    let cluster = kernel.cluster();
    let table = cluster.table_named(TABLE)?;
    Some((table.id, index_of(table)?))
}

fn index_of(table: &Table) -> Option<IndexId> {
    table.online_indexes().next().map(|index| index.id)
}

/// The kernel table; made by the first who needs it.
async fn table(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("table_id", ColumnType::UInt(4)),
        ("part", ColumnType::UInt(2)),
        ("data", ColumnType::Variable((HEAD_BYTES + PART_BYTES) as u16)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 2, ordered: true }.get(kernel).await
}
