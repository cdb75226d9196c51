//! Replica copies: under writes, over the death of their source, after a rejoin.

use std::collections::BTreeMap;

use wire::{ControlMessage, KnownOutcome};

use super::*;

impl World {
    fn synced(&mut self) -> bool {
        self.take_others().iter().any(|message| {
            let Message::Control(message) = message else { return false };
            matches!(**message, ControlMessage::WorkerSynced { .. })
        })
    }
}

fn slow_copies(config: &mut Config) {
    config.copy_batch_rows = 3;
    config.copy_window = 2;
    config.scan_step_rows = 5;
}

/// Writers that go on while messages are carried in any order.
struct Writers {
    prng: Prng,
    count: u32,
    /// Open transactions: their chain, their last operation.
    open: BTreeMap<u32, (Chain, u64)>,
    /// Decided ones: their live chain, whether `Complete` is sent.
    committing: BTreeMap<u32, (Chain, bool)>,
    /// Aborted ones: their live chain.
    aborting: BTreeMap<u32, Chain>,
}

/// What is left of a chain.
fn living(world: &World, chain: &[Address]) -> Chain {
    let alive = |address: &&Address| world.cluster.members.contains_key(&address.node);
    chain.iter().filter(alive).copied().collect()
}

impl Writers {
    fn new(seed: u64) -> Self {
        Self {
            prng: Prng::new(seed),
            count: 100,
            open: BTreeMap::new(),
            committing: BTreeMap::new(),
            aborting: BTreeMap::new(),
        }
    }

    fn random_kind(&mut self) -> OperationKind {
        let id = self.prng.below(30) as i64;
        match self.prng.below(4) {
            0 => insert(id, self.count as i64),
            1 => upsert(id, self.count as i64),
            2 => add(id, 1),
            _ => delete(id),
        }
    }

    fn step(&mut self, world: &mut World) {
        if self.open.len() < 5 && self.prng.percent(20) {
            self.count += 1;
            let operations = self.prng.between(1, 4);
            let chain = world.chain();
            let all = (1..=operations).map(|n| operation(n, self.random_kind())).collect();
            world.prepare_with(txn(self.count), chain, all);
            self.open.insert(self.count, (chain, operations));
        }
        let open: Vec<u32> = self.open.keys().copied().collect();
        for number in open {
            if self.prng.percent(15) {
                self.end(world, number, false);
            }
        }
        self.follow(world);
    }

    /// Commits or aborts a transaction that is answered; aborts it in any case when it must end.
    fn end(&mut self, world: &mut World, number: u32, must: bool) {
        let (chain, operations) = self.open[&number];
        let answered = (1..=operations).all(|n| world.answered(txn(number), n));
        let alive = chain.iter().all(|a| world.cluster.members.contains_key(&a.node));
        let live = living(world, &chain);
        if answered && alive && self.prng.percent(80) {
            world.order_commit(txn(number), &live, true);
            self.committing.insert(number, (live, false));
        } else if answered || must || !alive {
            world.order_abort(txn(number), &live);
            self.aborting.insert(number, live);
        } else {
            return;
        }
        self.open.remove(&number);
    }

    /// Completes what all primaries have applied.
    fn follow(&mut self, world: &mut World) {
        for (number, (chain, completed)) in &mut self.committing {
            let applied = world.others.iter().any(|(_, message)| {
                matches!(message, Message::Coordinator(CoordinatorMessage::Committed {
                    transaction, ..
                }) if *transaction == txn(*number))
            });
            if applied && !*completed {
                *completed = true;
                world.order_complete(txn(*number), chain);
            }
        }
    }

    /// A replica has died: what it had to do with is aborted, or committed again without it.
    fn replica_died(&mut self, world: &mut World) {
        let open: Vec<u32> = self.open.keys().copied().collect();
        for number in open {
            let members = &world.cluster.members;
            if self.open[&number].0.iter().any(|a| !members.contains_key(&a.node)) {
                self.end(world, number, true);
            }
        }
        for (number, chain) in &mut self.aborting {
            *chain = living(world, chain);
            world.order_abort(txn(*number), chain);
        }
        for (number, (chain, completed)) in &mut self.committing {
            *chain = living(world, chain);
            if !*completed {
                world.order_commit(txn(*number), chain, true);
            }
        }
    }

