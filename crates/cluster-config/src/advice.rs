//! What is unwise about a configuration that is accepted.
//!
//! # Guarantees
//! A warning names the nodes or the host, what can happen, and what to do about it.
//! # Not here
//! What makes a configuration unusable: `resolve`.

use std::collections::{BTreeMap, BTreeSet};

use model::NodeId;

use crate::cluster::{ClusterConfig, Node, Role, Threads};
use crate::host;
use crate::parameter::Unit;
use crate::survival::numbers;
use crate::value::readable;

/// What is known of the machine that the advice is given on.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Its names and addresses.
    pub names: Vec<String>,
    /// Bytes of memory.
    pub memory: u64,
    /// CPUs.
    pub cpus: u64,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// A word for programs, which stays the same when the text changes.
    pub topic: &'static str,
    /// The nodes that it is about.
    pub nodes: Vec<NodeId>,
    /// The warning, in one line.
    pub what: String,
    /// The nodes will not start, whatever is done on their hosts.
    pub fatal: bool,
}

impl ClusterConfig {
    /// All that is unwise, what costs most first.
    pub fn advice(&self, machine: &Machine) -> Vec<Advice> {
        let mut advice = Vec::new();
        replicas(self, &mut advice);
        if !one_host(self, &mut advice) {
            shared_hosts(self, &mut advice);
            tie_breaker(self, &mut advice);
        }
        locations(self, &mut advice);
        management(self, &mut advice);
        network(self, &mut advice);
        certificates(self, &mut advice);
        http(self, &mut advice);
        encryption(self, &mut advice);
        here(self, machine, &mut advice);
        memory(self, &mut advice);
        pauses(self, &mut advice);
        threads(self, &mut advice);
        directories(self, &mut advice);
        clients(self, &mut advice);
        advice
    }
}

fn add(advice: &mut Vec<Advice>, topic: &'static str, nodes: Vec<NodeId>, what: String) {
    advice.push(Advice { topic, nodes, what, fatal: false });
}

fn ids<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<NodeId> {
    nodes.map(|node| node.id).collect()
}

fn data_hosts(config: &ClusterConfig) -> BTreeSet<String> {
    config.nodes_of(Role::Data).filter_map(Node::host).map(host::canonical).collect()
}

/// Workers that may stand still for long.
fn pauses(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let long = |node: &&Node| node.worker_check().as_millis() > WORKER_CHECK_MAX;
    let nodes: Vec<&Node> = config.nodes_of(Role::Data).filter(long).collect();
    let Some(longest) = nodes.iter().map(|node| node.worker_check().as_millis()).max() else {
        return;
    };
    let what = format!(
        "TimeBetweenWatchDogCheck={longest}: when a worker hangs, clients wait for up to {longest} \
         ms, and for {} ms if it computes without end; {WORKER_CHECK_MAX} or less keeps that below \
         2.5 s",
        longest.saturating_mul(3)
    );
    add(advice, "watchdog", ids(nodes.into_iter()), what);
}

/// Milliseconds that a worker may stand still without a warning.
const WORKER_CHECK_MAX: u64 = 500;

/// Too few copies.
fn replicas(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    if config.replicas() == 1 {
        let what = "NoOfReplicas=1: the loss of any data node stops the cluster; use 2 or more";
        add(advice, "one-replica", ids(config.nodes_of(Role::Data)), what.into());
    }
    let diskless =
        config.nodes_of(Role::Data).any(|node| node.settings().flag("Diskless") == Some(true));
    if diskless {
        let what = "Diskless=1: what all replicas of a node group lose at once is gone for ever";
        add(advice, "diskless", ids(config.nodes_of(Role::Data)), what.into());
    }
}

/// Everything on one host is one warning, not one for each consequence.
fn one_host(config: &ClusterConfig, advice: &mut Vec<Advice>) -> bool {
    let hosts = data_hosts(config);
    let [only] = &hosts.into_iter().collect::<Vec<_>>()[..] else { return false };
    if config.replicas() > 1 {
        let what = format!(
            "all data nodes are on {only}: its loss stops the cluster; put the replicas of a node \
             group on different hosts, except for trying things out"
        );
        add(advice, "one-host", ids(config.nodes_of(Role::Data)), what);
    }
    true
}

/// Replicas of one node group on one host.
fn shared_hosts(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    for group in config.groups() {
        let mut hosts: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for id in &group.nodes {
            if let Some(name) = config.node(*id).and_then(Node::host) {
                hosts.entry(host::canonical(name)).or_default().push(*id);
            }
        }
        for (host, nodes) in hosts.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
            let (number, list) = (group.number, numbers(&nodes));
            let what = if nodes.len() == group.nodes.len() {
                format!(
                    "node group {number} has all its replicas on {host} ({list}): its loss stops \
                     the cluster; put them on different hosts"
                )
            } else {
                format!(
                    "node group {number} has several replicas on {host} ({list}), which are lost \
                     together; put them on different hosts"
                )
            };
            add(advice, "replicas-on-one-host", nodes, what);
        }
    }
}

