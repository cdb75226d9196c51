//! Values too long for their rows, with real clients: what goes in comes out, nothing is left
//! behind, and nobody ever sees half of one.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tests::cluster::{Processes, SMALL, SQL};
use tests::{QueryError, Server, Session, number, succeed, temporary_directory};

use super::workload::Random;

/// What the value of a row with this `n` is: it says which it is, and how long.
const VALUE: &str = "REPEAT(CHAR(97 + n % 26), 1000 + n % 7 * 50000)";

fn ok(session: &mut Session, statement: &str) -> Vec<tests::TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// Replicas are equal, and each part belongs to a row.
pub(super) fn check(session: &mut Session, table: &str) {
    // A cluster that has just come back may know of no snapshot yet.
    for _ in 0..50 {
        let rows = ok(session, &format!("CHECK TABLE {table}"));
        let text = rows[0][3].clone().unwrap_or_default();
        if text == "OK" {
            return;
        }
        assert!(text.contains("temporary"), "{text}");
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{table} cannot be checked");
}

/// Runs statements with the command-line client, which they reach by its input.
fn feed(server: &Server, statements: &str) -> String {
    let mut client = server.client("mysql");
    client.args(["--max-allowed-packet=1G", "--batch", "--skip-column-names"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = client.spawn().expect("mariadb-client is installed");
    let mut input = child.stdin.take().expect("its input is piped");
    let statements = statements.to_owned();
    let writer = thread::spawn(move || input.write_all(statements.as_bytes()));
    let output = child.wait_with_output().expect("it is our child");
    writer.join().expect("it does not panic").expect("the client reads all");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("digits and tabs")
}

/// Random bytes in hexadecimal.
fn hex(random: &mut Random, bytes: usize) -> String {
    (0..bytes).map(|_| format!("{:02X}", random.below(256))).collect()
}

#[test]
fn values_come_back_as_they_were() {
    let server = Server::start(&[]);
    let mut random = Random(7);
    let mut session = server.session().unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB, m LONGTEXT)");
    for (id, size) in [0, 1, 8_000, 8_001, 57_000, 57_001, 1 << 20, 16 << 20].iter().enumerate() {
        let value = hex(&mut random, *size);
        feed(&server, &format!("INSERT INTO d.t VALUES ({id}, x'{value}', NULL)"));
        ok(&mut session, &format!("UPDATE d.t SET m = HEX(b) WHERE id = {id}"));
        let found = feed(&server, &format!("SELECT m, m = HEX(b) FROM d.t WHERE id = {id}"));
        assert!(found == format!("{value}\t1\n"), "{size} bytes became {}", found.len());
    }
    check(&mut session, "d.t");
}

#[test]
fn statements_change_values_whole() {
    let server = Server::start(&[]);
    let mut session = server.session().unwrap();
    let session = &mut session;
    ok(session, "CREATE DATABASE d");
    ok(session, "USE d");
    ok(session, "CREATE TABLE t (id INT PRIMARY KEY, n INT, b LONGBLOB NOT NULL, j JSON, KEY (n))");
    let wrong = format!("SELECT COUNT(*) FROM t WHERE b <> {VALUE} OR b IS NULL");
    for (statement, rows) in [
        (
            "INSERT INTO t (id, n, b) WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL \
          SELECT n + 1 FROM s WHERE n < 60) SELECT n, n, VALUE FROM s",
            60,
        ),
        ("UPDATE t SET b = VALUE", 0),
        ("UPDATE t SET n = n + 7, b = VALUE WHERE id < 30", 29),
        ("UPDATE t SET id = id + 1000 WHERE n % 2 = 0", 31),
        ("DELETE FROM t WHERE id BETWEEN 1010 AND 1015", 3),
        // Rows that are replaced by themselves count once, except where parts lie beside them.
        ("REPLACE INTO t (id, n, b) SELECT id, n, b FROM t AS s WHERE id > 1000", 52),
        ("UPDATE t AS a JOIN t AS b ON a.id = b.id SET a.b = b.b, a.n = b.n WHERE b.n > 50", 0),
        ("DELETE FROM t ORDER BY b DESC LIMIT 5", 5),
    ] {
        let found = session.execute(&statement.replace("VALUE", VALUE));
        assert_eq!(
            found.unwrap_or_else(|error| panic!("{statement}: {error}")),
            rows,
            "{statement}"
        );
        assert_eq!(number(session, &wrong), 0, "{statement}");
        check(session, "t");
    }
    // What conditions, groups and functions make of them, with data nodes computing and without.
    for pushdown in ["ON", "OFF"] {
        ok(session, &format!("SET nines_pushdown = {pushdown}"));
        let by_length = "SELECT COUNT(*) FROM t WHERE LENGTH(b) <> 1000 + n % 7 * 50000";
        assert_eq!(number(session, by_length), 0);
        let like = "SELECT COUNT(*) FROM t WHERE b LIKE 'a%' XOR n % 26 = 0";
        assert_eq!(number(session, like), 0);
        let groups = "SELECT COUNT(*) FROM (SELECT b, MIN(n % 182) AS x, MAX(n % 182) AS y FROM t \
                      GROUP BY b) AS g WHERE x <> y";
        assert_eq!(number(session, groups), 0);
    }
    let json = "INSERT INTO t VALUES (1, 1, REPEAT('b', 51000), \
                JSON_OBJECT('a', REPEAT('x', 100000))) ON DUPLICATE KEY UPDATE j = VALUES(j)";
    ok(session, json);
    ok(session, "UPDATE t SET j = JSON_SET(j, '$.b', 5) WHERE id = 1");
    assert_eq!(number(session, "SELECT LENGTH(j->>'$.a') + j->'$.b' FROM t WHERE id = 1"), 100_005);
    // What is undone leaves nothing.
    for end in ["ROLLBACK", "ROLLBACK TO s"] {
        ok(session, "BEGIN");
        ok(session, "SAVEPOINT s");
        ok(session, "INSERT INTO t (id, n, b) VALUES (500, 5, REPEAT('x', 300000))");
        ok(session, "UPDATE t SET b = REPEAT('y', 400000)");
        assert_eq!(number(session, "SELECT COUNT(*) FROM t WHERE b = REPEAT('y', 400000)"), 54);
        ok(session, end);
        ok(session, "COMMIT");
        assert_eq!(number(session, &wrong), 0);
        check(session, "t");
    }
    ok(session, "ALTER TABLE t ADD extra TEXT, ALGORITHM=COPY");
    ok(session, "ALTER TABLE t ADD more MEDIUMTEXT");
    ok(session, "UPDATE t SET more = b, extra = LEFT(b, 60000)");
    assert_eq!(number(session, &wrong), 0);
    assert_eq!(number(session, "SELECT COUNT(*) FROM t WHERE more <> b"), 0);
    check(session, "t");
    ok(session, "TRUNCATE TABLE t");
    check(session, "t");
    assert_eq!(ok(session, "SHOW TABLES").len(), 1);
}

#[test]
fn keys_and_references_carry_values_along() {
    let server = Server::start(&[]);
    let mut session = server.session().unwrap();
    let session = &mut session;
    for statement in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE u (id INT PRIMARY KEY, k INT UNIQUE, b LONGBLOB)",
        "REPLACE INTO u VALUES (1, 1, REPEAT('a', 90000)), (2, 1, REPEAT('b', 90000))",
        "INSERT INTO u VALUES (3, 1, '') ON DUPLICATE KEY UPDATE b = CONCAT(b, b)",
        "INSERT IGNORE INTO u VALUES (9, 1, REPEAT('c', 90000)), (4, 4, REPEAT('d', 90000))",
        "REPLACE INTO u VALUES (2, 4, REPEAT('e', 90000))",
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (p INT, id INT, b LONGBLOB, PRIMARY KEY (p, id), \
         FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO p VALUES (1), (2), (3)",
        "INSERT INTO c VALUES (1, 1, REPEAT('a', 90000)), (1, 2, 'b'), (2, 1, REPEAT('c', 90000))",
        "UPDATE p SET id = 10 WHERE id = 1",
        "DELETE FROM p WHERE id = 2",
    ] {
        ok(session, statement);
        for table in ["u", "c"].iter().filter(|table| statement.contains(&format!(" {table} "))) {
            check(session, table);
        }
    }
    let text = |text: &str| Some(text.to_owned());
    let rows = ok(session, "SELECT id, k, LENGTH(b), LEFT(b, 1) FROM u");
    assert_eq!(rows, [[text("2"), text("4"), text("90000"), text("e")]]);
    let rows = ok(session, "SELECT p, id, LENGTH(b), LEFT(b, 1) FROM c ORDER BY id");
    let first = [text("10"), text("1"), text("90000"), text("a")];
    assert_eq!(rows, [first, [text("10"), text("2"), text("1"), text("b")]]);
    for table in ["u", "c"] {
        check(session, table);
    }
}

#[test]
fn a_dump_of_large_values_loads_back_equal() {
    let server = Server::start(&[]);
    let mut session = server.session().unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, b LONGBLOB, j JSON)");
    for id in 0..20 {
        let j = "JSON_OBJECT('k', REPEAT('ä', 20000))";
        let sql =
            format!("INSERT INTO d.t SELECT {id}, n, {VALUE}, {j} FROM (SELECT {id} AS n) AS x");
        ok(&mut session, &sql);
    }
    let mut program = server.client("mysqldump");
    program.args(["--single-transaction", "--hex-blob", "--max-allowed-packet=1G", "d"]);
    let dump = succeed(program);
    feed(&server, &format!("CREATE DATABASE copy; USE copy;\n{dump}"));
    let sum = |session: &mut Session, table: &str| {
        ok(session, &format!("CHECKSUM TABLE {table}"))[0][1].clone()
    };
    assert_eq!(sum(&mut session, "d.t"), sum(&mut session, "copy.t"));
    ok(&mut session, "UPDATE copy.t SET b = CONCAT(LEFT(b, LENGTH(b) - 1), 'X') WHERE id = 19");
    assert_ne!(sum(&mut session, "d.t"), sum(&mut session, "copy.t"));
    check(&mut session, "copy.t");
}

#[test]
fn readers_never_see_half_of_a_value() {
    let server = Server::start(&[]);
    let mut session = server.session().unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, b LONGBLOB)");
    for id in 0..4 {
        ok(&mut session, &format!("INSERT INTO d.t VALUES ({id}, 0, REPEAT('a', 1000))"));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for reader in 0..3 {
        let (mut session, stop) = (server.session().unwrap(), stop.clone());
        threads.push(thread::spawn(move || {
            let wrong = format!("SELECT COUNT(*), COALESCE(SUM(b = {VALUE}), 0) FROM d.t");
            let mut seen = 0;
            while !stop.load(Ordering::SeqCst) {
                if reader == 2 {
                    ok(&mut session, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
                }
                let rows = ok(&mut session, &wrong);
                assert_eq!(rows[0][0], rows[0][1], "reader {reader}");
                for id in 0..4 {
                    let row = format!("SELECT b = {VALUE} FROM d.t WHERE id = {id}");
                    for row in ok(&mut session, &row) {
                        assert_eq!(row[0].as_deref(), Some("1"), "reader {reader}, row {id}");
                    }
                }
                ok(&mut session, "COMMIT");
                seen += 1;
            }
            seen
        }));
    }
    for writer in 0..2 {
        let (mut session, stop) = (server.session().unwrap(), stop.clone());
        threads.push(thread::spawn(move || {
            let mut n = writer;
            while !stop.load(Ordering::SeqCst) {
                let id = n % 4;
                n += 2;
                let statement = match n % 5 {
                    0 => format!("DELETE FROM d.t WHERE id = {id}"),
                    1 => format!(
                        "REPLACE INTO d.t SELECT {id}, n, {VALUE} FROM (SELECT {n} AS n) AS x"
                    ),
                    _ => format!("UPDATE d.t SET n = {n}, b = {VALUE} WHERE id = {id}"),
                };
                ok(&mut session, &statement);
            }
            n
        }));
    }
    thread::sleep(Duration::from_secs(5));
    stop.store(true, Ordering::SeqCst);
    let done: Vec<i32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(done.iter().all(|count| *count > 3), "{done:?}");
    check(&mut session, "d.t");
}

#[test]
fn a_value_that_does_not_fit_memory_is_refused_whole() {
    let server = Server::start(&["--data-memory=96M"]);
    let mut session = server.session().unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, b LONGBLOB)");
    ok(&mut session, "INSERT INTO d.t VALUES (1, REPEAT('a', 1000000))");
    for id in 2..4 {
        let refused = session.query(&format!(
            "INSERT INTO d.t VALUES ({id}0, 'x'), ({id}, REPEAT('b', 60000000)), \
             ({id}1, REPEAT('c', 60000000))"
        ));
        assert_eq!(refused.unwrap_err().code(), Some(1114));
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM d.t"), 1);
        check(&mut session, "d.t");
    }
    ok(&mut session, "BEGIN");
    ok(&mut session, "INSERT INTO d.t VALUES (5, REPEAT('d', 500000))");
    let both = "UPDATE d.t SET b = REPEAT('e', 60000000)";
    assert_eq!(session.query(both).unwrap_err().code(), Some(1114));
    ok(&mut session, "COMMIT");
    assert_eq!(number(&mut session, "SELECT SUM(LENGTH(b)) FROM d.t"), 1_500_000);
    check(&mut session, "d.t");
}

#[test]
fn large_values_survive_a_crash_of_everything() {
    let directory = temporary_directory();
    let options = ["--workers=2", "--tune=redo-segment=128K", "--durability=disk"];
    let mut server = Server::start_in(&directory, &options);
    let mut session = server.session().unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, b LONGBLOB)");
    for id in 0..30 {
        let insert =
            format!("INSERT INTO d.t SELECT {id}, n, {VALUE} FROM (SELECT {id} AS n) AS x");
        ok(&mut session, &insert);
    }
    ok(&mut session, &format!("UPDATE d.t SET n = n + 3, b = {VALUE} WHERE id % 2 = 0"));
    ok(&mut session, "DELETE FROM d.t WHERE id % 5 = 0");
    // Something is under way that is to be forgotten.
    let beside = server.session().unwrap();
    let writer = thread::spawn(move || {
        let mut session = beside;
        while session.query(&format!("UPDATE d.t SET n = n + 1, b = {VALUE}")).is_ok() {}
    });
    thread::sleep(Duration::from_millis(400));
    server.kill();
    writer.join().unwrap();
    drop(server);
    let server = Server::start_in(&directory, &options);
    let mut session = server.session().unwrap();
    let right = format!("SELECT COUNT(*) FROM d.t WHERE b = {VALUE}");
    assert_eq!(number(&mut session, &right), 24);
    check(&mut session, "d.t");
    drop(server);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn data_nodes_are_killed_while_large_values_are_written() {
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL).unwrap();
    ok(&mut session, "CREATE DATABASE d");
    ok(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT, b LONGBLOB)");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (mut session, stop) = (cluster.session(SQL).unwrap(), stop.clone());
            thread::spawn(move || {
                let mut n = writer;
                while !stop.load(Ordering::SeqCst) {
                    let id = n % 20;
                    n += 2;
                    let statement = match n % 3 {
                        0 => format!("DELETE FROM d.t WHERE id = {id}"),
                        _ => format!(
                            "REPLACE INTO d.t SELECT {id}, n, {VALUE} FROM (SELECT {n} AS n) AS x"
                        ),
                    };
                    match session.query(&statement) {
                        // A node was lost, and the statement cannot be run again by itself.
                        Ok(_) | Err(QueryError::Refused(1205 | 1213 | 1297, _)) => {}
                        Err(error) => panic!("{statement}: {error}"),
                    }
                }
                n
            })
        })
        .collect();
    let right = format!("SELECT COUNT(*) - COALESCE(SUM(b = {VALUE}), 0) FROM d.t");
    for node in cluster.data_nodes() {
        thread::sleep(Duration::from_millis(700));
        cluster.kill(&[node]);
        thread::sleep(Duration::from_millis(300));
        assert_eq!(number(&mut session, &right), 0);
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.join().unwrap() > 20);
    }
    assert_eq!(number(&mut session, &right), 0);
    check(&mut session, "d.t");
}
