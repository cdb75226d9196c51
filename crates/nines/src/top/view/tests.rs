//! What readings are taken for.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Incarnation, NodeId};

use super::*;
use crate::role::fixture;
use crate::role::request::{Sight, WorkerSight};

type Rows<'a> = &'a [(Metric, &'a str, u64)];

fn reading(workers: &[(u16, u8, Rows<'_>)], silent: &[u16]) -> Reading {
    let sight = |&(node, worker, rows): &(u16, u8, Rows<'_>)| {
        let row = |(metric, labels, number): &(Metric, &str, u64)| {
            vec![metric.name().into(), (*labels).into(), (*number).into()]
        };
        WorkerSight { node, worker, rows: rows.iter().map(row).collect() }
    };
    let workers = workers.iter().map(sight).collect();
    Reading::of(Sight { workers, silent: silent.to_vec() })
}

/// Two data nodes, a management node and an SQL node, all connected.
fn status() -> ClusterStatus {
    let config = fixture::config(2, &["a", "b"], &["c"]);
    let connected: BTreeMap<NodeId, Incarnation> =
        [1, 2, 60].map(|node| (NodeId(node), Incarnation(u64::from(node)))).into();
    let own = (NodeId(49), Incarnation(3));
    ClusterStatus::of(&config, own, &fixture::state(&config), &connected)
}

const SECOND: u64 = 1_000_000_000;

fn view(before: &mut Reading, now: &Reading) -> View {
    before.at = now.at - Duration::from_secs(2);
    View::of(&status(), before, now)
}

#[test]
fn rates_are_taken_between_two_readings_and_the_busiest_is_named() {
    let workers = |cpu: u64, operations: u64| -> [Vec<(Metric, &'static str, u64)>; 2] {
        [
            vec![
                (Metric::ThreadCpu, "worker-0", 5 * SECOND),
                (Metric::ThreadCpu, "links", SECOND),
                (Metric::ProcessCpu, "", 20 * SECOND + cpu + SECOND / 10),
                (Metric::Operations, "2,read", operations),
                (Metric::DataMemoryFullest, "2", 40),
                (Metric::DataMemoryUsed, "2", 1 << 20),
            ],
            vec![
                (Metric::ThreadCpu, "worker-1", 7 * SECOND + cpu),
                (Metric::Operations, "2,insert", operations),
                (Metric::DataMemoryFullest, "2", 95),
                (Metric::DataMemoryUsed, "2", 1 << 20),
            ],
        ]
    };
    let other: Rows<'_> = &[(Metric::ProcessCpu, "", SECOND)];
    let of = |[first, second]: &[Vec<(Metric, &'static str, u64)>; 2]| {
        let all = [(1, 0, other), (2, 0, first), (2, 1, second), (49, 0, other), (60, 0, other)];
        reading(&all, &[])
    };
    let mut before = of(&workers(0, 100));
    let now = of(&workers(SECOND * 196 / 100, 20_100));
    let view = view(&mut before, &now);
    let node = view.nodes.iter().find(|node| node.node == 2).unwrap();
    assert_eq!(node.operations, 20_000);
    assert_eq!((node.cpu_percent, node.threads["worker-1"], node.threads["worker-0"]), (98, 98, 0));
    assert_eq!(node.memory_percent, 95);
    assert_eq!(
        view.bottlenecks,
        ["data node 2: data memory 95 % full", "data node 2: worker 1 at 98 % CPU"]
    );
    let text = view.text();
    assert!(text.contains("! data node 2: worker 1 at 98 % CPU\n"), "{text}");
    assert!(text.lines().any(|line| line.contains("0 98") && line.contains("20k")), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().count() <= 24, "{text}");
}

#[test]
fn a_new_life_has_done_nothing_yet_and_the_silent_are_named() {
    let old: Rows<'_> =
        &[(Metric::Operations, "1,read", 900), (Metric::ThreadCpu, "worker-0", 90 * SECOND)];
    let new: Rows<'_> =
        &[(Metric::Operations, "1,read", 3), (Metric::ThreadCpu, "worker-0", SECOND)];
    let mut before = reading(&[(1, 0, old)], &[]);
    let now = reading(&[(1, 0, new), (49, 0, &[])], &[2]);
    let view = view(&mut before, &now);
    let node = view.nodes.iter().find(|node| node.node == 1).unwrap();
    assert_eq!((node.operations, node.threads["worker-0"]), (0, 0));
    assert_eq!(
        view.bottlenecks,
        ["data node 2: does not tell its figures", "sql node 60: does not tell its figures"]
    );
}

#[test]
fn what_is_full_comes_before_what_is_busy() {
    let rows: Rows<'_> = &[
        (Metric::DiskRefusesWrites, "1", 2),
        (Metric::LinkWaiting, "1,2", 9 << 20),
        (Metric::RedoWaiting, "1", 80 << 20),
        (Metric::QueuedMessages, "1,0", 5_000),
        (Metric::LockWaitsOpen, "1", 30),
    ];
    let all: [(u16, u8, Rows<'_>); 4] = [(1, 0, rows), (2, 0, &[]), (49, 0, &[]), (60, 0, &[])];
    let (mut before, now) = (reading(&all, &[]), reading(&all, &[]));
    assert_eq!(
        view(&mut before, &now).bottlenecks,
        [
            "data node 1: its disk is full, changes are refused",
            "data node 1: 80.0 M of the redo log wait for the disk",
            "data node 1: 9.0 M wait to be sent to node 2",
            "data node 1: 5000 messages wait for its workers",
            "data node 1: 30 operations wait for locks",
        ]
    );
}

#[test]
fn numbers_are_short() {
    for (number, text) in [
        (9_999, "9999"),
        (10_000, "10k"),
        (999_999, "999k"),
        (1_250_000, "1.2M"),
        (123_456_789, "123M"),
    ] {
        assert_eq!(short(number), text);
    }
}
