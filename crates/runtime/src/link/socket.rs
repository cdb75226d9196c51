//! One connection of a link: messages in frames, with checksums.
//!
//! # Owns
//! What one turn has to say is one frame, or a few when it is much.
//! # Guarantees
//! A message is handed out only if its frame arrived as it was sent. Input is kept only up to the
//! length of one frame, output up to the limit.

use std::os::fd::OwnedFd;

use codec::Writer;
use model::{Incarnation, NodeId};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, getsockname, send};
use stdx::Instant;
use wire::{Envelope, Link};

use super::Broken;
use super::frame::{self, HEADER, Packer};
use super::send_buffers::Waiting;

/// A connection on its thread.
#[derive(Debug)]
pub(super) struct LinkSocket {
    pub(super) socket: OwnedFd,
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) generation: u64,
    /// Its number in the link.
    pub(super) index: u8,
    /// Bytes to send; those before `sent` are gone.
    out: Writer,
    sent: usize,
    /// Where the frame begins that messages are added to.
    frame: Option<usize>,
    /// The beginning of a frame of which not all has come.
    input: Vec<u8>,
    /// Packs frames, if that is wanted.
    packer: Option<Box<Packer>>,
    /// The system takes no more for now.
    pub(super) blocked: bool,
    /// It is of no more use; the keeper knows.
    pub(super) broken: bool,
    /// Its share of what waits in the process.
    waiting: Waiting,
    /// When something came last, and was sent last.
    pub(super) heard: Instant,
    pub(super) spoke: Instant,
    pub(super) traffic: Traffic,
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

impl LinkSocket {
    pub(super) fn new(
        socket: OwnedFd,
        (node, incarnation, generation): (NodeId, Incarnation, u64),
        (index, protocol): (u8, u16),
        waiting: Waiting,
        now: Instant,
    ) -> Self {
        Self {
            socket,
            node,
            incarnation,
            generation,
            index,
            out: Writer::new(protocol),
            sent: 0,
            frame: None,
            input: Vec::new(),
            packer: None,
            blocked: false,
            broken: false,
            waiting,
            heard: now,
            spoke: now,
            traffic: Traffic::default(),
        }
    }

    /// Adds a message to what is to be sent. False if the peer's version has no such message.
    pub(super) fn push(&mut self, envelope: &Envelope) -> bool {
        if self.frame.is_some_and(|at| self.out.bytes().len() - at >= FRAME_FULL) {
            self.close_frame();
        }
        let at = self.open_frame();
        let before = self.out.bytes().len();
        if envelope.encode(&mut self.out).is_err() {
            if before == at + HEADER {
                self.out.bytes_mut().truncate(at);
                self.frame = None;
            }
            return false;
        }
        true
    }

    /// Bytes that wait to be sent.
    pub(super) fn pending(&self) -> usize {
        self.out.bytes().len() - self.sent
    }

    /// Counts what the system has not taken; how much that is.
    pub(super) fn count_waiting(&mut self) -> usize {
        let bytes = if self.blocked { self.pending() } else { 0 };
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
        self.frame = None;
        self.sent = 0;
        *self.out.bytes_mut() = Vec::new();
        self.waiting.set(0);
    }

    /// Whether there is something to send that the system has not refused.
    pub(super) fn wants_flush(&self) -> bool {
        !self.blocked && !self.broken && self.pending() > 0
    }

    /// Sends a sign of life.
    pub(super) fn keep_alive(&mut self) {
        if self.pending() == 0 {
            self.open_frame();
        }
    }

    fn open_frame(&mut self) -> usize {
        *self.frame.get_or_insert_with(|| {
            let at = self.out.bytes().len();
            self.out.put_bytes(&[0; HEADER]);
            at
        })
    }

    fn close_frame(&mut self) {
        if let Some(at) = self.frame.take() {
            frame::close(self.out.bytes_mut(), at, self.packer.as_deref_mut());
            self.traffic.frames_sent += 1;
        }
    }

    /// Packs what is sent from here on, if the peer can unpack it. Within a host that costs more
    /// than it saves.
    pub(super) fn pack(&mut self) {
        let address = getsockname(&self.socket);
        let far = address.is_ok_and(|address| address.address_family() != AddressFamily::UNIX);
        if far && self.out.version() >= 2 {
            self.packer = Some(Box::default());
        }
    }

    /// Sends what the system takes.
    pub(super) fn flush(&mut self, now: Instant) -> Result<(), Broken> {
        self.close_frame();
        while self.pending() > 0 {
            match send(&self.socket, &self.out.bytes()[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.sent += count;
                    self.traffic.bytes_sent += count as u64;
                    self.spoke = now;
                }
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    // What is gone needs no room.
                    if self.sent > KEEP_MAX {
                        self.out.bytes_mut().drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(_) => return Err(Broken::Reset),
            }
        }
        self.blocked = false;
        self.sent = 0;
        self.out.clear();
        self.out.bytes_mut().shrink_to(KEEP_MAX);
        Ok(())
    }

    /// Reads once and takes the messages of the frames that are complete.
    pub(super) fn read(
        &mut self,
        (own, workers): (NodeId, u8),
        buffer: &mut [u8],
        now: Instant,
        messages: &mut Vec<Envelope>,
    ) -> Result<(), Broken> {
        let count = match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => return Err(Broken::Ended),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(_) => return Err(Broken::Reset),
        };
        self.heard = now;
        self.traffic.bytes_received += count as u64;
        let (from, incarnation) = (self.node, self.incarnation);
        let link = Link { from, incarnation, to: own, workers };
        if self.input.is_empty() {
            let (rest, frames) =
                frame::take(&buffer[..count], self.out.version(), &link, messages)?;
            self.traffic.frames_received += frames;
            self.input.extend(rest);
        } else {
            self.input.extend(&buffer[..count]);
            let input = std::mem::take(&mut self.input);
            let (rest, frames) = frame::take(&input, self.out.version(), &link, messages)?;
            self.traffic.frames_received += frames;
            if rest.len() == input.len() {
                self.input = input;
            } else {
                self.input.extend(rest);
            }
        }
        Ok(())
    }
}

/// A frame that is so long gets no more messages.
const FRAME_FULL: usize = 256 << 10;
/// Memory that a buffer keeps when it is empty.
const KEEP_MAX: usize = 1 << 20;
