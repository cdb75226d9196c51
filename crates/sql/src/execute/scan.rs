//! Reading a table by the path the planner chose.
//!
//! # Owns
//! From expressions to stored keys and ranges, which kind of read the transaction needs, what of
//! the conditions the data nodes can check, rows in the shape of the block.
//! # Guarantees
//! Every condition is checked here: a path that cannot be used with the values at hand (a text that
//! is no number) becomes a scan of all rows, and the answer is the same.

pub(crate) mod listed;
mod order;
pub(crate) mod partitions;
mod stored;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use actor::Mutation;
use client::{IndexBound, ScanRange, ScannedRows};
use collation::CollationId;
use model::{ColumnType, IndexId, Value};
use sql_expression::{Expression, KernelColumn, SqlError, to_kernel};
use sqltype::{Datum, SqlType, TypeKind};
use vector::{Block, Program};
use wire::{LockMode, WaitPolicy};

use crate::access::{Asked, ReadMode, Reader, Values};
use crate::catalog::ColumnDefinition;
use crate::catalog::Hidden;
use crate::catalog::hidden::{self};
use crate::catalog::key_value::{KeyValue, key_value};
use crate::execute::large::Outside;
use crate::execute::pushdown;
use crate::execute::run::Run;
use crate::kernel::Scan;
use crate::logical::formula::{Bounds, Formula};
use crate::memory::Held;
use crate::plan::operator::{AccessPath, EqualTo, IndexRange, Pattern, TableScan};
use crate::rows::{Row, memory_of_row};
use crate::session::Session;

pub(crate) use stored::{datum_of, datum_of_ref, fill, fill_scanned, given_datum, local_datum};

/// Keys looked up at a time.
const LOOKUPS: usize = 128;

/// A scan under way.
pub(crate) enum TableCursor<'p> {
    /// Not begun.
    New(&'p TableScan),
    /// Rows by key.
    Keys {
        scan: &'p TableScan,
        reader: Box<Reader>,
        keys: VecDeque<Values>,
        unique: bool,
        outside: Option<Box<Outside>>,
    },
    /// Rows of scans, one after the other.
    Scans {
        scan: &'p TableScan,
        open: VecDeque<Scan>,
        checks: Checks,
        outside: Option<Box<Outside>>,
        /// How many more rows are wanted, of those for which the conditions hold.
        enough: Option<u64>,
    },
    /// Nothing more.
    Done,
}

/// What conditions are still to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks {
    /// Of rows that come as they are stored.
    rows: bool,
    /// Of rows that a program has let through.
    blocks: bool,
}

/// Some rows, and blocks of what a program has made of others.
pub(crate) type Mixed = (Vec<Row>, Vec<Block>);

/// Some of what a scan finds.
pub(crate) struct Found<'p> {
    pub(crate) scan: &'p TableScan,
    /// Rows of the columns that the scan wants.
    pub(crate) rows: ScannedRows,
    /// The conditions of the scan are still to be checked of them.
    pub(crate) checks: bool,
    /// What a program has made of other rows.
    pub(crate) blocks: Vec<Block>,
}

/// The keys or the range that a path stands for, with the values of this execution.
pub(crate) enum Located {
    /// These keys.
    Keys(Vec<Values>),
    /// These ranges, none of which overlap; whether they hold what the path says and no more.
    Ranges { ranges: Vec<ScanRange>, exact: bool },
    /// No row can match.
    Nothing,
    /// The path cannot be used.
    All,
}

impl<'p> TableCursor<'p> {
    /// Begins a scan for a program that knows all of its conditions, or leaves the others to who
    /// takes its blocks. What it has made of rows comes in these, and other rows, which may be all,
    /// as they are without it.
    pub(crate) async fn with_program(
        run: &mut Run<'_>,
        scan: &'p TableScan,
        program: Arc<Program>,
    ) -> Result<Self, SqlError> {
        begin(run, scan, Some(program)).await
    }

