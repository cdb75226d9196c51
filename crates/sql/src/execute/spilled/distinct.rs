//! DISTINCT of more rows than memory has room for the keys of.
//!
//! When memory is refused, the keys that are known stay. Rows with one of them are dropped as
//! before, and those with another key are spread over partitions. Each partition is then a DISTINCT
//! of its own, which may be spread once more.

use sql_expression::{SqlError, group_key};
use sqltype::SqlType;

use crate::execute::cursor::Cursor;
use crate::execute::run::{KEY_BYTES, Run, Seen};
use crate::memory::Held;
use crate::rows::Row;
use crate::spill::partitions::{RowPartitions, partition_of};
use crate::spill::rows::{RowReader, RowRun};

/// What errors say that too much of is kept.
const WHAT: &str = "the rows of DISTINCT";

/// The rows that have been seen, and those that nobody knows about yet.
pub(crate) struct Distinct<'p> {
    types: &'p [SqlType],
    seen: Seen,
    held: Held,
    /// How often rows were spread before they came here.
    level: u32,
    unknown: Option<RowPartitions>,
    /// Partitions that have not been looked at, with the level of their rows.
    pending: Vec<(RowRun, u32)>,
    reader: Option<RowReader>,
}

impl<'p> Distinct<'p> {
    pub(crate) fn new(run: &Run<'_>, types: &'p [SqlType]) -> Self {
        Self {
            types,
            seen: Seen::default(),
            held: run.hold(WHAT),
            level: 0,
            unknown: None,
            pending: Vec::new(),
            reader: None,
        }
    }

    /// The next rows of an input that have not been seen before, perhaps none; nothing at the end.
    /// The input is gone once all of its rows have come.
    pub(crate) async fn next(
        &mut self,
        run: &mut Run<'_>,
        input: &mut Option<Box<Cursor<'_>>>,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        if let Some(cursor) = input {
            if let Some(rows) = cursor.next(run).await? {
                return self.unseen(run, rows).await.map(Some);
            }
            *input = None;
        }
        self.rest(run).await
    }

    /// Those of some rows that have not been seen before, as far as that is known.
    async fn unseen(&mut self, run: &mut Run<'_>, rows: Vec<Row>) -> Result<Vec<Row>, SqlError> {
        let mut fresh = Vec::new();
        for row in rows {
            let key = group_key(&row[..self.types.len().min(row.len())], self.types);
            match &mut self.unknown {
                None => {
                    let bytes = KEY_BYTES + key.len();
                    if self.seen.insert(key) {
                        fresh.push(row);
                        if !self.held.fits(bytes)? {
                            // The last one that is known.
                            self.held.force(bytes);
                            let unknown = RowPartitions::new(self.held.account(), WHAT)?;
                            self.unknown = Some(unknown);
                        }
                    }
                }
                Some(unknown) if !self.seen.has(&key) => {
                    unknown.push(partition_of(&key, self.level), &row, &[])?;
                }
                Some(_) => {}
            }
            run.worked(1).await?;
        }
        Ok(fresh)
    }

    /// More rows that have not been seen before, after all have been added: of partitions. Nothing
    /// at the end.
    async fn rest(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let rows = match &mut self.reader {
            Some(reader) => reader.next(run).await?,
            None => None,
        };
        if let Some(rows) = rows {
            return self.unseen(run, rows).await.map(Some);
        }
        self.seen = Seen::default();
        self.held.set(0)?;
        if let Some(unknown) = self.unknown.take() {
            let below = self.level + 1;
            let some = unknown.finish()?.into_iter().filter(|partition| partition.rows() > 0);
            self.pending.extend(some.map(|partition| (partition, below)));
        }
        let Some((partition, level)) = self.pending.pop() else { return Ok(None) };
        (self.reader, self.level) = (Some(partition.read()), level);
        Ok(Some(Vec::new()))
    }
}
