//! Deadlocks seen by clients: how many commit beside those who are told to begin anew.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{QueryError, Session, all, number};

/// Clients that change the same rows.
const CLIENTS: u64 = 8;
/// So many transactions are to commit.
const COMMITS: i64 = 1_000;
/// How long they may take. Where deadlocks are found by waiting, it is too short by far.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two rows in either order: every second transaction or so meets another that has begun with the
/// other row, and one of the two must go. What counts is how many commit for each that is undone.
#[test]
fn a_storm_of_deadlocks_lets_many_commit() {
    let cluster = Processes::start(SMALL);
    let open = || cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    let mut session = open();
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, v BIGINT)",
            "INSERT INTO d.t VALUES (0, 0), (1, 0)",
        ],
    );
    let (committed, deadlocks) = (AtomicI64::new(0), AtomicI64::new(0));
    let until = Instant::now() + PATIENCE;
    let work = |mut session: Session, seed: u64| {
        let mut order = seed;
        let mut own = 0_i64;
        all(&mut session, &["SET autocommit = 0"]);
        while committed.load(Ordering::Relaxed) < COMMITS && Instant::now() < until {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let first = order >> 63;
            let add = |row: u64| format!("UPDATE d.t SET v = v + 1 WHERE id = {row}");
            let steps = [add(first), add(1 - first), "COMMIT".to_string()];
            match steps.iter().try_for_each(|step| session.query(step).map(drop)) {
                Ok(()) => {
                    own += 1;
                    committed.fetch_add(1, Ordering::Relaxed);
                }
                Err(QueryError::Refused(1213, ..)) => {
                    deadlocks.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => panic!("{error}"),
            }
        }
        all(&mut session, &["ROLLBACK"]);
        own
    };
    let (work, sessions) = (&work, (1..=CLIENTS).map(|seed| (open(), seed)));
    let own: Vec<i64> = thread::scope(|scope| {
        let clients: Vec<_> =
            sessions.map(|(session, seed)| scope.spawn(move || work(session, seed))).collect();
        clients.into_iter().map(|client| client.join().expect("no other error")).collect()
    });
    let (committed, deadlocks) = (committed.into_inner(), deadlocks.into_inner());
    let counts = format!("{committed} commits, {deadlocks} deadlocks, by client {own:?}");
    assert!(committed >= COMMITS && deadlocks > 0, "{counts}");
    assert!(committed * 5 > deadlocks, "too many undone: {counts}");
    assert!(own.iter().all(|own| *own > 0), "each client has its share: {counts}");
    assert_eq!(number(&mut session, "SELECT SUM(v) FROM d.t"), 2 * committed);
}
