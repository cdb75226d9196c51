//! Replicate at a backup: stages what the primary has computed and passes it on.
//!
//! The primary has serialised the writers, so there is no lock queue here: the exclusive lock of a
//! staged row is taken at once, so that a promoted backup already holds it.

use actor::{Ctx, fault_point, probe};
use model::{Address, ClusterState, ErrorCode, PartitionId, Refusal, RowId, TransactionId};
use store::lock_table::{LockAnswer, LockKey, LockOwner, Mode as LockMode};
use wire::{
    CoordinatorMessage, CoordinatorRef, LegId, Message, ParticipantMessage, PreparedOperation,
    StagedWrite,
};

use super::Participant;
use super::leg::{LegHandle, Status};
use super::prepare::send_prepared;

impl Participant {
    /// Stages changes the primary has made and passes them down the chain.
    pub(super) fn replicate(
        &mut self,
        ctx: &mut Ctx<'_>,
        name: (TransactionId, LegId),
        coordinator: CoordinatorRef,
        chain: Vec<Address>,
        writes: Vec<StagedWrite>,
        results: Vec<PreparedOperation>,
    ) {
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
        if writes.iter().any(|w| !chain_lives(ctx.cluster(), w.partition, &chain)) {
            // A replica of the chain is dead and this change is not prepared, so the coordinator
            // aborts. A promoted primary may have given the row to others already.
            probe!(ctx, "participant: change of a broken chain dropped");
            return;
        }
        if !self.room_for(ctx, &writes) {
            probe!(ctx, "participant: memory full at a backup");
            let refusal = Refusal::new(ErrorCode::MemoryFull, ctx.me().to_string());
            let refused = CoordinatorMessage::PrepareRefused { transaction: name.0, refusal };
            return ctx.send(coordinator.address, Message::Coordinator(refused));
        }
        let Some(handle) = self.leg_for(ctx, name, chain, coordinator) else { return };
        for write in &writes {
            self.stage_at_backup(ctx, handle, write);
        }
        fault_point!(ctx, "participant: staged at a backup");
        let leg = self.legs.leg_mut(handle);
        leg.replicated = true;
        let Some(next) = leg.chain.get(position + 1).copied() else {
            return send_prepared(ctx, coordinator.address, name, results);
        };
        let (transaction, chain) = (name.0, leg.chain.clone());
        let replicate = ParticipantMessage::Replicate {
            transaction,
            leg: name.1,
            coordinator,
            chain,
            writes,
            results,
        };
        ctx.send(next, Message::Participant(replicate));
    }

    /// Whether the memory limit leaves room. What does not grow a row always passes.
    fn room_for(&mut self, ctx: &Ctx<'_>, writes: &[StagedWrite]) -> bool {
        let mut needed = 0;
        for write in writes {
            let Some(after) = &write.after else { continue };
            let Some(replica) = self.replicas.get(&write.partition) else { continue };
            let before = replica.partition.row(write.row_id).map_or(0, <[u8]>::len);
            if after.0.len() > before {
                needed += after.0.len() as u64;
            }
        }
        needed == 0 || self.has_room(ctx, needed)
    }

    fn stage_at_backup(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, write: &StagedWrite) {
        let partition = write.partition;
        if !self.replicas.contains_key(&partition) {
            probe!(ctx, "participant: change of a dropped table");
            return;
        }
        let hash = write.key.local_hash();
        self.make_way(ctx, handle, partition, write.row_id, hash);
        let replica = self.replicas.get_mut(&partition).expect("checked above");
        let ticket = u64::from(write.number.0);
        let (owner, key) = (LockOwner(handle.0), LockKey(hash));
        let answer = replica.locks.request(key, owner, LockMode::Exclusive, ticket);
        assert_eq!(answer, LockAnswer::Granted, "{partition} {}: lock at a backup", write.row_id);
        let at = (partition, write.row_id);
        let known = self.legs.leg(handle).claims.contains_key(&at);
        let reserved = !known && !replica.occupied(write.row_id);
        if reserved {
            replica.partition.reserve(write.row_id);
        }
        replica.claims.insert(write.row_id, handle);
        self.legs.change(handle, |leg| {
            leg.locked.insert(partition);
            leg.claims.entry(at).or_insert(reserved);
            leg.stage(at, write.key.clone(), write.fresh, (write.number, write.after.clone()));
        });
    }

    /// Ends earlier legs that still have the row or its slot.
    ///
    /// The primary gave both to a later leg, so it has finished with the earlier one. If that was
    /// told to commit, every replica has heard of it, this one included: it is applied. Otherwise
    /// it was undone there, or was never prepared on a primary promoted since; either way it can
    /// only abort, and its abort is on its way along another link.
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
        others.extend(replica.claims.get(&row_id));
        others.retain(|other| *other != handle);
        others.sort_unstable();
        others.dedup();
        for other in others {
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

/// Whether the replicas of `chain` still are replicas of the partition, in that order and with
/// that primary. New ones may have come in between.
fn chain_lives(cluster: &ClusterState, partition: PartitionId, chain: &[Address]) -> bool {
    let replicas = &cluster.slot_of(partition).replicas;
    let mut nodes = replicas.iter().map(|replica| replica.node);
    replicas.first().map(|replica| replica.node) == chain.first().map(|address| address.node)
        && chain.iter().all(|address| nodes.any(|node| node == address.node))
}
