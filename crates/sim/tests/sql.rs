//! Clients of SQL nodes that die, freeze and come back.

use sim::scenario::client;
use sim::{Scenario, Setup};
use stdx::Duration;

/// Two data nodes, a client node, and the SQL nodes 102 and 103.
fn start() -> Scenario {
    Scenario::start_with(Setup::new(2, 1).clients(1).with_sql_nodes(2), vec!["bank"])
}

#[test]
fn clients_go_to_another_sql_node_when_theirs_dies() {
    let mut scenario = start();
    scenario.progress();
    scenario.world.crash(client(2));
    scenario.progress();
    // The next life of the first has nothing in memory, and is all that is left.
    scenario.world.restart(client(2));
    scenario.run(Duration::from_millis(100));
    scenario.world.crash(client(3));
    scenario.progress();
    scenario.finish();
}

#[test]
fn clients_leave_an_sql_node_that_is_not_heard_of() {
    let mut scenario = start();
    scenario.progress();
    scenario.world.freeze(client(3), Duration::from_secs(5));
    scenario.progress();
    scenario.run(Duration::from_secs(5));
    scenario.progress();
    scenario.finish();
}
