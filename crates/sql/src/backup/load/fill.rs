//! The rows of a restore on their way into a table.
//!
//! # Owns
//! [`Destination`], the table that is filled; [`Filler`], which sends rows to it.
//! # Guarantees
//! The rows of a transaction are of one partition, so that their changes are in one chain of
//! replicas and commit in one phase. Some transactions are under way at a time, each in a lane of
//! its own: all workers of the data nodes have something to do. A failure is told when none is
//! under way any more.
//! # Failure
//! What a failing node has kept from happening is tried again. A row whose transaction has ended in
//! the unknown is written whether it is there or not.
//! # Not here
//! Which rows (`load`), their form in the files (`rows`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use client::ClientOperation;
use model::{PartitionIndex, Value};
use sql_expression::SqlError;
use sqltype::Datum;
use stdx::Duration;

use super::placing::Placing;
use crate::backup_jobs::OwnJob;
use crate::catalog::TableDefinition;
use crate::error::is_temporary;
use crate::execute::reference::batch::Batch;
use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::execute::scan::datum_of;
use crate::kernel::{Failure, Kernel, LOADERS};
use crate::session::Session;

/// Rows inserted in one transaction: enough for what a transaction costs, and so few that what is
/// under way stays in the caches of processors.
const BATCH: usize = 128;
/// Bytes of rows after which a batch ends.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes of rows that wait for others of their partitions, at most.
const WAITING_BYTES: usize = 4 << 20;
/// How often a batch is tried that meets a failing node.
const ATTEMPTS: u32 = 60;
/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// The error of a commit that nobody knows whether it took place.
const OUTCOME_UNKNOWN: u16 = 1296;

/// A table that is filled.
pub(super) struct Destination {
    pub(super) table: Arc<model::Table>,
    pub(super) definition: Rc<TableDefinition>,
    /// Where the values of a saved row stand.
    pub(super) placing: Placing,
    /// Rows are those of the kernel, with references to large values; parts come by themselves.
    pub(super) is_raw: bool,
    /// Of a table that refers to others which are there already.
    pub(super) maker: Option<RowMaker>,
    /// The foreign keys whose parents are known to be there.
    pub(super) known: Vec<usize>,
}

/// Why rows were not inserted, and whether that is known for sure.
type NotInserted = (SqlError, bool);

impl Destination {
    fn partition(&self, row: &[Value]) -> PartitionIndex {
        let key = self.table.primary_key.iter().map(|at| row[usize::from(at.0)].clone());
        let key: Vec<Value> = key.collect();
        // The data nodes refuse what does not fit, wherever it is sent.
        self.table.partition_of_key(&key).unwrap_or(PartitionIndex(0))
    }

    /// A row, which is perhaps there already when an attempt before has ended in the unknown.
    fn operation(&self, row: &[Value], is_known: bool) -> ClientOperation {
        let (id, row) = (self.table.id, row.to_vec());
        let operation = if is_known {
            ClientOperation::insert(id, row)
        } else {
            ClientOperation::upsert(id, row)
        };
        operation.of_version(self.table.version)
    }

    async fn send(
        &self,
        kernel: &Kernel,
        rows: &[Vec<Value>],
        is_known: bool,
    ) -> Result<(), NotInserted> {
        let operations = rows.iter().map(|row| self.operation(row, is_known)).collect();
        let sent = if self.is_raw {
            kernel.execute_all_plain(operations, true).await
        } else {
            kernel.execute_all(operations, true).await
        };
        sent.map(|_| ()).map_err(|rejected| {
            let known = !matches!(rejected.failure, Failure::OutcomeUnknown(_));
            (rejected.failure.into(), known)
        })
    }

    /// The same, with a search for the parents of the rows.
    async fn send_checked(
        &self,
        session: &mut Session,
        kernel: &Kernel,
        maker: &RowMaker,
        rows: &[Vec<Value>],
        is_known: bool,
    ) -> Result<(), NotInserted> {
        let mut batch = Batch::default();
        let run = Run::new(session, &[]);
        for row in rows {
            let value = |column: &crate::catalog::ColumnDefinition| {
                datum_of(row[usize::from(column.column.0)].clone(), &column.sql_type, &run)
            };
            let shown: Vec<Datum> = self.definition.columns.iter().map(value).collect();
            batch.push(self.operation(row, is_known), shown);
            batch.refer(maker, row, None, &self.known).map_err(|error| (error, true))?;
        }
        run.finish();
        let sent = batch.send(kernel, maker, true).await;
        // Whether it was committed the error does not say.
        sent.map(|_| ()).map_err(|error| {
            let known = !is_temporary(&error) && error.code() != OUTCOME_UNKNOWN;
            (error, known)
        })
    }

    /// Inserts rows in a transaction of their own, unless others are to `stop`; how many.
    async fn insert(
        &self,
        kernel: Kernel,
        rows: Vec<Vec<Value>>,
        job: &OwnJob,
        stop: &Cell<bool>,
    ) -> Result<u64, SqlError> {
        let mut tries = Tries::default();
        while let Err(not) = self.send(&kernel, &rows, tries.all_known).await {
            tries.again(&kernel, not, stop).await?;
        }
        told(job, &rows)
    }

    /// The same for rows whose parents are to be found.
    async fn insert_checked(
        &self,
        session: &mut Session,
        maker: &RowMaker,
        rows: Vec<Vec<Value>>,
        job: &OwnJob,
    ) -> Result<u64, SqlError> {
        let (kernel, stop) = (session.kernel.loader(0), Cell::new(false));
        let mut tries = Tries::default();
        while let Err(not) =
            self.send_checked(session, &kernel, maker, &rows, tries.all_known).await
        {
            tries.again(&kernel, not, &stop).await?;
        }
        told(job, &rows)
    }
}

