//! Change feeds over HTTP, read by `curl`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

use tests::cluster::MANAGEMENT;
use tests::succeed;

use super::*;

/// The other SQL node.
const OTHER: u16 = SQL + 1;
/// An account that may read feeds, as `curl` takes it, and as HTTP has it in base 64.
const READER: (&str, &str) = ("reader:se:cret", "cmVhZGVyOnNlOmNyZXQ=");

/// A client of a feed.
struct Reader {
    curl: Child,
    lines: Receiver<String>,
}

impl Reader {
    fn start(port: u16, target: &str, options: &[&str]) -> Self {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--no-buffer", "--user", READER.0]).args(options);
        curl.arg(format!("http://127.0.0.1:{port}/changefeeds/{target}")).stdout(Stdio::piped());
        let mut curl = curl.spawn().expect("curl is installed");
        let output = BufReader::new(curl.stdout.take().expect("it is piped"));
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { curl, lines }
    }

    /// The next line; none when there is none any more.
    fn line(&self) -> Option<String> {
        self.lines.recv_timeout(PATIENCE).ok()
    }

    /// Reads lines of JSON until something is seen.
    fn until(&self, mut is_last: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let (mut all, began) = (Vec::new(), Instant::now());
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it has ended: {all:?}"));
            let json: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let is_over = is_last(&json);
            all.push(json);
            if is_over {
                return all;
            }
            assert!(began.elapsed() < PATIENCE, "not seen: {all:?}");
        }
    }

    /// The next event of server-sent events: its id and its data.
    fn event(&self) -> Option<(String, Option<String>)> {
        let (mut id, mut data) = (String::new(), None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some((id, data));
            } else if let Some(text) = line.strip_prefix("id: ") {
                text.clone_into(&mut id);
            } else {
                data = line.strip_prefix("data: ").map(str::to_owned);
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It is gone without a word.
        let _ = self.curl.kill();
        let _ = self.curl.wait();
    }
}

fn position(json: &Value) -> String {
    json["source"]["position"].as_str().unwrap_or_else(|| panic!("{json}")).to_owned()
}

/// Status and body of an answer, which ends.
fn asked(port: u16, target: &str, options: &[&str]) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "30", "--write-out", "\n%{http_code}"]);
    curl.args(options).arg(format!("http://127.0.0.1:{port}/changefeeds/{target}"));
    let text = succeed(curl);
    let (body, status) = text.rsplit_once('\n').expect("it is written out");
    (status.parse().expect("a status"), body.to_owned())
}

/// The error of an answer: its status, SQL's number and the text.
fn error_of(port: u16, target: &str, options: &[&str]) -> (u16, u64, String) {
    let (status, body) = asked(port, target, options);
    let json: Value =
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{status} {body}: {error}"));
    let error = &json["error"];
    let text = error["message"].as_str().unwrap_or_else(|| panic!("{body}"));
    (status, error["code"].as_u64().unwrap_or_else(|| panic!("{body}")), text.to_owned())
}

fn cluster() -> (Processes, Session) {
    let mut cluster = Processes::prepare_watched(SMALL);
    cluster.start_all();
    let mut session = cluster.session(SQL).expect("it is there");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, n INT NOT NULL, filler LONGTEXT)",
            "CREATE USER reader@'%' IDENTIFIED BY 'se:cret'",
            "GRANT REPLICATION SLAVE ON *.* TO reader@'%'",
        ],
    );
    (cluster, session)
}

