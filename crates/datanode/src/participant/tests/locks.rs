//! Waits: order, time-outs, reports to coordinators.

use super::*;

const LOCKED: (LockMode, WaitPolicy) = (LockMode::Exclusive, WaitPolicy::Wait);

fn exclusive(id: i64) -> OperationKind {
    read(id, LOCKED.0, LOCKED.1)
}

#[test]
fn locks_are_granted_in_order() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    world.prepare(txn(3), vec![operation(1, add(1, 10))]);
    world.run();
    world.prepare(txn(4), vec![operation(1, add(1, 100))]);
    world.run();
    assert!(!world.answered(txn(3), 1) && !world.answered(txn(4), 1));
    world.commit(txn(2));
    assert!(world.answered(txn(3), 1) && !world.answered(txn(4), 1));
    world.abort(txn(3));
    assert!(world.answered(txn(4), 1));
    world.commit(txn(4));
    assert_eq!(world.rows(2), [(1, 111)]);
    world.check_quiet();
}

#[test]
fn operations_on_one_row_keep_their_order_behind_a_wait() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let kinds = vec![
        read(1, LockMode::Shared, WaitPolicy::Wait),
        add(2, 1),
        add(1, 1),
        read(1, LockMode::Committed, WaitPolicy::Wait),
        delete(1),
    ];
    let operations =
        kinds.into_iter().enumerate().map(|(at, kind)| operation(at as u64 + 1, kind)).collect();
    world.prepare(txn(3), operations);
    world.run();
    assert!(world.answered(txn(3), 2), "another row is not held up");
    assert!(!world.answered(txn(3), 4), "a later read of the row is");
    world.commit(txn(2));
    assert_eq!(world.answer(txn(3), 1), Ok(OperationOutcome::Row(row(1, 11))));
    assert_eq!(world.answer(txn(3), 4), Ok(OperationOutcome::Row(row(1, 12))));
    assert_eq!(world.answer(txn(3), 5), Ok(OperationOutcome::Written(Effect::Changed)));
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(2, 21)]);
    world.check_quiet();
}

#[test]
fn who_will_not_wait_is_refused_at_once() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![read(1, LockMode::Shared, WaitPolicy::Wait)]);
    let answers = world.execute(
        txn(3),
        vec![
            read(1, LockMode::Shared, WaitPolicy::Refuse),
            read(1, LockMode::Exclusive, WaitPolicy::Refuse),
            read(1, LockMode::Exclusive, WaitPolicy::Skip),
            read(1, LockMode::Committed, WaitPolicy::Wait),
        ],
    );
    assert_eq!(answers[0], Ok(OperationOutcome::Row(row(1, 10))));
    assert_eq!(answers[1], Err(ErrorCode::LockUnavailable));
    assert_eq!(answers[2], Err(ErrorCode::LockUnavailable));
    assert_eq!(answers[3], Ok(OperationOutcome::Row(row(1, 10))));
    world.abort(txn(2));
    world.abort(txn(3));
    world.check_quiet();
}

#[test]
fn waits_are_reported_and_end_with_the_time_out() {
    let mut world = World::new(1);
    let config = world.nodes[&1].shared.config.clone();
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![exclusive(1)]);
    world.prepare(txn(3), vec![operation(1, add(1, 1)), operation(2, add(1, 1))]);
    world.run();
    world.take_others();
    world.pass(config.deadlock_check_after);
    let reports = world.take_others();
    let [Message::Coordinator(CoordinatorMessage::Waiting { transaction, wait: 1 })] = &reports[..]
    else {
        panic!("{reports:?}");
    };
    assert_eq!(*transaction, txn(3));
    world.pass(config.lock_timeout);
    assert_eq!(world.answer(txn(3), 1), Err(ErrorCode::LockTimeout));
    assert_eq!(world.answer(txn(3), 2), Err(ErrorCode::LockTimeout));
    let over = |message: &&Message| {
        matches!(message, Message::Coordinator(CoordinatorMessage::WaitOver { wait: 1, .. }))
    };
    assert_eq!(world.take_others().iter().filter(over).count(), 1);
    assert_eq!(world.nodes[&1].shared.timers.next(), None, "nothing waits any more");
    world.abort(txn(3));
    world.commit(txn(2));
    world.check_quiet();
}

