//! Change streams: what replicas keep, and what they give.

use model::StreamId;
use model::cluster::Stream;
use wire::{RowChange, StreamFetch, StreamMessage, StreamPiece, StreamPosition};

use super::*;

const STREAM: StreamId = StreamId(77);

/// A world with a stream of all tables.
fn streamed(count: u16, adjust: impl Fn(&mut Config)) -> World {
    let mut world = World::with(count, adjust);
    begin_epoch(&mut world, 6);
    world.change(|state| {
        let stream = Stream { id: STREAM, tables: Vec::new() };
        state.streams.insert("s".into(), stream);
    });
    begin_epoch(&mut world, 7);
    world
}

/// All workers assign this epoch; those before it are complete.
fn begin_epoch(world: &mut World, epoch: u64) {
    world.epoch = Epoch(epoch);
    for node in world.nodes.values_mut() {
        let epochs = &mut node.shared.epochs;
        (epochs.current, epochs.announced) = (Epoch(epoch), Epoch(epoch));
        epochs.completed = Epoch(epoch - 1);
    }
}

fn fetch_from(world: &mut World, node: u16, from: StreamPosition, bytes: u32) -> StreamPiece {
    let (session, through) = (Some(session(1)), Epoch(1 << 40));
    let fetch = StreamFetch { stream: STREAM, slots: vec![0], from, through, bytes };
    let fetch = StreamMessage::Fetch { session, request: 1, fetch };
    world.tell(CLIENT, participant(node), Message::Stream(Box::new(fetch)));
    assert!(world.carry((CLIENT, participant(node))));
    let Some((CLIENT, Message::Stream(answer))) = world.others.pop() else { panic!("no answer") };
    let StreamMessage::Piece { piece, .. } = *answer else { panic!("no piece") };
    piece
}

/// All that a replica gives from an epoch on: the epoch, and the values before and after.
fn kept(world: &mut World, node: u16, from: u64) -> Vec<(u64, Option<i64>, Option<i64>)> {
    let from = StreamPosition { epoch: Epoch(from), changes: 0 };
    let piece = fetch_from(world, node, from, u32::MAX);
    let value = |row: &Option<Row>| row.as_ref().map(|row| values_of(&row.0).1);
    let flat = |change: &RowChange| (value(&change.before), value(&change.after));
    let mut changes = Vec::new();
    for epoch in &piece.epochs {
        let of_epoch = epoch.changes.iter().map(flat);
        changes.extend(of_epoch.map(|(before, after)| (epoch.epoch.0, before, after)));
    }
    changes
}

fn acknowledge(world: &mut World, node: u16, through: u64) {
    let message = StreamMessage::Acknowledge { stream: STREAM, through: Epoch(through) };
    world.tell(CLIENT, participant(node), Message::Stream(Box::new(message)));
    world.run();
}

#[test]
fn a_change_names_its_transaction_at_every_replica() {
    let mut world = streamed(3, |_| {});
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.write(txn(2), vec![add(1, 1)]);
    begin_epoch(&mut world, 8);
    for node in 1..=3 {
        let from = StreamPosition { epoch: Epoch(7), changes: 0 };
        let piece = fetch_from(&mut world, node, from, u32::MAX);
        let changes = piece.epochs.iter().flat_map(|epoch| &epoch.changes);
        let made_by: Vec<TransactionId> = changes.map(|change| change.transaction).collect();
        assert_eq!(made_by, [txn(1), txn(1), txn(2)], "node {node}");
    }
}

