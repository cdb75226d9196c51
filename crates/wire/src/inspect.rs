//! Questions about what goes on in a worker, and their answers.
//!
//! # Guarantees
//! An answer is what the worker knows at that moment, and changes nothing. It is bounded: see
//! [`ROWS_MAX`].

use codec::Codec;
use model::{Epoch, PartitionId, RowId, SessionId, TableId, Value};

/// Most rows of an answer; what does not fit is left out.
pub const ROWS_MAX: usize = 10_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Inspection {
    /// Of a participant: what takes how much memory. Pool, bytes used, limit or NULL.
    Memory,
    /// Of a coordinator: the open transactions. Name, state, client's node, operations, waits,
    /// microseconds since it was last heard of.
    Transactions,
    /// Of a participant: locks held and awaited. Table, partition, hash of the key, transaction,
    /// mode, whether it is granted.
    Locks,
    /// Of a participant: messages of its worker by name. Name, sent, handled.
    Messages,
    /// Of a participant: the flight recorder of its worker, oldest first. Microseconds, event.
    Recorder,
    /// Of a participant: its replicas. Table, partition, whether it is primary, whether it is being
    /// copied, rows, slots, bytes.
    Replicas,
    /// Of a participant: copies of its replicas to other nodes, those under way and the last one
    /// of each that has ended. Table, partition, the other node, whether it is under way, slots
    /// and those looked at, slots and bytes of rows sent, microseconds since it began or that it
    /// took, microseconds until its end as far as can be told or NULL.
    Copies,
    /// Of a participant: its disk; no row without one. What it does, bytes it has read and is to
    /// read, microseconds until that is done as far as can be told; newest epoch that is saved
    /// here and everywhere, bytes of the log that are not written, segments, files found damaged.
    /// NULL is what does not apply.
    Disk,
    /// Of a participant: the rows of a replica as of a snapshot that somebody holds, from a slot
    /// on, as far as one turn goes. The slot to go on from or NULL, rows, the sum of their hashes.
    /// No row at all when the replica cannot tell.
    Digest {
        /// Which replica.
        partition: PartitionId,
        /// The snapshot.
        epoch: Epoch,
        /// The last slot that was looked at.
        after: Option<RowId>,
    },
    /// Of any actor: what its worker and thread have counted, and how they stand. Name of the
    /// metric, values of its labels with commas between them, number; the host answers.
    #[codec(since = 2)]
    Figures,
    /// Of a participant: ordered indexes that are not ready on its worker. Table, index, slots of
    /// the replicas, and how many of these are in the index.
    #[codec(since = 14)]
    IndexBuilds,
    /// Of a participant: steps of its worker that took more than 200 microseconds, by what they
    /// did. Name, how many, microseconds that they took together, of the longest.
    #[codec(since = 14)]
    SlowSteps,
    /// Of a participant: its replicas of some tables. As `Replicas`.
    #[codec(since = 14)]
    ReplicasOf {
        /// The first table, and the last one.
        tables: (TableId, TableId),
    },
    /// Of a participant: when the newest complete epochs ended. Epoch, microseconds since 1970 in
    /// UTC. Nothing by others than worker 0 of the driver of epochs.
    #[codec(since = 16)]
    Epochs,
    /// Of a participant: the newest rows of every so many slots of a replica, from a slot on, as
    /// far as one turn goes. The slot to go on from or NULL, then encoded rows. No row at all when
    /// there is no such replica.
    #[codec(since = 16)]
    Sample {
        /// Which replica.
        partition: PartitionId,
        /// The first slot that is looked at.
        from: RowId,
        /// How far the next one is from it; 1 is every slot.
        step: u32,
    },
}

/// Slots that are looked at for one answer to [`Inspection::Sample`], at most: some ten
/// microseconds of work.
pub const SAMPLE_SLOTS_MAX: usize = 512;
/// Bytes of rows of such an answer, at most, but for its last row.
pub const SAMPLE_BYTES_MAX: usize = 64 << 10;

/// A question or its answer.
#[derive(Clone, Debug, Codec)]
pub enum InspectMessage {
    /// From a client.
    Ask {
        /// Who asks.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// What.
        what: Inspection,
    },
    /// To the client.
    Answer {
        /// Who asked.
        session: SessionId,
        /// Its counter.
        request: u64,
        /// The rows.
        rows: Vec<Vec<Value>>,
    },
}

impl InspectMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "Inspect",
            Self::Answer { .. } => "InspectAnswer",
        }
    }
}
