//! What operators have done, for EXPLAIN ANALYZE.
//!
//! # Owns
//! [`Observer`]: counts and times of each operator, and on what it works.
//! # Guarantees
//! What comes from data nodes is counted once, for the innermost operator at work. Of a run that
//! nobody watches nothing is counted, at the price of one look for each batch.
//! # Limits
//! Times are by the clock of turns: what is done without waiting takes none.

use client::Traffic;
use stdx::{Duration, Instant};

use crate::execute::run::Run;
use crate::plan::operator::{PlanNode, TableScan};
use crate::plan::operator_id::{OperatorId, PerOperator};

/// What an operator has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// How often it was begun.
    pub(crate) loops: u64,
    /// Rows it has given.
    pub(crate) rows: u64,
    /// Until its first row, and until its last: in it and in those below, all loops together.
    pub(crate) first: Duration,
    pub(crate) last: Duration,
    /// What came from data nodes for it, without what came for those below.
    pub(crate) traffic: Traffic,
    /// Bytes that it has written to temporary files, without those below.
    pub(crate) spilled: u64,
    /// Time in the loop under way, and whether that has given a row.
    in_loop: Duration,
    has_first: bool,
}

/// Looks on while operators are made and run.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    done: PerOperator<Done>,
    /// How many key-set filters were pushed down to scans.
    key_sets: PerOperator<u64>,
    /// Operators at work, the outermost first.
    at_work: Vec<OperatorId>,
    /// What had come from data nodes when that was counted last.
    counted: Traffic,
    /// The same of what the connection has written to temporary files.
    counted_spilled: u64,
    /// Operators for which a cursor over columns was created, true, or one that only puts the rows
    /// of a cursor over rows into columns, false.
    created: Vec<(OperatorId, bool)>,
}

/// An operator was given the word at this time.
pub(crate) struct Entered(Instant);

impl Observer {
    /// What an operator has done; nothing if it was not begun.
    pub(crate) fn of(&self, operator: &PlanNode) -> Option<Done> {
        self.done.get(operator.id()).copied()
    }

    /// How many key-set filters were pushed down to a scan.
    pub(crate) fn key_sets(&self, scan: &TableScan) -> u64 {
        self.key_sets.get(scan.id()).copied().unwrap_or(0)
    }

    /// How many cursors were created so far.
    pub(crate) fn mark(&self) -> usize {
        self.created.len()
    }

    /// For an operator a cursor over columns was created, or a source of rows for columns, or none.
    /// Cursors of the operators below, created since `mark`, count only under one over columns.
    pub(crate) fn created(&mut self, mark: usize, operator: &PlanNode, on_columns: Option<bool>) {
        if on_columns != Some(true) {
            self.created.truncate(mark);
        }
        self.created.extend(on_columns.map(|on_columns| (operator.id(), on_columns)));
    }

    /// The cursors created since the last call, and whether each works on columns.
    pub(crate) fn take_created(&mut self) -> Vec<(OperatorId, bool)> {
        std::mem::take(&mut self.created)
    }

    /// Gives what has come from data nodes, and gone to temporary files, to whoever is at work.
    fn count(&mut self, now: Traffic, spilled: u64) {
        let since = now.since(std::mem::replace(&mut self.counted, now));
        let more = spilled - std::mem::replace(&mut self.counted_spilled, spilled);
        if let Some(operator) = self.at_work.last() {
            let done = self.done.or_default(*operator);
            done.traffic.add(since);
            done.spilled += more;
        }
    }
}

impl Run<'_> {
    /// Whether somebody looks on.
    pub(crate) fn is_watched(&self) -> bool {
        self.observer.is_some()
    }

    /// Has somebody look on from now on.
    pub(crate) fn watch(&mut self) {
        let counted = self.session.kernel.traffic();
        let counted_spilled = self.session.memory.temp().totals().written;
        let observer = Observer { counted, counted_spilled, ..Observer::default() };
        self.observer = Some(Box::new(observer.into()));
    }

    /// An operator is asked for rows; `begun` is whether it was before. Nothing if nobody looks on,
    /// or the operator asks itself in another form.
    pub(crate) fn enter(&mut self, operator: &PlanNode, begun: &mut bool) -> Option<Entered> {
        let observer = self.observer.as_mut()?.get_mut();
        let id = operator.id();
        if observer.at_work.last() == Some(&id) {
            return None;
        }
        observer.count(self.session.kernel.traffic(), self.session.memory.temp().totals().written);
        observer.at_work.push(id);
        let done = observer.done.or_default(id);
        if !std::mem::replace(begun, true) {
            done.loops += 1;
            (done.in_loop, done.has_first) = (Duration::ZERO, false);
        }
        Some(Entered(self.session.kernel.now()))
    }

    /// An operator has given so many rows; none at its end.
    pub(crate) fn leave(&mut self, entered: Option<Entered>, rows: Option<usize>) {
        let (Some(Entered(began)), Some(observer)) = (entered, &mut self.observer) else { return };
        let observer = observer.get_mut();
        observer.count(self.session.kernel.traffic(), self.session.memory.temp().totals().written);
        let Some(id) = observer.at_work.pop() else { return };
        let done = observer.done.or_default(id);
        let took = self.session.kernel.now().since(began);
        done.in_loop = done.in_loop + took;
        done.last = done.last + took;
        if !std::mem::replace(&mut done.has_first, true) {
            done.first = done.first + done.in_loop;
        }
        done.rows += rows.unwrap_or(0) as u64;
    }

    /// Counts a key-set filter that is pushed down to a scan.
    pub(crate) fn count_key_set(&mut self, scan: &TableScan) {
        if let Some(observer) = &mut self.observer {
            *observer.get_mut().key_sets.or_default(scan.id()) += 1;
        }
    }
}
