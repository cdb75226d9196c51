//! Which operators are a scan with lookups: what each finds rows by, and whether it is worth it.
//!
//! # Owns
//! [`Chain`], the steps from the first table to what its operator gives; the estimate of whether
//! rows are looked up rather than joined by hash, or asked of a subquery by other ways; which side
//! of a hash join is small enough to be sent to where the rows of the other are.

use std::rc::Rc;

use model::{ColumnId, IndexId, Table};
use sql_expression::{BinaryOp, Compare, Comparison, Expression, Node, ResultType, SubqueryKind};
use vector::{GIVEN_ROWS_MAX, Matching};

use super::child::{is_float, is_same_key, moved};
use super::given::GivenStep;
use crate::catalog::KeyKind;
use crate::execute::pushdown;
use crate::execute::run::Run;
use crate::logical::formula::Formula;
use crate::plan::cost::{
    ALL_AT_ONCE, FETCH, JOIN, LOOK, LOOKUP, PROBE, RANGE, READ_ON, SEEK, SEND,
};
use crate::plan::estimate::Estimates;
use crate::plan::operator::{
    AccessPath, HashKey, JoinSpec, Operator, PlanNode, QueryPlan, TableScan,
};

/// Operators that may become one scan.
pub(super) struct Chain<'p> {
    /// The operator that reads the first table.
    pub(super) root: &'p Operator,
    pub(super) scan: &'p TableScan,
    /// What is looked up, in this order.
    pub(super) steps: Vec<Step<'p>>,
    pub(super) filter: Vec<&'p Formula>,
}

/// Something that is looked up for rows.
pub(super) enum Step<'p> {
    /// Rows of a table.
    Table(TableStep<'p>),
    /// Rows of a small side of a hash join, which are sent.
    Given(GivenStep<'p>),
    /// Whether a subquery has rows.
    Asked(Asked),
}

/// A table whose rows are looked up for those before.
pub(super) struct TableStep<'p> {
    pub(super) scan: &'p TableScan,
    pub(super) join: &'p JoinSpec,
    /// What its rows are found by; nothing if that is more than one key.
    pub(super) found: Option<FoundBy<'p>>,
    /// What must be equal besides.
    pub(super) equal: Vec<Formula>,
}

/// A condition that asks a subquery whether it has rows.
pub(super) struct Asked {
    /// What the condition is the same as.
    pub(super) plan: Rc<QueryPlan>,
    pub(super) matching: Matching,
}

impl<'p> Chain<'p> {
    /// The scan and what is looked up for it that an operator is made of, if it is made so.
    pub(super) fn of(run: &Run<'_>, operator: &'p Operator) -> Option<(Self, Vec<&'p Formula>)> {
        let (mut steps, mut filter, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        let mut below = operator;
        // From the last step to the first.
        let mut take = |of: &Operator, formulas: &'p [Formula], steps: &mut Vec<Step<'p>>| {
            for formula in formulas.iter().rev() {
                match Asked::of(run, of, formula) {
                    Some(asked) => {
                        conditions.push(formula);
                        steps.push(Step::Asked(asked));
                    }
                    None => filter.push(formula),
                }
            }
        };
        loop {
            match below {
                Operator::Filter { input, conditions } => {
                    take(below, conditions, &mut steps);
                    below = input;
                }
                Operator::Lookup { input, scan, join } => {
                    let (found, equal) = (found_by(scan), Vec::new());
                    steps.push(Step::Table(TableStep { scan, join, found, equal }));
                    below = input;
                }
                Operator::HashJoin { left, right, keys, join } => {
                    let (step, before) = hashed(run, left, right, keys, join)?;
                    steps.push(step);
                    below = before;
                }
                Operator::Scan(scan) => {
                    let of_subqueries = scan.conditions.iter().rev().filter(|c| !c.is_ready());
                    for formula in of_subqueries {
                        if let Some(asked) = Asked::of(run, below, formula) {
                            conditions.push(formula);
                            steps.push(Step::Asked(asked));
                        }
                    }
                    steps.reverse();
                    filter.reverse();
                    let chain = Self { root: below, scan, steps, filter };
                    let is_sent = |step: &Step<'_>| matches!(step, Step::Given(_));
                    if chain.steps.iter().any(is_sent) && !is_large(run, scan) {
                        return None;
                    }
                    return (!chain.steps.is_empty()).then_some((chain, conditions));
                }
                _ => return None,
            }
        }
    }
}

/// What a hash join does for the rows of one of its sides, which comes with it: the other one is
/// looked up by an index, or sent, whatever is less work.
fn hashed<'p>(
    run: &Run<'_>,
    left: &'p PlanNode,
    right: &'p PlanNode,
    keys: &'p [HashKey],
    join: &'p JoinSpec,
) -> Option<(Step<'p>, &'p PlanNode)> {
    let looked_up = TableStep::hashed(run, left, right, keys, join);
    let sent = with_small_side(run, left, right, keys, join);
    // Rows are not looked up for few.
    let is_few = |sent: &GivenStep<'_>| sent.is_left && !are_many(run, left);
    match (looked_up, sent) {
        (Some((step, work)), Some((sent, _, of_sent))) if work <= of_sent && !is_few(&sent) => {
            Some((Step::Table(step), left))
        }
        (_, Some((step, before, _))) => Some((Step::Given(step), before)),
        (Some((step, _)), None) => Some((Step::Table(step), left)),
        (None, None) => None,
    }
}

