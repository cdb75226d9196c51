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
//! into queries which are computed apart (`derived_condition`).

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{Expression, ResultType};
use sqltype::Datum;

use crate::plan::bound::{self, BlockParts, Bound};
use crate::plan::from_table::{self, FromTable, JoinTree, Source};
use crate::plan::hint;
use crate::plan::operator::{Formula, Operator, QueryPlan};
use crate::plan::predicate;

/// A block with its names resolved, before its operators are made.
pub(super) struct Block<'b> {
    pub(super) tables: &'b mut Vec<FromTable>,
    pub(super) tree: JoinTree,
    pub(super) bound: &'b mut Bound,
    /// Places of the row.
    pub(super) width: usize,
    /// Places of the row that subqueries and LATERAL tables use.
    pub(super) used_inside: &'b BTreeSet<usize>,
    pub(super) distinct: bool,
    pub(super) rollup: bool,
}

impl Block<'_> {
    /// Merges what can be merged; gives the joins, the width of the row, and the conditions that
    /// the merged queries had.
    pub(super) fn merge(mut self) -> (JoinTree, usize, Vec<Expression>) {
        let mut conditions = Vec::new();
        for at in 0..self.tables.len() {
            if let Some(inner) = self.mergeable(at) {
                self.merge_one(at, inner, &mut conditions);
            }
        }
        (self.tree, self.width, conditions)
    }

    /// What a table of the block is made of, if it can be merged.
    fn mergeable(&self, at: usize) -> Option<BlockParts> {
        let table = &self.tables[at];
        let Source::Derived(plan) = &table.source else { return None };
        if table.is_apart {
            return None;
        }
        let inner = ingredients_of(plan)?;
        let places = table.places();
        let seen_inside = table.lateral.is_some()
            || self.used_inside.range(places.clone()).next().is_some()
            || self.tables.iter().any(|other| other.lateral.iter().flatten().any(|of| *of == at));
        let ordered = !inner.bound.order_by.is_empty();
        if seen_inside || ordered && !self.takes_order_of(at) {
            return None;
        }
        // Where rows may be missing, or totals stand for them, only what is a column there too is
        // what it is computed of here.
        if self.rollup || is_optional(&self.tree, at) {
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
        let Bound { group_by, aggregates, windows, order_by, outputs, .. } = &*self.bound;
        matches!(self.tree, JoinTree::Table(only) if only == at)
            && !self.distinct
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
        bound::for_each_expression(self.bound, &mut see);
        self.tree.for_each_condition(&mut see);
        used
    }

    fn merge_one(&mut self, at: usize, inner: BlockParts, above: &mut Vec<Expression>) {
        let BlockParts { tables: mut inner_tables, tree: mut inner_tree, mut bound, .. } = inner;
        let by = self.width;
        self.width += inner.width;
        let out = self.tables[at].out;
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
        let behind = self.tables.len();
        let place = |table| if table == 0 { at } else { behind + table - 1 };
        inner_tree.renumber(&place);
        let places = self.tables[at].places();
        hint::renumber(self.tables, at, &mut inner_tables, place);
        let mut rest = inner_tables.into_iter();
        if let Some(first) = rest.next() {
            self.tables[at] = first;
        }
        self.tables.extend(rest);
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
        bound::for_each_expression_mut(self.bound, &mut replace);
        self.tree.for_each_condition_mut(&mut replace);
        if !bound.order_by.is_empty() {
            let orders = bound.order_by.into_iter();
            let order = orders.map(|(expression, _, descending)| (expression, None, descending));
            self.bound.order_by = order.collect();
        }
        self.tree.put(at, inner_tree, &mut bound.conditions);
        above.append(&mut bound.conditions);
    }
}

/// What a query was made of, if that is nothing but rows of tables under conditions, and it does
/// not matter when and how often anything of it is evaluated.
fn ingredients_of(plan: &QueryPlan) -> Option<&BlockParts> {
    let block = plan.ingredients.as_deref()?.as_block()?;
    let BlockParts { tables, tree, bound, shape, .. } = block;
    let stands_alone = !plan.correlated && plan.subqueries.is_empty() && !plan.counts_found_rows;
    let of_rows = !shape.distinct && bound.is_of_rows();
    let free = |table: &FromTable| table.lock.is_none() && table.lateral.is_none();
    let steady = |part: &Expression| predicate::is_steady(part) && !predicate::has_subquery(part);
    let outputs = bound.outputs.iter().map(|output| &output.expression);
    let sorts = bound.order_by.iter().map(|(expression, _, _)| expression);
    let is_mergeable = stands_alone
        && of_rows
        && tables.iter().all(free)
        && from_table::is_steady_tree(tree)
        && outputs.chain(sorts).chain(&bound.conditions).all(steady);
    is_mergeable.then_some(block)
}

/// Whether an outer join may have no row of a table.
pub(super) fn is_optional(tree: &JoinTree, at: usize) -> bool {
    match tree {
        JoinTree::Table(_) => false,
        JoinTree::Inner { parts, .. } => parts.iter().any(|part| is_optional(part, at)),
        JoinTree::Left { left, right, .. } => right.has(at) || is_optional(left, at),
    }
}

/// Takes out of queries in FROM what nothing uses of their rows, so that it cannot fail.
pub(super) fn forget_unused(tables: &mut [FromTable]) {
    for table in tables {
        let Source::Derived(plan) = &mut table.source else { continue };
        let root = Rc::get_mut(plan).map(|plan| &mut plan.root.operator);
        let Some(Operator::Project { expressions, .. }) = root else { continue };
        for (at, formula) in expressions.iter_mut().enumerate() {
            let is_plain =
                formula.expression.as_column().is_some() || formula.expression.is_volatile();
            if !is_plain && !table.used.contains(&at) {
                let result = ResultType { nullable: true, ..formula.expression.result.clone() };
                *formula = Formula::new(Expression::constant(Datum::Null, result));
            }
        }
    }
}

/// Lets go of what queries in FROM were made of: no block around this one makes other plans.
pub(super) fn forget_ingredients(tables: &mut [FromTable]) {
    for table in tables {
        if let Source::Derived(plan) = &mut table.source
            && let Some(plan) = Rc::get_mut(plan)
        {
            plan.ingredients = None;
        }
    }
}