#[test]
fn every_replica_keeps_complete_epochs_until_they_are_acknowledged() {
    let mut world = streamed(3, |_| {});
    world.write(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.write(txn(2), vec![add(1, 1), delete(2)]);
    for node in 1..=3 {
        assert_eq!(kept(&mut world, node, 7), [], "the epoch is not complete");
    }
    begin_epoch(&mut world, 8);
    world.write(txn(3), vec![upsert(1, 5)]);
    // A row that comes and goes in one transaction is no change.
    world.write(txn(4), vec![insert(3, 1), delete(3)]);
    let of_7 =
        [(7, None, Some(10)), (7, None, Some(20)), (7, Some(10), Some(11)), (7, Some(20), None)];
    for node in 1..=3 {
        assert_eq!(kept(&mut world, node, 7), of_7);
    }
    begin_epoch(&mut world, 9);
    acknowledge(&mut world, 2, 7);
    assert_eq!(kept(&mut world, 2, 7), [(8, Some(11), Some(5))]);
    let piece = fetch_from(&mut world, 2, StreamPosition::default(), 1);
    assert_eq!(piece.kept_from, Some(Epoch(8)));
    assert_eq!(kept(&mut world, 1, 7).len(), 5, "others have not heard of it");
    // What is not complete is not given back.
    acknowledge(&mut world, 1, 1_000);
    world.write(txn(5), vec![add(1, 1)]);
    begin_epoch(&mut world, 10);
    assert_eq!(kept(&mut world, 1, 9), [(9, Some(5), Some(6))]);
    world.check_quiet();
}

#[test]
fn changes_are_given_in_pieces_of_bounded_size() {
    let mut world = streamed(1, |_| {});
    world.write(txn(1), (1..=9).map(|id| insert(id, id)).collect());
    begin_epoch(&mut world, 8);
    let mut from = StreamPosition { epoch: Epoch(7), changes: 0 };
    let mut values = Vec::new();
    while from.epoch < Epoch(8) {
        let piece = fetch_from(&mut world, 1, from, 1);
        let changes = piece.epochs.iter().flat_map(|epoch| &epoch.changes);
        values.extend(changes.map(|change| values_of(&change.after.as_ref().unwrap().0).0));
        assert!(piece.to > from, "it goes on");
        from = piece.to;
    }
    assert_eq!(values, (1..=9).collect::<Vec<_>>());
}

#[test]
fn what_has_no_room_is_dropped_and_told() {
    let mut world = streamed(2, |config| {
        (config.buffered_epoch_bytes, config.buffered_epochs) = (1_000, 5);
    });
    for epoch in 7..=9 {
        begin_epoch(&mut world, epoch);
        world.write(txn(epoch as u32), vec![upsert(1, epoch as i64)]);
    }
    begin_epoch(&mut world, 10);
    let piece = fetch_from(&mut world, 1, StreamPosition::default(), 1);
    assert_eq!(piece.kept_from, Some(Epoch(7)));
    // One epoch with more than all that there is room for.
    world.write(txn(10), (10..=40).map(|id| insert(id, 1)).collect());
    begin_epoch(&mut world, 11);
    world.write(txn(11), vec![upsert(1, 11)]);
    begin_epoch(&mut world, 12);
    for node in 1..=2 {
        let piece = fetch_from(&mut world, node, StreamPosition::default(), 1);
        assert_eq!(piece.kept_from, Some(Epoch(11)));
        assert_eq!(kept(&mut world, node, 0), [(11, Some(9), Some(11))]);
    }
    // A subscriber that does not move on.
    begin_epoch(&mut world, 30);
    let piece = fetch_from(&mut world, 1, StreamPosition::default(), 1);
    assert_eq!((piece.kept_from, piece.epochs.len()), (Some(Epoch(25)), 0));
    assert_eq!(world.rows(1).len(), 32, "nobody waits for a subscriber");
}

#[test]
fn a_copied_replica_keeps_what_was_committed_before_and_nothing_twice() {
    let mut world = streamed(2, |_| {});
    world.coordinator = coordinator(1);
    world.write(txn(1), vec![insert(1, 10)]);
    begin_epoch(&mut world, 8);
    let config = (*world.nodes[&1].shared.config).clone();
    world.kill(2);
    world.write(txn(2), vec![add(1, 1)]);
    begin_epoch(&mut world, 9);
    world.start(2, 2, config);
    world.sync(2);
    world.run();
    // Rows are there; what was kept of epoch 8 cannot be told from what may still be committed in
    // the present one.
    begin_epoch(&mut world, 10);
    world.write(txn(3), vec![add(1, 1)]);
    assert!(!synced(&world), "older changes are missing");
    begin_epoch(&mut world, 11);
    world.write(txn(4), vec![add(1, 1)]);
    world.pass(Duration::from_secs(1));
    world.run();
    assert!(synced(&world), "everything is there");
    world.activate(2);
    begin_epoch(&mut world, 12);
    let all = [
        (7, None, Some(10)),
        (8, Some(10), Some(11)),
        (10, Some(11), Some(12)),
        (11, Some(12), Some(13)),
    ];
    assert_eq!(kept(&mut world, 1, 0), all);
    assert_eq!(kept(&mut world, 2, 0), all);
    world.kill(1);
    let piece = fetch_from(&mut world, 2, StreamPosition::default(), 1);
    assert_eq!(piece.kept_from, Some(Epoch(7)), "the new replica has it alone");
}

/// Whether a copied replica has said that everything is there.
fn synced(world: &World) -> bool {
    world.others.iter().any(|(_, message)| {
        let Message::Control(message) = message else { return false };
        matches!(**message, wire::ControlMessage::WorkerSynced { .. })
    })
}

#[test]
fn a_worker_that_hears_nothing_begins_when_it_knows_an_epoch() {
    let mut world = World::new(1);
    world.change(|state| {
        let stream = Stream { id: STREAM, tables: Vec::new() };
        state.streams.insert("s".into(), stream);
    });
    let piece = fetch_from(&mut world, 1, StreamPosition::default(), 1);
    assert_eq!(piece.kept_from, None, "it does not know who commits in which epoch");
    begin_epoch(&mut world, 6);
    world.pass(Duration::from_millis(200));
    let piece = fetch_from(&mut world, 1, StreamPosition::default(), 1);
    assert_eq!(piece.kept_from, Some(Epoch(7)));
}

#[test]
fn a_stream_of_some_tables_has_no_others() {
    let mut world = streamed(1, |_| {});
    world.change(|state| {
        let stream = Stream { id: StreamId(78), tables: vec![TableId(99)] };
        state.streams.insert("other".into(), stream);
        let ended = state.streams.remove("s").expect("it has begun");
        assert_eq!(ended.id, STREAM);
    });
    world.write(txn(1), vec![insert(1, 10)]);
    begin_epoch(&mut world, 8);
    let piece = fetch_from(&mut world, 1, StreamPosition::default(), u32::MAX);
    assert_eq!((piece.kept_from, piece.epochs.len()), (None, 0), "the stream has ended");
}

/// The replica went on with the tables that the stream had when it began.
#[test]
fn a_table_that_takes_the_place_of_another_one_is_in_the_stream() {
    let mut world = World::with(1, |_| {});
    begin_epoch(&mut world, 6);
    let streamed = |world: &mut World, table: TableId| {
        world.change(|state| {
            let stream = Stream { id: STREAM, tables: vec![table] };
            state.streams.insert("s".into(), stream);
        });
    };
    streamed(&mut world, TableId(99));
    begin_epoch(&mut world, 7);
    world.write(txn(1), vec![insert(1, 10)]);
    streamed(&mut world, P.table);
    world.write(txn(2), vec![insert(2, 20)]);
    begin_epoch(&mut world, 8);
    assert_eq!(kept(&mut world, 1, 7), [(7, None, Some(20))]);
}

#[test]
fn the_stream_of_a_change_feed_is_kept_for_a_time() {
    for (name, is_kept) in [("changefeed 1.1", true), ("archive 1", false)] {
        let mut world = World::with(1, |config| config.buffered_epochs = 5);
        begin_epoch(&mut world, 6);
        world.change(|state| {
            let stream = Stream { id: STREAM, tables: Vec::new() };
            state.streams.insert(name.into(), stream);
        });
        begin_epoch(&mut world, 7);
        world.write(txn(1), vec![insert(1, 10)]);
        begin_epoch(&mut world, 20);
        world.pass(Duration::from_millis(200));
        assert_eq!(kept(&mut world, 1, 7).len(), usize::from(is_kept), "{name}");
    }
}
