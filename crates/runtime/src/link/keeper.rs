//! The thread that makes links and finds out what became of those that broke.
//!
//! # Owns
//! Listening, connecting, greetings; for each peer how its link stands. A link that stands is the
//! threads' (`ends`); they report when it breaks. A link whose connections are of no use any more
//! goes on over new ones (`renewal`), if the peer lives (`breaking`).
//! # Guarantees
//! 1. Either side may begin a link. When both do, the attempt of the larger node id counts.
//! 2. Between two links to a peer every thread has told its workers that the first is gone.
//! 3. "Closed" is said of a link only if a connection was ended in good order, as a system does for
//!    a process that ends, and then nobody listened at the peer's address, or a later life did. A
//!    reset on a network proves nothing: firewalls send it too.
//! # Failure
//! A peer that stays silent during an attempt costs the attempt. What cannot be a peer's greeting
//! ends the connection it came on. Many that connect and say nothing, or little, keep nobody out:
//! what this process has begun itself goes first, and the oldest of the others goes when there are
//! too many (`strangers`).

mod breaking;
mod memory;
mod peer;
mod renewal;
mod securing;
mod service;
mod strangers;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use model::{Incarnation, NodeId};
use rustix::event::{EventfdFlags, eventfd};
use stdx::{Duration, Instant};

use super::address::{SHARED_MEMORY, Way, ways};
use super::connection::Connection;
use super::greeting::{Greeting, Identity, Kind, LinkName, Reply, Verdict};
use super::pending::{Errand, Pending, Progress, Stage};
use super::{
    LinkEvent, LinkNews, LinkSetup, NewLink, Notice, SameHost, sockets_between, thread_of,
};
use crate::clock::Clock;
use crate::cluster::Event;
use crate::exchange::{Exchange, Mail};
use crate::poller::{Interest, Poller, Ready};
use crate::scheduling::ThreadPlace;
use crate::tls::TroubleKind;
use crate::watchdog::Pulse;
use peer::{Doubt, Making, PeerState, RETRY_FIRST, Renewing, Standing, State};
use securing::Securing;

/// How threads reach the keeper.
#[derive(Debug)]
pub(crate) struct KeeperHandle {
    notices: Mutex<Vec<Word>>,
    wake: OwnedFd,
    stop: AtomicBool,
    /// What the thread leaves at each turn, for the watchdog.
    pulse: Pulse,
    /// How often it did not come to a link, for each kind of reason that has to do with TLS.
    refusals: [AtomicU64; TroubleKind::ALL.len()],
}

/// What the keeper is told.
#[derive(Debug)]
enum Word {
    /// By thread.
    Notice(usize, Notice),
    /// The resolver's answer.
    Ways(NodeId, io::Result<Vec<Way>>),
    /// The node's certificate, or whom it believes, may have changed: what has come of that.
    Credentials(Option<Result<bool, String>>),
}

impl KeeperHandle {
    /// A way to a keeper that nobody has told anything yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            notices: Mutex::default(),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stop: AtomicBool::new(false),
            pulse: Pulse::default(),
            refusals: Default::default(),
        })
    }

    /// Counts that it did not come to a link.
    pub(super) fn count_refusal(&self, kind: TroubleKind) {
        self.refusals[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it did not come to a link, by the kind of reason.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = (TroubleKind, u64)> {
        let count = |kind: &TroubleKind| self.refusals[*kind as usize].load(Ordering::Relaxed);
        TroubleKind::ALL.iter().map(move |kind| (*kind, count(kind)))
    }

    /// What the thread leaves at each turn.
    pub(crate) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// What threads have told.
    #[cfg(test)]
    pub(super) fn take_notices(&self) -> Vec<Notice> {
        let words = std::mem::take(&mut *self.notices.lock().unwrap());
        let notice = |word| match word {
            Word::Notice(_, notice) => Some(notice),
            Word::Ways(..) | Word::Credentials(_) => None,
        };
        words.into_iter().filter_map(notice).collect()
    }

    /// Tells the keeper something in the name of a thread.
    pub(crate) fn tell(&self, thread: usize, notice: Notice) {
        self.word(Word::Notice(thread, notice));
    }

    fn word(&self, word: Word) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(word);
        self.wake();
    }

    /// Lets the thread look for something to do.
    pub(crate) fn wake(&self) {
        // It fails only if the counter would overflow, and then the keeper is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake();
    }
}

