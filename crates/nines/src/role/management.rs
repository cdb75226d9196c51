//! `nines management`: a management node. It has the configuration, gives out ids, breaks ties,
//! keeps the cluster log, and answers operators.

mod change;
mod cluster_log;
mod configured;
mod configuring;
mod growth;
pub(crate) mod one_process;
pub(crate) mod registry;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster_config::{ClusterConfig, Node, Role as ConfiguredRole};
use model::cluster::PlacementSlot;
use model::{ClusterState, Epoch, Incarnation, NodeId};
use runtime::{
    ApplicationFactory, Asker, Cluster, DataDirectory, Encryption, Event, Expected, LinkEvent,
    Listeners, NodeCredentials, NodeFiles, NodeKey, NodeRole, Report, Role, Scheduling, Service,
    Setup,
};

use wire::{Leaving, News, NewsKind};

use super::client::Connect;
use super::credentials::{JoinOptions, keep, write};
use super::lost_links::LostLinks;
use super::operator::{Board, Operator};
use super::process::{Farewell, Life, after, live, watching};
use super::request::{
    Access, AskError, CertificateRequest, NewKeys, NodeVersion, Request, Sight, Subject,
    WorkerSight, answer, ask, value,
};
use super::rights;
use super::status::{ClusterStatus, other_groups};
use super::survivability::Survivability;
use super::{
    addresses, ask_to_leave, credentials_of, disk_of, found_in, is_here, limits, link_credentials,
    links, listen, local, news, resolve,
};
use crate::complain;
use crate::encryption::{KeyOptions, NodeKeys};
use crate::http::Endpoint;
use crate::machine;
use crate::process::{Happening, watch_signals};
use crate::root_password::Announcement;
use cluster_log::{ClusterLog, Input, LogSetup};
use configured::{InUse, Keeper, Start, at_start};
use registry::{Applicant, Registry, Shared};

/// The options of `nines management`.
#[derive(Clone, Debug)]
pub(crate) struct ManagementOptions {
    pub(crate) file: PathBuf,
    pub(crate) node: Option<NodeId>,
    /// Where the master key of its disk comes from.
    pub(crate) keys: KeyOptions,
    pub(crate) join: JoinOptions,
}

/// What requests are answered from.
struct Desk {
    /// The keys of its own disk, if that is encrypted.
    keys: Option<NodeKeys>,
    /// From what this process has been started.
    options: ManagementOptions,
    /// The configuration in use, and how it is kept.
    in_use: InUse,
    keeper: Mutex<Keeper>,
    /// The version of the configuration at the start of this process.
    started_with: u64,
    own: NodeId,
    board: Board,
    endpoint: Endpoint,
    log: ClusterLog,
    send: Mutex<Sender<Happening>>,
    books: Mutex<Books>,
    lost_links: Mutex<LostLinks>,
    /// The cluster's authority, if this node has its key.
    registry: Option<Registry>,
    /// The node's certificate, if it has one.
    credentials: Option<NodeCredentials>,
}

/// What the node knows of the others by itself.
#[derive(Default)]
struct Books {
    incarnation: Incarnation,
    connected: BTreeMap<NodeId, Incarnation>,
    /// Those that were lost, and whose process may have gone on.
    unheard: BTreeSet<NodeId>,
    /// Why the cluster does not restart.
    refusal: Option<Refusal>,
    /// Ids that were given to processes which have not connected yet, and until when they are kept.
    claims: BTreeMap<NodeId, Instant>,
    /// Fingerprints of the configurations of other management nodes, by life, and when each was
    /// asked for.
    configurations: BTreeMap<NodeId, (Incarnation, Instant, Option<String>)>,
}

/// A restart that would lose durable epochs.
#[derive(Clone, Debug)]
struct Refusal {
    /// Restarts of the cluster before.
    restarts: usize,
    /// What it would go back to.
    epoch: Epoch,
    text: String,
}

/// What is printed when the node accepts work.
fn ready_line(config: &ClusterConfig, own: &Node) -> String {
    let (host, port) = (own.host().unwrap_or_default(), own.port().unwrap_or_default());
    format!(
        "ready: management node {} of cluster {}, {} nodes configured; nines ctl -c {host}:{port}",
        own.id.0,
        config.name(),
        config.nodes().len()
    )
}

