//! What a segment of the redo log begins with.
//!
//! # Guarantees
//! The header of the newest segment alone says which checkpoints and which older segments a
//! restart needs, so what is older than that can be removed, and what is missing is noticed.

use std::fmt;

use model::{ClusterId, Epoch, Incarnation, NodeId, WorkerId};

use super::record::Base;
use crate::bytes::{Cursor, put_u16, put_u32, put_u64};
use crate::damage::{Damage, DamageKind};

/// The beginning of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The cluster whose rows they are.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The worker.
    pub worker: WorkerId,
    /// The life of the node that wrote the segment.
    pub incarnation: Incarnation,
    /// The segment's number.
    pub segment: u64,
    /// The oldest segment that belongs to the log; what is below was to be removed.
    pub first: u64,
    /// Everything up to this epoch is in older segments and checkpoints.
    pub saved: Epoch,
    /// No restart goes back behind this epoch, as far as the writer had heard.
    pub durable: Epoch,
    /// What does not count of older segments and checkpoints.
    pub fences: Vec<Fence>,
    /// What the restart of each partition begins with.
    pub bases: Vec<Base>,
}

/// Of the records in segments below this one, and of the checkpoints begun there, those of later
/// epochs do not count: they were lost when the worker was restarted without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The first segment of the life that was restored.
    pub segment: u64,
    /// The epoch that was restored.
    pub through: Epoch,
}

const MAGIC: &[u8; 8] = b"NINESRED";
/// The newest version of the format of the log.
pub(super) const VERSION: u32 = 1;
/// Bytes up to the length of the header.
pub(super) const PREFIX: usize = 16;
/// A header that claims to be longer is none: a worker does not have that many partitions.
const LEN_MAX: usize = 64 << 20;
const FENCE_LEN: usize = 16;
const BASE_LEN: usize = 26;

impl SegmentHeader {
    /// Whether this is the first segment of a life.
    pub fn begins_life(&self) -> bool {
        self.fences.iter().any(|fence| fence.segment == self.segment)
    }

    /// The newest epoch of records in segment `segment` that counts, by the fences known here.
    pub fn limit_of(&self, segment: u64) -> Epoch {
        let later = self.fences.iter().filter(|fence| fence.segment > segment);
        later.map(|fence| fence.through).min().unwrap_or(Epoch(u64::MAX))
    }

    /// Appends the header to an empty `out`; returns its checksum.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> u32 {
        out.extend_from_slice(MAGIC);
        put_u32(out, VERSION);
        let at = out.len();
        put_u32(out, 0);
        put_u64(out, self.cluster.0);
        put_u16(out, self.node.0);
        put_u16(out, self.worker.0.into());
        put_u64(out, self.incarnation.0);
        put_u64(out, self.segment);
        put_u64(out, self.first);
        put_u64(out, self.saved.0);
        put_u64(out, self.durable.0);
        put_u32(out, self.fences.len() as u32);
        put_u32(out, self.bases.len() as u32);
        for fence in &self.fences {
            put_u64(out, fence.segment);
            put_u64(out, fence.through.0);
        }
        for base in &self.bases {
            base.encode(out);
        }
        let len = out.len() + 4;
        out[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
        let checksum = crc32c::crc32c(out);
        put_u32(out, checksum);
        checksum
    }

    /// The length of the header that `bytes` begin with; `bytes` has at least [`PREFIX`].
    pub(super) fn len_of(bytes: &[u8]) -> Result<usize, Damage> {
        let damage = |kind| Damage::new(0, kind);
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len()) != Some(MAGIC) {
            let blank = bytes.iter().all(|byte| *byte == 0);
            return Err(damage(if blank { DamageKind::Blank } else { DamageKind::Foreign }));
        }
        let prefix = cursor.u32().zip(cursor.u32());
        let (version, len) = prefix.ok_or(damage(DamageKind::Cut))?;
        if version > VERSION {
            return Err(damage(DamageKind::Version { found: version, known: VERSION }));
        }
        if !(PREFIX..=LEN_MAX).contains(&(len as usize)) {
            return Err(damage(DamageKind::Checksum));
        }
        Ok(len as usize)
    }

    /// Reads a header of exactly these bytes; returns it with its checksum.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, u32), Damage> {
        let damage = |kind| Damage::new(0, kind);
        let (content, checksum) = bytes.split_at(bytes.len() - 4);
        let computed = crc32c::crc32c(content);
        if computed.to_le_bytes() != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        let header = Self::decode_fields(Cursor::new(&content[PREFIX..]));
        let header = header.ok_or(damage(DamageKind::Content("a header of another length")))?;
        Ok((header, computed))
    }

    fn decode_fields(mut cursor: Cursor<'_>) -> Option<Self> {
        let cluster = ClusterId(cursor.u64()?);
        let node = NodeId(cursor.u16()?);
        let worker = WorkerId(u8::try_from(cursor.u16()?).ok()?);
        let incarnation = Incarnation(cursor.u64()?);
        let (segment, first) = (cursor.u64()?, cursor.u64()?);
        let (saved, durable) = (Epoch(cursor.u64()?), Epoch(cursor.u64()?));
        let (fence_count, base_count) = (cursor.u32()? as usize, cursor.u32()? as usize);
        let expected = fence_count.checked_mul(FENCE_LEN)?.checked_add(base_count * BASE_LEN)?;
        if expected != cursor.rest().len() {
            return None;
        }
        let mut fences = Vec::with_capacity(fence_count);
        for _ in 0..fence_count {
            fences.push(Fence { segment: cursor.u64()?, through: Epoch(cursor.u64()?) });
        }
        let mut bases = Vec::with_capacity(base_count);
        for _ in 0..base_count {
            bases.push(Base::decode(&mut cursor)?);
        }
        let named = Self { cluster, node, worker, incarnation, segment, first, ..Self::default() };
        Some(Self { saved, durable, fences, bases, ..named })
    }
}

impl fmt::Display for SegmentHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, worker, incarnation, segment, first, .. } = self;
        let Self { saved, durable, .. } = self;
        write!(
            f,
            "segment {segment:x} of {node}{worker}{incarnation}, cluster {:x}, \
             from {first:x} on, saved {saved}, durable {durable}",
            cluster.0
        )?;
        for Fence { segment, through } in &self.fences {
            write!(f, ", below {segment:x} through {through}")?;
        }
        write!(f, ", {} partitions", self.bases.len())
    }
}
