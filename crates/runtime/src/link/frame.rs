//! Frames: how messages are cut into pieces on a connection.
//!
//! # Owns
//! A frame is a length (u32), a checksum (CRC32C, u32), how much of the peer's stream has arrived
//! here (u64), and messages one after the other, to whose bytes the length refers. The checksum
//! covers what follows it and begins with the frame's position in its stream. An empty frame is a
//! sign of life. From protocol version 2 on the highest bit of the length says that the messages
//! are packed: their length (u32), then one block of LZ4. Numbers are little endian.
//! # Guarantees
//! Whatever comes over a connection ends in messages as they were sent or in [`Broken::Corrupt`],
//! and makes this process take at most as much memory as a frame may have bytes. A frame at another
//! position than the one it was sent at is damaged.

use std::fmt;

use codec::Reader;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use wire::{Envelope, Link};

use super::Broken;

/// Length, checksum, and what has arrived.
pub(super) const HEADER: usize = 16;
/// Where the part begins that the checksum covers.
const SUMMED: usize = 8;
/// Longest frame: one message, as long as messages get, after others.
const FRAME_MAX: u32 = 1 << 30;
/// Bit of the length: the messages are packed.
const PACKED: u32 = 1 << 31;
/// Shorter frames are not packed: a packet takes as long to send whatever is in it.
const PACK_FROM: usize = 512;
/// LZ4 packs 255 bytes into one at best.
const PACKED_BEST: usize = 255;

/// Packs frames on their way out.
#[derive(Default)]
pub(super) struct Packer {
    table: CompressTable,
    packed: Vec<u8>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    /// The packed form of the messages of a frame, if it is shorter.
    fn pack(&mut self, body: &[u8]) -> Option<&[u8]> {
        if body.len() < PACK_FROM {
            return None;
        }
        self.packed.resize(4 + get_maximum_output_size(body.len()), 0);
        self.packed[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        let len = compress_into_with_table(body, &mut self.packed[4..], &mut self.table).ok()?;
        (4 + len < body.len()).then(|| &self.packed[..4 + len])
    }
}

/// Completes the frame that begins at `at` and goes to the end of `bytes`; packs it if it pays.
/// `place` is its position in the stream, and up to which position the peer's has arrived.
pub(super) fn close(
    bytes: &mut Vec<u8>,
    at: usize,
    place: (u64, u64),
    packer: Option<&mut Packer>,
) {
    let (position, arrived) = place;
    let mut flag = 0;
    if let Some(packer) = packer
        && let Some(packed) = packer.pack(&bytes[at + HEADER..])
    {
        bytes.truncate(at + HEADER);
        bytes.extend_from_slice(packed);
        flag = PACKED;
    }
    let len = (bytes.len() - at - HEADER) as u32 | flag;
    bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    bytes[at + SUMMED..at + HEADER].copy_from_slice(&arrived.to_le_bytes());
    let sum = checksum(position, &bytes[at + SUMMED..]);
    bytes[at + 4..at + SUMMED].copy_from_slice(&sum.to_le_bytes());
}

/// The checksum of a frame at a position.
fn checksum(position: u64, summed: &[u8]) -> u32 {
    crc32c::crc32c_append((position ^ position >> 32) as u32, summed)
}

/// What complete frames there were.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Their bytes.
    pub(super) bytes: usize,
    /// The bytes of those that are not empty.
    pub(super) with_messages: usize,
    pub(super) frames: u64,
    /// Up to which position the peer has what was sent to it.
    pub(super) confirmed: u64,
}

