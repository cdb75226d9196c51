//! Frames as clients send them: whole, cut, damaged, and as small as what comes out is large.

use stdx::Prng;

use super::*;
use crate::Channel;

/// A packet with this payload, as any client writes it.
fn packet(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Channel::new(0).write(&mut out, |out| out.extend_from_slice(payload));
    out
}

/// Frames with these bytes.
fn frames(bytes: &[u8], writer: &FrameWriter) -> Vec<u8> {
    let mut out = Vec::new();
    writer.write(bytes, |frame| out.extend_from_slice(frame), || ());
    out
}

/// A frame that says what it likes.
fn frame(number: u8, inside: usize, bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u32).to_le_bytes()[..3].to_vec();
    out.push(number);
    out.extend_from_slice(&(inside as u32).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
    out
}

fn stream(bytes: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(bytes, 9)
}

fn channel(payload_max: usize) -> Channel {
    let mut channel = Channel::new(payload_max);
    channel.begin_compression(FrameNumber::default());
    channel
}

/// The next packet, once all that has come has been looked at.
fn next(channel: &mut Channel) -> Result<Option<Vec<u8>>, PacketError> {
    loop {
        let packet = channel.next_packet()?;
        if packet.is_some() || !channel.is_behind() {
            return Ok(packet);
        }
    }
}

#[test]
fn packets_come_out_however_their_frames_come_in() {
    let mut prng = Prng::new(4);
    for size in [0, 1, 49, 50, 1_000, PIECE - 4, PIECE, 3 * PIECE + 7, 20_000_000] {
        // Half of it is worth compressing.
        let mut payload = vec![b'x'; size / 2];
        payload.extend((size / 2..size).map(|_| prng.below(256) as u8));
        let input = frames(&packet(&payload), &FrameWriter::new(FrameNumber::default()));
        let mut channel = channel(1 << 30);
        let mut rest = &input[..];
        let mut found = None;
        while found.is_none() {
            let cut = rest.len().min(1 + prng.index(if size > 100_000 { 300_000 } else { 30 }));
            channel.feed(&rest[..cut]);
            rest = &rest[cut..];
            found = next(&mut channel).unwrap();
            assert!(found.is_some() || !rest.is_empty(), "{size}: nothing has come out");
        }
        assert!(found.as_deref() == Some(&payload[..]) && rest.is_empty(), "{size}");
    }
}

#[test]
fn frames_are_counted_and_packets_within_are_not() {
    let mut channel = channel(1 << 20);
    let mut two = packet(b"\x19one");
    two.extend(packet(b"\x03two"));
    two[3] = 77;
    channel.begin_command();
    channel.feed(&frame(0, 0, &two));
    assert_eq!(next(&mut channel).unwrap().unwrap(), b"\x19one");
    // The second command of a frame goes on with its numbers, the next frame begins anew.
    channel.begin_command();
    assert_eq!(next(&mut channel).unwrap().unwrap(), b"\x03two");
    channel.begin_command();
    channel.feed(&frame(0, 0, &packet(b"\x0E")));
    assert_eq!(next(&mut channel).unwrap().unwrap(), b"\x0E");
    channel.begin_command();
    channel.feed(&frame(1, 0, &packet(b"\x0E")));
    assert_eq!(next(&mut channel), Err(PacketError::OutOfOrder));
}

#[test]
fn both_sides_share_one_count() {
    let number = FrameNumber::default();
    let mut server = Channel::new(1 << 20);
    // What was sent early is compressed too.
    server.feed(&frame(0, 0, &packet(b"\x03LOAD")));
    server.begin_compression(number.clone());
    assert_eq!(next(&mut server).unwrap().unwrap(), b"\x03LOAD");
    let mut wish = Vec::new();
    server.write(&mut wish, |out| out.extend_from_slice(b"a wish"));
    assert_eq!(wish[3], 1, "packets go on with the numbers of frames");
    assert_eq!(frames(&wish, &FrameWriter::new(number)), frame(1, 0, &wish));
    server.feed(&frame(2, 0, &packet(b"a file")));
    assert_eq!(next(&mut server).unwrap().unwrap(), b"a file");
}

