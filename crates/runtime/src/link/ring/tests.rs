//! Rings between two threads, and beside a peer that writes what it likes.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use stdx::Prng;

use super::*;
use crate::poller::Poller;

mod model;

/// Both ends, with the file that is mapped by both.
fn pair() -> (Rings, Rings, OwnedFd) {
    let (one, file) = Rings::create().unwrap();
    let other = Rings::accept(&file).unwrap();
    (one, other, file)
}

/// What a stream of a test says at a position.
fn said(at: usize) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 11) as u8
}

fn speech(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(said).collect()
}

#[test]
fn what_is_written_is_read_in_order_whatever_its_length() {
    let (mut one, mut other, _file) = pair();
    let (mut prng, mut buffer) = (Prng::new(1), vec![0; 40 << 10]);
    let (mut written, mut read) = (0, 0);
    for _ in 0..20_000 {
        let len = match prng.below(4) {
            0 => prng.index(40),
            1 => prng.index(3_000),
            2 => prng.index(100 << 10),
            _ => 0,
        };
        written += one.write(&speech(written, len)).unwrap();
        let len = PIECE_MAX + prng.index(buffer.len() - PIECE_MAX);
        let count = other.read(&mut buffer[..len]).unwrap();
        assert!(buffer[..count] == speech(read, count), "at {read}");
        read += count;
        // The other direction has nothing to do with it.
        assert_eq!(other.write(b"word"), Ok(4));
        assert_eq!(one.read(&mut buffer), Ok(4));
        assert_eq!(buffer[..4], *b"word");
    }
    while other.has_news() {
        read += other.read(&mut buffer).unwrap();
    }
    assert_eq!(read, written);
    assert!(read > 20 * 8 * RING_WORDS, "{read}");
}

#[test]
fn a_full_ring_takes_no_more_and_says_when_there_is_room() {
    let (mut one, mut other, _file) = pair();
    let mut buffer = vec![0; 64 << 10];
    let bytes = speech(0, 1 << 20);
    let taken = one.write(&bytes).unwrap();
    assert!((120 << 10..128 << 10).contains(&taken), "{taken}");
    assert_eq!(one.write(&bytes[taken..]), Ok(0));
    assert_eq!(one.wait_for_room(), Ok(true));
    assert_eq!(one.look_for_room(), Ok(false));
    let count = other.read(&mut buffer).unwrap();
    assert!(buffer[..count] == bytes[..count]);
    assert!(other.peer_starves(), "it has waited");
    assert!(!other.peer_starves(), "and is told so once");
    assert_eq!(one.look_for_room(), Ok(true));
    assert!(one.write(&bytes[taken..]).unwrap() >= count - 16);
    assert_eq!(one.wakes, 1);
}

#[test]
fn wake_ups_that_are_thrown_away_unread_leave_nobody_asleep_beside_room() {
    let (mut one, mut other, _file) = pair();
    let mut buffer = vec![0; 64 << 10];
    while one.write(&[7; 1_000]).unwrap() > 0 {}
    assert_eq!(one.wait_for_room(), Ok(true));
    assert!(one.doze(), "nothing comes, and there is no room");
    one.rise();
    assert!(other.read(&mut buffer).unwrap() > 0);
    // The wake-up comes, and is among those that are thrown away because there are many.
    assert!(other.peer_starves());
    assert!(!one.doze(), "there is room, and nobody will say so again");
    one.rise();
    assert!(one.write(&[7; 1_000]).unwrap() > 0);
    assert!(one.doze(), "who does not wait for room sleeps beside it");
    one.rise();
    // A peer that breaks the rules is noticed at once.
    while one.write(&[7; 1_000]).unwrap() > 0 {}
    assert_eq!(one.wait_for_room(), Ok(true));
    other.word(one.outward.taken).store(u64::MAX, Ordering::Relaxed);
    assert!(!one.doze());
}

#[test]
fn each_wake_up_is_counted_whoever_finds_the_room() {
    let (mut one, mut other, _file) = pair();
    let (mut buffer, mut sent) = (vec![0; 64 << 10], 0);
    for round in 0..1_000 {
        while one.write(&[7; 1_000]).unwrap() > 0 {}
        assert_eq!(one.wait_for_room(), Ok(true));
        if round % 5 == 0 {
            assert_eq!(one.wait_for_room(), Ok(true), "it waits as it did");
        }
        assert!(other.read(&mut buffer).unwrap() > 0);
        sent += u32::from(other.peer_starves());
        // Whoever looks first: one that writes, one that waits again, one that looks for room or
        // one that is about to sleep.
        match round % 4 {
            0 => assert!(one.write(&[7; 1_000]).unwrap() > 0),
            1 => assert_eq!(one.wait_for_room(), Ok(false)),
            2 => assert_eq!(one.look_for_room(), Ok(true)),
            _ => {
                assert!(!one.doze());
                one.rise();
            }
        }
        assert_eq!((one.wakes, one.starves), (sent, false), "round {round}");
    }
    assert_eq!(sent, 1_000);
}

