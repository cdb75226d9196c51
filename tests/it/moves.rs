//! Tables that move between node groups while nodes of all kinds are killed: no statement fails on
//! an SQL node that lives for good, nothing that was acknowledged is lost, and what is called moved
//! is on the new nodes alone. And moves that are seen, stopped, and refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tests::cluster::{Layout, MANAGEMENT, Processes, SQL};
use tests::{QueryError, Session, all, number, refused, said, text_of};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Two node groups, of which the second comes later.
const TWO_GROUPS: Layout = Layout { data: 4, replicas: 2, management: 1, sql: 2, disk: true };
/// Tables of rows that nobody changes, which make the move take its time.
const TABLES: i64 = 4;
/// Rows of each of them.
const ROWS: i64 = 25_000;
/// Accounts of the bank, and what is in each at first.
const ACCOUNTS: i64 = 50;
const OPENING: i64 = 1_000;

/// Numbers that a seed decides.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// What a client has done.
#[derive(Default)]
pub(super) struct Done {
    /// Keys of rows that are there.
    acknowledged: Vec<i64>,
    /// Keys of rows that may be there: the SQL node was killed, or a data node.
    unknown: Vec<i64>,
}

/// Clients of both SQL nodes. Each statement is a transaction.
pub(super) struct Clients {
    stop: Arc<AtomicBool>,
    /// Of each SQL node: it is about to be killed, or is not there again yet.
    excused: [Arc<AtomicBool>; 2],
    threads: Vec<JoinHandle<Done>>,
}

impl Clients {
    /// Clients whose keys begin behind a number.
    pub(super) fn start(cluster: &Processes, behind: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let excused: [Arc<AtomicBool>; 2] = Default::default();
        let client = |client: usize| {
            let socket = cluster.socket(SQL + (client % 2) as u16);
            let (stop, excused) = (stop.clone(), excused[client % 2].clone());
            thread::spawn(move || {
                let mut done = Done::default();
                let mut session = None;
                let mut key = behind + client as i64 * 1_000_000;
                while !stop.load(Ordering::SeqCst) {
                    key += 1;
                    // Read before: what fails afterwards may have been sent to a node that is gone.
                    let may_fail = excused.load(Ordering::SeqCst);
                    let round = match session.take() {
                        None => Session::connect(&socket).map(|opened| session = Some(opened)),
                        Some(mut open) => {
                            let made = one_round(&mut open, key, &mut done);
                            made.map(|()| session = Some(open))
                        }
                    };
                    if let Err(error) = round {
                        let excused =
                            may_fail || excused.load(Ordering::SeqCst) || is_temporary(&error);
                        assert!(excused, "client {client}, key {key}: {error}");
                        thread::sleep(Duration::from_millis(20));
                    }
                }
                done
            })
        };
        let threads = (0..4).map(client).collect();
        Self { stop, excused, threads }
    }

    pub(super) fn end(self) -> Vec<Done> {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.threads.into_iter().map(JoinHandle::join);
        let done: Vec<Done> = ended.map(|done| done.expect("no statement fails")).collect();
        assert!(done.iter().all(|done| !done.acknowledged.is_empty()), "a client did nothing");
        done
    }
}

/// Whether a data node died that a transaction used: it was undone, or nobody knows (1296).
fn is_temporary(error: &QueryError) -> bool {
    matches!(error, QueryError::Refused(1205 | 1213 | 1296 | 1297, _))
}

/// Money goes from one account to another in one statement, and a row is made and read.
fn one_round(session: &mut Session, key: i64, done: &mut Done) -> Result<(), QueryError> {
    let (from, to) = (key % ACCOUNTS, (key * 7 + 1) % ACCOUNTS);
    let transfer = format!(
        "UPDATE m.bank SET balance = balance + (id = {to}) - (id = {from}) WHERE id IN \
         ({from}, {to})"
    );
    session.query(&transfer)?;
    done.unknown.push(key);
    session.query(&format!("INSERT INTO m.log VALUES ({key}, {key})"))?;
    done.unknown.pop();
    done.acknowledged.push(key);
    let found = session.number(&format!("SELECT COUNT(*) FROM m.log WHERE a = {key}"))?;
    assert_eq!(found, 1, "row {key}, which was acknowledged");
    Ok(())
}

fn open(cluster: &Processes, node: u16) -> Session {
    cluster.session(node).expect("an SQL node answers")
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}: not so");
        thread::sleep(Duration::from_millis(20));
    }
}

/// An order that succeeds once its node answers.
fn order(cluster: &Processes, words: &[&str]) {
    until(&format!("nines ctl {words:?}"), || cluster.ctl(words).status.success());
}

