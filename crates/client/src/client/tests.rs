//! The client alone: whom it asks, what it makes of answers, refusals, silence and deaths.

mod durable;
mod reads;
mod scans;
mod schema;
mod transactions;

use actor::Timer;
use model::{ActorKind, Address, Incarnation, NodeId, Refusal};
use wire::{
    ClientReply, ClientRequest, ControlMessage, Message, OperationResult, TransactionState,
};

use super::{Client, ClientOptions};
use crate::event::{ClientResult, SessionNumber};
use crate::harness::World;

/// A client with one session.
struct Sim {
    world: World,
    client: Client,
    session: SessionNumber,
}

impl Sim {
    fn new() -> Self {
        Self::with(ClientOptions::default())
    }

    fn with(options: ClientOptions) -> Self {
        let mut world = World::new(9, ActorKind::Client);
        let mut client = Client::new(options);
        let session = client.open_session(&mut world.ctx()).expect("room");
        let follow = world.sent_one();
        assert!(matches!(
            follow.1,
            Message::Control(ref c) if matches!(**c, ControlMessage::Follow { .. })
        ));
        let mut sim = Self { world, client, session };
        let state = sim.world.ctx().cluster().clone();
        sim.deliver(follow.0, Message::State(state));
        sim
    }

    fn deliver(&mut self, from: Address, message: Message) {
        let rest = self.client.handle(&mut self.world.ctx(), from, message);
        assert!(rest.is_none(), "{rest:?}");
        self.client.check_invariants();
    }

    fn link_down(&mut self, node: NodeId, closed: bool) {
        let me = Address { node, ..self.world.ctx().me() };
        self.deliver(me, Message::LinkDown { node, incarnation: Incarnation(1), closed });
    }

    /// Answers an `Execute`, `Commit`, `Abort` or `RollbackTo`.
    fn answer(
        &mut self,
        to: &(Address, Message),
        results: Vec<OperationResult>,
        state: TransactionState,
    ) {
        let Message::Request(request) = &to.1 else { panic!("{to:?}") };
        let (transaction, request) = match request {
            ClientRequest::Execute { transaction, request, .. }
            | ClientRequest::Commit { transaction, request }
            | ClientRequest::Abort { transaction, request }
            | ClientRequest::RollbackTo { transaction, request, .. } => (*transaction, *request),
            other => panic!("{other:?}"),
        };
        let reply = ClientReply::Transaction { transaction, request, results, state };
        self.deliver(to.0, Message::Reply(reply));
    }

    /// The next timer fires.
    fn tick(&mut self) {
        assert_eq!(self.world.next_timer(), Some(Timer::ClientTick));
        self.client.timeout(&mut self.world.ctx());
        self.client.check_invariants();
    }

    /// Timers fire until something is sent.
    fn next_sent(&mut self) -> (Address, Message) {
        for _ in 0..100 {
            let mut sent = self.world.sent();
            // Looking for another node to follow goes on beside the requests.
            sent.retain(|envelope| !matches!(*envelope.message, Message::Control(_)));
            if !sent.is_empty() {
                assert_eq!(sent.len(), 1, "{sent:?}");
                let envelope = sent.remove(0);
                return (envelope.to, *envelope.message);
            }
            self.tick();
        }
        panic!("nothing is sent");
    }

    fn event(&mut self) -> ClientResult {
        let event = self.client.next_event().expect("an event");
        assert_eq!(event.session, self.session);
        event.result
    }

    fn no_event(&mut self) {
        assert_eq!(self.client.next_event(), None);
    }

    fn apply(&mut self, change: impl FnOnce(&mut model::ClusterState)) {
        let before = self.world.change(change);
        self.client.cluster_changed(&mut self.world.ctx(), &before);
        self.client.check_invariants();
    }
}

fn aborted(code: model::ErrorCode) -> TransactionState {
    TransactionState::Aborted(Refusal::from(code))
}