/// Runs a management node until it is told to stop.
pub(crate) fn run(options: &ManagementOptions) -> Result<(), String> {
    let (send, happenings) = channel();
    watch_signals(send.clone())?;
    let start = read(options)?;
    let config = start.config.clone();
    let node = start.own;
    let own = config.node(node).ok_or_else(|| format!("node {} is not configured", node.0))?;
    let mut kernel = config.kernel(node, 1, 0);
    let path = start.directory.clone();
    let encryption = options.keys.for_node(&config, own)?;
    let directory = directory_of(kernel.disk, &path, node, &encryption)?;
    let keys = directory.as_ref().and_then(|directory| NodeKeys::of(directory, &encryption));
    let on_disk = directory.is_some();
    kernel.disk = on_disk;
    let disk = directory.map(|directory| disk_of(node, directory));
    let Some(papers) = papers(options, &config, own, &path, on_disk, &happenings)? else {
        return Ok(());
    };
    let credentials = papers.credentials;
    let on_links = link_credentials(&config, own, credentials.as_ref());
    let listeners = listen(&config, own, on_links.is_some())?;
    let keeper = Keeper::new(&start, options, on_disk);
    let in_use = keeper.in_use.clone();
    let log = cluster_log(&config, own, on_disk.then_some(&*path))?;
    let board = Board::default();
    let endpoint = Endpoint::new(vec![(node, Role::Management)]);
    papers.made.iter().for_each(|line| log.tell(Input::Note(line.clone())));
    let serves_http = endpoint.serve_node(own, credentials.as_ref())?;
    let desk = Arc::new(Desk {
        keys,
        options: options.clone(),
        in_use: in_use.clone(),
        keeper: Mutex::new(keeper),
        started_with: start.version,
        own: node,
        board: board.clone(),
        endpoint: endpoint.clone(),
        log: log.clone(),
        send: Mutex::new(send.clone()),
        books: Mutex::default(),
        lost_links: Mutex::default(),
        registry: papers.registry,
        credentials,
    });
    let service = desk.clone().service();
    local::serve_operators(&addresses(own, on_links.is_some())?, &service.answer)?;
    let follower = follower(&log, &in_use, node, board);
    let started = Cluster::start(Setup {
        config: Arc::new(kernel),
        threads: 1,
        scheduling: Scheduling::default(),
        nodes: vec![(node, Role::Management)],
        links: Some(links(&config, own, listeners, Some(service), on_links)),
        application: None,
        operator: Some(follower),
        listeners: Listeners::default(),
        tls: None,
        disk,
        trace_directory: if on_disk { path } else { std::env::temp_dir() },
        watching: Some(watching()),
        report: desk.clone().report(send),
    });
    let cluster = started.map_err(|error| format!("cannot start: {error}"))?;
    endpoint.attach(cluster.observer());
    serves_http.iter().for_each(|line| log.tell(Input::Note(line.clone())));
    desk.books().incarnation = cluster.incarnation(node);
    desk.begin_rounds()?;
    let keep = |what: &str| log.tell(Input::Note(what.to_string()));
    let (ready, announcement) = (ready_line(&config, own), Announcement::at_once());
    let life = Life { ready, announcement, end: Farewell::Leave, on_disk, log: &keep };
    after(live(cluster, &happenings, &life)?)
}

/// The node's directory, if it keeps anything.
fn directory_of(
    is_kept: bool,
    path: &Path,
    node: NodeId,
    encryption: &Encryption,
) -> Result<Option<DataDirectory>, String> {
    let directory = is_kept.then(|| DataDirectory::open(path, node, encryption)).transpose();
    directory.map_err(|error| error.to_string())
}

/// Begins the cluster log, which is a file beside the node's directory if there is one.
fn cluster_log(
    config: &ClusterConfig,
    own: &Node,
    directory: Option<&Path>,
) -> Result<ClusterLog, String> {
    let beside = directory.map(|path| path.parent().unwrap_or(Path::new(".")));
    ClusterLog::start(LogSetup {
        own: own.id,
        roles: config.nodes().iter().map(|node| (node.id, node.role.to_string())).collect(),
        silence: limits(own).silence,
        file: beside.map(|base| base.join(format!("nines_{}_cluster.log", own.id.0))),
        prints: true,
    })
}

/// Makes the actor that follows the cluster, and tells the log what changes.
fn follower(log: &ClusterLog, in_use: &InUse, node: NodeId, board: Board) -> ApplicationFactory {
    let (log, in_use) = (log.clone(), in_use.clone());
    Arc::new(move |_| {
        let (log, in_use) = (log.clone(), in_use.clone());
        let watcher = move |after: &ClusterState, before: Option<&ClusterState>| {
            let drafts = match before {
                Some(before) => news::of_change(&in_use.config(), before, after),
                None => vec![news::first_sight(node, after)],
            };
            log.tell(Input::News(drafts));
        };
        Box::new(Operator::new(board.clone(), Box::new(watcher)))
    })
}

/// What a management node proves its identity by, and the authority that it signs for.
struct Papers {
    credentials: Option<NodeCredentials>,
    registry: Option<Registry>,
    /// What was made, in words.
    made: Vec<String>,
}

