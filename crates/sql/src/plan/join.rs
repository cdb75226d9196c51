//! FROM as operators: in which order tables are joined, and how.
//!
//! # Owns
//! The tree of joins of a block, where each condition is checked, the choice between lookups by
//! key, hash joins and nested loops.
//! # Guarantees
//! Conditions are checked as early as their tables allow, and never inside an outer join that they
//! stand outside of.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use sql_expression::{BinaryOp, Comparison, Expression, Node, Pauses, SqlError};
use wire::{LockMode, WaitPolicy};

use crate::catalog::TableDefinition;
use crate::information::VirtualTable;
use crate::plan::cost::ROWS_UNKNOWN;
use crate::plan::keyed::has_subquery;
use crate::plan::merge::ViewCheck;
use crate::plan::operator::{
    AccessPath, DerivedScan, Formula, HashKey, JoinSpec, Operator, QueryPlan, TableScan,
    VirtualScan,
};
use crate::plan::order::{self, Method, Part};
use crate::plan::path::{self, Priced, Target};
use crate::plan::selectivity::Known;

/// A table of FROM.
#[derive(Clone, Debug)]
pub(crate) struct FromTable {
    pub(crate) alias: String,
    pub(crate) offset: usize,
    pub(crate) columns: usize,
    pub(crate) source: Source,
    /// About how many rows it has, if that is known.
    pub(crate) rows: Option<u64>,
    /// How its values are distributed, if that is known.
    pub(crate) known: Option<Known>,
    pub(crate) lock: Option<(LockMode, WaitPolicy)>,
    /// A common table: how many blocks further out it was defined.
    pub(crate) out: usize,
    /// LATERAL: the tables of the block whose rows it sees.
    pub(crate) lateral: Option<BTreeSet<usize>>,
    /// It stands for a view, WITH CHECK OPTION or without.
    pub(crate) view: Option<bool>,
    /// What that asks of rows.
    pub(crate) check: Option<Rc<ViewCheck>>,
    /// Positions of columns that something uses.
    pub(crate) used: BTreeSet<usize>,
    /// FORCE and USE INDEX: only these; IGNORE INDEX: not these.
    pub(crate) only: Option<Vec<String>>,
    pub(crate) ignored: Vec<String>,
    /// They come of optimizer hints.
    pub(crate) is_hinted: bool,
    /// A query that the statement wants to be computed apart.
    pub(crate) is_apart: bool,
    /// The tables that the statement wants to be joined before it.
    pub(crate) after: BTreeSet<usize>,
}

impl FromTable {
    /// About how many rows it has, known or not.
    pub(crate) fn size(&self) -> f64 {
        match (&self.source, self.rows) {
            (_, Some(rows)) => (rows as f64).max(1.0),
            (Source::Table(_), None) => ROWS_UNKNOWN,
            (Source::Virtual(_) | Source::Derived(_), None) => 1_000.0,
        }
    }

    /// The places of the block's row that its columns have.
    pub(crate) fn places(&self) -> Range<usize> {
        self.offset..self.offset + self.columns
    }

    /// Whether the hints of the statement let an index be used.
    pub(crate) fn allows(&self, index: &str) -> bool {
        let named = |list: &Vec<String>| list.iter().any(|name| name.eq_ignore_ascii_case(index));
        self.only.as_ref().is_none_or(named) && !named(&self.ignored)
    }
}

/// Where its rows come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Table(Rc<TableDefinition>),
    Virtual(&'static VirtualTable),
    Derived(Rc<QueryPlan>),
}

/// The tree of joins, by numbers of tables.
#[derive(Clone, Debug)]
pub(crate) enum JoinTree {
    Table(usize),
    Inner { parts: Vec<JoinTree>, conditions: Vec<Expression> },
    Left { left: Box<JoinTree>, right: Box<JoinTree>, conditions: Vec<Expression> },
}

impl JoinTree {
    fn tables(&self, into: &mut BTreeSet<usize>) {
        match self {
            Self::Table(at) => {
                into.insert(*at);
            }
            Self::Inner { parts, .. } => parts.iter().for_each(|part| part.tables(into)),
            Self::Left { left, right, .. } => {
                left.tables(into);
                right.tables(into);
            }
        }
    }

