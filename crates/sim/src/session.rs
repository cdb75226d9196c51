//! Sessions as straight-line code: a workload is an `async` function that asks and awaits.
//!
//! # Owns
//! [`Application`], the actor of a client node. It embeds a [`Client`], runs a task per session and
//! passes between the two: what a task asks for, and what has come of it. Tasks run when their
//! answer is there and at no other time, so a run stays decided by its seed.
//! # Not here
//! What tasks do (`workload`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use actor::{Actor, Ctx, Shared, Timer};
use client::{
    Client, ClientOperation, ClientOptions, ClientRead, ClientResult, Inspected, OperationAnswer,
    Savepoint, ScanSpec, SessionNumber, Token, UnsettledTransaction,
};
use model::{
    Address, ClusterState, Epoch, ErrorClass, ErrorCode, NodeId, Refusal, SchemaChange, StreamId,
    Table, TableId, TransactionId, Value,
};
use stdx::{Duration, Instant, Prng};
use vector::Block;
use wire::{Inspection, Message, StreamFetch, StreamPiece, TransactionState};

use crate::world::{Acknowledged, Ambient};

/// What a task asks for.
enum Ask {
    Execute { operations: Vec<ClientOperation>, commit: bool },
    Commit,
    Abort,
    RollbackTo(Savepoint),
    Read { reads: Vec<ClientRead>, snapshot: Option<Epoch> },
    Scan(Box<ScanSpec>),
    ScanNext,
    ScanClose,
    OpenSnapshot,
    CloseSnapshot(Epoch),
    Schema(SchemaChange),
    Inspect { what: Inspection, node: Option<NodeId> },
    Outcome(UnsettledTransaction),
    Durable { epoch: Epoch, peek: bool },
    Stream(Vec<(Address, StreamFetch)>),
    Acknowledge(StreamId, Epoch),
    Savepoint,
    Sleep(Duration),
}

impl Ask {
    fn name(&self) -> &'static str {
        match self {
            Ask::Execute { commit: true, .. } => "execute and commit",
            Ask::Execute { .. } => "execute",
            Ask::Commit => "commit",
            Ask::Abort => "abort",
            Ask::RollbackTo(_) => "rollback",
            Ask::Read { .. } => "read",
            Ask::Scan(_) => "scan",
            Ask::ScanNext => "more of a scan",
            Ask::ScanClose => "end of a scan",
            Ask::OpenSnapshot => "open snapshot",
            Ask::CloseSnapshot(_) => "close snapshot",
            Ask::Schema(_) => "schema change",
            Ask::Inspect { .. } => "inspect",
            Ask::Outcome(_) => "outcome",
            Ask::Durable { .. } => "durable",
            Ask::Stream(_) => "fetch of a stream",
            Ask::Acknowledge(..) => "acknowledgement of a stream",
            Ask::Savepoint => "savepoint",
            Ask::Sleep(_) => "sleep",
        }
    }
}

/// What a task is told.
enum Answer {
    Result(ClientResult),
    Savepoint(Savepoint),
    Done,
}

/// Between a task and its application.
#[derive(Default)]
struct Slot {
    asks: VecDeque<Ask>,
    answer: Option<Answer>,
    cluster: Arc<ClusterState>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// It committed in this epoch; zero when it changed nothing.
    Committed(Epoch, Option<TransactionId>),
    /// It did not, and never will.
    Aborted(Option<Refusal>),
    /// Nobody could say.
    Unknown,
}

/// A client session, as a task sees it.
pub struct Session {
    slot: Rc<RefCell<Slot>>,
    ambient: Rc<Ambient>,
    prng: RefCell<Prng>,
    /// The epoch of the last transaction that has committed.
    committed: Cell<Epoch>,
}

impl Session {
    /// True time, for histories.
    pub fn now(&self) -> Instant {
        self.ambient.now.get()
    }

