//! An SQL node with the clients that are connected to it, as the application of a client node.
//!
//! # Owns
//! [`SqlApplication`], an actor around `sql::SqlNode`, the same that serves in production: it
//! carries bytes between the SQL node and its clients, each with a delay of its own. A client is an
//! `async` function that goes on only when its answer is there. [`Mysql`] is what it asks through.
//! # Guarantees
//! Clients live and die with their SQL node: what a dead one had begun stays in doubt.
//! # Not here
//! The protocol (`protocol`), what clients do (`bank`, `families`, …).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use actor::{
    Actor, ConnectionEvent, ConnectionId, ConnectionPeer, Ctx, OUTPUT_HIGH, Shared, Timer,
    Transport,
};
use model::{Address, ClusterState};
use sql::{Directory, Sequences, ServerAddress, SqlNode, SqlOptions};
use stdx::{Duration, Prng};
use wire::Message;

use super::files::Host;
use super::protocol::{self, Answer, Expected, ServerError};

/// 2026-01-01 in microseconds since 1970.
const CLOCK_BASE: i64 = 1_767_225_600_000_000;
/// Longest time between a client and its SQL node, in microseconds.
const DELAY_MAX: u64 = 120;

/// What a client asks for.
enum Ask {
    Open,
    Exchange { bytes: Vec<u8>, expected: Option<Expected> },
    Sleep(Duration),
}

/// What a client is told.
enum Told {
    Packets(Vec<Vec<u8>>),
    Lost,
    Done,
}

#[derive(Default)]
struct Slot {
    asks: VecDeque<Ask>,
    told: Option<Told>,
    cluster: Arc<ClusterState>,
}

/// Why a statement has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server says so.
    Error(ServerError),
    /// The connection has ended: what was under way may have been done.
    Lost,
}

impl Failure {
    /// MySQL's number of the error; 2013 where the connection is lost, as clients say.
    pub fn code(&self) -> u16 {
        match self {
            Failure::Error(error) => error.code,
            Failure::Lost => 2013,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => write!(f, "error {}: {}", error.code, error.text),
            Failure::Lost => f.write_str("the connection is lost"),
        }
    }
}

/// A client's connection, as its function sees it.
pub struct Mysql {
    slot: Rc<RefCell<Slot>>,
    prng: RefCell<Prng>,
}

impl Mysql {
    /// A number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.prng.borrow_mut().below(bound)
    }

    /// True with a probability of `percent` in a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.prng.borrow_mut().percent(percent)
    }

    /// Restarts of the whole cluster that the SQL node knows of.
    pub fn generation(&self) -> usize {
        self.slot.borrow().cluster.restarts.len()
    }

    async fn ask(&self, ask: Ask) -> Told {
        self.slot.borrow_mut().asks.push_back(ask);
        poll_fn(|_| match self.slot.borrow_mut().told.take() {
            Some(told) => Poll::Ready(told),
            None => Poll::Pending,
        })
        .await
    }

    async fn exchange(&self, bytes: Vec<u8>, expected: Expected) -> Result<Vec<Vec<u8>>, Failure> {
        match self.ask(Ask::Exchange { bytes, expected: Some(expected) }).await {
            Told::Packets(packets) => Ok(packets),
            Told::Lost => Err(Failure::Lost),
            Told::Done => panic!("a command is answered"),
        }
    }

    /// Does nothing for a while.
    pub async fn sleep(&self, span: Duration) {
        self.ask(Ask::Sleep(span)).await;
    }

    /// Does nothing for a drawn while of at most `millis_max` milliseconds.
    pub async fn pause(&self, millis_max: u64) {
        let millis = 1 + self.below(millis_max.max(1));
        self.sleep(Duration::from_millis(millis)).await;
    }

    /// Connects anew and logs in; what was connected before is closed.
    pub async fn connect(&self) -> Result<(), Failure> {
        if let Told::Lost = self.ask(Ask::Open).await {
            return Err(Failure::Lost);
        }
        let mut packets = self.exchange(protocol::login(), Expected::Packet).await?;
        if protocol::asks_for_proof(&packets) {
            packets = self.exchange(protocol::no_password(), Expected::Packet).await?;
        }
        protocol::read(&packets).map_err(Failure::Error)?;
        Ok(())
    }

    /// Says goodbye. A transaction that is open is undone.
    pub async fn quit(&self) {
        self.ask(Ask::Exchange { bytes: protocol::quit(), expected: None }).await;
    }

    /// Runs a statement as text.
    pub async fn query(&self, text: &str) -> Result<Answer, Failure> {
        let packets = self.exchange(protocol::query(text), Expected::Result).await?;
        protocol::read(&packets).map_err(Failure::Error)
    }

    /// Prepares a statement.
    pub async fn prepare(&self, text: &str) -> Result<u32, Failure> {
        let packets = self.exchange(protocol::prepare(text), Expected::Prepared).await?;
        protocol::read_prepared(&packets).map_err(Failure::Error)
    }

    /// Runs a prepared statement that answers no rows.
    pub async fn execute(&self, statement: u32, parameters: &[i64]) -> Result<Answer, Failure> {
        let bytes = protocol::execute(statement, parameters);
        let packets = self.exchange(bytes, Expected::Result).await?;
        protocol::read(&packets).map_err(Failure::Error)
    }

    /// Forgets a prepared statement.
    pub async fn forget(&self, statement: u32) {
        self.ask(Ask::Exchange { bytes: protocol::close(statement), expected: None }).await;
    }
}

