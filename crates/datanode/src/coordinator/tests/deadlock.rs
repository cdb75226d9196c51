//! Searches for deadlocks: how they go on, how they end, whom they choose.

use wire::{Besides, DeadlockSearch, SearchOrigin, SearchedTransaction};

use super::*;

fn me() -> CoordinatorRef {
    let address = Address { actor: ActorKind::Coordinator, ..participant(1) };
    CoordinatorRef { address, incarnation: Incarnation(1) }
}

/// Another transaction; higher numbers are younger.
fn other(number: u32) -> TransactionId {
    let mut other = transaction();
    other.session.number = number;
    other
}

fn passed(number: u32, changes: u32) -> SearchedTransaction {
    let (transaction, coordinator) = (other(number), me());
    SearchedTransaction { transaction, coordinator, changes, began: Epoch(5), step: 0 }
}

/// A search that somebody's wait for an operation began.
fn search(
    initiator: TransactionId,
    wait: u64,
    victim: Option<SearchedTransaction>,
) -> DeadlockSearch {
    let origin = SearchOrigin { leg: Some(LegId(0)), wait, count: 0 };
    let path: Vec<_> = victim.iter().map(|victim| victim.transaction).collect();
    DeadlockSearch { initiator, origin, length: path.len() as u32, path, victim }
}

fn probe(world: &mut World, search: &DeadlockSearch) -> Vec<(Address, Message)> {
    let (search, blockers) = (Box::new(search.clone()), vec![transaction()]);
    let message = CoordinatorMessage::DeadlockProbe { search, blockers };
    world.tell(participant(1), Message::Coordinator(message))
}

fn victim_of(sent: &[(Address, Message)]) -> TransactionId {
    match sent {
        [(_, Message::Coordinator(CoordinatorMessage::DeadlockVictim { transaction, .. }))] => {
            *transaction
        }
        other => panic!("expected a victim, not {:?}", names(other)),
    }
}

#[test]
fn a_search_goes_on_where_the_transaction_may_wait() {
    let mut w = World::new();
    let stranger = search(other(7), 256, None);
    assert!(probe(&mut w, &stranger).is_empty(), "it has ended");
    w.execute(&[1, 2], false);
    let asked = ["n1w0.participant HolderProbe", "n2w0.participant HolderProbe"];
    assert_eq!(names(&probe(&mut w, &stranger)), asked);
    assert!(probe(&mut w, &stranger).is_empty(), "by another path");
    assert_eq!(names(&probe(&mut w, &search(other(7), 512, None))), asked, "from another wait");
    w.prepared(2, 0, &[1]);
    let sent = probe(&mut w, &search(other(8), 256, Some(passed(9, 3))));
    assert_eq!(names(&sent), ["n2w0.participant HolderProbe"], "one operation is not answered");
    let Message::Participant(ParticipantMessage::DeadlockProbe { search: passed_on, .. }) =
        &sent[0].1
    else {
        panic!("{:?}", names(&sent));
    };
    assert_eq!(passed_on.path, [other(9), transaction()]);
    let victim = passed_on.victim.expect("somebody was passed");
    assert_eq!((victim.transaction, victim.changes), (transaction(), 0), "fewer changes");
    w.prepared(1, 1, &[2]);
    assert!(probe(&mut w, &search(other(10), 256, None)).is_empty(), "it waits for its client");
}

#[test]
fn the_victim_has_made_the_fewest_changes_and_is_the_youngest_of_equals() {
    let mut w = World::new();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    w.execute(&[3], false);
    // It has changed one row, and began in the same epoch as all others.
    let victim =
        |w: &mut World, other| victim_of(&probe(w, &search(transaction(), 3 << 8, Some(other))));
    assert_eq!(victim(&mut w, passed(0, 2)), transaction());
    assert_eq!(victim(&mut w, passed(0, 0)), other(0));
    assert_eq!(victim(&mut w, passed(0, 1)), transaction(), "the later session");
    assert_eq!(victim(&mut w, passed(2, 1)), other(2));
    let older = SearchedTransaction { began: Epoch(4), ..passed(2, 1) };
    assert_eq!(victim(&mut w, older), transaction());
    let gone_on = search(transaction(), 1 << 8, Some(passed(0, 1)));
    assert!(probe(&mut w, &gone_on).is_empty(), "that wait is over");
}

