//! `nines dev`: a whole cluster in one process, for development and tests.
//!
//! # Owns
//! The layout (data nodes 1 to N, a management node, an SQL node, all on the same threads), where
//! clients connect, what is on disk, the lines that are printed, the end.
//! # Failure
//! A start that cannot succeed ends with one line. When the cluster stops by itself, or a rule is
//! broken, the process ends with an error that names the traces.

mod storage;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actor::Halt;
use model::{Config, NodeId};
use runtime::{Cluster, DiskEngine, DiskSetup, Event, Report, Role, Setup};
use sql::ServerAddress;

use crate::application::Resources;
use crate::encryption::KeyOptions;
use crate::http::Endpoint;
use crate::layout::{Layout, WORKERS_MAX};
use crate::machine::Cpus;
use crate::place::{Place, PlaceOptions};
use crate::process::{Happening, crashed, failed, watch_signals};
use crate::progress::StartProgress;
use crate::role::management::one_process::{Nodes, OneProcess};
use crate::{application, complain, machine, tell};
use storage::{Shape, Storage};

/// The options of `nines dev`.
#[derive(Clone, Debug)]
pub(crate) struct DevOptions {
    /// Where clients connect. Data is kept in its directory, in memory if there is none.
    pub(crate) place: PlaceOptions,
    pub(crate) data_nodes: u16,
    pub(crate) replicas: u8,
    /// The numbers of nodes and replicas were asked for.
    pub(crate) shape_given: bool,
    pub(crate) workers: Option<u8>,
    /// Bytes per data node.
    pub(crate) data_memory: Option<u64>,
    /// Bytes that statements may keep.
    pub(crate) query_memory: Option<u64>,
    /// Sessions begin with commits that wait for the disk.
    pub(crate) durable: bool,
    pub(crate) disk_engine: DiskEngine,
    /// Where the master key of what is on disk comes from.
    pub(crate) keys: KeyOptions,
    /// The key is for reading alone.
    pub(crate) decrypt: bool,
    pub(crate) tuning: Vec<Tuning>,
    /// Where metrics and health checks are, on loopback.
    pub(crate) http_port: Option<u16>,
}

/// A limit of the disk's side that is not the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// Bytes of a segment of the redo log; a checkpoint begins after some.
    RedoSegment(u64),
    /// Bytes that a worker writes to checkpoints in a second at most.
    CheckpointSpeed(u64),
    /// Milliseconds between two epochs that are saved without being asked for.
    SaveInterval(u64),
}