/// Sends a stream from one thread to another, which sleep without an end when there is nothing to
/// do: a wake-up that is lost would hang the test.
fn converse(seed: u64, total: usize, piece: usize) {
    let (one, other, _file) = pair();
    let (here, there) = UnixStream::pair().unwrap();
    let end = move |mut rings: Rings, socket: UnixStream, seed: u64| {
        socket.set_nonblocking(true).unwrap();
        let (mut prng, mut poller) = (Prng::new(seed), Poller::new().unwrap());
        poller.add_edge(&socket, 0).unwrap();
        // Who has said and heard all is gone, perhaps before it could be woken.
        let wake = || match rustix::io::write(&socket, b"!") {
            Ok(1) | Err(Errno::PIPE) => {}
            other => panic!("wake-ups are taken: {other:?}"),
        };
        let (mut written, mut read, mut buffer) = (0, 0, vec![0; 16 << 10]);
        while written < total || read < total {
            let mut waits = true;
            if written < total {
                let len = (1 + prng.index(piece)).min(total - written);
                let count = rings.write(&speech(written, len)).unwrap();
                written += count;
                waits = count == 0 && rings.wait_for_room().unwrap();
                if rings.peer_sleeps() {
                    wake();
                }
            }
            let count = rings.read(&mut buffer).unwrap();
            assert!(buffer[..count] == speech(read, count), "at {read}");
            read += count;
            if rings.peer_starves() {
                wake();
            }
            // Late in the turn: a wake-up may be among them that has told nothing yet.
            if rings.has_many_wakes() {
                let _ = rustix::io::read(&socket, &mut [0; 256]);
            }
            if waits && count == 0 && (read < total || written < total) {
                if rings.doze() {
                    poller.wait(None).unwrap();
                    let gone = poller.take().any(|ready| ready.hung_up);
                    assert!(!gone || rings.has_news(), "the other end has failed");
                }
                rings.rise();
            }
            if prng.below(64) == 0 {
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| end(one, here, seed));
        scope.spawn(|| end(other, there, seed + 1));
    });
}

#[test]
fn nobody_sleeps_beside_bytes_or_waits_beside_room() {
    converse(1, 4 << 20, 300);
    converse(3, 64 << 20, 60 << 10);
    // Each byte is waited for.
    converse(5, 20_000, 1);
}

#[test]
fn a_peer_that_writes_what_it_likes_costs_its_connection_at_most() {
    let mut prng = Prng::new(7);
    let (mut refused, mut fine) = (0, 0);
    for round in 0..3_000 {
        let (mut one, mut other, _file) = pair();
        let mut buffer = vec![0; 64 << 10];
        let mut count = one.write(&speech(0, prng.index(200 << 10))).unwrap();
        // Every word that means something, any of the header, and words of what was said.
        let ring = Ring::of(round / 3 % 2);
        let at = match round % 3 {
            0 => {
                let known = [ring.written, ring.taken, ring.sleeps, ring.starves, ring.content];
                known[round / 6 % known.len()]
            }
            1 => round / 3 % HEADER_WORDS,
            _ => ring.content + prng.index(RING_WORDS),
        };
        let (before, random) = (other.word(at).load(Ordering::Relaxed), prng.next_u64());
        let word = match prng.below(6) {
            0 => random,
            1 => before ^ 1 << prng.below(64),
            2 => before.wrapping_add(prng.below(40_000)),
            3 => before.wrapping_sub(prng.below(40_000)),
            4 => u64::MAX - prng.below(3),
            _ => prng.below(PIECE_MAX as u64 + 2),
        };
        other.word(at).store(word, Ordering::Relaxed);
        for _ in 0..6 {
            for outcome in [
                other.read(&mut buffer).map(|read| count = count.saturating_sub(read)),
                other.write(&speech(0, 50 << 10)).map(|_| ()),
                other.wait_for_room().map(|_| ()),
                one.read(&mut buffer).map(|_| ()),
                one.write(&speech(0, 50 << 10)).map(|_| ()),
                one.look_for_room().map(|_| ()),
            ] {
                match outcome {
                    Ok(()) => fine += 1,
                    Err(why) => {
                        assert_eq!(why, Broken::Corrupt);
                        refused += 1;
                    }
                }
            }
            let _ = (one.doze(), one.rise(), one.peer_sleeps(), one.has_many_wakes());
            let _ = (other.doze(), other.rise(), other.peer_starves());
        }
    }
    assert!(refused > 300 && fine > 1_000, "{refused} and {fine}");
}

