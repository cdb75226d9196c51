//! Encodes a checkpoint piece by piece.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use model::{Epoch, RowId};

use super::header::{CheckpointFooter, CheckpointHeader};
use super::{BLOCK, BLOCK_FILL, BLOCK_HEADER};
use crate::bytes::{fold_sign, put_u32, put_variable};
use crate::redo::seed_at;

/// A checkpoint that grows: slots come in, bytes to be written come out.
pub struct CheckpointWriter {
    /// Where the checksums of blocks begin.
    seed: u32,
    /// Offset of the first of `out` in the file.
    base: u64,
    /// Encoded and not taken.
    out: Vec<u8>,
    /// The block that is being filled.
    block: Vec<u8>,
    block_slots: u32,
    /// Row id and epoch of the slot before, in this block.
    before: (u32, u64),
    next_row_id: u32,
    footer: CheckpointFooter,
    table: CompressTable,
    /// Blocks to come that are not worth compressing, as the one before them was not.
    unpacked: u32,
}

/// Compression is worth it when it saves one byte in so many.
const WORTH: usize = 8;
/// Blocks that are left as they are after one that was not worth it.
const UNPACKED: u32 = 15;

impl CheckpointWriter {
    /// A checkpoint that holds its header. `newest` is that of the checkpoint it continues.
    pub fn new(header: &CheckpointHeader, newest: Epoch) -> Self {
        let mut out = Vec::new();
        let seed = header.encode(&mut out);
        Self {
            seed,
            base: 0,
            out,
            block: Vec::with_capacity(BLOCK_FILL + 512),
            block_slots: 0,
            before: (0, 0),
            next_row_id: 0,
            footer: CheckpointFooter { newest, ..CheckpointFooter::default() },
            table: CompressTable::large(),
            unpacked: 0,
        }
    }

    /// Adds a slot; they come in ascending order.
    #[inline]
    pub fn slot(&mut self, row_id: RowId, epoch: Epoch, row: Option<&[u8]>) {
        assert!(row_id.0 >= self.next_row_id, "{row_id} after {}", self.next_row_id);
        self.next_row_id = row_id.0 + 1;
        let (row_before, epoch_before) = self.before;
        put_variable(&mut self.block, u64::from(row_id.0 - row_before));
        put_variable(&mut self.block, fold_sign(epoch.0.wrapping_sub(epoch_before) as i64));
        put_variable(&mut self.block, row.map_or(0, |row| row.len() as u64 + 1));
        self.block.extend_from_slice(row.unwrap_or(&[]));
        self.before = (row_id.0, epoch.0);
        self.block_slots += 1;
        self.footer.newest = self.footer.newest.max(epoch);
        if self.block.len() >= BLOCK_FILL {
            self.end_block();
        }
    }

    /// Bytes that can be taken.
    pub fn pending(&self) -> usize {
        self.out.len()
    }

    /// The length of the file with all that can be taken.
    pub fn len(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    /// Whether nothing at all was encoded, which never happens: there is a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the bytes out that are to be written at the offset returned with them.
    pub fn take(&mut self) -> (u64, Vec<u8>) {
        let offset = self.base;
        self.base += self.out.len() as u64;
        (offset, std::mem::take(&mut self.out))
    }

    /// Ends the checkpoint: the footer is among the bytes that can be taken.
    pub fn finish(&mut self) -> CheckpointFooter {
        if self.block_slots > 0 {
            self.end_block();
        }
        let footer = self.footer.encode();
        let checksum = crc32c::crc32c_append(seed_at(self.seed, self.len()), &footer);
        self.out.extend_from_slice(&footer);
        put_u32(&mut self.out, checksum);
        self.footer
    }

    /// Appends the block compressed, if that is worth it; returns the bytes it takes then.
    fn pack(&mut self) -> Option<usize> {
        if self.unpacked > 0 {
            self.unpacked -= 1;
            return None;
        }
        let (raw, content) = (self.block.len(), self.out.len());
        self.out.resize(content + get_maximum_output_size(raw), 0);
        let packed =
            compress_into_with_table(&self.block, &mut self.out[content..], &mut self.table);
        let packed = packed.ok().filter(|packed| *packed < raw - raw / WORTH);
        if packed.is_none() {
            self.unpacked = UNPACKED;
        }
        self.out.truncate(content + packed.unwrap_or(0));
        packed
    }

    fn end_block(&mut self) {
        let (raw, start) = (self.block.len(), self.out.len());
        let offset = self.len();
        let content = start + BLOCK_HEADER;
        self.out.resize(content, 0);
        let stored = self.pack().unwrap_or_else(|| {
            self.out.extend_from_slice(&self.block);
            raw
        });
        let words = [BLOCK, raw as u32, stored as u32, self.block_slots];
        for (at, word) in words.into_iter().enumerate() {
            self.out[start + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
        }
        let seed = seed_at(self.seed, offset);
        let checksum = crc32c::crc32c_append(seed, &self.out[start..start + BLOCK_HEADER - 4]);
        let checksum = crc32c::crc32c_append(checksum, &self.out[content..]);
        self.out[content - 4..content].copy_from_slice(&checksum.to_le_bytes());
        self.footer.blocks += 1;
        self.footer.slots += u64::from(self.block_slots);
        self.footer.bytes += raw as u64;
        self.block.clear();
        self.block_slots = 0;
        self.before = (0, 0);
    }
}

impl std::fmt::Debug for CheckpointWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CheckpointWriter({} bytes, next {})", self.len(), self.next_row_id)
    }
}
