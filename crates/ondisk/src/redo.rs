//! The redo log of a worker: what its segments begin with, and their records.
//!
//! # Layout
//! A segment is a [`SegmentHeader`] and records. A record is a checksum (4 bytes), its length and
//! kind (4), and its content. The checksum covers kind, length and content, and begins with what
//! the header's checksum and the record's offset give: a record that was left over from another
//! segment, or that the disk put in another place, does not match.
//! # Guarantees
//! Reading ends at the first record that does not match. [`SegmentReader::proves_loss`] tells
//! whether that is the end of what a crash left, or a hole in what had been synced.
//! # Not here
//! When records are written and replayed: `datanode::participant`.

mod header;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;

pub use header::{Fence, SegmentHeader};
pub use reader::{SegmentEnd, SegmentReader};
pub use record::{Base, Mark, Record};
pub use writer::SegmentWriter;
pub(crate) use writer::seed_at;

/// A place in the log of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes from the segment's beginning.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{}", self.segment, self.offset)
    }
}