#[test]
fn a_request_may_say_how_long_it_waits() {
    let mut world = World::new(1);
    let config = world.nodes[&1].shared.config.clone();
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![exclusive(1)]);
    world.lock_wait = Some(config.lock_timeout.times(3));
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.run();
    world.pass(config.lock_timeout.times(2));
    assert!(!world.answered(txn(3), 1), "the cluster's time-out is not this request's");
    world.pass(config.lock_timeout.times(2));
    assert_eq!(world.answer(txn(3), 1), Err(ErrorCode::LockTimeout));
    world.abort(txn(3));
    world.abort(txn(2));
    world.check_quiet();
}

#[test]
fn an_aborted_transaction_leaves_its_queue() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    for number in [3, 4] {
        world.prepare(txn(number), vec![operation(1, add(1, 10)), operation(2, add(1, 10))]);
        world.run();
    }
    world.abort(txn(3));
    assert!(!world.answered(txn(3), 1));
    world.commit(txn(2));
    assert!(world.answered(txn(4), 2));
    world.commit(txn(4));
    assert_eq!(world.rows(1), [(1, 31)]);
    world.check_quiet();
}

#[test]
fn operations_of_a_dead_coordinator_never_run() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let chain = world.chain();
    let prepare = ParticipantMessage::Prepare {
        transaction: txn(3),
        leg: LegId(0),
        chain,
        operations: vec![operation(1, add(1, 1)), operation(2, insert(2, 2))].into(),
        lock_wait: None,
        besides: Besides::Nothing,
    };
    world.tell(coordinator(2), chain[0], Message::Participant(prepare));
    world.run();
    assert!(!world.answered(txn(3), 1) && world.answered(txn(3), 2));
    world.kill(2);
    world.abort(txn(2));
    assert!(!world.answered(txn(3), 1));
    world.order_abort(txn(3), &[chain[0], chain[2]]);
    world.run();
    assert_eq!(world.rows(1), [(1, 10)]);
    world.check_quiet();
}

#[test]
fn an_operation_that_waited_for_an_older_chain_is_refused() {
    let mut world = World::new(2);
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let chain = world.chain();
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.run();
    world.sync(3);
    world.run();
    world.order_commit(txn(2), &chain, false);
    world.run();
    assert_eq!(world.answer(txn(3), 1), Err(ErrorCode::StaleRoute));
    world.order_complete(txn(2), &chain[1..]);
    world.order_abort(txn(3), &chain);
    world.run();
    assert_eq!(world.rows(3), [(1, 11)], "the copy has waited for the older transaction");
    world.check_quiet();
}

#[test]
fn operations_and_waits_are_counted() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    world.prepare(txn(3), vec![operation(1, add(1, 10))]);
    world.run();
    let waiting = world.execute(txn(4), vec![read(1, LockMode::Exclusive, WaitPolicy::Refuse)]);
    assert_eq!(waiting, [Err(ErrorCode::LockUnavailable)]);
    let figures = |world: &World| {
        let Node { participant, shared } = &world.nodes[&1];
        let mut figures = Figures::default();
        figures.of_node(NodeId(1));
        shared.tallies.tell(&mut figures);
        participant.figures(shared, &mut figures);
        figures.rows()
    };
    let number = |rows: &[(String, String, u64)], name: &str, labels: &str| {
        let found = rows.iter().find(|(n, l, _)| n == name && l == labels);
        found.unwrap_or_else(|| panic!("{name} {labels}")).2
    };
    let rows = figures(&world);
    assert_eq!(number(&rows, "nines_operations", "1,insert"), 1);
    assert_eq!(number(&rows, "nines_operations", "1,update"), 2);
    assert_eq!(number(&rows, "nines_operations", "1,locked_read"), 1);
    assert_eq!(number(&rows, "nines_operations_refused", "1,lock_unavailable"), 1);
    assert_eq!(number(&rows, "nines_lock_waits", "1"), 1);
    assert_eq!(number(&rows, "nines_lock_waits_open", "1"), 1);
    assert_eq!(number(&rows, "nines_lock_wait_seconds_count", "1"), 0);
    assert_eq!(number(&rows, "nines_rows", "1"), 1);
    assert!(number(&rows, "nines_data_memory_used_bytes", "1") > 0);
    world.commit(txn(2));
    let rows = figures(&world);
    assert_eq!(number(&rows, "nines_lock_waits_open", "1"), 0);
    assert_eq!(number(&rows, "nines_lock_wait_seconds_count", "1"), 1);
    world.commit(txn(3));
    world.abort(txn(4));
    world.check_quiet();
}

