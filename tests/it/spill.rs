//! Statements whose rows do not fit memory go to temporary files of the process, which nothing
//! outlives.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use tests::{Server, Session, TextRow, all, number, temporary_directory};

/// A table of 60,000 rows whose texts are easily recognised.
const TABLE: [&str; 4] = [
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, k INT, word VARCHAR(200))",
    "SET cte_max_recursion_depth = 100000",
    "INSERT INTO d.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
     WHERE i < 60000) \
     SELECT i, i * 7919 % 30000, CONCAT(REPEAT('recognised ', 5), i * 7919 % 60000) FROM n",
];

/// Less than any of the statements needs.
const LITTLE: &str =
    "SET SESSION connection_memory_limit = 2097152, nines_operator_memory = 1048576";

/// Statements over that table, one for each way through operators.
const STATEMENTS: [&str; 12] = [
    "SELECT word, id FROM d.t ORDER BY word DESC, id",
    "SELECT id FROM d.t ORDER BY CONCAT(word, k), id",
    "SELECT DISTINCT word FROM d.t ORDER BY word",
    "SELECT COUNT(*), SUM(CRC32(w)) FROM (SELECT DISTINCT CONCAT(word, 'x') w FROM d.t) s",
    "SELECT k, COUNT(*), MIN(word), SUM(id) FROM d.t GROUP BY k ORDER BY k",
    "SELECT word, COUNT(DISTINCT k), GROUP_CONCAT(id) FROM d.t GROUP BY word ORDER BY word",
    "SELECT COUNT(*), SUM(CRC32(a.word)), SUM(CRC32(b.word)) FROM d.t a JOIN d.t b ON a.k = b.k",
    "SELECT COUNT(*), SUM(a.id), SUM(CRC32(b.word)) FROM d.t a JOIN d.t b ON a.word = b.word",
    "SELECT COUNT(*), COUNT(b.id), SUM(CRC32(a.word)), SUM(CRC32(b.word)) FROM d.t a \
     LEFT JOIN d.t b ON a.k = b.k + 15000 AND a.word < b.word",
    "SELECT COUNT(*), SUM(c) FROM (SELECT a.k, b.word, COUNT(*) c FROM d.t a JOIN d.t b \
     ON a.k = b.k GROUP BY a.k, b.word) g",
    "SELECT COUNT(*), SUM(CRC32(word)) FROM (SELECT word FROM d.t UNION SELECT CONCAT(word, k) \
     FROM d.t EXCEPT SELECT word FROM d.t WHERE id % 2 = 0) u",
    "SELECT SUM(r), SUM(CRC32(l)) FROM (SELECT RANK() OVER (PARTITION BY k % 1000 \
     ORDER BY word) r, LAG(word) OVER (PARTITION BY k % 1000 ORDER BY word) l FROM d.t) w",
];

fn ask(session: &mut Session, statement: &str) -> Vec<TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