/// Starts the thread. `own` is the node of this process.
pub(crate) fn start_keeper(
    setup: LinkSetup,
    own: (NodeId, super::Role, Incarnation, u8),
    place: ThreadPlace,
    clock: Clock,
    exchange: Arc<Exchange>,
    report: Arc<dyn Fn(Event) + Send + Sync>,
) -> io::Result<(Arc<KeeperHandle>, JoinHandle<()>)> {
    let handle = Arc::new(KeeperHandle::new()?);
    let (node, role, incarnation, workers) = own;
    let own = Identity { node, role, incarnation, workers };
    let (reached, failed) = (handle.clone(), report.clone());
    let builder = std::thread::Builder::new().name("links".into());
    let thread = builder.spawn(move || {
        // A poller stays on its thread.
        let keeper = || Keeper::new(setup, own, reached, clock, exchange, report);
        let outcome = place.take().and_then(|()| keeper());
        if let Err(error) = outcome.and_then(|mut keeper| keeper.run()) {
            failed(Event::Failed(error));
        }
    })?;
    Ok((handle, thread))
}

struct Keeper {
    own: Identity,
    setup: LinkSetup,
    clock: Clock,
    exchange: Arc<Exchange>,
    report: Arc<dyn Fn(Event) + Send + Sync>,
    handle: Arc<KeeperHandle>,
    poller: Poller,
    listeners: Vec<Listener>,
    peers: BTreeMap<NodeId, PeerState>,
    pending: BTreeMap<u64, Pending>,
    last_token: u64,
    last_attempt: u64,
    last_generation: u64,
    last_round: u64,
    /// Requests to the service that are being answered.
    serving: Arc<AtomicUsize>,
    securing: Securing,
}

struct Listener {
    socket: OwnedFd,
    unix: bool,
}

impl Keeper {
    fn new(
        mut setup: LinkSetup,
        own: Identity,
        handle: Arc<KeeperHandle>,
        clock: Clock,
        exchange: Arc<Exchange>,
        report: Arc<dyn Fn(Event) + Send + Sync>,
    ) -> io::Result<Self> {
        let now = clock.now();
        let peers = std::mem::take(&mut setup.peers).into_iter();
        let mut keeper = Self {
            own,
            poller: Poller::new()?,
            listeners: Vec::new(),
            peers: peers.map(|(node, peer)| (node, PeerState::new(peer, now))).collect(),
            pending: BTreeMap::new(),
            last_token: 0,
            // Attempts of different lives must not be taken for each other.
            last_attempt: own.incarnation.0,
            last_generation: 0,
            last_round: 0,
            serving: Arc::new(AtomicUsize::new(0)),
            securing: Securing::new(now),
            handle,
            setup,
            clock,
            exchange,
            report,
        };
        keeper.listen()?;
        Ok(keeper)
    }

    fn listen(&mut self) -> io::Result<()> {
        let listeners = std::mem::take(&mut self.setup.listeners);
        let tcp = listeners.tcp.into_iter().map(|socket| (OwnedFd::from(socket), false));
        let unix = listeners.unix.into_iter().map(|socket| (OwnedFd::from(socket), true));
        for (socket, unix) in tcp.chain(unix) {
            let token = TOKEN_LISTENERS + self.listeners.len() as u64;
            self.poller.add(&socket, token, READ)?;
            self.listeners.push(Listener { socket, unix });
        }
        self.poller.add(self.handle.wake.as_fd(), TOKEN_WAKE, READ)
    }

    fn run(&mut self) -> io::Result<()> {
        self.handle.pulse.take();
        while !self.handle.stop.load(Ordering::SeqCst) {
            self.handle.pulse.beat();
            let now = self.clock.now();
            let due = self.due();
            self.poller.wait(due.map(|due| due.since(now)))?;
            let ready: Vec<Ready> = self.poller.take().collect();
            for token in self.in_order(ready) {
                match token {
                    TOKEN_WAKE => {
                        let _ = rustix::io::read(&self.handle.wake, &mut [0u8; 8]);
                    }
                    TOKEN_LISTENERS.. => self.accept((token - TOKEN_LISTENERS) as usize),
                    token => self.proceed(token),
                }
            }
            let words = std::mem::take(
                &mut *self.handle.notices.lock().unwrap_or_else(PoisonError::into_inner),
            );
            words.into_iter().for_each(|word| self.hear(word));
            self.look_at_clock();
        }
        Ok(())
    }

