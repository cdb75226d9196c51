//! Reads a checkpoint, of which bytes come in piece by piece.

use model::schema::ROW_SIZE_MAX;
use model::{Epoch, RowId};

use super::header::{CheckpointFooter, CheckpointHeader, FOOTER_LEN, HEADER_LEN};
use super::{BLOCK, BLOCK_HEADER, BLOCK_MAX, FOOTER};
use crate::bytes::{Cursor, unfold_sign};
use crate::damage::{Damage, DamageKind};
use crate::redo::seed_at;

/// A slot of a checkpoint: its epoch, and its row unless it is empty.
pub type Slot<'a> = (RowId, Epoch, Option<&'a [u8]>);

/// Reads one checkpoint. Push bytes and take blocks in turn; then [`CheckpointReader::finish`].
#[derive(Debug, Default)]
pub struct CheckpointReader {
    /// Bytes not consumed, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    /// Where `buffer[at]` is in the file.
    offset: u64,
    header: Option<CheckpointHeader>,
    seed: u32,
    /// What has been read so far, and in the end what the file says.
    seen: CheckpointFooter,
    footer: Option<CheckpointFooter>,
    raw: Vec<u8>,
}

/// The slots of a block.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    cursor: Cursor<'a>,
    left: u32,
    before: (u32, u64),
    first: bool,
    offset: u64,
}

/// A block that is here as a whole and sound.
struct Block {
    slots: u32,
    raw: usize,
    stored: usize,
}

impl CheckpointReader {
    /// A reader of which nothing was pushed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the file in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The header, once it has come in.
    pub fn header(&mut self) -> Result<Option<&CheckpointHeader>, Damage> {
        if self.header.is_none() && self.buffer.len() - self.at >= HEADER_LEN {
            let bytes = &self.buffer[self.at..self.at + HEADER_LEN];
            let (header, seed) = CheckpointHeader::decode(bytes)?;
            self.header = Some(header);
            self.seed = seed;
            self.consume(HEADER_LEN);
        }
        Ok(self.header.as_ref())
    }

