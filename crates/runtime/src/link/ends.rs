//! A thread's share of the links: the sockets that are its own, and what waits for a link.
//!
//! # Guarantees
//! 1. A worker's messages to a peer travel on one socket of the link, and the control plane's on
//!    another, which bulk of data never fills.
//! 2. What is sent into a link that is broken already is lost with it. What is sent while its
//!    connections are made anew waits for them.
//! 3. What is sent while there is no link waits for one, not longer than the limit. If there is
//!    none by then, or nobody listens, the life it was meant for is reported as lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actor::{Figures, Metric};
use model::{ActorKind, Incarnation, NodeId};
use node::{Outgoing, Sender, Violation, broken_rule};
use stdx::{Duration, Instant};
use wire::Envelope;

use super::socket::{LinkLife, LinkSocket, Traffic};
use super::{Broken, Connection, KeeperHandle, LinkLimits, NewLink, Notice, SendBuffers};
use crate::cluster::{Links, Role};
use crate::poller::{Interest, Poller, Ready};

/// What has come over a link.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) envelope: Envelope,
    /// The link's generation.
    pub(crate) generation: u64,
}

/// That a life of a peer cannot be reached any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) closed: bool,
}

/// A thread's ends of all links.
pub(crate) struct LinkEnds {
    own: NodeId,
    workers: u8,
    thread: usize,
    limits: LinkLimits,
    keeper: Arc<KeeperHandle>,
    send_buffers: Arc<SendBuffers>,
    tokens_from: u64,
    ends: BTreeMap<NodeId, End>,
    sockets: Vec<Option<LinkSocket>>,
    /// Sockets with something to send.
    dirty: Vec<usize>,
    /// Those of connections through memory.
    shared: Vec<usize>,
    /// Peers are told to wake this thread when they have written to memory.
    dozes: bool,
    /// What one read may bring, and what that says when it was encrypted.
    buffer: Vec<u8>,
    plain: Vec<u8>,
    messages: Vec<Envelope>,
    /// When the sockets of the control plane were looked at.
    looked_at: Instant,
    losses: Vec<Loss>,
}

/// The end of the link to one peer.
struct End {
    role: Role,
    /// Bytes that may wait on a connection.
    send_buffer: usize,
    /// The link that stands, as far as this thread knows.
    up: Option<Up>,
    /// The newest link that is gone.
    gone: u64,
    parked: VecDeque<Outgoing>,
    parked_until: Option<Instant>,
    /// How often there was a link, how often it was closed because of what came over it, and what
    /// has passed over those that are gone.
    made: u64,
    violations: u64,
    traffic: Traffic,
}

struct Up {
    generation: u64,
    incarnation: Incarnation,
    /// Where in `sockets` the socket is that workers send on, and the control plane's.
    data: Option<usize>,
    control: Option<usize>,
}

impl End {
    fn new(role: Role, send_buffer: usize) -> Self {
        Self {
            role,
            send_buffer,
            up: None,
            gone: 0,
            parked: VecDeque::new(),
            parked_until: None,
            made: 0,
            violations: 0,
            traffic: Traffic::default(),
        }
    }

    /// What the process at the other end is.
    fn sender(&self) -> Sender {
        match self.role {
            Role::Data => Sender::Data,
            Role::Management => Sender::Management,
            Role::Client => Sender::Client,
        }
    }
}

impl LinkEnds {
    /// The ends of a process's links at one of its threads; the process has so many workers.
    pub(crate) fn new(links: &Links, workers: u8, thread: usize, tokens_from: u64) -> Self {
        let peers = links.peers.iter();
        let ends = peers.map(|(node, (role, send_buffer))| (*node, End::new(*role, *send_buffer)));
        Self {
            own: links.own,
            workers,
            thread,
            limits: links.limits,
            keeper: links.keeper.clone(),
            send_buffers: links.send_buffers.clone(),
            tokens_from,
            ends: ends.collect(),
            sockets: Vec::new(),
            dirty: Vec::new(),
            shared: Vec::new(),
            dozes: false,
            buffer: vec![0; READ_MAX],
            plain: Vec::new(),
            messages: Vec::new(),
            looked_at: Instant::ZERO,
            losses: Vec::new(),
        }
    }

