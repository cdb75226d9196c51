//! One socket with its encryption, and what the poller waits for on it.

use std::os::fd::OwnedFd;

use actor::{ConnectionId, Encryption, Outlet};
use rustix::io::Errno;
use rustix::net::Shutdown;
use stdx::Instant;

use crate::poller::{Interest, Poller};
use crate::tls::TlsFilter;

/// Most bytes that are encrypted before some are sent.
const PIECE: usize = 64 << 10;
/// How many pieces a turn sends at most.
const PIECES: usize = 8;

/// A client connection.
#[derive(Debug)]
pub(super) struct Connection {
    id: ConnectionId,
    socket: OwnedFd,
    tls: Option<Box<Encrypter>>,
    phase: Phase,
    input_ended: bool,
    /// The socket took less than there was.
    blocked: bool,
    /// What the poller waits for; none when it does not know the socket.
    registered: Option<Interest>,
    paused: bool,
    /// More was waiting than should, and the actor has not been told that it is less now.
    pub(super) congested: bool,
    /// When it is given up.
    pub(super) deadline: Option<Instant>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The actor uses it.
    Open,
    /// The actor has closed it, and something is still to be sent.
    Flushing,
    /// All is sent, and the peer has not closed its side yet.
    Draining,
}

/// An encrypted connection's state.
#[derive(Debug)]
struct Encrypter {
    filter: TlsFilter,
    /// Encrypted and not sent.
    wire: Vec<u8>,
    /// Come in before the filter was there. Nothing more is read as long as there is some.
    unread: Vec<u8>,
}

