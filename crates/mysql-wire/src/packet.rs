//! Packets: a length, a sequence number, and at most 16 MB - 1 of payload; longer payloads are
//! several packets.

use crate::frame::{FrameNumber, FrameReader};
use crate::reader::Malformed;

/// The longest payload of one packet; one that is exactly so long is followed by another.
const PAYLOAD_MAX: usize = 0xFF_FFFF;
const HEADER: usize = 4;
/// Consumed bytes are moved out of the way when there are more than this.
const CONSUMED_MAX: usize = 64 << 10;

/// Why no packet can be read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// Not shorter than `max_allowed_packet`: error 1153.
    TooLarge,
    /// A sequence number out of order: error 1156.
    OutOfOrder,
    /// A frame that is no zlib stream, or one of another length than it says: error 1157.
    Damaged,
}

impl From<Malformed> for PacketError {
    fn from(_: Malformed) -> Self {
        Self::OutOfOrder
    }
}

/// Both directions of a connection as packets: what has come in, and the sequence number both
/// share.
#[derive(Debug)]
pub struct Channel {
    input: Vec<u8>,
    consumed: usize,
    /// What has come in of the next payload.
    payload: Vec<u8>,
    part: Option<Part>,
    /// The number of the packet before, when that was a part of the same payload.
    before: Option<u8>,
    /// A command was to begin in the middle of a payload: nothing can be read any more.
    cut: bool,
    sequence: u8,
    /// Once the connection is compressed.
    frames: Option<Frames>,
    /// `max_allowed_packet`: as in MySQL, payloads are shorter than that.
    pub payload_max: usize,
}

/// What has come in of a compressed connection.
#[derive(Debug)]
struct Frames {
    reader: FrameReader,
    /// Frames that are not read yet.
    received: Vec<u8>,
    consumed: usize,
    /// There may be more to be had from them.
    is_behind: bool,
}

/// A packet of which not all has come in.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Bytes that are still to come.
    left: usize,
    /// No further packet belongs to the payload.
    is_last: bool,
    sequence: u8,
}

impl Channel {
    /// A connection without any packet yet.
    pub fn new(payload_max: usize) -> Self {
        Self {
            input: Vec::new(),
            consumed: 0,
            payload: Vec::new(),
            part: None,
            before: None,
            cut: false,
            sequence: 0,
            frames: None,
            payload_max,
        }
    }

