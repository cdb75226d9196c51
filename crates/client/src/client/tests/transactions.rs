//! Transactions: routing, answers, repetition, lost coordinators.

use model::{
    ActorKind, Epoch, ErrorCode, Expression, OperationNumber, Refusal, TransactionId, Value,
};
use stdx::Duration;
use wire::{
    ClientReply, ClientRequest, Effect, Message, Operation, OperationOutcome, OperationResult,
    TransactionState,
};

use super::{Sim, aborted};
use crate::event::{ClientResult, OperationAnswer, UnsettledTransaction};
use crate::harness::{BASE, ints, keys_in, primary};
use crate::request::ClientOperation;

fn insert(key: i64) -> ClientOperation {
    ClientOperation::insert(BASE, ints(&[key, key, key]))
}

fn written(number: u64) -> OperationResult {
    let result = Ok(OperationOutcome::Written(Effect::Created));
    OperationResult { number: OperationNumber(number), result }
}

fn refused(number: u64, code: ErrorCode) -> OperationResult {
    OperationResult { number: OperationNumber(number), result: Err(code.into()) }
}

fn batch(message: &Message) -> (TransactionId, Vec<Operation>, bool) {
    match message {
        Message::Request(ClientRequest::Execute { transaction, operations, commit, .. }) => {
            (*transaction, operations.clone(), *commit)
        }
        other => panic!("{other:?}"),
    }
}

impl Sim {
    fn execute(
        &mut self,
        operations: Vec<ClientOperation>,
        commit: bool,
    ) -> (model::Address, Message) {
        self.client.execute(&mut self.world.ctx(), self.session, operations, commit);
        self.world.sent_one()
    }

    fn outcome_asked(&mut self) -> (model::Address, UnsettledTransaction, u64) {
        let (to, message) = self.next_sent();
        match message {
            Message::Request(ClientRequest::Outcome { transaction, request, coordinator }) => {
                (to, UnsettledTransaction { transaction, coordinator }, request)
            }
            other => panic!("{other:?}"),
        }
    }

    fn tell_outcome(
        &mut self,
        asked: (model::Address, UnsettledTransaction, u64),
        result: Result<TransactionState, Refusal>,
    ) {
        let (from, unsettled, request) = asked;
        let transaction = unsettled.transaction;
        let reply = ClientReply::Outcome { transaction, request, result };
        self.deliver(from, Message::Reply(reply));
    }
}

#[test]
fn a_batch_goes_to_the_worker_of_its_first_row_and_the_transaction_stays_there() {
    let mut sim = Sim::new();
    let cluster = sim.world.shared.cluster.clone();
    for index in 0..4 {
        let key = keys_in(&cluster, BASE, index)[0];
        let other = keys_in(&cluster, BASE, (index + 1) % 4)[0];
        let sent = sim.execute(vec![insert(key), insert(other)], false);
        let primary = primary(&cluster, BASE, index);
        assert_eq!((sent.0.node, sent.0.worker), (primary.node, primary.worker));
        assert_eq!(sent.0.actor, ActorKind::Coordinator);
        let (transaction, operations, commit) = batch(&sent.1);
        assert!(!commit);
        assert_eq!(operations[0].partition.index.0, index);
        assert_eq!(operations[1].number, OperationNumber(2));
        sim.answer(
            &sent,
            vec![written(1), refused(2, ErrorCode::RowExists)],
            TransactionState::Open,
        );
        let ClientResult::Executed(answers) = sim.event() else { panic!() };
        assert_eq!(answers[0], Ok(OperationAnswer::Written(Effect::Created)));
        assert_eq!(answers[1], Err(ErrorCode::RowExists.into()));
        let next = sim.execute(vec![insert(other)], true);
        assert_eq!(next.0, sent.0);
        let (same, operations, commit) = batch(&next.1);
        assert!(commit && same == transaction);
        assert_eq!(operations[0].number, OperationNumber(3));
        sim.answer(&next, vec![written(3)], TransactionState::Committed(Epoch(5)));
        let ClientResult::Committed { transaction: named, epoch, answers } = sim.event() else {
            panic!()
        };
        assert_eq!((named, epoch, answers.len()), (Some(transaction), Epoch(5), 1));
        assert_eq!(sim.client.transaction(sim.session), None);
    }
}

