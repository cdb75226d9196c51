//! The real server on a real disk: killed at random moments, stopped, started again, and its files
//! damaged. After each restart the contract of [durability] is checked.
//!
//! `NINES_KILLS=100` makes more rounds than the few of a normal run, `NINES_SEED` repeats their
//! random choices (not the moments at which things happen).
//!
//! [durability]: ../../docs/sql/transactions.md

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tests::{QueryError, Server, Session, all, binary, number, run, temporary_directory};

use super::workload::{Books, Random, Run, setup};

/// A data directory that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        Place(temporary_directory())
    }

    fn start(&self) -> Server {
        self.start_with("auto")
    }

    /// Starts a server that works the disk in this way.
    fn start_with(&self, io: &str) -> Server {
        Server::start_in(&self.0, &options(&format!("--io={io}")))
    }

    /// A start that must fail; what it says.
    fn refusal(&self, options: &[&str]) -> String {
        let mut command = Command::new(binary());
        command.args(["dev", "--port=0"]).arg(format!("--dir={}", self.0.display())).args(options);
        let output = run(command);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    fn inspect(&self) -> Output {
        let mut command = Command::new(binary());
        command.arg("inspect").arg(&self.0);
        run(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            // What is in it may be needed to understand the failure.
            let kept = self.0.with_extension("failed");
            let _ = fs::rename(&self.0, kept);
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// Small segments, so that checkpoints are made in a test's time.
fn options(io: &str) -> [&str; 3] {
    ["--workers=2", "--tune=redo-segment=128K", io]
}

fn open(server: &Server) -> Session {
    server.session().unwrap_or_else(|error| panic!("{error}"))
}

fn value(session: &mut Session, statement: &str) -> Option<String> {
    let rows = session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    rows[0][0].clone()
}

/// How many rounds of killing there are: a few, or what `NINES_KILLS` says.
fn rounds() -> u32 {
    std::env::var("NINES_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn nothing_durable_is_lost_whenever_the_process_is_killed() {
    let mut random = Random::new();
    let place = Place::new();
    let mut server = place.start();
    setup(&mut open(&server));
    let mut books = Books::default();
    for round in 1..=rounds() {
        let run = Run::start(&server.socket, round);
        thread::sleep(Duration::from_millis(200 + random.below(1_300)));
        server.kill();
        let acknowledged = run.end();
        // Some starts are killed as well.
        while random.below(3) == 0 {
            let mut started = Server::launch_in(&place.0, &options("--io=auto"));
            thread::sleep(Duration::from_millis(random.below(700)));
            started.kill();
        }
        let began = Instant::now();
        server = place.start_with(["auto", "threads"][round as usize % 2]);
        let ready = began.elapsed();
        let report = books.check(&mut open(&server), acknowledged);
        println!("round {round}: {report}, ready in {} ms", ready.as_millis());
    }
    assert_eq!(server.stop("-TERM"), Some(0));
    let output = place.inspect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_clean_stop_loses_nothing() {
    let place = Place::new();
    let mut server = place.start();
    all(
        &mut open(&server),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20), \
             UNIQUE KEY (a), KEY (b))",
        ],
    );
    for round in 1..=3 {
        let mut session = open(&server);
        for _ in 0..50 {
            let next = "INSERT INTO d.t (a, b) SELECT COALESCE(MAX(a), 0) + 1, 'x' FROM d.t";
            all(&mut session, &[next]);
        }
        assert_eq!(server.stop("-TERM"), Some(0));
        server = place.start();
        let session = &mut open(&server);
        assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), 50 * round);
        // Indexes are there too, and unique keys are unique.
        assert_eq!(number(session, "SELECT COUNT(*) FROM d.t WHERE b = 'x'"), 50 * round);
        assert_eq!(number(session, "SELECT COUNT(*) FROM d.t WHERE a = 50"), 1);
        let twice = session.query("INSERT INTO d.t (a) VALUES (50)").unwrap_err();
        assert_eq!(twice.code(), Some(1062), "{twice}");
        assert_eq!(number(session, "SELECT COUNT(DISTINCT id) FROM d.t"), 50 * round);
    }
}

