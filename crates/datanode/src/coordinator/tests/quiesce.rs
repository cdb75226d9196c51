//! What is held back while write chains change, and what is not.

use actor::Timer;
use stdx::Duration;

use model::cluster::{HeldGroup, PlacementSlot};
use testing::{replica, slot};

use super::*;

const CONTROL: Address =
    Address { node: NodeId(1), worker: WorkerId(0), actor: ActorKind::Control };
const QUIET: &str = "n1w0.control WorkerQuiet";

/// Node 1 has slot 0 alone, node 2 is about to join it; nodes 3 and 4 have slot 1.
fn world() -> World {
    let mut w = World::new();
    let second = PlacementSlot { group: 1, ..slot([3, 4]) };
    let mut cluster =
        testing::cluster([1, 2, 3, 4]).slot(slot([1])).slot(second).table(base()).build();
    cluster.groups = vec![vec![NodeId(1), NodeId(2)], vec![NodeId(3), NodeId(4)]];
    set_status(&mut cluster, 2, MemberStatus::Joining);
    w.shared.cluster = Arc::new(cluster);
    w
}

fn set_status(cluster: &mut ClusterState, node: u16, status: MemberStatus) {
    cluster.members.get_mut(&NodeId(node)).expect("a member").status = status;
}

impl World {
    fn quiesce(&mut self, number: u64, node: u16) -> Vec<String> {
        self.quiesce_for(number, node, Duration::from_millis(500))
    }

    fn quiesce_for(&mut self, number: u64, node: u16, span: Duration) -> Vec<String> {
        let (node, incarnation) = (NodeId(node), Incarnation(1));
        let message = CoordinatorMessage::Quiesce { number, node, incarnation, span };
        names(&self.tell(CONTROL, Message::Coordinator(message)))
    }

    /// Asks about the group that is held.
    fn ask(&mut self, number: u64, since: u64) -> Vec<String> {
        let since = ControlIndex(since);
        let message = CoordinatorMessage::QuiesceHeld { number, since };
        names(&self.tell(CONTROL, Message::Coordinator(message)))
    }

    /// Begins the transaction of a session with an insert into a partition.
    fn begin(&mut self, session: u32, partition: u16) -> Vec<(Address, Message)> {
        let mut operation = insert(1);
        operation.partition.index = PartitionIndex(partition);
        let session = SessionId { number: session, ..transaction().session };
        let execute = ClientRequest::Execute {
            transaction: TransactionId { session, number: 1 },
            request: 1,
            operations: vec![operation],
            commit: false,
            lock_wait: None,
        };
        self.tell(CLIENT, Message::Request(execute))
    }

    fn commit(&mut self) -> Vec<String> {
        let commit = ClientRequest::Commit { transaction: transaction(), request: 7 };
        names(&self.tell(CLIENT, Message::Request(commit)))
    }
}

/// Node 2 joins the chain of slot 0.
fn joins(cluster: &mut ClusterState) {
    set_status(cluster, 2, MemberStatus::Syncing);
    cluster.slots[0].replicas.push(Replica { node: NodeId(2), syncing: true });
}

#[test]
fn what_would_begin_in_the_group_waits_until_the_chain_has_changed() {
    let mut w = world();
    assert_eq!(w.quiesce(1, 2), [QUIET]);
    assert_eq!(names(&w.execute(&[1], false)), [""; 0]);
    assert_eq!(w.commit(), [""; 0], "in its order");
    assert_eq!(w.coordinator.open_transactions(), 0);
    let sent = w.change(joins);
    assert_eq!(names(&sent), ["n1w0.participant Prepare"]);
    let Message::Participant(ParticipantMessage::Prepare { chain, .. }) = &sent[0].1 else {
        panic!("{sent:?}");
    };
    assert_eq!(chain.len(), 2, "in the new chain");
    assert_eq!(w.coordinator.open_transactions(), 1);
    assert_eq!(names(&w.prepared(2, 0, &[1]))[1..], ["n2w0.participant Commit"]);
}

#[test]
fn other_groups_go_on() {
    let mut w = world();
    w.quiesce(1, 2);
    assert_eq!(names(&w.execute(&[1, 2], false)), [""; 0], "one part is in the group");
    assert_eq!(names(&w.begin(2, 1)), ["n3w0.participant Prepare"]);
}

#[test]
fn what_is_open_in_the_group_goes_on_to_its_end() {
    let mut w = world();
    w.execute(&[1], false);
    w.prepared(1, 0, &[1]);
    assert_eq!(w.quiesce(1, 2), [""; 0], "not quiet");
    assert_eq!(names(&w.execute(&[3], false)), ["n1w0.participant Prepare"]);
    w.prepared(1, 0, &[3]);
    let sent = w.commit();
    assert!(sent.contains(&QUIET.to_owned()), "its end is decided: {sent:?}");
    assert_eq!(w.change(joins).len(), 0);
}

#[test]
fn a_batch_under_way_elsewhere_is_waited_for() {
    // A unique index may send it into the group.
    let mut w = world();
    w.begin(1, 1);
    assert_eq!(w.quiesce(1, 2), [""; 0]);
    assert_eq!(names(&w.prepared(4, 0, &[1]))[1..], [QUIET]);
    assert_eq!(names(&w.execute(&[3], false)), [""; 0], "and its next step waits");
}

