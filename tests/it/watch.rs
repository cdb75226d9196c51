//! What operators and their programs see of a cluster: metrics, health checks, `nines top`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL};
use tests::{Server, run, text_of};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer over HTTP; none when nobody answers.
fn said(port: u16, request: &str) -> Option<(u16, String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, head.to_string(), body.to_string()))
}

fn get(port: u16, path: &str) -> Option<(u16, String, String)> {
    said(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"))
}

/// Waits until a path answers with this status; with which text.
fn wait_for(port: u16, path: &str, status: u16) -> String {
    let began = Instant::now();
    loop {
        let answer = get(port, path);
        match answer {
            Some((found, _, body)) if found == status => return body,
            other => assert!(began.elapsed() < PATIENCE, "{path}: not {status}, but {other:?}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// A page of metrics that follows the rules of the format.
fn page(port: u16) -> String {
    let (status, head, body) = get(port, "/metrics").expect("the node answers");
    assert_eq!(status, 200, "{body}");
    let kind = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.lines().any(|line| line == kind), "{head}");
    assert!(body.ends_with("\n# EOF\n") && body.matches("# EOF").count() == 1, "{body}");
    let mut families: Vec<&str> = Vec::new();
    for line in body.lines().filter(|line| *line != "# EOF") {
        match line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) {
            Some(family) => {
                assert!(!families.contains(&family), "{family} is described twice");
                families.push(family);
            }
            None if line.starts_with("# ") => {}
            None => {
                let family = families.last().expect("samples follow a description");
                assert!(line.starts_with(family), "{line} is not of {family}");
                let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
                assert!(value.is_some_and(|value| value >= 0.0), "{line}");
            }
        }
    }
    body
}

/// The value of a sample.
fn sample(page: &str, name: &str) -> Option<f64> {
    let line =
        page.lines().find(|line| line.strip_prefix(name).is_some_and(|r| r.starts_with(' ')));
    line?.rsplit(' ').next()?.parse().ok()
}

fn top(cluster: &Processes, options: &[&str]) -> String {
    let mut top = Command::new(tests::binary());
    let place = format!("127.0.0.1:{}", cluster.port(MANAGEMENT));
    top.args(["top", "-c", &place, "--once", "--interval=1"]).args(options);
    text_of(&run(top), "nines top")
}

#[test]
fn every_role_tells_how_it_is() {
    let layout = Layout { sql: 1, ..SMALL };
    let mut cluster = Processes::prepare_watched(layout);
    let http = |cluster: &Processes, node| cluster.http_port(node);
    // A management node is there for others to start; one data node of two cannot serve yet.
    cluster.start_node(MANAGEMENT);
    assert_eq!(wait_for(http(&cluster, MANAGEMENT), "/ready", 200), "ready\n");
    cluster.launch(1);
    let why = wait_for(http(&cluster, 1), "/ready", 503);
    assert!(why.contains("starting") || why.contains("not been admitted"), "{why}");
    assert!(wait_for(http(&cluster, 1), "/live", 200).starts_with("alive"));
    cluster.launch(SQL);
    assert!(!wait_for(http(&cluster, SQL), "/ready", 503).is_empty());
    cluster.start_all();
    for node in cluster.nodes() {
        assert_eq!(wait_for(http(&cluster, node), "/ready", 200), "ready\n", "node {node}");
        assert_eq!(wait_for(http(&cluster, node), "/live", 200), "alive\n", "node {node}");
    }
    what_is_counted(&cluster);
    who_asks_wrongly(&cluster);
    what_top_shows(&cluster);
    a_node_that_is_put_out(&mut cluster);
    // Without data nodes an SQL node can do nothing, and says so.
    cluster.kill(&[1, 2]);
    let why = wait_for(http(&cluster, SQL), "/ready", 503);
    assert!(why.contains("no data node") || why.contains("has stopped"), "{why}");
    assert_eq!(wait_for(http(&cluster, MANAGEMENT), "/ready", 200), "ready\n");
    cluster.start_all();
    wait_for(http(&cluster, SQL), "/ready", 200);
}

fn what_is_counted(cluster: &Processes) {
    let mut session = cluster.session(SQL).unwrap_or_else(|error| panic!("{error}"));
    for statement in ["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT)"] {
        session.query(statement).unwrap_or_else(|error| panic!("{error}"));
    }
    for a in 0..40 {
        let insert = format!("INSERT INTO d.t VALUES ({a}, {a})");
        session.query(&insert).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(session.query("SELECT FROM d.t WHERE").is_err());
    let sql = page(cluster.http_port(SQL));
    assert_eq!(sample(&sql, "nines_node_ready{node=\"51\",role=\"sql\"}"), Some(1.0));
    assert_eq!(sample(&sql, "nines_sql_statements_total{node=\"51\",kind=\"insert\"}"), Some(40.0));
    assert_eq!(sample(&sql, "nines_sql_errors_total{node=\"51\",code=\"1064\"}"), Some(1.0));
    assert_eq!(sample(&sql, "nines_sql_connections{node=\"51\",state=\"idle\"}"), Some(1.0));
    assert!(sample(&sql, "nines_sql_statement_seconds_count{node=\"51\"}") >= Some(43.0));
    // An epoch is some time; the statements above may all have been in the first.
    let both = [1, 2].map(|node| page_with_an_epoch(cluster, node));
    let sum = |name: &dyn Fn(u16) -> String| -> f64 {
        let of = |(node, page): (u16, &String)| sample(page, &name(node)).unwrap_or_default();
        (1..).zip(&both).map(of).sum()
    };
    let inserts = sum(&|node| format!("nines_operations_total{{node=\"{node}\",kind=\"insert\"}}"));
    assert!(inserts >= 40.0, "{inserts}");
    let committed =
        sum(&|node| format!("nines_transactions_total{{node=\"{node}\",outcome=\"committed\"}}"));
    assert!(committed >= 40.0, "{committed}");
    assert!(sum(&|node| format!("nines_commit_seconds_count{{node=\"{node}\"}}")) >= 40.0);
    for (node, peer, page) in [(1, 2, &both[0]), (2, 1, &both[1])] {
        // Two replicas: each node has all 40 rows.
        assert!(sample(page, &format!("nines_rows{{node=\"{node}\"}}")) >= Some(40.0));
        let link = format!("{{node=\"{node}\",peer=\"{peer}\"}}");
        assert_eq!(sample(page, &format!("nines_link_up{link}")), Some(1.0));
        assert!(sample(page, &format!("nines_link_received_bytes_total{link}")) > Some(0.0));
        assert!(sample(page, &format!("nines_link_sent_frames_total{link}")) > Some(0.0));
        let group = format!("nines_node_group_live_replicas{{node=\"{node}\",group=\"0\"}}");
        assert_eq!(sample(page, &group), Some(2.0));
        assert_eq!(sample(page, &format!("nines_node_member{{node=\"{node}\"}}")), Some(1.0));
        assert!(sample(page, &format!("nines_lease_left_seconds{{node=\"{node}\"}}")) > Some(0.0));
        assert!(sample(page, &format!("nines_redo_bytes_total{{node=\"{node}\"}}")) > Some(0.0));
        assert!(sample(page, &format!("nines_disk_free_bytes{{node=\"{node}\"}}")) > Some(0.0));
        let limit = format!("nines_data_memory_limit_bytes{{node=\"{node}\"}}");
        assert_eq!(sample(page, &limit), Some(f64::from(128 << 20)));
        for thread in ["worker-0", "worker-1", "links"] {
            let cpu = format!("nines_thread_cpu_seconds_total{{thread=\"{thread}\"}}");
            assert!(sample(page, &cpu) > Some(0.0), "{thread}\n{page}");
        }
    }
    let management = page(cluster.http_port(MANAGEMENT));
    let active = "nines_cluster_members{node=\"49\",role=\"data\",status=\"active\"}";
    assert_eq!(sample(&management, active), Some(2.0));
}

/// The page of a data node that has seen the end of an epoch.
fn page_with_an_epoch(cluster: &Processes, node: u16) -> String {
    let began = Instant::now();
    loop {
        let page = page(cluster.http_port(node));
        if sample(&page, &format!("nines_epoch_completed{{node=\"{node}\"}}")) > Some(0.0) {
            return page;
        }
        assert!(began.elapsed() < PATIENCE, "no epoch has ended\n{page}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn who_asks_wrongly(cluster: &Processes) {
    for node in cluster.nodes() {
        let port = cluster.http_port(node);
        let (status, head, _) =
            said(port, "POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n").expect("it answers");
        assert_eq!(status, 405);
        assert!(head.contains("Allow: GET, HEAD"), "{head}");
        assert_eq!(said(port, "\u{1}\u{2}").map(|answer| answer.0), Some(400));
        assert_eq!(get(port, "/nothing").map(|answer| answer.0), Some(404));
        let head = said(port, "HEAD /ready HTTP/1.0\r\n\r\n");
        assert_eq!(head.map(|(status, _, body)| (status, body)), Some((200, String::new())));
        // Noise, and connections that nobody speaks on.
        let connect = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let mut stream = connect();
        let _ = stream.write_all(&[0xA5; 100_000]);
        let _silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
        assert_eq!(get(port, "/live").map(|answer| answer.0), Some(200));
    }
}

fn what_top_shows(cluster: &Processes) {
    let text = top(cluster, &[]);
    for (node, role) in [(1, "data"), (2, "data"), (MANAGEMENT, "mgmt"), (SQL, "sql")] {
        let line = text.lines().find(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&node.to_string().as_str()) && words.get(1) == Some(&role)
        });
        // Its processor time is a number: it has told its figures.
        let cpu = line.and_then(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok());
        assert!(cpu.is_some(), "{role} node {node}:\n{text}");
    }
    assert!(text.contains(" serves;"), "{text}");
    let json = top(cluster, &["--json"]);
    assert!(json.starts_with('{') && json.contains("\"worker-1\":"), "{json}");
    assert_eq!(json.matches("\"told\":true").count(), 4, "{json}");
}

/// A data node that stands still is put out: it is not ready until it is a member again.
fn a_node_that_is_put_out(cluster: &mut Processes) {
    let group = "nines_node_group_live_replicas{node=\"1\",group=\"0\"}";
    let wait_for_replicas = |cluster: &Processes, number: f64| {
        let began = Instant::now();
        while sample(&page(cluster.http_port(1)), group) != Some(number) {
            assert!(began.elapsed() < PATIENCE, "there are not {number} replicas");
            thread::sleep(Duration::from_millis(50));
        }
    };
    cluster.signal(2, "-STOP");
    wait_for_replicas(cluster, 1.0);
    cluster.signal(2, "-CONT");
    let why = wait_for(cluster.http_port(2), "/ready", 503);
    assert!(!why.trim().is_empty() && why.lines().count() == 1, "{why}");
    wait_for(cluster.http_port(2), "/ready", 200);
    wait_for_replicas(cluster, 2.0);
    cluster.wait_until_complete(SQL);
}

#[test]
fn a_cluster_in_one_process_tells_of_all_its_nodes() {
    let server = Server::start(&["--http-port=0"]);
    let line = server.greeting.iter().find(|line| line.contains("/metrics"));
    let line = line.unwrap_or_else(|| panic!("{:?}", server.greeting));
    let port = line.rsplit(':').next().and_then(|rest| rest.split('/').next()?.parse().ok());
    let port = port.unwrap_or_else(|| panic!("{line}"));
    assert_eq!(wait_for(port, "/ready", 200), "ready\n");
    let page = page(port);
    for (node, role) in [(1, "data"), (2, "data"), (49, "management"), (51, "sql")] {
        let ready = format!("nines_node_ready{{node=\"{node}\",role=\"{role}\"}}");
        assert_eq!(sample(&page, &ready), Some(1.0), "{ready}");
    }
}
