//! Aggregates over rows, whole and merged.

use std::sync::Arc;

use sqltype::{Datum, SqlType, text};

use super::*;
use crate::binder::Binder;
use crate::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use crate::testing::{World, parse};

/// `t (i INT, d DECIMAL(10,2), f DOUBLE, s VARCHAR)` with five rows.
fn table() -> (Scope<'static>, Vec<Vec<Datum>>) {
    let types = [
        ("i", SqlType::new(TypeKind::Int, 11)),
        ("d", SqlType::decimal(10, 2)),
        ("f", SqlType::double()),
        ("s", SqlType::text(10)),
    ];
    let columns = types.map(|(name, sql_type)| {
        let name = crate::expression::ColumnName { column: name.into(), ..Default::default() };
        ScopeColumn::new(Arc::new(name), ResultType::column(sql_type, true))
    });
    let mut scope = Scope::new(None);
    let columns = columns.into();
    scope.add(ScopeTable { schema: None, name: "t".into(), columns, offset: 0 });
    let decimal = |digits: &str| Datum::Decimal(Decimal::parse(digits.as_bytes()).unwrap());
    let row = |i: i64, d: &str, f: f64, s: &str| {
        vec![Datum::Int(i), decimal(d), Datum::Double(f), Datum::text(s)]
    };
    let rows = vec![
        row(3, "1.10", 1.0, "b"),
        row(1, "2.20", 2.0, "a"),
        row(2, "2.20", 4.0, "B"),
        vec![Datum::Null; 4],
        row(1, "0.01", 1.0, "c"),
    ];
    (scope, rows)
}

/// A state that was written and read again.
fn kept(call: &AggregateCall, state: Accumulator) -> Accumulator {
    let mut values = vec![Datum::Null];
    state.write(&mut values);
    values.push(Datum::text("behind it"));
    let mut values = values.into_iter();
    values.next();
    let (state, _) = Accumulator::read(call, &mut values).unwrap();
    assert_eq!(values.as_slice(), [Datum::text("behind it")]);
    state
}

/// The aggregate over the rows, computed at once and from two halves that were kept elsewhere; both
/// must agree.
fn aggregate(sql: &str, count: usize) -> String {
    let (scope, rows) = table();
    let mut world = World::new();
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    if let Err(error) = binder.bind(&parse(sql), Clause::FieldList) {
        return format!("{} {}", error.code(), error.message());
    }
    let call = scope.take_aggregates().remove(0);
    let mut context = world.context();
    let mut whole = Accumulator::new(&call);
    let (mut first, mut second) = (Accumulator::new(&call), Accumulator::new(&call));
    for (at, row) in rows.iter().take(count).enumerate() {
        whole.update(&call, row, &mut context).unwrap();
        let half = if at < 2 { &mut first } else { &mut second };
        half.update(&call, row, &mut context).unwrap();
    }
    let (mut first, second) = (kept(&call, first), kept(&call, second));
    first.merge(second, &call, &mut context).unwrap();
    let shown = |result: Result<Datum, SqlError>| match result {
        Ok(value) => match text(&value, &call.result.sql_type) {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => "NULL".to_owned(),
        },
        Err(error) => format!("{} {}", error.code(), error.message()),
    };
    let whole = shown(whole.finish(&call, &mut context));
    assert_eq!(whole, shown(first.finish(&call, &mut context)), "{sql}");
    whole
}

