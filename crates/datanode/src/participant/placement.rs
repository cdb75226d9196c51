//! Which replicas this worker holds: follows the cluster state; keeps rows over a rejoin; upkeep
//! of indexes and old row images.

use std::sync::Arc;

use actor::{Ctx, Mutation, probe};
use model::cluster::TableChange;
use model::{
    ClusterState, Epoch, ErrorCode, Incarnation, NodeId, PartitionId, Refusal, Table, TableId,
};
use wire::{Continue, Message};

use super::Participant;
use super::copy::Copies;
use super::deadlock::Searches;
use super::leg::{Leg, LegHandle};
use super::replica::{Replica, SlotSet};
use super::streams::Streams;
use super::waits::Waiting;

/// Partitions whose old row images are looked through per turn.
const DROPS_PER_TURN: usize = 4;
/// Pages, nodes and segments that are given back per turn: some tens of microseconds.
const FREED_PER_TURN: u32 = 32;

impl Participant {
    /// Follows a newer cluster state.
    pub(super) fn follow(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let cluster = ctx.cluster().clone();
        for (node, member) in &before.members {
            if cluster.member(*node, member.incarnation).is_none() {
                self.member_gone(ctx, *node, member.incarnation);
            }
        }
        let places = !self.placed || cluster.places_differ(before);
        if !self.placed || cluster.held_slots_differ(before, ctx.node()) {
            self.follow_all(ctx, &cluster);
        } else {
            for change in cluster.table_changes(before) {
                self.follow_table(ctx, &cluster, &change);
            }
            if cluster.duties_differ(before) {
                self.follow_duties(ctx, &cluster);
            }
            if !self.unbuilt.is_empty() {
                self.need_upkeep(ctx);
            }
        }
        self.follow_streams(ctx, before, places);
        self.copies_changed(ctx, places);
    }

    /// Follows a state in which the replicas that are here have other duties: one look at each.
    fn follow_duties(&mut self, ctx: &Ctx<'_>, cluster: &ClusterState) {
        let (me, current) = (ctx.me(), ctx.view().epochs.current);
        let Self { replicas, copies, completed, .. } = self;
        for (partition, replica) in replicas {
            let placed = !cluster.slots.is_empty();
            let syncing = placed.then(|| cluster.replica_syncing(*partition, me.node)).flatten();
            if let Some(syncing) = syncing {
                set_syncing(replica, copies, syncing, current, *completed);
            }
            replica.follow(cluster, me);
        }
    }

    /// Follows a state in which replicas may lie elsewhere, or have other duties.
    fn follow_all(&mut self, ctx: &mut Ctx<'_>, cluster: &ClusterState) {
        self.placed = true;
        self.drop_lost(ctx, cluster);
        if !cluster.slots.is_empty() {
            for table in cluster.tables.values() {
                self.place_table(ctx, cluster, table);
            }
        }
        let me = ctx.me();
        for replica in self.replicas.values_mut() {
            replica.follow(cluster, me);
        }
        self.memory.forget();
        self.list_unbuilt();
        self.need_upkeep(ctx);
    }

    /// Follows a state in which a table is different, and its partitions lie where they did.
    fn follow_table(
        &mut self,
        ctx: &mut Ctx<'_>,
        cluster: &ClusterState,
        change: &TableChange<'_>,
    ) {
        if let Some(table) = change.after {
            if !cluster.slots.is_empty() {
                self.place_table(ctx, cluster, table);
            }
        } else {
            for partition in self.replicas_of(*change.key) {
                self.drop_replica(ctx, partition);
            }
        }
        let me = ctx.me();
        for partition in self.replicas_of(*change.key) {
            let replica = self.replicas.get_mut(&partition).expect("listed");
            replica.follow(cluster, me);
        }
    }

    /// The partitions of a table that this worker has replicas of.
    fn replicas_of(&self, table: TableId) -> Vec<PartitionId> {
        let of_table = self.replicas.range(PartitionId::all_of(table));
        of_table.map(|(partition, _)| *partition).collect()
    }

    /// Makes this worker's replicas of a table what the state says.
    fn place_table(&mut self, ctx: &mut Ctx<'_>, cluster: &ClusterState, table: &Arc<Table>) {
        for partition in cluster.partitions(table) {
            if cluster.participant(partition, ctx.node()) == ctx.me() {
                self.place(ctx, cluster, table, partition);
            }
        }
    }

