//! Control actors together: forming, failures, partitions, the survival rules, leaving, schema.

mod restart;
mod world;

use actor::Mutation;
use model::cluster::Revision;
use model::{Epoch, ErrorCode, MemberStatus, SchemaChange};
use stdx::Prng;
use wire::NodeLife;

use super::*;
use world::{CLIENT, World};

#[test]
fn a_cluster_forms() {
    for seed in 0..10 {
        let mut world = World::started(seed, 2, 1, 2);
        let state = world.state();
        assert!(state.started && !state.stopped);
        assert_eq!(state.slots.len(), 2);
        assert_eq!(world.voters(), [1, 2, 90]);
        world.run(5_000);
        assert!(world.halts.is_empty());
        assert!(world.nodes().iter().all(|node| world.has_lease(node.0)));
    }
}

#[test]
fn a_single_node_is_a_cluster() {
    let mut world = World::started(1, 1, 0, 1);
    world.run(3_000);
    assert!(world.has_lease(1));
    assert_eq!(world.voters(), [1]);
}

#[test]
fn nobody_starts_before_all_are_there() {
    let mut world = World::new(3, 3, 1, 3);
    world.crash(2);
    world.run(5_000);
    assert!(!world.state().started);
    world.boot(NodeId(2));
    world.await_active();
}

#[test]
fn a_founder_that_dies_is_begun_anew() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, 1, 2);
        world.restart_after = Some(Duration::from_millis(20));
        let millis = world.prng.between(1, 60);
        world.run(millis);
        world.crash(1);
        world.await_active();
    }
}

/// Lets `node` believe that every other node belongs to no cluster.
fn believe_alone(world: &mut World, node: NodeId) {
    for other in world.nodes().into_iter().filter(|other| *other != node) {
        let Some(host) = world.hosts.get(&other) else { continue };
        let (incarnation, workers) = (host.shared.incarnation, host.shared.workers);
        let data = world.config.data_nodes.contains(&other);
        let role = if data { NodeRole::Data } else { NodeRole::Management };
        let (voter, protocol) = (incarnation, wire::PROTOCOL_VERSION);
        let life = NodeLife {
            incarnation,
            voter,
            role,
            workers,
            rows: None,
            protocol,
            oldest: Epoch(0),
            durable: None,
        };
        let reply = ControlMessage::HelloReply { life, cluster: None, leader: None, serves: false };
        let reply = Message::Control(Box::new(reply));
        world.turn(node, |control, ctx| control.handle(ctx, control_of(other), reply));
    }
}

#[test]
fn a_founder_gives_way_to_a_cluster_that_was_there() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        let id = world.state().id;
        world.run(200);
        world.crash(1);
        world.run(500);
        world.partition(&[1]);
        world.boot(NodeId(1));
        // Everyone was in no cluster once, only not at one time.
        believe_alone(&mut world, NodeId(1));
        world.run(45);
        assert!(world.hosts[&NodeId(1)].control.is_leader(), "it has founded");
        assert_ne!(world.hosts[&NodeId(1)].control.state().id, id);
        // It had asked to join before, and that arrives only now.
        let incarnation = world.hosts[&NodeId(1)].shared.incarnation;
        let (voter, role, protocol) = (incarnation, NodeRole::Data, wire::PROTOCOL_VERSION);
        let life = NodeLife {
            incarnation,
            voter,
            role,
            workers: 2,
            rows: None,
            protocol,
            oldest: Epoch(0),
            durable: None,
        };
        let join = ControlMessage::Join { life };
        world.heal();
        for node in [2, 3] {
            world.send(control_of(NodeId(1)), NodeId(node), join.clone());
        }
        world.restart_after = Some(Duration::from_millis(20));
        world.run(300);
        world.await_active();
        assert!(world.nodes().iter().all(|node| world.hosts[node].control.state().id == id));
        assert_eq!(world.halts.len(), 1, "only the founder began anew: {:?}", world.halts);
    }
}

/// Runs for `millis` and demands that `node` may serve all the time.
fn serves_throughout(world: &mut World, node: u16, millis: u64) {
    let until = world.now + Duration::from_millis(millis);
    while world.step(until) {
        assert!(world.has_lease(node), "{node} without lease at {}", world.now);
    }
}

