//! Binding over the small world of `testing`.

use sqltype::{SqlType, TypeKind};

use super::*;
use crate::expression::ColumnName;
use crate::grouping::{Grouping, check_full_group_by};
use crate::scope::{Hosting, ScopeColumn, ScopeTable};
use crate::testing::{World, integer, parse, scope};

/// What an expression is bound to, or the error.
fn bound(sql: &str, clause: Clause) -> String {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    match binder.bind(&parse(sql), clause) {
        Ok(expression) => expression.to_string(),
        Err(error) => format!("{} {}", error.code(), error.message()),
    }
}

#[test]
fn expressions_are_typed_folded_and_simplified() {
    for (sql, expected) in [
        ("a + 1 * 2", "(`d`.`t`.`a` + 2)"),
        ("1 = 1 AND a > 2", "((`d`.`t`.`a` > 2))"),
        ("a > 2 AND 1 = 2", "0"),
        ("a > 2 OR 1 = 1", "1"),
        ("NOT a IN (1, 2)", "(`d`.`t`.`a` not in (1,2))"),
        ("NOT (NOT a)", "(not((not(`d`.`t`.`a`))))"),
        ("a = '5'", "(`d`.`t`.`a` = 5)"),
        ("a = '5x'", "(`d`.`t`.`a` = '5x')"),
        ("s = 5", "(`d`.`t`.`s` = 5)"),
        ("CONCAT('a', 'b', s)", "concat('a','b',`d`.`t`.`s`)"),
        ("UPPER('x')", "'X'"),
        ("1 / 0", "(1 / 0)"),
        ("a > 1 / 4", "(`d`.`t`.`a` > 0.2500)"),
        ("a LIKE 'x%' ESCAPE '!'", "(`d`.`t`.`a` like 'x%' escape '!')"),
        ("IF(a, 'y', 'n')", "(case when `d`.`t`.`a` then 'y' else 'n' end)"),
        ("a BETWEEN 1 AND '2'", "(`d`.`t`.`a` between 1 and 2)"),
        ("NOW() > a", "(now() > `d`.`t`.`a`)"),
        ("SLEEP(a)", "sleep(`d`.`t`.`a`)"),
    ] {
        assert_eq!(bound(sql, Clause::Where), expected, "{sql}");
    }
}

#[test]
fn what_mysql_refuses_is_refused() {
    for (sql, clause, expected) in [
        ("SUM(a)", Clause::Where, "1111 Invalid use of group function"),
        ("SUM(COUNT(a))", Clause::FieldList, "1111 Invalid use of group function"),
        ("x", Clause::On, "1054 Unknown column 'x' in 'on clause'"),
        ("x", Clause::OrderBy, "1054 Unknown column 'x' in 'order clause'"),
        ("nothing(1)", Clause::Where, "1305 FUNCTION d.nothing does not exist"),
        ("other.f(1)", Clause::Where, "1305 FUNCTION other.f does not exist"),
        ("(a, b)", Clause::Where, "1241 Operand should contain 1 column(s)"),
        ("a + (1, 2)", Clause::Where, "1241 Operand should contain 1 column(s)"),
        ("(a, b) = (1, 2, 3)", Clause::Where, "1241 Operand should contain 2 column(s)"),
        ("(a, b) IN (SELECT 1)", Clause::Where, "1241 Operand should contain 2 column(s)"),
        (
            "RANK() OVER ()",
            Clause::Where,
            "3593 You cannot use the window function 'rank' in this \
          context.'",
        ),
        ("RANK() OVER w", Clause::FieldList, "3579 Window name 'w' is not defined."),
        (
            "SLEEP()",
            Clause::Where,
            "1582 Incorrect parameter count in the call to native function \
          'sleep'",
        ),
        (
            "s COLLATE latin1_bin",
            Clause::Where,
            "1253 COLLATION 'latin1_bin' is not valid for \
          CHARACTER SET 'utf8mb4'",
        ),
    ] {
        assert_eq!(bound(sql, clause), expected, "{sql}");
    }
}

#[test]
fn equal_aggregates_share_a_place() {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    let mut bind = |sql: &str| binder.bind(&parse(sql), Clause::FieldList).unwrap();
    let mut sum = bind("SUM(a) + COUNT(*) + SUM(a)");
    bind("SUM(b)");
    assert_eq!(scope.take_aggregates().len(), 3);
    assert_eq!(sum.to_string(), "((<aggregate 0> + <aggregate 1>) + <aggregate 0>)");
    sum.place(4, 7);
    let mut columns = Vec::new();
    sum.for_each_column(&mut |index| columns.push(index));
    assert_eq!(columns, [4, 5, 4]);
}

