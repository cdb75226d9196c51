//! The file that says whose data directory it is.

use std::fmt;

use model::{Incarnation, NodeId};

use crate::bytes::{Cursor, put_u16, put_u32, put_u64};
use crate::damage::{Damage, DamageKind};

/// Whose data directory it is. Another node, or one with another number of workers, must not use
/// it: the partitions would not be where their files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: NodeId,
    /// Its workers.
    pub workers: u8,
    /// The newest life of the node. The next one is larger, whatever the clock says by then.
    pub incarnation: Incarnation,
}

const MAGIC: &[u8; 8] = b"NINESDIR";
/// The newest version of the format of a data directory as a whole.
const VERSION: u32 = 1;
const LEN: usize = 8 + 4 + 2 + 1 + 8 + 4;

impl Identity {
    /// The content of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(LEN);
        out.extend_from_slice(MAGIC);
        put_u32(&mut out, VERSION);
        put_u16(&mut out, self.node.0);
        out.push(self.workers);
        put_u64(&mut out, self.incarnation.0);
        let checksum = crc32c::crc32c(&out);
        put_u32(&mut out, checksum);
        out
    }

    /// Reads the content of the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let damage = |kind| Damage::new(0, kind);
        let mut cursor = Cursor::new(bytes);
        match cursor.take(MAGIC.len()) {
            None => return Err(damage(DamageKind::Cut)),
            Some(magic) if magic != MAGIC => return Err(damage(DamageKind::Foreign)),
            Some(_) => {}
        }
        let version = cursor.u32().ok_or(damage(DamageKind::Cut))?;
        if version > VERSION {
            return Err(damage(DamageKind::Version { found: version, known: VERSION }));
        }
        if bytes.len() != LEN {
            return Err(damage(DamageKind::Cut));
        }
        let (content, checksum) = bytes.split_at(LEN - 4);
        if crc32c::crc32c(content).to_le_bytes() != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        let read = cursor.u16().zip(cursor.u8()).zip(cursor.u64());
        let ((node, workers), incarnation) = read.ok_or(damage(DamageKind::Cut))?;
        Ok(Self { node: NodeId(node), workers, incarnation: Incarnation(incarnation) })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "data directory of {}, {} workers, life {}",
            self.node, self.workers, self.incarnation
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_file_is_read() {
        let identity = Identity { node: NodeId(7), workers: 4, incarnation: Incarnation(9) };
        let bytes = identity.encode();
        assert_eq!(Identity::decode(&bytes), Ok(identity));
        assert_eq!(identity.to_string(), "data directory of n7, 4 workers, life i9");
        for len in 0..bytes.len() {
            assert!(Identity::decode(&bytes[..len]).is_err(), "cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Identity::decode(&flipped).is_err(), "bit {bit}");
        }
        let mut newer = bytes;
        newer[8] = 9;
        let refused = Identity::decode(&newer).expect_err("a newer version");
        assert_eq!(refused.kind, DamageKind::Version { found: 9, known: 1 });
    }
}