/// A hash join one side of which is small: the step, the other side, and the work.
fn with_small_side<'p>(
    run: &Run<'_>,
    left: &'p PlanNode,
    right: &'p PlanNode,
    keys: &'p [HashKey],
    join: &'p JoinSpec,
) -> Option<(GivenStep<'p>, &'p PlanNode, f64)> {
    if run.session.variables.pushed_join_work == 0 {
        return None;
    }
    let estimates = Estimates::new(run.session);
    let (of_left, of_right) = (estimates.of(left), estimates.of(right));
    let is_small = |side: &PlanNode, rows: f64| {
        rows <= GIVEN_ROWS_MAX as f64 && !run.too_large.contains(&side.id())
    };
    let step = |is_left| GivenStep::new(run, left, right, is_left, keys, join);
    // Which rows of the left side have no match is known where all of the right one is.
    if is_small(right, of_right.rows) {
        return Some((step(false)?, left, of_right.cost + of_left.rows * PROBE));
    }
    let Operator::Scan(scan) = &right.operator else { return None };
    let reads_blocks = matches!(scan.path, AccessPath::Full | AccessPath::Ranges { .. });
    let fits = !join.outer && reads_blocks && pushdown::is_free(scan) && is_large(run, scan);
    if !fits || !is_small(left, of_left.rows) {
        return None;
    }
    let work = RANGE + run.rows_of_table(scan) as f64 * READ_ON + of_right.rows * PROBE;
    Some((step(true)?, right, work))
}

/// Whether a table is so large that its rows come in columns.
fn is_large(run: &Run<'_>, scan: &TableScan) -> bool {
    run.rows_of_table(scan) >= run.session.variables.column_rows
}

impl<'p> TableStep<'p> {
    /// A hash join, if it is not much more work to look the rows up of its right side by an index
    /// than to bring them to the SQL node; and that work.
    fn hashed(
        run: &Run<'_>,
        left: &'p PlanNode,
        right: &'p PlanNode,
        keys: &'p [HashKey],
        join: &'p JoinSpec,
    ) -> Option<(Self, f64)> {
        let Operator::Scan(scan) = &right.operator else { return None };
        if !pushdown::is_free(scan) {
            return None;
        }
        let table = &scan.definition.table;
        let column_of = |key: &HashKey| {
            let place = key.right.expression.as_column()? as usize;
            let column = scan.definition.columns.get(place.checked_sub(scan.offset)?)?;
            let same = match key.comparison {
                Comparison::Text(collation) => column.sql_type.collation == collation,
                Comparison::Double | Comparison::Json => false,
                _ => true,
            };
            (same && !key.null_safe).then_some(column.column)
        };
        let columns: Vec<Option<ColumnId>> = keys.iter().map(column_of).collect();
        let key_of = |column: &ColumnId| columns.iter().position(|of| of.as_ref() == Some(column));
        // As many of the first columns of a key as there are values for.
        let known =
            |of_key: &[ColumnId]| -> Vec<usize> { of_key.iter().map_while(key_of).collect() };
        let whole = |of_key: &[ColumnId]| Some(known(of_key)).filter(|k| k.len() == of_key.len());
        let allowed =
            |at: usize| 1_u64.checked_shl(at as u32).is_some_and(|b| b & scan.allowed > 0);
        let keys_of_table = || {
            let all = scan.definition.keys.iter().enumerate();
            all.filter(|(at, _)| allowed(*at)).map(|(_, key)| key)
        };
        let primary = keys_of_table().find(|key| key.kind == KeyKind::Primary);
        let (index, begins, chosen) = match primary.and_then(|_| whole(&table.primary_key)) {
            Some(chosen) => (None, false, chosen),
            None => {
                let indexes = keys_of_table().filter_map(|key| table.ordered_index(key.ordered?));
                let longest = indexes.max_by_key(|index| known(&index.columns).len())?;
                (Some(longest.id), true, known(&longest.columns))
            }
        };
        if chosen.is_empty() {
            return None;
        }
        let estimates = Estimates::new(run.session);
        let rows = estimates.of(left).rows;
        let key = &keys[chosen[0]];
        let of_key = estimates.rows_of_key(left, &key.left, scan, &key.right);
        let columns_of = chosen.iter().filter_map(|at| columns[*at]).collect();
        let values = chosen.iter().map(|at| &keys[*at].left.expression).collect();
        let found = FoundBy { index, begins, columns: columns_of, values };
        // Told keys leave little to be sent but what is joined.
        let size = run.rows_of_table(scan) as f64;
        let here = RANGE + size * READ_ON + rows * (SEND + PROBE + of_key * (SEND + JOIN));
        let work = rows * found.cost(table, of_key);
        if work > here * worth(run) {
            return None;
        }
        // Of the first columns of an index only those count whose values are compared as they are
        // stored, and none behind another one.
        let is_sure = |at: &&usize| {
            let left = &keys[**at].left.expression;
            let column = scan.definition.columns.iter().find(|c| Some(c.column) == columns[**at]);
            let sure = |to| left.as_column().is_some() && is_same_key(left.sql_type(), to);
            !begins || column.is_some_and(|to| sure(&to.sql_type) && !is_float(table, to.column))
        };
        let sure: Vec<usize> = chosen.iter().take_while(is_sure).copied().collect();
        let equal = |(at, key): (usize, &HashKey)| (!sure.contains(&at)).then(|| equality(key));
        let equal = keys.iter().enumerate().filter_map(equal).collect();
        Some((Self { scan, join, found: Some(found), equal }, work))
    }
}

