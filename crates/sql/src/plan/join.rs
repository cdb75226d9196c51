//! FROM as operators: in which order tables are joined, and how.
//!
//! # Owns
//! The tree of joins of a block, where each condition is checked, the choice between lookups by
//! key, hash joins and nested loops.
//! # Guarantees
//! Conditions are checked as early as their tables allow, and never inside an outer join that they
//! stand outside of.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{BinaryOp, Comparison, Expression, Node, Pauses, SqlError};

use crate::logical::formula::Formula;
use crate::logical::from_table::{FromTable, JoinTree, Source, number_at, tables_of};
use crate::logical::predicate::has_subquery;
use crate::plan::equivalence::Equivalences;
use crate::plan::operator::{
    AccessPath, DerivedScan, HashKey, JoinSpec, Operator, QueryPlan, TableScan, VirtualScan,
};
use crate::plan::operator_id::IdSlot;
use crate::plan::order::{self, Method, Part};
use crate::plan::path::{self, Priced, Target};

/// Plans the joins of one block.
pub(crate) struct JoinPlanner<'a> {
    pub(crate) tables: &'a [FromTable],
    /// The plans of the queries among them, by the number of the table; empty where all are stored
    /// tables.
    pub(crate) plans: &'a [Option<Rc<QueryPlan>>],
    pub(crate) width: usize,
    /// What is called now and then.
    pub(crate) pauses: &'a Pauses,
}