#[test]
fn a_victim_is_aborted_in_the_step_in_which_it_was_seen_to_wait() {
    let mut w = World::new();
    w.execute(&[1], false);
    let sent = probe(&mut w, &search(transaction(), 256, Some(passed(0, 5))));
    assert_eq!(victim_of(&sent), transaction());
    let victim = sent[0].1.clone();
    w.prepared(2, 0, &[1]);
    w.execute(&[3], false);
    assert!(w.tell(me().address, victim).is_empty(), "it has gone on");
    let late = CoordinatorMessage::DeadlockVictim {
        transaction: other(4),
        step: 0,
        cycle: vec![other(4), transaction()],
        initiator: transaction(),
    };
    let again = ["n1w0.coordinator SearchDeadlock"];
    assert_eq!(names(&w.tell(me().address, Message::Coordinator(late))), again);
    let sent = probe(&mut w, &search(transaction(), 3 << 8, Some(passed(0, 5))));
    let sent = w.tell(me().address, sent[0].1.clone());
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("must abort") };
    assert_eq!(refusal.code, ErrorCode::Deadlock);
    let cycle = format!("cycle: {} waits for {}", transaction(), other(0));
    assert_eq!(refusal.detail, cycle);
}

#[test]
fn what_searches_compare_does_not_change_while_a_transaction_waits() {
    let mut w = World::new();
    w.execute(&[1, 2], false);
    let changes = |sent: Vec<(Address, Message)>| match &sent[0].1 {
        Message::Participant(ParticipantMessage::DeadlockProbe { search, .. }) => {
            search.victim.expect("it was passed").changes
        }
        other => panic!("{}", other.name()),
    };
    assert_eq!(changes(probe(&mut w, &search(other(7), 256, None))), 0);
    w.prepared(2, 0, &[1]);
    assert_eq!(changes(probe(&mut w, &search(other(8), 256, None))), 0, "the same wait");
    w.prepared(1, 1, &[2]);
    w.execute(&[3], false);
    assert_eq!(changes(probe(&mut w, &search(other(9), 256, None))), 2);
}

#[test]
fn participants_hear_what_a_transaction_holds_and_does_besides() {
    let mut w = World::new();
    let besides = |sent: Vec<(Address, Message)>| -> Vec<Besides> {
        let of_prepare = |(_, message)| match message {
            Message::Participant(ParticipantMessage::Prepare { besides, .. }) => Some(besides),
            _ => None,
        };
        sent.into_iter().filter_map(of_prepare).collect()
    };
    assert_eq!(besides(w.execute(&[1], false)), [Besides::Nothing]);
    w.prepared(2, 0, &[1]);
    assert_eq!(besides(w.execute(&[3], false)), [Besides::Locks]);
    w.prepared(2, 0, &[3]);
    assert_eq!(besides(w.execute(&[4, 5], false)), [Besides::Operations; 2]);
}

#[test]
fn a_wait_that_lasts_is_searched_again_unless_nobody_can_wait_for_it() {
    let mut w = World::new();
    w.execute(&[1], false);
    let waiting = |number: u64| {
        let wait = CoordinatorMessage::Waiting { transaction: transaction(), wait: number << 8 };
        Message::Coordinator(wait)
    };
    assert!(w.tell(participant(2), waiting(1)).is_empty());
    w.prepared(2, 0, &[1]);
    w.execute(&[3], false);
    let asked = ["n1w0.participant HolderProbe"];
    assert_eq!(names(&w.tell(participant(2), waiting(3))), asked);
    let search = CoordinatorMessage::SearchDeadlock { transaction: transaction() };
    assert_eq!(names(&w.tell(participant(2), Message::Coordinator(search))), asked);
}