    /// Whether a table is in it.
    pub(super) fn has(&self, table: usize) -> bool {
        let mut tables = BTreeSet::new();
        self.tables(&mut tables);
        tables.contains(&table)
    }

    /// Calls `see` with each condition of joins.
    pub(super) fn for_each_condition(&self, see: &mut dyn FnMut(&Expression)) {
        match self {
            Self::Table(_) => {}
            Self::Inner { parts, conditions } => {
                conditions.iter().for_each(&mut *see);
                parts.iter().for_each(|part| part.for_each_condition(see));
            }
            Self::Left { left, right, conditions } => {
                conditions.iter().for_each(&mut *see);
                left.for_each_condition(see);
                right.for_each_condition(see);
            }
        }
    }

    /// As [`JoinTree::for_each_condition`], to change them.
    pub(super) fn for_each_condition_mut(&mut self, change: &mut dyn FnMut(&mut Expression)) {
        match self {
            Self::Table(_) => {}
            Self::Inner { parts, conditions } => {
                conditions.iter_mut().for_each(&mut *change);
                parts.iter_mut().for_each(|part| part.for_each_condition_mut(change));
            }
            Self::Left { left, right, conditions } => {
                conditions.iter_mut().for_each(&mut *change);
                left.for_each_condition_mut(change);
                right.for_each_condition_mut(change);
            }
        }
    }

    /// Gives its tables other numbers.
    pub(super) fn renumber(&mut self, number: &dyn Fn(usize) -> usize) {
        match self {
            Self::Table(at) => *at = number(*at),
            Self::Inner { parts, .. } => parts.iter_mut().for_each(|part| part.renumber(number)),
            Self::Left { left, right, .. } => {
                left.renumber(number);
                right.renumber(number);
            }
        }
    }

    /// Puts a tree in the place of a table of which there are only rows that meet conditions: they
    /// become those of the join around it. What is left of them holds for all rows.
    pub(super) fn put(&mut self, table: usize, tree: JoinTree, conditions: &mut Vec<Expression>) {
        match self {
            Self::Table(_) => *self = tree,
            Self::Inner { parts, conditions: on } => {
                if let Some(part) = parts.iter_mut().find(|part| part.has(table)) {
                    part.put(table, tree, conditions);
                    on.append(conditions);
                }
            }
            Self::Left { right, conditions: on, .. } if right.has(table) => {
                right.put(table, tree, conditions);
                on.append(conditions);
            }
            Self::Left { left, .. } => left.put(table, tree, conditions),
        }
    }
}

