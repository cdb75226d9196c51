//! Encodes a segment of the redo log.

use super::header::SegmentHeader;
use super::record::Record;

/// A segment that grows: header and records as bytes to be written.
#[derive(Debug)]
pub struct SegmentWriter {
    segment: u64,
    /// Where the checksums of records begin.
    seed: u32,
    /// Offset of the first of `bytes` in the segment.
    base: u64,
    bytes: Vec<u8>,
}

impl SegmentWriter {
    /// A segment that holds its header.
    pub fn new(header: &SegmentHeader) -> Self {
        let mut bytes = Vec::new();
        let seed = header.encode(&mut bytes);
        Self { segment: header.segment, seed, base: 0, bytes }
    }

    /// The segment's number.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// The length of the segment: where the next record will be.
    pub fn offset(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Bytes that have not been taken.
    pub fn pending(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record; returns its offset.
    #[inline]
    pub fn append(&mut self, record: &Record<'_>) -> u64 {
        let at = self.bytes.len();
        let offset = self.base + at as u64;
        self.bytes.extend_from_slice(&[0; 4]);
        record.encode(&mut self.bytes);
        let checksum = crc32c::crc32c_append(seed_at(self.seed, offset), &self.bytes[at + 4..]);
        self.bytes[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        offset
    }

    /// Takes the bytes out that are to be written at the offset returned with them. Room for
    /// `capacity` bytes is made for those to come.
    pub fn take(&mut self, capacity: usize) -> (u64, Vec<u8>) {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(capacity));
        let offset = self.base;
        self.base += bytes.len() as u64;
        (offset, bytes)
    }
}

/// Where the checksum of a record at `offset` begins.
pub(crate) fn seed_at(seed: u32, offset: u64) -> u32 {
    seed.wrapping_add(offset as u32) ^ (offset >> 32) as u32
}
