//! About how many rows tables have, and how much memory they take.
//!
//! # Owns
//! [`Sizes`], what the data nodes say when they are asked, and [`Statistics`], the rows they said
//! last, by which queries are planned, kept by each worker of the SQL node; beside them how values
//! are distributed (`values`), as the cluster keeps it (`store`), and which tables are to be
//! sampled again (`task`).
//! # Guarantees
//! Nobody waits for statistics but a statement that joins tables or reads one whole, and that at
//! most once in [`REFRESH_INTERVAL`], or for a table that was not asked about before; sizes that
//! are shown are asked each time. What is asked depends on the tables that are used, not on how
//! many there are, and a question is about few. What is not known is not made up.

pub(crate) mod json;
pub(crate) mod sample;
mod session;
pub(crate) mod store;
pub(crate) mod task;
pub(crate) mod values;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterState, PartitionId, PartitionIndex, Table, TableId, Value};
use sql_parser::ast::{QueryBody, TableReference};
use stdx::{Duration, HashMap, Instant};
use wire::Inspection;

use self::values::{KnownValues, TableValues};
use crate::kernel::Kernel;

/// How old a count may be when a query is planned by it.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Partitions that are asked about at once, at most, unless a table has more: telling of so many
/// takes a worker of a data node some tens of microseconds.
const PARTITIONS_ASKED: usize = 256;
/// Rows of a table, from which on its values are sampled without being asked for.
const SAMPLED_LEAST: u64 = 1_000;
/// They are sampled again when a part of its rows has come or gone: one in so many.
const CHANGED_SHARE: u64 = 5;
/// The protocol version that knows questions about some tables.
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
    /// Asks the data nodes about these tables, or about all; nothing is known without a cluster.
    /// One question follows the other, so that nobody waits long for others who ask a lot.
    pub(crate) async fn of(kernel: &Kernel, tables: Option<&[Arc<Table>]>) -> Self {
        let mut sizes = Self::default();
        for what in questions(kernel, tables) {
            sizes.ask(kernel, what).await;
        }
        sizes
    }

    async fn ask(&mut self, kernel: &Kernel, what: Inspection) {
        let Self(sizes) = self;
        let asked = kernel.inspect(what, None).await;
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

    /// The rows of a table, without partitions of which nothing is known; none if that is all.
    fn rows(&self, table: TableId) -> Option<u64> {
        let known = self.0.range(PartitionId::all_of(table));
        known.map(|(_, size)| size.rows).reduce(|sum, rows| sum + rows)
    }
}

/// The questions by which the data nodes are asked about these tables, or about all.
pub(crate) fn questions(kernel: &Kernel, tables: Option<&[Arc<Table>]>) -> Vec<Inspection> {
    if kernel.protocol() < ASKED_APART_SINCE {
        return vec![Inspection::Replicas];
    }
    let cluster = kernel.cluster();
    let wanted: Vec<TableId> = match tables {
        None => cluster.tables.keys().copied().collect(),
        Some(tables) => {
            let parts = tables.iter().filter_map(|table| Some(table.large.as_ref()?.parts));
            let wanted = tables.iter().map(|table| table.id).chain(parts);
            wanted.collect::<BTreeSet<_>>().into_iter().collect()
        }
    };
    let ranges = ranges(&cluster, &wanted);
    ranges.into_iter().map(|tables| Inspection::ReplicasOf { tables }).collect()
}

/// Ranges that have all these tables, which come in order. Others between them are asked about too
/// if that saves a question.
fn ranges(cluster: &ClusterState, wanted: &[TableId]) -> Vec<(TableId, TableId)> {
    let mut ranges: Vec<(TableId, TableId)> = Vec::new();
    let mut partitions = 0;
    for table in wanted {
        if let Some((_, last)) = ranges.last_mut() {
            let mut with = partitions;
            for (id, between) in cluster.tables.iter_from(last).skip_while(|(id, _)| *id == last) {
                if id > table || with > PARTITIONS_ASKED {
                    break;
                }
                with += usize::from(between.partition_count);
            }
            if with <= PARTITIONS_ASKED {
                (*last, partitions) = (*table, with);
                continue;
            }
        }
        ranges.push((*table, *table));
        let definition = cluster.tables.get(table);
        partitions = definition.map_or(0, |table| usize::from(table.partition_count));
    }
    ranges
}

