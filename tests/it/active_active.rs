//! Clusters that follow each other.

use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, Processes, SMALL, SQL};
use tests::{Session, all, number};

use crate::following::{
    OTHER, PATIENCE, client, cluster_of, compare, end_of, follow_cluster, log, of_status, open,
    wait_for,
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
fn changes_from(session: &mut Session, place: &(String, u64)) -> Vec<i64> {
    let (file, position) = place;
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
    let mut before_last = Default::default();
    for round in 0..3 {
        before_last = end_of(&mut ring[0].1, "SHOW BINARY LOG STATUS");
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
    // The second one is lost: the third follows the first, from a place of before.
    let nodes: Vec<u16> = ring[1].0.nodes().collect();
    ring[1].0.kill(&nodes);
    let [(first, to_first), _, (third, to_third)] = &mut ring;
    all(to_third, &["STOP REPLICA", "SET GLOBAL replica_exec_mode = IDEMPOTENT"]);
    let (file, position) = before_last;
    let place = format!(
        ", SOURCE_AUTO_POSITION = 0, SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}, \
         IGNORE_SERVER_IDS = (2)"
    );
    follow_cluster(to_third, first, SQL, &place);
    let ignore = "CHANGE REPLICATION SOURCE TO IGNORE_SERVER_IDS = (2)";
    all(to_first, &["STOP REPLICA", ignore, "START REPLICA"]);
    write(first, SQL, 0, 61, 10);
    write(third, SQL, 2, 61, 10);
    for session in [&mut *to_first, &mut *to_third] {
        for (writer, count) in [(0, 70), (1, 60), (2, 70)] {
            let of_writer = format!("SELECT SUM(n) FROM d.t WHERE writer = {writer}");
            wait_until(session, &of_writer, sum(count));
        }
    }
    compare(|| client(first, SQL), || client(third, SQL), &["d.t"]);
    let end = end_of(to_first, "SHOW BINARY LOG STATUS");
    thread::sleep(Duration::from_secs(1));
    assert!(changes_from(to_first, &end).is_empty());
}

/// The table of rules, as NDB has it.
const RULES: &str = "CREATE TABLE mysql.ndb_replication (db VARBINARY(63), \
     table_name VARBINARY(63), server_id INT UNSIGNED, binlog_type INT UNSIGNED, \
     conflict_fn VARBINARY(128), \
     PRIMARY KEY USING HASH (db, table_name, server_id))";
/// Tables that are written to on both sides, with their functions.
const FUNCTIONS: [(&str, &str); 5] = [
    ("o", "NDB$OLD(ts)"),
    ("m", "NDB$MAX(ts)"),
    ("md", "NDB$MAX_DELETE_WIN(ts)"),
    ("mi", "NDB$MAX_INS(ts)"),
    ("mdi", "NDB$MAX_DEL_WIN_INS(ts)"),
];

/// A pair with these tables and their exceptions tables, each of which follows the other.
fn pair_with_functions() -> [(Processes, Session); 2] {
    let mut pair = [1, 2].map(|id| cluster_of(TINY, id));
    pair.iter_mut().for_each(|(_, session)| log(session));
    for (_, session) in &mut pair {
        all(session, &[RULES]);
        for (table, function) in FUNCTIONS {
            let rule = format!(
                "INSERT INTO mysql.ndb_replication VALUES ('d', '{table}', 0, 7, '{function}')"
            );
            all(session, &[&rule]);
        }
    }
    let [(a, to_a), (b, to_b)] = &mut pair;
    follow_cluster(to_b, a, SQL, ", SOURCE_AUTO_POSITION = 1");
    follow_cluster(to_a, b, SQL, ", SOURCE_AUTO_POSITION = 1");
    all(to_a, &["CREATE DATABASE d"]);
    for (table, _) in FUNCTIONS {
        let create = format!(
            "CREATE TABLE d.{table} (id INT PRIMARY KEY, ts BIGINT UNSIGNED NOT NULL, \
             by_whom INT, note VARCHAR(20))"
        );
        let exceptions = format!(
            "CREATE TABLE d.{table}$EX (NDB$server_id INT UNSIGNED, NDB$source_server_id INT \
             UNSIGNED, NDB$source_epoch BIGINT UNSIGNED, NDB$count INT UNSIGNED, id INT NOT NULL, \
             NDB$OP_TYPE ENUM('WRITE_ROW','UPDATE_ROW','DELETE_ROW') NOT NULL, NDB$CFT_CAUSE \
             ENUM('ROW_DOES_NOT_EXIST','ROW_ALREADY_EXISTS','DATA_IN_CONFLICT') NOT NULL, \
             NDB$ORIG_TRANSID BIGINT UNSIGNED, ts$OLD BIGINT UNSIGNED, ts$NEW BIGINT UNSIGNED, \
             PRIMARY KEY (NDB$server_id, NDB$source_server_id, NDB$source_epoch, NDB$count))"
        );
        all(to_a, &[&create, &exceptions]);
    }
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'd'";
    wait_until(to_b, tables, 10);
    pair
}

/// Waits until each has all that the other has logged.
fn settle(pair: &mut [(Processes, Session); 2]) {
    for _ in 0..2 {
        let ends = pair.each_mut().map(|(_, session)| end_of(session, "SHOW BINARY LOG STATUS"));
        let [(_, to_a), (_, to_b)] = pair;
        wait_for(to_b, &ends[0]);
        wait_for(to_a, &ends[1]);
    }
}

/// A status variable.
fn status(session: &mut Session, name: &str) -> i64 {
    let rows = session.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'")).expect("it is there");
    rows[0][1].as_ref().and_then(|value| value.parse().ok()).expect("a number")
}

/// Rows of an exceptions table: key, operation and cause.
fn exceptions(session: &mut Session, table: &str) -> Vec<String> {
    let question = format!(
        "SELECT CONCAT_WS(' ', id, NDB$OP_TYPE, NDB$CFT_CAUSE, NDB$source_server_id, \
         IFNULL(ts$OLD, '-'), IFNULL(ts$NEW, '-')) FROM d.{table}$EX ORDER BY id"
    );
    let rows = session.query(&question).expect("it may be read");
    rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

fn contents(session: &mut Session, table: &str) -> Vec<Vec<Option<String>>> {
    let question = format!("SELECT id, ts, by_whom, note FROM d.{table} ORDER BY id");
    session.query(&question).expect("it may be read")
}

/// Both clusters of a pair change the same rows, each in its way.
fn change_both_sides(pair: &mut [(Processes, Session); 2]) {
    for (table, _) in FUNCTIONS {
        let [(_, to_a), (_, to_b)] = &mut *pair;
        let update = |id: i64, ts: i64, who: i64| {
            format!("UPDATE d.{table} SET ts = {ts}, by_whom = {who} WHERE id = {id}")
        };
        let delete = |id: i64| format!("DELETE FROM d.{table} WHERE id = {id}");
        let insert = |id: i64, ts: i64, who: i64| {
            format!("INSERT INTO d.{table} VALUES ({id}, {ts}, {who}, 'new')")
        };
        // 1: both update. 2: one updates, the other deletes. 3: both delete. 4: one updates, and
        // columns differ. 6: both insert. 7: one inserts.
        let note = format!("UPDATE d.{table} SET note = 'a', ts = 12 WHERE id = 4");
        let of_a = [update(1, 21, 1), update(2, 21, 1), delete(3), note, insert(6, 31, 1)];
        let of_b = [update(1, 22, 2), delete(2), delete(3), insert(6, 32, 2), insert(7, 1, 2)];
        for (session, statements) in [(to_a, of_a), (to_b, of_b)] {
            statements.iter().for_each(|statement| all(session, &[statement]));
        }
    }
}

/// What is refused then: at A what B did, and at B what A did, with the server, and the values of
/// the column that decides before and after.
fn refused(table: &str) -> (Vec<String>, Vec<String>) {
    let gone = "ROW_DOES_NOT_EXIST";
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    let is_old = table == "o";
    let deletes_win = table.starts_with("md");
    let decides_insertions = table.ends_with('i');
    if is_old {
        at_a.push("1 UPDATE_ROW DATA_IN_CONFLICT 2 10 22".to_owned());
    }
    at_b.push("1 UPDATE_ROW DATA_IN_CONFLICT 1 10 21".to_owned());
    if !deletes_win {
        at_a.push("2 DELETE_ROW DATA_IN_CONFLICT 2 10 -".to_owned());
    }
    at_b.push(format!("2 UPDATE_ROW {gone} 1 10 21"));
    at_a.push(format!("3 DELETE_ROW {gone} 2 10 -"));
    at_b.push(format!("3 DELETE_ROW {gone} 1 10 -"));
    if !decides_insertions {
        at_a.push("6 WRITE_ROW ROW_ALREADY_EXISTS 2 - 32".to_owned());
    }
    at_b.push("6 WRITE_ROW ROW_ALREADY_EXISTS 1 - 31".to_owned());
    (at_a, at_b)
}

#[test]
fn conflict_functions_let_through_what_their_tables_say() {
    let mut pair = pair_with_functions();
    for (table, _) in FUNCTIONS {
        let rows: Vec<String> = (1..=5).map(|id| format!("({id}, 10, 0, 'both')")).collect();
        let insert = format!("INSERT INTO d.{table} VALUES {}", rows.join(","));
        all(&mut pair[0].1, &[&insert]);
    }
    settle(&mut pair);
    // While they do not hear of each other, both change the same rows.
    for (_, session) in &mut pair {
        all(session, &["STOP REPLICA"]);
    }
    change_both_sides(&mut pair);
    for (_, session) in &mut pair {
        all(session, &["START REPLICA"]);
    }
    settle(&mut pair);
    let [(_, to_a), (_, to_b)] = &mut pair;
    let mut counts = Vec::new();
    for (table, _) in FUNCTIONS {
        let (of_a, of_b) = refused(table);
        assert_eq!(exceptions(to_a, table), of_a, "{table} at A");
        assert_eq!(exceptions(to_b, table), of_b, "{table} at B");
        counts.push((table, of_a.len() as i64, of_b.len() as i64));
        let (here, there) = (contents(to_a, table), contents(to_b, table));
        if table == "mdi" {
            assert_eq!(here, there, "{table} converges");
        }
        let of = |id: i64| {
            let text = id.to_string();
            let find = |rows: &[Vec<Option<String>>]| {
                rows.iter().find(|row| row[0].as_deref() == Some(&text)).cloned()
            };
            (find(&here), find(&there))
        };
        // Where a function decides, both have the same; the others differ, and say so.
        let (here, there) = of(1);
        assert_eq!(here == there, table != "o", "{table}: {here:?}, {there:?}");
        for id in [3, 4, 5, 7] {
            let (here, there) = of(id);
            assert_eq!(here, there, "{table} {id}");
            assert_eq!(here.is_none(), id == 3, "{table} {id}");
        }
    }
    for (name, table) in [
        ("Ndb_conflict_fn_old", "o"),
        ("Ndb_conflict_fn_max", "m"),
        ("Ndb_conflict_fn_max_del_win", "md"),
        ("Ndb_conflict_fn_max_ins", "mi"),
        ("Ndb_conflict_fn_max_del_win_ins", "mdi"),
    ] {
        let (_, of_a, of_b) = counts.iter().find(|(of, ..)| *of == table).expect("it is there");
        assert_eq!((status(to_a, name), status(to_b, name)), (*of_a, *of_b), "{name}");
    }
}

#[test]
fn writers_on_both_sides_converge() {
    let mut pair = pair_with_functions();
    let [(a, _), (b, _)] = &pair;
    let write = |cluster: &Processes, who: i64| {
        let mut session = open(cluster, SQL);
        for step in 0..120_i64 {
            let (id, ts) = (step * 7 % 20, step * 2 + who + 100);
            let row = format!("({id}, {ts}, {who}, 'n{step}')");
            // Whoever writes sees to it that the column grows.
            let put = format!(
                "INSERT INTO d.mdi VALUES {row} ON DUPLICATE KEY UPDATE \
                 by_whom = IF(ts < {ts}, {who}, by_whom), note = IF(ts < {ts}, 'n{step}', note), \
                 ts = GREATEST(ts, {ts})"
            );
            all(&mut session, &[&put]);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| write(a, 0));
        scope.spawn(|| write(b, 1));
    });
    settle(&mut pair);
    let [(_, to_a), (_, to_b)] = &mut pair;
    let (here, there) = (contents(to_a, "mdi"), contents(to_b, "mdi"));
    assert_eq!(here.len(), 20);
    assert_eq!(here, there);
    // Each row is the one with the largest value of all that were written.
    for row in &here {
        assert_eq!(row[2].as_deref(), Some("1"), "{row:?}");
    }
    // What there is not is refused by its name.
    let epoch = "INSERT INTO mysql.ndb_replication VALUES ('d', 'x', 0, 7, 'NDB$EPOCH()')";
    all(to_a, &[epoch, "STOP REPLICA"]);
    let refused = to_a.execute("START REPLICA").unwrap_err().to_string();
    assert!(refused.contains("NDB$EPOCH is not there yet"), "{refused}");
    all(to_a, &["DELETE FROM mysql.ndb_replication WHERE table_name = 'x'", "START REPLICA"]);
}
