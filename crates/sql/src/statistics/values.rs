//! How the values of a table's columns are distributed: what a sample has told.
//!
//! # Owns
//! [`TableValues`], as it is kept in the cluster, and [`KnownValues`], by which shares of rows are
//! estimated.
//! # Guarantees
//! A share is between 0 and 1. Values compare as the keys of an index do, so by the collation of
//! their column. Nothing here decides what rows a statement finds: estimates may be wrong.
//! # Not here
//! Where the sample comes from (`sample`), where this is kept (`store`), what a condition makes of
//! it (`plan::selectivity`).

use std::collections::BTreeMap;

use codec::Codec;
use model::{Column, ColumnId, Table, Value};
use stdx::HashMap;

/// Buckets of a histogram that nobody has asked for.
pub(crate) const BUCKETS: usize = 64;
/// Buckets that a user may ask for, at most.
pub(crate) const BUCKETS_MAX: usize = 1_024;
/// Bytes of a text or of other bytes that a bucket keeps of its ends.
const TEXT_MAX: usize = 168;

/// What is known of the values of a table.
#[derive(Clone, Debug, PartialEq, Codec)]
pub(crate) struct TableValues {
    /// When it was found out: microseconds since 1970 UTC.
    pub(crate) made_at: u64,
    /// Rows of the table then.
    pub(crate) rows: u64,
    /// Rows that were looked at.
    pub(crate) sampled: u64,
    /// Columns of which something is known.
    pub(crate) columns: Vec<ColumnValues>,
    /// About how many combinations of values several columns have: those that keys begin with.
    pub(crate) prefixes: Vec<(Vec<ColumnId>, f64)>,
}

impl TableValues {
    /// About how many values a column has, or combinations of them several columns have, NULL among
    /// them; nothing if that was not counted.
    pub(crate) fn distinct(&self, columns: &[ColumnId]) -> Option<f64> {
        if let [column] = columns {
            let of = self.columns.iter().find(|of| of.column == *column)?;
            return Some(of.distinct + if of.nulls > 0.0 { 1.0 } else { 0.0 });
        }
        let same = |of: &[ColumnId]| {
            of.len() == columns.len() && of.iter().all(|column| columns.contains(column))
        };
        let found = self.prefixes.iter().find(|(of, _)| same(of));
        found.map(|(_, distinct)| *distinct)
    }
}

/// What is known of the values of a column.
#[derive(Clone, Debug, PartialEq, Codec)]
pub(crate) struct ColumnValues {
    pub(crate) column: ColumnId,
    /// The share of rows that have NULL.
    pub(crate) nulls: f64,
    /// About how many values the column has, NULL not among them.
    pub(crate) distinct: f64,
    /// Their distribution, in ascending order; the rest of 1 is NULL.
    pub(crate) buckets: Vec<Bucket>,
    /// So many buckets were asked for by ANALYZE TABLE … UPDATE HISTOGRAM; it is the user's then.
    pub(crate) asked: Option<u16>,
}

/// Values that follow each other.
#[derive(Clone, Debug, PartialEq, Codec)]
pub(crate) struct Bucket {
    /// The least value and the greatest; long texts are cut.
    pub(crate) low: Value,
    pub(crate) high: Value,
    /// The share of all rows whose value is in this bucket or in one before.
    pub(crate) up_to: f64,
    /// About how many values it has.
    pub(crate) distinct: f64,
}

/// The least and the largest value of a bucket, in a form whose bytes compare as the values do.
type Ends = (Box<[u8]>, Box<[u8]>);

/// The same with values as keys, which are compared.
#[derive(Debug)]
pub(crate) struct KnownValues {
    pub(crate) table: TableValues,
    /// The version of the definition it was made comparable by.
    version: u32,
    places: BTreeMap<ColumnId, usize>,
    /// The ends of the buckets of each column.
    ends: Vec<Vec<Ends>>,
}

