//! Replicas that are added to node groups and dropped while clients work: no statement fails,
//! nothing is lost, and each node that is said to have the rows has them.

use std::thread;
use std::time::Duration;

use super::grow::{
    CLIENTS, Clients, check, ctl, ctl_refused, fill, open, wait_until, wait_until_moved,
};
use super::moves as bank;
use tests::cluster::{Layout, MANAGEMENT, Processes, SQL};
use tests::{Session, number, said};

/// One node group of two, and a node that comes later.
const ONE_GROUP: Layout = Layout { data: 3, replicas: 2, management: 1, sql: 2, disk: true };

/// A cluster with rows whose node 3 has joined, and is in no group.
fn with_spare_node() -> Processes {
    let mut cluster = Processes::prepare(ONE_GROUP, "");
    cluster.keep_spare(&[3]);
    cluster.start_all();
    fill(&mut open(&cluster, SQL));
    cluster.launch(3);
    cluster
}

/// Makes node 3 a replica of node group 0.
fn create_replica(cluster: &Processes) {
    let order = ["create", "replica", "3", "nodegroup", "0"];
    wait_until("node 3 has joined", || cluster.ctl(&order).status.success());
}

/// Waits until exactly these nodes have all rows.
fn wait_for(cluster: &Processes, nodes: &[u16]) {
    wait_until(&format!("{nodes:?} are complete"), || {
        cluster.complete(SQL).is_some_and(|all| all == nodes)
    });
}