    /// A life is over: its clients' scans end, and operations of its coordinators that have not
    /// run yet never will, as a takeover can only abort them.
    pub(super) fn member_gone(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        incarnation: Incarnation,
    ) {
        self.link_down(ctx, node, incarnation);
        self.drop_held(node, incarnation);
        for handle in self.legs.of_life(node, incarnation) {
            let tickets: Vec<u64> = self.waits.of(handle).map(|(ticket, _)| ticket).collect();
            for ticket in tickets {
                probe!(ctx, "participant: wait of a dead coordinator's transaction ended");
                let wait = self.waits.remove(handle, ticket).expect("listed above");
                self.leave_queue(handle, ticket, &wait);
            }
            for scan in self.scans.of_leg(handle) {
                self.fail_scan(ctx, scan, ErrorCode::ScanAborted.into());
            }
        }
    }

    /// Drops replicas of dropped tables and lost slots.
    fn drop_lost(&mut self, ctx: &mut Ctx<'_>, cluster: &ClusterState) {
        let me = ctx.node();
        // A node that is between two lives holds no slot, and keeps its rows for the next.
        let placed = cluster.slots.iter().any(|s| s.replicas.iter().any(|r| r.node == me));
        let lost = |partition: &PartitionId| {
            !cluster.tables.contains_key(&partition.table)
                || (placed && cluster.replica_syncing(*partition, me).is_none())
        };
        let lost: Vec<PartitionId> = self.replicas.keys().filter(|p| lost(p)).copied().collect();
        for partition in lost {
            self.drop_replica(ctx, partition);
        }
    }

    fn drop_replica(&mut self, ctx: &mut Ctx<'_>, partition: PartitionId) {
        let gone = Refusal::new(ErrorCode::UnknownTable, partition.to_string());
        for scan in self.scans.of_partition(partition) {
            self.fail_scan(ctx, scan, gone.clone());
        }
        let waits: Vec<(LegHandle, u64)> = self
            .waits
            .iter()
            .filter(|(_, _, wait)| wait.partition == partition)
            .map(|(handle, ticket, _)| (handle, ticket))
            .collect();
        for (handle, ticket) in waits {
            probe!(ctx, "participant: table dropped under a waiting operation");
            let wait = self.waits.remove(handle, ticket).expect("listed above");
            if let Waiting::Operation(operation) = wait.what {
                self.answers(handle).refuse(operation.number, gone.clone());
            }
        }
        let touches = |leg: &Leg| leg.locked().any(|locked| locked == partition);
        let touched = self.legs.iter().filter(|(_, leg)| touches(leg));
        let touched: Vec<LegHandle> = touched.map(|(handle, _)| handle).collect();
        for handle in touched {
            self.legs.change(handle, |leg| leg.leave_partition(partition));
        }
        self.copies.forget_partition(partition);
        self.unbuilt.remove(&partition);
        self.versioned.remove(&partition);
        self.stale_versions.remove(&partition);
        if let Some(replica) = self.replicas.remove(&partition) {
            self.memory.changed(replica.partition.memory_bytes(), 0);
            self.forget_stored(partition, &replica.stored);
            self.remains.push_back(replica.partition.into_remains());
            self.need_upkeep(ctx);
        }
    }

    /// Makes the replica of a partition what the state says.
    fn place(
        &mut self,
        ctx: &mut Ctx<'_>,
        cluster: &ClusterState,
        table: &Arc<Table>,
        partition: PartitionId,
    ) {
        let Some(syncing) = cluster.replica_syncing(partition, ctx.node()) else { return };
        let Some(replica) = self.replicas.get_mut(&partition) else {
            let replica = Box::new(Replica::new(partition, table.clone(), syncing, self.completed));
            self.memory.changed(0, replica.partition.memory_bytes());
            if let Some(disk) = &mut self.disk {
                disk.placed(&replica.stored, partition);
            }
            self.replicas.insert(partition, replica);
            if syncing {
                self.copies.expect_target(partition);
            }
            return;
        };
        if !Arc::ptr_eq(replica.partition.table(), table) {
            let before = replica.partition.memory_bytes();
            let remains = replica.partition.set_table(table.clone());
            self.memory.changed(before, replica.partition.memory_bytes());
            if replica.partition.needs_indexes() {
                self.unbuilt.insert(partition);
            }
            if !remains.is_empty() {
                self.remains.push_back(remains);
            }
        }
        let current = ctx.view().epochs.current;
        set_syncing(replica, &mut self.copies, syncing, current, self.completed);
    }

