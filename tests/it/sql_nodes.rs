//! What all SQL nodes of a cluster share: variables, the list of connections, KILL, named locks.

use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, Processes, SMALL, SQL};
use tests::{Session, all, number};

/// The other SQL node.
const OTHER: u16 = SQL + 1;

fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until a statement has this answer.
fn wait_for(session: &mut Session, statement: &str, wanted: i64) {
    let began = Instant::now();
    while number(session, statement) != wanted {
        assert!(began.elapsed() < Duration::from_secs(20), "{statement} is not {wanted}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn texts(session: &mut Session, statement: &str) -> Vec<String> {
    let rows = session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    rows.into_iter().filter_map(|row| row.into_iter().next()?).collect()
}

#[test]
fn variables_hold_on_all_sql_nodes_and_kept_ones_outlive_the_cluster() {
    let mut cluster = Processes::start(SMALL);
    let (mut here, mut there) = (open(&cluster, SQL), open(&cluster, OTHER));
    all(&mut here, &["SET GLOBAL max_execution_time = 4321", "SET PERSIST wait_timeout = 1234"]);
    assert_eq!(number(&mut here, "SELECT @@GLOBAL.wait_timeout"), 1_234);
    wait_for(&mut there, "SELECT @@GLOBAL.wait_timeout", 1_234);
    wait_for(&mut there, "SELECT @@GLOBAL.max_execution_time", 4_321);
    // A session that was open keeps its own; one that begins has the new one.
    assert_eq!(number(&mut there, "SELECT @@wait_timeout"), 28_800);
    assert_eq!(number(&mut open(&cluster, OTHER), "SELECT @@wait_timeout"), 1_234);
    // An SQL node that was away learns of it when it starts.
    cluster.kill(&[OTHER]);
    all(&mut here, &["SET GLOBAL max_execution_time = 77"]);
    cluster.start_node(OTHER);
    wait_for(&mut open(&cluster, OTHER), "SELECT @@GLOBAL.max_execution_time", 77);
    // After a restart of the whole cluster only what was persisted is there.
    let nodes: Vec<u16> = cluster.nodes().collect();
    cluster.kill(&nodes);
    cluster.start_all();
    let mut there = open(&cluster, OTHER);
    assert_eq!(number(&mut there, "SELECT @@GLOBAL.wait_timeout"), 1_234);
    assert_eq!(number(&mut there, "SELECT @@GLOBAL.max_execution_time"), 0);
    all(&mut there, &["RESET PERSIST wait_timeout"]);
    let unknown = there.execute("RESET PERSIST wait_timeout").unwrap_err();
    assert_eq!(unknown.code(), Some(3615), "{unknown}");
}

#[test]
fn connections_of_all_sql_nodes_are_listed_and_killed_from_any() {
    let cluster = Processes::start(SMALL);
    let (mut here, mut there) = (open(&cluster, SQL), open(&cluster, OTHER));
    let id = number(&mut there, "SELECT CONNECTION_ID()");
    assert_eq!(id % 256, i64::from(OTHER));
    let listed = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}");
    wait_for(&mut here, &listed, 1);
    assert!(texts(&mut here, "SHOW PROCESSLIST").contains(&id.to_string()));
    let nodes = texts(&mut here, "SELECT node_id FROM nines.sql_nodes");
    assert_eq!(nodes, [SQL.to_string(), OTHER.to_string()]);
    // KILL QUERY ends what it runs, KILL the connection.
    let sleeper = thread::spawn(move || {
        let slept = number(&mut there, "SELECT SLEEP(60)");
        (slept, there)
    });
    let sleeps = format!("{listed} AND info LIKE 'SELECT SLEEP%'");
    wait_for(&mut here, &sleeps, 1);
    all(&mut here, &[&format!("KILL QUERY {id}")]);
    let (slept, mut there) = sleeper.join().expect("SLEEP answers 1 when it is interrupted");
    assert_eq!(slept, 1);
    all(&mut here, &[&format!("KILL {id}")]);
    wait_for(&mut here, &listed, 0);
    assert!(there.query("SELECT 1").is_err());
    let error = here.execute(&format!("KILL {id}")).unwrap_err();
    assert_eq!(error.code(), Some(1094), "{error}");
    // Both data nodes pass a KILL on, and the answer to the second one may be here first.
    for _ in 0..30 {
        let mut there = open(&cluster, OTHER);
        let id = number(&mut there, "SELECT CONNECTION_ID()");
        all(&mut here, &[&format!("KILL {id}")]);
    }
    // Another account's connection is not told of, and not ended.
    all(&mut here, &["CREATE USER somebody", "GRANT PROCESS ON *.* TO somebody"]);
    let own = number(&mut here, "SELECT CONNECTION_ID()");
    let socket = cluster.socket(OTHER);
    let mut stranger = Session::connect_as(&socket, "somebody").expect("somebody may log in");
    let error = stranger.execute(&format!("KILL {own}")).unwrap_err();
    assert_eq!(error.code(), Some(1095), "{error}");
}

#[test]
fn named_locks_are_the_clusters_and_end_with_their_holder() {
    let mut cluster = Processes::start(Layout { disk: false, ..SMALL });
    let (mut here, mut there) = (open(&cluster, SQL), open(&cluster, OTHER));
    assert_eq!(number(&mut there, "SELECT GET_LOCK('migration', 0)"), 1);
    assert_eq!(number(&mut there, "SELECT GET_LOCK('Migration', 0)"), 1);
    assert_eq!(number(&mut here, "SELECT GET_LOCK('migration', 0)"), 0);
    assert_eq!(number(&mut here, "SELECT IS_FREE_LOCK('migration')"), 0);
    assert_eq!(number(&mut here, "SELECT RELEASE_LOCK('migration')"), 0);
    let holder = number(&mut there, "SELECT CONNECTION_ID()");
    assert_eq!(number(&mut here, "SELECT IS_USED_LOCK('migration')"), holder);
    // It was got twice, so the first release frees nothing.
    assert_eq!(number(&mut there, "SELECT RELEASE_LOCK('migration')"), 1);
    assert_eq!(number(&mut here, "SELECT GET_LOCK('migration', 0)"), 0);
    let waiter = thread::spawn({
        let mut waiting = open(&cluster, SQL);
        move || number(&mut waiting, "SELECT GET_LOCK('migration', 20)")
    });
    thread::sleep(Duration::from_millis(100));
    assert_eq!(number(&mut there, "SELECT RELEASE_LOCK('migration')"), 1);
    assert_eq!(waiter.join().expect("it waits for the lock"), 1);
    // The waiter's connection has ended, and its lock with it.
    wait_for(&mut here, "SELECT IS_FREE_LOCK('migration')", 1);
    assert_eq!(number(&mut here, "SELECT IFNULL(RELEASE_LOCK('migration'), -1)"), -1);
    // A data node that dies takes no lock with it, though it may have kept the holder's claim.
    assert_eq!(number(&mut there, "SELECT GET_LOCK('a', 0) + GET_LOCK('b', 0)"), 2);
    for node in [1, 2] {
        cluster.kill(&[node]);
        assert_eq!(number(&mut here, "SELECT GET_LOCK('a', 4)"), 0, "node {node} is dead");
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    // An SQL node that dies gives all of its locks up.
    cluster.kill(&[OTHER]);
    assert_eq!(number(&mut here, "SELECT GET_LOCK('a', 30)"), 1);
    assert_eq!(number(&mut here, "SELECT GET_LOCK('b', 30)"), 1);
    assert_eq!(number(&mut here, "SELECT RELEASE_ALL_LOCKS()"), 2);
}
