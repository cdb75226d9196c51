//! How much a program takes in.

use std::sync::Arc;

use sqltype::SqlType;

use super::*;
use crate::binder::Binder;
use crate::expression::ColumnName;
use crate::result_type::ResultType;
use crate::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use crate::testing::{World, parse};

/// Conditions over a table of two numbers, as far as a program takes them.
fn taken(conditions: &[&str]) -> (Vec<bool>, Option<Program>) {
    let mut scope = Scope::new(None);
    let columns = ["a", "b"].map(|name| {
        let name = ColumnName { column: name.into(), ..Default::default() };
        ScopeColumn::new(Arc::new(name), ResultType::column(SqlType::big_int(), true))
    });
    scope.add(ScopeTable { schema: None, name: "t".into(), columns: columns.into(), offset: 0 });
    let column = |at| ProgramColumn { column: ColumnId(at), sql_type: SqlType::big_int() };
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
    let (taken, program) = taken(&[&many, "b > 7", &long, &few, &short, "a < b"]);
    assert_eq!(taken, [false, true, false, true, true, true]);
    let program = program.unwrap();
    assert!(program.nodes.len() <= NODES_MAX && program.filter.len() == 4);
    let parts: usize = program.nodes.iter().map(Step::part_count).sum();
    assert!((1_000..PARTS_MAX).contains(&parts), "{parts}");
}
