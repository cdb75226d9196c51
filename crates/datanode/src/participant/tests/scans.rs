//! Scans of all kinds, and direct reads.

use wire::{
    ClientReply, CoordinatorRef, KeyRead, ReadRequest, ScanBatch, ScanId, ScanMessage, ScanOrder,
    ScanRequest, ScanSource, ScanStatus, ScanTransaction,
};

use super::*;

fn scan_id(number: u64) -> ScanId {
    ScanId { session: session(50), number: model::ScanNumber(number) }
}

pub(super) fn heap(number: u64) -> ScanRequest {
    ScanRequest {
        scan: scan_id(number),
        partition: P,
        table_version: 1,
        reply_to: CLIENT,
        transaction: None,
        snapshot: None,
        source: ScanSource::Heap,
        filter: None,
        projection: Projection::All,
        keys: true,
        lock: LockMode::Committed,
        wait: WaitPolicy::Wait,
        lock_wait: None,
        settled: false,
        guarded: false,
        limit: None,
        program: None,
        join: None,
        batch_rows: None,
        prefixes: None,
        chain: Chain::EMPTY,
    }
}

pub(super) fn bound(v: i64, inclusive: bool) -> Option<(Box<[u8]>, bool)> {
    let key = table().key_of_values(&[ColumnId(1)], &[Value::Int(v)]).unwrap();
    Some((key.0, inclusive))
}

fn by_index(number: u64, order: ScanOrder) -> ScanRequest {
    let source = ScanSource::Index { index: INDEX, lower: None, upper: None, order };
    ScanRequest { source, ..heap(number) }
}

impl World {
    pub(super) fn inside(
        &self,
        transaction: TransactionId,
        seen_to: u64,
        request: ScanRequest,
    ) -> ScanRequest {
        let owner = ScanTransaction {
            transaction,
            coordinator: CoordinatorRef {
                address: self.coordinator(),
                incarnation: Incarnation(1),
            },
            leg: LegId(0),
            seen_to: OperationNumber(seen_to),
        };
        ScanRequest { transaction: Some(owner), chain: self.chain(), ..request }
    }

    fn locking(&self, transaction: TransactionId, wait: WaitPolicy, number: u64) -> ScanRequest {
        let request = ScanRequest { lock: LockMode::Exclusive, wait, ..heap(number) };
        self.inside(transaction, 0, request)
    }

    pub(super) fn scan_message(&mut self, message: ScanMessage) -> Option<ScanBatch> {
        self.take_others();
        self.tell(CLIENT, participant(1), Message::Scan(message));
        self.run();
        self.batch()
    }

    fn batch(&mut self) -> Option<ScanBatch> {
        let mut batches = self.take_others().into_iter().filter_map(|message| match message {
            Message::Scan(ScanMessage::Batch(batch)) => Some(*batch),
            _ => None,
        });
        let batch = batches.next();
        assert!(batches.next().is_none(), "one batch per request");
        batch
    }

    pub(super) fn open(&mut self, request: ScanRequest) -> Option<ScanBatch> {
        self.scan_message(ScanMessage::Open(Box::new(request)))
    }

    fn next(&mut self, number: u64) -> Option<ScanBatch> {
        self.scan_message(ScanMessage::Next { scan: scan_id(number), partition: P })
    }

    /// All rows of a scan.
    fn scan(&mut self, request: ScanRequest) -> Result<Vec<(i64, i64)>, ErrorCode> {
        let number = request.scan.number.0;
        let mut batch = self.open(request).expect("a first batch");
        let mut rows = vec![];
        loop {
            rows.extend(batch.rows.rows().map(values_of));
            match batch.status {
                ScanStatus::Finished => return Ok(rows),
                ScanStatus::Failed(refusal) => return Err(refusal.code),
                ScanStatus::More => batch = self.next(number).expect("another batch"),
            }
        }
    }

    pub(super) fn open_scans(&self) -> usize {
        self.nodes[&1].participant.open_scans()
    }
}

pub(super) fn small_batches(config: &mut Config) {
    config.scan_batch_rows = 2;
    config.scan_step_rows = 3;
}