/// Reads or makes the papers of a management node; nothing if the process is told to end before.
fn papers(
    options: &ManagementOptions,
    config: &ClusterConfig,
    own: &Node,
    path: &Path,
    on_disk: bool,
    happenings: &Receiver<Happening>,
) -> Result<Option<Papers>, String> {
    let directory = options.join.directory.as_deref().unwrap_or(path);
    let mut made = Vec::new();
    if let Some(token) = &options.join.token
        && !directory.join("cluster-ca-key.pem").exists()
    {
        let others = config.nodes_of(ConfiguredRole::Management).filter(|node| node.id != own.id);
        let others = others.filter_map(|node| Some((node.host()?.to_owned(), node.port()?)));
        let key = NodeKey::generate()?.pem();
        let joined = Connect::at(others.collect()).join(token, Some(own.id), &key, happenings)?;
        let Some((_, certified)) = joined else { return Ok(None) };
        let (certificate, authority_key) = certified.authority.as_ref().ok_or_else(|| {
            format!("the token is for the role {}, not management", token.role.name())
        })?;
        let credentials = keep(directory, &key, &certified)?;
        write(directory, "cluster-ca.pem", certificate)?;
        write(directory, "cluster-ca-key.pem", authority_key)?;
        made.push(format!("has joined as {}", credentials.identity()));
    }
    // Two that each made one would be two clusters.
    let first = config.nodes_of(ConfiguredRole::Management).map(|node| node.id).min();
    let at = own.host().zip(own.port()).map(|(host, port)| resolve(host, port)).transpose()?;
    let is_open = at.iter().flatten().any(|at| !at.ip().to_canonical().is_loopback());
    let keeps = on_disk || is_open || options.join.directory.is_some();
    // Certificates that were brought along are of another authority.
    let has_others = NodeFiles::in_directory(directory).exist() && !Registry::has_books(directory);
    let makes = first == Some(own.id) && keeps && !has_others && own.tls().is_none();
    let lifetime = Duration::from_secs(own.certificate_lifetime());
    let opened = Registry::open(directory, own.id, makes, lifetime, &host_names(own))?;
    let (registry, told) = opened.unzip();
    made.extend(told.unwrap_or_default());
    let joined = match &registry {
        Some(registry) => Some(registry.credentials().clone()),
        None => found_in(directory)?,
    };
    let credentials = credentials_of(own, joined)?;
    Ok(Some(Papers { credentials, registry, made }))
}

/// What the host of a node is called.
fn host_names(own: &Node) -> Vec<String> {
    let mut names = vec![machine::host_name()];
    names.extend(own.host().map(str::to_owned));
    names.dedup();
    names
}

/// Reads the configuration; what is worth saying about it goes to standard error.
fn read(options: &ManagementOptions) -> Result<Start, String> {
    let start = at_start(options).map_err(|(why, problems)| {
        problems.iter().for_each(|problem| complain(problem));
        why
    })?;
    start.notices.iter().for_each(|notice| complain(notice));
    Ok(start)
}

/// Parses a configuration: with what is worth saying about it, or why it cannot be used and what
/// is wrong with it.
fn parse(file: &Path) -> Result<(ClusterConfig, Vec<String>), (String, Vec<String>)> {
    let name = file.display().to_string();
    let bytes =
        fs::read(file).map_err(|error| (format!("cannot read {name}: {error}"), Vec::new()))?;
    match ClusterConfig::parse(&bytes) {
        Ok(parsed) => {
            let notices = parsed.notices.iter().map(|notice| notice.at(&name).to_string());
            Ok((parsed.config, notices.collect()))
        }
        Err(problems) => {
            let why = format!("{name} cannot be used; `nines config check {name}` says more");
            Err((why, problems.iter().map(|problem| problem.at(&name).to_string()).collect()))
        }
    }
}

/// Why a management node that is told to restart with what it would start with now, the file or
/// what the control log had, would not come back, or would harm the cluster.
fn hinders(
    options: &ManagementOptions,
    running: (&ClusterConfig, NodeId),
    state: &ClusterState,
    is_secure: bool,
) -> Option<String> {
    let why = match at_start(options) {
        Err((why, problems)) => problems.into_iter().next().unwrap_or(why),
        Ok(Start { config, own, .. }) => {
            // A node that keeps no copy gets what the control log has when it is back.
            let logged = state.configured.as_ref();
            let logged =
                logged.and_then(|logged| ClusterConfig::parse(logged.text.as_bytes()).ok());
            let config = logged.map_or(config, |logged| logged.config);
            let (name, wanted) = (running.0.name(), config.name());
            let Some(own) = config.node(own) else {
                return Some(format!("node {} is not configured", own.0));
            };
            if own.id != running.1 {
                format!("this process would be node {}", own.id.0)
            } else if name != wanted {
                format!("ClusterName is `{wanted}` there, and the cluster's name is `{name}`")
            } else if let Some(why) = other_groups(&config, state) {
                why
            } else {
                return addresses(own, is_secure).err();
            }
        }
    };
    Some(why)
}