    /// Sends a message to a peer, with the next [`LinkEnds::flush`].
    pub(crate) fn send(&mut self, outgoing: Outgoing, now: Instant) {
        let to = outgoing.envelope.to.node;
        let Some(end) = self.ends.get_mut(&to) else { return };
        let Some(up) = &end.up else { return self.park(outgoing, now) };
        if let Some(life) = outgoing.life
            && life != up.incarnation
        {
            // Its addressee is over, or has not been met: a link to that would have replaced this.
            if life < up.incarnation {
                self.losses.push(Loss { node: to, incarnation: life, closed: true });
            }
            return;
        }
        let control = outgoing.envelope.from.actor == ActorKind::Control;
        let Some(at) = (if control { up.control } else { up.data }) else { return };
        let Some(socket) = &mut self.sockets[at] else { return };
        let clean = !socket.wants_flush();
        if socket.broken || !socket.push(&outgoing.envelope) {
            return;
        }
        if clean && socket.wants_flush() {
            self.dirty.push(at);
        }
        if socket.is_held_up() {
            let limit = end.send_buffer;
            self.watch_waiting(at, limit);
        }
    }

    /// Gives a peer up that does not take what is sent to it: the one of this connection if more
    /// waits on it than may, or the one for which most waits if it is too much for all together.
    fn watch_waiting(&mut self, at: usize, limit: usize) {
        let Some(socket) = &mut self.sockets[at] else { return };
        if socket.count_waiting() > limit {
            return self.lose(at, Broken::Overfull);
        }
        let sockets = self.sockets.iter().enumerate();
        let sockets = sockets.filter_map(|(at, socket)| Some((at, socket.as_ref()?)));
        let exceeding = sockets.filter(|(_, socket)| !socket.broken && socket.exceeds_share());
        if let Some((most, _)) = exceeding.max_by_key(|(_, socket)| socket.pending()) {
            self.lose(most, Broken::Overfull);
        }
    }

    /// Keeps a message until there is a link.
    fn park(&mut self, outgoing: Outgoing, now: Instant) {
        let node = outgoing.envelope.to.node;
        let Some(end) = self.ends.get_mut(&node) else { return };
        if end.parked_until.is_none() {
            end.parked_until = Some(now + self.limits.silence);
            self.keeper.tell(self.thread, Notice::Wanted(node));
        }
        if end.parked.len() >= PARKED_MAX {
            return self.give_up(node, false);
        }
        end.parked.push_back(outgoing);
    }

    /// Forgets what waits for a link to a peer; the lives it was meant for are lost.
    fn give_up(&mut self, node: NodeId, closed: bool) {
        let Some(end) = self.ends.get_mut(&node) else { return };
        end.parked_until = None;
        let life = end.parked.drain(..).filter_map(|outgoing| outgoing.life).max();
        self.losses.extend(life.map(|incarnation| Loss { node, incarnation, closed }));
    }