/// How much more work it may be to look rows up than what brings all rows to the SQL node.
fn worth(run: &Run<'_>) -> f64 {
    run.session.variables.pushed_join_work as f64
}

/// The condition that a key of a hash join is.
fn equality(key: &HashKey) -> Formula {
    let op = if key.null_safe { BinaryOp::NullSafeEqual } else { BinaryOp::Equal };
    let (left, right) = (key.left.expression.clone(), key.right.expression.clone());
    let nullable = !key.null_safe && (left.result.nullable || right.result.nullable);
    let compare = Compare { op, comparison: key.comparison, left, right };
    let node = Node::Compare(Box::new(compare));
    Formula::new(Expression { node, result: ResultType::truth(nullable) })
}

impl Asked {
    /// What a condition asks a subquery, if that is only whether there are rows which the row
    /// helps to find.
    fn of(run: &Run<'_>, of: &Operator, formula: &Formula) -> Option<Self> {
        let (node, negated) = match &formula.expression.node {
            Node::Not(inner) => (&inner.node, true),
            node => (node, false),
        };
        let Node::Subquery(subquery) = node else { return None };
        let subplan = run.subplan(subquery.id)?;
        let (plan, anti) = match &subquery.kind {
            SubqueryKind::Exists => (&subplan.plan, negated),
            SubqueryKind::Quantified { operand, columns, negated: not_in, .. } => {
                let search = subplan.search.as_ref()?;
                let anti = negated != *not_in;
                // What is unknown of IN is not true, and neither is it of NOT IN.
                let parts = match &operand.node {
                    Node::Row(list) => &**list,
                    _ => std::slice::from_ref(operand),
                };
                let known = |result: &ResultType| !result.nullable;
                let sure = columns.iter().all(known) && parts.iter().all(|p| known(&p.result));
                if !sure && (anti || !search.only_true) {
                    return None;
                }
                (&search.subplan.plan, anti)
            }
            SubqueryKind::Scalar { .. } => return None,
        };
        let asked = Self {
            plan: plan.clone(),
            matching: if anti { Matching::Anti } else { Matching::Inner },
        };
        let scan = asked.scan()?;
        let found = found_by(scan)?;
        let ready = scan.conditions.iter().all(Formula::is_ready) && pushdown::is_free(scan);
        let worth = asked.is_worth(run, of, scan, &found);
        (ready && plan.subqueries.is_empty() && worth).then_some(asked)
    }

