//! Joins that data nodes make: to the rows of a scan those that are looked up by key, or are sent
//! along because they are few.
//!
//! # Owns
//! Which lookups over a scan are given to the data nodes, as a plan with the parameters of this
//! execution; the scans that run it.
//! # Guarantees
//! A query gives the same answer with and without. What data nodes refuse to compute is known
//! before the first rows: the operator may be begun anew.
//! # Limits
//! Lookups by a whole primary or unique key, or by the first columns of an index, whose values are
//! columns of the rows before or constants. Of a subquery only whether it has rows of one table.
//! Rows that are sent are found by columns as they are.
//! # Not here
//! Which operators are a scan with lookups (`chain`), a lookup of the plan (`child`), rows that are
//! sent (`given`); what runs the plan (`client::Joiner`), joins by hash and joins of rows in the
//! SQL node (`columns`, `cursor`).

mod chain;
mod child;
mod given;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use client::{IndexBound, ScanRange, ScanSpec};
use model::{ColumnId, ErrorCode, IndexId, TableId, Value};
use sql_expression::{
    EvalContext, Expression, Node, Obstacle, ProgramBuilder, ProgramColumn, SqlError, SubqueryId,
};
use stdx::Duration;
use vector::{Block, GIVEN_BYTES_MAX, JoinPlan, LOOKUPS_MAX, Lookup, Matching, Program};

use crate::access::Asked;
use crate::execute::columns::shape::Shape;
use crate::execute::pushdown::{self, GroupProgram, untranslated};
use crate::execute::run::Run;
use crate::execute::scan::{Located, asked, locate};
use crate::kernel::{Failure, Scan};
use crate::logical::formula::Formula;
use crate::plan::operator::{AccessPath, Aggregate, Operator, PlanNode, TableScan, places_of};
use crate::plan::operator_id::OperatorId;

use chain::{Chain, Step, are_many};
use child::Child;
use given::{GivenSide, Sent};

pub(crate) use chain::{is_asking_scan, is_chain};

/// Rows by key that are read by scans of one row each, at most.
const KEYS_MAX: usize = 16;
/// How long joins are kept here after a data node of an older version was met.
const OLDER_TIME: Duration = Duration::from_secs(30);

/// A scan with the lookups over it, as data nodes run them.
pub(crate) struct JoinedScan<'p> {
    pub(crate) scan: &'p TableScan,
    /// All tables that data nodes read for it.
    tables: Vec<TableId>,
    program: Arc<Program>,
    lookups: Vec<Lookup>,
    /// Operators whose rows are sent, in the order of their lookups.
    pub(crate) sent: Vec<Sent<'p>>,
    /// What the rows of its tables are found by.
    pub(crate) found: Vec<(OperatorId, LookedUp)>,
    /// What stands at the places of the block's row, with its place in the joined row.
    columns: Shape,
    /// What data nodes check of joined rows.
    filter: Vec<&'p Formula>,
    /// Conditions that ask a subquery whether it has rows.
    asked: Vec<&'p Formula>,
    /// What is left to be checked of them.
    pub(crate) others: Vec<&'p Formula>,
}

/// What the rows of a table are found by that data nodes look up.
#[derive(Debug)]
pub(crate) struct LookedUp {
    /// An ordered or unique index; the primary key if none.
    pub(crate) index: Option<IndexId>,
    /// Whether the values are the first ones of its key.
    pub(crate) begins: bool,
    pub(crate) values: Vec<Expression>,
}

/// Why something is not joined by data nodes.
fn because<T>(why: &'static str) -> Result<T, Obstacle> {
    Err(Obstacle::because(why))
}

fn too_large() -> Obstacle {
    Obstacle::because("the program is too large")
}

impl<'p> JoinedScan<'p> {
    /// The scan with lookups that an operator is. Of the block's row these places are wanted.
    /// Nothing if the operator is none; an obstacle if data nodes cannot make it.
    pub(crate) fn new(
        run: &Run<'_>,
        operator: &'p Operator,
        wanted: &BTreeSet<usize>,
    ) -> Option<Result<Self, Obstacle>> {
        Chain::of(run, operator).map(|(chain, asked)| Self::of_chain(run, &chain, asked, wanted))
    }