#[test]
fn aggregates_belong_to_the_block_of_their_columns() {
    for (hosting, clause, sql, expected) in [
        (Hosting::Allowed, Clause::FieldList, "SUM(a)", (1, 0, None)),
        (Hosting::Allowed, Clause::Where, "SUM(a)", (1, 0, None)),
        (Hosting::Allowed, Clause::FieldList, "COUNT(*)", (0, 1, None)),
        // Where none of its own can be, the nearest block that can have it does.
        (Hosting::Allowed, Clause::Where, "COUNT(*)", (1, 0, None)),
        (Hosting::Never, Clause::FieldList, "SUM(a)", (0, 1, None)),
        (Hosting::Never, Clause::Where, "SUM(a)", (0, 0, Some(1111))),
        (Hosting::Nested, Clause::FieldList, "SUM(a)", (0, 0, Some(1111))),
        (Hosting::Allowed, Clause::FieldList, "SUM(1 + SUM(a))", (1, 1, None)),
        (Hosting::Allowed, Clause::FieldList, "SUM(b + SUM(a))", (1, 0, Some(1111))),
        (Hosting::Allowed, Clause::FieldList, "SUM(a + (SELECT 1))", (0, 0, Some(1235))),
    ] {
        let (mut world, outer) = (World::new(), scope());
        world.subquery_columns = vec![integer()];
        outer.host(hosting);
        let inner = Scope::new(Some(&outer));
        let mut binder = Binder::new(&inner, &mut world);
        binder.is_block = true;
        let error = binder.bind(&parse(sql), clause).err().map(|error| error.code());
        let found = (outer.take_aggregates().len(), inner.take_aggregates().len(), error);
        assert_eq!(found, expected, "{sql}");
    }
}

#[test]
fn aggregates_of_aggregates_are_refused() {
    let mut outer = Scope::new(None);
    let name = ColumnName { table: "o".into(), column: "x".into(), ..ColumnName::default() };
    let columns = vec![ScopeColumn::new(Arc::new(name), integer())];
    outer.add(ScopeTable { name: "o".into(), columns, ..ScopeTable::default() });
    let mut middle = Scope::new(Some(&outer));
    middle.tables = scope().tables;
    [&outer, &middle].iter().for_each(|scope| scope.host(Hosting::Allowed));
    let inner = Scope::new(Some(&middle));
    for (sql, expected) in [
        ("SUM(a + MAX(x))", None),
        ("SUM(x + MAX(a))", Some(1111)),
        ("SUM(x + MAX(x))", Some(1111)),
        ("SUM(MAX(a) + MAX(x))", None),
    ] {
        let mut world = World::new();
        let mut binder = Binder::new(&inner, &mut world);
        binder.is_block = true;
        let error = binder.bind(&parse(sql), Clause::FieldList).err().map(|error| error.code());
        assert_eq!(error, expected, "{sql}");
    }
}

fn outputs(binder: &mut Binder<'_, '_>, list: &[(&str, &str)]) {
    for (alias, sql) in list {
        let expression = binder.bind(&parse(sql), Clause::FieldList).unwrap();
        binder.outputs.push(Output { name: (*alias).into(), expression });
    }
}

#[test]
fn names_of_the_select_list() {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    outputs(&mut binder, &[("a", "b"), ("x", "a + 1"), ("n", "COUNT(*)"), ("s", "s")]);
    // ORDER BY looks into the list first, GROUP BY into the columns.
    assert_eq!(binder.bind_order_by(&parse("a")).unwrap(), OrderBy::Output(0));
    assert_eq!(binder.bind_order_by(&parse("2")).unwrap(), OrderBy::Output(1));
    assert_eq!(binder.bind_order_by(&parse("a + 1")).unwrap(), OrderBy::Output(1));
    assert!(matches!(binder.bind_group_by(&parse("a")).unwrap(), OrderBy::Expression(_)));
    assert_eq!(binder.bind_group_by(&parse("x")).unwrap(), OrderBy::Output(1));
    let error = binder.bind_order_by(&parse("9")).unwrap_err();
    assert_eq!(error.message(), "Unknown column '9' in 'order clause'");
    let error = binder.bind_group_by(&parse("n")).unwrap_err();
    assert_eq!((error.code(), error.message()), (1056, "Can't group on 'n'"));
    // HAVING sees the list and the groups only.
    let having = binder.bind(&parse("n > 1 AND x > 2"), Clause::Having).unwrap();
    assert_eq!(having.to_string(), "((<aggregate 0> > 1) and ((`d`.`t`.`a` + 1) > 2))");
    let error = binder.bind(&parse("k > 1"), Clause::Having).unwrap_err();
    assert_eq!(error.message(), "Unknown column 'k' in 'having clause'");
    assert!(binder.bind(&parse("MAX(k) > 1"), Clause::Having).is_ok());
    let grouped = binder.bind(&parse("k"), Clause::GroupBy).unwrap();
    binder.group_by.push(grouped);
    assert!(binder.bind(&parse("k > 1"), Clause::Having).is_ok());
}

