//! Names and the columns they find.

use sql_parser::ast::{Ident, ObjectName};
use sqltype::SqlType;

use super::*;

fn table(name: &str, columns: &[&str]) -> ScopeTable {
    let column = |column: &&str| {
        let name = ColumnName { schema: "d".into(), table: name.into(), column: (*column).into() };
        ScopeColumn::new(Arc::new(name), ResultType::column(SqlType::big_int(), true))
    };
    ScopeTable {
        schema: Some("d".into()),
        name: name.into(),
        columns: columns.iter().map(column).collect(),
        offset: 0,
    }
}

fn name(text: &str) -> ColumnRef {
    let mut parts: Vec<Ident> = text.split('.').map(Ident::from).collect();
    let column = parts.pop().unwrap();
    let table = parts.pop().map(|name| Box::new(ObjectName { schema: parts.pop(), name }));
    ColumnRef { table, column }
}

#[test]
fn names_find_their_columns() {
    let mut outer = Scope::new(None);
    outer.add(table("t", &["a", "b"]));
    let mut scope = Scope::new(Some(&outer));
    scope.add(table("u", &["b", "c"]));
    scope.add(table("v", &["C", "d"]));
    let place = |text: &str| match scope.resolve(&name(text), Clause::Where).map(|e| e.node) {
        Ok(Node::Column { index, .. }) => format!("{index}"),
        Ok(Node::Outer { depth, index, .. }) => format!("outer {depth} {index}"),
        Ok(node) => format!("{node:?}"),
        Err(error) => error.message().to_owned(),
    };
    assert_eq!(place("b"), "0");
    assert_eq!(place("D"), "3");
    assert_eq!(place("v.c"), "2");
    assert_eq!(place("d.u.c"), "1");
    assert_eq!(place("c"), "Column 'c' in where clause is ambiguous");
    assert_eq!(place("x.a"), "Unknown column 'x.a' in 'where clause'");
    assert_eq!(place("z"), "Unknown column 'z' in 'where clause'");
    assert!(scope.outer_columns().is_empty());
    assert_eq!(place("a"), "outer 1 0");
    assert_eq!(scope.outer_columns(), [OuterColumn { depth: 1, index: 0 }]);
    assert!(outer.outer_columns().is_empty());
    assert_eq!(scope.width(), 4);
}

#[test]
fn a_column_two_blocks_out_concerns_the_block_between() {
    let mut outermost = Scope::new(None);
    outermost.add(table("t", &["a"]));
    let middle = Scope::new(Some(&outermost));
    let inner = Scope::new(Some(&middle));
    let found = inner.resolve(&name("a"), Clause::Where).unwrap();
    assert!(matches!(found.node, Node::Outer { depth: 2, index: 0, .. }));
    assert_eq!(inner.outer_columns(), [OuterColumn { depth: 2, index: 0 }]);
    assert_eq!(middle.outer_columns(), [OuterColumn { depth: 1, index: 0 }]);
}

#[test]
fn merged_columns_need_their_table() {
    let mut scope = Scope::new(None);
    scope.add(table("t", &["k"]));
    let mut merged = table("u", &["k"]);
    merged.columns[0].qualified_only = true;
    scope.add(merged);
    let index = |text: &str| scope.resolve(&name(text), Clause::On).unwrap().as_column();
    assert_eq!(index("k"), Some(0));
    assert_eq!(index("u.k"), Some(1));
}