    /// The slots of the next block. None when more bytes are needed, or all blocks were read.
    pub fn next_block(&mut self) -> Result<Option<Slots<'_>>, Damage> {
        let Some(block) = self.whole_block()? else { return Ok(None) };
        let (start, offset) = (self.at + BLOCK_HEADER, self.offset);
        self.consume(BLOCK_HEADER + block.stored);
        let stored = &self.buffer[start..start + block.stored];
        let raw = if block.stored == block.raw {
            stored
        } else {
            self.raw.resize(block.raw, 0);
            let unpacked = lz4_flex::block::decompress_into(stored, &mut self.raw);
            if unpacked.ok() != Some(block.raw) {
                return Err(Damage::new(offset, DamageKind::Content("a block of another length")));
            }
            &self.raw
        };
        let cursor = Cursor::new(raw);
        Ok(Some(Slots { cursor, left: block.slots, before: (0, 0), first: true, offset }))
    }

    /// Checks the next block without looking at its slots. False when more bytes are needed, or
    /// all blocks were read.
    pub fn skip_block(&mut self) -> Result<bool, Damage> {
        let Some(block) = self.whole_block()? else { return Ok(false) };
        self.consume(BLOCK_HEADER + block.stored);
        Ok(true)
    }

    /// All bytes of the file were pushed and all blocks taken: gives what the file ends with.
    pub fn finish(&mut self) -> Result<(&CheckpointHeader, CheckpointFooter), Damage> {
        while self.skip_block()? {}
        match (&self.header, self.footer) {
            (Some(header), Some(footer)) if self.at == self.buffer.len() => Ok((header, footer)),
            (_, Some(_)) => {
                let more = DamageKind::Content("more bytes after the end of the checkpoint");
                Err(Damage::new(self.offset, more))
            }
            _ => Err(Damage::new(self.offset, DamageKind::Cut)),
        }
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        self.offset += len as u64;
    }

    /// The next block, if it is here as a whole. Reads the footer behind the last one.
    fn whole_block(&mut self) -> Result<Option<Block>, Damage> {
        if self.header()?.is_none() || self.footer.is_some() {
            return Ok(None);
        }
        let damage = |kind| Damage::new(self.offset, kind);
        let bytes = &self.buffer[self.at..];
        let mut cursor = Cursor::new(bytes);
        match cursor.u32() {
            None => return Ok(None),
            Some(BLOCK) => {}
            Some(FOOTER) => {
                self.read_footer()?;
                return Ok(None);
            }
            Some(0) => return Err(damage(DamageKind::Blank)),
            Some(_) => return Err(damage(DamageKind::Checksum)),
        }
        let lengths = cursor.u32().zip(cursor.u32()).zip(cursor.u32().zip(cursor.u32()));
        let Some(((raw, stored), (slots, checksum))) = lengths else { return Ok(None) };
        let (raw, stored) = (raw as usize, stored as usize);
        if raw > BLOCK_MAX || stored > raw {
            return Err(damage(DamageKind::Checksum));
        }
        let Some(content) = cursor.take(stored) else { return Ok(None) };
        let seed = seed_at(self.seed, self.offset);
        let computed = crc32c::crc32c_append(seed, &bytes[..BLOCK_HEADER - 4]);
        if crc32c::crc32c_append(computed, content) != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        self.seen.blocks += 1;
        self.seen.slots += u64::from(slots);
        self.seen.bytes += raw as u64;
        Ok(Some(Block { slots, raw, stored }))
    }

    fn read_footer(&mut self) -> Result<(), Damage> {
        let damage = |kind| Damage::new(self.offset, kind);
        let Some(bytes) = self.buffer.get(self.at..self.at + FOOTER_LEN) else { return Ok(()) };
        let (content, checksum) = bytes.split_at(FOOTER_LEN - 4);
        let computed = crc32c::crc32c_append(seed_at(self.seed, self.offset), content);
        if computed.to_le_bytes() != checksum {
            return Err(damage(DamageKind::Checksum));
        }
        let footer = CheckpointFooter::decode(content).ok_or(damage(DamageKind::Cut))?;
        if (CheckpointFooter { newest: footer.newest, ..self.seen }) != footer {
            return Err(damage(DamageKind::Content("blocks are missing")));
        }
        self.footer = Some(footer);
        self.consume(FOOTER_LEN);
        Ok(())
    }
}

impl<'a> Slots<'a> {
    /// The next slot; none behind the last.
    #[inline]
    pub fn next_slot(&mut self) -> Result<Option<Slot<'a>>, Damage> {
        if self.left == 0 {
            return if self.cursor.is_empty() { Ok(None) } else { Err(self.wrong()) };
        }
        self.left -= 1;
        match self.decode() {
            Some(slot) => Ok(Some(slot)),
            None => Err(self.wrong()),
        }
    }

    fn decode(&mut self) -> Option<Slot<'a>> {
        let step = u32::try_from(self.cursor.variable()?).ok()?;
        if step == 0 && !self.first {
            return None;
        }
        self.first = false;
        let row_id = self.before.0.checked_add(step).filter(|row_id| *row_id < u32::MAX - 1)?;
        let difference = unfold_sign(self.cursor.variable()?);
        let epoch = self.before.1.wrapping_add(difference as u64);
        if epoch == 0 || epoch >> 61 != 0 {
            return None;
        }
        let row = match usize::try_from(self.cursor.variable()?).ok()? {
            0 => None,
            1 => return None,
            len if len - 1 > ROW_SIZE_MAX => return None,
            len => Some(self.cursor.take(len - 1)?),
        };
        self.before = (row_id, epoch);
        Some((RowId(row_id), Epoch(epoch), row))
    }

    fn wrong(&self) -> Damage {
        Damage::new(self.offset, DamageKind::Content("a block whose slots break the format"))
    }
}