#[test]
fn rows_read_come_as_values() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![ClientOperation::read(BASE, ints(&[3]))], false);
    let layout = sim.world.shared.cluster.tables[&BASE].layout().clone();
    let row = layout.encode_values(&[Value::Int(3), Value::Null, Value::Int(4)]).unwrap();
    let number = OperationNumber(1);
    let results = vec![OperationResult { number, result: Ok(OperationOutcome::Row(row)) }];
    sim.answer(&sent, results, TransactionState::Open);
    let ClientResult::Executed(answers) = sim.event() else { panic!() };
    let values = vec![Value::Int(3), Value::Null, Value::Int(4)];
    assert_eq!(answers, vec![Ok(OperationAnswer::Row(values))]);
}

#[test]
fn what_does_not_fit_the_table_is_refused_before_it_is_sent() {
    let mut sim = Sim::new();
    let unknown = model::TableId(99);
    let bad = [
        (ClientOperation::insert(unknown, vec![]), ErrorCode::UnknownTable),
        (ClientOperation::insert(BASE, ints(&[1])), ErrorCode::BadRequest),
        (ClientOperation::delete(BASE, ints(&[1, 2])), ErrorCode::BadRequest),
        (ClientOperation::delete(BASE, vec![Value::text("x")]), ErrorCode::ValueOutOfRange),
        (
            ClientOperation::insert(BASE, vec![Value::Null, Value::Null, Value::Null]),
            ErrorCode::NotNull,
        ),
        (
            ClientOperation::update(
                BASE,
                ints(&[1]),
                vec![(model::ColumnId(9), Expression::Constant(Value::Null))],
            ),
            ErrorCode::BadRequest,
        ),
    ];
    for (operation, code) in bad {
        sim.client.execute(&mut sim.world.ctx(), sim.session, vec![operation], true);
        assert!(sim.world.sent().is_empty());
        let ClientResult::Failed(refusal) = sim.event() else { panic!() };
        assert_eq!(refusal.code, code);
    }
    let closed = crate::event::SessionNumber(77);
    sim.client.commit(&mut sim.world.ctx(), closed);
    let event = sim.client.next_event().expect("a refusal");
    assert!(matches!(event.result, ClientResult::Failed(_)));
}

#[test]
fn a_whole_transaction_runs_again_after_a_temporary_refusal() {
    let mut sim = Sim::new();
    let mut sent = sim.execute(vec![insert(1)], true);
    let mut last = batch(&sent.1).0;
    for code in [ErrorCode::Deadlock, ErrorCode::LockTimeout, ErrorCode::NodeFailed] {
        sim.answer(&sent, vec![], aborted(code));
        sim.no_event();
        sent = sim.next_sent();
        let (transaction, operations, _) = batch(&sent.1);
        assert_eq!(transaction.number, last.number + 1);
        assert_eq!(operations[0].number, OperationNumber(1));
        last = transaction;
    }
    // A late answer of an earlier run changes nothing.
    let stale = ClientReply::Transaction {
        transaction: TransactionId { number: last.number - 1, ..last },
        request: 1 << 16,
        results: vec![],
        state: aborted(ErrorCode::Deadlock),
    };
    sim.deliver(sent.0, Message::Reply(stale));
    sim.answer(&sent, vec![written(1)], TransactionState::Committed(Epoch(3)));
    assert!(matches!(sim.event(), ClientResult::Committed { .. }));
    assert_eq!(sim.client.open_requests(), 0);
}

#[test]
fn a_session_that_says_how_long_it_waits_for_locks_waits_once() {
    let mut sim = Sim::new();
    let longest = Duration::from_secs(50);
    sim.client.limit_lock_waits(sim.session, longest);
    let begun = sim.world.shared.now;
    let sent = sim.execute(vec![insert(1)], true);
    let Message::Request(ClientRequest::Execute { lock_wait, .. }) = &sent.1 else { panic!() };
    assert_eq!(*lock_wait, Some(longest));
    // The participants are at work all the time: the request is late, and not lost.
    while sim.world.shared.now.since(begun) < longest.times(2) {
        sim.no_event();
        sim.tick();
    }
    sim.answer(&sent, vec![refused(1, ErrorCode::LockTimeout)], aborted(ErrorCode::LockTimeout));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::LockTimeout));
    assert_eq!(sim.client.open_requests(), 0, "it is not tried again");
}

