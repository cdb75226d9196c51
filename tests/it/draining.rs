//! SQL nodes that end or restart while clients use them: transactions that are open are finished,
//! nothing fails that was begun, and what is refused was not done. Behind HAProxy as
//! `docs/operate/load-balancer.md` has it, clients see no failed statement at all.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mysql_client::{Login, Target};
use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL};
use tests::{QueryError, Server, Session, all, free_port, number, refused, said, succeed, text_of};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The server ends; the statement was not begun.
const SHUTDOWN: u16 = 1053;

/// A cluster whose SQL nodes let their clients go in this way.
fn cluster(drain: &str) -> Processes {
    let mut cluster = Processes::prepare_watched_with(SMALL, drain);
    cluster.start_all();
    cluster
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The status and the text of a health check.
fn ready(port: u16) -> (String, String) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return Default::default() };
    let mut text = String::new();
    let _ = stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n");
    let _ = stream.read_to_string(&mut text);
    let status = text.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, text.split("\r\n\r\n").nth(1).unwrap_or_default().trim().to_owned())
}

#[test]
fn what_is_open_is_finished_and_what_takes_too_long_rolled_back() {
    let mut cluster = cluster("DrainNotice=700\nDrainTimeout=3000");
    let open = || cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    let (mut idle, mut works, mut sleeps) = (open(), open(), open());
    all(&mut idle, &["CREATE DATABASE d", "USE d", "CREATE TABLE t (n INT PRIMARY KEY)"]);
    all(&mut works, &["USE d", "BEGIN", "INSERT INTO t VALUES (1)"]);
    all(&mut sleeps, &["USE d", "BEGIN", "INSERT INTO t VALUES (100)"]);
    assert_eq!(ready(cluster.http_port(SQL)).0, "200");
    cluster.signal(SQL, "-TERM");
    // First it is only told that the node ends: everything goes on, and others are let in.
    let ended = ("503".to_owned(), "it is told to end, and lets its clients go".to_owned());
    wait_for("/ready says no", || ready(cluster.http_port(SQL)) == ended);
    assert_eq!(number(&mut open(), "SELECT COUNT(*) FROM d.t"), 0);
    said(&mut idle, "INSERT INTO t VALUES (50)");
    // Then nobody is, and whoever has nothing open is told so.
    wait_for("clients are refused", || cluster.session(SQL).is_err());
    let refusal = idle.execute("INSERT INTO t VALUES (51)").unwrap_err();
    assert_eq!(refusal.code(), Some(SHUTDOWN), "{refusal}");
    let waits = "waits up to 3 s (DrainTimeout) for clients that have something open: 2";
    wait_for(waits, || cluster.log(SQL).contains(waits));
    // A transaction goes on, and is the last.
    all(&mut works, &["INSERT INTO t VALUES (2)", "COMMIT"]);
    let refusal = works.execute("INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(refusal.code(), Some(SHUTDOWN), "{refusal}");
    assert_eq!(cluster.wait_for_end(SQL), Some(0));
    let log = cluster.log(SQL);
    for line in [
        "is told to end: /ready says no, and clients are served for 0.7 s",
        "clients that have not finished after 3 s (DrainTimeout): 1; what they have open is rolled",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
    let mut other = cluster.session(SQL + 1).unwrap_or_else(|error| panic!("{error}"));
    wait_for("what was left open is rolled back", || {
        other.execute("INSERT INTO d.t VALUES (100)").is_ok()
    });
    let found = other.query("SELECT GROUP_CONCAT(n ORDER BY n) FROM d.t").unwrap();
    assert_eq!(found[0][0].as_deref(), Some("1,2,50,100"));
}

#[test]
fn cursors_are_read_to_their_end_and_endless_answers_end() {
    let mut cluster = cluster("DrainTimeout=20000");
    let mut session = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE t (n INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1), (2), (3)",
            "CREATE CHANGEFEED f FOR TABLE t INTO 'sql'",
        ],
    );
    let mut reader = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    let stream = thread::spawn(move || reader.query("STREAM CHANGEFEED f").unwrap_err());
    let readers = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'STREAM%'";
    wait_for("the feed is read", || number(&mut session, readers) == 1);
    let began = Instant::now();
    cluster.signal(SQL, "-TERM");
    let end = stream.join().expect("no panic");
    assert_eq!(end.code(), Some(SHUTDOWN), "{end}");
    assert_eq!(cluster.wait_for_end(SQL), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "nobody waits for an endless answer");
    assert!(cluster.log(SQL).contains("has let all clients go"), "{}", cluster.log(SQL));
}