#[test]
fn a_dead_process_is_removed_at_once_and_the_other_goes_on() {
    for seed in 0..20 {
        for dead in [1, 2] {
            let mut world = World::started(seed, 2, 1, 2);
            world.run(500);
            world.crash(dead);
            let started = world.now;
            let other = 3 - dead;
            while world.is_member(dead) {
                serves_throughout(&mut world, other, 1);
                assert!(world.now.since(started) < Duration::from_millis(250));
            }
            serves_throughout(&mut world, other, 3_000);
            assert_eq!(world.voters(), [other]);
            assert!(world.has_lease(90));
            assert!(world.state().takeovers.is_empty());
        }
    }
}

#[test]
fn a_dead_node_comes_back_as_a_new_life() {
    for seed in 0..20 {
        let mut world = World::started(seed, 2, 1, 2);
        world.crash(2);
        world.run(1_000);
        world.boot(NodeId(2));
        world.await_active();
        let state = world.state();
        assert_eq!(state.members[&NodeId(2)].incarnation, Incarnation(2));
        assert_eq!(world.voters(), [1, 2, 90]);
        assert!(state.slots.iter().all(|slot| slot.replicas.len() == 2));
        assert_eq!(state.slots[1].replicas[0].node, NodeId(1), "primaries stay");
        // Now the other one may die.
        world.crash(1);
        world.run(1_500);
        assert!(!world.is_member(1) && world.has_lease(2));
    }
}

#[test]
fn a_restart_at_once_removes_the_old_life() {
    let mut world = World::started(5, 2, 1, 2);
    world.vanish(2);
    world.boot(NodeId(2));
    world.run(200);
    assert_eq!(world.state().incarnations[&NodeId(2)], Incarnation(2));
    world.await_active();
    assert!(world.halts.is_empty());
}

#[test]
fn a_silent_node_is_removed_when_its_lease_has_ended() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 0, 3);
        world.run(300);
        let leader = world.leader().unwrap();
        let dead = (1..=3).find(|node| *node != leader).unwrap();
        world.vanish(dead);
        let (before, lease) = (world.now, world.config.lease);
        world.run_until(2_000, "removal", |world| !world.is_member(dead));
        assert!(world.now.since(before) >= lease, "too early");
        assert!(world.now.since(before) < lease.times(2), "too late");
    }
}

#[test]
fn a_removal_before_the_lease_ends_is_noticed() {
    let mut noticed = 0;
    for seed in 0..10 {
        let mut world = World::new(seed, 3, 0, 3);
        world.mutation = Mutation::RemoveBeforeLeaseEnds;
        for node in world.nodes() {
            world.hosts.get_mut(&node).unwrap().shared.mutation = world.mutation;
        }
        world.await_active();
        let leader = world.leader().unwrap();
        let victim = (1..=3).find(|node| *node != leader).unwrap();
        world.partition(&[victim]);
        world.run(1_000);
        noticed += u32::from(world.fence_broken);
    }
    assert!(noticed > 0);
}

#[test]
fn a_lost_leader_is_replaced() {
    for seed in 0..30 {
        let mut world = World::started(seed, 3, 1, 3);
        world.run(300);
        let leader = world.leader().unwrap();
        let closed = seed % 2 == 0;
        if closed {
            world.crash(leader)
        } else {
            world.vanish(leader)
        }
        if closed {
            // Known deaths cost no lease.
            let other = (1..=3).find(|node| *node != leader).unwrap();
            serves_throughout(&mut world, other, 300);
        }
        let limit = if closed { 1 } else { 2_000 };
        world.run_until(limit, "removal of the leader", |world| !world.is_member(leader));
        world.run(2_000);
        assert!(world.nodes().iter().all(|node| node.0 == leader || world.has_lease(node.0)));
        world.boot(NodeId(leader));
        world.await_active();
    }
}

#[test]
fn no_node_of_a_group_no_cluster() {
    // Rule 1. Both nodes of the second group die.
    let mut world = World::started(1, 4, 1, 2);
    world.crash(3);
    world.crash(4);
    world.run(10_000);
    assert!(world.hosts.is_empty(), "everyone has stopped");
    let stopped = Halt::ClusterStopped("a node group has no survivor");
    assert!(world.halts.iter().any(|(_, halt)| *halt == stopped));
}

#[test]
fn a_complete_group_goes_on() {
    // Rule 2. Of four nodes in two groups one of each is cut off, or two with the tie-breaker.
    for seed in 0..10 {
        let mut world = World::started(seed, 4, 0, 4);
        world.crash(1);
        world.run(1_500);
        world.crash(2);
        world.run(1_500);
        assert!(world.has_lease(3) && world.has_lease(4));
    }
}