impl JoinPlanner<'_> {
    /// The operators of a tree, with conditions that stand around it.
    pub(crate) fn plan(
        &self,
        tree: JoinTree,
        conditions: Vec<Expression>,
    ) -> Result<Operator, SqlError> {
        if !self.missing(&tree, &BTreeSet::new()).is_empty() {
            let what = "LATERAL that sees tables outside of its outer join";
            return Err(SqlError::not_supported(what));
        }
        match tree {
            JoinTree::Table(at) => self.read(at, conditions, &BTreeSet::new()),
            JoinTree::Inner { .. } => self.inner(tree, conditions),
            JoinTree::Left { left, right, conditions: on } => {
                self.left(*left, *right, on, conditions)
            }
        }
    }

    /// The tables that LATERAL tables of a tree see and that are neither in it nor there already.
    pub(super) fn missing(&self, tree: &JoinTree, done: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut tables = BTreeSet::new();
        tree.tables(&mut tables);
        let seen = tables.iter().filter_map(|at| self.tables[*at].lateral.as_ref()).flatten();
        seen.filter(|at| !tables.contains(at) && !done.contains(at)).copied().collect()
    }

    /// The tables an expression needs; all of them when it cannot be told.
    pub(super) fn needs(&self, expression: &Expression) -> BTreeSet<usize> {
        tables_of(self.tables, expression, self.pauses)
    }

    pub(super) fn table_at(&self, place: usize) -> Option<usize> {
        number_at(self.tables, place)
    }

    fn places(&self, tables: &BTreeSet<usize>) -> Vec<(usize, usize)> {
        let of = |at: &usize| {
            (self.tables[*at].offset, self.tables[*at].offset + self.tables[*at].columns)
        };
        tables.iter().map(of).collect()
    }

    /// Reads one table, with values of the tables before it at hand.
    fn read(
        &self,
        at: usize,
        conditions: Vec<Expression>,
        before: &BTreeSet<usize>,
    ) -> Result<Operator, SqlError> {
        let table = &self.tables[at];
        let (alias, offset, width) = (table.alias.clone(), table.offset, self.width);
        match &table.source {
            Source::Table(definition) => {
                let Priced { path, rows, covered, usable, allowed } =
                    self.path(at, &conditions, before);
                let distribution = match path {
                    AccessPath::Primary { .. } | AccessPath::Unique { .. } => None,
                    AccessPath::Ranges { .. } | AccessPath::Full => {
                        self.with_target(at, before, |target| {
                            path::distribution(target, &conditions)
                        })
                    }
                };
                let changes = table.lock.is_some() && self.tables.len() == 1;
                let hidden = changes && definition.hidden_key.is_some();
                let scan = TableScan {
                    slot: IdSlot::default(),
                    definition: definition.clone(),
                    alias,
                    offset,
                    width,
                    wanted: table.used.iter().copied().collect(),
                    path,
                    distribution,
                    conditions: formulas(conditions),
                    lock: table.lock,
                    limit: None,
                    ordered: None,
                    covered,
                    found: rows,
                    usable,
                    allowed,
                    hidden: hidden.then_some(width),
                };
                Ok(Operator::Scan(Box::new(scan)))
            }
            Source::Virtual(source) => {
                let conditions = formulas(conditions);
                let scan = VirtualScan { table: source, alias, offset, width, conditions };
                Ok(Operator::Virtual(scan))
            }
            Source::Derived(_) => {
                let plan = self.plans.get(at).cloned().flatten();
                let plan = plan.ok_or_else(|| SqlError::internal("a query without a plan"))?;
                let conditions = formulas(conditions);
                let scan = DerivedScan { plan, out: table.out, alias, offset, width, conditions };
                Ok(match &table.lateral {
                    None => Operator::Derived(scan),
                    Some(_) => {
                        let input = Operator::Nothing { width }.into();
                        let right_places = vec![(offset, offset + table.columns)];
                        let join = JoinSpec { outer: false, conditions: Vec::new(), right_places };
                        Operator::Lateral { input, scan, join }
                    }
                })
            }
        }
    }

    pub(super) fn path(
        &self,
        at: usize,
        conditions: &[Expression],
        before: &BTreeSet<usize>,
    ) -> Priced {
        let chosen = self.with_target(at, before, |target| Some(path::choose(target, conditions)));
        chosen.unwrap_or_else(|| Priced::whole(1_000.0))
    }

    /// Whether conditions say in which partition all rows of a table are that meet them.
    pub(super) fn asks_one_partition(
        &self,
        at: usize,
        conditions: &[Expression],
        before: &BTreeSet<usize>,
    ) -> bool {
        let keys = self.with_target(at, before, |target| path::distribution(target, conditions));
        keys.is_some_and(|keys| keys.len() == 1)
    }

    /// What is found out of a stored table, with values of the tables before it at hand; nothing of
    /// other sources.
    fn with_target<T>(
        &self,
        at: usize,
        before: &BTreeSet<usize>,
        find: impl FnOnce(&Target<'_>) -> Option<T>,
    ) -> Option<T> {
        let table = &self.tables[at];
        let Source::Table(definition) = &table.source else { return None };
        let available =
            |place: u32| self.table_at(place as usize).is_some_and(|table| before.contains(&table));
        let target = Target {
            definition,
            offset: table.offset as u32,
            is_available: &available,
            allows: &|name| table.allows(name),
            values: table.known.as_ref().map(|known| &*known.values),
        };
        find(&target)
    }

    fn left(
        &self,
        left: JoinTree,
        right: JoinTree,
        on: Vec<Expression>,
        conditions: Vec<Expression>,
    ) -> Result<Operator, SqlError> {
        let mut of_left = BTreeSet::new();
        left.tables(&mut of_left);
        let (inside, above): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|c| self.needs(c).is_subset(&of_left));
        let rows = self.known_rows(&left, &inside)?;
        let input = self.plan(left, inside)?;
        let mut right = with_tables(right);
        let mut method = None;
        if let Some(rows) = rows {
            let chosen;
            (right, chosen) = order::method(self, right, &on, &of_left, rows)?;
            method = Some(chosen);
        }
        let joined = self.attach(input, &of_left, right, on, true, method)?;
        Ok(filtered(joined, above))
    }

    /// About how many rows come of a tree, if somebody has counted those of its tables.
    fn known_rows(
        &self,
        tree: &JoinTree,
        conditions: &[Expression],
    ) -> Result<Option<f64>, SqlError> {
        let mut tables = BTreeSet::new();
        tree.tables(&mut tables);
        if tables.iter().any(|at| self.tables[*at].rows.is_none()) {
            return Ok(None);
        }
        // An outer join has a row at least for each on its left side.
        let mut first = tree;
        while let JoinTree::Left { left, .. } = first {
            first = left;
        }
        let (mut parts, mut pending) = (Vec::new(), conditions.to_vec());
        flatten(first.clone(), &mut parts, &mut pending);
        let parts: Vec<Part> = parts.into_iter().map(with_tables).collect();
        let equivalences = Equivalences::take(self, &mut pending);
        Ok(Some(order::order(self, &parts, &pending, &equivalences)?.rows))
    }

    /// Joins a subtree to what there is already.
    fn attach(
        &self,
        input: Operator,
        before: &BTreeSet<usize>,
        part: Part,
        conditions: Vec<Expression>,
        outer: bool,
        method: Option<Method>,
    ) -> Result<Operator, SqlError> {
        let Part { tree, tables: of_tree } = part;
        let right_places = self.places(&of_tree);
        if let JoinTree::Table(at) = tree
            && self.tables[at].lateral.is_some()
            && self.missing(&tree, before).is_empty()
            && let Operator::Lateral { scan, .. } = self.read(at, conditions.clone(), before)?
        {
            let join = JoinSpec { outer, conditions: Vec::new(), right_places };
            return Ok(Operator::Lateral { input: input.into(), scan, join });
        }
        if let JoinTree::Table(at) = tree
            && let Source::Table(_) = self.tables[at].source
            && method != Some(Method::Whole)
        {
            let priced = self.path(at, &conditions, before);
            let alone = self.path(at, &conditions, &BTreeSet::new());
            // Worth it when the rows before help to find the rows here.
            if priced.rows < alone.rows && !matches!(priced.path, AccessPath::Full) {
                let Operator::Scan(scan) = self.read(at, conditions, before)? else {
                    return Err(SqlError::internal("a table is read by a scan"));
                };
                let join = JoinSpec { outer, conditions: Vec::new(), right_places };
                return Ok(Operator::Lookup { input: input.into(), scan, join });
            }
        }
        let (own, across): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|c| self.needs(c).is_subset(&of_tree));
        let right = self.plan(tree, own)?.into();
        let (keys, rest) = self.hash_keys(across, before, &of_tree);
        let left = input.into();
        let join = JoinSpec { outer, conditions: formulas(rest), right_places };
        Ok(if keys.is_empty() {
            Operator::LoopJoin { left, right, join }
        } else {
            Operator::HashJoin { left, right, keys, join }
        })
    }

    /// Equalities between both sides become the key of a hash join.
    fn hash_keys(
        &self,
        conditions: Vec<Expression>,
        left: &BTreeSet<usize>,
        right: &BTreeSet<usize>,
    ) -> (Vec<HashKey>, Vec<Expression>) {
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for condition in conditions {
            let key = match &condition.node {
                Node::Compare(compare)
                    if matches!(compare.op, BinaryOp::Equal | BinaryOp::NullSafeEqual)
                        && compare.comparison != Comparison::Json
                        && !compare.comparison.sees_more_digits(&compare.left, &compare.right) =>
                {
                    let of = |side: &Expression| self.needs(side);
                    let (l, r) = (of(&compare.left), of(&compare.right));
                    let sides = if l.is_subset(left) && r.is_subset(right) && !r.is_empty() {
                        Some((&compare.left, &compare.right))
                    } else if r.is_subset(left) && l.is_subset(right) && !l.is_empty() {
                        Some((&compare.right, &compare.left))
                    } else {
                        None
                    };
                    sides.map(|(left, right)| HashKey {
                        left: Formula::new(left.clone()),
                        right: Formula::new(right.clone()),
                        comparison: compare.comparison,
                        null_safe: compare.op == BinaryOp::NullSafeEqual,
                    })
                }
                _ => None,
            };
            match key {
                Some(key) => keys.push(key),
                None => rest.push(condition),
            }
        }
        (keys, rest)
    }

    /// Inner joins, in the order that seems cheapest.
    fn inner(&self, tree: JoinTree, conditions: Vec<Expression>) -> Result<Operator, SqlError> {
        let (mut parts, mut pending) = (Vec::new(), conditions);
        flatten(tree, &mut parts, &mut pending);
        let parts: Vec<Part> = parts.into_iter().map(with_tables).collect();
        let equivalences = Equivalences::take(self, &mut pending);
        let order = order::order(self, &parts, &pending, &equivalences)?;
        let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut operator: Option<Operator> = None;
        for (next, method) in order.steps {
            let Some(part) = parts[next].take() else { continue };
            self.pauses.look()?;
            let reach: BTreeSet<usize> = done.union(&part.tables).copied().collect();
            let (mut now, later): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|c| self.needs(c).is_subset(&reach));
            now.extend(equivalences.ties(&part.tables, &done));
            pending = later;
            operator = Some(match operator {
                None => self.plan(part.tree, now)?,
                Some(input) => {
                    // Subqueries are for the rows that all else has left.
                    let waits =
                        |c: &Expression| has_subquery(c) && !self.needs(c).is_subset(&part.tables);
                    let (waiting, now): (Vec<_>, Vec<_>) = now.into_iter().partition(waits);
                    let joined = self.attach(input, &done, part, now, false, Some(method))?;
                    filtered(joined, waiting)
                }
            });
            done = reach;
        }
        let operator = operator.unwrap_or(Operator::Nothing { width: self.width });
        Ok(filtered(operator, pending))
    }
}

fn with_tables(tree: JoinTree) -> Part {
    let mut tables = BTreeSet::new();
    tree.tables(&mut tables);
    Part { tree, tables }
}

/// Nested inner joins are one.
fn flatten(tree: JoinTree, parts: &mut Vec<JoinTree>, conditions: &mut Vec<Expression>) {
    match tree {
        JoinTree::Inner { parts: inner, conditions: on } => {
            conditions.extend(on);
            inner.into_iter().for_each(|part| flatten(part, parts, conditions));
        }
        other => parts.push(other),
    }
}

fn filtered(input: Operator, conditions: Vec<Expression>) -> Operator {
    if conditions.is_empty() {
        return input;
    }
    Operator::Filter { input: input.into(), conditions: formulas(conditions) }
}

fn formulas(expressions: Vec<Expression>) -> Vec<Formula> {
    expressions.into_iter().map(Formula::new).collect()
}
