//! Deaths in the middle of a protocol, one at a time.

use model::MemberStatus;
use sim::scenario::{client, data, management};
use sim::{Scenario, Setup, Status, World};
use stdx::Duration;

/// Lets `node` die at a fault point, and the cluster go on without it.
fn dies_at(scenario: &mut Scenario, node: model::NodeId, point: &'static str) {
    scenario.world.arm_at(node, point);
    scenario.within(20, point, |world| *world.status(node) == Status::Dead);
    scenario.until_removed(&[node]);
    scenario.progress();
}

#[test]
fn a_coordinator_dies_at_each_step_of_a_commit() {
    let points = [
        "coordinator: after a prepare is sent",
        "coordinator: at the commit point",
        "coordinator: after a commit is sent",
        "coordinator: all primaries have applied",
        "coordinator: after a complete is sent",
        "coordinator: after an abort is sent",
    ];
    for (at, point) in points.into_iter().enumerate() {
        let mut scenario = Scenario::start(Setup::new(2, 1).seed(at as u64));
        dies_at(&mut scenario, data(1), point);
        scenario.bring_back(&[data(1)]);
        scenario.finish();
    }
}

#[test]
fn a_replica_dies_at_each_step_of_a_commit() {
    let points = [
        "participant: staged, before it replicates",
        "participant: staged at a backup",
        "participant: commit noted, before it passes it on",
        "participant: applied, before it answers",
        "participant: completed, before it answers",
        "participant: abort passed on, before it undoes",
    ];
    for (at, point) in points.into_iter().enumerate() {
        let mut scenario = Scenario::start(Setup::new(3, 1).seed(at as u64));
        dies_at(&mut scenario, data(2), point);
        scenario.bring_back(&[data(2)]);
        scenario.finish();
    }
}

#[test]
fn a_coordinator_and_the_first_to_know_of_a_commit_die_together() {
    let mut scenario = Scenario::start(Setup::new(4, 1));
    scenario.world.arm_at(data(4), "participant: commit noted, before it passes it on");
    scenario.within(10, "it dies", |world| *world.status(data(4)) == Status::Dead);
    scenario.world.crash(data(1));
    scenario.until_removed(&[data(1), data(4)]);
    scenario.progress();
    scenario.bring_back(&[data(1), data(4)]);
    scenario.finish();
}

#[test]
fn the_one_who_takes_over_dies_at_each_step_of_it() {
    let points = [
        "takeover: after the question is sent",
        "takeover: before a transaction is driven",
        "takeover: before it is reported done",
    ];
    for (at, point) in points.into_iter().enumerate() {
        let mut scenario = Scenario::start(Setup::new(4, 1).seed(at as u64));
        // The oldest node drives; the next oldest takes over what it leaves.
        let state = scenario.world.newest_state();
        let mut by_age: Vec<_> = state.data_members().map(|(n, m)| (m.joined_at, n)).collect();
        by_age.sort_unstable();
        let (driver, next) = (by_age[0].1, by_age[1].1);
        assert_eq!(state.driver(), Some(driver));
        scenario.world.arm_at(next, point);
        scenario.world.arm_at(driver, "coordinator: after a commit is sent");
        scenario.within(10, point, |world| !world.is_running(next));
        let down = [driver, next];
        scenario.until_removed(&down);
        scenario.progress();
        scenario.bring_back(&down);
        scenario.finish();
    }
}

#[test]
fn the_driver_dies_at_each_step_of_an_epoch_switch() {
    let points = [
        "epochs: after a prepare is sent",
        "epochs: after a switch is sent",
        "epochs: after a completion is sent",
    ];
    for (at, point) in points.into_iter().enumerate() {
        let mut scenario = Scenario::start(Setup::new(3, 1).seed(at as u64));
        let driver = scenario.world.newest_state().driver().expect("somebody drives");
        dies_at(&mut scenario, driver, point);
        scenario.bring_back(&[driver]);
        scenario.finish();
    }
}

#[test]
fn the_leader_dies_before_it_tells_what_was_agreed() {
    let mut scenario = Scenario::start(Setup::new(3, 1));
    let leader = scenario.world.leader().expect("somebody leads");
    scenario.world.arm_at(leader, "control: state applied, followers not told");
    // Something to agree on.
    scenario.world.crash(management(1));
    scenario.within(10, "the leader dies", |world| !world.is_running(leader));
    scenario.until_removed(&[leader, management(1)]);
    scenario.progress();
    scenario.bring_back(&[leader, management(1)]);
    scenario.progress();
    scenario.finish();
}

