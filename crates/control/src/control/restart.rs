//! The restart of the whole cluster from what its nodes have on their disks, and of a single node
//! from what it has on its own.
//!
//! # Owns
//! What the workers of this node have stored and read back; who is back, as the leader sees it.
//! # Guarantees
//! 1. The cluster is restarted only when nobody serves any more: each member that held rows has
//!    come back as a new life, or has been silent for `start_partial_timeout` and holds no lease.
//! 2. It goes on from an epoch that in every node group a node has, which held all rows at the end.
//!    So nothing is lost that was durable.
//! 3. What a watermark calls durable is restored, or the restart waits for an order (`loss`).
//! 4. A node reads its disk back before it takes part in changes.
//! # Not here
//! What `Restart` changes (`state_machine`), the rows (`datanode::participant`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, Mutation, probe};
use model::{
    ActorKind, Address, ClusterId, Command, Epoch, Incarnation, Member, MemberStatus, NodeId,
    NodeRole, Returned, WorkerId,
};
use stdx::Instant;
use wire::{Message, NodeLife, ParticipantMessage, WorkerDisk};

use super::Control;
use crate::state_machine;

/// Rows on the disk of a worker or a node: whose, and up to which epoch all of them.
pub(super) type StoredRows = Option<(ClusterId, Epoch)>;

/// What this node's workers have on their disks.
#[derive(Debug, Default)]
pub(super) struct Restore {
    stored: BTreeMap<WorkerId, WorkerDisk>,
    /// The state in which the workers were told to read their rows back.
    ordered: bool,
    restored: BTreeSet<WorkerId>,
}

impl Restore {
    /// What the workers have found.
    pub(super) fn found(&self) -> impl Iterator<Item = &WorkerDisk> {
        self.stored.values()
    }

    /// The oldest epoch to which all workers can go back.
    pub(super) fn oldest(&self) -> Epoch {
        self.found().map(|found| found.oldest).max().unwrap_or(Epoch(0))
    }
}

impl Control {
    /// Whether what the disk has is known: a data node tells it with its first `Hello`.
    pub(super) fn disk_is_known(&self) -> bool {
        let workers = usize::from(self.workers);
        let Some(durable) = &self.durable else { return true };
        let rows = self.role == NodeRole::Management || self.restore.stored.len() == workers;
        rows && durable.is_read() && self.witness.is_read()
    }

    /// A worker has looked at its disk.
    pub(super) fn receive_worker_stored(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        worker: WorkerId,
        found: WorkerDisk,
    ) {
        if self.is_own_worker(from, worker) {
            self.restore.stored.insert(worker, found);
            self.begin(ctx);
        }
    }

    /// The rows that all workers of this node have.
    pub(super) fn stored_rows(&self) -> StoredRows {
        let mut all = self.restore.found().map(|found| found.rows);
        let first = all.next()??;
        let both = |rows: (ClusterId, Epoch), other: StoredRows| {
            other.filter(|other| other.0 == rows.0).map(|other| (rows.0, rows.1.min(other.1)))
        };
        all.try_fold(first, both)
    }

    /// Has the workers read their rows back when the node has become a member.
    pub(super) fn order_restore(&mut self, ctx: &mut Ctx<'_>) {
        let Some(status) = self.own_member().map(|member| member.status) else { return };
        let (data, disk) = (self.role == NodeRole::Data, self.durable.is_some());
        if self.restore.ordered || !data || !disk {
            return;
        }
        self.restore.ordered = true;
        let through = match status {
            MemberStatus::Restoring => *self.state.restarts.last().expect("a restart is logged"),
            _ => self
                .stored_rows()
                .filter(|(cluster, _)| *cluster == self.state.id)
                .map_or(Epoch(0), |(_, saved)| self.state.restorable(saved)),
        };
        let restore = Message::Participant(ParticipantMessage::Restore { through });
        self.tell_workers(ctx, ActorKind::Participant, &restore);
    }

    /// A worker has read its rows back.
    pub(super) fn receive_worker_restored(&mut self, from: Address, worker: WorkerId) {
        if self.is_own_worker(from, worker) {
            self.restore.restored.insert(worker);
        }
    }

    /// Whether this node has read back all that counts of its disk.
    pub(super) fn is_restored(&self) -> bool {
        let all = self.restore.restored.len() == usize::from(self.workers);
        self.durable.is_none() || self.role == NodeRole::Management || all
    }

    /// Whether the cluster can only go on from what is on disks: nobody has its rows in memory.
    pub(super) fn awaits_restart(&self) -> bool {
        if self.durable.is_none() || self.state.slots.is_empty() {
            return false;
        }
        let alive = |node: NodeId, member: &Member| {
            if node == self.node {
                member.incarnation == self.incarnation
            } else {
                self.is_heard_in_term(node)
            }
        };
        self.state.stopped || !self.state.data_members().any(|(node, member)| alive(node, member))
    }