/// Takes the messages of complete frames, the first of which begins at `position` of the stream.
pub(super) fn take(
    mut bytes: &[u8],
    position: u64,
    protocol: u16,
    link: &Link,
    messages: &mut Vec<Envelope>,
) -> Result<Taken, Broken> {
    let mut taken = Taken::default();
    while let Some((header, _)) = bytes.split_first_chunk::<HEADER>() {
        let [a, b, c, d, e, f, g, h, arrived @ ..] = *header;
        let (len, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let (packed, len) = (len & PACKED != 0, len & !PACKED);
        if len > FRAME_MAX {
            return Err(Broken::Corrupt);
        }
        let whole = HEADER + len as usize;
        let Some((frame, rest)) = bytes.split_at_checked(whole) else { break };
        if checksum(position + taken.bytes as u64, &frame[SUMMED..]) != sum {
            return Err(Broken::Corrupt);
        }
        let body = &frame[HEADER..];
        if packed {
            take_messages(&unpacked(body)?, protocol, link, messages)?
        } else {
            take_messages(body, protocol, link, messages)?
        }
        bytes = rest;
        taken.bytes += whole;
        taken.with_messages += if body.is_empty() { 0 } else { whole };
        taken.frames += 1;
        taken.confirmed = u64::from_le_bytes(arrived);
    }
    Ok(taken)
}

/// What is said of a frame that came as it was sent and holds something else than messages.
const NO_MESSAGE: Broken = Broken::Violation { message: "frame", rule: "it holds no message" };

fn take_messages(
    body: &[u8],
    protocol: u16,
    link: &Link,
    messages: &mut Vec<Envelope>,
) -> Result<(), Broken> {
    let mut reader = Reader::new(protocol, body);
    while reader.remaining() > 0 {
        // The checksum has said that these bytes are what was sent.
        messages.push(Envelope::decode(&mut reader, link).map_err(|_| NO_MESSAGE)?);
    }
    Ok(())
}

fn unpacked(body: &[u8]) -> Result<Vec<u8>, Broken> {
    let (len, packed) = body.split_first_chunk::<4>().ok_or(Broken::Corrupt)?;
    let len = u32::from_le_bytes(*len);
    if len > FRAME_MAX || len as usize > packed.len().saturating_mul(PACKED_BEST) {
        return Err(Broken::Corrupt);
    }
    let mut raw = vec![0; len as usize];
    match lz4_flex::block::decompress_into(packed, &mut raw) {
        Ok(found) if found == raw.len() => Ok(raw),
        _ => Err(Broken::Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use codec::Writer;
    use model::{ActorKind, Address, ControlIndex, Incarnation, NodeId, WorkerId};
    use stdx::Prng;
    use wire::{LegId, Message, PROTOCOL_VERSION, ParticipantMessage};

    use super::*;

    /// Where the frames are in their stream.
    const AT: u64 = 7 << 33 | 5;
    const LINK: Link =
        Link { from: NodeId(3), incarnation: Incarnation(33), to: NodeId(1), workers: 1 };

    fn message(attempt: u32) -> Envelope {
        let at = |node| Address {
            node: NodeId(node),
            worker: WorkerId(0),
            actor: ActorKind::Participant,
        };
        let transaction = Default::default();
        let message = ParticipantMessage::Complete { transaction, leg: LegId(0), attempt };
        Envelope {
            from: at(3),
            incarnation: Incarnation(33),
            to: at(1),
            reached: ControlIndex(7),
            message: Box::new(Message::Participant(message)),
        }
    }

    /// A frame with so many messages.
    fn frame(count: u32, packer: Option<&mut Packer>) -> Vec<u8> {
        let mut out = Writer::new(PROTOCOL_VERSION);
        out.put_bytes(&[0; HEADER]);
        for attempt in 0..count {
            message(attempt).encode(&mut out).unwrap();
        }
        let mut bytes = out.bytes().to_vec();
        close(&mut bytes, 0, (AT, 0), packer);
        bytes
    }

    /// Gives a changed frame the checksum that fits, as a peer that is wrong would.
    fn sum_again(bytes: &mut [u8]) {
        let sum = checksum(AT, &bytes[SUMMED..]);
        bytes[4..SUMMED].copy_from_slice(&sum.to_le_bytes());
    }

    fn attempts(bytes: &[u8]) -> Result<Vec<u32>, Broken> {
        let mut messages = Vec::new();
        let taken = take(bytes, AT, PROTOCOL_VERSION, &LINK, &mut messages)?;
        assert_eq!(taken.bytes, bytes.len());
        let attempt = |envelope: Envelope| match *envelope.message {
            Message::Participant(ParticipantMessage::Complete { attempt, .. }) => attempt,
            other => panic!("{other:?}"),
        };
        Ok(messages.into_iter().map(attempt).collect())
    }

    #[test]
    fn long_frames_are_packed_and_short_ones_are_not() {
        let mut packer = Packer::default();
        let plain = frame(1_000, None);
        let packed = frame(1_000, Some(&mut packer));
        assert!(packed.len() < plain.len() / 2, "{} of {}", packed.len(), plain.len());
        assert_eq!(attempts(&packed).unwrap(), (0..1_000).collect::<Vec<_>>());
        assert_eq!(attempts(&plain).unwrap(), attempts(&packed).unwrap());
        assert_eq!(frame(3, Some(&mut packer)), frame(3, None));
        assert_eq!(attempts(&frame(0, Some(&mut packer))).unwrap(), [0; 0]);
    }

    #[test]
    fn a_frame_is_whole_only_at_its_own_position() {
        let once = frame(2, None);
        // One behind the other, as they come over a connection.
        let mut second = frame(3, None);
        let end = second.len();
        close(&mut second, 0, (AT + once.len() as u64, 77), None);
        assert_eq!(second.len(), end);
        let both = [once.clone(), second.clone()].concat();
        assert_eq!(attempts(&both).unwrap(), [0, 1, 0, 1, 2]);
        let taken = take(&both, AT, PROTOCOL_VERSION, &LINK, &mut Vec::new()).unwrap();
        let with_messages = both.len();
        let expected = Taken { bytes: both.len(), with_messages, frames: 2, confirmed: 77 };
        assert_eq!(taken, expected);
        for wrong in
            [[once.clone(), once.clone()], [second.clone(), once], [second.clone(), second]]
        {
            assert_eq!(attempts(&wrong.concat()), Err(Broken::Corrupt));
        }
    }

    #[test]
    fn what_does_not_get_shorter_is_not_packed() {
        let mut prng = Prng::new(1);
        let noise: Vec<u8> = (0..10_000).map(|_| prng.next_u64() as u8).collect();
        assert!(Packer::default().pack(&noise).is_none());
    }

    #[test]
    fn a_damaged_frame_breaks_the_connection_and_nothing_else() {
        let whole = frame(500, Some(&mut Packer::default()));
        let mut prng = Prng::new(2);
        for _ in 0..5_000 {
            let mut bytes = whole.clone();
            let at = prng.index(bytes.len());
            bytes[at] ^= 1 << prng.below(8);
            sum_again(&mut bytes);
            let mut messages = Vec::new();
            let _ = take(&bytes, AT, PROTOCOL_VERSION, &LINK, &mut messages);
        }
        // A few bytes that claim to be many.
        let mut bytes = vec![0; HEADER + 8];
        bytes[..4].copy_from_slice(&(PACKED | 8).to_le_bytes());
        bytes[HEADER..HEADER + 4].copy_from_slice(&FRAME_MAX.to_le_bytes());
        sum_again(&mut bytes);
        assert!(matches!(attempts(&bytes), Err(Broken::Corrupt)));
    }
}
