//! How many rows operators are expected to give, and what that costs, for EXPLAIN.
//!
//! # Owns
//! [`Estimates`], over the sizes of tables that the SQL node knows.
//! # Limits
//! The planner's own guesses (`order`, `selectivity`), made again over the finished plan.

use std::cell::RefCell;

use sql_expression::{Expression, Node};
use sqltype::Datum;

use crate::logical::formula::{Bounds, Formula};
use crate::plan::cost::{JOIN, LOOK, LOOKUP, PROBE, RANGE, RANGE_OF_PARTITION, ROWS_UNKNOWN, SEND};
use crate::plan::operator::{AccessPath, HashKey, IndexRange, Operator, QueryPlan, TableScan};
use crate::plan::operator_id::PerOperator;
use crate::plan::selectivity::{self, ColumnOf, Columns};
use crate::session::Session;
use crate::session::planning::PlanningView;

/// Rows of what nobody can count.
const ROWS_OF_OTHERS: f64 = 1_000.0;

/// What is expected of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    /// Rows that it gives.
    pub(crate) rows: f64,
    /// Rows that a scan looks at each time it is begun.
    pub(crate) examined: f64,
    /// The share of these that meets its conditions.
    pub(crate) share: f64,
    /// What it costs with those below it: 1 is a row looked at in a data node, about 0.03 µs.
    pub(crate) cost: f64,
}

/// What was expected of a query when it was planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Whether the sizes of all its tables were known.
    knows_sizes: bool,
    estimate: Estimate,
}

/// Guesses about the operators of a query. Each query in FROM is looked at once, in however many
/// places it is used.
pub(crate) struct Estimates<'a> {
    session: PlanningView<'a>,
    /// What was found of queries in FROM, by the ids of their roots.
    found: RefCell<PerOperator<Expected>>,
}

