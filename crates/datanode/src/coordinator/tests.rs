//! The coordinator alone, with participants played by hand: what it sends, in which order, and
//! what it makes of answers and deaths.

mod deadlock;
mod journal;
mod one_phase;
mod quiesce;

use std::sync::Arc;

use actor::{Actor, Ctx, EpochView, Shared, Tally};
use model::cluster::{Replica, Takeover};
use model::{
    ActorKind, Address, ClusterState, Config, ControlIndex, Epoch, ErrorCode, Incarnation, Key,
    Member, MemberStatus, NodeId, OperationNumber, PartitionId, PartitionIndex, Row, SessionId,
    Table, TableId, TransactionId, Value, WorkerId,
};
use stdx::{Duration, Few, Instant};
use testing::{BIGINT, TableBuilder, serving_worker};
use wire::{
    ClientReply, ClientRequest, CoordinatorMessage, CoordinatorRef, Effect, EpochMessage, LegId,
    Message, Operation, OperationKind, OperationOutcome, ParticipantMessage, PreparedOperation,
    ReportedLeg, ReportedLegStatus, ReportedTransaction, TransactionState, UniqueImages,
};

use super::Coordinator;

const CLIENT: Address = Address { node: NodeId(9), worker: WorkerId(0), actor: ActorKind::Client };

struct World {
    coordinator: Coordinator,
    shared: Shared,
}

fn participant(node: u16) -> Address {
    Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Participant }
}

fn table(id: u32, name: &str, columns: &[&str]) -> TableBuilder {
    let columns = columns.iter().map(|name| testing::column(name, BIGINT));
    testing::table(name).id(TableId(id)).columns(columns).partitions(2)
}

/// The table `d.t (id, u)`, without an index.
fn base() -> Table {
    table(1, "d.t", &["id", "u"]).build()
}

fn cluster() -> ClusterState {
    let indexed = table(1, "d.t", &["id", "u"]).unique("u", ["u"]).build();
    let hidden = table(2, "d.t/u", &["u", "id"]).build();
    testing::cluster([1, 2]).table(indexed).table(hidden).build()
}

impl World {
    fn new() -> Self {
        let config = Config::new(vec![NodeId(1), NodeId(2)], vec![NodeId(3)], 2);
        let shared = Shared {
            cluster: Arc::new(cluster()),
            epochs: EpochView { current: Epoch(5), ..EpochView::default() },
            ..serving_worker(1, config)
        };
        Self { coordinator: Coordinator::new(), shared }
    }

    fn tell(&mut self, from: Address, message: Message) -> Vec<(Address, Message)> {
        let mut ctx = Ctx::new(&mut self.shared, ActorKind::Coordinator);
        self.coordinator.handle(&mut ctx, from, message);
        self.coordinator.check_invariants(&self.shared);
        self.sent()
    }

    fn sent(&mut self) -> Vec<(Address, Message)> {
        self.shared.outbox.drain(..).map(|e| (e.to, *e.message)).collect()
    }

    /// Removes a member, listing its coordinators for takeover.
    fn kill(&mut self, node: u16) -> Vec<(Address, Message)> {
        let (node, incarnation) = (NodeId(node), Incarnation(1));
        self.change(|cluster| {
            cluster.members.remove(&node);
            for slot in &mut cluster.slots {
                slot.replicas.retain(|replica| replica.node != node);
            }
            cluster.takeovers.push(Takeover { node, incarnation, workers: 1 });
        })
    }

    /// Lets it reach a newer state.
    fn change(&mut self, change: impl FnOnce(&mut ClusterState)) -> Vec<(Address, Message)> {
        let before = Arc::clone(&self.shared.cluster);
        let mut after = (*before).clone();
        after.index = ControlIndex(after.index.0 + 1);
        change(&mut after);
        self.shared.cluster = Arc::new(after);
        let mut ctx = Ctx::new(&mut self.shared, ActorKind::Coordinator);
        self.coordinator.cluster_changed(&mut ctx, &before);
        self.coordinator.check_invariants(&self.shared);
        self.sent()
    }

    fn execute(&mut self, numbers: &[u32], commit: bool) -> Vec<(Address, Message)> {
        let operations = numbers.iter().map(|n| insert((*n).into())).collect();
        let request = u64::from(numbers[0]);
        self.tell(
            CLIENT,
            Message::Request(ClientRequest::Execute {
                transaction: transaction(),
                request,
                operations,
                commit,
                lock_wait: None,
            }),
        )
    }

