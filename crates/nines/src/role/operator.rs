//! The management node's view of the cluster: an actor that follows what the cluster agrees on, and
//! asks data nodes what goes on in them.
//!
//! # Owns
//! [`Board`], what the actor and the threads that answer requests share; the questions under way.
//! # Speaks
//! in: `InspectMessage::Answer`, `RelayMessage::Told`; out: `InspectMessage::Ask` to participants
//! and coordinators, `RelayMessage::Ask` to control actors.
//! # Guarantees
//! A question ends in time: with the answers there are, and the names of those who gave none.
//! # Not here
//! What changes mean in words: `news`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actor::{Actor, Ctx, Metric, Timer};
use model::{
    ActorKind, Address, ClusterState, Command, Epoch, Incarnation, NodeId, NodeRole, SessionId,
    Value, WorkerId,
};
use stdx::Instant;
use wire::{
    ControlMessage, InspectMessage, Inspection, Leaving, Message, PeerQuestion, RelayMessage,
};

use super::request::{Sight, Subject, WorkerSight};

/// What the actor shares with the threads that answer requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    /// The newest state of the cluster.
    state: Arc<ClusterState>,
    /// Questions that the actor has not taken yet.
    questions: Vec<NewQuestion>,
    /// An order for the next restart after so many: it may go back to this epoch.
    accepted: Option<(usize, Epoch)>,
    /// Commands for the control log that the actor has not taken yet.
    commands: Vec<Command>,
    /// Orders to SQL nodes that the actor has not taken yet.
    leaves: Vec<NewLeave>,
}

/// Whether an SQL node was told, or why not.
type Told = Result<(), &'static str>;

/// An SQL node that is to leave.
#[derive(Debug)]
struct NewLeave {
    node: NodeId,
    life: Incarnation,
    leaving: Leaving,
    answer: Sender<Told>,
}

#[derive(Debug)]
struct NewQuestion {
    at: Subject,
    /// Nodes to be asked beside the data nodes.
    others: Vec<NodeId>,
    /// Only the first worker of each node is asked, and nobody waits for the answer.
    by_the_way: bool,
    answer: Sender<Sight>,
}

/// Is told of each new state, with the one before if it has been told of one.
pub(super) type Watcher = Box<dyn Fn(&ClusterState, Option<&ClusterState>) + Send>;

impl Board {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> Arc<ClusterState> {
        self.notes().state.clone()
    }

    /// Orders the next restart after so many to go back to an epoch, whatever is lost.
    pub(super) fn accept_loss(&self, restarts: usize, epoch: Epoch) {
        self.notes().accepted = Some((restarts, epoch));
    }

    /// Has a command logged, unless it does not fit the state any more.
    pub(super) fn order(&self, command: Command) {
        self.notes().commands.push(command);
    }

    /// Asks the workers of all data nodes and of some others, and waits for the answers.
    pub(super) fn look(&self, at: Subject, others: Vec<NodeId>) -> Result<Sight, String> {
        self.ask(at, others, false)
    }

    /// Asks the first worker of each node for figures, for which no operator waits.
    pub(super) fn glance(&self, others: Vec<NodeId>) -> Result<Sight, String> {
        self.ask(Subject::Figures, others, true)
    }

    /// Has a life of an SQL node leave, and waits until it has been told.
    ///
    /// # Errors
    /// When it has not answered in time.
    pub(super) fn order_to_leave(
        &self,
        node: NodeId,
        life: Incarnation,
        leaving: Leaving,
    ) -> Result<(), String> {
        let (answer, told) = channel();
        self.notes().leaves.push(NewLeave { node, life, leaving, answer });
        let why_not = match told.recv_timeout(PATIENCE) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => why,
            Err(_) => "it has not answered",
        };
        Err(format!(
            "SQL node {} cannot be told: {why_not}; stop it where it runs (`systemctl stop \
             nines-sql`, or SIGTERM to its process)",
            node.0
        ))
    }

    fn ask(&self, at: Subject, others: Vec<NodeId>, by_the_way: bool) -> Result<Sight, String> {
        let (send, answer): (_, Receiver<Sight>) = channel();
        let mut notes = self.notes();
        if notes.questions.len() >= QUESTIONS_MAX {
            return Err(format!("{QUESTIONS_MAX} questions wait for an answer already; try again"));
        }
        notes.questions.push(NewQuestion { at, others, by_the_way, answer: send });
        drop(notes);
        let answer = answer.recv_timeout(PATIENCE);
        answer.map_err(|_| "this management node is busy, or ending".to_string())
    }
}

/// Keeps a [`Board`].
pub(super) struct Operator {
    board: Board,
    watcher: Watcher,
    /// What the watcher has been told last. Nothing before this life is a member: until then it
    /// only hears what has been.
    told: Option<Arc<ClusterState>>,
    open: BTreeMap<u64, Question>,
    /// SQL nodes that were told to leave and have not answered, and who waits for that.
    leaves: BTreeMap<u64, (Instant, Sender<Told>)>,
    /// Counts questions.
    asked: u64,
    /// When somebody asked last.
    asked_at: Instant,
}

