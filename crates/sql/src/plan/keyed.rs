//! Correlated subqueries, all at once: without the equalities that tie them to the enclosing row,
//! and by what these compare.
//!
//! A subquery that is run for each row of its enclosing block costs a read each time. One that is
//! tied to the row by equalities alone can be run without them, once; the rows for a row are then
//! those with its key. (T. Neumann, A. Kemper: Unnesting Arbitrary Queries, BTW 2015, has the
//! general method.)
//!
//! # Owns
//! [`Keyed`], and when a block has one.
//! # Guarantees
//! The rows for a key are those the subquery has for an enclosing row with these values.
//! # Not here
//! When it is worth it: the executor begins row by row, and changes over when there are many.

use std::rc::Rc;
use std::sync::Arc;

use sql_expression::{BinaryOp, Comparison, Expression, Node, SqlError};
use sqltype::TypeKind;

use crate::logical::bound::{Block, Subquery};
use crate::logical::formula::Formula;
use crate::logical::from_table::{FromTable, JoinTree, Source, all_in_tree};
use crate::logical::predicate::{has_subquery, is_steady, uses_outer, uses_row};
use crate::plan::join::JoinPlanner;
use crate::plan::operator::{Aggregate, HashKey, Keyed, Operator, QueryPlan};

/// Runs row by row that read by an index, before all rows at once are tried; more if the tables are
/// so large that this would cost more than the runs.
const PATIENCE: u32 = 64;
/// Rows that can be read and taken in for what one such run costs.
const ROWS_PER_RUN: u64 = 40;

impl Keyed {
    /// Takes note of how the subquery is run row by row, and how many rows its tables have.
    pub(super) fn weigh(&mut self, row_by_row: &Operator, rows: u64) {
        self.patience = if finds_by_outer(row_by_row) { runs_worth(rows) } else { 1 };
    }
}

/// How many runs row by row are worth reading so many rows.
pub(crate) fn runs_worth(rows: u64) -> u32 {
    u32::try_from(rows / ROWS_PER_RUN).unwrap_or(u32::MAX).max(PATIENCE)
}

/// How a block of a subquery with these subqueries gives its rows for all enclosing rows; none if
/// it cannot.
pub(super) fn plan(
    block: &Block,
    plans: &[Option<Rc<QueryPlan>>],
    subqueries: &[Subquery],
) -> Result<Option<Keyed>, SqlError> {
    let Block { tables, tree: Some(tree), bound, width, exists, .. } = block else {
        return Ok(None);
    };
    let (width, exists) = (*width, *exists);
    let whole = !bound.aggregates.is_empty() && bound.group_by.is_empty();
    let simple = bound.group_by.is_empty() && bound.having.is_empty() && bound.bounds.is_none();
    let simple = simple && bound.windows.is_empty() && !tables.iter().any(sees_outer);
    if !simple || exists && whole || subqueries.iter().any(|of| of.query.correlated) {
        return Ok(None);
    }
    let (mut keys, mut inner, mut residual) = (Vec::new(), Vec::new(), Vec::new());
    for condition in &bound.conditions {
        match tie(condition) {
            _ if !is_steady(condition) => return Ok(None),
            Some(key) => keys.push(key),
            None if uses_outer(condition) => residual.push(condition.clone()),
            None => inner.push(condition.clone()),
        }
    }
    let arguments = bound.aggregates.iter().flat_map(|call| call.arguments());
    let mut others = bound.outputs.iter().map(|output| &output.expression).chain(arguments);
    let strange =
        others.any(|expression| !is_steady(expression) || !exists && uses_outer(expression));
    let grouped = residual.is_empty() && keys.iter().all(groups_as_it_compares);
    if keys.is_empty() || strange || tree_uses_outer(tree) || whole && !grouped {
        return Ok(None);
    }
    let mut root =
        JoinPlanner { tables, plans, width, pauses: &bound.pauses }.plan(tree.clone(), inner)?;
    let by: Vec<Expression> = keys.iter().map(|key| key.right.expression.clone()).collect();
    let mut outputs: Vec<Expression> = if exists {
        Vec::new()
    } else {
        bound.outputs.iter().map(|output| output.expression.clone()).collect()
    };
    // Of the rows of EXISTS one with each key is enough, unless more is asked of them.
    if whole || exists && residual.is_empty() && keys.iter().all(groups_equal_ones) {
        let windows = (width + bound.aggregates.len()) as u32;
        outputs.iter_mut().for_each(|output| output.place(width as u32, windows));
        let above = by.iter().chain(&outputs);
        let shown = crate::plan::operator::shown(&above.collect::<Vec<_>>(), width);
        let group = by.iter().cloned().map(Formula::new).collect();
        let (input, calls) = (root.into(), bound.aggregates.clone());
        let aggregate =
            Aggregate { input, group, calls, width, shown, rollup: false, whole: false };
        root = Operator::Aggregate(Box::new(aggregate));
    }
    let places = (by.len(), by.len() + outputs.len());
    for (at, key) in keys.iter_mut().enumerate() {
        let result = key.right.expression.result.clone();
        key.right = Formula::new(Expression::column(at as u32, Arc::default(), result));
    }
    let mut expressions = by;
    expressions.append(&mut outputs);
    let residual = rebase(residual, &mut expressions);
    let results = expressions.iter().map(|expression| expression.result.clone()).collect();
    let expressions = expressions.into_iter().map(Formula::new).collect();
    let plan = QueryPlan::new(
        Vec::new(),
        Operator::Project { input: root.into(), expressions },
        results,
        false,
    );
    Ok(Some(Keyed { plan, keys, outputs: places, residual, whole, patience: 1 }))
}

