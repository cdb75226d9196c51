//! Evaluation with subqueries, outer rows, parameters and variables.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use sqltype::Datum;

use crate::binder::Binder;
use crate::context::SessionFacts;
use crate::error::SqlError;
use crate::expression::{Expression, Node, SubqueryId};
use crate::pauses::Pauses;
use crate::row_set::RowSet;
use crate::scope::{Clause, Scope};
use crate::sql_mode::SqlMode;
use crate::testing::{World, integer, parse, scope};

fn row(a: i64, b: Option<i64>) -> Vec<Datum> {
    let b = b.map_or(Datum::Null, Datum::Int);
    vec![Datum::Int(a), b, Datum::text("x"), Datum::Int(1)]
}

fn bind(world: &mut World, scope: &Scope<'_>, sql: &str) -> Expression {
    Binder::new(scope, world).bind(&parse(sql), Clause::Where).unwrap()
}

fn integers(values: &[Option<i64>]) -> RowSet {
    let value = |value: &Option<i64>| vec![value.map_or(Datum::Null, Datum::Int)];
    RowSet::new(values.iter().map(value).collect())
}

#[test]
fn subqueries_compare_with_their_rows() {
    let scope = scope();
    let few = [Some(1), Some(2), Some(3)];
    let with_null = [Some(1), None, Some(3)];
    let many: Vec<Option<i64>> = (0..100).map(|n| Some(n * 2)).collect();
    let many_with_null: Vec<Option<i64>> = many.iter().copied().chain([None]).collect();
    type Case<'a> = (&'a str, i64, &'a [Option<i64>], Option<bool>);
    let table: [Case<'_>; 19] = [
        ("a IN (SELECT 1)", 2, &few, Some(true)),
        ("a IN (SELECT 1)", 5, &few, Some(false)),
        ("a IN (SELECT 1)", 5, &with_null, None),
        ("a IN (SELECT 1)", 3, &with_null, Some(true)),
        ("a NOT IN (SELECT 1)", 5, &few, Some(true)),
        ("a NOT IN (SELECT 1)", 5, &with_null, None),
        ("a IN (SELECT 1)", 5, &[], Some(false)),
        ("a IN (SELECT 1)", 42, &many, Some(true)),
        ("a IN (SELECT 1)", 43, &many, Some(false)),
        ("a IN (SELECT 1)", 43, &many_with_null, None),
        ("a NOT IN (SELECT 1)", 42, &many_with_null, Some(false)),
        ("a NOT IN (SELECT 1)", 43, &many, Some(true)),
        ("a > ALL (SELECT 1)", 4, &few, Some(true)),
        ("a > ALL (SELECT 1)", 3, &few, Some(false)),
        ("a > ALL (SELECT 1)", 4, &with_null, None),
        ("a > ANY (SELECT 1)", 2, &few, Some(true)),
        ("a > ALL (SELECT 1)", 4, &[], Some(true)),
        ("EXISTS (SELECT 1)", 0, &few, Some(true)),
        ("NOT EXISTS (SELECT 1)", 0, &[], Some(true)),
    ];
    for (sql, a, rows, expected) in table {
        let mut world = World::new();
        let bound = bind(&mut world, &scope, sql);
        let mut context = world.context();
        context.set_subquery(SubqueryId(1), integers(rows));
        let truth = bound.truth(&row(a, None), &mut context).unwrap();
        assert_eq!(truth, expected, "{sql} with {a}");
    }
}

#[test]
fn a_subquery_as_a_value_has_one_row() {
    let scope = scope();
    let mut world = World::new();
    let bound = bind(&mut world, &scope, "(SELECT 1) + 1");
    assert!(bound.needs().subqueries);
    let mut context = world.context();
    assert_eq!(bound.eval(&[], &mut context).unwrap_err().code(), 1815);
    context.set_subquery(SubqueryId(1), integers(&[Some(4)]));
    assert_eq!(bound.eval(&[], &mut context).unwrap(), Datum::Int(5));
    context.set_subquery(SubqueryId(1), integers(&[]));
    assert_eq!(bound.eval(&[], &mut context).unwrap(), Datum::Null);
    context.set_subquery(SubqueryId(1), integers(&[Some(1), Some(2)]));
    assert_eq!(bound.eval(&[], &mut context).unwrap_err().code(), 1242);
}

