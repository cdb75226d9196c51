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
    assert_eq!(world.answer(txn(3), 1), Ok(OperationOutcome::Written { existed: true }));
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
