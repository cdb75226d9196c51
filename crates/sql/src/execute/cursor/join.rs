//! Joins whose right side is kept in memory, and what all joins have in common.

mod spilled;

use std::collections::{BTreeMap, VecDeque};

use sql_expression::SqlError;
use sqltype::Datum;

use spilled::SpilledJoin;

use crate::execute::cursor::{Cursor, open};
use crate::execute::kept;
use crate::execute::run::{KEY_BYTES, Run};
use crate::execute::spilled::buffer::{Buffered, RowBuffer};
use crate::logical::formula::Formula;
use crate::memory::Held;
use crate::plan::operator::{HashKey, JoinSpec, Operator, PlanNode};
use crate::rows::{Row, memory_of, memory_of_row};

/// Combinations checked between two looks at the clock.
const PAIRS: usize = 4_096;
/// Rows given at a time, and about how many bytes of them.
const JOINED_ROWS: usize = 4_096;
const JOINED_BYTES: usize = 4 << 20;

/// A join under way.
pub(crate) struct JoinCursor<'p> {
    left: Cursor<'p>,
    operator: &'p PlanNode,
    right: Option<Kept>,
    /// Rows of the left side that have not met the right side.
    waiting: VecDeque<Row>,
    now: Option<Meeting>,
    /// Both sides, where the right one does not fit memory.
    spilled: Option<Box<SpilledJoin<'p>>>,
}

/// The right side, in memory.
struct Kept {
    rows: Vec<Row>,
    /// Positions of rows by the key of a hash join.
    by_key: Option<BTreeMap<Vec<u8>, Vec<usize>>>,
    /// What both take.
    _held: Held,
}

/// A row of the left side that is meeting the right side.
struct Meeting {
    row: Row,
    /// Its key, where only the rows with that one are looked at; none if it equals nothing.
    key: Option<Vec<u8>>,
    /// The next of the rows it is to meet.
    next: usize,
    has_match: bool,
}

impl<'p> JoinCursor<'p> {
    pub(crate) fn new(left: Cursor<'p>, operator: &'p PlanNode) -> Self {
        Self { left, operator, right: None, waiting: VecDeque::new(), now: None, spilled: None }
    }

    /// The next rows, perhaps none; nothing at the end.
    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let (right, keys, join) = match &self.operator.operator {
            Operator::HashJoin { right, keys, join, .. } => (right, keys.as_slice(), join),
            Operator::LoopJoin { right, join, .. } => (right, [].as_slice(), join),
            _ => return Ok(None),
        };
        if let Some(spilled) = &mut self.spilled {
            return spilled.next(run).await;
        }
        if self.waiting.is_empty() && self.now.is_none() {
            let Some(rows) = self.left.next(run).await? else { return Ok(None) };
            self.waiting = rows.into();
        }
        if self.right.is_none() {
            match keep(run, right, keys).await? {
                Side::Kept(kept) => self.right = Some(kept),
                Side::TooLarge(right) => {
                    let waiting = std::mem::take(&mut self.waiting).into();
                    let left = &mut self.left;
                    let spilled = SpilledJoin::new(run, waiting, left, right, keys, join).await?;
                    self.spilled = Some(Box::new(spilled));
                    return Ok(Some(Vec::new()));
                }
            }
        }
        let kept = self.right.as_ref().ok_or_else(|| SqlError::internal("a join without rows"))?;
        let (mut joined, mut bytes) = (Vec::new(), 0);
        while joined.len() < JOINED_ROWS && bytes < JOINED_BYTES {
            let mut meeting = match self.now.take() {
                Some(meeting) => meeting,
                None => {
                    let Some(row) = self.waiting.pop_front() else { break };
                    let key = match &kept.by_key {
                        Some(_) => key_of(run, keys, &row, true).await?,
                        None => None,
                    };
                    Meeting { row, key, next: 0, has_match: false }
                }
            };
            let before = joined.len();
            let is_over = meet(run, kept, &mut meeting, join, &mut joined).await?;
            if is_over && join.outer && !meeting.has_match {
                joined.push(meeting.row);
            } else if !is_over {
                self.now = Some(meeting);
            }
            bytes += memory_of(&joined[before..]);
        }
        Ok(Some(joined))
    }
}

