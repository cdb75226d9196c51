//! The client component: sessions, requests under way, and what wakes them.
//!
//! # Owns
//! A record per session, a record per request (a *call*) until its final event, the agenda of
//! time-outs and retries, and which nodes to stay away from for a while.
//! # Speaks
//! in:  `ClientReply`, `ScanMessage::Batch`, `ControlMessage::{SchemaReply, Speaks}`,
//!      `InspectMessage::Answer`, `RelayMessage::{Asked, Told}`, `LinkDown`
//! out: `ClientRequest` (coordinators), `ParticipantMessage::Read` and `ScanMessage`
//!      (participants), `InspectMessage::Ask` (both), `ControlMessage::{Follow, Schema}`,
//!      `RelayMessage::Ask` (control actors)
//! # Invariants
//! 1. A session has at most one transaction, and one transactional request at a time.
//! 2. Each attempt of a request has its own number, so that answers to older ones are recognised.
//! 3. A call that waits in time is on the agenda exactly once.
//! # Failure
//! Loss of a node: see `transaction`, `read`, `scan`; loss of the own process ends all sessions,
//! and coordinators abort what they left open.
//! # Not here
//! The meaning of operations, SQL, connections.

mod call;
mod durable;
mod encode;
mod follow;
mod inspect;
mod merge;
mod outcome;
mod peers;
mod read;
mod route;
mod rows;
mod scan;
mod schema;
mod snapshot;
mod stream;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::{BTreeSet, VecDeque};

use actor::{Ctx, Timer};
use model::{
    ActorKind, Address, ClusterState, Epoch, ErrorCode, OperationNumber, Refusal, SessionId,
    TransactionId,
};
use stdx::{Duration, HashMap, Instant};
use wire::{
    ClientReply, ClientRequest, ControlMessage, CoordinatorRef, InspectMessage, Message,
    RelayMessage, ScanMessage,
};

use crate::event::{ClientEvent, Savepoint, SessionNumber, Token};
use call::{Call, Work};
use encode::Decoders;
use follow::Follower;
use route::{Avoided, Life, Routes};

pub use rows::{ScannedRow, ScannedRows};

/// Limits and habits of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions {
    /// Open sessions.
    pub sessions_max: u32,
    /// Requests under way, of all sessions together.
    pub requests_max: u32,
    /// How often a request is tried again on its own before its refusal is passed on.
    pub retries_max: u32,
    /// Partitions an unordered scan reads at a time.
    pub scan_partitions_max: u32,
    /// How long the end of a transaction whose answer was lost is asked for.
    pub outcome_patience: Duration,
    /// Ask a data node for the cluster's state; unset inside data nodes, which have it.
    pub follow: bool,
    /// Other clients may ask this one: `handle` gives their questions back.
    pub answers_peers: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            sessions_max: 4_096,
            requests_max: 65_536,
            retries_max: 20,
            scan_partitions_max: 32,
            outcome_patience: Duration::from_secs(10),
            follow: true,
            answers_peers: false,
        }
    }
}

/// The client sessions of one actor.
///
/// The actor passes messages to [`Client::handle`], `Timer::ClientTick` to [`Client::timeout`],
/// and its cluster changes to [`Client::cluster_changed`], and drains [`Client::next_event`] after
/// each of them and after each request.
///
/// ```ignore
/// // In an actor's handler, once `client.ready(ctx)`; `session` from `client.open_session(ctx)`:
/// let pay = |id, amount| {
///     let assignments = vec![(BALANCE, Expression::add(BALANCE, amount))];
///     ClientOperation::update(ACCOUNTS, vec![Value::Int(id)], assignments)
/// };
/// let token = self.client.execute(ctx, session, vec![pay(1, -5), pay(2, 5)], true);
/// // After this and every later `client.handle(..)`, `client.timeout(..)`:
/// while let Some(event) = self.client.next_event() {
///     match event.result {
///         ClientResult::Committed { epoch, .. } => self.paid(event.token, epoch),
///         ClientResult::Aborted { refusal, .. } => self.not_paid(event.token, refusal),
///         ClientResult::OutcomeUnknown(unsettled) => self.ask_later(unsettled),
///         _ => {}
///     }
/// }
/// ```
#[doc(alias = "Ndb")]
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    sessions: Vec<Session>,
    free_sessions: Vec<u32>,
    /// Gone through in the order of tokens where that matters.
    calls: HashMap<Token, Call>,
    agenda: BTreeSet<(Instant, Token)>,
    /// When the timer fires.
    armed: Option<Instant>,
    tokens: u64,
    /// When a node was heard last.
    heard: Instant,
    events: VecDeque<ClientEvent>,
    avoided: Avoided,
    /// Who reads which partition, and what decodes answers, as it was found out before.
    routes: Routes,
    decoders: Decoders,
    follower: Follower,
}