#[test]
fn heap_and_index_scans_return_every_row_in_batches() {
    let mut world = World::with(1, small_batches);
    let rows: Vec<OperationKind> = (0..20).map(|id| insert(id, 100 - id / 3)).collect();
    world.write(txn(1), rows);
    let all: Vec<(i64, i64)> = (0..20).map(|id| (id, 100 - id / 3)).collect();
    assert_eq!(world.scan(heap(1)).unwrap(), all);
    let mut ordered = all.clone();
    ordered.sort_by_key(|(id, v)| (*v, *id));
    assert_eq!(world.scan(by_index(2, ScanOrder::Ascending)).unwrap(), ordered);
    ordered.reverse();
    assert_eq!(world.scan(by_index(3, ScanOrder::Descending)).unwrap(), ordered);
    let filter = Expression::compare(ColumnId(0), model::Comparison::Greater, Value::Int(15));
    let request = ScanRequest { filter: Some(filter), limit: Some(3), ..heap(4) };
    assert_eq!(world.scan(request).unwrap(), all[16..19]);
    let source = ScanSource::Index {
        index: INDEX,
        lower: bound(95, false),
        upper: bound(97, true),
        order: ScanOrder::Ascending,
    };
    let in_range: Vec<i64> =
        world.scan(ScanRequest { source, ..heap(5) }).unwrap().iter().map(|r| r.1).collect();
    assert_eq!(in_range, [96, 96, 96, 97, 97, 97]);
    assert_eq!(world.open_scans(), 0);
}

#[test]
fn steps_are_short_while_key_operations_come_in_between() {
    let mut world = World::with(1, |config| config.scan_step_rows = 8);
    world.write(txn(1), (0..24).map(|id| insert(id, id)).collect());
    let continued = |world: &World| {
        let counts = world.nodes[&1].shared.messages.by_name();
        counts.iter().find(|count| count.name == "Continue scans").map_or(0, |count| count.sent)
    };
    let steps = |world: &mut World, number| {
        let before = continued(world);
        assert_eq!(world.scan(heap(number)).unwrap().len(), 24);
        continued(world) - before
    };
    assert_eq!(steps(&mut world, 1), 3);
    let shared = &mut world.nodes.get_mut(&1).unwrap().shared;
    shared.schedule.operation(shared.now);
    assert_eq!(steps(&mut world, 2), 12);
}

#[test]
fn a_batch_has_as_many_rows_as_are_asked_for_and_no_more_than_are_sent() {
    let mut world = World::with(1, |config| config.scan_batch_rows = 5);
    world.write(txn(1), (0..20).map(|id| insert(id, id)).collect());
    // The second batch is a quarter of the first one, as that was nearly enough, and they grow.
    let expected = [
        (Some(3), [3, 1, 2, 4]),
        (Some(7), [5, 2, 4, 5]),
        (Some(0), [1, 1, 1, 1]),
        (None, [5, 5, 5, 5]),
    ];
    for (asked, sent) in expected {
        let request = ScanRequest { batch_rows: asked, ..by_index(1, ScanOrder::Ascending) };
        let mut lens = vec![world.open(request.clone()).expect("a first batch").rows.len()];
        lens.extend((1..4).map(|_| world.next(1).expect("a further one").rows.len()));
        assert_eq!(lens, sent, "{asked:?}");
        world.scan_message(ScanMessage::Close { scan: scan_id(1), partition: P });
        assert_eq!(world.scan(request).unwrap().len(), 20);
    }
}

#[test]
fn a_scan_sees_its_transactions_changes_up_to_a_point() {
    let mut world = World::with(2, small_batches);
    world.write(txn(1), (0..6).map(|id| insert(id, id * 10)).collect());
    world.execute(txn(2), vec![add(0, 35), delete(1), insert(7, 5), add(7, 1), delete(2)]);
    world.execute(txn(3), vec![insert(8, 80), add(5, 1)]);
    let scan = |world: &mut World, seen_to, request| {
        let request = world.inside(txn(2), seen_to, request);
        let mut rows = world.scan(request).unwrap();
        let given = rows.clone();
        rows.sort_unstable();
        (given, rows)
    };
    let (_, rows) = scan(&mut world, 3, heap(1));
    assert_eq!(rows, [(0, 35), (2, 20), (3, 30), (4, 40), (5, 50), (7, 5)]);
    let (_, rows) = scan(&mut world, 9, heap(2));
    assert_eq!(rows, [(0, 35), (3, 30), (4, 40), (5, 50), (7, 6)]);
    let expected = [(7, 6), (3, 30), (0, 35), (4, 40), (5, 50)];
    let (given, _) = scan(&mut world, 9, by_index(3, ScanOrder::Ascending));
    assert_eq!(given, expected);
    let (given, _) = scan(&mut world, 9, by_index(4, ScanOrder::Descending));
    assert!(given.iter().eq(expected.iter().rev()));
    let (_, rows) = scan(&mut world, 0, heap(5));
    assert_eq!(rows.len(), 6, "before all its changes");
    world.abort(txn(2));
    world.abort(txn(3));
    world.check_quiet();
}

