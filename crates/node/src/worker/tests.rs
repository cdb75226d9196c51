//! Delivery between the actors of a worker: what waits, what is dropped.

use std::cell::RefCell;
use std::rc::Rc;

use model::cluster::Member;
use model::{Address, ControlIndex, MemberStatus, SessionId};
use wire::{ClientReply, Priority};

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
        message,
    }
}

fn state(index: u64, members: &[(u16, u64)]) -> Message {
    let member = |life| Member {
        incarnation: Incarnation(life),
        role: NodeRole::Data,
        workers: 1,
        status: MemberStatus::Active,
        joined_at: ControlIndex(1),
    };
    let members = members.iter().map(|(node, life)| (NodeId(*node), member(*life))).collect();
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
    assert_eq!(heard.take(), ["@3 after @0"]);
    assert!(!worker.has_messages() && worker.message_count() == 1);
    // What comes later does not overtake what was held.
    worker.deliver(envelope(1, 1, 5, reply()));
    worker.deliver(envelope(2, 2, 5, state(5, &[(1, 1), (2, 2)])));
    run(&mut worker);
    assert_eq!(heard.take(), ["@5 after @3", "n1 ReadReply", "n1 ReadReply"]);
    // An older state changes nothing.
    worker.deliver(envelope(2, 2, 5, state(4, &[])));
    run(&mut worker);
    assert_eq!(heard.take(), Vec::<String>::new());
}

#[test]
fn lives_that_are_no_members_are_not_listened_to() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 1, 3, state(3, &[(1, 2)])));
    worker.deliver(envelope(1, 1, 2, reply()));
    worker.deliver(envelope(1, 2, 2, reply()));
    run(&mut worker);
    assert_eq!(heard.take(), ["@3 after @0", "n1 ReadReply"]);
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

#[test]
fn what_is_sent_to_a_member_is_for_its_life() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 4, 3, state(3, &[(1, 4)])));
    run(&mut worker);
    worker.start(Instant::ZERO);
    let sent = run(&mut worker);
    assert_eq!(heard.take(), ["@3 after @0", "timer"]);
    assert_eq!(sent[0].life, Some(Incarnation(4)));
    assert_eq!(sent[0].envelope.reached, ControlIndex(3));
    assert_eq!(sent[0].envelope.message.priority(), Priority::Normal);
}

#[test]
fn messages_for_other_kinds_of_actors_are_dropped() {
    let (mut worker, heard) = client();
    worker.deliver(envelope(1, 1, 0, request()));
    worker.deliver(Envelope { to: coordinator(9), ..envelope(1, 1, 0, request()) });
    run(&mut worker);
    assert_eq!(heard.take(), Vec::<String>::new());
}