    fn finish(&mut self, world: &mut World) {
        let open: Vec<u32> = self.open.keys().copied().collect();
        for number in open {
            self.end(world, number, true);
        }
        self.follow(world);
        while world.carry_any() {
            self.follow(world);
        }
    }
}

#[test]
fn a_copy_under_writes_converges() {
    for seed in 0..60 {
        let mut world = World::with(2, slow_copies);
        world.prng = Prng::new(seed);
        world.start(3, 1, (*world.nodes[&1].shared.config).clone());
        world.write(txn(1), (0..20).map(|id| insert(id, id)).collect());
        let mut writers = Writers::new(seed);
        for step in 0..400 {
            writers.step(&mut world);
            for _ in 0..writers.prng.below(6) {
                world.carry_any();
            }
            if step == 60 {
                world.sync(3);
            }
            if step % 40 == 0 {
                world.next_epoch(&[]);
            }
        }
        writers.finish(&mut world);
        assert!(world.synced(), "seed {seed}: the copy ends");
        world.check_quiet();
        world.activate(3);
        world.write(txn(2), vec![upsert(99, 1)]);
        world.check_quiet();
    }
}

#[test]
fn copies_to_several_nodes_at_once_converge() {
    for seed in 0..60 {
        let mut world = World::with(2, slow_copies);
        world.prng = Prng::new(seed);
        let config = (*world.nodes[&1].shared.config).clone();
        world.start(3, 1, config.clone());
        world.start(4, 1, config);
        world.write(txn(1), (0..20).map(|id| insert(id, id)).collect());
        let mut writers = Writers::new(seed);
        for step in 0..300 {
            writers.step(&mut world);
            for _ in 0..writers.prng.below(6) {
                world.carry_any();
            }
            match step {
                60 => world.sync(4),
                63 => world.sync(3),
                _ if step % 100 == 0 => world.next_epoch(&[]),
                _ => {}
            }
        }
        writers.finish(&mut world);
        assert!(world.synced(), "seed {seed}: the copies end");
        world.activate(3);
        world.activate(4);
        world.write(txn(2), vec![upsert(99, 1)]);
        world.check_quiet();
    }
}

/// Two nodes are being copied. The one behind the other hears of changes of rows, and of new ones,
/// before the rows that were copied before come in. Whether the replicas are equal in the end.
fn changes_overtake_a_copy(mutation: Mutation) -> bool {
    let mut world = World::new(2);
    let config = (*world.nodes[&1].shared.config).clone();
    world.start(3, 1, config.clone());
    world.start(4, 1, config);
    world.mutate(mutation);
    world.write(txn(1), (0..8).map(|id| insert(id, id)).collect());
    world.sync(4);
    world.sync(3);
    assert!(world.carry((participant(4), participant(1))), "it asks for rows");
    let copied = (participant(1), participant(4));
    let held = world.links.remove(&copied).expect("rows on their way");
    // All in the epoch of the first transaction.
    world.write(txn(2), vec![add(1, 100), delete(2), insert(20, 0)]);
    world.write(txn(3), vec![insert(21, 0), insert(22, 0), insert(23, 0)]);
    assert!(!world.links.contains_key(&copied), "the copy had been read to its end");
    world.links.insert(copied, held);
    world.run();
    assert!(world.synced());
    world.activate(3);
    world.activate(4);
    world.write(txn(4), vec![insert(24, 0)]);
    let expected = [0, 1, 3, 4, 5, 6, 7, 20, 21, 22, 23, 24];
    !world.replicas_differ() && world.rows(4).iter().map(|(id, _)| *id).eq(expected)
}

#[test]
fn what_overtakes_a_copy_stays() {
    assert!(changes_overtake_a_copy(Mutation::None));
    assert!(!changes_overtake_a_copy(Mutation::CopiesUndoChanges));
}

#[test]
fn replicas_stay_equal_while_others_die_and_join() {
    for seed in 0..100 {
        let mut world = World::with(4, slow_copies);
        world.prng = Prng::new(seed);
        world.write(txn(1), (0..20).map(|id| insert(id, id)).collect());
        let mut writers = Writers::new(seed);
        let victims = if seed % 2 == 0 { [1, 2] } else { [2, 1] };
        for step in 0..500 {
            writers.step(&mut world);
            for _ in 0..writers.prng.below(6) {
                world.carry_any();
            }
            match step {
                100 | 320 => {
                    world.kill(victims[usize::from(step == 320)]);
                    writers.replica_died(&mut world);
                }
                200 => {
                    let config = (*world.nodes[&4].shared.config).clone();
                    world.start(victims[0], 2, config);
                    world.sync(victims[0]);
                }
                _ => {}
            }
        }
        writers.finish(&mut world);
        assert!(world.synced(), "seed {seed}: the copy ends");
        world.activate(victims[0]);
        world.write(txn(2), vec![upsert(99, 1)]);
        world.check_quiet();
    }
}

