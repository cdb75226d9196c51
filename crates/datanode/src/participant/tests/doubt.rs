//! Reads while a commit is under way: nobody is answered with an older row than others before.

use wire::{ClientReply, KeyRead, ReadRequest, ScanMessage, ScanOrder, ScanSource};

use super::scans::{bound, heap};
use super::*;

impl World {
    /// Asks a replica for a row.
    fn ask(&mut self, node: u16, request: u64, id: i64) {
        self.ask_for(node, request, &[id]);
    }

    fn ask_for(&mut self, node: u16, request: u64, ids: &[i64]) {
        let read = |id: &i64| KeyRead { partition: P, key: key(*id), projection: Projection::All };
        let reads = ids.iter().map(read).collect();
        let request = ReadRequest { session: session(9), request, snapshot: None, reads };
        let message = Message::Participant(ParticipantMessage::Read(Box::new(request)));
        self.tell(CLIENT, participant(node), message);
        assert!(self.carry((CLIENT, participant(node))));
    }

    /// The answers that have come since the last time: of each request the values of `v`.
    fn told(&mut self) -> Vec<(u64, Vec<Option<i64>>)> {
        let value = |row: Option<Row>| row.map(|row| values_of(&row.0).1);
        let told = self.take_others().into_iter().filter_map(|message| match message {
            Message::Reply(ClientReply::Read { request, result, .. }) => {
                Some((request, result.unwrap().into_iter().map(value).collect()))
            }
            _ => None,
        });
        told.collect()
    }

    /// Opens a scan at a replica.
    fn open_at(&mut self, node: u16, request: wire::ScanRequest) {
        let message = Message::Scan(ScanMessage::Open(Box::new(request)));
        self.tell(CLIENT, participant(node), message);
        assert!(self.carry((CLIENT, participant(node))));
    }

    /// The batches that have come since the last time: of each scan the rows.
    fn scanned(&mut self) -> Vec<(u64, Vec<(i64, i64)>)> {
        let told = self.take_others().into_iter().filter_map(|message| match message {
            Message::Scan(ScanMessage::Batch(batch)) => {
                let rows = batch.rows.iter().map(|(_, row)| values_of(row)).collect();
                Some((batch.scan.number.0, rows))
            }
            _ => None,
        });
        told.collect()
    }

    /// A change in two phases that the last replica was told to commit, and no other.
    fn noted_by_the_last(&mut self, transaction: TransactionId, kinds: Vec<OperationKind>) {
        self.execute(transaction, kinds).into_iter().for_each(|answer| drop(answer.unwrap()));
        let (chain, from) = (self.chain(), self.coordinator());
        self.order_commit(transaction, &chain, false);
        assert!(self.carry((from, *chain.last().unwrap())));
        self.take_others();
    }

    fn carry_between(&mut self, from: u16, to: u16) {
        let from = if from == 0 { self.coordinator() } else { participant(from) };
        assert!(self.carry((from, participant(to))), "nothing to {to}");
    }

    fn waiting(&self, node: u16) -> usize {
        self.nodes[&node].participant.waiting_reads()
    }
}

fn range(number: u64, lower: i64, upper: i64) -> wire::ScanRequest {
    let (lower, upper) = (bound(lower, true), bound(upper, true));
    let source = ScanSource::Index { index: INDEX, lower, upper, order: ScanOrder::Ascending };
    wire::ScanRequest { source, ..heap(number) }
}

#[test]
fn a_backup_that_was_told_to_commit_answers_when_it_shows_the_change() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5), insert(3, 30)]);
    for (request, node) in [(1, 1), (2, 2), (3, 3)] {
        world.ask(node, request, 1);
    }
    assert_eq!(world.told(), [(1, vec![Some(10)]), (2, vec![Some(10)])], "nobody shows it yet");
    world.ask(3, 4, 2);
    world.ask(3, 5, 3);
    world.ask_for(3, 6, &[2, 3, 1]);
    assert_eq!(world.told(), [(4, vec![Some(20)])], "other rows do not wait");
    assert_eq!(world.waiting(3), 3);
    world.carry_between(3, 2);
    world.carry_between(2, 1);
    world.ask(1, 7, 1);
    world.ask(2, 8, 1);
    assert_eq!(world.told(), [(7, vec![Some(15)])], "the primary shows it");
    let chain = world.chain();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    let mut told = world.told();
    told.sort();
    let all = vec![Some(20), Some(30), Some(15)];
    let expected = [(3, vec![Some(15)]), (5, vec![Some(30)]), (6, all), (8, vec![Some(15)])];
    assert_eq!(told, expected);
    world.check_quiet();
}

