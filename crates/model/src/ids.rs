//! Typed identifiers. No bare integer names a thing of the cluster.

use std::fmt;
use std::ops::RangeInclusive;

use codec::Codec;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($(#[$number:meta])* $int:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            Default,
            PartialEq,
            Eq,
            PartialOrd,
            Ord,
            Hash,
            Serialize,
            Deserialize,
            Codec,
        )]
        pub struct $name($(#[$number])* pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A process of the cluster, fixed by configuration: data, management or client node.
    NodeId(u16), "n"
);
id!(
    /// One life of a node. A process that starts again is a new incarnation; an old one never
    /// speaks again. Chosen by the host, larger than every earlier one of the same node.
    Incarnation(#[codec(with = codec::fixed)] u64), "i"
);
id!(
    /// A cluster from its founding to its end, drawn by its founder. Rows and control log belong to
    /// one; a cluster that is founded anew among the same nodes is another. Zero for none.
    ClusterId(#[codec(with = codec::fixed)] u64), "cluster "
);
id!(
    /// A worker thread of a process, from 0.
    WorkerId(u8), "w"
);
id!(
    /// A table, or the hidden table behind a unique index. Never reused.
    TableId(u32), "t"
);
id!(
    /// A change stream. Unique in the cluster, never reused.
    StreamId(u32), "stream "
);
id!(
    /// An ordered or unique index of a table. Unique in the cluster, never reused.
    IndexId(u32), "x"
);
id!(
    /// Position of a column in its table's definition.
    ColumnId(u16), "c"
);
id!(
    /// Position of a row in its partition's heap: the same on every replica.
    #[doc(alias = "rowid")]
    RowId(u32), "r"
);
id!(
    /// Position of a partition in its table.
    #[doc(alias = "fragment")]
    PartitionIndex(u16), "p"
);
id!(
    /// Position in the cluster's control log. A node has "reached" an index when it has applied
    /// everything up to it.
    ControlIndex(u64), "@"
);
id!(
    /// Group commit epoch: a consistent cut of the cluster. Zero means "never".
    #[doc(alias = "GCI")]
    Epoch(#[codec(check = is_epoch)] u64), "e"
);
id!(
    /// Number of an operation inside its transaction, in the client's order, from 1.
    OperationNumber(u64), "o"
);
id!(
    /// A scan of one client session.
    ScanNumber(u64), "s"
);

/// Where the identities of colocated tables begin. It is a multiple of all numbers of workers up to
/// 22, and of most that machines have: programs of before protocol 11, which choose a worker by the
/// remainder of a table's identity, find the same one.
const COLOCATED_MIN: u32 = 8 * 232_792_560;

impl TableId {
    /// The last identity that is given to a table for itself: there is room for the one that is
    /// colocated with it.
    pub const LAST: TableId = TableId(COLOCATED_MIN - 1);

    /// The identity of the hidden table that is colocated with this one: a worker that holds a
    /// partition of the one holds the partition of the same number of the other.
    ///
    /// # Panics
    /// When this is a colocated table itself.
    pub fn colocated(self) -> TableId {
        assert!(self <= Self::LAST, "{self} is colocated itself");
        TableId(COLOCATED_MIN + self.0)
    }

    /// The table whose identity decides which workers hold the partitions: the one that this is
    /// colocated with, or itself.
    #[inline]
    pub fn anchor(self) -> TableId {
        TableId(self.0.checked_sub(COLOCATED_MIN).unwrap_or(self.0))
    }
}

const _: () = assert!(COLOCATED_MIN <= u32::MAX / 2, "each identity has a colocated one");

/// Bits of an epoch below the number of its generation.
const GENERATION_SHIFT: u32 = 40;
/// What epochs of messages stay below: whoever is told one counts on from it.
const EPOCH_MAX: u64 = 1 << 62;

fn is_epoch(epoch: &u64) -> bool {
    *epoch < EPOCH_MAX
}

/// Epochs without a commit after which there is no hurry.
const QUIET_EPOCHS: u64 = 5;

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }

    /// Whether several epochs have passed since this one, in which something was committed: then
    /// nobody hurries to end the present one.
    pub fn is_after_quiet(self, committed: Epoch) -> bool {
        self.0 > committed.0 + QUIET_EPOCHS
    }

    /// How often the cluster had been restarted as a whole when this epoch was: its upper 24 bits.
    /// So no epoch of a time that was lost in a restart comes again.
    pub fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32
    }

    /// What all epochs of a generation are above.
    pub fn start_of(generation: u32) -> Epoch {
        Epoch(u64::from(generation) << GENERATION_SHIFT)
    }
}

/// A horizontal part of a table; it lives in one node group, with a replica on each of its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct PartitionId {
    /// The table.
    pub table: TableId,
    /// The part.
    pub index: PartitionIndex,
}

impl PartitionId {
    /// Before all others.
    pub const FIRST: PartitionId = PartitionId { table: TableId(0), index: PartitionIndex(0) };
    /// Behind all others.
    pub const LAST: PartitionId =
        PartitionId { table: TableId(u32::MAX), index: PartitionIndex(u16::MAX) };

    /// All partitions that a table can have.
    pub fn all_of(table: TableId) -> RangeInclusive<PartitionId> {
        let of = |index| PartitionId { table, index: PartitionIndex(index) };
        of(0)..=of(u16::MAX)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.table, self.index)
    }
}

/// One client session's identity: unique over the life of the cluster.
///
/// The node and incarnation say which process speaks for the session; when that incarnation is
/// gone its open transactions are aborted.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    codec::Codec,
)]
pub struct SessionId {
    /// The process that runs the session.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The session inside that life.
    pub number: u32,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}#{}", self.node, self.incarnation, self.number)
    }
}

/// A transaction, named by the session that began it: the token of an outcome query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub struct TransactionId {
    /// The session.
    pub session: SessionId,
    /// Counts the session's transactions from 1.
    pub number: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.session, self.number)
    }
}

/// Where an actor lives. An actor neither knows nor cares whether that is the same worker, another
/// worker of the process, or another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
#[doc(alias = "block reference")]
pub struct Address {
    /// The process.
    pub node: NodeId,
    /// The worker thread in it.
    pub worker: WorkerId,
    /// The actor on that worker.
    pub actor: ActorKind,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}.{}", self.node, self.worker, self.actor)
    }
}

/// The kinds of actor; a worker hosts at most one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Codec)]
pub enum ActorKind {
    /// Members, generations, leases and the replicated control log. On worker 0 only.
    #[doc(alias = "QMGR")]
    #[doc(alias = "DBDIH")]
    Control,
    /// Epoch switches of the cluster (active on the driver) and of the node. On worker 0 only.
    Epochs,
    /// Transaction coordinator.
    #[doc(alias = "DBTC")]
    Coordinator,
    /// Partition replicas of this worker.
    #[doc(alias = "DBLQH")]
    Participant,
    /// Client sessions of this worker.
    Client,
    /// Fills new unique indexes. On worker 0 only, active on the driver.
    #[doc(alias = "TRIX")]
    IndexBuilder,
    /// Looks up rows of other tables for the rows of this worker's scans.
    #[doc(alias = "DBSPJ")]
    #[codec(since = 7)]
    Joiner,
}

impl fmt::Display for ActorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ActorKind::Control => "control",
            ActorKind::Epochs => "epochs",
            ActorKind::Coordinator => "coordinator",
            ActorKind::Participant => "participant",
            ActorKind::Client => "client",
            ActorKind::IndexBuilder => "builder",
            ActorKind::Joiner => "joiner",
        })
    }
}
