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

use super::hosts::say;
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
