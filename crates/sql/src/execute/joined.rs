//! Joins that data nodes make: to the rows of a scan those that are looked up by key.
//!
//! # Owns
//! Which lookups over a scan are given to the data nodes, as a plan with the parameters of this
//! execution; the scans that run it.
//! # Guarantees
//! A query gives the same answer with and without. What data nodes refuse to compute is known
//! before the first rows: the operator may be begun anew.
//! # Limits
//! Lookups by a whole primary or unique key, whose values are columns of the rows before or
//! constants. Rows that are found by ranges of an index are joined in the SQL node.
//! # Not here
//! What runs the plan (`client::Joiner`), joins by hash and joins of rows (`columns`, `cursor`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use client::{IndexBound, ScanRange, ScanSpec};
use model::{ColumnId, ErrorCode, IndexId, Table, TableId, Value};
use sql_expression::{Expression, Obstacle, ProgramBuilder, ProgramColumn, SqlError, kind_of};
use sqltype::SqlType;
use stdx::Duration;
use vector::{Block, Input, JoinPlan, KeyPart, LOOKUPS_MAX, Lookup, Matching, Program};

use crate::execute::columns::{Shape, places_of};
use crate::execute::key::{KeyValue, key_value};
use crate::execute::pushdown::{self, GroupProgram, untranslated};
use crate::execute::run::{Run, with_parameters};
use crate::execute::scan::{Located, locate};
use crate::kernel::{Failure, Scan};
use crate::plan::estimate::Estimates;
use crate::plan::operator::{AccessPath, Aggregate, Formula, JoinSpec, Operator, TableScan};

/// Rows by key that are read by scans of one row each, at most.
const KEYS_MAX: usize = 16;
/// How long joins are kept here after a data node of an older version was met.
const OLDER_TIME: Duration = Duration::from_secs(30);

/// A scan with the lookups over it, as data nodes run them.
pub(crate) struct JoinedScan<'p> {
    pub(crate) scan: &'p TableScan,
    /// All tables that are read.
    tables: Vec<TableId>,
    program: Arc<Program>,
    lookups: Vec<Lookup>,
    /// What stands at the places of the block's row, with its place in the joined row.
    columns: Shape,
    /// What data nodes check of joined rows.
    filter: Vec<&'p Formula>,
    /// What is left to be checked of them.
    pub(crate) others: Vec<&'p Formula>,
}

/// Operators that may become one scan.
struct Chain<'p> {
    root: &'p Operator,
    scan: &'p TableScan,
    lookups: Vec<(&'p TableScan, &'p JoinSpec)>,
    filter: &'p [Formula],
}

/// The scan and the tables of the lookups that an operator is made of, if it is made of them.
fn chain_of(operator: &Operator) -> Option<Chain<'_>> {
    let (mut below, filter) = match operator {
        Operator::Filter { input, conditions } => (&**input, conditions.as_slice()),
        _ => (operator, &[][..]),
    };
    let mut lookups = Vec::new();
    while let Operator::Lookup { input, scan, join } = below {
        lookups.push((&**scan, join));
        below = input;
    }
    lookups.reverse();
    match below {
        Operator::Scan(scan) if !lookups.is_empty() => {
            Some(Chain { root: below, scan, lookups, filter })
        }
        _ => None,
    }
}

/// Whether an operator is a scan with lookups by whole keys, for so many rows that data nodes may
/// make them.
pub(crate) fn is_chain(run: &Run<'_>, operator: &Operator) -> bool {
    chain_of(operator).is_some_and(|chain| {
        let keyed = chain.lookups.iter().all(|(scan, _)| key_of(scan).is_some());
        keyed && are_many(run, &chain)
    })
}

