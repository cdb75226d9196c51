//! The first rows in an order, of rows in columns.
//!
//! A sort with LIMIT needs few of the rows of a join. On columns the others are dropped before they
//! become rows; where data nodes make the join, before they are sent.
//!
//! # Guarantees
//! As those of a sort of rows: which of several equal rows are given is not said.

use std::rc::Rc;

use sql_expression::{Expression, ProgramBuilder, SqlError};
use vector::{Computer, TOP_ROWS_MAX};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::ColumnCursor;
use crate::execute::columns::shape::Stop;
use crate::execute::columns::{begin, begin_first};
use crate::execute::cursor::sort::{SORTED, sorted};
use crate::execute::joined::is_asking_scan;
use crate::execute::kept::Kept;
use crate::execute::run::{Run, with_parameters};
use crate::logical::formula::SortBy;
use crate::plan::operator::{Operator, PlanNode};
use crate::rows::memory_of;

/// What keeps the first rows of an operator.
pub(crate) struct FirstRows<'p> {
    cursor: ColumnCursor<'p>,
    computer: Computer,
    is_pushed: bool,
}

impl<'p> FirstRows<'p> {
    /// For an operator that works on columns, and an order that has a translation.
    pub(crate) fn new(
        run: &Run<'_>,
        operator: &'p PlanNode,
        keys: &[SortBy],
        most: Option<usize>,
    ) -> Option<Self> {
        let rows = u32::try_from(most?).ok().filter(|rows| (1..=TOP_ROWS_MAX).contains(rows))?;
        let known = |key: &SortBy| {
            let expression = with_parameters(&run.context, &key.formula.expression);
            key.formula.is_ready().then_some((expression, key.descending))
        };
        let order: Vec<(Expression, bool)> = keys.iter().map(known).collect::<Option<_>>()?;
        let order: Vec<(&Expression, bool)> =
            order.iter().map(|(expression, descending)| (expression, *descending)).collect();
        let makes_rows = matches!(
            operator.operator,
            Operator::HashJoin { .. }
                | Operator::LoopJoin { .. }
                | Operator::Lookup { .. }
                | Operator::Filter { .. }
        ) || is_asking_scan(run, operator);
        if !makes_rows {
            return None;
        }
        let pushed = begin_first(run, operator, &order, rows);
        let is_pushed = pushed.is_some();
        let cursor = pushed.or_else(|| begin(run, operator, None))?;
        let mut builder = ProgramBuilder::new(cursor.shape(), &run.context);
        if !builder.first_rows(&order, rows) {
            return None;
        }
        for (place, column) in cursor.shape().iter().enumerate() {
            if column.is_some() {
                builder.give_column(place)?;
            }
        }
        let computer = Computer::new(builder.finish()?).ok()?;
        Some(Self { cursor, computer, is_pushed })
    }

    /// Whether data nodes send only what comes first among their rows.
    pub(crate) fn is_pushed(&self) -> bool {
        self.is_pushed
    }

    /// The rows in their order; nothing if some of them do not come in columns, or cannot be
    /// computed with.
    pub(crate) async fn rows(
        mut self,
        run: &mut Run<'_>,
        keys: &[SortBy],
        most: Option<usize>,
    ) -> Result<Option<Kept>, SqlError> {
        let Some(mut first) = self.computer.first_rows() else { return Ok(None) };
        // Few rows are kept, and they come before those of whoever spills.
        let mut held = run.hold_in_passing(SORTED);
        loop {
            let batch = match self.cursor.next(run).await {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(Stop::Unsuitable) => return Ok(None),
                Err(Stop::Failed(error)) => return Err(error),
            };
            if self.computer.take_first(&mut first, batch.inputs(), batch.rows()).is_err() {
                return Ok(None);
            }
            held.set(first.memory_bytes())?;
        }
        let block = self.computer.finish_first(first);
        let (count, shape) = (block.rows(), self.cursor.shape());
        let mut given = block.into_columns().into_iter().map(Rc::new);
        let columns = shape.iter().map(|column| column.as_ref().and_then(|_| given.next()));
        let batch = ColumnBatch::new(count, columns.collect());
        let rows = batch.some_rows(0..count, shape, run);
        held.set(memory_of(&rows))?;
        sorted(run, Kept { rows, held }, keys, most).await.map(Some)
    }
}
