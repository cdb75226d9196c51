//! Asking how a transaction ended whose answer was lost.
//!
//! Any coordinator may be asked. It answers once the transaction's own coordinator is settled; a
//! definite answer is definite for ever.

use actor::{Ctx, probe};
use model::{Address, ClusterState, Epoch, ErrorCode, Refusal, TransactionId};
use stdx::Instant;
use wire::{ClientRequest, Message, TransactionState};

use super::Client;
use super::call::{Call, Wake, Work};
use super::route::Life;
use crate::event::{ClientResult, SessionNumber, Token, UnsettledTransaction};

/// A question about a transaction's end.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) unsettled: UnsettledTransaction,
    /// Who was asked and has not answered.
    pub(super) asked: Option<Life>,
    /// Times it was asked.
    pub(super) tries: u32,
    give_up_at: Instant,
}

/// A request of the application for the end of a transaction it has lost.
#[derive(Debug)]
pub(super) struct OutcomeCall {
    question: Question,
}

/// What an answer means.
enum Verdict {
    Committed(Epoch),
    Aborted,
    /// Later transactions of the session have replaced what was known.
    Forgotten,
    AskAgain,
    /// It is being decided, or is on its way: there will be an answer.
    GoesOn,
}

impl Question {
    pub(super) fn new(unsettled: UnsettledTransaction, give_up_at: Instant) -> Self {
        Self { unsettled, asked: None, tries: 0, give_up_at }
    }

    /// Judges an answer.
    fn judge(
        &mut self,
        cluster: &ClusterState,
        result: Result<TransactionState, Refusal>,
    ) -> Verdict {
        match result {
            Ok(TransactionState::Committed(epoch)) => Verdict::Committed(epoch),
            Ok(TransactionState::Aborted(_)) if self.next_life(cluster) => Verdict::AskAgain,
            Ok(TransactionState::Aborted(_)) => Verdict::Aborted,
            Err(refusal) if refusal.code == ErrorCode::OutcomeUnknown => Verdict::Forgotten,
            Ok(TransactionState::Open) => Verdict::GoesOn,
            Err(_) => Verdict::AskAgain,
        }
    }

    /// A message meant for one life of a node can have reached the next one, if the link broke
    /// and was made again before the cluster state told: that life must be asked too.
    fn next_life(&mut self, cluster: &ClusterState) -> bool {
        let coordinator = &mut self.unsettled.coordinator;
        let Some(member) = cluster.members.get(&coordinator.address.node) else { return false };
        let newer = member.incarnation > coordinator.incarnation
            && coordinator.address.worker.0 < member.workers;
        if newer {
            coordinator.incarnation = member.incarnation;
        }
        newer
    }
}

impl OutcomeCall {
    /// Who has been asked.
    pub(super) fn asked(&self) -> Option<Life> {
        self.question.asked
    }
}

fn question(call: &mut Call) -> &mut Question {
    let question = match &mut call.work {
        Work::Outcome(work) => Some(&mut work.question),
        Work::Transaction(work) => work.question(),
        _ => None,
    };
    question.expect("a call that asks for an outcome")
}

impl Client {
    /// Asks again how a transaction ended. Ends in `Outcome`, or in `Failed` with
    /// `OutcomeUnknown` when that is not known any more or could not be learnt in time.
    pub fn outcome(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        unsettled: UnsettledTransaction,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if admitted {
            let give_up_at = ctx.now() + self.options.outcome_patience;
            let question = Question::new(unsettled, give_up_at);
            let call = Call::new(session, Work::Outcome(OutcomeCall { question }));
            self.ask_outcome(ctx, token, call);
        }
        self.arm(ctx);
        token
    }

    /// Sends the question to some coordinator, or gives up.
    pub(super) fn ask_outcome(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let question = question(&mut call);
        if ctx.now() >= question.give_up_at {
            return self.outcome_unknown(ctx, token, call);
        }
        question.tries += 1;
        let (tries, unsettled) = (question.tries, question.unsettled);
        let Ok(coordinator) = self.choose_coordinator(ctx, None) else {
            return self.put_again(ctx, token, call, tries);
        };
        question.asked = Some(Life::of(&coordinator));
        let message = ClientRequest::Outcome {
            transaction: unsettled.transaction,
            request: call.request(token),
            coordinator: unsettled.coordinator,
        };
        ctx.send(coordinator.address, Message::Request(message));
        let due = ctx.now() + ctx.config().request_timeout.divided_by(2);
        self.put_until(token, call, Wake::Lost, due);
    }

    /// Takes the answer to a question.
    pub(super) fn outcome_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        transaction: TransactionId,
        request: u64,
        result: Result<TransactionState, Refusal>,
    ) {
        let (token, attempt) = super::call::token_on_wire(request);
        let asks = |call: &Call| match &call.work {
            Work::Outcome(work) => work.question.unsettled.transaction == transaction,
            Work::Transaction(work) => work.asked().is_some(),
            _ => false,
        };
        let is_late = matches!(result, Ok(TransactionState::Open));
        let waits = |call: &Call| is_late && matches!(call.wake, Wake::Slow | Wake::Lost);
        let meant = |call: &&Call| call.attempt == attempt && (asks(call) || waits(call));
        let Some(asks) = self.calls.get(&token).filter(meant).map(asks) else { return };
        let mut call = self.take(token).expect("looked up above");
        if !asks {
            // Nobody has asked: the coordinator tells that what was asked of it takes its time.
            probe!(ctx, "client: a long request goes on");
            return self.put_sent(ctx, token, call);
        }
        if let Err(refusal) = &result {
            self.avoid_refuser(ctx, from, refusal);
        }
        let question = question(&mut call);
        question.asked = None;
        let tries = question.tries;
        let verdict = question.judge(ctx.cluster(), result);
        let lost_by_call = matches!(call.work, Work::Transaction(_));
        match verdict {
            Verdict::AskAgain => {
                probe!(ctx, "client: outcome not known yet");
                self.put_again(ctx, token, call, tries);
            }
            Verdict::GoesOn => {
                probe!(ctx, "client: its outcome is being decided");
                self::question(&mut call).give_up_at = ctx.now() + self.options.outcome_patience;
                self.put_again(ctx, token, call, tries);
            }
            Verdict::Forgotten => self.outcome_unknown(ctx, token, call),
            Verdict::Committed(epoch) if lost_by_call => {
                self.found_committed(ctx, token, call, epoch);
            }
            Verdict::Aborted if lost_by_call => self.found_aborted(ctx, token, call),
            Verdict::Committed(epoch) => {
                let state = TransactionState::Committed(epoch);
                self.finish(token, call.session, ClientResult::Outcome(state));
            }
            Verdict::Aborted => {
                let refusal = Refusal::new(ErrorCode::UnknownTransaction, "it did not commit");
                let state = TransactionState::Aborted(refusal);
                self.finish(token, call.session, ClientResult::Outcome(state));
            }
        }
    }

    fn outcome_unknown(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        if matches!(call.work, Work::Transaction(_)) {
            return self.gave_up(ctx, token, call);
        }
        let refusal = Refusal::from(ErrorCode::OutcomeUnknown);
        self.finish(token, call.session, ClientResult::Failed(refusal));
    }

    /// Nobody answers the question: asks someone else.
    pub(super) fn outcome_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let question = question(&mut call);
        question.asked = None;
        let tries = question.tries;
        self.put_again(ctx, token, call, tries);
    }
}