    /// Draws from the task's generator.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Prng) -> T) -> T {
        draw(&mut self.prng.borrow_mut())
    }

    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.draw(|prng| prng.below(bound))
    }

    /// True with a probability of `percent` in a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.draw(|prng| prng.percent(percent))
    }

    /// The cluster as the client knows it.
    pub fn cluster(&self) -> Arc<ClusterState> {
        self.slot.borrow().cluster.clone()
    }

    /// The definition of a table, as the client knows it.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.slot.borrow().cluster.table_named(name).cloned()
    }

    /// The definition of a table with this identity.
    pub fn definition(&self, table: TableId) -> Option<Arc<Table>> {
        self.slot.borrow().cluster.tables.get(&table).cloned()
    }

    async fn ask(&self, ask: Ask) -> Answer {
        self.slot.borrow_mut().asks.push_back(ask);
        poll_fn(|_| match self.slot.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    async fn result(&self, ask: Ask) -> ClientResult {
        match self.ask(ask).await {
            Answer::Result(result) => {
                if let ClientResult::Aborted { refusal: Some(refusal), .. } = &result
                    && refusal.code == ErrorCode::Deadlock
                {
                    self.ambient.deadlocks.borrow_mut().broken(&refusal.detail);
                }
                result
            }
            Answer::Savepoint(_) | Answer::Done => panic!("a request ends in a result"),
        }
    }

    /// Does nothing for a while.
    pub async fn sleep(&self, span: Duration) {
        self.ask(Ask::Sleep(span)).await;
    }

    /// Does nothing for a drawn while of at most `millis_max` milliseconds.
    pub async fn pause(&self, millis_max: u64) {
        let millis = self.draw(|prng| prng.between(1, millis_max));
        self.sleep(Duration::from_millis(millis)).await;
    }

    /// Runs operations in the session's transaction; see `Client::execute`.
    pub async fn execute(&self, operations: Vec<ClientOperation>, commit: bool) -> ClientResult {
        self.result(Ask::Execute { operations, commit }).await
    }

    /// Runs operations in an open transaction. An error means that the transaction is over.
    pub async fn run(
        &self,
        operations: Vec<ClientOperation>,
    ) -> Result<Vec<Result<OperationAnswer, Refusal>>, Refusal> {
        match self.execute(operations, false).await {
            ClientResult::Executed(answers) => Ok(answers),
            ClientResult::Aborted { refusal, .. } => {
                Err(refusal.unwrap_or_else(|| ErrorCode::UnknownTransaction.into()))
            }
            ClientResult::Failed(refusal) => {
                self.abort().await;
                Err(refusal)
            }
            other => panic!("execute ended in {other:?}"),
        }
    }

    /// Runs operations that must all succeed in an open transaction; aborts it otherwise.
    pub async fn run_all(
        &self,
        operations: Vec<ClientOperation>,
    ) -> Result<Vec<OperationAnswer>, Refusal> {
        let answers = self.run(operations).await?;
        let all: Result<Vec<_>, _> = answers.into_iter().collect();
        if all.is_err() {
            self.abort().await;
        }
        all
    }

    /// Runs operations as a whole transaction.
    pub async fn autocommit(&self, operations: Vec<ClientOperation>) -> Ended {
        let result = self.execute(operations, true).await;
        self.settle(result).await
    }

    /// Commits the session's transaction.
    pub async fn commit(&self) -> Ended {
        let result = self.result(Ask::Commit).await;
        self.settle(result).await
    }

    /// Aborts the session's transaction, if it has one.
    pub async fn abort(&self) {
        let result = self.result(Ask::Abort).await;
        assert!(matches!(result, ClientResult::Aborted { .. }), "abort ended in {result:?}");
    }

    /// The point the session's transaction has reached.
    pub async fn savepoint(&self) -> Savepoint {
        match self.ask(Ask::Savepoint).await {
            Answer::Savepoint(savepoint) => savepoint,
            Answer::Result(_) | Answer::Done => panic!("a savepoint was asked for"),
        }
    }

    /// Undoes what came after a savepoint. An error means that the transaction is over.
    pub async fn rollback_to(&self, savepoint: Savepoint) -> Result<(), Refusal> {
        match self.result(Ask::RollbackTo(savepoint)).await {
            ClientResult::RolledBack => Ok(()),
            ClientResult::Aborted { refusal, .. } => {
                Err(refusal.unwrap_or_else(|| ErrorCode::UnknownTransaction.into()))
            }
            other => panic!("rollback ended in {other:?}"),
        }
    }

    /// Restarts of the whole cluster that the client knows of.
    pub fn generation(&self) -> usize {
        self.slot.borrow().cluster.restarts.len()
    }

    /// Finds out how a transaction ended, from the end of the request that should have ended it.
    pub async fn settle(&self, result: ClientResult) -> Ended {
        let ended = self.end_of(result).await;
        if let Ended::Committed(epoch, _) = ended
            && epoch > Epoch(0)
        {
            let told = Acknowledged { epoch, at: self.now(), durable: false };
            self.ambient.acknowledged.borrow_mut().push(told);
            self.committed.set(epoch);
        }
        ended
    }

    /// Sometimes waits until what the session has committed is on disk, or asks how far disks are.
    pub async fn sometimes_await_durable(&self) -> Result<(), Refusal> {
        let epoch = self.committed.get();
        if !self.ambient.disks.get() || epoch == Epoch(0) || !self.percent(DURABLE_PERCENT) {
            return Ok(());
        }
        let peek = self.percent(20);
        match self.result(Ask::Durable { epoch, peek }).await {
            ClientResult::Durable(durable) => {
                // After a restart the epochs that it has undone count as old, not as kept.
                let epoch = self.cluster().restorable(durable.min(epoch));
                let told = Acknowledged { epoch, at: self.now(), durable: true };
                self.ambient.acknowledged.borrow_mut().push(told);
                Ok(())
            }
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("waiting for disks ended in {other:?}"),
        }
    }

    async fn end_of(&self, result: ClientResult) -> Ended {
        let unsettled = match result {
            ClientResult::Committed { transaction, epoch, .. } => {
                return Ended::Committed(epoch, transaction);
            }
            ClientResult::Aborted { refusal, .. } => return Ended::Aborted(refusal),
            ClientResult::Failed(refusal) => {
                self.abort().await;
                return Ended::Aborted(Some(refusal));
            }
            ClientResult::OutcomeUnknown(unsettled) => unsettled,
            other => panic!("a transaction ended in {other:?}"),
        };
        for _ in 0..OUTCOME_QUESTIONS {
            match self.result(Ask::Outcome(unsettled)).await {
                ClientResult::Outcome(TransactionState::Committed(epoch)) => {
                    return Ended::Committed(epoch, Some(unsettled.transaction));
                }
                ClientResult::Outcome(_) => return Ended::Aborted(None),
                ClientResult::Failed(_) => self.pause(500).await,
                other => panic!("an outcome query ended in {other:?}"),
            }
        }
        Ended::Unknown
    }

    /// Committed reads, or reads as of a snapshot.
    pub async fn read(
        &self,
        reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    ) -> Result<Vec<Option<Vec<Value>>>, Refusal> {
        match self.result(Ask::Read { reads, snapshot }).await {
            ClientResult::Read(rows) => Ok(rows),
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("a read ended in {other:?}"),
        }
    }

    /// Asks workers what goes on in them.
    pub async fn inspect(
        &self,
        what: Inspection,
        node: Option<NodeId>,
    ) -> Result<Vec<Inspected>, Refusal> {
        match self.result(Ask::Inspect { what, node }).await {
            ClientResult::Inspected(answers) => Ok(answers),
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("a question ended in {other:?}"),
        }
    }

    /// Asks participants for changes of a stream; those that gave none in time are missing.
    pub async fn fetch_stream(
        &self,
        fetches: Vec<(Address, StreamFetch)>,
    ) -> Result<Vec<(Address, StreamPiece)>, Refusal> {
        match self.result(Ask::Stream(fetches)).await {
            ClientResult::Streamed(answers) => Ok(answers),
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("a fetch ended in {other:?}"),
        }
    }

    /// Says that the changes of a stream up to an epoch are not needed any more.
    pub async fn acknowledge_stream(&self, stream: StreamId, through: Epoch) {
        self.ask(Ask::Acknowledge(stream, through)).await;
    }

    /// All rows of a scan.
    pub async fn scan(&self, spec: ScanSpec) -> Result<Vec<Vec<Value>>, Refusal> {
        self.scan_up_to(spec, usize::MAX).await
    }

    /// What the program of a scan has made of rows, and the rows of which it has made nothing.
    pub async fn compute(&self, spec: ScanSpec) -> Result<(Vec<Block>, Vec<Vec<Value>>), Refusal> {
        let (mut made, mut others) = (Vec::new(), Vec::new());
        let mut result = self.result(Ask::Scan(Box::new(spec))).await;
        loop {
            match result {
                ClientResult::ScanRows { rows, blocks, finished, .. } => {
                    made.extend(blocks);
                    others.extend(rows.into_values());
                    if finished {
                        return Ok((made, others));
                    }
                }
                ClientResult::Failed(refusal) => return Err(refusal),
                other => panic!("a scan ended in {other:?}"),
            }
            result = self.result(Ask::ScanNext).await;
        }
    }

    /// The first rows of a scan, and whether there are more: [`Session::scan_more`] asks for those,
    /// and other requests may come in between.
    pub async fn scan_begin(&self, spec: ScanSpec) -> Result<(Vec<Vec<Value>>, bool), Refusal> {
        part(self.result(Ask::Scan(Box::new(spec))).await)
    }

    /// The next rows of the scan that was begun last, and whether there are more.
    pub async fn scan_more(&self) -> Result<(Vec<Vec<Value>>, bool), Refusal> {
        part(self.result(Ask::ScanNext).await)
    }

    /// The rows of a scan that is closed once at least `enough` of them are there.
    pub async fn scan_up_to(
        &self,
        spec: ScanSpec,
        enough: usize,
    ) -> Result<Vec<Vec<Value>>, Refusal> {
        let mut all = Vec::new();
        let mut result = self.result(Ask::Scan(Box::new(spec))).await;
        loop {
            match result {
                ClientResult::ScanRows { rows, finished, .. } => {
                    all.extend(rows.into_values());
                    if finished {
                        return Ok(all);
                    }
                }
                ClientResult::Failed(refusal) => return Err(refusal),
                other => panic!("a scan ended in {other:?}"),
            }
            if all.len() >= enough {
                self.ask(Ask::ScanClose).await;
                return Ok(all);
            }
            result = self.result(Ask::ScanNext).await;
        }
    }

    /// Opens a snapshot.
    pub async fn open_snapshot(&self) -> Result<Epoch, Refusal> {
        match self.result(Ask::OpenSnapshot).await {
            ClientResult::SnapshotOpened(epoch) => Ok(epoch),
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("a snapshot request ended in {other:?}"),
        }
    }

    /// Lets go of a snapshot.
    pub async fn close_snapshot(&self, epoch: Epoch) {
        self.ask(Ask::CloseSnapshot(epoch)).await;
    }

    /// Changes the catalog.
    pub async fn schema(&self, change: SchemaChange) -> Result<TableId, Refusal> {
        match self.result(Ask::Schema(change)).await {
            ClientResult::SchemaChanged(table) => Ok(table),
            ClientResult::Failed(refusal) => Err(refusal),
            other => panic!("a schema change ended in {other:?}"),
        }
    }
}

/// Whether the refusal says no more than that the same may work another time. Panics on refusals
/// that no workload may ever see.
pub fn is_passing(refusal: &Refusal) -> bool {
    match refusal.code.class() {
        ErrorClass::Temporary | ErrorClass::Overload | ErrorClass::OutcomeUnknown => true,
        ErrorClass::UserError => false,
        // A stopped cluster says so; where it should have gone on, sessions miss their progress.
        ErrorClass::Permanent => true,
        ErrorClass::Internal => panic!("a client was told: {refusal}"),
    }
}

/// Some rows of a scan, and whether there are more.
fn part(result: ClientResult) -> Result<(Vec<Vec<Value>>, bool), Refusal> {
    match result {
        ClientResult::ScanRows { rows, finished, .. } => Ok((rows.into_values(), !finished)),
        ClientResult::Failed(refusal) => Err(refusal),
        other => panic!("a scan ended in {other:?}"),
    }
}

/// One in so many transactions that commit at once is given up as soon as it is sent.
const CANCEL_ONE_IN: u64 = 60;
/// Chance in a hundred that a session whose cluster has disks waits for them after a round.
const DURABLE_PERCENT: u64 = 20;

/// Makes the future of a task from its session.
pub type TaskFactory = Box<dyn FnOnce(Session) -> Pin<Box<dyn Future<Output = ()>>>>;

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    slot: Rc<RefCell<Slot>>,
    /// Opened when the application starts.
    session: Option<SessionNumber>,
    /// The request under way.
    token: Option<Token>,
    /// The scan that was opened last, and what has come of it while the task asked for else.
    scan: Option<Token>,
    of_scan: Option<ClientResult>,
    over: bool,
}

