//! In which order inner joins are made, and whether rows are looked up or a table is read whole.
//!
//! # Owns
//! The search for a cheap order: from each table on, always the cheapest next step.
//! # Not here
//! What steps cost (`cost`), and how many rows pass conditions (`selectivity`).

use std::collections::{BTreeMap, BTreeSet};

use sql_expression::{BinaryOp, Expression, Node, SqlError};
use sqltype::Datum;

use crate::logical::from_table::{FromTable, JoinTree, Source, table_at};
use crate::plan::cost::{
    COLUMNS_LEAST, JOIN, LATER, LOOK, LOOKUP, PROBE, RANGE, RANGE_OF_PARTITION, ROWS_UNKNOWN, SEND,
    SEND_ROW,
};
use crate::plan::equivalence::Equivalences;
use crate::plan::join::JoinPlanner;
use crate::plan::operator::AccessPath;
use crate::plan::selectivity::{self, ColumnOf, Columns};

/// How a part is joined to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Its rows are found by those before.
    Lookup,
    /// It is read by itself.
    Whole,
}

/// A part of an inner join.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) tree: JoinTree,
    /// The tables of the tree.
    pub(super) tables: BTreeSet<usize>,
}

/// An order of parts, each with its method.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) steps: Vec<(usize, Method)>,
    cost: f64,
    /// About how many rows come of it.
    pub(super) rows: f64,
}

/// The order of the parts; of none if there are none. Conditions are those that `equivalences` has
/// not taken.
///
/// # Errors
/// The statement is to end.
pub(super) fn order(
    planner: &JoinPlanner<'_>,
    parts: &[Part],
    conditions: &[Expression],
    equivalences: &Equivalences,
) -> Result<Order, SqlError> {
    let needs: Vec<BTreeSet<usize>> = conditions.iter().map(|c| planner.needs(c)).collect();
    let asked = asked(planner, parts);
    let is_asked = asked.iter().any(|before| !before.is_empty());
    let search = Search { planner, parts, conditions, equivalences, needs, asked };
    let best = search.best()?;
    if best.steps.len() < parts.len() && is_asked {
        // What is asked for cannot be.
        Search { asked: vec![BTreeSet::new(); parts.len()], ..search }.best()
    } else {
        Ok(best)
    }
}

/// The tables that the statement wants before each part, of those that other parts have.
fn asked(planner: &JoinPlanner<'_>, parts: &[Part]) -> Vec<BTreeSet<usize>> {
    let all: BTreeSet<usize> = parts.iter().flat_map(|part| &part.tables).copied().collect();
    let of = |Part { tables, .. }: &Part| {
        let before = tables.iter().flat_map(|at| &planner.tables[*at].after);
        before.filter(|at| all.contains(at) && !tables.contains(at)).copied().collect()
    };
    parts.iter().map(of).collect()
}

/// How a part is best joined to so many rows of the tables that are done.
pub(super) fn method(
    planner: &JoinPlanner<'_>,
    part: Part,
    conditions: &[Expression],
    done: &BTreeSet<usize>,
    rows: f64,
) -> Result<(Part, Method), SqlError> {
    let needs = conditions.iter().map(|c| planner.needs(c)).collect();
    let parts = [part];
    let (asked, equivalences) = (Vec::new(), &Equivalences::default());
    let search = Search { planner, parts: &parts, conditions, equivalences, needs, asked };
    let method = search.step(0, done, rows)?.method;
    let [part] = parts;
    Ok((part, method))
}

struct Search<'a> {
    planner: &'a JoinPlanner<'a>,
    parts: &'a [Part],
    conditions: &'a [Expression],
    /// Columns that are equal, whichever of them an order compares.
    equivalences: &'a Equivalences,
    /// The tables of each condition.
    needs: Vec<BTreeSet<usize>>,
    /// The tables that are wanted before each part.
    asked: Vec<BTreeSet<usize>>,
}

/// A step of an order.
struct Step {
    cost: f64,
    /// Rows there are after it.
    rows: f64,
    method: Method,
}

/// The conditions of a step.
struct Usable {
    conditions: Vec<Expression>,
    /// The share of the part's rows that those about the part alone leave.
    own: f64,
    /// The share of pairs that the others leave, by the tables that they tie the part to.
    ties: BTreeMap<BTreeSet<usize>, f64>,
}

