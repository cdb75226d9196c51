//! Conditions on queries in FROM that are checked inside these.
//!
//! `SELECT … FROM (SELECT a, SUM(b) FROM t GROUP BY a) d WHERE a = 7` needs one group. With the
//! condition inside, its rows are found by an index, and no other group is made. (MySQL 8.4
//! Reference Manual, 10.2.2.5, "Derived Condition Pushdown Optimization".)
//!
//! # Owns
//! Which conditions go into which queries, through groups, windows, DISTINCT and set operations,
//! and the plans that these have then.
//! # Guarantees
//! The block has the same rows: of rows that the query makes one of, takes together or counts one
//! after the other, the condition holds for all or for none.
//! # Not here
//! Queries that become parts of the block (`derived`): they have no conditions of their own left.

use std::ops::Range;
use std::rc::Rc;

use collation::CollationId;
use sql_expression::{
    BinaryOp, Compare, Comparison, Constancy, Expression, Node, ResultType, SqlError,
};
use sqltype::TypeKind;

use crate::plan::assemble;
use crate::plan::bound::{self, BlockParts, Ingredients, Operands, Shape};
use crate::plan::derived::{self, is_optional};
use crate::plan::from_table::{self, FromTable, JoinTree, Source};
use crate::plan::operator::{Operator, QueryPlan, SetKind};
use crate::plan::predicate::{self, equality};
use crate::plan::set_operation;

/// Takes conditions out of a block and puts them into the queries in FROM that they are about.
/// Those that use columns of enclosing blocks stay, because a block without them may be run for all
/// rows of these at once.
///
/// # Errors
/// Those of planning joins.
pub(super) fn push(
    tables: &mut [FromTable],
    tree: &mut JoinTree,
    conditions: &mut Vec<Expression>,
) -> Result<(), SqlError> {
    push_some(tables, tree, conditions, false)
}

/// The same with those that use columns of enclosing blocks.
///
/// # Errors
/// Those of planning joins.
pub(super) fn push_all(
    tables: &mut [FromTable],
    tree: &mut JoinTree,
    conditions: &mut Vec<Expression>,
) -> Result<(), SqlError> {
    push_some(tables, tree, conditions, true)
}

fn push_some(
    tables: &mut [FromTable],
    tree: &mut JoinTree,
    conditions: &mut Vec<Expression>,
    outer: bool,
) -> Result<(), SqlError> {
    if !tables.iter().any(|table| matches!(table.source, Source::Derived(_))) {
        return Ok(());
    }
    let mut facts = conditions.clone();
    add_facts(tree, &mut facts);
    for (at, table) in tables.iter_mut().enumerate() {
        if !is_optional(tree, at) {
            push_implied(table, &facts, outer)?;
        }
    }
    push_list(tables, tree, conditions, outer)?;
    push_joins(tables, tree, outer)
}

/// Adds the conditions of joins that all rows meet.
fn add_facts(tree: &JoinTree, facts: &mut Vec<Expression>) {
    match tree {
        JoinTree::Table(_) => {}
        JoinTree::Inner { parts, conditions } => {
            facts.extend_from_slice(conditions);
            parts.iter().for_each(|part| add_facts(part, facts));
        }
        JoinTree::Left { left, .. } => add_facts(left, facts),
    }
}

/// The same with the conditions of joins.
fn push_joins(tables: &mut [FromTable], tree: &mut JoinTree, outer: bool) -> Result<(), SqlError> {
    match tree {
        JoinTree::Table(_) => Ok(()),
        JoinTree::Inner { parts, conditions } => {
            for part in parts {
                push_list(tables, part, conditions, outer)?;
                push_joins(tables, part, outer)?;
            }
            Ok(())
        }
        JoinTree::Left { left, right, conditions } => {
            push_list(tables, right, conditions, outer)?;
            push_joins(tables, left, outer)?;
            push_joins(tables, right, outer)
        }
    }
}

/// The same with conditions that rows of a tree have to meet.
fn push_list(
    tables: &mut [FromTable],
    tree: &JoinTree,
    conditions: &mut Vec<Expression>,
    outer: bool,
) -> Result<(), SqlError> {
    for (at, table) in tables.iter_mut().enumerate() {
        if tree.has(at) && !is_optional(tree, at) {
            push_into(table, conditions, outer)?;
        }
    }
    Ok(())
}

/// Moves what it can of the conditions into the query.
fn push_into(
    table: &mut FromTable,
    conditions: &mut Vec<Expression>,
    outer: bool,
) -> Result<(), SqlError> {
    let Some(ingredients) = ingredients_of(table) else { return Ok(()) };
    let (places, outer) = (table.places(), outer && table.out == 0);
    let mut inside = Vec::new();
    conditions.retain(|condition| {
        let moved = of_table(condition, &places, outer).filter(|moved| ingredients.takes(moved));
        let stays = moved.is_none();
        inside.extend(moved);
        stays
    });
    put(table, &inside)
}

