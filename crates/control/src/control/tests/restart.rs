//! Clusters whose nodes have disks: votes are kept, nodes come back, and all of them at once.

use model::{ClusterId, Epoch};
use wire::{News, NewsKind};

use super::*;

/// A started cluster of nodes with disks, on which everything up to `saved` is, by node from 1 on.
fn durable(seed: u64, data: u16, replicas: u8, saved: &[u64]) -> World {
    let mut world = World::with_config(seed, config(data, replicas), 0);
    world.await_active();
    let id = world.state().id;
    for (node, epoch) in (1..).zip(saved) {
        world.rows.insert(NodeId(node), (id, Epoch(*epoch)));
    }
    world
}

fn config(data: u16, replicas: u8) -> Config {
    let mut config = Config::new((1..=data).map(NodeId).collect(), vec![NodeId(90)], replicas);
    config.heartbeat_interval = Duration::from_millis(40);
    config.lease = Duration::from_millis(400);
    config.election_timeout = Duration::from_millis(150);
    config.lock_timeout = Duration::from_millis(200);
    config.start_partial_timeout = Duration::from_millis(3_000);
    config.disk = true;
    config
}

fn power_loss(world: &mut World) {
    for node in world.nodes() {
        world.vanish(node.0);
    }
    world.run(300);
}

fn boot(world: &mut World, nodes: &[u16]) {
    for node in nodes {
        world.boot(NodeId(*node));
    }
}

#[test]
fn a_cluster_goes_on_from_the_newest_epoch_that_every_group_has() {
    for seed in 0..20 {
        let mut world = durable(seed, 4, 2, &[100, 90, 120, 130]);
        let before = world.state();
        power_loss(&mut world);
        boot(&mut world, &[1, 2, 3, 4, 90]);
        world.await_active();
        let after = world.state();
        assert_eq!(after.id, before.id);
        assert_eq!(after.restarts, [Epoch(100)]);
        assert_eq!(world.voters(), [1, 2, 3, 4, 90]);
        assert!(world.halts.is_empty(), "{:?}", world.halts);
        // The one that lags reads back what it has, and is sent the rest.
        let through = |node| world.restored[&NodeId(node)];
        assert_eq!([1, 2, 3, 4].map(through), [100, 90, 100, 100].map(Epoch));
        // Epochs of the generation that ended do not come again.
        assert!(after.epoch_floor() > Epoch(130));
    }
}

/// What operators were told by the nodes themselves.
fn told(world: &World, kind: NewsKind) -> Vec<Epoch> {
    let own = world.news.iter().filter(|(node, about, _)| node == about);
    own.filter(|(_, _, news)| news.kind == kind).map(|(_, _, news)| news.epoch).collect()
}

fn order_loss(world: &mut World, restarts: u32, epoch: u64) {
    let order = ControlMessage::AcceptLoss { restarts, epoch: Epoch(epoch) };
    let order = Message::Control(Box::new(order));
    world.turn(NodeId(90), |control, ctx| control.handle(ctx, control_of(NodeId(90)), order));
}

#[test]
fn what_was_durable_is_given_up_only_by_order() {
    for seed in 0..20 {
        let mut world = durable(seed, 4, 2, &[100, 90, 120, 130]);
        let id = world.state().id;
        // Another node than those that have lost something knows of it, or the management node.
        let witness = NodeId(*world.prng.pick(&[1, 3, 4]));
        world.watermarks.insert(witness, (id, Epoch(110)));
        power_loss(&mut world);
        boot(&mut world, &[1, 2, 3, 4, 90]);
        world.run(8_000);
        assert!(world.state().restarts.is_empty());
        let refused = told(&world, NewsKind::LossRefused);
        assert!(!refused.is_empty() && refused.iter().all(|epoch| *epoch == Epoch(100)));
        let heard = |(node, _, news): &(NodeId, NodeId, News)| {
            *node == NodeId(90) && news.kind == NewsKind::LossRefused
        };
        assert!(world.news.iter().any(heard), "the management node has heard of it");
        // An order for another restart, or for a newer epoch, changes nothing.
        order_loss(&mut world, 1, 100);
        order_loss(&mut world, 0, 101);
        world.run(1_000);
        assert!(world.state().restarts.is_empty());
        order_loss(&mut world, 0, 100);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(100)]);
        assert_eq!(
            [1, 2, 3, 4].map(|n| world.restored[&NodeId(n)]),
            [100, 90, 100, 100].map(Epoch)
        );
        // The witness is not asked again for what was given up.
        power_loss(&mut world);
        boot(&mut world, &[1, 2, 3, 4, 90]);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(100), Epoch(100)]);
    }
}

