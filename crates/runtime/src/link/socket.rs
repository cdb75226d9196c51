//! A lane of a link on its thread: what it says and hears, and the connection that carries it now.
//!
//! # Owns
//! What one turn has to say is one frame, or a few when it is much. On an encrypted connection this
//! encrypts it, piece by piece as the system takes it.
//! # Guarantees
//! A message is handed out only if its frame arrived as it was sent. Input is kept only up to the
//! length of one frame, output up to the limit. What is encrypted and not sent is one piece.

use std::os::fd::OwnedFd;

use model::{Incarnation, NodeId};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, getsockname, send, sockopt};
use stdx::{Duration, Instant};
use wire::{Envelope, Link};

use super::Broken;
use super::connection::Connection;
use super::lane::Lane;
use super::ring::Rings;
use super::send_buffers::Waiting;

/// A lane and its connection.
#[derive(Debug)]
pub(super) struct LinkSocket {
    /// None while the connections of the link are being made anew.
    pub(super) socket: Option<Connection>,
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) generation: u64,
    /// Its number in the link.
    pub(super) index: u8,
    lane: Lane,
    /// The system takes no more for now.
    pub(super) blocked: bool,
    /// The peer has ended the socket of a connection through memory. So many bytes may still come.
    hung_up: Option<usize>,
    /// It is of no more use; the keeper knows.
    pub(super) broken: bool,
    /// Its share of what waits in the process.
    waiting: Waiting,
    /// When something came last, and was sent last.
    pub(super) heard: Instant,
    pub(super) spoke: Instant,
    /// Since when the peer is to be told of what has come.
    owed_since: Instant,
    /// Since when the peer could have said something over the present connection.
    pub(super) listening: Instant,
    /// The keeper knows that nothing comes.
    pub(super) stalled: bool,
    bytes_received: u64,
    bytes_sent: u64,
}

/// What has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) frames_received: u64,
    pub(super) frames_sent: u64,
}

impl Traffic {
    /// Adds that of another connection.
    pub(super) fn add(&mut self, other: Traffic) {
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.frames_received += other.frames_received;
        self.frames_sent += other.frames_sent;
    }
}

/// The link that a connection is of, from its making to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkLife {
    /// The peer.
    pub(super) node: NodeId,
    /// The peer's life.
    pub(super) incarnation: Incarnation,
    /// Counts the links to all peers.
    pub(super) generation: u64,
    /// The version of the messages on it.
    pub(super) protocol: u16,
}

impl LinkSocket {
    /// The connection of this index of a link.
    pub(super) fn new(
        socket: Connection,
        link: LinkLife,
        index: u8,
        waiting: Waiting,
        now: Instant,
    ) -> Self {
        let LinkLife { node, incarnation, generation, protocol } = link;
        Self {
            socket: Some(socket),
            node,
            incarnation,
            generation,
            index,
            lane: Lane::new(protocol),
            blocked: false,
            hung_up: None,
            broken: false,
            waiting,
            heard: now,
            spoke: now,
            owed_since: now,
            listening: now,
            stalled: false,
            bytes_received: 0,
            bytes_sent: 0,
        }
    }

    /// Adds a message to what is to be sent. False if the peer's version has no such message.
    pub(super) fn push(&mut self, envelope: &Envelope) -> bool {
        self.lane.push(envelope)
    }