/// Runs a cluster until it is told to stop.
pub(crate) fn run(options: DevOptions) -> Result<(), String> {
    let (send, happenings) = channel();
    // First of all, so that a signal during the start is not lost.
    watch_signals(send.clone())?;
    let data = options.place.directory.as_deref();
    // In memory nothing is encrypted: the environment may hold a key for something else.
    let encryption = data.map(|_| options.keys.for_dev(options.decrypt)).transpose()?;
    let encryption = encryption.unwrap_or_default();
    let take = |directory| Storage::take(directory, &options, &encryption);
    let mut storage = data.map(take).transpose()?;
    let mut place = Place::take(&options.place, false)?;
    let port = place.port;
    place.open_on_loopback();
    let wanted = Shape { data_nodes: options.data_nodes, replicas: options.replicas };
    let shape = storage.as_ref().map_or(wanted, |storage| storage.shape);
    // The files of a worker are its own: a directory keeps the number of its first start.
    let kept = storage.as_ref().and_then(|storage| storage.workers);
    let threads = kept.or(options.workers);
    let cpus = Cpus::of_process();
    let threads = threads.unwrap_or_else(|| cpus.usable().min(WORKERS_MAX) as u8);
    let on_disk = storage.is_some();
    // The directory as a whole stays locked until the end.
    let disk = storage.as_mut().map(|storage| DiskSetup {
        engine: options.disk_engine,
        directories: std::mem::take(&mut storage.directories),
    });
    let encrypts = on_disk && encryption.encrypts;
    let address = ServerAddress { encrypted: encrypts, ..place.server_address() };
    let connect = place.how_to_connect(&options.place.bind);
    let (admission, announcement) = place.admission(SQL_NODE, Arc::new(tell))?;
    let resources = resources(&options, &place, encrypts)?;
    let Place { directory, listeners, tls, .. } = place;
    let (variables, durable) = (&options.place.variables, options.durable);
    let application = application::sql_node(address, admission, variables, durable, resources);
    let endpoint = Endpoint::new(nodes(shape));
    let serves_http = options.http_port.map(|port| endpoint.serve_loopback(port)).transpose()?;
    let config = config(&options, shape, threads, on_disk);
    let desk = OneProcess::new(Nodes {
        data: shape.data_nodes,
        replicas: shape.replicas,
        management: MANAGEMENT_NODE,
        sql: SQL_NODE,
        data_memory: config.data_memory * u64::from(threads),
        on_disk,
    })?;
    let cluster = Cluster::start(Setup {
        config: Arc::new(config),
        threads,
        scheduling: Layout::plain(threads, &cpus).scheduling,
        nodes: nodes(shape),
        links: None,
        application: Some(application),
        operator: Some(desk.operator()),
        listeners,
        tls: Some(tls),
        disk,
        trace_directory: directory,
        watching: None,
        report: report(send, desk.clone()),
    });
    let cluster = cluster.map_err(|error| format!("cannot start: {error}"))?;
    endpoint.attach(cluster.observer());
    desk.serve(&cluster, port)?;
    serves_http.iter().for_each(|line| tell(line));
    tell(&match (data, cluster.disk_engine()) {
        (Some(data), Some(engine)) => {
            let how = if encrypts { ", encrypted" } else { "" };
            format!("data is on disk in {} ({engine}{how})", data.display())
        }
        _ => "data is in memory only: it is gone when this process ends".to_string(),
    });
    let ready = || announcement.serve(&ready_line(shape, on_disk, &connect), tell);
    let outcome = watch(&happenings, &ready, on_disk.then_some(&cluster));
    cluster.stop();
    outcome
}

/// What statements may use of the machine.
fn resources(options: &DevOptions, place: &Place, encrypts: bool) -> Result<Resources, String> {
    Ok(Resources {
        query_memory: options.query_memory,
        temporary: place.temporary(options.place.temporary.as_deref(), encrypts)?,
        backups: Default::default(),
        store: Default::default(),
    })
}

/// Tells operators and the main thread what happens.
fn report(send: Sender<Happening>, desk: Arc<OneProcess>) -> Report {
    let send = Mutex::new(send);
    Box::new(move |event| {
        match &event {
            Event::News { node, about, news } if *node == MANAGEMENT_NODE => {
                desk.heed(*about, news);
            }
            Event::Halted { node, .. } => desk.forget(*node),
            _ => {}
        }
        let send = send.lock().expect("nobody panics while holding it");
        // The main thread may have ended already.
        let _ = send.send(Happening::of(event));
    })
}

