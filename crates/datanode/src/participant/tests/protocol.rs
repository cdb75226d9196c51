//! Prepare, commit, complete, abort, rollback, takeover.

use model::RowProjection;
use model::schema::KEY_SIZE_MAX;
use wire::{KnownOutcome, ReportedLegStatus};

use super::super::evaluate::{Projector, Projectors};
use super::*;

const WRITTEN: Answer = Ok(OperationOutcome::Written(Effect::Created));
const CHANGED: Answer = Ok(OperationOutcome::Written(Effect::Changed));

#[test]
fn a_commit_reaches_every_replica_of_the_chain() {
    let mut world = World::new(3);
    let answers = world.execute(txn(1), vec![insert(1, 10), insert(2, 20), add(1, 5)]);
    assert_eq!(answers, [WRITTEN, WRITTEN, CHANGED]);
    for node in 1..=3 {
        assert_eq!(world.nodes[&node].participant.open_transactions(), 1);
        assert_eq!(world.rows(node), []);
    }
    let chain = world.chain();
    world.order_commit(txn(1), &chain, false);
    world.run();
    assert_eq!(world.rows(1), [(1, 15), (2, 20)]);
    assert_eq!(world.rows(2), [], "backups wait for complete");
    world.order_complete(txn(1), &chain[1..]);
    world.run();
    assert_eq!(world.rows(3), [(1, 15), (2, 20)]);
    world.check_quiet();
}

#[test]
fn a_primary_keeps_its_record_while_other_legs_commit() {
    let mut world = World::new(2);
    world.execute(txn(1), vec![insert(1, 10)]);
    let chain = world.chain();
    world.order_commit(txn(1), &chain, true);
    world.run();
    assert_eq!(world.nodes[&1].participant.open_transactions(), 1);
    assert_eq!(world.rows(1), [(1, 10)]);
    // Told again, as after the death of a coordinator: nothing changes.
    world.order_commit(txn(1), &chain, true);
    world.run();
    world.order_complete(txn(1), &chain);
    world.run();
    world.check_quiet();
    world.order_complete(txn(1), &chain);
    world.order_commit(txn(1), &chain, false);
    world.order_abort(txn(9), &chain);
    world.take_others();
    world.run();
    let answers = world.take_others();
    assert_eq!(answers.len(), 5, "unknown legs are answered as done: {answers:?}");
}

#[test]
fn an_abort_leaves_nothing() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    let before = world.digests();
    world.execute(txn(2), vec![add(1, 1), delete(2), insert(3, 30)]);
    world.abort(txn(2));
    assert_eq!(world.digests(), before);
    world.check_quiet();
    world.write(txn(3), vec![insert(3, 31)]);
    assert_eq!(world.rows(3), [(1, 10), (2, 20), (3, 31)]);
    world.check_quiet();
}

#[test]
fn a_transaction_sees_its_own_changes() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    let plain = |id| read(id, LockMode::Committed, WaitPolicy::Wait);
    let answers =
        world.execute(txn(2), vec![add(1, 5), plain(1), delete(1), plain(1), insert(1, 7)]);
    assert_eq!(answers[1], Ok(OperationOutcome::Row(row(1, 15))));
    assert_eq!(answers[3], Err(ErrorCode::RowNotFound));
    assert_eq!(answers[4], WRITTEN);
    let others = world.execute(txn(3), vec![plain(1)]);
    assert_eq!(others, [Ok(OperationOutcome::Row(row(1, 10)))]);
    world.commit(txn(2));
    world.abort(txn(3));
    assert_eq!(world.rows(2), [(1, 7)]);
    world.check_quiet();
}

#[test]
fn insert_and_delete_in_one_transaction_leave_the_slot_as_it_was() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    let before = world.digests();
    world.next_epoch(&[]);
    world.write(txn(2), vec![insert(2, 1), delete(2), upsert(3, 1), add(3, 1), delete(3)]);
    assert_eq!(world.digests(), before);
    world.check_quiet();
    world.write(txn(3), vec![delete(1), insert(1, 11), delete(1)]);
    assert_eq!(world.rows(2), []);
    world.check_quiet();
    world.write(txn(4), vec![insert(4, 4), insert(5, 5)]);
    world.check_quiet();
}

