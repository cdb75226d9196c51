//! A connection on which the first words have not been exchanged yet.

use std::os::fd::OwnedFd;

use model::NodeId;
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sockopt};
use stdx::Instant;

use super::greeting::{HEADER, Kind, header};

/// A connection that is being made.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) socket: OwnedFd,
    pub(super) stage: Stage,
    pub(super) deadline: Instant,
    pub(super) transport: &'static str,
    input: Vec<u8>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The system is connecting.
    Connecting(Errand),
    /// The greeting is sent.
    AwaitingReply(Errand),
    /// Somebody has connected.
    AwaitingGreeting,
}

/// Why this process connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) node: NodeId,
    /// The attempt to make a link; zero only asks who is there.
    pub(super) attempt: u64,
    pub(super) socket: u8,
}

/// What has come of it.
#[derive(Debug)]
pub(super) enum Progress {
    /// Nothing more yet.
    Waiting,
    /// The connection stands: the greeting is to be sent.
    Connected,
    /// A message with its kind.
    Said(Kind, Vec<u8>),
    /// Nobody listens there.
    Refused,
    /// It does not work.
    Failed,
}

impl Pending {
    pub(super) fn new(
        socket: OwnedFd,
        stage: Stage,
        deadline: Instant,
        transport: &'static str,
    ) -> Self {
        Self { socket, stage, deadline, transport, input: Vec::new() }
    }

    /// Goes on, as the poller says that it can.
    pub(super) fn proceed(&mut self) -> Progress {
        match self.stage {
            Stage::Connecting(_) => match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) => Progress::Connected,
                Ok(Err(Errno::CONNREFUSED)) => Progress::Refused,
                _ => Progress::Failed,
            },
            Stage::AwaitingReply(_) | Stage::AwaitingGreeting => self.read(),
        }
    }

    /// Says something short. A connection that does not take it at once is not worth keeping.
    pub(super) fn say(&self, bytes: &[u8]) -> bool {
        send(&self.socket, bytes, SendFlags::NOSIGNAL) == Ok(bytes.len())
    }

    /// Reads a header and its body, and not a byte more: what follows is the link's.
    fn read(&mut self) -> Progress {
        loop {
            let wanted = match self.input.first_chunk::<HEADER>() {
                None => HEADER,
                Some(head) => match header(*head) {
                    Ok((kind, len)) if self.input.len() == HEADER + len => {
                        return Progress::Said(kind, self.input.split_off(HEADER));
                    }
                    Ok((_, len)) => HEADER + len,
                    Err(_) => return Progress::Failed,
                },
            };
            let before = self.input.len();
            self.input.resize(wanted, 0);
            let read = rustix::io::read(&self.socket, &mut self.input[before..]);
            self.input.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Progress::Failed,
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Progress::Waiting,
                Err(_) => return Progress::Failed,
            }
        }
    }
}