    /// When there is something to do although nothing has happened.
    fn due(&self) -> Option<Instant> {
        let pending = self.pending.values().map(|pending| pending.deadline);
        let peers = self.peers.values().filter_map(|peer| match &peer.state {
            State::Absent if peer.peer.address.is_none() => None,
            State::Absent if peer.ways.is_empty() => (!peer.resolving).then_some(peer.resolve_at),
            State::Absent => Some(peer.retry_at),
            State::Making(making) => Some(making.deadline),
            State::Breaking { doubt: Doubt::Reset(at) | Doubt::AskAgain(at, _), .. } => Some(*at),
            State::Renewing(renewing) => renewing.due(peer),
            _ => None,
        });
        pending.chain(peers).chain(self.look_at_credentials_at()).min()
    }

    fn look_at_clock(&mut self) {
        let now = self.clock.now();
        let late = |(token, pending): (&u64, &Pending)| (pending.deadline <= now).then_some(*token);
        let late: Vec<u64> = self.pending.iter().filter_map(late).collect();
        for token in late {
            self.fail(token, false);
        }
        self.look_at_credentials(now);
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in nodes {
            let peer = self.peers.get_mut(&node).expect("the keys are its own");
            match &peer.state {
                State::Making(making) if making.deadline <= now => self.abandon(node, RETRY_FIRST),
                State::Absent => self.try_link(node, now),
                State::Renewing(_) => self.try_renewal(node, now),
                State::Breaking { doubt: Doubt::Reset(until), .. } if *until <= now => {
                    self.end_break(node, false);
                }
                State::Breaking { doubt: Doubt::AskAgain(at, until), .. } if *at <= now => {
                    let until = *until;
                    self.ask_whether_alive(node, until);
                }
                _ => {}
            }
        }
    }

    /// Begins a link if it is time to.
    fn try_link(&mut self, node: NodeId, now: Instant) {
        self.resolve(node, now);
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        if peer.ways.is_empty() || peer.retry_at > now {
            return;
        }
        self.last_attempt += 1;
        let deadline = now + self.setup.limits.silence;
        let transport = peer.ways[0].transport();
        peer.state = State::Making(Making::own(self.last_attempt, transport, (now, deadline)));
        self.dial(Errand { node, attempt: self.last_attempt, socket: 0 }, 0);
    }

    /// Has the addresses of a peer looked up if it is time to.
    fn resolve(&mut self, node: NodeId, now: Instant) {
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        let Some(address) = &peer.peer.address else { return };
        if !peer.resolving && peer.resolve_at <= now {
            peer.resolving = true;
            let (handle, address) = (self.handle.clone(), address.clone());
            let (cluster, unix) =
                (self.setup.cluster.clone(), self.setup.same_host != SameHost::Tcp);
            let resolve = move || {
                handle.word(Word::Ways(node, ways(&cluster, node, &address, unix)));
            };
            let thread = std::thread::Builder::new().name("resolver".into()).spawn(resolve);
            if thread.is_err() {
                peer.resolving = false;
                peer.resolve_at = now + RETRY_MAX;
            }
        }
    }

    /// Connects to a peer in one of the ways to it.
    fn dial(&mut self, errand: Errand, way: usize) {
        let now = self.clock.now();
        let peer = &self.peers[&errand.node];
        let Some(way) = peer.ways.get(way) else { return self.errand_failed(errand, false) };
        let asking = errand.attempt == 0;
        let renewing = matches!(peer.state, State::Renewing(_));
        let patience = if asking || renewing { ASK_TIMEOUT } else { self.setup.limits.silence };
        match way.connect(self.setup.limits.stall) {
            Ok((socket, connected)) => {
                let stage = Stage::Connecting(errand);
                let pending = Pending::new(socket, stage, now + patience, way.transport());
                self.add(pending, Interest { read: false, write: true });
                if connected {
                    self.proceed(self.last_token);
                }
            }
            Err(error) => {
                self.errand_failed(errand, error.kind() == io::ErrorKind::ConnectionRefused);
            }
        }
    }

