//! Which partitions a scan asks: partition pruning, with the values of an execution.
//!
//! # Owns
//! From what a plan or a range says of the distribution key to its values, one for each partition.
//! # Guarantees
//! A partition that is not asked cannot hold a row of the answer. Keys travel as values, and the
//! client finds their partitions whenever it opens the scan, so a new placement changes nothing.
//! Where a value is not certain to be hashed as stored ones are, all partitions are asked.
//! # Not here
//! Which conditions fix the distribution key (`plan::path::distribution`).

use std::collections::BTreeMap;

use client::ScanRange;
use model::{ColumnId, PartitionIndex, Table, Value};
use sql_expression::{Expression, SqlError};
use sqltype::SqlType;

use crate::access::Values;
use crate::catalog::key_value::KeyValue;
use crate::plan::operator::TableScan;

/// Keys of the partitions that can hold rows for which the conditions of a scan are true; none if
/// that may be any. `key_of` says what the value of an expression is as a key of a type.
pub(crate) fn of_conditions(
    scan: &TableScan,
    mut key_of: impl FnMut(&Expression, &SqlType) -> Result<KeyValue, SqlError>,
) -> Option<Vec<Values>> {
    let keys = scan.distribution.as_deref()?;
    let definition = &scan.definition;
    let table = &definition.table;
    let mut found: BTreeMap<PartitionIndex, Values> = BTreeMap::new();
    'keys: for key in keys {
        let mut values = Vec::with_capacity(key.len());
        for (expression, column) in key.iter().zip(&table.distribution_key) {
            let of = definition.columns.iter().find(|of| of.column == *column)?;
            // An error is that of the condition, if there is a row to check it of.
            match key_of(expression, &of.sql_type).ok()? {
                KeyValue::Exact(value) => values.push(value),
                // No row has this key.
                KeyValue::NoMatch => continue 'keys,
                KeyValue::Unusable => return None,
            }
        }
        found.insert(partition(table, &values)?, values);
    }
    (found.len() < usize::from(table.partition_count)).then(|| found.into_values().collect())
}

/// The key of the partition that has all rows of a range of an index; none if there is not one.
pub(crate) fn of_range(table: &Table, range: &ScanRange) -> Option<Values> {
    let ScanRange::Index { index, lower: Some(lower), upper: Some(upper), .. } = range else {
        return None;
    };
    let columns = &table.ordered_index(*index)?.columns;
    let ends = lower.values.iter().zip(&upper.values);
    let alike = |(lower, upper): &(&Value, &Value)| lower == upper && !is_zero(lower);
    let fixed = ends.take_while(alike).count().min(columns.len());
    let value = |column: &ColumnId| {
        let at = columns[..fixed].iter().position(|of| of == column)?;
        lower.values.get(at).cloned()
    };
    let key: Values = table.distribution_key.iter().map(value).collect::<Option<_>>()?;
    partition(table, &key).map(|_| key)
}

/// The partition of all rows whose distribution key is equal to these values.
fn partition(table: &Table, key: &[Value]) -> Option<PartitionIndex> {
    if key.iter().any(is_zero) {
        return None;
    }
    table.partition_of_distribution(key)
}

/// Zero and minus zero are equal, and each has a key and a hash of its own.
fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Float(number) if *number == 0.0)
}
