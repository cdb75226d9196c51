//! An application that uses the client library directly, in a cluster of one thread: operations
//! without SQL.
//!
//! # Owns
//! The application's actor, one session, and a request after the other from whoever wants
//! something.
//! # Guarantees
//! What is asked for is encoded, routed, decoded and merged as for any application. Time passes
//! after every [`SLICE`] requests, so that epochs end and leave nothing behind.
//! # Not here
//! What is asked for (`ycsb`, the bench itself), more than one request at a time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Actor, Ctx, Timer};
use client::{
    Client, ClientOperation, ClientOptions, ClientRead, ClientResult, ScanSpec, SessionNumber,
    Token,
};
use model::{Address, ClusterState, Column, Epoch, SchemaChange, Table, TableId, Value};
use stdx::Duration;
use wire::Message;

use crate::cluster::{Cluster, SMALLEST};

/// Requests after which time passes.
const SLICE: usize = 500;
/// How much.
const PAUSE: Duration = Duration::from_millis(10);
/// How often the application looks whether somebody wants something.
const LOOK: Duration = Duration::from_millis(1);

/// A request of an application.
#[derive(Debug)]
pub enum Request {
    /// Operations as one transaction, all of which succeed.
    Execute(Vec<ClientOperation>),
    /// Committed reads of rows that are there.
    Read(Vec<ClientRead>),
    /// A scan, to its end.
    Scan(Box<ScanSpec>),
    /// A change of the catalog.
    Schema(SchemaChange),
}

/// What is to be asked for, one after the other, and how many rows the answers brought.
#[derive(Default)]
struct Desk {
    requests: Vec<Request>,
    rows: u64,
    cluster: Arc<ClusterState>,
    is_busy: bool,
}

/// Two data nodes with two replicas, and an application.
pub struct Native {
    cluster: Cluster,
    desk: Rc<RefCell<Desk>>,
}

impl Default for Native {
    fn default() -> Self {
        let desk = Rc::<RefCell<Desk>>::default();
        let application = Application {
            client: Client::new(ClientOptions::default()),
            session: None,
            token: None,
            desk: Rc::clone(&desk),
        };
        Self { cluster: Cluster::start_for(SMALLEST, Box::new(application)), desk }
    }
}

impl Native {
    /// Makes a table whose first column is its key, with an ordered index over one column; its
    /// definition.
    pub fn create(&mut self, name: &str, columns: Vec<Column>, indexed: &str) -> Arc<Table> {
        let table = testing::table(name).columns(columns).index("ordered", [indexed]);
        self.run([Request::Schema(table.create())]);
        let table = self.desk.borrow().cluster.table_named(name).cloned();
        table.expect("it was made")
    }

    /// Puts rows into a table, many in a transaction.
    pub fn fill(&mut self, table: TableId, rows: impl IntoIterator<Item = Vec<Value>>) {
        let mut inserts = rows.into_iter().map(|row| ClientOperation::insert(table, row));
        let next = || Some(inserts.by_ref().take(100).collect::<Vec<_>>());
        let batches = std::iter::from_fn(next).take_while(|batch| !batch.is_empty());
        self.run(batches.map(Request::Execute));
    }

    /// Asks one after the other; how many rows came.
    ///
    /// # Panics
    /// When something is refused or not found.
    pub fn run(&mut self, requests: impl IntoIterator<Item = Request>) -> u64 {
        let (mut requests, before) = (requests.into_iter(), self.desk.borrow().rows);
        loop {
            let mut slice: Vec<Request> = requests.by_ref().take(SLICE).collect();
            if slice.is_empty() {
                return self.desk.borrow().rows - before;
            }
            slice.reverse();
            let mut desk = self.desk.borrow_mut();
            (desk.requests, desk.is_busy) = (slice, true);
            drop(desk);
            while self.desk.borrow().is_busy {
                self.cluster.run_for(LOOK);
            }
            self.cluster.run_for(PAUSE);
        }
    }
}

/// The actor.
struct Application {
    client: Client,
    session: Option<SessionNumber>,
    /// The request under way.
    token: Option<Token>,
    desk: Rc<RefCell<Desk>>,
}

impl Application {
    fn next(&mut self, ctx: &mut Ctx<'_>) {
        let request = self.desk.borrow_mut().requests.pop();
        let session = self.session.expect("it has begun");
        let client = &mut self.client;
        self.token = request.map(|request| match request {
            Request::Execute(operations) => client.execute(ctx, session, operations, true),
            Request::Read(reads) => client.read(ctx, session, reads, None::<Epoch>),
            Request::Scan(spec) => client.scan(ctx, session, *spec),
            Request::Schema(change) => client.change_schema(ctx, session, change),
        });
        let mut desk = self.desk.borrow_mut();
        desk.is_busy = self.token.is_some();
        desk.cluster = Arc::clone(ctx.cluster());
    }

    fn drain(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.client.next_event() {
            let rows = match event.result {
                ClientResult::ScanRows { rows, finished: false, .. } => {
                    self.desk.borrow_mut().rows += rows.len() as u64;
                    self.client.scan_next(ctx, event.token);
                    continue;
                }
                ClientResult::ScanRows { rows, .. } => rows.len(),
                ClientResult::Read(rows) => {
                    assert!(rows.iter().all(Option::is_some), "a row is missing");
                    rows.len()
                }
                ClientResult::Committed { .. } | ClientResult::SchemaChanged(_) => 0,
                other => panic!("a request ends in {other:?}"),
            };
            self.desk.borrow_mut().rows += rows as u64;
            self.next(ctx);
        }
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
            Timer::Application(_) => {
                if self.session.is_none() {
                    self.client.start(ctx);
                    self.session = self.client.open_session(ctx).ok();
                }
                if self.token.is_none() && self.desk.borrow().is_busy {
                    self.next(ctx);
                }
                ctx.set_timer(Timer::Application(0), LOOK);
            }
            Timer::ClientTick => self.client.timeout(ctx),
            other => panic!("{other:?} is not for applications"),
        }
        self.drain(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.client.cluster_changed(ctx, before);
        self.drain(ctx);
    }
}