#[test]
fn nobody_waits_longer_than_allowed() {
    let mut w = world();
    w.quiesce(1, 2);
    w.execute(&[1], false);
    let mut ctx = Ctx::new(&mut w.shared, ActorKind::Coordinator);
    w.coordinator.timeout(&mut ctx, Timer::CoordinatorQuiesce);
    assert_eq!(names(&w.sent()), ["n1w0.participant Prepare"]);
    // The attempt is given up before.
    let mut w = world();
    w.quiesce(1, 2);
    w.execute(&[1], false);
    assert_eq!(w.quiesce_for(1, 2, Duration::ZERO), ["n1w0.participant Prepare"]);
}

#[test]
fn a_change_that_has_been_made_is_not_waited_for() {
    let mut w = world();
    w.change(joins);
    w.quiesce(1, 2);
    assert_eq!(names(&w.execute(&[1], false)), ["n1w0.participant Prepare"]);
}

#[test]
fn who_leaves_refuses_what_is_new_and_is_quiet_when_all_has_ended() {
    let mut w = world();
    w.change(joins);
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    w.change(|cluster| set_status(cluster, 1, MemberStatus::Leaving));
    assert_eq!(w.quiesce(1, 1), [""; 0]);
    let sent = w.begin(2, 0);
    let refusal = model::Refusal::new(ErrorCode::ShuttingDown, NodeId(1).to_string());
    assert_eq!(state_of(&sent), TransactionState::Aborted(refusal));
    assert_eq!(w.commit(), ["n2w0.participant Commit"], "clients wait for its end");
    w.tell(participant(1), committed(0, 1));
    let sent = w.tell(participant(2), completed(0, 2));
    assert!(names(&sent).contains(&QUIET.to_owned()), "{sent:?}");
}

#[test]
fn what_a_lost_client_wanted_is_forgotten() {
    let mut w = world();
    w.quiesce(1, 2);
    w.execute(&[1], false);
    let down = Message::LinkDown { node: CLIENT.node, incarnation: Incarnation(1), closed: true };
    w.tell(CLIENT, down);
    assert_eq!(w.change(joins).len(), 0);
}

/// Group 0 is held for its primaries to move: nodes 1 and 2 have its slot.
fn held() -> World {
    let mut w = world();
    let mut cluster = (*w.shared.cluster).clone();
    set_status(&mut cluster, 2, MemberStatus::Active);
    cluster.slots[0].replicas.push(replica(2));
    w.shared.cluster = Arc::new(cluster);
    w
}

fn holds(cluster: &mut ClusterState) {
    cluster.held = Some(HeldGroup { group: 0, since: ControlIndex(77) });
}

/// The other node of the group is the primary, and the group is held no more.
fn moves(cluster: &mut ClusterState) {
    cluster.held = None;
    cluster.slots[0].replicas.reverse();
}

#[test]
fn nothing_begins_in_a_group_that_the_state_holds_however_long_that_lasts() {
    let mut w = held();
    assert_eq!(names(&w.change(holds)), [""; 0], "nobody has asked yet");
    assert_eq!(names(&w.execute(&[1], false)), [""; 0]);
    let mut ctx = Ctx::new(&mut w.shared, ActorKind::Coordinator);
    w.coordinator.timeout(&mut ctx, Timer::CoordinatorQuiesce);
    assert_eq!(names(&w.sent()), [""; 0], "no time ends it");
    assert_eq!(w.ask(1, 76), [""; 0], "of another time");
    assert_eq!(w.ask(2, 77), [QUIET]);
    assert_eq!(w.quiesce(3, 3), [""; 0], "one at a time");
    assert_eq!(names(&w.begin(2, 1)), ["n3w0.participant Prepare"], "other groups go on");
    let sent = w.change(moves);
    assert_eq!(names(&sent), ["n2w0.participant Prepare"], "the new primary");
}

#[test]
fn a_decision_that_has_not_reached_all_replicas_is_waited_for_before_primaries_move() {
    let mut w = held();
    w.execute(&[1], false);
    w.prepared(2, 0, &[1]);
    assert_eq!(w.commit(), ["n2w0.participant Commit"], "it is decided");
    assert_eq!(w.ask(1, 77), [""; 0], "it is not held here yet");
    assert_eq!(names(&w.change(holds)), [""; 0], "and the decision is not everywhere yet");
    let sent = names(&w.tell(participant(1), committed(0, 1)));
    assert_eq!(sent, ["n2w0.participant Complete"]);
    let sent = names(&w.tell(participant(2), completed(0, 2)));
    assert!(sent.contains(&QUIET.to_owned()), "{sent:?}");
}

#[test]
fn a_group_that_is_let_go_is_used_as_before() {
    let mut w = held();
    w.change(holds);
    w.execute(&[1], false);
    let sent = w.change(|cluster| cluster.held = None);
    assert_eq!(names(&sent), ["n1w0.participant Prepare"]);
}
