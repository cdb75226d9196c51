//! The kernel as a statement sees it: asked with calls that are awaited.
//!
//! # Owns
//! [`Kernel`], the handle through which the tasks of a connection reach the cluster; the exchange
//! of asks and answers between those tasks and the actor that embeds the client library.
//! # Guarantees
//! A task runs when an answer for it is there, or it has been interrupted, and at no other time:
//! nothing here knows a thread or a clock, so a run stays decided by its seed. An ask is answered
//! once; what a task gives up by being dropped is closed by the actor.
//! # Not here
//! Retries and routing (`client`), errors in the dialect's words (`error`).

mod arrival;
mod desk;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use actor::Mutation;
use client::{
    ClientOperation, ClientRead, ClientResult, Inspected, OperationAnswer, PeerAnswers, Savepoint,
    ScanSpec, ScannedRows, Traffic,
};
use model::cluster::{BINLOG_STREAMS, is_kept_for_a_time};
use model::{
    Address, ClusterState, ControlIndex, Epoch, ErrorCode, NodeId, Refusal, SchemaChange, StreamId,
    TableId, TransactionId, Value,
};
use stdx::{Duration, Instant, Prng};
use vector::Block;
use wire::{Inspection, PeerQuestion, StreamFetch, StreamPiece};

use crate::definition_log::orphans::Orphans;
use crate::large::{colocating, write};
use arrival::{is_from_data_node, traffic};
pub(crate) use desk::{Desk, Passed};

/// Names an ask of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Of no ask: a task has paused in the middle of a call.
    pub(crate) const PAUSED: Self = Self(0);
    /// Of no ask: a task has rested although what it waits for is there.
    pub(crate) const RESTED: Self = Self(u64::MAX);
}

/// Which of a connection's client sessions an ask belongs to: what a user's transaction does, what
/// is done beside it and ends at once (sequences, definitions), what is held until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// The user's transaction.
    User,
    /// Short transactions beside it.
    Beside,
    /// A transaction that holds what the session has claimed, to its end.
    Keeper,
    /// Short transactions beside others of the same statement, by number below [`LOADERS`].
    Loader(u8),
    /// A transaction that holds what the statement has written down of its changes of definitions.
    Scribe,
}

/// Short transactions that a statement may have under way at a time.
pub(crate) const LOADERS: u8 = 4;

impl Lane {
    /// Its place among the lanes of a connection.
    fn place(self) -> usize {
        match self {
            Self::User => 0,
            Self::Beside => 1,
            Self::Keeper => 2,
            Self::Loader(at) => 3 + usize::from(at),
            Self::Scribe => 3 + usize::from(LOADERS),
        }
    }
}

/// What is asked of the client library.
#[derive(Debug)]
pub(crate) enum Ask {
    Execute {
        operations: Vec<ClientOperation>,
        commit: bool,
    },
    Commit,
    Abort,
    /// Gives up the request under way; it is answered how it ended.
    Cancel,
    RollbackTo(Savepoint),
    Read {
        reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    },
    Scan(Box<ScanSpec>),
    ScanNext(Ticket),
    ScanClose(Ticket),
    OpenSnapshot,
    CloseSnapshot(Epoch),
    AwaitDurable {
        epoch: Epoch,
        peek: bool,
    },
    Schema(SchemaChange),
    /// Asks participants for changes of a stream.
    Stream(Vec<(Address, StreamFetch)>),
    /// Changes of a stream up to an epoch are not needed any more.
    AcknowledgeStream(StreamId, Epoch),
    Inspect {
        what: Inspection,
        node: Option<NodeId>,
    },
    /// Asks other SQL nodes, or one.
    Peers {
        to: Option<NodeId>,
        question: PeerQuestion,
    },
    Sleep(Duration),
    /// Gives up the lane's session with all that is under way in it.
    Abandon,
}

/// Why a task must end its statement early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// KILL QUERY, or Ctrl-C in the command-line client.
    Killed,
    /// The statement has run for longer than `max_execution_time`.
    TimedOut,
}

/// An ask on its way to the actor.
#[derive(Debug)]
pub(crate) struct QueuedAsk {
    /// Under which its answer comes.
    pub(crate) ticket: Ticket,
    pub(crate) lane: Lane,
    pub(crate) ask: Ask,
}