    /// The leader of a cluster that awaits its restart: logs it when those that are needed are
    /// back.
    pub(super) fn restart(&mut self, ctx: &mut Ctx<'_>) {
        let generation = self.state.restarts.len() as u32 + 1;
        let proposed =
            |command: &std::sync::Arc<Command>| matches!(**command, Command::Restart { .. });
        if self.consensus.pending().any(proposed) {
            return;
        }
        let back = self.back(ctx.now());
        let sources: BTreeSet<NodeId> =
            self.state.used_slots().flat_map(|slot| slot.sources()).collect();
        let missing = sources.iter().any(|node| !back.contains_key(node));
        let waited = ctx.now().since(self.led_since()) >= self.config.start_partial_timeout;
        let lent =
            |node: &NodeId| !back.contains_key(node) && self.may_hold_old_lease(ctx.now(), *node);
        if (missing && !waited) || self.state.members.keys().any(lent) {
            return;
        }
        let plan = self.plan_restart(ctx, &back);
        let epoch = plan.as_ref().map(|(epoch, _)| *epoch);
        if epoch.is_none() {
            probe!(ctx, "control: restart waits for the rows of a node group");
        }
        if !self.may_restart_from(ctx, &back, epoch) {
            return;
        }
        let Some((epoch, members)) = plan else { return };
        if missing {
            probe!(ctx, "control: restart without all members");
        }
        self.propose(Command::Restart { generation, epoch, members });
    }

    /// Nodes that have come back as new lives, this one included.
    fn back(&self, now: Instant) -> BTreeMap<NodeId, NodeLife> {
        let fresh = self.config.heartbeat_interval.times(8);
        let others = self.lives.iter().filter(|(_, heard)| now.since(heard.heard_at) < fresh);
        let mut back: BTreeMap<NodeId, NodeLife> =
            others.map(|(node, heard)| (*node, heard.life)).collect();
        back.insert(self.node, self.own_life());
        let is_new = |node: NodeId, life: &NodeLife| {
            self.state.incarnations.get(&node).is_none_or(|last| life.incarnation > *last)
                || life.role == NodeRole::Management
        };
        back.retain(|node, life| is_new(*node, life));
        back
    }

    /// The newest epoch that some node of each group has, and all members that have it. None when a
    /// group has nobody.
    fn plan_restart(
        &self,
        ctx: &Ctx<'_>,
        back: &BTreeMap<NodeId, NodeLife>,
    ) -> Option<(Epoch, Vec<Returned>)> {
        let forgets = self.accepts(Epoch(0));
        let saved = |node: NodeId| {
            let rows = back.get(&node)?.rows.filter(|(cluster, _)| *cluster == self.state.id);
            let saved = rows.map(|(_, saved)| self.state.restorable(saved));
            // By order the cluster goes on although nothing is left.
            if forgets { saved.or(Some(Epoch(0))) } else { saved }
        };
        let reaches = |node: NodeId, epoch: Epoch| {
            epoch == Epoch(0) || back.get(&node).is_some_and(|life| life.oldest <= epoch)
        };
        let newest = |slot: &model::cluster::PlacementSlot| slot.sources().filter_map(saved).max();
        let newest: Option<Vec<Epoch>> = self.state.used_slots().map(newest).collect();
        let newest = newest?.into_iter();
        let epoch =
            if ctx.mutated(Mutation::RestartTakesNewest) { newest.max()? } else { newest.min()? };
        let holds = |node: NodeId| {
            let source = state_machine::has_all_rows(&self.state, node);
            let has = saved(node).is_some_and(|saved| saved >= epoch);
            source && has && reaches(node, epoch)
        };
        let covers = |slot: &model::cluster::PlacementSlot| slot.sources().any(holds);
        if !self.state.used_slots().all(covers) {
            return None;
        }
        let mut members = Vec::new();
        for (node, life) in back {
            if life.role == NodeRole::Management || holds(*node) {
                members.push(Returned {
                    node: *node,
                    incarnation: life.incarnation,
                    voter: life.voter,
                    role: life.role,
                    workers: life.workers,
                });
            }
        }
        // Management members that are alive have not gone, so they do not say `Hello`.
        for (node, member) in &self.state.members {
            let alive = member.role == NodeRole::Management && self.is_heard(ctx.now(), *node);
            if alive && members.iter().all(|one| one.node != *node) {
                members.push(Returned {
                    node: *node,
                    incarnation: member.incarnation,
                    voter: member.voter,
                    role: member.role,
                    workers: member.workers,
                });
            }
        }
        Some((epoch, members))
    }

    /// Lets clients in again when all members of a restart have their rows.
    pub(super) fn reopen(&mut self, now: Instant) {
        let restored = |node: NodeId| self.is_heard(now, node) && self.has_restored(node);
        let restoring = |m: &Member| m.status == MemberStatus::Restoring;
        if self.state.data_members().all(|(node, m)| !restoring(m) || restored(node)) {
            let generation = self.state.restarts.len() as u32;
            self.propose(Command::Reopen { generation });
        }
    }

    /// The life of `node` that a message of the consensus comes from.
    pub(super) fn voter_of_life(&self, node: NodeId, incarnation: Incarnation) -> Incarnation {
        let member = self.state.member(node, incarnation).map(|member| member.voter);
        let heard = self.lives.get(&node).map(|heard| heard.life);
        let life = heard.filter(|life| life.incarnation == incarnation);
        member.or(life.map(|life| life.voter)).unwrap_or(incarnation)
    }

    /// Whether this node goes on, whatever becomes of the cluster: what it knows is needed when the
    /// cluster is restarted.
    pub(super) fn outlives_cluster(&self) -> bool {
        let stranger = self.resumed && self.own_member().is_none();
        self.durable.is_some() && (self.role == NodeRole::Management || stranger)
    }
}
