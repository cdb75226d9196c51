//! Both engines do the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actor::{DiskAnswer, DiskError, DiskErrorKind, DiskOperation, DiskReply, DiskRequest};
use model::{ActorKind, NodeId, WorkerId};
use rustix::io::Errno;

use super::ring::{Ring, Work};
use super::{Asked, Disk, DiskEngine, NodeDirectory};
use crate::encryption::{AES, Encryption, HEADER, KeyRing, MasterKeys};

type Outcome = Result<Vec<DiskAnswer>, DiskError>;

/// A disk with two nodes, whose answers are collected.
struct Bench {
    disk: Option<Disk>,
    keys: Option<Arc<KeyRing>>,
    answers: Receiver<(WorkerId, NodeId, DiskReply)>,
    root: PathBuf,
}

impl Bench {
    fn new(engine: DiskEngine) -> Bench {
        Bench::with(engine, false)
    }

    fn with(engine: DiskEngine, encrypts: bool) -> Bench {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nines-disk-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let directory = |node| (NodeId(node), root.join(format!("node-{node}")));
        for node in [1, 2] {
            fs::create_dir_all(directory(node).1).unwrap();
        }
        let (send, answers) = channel();
        let send = Mutex::new(send);
        let deliver = move |worker, replies: Vec<(NodeId, DiskReply)>| {
            let send = send.lock().unwrap();
            for (node, reply) in replies {
                // A test that has seen enough listens no more.
                let _ = send.send((worker, node, reply));
            }
        };
        let failed = |error| panic!("{error}");
        let master = Some(MasterKeys::of_bytes(b"m"));
        let encryption = Encryption { encrypts, master };
        let keys = KeyRing::open(&directory(1).1, NodeId(1), &encryption).unwrap();
        let directories = [1, 2].map(directory).into_iter();
        let directories =
            directories.map(|(node, path)| (node, NodeDirectory::new(path, keys.clone())));
        let disk = Disk::start(
            engine,
            directories.collect(),
            crate::ThreadPlace::default(),
            Arc::new(deliver),
            Arc::new(failed),
        )
        .unwrap();
        Bench { disk: Some(disk), keys, answers, root }
    }

    fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("it is dropped last")
    }

    /// Asks for something without waiting.
    fn ask(&self, node: u16, lane: u8, token: u64, operations: Vec<DiskOperation>) {
        let request = DiskRequest { actor: ActorKind::Participant, lane, token, operations };
        let mut batch = vec![Asked { node: NodeId(node), worker: WorkerId(3), request }];
        self.disk().submit(&mut batch);
    }

    fn answer(&self) -> (NodeId, DiskReply) {
        let (worker, node, reply) = self.answers.recv_timeout(PATIENCE).expect("an answer");
        assert_eq!((worker, reply.actor), (WorkerId(3), ActorKind::Participant));
        (node, reply)
    }

    /// Asks and waits.
    fn run(&self, operations: Vec<DiskOperation>) -> Outcome {
        self.ask(1, 0, 77, operations);
        let (node, reply) = self.answer();
        assert_eq!((node, reply.token), (NodeId(1), 77));
        reply.result
    }

    /// What a failing operation is answered with.
    fn failure(&self, operations: Vec<DiskOperation>) -> DiskError {
        self.run(operations).unwrap_err()
    }

    fn node(&self) -> PathBuf {
        self.root.join("node-1")
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on each engine this machine has, with plain and with encrypted files.
fn on_both(test: impl Fn(&Bench)) {
    on_plain(&test);
    on_encrypted(&test);
}

fn on_plain(test: impl Fn(&Bench)) {
    engines().for_each(|engine| test(&Bench::new(engine)));
}

fn on_encrypted(test: impl Fn(&Bench)) {
    engines().for_each(|engine| test(&Bench::with(engine, true)));
}

fn engines() -> impl Iterator<Item = DiskEngine> {
    let ring = Ring::<()>::new().is_ok().then_some(DiskEngine::Uring);
    [DiskEngine::Threads].into_iter().chain(ring)
}

fn write(path: &str, offset: u64, bytes: &[u8]) -> DiskOperation {
    DiskOperation::Write { path: path.into(), offset, bytes: bytes.to_vec() }
}

fn read(path: &str, offset: u64, length: u64) -> DiskOperation {
    DiskOperation::Read { path: path.into(), offset, length }
}

fn sync(path: &str) -> DiskOperation {
    DiskOperation::Sync { path: path.into() }
}

fn remove(path: &str) -> DiskOperation {
    DiskOperation::Remove { path: path.into() }
}

fn directory(path: &str) -> DiskOperation {
    DiskOperation::CreateDirectory { path: path.into() }
}

fn list(path: &str) -> DiskOperation {
    DiskOperation::List { path: path.into() }
}

fn bytes(bytes: &[u8]) -> DiskAnswer {
    DiskAnswer::Bytes(bytes.to_vec())
}

#[test]
fn the_engine_is_the_one_asked_for() {
    assert_eq!(Bench::new(DiskEngine::Threads).disk().engine_name(), "threads");
    let has_ring = Ring::<()>::new().is_ok();
    let expected = if has_ring { "io_uring" } else { "threads" };
    assert_eq!(Bench::new(DiskEngine::Auto).disk().engine_name(), expected);
}

#[test]
fn files_are_written_synced_and_read() {
    on_both(|bench| {
        let first = vec![directory("w"), write("w/log", 0, b"abc"), sync("w/log")];
        assert_eq!(bench.run(first), Ok(vec![DiskAnswer::Done; 3]));
        // The file is open now.
        let second = vec![write("w/log", 3, b"defg"), sync("w/log"), read("w/log", 1, 4)];
        let done = DiskAnswer::Done;
        assert_eq!(bench.run(second), Ok(vec![done.clone(), done.clone(), bytes(b"bcde")]));
        let all = vec![read("w/log", 0, u64::MAX), read("w/log", 5, 100), read("w/log", 99, 5)];
        assert_eq!(bench.run(all), Ok(vec![bytes(b"abcdefg"), bytes(b"fg"), bytes(b"")]));
        let nothing = vec![write("w/log", 7, b""), directory("w"), read("w/log", 6, 9)];
        assert_eq!(bench.run(nothing), Ok(vec![done.clone(), done, bytes(b"g")]));
        assert_eq!(bench.run(Vec::new()), Ok(Vec::new()));
        let file = fs::read(bench.node().join("w/log")).unwrap();
        match &bench.keys {
            None => assert_eq!(file, b"abcdefg"),
            Some(keys) => {
                assert_eq!(file.len() as u64, HEADER + 7);
                assert_eq!(keys.open_file(file).unwrap(), b"abcdefg");
            }
        }
    });
}

#[test]
fn what_was_not_written_is_zeros() {
    on_plain(|bench| {
        for path in ["fresh", "open"] {
            bench.run(vec![write("open", 0, b"x")]).unwrap();
            let answers = bench.run(vec![write(path, 5, b"end"), read(path, 1, 7)]).unwrap();
            assert_eq!(answers[1], bytes(b"\0\0\0\0end"));
        }
    });
}

#[test]
fn space_is_set_aside_without_changing_the_file() {
    on_both(|bench| {
        let reserve = DiskOperation::Reserve { path: "log".into(), length: 1 << 20 };
        bench.run(vec![reserve.clone(), write("log", 0, b"abc"), reserve]).unwrap();
        assert_eq!(bench.run(vec![read("log", 0, 10)]), Ok(vec![bytes(b"abc")]));
        let files = vec![("log".to_string(), 3)];
        assert_eq!(bench.run(vec![list("")]), Ok(vec![DiskAnswer::Files(files)]));
    });
}

#[test]
fn names_change_at_once() {
    on_both(|bench| {
        bench
            .run(vec![directory("w"), write("w/b", 0, b"older"), write("w/a", 0, b"new")])
            .unwrap();
        let rename = DiskOperation::Rename { from: "w/a".into(), to: "w/b".into() };
        let durable = DiskOperation::SyncDirectory { path: "w".into() };
        let root = DiskOperation::SyncDirectory { path: String::new() };
        let read_both = vec![rename, durable, root, read("w/b", 0, 10)];
        assert_eq!(bench.run(read_both).unwrap()[3], bytes(b"new"));
        assert_eq!(bench.failure(vec![read("w/a", 0, 1)]).kind, DiskErrorKind::Missing);
        // A name that is used again is another file, to every lane.
        bench.run(vec![remove("w/b"), remove("w/b"), remove("none/at/all")]).unwrap();
        bench.ask(1, 9, 5, vec![write("w/b", 0, b"0"), sync("w/b"), read("w/b", 0, 10)]);
        assert_eq!(bench.answer().1.result.unwrap()[2], bytes(b"0"));
    });
}

#[test]
fn a_directory_is_listed_by_name() {
    on_both(|bench| {
        assert_eq!(bench.run(vec![list("w")]), Ok(vec![DiskAnswer::Files(vec![])]));
        let files = vec![write("w/b", 0, b"12"), write("w/a", 0, b""), write("w/c", 0, b"1")];
        bench.run(vec![directory("w"), directory("w/below")]).unwrap();
        bench.run(files).unwrap();
        let files = [("a", 0), ("b", 2), ("c", 1)].map(|(name, size)| (name.to_string(), size));
        assert_eq!(bench.run(vec![list("w")]), Ok(vec![DiskAnswer::Files(files.to_vec())]));
    });
}

#[test]
fn a_request_ends_with_its_first_failure() {
    on_both(|bench| {
        let error =
            bench.failure(vec![write("a", 0, b"1"), read("none", 0, 1), write("b", 0, b"")]);
        assert_eq!((error.at, error.kind), (1, DiskErrorKind::Missing));
        let path = bench.node().join("none");
        let text = format!("cannot read {}: No such file or directory", path.display());
        assert!(error.text.starts_with(&text), "{error}");
        assert!(bench.node().join("a").exists() && !bench.node().join("b").exists());
        assert_eq!(bench.failure(vec![sync("none")]).kind, DiskErrorKind::Failed);
        assert_eq!(bench.failure(vec![write("w/none", 0, b"1")]).kind, DiskErrorKind::Missing);
        bench.run(vec![directory("w")]).unwrap();
        assert_eq!(bench.failure(vec![write("w", 0, b"1")]).kind, DiskErrorKind::Failed);
        // The lane goes on.
        bench.run(vec![write("b", 0, b"1")]).unwrap();
    });
}

#[test]
fn a_full_disk_is_told_apart() {
    on_both(|bench| {
        symlink("/dev/full", bench.node().join("full")).unwrap();
        // First by a helper, then with the descriptor that is open.
        for _ in 0..2 {
            let error = bench.failure(vec![write("full", 0, b"1")]);
            assert_eq!((error.at, error.kind), (0, DiskErrorKind::Full), "{error}");
        }
        let path = bench.node().join("full");
        let text = format!("cannot write {}: No space left on device", path.display());
        assert!(bench.failure(vec![write("full", 9, b"1")]).text.starts_with(&text));
        let reserve = DiskOperation::Reserve { path: "huge".into(), length: 1 << 60 };
        let kind = bench.failure(vec![reserve]).kind;
        // Some file systems cannot even think of such a file.
        assert!(matches!(kind, DiskErrorKind::Full | DiskErrorKind::Failed), "{kind:?}");
    });
}

#[test]
fn a_failed_sync_is_never_called_anything_else() {
    let bench = Bench::new(DiskEngine::Threads);
    let directory = &NodeDirectory::new(bench.node(), None);
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::NOENT] {
        let failure = directory.failure(4, &sync("log"), &errno.into());
        assert_eq!((failure.at, failure.kind), (4, DiskErrorKind::Failed));
        let failure = directory.failure(0, &write("log", 0, b""), &errno.into());
        assert_eq!(failure.kind == DiskErrorKind::Failed, errno == Errno::IO);
    }
}

