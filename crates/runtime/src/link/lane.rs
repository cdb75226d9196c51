//! A lane of a link: a stream of frames that outlives the connections that carry it.
//!
//! # Owns
//! Both directions of a lane without its socket. Every byte of a direction has a position; frames
//! tell the peer up to which position its own stream has arrived. What the peer has not confirmed
//! is kept where it was written, and is sent again on the next connection.
//! # Guarantees
//! 1. Whatever connections end when, the peer's messages are handed out exactly once and in order:
//!    a partial frame is forgotten with its connection, a complete one is never asked for again.
//! 2. The checksum of a frame covers its position: one in the wrong place is [`Broken::Corrupt`].
//! 3. Memory: at most twice what the peer has not confirmed, and [`RECLAIM`] bytes, are kept. What
//!    that may be is limited by whoever pushes ([`Lane::waiting`]).
//! # Not here
//! Sockets and clocks (`socket`), who connects again and when (`keeper`).

use codec::Writer;
use wire::{Envelope, Link};

use super::Broken;
use super::frame::{self, HEADER, Packer};

/// Both directions of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    /// What the peer may not have, and what is to be sent.
    out: Writer,
    /// The position of its first byte.
    base: u64,
    /// So many of its bytes the peer has confirmed, and so many the system has taken.
    confirmed: usize,
    sent: usize,
    /// Position of the first byte that the system has never taken, on any connection.
    fresh: u64,
    /// Where the frame begins that messages are added to.
    frame: Option<usize>,
    /// Packs frames, if that is wanted.
    packer: Option<Box<Packer>>,
    /// The beginning of a frame of which not all has come.
    input: Vec<u8>,
    /// Position in the peer's stream behind the last frame that was taken.
    received: u64,
    /// Bytes of frames with messages that the peer has not been told of.
    owed: usize,
    pub(super) frames_sent: u64,
    pub(super) frames_received: u64,
}

impl Lane {
    /// A lane at its beginning.
    pub(super) fn new(protocol: u16) -> Self {
        Self {
            out: Writer::new(protocol),
            base: 0,
            confirmed: 0,
            sent: 0,
            fresh: 0,
            frame: None,
            packer: None,
            input: Vec::new(),
            received: 0,
            owed: 0,
            frames_sent: 0,
            frames_received: 0,
        }
    }

    /// Packs what is sent from here on, if the peer can unpack it.
    pub(super) fn pack(&mut self) {
        if self.out.version() >= 2 {
            self.packer = Some(Box::default());
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

    /// Adds an empty frame if nothing else is to be sent: it tells what has arrived.
    pub(super) fn push_empty(&mut self) {
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
            let place = (self.base + at as u64, self.received);
            frame::close(self.out.bytes_mut(), at, place, self.packer.as_deref_mut());
            self.owed = 0;
            self.frames_sent += 1;
        }
    }

    /// Bytes that the system has not taken.
    pub(super) fn pending(&self) -> usize {
        self.out.bytes().len() - self.sent
    }

    /// Bytes that no connection has taken yet. Those that one has taken, and that the peer has not
    /// confirmed, are as many as the buffers of the system hold, unless the peer does not keep to
    /// the rules: what is beyond that waits too.
    pub(super) fn waiting(&self) -> usize {
        let fresh = self.base + self.out.bytes().len() as u64 - self.fresh;
        (fresh as usize).max(self.unconfirmed().saturating_sub(SYSTEM_MAX))
    }

    /// Bytes that the peer has not confirmed.
    fn unconfirmed(&self) -> usize {
        self.out.bytes().len() - self.confirmed
    }

    /// Bytes with messages that have come and that the peer has not been told of.
    pub(super) fn owed(&self) -> usize {
        self.owed
    }

    /// Whether the peer should be told what has arrived although there is nothing else to say:
    /// otherwise it would keep much.
    pub(super) fn owes_much(&self) -> bool {
        self.owed >= OWED_MAX
    }

    /// What is to be sent next, in whole frames.
    pub(super) fn unsent(&mut self) -> &[u8] {
        self.close_frame();
        &self.out.bytes()[self.sent..]
    }

    /// The system has taken so many bytes of that.
    pub(super) fn note_sent(&mut self, count: usize) {
        self.sent += count;
        self.fresh = self.fresh.max(self.base + self.sent as u64);
    }

    /// Takes what has come over the present connection: hands out the messages of the frames that
    /// are complete, and forgets what the peer confirms.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        link: &Link,
        messages: &mut Vec<Envelope>,
    ) -> Result<(), Broken> {
        if self.input.is_empty() {
            let left = self.take_frames(bytes, link, messages)?;
            self.input.extend_from_slice(&bytes[bytes.len() - left..]);
        } else {
            self.input.extend_from_slice(bytes);
            let input = std::mem::take(&mut self.input);
            let left = self.take_frames(&input, link, messages)?;
            if left == input.len() {
                self.input = input;
            } else {
                self.input.extend_from_slice(&input[input.len() - left..]);
            }
        }
        Ok(())
    }

