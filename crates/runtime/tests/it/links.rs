//! Several processes' worth of nodes with real sockets between them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::{Config, NodeId};
use runtime::{
    Cluster, Event, LinkEvent, LinkLimits, LinkListeners, LinkSetup, Listeners, NodeCredentials,
    Peer, PeerAddress, Role, SameHost, Scheduling, Setup,
};

use super::application::{Application, Board};
use super::{Directory, PATIENCE};

pub(crate) const NODES: [(u16, Role); 4] =
    [(1, Role::Data), (2, Role::Data), (49, Role::Management), (101, Role::Client)];

/// A cluster of two data nodes, each node with threads and sockets of its own.
pub(crate) struct Apart {
    name: String,
    pub(crate) ports: BTreeMap<u16, u16>,
    threads: BTreeMap<u16, u8>,
    pub(crate) same_host: SameHost,
    pub(crate) compression: bool,
    pub(crate) credentials: BTreeMap<u16, NodeCredentials>,
    nodes: BTreeMap<u16, (Cluster, Receiver<Event>)>,
    pub(crate) board: Arc<Board>,
    directory: Directory,
}

impl Apart {
    pub(crate) fn new(name: &str, threads: [u8; 4], same_host: bool) -> Self {
        // Others may take a port between here and its use, which would fail the test and no more.
        let listeners: Vec<_> =
            NODES.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let ids = || NODES.iter().map(|(node, _)| *node);
        Self {
            name: format!("{name}-{}", std::process::id()),
            ports: ids().zip(listeners.iter().map(port)).collect(),
            threads: ids().zip(threads).collect(),
            same_host: if same_host { SameHost::Memory } else { SameHost::Tcp },
            compression: !same_host,
            credentials: BTreeMap::new(),
            nodes: BTreeMap::new(),
            board: Arc::new(Board::new(threads[3])),
            directory: Directory::new(),
        }
    }

    pub(crate) fn address(&self, node: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[&node]).into()
    }

    pub(crate) fn start_all(&mut self) {
        for (node, _) in NODES {
            self.start(node);
        }
        for (node, _) in NODES {
            self.wait(node, |event| matches!(event, Event::Ready));
        }
    }

    pub(crate) fn start(&mut self, node: u16) {
        let name = self.name.clone();
        self.start_as(node, &name);
    }

    fn start_as(&mut self, node: u16, cluster: &str) {
        let role = NODES.iter().find(|(id, _)| *id == node).unwrap().1;
        let peers = NODES.iter().filter(|(id, _)| *id != node).map(|(id, role)| {
            let address = PeerAddress { host: "127.0.0.1".into(), port: self.ports[id] };
            let address = (*role != Role::Client).then_some(address);
            (NodeId(*id), Peer { role: *role, address, send_buffer: None })
        });
        let same_host = self.same_host;
        let listeners = match role {
            Role::Client => LinkListeners::default(),
            _ => {
                let (addresses, here) = ([self.address(node)], same_host != SameHost::Tcp);
                LinkListeners::bind(cluster, NodeId(node), &addresses, here).unwrap()
            }
        };
        let (board, (send, events)) = (self.board.clone(), channel());
        let send = Mutex::new(send);
        let cluster = Cluster::start(Setup {
            config: Arc::new(Config::new(vec![NodeId(1), NodeId(2)], vec![NodeId(49)], 2)),
            threads: self.threads[&node],
            scheduling: Scheduling::default(),
            nodes: vec![(NodeId(node), role)],
            links: Some(LinkSetup {
                cluster: cluster.into(),
                peers: peers.collect(),
                listeners,
                same_host,
                limits: LinkLimits { compression: self.compression, ..LinkLimits::default() },
                service: Some(runtime::Service {
                    answer: Arc::new(|asker, asked, out| {
                        assert_eq!(*asker, runtime::Asker::Plain);
                        let _ = out.write_all(asked);
                    }),
                    tls: None,
                }),
                credentials: self.credentials.get(&node).cloned(),
            }),
            application: (role == Role::Client).then(|| -> runtime::ApplicationFactory {
                Arc::new(move |place| Box::new(Application::new(place, board.clone())))
            }),
            operator: None,
            listeners: Listeners::default(),
            tls: None,
            disk: None,
            trace_directory: self.directory.0.clone(),
            watching: None,
            report: Box::new(move |event| {
                let _ = send.lock().unwrap().send(event);
            }),
        });
        self.nodes.insert(node, (cluster.unwrap(), events));
    }

    /// Ends a node's process.
    pub(crate) fn stop(&mut self, node: u16) {
        self.nodes.remove(&node).unwrap().0.stop();
    }

    /// Waits for an event of a node.
    pub(crate) fn wait(&self, node: u16, wanted: impl Fn(&Event) -> bool) -> Event {
        let events = &self.nodes[&node].1;
        loop {
            match events.recv_timeout(PATIENCE) {
                Ok(event) if wanted(&event) => return event,
                Ok(Event::Halted { why, .. }) => panic!("node {node} has halted: {why}"),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("node {node}: it does not happen"),
                Err(error) => panic!("node {node}: {error}"),
            }
        }
    }
}