#[test]
fn shutdown_and_restart_are_statements() {
    let mut cluster = cluster("");
    let mut root = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    all(&mut root, &["CREATE USER u", "GRANT ALL ON *.* TO u", "REVOKE SHUTDOWN ON *.* FROM u"]);
    let mut user = Session::connect_as(&cluster.socket(SQL), "u").unwrap_or_else(|e| panic!("{e}"));
    for statement in ["SHUTDOWN", "RESTART"] {
        let refusal = refused(&mut user, statement);
        assert!(refusal.contains("1227") && refusal.contains("SHUTDOWN"), "{refusal}");
    }
    said(&mut root, "RESTART");
    wait_for("the node starts again", || cluster.log(SQL).contains("starts again"));
    cluster.wait_until_ready(SQL);
    wait_for("it serves again", || cluster.session(SQL).is_ok());
    let mut root = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    said(&mut root, "SHUTDOWN");
    assert_eq!(cluster.wait_for_end(SQL), Some(0));
}

#[test]
fn a_whole_cluster_in_one_process_is_shut_down_and_not_restarted() {
    let mut server = Server::start(&[]);
    let mut root = server.session().unwrap_or_else(|error| panic!("{error}"));
    let refusal = refused(&mut root, "RESTART");
    assert!(refusal.contains("3707") && refusal.contains("whole cluster"), "{refusal}");
    let mut program = server.client("mysqladmin");
    program.arg("shutdown");
    succeed(program);
    wait_for("it has ended", || !server.is_running());
}

/// HAProxy in front of the SQL nodes.
struct Balancer {
    child: Child,
    port: u16,
}

impl Balancer {
    /// With the configuration of the documentation, but that its checks are five times as fast.
    fn start(cluster: &Processes) -> Self {
        let port = free_port();
        let page = tests::workspace().join("docs/operate/load-balancer.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let recipe = page.split("```haproxy\n").nth(1).expect("the recipe is there");
        let mut recipe = recipe.split("```").next().expect("it has an end").to_owned();
        let mut change = |from: &str, to: &str| {
            assert!(recipe.contains(from), "{from} is in the recipe:\n{recipe}");
            recipe = recipe.replace(from, to);
        };
        change("bind :3306", &format!("bind 127.0.0.1:{port}"));
        change("inter 1s", "inter 200ms");
        for (at, node) in [SQL, SQL + 1].into_iter().enumerate() {
            let (sql, http) = (cluster.port(node), cluster.http_port(node));
            change(
                &format!("10.0.0.1{}:3306 port 9600", at + 1),
                &format!("127.0.0.1:{sql} port {http}"),
            );
        }
        let file = cluster.directory().join("haproxy.cfg");
        std::fs::write(&file, &recipe).expect("the directory is writable");
        let child = Command::new("/usr/sbin/haproxy")
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .spawn()
            .expect("haproxy is installed");
        let balancer = Self { child, port };
        wait_for("haproxy lets clients in", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        balancer
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients whose statements never fail, whatever happens to SQL nodes.
struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(i64, u64)>>,
}

impl Clients {
    fn start(port: u16) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number: i64| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut client = Client { port, session: connect(port), moved: 0 };
                let mut made = 0;
                while !stop.load(Ordering::SeqCst) {
                    client.round(number * 10_000_000 + made, made % 3 == 0);
                    made += 1;
                }
                (made, client.moved)
            })
        };
        let threads = (1..=8).map(client).collect();
        Self { stop, threads }
    }

    /// The number of rounds, and how often a client has gone to another SQL node.
    fn end(self) -> (i64, u64) {
        self.stop.store(true, Ordering::SeqCst);
        let ends =
            self.threads.into_iter().map(|thread| thread.join().expect("no statement fails"));
        ends.fold((0, 0), |(made, moved), end| (made + end.0, moved + end.1))
    }
}

struct Client {
    port: u16,
    session: Session,
    moved: u64,
}

