//! Conditions over columns.

use std::collections::BTreeSet;

use sql_expression::{ProgramBuilder, SqlError};
use vector::{Computer, KeySet};

use crate::execute::columns::{ColumnBatch, ColumnCursor, Shape, Stop, places_of_conditions};
use crate::execute::pushdown::untranslated;
use crate::execute::run::Run;
use crate::plan::operator::{Formula, Operator};

/// Conditions: a program for those that have a translation.
pub(super) struct Conditions<'p> {
    program: Option<Computer>,
    translated: Vec<&'p Formula>,
    others: Vec<&'p Formula>,
}

/// A filter at work.
pub(crate) struct FilterCursor<'p> {
    input: ColumnCursor<'p>,
    conditions: Conditions<'p>,
}

impl<'p> Conditions<'p> {
    /// For rows of a shape; none if the program would be too large.
    pub(super) fn new(
        run: &Run<'_>,
        conditions: impl Iterator<Item = &'p Formula> + Clone,
        shape: &Shape,
    ) -> Option<Self> {
        let mut builder = ProgramBuilder::new(shape, &run.context);
        let others = untranslated(&run.context, conditions.clone(), &mut builder);
        let is_other = |condition: &Formula| others.iter().any(|o| std::ptr::eq(*o, condition));
        let translated: Vec<_> = conditions.filter(|c| !is_other(c)).collect();
        let program = match translated.is_empty() {
            true => None,
            false => Some(Computer::new(builder.finish()?).ok()?),
        };
        Some(Self { program, translated, others })
    }

    /// The places of the rows for which they hold; nothing if all do.
    pub(super) async fn select(
        &self,
        run: &mut Run<'_>,
        batch: &ColumnBatch,
        shape: &Shape,
    ) -> Result<Option<Vec<u32>>, SqlError> {
        let (mut places, mut left) = (None, &self.others);
        let all;
        if let Some(program) = &self.program {
            match program.select(batch.inputs(), batch.rows()) {
                Ok(passing) => places = passing,
                // What it cannot compute is computed as any other.
                Err(vector::Inexact) => {
                    all = self.translated.iter().chain(&self.others).copied().collect();
                    left = &all;
                }
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
}

impl<'p> FilterCursor<'p> {
    pub(super) fn new(
        run: &Run<'_>,
        input: &'p Operator,
        conditions: &'p [Formula],
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let width = super::source::width_of(input)?;
        let mut places = places_of_conditions(conditions, width);
        places.extend(wanted);
        let input = ColumnCursor::new(run, input, &places)?;
        let conditions = Conditions::new(run, conditions.iter(), input.shape())?;
        Some(Self { input, conditions })
    }

    pub(super) fn shape(&self) -> &Shape {
        self.input.shape()
    }

    pub(super) fn narrow(&mut self, place: usize, set: &KeySet) {
        self.input.narrow(place, set);
    }

    pub(super) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        let Some(batch) = self.input.next(run).await? else { return Ok(None) };
        let shape = self.input.shape();
        Ok(Some(match self.conditions.select(run, &batch, shape).await? {
            Some(places) => batch.gather(&places, shape),
            None => batch,
        }))
    }
}