impl Search<'_> {
    /// The cheapest order; of none if there are no parts.
    fn best(&self) -> Result<Order, SqlError> {
        let nothing = BTreeSet::new();
        let mut best: Option<Order> = None;
        for first in (0..self.parts.len()).filter(|at| self.may_come(*at, &nothing)) {
            let order = self.from(first, best.as_ref().map_or(f64::INFINITY, |b| b.cost))?;
            if best.as_ref().is_none_or(|least| order.cost < least.cost) {
                best = Some(order);
            }
        }
        Ok(best.unwrap_or(Order { steps: Vec::new(), cost: 0.0, rows: 1.0 }))
    }

    /// Whether a part may come next. LATERAL comes behind what it sees.
    fn may_come(&self, at: usize, done: &BTreeSet<usize>) -> bool {
        self.asked[at].is_subset(done)
            && self.planner.missing(&self.parts[at].tree, done).is_empty()
    }

    /// The order that begins with a part; given up when its cost exceeds a limit.
    fn from(&self, first: usize, limit: f64) -> Result<Order, SqlError> {
        let mut done = BTreeSet::new();
        let start = self.step(first, &done, 1.0)?;
        let (mut cost, mut rows) = (start.cost, start.rows);
        let mut order = vec![(first, Method::Whole)];
        done.extend(&self.parts[first].tables);
        while order.len() < self.parts.len() && cost < limit {
            let left = (0..self.parts.len())
                .filter(|at| self.may_come(*at, &done) && order.iter().all(|(o, _)| o != at));
            let mut left: Vec<usize> = left.collect();
            // Every row with every row only if nothing ties what is left to what is done.
            if left.iter().any(|at| self.is_tied(*at, &done)) {
                left.retain(|at| self.is_tied(*at, &done));
            }
            // What leaves few rows makes all later steps cheap.
            let price = |step: &Step| step.cost + step.rows * LATER;
            let mut next: Option<(usize, Step)> = None;
            for at in left {
                let step = self.step(at, &done, rows)?;
                if next.as_ref().is_none_or(|(_, least)| price(&step) < price(least)) {
                    next = Some((at, step));
                }
            }
            let Some((at, step)) = next else { break };
            cost += step.cost;
            rows = step.rows;
            order.push((at, step.method));
            done.extend(&self.parts[at].tables);
        }
        let complete = order.len() == self.parts.len();
        Ok(Order { steps: order, cost: if complete { cost } else { f64::INFINITY }, rows })
    }

    /// Whether an equality is about a part and what is done, and nothing else.
    fn is_tied(&self, at: usize, done: &BTreeSet<usize>) -> bool {
        let tables = &self.parts[at].tables;
        if self.equivalences.are_tied(tables, done) {
            return true;
        }
        let is_equality = |condition: &Expression| match &condition.node {
            Node::Compare(compare) => compare.op == BinaryOp::Equal,
            _ => false,
        };
        self.conditions.iter().zip(&self.needs).any(|(condition, needs)| {
            let both = !needs.is_disjoint(tables) && !needs.is_disjoint(done);
            is_equality(condition)
                && both
                && needs.iter().all(|table| tables.contains(table) || done.contains(table))
        })
    }

    /// The conditions that are checked when a part is joined to the tables that are done.
    fn usable(&self, tables: &BTreeSet<usize>, done: &BTreeSet<usize>) -> Usable {
        let reach: BTreeSet<usize> = done.union(tables).copied().collect();
        let (mut conditions, mut own, mut ties) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut tie = |condition: &Expression, needs: &BTreeSet<usize>| {
            let others: BTreeSet<usize> = needs.difference(tables).copied().collect();
            *ties.entry(others).or_insert(1.0) *= self.join_share(condition, done, tables);
        };
        for (condition, needs) in self.conditions.iter().zip(&self.needs) {
            if !needs.is_subset(&reach) || needs.is_subset(done) {
                continue;
            }
            conditions.push(condition.clone());
            if needs.is_subset(tables) {
                own.push(condition)
            } else {
                tie(condition, needs);
            }
        }
        for equality in self.equivalences.ties(tables, done) {
            tie(&equality, &self.planner.needs(&equality));
            conditions.push(equality);
        }
        Usable { conditions, own: selectivity::of_all(own, self), ties }
    }

    /// Joining a part to so many rows of those done.
    fn step(&self, at: usize, done: &BTreeSet<usize>, before: f64) -> Result<Step, SqlError> {
        self.planner.pauses.look()?;
        let Part { tree, tables } = &self.parts[at];
        let Usable { conditions: usable, own, ties } = self.usable(tables, done);
        let all = self.size(tree);
        // Several columns that tie two tables are most often one key of the smaller of them.
        let key_share = |others: &BTreeSet<usize>| {
            let sizes = others.iter().map(|at| size(&self.planner.tables[*at]));
            1.0 / sizes.fold(0.0, f64::max).min(all).max(1.0)
        };
        let tied = |(others, share): (&BTreeSet<usize>, &f64)| share.max(key_share(others));
        let across: f64 = ties.iter().map(tied).product();
        let passing = (all * own).max(1.0);
        let rows = (before * passing * across).max(if done.is_empty() { 1.0 } else { 0.1 });
        let alone = self.path(tree, &usable, &BTreeSet::new());
        // Without anything in common every row meets every row.
        let apart = usable.iter().all(|condition| self.planner.needs(condition).is_disjoint(done));
        // Rows that have no match do not come: those who read them are told the keys.
        let in_columns = all.max(before) >= COLUMNS_LEAST;
        let told = !done.is_empty() && !apart && in_columns;
        let sent = if told { passing.min(rows.max(1.0)) } else { passing };
        let send = if in_columns { SEND } else { SEND_ROW };
        let whole = match &alone {
            Some((AccessPath::Full, _)) | None => all * LOOK + sent * send + RANGE,
            Some((_, found)) => found.max(1.0) * (LOOK + send) + RANGE,
        };
        let pairs = if apart { before * passing } else { rows };
        let whole = whole + before * PROBE + pairs * JOIN;
        if done.is_empty() {
            return Ok(Step { cost: whole, rows, method: Method::Whole });
        }
        let lookup = match self.path(tree, &usable, done) {
            Some((AccessPath::Primary { .. } | AccessPath::Unique { .. }, _)) => {
                before * LOOKUP + rows * JOIN
            }
            Some((AccessPath::Ranges { .. }, found)) => {
                if alone.as_ref().is_some_and(|(_, by_itself)| *by_itself <= found) {
                    f64::INFINITY
                } else {
                    // What the sizes of both tables say may be more.
                    let each = found.max(rows / before).max(1.0);
                    let in_one = matches!(tree, JoinTree::Table(at)
                            if self.planner.asks_one_partition(*at, &usable, done));
                    let opening = if in_one { RANGE_OF_PARTITION } else { RANGE };
                    before * (opening + each * (LOOK + SEND_ROW)) + rows * JOIN
                }
            }
            _ => f64::INFINITY,
        };
        let unique =
            matches!(alone, Some((AccessPath::Primary { .. } | AccessPath::Unique { .. }, _)));
        Ok(if lookup < whole && !unique {
            Step { cost: lookup, rows, method: Method::Lookup }
        } else {
            Step { cost: whole, rows, method: Method::Whole }
        })
    }

    /// The path of a table, and about how many rows it finds each time.
    fn path(
        &self,
        tree: &JoinTree,
        conditions: &[Expression],
        before: &BTreeSet<usize>,
    ) -> Option<(AccessPath, f64)> {
        let JoinTree::Table(at) = tree else { return None };
        let Source::Table(_) = self.planner.tables[*at].source else { return None };
        let priced = self.planner.path(*at, conditions, before);
        let is_known = self.planner.tables[*at].known.is_some();
        let found = match &priced.path {
            AccessPath::Ranges { .. } if is_known && priced.covered => {
                self.size(tree) * selectivity::of_all(conditions, self)
            }
            AccessPath::Ranges { .. } => priced.rows / ROWS_UNKNOWN * self.size(tree),
            AccessPath::Full => self.size(tree),
            _ => priced.rows,
        };
        Some((priced.path, found))
    }

    /// About how many rows a part has.
    fn size(&self, tree: &JoinTree) -> f64 {
        match tree {
            JoinTree::Table(at) => size(&self.planner.tables[*at]),
            JoinTree::Inner { parts, .. } => parts.iter().map(|p| self.size(p)).fold(1.0, f64::max),
            JoinTree::Left { left, right, .. } => self.size(left).max(self.size(right)),
        }
    }

    /// The share of pairs that meets a condition between what is done and a part.
    fn join_share(
        &self,
        condition: &Expression,
        done: &BTreeSet<usize>,
        tables: &BTreeSet<usize>,
    ) -> f64 {
        let Node::Compare(compare) = &condition.node else {
            return selectivity::of(condition, self);
        };
        let (left, right) = (self.planner.needs(&compare.left), self.planner.needs(&compare.right));
        let between = left.is_subset(done) && right.is_subset(tables)
            || right.is_subset(done) && left.is_subset(tables);
        if compare.op != BinaryOp::Equal || !between {
            return selectivity::of(condition, self);
        }
        selectivity::of_equality(&compare.left, &compare.right, self)
    }
}

impl Columns for Search<'_> {
    fn column(&self, side: &Expression) -> Option<ColumnOf> {
        let place = side.as_column()? as usize;
        let table = table_at(self.planner.tables, place)?;
        let Source::Table(definition) = &table.source else { return None };
        let (at, rows) = (place - table.offset, size(table));
        let values = table.known.as_ref().map(|known| known.values.clone());
        Some(ColumnOf { definition: definition.clone(), at, rows, values })
    }

    fn value(&self, expression: &Expression) -> Option<Datum> {
        let known = self.planner.tables.iter().find_map(|table| table.known.as_ref());
        known.map_or_else(
            || expression.as_constant().cloned(),
            |known| known.constants.value(expression),
        )
    }
}

/// About how many rows a table has, known or not.
fn size(table: &FromTable) -> f64 {
    match (&table.source, table.rows) {
        (_, Some(rows)) => (rows as f64).max(1.0),
        (Source::Table(_), None) => ROWS_UNKNOWN,
        (Source::Virtual(_) | Source::Derived(_), None) => 1_000.0,
    }
}
