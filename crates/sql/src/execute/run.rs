//! One execution of a statement: what its operators and expressions share.
//!
//! # Owns
//! [`Run`]: the session, the context of evaluation, functions that wait.
//! # Guarantees
//! An expression is evaluated when everything it waits for is there. What evaluation leaves behind
//! (warnings, user variables, LAST_INSERT_ID) comes back to the session.
//! # Not here
//! Operators (`cursor`), the rows of subqueries (`subquery`).

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use sql_expression::{
    Deferred, DeferredFunction, EvalContext, Expression, Node, ResultType, SqlError, SubqueryId,
    SubqueryUse,
};
use sqltype::Datum;
use stdx::Duration;
use vector::KeySet;

use crate::execute::observe::Observer;
use crate::execute::subquery::kept::{ByKey, Searched};
use crate::logical::formula::Formula;
use crate::memory::Held;
use crate::plan::operator::{Subplan, TableScan};
use crate::plan::operator_id::{OperatorId, PerOperator};
use crate::rows::Row;
use crate::session::Session;
use crate::spill::DiskWaiter;

/// A future in a recursion.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlError>> + 'a>>;

/// Bytes that a function works on in the time of a row.
const WORK_BYTES: u64 = 1_024;
/// Work of a row that is made to be written, in rows that are read.
const WRITTEN_ROW: usize = 4;

/// About what a key takes in a map beside its bytes.
pub(crate) const KEY_BYTES: usize = 64;

/// Keys that have been seen: those of rows that are wanted once.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeSet<Vec<u8>>);

impl Seen {
    /// Whether a key has come before.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.0.contains(key)
    }

    /// Takes note of a key, which somebody holds; whether it comes for the first time.
    pub(crate) fn insert(&mut self, key: Vec<u8>) -> bool {
        self.0.insert(key)
    }

    /// Whether a key comes for the first time. It is held from then on.
    ///
    /// # Errors
    /// 3170 if that is too much.
    pub(crate) fn is_new(&mut self, key: Vec<u8>, held: &mut Held) -> Result<bool, SqlError> {
        let bytes = KEY_BYTES + key.len();
        let is_new = self.0.insert(key);
        if is_new {
            held.add(bytes)?;
        }
        Ok(is_new)
    }
}

/// Errors that end a statement whatever its rows are: it was killed, took too long or too much, or
/// its temporary files cannot be used.
pub(crate) const ENDS: [u16; 7] = [1021, 1024, 1026, 1053, 1317, 3024, 3170];

/// Turns in which a statement looks whether a temporary file has gone on.
const DISK_TURNS: u32 = 4;
/// How long it waits after these before each look.
const DISK_PAUSE: Duration = Duration::from_micros(100);

/// A subquery as an expression of its own.
pub(crate) fn alone(subquery: &SubqueryUse) -> Expression {
    let result = ResultType::truth(true);
    Expression { node: Node::Subquery(Box::new(subquery.clone())), result }
}

/// An execution under way.
pub(crate) struct Run<'s> {
    pub(crate) session: &'s mut Session,
    pub(crate) context: EvalContext,
    pub(super) subplans: BTreeMap<SubqueryId, Subplan>,
    /// Of correlated subqueries, by key.
    pub(super) keyed: BTreeMap<SubqueryId, ByKey>,
    /// Subqueries that are asked for single values, and have not been run as a whole.
    pub(super) searched: BTreeMap<SubqueryId, Searched>,
    /// What the rows of other subqueries take.
    pub(super) of_subqueries: BTreeMap<SubqueryId, Held>,
    /// The newest rows of recursive tables, by number.
    pub(crate) work_tables: BTreeMap<u32, Rc<Vec<Row>>>,
    /// What scans are to look for, the next time each is begun.
    pub(crate) narrowed: PerOperator<Vec<KeySet>>,
    /// Sides of joins that turned out too large to be sent to the data nodes.
    pub(crate) too_large: BTreeSet<OperatorId>,
    /// Rows computed since the last breath.
    work: u64,
    /// Bytes of large values that rows have been made of.
    pub(crate) large_bytes: usize,
    /// Rows an operator had before LIMIT, for SQL_CALC_FOUND_ROWS.
    pub(crate) unlimited_rows: Option<u64>,
    /// Looks on, for EXPLAIN.
    pub(crate) observer: Option<Box<RefCell<Observer>>>,
    /// An operator is asked once more at its end: those below it are not.
    #[cfg(debug_assertions)]
    pub(crate) asks_again: bool,
}

impl DiskWaiter for Run<'_> {
    /// Lets others have the worker until the host may have gone on with temporary files: for a few
    /// turns, as what is in the system's cache is there soon, and then for longer.
    async fn wait_for_disk(&self, turns: &mut u32) -> Result<(), SqlError> {
        *turns += 1;
        let kernel = &self.session.kernel;
        if *turns <= DISK_TURNS {
            kernel.breathe().await?
        } else {
            kernel.check_interrupt()?;
            kernel.sleep(DISK_PAUSE).await?;
        }
        self.session.shared.pace.resume();
        Ok(())
    }
}

