//! GROUP BY: groups of rows, and parts of groups that data nodes have made.

use std::collections::BTreeMap;

use sql_expression::{Accumulator, AggregateCall, SqlError, push_group_key};
use sqltype::Datum;

use vector::{Computer, Program};

use crate::execute::columns::{self, Stop, places_of};
use crate::execute::cursor::{BATCH, evaluate, open};
use crate::execute::pushdown::{self, Part};
use crate::execute::run::{Row, Run, memory_of};
use crate::execute::scan::TableCursor;
use crate::plan::operator::{Aggregate, Operator};

/// A group under way: its first row and its aggregates.
struct Group {
    first: Row,
    values: Vec<Datum>,
    accumulators: Vec<Accumulator>,
}

/// The groups of an operator.
struct Groups<'p> {
    aggregate: &'p Aggregate,
    groups: Vec<Group>,
    by_key: BTreeMap<Vec<u8>, usize>,
    /// Which aggregates have to be prepared for each row.
    waits: Vec<bool>,
    /// About how much memory they take.
    bytes: usize,
}

/// About what a group takes beside its row.
const GROUP_BYTES: usize = 300;

/// The rows of an operator: one for each group.
pub(super) async fn grouped(
    run: &mut Run<'_>,
    aggregate: &Aggregate,
) -> Result<Vec<Row>, SqlError> {
    let mut groups = Groups::new(aggregate);
    let pushed = match &aggregate.input {
        Operator::Scan(scan) if run.session.variables.pushdown => {
            pushdown::groups(&run.context, aggregate, scan).map(|program| (scan, program))
        }
        _ => None,
    };
    if let Some((scan, pushed)) = pushed {
        let mut cursor = TableCursor::with_program(run, scan, pushed.program.clone()).await?;
        while let Some((rows, blocks)) = cursor.next_mixed(run).await? {
            for row in rows {
                groups.add(run, row).await?;
            }
            for block in &blocks {
                for at in 0..block.rows() {
                    let part = pushed.part(run, aggregate, (block, at))?;
                    groups.merge(run, part)?;
                }
                run.worked(block.rows()).await?;
            }
        }
        return groups.finish(run);
    }
    match groups.add_columns(run).await {
        Ok(true) => return groups.finish(run),
        Ok(false) => {}
        // Nothing has been added.
        Err(Stop::Unsuitable) => groups = Groups::new(aggregate),
        Err(Stop::Failed(error)) => return Err(error),
    }
    let mut cursor = open(&aggregate.input);
    while let Some(rows) = cursor.next(run).await? {
        for row in rows {
            groups.add(run, row).await?;
        }
        run.worked(BATCH).await?;
    }
    groups.finish(run)
}

impl<'p> Groups<'p> {
    fn new(aggregate: &'p Aggregate) -> Self {
        let waits = |call: &AggregateCall| {
            call.arguments().any(|argument| argument.needs() != Default::default())
        };
        let waits = aggregate.calls.iter().map(waits).collect();
        Self { aggregate, groups: Vec::new(), by_key: BTreeMap::new(), waits, bytes: 0 }
    }

    /// The group of a row with these values of GROUP BY, at a level: the n-th super-aggregate
    /// groups by all but the last n.
    fn at(&mut self, values: &[Datum], level: usize, first: &Row) -> usize {
        let aggregate = self.aggregate;
        let kept = values.len() - level;
        let mut key = vec![level as u8];
        let types = aggregate.group.iter().map(|formula| formula.expression.sql_type());
        for (value, sql_type) in values[..kept].iter().zip(types) {
            push_group_key(value, sql_type, &mut key);
        }
        let (groups, bytes) = (&mut self.groups, &mut self.bytes);
        *self.by_key.entry(key).or_insert_with(|| {
            let mut values = values.to_vec();
            values[kept..].fill(Datum::Null);
            let accumulators = aggregate.calls.iter().map(Accumulator::new).collect();
            *bytes += memory_of(std::slice::from_ref(first)) + GROUP_BYTES;
            groups.push(Group { first: first.clone(), values, accumulators });
            groups.len() - 1
        })
    }

    fn levels(&self) -> usize {
        if self.aggregate.rollup { self.aggregate.group.len() } else { 0 }
    }