/// Between the tasks of a connection and the actor.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) asks: VecDeque<QueuedAsk>,
    /// By the asks that wait for them: one, or a few.
    answers: Vec<(Ticket, Arrived)>,
    tickets: u64,
    pub(crate) cluster: Arc<ClusterState>,
    pub(crate) now: Instant,
    /// When data nodes were asked last what one of them has answered, by any connection of the
    /// worker.
    heard: Rc<Cell<Instant>>,
    /// What the readers of the worker know of open records of changes of definitions.
    orphans: Rc<Orphans>,
    pub(crate) savepoint: Savepoint,
    pub(crate) transaction: Option<TransactionId>,
    /// Whether the cluster keeps its state on disk.
    pub(crate) has_disk: bool,
    /// The newest protocol version that all members of the cluster speak.
    pub(crate) protocol: u16,
    /// The rule broken on purpose, if any.
    pub(crate) mutation: Mutation,
    commits: Commits,
    /// What has come from data nodes since the connection was made; what of it had come when the
    /// session began, and what of it is in the counters of the process.
    traffic: Traffic,
    traffic_before: Traffic,
    traffic_told: Traffic,
    interrupt: Option<Interrupt>,
    /// The request of the user's transaction that is under way, whether somebody waits for its
    /// answer or not. The transaction may have no name yet.
    under_way: Option<Ticket>,
    /// The client sends no more.
    pub(crate) client_gone: bool,
    /// When the statement began that runs.
    pub(crate) began: Option<Instant>,
    /// When the statement has taken too long.
    pub(crate) deadline: Option<Instant>,
    /// How long the user's transaction waits for each lock.
    lock_wait: Option<Duration>,
    /// Names of large values are drawn from it.
    draws: Option<Prng>,
}

/// Answers that have come and were not taken yet: most asks have one and no more.
#[derive(Debug, Default)]
struct Arrived {
    first: Option<ClientResult>,
    more: VecDeque<ClientResult>,
}

impl Arrived {
    fn push(&mut self, result: ClientResult) {
        if self.first.is_none() && self.more.is_empty() {
            self.first = Some(result)
        } else {
            self.more.push_back(result)
        }
    }

    fn pop(&mut self) -> Option<ClientResult> {
        self.first.take().or_else(|| self.more.pop_front())
    }
}

/// What a connection has committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commits {
    /// The epoch of the newest transaction of the user that changed something.
    pub(crate) last: Option<Epoch>,
    /// The newest epoch of all, with what was done beside.
    pub(crate) newest: Epoch,
    /// Known to be on disk up to here.
    pub(crate) durable: Epoch,
    /// Up to here the client was told that nobody knows whether it is on disk.
    pub(crate) given_up: Epoch,
    /// The snapshot that the user's session has opened last.
    snapshot: Option<Epoch>,
}

/// Epochs that a connection has reached, for whoever judges histories of what its user does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// That of the user's newest transaction that has changed something.
    pub committed: Option<Epoch>,
    /// That of the snapshot which the user's session has opened last.
    pub snapshot: Option<Epoch>,
}

impl Exchange {
    /// The next ask, and how long the user's transaction waits for each lock.
    pub(crate) fn next_ask(&mut self) -> Option<(QueuedAsk, Option<Duration>)> {
        Some((self.asks.pop_front()?, self.lock_wait))
    }

    pub(crate) fn marks(&self) -> Marks {
        Marks { committed: self.commits.last, snapshot: self.commits.snapshot }
    }

    /// Remembers what a result says of commits and disks, and how much it is.
    fn note(&mut self, lane: Lane, asked: Instant, result: &ClientResult) {
        self.traffic.add(traffic(result));
        if is_from_data_node(result) {
            self.heard.set(self.heard.get().max(asked));
        }
        let commits = &mut self.commits;
        match result {
            ClientResult::Committed { epoch, .. } if *epoch > Epoch::default() => {
                commits.newest = commits.newest.max(*epoch);
                if lane == Lane::User {
                    commits.last = commits.last.max(Some(*epoch));
                }
            }
            ClientResult::Durable(epoch) => commits.durable = commits.durable.max(*epoch),
            ClientResult::SnapshotOpened(epoch) if lane == Lane::User => {
                commits.snapshot = Some(*epoch);
            }
            _ => {}
        }
    }

