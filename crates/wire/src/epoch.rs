//! Messages of the epoch protocol: the two-step switch, completion, snapshots.
//!
//! The driver (one `Epochs` actor of the cluster) talks to every coordinator. Walk-through:
//! `docs/internals/epochs.md`.

use codec::Codec;
use model::Epoch;

/// Between the driver and the coordinators.
#[derive(Clone, Debug, Codec)]
pub enum EpochMessage {
    /// Driver: stop assigning commit epochs; from the next epoch on keep the versions that the
    /// `retained` snapshots need.
    #[doc(alias = "GCP_PREPARE")]
    Prepare {
        /// The epoch to come.
        epoch: Epoch,
        /// Epochs snapshots may be reading, ascending, the one now ending included if wanted.
        retained: Vec<Epoch>,
    },
    /// Coordinator: holding back commits, waiting for `Switch`.
    Prepared {
        /// The epoch to come.
        epoch: Epoch,
    },
    /// Driver: not everyone has prepared in time; go on in the present epoch. The switch to this
    /// one does not take place, and its number is not used again.
    #[codec(since = 14)]
    Resume {
        /// The epoch that does not come.
        epoch: Epoch,
    },
    /// Driver: everyone is prepared; assign this epoch from now on.
    #[doc(alias = "GCP_COMMIT")]
    Switch {
        /// The new epoch.
        epoch: Epoch,
    },
    /// Coordinator: all my transactions of epochs up to this one are complete everywhere.
    #[doc(alias = "GCP_NODEFINISH")]
    Drained {
        /// The newest such epoch.
        through: Epoch,
        /// The newest epoch in which one of them changed something, or the current one when the
        /// first transaction after some epochs without any does.
        committed: Epoch,
    },
    /// Participant: everything up to this epoch is on this worker's disk. Answer to
    /// `ParticipantMessage::Save`.
    #[doc(alias = "GCP_SAVECONF")]
    Saved {
        /// The epoch.
        epoch: Epoch,
    },
    /// Driver: every transaction up to this epoch is on the disks of all complete replicas.
    Durable {
        /// The epoch.
        epoch: Epoch,
    },
    /// Participant to the coordinator of its worker: this disk says that everything up to the
    /// epoch is durable.
    #[codec(local)]
    Noted {
        /// The epoch.
        epoch: Epoch,
    },
    /// Coordinator: someone waits for this epoch to be durable.
    SaveRequest {
        /// The epoch.
        epoch: Epoch,
    },
    /// Driver: every transaction up to this epoch is complete everywhere.
    #[doc(alias = "SUB_GCP_COMPLETE_REP")]
    Completed {
        /// The epoch.
        epoch: Epoch,
        /// Epochs whose versions must still be kept; others may go.
        retained: Vec<Epoch>,
        /// When epochs ended that are complete since the last of these messages: microseconds since
        /// 1970 in UTC by the driver's clock, ascending whatever that clock does. All that was
        /// committed in an epoch was decided before it ended.
        #[codec(since = 16)]
        ended: Vec<(Epoch, u64)>,
    },
    /// A new driver asks how far everyone is.
    StateQuery,
    /// Coordinator's answer.
    State {
        /// The epoch it assigns; zero before its first switch.
        current: Epoch,
        /// The epoch it is prepared for, if it holds commits back.
        prepared: Option<Epoch>,
        /// As in `Drained`.
        drained: Epoch,
        /// The newest epoch in which it has changed something.
        committed: Epoch,
        /// The newest epoch it knows to be complete.
        completed: Epoch,
        /// Snapshots its sessions hold.
        snapshots: Vec<Epoch>,
        /// When the newest epoch ended of which it knows that.
        #[codec(since = 16)]
        ended: u64,
    },
    /// Coordinator: wants a snapshot of everything committed before now.
    SnapshotRequest {
        /// Repeated in the answer.
        request: u64,
    },
    /// Driver: the snapshot is complete and held for the asking coordinator.
    SnapshotOpened {
        /// Of the request.
        request: u64,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Coordinator: one holder less.
    SnapshotReleased {
        /// Its epoch.
        epoch: Epoch,
    },
}

impl EpochMessage {
    /// Short name for traces.
    pub fn name(&self) -> &'static str {
        match self {
            EpochMessage::Prepare { .. } => "EpochPrepare",
            EpochMessage::Prepared { .. } => "EpochPrepared",
            EpochMessage::Resume { .. } => "EpochResume",
            EpochMessage::Switch { .. } => "EpochSwitch",
            EpochMessage::Drained { .. } => "EpochDrained",
            EpochMessage::Completed { .. } => "EpochCompleted",
            EpochMessage::StateQuery => "EpochStateQuery",
            EpochMessage::State { .. } => "EpochState",
            EpochMessage::SnapshotRequest { .. } => "SnapshotRequest",
            EpochMessage::SnapshotOpened { .. } => "SnapshotOpened",
            EpochMessage::SnapshotReleased { .. } => "SnapshotReleased",
            EpochMessage::Saved { .. } => "EpochSaved",
            EpochMessage::Durable { .. } => "EpochDurable",
            EpochMessage::Noted { .. } => "EpochNoted",
            EpochMessage::SaveRequest { .. } => "SaveRequest",
        }
    }
}