#[test]
fn the_majority_goes_on_and_the_minority_stops() {
    // Rules 3 and 4.
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        world.run(200);
        world.partition(&[2]);
        serves_all(&mut world, &[1, 3], 6_000);
        assert!(!world.is_member(2));
        assert!(world.halts.iter().all(|(node, _)| *node == NodeId(2)));
        assert!(!world.has_lease(2));
        world.heal();
        world.boot(NodeId(2));
        world.await_active();
    }
}

fn serves_all(world: &mut World, nodes: &[u16], millis: u64) {
    world.run(millis);
    for node in nodes {
        assert!(world.has_lease(*node), "{node} does not serve\n{}", world.describe());
    }
}

#[test]
fn half_goes_on_with_the_tie_breaker() {
    // Rule 5. Two groups; one node of each group is on each side.
    for seed in 0..20 {
        let mut world = World::started(seed, 4, 1, 2);
        world.run(seed * 17);
        world.partition(&[1, 3]);
        serves_all(&mut world, &[2, 4, 90], 6_000);
        assert!(!world.is_member(1) && !world.is_member(3));
        assert!(!world.hosts.contains_key(&NodeId(1)), "it has stopped");
        assert_eq!(world.voters(), [2, 4, 90]);
        world.heal();
        world.boot(NodeId(1));
        world.boot(NodeId(3));
        world.await_active();
        world.run_until(500, "voters", |world| world.voters() == [1, 2, 3, 4, 90]);
    }
}

#[test]
fn without_tie_breaker_half_stops() {
    let mut world = World::started(2, 2, 0, 2);
    world.partition(&[1]);
    world.run(10_000);
    assert!(world.hosts.is_empty());
}

#[test]
fn four_replicas_lose_two_at_once_then_one_more() {
    for seed in 0..30 {
        let mut world = World::started(seed, 4, 1, 4);
        world.run(seed * 13);
        let closed = seed % 2 == 0;
        let order: [u16; 3] = *world.prng.pick(&[[1, 2, 3], [2, 4, 1], [3, 4, 2], [1, 4, 2]]);
        for node in &order[..2] {
            if closed { world.crash(*node) } else { world.vanish(*node) }
        }
        world.run_until(3_000, "two removals", |world| {
            order[..2].iter().all(|node| !world.is_member(*node))
        });
        let last = 10 - order.iter().sum::<u16>();
        let voters = [last.min(order[2]), last.max(order[2]), 90];
        world.run_until(200, "fewer voters", |world| world.voters() == voters);
        world.run(100);
        world.crash(order[2]);
        serves_all(&mut world, &[last, 90], 3_000);
        assert_eq!(world.voters(), [last]);
        assert!(world.state().slots.iter().all(|slot| slot.replicas.len() == 1));
        for node in order {
            world.boot(NodeId(node));
        }
        world.await_active();
        assert!(world.state().slots.iter().all(|slot| slot.replicas.len() == 4));
    }
}

#[test]
fn the_management_node_is_not_needed_while_nothing_else_fails() {
    let mut world = World::started(3, 2, 2, 2);
    let ties: Vec<u16> = world.voters().into_iter().filter(|node| *node >= 90).collect();
    assert_eq!(ties.len(), 1, "one breaks ties");
    world.crash(ties[0]);
    world.run(2_000);
    let other = 181 - ties[0];
    assert!(world.voters().contains(&other), "the other one took its place");
    world.crash(other);
    serves_all(&mut world, &[1, 2], 3_000);
    world.boot(NodeId(90));
    world.run_until(20_000, "return", |world| world.status(90) == Some(MemberStatus::Active));
}

#[test]
fn one_of_two_that_cannot_talk_is_removed() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        world.run(200);
        let leader = world.leader().unwrap();
        let pair: Vec<u16> = (1..=3).filter(|node| *node != leader).take(2).collect();
        world.cut_link(pair[0], pair[1]);
        // Even a link that comes back has lost messages.
        world.run(200);
        world.heal();
        world.run_until(5_000, "removal", |world| {
            pair.iter().filter(|node| world.is_member(**node)).count() == 1
        });
        world.run(1_000);
        let removed = pair.iter().find(|node| !world.is_member(**node)).unwrap();
        world.boot(NodeId(*removed));
        world.await_active();
    }
}

