//! What a block may show of its groups, and sort by after DISTINCT.
//!
//! # Owns
//! ONLY_FULL_GROUP_BY, also inside subqueries, and where GROUPING may stand.
//! # Not here
//! Whether an expression is a value of a group (`sql_expression::check_full_group_by`).

use sql_expression::{Clause, Expression, Grouping, Node, Scope, SqlError, check_full_group_by};

use crate::logical::binder::QueryBinder;
use crate::logical::bound::{Block, Bound, BoundQuery};
use crate::logical::dependence;

/// GROUPING is for WITH ROLLUP, and of what is grouped by.
pub(super) fn check_groupings(bound: &Bound, rollup: bool) -> Result<(), SqlError> {
    for call in bound.aggregates.iter().filter(|call| call.grouping) {
        if !rollup {
            return Err(SqlError::of::<1111>(&[]));
        }
        let missing = call.values.iter().position(|value| !bound.group_by.contains(value));
        if let Some(at) = missing {
            let text = format!("Argument #{at} of GROUPING function is not in GROUP BY");
            return Err(SqlError::new(3602, "HY000", text));
        }
    }
    Ok(())
}

/// ONLY_FULL_GROUP_BY.
pub(super) fn check_grouping(
    binding: &QueryBinder<'_>,
    scope: &Scope<'_>,
    block: &Block,
) -> Result<(), SqlError> {
    let Block { tables, tree, bound, .. } = block;
    let determined = dependence::determined(tables, tree.as_ref(), bound);
    let depends = |place: u32| determined.contains(&place);
    let inside = |subquery| {
        let of_id = binding.subqueries.iter().find(|of| of.id == subquery)?;
        varying_inside(&of_id.query, scope, &bound.group_by, &depends)
    };
    let grouping = Grouping { group_by: &bound.group_by, depends: &depends, inside: &inside };
    for (at, output) in bound.outputs.iter().enumerate() {
        let (expression, clause) = (&output.expression, Clause::FieldList);
        check_full_group_by(expression, at + 1, clause, &grouping)?;
        // What window functions are computed of are values of the groups, too.
        let mut inside = Vec::new();
        expression.visit(&mut |part| {
            if let Node::Window(slot) = part.node {
                inside.extend(bound.windows.get(slot as usize));
            }
        });
        for part in inside.into_iter().flat_map(|call| call.expressions()) {
            check_full_group_by(part, at + 1, clause, &grouping)?;
        }
    }
    for expression in &bound.having {
        check_full_group_by(expression, 1, Clause::Having, &grouping)?;
    }
    for (at, (expression, output, _)) in bound.order_by.iter().enumerate() {
        if output.is_none() {
            let clause = Clause::OrderBy;
            check_full_group_by(expression, at + 1, clause, &grouping)?;
        }
    }
    Ok(())
}

/// A column of the block that a subquery uses and that may differ within a group. Where the query
/// is grouped by an expression, the subquery may use it as a whole: its columns are not looked at.
fn varying_inside(
    query: &BoundQuery,
    scope: &Scope<'_>,
    group_by: &[Expression],
    depends: &dyn Fn(u32) -> bool,
) -> Option<String> {
    let is_grouped = |place: u32| {
        group_by.iter().any(|key| {
            key.any(&mut |part| {
                part.as_column() == Some(place) || matches!(part.node, Node::Subquery(_))
            })
        })
    };
    let mut varying = None;
    query.for_each_outer(&mut |depth, place| {
        // Behind the columns of the row stand the aggregates.
        let column = scope.column_at(place).filter(|_| depth == 1 && varying.is_none());
        if let Some(column) = column.filter(|_| !is_grouped(place) && !depends(place)) {
            varying = Some(column.name.qualified());
        }
    });
    varying
}

/// ONLY_FULL_GROUP_BY of DISTINCT: rows are sorted by what they still have.
pub(super) fn check_distinct(bound: &Bound) -> Result<(), SqlError> {
    let selected = |expression: &Expression| {
        bound.outputs.iter().any(|output| output.expression == *expression)
    };
    for (at, (expression, output, _)) in bound.order_by.iter().enumerate() {
        if output.is_some() || selected(expression) {
            continue;
        }
        let mut missing = None;
        expression.visit(&mut |part| {
            if let Node::Column { name, .. } = &part.node
                && missing.is_none()
                && !selected(part)
            {
                missing = Some(name.clone());
            }
        });
        if let Some(name) = missing {
            let parts = [&name.schema, &name.table, &name.column];
            let parts = parts.into_iter().filter(|part| !part.is_empty()).map(|part| &**part);
            let name = parts.collect::<Vec<_>>().join(".");
            return Err(SqlError::of::<3065>(&[&(at + 1), &"ORDER BY clause", &name, &"DISTINCT"]));
        }
    }
    Ok(())
}
