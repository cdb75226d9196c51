//! The application of the tests: writes and reads rows when told to, and talks to connections.
//!
//! A connection is an echo, unless its first bytes are one of the words in `Application::begin`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use actor::{
    Actor, Closing, ConnectionEvent, ConnectionId, ConnectionPeer, Ctx, Encryption, Timer,
    Transport,
};
use client::{
    Client, ClientOperation, ClientOptions, ClientRead, ClientResult, SessionNumber, Token,
};
use model::{Address, ClusterState, ColumnType, SchemaChange, TableId, Value};
use runtime::ApplicationPlace;
use stdx::Prng;
use wire::Message;

use crate::PATIENCE;

/// Rows each worker writes in a round.
pub(crate) const ROWS: u64 = 10_000;
const BATCH: u64 = 500;
const TABLE: &str = "test.rows";

/// Between a test and its application on all threads.
pub(crate) struct Board {
    threads: u8,
    /// The round that workers may begin.
    round: AtomicU32,
    written: AtomicUsize,
    read: AtomicUsize,
    /// Output that waited at most, of any connection.
    pub(crate) pending_max: AtomicUsize,
    /// Bytes given to connections that want many.
    pub(crate) flooded: AtomicU64,
    /// Events of connections, by name.
    events: Mutex<BTreeMap<String, usize>>,
}

impl Board {
    pub(crate) fn new(threads: u8) -> Self {
        Self {
            threads,
            round: AtomicU32::new(0),
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            pending_max: AtomicUsize::new(0),
            flooded: AtomicU64::new(0),
            events: Mutex::default(),
        }
    }

    /// Lets every worker write its rows, then read those of all; returns when that is done.
    pub(crate) fn run_round(&self) {
        let round = self.round.fetch_add(1, Ordering::SeqCst) + 1;
        let all = usize::from(self.threads) * round as usize;
        wait_until(|| self.read.load(Ordering::SeqCst) == all);
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.events.lock().unwrap().get(event).copied().unwrap_or(0)
    }

    /// The names of all events so far.
    pub(crate) fn names(&self) -> Vec<String> {
        self.events.lock().unwrap().keys().cloned().collect()
    }

    fn note(&self, event: &str) {
        *self.events.lock().unwrap().entry(event.to_string()).or_default() += 1;
    }
}

/// Waits for something that is certain to happen.
pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "it does not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a worker of the application is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    CreatingDatabase(Token),
    CreatingTable(Token),
    /// Rows up to this number are under way.
    Writing(u64, Token),
    WaitingForOthers,
    /// Rows up to this number of all workers are under way.
    Reading(u64, Token),
}

/// A connection that does something else than echo.
enum Mode {
    Fresh,
    Echo,
    /// So many bytes are still to be written.
    Flood(u64),
    /// It does not listen.
    Deaf,
}

pub(crate) struct Application {
    place: ApplicationPlace,
    board: Arc<Board>,
    client: Client,
    session: Option<SessionNumber>,
    step: Step,
    round: u32,
    connections: BTreeMap<ConnectionId, Mode>,
    /// The random draws as they were at the last `draw`.
    drawn: Option<Prng>,
}

impl Application {
    pub(crate) fn new(place: ApplicationPlace, board: Arc<Board>) -> Self {
        let client = Client::new(ClientOptions::default());
        let (session, step, connections) = (None, Step::Idle, BTreeMap::new());
        Self { place, board, client, session, step, round: 0, connections, drawn: None }
    }

    fn table(ctx: &Ctx<'_>) -> Option<TableId> {
        ctx.cluster().table_named(TABLE).map(|table| table.id)
    }

    /// The key of a row of a worker and round.
    fn key(&self, worker: u64, number: u64) -> u64 {
        (u64::from(self.round) << 40) + (worker << 32) + number
    }

    /// Looks whether there is something to begin.
    fn look(&mut self, ctx: &mut Ctx<'_>) {
        let Some(session) = self.session else {
            self.session = self.client.open_session(ctx).ok();
            return;
        };
        let others = usize::from(self.board.threads) * self.round as usize;
        match (self.step, Self::table(ctx)) {
            (Step::Idle, None) if self.client.ready(ctx) && self.place.worker.0 == 0 => {
                let change = SchemaChange::CreateDatabase {
                    name: "test".into(),
                    description: Default::default(),
                };
                self.step = Step::CreatingDatabase(self.client.change_schema(ctx, session, change));
            }
            (Step::Idle, Some(table)) if self.board.round.load(Ordering::SeqCst) > self.round => {
                self.round += 1;
                self.write(ctx, session, table, 0);
            }
            (Step::WaitingForOthers, Some(table))
                if self.board.written.load(Ordering::SeqCst) == others =>
            {
                self.read(ctx, session, table, 0);
            }
            _ => {}
        }
    }

