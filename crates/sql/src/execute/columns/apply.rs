//! Conditions with subqueries, over columns.
//!
//! # Owns
//! [`ApplyCursor`]: which conditions are prepared once, and which for a piece of the rows after the
//! other.
//! # Guarantees
//! A condition that is prepared for some rows is asked only about these.
//! # Not here
//! How a subquery becomes a column beside the others (`applied`).

mod applied;

use std::collections::VecDeque;

use sql_expression::{Node, SqlError, SubqueryKind};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::cursor::{ColumnCursor, ColumnWork, Next};
use crate::execute::columns::keys::key_filter_places;
use crate::execute::columns::shape::{COLLECTED_MAX, Shape, Stop, narrowed_scan};
use crate::execute::run::{ENDS, Run};
use crate::logical::formula::Formula;
use crate::memory::Held;
use crate::plan::cost::{LOOK, SEND};
use crate::plan::estimate::Estimates;
use crate::plan::operator::{Operator, Subplan};

pub(super) use applied::scanned;
use applied::{Applied, Known, applied, holding, rows_read};

/// Rows, and different numbers among the keys of more rows, that data nodes look up in an index, if
/// there is one. Of more numbers they are not told all.
const LOOKED_UP_MAX: usize = 8_192;
/// Rows of a piece for which correlated subqueries are run at once, at most.
const PIECE_MAX: usize = 4 * COLLECTED_MAX;
/// The error of what is too much to be kept.
const CAPACITY: u16 = 3170;

/// What the error says that is too much.
const KEPT: &str = "the rows of a subquery";

/// Conditions with subqueries at work.
pub(crate) struct ApplyCursor<'p> {
    input: ColumnCursor<'p>,
    operator: &'p Operator,
    /// All conditions, until the first rows are asked for.
    formulas: Vec<&'p Formula>,
    /// Conditions that are prepared for the rows that there are.
    later: Vec<&'p Formula>,
    /// Rows that have been collected for these, and have not been checked.
    taken: VecDeque<ColumnBatch>,
    /// What that takes.
    held: Option<Held>,
    /// Conditions that are ready for all rows.
    fixed: Option<Vec<Condition<'p>>>,
    /// The later conditions, ready for a piece of the rows, or for all if there are no pieces.
    ready: Vec<Condition<'p>>,
    /// They are prepared for one piece of the rows after the other.
    in_pieces: bool,
    /// Batches of the piece that they are ready for, of those collected.
    covered: usize,
    /// Batches for which the rows of the subqueries fit memory, as far as was tried.
    fitting: usize,
    /// Rows that are collected at most, about.
    most: usize,
    /// The input has no more rows.
    is_end: bool,
}