impl Client {
    /// A row, alone or with another one in a transaction that takes a moment.
    fn round(&mut self, key: i64, alone: bool) {
        let insert = |of: i64| format!("INSERT INTO d.t VALUES ({of}, CONNECTION_ID())");
        if alone {
            return self.first(&insert(key));
        }
        self.first("BEGIN");
        let mut go_on = |statement: &str| {
            let done = self.session.execute(statement);
            done.unwrap_or_else(|error| panic!("{statement}, in a transaction: {error}"));
        };
        go_on(&insert(key));
        thread::sleep(Duration::from_millis(2));
        go_on(&insert(key + 5_000_000));
        go_on("COMMIT");
    }

    /// A statement outside of a transaction. One that is refused because the node ends was not
    /// begun: the client says the same to another node.
    fn first(&mut self, statement: &str) {
        loop {
            match self.session.execute(statement) {
                Ok(_) => return,
                Err(QueryError::Refused(SHUTDOWN, _)) => {
                    self.session = connect(self.port);
                    self.moved += 1;
                }
                Err(error) => panic!("{statement}: {error}"),
            }
        }
    }
}

fn connect(port: u16) -> Session {
    let target = Target::Tcp("127.0.0.1".into(), port);
    let prove = |_: &[u8], _: &[u8]| Vec::new();
    let (user, password) = ("app".to_owned(), String::new());
    let login = Login { user, password, prove, prove_natively: None, encrypt: None };
    Session::log_in(&target, &login).unwrap_or_else(|error| panic!("connecting: {error}"))
}

#[test]
fn behind_haproxy_all_nodes_are_restarted_without_a_failed_statement() {
    let cluster = cluster("DrainNotice=1000");
    let mut root = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    all(
        &mut root,
        &[
            "CREATE USER app",
            "CREATE DATABASE d",
            "GRANT ALL ON d.* TO app",
            "CREATE TABLE d.t (n BIGINT PRIMARY KEY, c BIGINT UNSIGNED)",
        ],
    );
    let balancer = Balancer::start(&cluster);
    let clients = Clients::start(balancer.port);
    let order = |words: &[&str]| {
        let output = cluster.ctl(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        text_of(&output, "nines")
    };
    for node in [SQL, SQL + 1, SQL] {
        let told = order(&["restart", &node.to_string()]);
        assert!(told.contains(&format!("node {node}: lets its clients go")), "{told}");
        assert!(told.contains(&format!("node {node}: is back after")), "{told}");
    }
    let told = order(&["restart", "all", "--rolling"]);
    assert!(told.contains("5 nodes have been restarted"), "{told}");
    let (made, moved) = clients.end();
    assert!(made > 100 && moved > 16, "{made} rounds, {moved} moves");
    let mut root = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    let firsts = "SELECT COUNT(*) FROM d.t WHERE n % 10000000 < 5000000";
    assert_eq!(number(&mut root, firsts), made, "each acknowledged row is there once");
}

#[test]
fn an_upgrade_restarts_all_nodes_in_turn_sql_nodes_too() {
    let mut cluster = cluster("");
    let told = text_of(&cluster.ctl(&["upgrade"]), "nines");
    let restarts: Vec<usize> = [MANAGEMENT, 1, 2, SQL, SQL + 1]
        .iter()
        .map(|node| {
            told.find(&format!("node {node}: restarts")).unwrap_or_else(|| panic!("{told}"))
        })
        .collect();
    assert!(restarts[0] < restarts[1].min(restarts[2]), "management nodes first: {told}");
    assert!(restarts[1].max(restarts[2]) < restarts[3].min(restarts[4]), "SQL nodes last: {told}");
    assert!(told.contains("5 nodes have been restarted in"), "{told}");
    // One that does not run is no obstacle, and is told of when it is meant.
    assert_eq!(cluster.stop(SQL + 1), Some(0));
    let output = cluster.ctl(&["restart", &(SQL + 1).to_string()]);
    assert!(!output.status.success(), "{output:?}");
    let stopped = text_of(&cluster.ctl(&["stop", &SQL.to_string()]), "nines");
    assert!(stopped.contains(&format!("node {SQL}: has ended after")), "{stopped}");
    assert_eq!(cluster.wait_for_end(SQL), Some(0));
}
