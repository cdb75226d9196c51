//! The generator against a server of the test's own, which says what it is told to.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;

/// What a server says to a command: the payloads of packets, none to hang up.
type Reply = Arc<dyn Fn(&[u8]) -> Vec<Vec<u8>> + Send + Sync>;

const DONE: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const LAST: &[u8] = &[0xFE, 0, 0, 2, 0];

fn row() -> Vec<Vec<u8>> {
    [&[1][..], b"\x03def\0\0\0\x01c\0", LAST, &[0, 0, 1, b'x'], LAST].map(<[u8]>::to_vec).into()
}

fn refused(code: u16) -> Vec<Vec<u8>> {
    vec![[&[0xFF][..], &code.to_le_bytes(), b"#HY000no"].concat()]
}

/// Answers as the statements want: point selects are the first that a client prepares.
fn usual(command: &[u8]) -> Vec<Vec<u8>> {
    match command {
        [22, text @ ..] => {
            let is_query = text.starts_with(b"SELECT");
            let number = NUMBERS.fetch_add(2, Ordering::Relaxed) as u32 + u32::from(is_query);
            let mut head = vec![0];
            head.extend(number.to_le_bytes());
            head.extend([u8::from(is_query), 0, 1, 0, 0, 0, 0]);
            let mut packets = vec![head, b"?".to_vec(), LAST.to_vec()];
            if is_query {
                packets.extend([b"c".to_vec(), LAST.to_vec()]);
            }
            packets
        }
        // Odd numbers are those of queries.
        [23, number, ..] if number % 2 == 1 => row(),
        _ => vec![DONE.to_vec()],
    }
}

static NUMBERS: AtomicU64 = AtomicU64::new(2);
static SOCKETS: AtomicU64 = AtomicU64::new(0);

/// Starts the server; answers are sent in two pieces.
fn options(mix: Mix, reply: Reply) -> Options {
    let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
    let name = format!("nines-load-{}-{number}", std::process::id());
    let socket = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let reply = reply.clone();
            thread::spawn(move || serve(&mut stream.unwrap(), &reply));
        }
    });
    Options {
        socket,
        database: "d".into(),
        mix,
        clients: 3,
        tables: 2,
        rows: 100,
        warm_up: Duration::from_millis(20),
        measured: Duration::from_millis(100),
        rate: None,
        seed: 1,
        pids: vec![std::process::id()],
    }
}

fn serve(stream: &mut UnixStream, reply: &Reply) {
    let send = |stream: &mut UnixStream, sequence: usize, payloads: &[Vec<u8>]| {
        let mut bytes = Vec::new();
        for (at, payload) in payloads.iter().enumerate() {
            bytes.extend(&(payload.len() as u32).to_le_bytes()[..3]);
            bytes.push((sequence + at) as u8);
            bytes.extend(payload);
        }
        let (first, second) = bytes.split_at(bytes.len() / 2);
        // A client that is gone is no fault of the server.
        let _ = stream.write_all(first);
        thread::sleep(Duration::from_micros(50));
        let _ = stream.write_all(second);
    };
    let read = |stream: &mut UnixStream| {
        let mut head = [0; 4];
        stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        stream.read_exact(&mut payload).ok()?;
        Some(payload)
    };
    send(stream, 0, &[b"\x0ahello".to_vec()]);
    read(stream);
    send(stream, 2, &[DONE.to_vec()]);
    while let Some(command) = read(stream) {
        let answer = reply(&command);
        if answer.is_empty() {
            return;
        }
        send(stream, 1, &answer);
    }
}

fn figure(figures: &Figures, name: &str) -> f64 {
    figures.named().into_iter().find(|(found, _)| found == name).map_or(0.0, |(_, value)| value)
}

