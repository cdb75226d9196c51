//! What is translated for the kernel, and what is not.

use std::sync::Arc;

use sqltype::Decimal;

use super::*;
use crate::binder::Binder;
use crate::expression::ColumnName;
use crate::result_type::ResultType;
use crate::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use crate::testing::{World, parse};

fn columns() -> Vec<(&'static str, SqlType)> {
    let text = |collation: CollationId| SqlType { collation, ..SqlType::text(20) };
    let members = TypeKind::Enum(["x".into(), "y".into()].into());
    vec![
        ("i", SqlType::new(TypeKind::Int, 11)),
        ("u", SqlType { unsigned: true, ..SqlType::new(TypeKind::Int, 10) }),
        ("d", SqlType::decimal(10, 2)),
        ("f", SqlType::double()),
        ("s", text(CollationId::DEFAULT)),
        ("v", SqlType::binary(20)),
        ("dd", SqlType::new(TypeKind::Date, 0)),
        ("dt", SqlType::new(TypeKind::DateTime, 0)),
        ("e", SqlType { collation: CollationId::DEFAULT, ..SqlType::new(members, 0) }),
        ("ts", SqlType::new(TypeKind::Timestamp, 0)),
    ]
}

fn translated(sql: &str, target: Option<SqlType>) -> Option<KernelExpression> {
    let known = columns();
    let scope_columns = known.iter().map(|(name, sql_type)| {
        let name = ColumnName { column: (*name).into(), ..Default::default() };
        ScopeColumn::new(Arc::new(name), ResultType::column(sql_type.clone(), true))
    });
    let mut scope = Scope::new(None);
    let columns = scope_columns.collect();
    scope.add(ScopeTable { schema: None, name: "t".into(), columns, offset: 0 });
    let mut world = World::new();
    let bound = Binder::new(&scope, &mut world).bind(&parse(sql), Clause::Where).unwrap();
    let kernel: Vec<Option<KernelColumn>> = known
        .into_iter()
        .enumerate()
        .map(|(at, (_, sql_type))| Some(KernelColumn { column: ColumnId(at as u16), sql_type }))
        .collect();
    match target {
        Some(target) => to_kernel_value(&bound, &target, &kernel),
        None => to_kernel(&bound, &kernel, &mut 100),
    }
}

#[test]
fn what_the_kernel_evaluates_alike_is_translated() {
    for sql in [
        "i = 5",
        "5 < i",
        "i <> -1",
        "i = u",
        "i IN (1, 2, 3)",
        "i NOT IN (1, 2)",
        "i BETWEEN 1 AND 10",
        "i IS NULL",
        "i IS NOT NULL",
        "i <=> NULL",
        "i <=> 4",
        "NOT (i = 1 AND u > 2)",
        "i = 1 OR d > 1.5",
        "i = '5'",
        "d = 5",
        "f < 1.5e0",
        "v = BINARY 'abc'",
        "dd = '2024-01-31'",
        "dd BETWEEN '2024-01-01' AND '2024-01-31'",
        "dt < '2024-01-31'",
        "e = 'X'",
        "i",
    ] {
        assert!(translated(sql, None).is_some(), "{sql}");
    }
}

#[test]
fn what_might_differ_is_not_translated() {
    for sql in [
        "i + 1 = 2",
        "i = 1.5",
        "i = '5x'",
        "i = f",
        "d = 1.234",
        "d = f",
        "s = 'abc'",
        "s < 'abc'",
        "e > 'x'",
        "e = 'nothing'",
        "e = 1",
        "dd = '2024-01-31 10:00:00'",
        "dt = '2024-01-31 10:00:00.5'",
        "ts = '2024-01-31'",
        "ABS(i) = 1",
        "s",
        "i LIKE '1%'",
        "i IN (1, NULL)",
        "i = NULL",
    ] {
        assert!(translated(sql, None).is_none(), "{sql}");
    }
}

#[test]
fn constants_take_the_stored_form() {
    let KernelExpression::Compare(op, _, constant) = translated("1.5 >= d", None).unwrap() else {
        panic!("a comparison")
    };
    assert_eq!(op, KernelComparison::LessOrEqual);
    let expected = Decimal::parse(b"1.50").unwrap().encode(10, 2).unwrap();
    assert_eq!(*constant, KernelExpression::Constant(Value::Bytes(expected)));
}

#[test]
fn sums_for_columns() {
    let int = || SqlType::new(TypeKind::Int, 11);
    let unsigned = || SqlType { unsigned: true, ..SqlType::new(TypeKind::Int, 10) };
    let unsigned_big = SqlType::unsigned_big_int;
    for (sql, target, expected) in [
        ("i + 1", int(), true),
        ("i - u", int(), false),
        ("u - 1", unsigned(), true),
        ("u - 1", int(), false),
        ("i + 1", unsigned(), true),
        ("i + 1", unsigned_big(), false),
        ("i * 2 + 1", int(), false),
        ("i / 2", int(), false),
        ("d + 1", SqlType::decimal(10, 2), false),
        ("5", int(), true),
        ("i", int(), true),
        ("i + 1", SqlType::text(5), false),
    ] {
        assert_eq!(translated(sql, Some(target)).is_some(), expected, "{sql}");
    }
}

/// Each partition is sent a copy, and compares each row; the kernel goes no deeper than so far.
#[test]
fn what_is_long_or_high_is_not_translated() {
    let list = |count: usize| vec!["7"; count].join(",");
    assert!(translated(&format!("i IN ({})", list(99)), None).is_some());
    assert!(translated(&format!("i IN ({})", list(100)), None).is_none());
    let high =
        |levels: usize| format!("{}i = 1{}", "NOT (i = 2 OR ".repeat(levels), ")".repeat(levels));
    assert!(translated(&high(10), None).is_some());
    assert!(translated(&high(40), None).is_none());
}
