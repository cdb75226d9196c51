//! GROUP BY: groups of rows, of columns, and parts of groups that data nodes have made.

mod spilled;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use sql_expression::{
    Accumulator, AggregateCall, Expression, LARGE, Obstacle, SqlError, compare_values,
    push_group_key,
};
use sqltype::Datum;
use vector::{Block, Computer, GroupTable, JoinPlan, Program};

pub(crate) use spilled::{GroupRows, SpilledGroups};

use spilled::Overflow;

use crate::execute::columns;
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::shape::Stop;
use crate::execute::cursor::sort;
use crate::execute::cursor::{Work, evaluate, open};
use crate::execute::joined::{JoinedRead, JoinedScan, Stopped, is_asking_scan};
use crate::execute::kept::Kept;
use crate::execute::pushdown::{self, GroupProgram, Part};
use crate::execute::run::Run;
use crate::execute::scan::TableCursor;
use crate::execute::spilled::Spilled;
use crate::memory::Held;
use crate::plan::operator::{Aggregate, Operator, TableScan, places_of};
use crate::rows::{Row, memory_of, memory_of_row};

/// A group under way: its first row and its aggregates.
struct Group {
    first: Row,
    values: Vec<Datum>,
    /// How many of the values it is grouped by.
    kept: usize,
    accumulators: Vec<Accumulator>,
}

/// The groups of an operator.
struct Groups<'p> {
    aggregate: &'p Aggregate,
    groups: Vec<Group>,
    by_key: BTreeMap<Vec<u8>, usize>,
    /// Which aggregates have to be prepared for each row.
    waits: Vec<bool>,
    /// How much memory they take, about.
    held: Held,
    /// What the newest groups take that are not held yet.
    unheld: usize,
    overflow: Overflow,
}

/// About what a group takes beside its row.
const GROUP_BYTES: usize = 300;
/// Groups of data nodes that are added between two looks at the clock.
const MERGED_MAX: usize = 512;
/// What errors say that too much of is kept.
pub(crate) const GROUPS: &str = "groups";

/// What comes of an operator's input.
pub(crate) enum Gathered<'p> {
    /// Groups in columns, as a program gives them, and what they take.
    Block(GroupProgram, Block, Held),
    /// Rows of the operator.
    Rows(Kept),
    /// Groups some of which are in temporary files.
    Spilled(Box<SpilledGroups<'p>>),
}

/// Groups in columns under way, as long as all can be.
struct Table {
    pushed: GroupProgram,
    computer: Computer,
    groups: GroupTable,
    held: Held,
}

impl Table {
    fn new(run: &Run<'_>, pushed: GroupProgram) -> Option<Self> {
        let computer = Computer::new(Program::clone(&pushed.program)).ok()?;
        let groups = computer.groups()?;
        Some(Self { pushed, computer, groups, held: run.hold(GROUPS) })
    }

    /// Holds what it takes, or has its groups go to temporary files.
    async fn hold(&mut self, run: &mut Run<'_>, groups: &mut Groups<'_>) -> Result<(), SqlError> {
        let bytes = self.groups.memory_bytes();
        if !groups.overflow.is_allowed || bytes <= self.held.bytes() {
            return self.held.set(bytes);
        }
        if self.held.fits(bytes - self.held.bytes())? {
            Ok(())
        } else {
            groups.flush(run, self).await
        }
    }
}

/// The rows of an operator: one for each group.
pub(super) async fn grouped<'p>(
    run: &mut Run<'_>,
    aggregate: &'p Aggregate,
) -> Result<Work<'p>, SqlError> {
    let gathered = match gather(run, aggregate).await? {
        Gathered::Spilled(spilled) => {
            return Ok(Spilled::Groups(Box::new(spilled.in_rows(aggregate))).into());
        }
        gathered => gathered,
    };
    let Kept { rows, held } = rows_of(run, aggregate, gathered).await?;
    Ok(Work::Rows(rows.into(), held))
}

