//! The host of a data node is replaced by another one, in the order of the operator's guide.

use std::fs;
use std::process::Command;

use tests::cluster::{MANAGEMENT, Processes, SMALL, SQL};
use tests::{binary, run, text_of};

use super::processes::Counter;

/// Addresses of the loopback interface are hosts here: nodes reach each other by TCP alone, where
/// the configuration says.
#[test]
fn a_host_is_replaced_under_load() {
    // One SQL node goes on while the other is restarted.
    let layout = tests::cluster::Layout { sql: 2, ..SMALL };
    let mut cluster = Processes::prepare(layout, "UseShm=0");
    let file = cluster.directory().join("config.ini");
    let write = |host: &str, disk: &str, cluster: &Processes| {
        let text = fs::read_to_string(&file).expect("it is there");
        let port = cluster.port(2);
        let begin = text.find("[ndbd]\nNodeId=2\n").expect("node 2 is configured");
        let end = begin + text[begin..].find("[ndb_mgmd]\nNodeId").expect("49 follows");
        let section = format!(
            "[ndbd]\nNodeId=2\nHostName={host}\nServerPort={port}\nDataDir={}\n",
            cluster.directory().join(disk).display()
        );
        fs::write(&file, [&text[..begin], &section, &text[end..]].concat()).expect("writable");
    };
    write("127.0.0.2", "old-disk", &cluster);
    cluster.start_all();
    let counter = Counter::start(&cluster, SQL);
    let ctl = |cluster: &Processes, order: &[&str]| {
        let mut program = Command::new(binary());
        program.arg("ctl").arg(format!("--connect=127.0.0.1:{}", cluster.port(MANAGEMENT)));
        program.args(order);
        text_of(&run(program), &format!("nines ctl {order:?}"))
    };
    // The host of node 2 is gone, with its disk. Another address takes its place in the file.
    cluster.kill(&[2]);
    fs::remove_dir_all(cluster.directory().join("old-disk")).expect("the node had a disk");
    write("127.0.0.3", "new-disk", &cluster);
    // Management nodes hand that to all others; their own links know it in their next life.
    let name = file.display().to_string();
    let said = ctl(&cluster, &["config", "apply", &name, "--force"]);
    assert!(said.contains("HostName of node 2") && said.contains("127.0.0.3"), "{said}");
    ctl(&cluster, &["restart", &MANAGEMENT.to_string()]);
    // SQL nodes connect to data nodes, and are told where in their next life.
    assert_eq!(cluster.stop(SQL + 1), Some(0));
    cluster.start_node(SQL + 1);
    // The new host joins, and is given all rows.
    cluster.start_node(2);
    assert!(cluster.log(2).contains("new-disk"), "{}", cluster.log(2));
    cluster.wait_until_complete(SQL + 1);
    let shown = ctl(&cluster, &["show"]);
    assert!(shown.contains("127.0.0.3") && !shown.contains("127.0.0.2"), "{shown}");
    // The other data nodes learn the address in their next life.
    ctl(&cluster, &["restart", "all", "--rolling"]);
    counter.check(&cluster, SQL + 1);
}