    /// The next rows, in the shape of the block.
    pub(crate) async fn next(&mut self, run: &mut Run<'_>) -> Result<Option<Vec<Row>>, SqlError> {
        loop {
            let Some(found) = self.next_found(run).await? else { return Ok(None) };
            let rows = self.rows_of(run, found).await?;
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
    }

    /// What was found in the shape of the block, but for rows for which the conditions do not hold.
    pub(crate) async fn rows_of(
        &mut self,
        run: &mut Run<'_>,
        found: Found<'p>,
    ) -> Result<Vec<Row>, SqlError> {
        let enough = match self {
            Self::Scans { enough: Some(enough), .. } => usize::try_from(*enough).ok(),
            _ => None,
        };
        let (mut rows, blocks) = stored::rows_of(run, found, enough).await?;
        if let Self::Scans { scan, checks, .. } = self {
            for block in &blocks {
                stored::rows_of_block(run, scan, block, checks.blocks, &mut rows).await?;
            }
        }
        if let Self::Scans { enough: Some(enough), .. } = self {
            *enough = enough.saturating_sub(rows.len() as u64);
        }
        Ok(rows)
    }

    /// The next rows and blocks; perhaps none of both.
    pub(crate) async fn next_mixed(
        &mut self,
        run: &mut Run<'_>,
    ) -> Result<Option<Mixed>, SqlError> {
        match self.next_found(run).await? {
            Some(found) => stored::rows_of(run, found, None).await.map(Some),
            None => Ok(None),
        }
    }

    /// The next of what is found, as it is stored; perhaps nothing.
    pub(crate) async fn next_found(
        &mut self,
        run: &mut Run<'_>,
    ) -> Result<Option<Found<'p>>, SqlError> {
        if let Some((scan, outside)) = self.outside()
            && outside.has_rows()
        {
            let (values, checks) = Box::pin(outside.next(run, scan)).await?;
            return Ok(Some(Found { scan, rows: values.into(), checks, blocks: Vec::new() }));
        }
        let mut found = self.next_read(run).await?;
        if let (Some(found), Some((_, outside))) = (&mut found, self.outside()) {
            outside.take(std::mem::take(&mut found.rows).into_values(), found.checks);
        }
        Ok(found)
    }

