//! Ranges of an index, of rows that are not read by that index.
//!
//! An index gives rows in the order of its keys, and each lies anywhere: where a range has a good
//! part of a table, it takes less to read all rows as they lie and to leave out the others.
//!
//! # Owns
//! Whether a row is in a range, and which ranges are that wide.
//! # Guarantees
//! A row is in it exactly if the index would have it in its range, also when there is no such index
//! any more.

use std::ops::Bound;

use model::{ColumnId, ColumnType, IndexId, KeyEncoder, Table, ordered_word};
use store::ordered_index::KeyRange;
use store::partition::Partition;

use super::cursor::Range;
use super::keys::FETCH;

/// What it takes to read a row on and to find that it is in a range, in rows that are read on.
const CHECK: u64 = 2;

/// A range of keys over some columns.
#[derive(Debug, PartialEq)]
pub(in crate::participant) struct Within {
    columns: Vec<ColumnId>,
    range: KeyRange,
    /// Of a key that is at least as long no more is compared.
    longest: usize,
    /// The range as numbers, if only the first column decides, and is of numbers.
    numbers: Option<Numbers>,
}

/// A range of one column's keys, as [`ordered_word`] gives them: from the first to the last.
#[derive(Debug, PartialEq)]
struct Numbers {
    first: u128,
    last: u128,
}

impl Numbers {
    /// The range over the keys of a column; none if more than the column decides, or if it is not
    /// of numbers.
    fn of(table: &Table, column: ColumnId, range: &KeyRange) -> Option<Self> {
        let column = &table.columns[usize::from(column.0)];
        let is_number = matches!(
            column.column_type,
            ColumnType::Int(_) | ColumnType::UInt(_) | ColumnType::Float
        );
        let size = column.column_type.size_in_fixed_part() + usize::from(column.nullable);
        // The key of NULL is one byte: what is behind it is of the next column.
        let is_null = |key: &[u8]| column.nullable && key.first() == Some(&0);
        let decides = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => {
                key.len() <= if is_null(key) { 1 } else { size }
            }
            Bound::Unbounded => true,
        };
        if !is_number || !decides(&range.lower) || !decides(&range.upper) {
            return None;
        }
        // Keys that begin with a bound are those between it with zeros and with ones behind.
        let padded = |bound: &[u8], filler| {
            let mut bytes = [filler; 16];
            bytes[..bound.len()].copy_from_slice(bound);
            u128::from_be_bytes(bytes)
        };
        let empty = Self { first: 1, last: 0 };
        let first = match &range.lower {
            Bound::Unbounded => Some(0),
            Bound::Included(key) => Some(padded(key, 0)),
            Bound::Excluded(key) => padded(key, u8::MAX).checked_add(1),
        };
        let last = match &range.upper {
            Bound::Unbounded => Some(u128::MAX),
            Bound::Included(key) => Some(padded(key, u8::MAX)),
            Bound::Excluded(key) => padded(key, 0).checked_sub(1),
        };
        Some(first.zip(last).map_or(empty, |(first, last)| Self { first, last }))
    }

    #[inline]
    fn has(&self, table: &Table, column: ColumnId, row: &[u8]) -> bool {
        let definition = &table.columns[usize::from(column.0)];
        let value = table.value(row, column);
        let word = ordered_word(definition.column_type, definition.nullable, value);
        let word = word.expect("a stored row holds values that fit its columns");
        (self.first..=self.last).contains(&word)
    }
}

impl Within {
    /// The range of an index that the table has.
    pub(in crate::participant) fn new(table: &Table, index: IndexId, range: &KeyRange) -> Self {
        let index = table.ordered_index(index).expect("an index that is scanned");
        let (columns, range) = (index.columns.clone(), range.clone());
        let longest = range.longest_bound();
        let numbers = columns.first().and_then(|column| Numbers::of(table, *column, &range));
        Self { columns, range, longest, numbers }
    }

    /// Whether a row is in the range; `key` is memory for its key.
    pub(in crate::participant) fn has(
        &self,
        table: &Table,
        row: &[u8],
        key: &mut KeyEncoder,
    ) -> bool {
        if let (Some(numbers), Some(column)) = (&self.numbers, self.columns.first()) {
            return numbers.has(table, *column, row);
        }
        key.clear();
        for column in &self.columns {
            table.encode_row_key(std::slice::from_ref(column), row, key);
            if key.bytes().len() >= self.longest {
                break;
            }
        }
        self.range.contains(key.bytes())
    }
}

/// The range of a scan by index, if it has so many rows that they are better read as they lie.
pub(super) fn wide(partition: &Partition, range: &Range) -> Option<Within> {
    let Range::Index { index, range, .. } = range else { return None };
    let found = partition.entries_about(*index, range);
    (found * FETCH > partition.row_count() * CHECK)
        .then(|| Within::new(partition.table(), *index, range))
}

