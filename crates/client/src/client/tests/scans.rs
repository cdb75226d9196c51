//! Scans: routing, pruning, flow, merging, what is opened again.

use model::{Address, Epoch, ErrorCode, PartitionId, Value, ValueRef};
use wire::{
    ClientRequest, Envelope, LockMode, Message, ScanBatch, ScanId, ScanMessage, ScanOrder,
    ScanRequest, ScanRow, ScanSource, ScanStatus,
};

use super::{Sim, aborted};
use crate::event::{ClientResult, Token};
use crate::harness::{BASE, ORDERED, ints, keys_in, partition};
use crate::request::{IndexBound, ScanRange, ScanSpec};

struct Open {
    to: Address,
    request: ScanRequest,
}

fn opens(sent: Vec<Envelope>) -> Vec<Open> {
    let open = |envelope: Envelope| match *envelope.message {
        Message::Scan(ScanMessage::Open(request))
        | Message::Request(ClientRequest::Scan { scan: request, .. }) => {
            Open { to: envelope.to, request: *request }
        }
        other => panic!("{other:?}"),
    };
    sent.into_iter().map(open).collect()
}

impl Sim {
    fn scan(&mut self, spec: ScanSpec) -> (Token, Vec<Open>) {
        let token = self.client.scan(&mut self.world.ctx(), self.session, spec);
        (token, opens(self.world.sent()))
    }

    /// Delivers rows `(id, 0, v)` whose index key is `v`.
    fn batch(&mut self, open: &Open, values: &[i64], status: ScanStatus) {
        let table = self.world.shared.cluster.tables[&BASE].clone();
        let row = |v: &i64| {
            let key = table.key_of_values(&[model::ColumnId(2)], &ints(&[*v])).expect("a key");
            let row = table.layout().encode_values(&ints(&[*v, 0, *v])).expect("a row");
            ScanRow { key: key.0, row }
        };
        let rows = values.iter().map(row).collect();
        let (scan, partition) = (open.request.scan, open.request.partition);
        let batch = ScanBatch { scan, partition, rows, status, blocks: Vec::new(), examined: 0 };
        let from = self.world.shared.cluster.primary(partition).expect("a primary");
        let from = if open.to.actor == model::ActorKind::Coordinator { from } else { open.to };
        self.deliver(from, Message::Scan(ScanMessage::Batch(Box::new(batch))));
    }

    fn rows(&mut self) -> (Vec<i64>, bool) {
        let ClientResult::ScanRows { rows, finished, .. } = self.event() else { panic!() };
        let values = rows.iter().map(|row| match row.get(2) {
            ValueRef::Int(v) => v,
            _ => panic!("{row:?}"),
        });
        (values.collect(), finished)
    }

    fn asked_next(&mut self) -> Vec<PartitionId> {
        let next = |envelope: Envelope| match *envelope.message {
            Message::Scan(ScanMessage::Next { partition, .. }) => partition,
            other => panic!("{other:?}"),
        };
        self.world.sent().into_iter().map(next).collect()
    }

    fn closed(&mut self) -> Vec<(ScanId, PartitionId)> {
        let closed = |envelope: Envelope| match *envelope.message {
            Message::Scan(ScanMessage::Close { scan, partition }) => Some((scan, partition)),
            _ => None,
        };
        self.world.sent().into_iter().filter_map(closed).collect()
    }

    fn reopened(&mut self) -> Vec<Open> {
        for _ in 0..50 {
            let mut sent = self.world.sent();
            sent.retain(|envelope| {
                !matches!(
                    *envelope.message,
                    Message::Control(_)
                        | Message::Scan(ScanMessage::Close { .. })
                        | Message::Request(ClientRequest::Abort { .. })
                )
            });
            if !sent.is_empty() {
                return opens(sent);
            }
            self.tick();
        }
        panic!("not opened again");
    }
}

fn ordered(order: ScanOrder) -> ScanSpec {
    ScanSpec::index(BASE, ORDERED, order)
}

