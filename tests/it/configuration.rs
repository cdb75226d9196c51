//! The configuration in the control log: one for all management nodes, changed by orders, kept
//! whatever ends.

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL};
use tests::{all, binary, number, run, text_of};

use super::processes::Counter;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Either management node may go.
const TWO_MANAGERS: Layout = Layout { management: 2, sql: 1, ..SMALL };

/// Gives an order to one management node.
fn order(cluster: &Processes, node: u16, words: &[&str]) -> Output {
    let mut program = Command::new(binary());
    program.arg("ctl").arg(format!("--connect=127.0.0.1:{}", cluster.port(node))).args(words);
    run(program)
}

fn ctl(cluster: &Processes, node: u16, words: &[&str]) -> String {
    text_of(&order(cluster, node, words), &format!("nines ctl {words:?}"))
}

fn refused(cluster: &Processes, words: &[&str]) -> String {
    let output = order(cluster, MANAGEMENT, words);
    assert!(!output.status.success(), "{words:?} is not refused");
    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
}

/// Waits until a management node shows a version; what it shows.
fn shows(cluster: &Processes, node: u16, version: u64) -> String {
    let (began, head) = (Instant::now(), format!("# version {version}, from the control log\n"));
    loop {
        let output = order(cluster, node, &["config", "show"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.starts_with(&head) {
            return text;
        }
        assert!(began.elapsed() < PATIENCE, "node {node} does not show version {version}: {text}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn all_management_nodes_have_one_configuration_whatever_ends() {
    let (one, other) = (MANAGEMENT, MANAGEMENT + 1);
    let mut cluster = Processes::start(TWO_MANAGERS);
    // What the file says is version 1, for both.
    let text = shows(&cluster, one, 1);
    assert!(text.contains("DataMemory=134217728\n"), "{text}");
    shows(&cluster, other, 1);
    let said = ctl(&cluster, one, &["config", "set", "ndbd.DataMemory=160M"]);
    assert!(said.contains("128M") && said.contains("rolling restart of nodes 1, 2"), "{said}");
    assert!(said.contains("version 2 is in use; nodes 1, 2 run by the old values"), "{said}");
    let text = shows(&cluster, other, 2);
    assert!(text.contains("DataMemory=167772160\n"), "{text}");
    assert!(text.contains("# node 1 runs by version 0 and has to be restarted\n"), "{text}");
    // One is killed; the other goes on, and tells the first when that is back.
    cluster.kill(&[one]);
    ctl(&cluster, other, &["config", "set", "51.QueryMemory=64M", "1.LockPagesInMainMemory=0"]);
    cluster.kill(&[other]);
    cluster.start_node(one);
    shows(&cluster, one, 3);
    cluster.start_node(other);
    let text = shows(&cluster, other, 3);
    assert!(text.contains("QueryMemory=67108864\n"), "{text}");
    // What would harm the cluster changes nothing.
    let why = refused(&cluster, &["config", "set", "ndbd.NoOfReplicas=1"]);
    assert!(why.contains("NoOfReplicas") && why.contains("nothing was changed"), "{why}");
    let why = refused(&cluster, &["config", "set", "ndbd.DataMemry=1G"]);
    assert!(why.contains("did you mean DataMemory?"), "{why}");
    let why = refused(&cluster, &["config", "set", "cluster.ClusterName=other"]);
    assert!(why.contains("--force"), "{why}");
    // The whole cluster ends and comes back: its nodes get what was ordered, not what the file
    // says.
    let nodes: Vec<u16> = cluster.nodes().collect();
    for node in nodes.iter().rev() {
        cluster.stop(*node);
    }
    cluster.start_all();
    let text = shows(&cluster, other, 3);
    assert!(!text.contains("has to be restarted"), "{text}");
    for node in cluster.data_nodes() {
        let log = cluster.log(node);
        assert!(log.contains("128 MB") && log.contains("160 MB"), "node {node}:\n{log}");
    }
    let history = ctl(&cluster, one, &["config", "history"]);
    assert!(history.contains("as ") && history.contains("QueryMemory of node 51"), "{history}");
    // A file that was changed by hand has no effect, and that is said.
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("DataMemory=128M", "DataMemory=99M")).expect("it is writable");
    assert!(!ctl(&cluster, one, &["show"]).contains("the file has no effect"));
    cluster.stop(one);
    cluster.start_node(one);
    shows(&cluster, one, 3);
    let shown = ctl(&cluster, one, &["show"]);
    assert!(shown.contains("the file has no effect"), "{shown}");
    let name = file.display().to_string();
    let diff = ctl(&cluster, one, &["config", "diff", &name]);
    assert!(diff.contains("DataMemory of nodes 1, 2") && diff.contains("99M"), "{diff}");
    shows(&cluster, one, 3);
}

#[test]
fn a_file_is_applied_under_load_by_restarts_in_turn() {
    let mut cluster = Processes::start(SMALL);
    shows(&cluster, MANAGEMENT, 1);
    let counter = Counter::start(&cluster, SQL);
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    let port = tests::free_port();
    let node = |id: u16, port: u16| {
        format!("[ndbd]\nNodeId={id}\nHostName=127.0.0.1\nServerPort={port}\nNodeGroup=65536\n")
    };
    let changed = text.replace("DataMemory=128M", "DataMemory=160M");
    let more = [changed, node(3, port), node(4, tests::free_port())].concat();
    fs::write(&file, more).expect("it can be written");
    let name = file.display().to_string();
    let said = ctl(&cluster, MANAGEMENT, &["config", "apply", &name, "--restart"]);
    assert!(said.contains("data node 3") && said.contains("5 nodes have been restarted"), "{said}");
    for node in cluster.data_nodes() {
        let log = cluster.log(node);
        assert!(log.contains("128 MB") && log.contains("160 MB"), "node {node}:\n{log}");
    }
    let again = ctl(&cluster, MANAGEMENT, &["config", "apply", &name]);
    assert!(again.contains("nothing is different"), "{again}");
    counter.check(&cluster, SQL);
    cluster.launch(3);
    cluster.launch(4);
    let began = Instant::now();
    let joined = |cluster: &Processes| {
        let shown = ctl(cluster, MANAGEMENT, &["status"]);
        shown.matches("starting").count() == 2
    };
    while !joined(&cluster) {
        assert!(began.elapsed() < PATIENCE, "{}", ctl(&cluster, MANAGEMENT, &["status"]));
        thread::sleep(Duration::from_millis(100));
    }
    ctl(&cluster, MANAGEMENT, &["create", "nodegroup", "3,4"]);
    let mut session = cluster.session(SQL + 1).expect("it serves");
    all(&mut session, &["CREATE DATABASE e", "CREATE TABLE e.t (a INT PRIMARY KEY)"]);
    let rows: Vec<String> = (0..100).map(|row| format!("({row})")).collect();
    all(&mut session, &[&format!("INSERT INTO e.t VALUES {}", rows.join(", "))]);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM e.t"), 100);
}
