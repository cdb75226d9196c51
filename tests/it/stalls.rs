//! One statement does not keep the worker from the others, whatever it computes: it is killed
//! wherever it is, its client may go, and what has no end is refused. How long it keeps the worker
//! is counted in `slices`.

use std::thread;
use std::time::Duration;

use tests::{Server, all, number};

/// A server with one worker, so that all sessions share it.
fn server() -> Server {
    let server = Server::start(&["--workers=1", "--data-memory=256M"]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT, word VARCHAR(200)); SET \
         cte_max_recursion_depth = 10000; INSERT INTO d.t WITH RECURSIVE c AS (SELECT 1 AS i UNION \
         ALL SELECT i + 1 FROM c WHERE i < 4000) SELECT i, i, REPEAT('w', 100) FROM c",
    );
    server
}

fn listed(count: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(separator)
}

#[test]
fn a_statement_is_killed_wherever_it_is() {
    let server = server();
    let mut other = server.session().expect("it is served");
    let tables = listed(61, ",", |at| format!("d.t a{at}"));
    let likes = listed(3_000, " OR ", |at| format!("a.word LIKE CONCAT('%{at}q', b.id, '%')"));
    let (calls, ends) = ("REPLACE(".repeat(150), ",'w','w')".repeat(150));
    let nested = format!("LENGTH({calls}CONCAT(a.word, b.id){ends}) < 0");
    for statement in [
        format!("SELECT COUNT(*) FROM {tables}"),
        format!("SELECT COUNT(*) FROM d.t a, d.t b WHERE {likes}"),
        format!("SELECT COUNT(*) FROM d.t a, d.t b WHERE {nested}"),
    ] {
        let mut session = server.session().expect("it is served");
        let id = number(&mut session, "SELECT CONNECTION_ID()");
        let running = thread::spawn(move || session.query(&statement).map(drop));
        let runs = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info IS NOT \
             NULL"
        );
        while number(&mut other, &runs) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        all(&mut other, &[&format!("KILL QUERY {id}")]);
        let error = running.join().expect("it ends").expect_err("it would take for ever");
        assert_eq!(error.code(), Some(1317), "{error}");
    }
}

#[test]
fn joins_have_the_limit_of_mysql() {
    let server = server();
    let mut session = server.session().expect("it is served");
    let join = |count| {
        let tables = listed(count, ",", |at| format!("d.t a{at}"));
        let ties = listed(count - 1, " AND ", |at| format!("a{}.id = a{at}.n", at + 1));
        format!("SELECT COUNT(*) FROM {tables} WHERE a0.id = 3 AND {ties}")
    };
    assert_eq!(number(&mut session, &join(61)), 1);
    let error = session.query(&join(62)).expect_err("it is one too many");
    assert_eq!(error.code(), Some(1116), "{error}");
}

/// All that goes through an expression calls itself for each of its levels.
#[test]
fn no_statement_makes_an_expression_too_high_for_the_stack() {
    let server = server();
    let mut session = server.session().expect("it is served");
    let row = |column: &str| vec![column; 50_000].join(",");
    let error = session
        .query(&format!("SELECT COUNT(*) FROM d.t WHERE ({}) < ({})", row("id"), row("n")))
        .expect_err("it is too high");
    assert_eq!(error.code(), Some(1235), "{error}");
    let row = |column: &str| vec![column; 256].join(",");
    let less = format!("SELECT COUNT(*) FROM d.t WHERE ({}) < ({},5)", row("id"), row("n"));
    assert_eq!(session.query(&less).expect_err("257 values").code(), Some(1241));
    let less = format!("SELECT COUNT(*) FROM d.t WHERE ({}) <= ({})", row("id"), row("n"));
    assert_eq!(number(&mut session, &less), 4_000);
}

