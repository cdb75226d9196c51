//! Window functions: their types, and their values over the sorted rows of a partition.
//!
//! # Owns
//! [`WindowCall`], what the binder lists for a query block; [`WindowEvaluation`], which computes it
//! row by row.
//! # Guarantees
//! The values of a partition take time in proportion to its rows, whatever the frame: ends of
//! frames only move forward, and aggregates are kept up as they do. The exceptions are
//! JSON_ARRAYAGG and JSON_OBJECTAGG, whose results are as large as their frames.
//! # Not here
//! Partitions and their order (`sql`).

mod frame;
mod slide;

use std::borrow::Cow;
use std::ops::Range;

use sql_parser::ast::{FrameUnit, WindowFunction};
use sqltype::{Datum, SqlType};

use crate::aggregate::{AggregateCall, SortKey};
use crate::comparison::Comparison;
use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::expression::Expression;
use crate::key::compare_values;
use crate::result_type::ResultType;
use slide::Slide;

/// A window function with its window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// What is computed.
    pub kind: WindowKind,
    /// Over which rows.
    pub window: Window,
    /// The type of the result.
    pub result: ResultType,
}

/// What a window function computes.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowKind {
    /// An aggregate over the frame.
    Aggregate(Box<AggregateCall>),
    /// A function that only exists with OVER.
    Function(WindowFunction, Vec<Expression>),
}

/// A window with all it has taken over from others.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// What errors call it.
    pub name: Box<str>,
    /// The rows of a partition are those with the same values.
    pub partition_by: Vec<Expression>,
    /// The order within a partition.
    pub order_by: Vec<SortKey>,
    /// Which rows of the partition belong to a row.
    pub frame: Frame,
}

/// Which rows of its partition a row's function is computed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// ROWS or RANGE.
    pub unit: FrameUnit,
    /// Where it begins.
    pub start: FrameEnd,
    /// Where it ends.
    pub end: FrameEnd,
    /// It was written, and is not the default.
    pub given: bool,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameEnd {
    /// That of the partition.
    Unbounded,
    /// The row itself; with RANGE the first or last of those that are equal to it in order.
    CurrentRow,
    /// So many rows before or after.
    Rows {
        /// How many; a constant.
        count: Expression,
        /// After the row.
        following: bool,
    },
    /// At this distance of the number that is ordered by.
    Distance {
        /// How far; a constant.
        distance: Expression,
        /// Behind it in order.
        following: bool,
    },
    /// At this interval from the moment that is ordered by.
    Interval {
        /// The amount; a constant.
        amount: Expression,
        /// The moment of the end, over a row that is nothing but the moment ordered by.
        moved: Box<Expression>,
        /// As what moments are compared with it.
        comparison: Comparison,
        /// Behind it in order.
        following: bool,
    },
}

impl WindowKind {
    /// The function's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Aggregate(call) => call.function.name(),
            Self::Function(function, _) => function.name(),
        }
    }
}

impl WindowCall {
    /// Every expression that is evaluated for a row: arguments, and what the window is made of.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        let (aggregate, arguments) = match &mut self.kind {
            WindowKind::Aggregate(call) => (Some(call.arguments_mut()), [].iter_mut()),
            WindowKind::Function(_, arguments) => (None, arguments.iter_mut()),
        };
        let order_by = self.window.order_by.iter_mut().map(|key| &mut key.expression);
        let keys = self.window.partition_by.iter_mut().chain(order_by);
        aggregate.into_iter().flatten().chain(arguments).chain(keys)
    }

    /// As [`WindowCall::expressions_mut`], to look at them.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let (aggregate, arguments) = match &self.kind {
            WindowKind::Aggregate(call) => (Some(call.arguments()), [].iter()),
            WindowKind::Function(_, arguments) => (None, arguments.iter()),
        };
        let order_by = self.window.order_by.iter().map(|key| &key.expression);
        let keys = self.window.partition_by.iter().chain(order_by);
        aggregate.into_iter().flatten().chain(arguments).chain(keys)
    }

    /// Whether it is computed over the whole partition, whatever the frame.
    pub fn ignores_frame(&self) -> bool {
        use WindowFunction as W;
        match &self.kind {
            WindowKind::Aggregate(_) => false,
            WindowKind::Function(function, _) => {
                !matches!(function, W::FirstValue | W::LastValue | W::NthValue)
            }
        }
    }
}