    /// Notes what the worker's coordinator has learnt about epochs.
    pub(super) fn observe_epochs(&mut self, ctx: &mut Ctx<'_>) {
        let (current, completed) = (ctx.view().epochs.current, ctx.view().epochs.completed);
        self.completed = completed.max(self.completed);
        if self.streams.is_behind(self.completed) {
            self.limit_streams(ctx);
        }
        if current > self.current {
            let first = self.current == Epoch(0);
            self.current = current;
            for replica in self.replicas.values_mut().filter(|_| first) {
                if replica.partition.snapshot_floor() == NO_SNAPSHOTS {
                    replica.partition.set_snapshot_floor(current.next());
                }
            }
        }
        if ctx.view().epochs.retained != self.retained {
            self.retained = ctx.view().epochs.retained.clone();
            self.stale_versions = self.versioned.clone();
            self.need_upkeep(ctx);
        }
    }

    /// The epochs whose old images an apply must keep.
    pub(super) fn retained_now(&self, ctx: &Ctx<'_>) -> Vec<Epoch> {
        if ctx.mutated(Mutation::DropVersionsEarly) {
            return Vec::new();
        }
        let retained = ctx.view().epochs.retained.iter();
        retained.filter(|epoch| **epoch >= self.versions_from).copied().collect()
    }

    /// Has upkeep done soon.
    pub(super) fn need_upkeep(&mut self, ctx: &mut Ctx<'_>) {
        if !self.upkeep_coming {
            self.upkeep_coming = true;
            ctx.send(ctx.me(), Message::Continue(Continue::Upkeep));
        }
    }

    /// One step of building ordered indexes, dropping old row images, and giving memory back.
    pub(super) fn upkeep(&mut self, ctx: &mut Ctx<'_>) {
        self.upkeep_coming = false;
        self.free_remains();
        self.limit_versions(ctx);
        self.continue_census(ctx);
        let retained = self.retained_now(ctx);
        for _ in 0..DROPS_PER_TURN {
            let Some(partition) = self.stale_versions.pop_first() else { break };
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if !replica.partition.drop_versions(&retained) {
                self.stale_versions.insert(partition);
                break;
            }
            if !replica.partition.has_versions() {
                self.versioned.remove(&partition);
            }
        }
        // The restore asks for upkeep when it has read all rows.
        let reading = self.disk.as_ref().is_some_and(|disk| disk.reads_rows());
        let missing = !reading && self.build_indexes(ctx);
        let more = !self.stale_versions.is_empty() || !self.remains.is_empty();
        if missing || more || self.census_is_due(ctx.now()) {
            self.need_upkeep(ctx);
        }
        if !missing {
            self.indexes_built(ctx);
            self.report_synced(ctx);
        }
    }

    /// Gives some memory of dropped replicas and indexes back.
    fn free_remains(&mut self) {
        let mut pieces = FREED_PER_TURN;
        while pieces > 0
            && let Some(remains) = self.remains.front_mut()
        {
            pieces = remains.free(pieces);
            if remains.is_empty() {
                self.remains.pop_front();
            }
        }
    }

    /// One step of building ordered indexes; true when there is more to do.
    fn build_indexes(&mut self, ctx: &mut Ctx<'_>) -> bool {
        let step = ctx.step_rows(Continue::Upkeep);
        if let Some(partition) = self.unbuilt.first().copied() {
            let replica = self.replicas.get_mut(&partition).expect("dropped ones are not listed");
            let before = replica.partition.memory_bytes();
            if replica.partition.needs_indexes() {
                probe!(ctx, "participant: step of an index build");
                replica.partition.build_indexes(step);
            }
            self.memory.changed(before, replica.partition.memory_bytes());
            if !replica.partition.needs_indexes() {
                self.unbuilt.remove(&partition);
            }
        }
        !self.unbuilt.is_empty()
    }

    /// Looks which replicas have indexes to be built: rows have been read back.
    pub(super) fn list_unbuilt(&mut self) {
        let unbuilt = self.replicas.iter().filter(|(_, r)| r.partition.needs_indexes());
        self.unbuilt = unbuilt.map(|(partition, _)| *partition).collect();
    }