#[test]
fn retries_end_and_some_refusals_are_never_retried() {
    let options = crate::ClientOptions { retries_max: 2, ..crate::ClientOptions::default() };
    let mut sim = Sim::with(options);
    for code in [ErrorCode::LockUnavailable, ErrorCode::RowExists, ErrorCode::MemoryFull] {
        let sent = sim.execute(vec![insert(1)], true);
        sim.answer(&sent, vec![refused(1, code)], aborted(code));
        let ClientResult::Aborted { refusal, answers, .. } = sim.event() else { panic!() };
        assert_eq!(refusal.map(|r| r.code), Some(code));
        assert_eq!(answers.len(), 1);
    }
    let mut sent = sim.execute(vec![insert(1)], true);
    for _ in 0..2 {
        sim.answer(&sent, vec![], aborted(ErrorCode::Deadlock));
        sent = sim.next_sent();
    }
    sim.answer(&sent, vec![], aborted(ErrorCode::Deadlock));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::Deadlock));
}

#[test]
fn a_first_request_is_begun_elsewhere_and_a_later_one_is_not() {
    let mut sim = Sim::new();
    let first = sim.execute(vec![insert(1)], false);
    sim.answer(&first, vec![], aborted(ErrorCode::NotServing));
    let second = sim.next_sent();
    assert_ne!(first.0.node, second.0.node, "the refuser is avoided for a while");
    sim.answer(&second, vec![written(1)], TransactionState::Open);
    assert!(matches!(sim.event(), ClientResult::Executed(_)));
    let third = sim.execute(vec![insert(2)], false);
    assert_eq!(third.0, second.0);
    sim.answer(&third, vec![], aborted(ErrorCode::UnknownTransaction));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::UnknownTransaction));
}

#[test]
fn a_stale_definition_in_the_first_batch_is_not_noticed() {
    let mut sim = Sim::new();
    let first = sim.execute(vec![insert(1), insert(2)], false);
    let results = vec![written(1), refused(2, ErrorCode::SchemaChanged)];
    sim.answer(&first, results, TransactionState::Open);
    let (to, message) = sim.world.sent_one();
    assert_eq!(to, first.0);
    assert!(matches!(message, Message::Request(ClientRequest::Abort { .. })));
    let again = sim.next_sent();
    assert_ne!(batch(&again.1).0, batch(&first.1).0);
    sim.answer(&again, vec![written(1), written(2)], TransactionState::Open);
    assert!(matches!(sim.event(), ClientResult::Executed(_)));
}

#[test]
fn an_operation_of_a_version_is_refused_under_another() {
    let mut sim = Sim::new();
    let first = sim.execute(vec![insert(1).of_version(1)], false);
    assert_eq!(batch(&first.1).1.len(), 1);
    sim.answer(&first, vec![written(1)], TransactionState::Open);
    assert!(matches!(sim.event(), ClientResult::Executed(_)));
    let operations = vec![insert(2), insert(3).of_version(2)];
    sim.client.execute(&mut sim.world.ctx(), sim.session, operations, false);
    let ClientResult::Failed(refusal) = sim.event() else { panic!("nothing is sent") };
    assert_eq!(refusal.code, ErrorCode::SchemaChanged);
}

#[test]
fn a_lost_commit_is_asked_for_until_it_is_known() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    sim.link_down(sent.0.node, true);
    let asked = sim.outcome_asked();
    assert_ne!(asked.0.node, sent.0.node);
    assert_eq!(asked.1.coordinator.address, sent.0);
    sim.tell_outcome(asked, Err(ErrorCode::NotServing.into()));
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Ok(TransactionState::Committed(Epoch(8))));
    let ClientResult::Committed { epoch, answers, .. } = sim.event() else { panic!() };
    assert_eq!((epoch, answers.len()), (Epoch(8), 0));
}

