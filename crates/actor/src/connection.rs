//! Client connections as an actor sees them: bytes in, bytes out, never a socket.
//!
//! # Owns
//! What an actor is told of a connection ([`ConnectionEvent`]), and [`Connections`], the mailbox in
//! which it leaves what is to be done: output to send, reading to pause, TLS to begin, the end.
//! # Guarantees
//! 1. A connection is named once in the life of a process, by increasing numbers.
//! 2. Its first event is `Opened`, its last `Closed`; after [`Ctx::close`] there is none at all.
//! 3. What an actor writes during one turn of its host leaves in one write, from where it was
//!    encoded. Output does not grow without limit as long as its actor stops writing while
//!    [`Ctx::is_congested`], and goes on at `Writable`.
//! # Not here
//! Sockets, TLS, time-outs: the host's. Whoever has no connections, like the simulation, ignores
//! all of it.

use std::mem;

use stdx::HashMap;

use crate::shared::Ctx;

/// Output that waits to be sent makes a connection congested above this many bytes.
pub const OUTPUT_HIGH: usize = 256 << 10;

/// A congested connection is writable again at this many waiting bytes or fewer.
pub const OUTPUT_LOW: usize = 64 << 10;

/// Names a client connection: unique in the process, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Who is at the other end of a connection, and over what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPeer {
    /// How the peer came in.
    pub transport: Transport,
    /// Whether the host can encrypt this connection when asked to by [`Ctx::start_tls`].
    pub tls_offered: bool,
    /// What encrypts it already where the peer came in another way than by a socket of its own.
    pub encryption: Option<Encryption>,
}

/// How a connection reaches the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A Unix socket: the peer is a process of this machine, and nobody reads along.
    Unix {
        /// The name that the system has for the user whose process it is; none if it has none.
        user: Option<String>,
    },
    /// TCP.
    Tcp {
        /// The peer's address without port, as text: `192.0.2.1`, `2001:db8::1`. An IPv4 address
        /// that came in by IPv6 is written as IPv4.
        address: String,
        /// The peer's port.
        port: u16,
        /// The peer is this machine.
        loopback: bool,
    },
}

/// What has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEvent<'a> {
    /// It is there. Reading is on.
    Opened(ConnectionPeer),
    /// Bytes have come in; what is needed later has to be copied. After [`Ctx::start_tls`] they are
    /// what was encrypted.
    Received(&'a [u8]),
    /// The peer will send no more, but may still read: what has been asked can be answered.
    InputEnded,
    /// The connection was congested and is not any more.
    Writable,
    /// Encryption asked for with [`Ctx::start_tls`] is established.
    Secured(Encryption),
    /// The host lets its clients go: an actor ends the connection as soon as nothing of the client
    /// is left unfinished.
    Draining,
    /// The host is about to stop: an actor says goodbye and closes. What is still open after a
    /// moment is closed without asking.
    ShuttingDown,
    /// It is gone: nothing comes in or goes out any more, and the name is forgotten.
    Closed,
}

/// What encrypts a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Version of the protocol, `TLSv1.3`.
    pub protocol: &'static str,
    /// Name of the cipher suite, `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
    /// It goes on with the secrets of an earlier connection.
    pub is_resumed: bool,
    /// SHA-256 of the certificate that the peer was shown.
    pub fingerprint: [u8; 32],
    /// The certificate that the peer has shown: signed by an authority that the host trusts.
    pub peer: Option<PeerCertificate>,
}

/// Whom a certificate vouches for, and who says so, as OpenSSL writes names: `/C=SE/CN=name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    /// Whom it vouches for.
    pub subject: String,
    /// Who says so.
    pub issuer: String,
}

/// How an actor ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// When all that was written has been sent, or the peer does not take it for too long.
    AfterFlush,
    /// At once; what was written and not sent is lost.
    Now,
}

/// What the actor of a worker wants done with its connections: filled through [`Ctx`], emptied by
/// the host.
#[derive(Debug, Default)]
pub struct Connections {
    outlets: HashMap<ConnectionId, Outlet>,
    /// Those the host has to look at, each once, in the order in which they were touched.
    touched: Vec<ConnectionId>,
}

impl Connections {
    /// Host: a connection is there. Comes before its first event.
    pub fn open(&mut self, id: ConnectionId) {
        let before = self.outlets.insert(id, Outlet::default());
        assert!(before.is_none(), "{id:?} is used twice");
    }

    /// Host: a connection is gone. Comes before its last event.
    pub fn remove(&mut self, id: ConnectionId) {
        self.outlets.remove(&id);
    }

