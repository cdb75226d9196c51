//! A connection that carries a lane: a socket, and TLS where nodes have certificates.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::tls::LinkTls;

/// A connection of a link on which the first words have been exchanged.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) socket: OwnedFd,
    /// Nothing that it has taken in is left in it when a lane begins.
    pub(super) tls: Option<Box<LinkTls>>,
}

impl Connection {
    /// Whether it is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether something is encrypted and not sent.
    pub(super) fn holds(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
