//! Statistics of values: ANALYZE TABLE, histograms, what they change in plans, and that they stay.

use std::time::{Duration, Instant};

use tests::{Server, Session, TextRow, all, temporary_directory};

fn ask(session: &mut Session, statement: &str) -> Vec<TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// The rows of an answer, with bars between values.
fn lines(session: &mut Session, statement: &str) -> Vec<String> {
    let line = |row: TextRow| {
        let values = row.into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned()));
        values.collect::<Vec<_>>().join("|")
    };
    ask(session, statement).into_iter().map(line).collect()
}

fn session_of(server: &Server) -> Session {
    server.session().unwrap_or_else(|error| panic!("{error}"))
}

/// Fills a table of numbers with so many rows: `few` has 10 values, `skew` is 0 in nine rows of
/// ten, `many` has as many values as there are rows, and `gone` is mostly NULL.
fn fill(session: &mut Session, table: &str, rows: usize) {
    for chunk in (0..rows).collect::<Vec<_>>().chunks(500) {
        let row = |at: &usize| {
            let skew = if at.is_multiple_of(10) { *at } else { 0 };
            let gone = if at.is_multiple_of(4) { at.to_string() } else { "NULL".to_owned() };
            format!("({at}, {}, {skew}, {at}, {gone}, 'text{:03}')", at % 10, at % 200)
        };
        let values: Vec<String> = chunk.iter().map(row).collect();
        ask(session, &format!("INSERT INTO {table} VALUES {}", values.join(", ")));
    }
}

const COLUMNS: &str = "(id INT PRIMARY KEY, few INT, skew INT, many BIGINT, gone INT, \
      name VARCHAR(20), \
      KEY (few, skew), KEY (name))";

#[test]
fn analyze_says_what_mysql_says() {
    let server = Server::start(&["--workers=2"]);
    let session = &mut session_of(&server);
    all(session, &["CREATE DATABASE d", "USE d", "SET nines_auto_statistics = OFF"]);
    ask(session, &format!("CREATE TABLE t {COLUMNS}"));
    ask(session, "CREATE TABLE j (id INT PRIMARY KEY, doc JSON)");
    fill(session, "t", 2_000);
    for (statement, expected) in [
        ("ANALYZE TABLE t", &["d.t|analyze|status|OK"][..]),
        ("ANALYZE TABLE nothing", &["d.nothing|analyze|Error|Table 'd.nothing' doesn't exist"]),
        (
            "ANALYZE TABLE t UPDATE HISTOGRAM ON few, name WITH 16 BUCKETS",
            &[
                "d.t|histogram|status|Histogram statistics created for column 'few'.",
                "d.t|histogram|status|Histogram statistics created for column 'name'.",
            ],
        ),
        (
            "ANALYZE TABLE t UPDATE HISTOGRAM ON id, no, gone",
            &[
                "d.t|histogram|Error|The column 'id' is covered by a single-part unique index.",
                "d.t|histogram|Error|The column 'no' does not exist.",
                "d.t|histogram|status|Histogram statistics created for column 'gone'.",
            ],
        ),
        (
            "ANALYZE TABLE j UPDATE HISTOGRAM ON doc",
            &["d.j|histogram|Error|The column 'doc' has an unsupported data type."],
        ),
        (
            "ANALYZE TABLE t DROP HISTOGRAM ON many, gone",
            &[
                "d.t|histogram|Error|No histogram statistics found for column 'many'.",
                "d.t|histogram|status|Histogram statistics removed for column 'gone'.",
            ],
        ),
        (
            "ANALYZE TABLE t, j UPDATE HISTOGRAM ON few",
            &["d.t|histogram|Error|Only one table can be specified while modifying histogram \
               statistics."],
        ),
        // Those that users have asked for, and no others.
        (
            "SELECT COLUMN_NAME, JSON_EXTRACT(HISTOGRAM, '$.\"number-of-buckets-specified\"'), \
             JSON_UNQUOTE(JSON_EXTRACT(HISTOGRAM, '$.\"histogram-type\"')), \
             JSON_UNQUOTE(JSON_EXTRACT(HISTOGRAM, '$.\"data-type\"')), \
             JSON_LENGTH(JSON_EXTRACT(HISTOGRAM, '$.buckets')) <= 16 \
             FROM information_schema.COLUMN_STATISTICS \
             WHERE SCHEMA_NAME = 'd' AND TABLE_NAME = 't' ORDER BY 1",
            &["few|16|singleton|int|1", "name|16|equi-height|string|1"],
        ),
        (
            "SELECT JSON_EXTRACT(HISTOGRAM, '$.buckets[9]') FROM \
             information_schema.COLUMN_STATISTICS WHERE COLUMN_NAME = 'few'",
            &["[9, 1.0]"],
        ),
        (
            "SELECT INDEX_NAME, SEQ_IN_INDEX, CARDINALITY FROM information_schema.STATISTICS \
             WHERE TABLE_NAME = 't' ORDER BY 1, 2",
            &["few|1|10", "few|2|209", "name|1|200", "PRIMARY|1|2000"],
        ),
    ] {
        assert_eq!(lines(session, statement), expected, "{statement}");
    }
    let error = session.query("ANALYZE TABLE t UPDATE HISTOGRAM ON few WITH 1025 BUCKETS");
    assert!(error.is_err_and(|error| error.to_string().contains("Number of buckets")));
}

