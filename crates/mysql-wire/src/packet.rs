//! Packets: a length, a sequence number, and at most 16 MB - 1 of payload; longer payloads are
//! several packets.

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
    sequence: u8,
    /// `max_allowed_packet`: as in MySQL, payloads are shorter than that.
    pub payload_max: usize,
}

impl Channel {
    /// A connection without any packet yet.
    pub fn new(payload_max: usize) -> Self {
        Self { input: Vec::new(), consumed: 0, sequence: 0, payload_max }
    }

    /// Takes in bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
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
    }

    /// The next payload, when all of it has come in.
    pub fn next_packet(&mut self) -> Result<Option<Vec<u8>>, PacketError> {
        let (mut at, mut size, mut sequence, mut parts) = (self.consumed, 0, self.sequence, 0);
        loop {
            let Some(header) = self.input.get(at..at + HEADER) else { return Ok(None) };
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            if header[3] != sequence {
                return Err(PacketError::OutOfOrder);
            }
            size += length;
            parts += 1;
            sequence = sequence.wrapping_add(1);
            if size >= self.payload_max {
                // The refusal answers this packet, so it has the next number.
                self.sequence = sequence;
                return Err(PacketError::TooLarge);
            }
            at += HEADER + length;
            if self.input.len() < at {
                return Ok(None);
            }
            if length < PAYLOAD_MAX {
                break;
            }
        }
        let mut payload = Vec::with_capacity(size);
        let mut from = self.consumed;
        for _ in 0..parts {
            let left = size - payload.len();
            let length = left.min(PAYLOAD_MAX);
            payload.extend_from_slice(&self.input[from + HEADER..from + HEADER + length]);
            from += HEADER + length;
        }
        self.consumed = at;
        self.sequence = sequence;
        if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
        } else if self.consumed > CONSUMED_MAX {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        Ok(Some(payload))
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
        let payload = output.split_off(start + HEADER);
        output.truncate(start);
        let mut rest = payload.as_slice();
        loop {
            let (part, after) = rest.split_at(rest.len().min(PAYLOAD_MAX));
            let mut header = [0; HEADER];
            self.header(&mut header, part.len());
            output.extend_from_slice(&header);
            output.extend_from_slice(part);
            rest = after;
            if part.len() < PAYLOAD_MAX {
                return;
            }
        }
    }
}