#[test]
fn keys_travel_only_where_somebody_merges_by_them() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    for keys in [true, false] {
        let request = by_index(u64::from(keys) + 1, ScanOrder::Ascending);
        let batch = world.open(ScanRequest { keys, ..request }).expect("all rows");
        assert_eq!(batch.rows.len(), 2);
        assert!(batch.rows.iter().all(|(key, _)| key.is_empty() != keys), "{:?}", batch.rows);
    }
}

#[test]
fn locking_scans_wait_skip_or_refuse() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..5).map(|id| insert(id, id)).collect());
    world.execute(txn(2), vec![add(1, 10)]);
    let request = world.locking(txn(3), WaitPolicy::Skip, 1);
    assert_eq!(world.scan(request).unwrap(), [(0, 0), (2, 2), (3, 3), (4, 4)]);
    world.abort(txn(3));
    let request = world.locking(txn(4), WaitPolicy::Refuse, 2);
    assert_eq!(world.scan(request), Err(ErrorCode::LockUnavailable));
    world.abort(txn(4));
    // Waits at the second row: what was found before is sent first.
    let request = world.locking(txn(5), WaitPolicy::Wait, 3);
    let first = world.open(request).expect("the rows before the locked one");
    assert_eq!((first.rows.len(), first.status), (1, ScanStatus::More));
    assert!(world.next(3).is_none());
    world.commit(txn(2));
    let batch = world.batch().expect("the wait is over");
    assert_eq!(values_of(batch.rows.row(0)), (1, 11), "as it is after the wait");
    assert_eq!(world.next(3).unwrap().rows.len(), 2);
    // Another transaction meets the locks of the scan.
    let answers = world.execute(txn(6), vec![read(4, LockMode::Shared, WaitPolicy::Refuse)]);
    assert_eq!(answers, [Err(ErrorCode::LockUnavailable)]);
    assert_eq!(world.next(3).unwrap().status, ScanStatus::Finished);
    world.commit(txn(5));
    world.abort(txn(6));
    world.check_quiet();
    assert_eq!(world.open_scans(), 0);
}

#[test]
fn each_wait_of_a_scan_is_searched_by_a_search_of_its_own() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..5).map(|id| insert(id, id)).collect());
    world.execute(txn(2), vec![add(0, 10)]);
    world.execute(txn(3), vec![add(1, 10)]);
    world.take_others();
    let request = world.locking(txn(4), WaitPolicy::Wait, 1);
    world.tell(CLIENT, participant(1), Message::Scan(ScanMessage::Open(Box::new(request))));
    let searched = |world: &mut World| {
        world.run();
        let sent = world.take_others().into_iter();
        let of_search = |message| match message {
            Message::Coordinator(CoordinatorMessage::DeadlockProbe { search, blockers }) => {
                Some((search.origin, blockers))
            }
            _ => None,
        };
        sent.filter_map(of_search).collect::<Vec<_>>()
    };
    let first = searched(&mut world);
    world.commit(txn(2));
    let second = searched(&mut world);
    let [(first, of_first)] = &first[..] else { panic!("{first:?}") };
    let [(second, of_second)] = &second[..] else { panic!("{second:?}") };
    assert_eq!((&of_first[..], &of_second[..]), (&[txn(2)][..], &[txn(3)][..]));
    assert_ne!(first, second, "who has passed the first on passes the second on too");
    world.abort(txn(4));
    world.abort(txn(3));
    world.check_quiet();
}

