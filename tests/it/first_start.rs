//! The first start of a cluster: the password that it makes for `root`, and a new one when that is
//! forgotten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tests::cluster::{Processes, SMALL, SQL};
use tests::{Server, binary, run, temporary_directory};

/// What a client is told whose password is wrong, or missing.
const DENIED: &str = "ERROR 1045 (28000)";

/// Where an SQL node keeps its keys.
fn keys(cluster: &Processes, node: u16) -> PathBuf {
    cluster.directory().join(format!("keys-{node}"))
}

fn password(cluster: &Processes, node: u16) -> Option<String> {
    let text = fs::read_to_string(keys(cluster, node).join("root-password")).ok()?;
    Some(text.trim_end().to_owned())
}

/// Starts the SQL nodes that do not run, each with a directory of its own, and the rest.
fn start(cluster: &mut Processes, more: &[&str]) {
    for node in [SQL, SQL + 1] {
        if !cluster.runs(node) {
            let directory = format!("--tls-dir={}", keys(cluster, node).display());
            let mut options = vec![directory.as_str()];
            options.extend(more);
            cluster.launch_with(node, &options);
        }
    }
    cluster.start_all();
}

/// What `root` is told by the command-line client over the socket, or over TCP on loopback.
fn says(cluster: &Processes, node: u16, password: &str, by_socket: bool, what: &str) -> String {
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
    if by_socket {
        client.arg(format!("--socket={}", cluster.socket(node).display()))
    } else {
        client.args(["--host=127.0.0.1", super::tls::modes().0]);
        client.arg(format!("--port={}", cluster.port(node)))
    };
    client.arg(format!("--password={password}")).args(["-e", what]);
    let output = run(client);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Waits until the cluster has made one password; where it is, and what it is.
fn made(cluster: &Processes, before: Option<&str>) -> (u16, String) {
    for _ in 0..1_200 {
        for node in [SQL, SQL + 1] {
            if let Some(password) = password(cluster, node)
                && before != Some(password.as_str())
            {
                return (node, password);
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("no password was made:\n{}\n{}", cluster.log(SQL), cluster.log(SQL + 1));
}

#[test]
fn a_cluster_makes_one_password_for_root() {
    let mut cluster = Processes::prepare(SMALL, "");
    cluster.sql_options.clear();
    // Both SQL nodes start at once.
    start(&mut cluster, &[]);
    let (owner, first) = made(&cluster, None);
    let mode = fs::metadata(keys(&cluster, owner).join("root-password")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let other = if owner == SQL { SQL + 1 } else { SQL };
    for (node, by_socket) in [(owner, true), (owner, false), (other, true), (other, false)] {
        assert_eq!(says(&cluster, node, &first, by_socket, "SELECT 7"), "7\n");
        // That a client is on the same host proves nothing.
        for wrong in ["", "wrong"] {
            let said = says(&cluster, node, wrong, by_socket, "SELECT 7");
            assert!(said.contains(DENIED), "{said}");
        }
    }
    assert!(password(&cluster, other).is_none(), "there is one");
    assert!(cluster.log(owner).contains("root-password: log in"), "{}", cluster.log(owner));
    let pending = fs::read_dir(keys(&cluster, other)).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("password")
    });
    assert_eq!(pending.count(), 0, "what was not needed is gone");

    // An administrator takes over, and nothing is made when everything starts again.
    let said = says(&cluster, other, &first, true, "ALTER USER root@localhost IDENTIFIED BY 'own'");
    assert_eq!(said, "");
    assert!(says(&cluster, owner, &first, true, "SELECT 7").contains(DENIED));
    fs::remove_file(keys(&cluster, owner).join("root-password")).unwrap();
    let nodes: Vec<u16> = cluster.nodes().collect();
    cluster.kill(&nodes);
    start(&mut cluster, &[]);
    assert_eq!(says(&cluster, owner, "own", true, "SELECT 7"), "7\n");
    assert_eq!(says(&cluster, other, "own", false, "SELECT 7"), "7\n");
    assert!([owner, other].iter().all(|node| password(&cluster, *node).is_none()));

    // The password is forgotten.
    cluster.stop(other);
    start(&mut cluster, &["--reset-root-password"]);
    let (node, second) = made(&cluster, None);
    assert_eq!(node, other);
    assert!(second != first);
    for node in [owner, other] {
        assert_eq!(says(&cluster, node, &second, true, "SELECT 7"), "7\n");
        assert!(says(&cluster, node, "own", true, "SELECT 7").contains(DENIED));
    }
    // A node that starts again with the same options makes no other one.
    cluster.kill(&[other]);
    start(&mut cluster, &["--reset-root-password"]);
    assert_eq!(says(&cluster, other, &second, true, "SELECT 7"), "7\n");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(password(&cluster, other), Some(second));
}

#[test]
fn one_process_that_others_can_reach_makes_a_password() {
    let directory = temporary_directory();
    let mut server = Server::start_in(&directory.join("data"), &["--bind=*"]);
    let file = directory.join("data/root-password");
    // Whoever waits for `ready` logs in next.
    let password = fs::read_to_string(&file).expect("a server that is ready has made a password");
    let says = |password: &str| {
        let mut client = server.client("mysql");
        client.args([super::tls::modes().0, "--batch", "--skip-column-names", "-e", "SELECT 7"]);
        client.arg(format!("--password={password}"));
        let output = run(client);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert_eq!(says(password.trim_end()), "7\n");
    assert!(says("").contains(DENIED));
    server.stop("-TERM");
    drop(server);
    // Nobody leaves root without one where others can reach it, unless that is said twice.
    let mut open = Command::new(binary());
    open.args(["dev", "--port=0", "--bind=*", "--initialize-insecure"]);
    open.arg(format!("--socket={}", directory.join("sock").display()));
    let output = run(open);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--allow-insecure"), "{said}");
    let _ = fs::remove_dir_all(&directory);
}
