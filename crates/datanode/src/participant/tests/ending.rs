//! Legs that end in steps.

use super::*;

/// A world in which each row is a step of its own.
fn in_steps(count: u16) -> World {
    let mut world = World::with(count, |config| config.apply_step_bytes = 1);
    world.write(txn(1), (1..=5).map(|id| insert(id, 10)).collect());
    world.take_others();
    world
}

/// Runs an operation at the primary, and has the backup stage it, before anything else happens.
fn replicate_at_once(world: &mut World, transaction: TransactionId, kind: OperationKind) {
    world.prepare(transaction, vec![operation(1, kind)]);
    assert!(world.carry((world.coordinator(), participant(1))));
    assert!(world.carry((participant(1), participant(2))));
}

#[test]
fn a_later_leg_gets_its_row_before_the_others_are_applied() {
    let mut world = in_steps(2);
    world.execute(txn(2), (1..=5).map(|id| add(id, 1)).collect());
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    world.run();
    assert_eq!(world.rows(2), (1..=5).map(|id| (id, 10)).collect::<Vec<_>>());
    replicate_at_once(&mut world, txn(3), add(3, 100));
    assert_eq!(world.rows(2), [(1, 10), (2, 10), (3, 11), (4, 10), (5, 10)]);
    assert!(world.nodes[&2].participant.in_doubt(P, model::RowId(0)), "others wait for the rest");
    world.run();
    assert_eq!(world.answer(txn(3), 1), Ok(OperationOutcome::Written(Effect::Changed)));
    assert_eq!(world.rows(2), (1..=5).map(|id| (id, 11)).collect::<Vec<_>>());
    world.order_complete(txn(2), &chain[1..]);
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 11), (2, 11), (3, 111), (4, 11), (5, 11)]);
    world.check_quiet();
}

#[test]
fn a_slot_that_was_emptied_goes_to_a_later_leg_with_another_key() {
    let mut world = in_steps(2);
    world.execute(txn(2), (1..=5).map(delete).collect());
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    world.run();
    assert_eq!(world.rows(1), []);
    for (number, id) in (3..).zip(11..=15) {
        replicate_at_once(&mut world, txn(number), insert(id, 1));
        if number % 2 == 0 {
            world.abort(txn(number));
        } else {
            world.commit(txn(number));
        }
    }
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    assert_eq!(world.rows(2), [(11, 1), (13, 1), (15, 1)]);
    world.check_quiet();
}

#[test]
fn a_later_leg_gets_its_row_before_the_others_are_given_back() {
    let mut world = in_steps(2);
    let mut changes: Vec<OperationKind> = (1..=5).map(|id| add(id, 1)).collect();
    changes.push(insert(6, 60));
    world.execute(txn(2), changes);
    let chain = world.chain();
    // The primary hears of the abort, and the backup later by another link.
    world.order_abort(txn(2), &chain[..1]);
    world.run();
    replicate_at_once(&mut world, txn(3), add(3, 100));
    replicate_at_once(&mut world, txn(4), insert(6, 61));
    world.order_abort(txn(2), &chain[1..]);
    world.run();
    assert_eq!(world.rows(2), (1..=5).map(|id| (id, 10)).collect::<Vec<_>>());
    world.commit(txn(3));
    world.commit(txn(4));
    assert_eq!(world.rows(2), [(1, 10), (2, 10), (3, 110), (4, 10), (5, 10), (6, 61)]);
    world.check_quiet();
}

#[test]
fn a_leg_that_is_being_given_back_is_committed_by_nobody() {
    let mut world = in_steps(2);
    let poor = Config { data_memory: 0, ..(*world.nodes[&2].shared.config).clone() };
    world.nodes.get_mut(&2).unwrap().shared.config = Arc::new(poor);
    world.prepare_and_commit(txn(2), (11..=15).map(|id| insert(id, 1)).collect());
    world.run();
    let refused = world.take_others();
    assert!(matches!(
        refused[..],
        [Message::Coordinator(CoordinatorMessage::PrepareRefused { .. })]
    ));
    let chain = world.chain();
    world.order_abort(txn(2), &chain[..1]);
    assert!(world.carry((world.coordinator(), participant(1))));
    // Its coordinator dies with the backup, between two steps.
    world.kill(2);
    world.coordinator = coordinator(1);
    let query = ParticipantMessage::TakeoverQuery {
        node: NodeId(2),
        incarnation: Incarnation(1),
        attempt: 1,
    };
    world.tell(world.coordinator(), participant(1), Message::Participant(query));
    assert!(world.carry((world.coordinator(), participant(1))));
    let report = world.take_others();
    let [Message::Coordinator(CoordinatorMessage::TakeoverReport { transactions, .. })] =
        &report[..]
    else {
        panic!("a report, not {report:?}");
    };
    assert_eq!(transactions[0].legs[0].status, wire::ReportedLegStatus::Open);
    world.ask_staged(txn(2));
    assert!(world.carry((world.coordinator(), participant(1))));
    assert_eq!(world.heard(), ["NotStaged"]);
    world.abort(txn(2));
    assert_eq!(world.rows(1), (1..=5).map(|id| (id, 10)).collect::<Vec<_>>());
    world.check_quiet();
}

/// How often this was reached at a node.
fn probed(world: &World, node: u16, name: &str) -> u64 {
    let counts = world.nodes[&node].shared.probes.counts();
    counts.filter(|(probe, _)| *probe == name).map(|(_, count)| count).sum()
}

