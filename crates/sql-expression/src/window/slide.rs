//! An aggregate over frames that move forward.
//!
//! A frame that only grows is one accumulator. From the first row that leaves it, it is a queue of
//! two parts, as two stacks make one: of the older part there is an accumulator for every row, over
//! that row and those behind it in the part; of the younger part there is one over all of it. A row
//! that comes is added to the younger, a row that goes takes its accumulator along, and the two are
//! merged for a result. When the older part is used up the younger becomes the older. Each row is
//! added twice at most, and nothing is ever subtracted: floating-point numbers do not drift.

use std::ops::Range;

use sql_parser::ast::AggregateFunction;
use sqltype::Datum;

use crate::aggregate::{Accumulator, AggregateCall};
use crate::context::EvalContext;
use crate::error::SqlError;

/// The aggregate of the last frame, ready to become that of the next.
#[derive(Debug)]
pub(super) struct Slide<'a> {
    call: &'a AggregateCall,
    frame: Range<usize>,
    /// The older part: the last one is over all of it, and belongs to the frame's first row.
    older: Vec<Accumulator>,
    younger: Accumulator,
}

impl<'a> Slide<'a> {
    pub(super) fn new(call: &'a AggregateCall) -> Self {
        Self { call, frame: 0..0, older: Vec::new(), younger: Accumulator::new(call) }
    }

    /// The aggregate over a frame that begins and ends at or behind the one before.
    pub(super) fn over<R: AsRef<[Datum]>>(
        &mut self,
        frame: &Range<usize>,
        rows: &[R],
        context: &mut EvalContext,
    ) -> Result<Datum, SqlError> {
        let has_left = frame.start > self.frame.start;
        if frame.start >= self.frame.end || (has_left && self.grows_with_rows()) {
            self.frame = frame.start..frame.start;
            self.older.clear();
            self.younger = Accumulator::new(self.call);
        }
        for row in &rows[self.frame.end..frame.end] {
            self.younger.update(self.call, row.as_ref(), context)?;
        }
        self.frame.end = frame.end;
        while self.frame.start < frame.start {
            if self.older.is_empty() {
                self.turn_over(rows, context)?;
            }
            self.older.pop();
            self.frame.start += 1;
        }
        let mut all = match self.older.last() {
            Some(older) => older.clone(),
            None => return self.younger.clone().finish(self.call, context),
        };
        all.merge(self.younger.clone(), self.call, context)?;
        all.finish(self.call, context)
    }

    /// Whether accumulators are as large as what they have taken: then many of them would be too
    /// much, and each frame begins anew.
    fn grows_with_rows(&self) -> bool {
        use AggregateFunction as A;
        matches!(self.call.function, A::JsonArrayAgg | A::JsonObjectAgg | A::GroupConcat)
    }

    /// Makes the younger part the older.
    fn turn_over<R: AsRef<[Datum]>>(
        &mut self,
        rows: &[R],
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        for row in rows[self.frame.clone()].iter().rev() {
            let mut accumulator = Accumulator::new(self.call);
            accumulator.update(self.call, row.as_ref(), context)?;
            if let Some(behind) = self.older.last() {
                accumulator.merge(behind.clone(), self.call, context)?;
            }
            self.older.push(accumulator);
        }
        self.younger = Accumulator::new(self.call);
        Ok(())
    }
}
