//! Rules of a cluster at rest: no client asks anything, no fault is left, everything was settled.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClusterState, NodeId, PartitionId, RowId, Table, UniqueIndexDef, Value};
use node::Worker;
use store::partition::Partition;

use crate::world::{Kind, World};

impl World {
    /// Whether nothing is under way in the cluster any more.
    pub fn is_at_rest(&self) -> bool {
        let newest = self.newest_state().index;
        self.nodes_at_work().into_iter().all(|node| {
            let reached = |worker: &Worker| worker.shared().cluster.index == newest;
            self.workers(node).all(reached) && self.open_work(node).is_none()
        })
    }

    /// The data nodes that run.
    fn nodes_at_work(&self) -> Vec<NodeId> {
        self.nodes(Kind::Data).into_iter().filter(|node| self.is_running(*node)).collect()
    }

    /// What is still under way on a node, if anything.
    fn open_work(&self, node: NodeId) -> Option<String> {
        for worker in self.workers(node) {
            let (Some(participant), Some(coordinator)) =
                (worker.participant(), worker.coordinator())
            else {
                continue;
            };
            let open = [
                ("transactions of the coordinator", coordinator.open_transactions()),
                ("snapshots", coordinator.open_snapshots()),
                ("transactions of the participant", participant.open_transactions()),
                ("scans", participant.open_scans()),
                ("copies", participant.open_copies()),
                ("locked rows", participant.locked_rows()),
            ];
            if let Some((what, count)) = open.into_iter().find(|(_, count)| *count > 0) {
                let lines = [coordinator.describe(), participant.describe()].concat();
                let at = worker.shared().worker;
                return Some(format!("{node}{at}: {count} {what}\n{}", lines.join("\n")));
            }
        }
        None
    }

    /// Panics when a rule of a cluster at rest is broken. Nodes that run must be active.
    pub fn check_at_rest(&self) {
        let state = self.newest_state();
        for node in self.nodes_at_work() {
            if let Some(work) = self.open_work(node) {
                panic!("not at rest: {work}");
            }
            for worker in self.workers(node) {
                let reached = &worker.shared().cluster;
                assert!(**reached == *state, "{node} has not reached the newest state");
                worker.check_invariants();
            }
        }
        for table in state.tables.values() {
            for partition in state.partitions(table) {
                self.check_replicas_equal(&state, partition);
            }
            for index in &table.unique_indexes {
                self.check_unique_index(&state, table, index);
            }
        }
    }

    /// What each partition holds: slots, rows and epochs. Tables that the SQL layer keeps for
    /// itself are left out: SQL nodes that start tidy them up.
    pub fn digests(&self) -> BTreeMap<PartitionId, u64> {
        let state = self.newest_state();
        let tables = state.tables.values().filter(|table| !table.name.starts_with('#'));
        let ids = tables.flat_map(|table| state.partitions(table));
        ids.map(|id| (id, self.replicas(&state, id)[0].1.digest())).collect()
    }

    /// Panics when a partition does not hold what it held before.
    pub fn check_digests(&self, before: &BTreeMap<PartitionId, u64>) {
        for (id, digest) in self.digests() {
            assert_eq!(Some(&digest), before.get(&id), "{id}: not what it was before the restart");
        }
    }

    /// Every replica of a partition that a started cluster has, with its node.
    fn replicas(&self, state: &ClusterState, id: PartitionId) -> Vec<(NodeId, &Partition)> {
        let chain = state.chain(id);
        let replica = |at: model::Address| {
            let participant = self.worker(at.node, at.worker).participant()?;
            Some((at.node, participant.partition(id)?))
        };
        let found: Vec<_> = chain.iter().copied().filter_map(replica).collect();
        assert_eq!(found.len(), chain.len(), "{id}: a replica is missing");
        found
    }

    fn check_replicas_equal(&self, state: &ClusterState, id: PartitionId) {
        let replicas = self.replicas(state, id);
        let (first, primary) = replicas[0];
        primary.check();
        for (node, replica) in &replicas[1..] {
            replica.check();
            if replica.digest() != primary.digest() {
                panic!("{id}: {first} and {node} differ: {}", difference(primary, replica));
            }
        }
    }

    /// The hidden table of a unique index holds exactly what the base table asks for.
    fn check_unique_index(&self, state: &ClusterState, table: &Table, index: &UniqueIndexDef) {
        let hidden = &state.tables[&index.table];
        let mut expected: BTreeMap<String, String> = BTreeMap::new();
        for (row, _) in self.rows_of(state, table) {
            let indexed: Vec<Value> =
                index.columns.iter().map(|c| row[usize::from(c.0)].clone()).collect();
            if indexed.contains(&Value::Null) {
                continue;
            }
            let key: Vec<Value> =
                table.primary_key.iter().map(|c| row[usize::from(c.0)].clone()).collect();
            let before = expected.insert(format!("{indexed:?}"), format!("{key:?}"));
            assert!(before.is_none(), "{}: {indexed:?} twice in the table", index.name);
        }
        let mut found: BTreeSet<String> = BTreeSet::new();
        for (row, _) in self.rows_of(state, hidden) {
            let indexed = &row[..index.columns.len()];
            let key: Vec<Value> = table
                .primary_key
                .iter()
                .map(|column| {
                    let name = &table.columns[usize::from(column.0)].name;
                    let at = hidden.columns.iter().position(|c| c.name == *name);
                    row[at.expect("hidden tables hold the primary key")].clone()
                })
                .collect();
            let entry = format!("{indexed:?}");
            let base = expected.get(&entry);
            assert_eq!(base, Some(&format!("{key:?}")), "{}: entry {entry}", index.name);
            found.insert(entry);
        }
        for entry in expected.keys() {
            assert!(found.contains(entry), "{}: no entry for {entry}", index.name);
        }
    }

    /// All rows of a table at its primaries, with their places.
    fn rows_of(&self, state: &ClusterState, table: &Table) -> Vec<(Vec<Value>, RowId)> {
        let mut rows = Vec::new();
        for id in state.partitions(table) {
            let (_, primary) = self.replicas(state, id)[0];
            let mut at = None;
            while let Some(row) = primary.next_row(at) {
                let image = primary.row(row).expect("an occupied slot holds a row");
                rows.push((primary.table().values(image), row));
                at = Some(row);
            }
        }
        rows
    }
}

/// The first slot in which two replicas differ.
fn difference(left: &Partition, right: &Partition) -> String {
    let slots = left.slot_count().max(right.slot_count());
    let of = |replica: &Partition, row: RowId| {
        if row.0 >= replica.slot_count() {
            return "no slot".to_string();
        }
        let values = replica.row(row).map(|image| replica.table().values(image));
        format!("{} {values:?}", replica.slot_epoch(row))
    };
    for row in (0..slots).map(RowId) {
        let (a, b) = (of(left, row), of(right, row));
        if a != b {
            return format!("{row} of {slots}: {a} against {b}");
        }
    }
    "in the digest only".to_string()
}
