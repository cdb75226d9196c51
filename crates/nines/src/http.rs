//! Metrics, health checks and change feeds over HTTP: `/metrics`, `/live`, `/ready`,
//! `/changefeeds/NAME`.
//!
//! # Owns
//! [`Endpoint`], what a process answers from; where it listens; what each path says.
//! # Guarantees
//! Nothing of it runs on a worker's thread. Without an account of SQL no request makes a node do
//! more than tell its figures. Other hosts are answered over TLS, if they show a certificate of the
//! cluster or a token, or where `AllowInsecure` says that the network is trusted; for a change feed
//! the account stands in place of both.
//! # Failure
//! A port that cannot be had ends the start with a line that says which.
//! # Not here
//! Bytes and limits of requests (`request`, `server`), the text of figures (`metrics`), what is
//! sent of change feeds (`feeds`).

mod feeds;
mod request;
mod server;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actor::{Figures, Metric};
use cluster_config::Node;
use model::NodeId;
use runtime::{NodeCredentials, NodeReport, Observer, ProcessReport, Role};

use crate::metrics;
use feeds::Client;
use request::{Asked, Path};
use server::{Answer, Guard, Limits, Service, Status, Taker};

/// What a process answers from, and where its nodes are seen once they run.
#[derive(Clone)]
pub(crate) struct Endpoint(Arc<Shared>);

struct Shared {
    /// The nodes of the process.
    nodes: Vec<(NodeId, Role)>,
    observer: Mutex<Option<Observer>>,
    /// Change feeds that are being sent.
    feeds: AtomicUsize,
    /// Readers of feeds that log in.
    logins: AtomicUsize,
    /// The nodes are to end.
    draining: AtomicBool,
}

/// How the nodes of a process are.
enum View {
    /// They are not there yet.
    Starting,
    Here(Box<ProcessReport>),
    Ended,
}

impl Endpoint {
    /// For a process that is going to host these nodes.
    pub(crate) fn new(nodes: Vec<(NodeId, Role)>) -> Self {
        Self(Arc::new(Shared {
            nodes,
            observer: Mutex::default(),
            feeds: AtomicUsize::new(0),
            logins: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
        }))
    }

    /// The nodes are not ready from now on, because they are to end.
    pub(crate) fn drain(&self) {
        self.0.draining.store(true, Ordering::SeqCst);
    }

    /// The nodes run now.
    pub(crate) fn attach(&self, observer: Observer) {
        *self.0.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(observer);
    }