    /// Adds all rows of the input, if they come in columns.
    async fn add_columns(&mut self, run: &mut Run<'_>) -> Result<bool, Stop> {
        let aggregate = self.aggregate;
        let keys = aggregate.group.iter().map(|formula| &formula.expression);
        let arguments = aggregate.calls.iter().flat_map(AggregateCall::arguments);
        let Some(mut wanted) = places_of(keys.chain(arguments)) else { return Ok(false) };
        wanted.extend(&aggregate.shown);
        let Some(mut cursor) = columns::begin(run, &aggregate.input, Some(&wanted)) else {
            return Ok(false);
        };
        let shape = cursor.shape().clone();
        let pushed = pushdown::groups_of(&run.context, aggregate, &shape);
        let computer =
            pushed.as_ref().and_then(|pushed| Computer::new(Program::clone(&pushed.program)).ok());
        let mut table = computer.as_ref().and_then(Computer::groups);
        while let Some(batch) = cursor.next(run).await? {
            if let (Some(computer), Some(table)) = (&computer, &mut table)
                && computer.group(table, batch.inputs(), batch.rows()).is_ok()
            {
                run.check_memory(table.memory_bytes(), "groups")?;
                continue;
            }
            for at in 0..batch.rows() {
                self.add(run, batch.row(at, &shape, run)).await?;
                run.worked(1).await?;
            }
        }
        if let (Some(pushed), Some(table)) = (&pushed, table) {
            let block = table.finish();
            for at in 0..block.rows() {
                let part = pushed.part(run, aggregate, (&block, at))?;
                self.merge(run, part)?;
                run.worked(1).await?;
            }
        }
        Ok(true)
    }

    /// Adds a row.
    async fn add(&mut self, run: &mut Run<'_>, row: Row) -> Result<(), SqlError> {
        if self.aggregate.whole && !self.groups.is_empty() {
            return self.update(run, 0, &row).await;
        }
        let values = evaluate(run, &self.aggregate.group, &row).await?;
        for level in 0..=self.levels() {
            let at = self.at(&values, level, &row);
            self.update(run, at, &row).await?;
        }
        Ok(())
    }

    async fn update(&mut self, run: &mut Run<'_>, at: usize, row: &Row) -> Result<(), SqlError> {
        run.check_memory(self.bytes, "groups")?;
        let calls = self.aggregate.calls.iter().zip(&self.waits);
        for (accumulator, (call, waits)) in self.groups[at].accumulators.iter_mut().zip(calls) {
            if *waits {
                for argument in call.arguments() {
                    run.prepare(argument, row).await?;
                }
            }
            accumulator.update(call, row, &mut run.context)?;
        }
        Ok(())
    }

    /// Adds a part of a group.
    fn merge(&mut self, run: &mut Run<'_>, part: Part) -> Result<(), SqlError> {
        run.check_memory(self.bytes, "groups")?;
        for level in 0..=self.levels() {
            let at = self.at(&part.keys, level, &part.row);
            let group = self.groups[at].accumulators.iter_mut().zip(&part.accumulators);
            for ((accumulator, other), call) in group.zip(&self.aggregate.calls) {
                accumulator.merge(other.clone(), call, &mut run.context)?;
            }
        }
        Ok(())
    }

    fn finish(mut self, run: &mut Run<'_>) -> Result<Vec<Row>, SqlError> {
        let aggregate = self.aggregate;
        if self.groups.is_empty() && aggregate.whole {
            let nothing = vec![Datum::Null; aggregate.width];
            self.at(&[], 0, &nothing);
        }
        let mut rows = Vec::with_capacity(self.groups.len());
        for group in self.groups {
            let Group { first: mut row, values, accumulators } = group;
            row.truncate(aggregate.width);
            row.resize(aggregate.width, Datum::Null);
            for (accumulator, call) in accumulators.into_iter().zip(&aggregate.calls) {
                row.push(accumulator.finish(call, &mut run.context)?);
            }
            if aggregate.rollup {
                // Columns that are grouped by show NULL in super-aggregate rows.
                for (formula, value) in aggregate.group.iter().zip(values) {
                    if let Some(place) = formula.expression.as_column() {
                        row[place as usize] = value;
                    }
                }
            }
            rows.push(row);
        }
        Ok(rows)
    }
}