/// Makes the future of a client from its connection.
pub(super) type ClientFactory = Box<dyn FnOnce(Mysql) -> Pin<Box<dyn Future<Output = ()>>>>;

/// A client, and what is on its way to and from it.
struct ClientTask {
    future: Pin<Box<dyn Future<Output = ()>>>,
    slot: Rc<RefCell<Slot>>,
    connection: Option<ConnectionId>,
    /// What it has asked for and is not there yet.
    on_its_way: Option<Ask>,
    received: Vec<u8>,
    /// The answer that it waits for.
    expected: Option<Expected>,
    over: bool,
}

/// The actor of a client node that is an SQL node.
pub struct SqlApplication {
    node: SqlNode,
    clients: Vec<ClientTask>,
    opened: u64,
    begun: bool,
}

impl SqlApplication {
    /// An SQL node with these clients, and the files of backups of its host.
    pub(super) fn new(prng: &mut Prng, clients: Vec<ClientFactory>, files: Host) -> Self {
        let start = |make: ClientFactory| {
            let slot = Rc::<RefCell<Slot>>::default();
            let mysql = Mysql { slot: slot.clone(), prng: RefCell::new(prng.fork()) };
            ClientTask {
                future: make(mysql),
                slot,
                connection: None,
                on_its_way: None,
                received: Vec::new(),
                expected: None,
                over: false,
            }
        };
        let clients = clients.into_iter().map(start).collect();
        let directory = Directory::default();
        directory.backups().serve_by(Arc::new(files));
        let options = SqlOptions {
            directory,
            sequences: Sequences::default(),
            clock_base: CLOCK_BASE,
            host_offset: 0,
            admission: Default::default(),
            address: ServerAddress::default(),
            clock: None,
            stack: None,
        };
        Self { node: SqlNode::new(options), clients, opened: 0, begun: false }
    }

    /// Takes what the SQL node has written to its clients, until nothing more comes of it.
    fn carry(&mut self, ctx: &mut Ctx<'_>) {
        let mut touched = Vec::new();
        loop {
            ctx.shared().connections.drain_touched(&mut touched);
            if touched.is_empty() {
                break;
            }
            for id in std::mem::take(&mut touched) {
                self.take_output(ctx, id);
            }
        }
        for at in 0..self.clients.len() {
            self.answer_whole(ctx, at);
        }
    }

