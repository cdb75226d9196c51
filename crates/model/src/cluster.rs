//! What the whole cluster agrees on: members, placement, catalog. The state that the control log's
//! commands build, and the questions others ask of it.
//!
//! # Owns
//! The data types and pure queries. `control` applies commands; every worker holds the newest
//! state its node has reached. States share what they have in common: a state that follows
//! another costs what is different, and what is different is found at the same cost.
//! # Invariants
//! 1. A placement slot lists its active replicas in order; the first is the primary. A syncing
//!    replica never is first.
//! 2. A node is in a slot only while it is a member.
//! 3. A cluster with members has its identity.
//! 4. Every slot of a started cluster that a layout names has an active replica, or the cluster is
//!    stopped.
//! 5. Where partitions of a table live follows from its identity: the newest layout that began
//!    before it. It stays there.

mod change;
mod configuration;
mod layout;
mod pieces;
mod setting;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use codec::Codec;
use serde::{Deserialize, Serialize};
use stdx::SharedMap;

use crate::ids::{
    ActorKind, Address, ClusterId, ColumnId, ControlIndex, Epoch, Incarnation, IndexId, NodeId,
    PartitionId, PartitionIndex, SessionId, TableId, WorkerId,
};
use crate::schema::{Column, Description, LargeForm, Table};

pub use change::{StateChange, TableChange};
pub use configuration::{
    CONFIGURATION_BYTES_MAX, Configured, REVISION_BYTES_MAX, REVISIONS_MAX, Revision,
};
pub use layout::{Layout, Moves};
pub use pieces::{Assembled, CatalogPiece, Pieces, StateAssembly, StatePiece, StatePieces};
pub use setting::{SETTINGS_BYTES_MAX, SETTINGS_MAX, Setting, SettingChange, Settings};
pub use stream::{BINLOG_STREAMS, CHANGEFEED_STREAMS, STREAMS_MAX, Stream, is_kept_for_a_time};

/// What a node does in the cluster.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Codec,
)]
pub enum NodeRole {
    /// Holds rows, coordinates transactions, votes.
    Data,
    /// Holds the configuration; votes to break ties.
    #[doc(alias = "arbitrator")]
    Management,
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MemberStatus {
    /// Follows the control log; holds no rows yet.
    Joining,
    /// In the write chain of its slots; rows are being copied to it.
    Syncing,
    /// Reads the rows back that it has on its disk; the cluster is being restarted as a whole.
    Restoring,
    /// Complete.
    Active,
    /// Leaving on its own wish: finishes its transactions, takes no new ones.
    Leaving,
}

/// A node that belongs to the cluster now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The life that belongs; every other life of the node is rejected.
    pub incarnation: Incarnation,
    /// The life that the consensus knows it by: the first one that had its control log. An older
    /// one when the log has outlived it on the disk.
    pub voter: Incarnation,
    /// Data or management.
    pub role: NodeRole,
    /// Worker threads of the process.
    pub workers: u8,
    /// Progress.
    pub status: MemberStatus,
    /// Order of admission; the oldest active data node drives epochs and takeovers.
    #[doc(alias = "dynamic id")]
    pub joined_at: ControlIndex,
}

/// A replica in a placement slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// Where.
    pub node: NodeId,
    /// Being copied: in the write chain, not readable, never primary.
    pub syncing: bool,
}

/// Where a share of partitions lives. Which slots a table uses its [`Layout`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementSlot {
    /// Position of the node group.
    pub group: u16,
    /// Replicas in chain order: primary first, then syncing ones, then the other active ones.
    pub replicas: Vec<Replica>,
    /// The node that held the last active replica, when there is none any more: its disk has all
    /// that was committed.
    pub last: Option<NodeId>,
}

impl PlacementSlot {
    /// The nodes whose disks have all that was committed in the slot's partitions.
    pub fn sources(&self) -> impl Iterator<Item = NodeId> {
        let active = self.replicas.iter().filter(|replica| !replica.syncing);
        active.map(|replica| replica.node).chain(self.last.filter(|_| self.replicas.is_empty()))
    }
}

