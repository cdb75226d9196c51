//! The records of the redo log.

use std::fmt;

use model::schema::ROW_SIZE_MAX;
use model::{Epoch, PartitionId, RowId};

use super::Position;
use crate::bytes::{Cursor, put_partition, put_u32, put_u64};

/// A record of the redo log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The slot holds this row from `epoch` on.
    Put {
        /// The partition.
        partition: PartitionId,
        /// The slot.
        row_id: RowId,
        /// When.
        epoch: Epoch,
        /// The row.
        row: &'a [u8],
    },
    /// The slot is empty from `epoch` on.
    Delete {
        /// The partition.
        partition: PartitionId,
        /// The slot.
        row_id: RowId,
        /// When.
        epoch: Epoch,
    },
    /// A copy of the partition is complete: there are no slots beyond these.
    Truncate {
        /// The partition.
        partition: PartitionId,
        /// How many slots there are.
        slots: u32,
        /// The newest epoch that was copied.
        epoch: Epoch,
    },
    /// Everything up to an epoch is in the log.
    EpochEnd(Mark),
    /// What a restart of a partition begins with from now on.
    Base(Base),
    /// The partition is not here any more.
    Dropped {
        /// The partition.
        partition: PartitionId,
    },
    /// The segment is complete; the log goes on in the next one.
    SegmentEnd,
}

/// Everything up to an epoch is in this log and in the checkpoints it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The epoch.
    pub epoch: Epoch,
    /// The oldest epoch the log could be replayed to and not only through: rows that were copied
    /// came without their images of before. The mark counts once this epoch is durable.
    pub since: Epoch,
    /// No restart goes back behind this epoch, as far as the writer has heard.
    pub durable: Epoch,
    /// What lies before this offset in the segment was synced when the mark was written.
    pub synced: u64,
}

/// What the restart of a partition begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The partition.
    pub partition: PartitionId,
    /// Its checkpoint; zero when it has none that counts, and begins empty.
    pub sequence: u32,
    /// The records from here on are replayed.
    pub redo: Position,
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const TRUNCATE: u8 = 3;
const EPOCH_END: u8 = 4;
const BASE: u8 = 5;
const DROPPED: u8 = 6;
const SEGMENT_END: u8 = 7;

/// Bytes before the content of a record: checksum, length and kind.
pub(super) const RECORD_HEADER: usize = 8;
/// Bytes of a put without its row.
const PUT_FIXED: usize = 18;
/// The longest content of a record.
const CONTENT_MAX: usize = PUT_FIXED + ROW_SIZE_MAX;
/// The word of length and kind of a mark.
pub(super) const MARK_WORD: u32 = word(EPOCH_END, 32);
/// Bytes of a mark with its header.
pub(super) const MARK_LEN: usize = RECORD_HEADER + 32;
/// The largest epoch a slot can have; see `store::heap`.
const EPOCH_MAX: u64 = (1 << 61) - 1;

const _: () = assert!(CONTENT_MAX < 1 << 24, "the length of a record has 24 bits");

/// Length and kind in a word.
const fn word(kind: u8, len: u32) -> u32 {
    (kind as u32) << 24 | len
}

/// The length of the content that a word of length and kind announces; none if no record has it.
pub(super) fn content_len(word: u32) -> Option<usize> {
    let len = (word & 0xFF_FFFF) as usize;
    ((PUT..=SEGMENT_END).contains(&((word >> 24) as u8)) && len <= CONTENT_MAX).then_some(len)
}

