//! Change feeds, compared with models of all changes.

mod http;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::cluster::{Processes, SMALL, SQL};
use tests::{Place, Server, Session, all, number, refused, said};

const PATIENCE: Duration = Duration::from_secs(60);
/// Tables of all types, of the tests of the binary log.
const TYPES: &str = include_str!("replication/types.sql");

/// A row of STREAM CHANGEFEED.
#[derive(Clone, Debug)]
struct Row {
    position: String,
    op: String,
    value: String,
}

impl Row {
    fn json(&self) -> Value {
        serde_json::from_str(&self.value).unwrap_or_else(|error| panic!("{error}: {}", self.value))
    }
}

fn read(row: Vec<Option<String>>) -> Row {
    let text = |at: usize| row[at].clone().unwrap_or_default();
    Row { position: text(0), op: text(1), value: text(5) }
}

/// Reads a feed until something is seen; what has come so far.
fn rows_until(
    session: &mut Session,
    statement: &str,
    mut is_last: impl FnMut(&[Row]) -> bool,
) -> Vec<Row> {
    let (mut rows, began) = (Vec::new(), Instant::now());
    let ended = session.each_row(statement, |row| {
        rows.push(read(row));
        assert!(began.elapsed() < PATIENCE, "not seen: {rows:?}");
        if is_last(&rows) { Err(io::Error::other("enough")) } else { Ok(()) }
    });
    let error = ended.expect_err("it has no end").to_string();
    assert!(error.contains("enough"), "{error}");
    rows
}

/// Changes alone.
fn changes(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| row.op != "h").cloned().collect()
}

/// Whether a mark says that the changes before it, so many, are all.
fn marked(rows: &[Row], count: usize) -> bool {
    rows.last().is_some_and(|row| row.op == "h") && changes(rows).len() >= count
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_reader_gets_the_snapshot_and_then_each_change_once() {
    let server = Server::start(&["--workers=2"]);
    let mut session = server.session().expect("root may log in");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE t (id INT PRIMARY KEY, n INT, name VARCHAR(20))",
            "INSERT INTO t VALUES (1, 1, 'one'), (2, 20, 'two')",
            "CREATE CHANGEFEED f FOR TABLE t WHERE n > 5 INTO 'sql'",
            "CREATE CHANGEFEED IF NOT EXISTS f FOR TABLE t INTO 'sql'",
            "CREATE CHANGEFEED later FOR TABLE t INTO 'sql' WITH (snapshot = 'none')",
        ],
    );
    let error = refused(&mut session, "CREATE CHANGEFEED f FOR TABLE t INTO 'sql'");
    assert!(error.contains("'f' exists already"), "{error}");
    let mut reader = server.session().expect("root may log in");
    let rows = rows_until(&mut reader, "STREAM CHANGEFEED f", |rows| marked(rows, 1));
    let snapshot = changes(&rows);
    assert_eq!(snapshot.len(), 1, "{rows:?}");
    assert_eq!(snapshot[0].json()["after"]["name"], "two");
    assert_eq!(
        (snapshot[0].op.as_str(), &snapshot[0].json()["source"]["snapshot"]),
        ("r", &"true".into())
    );
    let behind = rows.last().expect("it is there").position.clone();
    all(
        &mut session,
        &[
            "INSERT INTO t VALUES (3, 30, 'three')",
            "DO SLEEP(0.1)",
            // Into the condition, out of it, and never in it.
            "UPDATE t SET n = 10 WHERE id = 1",
            "DO SLEEP(0.1)",
            "UPDATE t SET n = 0 WHERE id = 2",
            "INSERT INTO t VALUES (4, 4, 'four')",
            "DO SLEEP(0.1)",
            "UPDATE t SET name = 'drei' WHERE id = 3",
            "DO SLEEP(0.1)",
            // Another primary key is another row.
            "UPDATE t SET id = 33 WHERE id = 3",
            "DO SLEEP(0.1)",
            "DELETE FROM t WHERE id = 1",
        ],
    );
    let from = format!("STREAM CHANGEFEED f FROM '{behind}'");
    let mut reader = server.session().expect("root may log in");
    let rows = changes(&rows_until(&mut reader, &from, |rows| marked(rows, 7)));
    let told: Vec<(String, Value, Value)> = rows
        .iter()
        .map(|row| {
            let json = row.json();
            assert_eq!(json["op"], row.op.as_str());
            assert_eq!(json["source"]["position"], row.position.as_str());
            (row.op.clone(), json["before"]["id"].clone(), json["after"]["id"].clone())
        })
        .collect();
    let (none, id) = (Value::Null, |id: i64| Value::from(id));
    let mut expected = vec![
        ("c".to_owned(), none.clone(), id(3)),
        ("c".to_owned(), none.clone(), id(1)),
        ("d".to_owned(), id(2), none.clone()),
        ("u".to_owned(), id(3), id(3)),
    ];
    assert_eq!(told[..4], expected[..]);
    expected = vec![("d".to_owned(), id(3), none.clone()), ("c".to_owned(), none.clone(), id(33))];
    assert_eq!(told[4..6], expected[..], "in the order of the keys of one epoch");
    assert_eq!(told[6], ("d".to_owned(), id(1), none));
    // Behind each position come the others, the same.
    for at in [0, 3, 4, 5] {
        let from = format!("STREAM CHANGEFEED f FROM '{}'", rows[at].position);
        let mut reader = server.session().expect("root may log in");
        let rest = changes(&rows_until(&mut reader, &from, |rows| marked(rows, 6 - at)));
        let texts = |rows: &[Row]| rows.iter().map(|row| row.value.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&rest), texts(&rows[at + 1..]));
    }
    // Without a snapshot it begins where the feed was made.
    let mut reader = server.session().expect("root may log in");
    let rows = rows_until(&mut reader, "STREAM CHANGEFEED later", |rows| marked(rows, 8));
    assert_eq!(changes(&rows)[0].json()["after"]["name"], "three");
    let error = refused(&mut session, "STREAM CHANGEFEED f FROM 'x'");
    assert!(error.contains("'x' is no position"), "{error}");
    let error = refused(&mut session, "STREAM CHANGEFEED f FROM '9000000000000000'");
    assert!(error.contains("is not reached yet"), "{error}");
    pause_and_kill(&server, &mut session);
}