/// What nests is refused before a stack ends, whatever it is: an error, and never the end of the
/// server.
#[test]
fn nothing_nests_too_deep_for_the_stack() {
    let server = server();
    let mut session = server.session().expect("it is served");
    let around = |count: usize, before: &str, inner: &str, after: &str| {
        format!("{}{inner}{}", before.repeat(count), after.repeat(count))
    };
    let forms: [(&str, &str, &str); 14] = [
        ("(", "1", ")"),
        ("(SELECT ", "1", ")"),
        ("(SELECT MAX(a) FROM (SELECT 1 a) x WHERE a = ", "1", ")"),
        (
            "(SELECT a FROM d.t x WHERE EXISTS (SELECT 1 FROM d.t WHERE id = x.id AND n = ",
            "1",
            "))",
        ),
        ("1 IN (SELECT ", "1", ")"),
        ("NOT ", "1", ""),
        ("-", "1", ""),
        ("ABS(", "1", ")"),
        ("CASE WHEN 1 THEN ", "1", " END"),
        ("1 + (", "1", ")"),
        ("CAST(", "1", " AS SIGNED)"),
        ("(1, 2) = (1, ", "1", ")"),
        ("IF(1, ", "1", ", 0)"),
        ("JSON_ARRAY(", "1", ")"),
    ];
    for count in [10, 60, 70, 130, 190, 390, 2_000, 100_000] {
        for (before, inner, after) in &forms {
            // It is answered, or refused.
            let statement = format!("SELECT {}", around(count, before, inner, after));
            let _ = session.query(&statement);
            let from = around(count, "SELECT * FROM (", "SELECT 1 a", ") x");
            let _ = session.query(&from);
        }
        let common = listed(count.min(5_000), ",", |at| match at {
            0 => "c0 AS (SELECT 1 a)".to_owned(),
            _ => format!("c{at} AS (SELECT a + 1 a FROM c{} LIMIT 5)", at - 1),
        });
        let last = count.min(5_000) - 1;
        let _ = session.query(&format!("WITH {common} SELECT a FROM c{last}"));
        let json = around(count, "[", "1", "]");
        let _ = session.query(&format!("SELECT JSON_DEPTH('{json}')"));
        let text = format!("SELECT 'a' REGEXP '{}'", around(count, "(", "a", ")"));
        let _ = session.query(&text);
    }
    assert_eq!(number(&mut session, "SELECT n FROM d.t WHERE id = 3"), 3);
    // A view of a view.
    all(&mut session, &["CREATE VIEW d.v0 AS SELECT COUNT(*) a FROM d.t"]);
    let refused = (1..1_000).find_map(|at| {
        let query = format!("SELECT COUNT(*) + MAX(a) a FROM d.v{}", at - 1);
        session.query(&format!("CREATE VIEW d.v{at} AS {query}")).err().map(|error| (at, error))
    });
    let (at, error) = refused.expect("there is an end of it");
    assert_eq!(error.code(), Some(1473), "{error}");
    let sum = number(&mut session, &format!("SELECT a FROM d.v{}", at - 2));
    assert_eq!(sum, 4_000 + at as i64 - 2);
    // One that is made higher from below.
    all(&mut session, &["CREATE OR REPLACE VIEW d.v0 AS SELECT MAX(b) a FROM (SELECT 1 b) x"]);
    let error = session.query(&format!("SELECT a FROM d.v{}", at - 2)).expect_err("it is higher");
    assert!(matches!(error.code(), Some(1356 | 1473)), "{error}");
}