    /// The same, of rows without the values that lie outside of them.
    async fn next_read(&mut self, run: &mut Run<'_>) -> Result<Option<Found<'p>>, SqlError> {
        loop {
            match self {
                Self::Done => return Ok(None),
                Self::New(scan) => {
                    let scan = *scan;
                    *self = begin(run, scan, None).await?;
                }
                Self::Keys { scan, reader, keys, unique, .. } => {
                    if keys.is_empty() {
                        *self = Self::Done;
                        continue;
                    }
                    let batch = keys.drain(..keys.len().min(LOOKUPS)).collect();
                    let rows = match &scan.path {
                        AccessPath::Unique { index, .. } if *unique => {
                            reader.by_unique_key(*index, batch).await?
                        }
                        _ => reader.by_primary_key(batch).await?,
                    };
                    let rows: Vec<Values> = rows.into_iter().flatten().collect();
                    let rows = rows.into();
                    return Ok(Some(Found { scan, rows, checks: true, blocks: Vec::new() }));
                }
                Self::Scans { scan, open, checks, .. } => match open.front_mut() {
                    Some(first) => match first.next_part().await? {
                        Some((rows, blocks)) => {
                            return Ok(Some(Found { scan, rows, checks: checks.rows, blocks }));
                        }
                        None => {
                            open.pop_front();
                        }
                    },
                    None => *self = Self::Done,
                },
            }
        }
    }

    /// What is kept of rows that have to be completed.
    fn outside(&mut self) -> Option<(&'p TableScan, &mut Outside)> {
        match self {
            Self::Keys { scan, outside, .. } | Self::Scans { scan, outside, .. } => {
                Some((*scan, outside.as_deref_mut()?))
            }
            Self::New(_) | Self::Done => None,
        }
    }
}

/// Begins a scan, with a program if there is one already.
async fn begin<'p>(
    run: &mut Run<'_>,
    scan: &'p TableScan,
    given: Option<Arc<Program>>,
) -> Result<TableCursor<'p>, SqlError> {
    let located = match listed::locate(run, scan).await? {
        Some(located) => located,
        None => locate(run, scan, &[])?,
    };
    let reader = Box::new(reader_of(run, scan).await?);
    let outside = Outside::of(scan, &reader);
    let (mut ranges, exact) = match located {
        Located::Nothing => return Ok(TableCursor::Done),
        Located::Keys(keys) => {
            let unique = matches!(scan.path, AccessPath::Unique { .. });
            let keys = order::sorted(scan, keys).into();
            return Ok(TableCursor::Keys { scan, reader, keys, unique, outside });
        }
        Located::Ranges { ranges, exact } => (ranges, exact),
        Located::All => (vec![ScanRange::Heap], false),
    };
    let enough = match &scan.limit {
        Some(bounds) => most_rows(run, bounds).await?,
        None => None,
    };
    let as_it_lies = given.is_some() || run.narrowed.has(scan.id());
    let by_key = !as_it_lies && order::is_cheap(run, scan, &ranges, enough).await;
    if let Some(index) = order::primary_index(scan).filter(|_| by_key) {
        let order = Some(wire::ScanOrder::Ascending);
        ranges = vec![ScanRange::Index { index, lower: None, upper: None, order }];
    }
    // What the range says of every row is not asked again.
    let implied = scan.covered && exact;
    let (filter, all_pushed) = if implied { (None, true) } else { pushed_filter(run, scan) };
    let limit = enough.filter(|_| all_pushed);
    let mut checks = Checks { rows: !implied, blocks: false };
    let computes = no_program(run, scan, limit.is_some()).is_none();
    let program = match given {
        Some(program) => Some(program),
        None if computes && !implied && !all_pushed && !by_key => {
            let (program, all) = pushdown::conditions(&run.context, scan).unzip();
            checks.blocks = all == Some(false);
            program
        }
        None => None,
    };
    let mut program = program;
    if let Some(program) = program.as_mut().filter(|program| implied && !program.filter.is_empty())
    {
        Arc::make_mut(program).filter.clear();
    }
    let narrowed = run.narrowed.take(scan.id());
    if let (Some(program), Some(sets)) = (&mut program, narrowed) {
        Arc::make_mut(program).members.extend(sets);
    }
    let asked = asked(run, scan, ranges, &[]);
    let scan_of = |asked| reader.scan(asked, filter.clone(), limit, program.clone());
    let open = asked.into_iter().map(scan_of).collect();
    Ok(TableCursor::Scans { scan, open, checks, outside, enough })
}

/// The ranges of a scan, each with keys of the partitions that are asked; all of them, if there are
/// none. Ranges that no partition can have rows of are left out.
pub(crate) fn asked(
    run: &mut Run<'_>,
    scan: &TableScan,
    ranges: Vec<ScanRange>,
    row: &[Datum],
) -> Vec<Asked> {
    let table = &scan.definition.table;
    if table.partition_count < 2 {
        let everywhere = |range| Asked { range, partition_keys: None };
        return ranges.into_iter().map(everywhere).collect();
    }
    let mut of_conditions = None;
    let mut of_range = |range: ScanRange| {
        let partition_keys = match partitions::of_range(table, &range) {
            Some(key) => Some(vec![key]),
            None => of_conditions
                .get_or_insert_with(|| {
                    partitions::of_conditions(scan, |value, of| key_of(run, value, of, row))
                })
                .clone(),
        };
        let some = partition_keys.as_ref().is_none_or(|keys| !keys.is_empty());
        some.then_some(Asked { range, partition_keys })
    };
    ranges.into_iter().filter_map(&mut of_range).collect()
}