#[test]
fn a_scan_whose_lock_times_out_fails() {
    let mut world = World::with(1, small_batches);
    let config = world.nodes[&1].shared.config.clone();
    world.write(txn(1), vec![insert(1, 1)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let request = world.locking(txn(3), WaitPolicy::Wait, 1);
    assert!(world.open(request).is_none());
    world.pass(config.deadlock_check_after);
    let reported = world.take_others();
    assert!(matches!(
        reported[..],
        [Message::Coordinator(CoordinatorMessage::Waiting { wait, .. })]
            if wait > wire::SCAN_WAITS_FROM
    ));
    world.pass(config.lock_timeout);
    let failed = world.batch().expect("a last word");
    assert!(matches!(failed.status, ScanStatus::Failed(r) if r.code == ErrorCode::LockTimeout));
    let lock_wait = Some(config.deadlock_check_after.divided_by(2));
    let request = world.locking(txn(3), WaitPolicy::Wait, 2);
    assert!(world.open(ScanRequest { lock_wait, ..request }).is_none());
    world.pass(config.deadlock_check_after);
    let failed = world.batch().expect("this one waits as long as its request says");
    assert!(matches!(failed.status, ScanStatus::Failed(r) if r.code == ErrorCode::LockTimeout));
    world.abort(txn(3));
    world.abort(txn(2));
    world.check_quiet();
}

#[test]
fn scans_end_with_their_transaction_and_their_client() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..9).map(|id| insert(id, id)).collect());
    let request = world.locking(txn(2), WaitPolicy::Wait, 1);
    world.open(request).unwrap();
    world.abort(txn(2));
    world.take_others();
    let next = world.next(1).expect("an answer");
    assert!(matches!(next.status, ScanStatus::Failed(r) if r.code == ErrorCode::ScanAborted));
    world.open(heap(2)).unwrap();
    world.open(heap(3)).unwrap();
    world.scan_message(ScanMessage::Close { scan: scan_id(3), partition: P });
    assert_eq!(world.open_scans(), 1);
    let gone = Message::LinkDown { node: CLIENT.node, incarnation: Incarnation(1), closed: true };
    world.tell(CLIENT, participant(1), gone);
    world.run();
    assert_eq!(world.open_scans(), 0);
    world.check_quiet();
}

#[test]
fn what_a_scan_may_not_do_is_refused() {
    let mut world = World::with(2, |config| config.scans_max = 1);
    world.write(txn(1), (0..300).map(|id| insert(id, id)).collect());
    let source = ScanSource::Index {
        index: IndexId(99),
        lower: None,
        upper: None,
        order: ScanOrder::Ascending,
    };
    let nested = (0..100).fold(Expression::Column(ColumnId(0)), |e, _| Expression::Not(e.into()));
    let mut elsewhere = world.inside(txn(2), 0, heap(1));
    elsewhere.chain = elsewhere.chain.iter().rev().copied().collect();
    let cases = [
        (ScanRequest { source, ..heap(1) }, ErrorCode::UnknownIndex),
        (ScanRequest { table_version: 2, ..heap(1) }, ErrorCode::SchemaChanged),
        (ScanRequest { lock: LockMode::Shared, ..heap(1) }, ErrorCode::BadRequest),
        (ScanRequest { filter: Some(nested), ..heap(1) }, ErrorCode::BadRequest),
        (ScanRequest { snapshot: Some(Epoch(3)), ..heap(1) }, ErrorCode::SnapshotTooOld),
        (elsewhere, ErrorCode::StaleRoute),
    ];
    for (at, (request, code)) in cases.into_iter().enumerate() {
        assert_eq!(world.scan(request), Err(code), "case {at}");
    }
    world.open(heap(1)).unwrap();
    assert_eq!(world.scan(heap(2)), Err(ErrorCode::ScanLimit));
    // Opened anew under its name, it takes its own place.
    assert_eq!(world.scan(heap(1)).unwrap().len(), 300);
    world.nodes.get_mut(&1).unwrap().shared.lease.set(Instant::ZERO);
    assert_eq!(world.scan(heap(3)), Err(ErrorCode::NotServing));
}

#[test]
fn snapshots_read_what_was_committed_in_their_epoch() {
    let mut world = World::with(2, small_batches);
    world.write(txn(1), (0..6).map(|id| insert(id, id)).collect());
    world.next_epoch(&[5]);
    world.write(txn(2), vec![add(0, 100), delete(1), insert(9, 9), add(2, 100)]);
    world.write(txn(3), vec![insert(1, 77), delete(2)]);
    let at = |request| ScanRequest { snapshot: Some(Epoch(5)), ..request };
    let before: Vec<(i64, i64)> = (0..6).map(|id| (id, id)).collect();
    let mut rows = world.scan(at(heap(1))).unwrap();
    rows.sort_unstable();
    assert_eq!(rows, before);
    assert_eq!(world.scan(at(by_index(2, ScanOrder::Ascending))).unwrap(), before);
    let rows = world.scan(at(by_index(3, ScanOrder::Descending))).unwrap();
    assert!(rows.iter().eq(before.iter().rev()));
    let now = world.scan(by_index(4, ScanOrder::Ascending)).unwrap();
    assert_eq!(now, [(3, 3), (4, 4), (5, 5), (9, 9), (1, 77), (0, 100)]);
    world.next_epoch(&[]);
    assert_eq!(world.scan(at(heap(5))), Err(ErrorCode::SnapshotTooOld));
    world.run();
    let bytes: u64 =
        world.nodes[&1].participant.partitions().map(|partition| partition.version_bytes()).sum();
    assert_eq!(bytes, 0, "old images go with the last snapshot");
    world.check_quiet();
}