impl KnownValues {
    /// Makes values comparable. Columns that the table has no more, or whose type is another one
    /// now, are as good as unknown.
    pub(crate) fn new(mut values: TableValues, table: &Table) -> Self {
        let key = |column: ColumnId, value: &Value| key_of(table, column, value);
        let mut kept = Vec::with_capacity(values.columns.len());
        let mut ends = Vec::with_capacity(values.columns.len());
        for column in std::mem::take(&mut values.columns) {
            let of = |bucket: &Bucket| {
                Some((key(column.column, &bucket.low)?, key(column.column, &bucket.high)?))
            };
            let of_column: Option<Vec<_>> = column.buckets.iter().map(of).collect();
            if let Some(of_column) = of_column {
                ends.push(of_column);
                kept.push(column);
            }
        }
        values.columns = kept;
        let place = |(at, column): (usize, &ColumnValues)| (column.column, at);
        let places = values.columns.iter().enumerate().map(place).collect();
        Self { table: values, version: table.version, places, ends }
    }

    /// Whether it was made of these values, by this definition.
    pub(crate) fn is_of(&self, values: &TableValues, table: &Table) -> bool {
        self.table.made_at == values.made_at && self.version == table.version
    }

    /// What is known of a column.
    pub(crate) fn column(&self, column: ColumnId) -> Option<&ColumnValues> {
        self.places.get(&column).map(|at| &self.table.columns[*at])
    }

    /// The share of rows with a value, which is given as a key.
    pub(crate) fn equal_to(&self, column: ColumnId, key: &[u8]) -> Option<f64> {
        let at = *self.places.get(&column)?;
        let (of, ends) = (&self.table.columns[at], &self.ends[at]);
        // Of a sample nothing less can be said: a value that is not in it may be in other rows.
        let rare = 0.5 / self.table.sampled.max(1) as f64;
        let bucket = ends.partition_point(|(_, high)| **high < *key);
        let found = ends.get(bucket).filter(|(low, _)| **low <= *key);
        let share = match found {
            Some(_) => share_of(of, bucket) / of.buckets[bucket].distinct.max(1.0),
            None => 0.0,
        };
        Some(share.max(rare.min(1.0)))
    }

    /// The share of rows with a value below another one, or up to it; NULL is none.
    pub(crate) fn below(&self, column: ColumnId, key: &[u8], inclusive: bool) -> Option<f64> {
        let at = *self.places.get(&column)?;
        let (of, ends) = (&self.table.columns[at], &self.ends[at]);
        let bucket = ends.partition_point(|(_, high)| **high < *key);
        let before = bucket.checked_sub(1).map_or(0.0, |at| of.buckets[at].up_to);
        let Some((low, high)) = ends.get(bucket) else { return Some(before) };
        let share = share_of(of, bucket);
        let equal = if inclusive { share / of.buckets[bucket].distinct.max(1.0) } else { 0.0 };
        Some(match key.cmp(low) {
            std::cmp::Ordering::Less => before,
            std::cmp::Ordering::Equal => before + equal,
            std::cmp::Ordering::Greater => {
                let within = share * place_between(low, high, key);
                (before + within + equal).min(of.buckets[bucket].up_to)
            }
        })
    }
}

/// A value as what is compared.
pub(crate) fn key_of(table: &Table, column: ColumnId, value: &Value) -> Option<Box<[u8]>> {
    table.columns.get(usize::from(column.0))?;
    table.key_of_values(&[column], std::slice::from_ref(value)).map(|key| key.0)
}

/// The share of rows in a bucket.
fn share_of(column: &ColumnValues, bucket: usize) -> f64 {
    let before = bucket.checked_sub(1).map_or(0.0, |at| column.buckets[at].up_to);
    (column.buckets[bucket].up_to - before).max(0.0)
}

/// How far between two keys a third one is, from 0 to 1.
fn place_between(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    let same = low.iter().zip(high).take_while(|(low, high)| low == high).count();
    let number = |key: &[u8]| {
        let bytes = key.iter().skip(same).copied().chain(std::iter::repeat(0));
        bytes.take(7).fold(0_u64, |number, byte| number << 8 | u64::from(byte)) as f64
    };
    let (low, high, key) = (number(low), number(high), number(key));
    if high <= low { 0.5 } else { ((key - low) / (high - low)).clamp(0.0, 1.0) }
}

