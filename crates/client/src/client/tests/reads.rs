//! Committed reads and snapshots: replicas, rounds, repetition.

use std::sync::Arc;

use model::{
    Address, ColumnId, Config, Epoch, ErrorCode, Incarnation, NodeId, Refusal, Row, Table, TableId,
    Value,
};
use stdx::Duration;
use wire::{ClientReply, ClientRequest, Message, ParticipantMessage, Projection, ReadRequest};

use super::Sim;
use crate::client::encode::{Decoders, RowDecoder};
use crate::event::ClientResult;
use crate::harness::{BASE, HIDDEN, UNIQUE, ints, keys_in};
use crate::request::ClientRead;

type Asked = (Address, ReadRequest);

impl Sim {
    /// Sends a read; the requests to replicas.
    fn read(&mut self, reads: Vec<ClientRead>, snapshot: Option<Epoch>) -> Vec<Asked> {
        self.client.read(&mut self.world.ctx(), self.session, reads, snapshot);
        self.reads_sent()
    }

    fn reads_sent(&mut self) -> Vec<Asked> {
        let to_read = |envelope: wire::Envelope| match *envelope.message {
            Message::Participant(ParticipantMessage::Read(request)) => (envelope.to, *request),
            other => panic!("{other:?}"),
        };
        self.world.sent().into_iter().map(to_read).collect()
    }

    fn next_read(&mut self) -> Asked {
        match self.next_sent() {
            (to, Message::Participant(ParticipantMessage::Read(request))) => (to, *request),
            other => panic!("{other:?}"),
        }
    }

    fn answer_read(&mut self, asked: &Asked, result: Result<Vec<Option<Row>>, Refusal>) {
        let ReadRequest { session, request, .. } = asked.1;
        self.deliver(asked.0, Message::Reply(ClientReply::Read { session, request, result }));
    }

    fn row(&self, table: TableId, values: &[i64]) -> Option<Row> {
        let layout = self.world.shared.cluster.tables[&table].layout();
        Some(layout.encode_values(&ints(values)).expect("a row"))
    }
}

#[test]
fn replicas_nearby_are_read_as_long_as_they_live() {
    for (nearby, other) in [(1, 2), (2, 1)] {
        let mut sim = Sim::new();
        let mut config = Config::clone(&sim.world.shared.config);
        config.nearby = vec![NodeId(nearby)];
        sim.world.shared.config = Arc::new(config);
        let cluster = sim.world.shared.cluster.clone();
        let keys: Vec<i64> = (0..4).map(|index| keys_in(&cluster, BASE, index)[0]).collect();
        let reads = || keys.iter().map(|key| ClientRead::primary(BASE, ints(&[*key]))).collect();
        let asked = sim.read(reads(), None);
        assert!(asked.iter().all(|(to, _)| to.node == NodeId(nearby)), "{asked:?}");
        let (node, incarnation) = (NodeId(nearby), Incarnation(1));
        sim.deliver(
            Address { node, ..asked[0].0 },
            Message::LinkDown { node, incarnation, closed: true },
        );
        sim.world.sent();
        let session = sim.client.open_session(&mut sim.world.ctx()).expect("there is room");
        sim.client.read(&mut sim.world.ctx(), session, reads(), None);
        let asked = sim.reads_sent();
        assert!(asked.iter().all(|(to, _)| to.node == NodeId(other)), "{asked:?}");
    }
}

#[test]
fn keys_are_read_with_one_request_per_replica() {
    let mut sim = Sim::new();
    let cluster = sim.world.shared.cluster.clone();
    let keys: Vec<i64> = (0..4).map(|index| keys_in(&cluster, BASE, index)[0]).collect();
    let reads = keys.iter().chain(&keys).map(|key| ClientRead::primary(BASE, ints(&[*key])));
    let asked = sim.read(reads.collect(), None);
    assert_eq!(asked.iter().map(|(_, request)| request.reads.len()).sum::<usize>(), 8);
    assert!(asked.len() <= 4, "{}", asked.len());
    for (at, request) in asked.iter().enumerate() {
        sim.no_event();
        let rows = request.1.reads.iter().map(|read| {
            let key = keys.iter().find(|key| {
                let table = &cluster.tables[&BASE];
                table.primary_key_of(&ints(&[**key])).expect("a key") == read.key
            });
            // Those of one partition have no row.
            (read.partition.index.0 != 2).then(|| sim.row(BASE, &[*key.expect("known"), 1, 2]))?
        });
        let rows = rows.collect();
        sim.answer_read(&asked[at], Ok(rows));
    }
    let ClientResult::Read(rows) = sim.event() else { panic!() };
    assert_eq!(rows.len(), 8);
    for (at, row) in rows.iter().enumerate() {
        let key = keys[at % 4];
        let expected = (at % 4 != 2).then(|| ints(&[key, 1, 2]));
        assert_eq!(*row, expected);
    }
}