#[test]
fn rows_compare_with_rows_of_subqueries() {
    let scope = scope();
    let rows =
        || RowSet::new(vec![vec![Datum::Int(1), Datum::Int(2)], vec![Datum::Int(3), Datum::Null]]);
    let table = [
        ("(a, b) IN (SELECT 1)", (1, Some(2)), Some(true)),
        ("(a, b) IN (SELECT 1)", (3, Some(2)), None),
        ("(a, b) IN (SELECT 1)", (4, Some(2)), Some(false)),
        ("(a, b) NOT IN (SELECT 1)", (4, Some(2)), Some(true)),
        ("(a, b) IN (SELECT 1)", (1, None), None),
    ];
    for (sql, (a, b), expected) in table {
        let mut world = World::new();
        world.subquery_columns = vec![integer(), integer()];
        let bound = bind(&mut world, &scope, sql);
        let mut context = world.context();
        context.set_subquery(SubqueryId(1), rows());
        assert_eq!(bound.truth(&row(a, b), &mut context).unwrap(), expected, "{sql} {a} {b:?}");
    }
    let mut world = World::new();
    world.subquery_columns = vec![integer(), integer()];
    let bound = bind(&mut world, &scope, "(a, b) < (SELECT 1)");
    let mut context = world.context();
    context.set_subquery(SubqueryId(1), RowSet::new(vec![vec![Datum::Int(1), Datum::Int(5)]]));
    assert_eq!(bound.truth(&row(1, Some(4)), &mut context).unwrap(), Some(true));
    assert_eq!(bound.truth(&row(2, Some(4)), &mut context).unwrap(), Some(false));
    context.set_subquery(SubqueryId(1), RowSet::new(Vec::new()));
    assert_eq!(bound.truth(&row(1, Some(4)), &mut context).unwrap(), None);
}

#[test]
fn columns_of_enclosing_queries() {
    let outer = scope();
    let inner = Scope::new(Some(&outer));
    let mut world = World::new();
    let bound = bind(&mut world, &inner, "a + b");
    assert!(matches!(&bound.node, Node::Arithmetic(both)
        if matches!(both.left.node, Node::Outer { depth: 1, index: 0, .. })));
    let mut context = world.context();
    context.push_outer(row(2, Some(3)));
    assert_eq!(bound.eval(&[], &mut context).unwrap(), Datum::Int(5));
    context.pop_outer();
    assert_eq!(bound.eval(&[], &mut context).unwrap_err().code(), 1815);
}

#[test]
fn values_that_are_given_from_outside() {
    let scope = scope();
    let mut world = World::new();
    let mut binder = Binder::new(&scope, &mut world);
    binder.updating_duplicates = true;
    let sum = binder.bind(&parse("a + VALUES(b) + ?"), Clause::FieldList).unwrap();
    let sleep = binder.bind(&parse("SLEEP(1)"), Clause::FieldList).unwrap();
    let mut context = world.context();
    context.inserted = row(0, Some(10));
    context.parameters = vec![Datum::Int(100)];
    assert_eq!(sum.eval(&row(1, None), &mut context).unwrap(), Datum::Double(111.0));
    assert!(sleep.needs().deferred);
    let Node::Deferred(deferred) = &sleep.node else { panic!("a function that waits") };
    context.set_deferred(deferred.slot, Datum::Int(0));
    assert_eq!(sleep.eval(&[], &mut context).unwrap(), Datum::Int(0));
}

#[test]
fn variables_remember() {
    let scope = scope();
    let mut world = World::new();
    let assign = bind(&mut world, &scope, "@V := a + 1");
    let read = bind(&mut world, &scope, "@v");
    let mut context = world.context();
    assert_eq!(read.eval(&[], &mut context).unwrap(), Datum::Null);
    assign.eval(&row(4, None), &mut context).unwrap();
    assert_eq!(read.eval(&[], &mut context).unwrap(), Datum::Int(5));
}

