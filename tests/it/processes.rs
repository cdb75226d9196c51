//! Clusters of separate processes: what they survive, and what clients notice of it.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL};
use tests::{QueryError, Session, all, binary, number, run, text_of};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

/// Adds rows with autocommit until it is told to stop; how many were acknowledged. No statement may
/// fail.
pub(crate) struct Counter {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicI64>,
    thread: thread::JoinHandle<i64>,
}

impl Counter {
    pub(crate) fn start(cluster: &Processes, sql: u16) -> Self {
        let mut session = open(cluster, sql);
        all(
            &mut session,
            &[
                "CREATE DATABASE IF NOT EXISTS d",
                "CREATE TABLE d.counts (id INT PRIMARY KEY, n INT)",
            ],
        );
        let rows: Vec<String> = (0..32).map(|id| format!("({id}, 0)")).collect();
        all(&mut session, &[&format!("INSERT INTO d.counts VALUES {}", rows.join(","))]);
        let stop = Arc::new(AtomicBool::new(false));
        let (told, counted) = (stop.clone(), Arc::new(AtomicI64::new(0)));
        let (counter, socket) = (counted.clone(), cluster.socket(sql));
        let thread = thread::spawn(move || {
            let mut done = 0;
            while !told.load(Ordering::SeqCst) {
                let id = done % 32;
                let update = format!("UPDATE d.counts SET n = n + 1 WHERE id = {id}");
                while let Err(error) = session.execute(&update) {
                    // An SQL node that restarts lets its clients go: the statement was not begun.
                    assert_eq!(error.code(), Some(1053), "{update}: {error}");
                    session = connect_again(&socket);
                }
                done += 1;
                counter.store(done, Ordering::SeqCst);
            }
            done
        });
        Self { stop, done: counted, thread }
    }

    /// How many have been acknowledged so far.
    pub(crate) fn done(&self) -> i64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Ends it, and checks the sum.
    pub(crate) fn check(self, cluster: &Processes, sql: u16) {
        self.stop.store(true, Ordering::SeqCst);
        let done = self.thread.join().expect("no statement fails");
        assert!(done > 0);
        let sum = number(&mut open(cluster, sql), "SELECT SUM(n) FROM d.counts");
        assert_eq!(sum, done, "every change that was acknowledged is there, once");
    }
}