    fn observer(&self) -> Option<Observer> {
        self.0.observer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the nodes, waiting so long for threads that do not answer.
    fn look(&self, patience: Duration) -> View {
        match self.observer().map(|observer| observer.look(patience)) {
            None => View::Starting,
            Some(None) => View::Ended,
            Some(Some(report)) => View::Here(Box::new(report)),
        }
    }

    /// What the nodes have counted; none when they do not run.
    pub(crate) fn figures(&self) -> Option<Figures> {
        match self.look(PATIENCE) {
            View::Here(report) => Some(report.figures),
            View::Starting | View::Ended => None,
        }
    }

    /// Listens where the configuration says, if it does, and answers from now on; other hosts with
    /// the node's certificate. Says where.
    pub(crate) fn serve_node(
        &self,
        own: &Node,
        credentials: Option<&NodeCredentials>,
    ) -> Result<Option<String>, String> {
        let Some(port) = own.http_port() else { return Ok(None) };
        let host = own.http_address();
        let found = (host, port).to_socket_addrs();
        let found = found.map_err(|error| format!("HttpAddress={host} is not known: {error}"))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let open = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
        let guard = credentials.filter(|_| open.is_some() && !own.allow_insecure());
        let guard = guard.map(|credentials| Guard {
            credentials: credentials.clone(),
            token: credentials.files().certificate.with_file_name(TOKEN_FILE),
        });
        if let Some(open) = open.filter(|_| guard.is_none() && !own.allow_insecure()) {
            return Err(format!(
                "HttpAddress={host} of node {} is {}, which other hosts can reach, and the node \
                 has no certificate to encrypt that with: let it join by a token, or set \
                 AllowInsecure=1 for it if nobody else is in that network, or leave HttpAddress \
                 out",
                own.id.0,
                open.ip()
            ));
        }
        let taken = |error| match error {
            TakeError::InUse(address) => format!(
                "port {port} of {} is in use: set another HttpPort for node {}",
                address.ip(),
                own.id.0
            ),
            other => other.to_string(),
        };
        let scheme = if guard.is_some() { "https" } else { "http" };
        let port = self.listen(&addresses, guard).map_err(taken)?;
        Ok(Some(format!("metrics and health checks: {scheme}://{}/metrics", place(host, port))))
    }

    /// Listens on loopback, and answers from now on; where. Port 0 takes a free one.
    pub(crate) fn serve_loopback(&self, port: u16) -> Result<String, String> {
        let port =
            self.listen(&[SocketAddr::from(([127, 0, 0, 1], port))], None).map_err(|error| {
                match error {
                    TakeError::InUse(_) => {
                        format!("port {port} is in use; choose another with --http-port")
                    }
                    other => other.to_string(),
                }
            })?;
        Ok(format!("metrics and health checks: http://127.0.0.1:{port}/metrics"))
    }

    /// Listens at all of these addresses that the machine has; the port.
    fn listen(&self, addresses: &[SocketAddr], guard: Option<Guard>) -> Result<u16, TakeError> {
        let mut listeners = Vec::new();
        let mut missing = None;
        for address in addresses {
            match TcpListener::bind(address) {
                Ok(listener) => listeners.push(listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(TakeError::InUse(*address));
                }
                // A name may have addresses of a family that the machine does not use.
                Err(error) => missing = Some(TakeError::Other(*address, error)),
            }
        }
        let bound = listeners.first().and_then(|listener| listener.local_addr().ok());
        let Some(bound) = bound else { return Err(missing.unwrap_or(TakeError::Nothing)) };
        server::start(listeners, Limits::default(), Arc::new(self.clone()), guard)
            .map_err(|error| TakeError::Other(bound, error))?;
        Ok(bound.port())
    }

    fn metrics(&self) -> Answer {
        let view = self.look(PATIENCE);
        let reports = self.reports(&view);
        let mut figures = match view {
            View::Here(report) => report.figures,
            View::Starting | View::Ended => Figures::default(),
        };
        figures.add(Metric::Build, &[env!("CARGO_PKG_VERSION")], 1);
        for NodeReport { node, role, why_not } in reports {
            figures.of_node(node);
            let ready = why_not.is_none();
            figures.add(Metric::NodeReady, &[metrics::role_name(role)], ready.into());
        }
        Answer::new(Status::Ok, metrics::CONTENT_TYPE, metrics::text(figures))
    }

    /// Whether the threads of the process take their turns.
    fn live(&self) -> Answer {
        match self.look(LIVE_PATIENCE) {
            View::Starting => Answer::text(Status::Ok, "alive: the process is starting\n"),
            View::Ended => Answer::text(Status::Unavailable, "the node has ended\n"),
            View::Here(report) if report.silent.is_empty() => Answer::text(Status::Ok, "alive\n"),
            View::Here(report) => Answer::text(Status::Unavailable, &silent(&report.silent)),
        }
    }

    /// Whether all nodes of the process can do their work.
    fn ready(&self) -> Answer {
        let view = self.look(PATIENCE);
        if let View::Here(report) = &view
            && !report.silent.is_empty()
        {
            return Answer::text(Status::Unavailable, &silent(&report.silent));
        }
        let reports = self.reports(&view);
        let lacking =
            reports.iter().find_map(|report| Some((report.node, report.why_not.as_ref()?)));
        match lacking {
            None => Answer::text(Status::Ok, "ready\n"),
            Some((_, why)) if reports.len() == 1 => {
                Answer::text(Status::Unavailable, &format!("{why}\n"))
            }
            Some((node, why)) => {
                Answer::text(Status::Unavailable, &format!("node {}: {why}\n", node.0))
            }
        }
    }

    /// The nodes, also those that do not run.
    fn reports(&self, view: &View) -> Vec<NodeReport> {
        match view {
            View::Here(_) if self.0.draining.load(Ordering::SeqCst) => {
                self.all_of("it is told to end, and lets its clients go")
            }
            view => self.told(view),
        }
    }

    /// All nodes, for one reason.
    fn all_of(&self, why: &str) -> Vec<NodeReport> {
        let report =
            |(node, role): &_| NodeReport { node: *node, role: *role, why_not: Some(why.into()) };
        self.0.nodes.iter().map(report).collect()
    }

    /// What the nodes say themselves.
    fn told(&self, view: &View) -> Vec<NodeReport> {
        let all = |why: &str| self.all_of(why);
        match view {
            View::Starting => all("the process is starting"),
            View::Ended => all("the node has ended"),
            View::Here(report) if report.nodes.is_empty() => {
                all("its first thread does not answer")
            }
            View::Here(report) => report.nodes.clone(),
        }
    }
}

impl Service for Endpoint {
    fn answer(&self, path: Path) -> Answer {
        match path {
            Path::Root => Answer::text(Status::Ok, PATHS),
            Path::Metrics => self.metrics(),
            Path::Live => self.live(),
            Path::Ready => self.ready(),
            // One that is asked for by GET has been sent.
            Path::Changefeed => Answer::text(Status::OnlyGet, "a change feed takes GET\n"),
            Path::Unknown => Answer::text(Status::NotFound, "there is nothing here\n"),
        }
    }

