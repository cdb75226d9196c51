//! Foreign keys: against MariaDB, and with transactions that meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::mariadb::MariaDb;
use tests::{QueryError, Server, Session};

use crate::answers::{answers, difference};

/// Statements, one a line; what MariaDB says otherwise than MySQL is left out.
const SCRIPT: &str = include_str!("foreign_keys/script.sql");
/// A database of its own.
const SCHEMA: &str =
    "DROP DATABASE IF EXISTS fk; CREATE DATABASE fk; USE fk;\nSET NAMES utf8mb4;\n";

#[test]
fn statements_are_answered_as_mariadb_does() {
    let lines = SCRIPT.lines().filter(|line| !line.starts_with("--"));
    let statements: Vec<String> = lines.map(str::to_owned).collect();
    let other = MariaDb::start();
    let server = Server::start(&[]);
    let expected = answers(other.client(), SCHEMA, &statements);
    let found = answers(server.client("mysql"), SCHEMA, &statements);
    let different: Vec<String> = statements
        .iter()
        .zip(expected.iter().zip(&found))
        .filter(|(_, (expected, found))| expected != found)
        .map(|(statement, (expected, found))| difference(statement, expected, found))
        .collect();
    assert!(different.is_empty(), "{}", different.concat());
}

fn connect(server: &Server) -> Session {
    let mut session = Session::connect(&server.socket).expect("it is ready");
    ok(&mut session, "SET innodb_lock_wait_timeout = 20");
    ok(&mut session, "CREATE DATABASE IF NOT EXISTS fk");
    ok(&mut session, "USE fk");
    session
}

