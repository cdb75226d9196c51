//! What an expression can know beside its row, and what evaluating it leaves behind.
//!
//! # Owns
//! [`EvalContext`]: the session's facts, the statement's time and parameters, user variables,
//! results of subqueries and of functions that wait, warnings, random numbers.
//! # Guarantees
//! The same row, facts, time and seed give the same value: evaluation reads no
//! clock and no entropy.
//! # Not here
//! Who fills it: the session at the beginning of a statement, the executor for each row.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use collation::CollationId;
use sqltype::{Datum, StoreMode, TimeZone};
use stdx::Prng;

use crate::error::SqlError;
use crate::expression::{Expression, Node, SubqueryId};
use crate::function::BlockEncryption;
use crate::function::regexp::PatternCache;
use crate::pauses::{Pauses, STEP_BYTES, STEPS};
use crate::row_set::RowSet;
use crate::sql_mode::SqlMode;

/// What expressions ask about their session. Shared by the statements of a session until something
/// in it changes.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// CONNECTION_ID().
    pub connection_id: u64,
    /// USER(): `user@host` as the client gave it.
    pub user: Arc<str>,
    /// CURRENT_USER(): the account that was found for it.
    pub current_user: Arc<str>,
    /// CURRENT_ROLE().
    pub current_role: Arc<str>,
    /// DATABASE().
    pub database: Option<Arc<str>>,
    /// VERSION().
    pub version: Arc<str>,
    /// `@@sql_mode`.
    pub sql_mode: SqlMode,
    /// `@@collation_connection`.
    pub collation: CollationId,
    /// `@@time_zone`.
    pub time_zone: TimeZone,
    /// `@@div_precision_increment`.
    pub div_precision_increment: u8,
    /// `@@group_concat_max_len`.
    pub group_concat_max_len: u64,
    /// `@@max_allowed_packet`.
    pub max_allowed_packet: u64,
    /// `@@max_error_count`.
    pub max_error_count: usize,
    /// `@@default_week_format`.
    pub default_week_format: u8,
    /// `@@block_encryption_mode`.
    pub block_encryption: BlockEncryption,
    /// The node's part of generated UUIDs: 48 bits that no other node has.
    pub node: u64,
}

/// A user variable.
#[derive(Clone, Debug, PartialEq)]
pub struct UserVariable {
    /// Its value.
    pub value: Datum,
    /// The collation of its text.
    pub collation: CollationId,
}

/// How serious a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Note,
    /// The statement goes on.
    Warning,
    /// The statement has failed.
    Error,
}

/// The conditions that a statement has met.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    /// The first of them, at most `max_error_count`.
    pub entries: Vec<(Level, SqlError)>,
    /// How many there were.
    pub count: u64,
}

/// Everything outside of the row that evaluation reads or changes.
#[derive(Clone, Debug)]
pub struct EvalContext {
    /// The session.
    pub facts: Arc<SessionFacts>,
    /// When the statement began: microseconds since 1970 UTC. The NOW() of all of it.
    pub now: i64,
    /// SYSDATE(): the time as of the current row, as far as the executor keeps it up to date.
    pub sysdate: i64,
    /// RAND(), UUID() and RANDOM_BYTES().
    pub prng: Prng,
    /// The values of `?`.
    pub parameters: Vec<Datum>,
    /// `@name`, by lower-case name.
    pub user_variables: BTreeMap<String, UserVariable>,
    /// The row to be inserted, for `VALUES(column)`.
    pub inserted: Vec<Datum>,
    /// The current rows of the enclosing queries, innermost last.
    pub outer: Vec<Vec<Datum>>,
    /// LAST_INSERT_ID(), which `LAST_INSERT_ID(n)` sets.
    pub last_insert_id: u64,
    /// Whether this statement has called `LAST_INSERT_ID(n)`.
    pub last_insert_id_set: bool,
    /// ROW_COUNT().
    pub row_count: i64,
    /// FOUND_ROWS().
    pub found_rows: u64,
    /// What the client attached to its command: names with texts or NULL.
    pub query_attributes: Option<Rc<[(String, Datum)]>>,
    /// What was met on the way.
    pub warnings: Warnings,
    /// Values that do not fit are errors: a strict SQL mode, and the statement writes.
    pub strict: bool,
    /// IGNORE: a subquery of several rows where one value is wanted is NULL, with a warning.
    pub ignore: bool,
    /// The number of the row at hand, from 1, as warnings name it.
    pub row_number: u64,
    /// Random sequences of RAND(n), by the number of the call.
    pub(crate) sequences: BTreeMap<u32, RandomSequence>,
    pub(crate) patterns: PatternCache,
    subqueries: BTreeMap<SubqueryId, Rc<RowSet>>,
    deferred: BTreeMap<u32, Datum>,
    /// Bytes of texts that functions have been given and have made.
    pub(crate) work: u64,
    /// What is called now and then, and what was done since.
    pub pauses: Pauses,
    steps: u64,
    /// Bytes that aggregates have come to keep since somebody set it to zero.
    pub kept_bytes: u64,
    /// Bytes of large values that are made on the way to the value of one expression.
    large_bytes: u64,
    /// How much that may be, and all user variables together.
    pub large_bytes_max: u64,
    /// The last UUID(): its time never goes back.
    pub(crate) uuid_time: u64,
    pub(crate) uuid_short: u64,
}

