//! Queries in FROM that become parts of the block around them.
//!
//! `SELECT … FROM (SELECT a + 1 AS b FROM t WHERE c) d WHERE b = 7` asks the same as
//! `SELECT … FROM t WHERE c AND a + 1 = 7`, which finds its rows by indexes, orders all joins at
//! once and is computed next to the data. (MySQL 8.0 Reference Manual, 10.2.2.4, "Optimizing
//! Derived Tables, View References, and Common Table Expressions with Merging".)
//!
//! # Owns
//! Which derived tables, views and common tables are merged, and what becomes of the block.
//! # Guarantees
//! The block has the same rows. Names, types and what clients see of columns were decided before.
//! What is evaluated more often or less often has no effects and does not wait for anything.
//! # Not here
//! Views that stand for one table, through which rows are changed (`merge`); conditions that go
//! into queries which are computed apart (`push_condition`).

use std::collections::BTreeSet;

use sql_expression::Expression;

use crate::logical::bound::{self, Block, Bound, BoundQuery};
use crate::logical::from_table::{self, FromTable, JoinTree, Source, is_optional};
use crate::logical::hint;
use crate::logical::predicate;

/// A block while queries in its FROM are merged into it.
pub(super) struct Merging<'b> {
    pub(super) block: &'b mut Block,
    /// Places of the row that subqueries and LATERAL tables use.
    pub(super) used_inside: &'b BTreeSet<usize>,
}

impl Merging<'_> {
    /// Merges what can be merged; the conditions that the merged queries had.
    pub(super) fn merge(mut self) -> Vec<Expression> {
        let mut conditions = Vec::new();
        for at in 0..self.block.tables.len() {
            if let Some(inner) = self.mergeable(at) {
                self.merge_one(at, inner, &mut conditions);
            }
        }
        conditions
    }

    /// The query that a table of the block is, if it can be merged.
    fn mergeable(&self, at: usize) -> Option<Block> {
        let Block { tables, tree, shape, .. } = &*self.block;
        let (table, tree) = (&tables[at], tree.as_ref()?);
        let Source::Derived(query) = &table.source else { return None };
        if table.is_apart {
            return None;
        }
        let inner = mergeable_block(query)?;
        let places = table.places();
        let seen_inside = table.lateral.is_some()
            || self.used_inside.range(places.clone()).next().is_some()
            || tables.iter().any(|other| other.lateral.iter().flatten().any(|of| *of == at));
        let ordered = !inner.bound.order_by.is_empty();
        if seen_inside || ordered && !self.takes_order_of(at) {
            return None;
        }
        // Where rows may be missing, or totals stand for them, only what is a column there too is
        // what it is computed of here.
        if shape.rollup || is_optional(tree, at) {
            let used = self.used_of(places);
            let outputs = &inner.bound.outputs;
            if !used.iter().all(|place| outputs[*place].expression.as_column().is_some()) {
                return None;
            }
        }
        Some(inner.clone())
    }

    /// Whether rows come out of the block in the order in which they come out of a table.
    fn takes_order_of(&self, at: usize) -> bool {
        let Block { tree, bound, shape, .. } = &*self.block;
        let Bound { group_by, aggregates, windows, order_by, outputs, .. } = bound;
        matches!(tree, Some(JoinTree::Table(only)) if *only == at)
            && !shape.distinct
            && group_by.is_empty()
            && aggregates.is_empty()
            && windows.is_empty()
            && order_by.is_empty()
            && !outputs.iter().any(|output| output.expression.is_volatile())
    }

    /// Which of the columns of a table with these places something uses.
    fn used_of(&self, places: std::ops::Range<usize>) -> BTreeSet<usize> {
        let mut used = BTreeSet::new();
        let mut see = |expression: &Expression| {
            expression.for_each_column(&mut |place| {
                let place = place as usize;
                if places.contains(&place) {
                    used.insert(place - places.start);
                }
            });
        };
        bound::for_each_expression(&self.block.bound, &mut see);
        self.block.tree.iter().for_each(|tree| tree.for_each_condition(&mut see));
        used
    }

    fn merge_one(&mut self, at: usize, inner: Block, above: &mut Vec<Expression>) {
        let Block { tables: mut inner_tables, tree: inner_tree, mut bound, .. } = inner;
        let Block { tables, tree, bound: outer, width, .. } = &mut *self.block;
        let (Some(mut inner_tree), Some(tree)) = (inner_tree, tree) else { return };
        let by = *width;
        *width += inner.width;
        let out = tables[at].out;
        for table in &mut inner_tables {
            table.offset += by;
            table.out += out;
            table.used.clear();
        }
        let mut shift = |expression: &mut Expression| {
            expression.map_columns(&mut |place| place + by as u32);
        };
        bound::for_each_expression_mut(&mut bound, &mut shift);
        inner_tree.for_each_condition_mut(&mut shift);
        // The first of its tables stands in its place, the others behind all there are.
        let behind = tables.len();
        let place = |table| if table == 0 { at } else { behind + table - 1 };
        inner_tree.renumber(&place);
        let places = tables[at].places();
        hint::renumber(tables, at, &mut inner_tables, place);
        let mut rest = inner_tables.into_iter();
        if let Some(first) = rest.next() {
            tables[at] = first;
        }
        tables.extend(rest);
        let mut replace = |expression: &mut Expression| {
            expression.visit_mut(&mut |part| {
                let place = part.as_column().map(|place| place as usize);
                if let Some(place) = place.filter(|place| places.contains(place)) {
                    let nullable = part.result.nullable;
                    *part = bound.outputs[place - places.start].expression.clone();
                    part.result.nullable |= nullable;
                }
            });
        };
        bound::for_each_expression_mut(outer, &mut replace);
        tree.for_each_condition_mut(&mut replace);
        if !bound.order_by.is_empty() {
            let orders = bound.order_by.into_iter();
            let order = orders.map(|(expression, _, descending)| (expression, None, descending));
            outer.order_by = order.collect();
        }
        tree.put(at, inner_tree, &mut bound.conditions);
        above.append(&mut bound.conditions);
    }
}

/// The block that a query is, if that is nothing but rows of tables under conditions, and it does
/// not matter when and how often anything of it is evaluated.
fn mergeable_block(query: &BoundQuery) -> Option<&Block> {
    let block = query.as_block()?;
    let Block { tables, tree, bound, shape, .. } = block;
    let stands_alone = !query.correlated && query.subqueries.is_empty() && !shape.counts;
    let of_rows = !shape.distinct && bound.is_of_rows();
    let free = |table: &FromTable| table.lock.is_none() && table.lateral.is_none();
    let steady = |part: &Expression| predicate::is_steady(part) && !predicate::has_subquery(part);
    let outputs = bound.outputs.iter().map(|output| &output.expression);
    let sorts = bound.order_by.iter().map(|(expression, _, _)| expression);
    let is_mergeable = stands_alone
        && of_rows
        && tables.iter().all(free)
        && tree.iter().all(from_table::is_steady_tree)
        && outputs.chain(sorts).chain(&bound.conditions).all(steady);
    is_mergeable.then_some(block)
}
