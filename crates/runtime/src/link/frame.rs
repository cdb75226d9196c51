//! Frames: how messages are cut into pieces on a connection.
//!
//! # Owns
//! A frame is a length, a checksum (CRC32C) of what follows, and messages one after the other. An
//! empty frame is a sign of life. From protocol version 2 on the highest bit of the length says
//! that the messages are packed: their length (u32), then one block of LZ4. Numbers are little
//! endian.
//! # Guarantees
//! Whatever comes over a connection ends in messages as they were sent or in [`Broken::Corrupt`],
//! and makes this process take at most as much memory as a frame may have bytes.

use std::fmt;

use codec::Reader;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use wire::{Envelope, Link};

use super::Broken;

/// Length and checksum.
pub(super) const HEADER: usize = 8;
/// Longest frame: one message, as long as messages get, after others.
const FRAME_MAX: u32 = 256 << 20;
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
pub(super) fn close(bytes: &mut Vec<u8>, at: usize, packer: Option<&mut Packer>) {
    let mut flag = 0;
    if let Some(packer) = packer
        && let Some(packed) = packer.pack(&bytes[at + HEADER..])
    {
        bytes.truncate(at + HEADER);
        bytes.extend_from_slice(packed);
        flag = PACKED;
    }
    let body = &bytes[at + HEADER..];
    let (len, sum) = (body.len() as u32 | flag, crc32c::crc32c(body));
    bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
    bytes[at + 4..at + HEADER].copy_from_slice(&sum.to_le_bytes());
}

/// Takes the messages of complete frames; what is left, and how many frames there were.
pub(super) fn take<'a>(
    mut bytes: &'a [u8],
    protocol: u16,
    link: &Link,
    messages: &mut Vec<Envelope>,
) -> Result<(&'a [u8], u64), Broken> {
    let mut frames = 0;
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
        let [a, b, c, d, e, f, g, h] = *header;
        let (len, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let (packed, len) = (len & PACKED != 0, len & !PACKED);
        if len > FRAME_MAX {
            return Err(Broken::Corrupt);
        }
        let Some((body, rest)) = rest.split_at_checked(len as usize) else { break };
        if crc32c::crc32c(body) != sum {
            return Err(Broken::Corrupt);
        }
        match packed {
            true => take_messages(&unpacked(body)?, protocol, link, messages)?,
            false => take_messages(body, protocol, link, messages)?,
        }
        bytes = rest;
        frames += 1;
    }
    Ok((bytes, frames))
}

fn take_messages(
    body: &[u8],
    protocol: u16,
    link: &Link,
    messages: &mut Vec<Envelope>,
) -> Result<(), Broken> {
    let mut reader = Reader::new(protocol, body);
    while reader.remaining() > 0 {
        messages.push(Envelope::decode(&mut reader, link).map_err(|_| Broken::Corrupt)?);
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
        close(&mut bytes, 0, packer);
        bytes
    }

    fn attempts(bytes: &[u8]) -> Result<Vec<u32>, Broken> {
        let mut messages = Vec::new();
        let (rest, _) = take(bytes, PROTOCOL_VERSION, &LINK, &mut messages)?;
        assert!(rest.is_empty());
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
        // One behind the other, as they come over a connection.
        let both = [packed, frame(2, Some(&mut packer))].concat();
        assert_eq!(attempts(&both).unwrap().len(), 1_002);
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
            // With a checksum that fits, as from a peer that is wrong.
            let sum = crc32c::crc32c(&bytes[HEADER..]);
            bytes[4..HEADER].copy_from_slice(&sum.to_le_bytes());
            let mut messages = Vec::new();
            let _ = take(&bytes, PROTOCOL_VERSION, &LINK, &mut messages);
        }
        // A few bytes that claim to be many.
        let mut bytes = vec![0; HEADER + 8];
        bytes[..4].copy_from_slice(&(PACKED | 8).to_le_bytes());
        bytes[HEADER..HEADER + 4].copy_from_slice(&FRAME_MAX.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[HEADER..]);
        bytes[4..HEADER].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(attempts(&bytes), Err(Broken::Corrupt)));
    }
}
