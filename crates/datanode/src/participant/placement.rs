//! Which replicas this worker holds: follows the cluster state; keeps rows over a rejoin; upkeep
//! of indexes and old row images.

use std::sync::Arc;

use actor::{Ctx, Mutation, probe};
use model::{ClusterState, Epoch, ErrorCode, Incarnation, NodeId, PartitionId, Refusal, Table};
use wire::{Continue, Message};

use super::Participant;
use super::deadlock::Searches;
use super::leg::{Leg, LegHandle};
use super::replica::Replica;
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
        self.drop_lost(ctx, &cluster);
        if !cluster.slots.is_empty() {
            for table in cluster.tables.values() {
                for partition in cluster.partitions(table) {
                    if cluster.participant(partition, ctx.node()) == ctx.me() {
                        self.place(ctx, &cluster, table, partition);
                    }
                }
            }
        }
        let me = ctx.me();
        for replica in self.replicas.values_mut() {
            replica.follow(&cluster, me);
        }
        self.memory.forget();
        self.copies_changed(ctx);
        self.need_upkeep(ctx);
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
        let touched: Vec<LegHandle> = self.legs.iter().map(|(handle, _)| handle).collect();
        for handle in touched {
            self.legs.change(handle, |leg| leg.leave_partition(partition));
        }
        self.copies.forget_partition(partition);
        if let Some(replica) = self.replicas.remove(&partition) {
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
            let replica = Replica::new(partition, table.clone(), syncing);
            if let Some(disk) = &mut self.disk {
                disk.placed(&replica.stored, partition);
            }
            self.replicas.insert(partition, replica);
            return;
        };
        if !Arc::ptr_eq(replica.partition.table(), table) {
            let remains = replica.partition.set_table(table.clone());
            if !remains.is_empty() {
                self.remains.push_back(remains);
            }
        }
        if replica.syncing && !syncing {
            // What was copied has no old images: snapshots are served from the next epoch on.
            let current = ctx.view().epochs.current;
            let floor = if current == Epoch(0) { NO_SNAPSHOTS } else { current.next() };
            replica.partition.set_snapshot_floor(floor);
            self.copies.forget_target(partition);
        }
        replica.syncing = syncing;
    }

    /// Notes what the worker's coordinator has learnt about epochs.
    pub(super) fn observe_epochs(&mut self, ctx: &mut Ctx<'_>) {
        let (current, completed) = (ctx.view().epochs.current, ctx.view().epochs.completed);
        if completed > self.completed {
            self.completed = completed;
            for replica in self.replicas.values_mut().filter(|r| !r.syncing) {
                replica.complete_to = completed;
            }
        }
        if current > self.current {
            let first = self.current == Epoch(0);
            self.current = current;
            for replica in self.replicas.values_mut() {
                if first && replica.partition.snapshot_floor() == NO_SNAPSHOTS {
                    replica.partition.set_snapshot_floor(current.next());
                }
            }
        }
        if ctx.view().epochs.retained != self.retained {
            self.retained = ctx.view().epochs.retained.clone();
            self.stale_versions = self.replicas.keys().copied().collect();
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
        let retained = self.retained_now(ctx);
        for _ in 0..DROPS_PER_TURN {
            let Some(partition) = self.stale_versions.pop_first() else { break };
            let Some(replica) = self.replicas.get_mut(&partition) else { continue };
            if !replica.partition.drop_versions(&retained) {
                self.stale_versions.insert(partition);
                break;
            }
        }
        let step = ctx.step_rows(Continue::Upkeep);
        self.memory.forget();
        // The restore asks for upkeep when it has read all rows.
        let reading = self.disk.as_ref().is_some_and(|disk| disk.reads_rows());
        let mut replicas = self.replicas.values_mut().filter(|_| !reading);
        if let Some(replica) = replicas.find(|replica| replica.partition.needs_indexes()) {
            probe!(ctx, "participant: step of an index build");
            replica.partition.build_indexes(step);
        }
        let missing = !reading && self.replicas.values().any(|r| r.partition.needs_indexes());
        if missing || !self.stale_versions.is_empty() || !self.remains.is_empty() {
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

    /// When old images take too much memory, gives up the snapshots that need them.
    fn limit_versions(&mut self, ctx: &mut Ctx<'_>) {
        let bytes: u64 = self.replicas.values().map(|r| r.partition.version_bytes()).sum();
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
        self.stale_versions = self.replicas.keys().copied().collect();
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
        self.outcomes = super::outcomes::Outcomes::default();
        self.answered.clear();
        self.grants.clear();
        self.searches = Searches::default();
        for replica in self.replicas.values_mut() {
            replica.locks = store::lock_table::LockTable::new();
            replica.claims.clear();
            replica.syncing = true;
            replica.leave();
            replica.partition.drop_versions(&[]);
            replica.partition.set_snapshot_floor(NO_SNAPSHOTS);
        }
        self.retained.clear();
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

/// A floor above every snapshot.
pub(super) const NO_SNAPSHOTS: Epoch = Epoch(u64::MAX);
/// How often the memory of old images is compared with its limit.
const APPLIES_PER_LIMIT_CHECK: u32 = 256;