#[test]
fn ordered_streams_are_merged_and_asked_for_more_when_empty() {
    for order in [ScanOrder::Ascending, ScanOrder::Descending] {
        let mut sim = Sim::new();
        let (token, opened) = sim.scan(ordered(order));
        assert_eq!(opened.len(), 4);
        let sign = |values: &[i64]| -> Vec<i64> {
            let flip = if order == ScanOrder::Ascending { 1 } else { -1 };
            values.iter().map(|v| v * flip).collect()
        };
        sim.batch(&opened[0], &sign(&[1, 5, 9]), ScanStatus::More);
        sim.batch(&opened[1], &sign(&[2, 3]), ScanStatus::More);
        sim.batch(&opened[2], &[], ScanStatus::Finished);
        sim.no_event();
        sim.batch(&opened[3], &sign(&[4]), ScanStatus::Finished);
        // Whether 4 comes next depends on what the second stream brings.
        assert_eq!(sim.rows(), (sign(&[1, 2, 3]), false));
        assert_eq!(sim.asked_next(), vec![opened[1].request.partition]);
        sim.batch(&opened[1], &sign(&[8]), ScanStatus::Finished);
        sim.no_event();
        sim.client.scan_next(&mut sim.world.ctx(), token);
        assert_eq!(sim.rows(), (sign(&[4, 5, 8, 9]), false));
        assert_eq!(sim.asked_next(), vec![opened[0].request.partition]);
        sim.client.scan_next(&mut sim.world.ctx(), token);
        sim.batch(&opened[0], &[], ScanStatus::Finished);
        assert_eq!(sim.rows(), (vec![], true));
        assert_eq!(sim.client.open_requests(), 0);
    }
}

#[test]
fn a_scan_with_partition_keys_visits_their_partitions_once() {
    let mut sim = Sim::new();
    let cluster = sim.world.shared.cluster.clone();
    let keys = keys_in(&cluster, BASE, 3);
    let of = |keys: &[i64]| ScanSpec {
        partition_keys: Some(keys.iter().map(|key| ints(&[*key])).collect()),
        ..ScanSpec::heap(BASE)
    };
    let (_, opened) = sim.scan(of(&keys[1..2]));
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].request.partition, partition(&cluster, BASE, keys[1]));
    sim.batch(&opened[0], &[7], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![7], true));
    let of_key = |key: i64| partition(&cluster, BASE, key);
    let other = (0..100).find(|key| of_key(*key) != of_key(keys[0])).expect("another partition");
    let (_, opened) = sim.scan(of(&[other, keys[0], other, keys[1]]));
    let mut wanted = [keys[0], other].map(of_key);
    wanted.sort();
    assert_eq!(opened.iter().map(|open| open.request.partition).collect::<Vec<_>>(), wanted);
    for open in &opened {
        sim.batch(open, &[], ScanStatus::Finished);
    }
    assert_eq!(sim.rows(), (vec![], true));
    // No row can have one of no keys.
    let (_, opened) = sim.scan(of(&[]));
    assert!(opened.is_empty());
    assert_eq!(sim.rows(), (vec![], true));
}

#[test]
fn bounds_are_encoded_and_bad_specs_are_refused() {
    let mut sim = Sim::new();
    let range = |lower: Vec<Value>| ScanRange::Index {
        index: ORDERED,
        lower: Some(IndexBound::including(lower)),
        upper: None,
        order: None,
    };
    let heap = ScanSpec::heap(BASE);
    let (_, opened) = sim.scan(ScanSpec { range: range(ints(&[5])), ..heap.clone() });
    let ScanSource::Index { lower: Some((bytes, true)), upper: None, .. } =
        &opened[0].request.source
    else {
        panic!()
    };
    assert_eq!(bytes.len(), 8);
    let bad = [
        (ScanSpec { range: range(ints(&[5, 6])), ..heap.clone() }, ErrorCode::ValueOutOfRange),
        (ScanSpec { partition_keys: Some(vec![vec![]]), ..heap.clone() }, ErrorCode::BadRequest),
        (ScanSpec { lock: LockMode::Shared, ..heap.clone() }, ErrorCode::BadRequest),
        (
            ScanSpec {
                snapshot: Some(Epoch(1)),
                in_transaction: true,
                lock: LockMode::Shared,
                ..heap.clone()
            },
            ErrorCode::BadRequest,
        ),
        (ScanSpec::index(BASE, model::IndexId(99), ScanOrder::Ascending), ErrorCode::UnknownIndex),
    ];
    for (spec, code) in bad {
        let (_, opened) = sim.scan(spec);
        assert!(opened.is_empty());
        let ClientResult::Failed(refusal) = sim.event() else { panic!() };
        assert_eq!(refusal.code, code);
    }
}