/// Rows of tables, as of some moment.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    counts: RefCell<HashMap<TableId, Count>>,
    asked_at: Cell<Option<Instant>>,
    /// Of tables that were counted, as far as it was found out.
    values: RefCell<HashMap<TableId, Rc<KnownValues>>>,
    /// Tables whose values are to be found out (again).
    wanted: RefCell<BTreeSet<TableId>>,
}

/// What is known of the rows of a table that somebody wanted to know about lately.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    rows: Option<u64>,
    /// The data nodes were asked.
    asked: bool,
    /// Somebody wanted to know since the counts were refreshed.
    used: bool,
}

impl Statistics {
    /// About how many rows a table has, if that was asked.
    pub(crate) fn rows(&self, table: TableId) -> Option<u64> {
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(table).or_default();
        count.used = true;
        count.rows
    }

    /// How the values of a table are distributed, if that is known.
    pub(crate) fn values(&self, table: TableId) -> Option<Rc<KnownValues>> {
        self.values.borrow().get(&table).cloned()
    }

    /// When that was found out, if it is known: plans that were made before are not good any more.
    pub(crate) fn values_made_at(&self, table: TableId) -> Option<u64> {
        self.values.borrow().get(&table).map(|values| values.table.made_at)
    }

    /// Takes note of what was found out about a table, or that nothing is known of it.
    pub(crate) fn set_values(&self, table: &Table, values: Option<TableValues>) {
        let mut known = self.values.borrow_mut();
        match values {
            Some(values) => {
                let same = |known: &Rc<KnownValues>| known.is_of(&values, table);
                if !known.get(&table.id).is_some_and(same) {
                    known.insert(table.id, Rc::new(KnownValues::new(values, table)));
                }
            }
            None => drop(known.remove(&table.id)),
        }
    }

    /// Has the values of a table found out, if its size says that this is worth it.
    fn want_values(&self, table: TableId) {
        let Some(rows) = self.counts.borrow().get(&table).and_then(|count| count.rows) else {
            return;
        };
        let known = self.values.borrow().get(&table).map(|values| values.table.rows);
        if rows >= SAMPLED_LEAST && known.is_none_or(|known| has_changed(known, rows)) {
            self.wanted.borrow_mut().insert(table);
        }
    }

    /// Whether there is a table whose values are to be found out.
    pub(crate) fn wants_values(&self) -> bool {
        !self.wanted.borrow().is_empty()
    }

    /// Lets a test say how many rows a table has.
    #[cfg(test)]
    pub(crate) fn set_rows(&self, table: TableId, rows: u64) {
        let count = Count { rows: Some(rows), asked: true, used: true };
        self.counts.borrow_mut().insert(table, count);
    }

    fn is_old(&self, now: Instant) -> bool {
        self.asked_at.get().is_none_or(|at| now.since(at) >= REFRESH_INTERVAL)
    }

    /// The tables that somebody wanted to know about since the last time. The others are forgotten.
    fn take_used(&self) -> Vec<TableId> {
        let mut counts = self.counts.borrow_mut();
        counts.retain(|_, count| std::mem::take(&mut count.used));
        counts.keys().copied().collect()
    }

    /// Those of the tables that the data nodes were not asked about.
    fn unasked(&self, tables: impl IntoIterator<Item = TableId>) -> Vec<TableId> {
        let counts = self.counts.borrow();
        let unasked = |table: &TableId| counts.get(table).is_none_or(|count| !count.asked);
        tables.into_iter().filter(unasked).collect()
    }
}

/// Whether so many rows have come or gone that values are distributed in another way, perhaps.
fn has_changed(then: u64, now: u64) -> bool {
    then.abs_diff(now) > then.max(now) / CHANGED_SHARE
}

/// Whether a plan that was made for so many rows of a table is good for so many now.
pub(crate) fn alike(then: Option<u64>, now: Option<u64>) -> bool {
    let (Some(then), Some(now)) = (then, now) else { return then.is_some() || now.is_none() };
    let (less, more) = (then.min(now), then.max(now));
    more < 1_000 || more / 8 <= less
}

/// Whether a query has several tables in FROM somewhere.
pub(crate) fn joins(body: &QueryBody) -> bool {
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

#[cfg(test)]
mod tests;
