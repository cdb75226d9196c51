//! Rules broken on purpose show: what the simulation's checkers rely on.

use wire::{KeyRead, ReadRequest};

use super::*;

impl World {
    pub(super) fn mutate(&mut self, mutation: Mutation) {
        for node in self.nodes.values_mut() {
            node.shared.mutation = mutation;
        }
    }

    pub(super) fn replicas_differ(&self) -> bool {
        let digests = self.digests();
        digests.iter().any(|digest| *digest != digests[0])
    }
}

#[test]
fn a_copy_that_ignores_locks_misses_a_change() {
    let mut world = World::new(2);
    world.start(3, 1, (*world.nodes[&1].shared.config).clone());
    world.mutate(Mutation::CopyIgnoresLocks);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 1)]);
    let chain = world.chain();
    world.sync(3);
    world.run();
    world.order_commit(txn(2), &chain, false);
    world.run();
    world.order_complete(txn(2), &chain[1..]);
    world.run();
    assert!(world.replicas_differ());
}

#[test]
fn a_rollback_that_is_not_passed_on_makes_replicas_differ() {
    let mut world = World::new(2);
    world.mutate(Mutation::RollbackOnPrimaryOnly);
    world.execute(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.order_rollback(txn(1), RollbackScope::After(OperationNumber(1)));
    world.run();
    world.commit(txn(1));
    assert!(world.replicas_differ());
}

#[test]
fn a_backup_that_applies_at_commit_shows_too_much() {
    let mut world = World::new(2);
    world.mutate(Mutation::BackupAppliesAtCommit);
    world.execute(txn(1), vec![insert(1, 10)]);
    let chain = world.chain();
    world.order_commit(txn(1), &chain, false);
    let from = world.coordinator();
    assert!(world.carry((from, chain[1])));
    assert_eq!(world.rows(2), [(1, 10)]);
}

#[test]
#[should_panic(expected = "without a lock")]
fn locks_released_at_prepare_are_missed() {
    let mut world = World::new(1);
    world.mutate(Mutation::ReleaseLocksAtPrepare);
    world.execute(txn(1), vec![insert(1, 10)]);
}

#[test]
fn versions_dropped_early_are_missed() {
    let mut world = World::new(1);
    world.mutate(Mutation::DropVersionsEarly);
    world.write(txn(1), vec![insert(1, 10)]);
    world.next_epoch(&[5]);
    world.write(txn(2), vec![add(1, 1)]);
    let partition = world.nodes[&1].participant.partitions().next().unwrap();
    assert_eq!(partition.next_slot_at(None, Epoch(5)), None);
}

#[test]
fn a_node_without_lease_can_be_made_to_serve() {
    let mut world = World::new(1);
    world.mutate(Mutation::ServeWithoutLease);
    world.nodes.get_mut(&1).unwrap().shared.lease.set(Instant::ZERO);
    let reads = vec![KeyRead { partition: P, key: key(1), projection: Projection::Nothing }];
    let request = ReadRequest { session: session(1), request: 1, snapshot: None, reads };
    let message = Message::Participant(ParticipantMessage::Read(Box::new(request)));
    world.tell(CLIENT, participant(1), message);
    world.run();
    let answers = world.take_others();
    assert!(matches!(answers[..], [Message::Reply(wire::ClientReply::Read { result: Ok(_), .. })]));
}

#[test]
fn reads_that_pass_commits_are_answered_with_the_row_as_it_was() {
    let ask = |world: &mut World, node| {
        world.take_others();
        let reads = vec![KeyRead { partition: P, key: key(1), projection: Projection::All }];
        let request = ReadRequest { session: session(1), request: 1, snapshot: None, reads };
        let message = Message::Participant(ParticipantMessage::Read(Box::new(request)));
        world.tell(CLIENT, participant(node), message);
        assert!(world.carry((CLIENT, participant(node))));
        match world.take_others().pop() {
            Some(Message::Reply(wire::ClientReply::Read { result, .. })) => {
                result.unwrap()[0].as_ref().map(|row| values_of(&row.0).1)
            }
            other => panic!("an answer, not {other:?}"),
        }
    };
    let mut world = World::new(2);
    world.mutate(Mutation::ReadsPassNotedCommits);
    world.write(txn(1), vec![insert(1, 10)]);
    world.execute(txn(2), vec![add(1, 5)]);
    let chain = world.chain();
    world.order_commit(txn(2), &chain, false);
    world.run();
    assert_eq!((ask(&mut world, 1), ask(&mut world, 2)), (Some(15), Some(10)));
    let mut world = World::new(2);
    world.mutate(Mutation::ReadsPassStagedCommits);
    world.write(txn(1), vec![insert(1, 10)]);
    world.prepare_and_commit(txn(2), vec![add(1, 5)]);
    let (from, chain) = (world.coordinator(), world.chain());
    assert!(world.carry((from, chain[0])) && world.carry((chain[0], chain[1])));
    assert_eq!((ask(&mut world, 2), ask(&mut world, 1)), (Some(15), Some(10)));
}