/// Of two that have lost messages between them the one goes whose line is slow, whoever is younger
/// and whoever leads.
#[test]
fn a_slow_line_costs_its_own_host() {
    for seed in 0..30 {
        let mut world = World::started(seed, 2, 1, 2);
        if seed % 3 == 0 {
            restart(&mut world, 1);
        }
        let (slow, other) = if seed % 2 == 0 { (1, 2) } else { (2, 1) };
        world.slow_line(slow, Duration::from_millis(110), other);
        world.run_until(6_000, "a removal", |world| !(world.is_member(1) && world.is_member(2)));
        assert!(world.is_member(other), "seed {seed}: the cluster went on with {slow}");
        serves_all(&mut world, &[other, 90], 3_000);
    }
}

#[test]
fn a_link_to_a_management_node_may_break() {
    let mut world = World::started(4, 3, 1, 3);
    let leader = world.leader().unwrap();
    let other = (1..=3).find(|node| *node != leader).unwrap();
    world.cut_link(other, 90);
    world.run(3_000);
    assert!(world.is_member(other) && world.halts.is_empty());
}

#[test]
fn a_leader_that_hears_nobody_gives_way() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        world.run(200);
        let leader = world.leader().unwrap();
        for node in world.nodes() {
            if node.0 != leader {
                world.cut_one_way(node, NodeId(leader));
            }
        }
        world.run_until(5_000, "another leader", |world| {
            world.leader().is_some_and(|now| now != leader) && !world.is_member(leader)
        });
    }
}

#[test]
fn a_leader_that_was_deaf_listens_before_it_judges() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        world.run(200);
        let leader = world.leader().unwrap();
        for node in world.nodes() {
            if node.0 != leader {
                world.cut_one_way(node, NodeId(leader));
            }
        }
        // Deaf for longer than a lease and its margin, not so long that it resigns.
        world.run(480);
        let (address, session) = client();
        let change = create("a");
        let message = ControlMessage::Schema { session, number: 1, change };
        world.send(address, NodeId(leader), message);
        world.run(20);
        // The first answer makes a quorum and commits the entry: a moment to judge in which the
        // others have not been heard yet.
        world.heal();
        world.run(5_000);
        for node in (1..=3).filter(|node| *node != leader) {
            assert!(world.is_member(node), "seed {seed}: {node} was not the deaf one");
            assert!(world.has_lease(node), "seed {seed}: {node}");
        }
    }
}

#[test]
fn a_frozen_node_has_no_lease_when_it_wakes() {
    for seed in 0..10 {
        for span in [100, 300, 1_500, 8_000] {
            let mut world = World::started(seed, 3, 1, 3);
            world.restart_after = Some(Duration::from_millis(50));
            world.run(200);
            let node = *world.prng.pick(&[1, 2, 3]);
            world.freeze(node, Duration::from_millis(span));
            world.run(span);
            let others = (1..=3).filter(|other| *other != node).collect::<Vec<_>>();
            if span <= 300 {
                world.run(2_000);
                assert!(world.halts.is_empty(), "short pauses harm nobody: {:?}", world.halts);
            } else {
                serves_all(&mut world, &others, 500);
            }
            world.await_active();
        }
    }
}

#[test]
fn a_node_leaves_in_good_order() {
    for seed in 0..20 {
        let mut world = World::started(seed, 3, 1, 3);
        let leaver = 1 + (seed % 3) as u16;
        let from = Address { actor: ActorKind::Client, ..control_of(CLIENT) };
        world.send(from, NodeId(leaver), ControlMessage::LeaveRequest);
        world.run_until(1_000, "leaving", |world| {
            world.status(leaver) == Some(MemberStatus::Leaving)
        });
        assert!(world.has_lease(leaver), "it serves until its transactions are done");
        world.run_until(3_000, "left", |world| !world.is_member(leaver));
        world.run(500);
        assert_eq!(world.halts, [(NodeId(leaver), Halt::Left)]);
        world.run(1_000);
        assert!((1..=3).all(|node| node == leaver || world.has_lease(node)));
    }
}