    fn prepared(&mut self, from: u16, leg: u16, numbers: &[u32]) -> Vec<(Address, Message)> {
        let results = numbers.iter().map(|n| done(u64::from(*n) << 8, None)).collect();
        self.prepared_with(from, leg, results)
    }

    fn prepared_with(
        &mut self,
        from: u16,
        leg: u16,
        results: Vec<PreparedOperation>,
    ) -> Vec<(Address, Message)> {
        let (transaction, results) = (transaction(), results.into());
        let message = CoordinatorMessage::Prepared { transaction, leg: LegId(leg), results };
        self.tell(participant(from), Message::Coordinator(message))
    }
}

fn transaction() -> TransactionId {
    let session = SessionId { node: NodeId(9), incarnation: Incarnation(1), number: 1 };
    TransactionId { session, number: 1 }
}

fn row(id: i64, u: i64) -> Row {
    base().layout().encode_values(&[Value::Int(id), Value::Int(u)]).expect("fits")
}

/// Operation `number` inserts a row: odd ones into partition 0, even ones into partition 1.
fn insert(number: u64) -> Operation {
    Operation {
        number: OperationNumber(number),
        partition: PartitionId {
            table: TableId(1),
            index: PartitionIndex(((number + 1) % 2) as u16),
        },
        table_version: 1,
        kind: OperationKind::Insert { row: row(number as i64, 0) },
    }
}

fn done(internal: u64, images: Option<UniqueImages>) -> PreparedOperation {
    let outcome = OperationOutcome::Written(Effect::Created);
    let done = PreparedOperation::done(OperationNumber(internal), outcome);
    PreparedOperation { images: images.map(Box::new), ..done }
}

fn refused(internal: u64, code: ErrorCode) -> PreparedOperation {
    PreparedOperation::refused(OperationNumber(internal), code.into())
}

fn names(sent: &[(Address, Message)]) -> Vec<String> {
    sent.iter().map(|(to, message)| format!("{to} {}", message.name())).collect()
}