/// The state of RAND(n).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomSequence {
    pub(crate) first: u32,
    pub(crate) second: u32,
}

impl SessionFacts {
    /// A session with the defaults of a server.
    pub fn new() -> Self {
        Self {
            connection_id: 0,
            user: "".into(),
            current_user: "".into(),
            current_role: "NONE".into(),
            database: None,
            version: "8.0.0".into(),
            sql_mode: SqlMode::DEFAULT,
            collation: CollationId::DEFAULT,
            time_zone: TimeZone::UTC,
            div_precision_increment: 4,
            group_concat_max_len: 1024,
            max_allowed_packet: 64 << 20,
            max_error_count: 1024,
            default_week_format: 0,
            block_encryption: BlockEncryption::DEFAULT,
            node: 0,
        }
    }
}

impl SessionFacts {
    /// What the SQL mode says about values that do not fit, where they are not stored: nothing is
    /// an error.
    pub(crate) fn store_mode(&self) -> StoreMode {
        StoreMode {
            strict: false,
            no_zero_date: self.sql_mode.contains(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: self.sql_mode.contains(SqlMode::NO_ZERO_IN_DATE),
            truncate_fractions: self.sql_mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL),
        }
    }
}

impl Default for SessionFacts {
    fn default() -> Self {
        Self::new()
    }
}

impl EvalContext {
    /// 1690 for an operation, with the values of parameters: literals of a statement that came as
    /// text are parameters of its kept plan.
    pub(crate) fn out_of_range(&self, kind: &str, operation: &Expression) -> SqlError {
        let mut known = operation.clone();
        known.visit_mut(&mut |part| {
            if let Node::Parameter(number) = part.node
                && let Some(value) = self.parameters.get(number as usize)
            {
                part.node = Node::Constant(value.clone());
            }
        });
        SqlError::out_of_range(kind, known)
    }

    /// The context of a statement that begins at `now`, in microseconds since 1970 UTC.
    pub fn new(facts: Arc<SessionFacts>, now: i64, seed: u64) -> Self {
        Self {
            facts,
            now,
            sysdate: now,
            prng: Prng::new(seed),
            parameters: Vec::new(),
            user_variables: BTreeMap::new(),
            inserted: Vec::new(),
            outer: Vec::new(),
            last_insert_id: 0,
            last_insert_id_set: false,
            row_count: -1,
            found_rows: 0,
            query_attributes: None,
            warnings: Warnings::default(),
            strict: false,
            ignore: false,
            row_number: 1,
            sequences: BTreeMap::new(),
            patterns: PatternCache::default(),
            subqueries: BTreeMap::new(),
            deferred: BTreeMap::new(),
            work: 0,
            pauses: Pauses::default(),
            steps: 0,
            kept_bytes: 0,
            large_bytes: 0,
            large_bytes_max: u64::MAX,
            uuid_time: 0,
            uuid_short: 0,
        }
    }

    /// Takes the rows of a subquery: once for the statement, or for the current row if it is
    /// correlated.
    pub fn set_subquery(&mut self, id: SubqueryId, rows: RowSet) {
        self.subqueries.insert(id, Rc::new(rows));
    }

    /// Whether the rows of this subquery are there.
    pub fn has_subquery(&self, id: SubqueryId) -> bool {
        self.subqueries.contains_key(&id)
    }

    /// Forgets the rows of a subquery, so that it is run again.
    pub fn forget_subquery(&mut self, id: SubqueryId) {
        self.subqueries.remove(&id);
    }

    /// The rows of a subquery that the executor has run.
    pub fn subquery(&self, id: SubqueryId) -> Result<Rc<RowSet>, SqlError> {
        let missing = || SqlError::internal(format_args!("subquery {} was not run", id.0));
        self.subqueries.get(&id).cloned().ok_or_else(missing)
    }

    /// Takes the result of a function that waits, for the current row.
    pub fn set_deferred(&mut self, slot: u32, value: Datum) {
        self.deferred.insert(slot, value);
    }

    pub(crate) fn deferred(&self, slot: u32) -> Result<&Datum, SqlError> {
        let missing = || SqlError::internal(format_args!("deferred function {slot} was not run"));
        self.deferred.get(&slot).ok_or_else(missing)
    }

    /// Makes a row the current one of the query around those evaluated from here on.
    pub fn push_outer(&mut self, row: Vec<Datum>) {
        self.outer.push(row);
    }

    /// Ends what [`EvalContext::push_outer`] began.
    pub fn pop_outer(&mut self) -> Option<Vec<Datum>> {
        self.outer.pop()
    }