/// Why the rows of a scan do not go through a program, if they do not.
pub(crate) fn no_program(run: &Run<'_>, scan: &TableScan, limited: bool) -> Option<&'static str> {
    if scan.lock.is_some() {
        return Some("its rows are locked");
    }
    if scan.ordered.is_some() {
        return Some("its rows come in the order of an index");
    }
    if limited {
        return Some("it ends with the first rows");
    }
    (!run.session.variables.pushdown).then_some("nines_pushdown is OFF")
}

/// LIMIT and OFFSET together: how many rows are needed at most.
async fn most_rows(run: &mut Run<'_>, bounds: &Bounds) -> Result<Option<u64>, SqlError> {
    let (count, offset) = limits(run, bounds).await?;
    Ok(count.map(|count| count.saturating_add(offset)))
}

/// The numbers of LIMIT and OFFSET.
pub(crate) async fn limits(
    run: &mut Run<'_>,
    bounds: &Bounds,
) -> Result<(Option<u64>, u64), SqlError> {
    let mut numbers = [None, None];
    for (number, formula) in numbers.iter_mut().zip([&bounds.count, &bounds.offset]) {
        if let Some(formula) = formula {
            let datum = run.scalar(formula).await?;
            let value = match datum {
                Datum::Int(v) => u64::try_from(v).ok(),
                Datum::UInt(v) => Some(v),
                Datum::Decimal(v) => v.to_i128().and_then(|v| u64::try_from(v).ok()),
                Datum::Bytes(text) => std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok()),
                _ => None,
            };
            *number = Some(value.ok_or_else(|| SqlError::wrong_arguments("LIMIT"))?);
        }
    }
    Ok((numbers[0], numbers[1].unwrap_or(0)))
}

/// Which read the transaction needs of this table.
pub(crate) async fn reader_of(run: &mut Run<'_>, scan: &TableScan) -> Result<Reader, SqlError> {
    let mode = read_mode(run.session, scan).await?;
    let (table, projection) = (scan.definition.table.clone(), scan.projection());
    Ok(Reader { kernel: run.session.kernel.clone(), table, mode, projection })
}

/// How the transaction has to read this table.
pub(crate) async fn read_mode(
    session: &mut Session,
    scan: &TableScan,
) -> Result<ReadMode, SqlError> {
    let id = scan.definition.table.id;
    if session.guards_reads() && !session.is_temporary(id) {
        match scan.lock {
            None => return Ok(ReadMode::Guarded(LockMode::Committed)),
            Some((lock, WaitPolicy::Wait)) => return Ok(ReadMode::Guarded(lock)),
            // Who does not wait does not want to see all there is.
            Some((_, WaitPolicy::Refuse | WaitPolicy::Skip)) => {}
        }
    }
    if let Some((lock, wait)) = scan.lock {
        let is_unlocked = session.kernel.mutated(Mutation::SqlReadsUnlocked);
        return Ok(if is_unlocked { ReadMode::Own } else { ReadMode::Locking(lock, wait) });
    }
    let snapshot = session.read_snapshot(&[id]).await?;
    let is_unseen = session.kernel.mutated(Mutation::SqlOwnChangesUnseen);
    Ok(match (snapshot, session.transaction.written.contains(&id) && !is_unseen) {
        (Some(at), false) => ReadMode::Snapshot(at),
        (Some(at), true) => ReadMode::Overlay(at),
        (None, true) => ReadMode::Own,
        (None, false) => ReadMode::Committed,
    })
}

/// The values of a path: keys or a range. `row` is what the block has so far.
pub(crate) fn locate(
    run: &mut Run<'_>,
    scan: &TableScan,
    row: &[Datum],
) -> Result<Located, SqlError> {
    let definition = &scan.definition;
    let type_of = |column: model::ColumnId| {
        definition.columns.iter().find(|c| c.column == column).map(|c| c.sql_type.clone())
    };
    let (columns, keys) = match &scan.path {
        AccessPath::Full => return Ok(Located::All),
        AccessPath::Ranges { index, columns, ranges, .. } => {
            return locate_ranges(run, scan, *index, columns, ranges, row);
        }
        AccessPath::Primary { keys } => (definition.table.primary_key.clone(), keys),
        AccessPath::Unique { index, keys, .. } => {
            let Some(index) = definition.table.unique_index(*index) else {
                return Ok(Located::All);
            };
            (index.columns.clone(), keys)
        }
    };
    let mut located = Vec::with_capacity(keys.len());
    for key in keys {
        let mut values = Vec::with_capacity(key.len());
        let mut matches = true;
        for (expression, column) in key.iter().zip(&columns) {
            let Some(sql_type) = type_of(*column) else { return Ok(Located::All) };
            match key_of(run, expression, &sql_type, row)? {
                KeyValue::Exact(value) => values.push(value),
                KeyValue::NoMatch => matches = false,
                KeyValue::Unusable => return Ok(Located::All),
            }
        }
        if matches {
            located.push(values);
        }
    }
    if located.len() > 1 {
        located = distinct_keys(run, scan, located);
    }
    Ok(if located.is_empty() { Located::Nothing } else { Located::Keys(located) })
}