pub(crate) fn is_down(event: &Event, lost: u16) -> bool {
    matches!(event, Event::Link(LinkEvent::Down { node, .. }) if node.0 == lost)
}

pub(crate) fn is_up(event: &Event, made: u16) -> bool {
    matches!(event, Event::Link(LinkEvent::Up { node, .. }) if node.0 == made)
}

pub(crate) fn outlives_a_data_node(mut cluster: Apart) {
    cluster.start_all();
    cluster.board.run_round();
    cluster.stop(2);
    let down = cluster.wait(1, |event| is_down(event, 2));
    assert!(
        matches!(down, Event::Link(LinkEvent::Down { closed: true, .. })),
        "the end of a process is known as such: {down:?}"
    );
    cluster.board.run_round();
    cluster.start(2);
    cluster.wait(2, |event| matches!(event, Event::Ready));
    cluster.stop(1);
    cluster.wait(2, |event| is_down(event, 1));
    cluster.board.run_round();
}

#[test]
fn nodes_of_one_host_outlive_each_other() {
    let mut cluster = Apart::new("unix", [2, 2, 1, 2], true);
    cluster.same_host = SameHost::Sockets;
    outlives_a_data_node(cluster);
}

#[test]
fn nodes_that_share_memory_outlive_each_other() {
    outlives_a_data_node(Apart::new("memory", [2, 3, 1, 2], true));
}

/// How the links of a node to the three others are reached, when they have been made.
fn transports(cluster: &Apart, node: u16) -> BTreeMap<u16, &'static str> {
    let mut found = BTreeMap::new();
    while found.len() < NODES.len() - 1 {
        let up = cluster.wait(node, |event| matches!(event, Event::Link(LinkEvent::Up { .. })));
        let Event::Link(LinkEvent::Up { node, transport, .. }) = up else { unreachable!() };
        found.insert(node.0, transport);
    }
    found
}

#[test]
fn memory_is_shared_if_both_want_it_and_sockets_are_used_otherwise() {
    let mut cluster = Apart::new("either", [2, 1, 1, 2], true);
    for (node, _) in NODES {
        cluster.same_host = if node == 49 { SameHost::Sockets } else { SameHost::Memory };
        cluster.start(node);
    }
    for (node, _) in NODES {
        for (peer, transport) in transports(&cluster, node) {
            let expected = if [node, peer].contains(&49) { "Unix" } else { "shared memory" };
            assert_eq!(transport, expected, "{node} and {peer}");
        }
    }
    cluster.wait(101, |event| matches!(event, Event::Ready));
    cluster.board.run_round();
}

#[test]
fn nodes_with_different_numbers_of_threads_outlive_each_other_over_tcp() {
    outlives_a_data_node(Apart::new("tcp", [1, 3, 1, 2], false));
}

#[test]
fn the_end_of_a_peer_that_was_long_awaited_is_known_as_such() {
    let mut cluster = Apart::new("awaited", [1, 1, 1, 1], true);
    for node in [1, 49, 101] {
        cluster.start(node);
    }
    // Long enough for many attempts that come to nothing.
    std::thread::sleep(Duration::from_millis(2_500));
    cluster.start(2);
    cluster.wait(101, |event| matches!(event, Event::Ready));
    cluster.board.run_round();
    cluster.stop(2);
    for node in [1, 49, 101] {
        let down = cluster.wait(node, |event| is_down(event, 2));
        assert!(matches!(down, Event::Link(LinkEvent::Down { closed: true, .. })), "{down:?}");
    }
}

#[test]
fn strangers_are_refused_and_the_cluster_goes_on() {
    let mut cluster = Apart::new("strangers", [2, 2, 1, 1], false);
    cluster.start_all();
    // A node of another cluster that has this one's addresses.
    cluster.stop(2);
    cluster.wait(1, |event| is_down(event, 2));
    cluster.start_as(2, "another");
    let refused = cluster.wait(2, |event| matches!(event, Event::Link(LinkEvent::Refused { .. })));
    let Event::Link(LinkEvent::Refused { why, .. }) = refused else { unreachable!() };
    assert!(why.contains("`another`"), "whoever greets first is refused: {why}");
    cluster.stop(2);
    // Nonsense, and silence.
    let silent = TcpStream::connect(cluster.address(1)).unwrap();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4_096], b"ninesL\x03\x00abc"] {
        let mut stranger = TcpStream::connect(cluster.address(1)).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        stranger.write_all(nonsense).unwrap();
        let mut answer = Vec::new();
        // It may be reset, as not all was read.
        let _ = stranger.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    // Whoever asks the service is answered.
    let mut asker = TcpStream::connect(cluster.address(1)).unwrap();
    asker.write_all(&runtime::service_request(b"hello").unwrap()).unwrap();
    let mut answer = Vec::new();
    asker.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"hello");
    drop(silent);
    cluster.start(2);
    cluster.wait(2, |event| matches!(event, Event::Ready));
    cluster.board.run_round();
}

