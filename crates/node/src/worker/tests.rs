//! Delivery between the actors of a worker: what waits, what is dropped.

use std::cell::RefCell;
use std::rc::Rc;

use model::cluster::Member;
use model::{
    Address, ControlIndex, Epoch, MemberStatus, PartitionId, PartitionIndex, SessionId, TableId,
};
use testing::{member, slot};
use wire::{Class, ClientReply, ControlMessage, ParticipantMessage};

use super::*;

/// An application that notes what it is told.
struct Listener(Rc<RefCell<Vec<String>>>);

impl Actor for Listener {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if matches!(message, Message::LinkDown { .. }) {
            // What is sent from here on goes over a new connection.
            ctx.send(from, request());
        }
        self.0.borrow_mut().push(format!("{} {}", from.node, message.name()));
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, _timer: Timer) {
        ctx.send(coordinator(1), request());
        self.0.borrow_mut().push("timer".into());
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        self.0.borrow_mut().push(format!("{} after {}", ctx.cluster().index, before.index));
    }

    fn connection(&mut self, ctx: &mut Ctx<'_>, id: ConnectionId, event: ConnectionEvent<'_>) {
        if let ConnectionEvent::Received(bytes) = event {
            ctx.write(id, bytes);
            ctx.send(coordinator(1), request());
        }
        self.0.borrow_mut().push(format!("{event:?}"));
    }
}

fn request() -> Message {
    let (session, request) = (SessionId::default(), 1);
    Message::Request(wire::ClientRequest::OpenSnapshot { session, request })
}

fn reply() -> Message {
    let (session, request) = (SessionId::default(), 1);
    Message::Reply(ClientReply::Read { session, request, result: Ok(vec![]) })
}

fn coordinator(node: u16) -> Address {
    Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Coordinator }
}

fn envelope(node: u16, life: u64, reached: u64, message: Message) -> Envelope {
    let to = Address { node: NodeId(9), worker: WorkerId(0), actor: ActorKind::Client };
    Envelope {
        from: coordinator(node),
        incarnation: Incarnation(life),
        to,
        reached: ControlIndex(reached),
        message: Box::new(message),
    }
}

fn state(index: u64, members: &[(u16, u64)]) -> Message {
    let life = |(node, life): &(u16, u64)| (NodeId(*node), member(Incarnation(*life)));
    let members = members.iter().map(life).collect();
    let index = ControlIndex(index);
    Message::State(Arc::new(ClusterState { index, members, ..ClusterState::default() }))
}

fn down(node: u16, life: u64) -> Message {
    let (node, incarnation) = (NodeId(node), Incarnation(life));
    Message::LinkDown { node, incarnation, closed: true }
}

fn client() -> (Worker, Rc<RefCell<Vec<String>>>) {
    let heard = Rc::default();
    let place = Place {
        node: NodeId(9),
        incarnation: Incarnation(7),
        worker: WorkerId(0),
        workers: 1,
        config: Arc::new(Config::new(vec![NodeId(1), NodeId(2)], vec![], 2)),
        lease: LeaseCell::default(),
        seed: 1,
        disk: false,
        recorder_size: 8,
    };
    (Worker::client_node(place, Box::new(Listener(Rc::clone(&heard)))), heard)
}

fn run(worker: &mut Worker) -> Vec<Outgoing> {
    while worker.step(worker.shared().now) {}
    worker.take_outgoing().into()
}

#[test]
fn messages_wait_for_the_state_their_sender_had_reached() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 1, 3, state(3, &[(1, 1)])));
    worker.deliver(envelope(1, 1, 5, reply()));
    run(&mut worker);
    assert_eq!(heard.take(), ["@3 after @0", "n1 State"]);
    assert!(!worker.has_messages() && worker.message_count() == 1);
    // What comes later does not overtake what was held.
    worker.deliver(envelope(1, 1, 5, reply()));
    worker.deliver(envelope(2, 2, 5, state(5, &[(1, 1), (2, 2)])));
    run(&mut worker);
    assert_eq!(heard.take(), ["@5 after @3", "n2 State", "n1 ReadReply", "n1 ReadReply"]);
    // An older state changes nothing; it tells that its sender answers.
    worker.deliver(envelope(2, 2, 5, state(4, &[])));
    run(&mut worker);
    assert_eq!(heard.take(), ["n2 State"]);
}

