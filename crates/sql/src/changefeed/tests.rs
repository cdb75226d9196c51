//! Texts of changes, and conditions.

use std::rc::Rc;
use std::sync::Arc;

use model::{Epoch, Table};
use sql_parser::SqlMode;
use sql_parser::ast::{CreateChangefeed, Expr, Statement};
use sqltype::temporal::{DateTime, Time};
use sqltype::{Datum, Decimal};

use super::Form;
use super::format::{Format, UNAVAILABLE, csv_head, csv_line};
use super::reader::{Change, Known, Operation, context};
use crate::binlog::table::Held;
use crate::catalog::harness::Harness;

fn table(text: &str) -> Arc<Table> {
    let mut harness = Harness::new();
    harness.ok(text);
    harness.table("d.t")
}

fn condition(text: &str) -> Expr {
    sql_parser::parse_expression(text.as_bytes(), SqlMode::default()).expect("an expression")
}

fn change(known: Known, operation: Operation, rows: [Option<Vec<Held>>; 2]) -> Change {
    let [before, after] = rows;
    let (epoch, number, at) = (Epoch(4711), 3, 1_700_000_000_123_456);
    Change { epoch, number, operation, at, known: Rc::new(known), before, after }
}

fn held(values: Vec<Datum>) -> Vec<Held> {
    values.into_iter().map(Held::Value).collect()
}

#[test]
fn a_change_has_the_envelope_of_debezium() {
    let table = table("CREATE TABLE t (id INT PRIMARY KEY, `a\"b` VARCHAR(9))");
    let known = Known::of(&table, None).expect("it is read");
    let before = held(vec![Datum::Int(1), Datum::Null]);
    let after = held(vec![Datum::Int(1), Datum::text("x\n\"")]);
    let text =
        Format::Json.text("f", &change(known, Operation::Update, [Some(before), Some(after)]));
    let expected = format!(
        "{{\"before\":{{\"id\":1,\"a\\\"b\":null}},\"after\":{{\"id\":1,\"a\\\"b\":\"x\\n\\\"\"}},\
         \"source\":{{\"version\":\"{}\",\"connector\":\"nines\",\"name\":\"f\",\
         \"ts_ms\":1700000000123,\"snapshot\":\"false\",\"db\":\"d\",\"table\":\"t\",\
         \"epoch\":4711,\"number\":3,\"position\":\"4711.3\"}},\"op\":\"u\",\
         \"ts_ms\":1700000000123}}",
        crate::VERSION
    );
    assert_eq!(text, expected);
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
}

#[test]
fn values_of_each_type_are_json() {
    let table = table(
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, z INT(5) ZEROFILL, d DECIMAL(20,2), \
         f DOUBLE, b BIT(13), y YEAR, ts TIMESTAMP(6) NULL, dt DATETIME(6), t TIME(6), \
         e ENUM('a','b'), s SET('x','y'), bn BINARY(2), j JSON, x LONGTEXT)",
    );
    let known = Known::of(&table, None).expect("it is read");
    let moment = DateTime::from_unix_micros(1_700_000_000_123_456);
    let after = vec![
        Datum::UInt(u64::MAX),
        Datum::UInt(42),
        Datum::Decimal(Decimal::parse(b"-12345678901234567.89").expect("a number")),
        Datum::Double(-2.25e100),
        Datum::UInt(0b1_0101_0101_0101),
        Datum::Int(2024),
        Datum::DateTime(moment),
        Datum::DateTime(moment),
        Datum::Time(Time::new(true, 1, 2, 3, 500_000).expect("a time")),
        Datum::text("b"),
        Datum::text("x,y"),
        Datum::Bytes([0, 255].into()),
        Datum::Json(b"{\"a\": 1}"[..].into()),
    ];
    let mut after = held(after);
    after.push(Held::Absent);
    let text = Format::Json.text("f", &change(known, Operation::Create, [None, Some(after)]));
    let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(read["before"], serde_json::Value::Null);
    let expected = format!(
        "{{\"id\":18446744073709551615,\"z\":42,\"d\":\"-12345678901234567.89\",\"f\":-2.25e100,\
         \"b\":5461,\"y\":2024,\"ts\":\"2023-11-14T22:13:20.123456Z\",\
         \"dt\":\"2023-11-14 22:13:20.123456\",\"t\":\"-01:02:03.500000\",\"e\":\"b\",\
         \"s\":\"x,y\",\"bn\":\"AP8=\",\"j\":\"{{\\\"a\\\": 1}}\",\"x\":\"{UNAVAILABLE}\"}}"
    );
    assert!(text.contains(&format!("\"after\":{expected}")), "{text}");
}

#[test]
fn null_and_an_empty_text_differ_as_csv() {
    let table = table("CREATE TABLE t (id INT PRIMARY KEY, `a,b` TEXT, c TEXT, d TEXT, e TEXT)");
    let known = Known::of(&table, None).expect("it is read");
    let head = csv_head(&known);
    assert_eq!(head, "position,op,ts_ms,id,\"a,b\",c,d,e");
    let row = held(vec![
        Datum::Int(1),
        Datum::Null,
        Datum::text(""),
        Datum::text("a \"b\",\nc"),
        Datum::text("plain"),
    ]);
    let line = csv_line(&change(known, Operation::Delete, [Some(row), None]));
    assert_eq!(line, "4711.3,d,1700000000123,1,,\"\",\"a \"\"b\"\",\nc\",plain");
}

#[test]
fn a_condition_is_over_the_columns_of_its_table() {
    let table = table("CREATE TABLE t (id INT PRIMARY KEY, n INT, name VARCHAR(9), x TEXT)");
    let row = |n, name: &str| held(vec![Datum::Int(1), n, Datum::text(name), Datum::text("")]);
    let known =
        Known::of(&table, Some(&condition("n > 5 AND name LIKE 'A%'"))).expect("it is read");
    for (row, expected) in [
        (row(Datum::Int(6), "abc"), true),
        (row(Datum::Int(5), "abc"), false),
        (row(Datum::Int(6), "x"), false),
        (row(Datum::Null, "abc"), false),
    ] {
        assert_eq!(known.admits(&row, &mut context()).ok(), Some(expected), "{row:?}");
    }
    for wrong in ["nobody = 1", "x = 'a'", "n = RAND()", "n = (SELECT 1)", "n = @v", "SUM(n) > 1"] {
        assert!(Known::of(&table, Some(&condition(wrong))).is_err(), "{wrong}");
    }
}

#[test]
fn a_feed_is_what_its_statement_says() {
    let of = |rest: &str| {
        let text = format!("CREATE CHANGEFEED f FOR TABLE d.t {rest}");
        let Ok(Statement::CreateChangefeed(create)) =
            sql_parser::parse(text.as_bytes(), SqlMode::default())
        else {
            panic!("{text} is not read")
        };
        let create: CreateChangefeed = *create;
        Form::of(&create)
    };
    let plain = of("INTO 'sql'").expect("it can be made");
    assert_eq!(plain, Form { directory: None, format: Format::Json, has_snapshot: true });
    let files = of("INTO 'file:///a/b/' WITH (format = 'CSV', snapshot = 'none')");
    let expected =
        Form { directory: Some("/a/b".to_owned()), format: Format::Csv, has_snapshot: false };
    assert_eq!(files.expect("it can be made"), expected);
    for wrong in [
        "INTO 'kafka://h'",
        "INTO 'file://a'",
        "INTO 'sql' WITH format = 'xml'",
        "INTO 'sql' WITH snapshot = 'later'",
        "INTO 'sql' WITH other = 1",
        ", d.u INTO 'sql' WITH format = 'csv'",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}
