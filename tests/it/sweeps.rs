//! A change of all rows of a large table in one statement that something ends in the middle: it is
//! wholly done or wholly undone, and others go on meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{QueryError, Session, all, number};

/// Rows of the table.
const ROWS: i64 = 1 << 17;

/// How far the statement is when something happens.
#[derive(Clone, Copy)]
enum When {
    /// Half of the rows are changed.
    Middle,
    /// All are changed, and the commit is under way, or even over.
    Commit,
}

/// Somebody who changes rows of another table, one at a time.
struct Beside {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Beside {
    fn start(mut session: Session) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, count) = (stop.clone(), done.clone());
        let thread = thread::spawn(move || {
            let mut id = 0;
            while !until.load(Ordering::SeqCst) {
                id = (id + 1) % 100;
                match session.query(&format!("UPDATE d.small SET n = n + 1 WHERE id = {id}")) {
                    Ok(_) => count.fetch_add(1, Ordering::SeqCst),
                    // The answer was lost with a node; whether the row was changed nobody knows.
                    Err(QueryError::Refused(1205 | 1213 | 1296 | 1297, _)) => 0,
                    Err(error) => panic!("beside: {error}"),
                };
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, done, thread }
    }

    fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("it says what is wrong");
    }
}

/// Gives all rows another value, and has something happen meanwhile; what the statement answers.
fn sweep(
    cluster: &mut Processes,
    beside: &Beside,
    value: i64,
    when: When,
    fault: impl FnOnce(&mut Processes, i64),
) -> Result<(), QueryError> {
    let mut watch = cluster.session(SQL + 1).expect("it is served");
    let mut session = cluster.session(SQL).expect("it is served");
    let connection = number(&mut session, "SELECT CONNECTION_ID()");
    let before = beside.done();
    let sweep = thread::spawn(move || {
        let update = format!("UPDATE d.big SET n = {value}, k = id + {value}");
        session.query(&update).map(|_| ())
    });
    let progress = match when {
        When::Middle => format!("operations >= {}", ROWS / 2),
        When::Commit => format!("operations >= {ROWS} AND state <> 'open'"),
    };
    let query = format!("SELECT COUNT(*) FROM nines.transactions WHERE {progress}");
    let began = Instant::now();
    while number(&mut watch, &query) == 0 && !sweep.is_finished() {
        assert!(began.elapsed() < Duration::from_secs(120), "the statement does not go on");
        thread::sleep(Duration::from_millis(1));
    }
    // A fast statement is half done before anybody else has had a turn.
    let patience = Instant::now();
    while beside.done() == before && !sweep.is_finished() {
        assert!(patience.elapsed() < Duration::from_secs(20), "others go on beside");
        thread::sleep(Duration::from_millis(1));
    }
    fault(cluster, connection);
    sweep.join().expect("it does not panic")
}

/// All rows have the one value, or all the other; which of them.
fn value_of_all(cluster: &Processes) -> i64 {
    let mut session = cluster.session(SQL + 1).expect("it is served");
    let rows = session.query("SELECT n, COUNT(*), SUM(k = id + n) FROM d.big GROUP BY n");
    let rows = rows.expect("it is served");
    let of = |at: usize| rows[0][at].as_deref().and_then(|text| text.parse::<i64>().ok());
    assert_eq!(rows.len(), 1, "rows of several statements: {rows:?}");
    assert_eq!((of(1), of(2)), (Some(ROWS), Some(ROWS)), "{rows:?}");
    of(0).expect("a number")
}

/// Checks what a statement has left that was to give all rows another value.
fn check(cluster: &Processes, old: i64, new: i64, result: &Result<(), QueryError>) -> i64 {
    let now = value_of_all(cluster);
    match result {
        Ok(()) => assert_eq!(now, new, "it was acknowledged"),
        // A connection that is lost says nothing, nor does an outcome that nobody knows.
        Err(QueryError::Lost(_) | QueryError::Refused(1296 | 1180, _)) => {
            assert!(now == old || now == new, "{now}: {result:?}");
        }
        Err(QueryError::Refused(..)) => assert_eq!(now, old, "it was refused: {result:?}"),
    }
    now
}

#[test]
fn a_change_of_a_large_table_that_is_killed_is_whole_or_none() {
    let mut cluster = Processes::start(SMALL);
    let mut session = cluster.session(SQL).unwrap();
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.small (id INT PRIMARY KEY, n INT)",
            "CREATE TABLE d.big (id INT PRIMARY KEY, n INT, k INT, word VARCHAR(50), KEY (k))",
            "SET cte_max_recursion_depth = 100000",
            "INSERT INTO d.small WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 99) SELECT i, 0 FROM n",
            "INSERT INTO d.big WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 32767) SELECT i, 0, i, REPEAT('w', 40) FROM n",
            "INSERT INTO d.big SELECT id + 32768, 0, id + 32768, word FROM d.big",
            "INSERT INTO d.big SELECT id + 65536, 0, id + 65536, word FROM d.big",
        ],
    );
    assert_eq!(value_of_all(&cluster), 0);
    let beside = Beside::start(cluster.session(SQL + 1).unwrap());
    let mut old = 0;
    // The statement is killed.
    let result = sweep(&mut cluster, &beside, 1, When::Middle, |cluster, connection| {
        let mut other = cluster.session(SQL).unwrap();
        all(&mut other, &[&format!("KILL QUERY {connection}")]);
    });
    assert!(matches!(result, Err(QueryError::Refused(1317, _))), "{result:?}");
    old = check(&cluster, old, 1, &result);
    // Its SQL node is killed, in the middle and at the end.
    for (value, when) in [(2, When::Middle), (3, When::Commit)] {
        let result = sweep(&mut cluster, &beside, value, when, |cluster, _| cluster.kill(&[SQL]));
        let is_middle = matches!(when, When::Middle);
        assert!(!is_middle || matches!(result, Err(QueryError::Lost(_))), "{result:?}");
        old = check(&cluster, old, value, &result);
        assert!(!is_middle || old < value, "nobody was there to commit it");
        cluster.start_node(SQL);
    }
    // A data node is killed, each of them in the middle and at the end.
    for (value, node, when) in
        [(4, 1, When::Middle), (5, 2, When::Commit), (6, 2, When::Middle), (7, 1, When::Commit)]
    {
        let result = sweep(&mut cluster, &beside, value, when, |cluster, _| {
            cluster.kill(&[node]);
        });
        old = check(&cluster, old, value, &result);
        cluster.start_node(node);
        cluster.wait_until_complete(SQL + 1);
        assert_eq!(value_of_all(&cluster), old, "with the node that came back");
    }
    let result = sweep(&mut cluster, &beside, 8, When::Commit, |_, _| {});
    assert_eq!(check(&cluster, old, 8, &result), 8);
    beside.end();
    let mut session = cluster.session(SQL + 1).unwrap();
    super::large::check(&mut session, "d.big");
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM nines.locks WHERE granted"), 0);
}