#[cfg(test)]
mod tests {
    use model::{Column, Value};

    use super::*;

    /// A table of this column and one more, with an index on both.
    fn table(column_type: ColumnType, nullable: bool) -> Table {
        let first = Column { nullable, ..testing::nullable("a", column_type) };
        testing::table("test.t")
            .columns([first])
            .column("b", testing::INT)
            .index("a", ["a", "b"])
            .build()
    }

    /// Values of a type, ends of its range and neighbours among them.
    fn values(column_type: ColumnType) -> Vec<Value> {
        match column_type {
            ColumnType::Int(width) => {
                let most = i64::MAX >> (64 - 8 * u32::from(width));
                let some = [-most - 1, -most, -257, -256, -1, 0, 1, 255, 256, most];
                let fits = |number: &i64| (-most - 1..=most).contains(number);
                some.into_iter().filter(fits).map(Value::Int).collect()
            }
            ColumnType::UInt(width) => {
                let most = u64::MAX >> (64 - 8 * u32::from(width));
                [0, 1, 254, 255, most - 1, most].map(Value::UInt).into()
            }
            _ => [f64::MIN, -1.5, -0.0, 0.0, 1e-300, 2.5, f64::MAX].map(Value::Float).into(),
        }
    }

    #[test]
    fn a_range_of_numbers_has_the_rows_whose_keys_it_has() {
        let ints = [1, 2, 4, 8].map(ColumnType::Int);
        let uints = [1, 2, 4, 8].map(ColumnType::UInt);
        for column_type in [&ints[..], &uints, &[ColumnType::Float]].concat() {
            for nullable in [false, true] {
                check(&table(column_type, nullable));
            }
        }
    }

    /// Compares all ranges with bounds on the first column, and on both.
    fn check(table: &Table) {
        let Column { column_type, nullable, .. } = table.columns[0];
        let mut values = values(column_type);
        values.extend(nullable.then_some(Value::Null));
        let encoded = |values: &[&Value]| {
            let mut key = KeyEncoder::new();
            for (value, column) in values.iter().zip(&table.columns) {
                key.push(column.column_type, column.nullable, value.as_ref()).expect("it fits");
            }
            key.bytes().to_vec()
        };
        let seconds = [-7, 100].map(Value::Int);
        let (mut rows, mut of_first, mut of_both) = (Vec::new(), vec![vec![], vec![1]], Vec::new());
        for value in &values {
            of_first.push(encoded(&[value]));
            for second in &seconds {
                let row = table.layouts[0].encode(&[value.as_ref(), second.as_ref()]);
                rows.push((row.expect("a row"), encoded(&[value, second])));
                of_both.push(encoded(&[value, second]));
            }
        }
        let bounds_of = |keys: Vec<Vec<u8>>| {
            let both = |key: Vec<u8>| [Bound::Included(key.clone()), Bound::Excluded(key)];
            keys.into_iter().flat_map(both).chain([Bound::Unbounded]).collect::<Vec<_>>()
        };
        let (of_first, of_both) = (bounds_of(of_first), bounds_of(of_both));
        let pairs = |lower: &[Bound<Vec<u8>>], upper: &[Bound<Vec<u8>>]| {
            let with = |lower: &Bound<Vec<u8>>| {
                let range = |upper: &Bound<Vec<u8>>| (lower.clone(), upper.clone());
                upper.iter().map(range).collect::<Vec<_>>()
            };
            lower.iter().flat_map(with).collect::<Vec<_>>()
        };
        let numbers = pairs(&of_first, &of_first).len();
        let others = [pairs(&of_first, &of_both), pairs(&of_both, &of_first)].concat();
        let all = pairs(&of_first, &of_first).into_iter().chain(others);
        for (at, (lower, upper)) in all.enumerate() {
            let range = KeyRange { lower, upper };
            let within = Within::new(table, IndexId(1), &range);
            assert!(at >= numbers || within.numbers.is_some(), "{range:?}");
            for (row, key) in &rows {
                let found = within.has(table, &row.0, &mut KeyEncoder::new());
                assert_eq!(found, range.contains(key), "{key:?} in {range:?}");
            }
        }
    }

    #[test]
    fn a_range_that_more_than_one_number_decides_is_compared_by_keys() {
        let long = KeyRange::prefix(&[1, 0, 0, 0, 0, 7]);
        let of = |column_type, range| Within::new(&table(column_type, true), IndexId(1), range);
        assert!(of(ColumnType::Int(4), &long).numbers.is_none());
        assert!(of(ColumnType::Variable(9), &KeyRange::prefix(&[1, 65])).numbers.is_none());
    }
}
