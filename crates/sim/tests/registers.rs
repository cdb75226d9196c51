//! Reads do not go back: histories of rows that are written and read in all ways, while those die
//! who are in the middle of a commit. What the histories are judged by: `workload/registers.rs`.

use model::NodeId;
use sim::scenario::data;
use sim::{Scenario, Setup, Status};
use stdx::Duration;

/// What readers of rows in doubt come by.
const WAITED: &str = "participant: read waits for a row in doubt";

fn start(setup: Setup) -> Scenario {
    Scenario::start_with(setup, vec!["registers"; 6])
}

/// Lets `node` die at a fault point, with `other` at the same moment, and the cluster go on.
fn dies_at(scenario: &mut Scenario, node: NodeId, point: &'static str, other: Option<NodeId>) {
    scenario.world.arm_at(node, point);
    scenario.within(20, point, |world| *world.status(node) == Status::Dead);
    let down: Vec<NodeId> = [node].into_iter().chain(other).collect();
    other.into_iter().for_each(|other| scenario.world.crash(other));
    scenario.until_removed(&down);
    scenario.progress();
    scenario.bring_back(&down);
    scenario.progress();
}

fn waits(scenario: &mut Scenario) -> u64 {
    scenario.world.totals().probes.get(WAITED).copied().unwrap_or_default()
}

#[test]
fn rows_are_linearizable_with_any_number_of_replicas() {
    for replicas in 1..=4 {
        let mut scenario = start(Setup::new(replicas, 1).seed(u64::from(replicas)));
        scenario.run(Duration::from_secs(1));
        assert_eq!(waits(&mut scenario) > 0, replicas > 1, "{replicas} replicas");
        scenario.finish();
    }
}

#[test]
fn a_replica_dies_at_each_step_of_a_commit_while_its_rows_are_read() {
    let points = [
        "participant: staged, before it replicates",
        "participant: staged at a backup",
        "participant: commit noted, before it passes it on",
        "participant: applied, before it answers",
        "participant: completed, before it answers",
        "participant: staged commit applied, before it is passed on",
    ];
    for (at, point) in points.into_iter().enumerate() {
        for replicas in [2, 3] {
            let mut scenario = start(Setup::new(replicas, 1).seed(at as u64));
            dies_at(&mut scenario, data(2), point, None);
            scenario.finish();
        }
    }
}

#[test]
fn a_coordinator_dies_at_each_step_of_a_commit_while_its_rows_are_read() {
    let points = [
        "coordinator: at the commit point",
        "coordinator: after a commit is sent",
        "coordinator: all primaries have applied",
        "coordinator: after a complete is sent",
        "coordinator: changes sent with their commit",
    ];
    for (at, point) in points.into_iter().enumerate() {
        let mut scenario = start(Setup::new(3, 1).seed(at as u64));
        dies_at(&mut scenario, data(1), point, None);
        scenario.finish();
    }
}

#[test]
fn nobody_has_seen_what_is_aborted_when_a_coordinator_dies_with_the_first_to_know() {
    let points = [
        "participant: commit noted, before it passes it on",
        "participant: staged commit applied, before it is passed on",
    ];
    for (at, point) in points.into_iter().enumerate() {
        for (node, other) in [(data(4), data(1)), (data(3), data(2)), (data(2), data(1))] {
            let mut scenario = start(Setup::new(4, 1).seed(at as u64));
            dies_at(&mut scenario, node, point, Some(other));
            scenario.finish();
        }
    }
}

#[test]
fn reads_do_not_go_back_at_a_replica_that_has_just_been_copied() {
    for seed in 0..4 {
        let setup = Setup::new(3, 1).seed(seed).configure(|config| config.copy_batch_rows = 1);
        let mut scenario = start(setup);
        for node in [data(3), data(1)] {
            scenario.world.crash(node);
            scenario.until_removed(&[node]);
            scenario.bring_back(&[node]);
            scenario.progress();
        }
        scenario.finish();
    }
}

#[test]
fn reads_that_wait_end_with_the_removal_of_a_replica_that_was_cut_off() {
    let mut scenario = start(Setup::new(3, 1));
    let management = sim::scenario::management(1);
    scenario.world.partition(&[data(3)], &[data(1), data(2), management]);
    scenario.until_removed(&[data(3)]);
    scenario.progress();
    scenario.world.heal();
    scenario.until_halted(&[data(3)]);
    scenario.world.rejoin(data(3));
    scenario.within(20, "all nodes are active", sim::World::all_active);
    assert!(waits(&mut scenario) > 0);
    scenario.finish();
}
