//! Statements and privileges: each statement as somebody who may do nothing, as somebody who may do
//! exactly what it needs, and as somebody who may do everything but one thing that it needs.

use crate::catalog::harness::Harness;

/// A statement, and what it needs: grants, each as GRANT says it. Where one of several privileges
/// is enough they are separated by `|`, and the first one is given.
type Case = (&'static str, &'static [&'static str]);

/// Errors that say that something is not allowed.
const DENIED: [u16; 9] = [1044, 1045, 1095, 1142, 1143, 1227, 1345, 1356, 1370];

/// Statements that everybody may run.
const FREE: &[&str] = &[
    "SELECT 1",
    "SELECT CURRENT_USER(), USER(), CURRENT_ROLE(), DATABASE()",
    "DO 1",
    "SET @a = 1",
    "SET autocommit = 1",
    "SET NAMES utf8mb4",
    "SET SESSION sql_mode = ''",
    "SET TRANSACTION READ ONLY",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "START TRANSACTION READ ONLY",
    "UNLOCK TABLES",
    "USE information_schema",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM performance_schema.global_variables",
    "SHOW DATABASES",
    "SHOW TABLES FROM information_schema",
    "SHOW VARIABLES LIKE 'version'",
    "SHOW STATUS LIKE 'Uptime'",
    "SHOW CHARACTER SET",
    "SHOW COLLATION LIKE 'latin%'",
    "SHOW ENGINES",
    "SHOW PLUGINS",
    "SHOW PRIVILEGES",
    "SHOW PROCESSLIST",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW GRANTS",
    "SHOW GRANTS FOR CURRENT_USER",
    "SHOW CREATE USER CURRENT_USER",
    "SHOW FUNCTION STATUS",
    "SHOW PROCEDURE STATUS",
    "SHOW PROFILES",
    "SET PASSWORD = ''",
    "ALTER USER CURRENT_USER IDENTIFIED BY ''",
    "SET ROLE NONE",
    "SET ROLE DEFAULT",
    "SET DEFAULT ROLE NONE TO CURRENT_USER",
    "PREPARE p FROM 'SELECT 1'",
    "HELP 'x'",
    "EXPLAIN SELECT 1",
];

/// Statements about rows.
const ROWS: &[Case] = &[
    ("SELECT * FROM t", &["SELECT ON d.t"]),
    ("SELECT * FROM t", &["SELECT ON d.*"]),
    ("SELECT * FROM t", &["SELECT ON *.*"]),
    ("SELECT a FROM t", &["SELECT (a) ON d.t"]),
    ("SELECT a, b FROM t", &["SELECT (a, b) ON d.t"]),
    ("SELECT * FROM t", &["SELECT (a, b) ON d.t"]),
    ("SELECT t.a FROM t JOIN p ON p.a = t.a", &["SELECT ON d.t", "SELECT (a) ON d.p"]),
    ("SELECT t.a FROM t JOIN p USING (a)", &["SELECT (a) ON d.t", "SELECT (a) ON d.p"]),
    ("SELECT t.a FROM t NATURAL JOIN p", &["SELECT (a) ON d.t", "SELECT (a) ON d.p"]),
    ("SELECT (SELECT MAX(a) FROM p) FROM t", &["SELECT ON d.t", "SELECT ON d.p"]),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM t)", &["SELECT ON d.t"]),
    ("SELECT a FROM t WHERE a IN (SELECT a FROM p)", &["SELECT ON d.t", "SELECT ON d.p"]),
    ("SELECT a FROM t UNION SELECT a FROM p", &["SELECT ON d.t", "SELECT ON d.p"]),
    ("SELECT * FROM (SELECT a FROM t) x", &["SELECT (a) ON d.t"]),
    ("WITH x AS (SELECT a FROM t) SELECT * FROM x, p", &["SELECT ON d.t", "SELECT ON d.p"]),
    ("TABLE t", &["SELECT ON d.t"]),
    ("SELECT a FROM t FOR UPDATE", &["SELECT ON d.t", "UPDATE|DELETE|LOCK TABLES ON d.t"]),
    ("SELECT a FROM t FOR SHARE", &["SELECT ON d.t", "DELETE|UPDATE|LOCK TABLES ON d.t"]),
    ("SELECT a INTO OUTFILE '/x' FROM t", &["SELECT ON d.t", "FILE ON *.*"]),
    ("SELECT * FROM v", &["SELECT ON d.v"]),
    ("SELECT * FROM mysql.user", &["SELECT ON mysql.user"]),
    ("SELECT * FROM mysql.db", &["SELECT ON mysql.*"]),
    ("SELECT * FROM performance_schema.metadata_locks", &["SELECT ON performance_schema.*"]),
    ("DO (SELECT MAX(a) FROM t)", &["SELECT ON d.t"]),
    ("SET @x = (SELECT MAX(a) FROM t)", &["SELECT (a) ON d.t"]),
    ("INSERT INTO t VALUES (1, 1)", &["INSERT ON d.t"]),
    ("INSERT INTO t (a) VALUES (1)", &["INSERT (a) ON d.t"]),
    ("INSERT INTO t SELECT a, a FROM p", &["INSERT ON d.t", "SELECT (a) ON d.p"]),
    (
        "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE b = 2",
        &["INSERT ON d.t", "UPDATE (b) ON d.t"],
    ),
    (
        "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE b = b + 1",
        &["INSERT ON d.t", "UPDATE ON d.t", "SELECT (b) ON d.t"],
    ),
    ("REPLACE INTO t VALUES (1, 1)", &["INSERT ON d.t", "DELETE ON d.t"]),
    ("UPDATE t SET b = 1", &["UPDATE ON d.t"]),
    ("UPDATE t SET b = 1", &["UPDATE (b) ON d.t"]),
    ("UPDATE t SET b = 1 WHERE a = 1", &["UPDATE (b) ON d.t", "SELECT (a) ON d.t"]),
    (
        "UPDATE t, p SET t.b = 1 WHERE t.a = p.a",
        &["UPDATE (b) ON d.t", "SELECT (a) ON d.t", "SELECT ON d.p"],
    ),
    ("DELETE FROM t", &["DELETE ON d.t"]),
    ("DELETE FROM t WHERE a = 1", &["DELETE ON d.t", "SELECT (a) ON d.t"]),
    ("DELETE t FROM t JOIN p ON p.a = t.a", &["DELETE ON d.t", "SELECT ON d.t", "SELECT ON d.p"]),
    ("LOAD DATA INFILE '/x' INTO TABLE t", &["INSERT ON d.t", "FILE ON *.*"]),
    (
        "LOAD DATA INFILE '/x' REPLACE INTO TABLE t",
        &["INSERT ON d.t", "DELETE ON d.t", "FILE ON *.*"],
    ),
    ("TRUNCATE t", &["DROP ON d.t"]),
    ("EXPLAIN SELECT * FROM t", &["SELECT ON d.t"]),
    ("EXPLAIN DELETE FROM t", &["DELETE ON d.t"]),
    ("EXPLAIN SELECT * FROM v", &["SELECT ON d.v", "SHOW VIEW ON d.v"]),
    ("CALL proc()", &["EXECUTE ON d.*"]),
];

/// Statements about definitions.
const DEFINITIONS: &[Case] = &[
    ("CREATE TABLE x (a INT)", &["CREATE ON d.*"]),
    ("CREATE TABLE x LIKE t", &["CREATE ON d.*", "SELECT ON d.t"]),
    ("CREATE TABLE x SELECT a FROM t", &["CREATE ON d.*", "INSERT ON d.*", "SELECT (a) ON d.t"]),
    (
        "CREATE TABLE x (a INT, FOREIGN KEY (a) REFERENCES p (a))",
        &["CREATE ON d.*", "REFERENCES (a) ON d.p"],
    ),
    ("CREATE TABLE x (a INT REFERENCES p (a))", &["CREATE ON d.*", "REFERENCES ON d.p"]),
    ("CREATE TEMPORARY TABLE x (a INT)", &["CREATE TEMPORARY TABLES ON d.*"]),
    ("ALTER TABLE t COMMENT 'x'", &["ALTER ON d.t", "CREATE ON d.t", "INSERT ON d.t"]),
    ("ALTER TABLE t ADD c INT", &["ALTER ON d.*", "CREATE ON d.*", "INSERT ON d.*"]),
    (
        "ALTER TABLE t RENAME TO x",
        &["ALTER ON d.t", "DROP ON d.t", "CREATE ON d.*", "INSERT ON d.*"],
    ),
    ("RENAME TABLE t TO x", &["ALTER ON d.t", "DROP ON d.t", "CREATE ON d.*", "INSERT ON d.*"]),
    ("DROP TABLE t", &["DROP ON d.t"]),
    ("DROP TABLE t, p", &["DROP ON d.t", "DROP ON d.p"]),
    ("CREATE INDEX i ON t (b)", &["INDEX ON d.t"]),
    ("DROP INDEX nosuch ON t", &["INDEX ON d.t"]),
    ("CREATE DATABASE x", &["CREATE ON x.*"]),
    ("CREATE DATABASE x", &["CREATE ON *.*"]),
    ("ALTER DATABASE e CHARACTER SET latin1", &["ALTER ON e.*"]),
    ("ALTER DATABASE CHARACTER SET latin1", &["ALTER ON d.*"]),
    ("DROP DATABASE e", &["DROP ON e.*"]),
    ("CREATE VIEW x AS SELECT 1", &["CREATE VIEW ON d.*"]),
    ("CREATE VIEW x AS SELECT a FROM t", &["CREATE VIEW ON d.*", "SELECT (a) ON d.t"]),
    ("CREATE OR REPLACE VIEW v AS SELECT 1", &["CREATE VIEW ON d.v", "DROP ON d.v"]),
    ("CREATE DEFINER = w VIEW x AS SELECT 1", &["CREATE VIEW ON d.*", "SET_ANY_DEFINER ON *.*"]),
    ("ALTER VIEW v AS SELECT 1", &["CREATE VIEW ON d.v", "DROP ON d.v"]),
    ("DROP VIEW v", &["DROP ON d.v"]),
    ("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a = 1", &["TRIGGER ON d.t"]),
    ("DROP TRIGGER x", &["TRIGGER ON d.*"]),
    ("CREATE PROCEDURE x() SELECT 1", &["CREATE ROUTINE ON d.*"]),
    ("CREATE FUNCTION x() RETURNS INT RETURN 1", &["CREATE ROUTINE ON d.*"]),
    ("DROP PROCEDURE x", &["ALTER ROUTINE ON d.*"]),
    ("DROP FUNCTION x", &["ALTER ROUTINE ON d.*"]),
    ("CREATE EVENT x ON SCHEDULE EVERY 1 DAY DO SELECT 1", &["EVENT ON d.*"]),
    ("DROP EVENT x", &["EVENT ON d.*"]),
    ("ANALYZE TABLE t", &["SELECT ON d.t", "INSERT ON d.t"]),
    ("OPTIMIZE TABLE t", &["SELECT ON d.t", "INSERT ON d.t"]),
    ("REPAIR TABLE t", &["SELECT ON d.t", "INSERT ON d.t"]),
    ("CHECKSUM TABLE t", &["SELECT ON d.t"]),
    ("LOCK TABLES t READ", &["LOCK TABLES ON d.*", "SELECT ON d.t"]),
];

/// Statements about accounts.
const ACCOUNTS: &[Case] = &[
    ("CREATE USER x", &["CREATE USER|INSERT ON *.*"]),
    ("CREATE USER x", &["INSERT|CREATE USER ON *.*"]),
    ("CREATE USER IF NOT EXISTS w", &["CREATE USER|INSERT ON *.*"]),
    ("ALTER USER w ACCOUNT LOCK", &["CREATE USER|UPDATE ON *.*"]),
    ("ALTER USER w IDENTIFIED BY 'x'", &["CREATE USER|UPDATE ON *.*"]),
    ("ALTER USER CURRENT_USER ACCOUNT UNLOCK", &["CREATE USER|UPDATE ON *.*"]),
    ("ALTER USER w DEFAULT ROLE NONE", &["CREATE USER|UPDATE ON *.*"]),
    ("DROP USER w", &["CREATE USER|DELETE ON *.*"]),
    ("RENAME USER w TO x", &["CREATE USER|UPDATE ON *.*"]),
    ("SET PASSWORD FOR w = 'x'", &["CREATE USER|UPDATE ON *.*"]),
    ("CREATE ROLE x", &["CREATE ROLE|CREATE USER ON *.*"]),
    ("CREATE ROLE x", &["CREATE USER|CREATE ROLE ON *.*"]),
    ("DROP ROLE r", &["DROP ROLE|CREATE USER ON *.*"]),
    ("GRANT r TO w", &["ROLE_ADMIN|SUPER ON *.*"]),
    ("REVOKE IF EXISTS r FROM w", &["ROLE_ADMIN|SUPER ON *.*"]),
    ("SET DEFAULT ROLE NONE TO w", &["CREATE USER|UPDATE ON *.*"]),
    ("GRANT SELECT ON d.t TO w", &["GRANT OPTION ON d.t", "SELECT ON d.t"]),
    ("GRANT SELECT ON d.* TO w", &["GRANT OPTION ON d.*", "SELECT ON d.*"]),
    ("GRANT SELECT ON *.* TO w", &["GRANT OPTION ON *.*", "SELECT ON *.*"]),
    ("GRANT SELECT (a) ON d.t TO w", &["GRANT OPTION ON d.t", "SELECT (a) ON d.t"]),
    ("GRANT RELOAD ON *.* TO w", &["GRANT OPTION ON *.*", "RELOAD ON *.*"]),
    ("REVOKE IF EXISTS SELECT ON d.t FROM w", &["GRANT OPTION ON d.t", "SELECT ON d.t"]),
    ("REVOKE ALL PRIVILEGES, GRANT OPTION FROM w", &["CREATE USER|UPDATE ON *.*"]),
    ("SHOW GRANTS FOR w", &["SELECT ON mysql.*"]),
    ("SHOW CREATE USER w", &["CREATE USER|SELECT ON *.*"]),
];

/// Statements about the server, and about what there is.
const SERVER: &[Case] = &[
    ("SHOW CREATE VIEW v", &["SELECT ON d.v", "SHOW VIEW ON d.v"]),
    ("SHOW CREATE TABLE v", &["SELECT ON d.v", "SHOW VIEW ON d.v"]),
    ("SHOW CREATE TRIGGER x", &["TRIGGER ON d.*"]),
    ("SHOW CREATE EVENT x", &["EVENT ON d.*"]),
    ("SHOW VARIABLES WHERE variable_name IN (SELECT a FROM t)", &["SELECT ON d.t"]),
    ("SHOW ENGINE ndbcluster STATUS", &["PROCESS ON *.*"]),
    ("SHOW BINARY LOG STATUS", &["REPLICATION CLIENT ON *.*"]),
    ("SHOW BINARY LOGS", &["REPLICATION CLIENT ON *.*"]),
    ("SHOW REPLICA STATUS", &["REPLICATION CLIENT ON *.*"]),
    ("SHOW REPLICAS", &["REPLICATION SLAVE ON *.*"]),
    ("SHOW BINLOG EVENTS", &["REPLICATION SLAVE ON *.*"]),
    (
        "CREATE CHANGEFEED f FOR TABLE t INTO 'sql'",
        &["REPLICATION_SLAVE_ADMIN ON *.*", "SELECT ON d.t"],
    ),
    (
        "CREATE CHANGEFEED f FOR TABLE t INTO 'file:///d'",
        &["REPLICATION_SLAVE_ADMIN ON *.*", "FILE ON *.*", "SELECT ON d.t"],
    ),
    ("PAUSE CHANGEFEED f", &["REPLICATION_SLAVE_ADMIN ON *.*"]),
    ("DROP CHANGEFEED f", &["REPLICATION_SLAVE_ADMIN ON *.*"]),
    ("STREAM CHANGEFEED f", &["REPLICATION SLAVE ON *.*"]),
    ("SHOW CHANGEFEEDS", &["REPLICATION CLIENT ON *.*"]),
    ("EXPLAIN FOR CONNECTION 1", &["PROCESS ON *.*"]),
    ("SET GLOBAL max_connections = 100", &["SYSTEM_VARIABLES_ADMIN|SUPER ON *.*"]),
    ("SET GLOBAL TRANSACTION READ WRITE", &["SYSTEM_VARIABLES_ADMIN|SUPER ON *.*"]),
    (
        "SET SESSION binlog_format = 'ROW'",
        &["SESSION_VARIABLES_ADMIN|SYSTEM_VARIABLES_ADMIN|SUPER ON *.*"],
    ),
    ("ALTER INSTANCE RELOAD TLS", &["CONNECTION_ADMIN ON *.*"]),
    ("FLUSH PRIVILEGES", &["RELOAD|FLUSH_PRIVILEGES ON *.*"]),
    ("FLUSH STATUS", &["FLUSH_STATUS|RELOAD ON *.*"]),
    ("FLUSH TABLES", &["FLUSH_TABLES|RELOAD ON *.*"]),
    ("FLUSH USER_RESOURCES", &["FLUSH_USER_RESOURCES|RELOAD ON *.*"]),
    ("FLUSH OPTIMIZER_COSTS", &["FLUSH_OPTIMIZER_COSTS|RELOAD ON *.*"]),
    ("FLUSH LOGS", &["RELOAD ON *.*"]),
    (
        "FLUSH TABLES t WITH READ LOCK",
        &["FLUSH_TABLES|RELOAD ON *.*", "LOCK TABLES ON d.*", "SELECT ON d.t"],
    ),
    ("LOCK INSTANCE FOR BACKUP", &["BACKUP_ADMIN ON *.*"]),
    ("UNLOCK INSTANCE", &["BACKUP_ADMIN ON *.*"]),
    ("BACKUP ALL INTO '/b'", &["BACKUP_ADMIN ON *.*", "FILE ON *.*"]),
    (
        "BACKUP ALL INTO '/b' WITH accounts",
        &["BACKUP_ADMIN ON *.*", "FILE ON *.*", "SUPER ON *.*", "CREATE USER ON *.*"],
    ),
    (
        "RESTORE TABLE t FROM '/b'",
        &["BACKUP_ADMIN ON *.*", "FILE ON *.*", "CREATE ON *.*", "INSERT ON *.*"],
    ),
    ("CANCEL BACKUP JOB 1", &["BACKUP_ADMIN ON *.*"]),
    ("START ARCHIVE INTO '/b'", &["BACKUP_ADMIN ON *.*", "FILE ON *.*"]),
    (
        "START ARCHIVE INTO '/b' WITH accounts",
        &["BACKUP_ADMIN ON *.*", "FILE ON *.*", "SUPER ON *.*", "CREATE USER ON *.*"],
    ),
    ("STOP ARCHIVE", &["BACKUP_ADMIN ON *.*"]),
    ("SHOW ARCHIVES", &["BACKUP_ADMIN ON *.*"]),
    ("SHOW BACKUP JOBS", &["BACKUP_ADMIN ON *.*"]),
    ("SHOW BACKUPS IN '/b'", &["BACKUP_ADMIN ON *.*", "FILE ON *.*"]),
    ("SHUTDOWN", &["SHUTDOWN ON *.*"]),
    ("RESTART", &["SHUTDOWN ON *.*"]),
];

/// Statements for which anything in the database, or at the table, is enough.
const SEEN: &[Case] = &[
    ("USE e", &["SELECT ON e.*"]),
    ("SHOW TABLES FROM e", &["CREATE ON e.*"]),
    ("SHOW TABLE STATUS FROM e", &["CREATE ON e.*"]),
    ("SHOW CREATE DATABASE e", &["CREATE ON e.*"]),
    ("SHOW COLUMNS FROM t", &["SELECT (a) ON d.t"]),
    ("SHOW COLUMNS FROM t", &["INSERT ON d.*"]),
    ("SHOW INDEX FROM t", &["INDEX ON d.t"]),
    ("SHOW CREATE TABLE t", &["INSERT ON d.t"]),
    ("DESCRIBE t", &["SELECT ON d.t"]),
    ("CHECK TABLE t", &["UPDATE (b) ON d.t"]),
];

/// What the statements are about.
fn world() -> Harness {
    let mut harness = Harness::new();
    for sql in [
        "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
        "CREATE TABLE p (a INT PRIMARY KEY, c INT)",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE DATABASE e",
        "CREATE USER u, w",
        "CREATE ROLE r",
    ] {
        harness.said(sql);
    }
    harness
}

/// The privileges of a grant that are each enough, and what they are for.
fn parts(grant: &str) -> (Vec<&str>, &str) {
    let (privileges, target) = grant.split_once(" ON ").unwrap();
    (privileges.split('|').collect(), target)
}

/// Whether a statement is denied.
fn is_denied(harness: &mut Harness, sql: &str) -> bool {
    harness.say(sql).is_err_and(|error| DENIED.contains(&error.code()))
}

fn check(cases: &[Case]) {
    check_enough(cases);
    for (sql, grants) in cases {
        (0..grants.len()).for_each(|at| all_but(sql, grants, at));
    }
}

fn check_enough(cases: &[Case]) {
    for (sql, grants) in cases {
        let mut harness = world();
        harness.log_in("u", "%");
        assert!(is_denied(&mut harness, sql), "{sql} as nobody");

        let mut harness = world();
        for grant in *grants {
            let (privileges, target) = parts(grant);
            harness.said(&format!("GRANT {} ON {target} TO u", privileges[0]));
        }
        harness.log_in("u", "%");
        if let Err(error) = harness.say(sql) {
            assert!(!DENIED.contains(&error.code()), "{sql} with {grants:?}: {error}");
        }
    }
}

/// With all privileges but those that one of the grants allows to choose from.
fn all_but(sql: &str, grants: &[&str], at: usize) {
    let mut harness = world();
    harness.said("GRANT ALL ON *.* TO u WITH GRANT OPTION");
    let (privileges, _) = parts(grants[at]);
    for privilege in &privileges {
        let whole = privilege.split(" (").next().unwrap();
        harness.said(&format!("REVOKE {whole} ON *.* FROM u"));
    }
    // The same privilege for something else stays.
    for (_, grant) in grants.iter().enumerate().filter(|(other, _)| *other != at) {
        let (privileges, target) = parts(grant);
        harness.said(&format!("GRANT {} ON {target} TO u", privileges[0]));
    }
    harness.log_in("u", "%");
    let lacking = grants[at];
    assert!(is_denied(&mut harness, sql), "{sql} without {lacking}");
}

#[test]
fn statements_that_need_nothing() {
    for sql in FREE {
        let mut harness = world();
        harness.log_in("u", "%");
        if let Err(error) = harness.say(sql) {
            assert!(!DENIED.contains(&error.code()), "{sql}: {error}");
        }
    }
}

#[test]
fn statements_about_rows() {
    check(ROWS);
}

#[test]
fn statements_about_definitions() {
    check(DEFINITIONS);
}

#[test]
fn statements_about_accounts() {
    check(ACCOUNTS);
}

#[test]
fn statements_about_the_server() {
    check(SERVER);
    check_enough(SEEN);
}

#[test]
fn there_are_enough_of_them() {
    let all =
        [ROWS, DEFINITIONS, ACCOUNTS, SERVER, SEEN].iter().map(|cases| cases.len()).sum::<usize>();
    assert!(all + FREE.len() >= 160, "{all}");
}
