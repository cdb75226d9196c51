//! GROUP BY: groups of rows, and parts of groups that data nodes have made.

use std::collections::BTreeMap;

use sql_expression::{Accumulator, AggregateCall, SqlError, push_group_key};
use sqltype::Datum;

use crate::execute::cursor::{BATCH, evaluate, open};
use crate::execute::pushdown::{self, Part};
use crate::execute::run::{Row, Run};
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
}

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
        let mut cursor = TableCursor::grouping(run, scan, pushed.program.clone()).await?;
        while let Some((rows, blocks)) = cursor.next_mixed(run).await? {
            for row in rows {
                groups.add(run, row).await?;
            }
            for block in &blocks {
                for at in 0..block.rows() {
                    let part = pushed.part(run, aggregate, scan, (block, at))?;
                    groups.merge(run, part)?;
                }
                run.worked(block.rows()).await?;
            }
        }
        return groups.finish(run);
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
        Self { aggregate, groups: Vec::new(), by_key: BTreeMap::new(), waits }
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
        let groups = &mut self.groups;
        *self.by_key.entry(key).or_insert_with(|| {
            let mut values = values.to_vec();
            values[kept..].fill(Datum::Null);
            let accumulators = aggregate.calls.iter().map(Accumulator::new).collect();
            groups.push(Group { first: first.clone(), values, accumulators });
            groups.len() - 1
        })
    }

    fn levels(&self) -> usize {
        if self.aggregate.rollup { self.aggregate.group.len() } else { 0 }
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
