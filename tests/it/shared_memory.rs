//! Links through memory that processes of a host share: what becomes of them when a process ends,
//! and what is used where there is no such memory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use tests::binary;
use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL};

use super::processes::Counter;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until more statements were answered.
fn goes_on(counter: &Counter) {
    let (before, began) = (counter.done(), Instant::now());
    while counter.done() < before + 20 {
        assert!(began.elapsed() < PATIENCE, "no statement is answered any more");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The lines of a node's log that tell how links are made.
fn made(cluster: &Processes, node: u16) -> Vec<String> {
    let log = cluster.log(node);
    log.lines().filter(|line| line.contains(" connected, ")).map(str::to_owned).collect()
}

#[test]
fn processes_that_share_memory_survive_the_end_of_each_other() {
    let mut cluster = Processes::prepare(SMALL, "");
    cluster.start_all();
    for node in cluster.nodes() {
        let made = made(&cluster, node);
        assert!(!made.is_empty(), "node {node} tells of its links");
        for line in made {
            assert!(line.ends_with(" connections by shared memory"), "node {node}: {line}");
        }
    }
    let counter = Counter::start(&cluster, SQL);
    goes_on(&counter);
    for node in [2, 1, MANAGEMENT, SQL + 1] {
        cluster.kill(&[node]);
        goes_on(&counter);
        cluster.start_node(node);
        if node < MANAGEMENT {
            cluster.wait_until_complete(SQL);
        }
        goes_on(&counter);
    }
    counter.check(&cluster, SQL);
}

/// Runs the program of a node, to which the system gives no memory to share.
const WITHOUT_MEMORY: &str = r#"#!/usr/bin/env python3
import ctypes, os, platform, struct, sys
call = {"x86_64": 319, "aarch64": 279}[platform.machine()]
load, equal, answer, error = 0x20, 0x15, 0x06, 0x50000 | 12
rules = [(load, 0, 0, 0), (equal, 0, 1, call), (answer, 0, 0, error), (answer, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in (38, 1, 0, 0, 0), (22, 2, ctypes.byref(program), 0, 0):
    if libc.prctl(*arguments) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.execv("BINARY", ["BINARY", *sys.argv[1:]])
"#;

#[test]
fn without_memory_to_share_links_go_by_sockets_and_say_so() {
    let mut cluster = Processes::prepare(SMALL, "");
    let program = cluster.directory().join("without-memory");
    let text = WITHOUT_MEMORY.replace("BINARY", &binary().display().to_string());
    fs::write(&program, text).expect("the directory is writable");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, executable).expect("the file is there");
    for node in cluster.nodes() {
        cluster.programs.insert(node, program.clone());
    }
    cluster.start_all();
    for node in cluster.nodes() {
        let made = made(&cluster, node);
        assert!(!made.is_empty(), "node {node} tells of its links");
        for line in made {
            assert!(line.ends_with(" Unix sockets"), "node {node}: {line}");
        }
    }
    // Whoever connects wants memory.
    let log = cluster.log(SQL);
    assert!(log.contains("go by Unix sockets, as shared memory cannot be had: "), "{log}");
    let counter = Counter::start(&cluster, SQL);
    goes_on(&counter);
    cluster.kill(&[2]);
    goes_on(&counter);
    // One that has it again does not need the others to have it: it offers it.
    cluster.programs.remove(&2);
    cluster.start_node(2);
    cluster.wait_until_complete(SQL);
    goes_on(&counter);
    counter.check(&cluster, SQL);
}