#[test]
fn chains_change_in_a_quiet_moment_or_in_the_end_without() {
    let (quiet, none) =
        ("control: chains change in a quiet moment", "control: no quiet moment found");
    let from = Address { actor: ActorKind::Client, ..control_of(CLIENT) };
    for (busy, seed) in [(false, 1), (true, 2), (false, 3), (true, 4)] {
        let mut world = World::started(seed, 3, 1, 3);
        world.busy = busy;
        let leaver = 1 + (seed % 3) as u16;
        world.send(from, NodeId(leaver), ControlMessage::LeaveRequest);
        world.run_until(3_000, "left", |world| !world.is_member(leaver));
        world.run(500);
        world.boot(NodeId(leaver));
        world.await_active();
        let probes = world.probes_hit();
        assert_eq!((probes.contains(quiet), probes.contains(none)), (!busy, busy));
        assert!(world.halts.iter().all(|(_, why)| *why == Halt::Left), "{:?}", world.halts);
    }
}

/// Primaries by slot.
fn primaries(world: &World) -> Vec<u16> {
    world.state().slots.iter().map(|slot| slot.replicas[0].node.0).collect()
}

#[test]
fn primaries_move_back_when_nothing_is_open_and_stay_otherwise() {
    for seed in 0..10 {
        let mut world = World::started(seed, 3, 1, 3);
        let dead = 1 + (seed % 3) as u16;
        restart(&mut world, dead);
        assert!(!primaries(&world).contains(&dead));
        world.run_until(5_000, "moved", |world| primaries(world) == [1, 2, 3]);
        assert_eq!(world.state().held, None);
        world.busy = true;
        restart(&mut world, dead);
        world.run_until(5_000, "held", |world| world.state().held.is_some());
        world.run_until(1_000, "let go", |world| world.state().held.is_none());
        assert!(!primaries(&world).contains(&dead));
        // A leader that has held the group dies: the next one lets it go, and tries again.
        world.run_until(20_000, "held again", |world| world.state().held.is_some());
        world.busy = false;
        let leader = world.leader().expect("somebody leads");
        if leader != dead && leader < 4 {
            restart(&mut world, leader);
        }
        world.run_until(20_000, "moved in the end", |world| primaries(world) == [1, 2, 3]);
    }
}

#[test]
fn all_but_one_leave() {
    let mut world = World::started(6, 3, 0, 3);
    let from = Address { actor: ActorKind::Client, ..control_of(CLIENT) };
    for leaver in [1, 2] {
        world.send(from, NodeId(leaver), ControlMessage::LeaveRequest);
        world.run_until(5_000, "left", |world| !world.is_member(leaver));
    }
    world.run(3_000);
    assert_eq!(world.voters(), [3]);
    assert!(world.has_lease(3));
    world.send(from, NodeId(3), ControlMessage::LeaveRequest);
    world.run(3_000);
    assert!(world.has_lease(3), "the last copy stays");
}

fn create(name: &str) -> SchemaChange {
    testing::table(name).column("id", testing::BIGINT).create()
}

fn client() -> (Address, SessionId) {
    let address = Address { node: CLIENT, worker: WorkerId(0), actor: ActorKind::Client };
    let session = SessionId { node: CLIENT, incarnation: Incarnation(1), number: 1 };
    (address, session)
}

/// Asks `node` for a change until there is an answer.
fn change(
    world: &mut World,
    node: u16,
    number: u64,
    change: &SchemaChange,
) -> Result<model::TableId, ErrorCode> {
    let (address, session) = client();
    for _ in 0..50 {
        let message = ControlMessage::Schema { session, number, change: change.clone() };
        world.send(address, NodeId(node), message);
        world.run(300);
        while let Some(message) = world.inbox.pop_front() {
            if let Message::Control(reply) = message
                && let ControlMessage::SchemaReply { number: answered, result, .. } = *reply
                && answered == number
            {
                return result;
            }
        }
    }
    panic!("no answer to schema change {number}");
}

#[test]
fn clients_change_the_schema_anywhere() {
    let mut world = World::new(7, 2, 1, 2);
    assert_eq!(change(&mut world, 1, 1, &create("early")), Err(ErrorCode::NotServing));
    world.await_active();
    let (address, _) = client();
    world.send(address, NodeId(2), ControlMessage::Follow { known: None, answers_peers: false });
    world.run(50);
    assert!(matches!(world.inbox.pop_front(), Some(Message::Control(_))), "what all speak");
    assert!(matches!(world.inbox.pop_front(), Some(Message::State(_))));
    let table = change(&mut world, 1, 2, &create("a")).unwrap();
    assert_eq!(change(&mut world, 2, 2, &create("a")), Ok(table), "a repeat elsewhere");
    assert_eq!(change(&mut world, 2, 3, &create("a")), Err(ErrorCode::TableExists));
    let drop = SchemaChange::DropTable { table };
    assert_eq!(change(&mut world, 2, 4, &drop), Ok(table));
    assert!(world.state().tables.is_empty());
    world.crash(1);
    change(&mut world, 2, 5, &create("b")).unwrap();
    let management = change(&mut world, 90, 6, &create("c"));
    assert_eq!(management, Err(ErrorCode::NotServing));
}