/// Plans the joins of one block.
pub(crate) struct JoinPlanner<'a> {
    pub(crate) tables: &'a [FromTable],
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
            JoinTree::Table(at) => Ok(self.read(at, conditions, &BTreeSet::new()).0),
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
        let mut tables = BTreeSet::new();
        let mut all = false;
        let mut parts = 0;
        expression.visit(&mut |part| {
            parts += 1;
            match &part.node {
                Node::Column { index, .. } => {
                    tables.extend(self.table_at(*index as usize));
                }
                Node::Subquery(subquery) if subquery.correlated => all = true,
                _ => {}
            }
        });
        // Whoever asks may ask for thousands of conditions; that it is to end it hears elsewhere.
        let _ = self.pauses.count(parts);
        if all { (0..self.tables.len()).collect() } else { tables }
    }

    fn table_at(&self, place: usize) -> Option<usize> {
        self.tables.iter().position(|table| table.places().contains(&place))
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
    ) -> (Operator, f64) {
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
                (Operator::Scan(Box::new(scan)), rows)
            }
            Source::Virtual(source) => {
                let conditions = formulas(conditions);
                let scan = VirtualScan { table: source, alias, offset, width, conditions };
                (Operator::Virtual(scan), 1_000.0)
            }
            Source::Derived(plan) => {
                let (plan, conditions) = (plan.clone(), formulas(conditions));
                let scan = DerivedScan { plan, out: table.out, alias, offset, width, conditions };
                let operator = match &table.lateral {
                    None => Operator::Derived(scan),
                    Some(_) => {
                        let input = Box::new(Operator::Nothing { width });
                        let right_places = vec![(offset, offset + table.columns)];
                        let join = JoinSpec { outer: false, conditions: Vec::new(), right_places };
                        Operator::Lateral { input, scan, join }
                    }
                };
                (operator, 1_000.0)
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
        let (mut of_left, mut of_right) = (BTreeSet::new(), BTreeSet::new());
        left.tables(&mut of_left);
        right.tables(&mut of_right);
        let (inside, above): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|c| self.needs(c).is_subset(&of_left));
        let rows = self.known_rows(&left, &inside)?;
        let input = self.plan(left, inside)?;
        let (mut right, mut method) = ((right, of_right), None);
        if let Some(rows) = rows {
            let chosen;
            (right, chosen) = order::method(self, right, &on, (&of_left, rows))?;
            method = Some(chosen);
        }
        let joined = self.attach(input, &of_left, right.0, right.1, on, (true, method))?;
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
        Ok(Some(order::order(self, &parts, &pending)?.rows))
    }

    /// Joins a subtree to what there is already.
    fn attach(
        &self,
        input: Operator,
        before: &BTreeSet<usize>,
        tree: JoinTree,
        of_tree: BTreeSet<usize>,
        conditions: Vec<Expression>,
        (outer, method): (bool, Option<Method>),
    ) -> Result<Operator, SqlError> {
        let right_places = self.places(&of_tree);
        if let JoinTree::Table(at) = tree
            && self.tables[at].lateral.is_some()
            && self.missing(&tree, before).is_empty()
            && let (Operator::Lateral { scan, .. }, _) = self.read(at, conditions.clone(), before)
        {
            let join = JoinSpec { outer, conditions: Vec::new(), right_places };
            return Ok(Operator::Lateral { input: Box::new(input), scan, join });
        }
        if let JoinTree::Table(at) = tree
            && let Source::Table(_) = self.tables[at].source
            && method != Some(Method::Whole)
        {
            let priced = self.path(at, &conditions, before);
            let alone = self.path(at, &conditions, &BTreeSet::new());
            // Worth it when the rows before help to find the rows here.
            if priced.rows < alone.rows && !matches!(priced.path, AccessPath::Full) {
                let (operator, _) = self.read(at, conditions, before);
                let Operator::Scan(scan) = operator else {
                    return Err(SqlError::internal("a table is read by a scan"));
                };
                let join = JoinSpec { outer, conditions: Vec::new(), right_places };
                return Ok(Operator::Lookup { input: Box::new(input), scan, join });
            }
        }
        let (own, across): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|c| self.needs(c).is_subset(&of_tree));
        let right = Box::new(self.plan(tree, own)?);
        let (keys, rest) = self.hash_keys(across, before, &of_tree);
        let left = Box::new(input);
        let join = JoinSpec { outer, conditions: formulas(rest), right_places };
        Ok(match keys.is_empty() {
            true => Operator::LoopJoin { left, right, join },
            false => Operator::HashJoin { left, right, keys, join },
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
        let order = order::order(self, &parts, &pending)?;
        let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
        let mut done: BTreeSet<usize> = BTreeSet::new();
        let mut operator: Option<Operator> = None;
        for (next, method) in order.steps {
            let Some((part, tables)) = parts[next].take() else { continue };
            self.pauses.look()?;
            let reach: BTreeSet<usize> = done.union(&tables).copied().collect();
            let (now, later): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|c| self.needs(c).is_subset(&reach));
            pending = later;
            operator = Some(match operator {
                None => self.plan(part, now)?,
                Some(input) => {
                    // Subqueries are for the rows that all else has left.
                    let waits =
                        |c: &Expression| has_subquery(c) && !self.needs(c).is_subset(&tables);
                    let (waiting, now): (Vec<_>, Vec<_>) = now.into_iter().partition(waits);
                    let method = (false, Some(method));
                    filtered(self.attach(input, &done, part, tables, now, method)?, waiting)
                }
            });
            done = reach;
        }
        let operator = operator.unwrap_or(Operator::Nothing { width: self.width });
        Ok(filtered(operator, pending))
    }
}

fn with_tables(part: JoinTree) -> Part {
    let mut tables = BTreeSet::new();
    part.tables(&mut tables);
    (part, tables)
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
    Operator::Filter { input: Box::new(input), conditions: formulas(conditions) }
}

fn formulas(expressions: Vec<Expression>) -> Vec<Formula> {
    expressions.into_iter().map(Formula::new).collect()
}