/// Each key once: texts that a collation takes for equal are the same key.
fn distinct_keys(run: &Run<'_>, scan: &TableScan, mut keys: Vec<Values>) -> Vec<Values> {
    let base = &scan.definition.table;
    let cluster = run.session.kernel.cluster();
    let table = match &scan.path {
        AccessPath::Unique { index, .. } => {
            base.unique_index(*index).and_then(|index| cluster.tables.get(&index.table))
        }
        _ => Some(base),
    };
    let Some(table) = table else { return keys };
    let mut seen = BTreeSet::new();
    keys.retain(|key| table.primary_key_of(key).is_none_or(|key| seen.insert(key)));
    keys
}

/// The key that an expression's value is; NULL equals nothing.
fn key_of(
    run: &mut Run<'_>,
    expression: &Expression,
    sql_type: &SqlType,
    row: &[Datum],
) -> Result<KeyValue, SqlError> {
    let datum = expression.eval(row, &mut run.context)?;
    if datum.is_null() {
        return Ok(KeyValue::NoMatch);
    }
    Ok(match (&datum, &sql_type.kind) {
        // Stored in UTC; what was read as a column of the same table may have the same form.
        (_, TypeKind::Timestamp) => timestamp_key(run, &datum),
        _ => key_value(&datum, expression.sql_type(), sql_type),
    })
}

/// As [`key_of`], of what an index holds of a column.
fn bound_of(
    run: &mut Run<'_>,
    expression: &Expression,
    column: &ColumnDefinition,
    row: &[Datum],
) -> Result<KeyValue, SqlError> {
    let Some((collation, length)) = cut_of(column) else {
        return key_of(run, expression, &column.sql_type, row);
    };
    Ok(match expression.eval(row, &mut run.context)? {
        Datum::Null => KeyValue::NoMatch,
        Datum::Bytes(text) => {
            KeyValue::Exact(Value::Bytes(hidden::cut_sort_key(collation, &text, length)))
        }
        _ => KeyValue::Unusable,
    })
}

/// Of a column that holds the beginnings of sort keys: of which collation, and how much.
fn cut_of(column: &ColumnDefinition) -> Option<(CollationId, u32)> {
    match column.hidden {
        Some(Hidden::SortKey { collation, length, .. }) => Some((collation, length)),
        _ => None,
    }
}

fn timestamp_key(run: &Run<'_>, datum: &Datum) -> KeyValue {
    let at = match datum {
        Datum::DateTime(at) => *at,
        Datum::Bytes(text) => match sqltype::temporal::parse_date_time(text) {
            Some(parsed) if !parsed.garbage && parsed.offset.is_none() => parsed.value,
            _ => return KeyValue::Unusable,
        },
        _ => return KeyValue::Unusable,
    };
    let micros = run.context.facts.time_zone.moment(at);
    match micros.and_then(|micros| u64::try_from(micros).ok()) {
        Some(micros) => KeyValue::Exact(Value::UInt(micros)),
        None => KeyValue::Unusable,
    }
}

