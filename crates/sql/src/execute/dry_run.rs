//! How a query would be run: on columns or row by row, and what of it at the data nodes.
//!
//! # Owns
//! [`DryRun`], which asks the executors what they would do and does nothing.
//! # Guarantees
//! The answers, and the reasons, come from the code that runs queries.
//! # Limits
//! What values decide (a column's values that do not fit its type, ranges that are not exact) shows
//! only when a query is run.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{Obstacle, SqlError, SubqueryId, short_text};
use sqltype::Datum;

use crate::execute::checks::{CheckedBy, checked_by};
use crate::execute::columns;
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::first::FirstRows;
use crate::execute::columns::shape::narrowed_scan;
use crate::execute::cursor::group::Pushed;
use crate::execute::cursor::step;
use crate::execute::cursor::{Cursor, Work, group, open, work_on_rows};
use crate::execute::joined::{JoinedScan, LookedUp};
use crate::execute::run::Run;
use crate::logical::formula::Formula;
use crate::plan::operator::{
    AccessPath, Aggregate, HashKey, Keyed, Operator, PlanNode, QueryPlan, TableScan,
};
use crate::plan::operator_id::{OperatorId, PerOperator};
use crate::plan::outer::for_each_outer;

/// On what an operator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// Row by row, in the SQL node.
    Rows,
    /// On columns, in the SQL node.
    Columns,
    /// In programs of the data nodes, whose results the SQL node puts together.
    DataNodes,
    /// In the data nodes, as a part of a join that they make.
    Joined,
}

/// How the operators of a query would be run.
#[derive(Debug, Default)]
pub(crate) struct DryRun {
    sites: PerOperator<Site>,
    /// Who checks the conditions of scans.
    checks: PerOperator<Vec<CheckedBy>>,
    /// Why groups and joins by lookups are not made by data nodes.
    obstacles: PerOperator<Obstacle>,
    /// Subqueries of which conditions ask whether they have rows, which data nodes look up.
    looked_up: BTreeSet<SubqueryId>,
    /// What rows are found by that data nodes look up.
    found: PerOperator<LookedUp>,
    /// Sides of joins whose rows are sent to the data nodes that make them.
    sent: BTreeSet<OperatorId>,
    /// The columns of scans to which joins push key-set filters down.
    key_filters: PerOperator<Vec<usize>>,
    /// Queries that were tried, by the ids of their roots: some are used in several places.
    tried: BTreeSet<OperatorId>,
}

impl DryRun {
    /// Tries a query and all that is in it.
    pub(crate) fn new(run: &mut Run<'_>, plan: &QueryPlan) -> Self {
        if !run.is_watched() {
            run.watch();
        }
        let mut dry_run = Self::default();
        dry_run.query(run, plan);
        dry_run
    }

    /// On what an operator works; nothing if it is a part of another.
    pub(crate) fn site(&self, operator: &PlanNode) -> Option<Site> {
        self.sites.get(operator.id()).copied()
    }

    /// Who checks the conditions of a scan, in their order.
    pub(crate) fn checks(&self, scan: &TableScan) -> &[CheckedBy] {
        self.checks.get(scan.id()).map_or(&[], Vec::as_slice)
    }

    /// Why the data nodes do not make the groups or the lookups of an operator.
    pub(crate) fn obstacle(&self, operator: &PlanNode) -> Option<&Obstacle> {
        self.obstacles.get(operator.id())
    }

    /// Positions of the columns of a scan to which joins push key-set filters down.
    pub(crate) fn key_filters(&self, scan: &TableScan) -> &[usize] {
        self.key_filters.get(scan.id()).map_or(&[], Vec::as_slice)
    }

    /// Whether data nodes look up what all conditions ask of a subquery.
    pub(crate) fn is_looked_up(&self, subquery: SubqueryId) -> bool {
        self.looked_up.contains(&subquery)
    }

    /// What the rows of a table are found by, if data nodes look them up as a part of a join.
    pub(crate) fn found(&self, scan: &TableScan) -> Option<&LookedUp> {
        self.found.get(scan.id())
    }

    /// Whether the rows of an operator are sent to the data nodes.
    pub(crate) fn is_sent(&self, operator: &PlanNode) -> bool {
        self.sent.contains(&operator.id())
    }

