//! External merge sort: sorted runs in files, which are merged.
//!
//! A run is what memory has room for. As many runs are merged at a time as there is memory for a
//! frame of each; more of them are merged into longer runs first. The next row is found by a
//! tournament of losers: one comparison for each level of the tree.
//!
//! # Guarantees
//! Equal rows come in the order of their runs, so a sort that spills is as stable as one in memory.

use std::cmp::Ordering;
use std::vec::IntoIter;

use sql_expression::SqlError;

use crate::execute::cursor::sort::compare_keys;
use crate::execute::run::Run;
use crate::logical::formula::SortBy;
use crate::memory::Held;
use crate::rows::Row;
use crate::spill::rows::{RowReader, RowRun, RowWriter};
use crate::spill::{FRAME_BYTES, SpillFile};

/// Runs that are merged at a time.
const FAN_IN: usize = 32;
/// Rows that are given at a time.
const GIVEN_ROWS: usize = 256;
/// About how much more memory rows take than the frames they come from, with the next one of these.
const UNPACKED: usize = 5;

/// Where the values are that rows are ordered by.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// At these places.
    Columns(Vec<usize>),
    /// Before the row, so many.
    Before(usize),
}

/// The order of the rows of runs.
#[derive(Clone, Debug)]
pub(crate) struct RunOrder<'p> {
    pub(crate) keys: &'p [SortBy],
    pub(crate) layout: Layout,
    /// Of rows that are equal only the first is wanted.
    pub(crate) once: bool,
}

impl RunOrder<'_> {
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        match &self.layout {
            Layout::Columns(places) => {
                compare_keys(places.iter().map(|place| (&a[*place], &b[*place])), self.keys)
            }
            Layout::Before(count) => compare_keys(a[..*count].iter().zip(b), self.keys),
        }
    }
}

/// Sorted runs that are being merged.
pub(crate) struct Merge<'p> {
    order: RunOrder<'p>,
    sources: Vec<Source>,
    tree: LoserTree,
    /// Rows that are wanted and have not been given.
    left: usize,
    /// The row that was given last, where each is wanted once.
    last: Option<Row>,
    /// What the frames take.
    _held: Held,
}

/// A run on its way.
struct Source {
    reader: RowReader,
    rows: IntoIter<Row>,
    /// Its next row; none at its end.
    first: Option<Row>,
}

impl Source {
    async fn new(run: &Run<'_>, rows: RowRun) -> Result<Self, SqlError> {
        let mut source = Self { reader: rows.read(), rows: Vec::new().into_iter(), first: None };
        source.advance(run).await?;
        Ok(source)
    }

    /// Goes to the next row; the one before.
    async fn advance(&mut self, run: &Run<'_>) -> Result<Option<Row>, SqlError> {
        let next = match self.rows.next() {
            Some(row) => Some(row),
            None => {
                self.rows = self.reader.next(run).await?.unwrap_or_default().into_iter();
                self.rows.next()
            }
        };
        Ok(std::mem::replace(&mut self.first, next))
    }
}

impl<'p> Merge<'p> {
    /// Merges runs; the first `most` rows are given.
    pub(crate) async fn new(
        run: &mut Run<'_>,
        mut runs: Vec<RowRun>,
        order: RunOrder<'p>,
        most: usize,
        what: &'static str,
    ) -> Result<Self, SqlError> {
        let account = run.session.memory.clone();
        while runs.len() > FAN_IN {
            let file = SpillFile::create(&account, what)?;
            let mut longer = Vec::with_capacity(runs.len().div_ceil(FAN_IN));
            let mut rest = runs.into_iter();
            loop {
                let some: Vec<RowRun> = rest.by_ref().take(FAN_IN).collect();
                if some.is_empty() {
                    break;
                }
                let mut merge = Self::begin(run, some, order.clone(), most, what).await?;
                merge.keeps_keys_in(run, &file, &mut longer).await?;
            }
            runs = longer;
        }
        Self::begin(run, runs, order, most, what).await
    }

    async fn begin(
        run: &Run<'_>,
        runs: Vec<RowRun>,
        order: RunOrder<'p>,
        left: usize,
        what: &'static str,
    ) -> Result<Self, SqlError> {
        let account = &run.session.memory;
        account.temp().count_merge_pass();
        let mut held = account.hold(what);
        held.force(runs.len() * FRAME_BYTES * UNPACKED);
        let mut sources = Vec::with_capacity(runs.len());
        for rows in runs {
            sources.push(Source::new(run, rows).await?);
        }
        let tree = LoserTree::new(sources.len(), |a, b| is_before(&order, &sources, a, b));
        Ok(Self { order, sources, tree, left, last: None, _held: held })
    }