#[test]
fn every_mix_runs_and_is_counted() {
    for mix in [Mix::PointSelect, Mix::Update, Mix::ReadWrite] {
        let statements = Arc::new(AtomicU64::new(0));
        let counted = statements.clone();
        let options = options(
            mix,
            Arc::new(move |command| {
                counted.fetch_add(u64::from(matches!(command[0], 3 | 23)), Ordering::Relaxed);
                usual(command)
            }),
        );
        let figures = run(&options).unwrap();
        let operations = figure(&figures, "operations");
        assert!(operations > 10.0, "{mix:?}: {operations}");
        let sent = statements.load(Ordering::Relaxed) as f64;
        assert!(sent >= operations * mix.steps().len() as f64, "{mix:?}: {sent} statements");
        assert_eq!(figure(&figures, "retries"), 0.0);
        let (p50, p99) = (figure(&figures, "p50"), figure(&figures, "p99"));
        assert!(0.05 < p50 && p50 <= p99 && p99 <= figure(&figures, "longest"), "{p50} {p99}");
        assert!(figure(&figures, "client") > 0.0);
        assert!(figure(&figures, "fewest") * 3.0 <= operations);
        assert!(figure(&figures, "most") * 3.0 >= operations);
        assert!(figures.json().contains("\"p99\": "));
        std::fs::remove_file(&options.socket).unwrap();
    }
}

#[test]
fn a_deadlock_begins_the_transaction_anew() {
    let (commands, rollbacks) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let counted = rollbacks.clone();
    let options = options(
        Mix::ReadWrite,
        Arc::new(move |command| {
            if command == b"\x03ROLLBACK" {
                counted.fetch_add(1, Ordering::Relaxed);
            } else if command[0] == 23 && commands.fetch_add(1, Ordering::Relaxed) % 40 == 39 {
                return refused(1213);
            }
            usual(command)
        }),
    );
    let figures = run(&options).unwrap();
    let retries = figure(&figures, "error_1213");
    assert!(retries > 0.0 && figure(&figures, "operations") > 0.0);
    assert!(rollbacks.load(Ordering::Relaxed) as f64 >= retries);
    std::fs::remove_file(&options.socket).unwrap();
}

#[test]
fn what_is_wrong_ends_the_run() {
    let faults = [
        ("SELECT c FROM sbtest# WHERE id=?: error 1146: no", refused(1146)),
        ("Rows(0)", [row()[..3].to_vec(), vec![LAST.to_vec()]].concat()),
        ("Done", vec![DONE.to_vec()]),
        ("the server has closed a connection", Vec::new()),
    ];
    for (wanted, fault) in faults {
        let reply = move |command: &[u8]| {
            if command[0] == 23 { fault.clone() } else { usual(command) }
        };
        let options = options(Mix::PointSelect, Arc::new(reply));
        let found = run(&options).unwrap_err();
        assert!(found.contains(wanted), "{found}, not {wanted}");
        std::fs::remove_file(&options.socket).unwrap();
    }
    let nobody = Options { socket: "/nowhere".into(), ..options(Mix::Update, Arc::new(usual)) };
    assert!(run(&nobody).unwrap_err().starts_with("client 1 of 3: "));
}

/// The server stands still for 100 ms; of the operations that were to arrive in that time, of which
/// a closed loop would not have sent any, most have waited for long.
#[test]
fn an_open_loop_charges_a_stall_to_all_who_would_have_asked() {
    let (commands, gate) = (AtomicU64::new(0), std::sync::Mutex::new(()));
    let reply = move |command: &[u8]| {
        let guard = gate.lock().unwrap();
        if command[0] == 23 && commands.fetch_add(1, Ordering::Relaxed) == 60 {
            thread::sleep(Duration::from_millis(100));
        }
        drop(guard);
        usual(command)
    };
    let options = Options {
        rate: Some(1_000),
        measured: Duration::from_millis(400),
        ..options(Mix::PointSelect, Arc::new(reply))
    };
    let figures = run(&options).unwrap();
    assert!(figure(&figures, "operations") > 100.0);
    let late = figures.times.percentile(90).unwrap();
    assert!(late > 20_000_000, "{late} ns");
    std::fs::remove_file(&options.socket).unwrap();
}