    fn add(&mut self, pending: Pending, interest: Interest) {
        self.last_token += 1;
        if self.poller.add(&pending.socket, self.last_token, interest).is_ok() {
            self.pending.insert(self.last_token, pending);
        }
    }

    /// Something has happened on a connection that is being made.
    fn proceed(&mut self, token: u64) {
        let Some(pending) = self.pending.get_mut(&token) else { return };
        match (pending.proceed(), pending.stage) {
            (Progress::Waiting, _) => {}
            (Progress::Connected, Stage::Connecting(errand)) => self.connected(token, errand),
            (Progress::Encrypts, _) => self.begin_to_accept(token),
            (Progress::Secured, Stage::Securing(errand)) => self.greet(token, errand),
            (Progress::Secured, _) => {}
            (Progress::Troubled(trouble), _) => self.troubled(token, trouble),
            (Progress::Said(kind, body), stage) => {
                let pending = self.pending.remove(&token).expect("it was there");
                let _ = self.poller.remove(&pending.socket);
                match (stage, kind) {
                    (Stage::AwaitingGreeting, Kind::Link) => self.receive_greeting(pending, &body),
                    (Stage::AwaitingGreeting, kind @ (Kind::Service | Kind::SecureService)) => {
                        if let Some(service) = &self.setup.service {
                            let body = (kind == Kind::Service).then_some(body);
                            service::serve(service, &self.serving, pending, body);
                        }
                    }
                    (Stage::AwaitingReply(errand), Kind::Link) => {
                        self.receive_reply(pending, errand, &body);
                    }
                    (Stage::AwaitingReply(errand), Kind::Service | Kind::SecureService)
                    | (Stage::Connecting(errand) | Stage::Securing(errand), _) => {
                        self.errand_failed(errand, false);
                    }
                    (Stage::Leaving, _) => {}
                }
            }
            (Progress::Refused, _) => self.fail(token, true),
            (Progress::Failed | Progress::Connected, _) => self.fail(token, false),
        }
    }

    /// Says who this node is and what it has connected for.
    fn greet(&mut self, token: u64, errand: Errand) {
        let Some(pending) = self.pending.get_mut(&token) else { return };
        let renews = match self.peers.get(&errand.node).map(|peer| &peer.state) {
            Some(State::Renewing(renewing)) if errand.attempt != 0 => {
                // Who listens there may be busy for a moment.
                pending.deadline = self.clock.now() + REPLY_TIMEOUT;
                Some(renewing.of_lane(errand.socket))
            }
            _ => None,
        };
        let greeting = Greeting {
            identity: self.own,
            protocol: (wire::PROTOCOL_VERSION_MIN, wire::PROTOCOL_VERSION),
            attempt: errand.attempt,
            socket: errand.socket,
            cluster: self.setup.cluster.clone(),
            release: env!("CARGO_PKG_VERSION").into(),
            renews,
        };
        pending.stage = Stage::AwaitingReply(errand);
        let heard = self.poller.modify(&pending.socket, token, READ).is_ok();
        if !self.say_greeting(token, errand, &greeting.encode()) || !heard {
            self.fail(token, false);
        }
    }

    /// A connection that was being made has come to nothing.
    fn fail(&mut self, token: u64, refused: bool) {
        let Some(pending) = self.pending.remove(&token) else { return };
        if let Some(errand) = pending.errand() {
            self.errand_failed(errand, refused);
        }
    }