/// Ends a node and starts it anew; all are members again afterwards.
fn restart(world: &mut World, node: u16) {
    world.crash(node);
    world.run(1_000);
    world.boot(NodeId(node));
    world.await_active();
    world.run(200);
}

/// A change that one member could not read in the log is not logged, whoever leads and is asked.
#[test]
fn a_change_that_an_older_member_does_not_know_waits_for_its_update() {
    for (seed, older) in [(1, 1), (2, 2), (3, 3), (4, 90), (5, 1)] {
        let mut world = World::started(seed, 3, 1, 3);
        let table = change(&mut world, 1, 1, &create("a")).unwrap();
        let keep = SchemaChange::KeepJournal { table, kept: true };
        let together = SchemaChange::Together { expected: vec![], changes: vec![keep.clone()] };
        world.older.insert(NodeId(older));
        restart(&mut world, older);
        for (number, asked) in [(2, 1), (3, 2), (4, 3)].into_iter().filter(|n| n.1 != older) {
            let answer = change(&mut world, asked, number, &together);
            assert_eq!(answer, Err(ErrorCode::OlderNode), "seed {seed}, {asked} asked");
        }
        // Another leader learns the same.
        let leader = world.leader().unwrap();
        restart(&mut world, leader);
        let asked = if older == 2 { 3 } else { 2 };
        assert_eq!(change(&mut world, asked, 5, &keep), Err(ErrorCode::OlderNode));
        assert!(change(&mut world, asked, 6, &create("b")).is_ok(), "others may go on");
        world.older.clear();
        restart(&mut world, older);
        assert_eq!(change(&mut world, asked, 7, &keep), Ok(table), "seed {seed}");
        // What is done is done, also for who asks for it again when one is older again.
        world.older.insert(NodeId(older));
        restart(&mut world, older);
        assert_eq!(change(&mut world, asked, 7, &keep), Ok(table), "seed {seed}, again");
    }
}

/// A definition that a leader has committed is of use when all nodes know it: who writes to the
/// new table waits for the slowest.
#[test]
fn followers_learn_what_is_committed_before_the_next_heartbeat() {
    for seed in 0..20 {
        let mut world = World::started(seed, 2, 1, 2);
        let (address, session) = client();
        let leader = *world.hosts.iter().find(|(_, host)| host.control.is_leader()).unwrap().0;
        let change = create("a");
        world.send(address, leader, ControlMessage::Schema { session, number: 1, change });
        let until = world.now + Duration::from_millis(1_000);
        while world.hosts[&leader].control.state().tables.is_empty() {
            assert!(world.step(until), "the leader commits");
        }
        // A message is under way for 4 ms at most, a heartbeat comes every 40.
        world.run(5);
        for node in [NodeId(1), NodeId(2)] {
            let known = world.hosts[&node].control.state().tables.len();
            assert_eq!(known, 1, "seed {seed}: {node} does not know the table");
        }
    }
}

#[test]
fn a_node_far_behind_gets_a_snapshot() {
    let mut world = World::started(8, 3, 1, 3);
    world.crash(3);
    for number in 1..=120 {
        change(&mut world, 1, number, &create(&format!("t{number}"))).unwrap();
    }
    world.boot(NodeId(3));
    world.await_active();
    let states: Vec<_> =
        world.hosts.values().map(|host| host.control.state().table_names.len()).collect();
    assert!(states.iter().all(|tables| *tables == 120));
    let leader = world.leader().unwrap();
    world.crash(leader);
    world.run(100);
    assert!(world.probes.contains("control: snapshot sent"));
    assert!(world.probes_hit().contains("control: snapshot put together of pieces"));
}

