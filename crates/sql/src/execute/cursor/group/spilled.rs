//! GROUP BY of more groups than memory has room for.
//!
//! Groups that are made of rows and do not grow stay in memory when it is refused, and take the
//! rows that belong to them; rows of other groups are spread over partitions by what they are
//! grouped by. Groups that grow with their rows (GROUP_CONCAT, DISTINCT) go to partitions as states
//! that can be merged, and groups in columns as parts that can be: all of them, and the table
//! begins anew. A partition is then grouped alone, and may be spread once more.
//!
//! # Guarantees
//! The rows of a group are met in the order they came, as in memory: its states are in one
//! partition in the order they were written.
//! # Limits
//! WITH ROLLUP and aggregates without GROUP BY are made in memory, as is each single group: all the
//! values of a GROUP_CONCAT or of a COUNT(DISTINCT).

use std::collections::VecDeque;

use sql_expression::{Accumulator, AggregateCall, SqlError};
use sql_parser::ast::AggregateFunction;
use sqltype::Datum;
use vector::Block;

use super::{GROUPS, Gathered, Groups, Part, Table, rows_of};
use crate::execute::kept::{Kept, some_of};
use crate::execute::pushdown::GroupProgram;
use crate::execute::run::Run;
use crate::memory::{Account, Held};
use crate::plan::operator::Aggregate;
use crate::rows::Row;
use crate::spill::blocks::BlockRun;
use crate::spill::partitions::{BlockPartitions, FAN_OUT, RowPartitions, partition_of, spread};
use crate::spill::rows::RowRun;

/// How often states are spread at most. A partition of so many levels that holds several groups is
/// as good as impossible.
const LEVELS_MAX: u32 = 8;
/// What errors say that too much of is kept where there is one group only.
const ONE_GROUP: &str = "a single group of GROUP BY";
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
    /// States of groups: how long a row of the group is, that row, what the group is grouped by,
    /// and the aggregates.
    states: Option<RowPartitions>,
    /// Parts of groups.
    blocks: Option<BlockPartitions>,
}