/// One session.
#[derive(Debug)]
struct Session {
    id: SessionId,
    open: bool,
    /// How long its operations wait for a lock; the cluster's lock time-out unless given.
    lock_wait: Option<Duration>,
    /// Transactions begun so far.
    transactions: u64,
    transaction: Option<Transaction>,
    /// The transactional request under way.
    call: Option<Token>,
    /// Scans in the transaction, some of which may have ended: found here when it ends, as all
    /// requests of all sessions are too many to look at for each transaction.
    scans: Vec<Token>,
    /// Schema changes asked for so far.
    schema_changes: u64,
    /// The schema change under way.
    schema_call: Option<Token>,
    /// Snapshots held, with the coordinator that holds them for the session.
    snapshots: Vec<(Epoch, CoordinatorRef)>,
}

/// The open transaction of a session.
#[derive(Clone, Debug)]
struct Transaction {
    id: TransactionId,
    coordinator: CoordinatorRef,
    last_number: OperationNumber,
    /// The application has been told something that was done in it: it cannot be begun anew
    /// behind its back.
    answered: bool,
    /// It is over already; the next request will be told.
    doomed: Option<Refusal>,
}

/// Session numbers of index builders, joiners and clients on the same worker differ in these bits.
const BUILDER_BIT: u32 = 1 << 23;
const JOINER_BIT: u32 = 1 << 22;

impl Client {
    /// A client without sessions.
    pub fn new(options: ClientOptions) -> Self {
        assert!(options.sessions_max < JOINER_BIT, "{} sessions", options.sessions_max);
        assert!(options.scan_partitions_max > 0, "a scan reads at least one partition");
        Self {
            options,
            sessions: Vec::new(),
            free_sessions: Vec::new(),
            calls: HashMap::default(),
            agenda: BTreeSet::new(),
            armed: None,
            tokens: 0,
            heard: Instant::ZERO,
            events: VecDeque::new(),
            avoided: Avoided::default(),
            routes: Routes::default(),
            decoders: Decoders::default(),
            follower: Follower::default(),
        }
    }

    /// Begins to follow the cluster. Done by the first request too, but an actor that waits for
    /// [`Client::ready`] must call it.
    pub fn start(&mut self, ctx: &mut Ctx<'_>) {
        if self.options.follow && self.follower.idle() {
            self.follow(ctx);
        }
        self.arm(ctx);
    }

    /// Whether the cluster is known and serves clients.
    pub fn ready(&self, ctx: &Ctx<'_>) -> bool {
        ctx.cluster().started && !ctx.cluster().stopped
    }

    /// Opens a session. Refused with `TransactionLimit` at `sessions_max`.
    pub fn open_session(&mut self, ctx: &mut Ctx<'_>) -> Result<SessionNumber, Refusal> {
        self.start(ctx);
        if let Some(number) = self.free_sessions.pop() {
            // The counters go on, so that the name's earlier transactions stay distinct.
            let record = &mut self.sessions[number as usize];
            (record.open, record.lock_wait) = (true, None);
            return Ok(SessionNumber(number));
        }
        let number = self.sessions.len() as u32;
        if number >= self.options.sessions_max {
            let detail = format!("at most {} sessions", self.options.sessions_max);
            return Err(Refusal::new(ErrorCode::TransactionLimit, detail));
        }
        let kind = match ctx.me().actor {
            ActorKind::IndexBuilder => BUILDER_BIT,
            ActorKind::Joiner => JOINER_BIT,
            _ => 0,
        };
        let id = SessionId {
            node: ctx.node(),
            incarnation: ctx.incarnation(),
            number: u32::from(ctx.me().worker.0) << 24 | kind | number,
        };
        self.sessions.push(Session {
            id,
            open: true,
            lock_wait: None,
            transactions: 0,
            transaction: None,
            call: None,
            scans: Vec::new(),
            schema_changes: 0,
            schema_call: None,
            snapshots: Vec::new(),
        });
        Ok(SessionNumber(number))
    }