    fn take_output(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) {
        let connections = &mut ctx.shared().connections;
        let Some(outlet) = connections.get_mut(id) else { return };
        let output = outlet.output().to_vec();
        outlet.advance(output.len());
        let closes = outlet.closing().is_some();
        if closes {
            connections.remove(id);
        }
        let client = self.clients.iter_mut().find(|client| client.connection == Some(id));
        if let Some(client) = client {
            client.received.extend(&output);
            if closes {
                client.connection = None;
            }
        }
        if !closes && output.len() > OUTPUT_HIGH {
            self.node.connection(ctx, id, ConnectionEvent::Writable);
        }
    }

    /// Gives a client its answer, if that is whole or will not come.
    fn answer_whole(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let client = &mut self.clients[at];
        let Some(expected) = client.expected else { return };
        let told = match protocol::take_whole(expected, &mut client.received) {
            Some(packets) => Told::Packets(packets),
            None if client.connection.is_none() => Told::Lost,
            None => return,
        };
        client.expected = None;
        self.tell(ctx, at, told);
    }

    fn tell(&mut self, ctx: &mut Ctx<'_>, at: usize, told: Told) {
        self.clients[at].slot.borrow_mut().told = Some(told);
        self.advance(ctx, at);
    }

    /// Runs a client until it asks for something.
    fn advance(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let client = &mut self.clients[at];
        if client.over {
            return;
        }
        client.slot.borrow_mut().cluster = ctx.cluster().clone();
        let polled = client.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        client.over = polled.is_ready();
        let Some(ask) = client.slot.borrow_mut().asks.pop_front() else { return };
        let delay = match &ask {
            Ask::Sleep(span) => *span,
            Ask::Open | Ask::Exchange { .. } => {
                Duration::from_micros(1 + ctx.prng().below(DELAY_MAX))
            }
        };
        self.clients[at].on_its_way = Some(ask);
        ctx.set_timer(Timer::Application(at as u32 + 1), delay);
    }

    /// What a client has asked for is there.
    fn arrive(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let client = &mut self.clients[at];
        match client.on_its_way.take() {
            None | Some(Ask::Sleep(_)) => self.tell(ctx, at, Told::Done),
            // As the host of production, which does not listen before.
            Some(Ask::Open) if !self.node.ready(ctx) => self.tell(ctx, at, Told::Lost),
            Some(Ask::Open) => {
                if let Some(id) = client.connection.take() {
                    ctx.shared().connections.remove(id);
                    self.node.connection(ctx, id, ConnectionEvent::Closed);
                }
                self.opened += 1;
                let id = ConnectionId(self.opened);
                let client = &mut self.clients[at];
                client.connection = Some(id);
                client.received.clear();
                client.expected = Some(Expected::Packet);
                ctx.shared().connections.open(id);
                let transport = Transport::Unix { user: None };
                let peer = ConnectionPeer { transport, tls_offered: false };
                self.node.connection(ctx, id, ConnectionEvent::Opened(peer));
            }
            Some(Ask::Exchange { bytes, expected }) => match client.connection {
                None => self.tell(ctx, at, Told::Lost),
                Some(id) => {
                    client.expected = expected;
                    self.node.connection(ctx, id, ConnectionEvent::Received(&bytes));
                    if expected.is_none() {
                        self.tell(ctx, at, Told::Done);
                    }
                }
            },
        }
    }
}

impl Actor for SqlApplication {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        self.node.handle(ctx, from, message);
        self.carry(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::Application(task) if task > 0 => self.arrive(ctx, task as usize - 1),
            timer => {
                self.node.timeout(ctx, timer);
                if !std::mem::replace(&mut self.begun, true) {
                    (0..self.clients.len()).for_each(|at| self.advance(ctx, at));
                }
            }
        }
        self.carry(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.node.cluster_changed(ctx, before);
        self.carry(ctx);
    }

    fn check_invariants(&self, shared: &Shared) {
        self.node.check_invariants(shared);
    }
}
