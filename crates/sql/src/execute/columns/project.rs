//! What expressions yield of rows, in columns.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::{Form, ProgramBuilder, kind_of};
use vector::{Computer, Inexact, Vector};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::{ColumnCursor, ColumnWork, Next};
use crate::execute::columns::shape::{Shape, Stop, result_shape};
use crate::execute::columns::source::push;
use crate::execute::cursor::evaluate;
use crate::execute::run::{Run, with_parameters};
use crate::logical::formula::Formula;
use crate::plan::operator::{PlanNode, places_of};

/// A projection at work.
pub(crate) struct ProjectCursor<'p> {
    input: ColumnCursor<'p>,
    expressions: &'p [Formula],
    program: Computer,
    pub(super) shape: Shape,
}

impl<'p> ProjectCursor<'p> {
    /// None if an expression that is wanted has no translation, or waits for something.
    pub(super) fn new(
        run: &Run<'_>,
        input: &'p PlanNode,
        expressions: &'p [Formula],
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        if !expressions.iter().all(Formula::is_ready) {
            return None;
        }
        let places = places_of(expressions.iter().map(|formula| &formula.expression))?;
        let input = ColumnCursor::new(run, input, &places)?;
        let types = expressions.iter().map(|formula| formula.expression.sql_type());
        let shape = result_shape(types, wanted);
        let mut builder = ProgramBuilder::new(input.shape(), &run.context);
        for (formula, column) in expressions.iter().zip(&shape) {
            let Some(column) = column else { continue };
            let known = with_parameters(&run.context, &formula.expression);
            if builder.give_value(&known)? != Form::of(&column.sql_type) {
                return None;
            }
        }
        let program = Computer::new(builder.finish()?).ok()?;
        Some(Self { input, expressions, program, shape })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        let Some(batch) = self.input.next(run).await? else { return Ok(None) };
        let rows = batch.rows();
        let mut columns: Vec<Option<Rc<Vector>>> = vec![None; self.shape.len()];
        let wanted = self
            .shape
            .iter()
            .enumerate()
            .filter_map(|(at, column)| column.as_ref().map(|column| (at, &column.sql_type)));
        match self.program.columns(batch.inputs(), rows) {
            Ok(computed) => {
                for ((place, _), column) in wanted.zip(computed) {
                    columns[place] = Some(column);
                }
            }
            Err(Inexact) => {
                let mut made: Vec<(usize, Vector)> =
                    wanted.clone().map(|(at, of)| (at, Vector::new(kind_of(of)))).collect();
                for at in 0..rows {
                    let row = batch.row(at, self.input.shape(), run);
                    let values = evaluate(run, self.expressions, &row).await?;
                    for ((place, vector), (_, of)) in made.iter_mut().zip(wanted.clone()) {
                        push(vector, &values[*place], of).ok_or(Stop::Unsuitable)?;
                    }
                    run.worked_a_row().await?;
                }
                for (place, vector) in made {
                    columns[place] = Some(Rc::new(vector));
                }
            }
        }
        Ok(Some(ColumnBatch::new(rows, columns)))
    }
}

impl ColumnWork for ProjectCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}
