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

/// The lines of a dump in some order: rows of a table without primary key come in none.
fn lines(dump: &str) -> Vec<String> {
    let ends: &[char] = &[',', ';'];
    let trimmed = dump.lines().map(|line| line.trim_end_matches(ends).to_owned());
    let mut lines: Vec<String> = trimmed.collect();
    lines.sort();
    lines
}
