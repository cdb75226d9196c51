//! Generated statements against this server and against MariaDB: both must answer alike.
//!
//! Statements are drawn from a grammar that stays inside what both servers promise to answer the
//! same; accepted differences are listed in `docs/compatibility/differences.md` and kept out here.
//! The seed is fixed, so a failure comes back; `NINES_DIFFERENTIAL_SEED` draws others.

mod generator;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

use generator::Generator;
use tests::Server;
use tests::mariadb::MariaDb;

/// Tables of the statements; each line ends outside a string, as errors are told by line.
const SCHEMA: &str = include_str!("differential/schema.sql");

/// What a server said to each statement: its rows, or its error's number.
fn answers(mut client: Command, statements: &[String]) -> Vec<String> {
    let mut script = String::from(SCHEMA);
    for (number, statement) in statements.iter().enumerate() {
        // One line each, so that errors can be told by their line.
        writeln!(script, "SELECT '@@{number}'; {statement};").expect("a String takes any text");
    }
    let first_line = SCHEMA.lines().count();
    client.args(["--batch", "--skip-column-names", "--force", "--default-character-set=utf8mb4"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the mysql client is installed by `cargo xtask test`");
    let mut input = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it is our child");
    writer.join().expect("writing does not panic").expect("the client reads all statements");
    let mut all = vec![String::new(); statements.len()];
    let mut current = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.strip_prefix("@@") {
            Some(number) => current = number.parse::<usize>().ok(),
            None => {
                if let Some(at) = current {
                    all[at].push_str(line);
                    all[at].push('\n');
                }
            }
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // The client repeats the statement before its error.
    for line in errors.lines().filter(|line| line.starts_with("ERROR ")) {
        // ERROR 1062 (23000) at line 12: …
        let parts: Vec<&str> = line.split_whitespace().collect();
        let at = parts.iter().position(|part| *part == "line").and_then(|at| parts.get(at + 1));
        let at = at.and_then(|text| text.trim_end_matches(':').parse::<usize>().ok());
        match at.and_then(|at| at.checked_sub(first_line + 1)).and_then(|at| all.get_mut(at)) {
            Some(answer) => *answer = format!("error {}", parts.get(1).unwrap_or(&"?")),
            None => panic!("an error outside the statements: {line}"),
        }
    }
    all
}

#[test]
fn generated_statements_are_answered_as_mariadb_does() {
    let seed = std::env::var("NINES_DIFFERENTIAL_SEED").ok().and_then(|seed| seed.parse().ok());
    let statements = Generator::new(seed.unwrap_or(20_261_121)).script(STATEMENTS);
    let other = MariaDb::start();
    let server = Server::start(&[]);
    let expected = answers(other.client(), &statements);
    let found = answers(server.client("mysql"), &statements);
    let answered = statements.iter().zip(expected.iter().zip(&found));
    let different: Vec<String> = answered
        .filter(|(_, (expected, found))| expected != found)
        .map(|(statement, (expected, found))| difference(statement, expected, found))
        .collect();
    let shown = different.iter().take(SHOWN_MAX).map(String::as_str).collect::<String>();
    assert!(different.is_empty(), "{} of {} differ:{shown}", different.len(), statements.len());
}

/// A statement with the first line that differs.
fn difference(statement: &str, expected: &str, found: &str) -> String {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    loop {
        let (e, f) = (expected.next().unwrap_or("(end)"), found.next().unwrap_or("(end)"));
        if e != f {
            return format!("\n{statement}\n  MariaDB: {e}\n  Nines:   {f}");
        }
    }
}

/// Statements of a run.
const STATEMENTS: u32 = 3000;
/// Differences that are printed: the later ones mostly follow from the first.
const SHOWN_MAX: usize = 20;
