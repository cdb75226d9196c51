//! The mailbox between an actor and the host of its connections.

use std::sync::Arc;

use model::{ActorKind, Config, Incarnation, NodeId, WorkerId};

use super::*;
use crate::Shared;

const ID: ConnectionId = ConnectionId(7);

fn shared() -> Shared {
    let config = Config::new(vec![NodeId(1)], vec![], 1);
    let mut shared = Shared::new(NodeId(1), Incarnation(1), WorkerId(0), 1, Arc::new(config));
    shared.connections.open(ID);
    shared
}

fn ctx(shared: &mut Shared) -> Ctx<'_> {
    Ctx::new(shared, ActorKind::Client)
}

fn touched(shared: &mut Shared) -> Vec<ConnectionId> {
    let mut touched = Vec::new();
    shared.connections.drain_touched(&mut touched);
    touched
}

#[test]
fn output_is_in_order_and_named_once() {
    let mut shared = shared();
    ctx(&mut shared).write(ID, b"ab");
    let mut more = b"cd".to_vec();
    ctx(&mut shared).write_from(ID, &mut more);
    ctx(&mut shared).output(ID).unwrap().push(b'e');
    assert_eq!((more.len(), ctx(&mut shared).output_pending(ID)), (0, 5));
    assert_eq!(touched(&mut shared), [ID]);
    assert!(!shared.connections.has_touched());
    let outlet = shared.connections.get_mut(ID).unwrap();
    outlet.advance(2);
    assert_eq!(outlet.output(), b"cde");
    outlet.set_held(9);
    assert_eq!(outlet.pending(), 12);
    // Touched anew, because the host has looked.
    ctx(&mut shared).write(ID, b"f");
    assert_eq!(touched(&mut shared), [ID]);
}

#[test]
fn a_buffer_is_exchanged_when_nothing_waits() {
    let mut shared = shared();
    let mut buffer = Vec::with_capacity(100);
    buffer.extend_from_slice(b"first");
    let place = buffer.as_ptr();
    ctx(&mut shared).write_from(ID, &mut buffer);
    let outlet = shared.connections.get_mut(ID).unwrap();
    assert_eq!((outlet.output(), outlet.output().as_ptr()), (&b"first"[..], place));
    outlet.advance(5);
    buffer.extend_from_slice(b"second");
    ctx(&mut shared).write_from(ID, &mut buffer);
    assert_eq!((buffer.as_ptr(), buffer.len()), (place, 0));
}

#[test]
fn what_was_sent_of_much_output_is_given_back() {
    let mut shared = shared();
    ctx(&mut shared).write(ID, &vec![1; OUTPUT_HIGH]);
    assert!(!ctx(&mut shared).is_congested(ID));
    ctx(&mut shared).write(ID, &[2]);
    assert!(ctx(&mut shared).is_congested(ID));
    let outlet = shared.connections.get_mut(ID).unwrap();
    outlet.advance(OUTPUT_HIGH - 1);
    assert_eq!((outlet.output(), outlet.sent), (&[1, 2][..], 0));
    outlet.advance(2);
    assert_eq!((outlet.pending(), outlet.output.capacity()), (0, 0));
}

#[test]
fn effects_after_the_end_are_without_effect() {
    let mut shared = shared();
    ctx(&mut shared).start_tls(ID, b"hello");
    ctx(&mut shared).pause(ID);
    ctx(&mut shared).close(ID, Closing::AfterFlush);
    ctx(&mut shared).write(ID, b"late");
    ctx(&mut shared).resume(ID);
    ctx(&mut shared).close(ID, Closing::Now);
    let outlet = shared.connections.get_mut(ID).unwrap();
    assert_eq!(outlet.take_start_tls().as_deref(), Some(&b"hello"[..]));
    assert_eq!(outlet.closing(), Some(Closing::AfterFlush));
    assert!(outlet.is_paused() && outlet.output().is_empty());
    shared.connections.remove(ID);
    assert_eq!(touched(&mut shared), []);
    let mut buffer = b"lost".to_vec();
    ctx(&mut shared).write_from(ID, &mut buffer);
    assert!(buffer.is_empty() && ctx(&mut shared).output_pending(ID) == 0);
}

#[test]
fn draws_after_stirring_depend_on_the_entropy_and_on_nothing_else() {
    let stirred = |entropy| {
        let mut shared = shared();
        shared.stir(entropy);
        ctx(&mut shared).prng().next_u64()
    };
    assert_eq!(stirred(5), stirred(5));
    assert_ne!(stirred(5), stirred(6));
    // Not what would have been drawn without it, even with an entropy of zero.
    let mut plain = shared();
    let earlier: Vec<u64> = (0..100).map(|_| ctx(&mut plain).prng().next_u64()).collect();
    assert!(!earlier.contains(&stirred(0)));
}
