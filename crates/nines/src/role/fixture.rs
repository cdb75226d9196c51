//! Clusters made by hand, for tests.

use cluster_config::{ClusterConfig, Role};
use model::cluster::{PlacementSlot, Replica};
use model::{
    ClusterId, ClusterState, ControlIndex, Incarnation, Member, MemberStatus, NodeId, NodeRole,
};

/// Data nodes from 1 and management nodes from 49 on these hosts, an SQL node 60.
pub(crate) fn config(replicas: u8, data: &[&str], management: &[&str]) -> ClusterConfig {
    let mut text = format!("[ndbd default]\nNoOfReplicas={replicas}\n");
    for (at, host) in data.iter().enumerate() {
        text += &format!("[ndbd]\nNodeId={}\nHostName={host}\nServerPort={}\n", at + 1, 9_001 + at);
    }
    for (at, host) in management.iter().enumerate() {
        text += &format!("[mgm]\nNodeId={}\nHostName={host}\nPortNumber={}\n", at + 49, 9_101 + at);
    }
    text += "[mysqld]\nNodeId=60\n";
    let parsed = ClusterConfig::parse(text.as_bytes());
    parsed.unwrap_or_else(|problems| panic!("{problems:?}")).config
}

/// The state in which all nodes of it are members, and have all rows.
pub(crate) fn state(config: &ClusterConfig) -> ClusterState {
    let mut state = ClusterState { started: true, id: ClusterId(1), ..ClusterState::default() };
    state.index = ControlIndex(10);
    for (at, node) in config.nodes().iter().filter(|node| !node.role.is_client()).enumerate() {
        let role = match node.role {
            Role::Management => NodeRole::Management,
            _ => NodeRole::Data,
        };
        let (life, joined_at) = (Incarnation(at as u64 + 1), ControlIndex(at as u64 + 1));
        let status = MemberStatus::Active;
        let member = Member { incarnation: life, voter: life, role, workers: 2, status, joined_at };
        state.members.insert(node.id, member);
    }
    for group in config.groups() {
        state.groups.push(group.nodes.clone());
        for rotation in 0..group.nodes.len() {
            let mut nodes: Vec<NodeId> = group.nodes.clone();
            nodes.rotate_left(rotation);
            let replica = |node| Replica { node, syncing: false };
            let replicas = nodes.into_iter().map(replica).collect();
            state.slots.push(PlacementSlot { group: group.number, replicas, last: None });
        }
    }
    state
}