    /// Takes complete frames; how many bytes are left.
    fn take_frames(
        &mut self,
        bytes: &[u8],
        link: &Link,
        messages: &mut Vec<Envelope>,
    ) -> Result<usize, Broken> {
        let taken = frame::take(bytes, self.received, self.out.version(), link, messages)?;
        self.received += taken.bytes as u64;
        self.frames_received += taken.frames;
        self.owed += taken.with_messages;
        if taken.frames > 0 {
            self.confirm(taken.confirmed)?;
        }
        Ok(bytes.len() - taken.bytes)
    }

    /// The peer has everything before this position. An older word, as a frame that is sent again
    /// has it, changes nothing.
    fn confirm(&mut self, position: u64) -> Result<(), Broken> {
        if position > self.base + self.sent as u64 {
            return Err(Broken::Corrupt);
        }
        let Some(confirmed) = position.checked_sub(self.base) else { return Ok(()) };
        // It is no more than was sent, and that lies in memory.
        self.confirmed = self.confirmed.max(confirmed as usize);
        self.reclaim();
        Ok(())
    }

    /// Gives room back, if that costs little for what it gains.
    fn reclaim(&mut self) {
        let len = self.out.bytes().len();
        if self.confirmed == len {
            self.base += len as u64;
            (self.confirmed, self.sent) = (0, 0);
            self.out.clear();
            self.out.bytes_mut().shrink_to(KEEP_MAX);
        } else if self.confirmed >= RECLAIM && 2 * self.confirmed >= len {
            let gone = self.confirmed;
            self.out.bytes_mut().drain(..gone);
            self.base += gone as u64;
            (self.confirmed, self.sent) = (0, self.sent - gone);
            self.frame = self.frame.map(|at| at - gone);
        }
    }

    /// The connection is over: nothing more is taken from it. Up to which position the peer's
    /// stream has arrived.
    pub(super) fn detach(&mut self) -> u64 {
        self.input = Vec::new();
        self.received
    }

    /// A new connection carries the lane, whose other end has everything before this position.
    ///
    /// # Errors
    /// When the two do not fit together: the peer claims what was not sent to it, or lacks what it
    /// has confirmed.
    pub(super) fn attach(&mut self, peer_has: u64) -> Result<(), Broken> {
        self.close_frame();
        if peer_has < self.base + self.confirmed as u64 {
            return Err(Broken::Corrupt);
        }
        self.confirm(peer_has)?;
        // All in `out` may have been confirmed now.
        self.sent = self.confirmed;
        Ok(())
    }

    /// Nothing is sent any more, and what waits is lost.
    pub(super) fn give_up(&mut self) {
        self.base += self.out.bytes().len() as u64;
        self.fresh = self.base;
        (self.confirmed, self.sent, self.frame) = (0, 0, None);
        *self.out.bytes_mut() = Vec::new();
    }
}

/// A frame that is so long gets no more messages.
const FRAME_FULL: usize = 256 << 10;
/// Memory that a buffer keeps when it is empty.
const KEEP_MAX: usize = 1 << 20;
/// More than the buffers of the system hold for a connection at both of its ends.
const SYSTEM_MAX: usize = 64 << 20;
/// Fewer confirmed bytes than that are left where they are while others follow them.
const RECLAIM: usize = 16 << 10;
/// The peer is told of so many bytes although there is nothing else to say to it.
const OWED_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests;