    fn of_chain(
        run: &Run<'_>,
        chain: &Chain<'p>,
        asked: Vec<&'p Formula>,
        wanted: &BTreeSet<usize>,
    ) -> Result<Self, Obstacle> {
        check_chain(run, chain)?;
        let Chain { scan, ref steps, ref filter, .. } = *chain;
        let mut parts = Vec::with_capacity(steps.len());
        let mut width = scan.width;
        for step in steps {
            let part = Part::of(run, step, width)?;
            width += part.more();
            parts.push(part);
        }
        let tables = parts.iter().filter_map(Part::scan).chain([scan]);
        let tables = tables.map(|of| of.definition.table.id).collect();
        let context = &run.context;
        let mut all = pushdown::columns(scan);
        let own = all.clone();
        let mut builder = ProgramBuilder::new(&own, context);
        let is_asked = |formula: &&Formula| asked.iter().any(|of| of.is(formula));
        let of_scan = scan.conditions.iter().filter(|condition| !is_asked(condition));
        let mut others = untranslated(context, ready(of_scan)?.into_iter(), &mut builder);
        for part in &mut parts {
            part.add_columns(&mut all);
            let mut trial = ProgramBuilder::new(&all, context);
            let left = part.across(run, &mut trial);
            if left.is_empty() {
            } else if part.inner() {
                others.extend(left)
            } else {
                return because("a condition of the join is left to the SQL node");
            }
        }
        let mut trial = ProgramBuilder::new(&all, context);
        let mut filter = ready(filter.iter().copied())?;
        others.extend(take_untranslated(context, &mut filter, &mut trial));
        let used = others.iter().copied().chain(filter.iter().copied());
        let mut needed = places_in(used.map(|condition| &condition.expression))?;
        needed.extend(wanted);
        for part in &parts {
            needed.extend(places_in(part.values().into_iter())?);
            let conditions = part.conditions().into_iter();
            needed.extend(places_in(conditions.map(|condition| &condition.expression))?);
        }
        let mut columns: Shape = vec![None; width];
        for place in scan.wanted.iter().map(|at| scan.offset + at) {
            if needed.contains(&place) {
                builder.give_column(place).ok_or_else(too_large)?;
                add_column(&mut columns, place, &all);
            }
        }
        let mut lookups = Vec::with_capacity(parts.len());
        let (mut found, mut sent) = (Vec::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            lookups.push(match part {
                Part::Table(child) => {
                    let lookup = child.lookup(run, &all, &needed, &mut columns)?;
                    found.extend(child.looked_up(&lookup));
                    lookup
                }
                Part::Given(given) => {
                    let (lookup, of_side) =
                        given.lookup(run, at, scan, &all, &needed, &mut columns)?;
                    sent.push(of_side);
                    lookup
                }
            });
        }
        columns.truncate(scan.width);
        let program = Arc::new(builder.finish().ok_or_else(too_large)?);
        Ok(Self { scan, tables, program, lookups, sent, found, columns, filter, asked, others })
    }