/// A cluster with so many tables.
fn with_tables(count: usize) -> World {
    let mut world = World::started(3, 2, 1, 2);
    let changes = (0..count).map(|number| create(&format!("t{number}"))).collect();
    let together = SchemaChange::Together { expected: vec![], changes };
    change(&mut world, 1, 1, &together).unwrap();
    world.inbox.clear();
    world
}

/// What the client was told last: pieces of a state, and changes.
fn told(world: &mut World) -> (Vec<model::cluster::StatePiece>, Vec<Arc<model::StateChange>>) {
    let (mut pieces, mut changes) = (vec![], vec![]);
    for message in world.inbox.drain(..) {
        match message {
            Message::StateChange(change) => changes.push(change),
            Message::State(_) => panic!("a large state is sent in pieces"),
            Message::Control(message) => {
                if let ControlMessage::StatePiece(piece) = *message {
                    pieces.push(*piece);
                }
            }
            _ => {}
        }
    }
    (pieces, changes)
}

#[test]
fn a_client_without_a_state_is_sent_it_piece_by_piece() {
    use model::cluster::{Assembled, StateAssembly};
    let mut world = with_tables(100);
    let first = world.state();
    let (client, _) = client();
    let follow = || {
        let known = wire::KnownState { cluster: first.id, index: ControlIndex(0) };
        ControlMessage::Follow { known: Some(known), answers_peers: false }
    };
    world.send(client, NodeId(2), follow());
    world.run(20);
    let (mut pieces, _) = told(&mut world);
    assert_eq!(pieces.len(), 1, "the next one is asked for");
    // Asked again, it begins again.
    world.send(client, NodeId(2), follow());
    world.run(20);
    pieces = told(&mut world).0;
    let mut assembly = StateAssembly::default();
    let (mut count, mut whole) = (0, None);
    while let Some(piece) = pieces.pop() {
        assert!(pieces.is_empty(), "one at a time");
        assert!(serde_json::to_vec(&piece).unwrap().len() < 60_000);
        count += 1;
        let (of, number) =
            (wire::KnownState { cluster: piece.id, index: piece.index }, piece.number + 1);
        match assembly.add(piece.clone()) {
            Assembled::Nothing => panic!("piece {count} does not follow"),
            Assembled::Part => assert!(!piece.last),
            Assembled::Whole(state) => assert_eq!(state, first),
        }
        if piece.number > 0 {
            assert_eq!(assembly.clone().add(piece.clone()), Assembled::Nothing, "twice");
        }
        if count == 3 {
            // More states than a node keeps of those it has told.
            for number in 0..70 {
                change(&mut world, 1, 2 + number, &create(&format!("later{number}"))).unwrap();
            }
            assert_eq!(told(&mut world).1.len(), 0, "changes wait for the whole state");
        }
        if piece.last {
            whole = Some(of);
        }
        // An answer to an earlier piece changes nothing.
        world.send(client, NodeId(2), ControlMessage::NextPiece { of, number: number - 1 });
        world.send(client, NodeId(2), ControlMessage::NextPiece { of, number });
        world.run(20);
        let (next, changes) = told(&mut world);
        if whole.is_some() {
            assert!(next.is_empty() && changes.len() == 1, "then it is told what is new");
            let after = changes[0].apply(&first).expect("made for the state that was sent");
            assert_eq!(after, *world.state());
        }
        pieces = next;
    }
    assert!(count >= 5, "{count} pieces");
    assert_eq!(whole.unwrap().index, first.index);
    change(&mut world, 2, 100, &create("last")).unwrap();
}

#[test]
fn a_snapshot_under_way_is_not_sent_again_and_again() {
    let mut world = World::started(8, 3, 1, 3);
    let leader = NodeId(world.leader().unwrap());
    let behind = world.nodes().into_iter().find(|node| *node != leader).unwrap();
    let voter = voter_of(behind, world.hosts[&behind].control.incarnation);
    let sent = |world: &World| {
        let mut counts = world.hosts[&leader].shared.probes.counts();
        counts.find(|(probe, _)| *probe == "control: snapshot sent").map_or(0, |(_, count)| count)
    };
    // As often as the consensus asks for it while a state of some megabytes is under way.
    for _ in 0..100 {
        world.turn(leader, |control, ctx| control.send_snapshot(ctx, voter));
        world.run(40);
    }
    let before = sent(&world);
    assert!((2..=7).contains(&before), "{before} in four seconds");
    world.turn(leader, |control, _| control.end_snapshot(behind));
    world.turn(leader, |control, ctx| control.send_snapshot(ctx, voter));
    assert_eq!(sent(&world), before + 1, "the next one need not wait");
}