#[test]
fn requests_of_a_lane_are_in_order() {
    on_both(|bench| {
        // Each lane appends to its own file; every request reads what those before have written.
        const REQUESTS: u64 = 100;
        const LANES: u8 = 10;
        for number in 0..REQUESTS {
            for lane in 0..LANES {
                let path = format!("lane-{lane}");
                let byte = [number as u8];
                let mut operations = vec![write(&path, number, &byte), read(&path, 0, u64::MAX)];
                if number % 10 == 0 {
                    operations.insert(1, sync(&path));
                }
                let token = u64::from(lane) * 1_000 + number;
                bench.ask(1 + u16::from(lane % 2), lane, token, operations);
            }
        }
        let mut next = [0; LANES as usize];
        for _ in 0..REQUESTS * u64::from(LANES) {
            let (node, reply) = bench.answer();
            let (lane, number) = (reply.token / 1_000, reply.token % 1_000);
            assert_eq!(node, NodeId(1 + (lane % 2) as u16));
            assert_eq!(std::mem::replace(&mut next[lane as usize], number + 1), number);
            let expected: Vec<u8> = (0..=number as u8).collect();
            assert_eq!(*reply.result.unwrap().last().unwrap(), bytes(&expected));
        }
    });
}

#[test]
fn a_thousand_lanes_at_once() {
    on_plain(|bench| {
        let mut asked: Vec<Asked> = (0..1_000)
            .map(|token: u64| {
                let path = format!("file-{}", token % 500);
                let at = token * 10;
                let operations = vec![write(&path, at, b"0123456789"), read(&path, at, 10)];
                let (actor, lane) = (ActorKind::Participant, (token % 250) as u8);
                let request = DiskRequest { actor, lane, token, operations };
                let worker = WorkerId((token / 250) as u8);
                Asked { node: NodeId(1 + (token % 2) as u16), worker, request }
            })
            .collect();
        bench.disk().submit(&mut asked);
        assert!(asked.is_empty());
        let mut tokens: Vec<u64> = (0..1_000)
            .map(|_| {
                let (worker, _, reply) = bench.answers.recv_timeout(PATIENCE).expect("an answer");
                assert_eq!(u64::from(worker.0), reply.token / 250);
                assert_eq!(reply.result.unwrap()[1], bytes(b"0123456789"));
                reply.token
            })
            .collect();
        tokens.sort_unstable();
        assert!((0..1_000).eq(tokens));
    });
}

