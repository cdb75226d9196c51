//! The file that says which epoch was durable, apart from the log that has the epoch.
//!
//! A log that has lost its end, or something in its middle, does not say so by itself: what is left
//! looks like an older log. The watermark says how far it must reach.
//!
//! # Guarantees
//! The file has two slots, each in a block of its own, which are written in turn: a write that is
//! cut off leaves the other slot as it was. Its length never changes.

use std::fmt;

use model::{ClusterId, Epoch, NodeId, WorkerId};

use crate::bytes::{Cursor, put_u16, put_u32, put_u64};
use crate::damage::{Damage, DamageKind};

/// The newest epoch that was known to be on the disks of all complete replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The cluster whose epoch it is.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The worker; none for the file of the node as a whole.
    pub worker: Option<WorkerId>,
    /// The epoch.
    pub epoch: Epoch,
    /// Up to this epoch the worker's own log has had everything: less than `epoch` while rows are
    /// copied to it.
    pub held: Epoch,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The newer one of its slots.
    pub newest: Option<Watermark>,
    /// What is wrong with a slot. Where one slot is sound, this may be what a crash has left of a
    /// write.
    pub damage: Option<Damage>,
}

const MAGIC: &[u8; 8] = b"NINESDUR";
/// The newest version of the format.
const VERSION: u32 = 1;
/// A slot has a block for itself: disks tear writes at the ends of blocks.
const SLOT: usize = 4_096;
const LEN: usize = 8 + 4 + 2 + 8 + 2 + 2 + 8 + 8 + 4;
/// In place of a worker's number.
const NO_WORKER: u16 = u16::MAX;

impl Watermark {
    /// The content of a slot, and its place in the file.
    pub fn encode(&self, slot: usize) -> (u64, Vec<u8>) {
        let slot = slot % 2;
        let mut out = Vec::with_capacity(LEN);
        out.extend_from_slice(MAGIC);
        put_u32(&mut out, VERSION);
        put_u16(&mut out, slot as u16);
        put_u64(&mut out, self.cluster.0);
        put_u16(&mut out, self.node.0);
        put_u16(&mut out, self.worker.map_or(NO_WORKER, |worker| worker.0.into()));
        put_u64(&mut out, self.epoch.0);
        put_u64(&mut out, self.held.0);
        let checksum = crc32c::crc32c(&out);
        put_u32(&mut out, checksum);
        ((slot * SLOT) as u64, out)
    }

    /// The content of a new file: the same in both slots.
    pub fn file(&self) -> Vec<u8> {
        let mut out = vec![0; 2 * SLOT];
        for slot in 0..2 {
            let (at, bytes) = self.encode(slot);
            out[at as usize..at as usize + LEN].copy_from_slice(&bytes);
        }
        out
    }

    fn decode(bytes: &[u8], slot: usize) -> Result<Self, Damage> {
        let at = slot * SLOT;
        let damage = |kind| Damage::new(at as u64, kind);
        let bytes = bytes.get(at..at + LEN).ok_or(damage(DamageKind::Cut))?;
        let mut cursor = Cursor::new(bytes);
        let read = |cursor: &mut Cursor<'_>| {
            let known = cursor.take(MAGIC.len())? == MAGIC;
            Some((known, cursor.u32()?))
        };
        let (known, version) = read(&mut cursor).ok_or(damage(DamageKind::Cut))?;
        if !known {
            let blank = bytes.iter().all(|byte| *byte == 0);
            return Err(damage(if blank { DamageKind::Blank } else { DamageKind::Foreign }));
        }
        if version > VERSION {
            return Err(damage(DamageKind::Version { found: version, known: VERSION }));
        }
        let (content, checksum) = bytes.split_at(LEN - 4);
        if crc32c::crc32c(content).to_le_bytes() != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        let read = |cursor: &mut Cursor<'_>| {
            let own = usize::from(cursor.u16()?);
            let (cluster, node) = (ClusterId(cursor.u64()?), NodeId(cursor.u16()?));
            let worker = match cursor.u16()? {
                NO_WORKER => None,
                number => Some(WorkerId(u8::try_from(number).ok()?)),
            };
            let (epoch, held) = (Epoch(cursor.u64()?), Epoch(cursor.u64()?));
            (own == slot).then_some(Self { cluster, node, worker, epoch, held })
        };
        read(&mut cursor).ok_or(damage(DamageKind::Content("a slot of another place")))
    }
}

impl Watermarks {
    /// Reads the content of a file.
    pub fn read(bytes: &[u8]) -> Self {
        let slots = [Watermark::decode(bytes, 0), Watermark::decode(bytes, 1)];
        let damage = slots.iter().find_map(|slot| slot.err());
        let newest = slots.iter().flatten().max_by_key(|slot| slot.epoch).copied();
        Self { newest, damage }
    }
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, node, worker, epoch, held } = self;
        let worker = worker.map(|worker| worker.to_string()).unwrap_or_default();
        let cluster = cluster.0;
        write!(
            f,
            "{node}{worker} of cluster {cluster:x}: {epoch} was durable, {held} was in its log"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watermark(epoch: u64) -> Watermark {
        let (cluster, node) = (ClusterId(9), NodeId(3));
        let (epoch, held) = (Epoch(epoch), Epoch(epoch - 1));
        Watermark { cluster, node, worker: Some(WorkerId(1)), epoch, held }
    }

    #[test]
    fn the_newer_slot_counts() {
        let mut file = watermark(5).file();
        assert_eq!(Watermarks::read(&file).newest, Some(watermark(5)));
        for (slot, epoch) in [(1, 6), (2, 7), (3, 8)] {
            let (at, bytes) = watermark(epoch).encode(slot);
            file[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
            let read = Watermarks::read(&file);
            assert_eq!(read, Watermarks { newest: Some(watermark(epoch)), damage: None });
        }
    }

    #[test]
    fn a_damaged_slot_leaves_the_other_one() {
        let (old, new) = (watermark(5), watermark(6));
        let mut file = old.file();
        let (at, bytes) = new.encode(1);
        file[at as usize..at as usize + LEN].copy_from_slice(&bytes);
        for bit in 0..LEN * 8 {
            let mut flipped = file.clone();
            flipped[SLOT + bit / 8] ^= 1 << (bit % 8);
            let read = Watermarks::read(&flipped);
            assert_eq!(read.newest, Some(old), "bit {bit}");
            assert_eq!(read.damage.map(|damage| damage.offset), Some(SLOT as u64), "bit {bit}");
        }
        for len in 0..file.len() {
            let read = Watermarks::read(&file[..len]);
            let expected = [Some(new), Some(old), None];
            let expected = expected[usize::from(len < SLOT + LEN) + usize::from(len < LEN)];
            assert_eq!(read.newest, expected, "cut at {len}");
        }
        // A slot in the other one's place does not count.
        let mut swapped = file[SLOT..].to_vec();
        swapped.extend_from_slice(&file[..SLOT]);
        assert_eq!(Watermarks::read(&swapped).newest, None);
    }
}
