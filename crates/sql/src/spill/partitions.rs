//! Rows spread over partitions by their keys: rows with equal keys are in one partition, which is
//! then worked on alone.
//!
//! # Invariants
//! A partition that does not fit memory either is spread once more, at the next level, by other
//! bits of the keys' hashes.

use std::hash::Hasher;

use sql_expression::SqlError;
use sqltype::Datum;
use stdx::FixedHasher;
use vector::Block;

use crate::memory::{Account, Held};
use crate::spill::blocks::{BlockRun, BlockWriter};
use crate::spill::rows::{RowRun, RowWriter};
use crate::spill::{FRAME_BYTES, SpillFile};

/// Partitions that rows are spread over at a time.
pub(crate) const FAN_OUT: usize = 16;

/// The partition of a key at a level.
pub(crate) fn partition_of(key: &[u8], level: u32) -> usize {
    let mut hasher = FixedHasher::default();
    hasher.write_u32(level);
    hasher.write(key);
    // The finalizer of MurmurHash3, so that all bits count.
    let mut hash = hasher.finish();
    hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash >> 59) as usize % FAN_OUT
}

/// Rows on their way to partitions.
#[derive(Debug)]
pub(crate) struct RowPartitions {
    writers: Vec<RowWriter>,
    /// What the buffers take.
    _held: Held,
}

impl RowPartitions {
    /// Without rows, in a new file; errors name it so.
    pub(crate) fn new(account: &Account, what: &'static str) -> Result<Self, SqlError> {
        let file = SpillFile::create(account, what)?;
        let writers = (0..FAN_OUT).map(|_| RowWriter::new(file.clone())).collect();
        Ok(Self { writers, _held: buffers(account, what) })
    }

    /// Adds a row, which is made of two parts.
    pub(crate) fn push(
        &mut self,
        partition: usize,
        first: &[Datum],
        second: &[Datum],
    ) -> Result<(), SqlError> {
        self.writers[partition].push_two(first, second)
    }

    /// All partitions, also those without rows.
    pub(crate) fn finish(self) -> Result<Vec<RowRun>, SqlError> {
        self.writers.into_iter().map(RowWriter::finish).collect()
    }
}

/// Rows in columns on their way to partitions.
#[derive(Debug)]
pub(crate) struct BlockPartitions {
    writers: Vec<BlockWriter>,
    /// What the buffers take.
    _held: Held,
}

impl BlockPartitions {
    /// Without rows, in a new file; errors name it so.
    pub(crate) fn new(account: &Account, what: &'static str) -> Result<Self, SqlError> {
        let file = SpillFile::create(account, what)?;
        let writers = (0..FAN_OUT).map(|_| BlockWriter::new(file.clone())).collect();
        Ok(Self { writers, _held: buffers(account, what) })
    }

    /// Adds rows.
    pub(crate) fn push(&mut self, partition: usize, block: &Block) -> Result<(), SqlError> {
        self.writers[partition].push(block)
    }

    /// All partitions, also those without rows.
    pub(crate) fn finish(self) -> Result<Vec<BlockRun>, SqlError> {
        self.writers.into_iter().map(BlockWriter::finish).collect()
    }
}

/// The places of rows in each partition, by the partition of each row.
pub(crate) fn spread(of_row: impl Iterator<Item = usize>) -> Vec<Vec<u32>> {
    let mut places = vec![Vec::new(); FAN_OUT];
    for (at, partition) in of_row.enumerate() {
        places[partition].push(at as u32);
    }
    places
}

fn buffers(account: &Account, what: &'static str) -> Held {
    let mut held = account.hold(what);
    held.force(FAN_OUT * FRAME_BYTES);
    held
}