#[test]
fn the_end_waits_for_what_has_begun() {
    for engine in [DiskEngine::Threads, DiskEngine::Auto] {
        let mut bench = Bench::new(engine);
        let large = vec![7; 8 << 20];
        for token in 0..4 {
            let path = format!("file-{token}");
            bench.ask(1, token as u8, token, vec![write(&path, 0, b"-"), write(&path, 1, &large)]);
        }
        // Dropping the disk is what waits.
        bench.disk = None;
        for token in 0..4 {
            let about = fs::metadata(bench.node().join(format!("file-{token}"))).unwrap();
            assert_eq!(about.len(), 1 + (8 << 20));
        }
    }
}

#[test]
fn operations_of_a_ring_end_whole() {
    let Ok(mut ring) = Ring::new() else { return };
    let bench = Bench::new(DiskEngine::Threads);
    let path = bench.node().join("file");
    let file = fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let file = Arc::new(file);
    let text: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    ring.begin('w', file.clone(), Work::Write { offset: 3, bytes: text.clone() }).unwrap();
    ring.wait().unwrap();
    assert!(matches!(ring.landed(), Some(('w', Ok(_)))) && ring.landed().is_none());
    // More than the ring has places for, and beyond the end of the file.
    for at in 0..1_000 {
        let bytes = vec![0; 5_000];
        let offset = 3 + at * 3_000;
        ring.begin(char::from_u32(at as u32).unwrap(), file.clone(), Work::Read { offset, bytes })
            .unwrap();
    }
    for _ in 0..1_000 {
        let (name, outcome) = loop {
            match ring.landed() {
                Some(landed) => break landed,
                None => ring.wait().unwrap(),
            }
        };
        let Work::Read { bytes, .. } = outcome.unwrap() else { panic!("{name} was a read") };
        let from = u32::from(name) as usize * 3_000;
        assert_eq!(bytes, text[from..text.len().min(from + 5_000)]);
    }
    // Dropped with operations under way.
    for at in 0..100 {
        ring.begin('r', file.clone(), Work::Read { offset: at, bytes: vec![0; 100_000] }).unwrap();
    }
}