/// What ends a stream from outside.
fn pause_and_kill(server: &Server, session: &mut Session) {
    let stream = |mut reader: Session| {
        let ended = thread::spawn(move || {
            let ended = reader.each_row("STREAM CHANGEFEED f", |_| Ok(()));
            ended.expect_err("it ends with an error").to_string()
        });
        thread::sleep(Duration::from_millis(500));
        ended
    };
    let mut reader = server.session().expect("root may log in");
    let id = number(&mut reader, "SELECT CONNECTION_ID()");
    let ended = stream(reader);
    said(session, &format!("KILL QUERY {id}"));
    assert!(ended.join().expect("it does not panic").contains("interrupted"));
    let ended = stream(server.session().expect("root may log in"));
    said(session, "PAUSE CHANGEFEED f");
    assert!(ended.join().expect("it does not panic").contains("'f' is paused"));
    let rows = session.query("SHOW CHANGEFEEDS").expect("it is there");
    let text = |row: usize, at: usize| rows[row][at].clone().unwrap_or_default();
    assert_eq!((text(0, 0), text(0, 1)), ("f".to_owned(), "paused".to_owned()));
    assert_eq!((text(0, 4), text(0, 5)), ("d.t".to_owned(), "(`n` > 5)".to_owned()));
    said(session, "RESUME CHANGEFEED f");
    let ended = stream(server.session().expect("root may log in"));
    said(session, "DROP CHANGEFEED f");
    assert!(ended.join().expect("it does not panic").contains("was dropped"));
    assert!(refused(session, "DROP CHANGEFEED f").contains("no change feed 'f'"));
    said(session, "DROP CHANGEFEED IF EXISTS f");
}

