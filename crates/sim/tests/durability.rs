//! Power losses, restarts of the whole cluster, disks that fail: what was saved is there, and
//! nothing that a restart has undone ever comes back.

use actor::Halt;
use model::{MemberStatus, NodeId};
use sim::rejoin::Rejoin;
use sim::scenario::{data, management};
use sim::{Damage, DiskAction, Kind, Scenario, Setup, Status, World};
use stdx::Duration;

/// A cluster with disks, small segments and quick checkpoints.
fn setup(replicas: u8, groups: u16) -> Setup {
    Setup::new(replicas, groups).disks().configure(|config| {
        config.save_interval = Duration::from_millis(50);
        config.redo_segment = 64 << 10;
        config.restart_time_target = Duration::from_millis(5);
        config.checkpoint_speed = (1 << 20, 16 << 20);
        config.start_partial_timeout = Duration::from_secs(1);
    })
}

/// Everything goes down, comes back and goes on.
fn survive_power_loss(scenario: &mut Scenario) {
    let before = scenario.world.restart_count();
    scenario.power_loss();
    scenario.run(Duration::from_millis(20));
    scenario.restart_all();
    assert_eq!(scenario.world.restart_count(), before + 1, "restarted as a whole, once");
    scenario.progress();
}

#[test]
fn a_cluster_comes_back_after_a_power_loss_with_what_was_saved() {
    for (replicas, groups) in [(1, 1), (2, 1), (2, 2), (3, 1)] {
        let mut scenario = Scenario::start(setup(replicas, groups));
        scenario.run(Duration::from_millis(500));
        scenario.save();
        survive_power_loss(&mut scenario);
        scenario.save();
        survive_power_loss(&mut scenario);
        scenario.finish();
    }
}

#[test]
fn the_last_commits_are_saved_although_a_switch_of_epochs_takes_longer_than_their_interval() {
    let mut setup =
        setup(2, 1).configure(|config| config.epoch_interval = Duration::from_millis(2));
    setup.network.latency_min = Duration::from_millis(2);
    setup.network.latency_max = Duration::from_millis(3);
    let mut scenario = Scenario::start(setup);
    scenario.end_load();
    scenario.save();
    scenario.power_loss();
    scenario.restart_all();
    scenario.finish();
}

#[test]
fn the_last_commits_are_saved_although_epochs_are_slow_after_them() {
    let mut scenario = Scenario::start(setup(2, 1).configure(|config| {
        config.epoch_interval = Duration::from_millis(2);
        config.epoch_interval_idle = Duration::from_secs(2);
    }));
    scenario.end_load();
    scenario.save();
    scenario.power_loss();
    scenario.restart_all();
    scenario.finish();
}

/// The host of a real node ends it after a while (`runtime::watchdog`).
#[test]
fn a_disk_that_never_answers_holds_up_only_what_waits_for_it() {
    for number in 1..=2 {
        let node = data(number);
        let mut scenario = Scenario::start(setup(2, 1));
        scenario.save();
        let (began, before) = (scenario.world.now(), scenario.world.newest_epoch());
        scenario.world.stick_disk(node, Duration::from_secs(600));
        scenario.run(Duration::from_secs(3));
        assert!(scenario.world.newest_epoch().0 > before.0 + 10, "epochs go on");
        assert!(scenario.world.is_running(node), "nothing in the cluster ends it");
        scenario.world.crash(node);
        scenario.world.heal_disk(node);
        scenario.until_removed(&[node]);
        scenario.save();
        let waited = scenario.world.now().since(began);
        assert!(waited < Duration::from_secs(5), "saved again after {waited}");
        scenario.progress();
        scenario.bring_back(&[node]);
        survive_power_loss(&mut scenario);
        scenario.finish();
    }
}

#[test]
fn a_cluster_whose_processes_are_all_killed_comes_back() {
    let mut scenario = Scenario::start(setup(2, 1));
    scenario.save();
    for node in scenario.world.all_nodes() {
        scenario.world.crash(node);
    }
    scenario.restart_all();
    scenario.progress();
    // What the killed processes had written was in the memory of the hosts, and is lost only now.
    survive_power_loss(&mut scenario);
    scenario.finish();
}

#[test]
fn the_power_fails_again_at_any_time_of_a_restart() {
    let mut scenario = Scenario::start(setup(2, 1));
    scenario.save();
    for millis in [1, 3, 10, 30, 100, 200, 400, 700, 1_000, 1_500, 2_000] {
        scenario.power_loss();
        for node in scenario.world.all_nodes() {
            scenario.world.restart(node);
        }
        scenario.run(Duration::from_millis(millis));
    }
    scenario.power_loss();
    scenario.restart_all();
    scenario.progress();
    scenario.finish();
}

#[test]
fn a_node_group_that_loses_its_power_stops_the_cluster_and_does_not_end_it() {
    let mut scenario = Scenario::start(setup(2, 2));
    scenario.save();
    let lost = [data(3), data(4)];
    scenario.world.power_loss(&lost);
    scenario.until_halted(&[data(1), data(2)]);
    assert_eq!(scenario.serving(), []);
    // The management node that has seen it all stops when the others have gone on without it.
    for _ in 0..10 {
        for node in scenario.world.all_nodes() {
            scenario.world.restart(node);
        }
        scenario.run(Duration::from_millis(500));
    }
    scenario.restart_all();
    assert_eq!(scenario.world.restart_count(), 1);
    scenario.progress();
    scenario.finish();
}