#[test]
fn who_reads_a_row_of_a_large_commit_waits_for_no_other_row() {
    let mut world = World::with(2, |config| config.apply_step_bytes = 1);
    world.write(txn(1), (1..=5).map(|id| insert(id, 10)).collect());
    let changes = (1..=4).map(|id| add(id, 1)).chain([delete(5)]).collect();
    world.noted_by_the_last(txn(2), changes);
    world.carry_between(2, 1);
    assert_eq!(world.rows(1)[3..], [(4, 10), (5, 10)], "the primary has begun to apply");
    world.ask(1, 1, 4);
    world.ask(1, 2, 5);
    world.ask(2, 3, 4);
    assert_eq!(world.told(), [(1, vec![Some(11)]), (2, vec![None])]);
    assert_eq!((world.waiting(1), world.waiting(2)), (0, 1), "the backup has not heard of all");
    world.run();
    let chain = world.chain();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    assert_eq!(world.told(), [(3, vec![Some(11)])]);
    assert_eq!(world.rows(2), (1..=4).map(|id| (id, 11)).collect::<Vec<_>>());
    world.check_quiet();
}

#[test]
fn a_row_that_was_deleted_or_is_new_is_in_doubt_too() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![delete(1), insert(2, 20)]);
    world.ask(2, 1, 1);
    world.ask(2, 2, 2);
    world.ask(2, 3, 3);
    assert_eq!(world.told(), [(3, vec![None])]);
    let chain = world.chain();
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    assert_eq!(world.told(), [(1, vec![None]), (2, vec![Some(20)])]);
}

#[test]
fn replicas_above_the_last_wait_for_what_is_staged_with_its_commit() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.take_others();
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    world.carry_between(0, 1);
    world.ask(1, 1, 1);
    world.ask(2, 2, 1);
    assert_eq!(world.told(), [(2, vec![Some(10)])], "it has not come there");
    world.carry_between(1, 2);
    world.ask(2, 3, 1);
    world.ask(3, 4, 1);
    assert_eq!(world.told(), [(4, vec![Some(10)])]);
    world.carry_between(2, 3);
    world.ask(3, 5, 1);
    assert_eq!(world.told(), [(5, vec![Some(15)])], "the last replica shows it at once");
    world.carry_between(3, 2);
    assert_eq!(world.told(), [(3, vec![Some(15)])]);
    world.carry_between(2, 1);
    assert_eq!(world.told(), [(1, vec![Some(15)])]);
    world.check_quiet();
}

#[test]
fn who_waits_for_a_change_that_is_undone_is_answered_with_the_row_as_it_was() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.take_others();
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    world.carry_between(0, 1);
    world.carry_between(1, 2);
    world.ask(1, 1, 1);
    world.ask(2, 2, 1);
    // What has not come to the last replica never will.
    world.kill(3);
    world.abort(txn(2));
    let mut told = world.told();
    told.sort();
    assert_eq!(told, [(1, vec![Some(10)]), (2, vec![Some(10)])]);
    world.check_quiet();
}

#[test]
fn a_read_waits_for_the_changes_that_were_there_when_it_came() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.take_others();
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    world.carry_between(0, 1);
    world.ask(1, 1, 1);
    // The next one waits for the lock at the primary and is staged when the first is applied.
    world.carry_between(1, 2);
    world.prepare_and_commit(txn(3), vec![add(1, 100)]);
    world.carry_between(0, 1);
    world.carry_between(2, 1);
    assert_eq!(world.told(), [(1, vec![Some(15)])]);
    world.run();
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 115)]);
    world.check_quiet();
}