#[test]
fn a_lost_batch_that_did_not_commit_runs_again_and_a_lost_commit_does_not() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    sim.link_down(sent.0.node, false);
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Ok(aborted(ErrorCode::UnknownTransaction)));
    let again = sim.next_sent();
    assert_eq!(batch(&again.1).0.number, 2);
    sim.answer(&again, vec![written(1)], TransactionState::Committed(Epoch(1)));
    assert!(matches!(sim.event(), ClientResult::Committed { .. }));

    let sent = sim.execute(vec![insert(2)], false);
    sim.answer(&sent, vec![written(1)], TransactionState::Open);
    sim.event();
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    sim.world.sent_one();
    sim.link_down(sent.0.node, false);
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Ok(aborted(ErrorCode::UnknownTransaction)));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::NodeFailed));
}

#[test]
fn an_answer_that_comes_while_it_is_asked_for_counts() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    // First late, then too late.
    sim.tick();
    sim.tick();
    let asked = sim.outcome_asked();
    sim.answer(&sent, vec![written(1)], TransactionState::Committed(Epoch(4)));
    assert!(matches!(sim.event(), ClientResult::Committed { epoch: Epoch(4), .. }));
    sim.tell_outcome(asked, Ok(TransactionState::Committed(Epoch(4))));
    sim.no_event();
}

#[test]
fn an_outcome_nobody_knows_is_given_up_and_can_be_asked_again() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    sim.link_down(sent.0.node, true);
    let unsettled = loop {
        if let Some(event) = sim.client.next_event() {
            let ClientResult::OutcomeUnknown(unsettled) = event.result else { panic!() };
            break unsettled;
        }
        sim.world.sent();
        sim.tick();
    };
    assert_eq!(unsettled.coordinator.address, sent.0);
    sim.world.sent();
    sim.client.outcome(&mut sim.world.ctx(), sim.session, unsettled);
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Ok(TransactionState::Committed(Epoch(2))));
    assert_eq!(sim.event(), ClientResult::Outcome(TransactionState::Committed(Epoch(2))));
    sim.client.outcome(&mut sim.world.ctx(), sim.session, unsettled);
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Err(ErrorCode::OutcomeUnknown.into()));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::OutcomeUnknown);
}

#[test]
fn a_request_of_which_the_coordinator_says_that_it_goes_on_is_waited_for() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    let Message::Request(ClientRequest::Execute { transaction, request, .. }) = &sent.1 else {
        panic!("{:?}", sent.1)
    };
    let (transaction, request) = (*transaction, *request);
    let began = sim.world.ctx().now();
    while sim.world.ctx().now().since(began) < Duration::from_secs(60) {
        sim.tick();
        let result = Ok(TransactionState::Open);
        let reply = ClientReply::Outcome { transaction, request, result };
        sim.deliver(sent.0, Message::Reply(reply));
        sim.no_event();
    }
    sim.answer(&sent, vec![written(1)], TransactionState::Committed(Epoch(4)));
    assert!(matches!(sim.event(), ClientResult::Committed { epoch: Epoch(4), .. }));
}

#[test]
fn an_outcome_that_is_being_decided_is_waited_for() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    sim.link_down(sent.0.node, false);
    let began = sim.world.ctx().now();
    while sim.world.ctx().now().since(began) < Duration::from_secs(60) {
        let asked = sim.outcome_asked();
        sim.tell_outcome(asked, Ok(TransactionState::Open));
        sim.no_event();
    }
    let asked = sim.outcome_asked();
    sim.tell_outcome(asked, Ok(TransactionState::Committed(Epoch(4))));
    assert!(matches!(sim.event(), ClientResult::Committed { epoch: Epoch(4), .. }));
}

#[test]
fn the_next_life_of_the_coordinator_is_asked_too() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], true);
    let node = sent.0.node;
    sim.apply(|state| {
        state.members.get_mut(&node).unwrap().incarnation = model::Incarnation(2);
    });
    let asked = sim.outcome_asked();
    assert_eq!(asked.1.coordinator.incarnation, model::Incarnation(1));
    sim.tell_outcome(asked, Ok(aborted(ErrorCode::UnknownTransaction)));
    let asked = sim.outcome_asked();
    assert_eq!(asked.1.coordinator.incarnation, model::Incarnation(2));
    sim.tell_outcome(asked, Ok(TransactionState::Committed(Epoch(6))));
    assert!(matches!(sim.event(), ClientResult::Committed { .. }));
}