    /// Bytes that wait to be sent.
    pub(super) fn pending(&self) -> usize {
        self.lane.pending()
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            bytes_received: self.bytes_received,
            bytes_sent: self.bytes_sent,
            frames_received: self.lane.frames_received,
            frames_sent: self.lane.frames_sent,
        }
    }

    /// The memory that carries the lane, if it goes through memory.
    pub(super) fn rings(&mut self) -> Option<&mut Rings> {
        self.socket.as_mut()?.rings.as_mut()
    }

    /// Bytes of memory that are shared with the peer.
    pub(super) fn memory(&self) -> u64 {
        let is_shared = self.socket.as_ref().is_some_and(Connection::is_shared);
        if is_shared { Rings::size() } else { 0 }
    }

    /// Whether something has come through memory, or nothing more will.
    pub(super) fn has_news(&self) -> bool {
        let rings = self.socket.as_ref().and_then(|connection| connection.rings.as_ref());
        rings.is_some_and(|rings| self.hung_up.is_some() || rings.has_news())
    }

    /// The socket beside the memory was ended.
    pub(super) fn note_hang_up(&mut self) {
        self.hung_up = self.hung_up.or(Some(Rings::size() as usize));
    }

    /// Whether what is sent waits here.
    pub(super) fn is_held_up(&self) -> bool {
        self.blocked || self.socket.is_none()
    }

    /// Counts what the system has not taken; how much that is.
    pub(super) fn count_waiting(&mut self) -> usize {
        let bytes = self.lane.waiting();
        self.waiting.set(bytes);
        bytes
    }

    /// Whether more waits here than on other connections, if that is more than there may be.
    pub(super) fn exceeds_share(&self) -> bool {
        self.waiting.exceeds_share()
    }

    /// Nothing is sent any more, and what waits is lost.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
        self.lane.give_up();
        self.waiting.set(0);
    }

    /// Whether there is something to send that the system has not refused.
    pub(super) fn wants_flush(&self) -> bool {
        !self.is_held_up() && !self.broken && (self.pending() > 0 || self.holds())
    }

    /// Whether something is encrypted and not sent.
    fn holds(&self) -> bool {
        self.socket.as_ref().is_some_and(Connection::holds)
    }

    /// When the peer is to hear something if there is nothing to say: on the control plane's lane
    /// a sign of life, on any lane what has arrived.
    pub(super) fn speaks_at(&self, interval: Duration) -> Option<Instant> {
        if self.is_held_up() || self.broken {
            return None;
        }
        let owes = (self.lane.owed() > 0).then(|| self.owed_since.max(self.spoke) + interval);
        if self.index == 0 { Some(self.spoke + interval) } else { owes }
    }

    /// Sends an empty frame if there is nothing else.
    pub(super) fn keep_alive(&mut self) {
        self.lane.push_empty();
    }

    /// Packs what is sent from here on, if the peer can unpack it. Within a host that costs more
    /// than it saves.
    pub(super) fn pack(&mut self) {
        if self.is_far() {
            self.lane.pack();
        }
    }

    fn is_far(&self) -> bool {
        let address = self.socket.as_ref().map(getsockname);
        matches!(address, Some(Ok(address)) if address.address_family() != AddressFamily::UNIX)
    }

    /// Sends what the system takes; on an encrypted connection no more than some pieces, and then
    /// there may be more: [`LinkSocket::wants_flush`].
    pub(super) fn flush(&mut self, now: Instant) -> Result<(), Broken> {
        let mut pieces = 0;
        loop {
            let Some(Connection { socket, tls, rings }) = &mut self.socket else { return Ok(()) };
            if rings.is_some() {
                return self.flush_shared(now);
            }
            let sent = match tls {
                None => {
                    let bytes = self.lane.unsent();
                    if bytes.is_empty() {
                        break;
                    }
                    let sent = send(&*socket, bytes, SendFlags::NOSIGNAL);
                    if let Ok(count) = sent {
                        self.lane.note_sent(count);
                    }
                    sent
                }
                // A piece counts as sent when it is encrypted: what a connection takes with it is
                // sent again over the next.
                Some(tls) => {
                    if !tls.wants_write() {
                        let bytes = self.lane.unsent();
                        if bytes.is_empty() || pieces == PIECES {
                            break;
                        }
                        let piece = &bytes[..bytes.len().min(PIECE)];
                        tls.encrypt(piece);
                        let count = piece.len();
                        self.lane.note_sent(count);
                        pieces += 1;
                    }
                    tls.send(socket)
                }
            };
            match sent {
                Ok(count) => {
                    self.bytes_sent += count as u64;
                    self.spoke = now;
                }
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Broken::Reset),
            }
        }
        self.blocked = false;
        Ok(())
    }

    /// Puts into memory what there is room for, and wakes the peer if it sleeps.
    fn flush_shared(&mut self, now: Instant) -> Result<(), Broken> {
        let Some(Connection { socket, rings: Some(rings), .. }) = &mut self.socket else {
            return Ok(());
        };
        self.blocked = false;
        let mut sent = 0;
        loop {
            let bytes = self.lane.unsent();
            if bytes.is_empty() {
                break;
            }
            let count = rings.write(bytes)?;
            self.lane.note_sent(count);
            sent += count as u64;
            if count == 0 && rings.wait_for_room()? {
                self.blocked = true;
                break;
            }
        }
        if sent > 0 {
            self.bytes_sent += sent;
            self.spoke = now;
            if rings.peer_sleeps() {
                wake(socket)?;
            }
        }
        Ok(())
    }

    /// Takes wake-ups out of the way if there are many, and looks whether what waits for room has
    /// some.
    pub(super) fn look_for_room(&mut self) -> Result<(), Broken> {
        let Some(Connection { socket, rings: Some(rings), .. }) = &mut self.socket else {
            return Ok(());
        };
        if rings.has_many_wakes() {
            // Nobody sleeps before memory has been looked at again, where all of it is found that
            // they tell of.
            let _ = rustix::io::read(&*socket, &mut [0; 256]);
        }
        if self.blocked {
            self.blocked = !rings.look_for_room()?;
        }
        Ok(())
    }

    /// Takes what has come through memory; how many bytes that was. Then the peer is woken if it
    /// waits for that.
    fn read_shared(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        let Some(Connection { socket, rings: Some(rings), .. }) = &mut self.socket else {
            return Ok(0);
        };
        let count = rings.read(buffer)?;
        if count > 0 && rings.peer_starves() && self.hung_up.is_none() {
            wake(socket)?;
        }
        if let Some(left) = &mut self.hung_up {
            if count > 0 && count <= *left {
                *left -= count;
            } else if let Some(why) = how_it_ended(socket) {
                return Err(why);
            } else {
                self.hung_up = None;
            }
        }
        Ok(count)
    }

    /// Reads once and takes the messages of the frames that are complete. The peer may have to be
    /// told then how much has arrived: [`LinkSocket::wants_flush`]. What encrypted input says goes
    /// through the second buffer.
    pub(super) fn read(
        &mut self,
        own: NodeId,
        workers: u8,
        buffer: &mut [u8],
        plain: &mut Vec<u8>,
        now: Instant,
        messages: &mut Vec<Envelope>,
    ) -> Result<(), Broken> {
        let count = if self.rings().is_some() {
            match self.read_shared(buffer)? {
                0 => return Ok(()),
                count => count,
            }
        } else {
            let Some(connection) = &self.socket else { return Ok(()) };
            match rustix::io::read(connection, &mut *buffer) {
                Ok(0) => return Err(Broken::Ended),
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(_) => return Err(Broken::Reset),
            }
        };
        let Some(connection) = &mut self.socket else { return Ok(()) };
        let mut ended = false;
        let bytes = match &mut connection.tls {
            None => &buffer[..count],
            Some(tls) => {
                plain.clear();
                // Somebody between the two may have done that: nothing of it has been taken, and
                // what was said is said again over another connection.
                ended = tls.decrypt(&buffer[..count], plain).map_err(|_| Broken::Reset)?;
                &plain[..]
            }
        };
        self.heard = now;
        self.stalled = false;
        self.bytes_received += count as u64;
        let (from, incarnation) = (self.node, self.incarnation);
        let link = Link { from, incarnation, to: own, workers };
        let owed = self.lane.owed();
        self.lane.take(bytes, &link, messages)?;
        if owed == 0 {
            self.owed_since = now;
        }
        if self.lane.owes_much() {
            self.lane.push_empty();
        }
        if ended { Err(Broken::Ended) } else { Ok(()) }
    }

    /// Lets go of the connection. On a network the peer sees it reset: one that ended in good order
    /// is the sign of a process that has ended.
    pub(super) fn detach(&mut self) -> u64 {
        if self.is_far()
            && let Some(socket) = &self.socket
        {
            // Without it the peer asks whether this process lives, which it is told.
            let _ = sockopt::set_socket_linger(socket, Some(std::time::Duration::ZERO));
        }
        self.socket = None;
        (self.blocked, self.hung_up) = (false, None);
        self.lane.detach()
    }

    /// Goes on over a new connection, whose other end has everything before this position.
    pub(super) fn attach(
        &mut self,
        socket: Connection,
        peer_has: u64,
        now: Instant,
    ) -> Result<(), Broken> {
        self.lane.attach(peer_has)?;
        self.socket = Some(socket);
        (self.blocked, self.hung_up) = (false, None);
        (self.stalled, self.listening) = (false, now);
        Ok(())
    }
}

/// Wakes the peer of a connection through memory: it looks there when a byte comes. One that leaves
/// so many of them unread that the system takes no more does not keep the rules.
fn wake(socket: &OwnedFd) -> Result<(), Broken> {
    loop {
        match send(socket, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(_) => return Err(Broken::Reset),
        }
    }
}

/// How the peer's end of a socket was ended on which only wake-ups come; none if it was not: what
/// the system has told was of another that had its place before.
fn how_it_ended(socket: &OwnedFd) -> Option<Broken> {
    let mut rest = [0; 4_096];
    for _ in 0..WAKES_UNREAD {
        match rustix::io::read(socket, &mut rest) {
            Ok(0) => return Some(Broken::Ended),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return None,
            Err(_) => break,
        }
    }
    Some(Broken::Reset)
}

/// So many reads find the end behind all wake-ups that a system keeps.
const WAKES_UNREAD: usize = 256;
/// Most bytes that are encrypted before some are sent.
const PIECE: usize = 64 << 10;
/// How many pieces are encrypted before something else has its turn.
const PIECES: usize = 16;