    /// Whether it is worth it for rows that all come to the SQL node: data nodes leave out more of
    /// them than a scan that is told the keys of one small side. What is sent there would come back
    /// beside each row.
    pub(crate) fn leaves_out_more(&self) -> bool {
        let is_only_told = |sent: &Sent<'_>| {
            let lookup = &self.lookups[sent.at];
            !sent.inner || lookup.key.len() == sent.key_filters.len() && lookup.key.len() == 1
        };
        let inner = self.sent.iter().filter(|sent| sent.inner).count();
        self.sent.len() < self.lookups.len()
            || inner > 1
            || !self.filter.is_empty()
            || !self.sent.iter().all(is_only_told)
            || self.lookups.iter().any(|lookup| {
                lookup.matching == Matching::Inner && !lookup.conditions.filter.is_empty()
            })
    }

    /// Whether the rows of an operator are sent.
    pub(crate) fn is_sent(&self, operator: &PlanNode) -> bool {
        self.sent.iter().any(|sent| sent.side.id() == operator.id())
    }

    /// Whether a condition asks a subquery, which data nodes look up.
    pub(crate) fn asks(&self, condition: &Formula) -> bool {
        self.asked.iter().any(|asked| asked.is(condition))
    }

    /// The subqueries that are asked, which data nodes look up.
    pub(crate) fn asked_subqueries(&self) -> impl Iterator<Item = SubqueryId> + '_ {
        self.asked.iter().flat_map(|condition| {
            let mut found = None;
            condition.expression.visit(&mut |part| {
                if let Node::Subquery(subquery) = &part.node {
                    found = Some(subquery.id);
                }
            });
            found
        })
    }

    /// The plan that gives the columns at these places, as far as they are there; with these.
    pub(crate) fn rows(
        &self,
        run: &Run<'_>,
        places: &BTreeSet<usize>,
    ) -> Result<(JoinPlan, Shape), Obstacle> {
        self.plan(places, self.result(run)?)
    }

    /// The same, of rows that come first in an order: of each value whether its largest does.
    pub(crate) fn first_rows(
        &self,
        run: &Run<'_>,
        places: &BTreeSet<usize>,
        order: &[(&Expression, bool)],
        rows: u32,
    ) -> Result<JoinPlan, Obstacle> {
        if !self.others.is_empty() {
            return because("conditions are left to the SQL node");
        }
        let mut builder = self.result(run)?;
        if builder.first_rows(order, rows) {
            self.plan(places, builder).map(|(plan, _)| plan)
        } else {
            because("what is sorted by has no translation")
        }
    }

    fn plan(
        &self,
        places: &BTreeSet<usize>,
        mut builder: ProgramBuilder<'_>,
    ) -> Result<(JoinPlan, Shape), Obstacle> {
        let mut given: Shape = vec![None; self.columns.len()];
        for place in places {
            if let Some(Some(column)) = self.columns.get(*place) {
                builder.give_column(*place).ok_or_else(too_large)?;
                given[*place] = Some(column.clone());
            }
        }
        let result = builder.finish().ok_or_else(too_large)?;
        let programs = self.lookups.iter().flat_map(|lookup| {
            let of_range = lookup.range.as_ref().map(|range| &range.program);
            of_range.into_iter().chain([&lookup.conditions])
        });
        let all_exact = programs.chain([&result, &*self.program]).all(Program::is_exact);
        // Rows that have been given cannot be taken back.
        if !all_exact {
            return because("a condition may leave the range of numbers");
        }
        Ok((JoinPlan { lookups: self.lookups.clone(), result }, given))
    }

    /// The plan for the groups over the joined rows.
    pub(crate) fn groups(
        &self,
        run: &Run<'_>,
        aggregate: &Aggregate,
    ) -> Result<(JoinPlan, GroupProgram), Obstacle> {
        if !self.others.is_empty() {
            return because("conditions are left to the SQL node");
        }
        let builder = self.result(run)?.explaining(run.is_watched());
        let groups = pushdown::groups_by(&run.context, aggregate, &self.columns, builder)?;
        let result = Program::clone(&groups.program);
        Ok((JoinPlan { lookups: self.lookups.clone(), result }, groups))
    }

    fn result<'r>(&'r self, run: &'r Run<'_>) -> Result<ProgramBuilder<'r>, Obstacle> {
        let mut builder = ProgramBuilder::new(&self.columns, &run.context);
        let left = untranslated(&run.context, self.filter.iter().copied(), &mut builder);
        if left.is_empty() { Ok(builder) } else { because("a condition has no translation") }
    }
}

/// Whether data nodes may join anything to the rows of a chain's scan.
fn check_chain(run: &Run<'_>, chain: &Chain<'_>) -> Result<(), Obstacle> {
    if !run.session.variables.pushdown {
        return because("nines_pushdown is OFF");
    }
    let now = run.session.kernel.now();
    if run.session.shared.met_older.get().is_some_and(|at| now.since(at) < OLDER_TIME) {
        return because("a data node is of an older version");
    }
    if !are_many(run, chain.root) {
        return because("rows are looked up for few (nines_pushed_join_rows)");
    }
    if chain.steps.len() > LOOKUPS_MAX {
        return because("more than 32 tables are joined");
    }
    if let Some(why) = pushdown::bound(chain.scan) {
        return because(why);
    }
    check_table(run, chain.scan)
}

/// A lookup in the making.
enum Part<'c, 'p> {
    Table(Child<'c, 'p>),
    Given(GivenSide<'c, 'p>),
}

