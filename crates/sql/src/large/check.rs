//! Whether rows and the parts of their large values belong together, and what they come to.
//!
//! # Guarantees
//! Both are read as of one snapshot: changes neither disturb nor are disturbed.
//! # Not here
//! Whether replicas are equal (`administration::maintenance`).

use std::collections::BTreeMap;
use std::sync::Arc;

use client::ScanSpec;
use model::{ColumnId, Epoch, ErrorCode, Table, Value};
use wire::Projection;

use super::decode;
use crate::access::{Asked, ReadMode, Reader, Values};
use crate::kernel::{Failure, Kernel};

/// A value's distribution key and number, encoded.
type Name = Box<[u8]>;

/// The hidden table of a table's parts.
pub(crate) fn parts_table(kernel: &Kernel, table: &Table) -> Result<Option<Arc<Table>>, Failure> {
    let Some(large) = &table.large else { return Ok(None) };
    let found = kernel.cluster().tables.get(&large.parts).cloned();
    found.map(Some).ok_or_else(|| Failure::Refused(ErrorCode::SchemaChanged.into()))
}

/// Compares the references of all rows with the parts that are there; what is wrong, if anything.
pub(crate) async fn check(
    kernel: &Kernel,
    table: &Arc<Table>,
    snapshot: Epoch,
) -> Result<Option<String>, Failure> {
    let (Some(large), Some(parts)) = (&table.large, parts_table(kernel, table)?) else {
        return Ok(None);
    };
    let name = |distribution: &[Value], value: &Value| {
        let key: Values = distribution.iter().chain([value]).cloned().collect();
        parts.key_of_values(&parts.primary_key, &key).map(|key| key.0)
    };
    // How many parts of each value are to be there, and have been found.
    let mut values: BTreeMap<Name, (u32, u32)> = BTreeMap::new();
    let mut columns = table.distribution_key.clone();
    columns.push(large.references);
    let mut scan = kernel.scan(of_snapshot(table, columns, snapshot));
    while let Some(rows) = scan.next().await? {
        for row in rows {
            let Some((references, distribution)) = row.split_last() else { continue };
            for reference in decode(table, references)? {
                let name = name(distribution, &Value::UInt(reference.value));
                let parts = reference.parts();
                if name.is_none_or(|name| values.insert(name, (parts, 0)).is_some()) {
                    return Ok(Some("two rows refer to one value".to_owned()));
                }
            }
        }
    }
    let mut scan = kernel.scan(of_snapshot(&parts, parts.primary_key.clone(), snapshot));
    let mut orphans = 0u64;
    while let Some(rows) = scan.next().await? {
        for row in rows {
            let [distribution @ .., value, Value::UInt(part)] = row.as_slice() else { continue };
            let known = name(distribution, value).and_then(|name| values.get_mut(&name));
            match known.filter(|(parts, _)| *part < u64::from(*parts)) {
                Some((_, found)) => *found += 1,
                None => orphans += 1,
            }
        }
    }
    let torn = values.values().filter(|(parts, found)| parts != found).count();
    Ok((orphans > 0 || torn > 0).then(|| {
        format!("large values: {orphans} parts belong to no row, {torn} values lack parts")
    }))
}

/// The sum over all rows of what the values of these columns come to, in their order, wherever
/// they lie: equal for tables that show the same rows, however they came to be and are stored.
pub(crate) async fn sum(
    kernel: &Kernel,
    table: &Arc<Table>,
    columns: &[ColumnId],
    snapshot: Epoch,
) -> Result<u64, Failure> {
    let reader = Reader {
        kernel: kernel.clone(),
        table: table.clone(),
        mode: ReadMode::Snapshot(snapshot),
        projection: Projection::All,
    };
    let mut scan = reader.scan(Asked::heap(), None, None, None);
    let (mut sum, mut bytes) = (0u64, Vec::new());
    while let Some(rows) = scan.next().await? {
        for row in rows {
            let row = match table.large {
                None => Some(row),
                // What is stored names values by chance.
                Some(_) => {
                    reader.complete(vec![row]).await?.pop().and_then(|completed| completed.values)
                }
            };
            let Some(row) = row else { continue };
            bytes.clear();
            columns.iter().for_each(|at| add_bytes(&row[usize::from(at.0)], &mut bytes));
            sum = sum.wrapping_add(model::key::local_hash(&bytes));
        }
        kernel.breathe().await?;
    }
    Ok(sum)
}

/// Adds bytes that are equal for equal values only.
fn add_bytes(value: &Value, bytes: &mut Vec<u8>) {
    let (kind, word) = match value {
        Value::Null => (0, 0),
        Value::Int(v) => (1, *v as u64),
        Value::UInt(v) => (2, *v),
        Value::Float(v) => (3, v.to_bits()),
        Value::Bytes(v) => (4, v.len() as u64),
    };
    bytes.push(kind);
    bytes.extend(word.to_le_bytes());
    if let Value::Bytes(v) = value {
        bytes.extend_from_slice(v);
    }
}

fn of_snapshot(table: &Table, columns: Vec<ColumnId>, snapshot: Epoch) -> ScanSpec {
    let projection = Projection::Columns(columns);
    ScanSpec { projection, snapshot: Some(snapshot), ..ScanSpec::heap(table.id) }
}