#[test]
fn a_new_leader_dies_between_its_first_lease_grants() {
    let mut scenario = Scenario::start(Setup::new(4, 1));
    let leader = scenario.world.leader().expect("somebody leads");
    let nodes = [data(1), data(2), data(3), data(4), management(1)];
    let others: Vec<_> = nodes.into_iter().filter(|node| *node != leader).collect();
    for node in &others {
        scenario.world.arm_at(*node, "control: between lease grants");
    }
    scenario.world.crash(leader);
    let down = |world: &World| others.iter().copied().find(|node| !world.is_running(*node));
    scenario.within(10, "its successor dies", |world| down(world).is_some());
    let successor = down(&scenario.world).expect("it has died");
    others.iter().for_each(|node| scenario.world.disarm(*node));
    scenario.until_removed(&[leader, successor]);
    scenario.progress();
    scenario.bring_back(&[leader, successor]);
    scenario.finish();
}

#[test]
fn a_joining_node_is_lost_in_the_middle_of_its_copy() {
    let setup = Setup::new(2, 1).configure(|config| {
        config.copy_batch_rows = 1;
        config.copy_window = 1;
    });
    let mut scenario = Scenario::start(setup);
    scenario.world.crash(data(2));
    scenario.until_removed(&[data(2)]);
    scenario.world.restart(data(2));
    scenario.world.arm_at(data(2), "copy: rows taken, before they are acknowledged");
    scenario.within(10, "it dies", |world| !world.is_running(data(2)));
    assert_ne!(scenario.member_status(data(2)), Some(MemberStatus::Active));
    scenario.until_removed(&[data(2)]);
    scenario.progress();
    scenario.bring_back(&[data(2)]);
    scenario.finish();
}

#[test]
fn the_source_of_a_copy_is_lost_in_the_middle_of_it() {
    let setup = Setup::new(3, 1).configure(|config| config.copy_batch_rows = 1);
    let mut scenario = Scenario::start(setup);
    scenario.world.crash(data(3));
    scenario.until_removed(&[data(3)]);
    scenario.world.arm_at(data(1), "copy: rows sent");
    scenario.world.restart(data(3));
    scenario.within(10, "the source dies", |world| !world.is_running(data(1)));
    scenario.until_removed(&[data(1)]);
    scenario.within(20, "the copy ends all the same", |world| {
        let member = world.newest_state().members.get(&data(3)).cloned();
        member.is_some_and(|member| member.status == MemberStatus::Active)
    });
    scenario.progress();
    scenario.bring_back(&[data(1)]);
    scenario.finish();
}

#[test]
fn primaries_move_back_to_a_node_that_has_returned_while_clients_work() {
    for seed in 1..5 {
        let mut scenario = Scenario::start(Setup::new(2, 2).seed(seed));
        scenario.world.crash(data(1));
        scenario.until_removed(&[data(1)]);
        scenario.bring_back(&[data(1)]);
        scenario.within(60, "each node is the primary of its own slots", |world| {
            world.has_spread_primaries()
        });
        scenario.progress();
        scenario.finish();
    }
}

#[test]
fn a_frozen_node_loses_its_lease_and_stops() {
    let mut scenario = Scenario::start(Setup::new(2, 1));
    scenario.world.freeze(data(1), Duration::from_secs(4));
    scenario.until_removed(&[data(1)]);
    scenario.until_serving(&[data(2)], &[data(1)]);
    scenario.progress();
    scenario.until_halted(&[data(1)]);
    scenario.world.rejoin(data(1));
    scenario.within(20, "all nodes are active", World::all_active);
    scenario.finish();
}

#[test]
fn a_node_that_was_cut_off_with_its_clients_answers_nothing_stale() {
    let mut scenario = Scenario::start(Setup::new(3, 1));
    // Its clients still reach it: what it tells them is judged against what the others commit.
    scenario.world.partition(&[data(1)], &[data(2), data(3), management(1)]);
    scenario.until_removed(&[data(1)]);
    scenario.run(Duration::from_secs(1));
    scenario.world.heal();
    scenario.until_halted(&[data(1)]);
    scenario.world.rejoin(data(1));
    scenario.within(20, "all nodes are active", World::all_active);
    scenario.progress();
    scenario.finish();
}

#[test]
fn two_data_nodes_that_lose_each_other_do_not_both_stay() {
    let mut scenario = Scenario::start(Setup::new(3, 1));
    scenario.world.partition(&[data(2)], &[data(3)]);
    scenario.within(20, "one of them goes", |world| {
        [data(2), data(3)].iter().any(|node| matches!(world.status(*node), Status::Halted(_)))
    });
    scenario.progress();
    scenario.world.heal();
    let gone = [data(2), data(3)].into_iter().filter(|node| !scenario.world.is_running(*node));
    let gone: Vec<_> = gone.collect();
    assert_eq!(gone.len(), 1, "one is enough");
    scenario.world.rejoin(gone[0]);
    scenario.within(20, "all nodes are active", World::all_active);
    scenario.finish();
}

