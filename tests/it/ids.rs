//! Ids that clients are told: the insert id of the OK packet, and LAST_INSERT_ID(), after every
//! form of statement that the manual of MySQL names. Wrong ones hang children under wrong parents.

use tests::{Server, Session, all, number};

/// A statement, the insert id and the rows affected of its OK packet, LAST_INSERT_ID() after it.
type Told = (&'static str, u64, u64, i64);

fn check(session: &mut Session, expected: &[Told]) {
    for (statement, insert_id, affected, after) in expected {
        let answer = session.ask(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let last = number(session, "SELECT LAST_INSERT_ID()");
        let told = (answer.insert_id, answer.changed, last);
        assert_eq!(told, (*insert_id, *affected, *after), "{statement}");
    }
}

fn begin(server: &Server, table: &str) -> Session {
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    all(&mut session, &["CREATE DATABASE d", "USE d", table]);
    session
}

#[test]
fn statements_tell_their_ids() {
    let server = Server::start(&[]);
    let table = "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)";
    let mut session = begin(&server, table);
    check(
        &mut session,
        &[
            ("INSERT INTO a (v) VALUES (1)", 1, 1, 1),
            // Of several rows the first one that was generated.
            ("INSERT INTO a (v) VALUES (2), (3), (4)", 2, 3, 2),
            // A value that is given is told, and LAST_INSERT_ID() stays.
            ("INSERT INTO a VALUES (15, 15)", 15, 1, 2),
            ("INSERT INTO a VALUES (20, 20), (21, 21)", 21, 2, 2),
            ("INSERT INTO a SET id = 10 + 20, v = 30", 30, 1, 2),
            ("INSERT INTO a SELECT 40, 40 UNION SELECT 41, 41", 41, 2, 2),
            ("INSERT INTO a VALUES (-9, 7)", u64::MAX - 8, 1, 2),
            // Given and generated ones.
            ("INSERT INTO a VALUES (50, 50), (NULL, 51), (0, 52), (60, 60)", 51, 4, 51),
            ("INSERT INTO a (v) SELECT v + 1000 FROM a WHERE id IN (1, 2) ORDER BY id", 61, 2, 61),
            // Rows that are in the way of others.
            ("INSERT IGNORE INTO a (v) VALUES (1)", 0, 0, 61),
            ("INSERT IGNORE INTO a VALUES (15, 16)", 0, 0, 61),
            ("INSERT INTO a (v) VALUES (1) ON DUPLICATE KEY UPDATE v = v", 0, 0, 61),
            ("INSERT INTO a (v) VALUES (1) ON DUPLICATE KEY UPDATE v = 100", 1, 2, 61),
            (
                "INSERT INTO a (v) VALUES (100) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
                1,
                0,
                1,
            ),
            ("REPLACE INTO a VALUES (15, 16)", 15, 2, 1),
            // LAST_INSERT_ID(expr).
            ("UPDATE a SET id = LAST_INSERT_ID(id + 1000) WHERE id = 15", 1015, 1, 1015),
            ("UPDATE a SET v = LAST_INSERT_ID(v + 1) WHERE id = 1015", 17, 1, 17),
            ("UPDATE a SET v = LAST_INSERT_ID(5) WHERE id = 999", 0, 0, 17),
            ("UPDATE a SET v = v + 1 WHERE id = 1", 0, 1, 17),
            ("DELETE FROM a WHERE id = 2", 0, 1, 17),
            ("SET last_insert_id = 99", 0, 0, 99),
            ("DO LAST_INSERT_ID(98)", 0, 0, 98),
            ("INSERT INTO a VALUES (70, LAST_INSERT_ID(71))", 71, 1, 71),
            ("INSERT INTO a (v) VALUES (LAST_INSERT_ID() + 1)", 1016, 1, 1016),
            // The value that UPDATE gave was above all others: those generated later are above it.
            ("INSERT INTO a (v) VALUES (LAST_INSERT_ID(5000))", 1017, 1, 1017),
        ],
    );
    // The first one that was stored, not the first that was generated.
    session.query("INSERT IGNORE INTO a (v) VALUES (101), (200), (201)").unwrap();
    let first = number(&mut session, "SELECT id FROM a WHERE v = 200");
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()"), first);
    let odku = "INSERT INTO a (v) VALUES (101), (300), (201), (301) \
                ON DUPLICATE KEY UPDATE v = VALUES(v) + 5000";
    let answer = session.ask(odku).unwrap();
    let first = number(&mut session, "SELECT id FROM a WHERE v = 300");
    assert_eq!((answer.insert_id as i64, answer.changed), (first, 6));
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()"), first);
}

#[test]
fn ids_outlive_rollbacks_and_failures_change_nothing() {
    let server = Server::start(&[]);
    let table = "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE)";
    let mut session = begin(&server, table);
    check(&mut session, &[("INSERT INTO a (v) VALUES (1)", 1, 1, 1)]);
    assert!(session.query("INSERT INTO a (v) VALUES (2), (1)").is_err());
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()"), 1);
    all(&mut session, &["START TRANSACTION", "INSERT INTO a VALUES (10, 10), (NULL, 11)"]);
    all(&mut session, &["ROLLBACK"]);
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()"), 11);
    all(&mut session, &["SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"]);
    check(
        &mut session,
        &[
            ("INSERT INTO a VALUES (0, 20)", 0, 1, 11),
            ("SET insert_id = 500", 0, 0, 11),
            ("INSERT INTO a (v) VALUES (21), (22)", 500, 2, 500),
            ("REPLACE INTO a (v) VALUES (21)", 502, 2, 502),
            (
                "CREATE TABLE b (id INT AUTO_INCREMENT PRIMARY KEY) SELECT v FROM a WHERE v > 20",
                1,
                2,
                1,
            ),
            ("CREATE TABLE n (v INT)", 0, 0, 1),
            ("INSERT INTO n VALUES (7)", 0, 1, 1),
        ],
    );
    // Each session has its own.
    let mut other = server.session().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(number(&mut other, "SELECT LAST_INSERT_ID()"), 0);
    all(&mut other, &["USE d"]);
    check(&mut other, &[("INSERT INTO a (v) VALUES (31)", 503, 1, 503)]);
    assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()"), 1);
    // Prepared statements.
    all(&mut session, &["PREPARE p FROM 'INSERT INTO a (v) VALUES (?)'", "SET @v = 32"]);
    check(&mut session, &[("EXECUTE p USING @v", 504, 1, 504)]);
    all(&mut session, &["PREPARE u FROM 'UPDATE a SET v = LAST_INSERT_ID(v + ?) WHERE v = 32'"]);
    check(&mut session, &[("EXECUTE u USING @v", 64, 1, 64)]);
}

/// A sequence in a table of one row, as the manual shows it.
#[test]
fn an_update_is_a_sequence() {
    let server = Server::start(&[]);
    let mut session =
        begin(&server, "CREATE TABLE s (name VARCHAR(9) PRIMARY KEY, id INT NOT NULL)");
    all(&mut session, &["INSERT INTO s VALUES ('x', 0)"]);
    for step in 1..4 {
        let answer = session.ask("UPDATE s SET id = LAST_INSERT_ID(id + 1) WHERE name = 'x'");
        assert_eq!(answer.unwrap().insert_id, step);
        assert_eq!(number(&mut session, "SELECT LAST_INSERT_ID()") as u64, step);
    }
}
