//! Frames: what a connection is cut into that is compressed. A frame has a length, a number and the
//! length of what is in it, and then a zlib stream (RFC 1950), or the bytes as they are. Packets
//! begin and end anywhere in frames.
//!
//! # Guarantees
//! Bytes are inflated a piece at a time, as they are asked for: what a client sends takes no more
//! memory than its packets may, however much comes out of it. The end of a frame is handed out
//! after its checksum has been looked at. A connection that waits holds no memory of a compressor.
//! # Not here
//! Packets (`packet`), zstd.

use std::cell::Cell;
use std::rc::Rc;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use crate::packet::PacketError;

const HEADER: usize = 7;
const PACKET_HEADER: usize = 4;
/// Bytes that are inflated or deflated at once. A frame holds as many packets as it has room for;
/// a longer packet has a frame of its own, as some clients look for the rest of a packet in one
/// more frame at most.
const PIECE: usize = 64 << 10;
/// The longest frame there can be.
const FRAME_MAX: usize = 0xFF_FFFF;
/// As in MySQL, fewer bytes are not worth it.
const COMPRESSED_MIN: usize = 50;
/// zlib's fastest. MySQL takes 6: a few percent fewer bytes for three times the work.
pub const LEVEL: i32 = 1;

/// The number of the next frame, whichever side sends it.
#[derive(Clone, Debug, Default)]
pub struct FrameNumber(Rc<Cell<u8>>);

impl FrameNumber {
    /// The next frame is the first of a command.
    pub(crate) fn restart(&self) {
        self.0.set(0);
    }

    pub(crate) fn next(&self) -> u8 {
        self.0.get()
    }

    fn take(&self) -> u8 {
        let number = self.0.get();
        self.0.set(number.wrapping_add(1));
        number
    }
}

/// What comes in.
pub(crate) struct FrameReader {
    number: FrameNumber,
    frame: Option<Frame>,
}

/// A frame that is being read.
struct Frame {
    /// Bytes of the connection that are still to come.
    left: usize,
    /// Bytes that are still to come out; of a frame that is not compressed, those of `left`.
    inside: usize,
    /// None for bytes as they are.
    stream: Option<Stream>,
}

struct Stream {
    state: Box<InflateState>,
    /// The last bytes, until the checksum is known.
    held: Vec<u8>,
}

impl std::fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let left = self.frame.as_ref().map(|frame| (frame.left, frame.inside));
        f.debug_struct("FrameReader").field("number", &self.number).field("left", &left).finish()
    }
}

impl FrameReader {
    pub(crate) fn new(number: FrameNumber) -> Self {
        Self { number, frame: None }
    }

    /// Whether the last frame has been read to its end.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.frame.is_none()
    }

    /// The number of the next frame, whoever sends it.
    pub(crate) fn next_number(&self) -> u8 {
        self.number.next()
    }

    /// The first frame of a command is the next to be read.
    pub(crate) fn restart(&self) {
        self.number.restart();
    }

    /// Takes bytes of the connection, and appends what was in them, a piece at most. Gives how many
    /// were taken, and whether there is more to be had from what has come.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, bool), PacketError> {
        let mut taken = 0;
        let frame = match &mut self.frame {
            Some(frame) => frame,
            None => {
                let Some(&[a, b, c, number, d, e, f]) = input.first_chunk::<HEADER>() else {
                    return Ok((0, false));
                };
                if number != self.number.take() {
                    return Err(PacketError::OutOfOrder);
                }
                taken = HEADER;
                let left = u32::from_le_bytes([a, b, c, 0]) as usize;
                let inside = u32::from_le_bytes([d, e, f, 0]) as usize;
                self.frame.insert(Frame::begin(left, inside))
            }
        };
        let there = &input[taken..];
        let there = &there[..there.len().min(frame.left)];
        let before = output.len();
        let used = frame.read(there, output)?;
        let moved = used > 0 || output.len() > before || frame.is_over();
        if frame.is_over() {
            self.frame = None;
        }
        Ok((taken + used, moved))
    }
}

impl Frame {
    fn begin(left: usize, inside: usize) -> Self {
        if inside == 0 {
            return Self { left, inside: left, stream: None };
        }
        let state = InflateState::new_boxed(DataFormat::Zlib);
        Self { left, inside, stream: Some(Stream { state, held: Vec::new() }) }
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.inside == 0
    }