#[test]
fn aggregates_over_rows() {
    for (sql, all, none) in [
        ("COUNT(*)", "5", "0"),
        ("COUNT(i)", "4", "0"),
        ("COUNT(DISTINCT i)", "3", "0"),
        ("COUNT(DISTINCT i, s)", "4", "0"),
        ("COUNT(DISTINCT s)", "3", "0"),
        ("SUM(i)", "7", "NULL"),
        ("SUM(DISTINCT i)", "6", "NULL"),
        ("SUM(d)", "5.51", "NULL"),
        ("SUM(f)", "8", "NULL"),
        ("SUM(s)", "0", "NULL"),
        ("AVG(i)", "1.7500", "NULL"),
        ("AVG(d)", "1.377500", "NULL"),
        ("AVG(DISTINCT d)", "1.103333", "NULL"),
        ("AVG(f)", "2", "NULL"),
        ("MIN(i)", "1", "NULL"),
        ("MAX(i)", "3", "NULL"),
        ("MIN(s)", "a", "NULL"),
        ("MAX(d)", "2.20", "NULL"),
        ("BIT_AND(i)", "0", "18446744073709551615"),
        ("BIT_OR(i)", "3", "0"),
        ("BIT_XOR(i)", "1", "0"),
        ("BIT_AND(CAST(s AS BINARY(1)))", "@", "\u{FFFD}"),
        ("BIT_OR(CAST(s AS BINARY(1)))", "c", "\0"),
        ("BIT_XOR(CAST(s AS BINARY(1)))", "\"", "\0"),
        ("VAR_POP(f)", "1.5", "NULL"),
        ("VARIANCE(f)", "1.5", "NULL"),
        ("VAR_SAMP(f)", "2", "NULL"),
        ("STDDEV(f)", "1.224744871391589", "NULL"),
        ("STDDEV_SAMP(f)", "1.4142135623730951", "NULL"),
        ("GROUP_CONCAT(s)", "b,a,B,c", "NULL"),
        ("GROUP_CONCAT(i ORDER BY i)", "1,1,2,3", "NULL"),
        ("GROUP_CONCAT(DISTINCT i ORDER BY i DESC SEPARATOR '-')", "3-2-1", "NULL"),
        ("GROUP_CONCAT(i, s ORDER BY s, i)", "1a,2B,3b,1c", "NULL"),
        ("GROUP_CONCAT(d SEPARATOR '')", "1.102.202.200.01", "NULL"),
        ("JSON_ARRAYAGG(i)", "[3, 1, 2, null, 1]", "NULL"),
        ("JSON_ARRAYAGG(d)", "[1.10, 2.20, 2.20, null, 0.01]", "NULL"),
        ("JSON_ARRAYAGG(f)", "[1.0, 2.0, 4.0, null, 1.0]", "NULL"),
        (
            "JSON_OBJECTAGG(IFNULL(s, 'z'), i)",
            "{\"B\": 2, \"a\": 1, \"b\": 3, \"c\": 1, \"z\": null}",
            "NULL",
        ),
    ] {
        assert_eq!(aggregate(sql, 5), all, "{sql}");
        assert_eq!(aggregate(sql, 0), none, "{sql} of nothing");
    }
    assert_eq!(aggregate("VAR_SAMP(f)", 1), "NULL");
    assert_eq!(aggregate("JSON_OBJECTAGG(s, i)", 2), "{\"a\": 1, \"b\": 3}");
}

#[test]
fn binary_strings_of_other_lengths_are_refused() {
    let (scope, rows) = table();
    let mut world = World::new();
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    let sql = "BIT_OR(CAST(CONCAT(s, IF(i = 3, 'x', '')) AS BINARY))";
    binder.bind(&parse(sql), Clause::FieldList).unwrap();
    let call = scope.take_aggregates().remove(0);
    let mut context = world.context();
    let mut first = Accumulator::new(&call);
    first.update(&call, &rows[0], &mut context).unwrap();
    assert_eq!(first.update(&call, &rows[1], &mut context).unwrap_err().code(), 3513);
    let mut second = Accumulator::new(&call);
    second.update(&call, &rows[1], &mut context).unwrap();
    assert_eq!(first.merge(second, &call, &mut context).unwrap_err().code(), 3513);
    let too_long = aggregate("BIT_AND(CAST(s AS BINARY(512)))", 0);
    assert!(too_long.starts_with("3514 "), "{too_long}");
    assert_eq!(aggregate("BIT_AND(CAST(s AS BINARY(511)))", 0).chars().count(), 511);
}

#[test]
fn group_concat_is_cut_with_a_warning() {
    let (scope, rows) = table();
    let mut world = World::new();
    world.settings.facts =
        Arc::new(SessionFacts { group_concat_max_len: 4, ..SessionFacts::new() });
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    binder.bind(&parse("GROUP_CONCAT(CONCAT(s, 'é'))"), Clause::FieldList).unwrap();
    let call = scope.take_aggregates().remove(0);
    let mut context = world.context();
    let mut accumulator = Accumulator::new(&call);
    for row in &rows {
        accumulator.update(&call, row, &mut context).unwrap();
    }
    let value = accumulator.finish(&call, &mut context).unwrap();
    assert_eq!(value, Datum::text("bé,"));
    let (_, warning) = &context.warnings.entries[0];
    assert_eq!(warning.message(), "Row 2 was cut by GROUP_CONCAT()");
}

#[test]
fn types_of_aggregates() {
    let (scope, _) = table();
    let mut world = World::new();
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    for (sql, expected) in [
        ("COUNT(i)", "bigint"),
        ("SUM(i)", "decimal(32,0)"),
        ("SUM(d)", "decimal(32,2)"),
        ("SUM(f)", "double"),
        ("AVG(i)", "decimal(14,4)"),
        ("AVG(d)", "decimal(14,6)"),
        ("AVG(s)", "double"),
        ("MAX(s)", "varchar(10)"),
        ("BIT_OR(i)", "bigint unsigned"),
        ("STD(i)", "double"),
        ("JSON_ARRAYAGG(i)", "json"),
    ] {
        let bound = binder.bind(&parse(sql), Clause::FieldList).unwrap();
        assert_eq!(bound.sql_type().sql_name(), expected, "{sql}");
    }
}