    /// What has come from data nodes since this was asked last.
    pub(crate) fn untold_traffic(&mut self) -> Traffic {
        self.traffic.since(std::mem::replace(&mut self.traffic_told, self.traffic))
    }

    /// Hands a task its answer. Ignored when the task has gone on without it.
    pub(crate) fn answer(&mut self, ticket: Ticket, result: ClientResult) {
        if self.under_way == Some(ticket) {
            self.under_way = None;
        }
        if let Some(arrived) = self.arrived(ticket) {
            arrived.push(result);
        }
    }

    fn arrived(&mut self, ticket: Ticket) -> Option<&mut Arrived> {
        self.answers.iter_mut().find(|(of, _)| *of == ticket).map(|(_, arrived)| arrived)
    }

    /// The next answer that a task waits for, if it has come.
    fn take_answer(&mut self, ticket: Ticket) -> Option<ClientResult> {
        self.arrived(ticket).expect("listed until dropped").pop()
    }

    /// Tells the statement under way to end.
    pub(crate) fn interrupt(&mut self, why: Interrupt) {
        self.interrupt = Some(why);
    }

    fn ask(&mut self, lane: Lane, ask: Ask) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let in_transaction =
            matches!(ask, Ask::Execute { .. } | Ask::Commit | Ask::Abort | Ask::RollbackTo(_));
        if lane == Lane::User && in_transaction {
            self.under_way = Some(ticket);
        }
        self.asks.push_back(QueuedAsk { ticket, lane, ask });
        ticket
    }
}

/// Why the kernel did not do what was asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The statement was told to end; what it has done must be undone.
    Interrupted(Interrupt),
    /// One request was refused; the transaction stays as it was.
    Refused(Refusal),
    /// The whole transaction is gone.
    Aborted(Refusal),
    /// The transaction is over, and nobody could say how it ended.
    OutcomeUnknown(TransactionId),
}

impl Failure {
    /// Whether the kernel refused with this code, the request alone or the whole transaction.
    pub(crate) fn is_refusal(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Refused(refusal) | Self::Aborted(refusal) if refusal.code == code)
    }
}

/// A batch that did not succeed as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The first operation that was refused, if one was.
    pub at: Option<usize>,
    /// Why. After [`Failure::Aborted`] the transaction is gone; otherwise the other operations
    /// have taken effect.
    pub failure: Failure,
}

/// The answers to a batch: one per operation; a refused one has left no effect.
pub(crate) type Answers = Vec<Result<OperationAnswer, Refusal>>;

/// A connection's way to the cluster. Cheap to clone; all clones share one transaction.
#[derive(Clone, Debug)]
pub struct Kernel {
    exchange: Rc<RefCell<Exchange>>,
    lane: Lane,
}

impl Kernel {
    pub(crate) fn new(exchange: Rc<RefCell<Exchange>>) -> Self {
        Self { exchange, lane: Lane::User }
    }

    /// The same connection's way to short transactions beside the user's.
    pub fn beside(&self) -> Self {
        Self { exchange: self.exchange.clone(), lane: Lane::Beside }
    }

    /// The same connection's way to the transaction that holds its claims.
    pub fn keeper(&self) -> Self {
        Self { exchange: self.exchange.clone(), lane: Lane::Keeper }
    }

    /// The same connection's way to the transaction that holds records of the statement.
    pub(crate) fn scribe(&self) -> Self {
        Self { exchange: self.exchange.clone(), lane: Lane::Scribe }
    }

    /// The same connection's way to one of the transactions that a statement has under way.
    pub(crate) fn loader(&self, at: u8) -> Self {
        Self { exchange: self.exchange.clone(), lane: Lane::Loader(at) }
    }

    /// The cluster as this process knows it.
    pub fn cluster(&self) -> Arc<ClusterState> {
        self.exchange.borrow().cluster.clone()
    }