    /// Host: the actor's side of a connection, unless that is gone.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Outlet> {
        self.outlets.get_mut(&id)
    }

    /// Host: adds to `touched` the connections that the actor has done something with, and forgets
    /// that it has.
    pub fn drain_touched(&mut self, touched: &mut Vec<ConnectionId>) {
        for id in self.touched.drain(..) {
            if let Some(outlet) = self.outlets.get_mut(&id) {
                outlet.touched = false;
                touched.push(id);
            }
        }
    }

    /// Whether the actor has done something that the host has not looked at.
    pub fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// An open connection, which the host will look at.
    fn touch(&mut self, id: ConnectionId) -> Option<&mut Outlet> {
        let outlet = self.outlets.get_mut(&id).filter(|outlet| outlet.closing.is_none())?;
        if !mem::replace(&mut outlet.touched, true) {
            self.touched.push(id);
        }
        Some(outlet)
    }
}

/// The actor's side of one connection.
#[derive(Debug, Default)]
pub struct Outlet {
    /// Written by the actor; the first `sent` bytes have been taken by the host.
    output: Vec<u8>,
    sent: usize,
    /// Bytes that the host has taken and not sent yet.
    held: usize,
    paused: bool,
    closing: Option<Closing>,
    tls_input: Option<Vec<u8>>,
    touched: bool,
}

impl Outlet {
    /// What the host has not taken yet.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Host: the first `count` bytes of [`Outlet::output`] are taken.
    pub fn advance(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.output.len(), "taken more than was written");
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
            if self.output.capacity() > OUTPUT_KEPT {
                self.output = Vec::new();
            }
        } else if self.sent >= OUTPUT_LOW && self.sent * 2 >= self.output.len() {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Host: so many bytes it has taken are not sent yet.
    pub fn set_held(&mut self, held: usize) {
        self.held = held;
    }

    /// Bytes written and not sent.
    pub fn pending(&self) -> usize {
        self.output.len() - self.sent + self.held
    }

    /// Whether the actor wants nothing to be read.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// How the actor wants the connection to end, if it does.
    pub fn closing(&self) -> Option<Closing> {
        self.closing
    }

    /// Host: takes the wish for TLS, with what has been received of it already.
    pub fn take_start_tls(&mut self) -> Option<Vec<u8>> {
        self.tls_input.take()
    }
}

/// Effects on connections. A connection that is gone, or that the actor has closed, takes all of
/// them without effect.
impl Ctx<'_> {
    /// The end of a connection's output, to append to: what is encoded here is sent from here.
    /// None if the connection is gone or closed.
    pub fn output(&mut self, id: ConnectionId) -> Option<&mut Vec<u8>> {
        self.shared().connections.touch(id).map(|outlet| &mut outlet.output)
    }

    /// Sends `bytes`, after everything written before.
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) {
        if let Some(output) = self.output(id) {
            output.extend_from_slice(bytes);
        }
    }

    /// Sends what is in `buffer` and leaves it empty. When nothing else waits the buffers are
    /// exchanged, not copied.
    pub fn write_from(&mut self, id: ConnectionId, buffer: &mut Vec<u8>) {
        match self.output(id) {
            Some(output) if output.is_empty() => mem::swap(output, buffer),
            Some(output) => output.append(buffer),
            None => buffer.clear(),
        }
    }

    /// Bytes written to a connection and not sent yet.
    pub fn output_pending(&self, id: ConnectionId) -> usize {
        self.view().connections.outlets.get(&id).map_or(0, Outlet::pending)
    }

    /// Whether so much waits to be sent that the actor should stop writing until it is told
    /// [`ConnectionEvent::Writable`], which is then certain to come unless the connection ends.
    pub fn is_congested(&self, id: ConnectionId) -> bool {
        self.output_pending(id) > OUTPUT_HIGH
    }

    /// Stops reading: what the peer sends stays in the network until [`Ctx::resume`].
    pub fn pause(&mut self, id: ConnectionId) {
        if let Some(outlet) = self.shared().connections.touch(id) {
            outlet.paused = true;
        }
    }

    /// Goes on reading.
    pub fn resume(&mut self, id: ConnectionId) {
        if let Some(outlet) = self.shared().connections.touch(id) {
            outlet.paused = false;
        }
    }

    /// Encrypts the connection from here on; only where the peer's `tls_offered` says so, and when
    /// all that was written before has been sent.
    ///
    /// `received` is what came in after the client's wish to encrypt: its first bytes of TLS. They
    /// must not be taken for anything else, or a third party could put commands there.
    pub fn start_tls(&mut self, id: ConnectionId, received: &[u8]) {
        if let Some(outlet) = self.shared().connections.touch(id) {
            outlet.tls_input = Some(received.to_vec());
        }
    }

    /// Ends a connection. Nothing more is heard of it.
    pub fn close(&mut self, id: ConnectionId, closing: Closing) {
        if let Some(outlet) = self.shared().connections.touch(id) {
            outlet.closing = Some(closing);
        }
    }
}

/// An output buffer larger than this is given back when it is empty.
const OUTPUT_KEPT: usize = 8 << 10;

#[cfg(test)]
mod tests;
