//! Statements that slips of a hand have changed, against a running server.
//!
//! Statements of the parser's corpus and of `tests/sql`, with bytes and words changed, and
//! expressions put together from a grammar, are parsed, bound against tables that exist, and run.
//! The server must answer each within [`PATIENCE`], with rows or an error, and live on. The parser
//! alone is tried in `crates/sql-parser/tests/corpus.rs`, expressions alone in
//! `crates/sql-expression/tests/expressions.rs`.

use std::time::{Duration, Instant};

use tests::{QueryError, Server, Session};

use super::workload::Random;

const CORPUS: [&str; 4] = [
    include_str!("../../crates/sql-parser/tests/corpus/query.sql"),
    include_str!("../../crates/sql-parser/tests/corpus/expression.sql"),
    include_str!("../../crates/sql-parser/tests/corpus/manipulation.sql"),
    include_str!("../../crates/sql-parser/tests/corpus/session.sql"),
];

/// Longest that an answer may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the statements of the corpus name.
const TABLES: [&str; 5] = [
    "CREATE DATABASE d",
    "CREATE TABLE d.t (a INT PRIMARY KEY, b INT, c VARCHAR(20), d DATE, e DECIMAL(10,3), x DOUBLE, \
     y INT, j JSON, KEY (b), KEY (c))",
    "CREATE TABLE d.a (a INT PRIMARY KEY, b INT, c VARCHAR(20), x INT, id INT, KEY (b))",
    "INSERT INTO d.t VALUES (1, 2, 'x', '2024-02-29', 1.5, 2.5, 3, '[1]'), \
     (2, NULL, 'yy', NULL, -7, NULL, 0, '{\"a\": 1}')",
    "INSERT INTO d.a VALUES (1, 2, 'x', 3, 4), (2, 3, NULL, 4, 5)",
];

/// Words that would stop the server, wait on purpose, have no end, or keep the next session from
/// logging in.
const LEFT_OUT: [&str; 21] = [
    "PASSWORD",
    "IDENTIFIED",
    "ALTER USER",
    "RENAME USER",
    "REVOKE",
    "SLEEP",
    "BENCHMARK",
    "LOCK",
    "KILL",
    "SHUTDOWN",
    "GLOBAL",
    "PERSIST",
    "LOAD",
    "RESTART",
    "DROP",
    "TIMEOUT",
    "READ_ONLY",
    "MAX_EXECUTION",
    "WAIT",
    "STREAM",
    "RELEASE",
];

const FUNCTIONS: [&str; 48] = [
    "ABS",
    "REPEAT",
    "SPACE",
    "RPAD",
    "LPAD",
    "CONCAT",
    "HEX",
    "CONV",
    "FORMAT",
    "ROUND",
    "TRUNCATE",
    "SUBSTRING",
    "INSERT",
    "EXPORT_SET",
    "MAKE_SET",
    "ELT",
    "FIELD",
    "DATE_FORMAT",
    "STR_TO_DATE",
    "MAKETIME",
    "MAKEDATE",
    "FROM_DAYS",
    "TIMEDIFF",
    "ADDTIME",
    "PERIOD_ADD",
    "WEEK",
    "SEC_TO_TIME",
    "FROM_UNIXTIME",
    "JSON_EXTRACT",
    "JSON_SET",
    "JSON_ARRAY",
    "JSON_OBJECT",
    "JSON_MERGE_PATCH",
    "JSON_SEARCH",
    "REGEXP_REPLACE",
    "REGEXP_LIKE",
    "REGEXP_SUBSTR",
    "TO_BASE64",
    "FROM_BASE64",
    "INET6_ATON",
    "UUID_TO_BIN",
    "POW",
    "EXP",
    "MOD",
    "GREATEST",
    "COALESCE",
    "WEIGHT_STRING",
    "SUBSTRING_INDEX",
];

const VALUES: [&str; 24] = [
    "NULL",
    "0",
    "-1",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-0.000000000000000000000000000001",
    "99999999999999999999999999999999999999999999999999999999999999999",
    "''",
    "'a'",
    "'%'",
    "'((a+)+)+$'",
    "'{\"a\":[1,{\"b\":null}]}'",
    "'$**.b'",
    "x'FFFE00'",
    "'2024-02-30'",
    "'9999-12-31 23:59:59.999999'",
    "'-838:59:59'",
    "1073741824",
    "t.a",
    "t.c",
    "t.j",
];

fn pick<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.below(list.len() as u64) as usize]
}

