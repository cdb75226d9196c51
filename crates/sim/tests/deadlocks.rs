//! Storms of deadlocks: each is broken as soon as messages can tell, by one victim, and everybody
//! else goes on.

use sim::scenario::{client, data};
use sim::{Scenario, Setup, Waits};
use stdx::Duration;

/// Searches begin with waits and at no other time.
fn without_repetition(setup: Setup) -> Setup {
    setup.configure(|config| config.deadlock_check_after = Duration::from_secs(1_000))
}

#[test]
fn every_cycle_of_a_storm_is_broken_at_once() {
    for seed in 1..6 {
        let setup = without_repetition(Setup::new(2, 2).clients(3).seed(seed));
        let mut scenario = Scenario::start_with(setup, vec!["storm"; 5]);
        let mut waits = Waits::default();
        for _ in 0..4_000 {
            scenario.run(Duration::from_micros(500));
            if let Some((age, cycle)) = waits.look(&scenario.world) {
                let soon = age <= Duration::from_millis(5);
                assert!(
                    soon,
                    "seed {seed}: {cycle:?}\n{}\n{}",
                    scenario.world.describe(),
                    scenario.world.recorders(400)
                );
            }
        }
        let (rounds, deadlocks) = (scenario.rounds(), scenario.world.deadlocks());
        assert!(deadlocks > 100, "{deadlocks} deadlocks");
        assert!(rounds as usize * 4 > deadlocks, "{rounds} rounds, {deadlocks} deadlocks");
        scenario.progress();
        scenario.finish();
    }
}

#[test]
fn a_storm_goes_on_while_nodes_die() {
    let mut scenario = Scenario::start_with(Setup::new(2, 2).clients(3), vec!["storm"; 4]);
    for node in [1, 4, 2] {
        scenario.world.crash(data(node));
        scenario.until_removed(&[data(node)]);
        scenario.progress();
        scenario.bring_back(&[data(node)]);
        scenario.progress();
    }
    scenario.world.crash(client(2));
    scenario.run(Duration::from_millis(500));
    scenario.bring_back(&[client(2)]);
    scenario.progress();
    scenario.finish();
}

#[test]
fn who_queues_for_a_row_and_holds_nothing_costs_no_search() {
    let mut scenario = Scenario::start_with(Setup::new(2, 1).clients(4), vec!["queue"; 25]);
    scenario.run(Duration::from_secs(1));
    let waits = scenario.world.probed("participant: operation waits for a lock");
    assert!(waits > 1_000, "{waits} waits");
    let probes = scenario.world.probed("participant: deadlock searched from a wait");
    assert_eq!(probes, 0, "of {waits} waits");
    scenario.finish();
}