#[test]
fn a_change_that_makes_way_for_the_next_is_waited_for_no_more() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    world.carry_between(2, 1);
    world.ask(2, 1, 1);
    assert_eq!(world.told(), []);
    // The primary has given the row to another transaction before the backup was told to complete.
    world.execute(txn(3), vec![add(1, 100)]);
    assert_eq!(world.told(), [(1, vec![Some(15)])]);
    let chain = world.chain();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    world.commit(txn(3));
    world.check_quiet();
}

#[test]
fn a_promoted_backup_shows_nothing_before_the_commit_reaches_it_again() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    world.carry_between(3, 2);
    world.carry_between(2, 1);
    world.ask(1, 1, 1);
    assert_eq!(world.told(), [(1, vec![Some(15)])]);
    world.kill(1);
    world.ask(2, 2, 1);
    world.ask(3, 3, 1);
    world.prepare(txn(4), vec![operation(1, read(1, LockMode::Committed, WaitPolicy::Wait))]);
    world.carry_between(0, 2);
    assert_eq!((world.told(), world.answered(txn(4), 1)), (vec![], false));
    world.commit(txn(2));
    let mut told = world.told();
    told.sort();
    assert_eq!(told, [(2, vec![Some(15)]), (3, vec![Some(15)])]);
    assert_eq!(world.answer(txn(4), 1), Ok(OperationOutcome::Row(row(1, 15))));
    world.abort(txn(4));
    world.check_quiet();
}

#[test]
fn reads_in_a_transaction_wait_and_keep_their_order_with_its_changes() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    world.carry_between(0, 1);
    let committed = |number, id| operation(number, read(id, LockMode::Committed, WaitPolicy::Wait));
    let operations =
        vec![committed(1, 1), operation(2, add(1, 100)), committed(3, 1), committed(4, 2)];
    world.prepare(txn(3), operations);
    world.carry_between(0, 1);
    let answered = |world: &World| (1..=4).filter(|n| world.answered(txn(3), *n)).collect();
    let first: Vec<u64> = answered(&world);
    assert_eq!(first, [4], "those of other rows do not wait");
    world.run();
    let value = |world: &World, number| match world.answer(txn(3), number) {
        Ok(OperationOutcome::Row(row)) => values_of(&row.0).1,
        other => panic!("a row, not {other:?}"),
    };
    assert_eq!((value(&world, 1), value(&world, 3)), (15, 115));
    world.commit(txn(3));
    assert_eq!(world.rows(2), [(1, 115), (2, 20)]);
    world.check_quiet();
}

#[test]
fn a_read_in_a_transaction_does_not_wait_for_ever() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    world.carry_between(0, 1);
    let committed = |number| operation(number, read(1, LockMode::Committed, WaitPolicy::Wait));
    world.prepare(txn(3), vec![committed(1), committed(2)]);
    world.carry_between(0, 1);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.answer(txn(3), 1), Err(ErrorCode::LockTimeout));
    assert_eq!(world.answer(txn(3), 2), Err(ErrorCode::LockTimeout));
    world.run();
    world.abort(txn(3));
    world.check_quiet();
}

#[test]
fn scans_wait_for_rows_in_doubt_in_their_range() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20), insert(3, 30)]);
    world.noted_by_the_last(txn(2), vec![add(1, 50), insert(4, 25), delete(3)]);
    world.open_at(2, heap(1));
    world.open_at(2, range(2, 15, 24));
    // Rows that were in the range, are moved into it, are new there.
    for (number, (lower, upper)) in [(3, (5, 10)), (4, (60, 60)), (5, (25, 25)), (6, (30, 40))] {
        world.open_at(2, range(number, lower, upper));
    }
    assert_eq!(world.scanned(), [(2, vec![(2, 20)])]);
    // Asked once more, as a client asks that waits in vain: nothing is read twice.
    let next = ScanMessage::Next { scan: heap(1).scan, partition: P };
    world.tell(CLIENT, participant(2), Message::Scan(next));
    world.carry((CLIENT, participant(2)));
    assert_eq!(world.scanned(), []);
    let chain = world.chain();
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    let all = vec![(1, 60), (2, 20), (4, 25)];
    let expected = [(1, all), (3, vec![]), (4, vec![(1, 60)]), (5, vec![(4, 25)]), (6, vec![])];
    assert_eq!(world.scanned(), expected);
    world.check_quiet();
    assert_eq!(world.nodes[&2].participant.open_scans(), 0);
}

