//! Rewriting of bound blocks: the rules, in the order in which they are applied.
//!
//! # Owns
//! The order of the rules, and which columns of its tables a block uses once all are applied.
//! # Guarantees
//! The block has the same rows before and after. Queries in its FROM have been rewritten before.
//! # Not here
//! The rules, one in each file: queries in FROM become parts of the block (`merge_derived`), what
//! the branches of an OR have in common comes out of it (`factor_or`), conditions go into queries
//! in FROM (`push_condition`), columns that nobody uses are not computed (`prune_outputs`).

mod factor_or;
mod merge_derived;
mod prune_outputs;
pub(crate) mod push_condition;

use std::collections::BTreeSet;

use sql_expression::{Expression, Node, SqlError};

use self::merge_derived::Merging;
use crate::logical::bound::{Block, Bound, Numbers, Subquery, for_each_expression};
use crate::logical::from_table::{FromTable, JoinTree, Source, number_at};

/// Rewrites a block whose expressions use these subqueries, and marks the columns that it uses.
///
/// # Errors
/// The statement is to end; else internal ones.
pub(super) fn rewrite(
    block: &mut Block,
    subqueries: &[Subquery],
    numbers: &mut Numbers,
) -> Result<(), SqlError> {
    let used_inside = places_used_inside(&block.tables, subqueries);
    let mut of_merged = Vec::new();
    if block.tree.is_some() {
        of_merged = Merging { block, used_inside: &used_inside }.merge();
    }
    let Block { tables, tree, bound, .. } = block;
    bound.pauses.look()?;
    let conditions = std::mem::take(&mut bound.conditions);
    bound.conditions = factor_or::factor(tables, conditions, &bound.pauses)?;
    // They were prepared in their own block.
    bound.conditions.append(&mut of_merged);
    if let Some(tree) = tree {
        push_condition::push(tables, tree, &mut bound.conditions, numbers)?;
    }
    bound.pauses.look()?;
    mark_used(tables, bound, tree.as_ref());
    used_inside.into_iter().for_each(|place| use_column(tables, place));
    // The last rule: those before read the outputs of queries in FROM.
    prune_outputs::prune(tables);
    bound.pauses.look()
}

fn use_column(tables: &mut [FromTable], place: usize) {
    if let Some(at) = number_at(tables, place) {
        let table = &mut tables[at];
        table.used.insert(place - table.offset);
    }
}

/// Marks the columns that an expression uses.
fn mark(tables: &mut [FromTable], expression: &Expression) {
    expression.visit(&mut |part| {
        if let Node::Column { index, .. } = part.node {
            use_column(tables, index as usize);
        }
    });
}

/// Marks the columns that the expressions of a block use.
fn mark_used(tables: &mut [FromTable], bound: &Bound, tree: Option<&JoinTree>) {
    let mut see = |expression: &Expression| mark(tables, expression);
    for_each_expression(bound, &mut see);
    if let Some(tree) = tree {
        tree.for_each_condition(&mut see);
    }
}

/// The places of a block's row that its subqueries and LATERAL tables use.
fn places_used_inside(tables: &[FromTable], subqueries: &[Subquery]) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    let mut see = |depth: usize, place: u32| {
        if depth == 1 {
            places.insert(place as usize);
        }
    };
    subqueries.iter().for_each(|subquery| subquery.query.for_each_outer(&mut see));
    for table in tables {
        if let (Source::Derived(query), Some(_)) = (&table.source, &table.lateral) {
            query.for_each_outer(&mut see);
        }
    }
    places
}

#[cfg(test)]
mod tests;