/// The rows of groups that are in memory.
async fn rows_of(
    run: &mut Run<'_>,
    aggregate: &Aggregate,
    gathered: Gathered<'_>,
) -> Result<Kept, SqlError> {
    match gathered {
        Gathered::Rows(rows) => Ok(rows),
        Gathered::Spilled(_) => Err(SqlError::internal("groups in files among those in memory")),
        Gathered::Block(pushed, block, of_block) => {
            let mut held = of_block.another();
            // Where others spill, the rows of a block may stand beside it for a moment.
            held.be_lenient(run.may_spill());
            let mut rows = Vec::with_capacity(block.rows());
            for at in 0..block.rows() {
                let row = pushed.result_row(run, aggregate, &block, at)?;
                held.add(memory_of_row(&row))?;
                rows.push(row);
                run.worked(1).await?;
            }
            drop(of_block);
            held.be_lenient(false);
            Ok(Kept { rows, held })
        }
    }
}

/// Groups that data nodes make: of the rows of a scan, or of such rows joined with others.
pub(crate) enum Pushed<'p> {
    Scanned(&'p TableScan, Box<GroupProgram>),
    Joined(Box<(JoinedScan<'p>, JoinPlan, GroupProgram)>),
}

/// The groups of an operator as data nodes make them; or why they do not.
pub(crate) fn pushed<'p>(run: &Run<'_>, aggregate: &'p Aggregate) -> Result<Pushed<'p>, Obstacle> {
    if !run.session.variables.pushdown {
        return Err(Obstacle::because("nines_pushdown is OFF"));
    }
    if let Operator::Scan(scan) = &aggregate.input.operator
        && !is_asking_scan(run, &aggregate.input)
    {
        let made = pushdown::groups(run, aggregate, scan)?;
        return Ok(Pushed::Scanned(scan, Box::new(made)));
    }
    let here = || Obstacle::because("its rows are made in the SQL node");
    let wanted = wanted_of(aggregate).ok_or_else(here)?;
    let joined = JoinedScan::new(run, &aggregate.input, &wanted).ok_or_else(here)??;
    let (plan, groups) = joined.groups(run, aggregate)?;
    Ok(Pushed::Joined(Box::new((joined, plan, groups))))
}

/// The places of the row that groups and aggregates use, if that can be told.
fn wanted_of(aggregate: &Aggregate) -> Option<BTreeSet<usize>> {
    let keys = aggregate.group.iter().map(|formula| &formula.expression);
    let arguments = aggregate.calls.iter().flat_map(AggregateCall::arguments);
    let mut wanted = places_of(keys.chain(arguments))?;
    wanted.extend(&aggregate.shown);
    Some(wanted)
}

/// The input of an operator on columns, if it can be had so.
pub(crate) fn columns_of<'p>(run: &Run<'_>, aggregate: &'p Aggregate) -> Option<ColumnCursor<'p>> {
    columns::begin(run, &aggregate.input, Some(&wanted_of(aggregate)?))
}

/// Reads all of an operator's input.
pub(crate) async fn gather<'p>(
    run: &mut Run<'_>,
    aggregate: &'p Aggregate,
) -> Result<Gathered<'p>, SqlError> {
    let mut groups = Groups::new(run, aggregate);
    let mut made = pushed(run, aggregate).ok();
    while let Some(Pushed::Joined(of_join)) = made {
        let (joined, plan, of_groups) = *of_join;
        let known = run.too_large.len();
        let added = Box::pin(groups.add_joined(run, &joined, plan, of_groups)).await?;
        if let Some(table) = added {
            return groups.finish_with(run, Some(table)).await;
        }
        groups = Groups::new(run, aggregate);
        // Data nodes may make it without a side that has turned out too large to be sent.
        let may_be = run.too_large.len() > known;
        made = if may_be { pushed(run, aggregate).ok() } else { None };
    }
    if let Some(Pushed::Scanned(scan, pushed)) = made
        && let Some(mut table) = Table::new(run, *pushed)
    {
        let program = table.pushed.program.clone();
        let mut cursor = TableCursor::with_program(run, scan, program).await?;
        while let Some((rows, blocks)) = cursor.next_mixed(run).await? {
            for row in rows {
                groups.add(run, row).await?;
            }
            groups.add_blocks(run, &mut table, &blocks).await?;
        }
        return groups.finish_with(run, Some(table)).await;
    }
    match Box::pin(groups.add_columns(run)).await {
        Ok(Some(table)) => return groups.finish_with(run, table).await,
        Ok(None) => {}
        // Nothing has been added.
        Err(Stop::Unsuitable) => groups = Groups::new(run, aggregate),
        Err(Stop::Failed(error)) => return Err(error),
    }
    let mut cursor = open(&aggregate.input);
    while let Some(rows) = cursor.next(run).await? {
        for row in rows {
            groups.add(run, row).await?;
            run.worked_a_row().await?;
        }
    }
    groups.finish_with(run, None).await
}

