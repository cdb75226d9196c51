//! Real threads and sockets: clusters of one process, and clients that behave well or badly.
//!
//! No test asserts how fast anything is; what must happen has two minutes to do so.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod application;
mod connections;
mod data;
mod encryption;
mod links;
mod ready;
mod secure;
mod stop;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::{Config, NodeId};
use runtime::{Cluster, Event, Listeners, Role, Scheduling, ServerTls, Setup};

use application::{Application, Board};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running cluster with the test's application.
struct Running {
    cluster: Cluster,
    board: Arc<Board>,
    events: Receiver<Event>,
    tcp: SocketAddr,
    tcp6: Option<SocketAddr>,
    unix: PathBuf,
    _directory: Directory,
}

/// A directory that goes with its test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nines-runtime-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Running {
    /// Starts two data nodes with two replicas, and waits until they serve.
    fn start(threads: u8) -> Self {
        Self::start_with(threads, None)
    }

    fn start_with(threads: u8, tls: Option<ServerTls>) -> Self {
        let directory = Directory::new();
        let unix = directory.0.join("client.sock");
        let mut listeners = Listeners::default();
        let tcp = listeners.bind_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        // Not every machine has IPv6.
        let tcp6 = listeners.bind_tcp("[::1]:0".parse().unwrap()).ok();
        listeners.bind_unix(&unix).unwrap();
        let board = Arc::new(Board::new(threads));
        let (for_application, (send, events)) = (board.clone(), channel());
        let send = Mutex::new(send);
        let data_nodes = vec![NodeId(1), NodeId(2)];
        let cluster = Cluster::start(Setup {
            config: Arc::new(Config::new(data_nodes, vec![NodeId(49)], 2)),
            threads,
            scheduling: Scheduling::default(),
            nodes: vec![
                (NodeId(1), Role::Data),
                (NodeId(2), Role::Data),
                (NodeId(49), Role::Management),
                (NodeId(101), Role::Client),
            ],
            links: None,
            application: Some(Arc::new(move |place| {
                Box::new(Application::new(place, for_application.clone()))
            })),
            operator: None,
            listeners,
            tls,
            disk: None,
            trace_directory: directory.0.clone(),
            watching: None,
            report: Box::new(move |event| {
                // A test that has seen enough listens no more.
                let _ = send.lock().unwrap().send(event);
            }),
        });
        let cluster = cluster.unwrap();
        let running = Self { cluster, board, events, tcp, tcp6, unix, _directory: directory };
        assert!(matches!(running.next_event(), Event::Ready));
        running
    }

    fn next_event(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("something happens")
    }
}