/// Tells what happens, until it is the end. `on_disk` is a cluster that may have to read first.
fn watch(
    happenings: &Receiver<Happening>,
    ready: &dyn Fn(),
    on_disk: Option<&Cluster>,
) -> Result<(), String> {
    let mut patience = if on_disk.is_some() { PROGRESS_INTERVAL } else { START_PATIENCE };
    let (began, mut progress) = (Instant::now(), StartProgress::default());
    loop {
        match happenings.recv_timeout(patience) {
            Ok(Happening::Signal | Happening::Leave { .. }) => return Ok(()),
            Ok(Happening::Cluster(Event::Ready)) => {
                patience = Duration::MAX;
                ready();
            }
            Ok(Happening::Cluster(Event::Halted { node, why, trace })) => {
                let trace = trace.map_or_else(|e| e.to_string(), |path| path.display().to_string());
                let line = format!("node {} has stopped: {why} (trace: {trace})", node.0);
                if matches!(why, Halt::ClusterStopped(_)) {
                    return Err(line);
                }
                complain(&line);
            }
            Ok(Happening::Cluster(Event::Crashed { traces })) => return Err(crashed(traces)),
            // Nobody would go on: nothing is watched.
            Ok(Happening::Cluster(Event::Hung { hung, .. })) => return Err(hung.to_string()),
            Ok(Happening::Cluster(Event::Failed(error))) => return Err(failed(&error)),
            Ok(Happening::Cluster(Event::News { node, about, news })) => {
                // Management nodes tell what the others have told already.
                if node == about {
                    tell(&format!("node {}: {}", about.0, news.text));
                }
            }
            // No node is in another process. What asks the process to leave is a happening itself.
            Ok(Happening::Cluster(Event::Link(_) | Event::LeaveAsked(_))) => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Some(cluster) = on_disk {
                    // How long that takes depends on how much there is.
                    let line = progress.line(&cluster.restore_progress(), began.elapsed());
                    line.iter().for_each(|line| tell(line));
                    continue;
                }
                return Err(format!(
                    "the cluster has not started in {} seconds; is the machine overloaded?",
                    START_PATIENCE.as_secs()
                ));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("all threads have ended".into()),
        }
    }
}

fn ready_line(shape: Shape, on_disk: bool, connect: &str) -> String {
    let plural = |count: u16| if count == 1 { "" } else { "s" };
    let Shape { data_nodes, replicas } = shape;
    let (nodes, copies) = (plural(data_nodes), plural(u16::from(replicas)));
    let replica = if copies.is_empty() { "replica" } else { "replicas" };
    let where_to = if on_disk { "on disk" } else { "in memory" };
    format!("ready: {data_nodes} data node{nodes}, {replicas} {replica}, {where_to}; {connect}")
}

/// Every node of the cluster.
fn nodes(shape: Shape) -> Vec<(NodeId, Role)> {
    let data = (1..=shape.data_nodes).map(|node| (NodeId(node), Role::Data));
    data.chain([(MANAGEMENT_NODE, Role::Management), (SQL_NODE, Role::Client)]).collect()
}

/// Limits and intervals. One process fails as a whole, so nobody has to be watched closely: a
/// machine that stands still for a moment must not look like nodes that are gone.
fn config(options: &DevOptions, shape: Shape, threads: u8, disk: bool) -> Config {
    let data_nodes = (1..=shape.data_nodes).map(NodeId).collect();
    let mut config = Config::new(data_nodes, vec![MANAGEMENT_NODE], shape.replicas);
    config.disk = disk;
    for tuning in &options.tuning {
        match *tuning {
            Tuning::RedoSegment(size) => config.redo_segment = size,
            Tuning::CheckpointSpeed(speed) => {
                config.checkpoint_speed = (config.checkpoint_speed.0.min(speed), speed);
            }
            Tuning::SaveInterval(span) => {
                config.save_interval = stdx::Duration::from_millis(span);
            }
        }
    }
    config.lease = stdx::Duration::from_secs(10);
    // A restart of the cluster waits for an election.
    config.election_timeout = stdx::Duration::from_secs(1);
    let nodes = u64::from(shape.data_nodes);
    let per_node = options.data_memory.unwrap_or_else(|| machine::memory() / 2 / nodes);
    config.data_memory = per_node / u64::from(threads);
    config.version_memory = config.version_memory.min(config.data_memory / 4);
    config
}

const MANAGEMENT_NODE: NodeId = NodeId(49);
const SQL_NODE: NodeId = NodeId(51);
/// How long a cluster may take to start on a machine that has other things to do.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How often a start tells what it is reading.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