#[test]
fn one_whole_replica_of_each_group_is_enough() {
    for seed in 0..20 {
        let mut world = durable(seed, 4, 2, &[50, 100, 110, 0]);
        let id = world.state().id;
        for node in [1, 2, 3, 4] {
            world.watermarks.insert(NodeId(node), (id, Epoch(100)));
        }
        power_loss(&mut world);
        boot(&mut world, &[1, 2, 3, 4, 90]);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(100)]);
        assert!(told(&world, NewsKind::LossRefused).is_empty());
    }
}

#[test]
fn a_node_group_without_any_rows_stops_the_restart() {
    for seed in 0..10 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        power_loss(&mut world);
        world.rows.clear();
        boot(&mut world, &[1, 2, 90]);
        world.run(8_000);
        assert!(world.state().restarts.is_empty());
        assert_eq!(told(&world, NewsKind::LossRefused).first(), Some(&Epoch(0)));
        order_loss(&mut world, 0, 0);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(0)]);
    }
}

#[test]
fn no_cluster_is_founded_over_rows_of_another_one() {
    for seed in 0..10 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        power_loss(&mut world);
        world.disks.clear();
        boot(&mut world, &[1, 2, 90]);
        world.run(8_000);
        assert!(!world.state().started);
        assert!(!told(&world, NewsKind::LossRefused).is_empty());
    }
}

#[test]
fn it_goes_on_without_a_member_that_does_not_come_back() {
    for seed in 0..20 {
        let mut world = durable(seed, 2, 2, &[100, 110]);
        power_loss(&mut world);
        boot(&mut world, &[1, 90]);
        world.run(2_000);
        assert!(world.state().restarts.is_empty(), "it waits for the other one for a while");
        world.run_until(20_000, "serves alone", |world| {
            world.state().started && world.state().restarts == [Epoch(100)] && world.has_lease(1)
        });
        // What the other one has more than that is of a time that was lost.
        boot(&mut world, &[2]);
        world.await_active();
        assert_eq!(world.restored[&NodeId(2)], Epoch(100));
    }
}

#[test]
fn who_was_gone_before_the_end_cannot_restart_the_cluster() {
    for seed in 0..20 {
        let mut world = durable(seed, 2, 2, &[50, 100]);
        world.crash(1);
        world.run_until(10_000, "goes on alone", |world| world.voters() == [2]);
        power_loss(&mut world);
        boot(&mut world, &[1, 90]);
        world.run(20_000);
        assert!(world.state().restarts.is_empty(), "it lacks what was committed without it");
        boot(&mut world, &[2]);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(100)]);
        assert_eq!(world.restored[&NodeId(1)], Epoch(50));
    }
}

#[test]
fn data_nodes_that_all_end_come_back_to_a_management_node_that_lives() {
    for seed in 0..20 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        world.crash(1);
        world.crash(2);
        world.run(300);
        boot(&mut world, &[1, 2]);
        world.await_active();
        assert_eq!(world.state().restarts, [Epoch(100)]);
        assert!(world.halts.is_empty(), "{:?}", world.halts);
    }
}

#[test]
fn a_node_comes_back_to_a_cluster_that_lives_as_the_same_voter() {
    for seed in 0..20 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        world.crash(2);
        world.run(seed * 40);
        boot(&mut world, &[2]);
        world.await_active();
        assert!(world.state().restarts.is_empty(), "the other one had everything in memory");
        let member = world.state().members[&NodeId(2)].clone();
        assert_eq!((member.incarnation, member.voter), (Incarnation(2), Incarnation(1)));
        assert_eq!(world.restored[&NodeId(2)], Epoch(100));
        assert!(world.halts.is_empty(), "{:?}", world.halts);
    }
}

#[test]
fn a_cluster_of_one_node_restarts_again_and_again() {
    let mut world = World::with_config(1, Config { management_nodes: vec![], ..config(1, 1) }, 0);
    world.await_active();
    let id = world.state().id;
    for restart in 1..5 {
        let last = Epoch(world.state().epoch_floor().0 + 7);
        world.rows.insert(NodeId(1), (id, last));
        world.crash(1);
        boot(&mut world, &[1]);
        world.await_active();
        assert_eq!(world.state().restarts.len(), restart);
        assert_eq!(world.state().restarts.last(), Some(&last));
    }
}

