//! Joins by lookups that data nodes make, whose rows come in columns.

use std::collections::BTreeSet;
use std::rc::Rc;

use sql_expression::Expression;
use vector::JoinPlan;

use crate::execute::columns::batch::Blocks;
use crate::execute::columns::filter::Conditions;
use crate::execute::columns::{ColumnBatch, Shape, Stop, places_of_conditions};
use crate::execute::joined::{JoinedRead, JoinedScan, Stopped};
use crate::execute::run::Run;
use crate::plan::operator::Operator;

/// A join at work.
pub(crate) struct JoinedCursor<'p> {
    joined: JoinedScan<'p>,
    plan: JoinPlan,
    pub(super) shape: Shape,
    /// What the data nodes do not check.
    others: Conditions,
    read: Option<JoinedRead>,
    blocks: Blocks,
}

impl<'p> JoinedCursor<'p> {
    /// For an operator that data nodes can make.
    pub(super) fn new(
        run: &Run<'_>,
        operator: &'p Operator,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let joined = JoinedScan::new(run, operator, wanted)?.ok()?;
        let mut places = places_of_conditions(joined.others.iter().copied(), joined.scan.width);
        places.extend(wanted);
        let (plan, shape) = joined.rows(run, &places).ok()?;
        let others = Conditions::new(run, joined.others.iter().copied(), &shape)?;
        Some(Self { joined, plan, shape, others, read: None, blocks: Blocks::default() })
    }

    /// Has the data nodes send only so many rows that come first in an order; false if they cannot
    /// tell which these are.
    pub(super) fn want_first(
        &mut self,
        run: &Run<'_>,
        order: &[(&Expression, bool)],
        rows: u32,
    ) -> bool {
        let given = self.shape.iter().enumerate().filter(|(_, column)| column.is_some());
        let places = given.map(|(place, _)| place).collect();
        match self.joined.first_rows(run, &places, (order, rows)) {
            Ok(plan) => {
                self.plan = plan;
                true
            }
            Err(_) => false,
        }
    }

    pub(super) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        while self.blocks.is_empty() {
            let read = match &mut self.read {
                Some(read) => read,
                None => {
                    let read = JoinedRead::begin(run, &self.joined, self.plan.clone()).await?;
                    self.read.insert(read)
                }
            };
            match read.next(run).await? {
                Some(blocks) => self.blocks.put(run, blocks)?,
                None => return Ok(None),
            }
        }
        let Some(block) = self.blocks.take() else { return Ok(None) };
        let rows = block.rows();
        let mut given = block.into_columns().into_iter().map(Rc::new);
        let columns = self.shape.iter().map(|column| column.as_ref().and_then(|_| given.next()));
        let batch = ColumnBatch::new(rows, columns.collect());
        Ok(Some(self.others.keep(run, batch, &self.shape).await?))
    }
}

impl From<Stopped> for Stop {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::NotPushed => Self::Unsuitable,
            Stopped::Failed(error) => Self::Failed(error),
        }
    }
}
