//! A thread's ends of links: peers that take nothing, peers that send what they may not.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use model::{Address, ControlIndex, WorkerId};
use wire::{EpochMessage, Link, Message};

use super::super::frame;
use super::super::ring::Rings;
use super::*;
use crate::tls::tests::{Directory, put};
use crate::tls::{Authority, LinkTls, NodeCredentials, NodeRole, TroubleKind};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Links to data nodes, and the other ends of their connections.
struct Ends {
    ends: LinkEnds,
    poller: Poller,
    keeper: Arc<KeeperHandle>,
    peers: Vec<UnixStream>,
}

/// The link as the other end knows it.
const OTHER_END: LinkLife = LinkLife {
    node: NodeId(1),
    incarnation: Incarnation(1),
    generation: 1,
    protocol: wire::PROTOCOL_VERSION,
};

impl Ends {
    fn new(peers: u16, limits: LinkLimits) -> Self {
        Self::of(Role::Data, peers, limits)
    }

    fn of(role: Role, peers: u16, limits: LinkLimits) -> Self {
        let keeper = Arc::new(KeeperHandle::new().unwrap());
        let send_buffers = Arc::new(SendBuffers::new(limits.send_buffers));
        let others = (2..2 + peers).map(|node| (NodeId(node), (role, limits.send_buffer)));
        let (own, peers, keeper_of) = (NodeId(1), others.collect(), keeper.clone());
        let links = Links { own, peers, limits, send_buffers, keeper: keeper_of };
        let mut ends = LinkEnds::new(&links, 1, 0, 0);
        let (poller, mut peers) = (Poller::new().unwrap(), Vec::new());
        for node in ends.ends.keys().copied().collect::<Vec<_>>() {
            let (own, other) = UnixStream::pair().unwrap();
            own.set_nonblocking(true).unwrap();
            peers.push(other);
            let (incarnation, protocol) = (Incarnation(7), wire::PROTOCOL_VERSION);
            let sockets = vec![(1, OwnedFd::from(own).into())];
            let link = NewLink { node, incarnation, generation: 1, protocol, sockets };
            ends.open(&poller, link, NOW);
        }
        Self { ends, poller, keeper, peers }
    }

    /// Sends some 30 KB to a node, and says who was given up.
    fn send(&mut self, node: u16) -> Vec<u16> {
        let address = |node| Address {
            node: NodeId(node),
            worker: WorkerId(0),
            actor: ActorKind::Coordinator,
        };
        let retained = vec![model::Epoch(1 << 40); 5_000];
        let message = EpochMessage::Prepare { epoch: model::Epoch(1), retained };
        let envelope = Envelope {
            from: address(1),
            incarnation: Incarnation(1),
            to: address(node),
            reached: ControlIndex(1),
            message: Box::new(Message::Epoch(message)),
        };
        self.ends.send(Outgoing { envelope, life: None }, NOW);
        self.ends.flush(&self.poller, NOW);
        let lost = |notice| match notice {
            Notice::Broken { node, why: Broken::Overfull, .. } => node.0,
            other => panic!("{other:?}"),
        };
        self.keeper.take_notices().into_iter().map(lost).collect()
    }
}

#[test]
fn who_sends_what_its_role_may_not_send_loses_its_link() {
    for (role, refused) in [(Role::Data, false), (Role::Management, true), (Role::Client, true)] {
        let mut ends = Ends::of(role, 1, LinkLimits::default());
        let buffers = Arc::new(SendBuffers::new(usize::MAX));
        let to = ends.peers.remove(0);
        to.set_nonblocking(true).unwrap();
        let waiting = SendBuffers::waiting(&buffers);
        let mut peer = LinkSocket::new(OwnedFd::from(to).into(), OTHER_END, 1, waiting, NOW);
        let address = |node, actor| Address { node: NodeId(node), worker: WorkerId(0), actor };
        let message =
            EpochMessage::Drained { through: model::Epoch(1), committed: model::Epoch(1) };
        assert!(peer.push(&Envelope {
            from: address(2, ActorKind::Coordinator),
            incarnation: Incarnation(7),
            to: address(1, ActorKind::Epochs),
            reached: ControlIndex(1),
            message: Box::new(Message::Epoch(message)),
        }));
        peer.flush(NOW).unwrap();
        let (ready, mut arrivals) = (Ready { token: 0, write: false, hung_up: false }, Vec::new());
        ends.ends.ready(&ends.poller, ready, NOW, &mut arrivals);
        assert_eq!(arrivals.is_empty(), refused, "{role:?}");
        let notices = ends.keeper.take_notices();
        let closed = notices.iter().any(|notice| match notice {
            Notice::Broken { why, .. } => matches!(why, Broken::Violation { .. }),
            _ => false,
        });
        assert_eq!(closed, refused, "{role:?}: {notices:?}");
        assert_eq!(ends.ends.ends[&NodeId(2)].violations, u64::from(refused), "{role:?}");
    }
}

