//! Which rows of a sorted partition make the frame of each row.
//!
//! # Guarantees
//! Neither the first nor the last row of a frame ever lies before that of the row before.

use std::cmp::Ordering;
use std::ops::Range;

use sql_parser::ast::FrameUnit;
use sqltype::{Datum, Decimal};

use super::{FrameEnd, Window, key_type, whole};
use crate::comparison::Comparison;
use crate::context::EvalContext;
use crate::convert;
use crate::error::SqlError;
use crate::expression::Expression;
use crate::function::signature::{Domain, domain_of};

/// The frames of all rows.
pub(super) fn frames<R: AsRef<[Datum]>>(
    window: &Window,
    rows: &[R],
    peers: &[Range<usize>],
    context: &mut EvalContext,
) -> Result<Vec<Range<usize>>, SqlError> {
    let partition = Partition { window, rows, peers };
    let starts = partition.ends(&window.frame.start, Side::Start, context)?;
    let ends = partition.ends(&window.frame.end, Side::End, context)?;
    Ok(starts.into_iter().zip(ends).map(|(start, end)| start..end.max(start)).collect())
}

/// Which end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

struct Partition<'a, R> {
    window: &'a Window,
    rows: &'a [R],
    peers: &'a [Range<usize>],
}

/// The value at which a frame of RANGE ends.
enum Limit<'a> {
    Decimal(Decimal),
    Double(f64),
    Moment(Datum, &'a Expression, Comparison),
    /// Beyond what the type holds, on that side.
    Beyond {
        following: bool,
    },
}

impl<R: AsRef<[Datum]>> Partition<'_, R> {
    /// For each row where its frame begins, or the row behind its last.
    fn ends(
        &self,
        end: &FrameEnd,
        side: Side,
        context: &mut EvalContext,
    ) -> Result<Vec<usize>, SqlError> {
        let count = self.rows.len();
        let all = 0..count;
        Ok(match end {
            FrameEnd::Unbounded if side == Side::Start => vec![0; count],
            FrameEnd::Unbounded => vec![count; count],
            FrameEnd::CurrentRow if self.window.frame.unit == FrameUnit::Rows => {
                all.map(|at| at + usize::from(side == Side::End)).collect()
            }
            FrameEnd::CurrentRow => self.peers.iter().map(|peers| end_of(peers, side)).collect(),
            FrameEnd::Rows { count: distance, following } => {
                let distance = whole(&distance.eval(&[], context)?);
                let distance =
                    distance.ok_or_else(|| SqlError::of::<3586>(&[&self.window.name]))?;
                let distance = usize::try_from(distance).unwrap_or(usize::MAX);
                let moved = |at: usize| {
                    let at = at + usize::from(side == Side::End);
                    if *following {
                        at.saturating_add(distance).min(count)
                    } else {
                        at.saturating_sub(distance)
                    }
                };
                all.map(moved).collect()
            }
            FrameEnd::Distance { .. } | FrameEnd::Interval { .. } => {
                self.by_value(end, side, context)?
            }
        })
    }

    /// The ends of RANGE with a distance: those of rows whose key is NULL are their peers'.
    fn by_value(
        &self,
        end: &FrameEnd,
        side: Side,
        context: &mut EvalContext,
    ) -> Result<Vec<usize>, SqlError> {
        let missing = || SqlError::of::<3587>(&[&self.window.name]);
        let (place, sql_type, descending) = key_type(self.window).ok_or_else(missing)?;
        check_distance(end, &self.window.name, context)?;
        let key = |at: usize| &self.rows[at].as_ref()[place];
        let mut reached = 0;
        let mut ends = Vec::with_capacity(self.rows.len());
        for (at, peers) in self.peers.iter().enumerate() {
            if key(at).is_null() {
                ends.push(end_of(peers, side));
                continue;
            }
            if at > peers.start
                && let Some(last) = ends.last()
            {
                ends.push(*last);
                continue;
            }
            let limit = self.limit(end, key(at), descending, context)?;
            while reached < self.rows.len() {
                let value = key(reached);
                let order = if value.is_null() {
                    Ordering::Less
                } else {
                    limit.order_of(value, sql_type, descending, context)?
                };
                // From here on all is in the direction of the sort.
                let order = if descending { order.reverse() } else { order };
                let is_before = match side {
                    Side::Start => order.is_lt(),
                    Side::End => order.is_le(),
                };
                if !is_before {
                    break;
                }
                reached += 1;
            }
            ends.push(reached);
        }
        Ok(ends)
    }

    fn limit<'e>(
        &self,
        end: &'e FrameEnd,
        key: &Datum,
        descending: bool,
        context: &mut EvalContext,
    ) -> Result<Limit<'e>, SqlError> {
        let sort_key = &self.window.order_by[0].expression;
        let (distance, following) = match end {
            FrameEnd::Distance { distance, following } => (distance, *following),
            FrameEnd::Interval { moved, comparison, following, .. } => {
                let moment = moved.eval(std::slice::from_ref(key), context)?;
                return Ok(if moment.is_null() {
                    Limit::Beyond { following: *following }
                } else {
                    Limit::Moment(moment, moved, *comparison)
                });
            }
            _ => return Err(SqlError::internal("a frame without a distance")),
        };
        let value = distance.eval(&[], context)?;
        let is_sum = following != descending;
        let is_double = |domain| domain == Domain::Double;
        let of_key = domain_of(&sort_key.result);
        if is_double(of_key) || is_double(domain_of(&distance.result)) {
            let key = convert::to_double(key, sort_key.sql_type(), context)?;
            let distance = convert::to_double(&value, distance.sql_type(), context)?;
            return Ok(Limit::Double(if is_sum { key + distance } else { key - distance }));
        }
        let key = convert::to_decimal(key, sort_key.sql_type(), context)?;
        let distance = convert::to_decimal(&value, distance.sql_type(), context)?;
        let limit = if is_sum { key.add(distance) } else { key.subtract(distance) };
        Ok(limit.map_or(Limit::Beyond { following }, Limit::Decimal))
    }
}