    /// Closes a session: its transaction is aborted, its scans, snapshots and requests are given
    /// up without events. A commit under way ends one way or the other.
    pub fn close_session(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber) {
        if self.session(session).is_none() {
            return;
        }
        for token in self.calls_where(|call| call.session == session) {
            let call = self.take(token).expect("listed above");
            if let Work::Scan(scan) = &call.work {
                scan.close_streams(ctx, self.scan_id(session, token, call.attempt));
            }
        }
        self.events.retain(|event| event.session != session);
        self.abandon_transaction(ctx, session);
        let record = &mut self.sessions[session.0 as usize];
        (record.call, record.schema_call, record.open) = (None, None, false);
        record.scans.clear();
        let id = record.id;
        for (epoch, holder) in std::mem::take(&mut record.snapshots) {
            let close = ClientRequest::CloseSnapshot { session: id, epoch };
            ctx.send(holder.address, Message::Request(close));
        }
        self.free_sessions.push(session.0);
        self.arm(ctx);
    }

    /// Has the session's requests from now on wait so long for each lock, instead of the cluster's
    /// lock time-out. A lock that was not granted in that time is a refusal in any case: the
    /// session's patience is not spent again on another try.
    pub fn limit_lock_waits(&mut self, session: SessionNumber, longest: Duration) {
        self.session_mut(session).lock_wait = Some(longest);
    }

    /// The cluster-wide name of an open session.
    pub fn session_id(&self, session: SessionNumber) -> Option<SessionId> {
        self.session(session).map(|record| record.id)
    }

    /// The session's open transaction, once its first request has been sent.
    pub fn transaction(&self, session: SessionNumber) -> Option<TransactionId> {
        self.session(session)?.transaction.as_ref().map(|transaction| transaction.id)
    }

    /// The point the session's transaction has reached, to roll back to.
    pub fn savepoint(&self, session: SessionNumber) -> Savepoint {
        let transaction = self.session(session).and_then(|record| record.transaction.as_ref());
        Savepoint(transaction.map_or(OperationNumber(0), |transaction| transaction.last_number))
    }

    /// The next thing that has come of a request.
    pub fn next_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Whether a request is under way.
    pub fn is_open(&self, token: Token) -> bool {
        self.calls.contains_key(&token)
    }

    /// Requests under way.
    pub fn open_requests(&self) -> usize {
        self.calls.len()
    }

    /// Handles a message, or gives it back if it is none for a client.
    pub fn handle(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        message: Message,
    ) -> Option<Message> {
        if !matches!(message, Message::LinkDown { .. }) {
            self.heard = ctx.now();
        }
        match message {
            Message::Reply(reply) => self.handle_reply(ctx, from, reply),
            Message::Scan(ScanMessage::Batch(batch)) => self.scan_batch(ctx, from, *batch),
            Message::Control(control) => match *control {
                ControlMessage::SchemaReply { session, number, result } => {
                    self.schema_reply(ctx, from, session, number, result);
                }
                ControlMessage::Speaks { protocol } => self.all_speak(from.node, protocol),
                ControlMessage::StatePiece(piece) => self.followed_sends(ctx, from.node, *piece),
                other => return Some(Message::Control(Box::new(other))),
            },
            Message::Inspect(message) => {
                if let InspectMessage::Answer { session, request, rows } = *message {
                    self.inspect_answer(from, session, request, rows);
                }
            }
            Message::Stream(message) => self.stream_message(from, *message),
            Message::Relay(relayed) => match *relayed {
                RelayMessage::Asked { session, request, peers } => {
                    self.peers_asked(from, session, request, &peers);
                }
                RelayMessage::Told { session, request, peer, rows } => {
                    self.peer_tells(peer, session, request, rows);
                }
                other => return Some(Message::Relay(Box::new(other))),
            },
            Message::LinkDown { node, incarnation, closed } => {
                let life = Life { node, incarnation };
                self.avoided.link_down(life, closed, ctx.now());
                self.life_lost(ctx, life);
            }
            // Put together here of what the followed node has sent.
            Message::State(_) if from == ctx.me() => {
                if let Some(node) = self.follower.followed() {
                    self.followed_answers(ctx, node);
                }
            }
            Message::State(_) => self.followed_answers(ctx, from.node),
            Message::StateChange(change) => self.followed_tells(ctx, from.node, &change),
            other => return Some(other),
        }
        self.arm(ctx);
        None
    }

