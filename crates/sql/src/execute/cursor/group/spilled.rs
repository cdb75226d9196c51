//! GROUP BY of more groups than memory has room for.
//!
//! Groups that are made of rows stay in memory when it is refused, and take the rows that belong to
//! them; rows of other groups are spread over partitions by what they are grouped by. Groups in
//! columns are parts that can be merged: all of them go to partitions, and the table begins anew. A
//! partition is then grouped alone, and may be spread once more.
//!
//! # Guarantees
//! The rows of a group are met in the order they came, as in memory.
//! # Limits
//! WITH ROLLUP and aggregates without GROUP BY are made in memory, as is each single group: all the
//! values of a GROUP_CONCAT or of a COUNT(DISTINCT).

use std::collections::VecDeque;

use sql_expression::{AggregateCall, SqlError};
use sql_parser::ast::AggregateFunction;
use sqltype::Datum;
use vector::Block;

use super::{GROUPS, Gathered, Groups, Part, Table, rows_of};
use crate::execute::pushdown::GroupProgram;
use crate::execute::run::{Row, Run};
use crate::memory::{Account, Held};
use crate::plan::operator::Aggregate;
use crate::spill::blocks::BlockRun;
use crate::spill::partitions::{BlockPartitions, RowPartitions, partition_of, spread};
use crate::spill::rows::RowRun;

/// Groups of a table that are spread over partitions at a time.
const SPREAD_MAX: usize = 4_096;
/// Rows that are given at a time.
const GIVEN_ROWS: usize = 256;

/// Where groups go that do not fit memory.
pub(super) struct Overflow {
    /// Groups may go to files at all.
    pub(super) is_allowed: bool,
    /// A group grows with its rows: what it takes at first is not all of it.
    grows: bool,
    /// How often the rows were spread before.
    level: u32,
    account: Account,
    /// Rows of groups that are not in memory, each with the values it is grouped by.
    rows: Option<RowPartitions>,
    /// Parts of groups.
    blocks: Option<BlockPartitions>,
}

/// Rows and parts of groups of one partition.
struct Partition {
    rows: Option<RowRun>,
    blocks: Option<BlockRun>,
    level: u32,
}

/// Groups some of which are in files.
pub(crate) struct SpilledGroups<'p> {
    aggregate: &'p Aggregate,
    pushed: Option<GroupProgram>,
    partitions: Vec<Partition>,
    /// Groups in memory that are complete.
    complete: Vec<Groups<'p>>,
    /// Groups in memory of which partitions may have parts.
    open: Vec<Groups<'p>>,
}

impl Overflow {
    pub(super) fn new(run: &Run<'_>, aggregate: &Aggregate) -> Self {
        let is_fixed = |call: &AggregateCall| {
            let function = matches!(
                call.function,
                AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Avg
            );
            function && !call.distinct || call.grouping
        };
        Self {
            is_allowed: run.may_spill() && !aggregate.rollup && !aggregate.whole,
            grows: !aggregate.calls.iter().all(is_fixed),
            level: 0,
            account: run.session.memory.clone(),
            rows: None,
            blocks: None,
        }
    }

    /// Whether something is in files.
    pub(super) fn is_begun(&self) -> bool {
        self.rows.is_some() || self.blocks.is_some()
    }

    /// Whether rows of new groups go to files.
    pub(super) fn takes_rows(&self) -> bool {
        self.rows.is_some()
    }

    pub(super) fn push_row(
        &mut self,
        key: &[u8],
        row: (&[Datum], &[Datum]),
    ) -> Result<(), SqlError> {
        let partition = partition_of(key, self.level);
        match &mut self.rows {
            Some(rows) => rows.push(partition, row),
            None => Ok(()),
        }
    }

    /// Holds what groups have come to take; from the first refusal on new ones go to files.
    pub(super) fn hold(&mut self, held: &mut Held, more: usize) -> Result<(), SqlError> {
        if !self.is_allowed {
            return held.add(more);
        }
        if self.rows.is_some() {
            // What is in memory grows.
            return if held.fits(more)? { Ok(()) } else { held.add(more) };
        }
        // Groups that grow have as much left as they take when the first rows go to files.
        let charged = if self.grows { 2 * more } else { more };
        if held.fits(charged)? {
            return Ok(());
        }
        held.force(charged);
        if self.grows {
            let real = held.bytes() / 2;
            held.set(real)?;
        }
        self.rows = Some(RowPartitions::new(&self.account, GROUPS)?);
        Ok(())
    }