#[test]
fn another_replica_is_read_when_one_is_lost_or_refuses() {
    let mut sim = Sim::new();
    let asked = sim.read(vec![ClientRead::primary(BASE, ints(&[1]))], None);
    sim.link_down(asked[0].0.node, true);
    let second = sim.next_read();
    assert_ne!(second.0.node, asked[0].0.node);
    let row = sim.row(BASE, &[1, 2, 3]);
    sim.answer_read(&asked[0], Ok(vec![None]));
    sim.no_event();
    sim.answer_read(&second, Err(ErrorCode::StaleRoute.into()));
    let third = sim.next_read();
    sim.answer_read(&third, Ok(vec![row]));
    assert_eq!(sim.event(), ClientResult::Read(vec![Some(ints(&[1, 2, 3]))]));
    let asked = sim.read(vec![ClientRead::primary(BASE, ints(&[1]))], Some(Epoch(4)));
    assert_eq!(asked[0].1.snapshot, Some(Epoch(4)));
    sim.answer_read(&asked[0], Err(ErrorCode::SnapshotTooOld.into()));
    assert!(matches!(sim.event(), ClientResult::Failed(_)));
}

#[test]
fn a_client_that_hears_of_nobody_gives_up_and_one_that_hears_of_somebody_goes_on() {
    let given_up_after = |somebody: bool| {
        let mut sim = Sim::new();
        let begun = sim.world.shared.now;
        let read = vec![ClientRead::primary(BASE, ints(&[1]))];
        let mut asked = sim.read(read, None).remove(0);
        loop {
            // As when nothing comes over a link, and none can be made.
            sim.world.shared.now = sim.world.shared.now + Duration::from_secs(1);
            if somebody {
                let (other, state) = (asked.0, sim.world.ctx().cluster().clone());
                sim.deliver(other, Message::State(state));
            }
            sim.link_down(asked.0.node, false);
            if let Some(event) = sim.client.next_event() {
                let ClientResult::Failed(refusal) = event.result else { panic!("{event:?}") };
                assert_eq!(refusal.code, ErrorCode::NodeFailed);
                return sim.world.shared.now.since(begun);
            }
            asked = sim.next_read();
        }
    };
    let patience = Config::new(vec![], vec![], 1).request_timeout;
    assert!(given_up_after(false) < patience.times(2));
    assert!(given_up_after(true) > patience.times(3), "there is somebody to ask");
}

#[test]
fn a_silent_replica_is_given_up_after_the_request_time_out() {
    let mut sim = Sim::new();
    let asked = sim.read(vec![ClientRead::primary(BASE, ints(&[1]))], None);
    let begun = sim.world.shared.now;
    let second = sim.next_read();
    let waited = sim.world.shared.now.since(begun);
    assert!(waited >= sim.world.shared.config.request_timeout, "{waited}");
    assert_ne!(second.0.node, asked[0].0.node);
}

#[test]
fn a_unique_key_is_found_by_its_entry_and_the_row_must_still_have_it() {
    let mut sim = Sim::new();
    let read = ClientRead {
        projection: Projection::Columns(vec![ColumnId(2)]),
        ..ClientRead::unique(BASE, UNIQUE, vec![Value::UInt(50)])
    };
    let entry = sim.read(vec![read.clone()], None).remove(0);
    assert_eq!(entry.1.reads[0].partition.table, HIDDEN);
    sim.answer_read(&entry, Ok(vec![sim.row(HIDDEN, &[50, 1])]));
    let base = sim.reads_sent().remove(0);
    assert_eq!(base.1.reads[0].partition.table, BASE);
    // The row has moved on to another key.
    sim.answer_read(&base, Ok(vec![sim.row(BASE, &[1, 51, 9])]));
    let entry = sim.reads_sent().remove(0);
    assert_eq!(entry.1.reads[0].partition.table, HIDDEN);
    sim.answer_read(&entry, Ok(vec![sim.row(HIDDEN, &[50, 2])]));
    let base = sim.reads_sent().remove(0);
    sim.answer_read(&base, Ok(vec![sim.row(BASE, &[2, 50, 8])]));
    assert_eq!(sim.event(), ClientResult::Read(vec![Some(ints(&[8]))]));
    let entry = sim.read(vec![read], None).remove(0);
    sim.answer_read(&entry, Ok(vec![None]));
    assert_eq!(sim.event(), ClientResult::Read(vec![None]));
}

