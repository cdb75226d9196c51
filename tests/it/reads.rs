//! Reads do not go back: what anybody has been answered is answered to everybody who asks later,
//! through whatever SQL node and by whatever statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use tests::cluster::{Layout, Processes, SMALL, SQL};
use tests::{Session, all, number};

/// Counters that are raised all the time, each by a writer of its own.
const COUNTERS: usize = 3;
/// Reads of each reader.
const READS: usize = 1_200;

/// How a reader reads a counter.
#[derive(Clone, Copy)]
enum Kind {
    /// By key.
    Key,
    /// By a scan of the table.
    Scan,
    /// Under a lock that is given up, and then by key in the same session.
    Locked,
    /// As of a snapshot that is opened for it.
    Snapshot,
}

/// The newest value of each counter that anybody was told.
type Seen = Arc<[AtomicI64; COUNTERS]>;

fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads a counter and compares it with what others were told before.
fn check(session: &mut Session, seen: &Seen, id: usize, statement: &str) {
    let told = seen[id].load(Ordering::SeqCst);
    let found = number(session, statement);
    assert!(found >= told, "{statement}: {found} after {told} was told");
    seen[id].fetch_max(found, Ordering::SeqCst);
}

fn read(session: &mut Session, seen: &Seen, id: usize, kind: Kind) {
    let by_key = format!("SELECT v FROM d.counters WHERE id = {id}");
    match kind {
        Kind::Key => check(session, seen, id, &by_key),
        Kind::Scan => {
            check(session, seen, id, &format!("SELECT v FROM d.counters WHERE id + 0 = {id}"));
        }
        Kind::Locked => {
            all(session, &["BEGIN"]);
            check(session, seen, id, &format!("{by_key} FOR UPDATE"));
            all(session, &["COMMIT"]);
            check(session, seen, id, &by_key);
        }
        Kind::Snapshot => {
            let told = seen[id].load(Ordering::SeqCst);
            all(session, &["START TRANSACTION WITH CONSISTENT SNAPSHOT"]);
            let found = number(session, &by_key);
            all(session, &["COMMIT"]);
            assert!(found >= told, "snapshot: {found} after {told} was told");
        }
    }
}

#[test]
fn reads_through_all_sql_nodes_do_not_go_back() {
    let cluster = Processes::start(Layout { replicas: 3, data: 3, ..SMALL });
    let mut session = open(&cluster, SQL);
    all(
        &mut session,
        &["CREATE DATABASE d", "CREATE TABLE d.counters (id INT PRIMARY KEY, v BIGINT)"],
    );
    for id in 0..COUNTERS {
        all(&mut session, &[&format!("INSERT INTO d.counters VALUES ({id}, 0)")]);
    }
    let seen: Seen = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = |id: usize| {
        let (mut session, stop) = (open(&cluster, SQL + id as u16 % 2), stop.clone());
        thread::spawn(move || {
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                let raise = format!("UPDATE d.counters SET v = v + 1 WHERE id = {id}");
                // In one phase and in two.
                match count % 2 {
                    0 => all(&mut session, &[&raise]),
                    _ => all(&mut session, &["BEGIN", &raise, "COMMIT"]),
                }
                count += 1;
            }
            count
        })
    };
    let writers: Vec<_> = (0..COUNTERS).map(writer).collect();
    let reader = |at: usize, kind: Kind| {
        let (mut session, seen) = (open(&cluster, SQL + at as u16 % 2), seen.clone());
        thread::spawn(move || {
            (0..READS).for_each(|round| read(&mut session, &seen, (at + round) % COUNTERS, kind));
        })
    };
    let kinds = [Kind::Key, Kind::Key, Kind::Scan, Kind::Locked, Kind::Key, Kind::Snapshot];
    let readers: Vec<_> =
        kinds.into_iter().enumerate().map(|(at, kind)| reader(at, kind)).collect();
    let found: Vec<_> = readers.into_iter().map(thread::JoinHandle::join).collect();
    stop.store(true, Ordering::SeqCst);
    let written: Vec<i64> =
        writers.into_iter().map(|writer| writer.join().expect("no change fails")).collect();
    for reader in found {
        reader.expect("no reader fails");
    }
    for (id, written) in written.into_iter().enumerate() {
        let found = number(&mut session, &format!("SELECT v FROM d.counters WHERE id = {id}"));
        assert_eq!(found, written, "counter {id}");
    }
}