/// A condition that is ready.
enum Condition<'p> {
    /// To be checked row by row.
    Rows(&'p Formula),
    Columns(Box<Applied<'p>>),
}

impl<'p> ApplyCursor<'p> {
    /// Over the rows of an operator, of which all other conditions are true already.
    pub(super) fn new(
        input: ColumnCursor<'p>,
        operator: &'p Operator,
        formulas: Vec<&'p Formula>,
    ) -> Self {
        Self {
            input,
            operator,
            formulas,
            later: Vec::new(),
            taken: VecDeque::new(),
            held: None,
            fixed: None,
            ready: Vec::new(),
            in_pieces: false,
            covered: 0,
            fitting: usize::MAX,
            most: LOOKED_UP_MAX,
            is_end: false,
        }
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        if self.fixed.is_none() {
            self.begin(run).await?;
        } else if self.in_pieces && self.covered == 0 {
            self.next_piece(run).await?;
        }
        self.covered = self.covered.saturating_sub(1);
        if let Some(held) = &mut self.held {
            held.give_up(1, self.taken.len());
        }
        let batch = match self.taken.pop_front() {
            Some(batch) => Some(batch),
            None if self.is_end => None,
            None => self.next_passing(run).await?,
        };
        let Some(batch) = batch else { return Ok(None) };
        Ok(Some(passing(run, batch, self.ready.iter(), self.input.shape()).await?))
    }

    /// The next rows of the input, of those that meet the conditions for all rows.
    async fn next_passing(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        let Some(batch) = self.input.next(run).await? else { return Ok(None) };
        let fixed = self.fixed.iter().flatten();
        Ok(Some(passing(run, batch, fixed, self.input.shape()).await?))
    }

    /// Runs what does not depend on the rows, collects these, and runs the rest for them.
    async fn begin(&mut self, run: &mut Run<'_>) -> Result<(), Stop> {
        let shape = self.input.shape().clone();
        let mut conditions = Vec::new();
        for formula in std::mem::take(&mut self.formulas) {
            if formula.needs.correlated_subqueries {
                self.later.push(formula);
                self.most = COLLECTED_MAX;
                continue;
            }
            if is_for_few(run, formula, self.operator) {
                self.later.push(formula);
                continue;
            }
            let applied = match applied(run, formula, &shape, None).await {
                // It is one only if there are rows.
                Err(Stop::Failed(error)) if !ENDS.contains(&error.code()) => None,
                applied => applied?,
            };
            if let Some(applied) = &applied {
                applied.narrow(run, self.operator).await?;
            }
            conditions.push(Condition::new(formula, applied));
        }
        self.fixed = Some(conditions);
        if self.later.is_empty() {
            return Ok(());
        }
        let count = self.collect(run).await?;
        if !self.is_end {
            self.in_pieces = self.prefers_pieces(run, count);
        }
        self.prepare(run).await
    }

    /// Prepares the later conditions for the rows that come next.
    async fn next_piece(&mut self, run: &mut Run<'_>) -> Result<(), Stop> {
        // What was prepared for the piece before is not needed any more.
        self.ready.clear();
        if self.taken.is_empty() {
            self.most = (self.most * 2).min(PIECE_MAX);
            self.collect(run).await?;
        }
        self.prepare(run).await
    }

    /// Collects rows; their count.
    async fn collect(&mut self, run: &mut Run<'_>) -> Result<usize, Stop> {
        self.held = None;
        let (mut held, mut count) = (run.hold(KEPT), 0);
        while count <= self.most && !self.is_end {
            let Some(batch) = self.next_passing(run).await? else {
                self.is_end = true;
                break;
            };
            if batch.rows() == 0 {
                continue;
            }
            count += batch.rows();
            let bytes = batch.memory_bytes();
            let fits = match held.fits(bytes) {
                // Where nothing goes to temporary files, what there is makes a piece.
                Err(error) if error.code() == CAPACITY && !self.taken.is_empty() => false,
                fits => fits?,
            };
            self.taken.push_back(batch);
            if !fits {
                // The others are the next piece, or pass by if the subqueries are run for all.
                held.force(bytes);
                break;
            }
        }
        self.held = Some(held);
        Ok(count)
    }

    /// Prepares the later conditions, for the rows collected or for all. Where a subquery has more
    /// rows for these than memory takes, they are ready for fewer.
    async fn prepare(&mut self, run: &mut Run<'_>) -> Result<(), Stop> {
        let shape = self.input.shape().clone();
        self.covered = self.taken.len().min(self.fitting);
        let mut at = 0;
        while let Some(formula) = self.later.get(at).copied() {
            if self.covered == 0 {
                // For no rows nothing is run.
                return Ok(());
            }
            let batches: Vec<&ColumnBatch> = self.taken.iter().take(self.covered).collect();
            let count = batches.iter().map(|batch| batch.rows()).sum();
            let is_all = self.is_end || self.in_pieces;
            let known = Known { batches, count, is_all };
            match applied(run, formula, &shape, Some(&known)).await {
                Err(Stop::Failed(error))
                    if error.code() == CAPACITY && (!is_all || self.covered > 1) =>
                {
                    if is_all {
                        self.covered /= 2;
                        self.fitting = self.covered;
                    }
                    self.ready.clear();
                    (self.in_pieces, at) = (true, 0);
                }
                applied => {
                    self.ready.push(Condition::new(formula, applied?));
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Whether the later conditions are better prepared for one piece of the rows after the other
    /// than once for all. For a piece data nodes read the tables of the subquery again, but only
    /// rows with its keys are sent.
    fn prefers_pieces(&self, run: &Run<'_>, count: usize) -> bool {
        let rows = Estimates::new(run.session).of(self.operator).rows;
        let pieces = 1.0 + rows / PIECE_MAX as f64;
        let is_cheaper = pieces * LOOK < LOOK + SEND;
        self.later.iter().any(|formula| {
            let mut prefers = false;
            formula.expression.visit(&mut |part| {
                let Node::Subquery(subquery) = &part.node else { return };
                let Some(subplan) = run.subplan(subquery.id).filter(|_| subquery.correlated) else {
                    return;
                };
                // A NULL among the values makes IN another thing, and later rows may have one.
                let asks_nulls = subplan.search.as_ref().is_some_and(|search| !search.only_true)
                    && matches!(&subquery.kind, SubqueryKind::Quantified { operand, .. }
                        if operand.result.nullable);
                prefers |= asks_nulls;
                let Some(keyed) = subplan.keyed.as_ref().filter(|_| is_cheaper) else { return };
                let root = &keyed.plan.root;
                let is_filtered = key_filter_places(run, &keyed.keys)
                    .any(|place| narrowed_scan(root, place).is_some());
                prefers |= is_filtered && rows_read(run, root, &[]) > count as u64;
            });
            prefers
        })
    }
}

impl ColumnWork for ApplyCursor<'_> {
    fn shape(&self) -> &Shape {
        self.input.shape()
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}

impl<'p> Condition<'p> {
    fn new(formula: &'p Formula, applied: Option<Applied<'p>>) -> Self {
        applied.map_or(Self::Rows(formula), |applied| Self::Columns(Box::new(applied)))
    }
}

/// The rows of a batch that meet conditions.
async fn passing<'a, 'p: 'a>(
    run: &mut Run<'_>,
    mut batch: ColumnBatch,
    conditions: impl Iterator<Item = &'a Condition<'p>>,
    shape: &Shape,
) -> Result<ColumnBatch, SqlError> {
    for condition in conditions {
        let places = match condition {
            Condition::Rows(formula) => holding(run, formula, &batch, shape).await?,
            Condition::Columns(applied) => applied.select(run, &batch, shape).await?,
        };
        if let Some(places) = places {
            batch = batch.gather(run, &places, shape).await?;
        }
    }
    Ok(batch)
}

/// Whether a condition is to be checked when the rows are known: IN of a subquery that costs more
/// than reading these does, and that can be asked for single values.
fn is_for_few(run: &Run<'_>, formula: &Formula, operator: &Operator) -> bool {
    let estimates = Estimates::new(run.session);
    let mut is = false;
    formula.expression.visit(&mut |part| {
        if let Node::Subquery(subquery) = &part.node
            && let Some(Subplan { plan, search: Some(_), .. }) = run.subplan(subquery.id)
        {
            is = is || estimates.of(&plan.root).cost > estimates.of(operator).cost;
        }
    });
    is
}