    fn query(&mut self, run: &mut Run<'_>, plan: &QueryPlan) {
        if !self.tried.insert(plan.root.id()) {
            return;
        }
        run.add_subplans(&plan.subqueries);
        // Nothing is known of enclosing rows: NULL stands for any value of its type.
        let (mut rows, mut columns) = (0, 0);
        for_each_outer(plan, &mut |depth, place| {
            (rows, columns) = (rows.max(depth), columns.max(place as usize + 1));
        });
        let before = std::mem::take(&mut run.context.outer);
        run.context.outer = vec![vec![Datum::Null; columns]; rows];
        self.cursor(run, &open(&plan.root));
        run.context.outer = before;
        self.plans_below(run, &plan.root);
        for subplan in &plan.subqueries {
            self.query(run, &subplan.plan);
            let mut keyed = &subplan.keyed;
            if let Some(search) = &subplan.search {
                self.query(run, &search.subplan.plan);
                keyed = &search.subplan.keyed;
            }
            if let Some(keyed) = keyed {
                self.all_at_once(run, keyed);
            }
        }
    }

    /// A subquery for all rows of the enclosing block, whose own subqueries are those of the plan.
    fn all_at_once(&mut self, run: &mut Run<'_>, keyed: &Keyed) {
        let plan = &keyed.plan;
        run.add_subplans(&plan.subqueries);
        self.note_key_filters(run, &keyed.keys, &plan.root);
        if columns::can_begin(run, &plan.root, plan.results.len()) {
            self.take_created(run, &plan.root)
        } else {
            self.cursor(run, &open(&plan.root))
        }
        self.plans_below(run, &plan.root);
    }

    fn plans_below(&mut self, run: &mut Run<'_>, operator: &Operator) {
        if let Operator::Derived(scan) | Operator::Lateral { scan, .. } = operator {
            let plan: &Rc<QueryPlan> = &scan.plan;
            self.query(run, plan);
        }
        operator.inputs().into_iter().for_each(|input| self.plans_below(run, input));
    }

    fn cursor(&mut self, run: &mut Run<'_>, cursor: &Cursor<'_>) {
        self.work(run, cursor.operator, &cursor.work);
    }

    fn work(&mut self, run: &mut Run<'_>, operator: &PlanNode, work: &Work<'_>) {
        if let Work::Open(_) = work {
            return if columns::begin(run, operator, None).is_some() {
                self.take_created(run, operator)
            } else {
                self.work(run, operator, &work_on_rows(operator))
            };
        }
        self.note(run, operator, Site::Rows);
        if let (Some(Err(obstacle)), false) = (joined(run, operator), is_hash_join(operator)) {
            self.obstacles.insert(operator.id(), obstacle);
        }
        match work {
            Work::Table(_)
            | Work::Rows(..)
            | Work::Spilled(_)
            | Work::Derived(..)
            | Work::Open(_)
            | Work::Columns { .. } => {}
            Work::Lookup { input, .. }
            | Work::Lateral { input, .. }
            | Work::Filter { input, .. }
            | Work::Project { input, .. }
            | Work::Distinct { input: Some(input), .. }
            | Work::Limit { input, .. } => self.cursor(run, input),
            Work::Join(_) => {
                operator.inputs().into_iter().for_each(|input| self.cursor(run, &open(input)));
            }
            Work::Distinct { .. } | Work::UnionAll { .. } | Work::Collect(_) => {
                match &operator.operator {
                    Operator::Aggregate(aggregate) => self.groups(run, operator, aggregate),
                    Operator::Sort { input, keys, limit: Some(bounds) } => {
                        let count = bounds.count.as_ref();
                        // A LIMIT that only its parameters tell is thought to be small.
                        let count = count.and_then(|count| match count.expression.as_constant() {
                            Some(Datum::UInt(count)) => usize::try_from(*count).ok(),
                            Some(Datum::Int(count)) => usize::try_from(*count).ok(),
                            _ => Some(1),
                        });
                        if step::first_rows(run, input, keys, count).is_some() {
                            self.note(run, operator, Site::DataNodes);
                        } else if let Some(first) = FirstRows::new(run, input, keys, count) {
                            let pushed = first.is_pushed();
                            let site = if pushed { Site::DataNodes } else { Site::Columns };
                            self.note(run, operator, site);
                            return match joined(run, input) {
                                Some(Ok(joined)) if pushed => self.note_joined(run, input, joined),
                                _ => self.take_created(run, input),
                            };
                        }
                        self.cursor(run, &open(input));
                    }
                    _ => operator.inputs().into_iter().for_each(|i| self.cursor(run, &open(i))),
                }
            }
        }
    }

