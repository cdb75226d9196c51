//! Checkpoints of a partition: slots in compressed blocks.
//!
//! # Layout
//! A [`CheckpointHeader`], blocks, a [`CheckpointFooter`]. A block holds slots in ascending order:
//! the difference of the row id, the difference of the epoch, the length of the row and one (zero
//! for an empty slot), the row; it is compressed with LZ4 if that is worth it. The checksums
//! of blocks and footer begin with the header's and the offset, as in the redo log.
//! # Guarantees
//! A file without its footer, or with anything after it, is no checkpoint. A block is handed out
//! when its checksum matches; what a block says is checked as well.
//! # Not here
//! Which slots are written, and which files make up a partition: `datanode::participant`.

mod header;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use header::{CheckpointFooter, CheckpointHeader};
pub use reader::{CheckpointReader, Slot, Slots};
pub use writer::CheckpointWriter;

/// Begins a block.
const BLOCK: u32 = u32::from_le_bytes(*b"blok");
/// Begins the footer.
const FOOTER: u32 = u32::from_le_bytes(*b"foot");
/// Bytes of slots after which a block is complete.
const BLOCK_FILL: usize = 32 << 10;
/// The longest block: full but for one byte, and then the longest row.
const BLOCK_MAX: usize = BLOCK_FILL + model::schema::ROW_SIZE_MAX + 32;
/// Bytes before the content of a block: kind, length, stored length, slots, checksum.
const BLOCK_HEADER: usize = 20;