/// Which management node of the configuration this process is.
fn choose(config: &ClusterConfig, wanted: Option<NodeId>) -> Result<&Node, String> {
    let all: Vec<&Node> = config.nodes_of(ConfiguredRole::Management).collect();
    if let Some(wanted) = wanted {
        let ids: Vec<String> = all.iter().map(|node| node.id.0.to_string()).collect();
        let found = all.into_iter().find(|node| node.id == wanted);
        return found.ok_or_else(|| {
            format!("node {} is no management node; those are {}", wanted.0, ids.join(", "))
        });
    }
    let mut here = all.into_iter().filter(|node| is_here(node.host()));
    match (here.next(), here.next()) {
        (Some(node), None) => Ok(node),
        (None, _) => Err("no management node of the configuration is on this host".into()),
        (Some(_), Some(_)) => {
            Err("several management nodes are on this host: choose one with --node-id".into())
        }
    }
}

impl Desk {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of who is connected, tells the log, and passes everything else on to the main
    /// thread.
    fn report(self: Arc<Self>, send: Sender<Happening>) -> Report {
        let send = Mutex::new(send);
        Box::new(move |event| {
            if let Event::Link(event) = event {
                let mut books = self.books();
                match &event {
                    LinkEvent::Up { node, incarnation, .. } => {
                        books.connected.insert(*node, *incarnation);
                        books.claims.remove(node);
                        books.unheard.remove(node);
                    }
                    LinkEvent::Down { node, closed, .. } => {
                        books.connected.remove(node);
                        if !closed {
                            books.unheard.insert(*node);
                        }
                    }
                    LinkEvent::Renewed { .. }
                    | LinkEvent::NotShared { .. }
                    | LinkEvent::Refused { .. }
                    | LinkEvent::Credentials { .. } => {}
                }
                drop(books);
                return self.log.tell(Input::Link(event));
            }
            if let Event::News { about, news, .. } = event {
                return self.heed(about, &news);
            }
            // The main thread may have ended already.
            let send = send.lock().expect("nobody panics while holding it");
            let _ = send.send(Happening::Cluster(event));
        })
    }

    /// A node has told something: it is kept, and what keeps the cluster from restarting is shown.
    fn heed(&self, about: NodeId, news: &News) {
        let restarts = self.board.state().restarts.len();
        let refusal = Refusal { restarts, epoch: news.epoch, text: news.text.clone() };
        match news.kind {
            NewsKind::LossRefused => self.books().refusal = Some(refusal),
            NewsKind::LossAccepted => self.books().refusal = None,
            NewsKind::Damaged
            | NewsKind::Harmless
            | NewsKind::Repaired
            | NewsKind::WorkerSilent => {}
        }
        self.log.tell(Input::News(vec![news::of_node(about, news)]));
    }

