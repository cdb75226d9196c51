//! The binary log with real readers: a MariaDB replica, `mysqlbinlog`, python-mysql-replication.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::mariadb::MariaDb;
use tests::{Session, all, number, run, succeed, workspace};

use crate::connectors::{LIMITED, tools};

/// The other SQL node.
const OTHER: u16 = SQL + 1;
/// The schema and the changes of all types.
const TYPES: &str = include_str!("replication/types.sql");
/// The tables that they leave.
const TABLES: [&str; 7] = ["ty", "big", "u", "nopk2", "p", "ch", "docs"];
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster whose binary log is kept, with an account for replicas.
fn cluster() -> (Processes, Session) {
    let mut cluster = Processes::prepare(SMALL, "");
    cluster.sql_options.push("--mysql-native-password".to_owned());
    cluster.start_all();
    let mut session = open(&cluster, SQL);
    all(
        &mut session,
        &[
            "SET GLOBAL nines_binlog_json = 'TEXT'",
            "SET PERSIST log_bin = ON",
            "CREATE USER repl@'%' IDENTIFIED WITH mysql_native_password BY 'secret'",
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO repl@'%'",
        ],
    );
    (cluster, session)
}

fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

/// File, position and GTIDs of the end of the log.
fn status(session: &mut Session) -> (String, u64, String) {
    let rows = session.query("SHOW BINARY LOG STATUS").expect("the log is kept");
    let row = rows.into_iter().next().expect("one row");
    let text = |at: usize| row[at].clone().unwrap_or_default();
    (text(0), text(1).parse().expect("a position"), text(4))
}

fn replica() -> MariaDb {
    MariaDb::start_with(&["--server-id=77", "--skip-slave-start"])
}

/// Has a replica follow an SQL node from a place on, or from the one that it has reached: MariaDB
/// forgets that when it is told of another host.
fn follow(replica: &MariaDb, cluster: &Processes, node: u16, place: Option<(&str, u64)>) {
    let mut session = replica.session().expect("MariaDB lets root in");
    all(&mut session, &["STOP SLAVE"]);
    let reached =
        (of_status(replica, "Relay_Master_Log_File"), of_status(replica, "Exec_Master_Log_Pos"));
    let (file, position) = match place {
        Some((file, position)) => (file.to_owned(), position),
        None => (reached.0, reached.1.parse().expect("a position")),
    };
    let change = format!(
        "CHANGE MASTER TO master_host = '{}', master_port = {}, master_user = 'repl', \
         master_password = 'secret', master_use_gtid = no, master_connect_retry = 1, \
         master_heartbeat_period = 0.5, master_log_file = '{file}', master_log_pos = {position}",
        cluster.address(node),
        cluster.port(node),
    );
    all(&mut session, &[&change, "START SLAVE"]);
}

/// A value of `SHOW SLAVE STATUS`.
fn of_status(replica: &MariaDb, name: &str) -> String {
    let mut client = replica.client();
    client.args(["-e", "SHOW SLAVE STATUS\\G"]);
    let text = succeed(client);
    let wanted = format!("{name}: ");
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&wanted));
    line.unwrap_or_default().to_owned()
}