/// Two halves, and nobody apart from them to decide between them.
fn tie_breaker(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let Some(tie_breaker) = config.tie_breaker().and_then(|id| config.node(id)) else { return };
    if config.replicas() == 1 {
        return;
    }
    let hosts = data_hosts(config);
    let beside =
        |node: &Node| node.host().is_some_and(|name| hosts.contains(&host::canonical(name)));
    if !beside(tie_breaker) {
        return;
    }
    let lost: BTreeSet<NodeId> = config
        .nodes()
        .iter()
        .filter(|node| !node.role.is_client())
        .filter(|node| node.host().map(host::canonical) == tie_breaker.host().map(host::canonical))
        .map(|node| node.id)
        .collect();
    // With many data nodes the host of the tie-breaker need not be half of the votes.
    if config.after_loss(&lost).goes_on() {
        return;
    }
    let host = tie_breaker.host().unwrap_or_default();
    let id = tie_breaker.id.0;
    let what = match config.nodes_of(Role::Management).find(|node| !beside(node)) {
        Some(apart) => format!(
            "the tie-breaker is management node {id} on {host}, which has data nodes too: its loss \
             stops the cluster; give management node {} the lowest id, so that it breaks ties",
            apart.id.0
        ),
        None => format!(
            "no management node is on a host without data nodes, and so the loss of {host} takes a \
             replica and the tie-breaker and stops the cluster; put one on a third host"
        ),
    };
    add(advice, "tie-breaker", vec![tie_breaker.id], what);
}

/// Places that are lost as a whole.
fn locations(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let location = |id: &NodeId| config.node(*id).map_or(0, Node::location);
    let places: BTreeSet<u64> = config.nodes_of(Role::Data).map(Node::location).collect();
    if places.len() < 2 || config.replicas() == 1 {
        return;
    }
    for group in config.groups() {
        let mut all = group.nodes.iter().map(location);
        let first = all.next().unwrap_or(0);
        if first != 0 && all.all(|place| place == first) {
            let what = format!(
                "node group {} has all its replicas in LocationDomainId={first}: spread them over \
                 the locations there are",
                group.number
            );
            add(advice, "location", group.nodes.clone(), what);
        }
    }
    if places.contains(&0) {
        let none = config.nodes_of(Role::Data).filter(|node| node.location() == 0);
        let what = format!("{} without LocationDomainId, which others have", numbers(&ids(none)));
        add(advice, "location", Vec::new(), what);
    }
}

fn management(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let nodes = ids(config.nodes_of(Role::Management));
    if nodes.len() == 1 {
        let breaks_ties = config.tie_breaker().is_some() && config.replicas() > 1;
        let also = if breaks_ties { ", and nobody breaks ties" } else { "" };
        let what = format!(
            "one management node only: while it is down no node can start{also}; add a second one"
        );
        add(advice, "one-management-node", nodes, what);
    }
}

/// Addresses that others cannot reach.
fn network(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let (near, far): (Vec<&Node>, Vec<&Node>) = config
        .nodes()
        .iter()
        .filter(|node| node.host().is_some())
        .partition(|n| n.is_on_loopback());
    if !near.is_empty() && !far.is_empty() {
        let near = ids(near.into_iter());
        let what = format!(
            "{} cannot be reached from other hosts, where there are nodes: give HostName the \
             host's name or address instead of localhost",
            numbers(&near)
        );
        add(advice, "loopback", near, what);
    }
}

/// Addresses that anybody can reach.
fn certificates(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let exposed = || {
        let servers = config.nodes().iter().filter(|node| !node.role.is_client());
        servers.filter(|node| !node.is_on_loopback())
    };
    let open = exposed().filter(|node| node.tls().is_none());
    let (open, bare): (Vec<&Node>, Vec<&Node>) = open.partition(|node| node.allow_insecure());
    if !bare.is_empty() {
        let bare = ids(bare.into_iter());
        let what = format!(
            "{} need certificates to start, as other hosts can reach where they listen: \
             they get them by joining with a token (nines ctl token create), from TlsAuthority, \
             TlsCertificate and TlsKey, or do without by AllowInsecure=1 on a network you trust",
            numbers(&bare)
        );
        add(advice, "certificates", bare, what);
    }
    if !open.is_empty() {
        let open = ids(open.into_iter());
        let what = format!(
            "AllowInsecure=1: whoever reaches {} over the network can read and change everything",
            numbers(&open)
        );
        add(advice, "insecure", open, what);
    }
}

/// Metrics where anybody can read them.
fn http(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let serves = config.nodes().iter().filter(|node| node.http_port().is_some());
    let open = serves.filter(|node| !host::is_loopback(node.http_address()));
    let refused = ids(open.filter(|node| !node.allow_insecure()));
    if !refused.is_empty() {
        let what = format!(
            "{} need a certificate to start, as other hosts can reach HttpAddress: let them \
             join with a token, leave HttpAddress out, or set AllowInsecure=1 if you trust the \
             network",
            numbers(&refused)
        );
        add(advice, "http", refused, what);
    }
}

