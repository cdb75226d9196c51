//! A connection that carries a lane: a socket, and TLS where nodes have certificates; within a host
//! memory that both ends share, for which the socket carries wake-ups.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::ring::Rings;
use crate::tls::LinkTls;

/// A connection of a link on which the first words have been exchanged.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) socket: OwnedFd,
    /// Nothing that it has taken in is left in it when a lane begins.
    pub(super) tls: Option<Box<LinkTls>>,
    /// What is said goes through them, if there are any.
    pub(super) rings: Option<Rings>,
}

impl Connection {
    /// Whether it is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether what is said goes through memory.
    pub(super) fn is_shared(&self) -> bool {
        self.rings.is_some()
    }

    /// Whether something is encrypted and not sent.
    pub(super) fn holds(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, tls: None, rings: None }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
