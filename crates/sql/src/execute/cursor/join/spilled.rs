//! Joins of rows whose right side does not fit memory: both sides are spread over partitions by
//! key, as in `columns::join`, and joined partition by partition.
//!
//! Of a partition the left side is kept, piece by piece where it does not fit, and the right side
//! passes by for each piece.

use std::collections::{BTreeMap, VecDeque};

use sql_expression::SqlError;
use sqltype::Datum;

use super::{JOINED_BYTES, JOINED_ROWS, key_of, merged};
use crate::execute::cursor::Cursor;
use crate::execute::kept::Kept;
use crate::execute::run::{KEY_BYTES, Run};
use crate::execute::spilled::buffer::Buffered;
use crate::memory::Held;
use crate::plan::operator::{HashKey, JoinSpec};
use crate::rows::{Row, memory_of_row};
use crate::spill::partitions::{RowPartitions, partition_of};
use crate::spill::rows::RowReader;

/// What errors say that too much of is kept.
const KEPT: &str = "the rows of a join";
/// How often rows are spread at most.
const LEVELS_MAX: u32 = 4;
/// A partition that has more than one in so many rows of what was spread is not spread again.
const HEAVY_SHARE: u64 = 2;

/// Both sides of a join, in partitions. Each row has its key before it, or NULL if it equals
/// nothing.
pub(super) struct SpilledJoin<'p> {
    join: &'p JoinSpec,
    has_keys: bool,
    pending: Vec<Partition>,
    now: Option<Piece>,
}

/// Rows of both sides whose keys are in one partition.
struct Partition {
    left: RowReader,
    right: RowReader,
    right_rows: u64,
    /// Rows of the left side that did not fit the piece before.
    rest: VecDeque<Row>,
    level: u32,
    /// It is not spread again.
    is_heavy: bool,
}

/// Rows of the left side that are in memory, by which those of the right side pass.
struct Piece {
    partition: Partition,
    rows: Vec<Row>,
    by_key: BTreeMap<Vec<u8>, Vec<usize>>,
    matched: Vec<bool>,
    /// Rows of the right side that have not been looked at.
    passing: VecDeque<Row>,
    /// The one that is meeting the others, and which of these is next.
    meeting: Option<(Row, Option<Vec<u8>>, usize)>,
    /// How many rows have been looked at for a match, once all have passed.
    looked: Option<usize>,
    _held: Held,
}

impl<'p> SpilledJoin<'p> {
    /// Spreads both sides: the rows at hand and those that are left.
    pub(super) async fn new(
        run: &mut Run<'_>,
        first: Vec<Row>,
        left: &mut Cursor<'_>,
        right: Buffered,
        keys: &'p [HashKey],
        join: &'p JoinSpec,
    ) -> Result<Self, SqlError> {
        let account = run.session.memory.clone();
        let mut of_right = RowPartitions::new(&account, KEPT)?;
        match right {
            Buffered::Kept(Kept { rows, held: _held }) => {
                spread(run, &mut of_right, rows, keys, false).await?;
            }
            Buffered::File(file) => {
                let mut reader = file.read();
                while let Some(rows) = reader.next(run).await? {
                    spread(run, &mut of_right, rows, keys, false).await?;
                }
            }
        }
        let mut of_left = RowPartitions::new(&account, KEPT)?;
        let mut next = Some(first);
        while let Some(rows) = next {
            spread(run, &mut of_left, rows, keys, true).await?;
            next = left.next(run).await?;
        }
        let has_keys = !keys.is_empty();
        let pending = partitions(of_left, of_right, 1, has_keys)?;
        Ok(Self { join, has_keys, pending, now: None })
    }

    /// The next rows, perhaps none; nothing at the end.
    pub(super) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        if self.now.is_none() {
            self.now = self.next_piece(run).await?;
        }
        let Some(piece) = &mut self.now else { return Ok(None) };
        let (mut joined, mut bytes) = (Vec::new(), 0);
        let is_over = loop {
            if joined.len() >= JOINED_ROWS || bytes >= JOINED_BYTES {
                break false;
            }
            let before = joined.len();
            let goes_on = match piece.looked {
                None => piece.pass(run, self.join, self.has_keys, &mut joined).await?,
                Some(_) => piece.unmatched(self.join.outer, &mut joined),
            };
            bytes += joined[before..].iter().map(memory_of_row).sum::<usize>();
            run.worked_a_row().await?;
            if !goes_on {
                break true;
            }
        };
        if is_over && let Some(Piece { partition, .. }) = self.now.take() {
            // What follows of the same partition is not its first piece.
            self.pending.push(Partition { is_heavy: true, ..partition });
        }
        Ok(Some(joined))
    }

    /// Keeps the next piece of a left side; nothing at the end.
    async fn next_piece(&mut self, run: &mut Run<'_>) -> Result<Option<Piece>, SqlError> {
        while let Some(mut partition) = self.pending.pop() {
            if partition.right_rows == 0 && !self.join.outer {
                continue;
            }
            let mut held = run.hold(KEPT);
            let rows = load(run, &mut partition, &mut held).await?;
            if rows.is_empty() {
                continue;
            }
            if !partition.rest.is_empty() && !partition.is_heavy {
                drop((rows, held));
                self.pending.extend(spread_again(run, partition, self.has_keys).await?);
                continue;
            }
            partition.right.rewind();
            let mut by_key: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
            for (at, row) in rows.iter().enumerate() {
                if let Some(Datum::Bytes(key)) = row.first() {
                    by_key.entry(key.to_vec()).or_default().push(at);
                }
                run.worked(1).await?;
            }
            let matched = vec![false; rows.len()];
            let (passing, meeting, looked) = (VecDeque::new(), None, None);
            let _held = held;
            return Ok(Some(Piece {
                partition,
                rows,
                by_key,
                matched,
                passing,
                meeting,
                looked,
                _held,
            }));
        }
        Ok(None)
    }
}

