//! For tests: a client or builder alone on its worker, with the cluster played by hand.

use std::sync::Arc;

use actor::{Ctx, FlightRecorder, Shared};
use model::{
    ActorKind, Address, ClusterState, Config, IndexId, NodeId, PartitionId, PartitionIndex,
    TableId, Value,
};
use testing::{BIGINT, serving_worker, table};
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

/// Two data nodes with two workers each, two replicas, the tables above.
pub(crate) fn cluster() -> ClusterState {
    let base = table("d.t")
        .id(BASE)
        .partitions(4)
        .column("id", BIGINT)
        .nullable("u", BIGINT)
        .column("v", BIGINT)
        .unique("u", ["u"])
        .with_index_id(UNIQUE)
        .index("v", ["v"])
        .with_index_id(ORDERED);
    let hidden = table("d.t/u").id(HIDDEN).partitions(4).column("u", BIGINT).column("id", BIGINT);
    testing::cluster([1, 2]).workers(2).table(base.build()).table(hidden.build()).build()
}

impl World {
    /// The worker of an actor on `node`, which has the cluster's state.
    pub(crate) fn new(node: u16, actor: ActorKind) -> Self {
        let config = Config::new(vec![NodeId(1), NodeId(2)], vec![NodeId(3)], 2);
        let shared = Shared {
            workers: 2,
            cluster: Arc::new(cluster()),
            recorder: FlightRecorder::new(64),
            ..serving_worker(node, config)
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
