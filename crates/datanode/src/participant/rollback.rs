//! Rollback: some operations of a transaction are undone while it goes on.
//!
//! Of a large transaction they are undone in steps, so that other work of the worker has turns in
//! between. A replica passes the order on when it is through. So the coordinator hears of the end
//! when all replicas are through, and sends no further operation of the leg before that.
//!
//! # Guarantees
//! 1. What is undone takes time in proportion to itself, not to the transaction.
//! 2. A transaction that is aborted meanwhile is given back as it is then; nobody waits for the
//!    rollback any more.
//! # Not here
//! The order of legs that go on in steps (`ending`), which images a row has (`leg`).

use actor::{Ctx, Mutation, fault_point, probe};
use model::{ActorKind, Address, ErrorCode, OperationNumber, Refusal, TransactionId};
use wire::{
    Chain, Continue, CoordinatorMessage, LegId, Message, ParticipantMessage, RollbackScope,
};

use super::Participant;
use super::leg::{LegHandle, Status};
use super::waits::Waiting;

/// A rollback on its way down a chain.
#[derive(Debug)]
pub(super) struct RollbackOrder {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    pub(super) scope: RollbackScope,
    /// Who is still to be told, next one first.
    pub(super) down: Chain,
    pub(super) attempt: u32,
}

/// A rollback to a savepoint that is under way here.
#[derive(Debug)]
pub(super) struct RollBack {
    savepoint: OperationNumber,
    order: RollbackOrder,
}

impl Participant {
    /// Undoes some operations of a leg; its locks and slots stay until it ends.
    pub(super) fn rollback(&mut self, ctx: &mut Ctx<'_>, from: Address, order: RollbackOrder) {
        let Some(handle) = self.legs.find(order.transaction, order.leg) else {
            // All its operations were refused before they ran. A backup is only told about legs
            // it knows, unless the transaction is being aborted.
            if from.actor == ActorKind::Coordinator {
                answer(ctx, from, &order, false);
            } else {
                probe!(ctx, "participant: rollback of a leg that has ended");
            }
            return;
        };
        let leg = self.legs.leg(handle);
        if leg.ending.is_some() {
            probe!(ctx, "participant: rollback of a leg that is ending");
            return;
        }
        let transaction = order.transaction;
        assert_eq!(leg.status, Status::Open, "{transaction}: rolled back when decided");
        match order.scope {
            RollbackScope::After(savepoint) => {
                self.end_waits_after(ctx, handle, savepoint);
                let most = ctx.config().apply_step_bytes;
                let budget = ctx.step_units(Continue::Applies, most).into();
                self.roll_back_some(ctx, handle, RollBack { savepoint, order }, budget);
            }
            RollbackScope::Only(number) => {
                let primary = leg.chain.first() == Some(&ctx.me());
                if self.legs.change(handle, |leg| leg.undo_only(number)) {
                    return self.rolled_back(ctx, handle, order);
                }
                if !primary {
                    return ctx.refuse(from, "replicas agree about a rollback");
                }
                probe!(ctx, "participant: single operation not undone");
                let coordinator = self.legs.leg(handle).coordinator.address;
                answer(ctx, coordinator, &order, true);
            }
        }
    }

    /// One step of a rollback to a savepoint.
    pub(super) fn roll_back_some(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        rest: RollBack,
        budget: u64,
    ) {
        let is_over = self.legs.change(handle, |leg| leg.undo_after(rest.savepoint, budget));
        if is_over || ctx.mutated(Mutation::LargeRollbacksEndEarly) {
            return self.rolled_back(ctx, handle, rest.order);
        }
        probe!(ctx, "participant: large leg is rolled back in steps");
        fault_point!(ctx, "participant: between two steps of a rollback");
        self.file_roll_back(ctx, handle, rest);
    }

    /// A leg is rolled back here: the next replica is told, or the coordinator.
    fn rolled_back(&mut self, ctx: &mut Ctx<'_>, handle: LegHandle, mut order: RollbackOrder) {
        let leg = self.legs.leg(handle);
        // Backups that were sent no change do not know the leg.
        if !leg.replicated || ctx.mutated(Mutation::RollbackOnPrimaryOnly) {
            order.down = Chain::EMPTY;
        }
        let coordinator = leg.coordinator.address;
        fault_point!(ctx, "participant: rolled back, before it passes it on");
        let Some(next) = order.down.pop_first() else {
            return answer(ctx, coordinator, &order, false);
        };
        let RollbackOrder { transaction, leg, scope, down, attempt } = order;
        let rollback = ParticipantMessage::Rollback { transaction, leg, scope, down, attempt };
        ctx.send(next, Message::Participant(rollback));
    }

    /// Takes operations out of their queues that are undone before they ran.
    fn end_waits_after(
        &mut self,
        ctx: &mut Ctx<'_>,
        handle: LegHandle,
        savepoint: OperationNumber,
    ) {
        let tickets: Vec<(u64, OperationNumber)> = self
            .waits
            .of(handle)
            .filter_map(|(ticket, wait)| match &wait.what {
                Waiting::Operation(operation) => Some((ticket, operation.number)),
                Waiting::Scan(_) => None,
            })
            .filter(|(_, number)| *number > savepoint)
            .collect();
        let mut rows = Vec::new();
        for (ticket, number) in tickets {
            let wait = self.waits.remove(handle, ticket).expect("listed above");
            self.leave_queue(handle, ticket, &wait);
            let refusal = Refusal::new(ErrorCode::Internal, "rolled back while it waited");
            self.answers(handle).refuse(number, refusal);
            rows.push((wait.partition, wait.hash));
        }
        for (partition, hash) in rows {
            self.run_followers(ctx, handle, partition, hash);
        }
    }
}

/// Tells a coordinator that all replicas have rolled back, or that the primary could not.
fn answer(ctx: &mut Ctx<'_>, to: Address, order: &RollbackOrder, refused: bool) {
    let RollbackOrder { transaction, leg, attempt, .. } = *order;
    let done = CoordinatorMessage::RolledBack { transaction, leg, refused, attempt };
    ctx.send(to, Message::Coordinator(done));
}