#[test]
fn direct_reads_need_a_lease_and_a_complete_replica() {
    let mut world = World::new(2);
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.write(txn(1), vec![insert(1, 10)]);
    world.next_epoch(&[5]);
    world.write(txn(2), vec![add(1, 1)]);
    let ask = |world: &mut World, node: u16, snapshot: Option<u64>| {
        world.take_others();
        let reads = [1, 2]
            .map(|id| KeyRead { partition: P, key: key(id), projection: Projection::All })
            .to_vec();
        let request =
            ReadRequest { session: session(1), request: 1, snapshot: snapshot.map(Epoch), reads };
        let message = Message::Participant(ParticipantMessage::Read(Box::new(request)));
        world.tell(CLIENT, participant(node), message);
        world.run();
        let answer = world.take_others().into_iter().find_map(|message| match message {
            Message::Reply(ClientReply::Read { result, .. }) => Some(result),
            _ => None,
        });
        answer.unwrap().map_err(|refusal| refusal.code)
    };
    assert_eq!(ask(&mut world, 2, None), Ok(vec![Some(row(1, 11)), None]));
    assert_eq!(ask(&mut world, 2, Some(5)), Ok(vec![Some(row(1, 10)), None]));
    assert_eq!(ask(&mut world, 2, Some(4)), Err(ErrorCode::SnapshotTooOld));
    world.sync(3);
    world.run();
    assert_eq!(ask(&mut world, 3, None), Err(ErrorCode::StaleRoute));
    world.activate(3);
    assert_eq!(ask(&mut world, 3, None), Ok(vec![Some(row(1, 11)), None]));
    assert_eq!(ask(&mut world, 3, Some(5)), Err(ErrorCode::SnapshotTooOld));
    world.nodes.get_mut(&2).unwrap().shared.lease.set(Instant::ZERO);
    assert_eq!(ask(&mut world, 2, None), Err(ErrorCode::NotServing));
}

#[test]
fn old_images_over_their_limit_are_dropped_and_then_there_is_rest() {
    let mut world = World::with(1, |config| config.version_memory = 4_096);
    world.change(|state| {
        let table = state.tables.get_mut(&P.table).unwrap();
        let table = Arc::make_mut(table);
        (table.partition_count, table.version) = (8, 2);
    });
    // The last of many replicas has all the old images.
    let is_in_last = |world: &World, id: &i64| {
        let index = world.cluster.tables[&P.table].partition_of_key(&[Value::Int(*id)]);
        index == Some(PartitionIndex(7))
    };
    let ids: Vec<i64> = (0..1_000).filter(|id| is_in_last(&world, id)).take(60).collect();
    let partition = PartitionId { index: PartitionIndex(7), ..P };
    let of_last = |number: usize, kind| Operation {
        partition,
        table_version: 2,
        ..operation(number as u64 + 1, kind)
    };
    for number in 0..600 {
        if number % 30 == 0 {
            // A snapshot before each round of changes keeps all it has replaced.
            world.next_epoch(&(5..world.epoch.0 + 1).collect::<Vec<u64>>());
        }
        let id = ids[number % ids.len()];
        world.prepare(txn(number as u32 + 1), vec![of_last(0, upsert(id, number as i64))]);
        world.run();
        world.commit(txn(number as u32 + 1));
    }
    let participant = &world.nodes[&1].participant;
    let bytes: u64 = participant.partitions().map(|partition| partition.version_bytes()).sum();
    // Those of the changes since it was looked at last.
    assert!(bytes <= 32_000, "{bytes} bytes of old images are left");
}

#[test]
fn a_settled_scan_waits_for_what_others_have_put_into_its_range() {
    let mut world = World::with(2, small_batches);
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    // A new row, one that moves into the range, one that goes elsewhere, one that is undone.
    world.execute(txn(2), vec![insert(5, 30)]);
    world.execute(txn(3), vec![add(2, 10)]);
    world.execute(txn(4), vec![insert(6, 31)]);
    world.execute(txn(5), vec![insert(7, 30)]);
    let source = ScanSource::Index {
        index: INDEX,
        lower: bound(30, true),
        upper: bound(30, true),
        order: ScanOrder::Ascending,
    };
    let request = ScanRequest { source, lock: LockMode::Shared, settled: true, ..heap(1) };
    let unsettled = ScanRequest { settled: false, ..request.clone() };
    let unsettled = world.inside(txn(8), 0, ScanRequest { scan: scan_id(2), ..unsettled });
    assert_eq!(world.scan(unsettled).unwrap(), [], "committed rows only");
    let request = world.inside(txn(9), 0, request);
    assert!(world.open(request).is_none(), "it waits");
    world.commit(txn(2));
    assert!(world.batch().is_none(), "for all of them");
    world.abort(txn(5));
    assert!(world.batch().is_none());
    world.commit(txn(3));
    let batch = world.batch().expect("nobody is in its way any more");
    let rows: Vec<(i64, i64)> = batch.rows.rows().map(values_of).collect();
    assert_eq!((rows, batch.status), (vec![(2, 30), (5, 30)], ScanStatus::More));
    assert_eq!(world.next(1).unwrap().status, ScanStatus::Finished);
    world.abort(txn(4));
    world.abort(txn(8));
    world.abort(txn(9));
    world.check_quiet();
}