    /// When old images take too much memory, gives up the snapshots that need them.
    fn limit_versions(&mut self, ctx: &mut Ctx<'_>) {
        let versioned = self.versioned.iter().filter_map(|partition| self.replicas.get(partition));
        let bytes: u64 = versioned.map(|replica| replica.partition.version_bytes()).sum();
        let from = ctx.view().epochs.current.next();
        // What was given up is dropped first, and nothing can be given up twice.
        let dropping = !self.stale_versions.is_empty() || from <= self.versions_from;
        if bytes <= ctx.config().version_memory || dropping {
            return;
        }
        probe!(ctx, "participant: old row images over their limit");
        self.versions_from = from;
        for replica in self.replicas.values_mut() {
            let floor = replica.partition.snapshot_floor().max(self.versions_from);
            replica.partition.set_snapshot_floor(floor);
        }
        self.stale_versions = self.versioned.clone();
    }

    /// Looks at old images after an apply that may have kept some.
    pub(super) fn versions_grew(&mut self, ctx: &mut Ctx<'_>) {
        self.applies_since_upkeep += 1;
        if self.applies_since_upkeep >= APPLIES_PER_LIMIT_CHECK {
            self.applies_since_upkeep = 0;
            self.need_upkeep(ctx);
        }
    }

    /// Begins a new life with the rows of this one: forgets transactions, locks, scans, copies,
    /// outcomes and old images. What has changed since will be copied. With a disk the rows are
    /// read back from there, as in any life.
    pub fn rejoin(&mut self) {
        if let Some(disk) = &self.disk {
            *self = Self { last_token: disk.last_token(), ..Self::default() };
            return;
        }
        let open: Vec<LegHandle> = self.legs.iter().map(|(handle, _)| handle).collect();
        for handle in open {
            let rows = self.legs.change(handle, Leg::take_rows);
            self.release_claims(rows);
        }
        self.legs.clear();
        self.endings.clear();
        self.waits.clear();
        self.scans.clear();
        self.doubts.clear();
        self.copies.clear();
        self.streams = Streams::default();
        self.outcomes = super::outcomes::Outcomes::default();
        self.answered.clear();
        self.grants.clear();
        self.searches = Searches::default();
        self.placed = false;
        self.unbuilt.clear();
        for (partition, replica) in &mut self.replicas {
            self.copies.expect_target(*partition);
            replica.complete_to = replica.complete_to(self.completed);
            replica.locks = store::lock_table::LockTable::new();
            replica.claims.clear();
            replica.guards.clear();
            replica.syncing = true;
            replica.streamed = None;
            replica.overtaken = Some(SlotSet::default());
            replica.leave();
            replica.partition.drop_versions(&[]);
            replica.partition.set_snapshot_floor(NO_SNAPSHOTS);
        }
        self.retained.clear();
        self.versioned.clear();
        self.stale_versions.clear();
        self.upkeep_coming = false;
        self.versions_from = Epoch(0);
        // Completion is heard of from here on, long before the rows that belong to it arrive:
        // each replica's own mark stays until it is complete again.
        self.current = Epoch(0);
        self.completed = Epoch(0);
    }

    /// A process is gone: its scans are.
    pub(super) fn link_down(&mut self, ctx: &mut Ctx<'_>, node: NodeId, incarnation: Incarnation) {
        for scan in self.scans.of_client(node, incarnation) {
            probe!(ctx, "scan: client lost");
            self.close_scan(ctx, scan);
        }
    }
}

/// Makes a replica one that is being copied, or a complete one; with the present epoch and the
/// newest one that is known to be complete.
fn set_syncing(
    replica: &mut Replica,
    copies: &mut Copies,
    syncing: bool,
    current: Epoch,
    completed: Epoch,
) {
    let partition = replica.partition.id();
    if replica.syncing && !syncing {
        // What was copied has no old images: snapshots are served from the next epoch on.
        let floor = if current == Epoch(0) { NO_SNAPSHOTS } else { current.next() };
        replica.partition.set_snapshot_floor(floor);
        copies.forget_target(partition);
        replica.active_since = completed;
        replica.overtaken = None;
    }
    if syncing && !replica.syncing {
        copies.expect_target(partition);
        replica.overtaken = Some(SlotSet::default());
    }
    replica.syncing = syncing;
}

/// A floor above every snapshot.
pub(super) const NO_SNAPSHOTS: Epoch = Epoch(u64::MAX);
/// How often the memory of old images is compared with its limit.
const APPLIES_PER_LIMIT_CHECK: u32 = 256;
