//! Joins that data nodes make, whose rows come in columns.

use std::collections::BTreeSet;

use sql_expression::Expression;
use vector::JoinPlan;

use crate::execute::columns::batch::{Blocks, ColumnBatch};
use crate::execute::columns::cursor::{ColumnCursor, ColumnWork, Next};
use crate::execute::columns::filter::Conditions;
use crate::execute::columns::shape::{Shape, Stop, places_of_conditions};
use crate::execute::joined::{JoinedRead, JoinedScan, Stopped};
use crate::execute::run::Run;
use crate::plan::operator::PlanNode;

/// A join at work.
pub(crate) struct JoinedCursor<'p> {
    operator: &'p PlanNode,
    joined: JoinedScan<'p>,
    plan: JoinPlan,
    pub(super) shape: Shape,
    /// What the data nodes do not check.
    others: Conditions,
    read: Option<JoinedRead>,
    blocks: Blocks,
    /// Makes the rows where a side has more than are sent.
    instead: Option<ColumnCursor<'p>>,
}

impl<'p> JoinedCursor<'p> {
    /// For an operator that data nodes can make, and whose rows they had better make.
    pub(super) fn new(
        run: &Run<'_>,
        operator: &'p PlanNode,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        Self::any(run, operator, wanted).filter(|cursor| cursor.joined.leaves_out_more())
    }

    /// For an operator that data nodes can make.
    pub(super) fn any(
        run: &Run<'_>,
        operator: &'p PlanNode,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let joined = JoinedScan::new(run, operator, wanted)?.ok()?;
        let mut places = places_of_conditions(joined.others.iter().copied(), joined.scan.width);
        places.extend(wanted);
        let (plan, shape) = joined.rows(run, &places).ok()?;
        let others = Conditions::new(run, joined.others.iter().copied(), &shape)?;
        let (read, blocks, instead) = (None, Blocks::default(), None);
        Some(Self { operator, joined, plan, shape, others, read, blocks, instead })
    }

    /// Has the data nodes send only so many rows that come first in an order; false if they cannot
    /// tell which these are.
    pub(super) fn want_first(
        &mut self,
        run: &Run<'_>,
        order: &[(&Expression, bool)],
        rows: u32,
    ) -> bool {
        match self.joined.first_rows(run, &self.places(), order, rows) {
            Ok(plan) => {
                self.plan = plan;
                true
            }
            Err(_) => false,
        }
    }

    /// The places that its rows have.
    fn places(&self) -> BTreeSet<usize> {
        let given = self.shape.iter().enumerate().filter(|(_, column)| column.is_some());
        given.map(|(place, _)| place).collect()
    }

    /// Another cursor for the same rows, now that data nodes cannot make them.
    fn another(&self, run: &Run<'_>) -> Result<ColumnCursor<'p>, Stop> {
        let another = ColumnCursor::new(run, self.operator, &self.places());
        let another = another.ok_or(Stop::Unsuitable)?;
        let type_of = |shape: &Shape, place: usize| {
            shape.get(place).and_then(Option::as_ref).map(|column| column.sql_type.clone())
        };
        let has = |place: usize| type_of(another.shape(), place) == type_of(&self.shape, place);
        if self.places().into_iter().all(has) { Ok(another) } else { Err(Stop::Unsuitable) }
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        if self.instead.is_none() && self.read.is_none() {
            match JoinedRead::begin(run, &self.joined, self.plan.clone()).await {
                Ok(read) => self.read = Some(read),
                Err(Stopped::TooMany) => self.instead = Some(self.another(run)?),
                Err(stopped) => return Err(stopped.into()),
            }
        }
        if let Some(instead) = &mut self.instead {
            let batch = instead.next(run).await?;
            return Ok(batch.map(|batch| batch.narrowed(&self.shape)));
        }
        while self.blocks.is_empty() {
            let Some(read) = &mut self.read else { return Ok(None) };
            match read.next(run).await? {
                Some(blocks) => self.blocks.put(run, blocks)?,
                None => return Ok(None),
            }
        }
        let Some(block) = self.blocks.take() else { return Ok(None) };
        let batch = ColumnBatch::of_block(block, &self.shape);
        Ok(Some(self.others.keep(run, batch, &self.shape).await?))
    }
}

impl ColumnWork for JoinedCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}

impl From<Stopped> for Stop {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::NotPushed | Stopped::TooMany => Self::Unsuitable,
            Stopped::Failed(error) => Self::Failed(error),
        }
    }
}