impl<'c, 'p: 'c> Part<'c, 'p> {
    /// What is looked up in a step for rows that are so wide.
    fn of(run: &Run<'_>, step: &'c Step<'p>, width: usize) -> Result<Self, Obstacle> {
        Ok(match step {
            Step::Given(step) => Self::Given(GivenSide::of(step)?),
            Step::Table(_) | Step::Asked(_) => Self::Table(Child::of(run, step, width)?),
        })
    }

    /// By how much the row grows.
    fn more(&self) -> usize {
        match self {
            Self::Table(child) => child.more,
            Self::Given(_) => 0,
        }
    }

    /// The table that data nodes read.
    fn scan(&self) -> Option<&TableScan> {
        match self {
            Self::Table(child) => Some(child.scan),
            Self::Given(_) => None,
        }
    }

    /// Whether rows go on only with a match beside them.
    fn inner(&self) -> bool {
        match self {
            Self::Table(child) => child.inner(),
            Self::Given(given) => given.inner(),
        }
    }

    fn add_columns(&self, all: &mut Shape) {
        match self {
            Self::Table(child) => child.add_columns(all),
            Self::Given(given) => given.add_columns(all),
        }
    }

    /// The conditions of a match that have no translation.
    fn across(&mut self, run: &Run<'_>, builder: &mut ProgramBuilder<'_>) -> Vec<&'p Formula> {
        match self {
            Self::Table(child) => child.across(&run.context, builder),
            Self::Given(given) => given.across(run, builder),
        }
    }

    /// What rows are found by.
    fn values(&self) -> Vec<&Expression> {
        match self {
            Self::Table(child) => child.values.iter().map(AsRef::as_ref).collect(),
            Self::Given(given) => given.values().collect(),
        }
    }

    /// The conditions of a match that are checked of joined rows.
    fn conditions(&self) -> Vec<&Formula> {
        match self {
            Self::Table(child) => child.conditions().collect(),
            Self::Given(given) => given.conditions().collect(),
        }
    }
}

/// Conditions that can be evaluated at once; those that wait for something keep the join here.
fn ready<'f>(conditions: impl Iterator<Item = &'f Formula>) -> Result<Vec<&'f Formula>, Obstacle> {
    let conditions: Vec<&Formula> = conditions.collect();
    if conditions.iter().all(|condition| condition.is_ready()) {
        Ok(conditions)
    } else {
        because("a condition waits for a subquery or a function")
    }
}

/// Takes those out of conditions that have no translation.
fn take_untranslated<'f>(
    context: &EvalContext,
    conditions: &mut Vec<&'f Formula>,
    builder: &mut ProgramBuilder<'_>,
) -> Vec<&'f Formula> {
    let left = untranslated(context, conditions.iter().copied(), builder);
    conditions.retain(|of| !left.iter().any(|l| l.is(of)));
    left
}

/// The places of the joined row that expressions use.
fn places_in<'e>(
    expressions: impl Iterator<Item = &'e Expression>,
) -> Result<BTreeSet<usize>, Obstacle> {
    places_of(expressions).ok_or(Obstacle::because("a condition waits for a subquery"))
}

/// Whether committed rows of a table are enough, all values of which lie in them.
fn check_table(run: &Run<'_>, scan: &TableScan) -> Result<(), Obstacle> {
    let table = &scan.definition.table;
    if scan.lock.is_some() || scan.hidden.is_some() {
        return because("its rows are locked or changed");
    }
    if run.session.guards_reads() {
        return because("the transaction is serializable");
    }
    if run.session.transaction.written.contains(&table.id) {
        return because("the transaction has changed the table");
    }
    if run.session.is_temporary(table.id) {
        return because("a table is temporary");
    }
    let columns = scan.kernel_columns();
    if table.large.as_ref().is_some_and(|large| columns.contains(&large.references)) {
        because("values are wanted that may lie outside of their rows")
    } else {
        Ok(())
    }
}

/// Puts a column behind those of the joined row.
fn add_column(columns: &mut Shape, place: usize, all: &Shape) {
    let next = ColumnId(columns.iter().flatten().count() as u16);
    columns[place] = all[place]
        .as_ref()
        .map(|column| ProgramColumn { column: next, sql_type: column.sql_type.clone() });
}

