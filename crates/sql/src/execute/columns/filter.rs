//! Conditions over columns.

use std::collections::BTreeSet;

use sql_expression::{ProgramBuilder, SqlError};
use vector::Computer;

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::{ColumnCursor, ColumnWork, Next};
use crate::execute::columns::shape::{Shape, Stop, has_subquery, places_of_conditions};
use crate::execute::pushdown::untranslated;
use crate::execute::run::Run;
use crate::logical::formula::Formula;
use crate::plan::operator::PlanNode;

/// Conditions: a program for those that have a translation.
pub(super) struct Conditions {
    program: Option<Computer>,
    /// What the program has, and the others.
    all: Vec<Formula>,
    others: Vec<Formula>,
}

/// A filter at work, but for its conditions with subqueries.
pub(crate) struct FilterCursor<'p> {
    input: ColumnCursor<'p>,
    conditions: Conditions,
}

impl Conditions {
    /// For rows of a shape; none if the program would be too large.
    pub(super) fn new<'f>(
        run: &Run<'_>,
        conditions: impl Iterator<Item = &'f Formula> + Clone,
        shape: &Shape,
    ) -> Option<Self> {
        let mut builder = ProgramBuilder::new(shape, &run.context);
        let others = untranslated(&run.context, conditions.clone(), &mut builder);
        let others: Vec<Formula> = others.into_iter().cloned().collect();
        let (program, all) = if others.len() == conditions.clone().count() {
            (None, Vec::new())
        } else {
            let program = Computer::new(builder.finish()?).ok()?;
            (Some(program), conditions.cloned().collect())
        };
        Some(Self { program, all, others })
    }

    /// The places of the rows for which they hold; nothing if all do.
    pub(super) async fn select(
        &self,
        run: &mut Run<'_>,
        batch: &ColumnBatch,
        shape: &Shape,
    ) -> Result<Option<Vec<u32>>, SqlError> {
        let (mut places, mut left) = (None, &self.others);
        if let Some(program) = &self.program {
            match passing(run, program, batch, shape).await? {
                Ok(passing) => places = passing,
                // What it cannot compute is computed as any other.
                Err(vector::Inexact) => left = &self.all,
            }
        }
        if left.is_empty() {
            return Ok(places);
        }
        let places = places.unwrap_or_else(|| (0..batch.rows() as u32).collect());
        let mut kept = Vec::with_capacity(places.len());
        for at in places {
            let row = batch.row(at as usize, shape, run);
            let mut holds = true;
            for condition in left {
                holds = holds && run.holds(condition, &row).await?;
            }
            if holds {
                kept.push(at);
            }
            run.worked(1).await?;
        }
        Ok(Some(kept))
    }

    /// The rows for which they hold.
    pub(super) async fn keep(
        &self,
        run: &mut Run<'_>,
        batch: ColumnBatch,
        shape: &Shape,
    ) -> Result<ColumnBatch, SqlError> {
        Ok(match self.select(run, &batch, shape).await? {
            Some(places) => batch.gather(run, &places, shape).await?,
            None => batch,
        })
    }
}

/// Parts of a program that is given all rows at once.
const PARTS_FEW: usize = 32;
/// Parts of any other times rows between two looks at the clock.
const WORK_MAX: usize = 4 << 10;

/// The places of the rows that pass a program; nothing if all do. A program of many parts is given
/// few rows at a time.
async fn passing(
    run: &mut Run<'_>,
    program: &Computer,
    batch: &ColumnBatch,
    shape: &Shape,
) -> Result<Result<Option<Vec<u32>>, vector::Inexact>, SqlError> {
    let (rows, parts) = (batch.rows(), program.parts());
    let most = (WORK_MAX / parts.max(1)).max(1);
    if parts <= PARTS_FEW || rows <= most {
        return Ok(program.select(batch.inputs(), rows));
    }
    let places: Vec<u32> = (0..rows as u32).collect();
    let mut all = Vec::new();
    for some in places.chunks(most) {
        let part = batch.gather(run, some, shape).await?;
        match program.select(part.inputs(), part.rows()) {
            Ok(None) => all.extend_from_slice(some),
            Ok(Some(passing)) => all.extend(passing.iter().map(|at| some[*at as usize])),
            Err(inexact) => return Ok(Err(inexact)),
        }
        run.worked(some.len() * parts / PARTS_OF_ROW + 1).await?;
    }
    Ok(Ok(Some(all)))
}

/// Parts of a program that take as long as a row elsewhere.
const PARTS_OF_ROW: usize = 32;

impl<'p> FilterCursor<'p> {
    pub(super) fn new(
        run: &Run<'_>,
        input: &'p PlanNode,
        conditions: &'p [Formula],
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let width = crate::execute::columns::shape::width_of(input)?;
        let conditions = || conditions.iter().filter(|condition| !has_subquery(condition));
        let mut places = places_of_conditions(conditions(), width);
        places.extend(wanted);
        let input = ColumnCursor::new(run, input, &places)?;
        let conditions = Conditions::new(run, conditions(), input.shape())?;
        Some(Self { input, conditions })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        let Some(batch) = self.input.next(run).await? else { return Ok(None) };
        Ok(Some(self.conditions.keep(run, batch, self.input.shape()).await?))
    }
}

impl ColumnWork for FilterCursor<'_> {
    fn shape(&self) -> &Shape {
        self.input.shape()
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}
