//! mysqldump: a schema with data, all databases, and accounts with roles, that load back equal.

use std::io::Write;
use std::process::Stdio;

use tests::{Server, succeed};

const SCHEMA: &str = include_str!("dump/schema.sql");

#[test]
fn a_dump_loads_back_equal() {
    let server = Server::start(&[]);
    server.sql(SCHEMA);
    let dump = |database: &str| {
        let mut program = server.client("mysqldump");
        program.args(["--single-transaction", "--skip-dump-date", "--skip-comments", "--hex-blob"]);
        program.args(["--default-character-set=utf8mb4", database]);
        succeed(program)
    };
    let first = dump("shop");
    assert!(first.contains("CREATE TABLE `customers`"), "{first}");
    server.sql("CREATE DATABASE copy");
    let mut client = server.client("mysql");
    client.args(["--default-character-set=utf8mb4", "copy"]).stdin(Stdio::piped());
    let mut child = client.spawn().unwrap();
    child.stdin.take().unwrap().write_all(first.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let second = dump("copy");
    assert_eq!(lines(&first), lines(&second));
    assert_eq!(server.sql("SELECT COUNT(*) FROM copy.customers"), "3\n");
}

#[test]
fn a_dump_of_all_databases_loads_back_equal() {
    let server = Server::start(&[]);
    server.sql(SCHEMA);
    server.sql("CREATE DATABASE `other one`; CREATE TABLE `other one`.t (id INT PRIMARY KEY)");
    server.sql("INSERT INTO `other one`.t VALUES (1), (2)");
    let dump = |server: &Server| {
        let mut program = server.client("mysqldump");
        program.args(["--all-databases", "--single-transaction", "--skip-dump-date"]);
        program.args(["--default-character-set=utf8mb4", "--routines", "--events", "--hex-blob"]);
        succeed(program)
    };
    let first = dump(&server);
    let databases: Vec<&str> = first.lines().filter(|line| line.starts_with("USE ")).collect();
    assert_eq!(databases, ["USE `other one`;", "USE `shop`;"]);
    let copy = Server::start(&[]);
    let mut client = copy.client("mysql");
    client.arg("--default-character-set=utf8mb4").stdin(Stdio::piped());
    let mut child = client.spawn().unwrap();
    child.stdin.take().unwrap().write_all(first.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let second = dump(&copy);
    assert_eq!(lines(&first), lines(&second));
    assert_eq!(copy.sql("SELECT COUNT(*) FROM `other one`.t"), "2\n");
}

/// Roles of roles, a role of two, what is granted with the right to pass it on, all that an account
/// may be asked for.
const ACCOUNTS: &str = "\
    CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b INT); \
    CREATE ROLE reader, writer, 'audit'@'10.0.0.1'; \
    GRANT SELECT ON shop.* TO reader; GRANT INSERT, UPDATE (a, b) ON shop.t TO writer; \
    GRANT reader TO writer; GRANT AUDIT_ADMIN ON *.* TO 'audit'@'10.0.0.1'; \
    CREATE USER app IDENTIFIED BY 'secret' REQUIRE SSL WITH MAX_USER_CONNECTIONS 7; \
    CREATE USER 'ops'@'10.0.0.%' IDENTIFIED BY 'other' ACCOUNT LOCK PASSWORD EXPIRE; \
    CREATE USER 'it''s'@'localhost' COMMENT 'a \\'name\\''; \
    GRANT reader TO app; GRANT writer TO app WITH ADMIN OPTION; SET DEFAULT ROLE reader TO app; \
    GRANT 'audit'@'10.0.0.1', writer TO 'ops'@'10.0.0.%'; \
    SET DEFAULT ROLE ALL TO 'ops'@'10.0.0.%'; \
    GRANT PROCESS, BACKUP_ADMIN ON *.* TO 'ops'@'10.0.0.%' WITH GRANT OPTION; \
    GRANT ALL ON shop.* TO 'it''s'@'localhost'";

/// Everything about every account but root, in some order.
fn accounts(server: &Server) -> Vec<String> {
    let names = server.sql(
        "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE user <> 'root' AND \
         user NOT LIKE 'mysql.%'",
    );
    let mut all = Vec::new();
    for name in names.lines() {
        let of = |what: &str| server.sql(&format!("SHOW {what} {name}"));
        let told = [of("CREATE USER"), of("GRANTS FOR")].concat();
        all.extend(told.lines().map(|line| format!("{name}: {line}")));
    }
    all.sort();
    all
}

/// Loads a dump by the command-line client.
fn load(server: &Server, dump: &str) {
    let mut client = server.client("mysql");
    client.arg("--default-character-set=utf8mb4").stdin(Stdio::piped());
    let mut child = client.spawn().unwrap();
    child.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{dump}");
}

#[test]
fn a_dump_of_accounts_with_roles_loads_back_equal() {
    let server = Server::start(&[]);
    server.sql(ACCOUNTS);
    let mut program = server.client("mysqldump");
    program.args(["--system=users", "--insert-ignore", "--default-character-set=utf8mb4"]);
    let dump = succeed(program);
    // The client of MariaDB puts comments for a version into others.
    assert!(dump.contains("/*!80001 @"), "{dump}");
    let copy = Server::start(&[]);
    copy.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b INT)");
    load(&copy, &dump);
    let expected = accounts(&server);
    assert_eq!(accounts(&copy), expected);
    assert!(expected.len() > 15, "{expected:?}");
    // Again, over what is there.
    load(&copy, &dump);
    assert_eq!(accounts(&copy), expected);
}

/// The lines of a dump in some order: rows of a table without primary key come in none.
fn lines(dump: &str) -> Vec<String> {
    let ends: &[char] = &[',', ';'];
    let trimmed = dump.lines().map(|line| line.trim_end_matches(ends).to_owned());
    let mut lines: Vec<String> = trimmed.collect();
    lines.sort();
    lines
}
