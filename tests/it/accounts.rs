//! Accounts, passwords and privileges in a cluster of processes: what one SQL node changes holds at
//! the other when the statement has returned, whoever dies meanwhile.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::network::Family;
use tests::{QueryError, Session, all, run, succeed, workspace};

use super::hosts::say;

/// A statement about accounts ends within this time, also when a data node has just died.
const LONGEST: Duration = Duration::from_millis(2_500);

fn as_user(cluster: &Processes, node: u16, user: &str) -> Result<Session, QueryError> {
    Session::connect_as(&cluster.socket(node), user)
}

fn code(result: Result<Vec<tests::TextRow>, QueryError>) -> Option<u16> {
    result.err().map(|error| error.code().unwrap_or_else(|| panic!("{error:?}")))
}

fn prepared() -> (Processes, Session, Session) {
    let cluster = Processes::start(SMALL);
    let mut here = cluster.session(SQL).expect("it serves");
    let there = cluster.session(SQL + 1).expect("it serves");
    all(
        &mut here,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (1)",
            "CREATE USER u@localhost",
        ],
    );
    (cluster, here, there)
}

#[test]
fn a_change_holds_at_the_other_node_when_it_has_returned() {
    let (mut cluster, mut here, mut there) = prepared();
    let mut user = as_user(&cluster, SQL + 1, "u").unwrap();
    assert_eq!(code(user.query("SELECT a FROM d.t")), Some(1142));
    for round in 0..6 {
        if round == 3 {
            cluster.kill(&[1]);
        }
        let began = Instant::now();
        all(&mut here, &["GRANT SELECT ON d.t TO u@localhost"]);
        if round == 3 {
            assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
        }
        assert_eq!(user.query("SELECT a FROM d.t").unwrap().len(), 1, "round {round}");
        all(&mut here, &["REVOKE SELECT ON d.t FROM u@localhost"]);
        assert_eq!(code(user.query("SELECT a FROM d.t")), Some(1142), "round {round}");
    }
    // The other way, with a session that has done nothing for a while.
    all(&mut there, &["GRANT SELECT ON d.* TO u@localhost"]);
    let mut idle = as_user(&cluster, SQL, "u").unwrap();
    assert_eq!(idle.query("SELECT a FROM d.t").unwrap().len(), 1);
    thread::sleep(Duration::from_millis(700));
    all(&mut there, &["REVOKE SELECT ON d.* FROM u@localhost"]);
    assert_eq!(code(idle.query("SELECT a FROM d.t")), Some(1142));
}

#[test]
fn an_sql_node_that_stood_still_allows_nothing_that_was_taken_meanwhile() {
    let (cluster, mut here, _there) = prepared();
    all(&mut here, &["GRANT SELECT ON d.t TO u@localhost"]);
    let mut user = as_user(&cluster, SQL + 1, "u").unwrap();
    assert_eq!(user.query("SELECT a FROM d.t").unwrap().len(), 1);
    cluster.signal(SQL + 1, "-STOP");
    all(&mut here, &["REVOKE SELECT ON d.t FROM u@localhost"]);
    let waiting = thread::spawn(move || code(user.query("SELECT a FROM d.t")));
    thread::sleep(Duration::from_millis(50));
    cluster.signal(SQL + 1, "-CONT");
    assert_eq!(waiting.join().unwrap(), Some(1142));
}

#[test]
fn a_dropped_user_may_do_nothing_and_accounts_survive_a_restart() {
    let (mut cluster, mut here, _there) = prepared();
    all(&mut here, &["CREATE USER v@localhost", "GRANT SELECT ON d.t TO u@localhost, v@localhost"]);
    let mut user = as_user(&cluster, SQL + 1, "u").unwrap();
    assert_eq!(user.query("SELECT a FROM d.t").unwrap().len(), 1);
    all(&mut here, &["DROP USER u@localhost"]);
    assert_eq!(code(user.query("SELECT a FROM d.t")), Some(1045));
    let refused = as_user(&cluster, SQL + 1, "u").err().and_then(|error| error.code());
    assert_eq!(refused, Some(1045), "nor log in");
    let nodes: Vec<u16> = cluster.nodes().collect();
    cluster.kill(&nodes);
    cluster.start_all();
    let mut other = as_user(&cluster, SQL, "v").unwrap();
    assert_eq!(other.query("SELECT a FROM d.t").unwrap().len(), 1);
    let refused = as_user(&cluster, SQL, "u").err().and_then(|error| error.code());
    assert_eq!(refused, Some(1045));
}