/// The rows that are equal in order to each row of a sorted partition, as ranges.
pub fn peers<R: AsRef<[Datum]>>(order_by: &[SortKey], rows: &[R]) -> Vec<Range<usize>> {
    let same = |a: &R, b: &R| {
        order_by.iter().all(|key| match key.expression.as_column() {
            Some(place) => {
                let (a, b) = (&a.as_ref()[place as usize], &b.as_ref()[place as usize]);
                compare_values(a, b, key.expression.sql_type()).is_eq()
            }
            None => true,
        })
    };
    let mut all = Vec::with_capacity(rows.len());
    let mut start = 0;
    for group in rows.chunk_by(same) {
        let range = start..start + group.len();
        start = range.end;
        all.extend(group.iter().map(|_| range.clone()));
    }
    all
}

/// A window function at work on a partition.
#[derive(Debug)]
pub struct WindowEvaluation<'a, R> {
    call: &'a WindowCall,
    rows: &'a [R],
    peers: &'a [Range<usize>],
    /// The frame of each row, where the function has one.
    frames: Vec<Range<usize>>,
    slide: Option<Slide<'a>>,
    /// The aggregate over the frame before, with the frame.
    last: Option<(Range<usize>, Datum)>,
    /// The constant argument of NTILE, NTH_VALUE, LAG and LEAD.
    number: Option<u64>,
    rank: u64,
}

impl<'a, R: AsRef<[Datum]>> WindowEvaluation<'a, R> {
    /// Begins with a partition. Its rows are sorted, and all that the call is made of are columns
    /// of theirs; `peers` are theirs too.
    pub fn new(
        call: &'a WindowCall,
        rows: &'a [R],
        peers: &'a [Range<usize>],
        context: &mut EvalContext,
    ) -> Result<Self, SqlError> {
        let frames = if call.ignores_frame() {
            Vec::new()
        } else {
            frame::frames(&call.window, rows, peers, context)?
        };
        let slide = match &call.kind {
            WindowKind::Aggregate(aggregate) => Some(Slide::new(aggregate)),
            WindowKind::Function(..) => None,
        };
        let number = number(call, rows, context)?;
        Ok(Self { call, rows, peers, frames, slide, last: None, number, rank: 0 })
    }

    /// The value for a row. Rows are asked for in order.
    pub fn value(&mut self, at: usize, context: &mut EvalContext) -> Result<Datum, SqlError> {
        let (function, arguments) = match &self.call.kind {
            WindowKind::Function(function, arguments) => (*function, arguments.as_slice()),
            WindowKind::Aggregate(_) => return self.aggregate(at, context),
        };
        use WindowFunction as W;
        let (count, peers) = (self.rows.len(), &self.peers[at]);
        Ok(match function {
            W::RowNumber => Datum::UInt(at as u64 + 1),
            W::Rank => Datum::UInt(peers.start as u64 + 1),
            W::DenseRank => {
                self.rank += u64::from(peers.start == at);
                Datum::UInt(self.rank)
            }
            W::PercentRank if count == 1 => Datum::Double(0.0),
            W::PercentRank => Datum::Double(peers.start as f64 / (count - 1) as f64),
            W::CumeDist => Datum::Double(peers.end as f64 / count as f64),
            W::Ntile => {
                self.number.map_or(Datum::Null, |parts| Datum::UInt(tile(at, count, parts)))
            }
            W::FirstValue => {
                self.of_frame(at, |frame| Some(frame.start), &arguments[0], context)?
            }
            W::LastValue => {
                self.of_frame(at, |frame| Some(frame.end - 1), &arguments[0], context)?
            }
            W::NthValue => {
                let further = self.number.and_then(|number| number.checked_sub(1));
                let further = further.and_then(|further| usize::try_from(further).ok());
                let nth = |frame: &Range<usize>| frame.start.checked_add(further?);
                self.of_frame(at, nth, &arguments[0], context)?
            }
            W::Lag | W::Lead => {
                let distance = usize::try_from(self.number.unwrap_or(1)).unwrap_or(usize::MAX);
                let other = match function {
                    W::Lag => at.checked_sub(distance),
                    _ => at.checked_add(distance).filter(|other| *other < count),
                };
                let (argument, row) = match (other, arguments.get(2)) {
                    (Some(other), _) => (&arguments[0], other),
                    (None, Some(default)) => (default, at),
                    (None, None) => return Ok(Datum::Null),
                };
                let value = argument.operand(self.rows[row].as_ref(), context)?;
                let to = &self.call.result.sql_type;
                convert::conform(value, argument.sql_type(), to, context)?.into_owned()
            }
        })
    }

