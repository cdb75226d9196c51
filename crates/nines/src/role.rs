//! Processes that are one node of a cluster: `nines management`, `nines data`, `nines sql`.
//!
//! # Owns
//! What the three have in common: a node's surroundings as the runtime is told them, the way to the
//! configuration, the loop that waits for the end.
//! # Guarantees
//! A node that the cluster has gone on without starts again by itself, as a new life; one that was
//! told to end, or cannot go on, ends with a line that says why.

mod client;
pub(crate) mod credentials;
mod data;
#[cfg(test)]
pub(crate) mod fixture;
mod local;
mod lost_links;
pub(crate) mod management;
pub(crate) mod news;
mod operator;
mod process;
pub(crate) mod request;
mod rights;
mod sql;
pub(crate) mod status;
pub(crate) mod survivability;
pub(crate) mod token;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use cluster_config::{ClusterConfig, Node};
use model::NodeId;
use runtime::{
    DataDirectory, DiskEngine, DiskSetup, LinkLimits, LinkListeners, LinkSetup, NodeCredentials,
    NodeFiles, NodeRole, Peer, PeerAddress, Role, SameHost, Service, is_own,
};

use crate::process::Happening;

pub(crate) use client::Connect;
pub(crate) use credentials::JoinOptions;
pub(crate) use data::DataOptions;
pub(crate) use management::ManagementOptions;
pub(crate) use sql::SqlOptions;

pub(crate) use data::run as run_data;
pub(crate) use management::run as run_management;
pub(crate) use sql::run as run_sql;

/// What the runtime calls a node's role.
fn role_of(node: &Node) -> Role {
    match node.role {
        cluster_config::Role::Data => Role::Data,
        cluster_config::Role::Management => Role::Management,
        cluster_config::Role::Sql | cluster_config::Role::Api => Role::Client,
    }
}

/// What a node knows of the others.
fn links(
    config: &ClusterConfig,
    own: &Node,
    listeners: LinkListeners,
    service: Option<Service>,
    credentials: Option<NodeCredentials>,
) -> LinkSetup {
    let peer = |node: &Node| {
        let address = node.host().zip(node.port());
        let address = address.map(|(host, port)| PeerAddress { host: host.to_string(), port });
        let role = role_of(node);
        let send_buffer = config.send_buffer(own.id, node.id).map(send_buffer);
        Peer { role, address: address.filter(|_| role != Role::Client), send_buffer }
    };
    let others = config.nodes().iter().filter(|node| node.id != own.id);
    LinkSetup {
        cluster: config.name(),
        peers: others.map(|node| (node.id, peer(node))).collect::<BTreeMap<NodeId, Peer>>(),
        listeners,
        same_host: same_host(own),
        limits: limits(own),
        service,
        credentials,
    }
}

/// How peers on the same host are to be reached, by `UseShm`.
fn same_host(own: &Node) -> SameHost {
    match own.settings().given("UseShm").map(cluster_config::Value::text).as_deref() {
        Some("0") => SameHost::Tcp,
        Some("2") => SameHost::Sockets,
        _ => SameHost::Memory,
    }
}

fn limits(own: &Node) -> LinkLimits {
    let compression = own.compresses_links();
    let mut limits = LinkLimits { compression, ..LinkLimits::default() };
    if let Some(total) = own.send_buffers() {
        limits.send_buffers = send_buffer(total);
    }
    if let Some(cluster_config::Value::Number(interval)) =
        own.settings().given("HeartbeatIntervalDbDb")
    {
        // As long as NDB waits: four intervals.
        limits.silence = limits.silence.max(stdx::Duration::from_millis(*interval).times(4));
    }
    limits
}

/// What may wait to be sent, from what is configured.
fn send_buffer(configured: u64) -> usize {
    usize::try_from(configured).unwrap_or(usize::MAX).max(SEND_BUFFER_MIN)
}

/// The disk of a process that is this node.
fn disk_of(node: NodeId, directory: DataDirectory) -> DiskSetup {
    DiskSetup { engine: DiskEngine::Auto, directories: BTreeMap::from([(node, directory)]) }
}

/// Asks the main thread of this process to leave the cluster.
fn ask_to_leave(
    send: &Mutex<Sender<Happening>>,
    restart: bool,
) -> Result<serde_json::Value, String> {
    let send = send.lock().expect("nobody panics while holding it");
    send.send(Happening::Leave { restart }).map_err(|_| "the node is ending")?;
    request::value(&true)
}

