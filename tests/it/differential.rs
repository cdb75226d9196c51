//! Generated statements against this server and against MariaDB: both must answer alike.
//!
//! There are two kinds. Scripts (`generator`) change and read the same tables and stay inside what
//! both servers promise to answer the same. Queries (`query`, `expression`) are drawn freely over
//! tables of all types, run with and without programs on the data nodes, and made smaller when they
//! differ; where MariaDB is not MySQL, `rules` says why. Accepted differences are listed in
//! `docs/compatibility/differences.md`. The seed is fixed, so a failure comes back;
//! `NINES_DIFFERENTIAL_SEED` draws others, `NINES_DIFFERENTIAL_QUERIES` says how many.

mod compare;
mod draw;
mod expression;
mod generator;
mod query;
mod rules;
mod tree;
mod world;

use compare::Servers;
use generator::Generator;
use tests::Server;
use tests::mariadb::MariaDb;

use crate::answers::{answers, difference};

/// Tables of the statements; each line ends outside a string, as errors are told by line.
const SCHEMA: &str = include_str!("differential/schema.sql");

#[test]
fn generated_statements_are_answered_as_mariadb_does() {
    let statements = Generator::new(seed()).script(STATEMENTS);
    let other = MariaDb::start();
    let server = Server::start(&[]);
    let expected = answers(other.client(), SCHEMA, &statements);
    let found = answers(server.client("mysql"), SCHEMA, &statements);
    let answered = statements.iter().zip(expected.iter().zip(&found));
    let different: Vec<String> = answered
        .filter(|(_, (expected, found))| expected != found)
        .map(|(statement, (expected, found))| difference(statement, expected, found))
        .collect();
    let shown = different.iter().take(SHOWN_MAX).map(String::as_str).collect::<String>();
    assert!(different.is_empty(), "{} of {} differ:{shown}", different.len(), statements.len());
}

#[test]
fn generated_queries_are_answered_as_mariadb_does() {
    let queries = number("NINES_DIFFERENTIAL_QUERIES").unwrap_or(QUERIES);
    let report = Servers::start(seed()).run(seed(), queries as u32);
    for (what, (count, first)) in &report.counts {
        println!("{count:>7} {what}\n        as in {first}");
    }
    let shown: Vec<&str> =
        report.differences.iter().take(SMALL_SHOWN_MAX).map(String::as_str).collect();
    let count = report.differences.len();
    assert!(count == 0, "{count} of {queries} differ:\n{}", shown.join("\n"));
}

fn seed() -> u64 {
    number("NINES_DIFFERENTIAL_SEED").unwrap_or(20_261_121)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Queries of a run without other word.
const QUERIES: u64 = 3000;
/// Statements of a run.
const STATEMENTS: u32 = 3000;
/// Differences that are printed: the later ones mostly follow from the first.
const SHOWN_MAX: usize = 20;
/// Differences of queries that are printed: each was made small, and stands for itself.
const SMALL_SHOWN_MAX: usize = 200;
