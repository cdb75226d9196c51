//! An SQL node with the clients that are connected to it, as the application of a client node.
//!
//! # Owns
//! [`SqlApplication`], an actor around `sql::SqlNode`, the same that serves in production: it
//! carries bytes between the SQL node and its clients, each with a delay of its own, and cuts some
//! connections in the middle of an exchange. A client is an `async` function that goes on only when
//! its answer is there.
//! # Guarantees
//! A client whose SQL node dies, or is not heard of for a while, goes to another one, or to the
//! next life of its own.
//! # Not here
//! The protocol (`protocol`), what clients do (`bank`, `families`, …).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use actor::{
    Actor, ConnectionEvent, ConnectionId, ConnectionPeer, Ctx, OUTPUT_HIGH, Shared, Timer,
    Transport,
};
use model::{Address, ClusterState};
use sql::{Directory, Sequences, ServerAddress, SqlNode, SqlOptions};
use stdx::Duration;
use wire::Message;

use super::clients::{Clients, Life};
use super::mysql::{Ask, Told};
use super::protocol::Expected;
use crate::world::{Ambient, ApplicationPlace};

/// 2026-01-01 in microseconds since 1970.
const CLOCK_BASE: i64 = 1_767_225_600_000_000;
/// Longest time between a client and its SQL node, in microseconds.
const DELAY_MAX: u64 = 120;
/// How often an SQL node looks for clients, and shows that it is there.
const BEAT: Duration = Duration::from_millis(10);
/// Longest time from a statement's arrival to the cut of its connection, in microseconds.
const CUT_MAX: u64 = 3_000;

/// The timer of the beat; others are those of clients, by number from 1, and of cuts.
const BEAT_TIMER: Timer = Timer::Application(u32::MAX);
/// The number of the first timer of a cut.
const CUTS_FROM: u32 = 1 << 16;

/// The actor of a client node that is an SQL node.
pub struct SqlApplication {
    node: SqlNode,
    here: Life,
    ambient: Rc<Ambient>,
    clients: Rc<Clients>,
    /// The clients of connections that this node has.
    connections: BTreeMap<ConnectionId, usize>,
    opened: u64,
    begun: bool,
}

impl SqlApplication {
    /// An SQL node in one of its lives. The hosts of all SQL nodes share a directory of backups.
    pub fn new(place: &ApplicationPlace, clients: Rc<Clients>) -> Self {
        let directory = Directory::default();
        directory.backups().serve_by(Arc::new(clients.files()));
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
        Self {
            node: SqlNode::new(options),
            here: (place.node, place.incarnation),
            ambient: place.ambient.clone(),
            clients,
            connections: BTreeMap::new(),
            opened: 0,
            begun: false,
        }
    }

    /// Whether a client is connected here.
    fn has(&self, at: usize) -> bool {
        self.clients.get(at).host == Some(self.here)
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
        let at = self.connections.get(&id).copied();
        if closes {
            self.connections.remove(&id);
        }
        if let Some(at) = at.filter(|at| self.has(*at)) {
            let mut client = self.clients.get(at);
            if client.connection == Some(id) {
                client.received.extend(&output);
                if closes {
                    client.connection = None;
                }
                drop(client);
                self.answer_whole(ctx, at);
            }
        }
        if !closes && output.len() > OUTPUT_HIGH {
            self.node.connection(ctx, id, ConnectionEvent::Writable);
        }
    }

    /// Gives a client its answer, if that is whole or will not come.
    fn answer_whole(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let mut client = self.clients.get(at);
        let Some(expected) = client.expected else { return };
        let told = match client.received.take_whole(expected) {
            Some(packets) => Told::Packets(packets),
            None if client.connection.is_none() => Told::Lost,
            None => return,
        };
        client.expected = None;
        drop(client);
        self.tell(ctx, at, told);
    }

    fn tell(&mut self, ctx: &mut Ctx<'_>, at: usize, told: Told) {
        self.clients.get(at).slot.borrow_mut().told = Some(told);
        self.advance(ctx, at);
    }

    /// Runs a client until it asks for something.
    fn advance(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let mut client = self.clients.get(at);
        if client.over {
            return;
        }
        client.begun = true;
        {
            let mut slot = client.slot.borrow_mut();
            slot.now = self.ambient.now.get();
            // Another SQL node may have heard of more.
            if ctx.cluster().restarts.len() >= slot.cluster.restarts.len() {
                slot.cluster = ctx.cluster().clone();
            }
            // Of a connection that has ended nothing is known.
            let marks = client.connection.and_then(|id| self.node.marks(id));
            slot.marks = marks.unwrap_or_default();
        }
        let polled = client.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        client.over = polled.is_ready();
        let ask = client.slot.borrow_mut().asks.pop_front();
        let Some(ask) = ask else { return };
        let delay = match &ask {
            Ask::Sleep(span) => *span,
            Ask::Open | Ask::Exchange { .. } => {
                Duration::from_micros(1 + ctx.prng().below(DELAY_MAX))
            }
        };
        client.on_its_way = Some(ask);
        ctx.set_timer(Timer::Application(at as u32 + 1), delay);
    }

    /// What a client has asked for is there.
    fn arrive(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        if !self.has(at) || self.clients.get(at).moves {
            return;
        }
        let ask = self.clients.get(at).on_its_way.take();
        match ask {
            // It has been here before, and has asked for that then.
            None => {}
            Some(Ask::Sleep(_)) => self.tell(ctx, at, Told::Done),
            Some(Ask::Open) => self.choose(ctx, at),
            Some(Ask::Exchange { bytes, expected }) => self.exchange(ctx, at, &bytes, expected),
        }
    }

