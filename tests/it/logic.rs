//! The files of `tests/sql`: statements with the answers they must get, through the real protocol.
//!
//! The format is sqllogictest's. A record is `statement ok`, `statement error 1062` or `query TYPES
//! [rowsort]`, the statement on the lines after it, and for a query `----` and its rows: a line
//! each, tabs between values, `NULL` for NULL and `(empty)` for an empty text. TYPES has a letter
//! for each column: `I` whole numbers, `R` other numbers, `T` all else. `skipif mariadb` and
//! `onlyif mariadb` stand before a record; a record ends with an empty line. Each file has a
//! database `d`, with nothing in it.
//!
//! `UPDATE=1` writes the rows that Nines gives into the files: read what changes before you keep
//! it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tests::mariadb::MariaDb;
use tests::{Answer, QueryError, Server, Session};

/// A record of a file.
#[derive(Default)]
struct Record {
    /// Lines before it that are kept as they are: remarks, and conditions.
    before: Vec<String>,
    /// `statement …` or `query …`.
    head: String,
    sql: Vec<String>,
    /// The rows, below `----`.
    rows: Option<Vec<String>>,
    /// The line of its head.
    line: usize,
}

impl Record {
    fn is_for(&self, server: &str) -> bool {
        let is = |line: &&String, word: &str| {
            line.strip_prefix(word).is_some_and(|name| name.trim() == server)
        };
        let only = |line: &&String| line.starts_with("onlyif ");
        let skipped = self.before.iter().any(|line| is(&line, "skipif "));
        let others = self.before.iter().any(|line| only(&line) && !is(&line, "onlyif "));
        !skipped && !others
    }

    /// The record with what a server said: its head and its rows.
    fn answered(&self, session: &mut Session) -> (String, Vec<String>) {
        let sql = self.sql.join("\n");
        let is_query = self.head.starts_with("query");
        match session.ask(&sql) {
            Ok(answer) if is_query => {
                let sorted = self.head.ends_with("rowsort");
                let mut rows: Vec<String> = answer.rows.iter().map(|row| shown(row)).collect();
                if sorted {
                    rows.sort();
                }
                let sort = if sorted { " rowsort" } else { "" };
                (format!("query {}{sort}", types(&answer)), rows)
            }
            Ok(answer) if answer.columns.is_empty() => ("statement ok".into(), Vec::new()),
            Ok(_) => ("statement ok".into(), Vec::new()),
            Err(QueryError::Refused(number, _)) => {
                (format!("statement error {number}"), Vec::new())
            }
            Err(error) => panic!("{error}: {sql}"),
        }
    }

    fn write_to(&self, out: &mut String) {
        for line in self.before.iter().chain([&self.head]).chain(&self.sql) {
            let _ = writeln!(out, "{line}");
        }
        if let Some(rows) = &self.rows {
            let _ = writeln!(out, "----");
            rows.iter().for_each(|row| _ = writeln!(out, "{row}"));
        }
    }
}

fn shown(row: &[Option<String>]) -> String {
    let value = |value: &Option<String>| match value.as_deref() {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n").replace('\t', "\\t").replace('\0', "\\0"),
    };
    row.iter().map(value).collect::<Vec<_>>().join("\t")
}

fn types(answer: &Answer) -> String {
    let letter = |kind: u8| match kind {
        1 | 2 | 3 | 8 | 9 | 13 => 'I',
        0 | 4 | 5 | 246 => 'R',
        _ => 'T',
    };
    answer.columns.iter().map(|column| letter(column.kind)).collect()
}

