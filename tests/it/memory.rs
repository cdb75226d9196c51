//! Statements that want all the memory there is: they fail, the server and everybody else go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::{Server, Session};

/// Statements that would take more than the host has, over tables `d.t` of 4,000 rows. Without
/// temporary files all fail with 3170 alone, whatever else runs.
const HOSTILE: [&str; 14] = [
    "SELECT * FROM d.t a, d.t b, d.t c ORDER BY a.word, b.word, c.word",
    "SELECT DISTINCT a.word, b.word, c.id FROM d.t a, d.t b, d.t c LIMIT 18446744073709551000, 1",
    "SELECT a.id, b.id, COUNT(*) FROM d.t a, d.t b, d.t c GROUP BY a.id, b.id, c.id",
    "SELECT GROUP_CONCAT(a.word, b.word ORDER BY b.id) FROM d.t a, d.t b, d.t c",
    "SELECT COUNT(DISTINCT a.id * 4000 + b.id, c.word) FROM d.t a, d.t b, d.t c",
    "SELECT JSON_ARRAYAGG(REPEAT('j', 100000)) FROM d.t a, d.t b",
    "SELECT SUM(x) OVER (ORDER BY y) FROM \
     (SELECT a.id x, b.id y FROM d.t a, d.t b LIMIT 9000000) t",
    "SELECT a.id FROM d.t a, d.t b UNION SELECT a.id + b.id * 4000 FROM d.t a, d.t b",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n, 'x' AS s UNION ALL SELECT n + 1, 'y' FROM r, d.t) \
     SELECT 1 FROM r",
    "SELECT REPEAT('a', 60000000), REPEAT('b', 60000000), REPEAT('c', 60000000)",
    "SELECT LENGTH(CONCAT(REPEAT('a', 30000000), REPEAT('b', 30000000))), id FROM d.t",
    "INSERT INTO d.sink SELECT s.id, a.word, b.word FROM d.t a JOIN d.t b \
     LEFT JOIN d.sink s ON s.id = a.id",
    "UPDATE d.t a, d.t b SET a.word = b.word",
];

#[test]
fn hostile_statements_fail_alone() {
    // Two workers: every other statement has a hostile one beside it.
    let server = Server::start(&["--query-memory=48M", "--data-memory=256M", "--workers=2"]);
    server.sql(
        "SET GLOBAL nines_temp_space = 0; \
         CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, word VARCHAR(100)); \
         CREATE TABLE d.sink (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(100), b VARCHAR(100)); \
         SET cte_max_recursion_depth = 10000; INSERT INTO d.t WITH RECURSIVE n AS (SELECT 1 AS i \
         UNION ALL SELECT i + 1 FROM n WHERE i < 4000) SELECT i, CONCAT(REPEAT('w', 40), i) FROM n",
    );
    let over = Arc::new(AtomicBool::new(false));
    let others = thread::spawn({
        let (socket, over) = (server.socket.clone(), over.clone());
        move || serve(&mut Session::connect(&socket).expect("it is served"), &over)
    });
    let before = resident(&server, "VmRSS");
    let mut hostile = Vec::new();
    for part in 0..2 {
        let socket = server.socket.clone();
        hostile.push(thread::spawn(move || {
            let mut session = Session::connect(&socket).expect("it is served");
            session.query("SET cte_max_recursion_depth = 4294967295").expect("a number");
            session.query("SET group_concat_max_len = 18446744073709551615").expect("a number");
            for query in HOSTILE.iter().skip(part).step_by(2) {
                let error = session.query(query).map(|_| query).expect_err("there is a budget");
                assert_eq!(error.code(), Some(3170), "{query}: {error}");
                let text = error.to_string();
                assert!(text.contains("exceeded"), "{query}: {text}");
            }
            session.number("SELECT COUNT(*) FROM d.sink").expect("the connection lives")
        }));
    }
    for session in hostile {
        assert_eq!(session.join().expect("it says what is wrong"), 0, "nothing is left behind");
    }
    over.store(true, Ordering::Relaxed);
    let (served, longest) = others.join().expect("it says what is wrong");
    assert!(served > 20, "{served} statements were served beside, the longest in {longest:?}");
    let mut session = server.session().expect("it lives");
    assert_eq!(session.number("SELECT COUNT(*) FROM d.t WHERE word LIKE 'w%'").ok(), Some(4000));
    assert_eq!(status(&mut session, "Nines_query_memory_used"), 0);
    assert_eq!(status(&mut session, "Nines_query_memory_limit"), 48 << 20);
    assert!(status(&mut session, "Nines_query_memory_peak") <= 48 << 20);
    assert!(status(&mut session, "Nines_query_memory_peak") > 40 << 20);
    assert!(status(&mut session, "Nines_query_memory_refused") >= 10);
    let grown = resident(&server, "VmHWM").saturating_sub(before);
    println!("{served} served beside, longest {longest:?}; {} MB more at most", grown >> 10);
    assert!(grown < 400 << 10, "{grown} kB more than before, with a budget of 48 MB");
}

