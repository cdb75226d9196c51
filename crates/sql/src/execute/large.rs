//! Rows of a scan whose values may lie outside of them.
//!
//! # Owns
//! When such rows are completed: after the conditions that can be told without, a bounded number of
//! bytes at a time, so that a scan of large values takes no more memory than one portion and its
//! longest row.
//! # Guarantees
//! A row that was changed while it was read is checked again as a whole.
//! # Not here
//! Fetching the values (`crate::large::read`).

use std::collections::VecDeque;

use sql_expression::{Expression, Node, SqlError};
use sqltype::Datum;

use crate::access::{Reader, Values};
use crate::catalog::large::is_large;
use crate::execute::run::Run;
use crate::execute::scan::fill;
use crate::large::size_of;
use crate::logical::from_table::{FromTable, Source};
use crate::plan::operator::TableScan;
use crate::rows::Row;

/// Bytes of large values that are fetched before rows are given on.
const PORTION_BYTES: usize = 4 << 20;
/// Rows in a portion, at most.
const PORTION_ROWS: usize = 256;

/// What a scan keeps whose rows may have to be completed.
pub(crate) struct Outside {
    reader: Reader,
    /// Where the references stand in them.
    references: usize,
    /// Rows as they were read, and whether their conditions are to be checked.
    waiting: VecDeque<(Values, bool)>,
    /// Conditions that can be asked before a row is complete, and asked again.
    first: Vec<usize>,
}

impl Outside {
    /// None if the rows that are read are complete as they are.
    pub(crate) fn of(scan: &TableScan, reader: &Reader) -> Option<Box<Self>> {
        let references = reader.references()?;
        let is_large_place = |index: u32| {
            let at = (index as usize).checked_sub(scan.offset);
            let column = at.and_then(|at| scan.definition.columns.get(at));
            column.is_some_and(|column| is_large(&column.sql_type))
        };
        let first = (0..scan.conditions.len())
            .filter(|at| {
                let condition = &scan.conditions[*at];
                let reads_large = condition
                    .expression
                    .any(&mut |part| part.as_column().is_some_and(is_large_place));
                condition.is_ready() && !reads_large && !condition.expression.is_volatile()
            })
            .collect();
        let reader = reader.clone();
        Some(Box::new(Self { reader, references, waiting: VecDeque::new(), first }))
    }

    /// Takes rows as they were read.
    pub(crate) fn take(&mut self, rows: Vec<Values>, checks: bool) {
        self.waiting.extend(rows.into_iter().map(|row| (row, checks)));
    }

    /// Whether there are rows to be completed.
    pub(crate) fn has_rows(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Completes some of the rows, but for those for which the conditions do not hold; whether
    /// these are to be checked of the others.
    pub(crate) async fn next(
        &mut self,
        run: &mut Run<'_>,
        scan: &TableScan,
    ) -> Result<(Vec<Values>, bool), SqlError> {
        let (mut portion, mut checks, mut bytes) = (Vec::new(), false, 0);
        while bytes < PORTION_BYTES
            && portion.len() < PORTION_ROWS
            && let Some((values, checked)) = self.waiting.pop_front()
        {
            let size = size_of(&values[self.references]);
            if size > 0 && checked && !self.may_hold(run, scan, &values) {
                continue;
            }
            bytes += size;
            checks |= checked;
            portion.push(values);
        }
        let completed = self.reader.complete(portion).await?;
        checks |= completed.iter().any(|row| row.is_newer);
        Ok((completed.into_iter().filter_map(|row| row.values).collect(), checks))
    }

    /// Whether the conditions hold that do not need what lies outside of the row.
    fn may_hold(&self, run: &mut Run<'_>, scan: &TableScan, values: &Values) -> bool {
        if self.first.is_empty() {
            return true;
        }
        let mut row = empty_row(scan);
        fill(scan, values.clone(), &mut row, run);
        // What there is to be said of a row is said when it is checked as a whole.
        let warnings = std::mem::take(&mut run.context.warnings);
        let fails = |at: &usize| {
            let condition = &scan.conditions[*at].expression;
            matches!(condition.truth(&row, &mut run.context), Ok(None | Some(false)))
        };
        let may_hold = !self.first.iter().any(fails);
        run.context.warnings = warnings;
        may_hold
    }
}

/// Large columns of a table that an UPDATE or DELETE need not read: nothing it evaluates uses them,
/// and they stay where they are, or go with their row.
pub(crate) fn unread(table: &FromTable, used: &[&Expression], assigned: &[usize]) -> Vec<usize> {
    let Source::Table(definition) = &table.source else { return Vec::new() };
    let columns = &definition.columns;
    let moves = |at: &usize| definition.table.primary_key.contains(&columns[*at].column);
    let computes = !assigned.is_empty()
        && (!definition.checks.is_empty() || columns.iter().any(|c| c.generated.is_some()));
    let has_subqueries = used
        .iter()
        .any(|expression| expression.any(&mut |part| matches!(part.node, Node::Subquery(_))));
    if table.view.is_some() || computes || has_subqueries || assigned.iter().any(moves) {
        return Vec::new();
    }
    let is_used = |at: usize| {
        let place = Some((table.offset + at) as u32);
        used.iter().any(|expression| expression.any(&mut |part| part.as_column() == place))
    };
    (0..columns.len())
        .filter(|at| {
            // What was not read looks like NULL to the checks of a row that is changed.
            let passes = columns[*at].nullable || assigned.is_empty();
            is_large(&columns[*at].sql_type) && passes && !assigned.contains(at) && !is_used(*at)
        })
        .collect()
}

/// A row of the block before anything is in it.
fn empty_row(scan: &TableScan) -> Row {
    vec![Datum::Null; scan.width + usize::from(scan.hidden.is_some())]
}
