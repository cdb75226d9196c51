//! Changes that are sent with their commit.

use super::*;

/// A world whose table has no unique index and whose members all know one-phase commits.
fn plain() -> World {
    let mut w = World::new();
    w.shared.lease.set_protocol(wire::PROTOCOL_VERSION);
    w.change(|state| _ = state.tables.insert(TableId(1), Arc::new(base())));
    w
}

/// The question that the rest of the chain was asked.
fn asked(sent: &[(Address, Message)]) -> u32 {
    match &sent[0].1 {
        Message::Participant(ParticipantMessage::CommitIfStaged { attempt, .. }) => *attempt,
        other => panic!("expected a question, not {}", other.name()),
    }
}

fn not_staged(attempt: u32) -> Message {
    let (transaction, leg) = (transaction(), LegId(0));
    Message::Coordinator(CoordinatorMessage::NotStaged { transaction, leg, attempt })
}

#[test]
fn one_change_is_committed_by_one_message_and_told_once() {
    let mut w = plain();
    let sent = w.execute(&[1], true);
    assert_eq!(names(&sent), ["n1w0.participant PrepareAndCommit"]);
    let told = Few::one(done(1 << 8, None));
    let sent = w.tell(participant(1), committed_with(0, 0, told));
    let Message::Reply(ClientReply::Transaction { results, .. }) = &sent[0].1 else {
        panic!("expected a reply, not {:?}", names(&sent));
    };
    assert_eq!(results[0].number, OperationNumber(1));
    assert_eq!(results[0].result, Ok(OperationOutcome::Written(Effect::Created)));
    assert_eq!(state_of(&sent), TransactionState::Committed(Epoch(5)));
    assert_eq!(w.coordinator.open_transactions(), 0);
    assert!(w.tell(participant(1), committed(0, 0)).is_empty());
}

#[test]
fn what_does_not_fit_one_phase_takes_two() {
    let prepares = |sent: &[(Address, Message)]| {
        names(sent).iter().filter(|name| name.ends_with(" Prepare")).count()
    };
    assert_eq!(prepares(&plain().execute(&[1], false)), 1, "without its commit");
    assert_eq!(prepares(&plain().execute(&[1, 2], true)), 2, "in two chains");
    let mut older = plain();
    older.shared.lease.set_protocol(11);
    assert_eq!(prepares(&older.execute(&[1], true)), 1, "beside an older member");
    let mut indexed = World::new();
    indexed.shared.lease.set_protocol(wire::PROTOCOL_VERSION);
    assert_eq!(prepares(&indexed.execute(&[1], true)), 1, "with a unique index");
    let mut switching = plain();
    let prepare = EpochMessage::Prepare { epoch: Epoch(6), retained: vec![] };
    switching.tell(participant(2), Message::Epoch(prepare));
    assert_eq!(prepares(&switching.execute(&[1], true)), 1, "while the epoch changes");
    let mut second = plain();
    second.execute(&[1], false);
    second.prepared(1, 0, &[1]);
    assert_eq!(prepares(&second.execute(&[3], true)), 1, "after an earlier request");
}

#[test]
fn a_primary_that_leaves_the_commit_to_the_coordinator_frees_the_epoch() {
    let mut w = plain();
    w.execute(&[1], true);
    assert!(w.prepared_with(1, 0, vec![]).is_empty());
    let prepare = EpochMessage::Prepare { epoch: Epoch(6), retained: vec![] };
    w.tell(participant(2), Message::Epoch(prepare));
    let sent = w.tell(participant(2), Message::Epoch(EpochMessage::Switch { epoch: Epoch(6) }));
    assert_eq!(names(&sent), ["n2w0.participant EpochDrained"], "nothing of epoch 5 is open");
    let sent = w.prepared(2, 0, &[1]);
    let Message::Participant(ParticipantMessage::Commit { epoch, .. }) = sent[0].1 else {
        panic!("expected a commit, not {:?}", names(&sent));
    };
    assert_eq!(epoch, Epoch(6));
}

