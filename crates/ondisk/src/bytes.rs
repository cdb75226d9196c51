//! Integers in bytes: fixed width, little-endian, and variable width where many are small.
//!
//! # Guarantees
//! A cursor never reads beyond its bytes: what is missing is `None`.

use model::{PartitionId, PartitionIndex, TableId};

/// Bytes being taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What has not been taken.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn partition(&mut self) -> Option<PartitionId> {
        let (table, index) = (self.u32()?, self.u16()?);
        Some(PartitionId { table: TableId(table), index: PartitionIndex(index) })
    }

    /// A number of [`put_variable`].
    #[inline]
    pub(crate) fn variable(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7F);
            if shift == 63 && part > 1 {
                return None;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }
}

pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_partition(out: &mut Vec<u8>, partition: PartitionId) {
    put_u32(out, partition.table.0);
    put_u16(out, partition.index.0);
}

/// Seven bits per byte, the lowest first; the top bit says that more follow.
#[inline]
pub(crate) fn put_variable(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A difference as a number that is small when the difference is.
pub(crate) fn fold_sign(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63) as u64
}

/// The difference behind a number of [`fold_sign`].
pub(crate) fn unfold_sign(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_numbers_come_back() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 62, u64::MAX] {
            let mut out = Vec::new();
            put_variable(&mut out, value);
            assert_eq!(Cursor::new(&out).variable(), Some(value));
            assert_eq!(Cursor::new(&out[..out.len() - 1]).variable(), None, "cut: {value}");
        }
        assert_eq!(Cursor::new(&[0xFF; 11]).variable(), None, "too long");
        let mut high = [0xFF; 10];
        high[9] = 2;
        assert_eq!(Cursor::new(&high).variable(), None, "too large");
        for difference in [0, 1, -1, 5, -5, i64::MAX, i64::MIN] {
            assert_eq!(unfold_sign(fold_sign(difference)), difference);
        }
    }
}
