//! Changes that come with their commit.

use super::*;

impl World {
    pub(super) fn prepare_and_commit(
        &mut self,
        transaction: TransactionId,
        operations: Vec<OperationKind>,
    ) {
        let chain = self.chain();
        let operations: Vec<Operation> =
            (1..).zip(operations).map(|(number, kind)| operation(number, kind)).collect();
        let prepare = ParticipantMessage::PrepareAndCommit {
            transaction,
            leg: LegId(0),
            chain,
            operations: operations.into(),
            lock_wait: None,
            epoch: self.epoch,
        };
        self.tell(self.coordinator(), chain[0], Message::Participant(prepare));
    }

    pub(super) fn ask_staged(&mut self, transaction: TransactionId) {
        let mut down = self.chain();
        let first = down.pop_first().unwrap();
        let coordinator = self.coordinator();
        let ask = ParticipantMessage::CommitIfStaged {
            transaction,
            leg: LegId(0),
            up: Chain::EMPTY,
            down,
            coordinator,
            attempt: 1,
        };
        self.tell(coordinator, first, Message::Participant(ask));
    }

    /// Carries the next message between two participants, or from the coordinator to one.
    fn step(&mut self, from: u16, to: u16) {
        let address = |node| match node {
            0 => self.coordinator(),
            node => {
                Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Participant }
            }
        };
        let link = (address(from), address(to));
        assert!(self.carry(link), "nothing from {from} to {to}");
    }

    pub(super) fn heard(&mut self) -> Vec<&'static str> {
        self.take_others().iter().map(Message::name).collect()
    }
}

#[test]
fn the_last_replica_commits_and_the_primary_hears_of_it_last() {
    let mut world = World::new(3);
    world.prepare_and_commit(txn(1), vec![insert(1, 10)]);
    for (from, to) in [(0, 1), (1, 2), (2, 3)] {
        world.step(from, to);
    }
    assert_eq!((world.rows(1), world.rows(2), world.rows(3)), (vec![], vec![], vec![(1, 10)]));
    world.step(3, 2);
    assert_eq!((world.rows(1), world.rows(2)), (vec![], vec![(1, 10)]));
    world.step(2, 1);
    assert_eq!(world.rows(1), [(1, 10)]);
    assert_eq!(world.heard(), ["Committed"]);
    world.run();
    world.check_quiet();
}

#[test]
fn a_single_replica_commits_at_once() {
    let mut world = World::new(1);
    world.prepare_and_commit(txn(1), vec![insert(1, 10), insert(2, 20)]);
    world.run();
    assert_eq!(world.heard(), ["Committed"]);
    world.prepare_and_commit(txn(2), vec![add(1, 1), delete(2)]);
    world.run();
    assert_eq!(world.rows(1), [(1, 11)]);
    world.check_quiet();
}

#[test]
fn results_come_with_the_word_of_the_primary_and_go_with_its_death() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.take_others();
    let results = |world: &mut World| match world.take_others().pop() {
        Some(Message::Coordinator(CoordinatorMessage::Committed { results, .. })) => {
            results.iter().map(|done| done.result.clone().unwrap()).collect::<Vec<_>>()
        }
        other => panic!("expected a commit, not {other:?}"),
    };
    let locked = || read(1, LockMode::Exclusive, WaitPolicy::Wait);
    world.prepare_and_commit(txn(2), vec![locked(), add(1, 5), upsert(2, 7)]);
    world.run();
    let mut found = results(&mut world);
    found.sort_by_key(|outcome| matches!(outcome, OperationOutcome::Written(_)));
    assert_eq!(found[0], OperationOutcome::Row(row(1, 10)));
    assert_eq!(found.len(), 3);
    world.prepare_and_commit(txn(3), vec![locked(), add(1, 5)]);
    world.step(0, 1);
    world.step(1, 2);
    world.kill(1);
    world.ask_staged(txn(3));
    world.run();
    assert_eq!(results(&mut world), []);
    assert_eq!(world.rows(2), [(1, 20), (2, 7)]);
}

#[test]
fn the_coordinator_decides_about_what_waits_fails_or_is_late() {
    let mut world = World::new(2);
    world.write(txn(1), vec![insert(1, 10)]);
    world.heard();
    world.prepare_and_commit(txn(2), vec![insert(1, 11)]);
    world.run();
    assert_eq!(world.answer(txn(2), 1), Err(ErrorCode::RowExists));
    world.abort(txn(2));
    world.execute(txn(3), vec![add(1, 1)]);
    world.heard();
    world.prepare_and_commit(txn(4), vec![add(1, 2)]);
    world.run();
    assert_eq!(world.heard(), ["Prepared"], "it waits for a lock, and no epoch for it");
    world.commit(txn(3));
    world.commit(txn(4));
    assert_eq!(world.rows(2), [(1, 13)]);
    world.heard();
    // The primary has been prepared for an epoch in which others may have committed here.
    world.prepare_and_commit(txn(5), vec![add(1, 4)]);
    let announced = world.epoch.next();
    world.nodes.get_mut(&1).unwrap().shared.epochs.announced = announced;
    world.run();
    assert_eq!(world.heard(), ["Prepared", "Prepared"], "that it is left to it, and the answer");
    assert_eq!(world.rows(2), [(1, 13)]);
    world.next_epoch(&[]);
    world.commit(txn(5));
    assert_eq!(world.rows(1), [(1, 17)]);
    world.check_quiet();
}

#[test]
fn the_rest_of_a_chain_commits_what_all_of_it_has_staged() {
    // How far it has come when the replica in the middle dies, and whether that commits it.
    let steps = [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1)];
    for (done, commits) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        let mut world = World::new(3);
        world.write(txn(1), vec![insert(1, 10)]);
        world.heard();
        world.prepare_and_commit(txn(2), vec![add(1, 5)]);
        for (from, to) in &steps[..done] {
            world.step(*from, *to);
        }
        world.kill(2);
        if done == 0 {
            world.links.clear();
        }
        world.ask_staged(txn(2));
        world.run();
        let expected = if commits { "Committed" } else { "NotStaged" };
        assert_eq!(world.heard(), [expected], "after {done} steps");
        if !commits {
            world.abort(txn(2));
            world.heard();
        }
        let left = vec![(1, if commits { 15 } else { 10 })];
        assert_eq!((world.rows(1), world.rows(3)), (left.clone(), left), "after {done} steps");
        world.check_quiet();
        // Asked again, it says what it said while the epoch is not complete.
        world.ask_staged(txn(2));
        world.run();
        assert_eq!(world.heard(), [expected], "asked again after {done} steps");
    }
}

#[test]
fn a_primary_alone_commits_what_it_has_staged() {
    let mut world = World::new(2);
    world.prepare_and_commit(txn(1), vec![insert(1, 10)]);
    world.step(0, 1);
    world.step(1, 2);
    world.kill(2);
    assert_eq!(world.rows(1), []);
    world.ask_staged(txn(1));
    world.run();
    assert_eq!(world.heard(), ["Committed"]);
    assert_eq!(world.rows(1), [(1, 10)]);
    world.check_quiet();
}

#[test]
fn a_takeover_is_told_what_was_staged_with_its_commit() {
    let mut world = World::new(3);
    world.prepare_and_commit(txn(1), vec![insert(1, 10)]);
    world.step(0, 1);
    let leg = world.nodes[&1].participant.legs.iter().next().unwrap().1;
    let (epoch, began) = (world.epoch, leg.began);
    assert_eq!(leg.reported(), wire::ReportedLegStatus::StagedToCommit { epoch, began });
}
