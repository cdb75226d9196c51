//! Statements that would take for ever end when they are told to, whatever they are doing.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tests::{Server, Session};

/// Long statements over `d.t` of 2,000 rows, each long at another place.
const LONG: [&str; 11] = [
    "SELECT COUNT(*) FROM d.t a, d.t b, d.t c WHERE a.id + b.id + c.id < 0",
    "SELECT COUNT(*) FROM d.t a, d.t b, d.t c WHERE CONCAT(a.id, b.id, c.id) = 'x'",
    "SELECT COUNT(*) FROM d.t a, d.t b WHERE a.word REGEXP CONCAT('(', b.word, '|w*)*x')",
    "SELECT a.id FROM d.t a, d.t b, d.t c ORDER BY SHA2(CONCAT(a.word, b.word), 512), c.id LIMIT 9",
    "SELECT MAX(n) FROM (SELECT COUNT(*) n FROM d.t a, d.t b, d.t c GROUP BY a.id, b.id % 7) g",
    "SELECT COUNT(DISTINCT a.id % 10, b.id % 10) FROM d.t a, d.t b, d.t c",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT (n + 1) % 9 FROM r) \
     SELECT n FROM r LIMIT 1, 1",
    "SELECT MAX(s) FROM (SELECT SUM(b.id) OVER (ORDER BY b.id ROWS BETWEEN 999 PRECEDING AND \
     CURRENT ROW) s FROM d.t a, d.t b LIMIT 4000000) w",
    "SELECT COUNT(*) FROM d.t a WHERE \
     (SELECT COUNT(*) FROM d.t b, d.t c WHERE b.id + c.id < a.id * -1) > 0",
    "SELECT COUNT(*) FROM d.t a JOIN d.t b ON a.word LIKE CONCAT('%', b.id, 'q%') JOIN d.t c",
    "SELECT LENGTH(GROUP_CONCAT(DISTINCT a.id % 5, b.id % 5)) FROM d.t a, d.t b, d.t c",
];

/// Liveness, not speed: other tests run at the same time.
const SOON: Duration = Duration::from_secs(5);

fn server() -> Server {
    let server = Server::start(&["--workers=2", "--data-memory=256M"]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, word VARCHAR(100)); SET \
         cte_max_recursion_depth = 10000; INSERT INTO d.t WITH RECURSIVE n AS (SELECT 1 AS i UNION \
         ALL SELECT i + 1 FROM n WHERE i < 2000) SELECT i, CONCAT(REPEAT('w', 40), i) FROM n",
    );
    server
}

fn session(server: &Server, pushdown: &str) -> Session {
    let mut session = server.session().expect("it is served");
    for set in [
        &format!("SET nines_pushdown = {pushdown}"),
        "SET cte_max_recursion_depth = 4294967295",
        "SET group_concat_max_len = 1000000",
    ] {
        session.query(set).expect("a variable");
    }
    session
}

#[test]
fn long_statements_obey_their_time_limit() {
    let server = server();
    for pushdown in ["ON", "OFF"] {
        let mut session = session(&server, pushdown);
        session.query("SET max_execution_time = 300").expect("a number");
        for query in LONG {
            let began = Instant::now();
            let error = session.query(query).map(|_| query).expect_err("it takes longer");
            assert_eq!(error.code(), Some(3024), "{pushdown} {query}: {error}");
            assert!(began.elapsed() < SOON, "{pushdown} {query}: {:?}", began.elapsed());
        }
    }
}

#[test]
fn long_statements_are_killed_at_once() {
    let server = server();
    let mut other = server.session().expect("it is served");
    for query in LONG {
        let mut session = session(&server, "ON");
        let id = session.number("SELECT CONNECTION_ID()").expect("a number");
        let running = thread::spawn(move || session.query(query).map(|_| query));
        await_statement(&mut other, &format!("id = {id} AND info IS NOT NULL"), 1);
        thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        other.query(&format!("KILL QUERY {id}")).expect("it is there");
        let error = running.join().expect("it ends").expect_err("it takes longer");
        assert_eq!(error.code(), Some(1317), "{query}: {error}");
        assert!(began.elapsed() < SOON, "{query}: {:?}", began.elapsed());
    }
}

#[test]
fn a_statement_ends_with_its_client() {
    let server = server();
    let mut other = server.session().expect("it is served");
    for query in LONG {
        let mut client = server.client("mysql");
        client.arg("--init-command=SET cte_max_recursion_depth = 4294967295");
        client.args(["-e", query]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = client.spawn().expect("the client is installed by `cargo xtask test`");
        let is_it = "command = 'Query' AND info NOT LIKE '%processlist%'";
        await_statement(&mut other, is_it, 1);
        client.kill().expect("it is ours");
        client.wait().expect("it has ended");
        await_statement(&mut other, is_it, 0);
    }
    let used = "SELECT variable_value FROM performance_schema.global_status WHERE variable_name = \
                'Nines_query_memory_used'";
    assert_eq!(other.number(used).ok(), Some(0));
}

/// Waits until so many connections run statements like this.
fn await_statement(session: &mut Session, which: &str, count: i64) {
    let query = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE {which}");
    let began = Instant::now();
    while session.number(&query).expect("a number") != count {
        assert!(began.elapsed() < SOON, "{which}: not {count}");
        thread::sleep(Duration::from_millis(5));
    }
}