/// Coordinators that died and whose transactions a survivor must settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The dead node.
    pub node: NodeId,
    /// Its last life.
    pub incarnation: Incarnation,
    /// Coordinators it had.
    pub workers: u8,
}

/// A node group in which no transaction begins anything, as its primaries are about to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldGroup {
    /// The group.
    pub group: u16,
    /// The entry since when.
    pub since: ControlIndex,
}

/// What the cluster agreed on, up to `index` of the control log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterState {
    /// The last applied entry.
    pub index: ControlIndex,
    /// Which cluster this is: the same in all its states from its first entry on.
    pub id: ClusterId,
    /// Node groups are formed and clients are welcome.
    pub started: bool,
    /// Some slot has lost all its active replicas: nothing is served any more.
    pub stopped: bool,
    /// All members.
    pub members: BTreeMap<NodeId, Member>,
    /// Highest incarnation ever admitted, by node; survives the member.
    pub incarnations: BTreeMap<NodeId, Incarnation>,
    /// Node groups; those that were dropped are empty, so that the others keep their numbers.
    pub groups: Vec<Vec<NodeId>>,
    /// Placement. Slots keep their numbers; those that no layout names hold nothing.
    pub slots: Vec<PlacementSlot>,
    /// Which slots tables use, oldest first. None while all tables use all slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<Layout>,
    /// Groups that new tables do not use any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<u16>,
    /// SQL nodes are to move the tables of older layouts to the newest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reorganizing: bool,
    /// Nodes whose replicas are to go. Each leaves the cluster when its group can do without it,
    /// and then is in no group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departing: Vec<NodeId>,
    /// The group whose primaries are about to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldGroup>,
    /// Restarts of the whole cluster, oldest first: the restart of position `i` began generation
    /// `i + 1` with the rows of this epoch. Later epochs of generations before never happened.
    pub restarts: Vec<Epoch>,
    /// Unsettled coordinators.
    pub takeovers: Vec<Takeover>,
    /// Tables by identity, hidden ones included.
    #[serde(with = "entries")]
    pub tables: SharedMap<TableId, Arc<Table>>,
    /// Tables by name, hidden ones excluded.
    #[serde(with = "entries")]
    pub table_names: SharedMap<Arc<str>, TableId>,
    /// Databases by name, with what the SQL layer keeps about each. A table belongs to the database
    /// whose name and a dot its own name begins with.
    #[serde(with = "entries")]
    pub databases: SharedMap<Arc<str>, Description>,
    /// Accounts by name, with what the SQL layer keeps about each.
    #[serde(with = "entries", default)]
    pub accounts: SharedMap<Arc<str>, Description>,
    /// The entry that changed accounts last; 0 if none has.
    #[serde(default)]
    pub accounts_changed: ControlIndex,
    /// Change streams by name.
    #[serde(default)]
    pub streams: BTreeMap<String, Stream>,
    /// Variables of SQL nodes that were given values for all of them.
    #[serde(default)]
    pub settings: Arc<Settings>,
    /// The protocol version that founded the cluster, or ended its last upgrade; 0 of programs
    /// that did not tell. Asked for by [`ClusterState::finalized`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub protocol: u16,
    /// The configuration that nodes are started with; none before a management node has brought
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<Configured>,
    /// Source of identities of tables, indexes and streams.
    pub next_id: u32,
    /// Answers to the last schema change of each session, so that a repeat is recognised.
    #[serde(with = "pairs")]
    pub schema_answers: SharedMap<SessionId, SchemaAnswer>,
    /// The sessions of `schema_answers`, the one answered longest ago first: who is forgotten next.
    pub schema_sessions: VecDeque<SessionId>,
}

/// The number of a schema change among those of its session, and how it ended.
pub type SchemaAnswer = (u64, Result<TableId, crate::ErrorCode>);

/// Left out of the format, so that what older programs wrote stays as it is.
fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// The protocol version of the programs before an upgrade had an end that was told.
const PROTOCOL_UNTOLD: u16 = 17;