/// The ranges of an index with the values of this execution; those that overlap are made one, so
/// that no row is found twice.
fn locate_ranges(
    run: &mut Run<'_>,
    scan: &TableScan,
    index: IndexId,
    columns: &[usize],
    ranges: &[IndexRange],
    row: &[Datum],
) -> Result<Located, SqlError> {
    let mut located = Vec::with_capacity(ranges.len());
    let mut all_exact = true;
    for range in ranges {
        let Some(Ends { low, high, exact }) = locate_range(run, scan, columns, range, row)? else {
            continue;
        };
        if is_open(&low) && is_open(&high) && scan.ordered.is_none() {
            return Ok(Located::All);
        }
        all_exact &= exact;
        located.push((low, high));
    }
    if located.len() > 1 {
        located = merged_ranges(scan, columns, located);
    }
    let end = |end: IndexBound| (!is_open(&end)).then_some(end);
    let order = scan.ordered;
    let ranges: Vec<ScanRange> = located
        .into_iter()
        .map(|(low, high)| ScanRange::Index { index, lower: end(low), upper: end(high), order })
        .collect();
    Ok(if ranges.is_empty() {
        Located::Nothing
    } else {
        Located::Ranges { ranges, exact: all_exact }
    })
}

/// Whether an end leaves nothing out.
fn is_open(end: &IndexBound) -> bool {
    end.values.is_empty() && end.prefix.is_none()
}

/// The ends of a range of an index.
struct Ends {
    low: IndexBound,
    high: IndexBound,
    /// Rows in between, and no others, are what the range of the path says. What is compared with
    /// the beginning of a column's sort key alone is not.
    exact: bool,
}

/// The ends of one range; none when no row can be in it.
fn locate_range(
    run: &mut Run<'_>,
    scan: &TableScan,
    columns: &[usize],
    range: &IndexRange,
    row: &[Datum],
) -> Result<Option<Ends>, SqlError> {
    let column_of = |at: usize| &scan.definition.columns[columns[at]];
    let mut equal = Vec::new();
    for (at, EqualTo { value, null_safe }) in range.equal.iter().enumerate() {
        let column = column_of(at);
        if *null_safe && column.nullable && value.eval(row, &mut run.context)?.is_null() {
            equal.push(Value::Null);
            continue;
        }
        match bound_of(run, value, column, row)? {
            KeyValue::Exact(value) => equal.push(value),
            KeyValue::NoMatch => return Ok(None),
            KeyValue::Unusable => break,
        }
    }
    let fixed = equal.len();
    let mut low = IndexBound::including(equal);
    let mut high = low.clone();
    if fixed < range.equal.len() {
        return Ok(Some(Ends { low, high, exact: false }));
    }
    let mut exact = (0..fixed).all(|at| cut_of(column_of(at)).is_none());
    for (end, given) in [(&mut low, &range.low), (&mut high, &range.high)] {
        let Some((expression, inclusive)) = given else { continue };
        if expression.eval(row, &mut run.context)?.is_null() {
            return Ok(None);
        }
        // No stored value equal to it does not mean none above or below: no bound then.
        let column = column_of(fixed);
        match bound_of(run, expression, column, row)? {
            KeyValue::Exact(value) => {
                end.values.push(value);
                // What is greater may have the same beginning.
                let is_cut = cut_of(column).is_some();
                end.inclusive = *inclusive || is_cut;
                exact &= !is_cut;
            }
            KeyValue::NoMatch | KeyValue::Unusable => exact = false,
        }
    }
    if let Some(Pattern { value, escape }) = &range.like {
        exact = false;
        match value.eval(row, &mut run.context)? {
            Datum::Null => return Ok(None),
            Datum::Bytes(pattern) => {
                let cut = cut_of(column_of(fixed));
                let of_column = column_of(fixed).sql_type.collation;
                let collation = cut.map_or(of_column, |(collation, _)| collation);
                let prefix = collation::like_prefix(collation, &pattern, *escape);
                if let Some((collation, length)) = cut {
                    let (from, to) = hidden::prefix_bounds(collation, &prefix, length);
                    low.values.push(Value::Bytes(from));
                    high.values.extend(to.map(Value::Bytes));
                } else if of_column == CollationId::BINARY {
                    let column = column_of(fixed).column;
                    let stored = &scan.definition.table.columns[usize::from(column.0)];
                    bound_bytes(&mut low, &mut high, &prefix, stored.column_type);
                } else if !prefix.is_empty() {
                    low.prefix = Some(prefix.into());
                    high.prefix.clone_from(&low.prefix);
                }
            }
            _ => {}
        }
    }
    // A range with an upper bound alone would begin with the NULLs.
    let without_null = range.not_null || high.values.len() > fixed;
    let starts_open = low.values.len() == fixed && low.prefix.is_none();
    if starts_open && without_null && column_of(fixed).nullable {
        low.values.push(Value::Null);
        low.inclusive = false;
    }
    Ok(Some(Ends { low, high, exact }))
}