fn state_of(sent: &[(Address, Message)]) -> TransactionState {
    let states: Vec<_> = sent
        .iter()
        .filter_map(|(_, message)| match message {
            Message::Reply(ClientReply::Transaction { state, .. }) => Some(state.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(states.len(), 1, "one answer in {:?}", names(sent));
    states[0].clone()
}

fn committed(leg: u16, attempt: u32) -> Message {
    committed_with(leg, attempt, Few::new())
}

fn committed_with(leg: u16, attempt: u32, results: Few<PreparedOperation>) -> Message {
    Message::Coordinator(CoordinatorMessage::Committed {
        transaction: transaction(),
        leg: LegId(leg),
        attempt,
        results,
    })
}

fn completed(leg: u16, attempt: u32) -> Message {
    Message::Coordinator(CoordinatorMessage::Completed {
        transaction: transaction(),
        leg: LegId(leg),
        attempt,
    })
}

#[test]
fn a_commit_runs_up_the_chain_and_is_told_after_all_have_completed() {
    let mut w = World::new();
    // Operation 1 lives in partition 0: chain node 1, node 2.
    assert_eq!(names(&w.execute(&[1], true)), ["n1w0.participant Prepare"]);
    assert_eq!(names(&w.prepared(2, 0, &[1])), ["n2w0.participant Commit"]);
    assert_eq!(names(&w.tell(participant(1), committed(0, 1))), ["n2w0.participant Complete"]);
    let end = w.tell(participant(2), completed(0, 2));
    assert_eq!(state_of(&end), TransactionState::Committed(Epoch(5)));
    assert_eq!(w.coordinator.open_transactions(), 0);
}

#[test]
fn a_client_hears_that_a_long_commit_goes_on() {
    let mut world = World::new();
    world.execute(&[1], true);
    world.prepared(2, 0, &[1]);
    let beats = |world: &mut World| {
        world.shared.now = world.shared.now + Duration::from_secs(1);
        let mut ctx = Ctx::new(&mut world.shared, ActorKind::Coordinator);
        world.coordinator.timeout(&mut ctx, actor::Timer::CoordinatorTick);
        let open = |(to, message): &(Address, Message)| match message {
            Message::Reply(ClientReply::Outcome { request, result, .. }) => {
                assert_eq!(*to, CLIENT);
                assert_eq!(*result, Ok(TransactionState::Open));
                Some(*request)
            }
            _ => None,
        };
        world.sent().iter().filter_map(open).collect::<Vec<u64>>()
    };
    assert_eq!(beats(&mut world), [1]);
    assert_eq!(beats(&mut world), [1]);
    world.tell(participant(1), committed(0, 1));
    let sent = world.tell(participant(2), completed(0, 2));
    assert!(matches!(state_of(&sent), TransactionState::Committed(_)));
    assert_eq!(beats(&mut world), [] as [u64; 0]);
}

#[test]
fn with_two_legs_primaries_keep_their_record_until_all_have_applied() {
    let mut w = World::new();
    w.execute(&[1, 2], true);
    w.prepared(2, 0, &[1]);
    let commits = w.prepared(1, 1, &[2]);
    assert_eq!(names(&commits).len(), 2);
    for (_, message) in &commits {
        let Message::Participant(ParticipantMessage::Commit { keep, .. }) = message else {
            panic!("expected commits");
        };
        assert!(keep);
    }
    assert_eq!(names(&w.tell(participant(1), committed(0, 1))).len(), 0);
    let completes = w.tell(participant(2), committed(1, 1));
    assert_eq!(completes.len(), 4, "both replicas of both legs");
}

/// Backups do not know such a leg: who takes over would not hear of its commit, and abort the rest.
#[test]
fn a_leg_whose_changes_were_all_refused_has_no_part_in_the_commit() {
    let mut w = World::new();
    w.execute(&[1], false);
    w.prepared_with(1, 0, vec![refused(1 << 8, ErrorCode::RowExists)]);
    // Operation 2 lives in partition 1: chain node 2, node 1.
    w.execute(&[2], true);
    let sent = w.prepared(1, 1, &[2]);
    assert_eq!(names(&sent), ["n1w0.participant Abort", "n1w0.participant Commit"]);
    assert_eq!(names(&w.tell(participant(2), committed(1, 1))), ["n1w0.participant Complete"]);
    let end = w.tell(participant(1), completed(1, 2));
    assert_eq!(state_of(&end), TransactionState::Committed(Epoch(5)));
}

#[test]
fn a_refused_operation_aborts_an_autocommit_batch_and_only_that() {
    let mut w = World::new();
    w.execute(&[1], false);
    let open = w.prepared_with(1, 0, vec![refused(1 << 8, ErrorCode::RowExists)]);
    assert_eq!(state_of(&open), TransactionState::Open);
    w.execute(&[3], true);
    let end = w.prepared_with(1, 0, vec![refused(3 << 8, ErrorCode::RowExists)]);
    assert_eq!(state_of(&end), TransactionState::Aborted(ErrorCode::RowExists.into()));
    assert_eq!(names(&end)[1..], ["n1w0.participant Abort"]);
}

#[test]
fn an_operation_that_comes_back_from_a_stale_route_is_sent_again() {
    let mut w = World::new();
    let mut sent = w.execute(&[1, 3], true);
    for _ in 1..4 {
        assert_eq!(names(&sent), ["n1w0.participant Prepare"]);
        let Message::Participant(ParticipantMessage::Prepare { operations, .. }) = &sent[0].1
        else {
            panic!("expected the operations");
        };
        let back = |operation: &Operation| PreparedOperation {
            returned: Some(Box::new(operation.clone())),
            ..PreparedOperation::refused(operation.number, ErrorCode::StaleRoute.into())
        };
        sent = w.prepared_with(1, 0, operations.iter().map(back).collect());
    }
    // What comes back too often is a refusal.
    let Message::Participant(ParticipantMessage::Prepare { operations, .. }) = &sent[0].1 else {
        panic!("expected the operations");
    };
    assert_eq!(operations.iter().map(|o| o.number.0 >> 8).collect::<Vec<_>>(), [1, 3]);
    let returned = Some(Box::new(operations[0].clone()));
    let refused = PreparedOperation { returned, ..refused(1 << 8, ErrorCode::StaleRoute) };
    let end = w.prepared_with(1, 0, vec![refused, done(3 << 8, None)]);
    assert_eq!(state_of(&end), TransactionState::Aborted(ErrorCode::StaleRoute.into()));
}

#[test]
fn no_epoch_is_given_between_prepare_and_switch() {
    let mut w = World::new();
    let driver = Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Epochs };
    let prepare = EpochMessage::Prepare { epoch: Epoch(6), retained: vec![Epoch(5)] };
    w.tell(driver, Message::Epoch(prepare));
    assert_eq!(w.shared.epochs.retained, [Epoch(5)]);
    w.execute(&[1], true);
    assert!(w.prepared(2, 0, &[1]).is_empty(), "the commit waits");
    let switch = Message::Epoch(EpochMessage::Switch { epoch: Epoch(6) });
    let sent = w.tell(driver, switch);
    let Message::Participant(ParticipantMessage::Commit { epoch, .. }) = sent[0].1 else {
        panic!("expected a commit, not {:?}", names(&sent));
    };
    assert_eq!(epoch, Epoch(6));
}

#[test]
fn the_driver_hears_of_the_first_commit_after_quiet_epochs() {
    for (epoch, told) in [(6, true), (5, false)] {
        let mut w = World::new();
        w.shared.epochs.current = Epoch(4);
        let driver = Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Epochs };
        w.tell(driver, Message::Epoch(EpochMessage::Switch { epoch: Epoch(epoch) }));
        w.execute(&[1], true);
        let sent = w.prepared(2, 0, &[1]);
        let news = EpochMessage::Drained { through: Epoch(epoch - 1), committed: Epoch(epoch) };
        let news = format!("{:?}", (driver, Message::Epoch(news)));
        assert_eq!(sent.iter().any(|sent| format!("{sent:?}") == news), told);
    }
}

#[test]
fn without_a_lease_nothing_commits() {
    let mut w = World::new();
    w.execute(&[1], true);
    w.shared.lease.set(Instant::ZERO);
    let TransactionState::Aborted(refusal) = state_of(&w.prepared(2, 0, &[1])) else {
        panic!("must not commit");
    };
    assert_eq!(refusal.code, ErrorCode::NotServing);
}

#[test]
fn an_open_transaction_that_used_a_dead_replica_is_aborted_along_the_survivors() {
    let mut w = World::new();
    w.execute(&[1], false);
    let sent = w.kill(2);
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("must abort") };
    assert_eq!(refusal.code, ErrorCode::NodeFailed);
    assert!(names(&sent).contains(&"n1w0.participant Abort".to_string()));
}

