//! Parts of a node that stand still while the rest goes on, and transactions whose end takes long.

use model::WorkerId;
use sim::scenario::data;
use sim::{Scenario, Setup, Status, World};
use stdx::Duration;

/// How long a worker hangs if nobody does anything about it.
const FOR_EVER: Duration = Duration::from_secs(600);

#[test]
fn a_worker_that_hangs_costs_its_node_and_no_more() {
    // One of them drives epochs, one leads.
    for number in 1..=4 {
        let node = data(number);
        let mut scenario = Scenario::start(Setup::new(2, 2).seed(u64::from(number)));
        let began = scenario.world.now();
        scenario.world.hang(node, WorkerId(1), FOR_EVER);
        scenario.within(4, "the node of the worker is gone", |world| {
            !world.newest_state().members.contains_key(&node)
        });
        let took = scenario.world.now().since(began);
        let silence = scenario.world.setup().config.worker_silence;
        assert!(took >= silence, "{node}: removed after {took}, which may have been a pause");
        assert!(scenario.world.probed("epochs: silent worker named") > 0);
        scenario.until_removed(&[node]);
        scenario.progress();
        scenario.until_halted(&[node]);
        scenario.bring_back(&[node]);
        scenario.finish();
    }
}

#[test]
fn a_pause_of_a_worker_holds_up_only_what_needs_it() {
    let mut scenario = Scenario::start(Setup::new(2, 2));
    let members = scenario.world.newest_state().members.clone();
    let pause = scenario.world.setup().config.worker_silence.divided_by(2);
    scenario.world.hang(data(2), WorkerId(1), pause);
    scenario.run(pause.divided_by(2));
    // The switch to the next epoch does not wait for it any more, nor do commits.
    assert!(scenario.world.probed("epochs: switch called off") > 0);
    assert!(scenario.world.probed("epochs: commits go on as a switch was called off") > 0);
    let current = |world: &World| world.worker(data(1), WorkerId(0)).shared().epochs.current;
    let before = current(&scenario.world);
    scenario.run(pause.divided_by(2));
    scenario.within(2, "epochs go on", |world| current(world) > before);
    scenario.progress();
    assert_eq!(scenario.world.newest_state().members, members, "a pause costs nobody");
    scenario.finish();
}

#[test]
fn a_member_dies_between_two_steps_of_a_large_transaction() {
    let points = [
        "participant: between two steps of a large commit",
        "participant: between two steps of giving rows back",
        "participant: between two steps of a rollback",
    ];
    for (at, point) in points.into_iter().enumerate() {
        for node in [1, 3] {
            let setup =
                Setup::new(2, 2).seed(at as u64).configure(|config| config.apply_step_bytes = 1);
            let mut scenario = Scenario::start(setup);
            scenario.world.arm_at(data(node), point);
            scenario.within(20, point, |world| *world.status(data(node)) == Status::Dead);
            scenario.until_removed(&[data(node)]);
            scenario.progress();
            scenario.bring_back(&[data(node)]);
            scenario.finish();
        }
    }
}

#[test]
fn a_leader_that_leaves_hands_over_first() {
    let mut scenario = Scenario::start(Setup::new(2, 2));
    let leader = scenario.world.leader().expect("somebody leads");
    scenario.world.ask_to_leave(leader);
    scenario.within(2, "another leads", |world| world.leader().is_some_and(|now| now != leader));
    assert!(scenario.world.probed("control: leader has named its successor") > 0);
    scenario.until_halted(&[leader]);
    scenario.until_removed(&[leader]);
    scenario.progress();
    scenario.bring_back(&[leader]);
    scenario.finish();
}
