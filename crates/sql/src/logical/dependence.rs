//! Functional dependencies: which columns have one value for each combination of what a block is
//! grouped by.
//!
//! # Owns
//! [`determined`]: the closure over unique keys, the equalities of WHERE and ON, and outer joins.
//! # Not here
//! Who must be determined (`grouping`).

use std::collections::BTreeSet;

use sql_expression::{Compare, Comparison, Constancy, Expression, Node};
use sql_parser::ast::BinaryOp;
use sqltype::TypeKind;

use crate::logical::bound::Bound;
use crate::logical::from_table::{FromTable, JoinTree, Source, number_at};
use crate::logical::predicate::has_subquery;

/// One value of `given` for each combination of values of `needs`.
struct Dependency {
    needs: BTreeSet<u32>,
    given: u32,
}

/// The places of the block's row whose values GROUP BY determines.
pub(super) fn determined(
    tables: &[FromTable],
    tree: Option<&JoinTree>,
    bound: &Bound,
) -> BTreeSet<u32> {
    let mut dependencies = Vec::new();
    let nothing = BTreeSet::new();
    for condition in &bound.conditions {
        add_equality(condition, &nothing, &mut dependencies);
    }
    if let Some(tree) = tree {
        add_joins(tables, tree, &nothing, &mut dependencies);
    }
    add_keys(tables, &mut dependencies);
    let mut known: BTreeSet<u32> =
        bound.group_by.iter().filter_map(Expression::as_column).collect();
    loop {
        let before = known.len();
        for dependency in &dependencies {
            if dependency.needs.is_subset(&known) {
                known.insert(dependency.given);
            }
        }
        if known.len() == before {
            return known;
        }
    }
}

/// All columns of a table depend on each of its unique keys without NULL.
fn add_keys(tables: &[FromTable], dependencies: &mut Vec<Dependency>) {
    for table in tables {
        let Source::Table(definition) = &table.source else { continue };
        for key in definition.keys.iter().filter(|key| key.is_unique() && !key.has_prefix()) {
            if key.columns.iter().any(|part| definition.columns[part.column].nullable) {
                continue;
            }
            let place = |at: usize| (table.offset + at) as u32;
            let needs: BTreeSet<u32> = key.columns.iter().map(|part| place(part.column)).collect();
            let all = (0..definition.columns.len()).map(place);
            dependencies.extend(all.map(|given| Dependency { needs: needs.clone(), given }));
        }
    }
}

/// What the conditions of joins say. `base` decides whether the rows of the tree are there, or
/// NULLs of an outer join.
fn add_joins(
    tables: &[FromTable],
    tree: &JoinTree,
    base: &BTreeSet<u32>,
    dependencies: &mut Vec<Dependency>,
) {
    match tree {
        JoinTree::Table(_) => {}
        JoinTree::Inner { parts, conditions } => {
            parts.iter().for_each(|part| add_joins(tables, part, base, dependencies));
            for condition in conditions {
                add_equality(condition, base, dependencies);
            }
        }
        JoinTree::Left { left, right, conditions } => {
            add_joins(tables, left, base, dependencies);
            if conditions.iter().any(|c| has_subquery(c) || c.is_volatile()) {
                return;
            }
            let is_right =
                |place: &u32| number_at(tables, *place as usize).is_some_and(|at| right.has(at));
            let mut base = base.clone();
            for condition in conditions {
                condition.visit(&mut |part| base.extend(part.as_column().filter(|c| !is_right(c))));
            }
            add_joins(tables, right, &base, dependencies);
            let mut of_join = Vec::new();
            for condition in conditions {
                add_equality(condition, &base, &mut of_join);
            }
            for Dependency { mut needs, given } in of_join {
                // What the right side has says nothing of the left side, which is there anyway.
                if is_right(&given) {
                    needs.extend(&base);
                    dependencies.push(Dependency { needs, given });
                }
            }
        }
    }
}

/// `a = b` between columns, and `a = constant`.
fn add_equality(condition: &Expression, base: &BTreeSet<u32>, dependencies: &mut Vec<Dependency>) {
    if let Node::And(parts) = &condition.node {
        return parts.iter().for_each(|part| add_equality(part, base, dependencies));
    }
    let Node::Compare(compare) = &condition.node else { return };
    let Compare { op: BinaryOp::Equal, comparison, left, right } = &**compare else { return };
    for (one, other) in [(left, right), (right, left)] {
        let Some(given) = one.as_column().filter(|_| is_by_value(*comparison, one)) else {
            continue;
        };
        match other.as_column() {
            Some(needed) if is_by_value(*comparison, other) => {
                dependencies.push(Dependency { needs: [needed].into(), given });
            }
            None if other.constancy() < Constancy::Row && !has_subquery(other) => {
                dependencies.push(Dependency { needs: base.clone(), given });
            }
            _ => {}
        }
    }
}

/// Whether values of a column that are equal to the same value by this comparison are equal.
fn is_by_value(comparison: Comparison, column: &Expression) -> bool {
    let kind = &column.sql_type().kind;
    match comparison {
        Comparison::Text(collation) => kind.is_text() && column.sql_type().collation == collation,
        Comparison::Int => kind.is_integer() || *kind == TypeKind::Year,
        Comparison::Decimal => kind.is_integer() || *kind == TypeKind::Decimal,
        Comparison::Double => matches!(kind, TypeKind::Float | TypeKind::Double),
        Comparison::DateTime => {
            matches!(kind, TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp)
        }
        Comparison::Time => *kind == TypeKind::Time,
        Comparison::Json => false,
    }
}
