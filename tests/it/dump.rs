//! mysqldump: a schema with data, and all databases, that load back equal.

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

/// Accounts of every kind, with what is given to them.
const ACCOUNTS: [&str; 12] = [
    "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b INT)",
    "CREATE ROLE reader, writer@localhost",
    "GRANT SELECT ON d.* TO reader",
    "GRANT INSERT, UPDATE (b) ON d.t TO writer@localhost WITH GRANT OPTION",
    "CREATE USER plain IDENTIFIED BY 'secret' DEFAULT ROLE reader",
    "CREATE USER 'it''s'@'10.1.0.0/16' IDENTIFIED WITH mysql_native_password BY 'secret'",
    "CREATE USER socket@localhost IDENTIFIED WITH auth_socket",
    "CREATE USER much REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 5 MAX_USER_CONNECTIONS 2 \
     PASSWORD EXPIRE INTERVAL 9 DAY FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2 ACCOUNT LOCK",
    "GRANT reader, writer@localhost TO much WITH ADMIN OPTION",
    "GRANT ALL ON d.* TO plain WITH GRANT OPTION",
    "GRANT RELOAD, PROCESS ON *.* TO 'it''s'@'10.1.0.0/16'",
    "GRANT BACKUP_ADMIN, ROLE_ADMIN ON *.* TO socket@localhost",
];

#[test]
fn dumped_accounts_load_back_equal() {
    let options = ["--mysql-native-password"];
    let (server, copy) = (Server::start(&options), Server::start(&options));
    server.sql(&ACCOUNTS.join(";"));
    copy.sql(ACCOUNTS[0]);
    let mut program = server.client("mysqldump");
    program.args(["--system=users", "--insert-ignore"]);
    let dump = succeed(program);
    // The dump names default roles before it makes them: an account that has one is made the second
    // time.
    for _ in 0..2 {
        let mut client = copy.client("mysql");
        client.arg("--force").stdin(Stdio::piped());
        let mut child = client.spawn().unwrap();
        child.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
        child.wait().unwrap();
    }
    let told = |server: &Server| {
        let names = "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user ORDER BY 1";
        let mut told = String::new();
        for name in server.sql(names).lines() {
            told += &server.sql(&format!("SHOW CREATE USER {name}; SHOW GRANTS FOR {name}"));
        }
        told
    };
    assert_eq!(told(&copy), told(&server), "{dump}");
}

/// The lines of a dump in some order: rows of a table without primary key come in none.
fn lines(dump: &str) -> Vec<String> {
    let ends: &[char] = &[',', ';'];
    let trimmed = dump.lines().map(|line| line.trim_end_matches(ends).to_owned());
    let mut lines: Vec<String> = trimmed.collect();
    lines.sort();
    lines
}
