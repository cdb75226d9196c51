//! One-phase commit: changes of one chain that are sent with their commit.
//!
//! A batch that is all of its transaction, commits with success and has all its changes in one
//! chain is given its epoch before it is sent. The replicas commit it when all of them have staged
//! it (`participant::one_phase`), and the primary, which hears of that last, says so.
//!
//! # Guarantees
//! 1. What was sent with its commit is not aborted on anyone's wish: it may be committed already.
//!    Only when a replica says that it has not staged it, and so nobody has committed, is it an
//!    open transaction again, and what it was to be aborted for in the meantime counts.
//! 2. When a replica or the coordinator dies, the rest of the chain decides.
//! # Not here
//! Everything else that begins, commits or aborts: `execute`, `finish`.

use actor::{Ctx, fault_point, probe};
use model::{ErrorCode, Refusal, TransactionId};
use stdx::Few;
use wire::{
    Chain, LegId, Message, Operation, OperationResult, ParticipantMessage, PreparedOperation,
    TransactionState,
};

use super::Coordinator;
use super::epoch::EpochSide;
use super::state::{Batch, Phase, Record, number};

/// The protocol version in which all members know these messages.
const SINCE: u16 = 12;

/// The only leg of such a transaction.
const LEG: LegId = LegId(0);

/// Whether the batch under way, of which `operations` are those of a leg, can be sent with its
/// commit now.
pub(super) fn takes_commit(
    ctx: &Ctx<'_>,
    epochs: &EpochSide,
    record: &Record,
    operations: &[Operation],
) -> bool {
    let Some(Batch::Execute { commit: true, progress, .. }) = &record.batch else { return false };
    let plain = |operation: &Operation| {
        let table = ctx.cluster().tables.get(&operation.partition.table);
        table.is_some_and(|table| !table.is_followed())
    };
    record.legs.len() == 1
        && progress.len() == operations.len()
        && ctx.may_serve()
        && ctx.protocol() >= SINCE
        && !epochs.holds_back(ctx)
        && operations.iter().any(|operation| operation.kind.is_write())
        && operations.iter().all(plain)
}

impl Coordinator {
    /// Sends the operations of the only leg, to be committed when all its replicas have them.
    pub(super) fn send_with_commit(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        operations: Few<Operation>,
    ) {
        let epoch = ctx.view().epochs.current;
        self.epochs.begin(epoch);
        let record = self.records.get_mut(&id).expect("a record that has been routed");
        record.become_phase(Phase::Delegated(epoch));
        record.commit_since = Some(ctx.now());
        let lock_wait = record.lock_wait;
        let leg = record.leg_mut(LEG).expect("its only leg");
        leg.replicated = true;
        let chain = leg.chain;
        let message = ParticipantMessage::PrepareAndCommit {
            transaction: id,
            leg: LEG,
            chain,
            operations,
            lock_wait,
            epoch,
        };
        ctx.send(chain[0], Message::Participant(message));
        fault_point!(ctx, "coordinator: changes sent with their commit");
        self.epochs.end_quiet(ctx, epoch);
    }

    /// The primary has applied what was sent with its commit, and so have all other replicas. If
    /// the primary has died the results went with it: its client learns of the commit alone.
    pub(super) fn one_phase_committed(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        mut results: Few<PreparedOperation>,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Phase::Delegated(epoch) = record.phase else { return };
        record.become_phase(Phase::Completing(epoch));
        if let Some(leg) = record.leg_mut(LEG) {
            leg.committed = true;
        }
        if let Some(Batch::Execute { request, .. }) = record.batch.take() {
            results.sort_unstable_by_key(|prepared| prepared.number);
            let result = |prepared: PreparedOperation| OperationResult {
                number: number::client(prepared.number),
                result: prepared.result,
            };
            let results = results.into_iter().map(result).collect();
            record.batch = Some(Batch::End { request, results });
        }
        self.finished(ctx, id, TransactionState::Committed(epoch));
    }

    /// A transaction that was sent with its commit was not committed so, and will not be: it is
    /// open, or aborted if that was wanted meanwhile.
    pub(super) fn leave_one_phase(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let Phase::Delegated(epoch) = record.phase else { return };
        probe!(ctx, "coordinator: commit in one phase not made");
        record.become_phase(Phase::Open);
        let given_up = record.given_up.take();
        if record.taken_from.is_none() {
            self.epochs.end(ctx, epoch);
        }
        if let Some(refusal) = given_up {
            self.abort_with(ctx, id, refusal, None);
        }
    }

    /// Asks the rest of a chain, of which a replica or the coordinator has died, whether it has
    /// what was sent with its commit; the last one commits it then.
    pub(super) fn ask_staged(&mut self, ctx: &mut Ctx<'_>, id: TransactionId) {
        let record = self.records.get_mut(&id).expect("a record that is asked for");
        let leg = record.leg_mut(LEG).expect("its only leg");
        leg.attempt += 1;
        let (mut down, attempt) = (leg.chain, leg.attempt);
        // The whole chain is dead: the cluster is stopping.
        let Some(first) = down.pop_first() else { return };
        let message = ParticipantMessage::CommitIfStaged {
            transaction: id,
            leg: LEG,
            up: Chain::EMPTY,
            down,
            coordinator: ctx.me(),
            attempt,
        };
        ctx.send(first, Message::Participant(message));
        fault_point!(ctx, "coordinator: rest of a chain asked");
    }

    /// A replica of the chain has not staged the changes, so none has committed them.
    pub(super) fn not_staged(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: TransactionId,
        leg: LegId,
        attempt: u32,
    ) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let asked = record.leg_mut(leg).is_some_and(|leg| leg.attempt == attempt);
        if asked && matches!(record.phase, Phase::Delegated(_)) {
            // One taken over was not given up by anybody yet.
            let refusal = Refusal::new(ErrorCode::NodeFailed, "before all its replicas had it");
            self.abort_with(ctx, id, refusal, None);
            self.leave_one_phase(ctx, id);
        }
    }
}
