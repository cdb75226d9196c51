//! Transactions: batches, commit, abort, savepoints; what is begun anew and what is given up.
//!
//! Begun anew, with a new number: a transaction of which the application knows nothing yet, when
//! it is certain not to have committed. A commit whose answer is lost is asked for first
//! (`outcome`).

use std::sync::Arc;

use actor::{Ctx, fault_point, probe};
use model::{Address, Epoch, ErrorClass, ErrorCode, OperationNumber, Refusal, TransactionId};
use wire::{
    ClientRequest, CoordinatorRef, Message, OperationOutcome, OperationResult, TransactionState,
};

use super::call::{Call, Wake, Work, token_on_wire};
use super::encode::{self, RowDecoder};
use super::outcome::Question;
use super::route::Life;
use super::{Client, Transaction};
use crate::event::{
    ClientResult, OperationAnswer, Savepoint, SessionNumber, Token, UnsettledTransaction,
};
use crate::request::ClientOperation;

/// A transactional request under way.
#[derive(Debug)]
pub(super) struct TransactionCall {
    request: Request,
    /// The answer was lost; how the transaction ended is being asked for.
    question: Option<Question>,
}

#[derive(Debug)]
enum Request {
    Execute {
        operations: Vec<ClientOperation>,
        decoders: Vec<Option<Arc<RowDecoder>>>,
        commit: bool,
        /// The batch is the transaction's first request.
        whole: bool,
    },
    Commit,
    Abort,
    RollbackTo,
}

type Answers = Vec<Result<OperationAnswer, Refusal>>;

impl TransactionCall {
    /// Who is being asked for the transaction's end.
    pub(super) fn asked(&self) -> Option<Life> {
        self.question.as_ref().and_then(|question| question.asked)
    }

    /// The question for the transaction's end, if its answer was lost.
    pub(super) fn question(&mut self) -> Option<&mut Question> {
        self.question.as_mut()
    }

    /// Whether operations are under way, not the question for their transaction's end.
    pub(super) fn runs_operations(&self) -> bool {
        self.question.is_none() && matches!(self.request, Request::Execute { .. })
    }

    fn whole(&self) -> bool {
        matches!(self.request, Request::Execute { whole: true, .. })
    }

    fn commits(&self) -> bool {
        matches!(self.request, Request::Commit | Request::Execute { commit: true, .. })
    }
}

/// Refusals after which a transaction of which nothing is known yet can be begun elsewhere.
pub(super) fn begin_elsewhere(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NodeFailed
            | ErrorCode::NotServing
            | ErrorCode::StaleRoute
            | ErrorCode::UnknownTransaction
            | ErrorCode::SchemaChanged
            | ErrorCode::MembershipChanged
            | ErrorCode::ShuttingDown
    )
}

/// The transactional part of a call.
fn work(call: &mut Call) -> &mut TransactionCall {
    match &mut call.work {
        Work::Transaction(work) => work,
        other => panic!("a transactional request, not {other:?}"),
    }
}

impl Client {
    /// Runs operations in the session's transaction, beginning one if none is open; with `commit`
    /// commits when all have succeeded and aborts when one was refused.
    ///
    /// Ends in `Executed`, `Committed`, `Aborted`, `OutcomeUnknown`, or `Failed` when a request
    /// does not fit its table or a limit (nothing was sent then). A batch that is a whole
    /// transaction is run again after temporary refusals; it never commits twice.
    pub fn execute(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        operations: Vec<ClientOperation>,
        commit: bool,
    ) -> Token {
        if operations.is_empty() && commit {
            return self.commit(ctx, session);
        }
        let (token, admitted) = self.begin_call(ctx, session, true);
        if !admitted {
            return token;
        }
        let limit = ctx.config().batch_max;
        if operations.len() > limit as usize {
            let refusal = Refusal::new(ErrorCode::BatchLimit, format!("at most {limit}"));
            self.emit(session, token, ClientResult::Failed(refusal));
        } else if operations.is_empty() {
            self.emit(session, token, ClientResult::Executed(vec![]));
        } else if !self.end_doomed(ctx, session, token) {
            let whole = self.session_mut(session).transaction.is_none();
            let request = Request::Execute { operations, decoders: vec![], commit, whole };
            let call = self.transaction_call(session, token, request);
            self.send_execute(ctx, token, call);
        }
        self.arm(ctx);
        token
    }