#[test]
fn a_committing_transaction_goes_on_with_the_survivors() {
    let mut w = World::new();
    w.execute(&[1], true);
    w.prepared(2, 0, &[1]);
    let sent = w.kill(2);
    let again: Vec<_> = names(&sent).into_iter().filter(|name| name.ends_with(" Commit")).collect();
    assert_eq!(again, ["n1w0.participant Commit"]);
    assert!(w.tell(participant(1), committed(0, 1)).is_empty(), "the first round is void");
    let end = w.tell(participant(1), committed(0, 2));
    assert_eq!(state_of(&end), TransactionState::Committed(Epoch(5)));
}

#[test]
fn a_late_request_of_an_ended_transaction_opens_nothing() {
    let mut w = World::new();
    w.execute(&[1], false);
    w.kill(2);
    let TransactionState::Aborted(refusal) = state_of(&w.execute(&[3], true)) else {
        panic!("must be refused");
    };
    assert_eq!(refusal.code, ErrorCode::UnknownTransaction);
}

#[test]
fn unique_index_entries_follow_the_row_and_a_violation_undoes_it() {
    let mut w = World::new();
    w.execute(&[1], false);
    let images = UniqueImages { before: None, after: Some(row(1, 40)) };
    let sent = w.prepared_with(2, 0, vec![done(1 << 8, Some(images))]);
    let Message::Participant(ParticipantMessage::Prepare { operations, leg, .. }) = &sent[0].1
    else {
        panic!("expected the index change, not {:?}", names(&sent));
    };
    assert_eq!(operations[0].number, OperationNumber(1 << 8 | 1));
    assert_eq!(operations[0].partition.table, TableId(2));
    let leg = leg.0;
    let refusal = refused(1 << 8 | 1, ErrorCode::RowExists);
    let undo = w.prepared_with(1, leg, vec![refusal]);
    assert_eq!(names(&undo), ["n1w0.participant Rollback"]);
    let rolled_back = CoordinatorMessage::RolledBack {
        transaction: transaction(),
        leg: LegId(0),
        refused: false,
        attempt: 1,
    };
    let sent = w.tell(participant(2), Message::Coordinator(rolled_back));
    let Message::Reply(ClientReply::Transaction { results, state, .. }) = &sent[0].1 else {
        panic!("expected the answer");
    };
    assert_eq!(*state, TransactionState::Open);
    let refusal = results[0].result.as_ref().expect_err("violated");
    assert_eq!((refusal.code, refusal.detail.as_str()), (ErrorCode::UniqueViolation, "d.t.u"));
}

