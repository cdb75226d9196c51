//! Messages of other nodes that break a rule: refused, and nothing has changed.

use wire::{Besides, CoordinatorRef, SCAN_WAITS_FROM, StagedWrite};

use super::*;

impl World {
    /// Hands a message to a participant; the rule that it breaks.
    fn lie(&mut self, from: Address, to: u16, message: ParticipantMessage) -> Option<&'static str> {
        let Node { participant, shared } = self.nodes.get_mut(&to).unwrap();
        let mut ctx = Ctx::new(shared, ActorKind::Participant);
        participant.handle(&mut ctx, from, Message::Participant(message));
        participant.check_invariants(shared);
        let broken = std::mem::take(&mut shared.violations);
        if !broken.is_empty() {
            assert_eq!(shared.outbox.len(), 0, "nothing is sent of what is refused");
        }
        shared.outbox.clear();
        assert!(broken.iter().all(|(node, _)| *node == from.node));
        broken.first().map(|(_, rule)| *rule)
    }
}

fn commit(transaction: TransactionId, epoch: u64) -> ParticipantMessage {
    ParticipantMessage::Commit {
        transaction,
        leg: LegId(0),
        epoch: Epoch(epoch),
        up: Chain::EMPTY,
        keep: false,
        coordinator: coordinator(3),
        attempt: 1,
    }
}

fn replicate(chain: Chain, row_id: u32, after: &[u8]) -> ParticipantMessage {
    let write = StagedWrite {
        number: OperationNumber(1),
        partition: P,
        row_id: model::RowId(row_id),
        key: key(7),
        after: Some(Row(after.into())),
        fresh: true,
    };
    ParticipantMessage::Replicate {
        transaction: txn(7),
        leg: LegId(0),
        coordinator: CoordinatorRef { address: coordinator(3), incarnation: Incarnation(1) },
        chain,
        writes: Few::one(write),
        results: Few::new(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn who_breaks_a_rule_is_refused_and_changes_nothing() {
    let mut world = World::new(3);
    world.write(txn(1), vec![insert(1, 10)]);
    let chain = world.chain();
    // One is staged everywhere, of another the backups have heard that it commits.
    world.execute(txn(2), vec![insert(2, 20)]);
    world.execute(txn(3), vec![insert(3, 30)]);
    world.order_commit(txn(3), &chain, true);
    world.run();
    let (leg, attempt) = (LegId(0), 9);
    let abort = |transaction, down| {
        let coordinator = coordinator(3);
        ParticipantMessage::Abort { transaction, leg, down, coordinator, attempt }
    };
    let (before, epoch) = (world.digests(), world.epoch.0);
    let open = |world: &World| -> Vec<usize> {
        world.nodes.values().map(|node| node.participant.open_transactions()).collect()
    };
    let legs = open(&world);
    let elsewhere = Address { actor: ActorKind::Control, ..participant(1) };
    let sound = row(7, 7);
    let scans_number = ParticipantMessage::Prepare {
        transaction: txn(9),
        leg,
        chain,
        operations: Few::one(operation(SCAN_WAITS_FROM, insert(9, 90))),
        lock_wait: None,
        besides: Besides::Operations,
    };
    let cases = [
        (
            coordinator(3),
            2,
            ParticipantMessage::Complete { transaction: txn(2), leg, attempt },
            "it completes what was never told to commit",
        ),
        (coordinator(3), 2, commit(txn(3), epoch + 1), "it has committed in another epoch"),
        (coordinator(3), 2, commit(txn(1), epoch + 1), "it has committed in another epoch"),
        (coordinator(3), 2, abort(txn(3), Chain::EMPTY), "it aborts what has committed"),
        (
            coordinator(3),
            2,
            abort(txn(9), [elsewhere].into_iter().collect()),
            "a chain is of participants",
        ),
        (
            coordinator(3),
            2,
            ParticipantMessage::Rollback {
                transaction: txn(3),
                leg,
                scope: RollbackScope::After(OperationNumber(0)),
                down: Chain::EMPTY,
                attempt,
            },
            "it rolls back what is decided, or is rolled back",
        ),
        (coordinator(3), 1, scans_number, "an operation has the number of a scan's wait"),
        (participant(3), 2, replicate(chain, 40, &sound.0), "changes come from the replica before"),
        (
            participant(1),
            2,
            replicate(chain, 40, &[0, 1]),
            "what it says is a row is none of the table",
        ),
        (
            coordinator(3),
            2,
            ParticipantMessage::CommitIfStaged {
                transaction: txn(2),
                leg,
                up: chain,
                down: [participant(3)].into_iter().collect(),
                coordinator: coordinator(3),
                attempt,
            },
            "a chain is longer than any",
        ),
        (
            coordinator(3),
            2,
            ParticipantMessage::TakeoverQuery {
                node: NodeId(1),
                incarnation: Incarnation(1),
                attempt,
            },
            "it takes over from a node that lives",
        ),
    ];
    for (from, to, message, rule) in cases {
        let name = message.name();
        assert_eq!(world.lie(from, to, message), Some(rule), "{name}");
        assert_eq!((world.digests(), open(&world)), (before.clone(), legs.clone()), "{name}");
    }
    // What is possible is believed, and goes on as ever.
    assert_eq!(world.lie(participant(1), 2, replicate(chain, 40, &sound.0)), None);
    world.abort(txn(7));
    world.order_complete(txn(3), &chain);
    world.commit(txn(2));
    world.run();
    assert_eq!(world.rows(2), [(1, 10), (2, 20), (3, 30)]);
    world.check_quiet();
}

#[test]
fn a_row_in_a_slot_beyond_all_memory_is_refused_for_want_of_memory() {
    let mut world = World::with(2, |config| config.data_memory = 64 << 20);
    world.write(txn(1), vec![insert(1, 10)]);
    let chain = world.chain();
    let slots = world.nodes[&2].participant.partitions().map(|p| p.slot_count()).max();
    assert_eq!(world.lie(participant(1), 2, replicate(chain, u32::MAX - 1, &row(7, 7).0)), None);
    let after = world.nodes[&2].participant.partitions().map(|p| p.slot_count()).max();
    assert_eq!(after, slots, "it has not set aside what it does not have");
}
