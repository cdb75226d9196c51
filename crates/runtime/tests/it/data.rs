//! Rows written and read through real threads, and what happens to them when a node ends.

use actor::{FigureValue, Metric};
use model::NodeId;

use super::*;

#[test]
fn one_thread() {
    let running = Running::start(1);
    running.board.run_round();
    running.cluster.stop();
}

#[test]
fn two_threads() {
    let running = Running::start(2);
    running.board.run_round();
    running.board.run_round();
    running.cluster.stop();
}

/// How long each thread's work has been done by another, all together.
fn lent(running: &Running) -> u64 {
    let report = running.cluster.observer().look(Duration::from_secs(10)).expect("it runs");
    let of_threads = report.figures.list.iter().filter(|at| at.metric == Metric::ThreadLent);
    let nanos = |at: &actor::Figure| match at.value {
        FigureValue::Number(nanos) => nanos,
        FigureValue::Latency(_) => panic!("a number"),
    };
    of_threads.map(nanos).sum()
}

/// Waits until a thread does the work of another.
pub(super) fn wait_until_lent(running: &Running) {
    let before = lent(running);
    while lent(running) == before {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_thread_does_the_work_of_another_whatever_happens() {
    let running = Running::start(2);
    for _ in 0..3 {
        wait_until_lent(&running);
        running.board.run_round();
    }
    wait_until_lent(&running);
    running.cluster.kill(NodeId(1));
    running.board.run_round();
    wait_until_lent(&running);
    running.cluster.stop();
}

#[test]
fn the_other_replica_goes_on_when_a_node_has_ended() {
    // The first node leads the control plane and drives the epochs, the second does not.
    for node in [1, 2] {
        let running = Running::start(2);
        running.board.run_round();
        running.cluster.kill(NodeId(node));
        running.board.run_round();
        // The control plane has lost a voter, and goes on with two.
        running.board.run_round();
        running.cluster.stop();
    }
}