    /// Whether this rule is broken on purpose, to prove that the simulation notices.
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.exchange.borrow().mutation == mutation
    }

    /// The clock of this turn.
    pub fn now(&self) -> Instant {
        self.exchange.borrow().now
    }

    /// The entry of the control log that changed accounts last.
    pub(crate) fn accounts_changed(&self) -> ControlIndex {
        self.exchange.borrow().cluster.accounts_changed
    }

    /// The entry of the control log that this process has reached.
    pub(crate) fn definitions_index(&self) -> ControlIndex {
        self.exchange.borrow().cluster.index
    }

    /// Tells the connections of the worker what data nodes have answered.
    pub(crate) fn share_heard(&self, heard: &Rc<Cell<Instant>>) {
        self.exchange.borrow_mut().heard = heard.clone();
    }

    /// Lets the connections of the worker know what they find out of open records of changes of
    /// definitions.
    pub(crate) fn share_orphans(&self, orphans: &Rc<Orphans>) {
        self.exchange.borrow_mut().orphans = orphans.clone();
    }

    /// What the connections of the worker have found out of them.
    pub(crate) fn orphans(&self) -> Rc<Orphans> {
        self.exchange.borrow().orphans.clone()
    }

    /// Whether a data node has answered what it was asked no longer ago than this.
    pub(crate) fn is_heard_since(&self, span: Duration) -> bool {
        let exchange = self.exchange.borrow();
        exchange.now.since(exchange.heard.get()) <= span
    }

    /// The user's open transaction, once it has asked for something.
    pub fn transaction(&self) -> Option<TransactionId> {
        self.exchange.borrow().transaction
    }

    /// Whether the user's transaction is open, or a request that begins it is under way.
    pub(crate) fn is_in_transaction(&self) -> bool {
        let exchange = self.exchange.borrow();
        exchange.transaction.is_some() || exchange.under_way.is_some()
    }

    /// The point the user's transaction has reached.
    pub fn savepoint(&self) -> Savepoint {
        self.exchange.borrow().savepoint
    }

    /// Whether the cluster keeps a binary log.
    pub(crate) fn keeps_binlog(&self) -> bool {
        let exchange = self.exchange.borrow();
        BINLOG_STREAMS.iter().any(|name| exchange.cluster.streams.contains_key(*name))
    }

    /// Whether somebody reads a stream and has to know of changes of definitions: the binary log,
    /// or a change feed.
    pub(crate) fn records_definitions(&self) -> bool {
        let exchange = self.exchange.borrow();
        exchange.cluster.streams.keys().any(|name| is_kept_for_a_time(name))
    }

    /// Whether the cluster keeps its state on disk.
    pub fn has_disk(&self) -> bool {
        self.exchange.borrow().has_disk
    }

    /// Whether all members of the cluster know what came with this protocol version.
    pub(crate) fn all_know(&self, since: u16) -> bool {
        since <= self.exchange.borrow().protocol
    }

    /// What the connection has committed so far.
    pub(crate) fn commits(&self) -> Commits {
        self.exchange.borrow().commits
    }

    /// Another session begins on the connection, which has committed and read nothing.
    pub(crate) fn forget_past(&self) {
        let mut exchange = self.exchange.borrow_mut();
        exchange.commits.last = None;
        exchange.traffic_before = exchange.traffic;
    }

    /// What has come from data nodes since the session began, as far as it was taken.
    pub(crate) fn traffic(&self) -> Traffic {
        let exchange = self.exchange.borrow();
        exchange.traffic.since(exchange.traffic_before)
    }

    /// What has come from data nodes since this was asked last.
    pub(crate) fn untold_traffic(&self) -> Traffic {
        self.exchange.borrow_mut().untold_traffic()
    }

    /// Waits until everything committed up to an epoch is on disk, or with `peek` asks how far the
    /// disks are; nothing interrupts that, as nothing interrupts a commit.
    pub(crate) async fn await_durable(&self, epoch: Epoch, peek: bool) -> Result<Epoch, Failure> {
        match Waiting::new(self, Ask::AwaitDurable { epoch, peek }).next(false).await? {
            ClientResult::Durable(durable) => Ok(durable),
            other => Err(failure(other)),
        }
    }

    /// Takes note that the client was told of all commits up to an epoch that nobody knows whether
    /// they are on disk.
    pub(crate) fn give_up(&self, epoch: Epoch) {
        self.exchange.borrow_mut().commits.given_up = epoch;
    }

    /// Waits until everything committed by anybody before now is on disk.
    pub(crate) async fn save_all(&self) -> Result<(), Failure> {
        let epoch = self.newest_complete().await?;
        self.await_durable(epoch, false).await.map(|_| ())
    }

    /// What names of large values are drawn from: two connections must not have the same. A
    /// connection whose user changes goes on drawing.
    pub(crate) fn seed(&self, seed: u64) {
        self.exchange.borrow_mut().draws.get_or_insert_with(|| Prng::new(seed));
    }

    /// A number that no other value has been given.
    pub(crate) fn draw(&self) -> u64 {
        let mut exchange = self.exchange.borrow_mut();
        exchange.draws.as_mut().expect("a session gives its kernel a seed").next_u64()
    }

    /// Forgets an interruption: a new statement begins, or one has been undone.
    pub fn clear_interrupt(&self) {
        self.exchange.borrow_mut().interrupt = None;
    }

    /// A statement begins, and has so much time; without limit if none is given.
    pub fn begin_statement(&self, limit: Option<Duration>) {
        let mut exchange = self.exchange.borrow_mut();
        exchange.began = Some(exchange.now);
        exchange.deadline = limit.map(|span| exchange.now + span);
    }

    /// The statement is over.
    pub fn end_statement(&self) {
        let mut exchange = self.exchange.borrow_mut();
        (exchange.began, exchange.deadline) = (None, None);
    }

    /// Has the user's transaction wait so long for each lock from now on.
    pub fn limit_lock_waits(&self, longest: Duration) {
        self.exchange.borrow_mut().lock_wait = Some(longest);
    }

    /// Whether the statement has been told to end.
    pub fn interrupted(&self) -> Option<Interrupt> {
        self.exchange.borrow().interrupt
    }

    async fn result(&self, ask: Ask) -> Result<ClientResult, Failure> {
        let waiting = Waiting::new(self, ask);
        waiting.next(true).await
    }

    /// Runs operations in the transaction, beginning one if none is open.
    pub async fn execute(&self, operations: Vec<ClientOperation>) -> Result<Answers, Failure> {
        if self.concerns_large(&operations) {
            write::execute(self, operations, false).await
        } else {
            self.execute_plain(operations).await
        }
    }

    fn concerns_large(&self, operations: &[ClientOperation]) -> bool {
        write::concerns(&self.exchange.borrow().cluster, operations)
    }

    /// The same for rows as they are stored: nothing is done about values that lie outside.
    pub(crate) async fn execute_plain(
        &self,
        operations: Vec<ClientOperation>,
    ) -> Result<Answers, Failure> {
        match self.result(Ask::Execute { operations, commit: false }).await? {
            ClientResult::Executed(answers) => Ok(answers),
            other => Err(failure(other)),
        }
    }

    /// Runs operations and commits when all have succeeded. When one was refused the whole
    /// transaction is aborted, and its refusal is the answer.
    pub async fn execute_and_commit(
        &self,
        operations: Vec<ClientOperation>,
    ) -> Result<Answers, Failure> {
        if self.concerns_large(&operations) {
            let answers = write::execute(self, operations, true).await?;
            let refused = answers.iter().find_map(|answer| answer.as_ref().err().cloned());
            return refused.map_or(Ok(answers), |refusal| Err(Failure::Aborted(refusal)));
        }
        // Whether it committed must be known: an interruption comes too late once it is sent.
        let waiting = Waiting::new(self, Ask::Execute { operations, commit: true });
        match waiting.next(false).await? {
            ClientResult::Committed { answers, .. } => Ok(answers),
            other => Err(failure(other)),
        }
    }

    /// Runs operations that must all succeed, and with `commit` commits.
    pub async fn execute_all(
        &self,
        operations: Vec<ClientOperation>,
        commit: bool,
    ) -> Result<Vec<OperationAnswer>, Rejected> {
        if self.concerns_large(&operations) {
            let written = write::execute(self, operations, commit).await;
            let rejected = |failure| Rejected { at: None, failure };
            return all_of(written.map_err(rejected)?, commit);
        }
        self.execute_all_plain(operations, commit).await
    }

    /// The same for rows as they are stored: nothing is done about values that lie outside.
    pub(crate) async fn execute_all_plain(
        &self,
        operations: Vec<ClientOperation>,
        commit: bool,
    ) -> Result<Vec<OperationAnswer>, Rejected> {
        let waiting = Waiting::new(self, Ask::Execute { operations, commit });
        let rejected = |failure| Rejected { at: None, failure };
        let result = if commit { waiting.ended(self).await } else { waiting.next(true).await };
        let result = result.map_err(rejected)?;
        let (answers, aborted) = match result {
            ClientResult::Executed(answers) | ClientResult::Committed { answers, .. } => {
                (answers, false)
            }
            ClientResult::Aborted { ref answers, .. } if answers.iter().any(Result::is_err) => {
                (answers.clone(), true)
            }
            other => return Err(rejected(failure(other))),
        };
        all_of(answers, aborted)
    }

    /// Commits the transaction; nothing happens when none is open.
    pub async fn commit(&self) -> Result<Epoch, Failure> {
        match Waiting::new(self, Ask::Commit).next(false).await? {
            ClientResult::Committed { epoch, .. } => Ok(epoch),
            other => Err(failure(other)),
        }
    }

    /// Aborts the transaction; nothing happens when none is open.
    pub async fn abort(&self) {
        // It ends in any case: a coordinator that does not answer aborts by itself.
        let _ = Waiting::new(self, Ask::Abort).next(false).await;
    }

    /// Gives up the transaction while a request of it may be under way: the kernel aborts it, and
    /// snapshots held by the connection go with it.
    pub fn abandon(&self) {
        let mut exchange = self.exchange.borrow_mut();
        exchange.ask(self.lane, Ask::Abandon);
        if self.lane == Lane::User {
            exchange.transaction = None;
            exchange.savepoint = Savepoint::default();
            exchange.under_way = None;
        }
    }

    /// Undoes the operations after `savepoint`; locks stay.
    pub async fn rollback_to(&self, savepoint: Savepoint) -> Result<(), Failure> {
        match Waiting::new(self, Ask::RollbackTo(savepoint)).next(false).await? {
            ClientResult::RolledBack => Ok(()),
            other => Err(failure(other)),
        }
    }

    /// Reads rows by key as committed, or as of a snapshot the connection holds.
    pub async fn read(
        &self,
        reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    ) -> Result<Vec<Option<Vec<Value>>>, Failure> {
        match self.result(Ask::Read { reads, snapshot }).await? {
            ClientResult::Read(rows) => Ok(rows),
            other => Err(failure(other)),
        }
    }

    /// The newest protocol version that all members of the cluster speak.
    pub(crate) fn protocol(&self) -> u16 {
        self.exchange.borrow().protocol
    }

    /// Opens a scan; its first rows are asked for at once.
    pub fn scan(&self, spec: ScanSpec) -> Scan {
        let waiting = Waiting::new(self, Ask::Scan(Box::new(spec)));
        Scan { waiting, asked: true, finished: false }
    }

    /// Opens a snapshot at the newest complete epoch; it is held until closed.
    pub async fn open_snapshot(&self) -> Result<Epoch, Failure> {
        match self.result(Ask::OpenSnapshot).await? {
            ClientResult::SnapshotOpened(epoch) => Ok(epoch),
            other => Err(failure(other)),
        }
    }

    /// Gives a snapshot back.
    pub fn close_snapshot(&self, epoch: Epoch) {
        self.exchange.borrow_mut().ask(self.lane, Ask::CloseSnapshot(epoch));
    }

    /// The newest complete epoch: all that was committed before now is in it or in one before.
    pub(crate) async fn newest_complete(&self) -> Result<Epoch, Failure> {
        let epoch = self.open_snapshot().await?;
        self.close_snapshot(epoch);
        Ok(epoch)
    }

    /// Changes the catalog; the new definition is in use here when this ends. Tables of parts that
    /// are made with it are colocated with their base tables, unless a node is too old for that.
    pub async fn change_schema(&self, change: SchemaChange) -> Result<TableId, Failure> {
        if let Some(colocating) = colocating(&self.cluster(), &change) {
            match self.ask_schema(colocating).await {
                Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::OlderNode => {}
                result => return result,
            }
        }
        self.ask_schema(change).await
    }

    async fn ask_schema(&self, change: SchemaChange) -> Result<TableId, Failure> {
        let made = made_by(&change).unwrap_or_default().to_owned();
        match Waiting::new(self, Ask::Schema(change)).next(false).await? {
            ClientResult::SchemaChanged(table) => Ok(table),
            ClientResult::Failed(refusal) if refusal.code == ErrorCode::TableLimit => {
                Err(Failure::Refused(Refusal::new(refusal.code, made)))
            }
            other => Err(failure(other)),
        }
    }

    /// Asks participants for changes of a stream, as a [`client::Subscription`] says; the answers
    /// of those who gave one in time.
    pub(crate) async fn fetch_stream(
        &self,
        fetches: Vec<(Address, StreamFetch)>,
    ) -> Result<Vec<(Address, StreamPiece)>, Failure> {
        match self.result(Ask::Stream(fetches)).await? {
            ClientResult::Streamed(answers) => Ok(answers),
            other => Err(failure(other)),
        }
    }

    /// Tells all participants that the changes of a stream up to an epoch are not needed any more.
    pub(crate) fn acknowledge_stream(&self, stream: StreamId, through: Epoch) {
        self.exchange.borrow_mut().ask(self.lane, Ask::AcknowledgeStream(stream, through));
    }

    /// Asks the workers of the data nodes, or of one, what goes on in them.
    pub async fn inspect(
        &self,
        what: Inspection,
        node: Option<NodeId>,
    ) -> Result<Vec<Inspected>, Failure> {
        match self.result(Ask::Inspect { what, node }).await? {
            ClientResult::Inspected(answers) => Ok(answers),
            other => Err(failure(other)),
        }
    }

    /// Asks all other SQL nodes, or one; those that do not answer in time are missing.
    pub(crate) async fn ask_peers(
        &self,
        to: Option<NodeId>,
        question: PeerQuestion,
    ) -> Result<PeerAnswers, Failure> {
        match self.result(Ask::Peers { to, question }).await? {
            ClientResult::PeersAnswered(answers) => Ok(answers),
            other => Err(failure(other)),
        }
    }

    /// Does nothing for a while.
    pub async fn sleep(&self, span: Duration) -> Result<(), Failure> {
        self.result(Ask::Sleep(span)).await.map(|_| ())
    }

    /// Lets others have the worker: to be awaited now and then by long computations. They go on in
    /// the next turn of the thread, when it has looked who else wants something; unless their
    /// client has closed its side, and nobody waits for what they compute.
    pub async fn breathe(&self) -> Result<(), Failure> {
        self.check_interrupt()?;
        self.sleep(Duration::from_nanos(1)).await
    }

    /// Whether a computation is to end, as somebody has said so.
    pub(crate) fn check_kill(&self) -> Result<(), Failure> {
        self.interrupted().map_or(Ok(()), |why| Err(Failure::Interrupted(why)))
    }

    /// Whether a computation is to end, as somebody has said so or its client has closed its side.
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        let exchange = self.exchange.borrow();
        let gone = exchange.client_gone.then_some(Interrupt::Killed);
        exchange.interrupt.or(gone).map_or(Ok(()), |why| Err(Failure::Interrupted(why)))
    }
}