impl<'p> Groups<'p> {
    fn new(run: &Run<'_>, aggregate: &'p Aggregate) -> Self {
        let waits = |call: &AggregateCall| {
            call.arguments().any(|argument| argument.needs() != Default::default())
        };
        let waits = aggregate.calls.iter().map(waits).collect();
        let (groups, by_key, held) = (Vec::new(), BTreeMap::new(), run.hold(GROUPS));
        let overflow = Overflow::new(run, aggregate);
        Self { aggregate, groups, by_key, waits, held, unheld: 0, overflow }
    }

    /// The key of a group with these values of GROUP BY, at a level.
    fn key_of(&self, values: &[Datum], level: usize) -> Vec<u8> {
        let mut key = vec![level as u8];
        let types = self.aggregate.group.iter().map(|formula| formula.expression.sql_type());
        for (value, sql_type) in values[..values.len() - level].iter().zip(types) {
            push_group_key(value, sql_type, &mut key);
        }
        key
    }

    /// The group of a row with these values of GROUP BY, at a level: the n-th super-aggregate
    /// groups by all but the last n.
    fn at(&mut self, values: &[Datum], level: usize, first: &Row) -> usize {
        let key = self.key_of(values, level);
        self.at_key(key, values, level, first)
    }

    /// The same for its key.
    fn at_key(&mut self, key: Vec<u8>, values: &[Datum], level: usize, first: &Row) -> usize {
        let aggregate = self.aggregate;
        let kept = values.len() - level;
        let (groups, unheld) = (&mut self.groups, &mut self.unheld);
        let of_key = key.len();
        *self.by_key.entry(key).or_insert_with(|| {
            let mut values = values.to_vec();
            values[kept..].fill(Datum::Null);
            let accumulators = aggregate.calls.iter().map(Accumulator::new).collect();
            let of_values = memory_of_row(&values);
            *unheld += memory_of_row(first) + of_values + of_key + GROUP_BYTES;
            groups.push(Group { first: first.clone(), values, kept, accumulators });
            groups.len() - 1
        })
    }

    /// Adds groups that data nodes have made.
    async fn add_blocks(
        &mut self,
        run: &mut Run<'_>,
        table: &mut Table,
        blocks: &[Block],
    ) -> Result<(), SqlError> {
        for block in blocks {
            let most = run.portion(MERGED_MAX);
            for from in (0..block.rows()).step_by(most) {
                let rows = from..block.rows().min(from + most);
                let merged = table.groups.merge(&table.pushed.program, block, rows.clone());
                if merged.is_err() {
                    self.merge_all(run, &table.pushed, block, rows.clone()).await?;
                }
                table.hold(run, self).await?;
                run.worked(rows.len() / 4 + 1).await?;
            }
        }
        Ok(())
    }

