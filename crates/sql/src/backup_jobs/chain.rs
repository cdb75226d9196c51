//! Chains of an archive: a log of committed changes in segments, beside backups that it begins at.
//!
//! # Owns
//! What the host and whoever writes or reads a chain tell each other.
//! # Guarantees
//! A segment has whole epochs, durable ones, without a gap to the one before.
//! # Not here
//! What is in the portions of a segment (`backup::archive::log`), files (the host).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a chain begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStart {
    /// The version of the program that began it.
    pub version: String,
    /// What tells its cluster from others.
    pub cluster: String,
    /// The change stream that it is made of.
    pub stream: u64,
    /// All changes from this epoch on are in it.
    pub first: u64,
    /// When it was begun: microseconds since 1970 UTC.
    pub began: i64,
}

/// What is said of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHead {
    /// Counts the segments of a chain, from 1.
    pub number: u64,
    /// Its epochs, first and last. Of the end of a chain the last comes before the first: it has
    /// none.
    pub first: u64,
    /// See `first`.
    pub through: u64,
    /// When the last epoch ended of which that is known: microseconds since 1970 UTC.
    pub ended: u64,
    /// Why the chain ends here, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// A segment to be written: its portions are records as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What is said of it.
    pub head: SegmentHead,
    /// Whole records in each.
    pub portions: Arc<Vec<Vec<u8>>>,
}

/// A backup that a chain can be restored from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainBase {
    /// Its place.
    pub place: String,
    /// The epoch whose state it is.
    pub epoch: u64,
    /// When it was begun: microseconds since 1970 UTC.
    pub began: i64,
}

/// A chain, as far as it is told without reading its changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its place.
    pub place: String,
    /// Tells it from all others.
    pub id: String,
    /// What it begins with.
    pub start: ChainStart,
    /// Its segments in order; of a chain that is gone on with, the last one alone.
    pub segments: Vec<SegmentHead>,
    /// How many segments there are.
    pub count: u64,
    /// The bytes of its segments.
    pub bytes: u64,
    /// Complete backups, by epoch.
    pub bases: Vec<ChainBase>,
    /// What is damaged: the numbers of segments, 0 for other files, with what is wrong.
    pub faults: Vec<(u64, String)>,
}

impl Chain {
    /// The last epoch that it has.
    pub(crate) fn through(&self) -> u64 {
        let last = self.segments.iter().map(|segment| segment.through).max();
        last.unwrap_or(self.start.first.saturating_sub(1))
    }

    /// When that ended, as far as that is known; 0 if not.
    pub(crate) fn ended(&self) -> u64 {
        self.segments.iter().map(|segment| segment.ended).max().unwrap_or(0)
    }

    /// Why it has ended, if it has.
    pub(crate) fn end(&self) -> Option<&str> {
        self.segments.iter().find_map(|segment| segment.end.as_deref())
    }
}
