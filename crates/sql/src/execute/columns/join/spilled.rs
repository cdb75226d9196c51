//! Joins of two sides neither of which fits memory: both are spread over partitions by key, and
//! joined partition by partition (Grace hash join).
//!
//! Of a partition the left side is kept and the right one passes by. A left side that does not fit
//! is spread once more together with the right one. Where that is of no use, as most rows have one
//! key, and in joins without keys, it is kept piece by piece, and the right side passes by for each
//! of them (block nested loops).
//!
//! M. Kitsuregawa, H. Tanaka, T. Moto-oka: Application of Hash to Data Base Machine and Its
//! Architecture, New Generation Computing 1 (1983).

use std::collections::VecDeque;

use sql_expression::SqlError;
use vector::{KeyColumn, ScalarRef};

use super::{JoinCursor, KEPT, Passing, State, TABLE_BYTES, table_of, unsuitable};
use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::shape::{Shape, Stop};
use crate::execute::run::Run;
use crate::execute::spilled::batches::BatchReader;
use crate::memory::Held;
use crate::spill::partitions::{BlockPartitions, partition_of, spread};

/// How often rows are spread at most.
const LEVELS_MAX: u32 = 4;
/// A partition that has more than one in so many rows of what was spread is not spread again: its
/// rows have few keys.
const HEAVY_SHARE: u64 = 2;
/// Rows that are spread at a time.
const SPREAD_MAX: usize = 4_096;

/// The partitions of both sides.
pub(super) struct SpilledJoin {
    pending: Vec<Partition>,
    /// The partition at hand.
    now: Option<Partition>,
}

/// Rows of both sides whose keys are in one partition.
struct Partition {
    left: BatchReader,
    right: BatchReader,
    right_rows: u64,
    /// Rows of the left side that did not fit the piece before.
    rest: Option<ColumnBatch>,
    level: u32,
    /// It is not spread again.
    is_heavy: bool,
}

impl SpilledJoin {
    /// The next rows of the right side of the partition at hand.
    pub(super) async fn next_of_right(
        &mut self,
        run: &mut Run<'_>,
        shape: &Shape,
    ) -> Result<Option<ColumnBatch>, Stop> {
        match &mut self.now {
            Some(partition) => partition.right.next(run, shape).await,
            None => Ok(None),
        }
    }
}

impl JoinCursor<'_> {
    /// Has both sides go to files: what was read of them, and what is left.
    pub(super) async fn spill(
        &mut self,
        run: &mut Run<'_>,
        of_left: VecDeque<ColumnBatch>,
        of_right: Option<ColumnBatch>,
    ) -> Result<State, Stop> {
        let mut left = Side::new(run)?;
        for batch in of_left {
            left.push(run, batch, self, true, 0).await?;
        }
        while let Some(batch) = self.left.next(run).await? {
            left.push(run, batch, self, true, 0).await?;
        }
        let mut right = Side::new(run)?;
        if let Some(batch) = of_right {
            right.push(run, batch, self, false, 0).await?;
        }
        while let Some(batch) = self.right.next(run).await? {
            right.push(run, batch, self, false, 0).await?;
        }
        let pending = partitions(left, right, 1)?;
        self.spilled = Some(Box::new(SpilledJoin { pending, now: None }));
        // The first piece is the next one.
        Ok(State::Done)
    }

    /// Keeps the next piece of a left side, by which the right one of its partition is to pass;
    /// nothing at the end.
    pub(super) async fn next_piece(
        &mut self,
        run: &mut Run<'_>,
    ) -> Result<Option<Box<Passing>>, Stop> {
        loop {
            let Some(spilled) = &mut self.spilled else { return Ok(None) };
            let is_first = spilled.now.is_none();
            let next = spilled.now.take().or_else(|| spilled.pending.pop());
            let Some(mut partition) = next else { return Ok(None) };
            if partition.right_rows == 0 && !self.outer {
                continue;
            }
            let mut held = run.hold(KEPT);
            let kept = self.load(run, &mut partition, &mut held).await?;
            if kept.rows() == 0 {
                continue;
            }
            if is_first && partition.rest.is_some() && !partition.is_heavy {
                drop((kept, held));
                let pending = self.spread(run, partition).await?;
                if let Some(spilled) = &mut self.spilled {
                    spilled.pending.extend(pending);
                }
                continue;
            }
            partition.right.rewind();
            if let Some(spilled) = &mut self.spilled {
                spilled.now = Some(partition);
            }
            let keys = self.keys.of_left(&kept).map_err(unsuitable)?;
            let table = table_of(run, &keys, kept.rows()).await?;
            let matched = vec![false; if self.outer { kept.rows() } else { 0 }];
            let (kept_is_left, taken, now, _held) = (true, VecDeque::new(), None, held);
            let passing = Passing { table, kept, kept_is_left, taken, now, matched, _held };
            return Ok(Some(Box::new(passing)));
        }
    }

    /// As many of the next rows of a left side as fit memory.
    async fn load(
        &self,
        run: &mut Run<'_>,
        partition: &mut Partition,
        held: &mut Held,
    ) -> Result<ColumnBatch, Stop> {
        let shape = self.left.shape();
        let mut kept = ColumnBatch::empty(shape);
        loop {
            let batch = match partition.rest.take() {
                Some(batch) => batch,
                None => match partition.left.next(run, shape).await? {
                    Some(batch) => batch,
                    None => return Ok(kept),
                },
            };
            let bytes = batch.memory_bytes() + batch.rows() * TABLE_BYTES;
            if !held.fits(bytes)? {
                if kept.rows() > 0 {
                    partition.rest = Some(batch);
                    return Ok(kept);
                }
                held.force(bytes);
            }
            kept.append_held(&batch);
        }
    }

    /// Spreads a partition at the next level.
    async fn spread(
        &self,
        run: &mut Run<'_>,
        mut partition: Partition,
    ) -> Result<Vec<Partition>, Stop> {
        partition.left.rewind();
        partition.right.rewind();
        let level = partition.level;
        let (mut left, mut right) = (Side::new(run)?, Side::new(run)?);
        while let Some(batch) = partition.left.next(run, self.left.shape()).await? {
            left.push(run, batch, self, true, level).await?;
        }
        while let Some(batch) = partition.right.next(run, self.right.shape()).await? {
            right.push(run, batch, self, false, level).await?;
        }
        Ok(partitions(left, right, level + 1)?)
    }
}

