//! Generated statements against this server and against MariaDB: both must answer alike.
//!
//! Statements are drawn from a grammar that stays inside what both servers promise to answer the
//! same; accepted differences are listed in `docs/compatibility/differences.md` and kept out here.
//! The seed is fixed, so a failure comes back; `NINES_DIFFERENTIAL_SEED` draws others.

mod generator;

use generator::Generator;
use tests::Server;
use tests::mariadb::MariaDb;

use crate::answers::{answers, difference};

/// Tables of the statements; each line ends outside a string, as errors are told by line.
const SCHEMA: &str = include_str!("differential/schema.sql");

#[test]
fn generated_statements_are_answered_as_mariadb_does() {
    let seed = std::env::var("NINES_DIFFERENTIAL_SEED").ok().and_then(|seed| seed.parse().ok());
    let statements = Generator::new(seed.unwrap_or(20_261_121)).script(STATEMENTS);
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

/// Statements of a run.
const STATEMENTS: u32 = 3000;
/// Differences that are printed: the later ones mostly follow from the first.
const SHOWN_MAX: usize = 20;
