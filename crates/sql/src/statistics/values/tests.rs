//! Histograms of samples, and the shares of rows that they tell.

use super::*;
use crate::catalog::harness::Harness;

fn table() -> std::sync::Arc<Table> {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id INT PRIMARY KEY, v INT, c VARCHAR(200))");
    harness.table("d.t")
}

/// What is known of `v`, if these are all values of a table of so many rows.
fn known(values: Vec<Value>, rows: u64, asked: Option<u16>) -> (KnownValues, ColumnId) {
    let table = table();
    let column = ColumnId(1);
    let sampled = values.len() as u64;
    let of = of_sample(&table, column, values, rows as f64, asked).expect("integers have keys");
    let values = TableValues { made_at: 1, rows, sampled, columns: vec![of], prefixes: Vec::new() };
    (KnownValues::new(values, &table), column)
}

fn key(number: i64) -> Box<[u8]> {
    key_of(&table(), ColumnId(1), &Value::Int(number)).expect("it fits")
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("something is known");
    assert!((found - expected).abs() < 0.02, "{found} instead of {expected}");
}

#[test]
fn shares_of_even_values_are_those_of_their_range() {
    let (known, column) = known((0..10_000).map(Value::Int).collect(), 10_000, None);
    let of = known.column(column).expect("it was sampled");
    assert_eq!((of.nulls, of.distinct), (0.0, 10_000.0));
    assert!(of.buckets.len() <= BUCKETS, "{} buckets", of.buckets.len());
    near(known.below(column, &key(2_500), false), 0.25);
    near(known.below(column, &key(-7), true), 0.0);
    near(known.below(column, &key(20_000), true), 1.0);
    near(known.equal_to(column, &key(17)), 0.0001);
}

#[test]
fn frequent_values_and_null_are_told_from_others() {
    // Three quarters are 7, a tenth is NULL, the rest is spread.
    let value = |at: i64| match at % 100 {
        0..=74 => Value::Int(7),
        75..=84 => Value::Null,
        _ => Value::Int(1_000 + at),
    };
    let (known, column) = known((0..10_000).map(value).collect(), 10_000, None);
    near(known.equal_to(column, &key(7)), 0.75);
    near(known.equal_to(column, &key(8)), 0.0);
    near(known.below(column, &key(900), true), 0.75);
    near(known.column(column).map(|of| of.nulls), 0.1);
    near(known.below(column, &key(i64::from(i32::MAX)), true), 0.9);
}

#[test]
fn few_values_have_a_bucket_each() {
    let (known, column) = known((0..1_000).map(|at| Value::Int(at % 5)).collect(), 1_000, Some(8));
    let of = known.column(column).expect("it was sampled");
    assert_eq!((of.buckets.len(), of.distinct, of.asked), (5, 5.0, Some(8)));
    assert!(of.buckets.iter().all(|bucket| bucket.low == bucket.high && bucket.distinct == 1.0));
    near(known.equal_to(column, &key(3)), 0.2);
    near(known.below(column, &key(3), false), 0.6);
}

#[test]
fn the_number_of_values_is_that_of_all_rows() {
    // Each value once among the sampled rows: each row has its own.
    assert_eq!(distinct_of_all(1_000, 1_000, 1_000, 100_000.0), 100_000.0);
    // Each many times: there are no others.
    assert_eq!(distinct_of_all(10, 0, 1_000, 100_000.0), 10.0);
    // All rows were looked at.
    assert_eq!(distinct_of_all(700, 500, 1_000, 1_000.0), 700.0);
    assert_eq!(distinct_of_all(0, 0, 0, 1_000.0), 0.0);
}

#[test]
fn nothing_is_kept_of_columns_that_have_changed() {
    let table = table();
    let values = (0..100).map(|at| Value::text(&format!("text {at}"))).collect();
    let of = of_sample(&table, ColumnId(2), values, 100.0, None).expect("texts have keys");
    let column = ColumnValues { column: ColumnId(1), ..of };
    let values = TableValues {
        made_at: 1,
        rows: 100,
        sampled: 100,
        columns: vec![column],
        prefixes: Vec::new(),
    };
    let known = KnownValues::new(values, &table);
    assert!(known.column(ColumnId(1)).is_none(), "texts are no values of a number");
}

#[test]
fn long_texts_are_cut_between_characters() {
    let table = table();
    let long = Value::text(&"é".repeat(100));
    let Value::Bytes(bytes) = cut(long, &table.columns[2]) else { panic!("a text stays one") };
    assert!(bytes.len() <= TEXT_MAX);
    assert!(std::str::from_utf8(&bytes).is_ok());
}
