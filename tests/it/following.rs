//! A cluster that follows a source: a MariaDB server, or another cluster.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, Processes, SMALL, SQL};
use tests::mariadb::MariaDb;
use tests::{Session, all, number, succeed};

/// The other SQL node.
pub(crate) const OTHER: u16 = SQL + 1;
/// The schema and the changes of all types.
const TYPES: &str = include_str!("replication/types.sql");
/// The tables that they leave.
const TABLES: [&str; 7] = ["ty", "big", "u", "nopk2", "p", "ch", "docs"];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

/// A cluster with a `server_id` of its own.
pub(crate) fn cluster(id: u32) -> (Processes, Session) {
    cluster_of(SMALL, id)
}

/// The same, of another form.
pub(crate) fn cluster_of(layout: Layout, id: u32) -> (Processes, Session) {
    let cluster = Processes::start(layout);
    let mut session = open(&cluster, SQL);
    all(&mut session, &[&format!("SET PERSIST server_id = {id}")]);
    (cluster, session)
}

/// Has a cluster keep a log, and let others read that.
pub(crate) fn log(session: &mut Session) {
    all(
        session,
        &[
            "SET PERSIST log_bin = ON",
            // No plugin of before: the password is sent by the key of the SQL node.
            "CREATE USER repl@'%' IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO repl@'%'",
        ],
    );
}

/// A MariaDB server with an account for replicas, and its port.
fn source(options: &[&str]) -> (MariaDb, u16) {
    let (source, port) = MariaDb::start_source(5, options);
    let mut session = source.session().expect("MariaDB lets root in");
    all(
        &mut session,
        &[
            // The server has an account of no name that all from its own host are otherwise.
            "CREATE USER repl@localhost IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO repl@localhost",
        ],
    );
    (source, port)
}

/// Has a cluster follow a source from the beginning on, or as more options say.
fn follow(session: &mut Session, port: u16, more: &str) {
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
         SOURCE_USER = 'repl', SOURCE_PASSWORD = 'secret', SOURCE_CONNECT_RETRY = 1, \
         SOURCE_HEARTBEAT_PERIOD = 0.5{more}"
    );
    all(session, &[&change, "START REPLICA"]);
}

/// Has a cluster follow another one from the beginning on.
pub(crate) fn follow_cluster(session: &mut Session, source: &Processes, node: u16, more: &str) {
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = 'repl', \
         SOURCE_PASSWORD = 'secret', SOURCE_CONNECT_RETRY = 1, SOURCE_HEARTBEAT_PERIOD = 0.5, \
         GET_SOURCE_PUBLIC_KEY = 1{more}",
        source.address(node),
        source.port(node),
    );
    all(session, &[&change, "START REPLICA"]);
}

/// A value of SHOW REPLICA STATUS.
pub(crate) fn of_status(session: &mut Session, name: &str) -> String {
    let answer = session.ask("SHOW REPLICA STATUS").expect("it may be asked");
    let at = answer.columns.iter().position(|column| column.name == name);
    let at = at.unwrap_or_else(|| panic!("there is no column {name}"));
    answer.rows.first().and_then(|row| row[at].clone()).unwrap_or_default()
}

/// Where the log of a source ends.
pub(crate) fn end_of(session: &mut Session, statement: &str) -> (String, u64) {
    let rows = session.query(statement).expect("it may be asked");
    let text = |at: usize| rows[0][at].clone().unwrap_or_default();
    (text(0), text(1).parse().expect("a position"))
}

