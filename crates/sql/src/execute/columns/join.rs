//! Joins by equality, or of every row with every row.
//!
//! The left side is what earlier joins have made, and as a rule the smaller one. It is collected
//! first, and what its keys are is told to who reads the right side, whose rows then pass by. Only
//! when the left side is large the right one is collected instead.

mod spilled;

use std::collections::{BTreeSet, VecDeque};

use sql_expression::SqlError;
use vector::{JoinTable, JoinTableMaker, KeyColumn, KeySet, KeySetMaker, ProbePlace, Vector};

use crate::execute::columns::batch::{ColumnBatch, fitting};
use crate::execute::columns::cursor::{ColumnCursor, ColumnWork, Next};
use crate::execute::columns::filter::Conditions;
use crate::execute::columns::keys::Keys;
use crate::execute::columns::shape::{
    COLLECTED_MAX, ENTERED_MAX, PAIRS_MAX, Shape, Stop, narrow, narrowed_scan, places_of_conditions,
};
use crate::execute::run::Run;
use crate::memory::Held;
use crate::plan::operator::{HashKey, JoinSpec, PlanNode, places_of};

use spilled::SpilledJoin;

/// What the error says that a join keeps too much of.
const KEPT: &str = "the rows of a join";
/// Of a table whose scan is told keys, one in so many rows may be collected for that; and most of
/// them. A set of so many keys has its full number of bits.
const TOLD_SHARE: u64 = 4;
const TOLD_MAX: usize = 1_000_000;
/// About what a row takes in the table of a join, beside its columns.
const TABLE_BYTES: usize = 32;

/// A join at work.
pub(crate) struct JoinCursor<'p> {
    /// What the batches have.
    pub(super) shape: Shape,
    /// What pairs have before conditions are checked.
    paired: Shape,
    left: ColumnCursor<'p>,
    right: ColumnCursor<'p>,
    right_operator: &'p PlanNode,
    keys: Keys,
    conditions: Conditions,
    outer: bool,
    state: State,
    /// Both sides in partitions, where they do not fit memory.
    spilled: Option<Box<SpilledJoin>>,
}

/// How far a join is.
enum State {
    New,
    /// One side is kept, the other one passes by.
    Passing(Box<Passing>),
    Done,
}

/// One side by key, and where the other one is.
struct Passing {
    table: JoinTable,
    kept: ColumnBatch,
    kept_is_left: bool,
    /// Batches of the passing side that were taken before.
    taken: VecDeque<ColumnBatch>,
    now: Option<Batch>,
    /// For an outer join: which rows of the left side have a match, of those that are kept or of
    /// the batch that passes.
    matched: Vec<bool>,
    /// What is kept takes so much.
    _held: Held,
}

/// A batch that passes by.
struct Batch {
    rows: ColumnBatch,
    keys: Vec<KeyColumn>,
    /// How far its rows have met the table.
    next: ProbePlace,
    /// Pairs that have been found and not made: rows of the batch, and rows that are kept.
    pairs: (VecDeque<u32>, VecDeque<u32>),
}

impl<'p> JoinCursor<'p> {
    pub(super) fn new(
        run: &Run<'_>,
        left: &'p PlanNode,
        right: &'p PlanNode,
        keys: &'p [HashKey],
        join: &'p JoinSpec,
        wanted: &BTreeSet<usize>,
    ) -> Option<Self> {
        let width = crate::execute::columns::shape::width_of(left)?;
        let mut paired_places = places_of_conditions(&join.conditions, width);
        paired_places.extend(wanted);
        let sides = keys.iter().flat_map(|key| [&key.left.expression, &key.right.expression]);
        let mut all = places_of(sides)?;
        all.extend(&paired_places);
        let right_part =
            |place: &usize| join.right_places.iter().any(|(from, to)| (*from..*to).contains(place));
        let (of_right, of_left): (BTreeSet<usize>, BTreeSet<usize>) =
            all.into_iter().partition(right_part);
        let right_operator = right;
        let left = ColumnCursor::new(run, left, &of_left)?;
        let right = ColumnCursor::new(run, right, &of_right)?;
        let is_column = |key: &HashKey| key.left.expression.as_column().is_some();
        if !keys.iter().all(is_column) {
            return None;
        }
        let keys = Keys::new(run, keys, left.shape(), right.shape())?;
        let of = |places: &BTreeSet<usize>| -> Shape {
            let both = left.shape().iter().zip(right.shape()).enumerate();
            both.map(|(place, (a, b))| {
                a.as_ref().or(b.as_ref()).filter(|_| places.contains(&place)).cloned()
            })
            .collect()
        };
        let (shape, paired) = (of(wanted), of(&paired_places));
        let conditions = Conditions::new(run, join.conditions.iter(), &paired)?;
        let (outer, state, spilled) = (join.outer, State::New, None);
        Some(Self {
            shape,
            paired,
            left,
            right,
            right_operator,
            keys,
            conditions,
            outer,
            state,
            spilled,
        })
    }