/// The name of the first table or index that a change of the catalog makes.
fn made_by(change: &SchemaChange) -> Option<&str> {
    match change {
        SchemaChange::CreateTable { name, .. } | SchemaChange::CreateUniqueIndex { name, .. } => {
            Some(name)
        }
        SchemaChange::ColocateParts { change } => made_by(change),
        SchemaChange::Together { changes, .. } => changes.iter().find_map(made_by),
        _ => None,
    }
}

/// The answers of operations that must all have succeeded.
fn all_of(answers: Answers, aborted: bool) -> Result<Vec<OperationAnswer>, Rejected> {
    let mut all = Vec::with_capacity(answers.len());
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(answer) => all.push(answer),
            Err(refusal) => {
                let failure =
                    if aborted { Failure::Aborted(refusal) } else { Failure::Refused(refusal) };
                return Err(Rejected { at: Some(at), failure });
            }
        }
    }
    Ok(all)
}

fn failure(result: ClientResult) -> Failure {
    match result {
        ClientResult::Failed(refusal) => Failure::Refused(refusal),
        ClientResult::Aborted { refusal, .. } => {
            Failure::Aborted(refusal.unwrap_or_else(|| ErrorCode::UnknownTransaction.into()))
        }
        ClientResult::OutcomeUnknown(unsettled) => Failure::OutcomeUnknown(unsettled.transaction),
        other => {
            let detail = format!("unexpected answer {other:?}");
            Failure::Refused(Refusal::new(ErrorCode::Internal, detail))
        }
    }
}