#[test]
fn grouped_queries_use_groups_only() {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    binder.is_block = true;
    let mut bind = |sql: &str| binder.bind(&parse(sql), Clause::FieldList).unwrap();
    let group = [bind("a + 1")];
    let is_key = |index: u32| index == 3;
    let grouping = Grouping { group_by: &group, depends: &is_key, inside: &|_| None };
    for (sql, allowed) in [
        ("a + 1", true),
        ("(a + 1) * 2", true),
        ("a", false),
        ("MAX(b) + k", true),
        ("ANY_VALUE(b)", true),
        ("b + 1", false),
    ] {
        let checked = check_full_group_by(&bind(sql), 1, Clause::FieldList, &grouping);
        assert_eq!(checked.is_ok(), allowed, "{sql}");
    }
}

#[test]
fn windows_are_listed_with_what_they_inherit() {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    let sql = "SELECT 1 FROM t WINDOW w AS (PARTITION BY a), v AS (w ORDER BY b)";
    let statement = sql_parser::parse(sql.as_bytes(), sql_parser::SqlMode::default()).unwrap();
    let ast::Statement::Query(query) = statement else { panic!("a query") };
    let ast::QueryBody::Select(select) = query.body else { panic!("a select") };
    (binder.named_windows, binder.is_block) = (select.windows, true);
    let bound = binder.bind(&parse("SUM(b) OVER v + ROW_NUMBER() OVER (w)"), Clause::FieldList);
    assert_eq!(bound.unwrap().to_string(), "(<window 0> + <window 1>)");
    let [sum, number] = binder.windows.as_slice() else { panic!("two windows") };
    let parts = |call: &WindowCall| (call.window.partition_by.len(), call.window.order_by.len());
    assert_eq!((parts(sum), parts(number)), ((1, 1), (1, 0)));
    assert_eq!(number.kind.name(), "row_number");
}

#[test]
fn parameters_take_the_type_of_what_they_are_compared_with() {
    let (mut world, scope) = (World::new(), scope());
    let mut binder = Binder::new(&scope, &mut world);
    let bound = binder.bind(&parse("a = ?"), Clause::Where).unwrap();
    let Node::Compare(compare) = bound.node else { panic!("a comparison") };
    assert_eq!(compare.right.sql_type().kind, TypeKind::Int);
    world.parameters = vec![Some(ResultType::column(SqlType::text(5), false))];
    let mut binder = Binder::new(&scope, &mut world);
    let bound = binder.bind(&parse("a = ?"), Clause::Where).unwrap();
    let Node::Compare(compare) = bound.node else { panic!("a comparison") };
    assert_eq!(compare.comparison, crate::comparison::Comparison::Double);
}

#[test]
fn how_often_a_value_changes() {
    let (mut world, scope) = (World::new(), scope());
    world.subquery_columns = vec![integer()];
    let mut binder = Binder::new(&scope, &mut world);
    for (sql, expected) in [
        ("1 + 1", Constancy::Always),
        ("NOW()", Constancy::Execution),
        ("? + 1", Constancy::Execution),
        ("(SELECT 1)", Constancy::Execution),
        ("LAST_INSERT_ID()", Constancy::Execution),
        ("LAST_INSERT_ID(1)", Constancy::Row),
        ("RAND()", Constancy::Row),
        ("@x", Constancy::Row),
        ("a", Constancy::Row),
    ] {
        let bound = binder.bind(&parse(sql), Clause::FieldList).unwrap();
        assert_eq!(bound.constancy(), expected, "{sql}");
    }
}