/// A question under way.
struct Question {
    what: Inspection,
    answer: Sender<Sight>,
    /// Nodes that are asked beside the data nodes: how many workers they have they tell themselves.
    others: Vec<NodeId>,
    /// Who has not answered yet.
    awaited: BTreeSet<Address>,
    workers: Vec<WorkerSight>,
    due: Instant,
}

impl Operator {
    pub(super) fn new(board: Board, watcher: Watcher) -> Self {
        Self {
            board,
            watcher,
            told: None,
            open: BTreeMap::new(),
            leaves: BTreeMap::new(),
            asked: 0,
            asked_at: Instant::ZERO,
        }
    }

    fn ask(&mut self, ctx: &mut Ctx<'_>, new: NewQuestion) {
        self.asked += 1;
        let NewQuestion { at, mut others, by_the_way, answer } = new;
        let what = inspection(at);
        let mut awaited = addressees(ctx.cluster(), what);
        awaited.extend(others.iter().map(|node| client(*node, 0)));
        if by_the_way {
            awaited.retain(|to| to.worker == WorkerId(0));
            // Nor are their other workers asked when they answer.
            others.clear();
        }
        for to in &awaited {
            send(ctx, *to, self.asked, what);
        }
        let due = ctx.now() + ANSWER_TIMEOUT;
        let question = Question { what, answer, others, awaited, workers: Vec::new(), due };
        self.open.insert(self.asked, question);
    }

    /// Repeats an order until the restart that it is for: whoever leads may not have heard of it.
    fn pass_on(&mut self, ctx: &mut Ctx<'_>) {
        let mut notes = self.board.notes();
        let control = Address { worker: WorkerId(0), actor: ActorKind::Control, ..ctx.me() };
        for command in std::mem::take(&mut notes.commands) {
            let propose = ControlMessage::Propose(Arc::new(command));
            ctx.send(control, Message::Control(Box::new(propose)));
        }
        let done = ctx.cluster().restarts.len();
        notes.accepted = notes.accepted.filter(|(restarts, _)| *restarts == done);
        let Some((restarts, epoch)) = notes.accepted else { return };
        let restarts = restarts as u32;
        let order = ControlMessage::AcceptLoss { restarts, epoch };
        ctx.send(control, Message::Control(Box::new(order)));
    }

    /// Tells an SQL node to leave. All data nodes pass the order on, as they do questions of SQL
    /// nodes.
    fn tell_to_leave(&mut self, ctx: &mut Ctx<'_>, new: NewLeave) {
        let NewLeave { node, life, leaving, answer } = new;
        let has_data = ctx.cluster().members.values().any(|of| of.role == NodeRole::Data);
        let why_not = if ctx.protocol() < wire::relay::LEAVE_SINCE {
            Some("the cluster keeps to the protocol of an older release (`upgrade finalize`)")
        } else if !has_data {
            Some("the order goes through data nodes, and none runs")
        } else {
            None
        };
        if let Some(why_not) = why_not {
            let _ = answer.send(Err(why_not));
            return;
        }
        self.asked += 1;
        self.leaves.insert(self.asked, (ctx.now() + ANSWER_TIMEOUT, answer));
        let members = ctx.cluster().members.iter();
        let data: Vec<NodeId> = members
            .filter(|(_, member)| member.role == NodeRole::Data)
            .map(|(node, _)| *node)
            .collect();
        for relay in data {
            let question = PeerQuestion::Leave { life, leaving };
            let (session, request) = (session(ctx), self.asked);
            let ask = RelayMessage::Ask { session, request, to: Some(node), question };
            let to = Address { node: relay, worker: WorkerId(0), actor: ActorKind::Control };
            ctx.send(to, Message::Relay(Box::new(ask)));
        }
    }

    /// An SQL node answers.
    fn told(&mut self, ctx: &Ctx<'_>, message: RelayMessage) {
        let RelayMessage::Told { session: of, request, rows, .. } = message else { return };
        if of != session(ctx) {
            return;
        }
        if let Some((_, answer)) = self.leaves.remove(&request) {
            let is_told = rows.first().and_then(|row| row.first()) == Some(&Value::UInt(1));
            let told = if is_told { Ok(()) } else { Err("it has been restarted meanwhile") };
            // Who asked may have lost patience.
            let _ = answer.send(told);
        }
    }

    /// Ends questions that all have answered, or that have waited long enough.
    fn settle(&mut self, now: Instant) {
        self.leaves.retain(|_, (due, _)| *due > now);
        let done = |question: &Question| question.awaited.is_empty() || question.due <= now;
        for (_, question) in self.open.extract_if(.., |_, question| done(question)) {
            let silent: BTreeSet<u16> = question.awaited.iter().map(|to| to.node.0).collect();
            let mut workers = question.workers;
            workers.sort_by_key(|worker| (worker.node, worker.worker));
            let sight = Sight { workers, silent: silent.into_iter().collect() };
            // Who asked may have lost patience.
            let _ = question.answer.send(sight);
        }
    }
}