/// What was sent about deadlocks since the last look: who began the search, and whom it reaches.
fn searches(world: &mut World) -> Vec<(TransactionId, Vec<TransactionId>)> {
    let sent = world.take_others().into_iter();
    let of_search = |message| match message {
        Message::Coordinator(CoordinatorMessage::DeadlockProbe { search, blockers }) => {
            Some((search.initiator, blockers))
        }
        _ => None,
    };
    sent.filter_map(of_search).collect()
}

#[test]
fn a_wait_of_who_holds_locks_is_searched_at_once_and_no_other() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.execute(txn(2), vec![exclusive(1)]);
    world.take_others();
    for number in 3..50 {
        world.prepare(txn(number), vec![operation(1, add(1, 1))]);
    }
    world.run();
    assert_eq!(searches(&mut world), [], "nobody waits for who holds nothing");
    world.besides = Besides::Locks;
    world.prepare(txn(50), vec![operation(2, add(1, 1))]);
    world.run();
    assert_eq!(searches(&mut world), [(txn(50), vec![txn(2)])], "the holder, and not the queue");
    for number in 3..=50 {
        world.abort(txn(number));
    }
    world.abort(txn(2));
    world.check_quiet();
}

#[test]
fn a_search_is_passed_on_to_who_holds_the_lock_now() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    let shared = |id| read(id, LockMode::Shared, WaitPolicy::Wait);
    world.execute(txn(2), vec![exclusive(1)]);
    world.prepare(txn(3), vec![operation(1, exclusive(1))]);
    world.prepare(txn(4), vec![operation(1, exclusive(1))]);
    world.execute(txn(5), vec![shared(2)]);
    world.execute(txn(6), vec![shared(2)]);
    world.run();
    world.take_others();
    let origin = SearchOrigin { leg: None, wait: 0, count: 1 };
    let (initiator, path) = (txn(9), Vec::new());
    let search = DeadlockSearch { initiator, origin, path, length: 0, victim: None };
    let ask = |world: &mut World, number| {
        let (search, to, from) = (Box::new(search.clone()), world.chain()[0], world.coordinator());
        let (transaction, leg) = (txn(number), LegId(0));
        let probe = ParticipantMessage::DeadlockProbe { search, transaction, leg };
        world.tell(from, to, Message::Participant(probe));
        world.run();
        searches(world)
    };
    assert_eq!(ask(&mut world, 4), [(txn(9), vec![txn(2)])]);
    world.commit(txn(2));
    world.take_others();
    assert_eq!(ask(&mut world, 4), [(txn(9), vec![txn(3)])]);
    assert_eq!(ask(&mut world, 3), [], "who does not wait is not in a cycle");
    assert_eq!(ask(&mut world, 8), [], "nor is who is not known");
    world.besides = Besides::Locks;
    world.prepare(txn(7), vec![operation(2, exclusive(2))]);
    world.run();
    assert_eq!(searches(&mut world), [(txn(7), vec![txn(5), txn(6)])], "all who share it");
    for number in 3..8 {
        world.abort(txn(number));
    }
    world.check_quiet();
}

#[test]
fn who_is_granted_a_lock_while_it_waits_elsewhere_is_searched_from() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.execute(txn(2), vec![exclusive(1)]);
    world.execute(txn(3), vec![exclusive(2)]);
    world.prepare(txn(4), vec![operation(1, exclusive(1)), operation(2, exclusive(2))]);
    world.run();
    let searched = searches(&mut world);
    assert_eq!(searched, [(txn(4), vec![txn(2), txn(3)])], "one search for all waits of a turn");
    world.prepare(txn(5), vec![operation(1, exclusive(1))]);
    world.run();
    world.take_others();
    world.commit(txn(2));
    let asks = |message: &&Message| {
        let Message::Coordinator(CoordinatorMessage::SearchDeadlock { transaction }) = message
        else {
            return false;
        };
        *transaction == txn(4)
    };
    assert_eq!(world.take_others().iter().filter(asks).count(), 1);
    for number in 3..6 {
        world.abort(txn(number));
    }
    world.check_quiet();
}
