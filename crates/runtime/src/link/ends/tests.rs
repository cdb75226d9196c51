//! A thread's ends of links: peers that take nothing, peers that send what they may not.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use model::{Address, ControlIndex, WorkerId};
use wire::{EpochMessage, Link, Message};

use super::super::frame;
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

impl Ends {
    fn new(peers: u16, limits: LinkLimits) -> Self {
        Self::of(Role::Data, peers, limits)
    }

    fn of(role: Role, peers: u16, limits: LinkLimits) -> Self {
        let keeper = Arc::new(KeeperHandle::new().unwrap());
        let shared = (keeper.clone(), Arc::new(SendBuffers::new(limits.send_buffers)));
        let others = (2..2 + peers).map(|node| (NodeId(node), (role, limits.send_buffer)));
        let mut ends = LinkEnds::new((NodeId(1), 1), 0, others, limits, shared, 0);
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
        let (to, link) = (ends.peers.remove(0), (1, wire::PROTOCOL_VERSION));
        to.set_nonblocking(true).unwrap();
        let whose = (NodeId(1), Incarnation(1), 1);
        let waiting = SendBuffers::waiting(&buffers);
        let mut peer = LinkSocket::new(OwnedFd::from(to).into(), whose, link, waiting, NOW);
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
    [Connection { socket: one, tls: own }, Connection { socket: other, tls: peer }]
}

#[test]
fn what_an_encrypted_connection_does_not_take_at_once_follows() {
    let mut ends = Ends::new(1, LinkLimits::default());
    let [own, peer] = encrypted();
    let old = ends.ends.sockets[0].as_mut().unwrap();
    old.detach();
    ends.ends.renew(&ends.poller, (NodeId(2), 1), vec![(1, own, 0)], NOW);
    for _ in 0..100 {
        assert_eq!(ends.send(2), [0; 0]);
    }
    let own = ends.ends.sockets[0].as_ref().unwrap();
    assert!(own.blocked && own.pending() > 1 << 20, "it takes a part");
    // The peer reads, and so the rest follows.
    let Connection { socket, tls } = peer;
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
