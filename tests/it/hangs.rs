//! Parts of a cluster that stand still, are late or end in good order: what clients notice of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL};
use tests::{all, number};

use crate::processes::{Counter, open};
use crate::threads::two_cpus;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A thread of another process that takes no step, as under a debugger.
struct Stopped {
    tracer: Child,
}

impl Stopped {
    /// Stops a thread by its name; why not, where there is none or the system does not let us.
    fn start(process: u32, name: &str) -> Result<Self, String> {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process runs");
        let is_it = |task: &fs::DirEntry| {
            let of = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            of.trim() == name
        };
        let task = tasks.flatten().find(is_it).ok_or(format!("there is no thread {name}"))?;
        let number = task.file_name().into_string().expect("a number");
        let mut tracer = Command::new("python3");
        tracer.args(["-c", TRACER, &number]).stdout(Stdio::piped());
        let mut tracer = tracer.spawn().expect("python3 starts");
        let mut told = String::new();
        let output = tracer.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut told).expect("it says what it did");
        if told.trim() == "stopped" {
            return Ok(Self { tracer });
        }
        let _ = tracer.wait();
        Err(told)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}

/// Stops a thread, says so, and waits for its end.
const TRACER: &str = r#"
import ctypes, os, sys
thread, all_children = int(sys.argv[1]), 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
seize, interrupt = 0x4206, 0x4207
for request in (seize, interrupt):
    if libc.ptrace(request, thread, 0, 0) != 0:
        print(os.strerror(ctypes.get_errno()), flush=True)
        sys.exit()
os.waitpid(thread, all_children)
print("stopped", flush=True)
os.waitpid(thread, all_children)
"#;

/// Threads with CPUs of their own, so that each does the work of its own worker.
fn bound() -> String {
    let (first, last) = two_cpus();
    format!("ThreadConfig=ldm={{cpubind={first}}},ldm={{cpubind={last}}}")
}

/// Waits until the books of a counter grow.
fn goes_on(counter: &Counter) {
    let (before, began) = (counter.done(), Instant::now());
    while counter.done() < before + 20 {
        assert!(began.elapsed() < PATIENCE, "no statement is answered any more");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_hung_thread_ends_its_process_and_costs_no_statement() {
    for (node, hung) in [(2, "worker-1"), (1, "worker-0"), (2, "links")] {
        let mut cluster = Processes::prepare(SMALL, &bound());
        cluster.start_all();
        let counter = Counter::start(&cluster, SQL);
        goes_on(&counter);
        if let Err(why) = hang(&mut cluster, node, hung) {
            return println!("skipped: the thread is not stopped: {why}");
        }
        goes_on(&counter);
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
        counter.check(&cluster, SQL);
    }
}

/// Stops a thread of a node until its process has ended; why not, where the system does not let us.
fn hang(cluster: &mut Processes, node: u16, thread: &str) -> Result<(), String> {
    let stopped = Stopped::start(cluster.process_id(node), thread)?;
    // Nobody but the node itself knows that it hangs, and it ends although a thread cannot.
    assert_eq!(cluster.wait_for_end(node), Some(70), "{}", cluster.log(node));
    drop(stopped);
    let log = cluster.log(node);
    assert!(log.contains(&format!("the thread {thread} has stood still for")), "{log}");
    assert!(log.contains("stopped by a signal or a debugger"), "{log}");
    Ok(())
}

#[test]
fn a_node_without_rows_ends_when_a_thread_of_it_hangs() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    for node in [SQL + 1, MANAGEMENT] {
        for hung in ["worker-0", "links"] {
            goes_on(&counter);
            let mut client = (node != MANAGEMENT).then(|| open(&cluster, node));
            if let Err(why) = hang(&mut cluster, node, hung) {
                return println!("skipped: the thread is not stopped: {why}");
            }
            if let Some(client) = &mut client {
                assert!(client.query("SELECT 1").is_err(), "the client knows that it is gone");
            }
            goes_on(&counter);
            cluster.start_node(node);
        }
    }
    number(&mut open(&cluster, SQL + 1), "SELECT COUNT(*) FROM d.counts");
    counter.check(&cluster, SQL);
}

/// The thread that works the disk is stopped: then nothing that the disk is asked is answered.
#[test]
fn a_disk_that_never_answers_ends_its_node_and_holds_nobody_up_before() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    goes_on(&counter);
    let stopped = match Stopped::start(cluster.process_id(2), "disk-ring") {
        Ok(stopped) => stopped,
        Err(why) => return println!("skipped: {why}"),
    };
    while cluster.runs(2) {
        goes_on(&counter);
    }
    drop(stopped);
    assert_eq!(cluster.wait_for_end(2), Some(70), "{}", cluster.log(2));
    let log = cluster.log(2);
    assert!(log.contains("the disk has not answered for"), "{log}");
    goes_on(&counter);
    cluster.start_node(2);
    cluster.wait_until_complete(SQL);
    counter.check(&cluster, SQL);
}

#[test]
fn a_short_pause_of_a_node_costs_no_membership() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    for node in cluster.data_nodes() {
        goes_on(&counter);
        cluster.signal(node, "-STOP");
        thread::sleep(Duration::from_millis(300));
        cluster.signal(node, "-CONT");
        goes_on(&counter);
        assert!(cluster.runs(node), "{}", cluster.log(node));
    }
    let log = cluster.log(MANAGEMENT);
    assert!(!log.contains("lost"), "{log}");
    counter.check(&cluster, SQL);
}

/// With this interval a process that waited for a save at its end would take a minute.
#[test]
fn a_node_that_has_left_waits_for_nothing() {
    let mut cluster = Processes::prepare(SMALL, "TimeBetweenGlobalCheckpoints=20000");
    cluster.start_all();
    let counter = Counter::start(&cluster, SQL);
    goes_on(&counter);
    let began = Instant::now();
    assert_eq!(cluster.stop(1), Some(0), "{}", cluster.log(1));
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    goes_on(&counter);
    counter.check(&cluster, SQL);
}

#[test]
fn a_large_change_costs_nobody_its_membership() {
    let cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    let mut session = open(&cluster, SQL + 1);
    all(&mut session, &["CREATE TABLE d.large (id INT PRIMARY KEY, t TEXT)"]);
    for from in (0..6_000).step_by(500) {
        let rows: Vec<String> =
            (from..from + 500).map(|id| format!("({id}, REPEAT('a', 5000))")).collect();
        all(&mut session, &[&format!("INSERT INTO d.large VALUES {}", rows.join(","))]);
    }
    all(&mut session, &["UPDATE d.large SET t = REPEAT('b', 5000)"]);
    goes_on(&counter);
    all(&mut session, &["BEGIN", "UPDATE d.large SET t = REPEAT('c', 5000)", "ROLLBACK"]);
    goes_on(&counter);
    let sum = "SELECT SUM(t = REPEAT('b', 5000)) FROM d.large";
    assert_eq!(number(&mut session, sum), 6_000);
    all(&mut session, &["DELETE FROM d.large"]);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM d.large"), 0);
    let log = cluster.log(MANAGEMENT);
    assert!(!log.contains("lost"), "{log}");
    counter.check(&cluster, SQL);
}
