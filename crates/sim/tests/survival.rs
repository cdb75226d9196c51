//! Which losses the cluster survives, and which stop it: the five rules of
//! `docs/internals/membership.md`, and the story of four replicas that become one.

use actor::Halt;
use sim::scenario::{client, data, management};
use sim::{Kind, Scenario, Setup, Status, World};
use stdx::Duration;

fn stopped(world: &World, node: model::NodeId) -> bool {
    matches!(world.status(node), Status::Halted(Halt::ClusterStopped(_)))
}

#[test]
fn rule_1_a_node_group_without_survivor_stops_the_cluster() {
    let mut scenario = Scenario::start(Setup::new(2, 2));
    scenario.world.crash(data(3));
    scenario.world.crash(data(4));
    scenario.within(20, "the other group stops", |world| {
        stopped(world, data(1)) && stopped(world, data(2))
    });
    assert_eq!(scenario.serving(), []);
}

#[test]
fn rule_2_a_side_with_a_complete_group_goes_on() {
    let mut scenario = Scenario::start(Setup::new(2, 2));
    scenario.world.partition(&[data(4)], &[data(1), data(2), data(3), management(1)]);
    scenario.until_removed(&[data(4)]);
    scenario.until_halted(&[data(4)]);
    scenario.until_serving(&[data(1), data(2), data(3)], &[]);
    scenario.progress();
    scenario.world.heal();
    scenario.bring_back(&[data(4)]);
    scenario.finish();
}

#[test]
fn rule_3_a_majority_of_the_living_goes_on() {
    let mut scenario = Scenario::start(Setup::new(3, 1));
    scenario.world.crash(data(2));
    scenario.until_removed(&[data(2)]);
    // Two of three live, and the tie-breaker votes: the next loss is counted against these.
    scenario.run(Duration::from_millis(300));
    scenario.world.crash(data(3));
    scenario.until_removed(&[data(3)]);
    scenario.until_serving(&[data(1)], &[]);
    scenario.progress();
    scenario.bring_back(&[data(2), data(3)]);
    scenario.finish();
}

#[test]
fn rule_4_a_minority_stops() {
    let mut scenario = Scenario::start(Setup::new(4, 1));
    let few = [data(1)];
    let many = [data(2), data(3), data(4), management(1)];
    scenario.world.partition(&few, &many);
    scenario.until_removed(&few);
    scenario.until_halted(&few);
    scenario.until_serving(&[data(2), data(3), data(4)], &[]);
    scenario.progress();
    scenario.world.heal();
    scenario.bring_back(&few);
    scenario.finish();
}

#[test]
fn rule_5_the_management_node_decides_between_halves() {
    for winner in [1, 2] {
        let loser = 3 - winner;
        let mut scenario = Scenario::start(Setup::new(2, 1).seed(u64::from(winner)));
        scenario.world.partition(&[data(loser)], &[data(winner), management(1)]);
        scenario.until_removed(&[data(loser)]);
        scenario.until_halted(&[data(loser)]);
        scenario.until_serving(&[data(winner)], &[]);
        scenario.progress();
        scenario.world.heal();
        scenario.bring_back(&[data(loser)]);
        scenario.finish();
    }
}

#[test]
fn half_without_the_management_node_stops() {
    let mut scenario = Scenario::start(Setup::new(2, 1));
    scenario.world.partition(&[data(1)], &[data(2)]);
    scenario.world.partition(&[management(1)], &[data(1), data(2)]);
    scenario.until_halted(&[data(1), data(2)]);
    assert_eq!(scenario.serving(), []);
}

#[test]
fn four_replicas_lose_two_at_once_then_one_and_run_on_one() {
    let mut scenario = Scenario::start(Setup::new(4, 1).workers(3));
    scenario.world.crash(data(1));
    scenario.world.crash(data(3));
    scenario.until_removed(&[data(1), data(3)]);
    scenario.progress();
    scenario.world.crash(data(4));
    scenario.until_removed(&[data(4)]);
    scenario.until_serving(&[data(2)], &[]);
    scenario.progress();
    scenario.bring_back(&[data(1), data(3), data(4)]);
    scenario.progress();
    scenario.world.crash(data(2));
    scenario.until_removed(&[data(2)]);
    scenario.progress();
    scenario.finish();
}

#[test]
fn the_loss_of_every_management_node_changes_nothing() {
    let mut scenario = Scenario::start(Setup::new(2, 1).management(2));
    scenario.world.crash(management(1));
    scenario.until_removed(&[management(1)]);
    scenario.world.crash(management(2));
    scenario.run(Duration::from_secs(3));
    scenario.until_serving(&[data(1), data(2)], &[]);
    scenario.progress();
    scenario.bring_back(&[management(1), management(2)]);
    scenario.finish();
}

#[test]
fn a_cluster_of_one_replica_loses_a_client() {
    let mut scenario = Scenario::start(Setup::new(1, 2).workers(1));
    scenario.world.crash(client(2));
    scenario.run(Duration::from_millis(500));
    scenario.world.restart(client(2));
    scenario.progress();
    assert_eq!(scenario.world.nodes(Kind::Data).len(), 2);
    scenario.finish();
}

/// Who is a member, in which life.
fn lives(world: &World) -> Vec<(model::NodeId, model::Incarnation)> {
    let state = world.newest_state();
    state.members.iter().map(|(node, member)| (*node, member.incarnation)).collect()
}

#[test]
fn a_short_cut_costs_its_time_and_no_membership() {
    let mut scenario = Scenario::start(Setup::new(2, 2).seed(4));
    let before = lives(&scenario.world);
    let nodes = scenario.world.all_nodes();
    for (round, node) in nodes.iter().chain(&nodes).enumerate() {
        let others: Vec<_> = nodes.iter().copied().filter(|other| other != node).collect();
        let span = Duration::from_millis([100, 250, 400, 500][round % 4]);
        match round % 3 {
            0 => scenario.world.partition(&[*node], &others),
            1 => scenario.world.partition_one_way(&[*node], &others),
            _ => scenario.world.partition_one_way(&others, &[*node]),
        }
        scenario.run(span);
        scenario.world.heal();
        assert!(scenario.progresses_within(Duration::from_millis(500)), "{node} after {span}");
    }
    // Connections that are reset, all at once.
    for _ in 0..3 {
        for (at, a) in nodes.iter().enumerate() {
            for b in &nodes[at + 1..] {
                scenario.world.reset_connections(*a, *b, Duration::from_millis(120));
            }
        }
        scenario.run(Duration::from_millis(120));
        assert!(scenario.progresses_within(Duration::from_millis(500)));
    }
    assert_eq!(lives(&scenario.world), before, "nobody has lost its membership");
    scenario.finish();
}
