//! Tables that are altered by copying while clients write to them: nothing is lost, nothing fails
//! that could not be run again, whoever dies.

#![expect(clippy::print_stdout, reason = "whoever runs it wants to know how long writers waited")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tests::cluster::{Processes, SMALL, SQL};
use tests::{QueryError, Session, all, number};

use super::workload::Random;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(90);
const WRITERS: i64 = 4;
/// Keys, and unique values, of each writer.
const KEYS: i64 = 24;
/// Rows that nobody changes: they make a copy take its time.
const REST: i64 = 60_000;
/// The first key of those.
const REST_FROM: i64 = 1_000_000;

/// A row: its counter, its unique value, its text.
type Row = (i64, Option<i64>, String);
type Rows = BTreeMap<i64, Row>;

/// Clients that each change rows of their own, and know what must be in them.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(Rows, Duration, u64)>>,
}

impl Writers {
    fn start(cluster: &Processes, nodes: &[u16]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut random = Random::new();
        let mut start = |writer: i64| {
            let session = open(cluster, nodes[writer as usize % nodes.len()]);
            let (stop, seed) = (stop.clone(), random.below(u64::MAX));
            let mut own = Writer {
                session,
                random: Random(seed),
                base: writer * 1_000,
                rows: Rows::new(),
                longest: Duration::ZERO,
                rounds: 0,
            };
            thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    own.round();
                }
                (own.rows, own.longest, own.rounds)
            })
        };
        let threads = (0..WRITERS).map(&mut start).collect();
        Self { stop, threads }
    }

    /// Ends them; what must be in the table.
    fn end(self) -> Rows {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Rows::new();
        for thread in self.threads {
            let (rows, longest, rounds) = thread.join().expect("no statement fails");
            println!("{rounds} transactions of a writer, the longest took {longest:?}");
            assert!(rounds > 0, "a writer did nothing");
            all.extend(rows);
        }
        all
    }
}

struct Writer {
    session: Session,
    random: Random,
    base: i64,
    rows: Rows,
    longest: Duration,
    rounds: u64,
}

impl Writer {
    /// One transaction, run until it commits.
    fn round(&mut self) {
        let mut key = || self.base + self.random.below(KEYS as u64) as i64;
        let (one, other) = (key(), key());
        let kind = self.random.below(6);
        let began = Instant::now();
        loop {
            let mut rows = self.rows.clone();
            let statements = statements(&mut rows, kind, one, other, self.base + one % KEYS);
            match self.run(&statements) {
                Ok(()) => {
                    self.rows = rows;
                    break;
                }
                // Nobody knows whether it committed: what is there will tell.
                Err(QueryError::Refused(1296, _)) => {
                    thread::sleep(Duration::from_secs(2));
                    self.read_again();
                    break;
                }
                Err(QueryError::Refused(1205 | 1213 | 1297 | 1412, _)) => {}
                Err(error) => panic!("{statements:?}: {error}"),
            }
            assert!(began.elapsed() < PATIENCE, "{statements:?} does not get through");
        }
        self.longest = self.longest.max(began.elapsed());
        self.rounds += 1;
    }

    fn run(&mut self, statements: &[String]) -> Result<(), QueryError> {
        for statement in statements {
            if let Err(error) = self.session.query(statement) {
                // Nothing happens when the transaction is over.
                let _ = self.session.query("ROLLBACK");
                return Err(error);
            }
        }
        Ok(())
    }

