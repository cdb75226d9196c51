//! Requests under way: their records, numbers, time-outs and ends.

use actor::{Ctx, probe};
use model::{ErrorCode, Refusal};
use stdx::{Duration, Instant};

use super::Client;
use super::durable::DurableCall;
use super::inspect::InspectCall;
use super::outcome::OutcomeCall;
use super::peers::PeersCall;
use super::read::ReadCall;
use super::route::Life;
use super::scan::ScanCall;
use super::schema::SchemaCall;
use super::snapshot::SnapshotCall;
use super::stream::StreamCall;
use super::transaction::TransactionCall;
use crate::event::{ClientEvent, ClientResult, SessionNumber, Token};

/// A request under way.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) session: SessionNumber,
    /// Changes with each message sent anew.
    pub(super) attempt: u16,
    /// Times it was tried again.
    pub(super) retries: u32,
    /// When it was first to be tried again.
    troubled: Option<Instant>,
    /// When it is looked at again; set by [`Client::put`] and its kin.
    pub(super) due: Option<Instant>,
    /// What the time at `due` is for.
    pub(super) wake: Wake,
    pub(super) work: Work,
}

/// Why a call is looked at again at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Nothing is awaited in time.
    Never,
    /// The answer is late: the followed node may be the cause.
    Slow,
    /// Batches of a scan are late: their participants are asked.
    Late,
    /// The answer will not come.
    Lost,
    /// It is time to send it again.
    Retry,
}

/// What a call is about.
#[derive(Debug)]
pub(super) enum Work {
    Transaction(Box<TransactionCall>),
    Read(Box<ReadCall>),
    Scan(Box<ScanCall>),
    Schema(SchemaCall),
    Snapshot(SnapshotCall),
    Durable(DurableCall),
    Outcome(OutcomeCall),
    Inspect(InspectCall),
    Stream(StreamCall),
    Peers(PeersCall),
}

/// Shortest and longest time before a request is sent again; it doubles from retry to retry.
const BACKOFF_MIN: Duration = Duration::from_millis(2);
const BACKOFF_DOUBLINGS_MAX: u32 = 7;

impl Call {
    pub(super) fn new(session: SessionNumber, work: Work) -> Self {
        Self { session, attempt: 1, retries: 0, troubled: None, due: None, wake: Wake::Never, work }
    }

    /// It is tried once more.
    pub(super) fn note_retry(&mut self, now: Instant) {
        self.retries += 1;
        self.troubled.get_or_insert(now);
    }

    /// Whether it is a scan that ends with its transaction.
    pub(super) fn is_scan_in_transaction(&self) -> bool {
        matches!(&self.work, Work::Scan(scan) if scan.ends_with_transaction())
    }

    /// The request counter of this attempt on the wire.
    pub(super) fn request(&self, token: Token) -> u64 {
        number_on_wire(token, self.attempt)
    }
}

/// A token and an attempt as one number; never zero, as tokens are not.
pub(super) fn number_on_wire(token: Token, attempt: u16) -> u64 {
    token.0 << 16 | u64::from(attempt)
}

/// The reverse of [`number_on_wire`].
pub(super) fn token_on_wire(number: u64) -> (Token, u16) {
    (Token(number >> 16), number as u16)
}

impl Client {
    /// A name for a new request. Refused requests get their final event here.
    pub(super) fn begin_call(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        transactional: bool,
    ) -> (Token, bool) {
        self.tokens += 1;
        let token = Token(self.tokens);
        self.start(ctx);
        let limit = self.options.requests_max;
        let refusal = match self.session(session) {
            None => Refusal::new(ErrorCode::BadRequest, "no such session"),
            Some(record) if transactional && record.call.is_some() => {
                Refusal::new(ErrorCode::BadRequest, "the session's last request is under way")
            }
            Some(_) if self.calls.len() >= limit as usize => {
                probe!(ctx, "client: too many requests under way");
                Refusal::new(ErrorCode::TransactionLimit, format!("at most {limit} requests"))
            }
            Some(_) => return (token, true),
        };
        self.emit(session, token, ClientResult::Failed(refusal));
        (token, false)
    }

    /// Takes a call out to work on it.
    pub(super) fn take(&mut self, token: Token) -> Option<Call> {
        let call = self.calls.remove(&token)?;
        if let Some(due) = call.due {
            self.agenda.remove(&(due, token));
        }
        Some(call)
    }