    /// A condition under which MySQL goes on with a warning, or fails when the statement writes in
    /// a strict SQL mode.
    pub fn warn(&mut self, condition: SqlError) -> Result<(), SqlError> {
        if self.strict && is_error_when_strict(condition.code()) {
            return Err(condition);
        }
        self.note(Level::Warning, condition);
        Ok(())
    }

    /// A condition that never stops the statement.
    pub fn note(&mut self, level: Level, condition: SqlError) {
        self.warnings.count += 1;
        if self.warnings.entries.len() < self.facts.max_error_count {
            self.warnings.entries.push((level, condition));
        }
    }

    /// Division by zero: NULL, with whatever the SQL mode wants beside it.
    pub(crate) fn division_by_zero(&mut self) -> Result<Datum, SqlError> {
        if self.facts.sql_mode.contains(SqlMode::ERROR_FOR_DIVISION_BY_ZERO) {
            self.warn(SqlError::of::<1365>(&[]))?;
        }
        Ok(Datum::Null)
    }

    /// Counts so many small parts of expressions as done.
    ///
    /// # Errors
    /// The statement is to end.
    #[inline]
    pub(crate) fn step(&mut self, parts: u64) -> Result<(), SqlError> {
        self.steps += parts;
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        self.pauses.look()
    }

    /// The same for a call, with the bytes that it has worked on since there were so many.
    #[inline]
    pub(crate) fn called(&mut self, before: u64) -> Result<(), SqlError> {
        self.step(self.work.saturating_sub(before) / STEP_BYTES + 1)
    }

    /// The same for so many bytes.
    pub(crate) fn step_bytes(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.step(bytes as u64 / STEP_BYTES)
    }

    /// The same for a value that was copied.
    pub(crate) fn copied(&mut self, value: &Datum) -> Result<(), SqlError> {
        match value {
            Datum::Bytes(bytes) | Datum::Json(bytes) => self.step_bytes(bytes.len()),
            _ => Ok(()),
        }
    }

    /// Where the large values of an expression begin.
    pub(crate) fn large_bytes(&self) -> u64 {
        self.large_bytes
    }

    /// Takes note of the value of a call: what its arguments took is given up, down to what there
    /// was before.
    #[inline]
    pub(crate) fn made(&mut self, before: u64, value: &Datum) -> Result<(), SqlError> {
        self.large_bytes = before;
        let (Datum::Bytes(bytes) | Datum::Json(bytes)) = value else { return Ok(()) };
        let size = bytes.len() as u64;
        self.work += size;
        if bytes.len() >= LARGE {
            self.check_large(size)?;
            self.large_bytes += size;
        }
        Ok(())
    }

    /// Refuses to make a value of so many bytes beside those that are under way.
    pub(crate) fn check_large(&self, size: u64) -> Result<(), SqlError> {
        if size < LARGE as u64 || self.large_bytes.saturating_add(size) <= self.large_bytes_max {
            return Ok(());
        }
        Err(over_memory(self.large_bytes_max, "the values of an expression"))
    }

    /// Refuses a value for a user variable that is too much for memory with those of the others.
    pub(crate) fn check_variable(&self, name: &str, value: &Datum) -> Result<(), SqlError> {
        let size_of = |value: &Datum| match value {
            Datum::Bytes(bytes) | Datum::Json(bytes) => bytes.len() as u64,
            _ => 0,
        };
        let new = size_of(value);
        if new < LARGE as u64 {
            return Ok(());
        }
        let others = self.user_variables.iter().filter(|(other, _)| *other != name);
        let others: u64 = others.map(|(_, other)| size_of(&other.value)).sum();
        if others.saturating_add(new) <= self.large_bytes_max {
            Ok(())
        } else {
            Err(over_memory(self.large_bytes_max, "user variables"))
        }
    }

    /// Bytes of texts that functions have been given and have made since this was asked last.
    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Begins with the value of another expression: nothing large is under way.
    pub fn begin_value(&mut self) {
        self.large_bytes = 0;
    }

    /// A random number from 0 up to 1.
    pub(crate) fn random(&mut self) -> f64 {
        (self.prng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The warnings that a strict SQL mode makes errors of statements that write.
fn is_error_when_strict(code: u16) -> bool {
    matches!(
        code,
        1048 | 1260 | 1261 | 1264 | 1265 | 1292 | 1364 | 1365 | 1366 | 1406 | 1411 | 1441 | 3020
    )
}

/// Values shorter than this are not counted.
pub const LARGE: usize = 64 << 10;

/// 3170 for large values.
fn over_memory(limit: u64, what: &str) -> SqlError {
    let remedy = "Have the statement make smaller values, or raise connection_memory_limit or \
                  global_connection_memory_limit.";
    SqlError::of::<3170>(&[&limit, &what, &remedy])
}

impl UserVariable {
    /// A variable with this value; text has the default collation.
    pub fn new(value: Datum) -> Self {
        Self { value, collation: CollationId::DEFAULT }
    }
}
