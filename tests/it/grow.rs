//! Clusters that grow and shrink while clients work: no statement fails, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::cluster::{Layout, Processes, SQL};
use tests::{Session, all, number, said, text_of};

/// How long a move may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Clients at work.
pub(super) const CLIENTS: usize = 4;
/// Rows of each table that nobody changes: they make a copy take its time.
const REST: i64 = 20_000;
/// The first key of those.
const REST_FROM: i64 = 1_000_000;
/// Two node groups, of which the second comes later.
const TWO_GROUPS: Layout = Layout { data: 4, replicas: 2, management: 1, sql: 2, disk: true };
/// Tables that are moved.
const TABLES: [&str; 4] = ["g.plain", "g.counted", "g.parent", "g.child"];

/// Clients that write and read rows of their own, each statement a transaction.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<i64>>,
}

impl Clients {
    /// Clients that go on after so many rounds.
    pub(super) fn start(cluster: &Processes, done: &[i64]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |(number, done): (i64, &i64)| {
            let done = *done;
            let mut session = open(cluster, SQL + (number % 2) as u16);
            let stop = stop.clone();
            thread::spawn(move || {
                let mut round = done;
                while !stop.load(Ordering::SeqCst) {
                    write_and_read(&mut session, number * 100_000 + round);
                    round += 1;
                }
                round - done
            })
        };
        let threads = (0..).zip(done).map(client).collect();
        Self { stop, threads }
    }

    /// Ends them; how many rounds each has made. None of their statements has failed.
    pub(super) fn end(self) -> Vec<i64> {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.threads.into_iter().map(|thread| thread.join());
        let rounds: Vec<i64> = ended.map(|rounds| rounds.expect("no statement fails")).collect();
        assert!(rounds.iter().all(|rounds| *rounds > 0), "a client did nothing: {rounds:?}");
        rounds
    }
}

/// A row of each table is made, changed and read.
fn write_and_read(session: &mut Session, key: i64) {
    all(
        session,
        &[
            &format!("INSERT INTO g.plain VALUES ({key}, 'new')"),
            &format!("UPDATE g.plain SET b = 'changed' WHERE a = {key}"),
            &format!("INSERT INTO g.counted (b) VALUES ({key})"),
            &format!("INSERT INTO g.parent VALUES ({key}, 1)"),
            &format!("INSERT INTO g.child VALUES ({key}, {key})"),
            &format!("UPDATE g.parent SET b = b + 1 WHERE a = {key}"),
        ],
    );
    let joined = format!(
        "SELECT COUNT(*) FROM g.plain, g.counted, g.parent, g.child WHERE plain.a = {key} AND \
         plain.b = 'changed' AND counted.b = {key} AND parent.a = {key} AND parent.b = 2 AND \
         child.parent = {key}"
    );
    assert_eq!(number(session, &joined), 1, "{key}");
}

pub(super) fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).expect("an SQL node answers")
}

/// An order that succeeds; what it says.
#[track_caller]
pub(super) fn ctl(cluster: &Processes, order: &[&str]) -> String {
    text_of(&cluster.ctl(order), &format!("nines ctl {order:?}"))
}

/// An order that is refused; the reason.
#[track_caller]
pub(super) fn ctl_refused(cluster: &Processes, order: &[&str]) -> String {
    let output = cluster.ctl(order);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{order:?} is not refused");
    why
}