#[test]
fn strictness_makes_errors_of_warnings() {
    let scope = scope();
    for (sql, code) in [("1 / (a - a)", 1365), ("s + 1", 1292)] {
        let mut world = World::new();
        let bound = bind(&mut world, &scope, sql);
        let mut context = world.context();
        bound.eval(&row(1, None), &mut context).unwrap();
        assert_eq!(context.warnings.entries[0].1.code(), code);
        context.strict = true;
        assert_eq!(bound.eval(&row(1, None), &mut context).unwrap_err().code(), code);
    }
    let mut world = World::new();
    let mode = SqlMode::DEFAULT.without(SqlMode::ERROR_FOR_DIVISION_BY_ZERO);
    world.settings.facts = Arc::new(SessionFacts { sql_mode: mode, ..SessionFacts::new() });
    let bound = bind(&mut world, &scope, "1 / (a - a)");
    let mut context = world.context();
    context.strict = true;
    assert_eq!(bound.eval(&row(1, None), &mut context).unwrap(), Datum::Null);
    assert_eq!(context.warnings.count, 0);
}

#[test]
fn rand_with_a_seed_goes_on() {
    let scope = scope();
    let mut world = World::new();
    let bound = bind(&mut world, &scope, "RAND(3)");
    let mut context = world.context();
    let mut next = || match bound.eval(&[], &mut context).unwrap() {
        Datum::Double(value) => value,
        other => panic!("{other:?}"),
    };
    // What MySQL gives for three rows.
    assert_eq!(
        [next(), next(), next()].map(|v| (v * 1e9).round() / 1e9),
        [0.905_769_756, 0.373_079_058, 0.148_086_053]
    );
}

/// Looks that some work makes, by pauses that count them.
fn looks(world: &mut World, work: impl FnOnce(&mut World)) -> u64 {
    let looks = Rc::new(Cell::new(0));
    let counted = looks.clone();
    world.settings.pauses = Pauses::new(Rc::new(move || {
        counted.set(counted.get() + 1);
        Ok(())
    }));
    work(world);
    looks.get()
}

#[test]
fn a_constant_list_is_searched_and_not_looked_through() {
    let scope = scope();
    let values = |count: i64| (0..count).map(|n| (n * 2).to_string()).collect::<Vec<_>>().join(",");
    let evaluated = |count: i64, more: &str| {
        let mut world = World::new();
        let bound = bind(&mut world, &scope, &format!("a IN ({}{more})", values(count)));
        looks(&mut world, |world| {
            let mut context = world.context();
            context.pauses = world.settings.pauses.clone();
            for n in 0..5_000 {
                let truth = bound.truth(&row(n, None), &mut context).unwrap();
                let is_in = n % 2 == 0 && n < count * 2;
                let unknown = more.contains("NULL").then_some(()).map_or(Some(false), |()| None);
                assert_eq!(truth, if is_in { Some(true) } else { unknown }, "{n} of {count}");
            }
        })
    };
    for more in ["", ",NULL"] {
        let (short, long) = (evaluated(100, more), evaluated(2_000, more));
        // Each element is looked at once, with looks at the time, and never again.
        let once = 2_000 * 9 / 512;
        let more = long - short;
        assert!(
            (once - 10..=once + 1).contains(&more),
            "{short} for 100 elements, {long} for 2000"
        );
    }
    // Elements that compare in another way are looked at one by one.
    assert!(evaluated(2_000, ",7.5") > 1_000);
}

#[test]
fn long_expressions_look_at_the_time_while_they_are_bound_and_evaluated() {
    let scope = scope();
    let sql = vec!["a > 0"; 10_000].join(" AND ");
    let mut world = World::new();
    let mut bound = None;
    let binding = looks(&mut world, |world| bound = Some(bind(world, &scope, &sql)));
    let bound = bound.unwrap();
    let evaluating = looks(&mut world, |world| {
        let mut context = world.context();
        context.pauses = world.settings.pauses.clone();
        bound.truth(&row(1, None), &mut context).unwrap();
    });
    assert!(binding >= 500 && evaluating >= 15, "{binding} and {evaluating} looks");
    // What a look says ends the work.
    let killed = || SqlError::new(1317, "70100", "Query execution was interrupted");
    world.settings.pauses = Pauses::new(Rc::new(move || Err(killed())));
    let mut context = world.context();
    context.pauses = world.settings.pauses.clone();
    assert_eq!(bound.truth(&row(1, None), &mut context).unwrap_err().code(), 1317);
    let error = Binder::new(&scope, &mut world).bind(&parse(&sql), Clause::Where).unwrap_err();
    assert_eq!(error.code(), 1317);
}