#[test]
fn a_peer_that_takes_nothing_is_lost_at_the_limit() {
    let limits = LinkLimits { send_buffer: 1 << 20, ..LinkLimits::default() };
    let mut ends = Ends::new(2, limits);
    let lost: Vec<u16> = (0..200).flat_map(|_| ends.send(2)).collect();
    assert_eq!(lost, [2], "once");
    let waiting = |ends: &Ends| ends.ends.sockets[0].as_ref().map(LinkSocket::pending);
    assert_eq!(waiting(&ends), Some(0), "what waited is lost with it");
    // One that takes what comes may be sent any amount.
    let mut reader = ends.peers[1].try_clone().unwrap();
    let reads = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    for _ in 0..200 {
        let mut patience = 0;
        while ends.ends.sockets[1].as_ref().is_some_and(|socket| socket.blocked) {
            ends.poller.wait(Some(Duration::from_secs(60))).unwrap();
            let ready: Vec<Ready> = ends.poller.take().collect();
            ready.into_iter().for_each(|r| ends.ends.ready(&ends.poller, r, NOW, &mut Vec::new()));
            ends.ends.flush(&ends.poller, NOW);
            patience += 1;
            assert!(patience < 100_000);
        }
        assert_eq!(ends.send(3), [0; 0]);
    }
    drop(ends);
    assert!(reads.join().unwrap().unwrap() > 4 << 20);
}

#[test]
fn all_peers_together_have_a_limit_too() {
    let limits = LinkLimits { send_buffers: 2 << 20, ..LinkLimits::default() };
    let mut ends = Ends::new(3, limits);
    // Two are slow, one of them more so; a third one has hardly anything to take.
    let mut lost = Vec::new();
    for round in 0..200 {
        lost.extend(ends.send(2));
        lost.extend((round % 2 == 0).then(|| ends.send(3)).into_iter().flatten());
        if round == 0 {
            lost.extend(ends.send(4));
        }
        if !lost.is_empty() {
            break;
        }
    }
    assert_eq!(lost, [2], "the one for which most waits");
}

#[test]
fn refusals_are_counted_by_their_reason() {
    let ends = Ends::new(1, LinkLimits::default());
    for kind in [TroubleKind::Revoked, TroubleKind::Time, TroubleKind::Revoked] {
        ends.keeper.count_refusal(kind);
    }
    let mut figures = Figures::default();
    ends.ends.tell_figures(&mut figures);
    let rows = figures.rows();
    let count = |labels: &str| {
        let refused = Metric::LinksRefused.name();
        rows.iter().find(|row| row.0 == refused && row.1 == labels).map(|row| row.2)
    };
    assert_eq!(
        [count("1,revoked"), count("1,time"), count("1,plain")],
        [Some(2), Some(1), Some(0)]
    );
}

/// Two ends of an encrypted connection whose handshake is over.
fn encrypted() -> [Connection; 2] {
    let directory = Directory::new("ends-tls");
    let authority = Authority::make().unwrap();
    let load = |node| NodeCredentials::load(put(&directory, &authority, NodeRole::Data, node));
    let (own, peer) = (load(1).unwrap(), load(2).unwrap());
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    let sockets = [OwnedFd::from(one), OwnedFd::from(other)];
    let mut filters = [
        LinkTls::connecting(&own, (NodeRole::Data, NodeId(2))).unwrap(),
        LinkTls::accepting(&peer).unwrap(),
    ];
    let mut plain = Vec::new();
    while filters.iter().any(|tls| tls.is_handshaking() || tls.wants_write()) {
        for (tls, socket) in filters.iter_mut().zip(&sockets) {
            while tls.wants_write() {
                tls.send(socket).unwrap();
            }
        }
        for (tls, socket) in filters.iter_mut().zip(&sockets) {
            let mut buffer = [0; 16 << 10];
            if let Ok(count) = rustix::io::read(socket, &mut buffer) {
                tls.decrypt(&buffer[..count], &mut plain).unwrap();
            }
        }
    }
    assert_eq!(plain, [0; 0]);
    assert_eq!(filters[0].shown().unwrap().identity, peer.identity());
    assert_eq!(filters[1].shown().unwrap().identity, own.identity());
    let [one, other] = sockets;
    let [own, peer] = filters.map(|tls| Some(Box::new(tls)));
    [
        Connection { socket: one, tls: own, rings: None },
        Connection { socket: other, tls: peer, rings: None },
    ]
}