impl<'a> Record<'a> {
    /// Appends length, kind and content.
    #[inline]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Record::Put { partition, row_id, epoch, row } => {
                assert!(!row.is_empty() && row.len() <= ROW_SIZE_MAX, "a row of {}", row.len());
                let mut fixed = [0; 4 + PUT_FIXED];
                let word = word(PUT, (PUT_FIXED + row.len()) as u32);
                fixed[..4].copy_from_slice(&word.to_le_bytes());
                fixed[4..8].copy_from_slice(&partition.table.0.to_le_bytes());
                fixed[8..10].copy_from_slice(&partition.index.0.to_le_bytes());
                fixed[10..14].copy_from_slice(&row_id.0.to_le_bytes());
                fixed[14..].copy_from_slice(&epoch.0.to_le_bytes());
                out.extend_from_slice(&fixed);
                out.extend_from_slice(row);
            }
            Record::Delete { partition, row_id, epoch } => {
                put_u32(out, word(DELETE, 18));
                put_partition(out, partition);
                put_u32(out, row_id.0);
                put_u64(out, epoch.0);
            }
            Record::Truncate { partition, slots, epoch } => {
                put_u32(out, word(TRUNCATE, 18));
                put_partition(out, partition);
                put_u32(out, slots);
                put_u64(out, epoch.0);
            }
            Record::EpochEnd(Mark { epoch, since, durable, synced }) => {
                put_u32(out, MARK_WORD);
                put_u64(out, epoch.0);
                put_u64(out, since.0);
                put_u64(out, durable.0);
                put_u64(out, synced);
            }
            Record::Base(base) => {
                put_u32(out, word(BASE, 26));
                base.encode(out);
            }
            Record::Dropped { partition } => {
                put_u32(out, word(DROPPED, 6));
                put_partition(out, partition);
            }
            Record::SegmentEnd => put_u32(out, word(SEGMENT_END, 0)),
        }
    }

    /// Reads the content of a record of the kind that `word` names, whose checksum matches. None
    /// when the content breaks a rule.
    #[inline]
    pub(super) fn decode(word: u32, content: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(content);
        let record = match (word >> 24) as u8 {
            PUT => {
                let (partition, row_id, epoch) = slot(&mut cursor)?;
                let row = cursor.take(cursor.rest().len())?;
                if row.is_empty() || row.len() > ROW_SIZE_MAX {
                    return None;
                }
                Record::Put { partition, row_id, epoch, row }
            }
            DELETE => {
                let (partition, row_id, epoch) = slot(&mut cursor)?;
                Record::Delete { partition, row_id, epoch }
            }
            TRUNCATE => {
                let (partition, slots) = (cursor.partition()?, cursor.u32()?);
                Record::Truncate { partition, slots, epoch: Epoch(cursor.u64()?) }
            }
            EPOCH_END => Record::EpochEnd(Mark {
                epoch: Epoch(cursor.u64()?),
                since: Epoch(cursor.u64()?),
                durable: Epoch(cursor.u64()?),
                synced: cursor.u64()?,
            }),
            BASE => Record::Base(Base::decode(&mut cursor)?),
            DROPPED => Record::Dropped { partition: cursor.partition()? },
            SEGMENT_END => Record::SegmentEnd,
            _ => return None,
        };
        cursor.is_empty().then_some(record)
    }
}

/// A slot that a heap can have, with an epoch that it can keep.
fn slot(cursor: &mut Cursor<'_>) -> Option<(PartitionId, RowId, Epoch)> {
    let (partition, row_id, epoch) = (cursor.partition()?, cursor.u32()?, cursor.u64()?);
    let fits = row_id < u32::MAX - 1 && (1..=EPOCH_MAX).contains(&epoch);
    fits.then_some((partition, RowId(row_id), Epoch(epoch)))
}

impl Base {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_partition(out, self.partition);
        put_u32(out, self.sequence);
        put_u64(out, self.redo.segment);
        put_u64(out, self.redo.offset);
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (partition, sequence) = (cursor.partition()?, cursor.u32()?);
        let redo = Position { segment: cursor.u64()?, offset: cursor.u64()? };
        Some(Self { partition, sequence, redo })
    }
}

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Put { partition, row_id, epoch, row } => {
                write!(f, "put {partition} {row_id} {epoch}, {} bytes", row.len())
            }
            Record::Delete { partition, row_id, epoch } => {
                write!(f, "delete {partition} {row_id} {epoch}")
            }
            Record::Truncate { partition, slots, epoch } => {
                write!(f, "truncate {partition} to {slots} slots, {epoch}")
            }
            Record::EpochEnd(Mark { epoch, since, durable, synced }) => write!(
                f,
                "end of {epoch}, complete since {since}, durable {durable}, synced to {synced}"
            ),
            Record::Base(base) => base.fmt(f),
            Record::Dropped { partition } => write!(f, "{partition} dropped"),
            Record::SegmentEnd => f.write_str("end of segment"),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, sequence, redo } = self;
        match sequence {
            0 => write!(f, "{partition} begins empty, redo from {redo}"),
            _ => write!(f, "{partition} begins with checkpoint {sequence:x}, redo from {redo}"),
        }
    }
}