fn status(session: &mut Session, name: &str) -> i64 {
    let rows = ask(session, &format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    rows[0][1].as_deref().and_then(|text| text.parse().ok()).unwrap_or(-1)
}

#[test]
fn answers_are_the_same_in_little_memory() {
    let server = Server::start(&["--data-memory=256M"]);
    let mut session = server.session().expect("it is served");
    all(&mut session, &TABLE);
    let expected: Vec<Vec<TextRow>> = STATEMENTS.iter().map(|s| ask(&mut session, s)).collect();
    assert_eq!(status(&mut session, "Nines_temp_space_written"), 0);
    for pushdown in ["ON", "OFF"] {
        let mut session = server.session().expect("it is served");
        all(&mut session, &[LITTLE, &format!("SET SESSION nines_pushdown = {pushdown}")]);
        for (statement, expected) in STATEMENTS.iter().zip(&expected) {
            let before = status(&mut session, "Nines_temp_space_written");
            let rows = ask(&mut session, statement);
            assert!(rows == *expected, "pushdown {pushdown}: {statement}");
            let written = status(&mut session, "Nines_temp_space_written") - before;
            println!("pushdown {pushdown}: {written} bytes written by {statement}");
            assert!(written > 100_000, "{written} bytes for {statement}");
        }
    }
    assert_eq!(status(&mut session, "Nines_temp_space_used"), 0);
    assert_eq!(status(&mut session, "Nines_query_memory_used"), 0);
    assert!(status(&mut session, "Created_tmp_disk_tables") >= 24);
}

/// Conditions with a subquery for each row of a table, of which memory takes only a part at a time:
/// the subquery is run for one piece of the rows after the other. Data nodes look only for rows
/// with the keys of the piece.
const SUBQUERIES: [&str; 6] = [
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE EXISTS \
     (SELECT * FROM d.t b WHERE b.k = a.k AND b.word <> a.word AND b.id < 40000)",
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE NOT EXISTS \
     (SELECT * FROM d.t b WHERE b.k = a.k AND b.word <> a.word AND b.id < 40000)",
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE a.word = \
     (SELECT MAX(b.word) FROM d.t b WHERE b.k = a.k)",
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE a.id >= \
     (SELECT AVG(b.id) FROM d.t b WHERE b.k = a.k)",
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE a.id IN \
     (SELECT b.id + 30000 FROM d.t b WHERE b.k = a.k)",
    "SELECT COUNT(*), SUM(a.id) FROM d.t a WHERE a.id NOT IN \
     (SELECT b.id FROM d.t b WHERE b.k = a.k AND b.word <> a.word)",
];

#[test]
fn subqueries_are_answered_piece_by_piece_in_little_memory() {
    let server = Server::start(&["--data-memory=256M"]);
    let mut session = server.session().expect("it is served");
    all(&mut session, &TABLE);
    let expected: Vec<Vec<TextRow>> = SUBQUERIES.iter().map(|s| ask(&mut session, s)).collect();
    let mut session = server.session().expect("it is served");
    all(&mut session, &[LITTLE]);
    for (statement, expected) in SUBQUERIES.iter().zip(&expected) {
        let rows = ask(&mut session, statement);
        assert!(rows == *expected, "{statement}");
        assert_ne!(rows[0][0].as_deref(), Some("0"), "{statement}");
    }
    assert_eq!(status(&mut session, "Nines_query_memory_used"), 0);
}

#[test]
fn a_null_among_very_many_rows_is_not_in_an_empty_subquery() {
    let server = Server::start(&["--data-memory=256M"]);
    let mut session = server.session().expect("it is served");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.many (id INT PRIMARY KEY, k INT)",
            "CREATE TABLE d.few (id INT PRIMARY KEY, k INT)",
            "SET cte_max_recursion_depth = 300000",
            "INSERT INTO d.many WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 250000) SELECT i, i % 1000 FROM n",
            "INSERT INTO d.few WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 2 FROM n \
             WHERE i < 998) SELECT -i, i FROM n",
        ],
    );
    // Wherever a row stands among the others: NULL is in no set without members, and of any other
    // set nobody knows. Sets of odd numbers have none.
    for id in [1, 50_001, 120_003, 199_999, 249_999, 2, 77_778, 250_000] {
        let rows = ask(
            &mut session,
            &format!(
                "SELECT COUNT(*) FROM d.many m WHERE NULLIF(m.id, {id}) NOT IN \
                 (SELECT f.id FROM d.few f WHERE f.k = m.k)"
            ),
        );
        let expected = if id % 2 == 1 { "250000" } else { "249999" };
        assert_eq!(rows[0][0].as_deref(), Some(expected), "{id}");
    }
}

#[test]
fn keys_of_one_piece_do_not_narrow_the_next() {
    let server = Server::start(&["--data-memory=256M"]);
    let mut session = server.session().expect("it is served");
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.o (id INT PRIMARY KEY, k INT, k2 INT)",
            "CREATE TABLE d.x (id INT PRIMARY KEY, k INT, a INT)",
            "CREATE TABLE d.y (id INT PRIMARY KEY, k2 INT, a INT)",
            "SET cte_max_recursion_depth = 300000",
            "INSERT INTO d.o WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
             WHERE i < 250000) SELECT i, i, i FROM n",
            "INSERT INTO d.o SELECT id + 250000, id + 250000, id + 250000 FROM d.o",
            "INSERT INTO d.y SELECT id, id, 1 FROM d.o",
            "INSERT INTO d.x VALUES (1, 0, 1)",
            "ANALYZE TABLE d.o, d.x, d.y",
        ],
    );
    // No other table has rows for most pieces, so that the larger one is not read for these.
    for id in [2, 100_002, 200_003, 300_005, 400_007, 499_999] {
        ask(&mut session, &format!("UPDATE d.x SET k = {id}"));
        let rows = ask(
            &mut session,
            "SELECT COUNT(*), MAX(o.id) FROM d.o WHERE EXISTS \
             (SELECT * FROM d.x JOIN d.y ON x.a = y.a WHERE x.k = o.k AND y.k2 = o.k2)",
        );
        let expected: TextRow = vec![Some("1".into()), Some(id.to_string())];
        assert_eq!(rows, [expected], "{id}");
    }
}

/// The temporary files that a process has open in a directory.
fn open_files(server: &Server, directory: &Path) -> Vec<PathBuf> {
    let descriptors = format!("/proc/{}/fd", server.process_id());
    let entries = fs::read_dir(descriptors).expect("it runs").flatten().map(|entry| entry.path());
    let is_there =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target.starts_with(directory));
    entries.filter(is_there).collect()
}

