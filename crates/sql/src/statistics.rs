//! About how many rows tables have.
//!
//! # Owns
//! [`Statistics`]: what the data nodes have said, kept by each worker of the SQL node.
//! # Guarantees
//! Nobody waits for it but a statement that joins tables or reads one whole, and that at most once
//! in [`REFRESH_INTERVAL`]. What is not known is not made up.

use std::cell::{Cell, RefCell};

use model::{TableId, Value};
use sql_parser::ast::{Query, QueryBody, TableReference};
use stdx::{Duration, HashMap, Instant};
use wire::Inspection;

use crate::session::Session;

/// How old a count may be when a query is planned by it.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Rows of tables, as of some moment.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    rows: RefCell<HashMap<TableId, u64>>,
    asked_at: Cell<Option<Instant>>,
}

impl Statistics {
    /// About how many rows a table has, if that was asked.
    pub(crate) fn rows(&self, table: TableId) -> Option<u64> {
        self.rows.borrow().get(&table).copied()
    }

    /// Lets a test say how many rows a table has.
    #[cfg(test)]
    pub(crate) fn set_rows(&self, table: TableId, rows: u64) {
        self.rows.borrow_mut().insert(table, rows);
    }

    fn is_old(&self, now: Instant) -> bool {
        self.asked_at.get().is_none_or(|at| now.since(at) >= REFRESH_INTERVAL)
    }
}

impl Session {
    /// Asks for the sizes of tables if a query has several and the answers at hand are old. Without
    /// an answer the query is planned by keys and conditions alone.
    pub(crate) async fn refresh_statistics(&self, query: &Query) {
        if joins(&query.body) {
            self.refresh_sizes().await;
        }
    }

    /// Asks for the sizes of tables if the answers at hand are old.
    pub(crate) async fn refresh_sizes(&self) {
        let statistics = &self.shared.statistics;
        if !statistics.is_old(self.kernel.now()) {
            return;
        }
        statistics.asked_at.set(Some(self.kernel.now()));
        let Ok(answers) = self.kernel.inspect(Inspection::Replicas, None).await else { return };
        let mut rows: HashMap<TableId, u64> = HashMap::default();
        for row in answers.iter().flat_map(|answer| &answer.rows) {
            // Table, partition, role, whether it is being copied, rows.
            if let [Value::UInt(table), _, Value::Bytes(role), _, Value::UInt(count), ..] =
                row.as_slice()
                && **role == *b"primary"
            {
                *rows.entry(TableId(*table as u32)).or_default() += count;
            }
        }
        *statistics.rows.borrow_mut() = rows;
    }
}

/// Whether a plan that was made for so many rows of a table is good for so many now.
pub(crate) fn alike(then: Option<u64>, now: Option<u64>) -> bool {
    let (Some(then), Some(now)) = (then, now) else { return then.is_some() || now.is_none() };
    let (less, more) = (then.min(now), then.max(now));
    more < 1_000 || more / 8 <= less
}

/// Whether a query has several tables in FROM somewhere.
fn joins(body: &QueryBody) -> bool {
    match body {
        QueryBody::Select(select) => {
            select.from.len() > 1
                || select.from.iter().any(|table| !matches!(table, TableReference::Table(_)))
        }
        QueryBody::Nested(query) => joins(&query.body),
        QueryBody::SetOperation(operation) => {
            joins(&operation.first) || operation.rest.iter().any(|part| joins(&part.body))
        }
        QueryBody::Table(_) | QueryBody::Values(_) => false,
    }
}
