//! Subqueries of expressions, run for a row at a time or for all rows at once.
//!
//! # Owns
//! Which of the ways of a subquery is taken: asked for a single value, by the keys of all rows of
//! the enclosing block, or as a whole; the rows that are kept for later rows.
//! # Not here
//! What subqueries there are and their other forms (`plan::keyed`, `plan::member`); conditions on
//! columns of many rows (`columns::apply`).

pub(super) mod kept;

use std::rc::Rc;

use sql_expression::{RowSet, SqlError, SubqueryId, SubqueryKind, SubqueryUse};
use sqltype::Datum;

use crate::execute::cursor::{self, Cursor, join::key_of};
use crate::execute::kept::Kept;
use crate::execute::run::{Boxed, KEY_BYTES, Run};
use crate::execute::spilled::buffer::{Buffered, RowBuffer};
use crate::logical::formula::Formula;
use crate::memory::Held;
use crate::plan::estimate::Estimates;
use crate::plan::operator::{Keyed, QueryPlan, Search, Subplan};
use crate::rows::{Row, memory_of};

use kept::{RowsByKey, Searched};

/// What it costs to ask a subquery for a single value, in the unit of the planner's costs.
const SEARCH: f64 = 1_300.0;

impl Run<'_> {
    /// Runs a subquery for a row, and puts its rows where the expression finds them.
    pub(super) async fn run_subquery(
        &mut self,
        subquery: &SubqueryUse,
        row: &[Datum],
    ) -> Result<(), SqlError> {
        let SubqueryUse { id, correlated, .. } = *subquery;
        let missing = || SqlError::internal(format_args!("subquery {} has no plan", id.0));
        let subplan = self.subplans.get(&id).cloned().ok_or_else(missing)?;
        if let Some(search) = &subplan.search
            && let Some(rows) = self.search(subquery, &subplan, search, row).await?
        {
            self.context.set_subquery(id, RowSet::new(rows));
            return Ok(());
        }
        if let Some(keyed) = &subplan.keyed
            && let Some(rows) = self.rows_by_key(id, &subplan, keyed, row).await?
        {
            self.context.set_subquery(id, RowSet::new(rows));
            return Ok(());
        }
        self.searched.remove(&id);
        self.context.push_outer(if correlated { row.to_vec() } else { Vec::new() });
        let rows = self.rows_of(&subplan.plan, subplan.enough).await;
        self.context.pop_outer();
        let Kept { rows, held } = rows?;
        self.context.set_subquery(id, RowSet::new(rows));
        self.of_subqueries.insert(id, held);
        Ok(())
    }

    /// Of the rows of a subquery of IN those that decide about a row; none if it is to be run as a
    /// whole.
    async fn search(
        &mut self,
        subquery: &SubqueryUse,
        subplan: &Subplan,
        search: &Search,
        row: &[Datum],
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let SubqueryKind::Quantified { operand, .. } = &subquery.kind else { return Ok(None) };
        // Whether NULL is among the rows depends on whether there are any.
        if row.is_empty() || !search.only_true && self.has_null(operand, row)? {
            return Ok(None);
        }
        let (id, found) = (subquery.id, &search.subplan);
        if subquery.correlated {
            if let Some(keyed) = &found.keyed
                && let Some(rows) = self.rows_by_key(found.id, found, keyed, row).await?
            {
                return Ok(Some(rows));
            }
        } else {
            let most = || {
                if search.by_index {
                    (Estimates::new(self.session).of(&subplan.plan.root).cost / SEARCH) as u32
                } else {
                    0
                }
            };
            let mut searched = match self.searched.remove(&id) {
                Some(searched) => searched,
                None => Searched { runs: 0, most: most(), nulls: None },
            };
            if searched.runs >= searched.most {
                return Ok(None);
            }
            searched.runs += 1;
            if let (Some(plan), None) = (&search.nulls, &searched.nulls) {
                searched.nulls = Some(self.rows_of(plan, Some(1)).await?.rows);
            }
            self.searched.insert(id, searched);
        }
        self.context.push_outer(row.to_vec());
        let rows = self.rows_of(&found.plan, found.enough).await;
        self.context.pop_outer();
        let nulls = self.searched.get(&id).and_then(|searched| searched.nulls.as_ref());
        let nulls = nulls.into_iter().flatten().cloned();
        Ok(Some(rows?.rows.into_iter().chain(nulls).collect()))
    }

    /// The rows of a correlated subquery for a row, found by its key; none as long as it is run row
    /// by row.
    async fn rows_by_key(
        &mut self,
        id: SubqueryId,
        subplan: &Subplan,
        keyed: &Keyed,
        row: &[Datum],
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let mut by_key = self.keyed.remove(&id).unwrap_or_default();
        if by_key.rows.is_none() {
            by_key.runs += 1;
            if by_key.runs <= keyed.patience {
                self.keyed.insert(id, by_key);
                return Ok(None);
            }
            let (rows, held) = self.all_by_key(keyed).await?;
            (by_key.rows, by_key.held) = (Some(rows), Some(held));
        }
        let found = match key_of(self, &keyed.keys, row, true).await? {
            Some(key) => by_key.rows.as_ref().and_then(|rows| rows.get(&key)),
            None => None,
        };
        let (from, to) = keyed.outputs;
        let mut rows = Vec::new();
        let enough = subplan.enough.unwrap_or(usize::MAX);
        if keyed.residual.is_empty() {
            let candidates = found.into_iter().flatten().take(enough);
            rows.extend(candidates.map(|candidate| candidate[from..to].to_vec()));
        } else if let Some(found) = found {
            self.context.push_outer(row.to_vec());
            let held = self.holding(&keyed.residual, found, enough).await;
            self.context.pop_outer();
            rows.extend(held?.into_iter().map(|candidate| candidate[from..to].to_vec()));
        }
        if rows.is_empty() && keyed.whole {
            // Aggregates of nothing are the same for all keys.
            if by_key.of_nothing.is_none() {
                self.context.push_outer(row.to_vec());
                let of_nothing = self.rows_of(&subplan.plan, None).await;
                self.context.pop_outer();
                by_key.of_nothing = Some(of_nothing?.rows);
            }
            rows = by_key.of_nothing.clone().unwrap_or_default();
        }
        self.keyed.insert(id, by_key);
        Ok(Some(rows))
    }

    /// The first so many of some rows for which conditions hold.
    async fn holding<'r>(
        &mut self,
        conditions: &[Formula],
        rows: &'r [Row],
        enough: usize,
    ) -> Result<Vec<&'r Row>, SqlError> {
        let mut holding = Vec::new();
        for row in rows {
            if self.all_hold(conditions, row).await? {
                holding.push(row);
                if holding.len() >= enough {
                    break;
                }
            }
        }
        Ok(holding)
    }

    /// All rows of a correlated subquery, by key.
    fn all_by_key<'a>(&'a mut self, keyed: &'a Keyed) -> Boxed<'a, (RowsByKey, Held)> {
        Box::pin(async move {
            self.add_subplans(&keyed.plan.subqueries);
            let mut cursor = cursor::open(&keyed.plan.root);
            let mut by_key = RowsByKey::new();
            let mut held = self.hold("the rows of a subquery");
            while let Some(batch) = cursor.next(self).await? {
                self.worked(batch.len()).await?;
                held.add(memory_of(&batch))?;
                for row in batch {
                    if let Some(key) = key_of(self, &keyed.keys, &row, false).await? {
                        held.add(KEY_BYTES + key.len())?;
                        by_key.entry(key).or_default().push(row);
                    }
                }
            }
            Ok((by_key, held))
        })
    }

    /// Begins a query, whose rows are taken from the cursor.
    pub(crate) fn cursor_of<'p>(&mut self, plan: &'p QueryPlan) -> Cursor<'p> {
        self.begin_plan(plan);
        cursor::open(&plan.root)
    }

    /// The rows of a query, however many there are.
    pub(crate) fn buffered<'a>(&'a mut self, plan: &'a Rc<QueryPlan>) -> Boxed<'a, Buffered> {
        Box::pin(async move {
            self.begin_plan(plan);
            let buffer = RowBuffer::new(self, "the rows of a subquery");
            buffer.drain(self, cursor::open(&plan.root)).await
        })
    }

    /// A query is run, perhaps not for the first time.
    fn begin_plan(&mut self, plan: &QueryPlan) {
        self.add_subplans(&plan.subqueries);
        for subplan in &plan.subqueries {
            // What an earlier outer row has left is of no use for this one.
            self.context.forget_subquery(subplan.id);
            self.searched.remove(&subplan.id);
            self.of_subqueries.remove(&subplan.id);
        }
    }

    /// All rows of a query, or the first `enough` of them.
    pub(crate) fn rows_of<'a>(
        &'a mut self,
        plan: &'a Rc<QueryPlan>,
        enough: Option<usize>,
    ) -> Boxed<'a, Kept> {
        Box::pin(async move {
            let mut cursor = self.cursor_of(plan);
            let (mut rows, mut held) = (Vec::new(), self.hold("the rows of a subquery"));
            while let Some(mut batch) = cursor.next(self).await? {
                held.add(memory_of(&batch))?;
                rows.append(&mut batch);
                if enough.is_some_and(|enough| rows.len() >= enough) {
                    break;
                }
            }
            Ok(Kept { rows, held })
        })
    }
}