#[test]
fn an_index_that_is_not_online_is_not_read() {
    let mut sim = Sim::new();
    sim.apply(|state| {
        let table = state.tables.get_mut(&BASE).expect("the table");
        let mut building = (**table).clone();
        building.unique_indexes[0].state = model::IndexState::Building;
        *table = Arc::new(building);
    });
    let asked = sim.read(vec![ClientRead::unique(BASE, UNIQUE, ints(&[5]))], None);
    assert!(asked.is_empty());
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::UnknownIndex);
}

#[test]
fn a_row_newer_than_the_definition_it_was_asked_by_is_read_by_the_new_one() {
    let mut sim = Sim::new();
    let asked = sim.read(vec![ClientRead::primary(BASE, ints(&[1]))], None).remove(0);
    sim.apply(|state| {
        let table = state.tables.get_mut(&BASE).expect("the table");
        let mut wider = (**table).clone();
        wider.version = 2;
        wider.columns.push(model::Column { name: "w".into(), ..wider.columns[2].clone() });
        let layout = model::RowLayout::new(1, &wider.columns);
        wider.layouts.push(Arc::new(layout));
        *table = Arc::new(wider);
    });
    sim.answer_read(&asked, Ok(vec![sim.row(BASE, &[1, 2, 3, 4])]));
    assert_eq!(sim.event(), ClientResult::Read(vec![Some(ints(&[1, 2, 3]))]));
}

#[test]
fn snapshots_are_closed_where_they_were_opened() {
    let mut sim = Sim::new();
    sim.client.open_snapshot(&mut sim.world.ctx(), sim.session);
    let (first, message) = sim.world.sent_one();
    let Message::Request(ClientRequest::OpenSnapshot { session, request }) = message else {
        panic!()
    };
    sim.link_down(first.node, false);
    let (second, message) = sim.next_sent();
    let Message::Request(ClientRequest::OpenSnapshot { request: again, .. }) = message else {
        panic!()
    };
    assert_ne!((first.node, request), (second.node, again));
    // The first one answers after all.
    let late = ClientReply::Snapshot { session, request, result: Ok(Epoch(7)) };
    sim.deliver(first, Message::Reply(late));
    let close = sim.world.sent_one();
    assert_eq!(close.0, first);
    let reply = ClientReply::Snapshot { session, request: again, result: Ok(Epoch(8)) };
    sim.deliver(second, Message::Reply(reply));
    assert_eq!(sim.event(), ClientResult::SnapshotOpened(Epoch(8)));
    sim.client.close_snapshot(&mut sim.world.ctx(), sim.session, Epoch(8));
    let (to, message) = sim.world.sent_one();
    assert_eq!(to, second);
    assert!(matches!(
        message,
        Message::Request(ClientRequest::CloseSnapshot { epoch: Epoch(8), .. })
    ));
    sim.client.close_snapshot(&mut sim.world.ctx(), sim.session, Epoch(8));
    assert!(sim.world.sent().is_empty());
}

#[test]
fn decoders_are_kept_for_one_definition_of_a_table() {
    let sim = Sim::new();
    let cluster = &sim.world.shared.cluster;
    let mut decoders = Decoders::default();
    let of = |column| Projection::Columns(vec![ColumnId(column)]);
    let kept = RowDecoder::of(&mut decoders, &cluster.tables[&BASE], &of(0)).unwrap();
    let again = RowDecoder::of(&mut decoders, &cluster.tables[&BASE], &of(0)).unwrap();
    let other = RowDecoder::of(&mut decoders, &cluster.tables[&BASE], &of(1)).unwrap();
    assert!(Arc::ptr_eq(&kept, &again) && !Arc::ptr_eq(&kept, &other));
    assert_eq!(
        RowDecoder::of(&mut decoders, &cluster.tables[&BASE], &of(99)).unwrap_err().code,
        ErrorCode::BadRequest
    );
    decoders.follow(cluster, cluster);
    assert!(Arc::ptr_eq(
        &kept,
        &RowDecoder::of(&mut decoders, &cluster.tables[&BASE], &of(0)).unwrap()
    ));
    let newer = Arc::new(Table::clone(&cluster.tables[&BASE]));
    assert!(!Arc::ptr_eq(&kept, &RowDecoder::of(&mut decoders, &newer, &of(0)).unwrap()));
}