#[test]
fn only_a_locking_scan_that_waits_can_be_settled() {
    let mut world = World::new(1);
    for (lock, wait) in [
        (LockMode::Committed, WaitPolicy::Wait),
        (LockMode::Shared, WaitPolicy::Skip),
        (LockMode::Exclusive, WaitPolicy::Refuse),
    ] {
        let request = ScanRequest { lock, wait, settled: true, ..heap(1) };
        let request = world.inside(txn(1), 0, request);
        assert_eq!(world.scan(request), Err(ErrorCode::BadRequest));
    }
}

/// The rows of an index from 30 to 39, which the scan's transaction guards.
fn guarded(number: u64) -> ScanRequest {
    let (lower, upper) = (bound(30, true), bound(40, false));
    let source = ScanSource::Index { index: INDEX, lower, upper, order: ScanOrder::Ascending };
    ScanRequest { source, guarded: true, ..heap(number) }
}

#[test]
fn nobody_changes_what_is_in_a_guarded_range_until_its_transaction_ends() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 30), insert(2, 20), insert(3, 39), insert(4, 40)]);
    let request = world.inside(txn(9), 0, guarded(1));
    assert_eq!(world.scan(request).unwrap(), [(1, 30), (3, 39)]);
    // Into the range, within it, out of it, and away from it.
    world.prepare(txn(2), vec![operation(1, insert(5, 31))]);
    world.prepare(txn(3), vec![operation(1, add(1, 1))]);
    world.prepare(txn(4), vec![operation(1, add(3, 1)), operation(2, add(3, 1))]);
    world.prepare(txn(5), vec![operation(1, upsert(2, 35)), operation(2, delete(2))]);
    world.prepare(txn(6), vec![operation(1, insert(8, 30))]);
    world.run();
    // What it is not about, and its own transaction.
    world.execute(txn(7), vec![add(4, 1), insert(6, 29)]);
    world.execute(txn(9), vec![insert(7, 32)]);
    for n in 2..7 {
        assert!(!world.answered(txn(n), 1), "{n} waits");
    }
    world.abort(txn(6));
    world.commit(txn(9));
    for n in 2..6 {
        assert!(world.answered(txn(n), 1), "{n} goes on");
    }
    assert!(world.answered(txn(4), 2) && world.answered(txn(5), 2), "in the order of each row");
    for n in 2..6 {
        world.commit(txn(n));
    }
    world.commit(txn(7));
    let mut rows = world.scan(heap(3)).unwrap();
    rows.sort_unstable();
    assert_eq!(rows, [(1, 31), (3, 41), (4, 41), (5, 31), (6, 29), (7, 32)]);
    world.check_quiet();
}

/// Whoever had staged a row there, and stages another, would wait for the scan that waits for it.
#[test]
fn a_guarded_scan_waits_for_changes_under_way_and_lets_their_transactions_go_on() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 30), insert(2, 31)]);
    // One leaves the range, one comes into it.
    world.execute(txn(2), vec![add(1, 20)]);
    world.execute(txn(3), vec![insert(5, 33)]);
    let request = world.inside(txn(9), 0, guarded(1));
    assert!(world.open(request).is_none(), "it waits for both");
    world.prepare(txn(2), vec![operation(2, insert(6, 34))]);
    world.prepare(txn(4), vec![operation(1, insert(7, 35))]);
    world.run();
    assert!(world.answered(txn(2), 2), "it was in the range before");
    assert!(!world.answered(txn(4), 1), "it comes after the scan");
    world.commit(txn(2));
    assert!(world.batch().is_none(), "one is left");
    world.abort(txn(3));
    let batch = world.batch().expect("nobody is in its way any more");
    assert_eq!(batch.rows.rows().map(values_of).collect::<Vec<_>>(), [(2, 31), (6, 34)]);
    world.abort(txn(9));
    assert!(world.answered(txn(4), 1), "the guard has ended");
    world.commit(txn(4));
    world.check_quiet();
}