    /// A connection of this process's own could not be made: the next way, or the end.
    fn errand_failed(&mut self, errand: Errand, refused: bool) {
        let Errand { node, attempt, socket } = errand;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        match &mut peer.state {
            State::Breaking { way, doubt, .. } if attempt == 0 => {
                let now = self.clock.now();
                *way += 1;
                let next = *way;
                match *doubt {
                    // Asked in all ways, and nobody was there in any.
                    _ if refused && next == peer.ways.len() => self.end_break(node, true),
                    _ if refused => self.dial(errand, next),
                    Doubt::Asked(until) if now + ASK_PAUSE < until => {
                        *doubt = Doubt::AskAgain(now + ASK_PAUSE, until);
                    }
                    _ => self.end_break(node, false),
                }
            }
            State::Making(making) | State::Renewing(Renewing { making: Some(making), .. })
                if making.attempt == attempt && attempt != 0 =>
            {
                let Some(way) = making.way else { return };
                making.refusals += usize::from(refused);
                let nobody = making.refusals == peer.ways.len();
                if socket == 0 && making.peer.is_none() && way + 1 < peer.ways.len() {
                    making.way = Some(way + 1);
                    making.transport = peer.ways[way + 1].transport();
                    return self.dial(errand, way + 1);
                }
                let began = making.began;
                if let State::Renewing(Renewing { ended, .. }) = peer.state {
                    return if ended && nobody {
                        self.end_link(node, true)
                    } else {
                        // An attempt that was waited for in vain has been long enough a pause.
                        self.abandon_until(node, began + RETRY_FIRST)
                    };
                }
                let pause = peer.pause;
                peer.pause = pause.times(2).min(RETRY_MAX);
                self.abandon(node, pause);
                self.unreachable(node, nobody);
            }
            _ => {}
        }
    }

    /// Tells threads that wait for a link that there will be none for now.
    fn unreachable(&mut self, node: NodeId, refused: bool) {
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        if std::mem::take(&mut peer.wanted) {
            for thread in 0..self.exchange.len() {
                self.post(thread, LinkNews::Unreachable { node, refused });
            }
        }
    }

    /// Gives up an attempt.
    fn abandon(&mut self, node: NodeId, pause: Duration) {
        let now = self.clock.now();
        self.abandon_until(node, now + pause);
    }

    fn abandon_until(&mut self, node: NodeId, retry_at: Instant) {
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        if let Some(making) = peer.making() {
            let attempt = making.attempt;
            let of_it = |errand: Errand| errand.attempt == attempt && errand.node == node;
            self.pending.retain(|_, pending| !pending.errand().is_some_and(of_it));
        }
        peer.retry_at = retry_at;
        match &mut peer.state {
            State::Renewing(renewing) => renewing.making = None,
            state => *state = State::Absent,
        }
    }

    fn receive_greeting(&mut self, mut pending: Pending, body: &[u8]) {
        let Ok(greeting) = Greeting::decode(body) else { return };
        let identity = greeting.identity;
        let own = self.own;
        let (proved, transport) = (self.proves(&pending, &identity), pending.transport);
        let refuse = |pending: &mut Pending, verdict, protocol, why: &str| {
            let (why, received, shared) = (why.into(), 0, false);
            let reply = Reply { identity: own, verdict, protocol, why, received, shared };
            pending.say(&reply.encode())
        };
        if let Err(trouble) = proved {
            refuse(&mut pending, Verdict::Refused, 0, &trouble.why);
            self.handle.count_refusal(trouble.kind);
            return self.complain(identity.node, &format!("refused: {}", trouble.why));
        }
        let protocol = match self.judge(&greeting) {
            Ok(protocol) => protocol,
            Err(why) => {
                refuse(&mut pending, Verdict::Refused, 0, &why);
                return self.complain(identity.node, &format!("refused: {why}"));
            }
        };
        if greeting.attempt == 0 {
            refuse(&mut pending, Verdict::Busy, protocol, "somebody is here");
            return;
        }
        let room = match greeting.renews {
            Some(renewal) => self.admit_renewal(&greeting, renewal, protocol, transport),
            None => self.make_room(&greeting, protocol, transport).map(|()| 0),
        };
        let received = match room {
            Ok(received) => received,
            Err((verdict, why)) => {
                refuse(&mut pending, verdict, protocol, why);
                return;
            }
        };
        let shared = self.accept_memory(identity.node, greeting.attempt, &mut pending);
        let (verdict, why) = (Verdict::Welcome, String::new());
        let reply = Reply { identity: own, verdict, protocol, why, received, shared };
        if !pending.say(&reply.encode()) {
            return self.abandon(identity.node, RETRY_FIRST);
        }
        let peer_has = greeting.renews.map_or(0, |renewal| renewal.received);
        self.keep(identity.node, greeting.socket, pending, peer_has);
    }