#[test]
fn random_failures_end_in_recovery() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let groups = prng.between(1, 2) as u16;
        let replicas = prng.between(2, 4) as u16;
        let mut config = Config::new(
            (1..=groups * replicas).map(NodeId).collect(),
            (90..90 + prng.between(1, 2) as u16).map(NodeId).collect(),
            replicas as u8,
        );
        config.randomise(&mut prng);
        let mut world = World::with_config(seed, config, 0);
        world.restart_after = Some(Duration::from_millis(prng.between(5, 400)));
        world.await_active();
        for _ in 0..12 {
            strike(&mut world, &mut prng);
            let millis = prng.between(10, 3_000);
            world.run(millis);
            if prng.percent(50) {
                world.heal();
            }
        }
        world.heal();
        world.await_active();
        world.run(1_000);
        world.await_active();
    }
}

fn strike(world: &mut World, prng: &mut Prng) {
    let nodes = world.nodes();
    let node = *prng.pick(&nodes);
    match prng.below(7) {
        0 | 1 => world.crash(node.0),
        2 => world.vanish(node.0),
        3 => world.freeze(node.0, Duration::from_millis(prng.between(10, 2_000))),
        4 => {
            let side: Vec<u16> = nodes.iter().map(|n| n.0).filter(|_| prng.percent(40)).collect();
            world.partition(&side);
        }
        5 => {
            let other = *prng.pick(&nodes);
            if other != node {
                world.cut_link(node.0, other.0);
            }
        }
        _ => {
            let other = *prng.pick(&nodes);
            if other != node {
                world.cut_one_way(node, other);
            }
        }
    }
}

#[test]
fn deaths_inside_handlers_end_in_recovery() {
    for seed in 0..40 {
        let mut config =
            Config::new(vec![NodeId(1), NodeId(2), NodeId(3), NodeId(4)], vec![NodeId(90)], 2);
        config.randomise(&mut Prng::new(seed));
        let mut world = World::with_config(seed, config, 3_000);
        world.restart_after = Some(Duration::from_millis(50));
        world.run(20_000);
        world.calm();
        world.await_active();
        world.run(1_000);
        world.await_active();
    }
}

/// Until an upgrade is finalized nothing is logged that the program of before cannot read, although
/// all members could; and an older member keeps it from being finalized.
#[test]
fn nothing_newer_is_logged_before_an_upgrade_is_finalized() {
    for seed in 0..5 {
        let mut world = World::new(seed, 3, 1, 3);
        let nodes = world.nodes();
        // Founded by programs of a version before.
        for node in &nodes {
            world.crash(node.0);
            world.older.insert(*node);
        }
        nodes.iter().for_each(|node| world.boot(*node));
        world.await_active();
        let propose = |world: &mut World, command: Command| {
            let order = ControlMessage::Propose(Arc::new(command));
            world.turn(NodeId(90), |control, ctx| {
                let from = Address { actor: ActorKind::Client, ..ctx.me() };
                control.handle(ctx, from, Message::Control(Box::new(order)));
            });
            world.run(500);
        };
        let (by, fingerprint) = ("somebody".to_owned(), "f".to_owned());
        let (what, restarts) = (Vec::new(), Vec::new());
        let revision = Revision { version: 1, at: 0, by, fingerprint, what, restarts };
        let configure = Command::Configure { text: "[ndbd]".into(), revision };
        let finalize = Command::Finalize { protocol: wire::PROTOCOL_VERSION };
        for node in &nodes {
            propose(&mut world, finalize.clone());
            let finalized = world.state().finalized();
            assert!(finalized < wire::PROTOCOL_VERSION, "seed {seed}: {node:?} is older");
            world.older.remove(node);
            restart(&mut world, node.0);
        }
        propose(&mut world, configure.clone());
        assert_eq!(world.state().configured, None, "seed {seed}: an older one may come back");
        world.older.insert(NodeId(2));
        restart(&mut world, 2);
        world.older.clear();
        restart(&mut world, 2);
        // The older life is waited for no more.
        world.run(12_000);
        propose(&mut world, finalize.clone());
        assert_eq!(world.state().finalized(), wire::PROTOCOL_VERSION, "seed {seed}");
        propose(&mut world, configure);
        assert!(world.state().configured.is_some(), "seed {seed}");
    }
}
