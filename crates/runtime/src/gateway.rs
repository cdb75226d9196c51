//! The client connections of a thread: sockets on one side, the application's actor on the other.
//!
//! # Owns
//! Reading what is ready, one read per connection and turn; sending what the actor wrote, one write
//! per connection and turn; encryption; the end of a connection.
//! # Guarantees
//! What `actor` promises about connections. A connection that a slow or silent peer keeps from
//! ending is ended after a while.
//! # Not here
//! Accepting (`listener`), what bytes mean (the actor).

mod connection;

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use actor::{Closing, ConnectionEvent, ConnectionId, ConnectionPeer, OUTPUT_HIGH, OUTPUT_LOW};
use node::Worker;
use stdx::{Duration, HashMap, Instant};

use crate::cluster::entropy;
use crate::listener::Accepted;
use crate::poller::{Poller, Ready};
use crate::tls::ServerTls;
use connection::{Connection, Input, Phase};

/// The connections of a thread.
#[derive(Debug)]
pub(crate) struct Gateway {
    tls: Option<ServerTls>,
    connections: HashMap<ConnectionId, Connection>,
    /// When connections that are ending are given up.
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    /// What one read may bring.
    buffer: Vec<u8>,
    /// What that says, when it was encrypted.
    plain: Vec<u8>,
    touched: Vec<ConnectionId>,
    /// Connections whose first bytes of TLS have come with the wish for it, and wait their turn.
    unread: VecDeque<ConnectionId>,
    /// A step of a handshake has been done in this turn.
    has_shaken: bool,
}

impl Gateway {
    pub(crate) fn new(tls: Option<ServerTls>) -> Self {
        Self {
            tls,
            connections: HashMap::default(),
            deadlines: BTreeSet::new(),
            buffer: vec![0; READ_MAX],
            plain: Vec::new(),
            touched: Vec::new(),
            unread: VecDeque::new(),
            has_shaken: false,
        }
    }

    /// Whether there is no connection, not even one that is ending.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// How many connections there are that are not ending.
    pub(crate) fn open_count(&self) -> usize {
        let phases = self.connections.values().map(Connection::phase);
        phases.filter(|phase| *phase == Phase::Open).count()
    }