    fn feed(
        &self,
        asked: Result<Asked, String>,
        client: &Client<'_>,
        to: &mut dyn Taker,
    ) -> io::Result<()> {
        self.send_feed(asked, client, to)
    }
}

fn silent(threads: &[usize]) -> String {
    let names: Vec<String> = threads.iter().map(|thread| format!("worker-{thread}")).collect();
    format!("threads that do not answer: {}\n", names.join(", "))
}

/// An address as it stands in a URL.
fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Why it cannot be listened.
#[derive(Debug)]
enum TakeError {
    InUse(SocketAddr),
    Other(SocketAddr, io::Error),
    /// There is no address.
    Nothing,
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeError::InUse(address) => write!(f, "{address} is in use"),
            TakeError::Other(address, error) => {
                write!(f, "cannot serve HTTP at {address}: {error}")
            }
            TakeError::Nothing => f.write_str("there is no address to serve HTTP at"),
        }
    }
}

const PATHS: &str = "\
/metrics           figures, in the text format of OpenMetrics
/live              200 while the threads of the process take their turns
/ready             200 while its nodes can do their work, else 503 and why not
/changefeeds/NAME  of an SQL node: a change feed, with ?format=jsonl or sse, &after=POSITION
";
/// What other hosts may show instead of a certificate, beside the node's certificate.
const TOKEN_FILE: &str = "http-token.txt";
/// How long threads may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a thread may take before the process counts as stuck.
const LIVE_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_does_not_run_is_not_ready_and_told_so() {
        let endpoint = Endpoint::new(vec![(NodeId(3), Role::Data)]);
        let ready = endpoint.answer(Path::Ready);
        assert_eq!(ready.status, Status::Unavailable);
        assert_eq!(ready.body, "the process is starting\n");
        assert_eq!(endpoint.answer(Path::Live).status, Status::Ok);
        assert_eq!(endpoint.answer(Path::Unknown).status, Status::NotFound);
        let text = endpoint.answer(Path::Metrics).body;
        assert!(text.contains("nines_node_ready{node=\"3\",role=\"data\"} 0\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
        let several = Endpoint::new(vec![(NodeId(1), Role::Data), (NodeId(51), Role::Client)]);
        assert_eq!(several.answer(Path::Ready).body, "node 1: the process is starting\n");
    }
}