/// A connection to a node that is about to be there again.
fn connect_again(socket: &Path) -> Session {
    let began = Instant::now();
    loop {
        match Session::connect(socket) {
            Ok(session) => return session,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{}: {error}", socket.display()),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn any_sql_node_serves_any_client() {
    let cluster = Processes::start(SMALL);
    let (mut one, mut other) = (open(&cluster, SQL), open(&cluster, SQL + 1));
    all(&mut one, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(9))"]);
    all(&mut other, &["INSERT INTO d.t VALUES (1, 'x'), (2, 'y')"]);
    assert_eq!(number(&mut one, "SELECT COUNT(*) FROM d.t"), 2);
    all(&mut one, &["ALTER TABLE d.t ADD COLUMN c INT NOT NULL DEFAULT 5"]);
    assert_eq!(number(&mut other, "SELECT SUM(c) FROM d.t"), 10);
    // What one node defines the other knows at once, whatever is asked about it.
    for round in 0..20 {
        let (here, there) =
            if round % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        all(here, &[&format!("CREATE DATABASE d{round}")]);
        all(there, &[&format!("USE d{round}"), "CREATE TABLE t (a INT PRIMARY KEY)"]);
        all(here, &[&format!("INSERT INTO d{round}.t VALUES (1)")]);
        all(here, &[&format!("DROP TABLE d{round}.t")]);
        all(there, &[&format!("CREATE TABLE d{round}.t (b INT PRIMARY KEY)")]);
        all(here, &[&format!("INSERT INTO d{round}.t (b) VALUES (1)")]);
        all(there, &[&format!("DROP DATABASE d{round}")]);
    }
    all(&mut one, &["BEGIN", "UPDATE d.t SET b = 'z' WHERE a = 1"]);
    let locked = other.query("SELECT * FROM d.t WHERE a = 1 FOR UPDATE NOWAIT");
    assert!(matches!(locked, Err(QueryError::Refused(3572, _))), "{locked:?}");
    all(&mut one, &["COMMIT"]);
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM d.t WHERE b = 'z'"), 1);
}

#[test]
fn an_sql_node_without_a_cluster_refuses_clients() {
    let mut cluster = Processes::prepare(SMALL, "");
    let address = (Ipv4Addr::LOCALHOST, cluster.port(SQL));
    cluster.start_node(MANAGEMENT);
    cluster.launch(SQL);
    let began = Instant::now();
    while !cluster.log(SQL).contains("connected") {
        assert!(began.elapsed() < PATIENCE, "{}", cluster.log(SQL));
        thread::sleep(Duration::from_millis(10));
    }
    // It has its port, and nobody is to believe that it works.
    let refused = TcpStream::connect(address).map(|_| ()).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
    cluster.start_all();
    let mut greeting = [0; 5];
    let mut client = TcpStream::connect(address).expect("it listens");
    client.read_exact(&mut greeting).expect("it greets");
    assert_eq!(greeting[4], 10, "the version of the protocol");
}

/// A field of `/proc/…/status`; none if the process is not there.
fn status_of(process: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Kilobytes of memory in use by a process.
fn resident(process: u32) -> u64 {
    let size = status_of(process, "VmRSS").expect("it runs and has memory");
    size.trim_end_matches(" kB").parse().expect("a number")
}

/// The processes that keep the memory of another one until that has ended.
fn holders(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("there is one").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_process = |other: &u32| {
        status_of(*other, "PPid") == Some(process.to_string())
            && status_of(*other, "Name").as_deref() == Some("memory-holder")
    };
    numbers.filter(of_process).collect()
}

#[test]
fn a_killed_process_closes_its_sockets_before_its_memory_goes() {
    let mut cluster = Processes::start(SMALL);
    for node in [1, SQL] {
        let process = cluster.process_id(node);
        let [holder] = holders(process)[..] else { panic!("one, not {:?}", holders(process)) };
        // It has all of the memory, and nothing that a peer could see.
        let (shared, own) = (resident(holder), resident(process));
        assert!(shared * 10 > own * 9, "{shared} of {own} kB");
        let files = fs::read_dir(format!("/proc/{holder}/fd")).expect("it runs");
        assert_eq!(files.count(), 0);
        // A process group that is asked to end leaves it to its parent.
        let asked = Command::new("kill").args(["-TERM", &holder.to_string()]).status();
        assert!(asked.expect("kill runs").success());
        assert_eq!(holders(process), [holder]);
        cluster.kill(&[node]);
        let began = Instant::now();
        let lives = || status_of(holder, "State").is_some_and(|state| !state.starts_with('Z'));
        while lives() {
            assert!(began.elapsed() < PATIENCE, "it has outlived its parent");
            thread::sleep(Duration::from_millis(1));
        }
        cluster.start_node(node);
    }
}

#[test]
fn killed_and_frozen_data_nodes_cost_no_statement() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    for node in cluster.data_nodes() {
        cluster.kill(&[node]);
        thread::sleep(Duration::from_millis(300));
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    // A process that stands still is put out, and comes back by itself.
    cluster.signal(2, "-STOP");
    thread::sleep(Duration::from_secs(4));
    cluster.signal(2, "-CONT");
    cluster.wait_until_complete(SQL);
    cluster.wait_until_ready(2);
    assert_eq!(holders(cluster.process_id(2)).len(), 1, "that of its earlier life is gone");
    // So does one whose management node has gone.
    cluster.kill(&[MANAGEMENT]);
    thread::sleep(Duration::from_millis(500));
    cluster.start_node(MANAGEMENT);
    counter.check(&cluster, SQL);
}

/// Columns come, get wider and go while the table is written and read, and nodes die and return.
#[test]
fn columns_change_under_load_while_nodes_come_and_go() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    let mut definer = open(&cluster, SQL + 1);
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let changes = thread::spawn(move || {
        let mut rounds = 0;
        while !told.load(Ordering::SeqCst) || rounds < 3 {
            for change in [
                "ADD COLUMN extra INT NOT NULL DEFAULT 7",
                "ADD COLUMN word VARCHAR(10) DEFAULT 'w'",
                "MODIFY extra BIGINT, MODIFY word VARCHAR(700)",
                "RENAME COLUMN word TO text",
                "DROP COLUMN extra, DROP COLUMN text",
            ] {
                let change = format!("ALTER TABLE d.counts {change}, ALGORITHM=INSTANT, LOCK=NONE");
                all(&mut definer, &[&change]);
                assert_eq!(number(&mut definer, "SELECT COUNT(*) FROM d.counts WHERE n >= 0"), 32);
            }
            rounds += 1;
            // A row's layout is one byte: 255 changes, and then a copy.
            thread::sleep(Duration::from_millis(500));
        }
        rounds
    });
    for node in cluster.data_nodes() {
        cluster.kill(&[node]);
        thread::sleep(Duration::from_millis(300));
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    stop.store(true, Ordering::SeqCst);
    assert!(changes.join().expect("no change is refused") >= 3);
    counter.check(&cluster, SQL);
}

#[test]
fn nodes_are_restarted_in_turn_under_load_and_nobody_notices() {
    let mut cluster = Processes::start(SMALL);
    let counter = Counter::start(&cluster, SQL);
    let sysbench = |command: &str| {
        let mut program = Command::new("sysbench");
        program.args(["oltp_read_write", "--mysql-user=root", "--mysql-db=d", "--tables=1"]);
        program.args(["--table-size=2000", "--threads=4", "--time=20"]);
        // Deadlocks are the load's own.
        program.arg("--mysql-ignore-errors=1213");
        program.arg(format!("--mysql-socket={}", cluster.socket(SQL).display())).arg(command);
        program
    };
    text_of(&run(sysbench("prepare")), "sysbench prepare");
    let load = sysbench("run");
    let load = thread::spawn(move || run(load));
    for node in [1, 2, MANAGEMENT, 2, 1] {
        assert_eq!(cluster.stop(node), Some(0), "{}", cluster.log(node));
        assert!(cluster.log(node).contains("has left the cluster"), "{}", cluster.log(node));
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    let output = text_of(&load.join().expect("it ran"), "sysbench run");
    assert!(output.contains("total time"), "{output}");
    counter.check(&cluster, SQL);
}

#[test]
fn a_management_node_is_not_restarted_with_a_file_that_it_cannot_use() {
    let cluster = Processes::start(SMALL);
    let ctl = |order: &[&str]| {
        let mut program = Command::new(binary());
        program.arg("ctl").arg(format!("--connect=127.0.0.1:{}", cluster.port(MANAGEMENT)));
        program.args(order);
        run(program)
    };
    let refused = |why: &str| {
        let output = ctl(&["restart", &MANAGEMENT.to_string()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{why}: {said}");
        // Nothing has stopped.
        let shown = text_of(&ctl(&["show"]), "nines ctl show");
        assert!(shown.contains("is serving"), "{shown}");
    };
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    let write = |text: &str| fs::write(&file, text).expect("it can be written");
    write(&text.replace("DataMemory=128M", "DataMemry=128M"));
    refused("DataMemry");
    fs::remove_file(&file).expect("it was there");
    refused("cannot read");
    // What the control log has goes before what the file says, as soon as it is there.
    let copy = cluster.directory().join(format!("data/node-{MANAGEMENT}/configuration.ini"));
    let began = Instant::now();
    while !copy.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the control log has no configuration");
        thread::sleep(Duration::from_millis(20));
    }
    write(&text.replace("NoOfReplicas=2", "NoOfReplicas=1"));
    let said = text_of(&ctl(&["restart", &MANAGEMENT.to_string()]), "nines ctl restart");
    assert!(said.contains("is back"), "{said}");
}

#[test]
fn a_process_that_a_signal_ends_leaves_a_trace() {
    let mut cluster = Processes::start(SMALL);
    let mut session = open(&cluster, SQL);
    all(&mut session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    for (node, signal) in [(1, "SEGV"), (2, "ABRT"), (MANAGEMENT, "BUS")] {
        cluster.signal(node, &format!("-{signal}"));
        assert_eq!(cluster.wait_for_end(node), None, "the signal has ended it");
        let log = cluster.log(node);
        let said =
            log.lines().find(|line| line.contains(&format!("SIG{signal} ends this process")));
        let said = said.unwrap_or_else(|| panic!("node {node} says nothing:\n{log}"));
        let file = said.rsplit(' ').next().expect("a line has words");
        let trace = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(trace.starts_with(&format!("SIG{signal}")), "{trace}");
        assert!(trace.contains(&format!("== n{node}i")) && trace.contains(" > "), "{trace}");
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
}

#[test]
fn a_group_without_survivor_stops_the_cluster_and_its_disks_bring_it_back() {
    let layout = Layout { data: 4, replicas: 2, management: 1, sql: 1, disk: true };
    let mut cluster = Processes::start(layout);
    let mut session = open(&cluster, SQL);
    all(
        &mut session,
        &[
            "SET nines_durability = disk",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1), (2), (3), (4), (5), (6), (7), (8)",
        ],
    );
    // One of each group: a replica of everything is left.
    cluster.kill(&[1, 3]);
    all(&mut session, &["INSERT INTO d.t VALUES (9)"]);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM d.t"), 9);
    // The other of one group: nothing is served until its disk is back.
    cluster.kill(&[2]);
    let refused = session.query("INSERT INTO d.t VALUES (10), (11), (12), (13), (14)");
    assert!(matches!(refused, Err(QueryError::Refused(..))), "{refused:?}");
    cluster.start_all();
    cluster.wait_until_complete(SQL);
    let count = "SELECT COUNT(*) FROM d.t WHERE a < 10";
    assert_eq!(number(&mut open(&cluster, SQL), count), 9);
    // All at once.
    let nodes: Vec<u16> = cluster.nodes().collect();
    cluster.kill(&nodes);
    cluster.start_all();
    assert_eq!(number(&mut open(&cluster, SQL), count), 9);
}

#[test]
fn three_replicas_survive_two_losses() {
    let layout = Layout { data: 3, replicas: 3, management: 1, sql: 1, disk: false };
    let mut cluster = Processes::start(layout);
    let counter = Counter::start(&cluster, SQL);
    cluster.kill(&[1]);
    thread::sleep(Duration::from_millis(500));
    cluster.kill(&[3]);
    thread::sleep(Duration::from_millis(500));
    cluster.launch(1);
    cluster.launch(3);
    cluster.wait_until_complete(SQL);
    cluster.kill(&[2]);
    thread::sleep(Duration::from_millis(500));
    counter.check(&cluster, SQL);
}

#[test]
fn what_is_lost_in_memory_is_gone_and_sql_nodes_find_the_new_cluster() {
    let mut cluster = Processes::start(Layout { disk: false, sql: 1, ..SMALL });
    all(&mut open(&cluster, SQL), &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    cluster.kill(&[1, 2, MANAGEMENT]);
    cluster.start_all();
    let began = Instant::now();
    loop {
        let made = cluster.session(SQL).and_then(|mut s| s.query("CREATE DATABASE d"));
        match made {
            Ok(_) => break,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn who_does_not_belong_is_refused() {
    let mut cluster = Processes::start(Layout { sql: 1, ..SMALL });
    // A second process for a node that lives, and one for a node that is not there.
    for (options, why) in [
        (["--node-id=1"], "is connected already"),
        (["--node-id=7"], "not in the configuration"),
        (["--node-id=51"], "is a sql node"),
    ] {
        let mut stranger = Command::new(binary());
        stranger.args(["data", "-c", &format!("127.0.0.1:{}", cluster.port(MANAGEMENT))]);
        let output = run_for(stranger.args(options));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(why), "{options:?}: {text}");
        assert_eq!(output.status.code(), Some(1), "{text}");
    }
    // Noise at the ports of nodes.
    for node in [1, MANAGEMENT] {
        let mut stranger = TcpStream::connect(("127.0.0.1", cluster.port(node))).unwrap();
        let _ = std::io::Write::write_all(&mut stranger, &[0xA5; 100_000]);
    }
    all(&mut open(&cluster, SQL), &["CREATE DATABASE d"]);
    for node in cluster.nodes() {
        assert!(cluster.runs(node), "node {node}");
    }
}

/// Without a management node a process has nothing to serve: it says so, refuses clients at once,
/// and ends when it is told to.
#[test]
fn who_waits_for_a_management_node_refuses_clients_and_ends_at_the_first_signal() {
    let mut cluster = Processes::prepare(Layout { sql: 1, ..SMALL }, "");
    for node in [SQL, 1] {
        cluster.launch(node);
        while !cluster.log(node).contains("waits for a management node") {
            assert!(cluster.runs(node), "{}", cluster.log(node));
            thread::sleep(Duration::from_millis(10));
        }
    }
    let refused = TcpStream::connect(("127.0.0.1", cluster.port(SQL))).map(drop);
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::ConnectionRefused));
    let refused = std::os::unix::net::UnixStream::connect(cluster.socket(SQL)).map(drop);
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::ConnectionRefused));
    let socket = cluster.socket(SQL);
    for node in [SQL, 1] {
        assert_eq!(cluster.stop(node), Some(0), "{}", cluster.log(node));
    }
    assert!(!socket.exists(), "the socket's file is removed");
    cluster.start_all();
    assert_eq!(number(&mut open(&cluster, SQL), "SELECT 5"), 5);
}

#[test]
fn the_demonstration_accounts_for_everything() {
    let mut demo = Command::new(binary());
    let output = run_for(demo.args(["demo", "--seconds=14"]));
    let text = text_of(&output, "nines demo");
    assert!(text.contains("kill -9 of data node 1"), "{text}");
    assert!(text.contains("data node 1 has all rows again"), "{text}");
    assert!(text.contains("nothing was lost"), "{text}");
}

fn run_for(command: &mut Command) -> std::process::Output {
    let name = format!("{command:?}");
    command.output().unwrap_or_else(|error| panic!("{name}: {error}"))
}