/// How many rows EXPLAIN thinks that a query's last table gives.
fn estimate(session: &mut Session, query: &str) -> f64 {
    let rows = ask(session, &format!("EXPLAIN {query}"));
    let number = |at: usize| -> f64 {
        rows[rows.len() - 1][at].as_ref().and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    number(9) * number(10) / 100.0
}

#[test]
fn estimates_follow_the_values() {
    let server = Server::start(&["--workers=2"]);
    let session = &mut session_of(&server);
    all(session, &["CREATE DATABASE d", "USE d", "SET nines_auto_statistics = OFF"]);
    ask(session, &format!("CREATE TABLE t {COLUMNS}"));
    fill(session, "t", 5_000);
    ask(session, "ANALYZE TABLE t");
    for (condition, expected) in [
        ("skew = 0", 4_501.0),
        ("skew = 20", 1.0),
        ("skew <> 0", 499.0),
        ("many < 500", 500.0),
        ("many >= 1000 AND many < 2000", 1_000.0),
        ("many BETWEEN 4000 AND 4999", 1_000.0),
        ("5000 > many", 5_000.0),
        ("gone IS NULL", 3_750.0),
        ("gone IS NOT NULL", 1_250.0),
        ("many IN (1, 2, 3, 4)", 4.0),
        ("many NOT IN (1, 2, 3, 4)", 4_996.0),
        ("SUBSTR(name, 1) <> '' AND skew = 0", 4_276.0),
    ] {
        let found = estimate(
            session,
            &format!("SELECT * FROM t IGNORE INDEX (few, name) WHERE {condition}"),
        );
        let off = (found - expected).abs();
        assert!(off <= 5.0 + expected / 20.0, "{condition}: {found} instead of {expected}");
    }
    // Of the two indexes the one with more values is taken, although it is named later.
    let line = ask(session, "EXPLAIN SELECT * FROM t WHERE few = 3 AND name = 'text003'").remove(0);
    assert_eq!(line[6].as_deref(), Some("name"), "{line:?}");
}

#[test]
fn statistics_stay_when_the_cluster_restarts() {
    let directory = temporary_directory();
    {
        let mut server = Server::start_in(&directory, &["--workers=2"]);
        let session = &mut session_of(&server);
        all(session, &["CREATE DATABASE d", "USE d"]);
        ask(session, &format!("CREATE TABLE t {COLUMNS}"));
        fill(session, "t", 1_000);
        ask(session, "ANALYZE TABLE t UPDATE HISTOGRAM ON skew WITH 7 BUCKETS");
        server.stop("-TERM");
    }
    let mut server = Server::start_in(&directory, &["--workers=2"]);
    let session = &mut session_of(&server);
    let kept = "SELECT COLUMN_NAME, JSON_EXTRACT(HISTOGRAM, '$.\"number-of-buckets-specified\"') \
                FROM information_schema.COLUMN_STATISTICS";
    assert_eq!(lines(session, kept), ["skew|7"]);
    // A table that is gone leaves nothing.
    ask(session, "DROP TABLE d.t");
    assert!(lines(session, kept).is_empty());
    server.stop("-TERM");
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn tables_that_are_joined_are_sampled_without_being_asked_for() {
    let server = Server::start(&["--workers=2"]);
    let session = &mut session_of(&server);
    all(session, &["CREATE DATABASE d", "USE d"]);
    ask(session, &format!("CREATE TABLE t {COLUMNS}"));
    ask(session, &format!("CREATE TABLE small {COLUMNS}"));
    fill(session, "t", 3_000);
    fill(session, "small", 20);
    let cardinality = "SELECT CARDINALITY FROM information_schema.STATISTICS WHERE \
                       TABLE_NAME = 't' AND INDEX_NAME = 'name'";
    assert_eq!(lines(session, cardinality), ["NULL"]);
    let began = Instant::now();
    while lines(session, cardinality) != ["200"] {
        ask(session, "SELECT COUNT(*) FROM small JOIN t ON t.few = small.few");
        assert!(began.elapsed() < Duration::from_secs(60), "nobody has sampled the table");
        std::thread::sleep(Duration::from_millis(300));
    }
    // A small table is not worth it.
    let small = cardinality.replace("'t'", "'small'");
    assert_eq!(lines(session, &small), ["NULL"]);
}
