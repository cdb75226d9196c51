//! TPC-C's transactions leave the database consistent, also when a data node is lost under them;
//! and the check of that notices what is not.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tests::cluster::{Processes, SMALL, SQL};
use tests::{Server, program, run, succeed};

/// A fiftieth of the specification's sizes.
const LOAD: [&str; 2] = ["--warehouses=2", "--divide=50"];

fn tpcc(socket: &Path, command: &str, options: &[&str]) -> Command {
    let mut driver = Command::new(program("tpcc"));
    driver.arg(command).arg("--socket").arg(socket).args(options);
    driver
}

/// The numbers of the conditions that do not hold.
fn violated(socket: &Path) -> Vec<String> {
    let output = run(tpcc(socket, "check", &[]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.success(), text.starts_with("consistent: 2 warehouses"), "{text}");
    let lines = text.lines().filter_map(|line| line.strip_prefix("condition "));
    let mut found: Vec<String> =
        lines.filter_map(|line| line.split(':').next()).map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn transactions_leave_the_database_consistent() {
    let server = Server::start(&[]);
    let socket = &server.socket;
    succeed(tpcc(socket, "load", &LOAD));
    succeed(tpcc(socket, "check", &["--new"]));
    let pid = format!("--pid={}", server.process_id());
    let options = ["--clients=8", "--seconds=4", "--warm-up=1", &pid];
    let report = succeed(tpcc(socket, "run", &options));
    assert!(report.contains("CPU time for a new-order"), "{report}");
    assert_eq!(violated(socket), [""; 0]);
    // Condition 11 holds before the first transaction only: there are deliveries now.
    let output = run(tpcc(socket, "check", &["--new"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("condition 11"), "{output:?}");

    // What is broken is noticed, one thing after the other: those before stay broken.
    let district = "d_w_id = 1 AND d_id = 7";
    // A line that was delivered when the database was new, and cost nothing.
    let line = "ol_w_id = 2 AND ol_d_id = 3 AND ol_o_id = 1 AND ol_number = 1";
    let breaks: [(String, &[&str]); 3] = [
        ("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2".into(), &["1", "8"]),
        (
            format!("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE {district}"),
            &["1", "2", "8"],
        ),
        (format!("DELETE FROM order_line WHERE {line}"), &["1", "2", "4", "6", "8"]),
    ];
    for (statement, conditions) in breaks {
        server.sql(&format!("USE tpcc; {statement}"));
        assert_eq!(violated(socket), conditions, "{statement}");
    }
}

#[test]
fn the_loss_of_a_data_node_loses_no_order() {
    let mut cluster = Processes::start(SMALL);
    let socket = cluster.socket(SQL);
    succeed(tpcc(&socket, "load", &LOAD));
    let mut driver = tpcc(&socket, "run", &["--clients=4", "--seconds=8", "--warm-up=0"]);
    let driver = driver.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let driver = driver.expect("the driver starts");
    thread::sleep(Duration::from_secs(2));
    cluster.kill(&[1]);
    thread::sleep(Duration::from_secs(2));
    cluster.start_node(1);
    let output = driver.wait_with_output().expect("it is our child");
    let report = String::from_utf8_lossy(&output.stdout);
    // It says itself when transactions were given up, or orders lost or made twice.
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    cluster.wait_until_complete(SQL);
    assert_eq!(violated(&socket), [""; 0], "{report}");
}