/// An ask whose answers are awaited; forgets them when dropped.
#[derive(Debug)]
struct Waiting {
    exchange: Rc<RefCell<Exchange>>,
    lane: Lane,
    ticket: Ticket,
    /// When.
    asked: Instant,
}

impl Waiting {
    fn new(kernel: &Kernel, ask: Ask) -> Self {
        let mut exchange = kernel.exchange.borrow_mut();
        let ticket = exchange.ask(kernel.lane, ask);
        exchange.answers.push((ticket, Arrived::default()));
        let asked = exchange.now;
        Self { exchange: kernel.exchange.clone(), lane: kernel.lane, ticket, asked }
    }

    /// How a transaction ended that was to be committed at once. An interruption gives it up, and
    /// is the answer when nothing of it was done.
    async fn ended(&self, kernel: &Kernel) -> Result<ClientResult, Failure> {
        let mut given_up = None;
        let result = poll_fn(|_| {
            let mut exchange = self.exchange.borrow_mut();
            if given_up.is_none() && exchange.interrupt.is_some() {
                given_up = exchange.interrupt;
                exchange.ask(kernel.lane, Ask::Cancel);
            }
            exchange.take_answer(self.ticket).map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        self.exchange.borrow_mut().note(self.lane, self.asked, &result);
        match (result, given_up) {
            (ClientResult::Aborted { .. }, Some(why)) => Err(Failure::Interrupted(why)),
            (result, _) => Ok(result),
        }
    }

    /// The next answer; an interruption when `interruptible` and there is one.
    async fn next(&self, interruptible: bool) -> Result<ClientResult, Failure> {
        poll_fn(|_| {
            let mut exchange = self.exchange.borrow_mut();
            if let Some(why) = exchange.interrupt.filter(|_| interruptible) {
                return Poll::Ready(Err(Failure::Interrupted(why)));
            }
            match exchange.take_answer(self.ticket) {
                Some(result) => {
                    exchange.note(self.lane, self.asked, &result);
                    Poll::Ready(Ok(result))
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.exchange.borrow_mut().answers.retain(|(of, _)| *of != self.ticket);
    }
}

/// A scan under way. Closed when dropped.
#[derive(Debug)]
pub struct Scan {
    waiting: Waiting,
    asked: bool,
    finished: bool,
}

impl Scan {
    /// The next rows, never none; nothing when the scan has ended. Of a scan without a program.
    pub async fn next(&mut self) -> Result<Option<Vec<Vec<Value>>>, Failure> {
        Ok(self.next_part().await?.map(|(rows, _)| rows.into_values()))
    }

    /// The next rows, and what the scan's program has made of others; never none of both.
    pub async fn next_part(&mut self) -> Result<Option<(ScannedRows, Vec<Block>)>, Failure> {
        while !self.finished {
            if !std::mem::replace(&mut self.asked, false) {
                let ask = Ask::ScanNext(self.waiting.ticket);
                self.waiting.exchange.borrow_mut().ask(self.waiting.lane, ask);
            }
            match self.waiting.next(true).await? {
                ClientResult::ScanRows { rows, blocks, finished, .. } => {
                    self.finished = finished;
                    if !rows.is_empty() || !blocks.is_empty() {
                        return Ok(Some((rows, blocks)));
                    }
                }
                other => {
                    self.finished = true;
                    return Err(failure(other));
                }
            }
        }
        Ok(None)
    }

    /// All remaining rows.
    pub async fn collect(mut self) -> Result<Vec<Vec<Value>>, Failure> {
        let mut all = Vec::new();
        while let Some(mut rows) = self.next().await? {
            all.append(&mut rows);
        }
        Ok(all)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if !self.finished {
            let ask = Ask::ScanClose(self.waiting.ticket);
            self.waiting.exchange.borrow_mut().ask(self.waiting.lane, ask);
        }
    }
}