#[test]
fn the_catalog_outlives_the_cluster() {
    let mut world = durable(3, 2, 2, &[5, 5]);
    change(&mut world, 1, 1, &create("kept")).unwrap();
    power_loss(&mut world);
    boot(&mut world, &[1, 2, 90]);
    world.await_active();
    assert!(world.state().table_names.contains_key("kept"));
}

#[test]
fn a_voter_with_a_damaged_log_votes_under_a_new_name() {
    for seed in 0..10 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        power_loss(&mut world);
        let disk = world.disks.get_mut(&NodeId(2)).unwrap();
        let file = disk.files.values_mut().next().unwrap();
        file[20] ^= 1;
        boot(&mut world, &[1, 2, 90]);
        world.await_active();
        let member = world.state().members[&NodeId(2)].clone();
        assert_eq!(member.voter, member.incarnation);
        assert_eq!(world.state().restarts, [Epoch(100)]);
    }
}

#[test]
fn a_full_disk_silences_a_voter_until_there_is_space() {
    let mut world = durable(5, 3, 3, &[1, 1, 1]);
    world.disks.get_mut(&NodeId(3)).unwrap().full = true;
    change(&mut world, 1, 1, &create("d")).unwrap();
    world.run(2_000);
    let behind = world.hosts[&NodeId(3)].control.state().clone();
    assert!(!behind.table_names.contains_key("d"), "it applies what its disk does not have");
    assert!(world.state().table_names.contains_key("d"));
    world.disks.get_mut(&NodeId(3)).unwrap().full = false;
    world.restart_after = Some(Duration::from_millis(30));
    world.await_active();
    world.run(500);
    assert!(world.hosts[&NodeId(3)].control.state().table_names.contains_key("d"));
}

#[test]
fn a_directory_of_another_cluster_is_refused_by_name() {
    let mut other = durable(7, 2, 2, &[1, 1]);
    let mut world = durable(8, 2, 2, &[1, 1]);
    world.crash(2);
    world.run(300);
    let disk = other.disks.remove(&NodeId(2)).unwrap();
    world.disks.insert(NodeId(2), disk);
    world.rows.insert(NodeId(2), (other.state().id, Epoch(1)));
    boot(&mut world, &[2]);
    world.run(2_000);
    let halt = world.halts.last().map(|(node, halt)| (*node, halt.clone()));
    assert!(matches!(halt, Some((NodeId(2), Halt::OtherCluster { .. }))), "{halt:?}");
    assert!(other.state().id != ClusterId(0));
}

#[test]
fn a_log_that_knows_no_cluster_keeps_its_node_out_of_none() {
    for seed in 0..10 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        world.crash(2);
        world.run(300);
        world.disks.remove(&NodeId(2));
        world.rows.remove(&NodeId(2));
        // It begins its log and ends before it has heard of the cluster.
        world.partition(&[2]);
        boot(&mut world, &[2]);
        world.run(300);
        assert!(!world.disks[&NodeId(2)].files.is_empty(), "it has begun no log");
        world.crash(2);
        world.heal();
        boot(&mut world, &[2]);
        world.await_active();
        assert!(world.halts.is_empty(), "{:?}", world.halts);
    }
}

#[test]
fn random_failures_and_losses_of_power_end_in_recovery() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed ^ 0xD15C);
        let groups = prng.between(1, 2) as u16;
        let replicas = prng.between(1, 3) as u16;
        let mut config = Config::new(
            (1..=groups * replicas).map(NodeId).collect(),
            (90..90 + prng.between(1, 2) as u16).map(NodeId).collect(),
            replicas as u8,
        );
        config.randomise(&mut prng);
        config.disk = true;
        config.start_partial_timeout = Duration::from_millis(prng.between(500, 20_000));
        let chance = if prng.percent(50) { 2_000 } else { 0 };
        let mut world = World::with_config(seed, config, chance);
        world.restart_after = Some(Duration::from_millis(prng.between(5, 400)));
        world.run(5_000);
        for round in 0..10 {
            let id = world.state().id;
            for node in world.config.data_nodes.clone() {
                let saved = Epoch(world.state().epoch_floor().0 + round);
                if id != ClusterId(0) && world.status(node.0) == Some(MemberStatus::Active) {
                    world.rows.insert(node, (id, saved));
                }
            }
            match prng.below(4) {
                0 => power_loss(&mut world),
                _ => strike(&mut world, &mut prng),
            }
            let millis = prng.between(10, 3_000);
            world.run(millis);
            if prng.percent(50) {
                world.heal();
            }
        }
        world.calm();
        world.heal();
        world.await_active();
        world.run(1_000);
        world.await_active();
    }
}

