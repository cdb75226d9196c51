//! Restarts of a cluster that follows a script.

use std::collections::{BTreeMap, BTreeSet};

use model::{Incarnation, NodeId};

use super::*;
use crate::role::fixture::{config, state};

/// A cluster of two data nodes (1, 2) and a management node, whose nodes return in steps.
struct Script {
    status: ClusterStatus,
    time: Duration,
    /// When the node was told to restart, and whether it will come back.
    restarted: BTreeMap<u16, Duration>,
    never_back: BTreeSet<u16>,
    /// Nodes that cannot be told.
    refuses: BTreeSet<u16>,
    said: Vec<String>,
    told: Vec<u16>,
}

impl Script {
    fn new() -> Self {
        let config = config(2, &["a", "b"], &["c"]);
        let connected =
            [1, 2, 60].into_iter().map(|id| (NodeId(id), Incarnation(u64::from(id)))).collect();
        let own = (NodeId(49), Incarnation(3));
        Self {
            status: ClusterStatus::of(&config, own, &state(&config), &connected),
            time: Duration::ZERO,
            restarted: BTreeMap::new(),
            never_back: BTreeSet::new(),
            refuses: BTreeSet::new(),
            said: Vec::new(),
            told: Vec::new(),
        }
    }

    /// What a node tells so long after it was told to restart.
    fn phase(&mut self, id: u16, since: Duration) {
        let never_back = self.never_back.contains(&id);
        let node = self.status.nodes.iter_mut().find(|node| node.node == id).unwrap();
        let (connected, status, new) = match since.as_millis() {
            1_000.. if node.port.is_none() && !never_back => (true, "connected", true),
            0..500 => (true, "leaving", false),
            500..1_000 => (false, "not connected", false),
            _ if never_back => (false, "not connected", false),
            1_000..2_000 => (true, "copying rows", true),
            _ => (true, "started", true),
        };
        if new && node.incarnation < 100 {
            node.incarnation += 100;
        }
        (node.connected, node.status) = (connected, status.to_string());
        let complete = status == "started" || status == "leaving";
        for group in &mut self.status.groups {
            if group.nodes.contains(&id) {
                group.complete.retain(|node| *node != id);
                group.complete.extend(complete.then_some(id));
                group.copies = group.complete.len();
            }
        }
    }
}

impl Remote for Script {
    fn status(&mut self) -> Result<ClusterStatus, AskError> {
        for (id, at) in self.restarted.clone() {
            self.phase(id, self.time - at);
        }
        match self.status.node(49) {
            Some(node) if !node.connected => {
                Err(AskError::Unreachable("nobody answers at c:1186".into()))
            }
            _ => Ok(self.status.clone()),
        }
    }

    fn end(&mut self, node: u16, restart: bool, _: bool) -> Result<(), AskError> {
        self.told.push(node);
        if self.refuses.contains(&node) {
            return Err(AskError::Refused(format!("SQL node {node} has not answered")));
        }
        if !restart {
            self.never_back.insert(node);
        }
        self.restarted.insert(node, self.time);
        Ok(())
    }

    fn progress(&mut self, _: u16) -> Option<String> {
        None
    }

    fn now(&mut self) -> Duration {
        self.time
    }

    fn pause(&mut self, how_long: Duration) {
        self.time += how_long;
    }