    fn read_again(&mut self) {
        let (from, to) = (self.base, self.base + KEYS);
        let wanted = format!("id >= {from} AND id < {to}");
        let began = Instant::now();
        loop {
            match rows_where(&mut self.session, &wanted) {
                Ok(rows) => {
                    self.rows = rows;
                    return;
                }
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Makes a change of the rows, and says how it is made.
fn statements(rows: &mut Rows, kind: u64, one: i64, other: i64, unique: i64) -> Vec<String> {
    let insert = |rows: &mut Rows, id: i64| {
        let text = format!("made {id}").repeat(1 + (id % 7) as usize);
        let statement = format!("INSERT INTO d.t (id, n, txt) VALUES ({id}, 1, '{text}')");
        rows.insert(id, (1, None, text));
        statement
    };
    let Some(row) = rows.get(&one).cloned() else {
        return vec![insert(rows, one)];
    };
    match kind {
        0 => {
            rows.remove(&one);
            vec![format!("DELETE FROM d.t WHERE id = {one}")]
        }
        // A value goes from whoever has it to this row.
        1 | 2 => {
            let mut all = vec!["BEGIN".to_owned()];
            let holders = rows.iter().filter(|(_, row)| row.1 == Some(unique));
            for id in holders.map(|(id, _)| *id).collect::<Vec<_>>() {
                all.push(format!("UPDATE d.t SET u = NULL WHERE id = {id}"));
                rows.entry(id).and_modify(|row| row.1 = None);
            }
            all.push(format!("UPDATE d.t SET u = {unique} WHERE id = {one}"));
            rows.entry(one).and_modify(|row| row.1 = Some(unique));
            all.push("COMMIT".to_owned());
            all
        }
        // A row gets another key, with all that it has.
        3 if !rows.contains_key(&other) => {
            rows.remove(&one);
            rows.insert(other, row);
            vec![format!("UPDATE d.t SET id = {other} WHERE id = {one}")]
        }
        4 => {
            let text = format!("{} {}", row.0, "long ".repeat(3_000 * (one % 2) as usize));
            rows.entry(one).and_modify(|row| row.2.clone_from(&text));
            vec![format!("UPDATE d.t SET txt = '{text}' WHERE id = {one}")]
        }
        _ => {
            rows.entry(one).and_modify(|row| row.0 += 1);
            vec![format!("UPDATE d.t SET n = n + 1 WHERE id = {one}")]
        }
    }
}

fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).unwrap_or_else(|error| panic!("{error}"))
}

fn rows_where(session: &mut Session, condition: &str) -> Result<Rows, QueryError> {
    let found = session
        .query(&format!("SELECT id, CAST(n AS SIGNED), u, txt FROM d.t WHERE {condition}"))?;
    let integer = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok());
    let row = |row: Vec<Option<String>>| {
        let id = integer(&row[0]).expect("a key");
        (
            id,
            (
                integer(&row[1]).expect("a number"),
                integer(&row[2]),
                row[3].clone().expect("a text"),
            ),
        )
    };
    Ok(found.into_iter().map(row).collect())
}

/// Kernel tables that have a replica: hidden ones count.
fn tables(session: &mut Session) -> i64 {
    number(session, "SELECT COUNT(DISTINCT table_id) FROM nines.replicas")
}

/// A cluster with a table that takes a while to be copied, a session, and how many tables there
/// are.
fn prepared() -> (Processes, Session, i64) {
    let cluster = Processes::start(SMALL);
    let mut session = open(&cluster, SQL);
    all(
        &mut session,
        &[
            "SET cte_max_recursion_depth = 1000000",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, n BIGINT NOT NULL, u INT UNIQUE, \
             txt TEXT NOT NULL, g BIGINT AS (n * 2) STORED, KEY by_n (n))",
            &format!(
                "INSERT INTO d.t (id, n, u, txt) WITH RECURSIVE s (i) AS \
                 (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i + 1 < {REST}) \
                 SELECT {REST_FROM} + i, i, {REST_FROM} + i, CONCAT('text ', i) FROM s"
            ),
            // The first copy makes the tables of claims and sequences.
            "ALTER TABLE d.t FORCE",
        ],
    );
    let before = tables(&mut session);
    (cluster, session, before)
}