/// The values of every type as SELECT has them, large values among them, also after changes of
/// definitions.
#[test]
fn values_of_all_types_are_those_of_the_tables() {
    let server = Server::start(&["--workers=2"]);
    let (before, _) = TYPES.split_once("-- half").expect("it has two halves");
    server.sql(before);
    let mut session = server.session().expect("root may log in");
    all(&mut session, &["USE r", "CREATE CHANGEFEED f FOR TABLE ty, big, docs, u INTO 'sql'"]);
    let mut reader = server.session().expect("root may log in");
    let rows = rows_until(&mut reader, "STREAM CHANGEFEED f", |rows| marked(rows, 10));
    let behind = rows.last().expect("it is there").position.clone();
    let mut images: BTreeMap<(String, i64), Value> = BTreeMap::new();
    let key = |json: &Value, image: &str| {
        let table = json["source"]["table"].as_str().expect("a name").to_owned();
        (table, json[image]["id"].as_i64().expect("a key"))
    };
    for row in changes(&rows) {
        let json = row.json();
        images.insert(key(&json, "after"), json["after"].clone());
    }
    compare(&mut session, &images);
    // Columns are added in place; another row is changed by each statement.
    all(
        &mut session,
        &[
            "ALTER TABLE docs ADD COLUMN more INT DEFAULT 7",
            "INSERT INTO docs VALUES (3, '[1]', 8)",
            "UPDATE big SET a = REPEAT('y', 1200000) WHERE id = 1",
            "DO SLEEP(0.1)",
            "UPDATE big SET n = 6 WHERE id = 1",
            "DO SLEEP(0.1)",
            "UPDATE ty SET vc = 'again' WHERE id = 3",
            "UPDATE ty SET id = 9 WHERE id = 2",
            "DELETE FROM u WHERE id = 4",
            "INSERT INTO u VALUES (77, 77)",
        ],
    );
    let from = format!("STREAM CHANGEFEED f FROM '{behind}'");
    let mut reader = server.session().expect("root may log in");
    let rows = rows_until(&mut reader, &from, |rows| marked(rows, 8));
    for row in changes(&rows) {
        let json = row.json();
        if row.op == "d" {
            let old = images.remove(&key(&json, "before"));
            assert!(old.is_some(), "{json}");
            continue;
        }
        let mut image = json["after"].clone();
        let old = images.get(&key(&json, "after")).cloned();
        for (name, value) in image.as_object_mut().expect("it has columns") {
            // A large value that was not changed.
            if *value == "__debezium_unavailable_value" {
                *value = old.as_ref().expect("it was there")[name].clone();
            }
        }
        images.insert(key(&json, "after"), image);
    }
    compare(&mut session, &images);
    // A table of another identity is another table: the feed says so, and can begin anew.
    said(&mut session, "TRUNCATE TABLE u");
    let mut reader = server.session().expect("root may log in");
    let mut last = String::new();
    let ended = reader.each_row(&from, |row| {
        last = read(row).position;
        Ok(())
    });
    let error = ended.expect_err("it ends").to_string();
    let told = error.contains("r.u was dropped, truncated") && error.contains("RESUME CHANGEFEED");
    assert!(told && error.contains("breaks off behind"), "{error}");
    assert!(refused(&mut session, "STREAM CHANGEFEED f").contains("RESUME CHANGEFEED"));
    said(&mut session, "RESUME CHANGEFEED f");
    let mut reader = server.session().expect("root may log in");
    let rows = rows_until(&mut reader, "STREAM CHANGEFEED f", |rows| marked(rows, 6));
    assert!(!rows.iter().any(|row| row.value.contains("\"table\":\"u\"")));
}

/// Compares images with what the tables have.
fn compare(session: &mut Session, images: &BTreeMap<(String, i64), Value>) {
    said(session, "SET time_zone = '+00:00'");
    let mut count = 0;
    for table in ["ty", "big", "docs", "u"] {
        let columns = session
            .query(&format!(
                "SELECT column_name, data_type FROM information_schema.columns \
                 WHERE table_schema = 'r' AND table_name = '{table}' ORDER BY ordinal_position"
            ))
            .expect("it is there");
        let column = |row: &[Option<String>]| {
            let (name, kind) =
                (row[0].clone().expect("it is there"), row[1].clone().expect("it is there"));
            let shown = match kind.as_str() {
                "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
                    format!("REPLACE(TO_BASE64(`{name}`), '\\n', '')")
                }
                "bit" => format!("`{name}` + 0"),
                "timestamp" => format!("CONCAT(REPLACE(`{name}`, ' ', 'T'), 'Z')"),
                _ => format!("`{name}`"),
            };
            (name, shown)
        };
        let columns: Vec<(String, String)> = columns.iter().map(|row| column(row)).collect();
        let shown: Vec<&str> = columns.iter().map(|(_, shown)| shown.as_str()).collect();
        let rows = session
            .query(&format!("SELECT {} FROM {table}", shown.join(", ")))
            .expect("it is there");
        for row in rows {
            count += 1;
            let id: i64 = row[0].clone().expect("it is there").parse().expect("it is there");
            let image = &images[&(table.to_owned(), id)];
            for ((name, _), expected) in columns.iter().zip(&row) {
                // A column that was added changes no row.
                if image.get(name).is_none() {
                    continue;
                }
                let told = match &image[name] {
                    Value::Null => None,
                    Value::String(text) => Some(text.clone()),
                    Value::Number(number) => Some(number.to_string()),
                    other => panic!("{other}"),
                };
                let same = told == *expected
                    || told.as_deref().and_then(|t| t.parse::<f64>().ok())
                        == expected.as_deref().and_then(|e| e.parse::<f64>().ok());
                assert!(same, "{table}.{name} of {id}: {told:?} is not {expected:?}");
            }
        }
    }
    assert_eq!(count, images.len(), "{:?}", images.keys());
}