    fn read(&mut self, there: &[u8], output: &mut Vec<u8>) -> Result<usize, PacketError> {
        let Some(stream) = &mut self.stream else {
            let taken = there.len().min(PIECE);
            output.extend_from_slice(&there[..taken]);
            self.left -= taken;
            self.inside -= taken;
            return Ok(taken);
        };
        let room = self.inside - stream.held.len();
        // One byte more would show that there is more than was said.
        let mut piece = vec![0; room.min(PIECE - 1) + 1];
        let result = inflate(&mut stream.state, there, &mut piece, MZFlush::None);
        let (taken, made) = (result.bytes_consumed, result.bytes_written);
        self.left -= taken;
        let is_at_end = match result.status {
            Ok(MZStatus::StreamEnd) => true,
            Ok(MZStatus::Ok) => false,
            // More has to come before anything else does.
            Err(MZError::Buf) if self.left > 0 && taken == there.len() => false,
            _ => return Err(PacketError::Damaged),
        };
        if made > room {
            return Err(PacketError::Damaged);
        }
        if made == room {
            stream.held.extend_from_slice(&piece[..made]);
        } else {
            output.extend_from_slice(&piece[..made]);
            self.inside -= made;
        }
        if is_at_end {
            if stream.held.len() != self.inside || self.left > 0 {
                return Err(PacketError::Damaged);
            }
            output.append(&mut stream.held);
            self.inside = 0;
        }
        Ok(taken)
    }
}

/// What goes out.
#[derive(Clone, Debug)]
pub struct FrameWriter {
    number: FrameNumber,
}

impl FrameWriter {
    /// Frames with numbers of this sequence.
    pub fn new(number: FrameNumber) -> Self {
        Self { number }
    }

    /// Makes frames of packets, and gives each to `put`. Calls `pause` now and then: to deflate
    /// takes long.
    pub fn write(&self, packets: &[u8], mut put: impl FnMut(&[u8]), pause: impl Fn()) {
        let (mut rest, mut tail) = (packets, 0);
        while !rest.is_empty() {
            let (end, left) = frame_end(rest, tail);
            let (bytes, after) = rest.split_at(end);
            put(&self.frame(bytes, &pause));
            (rest, tail) = (after, left);
            if !rest.is_empty() {
                pause();
            }
        }
    }

    fn frame(&self, bytes: &[u8], pause: &impl Fn()) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        let is_shorter = bytes.len() >= COMPRESSED_MIN && deflate(bytes, &mut frame, pause);
        if !is_shorter {
            frame.truncate(HEADER);
            frame.extend_from_slice(bytes);
        }
        let length = (frame.len() - HEADER) as u32;
        let inside = if is_shorter { bytes.len() as u32 } else { 0 };
        frame[..3].copy_from_slice(&length.to_le_bytes()[..3]);
        frame[3] = self.number.take();
        frame[4..HEADER].copy_from_slice(&inside.to_le_bytes()[..3]);
        frame
    }
}

/// Where the first frame of these packets ends, and how much of its last packet is left; `tail`
/// bytes are what is left of the packet before.
fn frame_end(packets: &[u8], tail: usize) -> (usize, usize) {
    let mut end = tail;
    while let Some(&[a, b, c, _]) = packets.get(end..).and_then(|rest| rest.first_chunk()) {
        let next = end + PACKET_HEADER + u32::from_le_bytes([a, b, c, 0]) as usize;
        if end > 0 && next > PIECE {
            break;
        }
        if next > FRAME_MAX {
            return (FRAME_MAX, next - FRAME_MAX);
        }
        end = next;
    }
    (end, 0)
}

/// Appends the bytes as a stream; false if that is not shorter.
fn deflate(bytes: &[u8], output: &mut Vec<u8>, pause: &impl Fn()) -> bool {
    let flags = create_comp_flags_from_zip_params(LEVEL, 1, 0);
    let mut compressor = Box::new(CompressorOxide::new(flags));
    let end = output.len() + bytes.len();
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(mut piece) = pieces.next() {
        let flush = if pieces.peek().is_some() { TDEFLFlush::None } else { TDEFLFlush::Finish };
        loop {
            let put = |made: &[u8]| {
                output.extend_from_slice(made);
                output.len() < end
            };
            let (status, taken) = compress_to_output(&mut compressor, piece, flush, put);
            piece = &piece[taken..];
            match status {
                TDEFLStatus::Done => return output.len() < end,
                TDEFLStatus::Okay if piece.is_empty() && flush == TDEFLFlush::None => break,
                TDEFLStatus::Okay => {}
                _ => return false,
            }
        }
        pause();
    }
    false
}

#[cfg(test)]
mod tests;