/// Whether some file below a directory has these bytes in it.
fn is_found(directory: &Path, wanted: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_found(&path, wanted);
        }
        let bytes = fs::read(&path).unwrap();
        bytes.windows(wanted.len()).any(|window| window == wanted)
    })
}

#[test]
fn nothing_of_what_is_encrypted_is_found() {
    let marker = b"0123456789abcdef0123456789abcdef";
    let search = |bench: &Bench| {
        let operations = vec![
            directory("w"),
            write("w/log", 0, b"begin"),
            write("w/log", 5, marker),
            write("w/log", 5 + 32, marker),
            write("w/durable.new", 0, &[0; 8_192]),
            write("w/durable.new", 4_096, marker),
            write("w/durable.new", 0, b"slot"),
            read("w/log", 0, 100),
            read("w/durable.new", 4_096, 32),
            list("w"),
        ];
        let answers = bench.run(operations).unwrap();
        let log = [&b"begin"[..], marker, marker].concat();
        assert_eq!(answers[7..9], [bytes(&log), bytes(marker)]);
        let files = [("durable.new", 8_192), ("log", 69)];
        let files = files.map(|(name, length)| (name.to_string(), length));
        assert_eq!(answers[9], DiskAnswer::Files(files.to_vec()));
        is_found(&bench.node(), marker)
    };
    on_plain(|bench| assert!(search(bench), "the search finds what is there"));
    on_encrypted(|bench| assert!(!search(bench)));
}

#[test]
fn a_key_stream_is_used_once() {
    on_encrypted(|bench| {
        bench.run(vec![write("log", 0, b"abcd"), write("log", 4, b"ef")]).unwrap();
        // The same again, and more, as after a disk that was full.
        bench.run(vec![write("log", 4, b"efgh"), write("log", 2, b"cd")]).unwrap();
        for (offset, other) in [(0, &b"abcx"[..]), (7, b"x"), (9, b"gap")] {
            let error = bench.failure(vec![write("log", offset, other)]);
            assert_eq!(error.kind, DiskErrorKind::Failed, "{error}");
        }
        // Also after the file has been opened anew.
        let again = NodeDirectory::new(bench.node(), bench.keys.clone());
        let error = again.carry_out(0, &write("log", 7, b"x")).unwrap_err();
        assert!(error.text.contains("other bytes are in this place already"), "{error}");
        again.carry_out(0, &write("log", 8, b"i")).unwrap();
        assert_eq!(bench.run(vec![read("log", 0, 99)]), Ok(vec![bytes(b"abcdefghi")]));
        // A name that is used again is another file, with another key stream.
        let first = fs::read(bench.node().join("log")).unwrap();
        bench.run(vec![remove("log"), write("log", 0, b"abcdefghi")]).unwrap();
        let second = fs::read(bench.node().join("log")).unwrap();
        assert_ne!(first[HEADER as usize..], second[HEADER as usize..]);
    });
}

