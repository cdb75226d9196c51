//! Texts of clusters made by hand.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClusterState, Incarnation, NodeId};

use super::*;
use crate::role::fixture::{config, state};

fn status(state: &ClusterState, connected: &[u16]) -> ClusterStatus {
    let config = config(2, &["a", "b"], &["::1"]);
    let connected: BTreeMap<NodeId, Incarnation> =
        connected.iter().map(|id| (NodeId(*id), Incarnation(u64::from(*id)))).collect();
    ClusterStatus::of(&config, (NodeId(49), Incarnation(3)), state, &connected)
}

#[test]
fn a_cluster_that_is_whole() {
    let state = state(&config(2, &["a", "b"], &["::1"]));
    let status = status(&state, &[1, 2, 60]);
    assert_eq!(
        show(&status),
        "Cluster nines is serving; 2 copies of each row; told by management node 49

Data nodes
  id  host    state    group  primary of         workers
   1  a:9001  started      0  50 % of its group        2  drives epochs
   2  b:9002  started      0  50 % of its group        2

Management nodes
  id  host        state
  49  [::1]:9101  started

SQL nodes
  id  host  state
  60  any   connected
"
    );
    let expected = [
        "group  nodes  copies  with all rows  being given rows",
        "    0  1, 2   2 of 2  1, 2           none",
    ];
    assert_eq!(groups(&status.groups).lines().collect::<Vec<&str>>(), expected);
    let nodes: Vec<&NodeStatus> = status.nodes.iter().collect();
    assert!(states(&nodes).starts_with("node 1: started (data)\nnode 2: started (data)\n"));
}

#[test]
fn warnings_name_what_is_missing() {
    let mut state = state(&config(2, &["a", "b"], &["::1"]));
    state.members.remove(&NodeId(2));
    for slot in &mut state.slots {
        slot.replicas.retain(|replica| replica.node != NodeId(2));
    }
    let status = status(&state, &[1]);
    let text = show(&status);
    let warnings = text.split("Warnings\n").nth(1).expect("there are some");
    assert_eq!(
        warnings,
        "  node group 0 has one copy of its rows, on node 1
  data node 2 is missing: start it on host b
"
    );
    assert_eq!(status.groups[0].copies, 1);
    let topics: Vec<&str> = status.warnings.iter().map(|w| w.topic.as_str()).collect();
    assert_eq!(topics, ["one-copy", "missing"]);
}

#[test]
fn what_would_be_survived() {
    let config = config(2, &["a", "b"], &["a"]);
    let state = state(&config);
    let heard: BTreeSet<NodeId> = state.members.keys().copied().collect();
    let told = Survivability::of(&config, &state, &heard);
    let expected = [
        "Votes: nodes 1, 2, 49 (49 breaks ties); 2 of 3 must outlive a loss",
        "",
        "at the loss of               the cluster  because",
        "data node 1 (host a)         goes on      node group 0 has all its rows on node 2, 2 of 3 \
         votes are left; until it is back, the loss of node 2 would stop the cluster",
        "data node 2 (host b)         goes on      node group 0 has all its rows on node 1, 2 of 3 \
         votes are left; until it is back, the loss of node 1 would stop the cluster",
        "management node 49 (host a)  goes on      2 of 3 votes are left; until it is back, the \
         loss of any of nodes 1, 2 would stop the cluster",
        "host a (nodes 1, 49)         STOPS        1 of 3 votes are left, which is no majority",
    ];
    assert_eq!(survivability(&told).lines().collect::<Vec<&str>>(), expected);
}

#[test]
fn versions_by_node() {
    let nodes = [
        NodeVersion { node: 1, role: "data".into(), version: Some("0.1.0".into()) },
        NodeVersion { node: 60, role: "sql".into(), version: None },
    ];
    let text = versions(&nodes);
    assert!(
        text.ends_with("node  role  version\n   1  data  0.1.0\n  60  sql   not told\n"),
        "{text}"
    );
}