/// Statements that write more rows than an SQL node may hold: they take what a part of them takes.
#[test]
fn changes_of_many_rows_stream() {
    let server = Server::start(&["--query-memory=16M", "--workers=2"]);
    let mut session = server.session().expect("it is served");
    let mut run = |query: &str| session.query(query).unwrap_or_else(|e| panic!("{query}: {e}"));
    run("CREATE DATABASE d");
    run("CREATE TABLE d.t (id INT PRIMARY KEY, n INT, word VARCHAR(100), KEY (n))");
    run("SET cte_max_recursion_depth = 10000");
    run("INSERT INTO d.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
         WHERE i < 4000) SELECT i, i, CONCAT(REPEAT('w', 60), i) FROM n");
    // A table grows from itself: no scan meets what the statement has added.
    for rows in [4_000, 8_000, 16_000, 32_000, 64_000] {
        run(&format!("INSERT INTO d.t SELECT id + {rows}, n + {rows}, word FROM d.t"));
    }
    run("CREATE TABLE d.copy (PRIMARY KEY (id)) AS SELECT * FROM d.t");
    run("REPLACE INTO d.copy SELECT id, n + 1, word FROM d.t WHERE id <= 100000");
    // Rows move up in the index that they are found by, and are met once.
    run("UPDATE d.t SET n = n + 200000 WHERE n > 0");
    run("UPDATE d.t SET word = 'x'");
    run("BEGIN");
    run("DELETE FROM d.copy");
    run("UPDATE d.t SET n = 0");
    run("ROLLBACK");
    run("DELETE FROM d.copy WHERE id > 10000");
    let mut number = |query: &str| session.number(query).unwrap_or_else(|e| panic!("{query}: {e}"));
    assert_eq!(number("SELECT COUNT(*) FROM d.t WHERE n = id + 200000 AND word = 'x'"), 128_000);
    assert_eq!(number("SELECT COUNT(*) FROM d.copy WHERE n = id + 1"), 10_000);
    assert!(status(&mut session, "Nines_query_memory_peak") <= 16 << 20);
    assert_eq!(status(&mut session, "Nines_query_memory_used"), 0);
}

/// Point statements one after the other; how many, and the longest.
fn serve(session: &mut Session, over: &AtomicBool) -> (u32, Duration) {
    let (mut served, mut longest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let id = served % 4000 + 1;
        let query = format!("SELECT id FROM d.t WHERE id = {id}");
        assert_eq!(session.number(&query).ok(), Some(id.into()), "others are served");
        longest = longest.max(began.elapsed());
        served += 1;
        thread::sleep(Duration::from_millis(1));
    }
    (served, longest)
}

fn status(session: &mut Session, name: &str) -> i64 {
    let query = format!(
        "SELECT variable_value FROM performance_schema.global_status WHERE variable_name = '{name}'"
    );
    session.number(&query).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Kilobytes of the server's memory, as the system counts them.
fn resident(server: &Server, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id()));
    let status = status.expect("it lives");
    let line = status.lines().find(|line| line.starts_with(what)).expect("Linux has it");
    let number = line.split_whitespace().nth(1).expect("a number follows");
    number.parse().expect("it is one")
}