    fn write(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, table: TableId, from: u64) {
        let me = u64::from(self.place.worker.0);
        let row = |number| vec![Value::UInt(self.key(me, number)), Value::UInt(number * 3)];
        let batch = (from..from + BATCH).map(|n| ClientOperation::upsert(table, row(n))).collect();
        let token = self.client.execute(ctx, session, batch, true);
        self.step = Step::Writing(from, token);
    }

    fn read(&mut self, ctx: &mut Ctx<'_>, session: SessionNumber, table: TableId, from: u64) {
        let workers = 0..u64::from(self.board.threads);
        let keys = workers.flat_map(|w| (from..from + BATCH).map(move |n| (w, n)));
        let key = |(worker, number)| vec![Value::UInt(self.key(worker, number))];
        let reads = keys.map(|at| ClientRead::primary(table, key(at))).collect();
        let token = self.client.read(ctx, session, reads, None);
        self.step = Step::Reading(from, token);
    }

    fn drain(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(event) = self.client.next_event() {
            let session = event.session;
            let table = Self::table(ctx);
            match (self.step, event.result) {
                (Step::CreatingDatabase(token), result) if token == event.token => {
                    assert!(matches!(result, ClientResult::SchemaChanged(_)), "{result:?}");
                    let token = self.client.change_schema(ctx, session, create_table());
                    self.step = Step::CreatingTable(token);
                }
                (Step::CreatingTable(token), result) if token == event.token => {
                    assert!(matches!(result, ClientResult::SchemaChanged(_)), "{result:?}");
                    self.step = Step::Idle;
                }
                (Step::Writing(from, token), result) if token == event.token => {
                    let table = table.expect("it was written to");
                    match result {
                        ClientResult::Committed { .. } if from + BATCH < ROWS => {
                            self.write(ctx, session, table, from + BATCH);
                        }
                        ClientResult::Committed { .. } => {
                            self.board.written.fetch_add(1, Ordering::SeqCst);
                            self.step = Step::WaitingForOthers;
                        }
                        // A node has failed under it; the rows are the same, so once more.
                        ClientResult::Aborted { .. } => self.write(ctx, session, table, from),
                        other => panic!("{other:?}"),
                    }
                }
                (Step::Reading(from, token), ClientResult::Read(rows)) if token == event.token => {
                    self.check(from, &rows);
                    if from + BATCH < ROWS {
                        let table = table.expect("it was written to");
                        self.read(ctx, session, table, from + BATCH);
                    } else {
                        self.board.read.fetch_add(1, Ordering::SeqCst);
                        self.step = Step::Idle;
                    }
                }
                (step, result) => panic!("{step:?}: {result:?}"),
            }
        }
    }

    fn check(&self, from: u64, rows: &[Option<Vec<Value>>]) {
        for (at, row) in (0..).zip(rows) {
            let (worker, number) = (at / BATCH, from + at % BATCH);
            let row = row.as_ref().unwrap_or_else(|| panic!("row {number} of {worker} is missing"));
            let expected = [Value::UInt(self.key(worker, number)), Value::UInt(number * 3)];
            assert_eq!(row[..], expected);
        }
    }