#[test]
fn each_rule_of_a_ring_is_watched() {
    let ring = Ring::of(0);
    let read = |word: usize, value: u64| {
        let (mut one, mut other, _file) = pair();
        one.write(&[7; 100]).unwrap();
        one.word(word).store(value, Ordering::Relaxed);
        other.read(&mut [0; 64])
    };
    assert_eq!(read(ring.content, 105), Err(Broken::Corrupt), "longer than what was written");
    assert_eq!(read(ring.content, 0), Err(Broken::Corrupt), "empty");
    assert_eq!(read(ring.content, u64::MAX), Err(Broken::Corrupt), "longer than any piece");
    assert_eq!(read(ring.written, 13), Err(Broken::Corrupt), "the piece was cut");
    assert_eq!(read(ring.written, RING_WORDS as u64 + 1), Err(Broken::Corrupt), "more than fits");
    assert_eq!(read(ring.written, 14), Ok(0), "a piece waits for a buffer that holds it");
    let (mut one, mut other, _file) = pair();
    one.write(&[7; 100]).unwrap();
    assert_eq!(other.read(&mut [0; 100]), Ok(100));
    one.word(ring.written).store(3, Ordering::Relaxed);
    assert_eq!(other.read(&mut [0; 100]), Err(Broken::Corrupt), "less than before");
    other.word(ring.taken).store(15, Ordering::Relaxed);
    assert_eq!(one.look_for_room(), Err(Broken::Corrupt), "more taken than was written");
    other.word(ring.taken).store(14, Ordering::Relaxed);
    assert_eq!(one.look_for_room(), Ok(true));
    other.word(ring.taken).store(13, Ordering::Relaxed);
    assert_eq!(one.look_for_room(), Err(Broken::Corrupt), "less taken than before");
}

/// A file of this size with these seals.
fn file(size: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, size).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn memory_that_could_be_taken_away_is_refused() {
    let fixed = SealFlags::SHRINK | SealFlags::GROW;
    for (size, seals) in [
        (SIZE, SealFlags::empty()),
        (SIZE, SealFlags::SHRINK),
        (SIZE, SealFlags::GROW),
        (SIZE - 1, fixed),
        (SIZE + 4_096, fixed),
        (0, fixed),
        // Holes could be made in it, and nobody could forbid that any more.
        (SIZE, fixed | SealFlags::SEAL),
        // Nobody could write to it.
        (SIZE, fixed | SealFlags::FUTURE_WRITE),
        // It has no layout.
        (SIZE, fixed),
    ] {
        assert!(Rings::accept(&file(size, seals)).is_err(), "{size} {seals:?}");
    }
    let (socket, _other) = UnixStream::pair().unwrap();
    assert!(Rings::accept(&OwnedFd::from(socket)).is_err());
    let own = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
    assert!(Rings::accept(&own).is_err());
}

#[test]
fn nobody_can_take_a_page_of_memory_away() {
    let (mut one, mut other, file) = pair();
    settle(&file).unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(&file, hole, 0, 4_096), Err(Errno::PERM));
    assert_eq!(ftruncate(&file, 0), Err(Errno::PERM));
    assert_eq!(ftruncate(&file, 2 * SIZE), Err(Errno::PERM));
    assert_eq!(fstat(&file).unwrap().st_blocks as u64 * 512, SIZE, "all of it is allocated");
    // The other end of the connection has it, and nobody gets it any more.
    let reopened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert!(reopened.is_err() || Memory::map(reopened.unwrap()).is_err());
    drop(file);
    assert_eq!(one.write(b"still there"), Ok(11));
    let mut buffer = [0; 64];
    assert_eq!(other.read(&mut buffer), Ok(11));
    drop(one);
    assert_eq!(other.write(b"nobody"), Ok(6), "what the peer has mapped is its own");
}

#[test]
fn holes_that_were_made_before_are_filled() {
    let (one, file) = Rings::create().unwrap();
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 4_096, SIZE - 4_096).unwrap();
    let other = Rings::accept(&file).unwrap();
    assert_eq!(fstat(&file).unwrap().st_blocks as u64 * 512, SIZE);
    drop((one, other));
}
