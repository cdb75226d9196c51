//! How a cluster is, as a management node tells it.

use std::collections::{BTreeMap, BTreeSet};

use cluster_config::{ClusterConfig, NodeGroup, Role, Value};
use model::cluster::PlacementSlot;
use model::{ClusterState, Incarnation, Member, MemberStatus, NodeId, NodeRole};
use serde::{Deserialize, Serialize};

use super::survivability::Survivability;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterStatus {
    /// Its name.
    pub(crate) name: String,
    /// The management node that tells it.
    pub(crate) told_by: u16,
    /// Copies of each row.
    pub(crate) replicas: u8,
    /// Node groups are formed.
    pub(crate) started: bool,
    /// A node group has lost all its copies.
    pub(crate) stopped: bool,
    /// Rows are served now.
    #[serde(default)]
    pub(crate) serves: bool,
    /// Rows outlive a stop of all data nodes.
    #[serde(default)]
    pub(crate) on_disk: bool,
    /// All nodes are one process: that of `nines dev`.
    #[serde(default)]
    pub(crate) one_process: bool,
    /// Tells configurations apart.
    pub(crate) configuration: String,
    /// The version of the program that tells it.
    #[serde(default)]
    pub(crate) version: String,
    /// Lives that have ended and whose transactions are not settled yet.
    #[serde(default)]
    pub(crate) settling: usize,
    /// All that are configured, by id.
    pub(crate) nodes: Vec<NodeStatus>,
    /// By number.
    #[serde(default)]
    pub(crate) groups: Vec<GroupStatus>,
    /// What an operator should know, the worst first.
    #[serde(default)]
    pub(crate) warnings: Vec<Warning>,
}

/// A node group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GroupStatus {
    pub(crate) group: u16,
    /// Its nodes, as configured.
    pub(crate) nodes: Vec<u16>,
    /// Nodes with all its rows.
    pub(crate) complete: Vec<u16>,
    /// Nodes to which rows are being copied.
    pub(crate) copying: Vec<u16>,
    /// Copies of the share that has the fewest, of those that there should be.
    pub(crate) copies: usize,
    pub(crate) of: usize,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Warning {
    /// A word for programs.
    pub(crate) topic: String,
    /// The nodes that it is about.
    pub(crate) nodes: Vec<u16>,
    /// One line for people.
    pub(crate) text: String,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    pub(crate) node: u16,
    /// `data`, `management`, `sql` or `api`.
    pub(crate) role: String,
    /// Where it is configured to be.
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
    /// The management node has a link to it, or is it.
    pub(crate) connected: bool,
    /// In a word: `started`, `starting` and so on.
    pub(crate) status: String,
    /// The node group of a data node.
    pub(crate) group: Option<u16>,
    /// Shares of the rows, of all shares, for which it is the primary.
    pub(crate) primary_of: usize,
    pub(crate) shares: usize,
    /// It drives epochs.
    pub(crate) drives_epochs: bool,
    /// Its life; 0 when there is none.
    pub(crate) incarnation: u64,
    /// Worker threads of a member.
    pub(crate) workers: Option<u8>,
    /// Milliseconds that it may take to let its clients go.
    #[serde(default)]
    pub(crate) drain: u64,
}

impl ClusterStatus {
    /// Puts together what is configured, what the cluster has agreed on, and who is connected.
    pub(crate) fn of(
        config: &ClusterConfig,
        own: (NodeId, Incarnation),
        state: &ClusterState,
        connected: &BTreeMap<NodeId, Incarnation>,
    ) -> Self {
        let driver = state.driver().filter(|_| state.started);
        let groups = groups_of(config, state);
        let group_of = |id: NodeId| groups.iter().find(|group| group.nodes.contains(&id));
        let node = |node: &cluster_config::Node| {
            let id = node.id;
            let life = if id == own.0 { Some(own.1) } else { connected.get(&id).copied() };
            let member = state.members.get(&id);
            let primary = state
                .used_slots()
                .filter(|slot| slot.replicas.first().is_some_and(|r| r.node == id));
            NodeStatus {
                node: id.0,
                role: node.role.to_string(),
                host: node.host().map(str::to_string),
                port: node.port(),
                connected: life.is_some(),
                status: word(member, life.is_some(), node.role.is_client()).into(),
                group: group_of(id).map(|group| group.number),
                primary_of: primary.count(),
                shares: state.used_slots().count(),
                drives_epochs: driver == Some(id),
                incarnation: member.map(|m| m.incarnation).or(life).map_or(0, |life| life.0),
                workers: member.map(|member| member.workers),
                drain: if node.role.is_client() {
                    node.drain_notice() + node.drain_timeout()
                } else {
                    0
                },
            }
        };
        let mut heard: BTreeSet<NodeId> = connected.keys().copied().collect();
        heard.insert(own.0);
        let present = Survivability::of(config, state, &heard);
        let mut status = Self {
            serves: present.serves,
            name: config.name(),
            told_by: own.0.0,
            replicas: groups.iter().map(|group| group.nodes.len()).min().unwrap_or(0) as u8,
            started: state.started,
            stopped: state.stopped,
            on_disk: config
                .nodes_of(Role::Data)
                .all(|node| node.value("Diskless") != Some(Value::Flag(true))),
            one_process: false,
            configuration: config.fingerprint().to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            settling: state.takeovers.len(),
            nodes: config.nodes().iter().map(node).collect(),
            groups: groups.iter().map(|group| group_status(group, state)).collect(),
            warnings: Vec::new(),
        };
        let joined = state.member(own.0, own.1).is_some();
        status.warnings = status.warn(config, joined, &present.why_not);
        if let Some(why) = other_groups(config, state) {
            let text = format!("the configuration does not fit the rows there are: {why}");
            status.warnings.push(Warning { topic: "other-groups".into(), nodes: vec![], text });
        }
        status
    }

