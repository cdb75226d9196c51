//! Waiting for disks.

use model::{Address, Epoch, ErrorCode, Refusal};
use wire::{ClientReply, ClientRequest, Message};

use super::Sim;
use crate::event::ClientResult;

/// A request that was sent.
struct Asked {
    to: Address,
    request: u64,
    /// It is a look only.
    peek: bool,
}

impl Sim {
    /// Takes the request that was sent.
    fn durable_asked(&mut self) -> Asked {
        let (to, message) = self.next_sent();
        let Message::Request(ClientRequest::AwaitDurable { request, peek, epoch, .. }) = message
        else {
            panic!("{message:?}")
        };
        assert_eq!(epoch, Epoch(20));
        Asked { to, request, peek }
    }

    fn durable_answer(&mut self, asked: Asked, result: Answer) {
        let Asked { to, request, .. } = asked;
        let session = self.client.session_id(self.session).expect("it is open");
        let reply = ClientReply::Durable { session, request, result };
        self.deliver(to, Message::Reply(reply));
    }

    fn await_epoch(&mut self, peek: bool) {
        self.client.await_durable(&mut self.world.ctx(), self.session, Epoch(20), peek);
    }
}

type Answer = Result<Epoch, Refusal>;

#[test]
fn a_lost_coordinator_is_replaced() {
    let mut sim = Sim::new();
    sim.await_epoch(false);
    let first = sim.durable_asked();
    assert!(!first.peek);
    sim.link_down(first.to.node, false);
    let second = sim.durable_asked();
    assert_ne!((first.to.node, first.request), (second.to.node, second.request));
    // The first one answers after all, to a question that is not asked any more.
    sim.durable_answer(first, Ok(Epoch(30)));
    sim.no_event();
    sim.durable_answer(second, Ok(Epoch(21)));
    assert_eq!(sim.event(), ClientResult::Durable(Epoch(21)));
}

#[test]
fn a_slow_disk_is_waited_for() {
    let mut sim = Sim::new();
    sim.await_epoch(false);
    for _ in 0..50 {
        sim.durable_asked();
        sim.no_event();
    }
    let last = sim.durable_asked();
    sim.durable_answer(last, Ok(Epoch(20)));
    assert_eq!(sim.event(), ClientResult::Durable(Epoch(20)));
}

#[test]
fn a_look_takes_what_it_gets() {
    let mut sim = Sim::new();
    sim.await_epoch(true);
    let asked = sim.durable_asked();
    assert!(asked.peek);
    sim.durable_answer(asked, Ok(Epoch(3)));
    assert_eq!(sim.event(), ClientResult::Durable(Epoch(3)));
}

#[test]
fn without_disks_there_is_nothing_to_wait_for() {
    let mut sim = Sim::new();
    sim.await_epoch(false);
    let asked = sim.durable_asked();
    sim.durable_answer(asked, Err(ErrorCode::NoDisk.into()));
    assert_eq!(sim.event(), ClientResult::Failed(ErrorCode::NoDisk.into()));
}

#[test]
fn an_epoch_that_was_lost_is_never_called_durable() {
    let mut sim = Sim::new();
    sim.await_epoch(false);
    let asked = sim.durable_asked();
    sim.apply(|state| state.restarts.push(Epoch(19)));
    sim.durable_answer(asked, Ok(Epoch::start_of(1).next()));
    let ClientResult::Failed(refusal) = sim.event() else { panic!() };
    assert_eq!(refusal.code, ErrorCode::OutcomeUnknown);
    // One that was restored is.
    sim.apply(|state| state.restarts = vec![Epoch(20)]);
    sim.await_epoch(false);
    let asked = sim.durable_asked();
    let durable = Epoch::start_of(1).next();
    sim.durable_answer(asked, Ok(durable));
    assert_eq!(sim.event(), ClientResult::Durable(durable));
}
