//! Names of a worker's files and of the directories of a node.

use std::fmt;

use model::{PartitionId, PartitionIndex, TableId, WorkerId};

/// The file in a node's data directory that says whose it is: see [`crate::Identity`].
pub const IDENTITY_FILE: &str = "node";

/// The file that says which epoch was durable: see [`crate::Watermark`].
pub const WATERMARK_FILE: &str = "durable";

/// A file in the directory of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// What the worker knows to have been durable.
    Watermark,
    /// A segment of the redo log, by its number.
    Redo(u64),
    /// A checkpoint of a partition.
    Checkpoint {
        /// The partition.
        partition: PartitionId,
        /// Counts the partition's checkpoints.
        sequence: u32,
    },
    /// A checkpoint that is still being written, or was when the node died.
    Draft {
        /// The partition.
        partition: PartitionId,
        /// The sequence number that the checkpoint will have.
        sequence: u32,
    },
}

impl FileName {
    /// What a name in a worker's directory stands for; none for a foreign file.
    pub fn parse(name: &str) -> Option<Self> {
        let parsed = Self::parse_loosely(name)?;
        (parsed.to_string() == name).then_some(parsed)
    }

    fn parse_loosely(name: &str) -> Option<Self> {
        if name == WATERMARK_FILE {
            return Some(FileName::Watermark);
        }
        if let Some(number) = name.strip_prefix("redo-") {
            return Some(FileName::Redo(u64::from_str_radix(number, 16).ok()?));
        }
        let rest = name.strip_prefix("checkpoint-t")?;
        let (rest, draft) = match rest.strip_suffix(".draft") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (place, sequence) = rest.split_once('-')?;
        let (table, index) = place.split_once('p')?;
        let table = TableId(table.parse().ok()?);
        let partition = PartitionId { table, index: PartitionIndex(index.parse().ok()?) };
        let sequence = u32::from_str_radix(sequence, 16).ok()?;
        Some(if draft {
            FileName::Draft { partition, sequence }
        } else {
            FileName::Checkpoint { partition, sequence }
        })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Watermark => f.write_str(WATERMARK_FILE),
            FileName::Redo(number) => write!(f, "redo-{number:016x}"),
            FileName::Checkpoint { partition, sequence } => {
                write!(f, "checkpoint-{partition}-{sequence:08x}")
            }
            FileName::Draft { partition, sequence } => {
                write!(f, "checkpoint-{partition}-{sequence:08x}.draft")
            }
        }
    }
}

/// Whether bytes of this file are replaced by others while it is in use. All other files are
/// written once, from their beginning to their end, and what was written is never written
/// otherwise: encryption rests on that.
pub fn is_written_in_place(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(".new").unwrap_or(name) == WATERMARK_FILE
}

/// The directory of a worker in the data directory of its node.
pub fn worker_directory(worker: WorkerId) -> String {
    format!("worker-{}", worker.0)
}

/// The worker a directory belongs to.
pub fn worker_of_directory(name: &str) -> Option<WorkerId> {
    let worker = WorkerId(name.strip_prefix("worker-")?.parse().ok()?);
    (worker_directory(worker) == name).then_some(worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_written_in_place() {
        for path in ["worker-0/durable", "control/durable", "control/durable.new", "durable"] {
            assert!(is_written_in_place(path), "{path}");
        }
        for path in ["control/new", "control/log-0000000000000001", "worker-0/redo-durable", ""] {
            assert!(!is_written_in_place(path), "{path}");
        }
    }

    #[test]
    fn names_say_what_files_are() {
        let partition = PartitionId { table: TableId(70), index: PartitionIndex(3) };
        let names = [
            (FileName::Watermark, "durable"),
            (FileName::Redo(0x1f), "redo-000000000000001f"),
            (FileName::Redo(u64::MAX), "redo-ffffffffffffffff"),
            (FileName::Checkpoint { partition, sequence: 10 }, "checkpoint-t70p3-0000000a"),
            (FileName::Draft { partition, sequence: 10 }, "checkpoint-t70p3-0000000a.draft"),
        ];
        for (name, text) in names {
            assert_eq!(name.to_string(), text);
            assert_eq!(FileName::parse(text), Some(name));
        }
        let foreign = [
            "redo-1f",
            "redo-000000000000001F",
            "redo-+00000000000001f",
            "checkpoint-t70p3-0000000a.tmp",
            "checkpoint-t070p3-0000000a",
            "checkpoint-t70-0000000a",
            "checkpoint-t99999999999p3-0000000a",
            "lost+found",
            "",
        ];
        for name in foreign {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
        assert_eq!(worker_of_directory(&worker_directory(WorkerId(12))), Some(WorkerId(12)));
        for name in ["worker-012", "worker-", "worker-256", "control"] {
            assert_eq!(worker_of_directory(name), None, "{name}");
        }
    }
}