/// Runs a statement as `app` over TLS by the command-line client; what it says.
fn over_tls(cluster: &Processes, password: &str, statement: &str) -> String {
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--host=127.0.0.1", "--user=app", "--batch"]);
    client.arg("--skip-column-names").arg(format!("--port={}", cluster.port(SQL + 1)));
    client.arg(format!("--password={password}")).arg(super::tls::modes().0);
    client.arg("-e").arg(statement);
    let output = run(client);
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A driver logs in as `app`: its account, or the error. Without TLS it may not send the password,
/// so that only one that was seen before lets it in.
fn by_driver(cluster: &Processes, password: &str, tls: &str) -> String {
    let mut driver = Command::new(super::connectors::tools().join("python/bin/python"));
    driver.arg(workspace().join("tests/connectors/login.py"));
    driver.args(["mysql.connector", "127.0.0.1", &cluster.port(SQL + 1).to_string(), "app"]);
    driver.args([password, tls]);
    succeed(driver).split(" cipher").next().unwrap_or_default().to_owned()
}

#[test]
fn an_account_with_a_password_at_another_node() {
    const IN: &str = "user app@%";
    const FULL_WITHOUT_TLS: &str = "refused 2061\n";
    const DENIED: &str = "ERROR 1045 (28000): Access denied for user 'app'@'localhost' (using \
                          password: YES)";
    let (cluster, mut here, _there) = prepared();
    all(
        &mut here,
        &[
            "CREATE DATABASE e",
            "CREATE TABLE e.t (a INT PRIMARY KEY)",
            "CREATE USER app IDENTIFIED BY 'first'",
            "GRANT SELECT ON d.* TO app",
        ],
    );
    assert_eq!(by_driver(&cluster, "first", "off"), FULL_WITHOUT_TLS);
    let found = over_tls(&cluster, "first", "SHOW STATUS LIKE 'Ssl_cipher'; SHOW DATABASES");
    assert!(found.starts_with("Ssl_cipher\tTLS_"), "{found}");
    assert!(found.contains("\nd\n") && !found.contains("\ne\n"), "{found}");
    assert_eq!(by_driver(&cluster, "first", "off"), IN, "it has been seen");
    assert_eq!(by_driver(&cluster, "first", "on"), IN);
    assert!(over_tls(&cluster, "wrong", "SELECT 1").contains(DENIED));
    assert_eq!(by_driver(&cluster, "wrong", "on"), "refused 1045\n");
    assert_eq!(over_tls(&cluster, "first", "SELECT a FROM d.t"), "1\n");
    let other = over_tls(&cluster, "first", "SELECT a FROM e.t");
    assert!(other.contains("ERROR 1142 (42000)"), "{other}");
    let inside = over_tls(&cluster, "first", "USE e");
    assert!(inside.contains("ERROR 1044 (42000)"), "{inside}");
    let listed = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'e'";
    assert_eq!(over_tls(&cluster, "first", listed), "0\n");

    // Neither the old password is good nor what was seen of it.
    all(&mut here, &["ALTER USER app IDENTIFIED BY 'second'"]);
    assert_eq!(by_driver(&cluster, "first", "off"), FULL_WITHOUT_TLS);
    assert!(over_tls(&cluster, "first", "SELECT 1").contains(DENIED));
    assert_eq!(by_driver(&cluster, "second", "off"), FULL_WITHOUT_TLS);
    assert_eq!(over_tls(&cluster, "second", "SET PASSWORD = 'third'"), "");
    assert!(over_tls(&cluster, "second", "SELECT 1").contains(DENIED));
    assert_eq!(by_driver(&cluster, "third", "on"), IN);
    assert_eq!(by_driver(&cluster, "third", "off"), IN, "it has been seen");
    all(&mut here, &["DROP USER app"]);
    assert!(over_tls(&cluster, "third", "SELECT 1").contains(DENIED));
    assert_eq!(by_driver(&cluster, "third", "on"), "refused 1045\n");
}

#[test]
fn a_client_of_another_host() {
    let mut cluster = match Processes::prepare_on_hosts(SMALL, |_| Family::V4) {
        Ok(cluster) => cluster,
        Err(why) => return say(&format!("skipped: a client of another host: {why}")),
    };
    [SQL, SQL + 1].iter().for_each(|node| cluster.launch_with(*node, &["--bind=*"]));
    cluster.start_all();
    let mut here = cluster.session(SQL).unwrap();
    let (address, port) = (cluster.address(SQL + 1), cluster.port(SQL + 1));
    let network = cluster.network().expect("it was started on hosts");
    let from = |host: u8, user: &str, password: &str| {
        let mut client = network.command(host, "mysql");
        client.args(["--no-defaults", "--batch", "--skip-column-names", super::tls::modes().0]);
        client.arg(format!("--host={address}")).arg(format!("--port={port}"));
        client.arg(format!("--user={user}")).arg(format!("--password={password}"));
        client.args(["-e", "SELECT CURRENT_USER(), USER()"]);
        let output = run(client);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let root = from(1, "root", "");
    assert!(root.contains("1130"), "{root}");
    all(&mut here, &["CREATE USER app@'10.77.1.%' IDENTIFIED BY 'secret'"]);
    assert_eq!(from(1, "app", "secret"), "app@10.77.1.%\tapp@10.77.1.2\n");
    let wrong = from(1, "app", "wrong");
    assert!(wrong.contains("ERROR 1045 (28000)"), "{wrong}");
    let other = from(2, "app", "secret");
    assert!(other.contains("1130"), "{other}");
    all(&mut here, &["CREATE USER other@'10.77.0.0/16' IDENTIFIED BY 'secret'"]);
    assert_eq!(from(2, "other", "secret"), "other@10.77.0.0/16\tother@10.77.2.2\n");
    for user in ["app", "root"] {
        let refused = from(2, user, "secret");
        assert!(refused.contains("ERROR 1045 (28000)"), "{user}: {refused}");
    }
}