#[test]
fn the_only_replica_is_killed_and_comes_back() {
    let mut scenario = Scenario::start(setup(1, 2).workers(1));
    scenario.save();
    scenario.world.crash(data(2));
    scenario.until_halted(&[data(1)]);
    scenario.restart_all();
    scenario.progress();
    scenario.finish();
}

#[test]
fn a_node_that_is_late_does_not_bring_back_what_was_undone() {
    let mut scenario = Scenario::start(setup(2, 1).management(2));
    scenario.save();
    scenario.power_loss();
    let on_time = |node: &NodeId| *node != data(2);
    let nodes: Vec<NodeId> = scenario.world.all_nodes().into_iter().filter(on_time).collect();
    for node in &nodes {
        scenario.world.restart(*node);
    }
    scenario.within(20, "the cluster starts without it", |world| {
        let state = world.newest_state();
        let member = state.members.get(&data(1));
        state.started && member.is_some_and(|member| member.status == MemberStatus::Active)
    });
    scenario.progress();
    scenario.bring_back(&[data(2)]);
    scenario.progress();
    scenario.finish();
}

#[test]
fn a_node_that_was_removed_comes_back_from_its_disk() {
    let mut scenario = Scenario::start(setup(2, 1));
    scenario.save();
    for told in [true, false] {
        if told {
            scenario.world.crash(data(2));
        } else {
            scenario.world.power_loss(&[data(2)]);
        }
        scenario.until_removed(&[data(2)]);
        scenario.progress();
        scenario.bring_back(&[data(2)]);
        scenario.progress();
    }
    scenario.save();
    survive_power_loss(&mut scenario);
    scenario.finish();
}

#[test]
fn a_node_with_damaged_files_gets_its_rows_from_the_other_replica() {
    let all = [Damage::BitFlip, Damage::ZeroSector, Damage::MisdirectedWrite, Damage::Unreadable];
    for (seed, damage) in (0..).zip(all) {
        let mut scenario = Scenario::start(setup(2, 1).seed(seed));
        scenario.run(Duration::from_secs(1));
        for under in ["worker-0/redo", "worker-1/redo", "worker-0/checkpoint"] {
            scenario.save();
            scenario.world.damage_disk(data(2), damage, under);
            scenario.world.crash(data(2));
            scenario.until_removed(&[data(2)]);
            scenario.bring_back(&[data(2)]);
            scenario.progress();
            scenario.save();
            scenario.world.damage_disk(data(1), damage, under);
            survive_power_loss(&mut scenario);
        }
        scenario.finish();
    }
}

#[test]
fn a_node_comes_back_with_an_empty_disk() {
    let mut scenario = Scenario::start(setup(2, 1));
    scenario.world.crash(data(2));
    scenario.until_removed(&[data(2)]);
    scenario.world.restart_wiped(data(2));
    scenario.within(30, "all nodes are active", World::all_active);
    scenario.save();
    survive_power_loss(&mut scenario);
    scenario.finish();
}

#[test]
fn a_node_that_comes_back_is_sent_what_has_changed_and_nothing_else() {
    let rejoin = Rejoin { rows: 4_000, every: 20, wiped: false };
    let told = sim::rejoin::tell(rejoin);
    assert_eq!((told.changed, told.sent), (200, 200));
    assert_eq!(told.sent_bytes * 20, told.bytes);
    let told = sim::rejoin::tell(Rejoin { wiped: true, ..rejoin });
    assert_eq!((told.sent, told.sent_bytes), (4_000, told.bytes), "an empty disk has nothing");
}

#[test]
fn a_node_whose_disk_fails_stops_and_the_others_go_on() {
    for action in [DiskAction::Write, DiskAction::Sync] {
        let mut scenario = Scenario::start(setup(2, 1));
        scenario.world.fail_disk(data(2), action, "worker-");
        scenario.within(10, "it stops", |world| {
            matches!(world.status(data(2)), Status::Halted(Halt::DiskFailed(_)))
        });
        scenario.until_removed(&[data(2)]);
        scenario.progress();
        scenario.bring_back(&[data(2)]);
        scenario.save();
        survive_power_loss(&mut scenario);
        scenario.finish();
    }
}

#[test]
fn a_full_disk_ends_writes_until_there_is_space_again() {
    let mut scenario = Scenario::start(setup(2, 1));
    for node in scenario.world.nodes(Kind::Data) {
        scenario.world.limit_disk(node, Some(0));
    }
    scenario.run(Duration::from_secs(3));
    for node in scenario.world.nodes(Kind::Data) {
        assert!(scenario.world.is_running(node), "a full disk is no reason to stop");
        scenario.world.limit_disk(node, None);
    }
    scenario.progress();
    scenario.save();
    survive_power_loss(&mut scenario);
    scenario.finish();
}

#[test]
fn commits_do_not_wait_for_a_stuck_disk() {
    let mut scenario = Scenario::start(setup(2, 1));
    scenario.world.stick_disk(data(2), Duration::from_secs(2));
    scenario.run(Duration::from_millis(200));
    scenario.progress();
    scenario.run(Duration::from_secs(2));
    scenario.save();
    survive_power_loss(&mut scenario);
    scenario.finish();
}

#[test]
fn the_catalog_is_there_although_all_voters_were_down() {
    let mut scenario = Scenario::start(setup(2, 1).management(2));
    let before = scenario.world.newest_state();
    scenario.power_loss();
    for node in [management(1), management(2), data(1), data(2)] {
        scenario.world.restart(node);
        scenario.run(Duration::from_millis(100));
    }
    scenario.restart_all();
    let after = scenario.world.newest_state();
    assert_eq!(after.table_names, before.table_names);
    assert!(after.index > before.index);
    scenario.finish();
}