    /// Files a call that goes on waiting as it did.
    pub(super) fn put_back(&mut self, token: Token, call: Call) {
        let due = call.due.unwrap_or(Instant::FAR_FUTURE);
        let wake = call.wake;
        self.put_until(token, call, wake, due);
    }

    /// Takes the call out that a number on the wire names, if it is its present attempt.
    pub(super) fn take_numbered(
        &mut self,
        number: u64,
        session: SessionNumber,
    ) -> Option<(Token, Call)> {
        let (token, attempt) = token_on_wire(number);
        let call = self.calls.get(&token)?;
        if call.attempt != attempt || call.session != session {
            return None;
        }
        self.take(token).map(|call| (token, call))
    }

    /// Files a call that waits for nothing in time.
    pub(super) fn put(&mut self, token: Token, call: Call) {
        self.put_until(token, call, Wake::Never, Instant::FAR_FUTURE);
    }

    /// Files a call whose answer is awaited.
    pub(super) fn put_sent(&mut self, ctx: &Ctx<'_>, token: Token, call: Call) {
        let slow = ctx.now() + ctx.config().request_timeout.divided_by(4);
        self.put_until(token, call, Wake::Slow, slow);
    }

    /// Files a call to be looked at again at `due`.
    pub(super) fn put_until(&mut self, token: Token, mut call: Call, wake: Wake, due: Instant) {
        call.wake = wake;
        call.due = Some(due).filter(|_| wake != Wake::Never);
        if let Some(due) = call.due {
            self.agenda.insert((due, token));
        }
        let replaced = self.calls.insert(token, call);
        assert!(replaced.is_none(), "{token:?} is filed once");
    }

    /// Files a call to be sent again after a while, with a new number.
    pub(super) fn put_retry(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        call.note_retry(ctx.now());
        let retries = call.retries;
        self.put_again(ctx, token, call, retries);
    }

    /// Like [`Client::put_retry`] for what is tried until a time: `tries` so far.
    pub(super) fn put_again(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: Token,
        mut call: Call,
        tries: u32,
    ) {
        let delay = backoff(ctx, tries);
        call.attempt = call.attempt.wrapping_add(1);
        self.put_until(token, call, Wake::Retry, ctx.now() + delay);
    }

    /// Whether a call may be tried once more: not too often, and not when it has been in trouble
    /// for the time of a request in which no node was heard. Whoever is cut off is to say so.
    pub(super) fn may_retry(&self, ctx: &Ctx<'_>, call: &Call) -> bool {
        let silent = call.troubled.map(|troubled| ctx.now().since(troubled.max(self.heard)));
        let cut_off = silent.is_some_and(|silent| silent >= ctx.config().request_timeout);
        call.retries < self.options.retries_max && !cut_off
    }

    /// The calls of which this is true, in the order in which they were made.
    pub(super) fn calls_where(&self, is_one: impl Fn(&Call) -> bool) -> Vec<Token> {
        let found = self.calls.iter().filter(|(_, call)| is_one(call));
        let mut tokens: Vec<Token> = found.map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        tokens
    }

    /// The time of a call has come; it was taken out.
    pub(super) fn call_due(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        match call.wake {
            Wake::Never => panic!("{token:?} waits for nothing in time"),
            Wake::Slow => {
                probe!(ctx, "client: answer is late");
                self.follow_another(ctx);
                let rest = ctx.config().request_timeout.times(3).divided_by(4);
                let due = ctx.now() + rest + self.lock_waits(&call);
                self.put_until(token, call, Wake::Lost, due);
            }
            Wake::Lost => {
                probe!(ctx, "client: request timed out");
                // Whoever waits for a slow disk is not to blame for it.
                let blamed = match call.work {
                    Work::Durable(_) => Vec::new(),
                    _ => self.awaited(&call),
                };
                for node in blamed {
                    self.avoided.avoid(node, ctx.now() + ctx.config().request_timeout);
                }
                self.answer_lost(ctx, token, call);
            }
            Wake::Late => self.scan_late(ctx, token, call),
            Wake::Retry => self.send_again(ctx, token, call),
        }
    }

    /// For how long a request may be at work waiting for locks: for those of its rows, and then for
    /// those of their unique entries. The cluster's own lock time-out is part of the time that any
    /// request has.
    fn lock_waits(&self, call: &Call) -> Duration {
        let longest = match &call.work {
            Work::Transaction(work) if work.runs_operations() => {
                self.session(call.session).and_then(|record| record.lock_wait)
            }
            _ => None,
        };
        longest.unwrap_or(Duration::ZERO).times(2)
    }

