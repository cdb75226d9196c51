//! What a checkpoint begins and ends with.

use std::fmt;

use model::{ClusterId, Epoch, NodeId, PartitionId, WorkerId};

use super::FOOTER;
use crate::bytes::{Cursor, put_partition, put_u16, put_u32, put_u64};
use crate::damage::{Damage, DamageKind};
use crate::redo::Position;

/// The beginning of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The cluster whose rows they are.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The worker.
    pub worker: WorkerId,
    /// The partition.
    pub partition: PartitionId,
    /// Counts the partition's checkpoints, from 1.
    pub sequence: u32,
    /// The checkpoint that this one continues; zero when it needs none.
    pub previous: u32,
    /// The end of the redo log when the scan began.
    pub redo: Position,
    /// Every transaction up to this epoch was applied when the scan began.
    pub complete: Epoch,
    /// Slots outside the slice are here if their epoch is above: what was complete when the scan
    /// of the previous checkpoint began.
    pub changed_since: Epoch,
    /// All slots from the first to before the second are here, changed or not.
    pub slice: (u32, u32),
    /// Slots of the partition when the scan began: there are none beyond in older checkpoints that
    /// count.
    pub slot_count: u32,
}

/// The end of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointFooter {
    /// Blocks.
    pub blocks: u32,
    /// Slots in the blocks, empty ones included.
    pub slots: u64,
    /// Bytes of the slots before compression.
    pub bytes: u64,
    /// The newest epoch in the file, or in one that it continues.
    pub newest: Epoch,
}

const MAGIC: &[u8; 8] = b"NINESCKP";
const VERSION: u32 = 1;
/// Bytes of an encoded header.
pub(super) const HEADER_LEN: usize = 12 + 8 + 4 + 6 + 8 + 16 + 16 + 12 + 4;
/// Bytes of an encoded footer.
pub(super) const FOOTER_LEN: usize = 4 + 4 + 8 + 8 + 8 + 4;

impl CheckpointHeader {
    /// Appends the header to an empty `out`; returns its checksum.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> u32 {
        out.extend_from_slice(MAGIC);
        put_u32(out, VERSION);
        put_u64(out, self.cluster.0);
        put_u16(out, self.node.0);
        put_u16(out, self.worker.0.into());
        put_partition(out, self.partition);
        put_u32(out, self.sequence);
        put_u32(out, self.previous);
        put_u64(out, self.redo.segment);
        put_u64(out, self.redo.offset);
        put_u64(out, self.complete.0);
        put_u64(out, self.changed_since.0);
        put_u32(out, self.slice.0);
        put_u32(out, self.slice.1);
        put_u32(out, self.slot_count);
        let checksum = crc32c::crc32c(out);
        put_u32(out, checksum);
        assert_eq!(out.len(), HEADER_LEN, "bytes of a header");
        checksum
    }

    /// Reads a header of [`HEADER_LEN`] bytes; returns it with its checksum.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, u32), Damage> {
        let damage = |kind| Damage::new(0, kind);
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len()) != Some(MAGIC) {
            let blank = bytes.iter().all(|byte| *byte == 0);
            return Err(damage(if blank { DamageKind::Blank } else { DamageKind::Foreign }));
        }
        let version = cursor.u32().ok_or(damage(DamageKind::Cut))?;
        if version > VERSION {
            return Err(damage(DamageKind::Version { found: version, known: VERSION }));
        }
        let (content, checksum) = bytes.split_at(HEADER_LEN - 4);
        let computed = crc32c::crc32c(content);
        if computed.to_le_bytes() != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        let header = Self::decode_fields(cursor);
        let wrong = damage(DamageKind::Content("a header that breaks the rules of the format"));
        Ok((header.ok_or(wrong)?, computed))
    }

    fn decode_fields(mut cursor: Cursor<'_>) -> Option<Self> {
        let header = Self {
            cluster: ClusterId(cursor.u64()?),
            node: NodeId(cursor.u16()?),
            worker: WorkerId(u8::try_from(cursor.u16()?).ok()?),
            partition: cursor.partition()?,
            sequence: cursor.u32()?,
            previous: cursor.u32()?,
            redo: Position { segment: cursor.u64()?, offset: cursor.u64()? },
            complete: Epoch(cursor.u64()?),
            changed_since: Epoch(cursor.u64()?),
            slice: (cursor.u32()?, cursor.u32()?),
            slot_count: cursor.u32()?,
        };
        let orderly = header.slice.0 <= header.slice.1
            && header.slice.1 <= header.slot_count
            && header.previous < header.sequence;
        orderly.then_some(header)
    }

    /// Whether the checkpoint needs no other.
    pub fn is_whole(&self) -> bool {
        self.previous == 0
    }
}

impl CheckpointFooter {
    /// The bytes of the footer up to its checksum.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        put_u32(&mut out, FOOTER);
        put_u32(&mut out, self.blocks);
        put_u64(&mut out, self.slots);
        put_u64(&mut out, self.bytes);
        put_u64(&mut out, self.newest.0);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.u32()?;
        Some(Self {
            blocks: cursor.u32()?,
            slots: cursor.u64()?,
            bytes: cursor.u64()?,
            newest: Epoch(cursor.u64()?),
        })
    }
}

impl fmt::Display for CheckpointHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, worker, partition, sequence, previous, .. } = self;
        let Self { redo, complete, changed_since, slice, slot_count, .. } = self;
        write!(
            f,
            "checkpoint {sequence:x} of {partition}, {node}{worker}, cluster {:x}, \
             redo from {redo}, complete {complete}: slots {} to {} of {slot_count}",
            cluster.0, slice.0, slice.1
        )?;
        match previous {
            0 => f.write_str(", needs no other"),
            _ => write!(f, ", and what changed since {changed_since}, continues {previous:x}"),
        }
    }
}

impl fmt::Display for CheckpointFooter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { blocks, slots, bytes, newest } = self;
        write!(f, "{slots} slots with {bytes} bytes in {blocks} blocks, newest {newest}")
    }
}
