//! The rows of a feed's tables at one epoch: what comes before the changes behind it.
//!
//! # Guarantees
//! All rows are of the same epoch, and the definitions by which they are read are of that time.
//! # Failure
//! A scan that a lost node ends is not gone on with: whoever reads begins anew.
//! # Not here
//! What comes behind the epoch (`changefeed::reader`).

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use model::{Epoch, Table, TableId, Value};
use sql_expression::{EvalContext, SqlError};
use sql_parser::ast::Expr;
use sqltype::storage;
use wire::Projection;

use super::reader::{Change, FeedEnd, Known, Operation, context};
use crate::access::{Asked, ReadMode, Reader};
use crate::binlog::table::Held;
use crate::definition_log::catch_up;
use crate::kernel::{Kernel, Scan};

/// How often it is tried to see definitions and rows of one moment.
const ATTEMPTS: u32 = 20;

/// A snapshot that is being read; given back when dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    kernel: Kernel,
    epoch: Epoch,
    /// When it was opened: microseconds since 1970 UTC.
    at: u64,
    tables: VecDeque<Rc<Known>>,
    open: Option<(Rc<Known>, Reader, Scan)>,
    count: u64,
    context: EvalContext,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.kernel.close_snapshot(self.epoch);
    }
}

impl Snapshot {
    /// Opens a snapshot of some tables.
    pub(crate) async fn open(
        kernel: &Kernel,
        ids: &[TableId],
        condition: Option<&Expr>,
        at: u64,
    ) -> Result<Self, FeedEnd> {
        let kernel = kernel.beside();
        for _ in 0..ATTEMPTS {
            catch_up(&kernel).await.map_err(failed)?;
            let before = tables_of(&kernel, ids);
            let epoch = kernel.open_snapshot().await.map_err(failed)?;
            let none = VecDeque::new();
            let context = context();
            let mut snapshot = Self {
                kernel: kernel.clone(),
                epoch,
                at,
                tables: none,
                open: None,
                count: 0,
                context,
            };
            catch_up(&kernel).await.map_err(failed)?;
            if before != tables_of(&kernel, ids) {
                continue;
            }
            let Some(mut before) = before else {
                let table = "a table of the feed".to_owned();
                return Err(FeedEnd::Gone { table, at: epoch });
            };
            before.sort_by(|a, b| a.name.cmp(&b.name));
            for table in before {
                let known = Known::of(&table, condition).map_err(|error| FeedEnd::Unreadable {
                    why: error.message().to_owned(),
                    at: epoch,
                })?;
                snapshot.tables.push_back(Rc::new(known));
            }
            if kernel.has_disk() {
                kernel.await_durable(epoch, false).await.map_err(failed)?;
            }
            return Ok(snapshot);
        }
        let why = "definitions change all the time: none of them holds for the time of a snapshot";
        Err(FeedEnd::Failed(SqlError::new(1412, "HY000", why)))
    }

    /// The epoch whose rows it has.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The next rows; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Change>>, FeedEnd> {
        loop {
            if self.open.is_none() {
                let Some(known) = self.tables.pop_front() else { return Ok(None) };
                let reader = Reader {
                    kernel: self.kernel.clone(),
                    table: known.shape.table.clone(),
                    mode: ReadMode::Snapshot(self.epoch),
                    projection: Projection::All,
                };
                let scan = reader.scan(Asked::heap(), None, None, None);
                self.open = Some((known, reader, scan));
            }
            let Some((known, reader, scan)) = &mut self.open else { continue };
            let Some(rows) = scan.next().await.map_err(failed)? else {
                self.open = None;
                continue;
            };
            let (known, reader) = (known.clone(), reader.clone());
            let mut changes = Vec::new();
            for row in rows {
                let row = match reader.references() {
                    Some(_) => completed(&reader, row).await?,
                    None => row,
                };
                changes.extend(self.change(&known, row)?);
            }
            self.kernel.breathe().await.map_err(failed)?;
            if !changes.is_empty() {
                return Ok(Some(changes));
            }
        }
    }

    fn change(&mut self, known: &Rc<Known>, row: Vec<Value>) -> Result<Option<Change>, FeedEnd> {
        let value = |column: &crate::catalog::ColumnDefinition| {
            let stored = &row[usize::from(column.column.0)];
            Held::Value(storage::from_value(stored.as_ref(), &column.sql_type))
        };
        let values: Vec<Held> = known.columns().iter().map(value).collect();
        let admits = known.admits(&values, &mut self.context);
        let at = self.epoch;
        if !admits.map_err(|error| FeedEnd::Unreadable { why: error.message().to_owned(), at })? {
            return Ok(None);
        }
        self.count += 1;
        Ok(Some(Change {
            epoch: self.epoch,
            number: self.count,
            operation: Operation::Read,
            at: self.at,
            known: known.clone(),
            before: None,
            after: Some(values),
        }))
    }
}

fn failed(failure: impl Into<SqlError>) -> FeedEnd {
    FeedEnd::Failed(failure.into())
}

/// The tables as they are now; none if one is missing.
fn tables_of(kernel: &Kernel, ids: &[TableId]) -> Option<Vec<Arc<Table>>> {
    let cluster = kernel.cluster();
    ids.iter().map(|id| cluster.tables.get(id).cloned()).collect()
}

/// A row with its large values. In a snapshot nothing of it is newer.
async fn completed(reader: &Reader, row: Vec<Value>) -> Result<Vec<Value>, FeedEnd> {
    let completed = reader.complete(vec![row]).await.map_err(failed)?.into_iter().next();
    let values = completed.and_then(|completed| completed.values);
    values.ok_or_else(|| failed(SqlError::internal("a row of a snapshot has gone")))
}