/// The actor of a client node: a client with the tasks that use it.
pub struct Application {
    client: Client,
    tasks: Vec<Task>,
    ambient: Rc<Ambient>,
}

impl Application {
    /// An application that runs these tasks, each with a session of its own.
    pub fn new(ambient: &Rc<Ambient>, prng: &mut Prng, tasks: Vec<TaskFactory>) -> Self {
        let start = |make: TaskFactory| {
            let slot = Rc::<RefCell<Slot>>::default();
            let prng = RefCell::new(prng.fork());
            let (slot_of, ambient, committed) = (slot.clone(), ambient.clone(), Cell::default());
            let session = Session { slot: slot_of, ambient, prng, committed };
            let (session_of, token, scan, of_scan) = (None, None, None, None);
            let future = make(session);
            Task { future, slot, session: session_of, token, scan, of_scan, over: false }
        };
        let tasks = tasks.into_iter().map(start).collect();
        let client = Client::new(ClientOptions::default());
        Self { client, tasks, ambient: ambient.clone() }
    }

    fn begin(&mut self, ctx: &mut Ctx<'_>) {
        self.client.start(ctx);
        for at in 0..self.tasks.len() {
            let session = self.client.open_session(ctx).expect("few sessions");
            self.tasks[at].session = Some(session);
            self.advance(ctx, at);
        }
        self.drain(ctx);
    }