fn told(job: &OwnJob, rows: &[Vec<Value>]) -> Result<u64, SqlError> {
    let count = rows.len() as u64;
    job.tell(|job| job.rows += count)?;
    Ok(count)
}

/// How often a batch was tried.
struct Tries {
    failed: u32,
    /// Of none of them the end is unknown.
    all_known: bool,
}

impl Default for Tries {
    fn default() -> Self {
        Self { failed: 0, all_known: true }
    }
}

impl Tries {
    /// Waits before the next one.
    ///
    /// # Errors
    /// If there is none.
    async fn again(
        &mut self,
        kernel: &Kernel,
        not: NotInserted,
        stop: &Cell<bool>,
    ) -> Result<(), SqlError> {
        let (error, known) = not;
        self.failed += 1;
        self.all_known &= known;
        kernel.abort().await;
        if known && !is_temporary(&error) || self.failed == ATTEMPTS || stop.get() {
            return Err(error);
        }
        Ok(kernel.sleep(PAUSE).await?)
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<u64, SqlError>> + 'a>>;

/// The rows of a table that are not sent yet, and the transactions under way.
pub(super) struct Filler<'a> {
    into: &'a Destination,
    job: &'a OwnJob,
    /// One has failed: the others are not tried again.
    stop: &'a Cell<bool>,
    waiting: BTreeMap<PartitionIndex, Waiting>,
    waiting_bytes: usize,
    lanes: Vec<Kernel>,
    under_way: Vec<(Kernel, Sending<'a>)>,
    count: u64,
}

#[derive(Default)]
struct Waiting {
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl<'a> Filler<'a> {
    pub(super) fn new(
        kernel: &Kernel,
        into: &'a Destination,
        job: &'a OwnJob,
        stop: &'a Cell<bool>,
    ) -> Self {
        Self {
            into,
            job,
            stop,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            lanes: (0..LOADERS).map(|at| kernel.loader(at)).collect(),
            under_way: Vec::new(),
            count: 0,
        }
    }

    /// Takes a row as it was saved, which has so many bytes there.
    pub(super) async fn add(
        &mut self,
        session: &mut Session,
        row: Vec<Value>,
        bytes: usize,
    ) -> Result<(), SqlError> {
        let row = self.into.placing.placed(row);
        let partition = match self.into.maker {
            // Its transactions go where the parents are.
            Some(_) => PartitionIndex(0),
            None => self.into.partition(&row),
        };
        let waiting = self.waiting.entry(partition).or_default();
        waiting.rows.push(row);
        waiting.bytes += bytes;
        self.waiting_bytes += bytes;
        if waiting.rows.len() >= BATCH || waiting.bytes >= BATCH_BYTES {
            self.send(session, partition).await?;
        } else if self.waiting_bytes >= WAITING_BYTES {
            let most = self.waiting.iter().max_by_key(|(_, waiting)| waiting.bytes);
            let most = most.map_or(partition, |(partition, _)| *partition);
            self.send(session, most).await?;
        }
        Ok(())
    }

    /// Sends what there is, and waits for all of it; how many rows there were.
    pub(super) async fn finish(mut self, session: &mut Session) -> Result<u64, SqlError> {
        while let Some((partition, _)) = self.waiting.first_key_value() {
            let partition = *partition;
            // Small rests share a transaction.
            let mut rest = self.waiting.remove(&partition).unwrap_or_default();
            while let Some(next) = self.waiting.first_entry()
                && rest.rows.len() + next.get().rows.len() <= BATCH
                && rest.bytes + next.get().bytes <= BATCH_BYTES
            {
                let more = next.remove();
                rest.rows.extend(more.rows);
                rest.bytes += more.bytes;
            }
            self.waiting.insert(partition, rest);
            self.send(session, partition).await?;
        }
        while let Some((_, result)) = self.ended().await {
            self.note(result).await?;
        }
        Ok(self.count)
    }

    /// Has the rows of a partition inserted, in the next lane that is free.
    async fn send(
        &mut self,
        session: &mut Session,
        partition: PartitionIndex,
    ) -> Result<(), SqlError> {
        let Waiting { rows, bytes } = self.waiting.remove(&partition).unwrap_or_default();
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        if let Some(maker) = &self.into.maker {
            self.count += self.into.insert_checked(session, maker, rows, self.job).await?;
        } else {
            let lane = match self.lanes.pop() {
                Some(lane) => lane,
                None => {
                    let (lane, result) = self.ended().await.ok_or_else(no_lane)?;
                    self.note(result).await?;
                    lane
                }
            };
            let sending = self.into.insert(lane.clone(), rows, self.job, self.stop);
            self.under_way.push((lane, Box::pin(sending)));
        }
        Ok(session.kernel.breathe().await?)
    }

    /// Waits for one of those under way; none if there is none.
    async fn ended(&mut self) -> Option<(Kernel, Result<u64, SqlError>)> {
        if self.under_way.is_empty() {
            return None;
        }
        poll_fn(|context| {
            for at in 0..self.under_way.len() {
                if let Poll::Ready(result) = self.under_way[at].1.as_mut().poll(context) {
                    let (lane, _) = self.under_way.swap_remove(at);
                    return Poll::Ready(Some((lane, result)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Takes note of how one has ended. After a failure it waits for the others.
    async fn note(&mut self, result: Result<u64, SqlError>) -> Result<(), SqlError> {
        match result {
            Ok(count) => self.count += count,
            Err(error) => {
                self.stop().await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until none is under way, as something has failed.
    pub(super) async fn stop(&mut self) {
        self.stop.set(true);
        while self.ended().await.is_some() {}
    }
}

fn no_lane() -> SqlError {
    SqlError::internal("a restore has neither a free lane nor one in use")
}