impl Limit<'_> {
    /// How a value compares with the limit, the smaller first.
    fn order_of(
        &self,
        value: &Datum,
        sql_type: &sqltype::SqlType,
        descending: bool,
        context: &mut EvalContext,
    ) -> Result<Ordering, SqlError> {
        Ok(match self {
            Self::Decimal(limit) => convert::to_decimal(value, sql_type, context)?.compare(limit),
            Self::Double(limit) => {
                let value = convert::to_double(value, sql_type, context)?;
                value.partial_cmp(limit).unwrap_or(Ordering::Equal)
            }
            Self::Moment(limit, moved, comparison) => {
                let order =
                    comparison.compare(value, sql_type, limit, moved.sql_type(), context)?;
                order.unwrap_or(Ordering::Equal)
            }
            // All values lie before what is beyond the end, and behind what is before the start.
            Self::Beyond { following } if *following != descending => Ordering::Less,
            Self::Beyond { .. } => Ordering::Greater,
        })
    }
}

fn end_of(range: &Range<usize>, side: Side) -> usize {
    match side {
        Side::Start => range.start,
        Side::End => range.end,
    }
}

/// Error 3586 for a distance that is NULL or negative.
fn check_distance(end: &FrameEnd, name: &str, context: &mut EvalContext) -> Result<(), SqlError> {
    let (FrameEnd::Distance { distance, .. } | FrameEnd::Interval { amount: distance, .. }) = end
    else {
        return Ok(());
    };
    let is_negative = match distance.eval(&[], context)? {
        Datum::Null => true,
        Datum::Int(number) => number < 0,
        Datum::Double(number) => number < 0.0,
        Datum::Decimal(number) => number.is_negative(),
        Datum::Bytes(text) => text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'-'),
        _ => false,
    };
    if is_negative { Err(SqlError::of::<3586>(&[&name])) } else { Ok(()) }
}
