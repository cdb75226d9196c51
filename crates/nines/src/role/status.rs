//! How a cluster is, as a management node tells it.

use std::collections::BTreeMap;

use cluster_config::ClusterConfig;
use model::{ClusterState, Incarnation, MemberStatus, NodeId};
use serde::{Deserialize, Serialize};

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
    /// Nothing is served any more.
    pub(crate) stopped: bool,
    /// Tells configurations apart.
    pub(crate) configuration: String,
    /// All that are configured, by id.
    pub(crate) nodes: Vec<NodeStatus>,
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
}

impl ClusterStatus {
    /// Puts together what is configured, what the cluster has agreed on, and who is connected.
    pub(crate) fn of(
        config: &ClusterConfig,
        own: (NodeId, Incarnation),
        state: &ClusterState,
        connected: &BTreeMap<NodeId, Incarnation>,
    ) -> Self {
        let driver = state.driver();
        let node = |node: &cluster_config::Node| {
            let id = node.id;
            let life = if id == own.0 { Some(own.1) } else { connected.get(&id).copied() };
            let member = state.members.get(&id);
            let primary = state
                .slots
                .iter()
                .filter(|slot| slot.replicas.first().is_some_and(|r| r.node == id));
            NodeStatus {
                node: id.0,
                role: node.role.to_string(),
                host: node.host().map(str::to_string),
                port: node.port(),
                connected: life.is_some(),
                status: word(member.map(|m| m.status), life.is_some(), node.role.is_client())
                    .into(),
                group: config.group_of(id).map(|group| group.number),
                primary_of: primary.count(),
                shares: state.slots.len(),
                drives_epochs: driver == Some(id),
                incarnation: member.map(|m| m.incarnation).or(life).map_or(0, |life| life.0),
                workers: member.map(|member| member.workers),
            }
        };
        Self {
            name: config.name(),
            told_by: own.0.0,
            replicas: config.replicas(),
            started: state.started,
            stopped: state.stopped,
            configuration: config.fingerprint().to_string(),
            nodes: config.nodes().iter().map(node).collect(),
        }
    }
}

fn word(member: Option<MemberStatus>, connected: bool, client: bool) -> &'static str {
    match member {
        Some(MemberStatus::Active) if connected => "started",
        Some(MemberStatus::Active) => "started, not connected",
        Some(MemberStatus::Joining) => "starting",
        Some(MemberStatus::Syncing) => "copying rows",
        Some(MemberStatus::Restoring) => "reading its disk",
        Some(MemberStatus::Leaving) => "leaving",
        None if connected && client => "connected",
        None if connected => "waiting",
        None => "not connected",
    }
}
