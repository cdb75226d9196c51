//! For tests: a client or builder alone on its worker, with the cluster played by hand.

use std::sync::Arc;

use actor::{Ctx, FlightRecorder, LeaseCell, Shared};
use model::cluster::{PlacementSlot, Replica};
use model::{
    ActorKind, Address, ClusterState, Column, ColumnId, ColumnType, Config, ControlIndex, Epoch,
    Incarnation, IndexId, IndexState, Member, MemberStatus, NodeId, NodeRole, OrderedIndexDef,
    PartitionId, PartitionIndex, RowLayout, Table, TableId, UniqueIndexDef, Value, WorkerId,
};
use stdx::Instant;
use wire::{Envelope, Message};

/// The base table `d.t (id, u, v)` with unique index `u` and ordered index `v`.
pub(crate) const BASE: TableId = TableId(1);
/// Its hidden table `(u, id)`.
pub(crate) const HIDDEN: TableId = TableId(2);
/// The unique index on `u`.
pub(crate) const UNIQUE: IndexId = IndexId(7);
/// The ordered index on `v`.
pub(crate) const ORDERED: IndexId = IndexId(8);

/// The worker of the actor under test.
pub(crate) struct World {
    pub(crate) shared: Shared,
    actor: ActorKind,
}

fn column(name: &str, nullable: bool) -> Column {
    let default = if nullable { Value::Null } else { Value::Int(0) };
    Column { name: name.into(), column_type: ColumnType::Int(8), nullable, default }
}

/// A table whose first column is the key.
pub(crate) fn table(id: TableId, name: &str, columns: Vec<Column>) -> Table {
    Table {
        id,
        name: name.into(),
        version: 1,
        hidden_behind: None,
        primary_key: vec![ColumnId(0)],
        distribution_key: vec![ColumnId(0)],
        partition_count: 4,
        layouts: vec![Arc::new(RowLayout::new(0, &columns))],
        ordered_indexes: vec![],
        unique_indexes: vec![],
        large: None,
        writes_blocked: false,
        journal: None,
        alike: None,
        description: Default::default(),
        columns,
    }
}

/// Two data nodes with two workers each, two replicas, the tables above.
pub(crate) fn cluster() -> ClusterState {
    let member = |joined_at| Member {
        incarnation: Incarnation(1),
        voter: Incarnation(1),
        role: NodeRole::Data,
        workers: 2,
        status: MemberStatus::Active,
        joined_at: ControlIndex(joined_at),
    };
    let replica = |node| Replica { node: NodeId(node), syncing: false };
    let slot =
        |a, b| PlacementSlot { group: 0, replicas: vec![replica(a), replica(b)], last: None };
    let columns = vec![column("id", false), column("u", true), column("v", false)];
    let mut base = table(BASE, "d.t", columns);
    base.unique_indexes.push(UniqueIndexDef {
        id: UNIQUE,
        name: "u".into(),
        columns: vec![ColumnId(1)],
        table: HIDDEN,
        state: IndexState::Online,
        complete: Epoch(0),
    });
    base.ordered_indexes.push(OrderedIndexDef {
        id: ORDERED,
        name: "v".into(),
        columns: vec![ColumnId(2)],
        state: IndexState::Online,
    });
    let hidden = table(HIDDEN, "d.t/u", vec![column("u", false), column("id", false)]);
    ClusterState {
        index: ControlIndex(10),
        started: true,
        members: [(NodeId(1), member(1)), (NodeId(2), member(2))].into(),
        slots: vec![slot(1, 2), slot(2, 1)],
        tables: [(BASE, Arc::new(base)), (HIDDEN, Arc::new(hidden))].into_iter().collect(),
        ..ClusterState::default()
    }
}

impl World {
    /// The worker of an actor on `node`, which has the cluster's state.
    pub(crate) fn new(node: u16, actor: ActorKind) -> Self {
        let config = Config::new(vec![NodeId(1), NodeId(2)], vec![NodeId(3)], 2);
        let lease = LeaseCell::default();
        lease.set(Instant::FAR_FUTURE);
        let shared = Shared {
            now: Instant::from_nanos(1),
            cluster: Arc::new(cluster()),
            lease,
            recorder: FlightRecorder::new(64),
            ..Shared::new(NodeId(node), Incarnation(1), WorkerId(0), 2, Arc::new(config))
        };
        Self { shared, actor }
    }

    /// A turn's context.
    pub(crate) fn ctx(&mut self) -> Ctx<'_> {
        Ctx::new(&mut self.shared, self.actor)
    }

    /// What was sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Envelope> {
        self.shared.outbox.drain(..).collect()
    }

    /// The one message that was sent since the last call.
    pub(crate) fn sent_one(&mut self) -> (Address, Message) {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let envelope = sent.remove(0);
        (envelope.to, *envelope.message)
    }

    /// Changes the cluster's state; returns the one before.
    pub(crate) fn change(&mut self, f: impl FnOnce(&mut ClusterState)) -> Arc<ClusterState> {
        let before = self.shared.cluster.clone();
        let mut after = (*before).clone();
        after.index.0 += 1;
        f(&mut after);
        self.shared.cluster = Arc::new(after);
        before
    }

    /// Goes to the time of the next timer and takes it.
    pub(crate) fn next_timer(&mut self) -> Option<actor::Timer> {
        let due = self.shared.timers.next()?;
        self.shared.now = self.shared.now.max(due);
        self.shared.timers.pop_due(self.shared.now).map(|(_, timer)| timer)
    }
}

/// The partition of a key of the tables above.
pub(crate) fn partition(cluster: &ClusterState, table: TableId, key: i64) -> PartitionId {
    let index = cluster.tables[&table].partition_of_key(&[Value::Int(key)]);
    PartitionId { table, index: index.expect("an integer key") }
}

/// The primary of a partition given by number.
pub(crate) fn primary(cluster: &ClusterState, table: TableId, index: u16) -> Address {
    let partition = PartitionId { table, index: PartitionIndex(index) };
    cluster.primary(partition).expect("a replica")
}

/// The first keys whose rows lie in a partition.
pub(crate) fn keys_in(cluster: &ClusterState, table: TableId, index: u16) -> Vec<i64> {
    (0..200).filter(|key| partition(cluster, table, *key).index.0 == index).take(5).collect()
}

/// Integers as values.
pub(crate) fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().map(|v| Value::Int(*v)).collect()
}
