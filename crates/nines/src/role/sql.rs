//! `nines sql`: an SQL node, which any client may use and which holds nothing.

use std::sync::Arc;
use std::sync::mpsc::channel;

use model::NodeId;
use runtime::{Cluster, LinkListeners, Role, Setup};
use sql::ServerAddress;

use super::client::{Connect, Given};
use super::process::{Life, after, be_missed_at_once, live, log_of, report, watching};
use super::{credentials, found_in, links};
use crate::application;
use crate::http::Endpoint;
use crate::layout::Layout;
use crate::machine::Cpus;
use crate::place::{Place, PlaceOptions};
use crate::process::watch_signals;

/// The options of `nines sql`.
#[derive(Clone, Debug)]
pub(crate) struct SqlOptions {
    pub(crate) connect: Connect,
    pub(crate) node: Option<NodeId>,
    pub(crate) place: PlaceOptions,
    pub(crate) workers: Option<u8>,
    /// Sessions begin with commits that wait for the disk.
    pub(crate) durable: bool,
}

/// Runs an SQL node until it is told to stop.
pub(crate) fn run(options: &SqlOptions) -> Result<(), String> {
    let (send, happenings) = channel();
    be_missed_at_once();
    watch_signals(send.clone())?;
    let place = Place::take(&options.place)?;
    let given = options.connect.begin("sql", options.node, &happenings)?;
    let Some(Given { config, node }) = given else { return Ok(()) };
    let own = config.node(node).ok_or_else(|| format!("node {} is not configured", node.0))?;
    let credentials = credentials(own, found_in(&place.directory)?)?;
    let layout = Layout::new(own, options.workers, &Cpus::of_process())?;
    let threads = layout.workers;
    let log = log_of(node);
    let endpoint = Endpoint::new(vec![(node, Role::Client)]);
    let serves_http = endpoint.serve_node(own)?;
    let admission = place.admission(node, log.clone())?;
    let (connect, verify) = (place.how_to_connect(&options.place.bind), place.how_to_verify());
    let address = ServerAddress { encrypted: config.is_encrypted(), ..place.server_address() };
    let application = application::sql_node(
        address,
        admission,
        &options.place.variables,
        options.durable,
        own.query_memory(),
    );
    let cluster = Cluster::start(Setup {
        config: Arc::new(config.kernel(node, threads, 0)),
        threads,
        scheduling: layout.scheduling,
        nodes: vec![(node, Role::Client)],
        links: Some(links(&config, own, LinkListeners::default(), None, credentials)),
        application: Some(application),
        listeners: place.listeners,
        tls: Some(place.tls),
        disk: None,
        trace_directory: place.directory,
        watching: Some(watching()),
        report: report(send),
    });
    let cluster = cluster.map_err(|error| format!("cannot start: {error}"))?;
    endpoint.attach(cluster.observer());
    let ready = format!("ready: SQL node {} of cluster {}; {connect}", node.0, config.name());
    log(&format!("threads: {}; {}", layout.line, cluster.spinning()));
    log(&verify);
    serves_http.iter().for_each(|line| log(line));
    let life = Life { ready, leaves: false, on_disk: false, log: &*log };
    after(live(cluster, &happenings, &life)?)
}