/// Lets a row of the left side meet the next rows of the right side; whether these were all.
async fn meet(
    run: &mut Run<'_>,
    kept: &Kept,
    meeting: &mut Meeting,
    join: &JoinSpec,
    joined: &mut Vec<Row>,
) -> Result<bool, SqlError> {
    let candidates: Option<&[usize]> = match (&kept.by_key, &meeting.key) {
        (None, _) => None,
        (Some(by_key), Some(key)) => Some(by_key.get(key).map_or(&[], Vec::as_slice)),
        (Some(_), None) => Some(&[]),
    };
    let count = candidates.map_or(kept.rows.len(), <[usize]>::len);
    let end = count.min(meeting.next + PAIRS);
    let mut bytes = 0;
    while meeting.next < end && bytes < JOINED_BYTES {
        let at = candidates.map_or(meeting.next, |list| list[meeting.next]);
        meeting.next += 1;
        let row = merged(&meeting.row, &kept.rows[at], join);
        if run.all_hold(&join.conditions, &row).await? {
            meeting.has_match = true;
            bytes += memory_of_row(&row);
            joined.push(row);
        }
        run.worked_a_row().await?;
    }
    Ok(meeting.next == count)
}

/// The right side.
enum Side {
    Kept(Kept),
    /// It does not fit memory.
    TooLarge(Buffered),
}

async fn keep(run: &mut Run<'_>, right: &PlanNode, keys: &[HashKey]) -> Result<Side, SqlError> {
    let buffer = RowBuffer::new(run, "the rows of an operator");
    let kept::Kept { rows, mut held } = match buffer.drain(run, open(right)).await? {
        Buffered::Kept(kept) => kept,
        file => return Ok(Side::TooLarge(file)),
    };
    if keys.is_empty() {
        return Ok(Side::Kept(Kept { rows, by_key: None, _held: held }));
    }
    if run.may_spill() {
        let of_keys = rows.len() * KEY_BYTES;
        if !held.fits(of_keys)? {
            return Ok(Side::TooLarge(Buffered::Kept(kept::Kept { rows, held })));
        }
        held.give_back(of_keys);
        held.be_lenient(true);
    }
    let mut by_key: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(key) = key_of(run, keys, row, false).await? {
            held.add(KEY_BYTES + key.len())?;
            by_key.entry(key).or_default().push(at);
        }
        run.worked(1).await?;
    }
    Ok(Side::Kept(Kept { rows, by_key: Some(by_key), _held: held }))
}

/// The key of a row; none when a NULL in it keeps it from matching anything.
pub(crate) async fn key_of(
    run: &mut Run<'_>,
    keys: &[HashKey],
    row: &[Datum],
    of_left: bool,
) -> Result<Option<Vec<u8>>, SqlError> {
    let mut all = Vec::new();
    for key in keys {
        let formula = if of_left { &key.left } else { &key.right };
        let value = run.value(formula, row).await?;
        if value.is_null() {
            if !key.null_safe {
                return Ok(None);
            }
            all.push(0);
            continue;
        }
        all.push(1);
        let mut part = Vec::new();
        let of = formula.expression.sql_type();
        if !key.comparison.key_of(&value, of, &mut run.context, &mut part)? {
            // Nothing equals it.
            return Ok(None);
        }
        all.extend((part.len() as u32).to_le_bytes());
        all.append(&mut part);
    }
    Ok(Some(all))
}

/// A left row with the right side's part filled in.
fn merged(left: &[Datum], right: &Row, join: &JoinSpec) -> Row {
    let mut row = left.to_vec();
    for (from, to) in &join.right_places {
        row[*from..*to].clone_from_slice(&right[*from..*to]);
    }
    row
}

/// The rows that lookups have found, those for which the conditions hold; for an outer join also
/// the rows that have found nothing.
pub(crate) async fn matches(
    run: &mut Run<'_>,
    rows: Vec<Row>,
    found: Vec<Vec<Row>>,
    of_scan: &[Formula],
    join: &JoinSpec,
) -> Result<Vec<Row>, SqlError> {
    let mut joined = Vec::with_capacity(rows.len());
    for (left, candidates) in rows.into_iter().zip(found) {
        let before = joined.len();
        for row in candidates {
            if run.all_hold(of_scan, &row).await? && run.all_hold(&join.conditions, &row).await? {
                joined.push(row);
            }
        }
        if join.outer && joined.len() == before {
            joined.push(left);
        }
    }
    run.worked(joined.len()).await?;
    Ok(joined)
}