pub(super) fn fill(session: &mut Session) {
    all(
        session,
        &[
            "CREATE DATABASE m",
            "CREATE TABLE m.bank (id INT PRIMARY KEY, balance INT NOT NULL)",
            "CREATE TABLE m.log (a INT PRIMARY KEY, b INT, UNIQUE KEY (b))",
        ],
    );
    let accounts: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, {OPENING})")).collect();
    said(session, &format!("INSERT INTO m.bank VALUES {}", accounts.join(", ")));
    for table in 0..TABLES {
        said(session, &format!("CREATE TABLE m.t{table} (a INT PRIMARY KEY, b INT, KEY (b))"));
        for from in (0..ROWS).step_by(2_500) {
            let rows: Vec<String> =
                (from..from + 2_500).map(|key| format!("({key}, {})", key * 3)).collect();
            said(session, &format!("INSERT INTO m.t{table} VALUES {}", rows.join(", ")));
        }
    }
}

/// Every row is there that was acknowledged, and none that nobody has sent; the bank has its sum.
pub(super) fn check(session: &mut Session, phases: &[Vec<Done>]) {
    for table in 0..TABLES {
        let sums = format!("SELECT COUNT(*) + SUM(a) * 10 + SUM(b) FROM m.t{table}");
        let keys = ROWS * (ROWS - 1) / 2;
        assert_eq!(number(session, &sums), ROWS + keys * 13, "table {table}");
    }
    assert_eq!(number(session, "SELECT SUM(balance) FROM m.bank"), ACCOUNTS * OPENING);
    let rows = session.query("SELECT a FROM m.log").expect("it is served");
    let key = |row: tests::TextRow| row.into_iter().next().flatten()?.parse::<i64>().ok();
    let mut found: Vec<i64> = rows.into_iter().filter_map(key).collect();
    found.sort_unstable();
    let all = || phases.iter().flatten();
    for key in all().flat_map(|done| &done.acknowledged) {
        assert!(found.binary_search(key).is_ok(), "row {key} is lost");
    }
    let acknowledged: usize = all().map(|done| done.acknowledged.len()).sum();
    let unknown: usize = all().map(|done| done.unknown.len()).sum();
    assert!(found.len() <= acknowledged + unknown, "rows that nobody has made");
    let entries = number(session, "SELECT COUNT(*) FROM m.log WHERE b = a");
    assert_eq!(entries as usize, found.len(), "entries of the unique index");
}

/// A node that is killed while tables move.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Data(u16),
    /// The one of these that moves tables is among them: each is killed in its turn.
    Sql(u16),
    Management,
}

/// Kills nodes one after the other while tables move, and starts each again.
fn strike(cluster: &mut Processes, clients: &Clients, draws: &mut Draws, mut victims: Vec<Victim>) {
    while !victims.is_empty() {
        let victim = victims.swap_remove(draws.below(victims.len() as u64) as usize);
        thread::sleep(Duration::from_millis(50 + draws.below(550)));
        let down = Duration::from_millis(draws.below(300));
        match victim {
            Victim::Data(node) => {
                let others: Vec<u16> = cluster.data_nodes().filter(|id| *id != node).collect();
                until("all others are complete", || {
                    let complete = cluster.complete(SQL).or_else(|| cluster.complete(SQL + 1));
                    complete.is_some_and(|all| others.iter().all(|id| all.contains(id)))
                });
                cluster.kill(&[node]);
                thread::sleep(down);
                cluster.launch(node);
            }
            Victim::Sql(node) => {
                let excused = &clients.excused[usize::from(node - SQL)];
                excused.store(true, Ordering::SeqCst);
                cluster.kill(&[node]);
                thread::sleep(down);
                cluster.start_node(node);
                excused.store(false, Ordering::SeqCst);
            }
            Victim::Management => {
                cluster.kill(&[MANAGEMENT]);
                thread::sleep(down);
                cluster.start_node(MANAGEMENT);
            }
        }
    }
}