#[test]
fn what_an_encrypted_connection_does_not_take_at_once_follows() {
    let mut ends = Ends::new(1, LinkLimits::default());
    let [own, peer] = encrypted();
    let old = ends.ends.sockets[0].as_mut().unwrap();
    old.detach();
    ends.ends.renew(&ends.poller, NodeId(2), 1, vec![(1, own, 0)], NOW);
    for _ in 0..100 {
        assert_eq!(ends.send(2), [0; 0]);
    }
    let own = ends.ends.sockets[0].as_ref().unwrap();
    assert!(own.blocked && own.pending() > 1 << 20, "it takes a part");
    // The peer reads, and so the rest follows.
    let Connection { socket, tls, .. } = peer;
    let mut tls = tls.unwrap();
    let (mut plain, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let mut patience = 0;
    loop {
        let own = ends.ends.sockets[0].as_ref().unwrap();
        if !own.is_held_up() && !own.wants_flush() {
            break;
        }
        while let Ok(count) = rustix::io::read(&socket, &mut buffer) {
            tls.decrypt(&buffer[..count], &mut plain).unwrap();
        }
        ends.poller.wait(Some(Duration::ZERO)).unwrap();
        let ready: Vec<Ready> = ends.poller.take().collect();
        ready.into_iter().for_each(|r| ends.ends.ready(&ends.poller, r, NOW, &mut Vec::new()));
        ends.ends.flush(&ends.poller, NOW);
        patience += 1;
        assert!(patience < 100_000);
    }
    while let Ok(count) = rustix::io::read(&socket, &mut buffer) {
        tls.decrypt(&buffer[..count], &mut plain).unwrap();
    }
    // Every frame is whole, and in its place.
    let link = Link { from: NodeId(1), incarnation: Incarnation(7), to: NodeId(2), workers: 1 };
    let mut messages = Vec::new();
    let taken = frame::take(&plain, 0, wire::PROTOCOL_VERSION, &link, &mut messages).unwrap();
    assert_eq!((taken.bytes, messages.len()), (plain.len(), 100));
}

/// A link to data node 2 through memory, and its other end.
fn over_memory(limits: LinkLimits) -> (Ends, LinkSocket) {
    let mut ends = Ends::new(0, limits);
    ends.ends.ends.insert(NodeId(2), End::new(Role::Data, limits.send_buffer));
    let (own, other) = UnixStream::pair().unwrap();
    own.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    let (rings, file) = Rings::create().unwrap();
    let (given, tls) = (Rings::accept(&file).unwrap(), None);
    let connection = Connection { socket: own.into(), tls, rings: Some(rings) };
    let (incarnation, protocol) = (Incarnation(7), wire::PROTOCOL_VERSION);
    let (node, sockets) = (NodeId(2), vec![(1, connection)]);
    let link = NewLink { node, incarnation, generation: 1, protocol, sockets };
    ends.ends.open(&ends.poller, link, NOW);
    let connection = Connection { socket: other.into(), tls: None, rings: Some(given) };
    let waiting = SendBuffers::waiting(&Arc::new(SendBuffers::new(usize::MAX)));
    let peer = LinkSocket::new(connection, OTHER_END, 1, waiting, NOW);
    (ends, peer)
}

/// What a data node says to another that may come at any time.
fn fine() -> Envelope {
    let address = |node, actor| Address { node: NodeId(node), worker: WorkerId(0), actor };
    let message = EpochMessage::Drained { through: model::Epoch(1), committed: model::Epoch(1) };
    Envelope {
        from: address(2, ActorKind::Coordinator),
        incarnation: Incarnation(7),
        to: address(1, ActorKind::Epochs),
        reached: ControlIndex(1),
        message: Box::new(Message::Epoch(message)),
    }
}

impl Ends {
    /// Sleeps until something happens, takes in what has come, and says how much that was.
    fn sleep(&mut self) -> usize {
        if self.ends.doze() {
            // Without an end: a lost wake-up would hang the test.
            self.poller.wait(None).unwrap();
        }
        self.ends.rise();
        let mut arrivals = Vec::new();
        for ready in self.poller.take().collect::<Vec<_>>() {
            self.ends.ready(&self.poller, ready, NOW, &mut arrivals);
        }
        self.ends.take_shared(NOW, &mut arrivals);
        arrivals.len()
    }
}

#[test]
fn what_comes_through_memory_wakes_who_sleeps() {
    let (mut ends, mut peer) = over_memory(LinkLimits::default());
    let waker = std::thread::spawn(move || {
        for _ in 0..2_000 {
            assert!(peer.push(&fine()));
            peer.flush(NOW).unwrap();
            std::thread::yield_now();
        }
        peer
    });
    let mut come = 0;
    while come < 2_000 {
        come += ends.sleep();
    }
    let mut peer = waker.join().unwrap();
    // What is confirmed is not kept.
    assert!(peer.pending() == 0 && ends.keeper.take_notices().is_empty());
    assert!(!ends.ends.has_news() && !peer.has_news());
    assert_eq!(ends.send(2), [0; 0]);
    let (mut plain, mut messages, mut buffer) = (Vec::new(), Vec::new(), vec![0; READ_MAX]);
    while peer.has_news() {
        peer.read(NodeId(2), 1, &mut buffer, &mut plain, NOW, &mut messages).unwrap();
    }
    assert_eq!(messages.len(), 1);
}

#[test]
fn what_was_said_before_a_process_ended_is_heard() {
    let (mut ends, mut peer) = over_memory(LinkLimits::default());
    for _ in 0..3 {
        assert!(peer.push(&fine()));
    }
    peer.flush(NOW).unwrap();
    drop(peer);
    let (mut come, mut notices) = (0, Vec::new());
    while notices.is_empty() {
        come += ends.sleep();
        notices = ends.keeper.take_notices();
    }
    assert_eq!(come, 3);
    assert!(matches!(notices[..], [Notice::Broken { why: Broken::Ended, .. }]), "{notices:?}");
    assert_eq!(ends.send(2), [0; 0], "the lane waits for another connection");
}

#[test]
fn what_was_told_of_another_socket_ends_no_connection() {
    let (mut ends, mut peer) = over_memory(LinkLimits::default());
    // As for a connection that had the place of this one before.
    let (ready, mut arrivals) = (Ready { token: 0, write: false, hung_up: true }, Vec::new());
    ends.ends.ready(&ends.poller, ready, NOW, &mut arrivals);
    ends.ends.take_shared(NOW, &mut arrivals);
    assert!(arrivals.is_empty() && ends.keeper.take_notices().is_empty());
    assert!(!ends.ends.has_news(), "it may sleep");
    assert!(peer.push(&fine()));
    peer.flush(NOW).unwrap();
    assert_eq!(ends.sleep(), 1);
}

#[test]
fn who_breaks_the_rules_of_memory_loses_its_link() {
    let (mut ends, mut peer) = over_memory(LinkLimits::default());
    assert!(peer.push(&fine()));
    peer.flush(NOW).unwrap();
    peer.rings().unwrap().spoil();
    assert_eq!(ends.sleep(), 0);
    let notices = ends.keeper.take_notices();
    assert!(matches!(notices[..], [Notice::Broken { why: Broken::Corrupt, .. }]), "{notices:?}");
    assert!(ends.ends.sockets[0].as_ref().is_some_and(|socket| socket.broken));
}

#[test]
fn over_memory_a_peer_that_takes_nothing_is_lost_at_the_limit() {
    let limits = LinkLimits { send_buffer: 1 << 20, ..LinkLimits::default() };
    let (mut ends, _peer) = over_memory(limits);
    let lost: Vec<u16> = (0..200).flat_map(|_| ends.send(2)).collect();
    assert_eq!(lost, [2], "once");
    // One that takes what comes may be sent any amount.
    let (mut ends, mut peer) = over_memory(limits);
    let reads = std::thread::spawn(move || {
        let (mut plain, mut buffer, mut come) = (Vec::new(), vec![0; READ_MAX], 0);
        while come < 200 {
            let mut messages = Vec::new();
            peer.read(NodeId(2), 1, &mut buffer, &mut plain, NOW, &mut messages).unwrap();
            come += messages.len();
            peer.flush(NOW).unwrap();
            std::thread::yield_now();
        }
        peer
    });
    for _ in 0..200 {
        while ends.ends.sockets[0].as_ref().is_some_and(|socket| socket.blocked) {
            ends.sleep();
            ends.ends.flush(&ends.poller, NOW);
        }
        assert_eq!(ends.send(2), [0; 0]);
    }
    while ends.ends.sockets[0].as_ref().is_some_and(|socket| socket.pending() > 0) {
        ends.sleep();
        ends.ends.flush(&ends.poller, NOW);
    }
    drop(reads.join().unwrap());
}

#[test]
fn over_memory_room_is_told_of_any_number_of_times_without_a_word() {
    let (mut ends, mut peer) = over_memory(LinkLimits::default());
    let (mut plain, mut buffer, mut messages) = (Vec::new(), vec![0; READ_MAX], Vec::new());
    // A system holds fewer than 300 wake-ups.
    let mut waited = 0;
    while waited < 1_000 {
        while ends.ends.sockets[0].as_ref().is_some_and(|socket| !socket.blocked) {
            assert_eq!(ends.send(2), [0; 0]);
        }
        waited += 1;
        let read = peer.read(NodeId(2), 1, &mut buffer, &mut plain, NOW, &mut messages);
        assert_eq!(read, Ok(()));
        messages.clear();
        assert_eq!(ends.sleep(), 0);
        ends.ends.flush(&ends.poller, NOW);
        // What has come is confirmed now and then, as it is kept until then.
        if waited % 400 == 0 {
            peer.flush(NOW).unwrap();
        }
    }
    assert!(ends.keeper.take_notices().is_empty());
}