    /// Takes in bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        match &mut self.frames {
            None => self.input.extend_from_slice(bytes),
            Some(frames) => {
                frames.received.extend_from_slice(bytes);
                frames.is_behind = true;
            }
        }
    }

    /// What comes in from now on is compressed, and so is what was fed and not read yet.
    pub fn begin_compression(&mut self, number: FrameNumber) {
        let received = self.take_rest();
        let is_behind = !received.is_empty();
        let reader = FrameReader::new(number);
        self.frames = Some(Frames { reader, received, consumed: 0, is_behind });
    }

    /// Whether more is to be had from what was fed, so that [`Self::next_packet`] should be asked
    /// again: it inflates no more than a piece at once.
    pub fn is_behind(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames.is_behind)
    }

    /// Whether some of a payload has come in, and not all of it.
    pub fn is_within_payload(&self) -> bool {
        self.part.is_some()
            || self.before.is_some()
            || self.consumed < self.input.len()
            || self.frames.as_ref().is_some_and(|frames| frames.consumed < frames.received.len())
    }

    /// Takes back what has been fed and belongs to no packet: the first bytes of TLS.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.input.split_off(self.consumed);
        self.input.clear();
        self.consumed = 0;
        rest
    }

    /// The next packet is a command: numbers begin with zero again.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
        // A command that has come with the one before goes on with its frame.
        if let Some(frames) = &self.frames
            && frames.reader.is_between_frames()
            && self.input.len() == self.consumed
        {
            frames.reader.restart();
        }
        self.cut |= self.part.is_some() || self.before.is_some();
    }

    /// The next payload, when all of it has come in. What has come of it is taken from the input
    /// at once: a payload of many megabytes is copied piece by piece.
    pub fn next_packet(&mut self) -> Result<Option<Vec<u8>>, PacketError> {
        if self.cut {
            return Err(PacketError::OutOfOrder);
        }
        let packet = self.next_of_input()?;
        if packet.is_some() || !self.is_behind() {
            return Ok(packet);
        }
        self.unpack()?;
        self.next_of_input()
    }

    /// Inflates a piece.
    fn unpack(&mut self) -> Result<(), PacketError> {
        let Some(frames) = &mut self.frames else { return Ok(()) };
        let there = &frames.received[frames.consumed..];
        let (taken, is_behind) = frames.reader.read(there, &mut self.input)?;
        frames.consumed += taken;
        frames.is_behind = is_behind;
        if frames.consumed == frames.received.len() {
            frames.received.clear();
            frames.consumed = 0;
        } else if frames.consumed > CONSUMED_MAX {
            frames.received.drain(..frames.consumed);
            frames.consumed = 0;
        }
        Ok(())
    }

    fn next_of_input(&mut self) -> Result<Option<Vec<u8>>, PacketError> {
        while let Some(part) = self.part()? {
            let there = &self.input[self.consumed..];
            let taken = there.len().min(part.left);
            self.payload.extend_from_slice(&there[..taken]);
            self.consumed += taken;
            if taken < part.left {
                self.part = Some(Part { left: part.left - taken, ..part });
                break;
            }
            self.part = None;
            if part.is_last {
                // As MySQL's server does, and some clients look at, packets go on with the
                // numbers of frames.
                let frames = self.frames.as_ref().map(|frames| frames.reader.next_number());
                self.sequence = frames.unwrap_or(part.sequence.wrapping_add(1));
                self.free_input();
                return Ok(Some(std::mem::take(&mut self.payload)));
            }
            self.before = Some(part.sequence);
        }
        self.free_input();
        Ok(None)
    }

    /// The packet that is being taken in; none before its header has come.
    fn part(&mut self) -> Result<Option<Part>, PacketError> {
        if let Some(part) = self.part {
            return Ok(Some(part));
        }
        let header = self.input.get(self.consumed..self.consumed + HEADER);
        let Some(&[a, b, c, sequence]) = header else { return Ok(None) };
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let expected = self.before.map_or(self.sequence, |before| before.wrapping_add(1));
        // The frames have numbers of their own; those within are whatever the client made them.
        if sequence != expected && self.frames.is_none() {
            return Err(PacketError::OutOfOrder);
        }
        if self.payload.len() + length >= self.payload_max {
            // The refusal answers this packet, so it has the next number.
            self.sequence = sequence.wrapping_add(1);
            return Err(PacketError::TooLarge);
        }
        self.consumed += HEADER;
        self.before = None;
        Ok(Some(Part { left: length, is_last: length < PAYLOAD_MAX, sequence }))
    }

    /// Moves consumed input out of the way.
    fn free_input(&mut self) {
        if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
        } else if self.consumed > CONSUMED_MAX {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    /// Appends a packet whose payload `body` writes.
    pub fn write(&mut self, output: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let start = output.len();
        output.extend_from_slice(&[0; HEADER]);
        body(output);
        let size = output.len() - start - HEADER;
        if size < PAYLOAD_MAX {
            self.header(&mut output[start..start + HEADER], size);
        } else {
            self.split(output, start);
        }
    }

    /// Appends packets that were written before, with the numbers that are next now. Each of them
    /// is a payload of its own, shorter than 16 MB.
    pub fn write_again(&mut self, output: &mut Vec<u8>, packets: &[u8]) {
        let mut at = output.len();
        output.extend_from_slice(packets);
        while let Some([a, b, c, number]) = output.get_mut(at..at + HEADER) {
            *number = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            at += HEADER + u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        }
    }

    fn header(&mut self, header: &mut [u8], size: usize) {
        header[..3].copy_from_slice(&(size as u32).to_le_bytes()[..3]);
        header[3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Cuts a payload of 16 MB - 1 or more into packets; the last one is shorter, perhaps empty.
    fn split(&mut self, output: &mut Vec<u8>, start: usize) {
        let size = output.len() - start - HEADER;
        let parts = size / PAYLOAD_MAX + 1;
        output.resize(output.len() + (parts - 1) * HEADER, 0);
        // From the last part on, so that each is moved once.
        for part in (1..parts).rev() {
            let from = start + HEADER + part * PAYLOAD_MAX;
            let length = (size - part * PAYLOAD_MAX).min(PAYLOAD_MAX);
            output.copy_within(from..from + length, from + part * HEADER);
        }
        for part in 0..parts {
            let at = start + part * (HEADER + PAYLOAD_MAX);
            let length = (size - part * PAYLOAD_MAX).min(PAYLOAD_MAX);
            self.header(&mut output[at..at + HEADER], length);
        }
    }
}