#[test]
fn a_client_of_a_cluster_that_is_gone_ends() {
    let (mut worker, heard) = client();
    let of = |id, message| match message {
        Message::State(mut state) => {
            Arc::make_mut(&mut state).id = ClusterId(id);
            Message::State(state)
        }
        other => other,
    };
    worker.deliver(envelope(1, 1, 3, of(7, state(3, &[(1, 1)]))));
    worker.deliver(envelope(1, 1, 4, of(7, state(4, &[(1, 1)]))));
    run(&mut worker);
    assert!(worker.halted().is_none());
    heard.take();
    // It has fewer entries, and is another one: nothing that is known here is true of it.
    worker.deliver(envelope(1, 2, 1, of(8, state(1, &[(1, 2)]))));
    run(&mut worker);
    let other = Halt::OtherCluster { own: ClusterId(7), cluster: ClusterId(8) };
    assert_eq!(worker.halted(), Some(&other));
    assert_eq!(heard.take(), Vec::<String>::new());
}

#[test]
fn lives_that_are_no_members_are_not_listened_to() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 1, 3, state(3, &[(1, 2)])));
    worker.deliver(envelope(1, 1, 2, reply()));
    worker.deliver(envelope(1, 2, 2, reply()));
    run(&mut worker);
    assert_eq!(heard.take(), ["@3 after @0", "n1 State", "n1 ReadReply"]);
}

#[test]
fn a_lost_link_takes_along_what_came_over_it_and_what_answers_it() {
    let (mut worker, heard) = client();
    worker.start(Instant::ZERO);
    worker.deliver(envelope(1, 1, 0, reply()));
    worker.deliver(envelope(2, 1, 0, reply()));
    worker.deliver(envelope(1, 1, 0, down(1, 1)));
    let sent = run(&mut worker);
    assert_eq!(heard.take(), ["timer", "n1 LinkDown", "n2 ReadReply"]);
    // The request of the timer was made by one who did not know yet.
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].envelope.to, coordinator(1));
}

/// An application that refuses whatever it is sent.
struct Refuser(Rc<RefCell<u32>>);

impl Actor for Refuser {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        if !matches!(message, Message::LinkDown { .. }) {
            *self.0.borrow_mut() += 1;
            ctx.refuse(from, "nothing is welcome");
        }
    }

    fn timeout(&mut self, _: &mut Ctx<'_>, _: Timer) {}

    fn cluster_changed(&mut self, _: &mut Ctx<'_>, _: &ClusterState) {}
}

#[test]
fn nothing_is_handled_of_a_life_that_broke_a_rule_before_its_link_is_down() {
    let handled = Rc::default();
    let (mut worker, _) = client();
    worker.actors.client = Some(Box::new(Refuser(Rc::clone(&handled))));
    for (node, life) in [(1, 1), (1, 1), (2, 1)] {
        worker.deliver(envelope(node, life, 0, reply()));
    }
    run(&mut worker);
    assert_eq!(handled.replace(0), 2, "one of each");
    let broken = |node, incarnation| Violation {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        message: "ReadReply",
        rule: "nothing is welcome",
    };
    assert_eq!(worker.take_violations(), [broken(1, 1), broken(2, 1)]);
    worker.deliver(envelope(1, 1, 0, reply()));
    worker.deliver(envelope(1, 2, 0, reply()));
    run(&mut worker);
    assert_eq!(handled.replace(0), 1, "another life has broken none");
    assert_eq!(worker.take_violations(), [broken(1, 2)]);
    worker.deliver(envelope(1, 1, 0, down(1, 1)));
    worker.deliver(envelope(1, 1, 0, reply()));
    run(&mut worker);
    assert_eq!(handled.replace(0), 1, "over another link");
}

#[test]
fn what_is_sent_to_a_member_is_for_its_life() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 4, 3, state(3, &[(1, 4)])));
    run(&mut worker);
    worker.start(Instant::ZERO);
    let sent = run(&mut worker);
    assert_eq!(heard.take(), ["@3 after @0", "n1 State", "timer"]);
    assert_eq!(sent[0].life, Some(Incarnation(4)));
    assert_eq!(sent[0].envelope.reached, ControlIndex(3));
    assert_eq!(sent[0].envelope.message.class(), Class::Operation);
}

#[test]
fn messages_for_other_kinds_of_actors_are_dropped() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 1, 0, request()));
    worker.deliver(Envelope { to: coordinator(9), ..envelope(1, 1, 0, request()) });
    run(&mut worker);
    assert_eq!(heard.take(), Vec::<String>::new());
}

#[test]
fn connections_are_the_applications() {
    let (mut worker, heard) = client();
    let (id, now) = (ConnectionId(3), Instant::from_nanos(5));
    worker.connections().open(id);
    worker.connection(now, id, ConnectionEvent::Received(b"ab"));
    assert_eq!(heard.take(), ["Received([97, 98])"]);
    // What it sends is routed at once, and what it writes is in the mailbox.
    assert_eq!(worker.pop_outgoing().unwrap().envelope.to, coordinator(1));
    assert!(worker.pop_outgoing().is_none() && worker.shared().now == now);
    assert_eq!(worker.connections().get_mut(id).unwrap().output(), b"ab");
}