/// Makes a catalog of some hundred tables, a few changes before a new file of the log begins with
/// it; the changes so far.
fn with_many_tables(world: &mut World) -> u64 {
    for number in 1..=7 {
        let changes = (0..30).map(|at| create(&format!("t{number}_{at}"))).collect();
        let together = SchemaChange::Together { expected: vec![], changes };
        change(world, 1, number, &together).unwrap();
    }
    for number in 8..=80 {
        change(world, 1, number, &database(number)).unwrap();
    }
    80
}

fn database(number: u64) -> SchemaChange {
    let (name, description) = (format!("d{number}"), Default::default());
    SchemaChange::CreateDatabase { name, description }
}

#[test]
fn the_log_takes_entries_while_a_new_file_is_written() {
    let mut world = durable(1, 2, 2, &[100, 100]);
    let mut number = with_many_tables(&mut world);
    for node in [1, 2, 90] {
        world.disks.get_mut(&NodeId(node)).unwrap().longest = 0;
    }
    let files = |world: &World| {
        let files = world.disks.values().map(|disk| disk.files.keys().next_back().cloned());
        files.collect::<Vec<_>>()
    };
    let before = files(&world);
    let (mut meanwhile, mut drafting) = (0, 0);
    while files(&world) == before || meanwhile == 0 {
        number += 1;
        assert!(number < 300, "a new file is begun: {:?}", files(&world));
        let message =
            ControlMessage::Schema { session: client().1, number, change: database(number) };
        world.send(client().0, NodeId(1), message);
        for _ in 0..40 {
            world.run(1);
            let answered = world.inbox.drain(..).count();
            drafting += usize::from(world.hosts.values().any(|host| host.control.is_drafting()));
            meanwhile += answered * usize::from(world.hosts[&NodeId(1)].control.is_drafting());
        }
    }
    assert!(drafting > 3, "the state is written in pieces");
    for (node, disk) in &world.disks {
        assert!(disk.longest < 40_000, "{node}: a write of {} bytes", disk.longest);
    }
    world.run(300);
    let told = world.state();
    power_loss(&mut world);
    boot(&mut world, &[1, 2, 90]);
    world.await_active();
    let after = world.state();
    assert_eq!((&after.tables, &after.databases), (&told.tables, &told.databases));
    assert!(after.databases.contains_key(format!("d{number}").as_str()));
}

#[test]
fn a_power_loss_while_a_new_file_is_written_loses_nothing() {
    let mut drafting = 0;
    for seed in 0..12 {
        let mut world = durable(seed, 2, 2, &[100, 100]);
        let mut number = with_many_tables(&mut world);
        while !world.hosts.values().any(|host| host.control.is_drafting()) && number < 300 {
            number += 1;
            let change = database(number);
            let message = ControlMessage::Schema { session: client().1, number, change };
            world.send(client().0, NodeId(1), message);
            for _ in 0..30 {
                world.run(1);
                if world.hosts.values().any(|host| host.control.is_drafting()) {
                    break;
                }
            }
        }
        let pause = world.prng.below(30);
        world.run(pause);
        let is_drafting = |host: &world::Host| host.control.is_drafting();
        drafting += world.hosts.values().filter(|host| is_drafting(host)).count();
        // What one of them has applied was agreed by most, on their disks.
        let before = world.state();
        for node in world.nodes() {
            world.vanish(node.0);
        }
        boot(&mut world, &[1, 2, 90]);
        world.await_active();
        let after = world.state();
        assert_eq!(after.tables, before.tables, "seed {seed}");
        let lost = before.databases.keys().find(|name| !after.databases.contains_key(*name));
        assert_eq!(lost, None, "seed {seed}");
    }
    assert!(drafting > 4, "{drafting} files were being written");
}