    /// The argument's value for a row of the frame; NULL if the frame does not have it.
    fn of_frame(
        &self,
        at: usize,
        which: impl Fn(&Range<usize>) -> Option<usize>,
        argument: &Expression,
        context: &mut EvalContext,
    ) -> Result<Datum, SqlError> {
        let frame = &self.frames[at];
        if frame.is_empty() {
            return Ok(Datum::Null);
        }
        match which(frame).filter(|row| frame.contains(row)) {
            Some(row) => argument.operand(self.rows[row].as_ref(), context).map(Cow::into_owned),
            None => Ok(Datum::Null),
        }
    }

    fn aggregate(&mut self, at: usize, context: &mut EvalContext) -> Result<Datum, SqlError> {
        let frame = &self.frames[at];
        if let Some((last, value)) = &self.last
            && last == frame
        {
            return Ok(value.clone());
        }
        let slide = self.slide.as_mut();
        let slide = slide.ok_or_else(|| SqlError::internal("an aggregate without its state"))?;
        let value = slide.over(frame, self.rows, context)?;
        self.last = Some((frame.clone(), value.clone()));
        Ok(value)
    }
}

/// The number that the function was given as a constant: error 1210 for one it cannot take.
fn number<R: AsRef<[Datum]>>(
    call: &WindowCall,
    rows: &[R],
    context: &mut EvalContext,
) -> Result<Option<u64>, SqlError> {
    use WindowFunction as W;
    let WindowKind::Function(function, arguments) = &call.kind else { return Ok(None) };
    let (place, least) = match function {
        W::Ntile => (0, 1),
        W::NthValue => (1, 1),
        W::Lag | W::Lead => (1, 0),
        _ => return Ok(None),
    };
    let (Some(argument), Some(row)) = (arguments.get(place), rows.first()) else {
        return Ok(None);
    };
    let value = argument.eval(row.as_ref(), context)?;
    if value.is_null() && *function == W::Ntile {
        return Ok(None);
    }
    match whole(&value) {
        Some(number) if number >= least => Ok(Some(number)),
        _ => Err(SqlError::wrong_arguments(function.name())),
    }
}

/// A whole number that is not negative.
fn whole(value: &Datum) -> Option<u64> {
    match value {
        Datum::Int(number) => u64::try_from(*number).ok(),
        Datum::UInt(number) => Some(*number),
        _ => None,
    }
}

/// The part, from 1, that a row belongs to when so many rows are dealt out evenly.
fn tile(at: usize, count: usize, parts: u64) -> u64 {
    let (at, count) = (at as u64, count as u64);
    let (size, larger) = (count / parts, count % parts);
    let in_larger = larger * (size + 1);
    if at < in_larger { at / (size + 1) + 1 } else { larger + (at - in_larger) / size + 1 }
}

/// The type that values of the first order key have.
fn key_type(window: &Window) -> Option<(usize, &SqlType, bool)> {
    let key = window.order_by.first()?;
    let place = key.expression.as_column()? as usize;
    Some((place, key.expression.sql_type(), key.descending))
}

#[cfg(test)]
mod tests;