/// Worker 1 of data node 1, in its life 4, without a cluster. Its node's peer is data node 2.
fn data_worker() -> Worker {
    let place = Place {
        node: NodeId(1),
        incarnation: Incarnation(4),
        worker: WorkerId(1),
        workers: 2,
        config: Arc::new(Config::new(vec![NodeId(1), NodeId(2)], vec![], 2)),
        lease: LeaseCell::default(),
        seed: 1,
        disk: false,
        recorder_size: 8,
    };
    Worker::data_node(place)
}

fn participant(node: u16) -> Address {
    Address { node: NodeId(node), worker: WorkerId(1), actor: ActorKind::Participant }
}

/// A message for the participant of the data node's worker.
fn to_data(node: u16, life: u64, reached: u64, message: Message) -> Envelope {
    Envelope {
        from: participant(node),
        to: participant(1),
        ..envelope(node, life, reached, message)
    }
}

/// What the participant answers at once to whoever asks.
fn question() -> Message {
    let scan = wire::ScanId { session: SessionId::default(), number: model::ScanNumber(1) };
    Message::Scan(wire::ScanMessage::Next { scan, partition: PARTITION })
}

/// The only partition that this worker holds a replica of.
const PARTITION: PartitionId = PartitionId { table: TableId(1), index: PartitionIndex(0) };

fn table() -> model::Table {
    testing::table("t").id(PARTITION.table).column("id", testing::BIGINT).build()
}

/// A state of a cluster with one table, whose rows are copied from node 2 to life `life` of node 1.
fn syncing_state(cluster: u64, index: u64, life: u64) -> Message {
    let mut state = testing::cluster([1, 2]).workers(2).table(table()).slot(slot([2, 1])).build();
    (state.index, state.id) = (ControlIndex(index), ClusterId(cluster));
    state.slots[0].replicas[1].syncing = true;
    for (node, life, status) in [(1, life, MemberStatus::Syncing), (2, 2, MemberStatus::Active)] {
        let (node, life) = (NodeId(node), Incarnation(life));
        state.members.insert(node, Member { workers: 2, status, ..member(life) });
        state.incarnations.insert(node, life);
    }
    Message::State(Arc::new(state))
}

/// Gives the worker a row of the partition, by the copy it has asked for; returns from which epoch
/// on it wanted rows.
fn copy_a_row(worker: &mut Worker) -> Epoch {
    let request = run(worker).into_iter().find_map(|out| match *out.envelope.message {
        Message::Participant(ParticipantMessage::CopyRequest { partition, from, copy }) => {
            assert_eq!((partition, out.envelope.to), (PARTITION, participant(2)));
            Some((from, copy))
        }
        _ => None,
    });
    let (from, copy) = request.expect("rows are asked for");
    let row = table().layout().encode_values(&[model::Value::Int(7)]).expect("it fits");
    let (partition, rows) = (PARTITION, vec![(model::RowId(0), Epoch(3), Some(row))]);
    let message = ParticipantMessage::CopyRows { partition, copy, rows, finished: Some(1) };
    worker.deliver(to_data(2, 2, 0, Message::Participant(message)));
    run(worker);
    assert_eq!(rows_of(worker), 1);
    from
}

fn rows_of(worker: &Worker) -> u64 {
    let participant = worker.participant().expect("a data node has one");
    participant.partitions().map(|partition| partition.row_count()).sum()
}

/// Whether node 2 gets an answer to a question that it asks in its life 2.
fn answers(worker: &mut Worker) -> bool {
    worker.deliver(to_data(2, 2, 0, question()));
    run(worker).iter().any(|out| matches!(*out.envelope.message, Message::Scan(_)))
}

fn silent(node: u16, life: u64) -> Message {
    let (node, incarnation) = (NodeId(node), Incarnation(life));
    Message::LinkDown { node, incarnation, closed: false }
}

#[test]
fn key_operations_of_clients_make_steps_short() {
    let read = |snapshot| {
        let (node, incarnation) = (NodeId(2), Incarnation(2));
        let (session, request) = (SessionId { node, incarnation, number: 1 }, 1);
        let read = wire::ReadRequest { session, request, snapshot, reads: vec![] };
        Message::Participant(ParticipantMessage::Read(Box::new(read)))
    };
    for (actor, message, shared) in [
        (ActorKind::Client, read(None), true),
        (ActorKind::Client, read(Some(Epoch(3))), false),
        (ActorKind::Joiner, read(None), false),
        (ActorKind::Client, question(), false),
    ] {
        let mut worker = data_worker();
        let from = Address { actor, ..participant(2) };
        worker.deliver(Envelope { from, ..to_data(2, 2, 0, message) });
        run(&mut worker);
        assert_eq!(worker.is_shared(worker.shared().now), shared, "{actor:?}");
    }
}