/// Takes a file apart.
fn records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut record = Record::default();
    for (number, line) in text.lines().chain([""]).enumerate() {
        let is_head = line.starts_with("statement ") || line.starts_with("query ");
        if line.is_empty() && !record.head.is_empty() {
            records.push(std::mem::take(&mut record));
        } else if record.head.is_empty() && is_head {
            (record.head, record.line) = (line.to_owned(), number + 1);
        } else if record.head.is_empty() {
            record.before.push(line.to_owned());
        } else if line == "----" && record.rows.is_none() {
            record.rows = Some(Vec::new());
        } else {
            record.rows.as_mut().unwrap_or(&mut record.sql).push(line.to_owned());
        }
    }
    records
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")
}

/// The files, by name.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory()).expect("the directory of the files");
    let paths = entries.map(|entry| entry.expect("its entries can be read").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "test")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// Runs a file and reports what differs; with `update` writes what is there instead.
fn run(path: &Path, name: &str, session: &mut Session, update: bool) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}"));
    let (mut report, mut written) = (String::new(), String::new());
    for statement in ["DROP DATABASE IF EXISTS d", "CREATE DATABASE d", "USE d"] {
        session.query(statement).unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
    for mut record in records(&text) {
        if record.is_for(name) {
            let (head, rows) = record.answered(session);
            let expected = record.rows.clone().unwrap_or_default();
            // Types are this server's matter.
            let same_head = head == record.head
                || name != "nines" && head.starts_with("query") && record.head.starts_with("query");
            if update && !record.head.starts_with("statement") && head.starts_with("query") {
                (record.head, record.rows) = (head, Some(rows));
            } else if !same_head || rows != expected {
                let place = format!("{}:{}", path.display(), record.line);
                let _ = writeln!(report, "{place}: {}\n  {name}: {head}", record.sql.join(" "));
                let _ = writeln!(report, "  expected {expected:?}\n  found    {rows:?}");
            }
        }
        record.write_to(&mut written);
        written.push('\n');
    }
    if update {
        written.truncate(written.trim_end().len());
        written.push('\n');
        std::fs::write(path, written).unwrap_or_else(|error| panic!("{error}"));
    }
    report
}

#[test]
fn files_say_what_the_server_says() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut report = String::new();
    let server = Server::start(&[]);
    for path in files() {
        let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
        settle(&mut session);
        report += &run(&path, "nines", &mut session, update);
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn files_say_what_mariadb_says() {
    let mut report = String::new();
    let server = MariaDb::start();
    for path in files() {
        let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
        settle(&mut session);
        let mode = "SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')";
        session.query(mode).unwrap_or_else(|error| panic!("{error}"));
        report += &run(&path, "mariadb", &mut session, false);
    }
    assert!(report.is_empty(), "{report}");
}

/// What both servers are told, so that they mean the same.
fn settle(session: &mut Session) {
    let settings = [
        "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
        "SET time_zone = '+00:00', timestamp = 1718454896",
    ];
    for setting in settings {
        session.query(setting).unwrap_or_else(|error| panic!("{error}: {setting}"));
    }
}

#[test]
fn every_documented_function_is_tried() {
    let page = std::fs::read_to_string(tests::workspace().join("docs/sql/functions.md"));
    let page = page.unwrap_or_else(|error| panic!("{error}"));
    let there = page.split("## Not there").next().unwrap_or_default();
    let functions = there.split("## Control and comparison").nth(1).unwrap_or_default();
    let mut all = String::new();
    for path in files() {
        all += &std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}"));
    }
    let all = all.to_uppercase();
    let mut missing = Vec::new();
    for row in functions.lines().filter(|line| line.starts_with("| ")) {
        let names = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        for name in names.split(", ") {
            let name = name.split(['(', '[']).next().unwrap_or_default().trim();
            let is_name = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
            if is_name && !is_word_of(&all, name) {
                missing.push(name.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "in no file of tests/sql: {missing:?}");
}

/// Whether a text has the word, called or alone.
fn is_word_of(text: &str, word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).map(|at| text.as_bytes()[at]);
        let after = text.as_bytes().get(at + word.len());
        !before.is_some_and(is_part) && !after.is_some_and(|byte| is_part(*byte))
    })
}