/// All changes in the files of a feed, deduplicated by their positions, in order; how many lines
/// were there twice.
fn in_files(directory: &Path, name: &str) -> (Vec<Value>, usize) {
    let mut files: Vec<_> = fs::read_dir(directory)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").path())
        .filter(|path| {
            let file = path.file_name().expect("it is there").to_string_lossy().into_owned();
            file.starts_with(&format!("{name}-")) && file.ends_with(".ndjson")
        })
        .collect();
    files.sort();
    let (mut seen, mut changes, mut twice) = (BTreeSet::new(), Vec::new(), 0);
    for file in files {
        for line in fs::read_to_string(&file).expect("it is text").lines() {
            let json: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display()));
            let position = json["source"]["position"].as_str().expect("a position").to_owned();
            if seen.insert(position) {
                changes.push(json);
            } else {
                twice += 1;
            }
        }
    }
    (changes, twice)
}

/// What files show after all of their changes: the value of each row.
fn replayed(changes: &[Value]) -> BTreeMap<i64, i64> {
    let mut rows = BTreeMap::new();
    for change in changes {
        let of = |image: &str, column: &str| change[image][column].as_i64();
        let op = change["op"].as_str().expect("an operation");
        match op {
            "r" | "c" => {
                let old = rows.insert(
                    of("after", "id").expect("it is there"),
                    of("after", "n").expect("it is there"),
                );
                assert_eq!(old, None, "{change}");
            }
            "u" => {
                let id = of("after", "id").expect("it is there");
                let old = rows.insert(id, of("after", "n").expect("it is there"));
                assert_eq!(old, of("before", "n"), "nothing is missing before {change}");
            }
            "d" => {
                let old = rows.remove(&of("before", "id").expect("it is there"));
                assert_eq!(old, of("before", "n"), "nothing is missing before {change}");
            }
            other => panic!("{other}"),
        }
    }
    rows
}