    /// Takes note of the configurations that other management nodes have, by their fingerprints.
    pub(crate) fn compare(&mut self, others: &[(u16, String)]) {
        for (node, fingerprint) in others.iter().filter(|(_, other)| *other != self.configuration) {
            let own = self.told_by;
            let text = format!(
                "management nodes {own} and {node} have different configurations ({} and \
                 {fingerprint}): a node gets that of the one it asks; give both the same file, and \
                 restart the one whose file has changed",
                self.configuration
            );
            let topic = "other-configuration".into();
            self.warnings.push(Warning { topic, nodes: vec![own, *node], text });
        }
    }

    /// The file of the management node that tells it says something that has no effect.
    pub(crate) fn file_differs(&mut self, how: Option<String>) {
        let topic = "other-file".into();
        let nodes = vec![self.told_by];
        self.warnings.extend(how.map(|text| Warning { topic, nodes, text }));
    }

    /// These nodes were lost without a sign that their processes have ended: who starts another one
    /// may find the first in its place.
    pub(crate) fn unheard(&mut self, nodes: &BTreeSet<NodeId>) {
        for warning in self.warnings.iter_mut().filter(|warning| warning.topic == "missing") {
            let unheard = |id: &&u16| nodes.contains(&NodeId(**id));
            let Some(id) = warning.nodes.iter().find(unheard) else { continue };
            let Some(node) = self.nodes.iter().find(|node| node.node == *id) else { continue };
            let host = node.host.as_deref().unwrap_or("localhost");
            warning.text = format!(
                "{} node {id} is missing: nothing is heard of it, and its process may still be \
                 there; look on host {host} whether it is stopped or cut off, before you start it",
                node.role
            );
        }
    }

    /// The cluster does not restart, because that would lose durable epochs.
    pub(crate) fn refused(&mut self, why: String) {
        let warning = Warning { topic: "would-lose".into(), nodes: Vec::new(), text: why };
        self.warnings.insert(0, warning);
    }

    /// The node with this id.
    pub(crate) fn node(&self, id: u16) -> Option<&NodeStatus> {
        self.nodes.iter().find(|node| node.node == id)
    }

    /// Shares that the node could be the primary of: those of its node group.
    pub(crate) fn shares_of_group(&self, node: &NodeStatus) -> usize {
        let peers = self.nodes.iter().filter(|other| other.group.is_some());
        let peers = peers.filter(|other| other.group == node.group);
        peers.map(|other| other.primary_of).sum()
    }

    /// What an operator should know.
    fn warn(&self, config: &ClusterConfig, joined: bool, why_not: &str) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut add = |topic: &str, nodes: Vec<u16>, text: String| {
            warnings.push(Warning { topic: topic.into(), nodes, text });
        };
        if !self.serves {
            let topic = match (self.stopped, self.started) {
                (true, _) => "stopped",
                (false, false) => "not-started",
                (false, true) => "not-serving",
            };
            add(topic, Vec::new(), format!("the cluster does not serve: {why_not}"));
        }
        if !joined {
            let text = format!(
                "management node {} is not a member of the cluster now: what it tells may be old",
                self.told_by
            );
            add("not-a-member", vec![self.told_by], text);
        }
        for group in self.groups.iter().filter(|group| self.serves && group.of > 1) {
            if let [only] = group.complete[..] {
                let number = group.group;
                let text = format!("node group {number} has one copy of its rows, on node {only}");
                add("one-copy", vec![only], text);
            }
        }
        // A data node in no group of a cluster that works has left it, or is to come yet.
        let is_missed = |node: &&NodeStatus| {
            let placed = node.role != "data" || node.group.is_some() || !self.started;
            node.port.is_some() && placed && !node.connected
        };
        for node in self.nodes.iter().filter(is_missed) {
            let host = node.host.as_deref().unwrap_or("localhost");
            let (role, id) = (&node.role, node.node);
            let text = format!("{role} node {id} is missing: start it on host {host}");
            add("missing", vec![id], text);
        }
        let open = config.nodes().iter().filter(|node| node.allow_insecure());
        let open: Vec<u16> = open.map(|node| node.id.0).collect();
        if !open.is_empty() {
            let text = format!(
                "AllowInsecure=1 on {}: without certificates their links are not encrypted, and \
                 whoever is in their network can read and change what is sent",
                list(&open)
            );
            add("insecure", open, text);
        }
        warnings
    }
}