/// Adds to the query what follows from conditions for its rows.
fn push_implied(table: &mut FromTable, facts: &[Expression], outer: bool) -> Result<(), SqlError> {
    let Some(ingredients) = ingredients_of(table) else { return Ok(()) };
    let mut inside = implied(facts, &table.places(), outer && table.out == 0);
    inside.retain(|condition| ingredients.takes(condition));
    put(table, &inside)
}

/// What a query in FROM was made of, if it stands for itself.
fn ingredients_of(table: &FromTable) -> Option<&Ingredients> {
    let Source::Derived(plan) = &table.source else { return None };
    let stands_alone = table.lateral.is_none() && !plan.correlated && !plan.counts_found_rows;
    plan.ingredients.as_deref().filter(|_| stands_alone)
}

/// Has the query check conditions over its columns.
fn put(table: &mut FromTable, conditions: &[Expression]) -> Result<(), SqlError> {
    let (Source::Derived(plan), Some(ingredients)) = (&table.source, ingredients_of(table)) else {
        return Ok(());
    };
    if conditions.is_empty() {
        return Ok(());
    }
    let (ingredients, root) = ingredients.with(conditions)?;
    let correlated = conditions.iter().any(predicate::uses_outer);
    table.source = Source::Derived(Rc::new(QueryPlan {
        subqueries: plan.subqueries.clone(),
        ingredients: Some(Box::new(ingredients)),
        ..QueryPlan::new(plan.columns.clone(), root, plan.results.clone(), correlated)
    }));
    Ok(())
}

/// A condition that is of one table alone, or with `outer` of that and enclosing blocks, over the
/// columns of this table, and may be checked whenever one likes.
fn of_table(condition: &Expression, places: &Range<usize>, outer: bool) -> Option<Expression> {
    let is_strange = |part: &Expression| match &part.node {
        Node::Column { index, .. } => !places.contains(&(*index as usize)),
        Node::Outer { .. } => !outer,
        Node::Subquery(_) => true,
        _ => false,
    };
    let of_row = condition.any(&mut |part| part.as_column().is_some());
    if !of_row || condition.is_volatile() || condition.any(&mut |part| is_strange(part)) {
        return None;
    }
    let mut moved = condition.clone();
    moved.map_columns(&mut |place| place - places.start as u32);
    Some(moved)
}

/// What follows for a table from conditions of which one says that a column of another table is
/// equal to one of this one, and one that it is equal to a constant.
fn implied(conditions: &[Expression], places: &Range<usize>, outer: bool) -> Vec<Expression> {
    let equal = |condition: &'_ Expression| match &condition.node {
        Node::Compare(compare) if compare.op == BinaryOp::Equal => {
            Some((compare.left.clone(), compare.right.clone(), compare.comparison))
        }
        _ => None,
    };
    let both_ways = || {
        let equalities = conditions.iter().filter_map(equal);
        equalities
            .flat_map(|(left, right, by)| [(left.clone(), right.clone(), by), (right, left, by)])
    };
    let mut implied = Vec::new();
    for (own, other, by) in both_ways() {
        let is_own = own.as_column().is_some_and(|place| places.contains(&(place as usize)));
        if !is_own || other.as_column().is_none() {
            continue;
        }
        let same = |(of, _, with): &(Expression, Expression, Comparison)| {
            of.as_column() == other.as_column() && *with == by
        };
        let values = both_ways().filter(same).map(|(_, value, _)| value);
        for value in values.filter(|value| value.constancy() < Constancy::Row) {
            implied.extend(of_table(&equality(own.clone(), value, by), places, outer));
        }
    }
    implied
}

impl Ingredients {
    /// Whether a condition over the columns of the query holds for its rows if and only if it holds
    /// for those that they are made of.
    fn takes(&self, condition: &Expression) -> bool {
        match self {
            Self::Block(block) => block.takes(condition),
            Self::Set(operands) => {
                let all = operands.kinds.iter().all(|kind| *kind == SetKind::UnionAll);
                (all || sees_no_difference(condition, &operands.results))
                    && operands.parts.iter().all(|(part, _)| part.takes(condition))
            }
        }
    }

    /// The query with conditions over its columns, and its operators.
    fn with(&self, conditions: &[Expression]) -> Result<(Self, Operator), SqlError> {
        match self {
            Self::Block(block) => {
                let mut block = block.clone();
                for condition in conditions {
                    let mut condition = condition.clone();
                    condition.visit_mut(&mut |part| {
                        if let Some(place) = part.as_column() {
                            let output = &block.bound.outputs[place as usize];
                            *part = output.expression.clone();
                        }
                    });
                    // What follows from others may have been added before.
                    if !block.bound.conditions.contains(&condition) {
                        block.bound.conditions.push(condition);
                    }
                }
                let root = block.operators()?;
                Ok((Self::Block(block), root))
            }
            Self::Set(operands) => {
                let Operands { parts: before, kinds, results } = operands;
                let (mut parts, mut roots) = (Vec::new(), Vec::new());
                for (part, types) in before {
                    let (made, root) = part.with(conditions)?;
                    parts.push((made, types.clone()));
                    roots.push((root, &**types));
                }
                let root = set_operation::set_operator(roots, kinds, results)?;
                let (kinds, results) = (kinds.clone(), results.clone());
                Ok((Self::Set(Operands { parts, kinds, results }), root))
            }
        }
    }
}