    /// When there is something to do though no socket is ready: a connection to be given up, or one
    /// whose first bytes of TLS are here.
    pub(crate) fn due(&self) -> Option<Instant> {
        if !self.unread.is_empty() {
            return Some(Instant::ZERO);
        }
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A client has connected.
    pub(crate) fn open(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        accepted: Accepted,
    ) {
        let Accepted { id, socket, transport, encryption } = accepted;
        let mut connection = Connection::new(id, socket);
        // What is drawn for this client shall not follow from what others have seen.
        let (Ok(()), Ok(entropy)) = (connection.register(poller), entropy()) else {
            return; // The system has no room for it; the client sees it closed.
        };
        worker.shared_mut().stir(entropy);
        self.connections.insert(id, connection);
        let is_offered = self.tls.as_ref().is_some_and(ServerTls::is_offered);
        let tls_offered = is_offered && encryption.is_none();
        let peer = ConnectionPeer { transport, tls_offered, encryption };
        worker.connections().open(id);
        worker.connection(now, id, ConnectionEvent::Opened(peer));
    }

    /// Something has happened to a socket.
    pub(crate) fn ready(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        ready: Ready,
    ) {
        let id = ConnectionId(ready.token);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.is_handshaking() && connection.wants_input() {
            // The others do not wait for more than one such step: it is told again in the next
            // turn that there is something to read.
            if mem::replace(&mut self.has_shaken, true) {
                return;
            }
        }
        let connection = self.connections.get_mut(&id).expect("found above");
        if connection.wants_input() {
            self.read(poller, worker, now, id, ready.hung_up);
        } else if ready.hung_up {
            // It cannot be told to be silent about that, other than by leaving the poller.
            if connection.input_ended() {
                return self.lose(worker, now, id);
            }
            connection.unregister(poller);
        }
        if ready.write || ready.hung_up {
            self.service(poller, worker, now, id);
        }
    }

    fn read(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        id: ConnectionId,
        hung_up: bool,
    ) {
        let connection = self.connections.get_mut(&id).expect("the caller has found it");
        let (mut buffer, mut plain) = (mem::take(&mut self.buffer), mem::take(&mut self.plain));
        let mut input = connection.read(&mut buffer, &mut plain);
        if let Input::Bytes { secured, .. } = &mut input
            && let Some(encryption) = secured.take()
        {
            tell(worker, now, id, ConnectionEvent::Secured(*encryption));
        }
        match input {
            Input::Nothing => {}
            Input::Bytes { count, encrypted, ended, .. } => {
                let bytes = if encrypted { &plain[..] } else { &buffer[..count] };
                if !bytes.is_empty() {
                    tell(worker, now, id, ConnectionEvent::Received(bytes));
                }
                if encrypted {
                    // A handshake, or a key update, has something to say by itself.
                    self.service(poller, worker, now, id);
                }
                if ended {
                    self.input_ended(poller, worker, now, id);
                }
            }
            Input::Ended if hung_up => self.lose(worker, now, id),
            Input::Ended => self.input_ended(poller, worker, now, id),
            Input::Broken => {
                // An alert of TLS may be waiting; whether it arrives makes no difference to us.
                self.service(poller, worker, now, id);
                self.lose(worker, now, id);
            }
        }
        plain.clear();
        if plain.capacity() > READ_MAX {
            plain = Vec::new();
        }
        (self.buffer, self.plain) = (buffer, plain);
    }

    /// The peer sends no more.
    fn input_ended(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        id: ConnectionId,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.end_input();
        match connection.phase() {
            Phase::Open | Phase::Flushing => {
                let paused = connection.is_paused();
                connection.adjust(poller, paused);
                tell(worker, now, id, ConnectionEvent::InputEnded);
            }
            // This is what the end had to wait for.
            Phase::Draining => self.forget(id),
        }
    }

    /// Sends what actors have written, and does what else they wish. True if something is left
    /// that need not wait for anything.
    pub(crate) fn flush(&mut self, poller: &Poller, worker: &mut Worker, now: Instant) -> bool {
        let mut touched = mem::take(&mut self.touched);
        worker.connections().drain_touched(&mut touched);
        for id in touched.drain(..) {
            self.service(poller, worker, now, id);
        }
        self.touched = touched;
        self.has_shaken = false;
        while let Some(id) = self.unread.pop_front() {
            if self.connections.contains_key(&id) {
                self.has_shaken = true;
                self.first_of_tls(poller, worker, now, id);
                break;
            }
        }
        while let Some((due, id)) = self.deadlines.first().copied()
            && due <= now
        {
            worker.connections().remove(id);
            self.forget(id);
        }
        worker.connections().has_touched() || !self.unread.is_empty()
    }

    /// Sends what waits and can be sent, and does what the actor wishes.
    fn service(&mut self, poller: &Poller, worker: &mut Worker, now: Instant, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(outlet) = worker.connections().get_mut(id) else { return };
        if outlet.closing() == Some(Closing::Now) {
            worker.connections().remove(id);
            return self.forget(id);
        }
        connection.congested |= outlet.pending() > OUTPUT_HIGH;
        if connection.send(outlet).is_err() {
            return self.lose(worker, now, id);
        }
        if let Some(received) = outlet.take_start_tls() {
            let filter = self.tls.as_ref().and_then(ServerTls::begin);
            let (Some(filter), 0) = (filter, outlet.pending()) else {
                // Nothing can be encrypted, or something is still to be sent that is not.
                return self.lose(worker, now, id);
            };
            if !received.is_empty() {
                self.unread.push_back(id);
            }
            connection.start_tls(filter, received);
        }
        let (paused, pending, closing) = (outlet.is_paused(), outlet.pending(), outlet.closing());
        connection.adjust(poller, paused);
        if closing.is_some() {
            return self.close(poller, worker, now, id, pending);
        }
        if connection.congested && pending <= OUTPUT_LOW {
            connection.congested = false;
            tell(worker, now, id, ConnectionEvent::Writable);
        }
    }

    /// Handles what came in together with the wish to encrypt.
    fn first_of_tls(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        id: ConnectionId,
    ) {
        let connection = self.connections.get_mut(&id).expect("the caller has found it");
        let mut plain = Vec::new();
        let received = connection.take_unread();
        let input = connection.decrypt(&received, &mut plain);
        // A handshake takes more than the client's first words.
        let broken = input == Input::Broken || !plain.is_empty();
        self.service(poller, worker, now, id);
        if broken {
            self.lose(worker, now, id);
        }
    }

    /// Goes on ending a connection as the actor wishes: send all, then wait for the peer to close.
    fn close(
        &mut self,
        poller: &Poller,
        worker: &mut Worker,
        now: Instant,
        id: ConnectionId,
        pending: usize,
    ) {
        let connection = self.connections.get_mut(&id).expect("the caller has found it");
        if connection.phase() == Phase::Open {
            connection.set_phase(Phase::Flushing);
            self.deadlines.insert((now + FLUSH_TIMEOUT, id));
            connection.deadline = Some(now + FLUSH_TIMEOUT);
            connection.adjust(poller, false);
        }
        if pending > 0 {
            return;
        }
        worker.connections().remove(id);
        // Closing with unread input would reset the connection, and destroy what was just sent.
        if connection.finish_sending().is_err() || connection.input_ended() {
            return self.forget(id);
        }
        let until = now + DRAIN_TIMEOUT;
        if let Some(flush_until) = connection.deadline.replace(until) {
            self.deadlines.remove(&(flush_until, id));
        }
        self.deadlines.insert((until, id));
        connection.set_phase(Phase::Draining);
        connection.adjust(poller, false);
    }

    /// The connection is broken.
    fn lose(&mut self, worker: &mut Worker, now: Instant, id: ConnectionId) {
        let told = is_open(worker, id);
        worker.connections().remove(id);
        self.forget(id);
        if told {
            worker.connection(now, id, ConnectionEvent::Closed);
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && let Some(deadline) = connection.deadline
        {
            self.deadlines.remove(&(deadline, id));
        }
    }

    /// Asks the actor to let all its clients go.
    pub(crate) fn drain(&mut self, worker: &mut Worker, now: Instant) {
        self.tell_all(worker, now, &ConnectionEvent::Draining);
    }

    /// Asks the actor to say goodbye to all its clients.
    pub(crate) fn shut_down(&mut self, worker: &mut Worker, now: Instant) {
        self.tell_all(worker, now, &ConnectionEvent::ShuttingDown);
    }

    fn tell_all(&mut self, worker: &mut Worker, now: Instant, event: &ConnectionEvent<'_>) {
        let mut ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            tell(worker, now, id, event.clone());
        }
    }
}

/// Tells the actor, unless it has closed the connection.
fn tell(worker: &mut Worker, now: Instant, id: ConnectionId, event: ConnectionEvent<'_>) {
    if is_open(worker, id) {
        worker.connection(now, id, event);
    }
}

/// Whether the actor still uses the connection.
fn is_open(worker: &mut Worker, id: ConnectionId) -> bool {
    worker.connections().get_mut(id).is_some_and(|outlet| outlet.closing().is_none())
}

/// Most bytes of one read; what else there is comes with the next turn.
const READ_MAX: usize = 64 << 10;
/// How long a peer may take to accept the last bytes.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a peer may take to close its side.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
