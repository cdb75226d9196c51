//! Reads a segment of the redo log, of which bytes come in piece by piece.

use super::header::{PREFIX, SegmentHeader};
use super::record::{MARK_LEN, MARK_WORD, RECORD_HEADER, Record, content_len};
use super::writer::seed_at;
use crate::damage::{Damage, DamageKind};

/// Why reading a segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentEnd {
    /// With a record that says so: the log goes on in the next segment.
    Sealed,
    /// With the file, after a whole record.
    Open,
    /// With something that is no record.
    Damaged(Damage),
}

/// Reads one segment. Push bytes and take records in turn; then [`SegmentReader::finish`].
#[derive(Debug, Default)]
pub struct SegmentReader {
    /// Bytes not consumed, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Where `buffer[at]` is in the file.
    offset: u64,
    header: Option<SegmentHeader>,
    seed: u32,
    end: Option<SegmentEnd>,
    loss: bool,
}

impl SegmentReader {
    /// A reader of which nothing was pushed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the file in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
        match self.end {
            Some(SegmentEnd::Damaged(damage)) => self.look_for_loss(damage.offset),
            Some(_) => self.buffer.clear(),
            None => {}
        }
    }

    /// The header, once it has come in.
    pub fn header(&mut self) -> Option<&SegmentHeader> {
        if self.header.is_none() && self.end.is_none() {
            self.read_header();
        }
        self.header.as_ref()
    }

    /// Why reading has ended; none while records may come.
    pub fn end(&self) -> Option<SegmentEnd> {
        self.end
    }

    /// After damage: whether a later mark says that this part of the segment had been synced. It
    /// is no torn end then: the disk has lost or changed what it had promised to keep.
    pub fn proves_loss(&self) -> bool {
        self.loss
    }

    /// The next record and its offset. None when more bytes are needed, or reading has ended.
    pub fn next_record(&mut self) -> Option<(u64, Record<'_>)> {
        self.header()?;
        let len = self.whole_record()?;
        let (start, offset) = (self.at, self.offset);
        self.at += len;
        self.offset += len as u64;
        let bytes = &self.buffer[start..start + len];
        let record = Record::decode(word_of(bytes), &bytes[RECORD_HEADER..]);
        let record = record.expect("decoded when it was found whole");
        if record == Record::SegmentEnd {
            self.end = Some(SegmentEnd::Sealed);
        }
        Some((offset, record))
    }

    /// All bytes of the file were pushed and all records taken: says how it ended.
    pub fn finish(&mut self) -> SegmentEnd {
        if self.end.is_none() {
            while self.next_record().is_some() {}
        }
        if self.end.is_none() {
            let complete = self.header.is_some() && self.at == self.buffer.len();
            let cut = SegmentEnd::Damaged(Damage::new(self.offset, DamageKind::Cut));
            self.end = Some(if complete { SegmentEnd::Open } else { cut });
        }
        self.end.expect("set above")
    }

    fn read_header(&mut self) {
        let bytes = &self.buffer[self.at..];
        if bytes.len() < PREFIX {
            return;
        }
        let header = match SegmentHeader::len_of(bytes) {
            Ok(len) if bytes.len() < len => return,
            Ok(len) => SegmentHeader::decode(&bytes[..len]).map(|header| (header, len)),
            Err(damage) => Err(damage),
        };
        match header {
            Ok(((header, seed), len)) => {
                self.header = Some(header);
                self.seed = seed;
                self.at += len;
                self.offset += len as u64;
            }
            Err(damage) => self.end = Some(SegmentEnd::Damaged(damage)),
        }
    }

    /// The length of the next record if it is here as a whole and sound.
    fn whole_record(&mut self) -> Option<usize> {
        if self.end.is_some() {
            return None;
        }
        let bytes = &self.buffer[self.at..];
        if bytes.len() < RECORD_HEADER {
            return None;
        }
        let word = word_of(bytes);
        let Some(len) = content_len(word) else {
            let blank = bytes[..RECORD_HEADER] == [0; RECORD_HEADER];
            self.damaged(if blank { DamageKind::Blank } else { DamageKind::Checksum });
            return None;
        };
        let len = RECORD_HEADER + len;
        if bytes.len() < len {
            return None;
        }
        if !matches_checksum(&bytes[..len], seed_at(self.seed, self.offset)) {
            self.damaged(DamageKind::Checksum);
            return None;
        }
        if Record::decode(word, &bytes[RECORD_HEADER..len]).is_none() {
            self.damaged(DamageKind::Content("a record that breaks the rules of its kind"));
            return None;
        }
        Some(len)
    }

    fn damaged(&mut self, kind: DamageKind) {
        let damage = Damage::new(self.offset, kind);
        self.end = Some(SegmentEnd::Damaged(damage));
        self.look_for_loss(damage.offset);
    }

    /// Looks for a sound mark in what follows the damage, which says that the damage was synced.
    fn look_for_loss(&mut self, damaged: u64) {
        if self.header.is_none() {
            self.buffer.clear();
            return;
        }
        let word = MARK_WORD.to_le_bytes();
        while self.buffer.len() - self.at >= MARK_LEN {
            let bytes = &self.buffer[self.at..self.at + MARK_LEN];
            if bytes[4..8] == word
                && matches_checksum(bytes, seed_at(self.seed, self.offset))
                && let Some(Record::EpochEnd(mark)) =
                    Record::decode(MARK_WORD, &bytes[RECORD_HEADER..])
                && mark.synced > damaged
            {
                self.loss = true;
            }
            self.at += 1;
            self.offset += 1;
        }
    }
}

fn word_of(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

fn matches_checksum(record: &[u8], seed: u32) -> bool {
    crc32c::crc32c_append(seed, &record[4..]).to_le_bytes() == record[..4]
}
