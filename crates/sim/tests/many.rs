//! A cluster of many data nodes keeps its books while some of them die, the driver of epochs among
//! them, and come back.
//!
//! `NINES_WORLD` is how many data nodes there are: an even number from 16 to 144, 16 unless given.

use sim::scenario::data;
use sim::{Scenario, Setup};
use stdx::Duration;

fn data_nodes() -> u16 {
    let Ok(text) = std::env::var("NINES_WORLD") else { return 16 };
    let nodes = text.parse().expect("NINES_WORLD is a number");
    assert!((16..=144).contains(&nodes) && nodes % 2 == 0, "NINES_WORLD={nodes}");
    nodes
}

#[test]
fn the_bank_of_many_nodes_comes_out_right_although_nodes_die() {
    let nodes = data_nodes();
    let mut setup = Setup::new(2, nodes / 2);
    // Each check looks at the whole state of the cluster.
    setup.check_every = u64::from(nodes) * 8;
    let mut scenario = Scenario::start_with(setup, vec!["bank", "bank", "ledger"]);
    scenario.run(Duration::from_millis(500));
    // One of a node group, in three groups at once.
    let first = [data(4), data(nodes / 2), data(nodes)];
    for node in first {
        scenario.world.crash(node);
    }
    scenario.until_removed(&first);
    scenario.progress();
    let driver = scenario.world.driver().expect("somebody drives");
    scenario.world.crash(driver);
    scenario.until_removed(&[driver]);
    scenario.progress();
    scenario.bring_back(&[&first[..], &[driver]].concat());
    // A host that falls silent.
    scenario.world.vanish(data(7));
    scenario.until_removed(&[data(7)]);
    scenario.bring_back(&[data(7)]);
    scenario.progress();
    scenario.finish();
}