#[test]
fn a_bomb_goes_off_in_small_pieces() {
    // A hundred megabytes, in frames that take a thousandth of it.
    let zeros = vec![0; 0xFF_FFFF];
    let small = stream(&zeros);
    assert!(small.len() < 20_000);
    let mut head = (0xFF_FFFFu32).to_le_bytes()[..3].to_vec();
    head.push(0);
    let mut channel = channel(1 << 16);
    channel.feed(&frame(0, 0, &head));
    channel.feed(&frame(1, zeros.len(), &small));
    // The packet says how long it is, and is refused before any of it is inflated.
    assert_eq!(next(&mut channel), Err(PacketError::TooLarge));
    // Where packets may be long, each look inflates a piece.
    let mut channel = self::channel(1 << 30);
    channel.feed(&frame(0, 0, &head));
    channel.feed(&frame(1, zeros.len(), &small));
    let mut looks = 0;
    while channel.next_packet().unwrap().is_none() && channel.is_behind() {
        looks += 1;
    }
    assert!(looks >= zeros.len() / PIECE, "{looks}");
    // Many packets in one frame are answered one after the other.
    let pings: Vec<u8> = packet(b"\x0E").repeat(1_000_000);
    let mut channel = self::channel(1 << 20);
    channel.feed(&frame(0, pings.len(), &stream(&pings)));
    for _ in 0..1_000_000 {
        assert_eq!(next(&mut channel).unwrap().unwrap(), b"\x0E");
        channel.begin_command();
    }
    assert_eq!(next(&mut channel), Ok(None));
}

#[test]
fn damaged_frames_are_noticed_before_their_last_packet_is_believed() {
    let payload = b"\x03DELETE FROM accounts WHERE name LIKE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'";
    let inside = packet(payload);
    let good = stream(&inside);
    let damaged = |frame: Vec<u8>| {
        let mut channel = channel(1 << 20);
        channel.feed(&frame);
        assert_eq!(next(&mut channel), Err(PacketError::Damaged));
    };
    // Longer or shorter than it says; more behind the stream; cut.
    damaged(frame(0, inside.len() - 1, &good));
    damaged(frame(0, inside.len() + 1, &good));
    damaged(frame(0, inside.len(), &[&good[..], b"x"].concat()));
    damaged(frame(0, inside.len(), &good[..good.len() - 1]));
    damaged(frame(0, inside.len(), &[]));
    damaged(frame(0, 1, b"no stream"));
    // Each bit of it.
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut channel = channel(1 << 20);
        channel.feed(&frame(0, inside.len(), &bad));
        let found = next(&mut channel);
        // The bits of the head that say how large a window was change nothing.
        assert!(found != Ok(None), "bit {bit}");
        assert!(found.is_err() || found.unwrap().unwrap() == payload, "bit {bit}");
    }
    // A frame that never ends is waited for, and its packet with it.
    let mut channel = channel(1 << 20);
    channel.feed(&frame(0, inside.len(), &good)[..HEADER + good.len() - 1]);
    assert_eq!(next(&mut channel), Ok(None));
    channel.feed(&good[good.len() - 1..]);
    assert_eq!(next(&mut channel).unwrap().unwrap(), payload);
}

#[test]
fn anything_is_read_without_a_panic() {
    let mut prng = Prng::new(9);
    for _ in 0..20_000 {
        let mut input = frames(&packet(&[b'q'; 300]), &FrameWriter::new(FrameNumber::default()));
        for _ in 0..prng.index(4) {
            let at = prng.index(input.len());
            input[at] = prng.below(256) as u8;
        }
        let mut channel = channel(1 << 16);
        channel.feed(&input);
        while let Ok(Some(_)) = next(&mut channel) {}
    }
}

#[test]
fn a_packet_is_in_one_frame_or_in_two() {
    let sizes = [10, 60_000, 5_000, 600, PIECE, 3, 3 * PIECE, 1, 0xFF_FFFE, 20_000_000, 7];
    let packets: Vec<u8> = sizes.iter().flat_map(|size| packet(&vec![b'p'; *size])).collect();
    let (mut ends, mut pauses) = (Vec::new(), Cell::new(0));
    let (mut rest, mut tail, mut at) = (&packets[..], 0, 0);
    while !rest.is_empty() {
        let (end, left) = frame_end(rest, tail);
        at += end;
        ends.push(at);
        (rest, tail) = (&rest[end..], left);
    }
    // The first frame ends before the packet that is too much for it; long packets are alone, those
    // that are longer than frames can be go on in a second one.
    let wholes: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(ends[0], 10 + 60_000 + 5_000 + 3 * PACKET_HEADER);
    assert_eq!(wholes[..3], [604, PIECE + 4, 7]);
    assert_eq!(wholes[3..5], [3 * PIECE + 4, 5]);
    assert_eq!(wholes[5..7], [FRAME_MAX, 3]);
    assert_eq!(wholes[7..10], [FRAME_MAX, 4, 20_000_000 - FRAME_MAX + 4]);
    let writer = FrameWriter::new(FrameNumber::default());
    writer.write(&packets, |_| (), || pauses.set(pauses.get() + 1));
    assert!(*pauses.get_mut() > packets.len() / PIECE, "{pauses:?}");
}