#[test]
fn a_copy_goes_on_from_the_next_primary() {
    for seed in 0..40 {
        let mut world = World::with(3, slow_copies);
        world.prng = Prng::new(seed);
        world.start(4, 1, (*world.nodes[&1].shared.config).clone());
        world.write(txn(1), (0..25).map(|id| insert(id, id)).collect());
        world.sync(4);
        for _ in 0..world.prng.below(12) {
            world.carry_any();
        }
        world.kill(1);
        world.run();
        assert!(world.synced(), "seed {seed}: the copy ends");
        world.activate(4);
        world.write(txn(2), vec![delete(3), insert(40, 1)]);
        world.check_quiet();
    }
}

#[test]
fn a_copy_waits_for_transactions_of_the_old_chain() {
    let mut world = World::new(2);
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.execute(txn(2), vec![add(1, 1), insert(3, 30), delete(2)]);
    let old_chain = world.chain();
    world.sync(3);
    world.run();
    assert!(!world.synced());
    world.order_commit(txn(2), &old_chain, false);
    world.run();
    assert!(world.synced());
    world.order_complete(txn(2), &old_chain[1..]);
    world.run();
    assert_eq!(world.rows(3), [(1, 11), (3, 30)]);
    world.take_others();
    let probe = ParticipantMessage::OutcomeProbe { transaction: txn(2), probe: 1 };
    world.tell(coordinator(1), participant(3), Message::Participant(probe));
    world.run();
    let outcome = KnownOutcome::Committed(world.epoch);
    assert!(
        matches!(
            world.take_others()[..],
            [Message::Coordinator(CoordinatorMessage::OutcomeReport { outcome: known, .. })]
                if known == outcome
        ),
        "who has the rows knows the outcome"
    );
    world.activate(3);
    world.run();
    world.check_quiet();
}

#[test]
fn a_rejoining_node_is_sent_what_has_changed() {
    for seed in 0..40 {
        let mut world = World::with(3, slow_copies);
        world.prng = Prng::new(seed);
        world.write(txn(1), (0..20).map(|id| insert(id, id)).collect());
        world.next_epoch(&[]);
        // The node has transactions open when it is cut off.
        world.execute(txn(2), vec![add(1, 1), insert(30, 1), delete(2)]);
        let chain = world.chain();
        let kept = world.nodes.remove(&2).unwrap();
        world.kill_kept(2);
        world.order_abort(txn(2), &[chain[0], chain[2]]);
        world.run();
        world.next_epoch(&[]);
        world.write(txn(3), vec![delete(5), insert(31, 5), add(6, 1)]);
        world.write(txn(4), vec![insert(5, 55), delete(7), insert(32, 7)]);
        world.come_back(2, kept);
        // A state without it must not make it drop its rows.
        world.change(|_| {});
        assert_eq!(world.nodes[&2].participant.partitions().count(), 1);
        world.sync(2);
        let mut writers = Writers::new(seed);
        for _ in 0..100 {
            writers.step(&mut world);
            world.carry_any();
        }
        writers.finish(&mut world);
        assert!(world.synced(), "seed {seed}: the copy ends");
        world.activate(2);
        world.write(txn(5), vec![upsert(33, 1)]);
        world.check_quiet();
    }
}

impl World {
    /// The others remove a node that is kept aside.
    fn kill_kept(&mut self, node: u16) {
        self.kill(node);
    }
}

#[test]
fn a_worker_without_partitions_is_synced_at_once() {
    let mut world = World::new(2);
    world.change(|state| state.tables = Default::default());
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.take_others();
    world.sync(3);
    assert!(world.synced());
    // A table that is made meanwhile is copied too.
    world.change(|state| {
        state.tables.insert(P.table, Arc::new(table()));
    });
    assert!(!world.synced());
    world.run();
    assert!(world.synced());
    world.activate(3);
    world.write(txn(1), vec![insert(1, 1)]);
    world.check_quiet();
}