impl<'s> Run<'s> {
    /// Begins an execution with these parameters.
    pub(crate) fn new(session: &'s mut Session, parameters: &[Datum]) -> Self {
        let mut context = session.context();
        context.parameters = parameters.to_vec();
        Self {
            session,
            context,
            subplans: BTreeMap::new(),
            keyed: BTreeMap::new(),
            searched: BTreeMap::new(),
            of_subqueries: BTreeMap::new(),
            work_tables: BTreeMap::new(),
            narrowed: PerOperator::default(),
            too_large: BTreeSet::new(),
            work: 0,
            large_bytes: 0,
            unlimited_rows: None,
            observer: None,
            #[cfg(debug_assertions)]
            asks_again: false,
        }
    }

    /// An expression with its parameters replaced by their values.
    pub(crate) fn with_parameters(&self, expression: &Expression) -> Expression {
        with_parameters(&self.context, expression)
    }

    /// Makes subqueries known to the expressions that use them.
    pub(crate) fn add_subplans(&mut self, subplans: &[Subplan]) {
        for subplan in subplans {
            self.subplans.insert(subplan.id, subplan.clone());
        }
    }

    /// The plan of a subquery.
    pub(crate) fn subplan(&self, id: SubqueryId) -> Option<&Subplan> {
        self.subplans.get(&id)
    }

    /// About how many rows the table of a scan has; 0 if that is not known.
    pub(crate) fn rows_of_table(&self, scan: &TableScan) -> u64 {
        self.session.shared.statistics.rows(scan.definition.table.id).unwrap_or(0)
    }

    /// Gives back to the session what it has lent, after a run that was only for a look.
    pub(crate) fn dismiss(self) {
        self.session.user_variables = self.context.user_variables;
    }

    /// Gives back to the session what evaluation has changed.
    pub(crate) fn finish(self) {
        let Self { session, context, .. } = self;
        session.absorb(context);
    }

    /// How many rows of what could be done for so many at once are done before the next look at the
    /// clock, or are written at once: fewer beside others who want something, whose operations wait
    /// for these in the data nodes.
    pub(crate) fn portion(&self, rows: usize) -> usize {
        self.session.shared.pace.portion(rows)
    }

    /// Counts work, and lets others have the worker when it was much.
    pub(crate) async fn worked(&mut self, rows: usize) -> Result<(), SqlError> {
        self.work += rows as u64;
        if !self.session.shared.pace.is_look_due(self.work) {
            return Ok(());
        }
        let work = std::mem::take(&mut self.work);
        let mut turns = 0;
        while self.session.memory.temp().is_behind() {
            self.wait_for_disk(&mut turns).await?;
        }
        if self.session.shared.pace.is_over(work) {
            self.session.kernel.breathe().await?;
            self.session.shared.pace.resume();
        }
        Ok(())
    }

    /// Counts the row that was evaluated last as work, for more if it took long texts.
    pub(crate) async fn worked_a_row(&mut self) -> Result<(), SqlError> {
        let more = self.context.take_work() / WORK_BYTES;
        self.worked(1 + usize::try_from(more).unwrap_or(usize::MAX)).await
    }

    /// Memory for something that errors name so; none yet.
    pub(crate) fn hold(&self, what: &'static str) -> Held {
        self.session.memory.hold_for_operator(what)
    }

    /// The same for rows on their way, of which there are few at a time: where operators spill,
    /// they pass although the rest of the memory is used up.
    pub(crate) fn hold_in_passing(&self, what: &'static str) -> Held {
        let mut held = self.hold(what);
        held.be_lenient(self.may_spill());
        held
    }

    /// Whether rows that do not fit memory may go to temporary files.
    pub(crate) fn may_spill(&self) -> bool {
        self.session.memory.temp().may_spill()
    }

    /// Counts a row that was made to be written, which takes longer than to read one.
    pub(crate) async fn worked_to_write(&mut self) -> Result<(), SqlError> {
        self.worked(WRITTEN_ROW).await
    }

    /// Evaluates a formula over a row.
    pub(crate) async fn value(
        &mut self,
        formula: &Formula,
        row: &[Datum],
    ) -> Result<Datum, SqlError> {
        self.begin_value(formula, row).await?;
        formula.expression.eval(row, &mut self.context)
    }

    /// As [`Run::value`], where something takes it: of a quotient more digits than its type has.
    pub(crate) async fn unrounded(
        &mut self,
        formula: &Formula,
        row: &[Datum],
    ) -> Result<Datum, SqlError> {
        self.begin_value(formula, row).await?;
        formula.expression.unrounded(row, &mut self.context).map(Cow::into_owned)
    }