    /// Whether somebody may be linked to, and which version of the messages is spoken then.
    fn judge(&self, greeting: &Greeting) -> Result<u16, String> {
        let Greeting { identity, protocol: (oldest, newest), cluster, release, .. } = greeting;
        if *cluster != self.setup.cluster {
            let own = &self.setup.cluster;
            return Err(format!("it belongs to cluster `{cluster}`, this one is `{own}`"));
        }
        let Identity { node, role, .. } = *identity;
        match self.peers.get(&node) {
            _ if node == self.own.node => return Err("it says that it is this node".into()),
            None => return Err(format!("node {} is not in the configuration", node.0)),
            Some(peer) if peer.peer.role != role => {
                return Err(format!("node {} has another role in the configuration", node.0));
            }
            Some(peer) if peer.newest_life > identity.incarnation => {
                return Err(format!("a later life of node {} is known", node.0));
            }
            Some(_) => {}
        }
        let protocol = wire::PROTOCOL_VERSION.min(*newest);
        if protocol < wire::PROTOCOL_VERSION_MIN || protocol < *oldest {
            return Err(format!(
                "its version {release} speaks protocol {oldest} to {newest}, this one {} to {}",
                wire::PROTOCOL_VERSION_MIN,
                wire::PROTOCOL_VERSION
            ));
        }
        Ok(protocol)
    }

    /// Prepares for a connection of a link that a peer makes, or says why that cannot be now.
    fn make_room(
        &mut self,
        greeting: &Greeting,
        protocol: u16,
        transport: &'static str,
    ) -> Result<(), (Verdict, &'static str)> {
        let Greeting { identity, attempt, socket, .. } = *greeting;
        let busy = |why| Err((Verdict::Busy, why));
        let mut peer = self.peers.get_mut(&identity.node).expect("it has been judged");
        match &peer.state {
            State::Making(making) if making.way.is_none() && making.attempt == attempt => {
                let free = making.has_room_for(socket);
                return if free { Ok(()) } else { busy("it has this connection already") };
            }
            // Nobody makes two attempts at once: this one's predecessor is over.
            State::Making(making) if making.way.is_none() => {}
            State::Making(_) if identity.node > self.own.node => {}
            State::Making(_) => return busy("an attempt of this node is under way"),
            State::Absent => {}
            State::Renewing(renewing) => {
                // The peer has given the link up that is being renewed here, or has ended.
                let ended = renewing.ended && renewing.link.incarnation != identity.incarnation;
                self.end_link(identity.node, ended);
                return busy("the last link is not cleared away");
            }
            State::Up(_) | State::Breaking { .. } | State::Telling { .. } => {
                return busy("the last link is not cleared away");
            }
        }
        if socket != 0 {
            return busy("the attempt is over");
        }
        self.abandon(identity.node, RETRY_FIRST);
        peer = self.peers.get_mut(&identity.node).expect("it has been judged");
        let (now, workers) = (self.clock.now(), self.own.workers);
        let deadline = now + self.setup.limits.silence;
        let making =
            Making::of_peer(identity, workers, attempt, protocol, transport, now, deadline);
        peer.state = State::Making(making);
        Ok(())
    }