#[test]
fn a_table_made_during_a_copy_is_asked_for_alone() {
    for seed in 0..20 {
        let mut world = World::with(2, slow_copies);
        world.prng = Prng::new(seed);
        let another = |more: u32| {
            let id = TableId(P.table.0 + more);
            (id, Arc::new(Table { id, name: format!("d.t{more}"), ..table() }))
        };
        world.change(|state| {
            for (id, table) in (1..40).map(another) {
                state.tables.insert(id, table);
            }
        });
        world.write(txn(1), (0..25).map(|id| insert(id, id)).collect());
        world.start(3, 1, (*world.nodes[&1].shared.config).clone());
        world.sync(3);
        let asked = |world: &World| {
            let sent = world.links.get(&(participant(3), participant(1)));
            let is_request = |message: &&Message| {
                let Message::Participant(message) = message else { return false };
                matches!(message, ParticipantMessage::CopyRequest { .. })
            };
            sent.map_or(0, |sent| sent.iter().filter(is_request).count())
        };
        assert_eq!(asked(&world), 40);
        for _ in 0..world.prng.below(30) {
            world.carry_any();
        }
        let before = asked(&world);
        world.change(|state| {
            let (id, table) = another(40);
            state.tables.insert(id, table);
        });
        assert_eq!(asked(&world), before + 1, "seed {seed}: nobody is asked twice");
        // One that is dropped is not waited for, whether its rows have come or not.
        let gone = 1 + world.prng.below(40) as u32;
        world.change(|state| drop(state.tables.remove(&another(gone).0)));
        assert_eq!(asked(&world), before + 1);
        world.take_others();
        world.run();
        assert!(world.synced(), "seed {seed}: the copies end");
        world.activate(3);
        world.write(txn(2), vec![delete(3), insert(40, 1)]);
        world.check_quiet();
    }
}

#[test]
fn a_copy_ends_after_the_transactions_of_older_chains() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.kill(2);
    // Applied, and kept: other legs of it may still be undecided where they are.
    let older = world.chain();
    world.execute(txn(2), vec![add(1, 1)]);
    world.order_commit(txn(2), &older, true);
    world.run();
    let config = (*world.nodes[&1].shared.config).clone();
    world.start(2, 2, config);
    world.sync(2);
    world.run();
    assert!(!world.synced(), "the new replica would know the change, and not who made it");
    // A transaction of the new chain is not waited for.
    world.execute(txn(3), vec![add(2, 1)]);
    world.order_complete(txn(2), &older);
    world.run();
    assert!(world.synced());
    world.activate(2);
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 11), (2, 21)]);
    world.check_quiet();
}

#[test]
fn a_copy_tells_no_outcome_that_may_be_reversed() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.kill(2);
    // The backup has noted the commit, and is the last to have heard of it.
    let older = world.chain();
    world.execute(txn(2), vec![add(1, 1)]);
    world.order_commit(txn(2), &older, false);
    let coordinator = world.coordinator();
    assert!(world.carry((coordinator, older[1])), "the commit reaches the backup");
    world.links.clear();
    // It becomes primary, and copies.
    world.kill(1);
    let config = (*world.nodes[&3].shared.config).clone();
    world.start(2, 2, config);
    world.sync(2);
    world.run();
    assert!(!world.synced());
    assert_eq!(outcome_at(&mut world, 2, txn(2)), KnownOutcome::Unknown);
    world.order_commit(txn(2), &[older[1]], false);
    world.run();
    assert!(world.synced());
    assert!(matches!(outcome_at(&mut world, 2, txn(2)), KnownOutcome::Committed(_)));
}

/// What a node says when it is asked how a transaction ended.
fn outcome_at(world: &mut World, node: u16, transaction: TransactionId) -> KnownOutcome {
    let probe = ParticipantMessage::OutcomeProbe { transaction, probe: 1 };
    let from = world.coordinator();
    let to = Address { node: NodeId(node), ..from };
    let to = Address { actor: ActorKind::Participant, ..to };
    world.tell(from, to, Message::Participant(probe));
    world.run();
    let told = world.take_others().into_iter().rev().find_map(|message| match message {
        Message::Coordinator(CoordinatorMessage::OutcomeReport { outcome, .. }) => Some(outcome),
        _ => None,
    });
    told.expect("it answers")
}