    /// Whether it is not much more work to look rows up for those of an operator than to read the
    /// table, and to bring both to the SQL node.
    fn is_worth(
        &self,
        run: &Run<'_>,
        of: &Operator,
        scan: &TableScan,
        found: &FoundBy<'_>,
    ) -> bool {
        let estimates = Estimates::new(run.session);
        let rows = estimates.of(of).rows;
        let first =
            scan.definition.columns.iter().position(|c| Some(&c.column) == found.columns.first());
        let (Some(first), Some(value)) = (first, found.values.first()) else { return false };
        let result = ResultType::of(scan.definition.columns[first].sql_type.clone(), true);
        let place = (scan.offset + first) as u32;
        let inside = Formula::new(Expression::column(place, Default::default(), result));
        let outside = Formula::new(moved(value, 0));
        let of_key = estimates.rows_of_key(of, &outside, scan, &inside);
        let all = run.rows_of_table(scan) as f64;
        let here = RANGE + all * LOOK + rows * SEND * (1.0 + of_key);
        rows * found.cost(&scan.definition.table, of_key) <= here * ALL_AT_ONCE * worth(run)
    }

    /// The table of which rows are asked for; none if the subquery is more than its rows.
    pub(super) fn scan(&self) -> Option<&TableScan> {
        let mut below: &Operator = &self.plan.root;
        while let Operator::Project { input, .. } = below {
            below = input;
        }
        match below {
            Operator::Scan(scan) => Some(scan),
            _ => None,
        }
    }
}

/// How rows of a table are found by values of others.
#[derive(Clone)]
pub(super) struct FoundBy<'p> {
    /// The index; the primary key if none.
    pub(super) index: Option<IndexId>,
    /// Whether the values are only the first ones of its key.
    pub(super) begins: bool,
    /// The key's columns, as far as there are values.
    pub(super) columns: Vec<ColumnId>,
    pub(super) values: Vec<&'p Expression>,
}

impl FoundBy<'_> {
    /// What it takes to find the rows with a key, if there are about so many.
    fn cost(&self, table: &Table, of_key: f64) -> f64 {
        if !self.begins {
            return LOOKUP;
        }
        let partitions = if table.distribution_key.iter().all(|key| self.columns.contains(key)) {
            1.0
        } else {
            f64::from(table.partition_count)
        };
        partitions * SEEK + of_key * FETCH
    }
}

/// What rows of a scan are found by, if it is one key, or what the keys of an index begin with.
pub(super) fn found_by(scan: &TableScan) -> Option<FoundBy<'_>> {
    let table = &scan.definition.table;
    let of_key = |keys: &'_ Vec<Vec<Expression>>| keys.len() == 1;
    match &scan.path {
        AccessPath::Primary { keys } if of_key(keys) => {
            let (index, columns) = (None, table.primary_key.clone());
            Some(FoundBy { index, begins: false, columns, values: keys[0].iter().collect() })
        }
        AccessPath::Unique { index, keys, .. } if of_key(keys) => {
            let columns = table.unique_index(*index)?.columns.clone();
            let (index, values) = (Some(*index), keys[0].iter().collect());
            Some(FoundBy { index, begins: false, columns, values })
        }
        AccessPath::Ranges { index, columns, ranges, .. } => {
            let [range] = ranges.as_slice() else { return None };
            let equal = range.equal.iter().take_while(|equal| !equal.null_safe);
            let values: Vec<&Expression> = equal.map(|equal| &equal.value).collect();
            let columns = columns.iter().take(values.len());
            let columns = columns.map(|at| scan.definition.columns[*at].column).collect();
            let index = Some(*index);
            (!values.is_empty()).then_some(FoundBy { index, begins: true, columns, values })
        }
        AccessPath::Primary { .. } | AccessPath::Unique { .. } | AccessPath::Full => None,
    }
}

/// Whether an operator is a scan with lookups that data nodes may make, for so many rows that it
/// is worth it.
pub(crate) fn is_chain(run: &Run<'_>, operator: &Operator) -> bool {
    Chain::of(run, operator).is_some_and(|(chain, _)| {
        let found = |step: &Step<'_>| match step {
            Step::Table(step) => step.found.is_some(),
            Step::Given(_) | Step::Asked(_) => true,
        };
        chain.steps.iter().all(found) && are_many(run, chain.root)
    })
}

/// Whether an operator is a scan, of whose rows subqueries are asked that data nodes can look up.
pub(crate) fn is_asking_scan(run: &Run<'_>, operator: &Operator) -> bool {
    matches!(operator, Operator::Scan(_)) && Chain::of(run, operator).is_some()
}

/// Whether an operator has as many rows as it is worth it to look rows up for.
pub(super) fn are_many(run: &Run<'_>, operator: &Operator) -> bool {
    let rows = Estimates::new(run.session).of(operator).rows;
    rows >= run.session.variables.pushed_join_rows as f64
}