    /// Whether a condition is true of a row.
    pub(crate) async fn holds(
        &mut self,
        formula: &Formula,
        row: &[Datum],
    ) -> Result<bool, SqlError> {
        self.make_ready(formula, row).await?;
        Ok(formula.expression.truth(row, &mut self.context)? == Some(true))
    }

    /// Has all there that a formula needs beside its row.
    async fn make_ready(&mut self, formula: &Formula, row: &[Datum]) -> Result<(), SqlError> {
        if formula.is_ready() { Ok(()) } else { self.prepare(&formula.expression, row).await }
    }

    /// As [`Run::make_ready`], for the value of its own.
    async fn begin_value(&mut self, formula: &Formula, row: &[Datum]) -> Result<(), SqlError> {
        self.make_ready(formula, row).await?;
        self.context.begin_value();
        Ok(())
    }

    /// Whether all conditions are true of a row.
    pub(crate) async fn all_hold(
        &mut self,
        conditions: &[Formula],
        row: &[Datum],
    ) -> Result<bool, SqlError> {
        for condition in conditions {
            if !self.holds(condition, row).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Evaluates a formula that depends on no row.
    pub(crate) async fn scalar(&mut self, formula: &Formula) -> Result<Datum, SqlError> {
        self.value(formula, &[]).await
    }

    /// Runs what an expression waits for: subqueries, functions that take time.
    pub(crate) fn prepare<'a>(
        &'a mut self,
        expression: &'a Expression,
        row: &'a [Datum],
    ) -> Boxed<'a, ()> {
        Box::pin(async move {
            let mut waits: Vec<&Expression> = Vec::new();
            expression.visit(&mut |part| {
                if matches!(part.node, Node::Subquery(_) | Node::Deferred(_)) {
                    waits.push(part);
                }
            });
            for part in waits {
                match &part.node {
                    Node::Subquery(subquery)
                        if (subquery.correlated
                            || self.searched.contains_key(&subquery.id)
                            || !self.context.has_subquery(subquery.id)) =>
                    {
                        self.run_subquery(subquery, row).await?;
                    }
                    Node::Deferred(deferred) => self.run_deferred(deferred, row).await?,
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// Whether a value, or one of a row of values, is NULL.
    pub(crate) fn has_null(
        &mut self,
        operand: &Expression,
        row: &[Datum],
    ) -> Result<bool, SqlError> {
        let parts = match &operand.node {
            Node::Row(list) => &**list,
            _ => std::slice::from_ref(operand),
        };
        for part in parts {
            if part.eval(row, &mut self.context)?.is_null() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn run_deferred(&mut self, deferred: &Deferred, row: &[Datum]) -> Result<(), SqlError> {
        let mut arguments = Vec::with_capacity(deferred.arguments.len());
        for argument in &deferred.arguments {
            arguments.push(argument.eval(row, &mut self.context)?);
        }
        let value = match deferred.function {
            DeferredFunction::Sleep => self.sleep(arguments.first()).await?,
            DeferredFunction::Benchmark => Datum::Int(0),
            DeferredFunction::CommitReceipt => self.session.commit_receipt().await?,
            DeferredFunction::GetLock
            | DeferredFunction::ReleaseLock
            | DeferredFunction::ReleaseAllLocks
            | DeferredFunction::IsFreeLock
            | DeferredFunction::IsUsedLock => {
                self.session.named_lock(deferred.function, &arguments).await?
            }
        };
        self.context.set_deferred(deferred.slot, value);
        Ok(())
    }

    /// SLEEP: 0, or 1 when it was interrupted.
    async fn sleep(&mut self, seconds: Option<&Datum>) -> Result<Datum, SqlError> {
        let seconds = match seconds {
            Some(Datum::Int(v)) => *v as f64,
            Some(Datum::UInt(v)) => *v as f64,
            Some(Datum::Double(v)) => *v,
            Some(Datum::Decimal(v)) => v.to_f64(),
            Some(Datum::Bytes(text)) => sqltype::number::read_double(text).value,
            _ => f64::NAN,
        };
        if !(0.0..=1e9).contains(&seconds) {
            return Err(SqlError::wrong_arguments("sleep"));
        }
        // Only the call that is interrupted says so; those of later rows end the statement.
        self.session.kernel.check_kill()?;
        let span = Duration::from_micros((seconds * 1e6) as u64);
        match self.session.kernel.sleep(span).await {
            Ok(()) => Ok(Datum::Int(0)),
            Err(crate::kernel::Failure::Interrupted(crate::kernel::Interrupt::Killed)) => {
                Ok(Datum::Int(1))
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

/// An expression with its parameters replaced by their values, as far as these are known.
pub(crate) fn with_parameters(context: &EvalContext, expression: &Expression) -> Expression {
    let mut known = expression.clone();
    known.visit_mut(&mut |part| {
        if let Node::Parameter(number) = part.node
            && let Some(value) = context.parameters.get(number as usize)
        {
            part.node = Node::Constant(value.clone());
        }
    });
    known
}
