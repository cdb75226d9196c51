//! sysbench from Debian, unmodified: every OLTP script by socket and TCP, with prepared statements
//! and without, by 1, 8 and 64 threads; then the rows are checked.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::{Server, run, text_of};

const TABLES: u32 = 2;
/// Events of a run: some for each of 64 threads.
const EVENTS: u32 = 640;
/// An event of `bulk_insert` adds a row to a statement that is sent when it is long enough.
const BULK_EVENTS: u32 = 20_000;

/// What the events of a script do to the rows.
#[derive(Clone, Copy)]
enum Effect {
    None,
    /// Other rows, as many as before.
    Replaces,
    /// Each event adds 1 to a `k`.
    Counts,
    /// Each event adds a row.
    Adds,
    /// Each event removes a row, if there is one.
    Removes,
}

const SCRIPTS: [(&str, Effect); 10] = [
    ("oltp_point_select", Effect::None),
    ("oltp_read_only", Effect::None),
    ("select_random_points", Effect::None),
    ("select_random_ranges", Effect::None),
    ("oltp_read_write", Effect::Replaces),
    ("oltp_write_only", Effect::Replaces),
    ("oltp_update_index", Effect::Counts),
    ("oltp_update_non_index", Effect::None),
    ("oltp_insert", Effect::Adds),
    ("oltp_delete", Effect::Removes),
];

/// How sysbench talks to the server.
#[derive(Clone, Copy)]
struct Way {
    by_socket: bool,
    /// `--db-ps-mode`.
    statements: &'static str,
}

const WAYS: [Way; 4] = [
    Way { by_socket: true, statements: "auto" },
    Way { by_socket: true, statements: "disable" },
    Way { by_socket: false, statements: "auto" },
    Way { by_socket: false, statements: "disable" },
];

impl Way {
    fn options(self, server: &Server) -> Vec<String> {
        let mut options = if self.by_socket {
            vec![format!("--mysql-socket={}", server.socket.display())]
        } else {
            tcp(server)
        };
        options.push(format!("--db-ps-mode={}", self.statements));
        options
    }
}

fn tcp(server: &Server) -> Vec<String> {
    vec!["--mysql-host=127.0.0.1".into(), format!("--mysql-port={}", server.port)]
}

struct Bench<'a> {
    server: &'a Server,
    rows: u32,
}

impl Bench<'_> {
    fn sysbench(&self, script: &str, options: &[String], action: &str) -> String {
        let mut command = Command::new("sysbench");
        command.arg(script).arg("--db-driver=mysql").arg("--mysql-user=root");
        command.arg("--mysql-db=sbtest").arg("--mysql-storage-engine=ndbcluster");
        command.arg(format!("--tables={TABLES}")).arg(format!("--table-size={}", self.rows));
        command.args(options).arg(action);
        let output = run(command);
        let text = text_of(&output, &format!("sysbench {script} {options:?} {action}"));
        for word in ["FATAL", "ALERT", "error ", "failed"] {
            assert!(!text.contains(word), "{script} {options:?}: {text}");
        }
        text
    }

    /// A run of some events; how many there were.
    fn events(&self, script: &str, way: &Way, threads: u32) -> u64 {
        let mut options = way.options(self.server);
        options.push(format!("--threads={threads}"));
        options.extend([format!("--events={EVENTS}"), "--time=0".into()]);
        let text = self.sysbench(script, &options, "run");
        let number = |what: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(what));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            number.and_then(|number| number.parse::<u64>().ok()).expect(what)
        };
        // Deadlocks are the only errors sysbench ignores, and may happen between writers.
        let deadlocks_possible = ["oltp_read_write", "oltp_write_only"].contains(&script);
        let ignored = number("ignored errors:");
        assert!(deadlocks_possible && threads > 1 || ignored == 0, "{script} {options:?}: {text}");
        number("total number of events:")
    }

    /// Counts, sums and distinct keys of all tables, by heap and by index, and their replicas; the
    /// number of all rows and the sum of all `k`.
    fn check(&self) -> Totals {
        let mut totals = Totals { rows: 0, sum: 0 };
        for table in 1..=TABLES {
            let found = self.server.sql(&format!(
                "USE sbtest;
                 SELECT COUNT(*), COUNT(DISTINCT id), MIN(LENGTH(c)), MAX(LENGTH(pad)) \
                 FROM sbtest{table};
                 SELECT SUM(k), COUNT(*) FROM sbtest{table};
                 SELECT SUM(k), COUNT(*) FROM sbtest{table} FORCE INDEX (k_{table}) WHERE k > 0;
                 CHECK TABLE sbtest{table}"
            ));
            let lines: Vec<Vec<&str>> =
                found.lines().map(|line| line.split('\t').collect()).collect();
            assert_eq!(lines[0][0], lines[0][1], "every row once in sbtest{table}");
            assert_eq!(lines[0][2..], ["119", "59"], "rows of sbtest{table} are whole");
            assert_eq!(lines[1], lines[2], "the index on k of sbtest{table} has all rows");
            assert_eq!(lines[3][3], "OK", "the replicas of sbtest{table} are equal: {found}");
            let number = |text: &str| text.parse::<u64>().expect("a number");
            totals.rows += number(lines[1][1]);
            totals.sum += number(lines[1][0]);
        }
        totals
    }
}