    fn blocks(&mut self) -> Result<&mut BlockPartitions, SqlError> {
        let blocks = match self.blocks.take() {
            Some(blocks) => blocks,
            None => BlockPartitions::new(&self.account, GROUPS)?,
        };
        Ok(self.blocks.insert(blocks))
    }

    /// What is in files, by partition.
    fn finish(&mut self) -> Result<Vec<Partition>, SqlError> {
        let rows = self.rows.take().map(RowPartitions::finish).transpose()?;
        let blocks = self.blocks.take().map(BlockPartitions::finish).transpose()?;
        let count = rows.as_ref().map_or(0, Vec::len).max(blocks.as_ref().map_or(0, Vec::len));
        let (mut rows, mut blocks) =
            (rows.unwrap_or_default().into_iter(), blocks.unwrap_or_default().into_iter());
        let level = self.level + 1;
        let partition = |_| Partition {
            rows: rows.next().filter(|rows| rows.rows() > 0),
            blocks: blocks.next().filter(|blocks| blocks.rows() > 0),
            level,
        };
        let mut partitions: Vec<Partition> = (0..count).map(partition).collect();
        partitions.retain(|partition| partition.rows.is_some() || partition.blocks.is_some());
        Ok(partitions)
    }
}

impl<'p> Groups<'p> {
    /// Has all groups of a table go to files; it begins anew.
    pub(super) async fn flush(
        &mut self,
        run: &mut Run<'_>,
        table: &mut Table,
    ) -> Result<(), SqlError> {
        let Some(fresh) = table.computer.groups() else { return Ok(()) };
        let block = std::mem::replace(&mut table.groups, fresh).finish();
        let level = self.overflow.level;
        for from in (0..block.rows()).step_by(SPREAD_MAX) {
            let piece = block.slice(from, block.rows().min(from + SPREAD_MAX));
            let mut of_row = Vec::with_capacity(piece.rows());
            for at in 0..piece.rows() {
                let values = table.pushed.key_values(run, self.aggregate, (&piece, at));
                of_row.push(partition_of(&self.key_of(&values, 0), level));
                run.worked(1).await?;
            }
            let blocks = self.overflow.blocks()?;
            for (partition, places) in spread(of_row.into_iter()).iter().enumerate() {
                if !places.is_empty() {
                    blocks.push(partition, &piece.gather(places))?;
                }
            }
        }
        table.held.set(0)
    }

    /// Adds a part of a group; if new groups go to files, it does too.
    pub(super) fn merge_or_keep(
        &mut self,
        run: &mut Run<'_>,
        part: Part,
        (block, at): (&Block, usize),
    ) -> Result<(), SqlError> {
        if self.overflow.takes_rows() {
            let key = self.key_of(&part.keys, 0);
            if !self.by_key.contains_key(&key) {
                let partition = partition_of(&key, self.overflow.level);
                return self.overflow.blocks()?.push(partition, &block.slice(at, at + 1));
            }
        }
        self.merge(run, part)
    }

    /// All has been added, and some of it is in files.
    pub(super) async fn finish_spilled(
        mut self,
        run: &mut Run<'_>,
        table: Option<Table>,
    ) -> Result<Gathered<'p>, SqlError> {
        let mut pushed = None;
        if let Some(mut table) = table {
            if !table.groups.is_empty() {
                self.flush(run, &mut table).await?;
            }
            pushed = Some(table.pushed);
        }
        let has_parts = self.overflow.blocks.is_some();
        let partitions = self.overflow.finish()?;
        let (aggregate, mut complete, mut open) = (self.aggregate, Vec::new(), Vec::new());
        if !self.groups.is_empty() {
            if has_parts { &mut open } else { &mut complete }.push(self);
        }
        let spilled = SpilledGroups { aggregate, pushed, partitions, complete, open };
        Ok(Gathered::Spilled(Box::new(spilled)))
    }
}

