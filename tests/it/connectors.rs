//! The drivers of applications, each running its own script in `tests/connectors`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use tests::{Server, succeed, workspace};

/// Where `cargo xtask test` has put the drivers; `xtask/src/clients.rs` has the same rule.
pub(crate) fn tools() -> PathBuf {
    if let Some(folder) = std::env::var_os("NINES_CONNECTORS") {
        return PathBuf::from(folder);
    }
    match std::env::var_os("HOME") {
        Some(home) => PathBuf::from(home).join(".cache/nines/connectors"),
        None => workspace().join("target/connectors"),
    }
}

fn script(name: &str) -> PathBuf {
    workspace().join("tests").join("connectors").join(name)
}

/// What ends a program that takes longer, and the seconds that it is given.
pub(crate) const LIMITED: [&str; 2] = ["timeout", "300"];

/// A program that is ended when it does not end by itself: a connector may wait for ever for what
/// the server does not send.
fn within(program: impl AsRef<OsStr>) -> Command {
    let [limiter, seconds] = LIMITED;
    let mut command = Command::new(limiter);
    command.arg(seconds).arg(program);
    command
}

fn python(driver: &str) {
    let server = Server::start(&[]);
    let mut command = within(tools().join("python/bin/python"));
    command.arg(script("python.py")).args([driver, "127.0.0.1", &server.port.to_string()]);
    command.arg(&server.socket);
    assert!(succeed(command).contains("ok"));
}

#[test]
fn pymysql() {
    python("pymysql");
}

#[test]
fn mysqlclient() {
    python("mysqlclient");
}

#[test]
fn connector_python() {
    python("mysql.connector");
}

/// Migrations and models that refer to each other.
#[test]
fn django() {
    let server = Server::start(&[]);
    let mut command = within(tools().join("python/bin/python"));
    command.arg(script("django_app.py")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

/// Tables and statements of a publishing system: keys over prefixes, zero dates, lax modes.
#[test]
fn blog() {
    let server = Server::start(&[]);
    let mut command = within(tools().join("python/bin/python"));
    command.arg(script("blog.py")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

#[test]
fn mysql2_for_node() {
    let server = Server::start(&[]);
    let mut command = within("node");
    command.arg(tools().join("node/connector.mjs")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

#[test]
fn go_sql_driver() {
    let server = Server::start(&[]);
    let mut command = within(tools().join("go/connector"));
    command.args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

#[test]
fn connector_j() {
    let server = Server::start(&[]);
    let mut command = within("java");
    command.arg("-cp").arg(tools().join("java/mysql-connector-j.jar"));
    command.arg(script("java/Connector.java")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

/// Compressed connections, in clear and encrypted.
#[test]
fn compressed_connector_python() {
    let server = Server::start(&[]);
    let mut command = Command::new(tools().join("python/bin/python"));
    command.arg(script("compressed.py")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}

#[test]
fn compressed_connector_j() {
    let server = Server::start(&[]);
    let mut command = Command::new("java");
    command.arg("-cp").arg(tools().join("java/mysql-connector-j.jar"));
    command.arg(script("java/Compressed.java")).args(["127.0.0.1", &server.port.to_string()]);
    assert!(succeed(command).contains("ok"));
}
