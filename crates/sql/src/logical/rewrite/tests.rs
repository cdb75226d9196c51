//! What each rule makes of queries: the bound tree, printed.

use std::fmt::Write as _;

use sql_expression::{AggregateCall, Expression, Node, short_text};
use sql_parser::ast::Statement;

use crate::catalog::harness::Harness;
use crate::logical::binder::QueryBinder;
use crate::logical::bound::{Block, BoundQuery, Relation};
use crate::logical::from_table::{FromTable, JoinTree, Source};

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, s VARCHAR(9))");
    harness.ok("CREATE TABLE u (a INT PRIMARY KEY, b INT)");
    harness
}

/// The bound tree of a query, after all rules.
fn bound(harness: &Harness, sql: &str) -> BoundQuery {
    let mode = harness.session.variables.parser_mode();
    let parsed = sql_parser::parse_at(sql.as_bytes(), 0, mode).unwrap();
    let Statement::Query(query) = parsed.statement else { panic!("{sql}: no query") };
    let bound = QueryBinder::new(&harness.session, &[]).bind_query(&query, None);
    bound.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Checks what queries become: pairs of a query and its tree.
fn check(cases: &[(&str, &str)]) {
    let harness = harness();
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        let found = shown(&bound(&harness, sql).relation).replace('`', "");
        if found != *expected {
            wrong.push(format!("{sql}\n  becomes  {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn shown(relation: &Relation) -> String {
    match relation {
        Relation::Block(block) => shown_block(block),
        Relation::Set(set) => {
            let kinds = set.kinds.iter().map(|kind| format!("{kind:?} "));
            let kinds = std::iter::once(String::new()).chain(kinds);
            let parts = set.parts.iter().zip(kinds);
            let parts: Vec<String> =
                parts.map(|((part, _), kind)| format!("{kind}{}", shown(part))).collect();
            parts.join(" ")
        }
        Relation::Ordered { input, .. } => format!("ordered ({})", shown(input)),
        Relation::Values(rows) => format!("{} rows", rows.len()),
        Relation::JsonTable(_) => "JSON_TABLE".to_owned(),
        Relation::Recursive(_) => "recursive".to_owned(),
        Relation::WorkTable { .. } => "newest rows".to_owned(),
    }
}

fn shown_block(block: &Block) -> String {
    let Block { tables, tree, bound, shape, .. } = block;
    let expressions = |list: &mut dyn Iterator<Item = &Expression>| {
        list.map(|expression| shown_expression(expression, &bound.aggregates))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let distinct = if shape.distinct { "DISTINCT " } else { "" };
    let outputs = bound.outputs.iter();
    let outputs = expressions(&mut outputs.map(|output| &output.expression));
    let mut text = format!("SELECT {distinct}{outputs}");
    if let Some(tree) = tree {
        let _ = write!(text, " FROM {}", shown_tree(tree, tables));
    }
    for (clause, list) in
        [("WHERE", &bound.conditions), ("GROUP BY", &bound.group_by), ("HAVING", &bound.having)]
    {
        if !list.is_empty() {
            let _ = write!(text, " {clause} {}", expressions(&mut list.iter()));
        }
    }
    if !bound.order_by.is_empty() {
        let keys = &mut bound.order_by.iter().map(|(expression, _, _)| expression);
        let _ = write!(text, " ORDER BY {}", expressions(keys));
    }
    if bound.bounds.is_some() {
        text.push_str(" LIMIT");
    }
    text
}

fn shown_expression(expression: &Expression, aggregates: &[AggregateCall]) -> String {
    match &expression.node {
        Node::Aggregate(at) => format!("{:?}", aggregates[*at as usize].function),
        _ => short_text(expression),
    }
}

fn shown_tree(tree: &JoinTree, tables: &[FromTable]) -> String {
    let on = |conditions: &[Expression]| {
        let texts: Vec<String> = conditions.iter().map(short_text).collect();
        if texts.is_empty() { String::new() } else { format!(" ON {}", texts.join(", ")) }
    };
    match tree {
        JoinTree::Table(at) => match &tables[*at].source {
            Source::Derived(query) => {
                format!("({}) {}", shown(&query.relation), tables[*at].alias)
            }
            Source::Table(_) | Source::Virtual(_) => tables[*at].alias.clone(),
        },
        JoinTree::Inner { parts, conditions } => {
            let parts: Vec<String> = parts.iter().map(|part| shown_tree(part, tables)).collect();
            format!("[{}{}]", parts.join(" JOIN "), on(conditions))
        }
        JoinTree::Left { left, right, conditions } => {
            let (left, right) = (shown_tree(left, tables), shown_tree(right, tables));
            format!("[{left} LEFT JOIN {right}{}]", on(conditions))
        }
    }
}

#[test]
fn queries_of_rows_become_parts_of_their_block() {
    check(&[
        (
            "SELECT x FROM (SELECT a + 1 AS x FROM t WHERE c = 3) d WHERE x = 7",
            "SELECT (t.a + 1) FROM t WHERE ((t.a + 1) = 7), (t.c = 3)",
        ),
        (
            "SELECT u.b FROM u LEFT JOIN (SELECT a, b FROM t WHERE c = 3) d ON d.a = u.a",
            "SELECT u.b FROM [u LEFT JOIN t ON (t.a = u.a), (t.c = 3)]",
        ),
        // A column that may be missing is no longer what it is computed of.
        (
            "SELECT d.x FROM u LEFT JOIN (SELECT a, b + 1 AS x FROM t) d ON d.a = u.a",
            "SELECT d.x FROM [u LEFT JOIN (SELECT t.a, (t.b + 1) FROM t) d ON (d.a = u.a)]",
        ),
        ("SELECT b FROM (SELECT b FROM t ORDER BY c) d", "SELECT t.b FROM t ORDER BY t.c"),
        (
            "SELECT b FROM (SELECT b FROM t LIMIT 3) d",
            "SELECT d.b FROM (SELECT t.b FROM t LIMIT) d",
        ),
        (
            "SELECT DISTINCT b FROM (SELECT b FROM t ORDER BY c) d",
            "SELECT DISTINCT d.b FROM (SELECT t.b FROM t ORDER BY t.c) d",
        ),
        (
            "WITH w AS (SELECT a, b FROM t WHERE c = 3) SELECT w.b FROM w JOIN u ON w.a = u.a",
            "SELECT t.b FROM [t JOIN u ON (t.a = u.a), (t.c = 3)]",
        ),
    ]);
}

#[test]
fn conditions_go_into_queries_that_are_computed_apart() {
    check(&[
        (
            "SELECT n FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b) d WHERE b = 7",
            "SELECT d.n FROM (SELECT t.b, Count FROM t WHERE (t.b = 7) GROUP BY t.b) d",
        ),
        (
            "SELECT n FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b) d WHERE n = 7",
            "SELECT d.n FROM (SELECT t.b, Count FROM t GROUP BY t.b) d WHERE (d.n = 7)",
        ),
        (
            "SELECT b FROM (SELECT b FROM t UNION ALL SELECT b FROM u) d WHERE b = 7",
            "SELECT d.b FROM (SELECT t.b FROM t WHERE (t.b = 7) UnionAll SELECT u.b FROM u WHERE \
             (u.b = 7)) d",
        ),
        (
            "SELECT b FROM (SELECT b FROM t LIMIT 3) d WHERE b = 7",
            "SELECT d.b FROM (SELECT t.b FROM t LIMIT) d WHERE (d.b = 7)",
        ),
        // What is equal to a constant by another table is so here.
        (
            "SELECT n FROM u JOIN (SELECT b, COUNT(*) AS n FROM t GROUP BY b) d ON d.b = u.a \
             WHERE u.a = 7",
            "SELECT d.n FROM [u JOIN (SELECT t.b, Count FROM t WHERE (t.b = 7) GROUP BY t.b) d \
             ON (d.b = u.a)] WHERE (u.a = 7)",
        ),
        // Two levels down.
        (
            "SELECT b FROM (SELECT DISTINCT b FROM (SELECT DISTINCT b, c FROM t) e) d WHERE b = 7",
            "SELECT d.b FROM (SELECT DISTINCT e.b FROM (SELECT DISTINCT t.b, t.c FROM t WHERE \
             (t.b = 7)) e) d",
        ),
    ]);
}

#[test]
fn what_branches_have_in_common_comes_out_of_or() {
    check(&[
        (
            "SELECT a FROM t WHERE b = 1 AND c = 2 OR b = 1 AND c = 3",
            "SELECT t.a FROM t WHERE (t.b = 1), ((t.c = 2) or (t.c = 3))",
        ),
        ("SELECT a FROM t WHERE b = 1 AND c = 2 OR b = 1", "SELECT t.a FROM t WHERE (t.b = 1)"),
        (
            "SELECT t.a FROM t, u WHERE t.b = 1 AND u.b = 2 OR t.b = 3 AND u.b = 4",
            "SELECT t.a FROM [t JOIN u] WHERE ((t.b = 1) or (t.b = 3)), ((u.b = 2) or (u.b = \
             4)), (((t.b = 1) and (u.b = 2)) or ((t.b = 3) and (u.b = 4)))",
        ),
        (
            "SELECT a FROM t WHERE RAND() < 0.5 AND c = 2 OR RAND() < 0.5 AND c = 3",
            "SELECT t.a FROM t WHERE (((rand() < 0.5) and (t.c = 2)) or ((rand() < 0.5) and (t.c \
             = 3)))",
        ),
    ]);
}

#[test]
fn what_nobody_uses_is_not_computed() {
    check(&[
        (
            "SELECT d.a FROM (SELECT a, b DIV c AS x FROM t LIMIT 3) d",
            "SELECT d.a FROM (SELECT t.a, NULL FROM t LIMIT) d",
        ),
        (
            "SELECT d.a, x FROM (SELECT a, b DIV c AS x FROM t LIMIT 3) d",
            "SELECT d.a, d.x FROM (SELECT t.a, (t.b DIV t.c) FROM t LIMIT) d",
        ),
        // Rows are told apart by what they select.
        (
            "SELECT d.a FROM (SELECT DISTINCT a, b DIV c AS x FROM t) d",
            "SELECT d.a FROM (SELECT DISTINCT t.a, (t.b DIV t.c) FROM t) d",
        ),
        // A subquery uses the column.
        (
            "SELECT (SELECT x) FROM (SELECT a, b DIV c AS x FROM t LIMIT 3) d",
            "SELECT (select #2) FROM (SELECT t.a, (t.b DIV t.c) FROM t LIMIT) d",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT b DIV c FROM u WHERE u.a = t.a)",
            "SELECT t.a FROM t WHERE exists(select #1)",
        ),
    ]);
}

#[test]
fn a_rewritten_copy_of_a_common_table_is_another_query() {
    let harness = harness();
    let sql = "WITH w AS (SELECT b, COUNT(*) AS n FROM t GROUP BY b) \
               SELECT 1 FROM w AS x JOIN w AS y ON x.n = y.n JOIN w AS z ON x.n = z.n \
               WHERE z.b = 7";
    let query = bound(&harness, sql);
    let Relation::Block(block) = &query.relation else { panic!("no block") };
    let numbers: Vec<Option<u32>> = block
        .tables
        .iter()
        .map(|table| match &table.source {
            Source::Derived(query) => query.number,
            _ => panic!("no query"),
        })
        .collect();
    assert!(numbers.iter().all(Option::is_some));
    assert_eq!(numbers[0], numbers[1]);
    assert_ne!(numbers[0], numbers[2]);
}
