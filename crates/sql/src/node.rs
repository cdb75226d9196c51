//! The SQL node's actor: one per worker, with the connections of that worker.
//!
//! # Owns
//! A task per connection, the client library they share, and what passes between them: bytes, asks,
//! answers, pauses, interruptions; when a task goes on that has paused.
//! # Speaks
//! in:  what `Client` takes; `Kill`; `RelayMessage::Question`; connection events
//! out: what `Client` sends; `Kill` to the worker that hosts the connection; `RelayMessage::Reply`
//! # Invariants
//! 1. A task is polled only inside a handler, and only when something it may wait for has come.
//! 2. An answer goes to the ask that caused it or to nobody.
//! 3. A task that has paused in the middle of a call goes on by its alarm, whatever comes for it
//!    meanwhile, and is not dropped before that call has ended.
//! # Failure
//! A connection that ends drops its task; the kernel aborts what its sessions left open.
//! # Not here
//! The protocol (`connection`), statements (`dispatch`).

mod own_tasks;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use actor::{
    Actor, Closing, ConnectionEvent, ConnectionId, Ctx, Figures, Shared as WorkerShared, Timer,
};
use client::{Client, ClientOptions, ClientResult, Token};
use model::{Address, ClusterState, ControlIndex, WorkerId};
use stdx::{Duration, HashMap, Instant};
use wire::{Message, RelayMessage};

use crate::audit;
use crate::connection::{self, Greeting};
use crate::kernel::{Desk, Exchange, Interrupt, Kernel, Marks, Passed, Ticket};
use crate::link::{Goodbye, Link, LinkState};
use crate::measures::{tell_memory, tell_registry};
use crate::pace::Askers;
use crate::peers::{self, Numbering, PeerOrder};
use crate::session::Shared;
use crate::session::options::SqlOptions;
use crate::stacks::{Polled, Seat, Stacks, Task};
use crate::variables::settings;

/// Connections of a worker that may be logging in at a time.
const LOGGING_IN_MAX: usize = 2_048;
/// The timer of pauses and deadlines.
const ALARM: Timer = Timer::Application(0);
/// What a statement takes that rests beside others: shorter ones are what the others ask for.
const LONG: Duration = Duration::from_millis(20);
/// How long a task works before it rests.
const WORKED_MIN: Duration = Duration::from_micros(500);
/// What a task has done between two rests at most; it may have waited for something meanwhile.
const WORKED_MAX: Duration = Duration::from_millis(5);

/// A worker's share of the SQL connections.
pub struct SqlNode {
    options: SqlOptions,
    connections: HashMap<ConnectionId, Connection>,
    by_number: BTreeMap<u32, ConnectionId>,
    runner: Runner,
    /// Those that have not logged in when this was looked at last, the oldest first.
    logging_in: BTreeSet<ConnectionId>,
    armed: Option<Instant>,
    opened: u32,
    /// Tasks that no client waits for, so far.
    detached: u64,
    shutting_down: bool,
    /// The task without a connection has been started, where there is one.
    has_begun: bool,
    /// The state of the cluster in which its own tasks were last looked after.
    own_started_at: ControlIndex,
}

/// What it takes to run a connection, beside the connection.
struct Runner {
    client: Client,
    shared: Rc<Shared>,
    tokens: HashMap<Token, (ConnectionId, Ticket)>,
    alarms: BTreeSet<(Instant, ConnectionId, Option<Ticket>)>,
    askers: Askers,
    stacks: Stacks,
}

/// One connection.
struct Connection {
    number: u32,
    state: TaskState,
    link: Rc<RefCell<LinkState>>,
    exchange: Rc<RefCell<Exchange>>,
    desk: Desk,
    /// When it is looked at whether a deadline of it has come: at the earliest or before.
    alarm: Option<Instant>,
    /// Its task has paused since it was asked for something: it takes long.
    has_paused: bool,
    /// When its last rest ended.
    rested: Instant,
    /// Its peer has gone: it is forgotten as soon as its task is not in the middle of a call.
    is_leaving: bool,
}

/// How the connections of this process are numbered.
fn numbering(ctx: &Ctx<'_>) -> Numbering {
    Numbering::new(ctx.me().node, ctx.view().workers)
}

