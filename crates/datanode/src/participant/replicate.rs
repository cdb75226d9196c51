//! Replicate at a backup: stages what the primary has computed and passes it on.
//!
//! The primary has serialised the writers, so there is no lock queue here: the exclusive lock of a
//! staged row is taken at once, so that a promoted backup already holds it.

use actor::{Ctx, Tally, fault_point, probe};
use model::{Address, ClusterState, Epoch, ErrorCode, PartitionId, Refusal, RowId, TransactionId};
use stdx::Few;
use store::lock_table::{LockAnswer, LockKey, LockOwner, Mode as LockMode};
use wire::{
    Chain, CoordinatorMessage, CoordinatorRef, LegId, Message, ParticipantMessage,
    PreparedOperation, StagedWrite,
};

use super::Participant;
use super::distrust::SLOT_BYTES;
use super::finish::CommitOrder;
use super::leg::{Image, LegHandle, Place, ROW_BYTES, Status, Touch};
use super::prepare::send_prepared;

/// New slots of a change that are not counted apart: a row is counted with its slot.
const SLOTS_AT_ONCE: u32 = 4_096;

/// What the last replica of a chain does when it has staged changes.
pub(super) enum Then {
    /// Answers the coordinator with these results.
    Answer(Few<PreparedOperation>),
    /// Commits them in this epoch.
    Commit(Epoch),
}

/// Changes of a leg on their way down a chain.
pub(super) struct Changes {
    pub(super) coordinator: CoordinatorRef,
    pub(super) chain: Chain,
    pub(super) writes: Few<StagedWrite>,
    pub(super) then: Then,
}

impl Participant {
    /// Stages changes the primary has made and passes them down the chain.
    pub(super) fn replicate(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (TransactionId, LegId),
        changes: Changes,
    ) {
        let Changes { coordinator, chain, writes, then } = changes;
        let position = chain.iter().position(|address| *address == ctx.me());
        let position = position.expect("changes are sent to the replicas of their chain");
        assert!(position > 0, "{}: a primary is sent its own changes", name.0);
        let life = (coordinator.address.node, coordinator.incarnation);
        if ctx.cluster().member(life.0, life.1).is_none() {
            // This worker has reported, or will report, that it does not know the change: the
            // takeover aborts the transaction, and nothing may appear after that.
            probe!(ctx, "participant: change of a dead coordinator dropped");
            return;
        }
        if !writes.iter().all(|write| self.chain_lives(ctx.cluster(), write.partition, &chain)) {
            // A replica of the chain is dead and this change is not prepared, so the coordinator
            // aborts. A promoted primary may have given the row to others already.
            probe!(ctx, "participant: change of a broken chain dropped");
            return;
        }
        let disk_full = self.disk.as_ref().is_some_and(|disk| disk.is_full());
        let room = if disk_full {
            Err(Refusal::new(ErrorCode::DiskFull, ctx.me().to_string()))
        } else {
            self.room_for(ctx, &writes)
        };
        if let Err(refusal) = room {
            probe!(ctx, "participant: memory or disk full at a backup");
            ctx.count(if disk_full { Tally::DiskFull } else { Tally::MemoryFull });
            let refused = CoordinatorMessage::PrepareRefused { transaction: name.0, refusal };
            return ctx.send(coordinator.address, Message::Coordinator(refused));
        }
        let Some(handle) = self.leg_for(ctx, name, chain, coordinator) else {
            let refusal = ErrorCode::UnknownTransaction.into();
            let refused = CoordinatorMessage::PrepareRefused { transaction: name.0, refusal };
            return ctx.send(coordinator.address, Message::Coordinator(refused));
        };
        // The last one needs them no more.
        let passed_on = if position + 1 < chain.len() { writes.clone() } else { Few::new() };
        for write in writes {
            if !self.stage_at_backup(ctx, handle, write) {
                return ctx.refuse(from, "a slot keeps its key as long as a transaction has it");
            }
        }
        fault_point!(ctx, "participant: staged at a backup");
        let leg = self.legs.leg_mut(handle);
        leg.replicated = true;
        if let Then::Commit(epoch) = then {
            leg.commits_in = Some(epoch);
            self.doubts.begin(handle);
        }
        let changes = Changes { coordinator, chain, writes: passed_on, then };
        self.pass_on(ctx, name.0, name.1, position, changes);
    }