/// A timer may be left that was set for an answer: it finds nothing to do, and is not set again.
fn nothing_to_do(world: &mut World, client: &mut Client) {
    assert_eq!(world.next_timer(), Some(Timer::ClientTick));
    client.timeout(&mut world.ctx());
    assert!(world.sent().is_empty());
    assert_eq!(world.next_timer(), None);
}

#[test]
fn follows_the_next_node_until_the_cluster_has_started() {
    let mut world = World::new(9, ActorKind::Client);
    let before = world.change(|state| *state = model::ClusterState::default());
    let mut client = Client::new(ClientOptions::default());
    client.start(&mut world.ctx());
    let first = world.sent_one().0;
    assert_eq!(world.next_timer(), Some(Timer::ClientTick));
    client.timeout(&mut world.ctx());
    let second = world.sent_one().0;
    assert_ne!(first.node, second.node);
    assert!(!client.ready(&world.ctx()));
    let started = before.clone();
    let before = world.change(|state| *state = (*started).clone());
    client.cluster_changed(&mut world.ctx(), &before);
    assert!(client.ready(&world.ctx()));
    let state = world.ctx().cluster().clone();
    client.handle(&mut world.ctx(), second, Message::State(state));
    nothing_to_do(&mut world, &mut client);
}

/// Those that the cluster was founded with may have been dropped: a client that began then was
/// never ready.
#[test]
fn a_client_that_knows_no_members_asks_nodes_too_that_came_later() {
    let mut world = World::new(9, ActorKind::Client);
    world.change(|state| *state = model::ClusterState::default());
    std::sync::Arc::make_mut(&mut world.shared.config).spare_nodes = vec![NodeId(4)];
    let mut client = Client::new(ClientOptions::default());
    client.start(&mut world.ctx());
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(world.sent_one().0.node);
        assert_eq!(world.next_timer(), Some(Timer::ClientTick));
        client.timeout(&mut world.ctx());
    }
    asked.sort_unstable();
    assert_eq!(asked, [NodeId(1), NodeId(2), NodeId(4)]);
}

#[test]
fn a_node_that_does_not_answer_is_not_followed() {
    let mut world = World::new(9, ActorKind::Client);
    let mut client = Client::new(ClientOptions::default());
    client.start(&mut world.ctx());
    // The cluster is known, and whoever is asked says nothing: the next one is asked.
    let mut asked = Vec::new();
    for _ in 0..3 {
        assert!(client.ready(&world.ctx()));
        asked.push(world.sent_one().0);
        assert_eq!(world.next_timer(), Some(Timer::ClientTick));
        client.timeout(&mut world.ctx());
    }
    assert!(asked[0] != asked[1] && asked[1] != asked[2], "{asked:?}");
    let followed = world.sent_one().0;
    let state = world.ctx().cluster().clone();
    client.handle(&mut world.ctx(), followed, Message::State(state));
    nothing_to_do(&mut world, &mut client);
}

#[test]
fn follows_another_node_when_the_followed_one_is_lost() {
    let mut world = World::new(9, ActorKind::Client);
    let mut client = Client::new(ClientOptions::default());
    client.start(&mut world.ctx());
    let first = world.sent_one().0.node;
    let down = Message::LinkDown { node: first, incarnation: Incarnation(1), closed: true };
    let from = world.ctx().me();
    client.handle(&mut world.ctx(), from, down);
    assert_eq!(world.next_timer(), Some(Timer::ClientTick));
    client.timeout(&mut world.ctx());
    assert_ne!(world.sent_one().0.node, first);
}

#[test]
fn sessions_have_a_limit_and_are_used_again() {
    let mut sim = Sim::with(ClientOptions { sessions_max: 2, ..ClientOptions::default() });
    let second = sim.client.open_session(&mut sim.world.ctx()).expect("room");
    assert!(sim.client.open_session(&mut sim.world.ctx()).is_err());
    let id = sim.client.session_id(second);
    sim.client.close_session(&mut sim.world.ctx(), second);
    let third = sim.client.open_session(&mut sim.world.ctx()).expect("room again");
    assert_eq!(sim.client.session_id(third), id);
}
