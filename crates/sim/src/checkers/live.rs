//! Rules that hold at every moment, across nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{
    ClusterId, ClusterState, ControlIndex, Incarnation, MemberStatus, NodeId, PartitionId, RowId,
};
use stdx::{Duration, Instant};

use crate::world::{Kind, World};

/// Cluster states seen so far, and when members last went.
#[derive(Debug)]
pub struct Watch {
    states: BTreeMap<ControlIndex, Arc<ClusterState>>,
    /// The cluster that was started.
    cluster: Option<ClusterId>,
    newest_members: Vec<(NodeId, Incarnation)>,
    last_change: Instant,
    /// Set by the world before it reports a state.
    pub(crate) now: Instant,
    /// Which partition is compared next.
    next_partition: PartitionId,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            states: BTreeMap::new(),
            cluster: None,
            newest_members: Vec::new(),
            last_change: Instant::ZERO,
            now: Instant::ZERO,
            next_partition: PartitionId::FIRST,
        }
    }
}

impl Watch {
    /// When the set of data nodes that are members last changed.
    pub(crate) fn last_change(&self) -> Instant {
        self.last_change
    }

    /// A node has reached a state: it must be the one everybody reaches at that index.
    pub(crate) fn state_reached(&mut self, node: NodeId, state: &Arc<ClusterState>) {
        if !state.started {
            return; // Attempts to form a cluster may fail and begin again.
        }
        // What is lost here was more than the cluster must survive, or it was lost for nothing.
        let first = *self.cluster.get_or_insert(state.id);
        assert!(first == state.id, "{node}: the cluster is lost, another one was founded");
        match self.states.get(&state.index) {
            Some(known) if Arc::ptr_eq(known, state) => {}
            Some(known) => {
                // States with many tables are compared now and then: what has parted stays apart.
                let every = 1 + state.tables.len() as u64 / TABLES_PER_COMPARISON;
                let is_due = state.index.0.is_multiple_of(every);
                let same = if is_due { **known == **state } else { known.slots == state.slots };
                assert!(same, "{node}: another cluster state at {}", state.index);
            }
            None => {
                self.states.insert(state.index, state.clone());
                let members: Vec<_> =
                    state.data_members().map(|(node, member)| (node, member.incarnation)).collect();
                if members != self.newest_members {
                    self.newest_members = members;
                    self.last_change = self.now;
                }
            }
        }
        while self.states.len() > STATES_KEPT {
            self.states.pop_first();
        }
    }
}

/// States compared with those that nodes reach late.
const STATES_KEPT: usize = 512;
/// States with so many tables are all compared, those with twice as many every second one.
const TABLES_PER_COMPARISON: u64 = 8;
/// After a member went, a backup may be ahead of the promoted primary for about this long.
const PROMOTION_SETTLES: Duration = Duration::from_secs(2);

impl World {
    /// No two nodes that may serve consider themselves primary of the same slot. A group that is
    /// held does not count: nothing begins there, and its primaries move when nothing is open.
    pub(crate) fn check_leases(&self) {
        let mut primaries: BTreeMap<usize, NodeId> = BTreeMap::new();
        for node in self.nodes(Kind::Data) {
            if !self.holds_lease(node) {
                continue;
            }
            for worker in self.workers(node) {
                let state = &worker.shared().cluster;
                if state.member(node, self.incarnation(node)).is_none() {
                    continue;
                }
                // A slot that no table uses gets its order when it is opened.
                let slots = state.slots.iter().enumerate().filter(|(at, _)| state.is_used(*at));
                for (at, slot) in slots {
                    let is_held = state.held.is_some_and(|held| held.group == slot.group);
                    let is_first = slot.replicas.first().is_some_and(|first| first.node == node);
                    if is_first && !is_held {
                        let other = *primaries.entry(at).or_insert(node);
                        assert_eq!(other, node, "slot {at} has two primaries with leases");
                    }
                }
            }
        }
    }

    /// A replica that does not show a change yet which another one shows has its readers wait. And
    /// a backup shows no change that its primary does not show yet, unless that was staged there
    /// with its commit. Looks at one partition.
    pub(crate) fn check_replica_order(&mut self) {
        let state = self.newest_state();
        let quiet = self.now().since(self.watch().last_change) > PROMOTION_SETTLES;
        let quiet = quiet && state.takeovers.is_empty();
        let restoring =
            state.data_members().any(|(_, member)| member.status == MemberStatus::Restoring);
        if restoring || state.slots.is_empty() {
            return;
        }
        let next = self.watch_mut().next_partition;
        let later = state.tables.iter_from(&next.table).flat_map(|(_, t)| state.partitions(t));
        let first = || state.tables.values().flat_map(|table| state.partitions(table)).next();
        let mut later = later.skip_while(|partition| *partition <= next);
        let Some(partition) = later.next().or_else(first) else { return };
        self.watch_mut().next_partition = partition;
        let readers: Vec<_> = state.readers(partition).collect();
        let lives = readers.iter().all(|at| {
            let reached = |worker: &node::Worker| worker.shared().cluster.index == state.index;
            state.member(at.node, self.incarnation(at.node)).is_some()
                && self.is_running(at.node)
                && self.slowness(at.node) == 1
                && self.workers(at.node).all(reached)
        });
        if !lives {
            return;
        }
        let participant = |at: &model::Address| self.worker(at.node, at.worker).participant();
        let replica = |at: &model::Address| participant(at)?.partition(partition);
        let Some(primary) = readers.first().and_then(replica) else { return };
        for row in (0..primary.slot_count()).map(RowId) {
            let shows = |at| Some((at, replica(at)?.slot_epoch(row)));
            let shown: Vec<_> = readers.iter().filter_map(shows).collect();
            let newest = shown.iter().map(|(_, epoch)| *epoch).max();
            for (at, epoch) in shown.iter().filter(|(_, epoch)| Some(*epoch) < newest) {
                let waits = participant(at).is_some_and(|at| at.in_doubt(partition, row));
                assert!(
                    waits,
                    "{partition} {row}: {at} answers with {epoch}, others show {newest:?}"
                );
            }
        }
        if !quiet {
            return;
        }
        let staged = |row| participant(readers.first()?)?.commits_in(partition, row);
        for (at, backup) in readers.iter().skip(1).filter_map(|at| Some((at, replica(at)?))) {
            for row in (0..backup.slot_count()).map(RowId) {
                let (ahead, behind) = (backup.slot_epoch(row), primary.slot_epoch(row));
                assert!(
                    row.0 >= primary.slot_count() && ahead.0 == 0
                        || ahead <= behind
                        || staged(row) == Some(ahead),
                    "{partition} {row}: {at} shows {ahead}, the primary only {behind}"
                );
            }
        }
    }
}
