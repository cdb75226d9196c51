//! Set operations on more rows than fit memory: all inputs are spread over partitions by their
//! values, and the operations are made partition by partition. Rows that are the same are in one
//! partition, so each partition of the result depends on the same partition of the inputs alone.
//!
//! # Limits
//! EXCEPT ALL and INTERSECT ALL of very many rows that are the same: these are together in memory.

use std::collections::VecDeque;

use sql_expression::{SqlError, group_key};
use sqltype::SqlType;

use super::step;
use crate::execute::cursor::open;
use crate::execute::kept::{Kept, some_of};
use crate::execute::run::{KEY_BYTES, Run, Seen};
use crate::execute::spilled::buffer::Buffered;
use crate::logical::formula::SetKind;
use crate::memory::{Account, Held};
use crate::plan::operator::PlanNode;
use crate::rows::{Row, memory_of_row};
use crate::spill::partitions::{RowPartitions, partition_of};
use crate::spill::rows::{RowReader, RowRun};

/// What errors say that too much of is kept.
const WHAT: &str = "the rows of a set operation";
/// How often rows are spread at most.
const LEVELS_MAX: u32 = 6;
/// Rows that are given at a time.
const GIVEN_ROWS: usize = 256;

/// Set operations under way.
pub(crate) struct SpilledSet<'p> {
    kinds: Vec<SetKind>,
    types: &'p [SqlType],
    /// Of all inputs the rows whose keys are in one partition, and how often these were spread.
    pending: Vec<(Vec<RowRun>, u32)>,
    /// Rows of the result, and what they take.
    given: Option<(VecDeque<Row>, Held)>,
}

impl<'p> SpilledSet<'p> {
    /// What two operators have given and what others give, with the operations before each but the
    /// first.
    pub(super) async fn new(
        run: &mut Run<'_>,
        first: Buffered,
        second: Buffered,
        rest: &'p [(SetKind, PlanNode)],
        types: &'p [SqlType],
    ) -> Result<Self, SqlError> {
        let account = run.session.memory.clone();
        let mut inputs = Vec::with_capacity(rest.len() + 1);
        for buffered in [first, second] {
            let mut side = Side::new(&account, types, 0)?;
            match buffered {
                Buffered::Kept(Kept { rows, held: _held }) => side.add(run, rows).await?,
                Buffered::File(file) => side.add_file(run, file.read()).await?,
            }
            inputs.push(side.finish()?);
        }
        for (_, operator) in &rest[1..] {
            let mut side = Side::new(&account, types, 0)?;
            let mut cursor = open(operator);
            while let Some(rows) = cursor.next(run).await? {
                side.add(run, rows).await?;
            }
            inputs.push(side.finish()?);
        }
        let kinds = rest.iter().map(|(kind, _)| *kind).collect();
        Ok(Self { kinds, types, pending: by_partition(inputs, 1), given: None })
    }

