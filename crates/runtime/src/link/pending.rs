//! A connection on which the first words have not been exchanged yet.
//!
//! # Guarantees
//! 1. Nothing is read that is not the first words, nor what TLS needs before them: what follows is
//!    the link's. Of TLS one record is read at a time.
//! 2. A call does little: a handshake of TLS takes several.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use model::NodeId;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, sockopt};
use stdx::Instant;

use super::address::UNIX;
use super::connection::Connection;
use super::greeting::{HEADER, Kind, header};
use super::handing::{receive_with, send_with};
use super::ring::{Rings, settle};
use crate::tls::{HANDSHAKE, LinkTls, NO_TLS, RECORD_HEAD, RECORD_MAX, Shown, Trouble};

/// A connection that is being made.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) socket: OwnedFd,
    pub(super) stage: Stage,
    pub(super) deadline: Instant,
    pub(super) transport: &'static str,
    /// Where it comes from, over TCP.
    pub(super) address: Option<IpAddr>,
    /// Who is at the other end, once it has proved that.
    pub(super) shown: Option<Shown>,
    /// Memory that this process has offered for it; that the peer has offered; what is used.
    offered: Option<(Rings, OwnedFd)>,
    pub(super) given: Option<OwnedFd>,
    pub(super) rings: Option<Rings>,
    tls: Option<Box<LinkTls>>,
    input: Vec<u8>,
    /// What encrypted input says.
    plain: Vec<u8>,
    /// The first byte has been looked at.
    is_known: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The system is connecting.
    Connecting(Errand),
    /// Both ends are agreeing on keys.
    Securing(Errand),
    /// The greeting is sent.
    AwaitingReply(Errand),
    /// Somebody has connected.
    AwaitingGreeting,
    /// It was refused, and is to have the time to hear that: a connection that is closed with input
    /// that was not read takes back what was said.
    Leaving,
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
    /// The connection stands: the greeting is to be sent, or TLS to begin.
    Connected,
    /// Whoever has connected begins with TLS.
    Encrypts,
    /// Both ends know each other; who is there is in `shown`.
    Secured,
    /// They do not come together.
    Troubled(Trouble),
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
        Self {
            socket,
            stage,
            deadline,
            transport,
            address: None,
            shown: None,
            offered: None,
            given: None,
            rings: None,
            tls: None,
            input: Vec::new(),
            plain: Vec::new(),
            is_known: transport == UNIX,
        }
    }

    /// Why this process has connected; none if somebody else has.
    pub(super) fn errand(&self) -> Option<Errand> {
        match self.stage {
            Stage::Connecting(errand) | Stage::Securing(errand) | Stage::AwaitingReply(errand) => {
                Some(errand)
            }
            Stage::AwaitingGreeting | Stage::Leaving => None,
        }
    }

    /// Whether it is encrypted, or about to be.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Encrypts from here on. False if the other end takes nothing.
    pub(super) fn secure(&mut self, tls: LinkTls) -> bool {
        self.tls = Some(Box::new(tls));
        self.is_known = true;
        self.send_held()
    }

    /// Goes on, as the poller says that it can.
    pub(super) fn proceed(&mut self) -> Progress {
        match self.stage {
            Stage::Connecting(_) => match sockopt::socket_error(&self.socket) {
                Ok(Ok(())) => Progress::Connected,
                Ok(Err(Errno::CONNREFUSED)) => Progress::Refused,
                _ => Progress::Failed,
            },
            Stage::AwaitingGreeting if !self.is_known => self.look(),
            Stage::Leaving => self.forget_input(),
            Stage::Securing(_) | Stage::AwaitingReply(_) | Stage::AwaitingGreeting => {
                match self.tls.take() {
                    Some(mut tls) => {
                        let progress = self.read_records(&mut tls);
                        self.tls = Some(tls);
                        progress
                    }
                    None => self.read(),
                }
            }
        }
    }

    /// Says something short. A connection that does not take it at once is not worth keeping.
    pub(super) fn say(&mut self, bytes: &[u8]) -> bool {
        match &mut self.tls {
            None => send(&self.socket, bytes, SendFlags::NOSIGNAL) == Ok(bytes.len()),
            Some(tls) => {
                tls.encrypt(bytes);
                self.send_held()
            }
        }
    }

    /// Says something short over a Unix socket, and offers memory with it; whether all was taken.
    pub(super) fn say_and_offer(
        &mut self,
        bytes: &[u8],
        rings: Rings,
        file: OwnedFd,
    ) -> io::Result<bool> {
        let sent = send_with(&self.socket, bytes, &file)?;
        self.offered = Some((rings, file));
        Ok(sent == bytes.len())
    }

    /// The peer has said whether it uses the memory that it was offered. False if that cannot be.
    pub(super) fn end_offer(&mut self, used: bool) -> bool {
        match (self.offered.take(), used) {
            (Some((rings, file)), true) => {
                self.rings = settle(&file).is_ok().then_some(rings);
                self.rings.is_some()
            }
            (None, true) => false,
            (_, false) => true,
        }
    }

    /// Sends what TLS has to say.
    fn send_held(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return true };
        while tls.wants_write() {
            if tls.send(&self.socket).is_err() {
                return false;
            }
        }
        true
    }

    /// Tells a peer that begins with TLS that there is none here.
    pub(super) fn say_no_tls(&self) {
        let _ = send(&self.socket, &NO_TLS, SendFlags::NOSIGNAL);
    }

    /// Nothing more is said: what the peer still says is thrown away until it has heard the last
    /// words, or its time is over.
    pub(super) fn leave(&mut self, deadline: Instant) {
        // Its alert.
        self.send_held();
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        (self.stage, self.deadline) = (Stage::Leaving, deadline);
    }

    fn forget_input(&self) -> Progress {
        match rustix::io::read(&self.socket, &mut [0; 4_096]) {
            Ok(0) => Progress::Failed,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Progress::Waiting,
            Err(_) => Progress::Failed,
        }
    }

    /// Looks whether whoever has connected begins with TLS.
    fn look(&mut self) -> Progress {
        let mut first = [0];
        match recv(&self.socket, &mut first, RecvFlags::PEEK) {
            Ok((_, 0)) => Progress::Failed,
            Ok(_) if first == [HANDSHAKE] => Progress::Encrypts,
            Ok(_) => {
                self.is_known = true;
                self.read()
            }
            Err(Errno::AGAIN | Errno::INTR) => Progress::Waiting,
            Err(_) => Progress::Failed,
        }
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
            if let Some(progress) = self.fill(wanted) {
                return progress;
            }
        }
    }

    /// Reads until there are so many bytes of input; what to say if there are not.
    fn fill(&mut self, wanted: usize) -> Option<Progress> {
        let before = self.input.len();
        self.input.resize(wanted, 0);
        let into = &mut self.input[before..];
        let read = if self.stage == Stage::AwaitingGreeting && self.transport == UNIX {
            receive_with(&self.socket, into).map(|(count, file)| {
                self.given = self.given.take().or(file);
                count
            })
        } else {
            rustix::io::read(&self.socket, into)
        };
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Some(Progress::Failed),
            Ok(_) => None,
            Err(Errno::AGAIN | Errno::INTR) => Some(Progress::Waiting),
            Err(_) => Some(Progress::Failed),
        }
    }

    /// Reads records of TLS, some at a time, and not a byte more than the one that ends a message.
    fn read_records(&mut self, tls: &mut LinkTls) -> Progress {
        let mut records = 0;
        while records < RECORDS_PER_TURN {
            let wanted = match self.input.first_chunk::<RECORD_HEAD>() {
                None => RECORD_HEAD,
                Some(&[_, _, _, high, low]) => {
                    RECORD_HEAD + usize::from(u16::from_be_bytes([high, low]))
                }
            };
            if wanted > RECORD_HEAD + RECORD_MAX {
                return Progress::Failed;
            }
            if self.input.len() < wanted {
                match self.fill(wanted) {
                    Some(progress) => return progress,
                    None => continue,
                }
            }
            records += 1;
            let was_handshaking = tls.is_handshaking();
            let record = std::mem::take(&mut self.input);
            let ended = match tls.decrypt(&record, &mut self.plain) {
                Ok(ended) => ended,
                Err(trouble) => return Progress::Troubled(trouble),
            };
            while tls.wants_write() {
                if tls.send(&self.socket).is_err() {
                    return Progress::Failed;
                }
            }
            if was_handshaking && !tls.is_handshaking() {
                self.shown = tls.shown();
                return Progress::Secured;
            }
            match self.message() {
                Progress::Waiting if ended => return Progress::Failed,
                Progress::Waiting => {}
                progress => return progress,
            }
        }
        Progress::Waiting
    }

    /// The message that encrypted input has brought, which must be all of it.
    fn message(&mut self) -> Progress {
        let Some(head) = self.plain.first_chunk::<HEADER>() else { return Progress::Waiting };
        match header(*head) {
            Ok((kind, len)) if self.plain.len() == HEADER + len => {
                Progress::Said(kind, std::mem::take(&mut self.plain).split_off(HEADER))
            }
            Ok((_, len)) if self.plain.len() < HEADER + len => Progress::Waiting,
            _ => Progress::Failed,
        }
    }
}

impl From<Pending> for Connection {
    fn from(pending: Pending) -> Self {
        Connection { socket: pending.socket, tls: pending.tls, rings: pending.rings }
    }
}

/// Records that are looked at before others have their turn; two or three are a handshake.
const RECORDS_PER_TURN: usize = 8;