#[test]
fn a_limit_ends_the_scan_and_closes_its_streams() {
    let mut sim = Sim::new();
    let (_, opened) = sim.scan(ScanSpec { limit: Some(3), ..ScanSpec::heap(BASE) });
    assert!(opened.iter().all(|open| open.request.limit == Some(3)));
    // Streams that are not merged are not held back for one another.
    assert!(opened.iter().all(|open| open.request.batch_rows.is_none()));
    sim.batch(&opened[0], &[1, 2, 3], ScanStatus::More);
    assert_eq!(sim.rows(), (vec![1, 2, 3], true));
    assert_eq!(sim.closed().len(), 4);
    // A batch that was on its way is answered with another close.
    sim.batch(&opened[1], &[4], ScanStatus::More);
    sim.no_event();
    assert_eq!(sim.closed().len(), 1);
}

#[test]
fn unordered_streams_are_opened_a_few_at_a_time() {
    let options = crate::ClientOptions { scan_partitions_max: 2, ..Default::default() };
    let mut sim = Sim::with(options);
    let (token, opened) = sim.scan(ScanSpec::heap(BASE));
    assert_eq!(opened.len(), 2);
    sim.batch(&opened[1], &[1], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![1], false));
    sim.client.scan_next(&mut sim.world.ctx(), token);
    let third = opens(sim.world.sent());
    assert_eq!(third.len(), 1);
    sim.batch(&opened[0], &[], ScanStatus::Finished);
    let fourth = opens(sim.world.sent());
    sim.batch(&third[0], &[], ScanStatus::Finished);
    sim.batch(&fourth[0], &[], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![], true));
}

#[test]
fn a_scan_without_rows_yet_is_opened_again_and_a_later_one_ends() {
    let mut sim = Sim::new();
    let (token, opened) = sim.scan(ordered(ScanOrder::Ascending));
    sim.batch(&opened[0], &[1], ScanStatus::More);
    sim.batch(&opened[1], &[], ScanStatus::Failed(ErrorCode::StaleRoute.into()));
    sim.no_event();
    assert_eq!(sim.closed().len(), 3);
    let opened = sim.reopened();
    assert_eq!(opened.len(), 4);
    for open in &opened {
        sim.batch(open, &[5], ScanStatus::More);
    }
    assert_eq!(sim.rows(), (vec![5], false));
    sim.client.scan_next(&mut sim.world.ctx(), token);
    sim.link_down(opened[0].to.node, true);
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::ScanAborted);
    assert_eq!(sim.client.open_requests(), 0);
}

#[test]
fn a_scan_reopens_elsewhere_after_the_loss_of_a_node() {
    let mut sim = Sim::new();
    let (_, opened) = sim.scan(ScanSpec::heap(BASE));
    let lost = opened[0].to.node;
    sim.link_down(lost, true);
    let opened = sim.reopened();
    assert!(opened.iter().all(|open| open.to.node != lost));
}

#[test]
fn a_part_that_has_brought_nothing_is_read_elsewhere() {
    let mut sim = Sim::new();
    let (token, opened) = sim.scan(ScanSpec::heap(BASE));
    sim.batch(&opened[0], &[1, 2], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![1, 2], false));
    sim.client.scan_next(&mut sim.world.ctx(), token);
    sim.world.sent();
    // Its node serves no more; the others go on.
    sim.batch(&opened[1], &[], ScanStatus::Failed(ErrorCode::NotServing.into()));
    let again = opens(sim.world.sent());
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].request.partition, opened[1].request.partition);
    assert_ne!(again[0].to.node, opened[1].to.node);
    // Nobody listens to the first one any more.
    sim.batch(&opened[1], &[9], ScanStatus::Finished);
    sim.batch(&again[0], &[3], ScanStatus::More);
    assert_eq!(sim.rows(), (vec![3], false));
    // In the middle there is no way out.
    sim.batch(&again[0], &[], ScanStatus::Failed(ErrorCode::NotServing.into()));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::NotServing);
}