    /// The lives that were found to be out of reach.
    pub(crate) fn take_losses(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.losses)
    }

    /// A link has been made: uses it.
    pub(crate) fn open(&mut self, poller: &Poller, link: NewLink, now: Instant) {
        let NewLink { node, incarnation, generation, protocol, sockets } = link;
        if self.is_over(node, generation) {
            return;
        }
        let (mut data, mut control) = (None, None);
        let mut failed = false;
        for (index, socket) in sockets {
            let link = LinkLife { node, incarnation, generation, protocol };
            let waiting = SendBuffers::waiting(&self.send_buffers);
            let mut socket = LinkSocket::new(socket, link, index, waiting, now);
            if self.limits.compression {
                socket.pack();
            }
            let free = self.sockets.iter().position(Option::is_none);
            let at = free.unwrap_or_else(|| {
                self.sockets.push(None);
                self.sockets.len() - 1
            });
            failed |= socket.socket.as_ref().is_none_or(|s| !self.listen(poller, at, s));
            if index == 0 {
                control = Some(at);
            } else if usize::from(index) == self.thread + 1 {
                data = Some(at);
            }
            self.sockets[at] = Some(socket);
        }
        let Some(end) = self.ends.get_mut(&node) else { return };
        end.up = Some(Up { generation, incarnation, data, control });
        end.made += 1;
        end.parked_until = None;
        let parked = std::mem::take(&mut end.parked);
        for outgoing in parked {
            self.send(outgoing, now);
        }
        if failed {
            self.keeper.tell(self.thread, Notice::Broken { node, generation, why: Broken::Reset });
        }
    }

    /// Has the poller tell what happens to a connection. False if it cannot.
    fn listen(&mut self, poller: &Poller, at: usize, connection: &Connection) -> bool {
        let token = self.tokens_from + at as u64;
        if connection.is_shared() {
            if !self.shared.contains(&at) {
                self.shared.push(at);
            }
            return poller.add_edge(connection, token).is_ok();
        }
        poller.add(connection, token, Interest { read: true, write: false }).is_ok()
    }

    /// A link is gone: its sockets go. Workers are to be told before [`LinkEnds::told`].
    pub(crate) fn close(&mut self, node: NodeId, generation: u64) {
        let mut traffic = Traffic::default();
        for socket in &mut self.sockets {
            let of_link = |s: &mut LinkSocket| s.node == node && s.generation == generation;
            traffic.add(socket.take_if(of_link).map(|socket| socket.traffic()).unwrap_or_default());
        }
        if let Some(end) = self.ends.get_mut(&node) {
            end.traffic.add(traffic);
            end.gone = end.gone.max(generation);
            if end.up.as_ref().is_some_and(|up| up.generation == generation) {
                end.up = None;
            }
        }
    }

    /// Lets go of the connections of a link, and tells how far its lanes have come.
    pub(crate) fn detach(&mut self, node: NodeId, generation: u64, round: u64) {
        let sockets = self.sockets.iter_mut().flatten();
        let of_link = sockets.filter(|s| s.node == node && s.generation == generation);
        let received = of_link.map(|socket| (socket.index, socket.detach())).collect();
        self.keeper.tell(self.thread, Notice::Detached { node, generation, round, received });
    }

    /// A link goes on over new connections: sends what the peer lacks.
    pub(crate) fn renew(
        &mut self,
        poller: &Poller,
        node: NodeId,
        generation: u64,
        sockets: Vec<(u8, Connection, u64)>,
        now: Instant,
    ) {
        for (index, connection, peer_has) in sockets {
            let lane = |s: &Option<LinkSocket>| {
                let key = |s: &LinkSocket| (s.node, s.generation, s.index);
                s.as_ref().is_some_and(|s| key(s) == (node, generation, index))
            };
            // A link that is gone has none.
            let Some(at) = self.sockets.iter().position(lane) else { continue };
            let Some(socket) = &self.sockets[at] else { continue };
            if socket.broken {
                continue;
            }
            let added = self.listen(poller, at, &connection);
            let Some(socket) = &mut self.sockets[at] else { continue };
            let attached = socket.attach(connection, peer_has, now);
            if socket.wants_flush() {
                self.dirty.push(at);
            }
            match attached {
                Err(why) => self.lose(at, why),
                Ok(()) if !added => self.drop_connection(at, Broken::Reset),
                Ok(()) => {}
            }
        }
    }

    /// The workers of this thread have been told that a link is gone.
    pub(crate) fn told(&self, node: NodeId, generation: u64) {
        self.keeper.tell(self.thread, Notice::Told { node, generation });
    }

    /// No link to a peer can be made now.
    pub(crate) fn unreachable(&mut self, node: NodeId, refused: bool) {
        if self.ends.get(&node).is_some_and(|end| end.up.is_none()) {
            self.give_up(node, refused);
        }
    }

    /// Whether what came over a link may not be handled any more.
    pub(crate) fn is_over(&self, node: NodeId, generation: u64) -> bool {
        self.ends.get(&node).is_none_or(|end| generation <= end.gone)
    }

    /// Whether there is a link to a node, as far as this thread knows.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.ends.get(&node).is_some_and(|end| end.up.is_some())
    }

    /// Adds this thread's share of what has passed and waits; the first thread tells of links.
    pub(crate) fn tell_figures(&self, figures: &mut Figures) {
        figures.of_node(self.own);
        if self.thread == 0 {
            for (kind, count) in self.keeper.refusals() {
                figures.add(Metric::LinksRefused, &[kind.name()], count);
            }
        }
        for (node, end) in &self.ends {
            let peer = node.0.to_string();
            let (mut traffic, mut waiting, mut memory) = (end.traffic, 0, 0);
            for socket in self.sockets.iter().flatten().filter(|socket| socket.node == *node) {
                memory += socket.memory();
                traffic.add(socket.traffic());
                waiting += socket.pending() as u64;
            }
            if self.thread == 0 {
                figures.add(Metric::LinkUp, &[&peer], end.up.is_some().into());
                figures.add(Metric::LinksMade, &[&peer], end.made);
            }
            figures.add(Metric::LinkViolations, &[&peer], end.violations);
            figures.add(Metric::LinkReceived, &[&peer], traffic.bytes_received);
            figures.add(Metric::LinkSent, &[&peer], traffic.bytes_sent);
            figures.add(Metric::LinkFramesReceived, &[&peer], traffic.frames_received);
            figures.add(Metric::LinkFramesSent, &[&peer], traffic.frames_sent);
            figures.add(Metric::LinkWaiting, &[&peer], waiting);
            figures.add(Metric::LinkMemory, &[&peer], memory);
        }
    }

    /// Something has happened to a socket.
    pub(crate) fn ready(
        &mut self,
        poller: &Poller,
        ready: Ready,
        now: Instant,
        arrivals: &mut Vec<Arrival>,
    ) {
        let at = (ready.token - self.tokens_from) as usize;
        let Some(Some(socket)) = self.sockets.get_mut(at) else { return };
        if socket.rings().is_some() {
            // What has come is found in memory.
            if ready.hung_up {
                socket.note_hang_up();
            }
            return;
        }
        if ready.write && socket.blocked {
            socket.blocked = false;
            let read = Interest { read: true, write: false };
            let modified = |s| poller.modify(s, ready.token, read).is_ok();
            if socket.socket.as_ref().is_some_and(modified) && socket.wants_flush() {
                self.dirty.push(at);
            }
        }
        if !socket.broken {
            self.read(at, now, arrivals);
        }
    }

    /// Takes what has come on a connection, once.
    fn read(&mut self, at: usize, now: Instant, arrivals: &mut Vec<Arrival>) {
        let Some(Some(socket)) = self.sockets.get_mut(at) else { return };
        let clean = !socket.wants_flush();
        let Self { own, workers, buffer, plain, messages, .. } = self;
        let outcome = socket.read(*own, *workers, buffer, plain, now, messages);
        if clean && socket.wants_flush() {
            self.dirty.push(at);
        }
        let (node, generation) = (socket.node, socket.generation);
        let mut outcome = outcome;
        if let Some(end) = self.ends.get(&node) {
            for envelope in self.messages.drain(..) {
                if let Some(rule) = broken_rule(end.sender(), &envelope) {
                    let message = envelope.message.name();
                    outcome = Err(Broken::Violation { message, rule });
                    break;
                }
                arrivals.push(Arrival { envelope, generation });
            }
        }
        self.messages.clear();
        if let Err(why) = outcome {
            self.drop_connection(at, why);
        }
    }

    /// Whether something has come through memory: some loads.
    pub(crate) fn has_news(&self) -> bool {
        self.shared().any(LinkSocket::has_news)
    }

    fn shared(&self) -> impl Iterator<Item = &LinkSocket> {
        self.shared.iter().filter_map(|at| self.sockets[*at].as_ref())
    }

    /// This thread is going to sleep: has peers wake it when they write to memory. False if it must
    /// not, because something has come, or there is room for what waits. To be followed by
    /// [`LinkEnds::rise`].
    pub(crate) fn doze(&mut self) -> bool {
        self.dozes = true;
        let mut sleeps = true;
        for at in &self.shared {
            if let Some(rings) = self.sockets[*at].as_mut().and_then(LinkSocket::rings) {
                sleeps &= rings.doze();
            }
        }
        sleeps
    }

    /// This thread is awake again.
    pub(crate) fn rise(&mut self) {
        if !std::mem::take(&mut self.dozes) {
            return;
        }
        for at in &self.shared {
            if let Some(rings) = self.sockets[*at].as_mut().and_then(LinkSocket::rings) {
                rings.rise();
            }
        }
    }

    /// Takes what has come through memory, from each peer as much as one read takes.
    pub(crate) fn take_shared(&mut self, now: Instant, arrivals: &mut Vec<Arrival>) {
        let mut all = std::mem::take(&mut self.shared);
        all.retain(|at| self.sockets[*at].as_mut().is_some_and(|s| s.rings().is_some()));
        for at in &all {
            let Some(socket) = &mut self.sockets[*at] else { continue };
            let was_blocked = socket.blocked;
            let looked = socket.look_for_room();
            if was_blocked && socket.wants_flush() {
                self.dirty.push(*at);
            }
            if let Err(why) = looked {
                self.drop_connection(*at, why);
            } else if socket.has_news() {
                self.read(*at, now, arrivals);
            }
        }
        self.shared = all;
    }

    /// A worker has refused what came from a life of a peer: closes the link to it.
    pub(crate) fn refuse(&mut self, violation: Violation) {
        let Violation { node, incarnation, message, rule } = violation;
        let Some(end) = self.ends.get(&node) else { return };
        let Some(up) = end.up.as_ref().filter(|up| up.incarnation == incarnation) else { return };
        if let Some(at) = up.data.or(up.control) {
            self.lose(at, Broken::Violation { message, rule });
        }
    }

    /// Sends what is to be sent, as far as the system takes it; whether there was anything.
    pub(crate) fn flush(&mut self, poller: &Poller, now: Instant) -> bool {
        let dirty = std::mem::take(&mut self.dirty);
        let any = !dirty.is_empty();
        for at in dirty {
            let Some(socket) = &mut self.sockets[at] else { continue };
            if socket.broken {
                continue;
            }
            let outcome = socket.flush(now);
            if socket.blocked
                && let Some(socket) = socket.socket.as_ref().filter(|s| !s.is_shared())
            {
                let both = Interest { read: true, write: true };
                let _ = poller.modify(socket, self.tokens_from + at as u64, both);
            }
            let (node, waits) = (socket.node, socket.count_waiting() > 0);
            if outcome.is_ok() && socket.wants_flush() {
                // Encryption takes time: the rest comes with the next turn.
                self.dirty.push(at);
            }
            if let Err(why) = outcome {
                self.drop_connection(at, why);
            } else if waits && let Some(end) = self.ends.get(&node) {
                let limit = end.send_buffer;
                self.watch_waiting(at, limit);
            }
        }
        any
    }

    /// A connection is of no use any more: the link may go on over another one, unless what came
    /// was wrong.
    fn drop_connection(&mut self, at: usize, why: Broken) {
        if matches!(why, Broken::Corrupt | Broken::Violation { .. }) {
            return self.lose(at, why);
        }
        let Some(socket) = &mut self.sockets[at] else { return };
        socket.detach();
        let (node, generation) = (socket.node, socket.generation);
        self.keeper.tell(self.thread, Notice::Broken { node, generation, why });
    }

    /// A lane is of no use any more, and so the link.
    fn lose(&mut self, at: usize, why: Broken) {
        let Some(socket) = &mut self.sockets[at] else { return };
        if !socket.broken {
            // What is wrong would be reported again and again.
            socket.detach();
            socket.give_up();
            let (node, generation) = (socket.node, socket.generation);
            self.keeper.tell(self.thread, Notice::Broken { node, generation, why });
            if let (Broken::Violation { .. }, Some(end)) = (why, self.ends.get_mut(&node)) {
                end.violations += 1;
            }
        }
    }

    /// When there is something to do although nothing happens.
    pub(crate) fn due(&self) -> Option<Instant> {
        if !self.dirty.is_empty() {
            return Some(Instant::ZERO);
        }
        let parked = self.ends.values().filter_map(|end| end.parked_until);
        let sockets = self.sockets.iter().flatten();
        let speaks = sockets.clone().filter_map(|s| s.speaks_at(self.limits.keepalive));
        let control = sockets.filter(|socket| socket.index == 0 && !socket.broken);
        let misses = control.map(|socket| {
            if socket.stalled || socket.socket.is_none() {
                socket.heard + self.limits.silence
            } else {
                socket.heard.max(socket.listening) + self.limits.stall
            }
        });
        parked.chain(speaks).chain(misses).min()
    }

    /// Gives signs of life, misses those of others, and gives up waiting for links.
    pub(crate) fn look_at_clock(&mut self, now: Instant) {
        let waiting =
            self.ends.iter().filter(|(_, end)| end.parked_until.is_some_and(|u| u <= now));
        let waiting: Vec<NodeId> = waiting.map(|(node, _)| *node).collect();
        for node in waiting {
            self.give_up(node, false);
        }
        // A thread that was held up has not had the time to hear anybody.
        let held_up = |patience: Duration| now.since(self.looked_at) > patience.divided_by(2);
        let (deaf, dull) = (held_up(self.limits.silence), held_up(self.limits.stall));
        self.looked_at = now;
        // Who is awake anyway does not wait for the last moment: so one thread's signs of life, and
        // those of its peers, come together instead of waking everybody one by one.
        let early = self.limits.keepalive.times(3).divided_by(4);
        let mut silent = Vec::new();
        for (at, socket) in self.sockets.iter_mut().enumerate() {
            let Some(socket) = socket else { continue };
            if socket.broken {
                continue;
            }
            if socket.speaks_at(early).is_some_and(|due| due <= now) {
                socket.keep_alive();
                self.dirty.push(at);
            }
            if socket.index != 0 {
                continue;
            }
            if deaf {
                socket.heard = now;
            }
            if dull {
                socket.listening = now;
            }
            if now.since(socket.heard) >= self.limits.silence {
                silent.push(at);
            } else if !socket.stalled
                && socket.socket.is_some()
                && now.since(socket.heard.max(socket.listening)) >= self.limits.stall
            {
                socket.stalled = true;
                let (node, generation, why) = (socket.node, socket.generation, Broken::Stalled);
                self.keeper.tell(self.thread, Notice::Broken { node, generation, why });
            }
        }
        for at in silent {
            self.lose(at, Broken::Silent);
        }
    }
}

/// Most bytes of one read.
const READ_MAX: usize = 64 << 10;
/// Messages that wait for a link to a peer, on one thread.
const PARKED_MAX: usize = 65_536;

#[cfg(test)]
mod tests;