impl BlockParts {
    /// The operators, after more conditions have been added.
    pub(super) fn operators(&mut self) -> Result<Operator, SqlError> {
        push_all(&mut self.tables, &mut self.tree, &mut self.bound.conditions)?;
        derived::forget_unused(&mut self.tables);
        let (tree, bound) = (Some(self.tree.clone()), self.bound.clone());
        assemble::operators(&self.tables, tree, bound, self.width, self.shape)
    }

    /// As [`Ingredients::takes`].
    pub(super) fn takes(&self, condition: &Expression) -> bool {
        let Self { tables, tree, bound, shape, .. } = self;
        let Shape { grouped, distinct, rollup, counts } = *shape;
        let mut is_steady = from_table::is_steady_tree(tree);
        bound::for_each_expression(bound, &mut |part| is_steady &= !part.is_volatile());
        let locks = tables.iter().any(|table| table.lock.is_some());
        let whole = grouped && bound.group_by.is_empty();
        if !is_steady || locks || whole || rollup || counts || bound.bounds.is_some() {
            return false;
        }
        let mut may = true;
        condition.for_each_column(&mut |place| {
            let of = &bound.outputs[place as usize].expression;
            let grouped_by = |by: &[Expression]| by.contains(of) || of.as_constant().is_some();
            may &= is_as_it_is_read(of)
                && (!grouped || grouped_by(&bound.group_by))
                && bound.windows.iter().all(|call| grouped_by(&call.window.partition_by));
        });
        let results: Vec<ResultType> =
            bound.outputs.iter().map(|output| output.expression.result.clone()).collect();
        let joins_rows = grouped || distinct || !bound.windows.is_empty();
        may && (!joins_rows || sees_no_difference(condition, &results))
    }
}

/// Whether a value that the query computes is the same for who reads its rows: digits beyond its
/// type are cut off then.
fn is_as_it_is_read(output: &Expression) -> bool {
    let is_strange = |part: &Expression| {
        matches!(part.node, Node::Subquery(_) | Node::Aggregate(_) | Node::Window(_))
    };
    let kind = &output.sql_type().kind;
    let is_cut =
        kind.is_temporal() || matches!(kind, TypeKind::Decimal | TypeKind::Float | TypeKind::Json);
    let is_stored = output.as_column().is_some() || output.as_constant().is_some();
    (is_stored || !is_cut) && !output.any(&mut |part| is_strange(part))
}

/// Whether a condition holds for all or for none of the rows that are equal in these columns: of
/// equal texts one may be longer or in capitals, of zeros one below zero.
fn sees_no_difference(condition: &Expression, columns: &[ResultType]) -> bool {
    let compared_as = |part: &Expression| {
        let at = part.as_column()? as usize;
        compared_as(&columns[at])
    };
    let respects = |operand: &Expression, by: &[Comparison]| {
        let own = compared_as(operand);
        own.is_some() && by.iter().all(|by| Some(*by) == own)
    };
    let rest = |part: &Expression| sees_no_difference(part, columns);
    match &condition.node {
        Node::Column { index, .. } => is_one_value(&columns[*index as usize]),
        Node::IsNull(operand) => operand.as_column().is_some() || rest(operand),
        Node::Compare(compare) => {
            let Compare { left, right, comparison, .. } = &**compare;
            [left, right].into_iter().all(|side| respects(side, &[*comparison]) || rest(side))
        }
        Node::InList(list) => {
            let by: Vec<Comparison> = list.list.iter().map(|(_, by)| *by).collect();
            (respects(&list.operand, &by) || rest(&list.operand))
                && list.list.iter().all(|(element, _)| rest(element))
        }
        Node::Between(between) => {
            (respects(&between.operand, &between.comparisons) || rest(&between.operand))
                && rest(&between.low)
                && rest(&between.high)
        }
        _ => {
            let mut all = true;
            condition.for_each_part(&mut |part| all = all && rest(part));
            all
        }
    }
}

/// As what values of a type are compared when rows are found equal; none if that is not one
/// [`Comparison`].
fn compared_as(of: &ResultType) -> Option<Comparison> {
    let kind = &of.sql_type.kind;
    match kind {
        TypeKind::Float | TypeKind::Double => Some(Comparison::Double),
        TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json => None,
        _ if kind.is_string() => Some(Comparison::Text(of.sql_type.collation)),
        _ => None,
    }
}

/// Whether equal values of a type are the same in every respect.
fn is_one_value(of: &ResultType) -> bool {
    const BYTES: [CollationId; 2] = [CollationId::BINARY, CollationId::UTF8MB4_0900_BIN];
    let kind = &of.sql_type.kind;
    match kind {
        TypeKind::Float | TypeKind::Double | TypeKind::Json => false,
        TypeKind::Enum(_) | TypeKind::Set(_) => true,
        _ => !kind.is_string() || BYTES.contains(&of.sql_type.collation),
    }
}