#[test]
fn parts_of_a_lost_node_are_read_elsewhere() {
    let mut sim = Sim::new();
    let (token, opened) = sim.scan(ScanSpec::heap(BASE));
    let node = opened[1].to.node;
    let (lost, kept): (Vec<&Open>, Vec<&Open>) =
        opened.iter().partition(|open| open.to.node == node);
    assert!(!kept.is_empty(), "both nodes are read from");
    sim.batch(kept[0], &[1], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![1], false));
    sim.client.scan_next(&mut sim.world.ctx(), token);
    sim.world.sent();
    sim.link_down(node, true);
    let again = sim.reopened();
    assert_eq!(again.len(), lost.len());
    assert!(again.iter().all(|open| open.to.node != node));
    for open in again.iter().chain(kept.into_iter().skip(1)) {
        sim.batch(open, &[], ScanStatus::Finished);
    }
    assert_eq!(sim.rows(), (vec![], true));
}

#[test]
fn an_index_a_replica_has_not_built_yet_is_waited_for() {
    let mut sim = Sim::new();
    let (_, opened) = sim.scan(ordered(ScanOrder::Ascending));
    sim.batch(&opened[0], &[], ScanStatus::Failed(ErrorCode::UnknownIndex.into()));
    let opened = sim.reopened();
    for open in &opened {
        sim.batch(open, &[], ScanStatus::Finished);
    }
    assert_eq!(sim.rows(), (vec![], true));
}

#[test]
fn a_locking_scan_runs_in_the_transaction_of_one_coordinator() {
    let mut sim = Sim::new();
    let spec = ScanSpec { lock: LockMode::Exclusive, in_transaction: true, ..ScanSpec::heap(BASE) };
    let (token, opened) = sim.scan(spec);
    assert_eq!(opened.len(), 4);
    assert!(opened.iter().all(|open| open.to == opened[0].to));
    let transaction = sim.client.transaction(sim.session).expect("begun");
    sim.batch(&opened[2], &[1, 2], ScanStatus::More);
    assert_eq!(sim.rows(), (vec![1, 2], false));
    assert!(sim.world.sent().is_empty(), "rows are not locked ahead");
    sim.client.scan_next(&mut sim.world.ctx(), token);
    assert_eq!(sim.asked_next(), vec![opened[2].request.partition]);
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    let commit = sim.world.sent_one();
    assert_eq!(commit.0, opened[0].to);
    sim.answer(&commit, vec![], wire::TransactionState::Committed(Epoch(0)));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::ScanAborted);
    let ClientResult::Committed { transaction: named, .. } = sim.event() else { panic!() };
    assert_eq!(named, Some(transaction));
}

#[test]
fn the_end_of_a_transaction_finds_its_own_scans_and_those_that_are_open() {
    let mut sim = Sim::new();
    let spec = ScanSpec { lock: LockMode::Exclusive, in_transaction: true, ..ScanSpec::heap(BASE) };
    for _ in 0..100 {
        let (token, _) = sim.scan(spec.clone());
        sim.client.scan_close(&mut sim.world.ctx(), token);
        sim.world.sent();
    }
    let (first, _) = sim.scan(spec.clone());
    let (second, opened) = sim.scan(spec);
    let listed = &sim.client.sessions[sim.session.0 as usize].scans;
    assert_eq!(listed, &[first, second], "those that have ended are forgotten");
    sim.client.check_invariants();
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    let commit = sim.world.sent_one();
    assert_eq!(commit.0, opened[0].to);
    sim.answer(&commit, vec![], wire::TransactionState::Committed(Epoch(0)));
    for _ in [first, second] {
        let ClientResult::Failed(refusal) = sim.event() else { panic!() };
        assert_eq!(refusal.code, ErrorCode::ScanAborted);
    }
    assert!(matches!(sim.event(), ClientResult::Committed { .. }));
    sim.client.check_invariants();
}

