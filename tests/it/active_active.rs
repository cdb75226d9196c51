//! Clusters that follow each other.

use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, Processes, SMALL, SQL};
use tests::{Session, all, number};

use crate::following::{
    OTHER, PATIENCE, client, cluster_of, compare, end_of, follow_cluster, log, of_status, open,
};

/// A cluster of few processes.
const TINY: Layout = Layout { data: 1, replicas: 1, management: 1, sql: 1, disk: true };
/// Where a session writes that goes on at another node when its own dies.
const EITHER: [u16; 2] = [SQL, OTHER];

/// Waits until a number is what it is to be; no channel may stop meanwhile.
fn wait_until(session: &mut Session, question: &str, wanted: i64) {
    let began = Instant::now();
    loop {
        let found = session.query(question).ok().and_then(|rows| rows.first()?.first()?.clone());
        if found.as_ref().and_then(|text| text.parse().ok()) == Some(wanted) {
            return;
        }
        let error = of_status(session, "Last_SQL_Error") + &of_status(session, "Last_IO_Error");
        assert!(began.elapsed() < PATIENCE, "{question}: {found:?}, not {wanted}: {error}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Inserts rows of a writer, and adds 1 to all that it has.
fn write(cluster: &Processes, node: u16, writer: i64, first: i64, count: i64) {
    let mut session = open(cluster, node);
    for id in first..first + count {
        let insert = format!("INSERT INTO d.t VALUES ({writer}, {id}, 0)");
        let update = format!("UPDATE d.t SET n = n + 1 WHERE writer = {writer} AND id <= {id}");
        all(&mut session, &["BEGIN", &insert, &update, "COMMIT"]);
    }
}

/// What a writer's rows come to that has written so many.
fn sum(count: i64) -> i64 {
    (1..=count).sum()
}

const TABLE: &str = "CREATE TABLE d.t (writer INT, id INT, n INT, PRIMARY KEY (writer, id))";

/// Changes of rows behind a place of a cluster's log: the servers that they come from.
fn changes_from(session: &mut Session, (file, position): &(String, u64)) -> Vec<i64> {
    let (name, number) = file.rsplit_once('.').expect("files have numbers");
    let number: u64 = number.parse().expect("files have numbers");
    let (last, _) = end_of(session, "SHOW BINARY LOG STATUS");
    let mut servers = Vec::new();
    for at in number.. {
        let file = format!("{name}.{at:06}");
        let from = if at == number { *position } else { 4 };
        let events = format!("SHOW BINLOG EVENTS IN '{file}' FROM {from}");
        for row in session.query(&events).expect("it may be asked") {
            let text = |at: usize| row[at].clone().unwrap_or_default();
            if text(2).ends_with("_rows") {
                servers.push(text(3).parse().expect("a number"));
            }
        }
        if file == last {
            break;
        }
    }
    servers
}

#[test]
fn two_clusters_follow_each_other_and_nothing_goes_in_circles() {
    let (mut a, mut at_a) = cluster_of(SMALL, 1);
    let (mut b, mut at_b) = cluster_of(SMALL, 2);
    log(&mut at_a);
    log(&mut at_b);
    follow_cluster(&mut at_b, &a, SQL, ", SOURCE_AUTO_POSITION = 1");
    follow_cluster(&mut at_a, &b, SQL, ", SOURCE_AUTO_POSITION = 1");
    // Definitions go round as little as rows.
    all(&mut at_a, &["CREATE DATABASE d", TABLE]);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'";
    wait_until(&mut at_b, tables, 1);
    all(&mut at_b, &["CREATE TABLE d.of_b (id INT PRIMARY KEY)", "INSERT INTO d.of_b VALUES (1)"]);
    wait_until(&mut at_a, tables, 2);
    for (round, node) in EITHER.into_iter().enumerate() {
        let first = 1 + 60 * round as i64;
        // Whoever applies is one of the two.
        let left = if node == SQL { OTHER } else { SQL };
        thread::scope(|scope| {
            let (a, b) = (&a, &b);
            scope.spawn(move || write(a, OTHER, 1, first, 30));
            scope.spawn(move || write(b, OTHER, 2, first, 30));
        });
        a.kill(&[node]);
        b.kill(&[node]);
        thread::scope(|scope| {
            let (a, b) = (&a, &b);
            scope.spawn(move || write(a, left, 1, first + 30, 30));
            scope.spawn(move || write(b, left, 2, first + 30, 30));
        });
        a.start_node(node);
        b.start_node(node);
    }
    // A data node, with the changes that it keeps.
    a.kill(&[1]);
    write(&a, OTHER, 1, 121, 20);
    write(&b, OTHER, 2, 121, 20);
    a.start_node(1);
    let (mut at_a, mut at_b) = (open(&a, OTHER), open(&b, OTHER));
    for session in [&mut at_a, &mut at_b] {
        for writer in [1, 2] {
            let of_writer = format!("SELECT SUM(n) FROM d.t WHERE writer = {writer}");
            wait_until(session, &of_writer, sum(140));
        }
        wait_until(session, "SELECT COUNT(*) FROM d.t", 280);
        assert_eq!(of_status(session, "Last_SQL_Error"), "");
    }
    compare(|| client(&a, OTHER), || client(&b, OTHER), &["d.t", "d.of_b"]);
    // The log has changes of both, with their servers; and nothing that goes round.
    let end_a = end_of(&mut at_a, "SHOW BINARY LOG STATUS");
    let end_b = end_of(&mut at_b, "SHOW BINARY LOG STATUS");
    thread::sleep(Duration::from_secs(1));
    assert!(changes_from(&mut at_a, &end_a).is_empty());
    assert!(changes_from(&mut at_b, &end_b).is_empty());
    all(&mut at_a, &["INSERT INTO d.of_b VALUES (2)"]);
    wait_until(&mut at_b, "SELECT COUNT(*) FROM d.of_b", 2);
    all(&mut at_b, &["INSERT INTO d.of_b VALUES (3)"]);
    wait_until(&mut at_a, "SELECT COUNT(*) FROM d.of_b", 3);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(changes_from(&mut at_a, &end_a), [1, 2]);
    assert_eq!(changes_from(&mut at_b, &end_b), [1, 2]);
    // What is applied from now on is not logged.
    all(&mut at_a, &["SET PERSIST log_replica_updates = OFF", "STOP REPLICA", "START REPLICA"]);
    all(&mut at_b, &["INSERT INTO d.of_b VALUES (4)", "CREATE TABLE d.more (id INT)"]);
    wait_until(&mut at_a, tables, 3);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(changes_from(&mut at_a, &end_a), [1, 2]);
}

#[test]
fn three_clusters_in_a_ring_have_each_change_once() {
    let mut ring = [1, 2, 3].map(|id| cluster_of(TINY, id));
    ring.iter_mut().for_each(|(_, session)| log(session));
    for at in 0..3 {
        let [(first, to_first), (second, to_second), (third, to_third)] = &mut ring;
        let (session, source) = match at {
            0 => (to_first, third),
            1 => (to_second, first),
            _ => (to_third, second),
        };
        follow_cluster(session, source, SQL, ", SOURCE_AUTO_POSITION = 1");
    }
    all(&mut ring[0].1, &["CREATE DATABASE d", TABLE]);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'";
    ring.iter_mut().for_each(|(_, session)| wait_until(session, tables, 1));
    for round in 0..3 {
        let clusters = [&ring[0].0, &ring[1].0, &ring[2].0];
        thread::scope(|scope| {
            for (at, cluster) in clusters.into_iter().enumerate() {
                scope.spawn(move || write(cluster, SQL, at as i64, 1 + 20 * round, 20));
            }
        });
        // Its SQL node applies the changes of another, and serves a third.
        let (cluster, session) = &mut ring[round as usize];
        cluster.kill(&[SQL]);
        cluster.start_node(SQL);
        *session = open(cluster, SQL);
    }
    for (_, session) in &mut ring {
        for writer in 0..3 {
            let of_writer = format!("SELECT SUM(n) FROM d.t WHERE writer = {writer}");
            wait_until(session, &of_writer, sum(60));
        }
        assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), 180);
    }
    let ends: Vec<_> =
        ring.iter_mut().map(|(_, session)| end_of(session, "SHOW BINARY LOG STATUS")).collect();
    thread::sleep(Duration::from_secs(1));
    for ((_, session), end) in ring.iter_mut().zip(&ends) {
        assert!(changes_from(session, end).is_empty());
        assert_eq!(of_status(session, "Last_SQL_Error"), "");
    }
}