/// The certificate that is in a directory, if there is one.
fn found_in(directory: &Path) -> Result<Option<NodeCredentials>, String> {
    let files = NodeFiles::in_directory(directory);
    files.exist().then(|| NodeCredentials::load(files)).transpose()
}

/// What a node proves its identity by on links: the files that the configuration names, or else
/// what it has joined with.
fn credentials_of(
    own: &Node,
    joined: Option<NodeCredentials>,
) -> Result<Option<NodeCredentials>, String> {
    let found = match own.tls() {
        None => joined,
        Some(tls) => {
            let certificate = PathBuf::from(tls.certificate);
            let revoked = certificate.with_file_name("node-revoked.txt");
            let (authority, key) = (tls.authority.into(), tls.key.into());
            let files = NodeFiles { authority, certificate, key, revoked };
            Some(NodeCredentials::load(files)?)
        }
    };
    let role = NodeRole::from(role_of(own));
    let found_of = found.as_ref().map(NodeCredentials::identity);
    if let Some(identity) = found_of.filter(|found| (found.role, found.node) != (role, own.id)) {
        return Err(format!(
            "this is {} node {}, and its certificate is that of {identity}",
            role.name(),
            own.id.0
        ));
    }
    Ok(found)
}

/// The certificate for links, if they are to be encrypted: where nodes are beyond loopback, unless
/// the configuration says that the network is trusted, and wherever the configuration names files.
/// All nodes of a cluster come to the same answer.
fn link_credentials(
    config: &ClusterConfig,
    own: &Node,
    credentials: Option<&NodeCredentials>,
) -> Option<NodeCredentials> {
    let is_open = |node: &Node| {
        let found = node.host().map(|host| (host, 0).to_socket_addrs());
        // A name that nobody knows yet is not that of this host.
        found.is_some_and(|found| match found {
            Ok(mut found) => found.any(|address| !address.ip().to_canonical().is_loopback()),
            Err(_) => true,
        })
    };
    let mut others = config.nodes().iter().filter(|node| role_of(node) != Role::Client);
    let is_wanted = own.tls().is_some() || !own.allow_insecure() && others.any(is_open);
    credentials.filter(|_| is_wanted).cloned()
}

/// Where the others look for this node, if it may be there: on addresses that other hosts reach
/// only if links are encrypted, or need not be.
fn addresses(own: &Node, is_secure: bool) -> Result<Vec<SocketAddr>, String> {
    let (Some(host), Some(port)) = (own.host(), own.port()) else {
        return Err(format!("node {} has no address in the configuration", own.id.0));
    };
    let addresses = resolve(host, port)?;
    let open = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(open) = open
        && !is_secure
        && !own.allow_insecure()
    {
        return Err(format!(
            "node {} listens on {}, which other hosts can reach, and has no certificate for its \
             links: give it one (`nines ctl token create`, or TlsAuthority, TlsCertificate and \
             TlsKey), or set AllowInsecure=1 for it if nobody else is in that network",
            own.id.0,
            open.ip()
        ));
    }
    Ok(addresses)
}

/// Listens where the others look for this node.
fn listen(config: &ClusterConfig, own: &Node, is_secure: bool) -> Result<LinkListeners, String> {
    let addresses = addresses(own, is_secure)?;
    let (host, port) = (own.host().unwrap_or_default(), own.port().unwrap_or_default());
    let is_reached_here = same_host(own) != SameHost::Tcp;
    LinkListeners::bind(&config.name(), own.id, &addresses, is_reached_here).map_err(|error| {
        let name = if own.role == cluster_config::Role::Data { "ServerPort" } else { "PortNumber" };
        match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "port {port} of {host} is in use, perhaps by another process of node {}; stop \
                     that one, or set {name} for this node",
                own.id.0
            ),
            _ => format!("cannot listen on {host}, port {port}: {error}"),
        }
    })
}

/// The addresses of a host that are this machine's.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| format!("host {host} is not known: {error}"))?;
    let own: Vec<SocketAddr> = found.filter(|address| is_own(address.ip())).collect();
    if own.is_empty() {
        return Err(format!(
            "{host} is not an address of this machine: the node belongs elsewhere"
        ));
    }
    Ok(own)
}

/// Whether a host of the configuration is this machine; one that is not named may be.
fn is_here(host: Option<&str>) -> bool {
    let Some(host) = host else { return true };
    (host, 0).to_socket_addrs().is_ok_and(|mut found| found.any(|address| is_own(address.ip())))
}

/// What a turn can have to say to one peer must fit: a copy of rows under way, a batch of a client.
const SEND_BUFFER_MIN: usize = 64 << 20;
