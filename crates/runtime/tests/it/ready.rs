//! When a process says that it serves.

use std::sync::{Arc, mpsc};

use actor::{Actor, Ctx, Timer};
use model::{Address, ClusterState, Config, ControlIndex, NodeId};
use runtime::{Cluster, Event, Listeners, Role, Scheduling, Setup};
use wire::Message;

use super::{Directory, PATIENCE};

/// Learns in its first turn that the cluster serves, and has nothing to do from then on.
struct Contented;

impl Actor for Contented {
    fn handle(&mut self, _: &mut Ctx<'_>, _: Address, _: Message) {}

    fn cluster_changed(&mut self, _: &mut Ctx<'_>, _: &ClusterState) {}

    fn timeout(&mut self, ctx: &mut Ctx<'_>, _: Timer) {
        let state = ClusterState { index: ControlIndex(1), started: true, ..Default::default() };
        ctx.send(ctx.me(), Message::State(Arc::new(state)));
    }
}

#[test]
fn a_cluster_that_serves_in_the_first_turn_of_a_thread_is_told_of() {
    let directory = Directory::new();
    let (send, events) = mpsc::sync_channel(16);
    let cluster = Cluster::start(Setup {
        config: Arc::new(Config::new(vec![NodeId(1)], Vec::new(), 1)),
        threads: 2,
        scheduling: Scheduling::default(),
        nodes: vec![(NodeId(51), Role::Client)],
        links: None,
        application: Some(Arc::new(|_| Box::new(Contented))),
        operator: None,
        listeners: Listeners::default(),
        tls: None,
        disk: None,
        trace_directory: directory.0.clone(),
        watching: None,
        report: Box::new(move |event| send.send(event).expect("the test listens")),
    });
    let cluster = cluster.unwrap();
    // Nothing else happens that would wake a thread.
    assert!(matches!(events.recv_timeout(PATIENCE), Ok(Event::Ready)));
    cluster.stop();
}