/// A client loses nothing and gets nothing twice, which goes on behind the last position that it
/// has read: as lines and as events, at this SQL node and at the other one, after it was killed and
/// after an SQL node was.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_feed_over_http_goes_on_behind_its_cursor_whoever_dies() {
    let (mut cluster, mut session) = cluster();
    all(
        &mut session,
        &[
            "INSERT INTO d.t VALUES (0, 0, NULL), (1, 0, NULL), (2, 0, NULL)",
            "CREATE CHANGEFEED f FOR TABLE d.t INTO 'sql'",
        ],
    );
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, socket) = (stop.clone(), cluster.socket(OTHER));
        thread::spawn(move || {
            let mut session = Session::connect(&socket).expect("it is there");
            for at in 0.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let id = at % 40;
                let statement = if at % 7 == 6 {
                    format!("DELETE FROM d.t WHERE id = {id}")
                } else {
                    format!(
                        "INSERT INTO d.t VALUES ({id}, 1, REPEAT('x', {at} % 300)) \
                         ON DUPLICATE KEY UPDATE n = n + 1"
                    )
                };
                said(&mut session, &statement);
            }
        })
    };
    let ports = [cluster.http_port(SQL), cluster.http_port(OTHER)];
    // The whole snapshot, and what comes behind it until the client is killed.
    let reader = Reader::start(ports[0], "f", &[]);
    let mut changes = reader.until(|json| json["op"] == "h");
    let mut count = 0;
    changes.extend(reader.until(|_| {
        count += 1;
        count == 200
    }));
    drop(reader);
    let snapshot = changes.iter().filter(|json| json["op"] == "r").count();
    assert!(snapshot >= 3, "{changes:?}");
    // Another SQL node, as events.
    let mut cursor = position(changes.last().expect("it is there"));
    let target = format!("f?format=sse&after={cursor}");
    let reader = Reader::start(ports[1], &target, &[]);
    for _ in 0..200 {
        let (id, data) = reader.event().expect("it goes on");
        if let Some(data) = data {
            let json: Value = serde_json::from_str(&data).expect("JSON");
            assert_eq!(position(&json), id);
            changes.push(json);
        }
        cursor = id;
    }
    drop(reader);
    // As a browser connects again: the target of before, and the last position.
    let last = format!("Last-Event-ID: {cursor}");
    let options = ["--header", last.as_str(), "--header", "Accept: text/event-stream"];
    let reader = Reader::start(ports[0], "f?after=7", &options);
    let killed = Instant::now();
    let mut events = 0;
    while let Some((id, data)) = reader.event() {
        if let Some(data) = data {
            let json: Value = serde_json::from_str(&data).expect("JSON");
            if json["op"] == "end" {
                continue;
            }
            changes.push(json);
        }
        cursor = id;
        events += 1;
        if events == 50 {
            cluster.kill(&[SQL]);
        }
        assert!(killed.elapsed() < PATIENCE, "it ends with its SQL node");
    }
    assert!(events >= 50, "{events}");
    stop.store(true, Ordering::Relaxed);
    writer.join().expect("it does not panic");
    let mut session = cluster.session(OTHER).expect("it is there");
    said(&mut session, "INSERT INTO d.t VALUES (1000, 1, NULL)");
    let reader = Reader::start(ports[1], &format!("f?format=jsonl&after={cursor}"), &[]);
    changes.extend(reader.until(|json| json["after"]["id"] == 1000));
    changes.retain(|json| json["op"] != "h");
    let positions: BTreeSet<String> = changes.iter().map(position).collect();
    assert_eq!(positions.len(), changes.len(), "nothing comes twice");
    assert!(changes.len() > 300, "{}", changes.len());
    let rows = session.query("SELECT id, n FROM d.t").expect("it is there");
    let value = |text: &Option<String>| -> i64 {
        text.as_ref().and_then(|text| text.parse().ok()).expect("a number")
    };
    let expected: BTreeMap<i64, i64> =
        rows.iter().map(|row| (value(&row[0]), value(&row[1]))).collect();
    assert_eq!(replayed(&changes), expected);
}

#[test]
fn who_may_not_read_a_feed_over_http_is_told_why_in_json() {
    let (cluster, mut session) = cluster();
    all(
        &mut session,
        &[
            "CREATE USER nobody@'%' IDENTIFIED BY 'x'",
            "CREATE USER locked@'%' IDENTIFIED BY 'x' ACCOUNT LOCK",
            "CREATE USER elsewhere@'192.0.2.1' IDENTIFIED BY 'x'",
            "CREATE USER here@localhost IDENTIFIED BY 'x'",
            "CREATE USER safe@'%' IDENTIFIED BY 'x' REQUIRE SSL",
            "CREATE USER single@'%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1",
            "GRANT REPLICATION SLAVE ON *.* TO locked@'%', elsewhere@'192.0.2.1', \
             here@localhost, safe@'%', single@'%'",
            "CREATE CHANGEFEED f FOR TABLE d.t INTO 'sql'",
            "CREATE CHANGEFEED `my feed` FOR TABLE d.t INTO 'sql' WITH (format = 'csv')",
            "INSERT INTO d.t VALUES (1, 5, 'a \"b\"\n')",
        ],
    );
    let port = cluster.http_port(SQL);
    let as_user = |user: &'static str, target: &str| error_of(port, target, &["--user", user]);
    let reader = |target: &str| as_user(READER.0, target);
    for (told, status, code, text) in [
        (error_of(port, "f", &[]), 401, 1045, "HTTP basic authentication"),
        (as_user("reader:wrong", "f"), 401, 1045, "Access denied for user 'reader'@'localhost'"),
        (as_user("stranger:x", "f"), 401, 1045, "Access denied"),
        (as_user("elsewhere:x", "f"), 401, 1045, "Access denied"),
        (as_user("safe:x", "f"), 401, 1045, "Access denied"),
        (as_user("nobody:x", "f"), 403, 1227, "REPLICATION"),
        (as_user("locked:x", "f"), 403, 3118, "locked"),
        (reader("none"), 404, 1305, "there is no change feed 'none'"),
        (reader("f?after=9000000000000000"), 409, 1105, "is not reached yet"),
        (reader("f?after=1"), 410, 1236, "breaks off behind"),
        (reader("f?after=x"), 400, 0, "no position"),
        (reader("f?format=xml"), 400, 0, "jsonl, or sse"),
        (reader("f`%20FROM"), 404, 1305, "there is no change feed 'f` FROM'"),
    ] {
        assert!(told.0 == status && told.1 == code, "{status} {code}: {told:?}");
        assert!(told.2.contains(text), "{told:?}");
    }
    let management = cluster.http_port(MANAGEMENT);
    let (status, _, text) = error_of(management, "f", &["--user", READER.0]);
    assert!(status == 404 && text.contains("no SQL node"), "{text}");
    let (status, _) = asked(port, "f", &["--user", READER.0, "--head"]);
    assert_eq!(status, 405);
    // The account of this host, and the values of a feed of CSV.
    let feed = Reader::start(port, "my%20feed", &["--user", "here:x"]);
    let first = feed.until(|json| json["op"] == "r").pop().expect("it is there");
    assert_eq!(first["csv"], "1,5,\"a \"\"b\"\"\n\"");
    assert_eq!(first["source"]["table"], "t");
    drop(feed);
    // One connection at a time, over SQL or HTTP.
    let feed = Reader::start(port, "f", &["--user", "single:x"]);
    feed.until(|json| json["op"] == "h");
    let told = as_user("single:x", "f");
    assert!(told.0 == 429 && matches!(told.1, 1203 | 1226), "{told:?}");
    let shown = "SELECT ID FROM information_schema.processlist WHERE user = 'single' AND \
                 host LIKE 'localhost:%' AND info LIKE 'STREAM CHANGEFEED%'";
    let id = number(&mut session, shown);
    said(&mut session, &format!("KILL {id}"));
    let last = feed.until(|json| json["op"] == "end").pop().expect("it is there");
    assert!(last["error"]["code"].as_u64().is_some_and(|code| code > 0), "{last}");
    assert_eq!(feed.line(), None, "the answer has ended");
    said(&mut session, "PAUSE CHANGEFEED f");
    let (status, code, text) = reader("f");
    assert!(status == 409 && code == 1105 && text.contains("is paused"), "{text}");
    said(&mut session, "SET GLOBAL require_secure_transport = ON");
    let (status, code, _) = reader("my%20feed");
    assert_eq!((status, code), (403, 3159));
}