#[test]
fn a_transaction_that_guards_many_ranges_guards_all_rows_in_the_end() {
    let mut world = World::new(1);
    world.write(txn(1), vec![insert(1, 30)]);
    for number in 0..70_u64 {
        let source = ScanSource::Index {
            index: INDEX,
            lower: bound(number as i64, true),
            upper: bound(number as i64, true),
            order: ScanOrder::Ascending,
        };
        let request = ScanRequest { source, guarded: true, ..heap(number) };
        let request = world.inside(txn(9), 0, request);
        world.scan(request).unwrap();
    }
    world.prepare(txn(2), vec![operation(1, insert(2, 1_000))]);
    world.run();
    assert!(!world.answered(txn(2), 1), "it waits");
    world.abort(txn(9));
    assert!(world.answered(txn(2), 1));
    world.commit(txn(2));
    world.check_quiet();
}

/// The rows of a snapshot and those of the transaction are told apart by their primary keys: a slot
/// may have had another row then, and a row another slot.
#[test]
fn own_changes_are_laid_over_a_snapshot() {
    let mut world = World::with(2, small_batches);
    world.write(txn(1), (0..8).map(|id| insert(id, id)).collect());
    world.next_epoch(&[5]);
    // Slots change their rows, and rows their slots.
    world.write(txn(2), vec![delete(0), delete(1), delete(2), add(4, 10), delete(5)]);
    world.write(txn(3), vec![insert(20, 20), insert(0, 50), add(6, 10)]);
    // Of what others have changed since, what they have made anew, and what is as it was.
    let changes = vec![
        add(0, 1),
        add(4, 1),
        delete(6),
        add(7, 1),
        insert(1, 60),
        insert(30, 0),
        insert(31, 2),
        delete(31),
    ];
    let seen_to = changes.len() as u64;
    world.execute(txn(4), changes);
    world.prepare(txn(4), vec![operation(seen_to + 1, add(3, 100))]);
    world.run();
    let expected = [(30, 0), (2, 2), (3, 3), (5, 5), (7, 8), (4, 15), (0, 51), (1, 60)];
    let over = |world: &World, request| {
        let request = ScanRequest { snapshot: Some(Epoch(5)), ..request };
        world.inside(txn(4), seen_to, request)
    };
    let request = over(&world, by_index(1, ScanOrder::Ascending));
    assert_eq!(world.scan(request).unwrap(), expected);
    let request = over(&world, by_index(2, ScanOrder::Descending));
    assert!(world.scan(request).unwrap().iter().eq(expected.iter().rev()));
    let request = over(&world, heap(3));
    let mut rows = world.scan(request).unwrap();
    rows.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(rows, sorted);
    for id in 0..40 {
        let read = OperationKind::Read {
            key: key(id),
            lock: LockMode::Committed,
            wait: WaitPolicy::Wait,
            projection: Projection::All,
            snapshot: Some(Epoch(5)),
        };
        let number = seen_to + 2 + id as u64;
        world.prepare(txn(4), vec![operation(number, read)]);
        world.run();
        let found = match world.answer(txn(4), number) {
            Ok(OperationOutcome::Row(row)) => Some(values_of(&row.0)),
            Err(ErrorCode::RowNotFound) => None,
            other => panic!("{other:?}"),
        };
        let later = (id == 3).then_some((3, 103));
        let now = expected.iter().copied().find(|row| row.0 == id);
        assert_eq!(found, later.or(now));
    }
    world.abort(txn(4));
    world.check_quiet();
}