    /// Adds all groups of rows that data nodes join; nothing if they do not.
    async fn add_joined(
        &mut self,
        run: &mut Run<'_>,
        joined: &JoinedScan<'_>,
        plan: JoinPlan,
        pushed: GroupProgram,
    ) -> Result<Option<Table>, SqlError> {
        let Some(mut table) = Table::new(run, pushed) else { return Ok(None) };
        let mut read = match JoinedRead::begin(run, joined, plan).await {
            Ok(read) => read,
            Err(Stopped::NotPushed | Stopped::TooMany) => return Ok(None),
            Err(Stopped::Failed(error)) => return Err(error),
        };
        loop {
            match read.next(run).await {
                Ok(Some(blocks)) => self.add_blocks(run, &mut table, &blocks).await?,
                Ok(None) => return Ok(Some(table)),
                Err(Stopped::NotPushed | Stopped::TooMany) => return Ok(None),
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
    }

    fn levels(&self) -> usize {
        if self.aggregate.rollup { self.aggregate.group.len() } else { 0 }
    }

    /// Adds all rows of the input, if they come in columns; those that a program has grouped are in
    /// the table, if there is one.
    async fn add_columns(&mut self, run: &mut Run<'_>) -> Result<Option<Option<Table>>, Stop> {
        let aggregate = self.aggregate;
        let Some(mut cursor) = columns_of(run, aggregate) else { return Ok(None) };
        let shape = cursor.shape().clone();
        let mut table = pushdown::groups_of(&run.context, aggregate, &shape)
            .and_then(|pushed| Table::new(run, pushed));
        while let Some(batch) = cursor.next(run).await? {
            if let Some(table) = &mut table
                && table.computer.group(&mut table.groups, batch.inputs(), batch.rows()).is_ok()
            {
                table.hold(run, self).await?;
                continue;
            }
            for at in 0..batch.rows() {
                self.add(run, batch.row(at, &shape, run)).await?;
                run.worked(1).await?;
            }
        }
        Ok(Some(table))
    }

    /// Adds some groups in columns.
    async fn merge_all(
        &mut self,
        run: &mut Run<'_>,
        pushed: &GroupProgram,
        block: &Block,
        rows: Range<usize>,
    ) -> Result<(), SqlError> {
        for at in rows {
            let part = pushed.part(run, self.aggregate, block, at)?;
            self.merge_or_keep(run, part, block, at).await?;
            run.worked(1).await?;
        }
        Ok(())
    }

    /// There is nothing more to add but a table.
    async fn finish_with(
        mut self,
        run: &mut Run<'_>,
        table: Option<Table>,
    ) -> Result<Gathered<'p>, SqlError> {
        let mut table = table;
        if self.overflow.is_begun() {
            return self.finish_spilled(run, table).await;
        }
        if let Some(some) = &table
            && !self.groups.is_empty()
            && !some.groups.is_empty()
            && self.overflow.is_allowed
            && !self.held.fits(some.held.bytes())?
        {
            // Both together are too much.
            if let Some(table) = &mut table {
                self.flush(run, table).await?;
            }
            return self.finish_spilled(run, table).await;
        }
        if let Some(Table { pushed, groups, held, .. }) = table {
            let alone = self.groups.is_empty() && !groups.is_empty() && self.levels() == 0;
            let block = groups.finish();
            if alone {
                return Ok(Gathered::Block(pushed, block, held));
            }
            let all = 0..block.rows();
            self.held.be_lenient(self.overflow.is_allowed);
            self.merge_all(run, &pushed, &block, all).await?;
            assert!(!self.overflow.is_begun(), "all of it fits");
            self.held.be_lenient(false);
        }
        self.finish(run).await.map(Gathered::Rows)
    }

    /// Adds a row.
    async fn add(&mut self, run: &mut Run<'_>, row: Row) -> Result<(), SqlError> {
        if self.aggregate.whole && !self.groups.is_empty() {
            return self.update(run, 0, &row).await;
        }
        let values = evaluate(run, &self.aggregate.group, &row).await?;
        self.add_with(run, row, &values).await
    }

    /// Adds a row with the values that it is grouped by.
    async fn add_with(
        &mut self,
        run: &mut Run<'_>,
        row: Row,
        values: &[Datum],
    ) -> Result<(), SqlError> {
        for level in 0..=self.levels() {
            let key = self.key_of(values, level);
            if self.overflow.takes_rows() && !self.by_key.contains_key(&key) {
                return self.overflow.push_row(&key, &row, values);
            }
            let at = self.at_key(key, values, level, &row);
            self.update(run, at, &row).await?;
        }
        Ok(())
    }

    async fn update(&mut self, run: &mut Run<'_>, at: usize, row: &Row) -> Result<(), SqlError> {
        run.context.kept_bytes = 0;
        run.context.begin_value();
        let calls = self.aggregate.calls.iter().zip(&self.waits);
        for (accumulator, (call, waits)) in self.groups[at].accumulators.iter_mut().zip(calls) {
            if *waits {
                for argument in call.arguments() {
                    run.prepare(argument, row).await?;
                }
            }
            accumulator.update(call, row, &mut run.context)?;
        }
        self.unheld += usize::try_from(run.context.kept_bytes).unwrap_or(usize::MAX);
        self.hold(run).await
    }

    /// Holds what groups have come to take. Groups that grow go to temporary files if it does not
    /// fit, all of them.
    async fn hold(&mut self, run: &mut Run<'_>) -> Result<(), SqlError> {
        let more = std::mem::take(&mut self.unheld);
        if more == 0 || self.overflow.hold(&mut self.held, more, self.groups.len())? {
            return Ok(());
        }
        self.write_states(run).await
    }

    /// Adds a part of a group.
    async fn merge(&mut self, run: &mut Run<'_>, part: Part) -> Result<(), SqlError> {
        for level in 0..=self.levels() {
            let at = self.at(&part.keys, level, &part.row);
            let group = self.groups[at].accumulators.iter_mut().zip(&part.accumulators);
            for ((accumulator, other), call) in group.zip(&self.aggregate.calls) {
                accumulator.merge(other.clone(), call, &mut run.context)?;
            }
        }
        self.hold(run).await
    }

    async fn finish(mut self, run: &mut Run<'_>) -> Result<Kept, SqlError> {
        let aggregate = self.aggregate;
        // Results take what groups have taken.
        self.held.be_lenient(self.overflow.is_allowed);
        if self.groups.is_empty() && aggregate.whole {
            let nothing = vec![Datum::Null; aggregate.width];
            self.at(&[], 0, &nothing);
        }
        let mut rows = Vec::with_capacity(self.groups.len());
        self.by_key.clear();
        if aggregate.rollup {
            let compare = |a: &Group, b: &Group| in_order_of_totals(aggregate, a, b);
            self.groups = sort::merged(run, self.groups, &compare, &mut self.held).await?;
        }
        for group in self.groups {
            let Group { first: mut row, values, kept, accumulators } = group;
            row.truncate(aggregate.width);
            row.resize(aggregate.width, Datum::Null);
            for (accumulator, call) in accumulators.into_iter().zip(&aggregate.calls) {
                row.push(if call.grouping {
                    grouping(aggregate, kept, call)
                } else {
                    accumulator.finish(call, &mut run.context)?
                });
            }
            if aggregate.rollup {
                // What is grouped by shows NULL in super-aggregate rows: columns of the row for
                // subqueries, and behind the aggregates for all else.
                for (formula, value) in aggregate.group.iter().zip(&values) {
                    if let Some(place) = formula.expression.as_column() {
                        row[place as usize] = value.clone();
                    }
                }
                row.extend(values);
            }
            // What an aggregate has made of many values stands beside these for a moment.
            let of_results = memory_of_row(&row);
            if of_results >= LARGE {
                self.held.add(of_results)?;
            }
            rows.push(row);
            run.worked(1).await?;
        }
        self.held.set(memory_of(&rows))?;
        self.held.be_lenient(false);
        Ok(Kept { rows, held: self.held })
    }
}

/// WITH ROLLUP: the order of what rows are grouped by, totals behind what they are totals of.
fn in_order_of_totals(aggregate: &Aggregate, a: &Group, b: &Group) -> Ordering {
    for (at, key) in aggregate.group.iter().enumerate() {
        let order = match (at < a.kept, at < b.kept) {
            (true, true) => compare_values(&a.values[at], &b.values[at], key.expression.sql_type()),
            // One group has more values than the other, or both have no more.
            (more, other) => other.cmp(&more),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// GROUPING in a row that is grouped by the first values alone.
fn grouping(aggregate: &Aggregate, kept: usize, call: &AggregateCall) -> Datum {
    let is_left_out = |value: &Expression| {
        let at = aggregate.group.iter().position(|formula| formula.expression == *value);
        at.is_some_and(|at| at >= kept)
    };
    let bits = call.values.iter().fold(0, |bits, value| bits << 1 | i64::from(is_left_out(value)));
    Datum::Int(bits)
}