    /// The first bytes of a connection decide what it is.
    fn begin(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, bytes: &[u8]) -> Mode {
        match bytes {
            b"flood" => Mode::Flood(64 << 20),
            b"endless" => Mode::Flood(u64::MAX),
            b"deaf" => {
                ctx.pause(id);
                ctx.write(id, b"paused");
                ctx.set_timer(Timer::Application(1), stdx::Duration::from_millis(200));
                Mode::Deaf
            }
            b"panic" => panic!("as it was told to"),
            b"draw" => {
                let draw = ctx.prng().next_u64();
                // Others draw too: it need not be the very next one.
                let foreseen = |prng: &mut Prng| (0..1_000).any(|_| prng.next_u64() == draw);
                let foreseen = self.drawn.as_mut().is_some_and(foreseen);
                self.drawn = Some(ctx.prng().clone());
                ctx.write(id, if foreseen { b"known" } else { b"fresh" });
                Mode::Echo
            }
            b"bye" => {
                ctx.write(id, &vec![b'x'; 1 << 20]);
                ctx.close(id, Closing::AfterFlush);
                Mode::Echo
            }
            b"abort" => {
                ctx.close(id, Closing::Now);
                Mode::Echo
            }
            _ if bytes.starts_with(b"tls") => {
                ctx.start_tls(id, &bytes[3..]);
                Mode::Echo
            }
            _ => {
                ctx.write(id, bytes);
                Mode::Echo
            }
        }
    }

    fn flood(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) {
        let Some(Mode::Flood(left)) = self.connections.get_mut(&id) else { return };
        while *left > 0 && !ctx.is_congested(id) {
            let count = (*left).min(10_000);
            ctx.write(id, &vec![b'f'; count as usize]);
            *left -= count;
            self.board.flooded.fetch_add(count, Ordering::SeqCst);
        }
        self.board.pending_max.fetch_max(ctx.output_pending(id), Ordering::SeqCst);
        if *left == 0 {
            ctx.close(id, Closing::AfterFlush);
            self.connections.remove(&id);
        }
    }

    fn opened(&mut self, id: ConnectionId, peer: &ConnectionPeer) {
        self.connections.insert(id, Mode::Fresh);
        match &peer.transport {
            Transport::Unix { .. } => self.board.note("unix"),
            Transport::Tcp { address, loopback, .. } => {
                assert!(*loopback && (address == "127.0.0.1" || address == "::1"), "{peer:?}");
                self.board.note(address);
            }
        }
    }
}

impl Actor for Application {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        let unused = self.client.handle(ctx, from, message);
        assert!(unused.is_none(), "{unused:?}");
        self.drain(ctx);
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::ClientTick => self.client.timeout(ctx),
            Timer::Application(0) => {
                self.client.start(ctx);
                self.look(ctx);
                ctx.set_timer(timer, stdx::Duration::from_millis(5));
            }
            _ => {
                for (id, mode) in &mut self.connections {
                    if matches!(mode, Mode::Deaf) {
                        *mode = Mode::Echo;
                        ctx.resume(*id);
                    }
                }
            }
        }
        self.drain(ctx);
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.client.cluster_changed(ctx, before);
        self.drain(ctx);
    }

    fn connection(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, event: ConnectionEvent<'_>) {
        match event {
            ConnectionEvent::Opened(peer) => self.opened(id, &peer),
            ConnectionEvent::Received(bytes) => {
                let known = self.connections.get_mut(&id).expect("opened before");
                match std::mem::replace(known, Mode::Echo) {
                    Mode::Fresh => {
                        let mode = self.begin(ctx, id, bytes);
                        self.connections.insert(id, mode);
                        self.flood(ctx, id);
                    }
                    Mode::Echo => ctx.write(id, bytes),
                    mode => *known = mode,
                }
            }
            ConnectionEvent::Writable => self.flood(ctx, id),
            ConnectionEvent::InputEnded => {
                self.board.note("ended");
                // What has been asked for is answered before that.
                if !matches!(self.connections[&id], Mode::Flood(_)) {
                    ctx.write(id, b".");
                    ctx.close(id, Closing::AfterFlush);
                    self.connections.remove(&id);
                }
            }
            ConnectionEvent::Secured(Encryption { protocol, cipher, peer, .. }) => {
                let peer = peer.map(|peer| format!(" {} by {}", peer.subject, peer.issuer));
                self.board.note(&format!("{protocol} {cipher}{}", peer.unwrap_or_default()));
            }
            ConnectionEvent::Draining | ConnectionEvent::ShuttingDown => {
                ctx.write(id, b"goodbye");
                ctx.close(id, Closing::AfterFlush);
            }
            ConnectionEvent::Closed => {
                self.board.note("closed");
                self.connections.remove(&id).expect("opened before");
            }
        }
    }
}

fn create_table() -> SchemaChange {
    testing::table(TABLE)
        .column("id", ColumnType::UInt(8))
        .column("value", ColumnType::UInt(8))
        .create()
}
