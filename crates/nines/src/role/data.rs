//! `nines data`: a data node.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use cluster_config::{ClusterConfig, Node, Value};
use model::NodeId;
use runtime::{
    Asker, Cluster, DataDirectory, Encryption, Listeners, MemoryLock, NodeCredentials, Role,
    Service, Setup, Watching,
};

use super::client::{Connect, Given};
use super::credentials::{JoinOptions, keep_good};
use super::process::{Farewell, Life, after, be_missed_at_once, live, log_of, report};
use super::request::{NewKeys, Request, answer, value};
use super::{
    addresses, ask_to_leave, credentials_of, disk_of, link_credentials, links, listen, local,
    rights,
};
use crate::encryption::{KeyOptions, NodeKeys};
use crate::http::Endpoint;
use crate::layout::Layout;
use crate::machine::{self, Cpus};
use crate::process::{Happening, watch_signals};
use crate::root_password::Announcement;

/// The options of `nines data`.
#[derive(Clone, Debug)]
pub(crate) struct DataOptions {
    pub(crate) connect: Connect,
    pub(crate) node: Option<NodeId>,
    /// Forget what is on the disk.
    pub(crate) initial: bool,
    /// Where the master key of its disk comes from.
    pub(crate) keys: KeyOptions,
    pub(crate) join: JoinOptions,
}

/// Runs a data node until it is told to stop.
pub(crate) fn run(options: &DataOptions) -> Result<(), String> {
    let (send, happenings) = channel();
    be_missed_at_once();
    watch_signals(send.clone())?;
    let joined = options.join.of_data(options.node, &options.connect, &happenings)?;
    let Some(joined) = joined else { return Ok(()) };
    let node = joined.node().or(options.node);
    let given = options.connect.begin("data", node, joined.0, &happenings)?;
    let Some(Given { config, version, node, credentials }) = given else { return Ok(()) };
    let own = config.node(node).ok_or_else(|| format!("node {} is not configured", node.0))?;
    let credentials = credentials_of(own, credentials)?;
    let on_links = link_credentials(&config, own, credentials.as_ref());
    let base = own.directory().unwrap_or_else(|| ".".into());
    let encryption = options.keys.for_node(&config, own)?;
    let directory = take_directory(Path::new(&base), node, options.initial, &encryption)?;
    let keys = NodeKeys::of(&directory, &encryption);
    lock_memory(own)?;
    // The files of a worker are its own: a directory keeps the number of its first start.
    let layout = Layout::new(own, directory.workers(), &Cpus::of_process());
    let layout = layout.map_err(|why| format!("node {}: {why}", node.0))?;
    layout.others.take().map_err(|error| error.to_string())?;
    let threads = layout.workers;
    let endpoint = Endpoint::new(vec![(node, Role::Data)]);
    let serves_http = endpoint.serve_node(own, credentials.as_ref())?;
    let kernel = config.kernel(node, threads, default_memory(&config, own));
    let disk = kernel.disk.then(|| disk_of(node, directory));
    let on_disk = disk.is_some();
    let listeners = listen(&config, own, on_links.is_some())?;
    let memory = (kernel.data_memory * u64::from(threads)) >> 20;
    let log = log_of(node);
    let service = service(send.clone(), keys, credentials.clone(), own.allow_insecure(), version);
    local::serve(&addresses(own, on_links.is_some())?, &service.answer)?;
    if let Some(credentials) = &credentials {
        let log = log.clone();
        keep_good(credentials, &options.connect, move |line| log(line), None)?;
    }
    let cluster = Cluster::start(Setup {
        config: Arc::new(kernel),
        threads,
        scheduling: layout.scheduling,
        nodes: vec![(node, Role::Data)],
        links: Some(links(&config, own, listeners, Some(service), on_links)),
        application: None,
        operator: None,
        listeners: Listeners::default(),
        tls: None,
        disk,
        trace_directory: PathBuf::from(&base),
        watching: Some(Watching {
            limit: own.worker_check(),
            limit_at_start: own.worker_check_at_start(),
            computing_limits: COMPUTING_LIMITS,
            traces: own.settings().given("WatchDogImmediateKill") != Some(&Value::Flag(true)),
        }),
        report: report(send),
    });
    let cluster = cluster.map_err(|error| format!("cannot start: {error}"))?;
    endpoint.attach(cluster.observer());
    log(&format!("threads: {}; {}", layout.line, cluster.spinning()));
    layout.notes.iter().for_each(|note| log(note));
    serves_http.iter().for_each(|line| log(line));
    let how = if encryption.encrypts { ", encrypted" } else { "" };
    let engine = cluster.disk_engine().map(|engine| format!("on disk in {base} ({engine}{how})"));
    let ready = format!(
        "ready: data node {} of cluster {}, {threads} workers, {memory} MB, {}",
        node.0,
        config.name(),
        engine.unwrap_or_else(|| "in memory only".into())
    );
    let log: &dyn Fn(&str) = &*log;
    let (announcement, end) = (Announcement::at_once(), Farewell::Leave);
    after(live(cluster, &happenings, &Life { ready, announcement, end, on_disk, log })?)
}

/// For how many checks a worker may compute in a single turn: others wait for its rows.
const COMPUTING_LIMITS: u64 = 3;

/// What a node answers itself: that it will go, that its keys are new.
pub(super) fn service(
    send: Sender<Happening>,
    keys: Option<NodeKeys>,
    tls: Option<NodeCredentials>,
    insecure: bool,
    configuration: u64,
) -> Service {
    let send = Mutex::new(send);
    let answer = move |asker: &Asker, body: &[u8], out: &mut dyn Write| {
        answer(asker, body, out, |asker, request| {
            rights::check(asker, &request, insecure)?;
            match request {
                Request::Leave { restart } => ask_to_leave(&send, restart),
                Request::RotateOwnKeys => value(&NewKeys::of(NodeKeys::rotate(keys.as_ref())?)),
                Request::Version => value(&env!("CARGO_PKG_VERSION")),
                Request::Running => value(&configuration),
                other => Err(format!("ask a management node: {other:?}")),
            }
        });
    };
    Service { answer: Arc::new(answer), tls }
}

/// Takes the node's directory. With `initial` what is in it goes first.
fn take_directory(
    path: &Path,
    node: NodeId,
    initial: bool,
    encryption: &Encryption,
) -> Result<DataDirectory, String> {
    let take = if initial { DataDirectory::empty } else { DataDirectory::open };
    take(path, node, encryption).map_err(|error| error.to_string())
}

/// Keeps the process out of swap, if it is to.
fn lock_memory(own: &Node) -> Result<(), String> {
    let which = match own.settings().given("LockPagesInMainMemory") {
        Some(Value::Number(1)) => MemoryLock::AsUsed,
        Some(Value::Number(2)) => MemoryLock::AsTaken,
        _ => return Ok(()),
    };
    let node = own.id.0;
    runtime::lock_memory(which)
        .map_err(|why| format!("LockPagesInMainMemory of node {node}: {why}"))
}

/// The memory of a data node where the configuration does not say: half of the machine's for all
/// data nodes on it.
fn default_memory(config: &ClusterConfig, own: &Node) -> u64 {
    let here = config.nodes_of(cluster_config::Role::Data).filter(|n| n.host() == own.host());
    machine::memory() / 2 / here.count().max(1) as u64
}