/// Has a statement wait in the middle, with its rows in files.
fn begin_to_sort(server: &Server) -> JoinHandle<()> {
    let mut session = server.session().expect("it is served");
    all(&mut session, &[LITTLE]);
    let statement = "SELECT word, SLEEP(id >= 0) FROM (SELECT word, id FROM d.t \
                     ORDER BY word DESC, id LIMIT 59999) s";
    thread::spawn(move || {
        session.query(statement).expect_err("the server is killed");
    })
}

#[test]
fn files_have_no_names_and_are_encrypted_where_data_is() {
    for encrypts in [false, true] {
        let (data, key) = (temporary_directory(), temporary_directory().join("key"));
        fs::create_dir_all(key.parent().expect("it has one")).expect("it is writable");
        fs::write(&key, "7".repeat(64)).expect("it is writable");
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&key, mode).expect("it is ours");
        let key = format!("--encryption-key-file={}", key.display());
        let more: &[&str] = if encrypts { &[&key] } else { &[] };
        let options = [&["--data-memory=256M"], more].concat();
        let directory = data.join("data");
        let mut server = Server::start_in(&directory, &options);
        all(&mut server.session().expect("it is served"), &TABLE);
        let sorting = begin_to_sort(&server);
        let tmp = directory.join("tmp");
        let began = std::time::Instant::now();
        let mut files = Vec::new();
        while files.is_empty() {
            assert!(began.elapsed().as_secs() < 60, "nothing is written");
            files = open_files(&server, &tmp);
        }
        let file = fs::File::open(&files[0]).expect("it is ours");
        let about = file.metadata().expect("it is open");
        assert_eq!((about.mode() & 0o777, about.nlink()), (0o600, 0));
        while file.metadata().expect("it is open").len() < 100_000 {
            assert!(began.elapsed().as_secs() < 60, "nothing is written");
        }
        let mut bytes = vec![0; 60_000];
        file.read_exact_at(&mut bytes, 0).expect("it is there");
        let is_plain = bytes.windows(21).any(|part| part == b"recognised recognised");
        assert_eq!(is_plain, !encrypts);
        assert_eq!(fs::read_dir(&tmp).expect("it is there").count(), 0, "files have no names");
        server.kill();
        sorting.join().expect("its connection is lost");
        assert_eq!(fs::read_dir(&tmp).expect("it is there").count(), 0);
        fs::write(tmp.join("nines-spill-4711-0"), []).expect("it is ours");
        let server = Server::start_in(&directory, &options);
        assert_eq!(fs::read_dir(&tmp).expect("it is there").count(), 0, "what was left is gone");
        let mut session = server.session().expect("it is served");
        assert_eq!(number(&mut session, "SELECT COUNT(*) FROM d.t"), 60_000);
        drop(server);
        fs::remove_dir_all(data).expect("it is ours");
    }
}

#[test]
fn a_full_disk_ends_the_statement_alone() {
    let directory = temporary_directory();
    let options = ["--data-memory=64M", "--workers=1"];
    let Some(server) = Server::start_on_small_disk(&directory, 96, &options) else { return };
    let mut session = server.session().expect("it is served");
    let other = &mut server.session().expect("it is served");
    all(&mut session, &["SET cte_max_recursion_depth = 100000", LITTLE]);
    let sorted = |rows: u32| {
        format!(
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
             SELECT COUNT(*) FROM (SELECT a.i x, REPEAT('x', 200) y FROM n a, n b \
             ORDER BY y, a.i * b.i LIMIT {rows}) s"
        )
    };
    let error = session.query(&sorted(900_000)).expect_err("the disk is small");
    assert_eq!(error.code(), Some(1021), "{error}");
    let text = error.to_string();
    assert!(text.contains("disk/data/tmp") && text.contains("TempDir"), "{text}");
    // The connection lives, and so do the others; the disk has its space again.
    assert_eq!(number(&mut session, "SELECT 1 + 1"), 2);
    all(other, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    // A data node that shares the disk may have seen it full for a moment.
    let began = std::time::Instant::now();
    while let Err(refusal) = other.query("INSERT INTO d.t VALUES (1)") {
        assert_eq!(refusal.code(), Some(1021), "{refusal}");
        assert!(began.elapsed().as_secs() < 60, "it does not go on by itself");
        thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(status(other, "Nines_temp_space_used"), 0);
    let peak = status(other, "Nines_temp_space_peak");
    assert!(peak > 4 << 20, "{peak}");
    drop(server);
    fs::remove_dir_all(directory).expect("it is ours");
}