/// The node that writes the only feed.
fn writer(session: &mut Session, cluster: &Processes) -> u16 {
    let began = Instant::now();
    loop {
        let rows = session.query("SHOW CHANGEFEEDS").expect("it is there");
        let node = rows[0][9].clone().unwrap_or_default();
        let port = node.rsplit(':').next().and_then(|port| port.parse().ok());
        let found = [SQL, SQL + 1].into_iter().find(|node| Some(cluster.port(*node)) == port);
        if let Some(found) = found {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "nobody writes: {rows:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Clients change rows while the SQL node that writes the files is killed, then the other one, and
/// data nodes.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn files_have_each_change_once_whoever_dies() {
    // However fast the clients are while nobody writes the files, nothing of it is dropped.
    let mut cluster = Processes::prepare(SMALL, "MaxBufferedEpochBytes=512M\n");
    let place = Place::new();
    cluster.sql_options.push(format!("--secure-file-priv={}", place.0.display()));
    cluster.start_all();
    let mut session = cluster.session(SQL).expect("it is there");
    let directory = place.0.join("feeds");
    fs::create_dir(&directory).expect("it is there");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, n INT NOT NULL, filler LONGTEXT)",
            "INSERT INTO d.t WITH RECURSIVE s AS (SELECT 1 i UNION ALL SELECT i + 1 FROM s \
             WHERE i < 500) SELECT i, 0, REPEAT('f', 20) FROM s",
        ],
    );
    let target = directory.display();
    let error = refused(
        &mut session,
        &format!("CREATE CHANGEFEED f FOR TABLE d.t INTO 'file://{target}/none'"),
    );
    assert!(error.contains("No such file"), "{error}");
    said(&mut session, &format!("CREATE CHANGEFEED f FOR TABLE d.t INTO 'file://{target}'"));
    let stop = Arc::new(AtomicBool::new(false));
    // What was acknowledged; a statement without an answer is in doubt and is looked up at the end.
    let commits = Arc::new(Mutex::new(0_u64));
    let clients: Vec<_> = (0..2_u64)
        .map(|client| {
            let (stop, commits) = (stop.clone(), commits.clone());
            let sockets = [cluster.socket(SQL), cluster.socket(SQL + 1)];
            thread::spawn(move || {
                let mut draw = 7 + client;
                let mut session = None;
                while !stop.load(Ordering::Relaxed) {
                    draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let id = 2 * ((draw >> 33) % 300) + client;
                    let socket = &sockets[(draw >> 20) as usize % 2];
                    let open = session.take().or_else(|| Session::connect(socket).ok());
                    let Some(mut open) = open else {
                        thread::sleep(Duration::from_millis(20));
                        continue;
                    };
                    let statement = match (draw >> 40) % 20 {
                        0 => format!("DELETE FROM d.t WHERE id = {id}"),
                        1 => format!(
                            "INSERT INTO d.t VALUES ({id}, 1, REPEAT('x', 12000)) \
                             ON DUPLICATE KEY UPDATE n = n + 1"
                        ),
                        _ => format!("UPDATE d.t SET n = n + 1 WHERE id = {id}"),
                    };
                    if open.query(&statement).is_ok() {
                        *commits.lock().expect("it is there") += 1;
                        session = Some(open);
                    }
                }
            })
        })
        .collect();
    for round in 0..2 {
        thread::sleep(Duration::from_secs(2));
        let mut any =
            cluster.session(SQL).or_else(|_| cluster.session(SQL + 1)).expect("it is there");
        let node = writer(&mut any, &cluster);
        cluster.kill(&[node]);
        let mut other =
            cluster.session(if node == SQL { SQL + 1 } else { SQL }).expect("it is there");
        let began = Instant::now();
        while writer(&mut other, &cluster) == node {
            let mut shown = || other.query("SHOW CHANGEFEEDS").expect("it is there");
            assert!(began.elapsed() < PATIENCE, "nobody has taken over: {:?}", shown());
            thread::sleep(Duration::from_millis(50));
        }
        cluster.start_node(node);
        let data = 1 + round;
        cluster.kill(&[data]);
        thread::sleep(Duration::from_secs(2));
        cluster.start_node(data);
        cluster.wait_until_complete(SQL);
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("it does not panic"));
    assert!(*commits.lock().expect("it is there") > 200, "the clients have done something");
    let mut session = cluster.session(SQL).expect("it is there");
    said(&mut session, "INSERT INTO d.t VALUES (100000, 1, NULL)");
    let began = Instant::now();
    let (changes, twice) = loop {
        let (changes, twice) = in_files(&directory, "f");
        if changes.iter().any(|change| change["after"]["id"] == 100_000) {
            break (changes, twice);
        }
        let shown = session.query("SHOW CHANGEFEEDS").expect("it is there");
        assert!(began.elapsed() < PATIENCE, "the last change is in no file: {shown:?}");
        thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(twice, 0, "no change is in two files");
    let ops = |op: &str| changes.iter().filter(|change| change["op"] == op).count();
    // The snapshot is of a moment at which clients were at work.
    let of_snapshot = changes.iter().filter(|change| change["op"] == "r");
    let ids: BTreeSet<i64> =
        of_snapshot.filter_map(|change| change["after"]["id"].as_i64()).collect();
    assert!(!ids.is_empty() && ids.len() == ops("r"), "one snapshot: {} rows", ops("r"));
    let mut expected = BTreeMap::new();
    for row in session.query("SELECT id, n FROM d.t").expect("it is there") {
        let value =
            |at: usize| row[at].clone().expect("it is there").parse::<i64>().expect("it is there");
        expected.insert(value(0), value(1));
    }
    assert_eq!(replayed(&changes), expected);
    println!("{} changes: {} c, {} u, {} d", changes.len(), ops("c"), ops("u"), ops("d"));
    // Nobody writes any more behind a PAUSE, and RESUME goes on without a gap.
    said(&mut session, "PAUSE CHANGEFEED f");
    said(&mut session, "UPDATE d.t SET n = n + 1 WHERE id = 100000");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(in_files(&directory, "f").0.len(), changes.len());
    said(&mut session, "RESUME CHANGEFEED f");
    let began = Instant::now();
    while in_files(&directory, "f").0.len() == changes.len() {
        assert!(began.elapsed() < PATIENCE, "it does not go on");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(in_files(&directory, "f").0.len(), changes.len() + 1);
    // The end of a table is the end of the feed.
    said(&mut session, "DROP TABLE d.t");
    let began = Instant::now();
    loop {
        let shown = session.query("SHOW CHANGEFEEDS").expect("it is there");
        let text = |at: usize| shown[0][at].clone().unwrap_or_default();
        if text(1) == "broken" {
            assert!(text(10).contains("d.t was dropped"), "{shown:?}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{shown:?}");
        thread::sleep(Duration::from_millis(100));
    }
    said(&mut session, "DROP CHANGEFEED f");
}

/// A reader that sleeps costs nothing but what is kept for all, and is told where it broke off.
#[test]
fn a_reader_that_sleeps_is_told_where_it_broke_off() {
    let mut cluster = Processes::prepare(SMALL, "MaxBufferedEpochBytes=1M\n");
    cluster.start_all();
    let mut session = cluster.session(SQL).expect("it is there");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, n INT NOT NULL, filler VARCHAR(2000))",
            "INSERT INTO d.t WITH RECURSIVE s AS (SELECT 1 i UNION ALL SELECT i + 1 FROM s \
             WHERE i < 1000) SELECT i, 0, REPEAT('f', 1500) FROM s",
            "CREATE CHANGEFEED f FOR TABLE d.t INTO 'sql' WITH snapshot = 'none'",
        ],
    );
    // A client of the shell that takes nothing once its pipe is full.
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--user=root", "--quick", "--unbuffered", "--skip-column-names"]);
    client.arg(format!("--socket={}", cluster.socket(SQL).display()));
    client.args(["-e", "STREAM CHANGEFEED f"]);
    let mut client =
        client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is there");
    let mut other = cluster.session(SQL + 1).expect("it is there");
    // It reads nothing more when it has its first line.
    let mut output = BufReader::new(client.stdout.take().expect("it is there"));
    let first = thread::spawn(move || {
        let mut line = String::new();
        output.read_line(&mut line).expect("it is there");
        (output, line)
    });
    while !first.is_finished() {
        said(&mut other, "UPDATE d.t SET n = n + 1 WHERE id = 1");
        thread::sleep(Duration::from_millis(100));
    }
    let (output, first) = first.join().expect("it ends");
    assert!(!first.is_empty(), "the stream has ended");
    let resident = || {
        let status = format!("/proc/{}/status", cluster.process_id(SQL));
        let status = fs::read_to_string(status).expect("it is there");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it is there");
        line.split_whitespace().nth(1).expect("it is there").parse::<u64>().expect("it is there")
            / 1024
    };
    let before = resident();
    for round in 0..60 {
        let statement = format!("UPDATE d.t SET n = n + 1 WHERE id % 5 = {}", round % 5);
        let began = Instant::now();
        said(&mut other, &statement);
        assert!(began.elapsed() < Duration::from_secs(20), "nobody waits for the reader");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 200, "{grown} MB more for a reader that sleeps");
    // It wakes up: what had been sent, and then the end.
    let lines = first + &io::read_to_string(output).expect("it is there");
    let error =
        io::read_to_string(client.stderr.take().expect("it is there")).expect("it is there");
    client.wait().expect("it is there");
    let told = error.contains("breaks off behind") && error.contains("MaxBufferedEpochBytes");
    assert!(told, "{error}");
    let last = lines
        .lines()
        .last()
        .expect("it is there")
        .split('\t')
        .next()
        .expect("it is there")
        .to_owned();
    let epoch = |position: &str| {
        position.split(['.', ':']).next().expect("it is there").parse::<u64>().expect("it is there")
    };
    let behind = error.split("breaks off behind ").nth(1).expect("it is there");
    assert!(epoch(behind) >= epoch(&last), "{error}: {last}");
    // A reader that goes on from there is told the same; one without a position gets what there is.
    let error = refused(&mut session, &format!("STREAM CHANGEFEED f FROM '{last}'"));
    assert!(error.contains("changes are kept from epoch"), "{error}");
}