#[test]
fn when_a_replica_dies_the_rest_of_the_chain_decides() {
    let mut w = plain();
    w.execute(&[1], true);
    let sent = w.kill(2);
    assert_eq!(names(&sent)[0], "n1w0.participant CommitIfStaged");
    let attempt = asked(&sent);
    assert!(w.tell(participant(1), not_staged(attempt - 1)).is_empty(), "of an earlier question");
    let sent = w.tell(participant(1), committed(0, 0));
    assert_eq!(state_of(&sent), TransactionState::Committed(Epoch(5)), "answers come late");

    let mut w = plain();
    w.execute(&[1], true);
    let attempt = asked(&w.kill(2));
    let sent = w.tell(participant(1), not_staged(attempt));
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("it is aborted") };
    assert_eq!(refusal.code, ErrorCode::NodeFailed);
    assert_eq!(names(&sent)[1], "n1w0.participant Abort");

    // What waited there for a lock does not go on without the replica.
    let mut w = plain();
    w.execute(&[1], true);
    w.kill(2);
    let sent = w.prepared_with(1, 0, vec![]);
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("it is aborted") };
    assert_eq!(refusal.code, ErrorCode::NodeFailed);
}

#[test]
fn what_was_given_up_meanwhile_is_aborted_only_if_it_was_not_committed() {
    let alter = |w: &mut World| {
        w.change(|state| {
            let mut altered = (*state.tables[&TableId(1)]).clone();
            altered.writes_blocked = true;
            state.tables.insert(TableId(1), Arc::new(altered));
        })
    };
    let mut w = plain();
    w.execute(&[1], true);
    assert!(alter(&mut w).is_empty(), "nothing is aborted that may be committed");
    let sent = w.tell(participant(1), committed(0, 0));
    assert_eq!(state_of(&sent), TransactionState::Committed(Epoch(5)));

    let mut w = plain();
    w.execute(&[1], true);
    alter(&mut w);
    let sent = w.prepared_with(1, 0, vec![]);
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("it is aborted") };
    assert_eq!(refusal.code, ErrorCode::SchemaChanged);
}

#[test]
fn nobody_is_told_that_it_will_not_commit_while_it_may() {
    let mut w = plain();
    w.execute(&[1], true);
    let query = CoordinatorMessage::OutcomeQuery { transaction: transaction(), probe: 3 };
    let sent = w.tell(participant(2), Message::Coordinator(query));
    let Message::Coordinator(CoordinatorMessage::OutcomeReport { outcome, .. }) = &sent[0].1 else {
        panic!("expected a report, not {:?}", names(&sent));
    };
    assert_eq!(*outcome, wire::KnownOutcome::Open);
}

#[test]
fn a_takeover_has_the_survivors_of_the_chain_decide() {
    let status = |began| ReportedLegStatus::StagedToCommit { epoch: Epoch(4), began };
    let (mut w, sent) = take_over(status(ControlIndex(10)));
    let attempt = asked(&sent);
    let sent = w.tell(participant(1), committed(0, attempt));
    assert_eq!(names(&sent), ["n1w0.control Propose"], "settled");

    let (mut w, sent) = take_over(status(ControlIndex(10)));
    let sent = w.tell(participant(1), not_staged(asked(&sent)));
    assert_eq!(names(&sent), ["n1w0.participant Abort"]);

    // A life that joined later does not know what its node had before, and is not asked.
    let mut w = World::new();
    w.kill(2);
    w.change(|state| {
        let joined_at = ControlIndex(12);
        let back =
            Member { incarnation: Incarnation(2), joined_at, ..state.members[&NodeId(1)].clone() };
        state.members.insert(NodeId(2), back);
    });
    let message = CoordinatorMessage::TakeoverReport {
        node: NodeId(2),
        incarnation: Incarnation(1),
        attempt: 1,
        transactions: report(status(ControlIndex(10))),
    };
    let sent = w.tell(participant(1), Message::Coordinator(message));
    let Message::Participant(ParticipantMessage::CommitIfStaged { down, .. }) = &sent[0].1 else {
        panic!("expected a question, not {:?}", names(&sent));
    };
    assert!(sent[0].0 == participant(1) && down.is_empty());
}