/// What a connection's task does.
enum TaskState {
    /// It waits for something.
    Waits(Task),
    /// It has paused in the middle of a call.
    Paused(Seat),
    /// It runs.
    Runs,
}

impl SqlNode {
    /// A worker without connections.
    pub fn new(options: SqlOptions) -> Self {
        // Two sessions for each connection: its transaction, and what is done beside it. Few have a
        // third, for what they claim.
        let client_options = ClientOptions {
            sessions_max: 1 << 17,
            answers_peers: true,
            ..ClientOptions::default()
        };
        let shared = Shared::new(&options);
        let stack = options.stack;
        let runner = Runner {
            client: Client::new(client_options),
            shared: Rc::new(shared),
            tokens: HashMap::default(),
            alarms: BTreeSet::new(),
            askers: Askers::default(),
            stacks: Stacks::new(stack),
        };
        Self {
            options,
            connections: HashMap::default(),
            by_number: BTreeMap::new(),
            runner,
            logging_in: BTreeSet::new(),
            armed: None,
            opened: 0,
            detached: 0,
            shutting_down: false,
            has_begun: false,
            own_started_at: ControlIndex::default(),
        }
    }

    /// Whether the cluster can be used: the host says `ready` then.
    pub fn ready(&self, ctx: &Ctx<'_>) -> bool {
        self.runner.client.ready(ctx)
    }

    /// The epochs that a connection has reached; none if there is no such connection.
    pub fn marks(&self, id: ConnectionId) -> Option<Marks> {
        Some(self.connections.get(&id)?.exchange.borrow().marks())
    }

    fn open(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, peer: actor::ConnectionPeer) {
        let number = self.next_number(ctx);
        let link = Rc::new(RefCell::new(LinkState::default()));
        let exchange = Rc::new(RefCell::new(Exchange::default()));
        exchange.borrow_mut().mutation = ctx.view().mutation;
        let mut nonce = [0; 20];
        for byte in &mut nonce {
            // No zero bytes and nothing above ASCII: old clients read it as a C string.
            *byte = 33 + ctx.prng().below(94) as u8;
        }
        let greeting = Greeting {
            number,
            nonce,
            seed: ctx.prng().next_u64(),
            peer,
            clock_base: self.options.clock_base,
            shutting_down: self.shutting_down,
        };
        let kernel = Kernel::new(exchange.clone());
        let task = connection::serve(
            Link::new(link.clone()),
            kernel,
            self.runner.shared.clone(),
            greeting,
        );
        self.connections.insert(id, Connection::new(number, Box::pin(task), link, exchange));
        self.by_number.insert(number, id);
        self.make_room(ctx, id);
    }