impl<'p> SpilledGroups<'p> {
    /// Some of the groups, which are in memory; nothing at the end.
    pub(crate) async fn next(
        &mut self,
        run: &mut Run<'_>,
    ) -> Result<Option<Gathered<'p>>, SqlError> {
        loop {
            if let Some(groups) = self.complete.pop() {
                return groups.finish(run).await.map(|kept| Some(Gathered::Rows(kept)));
            }
            let Some(partition) = self.partitions.pop() else {
                return match self.open.pop() {
                    Some(groups) => groups.finish(run).await.map(|kept| Some(Gathered::Rows(kept))),
                    None => Ok(None),
                };
            };
            match self.group(run, partition).await? {
                Gathered::Spilled(inner) => {
                    self.partitions.extend(inner.partitions);
                    self.complete.extend(inner.complete);
                    self.open.extend(inner.open);
                }
                gathered => return Ok(Some(gathered)),
            }
        }
    }

    /// Groups what is in a partition.
    async fn group(
        &mut self,
        run: &mut Run<'_>,
        partition: Partition,
    ) -> Result<Gathered<'p>, SqlError> {
        let aggregate = self.aggregate;
        let mut groups = Groups::new(run, aggregate);
        groups.overflow.level = partition.level;
        let mut table = None;
        if let Some(blocks) = partition.blocks
            && let Some(pushed) = self.pushed.clone()
        {
            let mut reader = blocks.read();
            let mut merged = Table::new(run, pushed.clone());
            while let Some(blocks) = reader.next()? {
                for block in blocks {
                    let block = self.without_open(run, &pushed, block).await?;
                    if let Some(table) = &mut merged {
                        groups.add_blocks(run, table, &[block]).await?;
                    }
                }
            }
            table = merged;
        }
        if let Some(rows) = partition.rows {
            let mut reader = rows.read();
            while let Some(rows) = reader.next()? {
                for mut row in rows {
                    let values = row.split_off(row.len() - aggregate.group.len());
                    groups.add_with(run, row, &values).await?;
                    run.worked_a_row().await?;
                }
            }
        }
        groups.finish_with(run, table).await
    }

    /// The parts of a block whose groups are not in memory; the others are added to these.
    async fn without_open(
        &mut self,
        run: &mut Run<'_>,
        pushed: &GroupProgram,
        block: Block,
    ) -> Result<Block, SqlError> {
        // Groups are in memory beside parts only where some rows have come as such.
        if self.open.is_empty() {
            return Ok(block);
        }
        let mut rest = Vec::with_capacity(block.rows());
        for at in 0..block.rows() {
            let part = pushed.part(run, self.aggregate, (&block, at))?;
            let mut open = self.open.iter_mut();
            let known =
                open.find(|groups| groups.by_key.contains_key(&groups.key_of(&part.keys, 0)));
            match known {
                Some(groups) => groups.merge(run, part)?,
                None => rest.push(at as u32),
            }
            run.worked(1).await?;
        }
        Ok(block.gather(&rest))
    }

    /// The groups as rows of the operator.
    pub(crate) fn in_rows(self, aggregate: &'p Aggregate) -> GroupRows<'p> {
        GroupRows { groups: self, aggregate, given: None }
    }
}

/// Groups that are in files, row by row.
pub(crate) struct GroupRows<'p> {
    groups: SpilledGroups<'p>,
    aggregate: &'p Aggregate,
    /// Rows of the groups at hand that have not been given, and what they take.
    given: Option<(VecDeque<Row>, Held)>,
}

impl GroupRows<'_> {
    /// The next rows; nothing at the end.
    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        loop {
            if let Some((rows, held)) = &mut self.given
                && !rows.is_empty()
            {
                let count = rows.len().min(GIVEN_ROWS);
                held.give_up(count, rows.len());
                return Ok(Some(rows.drain(..count).collect()));
            }
            self.given = None;
            let Some(gathered) = self.groups.next(run).await? else { return Ok(None) };
            let (rows, held) = rows_of(run, self.aggregate, gathered).await?;
            self.given = Some((rows.into(), held));
        }
    }
}