    fn say(&mut self, line: &str) {
        self.said.push(line.to_string());
    }
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn one_node_after_the_other() {
    let mut cluster = Script::new();
    roll(&mut cluster, false, LONG).unwrap();
    let why = "the driver after the others, then management, SQL nodes last";
    assert_eq!(cluster.told, [2, 1, 49, 60], "{why}");
    assert_eq!(
        cluster.said,
        [
            "restarts nodes 2, 1, 49, 60, one after the other",
            "[1/4] node 2: restarts (data)",
            "[1/4] node 2: finishes its transactions",
            "[1/4] node 2: has ended, and starts again",
            "[1/4] node 2: copying rows",
            "[1/4] node 2: is back after 3.0 s",
            "[2/4] node 1: restarts (data)",
            "[2/4] node 1: finishes its transactions",
            "[2/4] node 1: has ended, and starts again",
            "[2/4] node 1: copying rows",
            "[2/4] node 1: is back after 3.0 s",
            "[3/4] node 49: restarts (management)",
            "[3/4] node 49: leaves the cluster",
            "[3/4] node 49: no management node answers",
            "[3/4] node 49: copying rows",
            "[3/4] node 49: is back after 3.0 s",
            "[4/4] node 60: restarts (sql)",
            "[4/4] node 60: lets its clients go",
            "[4/4] node 60: has ended, and starts again",
            "[4/4] node 60: is back after 4.0 s",
            "4 nodes have been restarted in 16.0 s",
        ]
    );
}

/// Its program may be older than the order.
#[test]
fn a_client_that_cannot_be_told_is_named() {
    let mut cluster = Script::new();
    cluster.refuses.insert(60);
    upgrade(&mut cluster, false, LONG).unwrap();
    assert_eq!(cluster.told, [49, 2, 1, 60], "management first");
    let last = cluster.said.len() - 3;
    assert_eq!(
        cluster.said[last..],
        [
            "[4/4] SQL node 60 has not answered",
            "3 nodes have been restarted in 12.0 s",
            "still to be restarted, where they run: node 60",
        ]
    );
    let why = restart(&mut cluster, 60, false, LONG).unwrap_err();
    assert_eq!(why, "SQL node 60 has not answered");
}

#[test]
fn a_data_node_in_no_group_is_left_out_and_named() {
    let rolled = |connected: bool| {
        let mut cluster = Script::new();
        let one = cluster.status.node(1).expect("it is there").clone();
        let status = if connected { "starting" } else { "not connected" }.to_string();
        let group = None;
        let spare = NodeStatus { node: 5, status, connected, group, primary_of: 0, ..one };
        cluster.status.nodes.push(spare);
        roll_some(&mut cluster, &[1, 2, 5, 49], &[], false, LONG).expect("it comes to its end");
        (cluster.told, cluster.said.join("\n"))
    };
    let (told, said) = rolled(true);
    assert_eq!(told, [2, 1, 49]);
    assert!(said.contains("3 nodes have been restarted"), "{said}");
    assert!(said.contains("still to be restarted, where they run: node 5"), "{said}");
    let (told, said) = rolled(false);
    assert_eq!(told, [2, 1, 49]);
    assert!(!said.contains('5'), "{said}");
}

#[test]
fn a_node_that_does_not_return_ends_it() {
    let mut cluster = Script::new();
    cluster.never_back.insert(2);
    let why = roll(&mut cluster, false, LONG).unwrap_err();
    assert_eq!(
        why,
        "node 2 is not back after 90.2 s (has ended, and starts again): see its output on host b, \
         and start it there; nothing else was restarted"
    );
    assert_eq!(cluster.told, [2]);
    // And it is not begun at all while a node is away.
    let why = roll(&mut cluster, false, LONG).unwrap_err();
    assert_eq!(why, "no rolling restart now: node 2 is not connected; start it on host b");
    assert_eq!(cluster.told, [2]);
}

#[test]
fn what_is_settled_is_waited_for() {
    let mut cluster = Script::new();
    cluster.status.settling = 1;
    let why = roll(&mut cluster, false, LONG).unwrap_err();
    assert!(why.contains("being settled"), "{why}");
    cluster.status.settling = 0;
    cluster.status.groups[0].copies = 1;
    let why = roll(&mut cluster, false, LONG).unwrap_err();
    assert!(why.contains("node group 0 has 1 of 2 copies"), "{why}");
}

#[test]
fn one_node_restarts_or_stops() {
    let mut cluster = Script::new();
    restart(&mut cluster, 1, false, LONG).unwrap();
    assert_eq!(cluster.said.last().unwrap(), "node 1: is back after 3.0 s");
    let why = restart(&mut cluster, 7, false, LONG).unwrap_err();
    assert_eq!(why, "there is no node 7 in the configuration; there are nodes 1, 2, 49, 60");
    stop(&mut cluster, Whom::Node(2), false).unwrap();
    assert_eq!(cluster.said.last().unwrap(), "node 2: has ended after 0.6 s");
    let why = restart(&mut cluster, 2, false, LONG).unwrap_err();
    assert_eq!(why, "node 2 is not connected: start it on host b");
}

#[test]
fn all_stop_the_management_node_last() {
    let mut cluster = Script::new();
    stop(&mut cluster, Whom::Everything, false).unwrap();
    assert_eq!(cluster.told, [1, 2, 49]);
    let mut cluster = Script::new();
    cluster.status.on_disk = false;
    let why = stop(&mut cluster, Whom::DataNodes, false).unwrap_err();
    assert!(why.contains("in memory only") && cluster.told.is_empty(), "{why}");
    stop(&mut cluster, Whom::DataNodes, true).unwrap();
    assert_eq!(cluster.told, [1, 2]);
}

#[test]
fn too_long_a_copy_names_the_remedy() {
    let mut cluster = Script::new();
    let patience = Duration::from_millis(1_500);
    let why = restart(&mut cluster, 2, false, patience).unwrap_err();
    assert!(why.contains("node 2 is not back after 1.6 s (copying rows)"), "{why}");
    assert!(why.contains("--timeout"), "{why}");
}