/// A shared map as a map of the format.
mod entries {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use stdx::SharedMap;

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &SharedMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(map)
    }

    pub(super) fn deserialize<'a, K, V, D>(from: D) -> Result<SharedMap<K, V>, D::Error>
    where
        K: Deserialize<'a> + Ord + Clone,
        V: Deserialize<'a> + Clone,
        D: Deserializer<'a>,
    {
        Ok(BTreeMap::deserialize(from)?.into_iter().collect())
    }
}

/// A map as the list of its entries, for formats whose keys are texts.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use stdx::SharedMap;

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &SharedMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'a, K, V, D>(from: D) -> Result<SharedMap<K, V>, D::Error>
    where
        K: Deserialize<'a> + Ord + Clone,
        V: Deserialize<'a> + Clone,
        D: Deserializer<'a>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

/// An alteration of the catalog.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SchemaChange {
    /// A new table. Partition count 0 asks for the default.
    CreateTable {
        /// Full name.
        name: String,
        /// Columns in order.
        columns: Vec<Column>,
        /// Primary key columns by position.
        primary_key: Vec<u16>,
        /// Distribution key columns by position; empty for the whole primary key.
        distribution_key: Vec<u16>,
        /// Number of partitions.
        partition_count: u16,
        /// Ordered indexes: name and columns.
        ordered_indexes: Vec<(String, Vec<u16>)>,
        /// Unique indexes: name and columns; complete from the start, as the table is empty.
        unique_indexes: Vec<(String, Vec<u16>)>,
        /// Columns whose values may lie outside of rows, if any may.
        large: Option<Box<LargeForm>>,
        /// What the SQL layer keeps about the table.
        description: Description,
    },
    /// Adds columns at the end; each must be nullable or have a default that is not NULL.
    AddColumns {
        /// The table.
        table: TableId,
        /// New columns.
        columns: Vec<Column>,
        /// Those of them whose values may lie outside of rows, if any may; the column of the
        /// references is the table's own if it has one.
        large: Option<Box<LargeForm>>,
        /// The table's description from now on; none keeps it.
        description: Option<Description>,
    },
    /// Replaces what the SQL layer keeps about a table.
    Describe {
        /// The table.
        table: TableId,
        /// The version of the definition it was made from; refused when there is a newer one.
        version: u32,
        /// Columns that get another name.
        renamed: Vec<(ColumnId, String)>,
        /// The new description.
        description: Description,
    },
    /// Gives columns other definitions, which all of their values that are stored are values of:
    /// wider types, NULL where it was not allowed; or drops columns of no key, which leaves a hole
    /// (`Column::hole`). Rows stay as they are.
    ModifyColumns {
        /// The table.
        table: TableId,
        /// The version of the definition it was made from; refused when there is a newer one.
        version: u32,
        /// Columns with their new definitions. What rows older than a column read as stays.
        columns: Vec<(ColumnId, Column)>,
        /// Other columns that get another name.
        renamed: Vec<(ColumnId, String)>,
        /// The new description.
        description: Description,
    },
    /// Gives tables new names, one after the other, all or none.
    RenameTables {
        /// Tables with their new full names.
        names: Vec<(TableId, String)>,
    },
    /// Refuses writes to a table while its rows are copied to a new one, or allows them again.
    BlockWrites {
        /// The table.
        table: TableId,
        /// Whether writes are refused from now on.
        blocked: bool,
    },
    /// Begins to keep a journal of a table, or drops the one that is kept.
    KeepJournal {
        /// The table.
        table: TableId,
        /// Whether changes are recorded from now on.
        kept: bool,
    },
    /// Puts a table in the place and under the name of another, whose writes are blocked and which
    /// is dropped.
    ReplaceTable {
        /// The table that goes.
        old: TableId,
        /// The table that takes its name.
        new: TableId,
    },
    /// Removes all rows of a table at once, by giving it a new identity.
    TruncateTable {
        /// The table.
        table: TableId,
    },
    /// A new database.
    CreateDatabase {
        /// Its name, without a dot.
        name: String,
        /// What the SQL layer keeps about it.
        description: Description,
    },
    /// Replaces what the SQL layer keeps about a database.
    AlterDatabase {
        /// Its name.
        name: String,
        /// The new description.
        description: Description,
    },
    /// Removes a database with its tables.
    DropDatabase {
        /// Its name.
        name: String,
    },
    /// Changes accounts: all of them, or none when accounts have changed since they were looked at.
    ChangeAccounts {
        /// `ClusterState::accounts_changed` of the state that the changes were made from.
        seen: ControlIndex,
        /// Accounts by name, with what the SQL layer keeps about each from now on; none for those
        /// that go.
        changes: Vec<(String, Option<Description>)>,
    },
    /// Begins a change stream. The answer is the identity of the stream, as that of a table. One of
    /// the same name that keeps the same tables stays as it is.
    KeepStream {
        /// Its name.
        name: String,
        /// The tables whose changes it has; all tables if it names none.
        tables: Vec<TableId>,
    },
    /// Ends a change stream, if there is one of this name.
    DropStream {
        /// Its name.
        name: String,
    },
    /// Gives variables of all SQL nodes values; all of them, or none where the settings would be
    /// too many or too long.
    ChangeSettings {
        /// Variables by name, in lower case.
        changes: Vec<(String, SettingChange)>,
    },
    /// Removes a table with its indexes and rows.
    DropTable {
        /// The table.
        table: TableId,
    },
    /// Adds an ordered index; each replica builds its own at once.
    CreateOrderedIndex {
        /// The table.
        table: TableId,
        /// Name, unique in the table.
        name: String,
        /// Key columns.
        columns: Vec<u16>,
    },
    /// Adds a unique index in state `Building`: writers maintain it from now on.
    CreateUniqueIndex {
        /// The table.
        table: TableId,
        /// Name, unique in the table.
        name: String,
        /// Key columns.
        columns: Vec<u16>,
    },
    /// Ends the build of an index: all rows are in.
    SetIndexOnline {
        /// The table.
        table: TableId,
        /// The index.
        index: IndexId,
        /// The first epoch in which each row has its entry in a unique index; 0 where there are no
        /// disks, and of an ordered index, which each replica makes from its rows.
        complete: Epoch,
    },
    /// Removes an index of either kind; also how a failed build ends.
    DropIndex {
        /// The table.
        table: TableId,
        /// The index.
        index: IndexId,
    },
    /// As the change says, which makes or empties a table; if a table of parts is made with it, the
    /// two are colocated.
    ColocateParts {
        /// `CreateTable`, `AddColumns` or `TruncateTable`.
        change: Box<SchemaChange>,
    },
    /// Several changes as one: all or none, in their order.
    Together {
        /// Full names with the table and the version that each stands for, none where it stands for
        /// no table; refused when one of them does not any more.
        expected: Vec<(String, Option<(TableId, u32)>)>,
        /// The changes; none of them is of this kind. The answer is the first one's.
        changes: Vec<SchemaChange>,
    },
}