    fn lost_links(&self) -> MutexGuard<'_, LostLinks> {
        self.lost_links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all nodes now and then which links they have, on a thread of its own.
    fn watch_links(self: Arc<Self>) -> Result<(), String> {
        let watch = move || {
            loop {
                std::thread::sleep(LINKS_LOOK);
                // What cannot be asked now is asked the next time.
                if let Ok(sight) = self.board.glance(self.connected_without_rows()) {
                    let news = self.lost_links().look(&self.config(), &sight);
                    if !news.is_empty() {
                        self.log.tell(Input::News(news));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("links-watch".into()).spawn(watch);
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    }

    /// The nodes without rows that are connected.
    fn connected_without_rows(&self) -> Vec<NodeId> {
        let connected: Vec<NodeId> = self.books().connected.keys().copied().collect();
        let config = self.config();
        let is_data = |node: &NodeId| {
            config.node(*node).is_some_and(|node| node.role == ConfiguredRole::Data)
        };
        connected.into_iter().filter(|node| !is_data(node)).collect()
    }

    /// Why the cluster does not restart, if it does not.
    fn refusal(&self) -> Option<Refusal> {
        let restarts = self.board.state().restarts.len();
        self.books().refusal.clone().filter(|refusal| refusal.restarts == restarts)
    }

    /// Orders the cluster to go on without what its disks have lost.
    fn accept_loss(&self, epoch: u64) -> Result<serde_json::Value, String> {
        let Some(refusal) = self.refusal() else {
            return Err("the cluster asks for no such order: nothing keeps it from starting that \
                        this node knows of"
                .into());
        };
        if refusal.epoch.0 != epoch {
            return Err(format!(
                "the cluster would go back to epoch {}, not {epoch}: {}",
                refusal.epoch.0, refusal.text
            ));
        }
        self.board.accept_loss(refusal.restarts, refusal.epoch);
        value(&true)
    }

    fn service(self: Arc<Self>) -> Service {
        let (tls, insecure) = (self.credentials.clone(), self.is_insecure());
        let answer = move |asker: &Asker, body: &[u8], out: &mut dyn Write| {
            answer(asker, body, out, |asker, request| {
                rights::check(asker, &request, insecure)?;
                match request {
                    Request::Certificates(request) => self.certificates(asker, request),
                    Request::Configure(order) => self.configure(asker, &order),
                    request => self.decide(request),
                }
            });
        };
        Service { answer: Arc::new(answer), tls }
    }

    /// Whether the network is trusted, as the configuration says.
    fn is_insecure(&self) -> bool {
        self.config().node(self.own).is_some_and(Node::allow_insecure)
    }

    /// How another data or management node is asked.
    fn access(&self, node: &Node) -> Access {
        let role = match node.role {
            ConfiguredRole::Management => NodeRole::Management,
            ConfiguredRole::Data => NodeRole::Data,
            ConfiguredRole::Sql | ConfiguredRole::Api => NodeRole::Sql,
        };
        let expected = Expected { role, node: Some(node.id) };
        Access::to_node(self.credentials.clone(), self.is_insecure(), expected)
    }

    /// Begins what the node does again and again beside answering.
    fn begin_rounds(self: &Arc<Self>) -> Result<(), String> {
        self.clone().watch_links()?;
        self.clone().keep_registry()?;
        self.clone().keep_configuration()
    }

    fn decide(&self, request: Request) -> Result<serde_json::Value, String> {
        match request {
            Request::Certificates(_) => Err("certificates are somebody else's matter".into()),
            Request::Configuration { role } => {
                let free = if role.is_empty() { Vec::new() } else { self.free(&role)? };
                let mut told = self.configuration(free);
                if role.is_empty() {
                    told.pending = self.pending_restarts();
                }
                value(&told)
            }
            Request::Fingerprint => value(&self.config().fingerprint().to_string()),
            Request::Upgrade => value(&upgrade::status(&self.board.state())),
            Request::Finalize => {
                let status = self.finalize()?;
                self.note(&format!("the upgrade is finalized: protocol {}", status.finalized));
                value(&status)
            }
            Request::Revisions => value(&self.revisions()),
            Request::Running => value(&self.started_with),
            Request::Configure(_) => Err("that takes somebody who orders it".into()),
            Request::Claim { node, role } => self.claim(NodeId(node), &role),
            Request::Status => value(&self.status()),
            Request::AcceptLoss { epoch } => self.accept_loss(epoch),
            Request::Moves => value(&growth::moves(&self.board.state())),
            Request::Grow(order) => {
                let text = growth::carry_out(&self.board, &order)?;
                self.note(&text);
                value(&text)
            }
            Request::Events { after, most } => value(&self.log.page(after, most)),
            Request::Survivability => {
                let mut heard: BTreeSet<NodeId> = self.books().connected.keys().copied().collect();
                heard.insert(self.own);
                value(&Survivability::of(&self.config(), &self.board.state(), &heard))
            }
            Request::Look { at: Subject::Figures } => value(&self.figures()?),
            Request::Look { at } => value(&self.board.look(at, Vec::new())?),
            Request::Versions => value(&self.versions()),
            Request::Version => value(&env!("CARGO_PKG_VERSION")),
            Request::RotateKeys { node } => self.rotate_keys(NodeId(node)),
            Request::RotateOwnKeys => value(&NewKeys::of(NodeKeys::rotate(self.keys.as_ref())?)),
            Request::End { node, restart, force } => self.end(NodeId(node), restart, force),
            Request::Leave { restart } => self.leave(restart),
        }
    }

    /// What the cluster is now, as this node sees it.
    fn status(&self) -> ClusterStatus {
        let others = self.other_configurations();
        let config = self.config();
        let books = self.books();
        let own = (self.own, books.incarnation);
        let state = self.board.state();
        let mut status = ClusterStatus::of(&config, own, &state, &books.connected);
        status.compare(&others);
        status.unheard(&books.unheard);
        drop(books);
        status.warnings.extend(self.lost_links().warnings(&config));
        status.file_differs(self.file_differs());
        if let Some(refusal) = self.refusal() {
            status.refused(refusal.text);
        }
        status
    }

    /// Ends this node, or restarts it.
    ///
    /// # Errors
    /// Where it would not come back as it is.
    fn leave(&self, restart: bool) -> Result<serde_json::Value, String> {
        // Whoever has read the file once runs on with that as long as it is not restarted.
        let config = self.config();
        let running = (&*config, self.own);
        let is_secure = self.credentials.is_some();
        let state = self.board.state();
        if let Some(why) =
            restart.then(|| hinders(&self.options, running, &state, is_secure)).flatten()
        {
            return Err(format!(
                "node {} is not restarted, as it would not come back as it is: {why}; see \
                 to {}, and restart it then",
                self.own.0,
                self.options.file.display()
            ));
        }
        ask_to_leave(&self.send, restart)
    }

    /// The fingerprints of the configurations that other management nodes have which are connected.
    fn other_configurations(&self) -> Vec<(u16, String)> {
        let config = self.config();
        let own = config.fingerprint().to_string();
        let others = config.nodes_of(ConfiguredRole::Management);
        let mut told = Vec::new();
        for node in others.filter(|node| node.id != self.own) {
            let books = self.books();
            let Some(life) = books.connected.get(&node.id).copied() else { continue };
            let known = books.configurations.get(&node.id).filter(|(of, asked, told)| {
                // One of the two may have been the first to hear of a change.
                let is_same = told.as_ref().is_none_or(|told| *told == own);
                let kept = if is_same { CONFIGURATION_KEPT } else { DIFFERENCE_KEPT };
                *of == life && asked.elapsed() < kept
            });
            let known = known.map(|(_, _, fingerprint)| fingerprint.clone());
            drop(books);
            let fingerprint = known.unwrap_or_else(|| {
                let request = Request::Fingerprint;
                let place = node.host().zip(node.port());
                let access = self.access(node);
                let fingerprint = place
                    .and_then(|(host, port)| ask::<String>(host, port, &request, &access).ok());
                let entry = (life, Instant::now(), fingerprint.clone());
                self.books().configurations.insert(node.id, entry);
                fingerprint
            });
            told.extend(fingerprint.map(|fingerprint| (node.id.0, fingerprint)));
        }
        told
    }

    /// Ids of a role that nobody has, those meant for it first.
    fn free(&self, role: &str) -> Result<Vec<u16>, String> {
        let roles = roles(role)?;
        let config = self.config();
        let books = self.books();
        let nodes = roles.iter().flat_map(|role| config.nodes_of(*role));
        Ok(nodes.filter(|node| books.is_free(node.id)).map(|node| node.id.0).collect())
    }

    fn claim(&self, node: NodeId, role: &str) -> Result<serde_json::Value, String> {
        let config = self.config();
        let found = config.node(node);
        let found = found.ok_or_else(|| format!("node {} is not in the configuration", node.0))?;
        if !roles(role)?.contains(&found.role) {
            return Err(format!("node {} is a {} node in the configuration", node.0, found.role));
        }
        let mut books = self.books();
        if !books.is_free(node) {
            return Err(format!("node {} is connected already, or starting", node.0));
        }
        books.claims.insert(node, Instant::now() + CLAIM_TIME);
        value(&true)
    }

    /// Passes the wish for a node's end on to it.
    fn end(&self, node: NodeId, restart: bool, force: bool) -> Result<serde_json::Value, String> {
        let config = self.config();
        let found = config.node(node);
        let found = found.ok_or_else(|| format!("node {} is not in the configuration", node.0))?;
        if !force && let Some(group) = needed_for(&self.board.state(), node) {
            return Err(format!(
                "node {} has the only complete copy of node group {group}: without it the cluster \
                 stops; start the other nodes of the group first, or use --force",
                node.0
            ));
        }
        if node == self.own {
            return self.decide(Request::Leave { restart });
        }
        let (Some(host), Some(port)) = (found.host(), found.port()) else {
            let life = self.books().connected.get(&node).copied();
            let life = life.ok_or_else(|| format!("SQL node {} is not connected", node.0))?;
            let leaving = if restart { Leaving::StartAgain } else { Leaving::End };
            self.board.order_to_leave(node, life, leaving)?;
            return value(&true);
        };
        let access = self.access(found);
        let left = ask::<bool>(host, port, &Request::Leave { restart }, &access);
        left.map_err(|error| match error {
            AskError::Refused(why) => why,
            AskError::Unreachable(why) => format!("node {}: {why}", node.0),
        })?;
        value(&true)
    }

    /// Passes the order for new keys on to a node.
    fn rotate_keys(&self, node: NodeId) -> Result<serde_json::Value, String> {
        if node == self.own {
            return self.decide(Request::RotateOwnKeys);
        }
        let config = self.config();
        let found = config.node(node);
        let found = found.ok_or_else(|| format!("node {} is not in the configuration", node.0))?;
        let (Some(host), Some(port)) = (found.host(), found.port()) else {
            return Err(format!("node {} has no disk", node.0));
        };
        let access = self.access(found);
        let keys = ask::<NewKeys>(host, port, &Request::RotateOwnKeys, &access);
        value(&keys.map_err(|error| format!("node {}: {error}", node.0))?)
    }

    /// The figures of all nodes that can be asked, this one's among them.
    fn figures(&self) -> Result<Sight, String> {
        let mut sight = self.board.look(Subject::Figures, self.connected_without_rows())?;
        let Some(own) = self.endpoint.figures() else { return Ok(sight) };
        let row = |(name, labels, number): (String, String, u64)| {
            vec![name.into(), labels.into(), number.into()]
        };
        let rows = own.rows().into_iter().map(row).collect();
        sight.workers.push(WorkerSight { node: self.own.0, worker: 0, rows });
        sight.workers.sort_by_key(|worker| (worker.node, worker.worker));
        Ok(sight)
    }

    /// Answers a request about certificates and tokens.
    fn certificates(
        &self,
        asker: &Asker,
        request: CertificateRequest,
    ) -> Result<serde_json::Value, String> {
        let registry = self.registry.as_ref().ok_or_else(|| {
            format!(
                "management node {} has not the key of the cluster's authority: start it with \
                 --join TOKEN (role management), or ask another one",
                self.own.0
            )
        })?;
        match request {
            CertificateRequest::Preview { token: (id, secret), role } => {
                let (only, taken) = registry.preview(&id, &secret, &role)?;
                let free = match only {
                    Some(node) => vec![node],
                    None => self.free(&role)?,
                };
                let is_free = |node: &u16| only.is_some() || !taken.contains(node);
                value(&self.configuration(free.into_iter().filter(is_free).collect()))
            }
            CertificateRequest::Join { token: (id, secret), role, node, request, names } => {
                self.check_member(&role, Some(node))?;
                let (role, request, names) = (role.as_str(), request.as_str(), names.as_slice());
                let applicant = Applicant { role, node, request, names };
                let certified = registry.join(&id, &secret, &applicant)?;
                let who = if node == 0 { String::new() } else { format!(" node {node}") };
                self.note(&format!("signed a certificate for {role}{who}, by token {id}"));
                value(&certified)
            }
            CertificateRequest::Renew { request, names } => {
                let Asker::Certified(who, serial) = asker else {
                    return Err("who shows no certificate has none to be renewed".into());
                };
                self.check_member(who.role.name(), Some(who.node.0))?;
                let certified = registry.renew(who.role, who.node.0, serial, &request, &names)?;
                self.note(&format!("signed another certificate for {who}"));
                value(&certified)
            }
            CertificateRequest::Server { request, names } => {
                let Asker::Certified(who, _) = asker else {
                    return Err("an SQL node asks for that, with its certificate".into());
                };
                value(&registry.server(who.node.0, &request, &names)?)
            }
            CertificateRequest::Trust => value(&registry.trust()),
            CertificateRequest::Ledger => value(&registry.shared()),
            other => self.order(registry, other),
        }
    }

    /// Does what an operator wants about certificates and tokens.
    fn order(
        &self,
        registry: &Registry,
        request: CertificateRequest,
    ) -> Result<serde_json::Value, String> {
        match request {
            CertificateRequest::CreateToken { role, node, valid } => {
                self.check_member(&role, node)?;
                let role = NodeRole::parse(&role).ok_or_else(|| registry::no_role(&role))?;
                value(&registry.create_token(role, node, valid)?)
            }
            CertificateRequest::Tokens => value(&registry.tokens()),
            CertificateRequest::RevokeToken { id } => {
                registry.revoke_token(&id)?;
                self.note(&format!("token {id} has been revoked"));
                value(&true)
            }
            CertificateRequest::List => value(&registry.list()),
            CertificateRequest::Revoke { whose } => {
                let gone = registry.revoke(&whose)?;
                self.note(&format!("certificates of {whose} have been revoked: {}", gone.len()));
                value(&gone)
            }
            CertificateRequest::CreateOperator { name, request } => {
                let certified = registry.create_operator(&name, &request)?;
                self.note(&format!("signed a certificate for operator {name}"));
                value(&certified)
            }
            CertificateRequest::NewAuthority => {
                let id = registry.new_authority()?;
                self.note(&format!("authority {id} signs from now on"));
                value(&id)
            }
            CertificateRequest::RetireAuthority { id } => {
                let id = registry.retire_authority(&id)?;
                self.note(&format!("authority {id} is trusted no more"));
                value(&id)
            }
            other => Err(format!("{other:?} is not an order")),
        }
    }

    /// Whether there is such a node in the configuration; why not.
    fn check_member(&self, role: &str, node: Option<u16>) -> Result<(), String> {
        let allowed: &[ConfiguredRole] = match role {
            "management" => &[ConfiguredRole::Management],
            "ctl" => {
                return match node {
                    None | Some(0) => Ok(()),
                    Some(_) => Err("an operator is no node".into()),
                };
            }
            "data" | "sql" => roles(role)?,
            _ => return Err(registry::no_role(role)),
        };
        let Some(node) = node else { return Ok(()) };
        let config = self.config();
        let found = config.node(NodeId(node));
        let found = found.ok_or_else(|| format!("node {node} is not in the configuration"))?;
        if allowed.contains(&found.role) {
            Ok(())
        } else {
            Err(format!("node {node} is a {} node in the configuration", found.role))
        }
    }

    fn note(&self, what: &str) {
        self.log.tell(Input::Note(what.to_owned()));
    }

    /// Learns what other management nodes have signed and revoked, and renews the node's own
    /// certificate, on a thread of its own.
    fn keep_registry(self: Arc<Self>) -> Result<(), String> {
        if self.registry.is_none() {
            return Ok(());
        }
        let keep = move || {
            let mut told = String::new();
            loop {
                std::thread::sleep(REGISTRY_LOOK);
                match self.look_after_registry() {
                    Ok(()) => told.clear(),
                    Err(why) if why != told => {
                        self.note(&format!("certificates are as they were: {why}"));
                        told = why;
                    }
                    Err(_) => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("certificates".into()).spawn(keep);
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    }

    fn look_after_registry(&self) -> Result<(), String> {
        let config = self.config();
        let (Some(registry), Some(own)) = (&self.registry, config.node(self.own)) else {
            return Ok(());
        };
        let request = Request::Certificates(CertificateRequest::Ledger);
        let mut failed = None;
        for node in config.nodes_of(ConfiguredRole::Management) {
            let place = node.host().zip(node.port());
            let Some((host, port)) = place.filter(|_| node.id != own.id) else { continue };
            match ask::<Shared>(host, port, &request, &self.access(node)) {
                Ok(told) => registry.merge(told)?,
                // One that does not run, or has no key, has signed nothing meanwhile.
                Err(AskError::Unreachable(_)) => {}
                Err(AskError::Refused(why)) => failed = Some(format!("node {}: {why}", node.id.0)),
            }
        }
        if registry.renew_own(&host_names(own))? {
            self.note("has a new certificate");
        }
        failed.map_or(Ok(()), Err)
    }

    /// Asks all nodes that can be asked.
    fn versions(&self) -> Vec<NodeVersion> {
        let connected: BTreeSet<NodeId> = self.books().connected.keys().copied().collect();
        let of = |node: &Node| {
            let (id, role) = (node.id, node.role.to_string());
            let place = node.host().zip(node.port()).filter(|_| connected.contains(&id));
            let version = match place {
                _ if id == self.own => Some(env!("CARGO_PKG_VERSION").to_string()),
                Some((host, port)) => {
                    ask::<String>(host, port, &Request::Version, &self.access(node)).ok()
                }
                None => None,
            };
            NodeVersion { node: id.0, role, version }
        };
        self.config().nodes().iter().map(of).collect()
    }
}

/// The node group of which the node has something that no other node has, while rows are served.
fn needed_for(state: &ClusterState, node: NodeId) -> Option<u16> {
    let complete = |slot: &&PlacementSlot| {
        let mut holders = slot.replicas.iter().filter(|replica| !replica.syncing);
        holders.next().is_some_and(|first| first.node == node) && holders.next().is_none()
    };
    let serves = state.started && !state.stopped;
    state.slots.iter().filter(|_| serves).find(complete).map(|slot| slot.group)
}

/// The roles of the configuration that a process of this kind may take, the best first.
fn roles(kind: &str) -> Result<&'static [ConfiguredRole], String> {
    match kind {
        "data" => Ok(&[ConfiguredRole::Data]),
        "sql" => Ok(&[ConfiguredRole::Sql, ConfiguredRole::Api]),
        _ => Err(format!("there are no processes of the kind `{kind}`")),
    }
}

impl Books {
    fn is_free(&self, node: NodeId) -> bool {
        let claimed = self.claims.get(&node).is_some_and(|until| *until > Instant::now());
        !claimed && !self.connected.contains_key(&node)
    }
}

/// How long the fingerprint of another management node's configuration is taken for the present
/// one.
const CONFIGURATION_KEPT: Duration = Duration::from_secs(30);
/// The same of one that is different.
const DIFFERENCE_KEPT: Duration = Duration::from_secs(1);
/// How often other management nodes are asked for what they have signed.
const REGISTRY_LOOK: Duration = Duration::from_secs(2);
/// How often nodes are asked for their links.
const LINKS_LOOK: Duration = Duration::from_secs(2);
/// How long an id is kept for a process that is starting.
const CLAIM_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