/// Waits until a replica has executed all up to a place.
fn wait_for(replica: &MariaDb, file: &str, position: u64) {
    let began = Instant::now();
    loop {
        let reached = of_status(replica, "Relay_Master_Log_File");
        let at: u64 = of_status(replica, "Exec_Master_Log_Pos").parse().unwrap_or(0);
        // Names of files are numbers of one length for as long as a test takes.
        if reached.as_str() > file || (reached == file && at >= position) {
            return;
        }
        let error = of_status(replica, "Last_SQL_Error") + &of_status(replica, "Last_IO_Error");
        assert!(
            of_status(replica, "Slave_SQL_Running") == "Yes" && began.elapsed() < PATIENCE,
            "at {reached}:{at}, not at {file}:{position}: {error}"
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// The rows of a table, in an order of their texts.
fn rows(mut client: Command, table: &str) -> Vec<String> {
    client.args(["--default-character-set=utf8mb4", "-N", "-e"]);
    client.arg(format!("SET time_zone = '+00:00'; SELECT * FROM {table}"));
    let mut lines: Vec<String> = succeed(client).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn client(cluster: &Processes, node: u16) -> Command {
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--user=root"]);
    client.arg(format!("--socket={}", cluster.socket(node).display()));
    client
}

/// Runs a text of statements.
fn execute(cluster: &Processes, node: u16, text: &str) {
    let mut client = client(cluster, node);
    client.arg("--default-character-set=utf8mb4").stdin(Stdio::piped());
    let mut child = client.spawn().expect("the client is installed");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, text.as_bytes()).expect("it is read");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_mariadb_replica_follows_all_types_and_definitions_and_moves_to_another_sql_node() {
    let (cluster, mut session) = cluster();
    let (file, position, _) = status(&mut session);
    let replica = replica();
    follow(&replica, &cluster, SQL, Some((&file, position)));
    let half = TYPES.find("-- half").expect("it is marked");
    execute(&cluster, SQL, &TYPES[..half]);
    let (file, position, _) = status(&mut session);
    wait_for(&replica, &file, position);
    // At the place that it has reached it goes on at another node.
    follow(&replica, &cluster, OTHER, None);
    execute(&cluster, OTHER, &format!("USE r; {}", &TYPES[half..]));
    let (file, position, gtids) = status(&mut session);
    assert_eq!((file.clone(), position, gtids), status(&mut open(&cluster, OTHER)));
    wait_for(&replica, &file, position);
    for table in TABLES {
        let table = format!("r.{table}");
        let found = rows(replica.client(), &table);
        assert!(!found.is_empty(), "{table}");
        // A long value is no text to be shown.
        assert!(rows(client(&cluster, SQL), &table) == found, "{table} differs");
    }
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM r.nopk2"), 3);
    let shown = session.query("SHOW REPLICAS").expect("it may be asked");
    assert!(shown.is_empty(), "it reads from the other node: {shown:?}");
    let shown = open(&cluster, OTHER).query("SHOW REPLICAS").expect("it may be asked");
    assert_eq!(shown[0][0].as_deref(), Some("77"));
}

/// The rows of a writer that goes on while nodes die, and how many were answered.
fn write(cluster: &Processes, first: i64, count: i64) -> i64 {
    let mut session = open(cluster, OTHER);
    let mut written = 0;
    for id in first..first + count {
        let insert = format!("INSERT IGNORE INTO d.t VALUES ({id}, 0)");
        while session.execute(&insert).is_err() {
            thread::sleep(Duration::from_millis(20));
            if let Ok(again) = cluster.session(OTHER) {
                session = again;
            }
        }
        written += 1;
        let _ = session.execute(&format!("UPDATE d.t SET n = n + 1 WHERE id <= {id}"));
    }
    written
}

#[test]
fn nothing_is_lost_or_doubled_when_nodes_die_under_a_replica() {
    let (mut cluster, mut session) = cluster();
    let (file, position, _) = status(&mut session);
    let create = "CREATE TABLE d.t (id INT PRIMARY KEY, n INT) COLLATE utf8mb4_general_ci";
    all(&mut session, &["CREATE DATABASE d COLLATE utf8mb4_general_ci", create]);
    let replica = replica();
    follow(&replica, &cluster, SQL, Some((&file, position)));
    assert_eq!(write(&cluster, 0, 50), 50);
    cluster.kill(&[2]);
    assert_eq!(write(&cluster, 50, 50), 50);
    cluster.start_node(2);
    cluster.wait_until_complete(OTHER);
    assert_eq!(write(&cluster, 100, 50), 50);
    // The other replica has what it was copied, and the changes of before.
    cluster.kill(&[1]);
    assert_eq!(write(&cluster, 150, 50), 50);
    cluster.start_node(1);
    cluster.kill(&[SQL]);
    assert_eq!(write(&cluster, 200, 50), 50);
    follow(&replica, &cluster, OTHER, None);
    let mut session = open(&cluster, OTHER);
    let (file, position, _) = status(&mut session);
    wait_for(&replica, &file, position);
    let found = rows(replica.client(), "d.t");
    assert_eq!(found.len(), 250);
    assert_eq!(rows(client(&cluster, OTHER), "d.t"), found);
}

fn mysqlbinlog(cluster: &Processes, node: u16, arguments: &[&str]) -> Command {
    let mut program = Command::new("mysqlbinlog");
    program.args(["--no-defaults", "--read-from-remote-server", "--verbose", "--user=root"]);
    program.arg(format!("--socket={}", cluster.socket(node).display())).args(arguments);
    program
}

#[test]
fn tools_read_the_same_from_all_sql_nodes() {
    let (cluster, mut session) = cluster();
    let (file, position, _) = status(&mut session);
    let from = position.to_string();
    for statement in [
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a VARCHAR(20), e ENUM('x','y'), j JSON)",
        "INSERT INTO d.t VALUES (1, 'one', 'y', '{\"k\": [1, 2]}'), (2, NULL, NULL, NULL)",
        "UPDATE d.t SET a = 'two' WHERE id = 2",
        "DELETE FROM d.t WHERE id = 1",
    ] {
        all(&mut session, &[statement]);
        // What is done within an epoch is one change of each row: only its end is seen.
        thread::sleep(Duration::from_millis(300));
    }
    let (_, _, gtids) = status(&mut session);
    let here = succeed(mysqlbinlog(&cluster, SQL, &["--to-last-log", &file]));
    for wanted in ["create table `d`.`t`", "### INSERT INTO `d`.`t`", "###   @2='one'"] {
        assert!(here.to_lowercase().contains(&wanted.to_lowercase()), "{wanted}: {here}");
    }
    let there = succeed(mysqlbinlog(&cluster, OTHER, &["--to-last-log", &file]));
    // The later reading may have reached the beginning of the next file.
    let (short, long) = if here.len() < there.len() { (&here, &there) } else { (&there, &here) };
    let common = short.lines().zip(long.lines()).take_while(|(one, other)| one == other).count();
    let end = short.lines().position(|line| line.contains("DELETE FROM")).expect("it was deleted");
    assert!(common > end, "{here}\n{there}");
    let python = |node: u16, file: &str, position: &str| {
        let [limiter, seconds] = LIMITED;
        let mut command = Command::new(limiter);
        command.arg(seconds).arg(tools().join("python/bin/python"));
        command.arg(workspace().join("tests/connectors/binlog.py"));
        command.arg(cluster.address(node).to_string()).arg(cluster.port(node).to_string());
        command.args(["repl", "secret", file, position]);
        succeed(command)
    };
    let here = python(SQL, &file, &from);
    assert_eq!(here, python(OTHER, &file, &from));
    for wanted in ["WriteRowsEvent d t", "UpdateRowsEvent d t", "DeleteRowsEvent d t", "\nend"] {
        assert!(here.contains(wanted), "{wanted}: {here}");
    }
    assert!(here.contains("'one'") && here.contains("[1, 2]"), "{here}");
    // Whoever has all GTIDs gets what comes then.
    all(&mut session, &["INSERT INTO d.t VALUES (7, 'late', 'x', 'null')"]);
    let late = python(OTHER, "gtid", &gtids);
    assert!(late.contains("'late'") && !late.contains("'one'"), "{late}");
}

#[test]
fn readers_are_told_what_the_log_has_not() {
    let (cluster, mut session) = cluster();
    all(&mut session, &["CREATE DATABASE d"]);
    let first = status(&mut session).0;
    let refused = |arguments: &[&str]| {
        let output = run(mysqlbinlog(&cluster, SQL, arguments));
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let no_file = "Could not find first log file name in binary log index file";
    assert!(refused(&["binlog.000000000"]).contains(no_file));
    assert!(refused(&["binlog.999999999999"]).contains(no_file));
    let beyond = refused(&["--start-position=4000000000", &first]);
    assert!(beyond.contains("position > file size"), "{beyond}");
    let inside = refused(&["--start-position=57", &first]);
    assert!(inside.contains("impossible position"), "{inside}");
    // What is purged is gone for all.
    let began = Instant::now();
    all(&mut session, &["CREATE TABLE d.n (n INT)", "INSERT INTO d.n VALUES (0)"]);
    while status(&mut session).0 == first {
        // Epochs take longer where nothing is done.
        assert!(began.elapsed() < 4 * PATIENCE, "files end with epochs");
        for _ in 0..20 {
            all(&mut session, &["UPDATE d.n SET n = n + 1"]);
            thread::sleep(Duration::from_millis(10));
        }
    }
    let second = status(&mut session).0;
    all(&mut session, &[&format!("PURGE BINARY LOGS TO '{second}'")]);
    loop {
        // Data nodes are told, and nobody waits for that.
        let output = run(mysqlbinlog(&cluster, OTHER, &[&first]));
        if String::from_utf8_lossy(&output.stderr).contains(no_file) {
            break;
        }
        assert!(began.elapsed() < 5 * PATIENCE, "{first} is still there");
    }
    let files = session.query("SHOW BINARY LOGS").expect("the log is kept");
    assert_eq!(files[0][0].as_deref(), Some(second.as_str()));
    all(&mut session, &["CREATE USER other@'%'", "SET PERSIST log_bin = OFF"]);
    assert!(refused(&[&second]).contains("Binary log is not open"));
    let none = session.query("SHOW BINARY LOGS").unwrap_err();
    assert_eq!(none.code(), Some(1381), "{none}");
}

#[test]
fn a_dump_tells_where_a_replica_begins() {
    let (cluster, mut session) = cluster();
    let create = "CREATE TABLE d.t (id INT PRIMARY KEY, n INT) COLLATE utf8mb4_general_ci";
    all(&mut session, &["CREATE DATABASE d COLLATE utf8mb4_general_ci", create]);
    assert_eq!(write(&cluster, 0, 30), 30);
    let replica = replica();
    let dump = thread::scope(|scope| {
        let writer = scope.spawn(|| write(&cluster, 30, 100));
        thread::sleep(Duration::from_millis(300));
        let mut program = Command::new("mysqldump");
        program.args(["--no-defaults", "--user=root", "--single-transaction", "--master-data"]);
        program.arg(format!("--socket={}", cluster.socket(OTHER).display()));
        program.args(["--databases", "d"]);
        let dump = succeed(program);
        assert_eq!(writer.join().expect("it writes to the end"), 100);
        dump
    });
    let line = dump.lines().find(|line| line.starts_with("CHANGE MASTER TO")).expect("a position");
    let mut parts = line.split(['\'', '=', ';', ',']);
    let file = parts.clone().nth(2).expect("a file").to_owned();
    let position = parts.rfind(|part| part.parse::<u64>().is_ok()).expect("a position");
    let position: u64 = position.parse().expect("a number");
    let mut load = replica.client();
    load.stdin(Stdio::piped());
    let mut child = load.spawn().expect("the client is installed");
    let mut input = child.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut input, dump.as_bytes()).expect("it is read");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    follow(&replica, &cluster, SQL, Some((&file, position)));
    let (file, position, _) = status(&mut session);
    wait_for(&replica, &file, position);
    let found = rows(replica.client(), "d.t");
    assert_eq!(found.len(), 130);
    assert_eq!(rows(client(&cluster, SQL), "d.t"), found);
}

/// A definition is on the replica if and only if it is in the cluster, also when the SQL node dies
/// that makes it.
#[test]
fn the_log_has_a_statement_whose_sql_node_died_if_and_only_if_it_took_effect() {
    let (mut cluster, mut session) = cluster();
    let (file, position, _) = status(&mut session);
    all(&mut session, &["CREATE DATABASE d COLLATE utf8mb4_general_ci"]);
    let replica = replica();
    follow(&replica, &cluster, SQL, Some((&file, position)));
    for round in 0..4 {
        thread::scope(|scope| {
            for writer in 0..3 {
                let mut session = open(&cluster, OTHER);
                scope.spawn(move || {
                    for at in 0.. {
                        let create = format!("CREATE TABLE d.t{round}_{writer}_{at} (a INT)");
                        let alter = format!("ALTER TABLE d.t{round}_{writer}_{at} ADD b INT");
                        if session.execute(&create).and_then(|_| session.execute(&alter)).is_err() {
                            return;
                        }
                    }
                });
            }
            thread::sleep(Duration::from_millis(700 + 130 * round));
            cluster.kill(&[OTHER]);
        });
        cluster.start_node(OTHER);
        let (file, position, _) = status(&mut session);
        wait_for(&replica, &file, position);
        let columns = "SELECT table_name, column_name FROM information_schema.columns \
                       WHERE table_schema = 'd' ORDER BY 1, 2";
        let listed = |mut client: Command| {
            client.args(["-N", "-e", columns]);
            succeed(client)
        };
        let expected = listed(client(&cluster, SQL));
        assert!(expected.lines().count() > 3, "{expected}");
        assert_eq!(listed(replica.client()), expected);
        let began = Instant::now();
        while cluster.session(OTHER).is_err() {
            assert!(began.elapsed() < PATIENCE, "it starts");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_replica_has_no_temporary_tables_and_no_duplicates() {
    let (cluster, mut session) = cluster();
    let (file, position, gtids) = status(&mut session);
    let replica = replica();
    follow(&replica, &cluster, SQL, Some((&file, position)));
    let passing = "UPDATE r.u SET k = NULL WHERE id = 1; UPDATE r.u SET k = 10 WHERE id = 2; \
                   UPDATE r.u SET k = 20 WHERE id = 3; UPDATE r.u SET k = 30 WHERE id = 1";
    execute(
        &cluster,
        SQL,
        &format!(
            "CREATE DATABASE r COLLATE utf8mb4_general_ci; USE r;
             CREATE TABLE a (n INT); CREATE TABLE b (n INT); CREATE TABLE c (n INT);
             CREATE TEMPORARY TABLE x (n INT, m VARCHAR(20)); CREATE TEMPORARY TABLE y (n INT);
             CREATE TABLE likes LIKE x;
             INSERT INTO likes VALUES (1, 'one');
             DROP TABLE x, a, y, b;
             CREATE TABLE u (id INT PRIMARY KEY, k INT UNIQUE, big LONGTEXT, e ENUM('ä','ö')
               CHARACTER SET latin1);
             INSERT INTO u VALUES (1, 10, REPEAT('a', 1200000), 'ö'),
               (2, 20, REPEAT('b', 1200000), 'ä'), (3, 30, REPEAT('c', 1200000), NULL),
               (4, 40, 'short', 'ä'), (5, 50, NULL, 'ö');
             DO SLEEP(0.3);
             BEGIN; {passing}; COMMIT;
             DO SLEEP(0.3);
             BEGIN; UPDATE u SET k = 60 WHERE id = 5; UPDATE u SET k = 50 WHERE id = 4; COMMIT;
             DO SLEEP(0.3);
             BEGIN; UPDATE u SET k = NULL WHERE id = 1; UPDATE u SET k = 30, e = 'ö' WHERE id = 4;
               UPDATE u SET k = 50 WHERE id = 1; COMMIT;
             DO SLEEP(0.3);
             UPDATE u SET id = 7 WHERE id = 2;
             SET time_zone = '+05:00';
             CREATE TABLE z (id INT PRIMARY KEY); INSERT INTO z VALUES (1);
             ALTER TABLE z ADD at TIMESTAMP DEFAULT '2020-01-01 12:00:00';
             ALTER TABLE z ADD now TIMESTAMP DEFAULT CURRENT_TIMESTAMP;"
        ),
    );
    // The second row has the first one's value.
    let failing = "CREATE TABLE r.fails (n INT PRIMARY KEY) SELECT 1 AS n UNION ALL SELECT 1";
    let error = session.execute(failing).unwrap_err();
    assert_eq!(error.code(), Some(1062), "{error}");
    all(&mut session, &["CREATE TABLE r.fails (m INT)", "INSERT INTO r.fails VALUES (3)"]);
    let (file, position, executed) = status(&mut session);
    wait_for(&replica, &file, position);
    for table in ["r.c", "r.likes", "r.u", "r.z", "r.fails"] {
        let found = rows(replica.client(), table);
        assert!(rows(client(&cluster, SQL), table) == found, "{table} differs");
    }
    assert!(!rows(replica.client(), "r.z").is_empty());
    let mut there = replica.client();
    there.args(["-N", "-e", "SHOW TABLES IN r"]);
    assert_eq!(succeed(there), "c\nfails\nlikes\nu\nz\n");
    // What the log says of itself.
    let found = session.query("SELECT @@global.gtid_executed, @@global.gtid_purged").unwrap();
    let number = |gtids: &str| -> u64 {
        let last = gtids.rsplit('-').next().and_then(|number| number.parse().ok());
        last.unwrap_or_default()
    };
    let (now, purged) = (found[0][0].clone().unwrap(), found[0][1].clone().unwrap());
    assert!(number(&now) >= number(&executed) && number(&executed) > number(&gtids), "{now}");
    assert_eq!(now.split(':').next(), executed.split(':').next());
    assert!(number(&purged) < number(&now), "{purged} of {now}");
    let shown = session.query("SHOW VARIABLES LIKE 'gtid_executed'").unwrap();
    assert_eq!(shown[0][1].as_deref().map(number).map(|n| n >= number(&executed)), Some(true));
    let events = session.query("SHOW BINLOG EVENTS").unwrap();
    let infos: Vec<String> = events.iter().filter_map(|row| row[5].clone()).collect();
    for wanted in ["Server ver: 8.4.0-nines", "SET @@SESSION.GTID_NEXT= '", "(r.u)", "STMT_END_F"] {
        assert!(infos.iter().any(|info| info.contains(wanted)), "{wanted}: {infos:?}");
    }
}