/// A client that goes while its statement is in the middle of a call leaves nothing behind.
#[test]
fn a_client_may_go_at_any_time() {
    let server = server();
    let mut other = server.session().expect("it is served");
    let ands = vec!["id > 0"; 200_000].join(" AND ");
    for _ in 0..4 {
        let session = server.session().expect("it is served");
        let mut stream = session.into_stream();
        let text = format!("SELECT COUNT(*) FROM d.t WHERE {ands}");
        let length = (text.len() + 1) as u32;
        let mut packet = length.to_le_bytes()[..3].to_vec();
        packet.extend([0, 3]);
        packet.extend(text.as_bytes());
        std::io::Write::write_all(&mut stream, &packet).expect("it is read");
        drop(stream);
    }
    while number(&mut other, "SELECT COUNT(*) FROM information_schema.processlist") > 1 {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(number(&mut other, "SELECT n FROM d.t WHERE id = 3"), 3);
}

#[test]
fn a_line_of_many_megabytes_is_read_once() {
    let server = server();
    let directory = tests::temporary_directory();
    let file = directory.join("line.txt");
    std::fs::write(&file, vec![b'A'; 20 << 20]).expect("the directory is writable");
    let mut reader = server.session().expect("it is served");
    server.sql("CREATE TABLE d.l (a VARCHAR(100), b INT)");
    let mut client = server.client("mysql");
    client.arg("--local-infile=1");
    server.sql("SET GLOBAL local_infile = 1");
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE d.l", file.display());
    client.args(["-e", &load]);
    let mut loading = client.spawn().expect("the client is installed by `cargo xtask test`");
    let mut reads = 0;
    while loading.try_wait().expect("it is ours").is_none() {
        assert_eq!(number(&mut reader, "SELECT n FROM d.t WHERE id = 3"), 3);
        reads += 1;
    }
    assert!(loading.wait().expect("it is ours").success() && reads > 0);
    assert_eq!(number(&mut reader, "SELECT LENGTH(a) FROM d.l"), 100);
    let _ = std::fs::remove_dir_all(directory);
}

/// As in MySQL: the call that is interrupted is 1 where it is all there is, and ends a statement
/// that would go on.
#[test]
fn a_kill_ends_sleep_and_what_is_behind_it() {
    let server = server();
    let mut other = server.session().expect("it is served");
    for (statement, code) in
        [("SELECT SLEEP(1000)", None), ("SELECT SLEEP(1000) FROM d.t", Some(1317))]
    {
        let mut session = server.session().expect("it is served");
        let id = number(&mut session, "SELECT CONNECTION_ID()");
        let running = thread::spawn(move || {
            let answer = session.query(statement).map(drop);
            (answer, number(&mut session, "SELECT 5"))
        });
        let runs = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND info LIKE \
             '%SLEEP%'"
        );
        while number(&mut other, &runs) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        // It may not have come as far as the call yet.
        thread::sleep(Duration::from_millis(50));
        all(&mut other, &[&format!("KILL QUERY {id}")]);
        let (answer, after) = running.join().expect("it ends");
        assert_eq!(answer.err().and_then(|error| error.code()), code, "{statement}");
        assert_eq!(after, 5, "the session goes on");
    }
}

#[test]
fn prepared_statements_are_counted_and_take_of_the_memory() {
    let server = server();
    let mut session = server.session().expect("it is served");
    all(&mut session, &["SET GLOBAL max_prepared_stmt_count = 3"]);
    for _ in 0..3 {
        session.prepare("SELECT ?").expect("there is room");
    }
    let mut other = server.session().expect("it is served");
    let error = other.prepare("SELECT ?").expect_err("it is one too many");
    assert_eq!(error.code(), Some(1461), "{error}");
    let error = other.query("PREPARE p FROM 'SELECT 1'").expect_err("it is one too many");
    assert_eq!(error.code(), Some(1461), "{error}");
    drop(session);
    while other.prepare("SELECT ?").is_err() {
        thread::sleep(Duration::from_millis(1));
    }
    all(
        &mut other,
        &[
            "SET GLOBAL max_prepared_stmt_count = 1000000",
            "SET GLOBAL global_connection_memory_limit = 16777216",
        ],
    );
    let text = format!("SELECT '{}', ?", "x".repeat(100_000));
    let refused = (0..1_000).find_map(|_| other.prepare(&text).err());
    let refused = refused.expect("a hundred megabytes are too much");
    assert_eq!(refused.code(), Some(3170), "{refused}");
}