#[test]
fn a_locking_scan_meets_rows_that_another_replica_shows() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.prepare_and_commit(txn(2), vec![insert(2, 20)]);
    world.carry_between(0, 1);
    world.carry_between(1, 2);
    world.ask(2, 1, 2);
    assert_eq!(world.told(), [(1, vec![Some(20)])]);
    let wait = WaitPolicy::Skip;
    let request = wire::ScanRequest { lock: LockMode::Exclusive, wait, ..heap(7) };
    let request = world.inside(txn(3), 0, request);
    world.open_at(1, request);
    assert_eq!(world.scanned(), []);
    world.carry_between(2, 1);
    assert_eq!(world.scanned(), [(7, vec![(1, 10), (2, 20)])]);
    world.run();
    world.abort(txn(3));
    world.check_quiet();
}

#[test]
fn a_scan_that_is_closed_or_opened_anew_while_it_waits_is_passed_over() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    world.open_at(2, heap(1));
    world.open_at(2, heap(1));
    world.open_at(2, heap(2));
    let close = ScanMessage::Close { scan: heap(2).scan, partition: P };
    world.tell(CLIENT, participant(2), Message::Scan(close));
    world.carry((CLIENT, participant(2)));
    let chain = world.chain();
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    assert_eq!(world.scanned(), [(1, vec![(1, 15)])]);
    world.check_quiet();
}

#[test]
fn a_snapshot_waits_for_nobody() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.next_epoch(&[5]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    world.open_at(2, wire::ScanRequest { snapshot: Some(Epoch(5)), ..heap(1) });
    assert_eq!(world.scanned(), [(1, vec![(1, 10)])]);
}

#[test]
fn reads_that_wait_have_a_limit_and_a_lease() {
    let mut world = World::with(2, |config| config.transactions_max = 2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    (1..=3).for_each(|request| world.ask(2, request, 1));
    let refused = |world: &mut World| match &world.take_others()[..] {
        [Message::Reply(ClientReply::Read { result: Err(refusal), request, .. })] => {
            (*request, refusal.code)
        }
        other => panic!("one refusal, not {other:?}"),
    };
    assert_eq!(refused(&mut world), (3, ErrorCode::TransactionLimit));
    world.nodes.get_mut(&2).unwrap().shared.lease.set(Instant::ZERO);
    world.ask(2, 4, 1);
    assert_eq!(refused(&mut world), (4, ErrorCode::NotServing), "at once");
}

#[test]
fn a_table_that_is_dropped_answers_those_who_wait() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.noted_by_the_last(txn(2), vec![add(1, 5)]);
    world.ask(2, 1, 1);
    let chain = world.chain();
    world.change(|state| state.tables = Default::default());
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    let refused = world.take_others().into_iter().any(|message| match message {
        Message::Reply(ClientReply::Read { result, .. }) => {
            result.unwrap_err().code == ErrorCode::UnknownTable
        }
        _ => false,
    });
    assert!(refused);
}

#[test]
fn a_scan_does_not_wait_for_many_rows_of_another_table() {
    let mut world = World::new(2);
    let other = PartitionId { table: TableId(2), index: PartitionIndex(0) };
    world.change(|state| {
        let table = Table { id: other.table, name: "d.other".into(), ..table() };
        state.tables.insert(other.table, Arc::new(table));
    });
    world.noted_by_the_last(txn(1), (1..=100).map(|id| insert(id, id)).collect());
    world.open_at(2, wire::ScanRequest { partition: other, ..heap(1) });
    assert_eq!(world.scanned(), [(1, vec![])]);
    world.open_at(2, range(2, 500, 600));
    assert_eq!((world.scanned(), world.waiting(2)), (vec![], 1), "of many it is taken for granted");
    world.run();
    let chain = world.chain();
    world.order_complete(txn(1), &chain[1..]);
    world.run();
    assert_eq!(world.scanned(), [(2, vec![])]);
    world.check_quiet();
}