/// Bounds of the byte strings that begin with these bytes: from them on, and before the next bytes
/// that are greater than all of these strings.
fn bound_bytes(low: &mut IndexBound, high: &mut IndexBound, prefix: &[u8], stored: ColumnType) {
    let (longest, fixed) = match stored {
        ColumnType::Fixed(length) => (length, Some(usize::from(length))),
        stored => (stored.variable_max().unwrap_or(u16::MAX), None),
    };
    // No value begins with more bytes than the longest one has; the condition says so itself.
    if prefix.is_empty() || prefix.len() > usize::from(longest) {
        return;
    }
    let value = |mut bytes: Vec<u8>| {
        bytes.resize(fixed.unwrap_or(bytes.len()), 0);
        Value::Bytes(bytes.into())
    };
    low.values.push(value(prefix.to_vec()));
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX);
    if let Some(last) = last {
        let mut next = prefix[..=last].to_vec();
        next[last] += 1;
        high.values.push(value(next));
        high.inclusive = false;
    }
}

/// Ranges in order, without overlaps.
fn merged_ranges(
    scan: &TableScan,
    columns: &[usize],
    ranges: Vec<(IndexBound, IndexBound)>,
) -> Vec<(IndexBound, IndexBound)> {
    let table = &scan.definition.table;
    let kernel: Vec<_> = columns.iter().map(|at| scan.definition.columns[*at].column).collect();
    let bytes = |end: &IndexBound| {
        let key = match &end.prefix {
            Some(prefix) => table.key_of_prefix(&kernel, &end.values, prefix),
            None => table.key_of_values(&kernel, &end.values),
        };
        key.map(|key| key.0.to_vec())
    };
    // A low end that excludes its values, and a high end that includes them, are behind all keys
    // that begin with them.
    let after = |mut key: Vec<u8>, behind: bool| {
        if behind {
            key.extend([0xFF; 8]);
        }
        key
    };
    let mut keyed = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        let (Some(from), Some(to)) = (bytes(&low), bytes(&high)) else { continue };
        let from = after(from, !low.inclusive);
        let to = if is_open(&high) { vec![0xFF; 64] } else { after(to, high.inclusive) };
        keyed.push((from, to, low, high));
    }
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    let mut merged: Vec<(Vec<u8>, IndexBound, IndexBound)> = Vec::new();
    for (from, to, low, high) in keyed {
        match merged.last_mut() {
            Some((last_to, _, last_high)) if from <= *last_to => {
                if to > *last_to {
                    (*last_to, *last_high) = (to, high);
                }
            }
            _ => merged.push((to, low, high)),
        }
    }
    merged.into_iter().map(|(_, low, high)| (low, high)).collect()
}

/// What of the conditions the data nodes can check, and whether that is all of them.
fn pushed_filter(run: &Run<'_>, scan: &TableScan) -> (Option<model::Expression>, bool) {
    let columns: Vec<Option<KernelColumn>> = kernel_columns(scan);
    let (mut pushed, mut room) = (Vec::new(), COMPARISONS_MAX);
    for condition in &scan.conditions {
        pushed.extend(in_kernel(run, condition, &columns, &mut room));
    }
    let all = pushed.len() == scan.conditions.len();
    let filter = match pushed.len() {
        0 => None,
        1 => pushed.pop(),
        _ => Some(model::Expression::And(pushed)),
    };
    (filter, all)
}