    /// Sends changes that are staged here, at this position of their chain, to its next replica.
    /// The last one, which is given none, does what is to be done then.
    pub(super) fn pass_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        transaction: TransactionId,
        leg: LegId,
        position: usize,
        changes: Changes,
    ) {
        let Changes { coordinator, chain, writes, then } = changes;
        let next = chain.get(position + 1).copied();
        let message = match (next, then) {
            (Some(_), Then::Answer(results)) => ParticipantMessage::Replicate {
                transaction,
                leg,
                coordinator,
                chain,
                writes,
                results,
            },
            (Some(_), Then::Commit(epoch)) => ParticipantMessage::ReplicateAndCommit {
                transaction,
                leg,
                coordinator,
                chain,
                writes,
                epoch,
            },
            (None, Then::Answer(results)) => {
                return send_prepared(ctx, coordinator.address, (transaction, leg), results);
            }
            (None, Then::Commit(epoch)) => {
                let (up, keep) = (chain[..position].into(), false);
                let coordinator = coordinator.address;
                let attempt = 0;
                let order = CommitOrder { transaction, leg, epoch, up, keep, coordinator, attempt };
                return self.commit_staged(ctx, order);
            }
        };
        ctx.send(next.expect("matched above"), Message::Participant(message));
    }

    /// Whether the memory limits leave room.
    fn room_for(&mut self, ctx: &Ctx<'_>, writes: &[StagedWrite]) -> Result<(), Refusal> {
        let (mut needed, mut grows) = (0, false);
        for write in writes {
            needed += ROW_BYTES + write.after.as_ref().map_or(0, |after| after.0.len() as u64);
            let Some(replica) = self.replicas.get(&write.partition) else { continue };
            // Slots up to the one that the primary has picked come with it.
            let slots = write.row_id.0.saturating_sub(replica.partition.slot_count());
            if slots > SLOTS_AT_ONCE {
                needed += u64::from(slots) * SLOT_BYTES;
            }
            let Some(after) = &write.after else { continue };
            let before = replica.partition.row(write.row_id).map_or(0, <[u8]>::len);
            grows |= after.0.len() > before;
        }
        self.has_room(ctx, needed, grows)
    }

    /// Stages a change. False, and it is not, if the leg has another key in its slot.
    fn stage_at_backup(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        write: StagedWrite,
    ) -> bool {
        let StagedWrite { number, partition, row_id, key, after, fresh } = write;
        let Some(mut replica) = self.replicas.get_mut(&partition) else {
            probe!(ctx, "participant: change of a dropped table");
            return true;
        };
        let hash = key.local_hash();
        let holder = replica.claims.get(row_id);
        if holder == Some(handle) {
            let touched = self.legs.leg(handle).rows.at(Place { partition, row_id });
            if touched.is_some_and(|row| row.hash != hash) {
                return false;
            }
        }
        let (owner, lock) = (LockOwner(handle.0), LockKey(hash));
        let slot_is_free = holder.is_none_or(|other| other == handle);
        let mut acquired = None;
        if slot_is_free {
            acquired = replica.locks.acquire(lock, owner, LockMode::Exclusive);
        }
        if acquired.is_none() {
            self.make_way(ctx, handle, partition, row_id, hash);
            replica = self.replicas.get_mut(&partition).expect("checked above");
            let ticket = number.0;
            let answer = replica.locks.request(lock, owner, LockMode::Exclusive, ticket);
            assert_eq!(answer, LockAnswer::Granted, "{partition} {row_id}: lock at a backup");
        }
        let claimed = replica.claims.claim(row_id, handle);
        assert!(claimed.is_none_or(|by| by == handle), "{partition} {row_id}: staged by two legs");
        let reserved = claimed.is_none() && !replica.occupied(row_id);
        if reserved {
            replica.partition.reserve(row_id);
        }
        self.memory.locked(1);
        let touch = Touch {
            row_is_new: fresh,
            reserved,
            claim_is_new: claimed.is_none(),
            lock_is_new: acquired == Some(true),
        };
        self.legs.change(handle, |leg| {
            leg.locks_in(partition);
            leg.stage(Place { partition, row_id }, &key, hash, touch, Image { number, row: after });
        });
        true
    }

    /// Whether the replicas of `chain` still are replicas of the partition, in that order and with
    /// that primary. New ones may have come in between.
    fn chain_lives(&self, cluster: &ClusterState, partition: PartitionId, chain: &Chain) -> bool {
        if self.replicas.get(&partition).is_some_and(|replica| replica.chain == *chain) {
            return true;
        }
        let replicas = &cluster.slot_of(partition).replicas;
        let mut nodes = replicas.iter().map(|replica| replica.node);
        replicas.first().map(|replica| replica.node) == chain.first().map(|address| address.node)
            && chain.iter().all(|address| nodes.any(|node| node == address.node))
    }

    /// Ends earlier legs that still have the row or its slot.
    ///
    /// The primary gave both to a later leg, so it has finished with the earlier one. If that was
    /// told to commit, every replica has heard of it, this one included: it is applied. Otherwise
    /// it was undone there, or was never prepared on a primary promoted since; either way it can
    /// only abort, and its abort is on its way along another link. Of a leg that ends in steps the
    /// row ends now, and the others in their turn.
    fn make_way(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        partition: PartitionId,
        row_id: RowId,
        hash: u64,
    ) {
        let replica = &self.replicas[&partition];
        let holders = replica.locks.holders(LockKey(hash));
        let mut others: Vec<LegHandle> =
            holders.iter().map(|(owner, _)| LegHandle(owner.0)).collect();
        others.extend(replica.claims.get(row_id));
        others.retain(|other| *other != handle);
        others.sort_unstable();
        others.dedup();
        for other in others {
            if self.ends_in_steps(ctx, other) {
                self.give_way(ctx, other, Place { partition, row_id }, hash);
                continue;
            }
            match self.legs.leg(other).status {
                Status::Committed(epoch) => {
                    probe!(ctx, "participant: backup applies early to make way");
                    self.apply(ctx, other, epoch);
                }
                Status::Open => {
                    probe!(ctx, "participant: backup undoes early to make way");
                    self.undo(ctx, other);
                }
                Status::Applied(_) => panic!("{partition} {row_id}: an applied leg holds it"),
            }
        }
    }
}
