//! Accounts and privileges in a cluster of processes: what one SQL node changes holds at the other
//! when the statement has returned, whoever dies meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{QueryError, Session, all};

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
    let mut here = cluster.session(SQL).unwrap();
    let there = cluster.session(SQL + 1).unwrap();
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
