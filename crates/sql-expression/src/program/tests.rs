//! How much a program takes in.

use std::sync::Arc;

use sqltype::SqlType;

use super::*;
use crate::binder::Binder;
use crate::expression::ColumnName;
use crate::result_type::ResultType;
use crate::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use crate::testing::{World, parse};

/// Conditions over a table of two columns `a` and `b`, as far as a program takes them.
fn taken(sql_type: &SqlType, conditions: &[&str]) -> (Vec<bool>, Option<Program>) {
    let mut scope = Scope::new(None);
    let columns = ["a", "b"].map(|name| {
        let name = ColumnName { column: name.into(), ..Default::default() };
        ScopeColumn::new(Arc::new(name), ResultType::column(sql_type.clone(), true))
    });
    scope.add(ScopeTable { schema: None, name: "t".into(), columns: columns.into(), offset: 0 });
    let column = |at| ProgramColumn { column: ColumnId(at), sql_type: sql_type.clone() };
    let columns = [Some(column(0)), Some(column(1))];
    let context = World::new().context();
    let mut builder = ProgramBuilder::new(&columns, &context);
    let mut world = World::new();
    let mut take = |sql: &&str| {
        let bound = Binder::new(&scope, &mut world).bind(&parse(sql), Clause::Where).unwrap();
        builder.filter(&bound)
    };
    let taken = conditions.iter().map(&mut take).collect();
    (taken, builder.finish())
}

#[test]
fn a_condition_that_is_too_large_leaves_room_for_others() {
    let branch = |number: usize| format!("a = {number} AND b = {}", number + 1);
    let branches = |count: usize| (0..count).map(branch).collect::<Vec<_>>().join(" OR ");
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let (many, few) = (branches(2_000), branches(50));
    let (long, short) =
        (format!("a IN ({})", numbers(PARTS_MAX + 1)), format!("a IN ({})", numbers(1_000)));
    let conditions = [&*many, "b > 7", &long, &few, &short, "a < b"];
    let (taken, program) = taken(&SqlType::big_int(), &conditions);
    assert_eq!(taken, [false, true, false, true, true, true]);
    let program = program.unwrap();
    assert!(program.nodes.len() <= NODES_MAX && program.filter.len() == 4);
    let parts: usize = program.nodes.iter().map(Step::part_count).sum();
    assert!((1_000..PARTS_MAX).contains(&parts), "{parts}");
}

#[test]
fn extract_is_what_the_functions_of_dates_are() {
    let conditions = |parts: [&str; 3]| parts.map(|part| format!("{part} = 7"));
    let translated = |parts| {
        let conditions = conditions(parts);
        let (taken, program) =
            taken(&SqlType::new(TypeKind::Date, 10), &conditions.each_ref().map(String::as_str));
        (taken, program.unwrap().nodes)
    };
    let named = translated(["YEAR(a)", "MONTH(a)", "DAY(a)"]);
    let [year, month, day] = ["YEAR", "MONTH", "DAY"].map(|unit| format!("EXTRACT({unit} FROM a)"));
    assert_eq!(translated([&year, &month, &day]), named);
    assert_eq!(named.0, [true; 3]);
    let others = ["EXTRACT(WEEK FROM a)", "EXTRACT(QUARTER FROM a)", "EXTRACT(HOUR FROM a)"];
    assert_eq!(translated(others).0, [false; 3]);
}