/// Files that are encrypted on some nodes and plain on others, and keys beside them.
fn encryption(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let on_disk = || config.nodes().iter().filter(|node| !node.role.is_client());
    let plain = ids(on_disk().filter(|node| !config.encrypts(node)));
    if !plain.is_empty() && on_disk().any(|node| config.encrypts(node)) {
        let what = format!(
            "EncryptedFileSystem=1 is not for {}: what others encrypt can be read there; set it in \
             [cluster], or for all",
            numbers(&plain)
        );
        add(advice, "encryption", plain, what);
    }
    let both = on_disk().filter(|node| {
        node.encryption_key_file().is_some() && node.encryption_key_command().is_some()
    });
    let both = ids(both);
    if !both.is_empty() {
        let what = format!(
            "EncryptedFileSystemKeyFile and EncryptedFileSystemKeyCommand are both set for {}, \
             which will not start: leave one out",
            numbers(&both)
        );
        advice.push(Advice { topic: "encryption-key", nodes: both, what, fatal: true });
    }
}

impl Machine {
    /// Whether a host of a configuration is this machine.
    pub fn is_host(&self, host: &str) -> bool {
        host::is_loopback(host) || self.names.iter().any(|name| host::is_same(name, host))
    }
}

/// More than this machine has.
fn here(config: &ClusterConfig, machine: &Machine, advice: &mut Vec<Advice>) {
    let is_here = |node: &&Node| machine.is_host(node.host().unwrap_or_default());
    let nodes: Vec<&Node> = config.nodes_of(Role::Data).filter(is_here).collect();
    let total = |name: &str| {
        let given = nodes.iter().filter_map(|node| node.settings().number(name));
        given.fold(0_u64, u64::saturating_add)
    };
    let list = numbers(&ids(nodes.iter().copied()));
    let memory = total("DataMemory");
    if memory > machine.memory && machine.memory > 0 {
        let what = format!(
            "{list} on this host have DataMemory={} together, and the host has {}: the system \
             will swap them out, or end them; lower it",
            readable(memory, Unit::Bytes),
            rough(machine.memory)
        );
        add(advice, "memory", ids(nodes.iter().copied()), what);
    }
    let cpus = total("NumCPUs");
    if cpus > machine.cpus && machine.cpus > 0 {
        let what = format!(
            "{list} on this host have NumCPUs={cpus} together, and the host has {}: threads will \
             wait for each other; lower it",
            machine.cpus
        );
        add(advice, "cpus", ids(nodes.iter().copied()), what);
    }
}

/// A size with one digit behind the point.
fn rough(bytes: u64) -> String {
    let tenths = |shift: u32| (bytes >> (shift - 4)) * 10 / 16;
    let (tenths, letter) = if bytes >> 30 > 0 { (tenths(30), 'G') } else { (tenths(20), 'M') };
    format!("{}.{}{letter}", tenths / 10, tenths % 10)
}

/// Data nodes with different room.
fn memory(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let sizes: BTreeSet<Option<u64>> = config.nodes_of(Role::Data).map(Node::data_memory).collect();
    if sizes.len() > 1 {
        let what = "data nodes have different DataMemory: a table is full when the smallest is; \
            write it in [ndbd default]";
        add(advice, "uneven-memory", ids(config.nodes_of(Role::Data)), what.into());
    }
}

/// Layouts that say two things.
fn threads(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let given = |node: &Node, name: &str| node.settings().given(name).is_some();
    let automatic = |node: &&Node| {
        node.settings().flag("AutomaticThreadConfig") == Some(true)
            && (given(node, "ThreadConfig") || given(node, "MaxNoOfExecutionThreads"))
    };
    let both = ids(config.nodes_of(Role::Data).filter(automatic));
    if !both.is_empty() {
        let what = format!(
            "{}: AutomaticThreadConfig=1 makes ThreadConfig and MaxNoOfExecutionThreads without \
             effect; remove one or the other",
            numbers(&both)
        );
        add(advice, "threads", both, what);
    }
    let unused = |node: &&Node| {
        given(node, "NumCPUs") && !matches!(node.threads(), Threads::Automatic { .. })
    };
    let unused = ids(config.nodes_of(Role::Data).filter(unused));
    if !unused.is_empty() {
        let what = format!(
            "{}: NumCPUs has no effect beside ThreadConfig or MaxNoOfExecutionThreads",
            numbers(&unused)
        );
        add(advice, "threads", unused, what);
    }
}

/// Files that depend on where a process is started.
fn directories(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    let relative =
        |node: &&Node| node.directory().is_some_and(|directory| !directory.starts_with('/'));
    let nodes = ids(config.nodes().iter().filter(relative));
    if !nodes.is_empty() {
        let what = format!(
            "{} keep their files below the directory they are started in: give DataDir a path that \
             begins with /",
            numbers(&nodes)
        );
        add(advice, "directory", nodes, what);
    }
}

fn clients(config: &ClusterConfig, advice: &mut Vec<Advice>) {
    if !config.nodes().iter().any(|node| node.role.is_client()) {
        let what = "there is no SQL node: nobody can reach the data; add a section [mysqld]";
        add(advice, "no-clients", Vec::new(), what.into());
    }
}

#[cfg(test)]
mod tests;