/// What a read has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Nothing now.
    Nothing,
    /// So many bytes in the buffer; or, when they are encrypted, what they say beside it.
    Bytes {
        count: usize,
        encrypted: bool,
        secured: Option<Box<Encryption>>,
        /// TLS says that nothing follows.
        ended: bool,
    },
    /// The peer sends no more.
    Ended,
    /// The connection does not work any more.
    Broken,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, socket: OwnedFd) -> Self {
        Self {
            id,
            socket,
            tls: None,
            phase: Phase::Open,
            input_ended: false,
            blocked: false,
            registered: None,
            paused: false,
            congested: false,
            deadline: None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub(super) fn input_ended(&self) -> bool {
        self.input_ended
    }

    pub(super) fn end_input(&mut self) {
        self.input_ended = true;
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether input is to be read. Of a connection that is ending it is thrown away.
    pub(super) fn wants_input(&self) -> bool {
        let has_unread = self.tls.as_ref().is_some_and(|tls| !tls.unread.is_empty());
        !self.input_ended && !has_unread && (!self.paused || self.phase != Phase::Open)
    }

    /// Whether what comes in is to be computed with for long.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.filter.is_handshaking())
    }

    /// What has come in before the connection was encrypted; it is read on from here.
    pub(super) fn take_unread(&mut self) -> Vec<u8> {
        self.tls.as_mut().map(|tls| std::mem::take(&mut tls.unread)).unwrap_or_default()
    }

    /// Makes the socket known to the poller.
    pub(super) fn register(&mut self, poller: &Poller) -> std::io::Result<()> {
        let interest = self.interest();
        poller.add(&self.socket, self.id.0, interest)?;
        self.registered = Some(interest);
        Ok(())
    }

    /// Keeps the poller from telling more of the socket, until something is wanted from it again.
    pub(super) fn unregister(&mut self, poller: &Poller) {
        if self.registered.take().is_some() {
            // It can only fail for a socket that is not there.
            let _ = poller.remove(&self.socket);
        }
    }

    /// Tells the poller what is wanted now.
    pub(super) fn adjust(&mut self, poller: &Poller, paused: bool) {
        self.paused = paused;
        let interest = self.interest();
        match self.registered {
            Some(registered) if registered == interest => {}
            Some(_) => {
                if poller.modify(&self.socket, self.id.0, interest).is_ok() {
                    self.registered = Some(interest);
                }
            }
            None if interest == Interest::default() => {}
            None => {
                // Without room in the system it stays silent until something else is wanted.
                let _ = self.register(poller);
            }
        }
    }

    fn interest(&self) -> Interest {
        Interest { read: self.wants_input(), write: self.blocked }
    }

    /// Reads what is there, at most a buffer full.
    pub(super) fn read(&mut self, buffer: &mut [u8], plain: &mut Vec<u8>) -> Input {
        match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => Input::Ended,
            Ok(count) if self.tls.is_some() => self.decrypt(&buffer[..count], plain),
            Ok(count) => Input::Bytes { count, encrypted: false, secured: None, ended: false },
            Err(Errno::AGAIN | Errno::INTR) => Input::Nothing,
            Err(_) => Input::Broken,
        }
    }

    /// Takes encrypted bytes.
    pub(super) fn decrypt(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> Input {
        let encryption = self.tls.as_mut().expect("only encrypted connections decrypt");
        match encryption.filter.decrypt(wire, plain) {
            Ok(decrypted) => Input::Bytes {
                count: plain.len(),
                encrypted: true,
                secured: decrypted.secured,
                ended: decrypted.ended,
            },
            Err(_) => Input::Broken,
        }
    }

    /// Encrypts from here on; `unread` are the first bytes of it that have come.
    pub(super) fn start_tls(&mut self, filter: TlsFilter, unread: Vec<u8>) {
        self.tls = Some(Box::new(Encrypter { filter, wire: Vec::new(), unread }));
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self, outlet: &mut Outlet) -> Result<(), Errno> {
        let Some(encryption) = &mut self.tls else {
            let taken = write(&self.socket, outlet.output())?;
            outlet.advance(taken);
            self.blocked = !outlet.output().is_empty();
            return Ok(());
        };
        let socket = &self.socket;
        let taken = encryption.send(outlet.output(), self.blocked, |wire| write(socket, wire))?;
        outlet.advance(taken);
        outlet.set_held(encryption.wire.len());
        self.blocked = outlet.pending() > 0;
        Ok(())
    }

    /// Tells the peer that nothing follows.
    pub(super) fn finish_sending(&mut self) -> Result<(), Errno> {
        if let Some(encryption) = &mut self.tls {
            encryption.filter.end();
            encryption.filter.encrypt(&[], &mut encryption.wire).map_err(|_| Errno::PIPE)?;
            // A peer that has no room for this has stopped listening.
            write(&self.socket, &encryption.wire)?;
        }
        rustix::net::shutdown(&self.socket, Shutdown::Write)
    }
}

impl Encrypter {
    /// Encrypts output and sends what `write` takes; how much of the output is not needed any more.
    fn send(
        &mut self,
        output: &[u8],
        blocked: bool,
        mut write: impl FnMut(&[u8]) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let mut taken = 0;
        for _ in 0..PIECES {
            if self.wire.is_empty() || !blocked {
                // A piece at a time: what the socket does not take is moved after each write.
                let rest = &output[taken..];
                let piece = &rest[..rest.len().min(PIECE)];
                self.filter.encrypt(piece, &mut self.wire).map_err(|_| Errno::PIPE)?;
                taken += piece.len();
            }
            let sent = write(&self.wire)?;
            self.wire.drain(..sent);
            if !self.wire.is_empty() || taken == output.len() {
                break;
            }
        }
        if self.wire.is_empty() {
            self.wire = Vec::new();
        }
        Ok(taken)
    }
}

/// Writes what the socket takes now.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match rustix::io::write(socket, bytes) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::made;

    #[test]
    fn a_large_output_is_encrypted_piece_by_piece() {
        let filter = made().begin().expect("a server's end");
        let mut encrypter = Encrypter { filter, wire: Vec::new(), unread: Vec::new() };
        let output = vec![0; 10 * PIECES * PIECE];
        // As long as the handshake lasts nothing comes out.
        let taken = encrypter.send(&output, false, |wire| Ok(wire.len()));
        assert_eq!(taken, Ok(PIECES * PIECE));
        // What has been encrypted waits before more is.
        encrypter.wire = vec![0; 100];
        assert_eq!(encrypter.send(&output, true, |_| Ok(40)), Ok(0));
        assert_eq!(encrypter.wire.len(), 60);
        assert_eq!(encrypter.send(&output[..10], true, |wire| Ok(wire.len())), Ok(10));
        assert!(encrypter.wire.is_empty());
    }
}