    fn groups(&mut self, run: &mut Run<'_>, operator: &PlanNode, aggregate: &Aggregate) {
        let obstacle = match group::pushed(run, aggregate) {
            Ok(Pushed::Scanned(..)) => {
                self.note(run, operator, Site::DataNodes);
                return self.note(run, &aggregate.input, Site::DataNodes);
            }
            Ok(Pushed::Joined(made)) => {
                self.note(run, operator, Site::DataNodes);
                let (joined, ..) = *made;
                return self.note_joined(run, &aggregate.input, joined);
            }
            Err(obstacle) => obstacle,
        };
        self.obstacles.insert(operator.id(), obstacle);
        if group::columns_of(run, aggregate).is_some() {
            self.note(run, operator, Site::Columns);
            self.take_created(run, &aggregate.input);
        } else {
            self.cursor(run, &open(&aggregate.input))
        }
    }

    /// Cursors over columns were created, some of them over sources of rows.
    fn take_created(&mut self, run: &mut Run<'_>, top: &PlanNode) {
        let Some(observer) = &run.observer else { return };
        let created: PerOperator<bool> = observer.borrow_mut().take_created().into_iter().collect();
        self.created(run, top, &created);
    }

    fn created(&mut self, run: &mut Run<'_>, operator: &PlanNode, created: &PerOperator<bool>) {
        match created.get(operator.id()) {
            None => {}
            Some(false) => self.cursor(run, &open(operator)),
            Some(true) => {
                self.note(run, operator, Site::Columns);
                match joined(run, operator) {
                    Some(Ok(joined)) if !joined.leaves_out_more() => {}
                    Some(Ok(joined)) => return self.note_joined(run, operator, joined),
                    Some(Err(_)) if is_hash_join(operator) => {}
                    Some(Err(obstacle)) => {
                        self.obstacles.insert(operator.id(), obstacle);
                    }
                    None => {}
                }
                match &operator.operator {
                    Operator::Aggregate(aggregate) => self.groups(run, operator, aggregate),
                    Operator::HashJoin { right, keys, .. } => {
                        self.note_key_filters(run, keys, right);
                        operator.inputs().into_iter().for_each(|i| self.created(run, i, created));
                    }
                    _ => operator.inputs().into_iter().for_each(|i| self.created(run, i, created)),
                }
            }
        }
    }

    /// The keys of the left side of a join become filters of the scans below its right side.
    fn note_key_filters(&mut self, run: &Run<'_>, keys: &[HashKey], right: &Operator) {
        let places = columns::keys::key_filter_places(run, keys);
        for (scan, at) in places.filter_map(|at| narrowed_scan(right, at)) {
            self.note_key_filter(scan, at);
        }
    }

    /// A scan has a key-set filter on one of the columns that it wants.
    fn note_key_filter(&mut self, scan: &TableScan, at: u16) {
        let list = self.key_filters.or_default(scan.id());
        let column = scan.wanted[usize::from(at)];
        if !list.contains(&column) {
            list.push(column);
        }
    }

    /// An operator and those below are a join that data nodes make.
    fn note_joined(&mut self, run: &mut Run<'_>, operator: &PlanNode, joined: JoinedScan<'_>) {
        self.note_parts(run, operator, &joined);
        for sent in &joined.sent {
            self.sent.insert(sent.side.id());
            sent.key_filters
                .iter()
                .for_each(|(input, _)| self.note_key_filter(joined.scan, *input));
            if ColumnCursor::new(run, sent.side, &sent.places()).is_some() {
                self.take_created(run, sent.side)
            } else {
                self.cursor(run, &open(sent.side))
            }
        }
        self.looked_up.extend(joined.asked_subqueries());
        self.found.extend(joined.found);
    }

