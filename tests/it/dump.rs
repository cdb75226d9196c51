//! mysqldump: a schema with data that loads back equal.

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
    // Rows of a table without primary key come in no order.
    let lines = |dump: &str| {
        let ends: &[char] = &[',', ';'];
        let trimmed = dump.lines().map(|line| line.trim_end_matches(ends).to_owned());
        let mut lines: Vec<String> = trimmed.collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&first), lines(&second));
    assert_eq!(server.sql("SELECT COUNT(*) FROM copy.customers"), "3\n");
}