impl<'a> Estimates<'a> {
    /// By the sizes of tables that the session knows.
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session: session.into(), found: RefCell::default() }
    }

    /// The same for the planner.
    pub(crate) fn in_planning(session: PlanningView<'a>) -> Self {
        Self { session, found: RefCell::default() }
    }

    /// What is expected of an operator.
    pub(crate) fn of(&self, operator: &Operator) -> Estimate {
        match operator {
            Operator::Nothing { .. } => flat(1.0, 0.0),
            Operator::Rows(rows) => flat(rows.len() as f64, 0.0),
            Operator::Scan(scan) => self.scan(operator, scan),
            Operator::Edges { edges, .. } => flat(1.0, edges.len() as f64 * RANGE),
            Operator::Virtual(scan) => {
                let rows = ROWS_OF_OTHERS * self.share(operator, &scan.conditions);
                flat(rows.max(1.0), ROWS_OF_OTHERS * JOIN)
            }
            Operator::WorkTable { .. } | Operator::JsonTable(_) => flat(ROWS_OF_OTHERS, 0.0),
            Operator::Derived(scan) => {
                let inner = self.expected(&scan.plan).estimate;
                let rows = inner.rows * self.share(operator, &scan.conditions);
                flat(rows.max(1.0), inner.cost)
            }
            Operator::Lateral { input, scan, .. } => {
                let (input, inner) = (self.of(input), self.expected(&scan.plan).estimate);
                flat(input.rows * inner.rows, input.cost + input.rows * inner.cost)
            }
            Operator::Recursive(recursion) => {
                let first = self.of(&recursion.first);
                let parts = recursion.parts.iter().map(|(part, _)| self.of(part));
                let (rows, cost) = parts.fold((first.rows, first.cost), |(rows, cost), part| {
                    (rows + part.rows, cost + part.cost)
                });
                flat(rows, cost)
            }
            Operator::Lookup { .. } | Operator::HashJoin { .. } | Operator::LoopJoin { .. } => {
                self.join(operator)
            }
            Operator::Filter { input, conditions } => {
                let input = self.of(input);
                let rows = (input.rows * self.share(operator, conditions)).max(0.1);
                flat(rows, input.cost + input.rows * PROBE)
            }
            Operator::Aggregate(aggregate) => {
                let input = self.of(&aggregate.input);
                let of = |key: &Formula| self.distinct(operator, &key.expression).unwrap_or(20.0);
                let groups: f64 = aggregate.group.iter().map(of).product();
                flat(groups.min(input.rows).max(1.0), input.cost + input.rows * PROBE)
            }
            Operator::Limit { input, bounds } => self.limited(input, bounds),
            Operator::Sort { input, limit, .. } => {
                let all = self.of(input);
                let rows = limit.as_ref().and_then(count).map_or(all.rows, |n| all.rows.min(n));
                flat(rows, all.cost + all.rows * JOIN)
            }
            Operator::Project { input, .. } | Operator::Distinct { input, .. } => self.of(input),
            Operator::Window(windows) => {
                let input = self.of(&windows.input);
                flat(input.rows, input.cost + input.rows * JOIN)
            }
            Operator::Set { first, rest, .. } => {
                let first = self.of(first);
                let rest = rest.iter().map(|(_, part)| self.of(part));
                let (rows, cost) = rest.fold((first.rows, first.cost), |(rows, cost), part| {
                    (rows + part.rows, cost + part.cost)
                });
                flat(rows, cost)
            }
        }
    }

    fn join(&self, operator: &Operator) -> Estimate {
        match operator {
            Operator::Lookup { input, scan, join } => {
                let of_key = self.rows_of_range(input, scan);
                let (input, each) = (self.of(input), self.scan(operator, scan));
                let rows = input.rows * each.rows.max(of_key);
                let rows = rows.max(if join.outer { input.rows } else { 0.0 });
                let cost = match scan.path {
                    AccessPath::Ranges { .. } | AccessPath::Full => each.cost,
                    _ => LOOKUP,
                };
                let cost = input.cost + input.rows * cost + rows * JOIN;
                Estimate { rows, cost, ..each }
            }
            Operator::HashJoin { left, right, keys, join } => {
                let (l, r) = (self.of(left), self.of(right));
                let below = Below { estimates: self, operator };
                let per_key = |key: &HashKey| {
                    selectivity::of_equality(&key.left.expression, &key.right.expression, &below)
                };
                let tied: f64 = keys.iter().map(per_key).product();
                let rows = l.rows * r.rows * tied * self.share(operator, &join.conditions);
                let rows = rows.max(if join.outer { l.rows } else { 0.1 });
                flat(rows, l.cost + r.cost + (l.rows + r.rows) * PROBE + rows * JOIN)
            }
            Operator::LoopJoin { left, right, join } => {
                let (l, r) = (self.of(left), self.of(right));
                let pairs = l.rows * r.rows;
                let rows = pairs * self.share(operator, &join.conditions);
                let rows = rows.max(if join.outer { l.rows } else { 0.1 });
                flat(rows, l.cost + r.cost + pairs * JOIN)
            }
            _ => flat(ROWS_OF_OTHERS, 0.0),
        }
    }

    /// About how many rows a query gives, if somebody has counted those of its tables.
    pub(crate) fn rows(&self, plan: &QueryPlan) -> Option<u64> {
        let Expected { knows_sizes, estimate } = self.expected(plan);
        knows_sizes.then_some(estimate.rows as u64)
    }

    /// What is expected of a query.
    fn expected(&self, plan: &QueryPlan) -> Expected {
        let expected = || Expected {
            knows_sizes: self.knows_sizes(&plan.root),
            estimate: self.of(&plan.root),
        };
        // Ids are given when the statement is planned.
        let Some(id) = plan.root.id_if_finished() else {
            return *plan.expected.get_or_init(expected);
        };
        if let Some(found) = self.found.borrow().get(id) {
            return *found;
        }
        let expected = expected();
        self.found.borrow_mut().insert(id, expected);
        expected
    }

    fn knows_sizes(&self, operator: &Operator) -> bool {
        let counted = |scan: &TableScan| self.session.rows(scan.definition.table.id).is_some();
        let own = match operator {
            Operator::Scan(scan) | Operator::Lookup { scan, .. } => counted(scan),
            Operator::Edges { edges, .. } => edges.iter().all(|edge| counted(&edge.scan)),
            Operator::Derived(scan) | Operator::Lateral { scan, .. } => {
                self.expected(&scan.plan).knows_sizes
            }
            Operator::Virtual(_) | Operator::WorkTable { .. } | Operator::JsonTable(_) => false,
            _ => true,
        };
        own && operator.inputs().into_iter().all(|input| self.knows_sizes(input))
    }

    /// About how many rows of a table there are with one value of a column, which is compared with
    /// something of an operator's rows.
    pub(crate) fn rows_of_key(
        &self,
        operator: &Operator,
        value: &Formula,
        scan: &TableScan,
        column: &Formula,
    ) -> f64 {
        let size = self.size(scan);
        let place = column.expression.as_column().map(|place| place as usize);
        let at = place.and_then(|place| place.checked_sub(scan.offset));
        let of_column = at.and_then(|at| self.column_of(scan, at)?.distinct());
        let of_value = self.distinct(operator, &value.expression);
        let known = of_column.into_iter().chain(of_value).reduce(f64::max);
        (size / known.unwrap_or(10.0).max(1.0)).max(1.0)
    }

    /// About how many rows are looked up in an index for a row of an operator that has one value
    /// for its key, as far as the sizes of both tables tell.
    fn rows_of_range(&self, before: &Operator, scan: &TableScan) -> f64 {
        let AccessPath::Ranges { columns, ranges, .. } = &scan.path else { return 0.0 };
        // Bounds of the next column would leave fewer.
        let [IndexRange { equal, low: None, high: None, like: None, .. }] = ranges.as_slice()
        else {
            return 0.0;
        };
        let ([equal], Some(at)) = (equal.as_slice(), columns.first()) else { return 0.0 };
        // What is known of values has been asked.
        if self.session.values(scan.definition.table.id).is_some() {
            return 0.0;
        }
        let size = self.size(scan);
        let of_column = self.column_of(scan, *at).and_then(|column| column.distinct());
        match self.distinct(before, &equal.value) {
            Some(of_value) => size / of_column.map_or(of_value, |of| of.max(of_value)).max(1.0),
            None => 0.0,
        }
    }

    fn limited(&self, input: &Operator, bounds: &Bounds) -> Estimate {
        let all = self.of(input);
        let rows = count(bounds).map_or(all.rows, |count| all.rows.min(count));
        Estimate { rows, ..all }
    }

    /// Reading a table once.
    fn scan(&self, operator: &Operator, scan: &TableScan) -> Estimate {
        let size = self.size(scan);
        let is_known = self.session.values(scan.definition.table.id).is_some();
        let mut examined = match &scan.path {
            AccessPath::Full => size,
            AccessPath::Ranges { .. } if is_known && scan.covered => {
                (size * self.share(operator, &scan.conditions)).max(1.0)
            }
            AccessPath::Ranges { .. } => (scan.found / ROWS_UNKNOWN * size).max(1.0),
            AccessPath::Primary { keys } | AccessPath::Unique { keys, .. } => keys.len() as f64,
        };
        // What the path says of rows has been counted.
        let mut share = match (&scan.path, scan.covered) {
            (AccessPath::Full, _) => self.share(operator, &scan.conditions),
            (AccessPath::Ranges { .. }, false) if is_known => {
                (size * self.share(operator, &scan.conditions) / examined).min(1.0)
            }
            _ => 1.0,
        };
        if let Some(most) = scan.limit.as_ref().and_then(count) {
            (examined, share) = (examined.min(most / share.max(0.001)), share);
        }
        share = share.clamp(0.0001, 1.0);
        let rows = (examined * share).max(if examined >= 1.0 { 1.0 } else { examined });
        let cost = match scan.path {
            AccessPath::Full => opening(scan) + examined * LOOK + rows * SEND,
            AccessPath::Ranges { .. } => opening(scan) + examined * (LOOK + SEND),
            _ => examined * LOOKUP,
        };
        Estimate { rows, examined, share, cost }
    }

    fn size(&self, scan: &TableScan) -> f64 {
        let rows = self.session.rows(scan.definition.table.id);
        rows.map_or(ROWS_UNKNOWN, |rows| rows as f64)
    }

    /// The share of rows that meets conditions, of tables below an operator.
    fn share(&self, operator: &Operator, conditions: &[Formula]) -> f64 {
        let below = Below { estimates: self, operator };
        selectivity::of_all(conditions.iter().map(|condition| &condition.expression), &below)
    }

    /// About how many values a column has of a table below an operator.
    fn distinct(&self, operator: &Operator, side: &Expression) -> Option<f64> {
        self.column(operator, side)?.distinct()
    }

    /// The column of a stored table below an operator that an expression is.
    fn column(&self, operator: &Operator, side: &Expression) -> Option<ColumnOf> {
        let place = side.as_column()? as usize;
        let of = |scan: &TableScan| self.column_of(scan, place.checked_sub(scan.offset)?);
        match operator {
            Operator::Scan(scan) => of(scan),
            Operator::Lookup { input, scan, .. } => of(scan).or_else(|| self.column(input, side)),
            // Behind these, places mean something else.
            Operator::Project { .. } | Operator::Set { .. } => None,
            _ => operator.inputs().into_iter().find_map(|input| self.column(input, side)),
        }
    }

    fn column_of(&self, scan: &TableScan, at: usize) -> Option<ColumnOf> {
        scan.definition.columns.get(at)?;
        let values = self.session.values(scan.definition.table.id);
        Some(ColumnOf { definition: scan.definition.clone(), at, rows: self.size(scan), values })
    }
}

/// The columns of the tables below an operator.
struct Below<'a> {
    estimates: &'a Estimates<'a>,
    operator: &'a Operator,
}

impl Columns for Below<'_> {
    fn column(&self, side: &Expression) -> Option<ColumnOf> {
        self.estimates.column(self.operator, side)
    }

    fn value(&self, expression: &Expression) -> Option<Datum> {
        expression.as_constant().cloned()
    }
}

/// What it takes to open a scan.
fn opening(scan: &TableScan) -> f64 {
    match scan.distribution.as_deref() {
        Some([_]) => RANGE_OF_PARTITION,
        _ => RANGE,
    }
}

fn flat(rows: f64, cost: f64) -> Estimate {
    Estimate { rows, examined: rows, share: 1.0, cost }
}

/// LIMIT and OFFSET together, if they are known.
fn count(bounds: &Bounds) -> Option<f64> {
    let number = |formula: &Formula| match &formula.expression.node {
        Node::Constant(Datum::Int(number)) => Some(*number as f64),
        Node::Constant(Datum::UInt(number)) => Some(*number as f64),
        _ => None,
    };
    let offset = bounds.offset.as_ref().map_or(Some(0.0), number)?;
    Some(bounds.count.as_ref().and_then(number)? + offset)
}