    fn receive_reply(&mut self, mut pending: Pending, errand: Errand, body: &[u8]) {
        let Errand { node, attempt, socket } = errand;
        let reply = Reply::decode(body);
        let known = reply.as_ref().is_ok_and(|reply| reply.identity.node == node);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if attempt == 0 {
            if let State::Breaking { link, .. } = peer.state {
                let life = link.incarnation;
                let other = known && reply.is_ok_and(|r| r.identity.incarnation != life);
                self.end_break(node, other);
            }
            return;
        }
        let role = peer.peer.role;
        let renews = match &peer.state {
            State::Renewing(renewing) => Some((renewing.link.incarnation, renewing.ended)),
            _ => None,
        };
        let Some(making) = peer.making().filter(|making| making.attempt == attempt) else { return };
        let Ok(reply) = reply else { return self.errand_failed(errand, false) };
        if !pending.end_offer(reply.shared) {
            return self.errand_failed(errand, false);
        }
        if let Some((life, ended)) = renews.filter(|_| known) {
            if reply.identity.incarnation != life {
                return self.end_link(node, ended);
            }
            if matches!(reply.verdict, Verdict::Gone | Verdict::Refused) {
                return self.end_link(node, false);
            }
        }
        match reply.verdict {
            _ if !known || role != reply.identity.role => {
                let found = reply.identity.node.0;
                let why = format!("node {found} is at its address");
                self.abandon(node, RETRY_MAX);
                self.unreachable(node, false);
                self.complain(node, &why);
            }
            Verdict::Welcome if socket == 0 && making.peer.is_none() => {
                let count = sockets_between(self.own.workers, reply.identity.workers);
                making.peer = Some(reply.identity);
                making.protocol = reply.protocol;
                making.sockets = (0..count).map(|_| None).collect();
                let way = making.way.unwrap_or(0);
                self.keep(node, 0, pending, reply.received);
                for socket in 1..count {
                    self.dial(Errand { socket, ..errand }, way);
                }
            }
            Verdict::Welcome => self.keep(node, socket, pending, reply.received),
            // What waits for the link waits on.
            Verdict::Busy => self.abandon(node, RETRY_BUSY),
            Verdict::Refused | Verdict::Gone => {
                self.abandon(node, RETRY_MAX);
                self.unreachable(node, false);
                self.complain(node, &format!("it refuses this node: {}", reply.why));
            }
        }
    }

    /// A connection of a link is made; with the last one the link is, or goes on.
    fn keep(&mut self, node: NodeId, socket: u8, pending: Pending, peer_has: u64) {
        if self.is_revoked(&pending) {
            return self.abandon(node, RETRY_MAX);
        }
        let peer = self.peers.get_mut(&node).expect("the caller knows it");
        let Some(making) = peer.making() else { return };
        if let Some(slot) = making.sockets.get_mut(usize::from(socket)) {
            making.shown.extend(pending.shown.clone());
            *slot = Some((pending.into(), peer_has));
        }
        if making.sockets.iter().any(Option::is_none) {
            return;
        }
        let Some(identity) = making.peer else { return };
        let (protocol, transport) = (making.protocol, making.transport);
        let begun_by = if making.way.is_some() { self.own.node } else { node };
        let name = LinkName { begun_by, attempt: making.attempt };
        let sockets: Vec<(Connection, u64)> = making.sockets.drain(..).flatten().collect();
        let is_encrypted = sockets.iter().all(|(connection, _)| connection.is_encrypted());
        let is_shared = sockets.iter().all(|(connection, _)| connection.is_shared());
        let transport = match transport {
            _ if is_encrypted => "TLS",
            _ if is_shared => SHARED_MEMORY,
            transport => transport,
        };
        let shown = std::mem::take(&mut making.shown);
        peer.shown = shown;
        if matches!(peer.state, State::Renewing(_)) {
            self.end_renewal(node, sockets, transport);
            return self.note_standing();
        }
        self.last_generation += 1;
        let (generation, incarnation) = (self.last_generation, identity.incarnation);
        peer.state = State::Up(Standing { generation, incarnation, name, transport });
        peer.newest_life = incarnation;
        peer.pause = RETRY_FIRST;
        peer.wanted = false;
        peer.complaints.clear();
        let count = sockets.len() as u8;
        for (thread, sockets) in self.shares(sockets).into_iter().enumerate() {
            let sockets = sockets.into_iter().map(|(index, socket, _)| (index, socket)).collect();
            let link = NewLink { node, incarnation, generation, protocol, sockets };
            self.post(thread, LinkNews::Up(link));
        }
        self.tell(LinkEvent::Up { node, incarnation, sockets: count, transport });
        self.note_standing();
    }