/// The key that an equality of something inside with something outside is.
pub(super) fn tie(condition: &Expression) -> Option<HashKey> {
    let Node::Compare(compare) = &condition.node else { return None };
    let null_safe = compare.op == BinaryOp::NullSafeEqual;
    let equal = null_safe || compare.op == BinaryOp::Equal;
    if !equal || compare.comparison == Comparison::Json || has_subquery(condition) {
        return None;
    }
    // What is kept in rows has no more digits than its type.
    if compare.comparison.sees_more_digits(&compare.left, &compare.right) {
        return None;
    }
    let inside = |side: &Expression| uses_row(side) && !uses_outer(side);
    let outside = |side: &Expression| !uses_row(side) && uses_outer(side);
    let (left, right) = match (&compare.left, &compare.right) {
        (left, right) if outside(left) && inside(right) => (left, right),
        (left, right) if inside(left) && outside(right) => (right, left),
        _ => return None,
    };
    let mut left = left.clone();
    left.visit_mut(&mut |part| {
        if let Node::Outer { depth: 1, index, name } = &part.node {
            part.node = Node::Column { index: *index, name: name.clone() };
        }
    });
    // Further out there is no row to take a key from.
    if uses_outer(&left) {
        return None;
    }
    let (left, right) = (Formula::new(left), Formula::new(right.clone()));
    Some(HashKey { left, right, comparison: compare.comparison, null_safe })
}

/// Whether the values of a group of the right side are equal for the comparison: texts that are
/// equal under their own collation may not be under another, nor as numbers.
fn groups_equal_ones(key: &HashKey) -> bool {
    let expression = &key.right.expression;
    let is_text = expression.result.is_text() || expression.sql_type().kind.is_string();
    !is_text || groups_as_it_compares(key)
}

/// Whether values of the right side that compare as equal are one group: a number as text is not.
fn groups_as_it_compares(key: &HashKey) -> bool {
    let expression = &key.right.expression;
    let (kind, result) = (&expression.sql_type().kind, &expression.result);
    let whole = kind.is_integer();
    match key.comparison {
        Comparison::Int => whole,
        Comparison::Decimal => whole || *kind == TypeKind::Decimal,
        // Several numbers of 64 bits are one floating-point number.
        Comparison::Double => {
            whole && *kind != TypeKind::BigInt || matches!(kind, TypeKind::Float | TypeKind::Double)
        }
        Comparison::Text(id) => result.is_text() && expression.sql_type().collation == id,
        Comparison::DateTime => matches!(kind, TypeKind::Date | TypeKind::DateTime),
        Comparison::Time => *kind == TypeKind::Time,
        Comparison::Json => false,
    }
}

/// Has expressions use the columns of a projection, to which those that they use are added.
fn rebase(residual: Vec<Expression>, expressions: &mut Vec<Expression>) -> Vec<Formula> {
    let rebased = residual.into_iter().map(|mut condition| {
        condition.visit_mut(&mut |part| {
            if let Node::Column { index, name } = &mut part.node {
                let result = part.result.clone();
                let column = Expression::column(*index, name.clone(), result);
                let known = expressions.iter().position(|expression| *expression == column);
                *index = known.unwrap_or_else(|| {
                    expressions.push(column);
                    expressions.len() - 1
                }) as u32;
            }
        });
        Formula::new(condition)
    });
    rebased.collect()
}

/// Whether a table of FROM sees rows of blocks around it, or of its own.
fn sees_outer(table: &FromTable) -> bool {
    table.lateral.is_some() || matches!(&table.source, Source::Derived(query) if query.correlated)
}

fn tree_uses_outer(tree: &JoinTree) -> bool {
    !all_in_tree(tree, &|condition| !uses_outer(condition) && is_steady(condition))
}

/// Whether the enclosing row helps to find the rows of a subquery, when it is run row by row.
pub(super) fn finds_by_outer(operator: &Operator) -> bool {
    let own = match operator {
        Operator::Scan(scan) | Operator::Lookup { scan, .. } => {
            let mut found = false;
            scan.path.for_each_expression(&mut |value| found |= uses_outer(value));
            found
        }
        Operator::Derived(scan) => {
            scan.out == 0 && scan.plan.correlated && finds_by_outer(&scan.plan.root)
        }
        _ => false,
    };
    own || operator.inputs().into_iter().any(|input| finds_by_outer(input))
}