/// Bytes that a process has in memory.
fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).expect("it runs");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4_096
}

/// A client that has asked for a feed, and reads nothing by itself.
fn sleeper(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!(
        "GET /changefeeds/f HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {}\r\n\r\n",
        READER.1
    );
    stream.write_all(request.as_bytes()).expect("it is read");
    stream
}

fn head(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
    let mut first = [0; 64];
    let count = stream.read(&mut first).expect("it answers");
    String::from_utf8_lossy(&first[..count]).into_owned()
}

#[test]
fn clients_of_feeds_that_sleep_or_die_cost_little_and_leave_nothing() {
    let (cluster, mut session) = cluster();
    all(
        &mut session,
        &["INSERT INTO d.t VALUES (1, 0, NULL)", "CREATE CHANGEFEED f FOR TABLE d.t INTO 'sql'"],
    );
    let port = cluster.http_port(SQL);
    let mut sleepers = vec![sleeper(port), sleeper(port), sleeper(port)];
    for stream in &mut sleepers {
        assert!(head(stream).starts_with("HTTP/1.1 200 OK"));
    }
    let pid = cluster.pid(SQL);
    let mut write = |count: u64| {
        for at in 0..count {
            let update = format!(
                "UPDATE d.t SET n = n + 1, filler = REPEAT('{}', 1000000) WHERE id = 1",
                at % 10
            );
            said(&mut session, &update);
        }
    };
    write(40);
    let before = resident(pid);
    write(120);
    let after = resident(pid);
    assert!(after < before + (48 << 20), "{} MB more", (after - before) >> 20);
    // Others are served meanwhile, by a bounded number of connections.
    while sleepers.len() < 32 {
        sleepers.push(sleeper(port));
        let stream = sleepers.last_mut().expect("just added");
        assert!(head(stream).starts_with("HTTP/1.1 200 OK"), "{}", sleepers.len());
    }
    let (status, code, text) = error_of(port, "f", &["--user", READER.0]);
    assert!(status == 503 && code == 1040 && text.contains("which is most"), "{text}");
    let mut live = Command::new("curl");
    live.args(["--silent", "--fail", &format!("http://127.0.0.1:{port}/live")]);
    assert_eq!(succeed(live), "alive\n");
    drop(sleepers);
    let began = Instant::now();
    let streams = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'reader'";
    while number(&mut session, streams) > 0 {
        assert!(began.elapsed() < PATIENCE, "the dead are given up");
        thread::sleep(Duration::from_millis(100));
    }
    let feed = Reader::start(port, "f", &[]);
    let rows = feed.until(|json| json["op"] == "h");
    assert_eq!(rows[0]["after"]["n"], 160);
}