/// Whether rows are looked up for as many as it is worth it.
fn are_many(run: &Run<'_>, chain: &Chain<'_>) -> bool {
    let rows = Estimates { session: run.session }.of(chain.root).rows;
    rows >= run.session.variables.pushed_join_rows as f64
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
        chain_of(operator).map(|chain| Self::of_chain(run, &chain, wanted))
    }

    fn of_chain(
        run: &Run<'_>,
        chain: &Chain<'p>,
        wanted: &BTreeSet<usize>,
    ) -> Result<Self, Obstacle> {
        if !run.session.variables.pushdown {
            return because("nines_pushdown is OFF");
        }
        let Chain { scan, ref lookups, filter, .. } = *chain;
        let now = run.session.kernel.now();
        if run.session.shared.met_older.get().is_some_and(|at| now.since(at) < OLDER_TIME) {
            return because("a data node is of an older version");
        }
        if !are_many(run, chain) {
            return because("rows are looked up for few (nines_pushed_join_rows)");
        }
        if lookups.len() > LOOKUPS_MAX {
            return because("more than 32 tables are joined");
        }
        if let Some(why) = pushdown::bound(scan) {
            return because(why);
        }
        let mut tables = Vec::with_capacity(lookups.len() + 1);
        for of in lookups.iter().map(|(of, _)| *of).chain([scan]) {
            check_table(run, of)?;
            tables.push(of.definition.table.id);
        }
        let context = &run.context;
        let own = pushdown::columns(scan);
        let mut builder = ProgramBuilder::new(&own, context);
        let mut others = ready(&scan.conditions)?;
        others = untranslated(context, others.into_iter(), &mut builder);
        let mut all = own.clone();
        for (of, join) in lookups {
            all.iter_mut().zip(pushdown::columns(of)).for_each(|(to, from)| {
                *to = to.take().or(from);
            });
            let mut conditions = ready(&of.conditions)?;
            conditions.extend(ready(&join.conditions)?);
            let mut trial = ProgramBuilder::new(&all, context);
            let left = untranslated(context, conditions.into_iter(), &mut trial);
            if join.outer && !left.is_empty() {
                return because("a condition of an outer join is left to the SQL node");
            }
            others.extend(left);
        }
        let mut trial = ProgramBuilder::new(&all, context);
        let filter = ready(filter)?;
        let left = untranslated(context, filter.iter().copied(), &mut trial);
        let filter: Vec<&Formula> =
            filter.into_iter().filter(|f| !left.iter().any(|l| std::ptr::eq(*l, *f))).collect();
        others.extend(left);
        let needed = needed(chain, &others, wanted)?;
        let mut columns: Shape = vec![None; scan.width];
        for place in scan.wanted.iter().map(|at| scan.offset + at) {
            if needed.contains(&place) {
                builder.give_column(place).ok_or_else(too_large)?;
                add_column(&mut columns, place, &all);
            }
        }
        let mut made = Vec::with_capacity(lookups.len());
        for (of, join) in lookups {
            made.push(lookup(run, (of, join), (&all, &needed, &others), &mut columns)?);
        }
        let program = Arc::new(builder.finish().ok_or_else(too_large)?);
        Ok(Self { scan, tables, program, lookups: made, columns, filter, others })
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
        (order, rows): (&[(&Expression, bool)], u32),
    ) -> Result<JoinPlan, Obstacle> {
        if !self.others.is_empty() {
            return because("conditions are left to the SQL node");
        }
        let mut builder = self.result(run)?;
        match builder.first_rows(order, rows) {
            true => self.plan(places, builder).map(|(plan, _)| plan),
            false => because("what is sorted by has no translation"),
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
        let programs = self.lookups.iter().map(|lookup| &lookup.conditions);
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

/// Conditions that can be evaluated at once; those that wait for something keep the join here.
fn ready(conditions: &[Formula]) -> Result<Vec<&Formula>, Obstacle> {
    match conditions.iter().all(Formula::is_ready) {
        true => Ok(conditions.iter().collect()),
        false => because("a condition waits for a subquery or a function"),
    }
}

/// Whether committed rows of a table are enough, all values of which lie in them.
fn check_table(run: &Run<'_>, scan: &TableScan) -> Result<(), Obstacle> {
    let table = &scan.definition.table;
    if scan.lock.is_some() || scan.hidden.is_some() {
        return because("its rows are locked or changed");
    }
    if run.session.transaction.written.contains(&table.id) {
        return because("the transaction has changed the table");
    }
    if run.session.is_temporary(table.id) {
        return because("a table is temporary");
    }
    let columns = scan.kernel_columns();
    match table.large.as_ref().is_some_and(|large| columns.contains(&large.references)) {
        true => because("values are wanted that may lie outside of their rows"),
        false => Ok(()),
    }
}

/// The places of the joined row that something uses: besides the wanted ones what is compared with
/// keys, and what conditions ask for that are not checked by the scan itself.
fn needed(
    chain: &Chain<'_>,
    others: &[&Formula],
    wanted: &BTreeSet<usize>,
) -> Result<BTreeSet<usize>, Obstacle> {
    let of_lookups = chain.lookups.iter().flat_map(|(scan, join)| {
        let keys = key_of(scan).into_iter().flatten();
        let conditions = scan.conditions.iter().chain(&join.conditions);
        keys.chain(conditions.map(|condition| &condition.expression))
    });
    let conditions = others.iter().copied().chain(chain.filter);
    let all = of_lookups.chain(conditions.map(|condition| &condition.expression));
    let mut places = places_of(all).ok_or(Obstacle::because("a condition waits for a subquery"))?;
    places.extend(wanted);
    Ok(places)
}

/// The values of the key that rows are looked up by, if it is one.
fn key_of(scan: &TableScan) -> Option<&Vec<Expression>> {
    match &scan.path {
        AccessPath::Primary { keys } | AccessPath::Unique { keys, .. } => match keys.as_slice() {
            [key] => Some(key),
            _ => None,
        },
        AccessPath::Ranges { .. } | AccessPath::Full => None,
    }
}

/// Puts a column behind those of the joined row.
fn add_column(columns: &mut Shape, place: usize, all: &Shape) {
    let next = ColumnId(columns.iter().flatten().count() as u16);
    columns[place] = all[place]
        .as_ref()
        .map(|column| ProgramColumn { column: next, sql_type: column.sql_type.clone() });
}

/// A lookup of a plan, whose columns are added to those of the joined row.
fn lookup(
    run: &Run<'_>,
    (scan, join): (&TableScan, &JoinSpec),
    (all, needed, others): (&Shape, &BTreeSet<usize>, &[&Formula]),
    columns: &mut Shape,
) -> Result<Lookup, Obstacle> {
    let table = &scan.definition.table;
    let Some(values) = key_of(scan) else {
        return because("its rows are not found by one whole key");
    };
    let (index, of_key) = match &scan.path {
        AccessPath::Unique { index, .. } => match table.unique_index(*index) {
            Some(unique) => (Some(*index), &unique.columns),
            None => return because("the index is not there"),
        },
        _ => (None, &table.primary_key),
    };
    let mut key = Vec::with_capacity(values.len());
    for (value, column) in values.iter().zip(of_key) {
        let of_column = scan.definition.columns.iter().find(|of| of.column == *column);
        let part = of_column.and_then(|of| key_part(run, value, &of.sql_type, columns));
        key.push(part.ok_or(Obstacle::because("a value of its key is of another type"))?);
    }
    let mut read = Vec::new();
    for at in &scan.wanted {
        let (place, column) = (scan.offset + at, &scan.definition.columns[*at]);
        if needed.contains(&place) {
            read.push(Input { column: column.column, kind: kind_of(&column.sql_type) });
            add_column(columns, place, all);
        }
    }
    let mut builder = ProgramBuilder::new(columns, &run.context);
    let conditions = scan.conditions.iter().chain(&join.conditions);
    let left = untranslated(&run.context, conditions, &mut builder);
    // What is not checked here is among the others.
    if !left.iter().all(|left| others.iter().any(|other| std::ptr::eq(*other, *left))) {
        return because("a condition has no translation");
    }
    let conditions = builder.finish().ok_or_else(too_large)?;
    let matching = if join.outer { Matching::Left } else { Matching::Inner };
    let (table, version) = (table.id, table.version);
    Ok(Lookup { table, version, index, key, columns: read, conditions, matching })
}

/// A value of a key, if it can be compared as it is stored.
fn key_part(
    run: &Run<'_>,
    value: &Expression,
    column: &SqlType,
    columns: &Shape,
) -> Option<KeyPart> {
    let value = with_parameters(&run.context, value);
    if let Some(place) = value.as_column() {
        let from = columns.get(place as usize)?.as_ref()?;
        return is_same_key(&from.sql_type, column).then_some(KeyPart::Place(from.column.0));
    }
    match key_value(value.as_constant()?, column) {
        KeyValue::Exact(value) => Some(KeyPart::Constant(value)),
        KeyValue::NoMatch | KeyValue::Unusable => None,
    }
}

/// Whether equal values of two types are stored alike. What one of them cannot store has no equal.
fn is_same_key(from: &SqlType, to: &SqlType) -> bool {
    if from.kind.is_integer() && to.kind.is_integer() {
        return from.unsigned == to.unsigned;
    }
    if from.kind.is_text() && to.kind.is_text() {
        // A longer text may be equal but for spaces.
        return from.collation == to.collation && from.length <= to.length;
    }
    from == to
}

/// The scans of a join.
pub(crate) struct JoinedRead {
    open: VecDeque<Scan>,
}

/// How the next blocks of a join did not come.
pub(crate) enum Stopped {
    /// Data nodes do not compute it, or one is older.
    NotPushed,
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
        plan: JoinPlan,
    ) -> Result<Self, Stopped> {
        let scan = joined.scan;
        let mut program = joined.program.clone();
        if let Some(sets) = run.narrowed.remove(&std::ptr::from_ref(scan)) {
            Arc::make_mut(&mut program).members.extend(sets);
        }
        let table = &scan.definition.table;
        let located = locate(run, scan, &[]).map_err(Stopped::Failed)?;
        let ranges: Vec<(ScanRange, Option<Vec<Value>>)> = match located {
            Located::Nothing => Vec::new(),
            Located::All => vec![(ScanRange::Heap, None)],
            Located::Ranges { ranges, .. } => ranges.into_iter().map(|r| (r, None)).collect(),
            Located::Keys(keys) => {
                let Some(index) = index_of_key(scan).filter(|_| keys.len() <= KEYS_MAX) else {
                    return Err(Stopped::NotPushed);
                };
                keys.into_iter().map(|key| range_of_key(table, index, key)).collect()
            }
        };
        let plan = Arc::new(plan);
        let snapshot = run.session.read_snapshot(&joined.tables).await.map_err(Stopped::Failed)?;
        let projection = scan.projection();
        let spec = |(range, partition_key)| ScanSpec {
            range,
            partition_key,
            projection: projection.clone(),
            snapshot,
            program: Some(program.clone()),
            join: Some(plan.clone()),
            ..ScanSpec::heap(table.id)
        };
        let kernel = &run.session.kernel;
        let open = ranges.into_iter().map(|range| kernel.scan(spec(range))).collect();
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
    let index = table.ordered_indexes.iter().find(|index| index.columns == table.primary_key);
    index.filter(|_| is_primary).map(|index| index.id)
}

/// The range of one primary key, and the values that say in which partition it is.
fn range_of_key(table: &Table, index: IndexId, key: Vec<Value>) -> (ScanRange, Option<Vec<Value>>) {
    let value = |column: &ColumnId| {
        let at = table.primary_key.iter().position(|of| of == column)?;
        key.get(at).cloned()
    };
    let partition_key = table.distribution_key.iter().map(value).collect();
    let bound = Some(IndexBound::including(key));
    let (lower, upper) = (bound.clone(), bound);
    (ScanRange::Index { index, lower, upper, order: None }, partition_key)
}