/// What the rows of all tables come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Totals {
    rows: u64,
    /// Of `k`.
    sum: u64,
}

#[test]
fn every_script_runs_without_error_and_leaves_the_rows_right() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest");
    let bench = Bench { server: &server, rows: 100_000 };
    bench.sysbench("oltp_read_write", &tcp(&server), "prepare");
    let mut before = bench.check();
    assert_eq!(before.rows, u64::from(TABLES * bench.rows));
    for (script, effect) in SCRIPTS {
        let mut events = 0;
        for way in WAYS {
            for threads in [1, 8, 64] {
                events += bench.events(script, &way, threads);
            }
        }
        let after = bench.check();
        let says = format!("{script}: {events} events made {after:?} of {before:?}");
        match effect {
            Effect::None => assert_eq!(after, before, "{says}"),
            Effect::Replaces => assert_eq!(after.rows, before.rows, "{says}"),
            Effect::Counts => {
                assert_eq!(after, Totals { sum: before.sum + events, ..before }, "{says}");
            }
            Effect::Adds => assert_eq!(after.rows, before.rows + events, "{says}"),
            Effect::Removes => {
                assert!(after.rows < before.rows, "{says}");
                assert!(after.rows + events >= before.rows, "{says}");
            }
        }
        before = after;
    }
    assert!(server.resident_memory() < 2 << 30, "{} bytes", server.resident_memory());
}

#[test]
fn bulk_insert_and_cleanup() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest");
    let bench = Bench { server: &server, rows: 1000 };
    for way in WAYS {
        for threads in [1, 8, 64] {
            let mut options = way.options(&server);
            options.push(format!("--threads={threads}"));
            bench.sysbench("bulk_insert", &options, "prepare");
            options.extend([format!("--events={BULK_EVENTS}"), "--time=0".into()]);
            bench.sysbench("bulk_insert", &options, "run");
            // Each thread has a table of its own.
            let tables = server.sql("SHOW TABLES FROM sbtest");
            assert_eq!(tables.lines().count(), threads as usize);
            for table in tables.lines() {
                let counts =
                    format!("SELECT COUNT(*) = COUNT(DISTINCT id), COUNT(*) FROM sbtest.{table}");
                let found = server.sql(&format!("{counts}; CHECK TABLE sbtest.{table}"));
                assert!(found.starts_with("1\t") && found.ends_with("\tOK\n"), "{table}: {found}");
            }
            bench.sysbench("bulk_insert", &options, "cleanup");
            assert_eq!(server.sql("SHOW TABLES FROM sbtest"), "");
        }
    }
}

/// Connections that come and go, some of them in the middle of a transaction, until told to stop.
fn open_and_drop(server: &Server, stop: &AtomicBool) {
    let mut count = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let mut sockets: Vec<TcpStream> =
            (0..8).filter_map(|_| TcpStream::connect(("127.0.0.1", server.port)).ok()).collect();
        // Half of an answer to the greeting.
        sockets.iter_mut().step_by(2).for_each(|socket| drop(socket.write_all(&[32, 0, 0, 1, 5])));
        drop(sockets);
        if count.is_multiple_of(16) {
            let mut client = server.client("mysql");
            client.args(["--batch", "--skip-column-names", "--unbuffered"]);
            client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut client = client.spawn().expect("the client is installed");
            let mut input = client.stdin.take().expect("its input is piped");
            let insert = format!("BEGIN; INSERT INTO sbtest.dropped VALUES ({count}); SELECT 1;\n");
            input.write_all(insert.as_bytes()).expect("the client reads");
            let mut answer = String::new();
            let output = client.stdout.take().expect("its output is piped");
            BufReader::new(output).read_line(&mut answer).expect("the client writes");
            assert_eq!(answer, "1\n");
            client.kill().expect("it is our child");
            client.wait().expect("it is our child");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_that_open_and_drop_do_not_disturb_a_load() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest; CREATE TABLE sbtest.dropped (id BIGINT PRIMARY KEY)");
    let bench = Bench { server: &server, rows: 10_000 };
    bench.sysbench("oltp_read_write", &tcp(&server), "prepare");
    let stop = AtomicBool::new(false);
    let (early, late) = std::thread::scope(|scope| {
        let opener = scope.spawn(|| open_and_drop(&server, &stop));
        let run = |seconds: u32| {
            let mut options = tcp(&server);
            options.extend(["--threads=8".into(), format!("--time={seconds}")]);
            bench.sysbench("oltp_read_write", &options, "run");
            server.resident_memory()
        };
        let memory = (run(10), run(60));
        stop.store(true, Ordering::Relaxed);
        opener.join().expect("connections are opened and dropped to the end");
        memory
    });
    assert!(late < early + (64 << 20), "memory grew from {early} to {late} bytes");
    assert_eq!(bench.check().rows, u64::from(TABLES * bench.rows));
    // What a client has left open when it went is undone, once the server has noticed.
    for _ in 0..500 {
        if server.sql("SELECT COUNT(*) FROM nines.transactions") == "0\n" {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.sql("SELECT COUNT(*) FROM sbtest.dropped FOR SHARE NOWAIT"), "0\n");
}