/// How many partitions of the tables each node is primary of, in the order of the nodes.
fn primaries(cluster: &Processes) -> Vec<usize> {
    let shown = ctl(cluster, &["show", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let nodes = shown["nodes"].as_array().expect("a list");
    let data = nodes.iter().filter(|node| node["role"] == "data");
    data.map(|node| node["primary_of"].as_u64().expect("a number") as usize).collect()
}

/// Waits until the archive has what is committed now; its chain is whole.
fn archive_goes_on(cluster: &Processes) {
    let mut session = open(cluster, SQL);
    said(&mut session, "CREATE DATABASE IF NOT EXISTS archived");
    said(&mut session, "CREATE TABLE IF NOT EXISTS archived.t (a INT PRIMARY KEY AUTO_INCREMENT)");
    said(&mut session, "INSERT INTO archived.t VALUES ()");
    let epoch = number(&mut session, "SELECT @@nines_last_commit_epoch");
    let mut shown = Vec::new();
    wait_until("the archive has the last change", || {
        // An SQL node that is asked while data nodes die may have nothing to say.
        let asked = cluster.session(SQL).and_then(|mut other| other.query("SHOW ARCHIVES"));
        shown = asked.unwrap_or_default();
        let newest = shown.first().and_then(|row| row[6].as_ref()?.parse::<i64>().ok());
        newest.is_some_and(|newest| newest >= epoch)
    });
    assert_eq!(shown[0][11].as_deref().unwrap_or_default(), "", "its chain is whole: {shown:?}");
}

#[test]
fn two_replicas_become_three_and_two_again_while_clients_write() {
    let mut cluster = with_spare_node();
    let place = cluster.directory().join("archive");
    let archive = format!("START ARCHIVE INTO '{}' WITH max_lag = 2", place.display());
    said(&mut open(&cluster, SQL), &archive);
    archive_goes_on(&cluster);
    let clients = Clients::start(&cluster, &[0; CLIENTS]);
    create_replica(&cluster);
    wait_for(&cluster, &[1, 2, 3]);
    archive_goes_on(&cluster);
    let mut rounds = clients.end();
    check(&mut open(&cluster, SQL), &rounds);
    // The third one has all rows: it serves alone.
    cluster.kill(&[1]);
    wait_for(&cluster, &[2, 3]);
    // The management node gets the vote that makes the next loss one that can be borne.
    thread::sleep(Duration::from_secs(1));
    cluster.kill(&[2]);
    wait_for(&cluster, &[3]);
    check(&mut open(&cluster, SQL + 1), &rounds);
    for node in [1, 2] {
        cluster.start_node(node);
    }
    wait_for(&cluster, &[1, 2, 3]);
    // Tables that were made for two nodes get a primary on the third one when they are moved.
    let clients = Clients::start(&cluster, &rounds);
    ctl(&cluster, &["rebalance"]);
    wait_until_moved(&cluster);
    wait_until("each node is the primary of a third", || primaries(&cluster) == [1, 1, 1]);
    archive_goes_on(&cluster);

    // The node that leaves is one that the cluster was founded with, and has rows of its own.
    let told = ctl(&cluster, &["drop", "replica", "1"]);
    assert!(told.contains("node 1 leaves node group 0"), "{told}");
    assert_eq!(cluster.wait_for_end(1), Some(0), "its process ends in good order");
    wait_for(&cluster, &[2, 3]);
    for (all, more) in rounds.iter_mut().zip(clients.end()) {
        *all += more;
    }
    check(&mut open(&cluster, SQL), &rounds);
    let groups = ctl(&cluster, &["groups"]);
    assert!(groups.contains("2, 3"), "{groups}");

    // Both disks have all of it, and the node that left is not waited for.
    let waits = "SET nines_durability = disk";
    let mut session = open(&cluster, SQL);
    said(&mut session, waits);
    said(&mut session, "UPDATE g.parent SET b = b WHERE a = 0");
    said(&mut session, "CREATE TABLE g.last (a INT PRIMARY KEY)");
    said(&mut session, "INSERT INTO g.last VALUES (1)");
    let rest = [2, 3, MANAGEMENT, SQL, SQL + 1];
    cluster.kill(&rest);
    for node in rest {
        cluster.launch(node);
    }
    for node in rest {
        cluster.wait_until_ready(node);
    }
    check(&mut open(&cluster, SQL), &rounds);
    // It comes back as a node that is in no group, and may be a replica again.
    cluster.launch(1);
    let again = ["create", "replica", "1", "nodegroup", "0"];
    wait_until("node 1 has joined", || cluster.ctl(&again).status.success());
    wait_for(&cluster, &[1, 2, 3]);
    let configured = ctl(&cluster, &["config", "set", "ndbd.NoOfReplicas=3", "3.NodeGroup=0"]);
    assert!(!configured.contains("refused"), "{configured}");
    check(&mut open(&cluster, SQL), &rounds);
}

#[test]
fn nodes_are_killed_while_a_replica_is_added_and_while_one_is_dropped() {
    let mut cluster = with_spare_node();
    bank::fill(&mut open(&cluster, SQL));
    let clients = bank::Clients::start(&cluster, 0);
    create_replica(&cluster);
    thread::sleep(Duration::from_millis(150));
    cluster.kill(&[3]);
    cluster.launch(3);
    thread::sleep(Duration::from_millis(400));
    cluster.kill(&[1]);
    cluster.launch(1);
    thread::sleep(Duration::from_millis(100));
    cluster.kill(&[MANAGEMENT]);
    cluster.start_node(MANAGEMENT);
    wait_for(&cluster, &[1, 2, 3]);
    // Who leaves is killed before it has left, and does not come back into the group.
    ctl(&cluster, &["drop", "replica", "2"]);
    cluster.kill(&[2]);
    cluster.launch(2);
    wait_for(&cluster, &[1, 3]);
    wait_until("node 2 is in no group", || {
        cluster.ctl(&["create", "replica", "2", "nodegroup", "0"]).status.success()
    });
    wait_for(&cluster, &[1, 2, 3]);
    // Who is dead is dropped at once.
    cluster.kill(&[1]);
    wait_for(&cluster, &[2, 3]);
    ctl(&cluster, &["drop", "replica", "1"]);
    let groups = ctl(&cluster, &["groups"]);
    assert!(groups.contains("3, 2") || groups.contains("2, 3"), "{groups}");
    let done = clients.end();
    bank::check(&mut open(&cluster, SQL), &[done]);
}

#[test]
fn replicas_that_cannot_be_are_refused_with_the_reason() {
    let mut cluster = Processes::prepare(Layout { disk: false, sql: 1, ..ONE_GROUP }, "");
    cluster.keep_spare(&[3]);
    cluster.start_all();
    let refused = |cluster: &Processes, order: &[&str], why: &str| {
        let told = ctl_refused(cluster, order);
        assert!(told.contains(why), "{order:?}: {told}");
    };
    refused(&cluster, &["create", "replica", "3", "nodegroup", "0"], "node 3 is not there");
    refused(&cluster, &["create", "replica", "2", "nodegroup", "0"], "node 2 is in node group 0");
    refused(&cluster, &["create", "replica", "3", "nodegroup", "7"], "there is no node group 7");
    refused(&cluster, &["drop", "replica", "3"], "node 3 is in no node group");
    cluster.kill(&[2]);
    wait_for(&cluster, &[1]);
    refused(&cluster, &["drop", "replica", "1"], "the only complete copy");
    // Nothing has changed by any of it.
    cluster.launch(2);
    wait_for(&cluster, &[1, 2]);
    let mut session: Session = open(&cluster, SQL);
    assert_eq!(number(&mut session, "SELECT 1"), 1);
}