/// A cluster in which a proxy is between data node 2 and those that connect to it.
fn with_a_proxy(name: &str, threads: [u8; 4]) -> (Apart, Proxy) {
    behind_a_proxy(Apart::new(name, threads, false))
}

/// The same with a cluster that was not started.
pub(crate) fn behind_a_proxy(mut cluster: Apart) -> (Apart, Proxy) {
    let proxy = Proxy::before(cluster.address(2));
    // Node 2 finds nobody where it looks for node 1, and so waits for it.
    let direct = cluster.ports.insert(1, 1).unwrap();
    cluster.start(2);
    cluster.ports.insert(1, direct);
    cluster.start(49);
    cluster.ports.insert(2, proxy.port).unwrap();
    cluster.start(1);
    cluster.start(101);
    for (node, _) in NODES {
        cluster.wait(node, |event| matches!(event, Event::Ready));
    }
    (cluster, proxy)
}

/// Waits until the link between the data nodes goes on over new connections; none may be lost.
pub(crate) fn wait_for_renewal(cluster: &Apart) {
    for (node, peer) in [(1, 2), (2, 1)] {
        cluster.wait(node, |event| {
            assert!(!matches!(event, Event::Link(LinkEvent::Down { .. })), "{node}: {event:?}");
            matches!(event, Event::Link(LinkEvent::Renewed { node, .. }) if node.0 == peer)
        });
    }
}

#[test]
fn connections_that_are_reset_in_the_middle_of_frames_cost_no_link() {
    let (cluster, proxy) = with_a_proxy("reset", [2, 3, 1, 2]);
    outlives_resets(cluster, proxy);
}

pub(crate) fn outlives_resets(cluster: Apart, proxy: Proxy) {
    let board = cluster.board.clone();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                board.run_round();
            }
        });
        let end = StopAtEnd(&stop);
        for pause in 0..20 {
            std::thread::sleep(Duration::from_millis(pause * 3));
            proxy.reset();
            wait_for_renewal(&cluster);
        }
        drop(end);
        load.join().unwrap();
    });
    cluster.board.run_round();
}

#[test]
fn a_peer_that_says_nothing_for_a_moment_costs_no_link() {
    let (cluster, proxy) = with_a_proxy("moment", [1, 2, 1, 1]);
    for _ in 0..2 {
        proxy.freeze();
        // Longer than connections that say nothing are kept, not as long as a link is.
        std::thread::sleep(Duration::from_millis(600));
        proxy.thaw();
        wait_for_renewal(&cluster);
        cluster.board.run_round();
    }
}

#[test]
fn a_frozen_peer_is_lost_and_may_come_back() {
    // A proxy that stops passing bytes on is a peer that is there and says nothing.
    let (cluster, proxy) = with_a_proxy("frozen", [1, 1, 1, 1]);
    cluster.board.run_round();
    proxy.freeze();
    let down = cluster.wait(1, |event| is_down(event, 2));
    assert!(matches!(down, Event::Link(LinkEvent::Down { closed: false, .. })), "{down:?}");
    // One of the two data nodes had to go, and whichever it was, the cluster serves.
    proxy.thaw();
    cluster.board.run_round();
}

/// Passes connections on to another address until it is told not to.
pub(crate) struct Proxy {
    port: u16,
    frozen: Arc<std::sync::atomic::AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    /// What it has passed on in both directions, one after the other.
    pub(crate) passed: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let frozen = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_frozen = frozen.clone();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let passed: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (all, record) = (connections.clone(), passed.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(target) else { continue };
                let both = [&client, &server].map(|end| end.try_clone().unwrap());
                all.lock().unwrap().extend(both);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (frozen, record) = (is_frozen.clone(), record.clone());
                    std::thread::spawn(move || pass_on(from, to, &frozen, &record));
                }
            }
        });
        Self { port, frozen, connections, passed }
    }

    /// Resets all connections wherever they are.
    pub(crate) fn reset(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // Some have ended.
            let _ = rustix::net::connect_unspec(connection);
        }
    }

    fn freeze(&self) {
        self.frozen.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    fn thaw(&self) {
        self.frozen.store(false, std::sync::atomic::Ordering::SeqCst);
    }
}

fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    frozen: &std::sync::atomic::AtomicBool,
    record: &Mutex<Vec<u8>>,
) {
    let mut buffer = [0; 4_096];
    loop {
        let count = match from.read(&mut buffer) {
            // A connection that was reset does not end in good order at the other end.
            Err(_) => return,
            Ok(0) => break,
            Ok(count) => count,
        };
        while frozen.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        record.lock().unwrap().extend(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Says at its end that others are to stop, also when it ends by a panic.
struct StopAtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn links_are_made_whoever_comes_first() {
    for order in [[101, 49, 2, 1], [1, 101, 49, 2], [49, 1, 2, 101]] {
        let mut cluster = Apart::new("order", [1, 1, 1, 1], true);
        for node in order {
            cluster.start(node);
            std::thread::sleep(Duration::from_millis(20));
        }
        cluster.wait(1, |event| is_up(event, 2));
        cluster.wait(101, |event| matches!(event, Event::Ready));
        cluster.board.run_round();
        for node in order {
            cluster.stop(node);
        }
    }
}