#[test]
fn a_torn_append_leaves_what_was_there() {
    on_encrypted(|bench| {
        let text: Vec<u8> = (0..2_000_u32).map(|n| (n % 251) as u8).collect();
        bench.run(vec![write("log", 0, &text[..777]), sync("log")]).unwrap();
        let path = bench.node().join("log");
        let synced = fs::read(&path).unwrap();
        bench.run(vec![write("log", 777, &text[777..])]).unwrap();
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole[..synced.len()], synced, "an append touches nothing before it");
        for cut in (synced.len()..whole.len()).step_by(7) {
            let mut torn = whole[..cut].to_vec();
            fs::write(&path, &torn).unwrap();
            let read_all = || {
                let again = NodeDirectory::new(bench.node(), bench.keys.clone());
                match again.carry_out(0, &read("log", 0, 9_999)) {
                    Ok(DiskAnswer::Bytes(bytes)) => bytes,
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(read_all(), text[..cut - HEADER as usize]);
            // The file may have its new length all the same.
            torn.resize(whole.len(), 0);
            fs::write(&path, &torn).unwrap();
            let kept = cut - HEADER as usize;
            let found = read_all();
            assert_eq!(found[..kept], text[..kept]);
            // What was not written is zeros, from the second whole block of the cipher on.
            let second = kept.next_multiple_of(AES) + AES;
            assert!(found[second.min(found.len())..].iter().all(|byte| *byte == 0), "{kept}");
        }
    });
}

#[test]
fn a_torn_block_leaves_the_other_ones() {
    on_encrypted(|bench| {
        let begin = vec![write("durable", 0, &[0; 8_192]), write("durable", 0, b"first")];
        bench.run(begin).unwrap();
        let path = bench.node().join("durable");
        let before = fs::read(&path).unwrap();
        bench.run(vec![write("durable", 4_096, b"second")]).unwrap();
        let after = fs::read(&path).unwrap();
        let second = HEADER as usize + 4_096;
        assert_eq!(before[..second], after[..second], "a block is written by itself");
        let mut whole = 0;
        for kept in 0..=after.len() - second {
            let mut torn = before.clone();
            torn.resize(after.len(), 0);
            torn[second..second + kept].copy_from_slice(&after[second..second + kept]);
            fs::write(&path, torn).unwrap();
            let again = NodeDirectory::new(bench.node(), bench.keys.clone());
            let slot = |at| again.carry_out(0, &read("durable", at, 6)).unwrap();
            assert_eq!(slot(0), bytes(b"first\0"));
            let found = slot(4_096);
            whole += usize::from(found == bytes(b"second"));
            assert!(found == bytes(b"second") || found == bytes(&[0; 6]), "{found:?}");
        }
        assert!(whole > 0);
    });
}

#[test]
fn plain_files_are_read_and_never_written_where_all_is_to_be_encrypted() {
    on_encrypted(|bench| {
        fs::write(bench.node().join("old"), b"plain text").unwrap();
        assert_eq!(bench.run(vec![read("old", 0, 99)]), Ok(vec![bytes(b"plain text")]));
        let files = vec![("old".to_string(), 10)];
        assert_eq!(bench.run(vec![list("")]), Ok(vec![DiskAnswer::Files(files)]));
        let error = bench.failure(vec![write("old", 10, b"!")]);
        assert!(error.text.contains("it is not encrypted, and is to be"), "{error}");
        bench.run(vec![remove("old"), write("old", 0, b"new")]).unwrap();
        assert!(!is_found(&bench.node(), b"new"));
    });
}

#[test]
fn a_damaged_header_is_read_from_its_copy() {
    on_encrypted(|bench| {
        bench.run(vec![write("log", 0, b"abc")]).unwrap();
        let path = bench.node().join("log");
        let whole = fs::read(&path).unwrap();
        let read_all = |file: &[u8]| {
            fs::write(&path, file).unwrap();
            let again = NodeDirectory::new(bench.node(), bench.keys.clone());
            again.carry_out(0, &read("log", 0, 1 << 20)).unwrap()
        };
        let half = HEADER as usize / 2;
        for at in [0, 9, 30, 50, half, half + 9, half + 30, half + 50] {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            assert_eq!(read_all(&damaged), bytes(b"abc"), "byte {at}");
        }
        // Without a header it is what it is, and no log.
        let mut lost = whole.clone();
        lost[..HEADER as usize].fill(0);
        assert_eq!(read_all(&lost), bytes(&lost));
    });
}