fn ok(session: &mut Session, statement: &str) {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Runs a statement beside, and sees that it waits; what it said in the end.
fn waits(
    mut session: Session,
    statement: &'static str,
    meanwhile: impl FnOnce(),
) -> (Session, Result<(), QueryError>) {
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let beside = thread::spawn(move || {
        let result = session.query(statement).map(|_| ());
        seen.store(true, Ordering::SeqCst);
        (session, result)
    });
    thread::sleep(Duration::from_millis(200));
    assert!(!ended.load(Ordering::SeqCst), "{statement} does not wait");
    meanwhile();
    beside.join().expect("it does not panic")
}

/// What a child refers to, how the parent's key goes, and the error of the child that is too late.
const MEETINGS: [(&str, &str); 4] = [
    ("p (id)", "DELETE FROM p WHERE id = 1"),
    ("p (id)", "UPDATE p SET id = 2 WHERE id = 1"),
    ("p (u)", "DELETE FROM p WHERE u = 1"),
    ("p (u)", "UPDATE p SET u = 2 WHERE id = 1"),
];

#[test]
fn a_child_and_the_end_of_its_parent_exclude_each_other() {
    let server = Server::start(&[]);
    for (parent, end) in MEETINGS {
        for commits in [true, false] {
            let mut child = connect(&server);
            ok(&mut child, "DROP TABLE IF EXISTS c, p");
            ok(&mut child, "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)");
            let create = "CREATE TABLE c (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES";
            ok(&mut child, &format!("{create} {parent})"));
            let last = if commits { "COMMIT" } else { "ROLLBACK" };
            // The child first.
            ok(&mut child, "INSERT INTO p VALUES (1, 1)");
            ok(&mut child, "BEGIN");
            ok(&mut child, "INSERT INTO c VALUES (1, 1)");
            let (mut other, result) = waits(connect(&server), end, || ok(&mut child, last));
            if commits {
                assert_eq!(result.unwrap_err().code(), Some(1451), "{end} {last}")
            } else {
                result.unwrap()
            }
            // The parent first.
            ok(&mut child, "DELETE FROM c");
            ok(&mut child, "DELETE FROM p");
            ok(&mut child, "INSERT INTO p VALUES (1, 1)");
            ok(&mut other, "BEGIN");
            ok(&mut other, end);
            let insert = "INSERT INTO c VALUES (2, 1)";
            let (mut child, result) = waits(child, insert, || ok(&mut other, last));
            if commits {
                assert_eq!(result.unwrap_err().code(), Some(1452), "{end} {last}")
            } else {
                result.unwrap()
            }
            let children = child.number("SELECT COUNT(*) FROM c").unwrap();
            assert_eq!(children, i64::from(!commits), "{end} {last}");
        }
    }
}

#[test]
fn a_parent_that_is_being_inserted_is_waited_for() {
    let server = Server::start(&[]);
    for parent in ["p (id)", "p (u)"] {
        for (last, code) in [("COMMIT", None), ("ROLLBACK", Some(1452))] {
            let mut first = connect(&server);
            ok(&mut first, "DROP TABLE IF EXISTS c, p");
            ok(&mut first, "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)");
            ok(&mut first, &format!("CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES {parent})"));
            ok(&mut first, "BEGIN");
            ok(&mut first, "INSERT INTO p VALUES (1, 1)");
            let insert = "INSERT INTO c VALUES (1)";
            let (_, result) = waits(connect(&server), insert, || ok(&mut first, last));
            assert_eq!(result.err().and_then(|error| error.code()), code, "{parent} {last}");
        }
    }
}

/// How long sessions are let loose on each other.
const LOOSE: Duration = Duration::from_secs(4);

#[test]
fn no_child_is_ever_without_its_parent() {
    let server = Server::start(&[]);
    let mut first = connect(&server);
    ok(&mut first, "CREATE TABLE p (id INT PRIMARY KEY, u INT UNIQUE)");
    ok(
        &mut first,
        "CREATE TABLE c1 (id INT AUTO_INCREMENT PRIMARY KEY, a INT, \
                    FOREIGN KEY (a) REFERENCES p (id))",
    );
    ok(
        &mut first,
        "CREATE TABLE c2 (id INT AUTO_INCREMENT PRIMARY KEY, a INT, \
                    FOREIGN KEY (a) REFERENCES p (u) ON DELETE CASCADE ON UPDATE CASCADE)",
    );
    let done = AtomicU64::new(0);
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..6u64 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut session = connect(server);
                let mut draw = number + 1;
                while began.elapsed() < LOOSE {
                    // Numbers enough to meet, and too few to avoid each other.
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let (key, what) = ((draw >> 33) % 4, (draw >> 40) % 8);
                    let statement = match what {
                        0 => format!("INSERT INTO p VALUES ({key}, {key})"),
                        1 => format!("DELETE FROM p WHERE id = {key}"),
                        2 => format!("UPDATE p SET u = {} WHERE id = {key}", (key + 1) % 4),
                        3 | 4 => format!("INSERT INTO c1 (a) VALUES ({key})"),
                        5 | 6 => format!("INSERT INTO c2 (a) VALUES ({key})"),
                        _ => format!("DELETE FROM c1 WHERE a = {key}"),
                    };
                    match session.query(&statement) {
                        Ok(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                        // A duplicate, a foreign key, a deadlock, a wait.
                        Err(error) => assert!(
                            matches!(error.code(), Some(1062 | 1451 | 1452 | 1213 | 1205)),
                            "{statement}: {error}"
                        ),
                    }
                }
            });
        }
    });
    let orphans = |table: &str, key: &str| {
        format!(
            "SELECT COUNT(*) FROM {table} LEFT JOIN p ON {table}.a = p.{key} WHERE p.id IS NULL"
        )
    };
    assert_eq!(first.number(&orphans("c1", "id")).unwrap(), 0);
    assert_eq!(first.number(&orphans("c2", "u")).unwrap(), 0);
    assert!(done.load(Ordering::Relaxed) > 100, "they get on");
}

#[test]
fn a_foreign_key_that_is_added_meets_open_transactions() {
    let server = Server::start(&[]);
    let mut first = connect(&server);
    ok(&mut first, "CREATE TABLE p (id INT PRIMARY KEY, n INT)");
    ok(&mut first, "CREATE TABLE c (id INT PRIMARY KEY, a INT)");
    ok(&mut first, "INSERT INTO p VALUES (1, 0), (2, 0)");
    ok(&mut first, "INSERT INTO c VALUES (1, 1)");
    // A statement that was planned before, by key and so without a look at children.
    let mut other = connect(&server);
    ok(&mut other, "DELETE FROM p WHERE id = 2");
    ok(&mut other, "BEGIN");
    ok(&mut other, "UPDATE p SET n = n + 1 WHERE id = 1");
    ok(&mut other, "COMMIT");
    ok(&mut first, "ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (id)");
    let error = other.query("DELETE FROM p WHERE id = 1").unwrap_err();
    assert_eq!(error.code(), Some(1451), "{error}");
    // A parent's end that is not decided yet is waited for.
    ok(&mut first, "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1");
    ok(&mut other, "BEGIN");
    ok(&mut other, "DELETE FROM p WHERE id = 1");
    let alter = "ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (id)";
    let (_, result) = waits(first, alter, || ok(&mut other, "COMMIT"));
    assert_eq!(result.unwrap_err().code(), Some(1452));
}