/// The kernel's form of a condition, if it has one.
pub(crate) fn in_kernel(
    run: &Run<'_>,
    condition: &Formula,
    columns: &[Option<KernelColumn>],
    room: &mut usize,
) -> Option<model::Expression> {
    if *room == 0 || !condition.is_ready() {
        return None;
    }
    if condition.expression.has_more_parts(PARTS_OF_COMPARISON * *room) {
        return None;
    }
    to_kernel(&run.with_parameters(&condition.expression), columns, room)
}

/// Most comparisons that data nodes make of a row, beside those of a program. What is beyond is
/// checked here.
pub(crate) const COMPARISONS_MAX: usize = 1_024;
/// Parts of an expression for each of them, at most: three of the comparison, and its place in AND,
/// OR, NOT.
const PARTS_OF_COMPARISON: usize = 8;

/// The kernel's columns by place in the row.
pub(crate) fn kernel_columns(scan: &TableScan) -> Vec<Option<KernelColumn>> {
    let mut columns: Vec<Option<KernelColumn>> = vec![None; scan.width];
    for (at, column) in scan.definition.columns.iter().enumerate() {
        // Whole numbers mean the same in the kernel; other types are compared here alone.
        if let Some(place) = columns
            .get_mut(scan.offset + at)
            .filter(|_| crate::catalog::key_value::is_machine_integer(&column.sql_type))
        {
            let sql_type = column.sql_type.clone();
            *place = Some(KernelColumn { column: column.column, sql_type });
        }
    }
    columns
}

/// Looks rows up by the keys that each row of the input gives, a batch at a time.
pub(crate) async fn look_up(
    run: &mut Run<'_>,
    scan: &TableScan,
    rows: &[Row],
) -> Result<(Vec<Vec<Row>>, Option<Held>), SqlError> {
    let mut found: Vec<Vec<Row>> = vec![Vec::new(); rows.len()];
    let (mut keys, mut owners) = (Vec::new(), Vec::new());
    let mut ranges = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match locate(run, scan, row)? {
            Located::Nothing => {}
            Located::Keys(located) => {
                owners.extend(std::iter::repeat_n(at, located.len()));
                keys.extend(located);
            }
            Located::Ranges { ranges: located, .. } => {
                ranges.extend(asked(run, scan, located, row).into_iter().map(|of| (at, of)));
            }
            Located::All => {
                let all = asked(run, scan, vec![ScanRange::Heap], row);
                ranges.extend(all.into_iter().map(|of| (at, of)));
            }
        }
    }
    if keys.is_empty() && ranges.is_empty() {
        return Ok((found, None));
    }
    let mut held = run.hold("the rows that a join has looked up");
    let reader = reader_of(run, scan).await?;
    if !keys.is_empty() {
        let values = match &scan.path {
            AccessPath::Unique { index, .. } => reader.by_unique_key(*index, keys).await?,
            _ => reader.by_primary_key(keys).await?,
        };
        let (owners, values): (Vec<usize>, Vec<Values>) =
            owners.into_iter().zip(values).filter_map(|(at, row)| Some((at, row?))).unzip();
        for (at, completed) in owners.into_iter().zip(reader.complete(values).await?) {
            if let Some(values) = completed.values {
                let mut row = rows[at].clone();
                fill(scan, values, &mut row, run);
                held.add(memory_of_row(&row))?;
                found[at].push(row);
            }
        }
    }
    // Scans are opened together, so that their first rows are under way at the same time.
    let mut ranges = ranges.into_iter();
    loop {
        let open: Vec<(usize, Scan)> = ranges
            .by_ref()
            .take(16)
            .map(|(at, asked)| (at, reader.scan(asked, None, None, None)))
            .collect();
        if open.is_empty() {
            return Ok((found, Some(held)));
        }
        for (at, mut scanning) in open {
            while let Some(part) = scanning.next().await? {
                let count = part.len();
                for completed in reader.complete(part).await? {
                    let Some(values) = completed.values else { continue };
                    let mut row = rows[at].clone();
                    fill(scan, values, &mut row, run);
                    held.add(memory_of_row(&row))?;
                    found[at].push(row);
                }
                run.worked(count).await?;
            }
        }
    }
}