    fn note_parts(&mut self, run: &Run<'_>, operator: &PlanNode, joined: &JoinedScan<'_>) {
        if joined.is_sent(operator) {
            return;
        }
        self.note(run, operator, Site::Joined);
        if let Operator::Scan(scan) = &operator.operator
            && let Some(checks) = self.checks.get_mut(scan.id())
        {
            let asked = scan.conditions.iter().zip(checks).filter(|(c, _)| joined.asks(c));
            asked.for_each(|(_, check)| *check = CheckedBy::DataNodes);
        }
        if let Operator::Lookup { scan, .. } = &operator.operator {
            let by = |condition: &Formula| {
                if joined.others.iter().any(|other| other.is(condition)) {
                    CheckedBy::SqlNode(Obstacle::because("it has no translation"))
                } else {
                    CheckedBy::DataNodes
                }
            };
            self.checks.insert(scan.id(), scan.conditions.iter().map(by).collect());
        }
        operator.inputs().into_iter().for_each(|input| self.note_parts(run, input, joined));
    }

    fn note(&mut self, run: &Run<'_>, operator: &PlanNode, site: Site) {
        self.sites.insert(operator.id(), site);
        match &operator.operator {
            Operator::Scan(scan) => {
                self.checks.insert(scan.id(), checked_by(run, scan));
            }
            Operator::Lookup { scan, .. } => {
                let because = || CheckedBy::SqlNode(Obstacle::because("rows are found by key"));
                let checks = scan.conditions.iter().map(|_| because()).collect();
                self.checks.insert(scan.id(), checks);
            }
            Operator::Edges { edges, .. } => {
                for edge in edges {
                    self.checks.insert(edge.scan.id(), checked_by(run, &edge.scan));
                }
            }
            _ => {}
        }
    }

    /// With `nines_require_pushdown`: refuses a query of which the SQL node would compute what is
    /// for the data nodes to compute. That is a condition on the rows of one table that is read by
    /// a scan, and an aggregate over the rows of one such table.
    pub(crate) fn require(&self, run: &Run<'_>, plan: &QueryPlan) -> Result<(), SqlError> {
        self.require_plan(run, plan, &mut BTreeSet::new())
    }

    fn require_plan(
        &self,
        run: &Run<'_>,
        plan: &QueryPlan,
        seen: &mut BTreeSet<OperatorId>,
    ) -> Result<(), SqlError> {
        if !seen.insert(plan.root.id()) {
            return Ok(());
        }
        self.require_of(run, &plan.root)?;
        let mut checked = Ok(());
        plan.root.for_each_plan(&mut |plan, _| {
            if checked.is_ok() {
                checked = self.require_plan(run, plan, seen);
            }
        });
        checked?;
        let mut subplans = plan.subqueries.iter();
        subplans.try_for_each(|subplan| self.require_plan(run, &subplan.plan, seen))
    }

    fn require_of(&self, run: &Run<'_>, operator: &PlanNode) -> Result<(), SqlError> {
        let refused = |what: String, why: &Obstacle| {
            let detail = format!("{what}: {why}").replace('`', "");
            let refusal = model::Refusal::new(model::ErrorCode::NotPushed, detail);
            Err(crate::error::of_refusal(&refusal))
        };
        if let Operator::Scan(scan) = &operator.operator
            && matches!(scan.path, AccessPath::Full | AccessPath::Ranges { .. })
        {
            for (condition, by) in scan.conditions.iter().zip(self.checks(scan)) {
                if let CheckedBy::SqlNode(why) = by {
                    let text = short_text(&run.with_parameters(&condition.expression));
                    return refused(format!("condition {text} of table {}", scan.alias), why);
                }
            }
        }
        if let Operator::Aggregate(aggregate) = &operator.operator
            && let Operator::Scan(scan) = &aggregate.input.operator
            && let Some(why) = self.obstacle(operator)
        {
            return refused(format!("aggregate over table {}", scan.alias), why);
        }
        operator.inputs().into_iter().try_for_each(|input| self.require_of(run, input))
    }
}

/// Whether an operator is a join of its own, which data nodes need not make.
fn is_hash_join(operator: &Operator) -> bool {
    match operator {
        Operator::Filter { input, .. } => is_hash_join(input),
        operator => matches!(operator, Operator::HashJoin { .. }),
    }
}

/// The join that an operator is, if it is one of lookups: as data nodes make it, or why they do
/// not.
fn joined<'p>(run: &Run<'_>, operator: &'p Operator) -> Option<Result<JoinedScan<'p>, Obstacle>> {
    let nothing = BTreeSet::new();
    let joined = match JoinedScan::new(run, operator, &nothing)? {
        Ok(joined) => joined,
        Err(obstacle) => return Some(Err(obstacle)),
    };
    Some(joined.rows(run, &nothing).map(|_| joined))
}