/// Alters until it has succeeded, in the midst of whatever happens.
fn insist(session: &mut Session, statement: &str) {
    let began = Instant::now();
    loop {
        match session.query(statement) {
            Ok(_) => return,
            Err(QueryError::Refused(1205 | 1213 | 1296 | 1297 | 1412, text)) => {
                println!("{statement}: {text}");
                assert!(began.elapsed() < PATIENCE, "{statement}: {text}");
            }
            Err(error) => panic!("{statement}: {error}"),
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Compares the table with what the writers know.
fn check(session: &mut Session, known: &Rows) {
    let found = rows_where(session, &format!("id < {REST_FROM}"));
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    for id in known.keys().chain(found.keys()) {
        assert_eq!(found.get(id), known.get(id), "row {id}");
    }
    let rest = format!("SELECT COUNT(*) FROM d.t WHERE id >= {REST_FROM} AND n = id - {REST_FROM}");
    assert_eq!(number(session, &rest), REST);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t WHERE g <> n * 2"), 0);
    // By each index there are the same rows.
    for (id, unique) in known.iter().filter_map(|(id, row)| Some((id, row.1?))) {
        let by_unique = format!("SELECT id FROM d.t FORCE INDEX (u) WHERE u = {unique}");
        assert_eq!(number(session, &by_unique), *id, "{by_unique}");
    }
    let all = known.len() as i64 + REST;
    for index in ["PRIMARY", "by_n"] {
        let count = format!("SELECT COUNT(*) FROM d.t FORCE INDEX ({index}) WHERE n >= 0");
        assert_eq!(number(session, &count), all, "by {index}");
    }
}

#[test]
fn writers_go_on_while_a_table_is_copied() {
    let (cluster, mut session, before) = prepared();
    let writers = Writers::start(&cluster, &[SQL, SQL + 1]);
    for statement in [
        "ALTER TABLE d.t LOCK=NONE PARTITION BY KEY() PARTITIONS 5",
        "ALTER TABLE d.t MODIFY n DECIMAL(30,0) NOT NULL, LOCK=NONE",
        "ALTER TABLE d.t MODIFY txt VARCHAR(16000) NOT NULL, MODIFY u BIGINT, LOCK=NONE",
        "ALTER TABLE d.t ADD CHECK (n >= 0), MODIFY txt LONGTEXT NOT NULL",
        "ALTER TABLE d.t MODIFY n BIGINT NOT NULL PARTITION BY KEY() PARTITIONS 12",
    ] {
        let began = Instant::now();
        insist(&mut session, statement);
        println!("{statement}: {:?}", began.elapsed());
    }
    // One that is killed leaves nothing, and the table as it was.
    let mut altering = open(&cluster, SQL + 1);
    let connection = number(&mut altering, "SELECT CONNECTION_ID()");
    let thread =
        thread::spawn(move || altering.query("ALTER TABLE d.t PARTITION BY KEY() PARTITIONS 3"));
    wait_for_more(&mut session, before);
    all(&mut open(&cluster, SQL + 1), &[&format!("KILL QUERY {connection}")]);
    let killed = thread.join().unwrap();
    assert!(matches!(killed, Err(QueryError::Refused(1317, _))), "{killed:?}");
    let known = writers.end();
    check(&mut session, &known);
    let partitions =
        "SELECT COUNT(*) FROM nines.partitions WHERE table_schema = 'd' AND table_name = 't'";
    assert_eq!(number(&mut session, partitions), 12);
    assert_eq!(tables(&mut session), before, "nothing is left");
}

#[test]
fn a_copy_survives_the_loss_of_a_data_node() {
    let (mut cluster, mut session, before) = prepared();
    let writers = Writers::start(&cluster, &[SQL, SQL + 1]);
    for (round, node) in cluster.data_nodes().enumerate() {
        let mut altering = open(&cluster, SQL);
        let partitions = 3 + round;
        let thread = thread::spawn(move || {
            let statement = format!("ALTER TABLE d.t PARTITION BY KEY() PARTITIONS {partitions}");
            insist(&mut altering, &statement);
        });
        wait_for_more(&mut session, before);
        cluster.kill(&[node]);
        thread.join().expect("it is altered");
        cluster.start_node(node);
        cluster.wait_until_complete(SQL);
    }
    let known = writers.end();
    check(&mut session, &known);
    assert_eq!(tables(&mut session), before, "nothing is left");
}

#[test]
fn what_a_dead_sql_node_has_left_goes_away() {
    let (mut cluster, mut session, before) = prepared();
    let writers = Writers::start(&cluster, &[SQL]);
    let mut altering = open(&cluster, SQL + 1);
    let thread = thread::spawn(move || {
        altering.query("ALTER TABLE d.t MODIFY n DECIMAL(30,0) NOT NULL").is_ok()
    });
    wait_for_more(&mut session, before);
    cluster.kill(&[SQL + 1]);
    assert!(!thread.join().unwrap(), "the node died too late");
    // The writers of the other node are who notices.
    let began = Instant::now();
    while tables(&mut session) > before {
        assert!(began.elapsed() < PATIENCE, "the journal is still there");
        thread::sleep(Duration::from_millis(500));
    }
    println!("what was left is gone after {:?}", began.elapsed());
    let kind = "SELECT COUNT(*) FROM information_schema.columns \
                WHERE table_schema = 'd' AND column_name = 'n' AND data_type = 'bigint'";
    assert_eq!(number(&mut session, kind), 1, "the table is as it was");
    all(&mut session, &["ALTER TABLE d.t MODIFY n DECIMAL(30,0) NOT NULL, LOCK=NONE"]);
    let known = writers.end();
    check(&mut session, &known);
}

/// Waits until a copy has begun.
fn wait_for_more(session: &mut Session, before: i64) {
    let began = Instant::now();
    while tables(session) < before + 2 {
        assert!(began.elapsed() < PATIENCE, "no copy begins");
        thread::sleep(Duration::from_millis(10));
    }
}