/// Waits until all tables are where new ones would be.
pub(super) fn wait_until_moved(cluster: &Processes) {
    let began = Instant::now();
    loop {
        let told = ctl(cluster, &["rebalance", "status"]);
        if told.contains("all tables are where new ones would be") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "tables are not moved:\n{told}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a condition holds.
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not so");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Makes tables with rows.
pub(super) fn fill(session: &mut Session) {
    all(
        session,
        &[
            "CREATE DATABASE g",
            "CREATE TABLE g.plain (a INT PRIMARY KEY, b VARCHAR(20), KEY (b))",
            "CREATE TABLE g.counted (a INT AUTO_INCREMENT PRIMARY KEY, b INT, UNIQUE KEY (b))",
            "CREATE TABLE g.parent (a INT PRIMARY KEY, b INT)",
            "CREATE TABLE g.child (a INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) \
             REFERENCES g.parent (a))",
            "CREATE VIEW g.seen AS SELECT a FROM g.plain",
        ],
    );
    for (table, last) in
        [("g.plain", "'rest'"), ("g.parent", "1"), ("g.child", "a"), ("g.counted (b)", "")]
    {
        for from in (REST_FROM..REST_FROM + REST).step_by(1_000) {
            let row = |key: i64| match last {
                "" => format!("({key})"),
                "a" => format!("({key}, {key})"),
                last => format!("({key}, {last})"),
            };
            let rows: Vec<String> = (from..from + 1_000).map(row).collect();
            said(session, &format!("INSERT INTO {table} VALUES {}", rows.join(", ")));
        }
    }
}

/// Every row is there that was acknowledged, and no other.
pub(super) fn check(session: &mut Session, rounds: &[i64]) {
    let written: i64 = rounds.iter().sum();
    for table in TABLES {
        assert_eq!(number(session, &format!("SELECT COUNT(*) FROM {table}")), REST + written);
    }
    let changed = "SELECT COUNT(*) FROM g.plain WHERE b = 'changed'";
    assert_eq!(number(session, changed), written);
    assert_eq!(number(session, "SELECT COUNT(*) FROM g.parent WHERE b = 2"), written);
    let orphans = "SELECT COUNT(*) FROM g.child LEFT JOIN g.parent ON child.parent = parent.a \
                   WHERE parent.a IS NULL";
    assert_eq!(number(session, orphans), 0);
    let distinct = "SELECT COUNT(DISTINCT b) FROM g.counted";
    assert_eq!(number(session, distinct), REST + written);
    assert_eq!(number(session, "SELECT COUNT(*) FROM g.seen"), REST + written);
}

#[test]
fn a_cluster_grows_and_shrinks_while_clients_write() {
    let mut cluster = Processes::prepare(TWO_GROUPS, "");
    cluster.keep_spare(&[3, 4]);
    cluster.start_all();
    fill(&mut open(&cluster, SQL));
    let why = ctl_refused(&cluster, &["create", "nodegroup", "3,4"]);
    assert!(why.contains("node 3 is not there"), "{why}");
    cluster.launch(3);
    cluster.launch(4);
    wait_until("nodes 3 and 4 have joined", || {
        cluster.ctl(&["create", "nodegroup", "3,4"]).status.success()
    });
    cluster.wait_until_ready(3);
    cluster.wait_until_ready(4);
    let shown = ctl(&cluster, &["show"]);
    assert!(!shown.contains("Warnings"), "{shown}");

    let clients = Clients::start(&cluster, &[0; CLIENTS]);
    ctl(&cluster, &["rebalance"]);
    wait_until_moved(&cluster);
    let mut rounds = clients.end();
    check(&mut open(&cluster, SQL), &rounds);
    let why = ctl_refused(&cluster, &["drop", "nodegroup", "1"]);
    assert!(why.contains("`drain 1` first"), "{why}");

    // The nodes that the cluster was founded with are those that leave.
    let clients = Clients::start(&cluster, &rounds);
    ctl(&cluster, &["drain", "0"]);
    wait_until_moved(&cluster);
    ctl(&cluster, &["drop", "nodegroup", "0"]);
    // All that there is has been on the other nodes since the order was accepted.
    cluster.kill(&[1, 2]);
    for (all, more) in rounds.iter_mut().zip(clients.end()) {
        *all += more;
    }
    check(&mut open(&cluster, SQL + 1), &rounds);
    assert_eq!(cluster.complete(SQL), Some(vec![3, 4]));
    let groups = ctl(&cluster, &["groups"]);
    assert!(groups.contains("3, 4") && !groups.contains("1, 2"), "{groups}");
}