#[test]
fn savepoints_undo_on_every_replica() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1), insert(2, 20), add(1, 1), delete(1), insert(3, 30)]);
    world.order_rollback(txn(2), RollbackScope::After(OperationNumber(2)));
    world.run();
    let rolled_back = |message: &Message| {
        matches!(
            message,
            Message::Coordinator(CoordinatorMessage::RolledBack { refused: false, .. })
        )
    };
    assert_eq!(world.take_others().iter().filter(|m| rolled_back(m)).count(), 1);
    world.prepare(txn(2), vec![operation(9, insert(3, 31))]);
    world.run();
    assert_eq!(world.answer(txn(2), 9), WRITTEN);
    world.commit(txn(2));
    assert_eq!(world.rows(3), [(1, 11), (2, 20), (3, 31)]);
    world.check_quiet();
}

#[test]
fn a_single_operation_is_undone_unless_a_later_one_covers_it() {
    let mut world = World::new(2);
    world.execute(txn(1), vec![insert(1, 10), insert(2, 20), add(1, 1)]);
    world.take_others();
    world.order_rollback(txn(1), RollbackScope::Only(OperationNumber(1)));
    world.run();
    assert!(matches!(
        world.take_others()[..],
        [Message::Coordinator(CoordinatorMessage::RolledBack { refused: true, attempt: 7, .. })]
    ));
    world.order_rollback(txn(1), RollbackScope::Only(OperationNumber(2)));
    world.run();
    assert!(matches!(
        world.take_others()[..],
        [Message::Coordinator(CoordinatorMessage::RolledBack { refused: false, .. })]
    ));
    world.commit(txn(1));
    assert_eq!(world.rows(2), [(1, 11)]);
    world.check_quiet();
}

#[test]
fn refused_operations_leave_no_effect() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    let set = |id, column, value| OperationKind::Update {
        key: key(id),
        condition: None,
        assignments: vec![(ColumnId(column), Expression::Constant(value))],
    };
    let condition = Expression::compare(ColumnId(1), model::Comparison::Greater, Value::Int(10));
    let cases = vec![
        (insert(1, 1), ErrorCode::RowExists),
        (add(2, 1), ErrorCode::RowNotFound),
        (delete(2), ErrorCode::RowNotFound),
        (set(1, 0, Value::Int(2)), ErrorCode::PrimaryKeyChange),
        (set(1, 1, Value::Int(1 << 40)), ErrorCode::ValueOutOfRange),
        (set(1, 1, Value::Null), ErrorCode::NotNull),
        (set(1, 1, Value::text("x")), ErrorCode::ValueOutOfRange),
        (set(1, 7, Value::Int(1)), ErrorCode::BadRequest),
        (add(1, i64::MAX), ErrorCode::ValueOutOfRange),
        (
            OperationKind::Delete { key: key(1), condition: Some(condition) },
            ErrorCode::ConditionFalse,
        ),
        (OperationKind::Insert { row: Row(Box::new([9, 9])) }, ErrorCode::BadRequest),
        (OperationKind::Insert { row: Row(Box::default()) }, ErrorCode::BadRequest),
        (delete_by(Key(vec![1; KEY_SIZE_MAX + 1].into())), ErrorCode::BadRequest),
    ];
    let (kinds, codes): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let answers = world.execute(txn(2), kinds);
    for (at, (answer, code)) in answers.into_iter().zip(codes).enumerate() {
        assert_eq!(answer, Err(code), "case {at}");
    }
    assert_eq!(world.nodes[&2].participant.open_transactions(), 0, "nothing was replicated");
    // What assigns the key its own value is no change of the key.
    let same = world.execute(txn(3), vec![]);
    assert!(same.is_empty());
    world.commit(txn(2));
    assert_eq!(world.rows(1), [(1, 10)]);
    world.check_quiet();
}

fn delete_by(key: Key) -> OperationKind {
    OperationKind::Delete { key, condition: None }
}

#[test]
fn wrong_routes_and_old_definitions_are_refused() {
    let mut world = World::new(2);
    let chain = world.chain().iter().rev().copied().collect();
    world.prepare_with(txn(1), chain, vec![operation(1, insert(1, 1))]);
    let mut old = operation(2, insert(1, 1));
    old.table_version = 0;
    let mut unknown = operation(3, insert(1, 1));
    unknown.partition.table = TableId(77);
    let mut outside = operation(4, insert(1, 1));
    outside.partition.index = PartitionIndex(9);
    world.prepare(txn(1), vec![old, unknown, outside]);
    world.run();
    let returned: Vec<u64> = world
        .others
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Coordinator(CoordinatorMessage::Prepared { results, .. }) => Some(results),
            _ => None,
        })
        .flatten()
        .filter_map(|prepared| prepared.returned.as_ref().map(|operation| operation.number.0))
        .collect();
    assert_eq!(returned, [1], "what came by a stale route goes back");
    assert_eq!(world.answer(txn(1), 1), Err(ErrorCode::StaleRoute));
    assert_eq!(world.answer(txn(1), 2), Err(ErrorCode::SchemaChanged));
    assert_eq!(world.answer(txn(1), 3), Err(ErrorCode::UnknownTable));
    assert_eq!(world.answer(txn(1), 4), Err(ErrorCode::BadRequest));
    world.check_quiet();
}