#[test]
fn receipts_say_what_a_commit_has_reached() {
    let place = Place::new();
    let server = place.start();
    let session = &mut open(&server);
    const RECEIPT: &str = "SELECT NINES_COMMIT_RECEIPT()";
    all(session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    assert_eq!(value(session, RECEIPT), None);
    all(session, &["SET nines_durability = 'disk'", "INSERT INTO d.t VALUES (1)"]);
    assert_eq!(value(session, RECEIPT).as_deref(), Some("disk"));
    const DISKS: &str = "SELECT COUNT(DISTINCT node_id) FROM nines.disks WHERE stage = 'open' \
                         AND saved_epoch >= durable_epoch AND durable_epoch > 0 \
                         AND log_segments > 0 AND damaged_files = 0";
    assert_eq!(number(session, DISKS), 2);
    all(session, &["SET nines_durability = 'memory'", "INSERT INTO d.t VALUES (2)"]);
    let began = Instant::now();
    loop {
        let receipt = value(session, RECEIPT);
        if receipt.as_deref() == Some("disk") {
            break;
        }
        assert_eq!(receipt.as_deref(), Some("memory"));
        assert!(began.elapsed() < Duration::from_secs(60), "it is never saved");
        thread::sleep(Duration::from_millis(20));
    }
    // The server's default is for sessions to come.
    all(session, &["SET GLOBAL nines_durability = 'disk'"]);
    let other = &mut open(&server);
    all(other, &["INSERT INTO d.t VALUES (3)"]);
    assert_eq!(value(other, RECEIPT).as_deref(), Some("disk"));
}

#[test]
fn a_cluster_that_is_killed_before_its_first_save_starts_again() {
    let place = Place::new();
    for _ in 0..3 {
        place.start().kill();
    }
    let server = place.start();
    all(&mut open(&server), &["CREATE DATABASE d"]);
}

#[test]
fn a_cluster_in_memory_refuses_what_it_cannot_keep() {
    let server = Server::start(&[]);
    let refused = open(&server).query("SET nines_durability = 'disk'").unwrap_err();
    assert_eq!(refused.code(), Some(1231), "{refused}");
    let QueryError::Refused(_, text) = refused else { panic!() };
    assert!(text.contains("start it with a data directory"), "{text}");
}

#[test]
fn definitions_and_what_they_rest_on_survive_together() {
    let place = Place::new();
    let mut server = place.start();
    let session = &mut open(&server);
    all(
        session,
        &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c VARCHAR(9))"],
    );
    let rows: Vec<String> = (0..500).map(|n| format!("({n}, {n}, 'c{n}')")).collect();
    all(session, &["SET nines_durability = disk"]);
    all(session, &[&format!("INSERT INTO d.t VALUES {}", rows.join(","))]);
    // Each acknowledged, and the process killed at once: a copy, a wider column, a column that
    // goes, a unique index, a new column.
    let changes = [
        ("ALTER TABLE d.t ADD COLUMN gone INT DEFAULT 1, FORCE", "SELECT SUM(gone) FROM d.t"),
        ("ALTER TABLE d.t MODIFY b BIGINT, ALGORITHM=INSTANT", "SELECT SUM(b) FROM d.t"),
        ("ALTER TABLE d.t DROP COLUMN gone, ALGORITHM=INSTANT", "SELECT SUM(b) FROM d.t"),
        ("UPDATE d.t SET b = b + 5000000000 WHERE a = 3", "SELECT SUM(b) FROM d.t"),
        ("CREATE UNIQUE INDEX u ON d.t (b)", "SELECT COUNT(*) FROM d.t WHERE b IN (7, 400, 499)"),
        ("ALTER TABLE d.t ADD COLUMN e INT DEFAULT 5", "SELECT COUNT(*) FROM d.t WHERE e = 5"),
        ("RENAME TABLE d.t TO d.s", "SELECT COUNT(*) FROM d.s WHERE c LIKE 'c%'"),
        ("RENAME TABLE d.s TO d.t", "SELECT COUNT(*) FROM d.t WHERE c LIKE 'c%'"),
    ];
    for (change, question) in changes {
        let session = &mut open(&server);
        if change.starts_with("UPDATE") {
            // Definitions, and rows that are copied for them, are on the disk without that.
            all(session, &["SET nines_durability = disk"]);
        }
        all(session, &[change]);
        let before = number(session, question);
        server.kill();
        server = place.start();
        assert_eq!(number(&mut open(&server), question), before, "after {change}");
    }
    let session = &mut open(&server);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), 500);
    let twice = session.query("INSERT INTO d.t VALUES (1000, 7, '', 1)").unwrap_err();
    assert_eq!(twice.code(), Some(1062), "{twice}");
    all(session, &["TRUNCATE d.t"]);
    server.kill();
    server = place.start();
    let session = &mut open(&server);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), 0);
    all(session, &["DROP DATABASE d"]);
    server.kill();
    server = place.start();
    assert_eq!(open(&server).query("SELECT * FROM d.t").unwrap_err().code(), Some(1049));
}

#[test]
fn a_directory_is_used_by_one_process_and_as_it_was_made() {
    let place = Place::new();
    let mut server = place.start();
    let refusal = place.refusal(&[]);
    let me = server.process_id();
    assert!(refusal.contains(&format!("is in use by another process {me}")), "{refusal}");
    assert_eq!(server.stop("-INT"), Some(0));
    let refusal = place.refusal(&["--data-nodes=4"]);
    assert!(refusal.contains("holds a cluster of 2 data nodes"), "{refusal}");
    let refusal = place.refusal(&["--workers=3"]);
    assert!(refusal.contains("made with 2 workers"), "{refusal}");
    // What is not said is as it was, whatever machine this is.
    let mut server = Server::start_in(&place.0, &["--io=threads"]);
    assert!(server.greeting.join("\n").contains("(threads)"), "{:?}", server.greeting);
    assert_eq!(server.stop("-INT"), Some(0));
    let file = place.0.join("file");
    fs::write(&file, b"").unwrap();
    let below = Place(file.join("below"));
    let refusal = below.refusal(&[]);
    assert!(refusal.contains("file/below"), "{refusal}");
    std::mem::forget(below);
}