    /// Sends a call that has waited for its next attempt.
    fn send_again(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        match call.work {
            Work::Transaction(_) => self.transaction_again(ctx, token, call),
            Work::Read(_) => self.send_reads(ctx, token, call),
            Work::Scan(_) => self.open_scan(ctx, token, call),
            Work::Schema(_) => self.send_schema(ctx, token, call),
            Work::Snapshot(_) => self.send_snapshot(ctx, token, call),
            Work::Durable(_) => self.send_durable(ctx, token, call),
            Work::Outcome(_) => self.ask_outcome(ctx, token, call),
            Work::Inspect(_) => self.send_questions(ctx, token, call),
            Work::Stream(_) => self.send_fetches(ctx, token, call),
            Work::Peers(_) => self.send_to_peers(ctx, token, call),
        }
    }

    /// The answer a call waits for will not come.
    fn answer_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        match call.work {
            Work::Transaction(_) => self.transaction_lost(ctx, token, call),
            Work::Read(_) => self.reads_lost(ctx, token, call),
            Work::Scan(_) => unreachable!("a scan has no time-out"),
            Work::Schema(_) => self.schema_lost(ctx, token, call),
            Work::Snapshot(_) => self.snapshot_lost(ctx, token, call),
            Work::Durable(_) => self.durable_lost(ctx, token, call),
            Work::Outcome(_) => self.outcome_lost(ctx, token, call),
            Work::Inspect(_) => self.inspection_lost(ctx, token, call, None),
            Work::Stream(_) => self.fetches_lost(ctx, token, call, None),
            Work::Peers(_) => self.peers_lost(ctx, token, call, None),
        }
    }

    /// Whose answer a call waits for.
    fn awaited(&self, call: &Call) -> Vec<Life> {
        if call.wake == Wake::Retry {
            return Vec::new();
        }
        let transaction = || {
            let record = self.session(call.session)?.transaction.as_ref()?;
            Some(Life::of(&record.coordinator))
        };
        match &call.work {
            Work::Transaction(work) => work.asked().or_else(transaction).into_iter().collect(),
            Work::Read(work) => work.awaited(),
            Work::Scan(work) => work.awaited(),
            Work::Schema(work) => work.asked().into_iter().collect(),
            Work::Snapshot(work) => work.asked().into_iter().collect(),
            Work::Durable(work) => work.asked().into_iter().collect(),
            Work::Outcome(work) => work.asked().into_iter().collect(),
            Work::Inspect(work) => work.awaited(),
            Work::Stream(work) => work.awaited(),
            Work::Peers(work) => work.asking(),
        }
    }

    /// A life of a node is gone, or the link to it: what was asked of it is not answered any more.
    pub(super) fn life_lost(&mut self, ctx: &mut Ctx<'_>, lost: Life) {
        self.follow_lost(ctx, lost);
        let ends = |call: &Call| self.awaited(call).iter().any(|life| life.ends_with(lost));
        for token in self.calls_where(ends) {
            // The end of one call can have ended another.
            if let Some(call) = self.take(token) {
                probe!(ctx, "client: link lost with a request under way");
                match call.work {
                    Work::Inspect(_) => self.inspection_lost(ctx, token, call, Some(lost)),
                    Work::Stream(_) => self.fetches_lost(ctx, token, call, Some(lost)),
                    Work::Peers(_) => self.peers_lost(ctx, token, call, Some(lost)),
                    Work::Scan(_) => self.scan_lost(ctx, token, call, lost),
                    _ => self.answer_lost(ctx, token, call),
                }
            }
        }
        self.transactions_lost(ctx, lost);
        self.snapshots_lost(lost);
    }

    /// Ends a call that was taken out.
    pub(super) fn finish(&mut self, token: Token, session: SessionNumber, result: ClientResult) {
        let record = self.session_mut(session);
        if record.call == Some(token) {
            record.call = None;
        }
        if record.schema_call == Some(token) {
            record.schema_call = None;
        }
        self.emit(session, token, result);
    }

    /// Queues an event.
    pub(super) fn emit(&mut self, session: SessionNumber, token: Token, result: ClientResult) {
        self.events.push_back(ClientEvent { session, token, result });
    }
}

/// A random time that grows with the number of retries: many clients do not come back at once.
fn backoff(ctx: &mut Ctx<'_>, retries: u32) -> Duration {
    let longest = BACKOFF_MIN.times(1 << retries.min(BACKOFF_DOUBLINGS_MAX)).as_nanos();
    Duration::from_nanos(ctx.prng().between(longest / 2, longest))
}