    /// Lets a client connect to an SQL node that answers.
    fn choose(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        self.close(ctx, at);
        let chosen = self.clients.choose(ctx.prng(), self.ambient.now.get());
        match chosen {
            Some(host) if host != self.here => {
                let mut client = self.clients.get(at);
                client.host = Some(host);
                client.moves = true;
                client.on_its_way = Some(Ask::Open);
            }
            _ => self.open(ctx, at),
        }
    }

    fn open(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        // As the host of production, which does not listen before.
        if !self.node.ready(ctx) {
            self.tell(ctx, at, Told::Lost);
            return;
        }
        self.opened += 1;
        let id = ConnectionId(self.opened);
        self.connections.insert(id, at);
        let mut client = self.clients.get(at);
        client.connection = Some(id);
        client.received = Default::default();
        client.expected = Some(Expected::Packet);
        drop(client);
        ctx.shared().connections.open(id);
        let transport = Transport::Unix { user: None };
        let peer = ConnectionPeer { transport, tls_offered: false, encryption: None };
        self.node.connection(ctx, id, ConnectionEvent::Opened(peer));
    }

    /// Ends the connection of a client, if it has one.
    fn close(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let connection = self.clients.get(at).connection.take();
        if let Some(id) = connection {
            self.drop_connection(ctx, id);
        }
    }

    fn drop_connection(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId) {
        if self.connections.remove(&id).is_some() {
            ctx.shared().connections.remove(id);
            self.node.connection(ctx, id, ConnectionEvent::Closed);
        }
    }

    /// Passes on what a client sends, or a part of it, if its connection is cut.
    fn exchange(&mut self, ctx: &mut Ctx<'_>, at: usize, bytes: &[u8], expected: Option<Expected>) {
        let Some(id) = self.clients.get(at).connection else {
            self.tell(ctx, at, Told::Lost);
            return;
        };
        let is_cut = self.clients.cuts(ctx.prng());
        // In the middle of what is sent; or at once, or after a while, when that has arrived.
        let arrives = if is_cut && ctx.prng().percent(20) {
            ctx.prng().below(bytes.len() as u64) as usize
        } else {
            bytes.len()
        };
        self.clients.get(at).expected = expected;
        self.node.connection(ctx, id, ConnectionEvent::Received(&bytes[..arrives]));
        let at_once = arrives < bytes.len() || expected.is_none() || ctx.prng().percent(30);
        if is_cut && at_once {
            self.cut(ctx, at, id);
        } else if is_cut {
            self.clients.get(at).cut = Some(id);
            let delay = Duration::from_micros(1 + ctx.prng().below(CUT_MAX));
            ctx.set_timer(Timer::Application(CUTS_FROM + at as u32), delay);
        } else if expected.is_none() {
            self.tell(ctx, at, Told::Done);
        }
    }

    /// A connection ends in the middle of an exchange.
    fn cut(&mut self, ctx: &mut Ctx<'_>, at: usize, id: ConnectionId) {
        if self.clients.get(at).connection != Some(id) {
            return;
        }
        self.close(ctx, at);
        self.clients.get(at).expected = None;
        self.tell(ctx, at, Told::Lost);
    }

    /// The time of a cut has come.
    fn cut_late(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        if !self.has(at) {
            return;
        }
        let mut client = self.clients.get(at);
        let cut = client.cut.take();
        let waits = client.expected.is_some();
        drop(client);
        if let Some(id) = cut.filter(|_| waits) {
            self.cut(ctx, at, id);
        }
    }

    /// Shows that this node is there, takes clients that have lost theirs, and closes connections
    /// of those that have lost this one.
    fn beat(&mut self, ctx: &mut Ctx<'_>) {
        ctx.set_timer(BEAT_TIMER, BEAT);
        let (now, ready) = (self.ambient.now.get(), self.node.ready(ctx));
        self.clients.beat(self.here, now, ready);
        let left: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(id, at)| !self.has(**at) || self.clients.get(**at).connection != Some(**id))
            .map(|(id, _)| *id)
            .collect();
        for id in left {
            self.drop_connection(ctx, id);
        }
        if ready {
            for at in self.clients.homeless(self.here, now) {
                self.adopt(ctx, at);
            }
        }
    }

    /// Takes a client, and tells it that what it had asked its last SQL node for is lost.
    fn adopt(&mut self, ctx: &mut Ctx<'_>, at: usize) {
        let mut client = self.clients.get(at);
        client.host = Some(self.here);
        client.moves = false;
        client.connection = None;
        let (ask, waits) = (client.on_its_way.take(), client.expected.take().is_some());
        let begun = client.begun;
        drop(client);
        match ask {
            _ if !begun => self.advance(ctx, at),
            Some(Ask::Open) => self.open(ctx, at),
            Some(Ask::Exchange { .. }) => self.tell(ctx, at, Told::Lost),
            _ if waits => self.tell(ctx, at, Told::Lost),
            _ => self.tell(ctx, at, Told::Done),
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
            BEAT_TIMER => self.beat(ctx),
            Timer::Application(cut) if cut >= CUTS_FROM => {
                self.cut_late(ctx, (cut - CUTS_FROM) as usize);
            }
            Timer::Application(client) if client > 0 => self.arrive(ctx, client as usize - 1),
            timer => {
                self.node.timeout(ctx, timer);
                if !std::mem::replace(&mut self.begun, true) {
                    self.beat(ctx);
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
