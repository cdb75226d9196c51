//! What a management node looks at before it restarts.

use super::*;
use crate::role::fixture::{config, state};

/// A file with this configuration.
fn file(name: &str, text: &str) -> ManagementOptions {
    let name = format!("nines-management-{}-{name}.ini", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, text).expect("a file in a temporary directory");
    ManagementOptions {
        file,
        node: None,
        keys: KeyOptions::default(),
        join: JoinOptions::default(),
    }
}

#[test]
fn a_restart_with_another_file_is_refused_if_the_node_would_not_come_back() {
    let here = "127.0.0.1";
    let running = config(2, &[here, here], &[here]);
    let state = state(&running);
    let text = "[ndbd default]\nNoOfReplicas=2\n\
         [ndbd]\nNodeId=1\nHostName=127.0.0.1\nServerPort=9001\n\
         [ndbd]\nNodeId=2\nHostName=127.0.0.1\nServerPort=9002\n\
         [mgm]\nNodeId=49\nHostName=127.0.0.1\nPortNumber=9101\n[mysqld]\nNodeId=60\n";
    let of = |name: &str, text: &str| {
        let options = file(name, text);
        let why = hinders(&options, (&running, NodeId(49)), &state, false);
        fs::remove_file(&options.file).expect("it was there");
        why
    };
    assert_eq!(of("same", text), None);
    assert_eq!(of("more", &text.replace("NoOfReplicas=2", "NoOfReplicas=2\nDataMemory=99M")), None);
    let refused = |name: &str, text: &str, why: &str| {
        let told = of(name, text).unwrap_or_else(|| panic!("{name} is taken"));
        assert!(told.contains(why), "{name}: {told}");
    };
    refused("mistyped", &text.replace("NoOfReplicas", "NoOfReplcas"), "NoOfReplcas");
    let copies = "NoOfReplicas=1, and the cluster has 2 replicas of its rows";
    refused("one copy", &text.replace("NoOfReplicas=2", "NoOfReplicas=1"), copies);
    let other = text.replace("NodeId=2", "NodeId=3");
    refused("other nodes", &other, "node group 0 is of nodes 1, 3, and its rows are on nodes 1, 2");
    refused("other id", &text.replace("NodeId=49", "NodeId=50"), "would be node 50");
    let elsewhere = text.replace("NodeId=49\nHostName=127.0.0.1", "NodeId=49\nHostName=192.0.2.1");
    refused("elsewhere", &elsewhere, "no management node of the configuration is on this host");
    let named = format!("[cluster]\nClusterName=other\n{text}");
    refused("other name", &named, "ClusterName is `other` there");
    let file = "/nonexistent/config.ini".into();
    let (keys, join) = (KeyOptions::default(), JoinOptions::default());
    let gone = ManagementOptions { file, node: None, keys, join };
    let why = hinders(&gone, (&running, NodeId(49)), &state, false).expect("there is no file");
    assert!(why.contains("cannot read"), "{why}");
}

#[test]
fn other_node_groups_and_configurations_are_warned_of() {
    let founded = config(2, &["a", "b"], &["c", "d"]);
    let state = state(&founded);
    let connected: BTreeMap<NodeId, Incarnation> =
        [1, 2, 50, 60].into_iter().map(|id| (NodeId(id), Incarnation(1))).collect();
    let own = (NodeId(49), Incarnation(3));
    let topics = |status: &ClusterStatus| -> Vec<String> {
        status.warnings.iter().map(|warning| warning.topic.clone()).collect()
    };
    let mut status = ClusterStatus::of(&founded, own, &state, &connected);
    assert!(!topics(&status).contains(&"other-groups".into()));
    status.compare(&[(50, status.configuration.clone())]);
    assert!(!topics(&status).contains(&"other-configuration".into()));
    status.compare(&[(50, "another".into())]);
    assert!(topics(&status).contains(&"other-configuration".into()));
    let single = config(1, &["a", "b"], &["c", "d"]);
    let status = ClusterStatus::of(&single, own, &state, &connected);
    assert!(topics(&status).contains(&"other-groups".into()), "{:?}", status.warnings);
}

#[test]
fn who_may_still_live_is_not_to_be_started_without_a_look() {
    let config = config(2, &["a", "b"], &["c"]);
    let state = state(&config);
    let connected = [(NodeId(1), Incarnation(1))].into_iter().collect();
    let mut status = ClusterStatus::of(&config, (NodeId(49), Incarnation(3)), &state, &connected);
    let missing = |status: &ClusterStatus| {
        let missing = status.warnings.iter().find(|warning| warning.topic == "missing");
        missing.map(|warning| warning.text.clone()).expect("node 2 is missing")
    };
    assert_eq!(missing(&status), "data node 2 is missing: start it on host b");
    status.unheard(&[NodeId(1), NodeId(2)].into());
    let text = missing(&status);
    assert!(text.contains("look on host b whether it is stopped or cut off"), "{text}");
}
