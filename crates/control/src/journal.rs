//! The control log on disk: what a voter must not forget, as a file of records.
//!
//! A file begins with a `Base`: the state that the log has built so far, and the consensus at that
//! point. The catalog of the state follows in pieces. Votes and entries are appended. Once the
//! applied part is long, a new file with a new base replaces the old one. What is written at once
//! is one frame: its length, its checksum, and records as a line of JSON, so that a file can be
//! read without this program, and newer versions can add fields.
//!
//! # Owns
//! The format: names of files, records to bytes and back.
//! # Guarantees
//! [`read`] gives exactly what was written, up to a frame that was not written to its end. A file
//! in which something valid follows something invalid is damaged, and is refused: a voter that
//! forgot a part of its log would break its word.
//! # Not here
//! When records are written and what waits for them (`control::durable`), the disk (the host).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use model::cluster::CatalogPiece;
use model::{ClusterId, ClusterState, Command, Incarnation};
use raftbare::{ClusterConfig, LogEntries, LogEntry, LogIndex, LogPosition, NodeId as Voter, Term};
use serde::{Deserialize, Serialize};

/// The directory of the control log in a node's data directory.
pub const DIRECTORY: &str = "control";
/// What the name of a finished file begins with; its number follows.
const PREFIX: &str = "log-";
/// The version of the format.
const VERSION: u32 = 2;
/// Bytes before the records of a frame: their length, their checksum.
const HEAD: usize = 8;

/// A position in the log: term and index of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The term.
    pub term: u64,
    /// The index.
    pub index: u64,
}

/// Who belongs to the consensus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Whose votes count.
    pub voters: BTreeSet<u64>,
    /// Whose votes count as well, while the voters are being changed.
    pub new_voters: BTreeSet<u64>,
    /// Who follows without a vote.
    pub learners: BTreeSet<u64>,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A leader's term begins.
    Term(u64),
    /// The members change.
    Members(Members),
    /// A command.
    Command(Arc<Command>),
}

/// One thing that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// All that entries up to `last` have built, but for the catalog; the first record of a file,
    /// and only that.
    Base {
        /// The version of the format.
        version: u32,
        /// Whose log this is.
        cluster: ClusterId,
        /// The life that the consensus knows this node by.
        voter: Incarnation,
        /// The last entry that the state contains.
        last: Position,
        /// The members of the consensus at that point.
        members: Members,
        /// What the entries have built.
        state: Arc<ClusterState>,
        /// How many entries the pieces of the catalog have together, which follow.
        #[serde(default)]
        catalog: usize,
    },
    /// Some of the catalog of the base.
    Piece(CatalogPiece),
    /// The term, and who got this voter's vote in it.
    Vote {
        /// The term.
        term: u64,
        /// The candidate.
        voted_for: Option<u64>,
    },
    /// Entries, which replace all after the position before them.
    Append {
        /// Whose log this is.
        cluster: ClusterId,
        /// What they follow.
        after: Position,
        /// The entries.
        entries: Vec<Entry>,
    },
}

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Whose log this is.
    pub cluster: ClusterId,
    /// The life that the consensus knows this node by.
    pub voter: Incarnation,
    /// The last entry that the state contains.
    pub last: Position,
    /// The members of the consensus at that point.
    pub members: Members,
    /// What the entries up to there have built.
    pub state: Arc<ClusterState>,
    /// The newest term.
    pub term: u64,
    /// The vote in it.
    pub voted_for: Option<u64>,
    /// The entries after `last`.
    pub entries: Vec<Entry>,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It does not begin with a base, whole and valid.
    NoBase,
    /// The frame at this offset is damaged, or does not fit those before it.
    Damaged(usize),
    /// It was written by a newer version of Nines.
    Version(u32),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NoBase => f.write_str("it has no valid beginning"),
            ReadError::Damaged(at) => write!(f, "what begins at byte {at} is damaged"),
            ReadError::Version(version) => {
                write!(f, "it has format {version}, this program knows up to {VERSION}")
            }
        }
    }
}

/// The path of a file.
pub fn path(number: u64) -> String {
    format!("{DIRECTORY}/{PREFIX}{number:016x}")
}

/// The number of a file with this name; none for files that are not finished, or not ours.
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

impl Record {
    /// A base of this version. The pieces of the state are to follow.
    pub(crate) fn base(
        cluster: ClusterId,
        voter: Incarnation,
        last: LogPosition,
        config: &ClusterConfig,
        state: &ClusterState,
    ) -> Self {
        let (last, members) = (last.into(), config.into());
        let catalog = state.catalog_entries();
        let state = Arc::new(state.without_pieces());
        Record::Base { version: VERSION, cluster, voter, last, members, state, catalog }
    }
}

/// Appends a frame of these records to a file's bytes.
pub(crate) fn write(records: &[Record], to: &mut Vec<u8>) {
    let head = to.len();
    to.extend([0; HEAD]);
    serde_json::to_writer(&mut *to, records).expect("records are made of what JSON can say");
    to.push(b'\n');
    let body = &to[head + HEAD..];
    let (length, checksum) = (body.len() as u32, crc32c::crc32c(body));
    to[head..head + 4].copy_from_slice(&length.to_le_bytes());
    to[head + 4..head + HEAD].copy_from_slice(&checksum.to_le_bytes());
}