    /// The connections of a link by thread, each with the number of its lane.
    fn shares(&self, sockets: Vec<(Connection, u64)>) -> Vec<Vec<(u8, Connection, u64)>> {
        let threads = self.exchange.len();
        let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, (socket, peer_has)) in (0..).zip(sockets) {
            shares[thread_of(index, threads)].push((index, socket, peer_has));
        }
        shares
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Notice(_, Notice::Wanted(node)) => {
                let now = self.clock.now();
                let Some(peer) = self.peers.get_mut(&node) else { return };
                peer.wanted = peer.link().is_none();
                if peer.peer.address.is_some() && peer.pause <= RETRY_FIRST.times(2) {
                    peer.retry_at = peer.retry_at.min(now);
                }
            }
            Word::Notice(_, Notice::Broken { node, generation, why }) => {
                self.begin_break(node, generation, why);
            }
            Word::Notice(thread, Notice::Detached { node, generation, round, received }) => {
                self.note_detached(thread, node, generation, round, received);
            }
            Word::Notice(thread, Notice::Told { node, generation }) => {
                let now = self.clock.now();
                let Some(peer) = self.peers.get_mut(&node) else { return };
                if let State::Telling { generation: told, threads } = &mut peer.state
                    && *told == generation
                {
                    threads.remove(&thread);
                    if threads.is_empty() {
                        peer.state = State::Absent;
                        peer.retry_at = now + RETRY_BUSY;
                    }
                }
            }
            Word::Credentials(found) => self.note_credentials(found),
            Word::Ways(node, found) => {
                let now = self.clock.now();
                let Some(peer) = self.peers.get_mut(&node) else { return };
                peer.resolving = false;
                match found {
                    Ok(ways) if !ways.is_empty() => {
                        if peer.ways.is_empty() {
                            peer.retry_at = now;
                        }
                        peer.ways = ways;
                        // Names may mean other addresses after a while.
                        let named = peer.peer.address.as_ref().is_some_and(|a| a.is_name());
                        peer.resolve_at = if named { now + NAME_TIME } else { Instant::FAR_FUTURE };
                    }
                    // Who was found once may be there still.
                    _ if !peer.ways.is_empty() => peer.resolve_at = now + NAME_TIME,
                    failed => {
                        peer.resolve_at = now + RETRY_MAX;
                        let why = failed.err().map_or("no address".into(), |e| e.to_string());
                        let address = peer.peer.address.as_ref().map(ToString::to_string);
                        let address = address.unwrap_or_default();
                        self.unreachable(node, false);
                        self.complain(node, &format!("its address {address} is not known: {why}"));
                    }
                }
            }
        }
    }

    fn post(&self, thread: usize, news: LinkNews) {
        self.exchange.post_from_outside(thread, Mail::Link(news));
    }

    fn tell(&self, event: LinkEvent) {
        (self.report)(Event::Link(event));
    }

    /// Says what is wrong with a peer, now and then.
    fn complain(&mut self, node: NodeId, why: &str) {
        if self.is_new_complaint(node, why) {
            self.tell(LinkEvent::Refused { node: Some(node), why: why.into() });
        }
    }

    /// Whether something is to be said of a peer that was not said of it lately.
    fn is_new_complaint(&mut self, node: NodeId, why: &str) -> bool {
        let now = self.clock.now();
        let Some(peer) = self.peers.get_mut(&node) else { return true };
        peer.complaints.retain(|(_, at)| now.since(*at) < COMPLAINT_INTERVAL);
        let full = peer.complaints.len() >= COMPLAINTS_MAX;
        if full || peer.complaints.iter().any(|(last, _)| last == why) {
            return false;
        }
        peer.complaints.push((why.into(), now));
        true
    }
}

const READ: Interest = Interest { read: true, write: false };
const TOKEN_WAKE: u64 = 0;
/// The first listener; connections have their numbers, from 1.
const TOKEN_LISTENERS: u64 = 1 << 63;
/// How long after many attempts that came to nothing the next is made.
const RETRY_MAX: Duration = Duration::from_millis(800);
/// How long the addresses of a name are used before it is looked up again.
const NAME_TIME: Duration = Duration::from_secs(5);
/// How long after the other side was busy.
const RETRY_BUSY: Duration = Duration::from_millis(10);
/// How long it may take to find out whether a process has ended, and to connect anew.
const ASK_TIMEOUT: Duration = Duration::from_millis(100);
/// How long a peer that has taken a connection may take to answer the greeting on it.
const REPLY_TIMEOUT: Duration = Duration::from_millis(200);
/// How long after it hung up it is asked again.
const ASK_PAUSE: Duration = Duration::from_millis(2);
/// How much is said of a peer in that time.
const COMPLAINTS_MAX: usize = 16;
/// How often the same is said of the same peer.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(30);