    async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        loop {
            match &self.state {
                State::New => self.state = self.begin(run).await?,
                State::Passing(_) => {
                    if let Some(batch) = self.pass(run).await? {
                        return Ok(Some(batch));
                    }
                }
                State::Done => match self.next_piece(run).await? {
                    Some(passing) => self.state = State::Passing(passing),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Rows of the left side that are collected before the right one is: as many as are worth it
    /// where a table is read on the right that can be told their keys, and drops most of its rows.
    fn collected_max(&self, run: &Run<'_>) -> usize {
        let places = self.keys.places.iter().flatten();
        let filtered = places.filter_map(|place| narrowed_scan(self.right_operator, *place));
        let rows = filtered.map(|(scan, _)| run.rows_of_table(scan)).max().unwrap_or(0);
        let part = usize::try_from(rows / TOLD_SHARE).unwrap_or(usize::MAX);
        part.clamp(COLLECTED_MAX, TOLD_MAX)
    }

    /// Collects one side.
    async fn begin(&mut self, run: &mut Run<'_>) -> Result<State, Stop> {
        let mut taken = VecDeque::new();
        let (mut of_taken, mut held) = (run.hold(KEPT), run.hold(KEPT));
        let (mut count, mut is_all) = (0, false);
        let most = self.collected_max(run);
        while count < most && !is_all {
            match self.left.next(run).await? {
                Some(batch) => {
                    count += batch.rows();
                    let fits = of_taken.fits(batch.memory_bytes())?;
                    taken.push_back(batch);
                    if !fits {
                        drop(of_taken);
                        return self.spill(run, taken, None).await;
                    }
                }
                None => is_all = true,
            }
        }
        if count == 0 {
            return Ok(State::Done);
        }
        let (mut kept, keys);
        if is_all {
            kept = ColumnBatch::empty(self.left.shape());
            kept.reserve_for(&taken);
            // At most as much as was taken, and the table of few rows.
            held.be_lenient(run.may_spill());
            for batch in taken.drain(..) {
                kept.append(&batch, &mut held)?;
                run.worked(batch.rows() / 8 + 1).await?;
            }
            drop(of_taken);
            keys = self.keys.of_left(&kept).map_err(unsuitable)?;
            for (place, key) in self.keys.places.iter().zip(&keys) {
                if let Some(place) = place
                    && let Some(set) = key_set_of(run, &[&key.vector]).await?
                {
                    narrow(run, self.right_operator, *place, set);
                }
            }
        } else {
            kept = ColumnBatch::empty(self.right.shape());
            let of_table = if run.may_spill() { TABLE_BYTES } else { 0 };
            while let Some(batch) = self.right.next(run).await? {
                let fits = held.fits(batch.memory_bytes() + of_table * batch.rows())?;
                kept.append_held(&batch);
                if !fits {
                    drop((of_taken, held));
                    return self.spill(run, taken, Some(kept)).await;
                }
            }
            held.give_back(of_table * kept.rows());
            held.be_lenient(run.may_spill());
            held.take_over(of_taken);
            keys = self.keys.of_right(&kept).map_err(unsuitable)?;
        }
        let table = table_of(run, &keys, kept.rows()).await?;
        let matched = vec![false; if self.outer && is_all { kept.rows() } else { 0 }];
        held.add(table.memory_bytes() + matched.len())?;
        let (kept_is_left, now, _held) = (is_all, None, held);
        let passing = Passing { table, kept, kept_is_left, taken, now, matched, _held };
        Ok(State::Passing(Box::new(passing)))
    }

    /// Lets the next rows of the passing side meet the others; what comes of it, perhaps nothing.
    #[expect(clippy::too_many_lines, reason = "states of one loop")]
    async fn pass(&mut self, run: &mut Run<'_>) -> Result<Option<ColumnBatch>, Stop> {
        let State::Passing(passing) = &mut self.state else { return Ok(None) };
        let Passing { table, kept, kept_is_left, taken, now, matched, .. } = &mut **passing;
        let Some(batch) = now else {
            let next = match (taken.pop_front(), *kept_is_left) {
                (Some(batch), _) => Some(batch),
                (None, true) => next_of_right(run, &mut self.right, &mut self.spilled).await?,
                (None, false) => self.left.next(run).await?,
            };
            let Some(rows) = next else {
                let rest = if *kept_is_left {
                    unmatched(run, kept, matched, &self.shape).await?
                } else {
                    None
                };
                self.state = State::Done;
                return Ok(rest);
            };
            let keys = if *kept_is_left {
                self.keys.of_right(&rows).map_err(unsuitable)?
            } else {
                self.keys.of_left(&rows).map_err(unsuitable)?
            };
            if self.outer && !*kept_is_left {
                *matched = vec![false; rows.rows()];
            }
            *now = Some(Batch { rows, keys, next: Default::default(), pairs: Default::default() });
            return Ok(None);
        };
        let count = batch.rows.rows();
        if batch.next.row == count && batch.pairs.0.is_empty() {
            let rest = if *kept_is_left {
                None
            } else {
                unmatched(run, &batch.rows, matched, &self.shape).await?
            };
            *now = None;
            return Ok(rest);
        }
        if batch.pairs.0.is_empty() {
            let (a, b, next) = table.probe(&batch.keys, batch.next, count, run.portion(PAIRS_MAX));
            run.worked((next.row - batch.next.row + a.len()) / 8 + 1).await?;
            batch.next = next;
            batch.pairs = (a.into(), b.into());
            if batch.pairs.0.is_empty() {
                return Ok(None);
            }
        }
        let (of_batch, of_kept) = &mut batch.pairs;
        let sides = [
            (&batch.rows, &*of_batch.make_contiguous(), &*self.paired),
            (&*kept, &*of_kept.make_contiguous(), &*self.paired),
        ];
        let these = fitting(sides);
        let of_batch: Vec<u32> = of_batch.drain(..these).collect();
        let of_kept: Vec<u32> = of_kept.drain(..these).collect();
        let pairs = batch.rows.gather(run, &of_batch, &self.paired).await?;
        let pairs = pairs.beside(kept.gather(run, &of_kept, &self.paired).await?);
        let holding = self.conditions.select(run, &pairs, &self.paired).await?;
        if self.outer {
            let of_left = if *kept_is_left { &of_kept } else { &of_batch };
            let mut meet = |at: usize| matched[of_left[at] as usize] = true;
            match &holding {
                Some(places) => places.iter().for_each(|at| meet(*at as usize)),
                None => (0..of_left.len()).for_each(meet),
            }
        }
        Ok(Some(match holding {
            Some(places) => pairs.gather(run, &places, &self.shape).await?,
            None => pairs.narrowed(&self.shape),
        }))
    }
}

impl ColumnWork for JoinCursor<'_> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn step<'a>(&'a mut self, run: &'a mut Run<'_>) -> Next<'a> {
        Box::pin(self.next(run))
    }
}

/// The next rows of the right side of a join: of the partition at hand where both sides are in
/// files.
async fn next_of_right(
    run: &mut Run<'_>,
    right: &mut ColumnCursor<'_>,
    spilled: &mut Option<Box<SpilledJoin>>,
) -> Result<Option<ColumnBatch>, Stop> {
    match spilled {
        Some(spilled) => spilled.next_of_right(run, right.shape()).await,
        None => right.next(run).await,
    }
}

/// The table of rows with these keys.
pub(super) async fn table_of(
    run: &mut Run<'_>,
    keys: &[KeyColumn],
    rows: usize,
) -> Result<JoinTable, SqlError> {
    let mut maker = JoinTableMaker::new(keys, rows);
    while maker.go_on(run.portion(ENTERED_MAX)) {
        run.worked(run.portion(ENTERED_MAX) / 8).await?;
    }
    Ok(maker.finish())
}

/// The rows of the left side of an outer join that have no match, with NULLs beside them.
async fn unmatched(
    run: &mut Run<'_>,
    rows: &ColumnBatch,
    matched: &[bool],
    shape: &Shape,
) -> Result<Option<ColumnBatch>, SqlError> {
    let without = (0..matched.len() as u32).filter(|at| !matched[*at as usize]);
    let without: Vec<u32> = without.collect();
    if without.is_empty() {
        return Ok(None);
    }
    Ok(Some(rows.gather(run, &without, shape).await?.padded(shape)))
}

/// The set of the whole numbers of some vectors, as [`KeySet::new`] has it.
pub(super) async fn key_set_of(
    run: &mut Run<'_>,
    vectors: &[&Vector],
) -> Result<Option<KeySet>, SqlError> {
    let mut maker = KeySetMaker::new(0, vectors);
    while maker.go_on(run.portion(ENTERED_MAX)) {
        run.worked(run.portion(ENTERED_MAX) / 8).await?;
    }
    Ok(maker.finish())
}

/// Keys are columns, whose values can always be computed.
fn unsuitable(_: vector::Inexact) -> Stop {
    Stop::Unsuitable
}