    /// Commits the session's transaction. Ends in `Committed`, `Aborted` or `OutcomeUnknown`.
    pub fn commit(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, true);
        if admitted && !self.end_doomed(ctx, session, token) {
            match self.open_transaction(session) {
                Some((transaction, coordinator)) => {
                    let call = self.transaction_call(session, token, Request::Commit);
                    let request = call.request(token);
                    let message = ClientRequest::Commit { transaction, request };
                    ctx.send(coordinator.address, Message::Request(message));
                    fault_point!(ctx, "client: after a commit request is sent");
                    self.put_sent(ctx, token, call);
                }
                None => {
                    let (transaction, epoch, answers) = (None, Epoch(0), vec![]);
                    let result = ClientResult::Committed { transaction, epoch, answers };
                    self.emit(session, token, result);
                }
            }
        }
        self.arm(ctx);
        token
    }

    /// Aborts the session's transaction. Ends in `Aborted` without a refusal.
    pub fn abort(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, true);
        if !admitted {
            return token;
        }
        let open = self.session_mut(session).transaction.as_ref();
        let doomed = open.is_some_and(|transaction| transaction.doomed.is_some());
        match self.open_transaction(session) {
            Some((transaction, coordinator)) if !doomed => {
                let call = self.transaction_call(session, token, Request::Abort);
                let request = call.request(token);
                let message = ClientRequest::Abort { transaction, request };
                ctx.send(coordinator.address, Message::Request(message));
                self.put_sent(ctx, token, call);
            }
            open => {
                self.end_transaction(ctx, session);
                let transaction = open.map(|(transaction, _)| transaction);
                let (refusal, answers) = (None, vec![]);
                let result = ClientResult::Aborted { transaction, refusal, answers };
                self.emit(session, token, result);
            }
        }
        self.arm(ctx);
        token
    }

    /// Undoes the operations after a savepoint of the open transaction; locks stay. Ends in
    /// `RolledBack` or `Aborted`.
    pub fn rollback_to(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        savepoint: Savepoint,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, true);
        if admitted && !self.end_doomed(ctx, session, token) {
            let last = self.savepoint(session);
            match self.open_transaction(session) {
                _ if savepoint > last => {
                    let refusal = Refusal::new(ErrorCode::BadRequest, "no such savepoint");
                    self.emit(session, token, ClientResult::Failed(refusal));
                }
                Some((transaction, coordinator)) if savepoint < last => {
                    let after = savepoint.0;
                    let call = self.transaction_call(session, token, Request::RollbackTo);
                    let request = call.request(token);
                    let message = ClientRequest::RollbackTo { transaction, request, after };
                    ctx.send(coordinator.address, Message::Request(message));
                    self.put_sent(ctx, token, call);
                }
                _ => self.emit(session, token, ClientResult::RolledBack),
            }
        }
        self.arm(ctx);
        token
    }

    fn transaction_call(&mut self, session: SessionNumber, token: Token, request: Request) -> Call {
        self.session_mut(session).call = Some(token);
        let work = TransactionCall { request, question: None };
        Call::new(session, Work::Transaction(Box::new(work)))
    }

    fn open_transaction(&self, session: SessionNumber) -> Option<(TransactionId, CoordinatorRef)> {
        let transaction = self.session(session)?.transaction.as_ref()?;
        Some((transaction.id, transaction.coordinator))
    }

    /// Whether the application has been told of something in the open transaction: rows of a scan
    /// can have come while its first batch was under way.
    fn answered(&self, session: SessionNumber) -> bool {
        let open = self.session(session).and_then(|record| record.transaction.as_ref());
        open.is_some_and(|transaction| transaction.answered)
    }

    /// Ends a request of a transaction that is over already.
    fn end_doomed(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, token: Token) -> bool {
        let open = self.session_mut(session).transaction.as_mut();
        let Some(refusal) = open.and_then(|transaction| transaction.doomed.take()) else {
            return false;
        };
        self.end_aborted(ctx, token, session, Some(refusal), vec![]);
        true
    }

    /// Begins a transaction of the session at a coordinator.
    pub(super) fn begin_transaction(
        &mut self,
        session: SessionNumber,
        coordinator: CoordinatorRef,
    ) -> TransactionId {
        let record = self.session_mut(session);
        assert!(record.transaction.is_none(), "{session:?} has a transaction");
        record.transactions += 1;
        let id = TransactionId { session: record.id, number: record.transactions };
        record.transaction = Some(Transaction {
            id,
            coordinator,
            last_number: OperationNumber(0),
            answered: false,
            doomed: None,
        });
        id
    }

    fn send_execute(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = call.session;
        let open = self.open_transaction(session);
        let last = self.savepoint(session).0;
        let Request::Execute { operations, decoders, commit, whole } = &mut work(&mut call).request
        else {
            panic!("{token:?} is a batch")
        };
        let commit = *commit;
        let encoded =
            encode::batch(ctx.cluster(), &mut self.decoders, operations, last).and_then(|batch| {
                let first = batch.0.first().map(|operation| operation.partition);
                let coordinator = match open {
                    Some((_, coordinator)) => coordinator,
                    None => self.choose_coordinator(ctx, first)?,
                };
                Ok((batch, coordinator))
            });
        let ((operations, answers), coordinator) = match encoded {
            Ok(encoded) => encoded,
            Err(refusal) if *whole && refusal.code == ErrorCode::NotServing => {
                if self.may_retry(ctx, &call) {
                    return self.put_retry(ctx, token, call);
                }
                return self.finish(token, session, ClientResult::Failed(refusal));
            }
            Err(refusal) => return self.finish(token, session, ClientResult::Failed(refusal)),
        };
        *decoders = answers;
        let transaction = match open {
            Some((transaction, _)) => transaction,
            None => self.begin_transaction(session, coordinator),
        };
        let last = operations.last().expect("a batch is not empty").number;
        let record = self.session_mut(session).transaction.as_mut().expect("begun above");
        record.last_number = last;
        let request = call.request(token);
        let lock_wait = self.session_mut(session).lock_wait;
        let message =
            ClientRequest::Execute { transaction, request, operations, commit, lock_wait };
        ctx.send(coordinator.address, Message::Request(message));
        fault_point!(ctx, "client: after a batch is sent");
        self.put_sent(ctx, token, call);
    }

    /// Takes a coordinator's answer about a transaction.
    pub(super) fn transaction_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        transaction: TransactionId,
        request: u64,
        results: Vec<OperationResult>,
        state: TransactionState,
    ) {
        let Some(session) = self.session_named(transaction.session) else { return };
        let record = self.session_mut(session);
        let open = record.transaction.as_ref();
        if open.is_none_or(|open| open.id != transaction) {
            return;
        }
        let Some(token) = record.call else {
            if let TransactionState::Aborted(refusal) = state {
                probe!(ctx, "client: transaction aborted between requests");
                self.doom(ctx, session, refusal);
            }
            return;
        };
        if request != 0 && token_on_wire(request).0 != token {
            return;
        }
        let call = self.take(token).expect("the session's call is under way");
        match state {
            TransactionState::Open => self.still_open(ctx, token, call, results),
            TransactionState::Committed(epoch) => {
                if call.retries > 0 {
                    probe!(ctx, "client: transaction committed after retries");
                }
                self.committed(ctx, token, call, epoch, results);
            }
            TransactionState::Aborted(refusal) => {
                self.avoid_refuser(ctx, from, &refusal);
                self.aborted(ctx, token, call, refusal, results);
            }
        }
    }

    fn still_open(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        results: Vec<OperationResult>,
    ) {
        let session = call.session;
        let stale = results.iter().any(|answer| {
            let code = answer.result.as_ref().err().map(|refusal| refusal.code);
            matches!(code, Some(ErrorCode::SchemaChanged | ErrorCode::StaleRoute))
        });
        let whole = work(&mut call).whole();
        if stale && whole && !self.answered(session) && self.may_retry(ctx, &call) {
            probe!(ctx, "client: first batch met a stale definition or route");
            self.abandon_transaction(ctx, session);
            return self.put_retry(ctx, token, call);
        }
        let result = match &work_of(&call).request {
            Request::Execute { .. } => ClientResult::Executed(decode(ctx, &call, results)),
            Request::RollbackTo => ClientResult::RolledBack,
            Request::Commit | Request::Abort => {
                let detail = "an ended transaction was called open";
                ClientResult::Failed(Refusal::new(ErrorCode::Internal, detail))
            }
        };
        if let Some(record) = self.session_mut(session).transaction.as_mut() {
            record.answered = true;
        }
        self.finish(token, session, result);
    }

    fn committed(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        call: Call,
        epoch: Epoch,
        results: Vec<OperationResult>,
    ) {
        let transaction = self.end_transaction(ctx, call.session);
        let answers = decode(ctx, &call, results);
        let result = ClientResult::Committed { transaction, epoch, answers };
        self.finish(token, call.session, result);
    }

    /// The transaction is undone for certain: begins it anew, or says so.
    fn aborted(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        refusal: Refusal,
        results: Vec<OperationResult>,
    ) {
        let session = call.session;
        let commits = work(&mut call).commits();
        let whole = work(&mut call).whole();
        // Who would not wait for a lock, or said for how long, wants to know.
        let waited = self.session_mut(session).lock_wait.is_some();
        let impatient = refusal.code == ErrorCode::LockUnavailable
            || refusal.code == ErrorCode::LockTimeout && waited;
        let temporary = refusal.code.class() == ErrorClass::Temporary && !impatient;
        let again = begin_elsewhere(refusal.code) || (commits && temporary);
        if whole && again && !self.answered(session) && self.may_retry(ctx, &call) {
            probe!(ctx, "client: transaction begun anew");
            work(&mut call).question = None;
            self.end_transaction(ctx, session);
            return self.put_retry(ctx, token, call);
        }
        let requested = matches!(work(&mut call).request, Request::Abort);
        let answers = decode(ctx, &call, results);
        self.end_aborted(ctx, token, session, Some(refusal).filter(|_| !requested), answers);
    }

    fn end_aborted(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        session: SessionNumber,
        refusal: Option<Refusal>,
        answers: Answers,
    ) {
        let transaction = self.end_transaction(ctx, session);
        let result = ClientResult::Aborted { transaction, refusal, answers };
        self.finish(token, session, result);
    }

    /// Gives up the request under way in a session's transaction, if there is one. What has not
    /// reached its commit point is aborted; the request's event tells how it ended.
    pub fn cancel(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) {
        let token = self.session(session).and_then(|record| record.call);
        let Some((token, mut call)) = token.and_then(|token| Some((token, self.take(token)?)))
        else {
            return;
        };
        probe!(ctx, "client: request given up by its session");
        call.retries = self.options.retries_max;
        let asks = work(&mut call).question.is_some();
        if asks {
            self.put_back(token, call);
        } else if call.wake == Wake::Retry {
            // Nothing of it is under way.
            self.end_aborted(ctx, token, session, None, vec![]);
        } else {
            self.transaction_lost(ctx, token, call);
        }
        self.arm(ctx);
    }

    /// The coordinator's answer to a request will not come, or the answer about its end.
    pub(super) fn transaction_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = call.session;
        let work = work(&mut call);
        if let Some(question) = &mut work.question {
            question.asked = None;
            let tries = question.tries;
            return self.put_again(ctx, token, call, tries);
        }
        let open = self.open_transaction(session);
        let (transaction, coordinator) = open.expect("a request was sent in a transaction");
        if work.commits() {
            probe!(ctx, "client: answer to a commit lost");
            let unsettled = UnsettledTransaction { transaction, coordinator };
            let give_up_at = ctx.now() + self.options.outcome_patience;
            work.question = Some(Question::new(unsettled, give_up_at));
            return self.put_again(ctx, token, call, 0);
        }
        if matches!(work.request, Request::Abort) {
            // Its coordinator aborts it without being told again, or whoever settles for it does.
            return self.end_aborted(ctx, token, session, None, vec![]);
        }
        self.send_abort(ctx, transaction, coordinator);
        let detail = coordinator.address.node.to_string();
        let refusal = Refusal::new(ErrorCode::NodeFailed, detail);
        self.aborted(ctx, token, call, refusal, vec![]);
    }

    /// Sends a transactional call that waited, or its question.
    pub(super) fn transaction_again(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        if work(&mut call).question.is_some() {
            self.ask_outcome(ctx, token, call);
        } else {
            self.send_execute(ctx, token, call);
        }
    }

    /// The lost transaction committed after all.
    pub(super) fn found_committed(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        call: Call,
        epoch: Epoch,
    ) {
        probe!(ctx, "client: lost answer was a commit");
        self.committed(ctx, token, call, epoch, vec![]);
    }

    /// The lost transaction did not commit, and will not.
    pub(super) fn found_aborted(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        probe!(ctx, "client: lost answer was no commit");
        let refusal = Refusal::new(ErrorCode::NodeFailed, "its coordinator");
        self.aborted(ctx, token, call, refusal, vec![]);
    }

    /// How the transaction ended cannot be learnt.
    pub(super) fn gave_up(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        probe!(ctx, "client: outcome stays unknown");
        let question = work_of(&call).question.as_ref();
        let unsettled = question.expect("it asks for an outcome").unsettled;
        self.end_transaction(ctx, call.session);
        self.finish(token, call.session, ClientResult::OutcomeUnknown(unsettled));
    }

    /// Transactions whose coordinator is lost, and that nobody asks for now.
    pub(super) fn transactions_lost(&mut self, ctx: &mut Ctx<'_>, lost: Life) {
        let doomed: Vec<SessionNumber> = (0..self.sessions.len() as u32)
            .map(SessionNumber)
            .filter(|session| {
                let record = self.session(*session);
                let open = record.and_then(|r| r.transaction.as_ref().filter(|_| r.call.is_none()));
                open.is_some_and(|t| t.doomed.is_none() && Life::of(&t.coordinator).ends_with(lost))
            })
            .collect();
        for session in doomed {
            let refusal = Refusal::new(ErrorCode::NodeFailed, lost.node.to_string());
            self.doom(ctx, session, refusal);
        }
    }

    /// The open transaction is over, and no request waits to hear it.
    fn doom(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, refusal: Refusal) {
        let open = self.session_mut(session).transaction.as_mut().expect("an open transaction");
        let answered = open.answered;
        if !answered && self.restart_first_scan(ctx, session, &refusal) {
            return;
        }
        let open = self.session_mut(session).transaction.as_mut().expect("an open transaction");
        open.doomed = Some(refusal.clone());
        self.fail_scans_of(ctx, session, &refusal);
    }

    /// Forgets the session's transaction, if any, and ends its scans.
    pub(super) fn end_transaction(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
    ) -> Option<TransactionId> {
        let open = self.session_mut(session).transaction.take()?;
        let refusal = Refusal::new(ErrorCode::ScanAborted, "its transaction has ended");
        self.fail_scans_of(ctx, session, &refusal);
        Some(open.id)
    }

    /// Gives the session's transaction up, and tells its coordinator.
    pub(super) fn abandon_transaction(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) {
        if let Some((transaction, coordinator)) = self.open_transaction(session) {
            self.send_abort(ctx, transaction, coordinator);
            self.end_transaction(ctx, session);
        }
    }

    fn send_abort(
        &self,
        ctx: &mut Ctx<'_>,
        transaction: TransactionId,
        coordinator: CoordinatorRef,
    ) {
        let message = ClientRequest::Abort { transaction, request: 0 };
        ctx.send(coordinator.address, Message::Request(message));
    }
}

fn work_of(call: &Call) -> &TransactionCall {
    match &call.work {
        Work::Transaction(work) => work,
        other => panic!("a transactional request, not {other:?}"),
    }
}

/// The answers to a batch, rows as values.
fn decode(ctx: &Ctx<'_>, call: &Call, results: Vec<OperationResult>) -> Answers {
    let Request::Execute { decoders, .. } = &work_of(call).request else { return vec![] };
    let mut decoders = decoders.iter();
    results
        .into_iter()
        .map(|answer| {
            let decoder = decoders.next().and_then(Option::as_ref);
            match (answer.result?, decoder) {
                (OperationOutcome::Written(effect), _) => Ok(OperationAnswer::Written(effect)),
                (OperationOutcome::Row(row), Some(decoder)) => {
                    decoder.decode(ctx.cluster(), &row).map(OperationAnswer::Row)
                }
                (OperationOutcome::Row(_), None) => {
                    Err(Refusal::new(ErrorCode::Internal, "a row for a change"))
                }
            }
        })
        .collect()
}