#[test]
fn a_column_that_was_renamed_is_indexed_as_before() {
    let mut w = World::new();
    w.change(|cluster| {
        let mut base = (*cluster.tables[&TableId(1)]).clone();
        base.columns[1].name = "renamed".into();
        cluster.tables.insert(base.id, Arc::new(base));
    });
    w.execute(&[1], false);
    let images = UniqueImages { before: None, after: Some(row(1, 40)) };
    let sent = w.prepared_with(2, 0, vec![done(1 << 8, Some(images))]);
    let Message::Participant(ParticipantMessage::Prepare { operations, .. }) = &sent[0].1 else {
        panic!("expected the index change, not {:?}", names(&sent));
    };
    // The hidden table has the columns the other way round.
    let OperationKind::Insert { row: entry } = &operations[0].kind else { panic!("an entry") };
    assert_eq!(*entry, row(40, 1));
}

#[test]
fn an_entry_that_a_refused_operation_should_have_made_is_not_lost() {
    let mut w = World::new();
    // Two operations of a batch change one row: the first one's entry is refused, and the second
    // one does not find it.
    w.execute(&[1, 3], false);
    let images = |before, after| Some(UniqueImages { before, after });
    let first = done(1 << 8, images(None, Some(row(1, 40))));
    let second = done(3 << 8, images(Some(row(1, 40)), Some(row(1, 50))));
    let sent = w.prepared_with(2, 0, vec![first, second]);
    let Message::Participant(ParticipantMessage::Prepare { leg, .. }) = &sent[0].1 else {
        panic!("expected the index changes, not {:?}", names(&sent));
    };
    let leg = leg.0;
    w.prepared_with(1, leg, vec![refused(1 << 8 | 1, ErrorCode::MemoryFull)]);
    w.prepared_with(1, leg, vec![refused(3 << 8 | 1, ErrorCode::RowNotFound)]);
    w.prepared_with(1, leg, vec![done(3 << 8 | 2, None)]);
    let undone = |number, refused| {
        let (transaction, leg) = (transaction(), LegId(0));
        let message = CoordinatorMessage::RolledBack { transaction, leg, refused, attempt: number };
        Message::Coordinator(message)
    };
    // The first one cannot be undone by itself, as the second one has changed its row.
    let sent = w.tell(participant(2), undone(1, true));
    let TransactionState::Aborted(refusal) = state_of(&sent) else { panic!("{sent:?}") };
    assert_eq!(refusal.code, ErrorCode::MemoryFull, "the reason of all");
}

#[test]
fn a_batch_beyond_the_limit_of_operations_is_refused_alone() {
    let mut w = World::new();
    w.shared.config = Arc::new(Config { operations_max: 2, ..(*w.shared.config).clone() });
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    let sent = w.execute(&[3, 5], false);
    let Message::Reply(ClientReply::Transaction { results, state, .. }) = &sent[0].1 else {
        panic!("{:?}", names(&sent));
    };
    assert_eq!(*state, TransactionState::Open);
    assert_eq!(results.len(), 2);
    for result in results {
        let refusal = result.result.as_ref().expect_err("too many");
        assert_eq!(refusal.code, ErrorCode::OperationLimit);
    }
    // What was done before can be committed, and nothing else can be numbered like the refused.
    let commit = ClientRequest::Commit { transaction: transaction(), request: 9 };
    assert_eq!(names(&w.tell(CLIENT, Message::Request(commit))), ["n2w0.participant Commit"]);
}

fn report(status: ReportedLegStatus) -> Vec<ReportedTransaction> {
    let chain = [participant(2), participant(1)].into_iter().collect();
    let legs = vec![ReportedLeg { leg: LegId(0), chain, status }];
    vec![ReportedTransaction { transaction: transaction(), legs }]
}