#[test]
fn a_locking_scan_asks_participants_whose_batch_is_late() {
    let mut sim = Sim::new();
    let spec = ScanSpec { lock: LockMode::Exclusive, in_transaction: true, ..ScanSpec::heap(BASE) };
    let (token, opened) = sim.scan(spec);
    sim.batch(&opened[0], &[1], ScanStatus::Finished);
    assert_eq!(sim.rows(), (vec![1], false));
    let late: Vec<PartitionId> = opened[1..].iter().map(|open| open.request.partition).collect();
    for _ in 0..2 {
        // The timer may be set from before, and find nothing to do at first.
        let asked = (0..2).find_map(|_| {
            sim.tick();
            Some(sim.asked_next()).filter(|asked| !asked.is_empty())
        });
        assert_eq!(asked.as_ref(), Some(&late));
    }
    // One was at work, for another one the link was down and it has closed the scan.
    sim.batch(&opened[1], &[2], ScanStatus::Finished);
    sim.batch(&opened[1], &[], ScanStatus::Failed(ErrorCode::ScanAborted.into()));
    sim.no_event();
    sim.client.scan_next(&mut sim.world.ctx(), token);
    assert_eq!(sim.rows(), (vec![2], false));
    sim.batch(&opened[2], &[], ScanStatus::Failed(ErrorCode::ScanAborted.into()));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::ScanAborted);
}

#[test]
fn a_locking_scan_that_was_all_of_its_transaction_begins_anew() {
    let mut sim = Sim::new();
    let spec = ScanSpec { lock: LockMode::Shared, in_transaction: true, ..ScanSpec::heap(BASE) };
    let (_, opened) = sim.scan(spec.clone());
    let transaction = sim.client.transaction(sim.session).expect("begun");
    sim.link_down(opened[0].to.node, true);
    let again = sim.reopened();
    assert_ne!(again[0].to.node, opened[0].to.node);
    let second = sim.client.transaction(sim.session).expect("begun");
    assert_eq!(second.number, transaction.number + 1);
    // The coordinator ends it unasked.
    let reply = wire::ClientReply::Transaction {
        transaction: second,
        request: 0,
        results: vec![],
        state: aborted(ErrorCode::MembershipChanged),
    };
    sim.deliver(again[0].to, Message::Reply(reply));
    let third = sim.reopened();
    assert_eq!(sim.client.transaction(sim.session).expect("begun").number, second.number + 1);
    sim.batch(&third[0], &[1], ScanStatus::Finished);
    sim.rows();
    let reply = wire::ClientReply::Transaction {
        transaction: sim.client.transaction(sim.session).expect("begun"),
        request: 0,
        results: vec![],
        state: aborted(ErrorCode::MembershipChanged),
    };
    sim.deliver(third[0].to, Message::Reply(reply));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::MembershipChanged);
}

#[test]
fn a_closed_scan_says_nothing_more() {
    let mut sim = Sim::new();
    let (token, opened) = sim.scan(ScanSpec::heap(BASE));
    sim.batch(&opened[0], &[1], ScanStatus::More);
    sim.client.scan_close(&mut sim.world.ctx(), token);
    sim.no_event();
    assert_eq!(sim.closed().len(), 4);
    sim.client.scan_next(&mut sim.world.ctx(), token);
    assert!(sim.world.sent().is_empty());
}

#[test]
fn a_data_node_that_does_not_join_is_told_from_one_that_does() {
    let spec = || {
        let program = vector::Program {
            inputs: vec![],
            references: None,
            nodes: vec![],
            filter: vec![],
            yields: vector::Yield::Rows(vec![]),
            members: vec![],
            top: None,
        };
        let join = vector::JoinPlan { lookups: vec![], result: program.clone() };
        let (program, join) = (Some(program.into()), Some(join.into()));
        ScanSpec { program, join, ..ScanSpec::heap(BASE) }
    };
    let mut sim = Sim::new();
    let (_, opened) = sim.scan(spec());
    assert!(opened[0].request.join.is_some());
    // As the joiner of the worker answers.
    let joiner = Address { actor: model::ActorKind::Joiner, ..opened[0].to };
    let beside = Open { to: joiner, request: opened[0].request.clone() };
    sim.batch(&beside, &[], ScanStatus::Finished);
    sim.no_event();
    // As a participant of an older version does.
    sim.batch(&opened[1], &[], ScanStatus::Finished);
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::OlderNode);
    // Whoever has the other streams by now is told that they are over.
    let closed = sim.closed();
    assert_eq!(closed.len(), 6, "at participants and joiners: {closed:?}");
}