    /// Writes all rows into one run, as they are in those that are merged.
    async fn keeps_keys_in(
        &mut self,
        run: &mut Run<'_>,
        file: &SpillFile,
        longer: &mut Vec<RowRun>,
    ) -> Result<(), SqlError> {
        let mut writer = RowWriter::new(file.clone());
        while let Some(row) = self.take(run).await? {
            writer.push(&row)?;
            run.worked(1).await?;
        }
        longer.push(writer.finish()?);
        Ok(())
    }

    /// The next row that is wanted, with what stands before it.
    async fn take(&mut self, run: &Run<'_>) -> Result<Option<Row>, SqlError> {
        while self.left > 0 {
            let Some(source) = self.sources.get_mut(self.tree.winner) else { return Ok(None) };
            let Some(row) = source.advance(run).await? else { return Ok(None) };
            let (order, sources) = (&self.order, &self.sources);
            self.tree.replay(|a, b| is_before(order, sources, a, b));
            if self.order.once {
                if self.last.as_ref().is_some_and(|last| order.compare(last, &row).is_eq()) {
                    continue;
                }
                self.last = Some(row.clone());
            }
            self.left -= 1;
            return Ok(Some(row));
        }
        Ok(None)
    }

    /// The next rows; nothing at the end.
    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        let mut rows = Vec::with_capacity(GIVEN_ROWS.min(self.left));
        while rows.len() < GIVEN_ROWS
            && let Some(mut row) = self.take(run).await?
        {
            if let Layout::Before(count) = self.order.layout {
                row.drain(..count);
            }
            rows.push(row);
        }
        run.worked(rows.len()).await?;
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Whether the next row of one run comes before that of another. A run that has ended comes last.
fn is_before(order: &RunOrder<'_>, sources: &[Source], a: usize, b: usize) -> bool {
    match (&sources[a].first, &sources[b].first) {
        (Some(of_a), Some(of_b)) => order.compare(of_a, of_b).then(a.cmp(&b)).is_lt(),
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a < b,
    }
}

/// A tournament: each inner node of the tree remembers who has lost there.
///
/// D. E. Knuth: The Art of Computer Programming, volume 3, 5.4.1.
struct LoserTree {
    losers: Vec<usize>,
    winner: usize,
}

/// Nobody has been at a node yet.
const NOBODY: usize = usize::MAX;

impl LoserTree {
    /// Of so many, of whom `is_before` tells who wins.
    fn new(count: usize, is_before: impl Fn(usize, usize) -> bool) -> Self {
        let mut tree = Self { losers: vec![NOBODY; count], winner: 0 };
        for leaf in 0..count {
            tree.rise(leaf, &is_before);
        }
        tree
    }

    /// The winner of before has changed.
    fn replay(&mut self, is_before: impl Fn(usize, usize) -> bool) {
        self.rise(self.winner, &is_before);
    }

    fn rise(&mut self, leaf: usize, is_before: &impl Fn(usize, usize) -> bool) {
        let (mut best, mut node) = (leaf, (leaf + self.losers.len()) / 2);
        while node > 0 {
            let loser = &mut self.losers[node];
            if *loser == NOBODY {
                // The first one here waits for the other.
                *loser = best;
                return;
            }
            if is_before(*loser, best) {
                std::mem::swap(loser, &mut best);
            }
            node /= 2;
        }
        self.winner = best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tournament_gives_all_in_order() {
        for count in 0..20_usize {
            let mut numbers: Vec<Vec<usize>> = (0..count)
                .map(|at| (0..at % 4).map(|n| (n * 7 + at * 3) % 11 + n * 11).collect())
                .collect();
            let mut expected: Vec<usize> = numbers.iter().flatten().copied().collect();
            expected.sort_unstable();
            let head = |numbers: &[Vec<usize>], at: usize| numbers[at].first().copied();
            let is_before = |numbers: &[Vec<usize>], a: usize, b: usize| {
                let key = |at| (head(numbers, at).unwrap_or(usize::MAX), at);
                key(a) < key(b)
            };
            let mut tree = LoserTree::new(count, |a, b| is_before(&numbers, a, b));
            let mut given = Vec::new();
            while let Some(next) = numbers.get(tree.winner).and_then(|list| list.first().copied()) {
                given.push(next);
                numbers[tree.winner].remove(0);
                tree.replay(|a, b| is_before(&numbers, a, b));
            }
            assert_eq!(given, expected, "{count} runs");
        }
    }
}