/// Such a scan looked at all changes of its transaction in each step.
#[test]
fn a_scan_over_many_changes_of_its_transaction_sees_each_row_once_and_in_order() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..60).map(|id| insert(id, id % 7)).collect());
    let mut expected: BTreeMap<i64, i64> = (0..60).map(|id| (id, id % 7)).collect();
    let mut changes = Vec::new();
    for id in 0..90 {
        match (id < 60, id % 5) {
            (true, 0) => {
                changes.push(delete(id));
                expected.remove(&id);
            }
            (true, 1 | 2) => {
                changes.push(add(id, 3));
                *expected.get_mut(&id).unwrap() += 3;
            }
            (false, 1..) => {
                changes.push(insert(id, id % 4));
                expected.insert(id, id % 4);
            }
            _ => {}
        }
    }
    let seen_to = changes.len() as u64;
    world.execute(txn(2), changes);
    // What comes later is not to be seen.
    let later = operation(seen_to + 1, upsert(3, 77));
    world.prepare(txn(2), vec![later]);
    world.run();
    let all: Vec<(i64, i64)> = expected.into_iter().collect();
    let mut found = world.scan(world.inside(txn(2), seen_to, heap(1))).unwrap();
    found.sort_unstable();
    assert_eq!(found, all);
    let mut ordered = all;
    ordered.sort_by_key(|(id, v)| (*v, *id));
    let of_values = |rows: &[(i64, i64)]| rows.iter().map(|(_, v)| *v).collect::<Vec<_>>();
    let ascending = by_index(2, ScanOrder::Ascending);
    let found = world.scan(world.inside(txn(2), seen_to, ascending)).unwrap();
    assert_eq!(of_values(&found), of_values(&ordered));
    let descending = by_index(3, ScanOrder::Descending);
    let mut back = world.scan(world.inside(txn(2), seen_to, descending)).unwrap();
    back.reverse();
    assert_eq!(back, found, "the same rows the other way round");
    world.abort(txn(2));
    world.check_quiet();
}

#[test]
fn a_scan_sees_no_change_that_its_transaction_has_undone_meanwhile() {
    let mut world = World::with(1, small_batches);
    world.write(txn(1), (0..12).map(|id| insert(id, id)).collect());
    world.execute(txn(2), (0..12).map(|id| add(id, 100)).collect());
    let first = world.open(world.inside(txn(2), 12, heap(1))).unwrap();
    let mut rows: Vec<(i64, i64)> = first.rows.rows().map(values_of).collect();
    world.order_rollback(txn(2), RollbackScope::After(OperationNumber(6)));
    world.run();
    loop {
        let batch = world.next(1).unwrap();
        rows.extend(batch.rows.rows().map(values_of));
        if batch.status == ScanStatus::Finished {
            break;
        }
    }
    let expected = |id| (id, if id < 6 { id + 100 } else { id });
    assert_eq!(rows, (0..12).map(expected).collect::<Vec<_>>());
    world.abort(txn(2));
    world.check_quiet();
}

impl World {
    /// What a sample of slots answers: where to go on, and the keys of the rows.
    fn sample(&mut self, from: u32, step: u32) -> (Option<u64>, Vec<i64>) {
        let what = wire::Inspection::Sample { partition: P, from: model::RowId(from), step };
        let ask = wire::InspectMessage::Ask { session: session(50), request: 1, what };
        self.take_others();
        self.tell(CLIENT, participant(1), Message::Inspect(Box::new(ask)));
        self.run();
        let answers = self.take_others().into_iter().filter_map(|message| match message {
            Message::Inspect(answer) => Some(*answer),
            _ => None,
        });
        let answers: Vec<_> = answers.collect();
        let [wire::InspectMessage::Answer { rows, .. }] = answers.as_slice() else {
            panic!("{answers:?}")
        };
        let next = match rows[0][..] {
            [Value::UInt(next)] => Some(next),
            _ => None,
        };
        let key = |row: &Vec<Value>| match &row[..] {
            [Value::Bytes(row)] => values_of(row).0,
            other => panic!("{other:?}"),
        };
        (next, rows[1..].iter().map(key).collect())
    }
}

#[test]
fn a_sample_reads_every_so_many_slots_and_a_bounded_number_of_them() {
    let mut world = World::new(1);
    let slots = wire::inspect::SAMPLE_SLOTS_MAX as i64;
    for part in 0..6 {
        let rows = (part * 100..(part + 1) * 100).map(|id| insert(id, 0)).collect();
        world.write(txn(1 + part as u32), rows);
    }
    world.write(txn(50), vec![delete(3)]);
    // All rows, in two steps; an empty slot gives none.
    let (next, mut keys) = world.sample(0, 1);
    assert_eq!(next, Some(slots as u64));
    let (end, rest) = world.sample(slots as u32, 1);
    assert_eq!(end, None);
    keys.extend(rest);
    keys.sort_unstable();
    assert_eq!(keys, (0..600).filter(|id| *id != 3).collect::<Vec<_>>());
    // One row of seven, from the second slot on.
    let (end, keys) = world.sample(1, 7);
    assert_eq!((end, keys.len()), (None, 86));
    // What is beyond the last slot is no row, and a step of nothing is one of one.
    assert_eq!(world.sample(u32::MAX, u32::MAX), (None, vec![]));
    assert_eq!(world.sample(598, 0), (None, vec![598, 599]));
}