/// The frames of a file, each with its offset, up to the first that is not whole.
pub fn frames(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<Record>)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (records, length) = frame_at(bytes, at)?;
        let offset = at;
        at += length;
        Some((offset, records))
    })
}

fn frame_at(bytes: &[u8], at: usize) -> Option<(Vec<Record>, usize)> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (length, checksum) = (word(at)? as usize, word(at + 4)?);
    let body = bytes.get(at + HEAD..(at + HEAD).checked_add(length)?)?;
    if length == 0 || crc32c::crc32c(body) != checksum {
        return None;
    }
    Some((serde_json::from_slice(body).ok()?, HEAD + length))
}

/// What a file holds.
///
/// # Errors
/// When it cannot be trusted: see [`ReadError`].
pub fn read(bytes: &[u8]) -> Result<Stored, ReadError> {
    let (mut stored, mut missing) = (None, 0);
    let mut end = 0;
    while let Some((records, length)) = frame_at(bytes, end) {
        for record in records {
            take(&mut stored, &mut missing, record, end)?;
        }
        end += length;
    }
    // A frame that was not written to its end is the last thing in the file.
    if (end + 1..bytes.len()).any(|at| frame_at(bytes, at).is_some()) {
        return Err(if end == 0 { ReadError::NoBase } else { ReadError::Damaged(end) });
    }
    stored.filter(|_| missing == 0).ok_or(ReadError::NoBase)
}

/// Takes a record in; `missing` is how many entries of the catalog are to follow.
fn take(
    stored: &mut Option<Stored>,
    missing: &mut usize,
    record: Record,
    at: usize,
) -> Result<(), ReadError> {
    if *missing > 0 && !matches!(record, Record::Piece(_)) {
        return Err(ReadError::Damaged(at));
    }
    match (record, stored) {
        (Record::Base { version, .. }, None) if version > VERSION => {
            return Err(ReadError::Version(version));
        }
        (Record::Base { cluster, voter, last, members, state, catalog, .. }, stored @ None) => {
            *missing = catalog;
            let (term, voted_for, entries) = (last.term, None, Vec::new());
            let base = Stored { cluster, voter, last, members, state, term, voted_for, entries };
            *stored = Some(base);
        }
        (Record::Piece(piece), Some(stored)) if piece.len() <= *missing => {
            *missing -= piece.len();
            Arc::make_mut(&mut stored.state).add_piece(piece);
        }
        (Record::Vote { term, voted_for }, Some(stored)) if term >= stored.term => {
            (stored.term, stored.voted_for) = (term, voted_for);
        }
        (Record::Append { cluster, after, entries }, Some(stored)) => {
            let kept = after.index.checked_sub(stored.last.index);
            let kept = kept.filter(|kept| *kept <= stored.entries.len() as u64);
            stored.entries.truncate(kept.ok_or(ReadError::Damaged(at))? as usize);
            stored.entries.extend(entries);
            stored.cluster = cluster;
        }
        (_, None) => return Err(ReadError::NoBase),
        (_, Some(_)) => return Err(ReadError::Damaged(at)),
    }
    Ok(())
}

impl Stored {
    /// The entries as the consensus library keeps them.
    pub(crate) fn log_entries(&self) -> LogEntries {
        let entries = self.entries.iter().map(|entry| match entry {
            Entry::Term(term) => LogEntry::Term(Term::new(*term)),
            Entry::Members(members) => LogEntry::ClusterConfig(members.into()),
            Entry::Command(_) => LogEntry::Command,
        });
        LogEntries::from_iter(self.last.into(), entries)
    }
}

impl From<LogPosition> for Position {
    fn from(position: LogPosition) -> Self {
        Position { term: position.term.get(), index: position.index.get() }
    }
}

impl From<Position> for LogPosition {
    fn from(position: Position) -> Self {
        LogPosition { term: Term::new(position.term), index: LogIndex::new(position.index) }
    }
}

impl From<&ClusterConfig> for Members {
    fn from(config: &ClusterConfig) -> Self {
        let numbers = |voters: &BTreeSet<Voter>| voters.iter().map(|voter| voter.get()).collect();
        Members {
            voters: numbers(&config.voters),
            new_voters: numbers(&config.new_voters),
            learners: numbers(&config.non_voters),
        }
    }
}

impl From<&Members> for ClusterConfig {
    fn from(members: &Members) -> Self {
        let voters = |numbers: &BTreeSet<u64>| numbers.iter().map(|n| Voter::new(*n)).collect();
        let mut config = ClusterConfig::new();
        config.voters = voters(&members.voters);
        config.new_voters = voters(&members.new_voters);
        config.non_voters = voters(&members.learners);
        config
    }
}

#[cfg(test)]
mod tests;