/// About how many values there are among all rows: `seen` of them are among `sampled` rows that
/// are not NULL, `once` of them in one row each. The estimator Duj1 of P. Haas and L. Stokes
/// (Estimating the Number of Classes in a Finite Population, JASA 1998).
pub(crate) fn distinct_of_all(seen: u64, once: u64, sampled: u64, rows: f64) -> f64 {
    let (seen, once, sampled) = (seen as f64, once as f64, sampled as f64);
    if sampled < 1.0 || rows <= sampled {
        return seen;
    }
    let estimate = sampled * seen / (sampled - once + once * sampled / rows);
    estimate.clamp(seen, rows)
}

/// What a sample says of a column: its rows' values, NULL among them, of a table of so many rows.
pub(crate) fn of_sample(
    table: &Table,
    column: ColumnId,
    values: Vec<Value>,
    rows: f64,
    asked: Option<u16>,
) -> Option<ColumnValues> {
    let sampled = values.len();
    let mut counts: HashMap<Box<[u8]>, (u64, Value)> = HashMap::default();
    let mut found = 0_u64;
    for value in values.into_iter().filter(|value| *value != Value::Null) {
        let key = key_of(table, column, &value)?;
        counts.entry(key).or_insert((0, value)).0 += 1;
        found += 1;
    }
    let mut counts: Vec<(Box<[u8]>, u64, Value)> =
        counts.into_iter().map(|(key, (count, value))| (key, count, value)).collect();
    counts.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let all = sampled.max(1) as f64;
    let once = counts.iter().filter(|(_, count, _)| *count == 1).count() as u64;
    let not_null = rows * found as f64 / all;
    let distinct = distinct_of_all(counts.len() as u64, once, found, not_null);
    let most = asked.map_or(BUCKETS, usize::from).clamp(1, BUCKETS_MAX);
    // Values that the sample has not seen are between those it has seen.
    let scale = distinct / (counts.len() as f64).max(1.0);
    let mut buckets: Vec<Bucket> = Vec::with_capacity(most.min(counts.len()));
    let (mut before, mut in_bucket) = (0_u64, 0_u64);
    let singletons = counts.len() <= most;
    // Half of the buckets are for values in between those that fill one.
    let each = (2 * found).div_ceil(most as u64).max(1);
    for (at, (_, count, value)) in counts.iter().enumerate() {
        let heavy = |count: u64| count >= each;
        // A frequent value has a bucket of its own, where there are buckets left.
        let starts = at == 0
            || singletons
            || buckets.len() < most
                && (in_bucket >= each || heavy(*count) || heavy(counts[at - 1].1));
        if starts {
            let (low, high) = (value.clone(), value.clone());
            buckets.push(Bucket { low, high, up_to: 0.0, distinct: 0.0 });
            in_bucket = 0;
        }
        before += count;
        in_bucket += count;
        let bucket = buckets.last_mut()?;
        bucket.high = value.clone();
        bucket.up_to = before as f64 / all;
        bucket.distinct += if *count == 1 && !singletons { scale } else { 1.0 };
    }
    let nulls = 1.0 - found as f64 / all;
    Some(ColumnValues { column, nulls: nulls.max(0.0), distinct, buckets, asked })
}

/// A value of a sample: long texts and bytes are cut, which still sort as they did.
pub(crate) fn cut(value: Value, column: &Column) -> Value {
    match value {
        Value::Bytes(bytes)
            if bytes.len() > TEXT_MAX && column.column_type.variable_max().is_some() =>
        {
            // Not within a character.
            let end = (0..=TEXT_MAX).rev().find(|at| bytes[*at] & 0xC0 != 0x80).unwrap_or(0);
            Value::Bytes(bytes[..end].into())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