/// In what the node groups of a configuration differ from those that the cluster has, where its
/// rows lie.
pub(crate) fn other_groups(config: &ClusterConfig, state: &ClusterState) -> Option<String> {
    let groups = state.started.then_some(&state.groups)?;
    let set = |nodes: &[NodeId]| nodes.iter().copied().collect::<BTreeSet<NodeId>>();
    let names =
        |nodes: &BTreeSet<NodeId>| list(&nodes.iter().map(|node| node.0).collect::<Vec<_>>());
    let placed = set(&groups.concat());
    // Nodes that came later have no group in the configuration, or are configured by now where they
    // are; those that have left may still be configured.
    let spare: BTreeSet<NodeId> = config.spare_node_ids().into_iter().collect();
    let mut formed = groups.iter().enumerate().filter(|(_, nodes)| !nodes.is_empty());
    let other = formed.find_map(|(number, nodes)| {
        let nodes = set(nodes);
        let named: Vec<&NodeGroup> =
            config.groups().iter().filter(|group| !set(&group.nodes).is_disjoint(&nodes)).collect();
        let configured: BTreeSet<NodeId> =
            named.iter().flat_map(|group| &group.nodes).copied().collect();
        let rest: BTreeSet<NodeId> = nodes.difference(&configured).copied().collect();
        let here: BTreeSet<NodeId> = configured.intersection(&placed).copied().collect();
        let fits = named.len() <= 1 && here.is_subset(&nodes) && rest.is_subset(&spare);
        match (fits, named.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!("rows are on {}, which it leaves out", names(&rest))),
            (false, false) => Some(format!(
                "node group {number} is of {}, and its rows are on {}",
                names(&configured),
                names(&nodes)
            )),
        }
    })?;
    let copies = groups.iter().map(Vec::len).max().unwrap_or(0);
    let wanted = config.replicas();
    if copies == usize::from(wanted) {
        return Some(other);
    }
    Some(format!(
        "NoOfReplicas={wanted}, and the cluster has {copies} replicas of its rows: {other}"
    ))
}

/// The node groups: those that the cluster has, or those that it is to be founded with.
pub(crate) fn groups_of(config: &ClusterConfig, state: &ClusterState) -> Vec<NodeGroup> {
    if !state.started {
        return config.groups().to_vec();
    }
    let numbered = (0_u16..).zip(&state.groups).filter(|(_, nodes)| !nodes.is_empty());
    numbered.map(|(number, nodes)| NodeGroup { number, nodes: nodes.clone() }).collect()
}

fn group_status(group: &NodeGroup, state: &ClusterState) -> GroupStatus {
    let slots: Vec<&PlacementSlot> =
        state.slots.iter().filter(|slot| slot.group == group.number).collect();
    let complete = |slot: &PlacementSlot| {
        slot.replicas
            .iter()
            .filter(|replica| !replica.syncing)
            .map(|replica| replica.node)
            .collect()
    };
    let copies: Vec<BTreeSet<NodeId>> = slots.iter().map(|slot| complete(slot)).collect();
    let is_complete =
        |node: &NodeId| !copies.is_empty() && copies.iter().all(|copies| copies.contains(node));
    let is_copied = |node: &NodeId| {
        let mut replicas = slots.iter().flat_map(|slot| &slot.replicas);
        replicas.any(|replica| replica.node == *node && replica.syncing)
    };
    let of = |is: &dyn Fn(&NodeId) -> bool| {
        group.nodes.iter().filter(|node| is(node)).map(|node| node.0).collect()
    };
    GroupStatus {
        group: group.number,
        nodes: of(&|_| true),
        complete: of(&is_complete),
        copying: of(&is_copied),
        copies: copies.iter().map(BTreeSet::len).min().unwrap_or(0),
        of: group.nodes.len(),
    }
}

fn word(member: Option<&Member>, connected: bool, client: bool) -> &'static str {
    let Some(member) = member else {
        return match (connected, client) {
            (true, true) => "connected",
            (true, false) => "waiting",
            (false, _) => "not connected",
        };
    };
    let management = member.role == NodeRole::Management;
    match member.status {
        MemberStatus::Leaving => "leaving",
        MemberStatus::Joining if !management => "starting",
        MemberStatus::Syncing => "copying rows",
        MemberStatus::Restoring if !management => "reading its disk",
        _ if connected => "started",
        _ => "started, not connected",
    }
}

/// Node ids for people: `node 1`, `nodes 1, 2`.
pub(crate) fn list(nodes: &[u16]) -> String {
    let ids: Vec<String> = nodes.iter().map(u16::to_string).collect();
    format!("{} {}", if ids.len() == 1 { "node" } else { "nodes" }, ids.join(", "))
}