/// Waits until all tables are where new ones would be.
fn wait_until_moved(cluster: &Processes) {
    until("all tables are moved", || {
        let told = cluster.ctl(&["rebalance", "status"]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        told.contains("all tables are where new ones would be")
    });
}

/// A cluster with tables, and a second node group that new tables use and none is in. `more` is
/// said of its nodes in the configuration.
fn with_empty_group(more: &str) -> Processes {
    let mut cluster = Processes::prepare(Layout { disk: false, ..TWO_GROUPS }, "");
    cluster.keep_spare(&[3, 4]);
    let file = cluster.directory().join("config.ini");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let text = text.replace("NodeGroup=65536", &format!("NodeGroup=65536\n{more}"));
    std::fs::write(&file, text).expect("the directory is writable");
    cluster.start_all();
    fill(&mut open(&cluster, SQL));
    cluster.launch(3);
    cluster.launch(4);
    order(&cluster, &["create", "nodegroup", "3,4"]);
    cluster
}

const UNDER_WAY: &str = "SELECT COUNT(*) FROM nines.moves WHERE state IN ('copying', 'blocking')";

/// Waits until a table is being copied.
fn wait_for_copy(session: &mut Session) {
    let began = Instant::now();
    while number(session, UNDER_WAY) == 0 {
        assert!(began.elapsed() < PATIENCE, "no table is being copied");
    }
}

/// How many tables are elsewhere than new ones.
fn left(session: &mut Session) -> i64 {
    number(session, "SELECT COUNT(*) FROM nines.moves")
}

#[test]
fn moves_are_seen_everywhere_and_stop_in_the_middle_of_a_copy() {
    let cluster = with_empty_group("");
    let (mut here, mut there) = (open(&cluster, SQL), open(&cluster, SQL + 1));
    let all = left(&mut here);
    assert!(all >= TABLES + 2, "{all} tables are elsewhere");
    assert_eq!(number(&mut there, "SELECT COUNT(*) FROM nines.moves WHERE state = 'waiting'"), all);

    // Whichever SQL node moves, both show it.
    order(&cluster, &["rebalance"]);
    for session in [&mut here, &mut there] {
        wait_for_copy(session);
    }
    let told = text_of(&cluster.ctl(&["rebalance", "stop"]), "nines ctl rebalance stop");
    let stopped = Instant::now();
    assert!(told.contains("no more tables are moved"), "{told}");
    while number(&mut here, UNDER_WAY) > 0 {
        assert!(stopped.elapsed() < Duration::from_secs(1), "a copy goes on after the order");
    }
    let rest = left(&mut here);
    assert!(rest > 0, "all tables were moved before the order");
    // Nobody goes on, and writers are not kept out.
    for table in 0..TABLES {
        said(&mut there, &format!("UPDATE m.t{table} SET b = b WHERE a = 7"));
    }
    assert_eq!((left(&mut there), number(&mut there, UNDER_WAY)), (rest, 0));

    // A KILL of the mover ends one move, which is made afterwards.
    order(&cluster, &["rebalance"]);
    let mover = "SELECT MAX(connection_id) FROM nines.moves WHERE state = 'copying'";
    let began = Instant::now();
    let connection = loop {
        match there.number(mover) {
            Ok(connection) => break connection,
            Err(_) => assert!(began.elapsed() < PATIENCE, "nobody is seen to move"),
        }
    };
    assert!([i64::from(SQL), i64::from(SQL + 1)].contains(&(connection % 256)), "{connection}");
    said(&mut here, &format!("KILL {connection}"));
    wait_until_moved(&cluster);
    assert_eq!(left(&mut here), 0);
    check(&mut there, &[]);
}

#[test]
fn tables_that_are_moved_by_two_at_once_are_whole() {
    let cluster = with_empty_group("");
    let alter = |table: i64, node: u16| {
        let mut session = open(&cluster, node);
        thread::spawn(move || {
            session.query(&format!("ALTER TABLE m.t{table} REORGANIZE PARTITION")).map(drop)
        })
    };
    let both = [alter(0, SQL), alter(1, SQL + 1), alter(0, SQL + 1)];
    order(&cluster, &["rebalance"]);
    for moved in both {
        match moved.join().expect("it does not panic") {
            Ok(()) => {}
            // Another one had moved it meanwhile.
            Err(QueryError::Refused(1412 | 1146, _)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    wait_until_moved(&cluster);
    check(&mut open(&cluster, SQL), &[]);
}

#[test]
fn a_table_stays_where_the_nodes_of_the_new_group_have_no_room_for_it() {
    let cluster = with_empty_group("DataMemory=1M");
    let mut session = open(&cluster, SQL);
    let all = left(&mut session);
    let why = refused(&mut session, "ALTER TABLE m.t0 REORGANIZE PARTITION");
    // The node, its limit, and what to raise.
    assert!(why.contains("1114") && why.contains("DataMemory"), "{why}");
    assert!(why.contains("n3") || why.contains("n4"), "{why}");
    assert!(why.contains("MiB used of at most"), "{why}");
    assert_eq!((left(&mut session), number(&mut session, UNDER_WAY)), (all, 0));
    said(&mut session, "UPDATE m.t0 SET b = b WHERE a = 7");
    // Who moves all of them says why one stays.
    order(&cluster, &["rebalance"]);
    let reason = "SELECT COUNT(*) FROM nines.moves WHERE table_schema = 'm' AND table_name = 't0' \
                  AND from_groups = '0' AND to_groups = '0,1' AND error LIKE '%is full%'";
    until("the reason is shown", || number(&mut session, reason) > 0);
    order(&cluster, &["rebalance", "stop"]);
    check(&mut session, &[]);
}

#[test]
fn a_group_is_drained_and_dropped_while_an_archive_runs() {
    let cluster = with_empty_group("");
    let mut session = open(&cluster, SQL);
    let place = cluster.directory().join("archive");
    said(&mut session, &format!("START ARCHIVE INTO '{}' WITH max_lag = 2", place.display()));
    let runs = |session: &mut Session| {
        let rows = session.query("SHOW ARCHIVES").expect("it is shown");
        rows[0][3].as_deref() == Some("running")
    };
    until("the archive runs", || runs(&mut session));
    let claims = "SELECT from_groups FROM nines.moves WHERE table_name = '#archive-claims'";
    order(&cluster, &["drain", "0"]);
    let rows = session.query(claims).expect("it is shown");
    assert_eq!(rows, [[Some("0,1".to_owned())]], "the claims of archives are in the group");
    wait_until_moved(&cluster);
    text_of(&cluster.ctl(&["drop", "nodegroup", "0"]), "nines ctl drop nodegroup 0");
    // It goes on, and what is written now is in it.
    said(&mut session, "INSERT INTO m.log VALUES (1, 1)");
    let epoch = number(&mut session, "SELECT @@nines_last_commit_epoch");
    until("the archive has the last change", || {
        let rows = session.query("SHOW ARCHIVES").expect("it is shown");
        let newest = rows[0][6].as_ref().and_then(|newest| newest.parse::<i64>().ok());
        runs(&mut session) && newest.is_some_and(|newest| newest >= epoch)
    });
    let rows = session.query("SHOW ARCHIVES").expect("it is shown");
    assert_eq!(rows[0][11].as_deref().unwrap_or_default(), "", "its chain is whole");
}

#[test]
fn tables_move_while_nodes_of_every_kind_are_killed() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = now.as_nanos() as u64;
    println!("seed {seed}");
    let mut draws = Draws(seed);
    let mut cluster = Processes::prepare(TWO_GROUPS, "");
    cluster.keep_spare(&[3, 4]);
    cluster.start_all();
    fill(&mut open(&cluster, SQL));
    cluster.launch(3);
    cluster.launch(4);
    order(&cluster, &["create", "nodegroup", "3,4"]);
    let mut phases = Vec::new();

    let clients = Clients::start(&cluster, 0);
    order(&cluster, &["rebalance"]);
    let source = Victim::Data(1 + draws.below(2) as u16);
    let target = Victim::Data(3 + draws.below(2) as u16);
    let mover = Victim::Sql(SQL + draws.below(2) as u16);
    strike(&mut cluster, &clients, &mut draws, vec![source, target, mover, Victim::Management]);
    wait_until_moved(&cluster);
    cluster.wait_until_complete(SQL);
    phases.push(clients.end());
    check(&mut open(&cluster, SQL + 1), &phases);

    // The nodes that the cluster was founded with are those that leave.
    let clients = Clients::start(&cluster, 500_000);
    order(&cluster, &["drain", "0"]);
    let source = Victim::Data(1 + draws.below(2) as u16);
    let target = Victim::Data(3 + draws.below(2) as u16);
    let movers = [Victim::Sql(SQL), Victim::Sql(SQL + 1)];
    strike(&mut cluster, &clients, &mut draws, [&[source, target], &movers[..]].concat());
    wait_until_moved(&cluster);
    until("nodes 3 and 4 are complete", || {
        cluster.complete(SQL).is_some_and(|all| all.contains(&3) && all.contains(&4))
    });
    let dropped = cluster.ctl(&["drop", "nodegroup", "0"]);
    text_of(&dropped, "nines ctl drop nodegroup 0");
    // All that there is has been on the other nodes since the order was accepted.
    cluster.kill(&[1, 2]);
    thread::sleep(Duration::from_millis(200));
    phases.push(clients.end());
    check(&mut open(&cluster, SQL), &phases);

    // And on their disks, where the last commits are 200 ms later: a commit that waits for the
    // disks takes all before it along.
    let waits = "SET nines_durability = disk";
    all(
        &mut open(&cluster, SQL),
        &[
            waits,
            "CREATE DATABASE z",
            "CREATE TABLE z.t (a INT PRIMARY KEY)",
            "INSERT INTO z.t VALUES (1)",
        ],
    );
    let rest: Vec<u16> = cluster.nodes().filter(|node| *node > 2).collect();
    cluster.kill(&rest);
    for node in &rest {
        cluster.launch(*node);
    }
    for node in rest {
        cluster.wait_until_ready(node);
    }
    check(&mut open(&cluster, SQL + 1), &phases);
}