    /// Hands events to their tasks and lets these go on, until nothing happens any more.
    fn drain(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.client.next_event() {
            let of_event = |task: &Task| task.session == Some(event.session);
            let at = self.tasks.iter().position(of_event).expect("sessions belong to tasks");
            if self.tasks[at].token == Some(event.token) {
                self.answer(ctx, at, Answer::Result(event.result));
            } else if self.tasks[at].scan == Some(event.token) {
                self.tasks[at].of_scan = Some(event.result);
            }
        }
    }

    fn answer(&mut self, ctx: &mut Ctx<'_>, at: usize, answer: Answer) {
        self.tasks[at].slot.borrow_mut().answer = Some(answer);
        self.advance(ctx, at);
    }

    /// Runs a task as far as it comes.
    fn advance(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        loop {
            let task = &mut self.tasks[at];
            if task.over {
                return;
            }
            task.slot.borrow_mut().cluster = ctx.cluster().clone();
            let polled = task.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            task.over = polled.is_ready();
            let asked = task.slot.borrow_mut().asks.pop_front();
            let Some(ask) = asked else { return };
            let Some(answer) = self.perform(ctx, at, ask) else { return };
            self.tasks[at].slot.borrow_mut().answer = Some(answer);
        }
    }

    /// Starts what a task asks for; some of it is answered at once.
    fn perform(&mut self, ctx: &mut Ctx<'_>, at: usize, ask: Ask) -> Option<Answer> {
        let doing = (self.ambient.now.get(), ask.name());
        self.ambient.doing.borrow_mut().insert((ctx.node(), at), doing);
        let client = &mut self.client;
        let session = self.tasks[at].session.expect("tasks run after the start");
        let token = match ask {
            Ask::Execute { operations, commit } => {
                let token = client.execute(ctx, session, operations, commit);
                if commit && ctx.prng().below(CANCEL_ONE_IN) == 0 {
                    client.cancel(ctx, session);
                }
                token
            }
            Ask::Commit => client.commit(ctx, session),
            Ask::Abort => client.abort(ctx, session),
            Ask::RollbackTo(savepoint) => client.rollback_to(ctx, session, savepoint),
            Ask::Read { reads, snapshot } => client.read(ctx, session, reads, snapshot),
            Ask::Scan(spec) => {
                let token = client.scan(ctx, session, *spec);
                (self.tasks[at].scan, self.tasks[at].of_scan) = (Some(token), None);
                token
            }
            Ask::ScanNext => {
                if let Some(result) = self.tasks[at].of_scan.take() {
                    return Some(Answer::Result(result));
                }
                let scan = self.tasks[at].scan.expect("a scan is open");
                self.tasks[at].token = Some(scan);
                client.scan_next(ctx, scan);
                return None;
            }
            Ask::ScanClose => {
                client.scan_close(ctx, self.tasks[at].scan.expect("a scan is open"));
                return Some(Answer::Done);
            }
            Ask::OpenSnapshot => client.open_snapshot(ctx, session),
            Ask::CloseSnapshot(epoch) => {
                client.close_snapshot(ctx, session, epoch);
                return Some(Answer::Done);
            }
            Ask::Schema(change) => client.change_schema(ctx, session, change),
            Ask::Inspect { what, node } => client.inspect(ctx, session, what, node),
            Ask::Outcome(unsettled) => client.outcome(ctx, session, unsettled),
            Ask::Durable { epoch, peek } => client.await_durable(ctx, session, epoch, peek),
            Ask::Stream(fetches) => client.fetch_stream(ctx, session, fetches),
            Ask::Acknowledge(stream, through) => {
                client.acknowledge_stream(ctx, stream, through);
                return Some(Answer::Done);
            }
            Ask::Savepoint => return Some(Answer::Savepoint(client.savepoint(session))),
            Ask::Sleep(span) => {
                ctx.set_timer(Timer::Application(at as u32 + 1), span);
                return None;
            }
        };
        self.tasks[at].token = Some(token);
        None
    }
}

impl Actor for Application {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        let left = self.client.handle(ctx, from, message);
        assert!(left.is_none(), "the client has no use for {left:?}");
        self.drain(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::Application(0) => self.begin(ctx),
            Timer::Application(task) => self.answer(ctx, task as usize - 1, Answer::Done),
            Timer::ClientTick => self.client.timeout(ctx),
            other => panic!("{other:?} is not for applications"),
        }
        self.drain(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.client.cluster_changed(ctx, before);
        self.drain(ctx);
    }

    fn check_invariants(&self, _shared: &Shared) {
        self.client.check_invariants();
    }
}

/// How often the end of a transaction is asked for, each time for as long as the client cares.
const OUTCOME_QUESTIONS: u32 = 6;