#[test]
fn silence_in_mid_transaction_aborts_it() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], false);
    sim.answer(&sent, vec![written(1)], TransactionState::Open);
    sim.event();
    let begun = sim.world.shared.now;
    sim.execute(vec![insert(2)], false);
    while sim.world.shared.now.since(begun) < sim.world.shared.config.request_timeout {
        sim.no_event();
        sim.tick();
    }
    let abort = sim.next_sent();
    assert_eq!(abort.0, sent.0);
    assert!(matches!(abort.1, Message::Request(ClientRequest::Abort { .. })));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::NodeFailed));
}

#[test]
fn what_ends_between_requests_is_told_at_the_next_one() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], false);
    sim.answer(&sent, vec![written(1)], TransactionState::Open);
    sim.event();
    let (transaction, request) = (batch(&sent.1).0, 0);
    let state = aborted(ErrorCode::MembershipChanged);
    let reply = ClientReply::Transaction { transaction, request, results: vec![], state };
    sim.deliver(sent.0, Message::Reply(reply));
    sim.no_event();
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::MembershipChanged));

    let sent = sim.execute(vec![insert(1)], false);
    sim.answer(&sent, vec![written(1)], TransactionState::Open);
    sim.event();
    sim.link_down(sent.0.node, true);
    sim.client.execute(&mut sim.world.ctx(), sim.session, vec![insert(2)], false);
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal.map(|r| r.code), Some(ErrorCode::NodeFailed));
    // The session goes on, elsewhere.
    let next = sim.execute(vec![insert(2)], false);
    assert_ne!(next.0.node, sent.0.node);
    assert_eq!(sim.client.transaction(sim.session).map(|t| t.number), Some(3));
}

#[test]
fn savepoints_name_the_operations_before_them() {
    let mut sim = Sim::new();
    let start = sim.client.savepoint(sim.session);
    let sent = sim.execute(vec![insert(1), insert(2)], false);
    sim.answer(&sent, vec![written(1), written(2)], TransactionState::Open);
    sim.event();
    let middle = sim.client.savepoint(sim.session);
    let sent = sim.execute(vec![insert(3)], false);
    sim.answer(&sent, vec![written(3)], TransactionState::Open);
    sim.event();
    for (savepoint, number) in [(middle, 2), (start, 0)] {
        sim.client.rollback_to(&mut sim.world.ctx(), sim.session, savepoint);
        let sent = sim.world.sent_one();
        let Message::Request(ClientRequest::RollbackTo { after, .. }) = &sent.1 else { panic!() };
        assert_eq!(*after, OperationNumber(number));
        sim.answer(&sent, vec![], TransactionState::Open);
        assert_eq!(sim.event(), ClientResult::RolledBack);
    }
    sim.client.abort(&mut sim.world.ctx(), sim.session);
    let sent = sim.world.sent_one();
    sim.answer(&sent, vec![], aborted(ErrorCode::UnknownTransaction));
    let ClientResult::Aborted { refusal, .. } = sim.event() else { panic!() };
    assert_eq!(refusal, None);
}

#[test]
fn one_transactional_request_at_a_time_and_nothing_to_end_is_no_error() {
    let mut sim = Sim::new();
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    assert!(matches!(sim.event(), ClientResult::Committed { epoch: Epoch(0), .. }));
    sim.client.abort(&mut sim.world.ctx(), sim.session);
    assert!(matches!(sim.event(), ClientResult::Aborted { refusal: None, .. }));
    sim.execute(vec![insert(1)], false);
    sim.client.commit(&mut sim.world.ctx(), sim.session);
    assert!(matches!(sim.event(), ClientResult::Failed(_)));
}

#[test]
fn closing_a_session_aborts_what_is_open() {
    let mut sim = Sim::new();
    let sent = sim.execute(vec![insert(1)], false);
    sim.client.close_session(&mut sim.world.ctx(), sim.session);
    let (to, message) = sim.world.sent_one();
    assert_eq!(to, sent.0);
    assert!(matches!(message, Message::Request(ClientRequest::Abort { .. })));
    sim.answer(&sent, vec![written(1)], TransactionState::Open);
    sim.no_event();
    sim.client.check_invariants();
}