    /// The next rows; nothing at the end.
    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        loop {
            if let Some((rows, held)) = &mut self.given
                && let Some(some) = some_of(rows, held, GIVEN_ROWS)
            {
                return Ok(Some(some));
            }
            self.given = None;
            let Some((inputs, level)) = self.pending.pop() else { return Ok(None) };
            self.combine(run, inputs, level).await?;
        }
    }

    /// Makes the operations of a partition, or spreads it once more.
    async fn combine(
        &mut self,
        run: &mut Run<'_>,
        inputs: Vec<RowRun>,
        level: u32,
    ) -> Result<(), SqlError> {
        let mut readers: Vec<RowReader> = inputs.into_iter().map(RowRun::read).collect();
        let (mut loaded, mut held) = (Vec::with_capacity(readers.len()), run.hold(WHAT));
        for reader in &mut readers {
            match self.load(run, reader, &mut held, level).await? {
                Some(rows) => loaded.push(rows),
                None => {
                    drop((loaded, held));
                    return self.spread_again(run, readers, level).await;
                }
            }
        }
        let mut loaded = loaded.into_iter();
        let mut rows = loaded.next().unwrap_or_default();
        for (kind, other) in self.kinds.iter().zip(loaded) {
            // The keys are held with the rows.
            let mut of_keys = held.another();
            of_keys.be_lenient(true);
            rows = step(run, *kind, rows, Kept { rows: other, held: of_keys }, self.types).await?;
        }
        let bytes: usize = rows.iter().map(memory_of_row).sum();
        held.set(bytes.min(held.bytes()))?;
        self.given = Some((rows.into(), held));
        Ok(())
    }

    /// The rows of an input; nothing if they do not fit.
    async fn load(
        &self,
        run: &mut Run<'_>,
        reader: &mut RowReader,
        held: &mut Held,
        level: u32,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let once = self.is_of_sets();
        let (mut rows, mut seen) = (Vec::new(), Seen::default());
        while let Some(some) = reader.next(run).await? {
            for row in some {
                run.worked(1).await?;
                if once {
                    let key = group_key(&row, self.types);
                    if seen.has(&key) {
                        continue;
                    }
                    seen.insert(key);
                }
                // With its keys, here and in the operation.
                let bytes = 2 * (KEY_BYTES + memory_of_row(&row));
                if !held.fits(bytes)? {
                    if level < LEVELS_MAX {
                        return Ok(None);
                    }
                    held.add(bytes)?;
                }
                rows.push(row);
            }
        }
        Ok(Some(rows))
    }

    /// Whether it does not matter how often a row comes.
    fn is_of_sets(&self) -> bool {
        let no_all =
            |kind: &SetKind| matches!(kind, SetKind::Union | SetKind::Except | SetKind::Intersect);
        let unions = |kind: &SetKind| matches!(kind, SetKind::Union | SetKind::UnionAll);
        self.kinds.iter().all(no_all)
            || self.kinds.iter().all(unions) && self.kinds.last() == Some(&SetKind::Union)
    }

    async fn spread_again(
        &mut self,
        run: &mut Run<'_>,
        readers: Vec<RowReader>,
        level: u32,
    ) -> Result<(), SqlError> {
        let account = run.session.memory.clone();
        let mut inputs = Vec::with_capacity(readers.len());
        for mut reader in readers {
            reader.rewind();
            let mut side = Side::new(&account, self.types, level)?;
            side.add_file(run, reader).await?;
            inputs.push(side.finish()?);
        }
        self.pending.extend(by_partition(inputs, level + 1));
        Ok(())
    }
}

/// The partitions of all inputs, from the inputs with their partitions.
fn by_partition(inputs: Vec<Vec<RowRun>>, level: u32) -> Vec<(Vec<RowRun>, u32)> {
    let mut inputs: Vec<_> = inputs.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let of_partition: Vec<RowRun> = inputs.iter_mut().filter_map(Iterator::next).collect();
        if of_partition.is_empty() {
            return all;
        }
        if of_partition.iter().any(|input| input.rows() > 0) {
            all.push((of_partition, level));
        }
    }
}

/// An input on its way to partitions.
struct Side<'p> {
    partitions: RowPartitions,
    types: &'p [SqlType],
    level: u32,
}

impl<'p> Side<'p> {
    fn new(account: &Account, types: &'p [SqlType], level: u32) -> Result<Self, SqlError> {
        Ok(Self { partitions: RowPartitions::new(account, WHAT)?, types, level })
    }

    async fn add(&mut self, run: &mut Run<'_>, rows: Vec<Row>) -> Result<(), SqlError> {
        for row in rows {
            let key = group_key(&row, self.types);
            self.partitions.push(partition_of(&key, self.level), &row, &[])?;
            run.worked(1).await?;
        }
        Ok(())
    }

    async fn add_file(&mut self, run: &mut Run<'_>, mut reader: RowReader) -> Result<(), SqlError> {
        while let Some(rows) = reader.next(run).await? {
            self.add(run, rows).await?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<RowRun>, SqlError> {
        self.partitions.finish()
    }
}
