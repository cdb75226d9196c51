//! A catalog of many tables, most of which nobody uses: what others do must not depend on it.
//!
//! The tables are made before the run begins; sessions that change the catalog then do so beside
//! them, members that join or come back are given them, and clients are told of changes only.
//!
//! Judged by: every node and every client has the same state at the same index (`checkers::live`),
//! and the tables are all there at the end.

use model::SchemaChange;
use testing::{BIGINT, INT};

use super::insist;
use crate::session::Session;

/// Tables, without those behind their unique indexes.
const TABLES: usize = 1_200;
/// Tables that are made by one change.
const TABLES_PER_CHANGE: usize = 300;

fn name(number: usize) -> String {
    format!("sim.crowd_{number}")
}

/// Makes the tables.
pub(super) async fn prepare(session: &Session) {
    let numbers: Vec<usize> = (0..TABLES).collect();
    for batch in numbers.chunks(TABLES_PER_CHANGE) {
        let table = |number: &usize| {
            let table = testing::table(name(*number))
                .column("id", BIGINT)
                .nullable("a", INT)
                .index("by_a", ["a"])
                .partitions(1);
            // Some have a hidden table.
            let has_unique = number.is_multiple_of(8);
            let table = if has_unique { table.unique("once", ["a"]) } else { table };
            table.create()
        };
        let changes = batch.iter().map(table).collect();
        insist(session, SchemaChange::Together { expected: vec![], changes }).await;
    }
}

/// Panics when a table is missing.
pub(super) fn audit(session: &Session) {
    for number in 0..TABLES {
        assert!(session.table(&name(number)).is_some(), "{} is gone", name(number));
    }
}