/// The scans of a join.
pub(crate) struct JoinedRead {
    open: VecDeque<Scan>,
}

/// How the next blocks of a join did not come.
pub(crate) enum Stopped {
    /// Data nodes do not compute it, or one is older.
    NotPushed,
    /// A side has more rows than are sent, which is remembered: there is another way.
    TooMany,
    Failed(SqlError),
}

impl Stopped {
    fn by(run: &Run<'_>, failure: Failure) -> Self {
        let Failure::Refused(refusal) = &failure else { return Self::Failed(failure.into()) };
        match refusal.code {
            ErrorCode::NotPushed => Self::NotPushed,
            ErrorCode::OlderNode => {
                run.session.shared.met_older.set(Some(run.session.kernel.now()));
                Self::NotPushed
            }
            _ => Self::Failed(failure.into()),
        }
    }
}

impl JoinedRead {
    /// Opens the scans for a plan over a scan with lookups.
    pub(crate) async fn begin(
        run: &mut Run<'_>,
        joined: &JoinedScan<'_>,
        mut plan: JoinPlan,
    ) -> Result<Self, Stopped> {
        let scan = joined.scan;
        let (mut bytes_left, mut key_sets) = (GIVEN_BYTES_MAX, Vec::new());
        for sent in &joined.sent {
            match sent.put(run, &mut plan, &mut bytes_left).await? {
                Some(sets) => key_sets.extend(sets),
                None => return Ok(Self { open: VecDeque::new() }),
            }
        }
        key_sets.iter().for_each(|_| run.count_key_set(scan));
        key_sets.extend(run.narrowed.take(scan.id()).into_iter().flatten());
        let mut program = joined.program.clone();
        if !key_sets.is_empty() {
            Arc::make_mut(&mut program).members.extend(key_sets);
        }
        let table = &scan.definition.table;
        let located = locate(run, scan, &[]).map_err(Stopped::Failed)?;
        let ranges = match located {
            Located::Nothing => Vec::new(),
            Located::All => vec![ScanRange::Heap],
            Located::Ranges { ranges, .. } => ranges,
            Located::Keys(keys) => {
                let Some(index) = index_of_key(scan).filter(|_| keys.len() <= KEYS_MAX) else {
                    return Err(Stopped::NotPushed);
                };
                keys.into_iter().map(|key| range_of_key(index, key)).collect()
            }
        };
        let asked = asked(run, scan, ranges, &[]);
        let plan = Arc::new(plan);
        let snapshot = run.session.read_snapshot(&joined.tables).await.map_err(Stopped::Failed)?;
        let projection = scan.projection();
        let spec = |Asked { range, partition_keys }| ScanSpec {
            range,
            partition_keys,
            projection: projection.clone(),
            snapshot,
            program: Some(program.clone()),
            join: Some(plan.clone()),
            ..ScanSpec::heap(table.id)
        };
        let kernel = &run.session.kernel;
        let open = asked.into_iter().map(|asked| kernel.scan(spec(asked))).collect();
        Ok(Self { open })
    }

    /// The next blocks of the result; nothing at the end.
    pub(crate) async fn next(&mut self, run: &Run<'_>) -> Result<Option<Vec<Block>>, Stopped> {
        while let Some(first) = self.open.front_mut() {
            match first.next_part().await {
                Ok(Some((_, blocks))) => return Ok(Some(blocks)),
                Ok(None) => self.open.pop_front(),
                Err(failure) => return Err(Stopped::by(run, failure)),
            };
        }
        Ok(None)
    }
}

/// An index whose ranges of one key are the rows of a scan by primary key.
fn index_of_key(scan: &TableScan) -> Option<IndexId> {
    let table = &scan.definition.table;
    let is_primary = matches!(scan.path, AccessPath::Primary { .. });
    let mut online = table.online_indexes();
    let index = online.find(|index| index.columns == table.primary_key);
    index.filter(|_| is_primary).map(|index| index.id)
}

/// The range of one primary key.
fn range_of_key(index: IndexId, key: Vec<Value>) -> ScanRange {
    let bound = Some(IndexBound::including(key));
    ScanRange::Index { index, lower: bound.clone(), upper: bound, order: None }
}