fn expression(random: &mut Random, depth: u32) -> String {
    if depth == 0 || random.below(4) == 0 {
        return pick(random, &VALUES).to_owned();
    }
    let mut next = || expression(random, depth - 1);
    let (a, b, c) = (next(), next(), next());
    match random.below(10) {
        0..=5 => {
            let arguments = [a, b, c];
            let count = 1 + random.below(3) as usize;
            format!("{}({})", pick(random, &FUNCTIONS), arguments[..count].join(", "))
        }
        6 => {
            let operators = ["+", "-", "*", "/", "DIV", "%", "=", "<", "LIKE", "|", "<<", "AND"];
            format!("({a} {} {b})", pick(random, &operators))
        }
        7 => {
            let types = ["CHAR(9)", "SIGNED", "DECIMAL(65,30)", "DATETIME(6)", "JSON", "TIME"];
            format!("CAST({a} AS {})", pick(random, &types))
        }
        8 => format!("(SELECT MAX({a}) FROM d.a WHERE {b} IN ({c}, t.a))"),
        _ => format!("CASE {a} WHEN {b} THEN {c} ELSE {a} END"),
    }
}

/// A small change, as a slip of a hand would make it.
fn mutate(random: &mut Random, sql: &mut Vec<u8>, statements: &[&str]) {
    if sql.is_empty() {
        sql.push(b'(');
    }
    let at = random.below(sql.len() as u64) as usize;
    match random.below(7) {
        0 => _ = sql.remove(at),
        1 => {
            let bytes = b"()'\"`\\,.;@?*/-#!|&<>=:{}0x \n_\xC3\xFF";
            sql.insert(at, bytes[random.below(bytes.len() as u64) as usize]);
        }
        2 => sql[at] = random.below(256) as u8,
        3 => sql.truncate(at),
        4 => {
            let end = at + random.below((sql.len() - at) as u64) as usize;
            let piece = sql[at..end].to_vec();
            sql.splice(at..at, piece);
        }
        5 => {
            let expression = expression(random, 2);
            sql.splice(at..at, expression.into_bytes());
        }
        _ => {
            let other = pick(random, statements).as_bytes();
            let from = random.below(other.len() as u64) as usize;
            let len = random.below((other.len() - from).min(30) as u64) as usize;
            sql.splice(at..at, other[from..from + len].iter().copied());
        }
    }
}

fn statement(random: &mut Random, statements: &[&str]) -> String {
    if random.below(3) == 0 {
        let (value, condition) = (expression(random, 4), expression(random, 2));
        return format!("SELECT {value} FROM d.t WHERE {condition} GROUP BY 1 ORDER BY 1");
    }
    let mut sql = pick(random, statements).as_bytes().to_vec();
    for _ in 0..random.below(4) {
        mutate(random, &mut sql, statements);
    }
    String::from_utf8_lossy(&sql).into_owned()
}

fn connect(server: &Server) -> Session {
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    for setting in ["USE d", "SET max_execution_time = 5000, sql_mode = ''"] {
        session.query(setting).unwrap_or_else(|error| panic!("{error}"));
    }
    session
}

#[test]
fn no_statement_brings_the_server_down() {
    let seconds = std::env::var("NINES_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(5));
    let lines = CORPUS.iter().flat_map(|file| file.lines());
    let statements: Vec<&str> = lines.filter(|line| !line.starts_with("# ")).collect();
    let server = Server::start(&[]);
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    TABLES.iter().for_each(|one| _ = session.query(one).unwrap_or_else(|e| panic!("{e}: {one}")));
    let mut random = Random::new();
    let (mut asked, mut answered) = (0, 0);
    let mut before = String::new();
    while Instant::now() < until {
        if asked % 500 == 0 {
            // A session's settings may have been changed by then.
            session = connect(&server);
        }
        let sql = statement(&mut random, &statements);
        let upper = sql.to_uppercase();
        if LEFT_OUT.iter().any(|word| upper.contains(word)) {
            continue;
        }
        let began = Instant::now();
        asked += 1;
        match session.query(&sql) {
            Ok(_) => answered += 1,
            Err(QueryError::Refused(1815, text)) => panic!("{text}\n{sql}"),
            Err(QueryError::Refused(..)) => {}
            Err(QueryError::Lost(error)) => panic!("{error}\n{sql}\nafter {before}"),
        }
        before = sql.clone();
        let took = began.elapsed();
        assert!(took < PATIENCE, "{took:?}\n{sql}");
    }
    println!("{asked} statements, {answered} of them without an error");
    assert!(answered * 20 > asked, "{answered} of {asked}");
    let memory = server.resident_memory() >> 20;
    assert!(memory < 4 << 10, "{memory} MiB are held");
}
