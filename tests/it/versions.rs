//! Two versions of the program in one cluster: rolling upgrades and downgrades under load, and
//! versions that cannot talk to each other.
//!
//! The other version is the program that `NINES_PREVIOUS` names. `cargo xtask test` gives the
//! newest earlier commit whose program differs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{Session, number};

use super::hosts::say;
use super::large::check;
use super::load::Load;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_previous_version_is_replaced_node_by_node_and_comes_back() {
    let Some(previous) = std::env::var_os("NINES_PREVIOUS").map(PathBuf::from) else {
        return say("skipped: two versions in one cluster: NINES_PREVIOUS names no program");
    };
    let mut cluster = Processes::prepare(SMALL, "");
    cluster.programs = cluster.nodes().map(|node| (node, previous.clone())).collect();
    cluster.start_all();
    let load = Load::start(&cluster, &[SQL, SQL + 1], 2);
    let nodes: Vec<u16> = cluster.nodes().collect();
    for program in [None, Some(previous)] {
        for node in nodes.iter().copied() {
            assert_eq!(cluster.stop(node), Some(0), "{}", cluster.log(node));
            match &program {
                None => cluster.programs.remove(&node),
                Some(program) => cluster.programs.insert(node, program.clone()),
            };
            cluster.start_node(node);
            cluster.wait_until_complete(SQL);
            load.progress(&[SQL, SQL + 1]);
        }
    }
    load.end(&cluster, SQL);
}

/// The first identity of tables that are colocated with others, in programs that know such.
const COLOCATED_MIN: u32 = 1_862_340_480;

fn ok(session: &mut Session, statement: &str) {
    session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
}

/// Writes values that lie outside of their rows and reads them, all through one SQL node.
fn write_large(session: &mut Session, table: &str, first: u32) {
    let last = first + 9;
    ok(
        session,
        &format!(
            "INSERT INTO d.{table} (id, k, b) WITH RECURSIVE s AS (SELECT {first} AS n UNION ALL \
             SELECT n + 1 FROM s WHERE n < {last}) SELECT n, n, REPEAT(CHAR(97 + n), 70000) FROM s"
        ),
    );
    ok(session, &format!("UPDATE d.{table} SET b = CONCAT(b, 'x') WHERE id = {last}"));
    ok(session, &format!("DELETE FROM d.{table} WHERE id = {first}"));
}

/// Reads all values, and looks for parts without a row.
fn read_large(session: &mut Session, table: &str, rows: i64) {
    let value = "CONCAT(REPEAT(CHAR(97 + k), 70000), IF(k % 10 = 9, 'x', ''))";
    let right = format!("SELECT SUM(b = {value}) FROM d.{table}");
    assert_eq!(number(session, &right), rows, "{table}");
    check(session, &format!("d.{table}"));
}

/// Whether some table's parts are colocated with it.
fn is_colocated(session: &mut Session) -> bool {
    let parts = format!("SELECT COUNT(*) FROM nines.replicas WHERE table_id > {COLOCATED_MIN}");
    number(session, &parts) > 0
}

#[test]
fn large_values_are_written_and_read_by_both_versions() {
    let Some(previous) = std::env::var_os("NINES_PREVIOUS").map(PathBuf::from) else {
        return say("skipped: large values of two versions: NINES_PREVIOUS names no program");
    };
    const COLUMNS: &str = "(id INT PRIMARY KEY, k INT, b LONGTEXT, KEY (k))";
    let mut cluster = Processes::prepare(SMALL, "");
    cluster.programs = cluster.nodes().map(|node| (node, previous.clone())).collect();
    cluster.start_all();
    let renew = |cluster: &mut Processes, node: u16| {
        assert_eq!(cluster.stop(node), Some(0), "{}", cluster.log(node));
        cluster.programs.remove(&node);
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    };
    renew(&mut cluster, SQL);
    // All members are older: tables are made as they know them.
    let mut new = cluster.session(SQL).expect("it serves");
    let mut old = cluster.session(SQL + 1).expect("it serves");
    ok(&mut new, "CREATE DATABASE d");
    ok(&mut new, &format!("CREATE TABLE d.early {COLUMNS}"));
    write_large(&mut new, "early", 0);
    write_large(&mut old, "early", 10);
    for node in cluster.nodes().filter(|node| *node < SQL).collect::<Vec<u16>>() {
        renew(&mut cluster, node);
        read_large(&mut old, "early", 18);
    }
    // Now members know all; one SQL node does not.
    ok(&mut new, &format!("CREATE TABLE d.late {COLUMNS}"));
    let began = Instant::now();
    while !is_colocated(&mut new) {
        assert!(began.elapsed() < PATIENCE, "parts are never colocated");
        thread::sleep(Duration::from_millis(100));
        ok(&mut new, "TRUNCATE TABLE d.late");
    }
    write_large(&mut old, "late", 0);
    write_large(&mut new, "late", 10);
    for session in [&mut old, &mut new] {
        read_large(session, "early", 18);
        read_large(session, "late", 18);
    }
    ok(&mut old, "TRUNCATE TABLE d.late");
    write_large(&mut new, "late", 0);
    read_large(&mut old, "late", 9);
}

/// What a node says first on a connection to another one: `docs/internals/links.md`.
fn greeting(node: u16, oldest: u16, newest: u16, release: &str) -> Vec<u8> {
    const SQL_NODE: u8 = 3;
    let mut body = node.to_le_bytes().to_vec();
    // One worker, a life that began long after all others, the first connection of an attempt.
    body.extend([SQL_NODE, 1]);
    body.extend((u64::MAX / 2).to_le_bytes());
    body.extend(oldest.to_le_bytes());
    body.extend(newest.to_le_bytes());
    body.extend(1u64.to_le_bytes());
    body.push(0);
    for text in ["nines", release] {
        body.push(text.len() as u8);
        body.extend(text.as_bytes());
    }
    let mut bytes = b"ninesL".to_vec();
    bytes.extend((body.len() as u16).to_le_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn a_version_that_speaks_another_protocol_is_refused_by_name() {
    let mut cluster = Processes::start(SMALL);
    let stranger = SQL + 1;
    assert_eq!(cluster.stop(stranger), Some(0));
    for node in cluster.nodes().filter(|node| *node < SQL).collect::<Vec<u16>>() {
        let mut stream = TcpStream::connect(("127.0.0.1", cluster.port(node))).expect("it listens");
        stream.write_all(&greeting(stranger, 900, 901, "77.7.7")).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers and hangs up");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("its version 77.7.7 speaks protocol 900 to 901"), "{answer}");
        // The process's own words come a moment later.
        let (began, told) = (Instant::now(), format!("{stranger}: refused: its version 77.7.7"));
        while !cluster.log(node).contains(&told) {
            assert!(began.elapsed() < PATIENCE, "{}", cluster.log(node));
            thread::sleep(Duration::from_millis(10));
        }
    }
    // Nobody is the worse for it.
    cluster.start_node(stranger);
    cluster.wait_until_complete(stranger);
}