    /// A number that no other connection has.
    fn next_number(&mut self, ctx: &Ctx<'_>) -> u32 {
        loop {
            let number = numbering(ctx).number(ctx.me().worker, self.opened);
            self.opened = self.opened.wrapping_add(1);
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }

    /// Answers a question of another SQL node.
    fn answer_peer(&mut self, ctx: &mut Ctx<'_>, from: Address, message: RelayMessage) {
        let RelayMessage::Question { asker, session, request, question } = message else { return };
        let shared = &self.runner.shared;
        let asked = (asker, session, request);
        let (directory, address) = (&shared.directory, &shared.address);
        let (now, life) = (ctx.now(), ctx.incarnation());
        let (rows, order) = peers::answer(directory, address, life, now, asked, question);
        let reply = RelayMessage::Reply { asker, session, request, rows };
        ctx.send(from, Message::Relay(Box::new(reply)));
        match order {
            Some(PeerOrder::Kill(number, query_only)) => {
                shared.kills.borrow_mut().push((number, query_only));
                self.pass_kills(ctx);
            }
            Some(PeerOrder::Leave(leaving)) => ctx.ask_to_leave(leaving),
            None => {}
        }
    }

    /// Takes note of a connection that is to log in. Where too many are, the one that has taken
    /// longest is given up: whoever connects and says nothing keeps nobody out.
    fn make_room(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) {
        self.logging_in.insert(id);
        if self.logging_in.len() <= LOGGING_IN_MAX {
            return;
        }
        let connections = &self.connections;
        let logs_in = |id: &ConnectionId| {
            connections.get(id).is_some_and(|of| !of.link.borrow().is_logged_in)
        };
        self.logging_in.retain(logs_in);
        if self.logging_in.len() > LOGGING_IN_MAX
            && let Some(oldest) = self.logging_in.pop_first()
        {
            self.runner.shared.ledger.lock().counters.aborted_connects += 1;
            self.end(ctx, oldest, Some(Closing::Now));
        }
    }

    /// Runs a connection's task as far as it comes.
    fn run(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(Ended(closing)) = self.runner.run(ctx, id, connection) {
            self.end(ctx, id, closing);
        }
    }

    /// Hands the client's events to those who asked, and runs them.
    fn pass_events(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.next_event(ctx) {
            let more = matches!(event.result, ClientResult::ScanRows { finished: false, .. });
            let asker = if more {
                self.runner.tokens.get(&event.token).copied()
            } else {
                self.runner.tokens.remove(&event.token)
            };
            let Some((id, ticket)) = asker else { continue };
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            if !more {
                connection.desk.ended(ticket);
            }
            connection.exchange.borrow_mut().answer(ticket, event.result);
            if self.runner.holds(ctx, id, connection) {
                continue;
            }
            if let Some(Ended(closing)) = self.runner.run(ctx, id, connection) {
                self.end(ctx, id, closing);
            }
        }
        self.start_own(ctx);
        self.arm(ctx);
    }

    /// The next event of the client. Tasks that somebody wants to have started begin before.
    fn next_event(&mut self, ctx: &mut Ctx<'_>) -> Option<client::ClientEvent> {
        self.start_detached(ctx);
        self.runner.client.next_event()
    }

    /// Forgets a connection; the kernel undoes what it left open.
    fn end(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, closing: Option<Closing>) {
        if let Some(connection) = self.connections.get_mut(&id)
            && matches!(connection.state, TaskState::Paused(_))
        {
            // Its call ends soon: it is told that nobody waits for what it computes.
            connection.is_leaving = true;
            connection.exchange.borrow_mut().client_gone = true;
            return;
        }
        let Some(connection) = self.connections.remove(&id) else { return };
        self.own_ended(id);
        if let Some(closing) = closing {
            ctx.close(id, closing);
        }
        self.by_number.remove(&connection.number);
        let mut ledger = self.runner.shared.ledger.lock();
        ledger.processes.remove(&connection.number);
        ledger.counters.bytes_sent += connection.link.borrow().sent;
        ledger.counters.traffic.add(connection.exchange.borrow_mut().untold_traffic());
        drop(ledger);
        if let Some(alarm) = connection.alarm {
            self.runner.alarms.remove(&(alarm, id, None));
        }
        self.runner.tokens.retain(|_, (owner, _)| *owner != id);
        for session in connection.desk.sessions() {
            self.runner.client.close_session(ctx, session);
        }
    }

    /// KILL, from a connection of this worker or from another worker.
    fn kill(&mut self, ctx: &mut Ctx<'_>, number: u32, query_only: bool) {
        let Some(id) = self.by_number.get(&number).copied() else { return };
        let connection = self.connections.get_mut(&id).expect("listed by number");
        connection.exchange.borrow_mut().interrupt(Interrupt::Killed);
        if !query_only {
            connection.link.borrow_mut().killed = Some(Goodbye::Killed);
        }
        self.run(ctx, id);
    }

    /// Sends on the KILLs that tasks of this worker have asked for.
    fn pass_kills(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(leaving) = self.runner.shared.leaving.take() {
            ctx.ask_to_leave(leaving);
        }
        let kills = std::mem::take(&mut *self.runner.shared.kills.borrow_mut());
        for (connection, query_only) in kills {
            let worker = numbering(ctx).worker(connection);
            let to = Address { worker, ..ctx.me() };
            ctx.send(to, Message::Kill { connection, query_only });
        }
    }

    /// Lets those go on whose time has come, up to one that had paused: what it does next may take
    /// long, and others are to be looked after before the next one.
    fn ring_alarms(&mut self, ctx: &mut Ctx<'_>) {
        // Those due now and no others: a task that pauses again gets its next turn later.
        let mut due = Vec::new();
        while let Some(alarm) = self.runner.alarms.first().copied()
            && alarm.0 <= ctx.now()
        {
            self.runner.alarms.remove(&alarm);
            due.push(alarm);
            if alarm.2.is_some() {
                break;
            }
        }
        for (_, id, ticket) in due {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            let runner = &mut self.runner;
            let ended = match ticket {
                Some(Ticket::PAUSED) => runner.go_on(ctx, id, connection),
                Some(Ticket::RESTED) => runner.run(ctx, id, connection),
                // Any answer will do: it was a pause.
                Some(ticket) => {
                    connection.exchange.borrow_mut().answer(ticket, ClientResult::RolledBack);
                    runner.run(ctx, id, connection)
                }
                None => {
                    connection.alarm = None;
                    if connection.deadline().is_none_or(|deadline| deadline > ctx.now()) {
                        runner.watch_deadline(id, connection);
                        continue;
                    }
                    runner.run(ctx, id, connection)
                }
            };
            if let Some(Ended(closing)) = ended {
                self.end(ctx, id, closing);
            }
        }
    }

    /// Has the timer fire by the time of the earliest alarm.
    fn arm(&mut self, ctx: &mut Ctx<'_>) {
        self.pass_kills(ctx);
        let next = self.runner.alarms.first().map(|(due, _, _)| *due);
        if let Some(due) = next
            && self.armed.is_none_or(|armed| due < armed)
        {
            self.armed = Some(due);
            // In the next turn at the earliest, if it is due already.
            ctx.set_timer(ALARM, due.since(ctx.now()).max(Duration::from_nanos(1)));
        }
    }
}

/// A connection is to be forgotten, and closed like that if it is open.
struct Ended(Option<Closing>);

impl Runner {
    /// Runs a connection's task as far as it comes; one in the middle of a call stays there until
    /// its alarm.
    fn run(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> Option<Ended> {
        loop {
            connection.show(ctx, &self.client);
            if matches!(connection.state, TaskState::Paused(_)) {
                break;
            }
            if connection.is_leaving {
                return Some(Ended(None));
            }
            match self.step(ctx, id, connection) {
                Step::Over => return Some(Ended(Some(Closing::AfterFlush))),
                Step::GoesOn => {}
                Step::Pauses | Step::Waits => break,
            }
        }
        self.watch_deadline(id, connection);
        None
    }

    /// Goes on with a task that has paused in the middle of a call.
    fn go_on(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> Option<Ended> {
        connection.show(ctx, &self.client);
        match self.step(ctx, id, connection) {
            Step::Over => Some(Ended(Some(Closing::AfterFlush))),
            // Whoever came meanwhile found it busy.
            Step::GoesOn | Step::Waits => self.run(ctx, id, connection),
            Step::Pauses => {
                self.watch_deadline(id, connection);
                None
            }
        }
    }

    /// Polls a connection's task once, and passes on what it wants.
    fn step(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, connection: &mut Connection) -> Step {
        let is_shared = connection.has_paused && self.askers.are_beside(id, ctx.now());
        let pace = &self.shared.pace;
        pace.begin(is_shared);
        let polled = match std::mem::replace(&mut connection.state, TaskState::Runs) {
            TaskState::Waits(task) => self.stacks.poll(pace, task),
            TaskState::Paused(seat) => self.stacks.go_on(pace, seat),
            TaskState::Runs => unreachable!("a task is polled by one caller"),
        };
        let (mut over, mut pauses) = (false, false);
        match polled {
            Polled::Over => over = true,
            Polled::Waits(task) => connection.state = TaskState::Waits(task),
            Polled::Paused(seat) => {
                connection.state = TaskState::Paused(seat);
                connection.has_paused = true;
                pauses = true;
                let rest = connection.rest(ctx, &self.askers, id);
                self.alarms.insert((ctx.now() + rest, id, Some(Ticket::PAUSED)));
            }
        }
        let output_moved = connection.pass_output(ctx, id);
        let answered = self.pass_asks(ctx, id, connection);
        match (over, pauses) {
            (true, _) => Step::Over,
            (_, true) => Step::Pauses,
            _ if output_moved || answered => Step::GoesOn,
            _ => Step::Waits,
        }
    }

    /// Whether a connection rests that could go on: it is run again when its rest is over.
    fn holds(&mut self, ctx: &Ctx<'_>, id: ConnectionId, connection: &mut Connection) -> bool {
        if !connection.has_paused || !matches!(connection.state, TaskState::Waits(_)) {
            return false;
        }
        if connection.rested <= ctx.now() {
            let rest = connection.rest(ctx, &self.askers, id);
            if rest > Duration::ZERO {
                self.alarms.insert((ctx.now() + rest, id, Some(Ticket::RESTED)));
            }
        }
        connection.rested > ctx.now()
    }

    /// Passes a task's asks to the client. True when one of them is answered already.
    fn pass_asks(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ConnectionId,
        connection: &mut Connection,
    ) -> bool {
        let mut answered = false;
        loop {
            let ask = connection.exchange.borrow_mut().next_ask();
            let Some((ask, lock_wait)) = ask else { return answered };
            let ticket = ask.ticket;
            match connection.desk.pass(ctx, &mut self.client, ask, lock_wait) {
                Passed::Done => {}
                Passed::Closed(token) => {
                    self.tokens.remove(&token);
                }
                Passed::Asked(token) => {
                    self.tokens.insert(token, (id, ticket));
                }
                Passed::Answered(result) => {
                    connection.exchange.borrow_mut().answer(ticket, result);
                    answered = true;
                }
                Passed::Sleeps(span) => {
                    connection.has_paused = true;
                    let span = span.max(connection.rest(ctx, &self.askers, id));
                    self.alarms.insert((ctx.now() + span, id, Some(ticket)));
                }
                Passed::Abandoned(session) => {
                    self.tokens.retain(|_, (owner, _)| *owner != id);
                    self.client.close_session(ctx, session);
                }
            }
        }
    }

    /// Keeps an alarm for a connection's deadline. One that rings before it stays: deadlines come
    /// and go with every command, and few of them are ever reached.
    fn watch_deadline(&mut self, id: ConnectionId, connection: &mut Connection) {
        if let Some(deadline) = connection.deadline()
            && connection.alarm.is_none_or(|alarm| deadline < alarm)
        {
            if let Some(later) = connection.alarm.replace(deadline) {
                self.alarms.remove(&(later, id, None));
            }
            self.alarms.insert((deadline, id, None));
        }
    }
}

/// What one poll of a task has come to.
enum Step {
    /// The task has ended.
    Over,
    /// It has paused in the middle of a call.
    Pauses,
    /// What it waits for may be there.
    GoesOn,
    /// It waits.
    Waits,
}

impl Connection {
    fn new(
        number: u32,
        task: Task,
        link: Rc<RefCell<LinkState>>,
        exchange: Rc<RefCell<Exchange>>,
    ) -> Self {
        Self {
            number,
            state: TaskState::Waits(task),
            link,
            exchange,
            desk: Desk::default(),
            alarm: None,
            has_paused: false,
            rested: Instant::ZERO,
            is_leaving: false,
        }
    }

    /// When its task waits no longer: for its peer, or for the end of its statement.
    fn deadline(&self) -> Option<Instant> {
        let (peer, statement) = (self.link.borrow().deadline, self.exchange.borrow().deadline);
        peer.into_iter().chain(statement).min()
    }

    /// How long its task rests where it pauses, beside others who ask for something: not at all
    /// unless its statement takes long, and CPUs are short.
    fn rest(&mut self, ctx: &Ctx<'_>, askers: &Askers, id: ConnectionId) -> Duration {
        let now = ctx.now();
        let began = self.exchange.borrow().began.unwrap_or(now);
        let worked = now.since(self.rested.max(began));
        let rests = now.since(began) > LONG && askers.are_beside(id, now);
        if rests && worked < WORKED_MIN {
            return Duration::ZERO;
        }
        let rest = if rests { ctx.rest(worked.min(WORKED_MAX)) } else { Duration::ZERO };
        self.rested = now + rest;
        rest
    }

    /// Shows the task the world of this turn.
    fn show(&mut self, ctx: &Ctx<'_>, client: &Client) {
        let mut exchange = self.exchange.borrow_mut();
        exchange.now = ctx.now();
        exchange.has_disk = ctx.config().disk;
        exchange.protocol = client.protocol();
        if exchange.deadline.is_some_and(|deadline| deadline <= ctx.now()) {
            exchange.deadline = None;
            exchange.interrupt(Interrupt::TimedOut);
        }
        if !std::sync::Arc::ptr_eq(&exchange.cluster, ctx.cluster()) {
            exchange.cluster = ctx.cluster().clone();
        }
        if let Some(session) = self.desk.user_session() {
            exchange.savepoint = client.savepoint(session);
            exchange.transaction = client.transaction(session);
        } else {
            exchange.savepoint = Default::default();
            exchange.transaction = None;
        }
        self.link.borrow_mut().now = ctx.now();
    }

    /// Moves what the task wrote to the host. True when the task had waited for that.
    fn pass_output(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) -> bool {
        let mut link = self.link.borrow_mut();
        if self.is_leaving {
            link.output.clear();
            return false;
        }
        let was_full = link.is_full();
        let writes = !link.output.is_empty();
        if writes {
            link.sent += link.output.len() as u64;
            ctx.write_from(id, &mut link.output);
        }
        if writes || link.congested {
            link.congested = ctx.is_congested(id);
        }
        if link.is_flooded() != link.paused {
            link.paused = link.is_flooded();
            if link.paused { ctx.pause(id) } else { ctx.resume(id) }
        }
        if let Some(received) = link.start_tls.take() {
            ctx.start_tls(id, &received);
        }
        was_full && !link.is_full()
    }
}

impl Actor for SqlNode {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if let Message::Kill { connection, query_only } = message {
            self.kill(ctx, connection, query_only);
            return self.pass_events(ctx);
        }
        // What else is none for a client is none for anybody here.
        if let Some(Message::Relay(relayed)) = self.runner.client.handle(ctx, from, message) {
            self.answer_peer(ctx, from, *relayed);
        }
        self.pass_events(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::ClientTick => self.runner.client.timeout(ctx),
            _ => {
                self.armed = None;
                self.runner.client.start(ctx);
                self.begin(ctx);
                self.ring_alarms(ctx);
            }
        }
        self.pass_events(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        if settings::differ(before, ctx.cluster()) {
            settings::adopt(&self.runner.shared.directory, ctx.cluster());
        }
        self.runner.shared.way.look(before, ctx.cluster(), ctx.now());
        self.runner.client.cluster_changed(ctx, before);
        self.stop_moving(ctx, before);
        self.pass_events(ctx);
    }

    fn connection(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, event: ConnectionEvent<'_>) {
        if let ConnectionEvent::Opened(peer) = event {
            self.open(ctx, id, peer);
            self.run(ctx, id);
        } else if let Some(connection) = self.connections.get_mut(&id) {
            let mut link = connection.link.borrow_mut();
            match event {
                ConnectionEvent::Opened(_) => unreachable!("matched above"),
                ConnectionEvent::Received(bytes) => {
                    link.received.extend_from_slice(bytes);
                    // More of the same statement, as of a file that is loaded, changes nothing.
                    connection.has_paused &= connection.exchange.borrow().began.is_some();
                    self.runner.askers.note(id, ctx.now());
                }
                ConnectionEvent::InputEnded => {
                    link.input_ended = true;
                    connection.exchange.borrow_mut().client_gone = true;
                }
                ConnectionEvent::Writable => link.congested = false,
                ConnectionEvent::Secured(encryption) => {
                    link.secured = Some(Rc::new(encryption));
                }
                ConnectionEvent::Draining => link.draining = true,
                ConnectionEvent::ShuttingDown => link.killed = Some(Goodbye::ShuttingDown),
                ConnectionEvent::Closed => {
                    drop(link);
                    self.end(ctx, id, None);
                    return self.pass_events(ctx);
                }
            }
            drop(link);
            if let Some(Ended(closing)) = self.runner.run(ctx, id, connection) {
                self.end(ctx, id, closing);
            }
        }
        self.pass_events(ctx);
    }

    fn figures(&self, worker: &WorkerShared, figures: &mut Figures) {
        self.runner.shared.measures.borrow().tell(figures);
        if worker.worker == WorkerId(0) {
            tell_registry(&self.runner.shared.directory.lock(), figures);
            tell_memory(self.runner.shared.directory.memory(), figures);
            audit::tell(self.runner.shared.audit.as_ref(), figures);
        }
    }

    fn check_invariants(&self, _shared: &WorkerShared) {
        self.runner.client.check_invariants();
        self.runner.tokens.iter().for_each(|(token, (id, _))| {
            assert!(self.runner.client.is_open(*token), "{token:?} of {id:?} is over");
            assert!(self.connections.contains_key(id), "{token:?} of {id:?}, which has ended");
        });
    }
}