    fn handle_reply(&mut self, ctx: &mut Ctx<'_>, from: Address, reply: ClientReply) {
        match reply {
            ClientReply::Transaction { transaction, request, results, state } => {
                self.transaction_reply(ctx, from, transaction, request, results, state);
            }
            ClientReply::Snapshot { session, request, result } => {
                self.snapshot_reply(ctx, from, session, request, result);
            }
            ClientReply::Durable { session, request, result } => {
                self.durable_reply(ctx, from, session, request, result);
            }
            ClientReply::Outcome { transaction, request, result } => {
                self.outcome_reply(ctx, from, transaction, request, result);
            }
            ClientReply::Read { session, request, result } => {
                self.read_reply(ctx, from, session, request, result);
            }
        }
    }

    /// Handles `Timer::ClientTick`.
    pub fn timeout(&mut self, ctx: &mut Ctx<'_>) {
        self.armed = None;
        while let Some((due, token)) = self.agenda.first().copied()
            && due <= ctx.now()
        {
            let call = self.take(token).expect("the agenda names calls");
            self.call_due(ctx, token, call);
        }
        if self.options.follow && self.follower.due() <= ctx.now() {
            self.follow(ctx);
        }
        self.arm(ctx);
    }

    /// The worker has reached a newer cluster state.
    pub fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let after = ctx.cluster().clone();
        for (node, member) in &before.members {
            if after.member(*node, member.incarnation).is_none() {
                self.life_lost(ctx, Life { node: *node, incarnation: member.incarnation });
            }
        }
        self.avoided.forget_old_lives(&after);
        self.decoders.follow(before, &after);
        self.schema_changed(ctx);
        self.followed_changed(ctx);
        self.arm(ctx);
    }

    /// Panics when a rule that holds between messages is broken.
    pub fn check_invariants(&self) {
        self.calls.iter().for_each(|(token, call)| {
            let session = self.session(call.session);
            let session =
                session.unwrap_or_else(|| panic!("{token:?}: a call of a closed session"));
            let listed = !call.is_scan_in_transaction() || session.scans.contains(token);
            assert!(listed, "{token:?}: a scan that its transaction would not end");
            if let Some(due) = call.due {
                assert!(self.agenda.contains(&(due, *token)), "{token:?}: not on the agenda");
            }
        });
        let waiting = self.calls.values().filter(|call| call.due.is_some()).count();
        assert_eq!(waiting, self.agenda.len(), "agenda entries without a call");
        for (number, session) in self.sessions.iter().enumerate() {
            let named = session.call.into_iter().chain(session.schema_call);
            for token in named {
                assert!(self.calls.contains_key(&token), "session {number}: {token:?} is over");
            }
        }
    }

    /// Has the timer fire by the time of the earliest thing to do. One that is set already and
    /// fires before that stays: most requests are answered long before their time, and a timer that
    /// finds nothing to do once in a while costs less than setting and stopping it for each.
    fn arm(&mut self, ctx: &mut Ctx<'_>) {
        let call = self.agenda.first().map(|(due, _)| *due);
        let follow = Some(self.follower.due()).filter(|_| self.options.follow);
        let next = call.into_iter().chain(follow).min();
        let next = next.filter(|due| *due < Instant::FAR_FUTURE);
        if let Some(due) = next
            && self.armed.is_none_or(|armed| due < armed)
        {
            self.armed = Some(due);
            ctx.set_timer(Timer::ClientTick, due.since(ctx.now()));
        }
    }

    fn session(&self, session: SessionNumber) -> Option<&Session> {
        self.sessions.get(session.0 as usize).filter(|record| record.open)
    }

    fn session_mut(&mut self, session: SessionNumber) -> &mut Session {
        let record = self.sessions.get_mut(session.0 as usize).filter(|record| record.open);
        record.expect("calls belong to open sessions")
    }

    /// The open session a message names.
    fn session_named(&self, id: SessionId) -> Option<SessionNumber> {
        let number = SessionNumber(id.number & (JOINER_BIT - 1));
        self.session(number).filter(|record| record.id == id).map(|_| number)
    }
}