/// Waits until a cluster has applied all up to a place.
pub(crate) fn wait_for(session: &mut Session, end: &(String, u64)) {
    let (file, position) = end;
    let began = Instant::now();
    loop {
        let reached = of_status(session, "Relay_Source_Log_File");
        let at: u64 = of_status(session, "Exec_Source_Log_Pos").parse().unwrap_or(0);
        if reached > *file || (reached == *file && at >= *position) {
            return;
        }
        let error = of_status(session, "Last_SQL_Error") + &of_status(session, "Last_IO_Error");
        assert!(
            of_status(session, "Replica_SQL_Running") == "Yes" && began.elapsed() < PATIENCE,
            "at {reached}:{at}, not at {file}:{position}: {error}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// The rows of a table, in an order of their texts.
pub(crate) fn rows(mut client: Command, table: &str) -> Vec<String> {
    client.args(["--default-character-set=utf8mb4", "-N", "-e"]);
    client.arg(format!("SET time_zone = '+00:00'; SELECT * FROM {table}"));
    let mut lines: Vec<String> = succeed(client).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

pub(crate) fn client(cluster: &Processes, node: u16) -> Command {
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--user=root"]);
    client.arg(format!("--socket={}", cluster.socket(node).display()));
    client
}

/// Runs a text of statements.
pub(crate) fn execute(mut client: Command, text: &str) {
    client.arg("--default-character-set=utf8mb4").stdin(Stdio::piped());
    let mut child = client.spawn().expect("the client is installed");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("it is read");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// Tables are alike at a source and here.
pub(crate) fn compare(source: impl Fn() -> Command, here: impl Fn() -> Command, tables: &[&str]) {
    for table in tables {
        let (wanted, found) = (rows(source(), table), rows(here(), table));
        assert!(!wanted.is_empty(), "{table}");
        let differs = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
        let differs = differs.map(|(wanted, found)| {
            (
                wanted.chars().take(900).collect::<String>(),
                found.chars().take(900).collect::<String>(),
            )
        });
        assert!(wanted == found, "{table}: {} and {} rows: {differs:?}", wanted.len(), found.len());
    }
}

#[test]
fn a_cluster_follows_all_types_and_definitions_of_mariadb() {
    let (source, port) = source(&[]);
    let (cluster, mut session) = cluster(9);
    let half = TYPES.find("-- half").expect("it is marked");
    execute(source.client(), &TYPES[..half]);
    follow(&mut session, port, "");
    execute(source.client(), &format!("USE r; {}", &TYPES[half..]));
    let end = end_of(&mut source.session().expect("root"), "SHOW MASTER STATUS");
    wait_for(&mut session, &end);
    let tables: Vec<String> = TABLES.iter().map(|table| format!("r.{table}")).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    compare(|| source.client(), || client(&cluster, OTHER), &tables);
    // The status is told once a second, and the rows may be here before.
    let began = Instant::now();
    while of_status(&mut session, "Replica_IO_Running") != "Yes" {
        assert!(began.elapsed() < PATIENCE, "it does not say that it is connected");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(of_status(&mut session, "Source_Server_Id"), "5");
    // A row that is not there stops the channel, and the error names it.
    all(&mut session, &["DELETE FROM r.p WHERE id = 2"]);
    execute(
        source.client(),
        "SET foreign_key_checks = 0; DELETE FROM r.p WHERE id = 2; \
         INSERT INTO r.p VALUES (5)",
    );
    let began = Instant::now();
    while of_status(&mut session, "Replica_SQL_Running") == "Yes" {
        assert!(began.elapsed() < PATIENCE, "it goes on");
        thread::sleep(Duration::from_millis(50));
    }
    let error = of_status(&mut session, "Last_SQL_Error");
    assert_eq!(of_status(&mut session, "Last_SQL_Errno"), "1032", "{error}");
    for part in ["r.p", "id = 2", "log.000001, end_log_pos"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // Whoever says that this does not matter goes on.
    all(&mut session, &["SET GLOBAL replica_exec_mode = IDEMPOTENT", "START REPLICA"]);
    let end = end_of(&mut source.session().expect("root"), "SHOW MASTER STATUS");
    wait_for(&mut session, &end);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM r.p WHERE id = 5"), 1);
    let refused = session.execute("RESET REPLICA").unwrap_err();
    assert_eq!(refused.code(), Some(3081), "{refused}");
    all(&mut session, &["STOP REPLICA", "RESET REPLICA ALL"]);
    assert!(session.query("SHOW REPLICA STATUS").expect("it may be asked").is_empty());
}

/// Writes to a source, and goes on when it was restarted.
fn write(source: &MariaDb, first: i64, count: i64) {
    let mut session = source.session().expect("root");
    for id in first..first + count {
        let insert = format!("INSERT INTO d.t VALUES ({id}, 0)");
        let update = format!("UPDATE d.t SET n = n + 1 WHERE id <= {id}");
        all(&mut session, &["BEGIN", &insert, &update, "COMMIT"]);
    }
}

#[test]
fn nothing_is_lost_or_doubled_when_the_source_or_the_applier_dies() {
    let (mut source, port) = source(&[]);
    let (mut cluster, mut session) = cluster(9);
    execute(
        source.client(),
        "CREATE DATABASE d COLLATE utf8mb4_general_ci; \
         CREATE TABLE d.t (id INT PRIMARY KEY, n INT)",
    );
    follow(&mut session, port, ", MASTER_USE_GTID = slave_pos");
    write(&source, 0, 40);
    source.restart();
    write(&source, 40, 40);
    // One of them applies; each dies once, in the middle.
    for (at, node) in [SQL, OTHER].into_iter().enumerate() {
        cluster.kill(&[node]);
        write(&source, 80 + 40 * at as i64, 40);
        cluster.start_node(node);
    }
    cluster.kill(&[1]);
    write(&source, 160, 40);
    cluster.start_node(1);
    let end = end_of(&mut source.session().expect("root"), "SHOW MASTER STATUS");
    let mut session = open(&cluster, OTHER);
    wait_for(&mut session, &end);
    compare(|| source.client(), || client(&cluster, SQL), &["d.t"]);
    let sum = number(&mut session, "SELECT SUM(n) FROM d.t");
    assert_eq!(sum, (1..=200).sum::<i64>());
}

#[test]
fn a_cluster_follows_another_one_whichever_sql_node_dies() {
    let (mut source, mut there) = cluster(7);
    log(&mut there);
    let (mut here, mut session) = cluster(8);
    follow_cluster(&mut session, &source, SQL, ", SOURCE_AUTO_POSITION = 1");
    execute(client(&source, OTHER), TYPES);
    all(&mut there, &["CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, j JSON)"]);
    let write = |first: i64, count: i64| {
        let mut session = open(&source, OTHER);
        for id in first..first + count {
            let json = format!("{{\"id\": {id}, \"of\": [1, 2.5, \"x\", null, true]}}");
            let insert = format!("INSERT INTO d.t VALUES ({id}, 0, '{json}')");
            let update = format!("UPDATE d.t SET n = n + 1 WHERE id <= {id}");
            all(&mut session, &["BEGIN", &insert, &update, "COMMIT"]);
        }
    };
    write(0, 50);
    for (at, node) in [SQL, OTHER].into_iter().enumerate() {
        here.kill(&[node]);
        write(50 + 50 * at as i64, 50);
        here.start_node(node);
    }
    let mut session = open(&here, SQL);
    let end = end_of(&mut there, "SHOW BINARY LOG STATUS");
    wait_for(&mut session, &end);
    // The node that is read from goes away, and comes back.
    source.kill(&[SQL]);
    source.start_node(SQL);
    let mut there = open(&source, SQL);
    all(&mut there, &["INSERT INTO d.t VALUES (-1, 0, 'null')", "DELETE FROM d.t WHERE id = 3"]);
    let end = end_of(&mut there, "SHOW BINARY LOG STATUS");
    wait_for(&mut session, &end);
    let tables = ["d.t", "r.ty", "r.big", "r.u", "r.nopk2", "r.p", "r.ch", "r.docs"];
    compare(|| client(&source, OTHER), || client(&here, OTHER), &tables);
    assert_eq!(of_status(&mut session, "Source_Server_Id"), "7");
}