/// Lets a participant do its next step.
fn step(world: &mut World, node: u16) -> bool {
    world.carry((participant(node), participant(node)))
}

/// Has the primary begin to roll a transaction of five operations back to the second.
fn begin_roll_back(world: &mut World) {
    world.execute(txn(2), (1..=5).map(|id| add(id, 1)).collect());
    world.take_others();
    world.order_rollback(txn(2), RollbackScope::After(OperationNumber(2)));
    assert!(world.carry((world.coordinator(), participant(1))));
    assert!(world.take_others().is_empty(), "it is under way");
}

#[test]
fn a_rollback_lets_others_have_turns_and_ends_when_all_replicas_are_through() {
    let mut world = in_steps(2);
    begin_roll_back(&mut world);
    // Somebody else has a turn.
    world.prepare(txn(3), vec![operation(1, insert(9, 90))]);
    assert!(world.carry((world.coordinator(), participant(1))));
    assert!(step(&mut world, 1) && step(&mut world, 1) && !step(&mut world, 1));
    world.run();
    assert_eq!(world.heard(), ["Prepared", "RolledBack"]);
    for node in [1, 2] {
        assert_eq!(probed(&world, node, "participant: large leg is rolled back in steps"), 2);
    }
    world.prepare(txn(2), vec![operation(9, add(4, 100))]);
    world.run();
    world.commit(txn(2));
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 11), (2, 11), (3, 10), (4, 110), (5, 10), (9, 90)]);
    world.check_quiet();
}

#[test]
fn an_abort_ends_a_rollback_that_is_under_way() {
    // As a whole, and in steps.
    for step_bytes in [100_000, 1] {
        let mut world = in_steps(2);
        begin_roll_back(&mut world);
        for node in world.nodes.values_mut() {
            let config = &node.shared.config;
            node.shared.config =
                Arc::new(Config { apply_step_bytes: step_bytes, ..(**config).clone() });
        }
        world.abort(txn(2));
        assert_eq!(world.heard(), ["Aborted", "Aborted"]);
        assert_eq!(world.rows(2), (1..=5).map(|id| (id, 10)).collect::<Vec<_>>());
        world.check_quiet();
    }
}

#[test]
fn a_later_leg_gets_its_row_while_a_backup_rolls_back() {
    let mut world = in_steps(2);
    begin_roll_back(&mut world);
    while step(&mut world, 1) {}
    assert!(world.carry((participant(1), participant(2))));
    // The abort comes to the primary, and to the backup later by another link.
    let chain = world.chain();
    world.order_abort(txn(2), &chain[..1]);
    assert!(world.carry((world.coordinator(), participant(1))));
    while step(&mut world, 1) {}
    replicate_at_once(&mut world, txn(3), add(1, 100));
    world.order_abort(txn(2), &chain[1..]);
    world.run();
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 110), (2, 10), (3, 10), (4, 10), (5, 10)]);
    world.check_quiet();
}

#[test]
fn many_locks_without_changes_are_released_in_steps() {
    let mut world = in_steps(2);
    let lock = |id| read(id, LockMode::Exclusive, WaitPolicy::Wait);
    world.execute(txn(2), (1..=5).map(lock).collect());
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.prepare(txn(4), vec![operation(1, add(5, 1))]);
    world.run();
    assert!(!world.answered(txn(3), 1) && !world.answered(txn(4), 1));
    let chain = world.chain();
    world.order_abort(txn(2), &chain[..1]);
    assert!(world.carry((world.coordinator(), participant(1))));
    let mut left = vec![world.nodes[&1].participant.locked_rows()];
    while step(&mut world, 1) {
        left.push(world.nodes[&1].participant.locked_rows());
    }
    // Two of the rows go to those who have waited, before the others are released.
    assert_eq!(left, [5, 5, 4, 3, 2, 2]);
    world.run();
    world.commit(txn(3));
    world.commit(txn(4));
    assert_eq!(world.rows(2), [(1, 11), (2, 10), (3, 10), (4, 10), (5, 11)]);
    world.check_quiet();
}

#[test]
fn locks_of_a_scan_are_released_in_steps() {
    let mut world = in_steps(1);
    let scan = scans::heap(1);
    let scan = wire::ScanRequest { lock: LockMode::Shared, ..world.inside(txn(2), 0, scan) };
    let message = Message::Scan(wire::ScanMessage::Open(Box::new(scan)));
    world.tell(world.coordinator(), participant(1), message);
    world.run();
    assert_eq!(world.nodes[&1].participant.locked_rows(), 5);
    world.abort(txn(2));
    let released = probed(&world, 1, "participant: large leg is given back in steps");
    assert_eq!((released, world.nodes[&1].participant.locked_rows()), (1, 0));
    world.check_quiet();
}

#[test]
fn a_life_that_begins_between_two_steps_ends_legs_in_steps_too() {
    let mut world = in_steps(3);
    world.execute(txn(2), (1..=5).map(|id| add(id, 1)).collect());
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    assert!(world.carry((world.coordinator(), participant(2))));
    let kept = world.nodes.remove(&2).unwrap();
    world.kill(2);
    world.run();
    world.next_epoch(&[]);
    // The note that there is more to do has gone with its life.
    world.come_back(2, kept);
    world.change(|_| {});
    world.sync(2);
    world.run();
    world.activate(2);
    world.write(txn(3), (1..=5).map(|id| add(id, 1)).collect());
    assert_eq!(world.rows(2), (1..=5).map(|id| (id, 12)).collect::<Vec<_>>());
    world.check_quiet();
}