#[test]
fn a_directory_that_is_not_ours_is_left_alone() {
    let place = Place::new();
    let mut server = place.start();
    assert_eq!(server.stop("-INT"), Some(0));
    let identity = place.0.join("node-1/node");
    let sound = fs::read(&identity).unwrap();
    let refused = |bytes: &[u8], part: &str| {
        fs::write(&identity, bytes).unwrap();
        let refusal = place.refusal(&[]);
        assert!(refusal.contains("node-1") && refusal.contains(part), "{refusal}");
        assert_eq!(fs::read(&identity).unwrap(), bytes);
    };
    refused(&sound[..sound.len() - 1], "the file ends here");
    let mut newer = sound.clone();
    newer[8] = 77;
    refused(&newer, "format version 77");
    refused(&fs::read(place.0.join("node-2/node")).unwrap(), "data directory of node 2");
    fs::remove_file(&identity).unwrap();
    assert!(place.refusal(&[]).contains("not the data directory of a node"));
    fs::write(&identity, &sound).unwrap();
    fs::remove_file(place.0.join("cluster")).unwrap();
    assert!(place.refusal(&[]).contains("is missing"));
}

#[test]
fn a_damaged_file_is_not_used_and_its_rows_come_from_the_other_replica() {
    let place = Place::new();
    let mut server = place.start();
    let session = &mut open(&server);
    all(session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(99))"]);
    for first in (0..2_000).step_by(100) {
        let row = |n| format!("({n}, 'a row with the number {n}')");
        let rows: Vec<String> = (first..first + 100).map(row).collect();
        all(session, &[&format!("INSERT INTO d.t VALUES {}", rows.join(","))]);
    }
    all(session, &["SET nines_durability = disk", "INSERT INTO d.t VALUES (2000, '')"]);
    assert_eq!(server.stop("-TERM"), Some(0));
    let output = place.inspect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for worker in ["node-1/worker-0", "node-1/worker-1"] {
        damage_rows(&place.0.join(worker));
    }
    let output = place.inspect();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("BROKEN"), "{text}");
    let mut server = place.start();
    let session = &mut open(&server);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), 2_001);
    assert_eq!(number(session, "SELECT SUM(a) FROM d.t"), 2_000 * 2_001 / 2);
    server.kill();
    // The copy is as durable as what was there before.
    let server = place.start();
    assert_eq!(number(&mut open(&server), "SELECT COUNT(*) FROM d.t"), 2_001);
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let place = Place::new();
    if !fill_a_disk(&place.0, &options("--io=auto")) {
        println!("skipped: nothing can be mounted here");
    }
}

/// Fills a small disk, and gives it space again; false where nothing can be mounted.
pub(crate) fn fill_a_disk(directory: &Path, options: &[&str]) -> bool {
    let Some(server) = Server::start_on_small_disk(directory, 64, options) else { return false };
    let session = &mut open(&server);
    all(session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(4000))"]);
    let row = |n| format!("({n}, REPEAT(MD5(RAND()), 100))");
    let mut rows = 0;
    let refusal = loop {
        let insert: Vec<String> = (rows..rows + 100).map(row).collect();
        match session.query(&format!("INSERT INTO d.t VALUES {}", insert.join(","))) {
            Ok(_) => rows += 100,
            Err(refusal) => break refusal,
        }
        assert!(rows < 100_000, "the disk is never full");
    };
    assert_eq!(refusal.code(), Some(1021), "{refusal}");
    // Reads go on, and what was acknowledged is there, whole statements only.
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), rows);
    let refusal = session.query("DELETE FROM d.t WHERE a = 1").expect_err("it is full");
    assert_eq!(refusal.code(), Some(1021), "{refusal}");
    let ballast = server.file_of_server(&directory.join("disk/ballast"));
    fs::remove_file(ballast).expect("it is there");
    let began = Instant::now();
    while let Err(refusal) = session.query("DELETE FROM d.t WHERE a = 1") {
        assert_eq!(refusal.code(), Some(1021), "{refusal}");
        assert!(began.elapsed() < Duration::from_secs(60), "it does not go on by itself");
        thread::sleep(Duration::from_millis(100));
    }
    all(session, &["SET nines_durability = disk", "DELETE FROM d.t WHERE a = 2"]);
    assert_eq!(number(session, "SELECT COUNT(*) FROM d.t"), rows - 2);
    true
}

/// Flips a bit of the first row that is found in each file of a worker's redo log.
fn damage_rows(worker: &Path) {
    for entry in fs::read_dir(worker).expect("the directory is there") {
        let path = entry.expect("it can be read").path();
        let mut bytes = fs::read(&path).expect("it can be read");
        let row = b"a row with the number";
        if let Some(at) = bytes.windows(row.len()).position(|window| window == row) {
            bytes[at] ^= 4;
            fs::write(&path, bytes).expect("it can be written");
        }
    }
}