impl Actor for Operator {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        let message = match message {
            Message::Relay(message) => return self.told(ctx, *message),
            Message::Inspect(message) => message,
            _ => return,
        };
        let InspectMessage::Answer { session: of, request, rows } = *message else { return };
        let Some(question) = self.open.get_mut(&request) else { return };
        if of == session(ctx) && question.awaited.remove(&from) {
            if from.worker == WorkerId(0) && question.others.contains(&from.node) {
                for worker in 1..workers_told(&rows) {
                    let to = client(from.node, worker);
                    question.awaited.insert(to);
                    send(ctx, to, request, question.what);
                }
            }
            let rows = rows.iter().map(|row| row.iter().map(plain).collect()).collect();
            let worker = from.worker.0;
            question.workers.push(WorkerSight { node: from.node.0, worker, rows });
        }
        self.settle(ctx.now());
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, _: Timer) {
        let leaves = std::mem::take(&mut self.board.notes().leaves);
        for leave in leaves {
            self.tell_to_leave(ctx, leave);
        }
        let questions = std::mem::take(&mut self.board.notes().questions);
        if questions.iter().any(|question| !question.by_the_way) {
            self.asked_at = ctx.now();
        }
        for question in questions {
            self.ask(ctx, question);
        }
        self.pass_on(ctx);
        self.settle(ctx.now());
        let lately = ctx.now().since(self.asked_at) < ATTENTION;
        ctx.set_timer(Timer::Application(0), if lately { TICK } else { TICK_IDLE });
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, _: &ClusterState) {
        let state = ctx.cluster().clone();
        for question in self.open.values_mut() {
            let Question { awaited, others, .. } = question;
            awaited.retain(|to| state.members.contains_key(&to.node) || others.contains(&to.node));
        }
        if self.told.is_some() || state.member(ctx.node(), ctx.incarnation()).is_some() {
            (self.watcher)(&state, self.told.as_deref());
            self.told = Some(state.clone());
        }
        self.board.notes().state = state;
        self.settle(ctx.now());
    }
}

/// Asks a worker.
fn send(ctx: &mut Ctx<'_>, to: Address, request: u64, what: Inspection) {
    let session = session(ctx);
    let ask = InspectMessage::Ask { session, request, what };
    ctx.send(to, Message::Inspect(Box::new(ask)));
}

/// The application's actor on a worker.
fn client(node: NodeId, worker: u8) -> Address {
    Address { node, worker: WorkerId(worker), actor: ActorKind::Client }
}

/// How many workers a node says that it has.
fn workers_told(rows: &[Vec<Value>]) -> u8 {
    let name = Value::text(Metric::Workers.name());
    let told = rows.iter().find_map(|row| match &row[..] {
        [of, _, Value::UInt(number)] if *of == name => Some(*number),
        _ => None,
    });
    told.and_then(|number| u8::try_from(number).ok()).unwrap_or(1).min(WORKERS_MAX)
}

/// As whom questions are asked; there is nobody else in this life of the node.
fn session(ctx: &Ctx<'_>) -> SessionId {
    SessionId { node: ctx.node(), incarnation: ctx.incarnation(), number: 0 }
}

fn inspection(at: Subject) -> Inspection {
    match at {
        Subject::Memory => Inspection::Memory,
        Subject::Transactions => Inspection::Transactions,
        Subject::Locks => Inspection::Locks,
        Subject::Copies => Inspection::Copies,
        Subject::Figures => Inspection::Figures,
    }
}

/// Every worker of the data nodes.
fn addressees(cluster: &ClusterState, what: Inspection) -> BTreeSet<Address> {
    let actor = match what {
        Inspection::Transactions => ActorKind::Coordinator,
        _ => ActorKind::Participant,
    };
    let members = cluster.members.iter().filter(|(_, member)| member.role == NodeRole::Data);
    members
        .flat_map(|(node, member)| {
            let worker = |worker| Address { node: *node, worker: WorkerId(worker), actor };
            (0..member.workers).map(worker)
        })
        .collect()
}

/// A value as JSON; bytes are texts in all that is asked for.
fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
    }
}

/// How often the actor looks for questions while there are some, and when there have been none for
/// a while: each look wakes a thread.
const TICK: stdx::Duration = stdx::Duration::from_millis(50);
const TICK_IDLE: stdx::Duration = stdx::Duration::from_millis(200);
/// How long after a question the next one is expected.
const ATTENTION: stdx::Duration = stdx::Duration::from_secs(10);
/// How long data nodes may take to answer.
const ANSWER_TIMEOUT: stdx::Duration = stdx::Duration::from_millis(2_000);
/// How long a thread waits for the actor.
const PATIENCE: Duration = Duration::from_secs(4);
/// Most workers of a node.
const WORKERS_MAX: u8 = 64;
/// Most questions that wait.
const QUESTIONS_MAX: usize = 16;