fn take_over(status: ReportedLegStatus) -> (World, Vec<(Address, Message)>) {
    let mut w = World::new();
    let sent = w.kill(2);
    assert_eq!(names(&sent), ["n1w0.participant TakeoverQuery"]);
    let message = CoordinatorMessage::TakeoverReport {
        node: NodeId(2),
        incarnation: Incarnation(1),
        attempt: 1,
        transactions: report(status),
    };
    let sent = w.tell(participant(1), Message::Coordinator(message));
    (w, sent)
}

#[test]
fn a_takeover_commits_what_one_survivor_knows_to_be_committed() {
    let (mut w, sent) = take_over(ReportedLegStatus::Committed(Epoch(4)));
    let Message::Participant(ParticipantMessage::Commit { epoch, attempt, .. }) = sent[0].1 else {
        panic!("expected a commit, not {:?}", names(&sent));
    };
    assert_eq!(epoch, Epoch(4));
    let sent = w.tell(participant(1), committed(0, attempt));
    assert_eq!(names(&sent), ["n1w0.control Propose"], "settled");
}

#[test]
fn a_takeover_aborts_what_nobody_knows_to_be_committed() {
    let (mut w, sent) = take_over(ReportedLegStatus::Open);
    let Message::Participant(ParticipantMessage::Abort { attempt, .. }) = sent[0].1 else {
        panic!("expected an abort, not {:?}", names(&sent));
    };
    let aborted =
        CoordinatorMessage::Aborted { transaction: transaction(), leg: LegId(0), attempt };
    let sent = w.tell(participant(1), Message::Coordinator(aborted));
    assert_eq!(names(&sent), ["n1w0.control Propose"]);
}

#[test]
fn a_session_with_a_lost_answer_learns_that_nothing_committed_and_nothing_will() {
    let mut w = World::new();
    w.execute(&[1], false);
    let me = CoordinatorRef {
        address: Address { actor: ActorKind::Coordinator, ..participant(1) },
        incarnation: Incarnation(1),
    };
    let query = CoordinatorMessage::OutcomeQuery { transaction: transaction(), probe: 3 };
    let sent = w.tell(me.address, Message::Coordinator(query));
    assert!(names(&sent).contains(&"n1w0.coordinator OutcomeReport".to_string()));
    let TransactionState::Aborted(_) = state_of(&w.execute(&[3], true)) else {
        panic!("must not go on");
    };
}

#[test]
fn keys_of_another_kind_are_not_needed_here() {
    // The coordinator never looks into keys: any bytes do.
    let mut w = World::new();
    let mut operation = insert(1);
    operation.kind = OperationKind::Delete { key: Key(Box::from([1, 2, 3])), condition: None };
    let sent = w.tell(
        CLIENT,
        Message::Request(ClientRequest::Execute {
            transaction: transaction(),
            request: 1,
            operations: vec![operation],
            commit: false,
            lock_wait: None,
        }),
    );
    assert_eq!(names(&sent), ["n1w0.participant Prepare"]);
}

#[test]
fn transactions_are_counted_once_by_how_they_end() {
    let mut w = World::new();
    w.execute(&[1], true);
    w.prepared(2, 0, &[1]);
    w.shared.now = w.shared.now + Duration::from_millis(3);
    w.tell(participant(1), committed(0, 1));
    w.tell(participant(2), completed(0, 2));
    let counts = &w.shared.tallies;
    let of = |tallies: &[Tally]| tallies.iter().map(|t| counts.of(*t)).collect::<Vec<u64>>();
    assert_eq!(of(&[Tally::Committed, Tally::CommittedReading, Tally::Aborted]), [1, 0, 0]);
    assert_eq!((counts.commits.count(), counts.commits.sum), (1, Duration::from_millis(3)));

    let mut w = World::new();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    let abort = ClientRequest::Abort { transaction: transaction(), request: 2 };
    w.tell(CLIENT, Message::Request(abort));
    assert_eq!(w.shared.tallies.of(Tally::Aborted), 1);
    assert_eq!(w.shared.tallies.of(Tally::AbortRequested), 1);

    let mut w = World::new();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    w.kill(2);
    assert_eq!(w.shared.tallies.of(Tally::Aborted), 1);
    assert_eq!(w.shared.tallies.of(Tally::AbortNodeFailed), 1);
    assert_eq!(w.shared.tallies.commits.count(), 0);
}
