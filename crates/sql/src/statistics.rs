//! About how many rows tables have, and how much memory they take.
//!
//! # Owns
//! [`Sizes`], what the data nodes say when they are asked, and [`Statistics`], the rows they said
//! last, by which queries are planned, kept by each worker of the SQL node.
//! # Guarantees
//! Nobody waits for statistics but a statement that joins tables or reads one whole, and that at
//! most once in [`REFRESH_INTERVAL`]; sizes that are shown are asked each time. What is not known
//! is not made up.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{PartitionId, PartitionIndex, Table, TableId, Value};
use sql_parser::ast::{Query, QueryBody, TableReference};
use stdx::{Duration, HashMap, Instant};
use wire::Inspection;

use crate::session::Session;

/// How old a count may be when a query is planned by it.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Tables that are asked about one by one, at most.
const ASKED_APART_MAX: usize = 4;
/// The protocol version that knows questions about one table.
const ASKED_APART_SINCE: u16 = 14;

/// How large something stored is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Committed rows.
    pub(crate) rows: u64,
    /// Bytes that rows and indexes take in one replica.
    pub(crate) bytes: u64,
}

/// Sizes of partitions, as their primary replicas told them. Of a data node that did not answer
/// nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Sizes(BTreeMap<PartitionId, Size>);

impl Sizes {
    /// Asks the data nodes; nothing is known without a cluster.
    pub(crate) async fn read(session: &Session) -> Self {
        let mut sizes = Self::default();
        sizes.ask(session, Inspection::Replicas).await;
        sizes
    }

    /// Asks the data nodes about these tables only, unless they are many; about all without any.
    pub(crate) async fn of(session: &Session, tables: Option<&[Arc<Table>]>) -> Self {
        let few = tables.filter(|tables| tables.len() <= ASKED_APART_MAX);
        let Some(tables) = few.filter(|_| session.kernel.protocol() >= ASKED_APART_SINCE) else {
            return Self::read(session).await;
        };
        let mut sizes = Self::default();
        for table in tables {
            sizes.ask(session, Inspection::ReplicasOf { table: table.id }).await;
        }
        sizes
    }

    async fn ask(&mut self, session: &Session, what: Inspection) {
        let Self(sizes) = self;
        let asked = session.kernel.inspect(what, None).await;
        for row in asked.unwrap_or_default().iter().flat_map(|answer| &answer.rows) {
            // Table, partition, role, whether it is being copied, rows, slots, bytes.
            let [
                Value::UInt(table),
                Value::UInt(at),
                Value::Bytes(role),
                _,
                Value::UInt(rows),
                _,
                Value::UInt(bytes),
            ] = row.as_slice()
            else {
                continue;
            };
            if **role == *b"primary" {
                let (table, index) = (TableId(*table as u32), PartitionIndex(*at as u16));
                let size = Size { rows: *rows, bytes: *bytes };
                sizes.insert(PartitionId { table, index }, size);
            }
        }
    }

    /// The size of a table's partition; bytes with those of its large values, which are in a table
    /// of their own.
    pub(crate) fn partition(&self, table: &Table, index: PartitionIndex) -> Option<Size> {
        let of = |table| self.0.get(&PartitionId { table, index }).copied();
        let Size { rows, bytes } = of(table.id)?;
        let large = match &table.large {
            Some(large) => of(large.parts)?.bytes,
            None => 0,
        };
        Some(Size { rows, bytes: bytes + large })
    }

    /// The size of a table, if that of every partition is known.
    pub(crate) fn table(&self, table: &Table) -> Option<Size> {
        let mut partitions = (0..table.partition_count).map(PartitionIndex);
        partitions.try_fold(Size::default(), |sum, index| {
            let size = self.partition(table, index)?;
            Some(Size { rows: sum.rows + size.rows, bytes: sum.bytes + size.bytes })
        })
    }

    /// The rows of each table, as far as they are known.
    fn rows(&self) -> HashMap<TableId, u64> {
        let mut rows = HashMap::default();
        for (partition, size) in &self.0 {
            *rows.entry(partition.table).or_default() += size.rows;
        }
        rows
    }
}

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
        let sizes = Sizes::read(self).await;
        if !sizes.0.is_empty() {
            *statistics.rows.borrow_mut() = sizes.rows();
        }
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