impl Piece {
    /// Lets a row of the right side meet the next one that is kept; false if nothing is left to do.
    async fn pass(
        &mut self,
        run: &mut Run<'_>,
        join: &JoinSpec,
        has_keys: bool,
        joined: &mut Vec<Row>,
    ) -> Result<bool, SqlError> {
        let Some((row, key, next)) = &mut self.meeting else {
            let Some(mut row) = self.passing.pop_front() else {
                match self.partition.right.next(run).await? {
                    Some(rows) => self.passing = rows.into(),
                    None => self.looked = Some(0),
                }
                return Ok(true);
            };
            let key = match row.remove(0) {
                Datum::Bytes(key) => Some(key.into_vec()),
                _ => None,
            };
            self.meeting = Some((row, key, 0));
            return Ok(true);
        };
        let at = match (has_keys, key) {
            (false, _) => (*next < self.rows.len()).then_some(*next),
            (true, Some(key)) => self.by_key.get(key).and_then(|list| list.get(*next)).copied(),
            (true, None) => None,
        };
        let Some(at) = at else {
            self.meeting = None;
            return Ok(true);
        };
        *next += 1;
        let both = merged(&self.rows[at][1..], row, join);
        if run.all_hold(&join.conditions, &both).await? {
            self.matched[at] = true;
            joined.push(both);
        }
        Ok(true)
    }

    /// Gives the next row that has no match, if such rows are wanted; false at the end.
    fn unmatched(&mut self, is_wanted: bool, joined: &mut Vec<Row>) -> bool {
        let Some(at) = &mut self.looked else { return true };
        if *at >= self.rows.len() || !is_wanted {
            return false;
        }
        if !self.matched[*at] {
            joined.push(self.rows[*at][1..].to_vec());
        }
        *at += 1;
        true
    }
}

/// As many of the next rows of a left side as fit memory.
async fn load(
    run: &mut Run<'_>,
    partition: &mut Partition,
    held: &mut Held,
) -> Result<Vec<Row>, SqlError> {
    let mut kept = Vec::new();
    loop {
        if partition.rest.is_empty() {
            let Some(rows) = partition.left.next(run).await? else { return Ok(kept) };
            partition.rest = rows.into();
        }
        while let Some(row) = partition.rest.pop_front() {
            let bytes = 2 * KEY_BYTES + memory_of_row(&row);
            if !held.fits(bytes)? {
                if !kept.is_empty() {
                    partition.rest.push_front(row);
                    return Ok(kept);
                }
                held.force(bytes);
            }
            kept.push(row);
            run.worked(1).await?;
        }
    }
}

/// Spreads rows of one side, each with its key before it.
async fn spread(
    run: &mut Run<'_>,
    into: &mut RowPartitions,
    rows: Vec<Row>,
    keys: &[HashKey],
    of_left: bool,
) -> Result<(), SqlError> {
    for row in rows {
        let key = if keys.is_empty() { None } else { key_of(run, keys, &row, of_left).await? };
        run.worked_a_row().await?;
        let partition = key.as_ref().map_or(0, |key| partition_of(key, 0));
        // What equals nothing matters only where rows without a match are wanted.
        let key = key.map_or(Datum::Null, |key| Datum::Bytes(key.into()));
        into.push(partition, &[key], &row)?;
    }
    Ok(())
}

/// Spreads a partition at the next level.
async fn spread_again(
    run: &mut Run<'_>,
    mut partition: Partition,
    has_keys: bool,
) -> Result<Vec<Partition>, SqlError> {
    let (account, level) = (run.session.memory.clone(), partition.level);
    let mut sides = Vec::with_capacity(2);
    for reader in [&mut partition.left, &mut partition.right] {
        reader.rewind();
        let mut into = RowPartitions::new(&account, KEPT)?;
        while let Some(rows) = reader.next(run).await? {
            for row in rows {
                let at = match row.first() {
                    Some(Datum::Bytes(key)) => partition_of(key, level),
                    _ => 0,
                };
                into.push(at, &row, &[])?;
                run.worked(1).await?;
            }
        }
        sides.push(into);
    }
    match (sides.pop(), sides.pop()) {
        (Some(right), Some(left)) => partitions(left, right, level + 1, has_keys),
        _ => Ok(Vec::new()),
    }
}

/// The partitions of both sides, without those that have nothing on the left.
fn partitions(
    left: RowPartitions,
    right: RowPartitions,
    level: u32,
    has_keys: bool,
) -> Result<Vec<Partition>, SqlError> {
    let (left, right) = (left.finish()?, right.finish()?);
    let all: u64 = left.iter().map(|partition| partition.rows()).sum();
    let mut partitions = Vec::with_capacity(left.len());
    for (left, right) in left.into_iter().zip(right) {
        if left.rows() > 0 {
            let is_heavy = !has_keys || level >= LEVELS_MAX || left.rows() > all / HEAVY_SHARE;
            let right_rows = right.rows();
            let (left, right, rest) = (left.read(), right.read(), VecDeque::new());
            partitions.push(Partition { left, right, right_rows, rest, level, is_heavy });
        }
    }
    Ok(partitions)
}
