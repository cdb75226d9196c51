//! Clients of SQL nodes that die, freeze and come back; SQL nodes that move tables, and
//! sweep what is in the way of dropping a node group.

use model::{ClusterState, Command, Incarnation, SessionId};
use sim::scenario::{client, data, management};
use sim::{Scenario, Setup, World};
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

/// Tables of SQL that are to be moved.
fn left(state: &ClusterState) -> usize {
    let named = state.table_names.iter().filter(|(name, _)| name.starts_with("sq."));
    named.filter(|(name, table)| state.is_to_be_moved(name, **table)).count()
}

/// Copies that are to take the place of tables, but for the one that a client of ours alters.
fn copies(state: &ClusterState) -> usize {
    let names = state.table_names.iter().map(|(name, _)| name.to_string());
    let copied = names.filter_map(|name| name.strip_prefix("sq.#alter-")?.parse().ok());
    let altered = |id: &u32| {
        let table = state.tables.get(&model::TableId(*id));
        table.is_some_and(|table| table.name == "sq.wide")
    };
    copied.filter(|id| !altered(id)).count()
}

#[test]
fn one_sql_node_at_a_time_moves_tables() {
    let setup = Setup::new(2, 1).clients(1).with_sql_nodes(2).with_spare_group();
    let mut scenario = Scenario::start_with(setup, vec!["bank"]);
    let create = Command::CreateGroup { nodes: vec![data(3), data(4)] };
    scenario.world.order(management(1), create);
    scenario.within(30, "the group is opened", |world| world.newest_state().is_open(1));
    let all = left(&scenario.world.newest_state());
    assert!(all > 5, "{all} tables are elsewhere");
    scenario.world.order(management(1), Command::Reorganize { wanted: true });
    let moved = |world: &World| {
        let state = world.newest_state();
        assert!(copies(&state) <= 1, "two move tables: the claim is lost");
        left(&state) == 0
    };
    scenario.within(120, "all tables are moved", moved);
    scenario.progress();
    scenario.finish();
}

#[test]
fn what_dead_sessions_left_goes_from_a_drained_group_though_nobody_connects() {
    let setup = Setup::new(2, 1).clients(1).with_sql_nodes(2).with_spare_group();
    let mut scenario = Scenario::start_with(setup, vec!["bank"]);
    let create = Command::CreateGroup { nodes: vec![data(3), data(4)] };
    scenario.world.order(management(1), create);
    scenario.within(30, "the group is opened", |world| world.newest_state().is_open(1));
    scenario.end_load();
    // Nobody holds a claim of this owner.
    let name = "#temporary/00000000000000ab/1/sq/t";
    let table = testing::table(name).column("k", testing::BIGINT);
    let change = table.description(*b"CREATE TABLE t (k BIGINT PRIMARY KEY)").create();
    let session = SessionId { node: client(1), incarnation: Incarnation(1), number: 99 };
    scenario.world.order(management(1), Command::Schema { session, number: 1, change });
    let is_there = |world: &World| world.newest_state().table_named(name).is_some();
    scenario.within(30, "the table is made", is_there);
    scenario.run(Duration::from_secs(200));
    assert!(is_there(&scenario.world), "nothing is drained");
    scenario.world.order(management(1), Command::RetireGroup { group: 1 });
    scenario.run(Duration::from_secs(120));
    assert!(is_there(&scenario.world), "its session may come back to it");
    scenario.within(180, "the table is dropped", |world| !is_there(world));
    scenario.world.order(management(1), Command::DropGroup { group: 1 });
    let dropped = |world: &World| world.newest_state().groups[1].is_empty();
    scenario.within(30, "the group is dropped", dropped);
}
