//! Groups, as rows in columns.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{AggregateCall, Form, SqlError, kind_of};
use sql_parser::ast::AggregateFunction;
use vector::{Block, Values, Vector};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::{ColumnWork, Next};
use crate::execute::columns::shape::{Shape, Stop};
use crate::execute::columns::source::{SourceCursor, push};
use crate::execute::cursor::group::{GROUPS, Gathered, SpilledGroups, gather};
use crate::execute::kept::Kept;
use crate::execute::pushdown::GroupProgram;
use crate::execute::run::Run;
use crate::execute::spilled::batches::{BatchReader, BatchWriter};
use crate::memory::Held;
use crate::plan::operator::{Aggregate, Operator, PlanNode};

/// Groups that are given at a time.
const GIVEN_MAX: usize = 1_024;

/// Groups at work.
pub(crate) struct GroupCursor<'p> {
    aggregate: &'p Aggregate,
    /// Puts rows into columns, where groups have come as rows.
    source: SourceCursor<'p>,
    begun: bool,
    /// The groups, and how many of them have been given.
    made: Option<(ColumnBatch, usize)>,
    /// What they take.
    held: Option<Held>,
    /// The groups, where they are in a file.
    batches: Option<BatchReader>,
}

impl<'p> GroupCursor<'p> {
    pub(super) fn new(operator: &'p PlanNode, wanted: &BTreeSet<usize>) -> Option<Self> {
        let Operator::Aggregate(aggregate) = &operator.operator else { return None };
        let source = SourceCursor::new(operator, wanted)?;
        Some(Self { aggregate, source, begun: false, made: None, held: None, batches: None })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        if !std::mem::replace(&mut self.begun, true) {
            // All there are, so that what does not fit is known before any is given.
            match gather(run, self.aggregate).await? {
                Gathered::Spilled(groups) => self.keep_all(run, *groups).await?,
                gathered => self.made = Some((self.columns_of(run, gathered).await?, 0)),
            }
        }
        if self.made.is_none()
            && let Some(batches) = &mut self.batches
        {
            let batch = batches.next(run, &self.source.shape).await?;
            self.made = batch.map(|batch| (batch, 0));
        }
        let Some((made, given)) = self.made.take() else {
            self.held = None;
            return Ok(None);
        };
        let most = run.portion(GIVEN_MAX);
        if given == 0 && made.rows() <= most {
            return Ok(Some(made));
        }
        let end = made.rows().min(given + most);
        let places: Vec<u32> = (given as u32..end as u32).collect();
        let batch = made.gather(run, &places, &self.source.shape).await?;
        self.made = (end < made.rows()).then_some((made, end));
        Ok(Some(batch))
    }

    /// Puts groups that are in memory into columns.
    async fn columns_of(
        &mut self,
        run: &mut Run<'_>,
        gathered: Gathered<'_>,
    ) -> Result<ColumnBatch, Stop> {
        match gathered {
            Gathered::Rows(Kept { rows, held: _held }) => self.source.batch(run, &rows).await,
            Gathered::Block(pushed, block, held) => {
                self.held = Some(held);
                self.batch(run, &pushed, block).await
            }
            Gathered::Spilled(_) => {
                Err(SqlError::internal("groups in files among those in memory").into())
            }
        }
    }

    /// Puts groups that are in files into columns, which are in a file too.
    async fn keep_all(
        &mut self,
        run: &mut Run<'_>,
        mut groups: SpilledGroups<'p>,
    ) -> Result<(), Stop> {
        let mut writer = BatchWriter::new(run, GROUPS)?;
        while let Some(gathered) = groups.next(run).await? {
            let all = self.columns_of(run, gathered).await?;
            for from in (0..all.rows()).step_by(GIVEN_MAX) {
                let places: Vec<u32> =
                    (from as u32..all.rows().min(from + GIVEN_MAX) as u32).collect();
                let batch = all.gather(run, &places, &self.source.shape).await?;
                writer.push(run, batch).await?;
            }
            self.held = None;
        }
        self.batches = Some(writer.finish()?);
        Ok(())
    }

    async fn batch(
        &self,
        run: &mut Run<'_>,
        pushed: &GroupProgram,
        block: Block,
    ) -> Result<ColumnBatch, Stop> {
        let aggregate = self.aggregate;
        let rows = block.rows();
        let mut columns: Vec<Option<Rc<Vector>>> = vec![None; self.source.shape.len()];
        for (place, column) in pushed.shown_columns(&block) {
            if self.source.shape[place].is_some() {
                columns[place] = Some(Rc::new(column.clone()));
            }
        }
        for (at, call) in aggregate.calls.iter().enumerate() {
            let place = aggregate.width + at;
            if self.source.shape[place].is_none() {
                continue;
            }
            let column = match self.as_it_is(pushed, &block, at, call) {
                Some(column) => column,
                None => finished(run, aggregate, pushed, &block, at).await?,
            };
            columns[place] = Some(Rc::new(column));
        }
        // A place that is shown and was not read is NULL.
        Ok(ColumnBatch::new(rows, columns).padded(&self.source.shape))
    }

    /// The column of an aggregate that is what a program has made.
    fn as_it_is(
        &self,
        pushed: &GroupProgram,
        block: &Block,
        at: usize,
        call: &AggregateCall,
    ) -> Option<Vector> {
        let (count, value) = pushed.columns_of(block, at)?;
        let form = Form::of(&call.result.sql_type);
        match (call.function, value) {
            (AggregateFunction::Count, _) => match &count.values {
                Values::Int(_) if form == Form::Int => Some(count.clone()),
                _ => None,
            },
            (AggregateFunction::Sum, Some((value, of))) => {
                let scale = match of {
                    Form::Int | Form::UInt => Form::Decimal(0),
                    other => other,
                };
                let same = scale == form && value.kind() == kind_of(&call.result.sql_type);
                same.then(|| value.clone())
            }
            (AggregateFunction::Min | AggregateFunction::Max, Some((value, of))) => {
                let same = of == form && value.kind() == kind_of(&call.result.sql_type);
                same.then(|| value.clone())
            }
            _ => None,
        }
    }
}

impl ColumnWork for GroupCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.source.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}

/// The column of an aggregate, finished one by one.
async fn finished(
    run: &mut Run<'_>,
    aggregate: &Aggregate,
    pushed: &GroupProgram,
    block: &Block,
    at: usize,
) -> Result<Vector, Stop> {
    let call = &aggregate.calls[at];
    let sql_type = &call.result.sql_type;
    let mut vector = Vector::new(kind_of(sql_type));
    for row in 0..block.rows() {
        let accumulator = pushed.accumulator(aggregate, block, row, at);
        let accumulator =
            accumulator.ok_or_else(|| SqlError::internal("a group of another shape"))?;
        let value = accumulator.finish(call, &mut run.context)?;
        push(&mut vector, &value, sql_type).ok_or(Stop::Unsuitable)?;
        run.worked(1).await?;
    }
    Ok(vector)
}
