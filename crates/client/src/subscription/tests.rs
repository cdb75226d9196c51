//! A subscription with participants that are played by hand.

use model::{PartitionId, PartitionIndex, Row, TableId, TransactionId};
use wire::EpochChanges;

use super::*;

const STREAM: StreamId = StreamId(7);

/// Two slots, each with a replica on both nodes, in the other order; a worker each.
fn cluster() -> ClusterState {
    testing::cluster([1, 2]).build()
}

fn change(value: u8) -> RowChange {
    let partition = PartitionId { table: TableId(1), index: PartitionIndex(0) };
    let transaction = TransactionId::default();
    RowChange { partition, before: None, after: Some(Row(vec![value].into())), transaction }
}

/// What a participant gives: a change in each epoch up to the one that is complete.
fn piece(of: &StreamFetch, node: u16, kept_from: Option<u64>, complete: u64) -> StreamPiece {
    let epochs = (of.from.epoch.0..=complete).map(|epoch| {
        let changes = vec![change(node as u8)];
        EpochChanges { epoch: Epoch(epoch), changes }
    });
    StreamPiece {
        kept_from: kept_from.map(Epoch),
        complete: Epoch(complete),
        epochs: epochs.collect(),
        ended: vec![(Epoch(complete), complete * 10)],
        to: StreamPosition { epoch: Epoch(complete + 1), changes: 0 },
    }
}

/// A round in which each node gives what it is said to: from which epoch on, up to which one.
fn round(
    subscription: &mut Subscription,
    cluster: &ClusterState,
    gives: impl Fn(u16) -> Option<(Option<u64>, u64)>,
) -> Delivery {
    let fetches = subscription.fetches(cluster);
    let answers = fetches.iter().filter_map(|(to, fetch)| {
        let (kept_from, complete) = gives(to.node.0)?;
        Some((*to, piece(fetch, to.node.0, kept_from, complete)))
    });
    let answers = answers.collect();
    subscription.take(&fetches, answers)
}

/// Epochs with the nodes that their changes came from.
fn delivered(delivery: Delivery) -> (u64, Vec<(u64, Vec<u8>)>) {
    let Delivery::Epochs { through, changes, .. } = delivery else { panic!("{delivery:?}") };
    let from = |change: &RowChange| change.after.as_ref().unwrap().0[0];
    let of_epoch =
        |(epoch, changes): (Epoch, Vec<RowChange>)| (epoch.0, changes.iter().map(from).collect());
    (through.0, changes.into_iter().map(of_epoch).collect())
}

#[test]
fn an_epoch_is_delivered_when_all_have_given_it() {
    let (cluster, mut subscription) = (cluster(), Subscription::new(STREAM, Epoch(4)));
    let first = round(&mut subscription, &cluster, |node| Some((Some(1), 4 + u64::from(node))));
    assert_eq!(delivered(first), (5, vec![(5, vec![1, 2])]));
    // What the second one has given of epoch 6 is not asked for again.
    let second = round(&mut subscription, &cluster, |_| Some((Some(1), 6)));
    assert_eq!(delivered(second), (6, vec![(6, vec![2, 1])]));
    assert_eq!(round(&mut subscription, &cluster, |_| Some((Some(1), 6))), Delivery::Nothing);
}

#[test]
fn another_replica_goes_on_where_one_was_lost_and_nothing_comes_twice() {
    let (mut cluster, mut subscription) = (cluster(), Subscription::new(STREAM, Epoch(4)));
    round(&mut subscription, &cluster, |node| Some((Some(1), 4 + u64::from(node))));
    // Node 2 has given epoch 6, node 1 has not; node 2 dies.
    cluster.members.remove(&NodeId(2));
    cluster.slots.iter_mut().for_each(|slot| slot.replicas.retain(|r| r.node == NodeId(1)));
    let next = round(&mut subscription, &cluster, |_| Some((Some(1), 7)));
    assert_eq!(delivered(next), (7, vec![(6, vec![1]), (7, vec![1])]));
}

#[test]
fn who_is_silent_is_replaced_and_asked_again_when_nobody_else_has_it() {
    let (cluster, mut subscription) = (cluster(), Subscription::new(STREAM, Epoch(4)));
    let silent = |node| (node != 1).then_some((Some(1), 5));
    assert_eq!(round(&mut subscription, &cluster, silent), Delivery::Nothing);
    assert_eq!(delivered(round(&mut subscription, &cluster, silent)), (5, vec![(5, vec![2])]));
    // Now the other one has lost what is next.
    let lost = |node| (node != 1).then_some((Some(9), 9));
    assert_eq!(round(&mut subscription, &cluster, lost), Delivery::Nothing);
    let back = |node| (node == 1).then_some((Some(1), 6));
    assert_eq!(delivered(round(&mut subscription, &cluster, back)), (6, vec![(6, vec![1])]));
}

#[test]
fn it_breaks_off_when_no_replica_has_what_is_next() {
    let (cluster, mut subscription) = (cluster(), Subscription::new(STREAM, Epoch(4)));
    let less = |node| Some((Some(if node == 1 { 8 } else { 7 }), 9));
    let mut rounds = 0;
    let from = loop {
        match round(&mut subscription, &cluster, less) {
            Delivery::Nothing => rounds += 1,
            Delivery::Broken { from } => break from,
            Delivery::Epochs { .. } => panic!("nobody has epoch 5"),
        }
        assert!(rounds < 4, "both are asked");
    };
    assert_eq!(from, Epoch(7));
    // A replica that is not complete yet says nothing of the kind.
    let mut subscription = Subscription::new(STREAM, Epoch(4));
    let copied = |node| Some(((node == 1).then_some(8), 9));
    for _ in 0..5 {
        assert_eq!(round(&mut subscription, &cluster, copied), Delivery::Nothing);
    }
}

#[test]
fn times_of_epochs_ascend() {
    let cluster = cluster();
    let mut subscription = Subscription::new(STREAM, Epoch(4)).after(80);
    for (complete, expected) in [(5, 81), (6, 82), (9, 90)] {
        let next = round(&mut subscription, &cluster, |_| Some((Some(1), complete)));
        let Delivery::Epochs { ended, .. } = next else { panic!("nothing") };
        assert_eq!(ended, [(Epoch(complete), expected)]);
    }
}

#[test]
fn a_stream_begins_where_all_complete_replicas_have_it() {
    let mut cluster = cluster();
    let fetches = opening(STREAM, &cluster);
    let answer = |kept: [Option<u64>; 2]| {
        let given = fetches.iter().zip(kept);
        let pieces = given.map(|((to, fetch), kept)| (*to, piece(fetch, 1, kept, 0)));
        opened(&fetches, &pieces.collect::<Vec<_>>())
    };
    assert_eq!(answer([Some(5), Some(7)]), Some(Epoch(7)));
    assert_eq!(answer([Some(5), None]), None);
    assert_eq!(opened(&fetches, &[]), None);
    cluster.slots[0].replicas[1].syncing = true;
    let of_second = opening(STREAM, &cluster).into_iter().find(|(to, _)| to.node == NodeId(2));
    assert_eq!(of_second.unwrap().1.slots, [1]);
}