#[test]
fn uncommitted_changes_have_a_limit_of_their_own() {
    let mut world = World::with(2, |config| config.transaction_memory = 20_000);
    let mut refused = Err(ErrorCode::Internal);
    let mut number = 0;
    // A transaction may have so many changes, whatever else is committed.
    for id in 0..1_000 {
        number += 1;
        world.prepare(txn(1), vec![operation(number, insert(id, 1))]);
        world.run();
        refused = world.answer(txn(1), number);
        if refused.is_err() {
            break;
        }
    }
    assert_eq!(refused, Err(ErrorCode::TransactionMemoryFull));
    assert!((50..130).contains(&number), "{number} rows of some 200 bytes in 20,000");
    world.commit(txn(1));
    let deleted = world.execute(txn(2), vec![delete(0)]);
    assert_eq!(deleted, [Ok(OperationOutcome::Written(Effect::Changed))], "there is room again");
    world.commit(txn(2));
    world.check_quiet();
}

#[test]
fn full_memory_refuses_growth_and_lets_deletes_pass() {
    let mut world = World::with(2, |config| config.data_memory = 400_000);
    let mut id = 0;
    loop {
        id += 1;
        let big = [Value::Int(id), Value::Int(0), Value::Bytes(vec![7; 390].into())];
        let row = table().layout().encode_values(&big).unwrap();
        let answer = world.execute(txn(id as u32), vec![OperationKind::Insert { row }]);
        if answer == [Err(ErrorCode::MemoryFull)] {
            break;
        }
        world.commit(txn(id as u32));
        assert!(id < 1_500, "memory never gets full");
    }
    world.abort(txn(id as u32));
    world.write(txn(2_000), vec![delete(1), add(2, 1)]);
    world.check_quiet();
}

#[test]
fn a_backup_without_memory_has_the_transaction_aborted() {
    let mut world = World::new(3);
    let poor = Config { data_memory: 0, ..(*world.nodes[&2].shared.config).clone() };
    world.nodes.get_mut(&2).unwrap().shared.config = Arc::new(poor);
    world.prepare(txn(1), vec![operation(1, insert(1, 1))]);
    world.run();
    assert!(matches!(
        world.take_others()[..],
        [Message::Coordinator(CoordinatorMessage::PrepareRefused { .. })]
    ));
    world.abort(txn(1));
    world.check_quiet();
}

#[test]
fn a_backup_applies_early_what_stands_in_the_way() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.execute(txn(2), vec![add(1, 1), delete(2)]);
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    world.run();
    // The slot of row 2 and the key of row 1 go to later transactions before `Complete` arrives.
    world.execute(txn(3), vec![add(1, 1)]);
    world.execute(txn(4), vec![insert(9, 90)]);
    assert_eq!(world.rows(2), [(1, 11)]);
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    world.commit(txn(3));
    world.commit(txn(4));
    assert_eq!(world.rows(3), [(1, 12), (9, 90)]);
    world.check_quiet();
}

#[test]
fn a_promoted_backup_applies_what_it_had_noted() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    let from = world.coordinator();
    assert!(world.carry((from, chain[2])));
    assert!(world.carry((chain[2], chain[1])));
    world.kill(1);
    // A new transaction waits for the row until the commit is repeated.
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.run();
    assert!(!world.answered(txn(3), 1));
    world.order_commit(txn(2), &chain[1..], false);
    world.run();
    assert!(world.answered(txn(3), 1));
    world.order_complete(txn(2), &chain[2..]);
    world.run();
    world.commit(txn(3));
    assert_eq!(world.rows(3), [(1, 12)]);
    world.check_quiet();
}

