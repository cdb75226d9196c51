//! Clients that echo, shout, fall silent, vanish.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread;

use actor::OUTPUT_HIGH;

use super::application::wait_until;
use super::*;

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.tcp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends and expects the same back.
fn echo(stream: &mut (impl Read + Write), bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let mut answer = vec![0; bytes.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == bytes, "another echo");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn every_way_in() {
    let running = Running::start(2);
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    unix.set_read_timeout(Some(PATIENCE)).unwrap();
    echo(&mut unix, b"by socket");
    echo(&mut connect(&running), b"by IPv4");
    assert_eq!((running.board.count("unix"), running.board.count("127.0.0.1")), (1, 1));
    if let Some(address) = running.tcp6 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        echo(&mut stream, b"by IPv6");
        assert_eq!(running.board.count("::1"), 1);
    }
    running.cluster.stop();
}

#[test]
fn many_bytes_both_ways() {
    let running = Running::start(2);
    let mut stream = connect(&running);
    echo(&mut stream, b"first");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut reader = stream.try_clone().unwrap();
    let expected = bytes.clone();
    let reading = thread::spawn(move || {
        let mut answer = vec![0; expected.len()];
        reader.read_exact(&mut answer).unwrap();
        assert!(answer == expected, "another echo");
    });
    stream.write_all(&bytes).unwrap();
    reading.join().unwrap();
    running.cluster.stop();
}

#[test]
fn a_half_closed_peer_gets_its_answer() {
    let running = Running::start(1);
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    unix.write_all(b"last words").unwrap();
    unix.shutdown(Shutdown::Write).unwrap();
    let mut tcp = connect(&running);
    tcp.write_all(b"last words").unwrap();
    tcp.shutdown(Shutdown::Write).unwrap();
    let (mut by_unix, mut by_tcp) = (String::new(), String::new());
    unix.read_to_string(&mut by_unix).unwrap();
    tcp.read_to_string(&mut by_tcp).unwrap();
    assert_eq!((&by_unix[..], &by_tcp[..]), ("last words.", "last words."));
    running.cluster.stop();
}

#[test]
fn a_peer_that_is_gone_is_noticed() {
    let running = Running::start(1);
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    echo(&mut unix, b"here");
    drop(unix);
    wait_until(|| running.board.count("closed") + running.board.count("ended") == 1);
    // What it said before it went is heard, also if it does not wait for the answer.
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    unix.write_all(b"endless").unwrap();
    wait_until(|| running.board.flooded.load(Ordering::SeqCst) > 0);
    let closed = running.board.count("closed");
    drop(unix);
    wait_until(|| running.board.count("closed") == closed + 1);
    running.cluster.stop();
}

#[test]
fn a_slow_reader_holds_back_the_writer() {
    let running = Running::start(1);
    let mut slow = connect(&running);
    slow.write_all(b"flood").unwrap();
    wait_until(|| running.board.flooded.load(Ordering::SeqCst) > OUTPUT_HIGH as u64);
    // Others are served meanwhile.
    let mut other = connect(&running);
    for _ in 0..100 {
        echo(&mut other, b"quick");
    }
    let flooded = running.board.flooded.load(Ordering::SeqCst);
    assert!(flooded < 64 << 20, "{flooded} bytes are written for a client that does not read");
    let mut all = Vec::new();
    slow.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 64 << 20);
    let pending = running.board.pending_max.load(Ordering::SeqCst);
    assert!(pending <= OUTPUT_HIGH + 10_000, "{pending} bytes have waited");
    running.cluster.stop();
}

#[test]
fn who_does_not_listen_misses_nothing() {
    let running = Running::start(1);
    let mut stream = connect(&running);
    stream.write_all(b"deaf").unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"paused");
    stream.write_all(b"hello?").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "hello?.");
    // The same when the peer has gone altogether by the time it is listened to.
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    unix.write_all(b"deaf").unwrap();
    unix.read_exact(&mut answer).unwrap();
    drop(unix);
    wait_until(|| running.board.count("closed") + running.board.count("ended") == 2);
    running.cluster.stop();
}

#[test]
fn a_connection_closed_from_inside() {
    let running = Running::start(1);
    let mut stream = connect(&running);
    stream.write_all(b"bye").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 1 << 20);
    let mut stream = connect(&running);
    stream.write_all(b"abort").unwrap();
    // Ended or reset, but not kept.
    assert!(!matches!(stream.read(&mut [0; 10]), Ok(1..)));
    assert_eq!(running.board.count("closed"), 0);
    running.cluster.stop();
}

#[test]
fn a_thousand_clients_come_and_go() {
    let running = Running::start(2);
    echo(&mut connect(&running), b"first");
    wait_until(|| running.board.count("ended") + running.board.count("closed") == 1);
    let before = open_descriptors();
    for _ in 0..5 {
        let mut streams: Vec<TcpStream> = (0..200).map(|_| connect(&running)).collect();
        for stream in &mut streams[..100] {
            echo(stream, b"x");
        }
    }
    wait_until(|| running.board.count("ended") + running.board.count("closed") == 1_001);
    // Tests run beside each other in one process: they may open some, but these are many.
    wait_until(|| open_descriptors() < before + 150);
    echo(&mut connect(&running), b"last");
    running.cluster.stop();
}

#[test]
fn clients_hear_that_the_server_stops() {
    let running = Running::start(2);
    let mut streams: Vec<TcpStream> = (0..10).map(|_| connect(&running)).collect();
    for stream in &mut streams {
        echo(stream, b"x");
    }
    let unix = running.unix.clone();
    let stopping = thread::spawn(move || running.cluster.stop());
    for stream in &mut streams {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        assert_eq!(all, "goodbye");
    }
    drop(streams);
    stopping.join().unwrap();
    assert!(!unix.exists());
}

#[test]
fn draws_for_a_client_do_not_follow_from_those_for_another() {
    let running = Running::start(1);
    let draw = |stream: &mut TcpStream| {
        stream.write_all(b"draw").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let mut streams: Vec<TcpStream> = (0..2).map(|_| connect(&running)).collect();
    wait_until(|| running.board.count("127.0.0.1") == 2);
    // Nobody has come in between.
    let drawn: Vec<String> = streams.iter_mut().map(draw).collect();
    assert_eq!(drawn, ["fresh", "known"]);
    for _ in 0..20 {
        assert_eq!(draw(&mut connect(&running)), "fresh");
    }
    running.cluster.stop();
}