#[test]
fn a_message_that_waits_is_forgotten_with_its_link() {
    let mut worker = data_worker();
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    run(&mut worker);
    worker.deliver(to_data(2, 2, 6, question()));
    assert!(run(&mut worker).is_empty() && worker.message_count() == 1);
    worker.deliver(to_data(2, 2, 6, down(2, 2)));
    run(&mut worker);
    assert_eq!(worker.message_count(), 0);
    worker.deliver(to_data(2, 2, 6, syncing_state(1, 6, 4)));
    assert!(!run(&mut worker).iter().any(|out| matches!(*out.envelope.message, Message::Scan(_))));
}

#[test]
fn a_link_that_was_silent_carries_no_rows_any_more() {
    let mut worker = data_worker();
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    run(&mut worker);
    assert!(answers(&mut worker));
    worker.deliver(to_data(2, 2, 5, silent(2, 2)));
    run(&mut worker);
    assert!(!answers(&mut worker), "something before it was lost");
    // What the control plane says passes: it repeats everything.
    let control =
        Message::Control(Box::new(ControlMessage::Follow { known: None, answers_peers: false }));
    let to = Address { actor: ActorKind::Control, ..participant(1) };
    worker.deliver(Envelope { to, ..to_data(2, 2, 5, control) });
    assert_eq!(worker.message_count(), 1);
    run(&mut worker);
    // The next life of the node has lost nothing.
    let Message::State(state) = syncing_state(1, 6, 4) else { unreachable!() };
    let mut state = (*state).clone();
    state.members.get_mut(&NodeId(2)).expect("a member").incarnation = Incarnation(3);
    state.incarnations.insert(NodeId(2), Incarnation(3));
    worker.deliver(to_data(2, 3, 6, Message::State(Arc::new(state))));
    run(&mut worker);
    worker.deliver(to_data(2, 3, 6, question()));
    assert!(run(&mut worker).iter().any(|out| matches!(*out.envelope.message, Message::Scan(_))));
}

#[test]
fn a_link_that_was_closed_or_used_by_no_member_is_not_held_against_it() {
    let mut worker = data_worker();
    worker.deliver(to_data(2, 2, 0, silent(2, 2)));
    run(&mut worker);
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    run(&mut worker);
    assert!(answers(&mut worker), "it was no member yet");
    worker.deliver(to_data(2, 2, 5, down(2, 2)));
    run(&mut worker);
    assert!(answers(&mut worker), "a closed link is the end of the process, not a loss");
}

#[test]
fn a_new_life_keeps_the_rows_of_its_cluster() {
    let mut worker = data_worker();
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    assert_eq!(copy_a_row(&mut worker), Epoch(0));
    worker.deliver(to_data(2, 2, 5, silent(2, 2)));
    worker.deliver(to_data(2, 2, 9, question()));
    worker.rejoin(Incarnation(6));
    assert!(!worker.has_messages() && worker.take_outgoing().is_empty());
    assert_eq!(worker.shared().cluster.index, ControlIndex(0));
    // The log is told from its beginning; until its own admission a life takes no part.
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    assert!(run(&mut worker).is_empty());
    assert_eq!(worker.shared().cluster.index, ControlIndex(0));
    worker.deliver(to_data(2, 2, 8, syncing_state(1, 8, 6)));
    assert_eq!(rows_of(&worker), 1);
    copy_a_row(&mut worker);
    assert!(answers(&mut worker), "the new life has lost no messages");
}

#[test]
fn a_new_life_drops_the_rows_of_another_cluster() {
    let mut worker = data_worker();
    worker.deliver(to_data(2, 2, 5, syncing_state(1, 5, 4)));
    copy_a_row(&mut worker);
    worker.rejoin(Incarnation(6));
    assert_eq!(rows_of(&worker), 1);
    // Founded anew among the same nodes: the same table identities, another table.
    worker.deliver(to_data(2, 2, 4, syncing_state(2, 4, 6)));
    assert!(worker.step(Instant::ZERO));
    assert_eq!(rows_of(&worker), 0);
    assert_eq!(copy_a_row(&mut worker), Epoch(0), "from the beginning");
    // In the same cluster they stay, also over a further life.
    worker.rejoin(Incarnation(7));
    worker.deliver(to_data(2, 2, 6, syncing_state(2, 6, 7)));
    assert!(worker.step(Instant::ZERO));
    assert_eq!(rows_of(&worker), 1);
}