/// A side on its way to partitions.
struct Side {
    partitions: BlockPartitions,
    has_keys: bool,
    key: Vec<u8>,
}

impl Side {
    fn new(run: &Run<'_>) -> Result<Self, SqlError> {
        let partitions = BlockPartitions::new(&run.session.memory, KEPT)?;
        Ok(Self { partitions, has_keys: false, key: Vec::new() })
    }

    /// Spreads rows, of the left side or of the right one.
    async fn push(
        &mut self,
        run: &mut Run<'_>,
        batch: ColumnBatch,
        join: &JoinCursor<'_>,
        is_left: bool,
        level: u32,
    ) -> Result<(), Stop> {
        let (keys, shape) = if is_left {
            (join.keys.of_left(&batch), join.left.shape())
        } else {
            (join.keys.of_right(&batch), join.right.shape())
        };
        let keys = keys.map_err(unsuitable)?;
        self.has_keys = !keys.is_empty();
        for from in (0..batch.rows()).step_by(SPREAD_MAX) {
            let rows = from..batch.rows().min(from + SPREAD_MAX);
            let of_row = rows.map(|at| {
                if self.has_keys {
                    write_key(&mut self.key, &keys, at);
                    partition_of(&self.key, level)
                } else {
                    0
                }
            });
            for (partition, mut places) in spread(of_row).into_iter().enumerate() {
                if !places.is_empty() {
                    places.iter_mut().for_each(|place| *place += from as u32);
                    let rows = batch.gather(run, &places, shape).await?;
                    self.partitions.push(partition, &rows.into_block())?;
                }
            }
        }
        Ok(())
    }
}

/// The partitions of both sides, without those that have nothing on the left.
fn partitions(left: Side, right: Side, level: u32) -> Result<Vec<Partition>, SqlError> {
    let has_keys = left.has_keys;
    let (left, right) = (left.partitions.finish()?, right.partitions.finish()?);
    let all: u64 = left.iter().map(|partition| partition.rows()).sum();
    let mut partitions = Vec::with_capacity(left.len());
    for (left, right) in left.into_iter().zip(right) {
        if left.rows() > 0 {
            let is_heavy = !has_keys || level >= LEVELS_MAX || left.rows() > all / HEAVY_SHARE;
            let right_rows = right.rows();
            let (left, right) = (BatchReader::new(left), BatchReader::new(right));
            partitions.push(Partition { left, right, right_rows, rest: None, level, is_heavy });
        }
    }
    Ok(partitions)
}

/// Writes the key of a row: the same bytes for keys that are equal.
fn write_key(into: &mut Vec<u8>, keys: &[KeyColumn], at: usize) {
    into.clear();
    for KeyColumn { vector, collation } in keys {
        match vector.get(at) {
            // Equal to nothing; on the left side of an outer join it stays.
            ScalarRef::Null => into.push(0),
            ScalarRef::Int(number) => into.extend(number.to_be_bytes()),
            ScalarRef::UInt(number) => into.extend(number.to_be_bytes()),
            // Both zeros are equal.
            ScalarRef::Float(number) => into.extend((number + 0.0).to_bits().to_be_bytes()),
            ScalarRef::Decimal(number) => into.extend(number.to_be_bytes()),
            ScalarRef::Bytes(text) => {
                collation::sort_key(*collation, text, into);
                into.push(0);
            }
        }
    }
}
