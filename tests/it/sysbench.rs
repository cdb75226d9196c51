//! sysbench from Debian, unmodified: every OLTP script, then the rows are checked.

use std::process::Command;

use tests::{Server, run, text_of};

const TABLES: u32 = 2;

/// Scripts, and whether they leave the number of rows as it was.
const SCRIPTS: [(&str, bool); 10] = [
    ("oltp_point_select", true),
    ("oltp_read_only", true),
    ("oltp_read_write", true),
    ("oltp_write_only", true),
    ("oltp_update_index", true),
    ("oltp_update_non_index", true),
    ("oltp_insert", false),
    ("oltp_delete", false),
    ("select_random_points", true),
    ("select_random_ranges", true),
];

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

    fn tcp(&self) -> Vec<String> {
        vec!["--mysql-host=127.0.0.1".into(), format!("--mysql-port={}", self.server.port)]
    }

    fn socket(&self) -> Vec<String> {
        vec![format!("--mysql-socket={}", self.server.socket.display())]
    }

    /// Counts, sums and distinct keys of all tables, by heap and by index.
    fn check(&self, fixed: bool) {
        for table in 1..=TABLES {
            let found = self.server.sql(&format!(
                "USE sbtest;
                 SELECT COUNT(*), COUNT(DISTINCT id), MIN(LENGTH(c)), MAX(LENGTH(pad)) \
                 FROM sbtest{table};
                 SELECT SUM(k), COUNT(*) FROM sbtest{table};
                 SELECT SUM(k), COUNT(*) FROM sbtest{table} FORCE INDEX (k_{table}) WHERE k > 0"
            ));
            let lines: Vec<&str> = found.lines().collect();
            let counts: Vec<&str> = lines[0].split('\t').collect();
            assert_eq!(counts[0], counts[1], "every row once in sbtest{table}");
            assert_eq!(counts[2..], ["119", "59"], "rows of sbtest{table} are whole");
            assert_eq!(lines[1], lines[2], "the index on k of sbtest{table} has all rows");
            if fixed {
                assert_eq!(counts[0], self.rows.to_string(), "rows of sbtest{table}");
            }
        }
    }
}

#[test]
fn every_script_runs_without_error_and_leaves_the_rows_right() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest");
    let bench = Bench { server: &server, rows: 100_000 };
    bench.sysbench("oltp_read_write", &bench.tcp(), "prepare");
    bench.check(true);
    let (mut number, mut fixed) = (0, true);
    for (script, keeps) in SCRIPTS {
        fixed &= keeps;
        for threads in [1, 8, 64] {
            number += 1;
            let mut options = if number % 2 == 0 { bench.tcp() } else { bench.socket() };
            let mode = if number % 4 < 2 { "auto" } else { "disable" };
            options.push(format!("--db-ps-mode={mode}"));
            options.push(format!("--threads={threads}"));
            options.push("--time=2".into());
            let text = bench.sysbench(script, &options, "run");
            let line = text.lines().find(|line| line.contains("ignored errors:")).unwrap_or("");
            let errors: Vec<&str> = line.split_whitespace().collect();
            // Deadlocks are the only errors sysbench ignores, and may happen between writers.
            let deadlocks_possible = !script.starts_with("select") && threads > 1;
            assert!(
                deadlocks_possible || errors.get(2) == Some(&"0"),
                "{script} {options:?}: {line}"
            );
        }
        bench.check(fixed);
    }
    assert!(server.resident_memory() < 2 << 30, "{} bytes", server.resident_memory());
}

#[test]
fn bulk_insert_and_cleanup() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest");
    let bench = Bench { server: &server, rows: 1000 };
    let options = |more: &[&str]| {
        let mut all = bench.tcp();
        all.extend(more.iter().map(|option| (*option).to_owned()));
        all
    };
    bench.sysbench("bulk_insert", &options(&["--threads=4"]), "prepare");
    bench.sysbench("bulk_insert", &options(&["--threads=4", "--time=3"]), "run");
    let found =
        server.sql("SELECT COUNT(*) = COUNT(DISTINCT id), COUNT(*) > 1000 FROM sbtest.sbtest1");
    assert_eq!(found, "1\t1\n");
    bench.sysbench("bulk_insert", &options(&["--threads=4"]), "cleanup");
    assert_eq!(server.sql("SHOW TABLES FROM sbtest"), "");
}

#[test]
fn connections_that_open_and_drop_do_not_disturb_a_load() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE sbtest");
    let bench = Bench { server: &server, rows: 10_000 };
    bench.sysbench("oltp_read_write", &bench.tcp(), "prepare");
    let port = server.port;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = stop.clone();
    let opener = std::thread::spawn(move || {
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            let sockets: Vec<_> = (0..8)
                .filter_map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).ok())
                .collect();
            drop(sockets);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let mut options = bench.tcp();
    options.extend(["--threads=8".into(), "--time=5".into()]);
    bench.sysbench("oltp_read_write", &options, "run");
    let early = server.resident_memory();
    let last = options.len() - 1;
    options[last] = "--time=15".into();
    bench.sysbench("oltp_read_write", &options, "run");
    let late = server.resident_memory();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    opener.join().unwrap();
    assert!(late < early + (64 << 20), "memory grew from {early} to {late} bytes");
    bench.check(true);
}