impl SchemaChange {
    /// The protocol version that brought it: programs that speak an older one cannot read it in
    /// the control log.
    pub fn since(&self) -> u16 {
        match self {
            SchemaChange::ModifyColumns { .. } => 9,
            SchemaChange::KeepJournal { .. } => 10,
            SchemaChange::ColocateParts { change } => change.since().max(11),
            SchemaChange::ChangeAccounts { .. } => 15,
            SchemaChange::KeepStream { .. }
            | SchemaChange::DropStream { .. }
            | SchemaChange::ChangeSettings { .. } => 16,
            SchemaChange::Together { changes, .. } => {
                changes.iter().map(SchemaChange::since).max().unwrap_or(1)
            }
            _ => 1,
        }
    }
}

/// A member that is back when the cluster is restarted as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// The node.
    pub node: NodeId,
    /// Its new life.
    pub incarnation: Incarnation,
    /// The life that the consensus knows it by.
    pub voter: Incarnation,
    /// Its role.
    pub role: NodeRole,
    /// Its worker threads.
    pub workers: u8,
}

/// An entry of the control log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Gives the cluster its identity; the first entry of its log.
    Found {
        /// Drawn by the founder.
        cluster: ClusterId,
        /// The protocol version whose commands the log may have.
        #[serde(default, skip_serializing_if = "is_zero")]
        protocol: u16,
    },
    /// Admits a node in status `Joining`. An older life of it must be gone.
    AddMember {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// The life that the consensus knows it by.
        voter: Incarnation,
        /// Its role.
        role: NodeRole,
        /// Its worker threads.
        workers: u8,
    },
    /// Begins a new generation, in which the cluster is what its members have on their disks up to
    /// an epoch. Their lives of the generation before have all ended.
    #[doc(alias = "system restart")]
    Restart {
        /// The generation that begins.
        generation: u32,
        /// What counts of the generations before.
        epoch: Epoch,
        /// Who takes part. Data nodes among them have everything up to that epoch on their disks.
        members: Vec<Returned>,
    },
    /// All members have read their rows back: clients are welcome again.
    Reopen {
        /// The generation that began.
        generation: u32,
    },
    /// Ends a life. Proposed only when that life cannot be serving any more.
    RemoveMember {
        /// The node.
        node: NodeId,
        /// The life that ends; a newer one is not touched.
        incarnation: Incarnation,
    },
    /// Forms node groups and slots from the members present; clients are welcome from here on.
    Start {
        /// Node groups.
        groups: Vec<Vec<NodeId>>,
    },
    /// Puts a joining node into the write chains of its slots.
    StartSync {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// The node holds all rows of its slots.
    Activate {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// No transaction begins anything in the group from now on: its primaries are about to move.
    HoldGroup {
        /// Its number.
        group: u16,
    },
    /// Each node of the group becomes the primary of its own slots again. Proposed when nothing is
    /// open in the group, at any of its replicas.
    MovePrimaries {
        /// The group, as it is held.
        held: HeldGroup,
    },
    /// Transactions may begin again in the group that is held.
    ReleaseGroup {
        /// The group, as it is held.
        held: HeldGroup,
    },
    /// The node wishes to leave.
    Leave {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
    },
    /// Forms a node group of nodes that are in none. It holds nothing yet.
    CreateGroup {
        /// As many as the other groups have.
        nodes: Vec<NodeId>,
    },
    /// Puts a node that is in no group into a group, as one more replica of what the group holds.
    CreateReplica {
        /// The group's number.
        group: u16,
        /// The node.
        node: NodeId,
    },
    /// Takes a node out of its group, which goes on with the others. A node that is there leaves
    /// the cluster first.
    DropReplica {
        /// The node.
        node: NodeId,
    },
    /// New tables use the group from now on, as it is now: one slot for each of its nodes. All of
    /// them are complete.
    OpenGroup {
        /// Its number.
        group: u16,
    },
    /// New tables do not use the group any more, and those that do are to be moved.
    RetireGroup {
        /// Its number.
        group: u16,
    },
    /// Ends a group that holds nothing. Its nodes leave.
    DropGroup {
        /// Its number.
        group: u16,
    },
    /// Tables of older layouts are to be moved to the newest, or are to stay.
    Reorganize {
        /// Whether they are to be moved.
        wanted: bool,
    },
    /// Gives the cluster another configuration. One that was not made of the present version
    /// changes nothing.
    Configure {
        /// Canonical text of a `config.ini`.
        text: String,
        /// What is remembered of the change.
        revision: Revision,
    },
    /// Ends an upgrade: the log may have commands of this protocol version from now on, which older
    /// programs cannot read.
    Finalize {
        /// The version.
        protocol: u16,
    },
    /// All transactions of a dead life are settled.
    TakeoverDone {
        /// The dead node.
        node: NodeId,
        /// The dead life.
        incarnation: Incarnation,
    },
    /// A catalog change asked for by a session; a repeat with the same number changes nothing.
    Schema {
        /// Who asks.
        session: SessionId,
        /// The session's count of schema changes.
        number: u64,
        /// What.
        change: SchemaChange,
    },
}

impl Command {
    /// The protocol version that brought it.
    pub fn since(&self) -> u16 {
        match self {
            Command::Schema { change, .. } => change.since(),
            Command::CreateGroup { .. }
            | Command::OpenGroup { .. }
            | Command::RetireGroup { .. }
            | Command::DropGroup { .. }
            | Command::Reorganize { .. } => 17,
            Command::Configure { .. }
            | Command::CreateReplica { .. }
            | Command::DropReplica { .. }
            | Command::Finalize { .. }
            | Command::HoldGroup { .. }
            | Command::MovePrimaries { .. }
            | Command::ReleaseGroup { .. } => 18,
            _ => 1,
        }
    }
}

impl ClusterState {
    /// The newest protocol version whose commands may be logged, if all members speak it: older
    /// programs come back until an operator ends an upgrade.
    pub fn finalized(&self) -> u16 {
        self.protocol.max(PROTOCOL_UNTOLD)
    }

    /// The member, if `incarnation` is the life of `node` that belongs to the cluster.
    pub fn member(&self, node: NodeId, incarnation: Incarnation) -> Option<&Member> {
        self.members.get(&node).filter(|member| member.incarnation == incarnation)
    }

    /// Data nodes that are members, with their records, in node order.
    pub fn data_members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.iter().filter(|(_, m)| m.role == NodeRole::Data).map(|(n, m)| (*n, m))
    }

    /// The node that drives epochs and takeovers: the oldest complete data node.
    #[doc(alias = "president")]
    pub fn driver(&self) -> Option<NodeId> {
        self.data_members()
            .filter(|(_, m)| matches!(m.status, MemberStatus::Active | MemberStatus::Leaving))
            .min_by_key(|(_, m)| m.joined_at)
            .map(|(node, _)| node)
    }

    /// What counts of the rows that a disk holds up to epoch `saved`: everything up to the epoch
    /// returned. What came after it was lost when the cluster was restarted without it.
    pub fn restorable(&self, saved: Epoch) -> Epoch {
        let later = self.restarts.get(saved.generation() as usize..).unwrap_or_default();
        later.iter().copied().fold(saved, Epoch::min)
    }

    /// The group that a node is in, by its position.
    pub fn group_with(&self, node: NodeId) -> Option<usize> {
        self.groups.iter().position(|group| group.contains(&node))
    }

    /// The nodes that a slot's replicas may be on.
    pub fn group_of(&self, slot: &PlacementSlot) -> &[NodeId] {
        &self.groups[usize::from(slot.group)]
    }

    /// The slots of a group by position, each with the node that is to be its primary. Each node of
    /// a group has one of the slots that new tables use, so that work is even. Nothing for a group
    /// that was dropped.
    pub fn preferred_primaries(&self, group: u16) -> impl Iterator<Item = (usize, NodeId)> + '_ {
        let slots = self.slots.iter().enumerate();
        let slots = slots.filter(move |(_, slot)| slot.group == group).map(|(at, _)| at);
        let nodes = self.groups.get(usize::from(group)).into_iter().flatten().copied();
        slots.zip(nodes.cycle())
    }

    /// Whether the primaries of a group can be moved to where they are to be: a slot has another
    /// primary, all nodes of the group are complete and stay, and no transaction is left of the
    /// dead.
    pub fn may_move_primaries(&self, group: u16) -> bool {
        let Some(nodes) = self.groups.get(usize::from(group)) else { return false };
        let stays = |node: &NodeId| {
            self.members.get(node).is_some_and(|member| member.status == MemberStatus::Active)
        };
        // A slot that no table uses may be empty, or have a part of the group: nobody asks there.
        let is_elsewhere = |place: (usize, NodeId)| {
            let first = self.slots[place.0].replicas.first().map(|replica| replica.node);
            self.is_used(place.0) && first != Some(place.1)
        };
        self.started
            && !self.stopped
            && self.takeovers.is_empty()
            && nodes.iter().all(stays)
            && self.preferred_primaries(group).any(is_elsewhere)
    }

    /// The first group whose primaries can be moved to where they are to be.
    pub fn group_to_spread(&self) -> Option<u16> {
        (0..self.groups.len() as u16).find(|group| self.may_move_primaries(*group))
    }

    /// What all epochs of the present generation are above.
    pub fn epoch_floor(&self) -> Epoch {
        Epoch::start_of(self.restarts.len() as u32)
    }

    /// The slot of a partition.
    pub fn slot_of(&self, partition: PartitionId) -> &PlacementSlot {
        &self.slots[self.slot_index(partition)]
    }

    /// The position of the slot that a partition uses.
    pub fn slot_index(&self, partition: PartitionId) -> usize {
        self.place_of(partition).0
    }

    /// The participant that holds a replica of `partition` on the member `node`.
    pub fn participant(&self, partition: PartitionId, node: NodeId) -> Address {
        let workers = self.members.get(&node).map_or(1, |m| m.workers.max(1));
        let row = self.place_of(partition).1;
        let worker = (row + partition.table.anchor().0 as usize) % usize::from(workers);
        Address { node, worker: WorkerId(worker as u8), actor: ActorKind::Participant }
    }

    /// The write chain of a partition: primary first. Empty when no replica is left.
    pub fn chain(&self, partition: PartitionId) -> Vec<Address> {
        let replicas = &self.slot_of(partition).replicas;
        replicas.iter().map(|r| self.participant(partition, r.node)).collect()
    }

    /// The primary of a partition.
    pub fn primary(&self, partition: PartitionId) -> Option<Address> {
        let first = self.slot_of(partition).replicas.first()?;
        Some(self.participant(partition, first.node))
    }

    /// Participants that may serve committed reads of a partition, primary first.
    pub fn readers(&self, partition: PartitionId) -> impl Iterator<Item = Address> + '_ {
        let replicas = self.slot_of(partition).replicas.iter();
        replicas.filter(|r| !r.syncing).map(move |r| self.participant(partition, r.node))
    }

    /// Whether `node` holds a replica of the partition; `Some(true)` while it is being copied.
    pub fn replica_syncing(&self, partition: PartitionId, node: NodeId) -> Option<bool> {
        self.slot_of(partition).replicas.iter().find(|r| r.node == node).map(|r| r.syncing)
    }

    /// Every coordinator of the members.
    pub fn coordinators(&self) -> Vec<Address> {
        self.worker_actors(ActorKind::Coordinator)
    }

    /// Every participant of the members.
    pub fn participants(&self) -> Vec<Address> {
        self.worker_actors(ActorKind::Participant)
    }

    fn worker_actors(&self, actor: ActorKind) -> Vec<Address> {
        self.data_members()
            .flat_map(|(node, member)| {
                (0..member.workers).map(move |w| Address { node, worker: WorkerId(w), actor })
            })
            .collect()
    }

    /// The table with this name.
    pub fn table_named(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(self.table_names.get(name)?)
    }

    /// All partitions of a table.
    pub fn partitions(&self, table: &Table) -> impl Iterator<Item = PartitionId> + use<> {
        let id = table.id;
        (0..table.partition_count).map(move |p| PartitionId { table: id, index: PartitionIndex(p) })
    }

    /// Checks what holds in every reachable state; panics with the broken rule. Looks at all
    /// tables.
    pub fn check(&self) {
        self.check_since(&Self::default());
    }

    /// As [`ClusterState::check`], given that the rules held in the state `before`: looks at those
    /// tables only that are different from there.
    pub fn check_since(&self, before: &Self) {
        assert!(self.members.is_empty() || self.id != ClusterId(0), "members of no cluster");
        for (at, slot) in self.slots.iter().enumerate() {
            let mut seen = Vec::new();
            for (order, replica) in slot.replicas.iter().enumerate() {
                assert!(self.members.contains_key(&replica.node), "slot {at}: not a member");
                assert!(!seen.contains(&replica.node), "slot {at}: node twice");
                assert!(order > 0 || !replica.syncing, "slot {at}: syncing primary");
                seen.push(replica.node);
            }
            let empty = slot.replicas.is_empty() && self.is_used(at);
            assert!(!empty || self.stopped, "slot {at}: empty yet running");
        }
        self.check_layouts();
        for change in self.table_changes(before) {
            if let Some(table) = change.after {
                self.check_table(table);
            }
            if let Some(gone) = change.before.filter(|_| change.after.is_none()) {
                self.check_gone(gone);
            }
        }
    }

    /// Checks that what a table refers to is there.
    fn check_table(&self, table: &Table) {
        for index in &table.unique_indexes {
            assert!(self.tables.contains_key(&index.table), "unique index without table");
        }
        let journal = table.journal.is_none_or(|journal| self.tables.contains_key(&journal));
        assert!(journal, "journal without table");
        let anchor = table.id.anchor();
        if anchor != table.id {
            let anchor = self.tables.get(&anchor).expect("a colocated table has its anchor");
            assert_eq!(table.hidden_behind, Some(anchor.id), "whose {} is", table.id);
            assert_eq!(table.partition_count, anchor.partition_count, "partitions");
        }
    }

    /// Checks that no table refers to one that is gone.
    fn check_gone(&self, gone: &Table) {
        let base = gone.hidden_behind.and_then(|base| self.tables.get(&base));
        if let Some(base) = base {
            let names = base.unique_indexes.iter().any(|index| index.table == gone.id);
            assert!(!names, "unique index without table");
            assert!(base.journal != Some(gone.id), "journal without table");
        }
        if gone.id.anchor() == gone.id {
            let beside = self.tables.contains_key(&gone.id.colocated());
            assert!(!beside, "a colocated table has its anchor");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes with so many workers, and two slots.
    fn cluster(workers: [u8; 2]) -> ClusterState {
        let nodes = [1, 2].map(NodeId);
        let member = |workers| Member {
            incarnation: Incarnation(1),
            voter: Incarnation(1),
            role: NodeRole::Data,
            workers,
            status: MemberStatus::Active,
            joined_at: ControlIndex(1),
        };
        let slot = |order: [NodeId; 2]| {
            let replicas = order.map(|node| Replica { node, syncing: false }).to_vec();
            PlacementSlot { group: 0, replicas, last: None }
        };
        ClusterState {
            members: nodes.into_iter().zip(workers.map(member)).collect(),
            groups: vec![nodes.to_vec()],
            slots: vec![slot(nodes), slot([nodes[1], nodes[0]])],
            ..ClusterState::default()
        }
    }

    #[test]
    fn colocated_tables_lie_with_the_same_workers() {
        let of = |table, index| PartitionId { table, index: PartitionIndex(index) };
        for workers in (1..=70).flat_map(|all| [[all, all], [all, 70 - all / 2]]) {
            let cluster = cluster(workers);
            for table in [1, 2, 3, 4711, TableId::LAST.0 - 1, TableId::LAST.0].map(TableId) {
                for index in 0..150 {
                    let chain = cluster.chain(of(table, index));
                    assert_eq!(chain, cluster.chain(of(table.colocated(), index)), "{workers:?}");
                }
            }
        }
    }

    /// Programs of before protocol 11 take the remainder of every table's identity.
    #[test]
    fn older_programs_find_colocated_tables() {
        let usual = (1..=22).chain([24, 26, 28, 30, 32, 36, 40, 42, 44, 48, 56, 60, 64, 96, 128]);
        for workers in usual {
            for table in [1, 4711, TableId::LAST.0].map(TableId) {
                assert_eq!(table.0 % workers, table.colocated().0 % workers, "{workers}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "is colocated itself")]
    fn a_colocated_table_has_none_beside_it() {
        let _ = TableId(7).colocated().colocated();
    }
}
