//! Rows written and read through real threads, and what happens to them when a node ends.

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
