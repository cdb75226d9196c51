//! Messages of change streams: who fetches committed changes, and what participants give.
//!
//! Walk-through: `docs/internals/streams.md`.

use codec::Codec;
use model::{Epoch, PartitionId, Row, SessionId, StreamId, TransactionId};

use crate::encoding::is_row;

/// How far somebody has come in what a participant keeps: all of the epochs before this one, and
/// so many changes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Codec)]
pub struct StreamPosition {
    /// The epoch.
    pub epoch: Epoch,
    /// Changes of it, in the order in which this life of the participant keeps them.
    pub changes: u64,
}

/// What is fetched from a participant.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct StreamFetch {
    /// The stream.
    pub stream: StreamId,
    /// The placement slots whose partitions are meant, ascending.
    pub slots: Vec<u16>,
    /// From where on.
    pub from: StreamPosition,
    /// No later epochs.
    pub through: Epoch,
    /// Bytes of rows after which the answer ends.
    pub bytes: u32,
}

/// A committed change of a row. An insertion has nothing before it, a deletion nothing after it.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct RowChange {
    /// Where.
    pub partition: PartitionId,
    /// The row as it was.
    #[codec(check = is_row)]
    pub before: Option<Row>,
    /// The row as it became.
    #[codec(check = is_row)]
    pub after: Option<Row>,
    /// The transaction that has made it. Replicas of older versions do not tell it.
    #[codec(since = 18)]
    pub transaction: TransactionId,
}

impl RowChange {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        let size = |row: &Option<Row>| row.as_ref().map_or(0, |row| row.0.len() as u64);
        size(&self.before) + size(&self.after) + CHANGE_BYTES
    }
}

/// What a change takes beside its rows.
const CHANGE_BYTES: u64 = 80;

/// Changes of one epoch; those of a row in the order in which they were committed.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct EpochChanges {
    /// The epoch.
    pub epoch: Epoch,
    /// The changes.
    pub changes: Vec<RowChange>,
}

/// What a participant gives.
#[derive(Clone, Debug, PartialEq, Eq, Codec)]
pub struct StreamPiece {
    /// The first epoch of which all changes are kept here; nothing if none is, as by a replica that
    /// is not complete.
    pub kept_from: Option<Epoch>,
    /// The newest complete epoch that the participant knows of.
    pub complete: Epoch,
    /// Changes behind the position of the fetch, in the order of epochs.
    pub epochs: Vec<EpochChanges>,
    /// When epochs from that of the fetch on ended, as far as the participant knows.
    pub ended: Vec<(Epoch, u64)>,
    /// What there is before this position has been given now or before.
    pub to: StreamPosition,
}

/// Between those who fetch changes and participants.
#[derive(Clone, Debug, Codec)]
pub enum StreamMessage {
    /// From a client, or from a replica that has been copied and lacks what was committed before.
    Fetch {
        /// The client's session; none for a replica, which gets the changes of its own partitions.
        session: Option<SessionId>,
        /// Repeated in the answer.
        request: u64,
        /// What.
        fetch: StreamFetch,
    },
    /// The answer.
    Piece {
        /// Of the question.
        session: Option<SessionId>,
        /// Of the question.
        request: u64,
        /// What there is.
        piece: StreamPiece,
    },
    /// Client to all participants: the changes of all epochs up to this one are not needed any
    /// more.
    #[doc(alias = "SUB_GCP_COMPLETE_ACK")]
    Acknowledge {
        /// The stream.
        stream: StreamId,
        /// The epoch.
        through: Epoch,
    },
}

impl StreamMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fetch { .. } => "StreamFetch",
            Self::Piece { .. } => "StreamPiece",
            Self::Acknowledge { .. } => "StreamAcknowledge",
        }
    }
}