#[test]
fn an_abort_that_is_overtaken_on_another_link_is_made_up_for() {
    let mut world = World::new(2);
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let old_chain = world.chain();
    world.sync(3);
    // The abort of the old chain goes 1 > 2; the next change of the row goes 1 > 3 > 2.
    world.order_abort(txn(2), &old_chain);
    let from = world.coordinator();
    let prepare = operation(1, add(1, 5));
    assert!(world.carry((from, participant(1))));
    world.prepare(txn(3), vec![prepare]);
    let from = world.coordinator();
    assert!(world.carry((from, participant(1))));
    for _ in 0..8 {
        world.carry((participant(3), participant(1)));
        world.carry((participant(1), participant(3)));
        world.carry((participant(3), participant(2)));
    }
    assert_eq!(world.answer(txn(3), 1), CHANGED);
    world.run();
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 15)]);
    world.check_quiet();
}

#[test]
fn changes_of_broken_chains_and_dead_coordinators_are_dropped() {
    let mut world = World::new(4);
    world.write(txn(1), vec![insert(1, 10)]);
    // Staged at 1 and 2; the change for 3 is on its way when 1 dies.
    world.prepare(txn(2), vec![operation(1, add(1, 1))]);
    let from = world.coordinator();
    let chain = world.chain();
    assert!(world.carry((from, chain[0])) && world.carry((chain[0], chain[1])));
    world.kill(1);
    world.run();
    assert!(!world.answered(txn(2), 1));
    assert_eq!(world.nodes[&3].participant.open_transactions(), 0);
    world.order_abort(txn(2), &chain[1..]);
    world.run();
    world.check_quiet();
}

#[test]
fn a_takeover_is_told_what_is_open_and_decided() {
    let mut world = World::new(3);
    let dead = 1;
    let by_dead = coordinator(dead);
    let chain = world.chain();
    // Coordinated by node 1, which will die; node 2 becomes the primary.
    for (number, id) in [(1, 1), (2, 2), (3, 3)] {
        let prepare = ParticipantMessage::Prepare {
            transaction: txn(number),
            leg: LegId(0),
            chain,
            operations: Few::one(operation(1, insert(id, 1))),
            lock_wait: None,
            besides: Besides::Nothing,
        };
        world.tell(by_dead, chain[0], Message::Participant(prepare));
    }
    world.prepare(txn(4), vec![operation(1, insert(4, 1))]);
    world.run();
    world.order_commit(txn(2), &chain, false);
    world.run();
    world.kill(dead);
    let query = ParticipantMessage::TakeoverQuery {
        node: NodeId(dead),
        incarnation: Incarnation(1),
        attempt: 3,
    };
    world.take_others();
    world.tell(coordinator(2), participant(2), Message::Participant(query));
    world.run();
    let reports = world.take_others();
    let [Message::Coordinator(CoordinatorMessage::TakeoverReport { transactions, .. })] =
        &reports[..]
    else {
        panic!("{reports:?}");
    };
    let found: Vec<_> = transactions.iter().map(|t| (t.transaction, t.legs[0].status)).collect();
    assert_eq!(
        found,
        [
            (txn(1), ReportedLegStatus::Open),
            (txn(2), ReportedLegStatus::Committed(world.epoch)),
            (txn(3), ReportedLegStatus::Open),
        ]
    );
    world.order_commit(txn(2), &chain[1..], false);
    world.run();
    for number in [1, 3, 4] {
        world.order_abort(txn(number), &chain[1..]);
    }
    world.order_complete(txn(2), &chain[2..]);
    world.run();
    assert_eq!(world.rows(3), [(2, 1)]);
    world.check_quiet();
}

#[test]
fn outcomes_are_remembered_one_per_session() {
    let mut world = World::with(1, |config| config.outcomes_max = 2);
    let ask = |world: &mut World, transaction| {
        world.take_others();
        let probe = ParticipantMessage::OutcomeProbe { transaction, probe: 1 };
        world.tell(coordinator(1), participant(1), Message::Participant(probe));
        world.run();
        match &world.take_others()[..] {
            [Message::Coordinator(CoordinatorMessage::OutcomeReport { outcome, .. })] => *outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&mut world, txn(1)), KnownOutcome::Unknown);
    world.execute(txn(1), vec![insert(1, 1)]);
    assert_eq!(ask(&mut world, txn(1)), KnownOutcome::Open);
    world.commit(txn(1));
    assert_eq!(ask(&mut world, txn(1)), KnownOutcome::Committed(Epoch(5)));
    let second = TransactionId { number: 2, ..txn(1) };
    assert_eq!(ask(&mut world, second), KnownOutcome::Unknown);
    world.write(second, vec![add(1, 1)]);
    assert_eq!(ask(&mut world, txn(1)), KnownOutcome::Superseded);
    world.write(txn(2), vec![add(1, 1)]);
    assert_eq!(ask(&mut world, txn(7)), KnownOutcome::Unknown);
    world.write(txn(3), vec![add(1, 1)]);
    assert_eq!(ask(&mut world, second), KnownOutcome::Superseded, "its entry had to go");
    assert_eq!(ask(&mut world, txn(3)), KnownOutcome::Committed(Epoch(5)));
}

