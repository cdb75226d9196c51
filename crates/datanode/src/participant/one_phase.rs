//! One-phase commit: changes that come with the order to commit them.
//!
//! # Owns
//! What was committed in this way of late.
//! # Guarantees
//! 1. The changes are committed when the last replica of their chain has staged them: all others
//!    have by then, so whoever takes the transaction over finds them staged or applied at every
//!    replica that lives, and commits them too. Therefore each applies them as soon as it is told.
//! 2. A replica that has applied them knows so until their epoch is complete, which it cannot be
//!    before the transaction is over.
//! 3. No worker commits so in an epoch that is older than one it has been prepared for. Locks that
//!    were released here were released by transactions of older or the same epochs.
//! # Not here
//! When a coordinator asks for it, and what it does when a replica dies (`coordinator::one_phase`).

use std::collections::VecDeque;

use actor::{Ctx, fault_point, probe};
use model::{Address, Epoch, TransactionId};
use stdx::Few;
use wire::{
    Besides, Chain, CoordinatorMessage, LegId, Message, ParticipantMessage, PreparedOperation,
};

use super::Participant;
use super::ending::After;
use super::finish::CommitOrder;
use super::leg::{LegHandle, Status};
use super::prepare::{Preparation, send_prepared};

/// Transactions that this replica has committed without a word of their coordinator, by the order
/// in which it did.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    recent: VecDeque<(Epoch, TransactionId)>,
}

impl Decisions {
    /// Notes a commit; those of complete epochs are forgotten.
    fn note(&mut self, transaction: TransactionId, epoch: Epoch, completed: Epoch) {
        while self.recent.front().is_some_and(|(epoch, _)| *epoch <= completed) {
            self.recent.pop_front();
        }
        self.recent.push_back((epoch, transaction));
    }

    /// In which epoch a transaction was committed, unless that is long over. Asked when a replica
    /// has died, so it may take its time.
    fn epoch_of(&self, transaction: TransactionId) -> Option<Epoch> {
        let found = self.recent.iter().find(|(_, decided)| *decided == transaction);
        found.map(|(epoch, _)| *epoch)
    }
}

/// The question whether the rest of a chain has staged a leg, on its way down.
pub(super) struct StagedQuestion {
    pub(super) transaction: TransactionId,
    pub(super) leg: LegId,
    /// Who has, the primary first.
    pub(super) up: Chain,
    /// Who is still to be asked after the receiver, next one first.
    pub(super) down: Chain,
    pub(super) coordinator: Address,
    pub(super) attempt: u32,
}

impl Participant {
    /// Runs operations as their primary and has them committed by the last of the chain; says so
    /// when that cannot be, in which case they are prepared as all others.
    pub(super) fn prepare_and_commit(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        name: (TransactionId, LegId),
        asked: Preparation,
        epoch: Epoch,
    ) {
        let count = asked.operations.len();
        // Nothing was sent of the transaction before, and nothing else is.
        self.prepare(ctx, from, name, asked, Besides::Nothing);
        let leg = self.legs.find(name.0, name.1);
        match leg.filter(|leg| self.commits_at_once(ctx, *leg, count, epoch)) {
            Some(handle) => {
                let leg = self.legs.leg_mut(handle);
                leg.commits_in = Some(epoch);
                leg.results = leg.answers.take_results();
                // The last replica shows the changes first, as soon as they have come there.
                self.doubts.begin(handle);
            }
            None => {
                probe!(ctx, "participant: commit is left to the coordinator");
                send_prepared(ctx, from, name, Few::new());
            }
        }
    }

    /// Whether all `count` operations of a leg have succeeded in this turn, need no entries of
    /// hidden tables, and may be committed in this epoch.
    fn commits_at_once(&self, ctx: &Ctx<'_>, leg: LegHandle, count: usize, epoch: Epoch) -> bool {
        self.legs.leg(leg).answers.are_final(count) && epoch >= ctx.view().epochs.announced
    }

    /// All replicas of the chain have the changes: applies them and passes that on.
    pub(super) fn commit_staged(&mut self, ctx: &mut Ctx<'_>, order: CommitOrder) {
        self.record_outcome(ctx, order.transaction, order.epoch);
        let completed = ctx.view().epochs.completed;
        self.decisions.note(order.transaction, order.epoch, completed);
        match self.legs.find(order.transaction, order.leg) {
            Some(handle) => {
                let results = std::mem::take(&mut self.legs.leg_mut(handle).results);
                let epoch = order.epoch;
                self.apply_and_then(ctx, handle, epoch, false, After::Staged(order, results));
            }
            None => {
                probe!(ctx, "participant: staged commit of an unknown leg");
                self.pass_staged_on(ctx, order, Few::new());
            }
        }
    }

    /// A commit in one phase is applied here: the next replica up the chain is told, or the
    /// coordinator with the results.
    #[inline]
    pub(super) fn pass_staged_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        mut order: CommitOrder,
        results: Few<PreparedOperation>,
    ) {
        fault_point!(ctx, "participant: staged commit applied, before it is passed on");
        let next = order.up.pop();
        let CommitOrder { transaction, leg, epoch, up, coordinator, attempt, .. } = order;
        match next {
            Some(next) => {
                let commit = ParticipantMessage::CommitStaged {
                    transaction,
                    leg,
                    epoch,
                    up,
                    coordinator,
                    attempt,
                };
                ctx.send(next, Message::Participant(commit));
            }
            None => {
                let done = CoordinatorMessage::Committed { transaction, leg, attempt, results };
                ctx.send(coordinator, Message::Coordinator(done));
            }
        }
    }

    /// A replica of the chain or the coordinator has died: commits if all others have the changes.
    pub(super) fn commit_if_staged(&mut self, ctx: &mut Ctx<'_>, mut question: StagedQuestion) {
        let (transaction, leg) = (question.transaction, question.leg);
        let handle = self.legs.find(transaction, leg);
        let state = handle.map(|handle| self.legs.leg(handle));
        let staged = state.filter(|leg| leg.status == Status::Open).and_then(|leg| leg.commits_in);
        let decided = self.decisions.epoch_of(transaction);
        let StagedQuestion { up, coordinator, attempt, .. } = question;
        let Some(epoch) = decided.or(staged) else {
            probe!(ctx, "participant: asked for changes it has not staged");
            let not = CoordinatorMessage::NotStaged { transaction, leg, attempt };
            return ctx.send(coordinator, Message::Coordinator(not));
        };
        fault_point!(ctx, "participant: asked whether it has staged");
        match question.down.pop_first().filter(|_| decided.is_none()) {
            Some(next) => {
                let (mut up, down) = (up, question.down);
                up.push(ctx.me());
                let ask = ParticipantMessage::CommitIfStaged {
                    transaction,
                    leg,
                    up,
                    down,
                    coordinator,
                    attempt,
                };
                ctx.send(next, Message::Participant(ask));
            }
            None => {
                probe!(ctx, "participant: commits what the rest of the chain has staged");
                let keep = false;
                let order = CommitOrder { transaction, leg, epoch, up, keep, coordinator, attempt };
                self.commit_staged(ctx, order);
            }
        }
    }
}