/// Rows, states and parts of groups of one partition.
struct Partition {
    rows: Option<RowRun>,
    states: Option<RowRun>,
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
            states: None,
            blocks: None,
        }
    }

    /// Whether something is in files.
    pub(super) fn is_begun(&self) -> bool {
        self.rows.is_some() || self.states.is_some() || self.blocks.is_some()
    }

    /// Whether rows of new groups go to files.
    pub(super) fn takes_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Adds a row, which is made of two parts.
    pub(super) fn push_row(
        &mut self,
        key: &[u8],
        first: &[Datum],
        second: &[Datum],
    ) -> Result<(), SqlError> {
        let partition = partition_of(key, self.level);
        match &mut self.rows {
            Some(rows) => rows.push(partition, first, second),
            None => Ok(()),
        }
    }

    /// Holds what so many groups have come to take. From the first refusal on new ones go to files;
    /// where groups grow the answer is false, and all of them are to go there.
    pub(super) fn hold(
        &mut self,
        held: &mut Held,
        more: usize,
        groups: usize,
    ) -> Result<bool, SqlError> {
        if !self.is_allowed {
            return held.add(more).map(|()| true);
        }
        if held.fits(more)? {
            return Ok(true);
        }
        if self.grows {
            // What was spread before and is one group cannot be spread again.
            let is_last = self.level > 0 && groups == 1 || self.level >= LEVELS_MAX;
            if is_last {
                let another = held.another();
                let mut all = std::mem::replace(held, another).named(ONE_GROUP);
                all.add(more)?;
                *held = all;
                return Ok(true);
            }
            held.force(more);
            return Ok(false);
        }
        if self.rows.is_some() {
            // What is in memory grows.
            return held.add(more).map(|()| true);
        }
        held.force(more);
        self.rows = Some(RowPartitions::new(&self.account, GROUPS)?);
        Ok(true)
    }

    fn states(&mut self) -> Result<&mut RowPartitions, SqlError> {
        let states = match self.states.take() {
            Some(states) => states,
            None => RowPartitions::new(&self.account, GROUPS)?,
        };
        Ok(self.states.insert(states))
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
        let states = self.states.take().map(RowPartitions::finish).transpose()?;
        let blocks = self.blocks.take().map(BlockPartitions::finish).transpose()?;
        let (mut rows, mut states, mut blocks) = (
            rows.unwrap_or_default().into_iter(),
            states.unwrap_or_default().into_iter(),
            blocks.unwrap_or_default().into_iter(),
        );
        let level = self.level + 1;
        let partition = |_| Partition {
            rows: rows.next().filter(|rows| rows.rows() > 0),
            states: states.next().filter(|states| states.rows() > 0),
            blocks: blocks.next().filter(|blocks| blocks.rows() > 0),
            level,
        };
        let mut partitions: Vec<Partition> = (0..FAN_OUT).map(partition).collect();
        partitions.retain(|of| of.rows.is_some() || of.states.is_some() || of.blocks.is_some());
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
                let values = table.pushed.key_values(run, self.aggregate, &piece, at);
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

    /// Has all groups that are made of rows go to files as states.
    pub(super) async fn write_states(&mut self, run: &mut Run<'_>) -> Result<(), SqlError> {
        self.by_key.clear();
        for group in std::mem::take(&mut self.groups) {
            let partition = partition_of(&self.key_of(&group.values, 0), self.overflow.level);
            let mut before = vec![Datum::UInt(group.first.len() as u64)];
            before.extend(group.first);
            before.extend(group.values);
            let mut state = Vec::new();
            for accumulator in group.accumulators {
                accumulator.write(&mut state);
            }
            self.overflow.states()?.push(partition, &before, &state)?;
            run.worked(state.len()).await?;
        }
        self.held.set(0)
    }

    /// Adds a state that was written.
    async fn add_state(&mut self, run: &mut Run<'_>, state: Row) -> Result<(), SqlError> {
        let broken = || SqlError::internal("a state of a group of another shape");
        let aggregate = self.aggregate;
        let work = state.len();
        let mut values = state.into_iter();
        let Some(Datum::UInt(width)) = values.next() else { return Err(broken()) };
        let first: Row = values.by_ref().take(width as usize).collect();
        let keys: Row = values.by_ref().take(aggregate.group.len()).collect();
        let at = self.at(&keys, 0, &first);
        let accumulators = self.groups[at].accumulators.iter_mut();
        for (accumulator, call) in accumulators.zip(&aggregate.calls) {
            let (state, bytes) = Accumulator::read(call, &mut values).ok_or_else(broken)?;
            accumulator.merge(state, call, &mut run.context)?;
            self.unheld += usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        self.hold(run).await?;
        run.worked(work).await
    }

    /// Adds a part of a group; if new groups go to files, it does too.
    pub(super) async fn merge_or_keep(
        &mut self,
        run: &mut Run<'_>,
        part: Part,
        block: &Block,
        at: usize,
    ) -> Result<(), SqlError> {
        if self.overflow.takes_rows() {
            let key = self.key_of(&part.keys, 0);
            if !self.by_key.contains_key(&key) {
                let partition = partition_of(&key, self.overflow.level);
                return self.overflow.blocks()?.push(partition, &block.slice(at, at + 1));
            }
        }
        self.merge(run, part).await
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
        if self.overflow.grows && !self.groups.is_empty() {
            // Those in files may be of the same groups.
            self.write_states(run).await?;
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
            while let Some(blocks) = reader.next(run).await? {
                for block in blocks {
                    let block = self.without_open(run, &pushed, block).await?;
                    if let Some(table) = &mut merged {
                        groups.add_blocks(run, table, &[block]).await?;
                    }
                }
            }
            table = merged;
        }
        if let Some(states) = partition.states {
            let mut reader = states.read();
            while let Some(states) = reader.next(run).await? {
                for state in states {
                    groups.add_state(run, state).await?;
                }
            }
        }
        if let Some(rows) = partition.rows {
            let mut reader = rows.read();
            while let Some(rows) = reader.next(run).await? {
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
            let part = pushed.part(run, self.aggregate, &block, at)?;
            let mut open = self.open.iter_mut();
            let known =
                open.find(|groups| groups.by_key.contains_key(&groups.key_of(&part.keys, 0)));
            match known {
                Some(groups) => groups.merge(run, part).await?,
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
                && let Some(some) = some_of(rows, held, GIVEN_ROWS)
            {
                return Ok(Some(some));
            }
            self.given = None;
            let Some(gathered) = self.groups.next(run).await? else { return Ok(None) };
            let Kept { rows, held } = rows_of(run, self.aggregate, gathered).await?;
            self.given = Some((rows.into(), held));
        }
    }
}