#[test]
fn a_dropped_table_takes_its_transactions_changes_along() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.run();
    world.change(|state| {
        state.tables.remove(&P.table);
    });
    world.run();
    assert_eq!(world.answer(txn(3), 1), Err(ErrorCode::UnknownTable));
    world.commit(txn(2));
    let chain = vec![participant(1), participant(2)];
    world.order_abort(txn(3), &chain);
    world.run();
    for node in world.nodes.values() {
        assert_eq!(node.participant.open_transactions(), 0);
        assert_eq!(node.participant.partitions().count(), 0);
    }
}

#[test]
fn projectors_are_kept_for_one_definition_of_a_table() {
    let mut projectors = Projectors::default();
    let first = Arc::new(table());
    let of = |column| Projection::Columns(vec![ColumnId(column)]);
    let kept = Projector::of(&mut projectors, &first, &of(1)).unwrap();
    assert!(Arc::ptr_eq(&kept, &Projector::of(&mut projectors, &first, &of(1)).unwrap()));
    assert!(!Arc::ptr_eq(&kept, &Projector::of(&mut projectors, &first, &of(2)).unwrap()));
    let unknown = Projector::of(&mut projectors, &first, &of(3)).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::BadRequest);
    // Another definition of the same columns.
    let second = Arc::new(table());
    assert!(!Arc::ptr_eq(&kept, &Projector::of(&mut projectors, &second, &of(1)).unwrap()));
    // The oldest goes when there are too many.
    let kept = Projector::of(&mut projectors, &second, &Projection::All).unwrap();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let columns = |of: &[u16]| Projection::Columns(of.iter().map(|c| ColumnId(*c)).collect());
    let pairs = orders.iter().map(|of| columns(&of[..2]));
    let others: Vec<Projection> = orders.iter().map(|of| columns(of)).chain(pairs).collect();
    others.iter().for_each(|of| drop(Projector::of(&mut projectors, &second, of).unwrap()));
    assert!(Arc::ptr_eq(
        &kept,
        &Projector::of(&mut projectors, &second, &Projection::All).unwrap()
    ));
    for column in [0, 2] {
        Projector::of(&mut projectors, &second, &columns(&[column])).unwrap();
    }
    Projector::of(&mut projectors, &second, &Projection::Nothing).unwrap();
    Projector::of(&mut projectors, &second, &of(1)).unwrap();
    assert!(!Arc::ptr_eq(
        &kept,
        &Projector::of(&mut projectors, &second, &Projection::All).unwrap()
    ));
    let kept = Projector::of(&mut projectors, &second, &Projection::All).unwrap();
    let tables = [(second.id, second.clone())].into_iter().collect();
    let before = ClusterState { tables, ..ClusterState::default() };
    projectors.follow(&before, &ClusterState::default());
    assert!(!Arc::ptr_eq(
        &kept,
        &Projector::of(&mut projectors, &second, &Projection::All).unwrap()
    ));
}

#[test]
fn a_row_of_all_columns_is_what_projecting_them_makes_of_it() {
    let table = table();
    let columns: Vec<ColumnId> = (0..3).map(ColumnId).collect();
    let projector = Projector::new(&table, &Projection::Columns(columns.clone()));
    assert!(matches!(projector, Projector::Whole(_)));
    let values = [Value::Int(1), Value::Int(2), Value::Bytes((*b"note").into())];
    let row = table.layout().encode_values(&values).expect("a row");
    let projected = RowProjection::new(&table, &columns).project(&table, &row.0);
    assert_eq!(projector.project(&table, &row.0).expect("it fits"), projected.expect("it fits"));
    let mut out = Vec::new();
    projector.project_into(&table, &row.0, &mut out).expect("it fits");
    assert_eq!(out, row.0[..]);
    // In another order, or fewer.
    for of in [&[1, 0, 2][..], &[0, 1]] {
        let columns = of.iter().map(|column| ColumnId(*column)).collect();
        let projector = Projector::new(&table, &Projection::Columns(columns));
        assert!(matches!(projector, Projector::Columns(_)));
    }
}