#[test]
fn a_vanished_host_is_noticed_by_its_silence() {
    let mut scenario = Scenario::start(Setup::new(2, 2));
    scenario.world.vanish(data(2));
    scenario.until_removed(&[data(2)]);
    scenario.progress();
    scenario.bring_back(&[data(2)]);
    scenario.finish();
}

#[test]
fn a_node_leaves_in_good_order() {
    let mut scenario = Scenario::start(Setup::new(2, 1));
    scenario.world.ask_to_leave(data(2));
    scenario.within(20, "it has left", |world| {
        *world.status(data(2)) == Status::Halted(actor::Halt::Left)
    });
    scenario.progress();
    scenario.bring_back(&[data(2)]);
    scenario.finish();
}

#[test]
fn nodes_leave_and_come_back_in_turn_and_no_transaction_is_refused() {
    let aborts = [
        "coordinator: open transaction lost a replica",
        "coordinator: chain changed under a writing transaction",
    ];
    for seed in 0..10 {
        let setup = Setup::new(if seed % 2 == 0 { 2 } else { 4 }, 2).seed(seed);
        let mut scenario = Scenario::start(setup);
        for node in scenario.world.nodes(sim::Kind::Data) {
            scenario.world.ask_to_leave(node);
            scenario.within(20, "it has left", |world| {
                *world.status(node) == Status::Halted(actor::Halt::Left)
            });
            scenario.progress();
            scenario.bring_back(&[node]);
            scenario.progress();
        }
        let probes = &scenario.world.totals().probes;
        for name in aborts {
            assert_eq!(probes.get(name), None, "seed {seed}: {name}");
        }
        assert!(probes.contains_key("coordinator: request held back for a change of chains"));
        scenario.finish();
    }
}

#[test]
fn the_last_data_node_settles_what_the_other_left_without_waiting_for_a_tick() {
    for seed in 0..12 {
        let tick = Duration::from_millis(200);
        let setup = Setup::new(2, 1).seed(seed).configure(|config| {
            config.heartbeat_interval = tick;
            config.lease = tick.times(5);
            config.election_timeout = tick.times(4);
        });
        let mut scenario = Scenario::start(setup);
        let dead = data(1);
        scenario.world.crash(dead);
        // Whoever is elected: it changes the voters meanwhile, to one or to two.
        scenario
            .within(5, "it is removed", |world| !world.newest_state().members.contains_key(&dead));
        let settled = |world: &World| world.newest_state().takeovers.is_empty();
        let at_once = scenario.world.run_until(tick.divided_by(4), settled);
        assert!(at_once, "seed {seed}: {}", scenario.world.describe());
        scenario.bring_back(&[dead]);
        scenario.finish();
    }
}

#[test]
fn a_coordinator_that_stood_still_commits_nothing_without_a_lease() {
    let reached = (0..100).any(|seed| {
        let mut scenario = Scenario::start(Setup::new(3, 1).seed(seed));
        let node = data(1 + seed as u16 % 3);
        let lease = scenario.world.setup().config.lease;
        scenario.world.freeze(node, lease + lease.divided_by(20));
        scenario.run(lease.times(3));
        if !scenario.world.newest_state().members.contains_key(&node) {
            scenario.until_halted(&[node]);
            scenario.bring_back(&[node]);
        }
        scenario.progress();
        let probes = &scenario.world.totals().probes;
        let reached = probes.contains_key("coordinator: lease ran out before the commit point");
        scenario.finish();
        reached
    });
    assert!(reached, "in no seed");
}

#[test]
fn a_client_that_cannot_reach_some_data_nodes_waits_for_nothing_for_ever() {
    for seed in 0..2 {
        let setup = Setup::new(2, 2).seed(seed).configure(|config| {
            config.scan_batch_rows = 1;
            config.request_timeout = Duration::from_secs(1);
        });
        let mut scenario = Scenario::start(setup);
        // It reaches the coordinators of its transactions, which pass its scans on to nodes that
        // cannot answer it.
        for lost in [[data(2), data(3)], [data(1), data(4)]] {
            scenario.world.partition(&[client(1)], &lost);
            scenario.run(Duration::from_secs(3));
            scenario.world.heal();
            scenario.progress();
        }
        scenario.finish();
    }
}

#[test]
fn a_run_is_decided_by_its_seed() {
    let mutation = actor::Mutation::None;
    let plan = sim::Plan {
        seed: 3,
        mutation,
        disks: false,
        moves: false,
        replicas: false,
        verbose: false,
    };
    let (first, second) = (sim::run_seed(plan), sim::run_seed(plan));
    assert_eq!(first.failure, None);
    assert_eq!(first.hash, second.hash);
}
